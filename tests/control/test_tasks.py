"""Tasks: Jacobians, errors and their rates by differences; the passport of each task's Coriolis matrix."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError, ShapeError
from connections.control import (
    AngularMomentumTask,
    CenterOfMassTask,
    OrientationTask,
    PointTask,
    PoseTask,
    PostureTask,
    RobotTask,
    Target,
)
from connections.control.errors import GainError, TaskError
from connections.coriolis import induced_coriolis_matrix, task_space_coriolis_matrix

SYMMETRIC = np.array([[3.0, 0.4, 0.0], [0.4, 2.0, -0.3], [0.0, -0.3, 1.0]])
TASKS = {
    "point": PointTask("shank", (0.1, -0.2, 0.3), damping=SYMMETRIC, stiffness=SYMMETRIC, rate=1.5),
    "orientation": OrientationTask("thigh", damping=2.0, stiffness=SYMMETRIC, rate=0.7),
    "pose": PoseTask("arm", damping=2.0, stiffness=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), rate=0.7),
    "posture": PostureTask(("knee", "hip"), damping=1.0, stiffness=SYMMETRIC, rate=0.5),
    "center of mass": CenterOfMassTask(damping=1.0, stiffness=SYMMETRIC, rate=1.0),
    "angular momentum": AngularMomentumTask(damping=2.0),
}
COUNT = 120  # C(10, 3) members


def rate(f, robot, q, v, a=0.0, h=1e-3):
    """The derivative of f(q, v, t) at t = 0 along a motion of velocity v, acceleration a; fourth order."""
    values = [f(mb.displace(robot, q, k * h * v), v + k * h * a, k * h) for k in (-2.0, -1.0, 1.0, 2.0)]
    return np.tensordot(np.array([1.0, -8.0, 8.0, -1.0]) / (12.0 * h), np.stack(values), axes=1)


def state(robot, rng):
    return robot.random(rng), *rng.standard_normal((3, robot.nv))


def moving_target(name, robot, rng):
    """t -> Target, moving with a velocity and an acceleration that it says."""
    q, w, a, _ = state(robot, rng)
    task = TASKS[name].on(robot)
    if name == "angular momentum":
        return lambda t: Target(None, w[:3] + t * a[:3], a[:3])

    def target(t):
        # the place of the same task of a robot that moves with the constant velocity w
        place = task.at(mb.displace(robot, q, t * w), w)
        return Target(place.place, place.velocity, place.jacobian_rate @ w)

    return target


@pytest.mark.parametrize("name", TASKS)
def test_jacobian_and_its_rate(name, limbs, rng):
    q, v, _, _ = state(limbs, rng)
    task = TASKS[name].on(limbs)
    found = task.at(q, v)
    expected = rate(lambda p, u, t: task.at(p, u).jacobian, limbs, q, v)
    np.testing.assert_allclose(found.jacobian_rate, expected, atol=1e-9)
    np.testing.assert_allclose(found.velocity, found.jacobian @ v)
    if name in ("point", "posture", "center of mass"):
        moved = rate(lambda p, u, t: task.at(p, u).place, limbs, q, v)
        np.testing.assert_allclose(found.velocity, moved, atol=1e-9)


def test_angular_momentum_is_about_the_center_of_mass(limbs, rng):
    """Against the sum over bodies, and constant in free fall."""
    q, v, _, _ = state(limbs, rng)
    found = AngularMomentumTask(damping=1.0).on(limbs).at(q, v)
    inertias, poses = limbs.kinematics.tree.inertias, mb.forward_kinematics(limbs, q)
    momenta = np.einsum("nab,nb->na", inertias, (mb.body_jacobians(limbs, q) @ v).reshape(-1, 6))
    c, total = mb.center_of_mass(limbs, q), np.zeros(3)
    for pose, (*n_f,) in zip(poses, momenta, strict=True):
        n, f = pose[:3, :3] @ n_f[:3], pose[:3, :3] @ n_f[3:]
        total += n + np.cross(pose[:3, 3] - c, f)
    np.testing.assert_allclose(found.velocity, total, atol=1e-12)
    linear = mb.total_mass(limbs) * mb.center_of_mass_jacobian(limbs, q) @ v
    assert np.abs(np.cross(c, linear)).max() > 1e-2  # control: what it would differ by about the origin
    a = mb.forward_dynamics(limbs, q, v, np.zeros(limbs.nv))
    np.testing.assert_allclose(found.jacobian @ a + found.jacobian_rate @ v, 0.0, atol=1e-11)
    np.testing.assert_allclose(
        CenterOfMassTask(damping=1.0).on(limbs).at(q, v).jacobian,
        mb.center_of_mass_jacobian(limbs, q),
        atol=1e-14,
    )


@pytest.mark.parametrize("name", TASKS)
def test_error_falls_as_its_rate_says(name, limbs, rng):
    """edot = E (u - u_d) and the rate of u_d, with a target that moves itself."""
    q, v, _, _ = state(limbs, rng)
    task, target = TASKS[name].on(limbs), moving_target(name, limbs, rng)
    found = task.at(q, v, target(0.0))
    errors = rate(lambda p, u, t: task.at(p, u, target(t)).error.e, limbs, q, v)
    np.testing.assert_allclose(found.error.rate, errors, atol=1e-8)
    feedforward = rate(lambda p, u, t: task.at(p, u, target(t)).error.u_d, limbs, q, v)
    np.testing.assert_allclose(found.error.a_d, feedforward, atol=1e-8)
    np.testing.assert_allclose(found.sliding, found.error.difference + TASKS[name].rate * found.error.e)
    if name in ("orientation", "pose"):
        assert np.abs(found.error.E - np.eye(task.size)).max() > 0.1
        np.testing.assert_allclose(found.error.E @ found.error.e, found.error.e, atol=1e-13)


def test_an_orientation_is_the_pose_without_its_place(limbs, rng):
    q, v, _, _ = state(limbs, rng)
    T = mb.frame_pose(limbs, limbs.random(rng), "arm")
    pose = PoseTask("arm", damping=1.0).on(limbs).at(q, v, T)
    turn = OrientationTask("arm", damping=1.0).on(limbs).at(q, v, T[:3, :3])
    np.testing.assert_allclose(turn.error.e, pose.error.e[:3], atol=1e-14)
    np.testing.assert_allclose(turn.error.E, pose.error.E[:3, :3], atol=1e-13)
    half = OrientationTask("arm", damping=1.0).on(limbs)
    R = turn.place
    for axis in (np.eye(3)[2], np.array([0.6, 0.0, -0.8])):
        almost = np.pi - 1e-9
        x = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
        X = np.eye(3) + np.sin(almost) * x + (1.0 - np.cos(almost)) * x @ x
        np.testing.assert_allclose(half.at(q, v, R @ X.T).error.e, almost * axis, atol=1e-7)


def poses(rng):
    """Poses whose rotations are tiny, small, of any angle, and of nearly half a turn."""
    for angle in (1e-9, 1e-3, 0.02, 1.1, 2.9, np.pi - 1e-5):
        axis = rng.standard_normal(3)
        yield pose_of(angle * axis / np.linalg.norm(axis), rng.standard_normal(3))


def pose_of(w, p):
    """exp of the twist [w; p] for a unit of time, (4, 4)."""
    (x, y, z), twist = w, np.zeros((4, 4))
    twist[:3, :3], twist[:3, 3] = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]], p
    return expm(twist)


def test_the_error_is_the_logarithm_of_the_pose_seen_from_its_target(limbs, rng):
    """exp e = T_d^-1 T, by SciPy's exponential, and not its inverse."""
    q, v, _, _ = state(limbs, rng)
    task = PoseTask("arm", damping=1.0).on(limbs)
    T = task.at(q, v).place
    for X in poses(rng):
        e = task.at(q, v, T @ np.linalg.inv(X)).error.e
        np.testing.assert_allclose(pose_of(e[:3], e[3:]), X, atol=1e-10)
        assert np.abs(pose_of(-e[:3], -e[3:]) - X).max() > 0.1


