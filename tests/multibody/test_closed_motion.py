"""Closed chains along motions: energy, closure, the branch of assembly, and no memory of earlier calls."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from closed_chains import BARS, PLANS, four_bar
from closed_oracles import Assembly, four_bar_angles, four_bar_inertia
from mechanisms import configuration_rate, move, normalized
from scipy.integrate import solve_ivp

from connections import multibody as mb
from connections.checks import ClosureError

LEFT_OUT = 1e-2


@pytest.fixture(scope="module")
def models():
    cache = {}

    def get(name):
        if name not in cache:
            cache[name] = PLANS[name]().build()
        return cache[name]

    return get


# --- free motion ------------------------------------------------------------------------------------------


def simulate(model, q, v, times, forces=None):
    """(q, v) at `times` of the motion under gravity, by SciPy's DOP853; quaternions scaled."""
    rest = np.zeros(model.nv)

    def rates(_, state):
        q, v = normalized(model, state[: model.nq]), state[model.nq :]
        tau = rest if forces is None else forces(q, v)
        q_dot = configuration_rate(model, q, v)
        return np.concatenate([q_dot, mb.forward_dynamics(model, q, v, tau)])

    start = np.concatenate([q, v])
    path = solve_ivp(rates, (0.0, times[-1]), start, "DOP853", times, rtol=1e-11, atol=1e-11).y.T
    return normalized(model, path[:, : model.nq]), path[:, model.nq :]


def joints_of(model, q, names):
    at = model.spanning_configuration(q)
    return np.concatenate([np.asarray(at[name]) for name in names], axis=-1)


def energies(model, oracle, q, v, x):
    """Kinetic energy of our H, potential energy of the oracle's poses."""
    kinetic = 0.5 * np.einsum("ti,tij,tj->t", v, mb.mass_matrix(model, q), v)
    return kinetic, oracle.potential(x)


MOTIONS = {
    "four-bar": (np.array([6.0]), 2.0),
    "legged robot": (None, 0.4),
    "loop of wide joints": (None, 0.4),
}


@pytest.mark.parametrize("name", MOTIONS)
def test_energy_is_conserved_and_loops_stay_closed(name, models, rng):
    """The four-bar's crank turns round several times; the floating robot falls with its knees moving."""
    model, (v, time) = models(name), MOTIONS[name]
    plan = PLANS[name]()
    oracle = Assembly(plan, model)
    v = 1.5 * rng.uniform(-1.0, 1.0, model.nv) if v is None else v
    times = np.linspace(0.0, time, 9)
    q, v = simulate(model, model.neutral(), v, times)
    x = joints_of(model, q, plan.joints)
    assert np.max(np.abs(oracle.conditions(x))) < 1e-10
    kinetic, potential = energies(model, oracle, q, v, x)
    total, exchanged = kinetic + potential, np.ptp(kinetic)
    assert exchanged > 0.1 * np.max(kinetic)
    assert np.ptp(total) < 1e-8 * np.max(kinetic), total
    wrong_q, wrong_v = simulate(  # negative control: the Coriolis terms are compensated
        model, q[0], v[0], times, lambda q, v: mb.coriolis_product(model, q, v, v)
    )
    wrong = sum(energies(model, oracle, wrong_q, wrong_v, joints_of(model, wrong_q, plan.joints)))
    assert np.ptp(wrong) > 1e-4 * np.max(kinetic)


