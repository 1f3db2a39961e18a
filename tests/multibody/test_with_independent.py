"""Other independent joints: by name, by the motors of a file, and a warning where all choices are bad.

Oracles: H, C and g of the same motion in other coordinates; the lines of a warning, which are run.
"""

import re

import numpy as np
import pytest
from closed_chains import PLANS, four_bar, stewart_platform
from closed_plan import Plan

from connections import multibody as mb
from connections.checks import ClosureError, ModelError


def in_other_coordinates(model, other, q):
    """The configuration of `other` at q, and J: its velocities are J times those of `model`."""
    spanning = model.spanning_configuration(q)
    q_other = np.concatenate([spanning[name] for name in other.joint_names])
    _, G, _ = model.program.solution(q)
    return q_other, G[other.kinematics.v_columns]


@pytest.mark.parametrize("name", ["four-bar", "Stewart platform"])
def test_the_same_robot_in_other_coordinates(name, rng):
    """Inertia, forces of velocities and of gravity, at the same configurations of all joints."""
    names = {"four-bar": ["bar rocker"], "Stewart platform": [f"leg {leg}" for leg in range(6)]}[name]
    model = PLANS[name]().build()
    other = model.with_independent(names)
    assert other.joint_names == tuple(names) and other.with_independent(model.joint_names).nv == model.nv
    np.testing.assert_array_equal(other.kinematics.reference, model.kinematics.reference)
    v = 0.02 * rng.standard_normal(model.nv)
    q = mb.displace(model, model.neutral(), v)
    q_other, J = in_other_coordinates(model, other, q)
    for joint, angles in model.spanning_configuration(q).items():
        np.testing.assert_allclose(other.spanning_configuration(q_other)[joint], angles, atol=1e-9)
    H = J.T @ mb.mass_matrix(other, q_other) @ J
    np.testing.assert_allclose(H, mb.mass_matrix(model, q), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(J.T @ mb.gravity(other, q_other), mb.gravity(model, q), rtol=1e-8, atol=1e-8)
    assert np.abs(mb.mass_matrix(other, q_other) - mb.mass_matrix(model, q)).max() > 1e-3  # a control


@pytest.mark.further
def test_a_coupling_by_a_function(rng):
    """The follower of a cam as the independent joint; at the same place, the same energy."""
    model = PLANS["cam"]().build()
    other = model.with_independent(["lift"])
    q = model.neutral()
    q_other, J = in_other_coordinates(model, other, q)
    H = J.T @ mb.mass_matrix(other, q_other) @ J
    np.testing.assert_allclose(H, mb.mass_matrix(model, q), rtol=1e-9)


def test_clusters_that_are_not_named_keep_their_joints():
    model = PLANS["legged robot"]().build()
    other = model.with_independent(["knee 1 rocker"])
    expected = [name.replace("knee 1 crank", "knee 1 rocker") for name in model.joint_names]
    assert sorted(other.joint_names) == sorted(expected)
    assert model.with_independent(["base"]).joint_names == model.joint_names


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["bar crank", "bar rocker"], "leaves 1 independent .* have 2"),
        (["crank"], "no moving joint 'crank'"),
    ],
)
def test_joints_that_are_no_choice(names, message):
    plan = four_bar()
    with pytest.raises(ModelError, match=message):
        plan.build().with_independent(names)
    with pytest.raises(ModelError, match=message):
        plan.mechanism().build(reference=plan.reference, independent=names)
    with pytest.raises(TypeError, match="names"):
        plan.build().with_independent("bar crank")


def test_a_tree_has_only_independent_joints():
    plan = Plan()
    plan.add("hinge", "world", "arm", mb.Revolute((0, 0, 1)))
    tree = plan.mechanism().build()
    assert tree.with_independent(["hinge"]).joint_names == ("hinge",)
    with pytest.raises(ModelError, match="'arm'"):
        tree.with_independent(["arm"])


