"""Adaptive tracking with a 7-joint arm that carries an unknown payload, and what torsion costs there.

The controller knows the Panda arm but not what its hand holds: tau = tau_nominal + Y pihat - K_D s with
pihat_dot = -P Y^T s (Slotine and Li) learns the payload's ten inertial parameters in flight. Then the
Coriolis matrix is changed within the admissible family, C_gamma = C* + gamma (C_x - C*), C_x of the factor
(v x*) I of each body: the Lyapunov function falls by s^T K_D s all the same, the motion is another.
Needs the extra `robots`. Run: python examples/adaptive_arm.py [directory]
"""

import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from importlib.metadata import files
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

from connections import multibody as mb
from connections.control import AdaptiveController, UnknownInertia, prepare, with_payload
from connections.control.tracking_example import zero_crossings

HAND = "panda_link7"
NAMES = ("m", "h_x", "h_y", "h_z", "I_xx", "I_xy", "I_yy", "I_xz", "I_yz", "I_zz")
RATE = 250.0  # samples per second
LAMBDA = 4.0  # 1/s
K_D = np.array([12.0, 12.0, 8.0, 8.0, 2.0, 2.0, 0.6])  # N m s
MIDDLE = np.array([0.0, -0.3, 0.0, -1.7, 0.0, 1.6, 0.8])  # rad
SWING = np.array([0.8, 0.5, 0.7, 0.5, 0.9, 0.6, 1.0])  # rad
PACE = np.array([1.1, 1.7, 2.3, 1.3, 2.9, 1.9, 3.1])  # rad/s
SIZES = np.array([2.0, *[0.4] * 3, *[0.1] * 6])  # of the parameters, as a guess: kg, kg m, kg m^2
UNITS = ("kg", *["kg m"] * 3, *["kg m$^2$"] * 6)
ADAPTATION = np.diag(5.0 * SIZES**2)  # P
GAMMAS = (-8.0, -4.0, 0.0, 1.0, 4.0, 8.0)
BETA = 1.0  # kg m^2, of joints 1, 3, 5, counted from 0


def panda():
    """The Panda arm of example-robot-data, its fingers fixed to the hand: 7 revolute joints."""
    (path,) = [f for f in files("example-robot-data") if str(f).endswith("panda_description/urdf/panda.urdf")]
    tree = ElementTree.parse(path.locate())
    for joint in tree.getroot().findall("joint"):
        if "finger" in joint.get("name"):
            joint.set("type", "fixed")
            for mimic in joint.findall("mimic"):
                joint.remove(mimic)
    with tempfile.TemporaryDirectory() as folder:
        tree.write(Path(folder) / "panda.urdf")
        return mb.from_urdf(Path(folder) / "panda.urdf")


def desired(t):
    """q_d, its rate and its second derivative, (..., 7) each."""
    phase = np.multiply.outer(t, PACE)
    return (
        MIDDLE + SWING * np.sin(phase),
        SWING * PACE * np.cos(phase),
        -SWING * PACE**2 * np.sin(phase),
    )


def reference(t, q, v):
    """v_r = qdot_d - Lambda (q - q_d), its rate, and q - q_d."""
    position, velocity, acceleration = desired(t)
    return velocity - LAMBDA * (q - position), acceleration - LAMBDA * (v - velocity), q - position


