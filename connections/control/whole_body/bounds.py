"""Bounds of the whole-body law: friction of the contacts, torques of the motors, and limits of the joints.

All bounds are of values that are affine in the unknowns: G_f f >= 0, tau between -limit and limit, and
accelerations of joints, so that they stop before their limits,

    vdot <= (q_max - q) / T^2 - 2 v / T,      vdot <= (v_max - v) / T,

and the same from below. The first keeps q <= q_max from every state with v T <= q_max - q, because then
x = q_max - q - v T has xdot >= -x / T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from connections.checks import ModelError, ShapeError, as_array, as_number, require_names
from connections.control.contacts import Contacts
from connections.control.whole_body.tasks import slots
from connections.multibody import Free
from connections.multibody.graph import no_joint
from connections.multibody.joints import Limits
from connections.multibody.model import Model


@dataclass(frozen=True, eq=False)
class Bounds:
    """Which values are bounded: forces of contacts, torques `motors`, accelerations `joints`."""

    labels: tuple[str, ...]  #: of the values
    others: np.ndarray  #: indices of velocities without motors
    cone: np.ndarray  #: (k, rows) of the contacts' forces, G f >= 0
    motors: np.ndarray  #: indices of velocities whose torque has a finite limit
    joints: np.ndarray  #: indices in v of joints with limits
    places: np.ndarray  #: their indices in q
    limits: np.ndarray  #: (3, k) of the joints: least and largest q, largest |v|
    time: float  #: T, s
    lower: np.ndarray  #: of the values, without those of joints
    upper: np.ndarray

    def values(self, tau: np.ndarray, forces: np.ndarray, acceleration: np.ndarray) -> np.ndarray:
        """The bounded values, (k,)."""
        return np.concatenate([self.cone @ forces, tau[self.motors], acceleration[self.joints]])

    def names(self, values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> str:
        """The bounds that values do not keep."""
        broken = np.flatnonzero(~((values >= lower) & (values <= upper)))
        return ", ".join(dict.fromkeys(self.labels[k] for k in broken))


def bounds_of(
    model: Model,
    contacts: Contacts,
    actuated: Sequence[str] | None,
    torque_limits: Any,
    limit_time: float | None,
) -> Bounds:
    """The bounds of a robot; the arguments are those of `WholeBodyController`."""
    names = _actuated(model, actuated)
    motors = slots(model.velocity_slice, names)
    torques = (
        model.limits.effort[motors] if torque_limits is None else _torque_limits(torque_limits, len(motors))
    )
    finite = np.isfinite(torques)
    at_q, at_v, limits, time = _joint_limits(model, limit_time)
    of_velocity = np.repeat(
        model.joint_names,
        [model.velocity_slice(name).stop - model.velocity_slice(name).start for name in model.joint_names],
    )
    labels = [
        f"the friction of '{contact.frame}'"
        for contact in contacts.contacts
        for _ in range(len(contact.cone))
    ]
    labels += [f"the torque of '{of_velocity[k]}'" for k in motors[finite]]
    labels += [f"the limits of '{of_velocity[k]}'" for k in at_v]
    others = np.setdiff1d(np.arange(model.nv), motors)
    own, wide = torques[finite], np.full(len(at_v), np.inf)
    lower = np.concatenate([np.zeros(len(contacts.cone)), -own, -wide])
    upper = np.concatenate([np.full(len(contacts.cone), np.inf), own, wide])
    cone = np.array(contacts.cone)
    return Bounds(tuple(labels), others, cone, motors[finite], at_v, at_q, limits, time, lower, upper)


def _actuated(model: Model, actuated: Sequence[str] | None) -> tuple[str, ...]:
    if actuated is None:
        floating = isinstance(model.kinematics.joints[0], Free)
        return tuple(model.joint_names[floating:])
    names = require_names("actuated", actuated)
    for name in names:
        if name not in model.joint_names:
            raise ModelError(f"actuated: {no_joint(model.kinematics.tree, name, model.joint_names)}")
    if len(set(names)) < len(names):
        raise ModelError("actuated: a joint is named twice")
    return names


def _torque_limits(given: Any, size: int) -> np.ndarray:
    limits = np.asarray(as_array("torque_limits", given, ()), dtype=float)
    if limits.shape not in ((), (size,)):
        raise ShapeError("torque_limits", f"() or ({size},)", limits.shape)
    if not (limits > 0.0).all():
        raise ValueError("torque_limits must be positive; infinite ones are none")
    return np.array(np.broadcast_to(limits, (size,)))


def _joint_limits(model: Model, limit_time: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Indices in q and v of velocity components that have limits, (3, k) limits, and T."""
    time = np.inf if limit_time is None else as_number("limit_time", limit_time)
    if not time > 0.0:
        raise ValueError(f"limit_time must be positive, got {time:g}")
    at_q, at_v = _coordinates(model).T
    free = at_q < 0  # of quaternions, whose joints have limits of velocities alone
    at_q = np.where(free, 0, at_q)
    lower, upper = (
        np.where(free, -np.inf, model.limits.lower[at_q]),
        np.where(free, np.inf, model.limits.upper[at_q]),
    )
    limits = np.stack([lower, upper, model.limits.velocity[at_v]])
    limited = np.isfinite(limits).any(axis=0) & (limit_time is not None)
    if limit_time is not None:
        _require_independent(model)
    for name in model.joint_names if limit_time is not None else ():
        at = model.configuration_slice(name)
        disorder = Limits(model.limits.lower[at], model.limits.upper[at]).disorder()
        if disorder:
            raise ModelError(f"joint '{name}': {disorder}; give no limit_time, or correct the file")
        angle = model.limits.angle[model.joint_names.index(name)]
        if angle < np.pi:
            raise ModelError(
                f"joint '{name}': the law cannot keep its largest angle, {angle:.3g} rad; give "
                "limit_time=None, which leaves out all limits of joints"
            )
    return at_q[limited], at_v[limited], np.ascontiguousarray(limits[:, limited]), time


def _coordinates(model: Model) -> np.ndarray:
    """(nv, 2) of each velocity component: the index of its coordinate, -1 of quaternions, and its own."""
    found = np.full((model.nv, 2), -1)
    found[:, 1] = np.arange(model.nv)
    for element in model.kinematics.elements:
        if element.joint.quaternion is None:
            found[element.v, 0] = np.arange(element.q.start, element.q.stop)
    return found


def _require_independent(model: Model) -> None:
    """Raise `ModelError` if a joint that loops determine has limits, which the law would not keep."""
    tree = model.kinematics.tree
    for name, limits in zip(tree.joint_names, tree.limits, strict=True):
        sizes = limits.lower, limits.upper, limits.velocity
        bounded = any(np.isfinite(each).any() for each in sizes) or (limits.angle < np.pi).any()
        if name not in model.joint_names and bounded:
            raise ModelError(
                f"joint '{name}': the law cannot keep its limits, because loops or couplings determine it; "
                "give limit_time=None, which leaves out all limits of joints"
            )
