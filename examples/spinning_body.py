"""
A spinning body flips over: geodesics on SO(3)
==============================================

A free rigid body (Euler's top) follows the geodesics of its left-invariant metric on SO(3). Energy and the
angular momentum in space are kept, and so is the norm of the quaternion.
Run: python examples/spinning_body.py [directory]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.transform import Rotation

import connections as cn

# %%
# Three motions at once: about each axis of inertia, very slightly disturbed.

inertia = np.diag([1.0, 2.0, 3.0])  # kg m^2
body = cn.MechanicalSystem(cn.ConstantMetric(cn.SO3Frame(), inertia))
times = np.linspace(0.0, 40.0, 801)  # s
axes_of_inertia = ("smallest", "middle", "largest")
spins = 2.0 * np.eye(3) + 1e-3 * (1.0 - np.eye(3))  # rad/s
q, w = body.simulate([0.0, 0.0, 0.0, 1.0], spins, times)

# %%
# Only the body that turns about its middle axis flips over. What a solver must keep is kept.

energy = np.asarray(body.energy(q, w))
momentum = np.stack([Rotation.from_quat(q[k]).apply(w[k] @ inertia) for k in range(3)])  # in space
wobble = np.stack([w[k, :, k] for k in range(3)])

print("spin about   flips   energy changes by   momentum changes by     |q| - 1   (relative)")
for k, name in enumerate(axes_of_inertia):
    flips = int(np.sum(np.diff(np.sign(wobble[k])) != 0))
    drift = np.ptp(energy[k]) / energy[k, 0]
    turn = np.linalg.norm(momentum[k] - momentum[k, 0], axis=1).max() / np.linalg.norm(momentum[k, 0])
    norm = np.abs(np.linalg.norm(q[k], axis=1) - 1.0).max()
    print(f"{name:<10}{flips:8d}{drift:20.1e}{turn:22.1e}{norm:14.1e}")
    assert (flips > 0) == (name == "middle") and max(drift, turn) < 1e-7 and norm < 1e-12

# %%
# Seen in the body, the spin changes its sign at every flip.

figure, axes = plt.subplots(figsize=(7.5, 4.0), layout="constrained")
for k, color in zip((0, 2, 1), ("#8a8a8a", "#1f5fbf", "#c8102e"), strict=True):
    axes.plot(
        times, wobble[k], color=color, linewidth=2.0, label=f"started about the {axes_of_inertia[k]} axis"
    )
axes.lines[1].set_linestyle("--")
axes.set(xlabel="time [s]", ylabel="spin about the starting axis [rad/s]", ylim=(-2.4, 3.2))
axes.set_title("The middle axis of inertia is unstable")
axes.legend(loc="upper right", ncols=2)
axes.grid(alpha=0.3)
path = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "spinning_body.png"
figure.savefig(path, dpi=130)
print(path)
