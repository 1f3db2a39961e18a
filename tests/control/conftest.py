"""Systems on which the control laws are tested: a curved one in a frame with qdot != v, a spinning body."""

import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import random_body

import connections as cn
from connections import multibody as mb
from connections.geometry.rigid.placements import turn_to


def curved_frame_matrix(q):
    return jnp.array(
        [
            [1.0 + 0.2 * jnp.sin(q[1]), 0.3 * jnp.sin(q[2]), 0.0],
            [0.1 * jnp.sin(q[0]), 1.0, 0.2 * jnp.cos(q[0])],
            [0.0, 0.4 * jnp.sin(q[0]), 1.2],
        ]
    )


def curved_mass_matrix(q):
    root = jnp.array(
        [
            [1.2 + 0.3 * jnp.cos(q[1]), 0.0, 0.0],
            [0.2 * jnp.sin(q[2]), 1.0, 0.0],
            [0.1 * jnp.sin(q[0]), 0.3 * jnp.cos(q[0]), 0.9],
        ]
    )
    return root @ root.T


def curved_potential(q):
    return 2.0 * jnp.cos(q[0]) + 0.5 * q[1] ** 2 + jnp.sin(q[2]) * q[0]


@pytest.fixture(scope="session")
def curved_metric():
    return cn.MatrixMetric(cn.MatrixFrame(curved_frame_matrix, 3, 3), curved_mass_matrix)


@pytest.fixture(scope="session")
def curved(curved_metric):
    return cn.MechanicalSystem(curved_metric, curved_potential)


@pytest.fixture(scope="session")
def curved_with_torsion(curved_metric):
    nabla = cn.ContorsionFamily(curved_metric).connection(lambda q: jnp.array([1.5 + jnp.sin(q[0])]))
    return cn.MechanicalSystem(curved_metric, curved_potential, connection=nabla)


@pytest.fixture(scope="session")
def curved_inadmissible(curved_metric):
    """Neither metric compatible nor with Riemannian geodesics."""
    D = jnp.zeros((3, 3, 3)).at[0, 1, 1].set(0.8).at[2, 2, 2].set(0.5)
    nabla = cn.ContorsionConnection(curved_metric, lambda q: D)
    return cn.MechanicalSystem(curved_metric, curved_potential, connection=nabla)


@pytest.fixture(scope="session")
def body():
    """A rigid body about a fixed point, pendulum-like potential."""
    metric = cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 1.6, 2.1]))
    return cn.MechanicalSystem(metric, lambda q: 1.5 * (1.0 - 2.0 * (q[0] ** 2 + q[1] ** 2)))


@pytest.fixture(scope="session")
def limbs():
    """A floating trunk with two limbs, one on a universal joint: qdot != v, Phi depends on q; nv = 10."""
    mechanism, rng = mb.Mechanism(), np.random.default_rng(2)
    parts = {
        "base": ("world", "trunk", mb.Free()),
        "hip": ("trunk", "thigh", mb.Universal((1, 0, 0), (0, 1, 0))),
        "knee": ("thigh", "shank", mb.Revolute((0, 1, 0))),
        "shoulder": ("trunk", "arm", mb.Revolute((1, 1, 0))),
    }
    for name, (parent, body, joint) in parts.items():
        mechanism.add_body(body, **random_body(rng))
        mechanism.add_joint(name, parent, body, joint, turn_to((0.2, 0.3, 1.0)))
    return mechanism.build()
