"""One motion at a time on the host: the method, its tolerances, and how it ends."""

import numpy as np
import pytest
from scipy.integrate import DOP853

from connections.affine import dop853
from connections.affine.host_integration import Stopped, integrate_one, numpy_attempt


def attempt_of(rate, sizes):
    """A step with a function that returns dy/dt."""

    def write(t, y, out):
        out[:] = rate(t, y)

    return numpy_attempt(write, sizes)


def solve(rate, y0, times, sizes=None, max_steps=1000, rtol=1e-10):
    """States at the times."""
    found = []
    attempt = attempt_of(rate, sizes or (lambda t, y: np.abs(y)))
    origin = np.zeros(len(y0))
    integrate_one(
        attempt, y0, np.asarray(times), origin, rtol, 1e-15, max_steps, lambda t, y: found.append((t, y))
    )
    return [t for t, _ in found], np.array([y for _, y in found])


def test_coefficients():
    """SciPy's, and the conditions of order one to four; the estimates vanish for constant rates."""
    A, b, C = dop853.A[:-1, :-1], dop853.A[-1, :-1], dop853.C[:-1]
    np.testing.assert_array_equal(A, DOP853.A)
    np.testing.assert_array_equal(b, DOP853.B)
    np.testing.assert_array_equal(C, DOP853.C)
    np.testing.assert_array_equal(dop853.E, [DOP853.E5, DOP853.E3])
    np.testing.assert_array_equal(dop853.A_DENSE[13:], DOP853.A_EXTRA)
    np.testing.assert_array_equal(dop853.A_DENSE[:13, :13], dop853.A)
    np.testing.assert_array_equal(dop853.DENSE, DOP853.D)
    np.testing.assert_allclose(A.sum(axis=1), C, atol=1e-14)
    for power in range(8):
        assert b @ C**power == pytest.approx(1.0 / (power + 1), abs=1e-14)
    assert b @ A @ C == pytest.approx(1.0 / 6.0, abs=1e-14)
    np.testing.assert_allclose(dop853.E.sum(axis=1), 0.0, atol=1e-14)


@pytest.mark.parametrize("times", [[0.0, 0.1, 0.7, 20.0], [0.0, -3.0, -20.0], np.linspace(5.0, 6.0, 57)])
def test_oscillator(times):
    """In units that differ by 1e12, forwards and backwards; the times are reached exactly."""
    units, start = np.array([1e-6, 1e6]), times[0]
    at, y = solve(
        lambda t, y: np.array([y[1] / units[1], -y[0] / units[0]]) * units, units * [0.0, 1.0], times
    )
    phase = np.asarray(times) - start
    assert at == list(times)
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

        end[size] = solve(rate, np.array([0.0, 1.0]), [0.0, 20.0])[1][-1] / [size, 1.0], steps
    np.testing.assert_allclose(end[unit][0], [np.sin(20.0), np.cos(20.0)], atol=2e-9)
    np.testing.assert_allclose(end[unit][1], end[1.0][1], rtol=1e-6)


def test_order():
    """Half the step, an error 2^8 times as small: y' = y over one step."""
    attempt = attempt_of(lambda t, y: y, lambda t, y: y)
    errors = [abs(attempt(0.0, h, np.ones(1), np.ones(1))[0][0] - np.exp(h)) for h in (1.0, 0.5)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(9.0, abs=0.5)


def test_time_enters():
    _, y = solve(lambda t, y: np.array([np.cos(t)]), np.zeros(1), [0.0, 3.0])
    assert y[1, 0] == pytest.approx(np.sin(3.0), rel=1e-10)


def test_ends():
    """Blow-up, an edge of the domain, and too many steps: where and why."""
    with pytest.raises(Stopped, match="shorter") as blow_up:
        solve(lambda t, y: y**2, np.ones(1), [0.0, 2.0])
    assert blow_up.value.t == pytest.approx(1.0, abs=1e-9)
    with np.errstate(invalid="ignore"), pytest.raises(Stopped, match="shorter") as edge:
        solve(lambda t, y: -1.0 / np.sqrt(y), np.ones(1), [0.0, 1.0])
    assert edge.value.t == pytest.approx(2.0 / 3.0, abs=1e-6)
    with pytest.raises(Stopped, match="more than 20 steps"):
        solve(lambda t, y: np.array([y[1], -1e6 * y[0]]), np.ones(2), [0.0, 10.0], max_steps=20)


def test_tolerance_counts():
    """A hundredth of the tolerance, a smaller error."""
    exact = np.cos(30.0)
    errors = [
        abs(
            solve(lambda t, y: np.array([y[1], -y[0]]), np.array([1.0, 0.0]), [0.0, 30.0], rtol=r)[1][1, 0]
            - exact
        )
        for r in (1e-6, 1e-10)
    ]
    assert errors[1] < 1e-2 * errors[0] < 1e-6
