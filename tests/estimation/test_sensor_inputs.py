"""Sensors that take the input and the time, and sensors with parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections import estimation
from connections import multibody as mb

TIMES = np.array([0.1, 0.25, 0.4, 0.4])
N = np.array([[0.05, 0.01], [0.01, 0.02]])
STIFFNESS, DAMPING = np.array([[3.0, 1.0], [1.0, 4.0]]), np.array([[0.5, 0.2], [0.2, 0.3]])
MASSES = np.array([[2.0, 0.5], [0.5, 1.0]])


def close(a, b, atol=1e-12):
    pairs = zip(jax.tree_util.tree_leaves(a), jax.tree_util.tree_leaves(b), strict=True)
    return all(np.allclose(x, y, rtol=0.0, atol=atol) for x, y in pairs)


def force(t, q, v):
    return -STIFFNESS @ q - DAMPING @ v


SPRINGS = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(2), MASSES), forces=force)
FILTER = estimation.Filter(SPRINGS, noise=np.diag([0.3, 0.2]))


def acceleration(q, v, u, t):
    """What accelerometers on the masses see; they drift."""
    return jnp.asarray(np.linalg.inv(MASSES)) @ (u + force(t, q, v)) + 0.3 * t


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(4)
    P = 0.2 * np.eye(4) + 0.05
    start = estimation.Estimate([0.3, -0.2], P, [0.5, 0.1], t=0.05)
    y = rng.normal(size=(4, 2))
    y[1, 0] = np.nan
    return start, rng.normal(size=(4, 2)), y


def test_accelerometers_of_springs(series):
    """As the linear sensor of y less what the input and the time add; with a gate, inside vmap, smoothed."""
    start, u, y = series
    inverse = np.linalg.inv(MASSES)
    H = np.concatenate([-inverse @ STIFFNESS, -inverse @ DAMPING], axis=1)
    seen = estimation.Sensor(acceleration, N)
    linear = estimation.Sensor(lambda q, v: jnp.asarray(H) @ jnp.concatenate([q, v]), N)
    less = y - u @ inverse.T - 0.3 * TIMES[:, None]
    found, expected = (FILTER.run(start, TIMES, u, *given) for given in ((y, seen), (less, linear)))
    assert close(found, expected) and close(FILTER.smooth(found), FILTER.smooth(expected))
    P, r = start.P, y[0] - inverse @ (u[0] + force(0.0, start.q, start.v)) - 0.3 * 0.05
    S = H @ P @ H.T + N
    one, said = FILTER.update(start, y[0], seen, gate=0.999999, u=u[0])
    assert close(said.r, r) and close(said.S, S) and close(said.nis, r @ np.linalg.solve(S, r))
    assert close(np.concatenate([one.q - start.q, one.v - start.v]), P @ H.T @ np.linalg.solve(S, r))
    alone, zero = (FILTER.update(start, y[0], seen, 0.999999, u)[0] for u in (None, np.zeros(2)))
    assert close(alone, zero) and np.abs(alone.q - one.q).max() > 0.01  # no input is no force
    many = jax.vmap(lambda u, y: FILTER.update(start, y, seen, u=u)[0].q)(u[[0, 2]], y[[0, 2]])
    assert close(many[0], one.q) and close(many[1], FILTER.update(start, y[2], seen, u=u[2])[0].q)


def test_points_with_any_input():
    """Of points: h(q, u, t), with an input that is a dictionary, and without one for the time alone."""
    plane = estimation.Filter(cn.SE2Frame(), lambda q, u, t: u["gain"] * u["twist"], 0.1 * np.eye(3))
    start = estimation.Estimate([0.1, 0.2, 0.3], 0.04 * np.eye(3), t=2.0)
    slip = estimation.Sensor(lambda q, u, t: q[:2] + u["gain"] * u["twist"][1:] + t, 0.1 * np.eye(2))
    plain = estimation.Sensor(lambda q: q[:2], 0.1 * np.eye(2))
    u = {"gain": 0.5, "twist": np.array([0.1, 0.2, -0.4])}
    found, _ = plane.update(start, [2.5, 2.6], slip, u=u)
    assert close(found, plane.update(start, [2.5 - 0.1 - 2.0, 2.6 + 0.2 - 2.0], plain)[0])
    rows = jax.tree_util.tree_map(lambda a: np.stack([a, 2.0 * a, a]), u)
    times, y = [2.1, 2.2, 2.3], np.array([[2.5, 2.6], [2.7, 2.2], [2.9, 2.1]])
    less = y - rows["gain"][:, None] * rows["twist"][:, 1:] - np.array(times)[:, None]
    assert close(plane.run(start, times, rows, y, slip), plane.run(start, times, rows, less, plain))


@pytest.mark.further
def test_the_time_without_an_input():
    start = estimation.Estimate([0.1, 0.2, 0.3], 0.04 * np.eye(3), t=2.0)
    times, y = [2.1, 2.2, 2.3], np.array([[2.5, 2.6], [2.7, 2.2], [2.9, 2.1]])
    clock, plain = (
        estimation.Sensor(h, 0.1 * np.eye(2)) for h in (lambda q, u, t: q[:2] + t, lambda q: q[:2])
    )
    still = estimation.Filter(cn.SE2Frame(), lambda q, u, t: 0.0 * q, 0.1 * np.eye(3))
    assert close(
        still.run(start, times, None, y, clock),
        still.run(start, times, None, y - np.array(times)[:, None], plain),
    )


@pytest.mark.further
def test_an_accelerometer_of_a_robot():
    """r and S against differences of the robot's forward dynamics, of which the input is a part."""
    model = mb.example("arm")
    robot = estimation.Filter(model, noise=np.eye(6), connection=model.frame)
    q, v, u = np.random.default_rng(2).normal(size=(3, 6)) * [[0.4], [0.5], [5.0]]
    start = estimation.Estimate(q, 1e-4 * np.diag(np.arange(1.0, 13.0)), v)
    seen = estimation.Sensor(lambda q, v, u, t: mb.forward_dynamics(model, q, v, u)[:3], 4.0 * np.eye(3))
    y = np.asarray(mb.forward_dynamics(model, q, v, u))[:3] + [0.5, -1.0, 0.3]
    _, said = robot.update(start, y, seen, u=u)
    x, h = np.concatenate([q, v]), 1e-6

    def at(x):
        return np.asarray(mb.forward_dynamics(model, x[:6], x[6:], u))[:3]

    H = np.stack([(at(x + h * e) - at(x - h * e)) / (2 * h) for e in np.eye(12)], axis=1)
    assert close(said.r, np.array([0.5, -1.0, 0.3]), 1e-9)
    np.testing.assert_allclose(said.S, H @ start.P @ H.T + 4.0 * np.eye(3), rtol=1e-5)


