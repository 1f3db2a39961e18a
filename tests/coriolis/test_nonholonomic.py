"""Nonholonomic systems: motion and constraint forces against the equations with Lagrange multipliers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import connections as cn

MASS, INERTIA, ARM, GRAVITY, SLOPE = 1.3, 0.4, 0.25, 9.81, 0.2


def blade(q):
    """The skate's constraint at its contact, the centre of mass ARM ahead of it: one form, (1, 3)."""
    return jnp.stack([-jnp.sin(q[2]), jnp.cos(q[2]), -ARM + 0.0 * q[0]])[None]


def potential(q):
    """Weight on a plane that falls along x."""
    return -MASS * GRAVITY * SLOPE * q[0]


def drag(t, q, v):
    """A covector that depends on time, point and velocity."""
    return jnp.stack([-0.1 * v[0], jnp.sin(t), 0.05 * q[1]])


def rudder(q):
    """Two inputs: thrust along the body, and a couple."""
    return jnp.stack([jnp.stack([jnp.cos(q[2]), jnp.sin(q[2]), 0.0 * q[0]]), jnp.array([0.0, 0.0, 1.0])])


def steering(t, q, v):
    """Controls (2,)."""
    return jnp.stack([jnp.cos(2 * t) + 0.0 * q[0], 0.3 * jnp.sin(t) - 0.1 * v[1]])


METRIC = cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([MASS, MASS, INERTIA]))
NABLA = cn.ConstrainedConnection(METRIC, forms=blade)
SLEIGH = cn.NonholonomicSystem(NABLA)
DRIVEN = cn.NonholonomicSystem(NABLA, potential, drag, rudder)
TIMES = np.linspace(0.0, 1.5, 4)
Q0, V0 = np.array([0.1, -0.2, 0.4]), np.array([0.9, 0.5])


def with_multipliers(t, q, q_dot, covector):
    """qddot and lambda from [M, -W^T; W, 0] [qddot; lambda] = [F; -Wdot qdot], on NumPy arrays."""
    s, c = np.sin(q[2]), np.cos(q[2])
    W = np.array([[-s, c, -ARM]])
    W_dot = np.array([[-c, -s, 0.0]]) * q_dot[2]
    matrix = np.block([[np.diag([MASS, MASS, INERTIA]), -W.T], [W, np.zeros((1, 1))]])
    solved = np.linalg.solve(matrix, np.concatenate([covector, -W_dot @ q_dot]))
    return solved[:3], solved[3:]


def covector_of(system, t, q, v):
    """Everything that acts but the constraint, (3,), on NumPy arrays."""
    if system is SLEIGH:
        return np.zeros(3)
    u = np.asarray(steering(t, q, v))
    inputs = np.array([[np.cos(q[2]), np.sin(q[2]), 0.0], [0.0, 0.0, 1.0]])
    weight = np.array([MASS * GRAVITY * SLOPE, 0.0, 0.0])
    return inputs.T @ u + weight + np.array([-0.1 * v[0], np.sin(t), 0.05 * q[1]])


@pytest.mark.parametrize("system", [SLEIGH, DRIVEN], ids=["free", "driven"])
def test_motion_agrees_with_the_equations_with_multipliers(system):
    control = steering if system is DRIVEN else None
    q, v = system.simulate(Q0, V0, TIMES, control)

    def rhs(t, state):
        p, p_dot = state[:3], state[3:]
        A = np.asarray(NABLA.basis(p)) if system is DRIVEN else np.zeros((3, 2))
        components = np.linalg.lstsq(A, p_dot, rcond=None)[0]
        return np.concatenate(
            [p_dot, with_multipliers(t, p, p_dot, covector_of(system, t, p, components))[0]]
        )

    start = np.concatenate([Q0, NABLA.basis(Q0) @ V0])
    solved = solve_ivp(rhs, (0.0, 1.5), start, "DOP853", TIMES, rtol=1e-11, atol=1e-11).y.T
    np.testing.assert_allclose(q, solved[:, :3], atol=1e-9)
    np.testing.assert_allclose(system.velocity(q, v), solved[:, 3:], atol=1e-9)
    if system is SLEIGH:
        energy = system.energy(q, v)
        np.testing.assert_allclose(energy, energy[0], rtol=1e-10)


def test_components_are_those_in_the_basis(rng):
    """By least squares; what violates the constraint has none."""
    q, v = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    A = np.asarray(NABLA.basis(q))
    V = np.einsum("kij,kj->ki", A, v)
    np.testing.assert_allclose(DRIVEN.velocity(q, v), V, atol=1e-13)
    expected = [np.linalg.lstsq(basis, each, rcond=None)[0] for basis, each in zip(A, V, strict=True)]
    np.testing.assert_allclose(DRIVEN.components(q, V), expected, atol=1e-12)
    with pytest.raises(cn.checks.ConstraintError, match="violates"):  # control
        DRIVEN.components(q, V + 1e-3 * np.array([blade(p)[0] for p in q]))


