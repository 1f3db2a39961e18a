"""Loops across points in which branches cross, and over many turns of a crank: against closed forms."""

import jax
import numpy as np
import pytest
from cases import always, further
from closed_chains import Plan, four_bar, four_bar_angles
from closed_plan import at

from connections import multibody as mb
from connections.checks import ClosureError

BARS = (1.0, 0.5, 1.0, 0.5)  # ground, crank, coupler, rocker: opposite bars are equal
HINGE = mb.Revolute((0, 0, 1))
TURN = 2.0 * np.pi
POSTURES = np.linspace(-np.pi, np.pi, 33)[1:-1] + 0.01  # none is flat


def linkage(parallel, crank=0.8, bars=BARS):
    """A four-bar of equal opposite bars that is a parallelogram at the reference, or is crossed."""
    return four_bar(bars, crank, 1.0 if (np.sin(crank) > 0) == parallel else -1.0).build()


def angles_of_linkage(crank, parallel):
    """Of coupler and rocker relative to the bars before them: the branch changes sides when it is flat."""
    side = 1.0 if (np.sin(crank) > 0) == parallel else -1.0
    coupler, rocker = four_bar_angles(crank, BARS, side)
    return [crank, coupler - crank, rocker]


def crank_slider():
    """Crank and rod of equal length: beyond a right angle the slider goes on to the other side."""
    plan = Plan()
    plan.add("motor", "world", "crank", HINGE, start=0.7)
    plan.add("pin", "crank", "rod", HINGE, at(0.4), start=-1.4)
    plan.add("guide", "world", "slider", mb.Prismatic((1, 0, 0)), start=0.8 * np.cos(0.7))
    plan.loop("end", "rod", "slider", mb.Coincident(), at(0.4), at(), independent=["motor"])
    return plan.build()


def equal_as_angles(got, expected, tolerance):
    return np.abs(np.exp(1j * np.asarray(got)) - np.exp(1j * np.asarray(expected))).max() < tolerance


@pytest.mark.parametrize("parallel", [True, False])
def test_a_linkage_of_equal_bars_keeps_its_form_in_all_postures(parallel):
    """Through both flat postures, from references on all sides; the other form is the control."""
    for reference in (0.8, -0.4, 2.5):
        model = linkage(parallel, reference)
        for crank in [*POSTURES, 2.0 * TURN + 1.0, 1e-4, np.pi - 1e-4]:
            got = mb.close_loops(model, [crank]).spanning
            assert equal_as_angles(got, angles_of_linkage(crank, parallel), 1e-11)
        assert not equal_as_angles(got, angles_of_linkage(crank, not parallel), 1e-6)


def test_a_slider_goes_on_beyond_its_dead_centres():
    model = crank_slider()
    for crank in POSTURES:
        motor, pin, guide = mb.close_loops(model, [crank]).spanning
        assert equal_as_angles([motor, pin], [crank, -2.0 * crank], 1e-12)
        assert abs(guide - 0.8 * np.cos(crank)) < 1e-13


@pytest.mark.further
def test_recursions_and_definitions_agree_beyond_a_flat_posture():
    """On a crossed linkage: H of a parallelogram is constant, so C and Gamma vanish."""
    model = linkage(False)
    q, v = np.array([-2.0]), np.array([1.3])
    H, Gamma = model.definition.metric.matrix(q), model.definition.connection.coefficients(q)
    lowered = np.einsum("im,mjk->ijk", H, Gamma)
    assert np.abs(lowered).max() > 0.01
    np.testing.assert_allclose(mb.mass_matrix(model, q), H, rtol=1e-12)
    np.testing.assert_allclose(mb.christoffel_symbols(model, q), lowered, rtol=1e-10)
    C = np.einsum("ijk,j->ik", lowered, v)
    np.testing.assert_allclose(mb.coriolis_matrix(model, q, v), C, rtol=1e-10)


@pytest.mark.parametrize("crank", [0.0, np.pi, -np.pi, TURN, 1e-7])
def test_flat_postures_are_singular(crank):
    for model in (linkage(True), linkage(False)):
        with pytest.raises(ClosureError, match="'bar' is singular.*q = "):
            mb.mass_matrix(model, [crank])


