"""A floating robot with loops: knees driven through four-bars, hips with geared rotors.

Its C passes what the theory asks of it: C v is the bias force, Hdot = C + C^T, C = Gamma v, and the torsion
vanishes. The C of (v x*) I passes all but the last. Then the robot tumbles without gravity: energy and the
momentum in space are conserved, and the loops stay closed.
Run: python examples/legged_loops.py [directory]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections import plots

RATIO = 6.0  # turns of a rotor per turn of its hip
FRAME, CRANK, ROD, LEVER = 0.25, 0.06, 0.24, 0.08  # m, of the four-bar in the thigh
SHANK = 0.25  # m, from the knee to the foot
HORIZON = 1.5  # s
LEGS = ("left", "right")


def robot():
    """A base of 6 kg on two legs; the lever of each four-bar is part of the shank."""
    mechanism, hinge = mb.Mechanism(), mb.Revolute((0, 1, 0))
    mechanism.add_body("base", 6.0, inertia=np.diag([0.08, 0.05, 0.06]))
    mechanism.add_joint("float", "world", "base", mb.Free())
    for leg, side in zip(LEGS, (1.0, -1.0), strict=True):
        add_bar(mechanism, f"{leg} thigh", 1.2, FRAME)
        add_bar(mechanism, f"{leg} crank", 0.1, CRANK)
        add_bar(mechanism, f"{leg} rod", 0.1, ROD)
        add_bar(mechanism, f"{leg} shank", 0.5, SHANK)
        mechanism.add_body(f"{leg} rotor", 0.2, inertia=np.diag([1.0, 2.0, 1.0]) * 1e-4)
        hip = at(0.0, 0.12 * side, -0.05)
        mechanism.add_joint(f"{leg} hip", "base", f"{leg} thigh", hinge, hip)
        mechanism.add_joint(f"{leg} motor", "base", f"{leg} rotor", hinge, at(0.05, 0.1 * side, 0.0))
        mechanism.add_joint(f"{leg} crank", f"{leg} thigh", f"{leg} crank", hinge, at(0, 0.02 * side, 0))
        mechanism.add_joint(f"{leg} pin", f"{leg} crank", f"{leg} rod", hinge, at(0, 0, -CRANK))
        mechanism.add_joint(f"{leg} knee", f"{leg} thigh", f"{leg} shank", hinge, at(0, 0, -FRAME))
        lever = at(0.0, 0.02 * side, LEVER)  # the shank reaches beyond the knee
        ends = f"{leg} rod", f"{leg} shank", mb.Coincident(), at(0, 0, -ROD), lever
        mechanism.add_loop(f"{leg} four-bar", *ends, independent=[f"{leg} crank"])
        belt = {f"{leg} hip": RATIO, f"{leg} motor": -1.0}
        mechanism.add_coupling(f"{leg} gear", belt, independent=[f"{leg} hip"])
    start = {
        f"{leg} {joint}": x for leg in LEGS for joint, x in (("crank", 1.2), ("pin", -1.1), ("knee", 1.5))
    }
    return mechanism.build(gravity=(0.0, 0.0, 0.0), reference=start)


def at(x, y, z):
    placement = np.eye(4)
    placement[:3, 3] = x, y, z
    return placement


def add_bar(mechanism, name, mass, length):
    """A slender bar that hangs from its joint."""
    inertia = mass * length**2 / 12.0 * np.diag([1.0, 1.0, 0.01])
    mechanism.add_body(name, mass, (0, 0, -length / 2.0), inertia)


def passport(model, q, v):
    """Residuals of the C of each body factor, relative to the largest entry of C."""
    a, H = np.zeros(model.nv), mb.mass_matrix(model, q)
    bias, rate = mb.inverse_dynamics(model, q, v, a), mb.mass_matrix_rate(model, q, v)
    Gamma, s = mb.christoffel_symbols(model, q), np.asarray(model.frame.structure_functions(q))
    torsion = Gamma - np.swapaxes(Gamma, 1, 2) - np.einsum("il,ljk->ijk", H, s)
    print(f"{'':<30}{'C v - bias':>12}{'Hdot-C-C^T':>12}{'C - Gamma v':>12}")
    found = {}
    for factor in ("christoffel", "force_cross"):
        C = mb.coriolis_matrix(model, q, v, body_factor=factor)
        residuals = C @ v - bias, rate - C - C.T, C - np.einsum("ijk,j->ik", Gamma, v)
        found[factor] = [float(np.abs(x).max() / np.abs(C).max()) for x in residuals]
        print(f"C of body factor {factor:<13}", *(f"{x:11.1e}" for x in found[factor]))
    print(f"torsion of Gamma {np.abs(torsion).max() / np.abs(Gamma).max():.1e}, relative")
    assert max(found["christoffel"]) < 1e-11 and max(found["force_cross"][:2]) < 1e-11
    assert found["force_cross"][2] > 1e-2 and np.abs(torsion).max() < 1e-11 * np.abs(Gamma).max()


def simulate(model, q, v, times):
    """Configurations and velocities of the free motion, forward dynamics integrated by SciPy."""
    nothing = np.zeros(model.nv)

    def rates(t, state):
        q, v = normalized(state[: model.nq]), state[model.nq :]
        x, y, z, w = q[3:7]
        turn = np.array([[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]]) / 2.0
        moved = [Rotation.from_quat(q[3:7]).apply(v[3:6]), turn @ v[:3], v[6:]]
        return np.concatenate([*moved, mb.forward_dynamics(model, q, v, nothing)])

    start = np.concatenate([q, v])
    path = solve_ivp(rates, (0.0, times[-1]), start, "DOP853", times, rtol=1e-10, atol=1e-11)
    assert path.success, path.message
    return np.array([normalized(row) for row in path.y[: model.nq].T]), path.y[model.nq :].T


def normalized(q):
    return np.concatenate([q[:3], q[3:7] / np.linalg.norm(q[3:7]), q[7:]])


def conserved(model, q, v):
    """Kinetic energy (T,), and the momentum (T, 6) [n; f] about the world's origin, in world axes."""
    H = np.array([mb.mass_matrix(model, x) for x in q])
    p = np.einsum("tij,tj->ti", H, v)
    R = Rotation.from_quat(q[:, 3:7])
    f = R.apply(p[:, 3:6])
    return 0.5 * np.einsum("ti,ti->t", v, p), np.concatenate(
        [R.apply(p[:, :3]) + np.cross(q[:, :3], f), f], 1
    )


