"""Updates settle at the best fit, and whatever fails is visible in NIS, in the status and in q together."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from robots import robot_path
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation
from scipy.stats import chi2

import connections as cn
from connections import estimation
from connections import multibody as mb
from connections.checks import ConvergenceError, IntegrationError, NonFiniteError
from connections.estimation import Estimate, Filter, Sensor, Status
from connections.evaluation.parameters import DERIVED, cache_of

# --- the best fit ------------------------------------------------------------------------------------------


def rows_of(filter, sensor, estimate, y):
    """epsilon -> (epsilon, N^-1/2 (y - h(exp(L epsilon)))), whose least squares an update is."""
    L, W = np.linalg.cholesky(estimate.P), np.linalg.inv(np.linalg.cholesky(sensor.N))

    def rows(epsilon):
        x = filter.space.moved_at(estimate.state, L @ epsilon)[0]
        return jnp.concatenate([epsilon, W @ (y - sensor.h(*x))])

    return rows, L


def require_best(filter, sensor, estimate, y, found, steps):
    """The update's state is SciPy's minimum, from the prior, to 1e-4 deviations of the result."""
    rows, L = rows_of(filter, sensor, estimate, y)
    of, slope = jax.jit(rows), jax.jit(jax.jacfwd(rows))
    k = len(L)
    best = least_squares(
        lambda e: np.asarray(of(e)), np.zeros(k), lambda e: np.asarray(slope(e)), xtol=1e-12, ftol=1e-14
    )
    e = np.linalg.solve(L, np.asarray(filter.space.difference_at(estimate.state, found.state)))
    assert np.linalg.norm(np.asarray(slope(best.x)) @ (e - best.x)) < 1e-4, steps


def curved(q):
    """Numbers that bend over some tenths of a radian."""
    return jnp.stack([jnp.sin(2.0 * q[0] + q[-1]), jnp.exp(q[1]) * q[-2], jnp.arctan(2.0 * q[2] + q[0])])


CURVED = [
    (cn.SO3Frame(), np.array([0.0, 0.0, 0.0, 1.0]), 0.4),
    (cn.SE3Frame(), np.array([0.2, -0.1, 0.3, 0.0, 0.0, 0.0, 1.0]), 0.3),
    (cn.SO3Frame(), Rotation.from_rotvec([0.5, -0.8, 0.3]).as_quat(), 0.3),
]


@pytest.mark.parametrize("frame, q, deviation", CURVED)
def test_curved_measurements_on_groups(frame, q, deviation):
    filter = estimation.Filter(frame, noise=np.eye(frame.dim))
    sensor = estimation.Sensor(curved, 1e-4 * np.eye(3))
    rng, P = np.random.default_rng(1), deviation**2 * np.eye(frame.dim)
    estimate = estimation.Estimate(q, P)
    e = deviation * rng.normal(size=(12, frame.dim))
    ys = np.stack([curved(frame.retract_at(q, own)) for own in e]) + 0.01 * rng.normal(size=(12, 3))
    found, said = jax.jit(jax.vmap(lambda y: filter.update(estimate, y, sensor)))(ys)
    assert (np.asarray(said.status) == Status.SETTLED).all(), said.steps
    for number in range(4):
        one = estimation.Estimate(found.q[number], found.P[number])
        require_best(filter, sensor, estimate, ys[number], one, said.steps)


def test_narrow_valleys_settle_in_few_steps():
    """Of 300 random updates the three that took the most steps, 91 to 188, before curvature was learned."""
    frame, q = cn.SE3Frame(), np.array([0.2, -0.1, 0.3, 0.0, 0.0, 0.0, 1.0])
    filter = estimation.Filter(frame, noise=np.eye(6), iterations=80)
    estimate, rng = estimation.Estimate(q, 0.25 * np.eye(6)), np.random.default_rng(1)
    e = 0.5 * rng.normal(size=(300, 6))
    ys = np.stack([curved(frame.retract_at(q, own)) for own in e]) + 0.01 * rng.normal(size=(300, 3))
    sensor = estimation.Sensor(curved, 1e-4 * np.eye(3))
    said = jax.jit(jax.vmap(lambda y: filter.update(estimate, y, sensor)[1]))(ys[[33, 281, 212]])
    assert (np.asarray(said.status) == Status.SETTLED).all() and said.steps.max() < 70, said.steps


def an_imu_and_encoders(model):
    """q, and of the tip the angular velocity and the specific force, without torques."""

    def h(q, v):
        J, rate = mb.frame_jacobian(model, q, "tool0"), mb.frame_jacobian_rate(model, q, v, "tool0")
        twist = J @ v
        a = J @ mb.forward_dynamics(model, q, v, jnp.zeros(6)) + rate @ v
        up = mb.frame_pose(model, q, "tool0")[2, :3]
        return jnp.concatenate([q, twist[:3], a[3:] + jnp.cross(twist[:3], twist[3:]) + 9.81 * up])

    return estimation.Sensor(h, np.diag(np.repeat([1e-3, 0.01, 0.1], [6, 3, 3]) ** 2))


@pytest.mark.further
@pytest.mark.parametrize("runs", [1000])
def test_a_ur5_with_encoders_and_an_imu(runs):
    """From a prior of 0.03 rad and 0.3 rad/s; the geodesics of the mass matrix make it curved."""
    model = mb.from_urdf(robot_path("ur5"))
    sensor, filter = an_imu_and_encoders(model), estimation.Filter(model, noise=np.eye(6))
    deviations = np.repeat([0.03, 0.3], 6)
    P = np.diag(deviations**2)

    def drawn(key):
        a, b, c, d = jax.random.split(key, 4)
        x = jax.random.uniform(a, (6,), minval=-3.0, maxval=3.0), jax.random.normal(b, (6,))
        truth = filter.space.moved_at(x, deviations * jax.random.normal(c, (12,)))[0]
        y = sensor.h(*truth) + jnp.sqrt(jnp.diagonal(sensor.N)) * jax.random.normal(d, (12,))
        return *x, y

    def run(key):
        q, v, y = drawn(key)
        return filter.update(estimation.Estimate(q, P, v=v), y, sensor)

    keys = jax.random.split(jax.random.PRNGKey(1), runs)
    found, said = jax.jit(lambda keys: jax.lax.map(run, keys))(keys)
    assert (np.asarray(said.status) == Status.SETTLED).all()
    for number in np.argsort(-np.asarray(said.steps))[:4]:  # the hardest
        q, v, y = drawn(keys[number])
        one = estimation.Estimate(found.q[number], found.P[number], v=found.v[number])
        prior = estimation.Estimate(np.asarray(q), P, v=np.asarray(v))
        require_best(filter, sensor, prior, y, one, said.steps[number])


@pytest.mark.parametrize("slope", [0.8, 3.0])
def test_large_residuals_settle_where_whole_steps_do_not(slope):
    """x and y = x^2 slope, far below: whole steps go to and fro for ever; the best fit is a cubic's root."""
    line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
    sensor = estimation.Sensor(lambda q: slope * q**2, [[1.0]])
    found, said = line.update(estimation.Estimate([0.5], [[1.0]]), [-4.0], sensor)
    x = np.roots([2.0 * slope**2, 0.0, 1.0 + 8.0 * slope, -0.5])
    assert float(found.q[0]) == pytest.approx(float(x[np.abs(x.imag) < 1e-9].real[0]), abs=2e-6)
    assert said.steps < 20


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_far_from_the_origin(scale):
    """The same geometry a thousand million times farther away, beside round-off of its coordinates."""
    origin = scale * np.array([150.0, -30.0, 80.0])
    rng = np.random.default_rng(0)
    beacons = origin + rng.normal(size=(4, 3)) * 3e3
    space = estimation.Filter(cn.CoordinateFrame(3), noise=np.eye(3))
    sensor = estimation.Sensor(lambda q: jnp.linalg.norm(q - jnp.asarray(beacons), axis=1), np.eye(4), None)
    start = estimation.Estimate(origin, 1e4 * np.eye(3))
    y = np.asarray(sensor.h(origin + rng.normal(size=3) * 100.0))
    found, said = space.update(start, y, sensor)
    rows, L = rows_of(space, sensor, start, y)
    best = least_squares(jax.jit(rows), np.zeros(3), jax.jit(jax.jacfwd(rows)), xtol=1e-14, ftol=1e-14)
    spacing = np.spacing(np.abs(origin).max())
    assert np.abs(found.q - origin - L @ best.x).max() < 1e-5 + 20.0 * spacing
    assert said.converged and said.steps < 12


