"""Predictions over gaps: right to their tolerance in P's own norm, or refused; never anything else."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from scipy.integrate import solve_ivp
from scipy.linalg import expm, solve_continuous_lyapunov
from scipy.special import erf

import connections as cn
from connections import estimation
from connections import multibody as mb
from connections.checks import IntegrationError, NonFiniteError
from connections.estimation.predictions import _exact_step
from connections.geometry.group_maps import little_adjoint_at

RTOL = 1e-3


def wrong(found, exact):
    """The difference relative to the exact covariance in its own norm."""
    W = np.linalg.inv(np.linalg.cholesky(exact))
    return np.linalg.norm(W @ (found - exact) @ W.T)


def exact_spread(A, Q, P, h):
    """Of a linear system, by Van Loan's exponential, or Lyapunov's equation where that loses digits."""
    k = len(A)
    if -np.linalg.eigvals(A).real.min() * h < 4.0:
        both = expm(np.block([[-A, Q], [np.zeros((k, k)), A.T]]) * h)
        Phi = both[k:, k:].T
        return Phi @ P @ Phi.T + Phi @ both[:k, k:]
    with warnings.catch_warnings(action="ignore"):  # where two eigenvalues cancel, which are left out
        Phi, X = expm(A * h), solve_continuous_lyapunov(A, -Q)
    return X + Phi @ (P - X) @ Phi.T


def linear(q, u, t):
    A, b = u
    return A @ q + b


# --- linear systems ----------------------------------------------------------------------------------------


def random_system(rng, k, kind):
    """A, with time constants of about one (stiff ones of 1e-3 to 1e3), a noise, a covariance, a gap."""
    A = rng.normal(size=(k, k))
    if kind == "stable":
        A = A - (np.linalg.eigvals(A).real.max() + 0.1) * np.eye(k)
    elif kind == "oscillating":
        D = np.diag(np.exp(rng.normal(size=k)))
        A = D @ (A - A.T) @ np.linalg.inv(D) - 0.01 * np.eye(k)
    elif kind == "stiff":
        Z = np.linalg.qr(A)[0]
        A = Z @ np.diag(-(10.0 ** rng.uniform(-3, 3, k))) @ Z.T
    h = 10.0 ** rng.uniform(-3, 3) if kind != "unstable" else 10.0 ** rng.uniform(-3, 0.5)
    L, G = np.tril(rng.normal(size=(k, k))) + 0.1 * np.eye(k), rng.normal(size=(k, k))
    units = 10.0 ** rng.uniform(-3, 3, k)
    A, L, G = A * units[:, None] / units, L * units[:, None], G * units[:, None]
    return A, G @ G.T, L @ L.T, h, units


@pytest.mark.parametrize("k, count", [(2, 200), further(1, 1000), further(3, 4000), further(4, 2000)])
def test_linear_systems_over_gaps_of_all_lengths(k, count):
    """Stable, unstable, oscillating and stiff ones, at rest and in motion, all in one `vmap`."""
    rng, rows = np.random.default_rng(k), []
    for number in range(count):
        A, Q, P, h, units = random_system(rng, k, ("stable", "unstable", "oscillating", "stiff")[number % 4])
        moves = units if number % 3 == 0 else np.zeros(k)
        rows.append((A, Q, P, h, 3.0 * moves * rng.normal(size=k), moves))

    @jax.jit
    @jax.vmap
    def predicted(A, Q, P, h, q, b):
        own = estimation.Filter(cn.CoordinateFrame(k), linear, Q)
        return own.predict(estimation.Estimate(q, P), (A, b), t=h)

    found = predicted(*map(np.array, zip(*rows, strict=True)))
    right = 0
    for (A, Q, P, h, q, b), end, spread in zip(rows, found.q, found.P, strict=True):
        assert np.isfinite(spread).all() == np.isfinite(end).all()
        if not np.isfinite(spread).all():
            continue
        exact, sizes = exact_spread(A, Q, P, h), np.sqrt(np.diag(spread))
        if np.linalg.eigvalsh(exact / np.outer(sizes, sizes))[0] > 1e-9:  # else `exact` has lost its digits
            assert wrong(spread, exact) < RTOL
            right += 1
        mean = expm(h * np.block([[A, b[:, None]], [np.zeros((1, k + 1))]]))[:k] @ np.append(q, 1.0)
        assert np.all(np.abs(end - mean) <= 2 * RTOL * sizes + 1e-9 * np.abs(mean))
    assert right > 0.8 * count


def test_means_over_many_periods_and_far_from_zero():
    """Ten thousand periods known to a thousandth; a fast thermometer in a slow room, in kelvin."""
    omega = 2e3 * np.pi
    own = estimation.Filter(cn.CoordinateFrame(2), linear, np.diag([0.0, 1e-12]))
    spring = np.array([[0.0, 1.0], [-(omega**2), 0.0]]), np.zeros(2)
    found = own.predict(estimation.Estimate([1e-3, 0.0], 1e-12 * np.eye(2)), spring, 10.0)
    assert np.abs(found.q - [1e-3, 0.0])[0] < 1e-12 and np.abs(found.q[1]) < 1e-8
    for fast, gap in ((1e2, 1e3), (1e5, 1e2)):
        room = np.array([[-fast, fast], [0.0, -0.01]]), np.array([0.0, 3.0])
        own = estimation.Filter(cn.CoordinateFrame(2), linear, 1e-6 * np.eye(2))
        found = own.predict(estimation.Estimate([300.0, 310.0], 1e-4 * np.eye(2)), room, gap)
        mean = 300.0 + 10.0 * np.exp(-0.01 * gap) * np.array([fast / (fast - 0.01), 1.0])
        assert np.abs(found.q - mean).max() < 1e-8
        assert np.isclose(
            found.P[1, 1], 1e-4 * np.exp(-0.02 * gap) + 5e-5 * (1.0 - np.exp(-0.02 * gap)), rtol=1e-4
        )


def test_what_is_no_velocity_and_no_covariance_is_said():
    """By the first step, by further ones and by a number of them, on groups and off them."""
    start, plane = estimation.Estimate([1.0, 0.0], np.eye(2)), cn.CoordinateFrame(2)
    bad = (  # q / 0 is no velocity, and Q / 0 no noise
        (0.0, np.eye(2), 1.0, NonFiniteError, r"velocity\(q, u, t\)"),
        (1.0, np.eye(2), 0.0, NonFiniteError, r"noise\(q, u, t\)"),
        (1.0, np.diag([1.0, -1.0]), 1.0, ValueError, "noise.*variance"),
        (1.0, np.array([[1.0, 0.8], [0.0, 1.0]]), 1.0, ValueError, "noise is not"),
    )
    y, sensor = np.zeros((2, 2)), estimation.Sensor(lambda q: q, np.eye(2))
    for steps in (None, 2):
        own = estimation.Filter(
            plane, lambda q, u, t: q / u[0], lambda q, u, t: u[1] / u[2], prediction_steps=steps
        )
        assert np.isfinite(own.predict(start, (1.0, np.eye(2), 1.0), 0.1).P).all()
        for *u, error, words in bad:
            with pytest.raises(error, match=f"the step to 0.1 s has no result: {words}"):
                own.predict(start, tuple(u), 0.1)
    for *u, error, words in bad:
        each = tuple(np.stack([a] * 2) for a in u)
        with pytest.raises(error, match=rf"times\[[01]\] = .* s has no result: {words}"):
            own.run(start, [0.0, 0.1], each, y, sensor)
    found = jax.jit(lambda P: own.predict(estimation.Estimate(start.q, P), tuple(u), 0.1))(start.P)
    assert np.isnan(found.P).all() and found.status == estimation.Status.NOT_FINITE
    turning = estimation.Filter(cn.SO3Frame(), noise=np.eye(3))
    P = jnp.diag(jnp.array([1.0, -1.0, 1.0]))
    found = jax.jit(
        lambda P: turning.predict(estimation.Estimate(jnp.array([0.0, 0, 0, 1]), P), np.ones(3), 0.1)
    )(P)
    assert np.isnan(found.P).all()


def test_what_is_too_stiff_in_motion_is_refused():
    """Of a system that is not linear, steps are as short as its fastest time."""

    def falling(q, u, t):
        return jnp.stack([-1e6 * (q[0] - jnp.cos(q[1])), jnp.ones(())])

    own = estimation.Filter(cn.CoordinateFrame(2), falling, np.eye(2))
    start = estimation.Estimate([1.0, 0.0], 1e-6 * np.eye(2))
    with pytest.raises(IntegrationError, match=r"256 steps to 1 s .*rtol=0.001.*prediction_steps="):
        own.predict(start, None, 1.0)
    inside = jax.jit(lambda P: own.predict(estimation.Estimate(start.q, P), None, 1.0))(start.P)
    assert np.isnan(inside.q).all() and np.isnan(inside.P).all()


def test_steps_of_one_length_are_judged_too():
    """An oscillator at rest, whose state has no error: the covariance alone is wrong."""
    A, Q, P, h = np.array([[0.0, 1.0], [-100.0, 0.0]]), np.diag([0.0, 0.01]), np.diag([0.01, 0.5]), 0.5
    system = cn.MechanicalSystem(
        cn.ConstantMetric(cn.CoordinateFrame(1), [[1.0]]), lambda x: 50.0 * x[0] ** 2
    )
    start, exact = estimation.Estimate([0.0], P, v=[0.0]), exact_spread(A, Q, P, h)
    with pytest.raises(IntegrationError, match="prediction_steps=8"):
        estimation.Filter(system, noise=[[0.01]], prediction_steps=2).predict(start, None, h)
    for options in ({"prediction_steps": 64}, {"rtol": 1e-9}):
        found = estimation.Filter(system, noise=[[0.01]], **options).predict(start, None, h)
        assert wrong(found.P, exact) < options.get("rtol", RTOL)
    for rtol in (0.0, -1.0, 2.0, np.nan):
        with pytest.raises(ValueError, match="rtol"):
            estimation.Filter(system, noise=[[0.01]], rtol=rtol)


# --- groups ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SO(3)", *map(further, ("SE(3)", "SE(2)"))])
def test_bodies_that_turn_while_noise_comes_in(name):
    """Up to ten turns, with noise of all shapes, beside Van Loan's exponential."""
    group = {"SO(3)": cn.SO3Frame(), "SE(3)": cn.SE3Frame(), "SE(2)": cn.SE2Frame()}[name]
    rng, k = np.random.default_rng(3), group.dim
    start = np.zeros(group.ambient_dim)
    start[-1] = 0.0 if name == "SE(2)" else 1.0
    rows = []
    for _ in range(100):
        u, G, L = rng.normal(size=k), rng.normal(size=(k, k)), rng.normal(size=(k, k))
        G = G * 10.0 ** rng.uniform(-3, 0, k)
        P = 10.0 ** rng.uniform(-6, 0) * (L @ L.T + 0.01 * np.eye(k))
        rows.append((u * 10.0 ** rng.uniform(-2, 1.8) / np.linalg.norm(u), G @ G.T, P))

    @jax.jit
    @jax.vmap
    def predicted(u, Q, P):
        return estimation.Filter(group, noise=Q).predict(estimation.Estimate(start, P), u, 1.0).P

    for (u, Q, P), found in zip(rows, predicted(*map(np.array, zip(*rows, strict=True))), strict=True):
        assert wrong(found, exact_spread(-np.asarray(little_adjoint_at(group, u)), Q, P, 1.0)) < RTOL


