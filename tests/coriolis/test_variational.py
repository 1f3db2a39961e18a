"""Variational steps of systems in any frame, and of nonholonomic ones: order, structure, errors."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further
from scipy.linalg import expm
from scipy.optimize import root
from scipy.spatial.transform import Rotation
from scipy.special import ellipj

import connections as cn
from connections import systems
from connections.affine.motions.motion import Motion
from connections.checks import IntegrationError, NonFiniteError
from connections.coriolis.variational_motion import require_kept


def fields(q):
    return jnp.array([[1.0, q[1]], [0.3, 1.0 + q[0] ** 2]])


def mass_matrix(q):
    return jnp.array([[2.0 + q[1] ** 2, 0.3], [0.3, 1.5 + jnp.cos(q[0])]])


def friction(t, q, v):
    """Of no symmetric matrix, and with a clock."""
    return jnp.array([-0.3 * v[0] + 0.4 * v[1] * q[0], 0.2 * jnp.sin(3.0 * t) - 0.1 * v[1]])


PENDULUM = cn.MechanicalSystem(
    cn.ConstantMetric(cn.CoordinateFrame(1), np.array([[0.5]])), lambda q: 3.0 * (1.0 - jnp.cos(q[0]))
)
METRIC = cn.MatrixMetric(cn.MatrixFrame(fields, 2, 2), mass_matrix)
DAMPED = cn.MechanicalSystem(METRIC, lambda q: q[0] ** 2 + jnp.cos(q[1]), friction)
INERTIA = np.diag([1.0, 2.0, 3.0])
TOP = cn.MechanicalSystem(cn.ConstantMetric(cn.SO3Frame(), INERTIA))
Q, V = np.array([0.4, -0.3]), np.array([0.8, -0.5])


def orders(system, q0, v0, span, counts, order):
    """log2 of the errors' ratios, beside DOP853, for numbers of steps that double."""
    exact = system.simulate(q0, v0, [0.0, span])
    errors = []
    for count in counts:
        found = system.simulate(q0, v0, [0.0, span], method="variational", step=span / count, order=order)
        errors.append(max(np.abs(found.q[-1] - exact.q[-1]).max(), np.abs(found.v[-1] - exact.v[-1]).max()))
    return np.log2(np.array(errors[:-1]) / errors[1:])


@pytest.mark.further
def test_in_a_frame_with_forces_the_order_is_two():
    np.testing.assert_allclose(orders(DAMPED, Q, V, 0.8, (16, 32, 64), None), 2.0, atol=0.05)


@pytest.mark.further
def test_suzukis_composition_has_order_four():
    found = orders(PENDULUM, [1.2], [0.7], 0.8, (16, 32), 4)
    np.testing.assert_allclose(found, 4.0, atol=0.1)


def test_suzukis_composition_has_forces_at_the_times_of_its_parts():
    """xddot = sin 3t by hand, in a chart; of order four, which a clock that stands is not."""
    free = cn.MechanicalSystem(
        cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1)),
        lambda q: 0.0 * q[0],
        lambda t, q, v: jnp.sin(3.0 * t)[None],
    )
    exact = [2.0 * (1.0 + 1.0 / 3.0) - np.sin(6.0) / 9.0, 1.0 + (1.0 - np.cos(6.0)) / 3.0]
    errors = []
    for h in (0.1, 0.05):
        motion = free.simulate([0.0], [1.0], [0.0, 2.0], method="variational", step=h, order=4)
        errors.append(np.abs([motion.q[-1, 0] - exact[0], motion.v[-1, 0] - exact[1]]).max())
    assert errors[0] < 3e-5 and np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.2)


@pytest.mark.further
def test_suzukis_composition_in_a_frame_with_forces():
    np.testing.assert_allclose(orders(DAMPED, Q, V, 0.8, (16, 32, 64), 4), 4.0, atol=0.1)


