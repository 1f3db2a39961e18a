"""`Model.with_locked`: trees against Pinocchio's reduced models, chains against the chain with all joints.

While some independent joints of a chain rest, the others move as those of the chain without them: H, C and g
are blocks of those of the whole. Where dependent joints rest, velocities of the whole are N w, N the null
space of the rows of G of these joints.
"""

import pickle
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pinocchio as pin
import pytest
from cases import always
from closed_chains import PLANS, four_bar
from mechanisms import MOVING, random_mechanism
from pinocchio_oracle import PinocchioRobot
from robots import robot_path
from scipy.linalg import null_space
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import ModelError
from connections.multibody.program.closure_conditions import HostConditions


def close(a, b, tolerance=1e-9):
    np.testing.assert_allclose(a, b, rtol=0.0, atol=tolerance * max(1.0, np.abs(b).max(initial=0.0)))


# --- trees -------------------------------------------------------------------------------------------------


def test_pinocchio_reduces_the_same_robot(rng):
    """A floating quadruped with two locked joints: H, C v + g, a frame behind a locked joint."""
    path = str(robot_path("anymal_b_simple_description/robots/anymal.urdf"))
    robot, whole = mb.from_urdf(path, floating_base=True), PinocchioRobot(path, True)
    held = {"LF_HAA": 0.4, "RH_KFE": -0.7}
    assert set(held) < set(robot.joint_names)
    numbers = [whole.model.getJointId(name) for name in held]
    q_pin = pin.neutral(whole.model)
    for name, number in zip(held, numbers, strict=True):
        q_pin[whole.model.joints[number].idx_q] = held[name]
    theirs = PinocchioRobot.of(pin.buildReducedModel(whole.model, numbers, q_pin))
    ours = robot.with_locked(held)
    assert ours.joint_names == theirs.joint_names and ours.nv == robot.nv - 2
    assert set(ours.frame_names) == set(robot.frame_names)
    q, v = ours.random(rng), rng.standard_normal(ours.nv)
    close(mb.mass_matrix(ours, q), theirs.mass_matrix(q))
    close(mb.nonlinear_effects(ours, q, v), theirs.nonlinear_effects(q, v))
    q_all = robot.neutral()
    for name in ours.joint_names:
        q_all[robot.configuration_slice(name)] = q[ours.configuration_slice(name)]
    for name, value in held.items():
        q_all[robot.configuration_slice(name)] = value
    for frame in robot.frame_names:
        close(mb.frame_pose(ours, q, frame), mb.frame_pose(robot, q_all, frame))
    other = robot.with_locked(held | {"LF_HAA": 0.5})  # a control
    assert np.abs(mb.mass_matrix(other, q) - mb.mass_matrix(ours, q)).max() > 1e-4


def _at(model, ours, held, q):
    """q of the whole model, where `ours` is at q and locked joints are as in `held`."""
    parts = [
        np.atleast_1d(held[name]) if name in held else q[ours.configuration_slice(name)]
        for name in model.joint_names
    ]
    return np.concatenate(parts)


def _columns(model, ours):
    """The velocities of the whole model that `ours` has, in its order."""
    slices = [model.velocity_slice(name) for name in ours.joint_names]
    return np.concatenate([np.arange(part.start, part.stop) for part in slices])


def _same_dynamics(model, ours, q_all, q, rng):
    own, v_all = _columns(model, ours), np.zeros(model.nv)
    v_all[own] = rng.standard_normal(len(own))
    v, block = v_all[own], np.ix_(own, own)
    close(mb.mass_matrix(ours, q), mb.mass_matrix(model, q_all)[block])
    close(mb.coriolis_matrix(ours, q, v), mb.coriolis_matrix(model, q_all, v_all)[block])
    close(mb.gravity(ours, q), mb.gravity(model, q_all)[own])


