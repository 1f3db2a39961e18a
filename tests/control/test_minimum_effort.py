"""Curves of stationary effort, against splines, closed forms, equations of Riemannian cubics, and a search.

The code minimizes an integral and knows no curvature; the oracles integrate the Euler-Lagrange equations.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from pages import run_page
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize

import connections as cn
from connections import multibody as mb
from connections.checks import ConvergenceError, FrameError, NonFiniteError, PointError, ShapeError
from connections.control import minimum_effort_curve
from connections.control.errors import GainError
from connections.control.splines import descent
from connections.control.splines.descent import _times as times_of
from connections.control.splines.descent import descend
from connections.control.splines.integrand import Effort
from connections.control.splines.minimum_effort import _spline
from connections.control.splines.solutions import CurveConditions
from connections.geometry.rigid.rotations import rotation_matrix
from tests.support.systems import BI_INVARIANT, SPHERE, TOP

FLAT = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(2), np.diag([2.0, 3.0])))
BALL = cn.MechanicalSystem(SPHERE)
TURNING = mb.Revolute((0.0, 1.0, 0.0))
BODY, ROUND = cn.MechanicalSystem(TOP), cn.MechanicalSystem(BI_INVARIANT)


def turned(*w):
    """The quaternion of a rotation vector."""
    w = np.array(w, dtype=float)
    angle = np.linalg.norm(w)
    return np.append(0.5 * np.sinc(angle / (2.0 * np.pi)) * w, np.cos(angle / 2.0))


ON_BALL = np.array([[1.0, 0.0], [1.5, 1.0], [0.7, 2.0]])
ON_BODY = np.stack([turned(0.1, 0.0, 0.0), turned(1.0, 0.5, 0.0), turned(1.0, -1.0, 1.0)])
TIMES = np.array([0.0, 0.8, 2.0])
CASES = {
    "sphere": (BALL, ON_BALL, {}),
    "body": (BODY, ON_BODY, {"start_velocity": [1.0, -0.5, 0.2], "tension": 0.7}),
}


@pytest.fixture(scope="module", params=always(CASES, "body"))
def cubic(request):
    """A Riemannian cubic through three points, and what it was asked for."""
    system, points, given = CASES[request.param]
    return (
        system,
        points,
        given,
        minimum_effort_curve(system, points, TIMES, **given, starts=1, tolerance=1e-7),
    )


# --- flat space -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clamped", [False, True])
def test_flat_space_has_ordinary_cubic_splines(clamped):
    times, points = (
        np.array([0.0, 1.0, 1.7, 3.0]),
        np.array([[0.0, 1.0], [2.0, -1.0], [1.0, 1.0], [0.0, 0.5]]),
    )
    ends = {"start_velocity": [0.3, -1.0], "end_velocity": [2.0, 0.0]} if clamped else {}
    curve = minimum_effort_curve(FLAT, points, times, **ends)
    bc = tuple((1, np.array(v)) for v in ends.values()) if clamped else "natural"
    spline, t = CubicSpline(times, points, bc_type=bc), np.linspace(0.0, 3.0, 61)
    motion = curve.at(t)
    for m, values in enumerate((motion.q, motion.v, motion.a)):
        assert np.allclose(values, spline(t, m), rtol=0.0, atol=1e-10)
    assert np.allclose(motion.tau, motion.a * [2.0, 3.0], atol=1e-10)
    assert np.abs(motion.tau - motion.a).max() > 1.0  # control: masses count
    nodes, weights = np.polynomial.legendre.leggauss(2)
    cost = 0.0
    for a, b in zip(times[:-1], times[1:], strict=True):
        accelerations = spline((a + b) / 2.0 + (b - a) / 2.0 * nodes, 2)
        cost += (b - a) / 4.0 * weights @ (accelerations**2 @ [2.0, 3.0])
    assert np.isclose(curve.cost, cost, rtol=1e-12)
    assert curve.positive and np.isclose(curve.lowest, 1.0) and not curve.others and not curve.failed


@pytest.mark.parametrize("sigma", [1e8, 2.0**70])
def test_a_large_tension(sigma, monkeypatch):
    """The curve, a straight line at one speed, or an error in words; the lowest eigenvalue is found soon."""
    products = []
    monkeypatch.setattr(descent, "_times", lambda band, x: products.append(0) or times_of(band, x))
    flat = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), [[1.0]]))
    try:
        curve = minimum_effort_curve(flat, [[0.0], [1.0]], [0.0, 1.0], tension=sigma)
    except ConvergenceError as error:
        assert "less tension" in str(error) and sigma > 1e12
    else:
        assert np.isclose(curve.cost, 0.5 * sigma, rtol=1e-6) and curve.positive
    assert len(products) < 2000


def test_tension_has_its_closed_form():
    sigma, length = 9.0, 1.0
    curve = minimum_effort_curve(
        FLAT,
        [[0.0, 0.0], [1.0, 2.0]],
        [0.0, length],
        start_velocity=[0, 0],
        end_velocity=[0, 0],
        tension=sigma,
    )
    # x'''' = sigma x'': x = A + B t + C cosh(k t) + D sinh(k t)
    k, t = np.sqrt(sigma), np.linspace(0.0, length, 21)
    rows = [
        [1, 0, 1, 0],
        [0, 1, 0, k],
        [1, length, np.cosh(k), np.sinh(k)],
        [0, 1, k * np.sinh(k), k * np.cosh(k)],
    ]
    A, B, C, D = np.linalg.solve(rows, [0.0, 0.0, 1.0, 0.0])
    x = A + B * t + C * np.cosh(k * t) + D * np.sinh(k * t)
    assert np.allclose(curve.at(t).q, np.outer(x, [1.0, 2.0]), atol=1e-8)
    plain = 3.0 * t**2 - 2.0 * t**3
    assert np.abs(x - plain).max() > 5e-3


def test_friction_and_a_force_that_depends_on_time_have_their_closed_form():
    """tau = q'' + k q' - sin t; the adjoint of the left side gives tau = A + B exp(k t)."""
    k, t = 1.5, np.linspace(0.0, 1.0, 11)
    line = cn.MechanicalSystem(
        cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1)), forces=lambda t, q, v: jnp.sin(t) - k * v
    )
    curve = minimum_effort_curve(
        line, [[0.0], [1.0]], [0.0, 1.0], start_velocity=[0.0], end_velocity=[0.0], starts=1, tolerance=1e-8
    )
    a = -1.0 / (1.0 + k**2)

    def row(t, order):
        e, f = np.exp(k * t), np.exp(-k * t)
        terms = [[t / k, e / (2 * k**2), 1.0, f], [1 / k, e / (2 * k), 0.0, -k * f]][order]
        forced = [a * np.sin(t) + k * a * np.cos(t), a * np.cos(t) - k * a * np.sin(t)][order]
        return np.array(terms, dtype=float), forced

    rows, forced = zip(*(row(*place) for place in ((0.0, 0), (0.0, 1), (1.0, 0), (1.0, 1))), strict=True)
    A, B, C, D = np.linalg.solve(np.array(rows), np.array([0.0, 0.0, 1.0, 0.0]) - forced)
    motion = curve.at(t)
    closed = [row(each, 0)[0] @ [A, B, C, D] + row(each, 0)[1] for each in t]
    assert np.allclose(motion.q[:, 0], closed, atol=1e-9)
    assert np.allclose(motion.tau[:, 0], A + B * np.exp(k * t), atol=1e-6)
    assert np.ptp(np.concatenate(curve.hamiltonian)) > 1e-2  # forces that depend on time change it


