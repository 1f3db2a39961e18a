"""Directions: filters on the sphere, whose frame has a pole that no estimate should notice."""

from functools import partial

import filter_runs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further

import connections as cn
from connections import estimation
from connections.checks import ConvergenceError, FrameError, PointError, ShapeError
from connections.estimation.displacements import (
    GeodesicDisplacements,
    SphereDisplacements,
    displacements_of,
    transport_along_at,
)

SOUTH = cn.SphereFrame()


def largest_error(value, expected):
    return np.abs(np.asarray(value) - np.asarray(expected)).max()


def of(frame):
    return displacements_of(estimation.Filter(frame, noise=np.eye(2)).nabla, 4)


def test_great_circles_are_the_geodesics_of_the_metric():
    """Beside Runge and Kutta's method in the frame, for the exponential, its derivative and transport."""
    near, q, e = of(SOUTH), jnp.array([0.6, 0.0, 0.8]), jnp.array([0.4, -0.7])
    nabla = cn.LeviCivita(cn.ConstantMetric(SOUTH, 2.0 * np.eye(2)))
    assert isinstance(displacements_of(nabla, 4), SphereDisplacements)
    uneven = cn.LeviCivita(cn.ConstantMetric(SOUTH, np.diag([1.0, 2.0])))
    assert isinstance(displacements_of(uneven, 4), GeodesicDisplacements)
    (p, J, _), (end, slope, _) = near.moved_at(q, e), GeodesicDisplacements(nabla, 32).moved_at(q, e)
    transport, _ = transport_along_at(nabla, nabla, q, e, 32)
    assert max(largest_error(p, end), largest_error(J, slope)) < 1e-8
    assert largest_error(near.transport_at(nabla, q, e), transport) < 1e-8
    assert largest_error(J, transport) > 0.05  # the curvature
    assert largest_error(near.difference_at(q, p), e) < 1e-14


@pytest.mark.parametrize("size", [0.0, 1e-9, 0.00999, 0.01001, 3.1])
def test_at_all_lengths(size):
    """D exp is the derivative of exp, and log brings back; both are smooth at zero."""
    near, q = of(SOUTH), jnp.array([0.0, 0.6, 0.8])
    e = size * jnp.array([0.6, -0.8])
    p, J, _ = near.moved_at(q, e)
    by_points = SOUTH.dual_at(p) @ jax.jacfwd(lambda e: near.moved_at(q, e)[0])(e)
    assert largest_error(J, by_points) < 1e-12
    assert largest_error(near.difference_at(q, p), e) < 1e-13 * size + 1e-16
    slope = jax.jacfwd(lambda e: near.difference_at(q, near.moved_at(q, e)[0]))(e)
    assert largest_error(slope, np.eye(2)) < 1e-11


def turned(q, u, t):
    """A direction in a frame that turns by u, and a wind that depends on it."""
    return jnp.cross(q, u) + 0.3 * jnp.array([q[1], -q[0], 0.0]) + 0.2 * (jnp.eye(3) - jnp.outer(q, q))[0]


def history_in(frame, rest=0):
    """With as many further unknown numbers as `rest`, about which nothing is learned."""
    whole = cn.ProductFrame(frame, cn.CoordinateFrame(rest)) if rest else frame

    def velocity(q, u, t):
        return jnp.append(frame.dual_at(q[:3]) @ turned(q[:3], u, t), jnp.zeros(rest))

    def noise(q, u, t):
        X = frame.matrix_at(q[:3])
        return (
            jnp.zeros((2 + rest,) * 2).at[:2, :2].set(1e-3 * X.T @ jnp.diag(jnp.array([1.0, 4.0, 2.0])) @ X)
        )

    filter = estimation.Filter(whole, velocity=velocity, noise=noise)
    start = np.array([0.3, 0.01, -np.sqrt(1.0 - 0.0901)])
    X, P = frame.matrix(start), np.eye(2 + rest)
    P[:2, :2] = X.T @ np.diag([0.04, 0.01, 0.09]) @ X
    start = np.append(start, np.zeros(rest))
    camera = estimation.Sensor(lambda q: q[:3], 1e-4 * np.eye(2), connection=frame)
    y = np.full((8, 3), np.nan)
    y[[2, 6]] = [[0.05, 0.03, -0.99], [-0.1, 0.02, -0.99]]
    y[[2, 6]] /= np.linalg.norm(y[[2, 6]], axis=1)[:, None]
    times, u = 0.1 * np.arange(1, 9), np.tile([0.1, -0.4, 0.2], (8, 1))
    history = filter.run(estimation.Estimate(start, P), times, u, y, camera)
    return history.estimate, filter.smooth(history)


