"""Motions under forces that are sharp: pulses between two breakpoints, and laws that are stiff.

The references are closed forms.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further

import connections as cn
from connections.checks import IntegrationError

FREE = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1)))


@pytest.mark.parametrize(
    ("first", "width"),
    [(0.0, 1e-7), (3.0, 1e-6), further(0.0, 1e-6), further(-0.7, 1e-5), further(-0.7, 1e-7)],
)
def test_a_pulse_between_two_breakpoints(first, width):
    """Its force acts between its edges, whichever of them it includes, and whatever t0 rounds."""
    a = first + 0.25
    b = a + width
    for acts in (
        lambda t: (t >= a) & (t < b),
        lambda t: (t > a) & (t <= b),
    ):

        def push(t, q, v, acts=acts):
            return jnp.where(acts(t), 1.0 / (b - a), 0.0) * jnp.ones(1)

        plain, event = {"breakpoints": [a, b]}, lambda t, q, v: q[0] - 10.0
        for own in (plain, {**plain, "events": event}):
            motion = FREE.simulate([0.0], [0.0], [first, first + 1.0], push, **own)
            np.testing.assert_allclose(motion.v[-1], 1.0, rtol=4e-9)
            np.testing.assert_allclose(motion.q[-1], 0.75 - 0.5 * width, rtol=4e-9)
        back = FREE.simulate([0.0], [0.0], [first + 1.0, first], push, **plain)
        np.testing.assert_allclose(back.v[-1], -1.0, rtol=4e-9)


def test_a_pulse_between_two_breakpoints_inside_jit_and_in_a_batch():
    """With a requested time at an edge; the derivative by the height is that of a sum."""
    a, b = 0.25, 0.250001

    def push(t, q, v):
        return jnp.where((t >= a) & (t < b), 1e6, 0.0) * jnp.ones(1)

    def end(v):
        return FREE.simulate([0.0], v, [0.0, a, 1.0], push, breakpoints=[a, b]).v[-1, 0]

    value, slope = jax.jit(jax.value_and_grad(end))(jnp.zeros(1))
    np.testing.assert_allclose(value, (b - a) * 1e6, rtol=1e-9)
    np.testing.assert_allclose(slope, 1.0, rtol=1e-12)
    batch = FREE.simulate(np.zeros((2, 1)), [[0.0], [1.0]], [0.0, a, 1.0], push, breakpoints=[a, b])
    np.testing.assert_allclose(batch.v[:, :, 0], [[0.0, 0.0, 1.0], [1.0, 1.0, 2.0]], atol=1e-9)


def spring_that_changes_sides(t, q, v):
    """q'' = sign(1/2 - t) - q, which has no value at t = 1/2."""
    return (0.5 - t) / abs(0.5 - t) - q


def half_turns(q, v, t):
    """(q, v) of q'' = 1 - q after a time."""
    c, s = np.cos(t), np.sin(t)
    return 1.0 + (q - 1.0) * c + v * s, v * c - (q - 1.0) * s


@pytest.mark.parametrize("kind", ["one", "events", "a batch", further("backwards")])
def test_a_force_without_a_value_at_its_breakpoint(kind):
    """Also where a requested time is there. The second half is the first one's equation, of -q."""
    times = [0.0, 0.5, 1.0]
    options = {"events": lambda t, q, v: q[0] - 9.0} if kind == "events" else {}
    start = [[0.2], [0.2]] if kind == "a batch" else [0.2]
    sign = -1.0 if kind == "backwards" else 1.0  # whose first half is that of -q
    times = times if sign > 0.0 else times[::-1]
    found = FREE.simulate(start, [0.7], times, spring_that_changes_sides, breakpoints=[0.5], **options)
    middle = half_turns(sign * 0.2, sign * 0.7, sign * 0.5)
    end = half_turns(-middle[0], -middle[1], sign * 0.5)
    expected = [0.2, sign * middle[0], -sign * end[0]]
    np.testing.assert_allclose(found.q[..., 0].reshape(-1, 3)[-1], expected, rtol=1e-9)


