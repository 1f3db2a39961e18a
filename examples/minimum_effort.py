"""
A UR5 swings with less effort than its spline
=============================================

A UR5 passes three postures within a second. A cubic spline in its joint angles knows nothing of masses and
gravity. `control.minimum_effort_curve` finds a motion through the same postures at which the squares of the
torques, relative to their limits, have a stationary integral; its second variation is positive, so that
neighbouring motions take more. The effort falls by more than a third, and the shoulder's largest torque
by a fifth. But nearly massless wrist joints are thrown about for it, at 13 rad/s. A little of
the weight that every Riemannian metric has, the inverse of the mass matrix, keeps them calm.
Run: python examples/minimum_effort.py [directory]
"""

import sys
from importlib.metadata import files
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from scipy.interpolate import CubicSpline

from connections import control
from connections import multibody as mb

directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
robots = files("example-robot-data")
arm = mb.from_urdf(next(file.locate() for file in robots if file.name == "ur5_robot.urdf"))
LIMITS = arm.limits.effort  # N m
POSTURES = np.array(
    [[0.0, -0.4, 1.2, -0.8, -1.57, 0.0], [0.9, -1.3, 1.3, -1.2, -1.2, 0.5], [2.0, -0.4, 0.9, -0.6, -0.6, 1.0]]
)
TIMES = np.array([0.0, 0.5, 1.0])  # s
REST = {"start_velocity": np.zeros(6), "end_velocity": np.zeros(6)}

# %%
# Two weights. The first one measures torques by their limits only. The second one adds a little of
# tau^T H^-1 tau, the square of the length of D_t v + grad U, which does not depend on coordinates, and which
# is large if something light is accelerated.


def calm(q):
    return jnp.diag(jnp.asarray(1.0 / LIMITS**2)) + 1e-4 * jnp.linalg.inv(arm.metric.matrix_at(q))


found = {
    "limits only": control.minimum_effort_curve(
        arm.system(), POSTURES, TIMES, weight=1.0 / LIMITS**2, tolerance=1e-4, **REST
    ),
    "calm": control.minimum_effort_curve(arm.system(), POSTURES, TIMES, weight=calm, tolerance=1e-4, **REST),
}
spline = CubicSpline(TIMES, POSTURES, bc_type="clamped")
t = np.linspace(0.0, 1.0, 241)
by_joint = [spline(t, order) for order in range(3)]
motions = {"spline": (*by_joint[:2], mb.inverse_dynamics(arm, *by_joint))}
for name, curve in found.items():
    print(f"{name}: {curve}")
    assert curve.positive
    motion = curve.at(t)
    motions[name] = motion.q, motion.v, motion.tau

# %%
# The effort is the integral of the squared torques relative to their limits.

print(f"{'':12} {'effort':>7} {'largest torque / limit':>23} {'largest joint rate':>19}")
efforts, peaks = {}, {}
for name, (_, v, tau) in motions.items():
    share = tau / LIMITS
    efforts[name], peaks[name] = np.trapezoid(np.sum(share**2, axis=1), t) / 2.0, np.abs(share).max()
    fastest = np.abs(v).max()
    print(f"{name:12} {efforts[name]:7.4f} {peaks[name]:23.3f} {fastest:13.2f} rad/s")
assert efforts["limits only"] < efforts["calm"] < efforts["spline"]
assert peaks["limits only"] < peaks["calm"] < peaks["spline"]

# %%
# Along a curve that is stationary the Hamiltonian c_q . v + c_v . vdot - L of its costates is constant
# between the postures: a check that shares nothing with the search.

for curve in found.values():
    begin, end = curve.hamiltonian
    half = len(begin) // 2
    for span in (slice(0, half), slice(half, None)):
        both = np.concatenate([begin[span], end[span]])
        assert np.ptp(both) < 1e-5 * np.abs(both).max()

# %%
# The torques of the shoulder, which has most to carry, and the arms from the side.

COLORS = {"spline": "#8a8a8a", "limits only": "#c8102e", "calm": "#1f5fbf"}
bones = {}
for name, (q, _, _) in motions.items():
    bodies = mb.forward_kinematics(arm, q)[..., :3, 3]
    bones[name] = np.concatenate([np.zeros_like(bodies[:, :1]), bodies], axis=1)  # (time, point, 3) [m]

figure, axes = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
for name, (_, v, tau) in motions.items():
    style = {"color": COLORS[name], "label": name, "linewidth": 1.8}
    axes[0].plot(t, tau[:, 1] / LIMITS[1], **style)
    axes[1].plot(t, np.sqrt(np.mean((tau / LIMITS) ** 2, axis=1)), **style)
    axes[2].plot(t, np.abs(v).max(axis=1), **style)
axes[0].set(xlabel="time [s]", ylabel="torque / limit", title="Shoulder lift")
axes[1].set(xlabel="time [s]", ylabel="root mean square of torque / limit", title="All joints")
axes[2].set(xlabel="time [s]", ylabel="largest joint rate [rad/s]", title="What it costs")
for panel in axes:
    panel.grid(alpha=0.3)
    panel.axvline(TIMES[1], color="black", linewidth=0.6)
axes[0].legend()
figure.savefig(directory / "minimum_effort.png", dpi=130)
print(directory / "minimum_effort.png")

# %%
# The film: both arms at the same times, and the torques up to then.

SHOWN = ("spline", "calm")
film = plt.figure(figsize=(7.4, 3.9), dpi=96)
space = film.add_axes((-0.03, 0.0, 0.55, 0.95), projection="3d", computed_zorder=False)
side = film.add_axes((0.6, 0.15, 0.37, 0.72))
shares = {name: motions[name][2][:, 1] / LIMITS[1] for name in SHOWN}


def draw(k):
    space.cla(), side.cla()
    for name in SHOWN:
        wide = 2.5 if name == "spline" else 4.0
        space.plot(*bones[name][: k + 1, -1].T, color=COLORS[name], linewidth=1.0)
        space.plot(*bones[name][k].T, "o-", color=COLORS[name], linewidth=wide, markersize=wide, label=name)
        side.plot(t, shares[name], color=COLORS[name], linewidth=0.7)
        side.plot(t[: k + 1], shares[name][: k + 1], color=COLORS[name], linewidth=2.2)
    space.set(xlim=(-0.6, 0.6), ylim=(-0.3, 0.9), zlim=(-0.1, 0.9), xticks=(), yticks=(), zticks=())
    space.set_box_aspect((1.2, 1.2, 1.0), zoom=1.15)
    space.view_init(20.0, -50.0)
    space.legend(loc="upper left", fontsize=8, frameon=False)
    side.set(xlabel="time [s]", title="torque of the shoulder lift / limit", xlim=(0.0, 1.0))
    side.title.set_size(10)
    side.grid(alpha=0.3)
    side.axvline(t[k], color="black", linewidth=0.8)


pictures = []
for k in range(0, len(t), 6):
    draw(k)
    film.canvas.draw()
    picture = Image.fromarray(np.asarray(film.canvas.buffer_rgba())[..., :3])
    pictures.append(picture.quantize(64, dither=Image.Dither.NONE))
lasting = [60] * (len(pictures) - 1) + [1200]  # ms
path = directory / "minimum_effort.gif"
pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=lasting, loop=0, optimize=True)
print(f"{path}: {len(pictures)} frames, {path.stat().st_size} bytes")
assert path.stat().st_size < 1_000_000