# --- what fails is seen ------------------------------------------------------------------------------------

LINE = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
SHORT = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]], iterations=7)
KEEP = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]], iterations=7, on_failure="keep")
BENT = estimation.Sensor(jnp.arctan, [[1e-4]])
ROOT = estimation.Sensor(lambda q: jnp.sqrt(q), [[1e-4]])
FAR = estimation.Estimate([4.0], [[100.0]])
BEACONS = jnp.array([[0.0, 2.0], [1.0, 1.0], [-1.0, 1.5]])
HALF_PLANE = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2))


def distances(q):
    gap = q - BEACONS
    return jnp.arccosh(1.0 + jnp.sum(gap**2, axis=1) / (2.0 * q[1] * BEACONS[:, 1]))


def fails(filter, estimate, y, sensor, error):
    with pytest.raises(error):
        filter.update(estimate, y, sensor)
    return jax.jit(lambda y: filter.update(estimate, y, sensor))(jnp.asarray(y))


def test_what_does_not_settle_is_told_what_to_try():
    """The measurement may be near: it is not blamed."""
    with pytest.raises(
        ConvergenceError, match="iterations do not settle: give more iterations, or look at the"
    ):
        SHORT.update(FAR, [0.1], BENT)


CASES = {
    "not settled": (SHORT, FAR, [0.1], BENT, ConvergenceError, Status.NOT_SETTLED),
    "no number": (LINE, estimation.Estimate([-1.0], [[1.0]]), [0.1], ROOT, NonFiniteError, Status.NOT_FINITE),
    "coarse": (
        estimation.Filter(HALF_PLANE, noise=np.eye(2), geodesic_steps=2),
        estimation.Estimate([0.3, 1.0], 0.5 * np.eye(2)),
        np.asarray(distances(jnp.array([-1.5, 0.6]))),
        estimation.Sensor(distances, 1e-4 * np.eye(3)),
        IntegrationError,
        Status.GEODESIC_TOO_COARSE,
    ),
}


