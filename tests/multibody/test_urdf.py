"""The URDF reader: merging, order, and one error per way in which a file can be wrong."""

import warnings

import networkx as nx
import numpy as np
import pytest
from pinocchio_oracle import PinocchioRobot
from robots import robot_path
from scipy.spatial.transform import Rotation
from urdf_parts import INERTIAL, joint, link

from connections import multibody as mb
from connections.checks import MetricError, ModelError
from connections.control import PostureTask, WholeBodyController
from connections.multibody.graph import GROUND

TWO_LINKS = link("base") + link("arm")
THREE_LINKS = TWO_LINKS + link("tip")
SHOULDER = joint("shoulder", "base", "arm")


@pytest.fixture
def load(tmp_path):
    def _load(body, **options):
        path = tmp_path / "robot.urdf"
        path.write_text(f'<robot name="r">{body}</robot>', encoding="utf8")
        return mb.from_urdf(path, **options)

    return _load


def test_the_plain_robot_loads(load):
    model = load(TWO_LINKS + SHOULDER)  # what every error below departs from
    assert (model.joint_names, model.body_names) == (("shoulder",), ("arm",))


def test_numbers_may_be_written_in_any_way_of_c(load):
    """Signs, points, exponents; spaces and lines between them; an attribute that is missing is zero."""
    origin = '<origin xyz="  .5\n +1.  -2E-1 "/>'
    tree = load(TWO_LINKS + joint("shoulder", "base", "arm", more=origin)).kinematics.tree
    np.testing.assert_array_equal(tree.positions, [[0.5, 1.0, -0.2]])
    np.testing.assert_array_equal(tree.quaternions, [[0.0, 0.0, 0.0, 1.0]])


def inertia(**changes):
    text = INERTIAL
    for name, value in changes.items():
        old = {"mass": '"2"', "ixx": '"0.2"', "com": '"0.1 0 0"'}[name]
        text = text.replace(old, f'"{value}"')
    return text


