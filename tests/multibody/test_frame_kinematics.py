"""Poses, Jacobians of frames, the centre of mass, C v + g: against definitions, differences and Pinocchio."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from mechanisms import move, random_mechanism
from pinocchio_oracle import PinocchioRobot
from recursion_functions import MECHANISMS, configurations, model, with_tip
from robots import robot_path

from connections import multibody as mb
from connections.checks import ModelError

TOL = 1e-9
AXES = ("body", "world")


@pytest.fixture(params=always(MECHANISMS, "tree"))
def state(request, rng):
    """A mechanism, with joints for which qdot != v, and a state of it."""
    robot = model(request.param)
    return robot, *(np.asarray(x) for x in configurations(robot, rng))


def close(found, expected, tol=TOL):
    found, expected = np.asarray(found), np.asarray(expected)
    return found.shape == expected.shape and np.max(np.abs(found - expected), initial=0.0) <= tol * max(
        1.0, np.max(np.abs(expected), initial=0.0)
    )


def along_frame(robot, function, q):
    """The derivative of a function of q along the frame, the direction last."""
    return jnp.asarray(jax.jacfwd(function)(jnp.asarray(q))) @ jnp.asarray(robot.frame.matrix(q))


def jacobian_of_pose(robot, frame, q, axes):
    """J of a frame from the derivative of its pose, by definition."""
    pose, slope = (
        robot.frame_pose_at(jnp.asarray(q), frame),
        along_frame(robot, lambda p: robot.frame_pose_at(p, frame), q),
    )
    R = pose[:3, :3]
    turn = jnp.einsum("abj,cb->acj", slope[:3, :3], R)  # (omega x) in world axes
    w = jnp.stack([turn[2, 1], turn[0, 2], turn[1, 0]])
    parts = (w, slope[:3, 3]) if axes == "world" else (R.T @ w, R.T @ slope[:3, 3])
    return jnp.concatenate(parts)


def test_poses(state):
    robot, q, _ = state
    poses = mb.forward_kinematics(robot, q)
    assert close(poses, robot.kinematics.world_transforms_at(jnp.asarray(q)))
    for number, name in enumerate(robot.body_names):
        assert close(mb.frame_pose(robot, q, name), poses[number], 1e-12)
    assert close(mb.frame_pose(robot, q, "tip"), robot.frame_pose_at(jnp.asarray(q), "tip"))
    assert not close(mb.frame_pose(robot, q, "tip"), poses[-1], 1e-2)  # negative control


@pytest.mark.parametrize("axes", AXES)
def test_jacobians(state, axes):
    robot, q, _ = state
    J = mb.frame_jacobian(robot, q, "tip", axes=axes)
    assert close(J, jacobian_of_pose(robot, "tip", q, axes))
    assert close(J, robot.frame_jacobian_at(jnp.asarray(q), "tip", axes))
    other = mb.frame_jacobian(robot, q, "tip", axes=AXES[axes == "body"])
    assert not close(J, other, 1e-3)  # negative control
    for number, name in enumerate(robot.body_names):
        A = np.asarray(mb.body_jacobians(robot, q))[6 * number : 6 * number + 6]
        assert close(mb.frame_jacobian(robot, q, name), A)


@pytest.mark.parametrize("axes", AXES)
def test_rates(state, axes):
    robot, q, v = state
    rate = mb.frame_jacobian_rate(robot, q, v, "tip", axes=axes)
    q_dot = jnp.asarray(robot.frame.matrix(q)) @ jnp.asarray(v)
    J_at = lambda p: robot.frame_jacobian_at(p, "tip", axes)  # noqa: E731
    assert close(rate, jax.jvp(J_at, (jnp.asarray(q),), (q_dot,))[1])
    h = 1e-4
    ahead, behind = (
        mb.frame_jacobian(robot, np.asarray(move(robot, q, sign * h * v)), "tip", axes=axes)
        for sign in (1.0, -1.0)
    )
    assert close((ahead - behind) / (2.0 * h), rate, 1e-5)
    if robot.nv > 1:
        wrong = mb.frame_jacobian_rate(robot, q, v[::-1].copy(), "tip", axes=axes)
        assert not close(rate, wrong, 1e-3)  # negative control


def test_center_of_mass(state):
    robot, q, _ = state
    c, J = mb.center_of_mass(robot, q), mb.center_of_mass_jacobian(robot, q)
    assert close(c, robot.center_of_mass_at(jnp.asarray(q)))
    assert close(J, along_frame(robot, robot.center_of_mass_at, q))
    mass = mb.total_mass(robot)
    assert mass == pytest.approx(sum(mb.inertial_parameters(robot)[:, 0]))
    assert close(mb.gravity(robot, q), -mass * np.array(robot.gravity) @ J)  # g is the slope of -M g . c
    poses, parameters = mb.forward_kinematics(robot, q), mb.inertial_parameters(robot)
    moment = np.einsum("nab,nb->a", poses[:, :3, :3], parameters[:, 1:4]) + parameters[:, 0] @ poses[:, :3, 3]
    assert close(c, moment / mass)
    assert not close(c, poses[:, :3, 3].mean(axis=0), 1e-2)  # negative controls
    if robot.nv > 1:
        assert not close(J, J[:, ::-1], 1e-2)


def test_nonlinear_effects(state):
    robot, q, v = state
    found = mb.nonlinear_effects(robot, q, v)
    assert close(found, mb.coriolis_product(robot, q, v, v) + mb.gravity(robot, q))
    assert close(found, robot.definition.system.inverse_dynamics_at(*map(jnp.asarray, (q, v, 0.0 * v))))
    if robot.nv > 1:
        assert not close(found, mb.nonlinear_effects(robot, q, 2.0 * v), 1e-3)  # negative control


def test_batches(state):
    """Rows are the same as one configuration at a time, whatever the tree's number of roots."""
    robot, *_ = state
    q, v = (np.asarray(x) for x in configurations(robot, np.random.default_rng(8), 2, 11))
    one = lambda call, *given: np.array(  # noqa: E731
        [[call(*(x[i, j] for x in given)) for j in range(11)] for i in range(2)]
    )
    for axes in AXES:
        rate = lambda q, v, axes=axes: mb.frame_jacobian_rate(robot, q, v, "tip", axes=axes)  # noqa: E731
        assert close(rate(q, v), one(rate, q, v), 1e-12)
        J = lambda q, axes=axes: mb.frame_jacobian(robot, q, "tip", axes=axes)  # noqa: E731
        assert close(J(q), one(J, q), 1e-12)


