"""`SolvedLoops`: loops that are solved once, for every function of a robot; where paths begin; inside JAX."""

import copy
import pickle
from functools import partial

import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further
from closed_chains import PLANS, four_bar
from recursion_functions import BY_JAX, COMPILED, SOME, call, configurations, model, states, with_tip

from connections import control
from connections import multibody as mb
from connections.checks import ClosureError, NonFiniteError, PointError, ShapeError
from connections.multibody.program.loop_solver import Loops


def nearby(robot, rng, *batch):
    """A configuration with its loops solved, and configurations near it."""
    q, _ = configurations(robot, rng)
    return mb.close_loops(robot, q), mb.displace(robot, q, 1e-2 * rng.standard_normal((*batch, robot.nv)))


def same(found, expected, tol=1e-11):
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tol * np.max(np.abs(expected)))


@pytest.fixture
def solving(monkeypatch):
    """A list that gets an entry at each solution of loops."""
    solved, solve = [], Loops.solve

    def counted(self, *arguments, **named):
        solved.append(arguments)
        return solve(self, *arguments, **named)

    monkeypatch.setattr(Loops, "solve", counted)
    return solved


# --- every function takes it in place of q -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "of"),
    [
        *((name, "legged robot") if name in SOME else further(name, "legged robot") for name in COMPILED),
        *((name, "four-bar") for name in SOME),
        *(further(name, of) for of in ("planar robot", "belt leg", "cam", "tree") for name in SOME),
        further("curvature_operator", "four-bar"),
        further("curvature", "four-bar"),
        further("christoffel_derivatives with torsion", "planar robot"),
    ],
)
def test_the_numbers_are_those_of_q(name, of, rng):
    """One configuration, rows, and one for rows of vectors; solved from the reference, and from a guess."""
    robot = model(of)
    q, *x = states(name, rng, 3, of=robot)
    start, near = nearby(robot, rng, 3)
    guess = (start,) if robot.closed else ()
    for points, *more in ((q,), (near, *guess)):
        closed = mb.close_loops(robot, points, *more)
        scale = np.max(np.abs(call("mass_matrix", points, of=robot))) if name.startswith("curvature") else 0.0
        for row in (slice(None), 1):  # K v = 0, so that of one velocity there is only round-off to compare
            expected = call(name, points[row], *(y[row] for y in x), of=robot)
            found = call(name, closed[row], *(y[row] for y in x), of=robot)
            assert np.max(np.abs(found - expected)) <= 1e-11 * np.max(np.abs(expected), initial=scale)
        if x:
            expected = call(name, np.tile(points[1], (3, 1)), *x, of=robot)
            assert np.max(np.abs(call(name, closed[1], *x, of=robot) - expected)) <= 1e-11 * max(
                np.max(np.abs(expected)), scale
            )


def test_rows_of_vectors_at_each_of_several_configurations(rng):
    """Batch axes broadcast: (2, 1) configurations and (3,) vectors."""
    robot = model("planar robot")
    (q, _), (_, v) = configurations(robot, rng, 2, 1), configurations(robot, rng, 3)
    expected = mb.coriolis_matrix(robot, q, v)
    same(mb.coriolis_matrix(robot, mb.close_loops(robot, q), v), expected)
    assert not np.allclose(expected[0], expected[1])  # a control
    each = [[mb.coriolis_matrix(robot, at[0], w) for w in v] for at in q]
    same(expected, np.array(each))


OTHERS = {
    "curvature_with_torsion": lambda robot, q, v: mb.curvatures.curvature_with_torsion(robot, q),
    "sectional_curvature": lambda robot, q, v: mb.curvatures.sectional_curvature(
        robot, q, v, np.arange(robot.nv) + 1.0
    ),
    "ricci": lambda robot, q, v: mb.curvatures.ricci(robot, q),
    "scalar_curvature": lambda robot, q, v: mb.curvatures.scalar_curvature(robot, q),
    "extreme_sectional_curvatures": lambda robot, q, v: (
        mb.curvatures.extreme_sectional_curvatures(robot, q).least
    ),
    "linearize": lambda robot, q, v: np.stack(mb.linearize(robot, q, v, v)[0]),
    "potential": lambda robot, q, v: np.asarray(robot.potential(q)),
    "displace": lambda robot, q, v: mb.displace(robot, q, v),
    "difference": lambda robot, q, v: mb.difference(robot, robot.neutral(), q),
    "finite_differences": lambda robot, q, v: mb.finite_differences(robot, np.sin, q, 1e-3),
    "spanning_configuration": lambda robot, q, v: np.concatenate([*robot.spanning_configuration(q).values()]),
    "momentum_regressor": lambda robot, q, v: np.stack(mb.momentum_regressor(robot, q, v)),
}


