"""
What torsion does: a frame carried along a line, a mass that returns to it
===========================================================================

A point mass of 1 kg moves in space. Two connections have straight geodesics, keep all lengths and angles, and
give the same C v: C = 0, and C = beta (v x), which has torsion. On the left, each carries a frame along a
line; on the right, the mass returns to a line under the same control law with either C.
Source: [W] (12), Fig. 3, IV-A2.
Run: python examples/what_torsion_does.py [directory]
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

import connections as cn
from connections.control.tracking_example import explore

MASS, BETA = 1.0, -5.0  # kg, kg/m
BLUE, RED, DARK, GREY = "#1f5fbf", "#c8102e", "#222222", "#777777"
LOOK = (("without torsion: C = 0", BLUE), (f"with torsion: C = {BETA:g} (v ×)".replace("-", "−"), RED))
family = cn.ContorsionFamily(cn.ConstantMetric(cn.CoordinateFrame(3), MASS * np.eye(3)))
betas = np.array([[0.0], [BETA]])


# %%
# The frame is two vectors across the line. Each connection carries them along it at 1 m/s.


def line(t):
    return t * jnp.array([1.0, 0.0, 0.0])


pitch = 2.0 * np.pi * MASS / abs(BETA)  # m: zdot = -(beta / m) v x z turns once on this length
times = np.linspace(0.0, 1.25 * pitch, 121)
across = np.eye(3)[1:]
carried = np.asarray(family.sweep(betas, lambda nabla: cn.parallel_transport(nabla, line, across, times)))
lengths = np.linalg.norm(carried, axis=-1)  # (2 connections, 2 vectors, times)
turns = np.unwrap(np.arctan2(carried[:, 0, :, 2], carried[:, 0, :, 1]))[:, -1] / (2.0 * np.pi)
print(f"a frame carried {times[-1]:.3f} m along a line makes {turns[0]:.3f} turns without torsion,")
print(f"{turns[1]:.3f} with torsion: one on {times[-1] / turns[1]:.3f} m (2 pi m / |beta| = {pitch:.3f} m);")
print(f"the vectors keep their lengths to {np.abs(lengths - 1.0).max():.0e}\n")
assert abs(turns[0]) < 1e-12 and abs(turns[1] - 1.25) < 1e-7

# %%
# The mass follows q_d = (t + sin t, 0, 0) under a law that takes it for 0.9 kg. Torsion costs effort, and the
# Lyapunov function hardly notices.

results = explore([0.0, BETA])
V = np.array([result.motion.lyapunov for result in results])
print("C               effort [N^2 s]   peak force [N]   rms frequency [Hz]   rms error [m]")
for (name, _), result in zip(LOOK, results, strict=True):
    numbers = f"{result.effort:14.1f} {result.peak_force:16.2f} {result.rms_frequency:20.2f}"
    print(f"{name.split(':')[0]:<15} {numbers} {result.rms_error:15.3f}")
print(f"V = s^T H s / 2 falls from {V[0, 0]:.2f} J; its graphs differ by {np.ptp(V, axis=0).max():.0e} J")

# %%
# The picture shows the line from the side and from above: the coordinates of a point in it are q @ seen.

azimuth, elevation = np.deg2rad([-68.0, 20.0])
aside = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
above = np.cross([0.0, 0.0, 1.0], aside) * np.sin(elevation) + np.array([0.0, 0.0, np.cos(elevation)])
seen = np.stack([aside, above], axis=1)  # (3, 2)
size = 0.25  # m, the length of an arrow
origins = np.asarray([line(t) for t in times])

figure = Figure(figsize=(10.0, 4.2), layout="constrained")
FigureCanvasAgg(figure)
left, right = figure.subfigures(1, 2, width_ratios=(1.1, 1.0), wspace=0.04)
left.suptitle("a frame carried along a line", fontsize=12)
for axes, (name, color), vectors in zip(left.subplots(2, 1), LOOK, carried, strict=True):
    points, (second, third) = origins @ seen, (origins + size * vectors) @ seen
    strip = np.stack([points[:-1], points[1:], third[1:], third[:-1]], axis=1)
    axes.add_collection(PolyCollection(strip, facecolor=color, alpha=0.15, edgecolor="none"))
    axes.plot(*points.T, color=DARK, lw=1.5)
    for tips, shade in ((second, GREY), (third, color)):
        for start, tip in zip(points[::6], tips[::6], strict=True):
            arrow = {"arrowstyle": "-|>", "color": shade, "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", tip, start, arrowprops=arrow | {"mutation_scale": 9})
    axes.set(aspect="equal", xlim=(-0.05, 1.6), ylim=(-0.38, 0.26))
    axes.axis("off")
    axes.set_title(name, color=color, fontsize=11)
right.suptitle("a controlled mass returns to a line", fontsize=12)
upper, lower = right.subplots(2, 1, sharex=True)
t = np.asarray(results[0].motion.times)
for (name, color), result, style in zip(LOOK, results, ("-", (0, (3, 3))), strict=True):
    upper.plot(t, result.motion.v[:, 1], color=color, lw=2.0, label=name.split(":")[0])
    lower.plot(t, result.motion.lyapunov, color=color, lw=2.0, ls=style)
upper.set_ylabel("velocity across\nthe line [m/s]")
lower.set_ylabel("Lyapunov\nfunction V [J]")
lower.set(xlabel="time [s]", xlim=(0.0, 4.0))
upper.legend(frameon=False)
for axes in (upper, lower):
    axes.grid(alpha=0.3)
path = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "what_torsion_does.png"
figure.savefig(path, dpi=120)
print(f"\n{path}")
