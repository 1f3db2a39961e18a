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
from connections.checks import ModelError
from connections.multibody.assembly.independence import GOOD, IndependentChoice
from connections.multibody.program.closure_conditions import HostConditions


def chosen(K, widths=None, declared=None, near=(), motors=None, units=None):
    """The numbers of the independent joints, or None."""
    widths = np.ones(K.shape[1], dtype=int) if widths is None else np.asarray(widths)
    declared = np.full(len(widths), -1) if declared is None else np.asarray(declared)
    joints = np.repeat(np.arange(len(widths)), widths)
    none, rank = np.zeros(len(widths), dtype=bool), int(np.linalg.matrix_rank(K))
    motors = none if motors is None else np.isin(np.arange(len(widths)), motors)
    units, geared = np.ones(K.shape[1]) if units is None else units, np.zeros(K.shape[1], dtype=bool)
    found = IndependentChoice(K, joints, declared, rank, near, units, geared, motors).independent()
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
    scales = 10.0 ** rng.uniform(-2, 2, 8)
    assert chosen(K * scales, units=1.0 / scales) == chosen(K)  # sizes of columns do not matter
    K[:, -1] *= 1e-13
    assert 7 in chosen(K)  # but round-off has no direction


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


def gain(K, free):
    """The largest entry of G, where the columns `free` are independent."""
    rest = np.setdiff1d(np.arange(K.shape[1]), free)
    return np.abs(np.linalg.lstsq(K[:, rest], K[:, list(free)], rcond=None)[0]).max()


def test_a_large_gain_is_exchanged_for_the_least(rng):
    """Against all sets of random matrices with nearly dependent columns; a good early choice stays."""
    changed = 0
    for _ in range(60):
        K = rng.standard_normal((4, 7)) * 10.0 ** rng.uniform(-1.5, 0.0, (4, 1))
        K[:, 6] = K[:, 5] + 0.02 * rng.standard_normal(4)
        sets = [free for free in itertools.combinations(range(7), 3)]
        good = [free for free in sets if gain(K, free) <= GOOD]
        free = chosen(K)
        assert gain(K, free) <= GOOD and good  # of largest volume: 1
        changed += free != by_all_sets(K, np.ones(7, dtype=int))
    assert 10 < changed < 60


def test_a_gain_near_the_reference_counts():
    """Columns that are regular at the reference, and nearly parallel beside it."""
    K = np.array([[1.0, 0.0, 1.0, 1.0], [0.5, 1.0, 0.0, 1.0]])
    beside = K.copy()
    beside[1, 3] = 0.02
    assert chosen(K) == (0, 1) and gain(beside, (0, 1)) > GOOD
    free = chosen(K, near=[beside])
    assert gain(K, free) < GOOD and gain(beside, free) < GOOD


def test_motors_come_first():
    K = np.array([[1.0, 0.0, 1.0, 1.0], [0.5, 1.0, 0.0, 0.5]])
    assert chosen(K) == (0, 1)
    assert chosen(K, motors=[3]) == (0, 3)
    assert chosen(K, motors=[2, 3]) == (2, 3)
    K = np.array([[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.02, 1.0]])
    assert chosen(K, motors=[1, 3]) == (0, 1) and chosen(K) == (0, 1)  # determined badly by 1 and 3


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
    assert np.abs(G).max() < GOOD  # of the last three joints of each loop it is 6,000
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


# --- velocities that are no motions, and columns that are round-off --------------------------------------


def bodies(names):
    """A mechanism with bodies, but no joints."""
    mechanism = mb.Mechanism()
    for name in names:
        mechanism.add_body(name, 1.0, (0.05, 0.0, 0.1), np.eye(3) / 100)
    return mechanism


def joints(model, q):
    """The angles of all joints, in their order."""
    return np.concatenate([*model.spanning_configuration(q).values()])


