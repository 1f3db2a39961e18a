"""Motions at rest whose forces cancel, and forces that are large for an instant only.

Claims: an arm that its control holds against gravity takes few steps and stays, also where the net rate is
nothing but round-off of both; so do other systems in balance, alone, in batches and inside `jit`, in tiny
units, and what happens later is seen. A step of 1e-13 of the interval is taken with an error only if this is
a small shift in time: constant power from 1e-15 m/s, ions from 1e-10 m, and C / v are refused, and NaN inside
`jit`; where they last long enough, the closed forms are reached.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further

import connections as cn
from connections import control
from connections import multibody as mb
from connections.checks import IntegrationError

LINE = cn.CoordinateFrame(1)
UNIT = cn.ConstantMetric(LINE, np.eye(1))
WAYS = ["alone", "batch", "jit"]


def simulated(way, system, q0, v0, times, *more, **options):
    """q and v (T, n) of one motion; of a batch of two, the second."""
    q0, v0 = np.asarray(q0, dtype=float), np.asarray(v0, dtype=float)
    if way == "jit":
        found = jax.jit(lambda q: tuple(system.simulate(q, v0, times, *more, **options)))(q0)
    elif way == "batch":
        found = (each[1] for each in system.simulate([q0, q0], v0, times, *more, **options))
    else:
        found = system.simulate(q0, v0, times, *more, **options)
    return tuple(map(np.asarray, found))


# --- large for an instant ----------------------------------------------------------------------------------


def power(t, q, v):
    return 10.0 / v


def ions(t, q, v):
    return 1.0 / q**2


def screened(t, q, v):
    return 1e20 * jnp.exp(-q / 1e-10)


def later(t, q, v):
    return jnp.where(t > 0.3, 10.0, 0.0) / v


def steep_and_flat(t, q, v):
    return jnp.where(v < 1e-10, 1e16, 1.0)


BRIEF = {
    "C / v": (lambda t, q, v: 1e50 / v, 0.0, 1e6, 1.0),
    "power": (power, 0.0, 1e-15, 10.0),
    "power, backwards": (lambda t, q, v: -10.0 / v, 0.0, 1e-15, -10.0),
    "power that begins later": (later, 0.0, 1e-15, 1.0),
    "ions": (ions, 1e-10, 0.0, 1.0),
    "screened ions": (screened, 1e-10, 0.0, 1.0),
    "steep and flat": (steep_and_flat, 0.0, 1e-15, 1.0),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", always(BRIEF, "power", "power that begins later", "ions"))
def test_forces_that_are_large_for_an_instant_are_refused(name, way):
    force, q0, v0, end = BRIEF[name]
    system = cn.MechanicalSystem(UNIT, forces=force)
    if way == "jit":
        q, v = simulated(way, system, [q0], [v0], [0.0, end])
        assert np.isnan(q[1]).all() and np.isnan(v[1]).all() and np.isfinite(q[0]).all()
        return
    with pytest.raises(IntegrationError, match=r"it cannot be followed beyond t = .* over a shorter time"):
        simulated(way, system, [q0], [v0], [0.0, end])


def test_an_acceleration_is_refused_as_well():
    """Of a geodesic."""
    nabla = cn.LeviCivita(UNIT)
    with pytest.raises(IntegrationError, match="shorter time"):
        cn.geodesic(nabla, [0.0], [1e-15], [0.0, 10.0], power)


@pytest.mark.parametrize("way", WAYS)
def test_what_lasts_long_enough_is_followed(way):
    """Constant power from 3e-7 m/s, v^2 = v0^2 + 2 P t; screened ions, v^2 = 2 F L (1 - exp(-q / L))."""
    end = np.sqrt(3e-7**2 + 2.0)
    v = simulated(way, cn.MechanicalSystem(UNIT, forces=lambda t, q, v: 1.0 / v), [0.0], [3e-7], [0.0, 1.0])[
        1
    ]
    assert v[-1, 0] == pytest.approx(end, rel=1e-9)
    for begin in (0.0, 0.3):

        def force(t, q, v, begin=begin):
            return 1e10 * jnp.exp(-q / 1e-3) * (t >= begin)

        v = simulated(way, cn.MechanicalSystem(UNIT, forces=force), [0.0], [0.0], [0.0, 1.0])[1]
        assert v[-1, 0] == pytest.approx(np.sqrt(2e7), rel=1e-9)


def test_dry_friction_from_rest():
    """F - mu sign(v) is 1.1 at rest and 0.1 as soon as it moves: the first step is a small shift in time."""
    system = cn.MechanicalSystem(UNIT, forces=lambda t, q, v: 1.1 - jnp.sign(v))
    for way in WAYS:
        q, v = simulated(way, system, [0.0], [0.0], [0.0, 1.0])
        np.testing.assert_allclose([q[-1, 0], v[-1, 0]], [0.05, 0.1], rtol=1e-9)


# --- in balance --------------------------------------------------------------------------------------------

ARM = mb.example("arm")


def held(robot, qd):
    return lambda t, q, v: mb.gravity(robot, q) - 0.05 * v - 0.2 * (q - qd)


@pytest.mark.parametrize("posture", [0.3, 0.0, further(1.0)])
def test_an_arm_is_held_at_its_set_point(posture):
    """By `mb.gravity`, whose round-off is another than that of the dynamics: few steps, and it stays."""
    qd = np.full(ARM.nq, posture)
    motion = ARM.system().simulate(qd, np.zeros(ARM.nv), [0.0, 0.25, 0.5], held(ARM, qd), max_steps=300)
    np.testing.assert_allclose(motion.q, [qd] * 3, rtol=0.0, atol=1e-13)
    assert np.abs(motion.v).max() < 1e-12


def test_held_until_a_torque_begins():
    """The motion after 0.3 s is that from rest at 0.3 s."""
    qd = np.full(ARM.nq, 0.3)

    def push(t, q, v):
        return held(ARM, qd)(t, q, v) + 2.0 * max(t - 0.3, 0.0) ** 2

    found = ARM.system().simulate(qd, np.zeros(ARM.nv), [0.0, 0.5], push)
    alone = ARM.system().simulate(qd, np.zeros(ARM.nv), [0.3, 0.5], push)
    np.testing.assert_allclose(found.v[-1], alone.v[-1], rtol=1e-7, atol=1e-9 * np.abs(alone.v[-1]).max())
    assert np.abs(alone.v[-1]).max() > 1e-3


def weight(q):
    return 9.81 * (1.3 * jnp.cos(q[0]) + 0.7 * jnp.cos(q[0] + q[1]))


def inertia(q):
    c = jnp.cos(q[1])
    return jnp.array([[2.0 + c, 0.5 + 0.5 * c], [0.5 + 0.5 * c, 0.5]])


TWO_LINKS = cn.MechanicalSystem(cn.MatrixMetric(cn.CoordinateFrame(2), inertia), weight)


def holding(t, q, v, size=1.0):
    """The weight of two links, summed in another order, so that its round-off is another, and a spring."""
    both = -0.7 * 9.81 * jnp.sin(q[1] + q[0])
    tau = jnp.stack([both - 1.3 * (9.81 * jnp.sin(q[0])), both])
    return size * (tau - 0.05 * v - 0.2 * (q - 0.3))


@pytest.mark.parametrize("way", WAYS)
def test_two_links_are_held(way):
    for start in (0.3, 0.3 + 1e-15):
        q, v = simulated(way, TWO_LINKS, [start, 0.3], [0.0, 0.0], [0.0, 0.5], holding, max_steps=300)
        assert np.abs(q[-1] - 0.3).max() < 1e-13 and np.abs(v[-1]).max() < 1e-12


@pytest.mark.parametrize("way", WAYS)
def test_in_tiny_units(way):
    """Masses of 1e-27 and lengths in nanometres: energies by 1e-27, as many steps."""
    metric = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: 1e-27 * inertia(q))
    system = cn.MechanicalSystem(metric, lambda q: 1e-27 * weight(q))

    def hold(t, q, v):
        return holding(t, q, v, 1e-27)

    q, v = simulated(way, system, [0.3, 0.3], [0.0, 0.0], [0.0, 0.5], hold, max_steps=300)
    assert np.abs(q[-1] - 0.3).max() < 1e-13 and np.abs(v[-1]).max() < 1e-12


BALANCES = {
    "thrust and weight": cn.MechanicalSystem(
        cn.ConstantMetric(LINE, 1.7 * np.eye(1)),
        lambda q: 1.7 * 9.81 * q[0],
        lambda t, q, v: 1.7 * 9.81 + 0.3 * (q - 0.3) - 0.3 * (jnp.sin(q) - np.sin(0.3)),
    ),
    "an unstable equilibrium": cn.MechanicalSystem(UNIT, lambda q: -9.81 * jnp.cos(q[0] - 0.3 - np.pi)),
    "a spring at its length": cn.MechanicalSystem(UNIT, lambda q: 3.5 * (q[0] - 0.3) ** 2),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BALANCES)
def test_other_balances(name, way):
    q, v = simulated(way, BALANCES[name], [0.3], [0.0], [0.0, 3.0], max_steps=1000)
    assert abs(q[-1, 0] - 0.3) < 1e-11 and abs(v[-1, 0]) < 1e-11


def test_a_closed_loop_at_rest():
    """A law that holds two links at the point of its reference."""
    law = control.PassivityController(TWO_LINKS, np.eye(2))
    reference = control.FieldReference(TWO_LINKS.frame, lambda t, q: -(q - 0.3))
    loop = control.ClosedLoop(TWO_LINKS, law, reference)
    for way in WAYS:
        q, v = simulated(way, loop, [0.3, 0.3], [0.0, 0.0], [0.0, 0.5], max_steps=500)
        assert np.abs(q[-1] - 0.3).max() < 1e-12 and np.abs(v[-1]).max() < 1e-12


def test_a_skate_on_a_slope_is_held():
    """The weight of a skate that stands along the slope, and a drive that holds it."""
    space = cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([1.3, 1.3, 0.2]))
    skate = cn.ConstrainedConnection(
        space, forms=lambda q: jnp.stack([jnp.sin(q[2]), -jnp.cos(q[2]), 0.0 * q[2]])[None]
    )

    def drive(t, q, v):
        pull = 1.3 * 9.81 * (0.4 * jnp.cos(q[2]) + 0.1 * jnp.sin(q[2]))
        return jnp.stack([pull * jnp.cos(q[2]), pull * jnp.sin(q[2]), 0.0 * q[2]])

    system = cn.NonholonomicSystem(skate, lambda q: 9.81 * (0.4 * q[0] + 0.1 * q[1]) * 1.3, drive)
    q0 = np.array([0.1, 0.2, 0.7])
    for way in WAYS:
        q, v = simulated(way, system, q0, [0.0, 0.0], [0.0, 1.0], max_steps=500)
        assert np.abs(q[-1] - q0).max() < 1e-12 and np.abs(v[-1]).max() < 1e-12


def test_a_geodesic_of_no_velocity():
    half_plane = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2))
    motion = cn.geodesic(half_plane, [0.3, 0.7], [0.0, 0.0], [0.0, 5.0])
    np.testing.assert_array_equal(motion.q[-1], [0.3, 0.7])
    np.testing.assert_array_equal(motion.v[-1], [0.0, 0.0])