# --- Riemannian cubics ------------------------------------------------------------------------------------


def integrated(system, sigma, curve, first, last, curvature=1.0):
    """Riemannian cubics D_t^2 a + R(a, v) v = sigma a from the state at time `first`, by SciPy."""
    nabla, frame = cn.LeviCivita(system.metric), system.frame
    k = list(curve.times).index(first)
    motion, n = curve.motion, frame.dim
    q, v, c = motion.q[k], motion.v[k], curve.costate[0][k]
    H, Gamma = system.mass_matrix(q), nabla.coefficients(q)
    a = np.linalg.solve(H, c[n:])  # lambda = D_t v
    bent = np.einsum("l,lik,k->i", c[n:], Gamma, v)
    j = sigma * v - np.linalg.solve(H, c[:n] - bent)  # p = D_t a
    assert np.allclose(a, motion.a[k] + nabla.apply(q, v, v), atol=1e-6)

    @jax.jit
    def rate(_, y):
        q, v, a, j = y[: -3 * n], y[-3 * n : -2 * n], y[-2 * n : -n], y[-n:]
        Gamma, R = nabla.coefficients_at(q), nabla.curvature_at(q)
        carried = jnp.einsum("ijk,j->ik", Gamma, v)
        bend = jnp.einsum("lkij,k,i,j->l", R, v, a, v)
        return jnp.concatenate(
            [
                frame.matrix_at(q) @ v,
                a - carried @ v,
                j - carried @ a,
                sigma * a - curvature * bend - carried @ j,
            ]
        )

    y = np.concatenate([q, v, a, j])
    found = solve_ivp(rate, (first, last), y, method="DOP853", rtol=1e-11, atol=1e-11, max_step=0.2)
    end = found.y[:, -1]
    return end[: len(q)], end[-3 * n : -2 * n]