@pytest.mark.parametrize("filter, estimate, y, sensor, error, status", CASES.values(), ids=CASES)
def test_a_failure_is_seen_in_all_results(filter, estimate, y, sensor, error, status):
    found, said = fails(filter, estimate, y, sensor, error)
    assert said.status == found.status == status and not said.accepted
    for value in (said.nis, said.log_likelihood, *found.q, *np.ravel(found.P)):
        assert np.isnan(value)
    # From there on the reason stays.
    later = jax.jit(lambda e: filter.update(filter.predict(e, jnp.zeros(filter.frame.dim), 1.0), y, sensor))
    found, said = later(found)
    assert said.status == found.status == status and np.isnan(said.nis)


@pytest.mark.parametrize("filter, estimate, y, sensor, error, status", CASES.values(), ids=CASES)
def test_or_the_estimate_is_kept(filter, estimate, y, sensor, error, status):
    keep = estimation.Filter(
        filter.nabla,
        noise=filter.noise,
        iterations=filter.iterations,
        geodesic_steps=filter.geodesic_steps,
        on_failure="keep",
    )
    for update in (keep.update, jax.jit(keep.update, static_argnums=2)):
        found, said = update(estimate, jnp.asarray(y), sensor)
        assert np.array_equal(found.q, estimate.q) and np.array_equal(found.P, estimate.P)
        assert said.status == found.status == status and np.isnan(said.nis) and np.isnan(said.log_likelihood)


