"""The compiled solver of loops, alone: against closed forms, conditions in NumPy, and finite differences."""

import dataclasses
from types import SimpleNamespace

import closed_chains
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from closed_chains import BARS, Plan, add_four_bar, four_bar, four_bar_angles

from connections import multibody as mb
from connections.checks import ClosureError
from connections.engines.workspaces import with_workspace
from connections.multibody.clusters import POSITION
from connections.multibody.kernels import loop_path
from connections.multibody.kernels.layout import BAD_INPUT, CLOSURE, INDIRECT, LOOP, REFINABLE
from connections.multibody.program.closure_conditions import HostConditions
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.loop_packing import pack_closure, slots_of_rows
from connections.multibody.program.solution_layout import SolutionLayout

NO_GUESS = np.zeros(0)


class Loops:
    """A plan's closed chain and its solver."""

    def __init__(self, plan):
        self.closed = plan.build().kinematics
        self.memory = pack_closure(self.closed)
        self.memory = with_workspace(self.memory, slots_of_rows(self.memory))  # of all entries
        self.home = self.closed.reference[self.closed.q_columns]

    def status(self, q, guess=NO_GUESS):
        """Status and solution."""
        q, out = np.array(q, float), np.zeros(SolutionLayout(self.closed).size)
        status = compiled.require("closure_at")(self.memory, q, guess, out)
        if status == INDIRECT:
            out[:] = np.nan
            rest = compiled.require("closure_rest")
            status = rest(self.memory, q[None], guess[None], out[None], out[None])
        if status == REFINABLE:
            status = compiled.require("closure_fine")(self.memory, out[None], out[None])
        return status, out

    def spanning(self, q, guess=NO_GUESS):
        """q_s at q."""
        status, out = self.status(q, guess)
        assert status == 0
        return out[: self.closed.spanning.nq]

    def solution(self, q):
        """q_s, G, LG, dense."""
        closed, layout = self.closed, SolutionLayout(self.closed)
        status, out = self.status(q)
        assert status == 0
        G = np.zeros((closed.spanning.nv, closed.nv))
        LG = np.zeros((closed.spanning.nv, closed.nv, closed.nv))
        for s, body in enumerate(closed.spanning.body_of):
            first, stop = closed.column_starts[closed.clusters.of_body[body] :][:2]
            n = stop - first
            G[s, first:stop] = out[layout.G[s] :][:n]
            LG[s, first:stop, first:stop] = out[layout.LG[s] :][: n * n].reshape(n, n)
        return out[: closed.spanning.nq], G, LG


def blocks_of(plan):
    """Where K_d of the first loop of a plan has entries: `staircase`, a row for each column."""
    memory = pack_closure(plan.build().kinematics)
    first, tables = CLOSURE.read(memory, "loop_starts"), CLOSURE.read(memory, "tables")
    loop = memory[tables + memory.view(np.int64)[first] :]
    start, count = LOOP.read(loop, "stairs"), LOOP.read(loop, "dependent")
    return loop.view(np.int64)[start : start + 3 * count].reshape(-1, 3)


def test_legs_of_a_platform_are_blocks():
    """Three joints and three conditions each, if the platform is independent; otherwise it is beside them."""
    legs = blocks_of(closed_chains.stewart_platform())
    np.testing.assert_array_equal(legs, [[k, k + 3, k] for k in range(0, 18, 3) for _ in range(3)])
    bordered = blocks_of(closed_chains.stewart_platform("legs"))
    assert (bordered[:12, 1] - bordered[:12, 0] <= 5).all()
    np.testing.assert_array_equal(bordered[12:], [[0, 18, 0]] * 6)
    np.testing.assert_array_equal(blocks_of(four_bar()), [[0, 3, 0]] * 2)  # negative control: no zeros


def near_home(loops, rng, size):
    """A configuration (nq,) at this distance from the reference along a random velocity."""
    v = rng.standard_normal(loops.closed.nv)
    return moved(loops.closed, loops.home, size * v / np.linalg.norm(v))