def test_the_equation_of_riemannian_cubics_holds(cubic):
    system, points, given, curve = cubic
    for first, last in zip(TIMES[:-1], TIMES[1:], strict=True):
        q, v = integrated(system, given.get("tension", 0.0), curve, first, last)
        there = curve.at([last])
        assert np.allclose(q, there.q[0], atol=1e-7) and np.allclose(v, there.v[0], atol=1e-7)
        q, _ = integrated(system, given.get("tension", 0.0), curve, first, last, curvature=0.0)
        assert np.abs(q - there.q[0]).max() > 1e-3


def test_points_and_velocities_are_those_given(cubic):
    _, points, given, curve = cubic
    motion = curve.at(TIMES)
    assert np.allclose(motion.q, points, atol=1e-14)
    if "start_velocity" in given:
        assert np.allclose(motion.v[0], given["start_velocity"], atol=1e-13)
    assert np.allclose(curve.motion.tau[-1], 0.0, atol=1e-9)  # natural: nothing pulls where v is free
    assert curve.residual < 1e-16 and curve.error < 1e-7 and curve.positive and curve.index == 0
    t = np.linspace(*TIMES[[0, -1]], 7)
    found = curve.at(t)
    assert np.allclose(
        found.tau, curve._effort.system.inverse_dynamics(found.q, found.v, found.a), atol=1e-10
    )


def test_hamiltonian_and_momenta_are_conserved_between_points(cubic):
    system, _, _, curve = cubic
    begin, end = curve.hamiltonian
    split = np.searchsorted(curve.times[:-1], TIMES[1])
    for span in (slice(0, split), slice(split, None)):
        both = np.concatenate([begin[span], end[span]])
        assert np.ptp(both) < 1e-8 * np.abs(both).max()
    assert abs(begin[split] - end[split - 1]) > 1e-3  # times of points are given
    if system is BALL:
        killing, other = (lambda q: jnp.array([0.0, 1.0])), (lambda q: jnp.array([1.0, 0.0]))
    else:
        killing = lambda q: rotation_matrix(q).T @ jnp.array([0.3, 1.0, -0.5])  # noqa: E731
        other = lambda q: jnp.array([0.3, 1.0, -0.5])  # noqa: E731
    for field, constant in ((killing, True), (other, False)):
        begin, end = curve.momentum(field)
        drift = max(np.ptp(np.concatenate([begin[s], end[s]])) for s in (slice(0, split), slice(split, None)))
        assert drift < 1e-9 if constant else drift > 1e-2


def test_bi_invariant_rotations_follow_noakes_heinzinger_and_paden():
    curve = minimum_effort_curve(
        ROUND,
        ON_BODY[[0, 2]],
        [0.0, 1.0],
        start_velocity=[1.0, 0.0, 2.0],
        end_velocity=[0.0, -1.0, 0.0],
        starts=1,
    )
    motion, c = curve.motion, curve.costate[0][0]
    w, w1 = motion.v[0], motion.a[0]
    # D_t a = a' + w x a / 2 is p, c_q = -p + a_l Gamma^l_ik w^k = -p + (w x a) / 2
    w2 = -c[:3]

    def rate(t, y, sign=1.0):
        w, w1, w2 = y[:3], y[3:6], y[6:]
        return np.concatenate([w1, w2, -sign * np.cross(w, w2)])

    ends = {
        sign: solve_ivp(
            rate, (0.0, 1.0), np.concatenate([w, w1, w2]), args=(sign,), rtol=1e-11, atol=1e-11
        ).y[:, -1]
        for sign in (1.0, 0.0)
    }
    assert np.allclose(ends[1.0][:3], motion.v[-1], atol=1e-7)
    assert np.allclose(ends[1.0][3:6], motion.a[-1], atol=1e-6)
    assert np.abs(ends[0.0][:3] - motion.v[-1]).max() > 1e-2


