"""Contraction rates: against neighbouring motions, the linearization without connections, closed forms."""

from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further
from closed_chains import PLANS
from robots import robot_path
from scipy.integrate import cumulative_trapezoid

import connections as cn
from connections import multibody as mb
from connections import systems
from connections.affine import covariant_linearization, deviation_map
from connections.checks import NonFiniteError, ShapeError
from connections.control import contraction_rates, stiffness_and_damping

BRANCHED = Path(__file__).parents[1] / "data" / "branched.urdf"
N = 3


@cache
def swirling():
    """A system without symmetry in a frame with qdot != v: a potential, and forces of t, q and v."""
    rng = np.random.default_rng(5)
    S, slopes, turns, bends = rng.normal(size=(4, N, N, N))

    def frame(q):
        return jnp.eye(N) + 0.3 * jnp.sin(jnp.einsum("ijk,k->ij", turns, q))

    def mass_matrix(q):
        root = jnp.eye(N) + 0.3 * jnp.sin(S[0] + jnp.einsum("ijk,k->ij", slopes, q))
        return root @ root.T

    def forces(t, q, v):
        D = 2.0 * jnp.eye(N) + 0.4 * jnp.sin(jnp.einsum("ijk,k->ij", bends, q))
        return S[1, 0] * jnp.cos(t) - D @ v - 0.2 * v**3 + jnp.sin(q @ S[1])

    metric = cn.MatrixMetric(cn.MatrixFrame(frame, N, N), mass_matrix)
    return cn.MechanicalSystem(metric, lambda q: jnp.sin(q @ S[2, 0]) + jnp.sum(q**2), forces)


def states(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-0.5, 0.5, size=(count, N)), rng.normal(size=(count, N)), rng.uniform(size=count)


def acceleration(t, q, v):
    system = swirling()
    return jnp.linalg.solve(system.mass_matrix_at(q), system.forces_at(t, q, v) - system.gravity_at(q))


def blocks(H, S, D, Gamma, v):
    """The matrix of d/dt (eta, w) in the frame."""
    carried = np.einsum("...ijk,...j->...ik", Gamma, v)
    one = np.broadcast_to(np.eye(H.shape[-1]), H.shape)
    return np.block([[-carried, one], [-np.linalg.solve(H, S), -np.linalg.solve(H, D) - carried]])


def bent(connection, q, v, H):
    """H R(., v) v of a connection."""
    return np.einsum("ml,lkij,k,j->mi", H, connection.curvature(q), v, v)


def test_terms_are_those_of_the_covariant_linearization():
    (q, v, t), system = states(4), swirling()
    nabla = cn.LeviCivita(system.metric)
    rates = contraction_rates(system, q, v, t=t)
    Gamma = nabla.coefficients(q)
    found = blocks(rates.metric, rates.stiffness, rates.damping, Gamma, v)
    expected = np.asarray(covariant_linearization(nabla, q, v, acceleration, t))
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    # Volumes shrink by the trace; the frame's components of both halves are carried along, too.
    shrinking = np.einsum("...ii->...", expected) + 2.0 * np.einsum("...iji,...j->...", Gamma, v)
    np.testing.assert_allclose(rates.volume, shrinking, rtol=1e-11)


@pytest.mark.further
def test_forces_of_the_system_and_feedback_are_one():
    """The same forces, half of them given by K and D."""
    (q, v, t), system = states(4), swirling()
    passive = cn.MechanicalSystem(system.metric, system.potential)
    K, D = stiffness_and_damping(cn.LeviCivita(system.metric), system.forces, q, v, t)
    whole, parts = contraction_rates(system, q, v, t=t), contraction_rates(passive, q, v, K, D)
    for name in ("stiffness", "damping", "bound", "indicator", "volume"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-10, atol=1e-10)


