"""Reduced equations of a snakeboard, and what they reconstruct, against the system with multipliers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import vehicles
from vehicles import GROUP, LENGTH, MASS, NABLA, POINTS, ROTOR, WHEELS

import connections as cn


def springs(q):
    """Of the wheels' angle: invariant."""
    return 0.4 * q[4] ** 2


def damping(t, q, v):
    """Of the wheels' angle."""
    return jnp.zeros(5).at[4].set(-0.05 * v[2])


def shape(q):
    return q[4:]


def section(r):
    """The board at the origin, the rotor along it."""
    return jnp.zeros(5).at[4].set(r[0])


SYSTEM = cn.NonholonomicSystem(NABLA, springs, damping, vehicles.inputs)
REDUCED = cn.ReducedSystem(SYSTEM, GROUP, shape, section)
Q, G = POINTS[0], POINTS[1, :, :4]


def torques(t, r, v):
    """Controls (2,): functions of time, shape and velocity."""
    return jnp.stack([jnp.cos(2.0 * t), 0.1 * jnp.sin(t) - 0.02 * v[2]])


def test_a_snakeboard_is_reduced_to_the_angle_of_its_wheels():
    assert REDUCED.require(Q, G) is REDUCED
    assert REDUCED.shape_dim == 1
    names = [check.name for check in REDUCED.checks(Q, G)]
    assert names == [
        "section has its shape",
        *(f"invariant {what}" for what in ("shape", "basis", "metric", "potential", "inputs", "forces")),
    ]


def test_reduced_motion_and_reconstruction_are_the_whole_motion():
    q0, v0 = np.array([0.3, -0.2, 0.5, 0.1, -0.3]), np.array([0.3, 0.2, -0.4])
    times = np.linspace(0.0, 1.5, 4)
    q, v = REDUCED.reconstruct(q0, v0, times, torques)
    board = vehicles.snakeboard(MASS, ROTOR, WHEELS, LENGTH)

    def covector(t, p, p_dot):
        u = np.array([np.cos(2.0 * t), 0.1 * np.sin(t) - 0.02 * p_dot[4]])
        return np.array([0, 0, 0, u[0], u[1] - 0.8 * p[4] - 0.05 * p_dot[4]])

    expected, q_dot = board.motion(q0, np.asarray(NABLA.basis(q0)) @ v0, times, covector)
    np.testing.assert_allclose(q, expected, atol=1e-9)
    np.testing.assert_allclose(v[:, 1:], q_dot[:, 3:], atol=1e-9)
    assert np.max(np.abs(q[-1] - q[0])) > 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"potential": lambda q: jnp.sin(q[0])}, "cannot be reduced by this group: invariant potential"),
        ({"forces": lambda t, q, v: jnp.eye(5)[0] * v[0]}, "invariant forces"),
        ({"inputs": lambda q: jnp.eye(5)[:2]}, "invariant inputs"),
    ],
)
def test_what_is_not_invariant_is_named(change, message):
    system = cn.NonholonomicSystem(NABLA, **change)
    with pytest.raises(cn.checks.SymmetryError, match=message):
        cn.ReducedSystem(system, GROUP, shape, section).require(Q, G)


def test_bad_shapes_and_sections():
    with pytest.raises(cn.checks.SymmetryError, match="section has its shape"):
        cn.ReducedSystem(SYSTEM, GROUP, shape, lambda r: jnp.zeros(5).at[4].set(2.0 * r[0])).require(Q, G)
    with pytest.raises(cn.checks.ShapeError, match=r"section: expected shape \(5,\), got \(1,\)"):
        cn.ReducedSystem(SYSTEM, GROUP, shape, lambda r: r)
    with pytest.raises(cn.checks.ShapeError, match="shape coordinates"):
        cn.ReducedSystem(SYSTEM, GROUP, lambda q: q[4], section)


def test_a_transitive_action_leaves_no_shape():
    """The planar body: its group moves it anywhere."""
    metric = cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2))
    translations = cn.GroupAction(lambda q, g: q + g, lambda g, h: g + h, np.zeros(2))
    with pytest.raises(cn.checks.ShapeError, match="shape coordinates"):
        cn.ReducedSystem(cn.MechanicalSystem(metric), translations, lambda q: q[:0], lambda r: jnp.zeros(2))