#: By default, those that need no tensor of a loop, whose recursions no other default test compiles.
QUICK = [name for name in OTHERS if "curvature" not in name and name not in ("ricci", "momentum_regressor")]


@pytest.mark.parametrize("name", always(OTHERS, *QUICK))
def test_other_functions_take_it_too(name, rng, solving):
    """Those of several recursions, and those that ask for no loop; none is solved again."""
    robot = model("planar robot")
    q, v = configurations(robot, rng)
    closed, expected = mb.close_loops(robot, q), OTHERS[name](robot, q, v)
    solving.clear()
    same(OTHERS[name](robot, closed, v), expected, 1e-9)
    assert not solving


@pytest.mark.parametrize("names", [pytest.param(SOME, id="some"), further(COMPILED, id="all")])
def test_loops_are_solved_once(names, rng, solving):
    """By `close_loops`; by a recursion of q each time."""
    robot = with_tip(PLANS["planar robot"]().build())  # calls that were made before are not counted
    qs, vs = configurations(robot, rng, 300)
    closed = mb.close_loops(robot, qs[0])
    assert len(solving) == 1
    for name in set(names) - BY_JAX:
        arguments = states(name, rng, of=robot)[1:]
        call(name, closed, *arguments, of=robot)
        call(name, closed, *(np.tile(x, (3, 1)) for x in arguments), of=robot)
    assert len(solving) == 1
    rows = mb.close_loops(robot, qs)
    solving.clear()
    mb.coriolis_matrix(robot, rows, vs)
    assert not solving
    mb.coriolis_matrix(robot, qs[0], vs)
    assert {np.shape(arguments[0]) for arguments in solving} == {(robot.nq,)}  # not for each vector
    solving.clear()
    mb.coriolis_matrix(robot, qs[0], vs[0])
    assert len(solving) == 1


@pytest.mark.further
def test_a_function_of_several_recursions_solves_loops_once(rng, solving):
    robot = model("planar robot")
    q, _ = configurations(robot, rng)
    mb.curvatures.ricci(robot, q)
    assert len(solving) == 1


def test_whole_body_control_solves_loops_once(rng, solving):
    robot = model("legged robot")
    q, v = configurations(robot, rng)
    foot = robot.body_names[-1]
    law = control.WholeBodyController(
        robot,
        [control.PointTask(foot, damping=1.0, stiffness=10.0, name="foot")],
        [control.PointContact(robot.body_names[3], 0.5)],
        torque_limits=np.full(len(robot.joint_names) - 1, 1e3),
        limit_time=None,
        trade_off=True,
    )
    targets = {"foot": control.Target(np.zeros(3))}
    tau = law.torque(q, v, targets)
    assert len(solving) == 1
    same(law.torque(mb.close_loops(robot, q), v, targets), tau)
    assert len(solving) == 2 and np.max(np.abs(tau)) > 1e-3
    contacts = control.Contacts(robot, law.contacts)
    a, f = contacts.forward_dynamics(q, v, tau)
    assert len(solving) == 3
    for found, expected in zip(
        contacts.forward_dynamics(mb.close_loops(robot, q), v, tau), (a, f), strict=True
    ):
        same(found, expected)
    assert len(solving) == 4
    none = control.Contacts(robot, [])
    assert none.jacobian(mb.close_loops(robot, np.stack([q] * 3))).shape == (3, 0, robot.nv)


def test_systems_and_laws_solve_loops_once(rng, solving):
    """A law's force, H v and C^T v - g, the rates along a curve; from `SolvedLoops`, none is solved."""
    robot = model("planar robot")
    system = robot.system(gamma=0.3)
    q, v = configurations(robot, rng)
    for name, x in (
        ("reference_force", [v, 2.0 * v, v]),
        ("coriolis_matrix", [v]),
        ("momentum_rate", [v]),
    ):
        solving.clear()
        expected = getattr(system, name)(q, *x)
        assert len(solving) == 1
        same(getattr(system, name)(mb.close_loops(robot, q), *x), expected)
        assert len(solving) == 2
    qs, vs = configurations(robot, rng, 3)
    expected = mb.inverse_mass_matrix(robot, qs) @ mb.coriolis_matrix(robot, qs, vs)
    solving.clear()
    same(robot.connection.host.carrying(qs, vs), expected)
    assert len(solving) == 1


