"""Forces in joints and closures: against the dynamics of the spanning tree, Pinocchio and MuJoCo."""

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from cases import always
from closed_chains import PLANS
from closed_plan import Plan, at
from mechanisms import armed
from pinocchio_oracle import PinocchioRobot
from robots import robot_path
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import ModelError

TOL = 1e-8


def state_of(robot, rng, *batch):
    q = np.stack([robot.random(rng) for _ in range(int(np.prod(batch)))]).reshape(*batch, robot.nq)
    return q, rng.standard_normal((*batch, robot.nv)), rng.standard_normal((*batch, robot.nv))


def along_joints(robot, q, forces):
    """Phi^T f of each joint's wrench, (nv_s,), in the order of the spanning tree, and its velocities."""
    tree = robot.spanning_tree
    q_s = np.asarray(mb.close_loops(robot, q).spanning)
    Phi = np.asarray(tree.kinematics.Phi_columns_at(q_s))
    return np.array([Phi[s] @ forces[tree.joint_names[tree.kinematics.body_of[s]]] for s in range(len(Phi))])


def share_of_armature(robot, v_s, a_s):
    """What the joints' own velocities meet besides the bodies: of a free joint, a mass in moving axes."""
    share = np.concatenate([*robot.armature.values()]) * a_s
    if robot.joint_names[0] == robot.spanning_tree.joint_names[0] and isinstance(
        robot.kinematics.joints[0], mb.Free
    ):
        share[3:6] += robot.armature[robot.joint_names[0]][5] * np.cross(v_s[:3], v_s[3:6])
    return share


# --- trees -------------------------------------------------------------------------------------------------


def test_wrenches_of_an_arm_are_pinocchios(rng):
    path = robot_path("ur5")
    robot, oracle = mb.from_urdf(path), PinocchioRobot(path)
    q, v, a = state_of(robot, rng, 2, 3)
    found = mb.joint_forces(robot, q, v, a)
    assert set(robot.joint_names) < set(found)  # and the fixed ones
    for row in np.ndindex(2, 3):
        oracle.inverse_dynamics(q[row], v[row], a[row])
        for number, name in enumerate(robot.joint_names):
            f = oracle.data.f[oracle.model.getJointId(name)]
            expected = np.concatenate([f.angular, f.linear])
            np.testing.assert_allclose(found[name][row], expected, rtol=TOL, atol=TOL, err_msg=str(number))
    slow = mb.joint_forces(robot, q, 0.0 * v, a)  # a control
    assert np.abs(slow[robot.joint_names[0]] - found[robot.joint_names[0]]).max() > 0.1


@pytest.mark.parametrize("given", ["a", "tau"])
def test_along_a_joint_is_the_force_of_its_motor(given, rng):
    robot = armed(mb.example("quadruped"), rng)
    q, v, x = state_of(robot, rng)
    a, tau = (x, None) if given == "a" else (None, x)
    found = mb.joint_forces(robot, q, v, a, tau=tau)
    a = mb.forward_dynamics(robot, q, v, tau) if a is None else a
    expected = mb.inverse_dynamics(robot, q, v, a) - share_of_armature(robot, v, a)
    np.testing.assert_allclose(along_joints(robot, q, found), expected, rtol=TOL, atol=TOL)
    assert mb.closure_forces(robot, q, v, a) == {}


# --- loops -------------------------------------------------------------------------------------------------

SOME = {name: name for name in PLANS if name != "cam"}


@pytest.mark.parametrize("name", ["four-bar", "differential", "cam", "tree"])
@pytest.mark.parametrize("batch", [(0,), (3, 0)])
def test_no_rows_have_no_forces(name, batch, rng):
    """The sizes are those of a row."""
    robot = mb.example("arm") if name == "tree" else PLANS[name]().build()
    one, none = state_of(robot, rng), [np.zeros((*batch, size)) for size in (robot.nq, robot.nv, robot.nv)]
    for function in (mb.joint_forces, mb.closure_forces):
        sizes = {key: force.shape for key, force in function(robot, *one).items()}
        for found in (function(robot, *none), function(robot, *none[:2], tau=none[2])):
            assert {key: force.shape for key, force in found.items()} == {
                key: (*batch, *size) for key, size in sizes.items()
            }


