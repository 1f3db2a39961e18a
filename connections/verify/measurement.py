"""Propositions: measurements that compare two routes to the same quantity, with a negative control.

A measurement takes a subject and one sample (q, v, a) and returns (residual, scale). With ``wrong=True`` the
same measurement runs on something that must fail (a generic contorsion, a forgotten term). If the relative
residual of this control is at least 1e-2, the measurement can find errors at this sample; otherwise it proves
nothing there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from connections.verify.numerics import Array
from connections.verify.subjects import Subject

CONTROL_FLOOR = 1e-2


class Sample(NamedTuple):
    """One point with a velocity and an acceleration."""

    q: Array
    v: Array
    a: Array


Measurement = Callable[[Any, Sample, bool], tuple[float, float]]


@dataclass(frozen=True)
class Proposition:
    """A statement of the theory as a measurement.

    Parameters
    ----------
    key : its number in the paper.
    statement : the two quantities that are compared.
    measure : (subject, sample, wrong) -> (residual, scale).
    applies : subject -> whether the statement applies to it.
    kind : class of its subjects.
    riemannian : whether it holds for the connection without torsion only.
    """

    key: str
    statement: str
    measure: Measurement
    applies: Callable[[Any], bool]
    kind: type = Subject
    riemannian: bool = False


def stated(
    table: list[Proposition],
    key: str,
    statement: str,
    applies: Callable[[Any], bool] = lambda subject: True,
    kind: type = Subject,
    riemannian: bool = False,
) -> Callable[[Measurement], Measurement]:
    """Add the decorated measurement to a file's table of propositions, under its number in the paper.

    Parameters
    ----------
    table : of the file.
    key, statement, applies, kind, riemannian : see `Proposition`.
    """

    def add(measure: Measurement) -> Measurement:
        table.append(Proposition(key, statement, measure, applies, kind, riemannian))
        return measure

    return add
