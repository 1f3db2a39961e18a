"""Derivatives of closed chains: against finite differences, against the definition by JAX, in batches."""

from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from closed_chains import PLANS, closed_by, lift_of
from mechanisms import derivative_along, move

from connections import multibody as mb
from connections.checks import ClosureError, NonFiniteError
from connections.geometry.rigid.twists import force_cross_matrix
from connections.multibody.program.program import Program

DATA = Path(__file__).parents[1] / "data" / "urdf_plus"
FILES = ["six_bar", "planar_leg_linkage", "mini_cheetah"]
SOLVED_IN_JAX = ["cam", "closed by: function"]
NAMES = [*(name for name in PLANS if name not in SOLVED_IN_JAX), *FILES]
TOL = 1e-8

pytestmark = pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")


@cache
def model(name):
    return mb.from_urdf(DATA / f"{name}.urdf") if name in FILES else PLANS[name]().build()


def states(robot, rng, *batch):
    """q near the reference, v and a."""
    q = move(robot, robot.neutral(), 0.1 * rng.uniform(-1.0, 1.0, (*batch, robot.nv)))
    return np.array(q), *rng.standard_normal((2, *batch, robot.nv))


def close(value, expected, tol=TOL):
    np.testing.assert_allclose(value, expected, atol=tol * max(np.max(np.abs(expected)), 1e-9), rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_finite_differences(name, rng):
    """Fourth-order differences of the chain's own inverse and forward dynamics."""
    robot = model(name)
    q, v, a = states(robot, rng)
    unit, tau = np.eye(robot.nv), mb.inverse_dynamics(robot, q, v, a)
    for derivatives, dynamics, third in (
        (mb.inverse_dynamics_derivatives, mb.inverse_dynamics, a),
        (mb.forward_dynamics_derivatives, mb.forward_dynamics, tau),
    ):
        parts = derivatives(robot, q, v, third)
        along = derivative_along(robot, lambda p, f=dynamics, x=third: f(robot, p, v, x), q, unit)
        close(parts[0], along.T)
        central = [dynamics(robot, q, v + s * unit, third) for s in (0.5, -0.5)]  # quadratic in v
        close(parts[1], (central[0] - central[1]).T)
        central = [dynamics(robot, q, v, third + s * unit) for s in (0.5, -0.5)]
        close(parts[2], (central[0] - central[1]).T)


@pytest.mark.parametrize("name", ["revolute", "cylindrical", "helical", "distance"])
def test_a_loop_may_begin_at_either_of_its_bodies(name, rng):
    """From the world to the end of the chain, and back: the directions of conditions move with the end."""
    forth, back = (closed_by(name, from_world).build() for from_world in (True, False))
    q, v, a = states(forth, rng)
    tau = mb.inverse_dynamics(forth, q, v, a)
    close(mb.inverse_dynamics(back, q, v, a), tau, 1e-10)
    for derivatives, third in (
        (mb.inverse_dynamics_derivatives, a),
        (mb.forward_dynamics_derivatives, tau),
    ):
        close(derivatives(back, q, v, third), derivatives(forth, q, v, third), 1e-9)


@pytest.mark.further
def test_definition_by_automatic_differentiation(rng):
    """tau = A^T (I (A a + Adot v) + (A v) x* I A v) + g along the frame: a ball and a cylinder in a loop."""
    robot = model("loop of wide joints")
    q, v, a = states(robot, rng)
    kinematics, frame = robot.kinematics, robot.frame
    inertias = jnp.asarray(kinematics.tree.inertias)

    def tau(p):
        A, A_dot = jax.jvp(kinematics.body_jacobians_at, (p,), (frame.matrix_at(p) @ v,))
        twists = A @ v
        momenta = jnp.einsum("nab,nb->na", inertias, twists)
        turning = jnp.einsum("nab,nb->na", jax.vmap(force_cross_matrix)(twists), momenta)
        forces = jnp.einsum("nab,nb->na", inertias, A @ a + A_dot @ v) + turning
        return jnp.einsum("nai,na->i", A, forces) + frame.lie_derivative_at(robot.potential_at, p)

    expected = jax.jit(lambda p: frame.lie_derivative_at(tau, p).T)(q)
    ours = np.stack(mb.inverse_dynamics_derivatives(robot, q, v, a))
    close(ours[0], expected, 1e-11)
    forgetful = Program(robot.kinematics, robot.gravity)  # control: without second derivatives
    forgetful.loops.bias_rates = lambda solution, v: np.zeros(forgetful.loops.layout.G_size)
    wrong = forgetful.evaluate("inverse_dynamics_derivatives", (q, v, a), None)
    assert np.max(np.abs(wrong[0] - expected)) > 1e-3 * np.max(np.abs(expected))
    close(wrong[1:], ours[1:], 1e-13)


@pytest.mark.further
def test_second_derivative_of_a_function():
    """L_j (L_v G) v = h'''(angle) v^2 of a follower lifted by 0.05 cos angle + 0.02 sin 2 angle."""
    robot, v, angle = model("cam"), np.array([0.4, -1.3]), 0.7
    rows = robot.program.loops.definition.bias_rates(np.array([0.1, angle, lift_of(angle)]), v)
    expected = (0.05 * np.sin(angle) - 0.16 * np.cos(2.0 * angle)) * v[1] ** 2
    np.testing.assert_allclose(rows, [0.0, 0.0, expected], atol=1e-12)


@pytest.mark.further
@pytest.mark.parametrize(
    "name",
    [
        further(name) if name != "cam" else name
        for name in ("four-bar", "loop of wide joints", "crank-slider", "cam")
    ],
)
def test_reverse_mode(name, rng):
    """Gradient and Hessian of a function of the energies, by reverse mode, against differences."""
    robot = model(name)
    q, v, w = states(robot, rng)
    mass_matrix, X = robot.definition.metric.matrix_at, robot.frame.matrix_at

    def energies(p):
        return robot.potential_at(p) + 0.5 * v @ mass_matrix(p) @ v

    gradient = jax.jit(lambda p: jax.grad(energies)(p) @ X(p))  # L_{X_j}, (nv,)
    hessian = jax.jit(lambda p: jax.jacrev(lambda p: jax.grad(energies)(p) @ X(p))(p) @ X(p))
    along = derivative_along(robot, jax.jit(jax.vmap(energies)), q, w)
    close(gradient(q) @ w, along)
    close(hessian(q) @ w, derivative_along(robot, jax.vmap(gradient), q, w))
    assert abs(gradient(q) @ w - 1.01 * along) > 1e-3 * abs(along)


@pytest.mark.further
@pytest.mark.parametrize("name", ["legged robot", "loop of wide joints", "belt leg"])
def test_batches_and_out(name, rng):
    """More rows than are kept at a time, broadcast over two axes."""
    robot = model(name)
    q, v, a = states(robot, rng, 67, 2)
    v, n = v[:1], robot.nv
    for derivatives in (mb.inverse_dynamics_derivatives, mb.forward_dynamics_derivatives):
        out = np.full((67, 2, 3, n, n), np.nan)
        parts = derivatives(robot, q, v, a, out=out)
        assert all(np.shares_memory(part, out) for part in parts)
        for row in [(0, 0), (31, 1), (66, 1)]:
            one = derivatives(robot, q[row], v[0, row[1]], a[row])
            for part, expected in zip(parts, one, strict=True):
                close(part[row], expected, 1e-11)
        again = derivatives(robot, q[::-1].copy(), v, a[::-1].copy())  # nothing is left over
        close(np.stack(again, axis=-3)[::-1], out, 1e-11)


@pytest.mark.further
def test_bad_input(rng):
    robot = model("planar robot")
    q, v, a = states(robot, rng, 3)
    open_loop, nan = q.copy(), np.full_like(v, np.nan)
    open_loop[1] = 0.1, 3.2, -2.5
    for derivatives in (mb.inverse_dynamics_derivatives, mb.forward_dynamics_derivatives):
        with pytest.raises(ClosureError, match="'leg 1'"):
            derivatives(robot, open_loop, v, a)
        with pytest.raises(ClosureError, match="'leg 1'"):
            derivatives(robot, open_loop[1], v[1], a[1])
        for bad in ((q, nan, a), (q, v, nan), (q[0], nan[0], a[0]), (q[0], v[0], nan[0])):
            with pytest.raises(NonFiniteError):
                derivatives(robot, *bad)
