"""Running the catalogue over subjects, and the report for persons and programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from connections._words import words_of
from connections.checks import Check, as_number, require_function, require_items
from connections.verify.nonholonomic_subjects import NonholonomicSubject
from connections.verify.propositions import CONTROL_FLOOR, Proposition, Sample, catalogue
from connections.verify.subjects import Subject

AnySubject = Subject | NonholonomicSubject
TOLERANCE = 1e-9


HOLDS, INCONCLUSIVE, FAILS = "holds", "inconclusive", "does not hold"
REDRAWS = 24  # draws of random fields, contorsions and velocities while a control is weak


@dataclass(frozen=True)
class Row:
    """One proposition on one subject: its check, and its negative control.

    Parameters
    ----------
    subject, key, statement : names.
    check : the worst over all samples, also in the draw in which the control fails as it should.
    control : the first draw of the negative control that fails as it should, or else the strongest.
    seconds : time of the computation.
    draws : number of draws of the control.

    Examples
    --------
    >>> from connections import verify
    >>> from connections.checks import Check
    >>> check, control = Check("A1", 1e-13, 1.0, 1e-9), Check("A1", 0.5, 1.0, 1e-9)
    >>> row = verify.Row("sphere", "A1", "nabla_fX Y = f nabla_X Y", check, control, seconds=0.1)
    >>> row.verdict, row.ok
    ('holds', True)
    """

    subject: str
    key: str
    statement: str
    check: Check
    control: Check
    seconds: float
    draws: int = 1

    @property
    def verdict(self) -> str:
        """The verdict: "does not hold" or "holds" by the residual; "inconclusive" if no control has failed.

        A weak control is no evidence against the proposition, because it is measured on something wrong.
        """
        if not self.check.ok:
            return FAILS
        return HOLDS if _strong(self.control) else INCONCLUSIVE

    @property
    def ok(self) -> bool:
        """The check holds, and a control fails by at least 1e-2."""
        return self.verdict == HOLDS

    @property
    def reason(self) -> str:
        """Why the row is not ok; empty if it is."""
        if self.verdict == INCONCLUSIVE:
            return (
                f"The residual is within the tolerance, but the strongest of {self.draws} negative controls "
                f"is {self.control.relative:.1e}, less than 1e-02: the test could not have failed here"
            )
        return "" if self.ok else str(self.check)

    def to_dict(self) -> dict[str, Any]:
        """A dictionary for JSON."""
        return {
            "subject": self.subject,
            "proposition": self.key,
            "statement": self.statement,
            "verdict": self.verdict,
            "reason": self.reason,
            "ok": self.ok,
            "check": {name: for_json(value) for name, value in self.check.to_dict().items()},
            "control": {
                "relative": for_json(self.control.relative),
                "fails_as_it_should": _strong(self.control),
                "draws": self.draws,
            },
            "seconds": round(self.seconds, 3),
        }


def verify_subject(
    subject: AnySubject, tol: float = TOLERANCE, progress: Callable[[Row], None] | None = None
) -> list[Row]:
    """Every proposition that applies to the subject, at all its samples.

    Parameters
    ----------
    subject : the system.
    tol : relative tolerance.
    progress : called with every row as it is finished.

    Examples
    --------
    >>> from connections import verify
    >>> rows = verify.verify_subject(verify.system_subject("sphere", samples=1))
    >>> {row.verdict for row in rows}
    {'holds'}
    >>> rows[0].key, rows[0].check.ok, rows[0].control.ok  # a wrong formula is noticed
    ('A1', True, False)
    """
    if progress is not None:
        require_function("progress", progress, "row ->")
    tol = as_number("tol", tol)
    rows = []
    for item in applicable(subject):
        rows.append(_row(subject, item, tol))
        if progress is not None:
            progress(rows[-1])
    return rows


def applicable(subject: AnySubject) -> list[Proposition]:
    """The propositions that apply to the subject and to its kind of connection.

    Examples
    --------
    >>> from connections import verify
    >>> propositions = verify.applicable(verify.system_subject("sphere"))
    >>> [item.key for item in propositions[:5]]
    ['A1', 'A2', 'Thm III.1', 'Thm III.1 unique', 'Koszul']
    """
    if not isinstance(subject, Subject | NonholonomicSubject):
        raise TypeError(
            f"subject: expected a Subject, got {words_of(subject)}; write as_subject(system, name)"
        )
    excluded = {item.key for item in excluded_by_torsion(subject)}
    return [item for item in catalogue(type(subject)) if item.applies(subject) and item.key not in excluded]


def excluded_by_torsion(subject: AnySubject) -> list[Proposition]:
    """The propositions that need a connection without torsion, if the subject's was made with torsion."""
    if not (isinstance(subject, Subject) and subject.has_torsion):
        return []
    return [item for item in catalogue(type(subject)) if item.riemannian and item.applies(subject)]


