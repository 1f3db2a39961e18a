"""Motors, springs and dampers against MuJoCo's moments and passive forces, on trees and loops."""

import dataclasses

import jax
import numpy as np
import pytest
from closed_chains import stewart_platform

from connections import multibody as mb
from connections.checks import ModelError
from connections.control.plants.mujoco_coordinates import MuJoCoCoordinates, addresses_of

mujoco = pytest.importorskip("mujoco")

INERTIAL = '<inertial pos="0.1 -0.05 0.2" euler="20 30 40" mass="1.5" diaginertia="0.03 0.04 0.05"/>'
TREE = f"""<mujoco><compiler angle="radian"/><option gravity="0.3 -0.2 -9.5"/><worldbody>
  <body pos="0 0 1" euler="0.2 0 0"><freejoint name="float"/>{INERTIAL}
    <body pos="0.2 0 0"><joint name="ball" type="ball" damping="0.3" pos="0.05 0 0" stiffness="6"/>{INERTIAL}
      <body pos="0.2 0 0"><joint name="hinge" axis="0 1 0.2" ref="0.3" springref="-0.2" stiffness="3"
          damping="0.7" frictionloss="0.4"/>{INERTIAL}
        <site name="rotor" pos="0.1 0.2 0.3" euler="0.3 0.4 0.5"/>
        <body pos="0 0.3 0"><joint name="slide" type="slide" axis="1 0 1" ref="0.1" stiffness="5"/>
          {INERTIAL}</body></body></body></body>
  <body><joint name="held"/>{INERTIAL}</body></worldbody>
  <equality><joint joint1="held" polycoef="0.25"/></equality>
  <tendon><fixed name="belt" stiffness="11" damping="0.9" springlength="0.1 0.4">
      <joint joint="hinge" coef="0.6"/><joint joint="slide" coef="-1.3"/>
      <joint joint="held" coef="2"/></fixed>
    <fixed name="rope"><joint joint="slide" coef="2"/></fixed></tendon>
  <actuator><motor name="a" joint="hinge" gear="7" forcerange="-3 4" forcelimited="true"/>
    <motor name="b" joint="ball" gear="1 -2 0.5"/><motor name="c" tendon="belt" gear="-2"/>
    <position name="d" joint="slide" gear="3" kp="9"/><motor name="e" joint="held"/>
    <motor name="f" site="rotor" gear="0.1 0.2 1 0.3 -0.4 0.5"/></actuator></mujoco>"""
FOUR_BAR = f"""<mujoco><compiler angle="radian"/><worldbody>
  <body name="crank"><joint name="j1" axis="0 0 1" stiffness="2" springref="0.4" damping="0.3"/>{INERTIAL}
    <body name="coupler" pos="0.1 0.3 0"><joint name="j2" axis="0 0 1" damping="0.2" stiffness="3"/>{INERTIAL}
    </body></body>
  <body name="rocker" pos="0.8 0 0"><joint name="j3" axis="0 0 1" damping="0.5"/>{INERTIAL}</body></worldbody>
  <equality><connect body1="coupler" body2="rocker" anchor="0.5 0.2 0"/></equality>
  <actuator><motor name="m" joint="j1" gear="2"/><motor name="n" joint="j3" gear="5"/></actuator></mujoco>"""


@pytest.fixture
def load(tmp_path):
    def _load(text):
        path = tmp_path / "robot.xml"
        path.write_text(text)
        return mb.from_mjcf(path), mujoco.MjModel.from_xml_path(str(path))

    return _load


def theirs(model, compiled, q_s, v_s, held=0.25):
    """B_s (nv_s, nu), the passive force (nv_s,) and MuJoCo's data, in coordinates of our spanning tree."""
    data, tree = mujoco.MjData(compiled), model.spanning_tree
    coordinates = MuJoCoCoordinates.of(tree, addresses_of(compiled))
    coordinates.write(q_s, v_s, data.qpos, data.qvel)
    if "held" in addresses_of(compiled):
        data.qpos[addresses_of(compiled)["held"][0]] = held
    mujoco.mj_forward(compiled, data)
    S = np.zeros((compiled.nv, tree.nv))  # qvel = S v
    for column, e in zip(S.T, np.eye(tree.nv), strict=True):
        coordinates.write(q_s, e, data.qpos, column)
    moment = np.zeros((compiled.nu, compiled.nv))
    mujoco.mju_sparse2dense(
        moment, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind
    )
    return S.T @ moment.T, S.T @ data.qfrc_passive, data


