"""URDF+: the shipped robots, each kind of loop against the same mechanism written otherwise, bad files."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from pinocchio_oracle import PinocchioRobot
from scipy.spatial.transform import Rotation
from urdf_parts import INERTIAL, joint, link

from connections import multibody as mb
from connections.checks import ModelError

DATA = Path(__file__).parents[1] / "data" / "urdf_plus"
VELOCITIES = {
    "four_bar": 1,
    "six_bar": 3,
    "planar_leg_linkage": 2,
    "revolute_rotor_chain": 3,
    "mit_humanoid_leg": 5,
    "mini_cheetah": 18,
    "mit_humanoid": 24,
}
Z = '<axis xyz="0 0 1"/>'


def origin(x, y=0.0, z=0.0, rpy="0 0 0"):
    return f'<origin xyz="{x} {y} {z}" rpy="{rpy}"/>'


def dependent(text):
    """A joint that a loop determines."""
    return text.replace("<joint ", '<joint independent="false" ')


def loop(a, b, at_a="", at_b="", kind='type="revolute"', more="", name="ring"):
    ends = f'<predecessor link="{a}">{at_a}</predecessor><successor link="{b}">{at_b}</successor>'
    return f'<loop name="{name}" {kind}>{ends}{more}</loop>\n'


def coupling(a, b, ratio='<ratio value="2"/>', kind="", name="gear"):
    return (
        f'<coupling name="{name}" {kind}><predecessor link="{a}"/><successor link="{b}"/>{ratio}</coupling>\n'
    )


@pytest.fixture
def load(tmp_path):
    def _load(body, **options):
        path = tmp_path / "robot.urdf"
        path.write_text(f'<robot name="r">{body}</robot>', encoding="utf8")
        return mb.from_urdf(path, **options)

    return _load


def spanning(model, q):
    """{joint: its configuration} at q, as NumPy arrays."""
    return {name: np.array(value) for name, value in model.spanning_configuration(q).items()}


def assembled(model):
    """{joint: its configuration} in the reference assembly, the independent ones as they were given."""
    closed = model.kinematics
    parts = np.split(closed.reference, closed.spanning.q_starts[1:-1])
    return dict(zip(closed.tree.joint_names, parts, strict=True))


# --- the shipped robots ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")
@pytest.mark.parametrize("name", VELOCITIES)
def test_shipped_robots_close(name, rng):
    """Pinocchio's spanning tree at our spanning configuration: points coincide, gears mesh."""
    path = DATA / f"{name}.urdf"
    model, oracle = mb.from_urdf(path), PinocchioRobot(path)
    root = ElementTree.parse(path).getroot()
    assert model.nv == VELOCITIES[name]
    marked = {e.get("name") for e in root.iter("joint") if e.get("independent") == "false"}
    assert set(model.joint_names) == set(oracle.joint_names) - marked
    closed = model.kinematics
    for _ in range(3):
        near = closed.reference[closed.q_columns] + 0.05 * rng.standard_normal(model.nq)
        q = spanning(model, near if root.find("loop") is not None else model.random(rng))
        assert tuple(q) == oracle.joint_names
        _check_closed(root, oracle, q, 1e-11)
    q[next(iter(sorted(marked)))] += 1e-3  # negative control
    with pytest.raises(AssertionError):
        _check_closed(root, oracle, q, 1e-5)


def _check_closed(root, oracle, q, tol):
    above = {e.find("child").get("link"): e for e in root.iter("joint")}
    poses = dict(zip(oracle.joint_names, oracle.world_poses(np.concatenate([*q.values()])), strict=True))

    def chain(name):
        while name in above:
            yield above[name].get("name")
            name = above[name].find("parent").get("link")

    for element in root.iter("loop"):
        points = []
        for role in ("predecessor", "successor"):
            end = element.find(role)
            point = [float(x) for x in end.find("origin").get("xyz").split()]
            points.append(poses[next(chain(end.get("link")))] @ [*point, 1.0])
        np.testing.assert_allclose(*points, atol=tol)
    for element in root.iter("coupling"):
        ends = [set(chain(element.find(role).get("link"))) for role in ("predecessor", "successor")]
        sums = [sum(q[name][0] for name in path - ends[1 - side]) for side, path in enumerate(ends)]
        ratio = float(element.find("ratio").get("value"))
        np.testing.assert_allclose(ratio * sums[0], sums[1], atol=tol)