def moved(closed, q, v):
    """The configuration q + X(q) v, quaternions of unit length."""
    q = q + np.asarray(closed.frame.matrix_at(jnp.asarray(q))) @ v
    return np.asarray(closed.frame.project_at(jnp.asarray(q)))


@pytest.mark.parametrize(
    "name",
    [
        "gear train",
        "crank-slider",
        "four-bar with branches",
        "spatial loop",
        "loop with balls",
        "loop of wide joints",
        "Stewart platform by its legs",
        "Stewart platform",
    ],
)
def test_loops_close_and_derivatives_are_those_of_differences(name, rng):
    loops = Loops(closed_chains.PLANS[name]())
    closed = loops.closed
    q = near_home(loops, rng, 0.15)
    q_s, G, LG = loops.solution(q)
    np.testing.assert_allclose(q_s[closed.q_columns], q, rtol=1e-15)  # quaternions are normalized
    phi, K = HostConditions(closed.spanning, closed.rows, ()).at(q_s)
    assert np.abs(phi).max() < 1e-14
    assert np.abs(K @ G).max() < 1e-13
    X_s, step = np.asarray(closed.spanning.frame.matrix_at(jnp.asarray(q_s))), 1e-5
    for j in range(closed.nv):
        ahead, behind = (
            loops.solution(moved(closed, q, sign * step * np.eye(closed.nv)[j])) for sign in (1, -1)
        )
        np.testing.assert_allclose((ahead[0] - behind[0]) / (2 * step), X_s @ G[:, j], atol=2e-8)
        np.testing.assert_allclose((ahead[1] - behind[1]) / (2 * step), LG[:, j, :], atol=2e-7)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_crank_turns_many_times_and_keeps_its_branch(side):
    loops = Loops(four_bar(side=side))
    for crank in np.linspace(-20.0, 20.0, 37):
        got = loops.spanning([crank])
        coupler, rocker = four_bar_angles(crank, BARS, side)
        error = got - [crank, coupler - crank, rocker]
        assert np.abs(np.exp(1j * error) - 1.0).max() < 1e-14
    assert np.ptp(np.unwrap([loops.spanning([0.8 + turn])[2] for turn in np.linspace(0, 20, 200)])) < np.pi


def test_a_guess_chooses_the_branch_and_need_not_close():
    loops = Loops(four_bar())
    coupler, rocker = four_bar_angles(0.5, BARS, -1.0)
    guess = np.array([0.5, coupler - 0.5 + 0.1, rocker - 0.1])
    error = loops.spanning([2.0], guess)[2] - four_bar_angles(2.0, BARS, -1.0)[1]
    assert abs(np.exp(1j * error) - 1.0) < 1e-14


def test_the_flat_parallelogram_is_singular_and_stops_no_path():
    loops = Loops(four_bar((1.0, 0.5, 1.0, 0.5)))
    for crank in (0.0, np.pi, -np.pi):
        assert loops.status([crank])[0] == -1
    for crank in (0.3, 1e-3, -0.4, 4.0):
        assert loops.status([crank])[0] == 0


def test_what_cannot_be_reached_is_reported():
    bars = (1.0, 0.9, 0.4, 0.5)  # the crank reaches as far as cos = (1 + 0.81 - 0.81) / 1.8
    loops, limit = Loops(four_bar(bars, crank=0.5)), np.arccos(1.0 / 1.8)
    assert loops.status([limit - 1e-6])[0] == 0
    assert loops.status([limit])[0] == -1
    for crank in (limit + 0.01, 2.0, np.pi):
        assert loops.status([crank])[0] == 1


def with_gap(loops, gap):
    """The kinematics of a planar linkage whose loop stays open by `gap`, of its size, across its plane.

    The conditions in the plane can still be met. Assembly refuses such a linkage, so a condition is changed.
    """
    rows = loops.closed.rows
    across = (rows.kinds == POSITION) & (np.abs(rows.u[:, 2]) > 0.9)
    assert across.sum() == 1
    constants = np.where(across, rows.constants + gap / rows.scales, rows.constants)
    return dataclasses.replace(loops.closed, rows=dataclasses.replace(rows, constants=constants))


