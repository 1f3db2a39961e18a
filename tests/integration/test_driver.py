"""One motion at a time on the host: the method, its tolerances, and how it ends."""

import numpy as np
import pytest
from scipy.integrate import DOP853

from connections.integration import dop853
from connections.integration.driver import follow
from connections.integration.solver import Settings
from connections.integration.steps import judging, numpy_attempt, plain_layout
from connections.integration.tolerances import (
    CHANGED,
    StateLayout,
    expected_rates,
    is_held,
    next_length,
    uncertainties,
)


def attempt_of(rate, units):
    """A step with a function that returns dy/dt."""

    def write(t, y, out):
        out[:] = rate(t, y)

    return numpy_attempt(write, lambda t, y: np.stack([units(t, y), np.zeros_like(y)]))


def followed(rate, y0, times, units=None, rtol=1e-10, **settings):
    """Motions from y0 (m, k); rates and units are of (t, y)."""
    t0 = times[0]
    attempt = attempt_of(lambda s, y: rate(t0 + s, y), units or (lambda s, y: np.ones_like(y)))

    def attempts(which, s, h, y, f):
        return np.stack([attempt(*row) for row in zip(s, h, y, f, strict=True)], axis=1)

    clock, origin = np.asarray(times) - t0, np.zeros_like(y0)
    scales, layout = np.stack([origin, origin]), plain_layout(y0.shape[1])
    steps = judging(attempts, scales, layout, (rtol, 0.0))
    return follow(steps, y0, origin, clock, Settings(**{"max_steps": 1000, **settings}))


def solve(rate, y0, times, **options):
    """States of one motion at the times, and why it was stopped."""
    found = followed(rate, np.asarray(y0)[None], times, **options)
    return found.states[0], found.stopped.get(0)


def test_coefficients():
    """SciPy's, and the conditions of order one to four; the estimates vanish for constant rates."""
    A, b, C = dop853.A[:-1, :-1], dop853.A[-1, :-1], dop853.C[:-1]
    np.testing.assert_array_equal(A, DOP853.A)
    np.testing.assert_array_equal(b, DOP853.B)
    np.testing.assert_array_equal(C, DOP853.C)
    np.testing.assert_array_equal(dop853.E, [DOP853.E5, DOP853.E3])
    np.testing.assert_array_equal(dop853.A_DENSE[13:], DOP853.A_EXTRA)
    np.testing.assert_array_equal(dop853.A_DENSE[:13, :13], dop853.A)
    np.testing.assert_array_equal(dop853.C_DENSE, [*C, 1.0, *DOP853.C_EXTRA])
    np.testing.assert_array_equal(dop853.DENSE, DOP853.D)
    np.testing.assert_allclose(A.sum(axis=1), C, atol=1e-14)
    for power in range(8):
        assert b @ C**power == pytest.approx(1.0 / (power + 1), abs=1e-14)
    assert b @ A @ C == pytest.approx(1.0 / 6.0, abs=1e-14)
    np.testing.assert_allclose(dop853.E.sum(axis=1), 0.0, atol=1e-14)


@pytest.mark.parametrize("times", [[0.0, 0.1, 0.7, 20.0], [0.0, -3.0, -20.0], np.linspace(5.0, 6.0, 57)])
def test_oscillator(times):
    """In units that differ by 1e12, forwards and backwards;"""
    units, start = np.array([1e-6, 1e6]), times[0]
    y, _ = solve(
        lambda t, y: np.array([y[1] / units[1], -y[0] / units[0]]) * units, units * [0.0, 1.0], times
    )
    phase = np.asarray(times) - start
    np.testing.assert_allclose(y / units, np.stack([np.sin(phase), np.cos(phase)], 1), atol=2e-9)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_in_which_squares_overflow(unit):
    """The steps are those of other units: the square of an error is nothing, or infinite, in these."""
    end = {}
    for size in (1.0, unit):
        steps = []

        def rate(t, y, size=size, steps=steps):
            steps.append(t)
            return np.array([y[1], -y[0]]) * np.array([size, 1.0 / size])

        units = np.array([size, 1.0])
        found = solve(rate, np.array([0.0, 1.0]), [0.0, 20.0], units=lambda t, y, u=units: u)[0]
        end[size] = found[-1] / units, steps
    np.testing.assert_allclose(end[unit][0], [np.sin(20.0), np.cos(20.0)], atol=2e-9)
    np.testing.assert_allclose(end[unit][1], end[1.0][1], rtol=1e-6)


