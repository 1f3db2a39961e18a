"""Running the catalogue over subjects, and the report that a person reads and a program uses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from connections.checks import Check
from connections.verify.nonholonomic_subjects import NonholonomicSubject
from connections.verify.propositions import CONTROL_FLOOR, Proposition, Sample, catalogue
from connections.verify.subjects import Subject

AnySubject = Subject | NonholonomicSubject
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Row:
    """One proposition on one subject: its check, and its negative control."""

    subject: str
    key: str
    statement: str
    check: Check
    control: Check
    seconds: float

    @property
    def ok(self) -> bool:
        """The check holds and the control fails by at least 1e-2."""
        return self.check.ok and self.control.relative >= CONTROL_FLOOR

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "subject": self.subject,
            "proposition": self.key,
            "statement": self.statement,
            "ok": self.ok,
            "check": self.check.to_dict(),
            "control": {
                "relative": self.control.relative,
                "fails_as_it_should": self.control.relative >= CONTROL_FLOOR,
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
    """
    rows = []
    for item in applicable(subject):
        rows.append(_row(subject, item, tol))
        if progress is not None:
            progress(rows[-1])
    return rows


def applicable(subject: AnySubject) -> list[Proposition]:
    """The propositions that say something about the subject."""
    return [item for item in catalogue(type(subject)) if item.applies(subject)]


def summary(rows: Iterable[Row]) -> list[Row]:
    """One row per proposition: the subject with the largest relative residual, or one that fails."""
    worst: dict[str, Row] = {}
    for row in rows:
        other = worst.get(row.key)
        if other is None or (not row.ok, row.check.relative) > (not other.ok, other.check.relative):
            worst[row.key] = row
    return list(worst.values())


def _redrawn(subject: AnySubject, samples: list[Sample]) -> Iterator[Sample]:
    """More velocities at the same points, for a control that happens to be weak at the first ones."""
    rng = subject.rng("control")
    for sample in samples * 4:
        yield Sample(sample.q, *rng.normal(size=(2, sample.v.size)))


def _row(subject: AnySubject, item: Proposition, tol: float) -> Row:
    start = time.perf_counter()
    samples = [Sample(*triple) for triple in zip(subject.q, subject.v, subject.a, strict=True)]
    checks = [Check(item.key, *item.measure(subject, sample, False), tol) for sample in samples]
    worst = max(
        checks, key=lambda check: check.relative if check.relative == check.relative else float("inf")
    )
    for sample in (*samples, *_redrawn(subject, samples)):
        control = Check(item.key, *item.measure(subject, sample, True), tol)
        if control.relative >= CONTROL_FLOOR:
            break
    return Row(subject.name, item.key, item.statement, worst, control, time.perf_counter() - start)