def test_in_a_chart_a_step_is_the_implicit_midpoint_rule():
    """qdot = p/m, pdot = -V' + tau, both at the middle in space and time; backwards it returns."""
    h, state = 0.05, np.array([2.0, 0.5 * 0.3])

    def push(t, q, v):
        return jnp.sin(40.0 * t) * (1.0 + q) - 0.4 * v

    for k in range(3):

        def residual(new, old=state, t=(k + 0.5) * h):
            q, p = (new + old) / 2.0
            force = np.sin(40.0 * t) * (1.0 + q) - 0.4 * (new[0] - old[0]) / h
            return new - old - h * np.array([p / 0.5, force - 3.0 * np.sin(q)])

        state = root(residual, state, tol=1e-14).x
    motion = PENDULUM.simulate([2.0], [0.3], [0.0, 3 * h], push, method="variational", step=h)
    np.testing.assert_allclose([motion.q[-1, 0], 0.5 * motion.v[-1, 0]], state, rtol=0.0, atol=1e-13)
    back = PENDULUM.simulate(motion.q[-1], motion.v[-1], [3 * h, 0.0], push, method="variational", step=h)
    np.testing.assert_allclose([back.q[-1, 0], back.v[-1, 0]], [2.0, 0.3], rtol=0.0, atol=1e-13)


def test_energy_has_no_trend_where_eulers_grows():
    """Over 3,200 swings: the band of the first tenth is that of the last, and 100 steps of Euler leave it."""
    times, h = np.arange(0.0, 8000.0, 0.5), 0.05
    motion = PENDULUM.simulate([2.0], [0.0], times, method="variational", step=h)
    band = np.array([part.max() for part in np.array_split(motion.drift, 10)])
    assert 1e-4 < band.max() < 2e-3
    np.testing.assert_allclose(band, band[0], rtol=0.02)
    energy = np.asarray(PENDULUM.energy(motion.q, motion.v))
    slope = np.polyfit(times, energy, 1)[0] * times[-1]
    assert abs(slope) < 0.01 * np.ptp(energy)
    q, v = 2.0, 0.0
    for _ in range(100):
        q, v = q + h * v, v - h * 3.0 * np.sin(q) / 0.5
    assert 0.25 * v**2 + 3.0 * (1.0 - np.cos(q)) > energy[0] + 10.0 * np.ptp(energy)


def hat(w):
    return np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def test_on_rotations_a_step_is_that_of_the_exponential():
    """(dexp^-1_{h xi})^T I xi = P_k and R_{k+1} = R_k exp(h xi), by SciPy; spatial momentum is exact."""
    h, w = 0.1, np.array([2.0, -1.0, 1.5])
    R, P = np.eye(3), INERTIA @ w

    def discrete_momentum(xi):
        x = h * xi
        t2, X = x @ x, hat(x)
        c = (1.0 - np.sqrt(t2) / 2.0 / np.tan(np.sqrt(t2) / 2.0)) / t2
        return (np.eye(3) - 0.5 * X + c * X @ X).T @ (INERTIA @ xi)

    for _ in range(4):
        xi = root(lambda xi, P=P: discrete_momentum(xi) - P, w, tol=1e-14).x
        turn = expm(h * hat(xi))
        R, P = R @ turn, turn.T @ P
    times = [0.0, 4 * h, 2000 * h]
    motion = TOP.simulate([0, 0, 0, 1], w, times, method="variational", step=h)
    turns = Rotation.from_quat(motion.q).as_matrix()
    np.testing.assert_allclose(turns[1], R, atol=1e-12)
    np.testing.assert_allclose(INERTIA @ motion.v[1], P, atol=1e-12)
    J = np.einsum("tij,jk,tk->ti", turns, INERTIA, motion.v)
    np.testing.assert_allclose(J, J[[0, 0, 0]], rtol=0.0, atol=2e-12 * np.abs(J).max())
    with pytest.raises(IntegrationError, match=r"from t = 0, .*half a turn.*there step=0\.5 would do"):
        TOP.simulate([0, 0, 0, 1], [0.5, 0.1, 4.0], [0.0, 2.0], method="variational", step=1.0)


