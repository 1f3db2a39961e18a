"""The recursions of closed chains at their boundary: one configuration or many, factors, refusals."""

from functools import cache, partial

import jax
import numpy as np
import pytest
from cases import always, further
from closed_chains import four_bar
from coriolis_oracles import ROUTES, by_differentiation, by_projection
from mechanisms import move
from recursion_functions import COMPILED, FUNCTIONS, SOME, configurations, model

from connections import multibody as mb
from connections.checks import ClosureError, MetricError, NonFiniteError
from connections.multibody.program.compiled_functions import compiled

NAMES = ["four-bar", "legged robot", "belt leg", "cam"]  # the last is solved in JAX
TOL = 1e-11

each_mechanism = pytest.mark.parametrize("name", always(NAMES, *NAMES[:-1]))


def states(name, rng, *batch):
    """q near the reference, and three vectors."""
    q, v = configurations(model(name), rng, *batch)
    return q, v, *rng.standard_normal((2, *v.shape))


def call(function, name, arguments, **keywords):
    count = len(FUNCTIONS[function][1])
    return FUNCTIONS[function][0](model(name), *arguments[:count], **keywords)


def gap(ours, theirs):
    return np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs))


# --- what the functions have to do with each other ----------------------------------------------------------


@each_mechanism
@pytest.mark.parametrize("factor", ["christoffel", "force_cross", "least"])
def test_products_and_matrices_of_each_factor(name, factor, rng):
    q, v, w, _ = states(name, rng)
    robot, chosen = model(name), {"body_factor": factor}
    C = mb.coriolis_matrix(robot, q, v, **chosen)
    Gamma = mb.christoffel_symbols(robot, q, **chosen)
    bias = mb.inverse_dynamics(robot, q, v, 0.0 * v) - mb.gravity(robot, q)
    assert gap(np.einsum("ijk,j->ik", Gamma, v), C) < TOL
    assert gap(C @ v, bias) < TOL
    assert gap(C + C.T, mb.mass_matrix_rate(robot, q, v)) < TOL
    assert gap(mb.coriolis_product(robot, q, v, w, **chosen), C @ w) < TOL
    assert gap(mb.coriolis_transpose_product(robot, q, v, w, **chosen), C.T @ w) < TOL


def test_the_factor_with_torsion_is_another_connection(rng):
    q, v, *_ = states("legged robot", rng)
    robot = model("legged robot")
    C, other = (mb.coriolis_matrix(robot, q, v, body_factor=f) for f in ("christoffel", "force_cross"))
    assert gap(other, C) > 1e-2
    D = mb.christoffel_symbols(robot, q) - mb.christoffel_symbols(robot, q, body_factor="force_cross")
    for axes in ((1, 0, 2), (0, 2, 1)):
        np.testing.assert_allclose(D.transpose(axes), -D, atol=TOL * np.max(np.abs(D)))


@each_mechanism
def test_forward_dynamics_undoes_inverse_dynamics(name, rng):
    q, v, a, v_r = states(name, rng)
    robot = model(name)
    H, C, g = mb.mass_matrix(robot, q), mb.coriolis_matrix(robot, q, v), mb.gravity(robot, q)
    tau = mb.inverse_dynamics(robot, q, v, a)
    assert gap(tau, H @ a + C @ v + g) < TOL
    assert gap(mb.forward_dynamics(robot, q, v, tau), a) < TOL * np.linalg.cond(H)
    assert gap(mb.inverse_mass_matrix(robot, q) @ H, np.eye(robot.nv)) < TOL
    Y = mb.regressor(robot, q, v, v_r, a)
    assert gap(Y @ mb.inertial_parameters(robot).ravel(), H @ a + C @ v_r + g) < TOL