#: What is wrong on purpose -> the stiffness with that error, from the right one.
ERRORS = {
    "sign of curvature": lambda S, H, q, v, nabla, member: S - 2.0 * bent(nabla, q, v, H),
    "curvature of a member with torsion": lambda S, H, q, v, nabla, member: (
        S - bent(nabla, q, v, H) + bent(member, q, v, H)
    ),
    "Hessian of components": lambda S, H, q, v, nabla, member: (
        S + np.einsum("lji,l->ij", nabla.coefficients(q), swirling().gravity(q))
    ),
}


@cache
def neighbours():
    """The difference (eta, w) of neighbouring motions about a moment, and its rate, without curvature."""
    (q, v, _), system, h = states(1, seed=3), swirling(), 5e-3
    nabla = cn.LeviCivita(system.metric)
    times = np.concatenate([[0.0], 0.2 + h * np.arange(-4, 5)])
    points, velocities, Phi = cn.geodesic_flow(nabla, q[0], v[0], times, acceleration)
    parted = np.asarray(deviation_map(nabla, points, velocities) @ Phi)
    weights = np.array([3, -32, 168, -672, 0, 672, -168, 32, -3]) / (840.0 * h)
    rate = np.tensordot(weights, parted[1:], axes=1)
    return times[5], np.asarray(points[5]), np.asarray(velocities[5]), parted[5], rate


@pytest.mark.further
@pytest.mark.parametrize("error", [None, *list(ERRORS)[:1], *map(further, list(ERRORS)[1:])])
def test_neighbouring_motions_part_as_predicted(error):
    t, q, v, parted, rate = neighbours()
    system = swirling()
    nabla, rates = cn.LeviCivita(system.metric), contraction_rates(system, q, v, t=t)
    S = rates.stiffness
    if error is not None:
        member = cn.ContorsionFamily(system.metric).connection([1.5])
        S = ERRORS[error](S, rates.metric, q, v, nabla, member)
    predicted = blocks(rates.metric, S, rates.damping, np.asarray(nabla.coefficients(q)), v) @ parted
    gap = np.abs(predicted - rate).max() / np.abs(rate).max()
    assert gap < 1e-9 if error is None else gap > 1e-2


@pytest.mark.further
def test_volumes_of_states_shrink_at_the_rate():
    system, (q, v, _), times = swirling(), states(1, seed=3), np.linspace(0.0, 0.8, 41)
    nabla = cn.LeviCivita(system.metric)
    points, velocities, Phi = cn.geodesic_flow(nabla, q[0], v[0], times, acceleration)
    rates = contraction_rates(system, points, velocities, t=times)
    volume = np.linalg.slogdet(deviation_map(nabla, points, velocities) @ Phi)[1]
    volume = volume - volume[0] + np.linalg.slogdet(rates.metric)[1] - np.linalg.slogdet(rates.metric[0])[1]
    np.testing.assert_allclose(cumulative_trapezoid(rates.volume, times, initial=0.0), volume, atol=1e-3)
    np.testing.assert_allclose(rates.indicator.sum(-1), rates.volume, atol=1e-10)
    assert volume[-1] < -1.0


# --- robots -----------------------------------------------------------------------------------------------


def pendulum():
    """A body on a ball joint, whose velocities are not rates of coordinates."""
    mechanism = mb.Mechanism()
    inertia = np.diag([0.3, 0.4, 0.2])
    mechanism.add_body("bob", 1.5, center_of_mass=(0.1, 0.2, -0.6), inertia=inertia)
    mechanism.add_joint("pivot", "world", "bob", mb.Spherical())
    return mechanism.build()


ROBOTS = {
    "pendulum": pendulum,
    "floating": lambda: mb.from_urdf(BRANCHED, floating_base=True),
    "belt leg": lambda: PLANS["belt leg"]().build(),
}