def summary(rows: Iterable[Row]) -> list[Row]:
    """One row per proposition: among the subjects with the worst verdict, that of the largest residual.

    Examples
    --------
    >>> from connections import verify
    >>> from connections.checks import Check
    >>> control = Check("A1", 0.5, 1.0, 1e-9)
    >>> def row(subject, residual):
    ...     check = Check("A1", residual, 1.0, 1e-9)
    ...     return verify.Row(subject, "A1", "nabla_fX Y = f nabla_X Y", check, control, seconds=0.1)
    >>> [(worst.key, worst.subject) for worst in verify.summary([row("sphere", 1e-13), row("arm", 1e-12)])]
    [('A1', 'arm')]
    """
    worst: dict[str, Row] = {}
    for row in require_items("rows", rows, Row, "rows"):
        other = worst.get(row.key)
        if other is None or _badness(row) > _badness(other):
            worst[row.key] = row
    return list(worst.values())


def measured(
    subject: AnySubject, item: Proposition, samples: Sequence[Sample], tol: float
) -> tuple[Check, Check, int]:
    """The worst check, the control, and the number of its draws.

    If a control is weak at all samples, velocities, random fields and contorsions at the same points are
    drawn again. Once it fails as it should, the check is measured with the same draw too, and counts.

    Parameters
    ----------
    subject : the system.
    item : a proposition that applies to it.
    samples : points, velocities and accelerations.
    tol : relative tolerance.
    """

    def check(where: tuple[AnySubject, Sample], wrong: bool) -> Check:
        return Check(item.key, *item.measure(*where, wrong), tol)

    checks = [check((subject, sample), False) for sample in samples]
    controls = []
    for where in _draws(subject, samples):
        controls.append(check(where, True))
        if _strong(controls[-1]):
            checks += [check(where, False)] if len(controls) > len(samples) else []
            break
    return max(checks, key=_size), max(controls, key=_strength), len(controls)


def _draws(subject: AnySubject, samples: Sequence[Sample]) -> Iterator[tuple[AnySubject, Sample]]:
    """The subject at its samples, and then with other random numbers and velocities at the same points."""
    yield from ((subject, sample) for sample in samples)
    rng = subject.rng("control")
    for draw in range(1, REDRAWS + 1):
        other = subject.redrawn(draw)
        for sample in samples:
            yield other, Sample(sample.q, *rng.normal(size=(2, sample.v.size)))


def _row(subject: AnySubject, item: Proposition, tol: float) -> Row:
    start = time.perf_counter()
    samples = [Sample(*triple) for triple in zip(subject.q, subject.v, subject.a, strict=True)]
    check, control, draws = measured(subject, item, samples, tol)
    return Row(subject.name, item.key, item.statement, check, control, time.perf_counter() - start, draws)


def _strong(control: Check) -> bool:
    """Whether a control fails as it should; a NaN does not."""
    return control.relative >= CONTROL_FLOOR


def _strength(control: Check) -> float:
    """The relative residual; a NaN is the smallest."""
    return -1.0 if isnan(control.relative) else control.relative


def _size(check: Check) -> float:
    """The relative residual; a NaN is the largest."""
    return float("inf") if isnan(check.relative) else check.relative


def _badness(row: Row) -> tuple[int, float]:
    return (HOLDS, INCONCLUSIVE, FAILS).index(row.verdict), _size(row.check)


def for_json(value: Any) -> Any:
    """The value; None for a NaN and for infinity, which JSON does not have."""
    return None if isinstance(value, float) and not abs(value) < float("inf") else value