def test_a_run_goes_on_after_a_failure_that_is_kept():
    """As if the measurement had been missing."""
    times, u = np.array([0.0, 1.0, 2.0]), np.zeros((3, 1))
    ys = np.array([[0.1], [1.3], [1.31]])
    with pytest.raises(ConvergenceError, match=r"times\[0\] = 0 s"):
        SHORT.run(FAR, times, u, ys, BENT)
    found = KEEP.run(FAR, times, u, ys, BENT)
    ys[0] = np.nan
    other = SHORT.run(FAR, times, u, ys, BENT)
    assert np.allclose(found.estimate.q, other.estimate.q, rtol=1e-12)
    assert np.allclose(found.estimate.P, other.estimate.P, rtol=1e-12)
    assert [*found.innovation.status] == [Status.NOT_SETTLED, 0, 0]
    assert [*other.innovation.status] == [Status.NOTHING_MEASURED, 0, 0]
    assert [*np.isnan(found.innovation.nis)] == [True, False, False]
    with pytest.raises(ValueError, match="on_failure"):
        estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]], on_failure="ignore")


def test_predictions_say_why_they_fail():
    wild = estimation.Filter(
        cn.CoordinateFrame(1), lambda q, u, t: jnp.sin(30.0 * q), [[1e-6]], prediction_steps=1
    )
    start = jax.tree_util.tree_map(jnp.asarray, estimation.Estimate([0.3], [[1e-4]]))
    sensor = estimation.Sensor(lambda q: q, [[1.0]])
    for t, status in ((0.5, Status.STEP_TOO_LONG), (-1.0, Status.TIME_BACK)):
        found = jax.jit(lambda t: wild.predict(start, None, t))(t)
        assert found.status == status and np.isnan(found.q).all() and np.isnan(found.P).all()
        _, said = jax.jit(lambda e: wild.update(e, jnp.array([jnp.nan]), sensor))(found)
        assert said.status == status and np.isnan(said.nis) and np.isnan(said.log_likelihood)
    history = jax.jit(lambda t: wild.run(start, t, None, jnp.zeros((2, 1)), sensor))(jnp.array([1e-4, 0.5]))
    assert [*history.innovation.status] == [Status.SETTLED, Status.STEP_TOO_LONG]
    nothing = jax.jit(lambda q: LINE.update(estimation.Estimate(q, jnp.eye(1)), jnp.array([jnp.nan]), sensor))
    found, said = nothing(jnp.array([jnp.nan]))
    assert said.status == Status.NOT_FINITE and np.isnan(found.P).all() and np.isnan(said.log_likelihood)


def test_consistency_leaves_failed_runs_out_and_counts_them():
    times, u, ys = np.array([0.0, 1.0]), np.zeros((2, 1)), np.array([[1.3], [1.3]])
    batch = np.stack([ys, [[0.1], [1.3]], ys])
    run = jax.jit(jax.vmap(lambda y: SHORT.run(FAR, times, u, y, BENT)))
    truth = np.full((3, 2, 1), 3.6)
    found = estimation.consistency(SHORT, run(batch), truth)
    alone = estimation.consistency(SHORT, SHORT.run(FAR, times, u, ys, BENT), truth[0])
    assert found.runs == 2 and found.failed == 1 and found.reasons == {Status.NOT_SETTLED: 1}
    assert np.allclose(found.nees, alone.nees) and np.allclose(found.nis, alone.nis)
    assert np.isnan(found.errors[1]).all() and np.allclose(found.errors[[0, 2]], alone.errors)
    assert found.nees_bounds == pytest.approx(tuple(chi2.ppf([0.025, 0.975], 2) / 2))
    assert alone.failed == 0 and alone.reasons == {}
    with pytest.raises(ConvergenceError, match="1 runs failed: 1 NOT_SETTLED"):
        estimation.consistency(SHORT, run(batch[1:2]), truth[1:2])
    kept = jax.jit(jax.vmap(lambda y: KEEP.run(FAR, times, u, y, BENT)))(batch)
    some = estimation.consistency(KEEP, kept, truth)
    assert some.runs == 3 and some.failed == 0  # of the first time, NIS is that of two runs
    assert some.nis[0] == pytest.approx(float(alone.nis[0]))
    assert some.nis_bounds[0] == pytest.approx(chi2.ppf([0.025, 0.975], 2) / 2)


