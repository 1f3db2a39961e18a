"""Events, failures that keep the motion until then, estimates, and the drift of what is conserved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from scipy.integrate import solve_ivp
from scipy.special import ellipk

import connections as cn
from connections import multibody as mb
from connections.checks import IntegrationError, NonFiniteError, ShapeError

PLANE = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2)))
HALF_PLANE = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2))
EDGE = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.diag(1 / q)))  # ends at q = 0
PENDULUM = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1)), lambda q: -jnp.cos(q[0]))


def event(function, terminal=False, direction=0):
    def own(t, q, v):
        return function(t, q, v)

    own.terminal, own.direction = terminal, direction
    return own


def leaves_the_disc(t, q, v):
    return q @ q - 1.0


def test_an_event_ends_a_motion():
    """A straight line leaves the unit disc after the time 1 / |v|; from there on it is NaN."""
    v0, times = np.array([0.6, -0.3]), np.linspace(0.0, 3.0, 7)
    out = event(leaves_the_disc, terminal=True)
    motion = cn.geodesic(PLANE, np.zeros(2), v0, times, events=out)
    end = 1.0 / np.linalg.norm(v0)
    np.testing.assert_allclose(motion.event_times[0], [end], rtol=1e-12)
    np.testing.assert_allclose(motion.event_states[0][0], [v0 * end], rtol=1e-12)
    np.testing.assert_allclose(motion.event_states[0][1], [v0], rtol=1e-12)
    inside = times < end
    np.testing.assert_allclose(motion.q[inside], times[inside, None] * v0, atol=1e-12)
    assert np.isnan(motion.q[~inside]).all() and np.isnan(motion.v[~inside]).all()
    assert "nan" not in repr(motion)
    whole = cn.geodesic(PLANE, np.zeros(2), v0, times, events=event(leaves_the_disc))
    np.testing.assert_allclose(whole.q, times[:, None] * v0, atol=1e-12)
    np.testing.assert_allclose(whole.event_times[0], [end], rtol=1e-12)


@pytest.mark.parametrize("direction", [-1, 0, 1])
@pytest.mark.parametrize("terminal", [False, True, 2])
def test_events_are_those_of_scipy(direction, terminal):
    """Of a pendulum: times and states at which it hangs and at which it turns, forwards and backwards."""

    def rates(t, y):
        return [y[1], -np.sin(y[0])]

    for end in (12.0, -12.0):
        own = [
            event(lambda t, q, v: q[0], terminal, direction),
            event(lambda t, q, v: v[0], False, direction),
        ]
        two = [lambda t, y, e=e: e(t, y[:1], y[1:]) for e in own]
        for function, each in zip(two, own, strict=True):
            function.terminal, function.direction = each.terminal, each.direction
        expected = solve_ivp(rates, (0.0, end), [0.4, 1.1], "DOP853", events=two, rtol=1e-13, atol=1e-14)
        found = PENDULUM.simulate([0.4], [1.1], [0.0, end], events=own)
        for k in range(2):
            np.testing.assert_allclose(found.event_times[k], expected.t_events[k], atol=1e-8)
            states = np.hstack(found.event_states[k]).reshape(-1, 2)
            np.testing.assert_allclose(states, expected.y_events[k].reshape(-1, 2), atol=1e-8)
        assert sum(map(len, found.event_times)) > 0


def test_each_motion_of_a_batch_ends_by_itself():
    """One leaves early, one late, one not at all; a second event is seen by all."""
    speeds = np.array([[2.0, 0.0], [0.5, 0.0], [0.1, 0.0]])
    events = [event(leaves_the_disc, terminal=True), event(lambda t, q, v: q[0] - 0.2)]
    motion = cn.geodesic(PLANE, np.zeros(2), speeds, [0.0, 1.0, 2.5], events=events)
    np.testing.assert_allclose(motion.event_times[0], [[0.5], [2.0], [np.nan]], rtol=1e-12)
    np.testing.assert_allclose(motion.event_times[1], [[0.1], [0.4], [2.0]], rtol=1e-12)
    assert np.isnan(motion.q[0, 1:]).all() and np.isnan(motion.q[1, 2]).all()
    np.testing.assert_allclose(motion.q[2, :, 0], [0.0, 0.1, 0.25], atol=1e-12)
    one = motion.member(1)
    np.testing.assert_allclose(one.event_times[0], [2.0])
    np.testing.assert_allclose(one.event_states[0][0], [[1.0, 0.0]])


def test_an_event_at_a_requested_time():
    """The motion is there at that time, and NaN after it; alone and in a batch."""
    out = event(lambda t, q, v: t - 1.0, terminal=True)
    for shape in ((), (3,)):
        motion = cn.geodesic(PLANE, np.zeros((*shape, 2)), np.ones(2), [0.0, 0.5, 1.0, 2.0], events=out)
        np.testing.assert_allclose(motion.q[..., :3, 0], np.broadcast_to([0.0, 0.5, 1.0], (*shape, 3)))
        assert np.isnan(motion.q[..., 3, :]).all()


def test_events_of_a_robot():
    """By its recursions: the time at which a joint passes an angle, beside the motion at that time."""
    arm = mb.example("arm")
    q, v = arm.random(0), np.ones(arm.nv)
    middle = cn.geodesic(arm.connection, q, v, [0.0, 0.37, 1.0]).q[1]
    passes = event(lambda t, p, w: p[0] - middle[0], direction=1)
    for system in (arm.connection, None):
        if system is None:
            middle = arm.system().simulate(q, v, [0.0, 0.37, 1.0]).q[1]
            found = arm.system().simulate(q, v, [0.0, 1.0], events=passes)
        else:
            found = cn.geodesic(system, q, v, [0.0, 1.0], events=passes)
        nearest = np.min(np.abs(found.event_times[0] - 0.37))
        assert nearest < 1e-8


def test_wrong_events():
    for events, error, match in (
        (lambda t, q, v: q, ShapeError, r"events\[0\]"),
        ([lambda t, q, v: 1.0, lambda t, q, v: np.nan], NonFiniteError, r"events\[1\]"),
        (3.0, TypeError, "events"),
        (lambda t, q: 1.0, TypeError, "events"),
    ):
        with pytest.raises(error, match=match):
            cn.geodesic(PLANE, np.zeros(2), np.ones(2), [0.0, 1.0], events=events)
    with pytest.raises(ValueError, match="events"):
        jax.jit(lambda q: cn.geodesic(PLANE, q, np.ones(2), [0.0, 1.0], events=leaves_the_disc).q)(
            jnp.zeros(2)
        )
    with pytest.raises(TypeError, match="events"):
        cn.holonomy(PLANE, lambda t: jnp.zeros(2) * t, 0.0, 1.0, events=leaves_the_disc)


def test_options_as_people_write_them():
    """None is the default, a number is one breakpoint; endless steps and events of a point are refused."""
    plain = cn.geodesic(PLANE, np.zeros(2), np.ones(2), [0.0, 1.0])
    for options in ({"max_steps": None}, {"max_step": None}, {"rtol": None}, {"breakpoints": 0.5}):
        motion = cn.geodesic(PLANE, np.zeros(2), np.ones(2), [0.0, 1.0], **options)
        np.testing.assert_allclose(motion.q, plain.q, atol=1e-14)
    with pytest.raises(NonFiniteError, match="max_steps"):
        cn.geodesic(PLANE, np.zeros(2), np.ones(2), [0.0, 1.0], max_steps=np.inf)
    for options in ({"events": leaves_the_disc}, {"estimate": True}):
        with pytest.raises(TypeError, match="exponential: there is no option"):
            cn.exponential(PLANE, np.zeros(2), np.ones(2), **options)


def test_breakpoints_inside_jit():
    """One of them at a requested time, on a clock far from zero: a force that jumps, as outside of `jit`."""

    def thrust(t, q, v):
        return jnp.where((t > 100.3) & (t < 100.7), 1.0, 0.0) * jnp.ones(1)

    def motion(q0):
        times, breakpoints = np.array([100.0, 100.3, 101.0]), [100.3, 100.7]
        return PENDULUM.simulate(q0, np.zeros(1), times, thrust, breakpoints=breakpoints).v

    q0 = np.array([0.4])
    np.testing.assert_allclose(jax.jit(motion)(q0), motion(q0), rtol=1e-9)
    samples = np.linspace(100.0, 101.0, 9), np.stack([np.sin(np.arange(9.0)), np.full(9, 1.3)], 1)
    ends = np.array([100.0, 100.5, 101.0])
    carried = cn.parallel_transport(HALF_PLANE, samples, np.ones(2), ends)
    inside = jax.jit(lambda z: cn.parallel_transport(HALF_PLANE, samples, z, ends))(np.ones(2))
    np.testing.assert_allclose(inside, carried, atol=1e-9)


# --- failures ----------------------------------------------------------------------------------------------


def test_an_error_has_the_motion_until_then():
    """q = (1 - t)^2 / 2 reaches the edge of the chart at t = 1."""
    times = np.array([0.0, 0.3, 0.9, 1.5, 2.0])
    with pytest.raises(IntegrationError, match="t = 1") as caught:
        cn.geodesic(EDGE, [0.5, 0.5], [-1.0, 0.0], times)
    motion = caught.value.motion
    np.testing.assert_array_equal(motion.times, times[:3])
    np.testing.assert_allclose(motion.q[:, 0], 0.5 * (1.0 - times[:3]) ** 2, rtol=1e-8)
    assert caught.value.failed == ((),)


@pytest.mark.further
def test_a_batch_with_a_failure():
    """Indices of those that fail; the others are there, in the error and with `allow_partial`."""
    q0 = np.full((2, 2, 2), 0.5)
    v0 = np.array([[[1.0, 1.0], [-1.0, 0.0]], [[0.5, 0.0], [-0.9, 0.1]]])
    times = np.array([0.0, 0.3, 3.0])
    with pytest.raises(IntegrationError, match=r"\[0, 1\] of the batch") as caught:
        cn.geodesic(EDGE, q0, v0, times)
    assert caught.value.failed == ((0, 1), (1, 1))
    partial = cn.geodesic(EDGE, q0, v0, times, allow_partial=True)
    for motion in (caught.value.motion, partial):
        assert np.isnan(motion.q[:, 1, 2]).all() and np.isfinite(motion.q[:, :, :2]).all()
        for row in range(2):
            alone = cn.geodesic(EDGE, q0[row, 0], v0[row, 0], times)
            np.testing.assert_allclose(motion.q[row, 0], alone.q, rtol=1e-12)
    with pytest.raises(cn.checks.MetricError):  # it does not even begin
        cn.geodesic(EDGE, [-0.5, 0.5], [1.0, 0.0], times, allow_partial=True)


def test_too_many_steps_keep_the_motion():
    times = np.linspace(0.0, 50.0, 51)
    with pytest.raises(IntegrationError, match="more than 30 steps") as caught:
        PENDULUM.simulate([0.4], [1.1], times, max_steps=30)
    kept = caught.value.motion
    assert 0 < len(kept.times) < len(times)
    np.testing.assert_allclose(
        kept.q, PENDULUM.simulate([0.4], [1.1], times).q[: len(kept.times)], atol=1e-12
    )


# --- estimates and drifts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rtol", always([1e-4, 1e-7, None], 1e-7, None))
def test_an_estimate_is_about_the_error(rtol):
    """On the half plane, whose geodesics are known: the difference to a more accurate one is the error."""
    options = {} if rtol is None else {"rtol": rtol, "atol": rtol}
    times = np.linspace(0.0, 3.0, 7)
    motion = cn.geodesic(HALF_PLANE, [0.0, 1.0], [1.0, 0.0], times, estimate=True, **options)
    error = np.abs(motion.q - np.stack([np.tanh(times), 1.0 / np.cosh(times)], 1))
    np.testing.assert_allclose(motion.estimate[0], error, atol=0.3 * error.max() + 1e-14)
    plain = cn.geodesic(HALF_PLANE, [0.0, 1.0], [1.0, 0.0], times, **options)
    np.testing.assert_array_equal(motion.q, plain.q)
    assert plain.estimate is None
    with pytest.raises(TypeError, match="estimate"):
        PENDULUM.simulate([0.4], [1.1], times, estimate=True)


def test_an_estimate_of_transport():
    """Around a circle of latitude of the sphere, P turns by 2 pi cos(theta): the difference is the error."""
    sphere = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2])))
    nabla, theta = cn.LeviCivita(sphere), 0.7
    curve, ends = lambda t: jnp.array([theta, t]), np.array([0.0, 2.0 * np.pi])
    turn, s = 2.0 * np.pi * np.cos(theta), np.sin(theta)
    exact = np.array([[np.cos(turn), s * np.sin(turn)], [-np.sin(turn) / s, np.cos(turn)]])
    loose = {"rtol": 1e-4, "atol": 1e-4, "max_step": 10.0}  # otherwise steps are a 32nd of the interval
    found = cn.parallel_transport(nabla, curve, np.eye(2), ends, estimate=True, **loose)
    error = np.abs(found.value[:, 1].T - exact)
    assert 1e-9 < error.max()
    np.testing.assert_allclose(found.error[:, 1].T, error, atol=0.2 * error.max())

    def wave(t):
        return jnp.array([theta + 0.1 * jnp.sin(t), 0.3 * jnp.cos(t)])

    around = cn.holonomy(nabla, wave, *ends, estimate=True, **loose)
    np.testing.assert_array_equal(around.value, cn.holonomy(nabla, wave, *ends, **loose))
    closer = cn.holonomy(nabla, wave, *ends)
    np.testing.assert_allclose(around.error, np.abs(around.value - closer), atol=0.2 * around.error.max())


@pytest.mark.further
def test_the_drift_of_what_is_conserved(rng):
    """Of geodesics, of the energy, of robots; none where nothing is conserved."""
    times = np.linspace(0.0, 5.0, 6)
    energy = PENDULUM.simulate([0.4], [1.1], times, rtol=1e-7, atol=1e-7)
    E = 0.5 * energy.v[:, 0] ** 2 - np.cos(energy.q[:, 0])
    K = np.maximum.accumulate(0.5 * energy.v[:, 0] ** 2)
    assert 1e-12 < energy.drift.max() < 1e-4
    np.testing.assert_allclose(energy.drift, np.abs(E - E[0]) / K, rtol=0.3, atol=1e-13)
    arm = mb.example("arm")
    for nabla, q, v in (
        (HALF_PLANE, np.array([0.0, 1.0]), np.array([1.0, 0.3])),
        (cn.ContorsionFamily(HALF_PLANE.metric).connection(np.zeros(0)), np.array([0.0, 1.0]), np.ones(2)),
        (arm.connection, arm.random(rng), np.ones(arm.nv)),
    ):
        motion = cn.geodesic(nabla, q, v, times)
        assert motion.drift.shape == (6,) and motion.drift[0] == 0.0 and motion.drift.max() < 1e-8
        assert cn.geodesic(nabla, q, v, times, lambda t, q, v: -v).drift is None
    lossy = cn.ContorsionConnection(PLANE.metric, lambda q: 0.1 * jnp.ones((2, 2, 2)))
    found = cn.geodesic(lossy, np.zeros(2), np.ones(2), [0.0, 1.0])
    assert found.drift is None and abs(found.v[1] @ found.v[1] - 2.0) > 0.1


@pytest.mark.parametrize("angle", always([0.05, 1.0, 2.5], 0.05, 2.5))
@pytest.mark.parametrize("turns", always([0.5, 1.0, 3.0], 0.5))
def test_a_motion_from_rest_to_rest(angle, turns):
    """Half periods of a pendulum: at both times its kinetic energy, the scale of drifts, is zero."""
    end = turns * 4.0 * ellipk(np.sin(0.5 * angle) ** 2)
    alone = PENDULUM.simulate([angle], [0.0], [0.0, end])
    batch = PENDULUM.simulate([[angle], [0.0]], [0.0], [0.0, end]).member(0)
    traced = jax.jit(lambda q: PENDULUM.simulate(q, [0.0], [0.0, end]))(np.array([angle]))
    for motion in (alone, batch, traced):
        np.testing.assert_allclose(motion.q[-1], [np.cos(2.0 * np.pi * turns) * angle], rtol=1e-8)
        assert motion.drift[-1] < 1e-8


def test_a_drift_is_refused():
    """An energy whose potential is not the integral of the forces, by a little: the check says so."""

    def potential(q, gap):
        return -jnp.cos(q[0]) + jax.lax.stop_gradient(gap * jnp.cos(q[0]))

    for gap, kept in ((0.0, True), (1e-5, False)):
        system = cn.MechanicalSystem(PENDULUM.metric, cn.ParametricFunction(potential, gap))
        q = jax.jit(lambda q, of=system: of.simulate(q, [1.1], [0.0, 1.0]).q)(jnp.array([0.4]))
        assert np.isfinite(q[0]).all() and np.isfinite(q[1]).all() == kept
        if kept:
            np.testing.assert_allclose(system.simulate([0.4], [1.1], [0.0, 1.0]).q, q, rtol=1e-9)
        else:
            with pytest.raises(IntegrationError, match="the energy is conserved, and has changed from"):
                system.simulate([0.4], [1.1], [0.0, 1.0])
