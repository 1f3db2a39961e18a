"""
Foucault's pendulum: a direction comes back turned
==================================================

The Earth carries a pendulum around a parallel, and the plane in which it swings is transported parallelly.
After one day it has turned by 2 pi cos(colatitude) against the ground.
Run: python examples/foucault.py [directory]
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import connections as cn

# %%
# The globe is the unit sphere in the orthonormal frame (south, east), with q = (colatitude, longitude). One
# call transports a direction along the parallels of all places.

frame = cn.MatrixFrame(lambda q: jnp.diag(jnp.stack([jnp.ones(()), 1.0 / jnp.sin(q[0])])), 2, 2)
nabla = cn.LeviCivita(cn.ConstantMetric(frame, np.eye(2)))
day = np.linspace(0.0, 2.0 * np.pi, 25)  # one turn of the Earth, 24 hours

places = {"North Pole*": 0.01, "Paris": 41.15, "Tropic": 66.56, "Equator": 90.0, "Cape Town": 123.93}
colatitude = np.deg2rad(list(places.values()))
parallels = np.stack(np.broadcast_arrays(colatitude[:, None], day), axis=-1)  # (places, hours, 2), at once
z = np.asarray(cn.parallel_transport(nabla, (day, parallels), [1.0, 0.0], day))
turns = np.rad2deg(np.unwrap(np.arctan2(z[..., 1], z[..., 0])))  # from south towards east

print("place           colatitude   turn in a day   2 pi cos(colatitude)   difference   [deg]")
exact = -360.0 * np.cos(colatitude)  # clockwise in the north
for row, (place, degrees) in enumerate(places.items()):
    gap = abs(turns[row, -1] - exact[row])
    print(f"{place:<14}{degrees:12.2f}{turns[row, -1]:16.6f}{exact[row]:23.6f}{gap:13.1e}")
    assert gap < 1e-6
print("* a hundredth of a degree from it: no direction is south at the pole itself")

# %%
# In these coordinates longitudes 0 and 2 pi are two points. Holonomy needs a closed curve, so here is the
# same frame on the sphere in space, where they are one.


def south_east(q):
    """The same frame on the sphere in space, q = (x, y, z), where longitudes 0 and 2 pi are one point."""
    x, y, z = q
    rho = jnp.hypot(x, y)
    return jnp.stack(
        [jnp.stack([z * x / rho, z * y / rho, -rho]), jnp.stack([-y / rho, x / rho, 0 * z])], axis=1
    )


def parallel_60(t):
    return jnp.stack(
        [jnp.sin(np.pi / 3) * jnp.cos(t), jnp.sin(np.pi / 3) * jnp.sin(t), jnp.cos(np.pi / 3) + 0 * t]
    )


sphere = cn.MatrixFrame(south_east, 2, 3, project=lambda q: q / jnp.linalg.norm(q))
P = np.asarray(
    cn.holonomy(cn.LeviCivita(cn.ConstantMetric(sphere, np.eye(2))), parallel_60, 0.0, 2.0 * np.pi)
)
print(f"\nHolonomy at colatitude 60 degrees is the turn by 2 pi cos(60 deg) = pi:\n{P.round(9) + 0.0}")
assert np.abs(P + np.eye(2)).max() < 1e-8

# %%
# The pendulum turns evenly, clockwise in the north and not at all on the equator.

hours = day * 12.0 / np.pi
figure, axes = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
for place, turn in zip(places, turns, strict=True):
    axes.plot(hours, turn, "o-", markersize=3)
    axes.annotate(place.rstrip("*"), (24.0, turn[-1]), xytext=(6, -3), textcoords="offset points")
axes.set(xlabel="time [h]", ylabel="turn against the ground [deg]", xlim=(0, 28.5), xticks=range(0, 25, 6))
axes.set_title("Foucault's pendulum is parallel transport along a parallel")
axes.grid(alpha=0.3)
path = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "foucault.png"
figure.savefig(path, dpi=130)
print(f"\n{path}")
