"""Bad input for closed chains: each mistake has its own error, which names the culprit and the way out."""

import contextlib
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from closed_chains import BARS, PLANS, REVOLUTE, add_four_bar, four_bar, four_bar_angles, gear_train
from closed_plan import Plan, at
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import ClosureError, MetricError, ModelError, NonFiniteError, PointError, ShapeError
from connections.multibody.clusters import DIRECTION, TWIST
from connections.multibody.loops.closures import conditions_of
from connections.multibody.program.closure_conditions import HostConditions

SOLID = {"mass": 1.0, "center_of_mass": np.array([0.2, 0.1, 0.0]), "inertia": np.diag([0.1, 0.2, 0.25])}
NOTHING = {"mass": 0.0, "center_of_mass": np.zeros(3), "inertia": np.zeros((3, 3))}


def refused(plan, *words):
    """The error of building a plan has all of these words."""
    with pytest.raises(ModelError) as error:
        plan.build()
    assert all(word in str(error.value) for word in words), str(error.value)


# --- the graph --------------------------------------------------------------------------------------------


def test_a_loop_to_a_body_that_nothing_holds():
    made = four_bar().mechanism()
    made.add_body("loose", **SOLID)
    made.add_loop("stray", "bar coupler", "loose", mb.Coincident())
    with pytest.raises(ModelError, match="not connected.*'loose'"):
        made.build()


def test_a_loop_between_parts_of_one_body():
    plan = four_bar()
    plan.add("weld", "bar coupler", "plate", mb.Fixed(), at(0.1))
    plan.loop("inner", "bar coupler", "plate")
    with pytest.raises(ModelError, match="'inner'.*do not move relative"):
        plan.mechanism().build()


def test_a_truss_does_not_move():
    plan = Plan(1)
    plan.add("left", "world", "left", REVOLUTE)
    plan.add("right", "world", "right", REVOLUTE, at(0.8), 2.0)
    plan.loop("apex", "left", "right", None, at(0.6), at(0.5))
    refused(plan, "over-constrained", "'apex'", "'left'", "'right'")


def test_a_second_loop_can_lock_a_linkage():
    plan = four_bar()
    plan.loop("strut", "world", "bar coupler", mb.Distance(0.8), at(0.2, -0.3), at(0.4, 0.3))
    plan.loops["bar"] = (*plan.loops["bar"][:-1], None)
    refused(plan, "over-constrained", "'bar'", "'strut'", "'bar crank'")


# --- couplings --------------------------------------------------------------------------------------------


def test_couplings_that_contradict_each_other():
    plan = gear_train()
    plan.couple("again", {"gear 1": 2.0, "gear 2": 5.0}, 0.5)
    refused(plan, "contradict", "'1 to 2'", "'again'")


def test_a_coupling_said_twice_is_one():
    plan = gear_train()
    plan.couple("again", {"gear 1": 2.0, "gear 2": 5.0})
    assert plan.build().nv == 2


def test_couplings_that_leave_nothing_to_move():
    plan = gear_train()
    plan.couple("again", {"gear 1": 1.0, "gear 2": 1.0})
    plan.reference["gear 1"] = np.zeros(1)
    refused(plan, "over-constrained", "'again'")