def test_a_geodesic_costs_nothing():
    w = np.array([0.4, -0.2, 0.5])
    q, v = cn.geodesic(BODY.connection, turned(0.2, 0.1, 0.0), w, [0.0, 1.0])
    curve = minimum_effort_curve(BODY, q, [0.0, 1.0], start_velocity=w, end_velocity=v[-1], starts=1)
    assert curve.cost < 1e-16 and curve.positive
    assert np.allclose(curve.at([0.5]).q, cn.exponential(BODY.connection, q[0], w / 2.0), atol=1e-8)


# --- the second variation, and other stationary curves ----------------------------------------------------


@pytest.mark.parametrize("sigma", [3.0, 4.0])
def test_the_second_variation_of_a_long_rotation_has_its_closed_form(sigma):
    """A rotation by L = 2 pi + 1 rad in 1 s: across it, eta = sin(pi t) changes the cost by x^2 - sigma x."""
    L = 2.0 * np.pi + 1.0

    def spin(t):
        return jnp.stack([0.0 * t, 0.0 * t, jnp.sin(L * t / 2.0), jnp.cos(L * t / 2.0)])

    curve = minimum_effort_curve(
        ROUND,
        np.stack([turned(0.0, 0.0, 0.0), turned(0.0, 0.0, L)]),
        [0.0, 1.0],
        tension=sigma,
        starts=[spin],
    )
    curves = [curve, *curve.others]
    straight = next(each for each in curves if np.isclose(each.cost, sigma * L**2 / 2.0, rtol=1e-9))
    x = L**2 / 4.0 - np.pi**2
    assert np.isclose(straight.lowest, 2.0 * (x**2 - sigma * x) / (np.pi**4 + x**2), rtol=1e-6)
    assert straight.index == (2 if sigma > x else 0) and straight.positive is not (sigma > x)
    assert (len(curves) > 1) is (sigma > x)
    if sigma > x:  # the search went on, to a minimum
        assert curve.positive and curve.cost < straight.cost


def test_a_sign_within_its_error_is_not_stated(cubic):
    """`positive` is None, and the text says so, up to the error of the lowest eigenvalue, and not beyond."""
    curve = cubic[-1]
    assert curve.positive is True
    for lowest, positive in ((0.9e-3, None), (-0.9e-3, None), (0.0, None), (1.1e-3, True), (-1.1e-3, False)):
        other = replace(curve, lowest=lowest, lowest_error=1e-3)
        assert other.positive is positive
        assert ("too close to zero" in repr(other)) is (positive is None)


@pytest.mark.further
def test_a_direct_search_finds_nothing_lower():
    """Points of the sphere in space, second differences: the cost has an error of O(h^2)."""
    curve = minimum_effort_curve(BALL, ON_BALL, [0.0, 1.0, 2.0], starts=1)
    given = np.stack([[np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)] for a, b in ON_BALL])
    costs = []
    for count in (20, 40):
        h, held = 1.0 / count, [0, count, 2 * count]
        t = np.arange(2 * count + 1) * h

        @jax.jit
        @jax.value_and_grad
        def cost(x, h=h, held=held):
            x = x.reshape(-1, 3)
            x = (x / jnp.linalg.norm(x, axis=1, keepdims=True)).at[jnp.array(held)].set(given)
            a = (x[2:] - 2.0 * x[1:-1] + x[:-2]) / h**2
            a = a - jnp.sum(a * x[1:-1], axis=1, keepdims=True) * x[1:-1]
            return h * jnp.sum(a**2) / 2.0

        start = CubicSpline([0.0, 1.0, 2.0], given)(t).ravel()
        options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-14, "gtol": 1e-9}
        costs.append(minimize(cost, start, jac=True, method="L-BFGS-B", options=options).fun)
    limit = costs[1] + (costs[1] - costs[0]) / 3.0
    assert abs(limit - curve.cost) < 0.02 * abs(costs[1] - costs[0]) + 1e-4 * curve.cost


