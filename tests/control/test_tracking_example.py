"""The tracking example against an integration that shares no code with it, and its quoted numbers."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from connections.checks import NonFiniteError, ShapeError
from connections.control.results import ClosedLoopMotion
from connections.control.tracking_example import (
    MASS,
    PAPER_BETAS,
    energy_spectrum,
    explore,
    high_frequency_fraction,
    measure,
    table,
    zero_crossings,
)


@pytest.fixture(scope="module")
def results():
    return explore(PAPER_BETAS)


def test_the_measures_of_a_sine():
    """Ten periods of v_y = sin, an error that is v, a force that is its rate: all measures in closed form."""
    t, f = np.linspace(0.0, 4.0, 8001), 2.5
    v, a = np.zeros((2, len(t), 3))
    v[:, 1], a[:, 1] = np.sin(2.0 * np.pi * f * t), 2.0 * np.pi * f * np.cos(2.0 * np.pi * f * t)
    others = dict.fromkeys(("q", "v_r", "a_r", "lyapunov", "lyapunov_rate", "error"), v)
    motion = ClosedLoopMotion(times=t, v=v, tau=MASS * a, **others)
    found, peak = measure(-3.0, motion), 2.0 * np.pi * f * MASS
    assert found.rms_frequency == pytest.approx(f, rel=1e-6)
    assert (found.beta, found.zero_crossings) == (-3.0, 0)  # of v_z
    assert found.rms_error == pytest.approx(np.sqrt(0.5), rel=1e-6)
    assert found.final_error == pytest.approx(0.0, abs=1e-12)
    assert found.effort == pytest.approx(peak**2 * 0.5 * t[-1], rel=1e-6)
    assert found.peak_force == pytest.approx(peak, rel=1e-6)
    assert found.high_frequency > 0.95
    assert measure(-3.0, replace(motion, error=2.0 * v)).rms_error > 1.4  # control


def of_torsion(beta, v, w):
    return beta * np.cross(v, w)


def of_weyl(beta, v, w):
    return -0.5 * beta * (v[1] * w + w[1] * v - np.array([0.0, v @ w, 0.0]))


def of_statistics(beta, v, w):
    return np.full(3, -0.5 * beta * v.sum() * w.sum() / 27.0)


def independent_motion(beta, times, mass_estimate=0.9, product=of_torsion):
    """The same closed loop in plain NumPy and SciPy, C(v) w = product: (T, 3) positions and velocities."""

    def rhs(t, y):
        q, v = y[:3], y[3:]
        goal, speed, pull = (np.array([x, 0, 0]) for x in (t + np.sin(t), 1 + np.cos(t), -np.sin(t)))
        v_r, a_r = speed - (q - goal), pull - (v - speed)
        return np.r_[v, mass_estimate * a_r + product(beta, v, v_r) - (v - v_r)]

    y0 = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    solution = solve_ivp(rhs, times[[0, -1]], y0, "DOP853", times, rtol=1e-11, atol=1e-12)
    return solution.y[:3].T, solution.y[3:].T


@pytest.mark.parametrize("number", range(3))
def test_motion_equals_the_independent_one(results, number):
    motion = results[number].motion
    q, v = independent_motion(PAPER_BETAS[number], np.asarray(motion.times))
    np.testing.assert_allclose(motion.q, q, atol=1e-8)
    np.testing.assert_allclose(motion.v, v, atol=1e-8)


@pytest.mark.parametrize(("family", "product"), [("weyl", of_weyl), ("statistical", of_statistics)])
def test_another_family_is_in_the_law_alone(family, product):
    (found,) = explore([-1.0], 3.0, family=family)
    q, v = independent_motion(-1.0, np.asarray(found.motion.times), product=product)
    np.testing.assert_allclose(found.motion.q, q, atol=1e-8)
    np.testing.assert_allclose(found.motion.v, v, atol=1e-8)
    plain, _ = independent_motion(-1.0, np.asarray(found.motion.times))
    assert np.abs(plain - q).max() > 0.01  # control


def test_an_unknown_family_is_named():
    with pytest.raises(ValueError, match="^family: .*contorsion.*weyl.*statistical"):
        explore([0.0], family="torsion")


def test_quoted_numbers(results):
    """Root mean square over 10 s; sign changes of v_z with the departure from rest."""
    np.testing.assert_allclose([r.rms_error for r in results], [0.350, 0.332, 0.331], atol=5e-4)
    assert [r.zero_crossings for r in results] == [0, 19, 38]


def test_effort_and_frequency_rise_with_torsion(results):
    for name in ("effort", "peak_force", "rms_frequency", "high_frequency"):
        values = [getattr(r, name) for r in results]
        assert values[0] < values[1] < values[2], name


def test_first_motion_with_torsion_goes_up_and_without_stays_level(results):
    free, torsion = results[0].motion, results[1].motion
    early = np.asarray(free.times) < 0.2
    assert np.max(np.abs(np.asarray(free.q)[:, 2])) < 1e-12
    assert (np.diff(np.asarray(torsion.q)[early, 2]) > 0.0).all()


def test_lyapunov_functions_nearly_agree_and_coincide_for_the_true_mass(results):
    V = [np.asarray(r.motion.lyapunov) for r in results]
    gap = np.max(np.abs(V[1] - V[0]))
    assert 1e-6 < gap < 0.01 * V[0][0]
    assert V[0][0] == 0.5 * (2.0**2 + 1.0**2)


def test_the_mirror_image_has_the_same_measures(results):
    mirrored = explore([5.0])[0]
    for name in ("rms_error", "effort", "zero_crossings"):
        np.testing.assert_allclose(getattr(mirrored, name), getattr(results[1], name), rtol=1e-7)
    np.testing.assert_allclose(mirrored.motion.q[:, 2], -results[1].motion.q[:, 2], atol=1e-9)


def test_zero_crossings_count_signs_not_noise():
    t = np.linspace(0.0, 1.0, 1001)
    assert zero_crossings(np.cos(2 * np.pi * 3 * t), 1e-9) == 6
    assert zero_crossings(np.sin(2 * np.pi * 3 * t)[:-1], 1e-9) == 6  # the departure and five changes
    assert zero_crossings(np.zeros(10), 1e-9) == 0
    assert zero_crossings(1e-12 * np.cos(40 * t), 1e-9) == 0


def test_high_frequency_fraction_of_a_decaying_exponential():
    """The energy spectrum of exp(-a t) is 1 / (a^2 + (2 pi f)^2)."""
    t = np.linspace(0.0, 20.0, 8001)
    expected = 1.0 - 2.0 / np.pi * np.arctan(2.0 * np.pi / 2.0)
    assert high_frequency_fraction(np.exp(-2.0 * t)[:, None], t[1]) == pytest.approx(expected, abs=2e-3)
    assert high_frequency_fraction(np.zeros((10, 2)), 0.1) == 0.0


def test_energy_spectrum_of_two_signals():
    """Of exp(-2 t) and half of it: 1.25 / (4 + (2 pi f)^2), to the error of the sums; f in Hz."""
    t = np.linspace(0.0, 20.0, 8001)
    decay = np.exp(-2.0 * t)
    density, f = energy_spectrum(np.stack([decay, 0.5 * decay], axis=1), t[1])
    low = f < 5.0
    np.testing.assert_allclose(density[low], 1.25 / (4.0 + (2.0 * np.pi * f[low]) ** 2), rtol=0.02)
    assert density[0] > 100.0 * density[f > 5.0].max()  # control: it is not flat


def test_table_has_a_row_for_each_beta(results):
    lines = table(results).splitlines()
    assert len(lines) == 5 and lines[3].startswith("| -5 | 0.332 |")


@pytest.mark.parametrize(
    ("betas", "error"),
    [
        ([], ShapeError),
        (3.0, ShapeError),
        ([[1.0]], ShapeError),
        ([np.nan], NonFiniteError),
        (["x"], TypeError),
    ],
)
def test_bad_betas_are_named(betas, error):
    with pytest.raises(error, match="betas"):
        explore(betas)


def test_bad_horizon_and_start_are_named():
    for horizon in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="horizon"):
            explore([0.0], horizon=horizon)
    with pytest.raises(ShapeError, match="start"):
        explore([0.0], start=[0.0, 0.0])
    with pytest.raises(NonFiniteError, match="start_velocity"):
        explore([0.0], start_velocity=[0.0, np.inf, 0.0])
