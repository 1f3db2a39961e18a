"""
A family of Coriolis matrices on a system of your own
=====================================================

An arm of three links on a cart, q = (x, three angles), with a mass matrix written by hand. Its admissible
Coriolis matrices form a family with four numbers beta, one for each triple of velocities. `family.sweep` and
`loop.sweep` compute C, torsion, parallel transport and a tracking error for many members at once. C v, which
is in the dynamics, is the same for all of them. In `explore_a_family.ipynb`, this system has beta on sliders.
Run: python examples/explore_a_family.py [directory]
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import connections as cn
from connections.control import ClosedLoop, PassivityController, trajectory_reference

# %%
# The system: point masses at the ends of three links, on a cart that rolls along x.


def mass_matrix(q, parameters):
    lengths, masses, angles = parameters["lengths"], parameters["masses"], q[1:]
    beyond = jnp.cumsum(masses[::-1])[::-1]  # kg that each link carries
    first, later = jnp.triu_indices(3)
    shared = jnp.zeros((3, 3)).at[first, later].set(beyond[later]).at[later, first].set(beyond[later])
    links = shared * jnp.outer(lengths, lengths) * jnp.cos(angles[:, None] - angles)
    with_cart = -beyond * lengths * jnp.sin(angles)
    cart = jnp.array([[parameters["cart"] + beyond[0]]])
    return jnp.block([[cart, with_cart[None, :]], [with_cart[:, None], links]])


def arm(load):
    parameters = {"lengths": np.array([0.5, 0.4, 0.3]), "masses": np.array([2.0, 1.5, load]), "cart": 4.0}
    return cn.MatrixMetric(cn.CoordinateFrame(4), mass_matrix, parameters)


# %%
# The members: beta of the three angles changes, and the three that involve the cart are zero.

metric = arm(load=1.0)
family = cn.ContorsionFamily(metric)
sizes = np.linspace(-0.6, 0.6, 31)
betas = sizes[:, None] * np.array([0.0, 0.0, 0.0, 1.0])
print(f"{family.dimension} free functions, of the triples {family.triples}")

# %%
# What is computed for all members in one call: the Coriolis matrix, the torsion of the fields of the last two
# angles, and a vector carried along a motion.

q, v = np.array([0.1, 0.6, 0.8, -0.5]), np.array([0.2, 1.0, -0.8, 0.6])
start = np.array([0.0, 0.0, 1.0, 0.0])


def path(t):
    return q + jnp.array([0.2, 0.9, 0.7, 0.8]) * jnp.sin(t)


def quantities(nabla):
    return {
        "C": cn.coriolis_matrix(nabla, q, v),
        "torsion": nabla.torsion(q)[:, 2, 3],
        "carried": cn.parallel_transport(nabla, path, start, np.array([0.0, 2.0]))[-1],
    }


found = family.sweep(betas, quantities)
C, torsion, carried = found["C"], found["torsion"], found["carried"]
bias = C @ v
zero = len(sizes) // 2  # the Levi-Civita connection
H_end = metric.matrix(np.asarray(path(2.0)))
lengths = np.sqrt(np.einsum("mi,ij,mj->m", carried, H_end, carried))
cosines = carried @ H_end @ carried[zero] / (lengths * lengths[zero])
angle = np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0)))


# %%
# Tracking: the law does not know 0.6 kg of the load, and uses the member's C.


def desired(t):
    return q + 0.5 * jnp.sin(2.0 * t + jnp.arange(4.0))


plant, model = (cn.MechanicalSystem(arm(load)) for load in (1.6, 1.0))
reference = trajectory_reference(metric.frame, desired, 2.0)
loop = ClosedLoop(plant, PassivityController(model, 4.0), reference)
times = np.linspace(0.0, 4.0, 81)
motion = loop.sweep(betas, q, np.zeros(4), times, rtol=1e-6)
error = np.sqrt(np.mean(np.sum(motion.error[..., 1:] ** 2, axis=2), axis=1))  # of the angles, rad

# %%
# C v does not differ, nor does the length of the carried vector. All else does.

print(f"C v differs between members by at most {np.abs(bias - bias[zero]).max():.0e} N, N m")
print(f"the length of the carried vector by {np.ptp(lengths) / lengths[zero]:.0e} of it\n")
print("beta_123    C_23    C_32   T^2_23   T^3_23  carried vector turns by  rms error")
print("[kg m^2]     [kg m^2/s]                                   [degrees]      [rad]")
for k in range(0, len(sizes), 5):
    entries = C[k, 2, 3], C[k, 3, 2], torsion[k, 2], torsion[k, 3]
    numbers = "{:7.3f} {:7.3f} {:8.3f} {:8.3f}".format(*entries)
    print(f"{sizes[k]:8.2f} {numbers} {angle[k]:24.2f} {error[k]:10.4f}")

# %%
# C and torsion are affine in beta; what they do to a vector and to a controller is not.

figure = Figure(figsize=(10.0, 7.0), layout="constrained")
FigureCanvasAgg(figure)
panels = figure.subplots(2, 2)
for row, column in ((1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)):
    panels[0, 0].plot(sizes, C[:, row, column], label=f"C_{row}{column}")
for i in range(4):
    panels[0, 1].plot(sizes, torsion[:, i], label=f"T^{i}_23")
panels[1, 0].plot(sizes, angle)
panels[1, 1].plot(sizes, error)
titles = (
    ("Coriolis matrix between angles", "entry [kg m$^2$/s]"),
    ("torsion of the fields of the last two angles", "component [m for T^0, else 1]"),
    ("parallel transport", "turned from Levi-Civita by [deg]"),
    ("tracking", "rms error of the angles [rad]"),
)
for axes, (title, unit) in zip(panels.flat, titles, strict=True):
    axes.set_title(title, fontsize=10)
    axes.set(xlabel="beta_123 [kg m$^2$]", ylabel=unit)
    axes.grid(alpha=0.3)
panels[1, 1].set_ylim(0.0, 1.3 * error.max())
for axes in panels[0]:
    axes.legend(fontsize=8, ncols=2)
directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
figure.savefig(directory / "explore_a_family.png", dpi=130)