# --- what it is --------------------------------------------------------------------------------------------


def test_coordinates_of_all_joints(rng):
    """By names, and in a row; of a robot without loops, they are q."""
    robot = model("four-bar")
    q, _ = configurations(robot, rng, 4)
    closed, names = mb.close_loops(robot, q), robot.spanning_tree.joint_names
    by_name = robot.spanning_configuration(q)
    assert np.array_equal(np.concatenate([by_name[name] for name in names], axis=-1), closed.spanning)
    assert np.array_equal(closed.q, q) and len(closed) == 4
    for row, one in enumerate(closed):
        assert np.array_equal(one.spanning, closed.spanning[row]) and np.array_equal(one.q, q[row])
    assert np.array_equal(closed[1:3, None].q, q[1:3, None])
    tree = model("tree")
    at = mb.close_loops(tree, tree.neutral())
    assert np.array_equal(at.spanning, tree.neutral()) and np.array_equal(at.q, tree.neutral())


def test_it_does_not_change(rng):
    """Neither by its arrays, nor with the array from which it was made."""
    robot = model("four-bar")
    q, _ = configurations(robot, rng)
    closed, H = mb.close_loops(robot, q), mb.mass_matrix(robot, q)
    for array in (closed.q, closed.spanning):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3.0
    q += 1.0
    assert np.array_equal(mb.mass_matrix(robot, closed), H)
    with pytest.raises(AttributeError):
        closed.q = q
    with pytest.raises(TypeError, match="no length"):
        len(closed)
    with pytest.raises(IndexError):
        closed[0]
    with pytest.raises(TypeError, match=r"write \.q, or \.spanning"):
        np.asarray(closed)
    robot.spanning_configuration(closed)[robot.joint_names[0]][0] = 3.0  # these are the caller's
    assert np.array_equal(mb.mass_matrix(robot, closed), H)


def test_copies_belong_to_all_robots_that_are_equal(rng):
    robot = model("four-bar")
    closed = mb.close_loops(robot, configurations(robot, rng)[0])
    H = mb.mass_matrix(robot, closed)
    assert np.array_equal(mb.mass_matrix(robot, copy.copy(closed)), H)
    for other, own in (pickle.loads(pickle.dumps((robot, closed))), copy.deepcopy((robot, closed))):
        assert np.array_equal(mb.mass_matrix(other, own), H) and np.array_equal(mb.mass_matrix(robot, own), H)
        assert np.array_equal(jax.jit(lambda at: mb.mass_matrix(robot, at))(own), H)


def test_robots_with_the_same_loops(rng):
    """Another gravity, other inertias, armature and frames change no solution."""
    robot = model("four-bar")
    closed = mb.close_loops(robot, configurations(robot, rng)[0])
    joint = robot.joint_names[0]
    others = [
        robot.with_gravity((1.0, 2.0, 3.0)),
        robot.with_inertial_parameters(2.0 * mb.inertial_parameters(robot)),
        robot.with_armature({joint: 3.0}),
        robot.with_frames({"eye": (robot.body_names[0], np.eye(4))}),
    ]
    for other in others:
        same(mb.mass_matrix(other, closed), mb.mass_matrix(other, closed.q))


