"""The choice of independent joints, by QR factorizations: the earliest ones that determine the others well.

Oracles: all sets of joints of a small matrix, one after the other; the incidence matrix of a graph, whose
independent sets of columns are its forests.
"""

import itertools
import time

import numpy as np
import pytest
from closed_chains import PLANS, serial_loop
from closed_oracles import poses
from closed_plan import Plan, at
from units import Units, in_units

from connections import multibody as mb
from connections.multibody.assembly.independence import Choice
from connections.multibody.program.closure_conditions import HostConditions


def chosen(K, widths=None, declared=None):
    """The numbers of the independent joints, or None."""
    widths = np.ones(K.shape[1], dtype=int) if widths is None else np.asarray(widths)
    declared = np.full(len(widths), -1) if declared is None else np.asarray(declared)
    joints = np.repeat(np.arange(len(widths)), widths)
    found = Choice(K, joints, declared, int(np.linalg.matrix_rank(K))).independent()
    return None if found is None else tuple(map(int, np.flatnonzero(found)))


def by_all_sets(K, widths):
    """The first set of whole joints whose others have regular columns: few joints first, then early ones."""
    ends = np.concatenate([[0], np.cumsum(widths)])
    rank = np.linalg.matrix_rank(K)
    for size in range(len(widths) + 1):
        for free in itertools.combinations(range(len(widths)), size):
            columns = [c for j in range(len(widths)) if j not in free for c in range(ends[j], ends[j + 1])]
            if len(columns) == rank == np.linalg.matrix_rank(K[:, columns]):
                return free
    return None


def incidence(rng, nodes, edges):
    """Of a random connected graph; edges parallel to others included."""
    ends = [(rng.integers(node), node) for node in range(1, nodes)]
    ends += [rng.choice(nodes, 2, replace=False) for _ in range(edges - nodes + 1)]
    K = np.zeros((nodes, edges))
    for column, (a, b) in enumerate(rng.permutation(np.array(ends))):
        K[a, column], K[b, column] = 1.0, -1.0
    return K


def test_the_earliest_joints_of_graphs(rng):
    """Columns are independent as the edges of a forest, so the dependent joints are a spanning tree."""
    for _ in range(20):
        K = incidence(rng, 5, 8)
        assert chosen(K) == by_all_sets(K, np.ones(8, dtype=int))
    scales = 10.0 ** rng.uniform(-6, 6, 8)
    assert chosen(K * scales) == chosen(K)  # units of columns do not matter


def test_whole_joints_of_several_velocities(rng):
    """Random matrices of full row rank, of which every choice is regular, against all sets."""
    refused = 0
    for _ in range(40):
        widths = rng.choice([1, 2, 3, 3], 4)
        rank = int(rng.integers(1, widths.sum()))
        K = np.linalg.qr(rng.standard_normal((widths.sum(), rank)))[0].T
        expected = by_all_sets(K, widths)
        found = chosen(K, widths)
        refused += expected is None
        assert (found is None) == (expected is None)
        if found is not None and found != expected:  # an earlier set may determine the others badly
            assert len(found) >= len(expected)
    assert refused  # a negative control: not every rank is a sum of widths


def test_declared_joints_stay():
    K = np.array([[1.0, 0, 0, 1, 0], [0, 1, 0, 1, 1], [0, 0, 1, 0, 1]])
    assert chosen(K) == (0, 1)
    assert chosen(K, declared=[-1, 0, -1, -1, 1]) == (0, 4)
    assert chosen(K, declared=[0, 0, 0, 0, -1]) is None  # four dependent velocities, and the rank is three


def test_joints_that_determine_badly_are_passed_over():
    """The last column is almost parallel to the one before it: an earlier joint is dependent instead."""
    K = np.array([[1.0, 0.0, 1.0, 1.0], [0.5, 1.0, 0.0, 1e-3]])
    assert chosen(K) == (0, 2)
    K[1, 3] = 0.5  # negative control
    assert chosen(K) == (0, 1)


def long_chain(joints=40, loops=4):
    """A chain of hinges about z and x in turn, whose every tenth body is held by a ball at the world."""
    plan = Plan(41)
    rng = np.random.default_rng(41)
    parent = "world"
    for number in range(joints):
        axis = mb.Revolute(((0, 0, 1), (1, 0, 0), (0, 1, 0))[number % 3])
        plan.add(
            f"joint {number}", parent, f"link {number}", axis, at(0.2, 0.05, 0.0), rng.uniform(-0.5, 0.5)
        )
        parent = f"link {number}"
    placed = poses(plan, plan.reference)
    for loop in range(loops):
        link = f"link {joints // loops * (loop + 1) - 1}"
        plan.loop(f"ball {loop}", "world", link, mb.Coincident(), placed[link] @ at(0.1), at(0.1))
    plan.nv = joints - 3 * loops
    return plan


def test_a_chain_of_forty_joints_with_four_loops():
    """No set was found among the first two thousand, because the first loop has ten joints of the forty."""
    started = time.perf_counter()
    model = long_chain().build()
    assert time.perf_counter() - started < 5.0
    assert model.nv == 28 and long_chain().build().joint_names == model.joint_names
    closed = model.kinematics
    q_s, G, _ = model.program.solution(model.neutral())
    K = HostConditions(closed.spanning, closed.rows).at(q_s)[1]
    assert np.abs(K @ G).max() < 1e-11 and np.linalg.matrix_rank(G) == 28
    dependent = ~closed.clusters.independent
    for loop in range(4):  # each loop has its dependent joints among the last that move it
        assert dependent[10 * loop : 10 * loop + 10].sum() == 3
    assert np.all(np.linalg.eigvalsh(mb.mass_matrix(model, model.neutral())) > 0.0)


@pytest.mark.parametrize("length", [1e-3, 1e3])
def test_the_choice_does_not_depend_on_the_unit_of_length(length):
    kinds = [mb.Revolute, mb.Prismatic, mb.Revolute, mb.Prismatic, mb.Helical, mb.Revolute, mb.Cylindrical]
    names = []
    for units in (Units(), Units(length)):
        plan = in_units(serial_loop(kinds, mb.Coincident(), 388), units)
        names.append(plan.build().joint_names)
    assert names[0] == names[1]


@pytest.mark.parametrize(
    "name", ["crank-slider", "six-bar", "planar robot", "Stewart platform", "loop with balls"]
)
def test_earlier_joints_come_first(name):
    """The choices that were made by trying sets, before, of mechanisms whose joints are not declared."""
    expected = {
        "crank-slider": ("crank",),
        "six-bar": ("bar crank",),
        "planar robot": ("hip 0", "knee 0", "ankle"),
        "Stewart platform": ("platform",),
        "loop with balls": ("joint 0",),
    }
    plan = PLANS[name]()
    plan.loops = {loop: (*ends, None) for loop, (*ends, _) in plan.loops.items()}
    assert plan.build().joint_names == expected[name]