def test_a_reference_chooses_the_assembly():
    """At q = 1 rad the four-bar is a parallelogram, or crossed: joint 3 turns with joint 1, or against it."""
    path = DATA / "four_bar.urdf"
    third = []
    for guess in (1.0, -1.5):
        model = mb.from_urdf(path, reference={"joint1": 1.0, "joint3": guess})
        third.append(assembled(model)["joint3"][0])
    np.testing.assert_allclose(third[0], 1.0, atol=1e-12)
    tip, base = np.array([0.5 * np.cos(1.0), 0.5 * np.sin(1.0)]), np.array([1.0, 0.0])
    other = base + 0.5 * np.array([np.cos(third[1]), np.sin(third[1])])
    np.testing.assert_allclose(np.linalg.norm(other - tip), 1.0, atol=1e-12)
    assert third[1] < 0.0


def test_a_floating_base_carries_the_loop():
    model = mb.from_urdf(DATA / "four_bar.urdf", floating_base=True)
    assert (model.nq, model.nv) == (8, 7)
    assert model.joint_names == ("root_joint", "joint1")


# --- each kind of loop -------------------------------------------------------------------------------------

# Crank OA = 0.3 at the origin, coupler AB = 0.8, rocker CB = 0.6 at C = (0.7, 0); the crank cannot go round.
CRANK = link("base") + link("crank") + joint("j1", "base", "crank", more=Z)
COUPLER = link("coupler") + dependent(joint("j2", "crank", "coupler", more=origin(0.3) + Z))
ROCKER = link("rocker") + dependent(joint("j3", "base", "rocker", more=origin(0.7) + Z))
FOUR_BAR = CRANK + COUPLER + ROCKER
GUESS = {"j1": 0.4, "j2": 0.3, "j3": 1.2}
SLIDER = '<axis xyz="1 0 0"/>'
HALF = '<inertial><mass value="0"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial>'


@pytest.mark.parametrize("kind", ["revolute", "continuous", "spherical"])
def test_points_coincide(load, kind):
    ring = loop("coupler", "rocker", origin(0.8), origin(0.6), f'type="{kind}"', Z)
    model = load(FOUR_BAR + ring, reference=GUESS)
    assert (model.nv, model.joint_names) == (1, ("j1",))
    q = {name: value[0] for name, value in assembled(model).items()}
    a, b = q["j1"], q["j1"] + q["j2"]
    end = 0.3 * np.exp(1j * a) + 0.8 * np.exp(1j * b)
    np.testing.assert_allclose(end, 0.7 + 0.6 * np.exp(1j * q["j3"]), atol=1e-13)


def test_a_weld_is_a_cut_through_a_link(load):
    """The coupler sawn through at 0.5, its far end carried by the rocker on j4."""
    whole = load(FOUR_BAR + loop("coupler", "rocker", origin(0.8), origin(0.6)), reference=GUESS)
    far = link("far", HALF) + dependent(joint("j4", "rocker", "far", more=origin(0.6) + Z))
    turned = origin(-0.3, rpy="0.2 0 0.1")
    weld = loop("coupler", "far", origin(0.5, rpy="0.2 0 0.1"), turned, 'type="fixed"')
    sawn = load(FOUR_BAR + far + weld, reference=GUESS)
    assert sawn.nv == 1
    q, other = assembled(sawn), assembled(whole)
    np.testing.assert_allclose(q["j3"] + q["j4"], q["j1"] + q["j2"], atol=1e-12)
    for name in GUESS:
        np.testing.assert_allclose(q[name], other[name], atol=1e-12)


