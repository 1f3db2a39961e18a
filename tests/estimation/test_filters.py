"""Filters: the linear case beside Kalman's filter, refusals, missing numbers, transformations of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import chi2

import connections as cn
from connections import estimation
from connections import multibody as mb
from connections.checks import ConvergenceError, NonFiniteError, PointError, ShapeError

# A mass in a plane that is pushed at random: position and velocity, of which the first is measured.
F = np.kron([[0.0, 1.0], [0.0, 0.0]], np.eye(2))
Q = np.kron([[0.0, 0.0], [0.0, 1.0]], [[0.3, 0.1], [0.1, 0.2]])
H = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.5, 0.0]])
N = np.array([[0.2, 0.05, 0.0], [0.05, 0.1, 0.02], [0.0, 0.02, 0.3]])
P0 = np.diag([1.0, 2.0, 0.5, 0.4]) + 0.1
MASS = estimation.Filter(cn.CoordinateFrame(4), lambda q, u, t: jnp.asarray(F) @ q + u, Q)
SENSOR = estimation.Sensor(lambda q: jnp.asarray(H) @ q, N)
TIMES = np.array([0.3, 0.5, 1.2, 1.2, 2.0])


def kalman(x, P, t, times, us, ys):
    """Kalman's filter by Van Loan's integral, its log-likelihoods, and Rauch's smoother."""
    before, after, likelihoods, Phis = [], [], [], []
    for t1, u, y in zip(times, us, ys, strict=True):
        h = t1 - t
        block = expm(h * np.block([[-F, Q], [np.zeros((4, 4)), F.T]]))
        Phi = block[4:, 4:].T
        held = expm(h * np.block([[F, np.eye(4)], [np.zeros((4, 8))]]))[:4, 4:]
        x, P, t = Phi @ x + held @ u, Phi @ P @ Phi.T + Phi @ block[:4, 4:], t1
        before.append((x, P))
        seen = ~np.isnan(y)
        h_seen, S = H[seen], H[seen] @ P @ H[seen].T + N[np.ix_(seen, seen)]
        r = y[seen] - h_seen @ x
        K = P @ h_seen.T @ np.linalg.inv(S)
        likelihoods.append(-0.5 * (r @ np.linalg.solve(S, r) + np.linalg.slogdet(2 * np.pi * S)[1]))
        x, P = x + K @ r, P - K @ S @ K.T
        after.append((x, P))
        Phis.append(Phi)
    smooth = [after[-1]]
    for (x, P), (x1, P1), Phi in zip(after[-2::-1], before[:0:-1], Phis[:0:-1], strict=True):
        C = P @ Phi.T @ np.linalg.inv(P1)
        xs, Ps = smooth[-1]
        smooth.append((x + C @ (xs - x1), P + C @ (Ps - P1) @ C.T))
    return before, after, likelihoods, smooth[::-1]


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(1)
    us, ys = rng.normal(size=(5, 4)), 3.0 * rng.normal(size=(5, 3))
    ys[1, 0], ys[2] = np.nan, np.nan
    start = estimation.Estimate(np.array([0.3, -0.2, 0.5, 0.1]), P0, t=0.1)
    history = MASS.run(start, TIMES, us, ys, SENSOR)
    return start, us, ys, history, MASS.smooth(history)


def test_the_linear_case_is_kalmans_filter_and_rauchs_smoother(linear):
    start, us, ys, history, smoothed = linear
    before, after, likelihoods, smooth = kalman(start.q, P0, 0.1, TIMES, us, ys)
    for found, expected in ((history.predicted, before), (history.estimate, after), (smoothed, smooth)):
        assert np.allclose(found.q, [x for x, _ in expected], rtol=1e-11, atol=1e-11)
        assert np.allclose(found.P, [P for _, P in expected], rtol=1e-11, atol=1e-11)
    assert np.allclose(history.innovation.log_likelihood, likelihoods, rtol=1e-11)
    assert list(history.innovation.dimension) == [3, 2, 0, 3, 3]
    assert list(history.innovation.accepted) == [True, True, False, True, True]
    assert history.innovation.log_likelihood[2] == 0.0
    # Noise that is constant over a step, of the same strength, is another one.
    held = expm(0.2 * np.block([[F, np.eye(4)], [np.zeros((4, 8))]]))[:4, 4:]
    other = expm(0.2 * F) @ P0 @ expm(0.2 * F).T + held @ (Q / 0.2) @ held.T
    white = kalman(start.q, P0, 0.1, TIMES[:1], us[:1], ys[:1])[0][0][1]
    assert np.abs(white - other).max() > 1e-5