@pytest.mark.parametrize("seed", range(4))
def test_the_spin_of_a_rod_is_independent(seed):
    """A rod turns about its own axis through the pin: its column of K is round-off, without direction."""
    rng = np.random.default_rng(seed)
    placed = at(*rng.normal(size=3), rpy=rng.normal(size=3))
    mechanism = bodies(["crank", "rod", "tip", "slider"])
    mechanism.add_joint("motor", "world", "crank", mb.Revolute((0, 0, 1)), placed)
    mechanism.add_joint("cross", "crank", "rod", mb.Universal((0, 0, 1), (0, 1, 0)), at(0.3))
    mechanism.add_joint("spin", "rod", "tip", mb.Revolute((1, 0, 0)), at(0.4))
    mechanism.add_joint("slide", "world", "slider", mb.Prismatic((1, 0, 0)), placed @ at(1.3))
    mechanism.add_loop("pin", "tip", "slider", mb.Spherical(), at(0.6), at())
    model = mechanism.build(reference={"motor": 0.8})
    assert model.joint_names == ("motor", "spin")
    assert np.linalg.cond(mb.mass_matrix(model, model.neutral())) < 20.0


X, Y, Z = np.eye(3)


def welded_arm(axes, lengths=(0.3, 0.2, 0.25, 0.3, 0.2, 0.3, 0.1)):
    """An arm along z that is welded to the world where it is stretched out."""
    mechanism, body, reach = bodies([f"link {i}" for i in range(7)]), "world", 0.0
    for i, axis in enumerate(axes):
        mechanism.add_joint(f"joint {i}", body, f"link {i}", mb.Revolute(axis), at(z=reach))
        body, reach = f"link {i}", lengths[i]
    mechanism.add_loop("weld", body, "world", mb.Fixed(), at(z=reach), at(z=sum(lengths)))
    return mechanism


@pytest.mark.parametrize("axes", [(X, Y, Z, X, Y, Z, X), (Z, Y, Y, Z, Y, Y, Z)])
def test_a_stretched_arm_is_a_singular_reference(axes):
    """K leaves more velocities than there are motions, and has the same rank wherever the loop closes."""
    with pytest.raises(ModelError, match=r"'weld': not all velocities .* are motions"):
        welded_arm(axes).build()


def test_what_only_spins_takes_another_reference():
    """The hinges across a stretched arm are parallel as drawn; turned by the spins they hold each other."""
    mechanism = welded_arm((Z, Y, Z, Y, Z, Y, Z))
    with pytest.raises(ModelError, match="not all velocities"):
        mechanism.build(reference={"joint 0": 0.0})
    model = mechanism.build()
    assert model.nv == 3
    for step in 1e-3 * np.eye(3):
        q_s = joints(model, model.neutral() + step)
        assert np.abs(q_s[1::2]).max() < 1e-9 and abs(q_s[::2].sum()) < 1e-9


def test_a_linkage_that_moves_though_its_rank_is_higher_nearby():
    """Bennett's: four hinges in space, whose loop has rank 3 where it closes, and 4 everywhere else.

    Opposite bars have equal lengths a and twists, and all have the same sin(twist) / a. Then the tangents of
    half the angles have a constant product (G. T. Bennett, A new mechanism, Engineering 76, 1903).
    """
    twist, other = np.arcsin(0.5), np.arcsin(0.3)
    long, short = at(1.0, rpy=(twist, 0, 0)), at(0.6, rpy=(other, 0, 0))
    mechanism = bodies(["crank", "coupler", "rocker"])
    mechanism.add_joint("motor", "world", "crank", mb.Revolute((0, 0, 1)))
    mechanism.add_joint("knee", "crank", "coupler", mb.Revolute((0, 0, 1)), long)
    mechanism.add_joint("elbow", "coupler", "rocker", mb.Revolute((0, 0, 1)), short)
    mechanism.add_loop("base", "rocker", "world", mb.Revolute((0, 0, 1)), long, np.linalg.inv(short))
    product = np.sin(0.5 * (other + twist)) / np.sin(0.5 * (other - twist))
    knee = 2.0 * np.arctan(product / np.tan(0.35))
    model = mechanism.build(reference={"motor": 0.7, "knee": knee, "elbow": -0.7})
    assert model.nv == 1
    for angle in (0.5, 0.7, 0.9):
        motor, knee, elbow = joints(model, [angle])
        np.testing.assert_allclose(
            [np.tan(0.5 * motor) * np.tan(0.5 * knee), elbow], [product, -motor], rtol=1e-9
        )
