"""Control of robots by the recursions: the laws against their definitions, the balances that they rely on."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from robots import robot_path
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import connections as cn
from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError, ShapeError
from connections.control import (
    AdaptiveController,
    CentroidalCoordinates,
    MomentumObserver,
    PassivityController,
    UnknownInertia,
    with_payload,
)
from connections.control.errors import GainError


def place(x, y, z):
    transform = np.eye(4)
    transform[:3, 3] = x, y, z
    return transform


def add_body(mechanism, name, mass, center):
    mechanism.add_body(name, mass=mass, center_of_mass=center, inertia=mass * np.diag([0.02, 0.03, 0.025]))


@pytest.fixture(scope="module")
def arm():
    """Four revolute joints in a row; qdot = v."""
    mechanism, parent = mb.Mechanism(), "world"
    for k, axis in enumerate(((0, 0, 1), (0, 1, 0), (1, 1, 0), (0, 1, 1))):
        add_body(mechanism, f"link{k}", 2.0 - 0.3 * k, (0.05, 0.02 * k, 0.15))
        mechanism.add_joint(
            f"joint{k}", parent, f"link{k}", mb.Revolute(axis), place(0.0, 0.05, 0.3 * bool(k))
        )
        parent = f"link{k}"
    return mechanism.build()


@pytest.fixture(scope="module")
def floating():
    """A floating trunk with two limbs, one on a universal joint: qdot != v, Phi depends on q."""
    mechanism = mb.Mechanism()
    bodies = {
        "trunk": (3.0, (0.1, 0.0, 0.0)),
        "leg": (1.0, (0.0, 0.1, -0.2)),
        "foot": (0.5, (0.0, 0.0, -0.1)),
        "head": (0.8, (0.1, 0.05, 0.1)),
    }
    for name, (mass, center) in bodies.items():
        add_body(mechanism, name, mass, center)
    mechanism.add_joint("root", "world", "trunk", mb.Free())
    mechanism.add_joint("hip", "trunk", "leg", mb.Revolute((1, 0, 0)), place(0.1, 0.2, 0.0))
    mechanism.add_joint("knee", "leg", "foot", mb.Revolute((0, 1, 0)), place(0.0, 0.0, -0.4))
    mechanism.add_joint("neck", "trunk", "head", mb.Universal((1, 0, 0), (0, 1, 0)), place(0.3, 0.0, 0.1))
    return mechanism.build()


def states(model, rng, count=4):
    """q and three velocities at `count` random configurations."""
    return np.stack([model.random(rng) for _ in range(count)]), *rng.standard_normal((3, count, model.nv))


def each(function, *rows):
    """A traceable function of one state at each of several."""
    return np.asarray(jax.jit(jax.vmap(function))(*rows))


# --- the passivity-based law --------------------------------------------------------------------------


def product(system, q, v, w):
    """C(q, v) w, without C."""
    return system.reference_force(q, v, w, 0.0 * w) - system.gravity(q)


def test_torque_is_that_of_the_definition(floating, rng):
    q, v, v_r, a_r = states(floating, rng)
    law = PassivityController(floating.system(), np.arange(1.0, floating.nv + 1.0))
    np.testing.assert_allclose(law.torque(q, v, v_r, a_r), each(law.torque_at, q, v, v_r, a_r), atol=1e-10)


def test_product_of_a_member_with_torsion(floating, rng):
    q, v, w, _ = states(floating, rng)
    beta, triples = rng.standard_normal(120), list(combinations(range(floating.nv), 3))
    system, plain = floating.system(gamma=1.7, beta=beta), floating.system()
    found = product(system, q, v, w)
    star, other = (mb.christoffel_symbols(floating, q, body_factor=f) for f in ("christoffel", "force_cross"))
    expected = np.einsum("bijk,bj,bk->bi", star + 1.7 * (other - star), v, w)
    for value, S in zip(beta, map(list, triples), strict=True):
        expected[:, S] += value * np.cross(v[:, S], w[:, S])
    np.testing.assert_allclose(found, expected, atol=1e-11)
    np.testing.assert_allclose(np.einsum("bij,bj->bi", system.coriolis_matrix(q, v), w), found, atol=1e-11)
    assert np.abs(found - product(plain, q, v, w)).max() > 1.0
    np.testing.assert_allclose(product(system, q, v, v), product(plain, q, v, v), atol=1e-11)


def test_torsion_is_that_of_the_definition(floating, rng):
    """The contorsion in JAX, by which a robot with torsion is a system like any other."""
    q, beta = states(floating, rng)[0], rng.standard_normal(120)
    star, other = (mb.christoffel_symbols(floating, q, body_factor=f) for f in ("christoffel", "force_cross"))
    for given in ({"gamma": 1.7}, {"gamma": -2.0, "beta": beta}):
        system = floating.system(**given)
        D = each(system.connection.contorsion_at, q)
        expected = -given["gamma"] * (other - star)
        if "beta" in given:
            expected = expected + np.asarray(cn.ContorsionFamily(floating.metric).contorsion_of(beta))
        np.testing.assert_allclose(D, expected, atol=1e-12)
        assert np.abs(D).max() > 0.1


CLOSED = {
    "loop": lambda: mb.example("four_bar"),
    "mimic": lambda: mb.from_urdf(robot_path("panda")),
    "coupling": lambda: _coupled(),
}


def _coupled():
    """Three joints in a row, the third turns twice as fast as the second, the other way."""
    mechanism, parent = mb.Mechanism(), "world"
    for k in range(3):
        add_body(mechanism, f"link{k}", 2.0, (0.05, 0.02 * k, 0.15))
        mechanism.add_joint(f"joint{k}", parent, f"link{k}", mb.Revolute((0, 1, k)), place(0, 0.1, 0.3))
        parent = f"link{k}"
    mechanism.add_coupling("belt", {"joint1": 2.0, "joint2": 1.0}, offset=0.2)
    return mechanism.build()


@pytest.mark.parametrize("name", CLOSED)
def test_a_payload_leaves_loops_and_couplings_closed(name, rng):
    """H and g grow by the payload's own, J^T I J and -J^T [n; f] with the Jacobian J of its body."""
    robot = CLOSED[name]()
    body, c, moment = robot.body_names[-1], np.array([0.1, -0.2, 0.05]), np.diag([0.01, 0.02, 0.015])
    loaded = with_payload(robot, body, 0.7, c, moment)
    assert (loaded.nq, loaded.nv, loaded.joint_names) == (robot.nq, robot.nv, robot.joint_names)
    q = robot.random(rng)
    J = np.asarray(mb.body_jacobians(robot, q))[-6:]
    at_center = J[3:] - np.cross(c, J[:3], axis=0)  # v + omega x c
    more = J[:3].T @ moment @ J[:3] + 0.7 * at_center.T @ at_center
    H = mb.mass_matrix(robot, q)
    np.testing.assert_allclose(mb.mass_matrix(loaded, q), H + more, atol=1e-12 * np.abs(H + more).max())
    assert np.abs(more).max() > 1e-3 * np.abs(H).max()  # negative control: it is not nothing
    R = np.asarray(robot.kinematics.world_transforms_at(q))[-1, :3, :3]
    weight = -0.7 * at_center.T @ R.T @ robot.gravity
    np.testing.assert_allclose(mb.gravity(loaded, q), mb.gravity(robot, q) + weight, atol=1e-11)


