"""iDynTree: `KinDynComputations.getCoriolisAndMassMatrices` of a URDF file, in each representation."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.interop.libraries.free_bodies import Change, FreeBody, pulled_matrix, widened
from connections.interop.libraries.library import Array, Description, LibraryError, LibraryRobot, slots

VARIANTS = {
    "body": "BODY_FIXED_REPRESENTATION of the base's velocity",
    "mixed": "MIXED_REPRESENTATION of the base's velocity",
    "inertial": "INERTIAL_FIXED_REPRESENTATION of the base's velocity",
}


def read(description: Description, variant: str) -> LibraryRobot:
    """The robot of a URDF file."""
    import idyntree.bindings as idt

    description.refuse(("planar", "floating"), "iDynTree")
    loader, computations = idt.ModelLoader(), idt.KinDynComputations()
    if not loader.loadModelFromString(description.text(), "urdf"):
        raise LibraryError("iDynTree does not load the file")
    theirs, ours = loader.model(), description.untied
    if not computations.loadRobotModel(theirs):
        raise LibraryError("iDynTree does not make a model of the file")
    computations.setFrameVelocityRepresentation(getattr(idt, VARIANTS[variant].split()[0]))
    n, base = theirs.getNrOfDOFs(), 6 * description.floating_base
    body = FreeBody(description.offset_of(computations.getFloatingBase())) if base else FreeBody()
    named = {slot.name: slot.v.start for slot in slots(ours)}
    joints = np.array(
        [named[theirs.getJointName(number)] for number in _joints_of_dofs(theirs, n)], dtype=int
    )
    at_q = joints + bool(base)  # the root's quaternion has one more entry than its angular velocity
    rows = np.concatenate([np.arange(6)[: 6 * bool(base)], 6 + np.argsort(joints)]).astype(int)
    matrices = [idt.MatrixDynSize(6 + n, 6 + n) for _ in range(3)]

    def state(q: Array, v: Array) -> Change:
        """Set the state; returns the change from our v to iDynTree's, base first."""
        place = body.pose(q) if base else np.eye(4)
        change = body.change(variant, q, v[:6]) if base else None
        twist = change.T @ v[:6] if change is not None else np.zeros(6)
        if not computations.setRobotState(place, q[at_q], twist, v[joints], np.zeros(3)):
            raise LibraryError("iDynTree does not accept a state")
        return widened([(slice(0, 6), change)] if change is not None else [], len(v))

    def both(q: Array, v: Array) -> tuple[Array, Array, Change]:
        change = state(q, v)
        if not computations.getCoriolisAndMassMatrices(*matrices):
            raise LibraryError("iDynTree's getCoriolisAndMassMatrices failed")
        C, H = (matrix.toNumPy()[np.ix_(rows, rows)] for matrix in matrices[:2])
        return C, H, change

    def mass_matrix(q: Array) -> Array:
        change = state(q, np.zeros(ours.nv))
        computations.getFreeFloatingMassMatrix(matrices[1])
        H: Array = matrices[1].toNumPy()[np.ix_(rows, rows)]
        return change.T.T @ H @ change.T

    def coriolis(q: Array, v: Array) -> Array:
        return pulled_matrix(*both(q, v))

    notes = ("joints that mimic move on their own",) if description.leaders else ()
    return LibraryRobot(ours, "getCoriolisAndMassMatrices", mass_matrix, coriolis, notes=notes)


def _joints_of_dofs(theirs: Any, n: int) -> list[int]:
    """The indices of the joints with one degree of freedom, in the order of their degrees of freedom."""
    joints = [number for number in range(theirs.getNrOfJoints()) if theirs.getJoint(number).getNrOfDOFs()]
    found = sorted(joints, key=lambda number: theirs.getJoint(number).getDOFsOffset())
    if len(found) != n:
        raise LibraryError(f"iDynTree has {len(found)} joints that move, of {n}")
    return found
