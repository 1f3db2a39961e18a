"""The whole-body law: closed loops, priorities, optimality within bounds, and a quadruped that stands."""

from dataclasses import replace

import numpy as np
import pytest
from cases import further
from closed_plan import Plan
from closed_plan import at as placed
from pages import run_page
from scipy.optimize import nnls
from units import Scales, Units, in_units

from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError, ShapeError
from connections.control import (
    AngularMomentumTask,
    CenterOfMassTask,
    Contacts,
    OrientationTask,
    PointContact,
    PointTask,
    PoseTask,
    PostureTask,
    SurfaceContact,
    Target,
    WholeBodyController,
)
from connections.control.errors import InfeasibleError, TaskError


@pytest.fixture(scope="module")
def arm():
    return mb.example("arm")


@pytest.fixture(scope="module")
def quadruped():
    return mb.example("quadruped")


def feet(robot, friction=0.6, normal=(0.0, 0.0, 1.0)):
    shanks = [name for name in robot.frame_names if name.endswith("shank")]
    return [PointContact(shank, friction, (0.0, 0.0, -0.22), normal) for shank in shanks]


def free_of_limits(robot, tasks, **more):
    return WholeBodyController(robot, tasks, torque_limits=np.inf, limit_time=None, **more)


def standing(robot, **more):
    """Balance and orientation first, posture last."""
    tasks = [
        CenterOfMassTask(damping=150.0, stiffness=1500.0, name="balance"),
        OrientationTask("trunk", damping=15.0, stiffness=150.0, name="upright"),
        PostureTask(damping=2.0, stiffness=20.0, priority=1, name="posture"),
    ]
    return WholeBodyController(robot, tasks, feet(robot), **more)


def at_rest(robot, shift=(0.0, 0.0, 0.0)):
    q = robot.neutral()
    return {"balance": mb.center_of_mass(robot, q) + shift, "upright": np.eye(3), "posture": q[7:]}


def state(robot, rng, speed=1.0):
    return mb.displace(
        robot, robot.neutral(), 0.3 * rng.standard_normal(robot.nv)
    ), speed * rng.standard_normal(robot.nv)


# --- without bounds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("coriolis", ["christoffel", "force_cross", "contorsion"])
def test_closed_loop(arm, rng, coriolis):
    """Lambda s' + (C_t + D) s = 0 to 1e-9, with vdot of the forward dynamics."""
    q, v = state(arm, rng)
    q[4] = 0.8  # away from the singular wrist
    if coriolis == "contorsion":
        coriolis = arm.system(gamma=0.5, beta=0.1 * rng.standard_normal(20)).coriolis_matrix
    task = PoseTask("tool", damping=(2.0, 3.0, 2.0, 30.0, 20.0, 10.0), rate=3.0, name="tool")
    controller = free_of_limits(arm, [task], coriolis=coriolis)
    goal = mb.frame_pose(arm, arm.neutral(), "tool")
    command = controller.command(q, v, {"tool": Target(goal, 0.1 * np.ones(6), 0.2 * np.ones(6))})
    a = mb.forward_dynamics(arm, q, v, command.tau)
    at = command["tool"]
    s_dot = at.jacobian @ a + at.jacobian_rate @ v - at.error.a_d + 3.0 * at.error.rate
    closed = at.inertia @ s_dot + (at.coriolis_matrix + at.of.D) @ at.sliding
    np.testing.assert_allclose(closed, 0.0, atol=1e-9)
    np.testing.assert_allclose(command.acceleration, a, atol=1e-9 * np.abs(a).max())
    assert np.abs(at.coriolis_matrix @ at.sliding).max() > 0.05 and not command.bounded
    np.testing.assert_allclose(at.storage_rate(a), -at.dissipation, rtol=1e-10)
    assert command.check_power_balance().require().residual < 1e-9


def test_arrays_of_any_kind(arm, rng):
    """Read-only and strided q and v, and a matrix that is both, from a function of the user."""
    q, v = state(arm, rng)

    def frozen(p, u):
        C = np.asfortranarray(mb.coriolis_matrix(arm, p, u))
        C.setflags(write=False)
        return C

    point = PointTask("tool", damping=20.0, rate=2.0, name="tool")
    at = {"tool": np.array([0.4, 0.1, 0.6])}
    expected = free_of_limits(arm, [point]).torque(q, v, at)
    strided, others = np.stack([q, v], axis=1).T, np.array(v)
    others.setflags(write=False)
    for given in (strided, (np.repeat(q, 2)[::2], others)):
        found = free_of_limits(arm, [point], coriolis=frozen).torque(*given, at)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_matrix_that_is_not_skew_breaks_the_balance(arm, rng):
    """The negative control: C v is right, Hdot - 2C is not skew."""
    q, v = state(arm, rng)

    def wrong(p, u):
        return mb.coriolis_matrix(arm, p, u) + np.outer(np.ones(6), [u[1], -u[0], 0.0, 0.0, 0.0, 0.0])

    np.testing.assert_allclose(wrong(q, v) @ v, mb.coriolis_matrix(arm, q, v) @ v, atol=1e-12)
    point = PointTask("tool", damping=20.0, rate=2.0, name="tool")
    goal = mb.frame_pose(arm, arm.neutral(), "tool")[:3, 3]
    for coriolis, holds in (("christoffel", True), (wrong, False)):
        command = free_of_limits(arm, [point], coriolis=coriolis).command(q, v, {"tool": goal})
        assert command.check_power_balance().ok is holds
        assert np.abs(command.residuals["tool"]).max() < 1e-10  # the law of its own C holds


def cost(command, a, f=None):
    """The tasks' weighted cost at other accelerations."""
    gaps = ((task.of.task.weight, task.jacobian @ a - task.wanted, task.inertia) for task in command.tasks)
    return sum(weight * gap @ Lambda @ gap for weight, gap, Lambda in gaps)