def test_one_by_one_and_together(linear):
    start, us, ys, history, _ = linear
    estimate = start
    for t, u, y in zip(TIMES, us, ys, strict=True):
        estimate, innovation = MASS.update(MASS.predict(estimate, u, t), y, SENSOR)
    assert np.allclose(estimate.q, history.estimate.q[-1], atol=1e-12)
    assert np.allclose(estimate.P, history.estimate.P[-1], atol=1e-12)
    assert innovation.converged and innovation.steps == 2 and innovation.reset_size == 0.0
    assert float(estimate.t) == 2.0 and isinstance(estimate.q, np.ndarray)
    assert estimate.deviations == pytest.approx(np.sqrt(np.diag(estimate.P)))


def test_consistency_of_the_linear_filter(linear):
    """NEES by the Mahalanobis distance, NIS without the sample that is missing, bounds of one run."""
    history = linear[3]
    truth = history.estimate.q + np.array([0.1, -0.3, 0.2, 0.4])
    found = estimation.consistency(MASS, history, truth)
    d = np.array([0.1, -0.3, 0.2, 0.4])
    assert np.allclose(found.nees, [d @ np.linalg.solve(P, d) / 4 for P in history.estimate.P])
    assert np.allclose(found.errors, np.tile(d, (5, 1)))
    some = [0, 1, 3, 4]
    said = history.innovation
    assert np.allclose(found.nis[some], (said.nis / np.maximum(said.dimension, 1))[some])
    assert np.isnan(found.nis[2]) and found.runs == 1
    assert np.allclose(found.nees_bounds, chi2.ppf([0.025, 0.975], 4) / 4)
    assert np.allclose(found.nis_bounds[1], chi2.ppf([0.025, 0.975], 2) / 2)
    assert 0.0 <= found.nees_share <= 1.0
    assert not np.allclose(estimation.consistency(MASS, history, truth + 0.1).nees, found.nees)


def test_a_gate_refuses_and_leaves_the_estimate_as_it_was(linear):
    start, _, ys, _, _ = linear
    estimate, innovation = MASS.update(start, ys[0] + 30.0, SENSOR, gate=0.999)
    assert not innovation.accepted and innovation.nis > 16.3  # chi^2 of three at 0.999
    assert np.array_equal(estimate.q, start.q) and np.array_equal(estimate.P, start.P)
    r = np.array([1.0, -0.5, 0.8])
    _, near = MASS.update(start, H @ start.q + r, SENSOR, gate=0.999)
    S = H @ P0 @ H.T + N
    assert near.accepted and float(near.nis) == pytest.approx(r @ np.linalg.solve(S, r))
    assert np.allclose(near.r, r) and np.allclose(near.S, S)


@pytest.mark.parametrize(
    "error, words, call",
    [
        (ValueError, "P is not positive definite", lambda e: estimation.Estimate(e.q, 2.0 - np.eye(4))),
        (ValueError, r"P\[2, 2\]", lambda e: estimation.Estimate(e.q, P0 * np.diag([1.0, 1.0, -1.0, 1.0]))),
        (ValueError, "symmetric", lambda e: estimation.Estimate(e.q, P0 + np.triu(0.1 * np.ones((4, 4)), 1))),
        (ShapeError, "estimate.P", lambda e: MASS.predict(estimation.Estimate(e.q, np.eye(3)), e.q, 1.0)),
        (ShapeError, "estimate.q", lambda e: MASS.predict(estimation.Estimate(e.q[:3], np.eye(4)), e.q, 1.0)),
        (ValueError, "before", lambda e: MASS.predict(e, e.q, 0.05)),
        (ShapeError, "y", lambda e: MASS.update(e, [1.0, 2.0], SENSOR)),
        (ValueError, "gate", lambda e: MASS.update(e, np.zeros(3), SENSOR, gate=1.5)),
        (ValueError, "N is not positive", lambda e: estimation.Sensor(lambda q: q, [[1.0, 2.0], [2.0, 1.0]])),
        (ShapeError, "N", lambda e: MASS.update(e, np.zeros(3), estimation.Sensor(SENSOR.h, np.eye(2)))),
        (ValueError, "noise", lambda e: estimation.Filter(cn.CoordinateFrame(1), noise=[[-1.0]])),
        (
            ValueError,  # the variance that is negative, not the first that is not positive
            r"noise\[1, 1\]",
            lambda e: estimation.Filter(cn.CoordinateFrame(2), noise=np.diag([0.0, -1.0])),
        ),
        (ValueError, "probability", lambda e: estimation.consistency(MASS, e, e.q, probability=1.5)),
        (TypeError, "noise", lambda e: estimation.Filter(cn.CoordinateFrame(1))),
        (TypeError, "reset", lambda e: estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]], reset="yes")),
        (
            ValueError,
            r"times\[1\]",
            lambda e: MASS.run(e, [1.0, 0.5], np.zeros((2, 4)), np.zeros((2, 3)), SENSOR),
        ),
        (TypeError, "Filter", lambda e: estimation.Filter(np.eye(2), noise=np.eye(2))),
        (TypeError, "v", lambda e: MASS.predict(estimation.Estimate(e.q, np.eye(8), v=e.q), e.q, 1.0)),
    ],
)
def test_bad_input_is_named(linear, error, words, call):
    with pytest.raises(error, match=words):
        call(linear[0])