def test_constraint_forces_are_the_multipliers(rng):
    """R = W^T lambda, and no work on the distribution."""
    q, v, t = rng.normal(size=(4, 3)), rng.normal(size=(4, 2)), rng.normal(size=4)
    u = np.stack([steering(*each) for each in zip(t, q, v, strict=True)])
    R, multipliers = DRIVEN.constraint_force(q, v, u, t), DRIVEN.multipliers(q, v, u, t)
    V = np.asarray(DRIVEN.velocity(q, v))
    for k in range(4):
        a, expected = with_multipliers(t[k], q[k], V[k], covector_of(DRIVEN, t[k], q[k], v[k]))
        np.testing.assert_allclose(multipliers[k], expected, atol=1e-11)
        np.testing.assert_allclose(R[k], np.asarray(blade(q[k])).T @ expected, atol=1e-11)
    np.testing.assert_allclose(np.einsum("kn,kn->k", R, V), 0.0, atol=1e-11)
    assert np.max(np.abs(R)) > 0.1


@pytest.mark.further
def test_reduced_system_and_hamel(rng):
    """Hamel's equations with the projected brackets give the same forces: <<(1 - P)[X, Y], v>> = 0 on D."""
    q, v, a = rng.normal(size=3), *rng.normal(size=(2, 2))
    reduced = DRIVEN.reduced
    control = reduced.hamel(q, v, a) - reduced.forces_at(0.7, q, v)
    np.testing.assert_allclose(control, reduced.inverse_dynamics(q, v, a, 0.7), atol=1e-11)


def test_bad_input():
    with pytest.raises(cn.checks.ShapeError, match=r"inputs: expected shape \(a, 3\), got \(1, 2\)"):
        cn.NonholonomicSystem(NABLA, inputs=lambda q: q[None, :2])
    with pytest.raises(cn.checks.ShapeError, match="u: expected"):
        DRIVEN.forward_dynamics(Q0, V0, np.zeros(3))
    with pytest.raises(cn.checks.NonFiniteError, match="v"):
        DRIVEN.energy(Q0, [np.nan, 0.0])


def test_a_pulse_between_steps():
    """Thrust along the blade for 20 ms in 10 s is found, with `max_step` and without."""

    def pulse(t, q, v):
        return jnp.exp(-(((t - 5.0) / 0.01) ** 2)) * jnp.eye(2)[0]

    system = cn.NonholonomicSystem(NABLA, inputs=rudder)

    def speed(**most):
        q, v = system.simulate(np.zeros(3), np.zeros(2), [0.0, 10.0], pulse, **most)
        return (NABLA.basis(q[1]) @ v[1])[0]

    for most in ({}, {"max_step": 0.02}):
        assert speed(**most) == pytest.approx(0.01 * np.sqrt(np.pi) / MASS, rel=1e-7)
    with pytest.raises(ValueError, match="max_step"):
        speed(max_step=0.0)


@pytest.mark.further
def test_the_drift_of_the_energy():
    """Of a free motion; nothing is known to be kept under a control."""
    system = cn.NonholonomicSystem(NABLA, inputs=rudder)
    start = np.array([0.1, -0.2, 0.3]), np.array([1.0, 0.5]), [0.0, 1.0, 2.0]
    motion = system.simulate(*start)
    E = system.energy(motion.q, motion.v)
    np.testing.assert_allclose(motion.drift, np.abs(E - E[0]) / E[0], atol=1e-13)
    assert motion.drift.max() < 1e-9
    assert system.simulate(*start, lambda t, q, v: jnp.ones(2)).drift is None


def test_components_undo_velocity_and_refuse_what_slides(rng):
    """By the multiplier equations' null space, not by the library's basis; sliding by 1e-6 is refused."""
    q, v = rng.standard_normal((5, 3)), rng.standard_normal((5, 2))
    V = np.asarray(DRIVEN.velocity(q, v))
    np.testing.assert_allclose(DRIVEN.components(q, V), v, atol=1e-13)
    s, c = np.sin(q[:, 2]), np.cos(q[:, 2])
    speed, turn = rng.standard_normal((2, 5))
    rolled = np.stack([speed * c - ARM * turn * s, speed * s + ARM * turn * c, turn], axis=1)
    again = DRIVEN.velocity(q, DRIVEN.components(q, rolled))
    np.testing.assert_allclose(again, rolled, atol=1e-13)
    slid = rolled + 1e-6 * np.stack([-s, c, 0.0 * c], axis=1) * (np.arange(5) == 3)[:, None]
    with pytest.raises(cn.checks.ConstraintError, match=r"violates .* at q = "):
        DRIVEN.components(q, slid)
    inside = jax.jit(DRIVEN.components)(q, slid)
    assert np.isnan(inside[3]).all() and np.isfinite(np.delete(inside, 3, axis=0)).all()
    np.testing.assert_array_equal(DRIVEN.components(q[0], np.zeros(3)), np.zeros(2))
