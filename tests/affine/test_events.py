"""Events: one for each time a function comes to zero, also at steps' ends, in touches, and in short hops."""

import jax.numpy as jnp
import numpy as np
import pytest
from cases import always

import connections as cn
from connections import control
from connections import multibody as mb
from connections.affine.motions.bracketing import BracketSample, lowest_between, root_between, stays_above
from connections.checks import NonFiniteError

GRAVITY = 9.81
LINE = cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1))
BODY = cn.MechanicalSystem(LINE)
BALL = cn.MechanicalSystem(LINE, lambda q: GRAVITY * q[0])
SLOPE = 0.3  # sine of its angle
HALF_PLANE = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2))


def event(function, terminal=False, direction=0.0):
    def own(t, q, v):
        return function(t, q, v)

    own.terminal, own.direction = terminal, direction
    return own


def times_of(function, times=(0.0, 1.0), **more):
    """When q = 2 t comes to the zeros of a function, to an array."""
    return np.asarray(BODY.simulate([0.0], [2.0], times, events=function, **more).event_times[0])


# --- one event for each root

#: Functions of x with the only zero x = 0.
ROOTS = {
    "line": lambda x: x,
    "square": lambda x: x**2,
    "negative square": lambda x: -(x**2),
    "cube": lambda x: x**3,
    "fourth power": lambda x: x**4,
    "ninth power": lambda x: x**9,
    "kink": abs,
    "x |x|": lambda x: x * abs(x),
    "jump": lambda x: np.copysign(1.0, x),
    "tiny": lambda x: 1e-200 * x,
    "huge": lambda x: 1e200 * x**3,
}


@pytest.mark.parametrize("name", ROOTS)
def test_a_root_is_one_event(name):
    """Of any multiplicity, where a step ends (also at a breakpoint) and within it; it is counted once."""
    for clock, options in (
        ((0.0, 1.0), {}),
        ((0.0, 0.5, 1.0), {}),
        ((0.0, 1.0), {"breakpoints": [0.25, 0.5]}),
        ((0.0, 0.5), {}),
        ((0.1, 0.1 + 0.2, 0.5, 0.7), {}),
    ):
        root = event(lambda t, q, v: ROOTS[name](t - 0.5), terminal=2)
        found = times_of(root, clock, **options)
        np.testing.assert_allclose(found, [0.5], rtol=1e-7 if name == "fourth power" else 1e-8)
        place = event(lambda t, q, v, end=2.0 * (0.5 - clock[0]): ROOTS[name](q[0] - end), terminal=2)
        motion = BODY.simulate([0.0], [2.0], clock, events=place, **options)
        np.testing.assert_allclose(motion.event_times[0], [0.5], rtol=1e-7)
        assert np.isfinite(motion.q).all()  # it came once, and does not end


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_directions(sign):
    """Upwards is from below, in the order of the motion; a touch has the direction in which it is reached."""
    for function, up, down in (
        (lambda t: t - sign * 0.5, sign * 0.5, None),
        (lambda t: (t - sign * 0.5) ** 2, None, sign * 0.5),
        (lambda t: -((t - sign * 0.5) ** 2), sign * 0.5, None),
        (lambda t: -abs(t - sign * 0.5), sign * 0.5, None),
    ):
        if sign < 0.0 and up is not None and function(-1.0) * function(0.0) < 0.0:
            up, down = down, up  # the line falls on the way back
        for clock in ((0.0, sign), (0.0, sign * 0.5, sign)):
            for direction, expected in ((1.0, up), (-1.0, down), (3.0, up)):
                found = times_of(event(lambda t, q, v, f=function: f(t), direction=direction), clock)
                np.testing.assert_allclose(found, [] if expected is None else [expected], rtol=1e-7)


def test_what_stays_at_zero_came_once():
    """When it comes; leaving is no event, a start there is none, and coming again is one."""
    for clock in ((0.0, 1.0), (0.0, 0.4, 1.0), np.linspace(0.0, 1.0, 21)):
        assert len(times_of(lambda t, q, v: 0.0, clock)) == 0
        np.testing.assert_allclose(times_of(lambda t, q, v: max(0.4 - t, 0.0), clock), [0.4], rtol=1e-12)
        left = times_of(lambda t, q, v: max(0.4 - t, 0.0) + min(0.6 - t, 0.0), clock)
        np.testing.assert_allclose(left, [0.4], rtol=1e-12)
    again = times_of(lambda t, q, v: max(t - 0.5, 0.0) * (t - 0.77), np.linspace(0.0, 1.0, 21))
    np.testing.assert_allclose(again, [0.77], rtol=1e-12)
    resting = BALL.simulate(
        [0.0], [0.0], [0.0, 1.0], lambda t, q, v: np.array([GRAVITY]), events=lambda t, q, v: q[0]
    )
    assert len(resting.event_times[0]) == 0


