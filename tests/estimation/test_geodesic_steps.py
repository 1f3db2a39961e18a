"""Steps of geodesics are as many as their error asks for: in updates, differences, smoothing, and sensors.

The half plane has exp and log in closed form, by which all is judged.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

import connections as cn
from connections import estimation
from connections.checks import IntegrationError
from connections.estimation import Status

FRAME = cn.CoordinateFrame(2).change(lambda q: q[1] * jnp.eye(2))  # orthonormal
PLANE = cn.LeviCivita(cn.ConstantMetric(FRAME, np.eye(2)))
BEACONS = jnp.array([[0.0, 2.0], [1.0, 1.0], [-1.0, 1.5]])
NOISE = 0.01 * np.eye(2)
START = estimation.Estimate([0.2, 1.2], 0.5**2 * np.eye(2))
FILTER = estimation.Filter(PLANE, noise=NOISE)
FEW = estimation.Filter(PLANE, noise=NOISE, geodesic_steps=4)


def distances(q):
    gap = q - BEACONS
    return jnp.arccosh(1.0 + jnp.sum(gap**2, axis=1) / (2.0 * q[1] * BEACONS[:, 1]))


RANGES = estimation.Sensor(distances, 0.01**2 * np.eye(3))


def displaced(q, e):
    """exp_q(e): q1 i + q0 is carried from i, where exp of d (sin a, cos a) is a turn of exp(d) i."""
    d, a = np.hypot(*e), -np.arctan2(e[0], e[1])
    c, s, top = np.cos(a / 2.0), np.sin(a / 2.0), 1j * np.exp(d)
    z = (c * top + s) / (c - s * top)
    return np.array([q[0] + q[1] * z.real, q[1] * z.imag])


def error_to(q, p):
    """e of exp_q(e) = p."""
    z = ((p[0] - q[0]) + 1j * p[1]) / q[1]
    d = np.arccosh(1.0 + abs(z - 1j) ** 2 / (2.0 * z.imag))
    w = (z - 1j) / (z + 1j)  # in the disc, where the geodesics from i are rays
    a = np.angle(1j * np.conj(w)) - np.pi / 2.0 if abs(w) > 0.0 else 0.0
    return d * np.array([np.sin(a), np.cos(a)])


@pytest.fixture(scope="module")
def truths():
    """Points about half a unit from the estimate, and their measured distances to beacons."""
    rng = np.random.default_rng(0)
    points = np.stack([displaced(START.q, 0.5 * rng.normal(size=2)) for _ in range(100)])
    return points, np.asarray(jax.vmap(distances)(points)) + 0.01 * rng.normal(size=(100, 3))


@pytest.fixture(scope="module")
def together(truths):
    """Updates by all measured distances, and, last, one that needs too many steps: in one vmap.

    That one has a prior in which the area grows by e^30, in a frame that is not regular there.
    """
    P = np.stack([START.P] * 100 + [20.0**2 * np.eye(2)])
    y = np.concatenate([truths[1], [[30.0, 30.2, 30.4]]])
    N = np.stack([RANGES.N] * 100 + [1e-8 * np.eye(3)])
    update = lambda P, y, N: FILTER.update(  # noqa: E731
        estimation.Estimate(START.q, P), y, estimation.Sensor(distances, N)
    )
    return jax.jit(jax.vmap(update))(P, y, N)


@pytest.fixture(scope="module")
def updated(together):
    return jax.tree_util.tree_map(lambda a: a[:100], together)


@pytest.fixture(scope="module")
def few(truths):
    """Innovations of the same updates by four steps."""
    return jax.jit(jax.vmap(lambda y: FEW.update(START, y, RANGES)))(truths[1])[1]


def test_updates_have_as_many_steps_as_they_need(truths, updated):
    """In one vmap no update fails, where four steps fail often; each is the minimum by the closed form."""
    found, said = updated
    assert (np.asarray(said.status) == Status.SETTLED).all()
    for number in range(0, 100, 10):
        y = truths[1][number]

        def rows(e, y=y):
            return np.concatenate([e / 0.5, (y - distances(displaced(START.q, e))) / 0.01])

        e = error_to(START.q, found.q[number])
        best = least_squares(rows, e, xtol=1e-14, ftol=1e-14)
        assert np.linalg.norm(best.jac @ (best.x - e)) < 1.5e-3  # standard deviations
        assert said.nis[number] == pytest.approx(2.0 * best.cost, rel=5e-3, abs=1e-4)


def test_what_is_made_at_once_is_what_is_traced(truths, updated):
    """An update outside of JAX's transformations compiles more steps only if it needs them."""
    found, said = updated
    for number in range(2):
        one, own = FILTER.update(START, truths[1][number], RANGES)
        assert np.allclose(one.q, found.q[number], atol=1e-9) and np.allclose(
            one.P, found.P[number], rtol=1e-6
        )
        assert own.steps == said.steps[number]


