"""The MJCF reader against MuJoCo's own mass matrix and bias forces, and one error per way to be wrong."""

import sys
import warnings

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import ModelError

mujoco = pytest.importorskip("mujoco")
FREE, BALL, SLIDE, HINGE = range(4)  # mujoco.mjtJoint

OFF = '<option gravity="0.3 -0.2 -9.5"/><default><geom contype="0" conaffinity="0"/></default>'
INERTIAL = '<inertial pos="0.1 -0.05 0.2" euler="20 30 40" mass="1.5" diaginertia="0.03 0.04 0.05"/>'

HUMANOID = f"""<mujoco>{OFF}<worldbody>
  <body name="trunk" pos="0 0 1" euler="10 0 0"><freejoint name="float"/>{INERTIAL}
    <body name="upper" pos="0.2 0.1 0" euler="0 45 0"><joint name="hip" type="ball" pos="0.05 0 0.1"/>
      {INERTIAL}
      <body name="lower" pos="0 0 -0.4"><joint name="knee" axis="0 1 0.2" pos="0.02 0 0.05"/>{INERTIAL}
        <body name="plate" pos="0 0.1 0" euler="90 0 0"><geom type="box" size="0.1 0.2 0.05"/></body>
      </body></body>
    <body name="head" pos="0 0 0.5"><joint name="neck" type="ball"/><geom size="0.1" pos="0 0.05 0.1"/></body>
    <body name="boom" pos="-0.3 0 0"><joint name="reach" type="slide" axis="1 0 1"/>{INERTIAL}</body>
  </body></worldbody></mujoco>"""

CHAIN = f"""<mujoco>{OFF}<compiler angle="radian"/><worldbody>
  <body name="stand" pos="0.5 0 0.2" euler="0.1 0.2 0.3"><geom size="0.1"/>
    <body name="shoulder" pos="0 0 0.3">
      <joint name="yaw" axis="0 0 1" pos="0.1 0 0" ref="0.4"/>
      <joint name="rail" type="slide" axis="0 1 1" ref="-0.2" pos="1 2 3"/>
      <joint name="pitch" axis="0 1 0" pos="0 0.2 -0.1"/>
      {INERTIAL}
      <body name="wedge" pos="0.1 0 0" euler="0.2 0 0">{INERTIAL}
        <body name="fore" pos="0.3 0 0.1" quat="0.8 0.1 0.2 0.3">
          <joint name="elbow" axis="1 1 0" pos="-0.1 0 0.05" ref="-0.7"/>{INERTIAL}
        </body></body></body></body>
  <body name="pendulum" pos="0 2 0"><joint name="swing" axis="1 0 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.05"/></body>
  </worldbody></mujoco>"""

NAMELESS = f"""<mujoco>{OFF}<worldbody>
  <body pos="1 0 0"><joint type="ball" pos="0 0 0.3"/><joint type="slide" axis="0 0 1"/>{INERTIAL}
    <body><joint axis="0 1 0" type="hinge"/><geom size="0.1" pos="0.2 0 0"/></body></body>
  <body><freejoint/><geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0"/></body>
  </worldbody></mujoco>"""

FILES = {"humanoid": HUMANOID, "chain": CHAIN, "nameless": NAMELESS}


@pytest.fixture
def load(tmp_path):
    def _load(text, **options):
        path = tmp_path / "robot.xml"
        path.write_text(text, encoding="utf8")
        return mb.from_mjcf(path, **options)

    return _load


