"""Motions under forces that are sharp: pulses between two breakpoints, and laws that are stiff.

The references are closed forms.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further

import connections as cn

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
