"""Rolling and momentum as one-forms: moved points by differences, by hand, Pinocchio with multipliers."""

from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pinocchio_oracle import PinocchioRobot
from scipy.integrate import solve_ivp
from scipy.linalg import null_space
from scipy.spatial.transform import Rotation

import connections as cn
from connections import multibody as mb

DATA = Path(__file__).parents[1] / "data"
RADIUS, HALF_AXLE = 0.1, 0.2


def shift(x, y=0.0, z=0.0):
    placement = np.eye(4)
    placement[:3, 3] = x, y, z
    return placement


# --- one-forms of contacts -------------------------------------------------------------------------------

HULL, ROTOR_BODY = (
    (2.0, (0.1, 0, 0.2), np.diag([1.0, 2.0, 1.5])),
    (0.7, (0, -0.2, 0.1), np.diag([0.5, 0.4, 0.6])),
)
AXIS, CENTER, NORMAL, ROTOR = (0.3, 1.0, 0.2), (0.1, 0.0, -0.05), (0.2, -0.1, 1.0), (0.1, 0.4, 1.0)
DIRECTIONS = np.random.default_rng(1).normal(size=(7, 6))
CONTACTS = (
    mb.Wheel("rotor", 0.3, AXIS, CENTER, NORMAL, ("normal", "rolling", "lateral")),
    mb.Ball("hull", 0.5, CENTER, NORMAL, ("rolling", "normal")),
    mb.Blade("rotor", (1.0, 2.0, 0.5), CENTER),
)


@cache
def flyer():
    mechanism = mb.Mechanism()
    mechanism.add_body("hull", *HULL)
    mechanism.add_body("rotor", *ROTOR_BODY)
    mechanism.add_joint("fly", "world", "hull", mb.Free())
    mechanism.add_joint("turn", "hull", "rotor", mb.Revolute(ROTOR), shift(0.3, 0.1, -0.2))
    return mechanism.build()


@cache
def forms_of_the_flyer():
    """q -> those of all contacts, and those of momenta along DIRECTIONS."""
    rolling, momenta = mb.rolling_forms(flyer(), CONTACTS), mb.momentum_forms(flyer(), DIRECTIONS)
    return jax.jit(lambda q: (rolling(q), momenta(q)))


def poses(q):
    """Rotation and position of the two bodies, by SciPy."""
    hull = Rotation.from_quat(q[3:7])
    rotor = hull * Rotation.from_rotvec(q[7] * np.array(ROTOR) / np.linalg.norm(ROTOR))
    return {"hull": (hull, q[:3]), "rotor": (rotor, q[:3] + hull.apply([0.3, 0.1, -0.2]))}


def moved(q, v, t):
    """q after time t of constant v, body twist [omega; u] of the hull first; to first order in t."""
    turn = Rotation.from_quat(q[3:7])
    return np.concatenate(
        [
            q[:3] + t * turn.apply(v[3:6]),
            (turn * Rotation.from_rotvec(t * v[:3])).as_quat(),
            q[7:] + t * v[6:],
        ]
    )


def test_forms_are_velocities_of_the_material_point_at_the_contact(rng):
    q, v = flyer().random(rng), rng.normal(size=7)
    W = np.asarray(forms_of_the_flyer()(q)[0]) @ v
    normal, here = np.array(NORMAL) / np.linalg.norm(NORMAL), poses(q)
    e = here["rotor"][0].apply(null_space([AXIS]).T)  # the rim is center + radius (cos e_1 + sin e_2)
    down = -(e.T @ (e @ normal)) / np.linalg.norm(e @ normal)
    axis = here["rotor"][0].apply(AXIS)
    ahead = np.cross(axis, normal) / np.linalg.norm(np.cross(axis, normal))
    assert abs(down @ axis) < 1e-12 and abs(down @ ahead) < 1e-12  # the lowest point of the rim

    def velocity(body, arm):
        """Of the material point that is now at the body's center plus an arm, both in world axes."""
        turn, _ = here[body]
        point = np.array(CENTER) + turn.inv().apply(arm)
        ends = [r.apply(point) + p for r, p in (poses(moved(q, v, t))[body] for t in (1e-5, -1e-5))]
        return (ends[0] - ends[1]) / 2e-5

    wheel, ball, blade = (
        velocity("rotor", 0.3 * down),
        velocity("hull", -0.5 * normal),
        velocity("rotor", 0 * down),
    )
    edge = here["rotor"][0].apply([1.0, 2.0, 0.5]) / np.linalg.norm([1.0, 2.0, 0.5])
    expected = [normal @ wheel, ahead @ wheel, np.cross(normal, ahead) @ wheel, normal @ ball, edge @ blade]
    np.testing.assert_allclose(np.delete(W, [3, 4]), expected, atol=1e-9)
    np.testing.assert_allclose(np.hypot(*W[3:5]), np.linalg.norm(np.cross(normal, ball)), atol=1e-9)
    assert abs(ahead @ velocity("rotor", -0.3 * down) - W[1]) > 0.1  # control: the highest point