@pytest.mark.parametrize(
    ("joints", "options", "message"),
    [
        ({"gear 1": 1.0, "gear 9": 1.0}, {}, "'gear 9' does not exist"),
        ({"gear 1": 1.0}, {}, "two or more"),
        ({"gear 1": 1.0, "gear 2": 0.0}, {}, "'gear 2' is zero"),
        ({"gear 1": 1.0, "gear 2": np.nan}, {}, "'gear 2' is nan"),
        ({"gear 1": 1.0, "gear 2": "two"}, {}, "'gear 2': expected a real number"),
        ({"gear 1": 1.0, "gear 2": 1.0}, {"offset": np.inf}, "the offset is inf"),
        ({"gear 1": 1.0, "ball": 1.0}, {}, "'ball' has 4 coordinates"),
        (["gear 1", "gear 2"], {}, "expected .joint: coefficient."),
        (["gear 1", "gear 2"], {"function": 3.0}, "expected a function"),
        ({"gear 1": 2.0, "gear 2": 1.0}, {"function": lambda a, b: a - b}, "no coefficients"),
        (["gear 1", "gear 2"], {"function": lambda a, b, c: a - b}, "got one with arguments .a, b, c."),
        ({"gear 1": 1.0, "gear 2": 1.0}, {"independent": "gear 1"}, "a list of joint names"),
    ],
)  # fmt: skip
def test_a_coupling_with_wrong_arguments(joints, options, message):
    plan = gear_train()
    plan.add("ball", "swing", "ball", mb.Spherical())
    made = plan.mechanism()
    with pytest.raises(ModelError, match=f"'bad'.*{message}"):
        made.add_coupling("bad", joints, **options)
    assert made.build(reference=plan.reference).nv == 5  # nothing of it is kept


# --- loops ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("bar crank", "nobody", mb.Coincident()), {}, "'nobody' does not exist"),
        (("bar crank", "bar crank", mb.Coincident()), {}, "both ends are on 'bar crank'"),
        (("bar crank", "world", mb.Helical), {}, "no closure for"),
        (("bar crank", "world", mb.Free()), {}, "no closure for Free"),
        (("bar crank", "world", mb.Revolute), {}, "no closure for"),
        (("bar crank", "world", "revolute"), {}, "no closure for 'revolute'"),
        (("bar crank", "world", lambda T, weights: T[:2, 3]), {}, "got one with arguments .T, weights."),
        (("bar crank", "world", mb.Coincident(), 2 * np.eye(4)), {}, "last row"),
        (("bar crank", "world", mb.Coincident(), np.diag([1, 1, -1, 1])), {}, "reflection"),
        (("bar crank", "world", mb.Coincident(), np.eye(3)), {}, r"must be \(4, 4\)"),
        (("bar crank", "world", mb.Coincident()), {"independent": "bar crank"}, "a list of joint names"),
    ],
)  # fmt: skip
def test_a_loop_with_wrong_arguments(arguments, options, message):
    made = four_bar().mechanism()
    with pytest.raises(ModelError, match=f"'bad'.*{message}"):
        made.add_loop("bad", *arguments, **options)
    assert made.build().nv == 1  # nothing of it is kept


def test_a_name_is_used_once():
    made = four_bar().mechanism()
    with pytest.raises(ModelError, match="'bar' already"):
        made.add_loop("bar", "bar crank", "world", mb.Coincident())
    with pytest.raises(ModelError, match="'bar' already"):
        made.add_coupling("bar", {"bar crank": 1.0, "bar rocker": 1.0})


@pytest.mark.parametrize("axis", [(0.0, 0.0, 0.0), (1.0, 0.0), (np.nan, 0.0, 1.0), "z"])
def test_a_shaft_has_an_axis(axis):
    with pytest.raises(ModelError, match="axis"):
        mb.ConstantVelocity(axis)


@pytest.mark.parametrize("length", [0.0, -1.0, np.nan, np.inf, "long", None])
def test_a_distance_is_positive_and_finite(length):
    with pytest.raises(ModelError, match="length"):
        mb.Distance(length)


def closed_by(function, placement=None):
    """A four-bar whose loop is closed by a function."""
    plan = Plan(1)
    add_four_bar(plan, "bar", "world", np.eye(4) if placement is None else placement)
    a, b, _, *others = plan.loops["bar"]
    plan.loops["bar"] = (a, b, function, *others)
    return plan


