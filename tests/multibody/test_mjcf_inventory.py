"""No part of an MJCF file is dropped in silence: the table is MuJoCo's schema, and every row has its fate."""

import re
import warnings

import numpy as np
import pytest

from connections import multibody as mb
from connections.checks import ModelError
from connections.control.plants.mujoco_coordinates import MuJoCoCoordinates, addresses_of
from connections.multibody.description.format_table import table_of

mujoco = pytest.importorskip("mujoco")

TABLE = table_of("mjcf")
INERTIAL = '<inertial pos="0.1 -0.05 0.2" euler="20 30 40" mass="1.5" diaginertia="0.03 0.04 0.05"/>'


def load(text):
    """The model, and what is said of it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = mb.from_mjcf(text)
    said = [str(each.message) for each in said if each.category is mb.LeftOutWarning]
    assert len(said) <= 1
    return model, "".join(said)


def schema():
    """{path: attributes} of MuJoCo's own schema."""
    rows, above, path = {}, [], ""
    for line in mujoco.mj_printSchema(False, False).splitlines():
        found = re.match(r"( *)(\S+) \([!*?R]\)(.*)", line)
        if found:
            above = [*above[: len(found[1]) // 3], found[2].replace("(world)", "")]
            path = "/".join(above[1:]) or "mujoco"
            rows[path] = set(found[3].split())
        else:
            rows[path] |= set(line.split())
    return rows


def test_the_table_is_mujocos_schema():
    """All of it, and nothing besides but what the schema does not print, and cases of an attribute."""
    theirs = schema()
    assert len(theirs) > 150 and "springyield" in theirs["body/joint"]
    for path, attributes in theirs.items():
        entry = TABLE.entry(path)
        assert entry is not None, path
        known = set(entry.attributes)
        missing = attributes - known
        assert not missing or path.startswith("default/tendon"), f"{path}: {missing}"
    for path, entry in TABLE.entries.items():
        assert path in theirs or path in ("include", "body/frame", "body/replicate"), path
        plain = {name for name in entry.attributes if " " not in name}
        assert path not in theirs or plain == theirs[path], f"{path}: {plain - theirs[path]}"


# --- rows that are told or refused -------------------------------------------------------------------------


def file(options="", body="", joint='type="hinge"', more="", end=""):
    return f"""<mujoco><option {options[:-1] if options.endswith("/") else options}/>
<worldbody><site name="hook" pos="0 0 1"/><body name="arm" {body}>
<joint name="j" {joint}/>
{INERTIAL}<site name="eye"/>{more}
<body name="hand"><joint name="k" axis="0 1 0"/>
{INERTIAL}</body></body></worldbody>
{end}</mujoco>"""


def tendon(given):
    joints = '<joint joint="j" coef="1"/><joint joint="k" coef="0.5"/>'
    return f'<tendon>\n<fixed name="belt" {given}>{joints}</fixed></tendon>'


def flags(**given):
    """Options with flags."""
    return lambda text: text.replace(
        "<option />", "<option><flag " + " ".join(f'{k}="{v}"' for k, v in given.items()) + "/></option>"
    )


SPATIAL = '<spatial name="wire" {}><site site="hook"/><site site="eye"/></spatial>'
FLEX = '<flexcomp name="cloth" type="grid" dim="1" count="3 1 1" spacing="0.1 0.1 0.1" mass="1"/>'
POLYNOMIAL = "stiffness or damping as a polynomial"
DAMPING = "damping of an actuator that is not on a hinge, slide or fixed tendon"
OTHERS = "an actuator on a free joint, a spatial tendon, or between sites or bodies"
MOTOR = '<actuator>\n<motor name="m" joint="j" group="2"/></actuator>'
#: A file for each row that is told: with it, and the thing that is named.
TOLD = {
    ("option", "density"): (file('density="1.2"'), "the drag of a fluid"),
    ("option", "viscosity"): (file('viscosity="1.2"'), "the drag of a fluid"),
    ("option", "wind"): (file('density="1.2" wind="1 0 0"'), "the drag of a fluid"),
    ("option", "actuatorgroupdisable"): (file('actuatorgroupdisable="2"', end=MOTOR), "actuator 'm'"),
    ("option/flag", "actuation"): (flags(actuation="disable")(file(end=MOTOR)), "all actuators"),
    ("body", "gravcomp"): (file(body='gravcomp="0.5"'), "the gravity compensation of body 'arm'"),
    ("body", "a negative gravcomp"): (
        file(body='gravcomp="-0.5"'),
        "the gravity compensation of body 'arm'",
    ),
    ("body/joint", "springyield"): (
        file(joint='stiffness="3" springyield="0.1"'),
        "the spring of joint 'j', which yields",
    ),
    ("body/joint", "stiffness of a ball joint"): (
        file(joint='type="ball" stiffness="2"'),
        "the spring of the ball joint 'j'",
    ),
    ("body/joint", "stiffness of a free joint"): (
        file(joint='type="free" stiffness="2"'),
        "the spring of the free joint 'j'",
    ),
    ("body/joint", POLYNOMIAL): (
        file(joint='stiffness="3 1"'),
        "the nonlinear spring or damper of joint 'j'",
    ),
    ("body/joint", "actuatorfrcrange of two sizes"): (
        file(joint='actuatorfrcrange="-3 5"'),
        "the smaller side of the forces of joint 'j', -3 to 5",
    ),
    ("body/joint", "actuatorgravcomp"): (
        file(body='gravcomp="1"', joint='actuatorgravcomp="true"'),
        "that motors carry the weight of joint 'j'",
    ),
    ("tendon/fixed", "frictionloss"): (
        file(end=tendon('frictionloss="2"')),
        "the dry friction of tendon 'belt'",
    ),
    ("tendon/fixed", "range"): (file(end=tendon('range="-1 1"')), "the range of tendon 'belt'"),
    ("tendon/fixed", "limited"): (
        file(end=tendon('limited="true" range="-1 1"')),
        "the range of tendon 'belt'",
    ),
    ("tendon/fixed", "actuatorfrcrange"): (
        file(end=tendon('actuatorfrcrange="-1 1"')),
        "the largest force of motors on tendon 'belt'",
    ),
    ("tendon/fixed", "actuatorfrclimited"): (
        file(end=tendon('actuatorfrclimited="true" actuatorfrcrange="-1 1"')),
        "the largest force of motors on tendon 'belt'",
    ),
    ("tendon/fixed", "springyield"): (
        file(end=tendon('stiffness="3" springyield="0.1"')),
        "the spring of tendon 'belt', which yields",
    ),
    ("tendon/fixed", POLYNOMIAL): (
        file(end=tendon('damping="3 1"')),
        "the nonlinear spring or damper of tendon 'belt'",
    ),
    ("tendon/spatial", ""): (
        file(end="<tendon>\n" + SPATIAL.format('stiffness="2"') + "</tendon>"),
        "the spatial tendon 'wire'",
    ),
    ("body/flexcomp", ""): (file().replace("</worldbody>", FLEX + "</worldbody>"), "flexible body 'cloth'"),
    ("actuator", "damping of an actuator on a hinge, slide or fixed tendon"): (
        file(end='<actuator>\n<motor name="m" joint="j" damping="0.7"/></actuator>'),
        "the damping of actuator 'm'",
    ),
    ("actuator", DAMPING): (
        file(joint='type="ball"', end='<actuator>\n<motor name="m" joint="j" damping="0.7"/></actuator>'),
        "the damping of actuator 'm'",
    ),
    ("actuator", OTHERS): (
        file(
            end=f'<tendon>{SPATIAL.format("")}</tendon><actuator>\n<motor name="m" tendon="wire"/></actuator>'
        ),
        "actuator 'm' (on the spatial tendon 'wire')",
    ),
}
ACTUATORS = [
    path
    for path, entry in TABLE.entries.items()
    if "damping" in entry.attributes and path.startswith("actuator/")
]
ROWS = {
    (path, name): row
    for path, entry in TABLE.entries.items()
    for name, row in {"": entry.row, **entry.attributes}.items()
    if row.fate in ("warned", "passive")
}
#: For these a program or a file of points would be needed.
UNTRIED = {("body/plugin", ""), ("deformable/flex", "")}


def test_every_row_has_a_file():
    assert set(TOLD) | UNTRIED == set(ROWS)


@pytest.mark.parametrize("row", TOLD)
def test_what_is_left_out_is_told(row):
    text, what = TOLD[row]
    model, said = load(text)
    assert what in said and "line" in said, said
    if row != ("body/flexcomp", ""):
        assert ROWS[row].words in said
    if ROWS[row].fate == "passive":
        assert any(what in each or "wire" in each or "cloth" in each for each in model.passive.left_out)
        with pytest.raises(ModelError, match="are not computed"):
            model.system(passive=True)
    assert not load(file())[1]  # negative control


@pytest.mark.parametrize("target", ['joint="j"', 'joint="k" gear="-3"', 'tendon="belt" gear="2"'])
@pytest.mark.parametrize("path", ACTUATORS)
def test_dampers_of_actuators_are_mujocos(path, target):
    """Of every kind of actuator that has them, on hinges and fixed tendons; also if its group is off."""
    kind = path.rpartition("/")[2]
    if kind == "plugin":  # of a program that is installed
        assert TABLE.row(path, "damping").fate == "read"
        return
    needed = {
        "muscle": 'lengthrange="0 1"',
        "dcmotor": 'resistance="1" motorconst="1"',
        "damper": 'ctrlrange="0 1"',
    }
    actuator = f'<{kind} name="m" {target} group="2" damping="0.7" {needed.get(kind, "")}/>'
    text = file('actuatorgroupdisable="2"', end=tendon("") + f"<actuator>{actuator}</actuator>")
    assert_passive(text, 2 if "tendon" in target else 1)


@pytest.mark.parametrize("joint", ['type="hinge"', 'type="ball" pos="0.1 0.2 0.3"', 'type="slide"', "free"])
@pytest.mark.parametrize("switched", ["", "gravity", "spring"])
def test_gravity_compensation_is_mujocos(joint, switched):
    """Of a body, and of one behind it without joints; MuJoCo's, also if flags switch gravity off."""
    text = file('gravity="1 2 -9"', body='gravcomp="0.7"', joint=joint)
    if joint == "free":
        text = text.replace('<joint name="j" free/>', '<freejoint name="j"/>')
    text = text.replace(
        '<site name="eye"/>', f'<body gravcomp="2" pos="0.3 0 0" euler="9 9 9">{INERTIAL}</body>'
    )
    if switched:
        flag = f'<option gravity="1 2 -9"><flag {switched}="disable"/></option>'
        text = text.replace('<option gravity="1 2 -9"/>', flag)
    assert_passive(text, 0 if switched == "gravity" else 1)


def test_gravity_compensation_of_a_part_of_a_robot():
    """Of what a link carries, that of its bodies; the link's own is carried by the ground."""
    chain = "".join(
        f'<body name="{name}" gravcomp="{share}" pos="0.1 0 0"><joint name="{name}" axis="0 1 0"/>{INERTIAL}'
        for name, share in (("a", 1), ("b", 0.5), ("c", 0.7))
    )
    model, _ = load(f"<mujoco><worldbody>{chain}</body></body></body></worldbody></mujoco>")
    part, still = model.subtree("b"), np.zeros(3)
    whole = model.passive_forces([-0.2, 0.2, 0.3], still)  # with b as the frame of the part
    np.testing.assert_allclose(part.passive_forces([0.3], [0.0]), whole[2:], rtol=1e-12)
    assert set(part.passive.lift) == {"b", "c"} and abs(whole[2]) > 0.1


def assert_passive(text, least):
    """MuJoCo's ``qfrc_passive``, of which so many components are not zero."""
    (model, said), compiled = load(text), mujoco.MjModel.from_xml_string(text)
    assert not model.passive.left_out and ("passive=True" in said) == bool(least)
    rng, data = np.random.default_rng(0), mujoco.MjData(compiled)
    q, v = model.random(rng), rng.standard_normal(model.nv)
    coordinates = MuJoCoCoordinates.of(model, addresses_of(compiled))
    coordinates.write(q, v, data.qpos, data.qvel)
    mujoco.mj_forward(compiled, data)
    S = np.zeros((compiled.nv, model.nv))
    for column, e in zip(S.T, np.eye(model.nv), strict=True):
        coordinates.write(q, e, data.qpos, column)
    tau = S.T @ data.qfrc_passive
    np.testing.assert_allclose(model.passive_forces(q, v), tau, atol=1e-12 * (1 + np.abs(tau).max()))
    assert np.count_nonzero(np.abs(tau) > 1e-3) >= least


def test_what_does_nothing_is_not_told():
    """Without gravity there is nothing to compensate, and flags switch forces off, as in MuJoCo."""
    for text in (
        file('gravity="0 0 0"', body='gravcomp="1"'),
        flags(gravity="disable")(file(body='gravcomp="1"')),
        flags(spring="disable", damper="disable")(
            file(body='gravcomp="1"', joint='type="ball" stiffness="2"')
        ),
        flags(spring="disable")(file(joint='type="ball" stiffness="2"')),
        flags(damper="disable")(file(end='<actuator><motor joint="j" damping="2"/></actuator>')),
        flags(limit="disable")(file(joint='type="ball" range="0 40"')),
        flags(limit="disable")(file(end=tendon('range="-1 1"'))),
        flags(constraint="disable")(file(joint='type="ball" range="0 40"')),
        flags(constraint="disable")(file(end=tendon('frictionloss="1" range="-1 1"'))),
    ):
        model, said = load(text)
        assert not said and not model.passive.left_out, said
        compiled = mujoco.MjModel.from_xml_string(text)
        data = mujoco.MjData(compiled)
        data.qpos[:], data.qvel[:] = compiled.qpos0, 0.3
        mujoco.mj_forward(compiled, data)
        assert not data.qfrc_passive.any() and not data.nefc


def test_what_a_newer_mujoco_knows_is_told(monkeypatch):
    """Rows that are taken from the table stand for elements and attributes that it does not have yet."""
    from connections.multibody.description import mjcf_inventory

    entries = {path: entry for path, entry in TABLE.entries.items() if path != "custom/numeric"}
    joint = dict(TABLE.entries["body/joint"].attributes)
    del joint["armature"]
    entries["body/joint"] = type(TABLE.entries["body/joint"])("body/joint", TABLE.row("body/joint"), joint)
    older = type(TABLE)("mjcf", entries, aliases=TABLE.aliases)
    monkeypatch.setattr(mjcf_inventory, "table_of", lambda name: older)
    text = file(joint='armature="1"', end='<custom>\n<numeric name="n" data="1"/></custom>')
    _, said = load(text.replace("<option />", '<default><joint armature="2"/></default>'))
    assert "<joint armature=...> (lines 1, 3): not known" in said and "<numeric> (line 8): not known" in said


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (tendon('armature="1"'), "tendon 'belt' has armature"),
        (
            tendon("") + '<actuator><motor name="m" tendon="belt" armature="1"/></actuator>',
            "actuator 'm' has armature",
        ),
    ],
)
def test_armature_that_couples_joints_is_refused(end, message):
    assert TABLE.row("tendon/fixed", "armature").fate == "refused"
    with pytest.raises(ModelError, match=message):
        load(file(end=end))