@pytest.mark.parametrize(
    "when",
    [
        lambda t: jnp.maximum(t - 1.0, 0.0),
        lambda t: jnp.sin(2.0 * jnp.pi * t),
        lambda t: jnp.where(t < 0.0, t, 0.0),
    ],
    ids=["later", "periodic", "earlier"],
)
def test_forces_are_sampled_at_more_times_than_zero(when):
    """A wind along x that vanishes at t = 0; one that turns with the board is invariant."""
    wind = lambda t, q, v: jnp.eye(5)[0] * when(t)  # noqa: E731
    system = cn.NonholonomicSystem(NABLA, forces=wind)
    with pytest.raises(cn.checks.SymmetryError, match="invariant forces"):
        cn.ReducedSystem(system, GROUP, shape, section).require(Q, G)
    turning = lambda t, q, v: jnp.eye(5)[4] * when(t)  # noqa: E731
    cn.ReducedSystem(cn.NonholonomicSystem(NABLA, forces=turning), GROUP, shape, section).require(Q, G)


def test_a_reconstruction_may_begin_at_any_time():
    """With controls of time, the motion from t = 2 is the rest of the motion from t = 0."""
    q0, v0 = np.array([0.3, -0.2, 0.5, 0.1, -0.3]), np.array([0.3, 0.2, -0.4])
    times = np.array([0.0, 2.0, 2.5])
    q, v = REDUCED.reconstruct(q0, v0, times, torques)
    rest, velocity = REDUCED.reconstruct(q[1], v[1], times[1:], torques)
    np.testing.assert_allclose(rest[-1], q[2], atol=1e-9)
    np.testing.assert_allclose(velocity[-1], v[2], atol=1e-9)
    early = REDUCED.reconstruct(q[1], v[1], times[1:] - 2.0, torques)[0]
    assert np.max(np.abs(early[-1] - q[2])) > 1e-3


def test_steps_are_as_accurate_at_late_times():
    """Fields of r alone commute, so velocities are constant: r = arctan(t), x = log(1 + t^2) / 2."""

    def fields(q):
        c, s = jnp.cos(q[0]), jnp.sin(q[0])
        return jnp.stack([jnp.stack([c**2, 0.0 * c]), jnp.stack([s * c, 1.0 + 0.0 * c])])

    system = cn.MechanicalSystem(cn.ConstantMetric(cn.MatrixFrame(fields, 2, 2), np.eye(2)))
    translations = cn.GroupAction(lambda q, g: q.at[1].add(g[0]), lambda g, h: g + h, np.zeros(1))
    reduced = cn.ReducedSystem(system, translations, lambda q: q[:1], lambda r: jnp.stack([r[0], 0.0 * r[0]]))
    t = np.array([0.0, 1.0, 4.0])
    for start in (0.0, 1e8):
        q = reduced.reconstruct(np.zeros(2), [1.0, 0.0], start + t)[0]
        np.testing.assert_allclose(q, np.stack([np.arctan(t), np.log1p(t**2) / 2.0], axis=1), atol=1e-7)
        r = reduced.simulate(np.zeros(1), [1.0, 0.0], start + t)[0]
        np.testing.assert_allclose(r[:, 0], np.arctan(t), atol=1e-7)


@pytest.mark.further
def test_a_pulse_between_steps():
    """A couple on the wheels for 20 ms in 10 s is found, with `max_step` and without."""

    def pulse(t, r, v):
        return jnp.exp(-(((t - 5.0) / 0.01) ** 2)) * jnp.eye(2)[1]

    q0, v0, times = np.zeros(5), np.zeros(3), np.array([0.0, 10.0])
    free = cn.ReducedSystem(cn.NonholonomicSystem(NABLA, inputs=vehicles.inputs), GROUP, shape, section)
    momentum = 0.01 * np.sqrt(np.pi)
    for motion in (
        lambda **most: free.simulate(shape(q0), v0, times, pulse, **most),
        lambda **most: free.reconstruct(q0, v0, times, pulse, **most),
    ):
        for most in ({}, {"max_step": 0.02}):
            assert motion(**most)[1][1, 2] == pytest.approx(momentum / WHEELS, rel=1e-7)
        with pytest.raises(ValueError, match="max_step"):
            motion(max_step=0.0)


