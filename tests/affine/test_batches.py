"""Every public function takes leading batch axes, broadcast together: the batch is the loop."""

import numpy as np
import oracles
import pytest
import systems
from cases import always

import connections as cn

BATCH = (2, 3)
NABLA, METRIC = systems.ADMISSIBLE, systems.METRIC
POINT_FUNCTIONS = {
    "matrix": (lambda q: METRIC.matrix(q), (3, 3)),
    "frame": (lambda q: systems.FRAME.matrix(q), (3, 3)),
    "structure": (lambda q: systems.FRAME.structure_functions(q), (3, 3, 3)),
    "coefficients": (lambda q: NABLA.coefficients(q), (3, 3, 3)),
    "torsion": (lambda q: NABLA.torsion(q), (3, 3, 3)),
    "curvature": (lambda q: NABLA.curvature(q), (3, 3, 3, 3)),
    "ricci": (lambda q: NABLA.ricci(q), (3, 3)),
    "scalar": (lambda q: NABLA.scalar_curvature(q, METRIC), ()),
    "first_kind": (lambda q: NABLA.first_kind(q, METRIC), (3, 3, 3)),
    "contorsion": (lambda q: NABLA.contorsion(q, METRIC), (3, 3, 3)),
    "nonmetricity": (lambda q: NABLA.nonmetricity(q, METRIC), (3, 3, 3)),
}


@pytest.mark.parametrize("name", always(POINT_FUNCTIONS, "frame", "torsion"))
def test_functions_of_a_point(name, rng):
    function, core = POINT_FUNCTIONS[name]
    q = systems.points(rng, *BATCH)
    values = np.asarray(function(q))
    assert values.shape == BATCH + core
    np.testing.assert_allclose(values[1, 2], function(q[1, 2]), atol=1e-13)
    assert function(q[:0]).shape == (0, 3, *core)


def test_points_and_vectors_broadcast(rng):
    q, v, w = systems.points(rng, 2, 1), rng.standard_normal((3, 3)), rng.standard_normal(3)
    values = np.asarray(NABLA.apply(q, v, w))
    assert values.shape == (2, 3, 3)
    np.testing.assert_allclose(values[1, 2], NABLA.apply(q[1, 0], v[2], w), atol=1e-13)
    C = np.asarray(cn.coriolis_matrix(NABLA, q, v, METRIC))
    assert C.shape == (2, 3, 3, 3)
    np.testing.assert_allclose(C[1, 2] @ w, METRIC.matrix(q[1, 0]) @ values[1, 2], atol=1e-12)
    K = NABLA.sectional(q, v, w, METRIC)
    assert K.shape == (2, 3)


@pytest.mark.further
def test_fields(rng):
    q = systems.points(rng, *BATCH)
    X, Y = (lambda p: p), (lambda p: p**2)
    for function in (NABLA.covariant_derivative, NABLA.symmetric_product, systems.FRAME.bracket):
        assert function(X, Y, q).shape == (*BATCH, 3)


def test_geodesics_and_exponential(rng):
    q0, v0 = oracles.random_quaternion(rng, 2, 1), rng.standard_normal((3, 3))
    times = np.linspace(0, 1, 4)
    q, v = cn.geodesic(systems.TOP_NABLA, q0, v0, times)
    assert q.shape == (2, 3, 4, 4) and v.shape == (2, 3, 4, 3)  # time follows the batch axes
    one_q, one_v = cn.geodesic(systems.TOP_NABLA, q0[1, 0], v0[2], times)
    np.testing.assert_allclose(q[1, 2], one_q, atol=1e-9)
    np.testing.assert_allclose(v[1, 2], one_v, atol=1e-9)
    end = cn.exponential(systems.TOP_NABLA, q0, v0)
    np.testing.assert_allclose(end, q[..., -1, :], atol=1e-9)


@pytest.mark.further
def test_transport_of_a_stack_is_the_transport_operator(rng):
    def curve(t):
        import jax.numpy as jnp

        return jnp.stack([0.2 * t, 0.1 * t**2, -0.3 * t])

    z0, times = rng.standard_normal((2, 3)), np.array([0.0, 0.5, 1.0])
    operator = np.asarray(cn.parallel_transport(NABLA, curve, np.eye(3), times))  # [column, T, :]
    z = np.asarray(cn.parallel_transport(NABLA, curve, z0, times))
    assert operator.shape == (3, 3, 3) and z.shape == (2, 3, 3)
    np.testing.assert_allclose(z, np.einsum("ba,ati->bti", z0, operator), atol=1e-10)