def test_targets_may_be_any_arrays(limbs, rng):
    """Read-only, strided, and of JAX: the same error to the last digit."""
    q, v, u, _ = state(limbs, rng)
    T = mb.frame_pose(limbs, limbs.random(rng), "arm")
    task, u = OrientationTask("arm", damping=1.0).on(limbs), u[:3]
    expected = task.at(q, v, Target(T[:3, :3].copy(), u, u)).error
    fixed = T[:3, :3].copy()
    fixed.flags.writeable = False
    spread = np.repeat(u, 2)[::2]
    for target in (
        Target(T[:3, :3], spread, spread),
        Target(fixed, u, u),
        Target(jnp.array(fixed), list(u), u),
    ):
        for one, two in zip(task.at(q, v, target).error, expected, strict=True):
            np.testing.assert_array_equal(one, two)


# --- inertia and Coriolis matrix -----------------------------------------------------------------------


def members(robot):
    """Coriolis matrices of the family: without torsion, (v x*) I, and one with a contorsion of its own."""
    beta = np.random.default_rng(1).standard_normal(COUNT)
    return {
        "christoffel": "christoffel",
        "force_cross": "force_cross",
        "contorsion": robot.system(gamma=-0.7, beta=beta).coriolis_matrix,
    }


@pytest.mark.parametrize("name", TASKS)
def test_passport(name, limbs, rng):
    """Lambda_dot = C_t + C_t^T, with Lambda from the inverse mass matrix and differences; linear in v."""
    q, v, _, _ = state(limbs, rng)
    task = TASKS[name].on(limbs)

    def inertia(p, u, t):
        J = task.at(p, u).jacobian
        return np.linalg.inv(J @ mb.inverse_mass_matrix(limbs, p) @ J.T)

    Lambda_dot, found = rate(inertia, limbs, q, v), {}
    for member, coriolis in members(limbs).items():
        at = task.at(q, v, coriolis=coriolis)
        C = found[member] = at.coriolis_matrix
        scale = np.abs(C).max() + np.abs(Lambda_dot).max() + np.abs(at.inertia).max()
        np.testing.assert_allclose(at.inertia, inertia(q, v, 0.0), atol=1e-11 * scale)
        np.testing.assert_allclose(C + C.T, Lambda_dot, atol=1e-8 * scale)
        np.testing.assert_allclose(at.inertia_rate, Lambda_dot, atol=1e-8 * scale)
        np.testing.assert_allclose(
            task.at(q, 2.0 * v, coriolis=coriolis).coriolis_matrix, 2.0 * C, atol=1e-11 * scale
        )
        assert not np.any(task.at(q, 0.0 * v, coriolis=coriolis).coriolis_matrix)
    # negative controls: the members differ, and a C that is not skew has no passport
    assert np.abs(found["christoffel"] - found["contorsion"]).max() > 1e-2
    C = mb.coriolis_matrix(limbs, q, v)
    wrong = task.at(q, v, coriolis=lambda p, u: C + np.diag(C @ v)).coriolis_matrix
    assert np.abs(wrong + wrong.T - Lambda_dot).max() > 1e-2