def test_a_number_of_steps_is_a_fixed_choice(truths, few):
    coarse = np.asarray(few.status) == Status.GEODESIC_TOO_COARSE
    assert 20 < coarse.sum() < 100 and np.isnan(few.nis[coarse]).all()
    with pytest.raises(IntegrationError, match="geodesic_steps=16, or None"):
        FEW.update(START, truths[1][np.argmax(coarse)], RANGES)


def test_differences_of_points_far_apart(truths):
    """log in closed form, also at a distance of seven; whole steps lead away from the last but one."""
    points = [*truths[0][:20], displaced(START.q, [0.8, 1.8]), displaced(START.q, [-0.1, -7.0])]
    e = FILTER.difference(jax.tree_util.tree_map(lambda a: np.stack([a] * 22), START), np.stack(points))
    exact = np.stack([error_to(START.q, p) for p in points])
    assert np.abs(e - exact).max() < 5e-4


@pytest.mark.further
def test_a_gradient_through_chosen_steps(truths):
    """By differences, of the log-likelihood by the noise of the sensor, in reverse mode."""
    y = truths[1][int(np.argmax(np.abs(truths[0][:, 0] - START.q[0])))]

    @jax.jit
    def likelihood(s):
        return FILTER.update(START, y, estimation.Sensor(distances, s**2 * jnp.eye(3)))[1].log_likelihood

    slope = jax.jit(jax.grad(likelihood))(0.02)
    assert slope == pytest.approx(float(likelihood(0.0201) - likelihood(0.0199)) / 2e-4, rel=1e-3)


def test_a_measured_point_far_from_the_expected_one():
    """Of a filter whose own errors are in closed form: its residual and NIS need the sensor's geodesics."""
    flat = estimation.Filter(cn.CoordinateFrame(2), noise=NOISE)
    sensor = estimation.Sensor(lambda q: q, 0.5**2 * np.eye(2), connection=PLANE)
    r = np.array([1.2, -3.0])
    update = jax.jit(lambda P, y: flat.update(estimation.Estimate(START.q, P * jnp.eye(2)), y, sensor)[1])
    known, wide = (update(P, displaced(START.q, r)) for P in (1e-6, 0.3))
    for said in (
        known,
        wide,
    ):  # in the wide prior, the best fit is so near to y that few steps are enough there
        assert np.abs(said.r - r).max() < 5e-4
    assert known.nis == pytest.approx(r @ r / 0.5**2, rel=2e-3)


def test_a_smoother_has_as_many_steps_as_it_needs(truths):
    """Two readings at one place, the first of which says nothing: both smoothed estimates are the same."""
    still = estimation.Filter(PLANE, noise=1e-9 * np.eye(2))
    for number in (0, 1):
        y = np.stack([np.full(3, np.nan), truths[1][number]])
        history = still.run(START, [0.0, 1.0], np.zeros((2, 2)), y, RANGES)
        smoothed = still.smooth(history)
        off = error_to(history.estimate.q[1], smoothed.q[0])
        assert np.sqrt(off @ np.linalg.solve(history.estimate.P[1], off)) < 4e-3
        assert np.allclose(smoothed.P[0], smoothed.P[1], rtol=2e-2, atol=1e-3 * np.abs(smoothed.P[1]).max())


def test_beyond_256_steps_there_is_nothing(together):
    found, said = jax.tree_util.tree_map(lambda a: a[100], together)
    assert said.status == Status.GEODESIC_TOO_COARSE and np.isnan(found.q).all() and np.isnan(said.nis)