def test_motors_are_mujocos(load, rng):
    model, compiled = load(TREE)
    assert [motor.name for motor in model.motors] == ["a", "b", "c", "d", "f"]  # that of a held joint is none
    assert model.motors[0].force == (-3.0, 4.0) and model.motors[1].force == (-np.inf, np.inf)
    for _ in range(2):
        q, v = model.random(rng), rng.standard_normal(model.nv)
        B = np.delete(theirs(model, compiled, q, v)[0], 4, axis=1)
        np.testing.assert_allclose(model.motor_matrix(q), B, atol=1e-13)
    other = model.motor_matrix(model.random(rng))  # negative control: only the site's column depends on q
    np.testing.assert_array_equal(other[:, :4], B[:, :4])
    assert np.abs(other - B)[:, 4].max() > 1e-2
    many = np.stack([q, q])
    np.testing.assert_allclose(model.motor_matrix(many)[1], model.motor_matrix(q), atol=1e-14)


def test_springs_and_dampers_are_mujocos(load, rng):
    """Also the tendon's slack between its rest lengths, and the joint in it that is held."""
    model, compiled = load(TREE)
    slack = 0
    for _ in range(40):
        q, v = model.random(rng), rng.standard_normal(model.nv)
        _, tau, data = theirs(model, compiled, q, v)
        slack += 0.1 < data.ten_length[0] < 0.4
        np.testing.assert_allclose(model.passive_forces_at(q, v), tau, atol=1e-12)
    assert 0 < slack < 40
    np.testing.assert_allclose(model.passive_forces(q, v), tau, atol=1e-12)
    np.testing.assert_allclose(model.passive_forces(q, v[None]), tau[None], atol=1e-12)
    assert np.abs(model.passive_forces(q, 0 * v) - tau).max() > 1e-2  # negative control
    assert model.passive.friction == {"hinge": 0.4}
    for flag in ("spring", "damper"):
        off = TREE.replace('-9.5"/>', f'-9.5"><flag {flag}="disable"/></option>')
        model, compiled = load(off)
        np.testing.assert_allclose(
            model.passive_forces_at(q, v), theirs(model, compiled, q, v)[1], atol=1e-12
        )
        assert np.abs(model.passive_forces_at(q, v) - tau).max() > 1e-2


def test_of_loops_they_do_the_same_work(load, rng):
    """B = G^T B_s and tau = G^T tau_s, with G by differences of the closed configurations."""
    model, compiled = load(FOUR_BAR)
    assert model.closed and model.nv == 1
    q, v, h = model.random(rng), rng.standard_normal(1), 1e-6

    def place(q):
        return np.asarray(mb.close_loops(model, q).spanning)

    G = ((place(q + h) - place(q - h)) / (2 * h))[:, None]
    B_s, tau_s, _ = theirs(model, compiled, place(q), (G @ v))
    np.testing.assert_allclose(model.motor_matrix(q), G.T @ B_s, rtol=1e-8)
    np.testing.assert_allclose(model.passive_forces(q, v), G.T @ tau_s, rtol=1e-8)
    np.testing.assert_array_equal(
        model.passive_forces(mb.close_loops(model, q), v), model.passive_forces(q, v)
    )
    assert np.abs(G - 1.0).max() > 0.1  # the joints move differently


@pytest.mark.parametrize("text", [TREE, FOUR_BAR], ids=["tree", "loop"])
def test_the_system_moves_under_them(text, load, rng):
    model, _ = load(text)
    q, v, tau = model.random(rng), *rng.standard_normal((2, model.nv))
    plain, system = model.system(gamma=1.0), model.system(gamma=1.0, passive=True)
    force = model.passive_forces(q, v)
    found = system.forward_dynamics(q, v, tau)
    np.testing.assert_allclose(found, plain.forward_dynamics(q, v, tau + force), rtol=1e-9, atol=1e-9)
    assert np.abs(found - plain.forward_dynamics(q, v, tau)).max() > 1e-3  # negative control
    np.testing.assert_allclose(system.inverse_dynamics(q, v, found), tau, atol=1e-9)
    assert np.abs(plain.inverse_dynamics(q, v, found) - tau).max() > 1e-3  # negative control
    np.testing.assert_allclose(system.coriolis_matrix(q, v), plain.coriolis_matrix(q, v), atol=1e-10)


