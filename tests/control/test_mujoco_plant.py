"""MuJoCo as a plant: its robots are ours to round-off, its motions are those of the model, and the errors."""

import dataclasses

import numpy as np
import pytest
from mechanisms import armed, assemble, sample
from scipy.integrate import solve_ivp

from connections import control
from connections import multibody as mb
from connections.checks import IntegrationError, ModelError, NonFiniteError, ShapeError

mujoco = pytest.importorskip("mujoco")

PENDULUM = {"mass": 2.0, "center_of_mass": (0.0, 0.0, -0.4), "inertia": np.diag([0.03, 0.03, 0.01])}


def every_joint(rng):
    """Free joints on the ground at any placement, and all other joints of MuJoCo behind them, with armature.

    Universal, cylindrical and planar joints are several joints on one body; some bodies have no mass.
    """
    kinds = [mb.Free, mb.Spherical, mb.Universal, mb.Revolute, mb.Revolute, mb.Planar]
    kinds += [mb.Free, mb.Cylindrical, mb.Spherical, mb.Prismatic, mb.Revolute]
    parents = [-1, 0, 1, 2, 3, 0, -1, 6, 7, 6, 9]
    options = {"gravity": (0.3, -0.2, -9.5), "massless": 0.9}
    return armed(assemble(rng, kinds, parents, **options), rng)


def pendulum(axis=(0.0, 1.0, 0.0), name="swing", **body):
    mechanism = mb.Mechanism()
    mechanism.add_body("bob", **{**PENDULUM, **body})
    mechanism.add_joint(name, "world", "bob", mb.Revolute(axis))
    return mechanism.build()


def double_pendulum():
    mechanism = mb.Mechanism()
    mechanism.add_body("upper", **PENDULUM)
    mechanism.add_body("lower", **PENDULUM)
    mechanism.add_joint("shoulder", "world", "upper", mb.Revolute((0, 1, 0)))
    below = np.eye(4)
    below[2, 3] = -0.8
    mechanism.add_joint("elbow", "upper", "lower", mb.Revolute((0.2, 1, 0)), below)
    return mechanism.build()


def ball():
    mechanism = mb.Mechanism()
    mechanism.add_body("ball", mass=2.0, inertia=0.05 * np.eye(3))
    mechanism.add_joint("float", "world", "ball", mb.Free())
    return mechanism.build()


def still(t, q, v):
    return np.zeros_like(v)


class Oracle:
    """MuJoCo's H, bias and accelerations of a robot."""

    def __init__(self, robot):
        self.robot, self.map = robot, robot.coordinates
        self.data = mujoco.MjData(robot.compiled)

    def forward(self, q, v, tau):
        self.map.write(q, v, self.data.qpos, self.data.qvel)
        self.map.write_force(q, tau, self.data.qfrc_applied)
        mujoco.mj_forward(self.robot.compiled, self.data)
        H = np.zeros((self.robot.compiled.nv,) * 2)
        mujoco.mj_fullM(self.robot.compiled, self.data, H)
        return H, self.data.qfrc_bias.copy(), self.data.qacc.copy()


def check_agreement(robot, rng, tolerance=1e-10):
    """Mass matrix, bias force, accelerations and poses of both at random states; the state comes back."""
    model, oracle = robot.model, Oracle(robot)
    for _ in range(3):
        q, v = sample(model, rng)
        tau = rng.standard_normal(model.nv)
        H, bias, qacc = oracle.forward(q, v, tau)
        there = oracle.map.read(oracle.data.qpos, oracle.data.qvel)
        np.testing.assert_allclose(there[0], q, atol=1e-14)
        np.testing.assert_allclose(there[1], v, atol=1e-13)
        a = mb.forward_dynamics(model, q, v, tau)
        theirs = oracle.map.acceleration(q, v, qacc)
        np.testing.assert_allclose(theirs, a, atol=tolerance * np.max(np.abs(a)))
        # where qacc = 0, our acceleration is not zero
        force, none = np.zeros(model.nv), np.zeros(model.nv)
        tau_0 = mb.inverse_dynamics(model, q, v, oracle.map.acceleration(q, v, none))
        oracle.map.write_force(q, tau_0, force)
        np.testing.assert_allclose(force, bias, atol=tolerance * np.max(np.abs(bias)))
        weightless, zero = model.with_gravity((0, 0, 0)), np.zeros(model.nv)
        for column in np.eye(model.nv):
            rate = oracle.map.acceleration(q, zero, column)
            oracle.map.write_force(q, mb.inverse_dynamics(weightless, q, zero, rate), force)
            np.testing.assert_allclose(force, H @ column, atol=tolerance * np.max(np.abs(H)))
        poses = mb.forward_kinematics(model, q)
        for name, pose in zip(model.body_names, poses, strict=True):
            body = robot.bodies[name]
            np.testing.assert_allclose(oracle.data.xpos[body], pose[:3, 3], atol=1e-12)
            np.testing.assert_allclose(oracle.data.xmat[body].reshape(3, 3), pose[:3, :3], atol=1e-12)
        wrong = mb.forward_dynamics(model, q, 1.01 * v, tau), a + oracle.map.acceleration(q, v, none)
        for other in wrong:  # negative controls
            assert np.max(np.abs(other - theirs)) > 1e-4 * np.max(np.abs(a))


