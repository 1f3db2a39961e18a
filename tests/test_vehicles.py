"""The named vehicles: motions against multipliers and closed forms, symmetry, gaits, and their drawings.

The library's equations are compiled once for each vehicle and integrated by SciPy, like the independent ones.
"""

from functools import cache

import jax
import numpy as np
import pytest
import vehicles
from cases import further
from scipy.integrate import solve_ivp

import connections as cn
from connections import plots, systems
from connections.plots.vehicles import PARTS, WHEEL
from connections.systems.gaits import Gait, Locomotion, displacement, roller_racer_gait, snakeboard_gaits

FIVE = ("rolling_disc", "heisenberg_particle", "chaplygin_sleigh", "trailer", "planar_body")
TIMES = np.linspace(0.0, 1.2, 5)


class Vehicle:
    """A named system in numbers, and its bodies with multipliers."""

    def __init__(self, name):
        definition = systems.NAMES[name]()
        self.name, self.sizes = name, {s.name: value for s, value in definition.parameters.items()}
        self.system, self.bodies = definition.numeric(), vehicles.BODIES[name](**self.sizes)
        self.action = systems.ACTIONS[name]()
        constrained = isinstance(self.system, cn.NonholonomicSystem)
        self.frame = self.system.frame if constrained else self.system.metric.frame
        inputs = None if constrained else definition.function(definition.inputs)

        def rates(q, v, u):
            covector = u if inputs is None else inputs(q).T @ u
            return self.frame.matrix_at(q) @ v, self.system.forward_dynamics_at(q, v, covector)

        def moved(q, g, q_dot):
            return jax.jvp(lambda p: self.action.act_at(p, g), (q,), (q_dot,))

        self.rates, self.moved = jax.jit(rates), jax.jit(moved)
        self.nq, self.m, self.controls = self.frame.ambient_dim, self.frame.dim, len(definition.inputs)

    def motion(self, q0, v0, times, control):
        """q (T, nq), v (T, m) and the work of the inputs (T,)."""

        def state_rates(t, state):
            q, v, u = state[: self.nq], state[self.nq : -1], control(t)
            q_dot, v_dot = (np.asarray(value) for value in self.rates(q, v, u))
            p, p_dot = self.bodies.place(q), vehicles.rate(self.bodies.place, q, q_dot)
            return np.concatenate([q_dot, v_dot, [u @ self.bodies.inputs(p) @ p_dot]])

        start = np.concatenate([q0, v0, [0.0]])
        found = solve_ivp(state_rates, times[[0, -1]], start, "DOP853", times, rtol=1e-10, atol=1e-10).y.T
        return found[:, : self.nq], found[:, self.nq : -1], found[:, -1]

    def kinetic_energy(self, q, v):
        """(T,), by the bodies."""
        q_dot = [np.asarray(self.rates(x, y, np.zeros(self.controls))[0]) for x, y in zip(q, v, strict=True)]
        p_dot = np.array([vehicles.rate(self.bodies.place, x, y) for x, y in zip(q, q_dot, strict=True)])
        mass = self.bodies.mass
        return 0.5 * np.einsum("ti,ij,tj->t", p_dot, np.diag(mass) if mass.ndim == 1 else mass, p_dot)


vehicle = cache(Vehicle)


@pytest.mark.parametrize("name", FIVE)
def test_motion_agrees_with_multipliers_and_energy_with_work(name, rng):
    car = vehicle(name)
    q0, v0 = rng.normal(size=car.nq), rng.normal(size=car.m)
    amplitudes = rng.normal(size=(2, car.controls))

    def control(t):
        return amplitudes[0] * np.cos(2.0 * t) + amplitudes[1]

    q, v, work = car.motion(q0, v0, TIMES, control)
    q_dot0 = np.asarray(car.rates(q0, v0, np.zeros(car.controls))[0])
    bodies = car.bodies
    expected, _ = bodies.motion(q0, q_dot0, TIMES, lambda t, p, p_dot: np.real(control(t) @ bodies.inputs(p)))
    np.testing.assert_allclose(q, expected, atol=1e-8)
    assert np.max(np.abs(q[-1] - q0)) > 0.1
    energy = car.kinetic_energy(q, v)
    np.testing.assert_allclose(energy - energy[0], work, atol=1e-7)
    assert np.max(np.abs(work)) > 0.01