def test_lines_of_files_that_are_included_and_of_defaults(tmp_path):
    (tmp_path / "arm.xml").write_text(
        f'<mujocoinclude>\n<body name="b" gravcomp="-1"><joint/>{INERTIAL}</body></mujocoinclude>'
    )
    main = tmp_path / "robot.xml"
    main.write_text(
        '<mujoco><default>\n<joint springyield="0.1" stiffness="1"/></default>\n'
        '<worldbody><include file="arm.xml"/></worldbody></mujoco>'
    )
    with pytest.warns(mb.LeftOutWarning) as said:
        mb.from_mjcf(main)
    text = str(said[0].message)
    assert "(<body gravcomp=...>, line 2 of arm.xml)" in text and "(<joint springyield=...>, line 2)" in text


# --- flags, and ranges of controls -------------------------------------------------------------------------

FRICTION = 'frictionloss="0.4" range="-1 1"'


@pytest.mark.parametrize("flag", ["frictionloss", "limit", "constraint", ""])
def test_flags_of_friction_and_limits_are_mujocos(flag):
    """What MuJoCo has a row of constraints for, beyond the range of the joint."""
    text = file(joint=FRICTION)
    if flag:
        text = flags(**{flag: "disable"})(text)
    model, _ = load(text)
    compiled = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(compiled)
    data.qpos[0] = 2.0
    mujoco.mj_forward(compiled, data)
    kinds = mujoco.mjtConstraint
    assert bool(model.passive.friction) == (kinds.mjCNSTR_FRICTION_DOF in data.efc_type)
    assert np.isfinite(model.limits.upper[0]) == (kinds.mjCNSTR_LIMIT_JOINT in data.efc_type)


