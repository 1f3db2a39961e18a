"""A particle on a surface: left alone, it follows a geodesic; its acceleration is normal to the surface.

The surface z = h(x, y) takes its metric from space; the geodesic of the metric's Levi-Civita connection
is computed in the chart (x, y) and only then seen in space. Source: [W] Fig. 2.
Run: python examples/particle_on_a_surface.py [directory]
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import connections as cn


def embedding(q):
    """A point of the surface in space [m]."""
    x, y = q
    return jnp.stack([x, y, 1.0 * jnp.exp(-(x**2 + y**2)) - 0.15 * x**2])


metric = cn.PullbackMetric(cn.CoordinateFrame(2), embedding)
nabla = cn.LeviCivita(metric)
times = np.linspace(0.0, 3.4, 81)
q, v = cn.geodesic(nabla, [-1.7, -0.45], [1.0, 0.28], times)


@jax.vmap
def in_space(q, v):
    """Position, acceleration, tangent vectors (2, 3) in space of the geodesic through (q, v)."""
    J = jax.jacfwd(embedding)(q)
    bending = jax.jvp(lambda p: jax.jacfwd(embedding)(p) @ v, (q,), (v,))[1]
    return embedding(q), J @ -nabla.apply_at(q, v, v) + bending, J.T


position, acceleration, tangents = (np.asarray(a) for a in in_space(q, v))
speed = np.sqrt(np.asarray(metric.inner(q, v, v)))
tangential = np.abs(np.einsum("tia,ta->ti", tangents, acceleration)).max()
normal = np.linalg.norm(acceleration, axis=1).max()
print(f"largest acceleration in space      {normal:.3f} m/s^2")
print(f"largest component in the surface   {tangential:.1e} m/s^2")
print(f"speed: {speed[0]:.9f} m/s at the start, changes by at most {np.ptp(speed):.1e} m/s")
assert tangential < 1e-9 * normal and np.ptp(speed) < 1e-8

figure = plt.figure(figsize=(8.0, 6.0))
axes = figure.add_subplot(projection="3d", computed_zorder=False)
x, y = np.meshgrid(np.linspace(-1.9, 1.9, 60), np.linspace(-1.4, 1.4, 60))
surface = np.asarray(embedding(jnp.stack([jnp.asarray(x), jnp.asarray(y)])))
axes.plot_surface(
    *surface, color="#dfe6ee", edgecolor="#b9c4d0", linewidth=0.2, alpha=0.9, rstride=3, cstride=3
)
axes.plot(*position.T + [[0], [0], [0.01]], color="#1f5fbf", linewidth=2.5, label="geodesic")
for k in range(0, len(times), 8):
    start, arrow = position[k], 0.45 * acceleration[k]
    label = "acceleration, normal to the surface" if k == 0 else None
    axes.quiver(*start, *arrow, color="#c8102e", linewidth=1.6, arrow_length_ratio=0.2, label=label)
axes.scatter(*position[0], color="#1f5fbf", s=40)
axes.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")
axes.set_box_aspect(np.ptp(surface.reshape(3, -1), axis=1))
axes.view_init(elev=38, azim=-62)
axes.legend(loc="upper right")
path = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "particle_on_a_surface.png"
figure.savefig(path, dpi=130, bbox_inches="tight")
print(path)