def test_all_joints_agree(rng):
    check_agreement(control.MuJoCoRobot.of(every_joint(rng)), rng)
    at_the_origin = assemble(rng, [mb.Free, mb.Revolute], [-1, 0], coincident=1.0)
    check_agreement(control.MuJoCoRobot.of(at_the_origin), rng)


def test_power_is_the_same(rng):
    """tau . v = qfrc . qvel, in a free joint that is placed anywhere."""
    robot = control.MuJoCoRobot.of(every_joint(rng))
    q, v = sample(robot.model, rng)
    tau, data = rng.standard_normal(robot.model.nv), mujoco.MjData(robot.compiled)
    robot.coordinates.write(q, v, data.qpos, data.qvel)
    robot.coordinates.write_force(q, tau, data.qfrc_applied)
    assert np.isclose(data.qfrc_applied @ data.qvel, tau @ v, rtol=1e-12)
    assert not np.isclose(tau @ data.qvel, tau @ v, rtol=1e-3)  # negative control


def test_inertias_that_mujoco_refuses_to_compile(rng):
    """A thin rod and a point mass, whose smallest moments are zero or round-off below."""
    mechanism = mb.Mechanism()
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    mechanism.add_body("rod", 1.0, (0.1, 0.2, -0.3), turn @ np.diag([0.03, 0.03, 0.0]) @ turn.T)
    mechanism.add_body("point", 0.5, (0.0, 0.3, 0.1))
    mechanism.add_joint("a", "world", "rod", mb.Spherical())
    mechanism.add_joint("b", "rod", "point", mb.Revolute((1, 0, 0)))
    robot = control.MuJoCoRobot.of(mechanism.build())
    oracle, (q, v) = Oracle(robot), sample(robot.model, rng)
    H, _, _ = oracle.forward(q, v, 0.0 * v)
    np.testing.assert_allclose(H, mb.mass_matrix(robot.model, q), atol=1e-14)


# --- MJCF files that are matched --------------------------------------------------------------------------

MJCF = """<mujoco><compiler angle="radian"/><option gravity="0 0 -9.81"/>
<default><geom contype="0" conaffinity="0"/></default><worldbody>
  <body name="trunk" pos="0 0 1"><freejoint name="float"/><inertial pos="0.1 0 0" mass="{mass}"
     diaginertia="0.03 0.04 0.05"/>
    <body name="leg" pos="0.2 0.1 0" euler="0 0.3 0">
      <joint name="{yaw}" axis="0 0 1" pos="0.1 0 0" ref="0.4" armature="{armature}"/>
      <joint name="hip" axis="{axis}" pos="{anchor}"/><joint name="rail" type="{kind}" axis="0 1 1"/>
      <inertial pos="0.1 -0.05 0.2" mass="1.5" diaginertia="0.03 0.04 0.05"/>
      <body pos="0 0 0.1"><inertial pos="0 0 0" mass="0.5" diaginertia="0.01 0.01 {inertia}"/>
    </body></body></body></worldbody></mujoco>"""
GIVEN = {"mass": "1.5", "yaw": "yaw", "axis": "0 1 0", "anchor": "0 0.2 -0.1", "kind": "slide"}
GIVEN |= {"inertia": "0.01", "armature": "0.1"}


@pytest.fixture
def write(tmp_path):
    def _write(name="ours.xml", **changed):
        path = tmp_path / name
        path.write_text(MJCF.format(**{**GIVEN, **changed}), encoding="utf8")
        return path

    return _write