def test_weights_of_tasks_that_depend_on_each_other(arm, rng):
    """The least weighted deviation in the kinetic metric, from the normal equations without whitening."""
    q, v = state(arm, rng)
    tasks = [
        PointTask("tool", damping=20.0, rate=2.0, weight=3.0, name="tool"),
        PostureTask(damping=2.0, rate=1.0, weight=0.2, name="posture"),
    ]
    targets = {"tool": np.array([0.4, 0.1, 0.5]), "posture": np.zeros(6)}
    command = free_of_limits(arm, tasks, trade_off=True).command(q, v, targets)
    matrix, right = np.zeros((6, 6)), np.zeros(6)
    for at in command.tasks:
        JL = at.of.task.weight * at.jacobian.T @ at.inertia
        matrix, right = matrix + JL @ at.jacobian, right + JL @ at.wanted
    expected = np.linalg.solve(matrix, right)
    np.testing.assert_allclose(command.acceleration, expected, atol=1e-8 * np.abs(expected).max())
    with pytest.raises(TaskError, match="'tool', 'posture'"):
        free_of_limits(arm, tasks).command(q, v, targets)


def test_priorities_are_strict(arm, rng):
    """The point is met exactly; the posture is the nearest that is left, from its KKT system."""
    q, v = state(arm, rng)
    tasks = [
        PostureTask(damping=2.0, rate=1.0, weight=1e6, priority=2, name="posture"),
        PointTask("tool", damping=20.0, rate=2.0, weight=1e-6, priority=1, name="tool"),
    ]
    targets = {"tool": np.array([0.4, 0.1, 0.5]), "posture": np.ones(6)}
    command = free_of_limits(arm, tasks).command(q, v, targets)
    assert np.abs(command.residuals["tool"]).max() < 1e-10 < 1e-2 < np.abs(command.residuals["posture"]).max()
    J, H = command["tool"].jacobian, mb.mass_matrix(arm, q)
    system = np.block([[H, J.T], [J, np.zeros((3, 3))]])
    right = np.concatenate([H @ command["posture"].wanted, command["tool"].wanted])
    np.testing.assert_allclose(command.acceleration, np.linalg.solve(system, right)[:6], atol=1e-8)


def test_what_tasks_leave_open_is_free_motion(arm, rng):
    """No torque but those that the task needs: tau = J^T F."""
    q, v = state(arm, rng)
    command = free_of_limits(arm, [PointTask("tool", damping=20.0, name="tool")]).command(
        q, v, {"tool": np.ones(3)}
    )
    J = command["tool"].jacobian
    force = np.linalg.lstsq(J.T, command.tau, rcond=None)[0]
    np.testing.assert_allclose(J.T @ force, command.tau, atol=1e-10 * np.abs(command.tau).max())
    none = free_of_limits(arm, []).command(q, v, {})
    np.testing.assert_allclose(none.tau, 0.0, atol=1e-10)


def test_contacts_hold_and_forces_are_those_of_the_dynamics(quadruped, rng):
    """Accelerations and forces against `Contacts.forward_dynamics`, given the torques alone."""
    q = mb.displace(quadruped, quadruped.neutral(), 0.005 * rng.standard_normal(18))
    v = 0.02 * rng.standard_normal(18)
    command = standing(quadruped, contact_damping=4.0, torque_limits=np.inf, limit_time=None).command(
        q, v, at_rest(quadruped)
    )
    assert not np.any(command.tau[:6])
    contacts = Contacts(quadruped, feet(quadruped))
    a, f = contacts.forward_dynamics(q, v, command.tau, damping=4.0)
    np.testing.assert_allclose(command.acceleration, a, atol=1e-8 * np.abs(a).max())
    np.testing.assert_allclose(command.forces, f, atol=1e-8 * np.abs(f).max())
    assert not command.bounded
    assert max(np.abs(command.residuals[name]).max() for name in ("balance", "upright")) < 1e-9
    # the tasks settle the motion, and the forces are the least with the same wrench on the trunk
    J = contacts.jacobian(q)[:, :6]
    least = J @ np.linalg.lstsq(J, command.forces, rcond=None)[0]
    np.testing.assert_allclose(command.forces, least, atol=1e-8 * np.abs(least).max())


def test_motors_give_what_springs_and_dampers_do_not(quadruped, rng):
    """With `passive`, the robot that has them moves as the law says; contacts and a free base, too."""
    knees = [name for name in quadruped.joint_names if "knee" in name]
    springs = tuple(mb.joints.Spring(name, {name: 1.0}, stiffness=5.0, rest=0.3) for name in knees)
    robot = quadruped.with_passive(mb.joints.Passive(springs, {name: 0.4 for name in knees}))
    q = mb.displace(robot, robot.neutral(), 0.005 * rng.standard_normal(18))
    v, options = 0.02 * rng.standard_normal(18), {"torque_limits": np.inf, "limit_time": None}
    command = standing(robot, passive=True, **options).command(q, v, at_rest(robot))
    pushed = command.tau + robot.passive_forces(q, v)
    moved, forces = Contacts(robot, feet(robot)).forward_dynamics(q, v, pushed)
    np.testing.assert_allclose(command.acceleration, moved, atol=1e-8 * np.abs(moved).max())
    np.testing.assert_allclose(command.forces, forces, atol=1e-8 * np.abs(forces).max())
    plain = standing(robot, **options).command(q, v, at_rest(robot))
    assert np.abs(plain.tau - command.tau).max() > 1e-2  # negative control
    with pytest.raises(TypeError, match="passive"):
        standing(robot, passive="yes")