def test_motion_of_the_four_bar_in_closed_form(models):
    """H qddot + H' qdot^2 / 2 + V' = 0 with the oracle's H in closed form and its potential."""
    model, plan = models("four-bar"), four_bar()
    oracle = Assembly(plan, model)
    times = np.linspace(0.0, 1.0, 5)

    def height(crank):
        coupler, rocker = four_bar_angles(crank)
        return oracle.potential(np.stack([crank, coupler - crank, rocker], axis=-1))

    def rates(_, state):
        H, slope = four_bar_inertia(plan, state[0])
        force = height(state[0] + 1e-3 * np.array([-2.0, -1.0, 1.0, 2.0])) @ [1.0, -8.0, 8.0, -1.0] / 12e-3
        return [state[1], -(slope * state[1] ** 2 / 2.0 + force) / H]

    start = [model.neutral()[0], 6.0]
    theirs = solve_ivp(rates, (0.0, times[-1]), start, "DOP853", times, rtol=1e-11, atol=1e-11).y
    q, v = simulate(model, model.neutral(), np.array([6.0]), times)
    np.testing.assert_allclose(q[:, 0], theirs[0], atol=1e-8)
    np.testing.assert_allclose(v[:, 0], theirs[1], atol=1e-7)
    assert theirs[0, -1] - theirs[0, 0] > 2.0


def test_momentum_of_a_floating_robot_with_loops(models, rng):
    """Without gravity the momentum in world axes, the base's rows of H v turned, stays what it was."""
    from mechanisms import rotate

    model = models("legged robot").with_gravity((0.0, 0.0, 0.0))
    v = 1.5 * rng.uniform(-1.0, 1.0, model.nv)
    q, v = simulate(model, model.neutral(), v, np.linspace(0.0, 0.4, 4))
    momenta = np.einsum("tij,tj->ti", mb.mass_matrix(model, q), v)[:, :6]
    f = rotate(q[:, 3:7], momenta[:, 3:])
    n = rotate(q[:, 3:7], momenta[:, :3]) + np.cross(q[:, :3], f)
    for momentum in (f, n):
        assert np.max(np.abs(momentum - momentum[0])) < 1e-9 * np.max(np.abs(momentum))
    assert np.max(np.abs(momenta - momenta[0])) > LEFT_OUT  # negative control: in body axes


# --- assembly ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_the_branch_is_kept(side):
    """Two turns of the crank, forwards and backwards: the angles are those of one branch in closed form."""
    plan = four_bar(side=side)
    model = plan.build()
    crank = np.linspace(-12.0, 13.0, 41)
    coupler, rocker = four_bar_angles(crank, BARS, side)
    other = four_bar_angles(crank, BARS, -side)[1]
    found = joints_of(model, crank[:, None], plan.joints)
    turned = (found - np.stack([crank, coupler - crank, rocker], axis=1)) / (2.0 * np.pi)
    np.testing.assert_allclose(turned, np.round(turned), atol=1e-12)
    assert np.min(np.abs(np.sin((found[:, 2] - other) / 2.0))) > 0.1  # negative control: the other branch
    assert np.max(np.abs(np.diff(found[:, 2]))) < 1.0


@pytest.mark.further
@pytest.mark.parametrize(
    "name", [further("planar robot"), "loop with balls", further("Stewart platform by its legs")]
)
def test_the_branch_is_that_of_small_steps(name, models, rng):
    """Far from the reference the assembly is where many small steps of the oracle lead."""
    model = models(name)
    plan = PLANS[name]()
    oracle = Assembly(plan, model)
    spread = {"planar robot": 0.35, "loop with balls": 1.2}.get(name, 0.15)
    for direction in rng.uniform(-1.0, 1.0, (3, model.nv)):
        q = move(model, model.neutral(), spread * direction)
        np.testing.assert_allclose(joints_of(model, q, plan.joints), oracle.follow(q, 200), atol=1e-10)


@pytest.mark.further
def test_all_joints_in_traced_code(models):
    """By the definition there, by the recursions outside; the derivative is that of differences."""
    model, step = models("four-bar"), 1e-5
    q = model.neutral() + 0.3

    def joints(at):
        return jnp.concatenate([*model.spanning_configuration(at).values()])

    np.testing.assert_allclose(jax.jit(joints)(q), joints(q), atol=1e-12)
    differences = (np.asarray(joints(q + step)) - np.asarray(joints(q - step))) / (2.0 * step)
    np.testing.assert_allclose(np.asarray(jax.jacfwd(joints)(q))[:, 0], differences, rtol=1e-8)