def check_accelerations(robot, rng):
    model, oracle = robot.model, Oracle(robot)
    q, v = sample(model, rng)
    _, _, qacc = oracle.forward(q, v, 0.0 * v)
    a = mb.forward_dynamics(model, q, v, 0.0 * v)
    np.testing.assert_allclose(oracle.map.acceleration(q, v, qacc), a, atol=1e-11 * np.abs(a).max())
    other = mb.forward_dynamics(model, sample(model, rng)[0], v, 0.0 * v)
    assert np.abs(a - other).max() > 1e-2  # negative control


def test_a_file_is_matched_by_names(write, tmp_path, rng):
    """A file and its own model; two pendulums in a file and made in the other order, about an axis turned."""
    check_accelerations(control.MuJoCoRobot.from_mjcf(write(), mb.from_mjcf(write())), rng)
    path, bodies = tmp_path / "two.xml", ""
    for name, mass in (("a", 1.0), ("b", 3.0)):
        inertial = f'<inertial pos="0 0 -0.4" mass="{mass}" diaginertia="0.03 0.03 0.01"/>'
        bodies += f'<body pos="0 0 1"><joint name="{name}" axis="0 1 0"/>{inertial}</body>'
    path.write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>", encoding="utf8")
    mechanism, turn = mb.Mechanism(), np.diag([1.0, 1.0, 1.0, 1.0])
    turn[:3, :3], turn[2, 3] = [[1, 0, 0], [0, 0, -1], [0, 1, 0]], 1.0  # y of the file is -z here
    for name, mass in (("b", 3.0), ("a", 1.0)):
        mechanism.add_body(name, mass, (0.0, -0.4, 0.0), np.diag([0.03, 0.01, 0.03]))
        mechanism.add_joint(name, "world", name, mb.Revolute((0, 0, -1)), turn)
    robot = control.MuJoCoRobot.from_mjcf(path, mechanism.build())
    assert robot.coordinates.in_qpos.tolist() == [1, 0]
    check_accelerations(robot, rng)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"mass": "1.6"}, "'trunk': mass"),
        ({"yaw": "turn"}, "'turn': only MuJoCo's"),
        ({"axis": "0 1 0.01"}, "'hip': axis"),
        ({"anchor": "0.01 0.2 -0.1"}, "'hip': anchor"),
        ({"kind": "hinge"}, "'rail': slide in the model, hinge"),
        ({"inertia": "0.011"}, "'leg': inertia"),
        ({"armature": "0.2"}, "'yaw': armature"),
    ],
)
def test_what_differs_is_listed(write, changed, named):
    model = mb.from_mjcf(write())
    with pytest.raises(ModelError, match=named) as caught:
        control.MuJoCoRobot.from_mjcf(write("theirs.xml", **changed), model)
    assert "theirs.xml" in str(caught.value)


def test_another_carrier_and_an_equality_are_listed(tmp_path):
    def written(second, more=""):
        path = tmp_path / "robot.xml"
        inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
        inner = f'<body><joint name="b" axis="0 0 1"/>{inertial}</body>'
        path.write_text(
            f'<mujoco><worldbody><body><joint name="a" axis="1 0 0"/>{inertial}'
            f"{inner if second else ''}</body>{'' if second else inner}</worldbody>{more}</mujoco>"
        )
        return path

    model = mb.from_mjcf(written(True))
    control.MuJoCoRobot.from_mjcf(written(True), model)
    with pytest.raises(ModelError, match="'b': 'a' carries it in the model, 'world' in MuJoCo's"):
        control.MuJoCoRobot.from_mjcf(written(False), model)
    tie = '<equality><joint name="tie" joint1="a" joint2="b"/></equality>'
    with pytest.raises(ModelError, match="'tie'"):
        control.MuJoCoRobot.from_mjcf(written(True, tie), model)