def toward(q, landmark):
    return jnp.stack([jnp.hypot(*(landmark[:2] - q[:2])) + landmark[2]])


def test_other_numbers_compile_nothing():
    """A sensor made anew: parameters of h, of N, periods, N; a new function compiles."""
    plane = estimation.Filter(cn.SE2Frame(), noise=0.1 * np.eye(3))
    start = estimation.Estimate([0.1, 0.2, 0.3], 0.04 * np.eye(3))

    def noise(y, scale):
        return scale * jnp.eye(1)

    def result(landmark, scale, period):
        N = cn.ParametricFunction(noise, scale)
        far = estimation.Sensor(toward, N, turns={0: period}, parameters=np.array(landmark))
        near = estimation.Sensor(toward, [[2.0 * scale]], parameters=np.array(landmark))
        u = np.zeros((2, 3))
        found = [plane.update(start, [4.0], sensor)[0].q for sensor in (far, near)]
        return [*found, plane.run(start, [0.1, 0.2], u, [[4.0], [4.1]], near).estimate.q[-1]]

    def direct(landmark, scale):
        seen = estimation.Sensor(lambda q: toward(q, jnp.array(landmark)), [[scale]])
        return plane.update(start, [4.0], seen)[0].q

    result([3.0, 1.0, 0.0], 0.1, 50.0)
    counted = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: counted.append(name))
    found = [result(*given) for given in (([1.0, 4.0, 0.2], 0.2, 60.0), ([-2.0, 0.5, 0.1], 0.3, 70.0))]
    assert not [name for name in counted if "backend_compile" in name]
    assert close(found[0][0], direct([1.0, 4.0, 0.2], 0.2)) and close(
        found[1][1], direct([-2.0, 0.5, 0.1], 0.6)
    )
    assert [name for name in counted if "backend_compile" in name]
    assert all(np.abs(a - b).max() > 1e-3 for a, b in zip(*found, strict=True))


