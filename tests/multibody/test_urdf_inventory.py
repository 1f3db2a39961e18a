"""No part of a URDF file is dropped in silence: dampers, loops in others' elements, rows of the table."""

import re
import warnings
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np
import pytest

from connections import multibody as mb
from connections.checks import ModelError
from connections.multibody.description.format_table import table_of

mujoco = pytest.importorskip("mujoco")
pin = pytest.importorskip("pinocchio")

TABLE = table_of("urdf")
INERTIAL = (
    '<inertial><origin xyz="0.2 0.01 0.02"/><mass value="1.5"/>'
    '<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.04"/></inertial>'
)


def link(name):
    return f'<link name="{name}">{INERTIAL}</link>'


def joint(name, kind, parent="a", child="b", more=""):
    axis = "" if kind in ("fixed", "floating") else '<axis xyz="0 1 0"/>'
    limit = (
        '<limit lower="-1" upper="1" effort="3" velocity="2"/>' if kind in ("revolute", "prismatic") else ""
    )
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{axis}{limit}{more}</joint>'


def load(body):
    """The model, and what is said of it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = mb.from_urdf(f'<robot name="r" xmlns:drake="http://drake.mit.edu">\n{body}</robot>')
    said = [each for each in said if each.category is mb.LeftOutWarning]
    assert len(said) <= 1
    return model, str(said[0].message) if said else ""


def bars(more):
    """Four bars: crank, coupler, rocker; open, unless `more` closes them."""
    placed = [("m", "ground", "crank", 0.0), ("p", "crank", "coupler", 0.3), ("o", "ground", "rocker", 0.8)]
    joints = [
        joint(name, "continuous", parent, child, f'<origin xyz="{x} 0 0"/>')
        for name, parent, child, x in placed
    ]
    return "".join(map(link, ("ground", "crank", "coupler", "rocker"))) + "".join(joints) + more


# --- friction ----------------------------------------------------------------------------------------------

FRICTION = '<dynamics damping="0.7" friction="0.3"/>'


@pytest.mark.parametrize("kind", ["revolute", "continuous", "prismatic"])
def test_damping_and_friction_are_mujocos_and_pinocchios(kind):
    body = link("a") + link("b") + joint("j", kind, more=FRICTION)
    model, said = load(body)
    text = f'<robot name="r">{body}</robot>'
    compiled, theirs = mujoco.MjModel.from_xml_string(text), pin.buildModelFromXML(text)
    assert (
        not said and model.passive.friction["j"] == compiled.dof_frictionloss[0] == theirs.friction[0] == 0.3
    )
    data = mujoco.MjData(compiled)
    data.qvel[:] = 2.0
    mujoco.mj_forward(compiled, data)
    tau = model.passive_forces([0.1], [2.0])
    np.testing.assert_allclose(tau, data.qfrc_passive, rtol=1e-15)
    np.testing.assert_allclose(tau, -theirs.damping * 2.0, rtol=1e-15)
    bare = load(body.replace(FRICTION, '<dynamics damping="0" friction="0"/>'))[0]  # negative control
    assert not bare.passive.damping and not bare.passive.friction and not bare.passive_forces([0.1], [2.0])[0]


@pytest.mark.parametrize("kind", ["planar", "floating"])
def test_friction_of_several_velocities_is_told(kind):
    model, said = load(link("a") + link("b") + joint("j", kind, more=FRICTION))
    assert not model.passive.damping and "joint 'j' (<dynamics damping=...>, line 2)" in said
    assert "<dynamics friction=...>" in said and "mb.joints.Passive(damping=" in said
    with pytest.raises(ModelError, match="joint 'j': <dynamics damping=...>"):
        model.passive_forces(model.neutral(), np.zeros(model.nv))


@pytest.mark.parametrize("kind", ["planar", "floating"])
def test_limits_of_several_velocities_are_told(kind):
    limit = '<limit lower="-1" upper="1" effort="3" velocity="2"/>'
    model, said = load(link("a") + link("b") + joint("j", kind, more=limit))
    assert "joint 'j' (<limit>, line 2): readers do not agree" in said
    assert np.isinf(model.limits.upper).all() and np.isinf(model.limits.velocity).all()
    assert not load(link("a") + link("b") + joint("j", kind, more='<limit effort="0" velocity="0"/>'))[1]
    assert not load(link("a") + link("b") + joint("j", "continuous", more=limit))[1]


def test_a_fixed_joint_has_no_friction():
    text = link("a") + link("b") + link("c") + joint("i", "fixed", more=FRICTION)
    model, said = load(text + joint("j", "revolute", "b", "c"))
    assert not said and not model.passive.damping


def test_damping_of_a_dependent_joint_counts():
    """A mimic joint's damper acts through the ratio: -d m^2 v."""
    mimic = '<mimic joint="i" multiplier="3"/>'
    text = link("a") + link("b") + link("c") + joint("i", "continuous")
    model, _ = load(text + joint("j", "continuous", "b", "c", FRICTION + mimic))
    np.testing.assert_allclose(model.passive_forces([0.1], [2.0]), [-0.7 * 9.0 * 2.0], rtol=1e-14)