@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_a_prismatic_loop_is_a_slider(load, angle):
    """A slider on a rail at `angle`, as a joint with a revolute loop, and as a loop with a revolute joint."""
    turn, guess = f"0 0 {angle}", {"j1": 0.4, "j2": -0.7, "j3": 0.4 + angle}
    rod = origin(0.8)
    rail = dependent(joint("rail", "base", "block", "prismatic", origin(0.1, -0.2, rpy=turn) + SLIDER))
    by_joint = CRANK + COUPLER + link("block") + rail + loop("coupler", "block", rod)
    pin = dependent(joint("j3", "coupler", "block", more=rod + Z))
    by_loop = CRANK + COUPLER + link("block") + pin
    by_loop += loop("base", "block", origin(0.1, -0.2, rpy=turn), "", 'type="prismatic"', SLIDER)
    first = load(by_joint, reference={"j1": 0.4, "j2": -0.7, "rail": 0.9})
    second = load(by_loop, reference=guess)
    assert (first.nv, second.nv) == (1, 1)
    for name in ("j1", "j2"):
        np.testing.assert_allclose(assembled(first)[name], assembled(second)[name], atol=1e-12)
    rod_angle = 0.4 + assembled(first)["j2"][0]
    end = 0.3 * np.exp(0.4j) + 0.8 * np.exp(1j * rod_angle)
    np.testing.assert_allclose(((end - 0.1 + 0.2j) * np.exp(-1j * angle)).imag, 0.0, atol=1e-12)


def test_a_planar_loop_keeps_a_body_in_a_plane(load):
    """A slanted plane: the origin of the body stays in it, and its normal along the plane's."""
    normal = np.array([1.0, -2.0, 2.0]) / 3.0
    stages = link("base") + link("a", HALF) + link("b", HALF) + link("c", HALF) + link("plate")
    stages += joint("x", "base", "a", "prismatic", SLIDER) + joint(
        "y", "a", "b", "prismatic", '<axis xyz="0 1 0"/>'
    )
    stages += dependent(joint("z", "b", "c", "prismatic", Z)) + joint(
        "spin", "c", "plate", more='<axis xyz="1 -2 2"/>'
    )
    plane = loop("base", "plate", origin(0, 0, 0.3), "", 'type="planar"', '<axis xyz="1 -2 2"/>')
    model = load(stages + plane, reference={"x": 0.4, "y": -0.3, "spin": 0.6})
    assert model.joint_names == ("x", "y", "spin")
    height = assembled(model)["z"][0]
    np.testing.assert_allclose(normal @ [0.4, -0.3, height - 0.3], 0.0, atol=1e-14)


@pytest.mark.parametrize("normal", ["0 0 1", "1 -2 0.5"])
def test_a_loop_on_the_turned_child_of_a_planar_joint(load, normal):
    """The same with the slides and the turn written out, where the child's frame is as in the file."""
    z = np.array([float(x) for x in normal.split()])
    x = np.array([2.0, 1.0, 0.0]) if z[1] else np.array([1.0, 0.0, 0.0])  # in the plane
    point, axis = origin(*(0.7 * x + 0.1 * np.cross(z, x))), f'<axis xyz="{normal}"/>'
    rod = link("stem", HALF) + dependent(joint("ball", "base", "stem", more=axis)) + link("rod")
    rod += dependent(joint("reach", "stem", "rod", "prismatic", f'<axis xyz="{x[0]} {x[1]} {x[2]}"/>'))
    body = link("base") + link("plate") + rod + loop("plate", "rod", point, origin(*(0.1 * x)))
    q = np.array([0.05, -0.1, 0.2])
    planar = joint("slide", "base", "plate", "planar", axis)
    model = load(body + planar, reference={"slide": q, "reach": 1.0})
    turn = Rotation.from_quat(model.kinematics.tree.quaternions[model.body_names.index("plate")]).as_matrix()
    axes = [f'<axis xyz="{" ".join(map(str, column))}"/>' for column in turn.T]
    stages = link("a", HALF) + link("b", HALF) + joint("slide", "base", "a", "prismatic", axes[0])
    stages += joint("slide2", "a", "b", "prismatic", axes[1]) + joint("slide3", "b", "plate", more=axes[2])
    guess = dict(zip(("slide", "slide2", "slide3"), q, strict=True))
    other = load(body + stages, reference={**guess, "reach": 1.0})
    assert (model.joint_names, other.joint_names) == (("slide",), ("slide", "slide2", "slide3"))
    first, second = assembled(model), assembled(other)
    np.testing.assert_allclose(first["slide"], q, atol=1e-15)
    for name in ("ball", "reach"):
        np.testing.assert_allclose(first[name], second[name], atol=1e-12)


