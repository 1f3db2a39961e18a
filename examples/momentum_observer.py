"""A momentum observer feels a push that no sensor measures, and does not care which admissible C it uses.

A rigid body turns about a fixed point. Before the push the residual is zero; from then on it reaches the
push with time constant 1/K. C^T v is the same for every connection of the family (12) ([W] II).
"""

import jax.numpy as jnp
import numpy as np

import connections as cn
from connections.control import MomentumObserver

metric = cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 1.6, 2.1]))
model = cn.MechanicalSystem(metric)
push = jnp.array([0.3, 0.0, -0.2])  # N m, from t = 1 s on
plant = cn.MechanicalSystem(metric, forces=lambda t, q, v: jnp.where(t < 1.0, 0.0, push))

times = np.linspace(0.0, 2.5, 11)
start, spin = [0.0, 0.0, 0.0, 1.0], [1.0, -0.5, 2.0]
family = cn.ContorsionFamily(metric)
motions = [
    MomentumObserver(model, 5.0, family.connection([beta])).simulate(plant, start, spin, times)
    for beta in (0.0, 3.0)
]

print("time [s]   estimate of the push [N m]")
for t, r in zip(times, np.asarray(motions[0].residual), strict=True):
    print(f"{t:8.2f}   " + "  ".join(f"{x:8.5f}" for x in r))
gap = np.max(np.abs(motions[0].residual - motions[1].residual))
print(f"largest difference between the estimates with C* and with C* + 3 (v x): {gap:.1e} N m")