@pytest.mark.parametrize("seed", always(range(4), 0))
def test_all_joint_types_are_locked(seed):
    """Random trees, every second joint locked, roots among them: blocks of H, C and g."""
    rng = np.random.default_rng(seed)
    model = random_mechanism(rng, len(MOVING), MOVING, trees=2)
    model = model.with_armature({name: 0.1 for name in model.joint_names})
    q = model.random(rng)
    held = {name: q[model.configuration_slice(name)] for name in model.joint_names[seed % 2 :: 2]}
    ours = model.with_locked(held)
    assert ours.joint_names == tuple(name for name in model.joint_names if name not in held)
    q_own = np.concatenate([q[model.configuration_slice(name)] for name in ours.joint_names])
    _same_dynamics(model, ours, q, q_own, rng)
    for frame in model.frame_names:
        close(mb.frame_pose(ours, q_own, frame), mb.frame_pose(model, q, frame))


def test_a_file_with_the_joint_fixed_is_the_same_robot(tmp_path):
    text = mb.example_path("arm").read_text()
    name = mb.example("arm").joint_names[2]
    at = text.index(f'name="{name}"')
    (tmp_path / "fixed.urdf").write_text(text[:at] + text[at:].replace('"revolute"', '"fixed"', 1))
    fixed, ours = mb.from_urdf(tmp_path / "fixed.urdf"), mb.example("arm").with_locked({name: 0.0})
    for field in ("body_names", "joint_names", "links"):
        assert getattr(ours.kinematics.tree, field) == getattr(fixed.kinematics.tree, field)
    for field in ("parents", "quaternions", "positions", "inertias"):
        close(getattr(ours.kinematics.tree, field), getattr(fixed.kinematics.tree, field), 1e-14)


# --- closed chains -----------------------------------------------------------------------------------------

#: Mechanisms of which more than one joint is independent.
SEVERAL = [
    "differential",
    "gear train",
    "belt leg",
    "cam",
    "planar robot",
    "four-bar with branches",
    "legged robot",
    "Stewart platform by its legs",
    "closed by: coincident",
    "closed by: cylindrical",
    "closed by: function",
]


@pytest.mark.parametrize("name", always(SEVERAL, "differential", "planar robot", "cam"))
def test_an_independent_joint_of_loops_rests(name, rng):
    model = PLANS[name]().build()
    for joint in (model.joint_names[0], model.joint_names[-1]):
        q_all = mb.displace(model, model.neutral(), 0.05 * rng.standard_normal(model.nv))
        held = {joint: q_all[model.configuration_slice(joint)]}
        ours = model.with_locked(held)
        assert set(ours.joint_names) == set(model.joint_names) - {joint}
        q = np.concatenate([q_all[model.configuration_slice(name)] for name in ours.joint_names])
        _same_dynamics(model, ours, q_all, q, rng)
        all_joints = model.spanning_configuration(q_all)
        for name, angles in ours.spanning_configuration(q).items():
            close(angles, all_joints[name], 1e-8)


#: Joints that are dependent, by mechanism.
DEPENDENT = {
    "planar robot": "ankle",
    "Stewart platform": "foot 2",
    "legged robot": "knee 0 rocker",
    "belt leg": "ankle rotor",
    "closed by: cylindrical": "joint 4",
}


@pytest.mark.parametrize("name", always(DEPENDENT, "planar robot"))
def test_a_dependent_joint_rests(name, rng):
    """v = N w, N the null space of the joint's rows of G; w by the velocities of what is independent now."""
    model, joint = PLANS[name]().build(), DEPENDENT[name]
    q_all = mb.displace(model, model.neutral(), 0.02 * rng.standard_normal(model.nv))
    spanning = model.spanning_configuration(q_all)
    ours = model.with_locked({joint: spanning[joint]})
    q = np.concatenate([spanning[name] for name in ours.joint_names])
    whole, (_, G, _) = model.spanning_tree, model.program.solution(q_all)
    N = null_space(G[whole.velocity_slice(joint)], rcond=1e-8)
    N = N @ np.linalg.inv(np.concatenate([G[whole.velocity_slice(name)] for name in ours.joint_names]) @ N)
    close(mb.mass_matrix(ours, q), N.T @ mb.mass_matrix(model, q_all) @ N, 1e-7)
    close(mb.gravity(ours, q), N.T @ mb.gravity(model, q_all), 1e-7)