@pytest.mark.parametrize("name", FIVE)
def test_equations_are_those_of_every_place_of_the_group(name, rng):
    """Lemma 3.3: qdot is carried along, vdot is the same."""
    car = vehicle(name)
    q, v, u = rng.normal(size=car.nq), rng.normal(size=car.m), rng.normal(size=car.controls)
    g, h = rng.normal(size=(2, len(car.action.identity)))
    if name in ("rolling_disc", "heisenberg_particle"):  # SE(2) with another angle, and translations
        car.action.check_action(q, g, h).require()
    q_dot, v_dot = car.rates(q, v, u)
    there, carried = car.moved(q, g, q_dot)
    assert np.max(np.abs(there - q)) > 0.1
    moved_rates = car.rates(there, v, u)
    np.testing.assert_allclose(moved_rates[0], carried, atol=1e-12)
    np.testing.assert_allclose(moved_rates[1], v_dot, atol=1e-11)


def free(name, q0, v0, times=TIMES):
    car = vehicle(name)
    return car.sizes, *car.motion(np.array(q0), np.array(v0), times, lambda t: np.zeros(car.controls))[:2]


def test_a_disc_rolls_in_a_circle():
    sizes, q, v = free("rolling_disc", [0.3, -0.2, 0.5, 0.0], [1.4, 0.9])
    radius, heading = sizes["R"] * 1.4 / 0.9, 0.5 + 0.9 * TIMES
    np.testing.assert_allclose(q[:, 0], 0.3 + radius * (np.sin(heading) - np.sin(0.5)), atol=1e-9)
    np.testing.assert_allclose(q[:, 1], -0.2 - radius * (np.cos(heading) - np.cos(0.5)), atol=1e-9)
    np.testing.assert_allclose(v, np.broadcast_to([1.4, 0.9], v.shape), atol=1e-12)


def test_a_particle_of_the_contact_distribution_draws_a_catenary():
    y0, b, xdot = -0.8, 1.1, 0.9
    _, q, _ = free("heisenberg_particle", [0.0, y0, 0.0], [xdot, b])
    y, c = y0 + b * TIMES, xdot * np.sqrt(1.0 + y0**2)
    np.testing.assert_allclose(q[:, 1], y, atol=1e-12)
    np.testing.assert_allclose(q[:, 0], c / b * (np.arcsinh(y) - np.arcsinh(y0)), atol=1e-9)
    lowest = -c / b * np.arcsinh(y0), -c / b * np.sqrt(1.0 + y0**2)  # of x, and of z less c / b
    np.testing.assert_allclose(q[:, 2], lowest[1] + c / b * np.cosh(b / c * (q[:, 0] - lowest[0])), atol=1e-9)


def test_a_sleigh_turns_around_and_ends_straight():
    times = np.linspace(0.0, 25.0, 6)
    sizes, q, v = free("chaplygin_sleigh", [0.0, 0.0, 0.0], [-0.9, 0.05], times)
    a, k = sizes["a"], np.sqrt(sizes["a"] ** 2 + sizes["I"] / sizes["m"])
    C = np.hypot(0.9, k * 0.05)
    phase = a * C / k**2 * times - np.arctanh(0.9 / C)
    np.testing.assert_allclose(v[:, 0], C * np.tanh(phase), atol=1e-7)
    np.testing.assert_allclose(v[:, 1], C / k / np.cosh(phase), atol=1e-7)
    missed = (
        k / a * (np.pi - 2.0 * np.arctan(np.exp(phase[0])))
    )  # turned from minus to plus infinity: pi k / a
    np.testing.assert_allclose(q[-1, 2], missed, atol=1e-6)


# --- gaits ------------------------------------------------------------------------------------------------


@cache
def locomotion(name):
    """The vehicle with a driven shape, and its equations, compiled."""
    mover = Locomotion(vehicle(name).system, {"snakeboard": (3, 4), "roller_racer": (3,)}[name])
    return mover, jax.jit(mover.rates_at)