def test_gears_over_several_joints(load):
    """The nearest common ancestor is not the root; fixed joints count for nothing."""
    chain = link("base") + link("a") + link("b") + link("c") + link("stand", HALF) + link("rotor")
    chain += joint("j0", "base", "a") + joint("j1", "a", "b", more=origin(1) + Z)
    chain += joint("j2", "b", "c", more=origin(1) + Z) + joint("weld", "a", "stand", "fixed", origin(0.2))
    chain += dependent(joint("spin", "stand", "rotor", more=Z))
    model = load(chain + coupling("c", "rotor", '<ratio value="-3.5"/>'))
    assert model.joint_names == ("j0", "j1", "j2")
    q = np.array([0.3, 0.5, -0.9])
    np.testing.assert_allclose(spanning(model, q)["spin"], -3.5 * (0.5 - 0.9), atol=1e-15)


def test_independent_joints_are_chosen_where_none_is_marked(load):
    unmarked = (FOUR_BAR + loop("coupler", "rocker", origin(0.8), origin(0.6))).replace(
        ' independent="false"', ""
    )
    assert load(unmarked, reference=GUESS).nv == 1


# --- bad files ---------------------------------------------------------------------------------------------

ARM = link("base") + link("arm") + link("rotor") + joint("j1", "base", "arm")
GEAR = ARM + dependent(joint("j2", "base", "rotor"))
FLIGHT = ARM + joint("j2", "base", "rotor", "floating", "")
RING = loop("coupler", "rocker", origin(0.8), origin(0.6))
BAD = {
    "unknown predecessor": (
        FOUR_BAR + loop("bar", "rocker"),
        "loop 'ring': its predecessor link 'bar' does not",
    ),
    "unknown successor": (
        FOUR_BAR + loop("coupler", "bar"),
        "loop 'ring': its successor link 'bar' does not",
    ),
    "no predecessor": (
        FOUR_BAR + RING.replace('<predecessor link="coupler">', "<predecessor>"),
        "loop 'ring': its <predecessor> link is missing",
    ),
    "no successor": (
        FOUR_BAR + '<loop name="ring"><predecessor link="crank"/></loop>',
        "'ring': its <successor>",
    ),
    "same link": (
        FOUR_BAR + loop("rocker", "rocker"),
        "'ring': predecessor and successor are the same link 'rocker'",
    ),
    "loop without a name": (FOUR_BAR + RING.replace('name="ring"', ""), "a <loop> has no name"),
    "coupling without a name": (GEAR + coupling("arm", "rotor", name=""), "a <coupling> has no name"),
    "two of a name": (
        GEAR + coupling("arm", "rotor") + loop("arm", "rotor", name="gear"),
        "two .* name 'gear'",
    ),
    "loop without a type": (
        FOUR_BAR + loop("coupler", "rocker", kind=""),
        "loop 'ring': its type is missing",
    ),
    "unknown type": (
        FOUR_BAR + loop("coupler", "rocker", kind='type="gear"'),
        "loop 'ring': unknown type 'gear'",
    ),
    "origin not a number": (
        FOUR_BAR + loop("coupler", "rocker", origin("x")),
        "loop 'ring': its predecessor: .*'x'",
    ),
    "origin not finite": (
        FOUR_BAR + loop("coupler", "rocker", "", origin("nan")),
        "'ring': its successor: <origin xyz=...> is not finite",
    ),
    "origin too short": (
        FOUR_BAR + loop("coupler", "rocker", '<origin xyz="0 1"/>'),
        "loop 'ring': its predecessor: ",
    ),
    "two <predecessor>": (
        FOUR_BAR + RING.replace("<predecessor", '<predecessor link="crank"/><predecessor', 1),
        "loop 'ring': it has 2 elements <predecessor>",
    ),
    "two <origin>": (
        FOUR_BAR + loop("coupler", "rocker", 2 * '<origin xyz="0 0 1"/>'),
        "loop 'ring': its predecessor: it has 2 elements <origin>",
    ),
    "two <ratio>": (
        GEAR + coupling("arm", "rotor", 2 * '<ratio value="2"/>'),
        "coupling 'gear': it has 2 elements <ratio>",
    ),
    "ratio of two numbers": (
        GEAR + coupling("arm", "rotor", '<ratio value="2 3"/>'),
        "'gear': <ratio value=...>.* one number",
    ),
    "ratio as Python writes it": (
        GEAR + coupling("arm", "rotor", '<ratio value="1_0"/>'),
        "'gear': <ratio value=...> is not a number: '1_0'",
    ),
    "prismatic without axis": (
        FOUR_BAR + loop("coupler", "rocker", kind='type="prismatic"', more='<axis xyz="0 0 0"/>'),
        "loop 'ring': axis .* is zero",
    ),
    "planar without normal": (
        FOUR_BAR + loop("coupler", "rocker", kind='type="planar"', more='<axis xyz="0 0 0"/>'),
        "loop 'ring': axis .* is zero",
    ),
    "constraint": (GEAR + '<constraint name="c"/>', "<constraint> 'c'"),
    "no ratio": (GEAR + coupling("arm", "rotor", ""), "coupling 'gear': its <ratio> is missing"),
    "no ratio value": (GEAR + coupling("arm", "rotor", "<ratio/>"), "'gear': <ratio value=...> is missing"),
    "ratio zero": (
        GEAR + coupling("arm", "rotor", '<ratio value="0"/>'),
        "coupling 'gear': its ratio is zero",
    ),
    "ratio nan": (
        GEAR + coupling("arm", "rotor", '<ratio value="nan"/>'),
        "'gear': <ratio value=...> is not finite",
    ),
    "ratio word": (
        GEAR + coupling("arm", "rotor", '<ratio value="six"/>'),
        "'gear': .* is not a number: 'six'",
    ),
    "unknown coupling": (GEAR + coupling("arm", "rotor", kind='type="belt"'), "'gear': unknown type 'belt'"),
    "coupling of an ancestor": (GEAR + coupling("base", "rotor"), "'gear': no joint moves link 'base'"),
    "coupled free joint": (FLIGHT + coupling("arm", "rotor"), "'gear': joint 'j2' .free. has 7 coordinates"),
    "independent word": (
        ARM.replace("<joint ", '<joint independent="maybe" ') + joint("j2", "base", "rotor"),
        "joint 'j1': independent must be true or false, got 'maybe'",
    ),
    "dependent on nothing": (GEAR, "joint 'j2' is not independent, but no loop or coupling determines it"),
    "loop of what does not move": (
        FOUR_BAR
        + RING
        + link("tip")
        + joint("weld", "rocker", "tip", "fixed")
        + loop("rocker", "tip", name="rigid"),
        "loop 'rigid': .*",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_by_name(case, load):
    body, message = BAD[case]
    with pytest.raises(ModelError, match=f"robot.urdf: .*{message}"):
        load(body)


def test_the_good_files_that_the_bad_ones_depart_from(load):
    assert load(FOUR_BAR + RING, reference=GUESS).nv == 1
    assert load(GEAR + coupling("arm", "rotor")).nv == 1
    assert INERTIAL in ARM


def test_a_loop_that_cannot_close(load):
    far = loop("coupler", "rocker", origin(0.8), origin(0.6, 0.0, 0.5))
    with pytest.raises(ModelError, match="robot.urdf: .*'ring'"):
        load(FOUR_BAR + far, reference=GUESS)


def test_a_flat_four_bar_does_not_hide_its_mobility(tmp_path):
    """At zero, where its bars are aligned, two joints seem free; nearby there is one."""
    text = (DATA / "four_bar.urdf").read_text(encoding="utf8")
    path = tmp_path / "robot.urdf"
    path.write_text(text.replace('independent="false"', "", 1), encoding="utf8")
    with pytest.raises(ModelError, match=r"leaves 1 independent velocities.*'joint1', 'joint2'\) have 2"):
        mb.from_urdf(path)
