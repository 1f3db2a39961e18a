"""Adaptive tracking on the rotation group: the inertia is unknown, the attitude is followed all the same.

The six entries of the inertia enter H and C linearly, so tau = Y pihat - K_D s with pihat_dot = -P Y^T s
never raises V = (1/2) s^T H s + (1/2) pi~^T P^-1 pi~ (Slotine and Li; [W] IV-A).
"""

import jax.numpy as jnp
import numpy as np

import connections as cn
from connections.control import (
    AdaptiveController,
    AdaptiveLoop,
    LinearlyParametrizedSystem,
    trajectory_reference,
)

frame = cn.SO3Frame()
entries = jnp.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])


def spinning_body(pi):
    return cn.MechanicalSystem(cn.ConstantMetric(frame, pi[entries]))


def attitude(t):
    """Nodding and turning, as a unit quaternion (x, y, z, w)."""
    nod, turn = 0.3 * jnp.sin(t), 0.4 * t
    return jnp.stack(
        [
            jnp.sin(nod) * jnp.cos(turn),
            jnp.sin(nod) * jnp.sin(turn),
            jnp.cos(nod) * jnp.sin(turn),
            jnp.cos(nod) * jnp.cos(turn),
        ]
    )


true = np.array([1.0, 0.1, 0.0, 1.6, 0.2, 2.1])
guess = np.array([1.5, 0.0, 0.0, 1.5, 0.0, 1.5])
family = LinearlyParametrizedSystem(spinning_body, guess)
controller = AdaptiveController(family, gain=2.0, adaptation=1.0)
loop = AdaptiveLoop(controller, true, trajectory_reference(frame, attitude, 1.0))
motion = loop.simulate([0.0, 0.6, 0.0, 0.8], [0.0, 0.0, 0.0], guess, np.linspace(0.0, 20.0, 201))

print("time [s]   |s| [rad/s]      V [J]")
for k in range(0, 201, 20):
    s, V = np.linalg.norm(motion.s[k]), motion.lyapunov[k]
    print(f"{motion.times[k]:8.1f}   {s:11.2e}   {V:.6f}")
print("V never rises:", bool((np.diff(motion.lyapunov) <= 1e-9 * motion.lyapunov[0]).all()))
