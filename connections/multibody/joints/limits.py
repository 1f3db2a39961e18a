"""Limits of joints of a description, for users, `inverse_kinematics` and `WholeBodyController`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from connections._shown import Shown
from connections._words import words_of
from connections.checks import ModelError, ShapeError, as_array, require_text, require_type
from connections.multibody.joints.groups import Free, Spherical
from connections.multibody.joints.joint import Joint

_SERIES = "a free joint with bounds is three mb.Prismatic joints and an mb.Spherical one in series"


class LimitsWarning(Shown, UserWarning):
    """A file has a joint whose lower limit is above the upper one; only laws that read limits refuse it.

    Examples
    --------
    >>> import warnings
    >>> from connections import multibody as mb
    >>> text = '''<robot name="door"><link name="frame"/>
    ...   <link name="leaf"><inertial><mass value="9"/>
    ...     <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
    ...   <joint name="hinge" type="revolute"><parent link="frame"/><child link="leaf"/>
    ...     <axis xyz="0 0 1"/><limit lower="1" upper="-1" effort="1" velocity="1"/></joint>
    ... </robot>'''
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", mb.joints.LimitsWarning)
    ...     mb.from_urdf(text)
    ...
    Traceback (most recent call last):
        ...
    connections.multibody.joints.limits.LimitsWarning: the text: joint 'hinge': limits: lower is above
    upper (1 > -1)
    """


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits of a joint, or of all joints of a model; infinite where there is none.

    Parameters
    ----------
    lower, upper : (nq,) of the coordinates, rad and m. Ball joints and free ones have none; a body that may
        move freely within limits of its position is on three `Prismatic` joints and a `Spherical` one.
    velocity : (nv,) largest size of each velocity component, rad/s and m/s.
    effort : (nv,) largest size of each generalized force, N m and N.
    angle : of a ball joint, the largest angle by which it may turn away from the identity, rad, positive; of
        a model (number of joints,), infinite for joints of other types. From pi on there is no limit.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> mb.example("arm").limits.upper
    array([3.1, 2. , 2.6, 3.1, 2. , 3.1])
    >>> elbow = mb.joints.Limits(lower=-2.5, upper=0.0, effort=40.0)
    >>> elbow.lower, elbow.velocity
    (-2.5, inf)
    """

    lower: Any = -np.inf
    upper: Any = np.inf
    velocity: Any = np.inf
    effort: Any = np.inf
    angle: Any = np.inf

    def __post_init__(self) -> None:
        for field in fields(self):  # NaN is refused with the joint's name
            value = getattr(self, field.name)
            if type(value) is not float:
                as_array(field.name, value, ())

    def for_joint(self, name: str, joint: Joint) -> Limits:
        """The limits as arrays of the joint's sizes.

        Raises
        ------
        ModelError : a limit is not a number for each coordinate or component or for all of them, is NaN or
            negative, or bounds what joints of this type do not have; the message names the joint.
        """
        require_text("name", name)
        require_type("joint", joint, Joint)
        sizes = {"lower": joint.nq, "upper": joint.nq, "velocity": joint.nv, "effort": joint.nv, "angle": 1}
        found = {}
        for field, size in sizes.items():
            value = getattr(self, field)
            if type(value) is float:
                found[field] = np.full(size, value)
                found[field].flags.writeable = False  # as broadcast arrays
                continue
            try:
                given = np.asarray(as_array(field, value, ()), dtype=np.float64)
                if given.shape not in ((), (size,)):
                    raise ShapeError(field, (size,), given.shape)
            except (TypeError, ValueError) as error:
                raise ModelError(f"joint '{name}': limits: {error}") from error
            found[field] = np.broadcast_to(given, (size,))
        if np.isnan(np.concatenate([*found.values()])).any():
            raise ModelError(f"joint '{name}': limits: one of them is not a number")
        for field in ("velocity", "effort"):
            if (found[field] < 0.0).any():
                raise ModelError(f"joint '{name}': limits: {field} is negative")
        _require_used(name, joint, found)
        return Limits(**found)

    def disorder(self) -> str:
        """A sentence if a lower limit is above the upper one, else an empty text."""
        lower, upper = np.broadcast_arrays(self.lower, self.upper)
        wrong = np.flatnonzero(lower > upper)
        if not wrong.size:
            return ""
        first = wrong[0]
        return f"limits: lower is above upper ({lower.flat[first]:.6g} > {upper.flat[first]:.6g})"

    @classmethod
    def of(cls, limits: Sequence[Limits]) -> Limits:
        """The limits of several joints, one after the other; read-only."""
        if not isinstance(limits, list | tuple):
            raise TypeError(f"limits: expected a list of Limits, got {words_of(limits)}")
        for number, limit in enumerate(limits):
            require_type(f"limits[{number}]", limit, Limits)
        found = {}
        for field in fields(cls):
            found[field.name] = np.concatenate([getattr(limit, field.name) for limit in limits])
            found[field.name].flags.writeable = False
        return cls(**found)


def _require_used(name: str, joint: Joint, limits: dict[str, np.ndarray]) -> None:
    """Raise `ModelError` for limits that a joint of this type has not, so that none is without effect."""
    ball, quaternion = isinstance(joint, Spherical), isinstance(joint, Spherical | Free)
    if quaternion and np.isfinite([limits["lower"], limits["upper"]]).any():
        way = "write Limits(angle=...), the largest angle of its turn" if ball else _SERIES
        raise ModelError(f"joint '{name}': limits: the coordinates of its quaternion have no bounds; {way}")
    if np.isfinite(limits["angle"]).any() and not ball:
        way = _SERIES if quaternion else "write lower and upper"
        raise ModelError(f"joint '{name}': limits: angle is of ball joints, mb.Spherical(); {way}")
    if not (limits["angle"] > 0.0).all():
        raise ModelError(f"joint '{name}': limits: angle: expected a positive one; mb.Fixed() does not turn")