class Oracle:
    """MuJoCo's H and bias force in our coordinates: qpos with other quaternions, v = S(q) qvel."""

    def __init__(self, text):
        self.model = mujoco.MjModel.from_xml_string(text)
        self.data = mujoco.MjData(self.model)

    def qpos(self, q):
        """Ours to MuJoCo's: quaternions (x, y, z, w) to (w, x, y, z)."""
        out = q.copy()
        for kind, start in zip(self.model.jnt_type, self.model.jnt_qposadr, strict=True):
            if kind in (FREE, BALL):
                at = start + 3 * (kind == FREE)
                out[at : at + 4] = np.roll(q[at : at + 4], 1)
        return out

    def free_joints(self, q):
        """The slice of v and the rotation of each free joint."""
        for kind, v, p in zip(
            self.model.jnt_type, self.model.jnt_dofadr, self.model.jnt_qposadr, strict=True
        ):
            if kind == FREE:
                yield v, Rotation.from_quat(q[p + 3 : p + 7]).as_matrix()

    def velocity_map(self, q):
        """S (nv, nv), v = S qvel: [R^T v_world swapped with omega_body]."""
        S = np.eye(self.model.nv)
        for at, R in self.free_joints(q):
            S[at : at + 6, at : at + 6] = np.block([[np.zeros((3, 3)), np.eye(3)], [R.T, np.zeros((3, 3))]])
        return S

    def acceleration_at_rest(self, q, v):
        """dS/dt qvel, (nv,): our acceleration where that of MuJoCo is zero, - omega x v_body."""
        a = np.zeros(self.model.nv)
        for at, _ in self.free_joints(q):
            a[at + 3 : at + 6] = -np.cross(v[at : at + 3], v[at + 3 : at + 6])
        return a

    def __call__(self, q, v):
        """H (nv, nv) and the force at zero qacc (nv,), both for qvel, and S."""
        S = self.velocity_map(q)
        self.data.qpos[:], self.data.qvel[:] = self.qpos(q), np.linalg.solve(S, v)
        mujoco.mj_forward(self.model, self.data)
        H = np.zeros((self.model.nv, self.model.nv))
        mujoco.mj_fullM(self.model, self.data, H)
        return H, self.data.qfrc_bias.copy(), S


@pytest.mark.parametrize("name", FILES)
def test_mass_matrix_and_bias_are_mujocos(name, load, rng):
    model, oracle = load(FILES[name]), Oracle(FILES[name])
    assert (model.nq, model.nv) == (oracle.model.nq, oracle.model.nv)
    np.testing.assert_array_equal(model.gravity, oracle.model.opt.gravity)
    for _ in range(3):
        q, v = model.random(rng), rng.standard_normal(model.nv)
        H, bias, S = oracle(q, v)
        ours = mb.mass_matrix(model, q)
        scale = np.max(np.abs(H))
        np.testing.assert_allclose(S.T @ ours @ S, H, atol=1e-12 * scale)
        tau = mb.inverse_dynamics(model, q, v, oracle.acceleration_at_rest(q, v))
        np.testing.assert_allclose(S.T @ tau, bias, atol=1e-11 * np.max(np.abs(bias)))
        assert np.max(np.abs(mb.inverse_dynamics(model, q, -2 * v, 0 * v) - tau)) > 1e-2  # negative control
        other = mb.mass_matrix(model, model.random(rng))
        assert np.max(np.abs(other - ours)) > 1e-2 * scale  # negative control


@pytest.mark.parametrize("name", FILES)
def test_bodies_are_where_mujoco_has_them(name, load, rng):
    """Axes are MuJoCo's; the origin is the anchor of the body's last hinge or ball."""
    model, oracle = load(FILES[name]), Oracle(FILES[name])
    q = model.random(rng)
    oracle(q, np.zeros(model.nv))
    poses = np.asarray(model.embed_at(q)).reshape(-1, 7)
    moving = [number for number, body in enumerate(model.body_names) if "/" not in body]
    theirs = np.flatnonzero(oracle.model.body_jntnum)
    assert len(theirs) == len(moving)
    for ours, body in zip(moving, theirs, strict=True):
        R = Rotation.from_quat(poses[ours, 3:]).as_matrix()
        np.testing.assert_allclose(R, oracle.data.xmat[body].reshape(3, 3), atol=1e-12)
        first = oracle.model.body_jntadr[body]
        turning = [
            joint
            for joint in range(first, first + oracle.model.body_jntnum[body])
            if oracle.model.jnt_type[joint] in (BALL, HINGE)
        ]
        anchor = oracle.model.jnt_pos[turning[-1]] if turning else np.zeros(3)
        np.testing.assert_allclose(poses[ours, :3], oracle.data.xpos[body] + R @ anchor, atol=1e-12)
    other = np.asarray(model.embed_at(model.random(rng))).reshape(-1, 7)  # negative control
    assert np.min(np.max(np.abs(other - poses), axis=1)) > 1e-2


def test_names_and_order(load):
    model = load(CHAIN)
    assert model.joint_names == ("yaw", "rail", "pitch", "elbow", "swing")
    assert model.body_names == ("shoulder/yaw", "shoulder/rail", "shoulder", "fore", "pendulum")
    assert model.kinematics.tree.links[2] == ("shoulder", "wedge")
    assert load(HUMANOID).joint_names == ("float", "hip", "knee", "neck", "reach")
    assert load(NAMELESS).joint_names == ("joint 0", "joint 1", "joint 2", "joint 3")
    assert load(NAMELESS).body_names == ("body 1/joint 0", "body 1", "body 2", "body 3")


