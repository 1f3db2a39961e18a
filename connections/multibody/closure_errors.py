"""What is wrong with a configuration in which loops do not close, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from connections.checks import ClosureError, raise_at

if TYPE_CHECKING:
    from connections.multibody.closed_kinematics import ClosedKinematics

SINGULAR = 1e-6  # sine of the angle between a column of K_d and those before it, below which G is undefined


def explain_loops(kinematics: ClosedKinematics, q: Any, start: Any = None) -> None:
    """Raise `ClosureError` where a loop does not close at q (nq,) or is singular; quiet where all do.

    Parameters
    ----------
    kinematics : of the closed chains, implicit loops among them.
    q : (nq,) the configuration.
    start : (nq_s,) where the path begins; the reference if None.
    """
    solution = kinematics.solve(q, start)
    weakest = int(np.argmin(solution.pivot))
    body = kinematics.spanning.body_of[kinematics.loops.dependent[weakest]]
    names = _names_of(kinematics, int(kinematics.clusters.of_body[body]))
    origin = "the reference configuration" if start is None else "the guess"
    if solution.reached < 1.0:
        raise_at(
            ClosureError,
            f"{names} cannot close: from {origin} the loops could be followed over "
            f"{100 * float(solution.reached):.3g} % of the way. Either no configuration closes them, or one "
            "on the way is singular; a reference (or a guess) nearer to q avoids the latter",
            q,
        )
    if not solution.pivot[weakest] >= SINGULAR:
        joint = kinematics.tree.joint_names[body]
        raise_at(
            ClosureError,
            f"{names} is singular: the dependent joint '{joint}' is not determined by the independent "
            "ones, as where bars are aligned. Choose other independent joints, or a configuration away from "
            "this one",
            q,
        )


def _names_of(kinematics: ClosedKinematics, cluster: int) -> str:
    """The loops and couplings of a cluster in words."""
    owners = set(kinematics.rows.owners[kinematics.rows.clusters == cluster].tolist())
    owners |= {function.owner for function in kinematics.functions if function.cluster == cluster}
    names = ", ".join(f"'{kinematics.names[owner]}'" for owner in sorted(owners))
    return f"loop {names}" if len(owners) == 1 else f"the system of loops {names}"