@pytest.mark.further
@pytest.mark.parametrize("name", always(ROBOTS, "pendulum"))
def test_robots_by_recursion_are_their_definition(name, rng):
    robot = ROBOTS[name]()
    q, v = robot.random(rng), rng.standard_normal(robot.nv)
    system = cn.MechanicalSystem(robot.definition.metric, robot.potential_at)
    K, D = rng.normal(size=(2, robot.nv, robot.nv))
    weight = (9.0, 1.0)
    fast, slow = (contraction_rates(x, q, v, K, D, weight=weight) for x in (robot, system))
    for part in ("metric", "stiffness", "damping", "bound", "volume"):
        np.testing.assert_allclose(getattr(fast, part), getattr(slow, part), rtol=1e-8, atol=1e-8)
    same = contraction_rates(robot.system(gamma=0.5), q, v, K, D, weight=weight)
    np.testing.assert_array_equal(same.stiffness, fast.stiffness)


def two_links():
    m, L = (1.3, 0.7), (0.9, 0.6)

    def mass_matrix(q):
        a = m[1] * L[0] * L[1] * jnp.cos(q[1])
        b = m[1] * L[1] ** 2
        return jnp.array([[m[0] * L[0] ** 2 + m[1] * L[0] ** 2 + b + 2 * a, b + a], [b + a, b]])

    def potential(q):
        heights = L[0] * jnp.sin(q[0]), L[1] * jnp.sin(q[0] + q[1])
        return 9.81 * ((m[0] + m[1]) * heights[0] + m[1] * heights[1])

    system = cn.MechanicalSystem(cn.MatrixMetric(cn.CoordinateFrame(2), mass_matrix), potential)
    return system, system.connection, np.array([0.3, 0.8]), np.array([0.5, -0.4]), system.gravity_at


def ur5():
    robot = mb.from_urdf(robot_path("ur5"))
    goal, away = np.array([0.3, -1.2, 1.4, -0.6, 0.5, 0.2]), 0.3 * np.array([1, -1, 0.5, 1, -1, 1])
    return robot.system(), robot.connection, goal, away, robot.system().gravity_at


@pytest.mark.further
@pytest.mark.parametrize("make", [two_links, further(ur5)])
def test_the_bound_holds_for_neighbouring_motions(make):
    """Four neighbours of a motion to a goal: they fall together at least as fast as the bound says."""
    system, nabla, goal, away, weight_of = make()
    H_goal, times, size = system.mass_matrix(goal), np.linspace(0.0, 2.0, 41), 1e-5

    def feedback(t, q, v):
        return weight_of(q) - 16.0 * H_goal @ (q - goal) - 6.0 * system.mass_matrix_at(q) @ v

    n = len(goal)
    shifts = np.random.default_rng(1).normal(size=(4, 2, n))
    starts = np.concatenate([np.zeros((1, 2, n)), size * shifts]) + np.stack([goal + away, away])
    q, v = map(np.asarray, system.simulate(starts[:, 0], starts[:, 1], times, control=feedback))
    K, D = stiffness_and_damping(nabla, feedback, q[0], v[0])
    rates = contraction_rates(system, q[0], v[0], K, D)
    eta, dv = (q[1:] - q[0]) / size, (v[1:] - v[0]) / size
    w = dv + np.einsum("tijk,btj,tk->bti", nabla.coefficients(q[0]), eta, v[0])

    def product(a, b):
        return np.einsum("bti,tij,btj->bt", a, rates.metric, b)

    V = rates.kappa * product(eta, eta) + 2.0 * rates.delta * product(eta, w) + product(w, w)
    fall = 0.5 * np.log(V / V[:, :1])
    bound = cumulative_trapezoid(rates.bound, times, initial=0.0)
    assert (fall <= bound + 1e-3).all()
    assert bound[-1] < -4.0 and (fall[:, -1] > 2.0 * bound[-1]).all()
    tighter = contraction_rates(system, q[0], v[0], 4.0 * np.asarray(K), 2.0 * np.asarray(D))
    assert not (fall <= cumulative_trapezoid(tighter.bound, times, initial=0.0) + 1e-3).all()  # the control


