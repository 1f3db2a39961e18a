"""The recursions on robots of example-robot-data against Pinocchio, and the joints where Pinocchio errs."""

import warnings

import numpy as np
import pinocchio as pin
import pytest
from mechanisms import NO_BODY, derivative_along, random_body, random_placement, sample
from pinocchio_oracle import PinocchioRobot
from robots import robot_path

from connections import multibody as mb

TOL = 1e-9

#: Robots on a fixed base, and those that are set free.
FIXED = {
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "ur10": "ur_description/urdf/ur10_robot.urdf",
    "kinova": "kinova_description/robots/kinova.urdf",
    "xarm7": "xarm_description/urdf/xarm7.urdf",
    "z1": "z1_description/urdf/z1.urdf",
    "so100": "so_arm_description/urdf/so100.urdf",
    "allegro hand": "allegro_hand_description/urdf/allegro_left_hand.urdf",
    "finger": "finger_edu_description/robots/finger_edu.urdf",
    "double pendulum": "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
}
FLOATING = {
    "anymal b": "anymal_b_simple_description/robots/anymal.urdf",
    "anymal b with arm": "anymal_b_simple_description/robots/anymal-kinova.urdf",
    "anymal c": "anymal_c_simple_description/urdf/anymal.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "a1": "a1_description/urdf/a1.urdf",
    "hyq": "hyq_description/robots/hyq_no_sensors.urdf",
    "b1 with arm": "b1_description/urdf/b1-z1.urdf",
    "bolt": "bolt_description/robots/bolt.urdf",
    "borinot": "borinot_description/urdf/borinot_flying_arm_2.urdf",
    "iris": "iris_description/robots/iris.urdf",
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "g1 with hands": "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",
    "icub": "icub_description/robots/icub.urdf",
    "human": "human_description/robots/human.urdf",
    "romeo": "romeo_description/urdf/romeo_small.urdf",
    "alex": "alex_description/urdf/alex_sake_hands.urdf",
    "simple humanoid": "simple_humanoid_description/urdf/simple_humanoid.urdf",
    "centauro": "centauro_description/urdf/centauro.urdf",
}
ROBOTS = [*FIXED, *FLOATING]


class Robot:
    """A robot in both libraries, and a few states of it."""

    def __init__(self, name):
        path, floating = robot_path({**FIXED, **FLOATING}[name]), name in FLOATING
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mb.InertiaWarning)
            self.model = mb.from_urdf(path, floating_base=floating)
        self.oracle = PinocchioRobot(path, floating)

    def theirs(self, method, *states):
        return np.stack([getattr(self.oracle, method)(*state) for state in zip(*states, strict=True)])


@pytest.fixture(scope="module")
def robots():
    cache = {}

    def get(name):
        if name not in cache:
            cache[name] = Robot(name)
        return cache[name]

    return get


def gap(ours, theirs):
    """Largest difference relative to the largest entry."""
    assert ours.shape == theirs.shape
    return np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs))


@pytest.mark.parametrize("name", ROBOTS)
def test_matrices(name, robots, rng):
    """H, C, Hdot and H^-1."""
    robot = robots(name)
    assert robot.model.joint_names == robot.oracle.joint_names
    q, v = sample(robot.model, rng, 4)
    H, C = mb.mass_matrix(robot.model, q), mb.coriolis_matrix(robot.model, q, v)
    theirs = robot.theirs("coriolis_matrix", q, v)
    assert gap(H, robot.theirs("mass_matrix", q)) < TOL
    assert gap(C, theirs) < TOL
    assert gap(mb.mass_matrix_rate(robot.model, q, v), theirs + np.swapaxes(theirs, 1, 2)) < TOL
    condition = np.max(np.linalg.cond(H))  # 1e9 and more where links hardly have inertia, as icub's
    inverse = robot.theirs("inverse_mass_matrix", q)
    assert gap(mb.inverse_mass_matrix(robot.model, q), inverse) < max(TOL, 1e-15 * condition)
    assert gap(np.swapaxes(C, 1, 2), theirs) > 1e-2  # negative controls: transposed, and reordered
    assert gap(H[:, ::-1, ::-1], robot.theirs("mass_matrix", q)) > 1e-2


@pytest.mark.parametrize("name", ROBOTS)
def test_dynamics(name, robots, rng):
    """Gravity, inverse and forward dynamics, and the two products with C."""
    robot = robots(name)
    q, v = sample(robot.model, rng, 4)
    a, tau = rng.standard_normal((2, *v.shape))
    theirs = robot.theirs("inverse_dynamics", q, v, a)
    assert gap(mb.gravity(robot.model, q), robot.theirs("gravity", q)) < TOL
    assert gap(mb.inverse_dynamics(robot.model, q, v, a), theirs) < TOL
    forward = robot.theirs("forward_dynamics", q, v, tau)
    assert gap(mb.forward_dynamics(robot.model, q, v, tau), forward) < TOL
    C = robot.theirs("coriolis_matrix", q, v)
    assert gap(mb.coriolis_product(robot.model, q, v, a), np.einsum("nik,nk->ni", C, a)) < TOL
    assert gap(mb.coriolis_transpose_product(robot.model, q, v, a), np.einsum("nki,nk->ni", C, a)) < TOL
    down = robot.model.with_gravity((0.0, 0.0, 9.81))  # negative control
    assert gap(mb.inverse_dynamics(down, q, v, a), theirs) > 1e-2


