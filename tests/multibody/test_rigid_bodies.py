"""N rigid bodies on SE(3)^N: eq. (18) body by body against the Koszul formula; singular inertias."""

import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import connections as cn
from connections import multibody as mb
from connections.checks import NonFiniteError, PointError, ShapeError


@pytest.fixture
def inertias(rng):
    return np.stack(
        [
            oracles.rigid_body_inertia(m, rng.standard_normal(3), np.diag([1.0, 1.2, 0.9]) + 0.1)
            for m in (1.5, 0.6)
        ]
    )


@pytest.fixture
def q(rng):
    return oracles.random_pose(rng, 2).reshape(-1)


def test_agrees_with_the_koszul_formula(inertias, q, rng):
    bodies = mb.RigidBodySystemConnection(inertias)
    v, w = rng.standard_normal((2, 12))
    koszul = cn.LeviCivita(cn.ConstantMetric(bodies.frame, np.asarray(bodies.metric.matrix(q))))
    Gamma = bodies.coefficients(q)
    np.testing.assert_allclose(Gamma, koszul.coefficients(q), atol=1e-12)
    np.testing.assert_allclose(bodies.apply(q, v, w), np.einsum("ijk,j,k", Gamma, v, w), atol=1e-12)
    lowered = bodies.lowered_at(bodies.metric, jnp.asarray(q), jnp.asarray(v), jnp.asarray(w))
    np.testing.assert_allclose(lowered, bodies.metric.matrix(q) @ bodies.apply(q, v, w), atol=1e-12)
    assert np.max(np.abs(bodies.apply(q, w, v) - bodies.apply(q, v, w))) > 1e-2  # negative control


def test_is_the_levi_civita_connection_of_its_metric(inertias, q):
    bodies = mb.RigidBodySystemConnection(inertias)
    bodies.check_torsion_free(q).require()
    bodies.check_metric_compatible(q, bodies.metric).require()
    other = mb.RigidBodySystemMetric(inertias[::-1])  # negative control: the bodies exchanged
    assert bodies.check_metric_compatible(q, other).relative > 1e-2


def test_equals_the_product_of_its_bodies(inertias, q, rng):
    v, w = rng.standard_normal((2, 5, 12))
    each = [cn.LeviCivita(cn.ConstantMetric(cn.SE3Frame(), inertia)) for inertia in inertias]
    product = cn.ProductConnection(*each)
    np.testing.assert_allclose(
        mb.RigidBodySystemConnection(inertias).apply(q, v, w), product.apply(q, v, w), atol=1e-12
    )
    exchanged = cn.ProductConnection(*each[::-1])  # control
    assert np.max(np.abs(exchanged.apply(q, v, w) - product.apply(q, v, w))) > 1e-2


def test_a_body_without_inertia_does_nothing(inertias, q, rng):
    inertias[1] = 0.0
    bodies = mb.RigidBodySystemConnection(inertias)
    v = rng.standard_normal(12)
    assert not np.asarray(bodies.apply(q, v, v))[6:].any()
    assert np.asarray(bodies.apply(q, v, v))[:6].any()


def test_point_mass_stays_in_the_range_of_its_inertia(q, rng):
    point = oracles.rigid_body_inertia(2.0, rng.standard_normal(3), np.zeros((3, 3)))
    bodies = mb.RigidBodySystemConnection(np.stack([point, point]))
    v, w = rng.standard_normal((2, 12))
    exact = bodies.lowered_at(bodies.metric, jnp.asarray(q), jnp.asarray(v), jnp.asarray(w))
    np.testing.assert_allclose(bodies.metric.matrix_at(q) @ bodies.apply_at(q, v, w), exact, atol=1e-12)


def test_bad_input(inertias, q):
    with pytest.raises(ShapeError, match="inertias"):
        mb.RigidBodySystemConnection(np.eye(6))
    with pytest.raises(NonFiniteError, match=r"inertias\[0, 0, 0\]"):
        mb.RigidBodySystemConnection(inertias * np.nan)
    with pytest.raises(PointError, match="quaternion"):
        mb.RigidBodySystemConnection(inertias).coefficients(2 * q)
    with pytest.raises(ShapeError, match="q"):
        mb.RigidBodySystemConnection(inertias).coefficients(q[:-1])