def test_derivatives_by_a_parameter():
    """The likelihood by a calibration, against differences."""
    plane = estimation.Filter(cn.SE2Frame(), noise=0.1 * np.eye(3))
    start = estimation.Estimate([0.1, 0.2, 0.3], 0.04 * np.eye(3))

    @jax.jit
    def likelihood(bias):
        landmark = jnp.array([3.0, 1.0, 0.0]).at[2].set(bias)
        seen = estimation.Sensor(toward, [[0.1]], parameters=landmark)
        return plane.update(start, jnp.array([4.0]), seen)[1].log_likelihood

    slope, h = jax.jit(jax.grad(likelihood))(0.3), 1e-4
    assert abs(slope - (likelihood(0.3 + h) - likelihood(0.3 - h)) / (2 * h)) < 1e-6 and abs(slope) > 0.1


ONE = estimation.Filter(cn.SE2Frame(), noise=np.eye(3))
AT = estimation.Estimate(np.zeros(3), np.eye(3))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: estimation.Sensor(lambda: 0.0, N),
            TypeError,
            r"h: .*h\(q\), h\(q, v\), h\(q, u, t\) or h\(q",
        ),
        (lambda: estimation.Sensor(lambda a, b, c, d, e: a, N), TypeError, r"arguments \(a, b, c, d, e\)"),
        (
            lambda: estimation.Sensor(lambda a: a, N, parameters=1.0),
            TypeError,
            r"h: .*the parameters as one more, got one with arguments \(a\)",
        ),
        (
            lambda: ONE.update(AT, np.zeros(2), estimation.Sensor(lambda q, v: q[:2], N)),
            TypeError,
            r"h: expected a function h\(q\) or h\(q, u, t\), got one with arguments \(q, v\)",
        ),
        (
            lambda: ONE.run(AT, [0.1], [[0.0] * 3], [[0.0] * 2], estimation.Sensor(acceleration, N)),
            TypeError,
            r"h: expected a function h\(q\) or h\(q, u, t\)",
        ),
        (
            lambda: FILTER.update(
                estimation.Estimate(np.zeros(2), np.eye(4), np.zeros(2)),
                np.zeros(2),
                estimation.Sensor(lambda q, u, t: q, N),
            ),
            TypeError,
            r"h: expected a function h\(q, v\) or h\(q, v, u, t\), got one with arguments \(q, u, t\)",
        ),
        (
            lambda: ONE.update(AT, np.zeros(2), estimation.Sensor(lambda q, u, t: u[:2], N)),
            TypeError,
            "u: without a velocity function it is the velocity itself",
        ),
        (
            lambda: ONE.update(AT, np.zeros(2), estimation.Sensor(lambda q, u, t: u[:2], N), u=np.zeros(2)),
            ValueError,
            "u",
        ),
        (
            lambda: ONE.update(AT, np.zeros(2), estimation.Sensor(lambda q, u, t: u, N), u=np.zeros(3)),
            ValueError,
            "N",
        ),
        (
            lambda: ONE.update(AT, np.zeros(2), estimation.Sensor(lambda q: q[:2], N), u=[np.nan, 0.0, 0.0]),
            ValueError,
            r"u\[0\] is nan",
        ),
    ],
)
def test_wrong_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_defaults_are_left_alone():
    """A function that can be called with the state alone is a function of the state."""
    seen = estimation.Sensor(lambda q, a=1.0, b=2.0: q[:2] + a + b, N)
    assert close(ONE.update(AT, np.ones(2), seen)[1].r, np.full(2, -2.0))