def test_noise_that_changes_while_a_body_turns():
    """noise(q, u, t) at all times of the step, beside a sum over a hundred of them."""
    u, P, h = np.array([0.3, -0.2, 2.0]), 1e-4 * np.eye(3), 0.7

    def noise(q, u, t):
        return jnp.diag(jnp.stack([1.0 + t, jnp.ones(()), 2.0 + q[2]])) * 1e-3

    group = cn.SO3Frame()
    found = estimation.Filter(group, noise=noise).predict(
        estimation.Estimate([0.0, 0.0, 0.0, 1.0], P, t=0.2), u, 0.2 + h
    )
    A = -np.asarray(little_adjoint_at(group, u))
    nodes, weights = np.polynomial.legendre.leggauss(100)
    exact = expm(h * A) @ P @ expm(h * A).T
    for s, weight in zip(0.5 * h * (1.0 + nodes), 0.5 * h * weights, strict=True):
        Phi, q = expm((h - s) * A), group.retract_at(jnp.array([0.0, 0.0, 0.0, 1.0]), s * u)
        exact = exact + weight * Phi @ np.asarray(noise(q, u, 0.2 + s)) @ Phi.T
    assert wrong(found.P, exact) < RTOL


# --- motions that are not linear ---------------------------------------------------------------------------


