"""A library's dynamics judged as black boxes: H, the bias, C, gravity, their derivatives.

Nothing is assumed of the functions but the frame in which their components are. What H implies is compared
with the others, so no robot of ours is needed; `audit_robot` compares with a robot of the corpus, too.

Source: [W] eqs. (3), (6), (8), Props. III.1, III.2, IV.1, IV.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from connections._jax import ArrayLike
from connections.checks import (
    NonFiniteError,
    ShapeError,
    as_array,
    as_number,
    require_choice,
    require_function,
    require_positive_int,
    require_type,
    require_untraced,
)
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import PytreePartial
from connections.geometry import FrameField
from connections.referee.black_boxes import BlackBoxes, in_float32
from connections.referee.corpus_robots import CorpusRobot, robot_named
from connections.referee.layouts import Layout, LayoutFrame
from connections.referee.measurements import (
    TOLERANCES,
    LargestError,
    RefereeSample,
    ReferenceValues,
    differences_of,
)
from connections.referee.report import MEANING, RefereeReport, Row

Array = NDArray[np.float64]

_FORMS = {
    "mass_matrix": "q -> H (n, n)",
    "bias": "(q, v) -> C v (n,)",
    "coriolis": "(q, v) -> C (n, n)",
    "gravity": "q -> g (n,)",
    "derivatives": "(q, v) -> {name: array}",
    "current": "(q, v, u) -> h (n,)",
}
_SAME = ("same_mass_matrix", "same_bias", "same_gravity")
_WORSE = ("fails", "unknown", "holds", "empty")


def audit_functions(
    mass_matrix: Callable[[Array], Any],
    bias: Callable[[Array, Array], Any] | None = None,
    coriolis: Callable[[Array, Array], Any] | None = None,
    gravity: Callable[[Array], Any] | None = None,
    derivatives: Callable[[Array, Array], Mapping[str, Any]] | None = None,
    *,
    frame: Layout | FrameField,
    q: ArrayLike,
    v: ArrayLike,
    tolerance: float | None = None,
    current: Callable[[Array, Array, Array], Any] | None = None,
    precision: str | None = None,
) -> RefereeReport:
    """A report on dynamics given as functions: H vdot + bias(q, v) + gravity(q) = tau.

    Parameters
    ----------
    mass_matrix : q (nq,) -> H (n, n); any function of NumPy arrays, called with one point at a time.
    bias : (q, v) -> C v (n,), without gravity.
    coriolis : (q, v) -> C (n, n).
    gravity : q -> (n,).
    derivatives : (q, v) -> a dict with any of "mass_matrix" (n, n, n), [i] = X_i H; "bias_q" (n, n),
        [:, j] = X_j bias at constant v; "bias_v" (n, n), [:, j] = d bias / d v_j; "gravity_q" (n, n).
    frame : a layout, or a frame of this library, whose components q and v have.
    q, v : (m, nq) and (m, n) samples, or one of each; no velocity is zero.
    tolerance : relative, of all rows. By default 1e-9 of values, and 1e-6 of what is compared with finite
        differences; in float32, 1e-3 and 1e-2. Ten times the noise that is measured counts as zero in any
        case.
    current : (q, v, u) -> h (n,), with H vdot + h = tau in water that moves at a constant velocity u, (3,) or
        (2,) in the world's axes, m/s.
    precision : "float64" or "float32", in which the functions compute; None for that of their results.

    Returns
    -------
    RefereeReport

    Raises
    ------
    ShapeError, NonFiniteError, TypeError : a function returns something else; the message names the sample.
    BlackBoxError : a function raises an error at a sample.
    PointError : a sample is no point. ValueError : a velocity is zero, or there are no such derivatives.

    Notes
    -----
    Each sample takes about 60 n + 40 calls of H, n + 40 of C, 20 of the bias, and 25 n of gravity.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import referee
    >>> H = lambda q: np.diag([2.0, 3.0 * q[0] ** 2])  # polar coordinates, with two kinds of mass
    >>> wrong = lambda q, v: np.array([-3.0 * q[0] * v[1] ** 2, 3.0 * q[0] * v[0] * v[1]])
    >>> report = referee.audit_functions(H, wrong, frame=referee.fixed(), q=[1.2, 0.4], v=[0.5, -0.4])
    >>> report.failing, round(report["bias"].residual, 2)  # 2 x is forgotten in the second row
    (('bias',), 0.46)

    Source: [W] eqs. (3), (6), (8).
    """
    functions = _functions(mass_matrix, bias, coriolis, gravity, derivatives, current)
    if isinstance(frame, Layout):
        rows = np.atleast_2d(np.asarray(as_array("q", q, (None,))))
        found: LayoutFrame | FrameField = frame.at(rows.shape[-1])
        subject = frame.name
    else:
        require_type("frame", frame, FrameField, "a layout, such as referee.floating(...), or a FrameField")
        found, subject = frame, str(frame)
    return audit_samples(functions, found, q, v, tolerance, precision, subject)


def audit_robot(
    robot: str | CorpusRobot,
    mass_matrix: Callable[[Array], Any],
    bias: Callable[[Array, Array], Any] | None = None,
    coriolis: Callable[[Array, Array], Any] | None = None,
    gravity: Callable[[Array], Any] | None = None,
    derivatives: Callable[[Array, Array], Mapping[str, Any]] | None = None,
    *,
    layout: Layout | None = None,
    tolerance: float | None = None,
    current: Callable[[Array, Array, Array], Any] | None = None,
    precision: str | None = None,
    samples: int | None = None,
) -> RefereeReport:
    """A report on a library's dynamics of a robot of the corpus, also against the robot's reference.

    Parameters
    ----------
    robot : its name, one of `robots()`, or what `robot` returns.
    mass_matrix, bias, coriolis, gravity, derivatives, tolerance, current, precision : as of
        `audit_functions`.
    layout : of the library; None for the robot's plain one.
    samples : how many of the robot's samples; None for all.

    Raises
    ------
    The errors of `audit_functions`; ValueError : there is no such robot. FrameError : a joint is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import referee
    >>> m = np.array([[3.0, 0.6], [0.6, 2.0]])  # of a slide along y behind a hinge, forgetting what it moves
    >>> report = referee.audit_robot("slide_behind_hinge", lambda q: m)
    >>> report.failing
    ('same_mass_matrix',)
    """
    known = robot_named(robot)
    functions = _functions(mass_matrix, bias, coriolis, gravity, derivatives, current)
    layout = known.layout if layout is None else layout
    require_type("layout", layout, Layout)
    frame = known.frame_of(layout)
    if samples is not None:
        require_positive_int("samples", samples)
    q, v = known.q_in(layout)[:samples], known.v_in(layout)[:samples]
    references = [ReferenceValues(*values) for values in known.reference_in(layout)][: len(q)]
    subject = f"{known.name}, {layout.name}"
    return audit_samples(functions, frame, q, v, tolerance, precision, subject, references)


def audit_samples(
    functions: Mapping[str, Any],
    frame: LayoutFrame | FrameField,
    q: Any,
    v: Any,
    tolerance: float | None,
    precision: str | None,
    subject: str,
    references: list[ReferenceValues] | None = None,
) -> RefereeReport:
    """The report over all samples, in float64; where functions are called, JAX is as the caller has it."""
    if not getattr(jax.config, "jax_enable_x64", False):
        given = {name: function and in_float32(function) for name, function in functions.items()}
        with jax.enable_x64(True):
            return audit_samples(given, frame, q, v, tolerance, precision, subject, references)
    if precision is not None:
        require_choice("precision", precision, tuple(TOLERANCES))
    tolerance = None if tolerance is None else as_number("tolerance", tolerance)
    if tolerance is not None and not 0.0 < tolerance < 1.0:
        raise ValueError(f"tolerance: expected a number between 0 and 1, got {tolerance!r}")
    q_samples, v_samples = _samples(frame, q, v)
    q_samples, structures = _points(frame, q_samples)
    found: dict[str, list[tuple[int, LargestError]]] = {}
    dynamics, linear, notes = [], True, dict[str, None]()
    for number, (point, velocity) in enumerate(zip(q_samples, v_samples, strict=True)):
        boxes = BlackBoxes(functions, frame.dim, number, point)
        if precision is None:
            precision = _precision_of(boxes, point, velocity)
        sample = RefereeSample(
            boxes,
            frame,
            differences_of(frame, precision),
            structures[number],
            point,
            velocity,
            number,
            precision,
            tolerance,
            None if references is None else references[number],
        )
        for name, measured in sample.rows():
            found.setdefault(name, []).append((number, measured))
        linear = linear and sample.linear
        dynamics += [] if sample.dynamics is None else [(number, sample.dynamics)]
        notes |= dict.fromkeys(sample.notes)
    rows = {name: _row(name, found.get(name, []), functions, linear) for name in MEANING}
    if references is None:
        for name in _SAME:
            del rows[name]
    kind = _kind(rows, functions, _row("dynamics", dynamics, functions, linear).verdict)
    assert precision is not None
    return RefereeReport(tuple(rows.values()), kind, precision, subject, tuple(notes))


def _functions(*functions: Any) -> dict[str, Any]:
    found = dict(zip(_FORMS, functions, strict=True))
    for name, function in found.items():
        if function is not None or name == "mass_matrix":
            require_function(name, function, _FORMS[name])
    return found


def _samples(frame: LayoutFrame | FrameField, q: Any, v: Any) -> tuple[Array, Array]:
    """Samples as (m, nq) and (m, n)."""
    require_untraced(q=q, v=v)
    q_samples = np.atleast_2d(np.asarray(as_array("q", q, (frame.ambient_dim,))))
    v_samples = np.atleast_2d(np.asarray(as_array("v", v, (frame.dim,))))
    count = max(len(q_samples), len(v_samples))
    for name, value in (("q", q_samples), ("v", v_samples)):
        if value.ndim != 2 or len(value) not in (1, count) or not len(value):
            raise ShapeError(name, ("m", value.shape[-1]), value.shape)
        bad = np.flatnonzero(~np.isfinite(value).all(axis=1))
        if bad.size:
            raise NonFiniteError(f"{name}: sample {bad[0]} is not finite: {value[bad[0]]}")
    zero = np.flatnonzero(~v_samples.any(axis=1))
    if zero.size:
        raise ValueError(
            f"v: sample {zero[0]} is zero: its checks would be empty, give a velocity that is not"
        )
    return np.repeat(q_samples, count // len(q_samples), 0), np.repeat(v_samples, count // len(v_samples), 0)


def _points(frame: LayoutFrame | FrameField, q: Array) -> tuple[Array, Array]:
    """The samples on their manifold, and the brackets of the frame there."""
    if isinstance(frame, LayoutFrame):
        return q, np.stack([frame.structure(point) for point in q])
    at = evaluate(
        frame, PytreePartial(_point_and_structure_at, frame), Argument("q", q, (frame.ambient_dim,))
    )
    points, structures = (np.asarray(array) for array in at)
    return points, structures


def _point_and_structure_at(frame: FrameField, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    return q, frame.structure_functions_at(q)


def _precision_of(boxes: BlackBoxes, q: Array, v: Array) -> str:
    """The precision of H or of the bias, whichever is narrower: "float32" or "float64"."""
    boxes.raw_mass_matrix(q)
    single = boxes.single
    if boxes.has("bias"):
        boxes.single = True
        boxes.bias(q, v)
        single = single or boxes.single
    return "float32" if single else "float64"


def _row(name: str, found: list[tuple[int, LargestError]], functions: Mapping[str, Any], linear: bool) -> Row:
    """The worst sample: one that fails, else one in doubt, else the largest residual of those that tell."""
    meaning = MEANING.get(name, "")
    if not found:
        return Row(name, _why_none(name, functions, linear), meaning=meaning)
    verdict = next(word for word in _WORSE if any(f.verdict == word for _, f in found))
    number, worst = max(((n, f) for n, f in found if f.verdict == verdict), key=lambda pair: pair[1].ratio)
    return Row(name, verdict, worst.residual, worst.tolerance, worst.control, worst.noise, number, meaning)


def _why_none(name: str, functions: Mapping[str, Any], linear: bool) -> str:
    """Why a row has no measurement."""
    needs = {
        "bias": "bias",
        "quadratic": "bias",
        "product": "coriolis",
        "linear": "coriolis",
        "skew": "coriolis",
        "torsion_free": "coriolis",
        "gravity": "gravity",
        "galilean": "current",
        "same_bias": "bias",
        "same_gravity": "gravity",
    }
    if name == "torsion_free" and functions.get("coriolis") is not None and not linear:
        return "not applicable"
    need = needs.get(name)
    return "unknown" if need is not None and functions.get(need) is not None else "not given"


def _kind(rows: Mapping[str, Row], functions: Mapping[str, Any], dynamics: str) -> str:
    """Which C this is, as of `AuditReport`; without one, whether the vector is right."""
    if functions.get("coriolis") is None:
        if functions.get("bias") is None:
            return "mass matrix only"
        verdicts = {rows[name].verdict for name in ("bias", "quadratic")}
        return (
            "wrong vector" if "fails" in verdicts else "unknown" if "unknown" in verdicts else "vector only"
        )
    linear, skew, torsion = (rows[name].verdict for name in ("linear", "skew", "torsion_free"))
    if "unknown" in (dynamics, skew, linear):
        return "inadmissible" if "fails" in (dynamics, skew) and linear != "unknown" else "unknown"
    right, compatible = dynamics != "fails", skew != "fails"
    if right and compatible:
        if linear == "fails":
            return "nonlinear"
        return {"holds": "riemannian", "empty": "riemannian", "fails": "torsion"}.get(torsion, "unknown")
    if right:
        return "dynamics only"
    return "skew only" if compatible else "inadmissible"