def test_soles_that_repeat_each_other(quadruped):
    """Two soles under one body: the forces are shared, the motion is the same."""
    soles = [SurfaceContact("trunk", 0.6, (0.1, 0.1), place) for place in (None, np.eye(4))]
    tasks = [PostureTask(damping=1.0, name="posture")]
    q, v = quadruped.neutral(), np.zeros(18)
    commands = [
        WholeBodyController(quadruped, tasks, soles[:count]).command(q, v, {"posture": q[7:]})
        for count in (1, 2)
    ]
    np.testing.assert_allclose(commands[0].tau, commands[1].tau, atol=1e-8)
    np.testing.assert_allclose(commands[1].forces[:6], commands[1].forces[6:], atol=1e-8)
    np.testing.assert_allclose(commands[0].forces, 2.0 * commands[1].forces[:6], atol=1e-8)


def test_points_of_one_body(quadruped):
    """Twelve rows of rank six: their forces are the least ones, and a body that turns cannot rest on them."""
    corners = [PointContact("trunk", 0.6, (x, y, 0.0)) for x in (0.2, -0.2) for y in (0.1, -0.1)]
    controller = free_of_limits(quadruped, [PostureTask(damping=1.0, name="posture")], contacts=corners)
    q, v = quadruped.neutral(), np.zeros(18)
    command = controller.command(q, v, {"posture": q[7:]})
    J = Contacts(quadruped, corners).jacobian(q)
    residual = mb.inverse_dynamics(quadruped, q, v, command.acceleration) - J.T @ command.forces
    np.testing.assert_allclose(residual, command.tau, atol=1e-9)
    np.testing.assert_allclose(J @ command.acceleration, 0.0, atol=1e-9)
    least = np.linalg.lstsq(J.T, J.T @ command.forces, rcond=None)[0]
    np.testing.assert_allclose(command.forces, least, atol=1e-8)
    v[0] = 1.0
    with pytest.raises(InfeasibleError, match="against each other"):
        controller.command(q, v, {"posture": q[7:]})


def test_a_joint_without_motor(arm, rng):
    """No torque there, whichever joint it is, and the forward dynamics do as predicted."""
    q, v = state(arm, rng)
    point = PointTask("tool", damping=20.0, rate=2.0, name="tool")
    for passive in ("lift", "turn"):
        motors = [name for name in arm.joint_names if name != passive]
        command = free_of_limits(arm, [point], actuated=motors).command(q, v, {"tool": [0.4, 0.1, 0.5]})
        assert command.tau[arm.velocity_slice(passive)] == 0.0
        a = mb.forward_dynamics(arm, q, v, command.tau)
        np.testing.assert_allclose(command.acceleration, a, atol=1e-9 * np.abs(a).max())
        assert np.abs(command.residuals["tool"]).max() < 1e-9


def by_lapack(command, contacts, others, q, v):
    """tau by levels of least squares with NumPy's decompositions, task after task, without bounds."""
    robot = contacts.model
    H, h = mb.mass_matrix(robot, q), mb.nonlinear_effects(robot, q, v)
    L, n, J = np.linalg.cholesky(H), robot.nv, contacts.jacobian(q)
    root = np.sqrt(mb.total_mass(robot))
    a_of, f_of = np.linalg.inv(L).T, root * np.eye(len(J))  # of y = (L^T vdot, f / root)
    equal = [np.hstack([(H @ a_of)[others], -J.T[others] @ f_of]), np.hstack([J @ a_of, 0.0 * f_of])]
    right = np.concatenate([-h[others], -contacts.jacobian_rate(q, v) @ v])
    y, Z = np.linalg.lstsq(np.vstack(equal), right)[0], null(np.vstack(equal))
    tasks, weights = command.tasks, np.array([task.of.task.weight for task in command.tasks])
    levels = []
    for priority in sorted({task.of.task.priority for task in tasks}):
        some = [k for k, task in enumerate(tasks) if task.of.task.priority == priority]
        scale = [np.sqrt(weights[k] / weights[some].max()) for k in some]
        whitened = [np.linalg.cholesky(tasks[k].inertia).T for k in some]
        rows = [c * R @ tasks[k].jacobian @ a_of for c, R, k in zip(scale, whitened, some, strict=True)]
        b = [c * R @ tasks[k].wanted for c, R, k in zip(scale, whitened, some, strict=True)]
        levels.append(
            (np.hstack([np.vstack(rows), np.zeros((sum(map(len, rows)), len(J)))]), np.concatenate(b))
        )
    levels.append((np.hstack([np.zeros((len(J), n)), f_of]), np.zeros(len(J))))
    for A, b in levels:
        U, s, V = np.linalg.svd(A @ Z)
        rank = int(np.count_nonzero(s > 1e-9))
        y = y + Z @ (V[:rank].T @ ((U.T @ (b - A @ y))[:rank] / s[:rank]))
        Z = Z @ V[rank:].T
    rest = np.linalg.solve(L, H @ (a_of @ y[:n]) + h - J.T @ (root * y[n:]))  # whitened torques
    y[:n] -= Z[:n] @ np.linalg.lstsq(Z[:n], rest)[0] if Z.shape[1] else 0.0
    return H @ (a_of @ y[:n]) + h - J.T @ (root * y[n:])


def null(A):
    """An orthonormal basis of the vectors x with A x = 0, as columns."""
    _, s, V = np.linalg.svd(A)
    return V[int(np.count_nonzero(s > 1e-9)) :].T


