"""Geometric phases of gaits against closed forms, motions through singular bases, and long horizons.

The closed forms are integrals of explicit functions of time. Chebyshev series integrate them to round-off,
and one is a sum of Bessel functions. All motions have seven times: each system compiles once.
"""

from functools import cache

import numpy as np
import pytest
import vehicles
from cases import always
from numpy.polynomial.chebyshev import Chebyshev
from scipy.special import jv

import connections as cn
from connections import systems
from connections.systems.gaits import (
    Locomotion,
    displacement,
    roller_racer_gait,
    sinusoidal,
    snakeboard_gaits,
)


def integral(function, end, degree=400):
    """The integral of a function from 0, as a series on [0, end]."""
    return Chebyshev.interpolate(function, degree, [0.0, end]).integ(lbnd=0.0)


def path(forward, turning, end, degree=400):
    """(x, y, theta) as functions of time: along the heading with `forward`, which turns with `turning`."""
    theta = integral(turning, end, degree)
    x, y = (integral(lambda t, f=f: forward(t) * f(theta(t)), end, degree) for f in (np.cos, np.sin))
    return x, y, theta


def rates(gait, place):
    """A shape coordinate and its rate as functions of time."""
    amplitude, omega, phase, offset = gait.parameters[:, place]
    return (
        lambda t: offset + amplitude * np.sin(omega * t + phase),
        lambda t: amplitude * omega * np.cos(omega * t + phase),
    )


@cache
def board():
    return Locomotion(systems.snakeboard().numeric(), driven=(3, 4))


@cache
def racer():
    return Locomotion(systems.roller_racer().numeric(), driven=(3,))


@cache
def vehicle(name):
    return systems.NAMES[name]().numeric()


def snakeboard_path(gait, end):
    """m l^2 v1' = -J_r cos(phi) psi' phi'; forward and turning rates of [Z] 4.2."""
    size = {s.name: value for s, value in systems.snakeboard().parameters.items()}
    l, k = size["l"], size["J_r"] / (size["m"] * size["l"] ** 2)  # noqa: E741
    (_, psi_dot), (phi, phi_dot) = rates(gait, 0), rates(gait, 1)
    v1 = integral(lambda t: -k * np.cos(phi(t)) * psi_dot(t) * phi_dot(t), end)

    def forward(t):
        return l * np.cos(phi(t)) * (v1(t) + k * np.sin(phi(t)) * psi_dot(t))

    def turning(t):
        return -np.sin(phi(t)) * (v1(t) + k * np.sin(phi(t)) * psi_dot(t))

    return (*path(forward, turning, end), v1)


def racer_path(gait, end, degree=400):
    """The velocity is w (l_2 + l_1 c) X_1 + psi' X_2, c = cos psi, in which the first field is regular:

    (sqrt(f_1) w)' = m (l_1 + l_2 c) (l_1 I_2 c - l_2 I_1) psi'^2 / f_1^(3/2).
    """
    size = {s.name: value for s, value in systems.roller_racer().parameters.items()}
    m, l_1, l_2, I_1, I_2 = (size[name] for name in ("m", "l_1", "l_2", "I_1", "I_2"))
    psi, psi_dot = rates(gait, 0)

    def parts(t):
        s, c = np.sin(psi(t)), np.cos(psi(t))
        arm = l_2 + l_1 * c
        return s, c, arm, m * arm**2 + (I_1 + I_2) * s**2

    def slope(t):
        _, c, _, f_1 = parts(t)
        return m * (l_1 + l_2 * c) * (l_1 * I_2 * c - l_2 * I_1) / f_1**1.5 * psi_dot(t) ** 2

    u = integral(slope, end, degree)  # sqrt(f_1) w

    def forward(t):
        s, c, arm, f_1 = parts(t)
        return arm * u(t) / np.sqrt(f_1) + (l_2 * I_1 - l_1 * I_2 * c) * s / f_1 * psi_dot(t)

    def turning(t):
        s, _, arm, f_1 = parts(t)
        return s * u(t) / np.sqrt(f_1) - (m * l_2 * arm + I_2 * s**2) / f_1 * psi_dot(t)

    return path(forward, turning, end, degree)