def test_a_payload_of_a_frame_is_that_of_its_body(rng):
    """In the frame's axes from its origin, inertia too, also where JAX traces it."""
    placement = place(0.3, 0.2, 0.1)
    placement[:3, :3] = Rotation.from_rotvec([0.3, -0.7, 0.4]).as_matrix()
    known = mb.example("arm")
    robot = known.with_frames({"gripper": ("tool", placement)})
    c, moment = np.array([0.1, -0.2, 0.05]), np.diag([0.01, 0.02, 0.015])
    R, p = placement[:3, :3], placement[:3, 3]
    want = mb.inertial_parameters(with_payload(robot, "tool", 0.7, R @ c + p, R @ moment @ R.T))
    loaded = mb.inertial_parameters(with_payload(robot, "gripper", 0.7, c, moment))
    np.testing.assert_allclose(loaded, want, atol=1e-14)
    traced = jax.jit(lambda m: mb.gravity(with_payload(robot, "gripper", m, c, moment), np.zeros(6)))(0.7)
    np.testing.assert_allclose(
        traced, mb.gravity(with_payload(robot, "gripper", 0.7, c, moment), np.zeros(6)), atol=1e-12
    )
    assert np.abs(loaded - mb.inertial_parameters(with_payload(robot, "tool", 0.7, c, moment))).max() > 1e-3
    with pytest.raises(ModelError, match="'base' is fixed to the ground"):
        with_payload(robot, "base", 0.7, c)
    with pytest.raises(ModelError, match="no body 'gripper': it is a frame fixed to 'tool'"):
        UnknownInertia(robot.system(), ["gripper"])


