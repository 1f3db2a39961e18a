"""NEES of filters on manifolds: the tables of docs/filters.md.

Run `python tests/benchmarks/filters.py attitude`, or poses, smoother, arm. Each row has means of NEES / k
over the runs; one is consistent. A run whose iteration does not settle is counted, and left out.
With `speed` it prints microseconds of a prediction and an update inside `scan`, beside extended Kalman
filters of vectors of the same sizes and numbers of iterations; with `robot` those of an arm of six joints,
with `navigation` those of attitude, velocity and position;
with `batch` time and memory of 10,000 runs in one `vmap`.
"""

import sys
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import filter_runs

import connections as cn
from connections import affine, estimation
from connections import multibody as mb
from connections.geometry.group_maps import exponential_at
from connections.geometry.rigid.rotations import quaternion_exponential, rotation_matrix

MEMBERS = {"nabla°": 0.0, "+1/2": 0.5, "none": -0.5}


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def numbers(nees, places):
    nees = np.asarray(nees)
    means = " ".join(f"{np.nanmean(nees[:, place]):.2f}" for place in places)
    failed = np.isnan(nees[:, places[-1]]).mean()
    return means + (f" ({100 * failed:.1f} %)" if failed else "")


# --- attitude ---------------------------------------------------------------------------------------------

ATTITUDES = (
    (0.1, 0.1),
    (0.1, 0.01),
    (0.3, 0.1),
    (0.3, 0.01),
    (0.3, 0.001),
    (0.6, 0.01),
    (1.0, 0.1),
)
GYRO, UPDATES = 0.01, 4


@partial(jax.jit, static_argnums=(4, 5, 6))
def attitudes(keys, sigma, r, beta, exact, iterations, times=UPDATES):
    reset = "exact" if exact else affine.CartanSchoutenConnection(cn.SO3Frame(), beta)
    filter = estimation.Filter(cn.SO3Frame(), noise=GYRO**2 * np.eye(3), reset=reset, iterations=iterations)
    run = lambda key: filter_runs.attitude_nees(key, filter, sigma, r, GYRO, times)[0]  # noqa: E731
    return jax.vmap(run)(keys)


def euler_matrix(x):
    (a, b, c), (s, t, u) = jnp.cos(x), jnp.sin(x)
    return jnp.array(
        [
            [a * b, a * t * u - s * c, a * t * c + s * u],
            [s * b, s * t * u + a * c, s * t * c - a * u],
            [-t, b * u, b * c],
        ]
    )


def euler_of(q):
    R = rotation_matrix(q)
    pitch = -jnp.arcsin(jnp.clip(R[2, 0], -1.0, 1.0))
    return jnp.stack([jnp.arctan2(R[1, 0], R[0, 0]), pitch, jnp.arctan2(R[2, 1], R[2, 2])])


def body_rates(x):
    """omega = B xdot of yaw, pitch, roll."""
    _, b, c = jnp.cos(x)
    _, t, u = jnp.sin(x)
    zero, one = jnp.zeros(()), jnp.ones(())
    return jnp.array([[-t, zero, one], [b * u, c, zero], [b * c, -u, zero]])


@jax.jit
def euler_angles(keys, sigma, r):
    """An extended Kalman filter on yaw, pitch and roll, by the same class on a flat chart."""

    def noise(x, u, t):
        inverse = jnp.linalg.inv(body_rates(x))
        return GYRO**2 * inverse @ inverse.T

    chart = estimation.Filter(
        cn.CoordinateFrame(3), lambda x, u, t: jnp.linalg.solve(body_rates(x), u), noise, iterations=1
    )

    def run(key):
        truth = estimation.Filter(cn.SO3Frame(), noise=GYRO**2 * np.eye(3))
        _, q, (q0, u, y) = filter_runs.attitude_run(key, truth, sigma, r, GYRO, UPDATES, given=True)
        sensor = estimation.Sensor(
            lambda x: (filter_runs.DIRECTIONS @ euler_matrix(x)).reshape(-1), r**2 * jnp.eye(6)
        )
        x0 = euler_of(q0)
        inverse = jnp.linalg.inv(body_rates(x0))
        estimate = estimation.Estimate(x0, sigma**2 * inverse @ inverse.T)
        history = chart.run(estimate, 0.1 * jnp.arange(1, UPDATES + 1), u, y, sensor).estimate
        e = jax.vmap(euler_of)(q) - history.q
        e = (e + jnp.pi) % (2 * jnp.pi) - jnp.pi
        return jnp.einsum("ti,ti->t", e, jnp.linalg.solve(history.P, e[..., None])[..., 0]) / 3

    return jax.vmap(run)(keys)