@pytest.mark.parametrize(
    ("written", "message"),
    {
        '<dynamics damping="abc"/>': "<dynamics damping=...> is not a number: 'abc'",
        '<dynamics damping="nan"/>': "<dynamics damping=...> is not finite",
        '<dynamics friction="1 2"/>': "<dynamics friction=...>: expected one number",
        '<dynamics damping="-0.1"/>': "line 2: <dynamics damping=...> is negative, -0.1",
        '<dynamics friction="-0.1"/>': "line 2: <dynamics friction=...> is negative",
        2 * FRICTION: "it has 2 elements <dynamics>",
        "<dynamics><damping>0.7</damping></dynamics>": "<damping> has no meaning there; write <dynamics dam",
        '<dynamic damping="0.7"/>': "<dynamic> is not known; did you mean <dynamics>",
    }.items(),
)
def test_bad_friction_is_refused(written, message):
    with pytest.raises(ModelError, match=re.escape(message)):
        load(link("a") + link("b") + joint("j", "continuous", more=written))


# --- loops -------------------------------------------------------------------------------------------------

LOOP = (
    '<loop name="close" type="revolute"><predecessor link="coupler"><origin xyz="{} 0 0"/></predecessor>'
    '<successor link="rocker"><origin xyz="0.6 0 0"/></successor></loop>'
)
BALL = (
    '<drake:ball_constraint><drake:ball_constraint_body_A name="coupler"/>'
    '<drake:ball_constraint_body_B name="rocker"/><drake:ball_constraint_p_AP value="0.9 0 0"/>'
    '<drake:ball_constraint_p_BQ value="0.6 0 0"/></drake:ball_constraint>'
)
LOOP_JOINT = (
    '<loop_joint name="close" type="revolute"><link1 link="coupler" xyz="0.9 0 0"/>'
    '<link2 link="rocker" xyz="0.6 0 0" rpy="0 0 0"/><axis xyz="0 1 0"/></loop_joint>'
)
GAZEBO = (
    '<gazebo><joint name="close" type="revolute"><parent>coupler</parent><child>rocker</child>'
    "<pose>0.6 0 0 0 0 0</pose><axis><xyz>0 1 0</xyz></axis></joint></gazebo>"
)
#: With the point on the coupler; of Gazebo's, where the rocker's is if all angles are zero.
CLOSED = {"ball": (BALL, 0.9), "loop_joint": (LOOP_JOINT, 0.9), "gazebo": (GAZEBO, 1.1)}


@pytest.mark.parametrize("name", CLOSED)
def test_loops_of_others_are_those_of_urdf_plus(name, rng):
    written, x = CLOSED[name]
    (model, said), (same, _) = load(bars(written)), load(bars(LOOP.format(x)))
    assert model.nv == same.nv == 1 and not said and load(bars(""))[0].nv == 3
    assert model.joint_names == same.joint_names
    q = same.random(rng)
    theirs = mb.close_loops(same, q)
    ours = mb.close_loops(model, q, np.asarray(theirs.spanning))
    np.testing.assert_allclose(ours.spanning, theirs.spanning, atol=1e-9)
    np.testing.assert_allclose(mb.mass_matrix(model, ours), mb.mass_matrix(same, theirs), rtol=1e-8)


def moved(name, slides, turns):
    """A link that slides and turns along and about the axes, one at a time."""
    kinds = ["prismatic"] * slides + ["continuous"] * turns
    names = ["a", *(f"{name}{number}" for number in range(len(kinds) - 1)), name]
    text = "".join(map(link, names[1:]))
    for number, kind in enumerate(kinds):
        axis = " ".join("1" if number % 3 == k else "0" for k in range(3))
        one = joint(f"{name} by {number}", kind, names[number], names[number + 1])
        text += one.replace("0 1 0", axis)
    return text