def test_stiffness_and_damping_of_a_force_at_its_time():
    """Those of the force that stays as it is then; at another time they are others."""
    system = swirling()
    nabla, (q, v, _) = cn.LeviCivita(system.metric), states(2)

    def force(t, q, v):
        return jnp.cos(3.0 * t) * jnp.sin(q) - jnp.exp(t) * v * q[0]

    def frozen(t, q, v):
        return force(0.7, q, v)

    then, now = (stiffness_and_damping(nabla, force, q, v, t) for t in (0.7, 0.0))
    for ours, theirs, other in zip(then, stiffness_and_damping(nabla, frozen, q, v), now, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-13)
        assert np.abs(ours - other).max() > 0.1


def test_the_bound_is_attained():
    """From the worst start, sqrt(V) first changes at the rate mu; not with R of the other sign."""
    system, nabla, goal, away, _ = two_links()
    q, v, damping = goal + away, np.array([2.0, -7.0]), 3.0

    def drag(t, q, v):
        return -damping * system.mass_matrix_at(q) @ v

    K, D = stiffness_and_damping(nabla, drag, q, v)
    rates, h = contraction_rates(system, q, v, K, D), 1e-4
    weight = rates.kappa, rates.delta

    def accelerate(t, q, v):
        return jnp.linalg.solve(system.mass_matrix_at(q), drag(t, q, v) - system.gravity_at(q))

    points, velocities, Phi = cn.geodesic_flow(nabla, q, v, np.array([0.0, h, 2.0 * h]), accelerate)
    maps = np.asarray(deviation_map(nabla, points, velocities))
    flow = maps @ np.asarray(Phi) @ np.linalg.inv(maps[0])
    P = np.array([[rates.kappa, rates.delta], [rates.delta, 1.0]])
    weights = [np.kron(P, H) for H in system.mass_matrix(points)]
    grown = [x.T @ W @ x for x, W in zip(flow, weights, strict=True)]
    slope = (-1.5 * grown[0] + 2.0 * grown[1] - 0.5 * grown[2]) / h  # of V = start^T grown start
    root = np.linalg.inv(np.linalg.cholesky(weights[0]))
    largest = 0.5 * np.linalg.eigvalsh(root @ (slope + slope.T) @ root.T / 2.0)[-1]
    assert largest == pytest.approx(float(rates.bound), rel=1e-5)
    other = K - 2.0 * bent(nabla, q, v, rates.metric)
    flipped = contraction_rates(system, q, v, other, D, weight=weight)
    assert abs(float(flipped.bound) - largest) > 1e-2 * abs(largest)


# --- closed forms -----------------------------------------------------------------------------------------


def oscillators(stiffnesses, damping):
    n = len(stiffnesses)
    metric = cn.ConstantMetric(cn.CoordinateFrame(n), 2.0 * np.eye(n))
    return metric, 2.0 * np.diag(stiffnesses), 2.0 * damping * np.eye(n)


@pytest.mark.parametrize(
    ("s", "d"), [((4.0, 9.0), 5.0), ((1.0, 30.0), 1.0), ((-1.0, 2.0), 3.0), ((2.0, 2.0), 6.0)]
)
def test_isotropic_damping_has_a_closed_form(s, d):
    """mu = -d/2 + max |kappa - s| / (2 sqrt(kappa - d^2 / 4)), least for the kappa that starts the search."""
    metric, K, D = oscillators(s, d)
    system, zero = cn.MechanicalSystem(metric), np.zeros(2)

    def mu(kappa):
        return -d / 2 + max(abs(kappa - x) for x in s) / (2.0 * np.sqrt(kappa - d**2 / 4))

    given = contraction_rates(system, zero, zero, K, D, weight=(d**2, d / 2))
    assert given.bound == pytest.approx(mu(d**2), rel=1e-12)
    best = mu(max((min(s) + max(s)) / 2, d**2 / 2 - min(s), d**2 / 4 + 1e-9))
    found = contraction_rates(system, zero, zero, K, D)
    assert (
        found.bound <= best + 1e-5 * max(1.0, abs(best)) and found.bound >= found.indicator.real.max() - 1e-9
    )


