"""Derivatives of the dynamics against Pinocchio, automatic and finite differences; linearized motions."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import robots
from mechanisms import (
    MOVING,
    derivative_along,
    mechanism_of_all_pairs,
    move,
    normalized,
    random_mechanism,
    sample,
)
from mechanisms import configuration_rate as rate_of
from scipy.integrate import solve_ivp

import connections as cn
from connections import multibody as mb
from connections.geometry.rigid.twists import force_cross_matrix

TOL = 1e-8
ROBOTS = [
    ("ur5", False),
    ("anymal", False),
    ("anymal", True),
    ("solo12", False),
    ("solo12", True),
    ("a1", True),
    ("talos_data/robots/talos_reduced.urdf", True),
    ("icub_description/robots/icub.urdf", True),
    ("hyq_description/robots/hyq_no_sensors.urdf", True),
    ("kinova_description/robots/kinova.urdf", False),
    ("double_pendulum_description/urdf/double_pendulum.urdf", False),
    ("bolt_description/robots/bolt.urdf", True),
    ("b1_description/urdf/b1.urdf", True),
]


def close(value, expected, tol=TOL):
    np.testing.assert_allclose(value, expected, atol=tol * max(np.max(np.abs(expected)), 1e-300), rtol=0)


@pytest.mark.parametrize(("name", "floating"), ROBOTS, ids=[f"{n.split('/')[0]}-{f}" for n, f in ROBOTS])
def test_pinocchio(name, floating, rng):
    import pinocchio as pin
    from pinocchio_oracle import PinocchioRobot

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mb.InertiaWarning)
        model = mb.from_urdf(robots.robot_path(name), floating_base=floating)
    robot = PinocchioRobot(robots.robot_path(name), floating)
    q, v = sample(model, rng)
    a = rng.normal(size=model.nv)
    theirs = (robot._configuration(q), robot._theirs(v), robot._theirs(a))
    order = np.ix_(robot.order, robot.order)
    for ours, derivatives in (
        (mb.inverse_dynamics_derivatives, pin.computeRNEADerivatives),
        (mb.forward_dynamics_derivatives, pin.computeABADerivatives),
    ):
        parts = [part.copy() for part in derivatives(robot.model, robot.data, *theirs)]
        parts[2] = np.triu(parts[2]) + np.triu(parts[2], 1).T
        for value, expected in zip(ours(model, q, v, a), parts, strict=True):
            close(value, expected[order])


def test_every_joint_behind_every_joint(rng):
    """Against fourth-order differences of the inverse dynamics along the frame fields; 64 pairs of joints."""
    model = mechanism_of_all_pairs(rng)
    q, v = sample(model, rng)
    a, n = rng.normal(size=model.nv), model.nv
    dtau_dq, dtau_dv, H = mb.inverse_dynamics_derivatives(model, q, v, a)

    def along_rows(points):
        return mb.inverse_dynamics(model, points, v, a)

    close(dtau_dq, derivative_along(model, along_rows, q, np.eye(n)).T)
    central = [mb.inverse_dynamics(model, q, v + s * np.eye(n), a) for s in (0.5, -0.5)]  # quadratic in v
    close(dtau_dv, (central[0] - central[1]).T)
    close(H, mb.mass_matrix(model, q), 1e-13)


@pytest.mark.further
def test_definition_by_automatic_differentiation(rng):
    """tau = A^T (I (A a + Adot v) + (A v) x* I A v) + g differentiated along the frame, all joints."""
    model = random_mechanism(rng, 5, MOVING)
    q, v = sample(model, rng)
    a = rng.normal(size=model.nv)
    inertias, frame = jnp.asarray(model.kinematics.tree.inertias), model.frame

    def tau(p, w, b):
        A, A_dot = jax.jvp(model.kinematics.body_jacobians_at, (p,), (frame.matrix_at(p) @ w,))
        twists = A @ w
        momenta = jnp.einsum("nab,nb->na", inertias, twists)
        turning = jnp.einsum("nab,nb->na", jax.vmap(force_cross_matrix)(twists), momenta)
        forces = jnp.einsum("nab,nb->na", inertias, A @ b + A_dot @ w) + turning
        return jnp.einsum("nai,na->i", A, forces) + frame.lie_derivative_at(model.potential_at, p)

    @jax.jit
    def derivatives(p, w, b):
        in_q = frame.lie_derivative_at(lambda point: tau(point, w, b), p).T
        return in_q, *jax.jacfwd(tau, argnums=(1, 2))(p, w, b)

    for value, expected in zip(
        mb.inverse_dynamics_derivatives(model, q, v, a), derivatives(q, v, a), strict=True
    ):
        close(value, expected)


def test_bias_is_twice_the_symmetric_symbols(rng):
    """d(C v)/dv = 2 Gamma_i(jk) v^j in the model's frame; contracting one index alone is wrong."""
    model = random_mechanism(rng, 4, MOVING)
    q, v = sample(model, rng)
    Gamma = mb.christoffel_symbols(model, q)
    dtau_dv = mb.inverse_dynamics_derivatives(model, q, v, np.zeros(model.nv))[1]
    close(dtau_dv, np.einsum("ijk,j->ik", Gamma + np.swapaxes(Gamma, 1, 2), v), 1e-11)
    assert np.max(np.abs(dtau_dv - 2 * np.einsum("ijk,j->ik", Gamma, v))) > 1e-2