@pytest.mark.parametrize("text", [TREE, FOUR_BAR], ids=["tree", "loop"])
def test_dynamics_with_them_and_their_derivatives(text, load, rng):
    """Forward and inverse dynamics are inverses; derivatives are differences; the same inside JAX."""
    model, _ = load(text)
    body, friction = model.body_names[-1], {model.joint_names[-1]: 0.7}
    lift = {body: [0.8, 0.1, 0.2, -0.1]}
    passive = dataclasses.replace(model.passive, friction=friction, friction_speed=0.5, lift=lift)
    model = model.with_passive(passive)
    q, v, tau = np.stack([model.random(rng) for _ in range(3)]), *rng.standard_normal((2, model.nv))
    a = mb.forward_dynamics(model, q, v, tau, passive=True)
    np.testing.assert_allclose(a, mb.forward_dynamics(model, q, v, tau + model.passive_forces(q, v)))
    np.testing.assert_allclose(a, model.system(passive=True).forward_dynamics(q, v, tau), atol=1e-9)
    tau_again = mb.inverse_dynamics(model, q, v, a, passive=True)
    np.testing.assert_allclose(tau_again, np.broadcast_to(tau, a.shape), atol=1e-10)
    assert np.abs(mb.inverse_dynamics(model, q, v, a) - tau).max() > 1e-2  # negative control
    q, a, h, n = q[0], a[0], 1e-6, model.nv
    for dynamics, derivatives, x in (
        (mb.inverse_dynamics, mb.inverse_dynamics_derivatives, a),
        (mb.forward_dynamics, mb.forward_dynamics_derivatives, tau),
    ):
        in_q, in_v, in_x = derivatives(model, q, v, x, passive=True)
        along = mb.finite_differences(model, lambda p: dynamics(model, p, v, x, passive=True), q, h)  # noqa: B023
        step = [dynamics(model, q, v + s * h * np.eye(n), x, passive=True) for s in (1, -1)]
        scale = 1.0 + np.abs(in_q).max()
        np.testing.assert_allclose(in_q, along, atol=1e-6 * scale)
        np.testing.assert_allclose(in_v, (step[0] - step[1]).T / (2 * h), atol=1e-6 * scale)
        plain = derivatives(model, q, v, x if dynamics is mb.inverse_dynamics else tau)
        assert np.abs(plain[0] - in_q).max() > 1e-2 and np.abs(plain[1] - in_v).max() > 1e-2
        inside = jax.jit(lambda q, v: derivatives(model, q, v, x, passive=True))(q, v)  # noqa: B023
        for one, other in zip((in_q, in_v, in_x), inside, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10 * scale)
    A, _ = mb.linearize(model, q, v, tau, passive=True)
    np.testing.assert_allclose(A[n:], np.hstack([in_q, in_v]), atol=1e-12 * scale)
    with pytest.raises(TypeError, match="passive"):
        mb.forward_dynamics(model, q, v, tau, passive=1)


def test_slopes_where_columns_of_the_loops_do_not_commute(rng):
    """A free platform on six legs: L_j G_k is not L_k G_j, so that the order of indices counts."""
    model = stewart_platform().build()
    legs = {f"leg {k}": 3.0 + k for k in range(6)}
    springs = [mb.joints.Spring(name, {name: 1.0}, stiffness=40.0, rest=0.9) for name in legs]
    model = model.with_passive(mb.joints.Passive(tuple(springs), legs, legs, friction_speed=0.5))
    q, v, h = model.random(rng), rng.standard_normal(6), 1e-5
    LG = model.program.solution(q).LG
    assert np.abs(LG - np.swapaxes(LG, 1, 2)).max() > 0.1
    in_q, in_v = model.passive_slopes(q, v)
    along = mb.finite_differences(model, lambda p: model.passive_forces(p, v), q, h)
    np.testing.assert_allclose(in_q, along, atol=1e-7 * np.abs(in_q).max())
    steps = [model.passive_forces(q, v + s * h * np.eye(6)) for s in (1, -1)]
    np.testing.assert_allclose(in_v, (steps[0] - steps[1]).T / (2 * h), atol=1e-7 * np.abs(in_v).max())


