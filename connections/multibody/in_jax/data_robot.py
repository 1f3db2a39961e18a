"""A robot whose numbers are data, such as traced ones, by its definition in JAX."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax

from connections.multibody.definition.recursions import spatial_inertias
from connections.multibody.loops.closed_kinematics import ClosedKinematics


def with_data(robot: Any, parameters: jax.Array, gravity: jax.Array, armature: jax.Array) -> Any:
    """The robot with other numbers, for its definition in JAX only.

    Parameters
    ----------
    robot : a model.
    parameters : (10 N,).
    gravity : (3,) m/s^2.
    armature : (nv_s,) of all joints of the spanning tree.
    """
    kinematics = robot.kinematics
    spanning = kinematics.spanning if isinstance(kinematics, ClosedKinematics) else kinematics
    tree = replace(spanning.tree, inertias=spatial_inertias(parameters), armature=armature)
    spanning = replace(spanning, tree=tree)
    if not isinstance(kinematics, ClosedKinematics):
        return replace(robot, kinematics=spanning, gravity=gravity)
    make = kinematics.make_solver  # loops do not depend on these numbers
    solver = None if make is None else lambda _: make(kinematics)
    return replace(
        robot, kinematics=replace(kinematics, spanning=spanning, make_solver=solver), gravity=gravity
    )