def simulate(plant, controller, horizon, adapt=True, rtol=1e-9):
    """The motion from rest at the middle, as a dictionary of samples; `work` is the integral of s^T K_D s."""
    n, start = plant.nv, np.concatenate([MIDDLE, np.zeros(7 + len(NAMES) + 1)])

    def rates(t, y):
        q, v, parameters = y[:n], y[n : 2 * n], y[2 * n : -1]
        v_r, a_r, _ = reference(t, q, v)
        tau = controller.torque(q, v, v_r, a_r, parameters)
        learning = controller.parameters_rate(q, v, v_r, a_r)
        acceleration = mb.forward_dynamics(plant, q, v, tau)
        return np.concatenate([v, acceleration, adapt * learning, [(v - v_r) @ (K_D * (v - v_r))]])

    times = np.arange(int(horizon * RATE) + 1) / RATE
    prepare(rates, 0.0, start)  # no call in the loop waits for a compilation
    solution = solve_ivp(
        rates, (0.0, horizon), start, t_eval=times, method="LSODA", rtol=rtol, atol=rtol / 10
    )
    assert solution.success, solution.message
    q, v, parameters, work = np.split(solution.y.T, [n, 2 * n, 2 * n + len(NAMES)], axis=1)
    v_r, a_r, error = reference(times, q, v)
    tau = controller.torque(q, v, v_r, a_r, parameters)
    names = ("t", "q", "v", "v_r", "a_r", "error", "parameters", "tau", "work")
    return dict(zip(names, (times, q, v, v_r, a_r, error, parameters, tau, work[:, 0]), strict=True))


def measure(motion):
    """Rms error [rad], effort [N^2 m^2 s], peak torque [N m], zero crossings and rms frequency [Hz] of s."""
    s, step = motion["v"] - motion["v_r"], 1.0 / RATE
    s_dot = np.gradient(s, step, axis=0)
    return (
        np.sqrt((motion["error"] ** 2).sum(axis=1).mean()),
        (motion["tau"] ** 2).sum() * step,
        np.abs(motion["tau"]).max(),
        sum(zero_crossings(component, 1e-9 * np.abs(s).max()) for component in s.T),
        np.sqrt((s_dot**2).sum() / (s**2).sum()) / (2.0 * np.pi),
    )


def track(arm, plant, truth):
    """The payload learned in flight, and not: prints, returns both motions and V of the first."""
    controller = AdaptiveController(UnknownInertia(arm.system(), [HAND]), K_D, ADAPTATION)
    motions = {adapt: simulate(plant, controller, 20.0, adapt) for adapt in (True, False)}
    print("rms of |q - q_d| [rad] in     0-2 s      8-10 s    18-20 s")
    for adapt, motion in motions.items():
        squares = (motion["error"] ** 2).sum(axis=1)[1:].reshape(10, -1).mean(axis=1)
        print(
            f"{'with' if adapt else 'without'} adaptation".ljust(26),
            *np.round(squares[[0, 4, 9]] ** 0.5, 5),
            sep="   ",
        )
    motion = motions[True]
    V = controller.lyapunov(
        plant.system(), motion["q"], motion["v"] - motion["v_r"], motion["parameters"] - truth
    )
    balance = np.abs(V + motion["work"] - V[0]).max() / V[0]
    print(f"V falls from {V[0]:.3f} J to {V[-1]:.4f} J, largest step {np.diff(V).max():.1e} J; ", end="")
    print(f"V + integral of s^T K_D s is constant to {balance:.0e} of V(0)")
    assert np.diff(V).max() < 0.0 and balance < 1e-6
    Y = controller.family.regressor(*(motion[name] for name in ("q", "v", "v_r", "a_r"))) * SIZES
    seen = 1.0 / np.sqrt(np.diag(np.linalg.inv(np.einsum("tip,tir->pr", Y, Y) / len(Y))))
    print("payload      true   estimate   excitation [N m]: rms torque of an error of this size, others free")
    for name, size, value, last, torque in zip(
        NAMES, SIZES, truth, motion["parameters"][-1], seen, strict=True
    ):
        print(f"{name:<7}{value:10.4f} {last:10.4f} {torque:10.3f}  ({size:g})")
    return motions, V