@pytest.mark.parametrize("other", ["", "held"])
def test_friction_of_a_tendon_on_one_joint_is_that_of_the_joint(other):
    """Also if other joints of it are held: MuJoCo's row for the tendon bounds |coef| tau of the joint."""
    joints = '<joint joint="k" coef="-0.5"/>' + ('<joint joint="j" coef="2"/>' if other else "")
    end = f'<tendon><fixed name="belt" frictionloss="0.8">{joints}</fixed></tendon>'
    end += '<equality><joint joint1="j" polycoef="0.1"/></equality>' if other else ""
    model, said = load(file(end=end).replace('name="k"', 'name="k" frictionloss="0.3"'))
    assert not said and model.passive.friction["k"] == pytest.approx(0.3 + 0.5 * 0.8)


MOTORS = {
    "a motor": '<motor name="m" joint="j" ctrlrange="-2 3"/>',
    "a gain": '<general name="m" joint="j" gainprm="-4" ctrlrange="-2 3"/>',
    "a force range within": '<motor name="m" joint="j" ctrlrange="-2 3" forcerange="-1 9"/>',
    "no range": '<motor name="m" joint="j"/>',
    "not limited": '<motor name="m" joint="j" ctrlrange="-2 3" ctrllimited="false"/>',
    "of a tendon": '<motor name="m" tendon="belt" ctrlrange="-2 3"/>',
}


