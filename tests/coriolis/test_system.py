"""Mechanical systems: Hamel's equations, inverse and forward dynamics, energy, motions against SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from differences import derivative_along, lie_derivatives, relative, structure_functions
from scipy.integrate import cumulative_simpson, solve_ivp
from systems import (
    ADMISSIBLE,
    FRAME,
    GENERAL,
    GEODESICS_ONLY,
    LEVI_CIVITA,
    METRIC,
    METRIC_ONLY,
    TOP,
    TOP_NABLA,
    points,
)

import connections as cn
from connections.checks import (
    FrameError,
    IntegrationError,
    MetricError,
    NonFiniteError,
    PointError,
    ShapeError,
)


def potential(q):
    return jnp.sin(q[0]) + 0.5 * q[1] ** 2 + q[0] * q[2]


def drag(t, q, v):
    return -0.3 * v + 0.2 * jnp.stack([jnp.sin(t), q[0], 1.0 + 0.0 * t])


def push(t, q, v):
    return jnp.stack([jnp.cos(2.0 * t), 0.3 * q[1], -0.1 * v[2]])


SYSTEM = cn.MechanicalSystem(METRIC, potential)
DRIVEN = cn.MechanicalSystem(METRIC, potential, drag)
BODY = cn.MechanicalSystem(TOP, lambda q: 1.5 * (1.0 - 2.0 * (q[0] ** 2 + q[1] ** 2)))
TIMES, MANY = np.linspace(0.0, 1.0, 6), np.linspace(0.0, 1.0, 201)  # all of TIMES are in MANY
Q0, V0 = np.array([0.1, -0.2, 0.15]), np.array([0.4, -0.3, 0.25])


def state(system, rng):
    n = system.frame.dim
    q = points(rng) if system is not BODY else rng.standard_normal(4)
    q = q if system is not BODY else q / np.linalg.norm(q)
    return q, rng.standard_normal(n), rng.standard_normal(n)


@pytest.mark.parametrize("system", [SYSTEM, BODY], ids=["frame", "body"])
def test_hamel_is_inverse_dynamics(system, rng):
    q, v, a = state(system, rng)
    assert relative(system.hamel(q, v, a), system.inverse_dynamics(q, v, a)) < 1e-12
    parts = system.mass_matrix(q) @ a + system.coriolis_matrix(q, v) @ v + system.gravity(q)
    assert relative(parts, system.inverse_dynamics(q, v, a)) < 1e-12
    assert relative(system.bias(q, v), system.coriolis_matrix(q, v) @ v) < 1e-12


@pytest.mark.parametrize("system", [SYSTEM, BODY], ids=["frame", "body"])
def test_hamel_is_hamels_equation_by_differences(system, rng):
    """tau_i = d/dt (H v)_i + s^k_ij (H v)_k v^j - L_i L, every derivative a difference."""
    q, v, a = state(system, rng)
    frame, H = system.frame, np.asarray(system.mass_matrix(q))
    momentum_rate = derivative_along(system.mass_matrix, frame, q, v) @ v + H @ a
    turning = np.einsum("kij,k,j->i", structure_functions(frame, q), H @ v, v)
    slope = 0.5 * lie_derivatives(system.mass_matrix, frame, q) @ v @ v
    gravity = lie_derivatives(system.potential_at, frame, q)
    assert relative(system.hamel(q, v, a), momentum_rate + turning - slope + gravity) < 1e-9
    assert relative(system.gravity(q), gravity) < 1e-9
    assert relative(system.gravity(q), -gravity) > 1.0  # the other sign
    assert (
        relative(system.hamel(q, v, a), momentum_rate - slope + gravity) > 1e-3
    )  # the bracket term forgotten


def test_hamel_does_not_use_the_connection(rng):
    q, v, a = state(SYSTEM, rng)
    other = cn.MechanicalSystem(METRIC, potential, connection=GENERAL)
    np.testing.assert_array_equal(other.hamel(q, v, a), SYSTEM.hamel(q, v, a))
    assert relative(other.inverse_dynamics(q, v, a), SYSTEM.inverse_dynamics(q, v, a)) > 1e-2


@pytest.mark.parametrize("system", [SYSTEM, DRIVEN, BODY], ids=["frame", "driven", "body"])
def test_forward_dynamics_inverts_inverse_dynamics(system, rng):
    q, v, a = state(system, rng)
    t = 0.7
    tau = system.inverse_dynamics(q, v, a, t)
    assert relative(system.forward_dynamics(q, v, tau, t), a) < 1e-11
    assert relative(system.hamel(q, v, a) - system.forces_at(t, q, v), tau) < 1e-12
    if system is DRIVEN:
        assert relative(system.forward_dynamics(q, v, tau, t + 1.0), a) > 1e-3


def test_energy_is_kinetic_plus_potential(rng):
    q, v, _ = state(SYSTEM, rng)
    expected = 0.5 * v @ np.asarray(METRIC.matrix(q)) @ v + float(potential(q))
    assert abs(float(SYSTEM.energy(q, v)) - expected) < 1e-14 * max(1.0, abs(expected))


def test_energy_is_conserved_without_forces():
    for system, q0 in ((SYSTEM, Q0), (BODY, np.array([0.5, 0.1, -0.3, 0.8]) / np.sqrt(0.99))):
        q, v = system.simulate(q0, V0, TIMES)
        E = np.asarray(system.energy(q, v))
        assert np.max(np.abs(E - E[0])) < 1e-8
    np.testing.assert_allclose(np.linalg.norm(q, axis=-1), 1.0, rtol=0, atol=1e-12)


def test_energy_is_not_conserved_by_a_connection_without_structure():
    free = cn.MechanicalSystem(METRIC, connection=GENERAL)
    E = np.asarray(free.energy(*free.simulate(Q0, V0, TIMES)))
    assert np.max(np.abs(E - E[0])) > 1e-2 * E[0]


def driven(q0):
    """The motion (q, v) from q0 with all forces at the times MANY; compiled once."""
    return DRIVEN.simulate(q0, V0, MANY, push)


def test_power_of_the_forces_is_the_rate_of_energy():
    q, v = driven(Q0)
    force = jax.jit(jax.vmap(lambda t, q, v: drag(t, q, v) + push(t, q, v)))(MANY, q, v)
    work = cumulative_simpson(np.sum(np.asarray(force * v), axis=1), x=MANY, initial=0.0)
    E = np.asarray(DRIVEN.energy(q, v))
    assert np.max(np.abs(work)) > 1e-2
    assert np.max(np.abs(E - E[0] - work)) < 1e-7


def coordinate_metric(q):
    """G = X^-T H X^-1, the same kinetic energy in coordinates."""
    W = jnp.linalg.inv(FRAME.matrix_at(q))
    return W.T @ METRIC.matrix_at(q) @ W


@jax.jit
def lagrange(t, y):
    """(q, qdot)' from d/dt (G qdot) - (1/2) d(qdot^T G qdot)/dq + dV/dq = X^-T (F + tau)."""
    q, u = y[:3], y[3:]
    W = jnp.linalg.inv(FRAME.matrix_at(q))
    dG = jax.jacfwd(coordinate_metric)(q)  # [a, b, coordinate]
    applied = W.T @ (drag(t, q, W @ u) + push(t, q, W @ u)) - jax.grad(potential)(q)
    momentum_terms = jnp.einsum("abc,c,b->a", dG, u, u) - 0.5 * jnp.einsum("abc,a,b->c", dG, u, u)
    return jnp.concatenate([u, jnp.linalg.solve(coordinate_metric(q), applied - momentum_terms)])


