"""Forces on a robot besides gravity, as generalized forces: motors, B u, and passive forces.

With the configuration q_s and velocity v_s = G v of all joints (q and v themselves without loops),

    B = G^T B_s + sum J_f^T w,
    tau = G^T (-D v_s - R^T k s(L q_s) - k log(R_0^T R) - f tanh(v_s / w)) + g_lift,

of motors on joints with the ratios B_s, motors on frames with the Jacobian J_f and the wrench w per unit;
dampers D, springs of the stiffness k on the lengths L q_s, whose rates are R v_s and which are slack between
their rest lengths, springs of spherical joints with the rotations R, dry friction f with the speed w, and
masses g_lift whose weight is carried. With LG the derivative of G along the columns,

    dtau_i/dq_j = LG_sji tau_s + G_si (dtau_s/dq_t G_tj + dtau_s/dv_t LG_tjk v^k) + dg_lift,
    dtau/dv = G^T (dtau_s/dv) G.

Source: MuJoCo's documentation, Computation, Passive forces and Actuation model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ModelError, is_traced
from connections.geometry.rigid import host_groups, rotations
from connections.geometry.rigid.host_groups import skew
from connections.multibody.definition.frames import frame_of
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import Tree
from connections.multibody.inertia import BodyInertia
from connections.multibody.joints.motors import Motor, Passive, Spring
from connections.multibody.loops.closed_kinematics import ClosedKinematics


def motor_matrix_at(model: Any, q: jax.Array) -> jax.Array:
    """B (nv, nu) of a model at q (nq,)."""
    kinematics, motors = model.kinematics, model.motors
    B = jnp.asarray(ratios(_spanning(kinematics), motors))
    if isinstance(kinematics, ClosedKinematics):
        B = kinematics.G_at(kinematics.spanning_at(q)).T @ B
    for number, motor in enumerate(motors):
        if motor.frame is not None:
            J = model.frame_jacobian_at(q, motor.frame, "body")
            B = B.at[:, number].add(J.T @ jnp.asarray(motor.wrench))
    return B


class Turn(NamedTuple):
    """A spring of a spherical joint, with the force E^T (-k log(R_0^T R)).

    Parameters
    ----------
    q : where the joint's quaternion is among the coordinates.
    E : (3, nv_s) that selects the joint's velocity.
    stiffness : k.
    rest : (4,) R_0.
    """

    q: slice
    E: np.ndarray
    stiffness: Any
    rest: Any


class PassiveLaw(NamedTuple):
    """Passive forces of a spanning tree as arrays.

    tau_s = -D v_s - R^T k s(L q_s) - sum E^T k log(R_0^T R) - f tanh(v_s / w).

    Parameters
    ----------
    D : (nv_s, nv_s) dampers of joints and springs.
    L, R : (k, nq_s) and (k, nv_s) lengths of springs, L q_s, and their rates, R v_s.
    lower, upper, stiffness : (k,) rest lengths and k; s is the stretch beyond them.
    friction, speed : (nv_s,) f, and w, at which friction has 76 % of its size.
    turns : springs of spherical joints.
    """

    D: np.ndarray
    L: np.ndarray
    R: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    stiffness: np.ndarray
    friction: np.ndarray
    speed: Any
    turns: tuple[Turn, ...] = ()

    @classmethod
    def of(cls, kinematics: Kinematics, passive: Passive) -> PassiveLaw:
        """The law of a tree, in arrays of JAX if JAX traces a number of `passive`."""
        numbers = _numbers_of(passive)
        springs = [spring for spring in passive.springs if not spring.turns]
        balls = [spring for spring in passive.springs if spring.turns]
        of_q, of_v = (partial(_by_joint, kinematics, starts) for starts in _starts(kinematics))
        none = passive.friction_speed is None
        d, friction = of_v(passive.damping, numbers), of_v({} if none else passive.friction, numbers)
        L = _rows([of_q(spring.joints, numbers) for spring in springs], kinematics.nq, numbers)
        R = _rows([of_v(spring.joints, numbers) for spring in springs], kinematics.nv, numbers)
        lower, upper = _rows([numbers.array(spring.rest) for spring in springs], 2, numbers).T
        each = [numbers.array([spring.stiffness, spring.damping]) for spring in springs]
        k, damping = _rows(each, 2, numbers).T
        for ball in balls:
            d = d + of_v(dict.fromkeys(ball.joints, ball.damping), numbers)
        D = numbers.diag(d) + R.T @ (damping[:, None] * R)
        speed = 1.0 if none else passive.friction_speed
        turns = tuple(_turn(kinematics, ball) for ball in balls)
        return cls(D, L, R, lower, upper, k, friction, speed, turns)

    def forces(self, q: Any, v: Any, numbers: Any = np) -> Any:
        """tau_s (..., nv_s), by the functions of NumPy, of JAX, or on numbers that are recorded."""
        tau = -v @ self.D
        if len(self.L):
            length = q @ self.L.T
            # Where lower = length = upper, JAX takes half of each slope, so k; of a clip, 3/4 of k.
            stretch = numbers.maximum(length - self.upper, 0.0) + numbers.minimum(length - self.lower, 0.0)
            tau = tau - (self.stiffness * stretch) @ self.R
        for turn in self.turns:
            turned = _rotations(numbers).rotation_difference(turn.rest, q[..., turn.q])
            tau = tau - (turn.stiffness * turned) @ turn.E
        if is_traced(self.friction) or self.friction.any():
            tau = tau - self.friction * numbers.tanh(v / self.speed)
        return tau

    def slopes(self, q: Any, v: Any, numbers: Any = np) -> tuple[Any, Any]:
        """dtau_s / dq and dtau_s / dv, (..., nv_s, nv_s); at a rest length, half of each side's slope."""
        length = q @ self.L.T
        slack = (numbers.sign(length - self.lower) - numbers.sign(length - self.upper)) / 2.0  # 1 in between
        in_q = -(self.R.T * (self.stiffness * (1.0 - slack))[..., None, :]) @ self.R
        for turn in self.turns:
            slope = _rotations(numbers).rotation_difference_slope(turn.rest, q[..., turn.q])
            in_q = in_q - turn.stiffness * (turn.E.T @ slope @ turn.E)
        share = numbers.tanh(v / self.speed)
        in_v = self.friction / self.speed * (share * share - 1.0)
        return in_q, in_v[..., None] * np.eye(len(self.D)) - self.D