@pytest.mark.parametrize("case", ["weights", "redundant", "posture last"])
def test_torques_are_those_of_lapack(quadruped, rng, case):
    """The compiled law against SVDs, without bounds: to 1e-10 of the largest torque."""
    tasks = {
        "weights": [
            CenterOfMassTask(damping=150.0, rate=2.0, weight=0.1, name="balance"),
            PostureTask(damping=2.0, stiffness=20.0, name="posture"),
        ],
        "redundant": [PointTask("trunk", damping=20.0, stiffness=30.0, name="balance")],
        "posture last": standing(quadruped).tasks,
    }[case]
    law = free_of_limits(quadruped, tasks, contacts=feet(quadruped, friction=50.0), trade_off=True)
    targets = {task.name: at_rest(quadruped)[task.name] for task in tasks}
    for _ in range(4):
        q = mb.displace(quadruped, quadruped.neutral(), 0.01 * rng.standard_normal(18))
        v = 0.02 * rng.standard_normal(18)
        command = law.command(q, v, targets)
        tau = by_lapack(command, Contacts(quadruped, law.contacts), np.arange(6), q, v)
        assert not command.bounded
        np.testing.assert_allclose(command.tau, tau, atol=1e-10 * np.abs(tau).max())


# --- within bounds ----------------------------------------------------------------------------------------


def active_gradients(controller, command, q, v, tol=1e-6):
    """The gradients of the bounds that hold with equality, as columns that push inward, of (vdot, f)."""
    robot, contacts = controller.model, Contacts(controller.model, controller.contacts)
    H, J, limit = mb.mass_matrix(robot, q), contacts.jacobian(q), robot.limits.effort
    n, columns = robot.nv, []
    for row, slack in zip(contacts.cone, contacts.cone @ command.forces, strict=True):
        if slack < tol:
            columns.append(np.concatenate([np.zeros(n), row]))
    for k in range(6, n):
        if limit[k] - abs(command.tau[k]) < tol:
            columns.append(-np.sign(command.tau[k]) * np.concatenate([H[k], -J[:, k]]))
    free = np.concatenate([np.hstack([H[:6], -J[:, :6].T]), np.hstack([J, np.zeros((len(J), len(J)))])])
    return np.array(columns).T, free.T


def test_it_is_optimal_within_friction_and_torques(quadruped, rng):
    """Its gradient is a sum of the active bounds', with signs that push: by non-negative least squares."""
    controller = standing(quadruped, limit_time=None)
    q, v, targets = quadruped.neutral(), 0.1 * rng.standard_normal(18), at_rest(quadruped, (0.25, 0.1, 0.05))
    targets.pop("posture")
    controller = WholeBodyController(quadruped, controller.tasks[:2], controller.contacts, limit_time=None)
    command = controller.command(q, v, targets)
    contacts, limit = Contacts(quadruped, controller.contacts), quadruped.limits.effort
    assert command.bounded
    assert (contacts.cone @ command.forces > -1e-6).all() and (np.abs(command.tau) < limit + 1e-6).all()
    a, f = contacts.forward_dynamics(q, v, command.tau)
    np.testing.assert_allclose(command.acceleration, a, atol=1e-7 * np.abs(a).max())
    np.testing.assert_allclose(command.forces, f, atol=1e-7 * np.abs(f).max())
    gradient = sum(2.0 * at.jacobian.T @ at.residual(command.acceleration) for at in command.tasks)
    gradient = np.concatenate([gradient, np.zeros(12)])
    bounds, free = active_gradients(controller, command, q, v)
    assert bounds.shape[1] > 2
    _, gap = nnls(np.hstack([bounds, free, -free]), gradient)
    assert gap < 1e-5 * np.abs(gradient).max()
    _, without = nnls(np.hstack([free, -free]), gradient)
    assert without > 1e-2 * np.abs(gradient).max()  # negative control: the bounds do act


def test_a_guess_changes_nothing(quadruped, rng):
    controller, v = standing(quadruped), 0.1 * rng.standard_normal(18)
    q, targets = quadruped.neutral(), at_rest(quadruped, (0.25, 0.1, 0.05))
    cold = controller.command(q, v, targets)
    other = controller.command(q, -v, at_rest(quadruped, (-0.3, 0.0, 0.1)))
    assert cold.bounded and other.bounded
    for guess in (cold, other):
        warm = controller.command(q, v, targets, guess)
        np.testing.assert_allclose(warm.tau, cold.tau, atol=1e-6)
        np.testing.assert_allclose(warm.forces, cold.forces, atol=1e-6)


def humanoid():
    """A robot with legs of six joints and arms of three that stands on its soles, and its law."""
    plan, x, y, z = Plan(1, (0.0, 0.0, -9.81)), (1, 0, 0), (0, 1, 0), (0, 0, 1)
    chest = {"center_of_mass": (0.0, 0.0, 0.2), "inertia": np.diag([0.5, 0.45, 0.2])}
    plan.add("root", "world", "pelvis", mb.Free(), mass=12.0, inertia=np.diag([0.1, 0.09, 0.08]))
    plan.add("waist", "pelvis", "chest", mb.Revolute(z), placed(z=0.1), mass=20.0, **chest)
    for s, side in (("left", 0.1), ("right", -0.1)):
        sole = {"mass": 1.0, "center_of_mass": (0.03, 0.0, -0.05), "inertia": np.diag([0.002, 0.004, 0.004])}
        for joint, parent, body, axis, place, inertia in (
            ("hip z", "pelvis", f"hip z {s}", z, placed(y=side), bar(1.0, 0.05)),
            ("hip x", f"hip z {s}", f"hip x {s}", x, None, bar(1.0, 0.05)),
            ("hip y", f"hip x {s}", f"thigh {s}", y, None, bar(6.0, 0.4)),
            ("knee", f"thigh {s}", f"shank {s}", y, placed(z=-0.4), bar(4.0, 0.4)),
            ("ankle y", f"shank {s}", f"ankle {s}", y, placed(z=-0.4), bar(0.5, 0.04)),
            ("ankle x", f"ankle {s}", f"foot {s}", x, None, sole),
            ("shoulder y", "chest", f"shoulder {s}", y, placed(y=2 * side, z=0.4), bar(0.5, 0.05)),
            ("shoulder x", f"shoulder {s}", f"upper {s}", x, None, bar(2.0, 0.3)),
            ("elbow", f"upper {s}", f"lower {s}", y, placed(z=-0.3), bar(1.5, 0.3)),
        ):
            start = {"hip y": -0.4, "knee": 0.8, "ankle y": -0.4, "elbow": -0.5}.get(joint)
            plan.add(f"{joint} {s}", parent, body, mb.Revolute(axis), place, start, **inertia)
    robot = plan.mechanism().build(gravity=plan.gravity)
    posture = np.concatenate([plan.reference[joint] for joint in robot.joint_names])
    soles = [SurfaceContact(f"foot {s}", 0.6, (0.1, 0.05), placed(0.03, z=-0.07)) for s in ("left", "right")]
    tasks = [
        CenterOfMassTask(damping=400.0, stiffness=3000.0, name="balance"),
        OrientationTask("chest", damping=40.0, stiffness=400.0, name="upright"),
        PostureTask(damping=5.0, stiffness=50.0, priority=1, name="posture"),
    ]
    return posture, WholeBodyController(robot, tasks, soles, torque_limits=150.0)