@pytest.mark.parametrize("name", always(SOME, "closed by: coincident", "four-bar", "differential"))
def test_motors_and_closures_explain_the_motion_of_the_spanning_tree(name, rng):
    """H vdot + C v + g of the spanning tree is tau at the independent joints and what the loops exert.

    The wrenches are applied as external ones, through Jacobians of frames at the bodies that they act on.
    """
    plan = PLANS[name]()
    robot = plan.build()
    if "helical" not in name:  # which has a joint of its own between body a and the closure
        robot = armed(robot, rng)
    q, v, a = state_of(robot, rng)
    found, tree = mb.closure_forces(robot, q, v, a), robot.spanning_tree
    closed = mb.close_loops(robot, q)
    q_s, (_, G, LG) = np.asarray(closed.spanning), robot.program.solution(closed)
    v_s = G @ v
    a_s = G @ a + np.einsum("sjk,j,k->s", LG, v, v)
    left = mb.inverse_dynamics(tree, q_s, v_s, a_s)
    left[robot.kinematics.v_columns] -= mb.inverse_dynamics(robot, q, v, a)
    scale = np.abs(left).max() + 1.0
    explained = np.zeros(tree.nv)
    assert tuple(found) == (*plan.loops, *plan.couplings)
    for loop, (body_a, body_b, _, _, at_b, _) in plan.loops.items():
        place = {"end": (body_b, at_b)} if body_b != "world" else {}
        point = at_b[:3, 3] if body_b == "world" else None
        placed = tree.with_frames(place)
        point = mb.frame_pose(placed, q_s, "end")[:3, 3] if point is None else point
        for body, sign in ((body_a, -1.0), (body_b, 1.0)):
            if body != "world":
                pose = mb.frame_pose(tree, q_s, body)
                there = np.eye(4)
                there[:3, 3] = pose[:3, :3].T @ (point - pose[:3, 3])
                J = mb.frame_jacobian(tree.with_frames({"there": (body, there)}), q_s, "there", axes="world")
                explained += sign * J.T @ found[loop]
    for coupling, (coefficients, _, function, _) in plan.couplings.items():
        assert function is None
        for joint, number in coefficients.items():
            explained[tree.velocity_slice(joint)] += number * found[coupling]
    np.testing.assert_allclose(explained, left, atol=TOL * scale)
    assert np.abs(left).max() > 1e-3  # a control: loops do exert something


@pytest.mark.parametrize("name", always(SOME, "closed by: coincident", "Stewart platform", "belt leg"))
def test_dependent_joints_carry_nothing_along_their_motion(name, rng):
    """Bearings without a motor transmit what couplings exert, and their own armature's share."""
    plan = PLANS[name]()
    robot = armed(plan.build(), rng)
    q, v, a = state_of(robot, rng)
    closed = mb.close_loops(robot, q)
    _, G, LG = robot.program.solution(closed)
    a_s = G @ a + np.einsum("sjk,j,k->s", LG, v, v)
    expected = -share_of_armature(robot, G @ v, a_s)
    expected[robot.kinematics.v_columns] += mb.inverse_dynamics(robot, q, v, a)
    loads = mb.closure_forces(robot, closed, v, a)
    for coupling, (coefficients, _, _, _) in plan.couplings.items():
        for joint, number in coefficients.items():
            expected[robot.spanning_tree.velocity_slice(joint)] += number * loads[coupling]
    forces = mb.joint_forces(robot, closed, v, a)
    found = along_joints(robot, q, forces)
    scale = 1.0 + max(np.abs(force).max() for force in forces.values())
    np.testing.assert_allclose(found, expected, atol=TOL * scale)


