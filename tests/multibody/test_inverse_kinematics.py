"""Inverse kinematics: against closed forms, SciPy's least squares, and the definition of poses."""

import numpy as np
import pytest
from scipy.optimize import least_squares, minimize
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import ClosureError, ConvergenceError, ModelError, ShapeError
from connections.geometry.numerics import quadratic_programs
from connections.geometry.rigid.host_groups import logarithm_slope
from connections.multibody.inverse_kinematics import CENTER_OF_MASS, _Goal

LENGTHS = 0.7, 0.4


def placed(*position):
    pose = np.eye(4)
    pose[:3, 3] = position
    return pose


def planar_arm(count=2, limits=None):
    """Revolute joints about z; the frame "tip" is at the end of the last link."""
    lengths = [*LENGTHS, *[0.3] * (count - 2)]
    mechanism, parent, at = mb.Mechanism(), "world", 0.0
    for k in range(count):
        mechanism.add_body(f"link {k}", mass=1.0, inertia=np.eye(3))
        mechanism.add_joint(
            f"joint {k}", parent, f"link {k}", mb.Revolute((0, 0, 1)), placed(at, 0, 0), limits=limits
        )
        parent, at = f"link {k}", lengths[k]
    return mechanism.build().with_frames({"tip": (parent, placed(at, 0, 0))})


def gantry(*axes):
    """Slides one after the other; the frame of the last body is "hand"."""
    mechanism, parent = mb.Mechanism(), "world"
    for k, axis in enumerate(axes):
        name = "hand" if k + 1 == len(axes) else f"body {k}"
        mechanism.add_body(name, mass=1.0, inertia=np.eye(3))
        mechanism.add_joint(f"slide {k}", parent, name, mb.Prismatic(axis))
        parent = name
    return mechanism.build()


def four_bar(limits=None):
    """A crank of 0.5, a coupler of 1 and a rocker of 0.8, on a ground of 1.1; the rocker has the limits."""
    mechanism = mb.Mechanism()
    for name in ("crank", "coupler", "rocker"):
        mechanism.add_body(name, mass=1.0, inertia=np.eye(3))
    z = mb.Revolute((0, 0, 1))
    mechanism.add_joint("motor", "world", "crank", z)
    mechanism.add_joint("pin", "crank", "coupler", z, placed(0.5, 0, 0))
    mechanism.add_joint("pivot", "world", "rocker", z, placed(1.1, 0, 0), limits=limits)
    mechanism.add_loop("loop", "coupler", "rocker", z, placed(1.0, 0, 0), placed(0.8, 0, 0))
    reference = {"motor": 1.0, "pin": -0.7, "pivot": 1.2}
    return mechanism.build(reference=reference, independent=["motor"]).with_frames(
        {"tip": ("rocker", placed(0.8, 0, 0))}
    )


# --- what is reached ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("w", [(0.3, -0.5, 2.0), (1e-3, 2e-3, 0.0), (0.0, 0.0, 0.0)])
def test_the_rate_of_a_logarithm(w, rng):
    omega, h = rng.standard_normal(3), 1e-4

    def moved(s):
        return (Rotation.from_rotvec(w) * Rotation.from_rotvec(s * omega)).as_rotvec()

    rate, w = (moved(h) - moved(-h)) / (2.0 * h), np.array(w)
    np.testing.assert_allclose(logarithm_slope(w) @ omega, rate, atol=1e-7)
    if np.linalg.norm(w) > 0.1:  # a control: the other way round
        assert np.abs(logarithm_slope(-w) @ omega - rate).max() > 0.1


@pytest.mark.parametrize("elbow", [1.0, -1.0])
def test_two_links_reach_a_point_by_the_law_of_cosines(elbow):
    robot, point = planar_arm(), np.array([0.5, 0.6, 0.0])
    a, b, r = *LENGTHS, np.linalg.norm(point)
    bend = elbow * np.arccos((r**2 - a**2 - b**2) / (2.0 * a * b))
    first = np.arctan2(point[1], point[0]) - np.arctan2(b * np.sin(bend), a + b * np.cos(bend))
    found = mb.inverse_kinematics(robot, {"tip": point}, [0.2, elbow]).require()
    np.testing.assert_allclose(found.q, [first, bend], atol=1e-8)
    assert found.status == "solved" and 2 <= found.steps <= 10