def attitude(runs=2000):
    keys = jax.random.split(jax.random.PRNGKey(2), runs)
    kinds = [
        (True, 0.0, 1, "EKF exact"),
        *((False, beta, 1, f"EKF {name}") for name, beta in MEMBERS.items()),
        (True, 0.0, 30, "iterated exact"),
        *((False, beta, 30, f"iterated {name}") for name, beta in MEMBERS.items()),
    ]
    row("sigma, r", *(name for *_, name in kinds), "Euler angles (median)")
    for sigma, r in ATTITUDES:
        cells = []
        for exact, beta, iterations, _ in kinds:
            nees = attitudes(keys, jnp.asarray(sigma), jnp.asarray(r), beta, exact, iterations)
            cells.append(numbers(nees, (0, 3)))
        chart = np.asarray(euler_angles(keys, jnp.asarray(sigma), jnp.asarray(r)))
        medians = " ".join(f"{np.nanmedian(chart[:, place]) / 0.789:.2f}" for place in (0, 3))
        row(f"{sigma}, {r}", *cells, medians)


# --- poses ------------------------------------------------------------------------------------------------

FIXES = (
    (0.1, 0.1, 0.02, 0.02, 0.1),
    (0.3, 0.1, 0.02, 0.02, 0.1),
    (0.3, 0.1, 0.1, 0.05, 0.03),
    (0.6, 0.1, 0.02, 0.02, 0.1),
)


@partial(jax.jit, static_argnums=(3, 4, 5))
def poses(keys, case, beta, exact, iterations, kind):
    """NEES / 6 before the first fix, and after the fixes, (runs, 4)."""
    group = cn.SE3Frame()
    metric = cn.LeviCivita(cn.ConstantMetric(group, np.eye(6)))
    reset = "exact" if exact else affine.CartanSchoutenConnection(group, beta)
    filter = estimation.Filter(
        group if kind == "group" else metric,
        noise=jnp.diag(jnp.repeat(case[2:4], 3) ** 2),
        reset=reset,
        iterations=iterations,
    )

    def run(key):
        history, q = filter_runs.pose_run(key, filter, case, 100, 20)
        before = filter_runs.nees(filter, history.predicted, q)[19]
        return jnp.concatenate([before[None], filter_runs.nees(filter, history.estimate, q)[19::40]])

    return jax.vmap(run)(keys)


def pose(runs=1000):
    keys = jax.random.split(jax.random.PRNGKey(3), runs)
    kinds = [
        (True, 0.0, 30, "group", "iterated exact"),
        *((False, beta, 30, "group", f"iterated {name}") for name, beta in MEMBERS.items()),
        (True, 0.0, 1, "group", "EKF exact"),
        *((False, beta, 1, "group", f"EKF {name}") for name, beta in MEMBERS.items()),
        (True, 0.0, 30, "metric", "product metric, iterated exact"),
    ]
    for *kind, name in kinds:
        exact, beta, iterations, space = kind
        found = [poses(keys, jnp.array(case), beta, exact, iterations, space) for case in FIXES]
        row(name, *(numbers(nees, (0, 1, 3)) for nees in found))


# --- smoother ----------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=(4, 5))
def smoothed(keys, sigma, r, gyro, exact, iterations):
    """NEES / 3 of filter and smoother (runs, 2, T): one direction first, the other after 16 of 20 steps."""
    filter = estimation.Filter(
        cn.SO3Frame(),
        noise=gyro**2 * jnp.eye(3),
        reset="exact" if exact else None,
        iterations=iterations,
    )

    def run(key):
        history, q = filter_runs.attitude_run(key, filter, sigma, r, gyro, 20, late=True)
        smooth = filter.smooth(history)
        return jnp.stack([filter_runs.nees(filter, x, q) for x in (history.estimate, smooth)])

    return jax.vmap(run)(keys)


def smoother(runs=1000):
    keys = jax.random.split(jax.random.PRNGKey(5), runs)
    row("forward", "sigma, r, gyroscope", "filter at 1, 16, 20", "smoother at 1, 9, 16")
    for exact, iterations, name in (
        (True, 30, "iterated exact"),
        (False, 30, "iterated none"),
        (True, 1, "EKF exact"),
        (False, 1, "EKF none"),
    ):
        for case in ((0.3, 0.01, 0.02), (0.3, 0.01, 0.1), (0.6, 0.05, 0.1)):
            nees = np.asarray(smoothed(keys, *map(jnp.asarray, case), exact, iterations))
            row(name, case, numbers(nees[:, 0], (0, 15, 19)), numbers(nees[:, 1], (0, 8, 15)))