@pytest.mark.parametrize("kind", ["fixed", "prismatic", "revolute", "ball"])
@pytest.mark.parametrize("form", ["loop_joint", "gazebo"])
def test_every_type_leaves_its_own_motion_free(kind, form):
    """A free body, of which the loop leaves the motion of the closing joint: 0, 1, 1 and 3 velocities."""
    axis = {"fixed": "", "ball": ""}.get(kind, "1 2 2")
    if form == "gazebo":
        axis = axis and f"<axis><xyz>{axis}</xyz></axis>"
        closing = (
            f'<gazebo><joint name="close" type="{kind}"><parent>b</parent><child>c</child>'
            f"<pose>0.1 0.2 0.3 0.4 0.5 0.6</pose>{axis}</joint></gazebo>"
        )
    else:
        axis = axis and f'<axis xyz="{axis}"/>'
        closing = (
            f'<loop_joint name="close" type="{kind}"><link1 link="b" xyz="0.3 0 0" rpy="0.1 0 0"/>'
            f'<link2 link="c" xyz="0 0.2 0"/>{axis}</loop_joint>'
        )
    text = link("a") + link("b") + joint("turn", "continuous") + moved("c", 3, 3)
    model, _ = load(text + closing)
    assert model.nv == 1 + {"fixed": 0, "prismatic": 1, "revolute": 1, "ball": 3}[kind]


def test_a_loop_on_the_turned_child_of_a_planar_joint():
    """The link's frame in the model is turned; the point is that of the file's frame."""
    planar = joint("slide", "planar", "a", "c").replace('"0 1 0"', '"1 2 2"')
    loop = (
        '<loop_joint name="close" type="ball"><link1 link="b" xyz="0.1 0.2 0.1"/>'
        '<link2 link="c" xyz="0.3 0.1 0.2"/></loop_joint>'
    )
    text = link("a") + link("c") + moved("b", 3, 0) + planar
    model, _ = load(text + loop)
    same, _ = load(
        text + '<loop name="close" type="spherical">'
        '<predecessor link="b"><origin xyz="0.1 0.2 0.1"/></predecessor>'
        '<successor link="c"><origin xyz="0.3 0.1 0.2"/></successor></loop>'
    )  # fmt: skip
    q = same.random(3)
    np.testing.assert_allclose(mb.mass_matrix(model, q), mb.mass_matrix(same, q), rtol=1e-12)


def test_a_joint_of_gazebo_that_fixes_the_root_says_what_is_so():
    held = '<gazebo><joint name="fix" type="fixed"><parent>world</parent><child>{}</child></joint></gazebo>'
    (model, said), plain = load(bars(held.format("ground"))), load(bars(""))[0]
    assert not said and model == plain
    with pytest.raises(ModelError, match="its link 'world' does not exist"):
        load(bars(held.format("rocker")))


REFUSED_LOOPS = {
    "an axis is missing": (LOOP_JOINT.replace('<axis xyz="0 1 0"/>', ""), "line 2: it has no axis"),
    "another type": (GAZEBO.replace('"revolute"', '"gearbox"'), "its type 'gearbox' is not read"),
    "no type": (GAZEBO.replace(' type="revolute"', ""), "its type is missing"),
    "no such link": (BALL.replace('"rocker"', '"rock"'), "its link 'rock' does not exist"),
    "itself": (GAZEBO.replace("<parent>coupler", "<parent>rocker"), "from link 'rocker' to itself"),
    "no link": (GAZEBO.replace("<parent>coupler</parent>", ""), "its <parent> link is missing"),
    "no point": (LOOP_JOINT.replace('xyz="0.9 0 0"', ""), "its <link1> has no point xyz"),
    "words": (BALL.replace('"0.9 0 0"', '"0.9 x 0"'), "is not a number: 'x'"),
    "another frame": (GAZEBO.replace("<pose>", '<pose relative_to="ground">'), "in the frame of the child"),
    "an axis of SDF 1.1": (
        GAZEBO.replace("<axis><xyz>0 1 0</xyz></axis>", '<axis xyz="0 1 0"/>'),
        "of SDF 1.0",
    ),
    "a pose of SDF 1.1": (
        GAZEBO.replace("<pose>0.6 0 0 0 0 0</pose>", '<origin pose="0.6 0 0 0 0 0"/>'),
        "<origin> is not read: it is of SDF 1.0",
    ),
    "a name twice": (GAZEBO + LOOP_JOINT, "two loops or couplings have the name 'close'"),
    "no name": (GAZEBO.replace('name="close"', ""), "it has no name"),
}


@pytest.mark.parametrize("case", REFUSED_LOOPS)
def test_loops_that_say_less_are_refused(case):
    written, message = REFUSED_LOOPS[case]
    with pytest.raises(ModelError, match=re.escape(message)) as error:
        load(bars(written))
    if "has no axis" in message or "type" in message:
        assert '<predecessor link="coupler"><origin xyz="..." rpy="..."/></predecessor>' in str(error.value)