def test_unknown_armature_of_balls_and_free_joints(floating, rng):
    """One number for the angular components, and one for the linear ones."""
    name = floating.joint_names[0]
    assert len(floating.armature[name]) == 6
    family = UnknownInertia(floating.system(), [floating.body_names[-1]], armature=[name])
    assert family.size == 12
    parameters = np.r_[np.zeros(10), 0.3, 0.8]
    loaded = floating.with_armature({name: np.r_[[0.3] * 3, [0.8] * 3]})
    q, v, v_r, a_r = states(floating, rng)
    more = np.einsum("...ip,p->...i", family.regressor(q, v, v_r, a_r), parameters)
    want = loaded.system().reference_force(q, v, v_r, a_r)
    np.testing.assert_allclose(family.known_force(q, v, v_r, a_r) + more, want, atol=1e-10)
    np.testing.assert_allclose(family.plant(parameters).reference_force(q, v, v_r, a_r), want, atol=1e-10)


def test_one_state_is_a_row_of_many(arm, rng):
    system = arm.system(gamma=-1.0, beta=[0.1, 0.2, 0.3, 0.4])
    adaptive = AdaptiveController(UnknownInertia(system, ["link3", "link1"]), 2.0, 1.0)
    rows, parameters = states(arm, rng), rng.standard_normal(20)
    tau, rate = adaptive.torque(*rows, parameters), adaptive.parameters_rate(*rows)
    for k, row in enumerate(zip(*rows, strict=True)):
        np.testing.assert_allclose(adaptive.torque(*row, parameters), tau[k], atol=1e-12)
        np.testing.assert_allclose(adaptive.parameters_rate(*row), rate[k], atol=1e-12)


# --- adaptation ---------------------------------------------------------------------------------------


@pytest.mark.further
def test_momentum_is_the_momentum_regressor_times_the_parameters(floating, rng):
    q, v, *_ = states(floating, rng)
    Y_p, Y_e = mb.momentum_regressor(floating, q, v)
    pi = mb.inertial_parameters(floating).ravel()
    for system in (floating.system(), floating.definition.system):
        np.testing.assert_allclose(Y_p @ pi, system.momentum(q, v), atol=1e-11)
        np.testing.assert_allclose(Y_e @ pi, system.momentum_rate(q, v), atol=1e-11)


def test_regressor_turns_the_model_into_the_loaded_one(floating, rng):
    q, v, v_r, a_r = states(floating, rng)
    loaded = with_payload(floating, "foot", 0.7, (0.1, -0.2, 0.05), np.diag([0.01, 0.02, 0.015]))
    loaded = with_payload(loaded, "head", 0.3, (0.0, 0.1, 0.0))
    names = ["head", "foot"]
    added = mb.inertial_parameters(loaded) - mb.inertial_parameters(floating)
    pi = np.concatenate([added[floating.body_names.index(name)] for name in names])
    for gamma in (0.0, 2.0):
        nominal = PassivityController(floating.system(gamma=gamma), 3.0)
        adaptive = AdaptiveController(UnknownInertia(nominal.model, names), 3.0, 1.0)
        tau, rate = adaptive.torque(q, v, v_r, a_r, pi), adaptive.parameters_rate(q, v, v_r, a_r)
        extra = product(nominal.model, q, v, v_r) - mb.coriolis_product(floating, q, v, v_r)
        np.testing.assert_allclose(
            tau, PassivityController(loaded.system(), 3.0).torque(q, v, v_r, a_r) + extra, atol=1e-10
        )
        gap = (
            PassivityController(loaded.system(), 3.0).torque(q, v, v_r, a_r)
            - nominal.torque(q, v, v_r, a_r)
            + extra
        )
        # s^T Y pi, once as the power of the unknown forces and once as the rate of the estimate
        np.testing.assert_allclose(-rate @ pi, ((v - v_r) * gap).sum(axis=1), atol=1e-9)


