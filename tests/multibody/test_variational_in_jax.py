"""Variational steps inside JAX, in batches, and their derivatives: those of the root, against differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import armed, assemble
from pages import run_page

from connections import multibody as mb
from connections.checks import PointError, ShapeError
from connections.engines import thread_chunks

H = 0.04


@pytest.fixture(scope="module")
def robot():
    rng = np.random.default_rng(4)
    return armed(assemble(rng, (mb.Free, mb.Revolute, mb.Spherical, mb.Prismatic), [-1, 0, 1, 0]), rng, 1.0)


@pytest.fixture(scope="module")
def state(robot):
    rng = np.random.default_rng(5)
    q, v, tau = robot.random(rng), 8.0 * rng.normal(size=robot.nv), rng.normal(size=robot.nv)
    return q, mb.discrete_momentum(robot, q, mb.displace(robot, q, H * v), H), tau


def test_steps_have_the_same_bits_everywhere(robot, state):
    """One state, rows, `jit` and `vmap`; what no step leads to is NaN in its row, and an error outside."""
    q, P, tau = state
    rows = np.stack([P, 0.5 * P, -P])
    one = mb.variational_step(robot, q, P, H, tau)
    many = mb.variational_step(robot, q, rows, H, tau)
    listed = mb.variational_step(robot, list(q), P, H, tau)
    inside = jax.jit(jax.vmap(lambda P: mb.variational_step(robot, q, P, H, tau)))(jnp.asarray(rows))
    for part in range(2):
        np.testing.assert_array_equal(many[part][0], one[part])
        np.testing.assert_array_equal(listed[part], one[part])
        np.testing.assert_array_equal(inside[part], many[part])
    assert np.abs(many[0][1] - many[0][0]).max() > 1e-3
    found, _ = jax.jit(lambda P: mb.variational_step(robot, q, P, H))(jnp.stack([P, 1e5 * P]))
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()
    with pytest.raises(PointError, match="q: joint"):
        mb.variational_step(robot, 1.1 * q, P, H)
    with pytest.raises(ShapeError, match="h"):
        jax.jit(lambda h: mb.variational_step(robot, q, P, h))(jnp.ones(2))


def test_threads_make_the_same_steps(robot, state, monkeypatch):
    """Many rows in three threads, each with a workspace of its own: the bits of single calls."""
    q, P, tau = state
    rows = np.linspace(-1.0, 1.0, 300)[:, None] * P
    monkeypatch.setattr(thread_chunks, "WORTH_A_THREAD", 0.0)
    monkeypatch.setattr(thread_chunks, "get_num_threads", lambda: 3)
    many = mb.variational_step(robot, q, rows, H, tau)
    for row in range(0, 300, 37):
        one = mb.variational_step(robot, q, rows[row], H, tau)
        for part in range(2):
            np.testing.assert_array_equal(many[part][row], one[part])


def test_derivatives_are_those_of_the_root(robot, state):
    """Of q1 and P1 by q, P, tau and h, and of the discrete momentum by q0, q1 and h: by differences."""
    q, P, tau = state
    q1, P1 = mb.variational_step(robot, q, P, H, tau)
    rng, n = np.random.default_rng(6), robot.nv
    w, ways = rng.normal(size=(3, n)), rng.normal(size=(4, n))
    scale = np.abs(P).max()

    def outcome(x, dP, dtau, dh, y):
        end, after = mb.variational_step(robot, mb.displace(robot, q, x), P + dP, H + dh, tau + dtau)
        way = mb.difference(robot, q1, end)
        p = mb.discrete_momentum(robot, mb.displace(robot, q, x), mb.displace(robot, q1, y), H + dh)
        return scale * w[0] @ way + w[1] @ after + w[2] @ p

    along = ways[0], scale * ways[1], scale * ways[2], 0.3, ways[3]
    nothing = tuple(jnp.zeros(np.shape(each)) for each in along)
    slopes = jax.jit(jax.grad(outcome, (0, 1, 2, 3, 4)))(*nothing)
    for place, (slope, direction) in enumerate(zip(slopes, along, strict=True)):
        ends = []
        for e in (1e-5, -1e-5):
            moved = [np.zeros(np.shape(each)) for each in along]
            moved[place] = e * np.asarray(direction)
            moved[3] = float(moved[3])
            ends.append(outcome(*moved))
        expected = (ends[0] - ends[1]) / 2e-5
        assert np.sum(slope * direction) == pytest.approx(expected, rel=2e-7, abs=1e-8 * scale)
        assert abs(expected) > 1e-2 * scale  # control: none of them is zero


def pendulum():
    """Two hinges about axes that are not parallel, under gravity."""
    mechanism, below = mb.Mechanism(), np.eye(4)
    below[2, 3] = -0.5
    for name, above, place, axis in (
        ("a", "world", np.eye(4), (0.0, 1.0, 0.0)),
        ("b", "a", below, (0.6, 0.8, 0.0)),
    ):
        mechanism.add_body(name, 1.0, (0.0, 0.05, -0.25), np.diag([0.08, 0.08, 0.01]))
        mechanism.add_joint(f"to {name}", above, name, mb.Revolute(axis), place)
    return mechanism.build()


@pytest.mark.further
def test_a_gradient_through_ten_thousand_steps():
    """Of an arm's end after 50 s, in one scan: by differences of the same steps outside of JAX."""
    arm, h, count = pendulum(), 0.005, 10_000
    q0, P0, w = np.array([0.3, -0.2]), np.array([0.1, 0.05]), np.array([1.0, -0.5])

    @jax.jit
    @jax.value_and_grad
    def end(P):
        step = lambda state, _: (mb.variational_step(arm, *state, h), None)  # noqa: E731
        (q, _), _ = jax.lax.scan(step, (jnp.asarray(q0), P), None, length=count)
        return q @ w

    def outside(P):
        q = q0
        for _ in range(count):
            q, P = mb.variational_step(arm, q, P, h)
        return q @ w

    value, slope = end(jnp.asarray(P0))
    assert value == outside(P0)
    for i in range(2):
        e = 1e-6 * np.eye(2)[i]
        expected = (outside(P0 + e) - outside(P0 - e)) / 2e-6
        assert slope[i] == pytest.approx(expected, rel=1e-5)
    # control: a derivative forgets none of the steps; that of the last ones alone is another
    assert abs(slope[0]) > 10.0 * h