RESTING = {
    "drag": (lambda t, q, v: -20.0 * v, lambda t, q, v: v[0], 1),
    "drag, where it ends": (lambda t, q, v: -20.0 * v, lambda t, q, v: q[0] - 0.05, 1),
    "terminal velocity": (lambda t, q, v: -9.81 - 2.0 * v * abs(v), lambda t, q, v: v[0] + np.sqrt(4.905), 1),
    "what is conserved": (lambda t, q, v: -q, lambda t, q, v: q[0] ** 2 + v[0] ** 2 - 1.0, 0),
}


@pytest.mark.parametrize("name", always(RESTING, "drag"))
def test_noise_of_what_has_come_to_rest_is_no_event(name):
    """A speed that errors within the tolerances turn hundreds of times comes to zero once."""
    forces, function, expected = RESTING[name]
    found = cn.MechanicalSystem(LINE, forces=forces).simulate([0.0], [1.0], [0.0, 10.0], events=function)
    assert len(found.event_times[0]) == expected


def test_what_is_larger_than_noise_is_an_event():
    """All passes of a damped body at q = 0, pi / w apart, until its amplitude is 1e-9 of the largest."""
    damped = cn.MechanicalSystem(LINE, lambda q: 0.5 * q[0] ** 2, lambda t, q, v: -0.5 * v)
    found = damped.simulate([0.0], [1.0], [0.0, 200.0], events=lambda t, q, v: q[0]).event_times[0]
    expected = np.pi / np.sqrt(1.0 - 0.0625) * np.arange(1, 23)
    np.testing.assert_allclose(found[:22], expected, rtol=1e-4)
    assert len(found) < 30


def test_two_crossings_in_one_step():
    """A throw passes a height up and down; none if it does not reach it, one where it just does."""
    v0 = 5.0
    top = v0**2 / (2.0 * GRAVITY)
    for below in (0.5, 1e-3, 1e-9):
        apart = np.sqrt(2.0 * below * top / GRAVITY)
        for direction, expected in ((0.0, [-apart, apart]), (1.0, [-apart]), (-1.0, [apart])):
            height = event(lambda t, q, v, h=top * (1.0 - below): q[0] - h, direction=direction)
            found = BALL.simulate([0.0], [v0], [0.0, 1.0], events=height).event_times[0]
            np.testing.assert_allclose(found, v0 / GRAVITY + np.array(expected), rtol=1e-6)
    for over in (1e-9, 0.1):
        missed = BALL.simulate([0.0], [v0], [0.0, 1.0], events=lambda t, q, v, h=top * (1.0 + over): q[0] - h)
        assert len(missed.event_times[0]) == 0
    touched = BALL.simulate([0.0], [v0], [0.0, 1.0], events=lambda t, q, v: q[0] - top)
    np.testing.assert_allclose(touched.event_times[0], [v0 / GRAVITY], rtol=1e-6)


@pytest.mark.parametrize("through_jax", [False, True])
def test_simultaneous_events_are_all_reported(through_jax):
    """In any order, and by two motions of a batch; what comes later than a terminal one is not."""
    number = jnp.float64 if through_jax else float
    ends = event(lambda t, q, v: number(q[0] - 1.0), terminal=True)
    beside = (
        event(lambda t, q, v: number((q[0] - 1.0) ** 3)),
        event(lambda t, q, v: number(t - 0.5 + 0.0 * q[0])),
    )
    later = event(lambda t, q, v: number(t - 0.5 - 1e-9))
    for order in ((ends, *beside, later), (*beside, later, ends)):
        for clock in ((0.0, 1.0), (0.0, 0.5, 1.0)):
            motion = BODY.simulate([0.0], [[2.0], [2.0]], clock, events=order)
            counts = [int(np.isfinite(times).sum()) for times in motion.event_times]
            assert counts == [0 if function is later else 2 for function in order]
            assert not np.isfinite(motion.q[:, -1]).any()


