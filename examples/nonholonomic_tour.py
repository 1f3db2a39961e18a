"""Five vehicles, each defined once by expressions: their motions against closed forms, and their energies.

The disc rolls in circles; the particle with zdot = y xdot draws catenaries; the sleigh, started backwards,
turns around and glides away straight; the robot lets its trailer follow; the body with a fixed thruster flies
a spiral of Fresnel integrals. Run: python examples/nonholonomic_tour.py [directory]
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import fresnel

import connections as cn
from connections import plots, systems

TOLERANCE = 1e-7


def sizes(name):
    """Default values of the parameters, by name."""
    return {symbol.name: value for symbol, value in systems.NAMES[name]().parameters.items()}


def disc(times):
    """Three discs that roll at different speeds and turn at 0.8 rad/s: circles of radius R v1 / v2."""
    v0 = np.array([[1.5, 0.8], [2.5, 0.8], [3.5, 0.8]])
    system = systems.rolling_disc().numeric()
    q, v = system.simulate(np.zeros(4), v0, times)
    radius, theta = sizes("rolling_disc")["R"] * v0[:, :1] / 0.8, 0.8 * times
    x, y = radius * np.sin(theta), radius * (1.0 - np.cos(theta))
    expected = np.stack([x, y, theta + 0.0 * x, v0[:, :1] * times], axis=-1)
    return "rolling_disc", system, q, v, expected


def particle(times):
    """Four particles: x and z by asinh and sqrt(1 + y^2), a catenary in the (x, z) plane."""
    c, b = 1.0, np.array([0.3, 0.5, 0.8, 1.2])[:, None]
    y = -1.5 * b + b * times
    start, v0 = np.zeros((4, 3)), np.concatenate([c / np.sqrt(1.0 + y[:, :1] ** 2), b], axis=1)
    start[:, 1] = y[:, 0]
    system = systems.heisenberg_particle().numeric()
    q, v = system.simulate(start, v0, times)
    x, z = (c / b * (f - f[:, :1]) for f in (np.arcsinh(y), np.sqrt(1.0 + y**2)))
    return "heisenberg_particle", system, q, v, np.stack([x, y, z], axis=-1)


def sleigh(times):
    """Started backwards; its velocities are those of a tanh and a sech."""
    size, v0 = sizes("chaplygin_sleigh"), np.array([-0.9, 0.15])
    system = systems.chaplygin_sleigh().numeric()
    q, v = system.simulate(np.zeros(3), v0, times)
    a, k = size["a"], np.sqrt(size["a"] ** 2 + size["I"] / size["m"])
    C = np.hypot(v0[0], k * v0[1])
    phase = a * C / k**2 * times + np.arctanh(v0[0] / C)
    turned = k / a * (2.0 * np.arctan(np.tanh(phase / 2.0)) - 2.0 * np.arctan(np.tanh(phase[0] / 2.0)))
    u, omega = C * np.tanh(phase), C / k / np.cosh(phase)
    assert np.abs(v - np.stack([u, omega], axis=1)).max() < TOLERANCE
    expected = np.array(q)  # x and y are integrals of no closed form
    expected[:, 2] = turned
    return "chaplygin_sleigh", system, q, v, expected


def robot(times):
    """Robot and trailer, coasting from a sharp angle: three equations without the group, then quadratures."""
    system = systems.trailer().numeric()
    section = lambda r: jnp.zeros(4).at[3].set(r[0])  # noqa: E731
    reduced = cn.ReducedSystem(system, systems.ACTIONS["trailer"](), lambda q: q[3:], section)
    delta, v = reduced.simulate([1.4], [0.9, 0.5], times)
    theta = CubicSpline(times, v[:, 1]).antiderivative()(times)
    along = v[:, :1] * np.stack([np.cos(theta), np.sin(theta)], axis=1)
    place = CubicSpline(times, along).antiderivative()(times)
    return "trailer", system, np.column_stack([place, theta, delta]), v, None


def body(times):
    """A thrust of (0.8, 0.5) N, fixed in the body: its velocity is made of Fresnel integrals."""
    size, (along, across) = sizes("planar_body"), (0.8, 0.5)
    covector = np.array([along, across, -size["h"] * across])
    system = systems.planar_body().numeric()
    q, v = system.simulate(np.zeros(3), np.zeros(3), times, lambda t, q, v: jnp.asarray(covector))
    spin = size["h"] * across / size["J"]  # rad/s^2, clockwise
    scale = np.sqrt(np.pi / spin)
    S, C = (scale * value for value in fresnel(times / scale))
    speed = np.stack([along * C + across * S, across * C - along * S], axis=1) / size["m"]
    c, s = np.cos(q[:, 2]), np.sin(q[:, 2])
    turned = np.stack([c * v[:, 0] - s * v[:, 1], s * v[:, 0] + c * v[:, 1]], axis=1)
    assert np.abs(turned - speed).max() < TOLERANCE
    expected = np.array(q)
    expected[:, 2] = -0.5 * spin * times**2
    return "planar_body", system, q, v, expected


def main():
    plans = ((disc, 8.0), (particle, 3.0), (sleigh, 6.0), (robot, 9.0), (body, 7.0))
    figure, axes = plt.subplots(2, 3, figsize=(13.0, 8.0), layout="constrained")
    for (run, horizon), panel in zip(plans, axes.flat, strict=False):
        times = np.linspace(0.0, horizon, 181)
        name, system, q, v, expected = run(times)
        q, title = np.asarray(q), systems.NAMES[name]().name
        line = f"{title}:"
        if expected is not None:
            gap = np.abs(q - expected).max()
            assert gap < TOLERANCE
            line += f" closed form to {gap:.0e};"
        if name != "planar_body":
            energy = np.asarray(system.energy(q, v))
            drift = np.abs(energy / energy[..., :1] - 1.0)
            assert drift.max() < TOLERANCE
            line += f" energy constant to {drift.max():.0e} of it"
            worst = np.maximum(drift.reshape(-1, len(times)).max(axis=0), 1e-17)
            axes[1, 2].semilogy(times, worst, label=title)
        print(line)
        for one in q.reshape(-1, *q.shape[-2:]):
            plots.draw_motion(panel, plots.VehicleMotion(name, times, one, title), moments=7)
    axes[1, 2].set(xlabel="time [s]", ylabel="relative change of energy", ylim=(1e-17, 1e-12), title="energy")
    axes[1, 2].legend()
    axes[1, 2].grid(alpha=0.3)
    path = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "nonholonomic_tour.png"
    figure.savefig(path, dpi=130)
    print(path)


if __name__ == "__main__":
    main()
