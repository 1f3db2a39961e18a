"""Equality constraints of MJCF against MuJoCo: its residuals, its constraint Jacobian, its mass matrix."""

import numpy as np
import pytest
from cases import further
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import ModelError
from connections.multibody.program.closure_conditions import HostConditions

mujoco = pytest.importorskip("mujoco")

HEAD = """<option jacobian="dense" gravity="0.3 -0.2 -9.5"><flag contact="disable" limit="disable"/></option>
  <compiler angle="radian"/>"""
INERTIAL = '<inertial pos="0.1 -0.05 0.2" euler="0.2 0.3 0.4" mass="1.5" diaginertia="0.03 0.04 0.05"/>'


def file(bodies, equality):
    return f"<mujoco>{HEAD}<worldbody>{bodies}</worldbody><equality>{equality}</equality></mujoco>"


# A four-bar on slanted ground: the anchors of joints are not the origins of bodies, and qpos0 is not zero.
BARS = f"""<body name="ground" pos="0.2 0.1 0.5" euler="0.3 0.2 0.1">
  <body name="crank" pos="0.1 0 0"><joint name="j1" axis="0 0 1" pos="-0.1 0 0" ref="0.3"/>{INERTIAL}
    <site name="pin" pos="0.1 0.3 0" euler="0.1 0.2 0.3"/>
    <body name="coupler" pos="0.1 0.3 0"><joint name="j2" axis="0 0 1" ref="-0.2"/>{INERTIAL}
      <site name="end" pos="0.5 0.2 0" euler="0 0 0.4"/></body></body>
  <body name="rocker" pos="0.9 0 0" euler="0 0 0.2"><joint name="j3" axis="0 0 1" ref="0.1"/>{INERTIAL}
    <site name="top" pos="-0.1093974 0.5298702 0" euler="0 0 0.2"/></body></body>"""

# A ball joint, a slide and a hinge from the ground to a plate, and a weld across: a spatial loop.
SPATIAL = f"""<body name="plate" pos="0 0 0.4"><joint name="ball" type="ball" pos="0.1 0 0"/>{INERTIAL}</body>
  <body name="cart" pos="1 0 0"><joint name="rail" type="slide" axis="1 0.2 0" ref="0.1"/>{INERTIAL}
    <body name="arm" pos="0 0.2 0.3" euler="0.2 0.1 0.5"><joint name="lift" type="slide" axis="0 0.3 1"/>
      <joint name="yaw" axis="0 1 1" pos="0.1 0 0"/>{INERTIAL}
      <body name="hand" pos="0.2 0 0.1"><joint name="wrist" type="ball"/>{INERTIAL}</body></body></body>"""

# Three hinges and a slide on one chain, coupled.
CHAIN = f"""<body name="a"><joint name="j1" axis="0 1 0" ref="0.4"/>{INERTIAL}
  <body name="b" pos="0.3 0 0"><joint name="j2" axis="0 0 1" ref="-0.3"/>{INERTIAL}
    <body name="c" pos="0.3 0 0"><joint name="j3" type="slide" axis="1 0 1" ref="0.2"/>{INERTIAL}
      <body name="d" pos="0.3 0 0"><joint name="j4" axis="1 0 0" pos="0 0.1 0"/>{INERTIAL}
      </body></body></body></body>"""

# Tendons of which each joint's coefficient, and each joint's ref, is different.
TENDONS = """<tendon><fixed name="a"><joint joint="j1" coef="0.7"/><joint joint="j3" coef="-0.4"/></fixed>
  <fixed name="b"><joint joint="j2" coef="1.5"/><joint joint="j1" coef="0.3"/></fixed>
  <fixed name="c"><joint joint="j4" coef="-2"/></fixed> <fixed name="d"><joint joint="j4" coef="-2"/></fixed>
  <spatial name="rope"><site site="p"/><site site="o"/></spatial></tendon>"""


def with_tendons(equality):
    sites = CHAIN.replace(INERTIAL, INERTIAL + '<site name="p"/>', 1) + '<site name="o" pos="0 0 1"/>'
    return file(sites, equality).replace("</worldbody>", "</worldbody>" + TENDONS)


