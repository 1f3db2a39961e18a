"""What acts on a robot besides gravity, as generalized forces: motors, B u, and passive forces.

With the configuration q_s and velocity v_s = G v of all joints (q and v themselves without loops),

    B = G^T B_s + sum J_f^T w,    tau = G^T (-D v_s - R^T k s(L q_s) - f tanh(v_s / w)) + g_lift,

of motors on joints with the ratios B_s, motors on frames with the Jacobian J_f and the wrench w per unit;
dampers D, springs of the stiffness k on the lengths L q_s, whose rates are R v_s and which are slack between
their rest lengths, dry friction f with the speed w, and masses g_lift whose weight is carried. With LG the
derivative of G along the columns,

    dtau_i/dq_j = LG_sji tau_s + G_si (dtau_s/dq_t G_tj + dtau_s/dv_t LG_tjk v^k) + dg_lift,
    dtau/dv = G^T (dtau_s/dv) G.

Source: MuJoCo's documentation, Computation, Passive forces and Actuation model.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ModelError
from connections.geometry.rigid.host_groups import skew
from connections.multibody.definition.frames import frame_jacobian_at, frame_of
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import Tree
from connections.multibody.inertia import BodyInertia
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


class PassiveLaw(NamedTuple):
    """Passive forces of a spanning tree, tau_s = -D v_s - R^T k s(L q_s) - f tanh(v_s / w), as arrays.

    Parameters
    ----------
    D : (nv_s, nv_s) dampers of joints and springs.
    L, R : (k, nq_s) and (k, nv_s) lengths of springs, L q_s, and their rates, R v_s.
    lower, upper, stiffness : (k,) rest lengths and k; s is the stretch beyond them.
    friction, speed : (nv_s,) f, and w, at which friction has 76 % of its size.
    """

    D: np.ndarray
    L: np.ndarray
    R: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    stiffness: np.ndarray
    friction: np.ndarray
    speed: float

    @classmethod
    def of(cls, kinematics: Kinematics) -> PassiveLaw:
        """The law of a tree."""
        passive = kinematics.tree.passive
        springs, own = passive.springs, partial(_slice, kinematics)
        d, friction = np.zeros((2, kinematics.nv))
        for into, given in ((d, passive.damping), (friction, passive.friction)):
            for name, value in given.items():
                into[own(kinematics.v_starts, name)] = value
        L, R = np.zeros((len(springs), kinematics.nq)), np.zeros((len(springs), kinematics.nv))
        for number, spring in enumerate(springs):
            for name, coefficient in spring.joints.items():
                L[number, own(kinematics.q_starts, name)] = coefficient
                R[number, own(kinematics.v_starts, name)] = coefficient
        lower, upper = np.array([spring.rest for spring in springs]).reshape(-1, 2).T
        of_springs = np.array([[spring.stiffness, spring.damping] for spring in springs]).reshape(-1, 2)
        D = np.diag(d) + R.T @ (of_springs[:, 1:] * R)
        speed = passive.friction_speed
        if speed is None:
            friction[:] = 0.0
        return cls(D, L, R, lower, upper, of_springs[:, 0], friction, 1.0 if speed is None else speed)

    def forces(self, q: Any, v: Any, numbers: ModuleType = np) -> Any:
        """tau_s (..., nv_s), by the functions of NumPy or JAX."""
        tau = -v @ self.D
        if len(self.L):
            length = q @ self.L.T
            # Where lower = length = upper, JAX takes half of each slope, so k; of a clip, 3/4 of k.
            stretch = numbers.maximum(length - self.upper, 0.0) + numbers.minimum(length - self.lower, 0.0)
            tau = tau - (self.stiffness * stretch) @ self.R
        if self.friction.any():
            tau = tau - self.friction * numbers.tanh(v / self.speed)
        return tau

    def slopes(self, q: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
        """dtau_s / dq and dtau_s / dv, (..., nv_s, nv_s); at a rest length, half of each side's slope."""
        length = q @ self.L.T
        slack = (np.sign(length - self.lower) - np.sign(length - self.upper)) / 2.0  # 1 between them
        in_q = -np.einsum("ka,...k,kb->...ab", self.R, self.stiffness * (1.0 - slack), self.R)
        in_v = -self.friction / self.speed / np.cosh(np.minimum(np.abs(v / self.speed), 300.0)) ** 2
        return in_q, in_v[..., None] * np.eye(len(self.D)) - self.D


def passive_forces_at(model: Any, q: Any, v: Any) -> jax.Array:
    """The passive force (nv,) of a model at q (nq,) and v (nv,)."""
    kinematics, law, lifted = model.kinematics, model.passive_law, model.lifted
    tau: jax.Array
    if isinstance(kinematics, ClosedKinematics):
        q_s = kinematics.spanning_at(q)
        G = kinematics.G_at(q_s)
        tau = G.T @ law.forces(q_s, G @ v, jnp)
    else:
        tau = law.forces(q, v, jnp)
    return tau if lifted is None else tau + lifted.traced("gravity", q)


def lifted_inertias(tree: Tree) -> np.ndarray | None:
    """Spatial inertias (N, 6, 6) of points with the masses and first moments of the lift; None for none."""
    found = np.zeros((len(tree.body_names), 6, 6))
    for frame, (mass, *moment) in tree.passive.lift.items():
        number, placement = frame_of(tree, frame)
        if number >= 0:
            h = np.array(moment)
            across = skew(h / mass if mass else h)
            point = BodyInertia(mass, h, -mass * across @ across)
            found[number] += point.seen_from(placement[:3, :3], placement[:3, 3]).matrix
    return found if found.any() else None


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