def pendulum(q, u, t):
    return jnp.stack([q[1], -u * jnp.sin(q[0]) - 0.1 * q[1] ** 3])


FALLING, WAVES = (lambda t: jnp.exp(-t)), (lambda t: 1.0 + jnp.sin(3.0 * t) ** 2)
SWITCHED = lambda q: 0.01 + jax.nn.sigmoid(20.0 * (q - 0.7))  # noqa: E731


def spread_by_quadrature(A, Q, P, T):
    """P_1 of one number with Pdot = 2 A(t) P + Q(t)."""
    options = {"rtol": 1e-10, "atol": 1e-14, "max_step": 0.05}
    return solve_ivp(lambda s, p: 2.0 * A(s) * p + Q(s), (0.0, T), [P], "DOP853", **options).y[0, -1]


#: Noise of t and of q, and rates of t, also at rest: velocity, noise, q, and A and Q of t.
CHANGING = (
    (lambda q, u, t: 0.0 * q, lambda q, u, t: FALLING(t)[None, None], 0.0, lambda t: 0.0, FALLING),
    (lambda q, u, t: 0.0 * q, lambda q, u, t: WAVES(t)[None, None], 0.0, lambda t: 0.0, WAVES),
    (lambda q, u, t: 1.0 + 0.0 * q, lambda q, u, t: SWITCHED(q)[None], 0.0, lambda t: 0.0, SWITCHED),
    (lambda q, u, t: -WAVES(t) * q, np.eye(1), 0.0, lambda t: -WAVES(t), lambda t: 1.0),
    (lambda q, u, t: -WAVES(t) * q, np.eye(1), 1.0, lambda t: -WAVES(t), lambda t: 1.0),
)