ROBOTS = {"ur5": False, "solo12": True, "a1": True}


@pytest.mark.parametrize("name", ROBOTS)
def test_against_pinocchio(name, rng):
    path, floating = robot_path(name), ROBOTS[name]
    robot, oracle = mb.from_urdf(path, floating_base=floating), PinocchioRobot(path, floating)
    q, v = robot.random(rng), rng.standard_normal(robot.nv)
    assert close(mb.forward_kinematics(robot, q), oracle.world_poses(q))
    assert close(mb.nonlinear_effects(robot, q, v), oracle.nonlinear_effects(q, v))
    assert close(mb.center_of_mass(robot, q), oracle.center_of_mass(q))
    assert close(mb.center_of_mass_jacobian(robot, q), oracle.center_of_mass_jacobian(q))
    merged = [link for links in robot.kinematics.tree.links for link in links[1:]]
    assert merged
    for frame in [*robot.body_names[-2:], *merged[-3:], *merged[:1]]:
        assert close(mb.frame_pose(robot, q, frame), oracle.frame_pose(q, frame)), frame
        for axes in AXES:
            J, rate = (
                mb.frame_jacobian(robot, q, frame, axes=axes),
                mb.frame_jacobian_rate(robot, q, v, frame, axes=axes),
            )
            assert close(J, oracle.frame_jacobian(q, frame, axes)), frame
            assert close(rate, oracle.frame_jacobian_rate(q, v, frame, axes)), frame
    limits, theirs, columns = robot.limits, oracle.model, slice(6, None) if floating else slice(None)
    assert close(limits.velocity[columns], theirs.velocityLimit[columns])
    assert close(limits.effort[columns], theirs.effortLimit[columns])
    if not any(oracle.circles):
        own = slice(7, None) if floating else slice(None)
        assert close(limits.lower[own], theirs.lowerPositionLimit[own])
        assert close(limits.upper[own], theirs.upperPositionLimit[own])
    assert np.isinf(limits.upper[: 7 if floating else 0]).all()


