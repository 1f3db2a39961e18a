"""Five tests of somebody's program that uses this library."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections import multibody as mb
from connections.checks import ShapeError


@pytest.fixture(scope="module")
def robot():
    return mb.example("arm")


def test_the_coriolis_matrix_gives_the_bias(robot):
    q, v = robot.random(0), np.ones(robot.nv)
    bias = mb.nonlinear_effects(robot, q, v) - mb.gravity(robot, q)
    assert np.allclose(mb.coriolis_matrix(robot, q, v) @ v, bias)


def test_a_batch_and_jax_give_the_same(robot):
    q = np.stack([robot.random(seed) for seed in range(20)])
    inside = jax.jit(jax.vmap(lambda q: mb.mass_matrix(robot, q)))(jnp.asarray(q))
    assert np.allclose(mb.mass_matrix(robot, q), inside)


def test_a_geodesic_of_a_metric_of_ones_own():
    metric = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    motion = cn.geodesic(cn.LeviCivita(metric), [0.0, 1.0], [1.0, 0.0], [0.0, 1.0])
    assert np.allclose(motion.q[-1], [np.tanh(1.0), 1.0 / np.cosh(1.0)])


def test_wrong_arguments_are_named(robot):
    with pytest.raises(ShapeError, match="v"):
        mb.coriolis_matrix(robot, robot.neutral(), [1.0])


def test_the_fixture_judges_a_library(referee):
    """A point mass in polar coordinates; with half of one term of its bias, the test would fail."""

    def mass_matrix(q):
        return np.diag([2.0, 2.0 * q[0] ** 2])

    def bias(q, v):
        return np.array([-2.0 * q[0] * v[1] ** 2, 4.0 * q[0] * v[0] * v[1]])

    sample = {"q": [1.2, 0.4], "v": [0.5, -0.4]}
    referee.check(mass_matrix=mass_matrix, bias=bias, **sample, require={"bias", "symmetric"})
    with pytest.raises(pytest.fail.Exception, match="bias fails"):
        referee.check(mass_matrix=mass_matrix, bias=lambda q, v: bias(q, v) * [1.0, 0.5], **sample)
