"""The catalogue: every proposition, in the papers' order, collected from the files of its groups."""

from __future__ import annotations

from connections.verify import (
    bodies,
    constants,
    coriolis,
    curvature,
    families,
    filters,
    induced,
    inertias,
    nonholonomic,
    nonmetric,
    riemannian,
)
from connections.verify.measurement import CONTROL_FLOOR, Measurement, Proposition, Sample
from connections.verify.subjects import Subject

__all__ = [
    "CATALOGUE",
    "CONTROL_FLOOR",
    "Measurement",
    "NONHOLONOMIC_ORDER",
    "ORDER",
    "Proposition",
    "Sample",
    "catalogue",
]

#: Propositions of [W], of curvature, of connections beyond contorsion, and of filters.
ORDER = (
    "A1", "A2", "Thm III.1", "Thm III.1 unique", "Koszul", "(5)", "(8)", "(9)",
    "Prop III.1 if", "Prop III.1 only if", "Prop III.2 if", "Prop III.2 only if",
    "Thm III.2", "Thm III.2 unique", "Cor III.1", "Cor III.2",
    "(6)", "Prop IV.1 if", "Prop IV.1 only if", "Prop IV.2 if", "Prop IV.2 only if", "Cor IV.1", "(12)",
    "least", "Thm V.1", "Prop V.1", "Prop V.2", "Prop V.3", "Remark 7", "Remark 8",
    "(18)", "(19)", "(20)", "(21)", "model", "(29)", "(30)", "(31)", "(32)",
    "LKP cone", "LKP frames", "LKP rate", "LKP dual", "sup H", "sup dg", "sup C",
    "Bianchi 1", "Bianchi 2", "R symmetries", "Ricci identity", "sectional", "Jacobi", "E (42)",
    "Weyl", "dual", "dual R", "parts", "AN alpha", "AN flat", "AN Pythagoras",
    "F exp", "F reset", "F mean", "F spread", "F damped", "F members",
    "F affine", "F drift", "F shift", "F Kalman",
)  # fmt: skip

#: Propositions of [Z], about systems with nonholonomic constraints.
NONHOLONOMIC_ORDER = (
    "Z (4)", "Z power", "Z (5)", "Z energy", "Z moving", "Z moving power", "Z (6)", "Z (7)", "Z Lemma 3.1",
    "Z Thm 3.2", "Z Thm 3.2 forms", "Z Thm 3.2 functions", "Z Lemma 3.3",
    "Z metric", "Z transport", "Z torsion", "Z Koszul", "Z full torsion", "Z full metric",
    "Z curvature", "Z Schouten",
)  # fmt: skip

CATALOGUE: tuple[Proposition, ...] = tuple(
    item
    for group in (
        riemannian,
        families,
        coriolis,
        induced,
        bodies,
        inertias,
        constants,
        curvature,
        nonmetric,
        filters,
        nonholonomic,
    )
    for item in group.PROPOSITIONS
)


def catalogue(kind: type = Subject) -> list[Proposition]:
    """All propositions about one kind of subjects, in the paper's order.

    Parameters
    ----------
    kind : `Subject`, or `NonholonomicSubject`.
    """
    order = {key: index for index, key in enumerate((*ORDER, *NONHOLONOMIC_ORDER))}
    return sorted((item for item in CATALOGUE if item.kind is kind), key=lambda item: order[item.key])