def test_lift_goes_with_its_body(rng):
    """It is the force that carries its weight; behind a joint that is locked, too."""
    arm, point = mb.example("arm"), np.array([0.1, -0.2, 0.3])
    placement = np.eye(4)
    placement[:3, 3] = point
    passive = mb.joints.Passive(lift={"tool": [2.0, *(2.0 * point)]})
    model = arm.with_frames({"hook": ("tool", placement)}).with_passive(passive)
    q, still = model.random(rng), np.zeros(6)
    J = mb.frame_jacobian(model, q, "hook", axes="world")
    want = -2.0 * J[3:].T @ model.gravity
    np.testing.assert_allclose(model.passive_forces(q, still), want, atol=1e-12)
    locked = model.with_locked({"twist": q[5]})
    np.testing.assert_allclose(locked.passive_forces(q[:5], still[:5]), want[:5], atol=1e-12)
    all_of_it = {name: row[:4] for name, row in zip(arm.body_names, mb.inertial_parameters(arm), strict=True)}
    floats = arm.with_passive(mb.joints.Passive(lift=all_of_it))
    tau = mb.inverse_dynamics(floats, q, still, still, passive=True)
    np.testing.assert_allclose(tau, still, atol=1e-12)
    with pytest.raises(ModelError, match="lift: there is no frame 'tol'"):
        arm.with_passive(mb.joints.Passive(lift={"tol": [1.0, 0.0, 0.0, 0.0]}))
    with pytest.raises(ModelError, match="friction_speed"):
        mb.joints.Passive(friction={"lift": 1.0}, friction_speed=0.0)


def test_motors_and_springs_of_code():
    robot = mb.example("arm")
    joint = robot.joint_names[1]
    robot = robot.with_motors([mb.joints.Motor("drive", {joint: 50.0})])
    robot = robot.with_passive(
        mb.joints.Passive((mb.joints.Spring("coil", {joint: 1.0}, 3.0, 0.2, 0.5),), {joint: 0.1})
    )
    at = robot.velocity_slice(joint)
    q, v = robot.neutral() + 0.5, np.ones(robot.nv)
    B, tau = robot.motor_matrix(q), robot.passive_forces(q, v)
    assert B.shape == (robot.nv, 1) and B[at, 0] == 50.0 and np.count_nonzero(B) == 1
    np.testing.assert_allclose(tau[at], -3.0 * 0.3 - 0.5 - 0.1)
    assert robot.with_gravity((0, 0, 0)).motors is robot.motors  # they go with the robot
    assert robot.with_frames({"tip": (robot.frame_names[-1], None)}).passive is robot.passive
    assert robot.with_armature({joint: 0.1}).motors is robot.motors
    assert not mb.example("arm").motors and not mb.example("arm").passive_forces(q, v).any()


def test_of_joints_that_are_locked(load, rng):
    """B and the forces are those of the whole robot that stands still in these joints."""
    model, _ = load(TREE)
    locked = model.with_locked({"slide": 0.7})
    assert [motor.name for motor in locked.motors] == ["a", "b", "c", "f"]  # d moves the slide alone
    q, v = locked.random(rng), rng.standard_normal(locked.nv)
    at_q, at_v = model.configuration_slice("slide").start, model.velocity_slice("slide").start
    whole_q, whole_v = np.insert(q, at_q, 0.7), np.insert(v, at_v, 0.0)
    tau = np.delete(model.passive_forces(whole_q, whole_v), at_v)
    np.testing.assert_allclose(locked.passive_forces(q, v), tau, atol=1e-12)
    B = np.delete(np.delete(model.motor_matrix(whole_q), at_v, axis=0), 3, axis=1)
    np.testing.assert_allclose(locked.motor_matrix(q), B, atol=1e-12)
    K, plain = locked.passive_slopes(q, v)[0], model.passive_slopes(whole_q, whole_v)[0]
    np.testing.assert_allclose(K, np.delete(np.delete(plain, at_v, axis=0), at_v, axis=1), atol=1e-12)
    other = model.with_locked({"slide": -0.7}).passive_forces(q, v)  # negative control
    assert np.abs(other - tau).max() > 1e-2