# --- an arm, and a robot ------------------------------------------------------------------------------------


def arm_mass(q):
    c = jnp.cos(q[1])
    return jnp.array([[3.0 + 2.0 * c, 1.0 + c], [1.0 + c, 1.0]])


def arm_height(q):
    return 9.81 * (2.0 * jnp.sin(q[0]) + jnp.sin(q[0] + q[1]))


@partial(jax.jit, static_argnums=(2, 3, 4, 5))
def arms(keys, case, exact, iterations, every, flat=False):
    """NEES / 4 after the readings, (runs, 3): an encoder every so many steps of 0.02 s, unknown torques."""
    metric = cn.MatrixMetric(cn.CoordinateFrame(2), arm_mass)
    system = cn.MechanicalSystem(metric, arm_height)
    connection = system.frame if flat else None
    truth = estimation.Filter(system, noise=case[3] ** 2 * jnp.eye(2), connection=connection)
    filter = estimation.Filter(
        system,
        connection=connection,
        noise=case[3] ** 2 * jnp.eye(2),
        reset="exact" if exact else None,
        iterations=iterations,
        geodesic_steps=8,
        prediction_steps=4,
    )
    times, x0 = 61, (jnp.array([0.5, 1.0]), jnp.array([0.5, -1.0]))
    ts = jnp.arange(times)
    tau = jnp.stack([6.0 * jnp.sin(0.04 * ts), 3.0 * jnp.cos(0.06 * ts)], 1)
    sensor = estimation.Sensor(lambda q, v: q, case[2] ** 2 * jnp.eye(2))
    deviations = jnp.repeat(case[:2], 2)

    def run(key):
        drawn, shaken, read = jax.random.split(key, 3)
        noise = case[3] / np.sqrt(0.02) * jax.random.normal(shaken, (times, 2))
        readings = case[2] * jax.random.normal(read, (times, 2))
        begin = truth.space.moved_at(x0, deviations * jax.random.normal(drawn, (4,)))[0]

        def move(x, given):
            u, y, number = given
            x = truth.space.predicted_at(x, jnp.eye(4), u, 0.0, 0.02).state
            return x, (*x, jnp.where((number + 1) % every == 0, x[0] + y, jnp.nan))

        _, (q, v, y) = jax.lax.scan(move, begin, (tau + noise, readings, ts))
        estimate = estimation.Estimate(x0[0], jnp.diag(deviations**2), v=x0[1])
        history = filter.run(estimate, 0.02 * (ts + 1.0), tau, y, sensor).estimate
        e = jax.vmap(lambda a, b, c, d: filter.space.difference_at((a, b), (c, d)))(
            history.q, history.v, q, v
        )
        nees = jnp.einsum("ti,ti->t", e, jnp.linalg.solve(history.P, e[..., None])[..., 0]) / 4
        return nees[every - 1 :: every][:3]

    return jax.vmap(run)(keys)


def arm(runs=400):
    keys = jax.random.split(jax.random.PRNGKey(4), runs)
    cases = ((0.05, 0.5, 0.01, 0.05), (0.05, 0.5, 0.001, 0.05), (0.2, 0.5, 0.03, 0.05))
    row("filter", "every", *cases)
    for exact, iterations, flat, name in (
        (True, 30, False, "iterated exact"),
        (False, 30, False, "iterated none"),
        (True, 1, False, "EKF exact"),
        (True, 30, True, "angles as numbers, iterated"),
    ):
        for every in (20, 1):
            found = [arms(keys, jnp.array(case), exact, iterations, every, flat) for case in cases]
            row(name, every, *(numbers(nees, (0, 1, 2)) for nees in found))


# --- speed -------------------------------------------------------------------------------------------------

SAMPLES = 200