def test_frames_of_the_ground_do_not_move(rng):
    robot = mb.from_urdf(robot_path("ur5"))
    q, v = robot.random(rng), rng.standard_normal(6)
    root = robot.frame_names[0]
    assert robot.kinematics.tree.placements[root][0] == -1
    assert close(mb.frame_pose(robot, q, root), np.eye(4))
    assert not mb.frame_jacobian(robot, q, root).any()
    assert not mb.frame_jacobian_rate(robot, q, v, root).any()


def test_frames_are_added_to_a_copy(rng):
    robot = random_mechanism(np.random.default_rng(3), 4, (mb.Revolute, mb.Free))
    tipped = with_tip(robot)
    assert tipped.frame_names == (*robot.frame_names, "tip")
    q = robot.random(rng)
    placement = np.linalg.inv(mb.frame_pose(tipped, q, robot.body_names[-1])) @ mb.frame_pose(
        tipped, q, "tip"
    )
    again = tipped.with_frames({"point": ("tip", np.linalg.inv(placement))})
    assert close(mb.frame_pose(again, q, "point"), mb.frame_pose(robot, q, robot.body_names[-1]))
    assert close(mb.mass_matrix(again, q), mb.mass_matrix(robot, q), 0.0)
    assert pickle.loads(pickle.dumps(again)).frame_names == again.frame_names
    for wrong in ({"tip": ("tip", None)}, {"": ("tip", None)}, {"a": ("nowhere", None)}):
        with pytest.raises(ModelError):
            tipped.with_frames(wrong)
    with pytest.raises(ModelError, match="bad"):
        tipped.with_frames({"bad": ("tip", 2.0 * np.eye(4))})


@pytest.mark.parametrize(
    ("frame", "axes", "error", "text"),
    [
        ("nowhere", "body", ModelError, "frame"),
        (3, "body", TypeError, "frame"),
        (["tip"], "body", TypeError, "frame"),
        ("tip", "local", ValueError, "axes"),
        ("tip", ["body"], ValueError, "axes"),
    ],
)
def test_wrong_frames(frame, axes, error, text):
    robot = model("tree")
    q = robot.neutral()
    for given in (q, np.stack([q, q])):
        with pytest.raises(error, match=text):
            mb.frame_jacobian(robot, given, frame, axes=axes)


def test_without_mass_there_is_no_center():
    mechanism = mb.Mechanism()
    mechanism.add_body("rotor", inertia=np.eye(3))
    mechanism.add_joint("spin", "world", "rotor", mb.Revolute((0, 0, 1)))
    robot = mechanism.build()
    one, rows = np.zeros(1), np.zeros((3, 1))
    for function, q in (
        (mb.center_of_mass, one), (mb.center_of_mass, rows), (mb.center_of_mass_jacobian, one)
    ):  # fmt: skip
        with pytest.raises(ModelError, match="mass"):
            function(robot, q)
    assert mb.total_mass(robot) == 0.0


# --- limits, random configurations --------------------------------------------------------------------------


def limited(**given):
    mechanism = mb.Mechanism()
    for name in ("a", "b"):
        mechanism.add_body(name, mass=1.0, inertia=np.eye(3))
    mechanism.add_joint("ball", "world", "a", mb.Spherical(), limits=mb.joints.Limits(velocity=2.0))
    mechanism.add_joint("cylinder", "a", "b", mb.Cylindrical((0, 0, 1)), limits=mb.joints.Limits(**given))
    return mechanism


