"""Mimic joints: q_y = m q_x + c, against the robots' files and Pinocchio's spanning tree."""

from xml.etree import ElementTree

import numpy as np
import pytest
from pinocchio_oracle import PinocchioRobot
from robots import robot_path
from urdf_parts import joint, link

from connections import multibody as mb
from connections.checks import MetricError, ModelError

Z = '<axis xyz="0 0 1"/>'
ROBOTS = {
    "panda": 8,
    "baxter_description/urdf/baxter.urdf": 17,
    "pr2_description/urdf/pr2.urdf": 20,
    "talos_data/robots/talos_full_v2.urdf": 32,
    "tiago_pro_description/robots/tiago_pro.urdf": 23,
}


@pytest.fixture
def load(tmp_path):
    def _load(body, **options):
        path = tmp_path / "robot.urdf"
        path.write_text(f'<robot name="r">{body}</robot>', encoding="utf8")
        return mb.from_urdf(path, **options)

    return _load


def follow(name, parent, child, leader, more="", kind="revolute"):
    return joint(name, parent, child, kind, f'{Z}<mimic joint="{leader}" {more}/>')


def mimics_in(path):
    """{joint: (joint that it mimics, multiplier, offset)} of the joints that move."""
    found = {}
    for element in ElementTree.parse(path).getroot().iter("joint"):
        mimic = element.find("mimic")
        if mimic is not None and element.get("type") != "fixed":
            numbers = float(mimic.get("multiplier", 1)), float(mimic.get("offset", 0))
            found[element.get("name")] = (mimic.get("joint"), *numbers)
    return found


@pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")
@pytest.mark.parametrize("name", ROBOTS)
def test_robots_with_mimic_joints_load(name, rng):
    path = robot_path(name)
    model, oracle, mimics = mb.from_urdf(path), PinocchioRobot(path), mimics_in(path)
    assert model.nv == ROBOTS[name] == oracle.model.nv - len(mimics)
    assert model.joint_names == tuple(name for name in oracle.joint_names if name not in mimics)
    q = model.random(rng)
    spanning = model.spanning_configuration(q)
    assert tuple(spanning) == oracle.joint_names
    for name, value in spanning.items():
        if name in mimics:
            leader, multiplier, offset = mimics[name]
            np.testing.assert_allclose(value, multiplier * spanning[leader] + offset, rtol=1e-15, atol=1e-15)
        else:
            np.testing.assert_array_equal(value, q[model.configuration_slice(name)])


@pytest.mark.parametrize("name", ["panda", "baxter_description/urdf/baxter.urdf"])
def test_mass_matrix_is_pinocchios_reduced(name, rng):
    """H = G^T H_spanning G, G written from the file."""
    path = robot_path(name)
    model, oracle, mimics = mb.from_urdf(path), PinocchioRobot(path), mimics_in(path)
    G = np.zeros((oracle.model.nv, model.nv))
    for row, joint_name in enumerate(oracle.joint_names):
        leader, multiplier, _ = mimics.get(joint_name, (joint_name, 1.0, 0.0))
        G[row, model.velocity_slice(leader)] = multiplier
    q = model.random(rng)
    spanning = np.concatenate([*model.spanning_configuration(q).values()])
    H = G.T @ oracle.mass_matrix(spanning) @ G
    ours = np.asarray(model.definition.metric.matrix(q))
    np.testing.assert_allclose(ours, H, atol=1e-11 * np.max(np.abs(H)))
    G[np.flatnonzero([name in mimics for name in oracle.joint_names])] = 0.0  # negative control: mimics held
    assert np.max(np.abs(ours - G.T @ oracle.mass_matrix(spanning) @ G)) > 1e-3


def test_fixed_joints_mimic_nothing():
    """Pinocchio, too, passes over a <mimic> in a fixed joint."""
    path = robot_path("talos_data/robots/talos_reduced.urdf")
    model = mb.from_urdf(path)
    assert model.joint_names == PinocchioRobot(path).joint_names
    assert "<mimic" in path.read_text()


def test_a_mimic_of_a_mimic(load):
    links = "".join(link(name) for name in "abcd")
    body = links + joint("j1", "a", "b") + follow("j2", "b", "c", "j1", 'multiplier="2" offset="0.1"')
    body += follow("j3", "c", "d", "j2", 'multiplier="-3" offset="0.2"')
    model = load(body)
    assert (model.joint_names, model.nv) == (("j1",), 1)
    spanning = model.spanning_configuration(np.array([0.5]))
    np.testing.assert_allclose([*spanning.values()], [[0.5], [1.1], [-3.1]], rtol=1e-15)