@pytest.mark.further
@pytest.mark.parametrize("sign", [1.0, further(-1.0)])
def test_a_loop_that_cannot_quite_close_is_refused(sign):
    """By the compiled solver, by the definition, and by what a user calls."""
    loops = Loops(four_bar())
    home = loops.home
    for gap in (1e-6, 3e-9):
        closed = with_gap(loops, sign * gap)
        loops.memory = pack_closure(closed)
        for q in (home, home + 0.3):
            assert loops.status(q)[0] == 1
            assert np.isnan(closed.spanning_at(jnp.asarray(q))).all() and closed.failure_from(q) is not None
        for call in (mb.mass_matrix, mb.gravity):
            with pytest.raises(ClosureError, match="'bar'"):
                call(mb.Model.of(closed), home + 0.3)
    closed = with_gap(loops, sign * 1e-12)  # round-off of a large machine
    loops.memory = pack_closure(closed)
    assert loops.status(home + 0.3)[0] == 0 and closed.failure_from(home + 0.3) is None
    assert np.isfinite(closed.spanning_at(jnp.asarray(home + 0.3))).all()


def test_bad_numbers_are_refused():
    loops = Loops(closed_chains.loop_of_wide_joints())
    home, wide = loops.home, loops.closed.reference.copy()  # a kernel takes arrays that can be written
    assert loops.status(home, wide)[0] == 0
    assert loops.status(np.where(np.arange(len(home)) == 1, np.nan, home))[0] == BAD_INPUT
    assert loops.status(1.01 * home)[0] == BAD_INPUT
    assert loops.status(home[:-1])[0] == BAD_INPUT
    assert loops.status(home, 1.01 * wide)[0] == BAD_INPUT
    assert loops.status(home, wide[:-1])[0] == BAD_INPUT


def test_rows_are_single_solutions_and_bad_ones_are_marked():
    plan = Plan(1)
    add_four_bar(plan, "one", "world", np.eye(4))
    add_four_bar(plan, "two", "one rocker", np.eye(4), (1.0, 0.9, 0.4, 0.5), 0.5)
    loops = Loops(plan)
    q = np.array([[0.8, 0.5], [2.0, 0.3], [0.1, 2.0], [-3.0, -0.2]])
    out = np.zeros((4, SolutionLayout(loops.closed).size))
    rows, rest = compiled.require("closure_rows"), compiled.require("closure_rest")
    memory = loops.memory
    reference = loops.closed.reference.copy()
    for guess, count in ((NO_GUESS, 1), (reference, 1), (reference, 4)):
        guesses = np.tile(guess, (count, 1))
        assert rows(memory, q, guesses, out) == INDIRECT and np.isnan(out[2]).all()
        assert rest(memory, q, guesses, out, out) == 1 + loops.closed.clusters.of_body[-1]
        assert np.isnan(out[2]).all()
        for i in (0, 1):
            np.testing.assert_allclose(out[i], loops.status(q[i], guess)[1], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("length", "status"), [(5e-9, 0), (5e-8, 1)])
def test_the_last_correction_decides_whether_a_loop_is_closed(length, status, monkeypatch):
    """Corrections that stay at 5e-9 of the loop's size are round-off; those that stay at 5e-8 are not."""
    steps = []
    monkeypatch.setattr(loop_path, "newton", lambda loop: (1.0, length))
    monkeypatch.setattr(loop_path, "move_dependent", lambda loop, factor: steps.append(factor))
    monkeypatch.setattr(loop_path, "is_closed", loop_path.is_closed.py_func)
    loop = SimpleNamespace(rows=0, phi=[], sizes=[])
    assert loop_path.polish.py_func(loop) == status and set(steps) == {1.0}
    monkeypatch.setattr(loop_path, "newton", lambda loop: (1.0, 1e-16))
    open_ = SimpleNamespace(rows=1, phi=[1e-3], sizes=[1.0])
    assert loop_path.polish.py_func(open_) == 1  # the condition itself is not met