def test_a_bushing_is_a_passive_force_that_is_left_out():
    bushing = '<drake:linear_bushing_rpy><drake:bushing_frameA name="coupler"/></drake:linear_bushing_rpy>'
    model, said = load(bars(bushing))
    assert model.nv == 3 and "<drake:linear_bushing_rpy> (line 2): without the bushing" in said
    with pytest.raises(ModelError, match="linear_bushing_rpy"):
        model.system(passive=True)


# --- every row of the table --------------------------------------------------------------------------------

SMALL = link("a") + link("b") + joint("j", "revolute")
BASES = {
    "loop": bars(LOOP.format(0.9).replace("</loop>", '<axis xyz="0 1 0"/></loop>')),
    "loop_joint": bars(LOOP_JOINT),
    "drake:ball_constraint": bars(BALL),
    "gazebo": bars(GAZEBO),
    "coupling": bars(
        '<coupling name="c"><predecessor link="crank"/><successor link="rocker"/>'
        '<ratio value="2"/></coupling>'
    ),
    "transmission": SMALL + '<transmission name="t"><joint name="j"/><actuator name="m"/></transmission>',
    "frame": SMALL + '<frame name="f" link="b"/>',
}
ROWS = [
    (path, attribute, row.fate)
    for path, entry in TABLE.entries.items()
    for attribute, row in {"": entry.row, **entry.attributes}.items()
    if " " not in attribute  # the name of a case, which has a test of its own
]


def written(path, attribute="", value="7"):
    """A file with this element, and the attribute if one is named."""
    top = path.partition("/")[0]
    body = BASES.get(top if path.startswith("gazebo/joint") or top != "gazebo" else "", SMALL)
    root = ElementTree.fromstring(f'<robot name="r" xmlns:drake="drake">{body}</robot>')
    if path.startswith("joint/mimic"):
        mimic = (
            joint("o", "continuous").replace("</joint>", '<mimic joint="j"/></joint>').replace('"b"', '"c"')
        )
        root = ElementTree.fromstring(f'<robot name="r">{SMALL + link("c") + mimic}</robot>')
    element, parent = root, root
    for number, name in enumerate(path.split("/") if path != "robot" else []):
        tag = name.replace("drake:", "{drake}").replace(":*", ":x")
        tag = f"{{#{tag.partition(':')[0]}}}x" if tag.endswith(":x") else tag
        found = [] if number == 0 and path == "gazebo" else parent.findall(tag)
        element = found[-1] if found else SubElement(parent, tag)
        parent = element
    if attribute:
        element.set(attribute.replace("drake:", "{drake}"), value)
    elif element is not root and not len(element) and not element.keys() and not element.text:
        element.text = value
    for part in root.iter():
        if part.tag.endswith(("rotor_inertia", "gear_ratio")):
            part.set("value", "0")
    for child in root:
        if (
            child.tag not in ("link", "joint", "loop_joint", "gazebo")
            and "{" not in child.tag
            and not child.get("name")
        ):
            child.set("name", "n")
    return ElementTree.tostring(root, encoding="unicode")


def outcome(text):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = mb.from_urdf(text)
        except ModelError as error:
            return None, str(error)
    return model, "\n".join(str(each.message) for each in said if each.category is mb.LeftOutWarning)


@pytest.mark.parametrize("fate", ["warned", "passive", "refused", "none"])
def test_every_row_has_its_fate(fate):
    rows = [(path, attribute) for path, attribute, found in ROWS if found == fate]
    assert len(rows) >= 3
    for path, attribute in rows:
        entry = TABLE.entries[path]
        row = entry.attributes[attribute] if attribute else entry.row
        value = "0" if path in ("link/gravity", "gazebo/gravity") else "7"
        model, said = outcome(written(path, attribute, value))
        what = f"{path} {attribute}: {said}"
        assert (model is None) == (fate == "refused"), what
        assert (row.words in said) if fate != "none" else not said, what
        if fate != "none" and path.partition("/")[2]:
            assert "line 1" in said, what
        if model is not None:
            assert bool(model.passive.left_out) == (fate == "passive"), what


@pytest.mark.parametrize("path", [path for path, attribute, fate in ROWS if not attribute and fate == "read"])
def test_what_is_in_no_row_is_told(path):
    """An unknown attribute, and an unknown element in every element that is read."""
    entry = TABLE.entries[path]
    model, said = outcome(written(path, "wibble", "x"))
    assert "wibble=...>" in said and "known" in said and (model is None) == (entry.strict), said
    model, said = outcome(written(f"{path}/wibble" if path != "robot" else "wibble"))
    assert "<wibble>" in said and "line" in said and "known" in said and model is not None, said