def test_poses_of_a_batch_are_reached_and_are_those_of_the_definition(rng):
    robot = mb.example("arm")
    q = rng.uniform(-1.5, 1.5, (2, 5, 6))
    found = mb.inverse_kinematics(robot, {"tool": mb.frame_pose(robot, q, "tool")}, q + 0.3)
    assert found.q.shape == q.shape and found.status.shape == found.steps.shape == (2, 5)
    assert found.solved.all() and found.residuals["tool"].shape == (2, 5, 6)
    for row in np.ndindex(2, 5):
        pose = robot.frame_pose_at(found.q[row], "tool")
        np.testing.assert_allclose(pose, robot.frame_pose_at(q[row], "tool"), atol=1e-7)
    alone = mb.inverse_kinematics(robot, {"tool": mb.frame_pose(robot, q[1, 2], "tool")}, q[1, 2] + 0.3)
    np.testing.assert_allclose(alone.q, found.q[1, 2], atol=1e-8)


def test_a_floating_base_and_four_feet_are_placed_together(rng):
    robot = mb.example("quadruped")
    feet = [name for name in robot.frame_names if name.endswith("shank")]
    assert len(feet) == 4
    q = mb.displace(robot, robot.neutral(), rng.uniform(-0.3, 0.3, robot.nv))
    targets = {name: mb.frame_pose(robot, q, name)[:3, 3] for name in feet}
    targets["trunk"] = mb.frame_pose(robot, q, "trunk")
    found = mb.inverse_kinematics(robot, targets, robot.neutral(), limits=False).require()
    for name, target in targets.items():
        pose = np.asarray(robot.frame_pose_at(found.q, name))
        np.testing.assert_allclose(pose if target.ndim == 2 else pose[:3, 3], target, atol=1e-8)


def test_a_joint_that_moves_its_frame_by_round_off_alone_does_not_hold_the_others(rng):
    """A hand on a ball joint: its origin does not move as the ball turns, but to the last digit."""
    mechanism = mb.Mechanism()
    for name, parent, joint in (
        ("base", "world", mb.Free()),
        ("arm", "base", mb.Revolute((0, 1, 0))),
        ("hand", "arm", mb.Spherical()),
    ):
        mechanism.add_body(name, mass=1.0, inertia=np.eye(3))
        mechanism.add_joint(name, parent, name, joint, placed(0.1, 0.2, 0.3))
    robot = mechanism.build()
    found = mb.inverse_kinematics(robot, {"hand": [0.3, 0.2, 0.5]}, robot.random(rng)).require()
    np.testing.assert_allclose(mb.frame_pose(robot, found.q, "hand")[:3, 3], [0.3, 0.2, 0.5], atol=1e-8)


# --- what is not reached -----------------------------------------------------------------------------------


def test_targets_that_contradict_each_other_are_met_by_their_weights():
    robot = gantry((1, 0, 0), (0, 1, 0)).with_frames({"other": ("hand", placed(0.0, 0.0, 0.5))})
    p, r = np.array([1.0, 2.0, 0.0]), np.array([3.0, -1.0, 0.5])
    weights = {"hand": 3.0, "other": (1.0, 2.0, 0.0)}
    found = mb.inverse_kinematics(robot, {"hand": p, "other": r}, [0.0, 0.0], weights=weights)
    np.testing.assert_allclose(found.q, [(3 * p[0] + r[0]) / 4, (3 * p[1] + 2 * r[1]) / 5], atol=1e-9)
    assert found.status == "closest"
    with pytest.raises(ConvergenceError, match="'closest', frame 'other' is 1"):
        found.require()
    free = mb.inverse_kinematics(robot, {"hand": [1.0, 2.0, 9.0]}, [0.0, 0.0], weights={"hand": (1, 1, 0)})
    assert free.status == "solved" and free.residuals["hand"][2] == -9.0


def test_a_point_out_of_reach_stretches_the_arm():
    found = mb.inverse_kinematics(planar_arm(), {"tip": [2.0, 2.0, 0.0]}, [0.1, 0.5])
    np.testing.assert_allclose(found.q, [np.pi / 4, 0.0], atol=1e-6)
    assert found.status == "closest" and not found.solved


def test_steps_end_and_say_so():
    found = mb.inverse_kinematics(planar_arm(), {"tip": [0.5, 0.6, 0.0]}, [0.2, 1.0], max_steps=1)
    assert found.status == "steps" and found.steps == 1


# --- limits ------------------------------------------------------------------------------------------------