def test_what_mujoco_has_not_is_refused():
    mechanism = mb.Mechanism()
    mechanism.add_body("nut", 1.0, inertia=np.eye(3))
    mechanism.add_joint("thread", "world", "nut", mb.Helical((0, 0, 1), 0.1))
    with pytest.raises(ModelError, match=r"'thread'.*Helical"):
        control.MuJoCoRobot.of(mechanism.build())
    mechanism.add_body("fly", 1.0, inertia=np.eye(3))
    mechanism.add_joint("loose", "nut", "fly", mb.Free())
    closed = mb.Mechanism()
    for name in "ab":
        closed.add_body(name, 1.0, inertia=np.eye(3))
        closed.add_joint(f"to {name}", "world", name, mb.Revolute((0, 0, 1)))
    carried = mb.Mechanism()
    carried.add_body("base", 1.0, inertia=np.eye(3))
    carried.add_body("fly", 1.0, inertia=np.eye(3))
    carried.add_joint("hinge", "world", "base", mb.Revolute((0, 0, 1)))
    carried.add_joint("loose", "base", "fly", mb.Free())
    with pytest.raises(ModelError, match="'loose'"):
        control.MuJoCoRobot.of(carried.build())
    closed.add_coupling("gear", {"to a": 1.0, "to b": -2.0})
    with pytest.raises(ModelError, match="'gear'"):
        control.MuJoCoRobot.of(closed.build())
    with pytest.raises(ModelError, match="'float'"):
        control.MuJoCoRobot.of(ball(), elastic=control.SeriesElastic(100.0, 1.0, 0.1))
    with pytest.raises(ModelError, match="hand"):
        control.MuJoCoRobot.of(ball(), [control.SphereShape("hand", 0.1)])


# --- motions ----------------------------------------------------------------------------------------------


def test_a_motion_is_the_model_s(rng):
    """At a small step the motion under a law is our forward dynamics'; its error falls with the step."""
    model = double_pendulum()
    q0, v0 = np.array([0.4, -0.9]), np.array([0.5, 1.0])

    def held(t):  # constant in each period, as the plant holds it
        return np.array([np.sin(7.0 * t), 0.5 * np.cos(5.0 * t)])

    def rates(t, state, k):
        return np.r_[state[2:], mb.forward_dynamics(model, state[:2], state[2:], held(k * 0.01))]

    state = np.r_[q0, v0]
    for k in range(50):
        span = 0.01 * k, 0.01 * (k + 1)
        state = solve_ivp(rates, span, state, "DOP853", rtol=1e-10, atol=1e-12, args=(k,)).y[:, -1]
    gaps = []
    for steps in (20, 40):
        plant = control.MuJoCoPlant(control.MuJoCoRobot.of(model), period=0.01, steps=steps)
        q, v = plant.simulate(lambda t, q, v: held(t), q0, v0, 0.5)
        gaps.append(np.max(np.abs(np.r_[q[-1], v[-1]] - state)))
    assert gaps[0] < 0.02 and 1.7 < gaps[0] / gaps[1] < 2.3  # of order one


def test_delay_limit_and_order_of_calls():
    """The force of instant k acts from k periods plus the delay on; a mass on a slide shows when."""
    mechanism = mb.Mechanism()
    mechanism.add_body("sled", 2.0, inertia=np.eye(3))
    mechanism.add_joint("rail", "world", "sled", mb.Prismatic((1, 0, 0)))
    robot, seen = control.MuJoCoRobot.of(mechanism.build(gravity=(0, 0, 0))), []

    def law(t, q, v):
        seen.append(t)
        return np.array([10.0 * (t >= 0.02)])

    for delay, limit in ((0.0, None), (0.005, 4.0), (0.01, 4.0), (0.025, None)):
        plant = control.MuJoCoPlant(robot, period=0.01, steps=2, delay=delay, limit=limit)
        motion = plant.simulate(law, [0.0], [0.0], 0.1)
        force = 10.0 if limit is None else limit
        assert motion.tau.max() == force and len(motion.times) == 11
        expected = force / 2.0 * np.maximum(motion.times - 0.02 - delay, 0.0)
        np.testing.assert_allclose(motion.v[:, 0], expected, atol=1e-12)
    assert seen[:11] == pytest.approx(0.01 * np.arange(11))


def test_noise_is_that_of_the_seed():
    """Measured minus true has the given sizes; the same seed gives the same bits, another seed does not."""
    model = ball()
    plant = control.MuJoCoPlant(control.MuJoCoRobot.of(model), position_noise=1e-3, velocity_noise=0.02)
    assert not plant.actuated.any()

    def law(t, q, v):
        return np.zeros(0)

    v0 = np.array([0.4, -0.5, 0.6, 1.0, 2.0, 3.0])
    motion = plant.simulate(law, model.random(1), v0, 0.5, seed=3)
    again = plant.simulate(law, model.random(1), v0, 0.5, seed=3)
    other = plant.simulate(law, model.random(1), v0, 0.5, seed=4)
    assert np.array_equal(motion.measured_q, again.measured_q) and np.array_equal(motion.q, again.q)
    assert not np.array_equal(motion.measured_q, other.measured_q)
    errors = mb.difference(model, motion.q, motion.measured_q)
    np.testing.assert_allclose(errors.std(axis=0), 1e-3, rtol=0.15)
    np.testing.assert_allclose((motion.measured_v - motion.v).std(axis=0), 0.02, rtol=0.15)


