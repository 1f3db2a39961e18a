"""Monte Carlo verification: every proposition at many random points of a system, each with random fields.

Row by row, the residual of every proposition, the largest term before cancellation, and the relative residual
of its negative control, as `verify` measures them. Every point has random fields and contorsions of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from connections.checks import SubjectError, as_number, require_names, require_text, require_type
from connections.multibody import Model
from connections.sweeps.errors import SweepError, UnknownSystemError
from connections.sweeps.store import Store
from connections.sweeps.sweep import Chunk, Output, Sweep
from connections.verify import (
    FAILS,
    HOLDS,
    INCONCLUSIVE,
    AnySubject,
    applicable,
    system_subject,
)
from connections.verify.propositions import CONTROL_FLOOR, Proposition, Sample
from connections.verify.report import measured
from connections.verify.robots import robot_subject

TOLERANCE = 1e-9


def proposition_sweep(
    subject: str | Model,
    rows: int,
    *,
    propositions: Sequence[str] | None = None,
    chunk: int = 1,
    seed: int = 0,
    tol: float = TOLERANCE,
    name: str = "robot",
) -> Sweep:
    """The propositions at random points of a system.

    Parameters
    ----------
    subject : name of a built-in system, one of `verify.system_names`, or a robot.
    rows : number of points.
    propositions : their keys, as ``connections verify`` prints them; all that apply if None.
    chunk : points per chunk; a point takes a second or more, and the first one also compiles.
    seed : of points, velocities, fields and contorsions.
    tol : relative tolerance, for the summary.
    name : of the robot.

    The store has ``residual``, ``scale`` and ``control`` (rows, propositions), the last one relative.

    Raises
    ------
    UnknownSystemError : there is no system of this name.
    SweepError : a proposition does not exist or does not apply to it; tol is not between 0 and 1.

    Examples
    --------
    >>> from connections import sweeps
    >>> sweep = sweeps.proposition_sweep("sphere", rows=100, propositions=["A1", "Koszul"])
    >>> sweep.rows, list(sweep.outputs), sweep.outputs["residual"].shape
    (100, ['residual', 'scale', 'control'], (2,))
    """
    tol = as_number("tol", tol)
    if not 0.0 < tol < 1.0:
        raise SweepError(f"tol: expected a number between 0 and 1, got {tol!r}")
    require_text("name", name)
    source = _Source(subject, name) if isinstance(subject, Model) else _Source(None, _known(subject))
    items = {item.key: item for item in applicable(_subject(source))}
    chosen = items if propositions is None else require_names("propositions", propositions)
    keys = tuple(dict.fromkeys(chosen))
    unknown = [key for key in keys if key not in items]
    if unknown or not keys:
        raise SweepError(
            f"propositions: {', '.join(map(repr, unknown)) or 'none'} given; about {source.name} there are "
            f"{', '.join(items)}"
        )
    return Sweep(
        name="propositions",
        function=_Propositions(source, keys),
        rows=rows,
        outputs={
            part: Output((len(keys),), dims=("proposition",)) for part in ("residual", "scale", "control")
        },
        chunk=chunk,
        seed=seed,
        about={
            "subject": source.name,
            "propositions": list(keys),
            "statements": [items[key].statement for key in keys],
            "tol": tol,
        },
    )


def _known(name: str) -> str:
    """The name of a built-in system, as in reports."""
    require_text("subject", name)
    try:
        return system_subject(name, 1, 0).name
    except SubjectError as error:
        raise UnknownSystemError(str(error)) from error


@dataclass(frozen=True)
class PropositionSummary:
    """One proposition over all points of a store.

    Parameters
    ----------
    key, statement : of the proposition.
    points : number of points.
    failed : number of points where the relative residual is above the tolerance.
    worst : the largest relative residual; `row` is its point.
    median : of the relative residuals.
    control : the smallest relative residual of the negative control; `weak` is the number of points where no
        draw of the control reaches 1e-2, so that the check could not have failed there.

    Examples
    --------
    >>> from connections import sweeps
    >>> sweep = sweeps.proposition_sweep("sphere", rows=2, propositions=["A1"])
    >>> run = sweeps.run_sweep(sweep, "sphere.zarr", workers=0)
    >>> summary = sweeps.proposition_summary(sweeps.Store("sphere.zarr"))[0]
    >>> summary.key, summary.points, summary.failed, summary.verdict
    ('A1', 2, 0, 'holds')
    """

    key: str
    statement: str
    points: int
    failed: int
    worst: float
    row: int
    median: float
    control: float
    weak: int

    @property
    def verdict(self) -> str:
        """The verdict as in `verify`: inconclusive if the control is strong at no point."""
        return FAILS if self.failed else INCONCLUSIVE if self.weak == self.points else HOLDS


def proposition_summary(store: Store) -> list[PropositionSummary]:
    """The summary of every proposition in a store of `proposition_sweep`.

    Parameters
    ----------
    store : of a sweep that is finished.

    Examples
    --------
    >>> from connections import sweeps
    >>> sweep = sweeps.proposition_sweep("sphere", rows=2, propositions=["A1"])
    >>> run = sweeps.run_sweep(sweep, "sphere.zarr", workers=0)
    >>> for item in sweeps.proposition_summary(sweeps.Store("sphere.zarr")):
    ...     print(item.key, item.verdict, item.worst < 1e-9)
    A1 holds True
    """
    require_type("store", store, Store)
    about = store.described["about"]
    residual, scale, control = (
        np.asarray(store.arrays[part][:]) for part in ("residual", "scale", "control")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(residual == 0.0, 0.0, residual / scale)
    result = []
    for number, (key, statement) in enumerate(zip(about["propositions"], about["statements"], strict=True)):
        column, fails = relative[:, number], ~(residual[:, number] <= about["tol"] * scale[:, number])
        row = int(np.argmax(np.where(np.isnan(column), np.inf, column)))
        controls = control[:, number]
        result.append(
            PropositionSummary(
                key=key,
                statement=statement,
                points=len(column),
                failed=int(fails.sum()),
                worst=float(column[row]),
                row=row,
                median=float(np.median(column)),
                control=float(controls.min()),
                weak=int((~(controls >= CONTROL_FLOOR)).sum()),
            )
        )
    return result


@dataclass(frozen=True)
class _Source:
    """The source of subjects: a robot, or the name of a system."""

    model: Model | None
    name: str

    def subject(self, samples: int, seed: int) -> AnySubject:
        """A subject with samples of its own."""
        if self.model is not None:
            return robot_subject(self.model, self.name, samples, seed)
        return system_subject(self.name, samples, seed)


@lru_cache(maxsize=2)
def _subject(source: _Source) -> AnySubject:
    """A subject of the system, cached so that all points share its compiled functions."""
    return source.subject(1, 0)


@dataclass(frozen=True, eq=False)
class _Propositions:
    """The function of `proposition_sweep`."""

    source: _Source
    keys: tuple[str, ...]

    def __call__(self, chunk: Chunk) -> dict[str, np.ndarray]:
        base = _subject(self.source)
        items = {item.key: item for item in applicable(base)}
        seed, *seeds = (int(number) for number in chunk.rng().integers(2**31, size=1 + chunk.rows))
        points = self.source.subject(chunk.rows, seed)
        rows = []
        for number, own in enumerate(seeds):
            sample = Sample(points.q[number], points.v[number], points.a[number])
            single = {"q": sample.q[None], "v": sample.v[None], "a": sample.a[None]}
            one = replace(base, **single, seed=own, _memory={})  # type: ignore[arg-type]
            rows.append([_measured(items[key], one, sample) for key in self.keys])
        residual, scale, control = np.moveaxis(np.array(rows), -1, 0)
        return {"residual": residual, "scale": scale, "control": control}


def _measured(item: Proposition, subject: AnySubject, sample: Sample) -> tuple[float, float, float]:
    """Residual, scale, and relative residual of the negative control."""
    check, control, _ = measured(subject, item, [sample], TOLERANCE)
    return check.residual, check.scale, control.relative