def test_the_order_is_eight_where_pieces_meet():
    task = CurveConditions(Effort(BALL, None, 0.0), np.array([0.0, 1.0, 2.0]), ON_BALL, (None, None), 1e-8)
    found = {n: descend(task.effort, task.pieces(_spline(task), n))[0] for n in (4, 8, 16, 64)}
    ends = {n: each.pieces.instants(task.effort, np.array([0.5, 1.0, 1.5])) for n, each in found.items()}
    for values in ((found[n].cost for n in (4, 8, 16, 64)), (ends[n][1] for n in (4, 8, 16, 64))):
        *coarse, fine = map(np.asarray, values)
        errors = [np.abs(each - fine).max() for each in coarse]
        orders = np.log2(np.array(errors[:-1]) / errors[1:])
        assert orders.min() > 7.0, orders
    inside = {n: each.pieces.instants(task.effort, np.array([0.3, 1.3]))[2] for n, each in found.items()}
    errors = [np.abs(inside[n] - inside[64]).max() for n in (4, 16)]
    assert 2.5 < np.log2(errors[0] / errors[1]) / 2.0 < 6.5  # of accelerations inside pieces: 4


# --- potentials, weights, frames, robots ------------------------------------------------------------------


def balance(times, values, rates):
    """The largest gap between changes of values over four pieces and Boole's rule for their rates."""
    weights = np.array([7.0, 32.0, 12.0, 32.0, 7.0]) * 2.0 / 45.0 * (times[1] - times[0])
    gaps = [values[k + 4] - values[k] - weights @ rates[k : k + 5] for k in range(0, len(times) - 1, 4)]
    return np.abs(gaps).max() / np.abs(values).max()


@pytest.mark.further
def test_an_arm_that_is_free_to_fly_is_thrown():
    """Two links under gravity with free velocities: no torque at all, which needs more than 256 pieces."""
    robot, elbow = mb.Mechanism(), np.eye(4)
    elbow[0, 3] = 1.0
    for k, place in enumerate((None, elbow)):
        robot.add_body(f"link{k}", 1.0, (0.5, 0.0, 0.0), np.diag([0.01, 0.09, 0.09]))
        robot.add_joint(f"joint{k}", f"link{k - 1}" if k else "world", f"link{k}", TURNING, place)
    arm = robot.build()
    curve = minimum_effort_curve(arm.system(), [[0.0, 0.0], [1.0, 1.0]], [0.0, 3.0])
    motion = curve.at(np.linspace(0.0, 3.0, 50))
    weight = np.abs(mb.gravity(arm, motion.q)).max()
    assert curve.cost < 1e-8 and np.abs(motion.tau).max() < 1e-4 * weight and len(curve.times) > 257
    fallen = solve_ivp(
        lambda t, y: np.concatenate([y[2:], mb.forward_dynamics(arm, y[:2], y[2:], np.zeros(2))]),
        (0.0, 3.0),
        np.concatenate([motion.q[0], motion.v[0]]),
        rtol=1e-11,
        atol=1e-11,
    )
    np.testing.assert_allclose(fallen.y[:2, -1], [1.0, 1.0], atol=1e-3)


@pytest.mark.further
def test_a_robot_follows_the_costate_equation():
    """cdot = -A^T c + dL by `mb.linearize`, and tau = W^-1 H^-1 c_v, of an arm under gravity."""
    arm = mb.example("arm")
    sigma = 0.1
    start, end = np.array([0.0, 0.6, 0.3, 0.1, 0.0, 0.0]), np.array([0.8, 0.2, -0.4, 0.5, 0.3, 0.5])
    curve = minimum_effort_curve(
        arm.system(),
        [start, end],
        [0.0, 0.6],
        start_velocity=np.zeros(6),
        tension=sigma,
        starts=1,
    )
    times, q, v, a, tau = (getattr(curve.motion, name) for name in ("times", "q", "v", "a", "tau"))
    begin, end_ = curve.costate
    c = np.concatenate([begin, end_[-1:]])
    H, Gamma = mb.mass_matrix(arm, q), mb.christoffel_symbols(arm, q)
    assert np.allclose(tau, c[:, 6:], atol=1e-12)
    assert np.allclose(a, mb.forward_dynamics(arm, q, v, tau))
    raised = np.linalg.solve(H, tau[..., None])[..., 0]
    by_q = (np.einsum("tijk,ti,tk->tj", Gamma, x, x) for x in (v, raised))  # of H / 2, and of -H^-1 / 2
    slope = np.concatenate([sigma * next(by_q) - next(by_q), sigma * np.einsum("tij,tj->ti", H, v)], axis=1)
    A = mb.linearize(arm, q, v, tau)[0]
    assert balance(times, q, v) < 1e-6 and balance(times, v, a) < 1e-5
    assert balance(times, c, slope - np.einsum("tji,tj->ti", A, c)) < 1e-5
    other = mb.linearize(arm, q, v, 0.0 * tau)[0]
    assert balance(times, c, slope - np.einsum("tji,tj->ti", other, c)) > 1e-2
    assert np.allclose(tau[-1], 0.0, atol=1e-6 * np.abs(tau).max())  # the last velocity is free
    both = np.concatenate(curve.hamiltonian)
    assert np.ptp(both) < 1e-6 * np.abs(both).max()