def test_order_on_rotations_beside_eulers_closed_form():
    """omega = (a cn, b sn, c dn) of a free body, Jacobi's functions; the same compiled steps as above."""
    (i0, i1, i2), w0 = np.diag(INERTIA), np.array([1.0, 0.0, 2.0])  # a polhode about the largest inertia
    M2, E2 = np.sum((np.diag(INERTIA) * w0) ** 2), np.sum(np.diag(INERTIA) * w0**2)
    a, b = (np.sqrt((E2 * i2 - M2) / (i * (i2 - i))) for i in (i0, i1))
    c = np.sqrt((M2 - E2 * i0) / (i2 * (i2 - i0)))
    rate = np.sqrt((i2 - i1) * (M2 - E2 * i0) / (i0 * i1 * i2))
    k2 = (i1 - i0) * (E2 * i2 - M2) / ((i2 - i1) * (M2 - E2 * i0))
    sn, cn_, dn, _ = ellipj(rate * 1.6, k2)
    exact = np.array([a * cn_, b * sn, c * dn])
    errors = []
    for h in (0.1, 0.05, 0.025):
        found = TOP.simulate([0, 0, 0, 1], w0, [0.0, 1.6], method="variational", step=h).v[-1]
        errors.append(np.abs(found - exact).max())
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 2.0, atol=0.05)


@dataclass(frozen=True, eq=False)
class Reversed(cn.SO3Frame):
    """Rotations with a retraction in the axes of the world: its derivative is not X xi."""

    def retract_at(self, q, xi):
        turned = super().retract_at(jnp.array([0.0, 0.0, 0.0, 1.0]), xi)
        x, y, z, w = turned
        left = jnp.array([[w, -z, y, x], [z, w, -x, y], [-y, x, w, z], [-x, -y, -z, w]])
        return left @ q


@pytest.mark.further
def test_order_on_poses_and_with_a_wrong_retraction():
    """SE(3), whose retraction is not symmetric, with a metric of all entries and a potential: order two."""
    rng = np.random.default_rng(4)
    root_of_H = np.eye(6) + 0.2 * rng.normal(size=(6, 6))
    body = cn.MechanicalSystem(
        cn.ConstantMetric(cn.SE3Frame(), root_of_H @ root_of_H.T), lambda q: 2.0 * q[2] + q[0] ** 2 + q[3]
    )
    q0 = np.array([0.3, -0.2, 0.5, 0.0, 0.0, 0.6, 0.8])
    found = orders(body, q0, [0.5, -0.4, 0.7, 0.3, 0.2, -0.6], 0.8, (16, 32, 64), None)
    np.testing.assert_allclose(found, 2.0, atol=0.1)
    wrong = cn.MechanicalSystem(cn.ConstantMetric(Reversed(), INERTIA))
    found = orders(wrong, [0.0, 0.0, 0.6, 0.8], [1.0, 0.4, 2.0], 0.8, (16, 32, 64), None)
    assert (found < 0.5).all()


@pytest.mark.further
def test_a_momentum_that_the_retraction_does_not_keep_is_an_error():
    """A free particle in polar coordinates keeps its angular momentum, and not the linear one."""
    plane = cn.MechanicalSystem(
        cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.diag(jnp.stack([1.0 + 0.0 * q[0], q[0] ** 2])))
    )

    def shift(q, g):
        x, y = q[0] * jnp.cos(q[1]) + g[0], q[0] * jnp.sin(q[1]) + g[1]
        return jnp.stack([jnp.hypot(x, y), jnp.arctan2(y, x)])

    shifts = cn.GroupAction(shift, lambda g, h: g + h, np.zeros(2))
    times, keep = np.linspace(0.0, 2.0, 5), {"method": "variational", "step": 0.1}
    plane.simulate([1.0, 0.2], [0.3, 0.9], times, symmetry=systems.translations(2, (1,)), **keep)
    with pytest.raises(IntegrationError, match="commutes with the retraction") as caught:
        plane.simulate([1.0, 0.2], [0.3, 0.9], times, symmetry=shifts, **keep)
    assert caught.value.motion.q.shape == (5, 2)


def late(t, q, v):
    """A force that is none from t = 0.23 on."""
    return jnp.where(t > 0.23, jnp.nan, 0.1) * q


NOT_FINITE = {
    "control": (r"control\(t, q, v\)\[0\] is nan at t = 0.25", {}, [late], 2),
    "control, order 4": (r"control\(t, q, v\)\[0\] is nan at t = 0.237826", {}, [late], 4),
    "forces": (r"forces\(t, q, v\)\[0\] is nan at t = 0.25", {"forces": late}, [], 2),
    "potential": (
        r"the gradient of the potential\[0\] is nan at t = 0.25",
        {"potential": lambda q: jnp.where(q[0] > 0.465, jnp.nan, 0.1) * q[0] ** 2},
        [],
        2,
    ),
}