@pytest.mark.parametrize("name", ["drive", "rotate", "park"])
def test_a_snakeboards_phase(name):
    gait = snakeboard_gaits()[name]
    times = gait.times(2, per_cycle=3)
    q, v = board().simulate(gait, times)
    x, y, theta, v1 = snakeboard_path(gait, times[-1])
    expected = np.stack([f(times) for f in (x, y, theta)], axis=1)
    np.testing.assert_allclose(np.asarray(q)[:, :3], expected, atol=2e-9)
    np.testing.assert_allclose(np.asarray(v)[:, 0], v1(times), atol=2e-9)
    np.testing.assert_array_equal(np.asarray(q)[:, 3:], gait.shape(times))
    assert np.max(np.abs(expected[-1])) > 0.1


@pytest.mark.parametrize(("a", "b"), [(0.7, 0.7), (0.3, 1.1), (-0.5, 0.9)])
def test_the_angle_of_a_cycle_is_a_sum_of_bessel_functions(a, b):
    """psi = a sin 2t, phi = b sin t: 8 pi a J_r / (m l^2) [(1 - J_0(2b)) / b^2 - J_1(2b) / b] in a cycle."""
    size = {s.name: value for s, value in systems.snakeboard().parameters.items()}
    k = size["J_r"] / (size["m"] * size["l"] ** 2)
    gait = sinusoidal("rotate", (a, b), (2, 1), 2.0)
    angle = 8.0 * np.pi * a * k * ((1.0 - jv(0, 2.0 * b)) / b**2 - jv(1, 2.0 * b) / b)
    q, v = board().simulate(gait, gait.times(6))
    np.testing.assert_allclose(np.diff(np.asarray(q)[:, 2]), angle, atol=1e-9)
    np.testing.assert_allclose(np.asarray(v)[:, 0], 0.0, atol=1e-9)  # the momentum is zero after a cycle
    assert abs(angle) > 0.1


@pytest.mark.parametrize("amplitude", [0.6, 1.6, 2.5])
def test_a_roller_racers_phase(amplitude):
    """Beyond psi = 1.95 the printed X_1 is infinite on the way; the path is not."""
    gait = roller_racer_gait(amplitude)
    times = gait.times(2, per_cycle=3)
    q, _ = racer().simulate(gait, times)
    expected = np.stack([f(times) for f in racer_path(gait, times[-1])], axis=1)
    np.testing.assert_allclose(np.asarray(q)[:, :3], expected, atol=5e-9 * np.max(np.abs(expected)))
    assert np.max(np.abs(expected[-1])) > 0.1


def test_a_sleighs_path():
    """u = C tanh s, omega = (C / k) sech s; theta = (2 k / a) atan(e^s): [Bl], here with the path."""
    sleigh, end = systems.chaplygin_sleigh(), 12.0
    size = {s.name: value for s, value in sleigh.parameters.items()}
    a, k = size["a"], np.sqrt(size["a"] ** 2 + size["I"] / size["m"])
    C = np.hypot(0.9, k * 0.5)
    phase = lambda t: a * C * t / k**2 - np.arctanh(0.9 / C)  # noqa: E731
    theta = lambda t: 2.0 * k / a * (np.arctan(np.exp(phase(t))) - np.arctan(np.exp(phase(0.0))))  # noqa: E731
    x, y = (integral(lambda t, f=f: C * np.tanh(phase(t)) * f(theta(t)), end) for f in (np.cos, np.sin))
    times = np.linspace(0.0, end, 7)
    q, v = vehicle("chaplygin_sleigh").simulate(np.zeros(3), [-0.9, 0.5], times)
    np.testing.assert_allclose(q, np.stack([x(times), y(times), theta(times)], axis=1), atol=1e-8)
    np.testing.assert_allclose(np.asarray(v)[:, 1], C / k / np.cosh(phase(times)), atol=1e-9)


# --- where the basis is singular and the constraints are not -----------------------------------------------


BASES = {
    "printed": lambda: vehicle("roller_racer"),
    "computed": lambda: systems.roller_racer().with_basis(None).numeric(),
}


@cache
def free_racer():
    """A motion of the bodies with multipliers, that turns the handlebar past 1.95 rad and straight ahead."""
    size = {s.name: value for s, value in systems.roller_racer().parameters.items()}
    bodies, q0 = vehicles.BODIES["roller_racer"](**size), np.array([0.0, 0.0, 0.0, -0.3])
    q_dot0 = np.asarray(BASES["printed"]().velocity(q0, [0.3, 0.6]))
    times = np.linspace(0.0, 12.0, 7)
    return q0, q_dot0, times, bodies.motion(q0, q_dot0, times, lambda t, p, p_dot: np.zeros(len(p)))[0]


