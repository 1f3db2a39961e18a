"""Reduced equations of a snakeboard, and what they reconstruct, against the system with multipliers."""

import jax.numpy as jnp
import numpy as np
import pytest
import vehicles
from vehicles import GROUP, LENGTH, MASS, NABLA, POINTS, ROTOR, WHEELS

import connections as cn


def springs(q):
    """Of the wheels' angle: invariant."""
    return 0.4 * q[4] ** 2


def damping(t, q, v):
    """Of the wheels' angle."""
    return jnp.zeros(5).at[4].set(-0.05 * v[2])


def shape(q):
    return q[4:]


def section(r):
    """The board at the origin, the rotor along it."""
    return jnp.zeros(5).at[4].set(r[0])


SYSTEM = cn.NonholonomicSystem(NABLA, springs, damping, vehicles.inputs)
REDUCED = cn.ReducedSystem(SYSTEM, GROUP, shape, section)
Q, G = POINTS[0], POINTS[1, :, :4]


def torques(t, r, v):
    """Controls (2,): functions of time, shape and velocity."""
    return jnp.stack([jnp.cos(2.0 * t), 0.1 * jnp.sin(t) - 0.02 * v[2]])


def test_a_snakeboard_is_reduced_to_the_angle_of_its_wheels():
    assert REDUCED.require(Q, G) is REDUCED
    assert REDUCED.shape_dim == 1
    names = [check.name for check in REDUCED.checks(Q, G)]
    assert names == [
        "section has its shape",
        *(f"invariant {what}" for what in ("shape", "basis", "metric", "potential", "inputs", "forces")),
    ]


def test_reduced_motion_and_reconstruction_are_the_whole_motion():
    q0, v0 = np.array([0.3, -0.2, 0.5, 0.1, -0.3]), np.array([0.3, 0.2, -0.4])
    times = np.linspace(0.0, 1.5, 4)
    q, v = REDUCED.reconstruct(q0, v0, times, torques)
    board = vehicles.snakeboard(MASS, ROTOR, WHEELS, LENGTH)

    def covector(t, p, p_dot):
        u = np.array([np.cos(2.0 * t), 0.1 * np.sin(t) - 0.02 * p_dot[4]])
        return np.array([0, 0, 0, u[0], u[1] - 0.8 * p[4] - 0.05 * p_dot[4]])

    expected, q_dot = board.motion(q0, np.asarray(NABLA.basis(q0)) @ v0, times, covector)
    np.testing.assert_allclose(q, expected, atol=1e-9)
    np.testing.assert_allclose(v[:, 1:], q_dot[:, 3:], atol=1e-9)
    assert np.max(np.abs(q[-1] - q[0])) > 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"potential": lambda q: jnp.sin(q[0])}, "cannot be reduced by this group: invariant potential"),
        ({"forces": lambda t, q, v: jnp.eye(5)[0] * v[0]}, "invariant forces"),
        ({"inputs": lambda q: jnp.eye(5)[:2]}, "invariant inputs"),
    ],
)
def test_what_is_not_invariant_is_named(change, message):
    system = cn.NonholonomicSystem(NABLA, **change)
    with pytest.raises(cn.SymmetryError, match=message):
        cn.ReducedSystem(system, GROUP, shape, section).require(Q, G)


def test_bad_shapes_and_sections():
    with pytest.raises(cn.SymmetryError, match="section has its shape"):
        cn.ReducedSystem(SYSTEM, GROUP, shape, lambda r: jnp.zeros(5).at[4].set(2.0 * r[0])).require(Q, G)
    with pytest.raises(cn.ShapeError, match=r"section: expected shape \(5,\), got \(1,\)"):
        cn.ReducedSystem(SYSTEM, GROUP, shape, lambda r: r)
    with pytest.raises(cn.ShapeError, match="shape coordinates"):
        cn.ReducedSystem(SYSTEM, GROUP, lambda q: q[4], section)
