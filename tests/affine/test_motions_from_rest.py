"""Motions from exact rest under a force that acts in a window of 2 to 20 % of the interval.

For a constant mass, position and speed are the pulse's integrals, in closed form (`windows.PULSES`); for a
cart with a pendulum, without gravity, and a robot, SciPy's DOP853 integrates from the begin of the window to
its end, and from there. Claims: right to 1e-8 of the largest value, with `max_step` and without it, for
smooth pulses, and to 1e-7 for kinks and jumps, where estimates of errors have no order; so for any number of
requested times; the same digits in other units of time and length; in batches of which some rest and some
move; inside `jit`.
Source of the cart: R. Tedrake, Underactuated Robotics, section 3.2.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further
from scipy.integrate import solve_ivp
from windows import PULSES, pulse, pushed, random_windows

import connections as cn
from connections import multibody as mb

WHOLE = 10.0
LINE = cn.CoordinateFrame(1)
UNIT = cn.ConstantMetric(LINE, np.eye(1))
FREE = cn.LeviCivita(UNIT)
REST = np.zeros(1)
TIMES = np.array([0.0, WHOLE])


DIGITS = {"sin^4": 1e-8, "jumps": 1e-7, "tent": 1e-7}


def close(found, expected, tol=1e-8):
    """To `tol` of the largest value."""
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tol * np.abs(expected).max())


@cache
def force_of(name):
    """(t, q, v, (window, strength)) -> force on the first coordinate; one function for all windows."""

    def force(t, q, v, given):
        window, strength = given
        return strength * pulse(name, t, window) * jnp.eye(v.shape[-1])[0]

    return force


def force(name, window, strength=1.0):
    return cn.ParametricFunction(force_of(name), (jnp.asarray(window), strength))


def simulated(name, window, times, strength=1.0, **options):
    return cn.MechanicalSystem(UNIT, forces=force(name, window, strength)).simulate(
        REST, REST, times, **options
    )


def accelerated(name, window, times, strength=1.0, **options):
    return cn.geodesic(FREE, REST, REST, times, force(name, window, strength), **options)


BOTH = {"simulate": simulated, "geodesic": accelerated}

# --- one degree of freedom: closed forms -------------------------------------------------------------------


@pytest.mark.parametrize("name", PULSES)
def test_closed_forms(name):
    """The pulses' integrals, by the trapezoidal rule."""
    window = (4.0, 1.5)
    t = np.linspace(0.0, WHOLE, 20_001)
    h = t[1] - t[0]
    found = np.asarray(jax.vmap(lambda t: pulse(name, t, window))(t))
    speed = h * np.cumsum(np.append(0.0, 0.5 * (found[1:] + found[:-1])))
    position = h * np.cumsum(np.append(0.0, 0.5 * (speed[1:] + speed[:-1])))
    for one, other in zip((position, speed), pushed(name, t, window), strict=True):
        np.testing.assert_allclose(one, other, atol=4e-3 if name == "jumps" else 1e-6)
    assert speed[-1] > 0.1


@pytest.mark.parametrize("max_step", [None, 0.1])
@pytest.mark.parametrize("name", PULSES)
@pytest.mark.parametrize(
    ("motion", "count"), [("simulate", 5), further("simulate", 60), further("geodesic", 60)]
)
def test_random_windows(motion, count, name, max_step, rng):
    for window in random_windows(rng, count, WHOLE):
        q, v = BOTH[motion](name, window, TIMES, max_step=max_step)
        position, speed = pushed(name, TIMES, window)
        close(q[:, 0], position, DIGITS[name])
        close(v[:, 0], speed, DIGITS[name])


@pytest.mark.parametrize("max_step", [None, 0.1])
@pytest.mark.parametrize("motion", BOTH)
def test_published_windows(motion, max_step):
    """A force from 4 s to 6 s, and sin^4 from 3.4 s to 5.9 s, of 10 s."""
    for name, window in (("jumps", (4.0, 2.0)), ("sin^4", (4.0, 2.0)), ("sin^4", (3.4, 2.5))):
        q, v = BOTH[motion](name, window, TIMES, max_step=max_step)
        close([q[-1, 0], v[-1, 0]], np.array(pushed(name, TIMES, window))[:, -1], DIGITS[name])


def clocks(rng):
    """Two times, a few, many, uneven ones; all have the first, the middle and the last."""
    uneven = np.unique([0.0, 0.5 * WHOLE, WHOLE, *rng.uniform(0.0, WHOLE, 9)])
    return [
        np.array([0.0, 0.5 * WHOLE, WHOLE]),
        np.linspace(0.0, WHOLE, 7),
        uneven,
        np.linspace(0.0, WHOLE, 201),
    ]