@pytest.mark.parametrize("count", [16, further(2000)])
def test_soles_keep_their_cones_at_all_states(count):
    """Where a foot is about to lift, sixteen bounds meet: the solver's verdict alone is not enough."""
    posture, law = humanoid()
    robot, contacts, rng = law.model, Contacts(law.model, law.contacts), np.random.default_rng(0)
    last = None
    for _ in range(count):
        q = mb.displace(robot, posture, 0.05 * rng.standard_normal(robot.nv))
        v, away = 0.1 * rng.standard_normal(robot.nv), rng.uniform(-1.0, 1.0, 3) * [0.9, 0.9, 0.3]
        goal = mb.center_of_mass(robot, q) + away
        targets = {"balance": goal, "upright": np.eye(3), "posture": posture[7:]}
        command = law.command(q, v, targets)
        largest = max(np.abs(command.forces).max(), 100.0)  # N; some ask to fall
        assert command.bounded and command.holds
        assert (contacts.cone @ command.forces).min() > -1e-11 * largest
        assert np.abs(command.tau).max() < 150.0 * (1.0 + 1e-11)
        for guess in (command, last):
            again = law.command(q, v, targets, guess).forces
            np.testing.assert_allclose(again, command.forces, atol=1e-9 * largest)
        last = command


def legged(units):
    """A robot of four legs that stands, its controllers, and its targets, in other units."""
    L, M, T, E = units.length, units.mass, units.time, units.energy
    plan, corners = Plan(1, (0.0, 0.0, -9.81)), [(x, y) for x in (0.25, -0.25) for y in (0.15, -0.15)]
    plan.add("root", "world", "trunk", mb.Free(), mass=9.0, inertia=np.diag([0.08, 0.2, 0.25]))
    for leg, (x, y) in enumerate(corners):
        plan.add(f"hip {leg}", "trunk", f"hip {leg}", mb.Revolute((1, 0, 0)), placed(x, y), **bar(0.8, 0.1))
        joint = mb.Revolute((0, 1, 0))
        plan.add(f"thigh {leg}", f"hip {leg}", f"thigh {leg}", joint, placed(0.0, y / 2), **bar(1.0, 0.2))
        plan.add(f"knee {leg}", f"thigh {leg}", f"shank {leg}", joint, placed(z=-0.2), **bar(0.3, 0.2))
    drawing = in_units(plan, units)
    robot = drawing.mechanism().build(gravity=drawing.gravity)
    feet = [PointContact(f"shank {leg}", 0.6, (0.0, 0.0, -0.2 * L)) for leg in range(4)]
    feet += [PointContact("shank 0", 0.6, (0.0, 0.0, -0.2 * L))]  # repeats another one
    tasks = [
        CenterOfMassTask(damping=150.0 * M / T, stiffness=1500.0 * M / T**2, name="balance"),
        OrientationTask("trunk", damping=15.0 * E * T, stiffness=150.0 * E, name="upright"),
        PostureTask(damping=2.0 * E * T, stiffness=20.0 * E, priority=1, name="posture"),
    ]
    given = {"torque_limits": 25.0 * E, "contact_damping": 4.0 / T, "give_way": True}
    return robot, WholeBodyController(robot, tasks, feet, **given)


def bar(mass, length):
    """The inertia of a rod that hangs below its joint."""
    each = mass * length**2 / 12.0
    return {
        "mass": mass,
        "center_of_mass": (0.0, 0.0, -length / 2),
        "inertia": np.diag([each, each, each / 9]),
    }


@pytest.mark.parametrize(
    "units", [Units(1e3, 1e3), further(Units(1e-3, 1e-3, 0.01)), further(Units(1e6, 1e-6, 1e3))]
)
def test_units_do_not_matter(rng, units):
    """The same robot in millimetres and grams has the same torques; also where contacts give way."""
    (robot, law), (_, its_law) = legged(Units()), legged(units)
    to, L, q = Scales(robot, units), units.length, robot.neutral()
    q[7:] = np.tile([0.0, 0.7, -1.4], 4)
    for speed, shift, holds in ((0.0, 0.0, True), (1e-3, 0.2, True), (0.05, 0.2, True), (30.0, 0.0, False)):
        p = mb.displace(robot, q, 0.01 * rng.standard_normal(18))
        v = speed * rng.standard_normal(18)
        if holds:  # five feet of which two are one: contacts that hold move with each other
            J = Contacts(robot, law.contacts).jacobian(p)
            v -= np.linalg.lstsq(J, J @ v)[0]
        goal = mb.center_of_mass(robot, q) + [shift, shift / 2, 0.0]
        targets = {"balance": goal, "upright": np.eye(3), "posture": q[7:]}
        one = law.command(p, v, targets)
        two = its_law.command(p * to.q, v * to.v, targets | {"balance": L * goal})
        assert one.holds is two.holds is holds and one.bounded is two.bounded is (shift > 0.0 or not holds)
        size = np.abs(one.tau).max()
        np.testing.assert_allclose(two.tau / to.tau, one.tau, atol=1e-10 * size)