def test_a_swing_hangs_half_on_each_rope():
    """A seat of 3 kg on two vertical rods without mass: each holds half of its weight, by symmetry."""
    plan = Plan(0, (0.0, 0.0, -9.81))
    rod = {"mass": 0.0, "inertia": np.zeros((3, 3))}
    y = mb.Revolute((0, 1, 0))
    plan.add("left", "world", "left rod", y, at(0, 0, 2.0), 0.0, **rod)
    plan.add("seat", "left rod", "seat", y, at(0, 0, -1.0), 0.0, mass=3.0, center_of_mass=(0.5, 0.0, 0.0))
    plan.add("right", "world", "right rod", y, at(1.0, 0, 2.0), 0.0, **rod)
    plan.loop("hook", "right rod", "seat", y, at(0, 0, -1.0), at(1.0, 0, 0), independent=["left"])
    robot = plan.build()
    hook = mb.closure_forces(robot, [0.0], [0.0], tau=[0.0])["hook"]
    np.testing.assert_allclose(hook, [0, 0, 0, 0, 0, 1.5 * 9.81], atol=1e-9)
    bearings = mb.joint_forces(robot, [0.0], [0.0], tau=[0.0])
    np.testing.assert_allclose(bearings["seat"], [0, 0, 0, 0, 0, 1.5 * 9.81], atol=1e-9)
    np.testing.assert_allclose(bearings["left"], [0, 0, 0, 0, 0, 1.5 * 9.81], atol=1e-9)
    # swinging through the lowest point at 2 rad/s, 1 m below: m (g + v^2 / r), from both
    fast = mb.closure_forces(robot, [[0.0]] * 2, [[0.0], [2.0]], tau=[0.0])["hook"]
    np.testing.assert_allclose(fast[:, 5], [1.5 * 9.81, 1.5 * (9.81 + 4.0)], atol=1e-9)


def scaled_pin(T):
    return jnp.stack([3.0 * T[0, 3] + T[1, 3], jnp.sinh(T[1, 3])])


def test_a_users_function_holds_as_the_pin_that_it_is():
    """A loop closed by a function, its frames off the origins of their bodies, and by a revolute joint."""
    found = []
    z = mb.Revolute((0, 0, 1))
    for closure in (z, scaled_pin):
        plan = Plan(3, (0.0, -9.81, 0.0))
        plan.add("motor", "world", "crank", z, None, 1.0)
        plan.add("pin", "crank", "coupler", z, at(0.5, 0, 0), -0.7)
        plan.add("pivot", "world", "rocker", z, at(1.1, 0.1, 0), 1.2)
        ends = at(0.9, 0.1, 0), at(0.8, -0.2, 0)
        plan.loop("hook", "coupler", "rocker", closure, *ends, independent=["motor"])
        robot = plan.build()
        q = robot.neutral() + 0.05
        v, a = [1.3], [-0.7]
        found.append([mb.closure_forces(robot, q, v, a)["hook"], mb.joint_forces(robot, q, v, a)])
    (pin, joints), (own, others) = found
    plane = [3, 4]  # what a planar loop needs; of a pin, the others are not determined
    np.testing.assert_allclose(own[plane], pin[plane], rtol=1e-8)
    np.testing.assert_allclose(own[[0, 1, 2, 5]], 0.0, atol=1e-9)
    assert np.abs(own[plane]).min() > 0.1
    for name, wrench in joints.items():
        np.testing.assert_allclose(others[name][[2, 3, 4]], wrench[[2, 3, 4]], rtol=1e-7, atol=1e-8)


def test_a_coupling_by_a_function_exerts_what_the_follower_needs():
    """A cam on a shaft in the world: m (lift'' + g) on the follower; its slope times that on the shaft."""
    plan = Plan(0, (0.0, 0.0, -9.81))
    angle, rate, change = 0.6, 1.7, -0.9
    lift = 0.2 + 0.05 * np.cos(angle) + 0.02 * np.sin(2.0 * angle)
    slope = -0.05 * np.sin(angle) + 0.04 * np.cos(2.0 * angle)
    bend = -0.05 * np.cos(angle) - 0.08 * np.sin(2.0 * angle)
    plan.add("shaft", "world", "shaft", mb.Revolute((0, 0, 1)), None, angle)
    plan.add("lift", "world", "follower", mb.Prismatic((0, 0, 1)), at(0.2, 0, 0), lift, mass=3.0)

    def profile(angle, lift):
        return 5.0 * (lift - (0.2 + 0.05 * jnp.cos(angle) + 0.02 * jnp.sin(2.0 * angle)))

    plan.couple("profile", {"shaft": 1.0, "lift": 1.0}, function=profile, independent=["shaft"])
    robot = plan.build()
    force = 3.0 * (slope * change + bend * rate**2 + 9.81)
    found = mb.closure_forces(robot, [angle], [rate], [change])["profile"]
    np.testing.assert_allclose(found, [force / 5.0], rtol=1e-10)  # times the function's slope by each joint
    carried = mb.joint_forces(robot, [angle], [rate], [change])
    np.testing.assert_allclose(carried["lift"][5], force, rtol=1e-10)
    tau = mb.inverse_dynamics(robot, [angle], [rate], [change])[0]
    np.testing.assert_allclose(carried["shaft"][2], tau - slope * force, rtol=1e-10)