def test_motion_is_lagranges_in_coordinates_by_scipy():
    q, v = (x[::40] for x in driven(Q0))
    start = np.concatenate([Q0, np.asarray(FRAME.matrix(Q0)) @ V0])
    y = solve_ivp(
        lambda t, y: np.asarray(lagrange(t, y)), (0.0, 1.0), start, "DOP853", TIMES, rtol=1e-11, atol=1e-12
    ).y.T
    np.testing.assert_allclose(q, y[:, :3], rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.einsum("tij,tj->ti", FRAME.matrix(q), v), y[:, 3:], rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("nabla", "same"),
    [(ADMISSIBLE, True), further(GEODESICS_ONLY, True), (METRIC_ONLY, False)],
    ids=["admissible", "geodesics", "metric"],
)
def test_motion_with_another_connection(nabla, same):
    """Torsion of the family (12) does not change the motion; other geodesics do."""
    q, v = SYSTEM.simulate(Q0, V0, TIMES)
    p, w = cn.MechanicalSystem(METRIC, potential, connection=nabla).simulate(Q0, V0, TIMES)
    gap = max(np.max(np.abs(q - p)), np.max(np.abs(v - w)))
    assert gap < 1e-8 if same else gap > 1e-2


def test_family_changes_the_coriolis_matrix_and_nothing_else(rng):
    q, v, a = state(SYSTEM, rng)
    other = cn.MechanicalSystem(METRIC, potential, connection=ADMISSIBLE)
    assert relative(other.coriolis_matrix(q, v), SYSTEM.coriolis_matrix(q, v)) > 1e-2
    assert relative(other.inverse_dynamics(q, v, a), SYSTEM.inverse_dynamics(q, v, a)) < 1e-12