GAITS = [("snakeboard", gait) for gait in snakeboard_gaits().values()] + [
    ("roller_racer", roller_racer_gait())
]


@pytest.mark.further
@pytest.mark.parametrize(
    ("name", "gait"),
    [*(further(*gait) for gait in GAITS[:-1]), GAITS[-1]],
    ids=lambda x: getattr(x, "name", ""),
)
def test_net_displacement_of_a_gait_agrees_with_multipliers(name, gait):
    mover, compiled = locomotion(name)
    bodies, times = vehicle(name).bodies, gait.times(1 if gait.name == "park" else 2)
    start = [np.asarray(value) for value in mover.start(gait)]
    nq = len(start[0])

    def rates(t, state):
        return np.concatenate(compiled(t, state[:nq], state[nq:], gait.parameters))

    found = solve_ivp(rates, times[[0, -1]], np.concatenate(start), "DOP853", times, rtol=1e-9, atol=1e-10)
    q, v = found.y[:nq].T, found.y[nq:].T
    q_dot0 = rates(0.0, np.concatenate(start))[:nq]

    def wanted(t):
        return -gait.amplitude * gait.frequency**2 * np.sin(gait.frequency * t + gait.phase)

    other, _ = bodies.motion(start[0], q_dot0, times, None, mover.driven, wanted)
    np.testing.assert_allclose(q[:, list(mover.driven)], gait.shape(times), atol=1e-7)
    if name == "roller_racer":  # the library's own integration, and the control that drives it
        np.testing.assert_allclose(mover.simulate(gait, times)[0], q, atol=1e-7)
        u = np.asarray(mover.control(gait)(0.3, q[1], v[1]))
        v_dot = mover.system.forward_dynamics(q[1], v[1], u, 0.3)
        np.testing.assert_allclose(v_dot, mover.rates(0.3, q[1], v[1], gait)[1], atol=1e-12)
    steps = displacement(q[:-1], q[1:])
    np.testing.assert_allclose(steps, displacement(other[:-1], other[1:]), atol=1e-6)
    assert np.max(np.abs(steps[-1])) > 0.1
    if gait.name in ("rotate", "park"):  # no momentum is left over: all cycles are alike
        np.testing.assert_allclose(steps[-1], steps[0], atol=1e-6)
        assert abs(v[-1, 0]) < 1e-6
    else:
        assert abs(v[-1, 0]) > 1.9 * abs(v[1, 0]) > 0.01


def test_displacement_in_body_axes(rng):
    """By complex numbers; planar motions of both points change nothing, one of the start alone does."""
    start, end = rng.normal(size=(2, 4, 5))
    found = displacement(start, end)
    gap = (end[:, :2] - start[:, :2]) @ [1.0, 1.0j] * np.exp(-1.0j * start[:, 2])
    np.testing.assert_allclose(found, np.stack([gap.real, gap.imag, end[:, 2] - start[:, 2]], 1), atol=1e-14)
    move = systems.planar_motions()
    g = np.array([0.4, -0.7, 1.1])
    moved = [np.asarray(move.act(q, g)) for q in (start, end)]
    np.testing.assert_allclose(displacement(*moved), found, atol=1e-13)
    assert np.abs(displacement(moved[0], end) - found).max() > 0.1  # control


def test_a_quarter_out_of_phase_the_drive_gait_gains_nothing():
    """Control: psidot phidot cos(phi) has no mean then."""
    drive, (mover, compiled) = snakeboard_gaits()["drive"], locomotion("snakeboard")
    idle = Gait("idle", drive.amplitude, drive.frequency, (0.0, np.pi / 2.0), drive.offset, drive.period)
    start = np.concatenate([np.asarray(value) for value in mover.start(idle)])

    def rates(t, state):
        return np.concatenate(compiled(t, state[:5], state[5:], idle.parameters))

    end = solve_ivp(rates, (0.0, idle.period), start, "DOP853", rtol=1e-9, atol=1e-10).y[:, -1]
    assert abs(end[5]) < 1e-7