def test_a_payload_adds_its_kinetic_energy(floating, rng):
    q, v, *_ = states(floating, rng)
    c, inertia = np.array([0.1, -0.2, 0.05]), np.diag([0.01, 0.02, 0.015])
    loaded = with_payload(floating, "foot", 0.7, c, inertia)
    number = floating.body_names.index("foot")
    twist = np.einsum("bij,bj->bi", mb.body_jacobians(floating, q)[:, 6 * number : 6 * number + 6], v)
    omega, u = twist[:, :3], twist[:, 3:] + np.cross(twist[:, :3], c)
    energy = 0.7 * (u**2).sum(axis=1) + np.einsum("bi,ij,bj->b", omega, inertia, omega)
    gap = mb.mass_matrix(loaded, q) - mb.mass_matrix(floating, q)
    np.testing.assert_allclose(np.einsum("bi,bij,bj->b", v, gap, v), energy, rtol=1e-11)
    np.testing.assert_allclose(loaded.gravity, floating.gravity)


PACE, GAIN = np.array([1.1, 1.7, 2.3, 2.9]), np.array([6.0, 6.0, 4.0, 2.0])


def adaptive_motion(arm, law, scale=0.0):
    """V at 21 times, V plus the work of K_D, and |q - q_d|; `scale` (C^T - C) v_r is added to the torque."""
    plant = with_payload(arm, "link3", 1.0, (0.1, 0.0, 0.2), 0.01 * np.eye(3))
    truth = (mb.inertial_parameters(plant) - mb.inertial_parameters(arm))[3]
    controller = AdaptiveController(UnknownInertia(arm.system(**law), ["link3"]), GAIN, 0.5)

    def reference(t, q, v):
        phase = np.multiply.outer(t, PACE)
        error = q - np.sin(phase)
        return (
            PACE * np.cos(phase) - 2.0 * error,
            -(PACE**2) * np.sin(phase) - 2.0 * (v - PACE * np.cos(phase)),
            error,
        )

    def rates(t, y):
        q, v, parameters = y[:4], y[4:8], y[8:18]
        v_r, a_r, _ = reference(t, q, v)
        tau = controller.torque(q, v, v_r, a_r, parameters)
        rate = controller.parameters_rate(q, v, v_r, a_r)
        if scale:
            tau += scale * (
                mb.coriolis_transpose_product(arm, q, v, v_r) - mb.coriolis_product(arm, q, v, v_r)
            )
        s = v - v_r
        return np.concatenate([v, mb.forward_dynamics(plant, q, v, tau), rate, [s @ (GAIN * s)]])

    start, times = np.zeros(19), np.linspace(0.0, 4.0, 21)
    y = solve_ivp(rates, (0.0, 4.0), start, t_eval=times, method="DOP853", rtol=1e-10, atol=1e-11).y.T
    v_r, _, error = reference(times, y[:, :4], y[:, 4:8])
    V = controller.lyapunov(plant.system(), y[:, :4], y[:, 4:8] - v_r, y[:, 8:18] - truth)
    return V, V + y[:, 18], np.linalg.norm(error, axis=1)


@pytest.mark.parametrize(
    "law", [{}, further({"gamma": 1.0}), further({"gamma": -4.0}), {"beta": [0.5, -1.0, 0.3, 0.2]}]
)
def test_lyapunov_function_falls_by_the_work_of_the_gain(arm, law):
    V, balance, error = adaptive_motion(arm, law)
    np.testing.assert_allclose(balance, V[0], rtol=1e-7)
    assert (np.diff(V) < 0.0).all()
    assert error[-5:].max() < 0.3 * error.max()


def test_another_product_breaks_the_balance(arm):
    V, balance, _ = adaptive_motion(arm, {}, scale=1.0)
    assert np.abs(balance - V[0]).max() > 1e-2 * V[0]


# --- the momentum observer ----------------------------------------------------------------------------