# --- the gate and the smoother, by value -------------------------------------------------------------------


def test_a_gate_counts_what_is_measured():
    """NIS of one number of three between the quantiles of one and of three numbers is refused."""
    sensor = estimation.Sensor(lambda q: jnp.stack([q[0], q[0], 2.0 * q[0]]), np.eye(3))
    one = estimation.Estimate([0.0], [[3.0]])
    between = 0.5 * (chi2.ppf(0.99, 1) + chi2.ppf(0.99, 3))
    for nis, accepted in ((between, False), (0.99 * chi2.ppf(0.99, 1), True)):
        y = np.array([2.0 * np.sqrt(nis), np.nan, np.nan])
        found, said = LINE.update(one, y, sensor, gate=0.99)
        assert float(said.nis) == pytest.approx(nis) and said.dimension == 1
        assert said.accepted == accepted
        assert said.status == (Status.SETTLED if accepted else Status.REFUSED)
    y[1] = y[0] = np.sqrt(between * 7.0) / 2.0  # NIS of two: y^T (1 + 3 1 1^T)^-1 y = 2 y^2 / 7
    found, said = LINE.update(one, y, sensor, gate=0.99)
    assert float(said.nis) == pytest.approx(between / 2.0, rel=1e-9) or said.dimension == 2


SPHERE = cn.SphereFrame()
TURN, E0, E1 = np.array([0.2, -0.5, 0.4]), np.array([0.5, -0.4, 0.6]), np.array([0.4, 0.7])


@pytest.mark.parametrize("frame", [cn.SO3Frame(), SPHERE], ids=["SO(3)", "S^2"])
def test_a_smoother_is_the_best_fit_of_all(frame):
    """Beside the information of all measurements in closed form, at the start, where they are linear.

    Without motion, and with little noise, both states are one; the step from the prediction is large.
    """
    n = frame.dim
    q = np.array([0.0, 0.0, 0.0, 1.0]) if n == 3 else np.array([0.6, 0.0, 0.8])
    filter = estimation.Filter(frame, noise=1e-9 * np.eye(n))
    P = np.diag([0.3, 0.5, 0.4][:n]) ** 2
    e = (E0, E1)[n == 2]
    N = np.diag([1e-2, 4e-2, 2e-2][:n])
    sensor = estimation.Sensor(lambda p: filter.space.difference_at((q,), (p,)), N)
    y = np.stack([np.full(n, np.nan), e])
    history = filter.run(estimation.Estimate(q, P), [0.0, 1.0], np.zeros((2, n)), y, sensor)
    smoothed = filter.smooth(history)
    K = P @ np.linalg.inv(P + N)
    best, spread = K @ e, P - K @ P
    J = np.asarray(filter.space.moved_at((q,), best)[1])
    found = filter.difference(estimation.Estimate(q, P), smoothed.q[0])
    assert np.allclose(found, best, atol=1e-6)
    assert np.allclose(smoothed.P[0], J @ spread @ J.T, atol=1e-6)
    Pi = np.asarray(filter.space.transport_at(filter.nabla, (q,), best))
    assert np.abs(Pi @ spread @ Pi.T - J @ spread @ J.T).max() > 1e-4