@pytest.mark.parametrize("name", ROBOTS)
def test_regressor(name, robots, rng):
    """At v_r = v Pinocchio's regressor of the joint torques, column by column."""
    robot = robots(name)
    q, v = sample(robot.model, rng, 2)
    a = rng.standard_normal(v.shape)
    theirs = robot.theirs("regressor", q, v, a)
    assert gap(mb.regressor(robot.model, q, v, v, a), theirs) < TOL
    assert gap(mb.regressor(robot.model, q, v, -v, a), theirs) > 1e-2  # negative control


@pytest.mark.parametrize("name", ["ur5", "allegro hand", "anymal b", "bolt", "alex"])
def test_christoffel_symbols(name, robots, rng):
    """Pinocchio's C is torsion-free where Phi is constant: one C per unit velocity is Gamma."""
    robot = robots(name)
    q, _ = sample(robot.model, rng, 2)
    theirs, ours = robot.theirs("christoffel_symbols", q), mb.christoffel_symbols(robot.model, q)
    assert gap(ours, theirs) < TOL
    assert gap(np.swapaxes(ours, 1, 2), theirs) > 1e-2  # negative controls: other pairs of indices
    assert gap(np.swapaxes(ours, 1, 3), theirs) > 1e-2


# --- where Pinocchio is wrong -----------------------------------------------------------------------------


def _composite(*joints):
    composite = pin.JointModelComposite(joints[0])
    for joint in joints[1:]:
        composite.addJoint(joint)
    return composite


X, Y, Z = np.eye(3)

#: Joints whose Phi depends on the configuration: Pinocchio's, and ours of the same motion, in series.
VARIABLE = {
    "universal": (lambda: pin.JointModelUniversal(X, Y), [mb.Universal(X, Y)]),
    "ZYX-spherical": (pin.JointModelSphericalZYX, [mb.Revolute(Z), mb.Revolute(Y), mb.Revolute(X)]),
    "composite, rotations": (
        lambda: _composite(pin.JointModelRX(), pin.JointModelRY()),
        [mb.Universal(X, Y)],
    ),
    "composite, planar": (
        lambda: _composite(pin.JointModelPX(), pin.JointModelPY(), pin.JointModelRZ()),
        [mb.Planar()],
    ),
}


def chain(rng, theirs, ours):
    """Revolute, the joint in question, revolute: Pinocchio's model and ours."""
    model, mechanism, last, root = pin.Model(), mb.Mechanism(), 0, "world"
    for number, (joint, series) in enumerate(
        [(pin.JointModelRY(), [mb.Revolute(Y)]), (theirs, ours), (pin.JointModelRZ(), [mb.Revolute(Z)])]
    ):
        body, placement = random_body(rng), random_placement(rng)
        last = model.addJoint(last, joint, pin.SE3(placement), f"joint {number}")
        inertia = pin.Inertia(body["mass"], body["center_of_mass"], body["inertia"])
        model.appendBodyToJoint(last, inertia, pin.SE3.Identity())
        for part, ours_joint in enumerate(series):
            name = f"body {number} {part}"
            mechanism.add_body(name, **(body if part == len(series) - 1 else NO_BODY))
            mechanism.add_joint(f"to {name}", root, name, ours_joint, placement if part == 0 else None)
            root = name
    return PinocchioRobot.of(model), mechanism.build()


def flaws(C, v, bias, rate):
    """Relative residuals of C v = bias and Hdot = C + C^T."""
    return gap(C @ v, bias), gap(C + C.T, rate)


@pytest.mark.parametrize("name", VARIABLE)
def test_pinocchio_errs_where_columns_depend_on_the_configuration(name, rng):
    """H and the inverse dynamics agree; of the Coriolis matrices only ours has C v and Hdot right."""
    factory, series = VARIABLE[name]
    oracle, model = chain(rng, factory(), series)
    q, v = rng.uniform(0.3, 1.0, (2, model.nv))
    rate = derivative_along(model, lambda p: mb.mass_matrix(model, p), q, v)
    bias = mb.inverse_dynamics(model, q, v, 0.0 * v) - mb.gravity(model, q)
    assert gap(mb.mass_matrix(model, q), oracle.mass_matrix(q)) < TOL
    assert gap(mb.gravity(model, q), oracle.gravity(q)) < TOL
    assert gap(mb.inverse_dynamics(model, q, v, v), oracle.inverse_dynamics(q, v, v)) < TOL
    assert max(flaws(mb.coriolis_matrix(model, q, v), v, bias, rate)) < TOL
    assert min(flaws(oracle.coriolis_matrix(q, v), v, bias, rate)) > 1e-2


def test_pinocchio_is_right_where_columns_are_constant(rng):
    """Its planar joint moves in body axes, ours in joint axes: v_ours = A v_theirs, A = diag(1, R, 1, 1)."""
    oracle, model = chain(rng, pin.JointModelPlanar(), [mb.Planar()])
    q, v = rng.uniform(0.3, 1.0, (2, model.nv))
    c, s = np.cos(q[3]), np.sin(q[3])
    A, A_dot = np.eye(5), np.zeros((5, 5))
    A[1:3, 1:3] = [[c, -s], [s, c]]
    A_dot[1:3, 1:3] = np.array([[-s, -c], [c, -s]]) * v[3]
    ours, theirs = v.copy(), A.T @ v
    H, C = oracle.mass_matrix(q), oracle.coriolis_matrix(q, theirs)
    assert gap(A.T @ mb.mass_matrix(model, q) @ A, H) < TOL
    induced = A.T @ (mb.coriolis_matrix(model, q, ours) @ A + mb.mass_matrix(model, q) @ A_dot)
    assert gap(induced, C) < TOL
    assert gap(A.T @ mb.coriolis_matrix(model, q, ours) @ A, C) > 1e-2  # negative control: without A_dot
