"""What is brief in a function of time: found where it is, and nothing found in what is smooth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from connections.integration.pulses import LOOKS, pulse_breakpoints

T = np.linspace(0.0, 1.0, LOOKS)
SPACING = T[1]


def bump(begin, length):
    """A smooth pulse of height one."""
    u = np.clip((T - begin) / length, 0.0, 1.0)
    return np.sin(np.pi * u)[:, None] ** 4


def found(values, rates, numpy=np):
    at, which, longest = pulse_breakpoints(numpy.asarray(values), numpy.asarray(rates), numpy)
    return np.asarray(at)[np.asarray(which)].reshape(2, -1), float(longest)


@pytest.mark.parametrize("numpy", [np, jnp], ids=["NumPy", "JAX"])
@pytest.mark.parametrize("height", [1.0, 0.01])
def test_a_pulse_on_a_slope_is_enclosed(numpy, height, rng):
    """By less than four looks outside."""
    smooth = 2.0 + np.cos(20.0 * T)[:, None]
    for length in (3.0 * SPACING, 0.01):
        for begin in rng.uniform(0.01, 0.98, 10):
            (first, last), longest = found(smooth, smooth + height * bump(begin, length), numpy)
            seen = T[
                bump(begin, length)[:, 0] > (0.1 if height == 1.0 else 0.999 * bump(begin, length).max())
            ]
            assert len(seen) and longest == np.inf
            assert begin - 4.0 * SPACING <= first[0] < seen[0] and seen[-1] < last[-1]
            assert last[-1] <= begin + length + 4.0 * SPACING


def test_smooth_functions_have_no_breakpoints(rng):
    """Of up to 45 periods, at rest, of one component that is round-off, and undefined."""
    wave = np.stack([1e9 * np.cos(2.0 * np.pi * 45.0 * T), np.exp(T)], axis=1)
    noise = np.stack([1.0 + 0.0 * T, 1e-16 * rng.standard_normal(LOOKS)], axis=1)[:, ::-1]
    undefined = np.full((LOOKS, 1), np.nan)
    for values, rates in ((wave, wave), (0.0 * wave, 0.0 * wave), (noise, noise), (undefined, undefined)):
        places, longest = found(values + [1.0], rates)
        assert places.size == 0 and longest == np.inf
    assert found(wave, wave + 1e-3 * bump(0.3, 0.005))[0].size  # negative control: in the small component


def test_more_than_there_is_room_for():
    """Eight pulses are enclosed one by one; for nine of them all steps are short."""
    for count in (8, 9):
        rates = sum(bump(begin, 0.01) for begin in (np.arange(count) + 0.5) / 10.0)
        places, longest = found(rates, rates)
        assert (places.size, longest) == ((16, np.inf) if count == 8 else (0, 1.0 / 256.0))


def test_what_is_not_found_costs_no_steps():
    """The places of absent breakpoints are ends of steps of 1/32 of the whole time."""
    at, which, _ = jax.jit(lambda rates: pulse_breakpoints(rates, rates, jnp))(jnp.ones((LOOKS, 1)))
    assert not which.any()
    np.testing.assert_array_equal(np.round(32.0 * np.sort(at)), 1.0 + 2.0 * np.arange(16))
