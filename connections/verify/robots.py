"""A robot as a subject: the connection under test is the one that its bodies induce."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from connections.multibody import Model
from connections.verify.numerics import Array
from connections.verify.subjects import Bodies, Subject, subject


def robot_subject(model: Model, name: str, samples: int = 2, seed: int = 0) -> Subject:
    """The subject of a robot, at random configurations.

    Parameters
    ----------
    model : the robot.
    name : for the report.
    samples : number of configurations.
    seed : of the random numbers.
    """
    rng, tree = np.random.default_rng([seed, 99]), model.kinematics.tree

    def axes(q: Array) -> list[tuple[slice, Array]]:
        return [
            (
                model.velocity_slice(joint),
                np.asarray(kind.Phi_at(jnp.asarray(q[model.configuration_slice(joint)]))),
            )
            for joint, kind in zip(model.joint_names, model.kinematics.joints, strict=True)
        ]

    bodies = Bodies(np.asarray(tree.inertias), model.body_jacobians_at, axes)
    return subject(
        name,
        model.metric,
        np.stack([model.random(rng) for _ in range(samples)]),
        rng,
        seed=seed,
        potential=model.potential_at,
        connection=model.connection,
        bodies=bodies,
    )
