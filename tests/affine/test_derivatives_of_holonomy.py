"""Derivatives of holonomy by the loop and by the connection, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems

import connections as cn

CHART = cn.CoordinateFrame(2)
TURN = 2.0 * np.pi


def rotation(angle):
    return jnp.array([[jnp.cos(angle), jnp.sin(angle)], [-jnp.sin(angle), jnp.cos(angle)]])


def latitude(t, colatitude):
    return jnp.stack(
        [jnp.sin(colatitude) * jnp.cos(t), jnp.sin(colatitude) * jnp.sin(t), jnp.cos(colatitude) + 0.0 * t]
    )


def around_the_sphere(colatitude, turn=TURN):
    """In the frame (e_theta, e_phi) of the unit sphere, a circle of latitude turns by 2 pi cos(theta)."""
    curve = cn.ParametricFunction(latitude, colatitude)
    return cn.holonomy(systems.SPHERE_EMBEDDED_NABLA, curve, 0.0, turn)


def cone_matrix(x, width):
    outward = x / jnp.linalg.norm(x)
    return (1.0 - width**2) * jnp.outer(outward, outward) + width**2 * jnp.eye(2)


def around_the_cone(width):
    """By the plane's coordinates: a turn at the distance r from the tip is 2 pi `width` r long."""
    nabla = cn.LeviCivita(cn.MatrixMetric(CHART, cone_matrix, width))
    return cn.holonomy(nabla, lambda t: jnp.stack([1.3 * jnp.cos(t), 1.3 * jnp.sin(t)]), 0.0, TURN)


def cone_in_closed_form(width):
    lengths = jnp.stack([jnp.ones_like(width), width])  # of the coordinates' fields where the curve begins
    return rotation(TURN * width) * lengths / lengths[:, None]


def around_in_closed_form(theta):
    return rotation(TURN * jnp.cos(theta))


def test_by_the_loop():
    slope, expected = (jax.jacfwd(f)(1.1) for f in (around_the_sphere, around_in_closed_form))
    np.testing.assert_allclose(slope, expected, atol=1e-8)
    assert np.abs(slope - jax.jacfwd(around_in_closed_form)(1.4)).max() > 1.0  # negative control


@pytest.mark.further
def test_backwards_in_a_batch_and_twice():
    """Inside of `jit`."""
    angles = np.array([0.5, 1.1, 1.4])
    slopes = jax.jit(jax.vmap(jax.jacrev(around_the_sphere)))(angles)
    np.testing.assert_allclose(slopes, jax.vmap(jax.jacfwd(around_in_closed_form))(angles), atol=1e-8)
    bend, expected = (
        jax.jit(jax.jacfwd(jax.jacfwd(f)))(1.1) for f in (around_the_sphere, around_in_closed_form)
    )
    np.testing.assert_allclose(bend, expected, atol=1e-6)


@pytest.mark.further
def test_by_what_a_curve_closes_over():
    """As by its parameters."""

    def closing(theta):
        return cn.holonomy(systems.SPHERE_EMBEDDED_NABLA, lambda t: latitude(t, theta), 0.0, TURN)

    np.testing.assert_allclose(
        jax.grad(lambda x: closing(x)[0, 1])(1.1), -TURN * np.sin(1.1) * np.cos(TURN * np.cos(1.1)), atol=1e-8
    )


@pytest.mark.further
def test_by_the_connection():
    """The width of a cone."""
    for derivative in (jax.jacfwd, jax.jacrev):
        expected = derivative(cone_in_closed_form)(0.8)
        np.testing.assert_allclose(derivative(around_the_cone)(0.8), expected, atol=1e-8)
    assert np.abs(expected).max() > 0.1


@pytest.mark.further
def test_of_a_curve_that_is_open():
    """Where JAX traces it, no number; nor are derivatives, of which a zero would be taken for one."""

    def three_quarters(theta):
        return around_the_sphere(theta, 0.75 * TURN)

    assert np.isnan(jax.jit(three_quarters)(1.1)).all()
    for derivative in (jax.jacfwd, jax.jacrev):
        assert np.isnan(derivative(three_quarters)(1.1)).all()