@pytest.mark.further
def test_derivatives_of_the_momentum_are_those_of_the_definition(robot, state):
    """The recursion beside the definition in JAX, which second derivatives are of."""
    q, P, tau = state
    q1, _ = mb.variational_step(robot, q, P, H, tau)
    steps, frame = robot.traced.steps, robot.frame
    momentum, h = steps._definition.momentum_of_way_at, jnp.array([H])

    @jax.jit
    def defined(q, q1):
        at_begin = frame.lie_derivative_at(lambda p: momentum(p, q1, h), q).T
        return jnp.stack([at_begin, frame.lie_derivative_at(lambda p: momentum(q, p, h), q1).T])

    found = steps._slopes(q, q1, h)
    np.testing.assert_allclose(
        found, defined(jnp.asarray(q), jnp.asarray(q1)), atol=1e-11 * np.abs(found).max()
    )
    N, (_, back) = found[1], steps._slopes(q1, q, h)
    np.testing.assert_allclose(back, N.T, atol=1e-12 * np.abs(N).max())  # mixed derivatives of one action
    assert np.abs(N - N.T).max() > 1e-3 * np.abs(N).max()


@pytest.mark.further
def test_second_derivatives():
    """Of a hinge: the derivative of the first derivative, by differences."""
    mechanism = mb.Mechanism()
    mechanism.add_body("a", 1.0, (0.0, 0.0, -0.5), np.diag([0.1, 0.1, 0.01]))
    mechanism.add_joint("hinge", "world", "a", mb.Revolute((0.0, 1.0, 0.0)))
    hinge = mechanism.build()

    def end(P):
        q, P = mb.variational_step(hinge, [0.7], P[None], 0.1)
        return jnp.sin(q[0]) + P[0]

    slope = jax.jit(jax.grad(end))
    second = jax.jit(jax.grad(jax.grad(end)))(0.4)
    assert second == pytest.approx(float(slope(0.4001) - slope(0.3999)) / 2e-4, rel=1e-6)
    assert abs(second) > 1e-4


@pytest.mark.further
def test_page() -> None:
    run_page("integrators.md", blocks=1)