def test_another_robot_is_an_error(rng):
    """Also one that was built in the same way; wherever it is given."""
    robot, other, tree = model("four-bar"), PLANS["four-bar"]().build(), model("tree")
    closed = mb.close_loops(robot, configurations(robot, rng)[0])
    of_tree = mb.close_loops(tree, tree.neutral())
    for function in (
        mb.mass_matrix,
        mb.close_loops,
        mb.curvatures.ricci,
        mb.displace,
        mb.curvatures.curvature,
    ):
        more = [np.zeros(1)] if function is mb.displace else []
        with pytest.raises(PointError, match="q: it is closed for another robot"):
            function(other, closed, *more)
        with pytest.raises(PointError, match="another robot"):
            function(robot, of_tree, *more)
    with pytest.raises(PointError, match="which has no loops"):
        mb.mass_matrix(tree, closed)
    with pytest.raises(PointError, match="guess: it is closed for another robot"):
        mb.close_loops(other, closed.q, closed)
    with pytest.raises(PointError, match="another robot"):
        other.potential(closed)
    with pytest.raises(PointError, match="another robot"):
        jax.jit(partial(mb.mass_matrix, other))(closed)
    with pytest.raises(TypeError, match="v: expected an array of real numbers, got a SolvedLoops"):
        mb.coriolis_matrix(robot, closed, closed)
    with pytest.raises(ShapeError, match="q"):
        mb.mass_matrix(robot, closed.spanning)  # bare arrays are q
    with pytest.raises(TypeError, match="guess"):
        mb.mass_matrix(robot, closed.q, guess=closed)
    with pytest.raises(TypeError, match="q: SolvedLoops are not cut into blocks"):
        mb.coriolis_matrix(robot, closed, da.zeros((3, 1)))


# --- where paths begin -------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["four-bar", further("legged robot"), further("belt leg"), further("cam")])
def test_a_guess_changes_no_number(of, rng):
    """One configuration, rows with one guess, and with a guess for each."""
    robot = model(of)
    guess, q = nearby(robot, rng, 3)
    expected = mb.close_loops(robot, q)
    for start in (guess, guess.spanning, np.stack([guess.spanning] * 3), mb.close_loops(robot, q + 0.0)):
        found = mb.close_loops(robot, q, start)
        same(found.spanning, expected.spanning)
        same(mb.mass_matrix(robot, found), mb.mass_matrix(robot, q))
    same(mb.close_loops(robot, q[0], guess).spanning, expected[0].spanning)
    by_name = {name: x[0] for name, x in robot.spanning_configuration(q).items()}
    for start in (by_name, guess):
        at = robot.spanning_configuration(q[1], start)
        same(np.concatenate([*at.values()]), expected[1].spanning)


def assembly(of_function, side):
    """A four-bar, by a joint or by a function, whose rocker is on one side."""
    plan = four_bar(side=side)
    if of_function:
        (name, (a, b, _, *places)) = next(iter(plan.loops.items()))
        plan.loops[name] = a, b, lambda T: T[:2, 3], *places
    return plan.build()


@pytest.mark.parametrize("of_function", always([False, True], False))
def test_a_guess_chooses_the_branch(of_function, rng):
    """From a configuration of the other assembly, the numbers are those of the robot built with it."""
    up, down = (assembly(of_function, side) for side in (1.0, -1.0))
    q, v, a = up.neutral() + 0.05, np.ones(up.nv), np.full(up.nv, 0.3)
    closed = mb.close_loops(up, q, mb.close_loops(down, down.neutral()).spanning)
    same(closed.spanning, mb.close_loops(down, q).spanning)
    for function, x in (
        (mb.coriolis_matrix, [v]),
        (mb.gravity, []),
        (lambda *given: mb.inverse_dynamics_derivatives(*given)[0], [v, a]),
    ):
        expected = function(down, q, *x)
        same(function(up, closed, *x), expected)
        same(jax.jit(partial(function, up))(closed, *x), expected)
        assert not np.allclose(function(up, q, *x), expected)  # a control


def test_wrong_guesses_are_named(rng):
    robot, tree = model("four-bar"), model("tree")
    guess, q = nearby(robot, rng)
    start = guess.spanning
    for wrong, error in (
        (start[:-1], ShapeError),
        (start * np.nan, NonFiniteError),
        ("elbow", TypeError),
        (mb.close_loops(model("planar robot"), model("planar robot").neutral()), PointError),
    ):
        with pytest.raises(error, match="guess"):
            mb.close_loops(robot, q, wrong)
    with pytest.raises(ShapeError, match="guess"):
        mb.close_loops(robot, np.stack([q] * 3), np.stack([start] * 2))
    for given in (tree.neutral(), mb.close_loops(tree, tree.neutral())):
        with pytest.raises(TypeError, match="guess: this robot has no loops"):
            mb.close_loops(tree, tree.neutral(), given)
        with pytest.raises(TypeError, match="guess: this robot has no loops"):
            tree.spanning_configuration(tree.neutral(), given)
    far = model("planar robot")
    guess, _ = nearby(far, rng)
    for start in (guess, guess.spanning):
        with pytest.raises(ClosureError, match="from the guess"):
            mb.close_loops(far, far.neutral() + 2.0, start)
    balls = model("loop with balls")
    guess, q = nearby(balls, rng)
    with pytest.raises(PointError, match="guess"):
        mb.close_loops(balls, q, 1.1 * guess.spanning)


