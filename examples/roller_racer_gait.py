"""A roller racer gains speed from a swinging handlebar: one input, and no momentum is conserved.

psi = a sin(omega t). The speed v along X_1 of [Z] obeys vdot = -Gamma^1_21 psidot v - Gamma^1_22 psidot^2:
the second term has one sign as long as l_1 I_2 cos(psi) - l_2 I_1 has, so that every swing adds speed,
forward where the front link is heavy and backward where it is light. Two routes: the connection with the
torque that drives psi, and the bodies with Lagrange multipliers. Run: python examples/roller_racer_gait.py
[directory]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

from connections import plots, systems
from connections.systems.gaits import Locomotion, displacement, roller_racer_gait

CYCLES, PER_CYCLE = 6, 40
FRONTS = {"light front link": 0.004, "heavy front link": 0.05}  # I_2, kg m^2


def with_the_connection(racer, gait, times):
    """q (T, 4) and v (T, 2): qdot = A v, vdot = Y u - Gamma(v, v)."""
    start = np.concatenate([np.asarray(value) for value in racer.start(gait)])

    def rates(t, state):
        return np.concatenate(racer.rates(t, state[:4], state[4:], gait))

    found = solve_ivp(rates, times[[0, -1]], start, "DOP853", times, rtol=1e-11, atol=1e-11).y.T
    return found[:, :4], found[:, 4:]


def with_multipliers(gait, times, q0, q_dot0, m, l_1, l_2, I_1, I_2):
    """q (T, 4): M qddot = W^T lambda + torque, W qdot = 0, psi driven."""
    M = np.diag([m, m, I_1 + I_2, I_2])
    M[2, 3] = M[3, 2] = I_2

    def rates(t, state):
        q, q_dot = state[:4], state[4:]
        s, c, t_1, c_1 = np.sin(q[2]), np.cos(q[2]), np.sin(q[2] + q[3]), np.cos(q[2] + q[3])
        turning, both = q_dot[2], q_dot[2] + q_dot[3]
        arm, arm_rate = l_2 + l_1 * np.cos(q[3]), -l_1 * np.sin(q[3]) * q_dot[3]
        W = np.array([[s, -c, 0.0, 0.0], [t_1, -c_1, -arm, -l_2], [0.0, 0.0, 0.0, 1.0]])
        slope = np.array([[c * turning, s * turning, 0.0, 0.0], [c_1 * both, t_1 * both, -arm_rate, 0.0]])
        wanted = -gait.amplitude * gait.frequency**2 * np.sin(gait.frequency * t + gait.phase)
        matrix = np.block([[M, -W.T], [W, np.zeros((3, 3))]])
        right = np.concatenate([np.zeros(4), -slope @ q_dot, wanted])
        return np.concatenate([q_dot, np.linalg.solve(matrix, right)[:4]])

    start = np.concatenate([q0, q_dot0])
    return solve_ivp(rates, times[[0, -1]], start, "DOP853", times, rtol=1e-11, atol=1e-11).y[:4].T


def main():
    definition, gait = systems.roller_racer(), roller_racer_gait()
    times, motions, speeds = gait.times(CYCLES, PER_CYCLE), [], []
    for title, inertia in FRONTS.items():
        sizes = {symbol.name: value for symbol, value in definition.parameters.items()} | {"I_2": inertia}
        racer = Locomotion(definition.numeric({"I_2": inertia}), driven=(3,))
        q, v = with_the_connection(racer, gait, times)
        other = with_multipliers(gait, times, q[0], racer.rates(0.0, q[0], v[0], gait)[0], **sizes)
        gap = np.abs(q - other).max()
        assert gap < 1e-8
        speed = v[::PER_CYCLE, 0]
        print(f"{title}: speed after each swing [m/s]: " + " ".join(f"{value:+.4f}" for value in speed[1:]))
        moved = displacement(q[0], q[-1])
        print(f"  in {CYCLES} swings {moved[0]:+.6f} m ahead, {moved[1]:+.6f} m aside, ", end="")
        print(f"turned by {moved[2]:+.6f} rad; the two routes differ by {gap:.0e}")
        sign = np.sign(sizes["l_1"] * inertia * np.cos(gait.amplitude[0]) - sizes["l_2"] * sizes["I_1"])
        assert np.all(sign * np.diff(speed) > 0.0)
        motions.append(plots.VehicleMotion("roller_racer", times, q, title, {"I_2": inertia}))
        speeds.append(v[:, 0])
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "roller_racer_gait.png", motions, speeds)


def draw(path, motions, speeds):
    layout = [["light", "light"], ["heavy", "heavy"], ["shape", "speed"]]
    figure, axes = plt.subplot_mosaic(layout, figsize=(10.0, 7.6), layout="constrained")
    for key, motion, speed, shade in zip(
        ("light", "heavy"), motions, speeds, ("#c8102e", "#1f5fbf"), strict=True
    ):
        plots.draw_motion(axes[key], motion, moments=5)
        axes["speed"].plot(motion.times, speed, color=shade, label=motion.title)
    plots.draw_shape(axes["shape"], motions[0], {r"handlebar $\psi$": 3})
    axes["shape"].legend(loc="upper right")
    axes["speed"].set(xlabel="time [s]", ylabel="speed along $X_1$ [m/s]", xlim=(0.0, motions[0].times[-1]))
    axes["speed"].legend(loc="upper left")
    axes["speed"].grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    print(path)


if __name__ == "__main__":
    main()