@pytest.mark.parametrize(
    ("function", "error", "word"),
    [
        (lambda T: None, TypeError, "loop 'bar'"),
        further(lambda T: T[:2, 3] * jnp.nan, ModelError, "'bar'.*not finite"),
        (lambda T: T[:2, 3] ** 2, ModelError, "loop 'bar'.*derivative vanishes"),
        further(lambda T: T, ShapeError, "loop 'bar'"),
        further(lambda T: "open", TypeError, "loop 'bar'"),
        further(lambda T: 1j * T[:2, 3], TypeError, "loop 'bar'.*complex"),
        further(lambda T: {"x": T[0, 3]}, TypeError, "loop 'bar'.*got a dict"),
        further(lambda T: [], ShapeError, "loop 'bar'"),
        further(lambda T: T[:2, 3] > 0.0, TypeError, "loop 'bar'.*bool.*no derivative"),
        further(lambda T: np.zeros(2, int), TypeError, "loop 'bar'.*int64.*no derivative"),
        further(lambda T: T[:2, 3].astype(jnp.float16), TypeError, "loop 'bar'.*float16"),
        (lambda T: [T[0, 3], T[1, 3], 0.0], ModelError, "component 2 .*loop 'bar'.*constrains nothing"),
        further(lambda T: jnp.ones(2), ModelError, "component 0 .*loop 'bar'.*constrains nothing"),
        further(lambda T: jnp.round(T[:2, 3]), ModelError, "component 0 .*loop 'bar'.*constrains nothing"),
        further(lambda T: jnp.abs(T[:2, 3]), ModelError, "component 0 .*loop 'bar'.*derivative jumps"),
        further(lambda T: T[:2, 3] * 1e308, ModelError, "loop 'bar'.*too large"),
        further(lambda T: jnp.array([T[0, 3] ** 2 + T[1, 3] ** 2]), ModelError, "derivative vanishes"),
    ],
)
def test_a_loop_with_a_wrong_function(function, error, word):
    with pytest.raises(error, match=word):
        closed_by(function).build()


@pytest.mark.parametrize("unit", [further(1e-200), 1e200])
def test_the_unit_of_a_function_does_not_matter(unit):
    """Squares of these numbers vanish, or overflow, and the loop would count as always closed."""
    assert closed_by(lambda T: unit * T[:2, 3]).build().joint_names == ("bar crank",)


def cam(profile):
    """A shaft that lifts a follower: profile(angle, lift) = 0."""
    made = mb.Mechanism()
    for body, joint in {"shaft": mb.Revolute((0, 0, 1)), "follower": mb.Prismatic((0, 1, 0))}.items():
        made.add_body(body, **SOLID)
        made.add_joint(body, "world", body, joint)
    made.add_coupling("profile", ["shaft", "follower"], function=profile, independent=["shaft"])
    return made


def test_round_off_of_a_function_is_no_condition():
    """The derivative of cos^2 + sin^2 is round-off, which would be scaled to one and lock the shaft."""
    identity = lambda a, b: jnp.stack([b - 0.1 * jnp.cos(a), jnp.cos(a) ** 2 + jnp.sin(a) ** 2 - 1])  # noqa: E731
    with pytest.raises(ModelError, match=r"component 1 .*coupling 'profile'.*(jumps|vanishes)"):
        cam(identity).build(reference={"shaft": 0.3, "follower": 0.1})


def test_all_quantities_use_one_trace_of_a_function():
    """What the function reads from elsewhere is read once: later changes would reach some quantities only."""
    lift = [0.1]
    model = cam(lambda a, b: b - lift[0] * jnp.sin(a)).build()
    lift[0] = 0.2
    q_s = jnp.array([0.5, 0.1 * jnp.sin(0.5)])
    phi, K = model.kinematics.loops.conditions_at(q_s)
    np.testing.assert_allclose(phi, 0.0, atol=1e-15)
    np.testing.assert_allclose(-K[0, 1] / K[0, 0], 0.1 * jnp.cos(0.5), rtol=1e-14)


def test_a_function_may_repeat_conditions_in_any_plane():
    """Any motion in the plane meets the third one, but for round-off, which must not constrain."""
    turned = at(0.4, -0.2, 0.3, (0.3, -0.7, 1.1))
    model = closed_by(lambda T: T[:3, 3], turned).build()
    assert model.joint_names == ("bar crank",)
    coupler, rocker = four_bar_angles(0.8)
    np.testing.assert_allclose(model.kinematics.reference, [0.8, coupler - 0.8, rocker], atol=1e-12)


