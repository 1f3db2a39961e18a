"""Which layout does a library have? All are tried, and those that fit are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connections._jax import ArrayLike
from connections._words import words_of
from connections.checks import (
    ShapeError,
    as_array,
    html_table,
    require_duration,
    require_finite,
    require_function,
    require_type,
)
from connections.referee.audit import audit_samples
from connections.referee.corpus_robots import CorpusRobot, candidates, layouts_of, robot_named
from connections.referee.layouts import Layout

Array = NDArray[np.float64]

#: Of H and the bias against the reference: a wrong layout is far off, in single precision, too.
TOLERANCE = 1e-3
_COLUMNS = ("layout", "fits", "H", "bias", "gravity", "words")


@dataclass(frozen=True)
class LayoutRow:
    """How well a layout fits.

    Parameters
    ----------
    layout : Layout
    mass_matrix, bias, gravity : residuals relative to their scales, of H and gravity against the reference,
        and of the bias against the reference or, without one, against H itself; NaN where there are none.
    fits : whether all are within the tolerance.
    words : why there are none, such as an error of the function.

    Examples
    --------
    >>> from connections import referee
    >>> referee.LayoutRow(referee.fixed(), 1e-16, 2e-16, 0.0, True).fits
    True
    """

    layout: Layout
    mass_matrix: float
    bias: float
    gravity: float
    fits: bool
    words: str = ""


@dataclass(frozen=True)
class LayoutSearch:
    """The layouts that were tried; `print` it.

    Parameters
    ----------
    rows : the best first.

    Examples
    --------
    >>> from connections import referee
    >>> robot = referee.robot("planar_base")
    >>> H = dict(zip(map(tuple, robot.q), robot.mass_matrix))
    >>> search = referee.detect_layout(lambda q: H[tuple(q)], robot=robot)
    >>> search.fits == (robot.layout,)
    True
    """

    rows: tuple[LayoutRow, ...]

    @property
    def fits(self) -> tuple[Layout, ...]:
        """The layouts that fit, the best first."""
        return tuple(row.layout for row in self.rows if row.fits)

    def __str__(self) -> str:
        wide = max(len(row.layout.name) for row in self.rows)
        return "\n".join(
            f"{name:<{wide}}  {fits:<4}  {H:>8}  {bias:>8}  {gravity:>8}  {words}".rstrip()
            for name, fits, H, bias, gravity, words in (_COLUMNS, *self._texts())
        )

    def _repr_html_(self) -> str:
        return html_table(f"{len(self.fits)} of {len(self.rows)} layouts fit", self._texts(), _COLUMNS)

    def _texts(self) -> list[tuple[str, ...]]:
        return [
            (
                row.layout.name,
                "yes" if row.fits else "no",
                _number(row.mass_matrix),
                _number(row.bias),
                _number(row.gravity),
                row.words,
            )
            for row in self.rows
        ]


def detect_layout(
    mass_matrix: Callable[[Array], Any],
    bias: Callable[[Array, Array], Any] | None = None,
    gravity: Callable[[Array], Any] | None = None,
    *,
    robot: str | CorpusRobot | None = None,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    candidates: Sequence[Layout] | None = None,
    tolerance: float = TOLERANCE,
) -> LayoutSearch:
    """The layouts of which a library's H and bias can be.

    With a robot of the corpus, its references are brought into each layout and compared. Of a single body
    some cannot be told apart, such as the orders of a quaternion on which nothing depends. Without a robot,
    the bias is compared with the one that H itself implies in each layout; then layouts that differ by a
    rigid motion of the base frame alone cannot be told apart, such as "frame" and "com" in body axes.

    Parameters
    ----------
    mass_matrix, bias, gravity : as of `audit_functions`; without a robot, the bias is needed, and gravity not
        looked at.
    robot : a name of the corpus, or what `robot` returns.
    q, v : (nq,) and (n,) in the library's layout, without a robot. A turned base tells more.
    candidates : the layouts to try; None for all of the base, which is found from nq - n without a robot.
    tolerance : relative, of both.

    Raises
    ------
    ValueError : neither a robot nor samples are given, or no layout has these numbers of q and v.

    Examples
    --------
    A puck of 2 kg, whose library gives velocities in its own axes, linear part first.

    >>> import numpy as np
    >>> from connections import referee
    >>> H = lambda q: np.diag([2.0, 2.0, 0.3])
    >>> bias = lambda q, v: 2.0 * v[2] * np.array([-v[1], v[0], 0.0])
    >>> search = referee.detect_layout(H, bias, q=[0.1, 0.2, 0.3], v=[0.5, -0.4, 0.6])
    >>> [layout.name for layout in search.fits]
    ['planar(vw, body, frame)']
    """
    tolerance = require_duration("tolerance", tolerance)
    if candidates is not None:
        if not isinstance(candidates, list | tuple):
            raise TypeError(f"candidates: expected a list of layouts, got {words_of(candidates)}")
        for number, layout in enumerate(candidates):
            require_type(f"candidates[{number}]", layout, Layout)
    require_function("mass_matrix", mass_matrix, "q -> H (n, n)")
    if bias is not None:
        require_function("bias", bias, "(q, v) -> C v (n,)")
    if gravity is not None:
        require_function("gravity", gravity, "q -> g (n,)")
    if robot is not None:
        known = robot_named(robot)
        functions = mass_matrix, bias, gravity
        rows = [_against_reference(each, functions, known, tolerance) for each in _tried(known, candidates)]
    else:
        rows = _alone(mass_matrix, bias, q, v, candidates, tolerance)
    return LayoutSearch(tuple(sorted(rows, key=lambda row: (not row.fits, _badness(row)))))


def _tried(robot: CorpusRobot, given: Sequence[Layout] | None) -> Sequence[Layout]:
    return candidates(robot) if given is None else tuple(given)


def _against_reference(
    layout: Layout, functions: tuple[Any, ...], robot: CorpusRobot, tolerance: float
) -> LayoutRow:
    """H, the bias and gravity at the robot's samples."""
    worst = [0.0, *(np.nan if function is None else 0.0 for function in functions[1:])]
    q, v = robot.q_in(layout), robot.v_in(layout)
    for point, velocity, (H, c, g, C) in zip(q, v, robot.reference_in(layout), strict=True):
        lengths = np.sqrt(np.diag(H))
        forces = lengths * np.max(np.abs(C) @ np.abs(velocity) / lengths)
        weight = lengths * np.max(np.abs(g) / lengths)
        compared = (
            (H, np.outer(lengths, lengths), (point,)),
            (c, forces, (point, velocity)),
            (g, np.where(weight > 0.0, weight, 1.0), (point,)),
        )
        for k, (function, (right, scale, arguments)) in enumerate(zip(functions, compared, strict=True)):
            if function is None:
                continue
            try:
                found = np.array(as_array("it", function(*(each.copy() for each in arguments)), ()))
            except Exception as error:  # a quaternion that is none, a q that is too short
                return _no_fit(layout, f"{type(error).__name__}: {error}")
            if found.shape != right.shape:
                return _no_fit(layout, f"a result has shape {found.shape}, needed is {right.shape}")
            worst[k] = max(worst[k], _largest((found - right) / scale))
    return LayoutRow(layout, worst[0], worst[1], worst[2], not any(each > tolerance for each in worst))