@each_mechanism
def test_momentum_and_its_rate_are_linear_in_the_parameters(name, rng):
    """H v and C^T v - g of the robot and of one with other inertias, in the same loops."""
    q, v, *_ = states(name, rng)
    robot = model(name)
    Y_p, Y_e = mb.momentum_regressor(robot, q, v)
    pi = mb.inertial_parameters(robot)
    heavier = robot.with_inertial_parameters(pi * rng.uniform(1.0, 2.0, (len(pi), 1)))
    for each in (robot, heavier):
        H, C, g = mb.mass_matrix(each, q), mb.coriolis_matrix(each, q, v), mb.gravity(each, q)
        parameters = mb.inertial_parameters(each).ravel()
        assert gap(Y_p @ parameters, H @ v) < TOL
        assert gap(Y_e @ parameters, C.T @ v - g) < TOL
        if not np.allclose(C, C.T):  # negative control
            assert gap(Y_e @ parameters, C @ v - g) > 1e-4


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cam"])  # its routes compile for 12 s
def test_other_routes_to_C(name, rng):
    q, v, *_ = states(name, rng, 2)
    C = mb.coriolis_matrix(model(name), q, v)
    assert gap(by_projection(model(name), q, v), C) < TOL
    assert gap(by_differentiation(model(name), q, v), C) < TOL
    assert not by_differentiation(model(name), q, 0.0 * v).any()


def test_routes_of_a_tree(rng):
    robot = model("legged robot").spanning_tree
    assert robot.spanning_tree is robot
    q, v = robot.random(rng), rng.standard_normal(robot.nv)
    C = mb.coriolis_matrix(robot, q, v)
    for route in ROUTES.values():
        assert gap(route(robot, q, v), C) < TOL


# --- batches and layouts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "name"),
    [
        *((name, "legged robot") if name in SOME else further(name, "legged robot") for name in COMPILED),
        *((name, of) for of in ("four-bar", "belt leg") for name in SOME),
        further("curvature_operator", "four-bar"),
        *(further(name, "cam") for name in SOME),
    ],
)
def test_batches_are_rows_of_single_calls(name, function, rng):
    arguments = states(name, rng, 3, 7)
    many = call(function, name, arguments)
    # Of one velocity the curvature is zero, and what is left are the round-offs of unit inertias and speeds.
    flat = function.startswith("curvature") and model(name).nv == 1
    for row in ((0, 0), (1, 3), (2, 6)):
        one = call(function, name, [vector[row] for vector in arguments])
        assert many[row].shape == one.shape
        assert np.max(np.abs(many[row] - one)) < (1e-12 if flat else TOL * np.max(np.abs(many)))
    assert call(function, name, [vector[:0] for vector in arguments]).shape[:2] == (0, 7)


def test_threads_do_not_meet(rng, monkeypatch):
    monkeypatch.setattr("connections.engines.thread_chunks.WORTH_A_THREAD", 0.0)
    robot, arguments = model("legged robot"), states("legged robot", rng, 700)
    rocker, angles = rocking(), np.full((700, 1), 0.5)
    angles[300], angles[600] = 3.0, np.pi  # where it cannot close
    threads = mb.get_num_threads()
    calls = [partial(call, name, "legged robot", arguments) for name in ("mass_matrix", "inverse_dynamics")]
    calls += [lambda: mb.close_loops(robot, arguments[0]).spanning]
    try:
        for function in calls:
            mb.set_num_threads(1)
            alone = function()
            mb.set_num_threads(3)
            np.testing.assert_array_equal(function(), alone)
        with pytest.raises(ClosureError, match=r"q = \[3\.\]"):  # of the first row that is bad
            mb.close_loops(rocker, angles)
        angles[650] = np.nan
        with pytest.raises(NonFiniteError):
            mb.close_loops(rocker, angles)
    finally:
        mb.set_num_threads(threads)


def test_a_solution_is_what_it_says(rng):
    robot = model("legged robot")
    q, v, *_ = states("legged robot", rng)
    q_s, G, LG = robot.program.solution(q)
    assert robot.program.solution(np.zeros((0, robot.nq))).LG.shape == (0, *LG.shape)
    step = 1e-6
    ahead, behind = (robot.program.solution(move(robot, q, sign * step * v)) for sign in (1, -1))
    np.testing.assert_allclose(np.einsum("sjk,j->sk", LG, v), (ahead.G - behind.G) / (2 * step), atol=1e-8)
    hinges = q_s.size - 7  # the free base comes first, q with 7 numbers and v with 6
    rate = (ahead.q - behind.q)[-hinges:] / (2 * step)
    np.testing.assert_allclose(rate, (G @ v)[-hinges:], atol=1e-8)


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [*SOME, further("inverse_dynamics_derivatives")])
def test_loops_that_cannot_close_are_named(function, rng):
    robot = rocking()
    for angle in (np.array([np.pi]), np.array([[0.5], [np.pi]])):
        vectors = rng.standard_normal((3, *angle.shape))
        with pytest.raises(ClosureError, match="'bar'"):
            FUNCTIONS[function][0](robot, angle, *vectors[: len(FUNCTIONS[function][1]) - 1])