@pytest.mark.parametrize("name", ["point", "angular momentum"])
def test_law_with_differences(name, limbs, rng):
    """[W] (17) as it stands: A^T C A + A^T H Adot, with Adot by differences along the actual motion."""
    q, v, _, _ = state(limbs, rng)
    task, H = TASKS[name].on(limbs), mb.mass_matrix(limbs, q)
    at = task.at(q, v, coriolis="force_cross")
    A, A_dot = at.inclusion, rate(lambda p, u, t: task.at(p, u).inclusion, limbs, q, v)
    np.testing.assert_allclose(at.jacobian @ A, np.eye(task.size), atol=1e-12)
    np.testing.assert_allclose(A.T @ H @ A, at.inertia, atol=1e-11)
    C = mb.coriolis_matrix(limbs, q, v, body_factor="force_cross")
    np.testing.assert_allclose(at.coriolis_matrix, induced_coriolis_matrix(C, H, A, A_dot), atol=1e-8)


@pytest.mark.further
def test_a_point_has_the_task_space_matrix_of_the_definition(rng):
    """Along the motion of a pan and a tilt, whose Phi depends on q: the definition in JAX."""
    mechanism = mb.Mechanism()
    mechanism.add_body("head", mass=1.3, center_of_mass=(0.1, 0.0, 0.2), inertia=np.diag([0.1, 0.2, 0.15]))
    mechanism.add_joint("neck", "world", "head", mb.Universal((1, 0, 0), (0, 1, 0)), np.eye(4))
    robot = mechanism.build()
    q, v = rng.standard_normal((2, 2))

    def height(p):
        return robot.frame_pose_at(p, "head")[:3, :3] @ jnp.array([0.1, 0.2, 0.3])

    task = PointTask("head", (0.1, 0.2, 0.3), damping=1.0).on(robot)
    expected = task_space_coriolis_matrix(robot.definition.connection, lambda p: height(p)[1:], q, v)
    along = RobotTask(
        task.task, robot, lambda state: tuple(x[1:] for x in task.motion(state)), np.eye(2), np.zeros((2, 2))
    )
    np.testing.assert_allclose(along.at(q, v).coriolis_matrix, expected, atol=1e-12)
    assert np.abs(expected).max() > 1e-3