@cache
def disc():
    mechanism = mb.Mechanism()
    mechanism.add_body("fork")
    mechanism.add_body("disc", 2.0, inertia=np.diag([0.3, 0.5, 0.3]))
    mechanism.add_joint("plane", "world", "fork", mb.Planar())
    mechanism.add_joint("axle", "fork", "disc", mb.Revolute((0, 1, 0)), shift(0.0, 0.0, 0.7))
    return mechanism.build()


def test_an_upright_disc_rolls_on_circles():
    """Its rate of rolling and that of its heading are constant, and qdot = A v then gives circles."""
    forms, q = mb.rolling_forms(disc(), [mb.Wheel("disc", 0.7)]), np.array([0.2, 0.1, 0.9, 0.3])
    W, H = jax.jit(lambda p: (forms(p), disc().definition.metric.matrix_at(p)))(q)
    c, s = np.cos(0.9), np.sin(0.9)
    np.testing.assert_allclose(W, [[c, s, 0, -0.7], [-s, c, 0, 0]], atol=1e-14)
    np.testing.assert_allclose(H, np.diag([2.0, 2.0, 0.3, 0.5]), atol=1e-14)

    def basis(p):
        c, s, zero = 0.7 * jnp.cos(p[2]), 0.7 * jnp.sin(p[2]), 0.0 * p[0]
        return jnp.stack(
            [jnp.stack([c, s, zero, zero + 1.0]), jnp.stack([zero, zero, zero + 1.0, zero])], axis=1
        )

    nabla = cn.ConstrainedConnection(cn.ConstantMetric(disc().frame, H), basis)
    np.testing.assert_allclose(jax.jit(nabla.apply_at)(q, *np.array([[1.3, 0.8]] * 2)), 0.0, atol=1e-13)


# --- a base on wheels with an arm ------------------------------------------------------------------------

WHEELS = (mb.Wheel("left", RADIUS), mb.Wheel("right", RADIUS))


@cache
def robot():
    return mb.from_urdf(DATA / "wheeled_arm.urdf")


@cache
def oracle():
    return PinocchioRobot(DATA / "wheeled_arm.urdf")


def printed_forms(heading):
    """By hand: left rolls, nothing slips sideways, right rolls, (3, 7)."""
    c, s = np.cos(heading), np.sin(heading)
    W = np.zeros((3, 7))
    W[:, :4] = [[c, s, -HALF_AXLE, -RADIUS], [-s, c, 0, 0], [c, s, HALF_AXLE, 0]]
    W[2, 4] = -RADIUS
    return W


def feasible(q):
    """Ahead, turn, shoulder, elbow, (7, 4)."""
    c, s, zero = jnp.cos(q[2]), jnp.sin(q[2]), 0.0 * q[2]
    base = jnp.stack([jnp.stack([c, s, zero]), jnp.stack([zero, zero, zero + 1.0])], axis=1)
    wheels = jnp.array([[1.0, -HALF_AXLE], [1.0, HALF_AXLE]]) / RADIUS
    return jnp.zeros((7, 4)).at[:3, :2].set(base).at[3:5, :2].set(wheels).at[5:, 2:].set(jnp.eye(2))


def torques(t):
    """Of left and right wheel, shoulder and elbow [N m]."""
    return np.array([0.6 + 0.3 * np.sin(3 * t), 0.5 * np.cos(2 * t), 0.8 * np.sin(4 * t), 3.5 - t])


def matrices(q, v):
    """H, bias (7,): Pinocchio's planar joint moves in body axes, ours in the world's."""
    c, s = np.cos(q[2]), np.sin(q[2])
    T, T_dot = np.eye(7), np.zeros((7, 7))
    T[:2, :2], T_dot[:2, :2] = [[c, s], [-s, c]], v[2] * np.array([[-s, c], [-c, -s]])
    return T.T @ oracle().mass_matrix(q) @ T, T.T @ oracle().inverse_dynamics(q, T @ v, T_dot @ v)


