"""Geodesics that meet a singularity of their chart, or pass beside it, are right or refused.

Twenty charts in which H grows without bound or vanishes, each with its geodesics in a regular chart
(`singular_charts`): straight lines, great circles, rotations about an axis, surfaces of revolution. Claims:
at every requested time a geodesic is the closed form to 1e-6 (1e-4 where it passes nearer than 1e-6), or an
`IntegrationError` is raised, or, inside `jit` and in a batch with ``allow_partial=True``, all is NaN from
some time on. What stays away from the singularity, or passes it at a distance of 1e-3, is right to 1e-8 and
is not refused.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further
from singular_charts import CHARTS, Geodesic

import connections as cn
from connections.checks import IntegrationError

RIGHT, HARDLY_RIGHT, ACCURATE = 1e-6, 1e-4, 1e-8
#: H grows without bound in most of them, and vanishes in one.
#: Batches and compiled motions take the steps of a single one: they meet these only.
DEFAULT = ("interval", "squares", "schwarzschild", "confocal", "polar", "logarithmic")
MISSED = [name for name, chart in CHARTS.items() if chart.across is not None]


@cache
def connection(name):
    chart = CHARTS[name]
    return cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(chart.dim), chart.matrix))


def clocks(end):
    """Few times, many, uneven ones; forwards and backwards."""
    few, many = np.array([0.0, end]), np.linspace(0.0, end, 61)
    uneven = end * np.array([0.0, 0.3, 0.31, 0.499, 0.5, 0.77, 1.0])
    return [sign * times for sign in (1.0, -1.0) for times in (few, many, uneven)]


def along(geodesic, times):
    """The same curve for these times: with the opposite velocity, it goes there back in time."""
    return Geodesic(geodesic.q0, np.sign(times[-1]) * geodesic.v0)


def require_right(chart, q, geodesic, times, tol):
    """At all times; where the regular geodesic is not in the chart, nothing is right."""
    expected = chart.exact(geodesic, times)
    with np.errstate(invalid="ignore"):
        right = np.abs(chart.found(q) - expected) <= tol * (1.0 + np.abs(expected))
    at = np.flatnonzero(~right.reshape(len(times), -1).all(axis=1))
    assert not at.size, f"at {times[at[0]]:g}: {chart.found(q)[at[0]]}, and not {expected[at[0]]}"


def require_right_until_nan(chart, q, geodesic, times, tol):
    """All NaN from some time on, right before; the number of right times."""
    gone = np.isnan(q).all(axis=-1)
    count = int(np.argmax(gone)) if gone.any() else len(times)
    assert gone[count:].all()
    require_right(chart, q[:count], geodesic, times[:count], tol)
    return count


# --- the closed forms themselves ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", always(CHARTS, *DEFAULT))
def test_closed_forms(name):
    """H is the metric of the regular chart; what sticks to the singularity is far from the geodesic."""
    chart = CHARTS[name]
    geodesic = chart.geodesic()
    for q in (geodesic.q0, geodesic.q0 * (1.0 + 0.01 * np.arange(1, chart.dim + 1))):
        J, x = chart.jacobian(q), np.asarray(chart.regular(jnp.asarray(q)))
        np.testing.assert_allclose(
            J.T @ chart.metric(x) @ J, chart.matrix(jnp.asarray(q)), rtol=1e-12, atol=1e-13
        )
    start, there, after = chart.exact(geodesic, chart.time * np.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(chart.found(geodesic.q0), start, atol=1e-12)
    assert np.isnan(after).all() or np.abs(after - there).max() > 0.1 or name == "logarithmic"


def test_published_numbers():
    """sin(pi / 4 + 3)^2, (x0 + x' t)^2, and a radius of Schwarzschild's space by its length."""
    interval = CHARTS["interval"].exact(Geodesic(np.array([0.5]), np.array([1.0])), [0.0, 3.0])
    np.testing.assert_allclose(interval[-1], np.sin(np.pi / 4 + 3.0) ** 2)
    start = Geodesic(np.array([0.5, 0.5]), np.array([-1.0, 0.3]))
    np.testing.assert_allclose(CHARTS["squares"].exact(start, [0.0, 3.0])[-1], [2.0, 1.805], rtol=1e-12)
    start = Geodesic(np.array([6.0, 0.0]), np.array([-1.0, 0.0]))
    speed = 1.0 / np.sqrt(1.0 - 2.0 / 6.0)
    eta = np.arccosh(np.sqrt(0.5 * CHARTS["schwarzschild"].exact(start, [0.0, 12.0])[-1, 0]))
    length = 2.0 * eta + np.sinh(2.0 * eta)  # beyond the throat, where eta < 0
    np.testing.assert_allclose(length, 12.0 * speed - CHARTS["schwarzschild"].time, rtol=1e-10)


# --- right -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", always(CHARTS, "polar", "schwarzschild"))
def test_away_from_the_singularity(name):
    """Nine tenths of the way there."""
    chart = CHARTS[name]
    for times in clocks(0.9 * chart.time):
        geodesic = along(chart.geodesic(), times)
        q = cn.geodesic(connection(name), geodesic.q0, geodesic.v0, times).q
        require_right(chart, q, geodesic, times, ACCURATE)


@pytest.mark.parametrize("name", always(MISSED, "polar", "schwarzschild"))
def test_beside_the_singularity(name):
    """At distances of 0.3, 0.01 and 0.001, to twice the time, far beyond it."""
    chart = CHARTS[name]
    for miss in (0.3, 1e-2, 1e-3):
        for times in clocks(2.0 * chart.time):
            geodesic = along(chart.geodesic(miss), times)
            q = cn.geodesic(connection(name), geodesic.q0, geodesic.v0, times).q
            require_right(chart, q, geodesic, times, ACCURATE)


# --- right or refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", always(CHARTS, *DEFAULT))
def test_through_the_singularity(name):
    chart = CHARTS[name]
    for times in clocks(2.0 * chart.time):
        geodesic = along(chart.geodesic(), times)
        try:
            q = cn.geodesic(connection(name), geodesic.q0, geodesic.v0, times).q
        except IntegrationError:
            continue
        require_right(chart, q, geodesic, times, RIGHT)


# Beside gimbal lock, terms of H cancel, so that round-off of their difference asks for 100,000 steps.
@pytest.mark.parametrize("name", [further(name) for name in MISSED if name != "euler"])
def test_a_hair_beside_the_singularity(name):
    chart = CHARTS[name]
    for miss, tol in ((1e-6, RIGHT), (1e-9, HARDLY_RIGHT), (1e-13, HARDLY_RIGHT)):
        for times in clocks(2.0 * chart.time):
            geodesic = along(chart.geodesic(miss), times)
            try:
                q = cn.geodesic(connection(name), geodesic.q0, geodesic.v0, times).q
            except IntegrationError:
                continue
            require_right(chart, q, geodesic, times, tol)


def in_one_batch(chart):
    """Three starts that go through the singularity, to its side of it, and less than halfway: (3, n) each."""
    through, beside = chart.geodesic(), chart.geodesic(0.1 if chart.across is not None else 0.0)
    slow = Geodesic(through.q0, 0.4 * through.v0)
    return (through, beside, slow), *(
        np.stack([getattr(g, k) for g in (through, beside, slow)]) for k in ("q0", "v0")
    )


@pytest.mark.further
@pytest.mark.parametrize("name", always(DEFAULT, "interval"))
def test_in_a_batch(name):
    """All right, or refused."""
    chart = CHARTS[name]
    rows, q0, v0 = in_one_batch(chart)
    for times in clocks(2.0 * chart.time)[:2]:
        try:
            q = cn.geodesic(connection(name), q0, v0, times).q
        except IntegrationError:
            continue
        for row, found in zip(rows, q, strict=True):
            require_right(chart, found, row, times, RIGHT)


@pytest.mark.further
@pytest.mark.parametrize("name", always(DEFAULT, "squares"))
def test_in_a_batch_that_may_fail_in_part(name):
    """Those that fail are NaN from there on, and the others are right."""
    chart = CHARTS[name]
    rows, q0, v0 = in_one_batch(chart)
    times = np.linspace(0.0, 2.0 * chart.time, 21)
    motion = cn.geodesic(connection(name), q0, v0, times, allow_partial=True)
    np.testing.assert_array_equal(np.isnan(motion.q).any(axis=-1), np.isnan(motion.v).any(axis=-1))
    for row, found in zip(rows, motion.q, strict=True):
        assert require_right_until_nan(chart, found, row, times, RIGHT) >= 9  # until 0.8 of the way there
    require_right(chart, motion.q[2], rows[2], times, ACCURATE)


@pytest.mark.parametrize("name", always(DEFAULT, "interval"))
def test_inside_jit(name):
    """NaN from there on, alone and under `vmap`; forwards and backwards."""
    chart = CHARTS[name]
    rows, q0, v0 = in_one_batch(chart)

    @jax.jit
    @jax.vmap
    def motion(q0, v0, times):
        return cn.geodesic(connection(name), q0, v0, times).q

    forwards = np.linspace(0.0, 2.0 * chart.time, 21)
    signs = np.array([1.0, 1.0, 1.0, -1.0])
    starts, clock = [0, 1, 2, 0], signs[:, None] * forwards
    found = np.asarray(motion(q0[starts], signs[:, None] * v0[starts], clock))
    for q, times, start in zip(found, clock, starts, strict=True):
        geodesic = along(rows[start], times)
        assert require_right_until_nan(chart, q, geodesic, times, RIGHT) >= 9