# --- independent joints -----------------------------------------------------------------------------------


def independent(*names, bars=BARS, **options):
    plan = four_bar(bars, **options)
    plan.loops["bar"] = (*plan.loops["bar"][:-1], list(names))
    return plan


def test_independent_joints_must_be_of_the_loop():
    refused(independent("nothing"), "'bar'", "'nothing'", "'bar crank', 'bar coupler', 'bar rocker'")


def test_independent_joints_must_be_as_many_as_the_mobility():
    refused(
        independent("bar crank", "bar rocker"), "leaves 1 independent", "'bar crank', 'bar rocker'", "have 2"
    )
    refused(independent(), "leaves 1 independent", "none")


def test_independent_joints_must_determine_the_others():
    """At the end of its swing the rocker stands still while the crank moves on."""
    ground, a, b, c = BARS
    dead = np.arccos((ground**2 + (a + b) ** 2 - c**2) / (2 * ground * (a + b)))
    refused(independent("bar rocker", crank=dead), "'bar'", "'bar rocker'", "do not determine", "reference")
    assert independent("bar crank", crank=dead).build().nv == 1


def test_joints_are_chosen_where_none_are_declared():
    ground, a, b, c = BARS
    dead = np.arccos((ground**2 + (a + b) ** 2 - c**2) / (2 * ground * (a + b)))
    plan = four_bar(crank=dead)
    plan.loops["bar"] = (*plan.loops["bar"][:-1], None)
    model = plan.build()
    assert model.nv == 1 and model.joint_names != ("bar rocker",)
    (node,) = [node for node in model.cluster_tree if node != ("ground",)]
    parts = model.cluster_tree.nodes[node]
    assert parts["independent"] == model.joint_names and len(parts["dependent"]) == 2


# --- references -------------------------------------------------------------------------------------------


def test_bars_that_do_not_reach():
    plan = four_bar()
    joint = plan.joints["bar rocker"]
    plan.joints["bar rocker"] = (*joint[:-1], at(3.0))
    refused(plan, "'bar' does not close", "reference")
    plan.reference = None
    refused(plan, "'bar' does not close")


@pytest.mark.parametrize("given", [True, False])
def test_bars_that_miss_each_other_by_a_millionth(given):
    """The rocker lies above the others' plane, by more than 1e-9 and by less."""
    for height, closes in ((1e-6, False), (3e-9, False), (1e-12, True)):
        plan = four_bar()
        *joint, placement = plan.joints["bar rocker"]
        plan.joints["bar rocker"] = (*joint, placement @ at(0.0, 0.0, height))
        plan.reference = plan.reference if given else None
        if closes:
            assert plan.build().nv == 1
        else:
            refused(plan, "'bar' does not close", "reference")


@pytest.mark.parametrize("name", ["four-bar", "crank-slider", "six-bar", "planar robot", "Stewart platform"])
def test_the_reference_closes_to_round_off(name):
    """From a reference that is off by as much as a hundredth."""
    plan = PLANS[name]()
    for joint, value in plan.reference.items():
        if value.size == 1:
            plan.reference[joint] = np.round(value, 2)
    closed = plan.build().kinematics
    phi = HostConditions(closed.spanning, closed.rows, closed.functions).at(closed.reference)[0]
    assert np.abs(phi).max() < 2e-15


def test_a_flat_parallelogram_is_singular():
    plan = four_bar((1.0, 0.5, 1.0, 0.5))
    plan.reference = {name: np.zeros(1) for name in plan.joints}
    refused(plan, "singular", "'bar'", "give another")
    plan.reference = None  # the neutral configuration is not taken
    model = plan.build()
    assert np.abs(np.sin(model.neutral())).max() > 0.05


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"nobody": 0.1}, "no moving joint 'nobody'"),
        ({"bar crank": [0.1, 0.2]}, "'bar crank': expected 1 finite"),
        ({"bar crank": np.nan}, "'bar crank': expected 1 finite"),
        ({"bar crank": "up"}, "'bar crank': .*expected an array of real numbers"),
        ([0.1], "expected .joint name: configuration."),
    ],
)
def test_a_wrong_reference(reference, message):
    with pytest.raises(ModelError, match=f"reference.*{message}"):
        four_bar().mechanism().build(reference=reference)