@pytest.mark.further
def test_wrong_guesses_of_functions_are_named():
    cam = model("cam")  # a function couples its joints
    with pytest.raises(NonFiniteError, match="guess"):
        mb.close_loops(cam, cam.neutral(), np.full(cam.spanning_tree.nq, np.nan))


def test_wrong_configurations_are_named(rng):
    """By `close_loops` itself."""
    robot, floating = model("four-bar"), model("legged robot")
    for q, error in ((np.nan, NonFiniteError), ([0.1, 0.2], ShapeError), ("crank", TypeError)):
        with pytest.raises(error, match=r"\bq\b"):
            mb.close_loops(robot, [q] if q is np.nan else q)
        with pytest.raises(error, match=r"\bq\b"):
            mb.close_loops(robot, np.full((3, 1), np.nan) if q is np.nan else q)
    with pytest.raises(PointError, match="quaternion"):
        mb.close_loops(floating, 1.1 * floating.neutral())


# --- inside JAX --------------------------------------------------------------------------------------------


def test_a_closed_goes_through_jax(rng):
    """As an argument and a result of `jit`, mapped, and of arrays of JAX."""
    robot = model("four-bar")
    qs, vs = configurations(robot, rng, 3)
    expected, of_numpy = mb.coriolis_matrix(robot, qs, vs), mb.close_loops(robot, qs)
    rows = jax.jit(partial(mb.close_loops, robot))(qs)
    mapped = jax.vmap(lambda q: mb.close_loops(robot, q))(qs)
    near = jax.jit(lambda q, guess: mb.close_loops(robot, q, guess))(qs, of_numpy.spanning[0])
    for closed in (rows, mapped, near, of_numpy, mb.close_loops(robot, jnp.asarray(qs))):
        same(closed.spanning, of_numpy.spanning)
        same(jax.jit(partial(mb.coriolis_matrix, robot))(closed, vs), expected)
        same(jax.vmap(partial(mb.coriolis_matrix, robot))(closed, vs), expected)
        same(
            jax.jit(jax.vmap(lambda v, at: mb.coriolis_matrix(robot, at, v), (0, None)))(vs, closed[1])[1],
            expected[1],
        )
        assert isinstance(mb.coriolis_matrix(robot, closed, vs), type(closed.q))
        assert isinstance(mb.gravity(robot, closed), type(closed.q))
    tree = model("tree")
    q, v = configurations(tree, rng)
    found = jax.jit(lambda q: mb.coriolis_matrix(tree, mb.close_loops(tree, q), v))(q)
    same(found, mb.coriolis_matrix(tree, q, v))


@pytest.mark.further
def test_curvature_at_a_closed(rng):
    robot = model("four-bar")
    q, v = configurations(robot, rng)
    closed = mb.close_loops(robot, jnp.asarray(q))
    assert isinstance(mb.curvatures.ricci(robot, closed), type(closed.q))
    same(mb.curvatures.ricci(robot, closed), mb.curvatures.ricci(robot, q))
    same(mb.coriolis_matrix_rate(robot, closed, v, v), mb.coriolis_matrix_rate(robot, q, v, v))


def test_numbers_that_are_none_give_nan(rng):
    robot = model("planar robot")
    q, _ = configurations(robot, rng)
    qs = np.stack([q, q + 3.0, q * np.nan])
    H = jax.jit(lambda q: mb.mass_matrix(robot, mb.close_loops(robot, q)))(qs)
    assert np.isfinite(H[0]).all() and np.isnan(H[1:]).all()
    closed = jax.jit(partial(mb.close_loops, robot))(qs[1])
    with pytest.raises(ClosureError):  # outside of JAX
        mb.mass_matrix(robot, closed)