@pytest.mark.parametrize("name", always(NOT_FINITE, "control"))
def test_what_is_not_finite_is_named_with_its_time(name):
    expected, parts, control, order = NOT_FINITE[name]
    system = cn.MechanicalSystem(PENDULUM.metric, **{"potential": PENDULUM.potential, **parts})
    with pytest.raises(
        IntegrationError, match=f"^simulate: no step of 0.1 from t = 0.2,.*{expected}"
    ) as error:
        system.simulate([0.4], [0.3], [0.0, 0.1, 0.6], *control, method="variational", step=0.1, order=order)
    assert isinstance(error.value.__cause__, NonFiniteError) and len(error.value.motion.q) == 2


@pytest.mark.further
def test_what_is_not_finite_is_nan_inside_jit():
    def points(v):
        return PENDULUM.simulate([0.4], v, [0.0, 0.1, 0.6], late, method="variational", step=0.1).q

    np.testing.assert_array_equal(np.isfinite(jax.jit(points)(jnp.array([0.3]))[:, 0]), [True, True, False])


def test_a_momentum_that_is_not_kept_is_an_error():
    """Shifts of the angle are no symmetry of the pendulum."""
    shifts = systems.translations(1, (0,))
    with pytest.raises(IntegrationError, match="potential is not invariant under generator 0"):
        PENDULUM.simulate([0.4], [0.3], [0.0, 0.1, 0.35], symmetry=shifts, method="variational", step=0.05)


def test_a_generator_that_vanishes_is_no_alarm():
    """A particle that moves along the axis of turns: their generator is round-off, and so is its momentum."""
    space = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(3), 2.0 * np.eye(3)))
    axis = np.array([0.3, -0.5, 0.7])
    turns = cn.GroupAction(
        lambda q, g: q + g[0] * jnp.cross(jnp.asarray(axis), q), lambda g, h: g + h, np.zeros(1)
    )
    times = np.linspace(0.0, 3.0, 7)

    def kept(way, v):
        motion = Motion(times, axis * (1.0 + times[:, None] / 7.0) + way, np.broadcast_to(v, (7, 3)))
        require_kept("simulate", space, space.metric, turns, space.connection, motion)

    aside = np.array([0.0, 0.2, 0.1])
    lengths = np.linalg.norm(np.cross(axis, axis * (1.0 + times[:, None] / 7.0)), axis=1)
    assert 0.0 < lengths.max() < 1e-15  # round-off, and not zero
    kept(0.0 * aside, axis / 7.0)
    kept(aside, axis / 7.0)  # parallel to the axis
    with pytest.raises(IntegrationError, match="momentum of generator 0"):
        kept(aside * times[:, None], np.array([0.3, 0.1, 0.0]))  # control: no straight line at this velocity


def test_derivatives_are_those_of_the_discrete_motion():
    """Through 40 steps; with respect to the start and, by the equations of a step, to nothing else."""

    def end(q, v):
        return PENDULUM.simulate(q, v, [0.0, 1.0, 2.0], method="variational", step=0.05).q[-1, 0]

    slope = jax.jit(jax.grad(end, argnums=(0, 1)))(jnp.array([1.0]), jnp.array([0.4]))
    e = 1e-5
    by_q = (end([1.0 + e], [0.4]) - end([1.0 - e], [0.4])) / (2 * e)
    by_v = (end([1.0], [0.4 + e]) - end([1.0], [0.4 - e])) / (2 * e)
    np.testing.assert_allclose([slope[0][0], slope[1][0]], [by_q, by_v], rtol=1e-8)