def vector_filter(f, h, Q, N, iterations):
    """Predict and update of an extended Kalman filter of vectors, iterated as often as said."""
    n = len(Q)

    def gain(H, P):
        S = H @ P @ H.T + N
        L = jnp.linalg.cholesky(S)
        return jax.scipy.linalg.cho_solve((L, True), H @ P).T, L

    def step(carried, given):
        (x, P), (u, y) = carried, given
        F = jax.jacfwd(f)(x, u)
        x = f(x, u)
        P = F @ P @ F.T + Q

        def iterate(_, z):
            H = jax.jacfwd(h)(z)
            return x + gain(H, P)[0] @ (y - h(z) - H @ (x - z))

        z = jax.lax.fori_loop(0, iterations, iterate, x) if iterations > 1 else iterate(0, x)
        at = z if iterations > 1 else x
        H = jax.jacfwd(h)(at)
        K, L = gain(H, P)
        r = jax.scipy.linalg.solve_triangular(L, y - h(at) - H @ (x - at), lower=True)
        log_likelihood = -0.5 * (r @ r) - jnp.sum(jnp.log(jnp.diagonal(L)))
        rest = jnp.eye(n) - K @ H
        P = rest @ P @ rest.T + K @ N @ K.T
        return (z, P), (z, P, log_likelihood)

    return lambda P, us, ys: jax.lax.scan(step, (jnp.zeros(n), P), (us, ys))[1]


def best(functions, arguments, repeats=80):
    """The least microseconds of a sample, each function in turn."""
    compiled = [jax.jit(function).lower(*arguments).compile() for function in functions]
    least = [np.inf] * len(compiled)
    for _ in range(repeats):
        for number, function in enumerate(compiled):
            begin = time.perf_counter()
            jax.block_until_ready(function(*arguments))
            least[number] = min(least[number], time.perf_counter() - begin)
    return [1e6 * seconds / SAMPLES for seconds in least]


def directions(q):
    return filter_runs.directions_seen(q)


SENSORS = (
    ("SO(3), one direction", cn.SO3Frame(), lambda q: directions(q)[:3], 3, 0.01),
    ("SO(3), two directions", cn.SO3Frame(), directions, 6, 0.01),
    ("SE(3), position", cn.SE3Frame(), lambda q: q[:3], 3, 0.1),
    ("SE(3), position and directions", cn.SE3Frame(), lambda q: jnp.append(q[:3], directions(q[3:])), 9, 0.1),
)


def speed():
    rng = np.random.default_rng(0)
    row("case", "steps", "this", "vectors, y = sin(A x)", "chart, the same y")
    for name, group, seen, m, r in SENSORS:
        k = group.dim
        us = np.tile([0.1, -0.2, 0.3, 1.0, 0.0, 0.0][:k], (SAMPLES, 1))
        start = np.zeros(group.ambient_dim)
        start[-1] = 1.0
        shaken = us + 0.03 * rng.normal(size=us.shape)
        move = lambda q, v, group=group: (exponential_at(group, q, 0.1 * v),) * 2  # noqa: E731
        qs = jax.lax.scan(move, jnp.asarray(start), jnp.asarray(shaken))[1]
        ys = np.asarray(jax.vmap(seen)(qs)) + r * rng.normal(size=(SAMPLES, m))
        times, P, A = 0.1 * np.arange(1, SAMPLES + 1), 0.01 * np.eye(k), rng.normal(size=(m, k))
        sensor = estimation.Sensor(seen, r**2 * np.eye(m))

        def chart(x, seen=seen):
            return seen(jnp.concatenate([x[:-3], quaternion_exponential(x[-3:])]))

        def flow(x, u, k=k):
            return x + 0.1 * (u + 0.1 * jnp.sin(jnp.roll(x, 1)))

        for iterations in (1, 30):
            own = estimation.Filter(group, noise=1e-4 * np.eye(k), iterations=iterations)

            def run(P, us, ys, own=own, start=start, times=times, sensor=sensor):
                found = own.run(estimation.Estimate(jnp.asarray(start), P), times, us, ys, sensor)
                return found.estimate.q, found.estimate.P, found.innovation.log_likelihood

            count = own.run(estimation.Estimate(start, P), times, us, ys, sensor).innovation.steps.mean()
            sizes = 1e-5 * jnp.eye(k), r**2 * jnp.eye(m), round(float(count))
            vectors = vector_filter(flow, lambda x, A=A: jnp.sin(A @ x), *sizes)
            found = best((run, vectors, vector_filter(flow, chart, *sizes)), (P, us, ys))
            ratios = [f"{us:.1f} ({found[0] / us:.2f})" for us in found[1:]]
            row(name, f"{count:.2f}", f"{found[0]:.1f}", *ratios)