@pytest.mark.parametrize("clamp", ["enable", "disable"])
@pytest.mark.parametrize("case", MOTORS)
def test_the_force_of_a_motor_is_within_the_range_of_its_control(case, clamp):
    """MuJoCo's own force for controls far outside."""
    text = flags(clampctrl=clamp)(file(end=tendon("") + f"<actuator>{MOTORS[case]}</actuator>"))
    (motor,), compiled = load(text)[0].motors, mujoco.MjModel.from_xml_string(text)
    data, found = mujoco.MjData(compiled), []
    for control in (-1e6, 1e6):
        data.ctrl[:] = control
        mujoco.mj_forward(compiled, data)
        found.append(float(data.actuator_force[0]))
    expected = [force if abs(force) < 1e5 else np.sign(force) * np.inf for force in sorted(found)]
    np.testing.assert_allclose(motor.force, expected, rtol=1e-14)


def test_the_range_of_a_servos_control_is_none_of_its_force():
    servo = '<actuator><position name="m" joint="j" kp="5" ctrlrange="-2 3"/></actuator>'
    assert load(file(end=servo))[0].motors[0].force == (-np.inf, np.inf)


def test_disabled_actuators_are_no_motors():
    both = MOTOR.replace("</actuator>", '<motor name="n" joint="k"/></actuator>')
    model, said = load(file('actuatorgroupdisable="2"', end=both))
    assert [motor.name for motor in model.motors] == ["n"] and "'n'" not in said
    assert not load(flags(actuation="disable")(file(end=both)))[0].motors


