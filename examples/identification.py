"""
Inertias and friction of an arm from its torques, without accelerations
=======================================================================

A six-joint arm holds 1 kg that its model does not know, and its joints rub. It follows sums of sines for
10 s; positions, velocities and torques are recorded, with noise. The classical regressor needs accelerations,
which are differences of noisy velocities. The momentum regressor needs none: d/dt (Y_p pi) = tau + Y_e pi,
and a low pass takes the derivative. The estimate is one of bodies that exist. It is tested on a motion that
was not recorded.
Run: python examples/identification.py [directory]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import butter, sosfiltfilt

from connections import control
from connections import multibody as mb
from connections.multibody.inertia import pseudo_inertias

# %%
# The arm as it is, the arm as it is believed to be, and two motions: one to record, one to test.

VISCOUS, COULOMB = 0.4, 0.3  # N m s/rad, N m
RATE, CUTOFF = 500.0, 5.0  # samples per second; Hz
TORQUE_NOISE = np.array([0.5, 1.0, 0.5, 0.15, 0.15, 0.05])  # N m
POSITION_NOISE = 1e-4  # rad

believed = mb.example("arm")
arm = control.with_payload(believed, "tool", 1.0, (0.0, 0.0, 0.1), 0.005 * np.eye(3))


def motion(seed, times):
    """q, v and a of sums of sines, (T, nv) each."""
    rng, n = np.random.default_rng(seed), arm.nv
    frequency = 2.0 * np.pi * np.array([0.15, 0.3, 0.45, 0.6])  # rad/s
    size, phase = 0.35 * rng.normal(size=(n, 4)), rng.uniform(0.0, 2.0 * np.pi, (n, 4))
    angle = times[:, None, None] * frequency + phase
    waves = np.sin(angle), frequency * np.cos(angle), -(frequency**2) * np.sin(angle)
    return tuple(np.sum(size * wave, axis=-1) for wave in waves)


times = np.arange(0.0, 10.0, 1.0 / RATE)
q, v, a = motion(1, times)
tau = mb.inverse_dynamics(arm, q, v, a) + VISCOUS * v + COULOMB * np.sign(v)

new_times = np.arange(0.0, 5.0, 0.01)
new = motion(2, new_times)
new_tau = mb.inverse_dynamics(arm, *new)


def error(parameters):
    """The rms error of the torques of the new motion, relative to their rms."""
    gap = predicted(parameters) - new_tau
    return np.sqrt(np.mean(gap**2) / np.mean(new_tau**2))


def predicted(parameters):
    """Torques of the new motion without friction, (T, nv)."""
    q, v, a = new
    return mb.regressor(believed, q, v, v, a) @ parameters.ravel()


# %%
# The classical way: Y(q, v, vdot) pi and friction, with vdot by differences, by least squares that are
# weighted in the same way.


def classical(q, v, tau):
    """Inertial parameters (10 N,) by the classical regressor."""
    n, start = arm.nv, mb.inertial_parameters(believed).ravel()
    accelerations = np.gradient(v, times, axis=0)
    W = np.zeros((*v.shape, start.size + 2 * n))
    W[..., : start.size] = mb.regressor(believed, q, v, v, accelerations)
    joints = np.arange(n)
    W[:, joints, start.size + joints], W[:, joints, start.size + n + joints] = v, np.sign(v)
    theta, noise = np.concatenate([start, np.zeros(2 * n)]), np.ones(n)
    for _ in range(2):  # the second time with the noise of each joint
        A, b = W / noise[:, None], (tau - W @ theta) / noise
        theta = theta + np.linalg.lstsq(A.reshape(-1, theta.size), b.ravel(), rcond=1e-8)[0]
        noise = np.sqrt(np.mean((tau - W @ theta) ** 2, axis=0))
    return theta[: start.size]


def by_momentum(q, v, tau, **options):
    """What `control.identify` finds."""
    return control.identify(believed, q, v, tau, times, cutoff=CUTOFF, friction=True, **options)


def smooth(x):
    """Without phase, forwards and backwards: for a whole recording, afterwards."""
    return sosfiltfilt(butter(4, CUTOFF, fs=RATE, output="sos"), x, axis=0)


# %%
# Velocities with more and more noise; that of positions and torques stays. Both ways are also given the
# recording after a filter without phase, which needs all of it at once: then accelerations do little harm,
# and the momentum is better still.

WAYS = {
    "classical": lambda *data: error(classical(*data)),
    "momentum": lambda *data: error(by_momentum(*data).parameters),
    "smoothed, classical": lambda *data: error(classical(*map(smooth, data))),
    "smoothed, momentum": lambda *data: error(by_momentum(*map(smooth, data)).parameters),
}
NOISES = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.05])  # rad/s
rng = np.random.default_rng(3)
q_measured = q + POSITION_NOISE * rng.normal(size=q.shape)
tau_measured = tau + TORQUE_NOISE * rng.normal(size=tau.shape)
unit_noise = rng.normal(size=v.shape)
errors = {
    name: np.array([way(q_measured, v + size * unit_noise, tau_measured) for size in NOISES])
    for name, way in WAYS.items()
}
before = error(mb.inertial_parameters(believed))
print(f"error of the torques of a new motion; before identification {before:.1%}")
print(f"{'noise of v [rad/s]':<22}" + "".join(f"{size:>9g}" for size in NOISES))
for name, values in errors.items():
    print(f"{name:<22}" + "".join(f"{value:>9.2%}" for value in values))
assert (errors["momentum"] < 0.3 * errors["classical"]).all()
assert (errors["momentum"] < before).all()

# %%
# What the recording says, at 0.005 rad/s. Of 60 inertial parameters, torques determine 36 combinations, and
# the 12 coefficients of friction. Masses of single bodies are not among them: those found belong to a robot
# with the same torques, near the one that was believed. Without the constraint its bodies cannot exist.

SIZE = 0.005
data = q_measured, v + SIZE * unit_noise, tau_measured
found, free = by_momentum(*data), by_momentum(*data, consistent=False)
true = np.concatenate([mb.inertial_parameters(arm).ravel(), np.repeat([VISCOUS, COULOMB], arm.nv)])
deviations = (found.base - found.combinations @ true) / found.standard_errors
print(f"\nat {SIZE} rad/s: {found.rank} of {true.size} combinations are identified")
print(f"rms deviation of these, in standard errors: {np.sqrt(np.mean(deviations**2)):.2f}")


def smallest(parameters):
    """The smallest eigenvalue of each pseudo-inertia, lengths in units of 0.1 m, kg."""
    units = np.array([10.0, 10.0, 10.0, 1.0])
    return np.linalg.eigvalsh(pseudo_inertias(parameters) * np.multiply.outer(units, units))[:, 0]


print("body         mass [kg]: true  found   smallest eigenvalue [kg]: free  found")
for name, mass, ours, without, within in zip(
    arm.body_names,
    mb.inertial_parameters(arm)[:, 0],
    found.parameters[:, 0],
    smallest(free.parameters),
    smallest(found.parameters),
    strict=True,
):
    print(f"{name:<13}{mass:>15.2f}{ours:>7.2f}{without:>31.3f}{within:>7.3f}")
print("viscous [N m s/rad]", *(f"{x:.3f}" for x in found.viscous), f"(true {VISCOUS})")
print("Coulomb [N m]      ", *(f"{x:.3f}" for x in found.coulomb), f"(true {COULOMB})")
assert smallest(free.parameters).min() < 0.0 < smallest(found.parameters).min()
assert np.all(np.linalg.eigvalsh(mb.mass_matrix(found.model, q[::100])) > 0.0)

# %%
# Errors against the noise; torques of the new motion; eigenvalues.


def draw(path):
    figure, axes = plt.subplots(1, 3, figsize=(14.0, 4.3), layout="constrained")
    looks = {
        "classical": ("#c8102e", "-"),
        "momentum": ("#1f5fbf", "-"),
        "smoothed, classical": ("#c8102e", ":"),
        "smoothed, momentum": ("#1f5fbf", ":"),
    }
    for name, (color, line) in looks.items():
        axes[0].loglog(NOISES, 100.0 * errors[name], line, color=color, marker="o", label=name)
    axes[0].axhline(100.0 * before, color="#8a8a8a", linestyle="--", label="before identification")
    axes[0].set_ylim(0.1, 500.0)  # room for the legend
    axes[0].set(
        xlabel="noise of velocities [rad/s]",
        ylabel="rms error of torques [%]",
        title="A motion that was not recorded",
    )
    joint = 4
    for values, color, line, name in (
        (new_tau, "#222222", "-", "true"),
        (predicted(found.parameters), "#1f5fbf", "--", "momentum"),
        (predicted(classical(*data)), "#c8102e", "-.", "classical"),
        (predicted(mb.inertial_parameters(believed)), "#8a8a8a", ":", "before identification"),
    ):
        axes[1].plot(new_times, values[:, joint], line, color=color, label=name)
    axes[1].set(xlabel="time [s]", ylabel="torque [N m]", title=f"Joint {joint + 1}, noise of {SIZE} rad/s")
    places = np.arange(len(arm.body_names))
    for shift, parameters, color, name in (
        (-0.2, free.parameters, "#c07f00", "least squares"),
        (0.2, found.parameters, "#1f5fbf", "bodies that exist"),
    ):
        axes[2].bar(places + shift, smallest(parameters), 0.4, color=color, label=name)
    axes[2].axhline(0.0, color="#222222", linewidth=1.0)
    axes[2].set_xticks(places, [name.replace("_", "\n") for name in arm.body_names])
    axes[2].set(ylabel="smallest eigenvalue [kg]", xlabel="body", title="Pseudo-inertias, in kg and 0.1 m")
    axes[2].set_yscale("symlog", linthresh=0.01)
    for panel in axes:
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8, ncols=2 if panel is axes[0] else 1)
    figure.savefig(path, dpi=130)
    print(path)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
draw(directory / "identification.png")
