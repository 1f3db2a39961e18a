"""One motion in compiled calls against the same motion in a batch, whose loop over steps is in Python."""

import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections.checks import IntegrationError
from connections.integration import one_motion

PLANE = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2))
Q, V = np.array([0.0, 1.0]), np.array([1.0, 0.0])


def both(times, **options):
    """The motion alone, and as the first of two."""
    alone = cn.geodesic(PLANE, Q, V, times, **options)
    return alone, cn.geodesic(PLANE, np.stack([Q, Q]), np.stack([V, 0.5 * V]), times, **options)


@pytest.mark.parametrize("count", [2, one_motion.GOALS - 1, one_motion.GOALS, one_motion.GOALS + 1, 100])
@pytest.mark.parametrize("end", [3.0, -3.0])
def test_as_in_a_batch_and_as_the_closed_form(count, end):
    times = np.linspace(0.0, end, count)
    alone, batch = both(times)
    np.testing.assert_allclose(alone.q, np.stack([np.tanh(times), 1.0 / np.cosh(times)], axis=1), rtol=1e-9)
    np.testing.assert_allclose(alone.q, batch.q[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(alone.v, batch.v[0], rtol=1e-12, atol=1e-13)
    assert alone.drift.shape == (count,) and alone.drift[0] == 0.0 and 0.0 < alone.drift.max() < 1e-9


def test_more_steps_than_one_call_takes():
    """No step is longer than 0.001, so that a call takes 256 of 3,000 between two requested times."""
    alone, batch = both([0.0, 3.0], max_step=0.001)
    np.testing.assert_allclose(alone.q[-1], [np.tanh(3.0), 1.0 / np.cosh(3.0)], rtol=1e-12)
    np.testing.assert_allclose(alone.q, batch.q[0], rtol=1e-13)


@pytest.mark.parametrize("times", [[0.0, 3.0], np.linspace(0.0, 3.0, 50)])
def test_too_many_steps(times):
    said = []
    for batch in ((), (2,)):
        start, velocity = np.broadcast_to(Q, (*batch, 2)), np.broadcast_to(V, (*batch, 2))
        with pytest.raises(IntegrationError, match="more than 300 steps") as failed:
            cn.geodesic(PLANE, start, velocity, times, max_step=0.005, max_steps=300)
        said.append(str(failed.value).partition("by t = ")[2])
        assert (
            failed.value.motion.times[-1] < 1.6 if not batch else np.isnan(failed.value.motion.q[0, -1]).all()
        )
    assert said[0] == said[1]


@pytest.mark.further
def test_a_singular_chart_is_refused_in_the_same_words():
    """H grows without bound at q = 0 and at q = 1, which the motion reaches at t = pi / 4."""
    chart = cn.MatrixMetric(cn.CoordinateFrame(1), lambda q: (1.0 / (q[0] * (1.0 - q[0]))).reshape(1, 1))
    said = []
    for row in ((), (2,)):
        start, velocity = np.full((*row, 1), 0.5), np.full((*row, 1), 1.0)
        with pytest.raises(IntegrationError) as failed:
            cn.geodesic(cn.LeviCivita(chart), start, velocity, [0.0, 3.0])
        said.append(str(failed.value))
    assert all("<v, v> is conserved" in words or "shorter than" in words for words in said), said