PLACES = [
    (path, attribute)
    for path, attribute, fate in ROWS
    if fate == "read"
    and attribute
    and path.startswith(("joint/", "link/"))
    and attribute not in ("value", "link", "joint")
]


@pytest.mark.parametrize(("path", "attribute"), PLACES)
def test_what_stands_in_the_wrong_place_is_refused(path, attribute):
    """The attribute of an element, written into the link or joint itself; zeros say nothing."""
    top, _, inner = path.partition("/")
    model, said = outcome(written(top, attribute, "0 0 1"))
    assert model is None and f"<{top} {attribute}=" in said and "has no meaning there; write" in said, said
    assert f'<{inner.rpartition("/")[2]} {attribute}="...">' in said and "line 1" in said
    model, said = outcome(written(top, attribute, "0 0 0"))
    assert model is not None and f"<{top} {attribute}=...>" in said


@pytest.mark.parametrize("kind", ["revolute", "continuous", "prismatic", "planar", "floating", "fixed"])
def test_an_axis_that_is_an_attribute_is_refused_for_every_joint(kind):
    text = link("a") + link("b") + link("c") + joint("i", "continuous", "b", "c")
    text += joint("j", kind).replace("<joint ", '<joint axis="0 0 1" ')
    with pytest.raises(
        ModelError, match=r'joint \'j\', line 2: <joint axis="0 0 1"> .* write <axis ...> in <joint>'
    ):
        load(text)


def test_elements_outside_of_their_place_are_refused():
    for inside, message in (
        (SMALL + '<axis xyz="0 0 1"/>', r"line 2: <axis> .* write <axis ...> in <joint>"),
        (SMALL + "<inertial/>", r"<inertial> .* write <inertial ...> in <link>"),
        (
            SMALL.replace("</link>", joint("i", "fixed") + "</link>", 1),
            r"<joint> .* write <joint ...> in <robot>",
        ),
    ):
        with pytest.raises(ModelError, match=message):
            load(inside)


def test_a_warning_names_lines_and_is_one(tmp_path):
    lines = [
        "<robot name='r'>",
        SMALL,
        "<fancy/>",
        "<gazebo reference='j'><springStiffness>5</springStiffness></gazebo>",
    ]
    path = tmp_path / "robot.urdf"
    path.write_text("\n".join([*lines, "<fancy/>", "</robot>"]))
    with pytest.warns(mb.LeftOutWarning) as said:
        mb.from_urdf(path)
    text = str(said[0].message)
    assert len(said) == 1 and text.startswith(f"{path}: not in the model as the file has it:\n")
    assert "<fancy> (lines 3, 5): not known" in text and "gazebo 'j' (<springStiffness>, line 4): " in text


def test_drakes_frames():
    frame = '<frame name="tool" link="b" xyz="0.1 0.2 0.3" rpy="0.4 0 0"/>'
    model, said = load(SMALL + frame)
    pose = mb.frame_pose(model, [0.3], "tool")
    expected = mb.frame_pose(model, [0.3], "b") @ np.array(
        [
            [1, 0, 0, 0.1],
            [0, np.cos(0.4), -np.sin(0.4), 0.2],
            [0, np.sin(0.4), np.cos(0.4), 0.3],
            [0, 0, 0, 1],
        ]
    )
    assert not said
    np.testing.assert_allclose(pose, expected, atol=1e-15)
    for bad in (frame.replace(' link="b"', ""), 2 * frame, frame.replace('"b"', '"x"')):
        with pytest.raises(ModelError, match="frame"):
            load(SMALL + bad)


def test_what_transmissions_say_is_told():
    def transmission(name, more=""):
        inside = f'<joint name="{name}"/><actuator name="m">{more}</actuator>'
        return f'<transmission name="t">{inside}</transmission>'

    model, said = load(SMALL + transmission("knee"))
    assert "transmission 't' (line 2): its joint 'knee' does not exist" in said
    rotor = transmission("j", '<drake:rotor_inertia value="0.1"/><drake:gear_ratio value="3"/>')
    model, said = load(SMALL + rotor)
    assert 'from_urdf(path, armature="transmissions")' in said and not model.armature["j"].any()
    assert not load(SMALL + transmission("j"))[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = f'<robot name="r" xmlns:drake="drake">{SMALL + rotor}</robot>'
        assert mb.from_urdf(text, armature="transmissions").armature["j"] == pytest.approx(0.9)


def test_the_element_of_another_tree_builder_has_no_line():
    from connections.multibody.description.xml import line_of

    assert line_of(Element("joint")) == 0