def sweep(arm, plant):
    """What torsion costs: a table, printed; {adapt: rows of measures} over GAMMAS."""
    beta = np.zeros(35)
    beta[list(combinations(range(7), 3)).index((1, 3, 5))] = BETA
    laws = {f"gamma = {g:g}": {"gamma": g} for g in GAMMAS} | {"beta_135 = 1 kg m^2": {"beta": beta}}
    print("first 8 s                          rms error   effort    peak   crossings   frequency")
    print("                                     [rad]  [N^2m^2s]   [N m]     of s     of s [Hz]")
    rows = {True: [], False: []}
    for name, law in laws.items():
        controller = AdaptiveController(UnknownInertia(arm.system(**law), [HAND]), K_D, ADAPTATION)
        for adapt, found in rows.items():
            found.append(measure(simulate(plant, controller, 8.0, adapt, rtol=1e-7)))
            label = name + (", adapting" if adapt else "")
            print(f"{label:<34}" + "{:9.4f}{:11.0f}{:8.1f}{:11d}{:12.3f}".format(*found[-1]))
    return rows


def draw(path, motions, V, truth, rows):
    figure, axes = plt.subplots(2, 2, figsize=(11.0, 7.5), layout="constrained")
    motion, t = motions[True], motions[True]["t"]
    for adapt, color in ((False, "#8a8a8a"), (True, "#1f5fbf")):
        error = np.linalg.norm(motions[adapt]["error"], axis=1)[1:]
        axes[0, 0].semilogy(t[1:], error, color=color, label=f"{'with' if adapt else 'without'} adaptation")
    axes[0, 0].set(xlabel="time [s]", ylabel="|q - q_d| [rad]", ylim=(1e-4, 2.0), title="Tracking error")
    axes[0, 1].semilogy(t, V, color="#c8102e", label="V")
    axes[0, 1].semilogy(
        t, V + motion["work"], color="#222222", linestyle="--", label="V + integral of s^T K_D s"
    )
    axes[0, 1].set(xlabel="time [s]", ylabel="[J]", ylim=(3e-3, 3.0 * V[0]), title="Lyapunov function")
    for k, color in zip(
        (0, 1, 3, 4, 6), ("#222222", "#c8102e", "#1f5fbf", "#1b8a3a", "#c07f00"), strict=True
    ):
        error = (motion["parameters"][:, k] - truth[k]) / SIZES[k]
        axes[1, 0].plot(t, error, color=color, label=f"{NAMES[k]}, {SIZES[k]:g} {UNITS[k]}")
    axes[1, 0].axhline(0.0, color="#8a8a8a", linewidth=0.8)
    axes[1, 0].set(
        xlabel="time [s]",
        ylabel="error / size in the legend, log beyond 0.1",
        title="Estimates of the payload",
    )
    axes[1, 0].set_yscale("symlog", linthresh=0.1)
    middle = GAMMAS.index(0.0)
    for adapt, style in ((False, "--"), (True, "-")):
        table = np.array(rows[adapt])[: len(GAMMAS)]
        for column, name, color in (
            (0, "rms error", "#1f5fbf"),
            (1, "effort", "#1b8a3a"),
            (4, "frequency of s", "#c8102e"),
        ):
            label = name + (", adapting" if adapt else "")
            axes[1, 1].plot(
                GAMMAS,
                table[:, column] / table[middle, column],
                style,
                marker="o",
                ms=3.5,
                color=color,
                label=label,
            )
    axes[1, 1].set(xlabel="gamma", ylabel="relative to gamma = 0", title="Torsion, first 8 s")
    for panel in axes.flat:
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    print(path)


def main():
    arm = panda()
    plant = with_payload(arm, HAND, 2.0, (0.03, -0.02, 0.22), np.diag([0.012, 0.016, 0.009]))
    truth = (mb.inertial_parameters(plant) - mb.inertial_parameters(arm))[arm.body_names.index(HAND)]
    motions, V = track(arm, plant, truth)
    rows = sweep(arm, plant)
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    draw(directory / "adaptive_arm.png", motions, V, truth, rows)


if __name__ == "__main__":
    main()