FALLS = {
    "below zero": (lambda q: np.exp(-100.0 * q) - 1e-20, [0.2 * np.log(10.0)]),
    "never": (lambda q: np.exp(-100.0 * q), []),
    "never, from small": (lambda q: np.exp(100.0 * (q - 1.0)), []),
    "a hill": (lambda q: np.exp(-(((q - 0.5) / 0.05) ** 2)), []),
    "a valley": (lambda q: np.exp(1000.0 * (q - 0.5) ** 2), []),
    "a valley, touched": (lambda q: np.exp(1000.0 * (q - 0.5) ** 2) - 1.0, [0.5]),
    "a valley, just above": (lambda q: (q - 0.5) ** 2 + 1e-20, []),
    "a valley, just below": (lambda q: (q - 0.5) ** 2 - 1e-20, [0.5 - 1e-10, 0.5 + 1e-10]),
    "a kink, just above": (lambda q: abs(q - 0.5) + 1e-12, []),
    "with a root": (lambda q: np.exp(-100.0 * q) * (q - 0.6), [0.6]),
    "steep": (lambda q: (q - 0.4) ** 21, [0.4]),
}


@pytest.mark.parametrize("name", FALLS)
def test_functions_that_fall_far(name):
    """By more than round-off in one step; only their own round-off, where they are, is like zero."""
    function, expected = FALLS[name]
    accuracy = 1e-8 if "touched" in name else 1e-12
    for sign in (1.0, -1.0):
        height = lambda t, q, v, sign=sign: sign * function(q[0])  # noqa: E731
        found = BODY.simulate([0.0], [1.0], [0.0, 1.0], events=height).event_times[0]
        np.testing.assert_allclose(found, expected, rtol=accuracy)
        back = BODY.simulate([1.0], [-1.0], [0.0, 1.0], events=height).event_times[0]
        np.testing.assert_allclose(1.0 - back[::-1], expected, rtol=accuracy)


#: Functions of (x, c) that touch zero at x = c, but for the round-off of their terms.
TOUCHES = {
    "expanded": lambda x, c: x * x - 2.0 * c * x + c * c,
    "cosine": lambda x, c: 1.0 - np.cos(3.0 * (x - c)),
    "cosine above": lambda x, c: 0.3 * np.cos(x - c) - 0.1 * 3.0,
}


@pytest.mark.parametrize("name", TOUCHES)
def test_a_touch_of_values_with_round_off(name):
    """Is one event, also of values that are a unit in the last place of their terms away from zero."""
    for c in np.linspace(0.15, 0.9, 12):
        for place in (lambda t, q, v, c=c: TOUCHES[name](t, c), lambda t, q, v, c=c: TOUCHES[name](q[0], c)):
            found = BODY.simulate([0.0], [1.0], [0.0, 1.0], events=place).event_times[0]
            np.testing.assert_allclose(found, [c], rtol=1e-6)


def expanded(root, multiplicity, *others):
    """(x - root)^multiplicity times (x - other), by Horner's rule: near the root it is round-off."""
    factors = np.polynomial.Polynomial.fromroots([root] * multiplicity + list(others)).coef.tolist()

    def value(t, q, v):
        total = 0.0
        for factor in reversed(factors):
            total = total * q[0] + factor
        return total

    return value


#: Roots of one sign on both sides, and how far from them a value is round-off.
EXPANDED = {
    "fourth power": (4, (), 3e-4),
    "fourth power, short steps": (4, (), 3e-4),
    "with a factor": (4, (-1.0,), 3e-4),
    "sixth power": (6, (), 1e-2),
    "eighth power": (8, (-2.0, 4.0), 3e-2),
}


@pytest.mark.parametrize("name", always(EXPANDED, "fourth power", "fourth power, short steps"))
def test_a_touch_whose_rate_is_lost_in_round_off(name):
    """It is one event, and SciPy has none; a little above there is none, and a little below there are two."""
    multiplicity, others, accuracy = EXPANDED[name]
    options = {"max_step": 0.05} if "short" in name else {}
    beside = (0.399, 1.299) if options else (0.3, 1.31)  # where steps end, or not
    for root in beside if multiplicity < 8 else (0.7,):
        function = expanded(root, multiplicity, *others)
        np.testing.assert_allclose(times_of(function, **options), [root / 2.0], atol=accuracy)
        for shift, expected in ((1e-10, 0), (-1e-10, 2)):
            sign = np.sign(function(0.0, [0.0], None))

            def moved(t, q, v, shift=sign * shift, function=function):
                return function(t, q, v) + shift

            assert len(times_of(moved, **options)) == expected