def test_elastic_joints_are_the_flexible_joint_model(rng):
    """Motion of joints and motors against the equations of Spong, and the mode of a fixed motor."""
    model = double_pendulum()
    K, D, B = np.array([80.0, 30.0]), np.array([0.4, 0.2]), np.array([0.5, 0.3])
    robot = control.MuJoCoRobot.of(model, elastic=control.SeriesElastic(K, D, B))
    plant = control.MuJoCoPlant(robot, period=0.002, steps=50, motor_side=True)
    seen = []

    def law(t, q, v):
        seen.append(np.r_[q, v])
        return np.array([2.0, -1.0])

    q0, v0 = np.array([0.3, -0.6]), np.array([0.2, 0.1])
    motion = plant.simulate(law, q0, v0, 0.4)

    def rates(t, state):
        q, v, theta, w = state.reshape(4, 2)
        spring = K * (theta - q) + D * (w - v)
        a = mb.forward_dynamics(model, q, v, spring)
        return np.r_[v, a, w, (np.array([2.0, -1.0]) - spring) / B]

    start = np.r_[q0, v0, q0, v0]
    found = solve_ivp(rates, (0.0, 0.4), start, "DOP853", motion.times, rtol=1e-9, atol=1e-11).y.T
    both = np.c_[motion.q, motion.v, motion.motor_q, motion.motor_v]
    assert np.max(np.abs(both - found)) < 5e-4
    assert np.max(np.abs(motion.q - motion.motor_q)) > 0.02  # the springs matter
    np.testing.assert_array_equal(np.array(seen), np.c_[motion.motor_q, motion.motor_v])
    rigid = control.MuJoCoPlant(control.MuJoCoRobot.of(model), period=0.002)
    with pytest.raises(ValueError, match="motor_side"):
        control.MuJoCoPlant(rigid.robot, motor_side=True)


def test_a_push_gives_its_impulse():
    plant = control.MuJoCoPlant(control.MuJoCoRobot.of(ball().with_gravity((0, 0, 0))))
    push = control.Push("ball", (6.0, 0.0, -3.0), 0.02, 0.05)
    motion = plant.simulate(lambda t, q, v: np.zeros(0), ball().neutral(), np.zeros(6), 0.1, [push])
    np.testing.assert_allclose(motion.v[-1], [0, 0, 0, 0.15, 0, -0.075], atol=1e-12)
    assert not motion.v[:21].any() and motion.v[21].any()


WELDED = """<mujoco><option gravity="0 0 0"/><worldbody><body name="bar"><freejoint name="float"/>
  <inertial pos="0 0 0" mass="1" diaginertia="0.2 0.2 0.2"/>
  <body name="end" pos="1 0 0"><inertial pos="0 0 0" mass="3" diaginertia="0.1 0.1 0.1"/></body>
  <body pos="0 0 1"><joint name="hinge" axis="1 0 0"/>
    <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>
  </body></worldbody></mujoco>"""


def test_a_push_is_at_the_centre_of_all_that_is_fixed_to_a_body(tmp_path):
    """The impulse is that of the model: H v = J^T F dt, J of the body's centre of mass."""
    path = tmp_path / "robot.xml"
    path.write_text(WELDED)
    model = mb.from_mjcf(path)
    plant = control.MuJoCoPlant(control.MuJoCoRobot.from_mjcf(path, model), period=1e-4, steps=1)
    push = control.Push("bar", (0.0, 5.0, 10.0), 0.0, 1e-3)
    q0, v0 = model.neutral(), np.zeros(model.nv)
    motion = plant.simulate(lambda t, q, v: np.zeros(1), q0, v0, 2e-3, [push])
    center = np.eye(4)
    center[:3, 3] = [0.75, 0.0, 0.0]
    J = mb.frame_jacobian(model.with_frames({"center": ("bar", center)}), q0, "center", axes="world")
    impulse = 1e-3 * J[3:].T @ np.array([0.0, 5.0, 10.0])
    for row in (10, 20):  # when it ends, and later
        np.testing.assert_allclose(mb.mass_matrix(model, q0) @ motion.v[row], impulse, atol=2e-5)
    with pytest.raises(ModelError, match="no body 'end': it is a frame fixed to 'bar'"):
        plant.simulate(lambda t, q, v: np.zeros(1), q0, v0, 1e-3, [control.Push("end", (1, 0, 0), 0, 1e-3)])