def test_observer_is_that_of_the_definition(floating, rng):
    q, v, tau, z = states(floating, rng)
    observer = MomentumObserver(floating.system(), 4.0)
    H = mb.mass_matrix(floating, q)
    np.testing.assert_allclose(observer.momentum(q, v), np.einsum("bij,bj->bi", H, v), atol=1e-11)
    np.testing.assert_allclose(observer.residual(q, v, z), 4.0 * (observer.momentum(q, v) - z), atol=1e-12)
    expected = each(observer.state_rate_at, jnp.zeros(4), q, v, tau, z)
    np.testing.assert_allclose(observer.state_rate(q, v, tau, z), expected, atol=1e-9)


@pytest.mark.parametrize("right", [True, False])
def test_residual_follows_a_constant_push(arm, right):
    push, gains = np.array([0.7, -0.4, 1.1, 0.2]), np.array([4.0, 5.0, 6.0, 8.0])
    observer = MomentumObserver(arm.system(), gains)

    def rates(t, y):
        q, v, z = y.reshape(3, 4)
        tau = mb.gravity(arm, q) + 3.0 * np.sin(t * PACE) - v
        z_rate = observer.state_rate(q, v, tau, z)
        if not right:
            z_rate += mb.coriolis_product(arm, q, v, v) - mb.coriolis_transpose_product(arm, q, v, v)
        return np.concatenate([v, mb.forward_dynamics(arm, q, v, tau + push), z_rate])

    times = np.linspace(0.0, 2.0, 11)
    start = np.array([0.3, -0.4, 0.5, 0.2, 0.5, -1.0, 0.8, 1.5])
    z0 = observer.momentum(start[:4], start[4:])
    y = solve_ivp(rates, (0, 2), [*start, *z0], t_eval=times, method="DOP853", rtol=1e-10, atol=1e-12).y.T
    gap = observer.residual(y[:, :4], y[:, 4:8], y[:, 8:]) - push * (1.0 - np.exp(-np.outer(times, gains)))
    assert np.abs(gap).max() < 1e-7 if right else np.abs(gap).max() > 1e-2


# --- centroidal coordinates ---------------------------------------------------------------------------


@pytest.mark.further
def test_centre_of_mass_decouples(floating, rng):
    q, v, *_ = states(floating, rng)
    body = CentroidalCoordinates(floating)
    H, C = body.mass_matrix(q), body.coriolis_matrix(q, v)
    scale = np.abs(mb.coriolis_matrix(floating, q, v)).max()
    np.testing.assert_allclose(H[:, :3, :3], np.broadcast_to(body.mass * np.eye(3), (4, 3, 3)), atol=1e-13)
    for matrix, tol in ((H, 1e-13), (C, 1e-13 * scale)):
        assert max(np.abs(matrix[:, :3, 3:]).max(), np.abs(matrix[:, 3:, :3]).max()) < tol
    assert np.abs(C[:, :3, :3]).max() < 1e-13 * scale < 1e-2 * np.abs(C[:, 3:, 3:]).max()


def test_another_factor_couples_the_centre_of_mass(floating, rng):
    q, v, *_ = states(floating, rng)
    body, kinematics = CentroidalCoordinates(floating), floating.kinematics
    C = body.coriolis_matrix(q, v, body_factor="force_cross")
    R = each(kinematics.world_transforms_at, q)[:, :, :3, :3]
    twists = np.einsum("bij,bj->bi", mb.body_jacobians(floating, q), v).reshape(4, -1, 6)
    spin = np.einsum("n,bnij,bnj->bi", kinematics.tree.inertias[:, 5, 5], R, twists[:, :, :3])
    np.testing.assert_allclose(C[:, :3, :3], np.cross(np.eye(3), spin[:, None]), atol=1e-12)
    assert np.abs(C[:, :3, 3:]).max() > 0.1


def test_jacobian_of_the_centre_of_mass_by_gravity(floating, rng):
    """Weight is a force at the centre of mass: g(q) = -M J^T (free fall)."""
    q, *_ = states(floating, rng)
    body = CentroidalCoordinates(floating)
    J = each(body.jacobian_at, q)
    for k, axis in enumerate(np.eye(3)):
        weight = mb.gravity(floating.with_gravity(axis), q)
        np.testing.assert_allclose(weight, -body.mass * J[:, k], atol=1e-12)