def welded(rng, held, loop=False):
    """A tree with joints "base", "seam" and "rivet" of type `held`, others that move, at random places."""
    plan = mb.Mechanism()

    def somewhere():
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = Rotation.random(random_state=rng).as_matrix(), rng.uniform(-0.5, 0.5, 3)
        return pose

    chain = [
        ("base", "world", "stand", held),
        ("hip", "stand", "thigh", mb.Revolute((0, 1, 0))),
        ("seam", "thigh", "plate", held),
        ("knee", "plate", "shin", mb.Spherical()),
        ("rivet", "plate", "cap", held),
        ("slide", "cap", "rod", mb.Prismatic((1, 2, 0))),
        ("side", "thigh", "arm", mb.Revolute((1, 0, 0))),
        ("tip", "arm", "fin", mb.Revolute((0, 1, 1))),
    ]
    for name, parent, body, joint in chain:
        A = rng.uniform(-0.3, 0.3, (3, 3))
        plan.add_body(body, mass=rng.uniform(1, 2), center_of_mass=A[0], inertia=0.5 * np.eye(3) + A @ A.T)
        plan.add_joint(name, parent, body, joint, somewhere())
    if loop:
        ends, tree = [somewhere(), somewhere()], plan.build()
        tree = tree.with_frames({"a": ("cap", ends[0]), "b": ("fin", ends[1])})
        a, b = (mb.frame_pose(tree, tree.neutral(), name)[:3, 3] for name in "ab")
        plan.add_loop("rope", "cap", "fin", mb.Distance(np.linalg.norm(a - b)), *ends)
    return plan.build()


@pytest.mark.parametrize("loop", [False, True], ids=["tree", "loop"])
def test_fixed_joints_transmit_what_joints_at_rest_do(loop):
    """The same robot with joints in place of the fixed ones, which neither are turned nor turn."""
    kinds, still = (mb.Fixed(), mb.Revolute((0, 0, 1))), ("base", "seam", "rivet")
    fixed, other = (welded(np.random.default_rng(5), kind, loop) for kind in kinds)
    rng = np.random.default_rng(6)
    q, v, a = state_of(fixed, rng, 2)
    closed = mb.close_loops(fixed, q)
    tree, names = other.spanning_tree, other.spanning_tree.joint_names
    q_s, v_s, a_s = np.tile(tree.neutral(), (2, 1)), np.zeros((2, tree.nv)), np.zeros((2, tree.nv))
    own, G, LG = fixed.spanning_tree, np.eye(fixed.nv), np.zeros((fixed.nv,) * 3)
    solution = fixed.program.solution(closed) if loop else None
    for k in range(2):
        if solution is not None:
            G, LG = solution.G[k], solution[2][k]
        rates = G @ v[k], G @ a[k] + np.einsum("sij,i,j->s", LG, v[k], v[k])
        for name in names:
            if name not in still:
                at, to = own.velocity_slice(name), tree.velocity_slice(name)
                v_s[k, to], a_s[k, to] = (rate[at] for rate in rates)
                at, to = own.configuration_slice(name), tree.configuration_slice(name)
                q_s[k, to] = np.asarray(closed.spanning)[k, at]
    found = mb.joint_forces(fixed, q, v, a)
    assert set(found) == set(names)
    if loop:
        own_v = [*other.joint_names]
        columns = np.concatenate([np.arange(tree.nv)[tree.velocity_slice(name)] for name in own_v])
        places = np.concatenate([np.arange(tree.nq)[tree.configuration_slice(name)] for name in own_v])
        there = mb.close_loops(other, q_s[:, places], guess=q_s)
        expected = mb.joint_forces(other, there, v_s[:, columns], a_s[:, columns])
    else:
        expected = mb.joint_forces(other, q_s, v_s, a_s)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-7, atol=1e-7, err_msg=name)
    assert np.abs(found["seam"]).min() > 1e-3