# --- the law of one task ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_storage_falls_as_it_is_dissipated(name, limbs, rng):
    """V' by differences of V along a motion, at any acceleration; the wish makes the residual vanish."""
    q, v, a, _ = state(limbs, rng)
    task, target = TASKS[name].on(limbs), moving_target(name, limbs, rng)
    for coriolis in members(limbs).values():
        at = task.at(q, v, target(0.0), coriolis)
        s = at.sliding
        given = rate(lambda p, u, t: task.at(p, u, target(t)).storage, limbs, q, v, a)
        np.testing.assert_allclose(at.storage_rate(a), given, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(given, s @ at.residual(a) - at.dissipation, rtol=1e-7, atol=1e-8)
        sliding_rate = rate(lambda p, u, t: task.at(p, u, target(t)).sliding, limbs, q, v, a)
        forces = at.inertia @ sliding_rate + (at.coriolis_matrix + task.D) @ s + at.error.pull(task.K)
        np.testing.assert_allclose(at.residual(a), forces, atol=1e-7 * np.abs(forces).max())
    wish = a + at.inclusion @ (at.wanted - at.jacobian @ a)
    np.testing.assert_allclose(at.residual(wish), 0.0, atol=1e-10 * np.abs(forces).max())
    np.testing.assert_allclose(at.storage_rate(wish), -at.dissipation, rtol=1e-9)
    assert at.dissipation > 0.0


# --- bad input --------------------------------------------------------------------------------------------


def pendulum():
    mechanism = mb.Mechanism()
    mechanism.add_body("rod", mass=1.0, center_of_mass=(0.1, 0.0, 0.2), inertia=0.1 * np.eye(3))
    mechanism.add_joint("hinge", "world", "rod", mb.Revolute((0, 1, 0)), np.eye(4))
    return mechanism.build()


def test_bad_tasks(limbs, rng):
    for make, error, word in (
        (lambda: PointTask("shin", damping=1.0).on(limbs), ModelError, "shank"),
        (lambda: PostureTask(("elbow",), damping=1.0).on(limbs), ModelError, "elbow"),
        (lambda: PostureTask(("base",), damping=1.0).on(limbs), ModelError, "quaternion"),
        (lambda: PostureTask((), damping=1.0).on(limbs), TaskError, "joints"),
        (lambda: PostureTask(("knee", "knee"), damping=1.0).on(limbs), TaskError, "once"),
        (lambda: PointTask("shank", damping=0.0).on(limbs), GainError, "damping"),
        (lambda: PointTask("shank", damping=1.0, stiffness=-1.0).on(limbs), GainError, "stiffness"),
        (lambda: PointTask("shank", damping=(1.0, 2.0)).on(limbs), ShapeError, "damping"),
        (lambda: PointTask("shank", damping=1.0, rate=-1.0), TaskError, "rate"),
        (lambda: PointTask("shank", damping=1.0, weight=0.0), TaskError, "weight"),
        (lambda: PointTask("shank", damping=1.0, priority=0.5), TaskError, "priority"),
        (lambda: AngularMomentumTask(damping=1.0, rate=1.0).on(limbs), TaskError, "place"),
        (lambda: CenterOfMassTask(damping=1.0).on(pendulum()), ModelError, "free"),
        (lambda: PointTask("shank", damping=1.0).on("limbs"), TypeError, "Model"),
    ):
        with pytest.raises(error, match=word):
            make()


def test_bad_states_and_targets(limbs, rng):
    q, v, _, _ = state(limbs, rng)
    point, turn = PointTask("shank", damping=1.0).on(limbs), OrientationTask("shank", damping=1.0).on(limbs)
    for make, error, word in (
        (lambda: point.at(q, v).error, TaskError, "no target"),
        (lambda: point.at(q, v, [0.0, 0.0]), ShapeError, "place"),
        (lambda: point.at(q, v, [0.0, np.nan, 0.0]), NonFiniteError, "point of shank"),
        (lambda: point.at(q, v, Target(np.zeros(3), np.zeros(2))), ShapeError, "velocity"),
        (lambda: turn.at(q, v, np.diag([1.0, 1.0, -1.0])), TaskError, "rotation"),
        (lambda: turn.at(q, v, 1.1 * np.eye(3)), TaskError, "rotation"),
        (lambda: turn.at(q, v, np.full((3, 3), np.nan)), TaskError, "rotation"),
        (lambda: turn.at(q, v, np.diag([1.0, 1.0, np.nan])), TaskError, "rotation"),
        (lambda: turn.at(q, v, np.eye(3)[[1, 0, 2]]), TaskError, "rotation"),
        (lambda: turn.at(q, v, np.stack([np.eye(3)] * 2)), ShapeError, "place"),
        (lambda: turn.at(q, v, Target(np.eye(3), np.zeros((2, 3)))), ShapeError, "velocity"),
        (lambda: point.at(q, v, np.zeros((2, 3))), ShapeError, "place"),
        (lambda: point.at(np.stack([q, q]), v), ShapeError, "q"),
        (lambda: point.at(q, v * np.nan), NonFiniteError, "v"),
        (lambda: TASKS["angular momentum"].on(limbs).at(q, v, np.zeros(3)), TaskError, "no place"),
    ):
        with pytest.raises(error, match=word):
            make()


def test_components_that_depend_on_each_other():
    """A pendulum cannot turn about x."""
    at = OrientationTask("rod", damping=1.0).on(pendulum()).at(np.ones(1), np.ones(1))
    with pytest.raises(TaskError, match="orientation of rod"):
        print(at.inertia)