def test_limits_hold_and_what_is_closest_within_them_is_scipys(rng):
    """The same problems by SciPy's bounded least squares, from where the search ended: it goes no further."""
    robot = planar_arm(3, mb.joints.Limits(lower=-0.6, upper=0.9))
    q, start = rng.uniform(-2.5, 2.5, (40, 3)), rng.uniform(-0.5, 0.8, (40, 3))
    points = mb.frame_pose(robot, q, "tip")[:, :3, 3]
    found = mb.inverse_kinematics(robot, {"tip": points}, start)
    assert (found.q >= -0.6).all() and (found.q <= 0.9).all()
    bound = (np.abs(found.q - 0.9) < 1e-7) | (np.abs(found.q + 0.6) < 1e-7)
    assert {"solved", "closest"} == set(found.status) and bound[found.status == "closest"].any()
    for x, point in zip(found.q, points, strict=True):

        def residual(x, point=point):
            return np.asarray(mb.frame_pose(robot, x, "tip"))[:3, 3] - point

        best = least_squares(residual, np.clip(x, -0.599999, 0.899999), bounds=(-0.6, 0.9), xtol=1e-12)
        assert 0.5 * np.sum(residual(x) ** 2) <= best.cost + 1e-7
    # A control: without limits, all points are reached, beyond them.
    free = mb.inverse_kinematics(robot, {"tip": points}, start, limits=False)
    assert free.solved.all() and (np.abs(free.q) > 0.95).any()


def test_a_start_beyond_the_limits_is_brought_within():
    robot = planar_arm(2, mb.joints.Limits(lower=-1.0, upper=2.0))
    found = mb.inverse_kinematics(robot, {"tip": [0.5, 0.6, 0.0]}, [-3.0, 2.5]).require()
    assert (found.q >= -1.0).all() and (found.q <= 2.0).all()


def one_body(*joints, limits=None):
    """Joints in series, of which the last has the limits; the frame "tip" is 0.8 m along x of its body."""
    mechanism, parent = mb.Mechanism(), "world"
    for k, joint in enumerate(joints):
        mechanism.add_body(f"body {k}", mass=1.0, inertia=np.eye(3))
        last = limits if k + 1 == len(joints) else None
        mechanism.add_joint(f"joint {k}", parent, f"body {k}", joint, limits=last)
        parent = f"body {k}"
    return mechanism.build().with_frames({"tip": (parent, placed(0.8, 0, 0))})


@pytest.mark.parametrize("before", [(), (mb.Prismatic((0, 0, 1)),)], ids=["alone", "behind a slide"])
def test_the_angle_of_a_ball_joint_stops_a_turn(rng, before):
    """The nearest rotation within an angle of the identity is on the way there, and so is a direction."""
    robot = one_body(*before, mb.Spherical(), limits=mb.joints.Limits(angle=0.8))
    axis = rng.standard_normal((5, 3))
    axis /= np.linalg.norm(axis, axis=1)[:, None]
    wanted = Rotation.from_rotvec(1.3 * axis).as_matrix()
    start = np.tile(robot.neutral(), (5, 1))
    found = mb.inverse_kinematics(robot, {"tip": wanted}, start)
    assert set(found.status) == {"closest"}
    turned = Rotation.from_quat(found.q[:, -4:]).as_rotvec()
    np.testing.assert_allclose(turned, 0.8 * axis, atol=1e-6)
    free = mb.inverse_kinematics(robot, {"tip": wanted}, start, limits=False).require()  # a control
    np.testing.assert_allclose(np.linalg.norm(Rotation.from_quat(free.q[:, -4:]).as_rotvec(), axis=1), 1.3)
    inside = Rotation.from_rotvec(0.79 * axis).as_matrix()
    mb.inverse_kinematics(robot, {"tip": inside}, start).require()
    beyond = start.copy()
    beyond[:, -4:] = Rotation.from_rotvec(-2.0 * axis).as_quat()
    back = mb.inverse_kinematics(robot, {"tip": inside}, beyond)
    assert (np.linalg.norm(Rotation.from_quat(back.q[:, -4:]).as_rotvec(), axis=1) <= 0.8 + 1e-12).all()
    far = start.copy()
    far[:, -4:] = Rotation.from_matrix(wanted).as_quat()
    one = mb.inverse_kinematics(
        robot, {"tip": wanted}, far, max_steps=1
    )  # a start is brought to the near side
    np.testing.assert_allclose(one.residuals["tip"], -0.5 * axis, atol=1e-7)
    if not before:
        point = [0.8 * np.cos(1.2), 0.8 * np.sin(1.2), 0.0]
        found = mb.inverse_kinematics(robot, {"tip": point}, Rotation.from_rotvec([0.1, 0.2, 0.3]).as_quat())
        tip = mb.frame_pose(robot, found.q, "tip")[:3, 3]
        np.testing.assert_allclose(tip, [0.8 * np.cos(0.8), 0.8 * np.sin(0.8), 0.0], atol=1e-5)