def test_a_guess_chooses_the_branch(models):
    """With the other assembly as guess the other one is followed, and the reference's is not forgotten."""
    model, plan = models("four-bar"), four_bar(side=-1.0)
    guess = {name: value for name, value in plan.reference.items()}
    q = np.array([1.1])
    ours, theirs = (float(four_bar_angles(1.1, BARS, side)[1]) for side in (1.0, -1.0))
    first = model.spanning_configuration(q)["bar rocker"][0]
    second = model.spanning_configuration(q, guess=guess)["bar rocker"][0]
    np.testing.assert_allclose([first, second], [ours, theirs], atol=1e-12)
    np.testing.assert_allclose(model.spanning_configuration(q)["bar rocker"][0], ours, atol=1e-12)


# --- pure functions, batches ------------------------------------------------------------------------------

FUNCTIONS = {
    "mass_matrix": (mb.mass_matrix, 0),
    "coriolis_matrix": (mb.coriolis_matrix, 1),
    "mass_matrix_rate": (mb.mass_matrix_rate, 1),
    "christoffel_symbols": (mb.christoffel_symbols, 0),
    "coriolis_product": (mb.coriolis_product, 2),
    "coriolis_transpose_product": (mb.coriolis_transpose_product, 2),
    "inverse_dynamics": (mb.inverse_dynamics, 2),
    "gravity": (mb.gravity, 0),
    "forward_dynamics": (mb.forward_dynamics, 2),
    "inverse_mass_matrix": (mb.inverse_mass_matrix, 0),
    "regressor": (mb.regressor, 3),
}


@pytest.mark.further
@pytest.mark.parametrize(
    "name", ["four-bar with branches", *map(further, ("legged robot", "belt leg", "cam"))]
)
def test_batches_are_singles_in_any_order(name, models, rng):
    model = models(name)
    xi = 0.3 * rng.uniform(-1.0, 1.0, (2, 11, model.nv))
    q = move(model, model.neutral(), xi)
    velocities = rng.standard_normal((3, 2, 11, model.nv))
    for label, (function, count) in FUNCTIONS.items():
        arguments = [q, *velocities[:count]]
        batch = function(model, *arguments)
        order = list(np.ndindex(2, 11))
        singles = {}
        for at in [order[k] for k in rng.permutation(len(order))]:
            singles[at] = function(model, *(argument[at] for argument in arguments))
        alone = np.stack([singles[at] for at in order]).reshape(batch.shape)
        assert np.max(np.abs(batch - alone)) < 1e-12 * np.max(np.abs(alone)), label
        again = function(model, *(argument[1, 4] for argument in arguments))
        np.testing.assert_array_equal(again, singles[1, 4])


def test_two_models_of_one_plan_are_equal(rng):
    """Nothing of a model's past shows: a used one and a new one give the same bits."""
    used, new = four_bar().build(), four_bar().build()
    cranks = rng.uniform(-6.0, 6.0, (20, 1))
    for crank in cranks:
        mb.mass_matrix(used, crank)
    for crank, following in pairwise(cranks[:6]):
        np.testing.assert_array_equal(mb.mass_matrix(used, crank), mb.mass_matrix(new, crank))
        mb.christoffel_symbols(used, following)


@pytest.mark.parametrize("q", [further([1e160]), [[0.1], [3.0]]])
def test_a_start_at_which_no_loop_closes_is_refused_as_by_a_recursion(q):
    """By the error of the recursions, which says which loop; from a start that closes it moves."""
    model, q = four_bar((1.0, 0.6, 0.55, 0.5)).build(), np.array(q)  # the crank swings to and fro
    v, times = np.zeros_like(q), np.linspace(0.0, 0.1, 3)
    with pytest.raises(ClosureError, match="'bar'") as of_recursion:
        mb.mass_matrix(model, q)
    with pytest.raises(type(of_recursion.value), match="'bar'"):
        model.system().simulate(q, v, times)
    moved, _ = model.system().simulate(np.full_like(q, 0.1), v, times)
    assert np.isfinite(moved).all() and np.any(moved[..., -1, :] != 0.1)