@pytest.mark.parametrize("name", [*SOME[:1], *map(further, SOME[1:]), further("forward_dynamics")])
def test_derivatives_are_those_by_q(name, rng):
    """In both modes, twice, of the configurations of all joints too."""
    robot = model("four-bar")
    q, *x = states(name, rng, of=robot)
    guess = mb.close_loops(robot, q + 0.01)

    def once(q):
        return call(name, mb.close_loops(robot, q, guess), *x, of=robot)

    for derivative in (jax.jacfwd, jax.jacrev, jax.hessian if name == "mass_matrix" else jax.jacfwd):
        expected = jax.jit(derivative(lambda q: call(name, q, *x, of=robot)))(q)
        same(jax.jit(derivative(once))(q), expected)
        assert np.max(np.abs(expected)) > 1e-3
    same(jax.jacfwd(once)(q), jax.jit(jax.jacfwd(once))(q))


@pytest.mark.parametrize("of", ["four-bar", further("belt leg"), further("cam")])
def test_the_joints_move_as_the_loops_let_them(of, rng):
    """Derivatives of `spanning` are G, by central differences; a guess and a solution have none."""
    robot, h = model(of), 1e-6
    q, _ = configurations(robot, rng)
    for function in (
        lambda q: mb.close_loops(robot, q).spanning,
        lambda q: jnp.concatenate([*robot.spanning_configuration(mb.close_loops(robot, q)).values()]),
    ):
        step = robot.kinematics.joint_frame.matrix_at(jnp.asarray(q)) @ np.ones(robot.nv)
        ahead, behind = (mb.close_loops(robot, mb.displace(robot, q, s * np.ones(robot.nv))) for s in (h, -h))
        expected = (ahead.spanning - behind.spanning) / (2.0 * h)
        for derivative in (jax.jacfwd, jax.jacrev):
            same(jax.jit(derivative(function))(q) @ step, expected, 1e-8)
    guess = mb.close_loops(robot, q)

    def energy(q, guess):
        return jnp.sum(mb.gravity(robot, mb.close_loops(robot, q, guess)))

    assert not np.any(jax.jit(jax.grad(energy, argnums=1))(q, guess.spanning))
    of_closed = jax.jit(jax.grad(lambda closed: jnp.sum(mb.gravity(robot, closed))))(guess)
    slope = jax.jit(jax.grad(lambda q: jnp.sum(mb.gravity(robot, q))))(q)
    same(of_closed._q, slope)
    assert not np.any(of_closed._solution) and np.max(np.abs(slope)) > 1e-3


def motion(robot, state, tau, warm):
    """The end of a motion by a constant force: in each step the loops are followed from the last one."""

    def step(state, _):
        closed, v = state
        v = v + 1e-3 * mb.forward_dynamics(robot, closed if warm else closed.q, v, tau)
        q = mb.displace(robot, closed, 1e-3 * v)
        return (mb.close_loops(robot, q, *[closed] * warm), v), None

    q, v = state
    start = mb.close_loops(robot, jnp.asarray(q)), jnp.asarray(v)
    (closed, v_end), _ = jax.lax.scan(step, start, length=50)
    return jnp.concatenate([closed.q, v_end])


def test_it_is_carried_through_a_scan(rng):
    robot = model("four-bar")
    state, tau = configurations(robot, rng), 0.1 * rng.standard_normal(robot.nv)
    ends = [jax.jit(partial(motion, robot, state, warm=warm))(tau) for warm in (True, False)]
    same(*ends)
    assert np.max(np.abs(ends[0] - np.concatenate(state))) > 1e-3  # a control: it moves


def test_a_force_accelerates_by_the_inverse_of_H(rng):
    """The derivative by the force, in both modes, where the loops are solved."""
    robot = model("four-bar")
    closed, _ = nearby(robot, rng)
    v, tau = rng.standard_normal((2, robot.nv))
    for derivative in (jax.jacfwd, jax.jacrev):
        found = jax.jit(derivative(lambda tau: mb.forward_dynamics(robot, closed, v, tau)))(tau)
        same(found @ mb.mass_matrix(robot, closed), np.eye(robot.nv))


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


def test_a_second_call_of_vmap_traces_nothing(rng, monkeypatch):
    """Outside of `jit`, too: the operations that JAX compiles are found again."""
    robot = model("four-bar")
    qs, _ = configurations(robot, rng, 3)
    found = jax.vmap(partial(mb.close_loops, robot))(qs)
    monkeypatch.setattr(jax, "jit", None)
    again = jax.vmap(partial(mb.close_loops, robot))(qs)
    assert np.array_equal(again._solution, found._solution)