# --- names -------------------------------------------------------------------------------------------------

CHAINS = (("hinge",), ("hinge", "slide"), ("slide", "hinge", "ball"), ())


def taken_names(rng, bodies=4):
    """A random tree whose names are those that the reader makes for others."""
    parents = [int(rng.integers(0, number + 1)) for number in range(bodies)]
    chains = [CHAINS[rng.integers(len(CHAINS))] for _ in range(bodies)]
    chains[0] = ("hinge", "slide")
    count = sum(map(len, chains))

    def draw(pool, used):
        free = [name for name in pool if name not in used]
        name = str(rng.choice(free)) if rng.random() < 0.7 else ""
        used.add(name)
        return f'name="{name}"' if name else ""

    bodies_used, joints_used, sites_used = set(), set(), set()
    pool = [f"body {k}" for k in range(bodies + 1)] + [f"joint {k}" for k in range(count)]
    made = (
        pool
        + [f"{body}/joint {k}" for body in pool[:2] for k in range(2)]
        + ["body 1 (fixed)", "body 2 (fixed)"]
    )
    elements = []
    for chain in chains:
        joints = ""
        for kind in chain:
            axis = " ".join(map(str, rng.integers(1, 5, 3)))
            joints += f'<joint {draw(made, joints_used)} type="{kind}" axis="{axis}"/>'
        site = f"<site {draw([*made, 'site 0', 'site 1'], sites_used)}/>"
        elements.append((f'<body {draw(made, bodies_used)} pos="0.1 0.2 0.3">', joints + INERTIAL + site))

    def text(number):
        opened, inside = elements[number]
        below = "".join(text(k) for k in range(number + 1, len(elements)) if parents[k] == number + 1)
        return f"{opened}{inside}{below}</body>"

    world = "".join(text(k) for k in range(len(elements)) if parents[k] == 0 or k == 0)
    return f"<mujoco><worldbody>{world}<site/></worldbody></mujoco>"