def test_order():
    """Half the step, an error 2^8 times as small: y' = y over one step."""
    attempt = attempt_of(lambda t, y: y, lambda t, y: y)
    errors = [abs(attempt(0.0, h, np.ones(1), np.ones(1))[0][0] - np.exp(h)) for h in (1.0, 0.5)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(9.0, abs=0.5)


def test_time_enters():
    y, _ = solve(lambda t, y: np.array([np.cos(t)]), np.zeros(1), [0.0, 3.0])
    assert y[1, 0] == pytest.approx(np.sin(3.0), rel=1e-10)
    y, _ = solve(lambda t, y: np.array([np.cos(t)]), np.zeros(1), [1.0, 3.0])  # the time of whoever asks
    assert y[1, 0] == pytest.approx(np.sin(3.0) - np.sin(1.0), rel=1e-10)


def test_ends():
    """Blow-up, an edge of the domain, and too many steps: where and why."""
    y, blow_up = solve(lambda t, y: y**2, np.ones(1), [0.0, 0.5, 2.0])
    assert "shorter" in blow_up.why and blow_up.s == pytest.approx(1.0, abs=1e-9)
    assert y[1, 0] == pytest.approx(2.0, rel=1e-9) and np.isnan(y[2, 0])
    with np.errstate(invalid="ignore"):
        _, edge = solve(lambda t, y: -1.0 / np.sqrt(y), np.ones(1), [0.0, 1.0])
    assert "shorter" in edge.why and edge.s == pytest.approx(2.0 / 3.0, abs=1e-6)
    _, many = solve(lambda t, y: np.array([y[1], -1e6 * y[0]]), np.ones(2), [0.0, 10.0], max_steps=20)
    assert "20 steps" in many.why


def test_tolerance_counts():
    """A hundredth of the tolerance, a smaller error."""
    exact = np.cos(30.0)
    errors = [
        abs(
            solve(lambda t, y: np.array([y[1], -y[0]]), np.array([1.0, 0.0]), [0.0, 30.0], rtol=r)[0][1, 0]
            - exact
        )
        for r in (1e-6, 1e-10)
    ]
    assert errors[1] < 1e-2 * errors[0] < 1e-6


def test_a_step_that_is_cut_does_not_shorten_the_next_ones():
    """Requested times a millionth apart cost a step each, not many short ones after it."""
    calls = {}
    for close in (False, True):
        times, seen = np.arange(11.0), []
        if close:
            times = np.sort(np.concatenate([times, times[1:-1] + 1e-6]))

        def rate(t, y, seen=seen):
            seen.append(t)
            return np.array([y[1], -y[0]])

        solve(rate, np.array([0.0, 1.0]), times)
        calls[close] = len(seen)
    assert calls[True] - calls[False] < 2 * 9 * 12  # of twelve stages each


def test_rates_expected_of_a_motion_from_rest():
    """The largest of a group in its units; nothing is expected of a point, nor of what is not finite."""
    terms = np.array([[0.0, 0.0, 0.0, 0.0], [5.0, 0.3, 2.0, np.inf], [1.0, 0.1, 0.5, 1.0]])
    layout = StateLayout(np.array([True, False, False, False]), (slice(0, 1), slice(1, 3), slice(3, 4)))
    found = expected_rates(terms, np.array([1.0, 1.0, 0.5, 1.0]), layout)
    np.testing.assert_allclose(found / CHANGED, [0.0, 4.0, 4.0, 0.0])  # 2 / 0.5


def test_what_is_held_by_terms_that_cancel():
    """A net rate below 1e-5 of its terms, in the units of its group; points do not count."""
    layout = StateLayout(np.array([True, False, False, False]), (slice(0, 3), slice(3, 4)))
    units, terms = np.array([1.0, 1.0, 1e-3, 0.0]), np.array([9.0, 2.0, 1e-3, 5.0])
    for rates, held in (
        ([0.0, 1.9e-5, 0.0, 0.0], True),
        ([0.0, 2.1e-5, 0.0, 0.0], False),
        ([0.0, 0.0, 1.9e-8, 0.0], True),
        ([0.0, 0.0, -2.1e-8, 0.0], False),
        ([0.0, 0.0, 2.1e-8, 1e9], False),
        ([1e9, 0.0, 1.9e-8, 1e9], True),
    ):
        assert is_held(np.array(rates), terms, units, layout) == held, rates
    assert not is_held(np.zeros(4), np.array([9.0, 0.0, 0.0, 5.0]), units, layout)  # no force at all


def test_lengths_of_steps():
    """0.9 e^(-1/8) times the last, within 0.2 and 10 of it, and within bounds; a cut step says nothing."""
    bounds = 1e-3, 5.0
    for length, planned, ends, error, expected in (
        (1.0, 1.0, False, 0.5, 0.9 * 0.5**-0.125),
        (1.0, 1.0, False, 2.0, 0.9 * 2.0**-0.125),
        (1.0, 1.0, False, 1e30, 0.2),
        (0.1, 0.1, False, 0.0, 1.0),
        (1.0, 1.0, False, 0.0, 5.0),
        (1.5e-3, 1.0, False, np.inf, 1e-3),
        (0.01, 2.0, True, 1e-3, 2.0),
        (0.01, 2.0, True, 2.0, 0.009 * 2.0**-0.125),
    ):
        kept, found = next_length(length, planned, ends, error, False, bounds)
        assert kept == (error < 1.0) and found == pytest.approx(expected, rel=1e-12), (length, error)
    assert next_length(1e-3, 1e-3, False, 7.0, True, bounds)[0]  # one from rest is taken


def test_what_errors_may_have_changed():
    """Ten tolerances of the largest size, or of the size in units if a chart has shrunk them meanwhile."""
    state = np.zeros((6, 3))
    state[3], state[4] = [2.0, 3.0, 5.0], [1.0, 4.0, 4.0]
    found = uncertainties(state, np.array([0.5, 0.5, 2.0]), np.array([True, False, False]), 3.0, (1e-9, 2e-9))
    np.testing.assert_allclose(found, 3e-8 * np.array([1.5, 2.0, 5.0]), rtol=1e-12)


def test_the_shortest_step():
    """1e-13 of the whole time: the stages of the last step that is tried before a blow-up reach as far."""
    seen = []

    def rate(t, y):
        seen.append(t)
        return y**2

    _, blow_up = solve(rate, np.ones(1), [0.0, 4.0])
    assert max(seen[-11:]) - blow_up.s == pytest.approx(4e-13, rel=1e-2)


def test_clocks_far_from_zero():
    """From any first time, the bits are those from zero."""

    def end(t0):
        return solve(lambda t, y: np.array([y[1], -y[0]]), np.array([1.0, 0.0]), t0 + np.arange(101.0))[0]

    np.testing.assert_allclose(end(0.0)[:, 0], np.cos(np.arange(101.0)), atol=2e-9)
    for t0 in (1.7e9, -1e12):
        np.testing.assert_array_equal(end(t0), end(0.0))


#: (rate of (q, v), q and v at t = 1), from rest at t = 0
FROM_REST = {
    "thrust from 0.3": (lambda t, y: np.array([y[1], max(t - 0.3, 0.0)]), [0.7**3 / 6.0, 0.7**2 / 2.0]),
    "jump at 0.3": (lambda t, y: np.array([y[1], float(t > 0.3)]), [0.7**2 / 2.0, 0.7]),
    "two kinks": (
        lambda t, y: np.array([y[1], max(t - 0.3, 0.0) - 2.0 * max(t - 0.6, 0.0)]),
        [0.7**3 / 6.0 - 2.0 * 0.4**3 / 6.0, 0.7**2 / 2.0 - 0.4**2],
    ),
    "jumps while it moves": (
        lambda t, y: np.array([y[1], 1e2 * (t > 0.7) + 1.0]),
        [0.5 + 1e2 * 0.3**2 / 2.0, 1.0 + 1e2 * 0.3],
    ),
}


@pytest.mark.parametrize("name", FROM_REST)
def test_kinks_from_exact_rest(name):
    """The shortest step over the kink is taken; closed forms, in any units. Kinks cost a digit."""
    rate, expected = FROM_REST[name]
    for unit in (1.0, 1e-9, 1e9):
        y, stopped = solve(lambda t, y, u=unit: u * rate(t, y / u), np.zeros(2), [0.0, 0.2, 1.0])
        assert stopped is None
        np.testing.assert_allclose(y[-1] / unit, expected, rtol=5e-9)


def test_what_ends_still_ends():
    """Shortest steps are not taken over a pole: there, the motion ends."""
    for power in (1.0, 2.0):
        _, stopped = solve(lambda t, y, p=power: np.array([np.abs(0.3 - t) ** -p]), np.zeros(1), [0.0, 1.0])
        assert stopped.s == pytest.approx(0.3, abs=1e-8)
    _, stopped = solve(lambda t, y: np.array([y[1], (1.0 - y[0]) ** -2]), [0.0, 2.0], [0.0, 1.0])
    assert "shorter" in stopped.why


def test_a_pulse_between_steps_needs_max_step():
    """A force that acts for less than a step is missed, and is not if steps are no longer than it."""

    def pulse(t, y):
        return np.array([y[1], np.exp(-(((t - 50.0) / 0.01) ** 2))])

    momentum = 0.01 * np.sqrt(np.pi)
    missed, _ = solve(pulse, np.zeros(2), [0.0, 100.0])
    found, _ = solve(pulse, np.zeros(2), [0.0, 100.0], max_step=0.01, max_steps=20_000)
    assert missed[-1, 1] == 0.0 and found[-1, 1] == pytest.approx(momentum, rel=1e-9)


def test_many_are_the_same_as_one(rng):
    """More than are stepped together, each with its own steps; one that ends makes room for the next."""
    y0 = np.stack([np.zeros(75), 10.0 ** rng.uniform(-1, 1, 75)], axis=1)
    y0[40] = 0.0, 1e3

    def rate(t, y):  # the pendulum that grows: over the top for some
        return np.array([y[1], -np.sin(y[0]) + (y[1] ** 2 if y[1] > 100.0 else 0.0)])

    together = followed(rate, y0, [0.0, 0.5, 7.0])
    assert list(together.stopped) == [40] and together.last[40] == 0.0
    for i in (0, 31, 39, 41, 74):
        alone, _ = solve(rate, y0[i], [0.0, 0.5, 7.0])
        np.testing.assert_allclose(together.states[i], alone, rtol=1e-12)