@pytest.mark.further
def test_batches_and_out(rng):
    model = random_mechanism(rng, 4, MOVING)
    q, v = sample(model, rng, 11)
    a, n = rng.normal(size=(11, model.nv)), model.nv
    for derivatives in (mb.inverse_dynamics_derivatives, mb.forward_dynamics_derivatives):
        out = np.full((11, 3, n, n), np.nan)
        parts = derivatives(model, q, v, a, out=out)
        assert all(np.shares_memory(part, out) for part in parts)
        for row in range(11):
            for part, one in zip(parts, derivatives(model, q[row], v[row], a[row]), strict=True):
                close(part[row], one, 1e-10)
        again = derivatives(model, q[::-1].copy(), v[::-1].copy(), a[::-1].copy())  # nothing is left over
        close(again[0][::-1], parts[0], 1e-10)
    A, B = mb.linearize(model, q, v, a)
    assert A.shape == (11, 2 * n, 2 * n)
    assert B.shape == (11, 2 * n, n)


def test_linear_prediction_errs_with_the_square_of_the_perturbation(rng):
    """The flow of the variational equation from `linearize`, against perturbed motions."""
    model = random_mechanism(rng, 3, (mb.Free, mb.Spherical, mb.Universal))
    q0, v0 = sample(model, rng)
    tau, n, horizon = rng.normal(size=model.nv), model.nv, 0.2

    def rhs(t, state, with_flow):
        q, v = normalized(model, state[: model.nq]), state[model.nq : model.nq + n]
        rates = [rate_of(model, q, v), mb.forward_dynamics(model, q, v, tau)]
        if with_flow:
            A, _ = mb.linearize(model, q, v, tau)
            rates.append((A @ state[model.nq + n :].reshape(2 * n, 2 * n)).ravel())
        return np.concatenate(rates)

    def end(q, v, *flow):
        start = np.concatenate([q, v, *flow])
        return solve_ivp(rhs, (0, horizon), start, "DOP853", args=(bool(flow),), rtol=1e-12, atol=1e-12).y[
            :, -1
        ]

    state = end(q0, v0, np.eye(2 * n).ravel())
    q1, v1, flow = state[: model.nq], state[model.nq : model.nq + n], state[model.nq + n :].reshape(2 * n, -1)
    direction, dual = rng.normal(size=2 * n), np.asarray(model.frame.dual_at(jnp.asarray(q1)))
    errors = []
    for size in (1e-2, 5e-3, 2.5e-3):
        moved = end(move(model, q0, size * direction[:n]), v0 + size * direction[n:])
        change = np.concatenate([dual @ (moved[: model.nq] - q1), moved[model.nq :] - v1])
        errors.append(np.linalg.norm(change - size * flow @ direction))
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert np.all((ratios > 3.6) & (ratios < 4.4)), ratios
    assert np.linalg.norm(change - size * flow.T @ direction) > 10.0 * errors[-1]  # control: transposed
    _, B = mb.linearize(model, q0, v0, tau)
    pushed = mb.forward_dynamics(model, q0, v0, tau + np.eye(n)) - mb.forward_dynamics(model, q0, v0, tau)
    np.testing.assert_allclose(B[n:], pushed.T, atol=1e-9 * np.max(np.abs(pushed)))
    assert not B[:n].any()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda q, v, a: (q[:-1], v, a), cn.checks.ShapeError),
        (lambda q, v, a: (q, v * np.nan, a), cn.checks.NonFiniteError),
        (lambda q, v, a: (1.1 * q, v, a), cn.checks.PointError),
    ],
)
def test_bad_input(change, error, rng):
    model = random_mechanism(rng, 2, (mb.Free,))
    q, v = sample(model, rng)
    with pytest.raises(error):
        mb.inverse_dynamics_derivatives(model, *change(q, v, v))
    with pytest.raises(error):
        mb.forward_dynamics_derivatives(model, *change(q, v, v))