@pytest.mark.parametrize("number", range(12))
def test_names_of_the_reader_meet_none_of_the_file(number, rng):
    text = taken_names(rng)
    compiled = mujoco.MjModel.from_xml_string(text)
    model, _ = load(text)
    v = rng.standard_normal(model.nv)
    data, qpos = mujoco.MjData(compiled), model.random(rng)
    coordinates = MuJoCoCoordinates.of(model, addresses_of(compiled))
    coordinates.write(qpos, v, data.qpos, data.qvel)
    mujoco.mj_forward(compiled, data)
    H = np.zeros((compiled.nv, compiled.nv))
    mujoco.mj_fullM(compiled, data, H)
    np.testing.assert_allclose(v @ mb.mass_matrix(model, qpos) @ v, data.qvel @ H @ data.qvel, rtol=1e-12)
    names = {mujoco.mj_id2name(compiled, mujoco.mjtObj.mjOBJ_JOINT, k) for k in range(compiled.njnt)}
    assert names - {None} <= set(model.joint_names)  # names of the file are its own
    assert len(model.frame_names) >= compiled.nbody - 1 + compiled.nsite


JOINTS = '<joint name="{}" axis="1 0 0"/><joint name="{}" axis="0 1 0"/>'
MADE = {
    "a body between two joints": f"""<body name="arm">{JOINTS.format("x", "y")}{INERTIAL}
      <body name="arm/x" pos="0 0 1"><joint name="z"/>{INERTIAL}</body></body>""",
    "two bodies between": f"""<body name="a/b">{JOINTS.format("c", "d")}{INERTIAL}
      <body name="a" pos="0 0 1">{JOINTS.format("b/c", "e")}{INERTIAL}</body></body>""",
    "a joint that is fixed": f"""<body name="stand" pos="0 0 1">{INERTIAL}
      <body name="arm"><joint name="stand (fixed)" axis="0 1 0"/>{INERTIAL}</body></body>""",
}