@pytest.mark.parametrize("rest", [0, pytest.param(1, marks=pytest.mark.further)])
def test_the_pole_of_the_frame_is_not_noticed(rest):
    """The same in R^3 from frames with other poles; the path passes 0.007 rad beside one of them."""
    frames = SOUTH, cn.SphereFrame((0.0, 1.0, 0.0))
    found = history_in(frames[0], rest), history_in(frames[1])
    assert np.abs(found[0][0].q[:, :3] - np.array(SOUTH.pole)).max(axis=1).min() < 0.01
    for one, other in zip(*found, strict=True):
        q = one.q[:, :3]
        assert largest_error(q, other.q) < 1e-8
        X, Y = (frame.matrix(q) for frame in frames)
        P, Q = X @ one.P[:, :2, :2] @ np.swapaxes(X, 1, 2), Y @ other.P @ np.swapaxes(Y, 1, 2)
        assert largest_error(P, Q) < 1e-8


RUNS, STEPS, R = 1000, 3, 0.01


def slits(q):
    """Angles behind two slits, rad; each is known on a great circle, which is straight in the error."""
    return jnp.arctan2(q[:2], -q[2])


@partial(jax.jit, static_argnums=(0, 1))
def nees_of(reset, iterations):
    """NEES / 2 (runs, steps): a direction known to 0.3 rad around the pole, seen by either slit in turn."""
    filter = estimation.Filter(SOUTH, noise=1e-6 * np.eye(2))
    given = {"exact": "exact", "transport": filter.nabla, "none": None}[reset]
    filter = estimation.Filter(SOUTH, noise=1e-6 * np.eye(2), reset=given, iterations=iterations)
    sensor = estimation.Sensor(slits, R**2 * np.eye(2))

    def run(key):
        turn, drawn, read = jax.random.split(key, 3)
        q0 = SOUTH.project_at(jnp.array([0.1, 0.0, -1.0]) + 0.2 * jax.random.normal(turn, (3,)))
        q = filter.space.moved_at((q0,), 0.3 * jax.random.normal(drawn, (2,)))[0][0]
        y = slits(q) + R * jax.random.normal(read, (STEPS, 2))
        y = jnp.where(jnp.arange(2) == jnp.arange(STEPS)[:, None] % 2, y, jnp.nan)
        start = estimation.Estimate(q0, 0.09 * jnp.eye(2))
        history = filter.run(start, jnp.zeros(STEPS), jnp.zeros((STEPS, 2)), y, sensor)
        return filter_runs.nees(filter, history.estimate, jnp.broadcast_to(q, (STEPS, 3)))

    return jax.vmap(run)(jax.random.split(jax.random.PRNGKey(4), RUNS))


def mean(*case):
    return np.nanmean(np.asarray(nees_of(*case)), axis=0)


@pytest.mark.parametrize("reset", ["exact", further("transport")])
def test_consistent_across_the_pole(reset):
    assert np.abs(mean(reset, 30) - 1.0).max() < 4.0 * np.sqrt(2.0 / (2 * RUNS))


@pytest.mark.parametrize(
    "reset, iterations, place, least", [("none", 30, 0, 5.0), further("exact", 1, 0, 2.0)]
)
def test_inconsistent_without_a_reset_or_with_one_iteration(reset, iterations, place, least):
    """The negative control."""
    assert mean(reset, iterations)[place] > least


def test_bad_input_is_named():
    for pole, error, word in (
        ((0.0, 0.0, -2.0), PointError, "norm 1"),
        ((1.0,), PointError, "pole"),
        ("north", TypeError, "pole"),
    ):
        with pytest.raises(error, match=word):
            cn.SphereFrame(pole)
    filter = estimation.Filter(SOUTH, noise=np.eye(2))
    P, camera = 0.1 * np.eye(2), estimation.Sensor(lambda q: q, np.eye(2), connection=SOUTH)
    with pytest.raises(FrameError, match="another pole"):
        filter.predict(estimation.Estimate([0.0, 0.0, -1.0], P), [0.0, 0.0], t=0.1)
    with pytest.raises(PointError):
        filter.update(estimation.Estimate([0.0, 0.0, 1.0], P), [0.0, 0.0, 1.1], camera)
    with pytest.raises(ShapeError):
        filter.update(estimation.Estimate([0.0, 0.0, 1.0], P), [0.0, 1.0], camera)
    with pytest.raises(ConvergenceError, match="no geodesic"):
        filter.difference(estimation.Estimate([0.6, 0.0, 0.8], P), [-0.6, 0.0, -0.8])