def test_higher_priorities_hold_within_bounds(quadruped):
    """The posture, however far, costs the balance nothing; torques are at their limits."""
    q, v = quadruped.neutral(), np.zeros(18)
    tasks = [
        OrientationTask("trunk", damping=15.0, stiffness=150.0, name="upright"),
        PostureTask(damping=2.0, stiffness=2000.0, priority=1, name="posture"),
    ]
    command = WholeBodyController(quadruped, tasks, feet(quadruped)).command(
        q, v, {"upright": np.eye(3), "posture": q[7:] + 1.0}
    )
    assert command.bounded
    assert (
        np.abs(command.residuals["upright"]).max() < 1e-5 < 1.0 < np.abs(command.residuals["posture"]).max()
    )


def test_joints_stop_before_their_limits(arm):
    """A target beyond the limits, at full speed: q stays below q_max, and |v| below v_max."""
    task = PostureTask(damping=20.0, stiffness=400.0, name="posture")
    q, v, step, reached = np.zeros(6), np.zeros(6), 2e-3, []
    q[1] = 1.5
    controllers = [
        WholeBodyController(arm, [task], limit_time=0.03),
        WholeBodyController(arm, [task], limit_time=None),
    ]
    for controller in controllers:
        place, speed, command = q, v, None
        for _ in range(200):
            command = controller.command(place, speed, {"posture": [0.0, 2.5, 0.0, 0.0, 0.0, 0.0]}, command)
            assert (np.abs(command.tau) <= arm.limits.effort + 1e-6).all()
            speed = speed + step * command.acceleration
            place = place + step * speed
            if controller.limit_time is not None:
                assert (place <= arm.limits.upper).all() and (
                    np.abs(speed) <= arm.limits.velocity + 1e-2
                ).all()
        reached.append(place[1])
    assert arm.limits.upper[1] - 1e-2 < reached[0] <= arm.limits.upper[1] < reached[1]