@pytest.fixture(scope="module")
def changing():
    """The filters of CHANGING, each compiled once for all gaps."""
    return [estimation.Filter(cn.CoordinateFrame(1), X, noise=Q) for X, Q, *_ in CHANGING]


@pytest.mark.parametrize("T", [0.5, 1.0, 2.0, 10.0])
def test_what_changes_between_the_ends_of_a_gap_is_seen(changing, T):
    """At rest, too, where nothing else asks for steps."""
    P = 1e-3
    for own, (_, _, q, A, Q) in zip(changing, CHANGING, strict=True):
        found = own.predict(estimation.Estimate([q], [[P]]), t=T, u=None).P[0, 0]
        assert abs(found / spread_by_quadrature(A, Q, P, T) - 1.0) < RTOL


@pytest.mark.parametrize("omega", [0.0, 1.0])
def test_noise_that_grows_on_a_group_is_seen(omega):
    """t^6 on a body at rest, and on one that turns, all directions alike."""
    body = estimation.Filter(cn.SO3Frame(), noise=lambda q, u, t: 1e-4 * t**6 * jnp.eye(3))
    start = estimation.Estimate([0.0, 0.0, 0.0, 1.0], 1e-6 * np.eye(3))
    found = body.predict(start, np.array([0.0, 0.0, omega]), t=2.0).P
    assert wrong(found, (1e-6 + 1e-4 * 2.0**7 / 7.0) * np.eye(3)) < RTOL


def test_noise_of_time_on_a_mass_is_seen():
    """Positions and velocities: the smallest direction of P, too."""
    body = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1)))
    mass = estimation.Filter(body, noise=lambda q, v, u, t: jnp.sin(3.0 * t)[None, None] ** 2)
    for T in (0.5, 1.0, 10.0):
        P = 1e-4 * np.eye(2)
        found = mass.predict(estimation.Estimate([0.0], P, [1.0]), None, t=T).P
        t = np.linspace(0.0, T, 200001)
        g = np.array([T - t, np.ones_like(t)])
        S = np.trapezoid(g[:, None] * g[None] * np.sin(3.0 * t) ** 2, t, axis=-1)
        Phi = np.array([[1.0, T], [0.0, 1.0]])
        assert wrong(found, Phi @ P @ Phi.T + S) < RTOL


def test_the_error_of_the_first_half_of_a_step_counts():
    """A velocity that acts in the first half alone: the step's own word on its state contains the error."""
    velocity = lambda q, u, t: jnp.exp(-(((t - 0.1) / 0.1) ** 2))[None]  # noqa: E731
    space = estimation.Filter(cn.CoordinateFrame(1), velocity, noise=[[1.0]]).space
    found = _exact_step(space, (jnp.zeros(1),), jnp.eye(1), None, 0.0, 1.0)
    exact = 0.1 * np.sqrt(np.pi) / 2.0 * (erf(9.0) + erf(1.0))
    error = abs(float(found.state[0][0]) - exact)
    assert 1e-4 < error < 10.0 * abs(float(found.gap[0]))


def test_a_pendulum_that_swings_through_a_gap():
    """Beside the flow, its derivative and the integral of the noise by SciPy."""
    start, P, Q, h = np.array([2.0, 0.0]), np.diag([1e-4, 1e-3]), np.diag([0.0, 1e-3]), 1.5
    own = estimation.Filter(cn.CoordinateFrame(2), pendulum, Q)
    found = own.predict(estimation.Estimate(start, P), 20.0, h)

    def rate(t, y):
        q, P = y[:2], y[2:].reshape(2, 2)
        A = np.array([[0.0, 1.0], [-20.0 * np.cos(q[0]), -0.3 * q[1] ** 2]])
        return np.concatenate([np.asarray(pendulum(q, 20.0, t)), (A @ P + P @ A.T + Q).ravel()])

    end = solve_ivp(rate, (0.0, h), np.append(start, P), "DOP853", rtol=1e-11, atol=1e-13).y[:, -1]
    assert wrong(found.P, end[2:].reshape(2, 2)) < RTOL
    assert np.abs(found.q - end[:2]).max() < RTOL * found.deviations.min()
    assert np.abs(end[:2] - start).max() > 0.3 and wrong(P, end[2:].reshape(2, 2)) > 0.1