def test_ref_keeps_the_meaning_of_an_angle(load):
    """At q = ref the body is where the file draws it."""
    body = '<body><joint axis="0 0 1" ref="90"/><geom size="0.1" pos="1 0 0"/></body>'
    model = load(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    quaternion = np.asarray(model.embed_at(np.array([np.pi / 2])))[3:]
    np.testing.assert_allclose(quaternion, [0, 0, 0, 1], atol=1e-15)
    turned = np.asarray(model.embed_at(np.zeros(1)))[3:]
    np.testing.assert_allclose(Rotation.from_quat(turned).as_rotvec(), [0, 0, -np.pi / 2], atol=1e-15)


def test_gravity(load):
    assert load(CHAIN).gravity == (0.3, -0.2, -9.5)
    assert load(CHAIN, gravity=(0, 0, -1.6)).gravity == (0, 0, -1.6)
    off = CHAIN.replace('-9.5"/>', '-9.5"><flag gravity="disable"/></option>')
    assert load(off).gravity == (0, 0, 0)
    with pytest.raises(ModelError, match="robot.xml: gravity"):
        load(CHAIN, gravity=(0, 1))


def test_what_acts_on_joints_is_left_out_without_a_word(load):
    more = """<tendon><fixed name="t" stiffness="3"><joint joint="yaw" coef="1"/></fixed></tendon>
      <actuator><motor joint="yaw"/></actuator></mujoco>"""
    springs = CHAIN.replace('ref="0.4"', 'ref="0.4" stiffness="5" damping="2" frictionloss="1"')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = load(springs.replace("</mujoco>", more))
    assert model.nv == 5


CHAINS = (("ball",), ("ball", "slide"), ("slide", "ball"), ("hinge",), ("hinge", "slide"), ("hinge", "hinge"))


def random_file(rng, bodies=6):
    """Free joints and chains of balls, hinges and slides in a random tree, with armature on most joints.

    It is also of actuators on joints: behind a gear, of a ball, and several of one joint.
    """

    def numbers(*shape):
        return " ".join(f"{x:.17g}" for x in np.ravel(rng.standard_normal(shape)))

    elements, motors, parents = [[] for _ in range(bodies + 1)], [], [0]
    for body in range(1, bodies + 1):
        parents.append(int(rng.integers(0, body)))
        free = parents[body] == 0 and rng.random() < 0.6
        kinds = ("free",) if free else CHAINS[rng.integers(len(CHAINS))]
        for number, kind in enumerate(kinds):
            name = f"{kind} {number} of {body}"
            armature = rng.uniform(0.1, 1.0) if rng.random() < 0.8 else 0.0
            where = "" if free else f'pos="{numbers(3)}" '
            axis = f'axis="{numbers(3)}" ' if kind in ("hinge", "slide") else ""
            elements[body].append(
                f'<joint name="{name}" type="{kind}" {where}{axis}armature="{armature:.17g}"/>'
            )
            for _ in range(rng.integers(0, 3)):
                gear = numbers(6 if free else 3)
                motors.append(f'<motor joint="{name}" gear="{gear}" armature="{rng.uniform(0, 0.2):.17g}"/>')
        elements[body].append(INERTIAL)

    def text(body):
        inner = "".join(
            elements[body] + [text(child) for child in range(1, bodies + 1) if parents[child] == body]
        )
        return f'<body name="{body}" pos="{numbers(3)}" quat="{numbers(4)}">{inner}</body>' if body else inner

    body = text(0)
    return f"<mujoco>{OFF}<worldbody>{body}</worldbody><actuator>{''.join(motors)}</actuator></mujoco>"


@pytest.mark.parametrize("number", range(5))
def test_armature_is_mujocos(number, load, rng):
    """H to round-off, bias and inverse dynamics: armature is a constant of MuJoCo's H and nothing else.

    In v of a free joint, the body twist, it has a bias, because MuJoCo's velocities are others.
    """
    text = random_file(rng)
    model, oracle = load(text), Oracle(text)
    bare = model.with_armature(dict.fromkeys(model.armature, 0.0))
    assert np.count_nonzero(model.kinematics.tree.armature) > 3
    for _ in range(3):
        q, v = model.random(rng), rng.standard_normal(model.nv)
        H, bias, S = oracle(q, v)
        scale = np.max(np.abs(H))
        np.testing.assert_allclose(S.T @ mb.mass_matrix(model, q) @ S, H, atol=1e-12 * scale)
        assert np.max(np.abs(S.T @ mb.mass_matrix(bare, q) @ S - H)) > 1e-4 * scale  # negative control
        rate = oracle.acceleration_at_rest(q, v)
        tau = mb.inverse_dynamics(model, q, v, rate)
        np.testing.assert_allclose(S.T @ tau, bias, atol=1e-11 * np.max(np.abs(bias)))
        oracle.data.qacc[:] = rng.standard_normal(model.nv)
        mujoco.mj_inverse(oracle.model, oracle.data)
        a, theirs = S @ oracle.data.qacc + rate, oracle.data.qfrc_inverse.copy()
        tau = mb.inverse_dynamics(model, q, v, a)
        np.testing.assert_allclose(S.T @ tau, theirs, atol=1e-11 * np.max(np.abs(theirs)))
        assert np.max(np.abs(S.T @ mb.inverse_dynamics(bare, q, v, a) - theirs)) > 1e-4 * np.max(
            np.abs(theirs)
        )
        found = mb.forward_dynamics(model, q, v, tau)
        np.testing.assert_allclose(found, a, atol=1e-8 * np.max(np.abs(a)))


def test_armature_of_joints_that_do_not_move_or_are_coupled(load, rng):
    """A held joint's is left out; of coupled joints, that of the dependent one counts with its ratio."""
    armed = CHAIN.replace('name="pitch"', 'name="pitch" armature="0.1"')
    armed = armed.replace('name="swing"', 'name="swing" armature="0.3"')
    more = '<equality><joint joint1="pitch" polycoef="0.2"/></equality></mujoco>'
    held = load(armed.replace("</mujoco>", more))
    assert "pitch" not in held.joint_names and held.armature["swing"] == 0.3
    more = '<equality><joint joint1="swing" joint2="pitch" polycoef="0 3 0 0 0"/></equality></mujoco>'
    coupled = load(armed.replace("</mujoco>", more))
    bare = coupled.with_armature({"swing": 0.0, "pitch": 0.0})
    q = coupled.random(rng)
    difference = mb.mass_matrix(coupled, q) - mb.mass_matrix(bare, q)
    free = "swing" in coupled.joint_names
    at = coupled.velocity_slice("swing" if free else "pitch").start
    expected = np.zeros_like(difference)
    expected[at, at] = 0.3 + 0.1 / 9.0 if free else 0.1 + 0.3 * 9.0
    np.testing.assert_allclose(difference, expected, atol=1e-12)


ARMED = ' armature="1"'
TENDON = '<fixed name="t"{}><joint joint="yaw" coef="1"/><joint joint="elbow" coef="2"/></fixed>'
BAD = {
    "tendon armature": (
        f"<tendon>{TENDON.format(ARMED)}</tendon>",
        "tendon 't' has armature, which couples joints: not yet supported",
    ),
    "actuator armature": (
        f'<tendon>{TENDON.format("")}</tendon><actuator><motor name="m" tendon="t" armature="1"/></actuator>',
        "actuator 'm' has armature and does not act on a joint.*not yet",
    ),
    "unknown name": ('<actuator><motor joint="thumb"/></actuator>', "MuJoCo refuses it: .*thumb"),
    "malformed": ("<body>", "malformed XML: .*line"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_by_name(case, load):
    more, message = BAD[case]
    with pytest.raises(ModelError, match=f"robot.xml: .*{message}"):
        load(CHAIN.replace("</mujoco>", more + "</mujoco>"))


def test_an_inactive_constraint_is_none(load):
    more = '<equality><weld body1="fore" body2="pendulum" active="false"/></equality></mujoco>'
    assert load(CHAIN.replace("</mujoco>", more)).nv == 5


def test_other_files(load, tmp_path):
    with pytest.raises(ModelError, match="nowhere.xml: there is no such file"):
        mb.from_mjcf(tmp_path / "nowhere.xml")
    with pytest.raises(ModelError, match="robot.xml: not MJCF: the root element is <robot>"):
        load('<robot name="r"><link name="a"/></robot>')
    with pytest.raises(ModelError, match="robot.xml: the mechanism has no bodies"):
        load("<mujoco/>")
    with pytest.raises(ModelError, match="robot.xml: nothing moves"):
        load('<mujoco><worldbody><body><geom size="1"/></body></worldbody></mujoco>')
    with pytest.raises(ModelError, match="robot.xml: MuJoCo refuses it: .*mass and inertia"):
        load("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>")


def test_without_mujoco_the_extra_is_named(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match=r'pip install "affine-connections\[mjcf\]"'):
        load(CHAIN)