def test_a_reference_needs_unit_quaternions():
    plan = Plan(1)
    plan.add("ball", "world", "ball", mb.Spherical())
    add_four_bar(plan, "bar", "ball", np.eye(4))
    plan.reference["ball"] = np.array([0.0, 0.0, 0.5, 0.5])
    refused(plan, "reference", "norm")


def test_a_tree_has_no_reference():
    made = mb.Mechanism()
    made.add_body("arm", **SOLID)
    made.add_joint("hinge", "world", "arm", REVOLUTE)
    with pytest.raises(ModelError, match="closed loops, and there are none"):
        made.build(reference={"hinge": 0.3})


def test_a_reference_is_refined_and_chooses_the_side():
    ways = {}
    for side in (1.0, -1.0):
        plan = four_bar(side=side)
        rough = {name: np.round(value, 1) for name, value in plan.reference.items()}
        model = plan.mechanism().build(reference=rough)
        found = model.spanning_configuration(model.neutral())
        ways[side] = float(found["bar rocker"][0])
        assert abs(ways[side] - plan.reference["bar rocker"][0]) < 0.15
    assert abs(ways[1.0] - ways[-1.0]) > 0.5


# --- bodies without mass ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bare", [["bar coupler"], ["bar crank"], ["bar crank", "bar coupler"]])
def test_bodies_without_mass_are_legal_where_the_mechanism_has_inertia(bare):
    plan = four_bar()
    for name in bare:
        plan.bodies[name] = NOTHING
    model = plan.build()
    H = mb.mass_matrix(model, [0.9])
    assert H.shape == (1, 1) and H[0, 0] > 0.0
    np.testing.assert_allclose(mb.forward_dynamics(model, [0.9], [0.4], [0.0]) * H[0],
                               -mb.inverse_dynamics(model, [0.9], [0.4], [0.0]), atol=1e-12)  # fmt: skip


def test_a_loop_without_mass_names_its_velocity():
    plan = four_bar()
    plan.bodies = dict.fromkeys(plan.bodies, NOTHING)
    robot = plan.build()
    with pytest.raises(MetricError, match="singular along joint 'bar crank'"):
        mb.inverse_mass_matrix(robot, robot.neutral())
    assert not mb.mass_matrix(robot, robot.neutral()).any()


def test_a_rotor_alone_carries_the_inertia():
    plan = Plan(3)
    plan.add("arm", "world", "arm", REVOLUTE, **NOTHING)
    plan.add("rotor", "world", "rotor", REVOLUTE, **NOTHING | {"inertia": np.diag([0.0, 0.0, 1e-4])})
    plan.couple("gear", {"arm": 6.0, "rotor": -1.0}, independent=["arm"])
    with pytest.warns(mb.InertiaWarning):
        model = plan.build()
    np.testing.assert_allclose(mb.mass_matrix(model, [0.3]), [[36e-4]])


# --- configurations ---------------------------------------------------------------------------------------

SHORT = (1.0, 0.6, 0.55, 0.5)  # the crank swings to and fro: a + ground > b + c