@pytest.mark.further
def test_the_centre_of_a_thrown_body_follows_a_cubic():
    """A free joint under gravity: the centre of mass is in flat space, whatever the rotation is."""
    mechanism = mb.Mechanism()
    mechanism.add_body("body", 2.0, center_of_mass=(0.0, 0.0, 0.0), inertia=np.diag([0.1, 0.2, 0.25]))
    mechanism.add_joint("base", "world", "body", mb.Free())
    body = mechanism.build()
    start, end = body.neutral(), mb.displace(body, body.neutral(), np.array([0.5, 1.0, -0.3, 1.0, 2.0, 0.5]))
    twist = np.array([1.0, 0.0, 2.0, 0.0, 1.0, 0.0])
    curve = minimum_effort_curve(
        body.system(), [start, end], [0.0, 1.0], start_velocity=twist, end_velocity=np.zeros(6), starts=1
    )
    assert curve.positive and curve.cost > 0.5 * 2.0 * 9.81**2  # it is held against gravity
    t = np.linspace(0.0, 1.0, 9)
    places = mb.forward_kinematics(body, np.stack([start, end]))[:, 0, :3, 3]
    spline = CubicSpline([0.0, 1.0], places, bc_type=((1, twist[3:]), (1, np.zeros(3))))
    assert np.allclose(mb.forward_kinematics(body, curve.at(t).q)[:, 0, :3, 3], spline(t), atol=1e-7)


def weight_of(q):
    return jnp.array([[1.0 + q[0] ** 2, 0.2, 0.0], [0.2, 2.0, 0.1 * q[2]], [0.0, 0.1 * q[2], 1.5]])


@pytest.mark.further
def test_a_potential_and_a_weight_in_a_frame_with_qdot_other_than_v(curved):
    curve = minimum_effort_curve(
        curved, [[0.3, -0.4, 0.5], [1.0, 0.5, -0.3]], [0.0, 1.0], start_velocity=[0.5, 0.0, -1.0],
        weight=weight_of, tension=0.4, starts=1,
    )  # fmt: skip

    @jax.jit
    def slope(q, v, tau):
        def L(q, v):
            return 0.5 * tau @ weight_of(q) @ tau + 0.2 * v @ curved.metric.matrix_at(q) @ v

        return jnp.concatenate([curved.frame.lie_derivative_at(lambda p: L(p, v), q), jax.grad(L, 1)(q, v)])

    @jax.jit
    def linear(q, v, tau):
        n, s = 3, curved.frame.structure_functions_at(q) @ v

        def F(q, v):
            return curved.forward_dynamics_at(q, v, tau)

        along = curved.frame.lie_derivative_at(lambda p: F(p, v), q).T
        return jnp.block([[s, jnp.eye(n)], [along, jax.jacfwd(F, 1)(q, v)]])

    times, q, v, a, tau = (getattr(curve.motion, name) for name in ("times", "q", "v", "a", "tau"))
    c = np.concatenate([curve.costate[0], curve.costate[1][-1:]])
    rows = [(slope(*row), linear(*row), np.asarray(weight_of(row[0]))) for row in zip(q, v, tau, strict=True)]
    dL, A, W = (np.stack(each) for each in zip(*rows, strict=True))
    lowered = np.einsum("tij,tjk,tk->ti", curved.mass_matrix(q), W, tau)
    assert np.allclose(lowered, c[:, 3:], atol=1e-9)
    assert balance(times, v, a) < 1e-6
    assert balance(times, c, dL - np.einsum("tji,tj->ti", A, c)) < 1e-6
    assert balance(times, c, dL - np.einsum("tij,tj->ti", A, c)) > 1e-2