def test_a_nonholonomic_step_keeps_the_constraint_and_has_order_two():
    """The sleigh's closed form; the disc's map by hand, which is not the continuous motion."""
    sleigh = systems.chaplygin_sleigh().numeric()
    a, k2 = 0.2, 0.2**2 + 0.1
    C, t = np.sqrt(k2) * 2.0, 1.0  # from u = 0, omega = 2
    u, omega = C * np.tanh(a * C * t / k2), C / np.sqrt(k2) / np.cosh(a * C * t / k2)
    errors = []
    for count in (16, 32, 64):
        motion = sleigh.simulate([0.0, 0.0, 0.0], [0.0, 2.0], [0.0, t], method="variational", step=t / count)
        errors.append(np.abs(motion.v[-1] - [u, omega]).max())
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 2.0, atol=0.05)
    late = sleigh.simulate([0.0, 0.0, 0.0], [0.0, 2.0], [0.0, 30.0, 60.0], method="variational", step=0.02)
    assert 1e-5 < late.drift[1] < 1e-3 and abs(late.drift[2] - late.drift[1]) < 1e-12  # lost, once


@pytest.mark.further
def test_the_discs_discrete_map():
    """omega and the rolling per step are constant: (m R^2 + I) / (m R^2 cos(h omega / 2) + I) of phidot."""
    disc, h = systems.rolling_disc().numeric(), 0.05
    motion = disc.simulate([0.0, 0.0, 0.3, 0.1], [0.5, 2.0], [0.0, 5.0, 10.0], method="variational", step=h)
    np.testing.assert_allclose(motion.v, [[0.5, 2.0]] * 3, rtol=1e-12)
    mr2, inertia = 2.0 * 0.5**2, 0.25
    rolled = 0.5 * (mr2 + inertia) / (mr2 * np.cos(h * 2.0 / 2.0) + inertia)
    np.testing.assert_allclose(np.diff(motion.q[:, 3]) / 5.0, rolled, rtol=1e-12)
    assert abs(rolled - 0.5) > 1e-4  # control
    np.testing.assert_allclose(motion.drift, 0.0, atol=1e-13)


def test_what_moves_the_constraints_enters_a_step():
    """A skate on a belt moves as on the ground, seen from the belt: exactly so, by Galilei's principle."""
    space = cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([2.0, 2.0, 0.3]))
    belt = np.array([0.5, 0.2, 0.0])

    def blade(q):
        return jnp.stack([-jnp.sin(q[2]), jnp.cos(q[2]), -0.25 + 0.0 * q[2]])[None]

    nabla = cn.ConstrainedConnection(space, forms=blade)
    ground = cn.NonholonomicSystem(nabla)
    carried = cn.NonholonomicSystem(nabla, drift=lambda q: jnp.asarray(belt))
    q0, vbar, times = np.array([0.1, -0.2, 0.4]), np.array([0.9, 0.5]), np.linspace(0.0, 1.0, 3)
    still, moved = (s.simulate(q0, vbar, times, method="variational", step=0.05) for s in (ground, carried))
    np.testing.assert_allclose(moved.q, still.q + times[:, None] * belt, atol=1e-12)
    np.testing.assert_allclose(moved.v, still.v, atol=1e-12)


@pytest.mark.parametrize(
    ("system", "start", "rate"),
    [
        (PENDULUM, ([2.0], [0.0]), (4.0, 3.0)),
        further(TOP, ([[0.0, 0.0, 0.0, 1.0]] * 2, [1.0, 2.0, 0.5]), (4.0, 3.0)),
        further(DAMPED, (Q, V), (4.0, 3.0)),
    ],
    ids=["chart", "rotations", "frame and forces"],
)
def test_between_steps_a_cubic(system, start, rate):
    """Its error is O(h^4) of q and O(h^3) of v, beside steps of order four; at steps it is the motion."""
    errors = []
    for h in (0.04, 0.02):
        motion = system.simulate(*start, [0.0, 0.16], method="variational", step=h, order=4)
        t = np.array([0.0, 0.04, 0.16])[:, None] + np.array([0.0, 0.3, 0.5, 0.8]) * h
        t = np.minimum(t, 0.16)
        exact = system.simulate(*start, [0.0, *np.unique(t)[1:]])
        q, v = motion.at(np.unique(t))
        errors.append([np.abs(q - exact.q).max(), np.abs(v - exact.v).max()])
        np.testing.assert_array_equal(motion.at(0.16)[0], motion.q[..., -1, :])
        np.testing.assert_allclose(motion.at(t)[0].shape, (*motion.batch, 3, 4, motion.q.shape[-1]))
    np.testing.assert_allclose(np.log2(np.divide(*errors)), rate, atol=0.4)
    assert max(errors[1]) > 1e-9  # control: there is an error