# --- rotations: transformations of JAX --------------------------------------------------------------------

ATTITUDE = estimation.Filter(cn.SO3Frame(), noise=1e-4 * np.eye(3), iterations=12)
DIRECTION = np.array([0.0, 0.0, 1.0])


def seen(q):
    x, y, z, w = q
    return jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])


STAR = estimation.Sensor(seen, 1e-4 * np.eye(3))
UP = estimation.Estimate([0.0, 0.0, 0.0, 1.0], np.diag([0.04, 0.09, 0.02]))
Y = np.array([0.15, -0.2, 0.97])


def test_the_reset_and_the_size_of_one_that_is_left_out():
    """By the right Jacobian in closed form; that of an error the other way is another."""
    after, exact = ATTITUDE.update(UP, Y, STAR)
    bare = estimation.Filter(cn.SO3Frame(), noise=ATTITUDE.noise, reset=None, iterations=12)
    left, said = bare.update(UP, Y, STAR)
    e = np.asarray(ATTITUDE.difference(UP, after.q))
    a, x = np.linalg.norm(e), np.cross(np.eye(3), e)  # x w is e x w
    J = np.eye(3) - (1.0 - np.cos(a)) / a**2 * x + (a - np.sin(a)) / a**3 * x @ x
    gaps = [np.linalg.inv(K) - np.eye(3) for K in (J, J.T)]
    sizes = [np.trace(np.linalg.solve(after.P, gap @ after.P @ gap.T)) / 3.0 for gap in gaps]
    assert np.allclose(after.P, J @ left.P @ J.T, rtol=0.0, atol=1e-12)
    assert float(said.reset_size) == pytest.approx(sizes[0], rel=1e-8) and float(exact.reset_size) == 0.0
    assert abs(sizes[1] - sizes[0]) > 1e-6 * sizes[0]  # the tolerance is a hundredth of it


DEVIATIONS = np.array([0.01, 0.01 * (1 + 1e-5), 0.01 * (1 - 1e-5), 0.03, 0.01])
FAR = np.array([0.3, -0.2, -0.9])  # behind: twelve iterations do not settle


@pytest.fixture(scope="module")
def compiled():
    """Two updates, and their likelihood's derivative by the noise of the sensor, of five noises."""

    def of(y, r):
        sensor = estimation.Sensor(seen, r**2 * jnp.eye(3))
        history = ATTITUDE.run(UP, np.array([0.0, 0.5]), RATES, jnp.stack([y, Y]), sensor)
        return jnp.sum(history.innovation.log_likelihood), history

    ys = np.stack([Y, Y, Y, Y, FAR])
    return jax.jit(jax.vmap(jax.value_and_grad(of, argnums=1, has_aux=True)))(ys, DEVIATIONS)


RATES = np.array([[0.0, 0.0, 0.0], [0.1, 0.2, -0.1]])


def test_gradients_of_the_likelihood_by_the_noise_are_its_differences(compiled):
    """The second likelihood depends on the root of the first iteration."""
    (values, histories), slopes = compiled
    assert float(slopes[0]) == pytest.approx(float(values[1] - values[2]) / 2e-7, rel=1e-6)
    estimate, innovation = ATTITUDE.update(UP, Y, STAR)
    assert np.allclose(histories.estimate.q[0, 0], estimate.q, atol=1e-12)
    assert np.allclose(histories.estimate.P[0, 0], estimate.P)
    assert int(innovation.steps) == int(histories.innovation.steps[0, 0]) > 2


def test_inside_jit_what_does_not_settle_is_nan_and_outside_an_error(compiled):
    (_, histories), _ = compiled
    assert not histories.innovation.converged[4, 0]
    assert np.isnan(histories.estimate.P[4]).all() and np.isnan(histories.estimate.q[4]).all()
    with pytest.raises(ConvergenceError, match="12 iterations"):
        ATTITUDE.update(UP, FAR, STAR)
    with pytest.raises(PointError):
        ATTITUDE.predict(estimation.Estimate([0.0, 0.0, 0.0, 2.0], np.eye(3)), np.zeros(3), 1.0)