@pytest.mark.parametrize("kind", ["one", "events", "a batch"])
@pytest.mark.parametrize("first", [0.0, -0.7, further(1e3)])
def test_a_force_without_a_value_at_the_first_and_at_the_last_time(first, kind):
    """q'' = sign - q, whose sign has no value at three breakpoints: at both ends and between."""
    a, b, c = first, first + 0.5, first + 1.0

    def control(t, q, v):
        return (t - a) * (b - t) * (c - t) / abs((t - a) * (b - t) * (c - t)) - q

    options = {"events": lambda t, q, v: q[0] - 9.0} if kind == "events" else {}
    start = [[0.2], [0.2]] if kind == "a batch" else [0.2]
    middle = half_turns(0.2, 0.7, 0.5)
    end = half_turns(-middle[0], -middle[1], 0.5)
    for times, expected in (
        ([a, b, c], [0.2, middle[0], -end[0]]),
        ([a, b], [0.2, middle[0]]),
        ([c, b], [0.2, -half_turns(-0.2, -0.7, -0.5)[0]]),
    ):
        found = FREE.simulate(start, [0.7], times, control, breakpoints=times, **options)
        np.testing.assert_allclose(found.q[..., 0].reshape(-1, len(times))[-1], expected, rtol=1e-9)
    with pytest.raises(IntegrationError, match="control.* is nan at t"):
        FREE.simulate(start, [0.7], [a, b], control)


def test_a_force_without_a_value_at_both_ends_inside_jit():
    """The sine with its derivative by the velocity, in reverse."""

    def end(v):
        control = lambda t, q, v: t * (1.0 - t) / abs(t * (1.0 - t)) - q + 0.0 * jnp.sqrt(t)  # noqa: E731
        return FREE.simulate([0.2], v, [0.0, 1.0], control, breakpoints=[0.0, 1.0]).q[-1, 0]

    value, slope = jax.jit(jax.value_and_grad(end))(jnp.array([0.7]))
    np.testing.assert_allclose([value, slope[0]], [half_turns(0.2, 0.7, 1.0)[0], np.sin(1.0)], rtol=1e-9)


def test_a_body_moves_on_over_a_breakpoint_where_clocks_are_coarse():
    """At t = 1e6 s a step over a breakpoint is 1e-9 s long; the velocity changes as long before as after."""
    first = 1e6

    def switched(t, q, v):
        return jnp.where(t < first + 0.25, 0.0, 4.0) * jnp.ones(1)

    def end(v):
        return FREE.simulate([0.0], v, [first, first + 0.5], switched, breakpoints=[first + 0.25]).q[-1, 0]

    np.testing.assert_allclose(end(np.ones(1)), 0.625, rtol=3e-11)
    np.testing.assert_allclose(jax.jit(end)(jnp.ones(1)), 0.625, rtol=3e-11)


def test_a_force_without_a_value_at_its_breakpoint_inside_jit():
    def end(v, t):
        times = jnp.stack([jnp.zeros(()), t, t + 0.5])
        return FREE.simulate([0.2], v, times, spring_that_changes_sides, breakpoints=[0.5]).q[1:, 0]

    by_v, by_t = jax.jit(jax.jacfwd(end, argnums=(0, 1)))(jnp.array([0.7]), 0.5)
    np.testing.assert_allclose(by_v[:, 0], np.sin([0.5, 1.0]), rtol=1e-9)
    middle = half_turns(0.2, 0.7, 0.5)
    after = half_turns(-middle[0], -middle[1], 0.5)
    np.testing.assert_allclose(by_t, [middle[1], -after[1]], rtol=1e-9)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_stiff_law_at_rest_on_its_reference(batch):
    """Its terms cancel within one function, to their round-off; q follows cos t with the law's own lag."""
    gain = 1e7

    def control(t, q, v):
        return -gain * (q - jnp.cos(t)) - 2.0 * np.sqrt(gain) * v

    q0, v0 = np.ones((*batch, 1)), np.zeros((*batch, 1))
    motion = FREE.simulate(q0, v0, [0.0, 1.0], control)
    # (D + sqrt(gain))^2 q = gain cos t: the real part of gain e^it / (i + sqrt(gain))^2, and what decays.
    factor, decay = gain / (1j + np.sqrt(gain)) ** 2, np.exp(-np.sqrt(gain))
    assert decay == 0.0
    steady = factor * np.exp(1j)
    np.testing.assert_allclose(motion.q[..., -1, 0], steady.real, atol=1e-9)
    np.testing.assert_allclose(motion.v[..., -1, 0], -steady.imag, atol=1e-8)