def test_names_take_the_place_of_those_of_loops():
    plan = four_bar()
    model = plan.mechanism().build(reference=plan.reference, independent=["bar rocker"])
    assert model.joint_names == ("bar rocker",) and plan.build().joint_names == ("bar crank",)


# --- motors ------------------------------------------------------------------------------------------------


def undeclared(plan):
    """The same without independent joints."""
    plan.loops = {loop: (*ends, None) for loop, (*ends, _) in plan.loops.items()}
    return plan


def with_motors(plan, motors):
    """Its mechanism, with motors on these joints."""
    made = mb.Mechanism()
    for name, inertia in plan.bodies.items():
        made.add_body(name, **inertia)
    for name, (parent, body, kind, placement) in plan.joints.items():
        made.add_joint(name, parent, body, kind, placement, actuated=name in motors)
    for name, (a, b, closure, at_a, at_b, independent) in plan.loops.items():
        made.add_loop(name, a, b, closure, at_a, at_b, independent=independent)
    return made


@pytest.mark.parametrize(
    ("plan", "motors"),
    [(four_bar, ["bar rocker"]), (stewart_platform, [f"leg {leg}" for leg in range(6)])],
)
def test_joints_with_motors_are_independent(plan, motors):
    plan = undeclared(plan())
    assert with_motors(plan, motors).build(reference=plan.reference).joint_names == tuple(motors)
    assert with_motors(plan, []).build(reference=plan.reference).joint_names != tuple(motors)


URDF = """<robot name="bars"><link name="base"/>{links}
<joint name="a" type="continuous"><parent link="base"/><child link="crank"/><axis xyz="0 0 1"/></joint>
<joint name="b" type="continuous"><parent link="crank"/><child link="coupler"/><origin xyz="0.35 0 0"/>
<axis xyz="0 0 1"/></joint>
<joint name="c" type="continuous"><parent link="base"/><child link="rocker"/><origin xyz="1 0 0"/>
<axis xyz="0 0 1"/></joint>
<loop name="pin" type="revolute"><predecessor link="coupler"><origin xyz="0.9 0 0"/></predecessor>
<successor link="rocker"><origin xyz="0.7 0 0"/></successor><axis xyz="0 0 1"/></loop>{more}</robot>"""
LINK = """<link name="{}"><inertial><origin xyz="0.1 0 0"/><mass value="1"/><inertia ixx="0.1" iyy="0.1"
izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>"""


def bars(tmp_path, more="", **options):
    """A four-bar from a file with further elements."""
    path = tmp_path / "bars.urdf"
    links = "".join(LINK.format(name) for name in ("crank", "coupler", "rocker"))
    path.write_text(URDF.format(links=links, more=more), encoding="utf8")
    return mb.from_urdf(path, reference={"a": 0.8, "b": -0.4, "c": 1.5}, **options)


def test_transmissions_of_urdf(tmp_path):
    motor = '<transmission name="t"><joint name="c"/><actuator name="m"/></transmission>'
    assert bars(tmp_path).joint_names == ("a",)
    assert bars(tmp_path, motor).joint_names == ("c",)
    assert bars(tmp_path, motor, independent=["b"]).joint_names == ("b",)
    with pytest.raises(ModelError, match=r"bars.urdf: independent: there is no moving joint 'd'"):
        bars(tmp_path, independent=["d"])


# --- a biped's heel on a rod -------------------------------------------------------------------------------

