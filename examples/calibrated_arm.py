"""
Calibrating an arm's inertias by gradients inside JAX, and 4,096 arms in one call
=================================================================================

The torques of an arm of six joints are recorded along a motion, with noise, and its model has wrong inertias.
A thousand steps of Adam on the torques find better ones, in one `jit`: inertial parameters are data inside
JAX, and their gradient is the transpose of the regressor. The unknowns are Cholesky factors of
pseudo-inertias, so that every iterate is a distribution of mass. Then 4,096 arms whose inertias differ fall
for a while, in one `vmap`. For recorded data without JAX, see `control.identify`. Needs the extra
`optimization`. Run: python examples/calibrated_arm.py [directory]
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from connections import multibody as mb

try:
    import optax
except ImportError:
    raise SystemExit('optax has the optimizer: pip install "affine-connections[optimization]"') from None

# %%
# The arm that is recorded, and the model that we have: each body's mass, centre of mass and inertia are
# others. Scaling the pseudo-inertia from both sides keeps it positive definite.

rng = np.random.default_rng(0)
model = mb.example("arm")
nominal = mb.inertial_parameters(model)


def pseudo_inertias(pi):
    """P (N, 4, 4), the second moments of the density at (x, y, z, 1), from pi (N, 10)."""
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = np.moveaxis(pi, -1, 0)
    half = (xx + yy + zz) / 2.0
    rows = [[half - xx, -xy, -xz, hx], [-xy, half - yy, -yz, hy], [-xz, -yz, half - zz, hz], [hx, hy, hz, m]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def parameters(L):
    """pi (N, 10) of P = L L^T, from L (N, 4, 4); in JAX."""
    P = L @ jnp.swapaxes(L, 1, 2)
    trace = P[:, 0, 0] + P[:, 1, 1] + P[:, 2, 2]
    xx, yy, zz = (trace - P[:, i, i] for i in range(3))
    columns = (
        P[:, 3, 3],
        P[:, 0, 3],
        P[:, 1, 3],
        P[:, 2, 3],
        xx,
        -P[:, 0, 1],
        yy,
        -P[:, 0, 2],
        -P[:, 1, 2],
        zz,
    )
    return jnp.stack(columns, axis=1)


start = np.linalg.cholesky(pseudo_inertias(nominal))
stretch = np.eye(4) + 0.25 * rng.uniform(-1.0, 1.0, (len(nominal), 4, 4))
recorded = model.with_inertial_parameters(np.asarray(parameters(jnp.asarray(stretch @ start))))

# %%
# Two motions, sums of sines: the first is recorded, the second is for judging. The noise is a hundredth of
# the torques.


def motion(rng, times):
    """q, v and a (T, n) of sines with three frequencies each."""
    size, rate = rng.uniform(-0.7, 0.7, (3, model.nv)), rng.uniform(0.5, 3.0, (3, model.nv))
    angle = times[:, None, None] * rate + rng.uniform(0.0, 6.0, (3, model.nv))
    waves = size * np.sin(angle), size * rate * np.cos(angle), -size * rate**2 * np.sin(angle)
    return [wave.sum(axis=1) for wave in waves]


times = np.linspace(0.0, 10.0, 400)
known, judged = motion(rng, times), motion(rng, times)
torques = mb.inverse_dynamics(recorded, *known)
units = torques.std(axis=0)
torques = torques + 0.01 * units * rng.standard_normal(torques.shape)


@jax.jit
def calibrated(L):
    """A thousand steps of Adam, and the loss along them."""
    optimizer = optax.adam(optax.cosine_decay_schedule(0.02, 1000))
    scale = jnp.abs(L).max(axis=(1, 2), keepdims=True)  # a body's entries have the sizes of its own

    def loss(x):
        arm = model.with_inertial_parameters(parameters(L + scale * jnp.tril(x)))
        errors = (mb.inverse_dynamics(arm, *known) - torques) / units
        return jnp.mean(errors**2)

    def step(state, _):
        x, memory = state
        value, slope = jax.value_and_grad(loss)(x)
        change, memory = optimizer.update(slope, memory)
        return (x + change, memory), value

    x = jnp.zeros_like(L)
    (x, _), losses = jax.lax.scan(step, (x, optimizer.init(x)), length=1000)
    return parameters(L + scale * jnp.tril(x)), losses


compiled = calibrated.lower(start).compile()
began = time.perf_counter()
found, losses = jax.block_until_ready(compiled(start))
seconds = time.perf_counter() - began
arm = model.with_inertial_parameters(np.asarray(found))
print(f"1000 steps, 400 torques of 6 joints each: {seconds:.2f} s")
before, after = np.sqrt(losses[0]), np.sqrt(losses[-1])
print(f"error of the torques: {before:.3f} at first, {after:.4f} in the end, noise 0.01")

truth = mb.inverse_dynamics(recorded, *judged)
errors = {
    name: np.sqrt(np.mean(((mb.inverse_dynamics(robot, *judged) - truth) / units) ** 2))
    for name, robot in (("before", model), ("after", arm))
}
print(f"of another motion, without noise: {errors['before']:.3f} before, {errors['after']:.4f} after")
assert errors["after"] < 0.1 * errors["before"]

# %%
# 4,096 arms, each with inertias of its own, fall for half a second, all in one `vmap`.

COUNT, STEPS, H = 4096, 500, 0.001
heavier = np.asarray(found) * rng.uniform(0.7, 1.3, (COUNT, len(nominal), 1))
q0 = model.neutral() + 0.3


@jax.jit
@jax.vmap
def fallen(pi):
    """The configuration after STEPS steps without torques, and the kinetic energy."""
    robot = model.with_inertial_parameters(pi)

    def step(state, _):
        q, v = state
        v = v + H * mb.forward_dynamics(robot, q, v, jnp.zeros(model.nv))
        return (q + H * v, v), None

    (q, v), _ = jax.lax.scan(step, (jnp.asarray(q0), jnp.zeros(model.nv)), length=STEPS)
    return q, 0.5 * v @ mb.mass_matrix(robot, q) @ v


fallen(heavier)  # compiled
began = time.perf_counter()
q_end, energies = jax.block_until_ready(fallen(heavier))
each = (time.perf_counter() - began) / (COUNT * STEPS)
print(f"4,096 arms, {STEPS} steps each: {1e6 * each:.2f} us for a step of an arm")

# %%
# Torques of the motion that was not recorded, and what the arms become.

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12.0, 3.6), layout="constrained")
left.semilogy(np.sqrt(losses))
left.axhline(0.01, color="0.6", linestyle="--")
left.set(xlabel="step", ylabel="error of the torques / their size", title="Calibration (dashed: noise)")
joint = 1
for robot, style, name in ((recorded, "k", "arm"), (model, "C1--", "before"), (arm, "C0--", "after")):
    middle.plot(times, mb.inverse_dynamics(robot, *judged)[:, joint], style, label=name)
middle.set(
    xlabel="time, s",
    ylabel="torque, N m",
    title=f"Another motion: {model.joint_names[joint]}",
    xlim=(0.0, 4.0),
)
middle.legend()
right.hist(np.asarray(energies), bins=60)
right.set(xlabel="kinetic energy, J", ylabel="arms", title="4,096 arms after half a second")

with TemporaryDirectory() as temporary:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
    figure.savefig(folder / "calibrated_arm.png", dpi=120)