def test_the_angle_of_a_ball_joint_stops_a_loop():
    """A bar on two ball joints, of which the dependent one has a largest angle, and a crank."""
    mechanism = mb.Mechanism()
    for name in ("crank", "bar"):
        mechanism.add_body(name, mass=1.0, inertia=np.eye(3))
    mechanism.add_body("slider", mass=1.0, inertia=np.eye(3))
    mechanism.add_joint("motor", "world", "crank", mb.Revolute((0, 0, 1)))
    mechanism.add_joint(
        "ball", "crank", "bar", mb.Spherical(), placed(0.5, 0, 0), limits=mb.joints.Limits(angle=0.9)
    )
    mechanism.add_joint("slide", "world", "slider", mb.Prismatic((1, 0, 0)))
    mechanism.add_loop("loop", "bar", "slider", mb.Universal((0, 1, 0), (0, 0, 1)), placed(1.0, 0, 0))
    robot = mechanism.build(independent=["motor"], reference={"slide": 1.5})
    turned = Rotation.from_rotvec([0.0, 0.0, 1.2]).as_matrix()
    found = mb.inverse_kinematics(robot, {"crank": turned}, [0.2])
    # the ball turns back by the crank's angle a and on by the bar's, sin b = sin(a) / 2
    angle = found.q[0]
    assert found.status == "closest" and angle + np.arcsin(0.5 * np.sin(angle)) == pytest.approx(
        0.9, abs=1e-6
    )
    mb.inverse_kinematics(robot, {"crank": turned}, [0.2], limits=False).require()


SEVERAL = {
    "planar": (mb.Planar(), [-0.1, -0.2, -0.3], [0.3, 0.2, 0.4]),
    "cylindrical": (mb.Cylindrical((0, 0, 1)), [-0.3, -0.1], [0.4, 0.2]),
    "universal": (mb.Universal((0, 0, 1), (0, 1, 0)), [-0.3, -0.2], [0.5, 0.25]),
    "helical": (mb.Helical((0, 0, 1), pitch=0.1), [-0.3], [0.4]),
}


@pytest.mark.parametrize("kind", SEVERAL)
@pytest.mark.parametrize("before", [(), (mb.Spherical(),)], ids=["alone", "behind a ball"])
def test_limits_of_several_coordinates_hold_for_each(kind, before, rng):
    """As by SciPy's bounded least squares in the coordinates of the joint."""
    joint, lower, upper = SEVERAL[kind]
    robot = one_body(*before, joint, limits=mb.joints.Limits(lower, upper))
    own, start = robot.configuration_slice(f"joint {len(before)}"), robot.neutral()
    wanted = start.copy()
    wanted[own] = 2.5 * np.array(upper)
    pose = mb.frame_pose(robot, wanted, "tip")
    targets = {"tip": pose} | ({"body 0": np.eye(3)} if before else {})
    weights = {"body 0": 1e6} if before else None  # the ball is held
    found = mb.inverse_kinematics(robot, targets, start, weights=weights)

    def residual(x):
        q = start.copy()
        q[own] = x
        at = np.asarray(mb.frame_pose(robot, q, "tip"))
        turn = Rotation.from_matrix(pose[:3, :3].T @ at[:3, :3]).as_rotvec()
        return np.concatenate([turn, pose[:3, :3].T @ (at[:3, 3] - pose[:3, 3])])

    best = least_squares(residual, np.zeros(len(lower)), bounds=(lower, upper), xtol=1e-13)
    assert found.status == "closest"
    np.testing.assert_allclose(found.q[own], best.x, atol=3e-5)
    assert (found.q[own] <= np.array(upper) + 1e-15).all() and (found.q[own] >= np.array(lower)).all()
    assert np.isclose(found.q[own], upper, atol=1e-7).any()


def floating_arm(*limits):
    """A planar arm of three joints on a free base."""
    mechanism, parent = mb.Mechanism(), "base"
    mechanism.add_body("base", mass=2.0, inertia=np.eye(3))
    mechanism.add_joint("float", "world", "base", mb.Free())
    for k, limit in enumerate(limits):
        mechanism.add_body(f"link {k}", mass=1.0, inertia=np.eye(3))
        shift = placed(0.5 * (k > 0), 0, 0)
        mechanism.add_joint(f"joint {k}", parent, f"link {k}", mb.Revolute((0, 0, 1)), shift, limits=limit)
        parent = f"link {k}"
    return mechanism.build().with_frames({"tip": (parent, placed(0.5, 0, 0))})