def test_limits_in_code():
    robot = limited(lower=(-1.0, -np.inf), upper=(1.0, 2.0), effort=(3.0, 4.0)).build()
    limits = robot.limits
    assert np.array_equal(limits.lower, [*[-np.inf] * 4, -1.0, -np.inf])
    assert np.array_equal(limits.upper, [*[np.inf] * 4, 1.0, 2.0])
    assert np.array_equal(limits.velocity, [2.0, 2.0, 2.0, np.inf, np.inf])
    assert np.array_equal(limits.effort, [np.inf, np.inf, np.inf, 3.0, 4.0])
    assert not limits.effort.flags.writeable
    again = pickle.loads(pickle.dumps(robot)).limits
    assert np.array_equal(again.upper, limits.upper)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lower": (1.0, 2.0, 3.0)},
        {"lower": 1.0, "upper": 0.0},
        {"effort": -1.0},
        {"velocity": np.nan},
        {"angle": 1.0},
    ],
)
def test_wrong_limits_name_the_joint(wrong):
    with pytest.raises(ModelError, match=r"cylinder.*limits"):
        limited(**wrong)


@pytest.mark.parametrize(
    ("joint", "wrong", "way"),
    [
        (mb.Spherical(), {"lower": -1.0}, "angle="),
        (mb.Spherical(), {"upper": (1.0, np.inf, np.inf, np.inf)}, "angle="),
        (mb.Spherical(), {"angle": 0.0}, "positive"),
        (mb.Free(), {"upper": (1.0, 1.0, 1.0, *[np.inf] * 4)}, "mb.Prismatic"),
        (mb.Free(), {"angle": 1.0}, "mb.Prismatic"),
        (mb.Planar(), {"angle": 1.0}, "lower and upper"),
        (mb.Fixed(), {"angle": 1.0}, "lower and upper"),
    ],
    ids=str,
)
def test_limits_that_joints_do_not_have_are_refused_with_the_way_out(joint, wrong, way):
    mechanism = mb.Mechanism()
    mechanism.add_body("a", mass=1.0, inertia=np.eye(3))
    with pytest.raises(ModelError, match=f"joint 'socket': limits: .*{way}"):
        mechanism.add_joint("socket", "world", "a", joint, limits=mb.joints.Limits(**wrong))


def test_the_range_of_a_ball_joint_of_mjcf_is_an_angle():
    """MuJoCo has a constraint where the angle is beyond it, and none before."""
    mujoco = pytest.importorskip("mujoco")
    text = """<mujoco><worldbody><body><joint name="j" type="ball" range="0 40"/><geom size=".1" pos="0 0 1"/>
        <body><joint name="h" axis="1 0 0"/><geom size="0.1"/></body></body></worldbody></mujoco>"""
    robot, theirs = mb.from_mjcf(text), mujoco.MjModel.from_xml_string(text)
    np.testing.assert_allclose(robot.limits.angle, [np.radians(40.0), np.inf])
    data, axis = mujoco.MjData(theirs), np.array([2.0, -1.0, 2.0]) / 3.0
    for share, count in ((0.999, 0), (1.001, 1)):
        half = 0.5 * share * robot.limits.angle[0]
        data.qpos[:] = [np.cos(half), *np.sin(half) * axis, 0.0]
        mujoco.mj_forward(theirs, data)
        assert data.nefc == count
    free = mb.from_mjcf(text.replace("<worldbody>", '<option><flag limit="disable"/></option><worldbody>'))
    assert np.isinf(free.limits.angle).all()


def test_limits_are_numbers():
    with pytest.raises(TypeError, match="^velocity: "):
        mb.joints.Limits(velocity="fast")


def test_limits_of_closed_chains_are_those_of_independent_joints():
    robot = model("four-bar")
    assert robot.limits.lower.shape == (robot.nq,)
    assert robot.limits.effort.shape == (robot.nv,)