INERTIAL = '<inertial pos="0.05 0 0" mass="1" diaginertia="0.01 0.01 0.01"/>'
BIPED = f"""<mujoco><compiler angle="radian"/><worldbody>
<body name="pelvis"><freejoint name="base"/>{INERTIAL}
 <body name="thigh" pos="0 0.1 0"><joint name="hip" axis="0 0 1"/>{INERTIAL}
  <body name="knee" pos="0.12 0 0.0045"><joint name="knee" axis="0 0 1"/>{INERTIAL}
   <body name="shin" pos="0.06 0.047 0"><joint name="shin" axis="0 0 1"/>{INERTIAL}
    <body name="tarsus" pos="0.43 0.02 0"><joint name="tarsus" axis="0 0 1"/>{INERTIAL}
     <body name="heel" pos="-0.013 -0.03 0.001"><joint name="heel" axis="TILT"/>{INERTIAL}
      <site name="end" pos="0.11 -0.02 0"/></body></body></body></body>
  <body name="rod" pos="0 0 0.045">BALL
   <inertial pos="0.25 0 0" mass="0.2" diaginertia="0.0002 0.004 0.004"/>
   <site name="tip" pos="0.5012 0.05 -0.0002"/></body></body></body></worldbody>
<equality><connect name="achilles" site1="tip" site2="end"/></equality>
<actuator><motor joint="hip"/>MOTOR</actuator></mujoco>"""


def biped(tmp_path, ball='<joint name="rod" type="ball"/>', tilt="0.06 0.07 1", motor="knee", **options):
    """A leg whose heel, on a spring about a tilted axis, hangs on a rod from the thigh, as Cassie's does."""
    path = tmp_path / "biped.xml"
    text = BIPED.replace("BALL", ball).replace("TILT", tilt).replace("MOTOR", f'<motor joint="{motor}"/>')
    path.write_text(text, encoding="utf8")
    return mb.from_mjcf(path, **options)


def hinges(lines):
    """Joints of a file, named."""
    return "".join(line.replace("<joint", f'<joint name="rod {i}"') for i, line in enumerate(lines))


def widest(model):
    """The largest entry of G of the joints of its loop, in rad."""
    _, G, _ = model.program.solution(model.neutral())
    return np.abs(G).max()


def test_a_heel_on_a_rod(tmp_path):
    """The rod cannot be dependent as a whole, because it spins; as its hinges it can, all but the spin."""
    pytest.importorskip("mujoco")
    with pytest.warns(mb.AssemblyWarning, match="'heel' moves .* 'rod'.*ball joint of body 'rod'") as notes:
        model = biped(tmp_path)
    assert model.joint_names == ("base", "hip", "knee", "rod") and widest(model) > 40.0
    step = np.zeros(model.nv)
    step[model.velocity_slice("rod").start + 1] = 0.05
    with pytest.raises(ClosureError, match="cannot close"):
        model.spanning_configuration(mb.displace(model, model.neutral(), step))
    better = biped(tmp_path, hinges(str(notes[0].message).splitlines()[1:]))
    assert better.joint_names == ("base", "hip", "knee", "shin", "tarsus", "rod 2") and widest(better) < 5.0
    for k in range(6, better.nv):
        step = np.zeros(better.nv)
        step[k] = 0.1
        heel = better.spanning_configuration(mb.displace(better, better.neutral(), step))["heel"]
        assert abs(heel[0]) < 1.0
    spin = better.spanning_configuration(mb.displace(better, better.neutral(), step))
    rest = better.spanning_configuration(better.neutral())
    assert better.joint_names[-1] == "rod 2" and abs(spin["heel"][0] - rest["heel"][0]) < 1e-9


@pytest.mark.filterwarnings("error::connections.multibody.AssemblyWarning")
def test_actuators_of_mjcf(tmp_path):
    """The motor on the shin makes it independent, before the knee; and so do names."""
    pytest.importorskip("mujoco")
    with pytest.raises(ModelError, match="ball joint of body 'rod'") as error:
        biped(tmp_path, tilt="0 0 1")  # all hinges are parallel
    rod = hinges(re.findall("<joint.*/>", str(error.value)))
    assert biped(tmp_path, rod).joint_names[2:] == ("knee", "shin", "tarsus", "rod 2")
    assert biped(tmp_path, rod, motor="heel").joint_names[2:] == ("knee", "shin", "heel", "rod 2")
    names = ["shin", "tarsus", "heel", "rod 2"]
    assert biped(tmp_path, rod, independent=names).joint_names[2:] == tuple(names)