def test_between_steps_constraints_hold_that_move():
    """A skate on a belt that starts, backwards: A vbar + v_0(t) is the curve's velocity, to O(h^3)."""
    nabla = cn.ConstrainedConnection(
        cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([2.0, 2.0, 0.3])),
        forms=lambda q: jnp.stack([-jnp.sin(q[2]), jnp.cos(q[2]), 0.0 * q[2]])[None],
    )
    skate = cn.NonholonomicSystem(nabla, drift=lambda t, q: jnp.stack([jnp.sin(2.0 * t), 0.3, 0.0 * t]))
    start = [0.1, -0.2, 0.4], [0.9, 0.5]
    motion = skate.simulate(*start, [1.0, 0.8], method="variational", step=0.04, order=4)
    t = np.array([0.99, 0.95, 0.9, 0.81])
    q, v = motion.at(t)
    exact = skate.simulate(*start, [1.0, *t])
    np.testing.assert_allclose(q, exact.q[1:], atol=3e-7)
    np.testing.assert_allclose(v, exact.v[1:], atol=3e-5)
    assert np.abs(exact.v[1:] - v[0]).max() > 1e-2  # control


@pytest.mark.further
def test_a_step_keeps_the_symplectic_form():
    """J^T W J = W for the Jacobian J in frame components, W = [[s^k_ij P_k, 1], [-1, 0]] of each end."""
    free = cn.MechanicalSystem(METRIC, lambda q: q[0] ** 2 + jnp.cos(q[1]))
    frame, H = METRIC.frame, METRIC.matrix

    def step(y):
        v = np.linalg.solve(H(y[:2]), y[2:])
        motion = free.simulate(y[:2], v, [0.0, 0.2], method="variational", step=0.2)
        return np.concatenate([motion.q[-1], H(motion.q[-1]) @ motion.v[-1]])

    def form(y, turning=1.0):
        s = turning * np.einsum("kij,k->ij", frame.structure_functions(y[:2]), y[2:])
        return np.block([[s, np.eye(2)], [-np.eye(2), np.zeros((2, 2))]])

    y = np.concatenate([Q, H(Q) @ V])
    wide = np.block([[frame.matrix(Q), np.zeros((2, 2))], [np.zeros((2, 2)), np.eye(2)]])
    e = 1e-5
    J = np.stack([(step(y + e * d) - step(y - e * d)) / (2 * e) for d in wide.T], axis=1)
    end = step(y)
    J[:2] = np.linalg.solve(frame.matrix(end[:2]), J[:2])
    np.testing.assert_allclose(J.T @ form(end) @ J, form(y), atol=1e-8)
    assert np.abs(J.T @ form(end, 0.0) @ J - form(y, 0.0)).max() > 0.01  # control: without brackets


def test_no_motions_and_one_time():
    times = [0.0, 0.1, 0.35]
    none = PENDULUM.simulate(np.zeros((0, 1)), [0.1], times, method="variational", step=0.05)
    assert none.q.shape == (0, 3, 1) and none.drift.shape == (0, 3)
    at_once = PENDULUM.simulate([0.4], [0.2], [0.3], method="variational", step=0.05)
    np.testing.assert_array_equal(at_once.q, [[0.4]])


@pytest.mark.further
def test_batches_are_single_motions(rng):
    q0, v0 = rng.normal(size=(3, 1, 1)), rng.normal(size=(2, 1))
    times = [0.0, 0.1, 0.35]
    batch = PENDULUM.simulate(q0, v0, times, method="variational", step=0.05)
    assert batch.q.shape == (3, 2, 3, 1) and batch.drift.shape == (3, 2, 3)
    one = PENDULUM.simulate(q0[2, 0], v0[1], times, method="variational", step=0.05)
    np.testing.assert_allclose(batch.q[2, 1], one.q, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"step": 0.3}, ValueError, r"0\.3 does not divide times\[1\] - times\[0\] = 0\.5; 0\.25 would"),
        ({}, TypeError, "needs step=h"),
        ({"step": -0.1}, ValueError, "step: expected a positive number"),
        ({"step": 0.1, "order": 3}, ValueError, "order: expected 2 or 4, got 3"),
        ({"step": 0.1, "rtol": 1e-3}, TypeError, "rtol is no option of method='variational'"),
        ({"step": 0.1, "method": "RK4"}, ValueError, "method: expected 'DOP853' or 'variational'"),
        ({"step": 0.1, "method": "DOP853"}, TypeError, "step is an option of method='variational'"),
        ({"step": 0.1, "control": lambda t, q: q}, TypeError, "control: expected a function"),
        ({"step": 0.1, "control": 3.0}, TypeError, "control: expected a function"),
    ],
)
def test_bad_input_is_named(options, kind, words):
    with pytest.raises(kind, match=words):
        PENDULUM.simulate([0.1], [0.2], [0.0, 0.5, 1.0], **({"method": "variational"} | options))