def log_volume(scale, length):
    P, q = np.diag([1e-4, 1e-3]), jnp.array([2.0, 0.3])
    own = estimation.Filter(cn.CoordinateFrame(2), pendulum, scale * jnp.diag(jnp.array([1e-4, 1e-3])))
    found = own.predict(estimation.Estimate(q, P), 20.0, length)
    return jnp.log(jnp.linalg.det(found.P)) + found.q[0]


@pytest.mark.parametrize(
    "slope",
    [
        pytest.param(jax.jacfwd(log_volume), id="forward"),
        further(jax.jit(jax.grad(log_volume)), id="backward"),
        pytest.param(
            lambda *x: jax.jit(jax.vmap(jax.grad(log_volume), (None, 0)))(*x), id="backward in a batch"
        ),
    ],
)
def test_derivatives_of_a_prediction_in_many_steps(request, slope):
    """Beside differences."""
    lengths = np.array([0.001, 0.1, 1.5])
    measured = (log_volume(1.0 + 1e-4, 1.5) - log_volume(1.0 - 1e-4, 1.5)) / 2e-4
    found = np.atleast_1d(slope(1.0, lengths if "batch" in request.node.name else 1.5))
    assert np.isclose(found[-1], measured, rtol=1e-4) and np.isfinite(found).all()


def test_a_robot_that_stands_still():
    """An arm held against gravity for half a second, and one that hangs for 1.5 s."""
    arm = mb.example("arm")
    own, noise = estimation.Filter(arm, noise=1e-3 * np.eye(6)), 1e-3 * np.eye(6)
    q = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0])
    tau, P = mb.gravity(arm, q), np.diag([1e-4] * 6 + [1e-2] * 6)
    A, B = mb.linearize(arm, q, np.zeros(6), tau)
    for h in (0.02, 0.5):
        exact = exact_spread(A, B @ noise @ B.T, P, h)
        found = own.predict(estimation.Estimate(q, P, v=np.zeros(6)), tau, h)
        assert wrong(found.P, exact) < RTOL and np.abs(found.q - q).max() < 1e-12


# --- smoothers ---------------------------------------------------------------------------------------------


def test_a_smoother_over_gaps():
    """An oscillator that is measured every half turn and a half, beside all its states at once."""
    A, Q, P = np.array([[0.0, 1.0], [-100.0, -0.2]]), np.diag([1e-6, 0.01]), np.diag([0.01, 0.5])
    times, y, N = 0.47 * np.arange(1, 5), np.array([[0.05], [-0.02], [0.03], [0.01]]), 1e-4
    own = estimation.Filter(cn.CoordinateFrame(2), linear, Q)
    sensor = estimation.Sensor(lambda q: q[:1], [[N]])
    u = np.broadcast_to(A, (4, 2, 2)), np.zeros((4, 2))
    history = own.run(estimation.Estimate([0.1, 0.0], P), times, u, y, sensor)
    found = own.smooth(history)
    Phi, S = expm(0.47 * A), exact_spread(A, Q, np.zeros((2, 2)), 0.47)
    weight, right = np.zeros((8, 8)), np.zeros(8)
    first = exact_spread(A, Q, P, 0.47)
    for k in range(4):
        step = np.zeros((2, 8))
        step[:, 2 * k : 2 * k + 2] = np.eye(2)
        mean, inverse = (
            (Phi @ [0.1, 0.0], np.linalg.inv(first)) if k == 0 else (np.zeros(2), np.linalg.inv(S))
        )
        if k:
            step[:, 2 * k - 2 : 2 * k] = -Phi
        weight += step.T @ inverse @ step
        right += step.T @ inverse @ mean
        weight[2 * k, 2 * k] += 1.0 / N
        right[2 * k] += y[k, 0] / N
    cover = np.linalg.inv(weight)
    assert np.allclose(found.q.ravel(), cover @ right, atol=1e-4 * np.sqrt(np.diag(cover)).min())
    for k in range(4):
        assert wrong(found.P[k], cover[2 * k : 2 * k + 2, 2 * k : 2 * k + 2]) < 5 * RTOL