def test_locked_joints_transmit_what_they_do_at_rest():
    robot, rest = welded(np.random.default_rng(5), mb.Fixed()), ("hip", "slide")
    q, v, a = state_of(robot, np.random.default_rng(2))
    given = {name: q[robot.configuration_slice(name)] for name in rest}
    for name in rest:
        v[robot.velocity_slice(name)] = a[robot.velocity_slice(name)] = 0.0
    locked = robot.with_locked(given)
    parts = [np.concatenate([q[robot.configuration_slice(name)] for name in locked.joint_names])]
    parts += [np.concatenate([x[robot.velocity_slice(name)] for name in locked.joint_names]) for x in (v, a)]
    expected, found = mb.joint_forces(robot, q, v, a), mb.joint_forces(locked, *parts)
    assert set(expected) == set(found)
    for name, wrench in expected.items():
        np.testing.assert_allclose(found[name], wrench, rtol=1e-9, atol=1e-9, err_msg=name)
    with pytest.raises(ModelError, match="joint 'seam' is fixed"):
        robot.velocity_slice("seam")
    with pytest.raises(ModelError, match="armature: joint 'seam' is fixed"):
        robot.with_armature({"seam": 1.0})
    with pytest.raises(ModelError, match="joint 'seam' is fixed"):
        robot.with_locked({"seam": []})
    shelf = robot.subtree("stand")
    assert set(mb.joint_forces(shelf, q, v, a)) == set(expected) - {"base"}


CONNECTED = """<mujoco><option gravity="0.5 -1 -9" timestep="0.001"/><worldbody>
<body name="b1" pos="0 0 1"><joint name="j1" axis="0 0.1 1"/><geom size="0.1" pos="0.1 0.05 0"/>
<body name="b2" pos="0.4 0 0.1"><joint name="j2" axis="0 1 0.3"/><geom size="0.1" pos="0.2 0 0"/>
<body name="b3" pos="0.3 0.1 0"><joint name="j3" axis="1 0.4 0"/><geom size="0.1" pos="0 0.1 0.1"/>
<body name="b4" pos="0.1 0.3 0"><joint name="j4" axis="0.2 0.2 1"/><geom size="0.1" pos="0.2 0 0.1"/>
</body></body></body></body></worldbody><equality>
<connect name="ball" body1="b4" body2="world" anchor="0.2 0.1 0.3"
 solref="0.004 1" solimp="0.9999 0.9999 0.001"/>
</equality></mujoco>"""


def test_a_connect_is_held_by_mujocos_force(tmp_path):
    """MuJoCo's efc_force of a stiff constraint, and the multipliers of its own M, J and bias."""
    (tmp_path / "r.xml").write_text(CONNECTED)
    robot = mb.from_mjcf(tmp_path / "r.xml")
    q = robot.neutral()
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "r.xml"))
    data = mujoco.MjData(model)
    for name, value in robot.spanning_configuration(q).items():
        data.joint(name).qpos[:] = value
    mujoco.mj_forward(model, data)
    M = np.zeros((4, 4))
    mujoco.mj_fullM(model, data, M)
    J = data.efc_J.reshape(-1, 4)[:3]
    exact = np.linalg.solve(
        np.block([[M, -J.T], [J, np.zeros((3, 3))]]), np.concatenate([-data.qfrc_bias, np.zeros(3)])
    )[4:]
    found = mb.closure_forces(robot, q, [0.0], tau=[0.0])["ball"]
    np.testing.assert_allclose(np.abs(found[:3]), 0.0, atol=1e-8)
    np.testing.assert_allclose(-found[3:], exact, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(data.efc_force[:3], exact, rtol=2e-3)


# --- arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [mb.closure_forces, mb.joint_forces])
def test_one_of_accelerations_and_torques_is_given(function):
    robot = mb.example("four_bar")
    q = robot.neutral()
    for a, tau in ((None, None), ([0.0], [0.0])):
        with pytest.raises(TypeError, match=r"tau=.*one of them"):
            function(robot, q, [0.0], a, tau=tau)
    with pytest.raises(ValueError, match="v"):
        function(robot, q, [0.0, 1.0], [0.0])
    with pytest.raises(TypeError, match=function.__name__):
        function(q, robot, [0.0], [0.0])
    rows = function(robot, np.stack([q] * 3), [1.0], [0.5])
    one = function(robot, mb.close_loops(robot, q), [1.0], [0.5])
    for name, wrench in rows.items():
        assert wrench.shape == (3, 6)
        np.testing.assert_allclose(wrench, np.stack([one[name]] * 3), atol=1e-9)