PASSIVE = """<mujoco><compiler angle="radian"/><option gravity="0.3 -0.2 -9.5"/><worldbody>
  <body><freejoint name="float"/>{0}
    <body pos="0.2 0 0"><joint name="ball" type="ball" damping="0.3" stiffness="6"/>{0}
      <body pos="0.2 0 0"><joint name="hinge" axis="0 1 0.2" ref="0.3" springref="-0.2" stiffness="3"
          damping="5" frictionloss="1"/>{0}
        <body pos="0 0.3 0"><joint name="slide" type="slide" axis="1 0 1" stiffness="5"/>{0}</body></body>
      </body></body></worldbody>
  <tendon><fixed name="belt" stiffness="11" damping="0.9" springlength="0.1 0.4">
      <joint joint="hinge" coef="0.6"/><joint joint="slide" coef="-1.3"/></fixed></tendon></mujoco>""".format(
    '<inertial pos="0.1 -0.05 0.2" mass="1.5" diaginertia="0.03 0.04 0.05"/>'
)


def test_passive_forces_of_a_model_are_mujocos(tmp_path, rng):
    """Springs with slack, dampers, dry friction and lift, in MuJoCo made of the model and of the file."""
    path = tmp_path / "robot.xml"
    path.write_text(PASSIVE)
    model = mb.from_mjcf(path)
    body = model.body_names[1]
    lift = {body: 0.4 * mb.inertial_parameters(model)[1, :4]}
    (ball,) = (spring for spring in model.passive.springs if spring.name == "ball")
    turned = dataclasses.replace(ball, rest=(0.6, 0.0, 0.0, 0.8), damping=0.2)
    springs = tuple(turned if spring is ball else spring for spring in model.passive.springs)
    lifted = model.with_passive(dataclasses.replace(model.passive, springs=springs, lift=lift))
    robot = control.MuJoCoRobot.of(lifted, passive=True)
    compiled, data = robot.compiled, mujoco.MjData(robot.compiled)
    in_qvel = robot.coordinates.in_qvel
    for _ in range(10):
        q, v = model.random(rng), rng.standard_normal(model.nv)
        columns = np.zeros((model.nv, compiled.nv))  # qvel = columns^T v
        for column, e in zip(columns, np.eye(model.nv), strict=True):
            robot.coordinates.write(q, e, data.qpos, column)
        robot.coordinates.write(q, v, data.qpos, data.qvel)
        mujoco.mj_forward(compiled, data)
        ours = lifted.passive_forces(q, v)
        np.testing.assert_allclose(columns @ data.qfrc_passive, ours, atol=1e-11)
    assert np.abs(ours - model.passive_forces(q, v)).max() > 1e-2  # negative control: the lift
    np.testing.assert_array_equal(compiled.dof_frictionloss[in_qvel], [0.0] * 9 + [1.0, 0.0])
    with pytest.warns(mb.LeftOutWarning, match="without the model's springs, damping, dry friction, lift"):
        bare = control.MuJoCoRobot.of(lifted)
    assert not bare.compiled.dof_damping.any() and not bare.compiled.dof_frictionloss.any()
    control.MuJoCoRobot.of(lifted, passive=False)
    aside = {body: lift[body] + [0.0, 0.1, 0.0, 0.0]}
    with pytest.raises(ModelError, match=f"lift of '{body}'"):
        other = model.with_passive(dataclasses.replace(model.passive, lift=aside))
        control.MuJoCoRobot.of(other, passive=True)
    with pytest.raises(ModelError, match="joint 'ball' has springs of several rest orientations"):
        control.MuJoCoRobot.of(model.with_passive(mb.joints.Passive((ball, turned))), passive=True)
    control.MuJoCoRobot.from_mjcf(path, model, passive=True)
    less = dataclasses.replace(model.passive, damping={}, friction={"hinge": 0.5})
    with pytest.raises(ModelError, match=r"(?s)at joint 'hinge'.*dry friction differs"):
        control.MuJoCoRobot.from_mjcf(path, model.with_passive(less), passive=True)
    with pytest.warns(mb.LeftOutWarning, match="dry friction differs"):
        control.MuJoCoRobot.from_mjcf(path, model.with_passive(less))
    with pytest.raises(TypeError, match="passive"):
        control.MuJoCoRobot.of(lifted, passive="yes")