@pytest.mark.parametrize("name", ["square", *TOUCHES])
def test_what_comes_with_a_touch(name):
    """Is simultaneous with it, whose time is less certain; both orders, and each of them ends the motion."""
    touch = TOUCHES.get(name) or (lambda x, c: (x - c) ** 2)
    for c in (0.3, 0.5, 0.55, 0.8):
        for ends in (0, 1):
            touches = event(lambda t, q, v, c=c: touch(t, c), terminal=ends == 0)
            passes = event(lambda t, q, v, c=c: t - c, terminal=ends == 1)
            later = event(lambda t, q, v, c=c: t - c - 1e-5)
            for order in ((touches, passes, later), (later, passes, touches)):
                motion = BODY.simulate([0.0], [1.0], [0.0, 1.0], events=order)
                assert [len(times) for times in motion.event_times] == [int(e is not later) for e in order]


def test_the_top_of_a_throw():
    """The body touches its height where its speed is zero, which ends the motion."""
    top = lambda t, q, v: q[0] - 2.0**2 / (2.0 * GRAVITY)  # noqa: E731
    still = event(lambda t, q, v: v[0], terminal=True)
    motion = BALL.simulate([0.0], [2.0], [0.0, 1.0], events=[top, still])
    for times in motion.event_times:
        np.testing.assert_allclose(times, [2.0 / GRAVITY], rtol=1e-6)


# --- hops from a surface


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("v0", [5.0, 0.1, 1e-4, 1e-9])
def test_a_hop_ends_on_the_floor(v0, sign):
    """After 2 v / g, however short it is; a start on the floor to round-off is no event, also backwards."""
    for start in (0.0, 1e-17, -1e-17):
        for floor in (event(lambda t, q, v: q[0], terminal=True), event(lambda t, q, v: q[0] ** 3, True)):
            motion = BALL.simulate([start], [sign * v0], [0.0, sign * 2.0], events=floor)
            np.testing.assert_allclose(motion.event_times[0], [sign * 2.0 * v0 / GRAVITY], rtol=1e-8)
    gone = BALL.simulate([0.0], [-sign * v0], [0.0, sign * 2.0], events=lambda t, q, v: q[0])
    assert len(gone.event_times[0]) == 0  # control: it falls at once
    flat = cn.MechanicalSystem(LINE, lambda q: -GRAVITY * q[0])
    assert (
        len(flat.simulate([0.0], [sign * v0], [0.0, sign * 2.0], events=lambda t, q, v: q[0]).event_times[0])
        == 0
    )


def test_a_floor_somewhere_else():
    """At a height of one, whose round-off is larger than the hops of events at zero."""
    for start in (1.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0)):
        motion = BALL.simulate([start], [1e-3], [0.0, 2.0], events=event(lambda t, q, v: q[0] - 1.0, True))
        np.testing.assert_allclose(motion.event_times[0], [2e-3 / GRAVITY], rtol=1e-8)


def test_a_start_at_rest_that_comes_back():
    """q = x t^2 (1 - t) / 2: its rate is zero where it begins."""

    def push(t, q, v):
        return jnp.array([1.0 - 3.0 * t])

    for factor in (1.0, -1.0):
        motion = BODY.simulate([0.0], [0.0], [0.0, 2.0], push, events=lambda t, q, v, f=factor: f * q[0])
        np.testing.assert_allclose(motion.event_times[0], [1.0], rtol=1e-9)


# --- twenty-five bounces, on every kind of motion

BOUNCES, KEPT = 25, 0.8


def bounce(simulate, q, v, reflected, floor, whole):
    """The times between bounces (BOUNCES, ...); every flight begins where the one before it ended."""
    flights, ground = [], event(floor, terminal=True, direction=-1.0)
    for _ in range(BOUNCES):
        motion = simulate(q, v, [0.0, whole], events=ground)
        assert motion.event_times[0].shape[-1] == 1
        flights.append(np.asarray(motion.event_times[0])[..., 0])
        q, v = (np.asarray(part)[..., 0, :] for part in motion.event_states[0])
        v = reflected(v)
    return np.array(flights)


