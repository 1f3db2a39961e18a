"""Warm starts of closed chains: the recursions with a `guess` of the loops' solution, from `close_loops`."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from closed_chains import four_bar
from recursion_functions import COMPILED, SOME, call, configurations, model, states

from connections import multibody as mb
from connections.checks import ClosureError, NonFiniteError, PointError, ShapeError


def nearby(robot, rng, *batch):
    """A guess, and configurations near it."""
    q, _ = configurations(robot, rng)
    return mb.close_loops(robot, q), mb.displace(robot, q, 1e-2 * rng.standard_normal((*batch, robot.nv)))


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-11 * np.max(np.abs(expected)))


@pytest.mark.parametrize(
    ("name", "of"),
    [
        *((name, "legged robot") if name in SOME else further(name, "legged robot") for name in COMPILED),
        *((name, "four-bar") for name in SOME),
        *(further(name, of) for of in ("planar robot", "belt leg", "cam") for name in SOME),
        further("curvature_operator", "four-bar"),
    ],
)
def test_a_guess_changes_no_number(name, of, rng):
    """One configuration, rows with one guess, and with a guess for each."""
    robot = model(of)
    if name == "curvature_operator" and robot.nv == 1:  # K v = 0, so that there is only round-off to compare
        C = mb.coriolis_matrix(robot, q := nearby(robot, rng, 3)[1], np.ones((3, 1)))
        K = call(name, q, np.ones((3, 1)), of=robot)
        assert np.all(np.abs(K) < 1e-11 * C**2 / mb.mass_matrix(robot, q))
        return
    guess, q = nearby(robot, rng, 3)
    x = [q, *states(name, rng, 3, of=robot)[1:]]
    expected = call(name, *x, of=robot)
    same(call(name, *x, of=robot, guess=guess), expected)
    same(call(name, *x, of=robot, guess=np.stack([guess] * 3)), expected)
    one = [y[0] for y in x]
    same(call(name, *one, of=robot, guess=guess), call(name, *one, of=robot))


def test_a_guess_chooses_the_branch(rng):
    """From a configuration of the other assembly, the numbers are those of the robot built with it."""
    up, down = (four_bar(side=side).build() for side in (1.0, -1.0))
    q, v = up.neutral() + 0.05, np.ones(up.nv)
    guess = mb.close_loops(down, down.neutral())
    same(mb.coriolis_matrix(up, q, v, guess=guess), mb.coriolis_matrix(down, q, v))
    same(mb.close_loops(up, q, guess=guess), mb.close_loops(down, q))
    assert not np.allclose(mb.coriolis_matrix(up, q, v), mb.coriolis_matrix(down, q, v))  # a control


def test_joints_by_name_and_in_a_row():
    robot = model("four-bar")
    q = robot.neutral() + 0.1
    names = robot.spanning_tree.joint_names
    by_name, row = robot.spanning_configuration(q), mb.close_loops(robot, q)
    assert np.array_equal(np.concatenate([by_name[name] for name in names]), row)
    tree = model("tree")
    assert np.array_equal(mb.close_loops(tree, tree.neutral()), tree.neutral())


def motion(robot, state, tau, warm):
    """The end of a motion by a constant force: in each step the loops are followed from the last one."""

    def step(state, _):
        q, v, guess = state
        a = mb.forward_dynamics(robot, q, v, tau, guess=guess if warm else None)
        v = v + 1e-3 * a
        q = mb.displace(robot, q, 1e-3 * v)
        return (q, v, mb.close_loops(robot, q, guess=guess) if warm else guess), None

    q, v = state
    start = jnp.asarray(q), jnp.asarray(v), jnp.asarray(mb.close_loops(robot, q))
    (q_end, v_end, _), _ = jax.lax.scan(step, start, length=50)
    return jnp.concatenate([q_end, v_end])


def test_a_guess_is_carried_through_a_scan(rng):
    robot = model("four-bar")
    state, tau = configurations(robot, rng), 0.1 * rng.standard_normal(robot.nv)
    ends = [jax.jit(partial(motion, robot, state, warm=warm))(tau) for warm in (True, False)]
    same(*ends)
    assert np.max(np.abs(ends[0] - np.concatenate(state))) > 1e-3  # a control: it moves


def test_a_force_accelerates_by_the_inverse_of_H(rng):
    """The derivative by the force, in both modes, where the loops are followed from a guess."""
    robot = model("four-bar")
    guess, q = nearby(robot, rng)
    v, tau = rng.standard_normal((2, robot.nv))
    for derivative in (jax.jacfwd, jax.jacrev):
        found = jax.jit(derivative(lambda tau: mb.forward_dynamics(robot, q, v, tau, guess=guess)))(tau)
        same(found @ mb.mass_matrix(robot, q), np.eye(robot.nv))


@pytest.mark.further
@pytest.mark.parametrize("of", ["four-bar", "planar robot", "cam"])
def test_derivatives_through_a_scan(of, rng):
    robot = model(of)
    state, tau = configurations(robot, rng), 0.1 * rng.standard_normal(robot.nv)
    for derivative in (jax.jacfwd, jax.jacrev):
        warm, cold = (
            jax.jit(derivative(partial(motion, robot, state, warm=warm)))(tau) for warm in (True, False)
        )
        same(warm, cold)
        assert np.max(np.abs(warm)) > 1e-4


@pytest.mark.further
def test_derivatives_by_a_guess_are_zero_and_all_orders_work(rng):
    robot = model("four-bar")
    guess, q = nearby(robot, rng)

    def gravity(q, guess):
        return jnp.sum(mb.gravity(robot, q, guess=guess))

    assert not np.any(jax.jit(jax.grad(gravity, argnums=1))(q, guess))
    second = jax.jit(jax.hessian(gravity))(q, guess)
    h = 1e-4
    slope = jax.jit(jax.grad(lambda q: jnp.sum(mb.gravity(robot, q))))
    expected = (slope(q + h) - slope(q - h)) / (2.0 * h)
    assert float(second[0, 0]) == pytest.approx(float(expected[0]), rel=1e-6)


def test_wrong_guesses_are_named(rng):
    robot, tree = model("four-bar"), model("tree")
    guess, q = nearby(robot, rng)
    for function in (partial(mb.mass_matrix, robot), partial(mb.close_loops, robot)):
        with pytest.raises(ShapeError, match="guess"):
            function(q, guess=guess[:-1])
        with pytest.raises(ShapeError, match="guess"):
            function(np.stack([q] * 3), guess=np.stack([guess] * 2))
        with pytest.raises(NonFiniteError, match="guess"):
            function(q, guess=guess * np.nan)
        with pytest.raises(TypeError, match="guess"):
            function(q, guess="elbow")
    for function in (partial(mb.mass_matrix, tree), partial(mb.close_loops, tree)):
        with pytest.raises(TypeError, match="guess: this robot has no loops"):
            function(tree.neutral(), guess=tree.neutral())
    far = model("planar robot")
    guess, _ = nearby(far, rng)
    for function in (partial(mb.mass_matrix, far), partial(mb.close_loops, far)):
        with pytest.raises(ClosureError, match="from the guess"):
            function(far.neutral() + 2.0, guess=guess)
    cam = model("cam")  # a function couples its joints
    with pytest.raises(NonFiniteError, match="guess"):
        mb.close_loops(cam, cam.neutral(), guess=np.full(cam.spanning_tree.nq, np.nan))
    balls = model("loop with balls")
    guess, q = nearby(balls, rng)
    with pytest.raises(PointError, match="guess"):
        mb.mass_matrix(balls, q, guess=1.1 * guess)