def test_limits_behind_a_quaternion_are_those_of_their_joints():
    """The base is held by its target; the middle joint alone has limits, and the others do its part."""
    robot = floating_arm(None, mb.joints.Limits(-0.4, 0.4), None)
    start = robot.neutral()
    start[7:] = 1.0, 0.1, 0.9
    wanted = start.copy()
    wanted[7:] = 0.3, 1.2, 0.5
    # a point that two links of 0.5 m and one turned by 0.4 reach, and a farther one, at its end
    reach = robot.neutral()
    reach[7:] = 0.2, 0.3, 1.1
    targets = {"base": np.eye(4), "tip": mb.frame_pose(robot, reach, "tip")[:3, 3]}
    found = mb.inverse_kinematics(robot, targets, start).require()
    assert abs(found.q[8]) <= 0.4
    pose = mb.frame_pose(robot, wanted, "tip")
    weights = {"base": 1e6}
    bound = mb.inverse_kinematics(robot, {"base": np.eye(4), "tip": pose}, start, weights=weights)
    assert bound.status == "closest"

    def residual(x):
        q = robot.neutral()
        q[7:] = x
        at = np.asarray(mb.frame_pose(robot, q, "tip"))
        turn = Rotation.from_matrix(pose[:3, :3].T @ at[:3, :3]).as_rotvec()
        return np.concatenate([turn, pose[:3, :3].T @ (at[:3, 3] - pose[:3, 3])])

    sides = [-np.inf, -0.4, -np.inf], [np.inf, 0.4, np.inf]
    best = least_squares(residual, [0.3, 0.39, 0.5], bounds=sides, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    np.testing.assert_allclose(bound.q[7:], best.x, atol=1e-4)
    assert bound.q[8] == pytest.approx(0.4, abs=1e-8)


def test_a_posture_behind_a_quaternion_is_that_of_its_joints():
    """As without the base, whose pose is a target."""
    robot = floating_arm(None, None, None)
    wish = robot.neutral()
    wish[7:] = 0.3, 0.9, -0.5
    start = robot.neutral()
    start[7:] = 0.9, -0.3, 0.8
    point = np.array([0.9, 0.5, 0.0])
    found = mb.inverse_kinematics(robot, {"base": np.eye(4), "tip": point}, start, posture=wish).require()

    def tip(x):
        angles = np.cumsum(x)
        return 0.5 * np.array([np.cos(angles).sum(), np.sin(angles).sum()])

    best = minimize(
        lambda x: 0.5 * np.sum((x - wish[7:]) ** 2),
        found.q[7:],
        constraints={"type": "eq", "fun": lambda x: tip(x) - point[:2]},
        method="SLSQP",
        options={"ftol": 1e-13},
    )
    np.testing.assert_allclose(found.q[7:], best.x, atol=1e-4)
    assert np.linalg.norm(start[7:] - best.x) > 0.3


def test_without_daqp_limits_that_bind_say_what_to_install(monkeypatch):
    robot = planar_arm(2, mb.joints.Limits(lower=-0.1, upper=0.1))
    monkeypatch.setattr(quadratic_programs, "_daqp", lambda: None)
    with pytest.raises(ImportError, match="inverse_kinematics with limits needs DAQP: .*whole-body"):
        mb.inverse_kinematics(robot, {"tip": [0.0, 1.0, 0.0]}, [0.0, 0.0])
    mb.inverse_kinematics(robot, {"tip": [1.1, 0.0, 0.0]}, [0.0, 0.0]).require()  # none binds


def test_arrays_in_any_order_are_the_same_program():
    """DAQP reads an array that is not contiguous as if it were."""
    P, c, G = np.diag([1.0, 2.0]), np.array([-3.0, -4.0]), np.array([[1.0, 0.5], [0.0, 1.0]])
    upper, lower = np.array([1.0, 0.5]), np.array([-1.0, -0.5])
    plain = quadratic_programs.solved(quadratic_programs.QuadraticProgram(P, c, G, upper, lower), "a test")
    other = quadratic_programs.solved(
        quadratic_programs.QuadraticProgram(P, c, np.asfortranarray(G), np.stack([upper] * 2)[::2][0], lower),
        "a test",
    )
    np.testing.assert_array_equal(plain[0], other[0])
    np.testing.assert_allclose(plain[0], [0.75, 0.5], atol=1e-9)


# --- out of reach, and second derivatives ------------------------------------------------------------------


def goals_of(robot, rng):
    """Places beyond reach of each kind: a pose, a rotation, a point, and the centre of mass."""
    frame, pose = robot.frame_names[-1], np.eye(4)
    pose[:3] = np.c_[Rotation.random(rng=rng).as_matrix(), 2.0 * rng.standard_normal(3)]
    point = 3.0 * rng.standard_normal(3)
    return (
        ({frame: pose}, None),
        ({frame: pose[:3, :3], robot.frame_names[1]: point}, None),
        ({frame: point}, 2.0 * rng.standard_normal(3)),
    )


def residual(robot, q, targets, center):
    parts = []
    for frame, place in targets.items():
        pose = mb.frame_pose(robot, q, frame)
        if place.shape == (3,):
            parts.append(pose[:3, 3] - place)
            continue
        R = place[:3, :3]
        parts.append(Rotation.from_matrix(R.T @ pose[:3, :3]).as_rotvec())
        if place.shape == (4, 4):
            parts.append(R.T @ (pose[:3, 3] - place[:3, 3]))
    if center is not None:
        parts.append(mb.center_of_mass(robot, q) - center)
    return np.concatenate(parts)


@pytest.mark.parametrize("robot", [mb.example("quadruped"), planar_arm(4)], ids=["quadruped", "arm"])
def test_second_derivatives_are_differences_of_first_ones(robot, rng):
    q, h = robot.random(rng), 1e-5
    for targets, center in goals_of(robot, rng):
        places = list(targets.items()) + ([] if center is None else [(CENTER_OF_MASS, center)])
        goals = [_Goal.of(robot, name, place, None).rows(()) for name, place in places]
        for goal in goals:

            def first(p, goal=goal):
                error, J = goal.at(robot, p[None], np.array([0]))
                return error, J, J[0].T @ error[0]

            error, J, _ = first(q)
            second = J[0].T @ J[0] + goal.second(robot, q[None], np.array([0]), error, J)[0]
            ends = [[first(mb.displace(robot, q, s * h * e))[2] for e in np.eye(robot.nv)] for s in (1, -1)]
            differences = (np.array(ends[0]) - ends[1]).T / (2 * h)
            scale = np.abs(differences).max()
            np.testing.assert_allclose(second, differences, atol=1e-7 * scale)
            assert np.abs(J[0].T @ J[0] - differences).max() > 1e-2 * scale  # negative control


@pytest.mark.parametrize("robot", [mb.example("quadruped"), mb.example("arm")], ids=["quadruped", "arm"])
def test_what_is_out_of_reach_is_met_as_closely_as_by_scipy(robot, rng):
    """Within 100 steps, from the same start and from the end."""
    for targets, center in goals_of(robot, rng):
        start = mb.displace(robot, robot.neutral(), 0.3 * rng.standard_normal(robot.nv))
        found = mb.inverse_kinematics(
            robot, targets, start, limits=False, center_of_mass=center, max_steps=100
        )
        assert found.status != "steps"
        cost = 0.5 * sum(np.sum(r**2) for r in found.residuals.values())
        best = least_squares(
            lambda x: residual(robot, mb.displace(robot, found.q, x), targets, center),  # noqa: B023
            np.zeros(robot.nv),
            x_scale="jac",
            max_nfev=50,
        )
        assert cost <= best.cost * (1.0 + 1e-6)


def test_rotations_and_the_centre_of_mass_are_reached(rng):
    robot = mb.example("quadruped")
    goal = mb.displace(robot, robot.neutral(), 0.3 * rng.standard_normal(robot.nv))
    R, c = mb.frame_pose(robot, goal, "trunk")[:3, :3], mb.center_of_mass(robot, goal)
    found = mb.inverse_kinematics(robot, {"trunk": R}, robot.neutral(), center_of_mass=c).require()
    np.testing.assert_allclose(mb.frame_pose(robot, found.q, "trunk")[:3, :3], R, atol=1e-7)
    np.testing.assert_allclose(mb.center_of_mass(robot, found.q), c, atol=1e-7)
    assert found.residuals["center_of_mass"].shape == (3,) == found.residuals["trunk"].shape
    alone = mb.inverse_kinematics(robot, {}, robot.neutral(), center_of_mass=[c, c + 0.1]).require()
    np.testing.assert_allclose(mb.center_of_mass(robot, alone.q), [c, c + 0.1], atol=1e-7)


# --- a posture ---------------------------------------------------------------------------------------------


def test_a_posture_that_leads_away_from_the_targets_does_not_count():
    """Limits and a far posture pulled a quadruped where feet did not reach; the other row keeps its own."""
    robot, rng = mb.example("quadruped"), np.random.default_rng(3)
    limits, q = robot.limits, robot.random(rng)
    q[7:] = np.clip(q[7:], limits.lower[-12:] + 0.1, limits.upper[-12:] - 0.1)
    goals = {name: mb.frame_pose(robot, q, name)[:3, 3] for name in robot.frame_names[-4:]}
    center = mb.center_of_mass(robot, q)
    q0 = mb.displace(robot, q, 0.05 * rng.standard_normal(18))
    postures = np.stack([robot.neutral(), q0])
    found = mb.inverse_kinematics(robot, goals, q0, posture=postures, center_of_mass=center)
    assert found.solved.all() and max(np.abs(error).max() for error in found.residuals.values()) < 1e-8
    plain = mb.inverse_kinematics(robot, goals, q0, center_of_mass=center)
    np.testing.assert_array_equal(found.q[0], plain.q)
    assert np.abs(found.q[1] - plain.q).max() > 1e-6  # negative control: it counts where it leads to them


def test_the_closest_to_a_posture_of_those_that_reach():
    """Slides of which two add up: the excess is shared between them."""
    robot, wish = gantry((1, 0, 0), (1, 0, 0), (0, 1, 0)), np.array([0.2, 0.5, -3.0])
    found = mb.inverse_kinematics(robot, {"hand": [1.3, 0.4, 0.0]}, [5.0, -1.0, 0.0], posture=wish).require()
    np.testing.assert_allclose(found.q, [0.5, 0.8, 0.4], atol=1e-5)
    other = mb.inverse_kinematics(robot, {"hand": [1.3, 0.4, 0.0]}, [5.0, -1.0, 0.0]).require()
    np.testing.assert_allclose(other.q, [3.65, -2.35, 0.4], atol=1e-6)  # a control: the least motion


def test_the_posture_of_a_bent_arm_is_that_of_a_constrained_minimum():
    robot, wish, point = planar_arm(4), np.array([0.3, 0.4, -0.2, 0.9]), np.array([0.9, 0.7, 0.0])
    found = mb.inverse_kinematics(robot, {"tip": point}, [1.0, -0.5, 0.3, 0.2], posture=wish).require()
    best = minimize(
        lambda x: 0.5 * np.sum((x - wish) ** 2),
        found.q,
        constraints={"type": "eq", "fun": lambda x: (mb.frame_pose(robot, x, "tip")[:3, 3] - point)[:2]},
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    assert np.linalg.norm(found.q - wish) < np.linalg.norm(best.x - wish) * (1.0 + 1e-7)
    np.testing.assert_allclose(found.q, best.x, atol=2e-5)


# --- loops -------------------------------------------------------------------------------------------------


def test_a_four_bar_follows_its_own_coupler():
    robot = four_bar()
    q = np.array([[1.0], [1.4], [0.4], [0.7]])
    poses = mb.frame_pose(robot, q, "coupler")
    for targets, q0 in ((poses, [1.1]), (poses[:, :3, 3], mb.close_loops(robot, [1.1]))):
        found = mb.inverse_kinematics(robot, {"coupler": targets}, q0).require()
        np.testing.assert_allclose(found.q, q, atol=1e-6)


def test_limits_of_a_dependent_joint_stop_a_loop():
    """The crank is to lead the rocker to 1.9, which may turn to 1.5."""
    turned = np.array([1.1 + 0.8 * np.cos(1.9), 0.8 * np.sin(1.9), 0.0])
    free, bound = four_bar(), four_bar(mb.joints.Limits(upper=1.5))
    for robot, limits in ((free, True), (bound, False)):
        found = mb.inverse_kinematics(robot, {"tip": turned}, [1.0], limits=limits).require()
        assert robot.spanning_configuration(found.q)["pivot"] == pytest.approx(1.9, abs=1e-7)
    found = mb.inverse_kinematics(bound, {"tip": turned}, [1.0])
    assert found.status == "closest"
    assert bound.spanning_configuration(found.q)["pivot"] == pytest.approx(1.5, abs=1e-6)


def test_a_row_whose_loop_opens_is_closed_by_a_shorter_step():
    """A slide of 1 m at most, on two bars: steps towards 3 m open the loop, others of the batch do not."""
    mechanism = mb.Mechanism()
    for name in ("slider", "rod", "arm"):
        mechanism.add_body(name, mass=1.0, inertia=np.eye(3))
    z = mb.Revolute((0, 0, 1))
    mechanism.add_joint("slide", "world", "slider", mb.Prismatic((1, 0, 0)))
    mechanism.add_joint("pin", "slider", "rod", z)
    mechanism.add_joint("pivot", "world", "arm", z)
    mechanism.add_loop("loop", "rod", "arm", z, placed(0.6, 0, 0), placed(0.4, 0, 0))
    angle = np.arccos((0.16 + 0.25 - 0.36) / 0.4)  # of a triangle with the sides 0.5, 0.6 and 0.4
    inside = np.arccos((0.36 + 0.25 - 0.16) / 0.6)
    robot = mechanism.build(
        reference={"slide": 0.5, "pin": np.pi - inside, "pivot": angle}, independent=["slide"]
    )
    targets = np.array([[0.7, 0.0, 0.0], [3.0, 0.0, 0.0], [0.45, 0.0, 0.0], [0.6, 0.0, 0.0]])
    found = mb.inverse_kinematics(robot, {"slider": targets}, [0.5])
    assert list(found.status[[0, 2]]) == ["solved", "solved"]
    np.testing.assert_allclose(found.q[[0, 2], 0], [0.7, 0.45], atol=1e-8)
    assert found.status[1] != "solved" and 0.9 < found.q[1, 0] <= 1.0
    with pytest.raises(ClosureError, match="loop"):
        mb.inverse_kinematics(robot, {"slider": targets[0]}, [2.0])


# --- arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robot", [planar_arm(), four_bar()], ids=["arm", "four-bar"])
@pytest.mark.parametrize("batch", [(0,), (3, 0)])
def test_no_rows_have_no_results(robot, batch):
    frame, q = robot.body_names[-1], robot.neutral()
    poses, rows = np.zeros((*batch, 4, 4)), np.zeros((*batch, robot.nq))
    for target, start, posture in ((poses, q, None), (np.zeros(3), rows, None), (poses, q, rows)):
        found = mb.inverse_kinematics(robot, {frame: target}, start, posture=posture).require()
        size = 6 if target is poses else 3
        assert found.q.shape == rows.shape and found.residuals[frame].shape == (*batch, size)
        assert found.status.shape == found.steps.shape == batch


def test_wrong_arguments_are_named():
    robot, point, q = planar_arm(), [0.5, 0.6, 0.0], [0.2, 1.0]
    solve = mb.inverse_kinematics
    mirrored = np.diag([1.0, 1.0, -1.0, 1.0])
    for error, words, call in (
        (TypeError, "targets: expected {frame", lambda: solve(robot, {}, q)),
        (TypeError, "targets: expected {frame", lambda: solve(robot, point, q)),
        (ModelError, "targets.*'tp'.*tip", lambda: solve(robot, {"tp": point}, q)),
        (ShapeError, "targets.'tip'.*pose.*point", lambda: solve(robot, {"tip": [1.0, 2.0]}, q)),
        (ModelError, "targets.'tip'.*rigid", lambda: solve(robot, {"tip": mirrored}, q)),
        (ValueError, "targets.'tip'.*finite", lambda: solve(robot, {"tip": [np.nan, 0, 0]}, q)),
        (ShapeError, "q0", lambda: solve(robot, {"tip": point}, [0.0])),
        (ShapeError, "posture", lambda: solve(robot, {"tip": point}, q, posture=[0.0])),
        (ValueError, "weights.'tip'.*negative", lambda: solve(robot, {"tip": point}, q, weights={"tip": -1})),
        (ShapeError, "weights.'tip'", lambda: solve(robot, {"tip": point}, q, weights={"tip": [1, 1]})),
        (ModelError, "weights.*'top'", lambda: solve(robot, {"tip": point}, q, weights={"top": 1})),
        (ValueError, "tol", lambda: solve(robot, {"tip": point}, q, tol=0.0)),
        (ValueError, "max_steps", lambda: solve(robot, {"tip": point}, q, max_steps=0)),
        (TypeError, "limits", lambda: solve(robot, {"tip": point}, q, limits=1)),
        (ShapeError, "batch", lambda: solve(robot, {"tip": [point] * 4}, [q] * 2)),
        (ModelError, "'tip'.*rotation.*three points", lambda: solve(robot, {"tip": [point] * 3}, q)),
        (ModelError, "'tip'.*rotation", lambda: solve(robot, {"tip": mirrored[1:, 1:]}, q)),
        (ShapeError, "center_of_mass", lambda: solve(robot, {}, q, center_of_mass=[1.0, 0.0])),
        (ModelError, "weights", lambda: solve(robot, {"tip": point}, q, weights={"center_of_mass": 1.0})),
    ):
        with pytest.raises(error, match=words):
            call()


def test_limits_in_disorder_are_refused_with_the_line_to_write(tmp_path):
    inertial = (
        '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    (tmp_path / "r.urdf").write_text(
        f'<robot name="r"><link name="a"/><link name="b">{inertial}</link><joint name="j" type="revolute">'
        '<parent link="a"/><child link="b"/><axis xyz="0 0 1"/>'
        '<limit lower="1" upper="-1" effort="1" velocity="1"/></joint></robot>'
    )
    with pytest.warns(mb.joints.LimitsWarning):
        robot = mb.from_urdf(tmp_path / "r.urdf")
    with pytest.raises(ModelError, match="joint 'j'.*limits=False"):
        mb.inverse_kinematics(robot, {"b": np.eye(4)}, [0.5])
    mb.inverse_kinematics(robot, {"b": np.eye(4)}, [0.5], limits=False).require()