def test_a_step_that_does_not_converge_is_named():
    """Towards a wall, beyond which the potential does not exist: when, where, and which step would do."""
    wall = cn.MechanicalSystem(PENDULUM.metric, lambda q: 4.0 / jnp.sqrt(q[0]))
    words = r"no step of 1 from t = 1, q = \[1\..*not converge.*the step is too long: there step=0.* would do"
    with pytest.raises(IntegrationError, match=words) as caught:
        wall.simulate([6.0], [-5.0], [0.0, 1.0, 8.0], method="variational", step=1.0)
    np.testing.assert_array_equal(caught.value.motion.times, [0.0, 1.0])


def rods_inertia(q):
    """Of two equal rods that hang on one another; q[1] is the angle between them."""
    coupling = 1.25 + 0.5 * jnp.cos(q[1])
    return jnp.array([[1.0 + 2.0 * coupling, coupling], [coupling, 1.25]])


def test_a_long_step_finds_no_solution_of_another_turn():
    """In a chart of two rods, at 0.4 s, step by step beside DOP853: near to it, or an error."""
    rods = cn.MechanicalSystem(
        cn.MatrixMetric(cn.CoordinateFrame(2), rods_inertia),
        lambda q: -9.81 * (1.5 * jnp.cos(q[0]) + 0.5 * jnp.cos(q[0] + q[1])),
    )
    h, refused = 0.4, 0
    for seed, speed in ((1, 10.0), (3, 3.0), (7, 3.0)):
        rng = np.random.default_rng(seed)
        q, v = rng.uniform(-3.0, 3.0, 2), speed * rng.normal(size=2)
        try:
            motion = rods.simulate(q, v, np.arange(21) * h, method="variational", step=h)
        except IntegrationError as error:
            motion, refused = error.motion, refused + 1
            assert "the step is too long: there step=" in str(error)
        for k in range(len(motion.times) - 1):
            end = rods.simulate(motion.q[k], motion.v[k], [0.0, h]).q[1]
            assert np.abs(end - motion.q[k + 1]).max() < 2.0, (seed, k)
    assert refused > 1


def test_a_long_step_of_a_disc_does_not_roll_it_backwards():
    """Rolling is (m R^2 + I) / (m R^2 cos(h omega / 2) + I) of phidot: of the other sign beyond its pole."""
    disc, q = systems.rolling_disc().numeric(), [0.0, 0.0, 0.3, 0.1]
    for h, omega in ((1.0, 2.0), (-1.0, 2.0)):
        motion = disc.simulate(q, [0.5, omega], [0.0, h], method="variational", step=1.0)
        rolled = 0.5 * h * 0.75 / (0.5 * np.cos(h * omega / 2.0) + 0.25)  # m R^2 = 0.5 and I = 0.25
        np.testing.assert_allclose(motion.q[-1, 3] - 0.1, rolled, rtol=1e-12)
        with pytest.raises(IntegrationError, match="the step is too long: there step=0.5 would do"):
            disc.simulate(q, [0.5, 2.5 * omega], [0.0, h], method="variational", step=1.0)


def test_another_connections_motion_is_refused():
    other = PENDULUM.with_connection(cn.CoefficientConnection(PENDULUM.frame, lambda q: jnp.ones((1, 1, 1))))
    with pytest.raises(ValueError, match="the metric's geodesics"):
        other.simulate([0.1], [0.2], [0.0, 0.5], method="variational", step=0.1)