@pytest.mark.parametrize("case", MADE)
def test_bodies_and_joints_that_the_reader_adds_meet_none_of_the_file(case, rng):
    text = f"<mujoco><worldbody>{MADE[case]}</worldbody></mujoco>"
    (model, _), compiled = load(text), mujoco.MjModel.from_xml_string(text)
    data, q = mujoco.MjData(compiled), model.random(rng)
    data.qpos[:] = q
    mujoco.mj_forward(compiled, data)
    H = np.zeros((compiled.nv, compiled.nv))
    mujoco.mj_fullM(compiled, data, H)
    np.testing.assert_allclose(mb.mass_matrix(model, q), H, rtol=1e-12, atol=1e-12)


def test_other_things_without_names_meet_none_of_the_file():
    """Equalities, actuators, tendons and keyframes are called by their numbers."""
    text = f"""<mujoco><worldbody>
      <body name="a"><joint name="i" axis="0 1 0"/>{INERTIAL}
      <body name="b"><joint name="j" axis="0 1 0"/>{INERTIAL}
      <body name="c"><joint name="k" axis="0 1 0"/>{INERTIAL}</body></body></body></worldbody>
      <equality><joint name="number 1" joint1="j" joint2="i"/><joint joint1="k" joint2="i"/></equality>
      <actuator><motor name="number 1" joint="i"/><motor joint="j"/></actuator>
      <keyframe><key name="key 1" qpos="1 1 1"/><key qpos="2 2 2"/></keyframe></mujoco>"""
    model, _ = load(text)
    assert model.nv == 1
    assert [motor.name for motor in model.motors] == ["number 1", "number 1 (unnamed)"]
    assert {name: key.q[0] for name, key in model.keyframes.items()} == {"key 1": 1.0, "key 1 (unnamed)": 2.0}
    assert mb.from_mjcf(text, equality=["number 1 (unnamed)"]).nv == 2


# --- keyframes, and frames of the world --------------------------------------------------------------------

ALL_JOINTS = f"""<mujoco><compiler angle="radian"/><worldbody>
  <body name="trunk" pos="0 0 1"><freejoint name="float"/>{INERTIAL}
    <body name="upper" pos="0.2 0 0"><joint name="hip" type="ball" pos="0.05 0 0.1"/>{INERTIAL}
      <body name="lower" pos="0 0 -0.4"><joint name="knee" axis="0 1 0.2" ref="0.3" pos="0.02 0 0"/>{INERTIAL}
        <body name="foot" pos="0 0 -0.3"><joint name="reach" type="slide" axis="1 0 1"/>{INERTIAL}</body>
      </body></body></body>
  <body name="other"><joint name="held"/>{INERTIAL}</body></worldbody>
  <equality><joint joint1="held" polycoef="0.25"/></equality>
  <keyframe><key name="home" qpos="1 2 3 0.8 0.2 -0.4 0.4 0.5 0.5 -0.5 0.5 0.7 0.2 0.25"
      qvel="0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1 1.1 0"/>
    <key qpos="0 0 0 2 0 0 0 1 0 0 0 0 0 0.25"/></keyframe></mujoco>"""