def with_multipliers(t, q, v):
    """vdot (7,) with the one-forms by hand."""
    H, bias = matrices(q, v)
    W, step = printed_forms(q[2]), 1e-5
    W_dot = (printed_forms(q[2] + step * v[2]) - printed_forms(q[2] - step * v[2])) / (2 * step)
    block = np.block([[H, -W.T], [W, np.zeros((3, 3))]])
    force = np.concatenate([np.zeros(3), torques(t)]) - bias
    return np.linalg.solve(block, np.concatenate([force, -W_dot @ v]))[:7]


def energy(q, V):
    """Of the robot, by Pinocchio [J]."""
    return 0.5 * V @ matrices(q, V)[0] @ V + oracle().potential(q)


def test_torques_move_the_robot_as_pinocchio_with_multipliers_does():
    all_forms = mb.rolling_forms(robot(), WHEELS)
    forms = mb.SelectedForms(all_forms, (0, 1, 2))
    nabla = cn.ConstrainedConnection(robot().connection.metric, feasible, forms=forms)
    system = cn.NonholonomicSystem(nabla, robot().potential, inputs=lambda q: jnp.eye(7)[3:])
    step = jax.jit(lambda q, v, u: (nabla.basis_at(q) @ v, system.forward_dynamics_at(q, v, u), all_forms(q)))

    def reduced(t, state):
        """With the work of the torques as the last variable."""
        V, v_dot, _ = step(state[:7], state[7:11], torques(t))
        return np.concatenate([V, v_dot, [torques(t) @ V[3:]]])

    def ambient(t, state):
        return np.concatenate([state[7:], with_multipliers(t, state[:7], state[7:])])

    q0, v0 = np.array([0.1, -0.2, 0.5, 0.0, 0.3, 0.4, -0.6]), np.array([0.4, -0.5, 1.0, 0.2])
    V0, _, W = (np.asarray(each) for each in step(q0, v0, torques(0.0)))
    np.testing.assert_allclose(W[:3], printed_forms(q0[2]), atol=1e-14)
    np.testing.assert_allclose(W[3], W[1], atol=1e-14)  # on one axle: they slip sideways together
    starts = np.concatenate([q0, v0, [0.0]]), np.concatenate([q0, V0])
    ours, theirs = (
        solve_ivp(f, (0.0, 0.6), y, "DOP853", rtol=1e-9, atol=1e-9).y[:, -1]
        for f, y in zip((reduced, ambient), starts, strict=True)
    )
    V = reduced(0.6, ours)[:7]
    np.testing.assert_allclose(ours[:7], theirs[:7], atol=1e-7)
    np.testing.assert_allclose(V, theirs[7:], atol=1e-7)
    np.testing.assert_allclose(energy(ours[:7], V) - energy(q0, V0), ours[-1], atol=1e-7)
    assert np.max(np.abs(ours[:7] - q0)) > 0.3 and abs(ours[-1]) > 0.1


@pytest.mark.further
def test_variational_steps_of_a_robot_with_a_blade():
    """Chaplygin's sleigh as a robot, beside its closed form: order two, and the blade does not slip."""
    mechanism, a, inertia, t = mb.Mechanism(), 0.2, 0.1, 1.0
    mechanism.add_body("sleigh", 1.0, (a, 0.0, 0.0), np.diag([1.0, 1.0, inertia]))
    mechanism.add_joint("ice", "world", "sleigh", mb.Planar())
    sleigh = mechanism.build(gravity=(0.0, 0.0, 0.0))
    forms = mb.rolling_forms(sleigh, [mb.Blade("sleigh")])
    nabla = cn.ConstrainedConnection(sleigh.connection.metric, forms=forms)
    system, q0, V0 = cn.NonholonomicSystem(nabla, sleigh.potential), np.zeros(3), np.array([0.0, 0.0, 2.0])
    v0 = np.linalg.lstsq(np.asarray(nabla.basis_at(q0)), V0, rcond=None)[0]
    k2 = a**2 + inertia
    C = np.sqrt(k2) * 2.0
    speed, omega = C * np.tanh(a * C * t / k2), C / np.sqrt(k2) / np.cosh(a * C * t / k2)
    errors = []
    for count in (16, 32):
        motion = system.simulate(q0, v0, [0.0, t], method="variational", step=t / count)
        q, V = motion.q[-1], np.asarray(nabla.basis_at(motion.q[-1]) @ motion.v[-1])
        ahead = np.array([np.cos(q[2]), np.sin(q[2])])
        errors.append(np.abs([V[:2] @ ahead - speed, V[2] - omega]).max())
        assert abs(ahead[0] * V[1] - ahead[1] * V[0]) < 1e-12
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)
    assert speed > 0.1 and q[2] > 0.5  # control: it moves and turns