NOISES = {
    "negative": (np.diag([1.0, -1.0]), r"N\[1, 1\] is -1: a variance is positive"),
    "upper": ([[1.0, 0.8], [0.0, 1.0]], "N is not symmetric"),
    "lower": ([[1.0, 0.0], [1e-8, 1.0]], "N is not symmetric"),
    "indefinite": ([[1.0, 2.0], [2.0, 1.0]], "N is not positive definite"),
    "no number": ([[1.0, np.nan], [np.nan, 1.0]], r"N\[0, 1\] is nan"),
}
PLANE = estimation.Filter(cn.CoordinateFrame(2), noise=np.eye(2))


def point(q):
    return q


def given(y, matrix):
    return matrix


def updated(matrix):
    start, sensor = estimation.Estimate([0.0, 0.0], np.eye(2)), cn.ParametricFunction(given, matrix)
    return PLANE.update(start, np.array([1.0, 0.0]), estimation.Sensor(point, sensor))


@pytest.mark.parametrize("case", NOISES)
def test_a_function_that_returns_no_covariance_is_named(case):
    """As a constant is; NaN inside of jit."""
    matrix, words = np.array(NOISES[case][0]), NOISES[case][1]
    with pytest.raises(ValueError, match=f"update: {words}"):
        updated(matrix)
    found, said = jax.jit(updated)(matrix)
    assert said.status == Status.NOT_FINITE and np.isnan(found.q).all() and np.isnan(said.nis)


def test_a_function_that_returns_no_covariance_in_a_run():
    """The sample is named; what is missing needs no noise; a reported pose names N, too."""
    start, zero = estimation.Estimate([0.0, 0.0], np.eye(2)), np.zeros((2, 2))
    sensor = estimation.Sensor(point, cn.ParametricFunction(given, np.diag([-1.0, 1.0])))
    with pytest.raises(ValueError, match=r"update at times\[1\] = 2 s: N\[0, 0\] is -1"):
        PLANE.run(start, [1.0, 2.0], zero, [[np.nan, 1.0], [1.0, 1.0]], sensor)
    pose = estimation.Sensor(
        point, cn.ParametricFunction(given, -np.eye(2)), connection=cn.CoordinateFrame(2), reported=True
    )
    with pytest.raises(ValueError, match=r"update: N\[0, 0\] is -1"):
        PLANE.update(start, [1.0, 1.0], pose)


# --- threads ------------------------------------------------------------------------------------------------


class Between(dict):
    """A cache: after a read or a write of the compiled update, once, another thread makes a whole call."""

    def __init__(self, known, moment, other):
        super().__init__(known)
        self.moment, self.other = moment, other

    def get(self, key, default=None):
        found = super().get(key, default)
        self.meet("read", key)
        return found

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.meet("written", key)

    def meet(self, moment, key):
        if moment == self.moment and getattr(key, "__name__", "").startswith("_updated"):
            self.moment = None
            thread = threading.Thread(target=self.other)
            thread.start()
            thread.join()


@pytest.mark.parametrize("moment", ["read", "written"])
def test_two_threads_update_with_one_filter(moment):
    """By sensors of one size, of which the compiled updates replace each other in the filter's cache."""
    estimate = Estimate([0.3, 0.4], [[2.0, 0.3], [0.3, 1.0]])
    first, second = (Sensor(h, [[0.5]]) for h in (lambda q: q[:1], lambda q: 3.0 * q[1:]))
    expected = [
        Filter(cn.CoordinateFrame(2), noise=np.eye(2)).update(estimate, [1.0], each)[0].q
        for each in (first, second)
    ]
    assert np.abs(expected[0] - expected[1]).max() > 0.1
    kalman, found = Filter(cn.CoordinateFrame(2), noise=np.eye(2)), {}
    kalman.update(estimate, [1.0], first if moment == "read" else second)

    def other():
        found["second"] = kalman.update(estimate, [1.0], second)[0].q

    kalman.__dict__[DERIVED] = Between(cache_of(kalman), moment, other)
    found["first"] = kalman.update(estimate, [1.0], first)[0].q
    assert cache_of(kalman).moment is None  # they have met
    np.testing.assert_array_equal([found["first"], found["second"]], expected)