# --- what is conserved ---------------------------------------------------------------------------------


@pytest.mark.further
def test_the_energy_of_reduced_motions():
    """Of the shape and of the whole: the drift is that of the whole system's energy; loose, to see one."""
    free = cn.NonholonomicSystem(NABLA, springs, inputs=vehicles.inputs)
    reduced = cn.ReducedSystem(free, GROUP, shape, section)
    q0, v0, times = np.array([0.3, -0.2, 0.5, 0.1, -0.3]), np.array([0.3, 0.2, -0.4]), np.linspace(0, 8, 5)
    loose = {"rtol": 1e-6, "atol": 1e-6}
    whole = reduced.reconstruct(q0, v0, times, **loose)
    part = reduced.simulate(shape(q0), v0, times, **loose)
    E, heights = (free.energy(whole.q, v) for v in (whole.v, 0.0 * whole.v))
    expected = np.abs(E - E[0]) / np.max(E - heights)
    assert expected.max() > 1e-8
    for motion in (whole, part, jax.jit(lambda v: reduced.simulate(shape(q0), v, times, **loose))(v0)):
        assert motion.drift[0] == 0.0
        np.testing.assert_allclose(motion.drift, expected, rtol=0.3)


@pytest.mark.further
def test_a_system_without_the_symmetry_does_not_keep_its_energy():
    """A slope: the section lies at the origin, where the board falls for ever."""
    slope = cn.NonholonomicSystem(NABLA, lambda q: 3.0 * q[0], inputs=vehicles.inputs)
    reduced = cn.ReducedSystem(slope, GROUP, shape, section)
    with pytest.raises(cn.checks.IntegrationError, match="symmetry .*is conserved, and has changed"):
        reduced.simulate([0.4], [0.3, 0.2, -0.4], [0.0, 1.0])


@pytest.mark.further
def test_no_energy_is_compared_under_forces_and_controls():
    start = [-0.3], [0.3, 0.2, -0.4], [0.0, 0.5]
    assert REDUCED.simulate(*start).drift is None  # it is damped
    free = cn.ReducedSystem(cn.NonholonomicSystem(NABLA, inputs=vehicles.inputs), GROUP, shape, section)
    assert free.simulate(*start, torques).drift is None
    assert free.simulate(*start).drift is not None


@pytest.mark.further
def test_momenta_of_a_reconstruction():
    """Of a system without constraints they are compared, with those of its reduced system's group."""
    plane = cn.ConstantMetric(cn.CoordinateFrame(2), np.array([[1.0, 0.3], [0.3, 2.0]]))
    along = cn.GroupAction(lambda q, g: q.at[0].add(g[0]), lambda g, h: g + h, np.zeros(1))
    system = cn.MechanicalSystem(plane, lambda q: jnp.cos(q[1]))
    reduced = cn.ReducedSystem(system, along, lambda q: q[1:], lambda r: jnp.stack([0.0, r[0]]))
    given, loose = ([0.5, 0.2], [0.3, 0.4], np.linspace(0.0, 6.0, 4)), {"rtol": 1e-5, "atol": 1e-5}
    whole, part = reduced.reconstruct(*given, **loose), reduced.simulate([0.2], *given[1:], **loose)
    J = along.momenta(plane, whole.q, whole.v)[:, 0]
    speeds = np.sqrt(np.einsum("ti,ij,tj->t", whole.v, plane.matrix(np.zeros(2)), whole.v))
    momentum = np.abs(J - J[0]) / np.maximum.accumulate(speeds)
    assert (whole.drift >= 0.5 * momentum).all() and (whole.drift >= part.drift - 1e-12).all()
    other = cn.GroupAction(lambda q, g: q.at[1].add(g[0]), lambda g, h: g + h, np.zeros(1))
    wrong = cn.ReducedSystem(system, other, lambda q: q[1:], lambda r: jnp.stack([0.0, r[0]]))
    with pytest.raises(cn.checks.IntegrationError, match="momentum of generator 0 of the symmetry"):
        wrong.reconstruct(*given)