@pytest.mark.parametrize("name", always(["planar robot", "legged robot", "belt leg"], "planar robot"))
def test_accelerations_are_those_with_multipliers(name, rng):
    """[H_s, K^T; K, 0] [a_s, lambda] = [tau_s - g_s, 0] at rest, a row of K for each locked velocity.

    The forces tau act on joints that are independent before and after.
    """
    model, joint = PLANS[name]().build(), DEPENDENT[name]
    q_all = mb.displace(model, model.neutral(), 0.02 * rng.standard_normal(model.nv))
    angles, tree = model.spanning_configuration(q_all), model.spanning_tree
    ours = model.with_locked({joint: angles[joint]})
    q, q_s = (np.concatenate([angles[name] for name in each.joint_names]) for each in (ours, tree))
    common = [name for name in ours.joint_names if name in model.joint_names]
    tau, tau_s, tau_all = np.zeros(ours.nv), np.zeros(tree.nv), np.zeros(model.nv)
    for name in common:
        force = rng.standard_normal(tau[ours.velocity_slice(name)].shape)
        for each, forces in ((ours, tau), (tree, tau_s), (model, tau_all)):
            forces[each.velocity_slice(name)] = force
    kinematics = model.kinematics
    K = HostConditions(tree.kinematics, kinematics.rows, kinematics.functions).at(q_s)[1]
    K = np.concatenate([K, np.eye(tree.nv)[tree.velocity_slice(joint)]])
    system = np.block([[mb.mass_matrix(tree, q_s), K.T], [K, np.zeros((len(K), len(K)))]])
    right = np.concatenate([tau_s - mb.gravity(tree, q_s), np.zeros(len(K))])
    a_s = np.linalg.lstsq(system, right, rcond=1e-13)[0]
    a = mb.forward_dynamics(ours, q, np.zeros(ours.nv), tau)
    for name in ours.joint_names:
        close(a[ours.velocity_slice(name)], a_s[: tree.nv][tree.velocity_slice(name)], 1e-7)
    free = mb.forward_dynamics(model, q_all, np.zeros(model.nv), tau_all)  # a control
    change = [free[model.velocity_slice(each)] - a[ours.velocity_slice(each)] for each in common]
    assert np.abs(np.concatenate(change)).max() > 1e-2


def test_joints_that_no_motion_is_left_to_are_locked_too():
    """The knee's four-bar with its crank locked: five joints fewer, and no loop of this knee."""
    model = PLANS["legged robot"]().build()
    value = float(model.kinematics.reference[model.kinematics.spanning.joint_names.index("knee 0 crank")])
    ours = model.with_locked({"knee 0 crank": value})
    gone = set(model.spanning_tree.joint_names) - set(ours.spanning_tree.joint_names)
    assert gone == {"knee 0 crank", "knee 0 coupler", "knee 0 rocker"}
    with pytest.raises(ModelError, match="nothing moves"):
        four_bar().build().with_locked({"bar crank": 0.9})


def test_loops_are_followed_to_where_a_joint_is_locked(rng):
    """Far from the reference, and round: on the same branch as by `close_loops`."""
    plan = four_bar()
    plan.add("wrist", "bar coupler", "hand", mb.Revolute((0.0, 1.0, 0.0)))
    model = plan.build()
    for crank in (model.neutral()[0] + 2.0, model.neutral()[0] - 7.0):
        q_all = np.array([crank, 0.3])
        ours = model.with_locked({"bar crank": crank})
        close(mb.mass_matrix(ours, [0.3]), mb.mass_matrix(model, q_all)[1:, 1:])
        close(mb.frame_pose(ours, [0.3], "hand"), mb.frame_pose(model, q_all, "hand"))


def test_a_configuration_of_all_joints_locks_them(rng):
    """Dependent and independent joints of a loop together, which agree at the end of the way only."""
    model = PLANS["four-bar with branches"]().build()
    q = mb.displace(model, model.neutral(), 0.1 * rng.standard_normal(model.nv))
    spanning = model.spanning_configuration(q)
    held = {name: spanning[name] for name in ("bar crank", "bar coupler", "bar rocker", "table")}
    ours = model.with_locked(held)
    assert ours.joint_names == ("wrist", "hand", "pan") and not ours.closed
    held["bar rocker"] = held["bar rocker"] + 0.2
    with pytest.raises(ModelError, match="joints: the loops do not close with 'bar crank', .* there"):
        model.with_locked(held)


