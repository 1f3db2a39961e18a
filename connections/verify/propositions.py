"""The catalogue: one measurement per proposition, two routes each, and a negative control for every one.

A measurement takes a subject and one sample (q, v, a) and returns (residual, scale). With ``wrong=True`` the
same measurement runs on something that must fail (a generic contorsion, a forgotten term): where its relative
residual is at least 1e-2 the measurement can tell right from wrong there; elsewhere it says nothing.
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
    statement : what is compared with what.
    measure : (subject, sample, wrong) -> (residual, scale).
    applies : whether the statement says anything about a subject.
    kind : class of the subjects that it is about.
    """

    key: str
    statement: str
    measure: Measurement
    applies: Callable[[Any], bool]
    kind: type = Subject


CATALOGUE: list[Proposition] = []


def proposition(
    key: str, statement: str, applies: Callable[[Any], bool] = lambda subject: True, kind: type = Subject
):
    """Register the decorated measurement under its number in the paper."""

    def register(measure: Measurement) -> Measurement:
        CATALOGUE.append(Proposition(key, statement, measure, applies, kind))
        return measure

    return register


def catalogue(kind: type = Subject) -> list[Proposition]:
    """All propositions about one kind of subjects, in the paper's order.

    Parameters
    ----------
    kind : `Subject`, or `NonholonomicSubject`.
    """
    from connections.verify import bodies, coriolis, families, induced, nonholonomic, riemannian

    assert all((bodies, coriolis, families, induced, nonholonomic, riemannian))  # importing them registers
    order = {key: index for index, key in enumerate((*ORDER, *NONHOLONOMIC_ORDER))}
    return sorted((item for item in CATALOGUE if item.kind is kind), key=lambda item: order[item.key])


ORDER = (
    "A1", "A2", "Thm III.1", "Thm III.1 unique", "Koszul", "(5)", "(8)", "(9)",
    "Prop III.1 if", "Prop III.1 only if", "Prop III.2 if", "Prop III.2 only if",
    "Thm III.2", "Thm III.2 unique", "Cor III.1", "Cor III.2",
    "(6)", "Prop IV.1 if", "Prop IV.1 only if", "Prop IV.2 if", "Prop IV.2 only if", "Cor IV.1", "(12)",
    "Thm V.1", "Prop V.1", "Prop V.2", "Prop V.3", "Remark 7", "Remark 8",
    "(18)", "(19)", "(20)", "(21)", "model", "(29)", "(30)", "(31)", "(32)",
)  # fmt: skip

#: Those of [Z], about systems with nonholonomic constraints.
NONHOLONOMIC_ORDER = (
    "Z (4)", "Z power", "Z (5)", "Z energy", "Z (6)", "Z (7)", "Z Lemma 3.1",
    "Z Thm 3.2", "Z Thm 3.2 forms", "Z Thm 3.2 functions", "Z Lemma 3.3",
    "Z metric", "Z transport", "Z torsion", "Z Koszul", "Z full torsion", "Z full metric",
    "Z curvature", "Z Schouten",
)  # fmt: skip