@pytest.mark.parametrize(("name", "count"), [("sin^4", 5), *(further(name, 30) for name in PULSES)])
def test_the_number_of_requested_times(name, count, rng):
    """At all of them; also for times in the window, and after it alone."""
    for window in random_windows(rng, count, WHOLE):
        inside = window[0] + window[1] * np.array([0.2, 0.5, 1.0])
        for times in (*clocks(rng), np.append(0.0, inside)):
            q, v = simulated(name, window, times)
            for found, expected in zip((q, v), pushed(name, times, window), strict=True):
                scale = max(np.abs(expected).max(), 1e-30)  # nothing yet
                np.testing.assert_allclose(found[:, 0], expected, rtol=0.0, atol=DIGITS[name] * scale)


@pytest.mark.parametrize("name", PULSES)
def test_backwards(name):
    """Rest at the end of time: from 10 s to 0 s, over the window."""
    window = (4.0, 0.7)
    q, v = simulated(name, window, TIMES[::-1])
    mirrored = pushed(name, TIMES, (WHOLE - window[0] - window[1], window[1]))
    close(q[:, 0], mirrored[0], DIGITS[name])
    close(-v[:, 0], mirrored[1], DIGITS[name])


@pytest.mark.parametrize("length", [1.0, 1e-9, 1e3])
@pytest.mark.parametrize("second", [1.0, 1e3, further(1.0 / 3600.0)])
@pytest.mark.parametrize("name", always(PULSES, "sin^4"))
def test_other_units(name, second, length):
    """Milliseconds and hours, nanometres and kilometres: the same digits."""
    window, times = np.array([6.2, 0.45]), np.array([0.0, 6.4, 7.0, WHOLE])
    q, v = simulated(name, second * window, second * times, strength=length / second**2)
    position, speed = pushed(name, times, window)
    close(q[:, 0] / length, position, DIGITS[name])
    close(v[:, 0] * second / length, speed, DIGITS[name])
    for found, here in zip((q / length, v * second / length), simulated(name, window, times), strict=True):
        close(found, here, 1e-10 if name == "sin^4" else DIGITS[name])


@pytest.mark.further
def test_in_a_batch():
    """Two rest, one moves slowly, one fast, one the other way."""
    window, times = np.array([7.77, 0.31]), np.array([0.0, 3.0, WHOLE])
    speeds = np.array([0.0, 1e-9, 0.0, 1e3, -1.0])[:, None]
    for name in PULSES:
        system = cn.MechanicalSystem(UNIT, forces=force(name, window))
        q, v = system.simulate(REST, speeds, times)
        position, speed = pushed(name, times, window)
        for row, own in enumerate(speeds[:, 0]):
            close(q[row, :, 0], own * times + position, DIGITS[name])
            close(v[row, :, 0], own + speed, DIGITS[name])


@pytest.mark.parametrize("name", always(PULSES, "sin^4", "jumps"))
def test_inside_jit(name, rng):
    """By window and by speed, under `vmap`; with three clocks."""
    windows = random_windows(rng, 4, WHOLE)
    speeds = np.array([0.0, 0.0, 1.0, 0.0])
    times = np.stack([np.append(0.0, np.sort(rng.uniform(0.0, WHOLE, 3))) for _ in windows])
    times[:, 3], times[0, 1] = WHOLE, 1e-3

    @jax.jit
    @jax.vmap
    def motion(window, speed, times):
        system = cn.MechanicalSystem(UNIT, forces=force(name, window))
        q, v = system.simulate(jnp.zeros(1), speed[None], times)
        return q[:, 0], v[:, 0]

    for q, v, window, own, t in zip(*motion(windows, speeds, times), windows, speeds, times, strict=True):
        position, speed = pushed(name, t, window)
        close(q, own * t + position, DIGITS[name])
        close(v, own + speed, DIGITS[name])


def test_a_shorter_pulse_with_a_word_from_the_user():
    """Of 0.05 %: `max_step`, or `breakpoints` where the force jumps."""
    window = np.array([6.6, 5e-3])
    expected = np.array(pushed("jumps", TIMES, window))[:, -1]
    for options in ({"max_step": 2e-3}, {"breakpoints": window[0] + np.array([0.0, window[1]])}):
        q, v = simulated("jumps", window, TIMES, **options)
        close([q[-1, 0], v[-1, 0]], expected)


# --- two degrees of freedom, and a robot: SciPy, piece by piece --------------------------------------------

CART, BOB, ROD = 2.0, 0.7, 0.9
CART_METRIC = cn.MatrixMetric(
    cn.CoordinateFrame(2),
    lambda q: (
        jnp.array([[CART + BOB, 0.0], [0.0, BOB * ROD**2]])
        + BOB * ROD * jnp.cos(q[1]) * jnp.array([[0.0, 1.0], [1.0, 0.0]])
    ),
)
#: Rest, with the pendulum turned.
CART_START = np.array([0.0, 0.8])


def cart_acceleration(q, v, push):
    coupling = BOB * ROD * np.cos(q[1])
    H = np.array([[CART + BOB, coupling], [coupling, BOB * ROD**2]])
    return np.linalg.solve(H, [push + BOB * ROD * np.sin(q[1]) * v[1] ** 2, 0.0])