def test_functions_of_locked_joints():
    """A cam whose shaft is locked holds its follower; a function of three joints goes on with two."""
    mechanism = mb.Mechanism()
    for number, name in enumerate("abc"):
        mechanism.add_body(name, mass=1.0, center_of_mass=(0.1, 0, 0), inertia=0.1 * np.eye(3))
        mechanism.add_joint(f"to {name}", "world", name, mb.Revolute(np.eye(3)[number]))
    mechanism.add_coupling(
        "sum",
        ["to a", "to b", "to c"],
        function=lambda a, b, c: jnp.sin(a) + 2.0 * b - 3.0 * c,
        independent=["to a", "to b"],
    )
    ours = mechanism.build().with_locked({"to a": 0.5})
    assert ours.joint_names == ("to b",)
    angles = ours.spanning_configuration([0.2])
    np.testing.assert_allclose(np.sin(0.5) + 2.0 * 0.2 - 3.0 * angles["to c"], 0.0, atol=1e-12)


# --- what is wrong -----------------------------------------------------------------------------------------


def test_what_is_wrong_is_named():
    model = mb.example("arm")
    name = model.joint_names[0]
    assert model.with_locked({}) == model
    with pytest.raises(ModelError, match="joints: there is no moving joint 'elbow7'"):
        model.with_locked({"elbow7": 0.0})
    with pytest.raises(ModelError, match=f"joints: joint '{name}': expected 1 finite numbers"):
        model.with_locked({name: np.nan})
    with pytest.raises(TypeError, match=r"joints: expected {joint name: configuration}, got a list"):
        model.with_locked([name])
    with pytest.raises(ModelError, match="nothing moves"):
        model.with_locked(dict.fromkeys(model.joint_names, 0.0))
    beyond = PLANS["crank-slider"]()
    beyond.add("arm", "slider", "arm", mb.Revolute((0, 0, 1)))
    with pytest.raises(ModelError, match="do not close with 'slide' there; from the reference"):
        beyond.build().with_locked({"slide": 100.0})


def test_a_locked_robot_is_pickled_and_loses_no_frames(rng):
    model = PLANS["planar robot"]().build().with_frames({"tool": ("platform", np.eye(4))})
    ours = model.with_locked({"hip 1": float(model.neutral()[1])})
    again = pickle.loads(pickle.dumps(ours))
    assert again == ours and "tool" in again.frame_names
    assert again.with_locked({"hip 2": float(ours.neutral()[1])}).nv == ours.nv - 1


# --- subtrees ----------------------------------------------------------------------------------------------


def _same_as_carried(model, link, rng):
    """The part moves as within the whole while the rest stands still; gravity in the axes of the link."""
    q_all = model.random(rng)
    R = mb.frame_pose(model, q_all, link)[:3, :3]
    part = model.subtree(link).with_gravity(R.T @ np.array(model.gravity))
    q = np.concatenate([q_all[model.configuration_slice(name)] for name in part.joint_names])
    _same_dynamics(model, part, q_all, q, rng)
    base = mb.frame_pose(model, q_all, link)
    for frame in part.frame_names:
        close(base @ mb.frame_pose(part, q, frame), mb.frame_pose(model, q_all, frame))
    return part


def test_what_a_link_carries(rng):
    robot = mb.from_urdf(robot_path("anymal_b_simple_description/robots/anymal.urdf"), floating_base=True)
    leg = _same_as_carried(robot, "LF_HIP", rng)
    assert leg.joint_names == ("LF_HFE", "LF_KFE") and "LF_FOOT" in leg.frame_names
    mount = np.eye(4)
    mount[:3, :3], mount[:3, 3] = Rotation.from_rotvec([0.3, -0.4, 1.0]).as_matrix(), (0.1, 0.2, -0.3)
    _same_as_carried(robot.with_frames({"mount": ("LF_HIP", mount)}), "mount", rng)
    assert robot.subtree("base").nv == robot.nv - 6
    with pytest.raises(ModelError, match="link 'LF_FOOT' carries no joint that moves"):
        robot.subtree("LF_FOOT")
    with pytest.raises(ModelError, match="frame: there is no frame 'foot'"):
        robot.subtree("foot")