# --- bad input --------------------------------------------------------------------------------------------

GOOD = {"points": [[0.0, 0.0], [1.0, 2.0]], "times": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("change", "error", "word"),
    [
        ({"points": [[0.0, 0.0]], "times": [0.0]}, ShapeError, "points"),
        ({"points": [0.0, 1.0]}, ShapeError, "points"),
        ({"points": [[0.0, np.nan], [1.0, 2.0]]}, NonFiniteError, "points"),
        ({"times": [0.0, 1.0, 2.0]}, ShapeError, "times"),
        ({"times": [1.0, 0.0]}, ShapeError, "times"),
        ({"times": [0.0, np.inf]}, NonFiniteError, "times"),
        ({"start_velocity": [1.0]}, ShapeError, "start_velocity"),
        ({"end_velocity": [1.0, np.nan]}, NonFiniteError, "end_velocity"),
        ({"weight": [1.0, -1.0]}, GainError, "weight"),
        ({"weight": lambda q: -jnp.eye(2)}, GainError, "weight at q"),
        ({"weight": lambda q: (1.0 - 8.0 * q[0] * (1.0 - q[0])) * jnp.eye(2)}, GainError, "weight at q"),
        ({"weight": lambda q: jnp.eye(3)}, ShapeError, "weight"),
        ({"tension": -1.0}, ValueError, "tension"),
        ({"tolerance": 0.0}, ValueError, "tolerance"),
        ({"starts": 0}, ValueError, "starts: expected a positive integer, got 0"),
        ({"starts": []}, ShapeError, "starts"),
        ({"starts": [lambda t: jnp.zeros(3)]}, ShapeError, "starts"),
        ({"starts": [([0.0, 0.5], [[0.0, 0.0], [1.0, 1.0]])]}, PointError, "starts"),
        ({"starts": [3.0]}, TypeError, "starts"),
    ],
)
def test_bad_arguments_are_named(change, error, word):
    with pytest.raises(error, match=word):
        minimum_effort_curve(FLAT, **{**GOOD, **change})


def test_other_kinds_of_systems_are_refused_with_what_to_write():
    with pytest.raises(TypeError, match="MechanicalSystem"):
        minimum_effort_curve(BI_INVARIANT, **GOOD)
    with pytest.raises(PointError):
        minimum_effort_curve(ROUND, [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 2.0]], [0.0, 1.0])
    curve = minimum_effort_curve(FLAT, **GOOD)
    with pytest.raises(PointError, match="times"):
        curve.at([2.0])
    with pytest.raises(ShapeError, match="times"):
        curve.at([])


def test_points_whole_periods_apart_are_one_where_forces_have_the_period():
    """A pendulum's, and a constant torque's, whose potential grows; a spring that is wound up has none."""
    circle = cn.ConstantMetric(cn.SO2Frame(), [[1.0]])

    def cost(end, **given):
        system = cn.MechanicalSystem(circle, **given)
        rest = {"start_velocity": [0.0], "end_velocity": [0.0], "starts": 1}
        return minimum_effort_curve(system, [[0.0], [end]], [0.0, 1.0], **rest).cost

    swings = {"potential": lambda q: -jnp.cos(q[0]) - 0.3 * q[0], "forces": lambda t, q, v: t * jnp.sin(q)}
    assert cost(0.5 + 6.0 * np.pi, **swings) == pytest.approx(cost(0.5, **swings), rel=1e-9)
    for wound in (
        {"potential": lambda q: 0.5 * q[0] ** 2},
        {"forces": lambda t, q, v: -t * q / 3.0},
    ):
        with pytest.raises(FrameError, match=r"forces are others after the period 6.28319 of q\[0\]"):
            cost(0.5 + 6.0 * np.pi, **wound)


def test_an_accuracy_that_cannot_be_had_is_an_error():
    with pytest.raises(ConvergenceError, match="its error is"):
        minimum_effort_curve(BALL, ON_BALL, [0.0, 1.0, 2.0], starts=1, tolerance=1e-15)


@pytest.mark.further
def test_the_page_runs():
    run_page("minimum_effort.md", blocks=4, assertions=3)