BAD = {
    "twice": (
        lambda m: m.with_motors([mb.joints.Motor("a", {"hinge": 1.0})] * 2),
        "there is a motor 'a' already",
    ),
    "no joint": (
        lambda m: m.with_motors([mb.joints.Motor("a", {"hing": 1.0})]),
        "motor 'a': .*did you mean hinge",
    ),
    "no frame": (
        lambda m: m.with_motors([mb.joints.Motor("a", frame="x")]),
        "motor 'a': there is no frame 'x'",
    ),
    "nothing": (lambda m: m.with_motors([mb.joints.Motor("a")]), "motor 'a' acts on nothing; write Motor"),
    "ratio": (
        lambda m: m.with_motors([mb.joints.Motor("a", {"ball": (1.0, 2.0)})]),
        r"motor 'a': joint 'ball': its ratio: expected \(\) or \(3,\)",
    ),
    "not finite": (
        lambda m: m.with_motors([mb.joints.Motor("a", {"hinge": np.nan})]),
        "motor 'a': joint 'hinge': its ratio",
    ),
    "range": (
        lambda m: m.with_motors([mb.joints.Motor("a", {"hinge": 1.0}, force=(2, 1))]),
        "'a': force: the least",
    ),
    "ball and hinge": (
        lambda m: m.with_passive(mb.joints.Passive((mb.joints.Spring("s", {"ball": 1.0, "hinge": 1.0}),))),
        "spring 's': joint 'ball' has 4 coordinates, expected one",
    ),
    "ball's coefficient": (
        lambda m: m.with_passive(mb.joints.Passive((mb.joints.Spring("s", {"ball": 2.0}),))),
        "spring 's': joint 'ball' is spherical, so its coefficient is 1",
    ),
    "ball's rest": (
        lambda m: m.with_passive(
            mb.joints.Passive((mb.joints.Spring("s", {"ball": 1.0}, 2.0, (0.0, 0.0, 0.0, 2.0)),))
        ),
        "spring 's': rest: expected 0 or a unit quaternion",
    ),
    "a hinge's quaternion": (
        lambda m: m.with_passive(
            mb.joints.Passive((mb.joints.Spring("s", {"hinge": 1.0}, 2.0, (0.0, 0.0, 0.0, 1.0)),))
        ),
        "spring 's': rest: a quaternion is for a spherical joint",
    ),
    "negative": (
        lambda m: m.with_passive(mb.joints.Passive(friction={"hinge": -1.0})),
        "joint 'hinge': friction is negative: -1",
    ),
    "stiffness": (
        lambda m: m.with_passive(mb.joints.Passive((mb.joints.Spring("s", {"hinge": 1.0}, np.inf),))),
        "spring 's': stiffness",
    ),
    "rest": (
        lambda m: m.with_passive(
            mb.joints.Passive((mb.joints.Spring("s", {"hinge": 1.0}, 2.0, (1.0, 0.0)),))
        ),
        "spring 's': rest: the least length, 1, is above",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_motors_and_springs_are_refused_by_name(case, load):
    model, _ = load(TREE)
    change, message = BAD[case]
    with pytest.raises(ModelError, match=message):
        change(model)


def test_what_mujoco_reads_is_read(load, rng):
    """Springs that push away, negative damping, and motors that do nothing."""
    text = TREE.replace('stiffness="3"', 'stiffness="-3"').replace('damping="0.7"', 'damping="-0.7"')
    text = text.replace('stiffness="11"', 'stiffness="-11"').replace(
        'frictionloss="0.4"', 'frictionloss="-1"'
    )
    text = text.replace('gear="0.1 0.2 1 0.3 -0.4 0.5"', 'gear="0"')
    model, compiled = load(text)
    q, v = model.random(rng), rng.standard_normal(model.nv)
    np.testing.assert_allclose(model.passive_forces_at(q, v), theirs(model, compiled, q, v)[1], atol=1e-12)
    assert [motor.name for motor in model.motors] == ["a", "b", "c", "d"] and not model.passive.friction


SPATIAL = '<spatial name="cable" stiffness="2"><site site="rotor"/><site site="o"/></spatial>'


def test_what_is_left_out_is_told(load, rng):
    """H, C and g are right; the passive forces are not whole, and say so."""
    world = TREE.replace("<worldbody>", '<worldbody><site name="o" pos="0 0 1"/>')
    text = world.replace("<tendon>", "<tendon>" + SPATIAL).replace(
        "</actuator>", '<motor name="p" tendon="cable"/><motor joint="float" gear="1 0 0 0 0 0"/></actuator>'
    )
    with pytest.warns(mb.LeftOutWarning) as said:
        model, _ = load(text)
    for words in ("actuator 'p' (on the spatial tendon 'cable')", "'number 7' (on a free joint)"):
        assert words in str(said[0].message)
    q, v = model.random(rng), np.zeros(model.nv)
    with pytest.raises(ModelError, match="are not computed: the spring of the spatial tendon 'cable'"):
        model.passive_forces(q, v)
    with pytest.raises(ModelError, match="spatial tendon 'cable'"):
        model.system(passive=True)
    whole = model.with_passive(dataclasses.replace(model.passive, left_out=()))
    np.testing.assert_array_equal(whole.passive_forces(q, v), load(TREE)[0].passive_forces(q, v))
    heavy = world.replace(
        '<body pos="0.2 0 0"><joint name="ball"', '<body pos="0.2 0 0" gravcomp="-1"><joint name="ball"'
    )
    with pytest.raises(ModelError, match="the gravity compensation of body 'body 2'"):
        load(heavy)[0].passive_forces(q, v)