def test_keyframes_are_mujocos():
    """All joint types: the same positions and velocities in MuJoCo, and its kinetic energy."""
    (model, said), compiled = load(ALL_JOINTS), mujoco.MjModel.from_xml_string(ALL_JOINTS)
    assert not said and list(model.keyframes) == ["home", "key 1"]
    coordinates = MuJoCoCoordinates.of(model, addresses_of(compiled))
    for number, key in enumerate(model.keyframes.values()):
        data = mujoco.MjData(compiled)
        mujoco.mj_resetDataKeyframe(compiled, data, number)
        mujoco.mj_forward(compiled, data)
        qpos, qvel = np.zeros(compiled.nq), np.zeros(compiled.nv)
        coordinates.write(key.q, key.v, qpos, qvel)
        moving = slice(0, compiled.nq - 1)
        np.testing.assert_allclose(qpos[moving], data.qpos[moving], atol=1e-15)
        np.testing.assert_allclose(qvel, data.qvel, atol=1e-15)
        H = np.zeros((compiled.nv, compiled.nv))
        mujoco.mj_fullM(compiled, data, H)
        energy = key.v @ mb.mass_matrix(model, key.q) @ key.v
        np.testing.assert_allclose(energy, data.qvel @ H @ data.qvel, rtol=1e-12)
        np.testing.assert_array_equal(key.spanning, key.q)
        where = mb.frame_pose(model, key.q, "foot")[:3, 3]
        np.testing.assert_allclose(where, data.body("foot").xpos, atol=1e-12)


FOUR_BAR = f"""<mujoco><compiler angle="radian"/><worldbody>
  <body name="crank"><joint name="j1" axis="0 0 1"/>{INERTIAL}
    <body name="coupler" pos="0.1 0.3 0"><joint name="j2" axis="0 0 1"/>{INERTIAL}</body></body>
  <body name="rocker" pos="0.8 0 0"><joint name="j3" axis="0 0 1"/>{INERTIAL}</body></worldbody>
  <equality><connect body1="coupler" body2="rocker" anchor="0.5 0.2 0"/></equality>
  <keyframe><key name="near" qpos="{{}}" qvel="0.5 0 0"/></keyframe></mujoco>"""


def test_keyframes_of_loops_are_where_these_close(rng):
    """A keyframe written from a closed configuration, with an error: loops close beside it, on its branch."""
    model, _ = load(FOUR_BAR.format("0 0 0"))
    q = model.random(rng)
    closed = np.asarray(mb.close_loops(model, q).spanning)
    written = closed + 1e-3 * rng.standard_normal(3)
    text = FOUR_BAR.format(" ".join(map(repr, written.tolist())))
    model, _ = load(text)
    key = model.keyframes["near"]
    np.testing.assert_array_equal(np.sort(key.spanning), np.sort(written))
    found = mb.close_loops(model, key.q, key.spanning)
    assert key.q.shape == (1,) and np.abs(np.asarray(found.spanning) - key.spanning).max() < 1e-2
    assert key.v[0] == (0.5 if model.joint_names == ("j1",) else 0.0)
    other = model.with_independent(["j1"]).keyframes["near"]
    assert other.q[0] == written[0] and other.v[0] == 0.5


def test_keyframes_of_a_part_of_a_robot():
    model, _ = load(ALL_JOINTS)
    part = model.with_locked({"reach": 0.1, "float": model.neutral()[:7]})
    np.testing.assert_array_equal(part.keyframes["home"].q, model.keyframes["home"].q[7:12])
    leg = model.subtree("upper")
    np.testing.assert_array_equal(leg.keyframes["home"].v, model.keyframes["home"].v[9:11])
    assert model == load(ALL_JOINTS)[0] and model != load(ALL_JOINTS.replace('qpos="1 2', 'qpos="1 3'))[0]


def test_sites_of_the_world_are_frames(rng):
    text = ALL_JOINTS.replace("<worldbody>", '<worldbody><site name="post" pos="1 2 3" euler="0.1 0.2 0.3"/>')
    (model, _), compiled = load(text), mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(compiled)
    mujoco.mj_forward(compiled, data)
    pose = mb.frame_pose(model, model.random(rng), "post")
    np.testing.assert_allclose(pose[:3, 3], data.site("post").xpos, atol=1e-15)
    np.testing.assert_allclose(pose[:3, :3].reshape(-1), data.site("post").xmat, atol=1e-15)
    assert not mb.frame_jacobian(model, model.random(rng), "post").any()
    added = model.with_frames({"mark": ("world", pose)})
    np.testing.assert_array_equal(mb.frame_pose(added, model.random(rng), "mark"), pose)
    with pytest.raises(ModelError, match="wall"):
        model.with_frames({"mark": ("wall", pose)})