def navigation():
    """Attitude, velocity and position, 9 errors, by gyroscope, accelerometer and a position at 100 Hz."""
    frame, rng = cn.ProductFrame(cn.SO3Frame(), cn.CoordinateFrame(6)), np.random.default_rng(0)
    gravity = np.array([0.0, 0.0, -9.81])

    def velocity(q, u, t):
        return jnp.concatenate([u[:3], rotation_matrix(q[:4]) @ u[3:] + gravity, q[4:7]])

    def flow(x, u):
        return x + 0.01 * jnp.concatenate([u[:3], x[:3] + u[3:], x[3:6]])

    times, us = 0.01 * np.arange(1, SAMPLES + 1), np.tile([0.1, -0.2, 0.3, 0.0, 0.0, 9.81], (SAMPLES, 1))
    P, N, ys = 0.01 * np.eye(9), 1e-4 * np.eye(3), 0.01 * rng.normal(size=(SAMPLES, 3))
    start, sensor = jnp.zeros(10).at[3].set(1.0), estimation.Sensor(lambda q: q[7:], N)
    row("steps", "an update", "with its prediction", "vectors")
    for iterations in (1, 30):
        own = estimation.Filter(frame, velocity, 1e-4 * np.eye(9), iterations=iterations)

        def run(P, us, ys, own=own):
            found = own.run(estimation.Estimate(start, P), times, us, ys, sensor)
            return found.estimate.q, found.estimate.P, found.innovation.log_likelihood

        def updates(P, us, ys, own=own):
            def step(x, y):
                found, said = own.update(estimation.Estimate(x, P), y, sensor)
                return found.q, (found.P, said.log_likelihood)

            return jax.lax.scan(step, start, ys)[1]

        history = own.run(estimation.Estimate(start, P), times, us, ys, sensor)
        count = float(history.innovation.steps.mean())
        vectors = vector_filter(flow, lambda x: jnp.sin(x[6:]), 1e-5 * jnp.eye(9), N, round(count))
        whole, one, beside = best((run, updates, vectors), (P, us, ys))
        row(f"{count:.2f}", f"{one:.1f}", f"{whole:.1f}", f"{beside:.1f}")


def robot():
    """An arm of six joints with encoders at every millisecond: 12 errors."""
    arm, rng = mb.example("arm"), np.random.default_rng(0)
    sensor = estimation.Sensor(lambda q, v: q, 1e-6 * np.eye(6))
    P = np.diag([1e-4] * 6 + [1e-2] * 6)
    q, v = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]), np.array([0.2, -0.1, 0.3, 0.1, -0.2, 0.1])
    times = 1e-3 * np.arange(1, SAMPLES + 1)
    tau = np.tile(mb.gravity(arm, q), (SAMPLES, 1))
    ys = q + times[:, None] * v + 1e-3 * rng.normal(size=(SAMPLES, 6))
    row("connection", "iterations", "first compile, s", "a cycle, us")
    for name, connection in (("of the joints", arm.frame), ("of the mass matrix", None)):
        for iterations in (1, 30):
            own = estimation.Filter(arm, noise=0.01 * np.eye(6), connection=connection, iterations=iterations)

            def run(P, tau, ys, own=own):
                start = estimation.Estimate(jnp.asarray(q), P, v=jnp.asarray(v))
                found = own.run(start, times, tau, ys, sensor)
                return found.estimate.q, found.estimate.v, found.estimate.P

            begin = time.perf_counter()
            jax.jit(run).lower(P, tau, ys).compile()
            seconds = time.perf_counter() - begin
            row(name, iterations, f"{seconds:.1f}", f"{best((run,), (P, tau, ys), 20)[0]:.0f}")


def batch(runs=10_000):
    """Attitudes as in the table, 20 measurements each."""
    import resource

    keys = jax.random.split(jax.random.PRNGKey(2), runs)
    arguments = keys, jnp.asarray(0.3), jnp.asarray(0.01), 0.0, True, 30, 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    jax.block_until_ready(attitudes(*arguments))
    begin = time.perf_counter()
    nees = jax.block_until_ready(attitudes(*arguments))
    seconds = time.perf_counter() - begin
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    row("runs", "s", "us an update", "MiB more", "NEES / 3 at the end")
    row(runs, f"{seconds:.2f}", f"{1e6 * seconds / runs / 20:.2f}", more // 1024, numbers(nees, (19,)))


if __name__ == "__main__":
    begin = time.time()
    tables = {"attitude": attitude, "poses": pose, "smoother": smoother, "arm": arm}
    tables |= {"speed": speed, "robot": robot, "navigation": navigation, "batch": batch}
    tables[sys.argv[1]](*map(int, sys.argv[2:]))
    print(f"{time.time() - begin:.0f} s")