def test_inclusion_inverts_the_map_to_the_velocities(floating, rng):
    q, v, *_ = states(floating, rng)
    body, n = CentroidalCoordinates(floating), floating.nv
    A, A_dot = (np.asarray(x) for x in body.inclusion(q, v))
    rows = np.broadcast_to(np.eye(n)[[0, 1, 2, *range(6, n)]], (4, n - 3, n))
    T = np.concatenate([each(body.jacobian_at, q), rows], axis=1)
    np.testing.assert_allclose(T @ A, np.broadcast_to(np.eye(n), (4, n, n)), atol=1e-13)
    X, step = each(floating.frame.matrix_at, q), 1e-5
    rate = np.einsum("bij,bj->bi", X, v)
    ahead, behind = (each(body.inclusion_at, q + h * rate) for h in (step, -step))
    np.testing.assert_allclose(A_dot, (ahead - behind) / (2 * step), atol=1e-8)


@pytest.mark.further
def test_coriolis_matrix_is_levi_civita_of_the_changed_frame(floating, rng):
    q, v, *_ = states(floating, rng, 2)
    body = CentroidalCoordinates(floating)
    metric = floating.metric.change(body.inclusion_at)
    A, _ = body.inclusion(q, v)
    vbar = np.linalg.solve(A, v[..., None])[..., 0]
    expected = cn.coriolis_matrix(cn.LeviCivita(metric), q, vbar, metric)
    np.testing.assert_allclose(body.coriolis_matrix(q, v), expected, atol=1e-11)


# --- errors -------------------------------------------------------------------------------------------


def test_bad_input_is_named(arm, floating, rng):
    q, v, *_ = states(arm, rng)
    system = arm.system()
    controller = PassivityController(system, 1.0)
    with pytest.raises(GainError, match="gain K_D"):
        PassivityController(system, -1.0)
    with pytest.raises(NonFiniteError, match="gamma"):
        arm.system(gamma=np.nan)
    with pytest.raises(ShapeError, match="beta"):
        arm.system(beta=[1.0])
    with pytest.raises(ShapeError, match="a_r:"):
        controller.torque(q, v, v, v[:, :2])
    with pytest.raises(NonFiniteError, match="v_r"):
        controller.torque(q, v, np.nan * v, v)
    with pytest.raises(ModelError, match="'hand'"):
        UnknownInertia(system, ["hand"])
    with pytest.raises(ModelError, match="list of names"):
        UnknownInertia(system, "link3")
    family = UnknownInertia(system, ["link3"])
    with pytest.raises(GainError, match="adaptation P"):
        AdaptiveController(family, 1.0, np.triu(np.ones((10, 10))))
    with pytest.raises(ShapeError, match="parameters"):
        AdaptiveController(family, 1.0, 1.0).torque(q, v, v, v, np.zeros(9))
    with pytest.raises(GainError, match="gain K"):
        MomentumObserver(arm.system(), 0.0)
    with pytest.raises(ModelError, match="'hand'"):
        with_payload(arm, "hand", 1.0, np.zeros(3))
    with pytest.raises(ModelError, match="mass is negative"):
        with_payload(arm, "link3", -1.0, np.zeros(3))
    with pytest.raises(ModelError, match="'joint0': the first joint must be free"):
        CentroidalCoordinates(arm)
    with pytest.raises(ShapeError, match="v:"):
        CentroidalCoordinates(floating).inclusion(floating.neutral(), np.zeros(3))


def test_times_of_a_batch_and_times_that_are_none(arm, rng):
    """A robot's system does not depend on time, but a batch of times gives a batch, and NaN is no time."""
    system, (q, v, tau) = arm.system(), rng.standard_normal((3, arm.nv))
    for function, given in ((system.momentum_rate, (q, v)), (system.forward_dynamics, (q, v, tau))):
        one, many = function(*given), function(*given, np.array([0.0, 1.0]))
        assert many.shape == (2, arm.nv)
        np.testing.assert_allclose(many, [one, one], atol=1e-11)
        np.testing.assert_array_equal(function(*given, 3.0), one)
        with pytest.raises(NonFiniteError, match=r"\bt\b"):
            function(*given, np.nan)