def test_roots_are_no_rates():
    """xddot + 0.1 xdot + (1 + 0.6 cos 2t) x = 0 grows, though Re lambda = -0.05 always."""
    metric = cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1))

    def forces(t, q, v):
        return -0.1 * v - (1.0 + 0.6 * jnp.cos(2.0 * t)) * q

    system, times = cn.MechanicalSystem(metric, forces=forces), np.linspace(0.0, 20.0 * np.pi, 801)
    q, v = system.simulate(np.array([1.0]), np.array([0.3]), times)
    rates = contraction_rates(system, np.zeros((801, 1)), np.zeros((801, 1)), t=times)
    np.testing.assert_allclose(rates.indicator.real.max(-1), -0.05, atol=1e-9)
    V = rates.kappa * q[:, 0] ** 2 + 2.0 * rates.delta * q[:, 0] * v[:, 0] + v[:, 0] ** 2
    growth = 0.5 * np.log(V[-1] / V[0]) / times[-1]
    assert 0.08 < growth < np.trapezoid(rates.bound, times) / times[-1]


def test_an_open_loop_torque_is_a_stiffness():
    """Constant in the frame, it is not parallel: K = Gamma^l_ji f_l."""
    system, nabla, q, _, _ = two_links()
    tau = jnp.array([2.0, -1.0])
    K, D = stiffness_and_damping(nabla, lambda t, q, v: tau, q, np.zeros(2))
    np.testing.assert_allclose(K, np.einsum("lji,l->ij", nabla.coefficients(q), tau), atol=1e-12)
    assert np.abs(K).max() > 0.1 and not np.any(D)


# --- arguments --------------------------------------------------------------------------------------------


@pytest.mark.further
def test_batches_are_single_calls():
    (q, v, t), system = states(3), swirling()
    many = contraction_rates(system, q[:, None], v, t=t[:, None], weight=(4.0, 1.0))
    assert many.bound.shape == (3, 3) and many.indicator.shape == (3, 3, 2 * N)
    one = contraction_rates(system, q[1], v[2], t=t[1], weight=(4.0, 1.0))
    np.testing.assert_allclose(many.bound[1, 2], one.bound, rtol=1e-12)


def test_bad_arguments_are_refused():
    system, zero = swirling(), np.zeros(N)
    with pytest.raises(TypeError, match="system"):
        contraction_rates(systems.chaplygin_sleigh().numeric(), np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="kappa"):
        contraction_rates(system, zero, zero, weight=(1.0, 1.0))
    for weight, error in ((3.0, ShapeError), ((3.0, 1.0, 2.0), ShapeError), (("a", "b"), TypeError)):
        with pytest.raises(error, match="weight"):
            contraction_rates(system, zero, zero, weight=weight)
    with pytest.raises(NonFiniteError, match="weight"):
        contraction_rates(system, zero, zero, weight=(np.inf, 1.0))
    with pytest.raises(ShapeError, match="q"):
        contraction_rates(system, np.zeros((0, N)), zero)
    with pytest.raises(TypeError, match="q: JAX traces"):
        jax.jit(lambda q: contraction_rates(system, q, zero).bound)(zero)
    with pytest.raises(ShapeError, match="K"):
        contraction_rates(system, zero, zero, K=np.eye(2))
    with pytest.raises(NonFiniteError, match="D"):
        contraction_rates(system, zero, zero, D=np.full((N, N), np.nan))
    with pytest.raises(TypeError, match="force"):
        stiffness_and_damping(cn.LeviCivita(system.metric), None, zero, zero)