@pytest.mark.further
@pytest.mark.parametrize("basis", BASES)
def test_a_motion_passes_where_its_basis_is_singular(basis):
    """It took the racer to places 1e-3 away, and no error said so."""
    system, (q0, q_dot0, times, expected) = BASES[basis](), free_racer()
    angles = expected[:, 3]
    assert angles[0] < 0.0 < np.max(angles) and np.max(angles) > 2.2  # both singular angles are passed
    v0 = np.linalg.lstsq(np.asarray(system.connection.basis(q0)), q_dot0, rcond=None)[0]
    q, v = system.simulate(q0, v0, times)
    np.testing.assert_allclose(q, expected, atol=1e-7)
    energy = np.asarray(system.energy(q, v))
    np.testing.assert_allclose(energy, energy[0], rtol=1e-9)


@pytest.mark.further
def test_a_geodesic_passes_there_too():
    """Of the constrained connection: the motion without forces."""
    (q0, q_dot0, times, expected), nabla = free_racer(), BASES["printed"]().connection
    v0 = np.linalg.lstsq(np.asarray(nabla.basis(q0)), q_dot0, rcond=None)[0]
    q, v = cn.geodesic(nabla, q0, v0, times)
    np.testing.assert_allclose(q, expected, atol=1e-6)
    metric = np.asarray(nabla.metric.matrix(q))
    np.testing.assert_allclose(np.einsum("ti,tij,tj->t", v, metric, v), v0 @ metric[0] @ v0, rtol=1e-8)


@pytest.mark.further
def test_a_reduced_motion_passes_there_too():
    q0, q_dot0, times, expected = free_racer()
    system = BASES["printed"]()
    reduced = cn.ReducedSystem(
        system, systems.planar_motions(), lambda q: q[3:], lambda r: np.array([0.0, 0.0, 0.0, 1.0]) * r[0]
    )
    v0 = np.linalg.lstsq(np.asarray(system.connection.basis(q0)), q_dot0, rcond=None)[0]
    q, _ = reduced.reconstruct(q0, v0, times)
    np.testing.assert_allclose(q, expected, atol=1e-6)


# --- long horizons ----------------------------------------------------------------------------------------

STARTS = {  # away from what is not stable: nothing amplifies round-off
    "rolling_disc": [0.5, 0.9],
    "chaplygin_sleigh": [0.3, -0.2],
    "snakeboard": [0.1, 0.3, 0.2],
    "roller_racer": [0.3, 0.1],
}


@pytest.mark.parametrize("name", always(STARTS, "rolling_disc"))
def test_energy_and_constraints_stay(name):
    """Over 300 s; velocities never leave the distribution, as they are components in a basis of it."""
    system, times = vehicle(name), np.linspace(0.0, 300.0, 7)
    q0 = np.linspace(0.1, 0.4, system.frame.ambient_dim)
    q, v = system.simulate(q0, STARTS[name], times)
    energy = np.asarray(system.energy(q, v))
    np.testing.assert_allclose(energy, energy[0], rtol=1e-8)
    assert np.max(np.abs(q[-1] - q0)) > 1.0
    if name == "rolling_disc":  # circles: where it is after 300 s is known
        radius, heading = 0.5 * 0.5 / 0.9, q0[2] + 0.9 * times
        expected = q0[0] + radius * (np.sin(heading) - np.sin(q0[2]))
        np.testing.assert_allclose(q[:, 0], expected, atol=1e-7)


@pytest.mark.further
def test_a_gait_repeats_itself():
    """Fifty cycles: the net displacement of the last is that of the first, and the shape is exact."""
    gait = snakeboard_gaits()["rotate"]
    times = gait.times(50)[[0, 1, 2, 25, 26, 49, 50]]
    q, v = board().simulate(gait, times)
    steps = displacement(q[[0, 1, 3, 5]], q[[1, 2, 4, 6]])
    np.testing.assert_allclose(steps[1:], np.broadcast_to(steps[0], (3, *steps.shape[1:])), atol=1e-7)
    np.testing.assert_array_equal(q[:, 3:], gait.shape(times))
    assert np.max(np.abs(v[:, 0])) < 1e-7