MOCAP = f"""<body name="target" mocap="true" pos="0.3 0 0.2"><body name="grip" pos="0 0 0.1"/></body>
  <body name="base"><joint name="slide" type="slide" axis="1 0 0"/><joint name="turn" axis="0 0 1"/>{INERTIAL}
    <body name="arm" pos="0.3 0 0.2"><joint name="lift" axis="0 1 0"/>{INERTIAL}</body></body>"""


@pytest.mark.parametrize("body", ["target", "grip"])
def test_a_weld_to_a_mocap_body_is_a_target(body, tmp_path):
    """It was an exact joint, which took the velocities of the robot without a word."""
    path = tmp_path / "robot.xml"
    path.write_text(file(MOCAP, f'<weld name="pull" body1="{body}" body2="arm"/>'))
    with pytest.warns(
        mb.AssemblyWarning, match="'pull' is left out: its body 'target' is a mocap body"
    ) as said:
        robot = mb.from_mjcf(path)
    assert robot.nv == 3 and "equality=['pull', ...] takes it as a joint" in str(said[0].message)
    path.write_text(file(MOCAP, f'<connect name="pull" body1="{body}" body2="arm" anchor="0 0 0"/>'))
    with pytest.warns(mb.AssemblyWarning, match="'pull' is left out"):
        assert mb.from_mjcf(path).nv == 3