def skate_on_a_slope():
    """A blade that points up the slope, whose motion is that of a ball."""
    metric = cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([2.0, 2.0, 0.3]))
    along = lambda q: jnp.array([[jnp.cos(q[2]), 0.0], [jnp.sin(q[2]), 0.0], [0.0, 1.0]])  # noqa: E731
    forms = lambda q: jnp.stack([-jnp.sin(q[2]), jnp.cos(q[2]), 0.0 * q[2]])[None]  # noqa: E731
    blade = cn.ConstrainedConnection(metric, along, forms=forms)
    return cn.NonholonomicSystem(blade, potential=lambda q: 2.0 * GRAVITY * SLOPE * q[1])


def closed_loop():
    """A body that a law holds up against nothing: the force is the weight."""

    def weight(t, q, v, *more):
        return -GRAVITY * jnp.ones(1)

    reference = control.trajectory_reference(BODY.frame, lambda t: jnp.zeros(1) * t, gain=1.0)
    return control.ClosedLoop(BODY, control.FunctionLaw(BODY.frame, weight), reference)


def lift():
    """A robot whose joint slides upwards."""
    robot = mb.Mechanism()
    robot.add_body("load", mass=2.0, inertia=np.eye(3))
    robot.add_joint("slide", "world", "load", mb.Prismatic((0, 0, 1)))
    return robot.build(gravity=(0, 0, -GRAVITY)).system()


def vertical_throw(simulate, q, v, weight=GRAVITY, up=0):
    flights = bounce(simulate, q, v, lambda w: -KEPT * w, lambda t, q, w: q[up], 1.0)
    first = 2.0 * np.linalg.norm(v, axis=-1) / weight
    np.testing.assert_allclose(flights, np.multiply.outer(KEPT ** np.arange(BOUNCES), first), rtol=1e-12)


@pytest.mark.parametrize(
    "kind", ["chart", "batch", "backward", "geodesic", "robot", "robots", "nonholonomic", "closed loop"]
)
def test_bounces_of_a_ball(kind):
    """2 v / g and four fifths of the one before, until the 25th, which lasts 5 ms."""
    if kind == "chart":
        vertical_throw(BALL.simulate, [0.0], [3.0])
    elif kind == "batch":
        vertical_throw(BALL.simulate, np.zeros((3, 1)), np.array([[3.0], [1.0], [0.01]]))
    elif kind == "backward":

        def back(q, v, times, **options):
            motion = BALL.simulate(q, -np.asarray(v), -np.array(times), **options)
            (q, v), came = motion.event_states[0], -motion.event_times[0]
            return cn.Motion(motion.times, motion.q, motion.v, event_times=(came,), event_states=((q, -v),))

        vertical_throw(back, [0.0], [3.0])
    elif kind == "geodesic":
        nabla = cn.LeviCivita(LINE)
        falling = lambda t, q, v: jnp.array([-GRAVITY])  # noqa: E731
        vertical_throw(lambda *given, **options: cn.geodesic(nabla, *given, falling, **options), [0.0], [3.0])
    elif kind in ("robot", "robots"):
        v0 = [3.0] if kind == "robot" else [[3.0], [0.5]]
        vertical_throw(lift().simulate, np.zeros_like(v0), v0)
    elif kind == "nonholonomic":
        upwards = [0.3, 0.0, 0.5 * np.pi], [1.0, 0.0]
        vertical_throw(skate_on_a_slope().simulate, *upwards, weight=GRAVITY * SLOPE, up=1)
    else:
        vertical_throw(closed_loop().simulate, [0.0], [3.0])


def test_bounces_of_geodesics():
    """Of the half plane, on a floor at height 1, at an angle a to it: each is 2 arsinh(tan a) long."""
    angles = np.array([1.2, 0.3, 0.01])
    v0 = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    mirror = np.array([1.0, -1.0])
    q0 = np.broadcast_to([0.0, 1.0], (3, 2))
    flights = bounce(
        lambda *given, **options: cn.geodesic(HALF_PLANE, *given, **options),
        q0,
        v0,
        lambda v: v * mirror,
        lambda t, q, v: q[1] - 1.0,
        20.0,
    )
    np.testing.assert_allclose(
        flights, np.broadcast_to(2.0 * np.arcsinh(np.tan(angles)), flights.shape), rtol=1e-8
    )