def test_the_leader_may_come_later(load):
    """By name 'a' is numbered before 'z', which it mimics."""
    body = link("base") + link("x") + link("y") + follow("a", "base", "x", "z", 'offset="1"')
    model = load(body + joint("z", "base", "y"))
    assert model.joint_names == ("z",)
    np.testing.assert_allclose(model.spanning_configuration(np.array([0.5]))["a"], 1.5)


def test_a_mimic_of_a_joint_that_a_loop_determines(load):
    """A rotor on the rocker of a four-bar: five times its angle."""
    bars = link("base") + link("crank") + link("coupler") + link("rocker") + link("rotor")
    bars += joint("j1", "base", "crank", more=Z)
    for name, parent, child, x in (("j2", "crank", "coupler", 0.3), ("j3", "base", "rocker", 0.7)):
        text = joint(name, parent, child, more=f'<origin xyz="{x} 0 0"/>{Z}')
        bars += text.replace("<joint ", '<joint independent="false" ')
    bars += follow("rotor", "base", "rotor", "j3", 'multiplier="5"')
    bars += """<loop name="ring" type="revolute">
      <predecessor link="coupler"><origin xyz="0.8 0 0"/></predecessor>
      <successor link="rocker"><origin xyz="0.6 0 0"/></successor></loop>"""
    model = load(bars, reference={"j1": 0.4, "j2": 0.3, "j3": 1.2})
    assert model.joint_names == ("j1",)
    spanning = dict(zip(model.kinematics.tree.joint_names, model.kinematics.reference, strict=True))
    assert spanning["j3"] > 1.0
    np.testing.assert_allclose(spanning["rotor"], 5 * spanning["j3"], rtol=1e-12)


LINKS = link("a") + link("b") + link("c")
BASE = LINKS + joint("j1", "a", "b")
BAD = {
    "nothing": (BASE + joint("j2", "b", "c", more=f"{Z}<mimic/>"), "joint 'j2': its <mimic> names no joint"),
    "missing": (BASE + follow("j2", "b", "c", "thumb"), "joint 'j2' mimics 'thumb', which does not exist"),
    "itself": (BASE + follow("j2", "b", "c", "j2"), "in a circle: 'j2' -> 'j2'"),
    "each other": (
        LINKS + follow("j1", "a", "b", "j2") + follow("j2", "b", "c", "j1"),
        "in a circle: 'j2' -> 'j1' -> 'j2'",
    ),
    "fixed leader": (
        LINKS + joint("j1", "a", "b", "fixed") + follow("j2", "b", "c", "j1"),
        "joint 'j2' mimics 'j1': joint 'j1' .fixed. has 0 coordinates, not one",
    ),
    "free leader": (
        LINKS + joint("j1", "a", "b", "floating", "") + follow("j2", "b", "c", "j1"),
        "'j2' mimics 'j1': joint 'j1' .free. has 7",
    ),
    "planar follower": (BASE + follow("j2", "b", "c", "j1", kind="planar"), "joint 'j2' .planar. has 3"),
    "multiplier zero": (BASE + follow("j2", "b", "c", "j1", 'multiplier="0"'), "'j2' .* multiplier zero"),
    "multiplier nan": (
        BASE + follow("j2", "b", "c", "j1", 'multiplier="nan"'),
        "'j2' .*multiplier.* not finite",
    ),
    "offset word": (
        BASE + follow("j2", "b", "c", "j1", 'offset="one"'),
        "'j2' .*offset.* not a number: 'one'",
    ),
    "independent": (
        BASE + follow("j2", "b", "c", "j1").replace("<joint ", '<joint independent="true" '),
        "joint 'j2' is marked independent, but mimics another",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_mimic_joints_are_refused_by_name(case, load):
    body, message = BAD[case]
    with pytest.raises(ModelError, match=f"robot.urdf: .*{message}"):
        load(body)


def test_a_robot_that_mimics_joints_it_does_not_have():
    path = robot_path("alex_description/urdf/alex_psyonic_hands.urdf")
    with pytest.raises(ModelError, match="alex_psyonic_hands.urdf: joint .*_q2' mimics '.*', which does not"):
        mb.from_urdf(path)


@pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")
def test_hands_without_inertia_are_named_where_their_accelerations_are_asked_for(rng):
    """All twelve links that LHand moves, and those of RHand, have no inertia: H is singular."""
    robot = mb.from_urdf(robot_path("romeo_description/urdf/romeo.urdf"))
    q, zero = robot.random(rng), np.zeros(robot.nv)
    with pytest.raises(MetricError, match="singular along joint '[LR]Hand'.*with_armature"):
        mb.forward_dynamics(robot, q, zero, zero)
    armed = robot.with_armature({"LHand": 0.01, "RHand": 0.01})  # the remedy
    a, tau = mb.forward_dynamics(armed, q, zero, zero), mb.gravity(robot, q)
    np.testing.assert_allclose(mb.mass_matrix(armed, q) @ a, -tau, atol=1e-10)