def test_equalities_are_chosen(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(
        file(
            CHAIN,
            '<joint name="first" joint1="j3" joint2="j1" polycoef="0.1 -2 0 0 0"/>'
            '<joint joint1="j4" joint2="j2" active="false"/>',
        )
    )
    assert mb.from_mjcf(path).nv == mb.from_mjcf(path, equality=["first"]).nv == 3
    assert mb.from_mjcf(path, equality=False).nv == mb.from_mjcf(path, equality=[]).nv == 4
    assert mb.from_mjcf(path, equality=["number 1"]).nv == 3
    assert mb.from_mjcf(path, equality=["first", "number 1"]).nv == 2
    with pytest.raises(
        ModelError, match="robot.xml: there is no equality constraint 'frist'; did you mean first"
    ):
        mb.from_mjcf(path, equality=["frist"])
    with pytest.raises(TypeError, match="equality: expected a sequence of names, got a str"):
        mb.from_mjcf(path, equality="first")


CLOSED = {
    "connect": (file(BARS, '<connect name="ring" body1="coupler" body2="rocker" anchor="0.5 0.2 0"/>'), 1),
    "connect sites": (file(BARS, '<connect site1="end" site2="top"/>'), 1),
    "weld": (file(SPATIAL, '<weld body1="plate" body2="hand" anchor="0.1 0.2 0.3"/>'), 3),
    "weld posed": (
        file(SPATIAL, '<weld body1="plate" body2="hand" relpose="1.2 0.1 0.1 0.9 0.1 0.2 0.3"/>'),
        3,
    ),
    "weld without torque": (file(SPATIAL, '<weld body1="plate" body2="hand" torquescale="0"/>'), 6),
    "linear": (file(CHAIN, '<joint joint1="j3" joint2="j1" polycoef="0.1 -2 0 0 0"/>'), 3),
    "two of one": (
        file(
            CHAIN,
            '<joint joint1="j3" joint2="j1" polycoef="0.1 -2"/>'
            '<joint joint1="j1" joint2="j4" polycoef="0 3"/>',
        ),
        2,
    ),
    "quartic": (
        file(CHAIN, '<joint name="cam" joint1="j2" joint2="j4" polycoef="0.1 0.2 0.3 -0.4 0.5"/>'),
        3,
    ),
    "tendons": (with_tendons('<tendon tendon1="a" tendon2="b" polycoef="0.1 -2"/>'), 3),
    "tendons, cubic": (with_tendons('<tendon tendon1="b" tendon2="a" polycoef="0.1 0.2 0.3 -0.4"/>'), 3),
    "tendon": (with_tendons('<tendon tendon1="a" polycoef="0.2"/><tendon tendon1="b"/>'), 2),
    "held": (file(CHAIN, '<joint joint1="j3" polycoef="0.25"/><joint joint1="j2" joint2="j4"/>'), 2),
}


@pytest.fixture
def load(tmp_path):
    def _load(text, **options):
        path = tmp_path / "robot.xml"
        path.write_text(text, encoding="utf8")
        return mb.from_mjcf(path, **options)

    return _load


class Oracle:
    """MuJoCo at a spanning configuration of ours. No free joints: our spanning velocities are its qvel."""

    def __init__(self, text):
        self.model = mujoco.MjModel.from_xml_string(text)
        self.data = mujoco.MjData(self.model)

    def place(self, spanning):
        """Put MuJoCo where {joint: configuration} says; joints that it does not name stay at qpos0."""
        self.data.qpos[:] = self.model.qpos0
        for name, q in spanning.items():
            self.data.joint(name).qpos[:] = np.roll(q, 1) if len(q) == 4 else q
        mujoco.mj_forward(self.model, self.data)
        return self

    @property
    def equality(self):
        """Residuals (k,) and Jacobian (k, nv) of the equality constraints."""
        rows = self.data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
        J = self.data.efc_J.reshape(-1, self.model.nv)
        return self.data.efc_pos[rows].copy(), J[rows].copy()

    @property
    def mass_matrix(self):
        H = np.zeros((self.model.nv, self.model.nv))
        mujoco.mj_fullM(self.model, self.data, H)
        return H

    def reduction(self, names):
        """G (nv, n) in the null space of the Jacobian, the identity on the velocities of these joints."""
        _, J = self.equality
        chosen = [self.model.joint(name).dofadr[0] for name in names]
        rest = np.setdiff1d(np.arange(self.model.nv), chosen)
        G = np.zeros((self.model.nv, len(chosen)))
        G[chosen] = np.eye(len(chosen))
        G[rest] = -np.linalg.lstsq(J[:, rest], J[:, chosen], rcond=1e-10)[0]
        return G


def assembled(model):
    """{joint: its configuration} in the reference assembly."""
    closed = model.kinematics
    parts = np.split(closed.reference, closed.spanning.q_starts[1:-1])
    return dict(zip(closed.tree.joint_names, parts, strict=True))


def projector(J):
    """The orthogonal projector onto the velocities that a constraint Jacobian forbids, (nv, nv)."""
    return np.linalg.pinv(J, rcond=1e-9) @ J


@pytest.mark.parametrize("name", CLOSED)
def test_mujoco_finds_our_assemblies_closed(name, load, rng):
    """Its residuals vanish where we close the loops, and its Jacobian forbids the same velocities."""
    text, nv = CLOSED[name]
    oracle, drawn = Oracle(text), load(text)
    assert drawn.nv == nv
    for _ in range(3):
        start = {
            joint: q + 0.2 * rng.standard_normal(len(q))
            for joint, q in assembled(drawn).items()
            if len(q) == 1
        }
        model = load(text, reference=start)
        closed, spanning = model.kinematics, assembled(model)
        if name == "held":
            spanning["j3"] = np.array([0.2 + 0.25])  # ref + c0; it is none of our joints
        phi, J = oracle.place(spanning).equality
        np.testing.assert_allclose(phi, 0.0, atol=1e-12)
        _, K = HostConditions(closed.spanning, closed.rows, closed.functions).at(closed.reference)
        if name != "held":
            np.testing.assert_allclose(projector(K), projector(J), atol=1e-8)
    off = 0.0  # negative control: some joint leads off the constraint
    for joint, q in spanning.items():
        if len(q) == 1:
            off = max(off, np.max(np.abs(oracle.place({**spanning, joint: q + 1e-3}).equality[0])))
    assert off > 1e-5


def test_a_tendon_of_one_joint_holds_it(load):
    """c_0 is added to its length at ref: -2 (q - 0) = 0.5."""
    text = with_tendons('<tendon tendon1="c" polycoef="0.5"/>')
    model, oracle = load(text), Oracle(text)
    assert model.joint_names == ("j1", "j2", "j3")
    held = dict(zip(model.joint_names, 0.1 * np.ones((3, 1)), strict=True)) | {"j4": np.array([-0.25])}
    np.testing.assert_allclose(oracle.place(held).equality[0], 0.0, atol=1e-12)
    theirs = oracle.data.body("d").xmat.reshape(3, 3)
    ours = mb.frame_pose(model, 0.1 * np.ones(3), "d")[:3, :3]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


BASE = f"""<body name="stand" pos="1 0 0" euler="0 0 0.3">
    <site name="here" pos="0 0.1 0" euler="1 0 0"/></body>
  <body name="base" pos="0.1 0.2 0.3" euler="0.1 0.2 0.3"><freejoint name="root"/>{INERTIAL}
    <body name="plate" pos="0.2 0 0" euler="0.4 0 0"><site name="there" euler="0 0 1"/></body>
    <body name="arm" pos="0 0 1"><joint name="j" axis="0 1 0"/>{INERTIAL}</body></body>"""
WELDS = {
    "as drawn": 'body1="base"',
    "the world first": 'body1="world" body2="base" relpose="0.4 0.5 0.6 0.9 0.1 0.2 0.3"',
    "to what is fixed": 'body1="plate" body2="stand" relpose="0.4 0.5 0.6 0.9 0.1 0.2 0.3"',
    "sites": 'site1="here" site2="there"',
}


@pytest.mark.parametrize("name", WELDS)
def test_a_free_body_welded_to_the_world_is_a_fixed_base(name, load):
    """It was refused as over-constrained."""
    text = file(BASE, f"<weld {WELDS[name]}/>")
    model, oracle = load(text), Oracle(text)
    assert model.joint_names == ("j",) and not model.closed
    place = mb.frame_pose(model, np.array([0.3]), "base")
    pose = np.concatenate([place[:3, 3], Rotation.from_matrix(place[:3, :3]).as_quat(scalar_first=True)])
    oracle.data.qpos[:] = np.r_[pose, 0.3]
    mujoco.mj_forward(oracle.model, oracle.data)
    np.testing.assert_allclose(oracle.equality[0], 0.0, atol=1e-12)
    np.testing.assert_allclose(mb.mass_matrix(model, [0.3])[0, 0], oracle.mass_matrix[6, 6], atol=1e-12)
    np.testing.assert_allclose(mb.gravity(model, [0.3])[0], oracle.data.qfrc_bias[6], atol=1e-12)
    oracle.data.qpos[:3] += 1e-3  # negative control
    mujoco.mj_forward(oracle.model, oracle.data)
    assert np.abs(oracle.equality[0]).max() > 1e-4
    with pytest.raises(ModelError, match="'again': its two ends do not move"):
        load(file(BASE, f"<weld {WELDS[name]}/><weld name='again' {WELDS[name]}/>"))


@pytest.mark.parametrize("name", ["two of one", "tendons", further("tendons, cubic"), "held"])
def test_mass_matrix_is_mujocos_reduced(name, load, rng):
    text, _ = CLOSED[name]
    model, oracle = load(text), Oracle(text)
    q = model.random(rng)
    spanning = {joint: np.array(value) for joint, value in model.spanning_configuration(q).items()}
    if name == "held":
        spanning["j3"] = np.array([0.2 + 0.25])
    oracle.place(spanning)
    np.testing.assert_allclose(oracle.equality[0], 0.0, atol=1e-12)
    G = oracle.reduction(model.joint_names)
    H = G.T @ oracle.mass_matrix @ G
    np.testing.assert_allclose(
        np.asarray(model.definition.metric.matrix(q)), H, atol=1e-10 * np.max(np.abs(H))
    )
    G[:, 0] *= 1.1  # negative control
    assert np.max(np.abs(G.T @ oracle.mass_matrix @ G - H)) > 1e-3


def test_dependent_joints(load):
    assert load(CLOSED["linear"][0]).joint_names == ("j1", "j2", "j4")  # joint 1 of the constraint depends
    assert load(CLOSED["two of one"][0]).joint_names == ("j2", "j4")
    assert load(CLOSED["quartic"][0]).joint_names == ("j1", "j3", "j4")
    assert load(CLOSED["held"][0]).joint_names == ("j1", "j4")


def test_the_reference_is_where_the_file_is_drawn(load):
    """qpos0 closes by construction of a connect, and chooses the assembly; a reference overrides it."""
    text = CLOSED["connect"][0]
    model, oracle = load(text), Oracle(text)
    drawn = dict(zip(("j1", "j2", "j3"), oracle.model.qpos0, strict=True))
    for name, value in assembled(model).items():
        np.testing.assert_allclose(value, drawn[name], atol=1e-12)
    mirrored = assembled(load(text, reference={"j1": 0.3, "j2": -3.0, "j3": -2.0}))
    assert abs(mirrored["j3"][0] - drawn["j3"]) > 0.1
    np.testing.assert_allclose(oracle.place(mirrored).equality[0], 0.0, atol=1e-12)


BAD = {
    "spatial tendon": (
        with_tendons('<tendon name="belt" tendon1="a" tendon2="rope"/>'),
        r"'belt' \(tendon\): its tendon 'rope' is spatial, not fixed; equality=\[names\] or",
    ),
    "tendons alike": (
        with_tendons('<tendon name="belt" tendon1="c" tendon2="d" polycoef="0 1"/>'),
        "'belt': no joint is left in it",
    ),
    "held and coupled": (
        file(CHAIN, '<joint name="x" joint1="j3"/><joint name="y" joint1="j2" joint2="j3"/>'),
        "'x' and 'y': one holds a joint that the other constrains, too",
    ),
    "held twice": (file(CHAIN, '<joint name="x" joint1="j3"/><joint name="y" joint1="j3"/>'), "'x' and 'y'"),
    "does not close": (
        file(CHAIN, '<weld name="far" body1="world" body2="d" relpose="9 9 9 1 0 0 0"/>'),
        "'far' does not close|'far'",
    ),
    "what does not move": (file(BARS, '<weld name="w" body1="world" body2="ground"/>'), "loop 'w'"),
    "reference": (None, "reference"),
}


@pytest.mark.parametrize("flag", ["equality", "constraint"])
@pytest.mark.parametrize("name", ["connect", "quartic", "held"])
def test_a_flag_disables_all_constraints(flag, name, load, rng):
    """As in MuJoCo, which then has no row of an equality; H is the one of all joints."""
    text = CLOSED[name][0]
    disabled = text.replace("<flag ", f'<flag {flag}="disable" ')
    assert disabled != text and load(text).nv < Oracle(text).model.nv
    robot, oracle = load(disabled), Oracle(disabled)
    assert robot.nv == oracle.model.nv and not robot.closed
    q = robot.random(rng)
    spanning = {joint: q[robot.configuration_slice(joint)] for joint in robot.joint_names}
    assert not oracle.place(spanning).equality[0].size
    H = mb.mass_matrix(robot, q)
    np.testing.assert_allclose(H, oracle.mass_matrix, atol=1e-10 * np.abs(H).max())


@pytest.mark.parametrize("case", BAD)
def test_bad_constraints_are_refused_by_name(case, load):
    text, message = BAD[case]
    options = {} if text else {"reference": {"thumb": 1.0}}
    with pytest.raises(ModelError, match=f"robot.xml: .*({message})"):
        load(text or CLOSED["connect"][0], **options)


def test_a_trees_reference_is_refused(load):
    with pytest.raises(ModelError, match=r"robot.xml: reference"):
        load(file(CHAIN, ""), reference={"j1": 1.0})


# --- a part of a joint ------------------------------------------------------------------------------------

BUOY = f'<body name="buoy" pos="0.2 -0.1 0.7" euler="0.3 0.2 0.1">{{joint}}{INERTIAL}</body>'
PINS = {
    "connect to the world": '<connect name="pin" body1="buoy" body2="world" anchor="0.1 0.2 -0.15"/>',
    "connect from the world": '<connect name="pin" body1="world" body2="buoy" anchor="0.25 0 0.6"/>',
}


@pytest.mark.parametrize("pin", PINS)
def test_a_pinned_free_body_as_the_error_writes_it(pin, load, rng):
    """The line makes a ball: the pinned point stays, and H is MuJoCo's."""
    with pytest.raises(ModelError, match="'pin'.*whole joints.*<freejoint> of body 'buoy'.*'pin'") as error:
        load(file(BUOY.format(joint='<freejoint name="base"/>'), PINS[pin]))
    _, line = str(error.value).splitlines()
    new = file(BUOY.format(joint=line), "")
    model, oracle, anchors = load(new), Oracle(new), []
    assert model.nv == 3
    for _ in range(3):
        q = model.random(rng)
        data = oracle.place({"base": q}).data
        pinned = np.linalg.inv(data.xmat[1].reshape(3, 3)) @ (anchors[0] - data.xpos[1]) if anchors else None
        anchors.append(mb.frame_pose(model, q, "buoy")[:3, 3])  # our body frame has its origin at the anchor
        np.testing.assert_allclose(mb.mass_matrix(model, q), oracle.mass_matrix, atol=1e-12)
        if pinned is not None:
            at_pin = [float(x) for x in line.split('pos="')[1].split('"')[0].split()]
            np.testing.assert_allclose(pinned, at_pin, atol=1e-10)
    np.testing.assert_allclose(anchors[0], anchors[-1], atol=1e-14)
    if pin == "connect from the world":
        np.testing.assert_allclose(anchors[0], [0.25, 0.0, 0.6], atol=1e-10)


def test_a_ball_that_a_weld_binds_in_part(load):
    """A weld without torque beside the ball's centre leaves one velocity; the lines are three hinges."""
    body = BUOY.format(joint='<joint name="j" type="ball" pos="0.1 0 0"/>')
    weld = '<weld name="pin" body1="buoy" body2="world" anchor="0 0.2 0.1" torquescale="0"/>'
    with pytest.raises(ModelError, match="'pin'.*whole joints.*ball joint of body 'buoy'") as error:
        load(file(body, weld))
    lines = "".join(str(error.value).splitlines()[1:])
    assert load(file(BUOY.format(joint=lines), weld)).nv == 1


# --- welds whose frames are drawn far apart ----------------------------------------------------------------

AXES = ("0 0 1", "0 1 0", "1 0 0", "0 1 0", "0 0 1", "0 1 0", "1 0 0")
ARM = "".join(
    f'<body name="l{i}" pos="{0.25 * (i > 0)} 0 {0.1 * (i % 2)}"><joint name="j{i}" axis="{axis}"/>{INERTIAL}'
    for i, axis in enumerate(AXES)
) + "</body>" * len(AXES)
FLOATING = SPATIAL.replace('<joint name="ball" type="ball" pos="0.1 0 0"/>', '<freejoint name="base"/>')


def far_weld(seed):
    """A file with a weld at a random pose: of a plate on a ball or free, or of an arm's hand to the world."""
    rng = np.random.default_rng(seed)
    turn, kind = np.roll(Rotation.random(rng=rng).as_quat(), 1), seed % 3
    across = rng.normal(size=3)
    place = (
        np.array([1.0, 0.2, 0.3]) + rng.uniform(-0.3, 0.3, 3),
        rng.uniform(-0.5, 0.5, 3),
        across * rng.uniform(0.4, 1.0) / np.linalg.norm(across),
    )[kind]
    bodies = ('body1="plate" body2="hand"', 'body1="plate" body2="hand"', 'body1="l6"')[kind]
    pose = " ".join(f"{x:.6g}" for x in (*place, *turn))
    return file((SPATIAL, FLOATING, ARM)[kind], f'<weld name="far" {bodies} relpose="{pose}"/>')


@pytest.mark.filterwarnings("ignore::connections.multibody.AssemblyWarning")
@pytest.mark.parametrize("block", [0, *map(further, range(1, 15))])
def test_a_weld_that_is_drawn_far_apart(block, load):
    """It is followed from where the file draws it, or the error has a reference from which it closes."""
    written = 0
    for seed in range(4 * block, 4 * block + 4):
        text = far_weld(seed)
        try:
            model = load(text)
        except ModelError as error:
            line = str(error).splitlines()[-1]
            model, written = load(text, reference=eval(line.removeprefix("reference="))), written + 1
        spanning = assembled(model)
        for joint, q in spanning.items():
            if len(q) == 7:  # a position and (w, x, y, z)
                spanning[joint] = np.array([*q[:3], q[6], *q[3:6]])
        phi, _ = Oracle(text).place(spanning).equality
        assert np.abs(phi).max() < 1e-9
    assert written < 4  # of four