@pytest.mark.further
def test_batch_axes(rng):
    q, v, a = points(rng, 4, 1), rng.standard_normal((2, 3)), rng.standard_normal(3)
    assert DRIVEN.mass_matrix(q).shape == (4, 1, 3, 3)
    assert DRIVEN.coriolis_matrix(q, v).shape == (4, 2, 3, 3)
    assert DRIVEN.energy(q, v).shape == (4, 2)
    for function in (DRIVEN.inverse_dynamics, DRIVEN.hamel, DRIVEN.forward_dynamics):
        many = function(q, v, a)
        assert many.shape == (4, 2, 3)
        np.testing.assert_allclose(many[3, 1], function(q[3, 0], v[1], a), rtol=0, atol=1e-12)
    timed = DRIVEN.forward_dynamics(q[0, 0], v[0], a, np.array([0.0, 0.5]))
    np.testing.assert_allclose(timed[1], DRIVEN.forward_dynamics(q[0, 0], v[0], a, 0.5), rtol=0, atol=1e-13)


@pytest.mark.further
def test_simulate_a_batch():
    starts = np.stack([Q0, -Q0])
    q, v = DRIVEN.simulate(starts, V0, TIMES[:3], push)
    assert q.shape == v.shape == (2, 3, 3)
    np.testing.assert_allclose(q[1], driven(-Q0)[0][::40][:3], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(q[:, 0], starts)


def test_default_connection_is_levi_civita(rng):
    q = points(rng)
    np.testing.assert_allclose(
        SYSTEM.connection.coefficients(q), LEVI_CIVITA.coefficients(q), rtol=0, atol=1e-14
    )
    assert SYSTEM.frame == FRAME
    assert float(cn.MechanicalSystem(METRIC).energy(q, np.zeros(3))) == 0.0
    np.testing.assert_array_equal(cn.MechanicalSystem(METRIC).gravity(q), np.zeros(3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cn.MechanicalSystem(METRIC, connection=TOP_NABLA), FrameError, "the metric is in"),
        (lambda: SYSTEM.bias(Q0, np.ones(2)), ShapeError, r"^v: expected shape \(\.\.\., 3\)"),
        (lambda: SYSTEM.bias(Q0, np.array([1.0, np.nan, 0.0])), NonFiniteError, r"v\[1\] is nan"),
        (lambda: BODY.bias(np.array([1.0, 1.0, 0.0, 0.0]), np.ones(3)), PointError, "quaternion"),
        (lambda: SYSTEM.simulate(Q0, V0, np.array([0.0, 0.0])), ValueError, "times"),
    ],
    ids=["frames", "shape", "finite", "point", "times"],
)
def test_errors_name_the_culprit(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_metric_that_is_not_positive_definite():
    chart = cn.CoordinateFrame(1)
    system = cn.MechanicalSystem(cn.MatrixMetric(chart, lambda q: q[None]))
    with pytest.raises(MetricError, match="q = "):
        system.mass_matrix(np.array([-1.0]))


def test_a_motion_that_blows_up_is_an_error():
    system = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1)), lambda q: -(q[0] ** 4))
    with pytest.raises(IntegrationError):
        system.simulate(np.array([1.0]), np.array([1.0]), np.array([0.0, 10.0]))