def test_slides_without_mass():
    """What MuJoCo refuses: a body without mass that slides on the world."""
    slide = mb.Mechanism()
    slide.add_body("rotor", 0.0)
    slide.add_joint("s", "world", "rotor", mb.Prismatic((1, 0, 0)))
    robot = control.MuJoCoRobot.of(slide.build().with_armature({"s": 0.5}))
    motion = control.MuJoCoPlant(robot).simulate(lambda t, q, v: [2.0], [0.0], [0.0], 0.1)
    np.testing.assert_allclose(motion.v[-1], [0.4], rtol=1e-9)
    slide = mb.Mechanism()
    slide.add_body("block", 2.0, inertia=np.eye(3))
    slide.add_joint("s", "world", "block", mb.Prismatic((0, 0, 1)))
    springs = control.SeriesElastic(stiffness=300.0, damping=0.0, motor_inertia=0.5)
    robot = control.MuJoCoRobot.of(slide.build().with_gravity((0, 0, 0)), elastic=springs)
    plant = control.MuJoCoPlant(robot, period=1e-3, steps=50)
    motion = plant.simulate(lambda t, q, v: [1.0], [0.0], [0.0], 0.2)
    w = np.sqrt(300.0 * (1 / 2.0 + 1 / 0.5))  # two masses with a spring between them
    stretch = (1 / 0.5) / w**2 * (1.0 - np.cos(w * motion.times))
    np.testing.assert_allclose((motion.motor_q - motion.q)[:, 0], stretch, atol=1e-5)
    np.testing.assert_allclose(2.0 * motion.v[-1] + 0.5 * motion.motor_v[-1], [0.2], rtol=1e-9)


def test_a_ball_stays_on_the_floor_and_falls_without_it():
    """Contact holds the weight; without a floor the fall is an error that has the time of free fall."""
    model, start = ball(), ball().neutral()
    start[2] = 0.1
    robot = control.MuJoCoRobot.of(model, [control.SphereShape("ball", 0.1)], floor=True)
    law = still_base
    q, v = control.MuJoCoPlant(robot, fallen={"ball": 0.05}).simulate(law, start, np.zeros(6), 1.0)
    assert abs(q[-1, 2] - 0.1) < 2e-3 and np.abs(v[-1]).max() < 1e-3
    falling = control.MuJoCoPlant(control.MuJoCoRobot.of(model), fallen={"ball": 0.05})
    with pytest.raises(control.errors.FallenError) as caught:
        falling.simulate(law, start, np.zeros(6), 1.0)
    assert caught.value.body == "ball"
    assert caught.value.time == pytest.approx(np.sqrt(2.0 * 0.05 / 9.81), abs=2e-3)
    fall = caught.value.motion
    assert fall.times[-1] == caught.value.time and len(fall.q) == len(fall.tau) == len(fall.times)
    np.testing.assert_allclose(fall.q[:, 2], 0.1 - 0.5 * 9.81 * fall.times**2, atol=1e-3)
    assert fall.q[-1, 2] == pytest.approx(caught.value.height) and fall.q[-2, 2] >= 0.05 > fall.q[-1, 2]


def test_friction_and_boxes():
    """A box on the floor slides or stays, as its coefficient of friction says; its edge carries it."""
    model, start = ball(), ball().neutral()
    start[2] = 0.2
    push = control.Push("ball", (0.5 * 2.0 * 9.81, 0.0, 0.0), 0.2, 0.3)
    moved = []
    for friction in (0.8, 0.2):
        box = control.BoxShape("ball", (0.3, 0.3, 0.2), friction=friction)
        plant = control.MuJoCoPlant(control.MuJoCoRobot.of(model, [box], floor=True))
        moved.append(plant.simulate(still_base, start, np.zeros(6), 0.5, [push]).q[-1, 0])
    assert abs(moved[0]) < 0.02 and moved[1] == pytest.approx(0.3 * 9.81 * 0.3**2 / 2, rel=0.1)


def still_base(t, q, v):
    return np.zeros(0)


@pytest.mark.parametrize("share", [0.8, 1.4])
def test_a_gain_that_is_too_large_for_the_period_is_named(share):
    """tau = -K v + g, held for h, is stable if h K / H < 2; the message has that number and the joint."""
    arm, period = mb.example("arm"), 0.01
    q, rng = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]), np.random.default_rng(0)
    H = mb.mass_matrix(arm, q)
    K = share * 2.0 / period * H  # the same for all joints, where it starts

    def law(t, q, v):
        return mb.gravity(arm, q) - K @ v

    plant = control.MuJoCoPlant(control.MuJoCoRobot.of(arm), period=period)
    start = q, 1e-6 * rng.standard_normal(6)
    if share < 1.0:  # negative control
        assert np.abs(plant.simulate(law, *start, duration=1.0).v[-1]).max() < 1e-5
        return
    with pytest.raises(IntegrationError, match=r"joint '\w+' change their sign .* about 2.8, above 2"):
        plant.simulate(law, *start, duration=1.0)