def test_bounces_of_a_mechanism_with_a_loop():
    """Of a four-bar, on its first angle: it comes back as fast as it went, and takes as long again."""
    model = mb.example("four_bar")
    system, q0 = model.system(), np.asarray(model.neutral())
    falls = -1.0 if float(system.forward_dynamics(q0, np.zeros(1), np.zeros(1))[0]) > 0.0 else 1.0
    v0 = np.array([falls * 1e-3])
    ground = event(lambda t, q, v: falls * (q[0] - q0[0]), terminal=True, direction=-1.0)
    q, v, flights = q0, v0, []
    for _ in range(5):
        motion = system.simulate(q, v, [0.0, 3.0], events=ground)
        flights.append(float(motion.event_times[0][0]))
        q, v = (part[0] for part in motion.event_states[0])
        np.testing.assert_allclose(v, -v0, rtol=1e-9)
        v = -v
    np.testing.assert_allclose(flights, flights[0], rtol=1e-9)
    assert flights[0] < 0.3  # within the first step


# --- values that are no numbers, attributes, shapes


def test_values_that_are_not_finite():
    """At a state of the motion they are refused by name; where only a rate is looked for, they are not."""
    for bad in (np.nan, np.inf):
        for broken in (lambda t, q, v, bad=bad: bad if t > 0.4 else 1.0, lambda t, q, v, bad=bad: bad):
            with pytest.raises(NonFiniteError, match=r"events\[1\]"):
                BODY.simulate([0.0], [2.0], [0.0, 1.0], events=[lambda t, q, v: 1.0, broken])
    ends = event(lambda t, q, v: np.sqrt(1.0 - t) if t <= 1.0 else np.nan)
    np.testing.assert_array_equal(times_of(ends), [1.0])
    begins = event(lambda t, q, v: t * (t - 0.6) if t == 0.0 or t > 1e-6 else np.nan)
    np.testing.assert_allclose(times_of(begins), [0.6])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_after_the_end(bad):
    """Of a motion is not asked for, within the same step; what comes before is found."""
    lands = event(lambda t, q, v: q[0], terminal=True)
    half = lambda t, q, v: np.sqrt(q[0]) - 0.5 if q[0] >= 0.0 else bad  # noqa: E731
    fall, quarter = np.sqrt(2.0 / GRAVITY), np.sqrt(1.5 / GRAVITY)
    for order in ([lands, half], [half, lands]):
        for batch in ((), (2,)):
            motion = BALL.simulate(np.ones((*batch, 1)), [0.0], [0.0, 1.0], events=order)
            for function, times in zip(order, motion.event_times, strict=True):
                expected = fall if function is lands else quarter
                np.testing.assert_allclose(times, np.full((*batch, 1), expected), rtol=1e-12)
    itself = BALL.simulate([1.0], [0.0], [0.0, 1.0], events=event(half, terminal=True))
    np.testing.assert_allclose(itself.event_times[0], [quarter], rtol=1e-12)
    hole = lambda t, q, v: (q[0] - 0.5) ** 2 if not -0.9 < q[0] < -0.1 else bad  # noqa: E731
    found = BALL.simulate([1.0], [0.0], [0.0, 0.7], events=[hole, lands]).event_times
    np.testing.assert_allclose(found, [[np.sqrt(1.0 / GRAVITY)], [fall]], rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_before_the_end(bad):
    """Is refused, at the time from which the function is not finite, and also without an end."""
    lands = event(lambda t, q, v: q[0], terminal=True)
    broken = event(lambda t, q, v: q[0] + 1.0 if q[0] > 1e-4 else bad, terminal=True)
    when = np.sqrt(2.0 * (1.0 - 1e-4) / GRAVITY)  # in the step in which it lands
    for order in ([lands, broken], [broken, lands], [broken]):
        name = rf"events\[{order.index(broken)}\]\(t, q, v\) is {bad} at t = {when:.6g}"
        with pytest.raises(NonFiniteError, match=name):
            BALL.simulate([1.0], [0.0], [0.0, 1.0], events=order)


@pytest.mark.parametrize(
    "attribute, value, error",
    [
        ("terminal", -1, ValueError),
        ("terminal", 1.5, ValueError),
        ("terminal", np.nan, ValueError),
        ("terminal", "no", TypeError),
        ("terminal", [1], ValueError),
        ("direction", np.nan, ValueError),
        ("direction", np.inf, ValueError),
        ("direction", "no", TypeError),
        ("direction", 1j, TypeError),
        ("direction", [1.0], ValueError),
    ],
)
def test_attributes_that_cannot_be_used(attribute, value, error):
    wrong = event(lambda t, q, v: q[0] - 1.0)
    setattr(wrong, attribute, value)
    for simulate in (BODY.simulate, lambda *given, **more: cn.geodesic(cn.LeviCivita(LINE), *given, **more)):
        with pytest.raises(error, match=rf"events\[1\]\.{attribute}"):
            simulate([0.0], [2.0], [0.0, 1.0], events=[lambda t, q, v: 1.0, wrong])


@pytest.mark.parametrize(
    "terminal, count",
    [(None, 3), (False, 3), (0, 3), (True, 1), (np.bool_(True), 1), (np.int64(2), 2), (2.0, 2)],
)
def test_attributes_as_scipy_has_them(terminal, count):
    wave = event(lambda t, q, v: np.cos(3.0 * np.pi * t), terminal=terminal, direction=None)
    found = times_of(wave, np.linspace(0.0, 1.0, 8))
    np.testing.assert_allclose(found, (np.arange(count) + 0.5) / 3.0, rtol=1e-12)


def test_no_events_in_a_list():
    """The results are as many as the functions: none. Without the argument there are no results."""
    for batch in ((), (2,), (0,)):
        for nothing in ([], ()):
            motion = BODY.simulate(np.zeros((*batch, 1)), [1.0], [0.0, 1.0], events=nothing)
            assert motion.event_times == motion.event_states == ()
        assert BODY.simulate(np.zeros((*batch, 1)), [1.0], [0.0, 1.0]).event_times is None
    for wrong in ((f for f in (abs,)), {abs}, {"a": abs}, np.zeros(2), "floor"):
        with pytest.raises(TypeError, match="events: .*list or tuple"):
            BODY.simulate([0.0], [1.0], [0.0, 1.0], events=wrong)


def test_shapes_of_what_did_not_come():
    """As if it had come: K is zero, the other axes are those of q and v."""
    never = [lambda t, q, v: 1.0, event(lambda t, q, v: q[0] - 9.0, terminal=True)]
    plane = cn.MechanicalSystem(cn.ConstantMetric(cn.SO3Frame(), np.eye(3)))
    q0, v0 = np.array([0.0, 0.0, 0.0, 1.0]), np.ones(3)
    for batch in ((), (2,), (2, 3), (0,), (3, 0)):
        for clock in ([0.0, 1.0], [0.0]):
            motion = plane.simulate(np.broadcast_to(q0, (*batch, 4)), v0, clock, events=never)
            assert [times.shape for times in motion.event_times] == [(*batch, 0)] * 2
            shapes = [tuple(part.shape for part in pair) for pair in motion.event_states]
            assert shapes == [((*batch, 0, 4), (*batch, 0, 3))] * 2


# --- the searches


def counted(function):
    def own(x, *more):
        own.calls += 1
        return function(x, *more)

    own.calls = 0
    return own


@pytest.mark.parametrize("root", [1e-12, 0.3, 0.999])
@pytest.mark.parametrize("name", ["line", "cube", "ninth power", "x |x|", "jump", "tiny", "huge"])
def test_a_root_is_bracketed(name, root):
    """To the last digits, in not many more evaluations than those of bisection, whatever the function."""
    function = counted(lambda x: float(ROOTS[name](x - root)))
    found = root_between(function, (0.0, 1.0), (function(0.0), function(1.0)), lambda x: 1e-15 * x)
    assert abs(found - root) <= 2e-15 * root
    assert function.calls < 140


def test_tangents_that_meet_above_zero():
    """x^2 + c: its tangents at -1/2 and 1 meet at c - 1/2; where that is too low, the minimum is sought."""

    for gap, above, low in ((1.3, True, None), (0.2, False, None), (0.0, False, 0.0), (-0.01, False, -0.01)):

        def sample(x, back=1e-9, gap=gap):
            return BracketSample(x, x**2 + gap, 2.0 * x)

        a, b = sample(-0.5), sample(1.0)
        assert stays_above(a, b) == above
        found = lowest_between(sample, a, b, lambda x: 1e-15, 1e-8, lambda x: 1e-16, lambda x, change: False)
        assert (found is None) == (low is None)
        assert found is None or low - 1e-15 <= found.value <= 1e-15