@pytest.mark.parametrize("gap", [1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("start", [0.8, -0.8])
def test_bars_that_are_almost_equal_are_not_equal(gap, start):
    """A linkage that misses its flat posture bends to the other form, as four-bars of its lengths do."""
    bars = (1.0 + gap, 0.5, 1.0, 0.5)
    model = four_bar(bars, start, np.sign(start)).build()
    for crank in (2.0, -2.0, 0.01, -0.01):
        coupler, rocker = four_bar_angles(crank, bars, np.sign(start))
        got = mb.close_loops(model, [crank]).spanning
        assert equal_as_angles(got, [crank, coupler - crank, rocker], 1e-7)


def test_bars_that_agree_to_round_off_are_equal():
    for bars in ((1.0, 0.5, 1.0, 0.1 * 5 + 1e-15), (1.0 + 1e-14, 0.5, 1.0, 0.5)):
        model = linkage(True, bars=bars)
        for crank in POSTURES:
            assert equal_as_angles(mb.close_loops(model, [crank]).spanning, [crank, -crank, crank], 1e-6)


def test_no_branch_goes_on_beyond_a_fold():
    """A crank that cannot turn: the error has the last configuration that closes."""
    bars = (1.0, 0.9, 0.4, 0.5)  # as far as cos = (1 + 0.81 - 0.81) / 1.8
    limit = np.arccos(1.0 / 1.8)
    for far in (limit + 1e-3, 3.0, 1e9):
        with pytest.raises(ClosureError, match=f"to q = .{str(limit)[:5]}"):
            mb.mass_matrix(four_bar(bars, crank=0.5).build(), [far])


@pytest.mark.parametrize("start", [0.3, 0.01])
def test_a_guess_next_to_a_flat_posture_will_do(start):
    model = linkage(True)
    guess = mb.close_loops(model, [start])
    for crank in (-0.5, -0.01, -3.0, 4.0):
        got = mb.close_loops(model, [crank], guess).spanning
        assert equal_as_angles(got, angles_of_linkage(crank, True), 1e-11)


# --- in JAX: closures that are functions, and other devices ------------------------------------------------


@pytest.fixture(scope="module")
def follow():
    """q_s at q from a start, by the continuation in JAX of a linkage of equal bars."""
    return jax.jit(linkage(True).kinematics.followed_at)


@pytest.mark.parametrize("parallel", [further(True), False])
def test_the_continuation_in_jax_crosses_flat_postures(parallel, follow):
    """Through both of them, from references on both sides; the flat ones themselves are refused."""
    for reference in (0.8, -0.4):
        start = linkage(parallel, reference).kinematics.reference
        for crank in [*POSTURES, TURN + 1.0, -TURN - 1.0, 1e-4, np.pi - 1e-4]:
            got = follow(np.array([crank]), start)
            assert equal_as_angles(got, angles_of_linkage(crank, parallel), 1e-11)
        assert not equal_as_angles(got, angles_of_linkage(crank, not parallel), 1e-6)
        for crank in (0.0, np.pi, -np.pi, 1e-7):
            assert np.isnan(follow(np.array([crank]), start)).all()


def test_the_continuation_in_jax_ends_at_a_fold():
    bars = (1.0, 0.9, 0.4, 0.5)
    limit = np.arccos(1.0 / 1.8)
    closed = four_bar(bars, crank=0.5).build().kinematics
    failure = closed.failure_from(np.array([3.0]))
    assert failure.q == pytest.approx(limit, abs=1e-6) and not failure.singular
    assert closed.failure_from(np.array([limit - 1e-3])) is None


@pytest.mark.further
def test_a_closure_that_is_a_function_crosses_flat_postures():
    """Recursion, joints and errors of the crossed linkage, beside the same with `Coincident`."""
    plan = four_bar(BARS, 0.8, -1.0)
    bodies, rest = plan.loops["bar"][:2], plan.loops["bar"][3:]
    plan.loops["bar"] = (*bodies, lambda T: T[:3, 3], *rest)
    model, expected = plan.build(), linkage(False)
    assert not model.program.loops.solvable
    for crank in (-2.0, 4.0, 0.5):
        q = np.array([crank])
        ours, theirs = mb.close_loops(model, q).spanning, mb.close_loops(expected, q).spanning
        np.testing.assert_allclose(ours, theirs, atol=1e-11)
        C, other = (mb.coriolis_matrix(m, q, np.ones(1)) for m in (model, expected))
        np.testing.assert_allclose(C, other, rtol=1e-8)
    with pytest.raises(ClosureError, match="'bar' is singular"):
        mb.close_loops(model, [0.0])
    with pytest.raises(ClosureError, match="from the reference configuration.*too long"):
        mb.close_loops(model, [1e6])


@pytest.mark.parametrize(
    "closure", [mb.Distance(0.4), further(lambda T: T[:3, 3] @ T[:3, 3] - 0.16)], ids=["rod", "function"]
)
def test_branches_cross_where_the_only_column_vanishes(closure):
    """A slider on a line through the axis of a crank as long as its rod: x = 2 a cos q crosses x = 0.

    The one column of K_d, x - a cos q, has no angle with others. On the two branches together it keeps its
    sign, so that a path which does not notice where it vanishes turns to the other one.
    """
    plan = Plan(1)
    plan.add("crank", "world", "crank", HINGE, start=0.7)
    plan.add("slider", "world", "slider", mb.Prismatic((1, 0, 0)), start=0.8 * np.cos(0.7))
    plan.loop("rod", "crank", "slider", closure, at(0.4), independent=["crank"])
    model, angles = plan.build(), np.array([1.0, 2.0, 3.0, 4.0, 5.0, 7.0, -2.0])
    slider = model.spanning_tree.joint_names.index("slider")
    rows = mb.close_loops(model, angles[:, None]).spanning
    for found in (rows, [mb.close_loops(model, [q]).spanning for q in angles]):
        np.testing.assert_allclose(np.array(found)[:, slider], 0.8 * np.cos(angles), atol=1e-9)


# --- many turns -------------------------------------------------------------------------------------------


def within_a_turn(angle):
    return np.arctan2(np.sin(angle), np.cos(angle))


@pytest.mark.parametrize("turns", [3, *map(further, (1000, -1000, 10**6, 1.6e8)), 1e15])
def test_a_turn_of_the_crank_changes_nothing(turns):
    """To round-off of q itself, for a four-bar, a parallelogram and a slider; and in the definition."""
    for model in (four_bar().build(), linkage(True), crank_slider()):
        far = np.array([1.0 + turns * TURN])
        near = within_a_turn(far)
        for function, vectors in ((mb.mass_matrix, ()), (mb.coriolis_matrix, (np.ones(1),))):
            np.testing.assert_allclose(
                function(model, far, *vectors), function(model, near, *vectors), rtol=1e-11, atol=1e-14
            )
    far, near = (model.definition.metric.matrix(q) for q in (far, near))
    np.testing.assert_allclose(far, near, rtol=1e-11)


def test_angles_count_turns_as_long_as_they_keep_their_digits():
    """Continuously across a turn, and the configuration found closes the loops."""
    model = four_bar().build()
    found = np.array([mb.close_loops(model, [crank]).spanning for crank in np.linspace(0.0, 40.0, 400)])
    assert np.abs(np.diff(found, axis=0)).max() < 0.5
    assert np.ptp(found[:, 1]) > 5.0 * TURN > np.pi > np.ptp(found[:, 2])


def test_a_loop_that_returns_after_two_turns():
    """A five-bar whose second crank turns half as fast; after an odd number of turns it is elsewhere."""
    plan = Plan()
    plan.add("fast", "world", "one", HINGE, start=0.5)
    plan.add("slow", "world", "two", HINGE, at(0.5), start=0.25)
    plan.add("left", "one", "three", HINGE, at(0.2), start=0.9)
    plan.add("right", "two", "four", HINGE, at(0.15), start=1.2)
    plan.loop("tip", "three", "four", mb.Coincident(), at(0.7), at(0.7))
    plan.couple("belt", {"fast": 0.5, "slow": -1.0}, independent=["fast"])
    model = plan.build()
    assert model.joint_names == ("fast",)
    once, twice = (mb.mass_matrix(model, [1.0 + turns * TURN]) for turns in (0, 1))
    assert abs(once - twice).max() > 1e-3
    for turns in (2, 4, 100, 10**6):
        far = [1.0 + turns * TURN, 1.0 + (turns + 1) * TURN]
        for q, expected in zip(far, (once, twice), strict=True):
            np.testing.assert_allclose(mb.mass_matrix(model, [q]), expected, rtol=1e-9)
            slow = model.spanning_configuration([q])["slow"]
            np.testing.assert_allclose(slow, 0.5 * q, rtol=1e-15)


@pytest.mark.parametrize("ratio", [1.0001, *map(further, (2.0, 0.5002))])
def test_a_gear_of_nearly_a_whole_ratio_keeps_its_ratio(ratio):
    """After a turn it is nearly back, by less than the tolerance of a configuration; after 100, it is not."""
    plan = four_bar()
    plan.add("gear", "world", "gear", HINGE, at(1.0), start=ratio * plan.reference["bar crank"][0])
    plan.couple("mesh", {"bar crank": ratio, "gear": -1.0}, independent=["bar crank"])
    model = plan.build()
    for turns in (3.0, 100.3):
        q = 0.8 + turns * TURN
        gear = model.spanning_configuration([q])["gear"]
        np.testing.assert_allclose(gear, ratio * q, rtol=1e-12)


def two_cranks():
    """A five-bar with two independent cranks."""
    plan = Plan()
    plan.add("a", "world", "one", HINGE, start=0.5)
    plan.add("b", "world", "two", HINGE, at(0.5), start=0.7)
    plan.add("left", "one", "three", HINGE, at(0.1), start=0.9)
    plan.add("right", "two", "four", HINGE, at(0.1), start=1.2)
    plan.loop("tip", "three", "four", mb.Coincident(), at(0.7), at(0.7), independent=["a", "b"])
    return plan.build()


def test_two_cranks_are_followed_as_far_as_trials_last():
    model = two_cranks()
    near, far = (mb.mass_matrix(model, np.array([0.3, 0.9]) + turns * TURN) for turns in (0, 100))
    np.testing.assert_allclose(near, far, rtol=1e-10)
    with pytest.raises(ClosureError, match="too long") as error:
        mb.mass_matrix(model, [1e9, 1.0])
    assert "over 0 %" not in str(error.value)


@pytest.mark.parametrize("seed", always(range(1, 8), 1))
def test_the_answer_does_not_depend_on_where_a_path_begins(seed):
    """Guesses at many distances from the flat posture, on both sides of it."""
    rng = np.random.default_rng(seed)
    model = linkage(True)
    for _ in range(30):
        start, crank = (
            rng.choice([-1.0, 1.0], 2) * rng.uniform(0.3, 2.8, 2) * rng.choice([1.0, 1e-2, 1e-4], 2)
        )
        guess = mb.close_loops(model, [start])
        found = mb.close_loops(model, [crank], guess).spanning
        assert equal_as_angles(found, [crank, -crank, crank], 1e-9)


@pytest.mark.parametrize("many", [1, 9, 130])
def test_rows_are_single_configurations(many, rng):
    """In lanes of registers, or given up by them: near, beyond flat postures, turns away; from guesses, too.

    No posture is nearly flat, where Gamma loses digits.
    """
    for model in (linkage(True), four_bar().build(), crank_slider()):
        q = rng.choice([-1.0, 1.0], (many, 1)) * rng.uniform(0.2, 1.4, (many, 1)) + np.pi * rng.integers(
            0, 2, (many, 1)
        )
        q = q + TURN * rng.choice([0.0, 1.0, 50.0], (many, 1), p=[0.8, 0.1, 0.1])
        for guess in (None, mb.close_loops(model, q + 0.01)):
            found = mb.christoffel_symbols(model, mb.close_loops(model, q, guess))
            for row in range(many):
                own = None if guess is None else guess[row]
                expected = mb.christoffel_symbols(model, mb.close_loops(model, q[row], own))
                np.testing.assert_allclose(found[row], expected, rtol=1e-10, atol=1e-11)
    fold = four_bar((1.0, 0.9, 0.4, 0.5), crank=0.5).build()
    q = np.full((many, 1), 0.7)
    q[many // 2] = 2.0
    with pytest.raises(ClosureError, match=r"close at q = \[2.\]"):
        mb.mass_matrix(fold, q)
