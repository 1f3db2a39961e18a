"""
Inertias and friction of an arm from its torques, without accelerations
=======================================================================

A six-joint arm holds 1 kg that its model does not know, and its joints rub. It follows sums of sines for
10 s; positions, velocities and torques are recorded, with noise. The classical regressor needs accelerations,
which are differences of noisy velocities. The momentum regressor needs none: d/dt (Y_p pi) = tau + Y_e pi,
and a low pass takes the derivative. The estimate is one of bodies that exist. It is tested on a motion that
was not recorded. At the end, gradients through a simulation in JAX find what least squares cannot: a friction
that is not linear in its parameters, from positions and torques alone.
Run: python examples/identification.py [directory]
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares
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
# Another recording, without velocities, of joints whose friction rises with tanh(v / w) where they are slow.
# A simulation of the arm is pushed by the measured torques and drawn to the measured positions; its errors
# before each measurement are made small. Its dynamics are linear in the mass m of the payload, so they are
# those of two robots, and their derivatives come from recursions.

SLOW, PULL = 0.1, 2.0 * np.pi * 3.0  # w, rad/s; how fast the simulation follows, 1/s
rubbed = mb.inverse_dynamics(arm, q, v, a) + VISCOUS * v + COULOMB * np.tanh(v / SLOW)
rubbed_measured = rubbed + TORQUE_NOISE * rng.normal(size=tau.shape)
n, h = arm.nv, 1.0 / RATE


def friction(theta, v):
    """N m, of theta = [m, viscous (n,), Coulomb (n,), w]."""
    return theta[1 : n + 1] * v + theta[n + 1 : 2 * n + 1] * jnp.tanh(v / theta[-1])


def acceleration(theta, q, v, tau):
    """(n,), rad/s^2, with a payload of theta[0] kg: `arm` is the arm with 1 kg."""

    def loaded(function, *state):
        without, with_it = (function(robot, *state) for robot in (believed, arm))
        return without + theta[0] * (with_it - without)

    force = tau - friction(theta, v) - loaded(mb.nonlinear_effects, q, v)
    return jnp.linalg.solve(loaded(mb.mass_matrix, q), force)


def surprises(theta, measured, tau):
    """Measured positions minus simulated ones, (T - 1, n), rad."""

    def step(state, given):
        (q, v, a), (position, tau) = state, given
        gap = position - q
        a = acceleration(theta, q + 0.5 * h * v, v + 0.5 * h * a, tau)
        next_v = v + h * (a + PULL**2 * gap)
        return (q + h * (0.5 * (v + next_v) + 1.4 * PULL * gap), next_v, a), gap

    start, torques = (measured[0], jnp.zeros(n), jnp.zeros(n)), 0.5 * (tau[1:] + tau[:-1])
    return jax.lax.scan(step, start, (measured[:-1], torques))[1]


recorded, settled = (q_measured, rubbed_measured), int(RATE)  # the first second is left out
errors_of = jax.jit(lambda theta: surprises(theta, *recorded)[settled:])
slopes_of = jax.jit(jax.jacfwd(errors_of))
guess = np.concatenate([[0.0], np.full(2 * n, 0.1), [0.5]])
direction = rng.normal(size=guess.size)
quotient = (errors_of(guess + 1e-6 * direction) - errors_of(guess - 1e-6 * direction)) / 2e-6
assert np.allclose(slopes_of(guess) @ direction, quotient, rtol=1e-5, atol=1e-6)
truth = np.concatenate([[1.0], np.full(n, VISCOUS), np.full(n, COULOMB), [SLOW]])
wrong = np.concatenate([truth[:-1], [1.01 * SLOW]])  # w by a percent
exact, other = (np.max(np.abs(surprises(x, q, rubbed)[settled:])) for x in (truth, wrong))
assert exact < 1e-5 < 2e-5 < other  # rad, without noise

theta, noise = guess, np.ones(n)
for _ in range(2):  # the second time with the errors of each joint
    fit = least_squares(
        lambda theta, noise=noise: (errors_of(theta) / noise).ravel(),
        theta,
        lambda theta, noise=noise: (slopes_of(theta) / noise[:, None]).reshape(-1, guess.size),
        bounds=([-1.0, *np.zeros(2 * n), 1e-3], np.inf),
        x_scale="jac",
    )
    theta, noise = fit.x, np.sqrt(np.mean(np.square(errors_of(fit.x)), axis=0))

# %%
# Least squares get the same recording, smoothed, with velocities by differences. They have to find the rest
# of the arm, too, so the fairer comparison is the friction of their kind that is nearest to the true one.

smoothed = smooth(q_measured)
linear = by_momentum(smoothed, np.gradient(smoothed, times, axis=0), smooth(rubbed_measured))
speeds = np.linspace(-1.0, 1.0, 201)[:, None]  # rad/s
true_friction = VISCOUS * speeds + COULOMB * np.tanh(speeds / SLOW)
kind = np.hstack([speeds, np.sign(speeds)])
curves = {
    "least squares": linear.viscous * speeds + linear.coulomb * np.sign(speeds),
    "nearest of their kind": np.repeat(kind @ np.linalg.lstsq(kind, true_friction)[0], n, axis=1),
    "gradients": np.asarray(friction(theta, speeds)),
}
print(f"\npayload {theta[0]:.3f} kg (true 1); w {theta[-1]:.3f} rad/s (true {SLOW})")
gaps = {name: np.sqrt(np.mean((curve - true_friction) ** 2, axis=0)) for name, curve in curves.items()}
print("rms error of each joint's friction below 1 rad/s [N m]")
for name, gap in gaps.items():
    print(f"  {name:<22}", *(f"{x:.3f}" for x in gap))
assert abs(theta[0] - 1.0) < 0.02 and abs(theta[-1] - SLOW) < 0.03
assert np.all(gaps["gradients"] < 0.7 * gaps["nearest of their kind"])
left = [np.mean(np.square(errors_of(x) / noise)) for x in (theta, truth, guess)]
assert left[0] <= left[1] < 1.1 * left[0] and left[2] > 100.0 * left[0]  # near the truth, far from the guess

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


def draw_friction(path):
    """The friction that was found, and the simulation's errors before and after."""
    figure, axes = plt.subplots(1, 3, figsize=(14.0, 4.0), layout="constrained")
    for panel, joint in zip(axes, (1, n - 1), strict=False):
        panel.plot(speeds, true_friction, color="#222222", label="true")
        for (name, curve), color in zip(curves.items(), ("#c8102e", "#c07f00", "#1f5fbf"), strict=True):
            panel.plot(speeds, curve[:, joint], "--", color=color, label=name)
        panel.set(xlabel="velocity [rad/s]", ylabel="friction [N m]", title=f"Joint {joint + 1}")
    for parameters, color, name in ((guess, "#8a8a8a", "guess"), (theta, "#1f5fbf", "found")):
        errors = 1e3 * np.asarray(surprises(parameters, *recorded))[:, n - 1]
        axes[2].plot(times[1:], errors, color=color, label=name, linewidth=0.8)
    axes[2].set(xlabel="time [s]", ylabel="error [mrad]", title=f"Joint {n}, measured minus simulated")
    for panel in axes:
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    print(path)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
draw(directory / "identification.png")
draw_friction(directory / "identification_friction.png")