def test_a_law_of_numbers_that_are_not_finite_and_a_loop_that_diverges():
    plant = control.MuJoCoPlant(control.MuJoCoRobot.of(pendulum()))
    with pytest.raises(NonFiniteError, match=r"t = 0\.01 s"):
        plant.simulate(lambda t, q, v: np.array([np.nan if t > 0.0095 else 0.0]), [0.1], [0.0], 0.1)
    with pytest.raises(IntegrationError, match="diverges: at t =") as caught:  # before MuJoCo logs warnings
        plant.simulate(lambda t, q, v: 1e4 * v, [0.1], [1.0], 10.0)
    kept = caught.value.motion
    assert 0 < len(kept.q) == len(kept.times) and np.abs(kept.v).max() < 1e4
    with pytest.raises(ShapeError, match="law"):
        plant.simulate(lambda t, q, v: np.zeros(2), [0.1], [0.0], 0.1)
    assert plant.simulate(lambda t, q, v: [0.0], [0.1], [0.0], 0.1).tau.shape == (101, 1)


def test_ctrl_c_keeps_the_motion():
    plant = control.MuJoCoPlant(control.MuJoCoRobot.of(pendulum()))

    def law(t, q, v):
        if t > 0.0495:
            raise KeyboardInterrupt
        return np.zeros(1)

    with pytest.raises(KeyboardInterrupt) as caught:
        plant.simulate(law, [0.1], [0.0], 0.1)
    kept, whole = caught.value.motion, plant.simulate(lambda t, q, v: np.zeros(1), [0.1], [0.0], 0.1)
    np.testing.assert_array_equal(kept.times, whole.times[:50])
    np.testing.assert_array_equal(kept.q, whole.q[:50])


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"period": 0.0}, "period"),
        ({"delay": 1.3e-4}, "delay"),
        ({"delay": -1e-3}, "delay"),
        ({"limit": -1.0}, "limit"),
        ({"limit": np.nan}, "limit"),
        ({"position_noise": np.ones(3)}, "position_noise"),
        ({"integrator": "euler"}, "Euler"),
        ({"fallen": {"foot": 0.1}}, "foot"),
        ({"steps": 0}, "steps"),
    ],
)
def test_wrong_plants(given, named):
    robot = control.MuJoCoRobot.of(pendulum())
    with pytest.raises(ValueError, match=named):
        control.MuJoCoPlant(robot, **given)


def test_wrong_motions():
    plant = control.MuJoCoPlant(control.MuJoCoRobot.of(pendulum()))
    for duration, pushes, named in (
        (0.1005, (), "duration"),
        (0.1, [control.Push("bob", np.ones(3), 0.0003, 0.01)], "start of a push"),
        (0.1, [control.Push("foot", np.ones(3), 0.0, 0.01)], "foot"),
    ):
        with pytest.raises(ValueError, match=named):
            plant.simulate(still, [0.1], [0.0], duration, pushes)
    with pytest.raises(ShapeError, match="v0"):
        plant.simulate(still, [0.1], [0.0, 0.0], 0.1)
    with pytest.raises(ValueError, match="radius"):
        control.SphereShape("bob", 0.0)
    with pytest.raises(ValueError, match="half_sizes"):
        control.BoxShape("bob", (0.1, 0.0, 0.1))
    with pytest.raises(ValueError, match="stiffness"):
        control.SeriesElastic(0.0, 1.0, 1.0)


def test_payload_and_other_errors_of_a_model(rng):
    """The plant is the robot that it is given; the law's model may be another one."""
    known = double_pendulum()
    plant = control.MuJoCoRobot.of(control.with_payload(known, "lower", 0.5, (0.0, 0.1, -0.5)))
    q, v = sample(known, rng)
    _, _, qacc = Oracle(plant).forward(q, v, 0.0 * v)
    np.testing.assert_allclose(qacc, mb.forward_dynamics(plant.model, q, v, 0.0 * v), rtol=1e-10)
    assert np.max(np.abs(qacc - mb.forward_dynamics(known, q, v, 0.0 * v))) > 1e-2