def piecewise(acceleration, q0, name, window, whole=WHOLE):
    """q and v at the end, by SciPy: (q, v, pulse) -> dv/dt, from the begin of the window on."""
    n = len(q0)
    push = jax.jit(lambda t: pulse(name, t, jnp.asarray(window)))
    middle, end = window[0] + 0.5 * window[1], window[0] + window[1]
    y = np.concatenate([q0, np.zeros(n)])
    for first, last, acts in ((window[0], middle, 1.0), (middle, end, 1.0), (end, whole, 0.0)):

        def rate(t, y, first=first, last=last, acts=acts):
            inside = np.clip(t, window[0], end)
            return np.concatenate([y[n:], acceleration(y[:n], y[n:], acts * float(push(inside)))])

        y = solve_ivp(rate, (first, last), y, "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    return y[:n], y[n:]


@pytest.mark.parametrize("max_step", [None, further(0.1)])
@pytest.mark.parametrize("name", always(PULSES, "jumps"))
def test_a_cart_with_a_pendulum(name, max_step):
    """The pendulum swings by what the cart does to it; H couples them."""
    system = cn.MechanicalSystem(CART_METRIC, forces=(moved := force(name, (6.3, 0.35), 40.0)))
    expected = piecewise(lambda q, v, p: cart_acceleration(q, v, 40.0 * p), CART_START, name, (6.3, 0.35))
    assert np.abs(expected[1]).min() > 0.1
    for times in (TIMES, np.linspace(0.0, WHOLE, 50)):
        q, v = system.simulate(CART_START, np.zeros(2), times, max_step=max_step)
        close(q[-1], expected[0], DIGITS[name])
        close(v[-1], expected[1], DIGITS[name])
    q, v = cn.MechanicalSystem(CART_METRIC).simulate(
        CART_START, np.zeros(2), TIMES, control=moved, max_step=max_step
    )
    close(q[-1], expected[0], DIGITS[name])


@pytest.mark.further
@pytest.mark.parametrize("name", PULSES)
def test_the_flow_of_geodesics(name):
    """`geodesic_flow` of the cart: its motion, and the derivative by the first point is that of motions."""
    nabla, window = cn.LeviCivita(CART_METRIC), (6.3, 0.35)

    def acceleration(t, q, v):
        return pulse(name, t, window) * jnp.array([9.0, 0.0])

    def end(q0):
        return np.asarray(cn.geodesic(nabla, q0, np.zeros(2), TIMES, acceleration, max_step=0.1).q[-1])

    q, v, Phi = cn.geodesic_flow(nabla, CART_START, np.zeros(2), TIMES, acceleration)
    expected = piecewise(
        lambda q, v, p: cart_acceleration(q, v, 0.0) + [9.0 * p, 0.0], CART_START, name, window
    )
    close(q[-1], expected[0], DIGITS[name])
    close(v[-1], expected[1], DIGITS[name])
    h = 1e-4 * np.array([0.0, 1.0])
    np.testing.assert_allclose(Phi[-1][:2, 1], (end(CART_START + h) - end(CART_START - h)) / 2e-4, atol=1e-5)


@pytest.mark.further
@pytest.mark.parametrize(
    ("name", "max_step"),
    [
        ("sin^4", None),
        further("sin^4", 0.1),
        further("jumps", None),
        further("jumps", 0.1),
        further("tent", None),
    ],
)
def test_a_robot(name, max_step, rng):
    """An arm without gravity, on the host: its recursions, integrated by SciPy."""
    model, window = mb.example("arm"), (6.3, 0.35)
    q0, strength = 0.4 * np.ones(model.nq), np.array([3.0, -2.0, 1.0, 0.5, 0.0, 1.0])

    def thrust(t, q, v):
        return pulse(name, t, window) * strength

    def acceleration(q, v, push):
        return push * strength - np.linalg.solve(
            mb.mass_matrix(model, q), mb.coriolis_product(model, q, v, v)
        )

    expected = piecewise(acceleration, q0, name, window)
    assert np.abs(expected[1]).max() > 0.1
    for times in (TIMES, np.append(0.0, np.sort(rng.uniform(0.0, WHOLE, 20))), np.linspace(0.0, WHOLE, 101)):
        q, v = cn.geodesic(model.connection, q0, np.zeros(model.nq), times, thrust, max_step=max_step)
        if times[-1] == WHOLE:
            close(q[-1], expected[0], DIGITS[name])
            close(v[-1], expected[1], DIGITS[name])
    starts = np.stack([q0, q0 + 0.1, q0])
    q, _ = cn.geodesic(model.connection, starts, np.zeros(model.nq), TIMES, thrust, max_step=max_step)
    close(q[::2, -1], np.stack([expected[0], expected[0]]), DIGITS[name])