def test_what_a_link_of_a_closed_chain_carries(rng):
    model = PLANS["four-bar with branches"]().build()
    table = model.spanning_tree.body_names[0]
    part = _same_as_carried(model, table, rng)
    assert part.closed and part.nv == model.nv - model.velocity_slice("table").stop
    name = "bar crank"
    with pytest.raises(ModelError, match=f"loop 'bar' ties what '{name}' carries to the rest; name a link"):
        model.subtree(name)


# --- in words ----------------------------------------------------------------------------------------------


def test_a_robot_describes_itself():
    text = mb.example("arm").describe()
    rows = {line.split()[0]: line.split() for line in text.splitlines()[3:]}
    assert rows["joint"] == ["joint", "type", "on", "q", "v", "lower", "upper", "effort"]
    assert rows["tilt"] == ["tilt", "revolute", "wrist", "4", "4", "-2", "2", "30"]
    assert text.startswith("6 bodies of 15.8 kg, 7 frames; nq = 6, nv = 6\ngravity 0 0 -9.81 m/s^2\n")
    assert " armature" in mb.example("arm").with_armature({"tilt": 0.25}).describe()


def test_loops_and_couplings_are_described():
    loops = PLANS["four-bar with branches"]().build().describe()
    assert "\n  loop 'bar': coincident, from 'bar coupler' to 'bar rocker'" in loops
    gears = PLANS["differential"]().build().describe()
    assert "\n  coupling 'difference': +1 motor 2 -3 pitch +3 roll = 0" in gears
    assert "a function of shaft, lift = 0" in PLANS["cam"]().build().describe()


def test_names_of_strangers_are_described_in_80_columns():
    mechanism = mb.Mechanism()
    for number in range(2):
        body, parent = (
            f"\x1b[31m body {number}" + "b" * 300,
            "world" if not number else f"\x1b[31m body 0{'b' * 300}",
        )
        mechanism.add_body(body, mass=1.0, inertia=np.eye(3))
        limits = mb.joints.Limits(velocity=np.arange(3) * 1e-5, angle=3.0)
        mechanism.add_joint("j" * 300 + str(number), parent, body, mb.Spherical(), limits=limits)
    text = mechanism.build().describe()
    assert max(map(len, text.splitlines())) <= 80 and "\x1b" not in text and "jjj..jjjjjj1" in text


# --- what acts on joints -----------------------------------------------------------------------------------


def _driven(model):
    """The arm with motors, one of them on two joints, and springs, one of them across two joints."""
    first, second, third = model.joint_names[:3]
    motors = [
        mb.joints.Motor("drive", {first: 9.0}, force=(-2.0, 3.0)),
        mb.joints.Motor("differential", {second: 2.0, third: -1.0}),
        mb.joints.Motor("jet", frame=model.body_names[0], wrench=(0.0, 0.0, 0.0, 1.0, 0.0, 0.2)),
    ]
    belt = mb.joints.Spring("belt", {second: 0.3, third: -0.2}, 50.0, (0.01, 0.02), 0.5)
    passive = mb.joints.Passive((belt,), {first: 0.1, third: 0.4}, {second: 0.3}, ("fluid",))
    return model.with_motors(motors).with_passive(passive)


def test_motors_springs_and_what_is_left_out_are_described():
    text = _driven(mb.example("arm")).describe()
    assert "\nMotors\n  drive: 9 turn; -2 to 3\n  differential: 2 lift, -1 bend\n  jet: frame" in text
    assert text.endswith("\nLeft out of the passive forces\n  fluid")


def test_a_subtree_has_the_motors_and_springs_of_its_joints(rng):
    model = _driven(mb.example("arm"))
    model = model.with_passive(replace(model.passive, left_out=()))
    q_all, v_all = rng.standard_normal((2, model.nv))
    v_all[0] = 0.0
    part = model.subtree(model.body_names[0])
    close(part.passive_forces(q_all[1:], v_all[1:]), model.passive_forces(q_all, v_all)[1:])
    close(part.motor_matrix(q_all[1:]), model.motor_matrix(q_all)[1:, 1:])
    with pytest.raises(
        ModelError, match=f"spring 'belt' ties what '{model.body_names[1]}' carries to the rest"
    ):
        model.subtree(model.body_names[1])
