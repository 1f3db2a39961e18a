"""What acts on a robot besides gravity, as generalized forces: motors, B u, and springs and dampers.

With the configuration q_s and velocity v_s = G v of all joints (q and v themselves without loops),

    B = G^T B_s + sum J_f^T w,    tau = G^T (-d v_s - sum_k a_k (k_k stretch_k + d_k a_k . v_s)),

of motors on joints with the ratios B_s, motors on frames with the Jacobian J_f and the wrench w per unit, and
springs on the lengths a . q_s, which are slack between their rest lengths.
Source: MuJoCo's documentation, Computation, Passive forces and Actuation model.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ModelError
from connections.multibody.definition.frames import frame_jacobian_at
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.loops.closed_kinematics import ClosedKinematics


def motor_matrix_at(kinematics: Kinematics | ClosedKinematics, q: jax.Array) -> jax.Array:
    """B (nv, nu) at q (nq,)."""
    tree = kinematics.tree
    B = jnp.asarray(ratios(_spanning(kinematics)))
    if isinstance(kinematics, ClosedKinematics):
        B = kinematics.G_at(kinematics.spanning_at(q)).T @ B
    for number, motor in enumerate(tree.motors):
        if motor.frame is not None:
            J = frame_jacobian_at(kinematics, q, motor.frame, "body")
            B = B.at[:, number].add(J.T @ jnp.asarray(motor.wrench))
    return B


def passive_forces_at(kinematics: Kinematics | ClosedKinematics, q: jax.Array, v: jax.Array) -> jax.Array:
    """The generalized force (nv,) of springs and dampers at q (nq,) and v (nv,)."""
    tau: jax.Array
    if isinstance(kinematics, ClosedKinematics):
        q_s = kinematics.spanning_at(q)
        G = kinematics.G_at(q_s)
        tau = G.T @ passive_on_tree(kinematics.spanning, q_s, G @ v, jnp)
    else:
        tau = passive_on_tree(kinematics, q, v, jnp)
    return tau


def passive_on_tree(kinematics: Kinematics, q: Any, v: Any, numbers: ModuleType = np) -> Any:
    """The same for a tree, by the functions of NumPy or JAX."""
    passive = kinematics.tree.passive
    d = np.zeros(kinematics.nv)
    for name, value in passive.damping.items():
        d[_slice(kinematics, kinematics.v_starts, name)] = value
    tau = -d * v
    if passive.springs:
        springs = passive.springs
        lengths, rates = np.zeros((len(springs), kinematics.nq)), np.zeros((len(springs), kinematics.nv))
        for number, spring in enumerate(springs):
            for name, coefficient in spring.joints.items():
                lengths[number, _slice(kinematics, kinematics.q_starts, name)] = coefficient
                rates[number, _slice(kinematics, kinematics.v_starts, name)] = coefficient
        lower, upper = np.array([spring.rest for spring in springs]).T
        k = np.array([spring.stiffness for spring in springs])
        length = lengths @ q
        # Where lower = length = upper, JAX takes half of each slope, so k; of a clip, 3/4 of k.
        tension = k * (numbers.maximum(length - upper, 0.0) + numbers.minimum(length - lower, 0.0))
        tension = tension + np.array([spring.damping for spring in springs]) * (rates @ v)
        tau = tau - rates.T @ tension
    return tau


def ratios(kinematics: Kinematics) -> np.ndarray:
    """B_s (nv_s, nu) of the motors on joints."""
    motors = kinematics.tree.motors
    B = np.zeros((kinematics.nv, len(motors)))
    for number, motor in enumerate(motors):
        for name, ratio in motor.joints.items():
            B[_slice(kinematics, kinematics.v_starts, name), number] = ratio
    return B


def require_whole(kinematics: Kinematics | ClosedKinematics) -> None:
    """Raise `ModelError` if the description has passive forces that are not computed."""
    left_out = kinematics.tree.passive.left_out
    if left_out:
        more = f", and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        raise ModelError(
            f"passive_forces: the file has others, which are not computed: {left_out[0]}{more}. Write\n"
            "model = model.with_passive(dataclasses.replace(model.passive, left_out=()))\n"
            "to go without them; model.passive.left_out lists them"
        )


def _spanning(kinematics: Kinematics | ClosedKinematics) -> Kinematics:
    return kinematics.spanning if isinstance(kinematics, ClosedKinematics) else kinematics


def _slice(kinematics: Kinematics, starts: np.ndarray, joint: str) -> slice:
    number = kinematics.tree.joint_names.index(joint)
    return slice(int(starts[number]), int(starts[number + 1]))