def test_the_undriven_velocity_follows_from_the_connection(rng):
    """The snakeboard's momentum equation, m l^2 vdot^1 = -J_r cos(phi) psidot phidot; v^2, v^3 as driven."""
    gait, size = snakeboard_gaits()["drive"], vehicle("snakeboard").sizes
    q, v = rng.normal(size=5), rng.normal(size=3)
    q_dot, v_dot = locomotion("snakeboard")[1](0.3, q, v, gait.parameters)
    expected = -size["J_r"] / (size["m"] * size["l"] ** 2) * np.cos(q[4]) * v[1] * v[2]
    np.testing.assert_allclose(v_dot[0], expected, atol=1e-12)
    np.testing.assert_allclose(q_dot[3:], v[1:], atol=1e-14)
    wanted = -gait.amplitude * gait.frequency**2 * np.sin(gait.frequency * 0.3 + gait.phase)
    np.testing.assert_allclose(v_dot[1:], wanted, atol=1e-11)


def test_bad_gaits():
    with pytest.raises(cn.checks.ShapeError, match=r"phase of the gait: expected shape \(2,\), got \(1,\)"):
        Gait("bad", (1.0, 1.0), (1.0, 1.0), (0.0,), (0.0, 0.0), 1.0)
    with pytest.raises(cn.checks.ShapeError, match=r"driven coordinates: expected shape \(2,\), got \(1,\)"):
        Locomotion(vehicle("snakeboard").system, (3,))
    with pytest.raises(cn.checks.ShapeError, match="gait: expected"):
        locomotion("snakeboard")[0].start(roller_racer_gait())


# --- drawings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in PARTS if name != "planar_body"])
def test_drawn_wheels_do_not_slip(name, rng):
    """The middle of every stroke that is a wheel moves along it, and only the particle has none."""
    bodies, sizes = vehicles.BODIES[name](**vehicle(name).sizes), vehicle(name).sizes
    q = rng.normal(size=vehicle(name).nq)
    p = np.real(bodies.place(q))
    W = np.real(bodies.forms(p))
    feasible = np.linalg.svd(W)[2][len(W) :].T @ rng.normal(size=len(p) - len(W))
    q_dot, h = vehicles.rate(bodies.read, p, feasible), 1e-6
    here, after, before = (PARTS[name][1](x, sizes) for x in (q, q + h * q_dot, q - h * q_dot))
    wheels = 0
    for part, ahead, behind in zip(here, after, before, strict=True):
        if part.kind == WHEEL:
            along = part.points[-1] - part.points[0]
            velocity = (ahead.points.mean(axis=0) - behind.points.mean(axis=0)) / (2.0 * h)
            assert abs(velocity @ [-along[1], along[0]]) < 1e-7 * np.hypot(*along)
            assert np.hypot(*velocity) > 1e-3
            wheels += 1
    assert (wheels == 0) == (name == "heisenberg_particle")


def test_a_motion_is_drawn_with_its_path_and_shape():
    from matplotlib.figure import Figure

    times = np.linspace(0.0, 1.0, 9)
    figure = Figure(figsize=(5.0, 3.0))
    axes = figure.subplots(1, 2)
    for name, (nq, _) in PARTS.items():
        assert nq == len(systems.NAMES[name]().coordinates)
        q = np.outer(times, np.linspace(0.5, 1.0, nq))
        plots.draw_motion(axes[0], plots.VehicleMotion(name, times, q, name), moments=3)
    plots.draw_shape(
        axes[1], plots.VehicleMotion("snakeboard", times, np.zeros((9, 5))), {"psi": 3, "phi": 4}
    )
    assert axes[0].get_ylabel() == "y [m]" and len(axes[1].lines) == 2
    assert len(axes[0].patches) == 3 * 6  # bodies: two of the trailer, none of disc and particle
    with pytest.raises(ValueError, match="vehicle: expected 'snakeboard'"):
        plots.VehicleMotion("boat", times, np.zeros((9, 3)))
    with pytest.raises(cn.checks.ShapeError, match="q: "):
        plots.VehicleMotion("snakeboard", times, np.zeros((8, 5)))