def test_without_iterations_the_likelihood_is_that_of_the_prediction():
    """r^T S^-1 r where h is not linear; of six numbers and three unknowns, (3, 3) is factorized."""
    pair = estimation.Sensor(lambda q: jnp.concatenate([seen(q), 2.0 * seen(q)[::-1] ** 2]), 1e-2 * np.eye(6))
    first = estimation.Filter(cn.SO3Frame(), noise=1e-4 * np.eye(3), iterations=1)
    y = np.array([*Y, 2.0, 0.1, 0.0])
    estimate, said = first.update(UP, y, pair)
    r = y - np.array([0.0, 0.0, 1.0, 2.0, 0.0, 0.0])
    H = np.zeros((6, 3))
    H[:3] = [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    S = H @ UP.P @ H.T + 1e-2 * np.eye(6)
    assert np.allclose(said.r, r) and np.allclose(said.S, S)
    assert float(said.nis) == pytest.approx(r @ np.linalg.solve(S, r), rel=1e-10)
    expected = -0.5 * (r @ np.linalg.solve(S, r) + np.linalg.slogdet(2.0 * np.pi * S)[1])
    assert float(said.log_likelihood) == pytest.approx(expected, rel=1e-10)
    e = UP.P @ H.T @ np.linalg.solve(S, r)
    assert np.allclose(first.difference(UP, estimate.q), e, atol=1e-12)


def test_a_step_that_fits_worse_is_halved():
    """Of y = atan(x) far from the prior, where whole steps run away; the best fit is found."""
    line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]], iterations=60)
    sensor = estimation.Sensor(jnp.arctan, [[1e-4]])
    estimate, said = line.update(estimation.Estimate([4.0], [[100.0]]), [0.1], sensor)
    x = float(estimate.q[0])
    assert said.converged and (x - 4.0) / 100.0 == pytest.approx(
        (0.1 - np.arctan(x)) / 1e-4 / (1.0 + x * x), rel=1e-3
    )
    assert abs(x - np.tan(0.1)) < 0.01


LINE = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
PENDULUM = estimation.Filter(
    cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), [[2.0]])), noise=[[1.0]]
)
READ = estimation.Sensor(lambda q: q, [[1.0]])


@pytest.fixture(scope="module")
def line_history():
    return LINE.run(estimation.Estimate([0.0], [[3.0]]), [1.0, 2.0], np.zeros((2, 1)), [[1.0], [2.0]], READ)


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (
            ShapeError,
            r"history.estimate.q: expected shape \(2, 2\), got \(2, 1\)",
            lambda h: estimation.Filter(cn.CoordinateFrame(2), noise=np.eye(2)).smooth(h),
        ),
        (TypeError, r"history.estimate.v: the filter's state is \(q, v\), but", lambda h: PENDULUM.smooth(h)),
        (
            ShapeError,
            r"history.estimate.t, of one run,: expected shape \(T,\), got \(1, 2\)",
            lambda h: LINE.smooth(jax.tree_util.tree_map(lambda a: np.asarray(a)[None], h)),
        ),
        (
            NonFiniteError,
            r"parameters\[1\] is nan",
            lambda h: estimation.Sensor(
                lambda q, p: q + p["a"], [[1.0]], parameters={"a": np.array([np.inf, np.nan])}
            ),
        ),
        (
            ValueError,
            "status: expected codes of Status, 0 to 8, got 99",
            lambda h: estimation.Estimate([0.0], [[1.0]], status=99),
        ),
        (ValueError, "status", lambda h: estimation.Estimate([0.0], [[1.0]], status=0.5)),
        (ValueError, "components: none are given", lambda h: h.plot(components=[])),
        (
            TypeError,
            "nabla: expected the frame of a Lie group, got MatrixFrame",
            lambda h: estimation.Filter(cn.MatrixFrame(lambda q: jnp.eye(1), 1, 1), noise=[[1.0]]),
        ),
    ],
)
def test_what_does_not_belong_together_is_named(error, words, call, line_history):
    with pytest.raises(error, match=words):
        call(line_history)


def test_the_frame_of_closed_chains_is_no_connection():
    robot = mb.example("four_bar")
    with pytest.raises(TypeError, match="connection: the frame of closed chains is no group; leave it out"):
        estimation.Filter(robot, noise=[[1.0]], connection=robot.frame)
