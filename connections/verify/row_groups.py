"""The catalogue in a few lines: groups of propositions, in words of robotics.

`GROUPS` has every key of the catalogue once. A group holds if all its rows hold. Its line has its worst
residual and its weakest control: the smallest gap between a right and a wrong computation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from connections.checks import require_items
from connections.verify.report import FAILS, HOLDS, INCONCLUSIVE, Row


@dataclass(frozen=True)
class Group:
    """Propositions that make one statement together.

    Parameters
    ----------
    statement : at most 42 characters, so that the line has room for its numbers.
    keys : of the propositions.

    Examples
    --------
    >>> from connections import verify
    >>> group = verify.GROUPS[0]
    >>> group.statement, group.keys
    ('a connection differentiates along curves', ('A1', 'A2'))
    """

    statement: str
    keys: tuple[str, ...]


GROUPS = (
    Group("a connection differentiates along curves", ("A1", "A2")),
    Group(
        "compatible with H iff Hdot - 2C is skew",
        ("Prop III.1 if", "Prop III.1 only if", "Prop IV.1 if", "Prop IV.1 only if"),
    ),
    Group(
        "motions are right iff Cv is Lagrange's",
        ("Prop III.2 if", "Prop III.2 only if", "(6)", "Prop IV.2 if", "Prop IV.2 only if"),
    ),
    Group(
        "one C has both and no torsion: Koszul's",
        ("Thm III.1", "Thm III.1 unique", "Koszul", "(5)", "(8)", "(9)"),
    ),
    Group(
        "the others with both differ by torsion",
        ("Thm III.2", "Thm III.2 unique", "Cor III.1", "Cor III.2", "Cor IV.1", "(12)", "least"),
    ),
    Group("this C from derivatives of Cv, any frame", ("(29)", "(30)", "(31)", "(32)")),
    Group(
        "C induced: constraints, charts, task space",
        ("Thm V.1", "Prop V.1", "Prop V.2", "Prop V.3", "Remark 7", "Remark 8"),
    ),
    Group("bodies and robots: C is a sum over bodies", ("(18)", "(19)", "(20)", "(21)", "model")),
    Group("inertias of bodies: natural adaptation", ("LKP cone", "LKP frames", "LKP rate", "LKP dual")),
    Group("constants of robots, at every posture", ("sup H", "sup dg", "sup C")),
    Group(
        "R: Bianchi, loops, neighbouring motions",
        ("Bianchi 1", "Bianchi 2", "R symmetries", "Ricci identity", "sectional", "Jacobi", "E (42)"),
    ),
    Group("other families: Weyl, dual, parts of T, Q", ("Weyl", "dual", "dual R", "parts")),
    Group("densities: dually flat, Pythagoras", ("AN alpha", "AN flat", "AN Pythagoras")),
    Group("filters: exp, resets, means, members", ("F exp", "F reset", "F mean", "F members")),
    Group("filters: spreading, with dampers, too", ("F spread", "F damped")),
    Group("filters: affine flows, drift, Kalman's", ("F affine", "F drift", "F shift", "F Kalman")),
    Group(
        "constraint forces and motions",
        ("Z (4)", "Z power", "Z (5)", "Z energy", "Z moving", "Z moving power"),
    ),
    Group(
        "the connection of nonholonomic motions",
        (
            "Z (6)", "Z (7)", "Z Lemma 3.1", "Z Thm 3.2", "Z Thm 3.2 forms", "Z Thm 3.2 functions",
            "Z Lemma 3.3", "Z Koszul", "Z metric", "Z transport", "Z torsion", "Z full torsion",
            "Z full metric",
        ),
    ),
    Group("curvature under constraints", ("Z curvature", "Z Schouten")),
)  # fmt: skip


@dataclass(frozen=True)
class GroupResult:
    """A group on several systems.

    Parameters
    ----------
    statement : of the group.
    checks, systems : number of rows, and of subjects.
    residual : the largest relative residual; NaN if any is NaN.
    control : the smallest relative residual of a negative control.
    verdict : the worst of the rows.

    Examples
    --------
    >>> from connections import verify
    >>> from connections.checks import Check
    >>> check, control = Check("A1", 1e-13, 1.0, 1e-9), Check("A1", 0.5, 1.0, 1e-9)
    >>> row = verify.Row("sphere", "A1", "nabla_fX Y = f nabla_X Y", check, control, seconds=0.1)
    >>> result = verify.by_group([row])[0]
    >>> result.statement, result.checks, result.verdict
    ('a connection differentiates along curves', 1, 'holds')
    """

    statement: str
    checks: int
    systems: int
    residual: float
    control: float
    verdict: str


def by_group(rows: Iterable[Row]) -> list[GroupResult]:
    """One result per group; groups without rows are left out.

    Parameters
    ----------
    rows : of any subjects, from `verify_subject`.

    Returns
    -------
    list of GroupResult, in the order of `GROUPS`.

    Examples
    --------
    >>> from connections import verify
    >>> rows = verify.verify_subject(verify.system_subject("sphere", samples=1))
    >>> for result in verify.by_group(rows)[:2]:
    ...     print(result.statement, result.checks, result.verdict)
    a connection differentiates along curves 2 holds
    compatible with H iff Hdot - 2C is skew 4 holds
    """
    found = require_items("rows", rows, Row, "rows")
    results = []
    for group in GROUPS:
        members = [row for row in found if row.key in group.keys]
        if members:
            results.append(
                GroupResult(
                    group.statement,
                    len(members),
                    len({row.subject for row in members}),
                    float(np.max([row.check.relative for row in members])),  # a NaN stays one
                    float(np.min([row.control.relative for row in members])),
                    max((row.verdict for row in members), key=(HOLDS, INCONCLUSIVE, FAILS).index),
                )
            )
    return results