URDF = """<robot name="r"><link name="base"/>{links}
  <joint name="a" type="revolute"><parent link="base"/><child link="l0"/>{limit}</joint></robot>"""
LINK = """<link name="l0"><inertial><mass value="1"/>
  <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>"""


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ('<limit lower="-1" upper="2" velocity="3" effort="4"/>', (-1.0, 2.0, 3.0, 4.0)),
        ('<limit velocity="3" effort="4"/>', (0.0, 0.0, 3.0, 4.0)),
        ("", (-np.inf, np.inf, np.inf, np.inf)),
    ],
)
def test_limits_of_urdf(tmp_path, limit, expected):
    path = tmp_path / "robot.urdf"
    path.write_text(URDF.format(links=LINK, limit=limit))
    limits = mb.from_urdf(path).limits
    assert (limits.lower[0], limits.upper[0], limits.velocity[0], limits.effort[0]) == expected


MJCF = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="arm"><joint name="hinge" axis="0 1 0" range="-1 2" limited="true" pos="0.1 0 0"
      actuatorfrcrange="-5 5" actuatorfrclimited="true"/>
    <geom size="0.1" pos="0 0 0.3"/><site name="arm" pos="0 0 0.4"/>
    <site name="hand" pos="0 0.2 0.4" euler="0.1 0.2 0.3"/>
    <body name="tool" pos="0.1 0.2 0.3" euler="0 0.5 0"><geom size="0.05"/></body></body>
  </worldbody></mujoco>"""


def test_limits_and_sites_of_mjcf(tmp_path):
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "robot.xml"
    path.write_text(MJCF)
    robot, theirs = mb.from_mjcf(path), mujoco.MjModel.from_xml_path(str(path))
    limits = robot.limits
    assert (limits.lower[0], limits.upper[0], limits.effort[0]) == (-1.0, 2.0, 5.0)
    assert np.isinf(limits.velocity).all()
    data = mujoco.MjData(theirs)
    data.qpos[:] = 0.7
    mujoco.mj_forward(theirs, data)
    q = np.array([0.7])
    for site, frame in (("arm", "arm (site)"), ("hand", "hand")):
        pose = mb.frame_pose(robot, q, frame)
        assert close(pose[:3, 3], data.site(site).xpos)
        assert close(pose[:3, :3], data.site(site).xmat.reshape(3, 3))
    assert close(mb.frame_pose(robot, q, "tool")[:3, 3], data.body("tool").xpos)
    assert not close(
        mb.frame_pose(robot, q, "arm")[:3, 3], data.body("arm").xpos, 1e-2
    )  # its origin is the anchor


def test_every_site_of_mjcf_is_a_frame(tmp_path):
    """Also those whose names are given twice: by the file, as a body's, and to one without a name."""
    pytest.importorskip("mujoco")
    sites = {"site 1": 1, "": 2, "trunk": 3, "trunk (site)": 4}
    lines = "".join(f'<site name="{name}" pos="{x} 0 0"/>' for name, x in sites.items())
    lines = lines.replace('name="" ', "")
    path = tmp_path / "robot.xml"
    path.write_text(f"""<mujoco><worldbody><body name="trunk"><joint axis="0 0 1"/><geom size="0.1"/>{lines}
    </body></worldbody></mujoco>""")
    robot = mb.from_mjcf(path)
    found = {frame: mb.frame_pose(robot, [0.0], frame)[0, 3] for frame in robot.frame_names}
    assert found == {
        "trunk": 0.0,
        "site 1": 1.0,
        "trunk (site)": 3.0,
        "trunk (site) (site)": 4.0,
        "site 1 (unnamed)": 2.0,
    }


def test_a_seed_is_a_generator():
    robot = model("tree")
    for seed in (3, np.int64(3)):
        assert np.array_equal(robot.random(seed), robot.random(np.random.default_rng(3)))
    assert not np.array_equal(robot.random(4), robot.random(3))
    for wrong in (-1, 1.5, True, None, "3"):
        with pytest.raises(TypeError, match="rng"):
            robot.random(wrong)
