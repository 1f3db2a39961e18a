"""A robot as a subject: the connection under test is the one that its bodies induce.

For closed chains, loops have to close in a neighbourhood of the samples, because differences and flows need
configurations around them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine import InducedConnection
from connections.checks import ModelError
from connections.control import CentroidalCoordinates
from connections.coriolis import MechanicalSystem
from connections.evaluation.compilation import compiled
from connections.multibody import Model, RigidBodySystemConnection
from connections.multibody.curvatures import curvature_operator
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.verify.numerics import Array
from connections.verify.subjects import Bodies, Subject, subject_of

# Distances from a sample within which loops have to close, rad and m; the first for which samples are found.
ROOMS = (0.6, 0.4, 0.25, 0.15, 0.08)
ATTEMPTS = 30


def robot_subject(model: Model, name: str, samples: int = 2, seed: int = 0) -> Subject:
    """The subject of a robot, at random configurations.

    Parameters
    ----------
    model : the robot.
    name : for the report.
    samples : number of configurations.
    seed : of the random numbers.
    """
    rng = np.random.default_rng([seed, 99])
    (system, bodies), (points, room) = _system(model), _points(model, rng, samples)
    return subject_of(name, system, points, rng, seed, bodies, room)


@lru_cache(maxsize=4)
def _system(model: Model) -> tuple[MechanicalSystem, Bodies]:
    """The robot's system and bodies, cached so that all seeds share compiled functions."""

    def axes(q: Array) -> list[tuple[slice, Array, Array]]:
        result = []
        for joint, kind in zip(model.joint_names, model.kinematics.joints, strict=True):
            at = jnp.asarray(q[model.configuration_slice(joint)])
            Phi, slopes = kind.frame.value_and_lie_derivative_at(kind.Phi_at, at)
            result.append((model.velocity_slice(joint), np.asarray(Phi), np.swapaxes(slopes, 0, 1)))
        return result

    induced = model.definition.connection
    ambient, A, poses = induced.ambient, *map(compiled, model.definition.maps)
    assert isinstance(ambient, RigidBodySystemConnection)
    connection = InducedConnection(ambient, ambient.metric, model.frame, A, poses)  # A is traced only once
    system = MechanicalSystem(connection.metric, model.potential_at, connection=connection)
    operator = partial(curvature_operator, model)
    return system, Bodies(ambient.inertias, A, axes, operator, _center_jacobian(model), model)


def _center_jacobian(model: Model) -> Callable[[Array], jax.Array] | None:
    """The velocity of the centre of mass per unit of v, (3, nv); None if a joint or a loop holds it."""
    try:
        return compiled(CentroidalCoordinates(model).jacobian_at)
    except ModelError:
        return None


def _points(model: Model, rng: np.random.Generator, samples: int) -> tuple[Array, float]:
    """Random configurations (samples, nq), and the distance within which all loops close (rad, m)."""
    kinematics = model.kinematics
    if not isinstance(kinematics, ClosedKinematics) or not kinematics.implicit_clusters.any():
        return np.stack([model.random(rng) for _ in range(samples)]), np.inf
    closes = compiled(
        jax.vmap(lambda q, xi: model.valid_at(model.frame.retract_at(q, xi)), in_axes=(None, 0))
    )
    corners = rng.uniform(-1.0, 1.0, size=(4 * model.nv, model.nv))
    around = np.concatenate([np.eye(model.nv), -np.eye(model.nv), corners])
    for room in ROOMS:
        points: list[Array] = []
        for _ in range(ATTEMPTS):
            q = model.random(rng)
            if np.all(closes(q, room * around)):
                points.append(q)
            if len(points) == samples:
                return np.stack(points), room
    return np.stack([model.random(rng) for _ in range(samples)]), ROOMS[-1]