def test_a_configuration_that_cannot_close():
    model = four_bar(SHORT, crank=0.8).build()
    limit = np.arccos((1.0 + 0.6**2 - 1.05**2) / (2 * 0.6))
    for q in ([limit + 0.05], [3.0], [[0.8], [limit + 0.05]]):
        with pytest.raises(ClosureError, match="'bar'.*cannot close") as error:
            model.spanning_configuration(q)
        assert "q = [" in str(error.value)
        for function in (mb.mass_matrix, mb.gravity, mb.christoffel_symbols, mb.inverse_mass_matrix):
            with pytest.raises(ClosureError, match="'bar'"):
                function(model, q)
        v = np.ones(np.shape(q))
        for function in (mb.coriolis_matrix, mb.mass_matrix_rate):
            with pytest.raises(ClosureError, match="'bar'"):
                function(model, q, v)
        with pytest.raises(ClosureError, match="'bar'"):
            mb.forward_dynamics(model, q, v, v)
    assert np.isfinite(mb.mass_matrix(model, [limit - 0.05])).all()  # short of the end it closes


def test_a_closure_error_is_an_error_of_the_point():
    assert issubclass(ClosureError, PointError) and issubclass(ClosureError, ValueError)


def test_arguments_of_a_closed_chain():
    model = four_bar().build()
    with pytest.raises(ShapeError, match="q"):
        mb.mass_matrix(model, [0.1, 0.2])
    with pytest.raises(NonFiniteError):
        mb.mass_matrix(model, [np.nan])
    with pytest.raises(NonFiniteError):
        model.spanning_configuration([np.inf])
    with pytest.raises(ShapeError, match="v"):
        mb.coriolis_matrix(model, [0.8], [0.1, 0.2])
    with pytest.raises(ModelError, match="no joint 'bar rocker'.*'?bar crank"):
        model.velocity_slice("bar rocker")
    with pytest.raises(ModelError, match="guess.*'bar coupler'"):
        model.spanning_configuration([0.8], guess={"bar crank": 0.8})


def welded(turn, **options):
    """An arm, and a free body that is welded to it, its axes turned by `turn` (3, 3)."""
    made, there = mb.Mechanism(), np.eye(4)
    there[:3, :3] = turn
    for name in ("arm", "hand"):
        made.add_body(name, 1.0, (0.1, 0.2, 0.0), np.diag([1.0, 2.0, 2.5]))
    made.add_joint("shoulder", "world", "arm", mb.Revolute((0, 0, 1)))
    made.add_joint("base", "world", "hand", mb.Free())
    made.add_loop("weld", "arm", "hand", mb.Fixed(), there)
    return made.build(**options)


@pytest.mark.parametrize("order", [(1, 2, 0), (2, 0, 1)])
def test_a_weld_of_frames_whose_axes_are_permuted(order):
    """A third of a turn away the equations hold, too: the frames are carried from there to each other."""
    turn = np.eye(3)[list(order)]
    near = Rotation.from_matrix(turn) * Rotation.from_rotvec([0.3, -0.2, 0.4])
    models = [welded(turn, reference={"base": [0.0, 0.0, 0.0, *near.as_quat()]})]
    models.append(welded(turn, reference={"base": mb.Free().neutral()}))
    with contextlib.suppress(ModelError):
        models.append(welded(turn))
    for model in models:
        arm, hand = mb.forward_kinematics(model, [0.7])
        assert np.abs(arm[:3, :3] @ turn - hand[:3, :3]).max() < 1e-12


@pytest.mark.parametrize("by", ["permuted", "half a turn"])
def test_a_guess_whose_frames_are_turned_away(by):
    """It meets all conditions of the weld, and is refused. If axes are permuted, K is singular there."""
    model = welded(np.eye(3), reference={"base": mb.Free().neutral()})
    good = mb.close_loops(model, [0.2]).spanning
    axes = np.eye(3)[[1, 2, 0]] if by == "permuted" else np.diag([1.0, -1.0, -1.0])
    turned, base = good.copy(), slice(len(good) - 4, len(good))
    turned[base] = (Rotation.from_rotvec([0, 0, 0.2]) * Rotation.from_matrix(axes)).as_quat()
    for bad in (turned, np.stack([good, turned])):
        why = "singular" if by == "permuted" else "guess: the frames of loop 'weld' are turned away"
        with pytest.raises(ClosureError, match=why):
            mb.close_loops(model, [0.25], bad)
    traced = jax.jit(lambda q, guess: mb.close_loops(model, q, guess).spanning)
    assert np.isnan(traced(np.array([0.25]), turned)).all()
    for guess in (good, mb.close_loops(model, [0.2])):
        expected = mb.close_loops(model, [0.25]).spanning
        np.testing.assert_allclose(mb.close_loops(model, [0.25], guess).spanning, expected, atol=1e-14)
    np.testing.assert_allclose(traced(np.array([0.25]), good), expected, atol=1e-14)