KINDS = {
    "planar": (mb.Planar(), {"upper": (0.1, 0.2, 0.3)}),
    "cylindrical": (mb.Cylindrical((0, 0, 1)), {"upper": (0.3, 0.1)}),
    "universal": (mb.Universal((1, 0, 0), (0, 1, 0)), {"upper": (0.2, 0.3)}),
    "ball": (mb.Spherical(), {"velocity": (0.5, 0.4, 0.3)}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_limits_of_all_joint_types_stop_motions(kind):
    """Torques that push on: each coordinate stops at its limit, each velocity at its own, behind a ball."""
    joint, given = KINDS[kind]
    mechanism = mb.Mechanism()
    for name in ("root", "body"):
        mechanism.add_body(name, mass=1.0, inertia=np.diag([0.1, 0.2, 0.3]))
    mechanism.add_joint("ball", "world", "root", mb.Spherical())
    mechanism.add_joint("j", "root", "body", joint, limits=mb.joints.Limits(**given))
    robot = mechanism.build(gravity=(0.0, 0.0, 0.0))
    own, of_v = robot.configuration_slice("j"), robot.velocity_slice("j")
    there = mb.displace(robot, robot.neutral(), np.concatenate([np.zeros(3), np.full(joint.nv, 1.0)]))
    task, target = PostureTask(damping=1.0, stiffness=100.0, name="goal"), there[own]
    if kind == "ball":
        task = OrientationTask("body", damping=1.0, stiffness=100.0, name="goal")
        target = mb.frame_pose(robot, there, "body")[:3, :3]
    for time in (0.05, None):
        controller = WholeBodyController(robot, [task], limit_time=time)
        q, v, fastest = robot.neutral(), np.zeros(robot.nv), np.zeros(robot.nv)
        for _ in range(150):
            v = v + 4e-3 * controller.command(q, v, {"goal": target}).acceleration
            q, fastest = mb.displace(robot, q, 4e-3 * v), np.maximum(fastest, v)
        reached = q[own] if "upper" in given else fastest[of_v]
        bounds = np.array(*given.values())
        if time is None:  # a control
            assert (reached > 1.1 * bounds).all()
        else:
            np.testing.assert_allclose(reached, bounds, rtol=0.15 if kind == "ball" else 0.02)
            assert (reached <= bounds + 1e-4).all()


def test_limits_that_the_law_cannot_keep_are_refused():
    plan, task = mb.Mechanism(), OrientationTask("rod", damping=1.0, stiffness=1.0, name="upright")
    plan.add_body("rod", mass=1.0, center_of_mass=(0, 0, -1), inertia=np.eye(3))
    plan.add_joint("socket", "world", "rod", mb.Spherical(), limits=mb.joints.Limits(angle=1.0))
    with pytest.raises(ModelError, match="'socket'.*limit_time=None"):
        WholeBodyController(plan.build(), [task])
    WholeBodyController(plan.build(), [task], limit_time=None)
    bars = mb.Mechanism()
    for name in ("a", "b"):
        bars.add_body(name, mass=1.0, inertia=np.eye(3))
    z = mb.Revolute((0, 0, 1))
    bars.add_joint("first", "world", "a", z)
    bars.add_joint("second", "a", "b", z, limits=mb.joints.Limits(upper=1.0))
    bars.add_coupling("gear", {"first": 1.0, "second": -2.0})
    robot, task = bars.build(independent=["first"]), PostureTask(damping=1.0, name="posture")
    with pytest.raises(ModelError, match="loops or couplings determine it"):
        WholeBodyController(robot, [task])
    WholeBodyController(robot, [task], limit_time=None)


def test_a_lifted_foot_leaves_the_program(quadruped):
    """The command is that of a controller without its contact; the foot rises as its task says."""
    swing = PointTask(
        feet(quadruped)[0].frame, (0.0, 0.0, -0.22), damping=20.0, stiffness=100.0, name="swing"
    )
    posture = PostureTask(damping=2.0, stiffness=20.0, priority=2, name="posture")
    tasks, stands = [*standing(quadruped).tasks[:2], swing, posture], feet(quadruped)
    four, three = (WholeBodyController(quadruped, tasks, stands[k:], limit_time=None) for k in (0, 1))
    q, v = quadruped.neutral(), np.full(18, 0.01)
    foot = swing.on(quadruped).at(q, v).place
    targets = at_rest(quadruped, (-0.03, -0.03, 0.0)) | {"swing": foot + [0.0, 0.0, 0.05]}
    lifted = four.command(q, v, targets, lifted=[stands[0].frame])
    expected = three.command(q, v, targets)
    np.testing.assert_array_equal(lifted.tau, expected.tau)
    np.testing.assert_array_equal(lifted.forces, np.append(np.zeros(3), expected.forces))
    held = four.command(q, v, targets)
    assert held.forces[2] > 1.0 and lifted.forces[5::3].min() > -1e-6  # N
    rise = [c["swing"].jacobian[2] @ c.acceleration for c in (lifted, held)]
    assert rise[0] > 1.0 and abs(rise[1]) < 0.1 and lifted.holds
    with pytest.raises(ModelError, match="lifted"):
        four.command(q, v, targets, lifted=["trunk"])


def test_contacts_give_way(quadruped, rng):
    """Where no torques hold the feet, they miss as little as friction and torques allow: its KKT system."""
    q, v = state(quadruped, rng, speed=60.0)
    strict, soft = (standing(quadruped, give_way=way, limit_time=None) for way in (False, True))
    with pytest.raises(InfeasibleError, match="friction"):
        strict.command(q, v, at_rest(quadruped))
    command, contacts = soft.command(q, v, at_rest(quadruped)), Contacts(quadruped, soft.contacts)
    assert not command.holds and command.bounded
    assert (contacts.cone @ command.forces > -1e-4).all()
    assert (np.abs(command.tau) < quadruped.limits.effort + 1e-4).all()
    J, H = contacts.jacobian(q), mb.mass_matrix(quadruped, q)
    a = mb.forward_dynamics(quadruped, q, v, command.tau + J.T @ command.forces)
    np.testing.assert_allclose(command.acceleration, a, atol=1e-8 * np.abs(a).max())
    miss = J @ a + contacts.jacobian_rate(q, v) @ v
    gradient = np.concatenate([J.T @ np.linalg.solve(J @ np.linalg.solve(H, J.T), miss), np.zeros(12)])
    bounds, free = active_gradients(soft, command, q, v, tol=1e-4)
    free = free[:, :6]  # the trunk's dynamics, without contacts that hold
    gap, without = (nnls(np.hstack(parts), gradient)[1] for parts in ((bounds, free, -free), (free, -free)))
    assert np.abs(miss).max() > 1.0 and gap < 1e-5 * np.abs(gradient).max() < 1e-3 * without
    calm = np.zeros(18)
    np.testing.assert_array_equal(
        strict.command(q, calm, at_rest(quadruped)).tau, soft.command(q, calm, at_rest(quadruped)).tau
    )


@pytest.mark.parametrize("speed", [5.0, 80.0])
def test_a_robot_that_tumbles_has_a_command(quadruped, rng, speed):
    """Fifteen states in which no torques hold the feet: finite torques, within limits."""
    soft = standing(quadruped, give_way=True)
    for _ in range(15):
        q = mb.displace(quadruped, quadruped.neutral(), 0.6 * rng.standard_normal(18))
        command = soft.command(q, speed * rng.standard_normal(18), at_rest(quadruped))
        assert (np.abs(command.tau) <= quadruped.limits.effort + 1e-2).all()


# --- a robot that stands ----------------------------------------------------------------------------------


def simulate(robot, controller, q, v, targets, time=1.2, step=2e-3):
    """The motion on contacts that hold, by the midpoint rule; V, what is dissipated, and the least margin."""
    contacts, command = Contacts(robot, controller.contacts), None
    margin, storage, losses = np.inf, [], []
    for _ in range(round(time / step)):
        command = controller.command(q, v, targets, command)
        tau = command.tau
        a, f = contacts.forward_dynamics(q, v, tau, damping=50.0)
        middle = mb.displace(robot, q, 0.5 * step * v), v + 0.5 * step * a
        a, _ = contacts.forward_dynamics(*middle, tau, damping=50.0)
        q, v = mb.displace(robot, q, step * middle[1]), v + step * a
        margin = min(margin, float(contacts.margin(f)))
        storage.append(sum(command.storage[name] for name in ("balance", "upright")))
        losses.append(sum(command[name].dissipation for name in ("balance", "upright")))
    return q, v, np.array(storage), step * (np.sum(losses) - 0.5 * (losses[0] + losses[-1])), margin


def test_a_quadruped_stands_after_a_push(quadruped):
    """0.25 m/s of the trunk, sideways and ahead: it comes back, no foot slips, and V falls as it says."""
    controller, q, targets = standing(quadruped), quadruped.neutral(), at_rest(quadruped)
    J = Contacts(quadruped, controller.contacts).jacobian(q)
    H, push = mb.mass_matrix(quadruped, q), np.zeros(18)
    push[3:6] = 0.2, 0.15, 0.0
    # the velocity after an impulse: what the contacts leave of it
    v = push - np.linalg.solve(H, J.T @ np.linalg.solve(J @ np.linalg.solve(H, J.T), J @ push))
    end, speed, storage, gone, margin = simulate(quadruped, controller, q, v, targets)
    assert np.linalg.norm(mb.center_of_mass(quadruped, end) - targets["balance"]) < 2e-3
    assert np.abs(speed).max() < 2e-2 and margin > 0.0
    assert (np.diff(storage) < 1e-9).all() and storage[0] > 0.1
    np.testing.assert_allclose(storage[0] - storage[-1], gone, rtol=2e-2)
    assert np.abs(mb.difference(quadruped, q, end)).max() < 2e-2


def test_without_the_law_it_falls(quadruped):
    """The negative control: the torques that hold it at rest do not after a push."""
    controller, q, targets = standing(quadruped), quadruped.neutral(), at_rest(quadruped)
    tau = controller.torque(q, np.zeros(18), targets)
    contacts, v = Contacts(quadruped, controller.contacts), np.zeros(18)
    for k in range(300):
        a, _ = contacts.forward_dynamics(q, v, tau + (0.05 if k < 20 else 0.0), damping=50.0)
        q, v = mb.displace(quadruped, q, 4e-3 * (v + 4e-3 * a)), v + 4e-3 * a
        if np.abs(v).max() > 5.0:
            break
    assert np.abs(mb.difference(quadruped, quadruped.neutral(), q)).max() > 0.2


# --- bad input --------------------------------------------------------------------------------------------


def test_bad_controllers(arm, quadruped):
    point = PointTask("tool", damping=1.0, name="tool")
    slight = PostureTask(damping=1.0, weight=1e-13, name="slight")
    for make, error, word in (
        (lambda: WholeBodyController(arm, [point, point]), TaskError, "tool"),
        (lambda: WholeBodyController(arm, ["tool"]), TypeError, "task"),
        (lambda: WholeBodyController(arm, [point, slight]), TaskError, "slight"),
        (lambda: WholeBodyController(arm, [PointTask("tol", damping=1.0)]), ModelError, "tool"),
        (lambda: WholeBodyController(quadruped, [], [PointContact("foot", 0.5)]), ModelError, "foot"),
        (lambda: WholeBodyController(arm, [point], actuated=["elbow joint"]), ModelError, "elbow joint"),
        (lambda: WholeBodyController(arm, [point], torque_limits=[1.0, 2.0]), ShapeError, "torque_limits"),
        (lambda: WholeBodyController(arm, [point], torque_limits=0.0), ValueError, "positive"),
        (lambda: WholeBodyController(arm, [point], limit_time=0.0), ValueError, "limit_time"),
        (lambda: WholeBodyController(arm, [point], contact_damping=-1.0), ValueError, "contact_damping"),
        (lambda: WholeBodyController("arm", [point]), TypeError, "Model"),
        (lambda: WholeBodyController(arm, point), TypeError, "tasks"),
        (lambda: WholeBodyController(arm, [point], actuated="elbow"), TypeError, "actuated"),
        (lambda: WholeBodyController(arm, [point], coriolis="force"), ValueError, "force_cross"),
        (lambda: WholeBodyController(arm, [point], coriolis=np.eye(6)), TypeError, "coriolis"),
    ):
        with pytest.raises(error, match=word):
            make()


def test_bad_states_targets_and_programs(arm, quadruped):
    q, v, targets = quadruped.neutral(), np.zeros(18), at_rest(quadruped)
    controller = standing(quadruped)
    point = WholeBodyController(arm, [PointTask("tool", damping=1.0, name="tool")])
    wild = replace(point, coriolis=lambda q, v: np.full((6, 6), np.nan))
    fast = np.array([0.0, 80.0, 0.0, 0.0, 0.0, 0.0])
    same = [AngularMomentumTask(damping=1.0, name="spin"), PostureTask(damping=1.0, name="posture")]
    same.append(PostureTask(("front_left_knee",), damping=1.0, name="knee"))
    dependent = WholeBodyController(quadruped, same, feet(quadruped))
    for make, error, word in (
        (lambda: controller.command(q, v * np.nan, targets), NonFiniteError, "v"),
        (lambda: controller.command(q + np.inf, v, targets), NonFiniteError, "q"),
        (
            lambda: controller.command(q, v, targets | {"balance": [0.0, np.nan, 0.0]}),
            NonFiniteError,
            "balance",
        ),
        (lambda: controller.command(np.stack([q, q]), v, targets), ShapeError, "q"),
        (lambda: controller.command(q, v, targets | {"upright": 2.0 * np.eye(3)}), TaskError, "upright"),
        (lambda: controller.command(q, v, targets | {"arm": q}), TaskError, "arm"),
        (lambda: controller.command(q, v, {"balance": targets["balance"]}), TaskError, "upright"),
        (lambda: controller.command(q, v, list(targets)), TypeError, "targets"),
        (lambda: controller.command(q, v, targets, lifted="foot"), TypeError, "lifted"),
        (lambda: wild.command(np.zeros(6), fast, {"tool": np.zeros(3)}), NonFiniteError, "coriolis"),
        (
            lambda: point.command(np.zeros(6), fast, {"tool": np.zeros(3)}),
            InfeasibleError,
            "torque of 'lift'",
        ),
        (
            lambda: dependent.command(q, v, {"posture": q[7:], "knee": q[9:10], "spin": Target(None)}),
            TaskError,
            "'knee'",
        ),
        (lambda: controller.command(q, v, targets)["arm"], KeyError, "balance"),
    ):
        with pytest.raises(error, match=word):
            make()


def test_the_page_runs():
    run_page("whole_body.md", blocks=8)