BAD = {
    "dangling child": (TWO_LINKS + joint("wrist", "arm", "hand") + SHOULDER, "'wrist'.*child link 'hand'"),
    "dangling parent": (TWO_LINKS + joint("shoulder", "torso", "arm"), "'shoulder'.*parent link 'torso'"),
    "cycle": (
        THREE_LINKS + SHOULDER + joint("j1", "arm", "tip") + joint("j2", "tip", "arm"),
        "cycle: .*'arm' -.j1.*'tip' -.j2",
    ),
    "separate cycle": (
        THREE_LINKS + joint("j1", "arm", "tip") + joint("j2", "tip", "arm"),
        "cycle: .*j1.*j2",
    ),
    "joint to itself": (TWO_LINKS + SHOULDER + joint("own", "arm", "arm"), "cycle.*own"),
    "two parents": (
        THREE_LINKS + SHOULDER + joint("j1", "base", "tip") + joint("j2", "arm", "tip"),
        "link 'tip' has 2 parents .*'j1'.*'j2'.*cut the loop",
    ),
    "two roots": (THREE_LINKS + SHOULDER, "several root links: 'base', 'tip'"),
    "duplicate link": (TWO_LINKS + link("arm") + SHOULDER, "two links have the name 'arm'"),
    "duplicate joint": (
        THREE_LINKS + SHOULDER + joint("shoulder", "arm", "tip"),
        "two joints have the name 'shoulder'",
    ),
    "nameless link": (TWO_LINKS + "<link/>" + SHOULDER, "a <link> has no name"),
    "nameless joint": (TWO_LINKS + SHOULDER.replace('name="shoulder"', ""), "a <joint> has no name"),
    "no child": (TWO_LINKS + SHOULDER.replace('<child link="arm"/>', ""), "'shoulder'.*<child>"),
    "planar without normal": (
        TWO_LINKS + joint("shoulder", "base", "arm", "planar", '<axis xyz="0 0 0"/>'),
        "'shoulder': axis .* is zero",
    ),
    "spherical": (TWO_LINKS + joint("j", "base", "arm", "spherical"), "'j': unknown type 'spherical'"),
    "unknown type": (TWO_LINKS + joint("shoulder", "base", "arm", "ball"), "'shoulder': unknown type 'ball'"),
    "zero axis": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<axis xyz="0 0 0"/>'),
        "'shoulder': axis .* is zero",
    ),
    "axis not finite": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<axis xyz="0 nan 1"/>'),
        "joint 'shoulder': <axis xyz=...> is not finite",
    ),
    "axis not a number": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<axis xyz="0 z 1"/>'),
        "joint 'shoulder': .*'z'",
    ),
    "two numbers": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<axis xyz="0 1"/>'),
        "joint 'shoulder': <axis xyz=...>.* 3 numbers",
    ),
    "origin not finite": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<origin xyz="0 inf 0"/>'),
        "joint 'shoulder': <origin xyz=...> is not finite",
    ),
    "origin too short": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<origin xyz="0 1"/>'),
        "joint 'shoulder': <origin xyz=...>.* 3 numbers",
    ),
    "one number for three": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<origin xyz=".5"/>'),
        "joint 'shoulder': <origin xyz=...>.* 3 numbers, got '.5'",
    ),
    "four numbers": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<origin xyz="0 0 1" rpy="0 0 1 2"/>'),
        "joint 'shoulder': <origin rpy=...>.* 3 numbers, got '0 0 1 2'",
    ),
    "four numbers of an axis": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<axis xyz="0 0 1 1"/>'),
        "joint 'shoulder': <axis xyz=...>.* 3 numbers, got '0 0 1 1'",
    ),
    "two masses in one": (
        link("base") + link("arm", inertia(mass="2 3")) + SHOULDER,
        "link 'arm': <mass value=...>.* one number, got '2 3'",
    ),
    "an empty origin": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<origin xyz=""/>'),
        "joint 'shoulder': <origin xyz=...>.* 3 numbers, got ''",
    ),
    "a number as Python writes it": (
        link("base") + link("arm", inertia(mass="1_0")) + SHOULDER,
        "link 'arm': <mass value=...> is not a number: '1_0'",
    ),
    "a digit of another script": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<origin xyz="0 0 \u0661"/>'),
        "joint 'shoulder': <origin xyz=...> is not a number",
    ),
    "commas": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<origin xyz="0, 0, 1"/>'),
        "joint 'shoulder': <origin xyz=...> is not a number: '0,'",
    ),
    "two <parent>": (
        THREE_LINKS + SHOULDER.replace("<parent", '<parent link="tip"/><parent')
        + joint("j1", "base", "tip"),
        "joint 'shoulder': it has 2 elements <parent>",
    ),
    "two <child>": (
        TWO_LINKS + SHOULDER.replace("<child", '<child link="base"/><child'),
        "joint 'shoulder': it has 2 elements <child>",
    ),
    "two <origin>": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<origin xyz="0 0 1"/><origin xyz="0 0 2"/>'),
        "joint 'shoulder': it has 2 elements <origin>",
    ),
    "two <mimic>": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<mimic joint="a"/><mimic joint="b"/>'),
        "joint 'shoulder': it has 2 elements <mimic>",
    ),
    "two <inertial>": (
        link("base") + link("arm", 2 * INERTIAL) + SHOULDER,
        "link 'arm': it has 2 elements <inertial>",
    ),
    "two <mass>": (
        link("base") + link("arm", INERTIAL.replace("<mass", '<mass value="1"/><mass')) + SHOULDER,
        "link 'arm': it has 2 elements <mass>",
    ),
    "mass negative": (link("base") + link("arm", inertia(mass=-2)) + SHOULDER, "'arm': mass is negative"),
    "mass not finite": (link("base") + link("arm", inertia(mass="nan")) + SHOULDER, "'arm': <mass value"),
    "com not finite": (link("base") + link("arm", inertia(com="nan 0 0")) + SHOULDER, "'arm': <origin xyz"),
    "mass missing": (
        link("base") + link("arm", inertia().replace('<mass value="2"/>', "")) + SHOULDER,
        "link 'arm': .*<mass value",
    ),
    "moment missing": (
        link("base") + link("arm", inertia().replace('ixx="0.2"', "")) + SHOULDER,
        "link 'arm': .*<inertia ixx",
    ),
    "negative inertia about the axis": (
        link("base") + link("arm", inertia(ixx=-0.2))
        + joint("shoulder", "base", "arm", more='<axis xyz="1 0 0"/>'),
        "joint 'shoulder' moves body 'arm'.*of negative inertia.*indefinite",
    ),
    "inertia not finite": (
        link("base") + link("arm", inertia(ixx="inf")) + SHOULDER,
        "link 'arm': <inertia ixx=...> is not finite",
    ),
    "no moving joint": (TWO_LINKS + joint("weld", "base", "arm", "fixed"), "nothing moves"),
    "no links": ("", "no links"),
    "malformed": ("<link name='a'>", "malformed XML: .*line 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_by_name(case, load):
    body, message = BAD[case]
    with pytest.raises(ModelError, match=f"robot.urdf: .*{message}"):
        load(body)


#: What other readers take in silence: each was another robot.
SAID = {
    "a xacro file": ("<xacro:leg/>" + TWO_LINKS + SHOULDER, "<xacro:leg>: expand it first, by xacro FILE"),
    "a number of xacro": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<axis xyz="0 0 ${z}"/>'),
        "<axis xyz='0 0 .*expand it first",
    ),
    "two limits": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<limit lower="0"/>'),
        "joint 'shoulder': it has 2 elements <limit>",
    ),
    "a limit in words": (
        TWO_LINKS + SHOULDER.replace('lower="-1"', 'lower="-pi"'),
        "joint 'shoulder': <limit lower=...> is not a number: '-pi'",
    ),
    "an unknown attribute": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<origin xyz="0 0 0" rpx="1 0 0"/>'),
        "joint 'shoulder': <origin rpx=...> is not known; <origin> has xyz, rpy, quat_xyzw",
    ),
    "a misspelt element": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<orgin xyz="0 0 1"/>'),
        "joint 'shoulder': <orgin> is not known; did you mean <origin>",
    ),
    "a misspelt element of an inertial": (
        link("base") + link("arm", INERTIAL.replace("mass", "Mass")) + SHOULDER,
        "link 'arm': <Mass> is not known; did you mean <mass>",
    ),
    "two rotations": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<origin rpy="0 0 0" quat_xyzw="0 0 0 1"/>'),
        "joint 'shoulder': its <origin> has both rpy and quat_xyzw",
    ),
    "no rotation": (
        TWO_LINKS + joint("shoulder", "base", "arm", more='<origin quat_xyzw="0 0 0 2"/>'),
        "joint 'shoulder': <origin quat_xyzw=...> has the norm 2, expected 1",
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_what_would_be_another_robot_is_refused(case, tmp_path):
    body, message = SAID[case]
    (tmp_path / "robot.urdf").write_text(
        f'<robot name="r" xmlns:xacro="http://wiki.ros.org/xacro">{body}</robot>'
    )
    with pytest.raises(ModelError, match=f"robot.urdf: {message}"):
        mb.from_urdf(tmp_path / "robot.urdf")


def test_versions_and_namespaces(tmp_path):
    path = tmp_path / "robot.urdf"
    for head in (
        "",
        ' version="1.1"',
        ' xmlns="http://www.ros.org"',
        ' xmlns:xacro="http://ros.org/wiki/xacro"',
    ):
        path.write_text(f'<robot name="r"{head}>{TWO_LINKS + SHOULDER}</robot>')
        assert mb.from_urdf(path).joint_names == ("shoulder",)
    limit = SHOULDER.replace("<limit ", '<limit drake:acceleration="2" ')
    turned = SHOULDER.replace("<axis ", '<axis rpy="0 0 0" ')
    assert SHOULDER not in (limit, turned)
    for text in (
        f'<robot name="r">{TWO_LINKS}{turned}</robot>',
        f'<robot name="r">{TWO_LINKS}{limit}<drake:group name="g"/></robot>',
        f'<robot name="r" xmlns:drake="http://drake.mit.edu">{TWO_LINKS}{limit}</robot>',
        f'\n\n<?xml version="1.0" ?>\n<robot name="r">{TWO_LINKS}{SHOULDER}</robot>',
    ):
        path.write_text(text)
        assert mb.from_urdf(path).joint_names == ("shoulder",)
    for text, line in (("<robot>\n<a>\n</robot>", 3), ("\n \n<?xml version='1.0' ?>\n<robot><a></robot>", 4)):
        path.write_text(text)
        with pytest.raises(ModelError, match=f"malformed XML: mismatched tag: line {line}, column"):
            mb.from_urdf(path)
    path.write_text(f'<robot name="r" version="7">{TWO_LINKS + SHOULDER}</robot>')
    with pytest.raises(ModelError, match="version '7' of URDF is not known, only 1.0 to 1.2"):
        mb.from_urdf(path)


@pytest.mark.parametrize("pitch", [0.4, np.pi / 2, -np.pi / 2])
def test_quaternions_of_origins(load, pitch):
    """Of joints and inertials, beside the same rotation as rpy; gravity was that of another robot."""
    turn = Rotation.from_euler("xyz", [0.3, pitch, -1.1])
    quaternion = " ".join(map(repr, turn.as_quat().tolist()))
    lever = INERTIAL.replace('<origin xyz="0.1 0 0"/>', '<origin xyz="0.1 0.2 0.3" ROTATION/>')
    body = link("base") + link("arm", lever) + joint("shoulder", "base", "arm", more="<origin ROTATION/>")
    robots = [
        load(body.replace("ROTATION", rotation))
        for rotation in (f'rpy="0.3 {pitch!r} -1.1"', f'quat_xyzw="{quaternion}"', "")
    ]
    given, found, without = (
        np.concatenate([mb.gravity(robot, [0.4]), mb.mass_matrix(robot, [0.4])[0]]) for robot in robots
    )
    np.testing.assert_allclose(found, given, atol=1e-14)
    assert np.abs(without - given).max() > 1e-2


def test_limits_in_the_wrong_order_are_a_warning(load):
    """H does not depend on them; the law that reads them refuses."""
    body = TWO_LINKS + SHOULDER.replace('lower="-1"', 'lower="2"')
    with pytest.warns(
        mb.joints.LimitsWarning, match=r"joint 'shoulder': limits: lower is above upper \(2 > 1\)"
    ):
        robot = load(body)
    assert robot.limits.lower == 2.0 and mb.mass_matrix(robot, [0.0]).shape == (1, 1)
    posture = PostureTask(damping=1.0, stiffness=1.0)
    WholeBodyController(robot, [posture], limit_time=None)
    with pytest.raises(ModelError, match="joint 'shoulder': limits: lower is above upper"):
        WholeBodyController(robot, [posture], limit_time=0.1)


def test_missing_file_and_other_roots(tmp_path):
    with pytest.raises(ModelError, match="nowhere.urdf: there is no such file"):
        mb.from_urdf(tmp_path / "nowhere.urdf")
    with pytest.raises(ModelError, match="is a folder"):
        mb.from_urdf(tmp_path)
    (tmp_path / "x.urdf").write_text("<mujoco/>")
    with pytest.raises(ModelError, match="x.urdf: not a URDF: .*<mujoco>"):
        mb.from_urdf(tmp_path / "x.urdf")


def test_bad_gravity(load):
    for gravity in ((0, 0), 9.81, (0, 0, np.nan)):
        with pytest.raises(ModelError, match="gravity"):
            load(TWO_LINKS + SHOULDER, gravity=gravity)


def test_the_root_joint_name_is_taken(load):
    body = TWO_LINKS + joint("root_joint", "base", "arm")
    assert load(body).joint_names == ("root_joint",)
    with pytest.raises(ModelError, match="already named 'root_joint'"):
        load(body, floating_base=True)


def test_a_massless_link_between_joints_moves(load):
    across = joint("j1", "arm", "tip", more='<axis xyz="0 1 0"/>')
    model = load(link("base") + link("arm", "") + link("tip") + SHOULDER + across)
    assert np.linalg.eigvalsh(model.definition.metric.matrix(np.array([0.3, 0.4])))[0] > 0


#: Links without inertia, and the joint along which H is singular.
MASSLESS = {
    "leaf": (link("base") + link("arm", "") + SHOULDER, "shoulder", "arm"),
    "branch": (
        TWO_LINKS + link("tip", "") + link("end", "") + SHOULDER + joint("j1", "arm", "tip")
        + joint("weld", "tip", "end", "fixed"),
        "j1",
        "tip",
    ),
    "between coaxial joints": (
        link("base") + link("arm", "") + link("tip") + SHOULDER + joint("j1", "arm", "tip"),
        "shoulder",
        "arm",
    ),
}  # fmt: skip
_NEEDS_INVERSE = {
    "forward_dynamics": lambda robot, q, v: mb.forward_dynamics(robot, q, v, v),
    "linearize": lambda robot, q, v: mb.linearize(robot, q, v, v)[0],
    "metric": lambda robot, q, v: robot.metric.matrix(q),
    "simulate": lambda robot, q, v: robot.system().simulate(q, v, [0.0, 0.1]).q,
}


@pytest.mark.parametrize("case", MASSLESS)
def test_massless_links_are_legal_where_no_inverse_is_needed(case, load, tmp_path, rng):
    """H, kinematics and inverse dynamics beside Pinocchio; what needs the inverse names the joint."""
    body, culprit, moved = MASSLESS[case]
    robot, theirs = load(body), PinocchioRobot(tmp_path / "robot.urdf")
    q = robot.random(rng)
    v, a = rng.standard_normal((2, robot.nv))
    np.testing.assert_allclose(mb.mass_matrix(robot, q), theirs.mass_matrix(q), atol=1e-14)
    np.testing.assert_allclose(
        mb.inverse_dynamics(robot, q, v, a), theirs.inverse_dynamics(q, v, a), atol=1e-13
    )
    for function in _NEEDS_INVERSE.values():
        with pytest.raises(MetricError, match=f"singular along joint '{culprit}'.*give '{moved}' an inertia"):
            function(robot, q, v)
    armed = robot.with_armature({culprit: 0.01})  # what the error says
    assert np.isfinite(mb.forward_dynamics(armed, q, v, a)).all()


def test_a_floating_base_without_mass_says_what_to_do(load):
    floating = load(link("base", "") + link("arm") + SHOULDER, floating_base=True)
    with pytest.raises(MetricError, match="'root_joint'.*'base' has no mass.*floating_base=False"):
        mb.inverse_mass_matrix(floating, floating.neutral())
    model = load(link("base", "") + link("arm") + SHOULDER)  # the remedy
    assert model.body_names == ("arm",)


def test_impossible_inertia_warns_where_the_file_was_read(load):
    with pytest.warns(mb.InertiaWarning, match="robot.urdf: .*'arm'.*triangle") as caught:
        load(link("base") + link("arm", inertia(ixx=0.9)) + SHOULDER)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(link("base") + link("arm", inertia(ixx=0.55)) + SHOULDER)  # a flat plate: equality


def test_a_negative_moment_warns_where_the_mass_matrix_is_positive(load):
    body = link("base", inertia(ixx=0.9)) + link("arm", inertia(ixx=-0.2)) + SHOULDER
    with pytest.warns(
        mb.InertiaWarning, match="'base': .*triangle.*'arm': .*not positive semid.*-0.2"
    ) as seen:
        model = load(body)
    assert len(seen) == 1
    np.testing.assert_allclose(model.definition.metric.matrix(np.zeros(1)), 0.25 + 2 * 0.1**2)
    with warnings.catch_warnings(), pytest.raises(mb.InertiaWarning, match="'arm'"):
        warnings.simplefilter("error", mb.InertiaWarning)
        load(body)


def test_fixed_links_are_merged(load):
    welded = joint("weld", "arm", "tip", "fixed", '<origin xyz="1 2 3" rpy="0.3 0.2 0.1"/>')
    model = load(THREE_LINKS + SHOULDER + welded)
    tree = model.kinematics.tree
    assert tree.links == (("arm", "tip"),)
    assert tree.inertias[0, 5, 5] == 4.0
    assert load(TWO_LINKS + SHOULDER).kinematics.tree.inertias[0, 5, 5] == 2.0  # negative control


def test_a_fixed_root_disappears_into_the_ground(load):
    body = THREE_LINKS + joint("stand", "base", "arm", "fixed") + joint("shoulder", "arm", "tip")
    assert load(body).body_names == ("tip",)
    floating = load(body, floating_base=True)
    assert floating.body_names == ("base", "tip")
    assert floating.joint_names == ("root_joint", "shoulder")
    assert (floating.nq, floating.nv) == (8, 7)


def test_a_floating_joint_keeps_its_name(load):
    model = load(TWO_LINKS + joint("flight", "base", "arm", "floating"))
    assert (model.joint_names, model.nq, model.nv) == (("flight",), 7, 6)


@pytest.mark.parametrize("normal", [(0, 0, 1), (0, 0, -2), (1, 0, 0), (1, -2, 0.5), (1e-9, 0, -1)])
def test_a_planar_joint_is_two_slides_and_a_turn(load, normal, rng):
    """The same robot with the slides and the turn written out in the plane's axes."""
    z = np.array(normal) / np.linalg.norm(normal)
    origin = '<origin xyz="1 2 3" rpy="0.1 0.2 0.3"/>'
    text = " ".join(map(str, normal))
    wrist = joint("wrist", "arm", "tip", "revolute", f'{origin}<axis xyz="1 1 0"/>')
    planar = joint("shoulder", "base", "arm", "planar", f'{origin}<axis xyz="{text}"/>')
    model = load(THREE_LINKS + planar + wrist)
    q = model.random(rng)
    tree = model.kinematics.tree
    there = Rotation.from_euler("xyz", (0.1, 0.2, 0.3))
    turn = there.inv() * Rotation.from_quat(
        tree.quaternions[0]
    )  # joint frame of the file -> that of the plane
    np.testing.assert_allclose(turn.apply([0, 0, 1]), z, atol=1e-15)
    np.testing.assert_allclose(np.cos(turn.magnitude()), z[2], atol=1e-15)  # the smallest
    axes = [" ".join(map(str, axis)) for axis in turn.as_matrix().T]
    other = load(
        THREE_LINKS + link("a", "") + link("b", "") + wrist
        + joint("x", "base", "a", "prismatic", f'{origin}<axis xyz="{axes[0]}"/>')
        + joint("y", "a", "b", "prismatic", f'<axis xyz="{axes[1]}"/>')
        + joint("z", "b", "arm", "revolute", f'<axis xyz="{axes[2]}"/>')
    )  # fmt: skip
    assert other.joint_names == ("x", "y", "z", "wrist")
    H = mb.mass_matrix(model, q)
    np.testing.assert_allclose(H, mb.mass_matrix(other, q), atol=1e-12)
    np.testing.assert_allclose(mb.gravity(model, q), mb.gravity(other, q), atol=1e-12)
    tip = mb.body_jacobians(model, q)[-6:]  # the tip's own frame is as in the file
    np.testing.assert_allclose(tip, mb.body_jacobians(other, q)[-6:], atol=1e-12)
    assert np.max(np.abs(H - mb.mass_matrix(other, q + [0, 0, 0.5, 0]))) > 1e-2  # negative control


def test_joints_are_ordered_depth_first_by_name(load):
    links = "".join(link(name) for name in ("base", "a", "b", "a1", "b1"))
    joints = joint("z", "base", "a") + joint("c", "base", "b") + joint("y", "a", "a1") + joint("x", "b", "b1")
    assert load(links + joints).joint_names == ("c", "x", "z", "y")


@pytest.mark.parametrize(
    ("name", "floating_base", "flawed"),
    [
        ("tiago_description/robots/tiago_no_hand.urdf", False, "base_antenna_left_link"),
        ("romeo_description/urdf/romeo_small.urdf", True, "triangle"),
    ],
)
def test_robots_with_impossible_inertias_load(name, floating_base, flawed):
    with pytest.warns(mb.InertiaWarning, match=flawed):
        model = mb.from_urdf(robot_path(name), floating_base=floating_base)
    H = model.definition.metric.matrix(model.random(np.random.default_rng(0)))
    assert np.linalg.eigvalsh(H)[0] > 0


@pytest.mark.parametrize(
    ("name", "floating_base"),
    [
        ("ur5", False), ("ur5", True), ("anymal", True), ("solo12", True), ("a1", True), ("a1", False),
        ("icub_description/robots/icub.urdf", True), ("hyq_description/robots/hyq_no_sensors.urdf", True),
        ("human_description/robots/human.urdf", True), ("go2_description/urdf/go2.urdf", True),
        ("kinova_description/robots/kinova.urdf", False), ("romeo_description/urdf/romeo_small.urdf", True),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")
def test_joint_order_is_pinocchios(name, floating_base):
    path = robot_path(name)
    model, oracle = mb.from_urdf(path, floating_base=floating_base), PinocchioRobot(path, floating_base)
    assert model.joint_names == oracle.joint_names
    assert model.nv == oracle.model.nv
    for number, joint_name in enumerate(model.joint_names, 1):
        theirs = oracle.model.joints[number]
        assert model.velocity_slice(joint_name) == slice(theirs.idx_v, theirs.idx_v + theirs.nv)


def test_cluster_tree_is_an_arborescence_from_the_ground(load):
    model = load(THREE_LINKS + SHOULDER + joint("wrist", "arm", "tip"), floating_base=True)
    tree = model.cluster_tree
    assert nx.is_arborescence(tree)
    assert [node for node, count in tree.in_degree() if count == 0] == [GROUND]
    assert list(nx.topological_sort(tree)) == [GROUND, ("base",), ("arm",), ("tip",)]
    joints = {"joints": ("shoulder",), "independent": ("shoulder",), "dependent": ()}
    assert tree.nodes[("arm",)] == {"bodies": ("arm",), **joints}