def test_sides_tell_a_closure_from_all_that_its_equations_allow():
    """Of a weld the eight solutions; a homokinetic joint bends by less than a right angle."""

    def closes(closure, R):
        conditions = conditions_of(closure)
        assert all(abs(row.u @ R @ row.w - (row.x @ R @ row.y if row.x is not None else 0.0)) < 1e-12
                   for row in conditions.rows if row.kind in (DIRECTION, TWIST))  # fmt: skip
        return sum(u @ R @ w for u, w in conditions.sides) > len(conditions.sides) - 1

    signs = [np.diag([a, b, a * b]) for a in (1.0, -1.0) for b in (1.0, -1.0)]
    eight = [sign @ circle for sign in signs for circle in (np.eye(3), np.eye(3)[[2, 0, 1]])]
    assert [closes(mb.Fixed(), R) for R in eight] == [True] + [False] * 7
    for direction in np.linspace(0.0, np.pi, 9):
        for bend in (0.0, 1.0, 1.5, 1.6, 2.5, np.pi):
            axis = np.array([np.cos(direction), np.sin(direction), 0.0])
            R = Rotation.from_rotvec(bend * axis).as_matrix()
            assert closes(mb.ConstantVelocity(), R) == (bend < np.pi / 2)
    half = [Rotation.from_rotvec(np.pi * n).as_matrix() for n in np.eye(3)]
    assert not any(closes(mb.ConstantVelocity(), R) for R in half)


def crank_and_rocker():
    """A four-bar with the motor at its crank, drawn with all bars on one line, where it does not close."""
    linkage = mb.Mechanism()
    for name, length in (("crank", 0.3), ("coupler", 0.8), ("rocker", 0.6)):
        middle = np.diag([1e-4, length**2 / 12, length**2 / 12]) * length
        linkage.add_body(name, length, (length / 2, 0.0, 0.0), middle)
    at = [np.eye(4) for _ in range(4)]
    for placement, distance in zip(at, (0.3, 0.7, 0.8, 0.6), strict=True):
        placement[0, 3] = distance
    turn = mb.Revolute((0, 0, 1))
    linkage.add_joint("motor", "world", "crank", turn)
    linkage.add_joint("knee", "crank", "coupler", turn, at[0])
    linkage.add_joint("pivot", "world", "rocker", turn, at[1])
    linkage.add_loop("pin", "coupler", "rocker", turn, at[2], at[3])
    return linkage


def test_a_linkage_that_closes_in_two_ways_says_which_it_took():
    with pytest.warns(mb.AssemblyWarning, match="more than one way") as caught:
        taken = crank_and_rocker().build()
    assert caught[0].filename == __file__
    first, second = (
        {name: float(angle) for name, angle in re.findall(r"'(\w+)': (-?[\d.]+)", part)}
        for part in re.findall(r"\{(.*?)\}", str(caught[0].message))[:2]
    )
    start = taken.kinematics.reference[0]
    assert abs(taken.kinematics.reference[2] - first["pivot"]) < 5e-3
    assert abs(second["pivot"] - first["pivot"]) > 0.1
    q, v = np.array([start + 0.4]), np.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # whoever chooses is not told
        chosen, other = (
            crank_and_rocker().build(reference={"motor": start, **angles}) for angles in (first, second)
        )
    C, same, crossed = (float(mb.coriolis_matrix(model, q, v)[0, 0]) for model in (taken, chosen, other))
    assert abs(C - same) < 1e-9 * abs(C) and abs(C - crossed) > 0.1 * abs(C)