def _turn(kinematics: Kinematics, spring: Spring) -> Turn:
    number = kinematics.joint_names.index(next(iter(spring.joints)))
    (first, end), at = (starts[number : number + 2] for starts in _starts(kinematics))
    E = np.zeros((3, kinematics.nv))
    E[[0, 1, 2], at[0] + np.arange(3)] = 1.0
    return Turn(slice(int(first), int(end)), E, spring.stiffness, spring.rest)


def passive_forces_at(model: Any, q: Any, v: Any) -> jax.Array:
    """The passive force (nv,) of a model at q (nq,) and v (nv,)."""
    kinematics, law = model.kinematics, model.passive_law
    tau: jax.Array
    if isinstance(kinematics, ClosedKinematics):
        q_s = kinematics.spanning_at(q)
        G = kinematics.G_at(q_s)
        tau = G.T @ law.forces(q_s, G @ v, jnp)
    else:
        tau = law.forces(q, v, jnp)
    lift = model.lift_at(q)
    return tau if lift is None else tau + lift


def lifted_parameters(tree: Tree, passive: Passive) -> jax.Array | None:
    """Masses and first moments of the lift by body, (N, 10), in arrays of JAX; None for none.

    The inertias of these points are zero: they have no weight.
    """
    found, any_moves = jnp.zeros((len(tree.body_names), 10)), False
    for frame, given in passive.lift.items():
        number, placement = frame_of(tree, frame)
        if number >= 0:
            m, h = given[0], jnp.asarray(given[1:])
            moment = jnp.asarray(placement[:3, :3]) @ h + m * placement[:3, 3]
            found = found.at[number, :4].add(jnp.concatenate([jnp.asarray(m)[None], moment]))
            any_moves = True
    return found if any_moves else None


def lifted_inertias(tree: Tree) -> np.ndarray | None:
    """Spatial inertias (N, 6, 6), kg m^2, kg m, kg, of a point for the lift of each body; None for none."""
    rows = lifted_parameters(tree, tree.passive)
    if rows is None:
        return None
    found = []
    for m, *moment in np.asarray(rows)[:, :4]:
        h = np.array(moment)
        across = skew(h / m if m else h)
        found.append(BodyInertia(m, h, -m * across @ across).matrix)
    return np.stack(found)


def ratios(kinematics: Kinematics, motors: Sequence[Motor]) -> Any:
    """B_s (nv_s, nu) of the motors on joints, in an array of JAX if JAX traces a number of theirs."""
    numbers = _numbers_of(tuple(motors))
    rows = [_by_joint(kinematics, kinematics.v_starts, motor.joints, numbers) for motor in motors]
    return _rows(rows, kinematics.nv, numbers).T


def require_whole(kinematics: Kinematics | ClosedKinematics) -> None:
    """Raise `ModelError` if the description has passive forces that are not computed."""
    require_left_out_nothing(kinematics.tree.passive)


def require_left_out_nothing(passive: Passive) -> None:
    """Raise `ModelError` if there are passive forces that are not computed."""
    left_out = passive.left_out
    if left_out:
        more = f", and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        raise ModelError(
            f"passive_forces: the file has others, which are not computed: {left_out[0]}{more}. Write\n"
            "model = model.with_passive(dataclasses.replace(model.passive, left_out=()))\n"
            "to go without them; model.passive.left_out lists them"
        )


def _spanning(kinematics: Kinematics | ClosedKinematics) -> Kinematics:
    return kinematics.spanning if isinstance(kinematics, ClosedKinematics) else kinematics


def _rotations(numbers: Any) -> Any:
    """Functions of rotations for arrays of NumPy or JAX, or for numbers that are recorded."""
    return host_groups if numbers is np else rotations if numbers is jnp else numbers


def _numbers_of(given: Any) -> Any:
    """The functions of JAX, if it traces a number of what is given, or of NumPy."""
    return jnp if is_traced(given) else np


def _starts(kinematics: Kinematics) -> tuple[np.ndarray, np.ndarray]:
    return kinematics.q_starts, kinematics.v_starts


def _by_joint(kinematics: Kinematics, starts: np.ndarray, given: Mapping[str, Any], numbers: Any) -> Any:
    """{joint: a number, or one for each component} as a vector (starts[-1],), zero for other joints."""
    sizes = np.diff(starts).tolist()
    parts = [
        numbers.broadcast_to(given.get(name, 0.0), (size,))
        for name, size in zip(kinematics.joint_names, sizes, strict=True)
    ]
    return numbers.concatenate(parts)


def _rows(rows: list[Any], size: int, numbers: Any) -> Any:
    """Vectors (size,) as the rows of a matrix (k, size)."""
    return numbers.stack(rows) if rows else numbers.zeros((0, size))