def _no_fit(layout: Layout, words: str) -> LayoutRow:
    return LayoutRow(layout, np.nan, np.nan, np.nan, False, words[:80])


def _largest(errors: Array) -> float:
    """The largest error; infinite if one is no number."""
    largest = float(np.max(np.abs(errors)))
    return largest if np.isfinite(largest) else np.inf


def _alone(
    mass_matrix: Any, bias: Any, q: Any, v: Any, given: Sequence[Layout] | None, tolerance: float
) -> list[LayoutRow]:
    """The bias against H itself at one sample, in each layout."""
    if bias is None or q is None or v is None:
        raise ValueError("detect_layout: without robot=, give the bias, and q and v in the library's layout")
    point, velocity = (np.asarray(as_array(name, x, (None,))) for name, x in (("q", q), ("v", v)))
    if point.ndim != 1 or velocity.ndim != 1:
        raise ShapeError("q, v", ("nq",), point.shape)
    require_finite("q", point)
    require_finite("v", velocity)
    rows = []
    for layout in _possible(len(point), len(velocity)) if given is None else given:
        try:
            frame = layout.at(len(point))
            functions = {"mass_matrix": mass_matrix, "bias": bias}
            report = audit_samples(functions, frame, point, velocity, tolerance, None, layout.name)
        except Exception as error:
            rows.append(_no_fit(layout, f"{type(error).__name__}: {error}"))
            continue
        found = report["bias"]
        rows.append(
            LayoutRow(layout, np.nan, found.residual, np.nan, found.verdict == "holds", found.verdict)
        )
    return rows


def _possible(nq: int, n: int) -> list[Layout]:
    """All layouts with these numbers of q and v, without a centre of mass."""
    bases = ["floating"] if nq - n == 1 else ["fixed", *["planar"] * (n >= 3), *["floating"] * (n >= 6)]
    found = [layout for base in bases for layout in layouts_of(base, None, False)]
    kept = [each for each in found if (each.base == "floating") == (nq - n == 1)]
    if nq - n not in (0, 1) or not kept:
        raise ValueError(f"detect_layout: no layout has {nq} numbers in q and {n} in v")
    return kept


def _badness(row: LayoutRow) -> float:
    numbers = [x for x in (row.mass_matrix, row.bias, row.gravity) if not np.isnan(x)]
    return max(numbers) if numbers else np.inf


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1e}"
