"""
A snakeboard's gaits: nonholonomic motion
=========================================

Nobody pushes the board off the ground: its rotor and wheels go to and fro. Three gaits with sinusoidal psi
(rotor) and phi (wheels), of frequencies 1:1, 2:1 and 3:2. The momentum p = m l^2 v^1 along X_1, the body's
instantaneous rotation, obeys pdot = -J_r cos(phi) psidot phidot. The first gait pumps it up in every cycle;
in the others it returns to zero, and what remains is a turn or a step sideways. Two routes: the connection
with the torques that drive the shape, and the bodies with Lagrange multipliers, differenced by nothing and
integrated by SciPy.
Run: python examples/snakeboard_gait.py [directory]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

from connections import plots, systems
from connections.systems.gaits import Locomotion, displacement, snakeboard_gaits

# %%
# The second route writes down the bodies and the constraints of the wheels in all five coordinates.

CYCLES, PER_CYCLE = 3, 60


def with_multipliers(gait, times, q0, q_dot0, m, l, J_r, J_w):  # noqa: E741
    """q (T, 5): M qddot = W^T lambda + torques, W qdot = 0, the last two coordinates driven."""
    M = np.diag([m, m, m * l**2, J_r, J_w])
    M[2, 3] = M[3, 2] = J_r
    driven = np.eye(5)[3:]

    def rates(t, state):
        q, q_dot = state[:5], state[5:]
        rows, slopes = [], []
        for sign in (1.0, -1.0):  # front and back wheels roll along theta - sign phi
            angle, turning = q[2] - sign * q[4], q_dot[2] - sign * q_dot[4]
            s, c = np.sin(angle), np.cos(angle)
            rows.append([-s, c, sign * l * np.cos(q[4]), 0.0, 0.0])
            slopes.append([-c * turning, -s * turning, -sign * l * np.sin(q[4]) * q_dot[4], 0.0, 0.0])
        W = np.concatenate([rows, driven])
        wanted = -gait.amplitude * gait.frequency**2 * np.sin(gait.frequency * t + gait.phase)
        matrix = np.block([[M, -W.T], [W, np.zeros((4, 4))]])
        right = np.concatenate([np.zeros(5), -np.array(slopes) @ q_dot, wanted])
        return np.concatenate([q_dot, np.linalg.solve(matrix, right)[:5]])

    start = np.concatenate([q0, q_dot0])
    return solve_ivp(rates, times[[0, -1]], start, "DOP853", times, rtol=1e-11, atol=1e-11).y[:5].T


# %%
# The first route needs no such equations: the connection of the constrained system, and the gait.


def main():
    definition = systems.snakeboard()
    sizes = {symbol.name: value for symbol, value in definition.parameters.items()}
    board = Locomotion(definition.numeric(), driven=(3, 4))
    motions = {}
    print(
        "gait    psi:phi  net motion of the last cycle: ahead, aside [m], turn [rad]   p after it [kg m^2/s]"
    )
    for name, gait in snakeboard_gaits().items():
        times = gait.times(CYCLES, PER_CYCLE)
        q, v = board.simulate(gait, times)
        q_dot0 = board.rates(0.0, q[0], v[0], gait)[0]
        other = with_multipliers(gait, times, q[0], q_dot0, **sizes)
        gap = np.abs(q - other).max()
        assert gap < 1e-8  # net displacements agree to 1e-6 and better
        assert np.abs(q[:, 3:] - gait.shape(times)).max() < 1e-8
        step, p = displacement(q[-1 - PER_CYCLE], q[-1]), sizes["m"] * sizes["l"] ** 2 * v[-1, 0]
        ratio = "{:.0f}:{:.0f}".format(*gait.frequency * gait.period / (2 * np.pi))
        moved = "  ".join(f"{round(value, 6) + 0.0:+9.6f}" for value in step)
        print(f"{name:<8}{ratio:<9}{moved}   {round(p, 6) + 0.0:+.6f}; the two routes differ by {gap:.0e}")
        assert (abs(p) > 0.05) == (name == "drive") and np.abs(step).max() > 0.1
        motions[name] = plots.VehicleMotion("snakeboard", times, q, f"{name}: frequencies {ratio}")
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "snakeboard_gaits.png", motions)


# %%
# The board after each cycle, and its shape in time.


def draw(path, motions):
    layout = [["drive", "drive", "1"], ["rotate", "park", "2"], ["rotate", "park", "3"]]
    figure, axes = plt.subplot_mosaic(layout, figsize=(12.0, 7.4), layout="constrained")
    for number, (name, motion) in enumerate(motions.items(), 1):
        plots.draw_motion(axes[name], motion, moments=CYCLES + 1)
        plots.draw_shape(axes[str(number)], motion, {r"rotor $\psi$": 3, r"wheels $\phi$": 4})
        axes[str(number)].set_title(name)
    axes["1"].legend(loc="upper right")
    figure.savefig(path, dpi=130)
    print(path)


if __name__ == "__main__":
    main()
