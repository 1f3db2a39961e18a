"""Covariances are what errors are, if the update is iterated and the covariance reset: NEES of many runs."""

from functools import partial

import filter_runs
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections import affine, estimation
from connections.checks import ShapeError

RUNS, TIMES, GYRO = 1000, 2, 0.01
LARGE, SMALL, UNEVEN = (0.3, 0.01), (0.1, 0.1), (np.array([0.3, 0.1, 0.2]), 0.01)


@partial(jax.jit, static_argnums=3)
def nees_of(beta, sigma, r, exact):
    """NEES / 3 (runs, times), which updates settled, NIS; with a member's transport, or the exact reset."""
    reset = "exact" if exact else affine.CartanSchoutenConnection(cn.SO3Frame(), beta)
    filter = estimation.Filter(cn.SO3Frame(), noise=GYRO**2 * np.eye(3), reset=reset)
    keys = jax.random.split(jax.random.PRNGKey(1), RUNS)
    run = lambda key: filter_runs.attitude_nees(key, filter, sigma, r, GYRO, TIMES)  # noqa: E731
    return jax.vmap(run)(keys)


def mean(beta, case, exact=False):
    sigma = jnp.asarray(np.broadcast_to(case[0], (3,)))
    nees, converged, nis = nees_of(beta, sigma, case[1], exact)
    assert np.mean(converged) > 0.995
    return np.nanmean(nees, axis=0), np.nanmean(nis, axis=0) / 3


ERROR = np.sqrt(2 / (3 * RUNS))  # of a mean


@pytest.mark.parametrize("case", [LARGE, SMALL, UNEVEN])
def test_iterated_with_the_exact_reset(case):
    """So are residuals, NIS, at the root of the iteration."""
    assert np.abs(np.stack(mean(0.0, case, exact=True)) - 1.0).max() < 4 * ERROR


@pytest.mark.parametrize("case", [LARGE, UNEVEN])
def test_the_transport_without_torsion_is_as_good_and_others_and_none_are_not(case):
    """-1/2 is no reset in body axes; without one a round prior adds sigma^4 / (6 r^2)."""
    assert np.abs(mean(0.0, case)[0] - 1.0).max() < 4 * ERROR
    none, right = mean(-0.5, case)[0][0], mean(0.5, case)[0][0]
    if case is LARGE:
        excess = 0.3**4 / (6 * 0.01**2)
        assert none > 5.0 and none - 1.0 == pytest.approx(excess, rel=0.15)
        assert right - 1.0 == pytest.approx(excess, rel=0.15)
    assert none > 2.0 and right > 2.0


def test_in_small_updates_nothing_matters():
    for beta in (-0.5, 0.5):
        assert np.abs(mean(beta, SMALL)[0] - 1.0).max() < 4 * ERROR


@pytest.mark.parametrize("shape", [(1,), (1, 1), (3, 1), (2, 2, 1), (4, 2, 1)])
def test_a_truth_of_other_times_is_refused(shape):
    """One truth is none of two times; that of one run is none of three, but (2, 1) is that of each."""
    line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
    estimates = estimation.Estimate(np.zeros((3, 2, 1)), np.ones((3, 2, 1, 1)))
    with pytest.raises(ShapeError, match="q: expected shape"):
        estimation.consistency(line, estimates, np.zeros(shape))
    assert (estimation.consistency(line, estimates, np.full((2, 1), 2.0)).nees == 4.0).all()
    with pytest.raises(ShapeError, match=r"history.q: expected shape \(..., T, 1\), got \(1,\)"):
        estimation.consistency(line, estimation.Estimate([0.0], [[1.0]]), [[1.0]])


def test_a_true_velocity_of_other_times_is_refused():
    mass = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), [[2.0]]))
    point = estimation.Filter(mass, noise=[[1.0]])
    estimates = estimation.Estimate(np.zeros((2, 1)), np.tile(np.eye(2), (2, 1, 1)), np.zeros((2, 1)))
    with pytest.raises(ShapeError, match=r"v: expected shape \(..., 2, 1\), got \(1, 1\)"):
        estimation.consistency(point, estimates, np.zeros((2, 1)), [[1.0]])