def points(model, q, leg):
    """Hip, knee, foot, crank pin, and the end of rod and of lever: (T, 2) each, x and z in base axes."""
    angle = {
        name: np.asarray(x)[:, 0] for name, x in model.spanning_configuration(q).items() if name != "float"
    }

    def along(turn, length):  # from a joint turned by this angle about y
        return length * np.stack([np.sin(turn), np.cos(turn)], axis=1)

    thigh, crank, rod, shank = (
        sum(angle[f"{leg} {name}"] for name in names)
        for names in (["hip"], ["hip", "crank"], ["hip", "crank", "pin"], ["hip", "knee"])
    )
    hip = np.zeros((len(q), 2)) + [0.0, -0.05]
    knee, pin = hip + along(thigh, -FRAME), hip + along(crank, -CRANK)
    return hip, knee, knee + along(shank, -SHANK), pin, pin + along(rod, -ROD), knee + along(shank, LEVER)


def draw(path, model, C, legs, motion):
    figure, axes = plt.subplots(1, 3, figsize=(14.0, 4.5), layout="constrained")
    shades = dict(zip(LEGS, ("#1f5fbf", "#c8102e"), strict=True))
    for leg, shade in shades.items():
        hip, knee, foot, pin, end, top = legs[leg]
        for k in (0, len(hip) // 2):
            light = 1.0 if k == 0 else 0.35
            for line in ((hip, knee), (top, foot)):
                axes[0].plot(*np.stack([line[0][k], line[1][k]]).T, color=shade, lw=4.0, alpha=0.6 * light)
            axes[0].plot(
                *np.stack([hip[k], pin[k], end[k]]).T, "o-", color="#222222", lw=1.5, ms=4, alpha=light
            )
        axes[0].plot(*foot.T, color=shade, lw=0.8, label=f"{leg} foot")
    axes[0].set(xlabel="x [m]", ylabel="z [m]", title="Legs in base axes, at the start and later (pale)")
    axes[0].set_aspect("equal")
    axes[0].legend(fontsize=8)
    image = axes[1].matshow(np.log10(np.maximum(np.abs(C), 1e-17)), vmin=-4, cmap="viridis")
    axes[1].set(xticks=range(model.nv), yticks=range(model.nv), title="log10 |C|; base twist first")
    figure.colorbar(image, ax=axes[1], shrink=0.8)
    t, *errors = motion
    for error, shade, label in zip(
        errors,
        ("#1f5fbf", "#1b8a3a", "#c8102e"),
        ("energy, relative", "momentum, relative", "open loops [m]"),
        strict=True,
    ):
        axes[2].semilogy(t, np.maximum(error, 1e-17), color=shade, label=label)
    axes[2].set(xlabel="time [s]", ylim=(1e-17, 1e-6), title="Errors of the free motion")
    axes[2].legend()
    axes[0].grid(alpha=0.3)
    axes[2].grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    print(path)


def main():
    model, rng = robot(), np.random.default_rng(0)
    print(f"{model}; independent: {', '.join(model.joint_names)}")
    q, v = model.neutral(), rng.uniform(-2.0, 2.0, model.nv)
    q[:3], q[3:7] = (0.1, 0.2, 0.5), Rotation.from_rotvec([0.2, -0.3, 0.4]).as_quat()
    q[7:] += 0.4, 0.0, -0.3, 0.5  # hip and crank of each leg
    v[:3] *= 1.5
    passport(model, q, v)

    times = np.linspace(0.0, HORIZON, 76)
    path, speeds = simulate(model, q, v, times)
    energy, momentum = conserved(model, path, speeds)
    legs = {leg: points(model, path, leg) for leg in LEGS}
    gap = np.max([np.linalg.norm(x[4] - x[5], axis=1) for x in legs.values()], axis=0)
    drift = np.abs(energy - energy[0]) / energy[0]
    turn = np.linalg.norm(momentum - momentum[0], axis=1) / np.linalg.norm(momentum[0])
    print(f"tumbling for {HORIZON} s: energy changes by {drift.max():.1e}, ", end="")
    print(f"momentum by {turn.max():.1e}, relative;")
    print(
        f"the loops open by {gap.max():.1e} m; hips and cranks move over",
        *np.ptp(path[:, 7:], axis=0).round(2),
        "rad",
    )
    assert max(drift.max(), turn.max()) < 1e-8 and gap.max() < 1e-12

    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    C = mb.coriolis_matrix(model, q, v)
    draw(directory / "legged_loops.png", model, C, legs, (times, drift, turn, gap))
    plots.figure_mechanism(model).savefig(directory / "legged_loops_graph.png")
    print(directory / "legged_loops_graph.png")


if __name__ == "__main__":
    main()
