"""Functions of users that take other arguments, or return other shapes, are named where they are given."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections import control

PLANE = cn.CoordinateFrame(2)
METRIC = cn.MatrixMetric(PLANE, lambda q: jnp.diag(jnp.stack([1.0 + q[0] ** 2, 2.0 + 0.0 * q[0]])))
NABLA = cn.LeviCivita(METRIC)
SPACE = cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([1.0, 2.0, 3.0]))
SKATE = cn.ConstrainedConnection(SPACE, forms=lambda q: jnp.array([[0.0, 1.0, q[0]]]))
Q, V, TIMES = np.array([0.3, 0.4]), np.array([1.0, 0.5]), [0.0, 0.5]
Q3, U, NOTHING = np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.2]), np.zeros(3)


def system(**given):
    return cn.MechanicalSystem(METRIC, **given)


def skate(**given):
    return cn.NonholonomicSystem(SKATE, **given)


def of_size(size):
    """(t, q, v) -> zeros."""
    return lambda t, q, v: jnp.zeros(size)


def circle(t):
    return jnp.stack([jnp.cos(t), jnp.sin(t)])


SHAPES = {
    "a potential": ("potential", lambda: system(potential=lambda q: q).gravity(Q)),
    "in an energy": ("potential", lambda: system(potential=lambda q: q).energy(Q, V)),
    "in a motion": ("potential", lambda: system(potential=lambda q: q).simulate(Q, V, TIMES)),
    "of a skate": ("potential", lambda: skate(potential=lambda q: q).forward_dynamics(Q3, U, NOTHING)),
    "forces": ("forces", lambda: system(forces=of_size(3)).forward_dynamics(Q, V, V)),
    "forces of one entry": ("forces", lambda: system(forces=of_size(1)).forward_dynamics(Q, V, V)),
    "a number for forces": ("forces", lambda: system(forces=of_size(())).simulate(Q, V, TIMES)),
    "forces of a skate": ("forces", lambda: skate(forces=of_size(2)).forward_dynamics(Q3, U, NOTHING)),
    "a control": ("control", lambda: system().simulate(Q, V, TIMES, of_size(3))),
    "a control of one entry": ("control", lambda: system().simulate(Q, V, TIMES, of_size(1))),
    "inside jit": ("control", lambda: jax.jit(lambda q: system().simulate(q, V, TIMES, of_size(3)).q)(Q)),
    "of a skate's": ("control", lambda: skate().simulate(Q3, U, TIMES, of_size(2))),
    "of a skate's inside jit": (
        "control",
        lambda: jax.jit(lambda q: skate().simulate(q, U, TIMES, of_size(2)).q)(Q3),
    ),
    "a force": ("acceleration", lambda: cn.geodesic(NABLA, Q, V, TIMES, of_size(3))),
    "a force of one entry": ("acceleration", lambda: cn.geodesic(NABLA, Q, V, TIMES, of_size(1))),
    "on a skate": ("acceleration", lambda: cn.geodesic(SKATE, Q3, U, TIMES, of_size(1))),
    "in a linearization": ("acceleration", lambda: cn.linearize(NABLA, Q, V, of_size(3))),
    "in a covariant one": (
        "acceleration",
        lambda: cn.affine.covariant_linearization(NABLA, Q, V, of_size(1)),
    ),
    "in a flow": ("acceleration", lambda: cn.geodesic_flow(NABLA, Q, V, TIMES, of_size(1))),
    "a curve": ("curve", lambda: cn.parallel_transport(NABLA, lambda t: jnp.zeros(3), V, TIMES)),
    "a number for a curve": ("curve", lambda: cn.parallel_transport(NABLA, lambda t: t, V, TIMES)),
    "a closed curve": ("curve", lambda: cn.holonomy(NABLA, lambda t: jnp.zeros(3), 0.0, 1.0)),
    "a field along": (
        "field",
        lambda: cn.covariant_derivative_along(NABLA, circle, lambda t: jnp.zeros(3), TIMES),
    ),
    "a field's curve": (
        "curve",
        lambda: cn.covariant_derivative_along(NABLA, lambda t: jnp.zeros(1), circle, TIMES),
    ),
    "beta": ("beta", lambda: cn.ContorsionFamily(SPACE).connection(lambda q: q[:2]).coefficients(Q3)),
}

ARGUMENTS = {
    "a potential": ("potential", lambda: system(potential=lambda: 1.0)),
    "forces without time": ("forces", lambda: system(forces=lambda q, v: v)),
    "of a skate": ("forces", lambda: skate(forces=lambda q, v: v)),
    "a control without time": ("control", lambda: system().simulate(Q, V, TIMES, lambda q, v: v)),
    "of a skate's": ("control", lambda: skate().simulate(Q3, U, TIMES, lambda q, v: v)),
    "a force": ("acceleration", lambda: cn.geodesic(NABLA, Q, V, TIMES, lambda q: q)),
    "a field without time": ("field", lambda: control.FieldReference(PLANE, lambda q: q)),
    "an acceleration": ("acceleration", lambda: control.AccelerationReference(PLANE, lambda q, v: v, 1.0)),
    "beta": ("beta", lambda: cn.ContorsionFamily(SPACE).connection(lambda: 1.0)),
    "a metric of time": ("matrix", lambda: cn.MatrixMetric(PLANE, lambda t, q, v: jnp.eye(2))),
    "a curve of nothing": ("curve", lambda: cn.parallel_transport(NABLA, lambda: jnp.zeros(2), V, TIMES)),
    "a keyword": ("potential", lambda: system(potential=lambda q, *, scale: scale * q[0])),
}


@pytest.mark.parametrize("name", SHAPES)
def test_another_shape_is_named(name):
    argument, call = SHAPES[name]
    with pytest.raises(cn.checks.ShapeError, match=rf"^{argument}\b"):
        call()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_other_arguments_are_named(name):
    argument, call = ARGUMENTS[name]
    with pytest.raises(TypeError, match=rf"^{argument}: expected a function"):
        call()


def test_what_returns_nothing_is_named():
    with pytest.raises(TypeError, match="^potential: .* None"):
        system(potential=lambda q: None).gravity(Q)


def test_what_is_right_passes():
    """Optional arguments, any number of them, compiled and bound functions, one entry for a potential."""

    class Spring:
        def energy(self, q, stiffness=3.0):
            return stiffness * q[:1] ** 2

    expected = np.array([6.0 * Q[0], 0.0])
    for potential in (
        Spring().energy,
        jax.jit(lambda *q: 3.0 * q[0][0] ** 2),
        lambda q, k=3.0: k * q[0] ** 2,
    ):
        np.testing.assert_allclose(system(potential=potential).gravity(Q), expected)
    scaled = cn.MechanicalSystem(METRIC, potential=lambda q, k: k * q[0] ** 2, parameters=3.0)
    np.testing.assert_allclose(scaled.gravity(Q), expected)