def test_an_open_loop_is_solved_once(monkeypatch):
    """The error tells how far the path led: to the fold, where coupler and rocker are in line."""
    robot, asked, far = rocking(), [], np.array([np.pi])
    C, solve = mb.mass_matrix(robot, np.array([0.5])), compiled.require("closure_rest")
    assert np.isfinite(C).all()
    counted = lambda *given: asked.append(given[1]) or solve(*given)  # noqa: E731
    monkeypatch.setattr(compiled, "closure_rest", counted, raising=False)
    with pytest.raises(ClosureError, match="'bar'"):
        mb.mass_matrix(robot, far)
    assert len(asked) == 1 and asked[0] == np.pi
    fold = np.arccos((1.0 + 0.8**2 - (0.5 + 0.6) ** 2) / (2.0 * 0.8))
    found, of_definition = robot.program.loops.failure(far), robot.kinematics.failure_from(far)
    assert robot.program.loops.failure(np.array([0.6])) is None
    for failure in (found, of_definition):
        assert failure.reached == pytest.approx((fold - 0.5) / (np.pi - 0.5), abs=1e-4)
        assert not failure.singular
    assert found.body == of_definition.body


def test_why_a_guess_is_refused_does_not_depend_on_earlier_calls():
    robot, messages = rocking(), []
    guess = robot.kinematics.reference + np.array([3.0, 0.0, 0.0])  # the loop does not close
    for other in (0.6, 0.9):
        with pytest.raises(ClosureError, match=r"over 0 % of the way, to q = \[3\.5\]") as caught:
            mb.close_loops(robot, np.array([0.6]), guess)
        messages.append(str(caught.value))
        mb.mass_matrix(robot, np.array([other]))
    assert messages[0] == messages[1]


def test_the_definition_proves_a_solution_and_rejects_what_is_none():
    """The compiled solution is where the definition's own path ends."""
    closed, q = model("four-bar").kinematics, model("four-bar").neutral() + 0.4
    q_s = np.asarray(jax.jit(closed.spanning_at)(q))
    path = jax.jit(closed.followed_at)(q, closed.reference)
    np.testing.assert_allclose(q_s, path, atol=1e-13)
    proved = jax.jit(closed.loops.proved_at)
    np.testing.assert_array_equal(proved(q, q_s), q_s)
    assert np.isnan(proved(q, q_s + 1e-7)).all()  # negative control: conditions are open by 1e-7


@cache
def rocking():
    """A four-bar whose crank cannot turn all the way round."""
    return four_bar(bars=(1.0, 0.8, 0.5, 0.6), crank=0.5).build()


def test_a_velocity_without_inertia_is_named():
    mechanism = mb.Mechanism()
    for body, mass in (("arm", 1.0), ("gear", 0.0), ("empty", 0.0)):
        mechanism.add_body(body, mass=mass, inertia=np.eye(3) * mass)
    for body in ("arm", "gear", "empty"):
        mechanism.add_joint(f"{body} joint", "world", body, mb.Revolute((0, 0, 1)))
    mechanism.add_coupling("gears", {"gear joint": 1.0, "arm joint": -2.0}, independent=["arm joint"])
    with pytest.raises((MetricError, ValueError), match="empty"):
        robot = mechanism.build()
        mb.inverse_mass_matrix(robot, robot.neutral())


# --- the connection -----------------------------------------------------------------------------------------


@pytest.mark.further
def test_recursions_inside_compiled_functions(rng):
    robot = model("legged robot")
    nabla, (q, v, w, _) = robot.connection, states("legged robot", rng, 2)
    H, C = mb.mass_matrix(robot, q), mb.coriolis_matrix(robot, q, v)
    values = jax.jit(
        jax.vmap(lambda q, v, w: (nabla.lowered_at(nabla.metric, q, v, w), nabla.apply_at(q, v, w)))
    )(q, v, w)
    force = np.einsum("nik,nk->ni", C, w)
    assert gap(np.asarray(values[0]), force) < TOL
    assert gap(np.asarray(values[1]), np.linalg.solve(H, force[..., None])[..., 0]) < 1e-9
    assert np.isnan(jax.jit(nabla.metric.matrix_at)(np.full(robot.nq, np.nan))).all()