# --- momentum --------------------------------------------------------------------------------------------


def test_momentum_forms_by_hand(rng):
    q, v = flyer().random(rng), rng.normal(size=7)
    (hull, p), (rotor, x) = poses(q)["hull"], poses(q)["rotor"]
    omega, u = hull.apply(v[:3]), hull.apply(v[3:6])
    spin = omega + rotor.apply(np.array(ROTOR) / np.linalg.norm(ROTOR)) * v[6]
    angular, linear = np.zeros(3), np.zeros(3)
    for turn, at, w, speed, (mass, center, inertia) in (
        (hull, p, omega, u, HULL),
        (rotor, x, spin, u + np.cross(omega, x - p), ROTOR_BODY),
    ):
        arm = turn.apply(center)
        momentum = mass * (speed + np.cross(w, arm))
        linear += momentum
        angular += np.cross(at + arm, momentum) + turn.apply(inertia @ turn.inv().apply(w))
    W = forms_of_the_flyer()(q)[1]
    np.testing.assert_allclose(W @ v, DIRECTIONS @ np.concatenate([angular, linear]), atol=1e-12)


def test_momenta_of_the_free_robot_stay(rng):
    """Afloat on the plane and without weight, moved by its joints' torques; accelerations by Pinocchio.

    So the geodesics without momentum are those of the free robot, as examples/wheeled_arm.py shows.
    """
    model = robot().weightless
    forms = mb.momentum_forms(model, np.eye(6)[2:5])
    q, V = model.random(rng), rng.normal(size=7)
    H, bias = matrices(q, V)
    weight, torque = matrices(q, np.zeros(7))[1], np.concatenate([np.zeros(3), rng.normal(size=4)])
    a = np.linalg.solve(H, torque - bias + weight)
    W, W_dot = jax.jit(lambda p, w: jax.jvp(forms, (p,), (w,)))(q, V)
    np.testing.assert_allclose(W_dot @ V + W @ a, 0.0, atol=1e-10)
    assert np.max(np.abs(W_dot @ V)) > 0.1


# --- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mb.Wheel("left", -0.1), "Wheel on body 'left': the radius must be positive"),
        (lambda: mb.Wheel("left", 0.1, axis=(0, 0, 0)), "axis is a direction and must not be zero"),
        (lambda: mb.Wheel("left", 0.1, center=(0, 0)), "center must be three finite numbers"),
        (
            lambda: mb.Wheel("left", 0.1, directions=("sideways",)),
            "directions must be some of rolling, lateral",
        ),
        (lambda: mb.Ball("left", 0.1, directions=()), "directions must be some of rolling, normal"),
        (lambda: mb.Blade("left", "abc"), "direction must be three numbers"),
        (lambda: mb.rolling_forms(disc(), []), "no contacts"),
        (lambda: mb.rolling_forms(disc(), ["disc"]), "Wheel, Ball, Blade"),
        (
            lambda: mb.rolling_forms(disc(), [mb.Wheel("wheel", 0.1)]),
            "no body 'wheel'. The bodies are fork, disc",
        ),
        (
            lambda: mb.momentum_forms(disc(), [[1.0, 0, 0, 0, 0, 0]]),
            "direction 0 of the momentum: no velocity",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises((cn.checks.ModelError, TypeError), match=message):
        make()


def test_independent_forms_are_the_first_ones():
    points = np.random.default_rng(0).normal(size=(2, 3, 4))
    rows = jnp.array([[0, 0, 0, 0], [1, 0, 0, 0], [2, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 1, 1.0]])
    forms = mb.independent_forms(lambda q: rows * (2.0 + jnp.cos(q[0])), points)
    assert forms.rows == (1, 3, 5)
    np.testing.assert_allclose(
        forms(points[0, 0]), rows[jnp.array([1, 3, 5])] * (2 + np.cos(points[0, 0, 0]))
    )


def test_forms_that_become_dependent():
    with pytest.raises(
        cn.checks.ConstraintError, match="row 1 of the forms depends on others, but not everywhere"
    ):
        mb.independent_forms(lambda q: jnp.stack([jnp.ones(2), q]), np.array([[1.0, 2.0], [3.0, 3.0]]))
