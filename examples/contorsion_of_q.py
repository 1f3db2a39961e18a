"""A contorsion that depends on q: the same geodesics, another transport.

On flat R^3 take beta(q) = x y + sin z in [W] (12). C = C* + beta(q) (v x) is admissible at every point: its
geodesics are the straight lines still, but a vector carried along one of them turns about it, by the integral
of beta. Source: [W] Cor. III.1, (12). Run: python examples/contorsion_of_q.py [directory]
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import quad

import connections as cn


def beta(q):
    """One function, for C(3, 3) = 1 triple of indices."""
    return jnp.stack([q[0] * q[1] + jnp.sin(q[2])])


metric = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
nabla = cn.ContorsionFamily(metric).connection(beta)
points = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 3))
for check in (nabla.check_metric_compatible(points), nabla.check_same_geodesics(points)):
    print(check.require())
torsion = np.abs(np.asarray(nabla.torsion(points))).max()
print(
    f"torsion: up to {torsion:.3f}; curvature: up to {np.abs(np.asarray(nabla.curvature(points))).max():.3f}"
)
assert torsion > 0.1

q0, direction = np.array([-1.5, 0.2, 0.0]), np.array([2.0, 1.0, 2.0]) / 3.0
across = np.array([1.0, 0.0, -1.0]) / np.sqrt(2.0)  # orthogonal to it, as is the third:
third = np.cross(direction, across)
times = np.linspace(0.0, 4.0, 81)
q, v = cn.geodesic(nabla, q0, direction, times)
line = q0 + times[:, None] * direction
print(f"geodesic against the straight line: {np.abs(q - line).max():.1e}")

z = np.asarray(cn.parallel_transport(nabla, (times, line), across, times))
angle = np.unwrap(np.arctan2(z @ third, z @ across))
exact = [-quad(lambda t: float(beta(q0 + t * direction)[0]), 0.0, time)[0] for time in times[::8]]
print(f"turn about the line: {angle[-1]:.9f} rad; minus the integral of beta: {exact[-1]:.9f} rad")
assert np.abs(q - line).max() < 1e-8 and np.abs(angle[::8] - exact).max() < 1e-8

figure = plt.figure(figsize=(10.0, 4.2), layout="constrained")
space, plane = figure.add_subplot(1, 2, 1, projection="3d"), figure.add_subplot(1, 2, 2)
space.plot(*q.T, color="#222222", linewidth=2.0, label="geodesic, straight")
for k in range(0, len(times), 4):
    space.plot(
        *np.stack([q[k], q[k] + 0.5 * across]).T,
        color="#8a8a8a",
        linewidth=1.0,
        label="beta = 0" if k == 0 else None,
    )
    space.plot(
        *np.stack([q[k], q[k] + 0.5 * z[k]]).T,
        color="#c8102e",
        linewidth=1.6,
        label="beta(q)" if k == 0 else None,
    )
space.set(xlabel="x", ylabel="y", zlabel="z", xticks=[-1, 0, 1], yticks=[0.5, 1.5], zticks=[0, 1, 2, 3])
space.set_box_aspect(np.ptp(np.concatenate([q + 0.5 * z, q + 0.5 * across, q]), axis=0))
space.legend(loc="upper left")
plane.plot(times, angle, color="#c8102e", linewidth=2.0, label="turn of the transported vector")
plane.plot(times[::8], exact, "o", color="#222222", markersize=4, label="minus the integral of beta")
plane.set(xlabel="length along the geodesic", ylabel="angle [rad]")
plane.grid(alpha=0.3)
plane.legend()
path = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "contorsion_of_q.png"
figure.savefig(path, dpi=130)
print(path)
