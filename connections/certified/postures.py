"""`Postures`: the box of joint coordinates over which constants hold, and what a robot may not have there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from connections._shown import shown
from connections.checks import ModelError, as_array, require_type
from connections.multibody import Model
from connections.multibody.definition.kinematics import Kinematics

TURN = float(np.nextafter(np.pi, 4.0))  # rad; from -TURN to TURN is a whole turn, and not less


@dataclass(frozen=True, eq=False)
class Postures:
    """A box of the coordinates of a robot's joints; the pose of a base that floats is not among them.

    Parameters
    ----------
    robot : the model; its coordinates with v = qdot are those of the box, in their order.
    places : (m,) where they lie in q.
    components : (m,) which components of v are their rates.
    slides : (m,) whether a coordinate is a length, m, not an angle, rad.
    lower, upper : (m,) the ends. Slides without limits have infinite ones; a whole turn is -TURN to TURN.
    limits : (m,) and (m,) the lower and upper limits that were given, which a whole turn may lie outside.
    """

    robot: Model
    places: np.ndarray
    components: np.ndarray
    slides: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    limits: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, robot: Model, limits: Any = None) -> Postures:
        """The postures within limits.

        Parameters
        ----------
        robot : a tree without loops or couplings; only its first joint may be a ball joint or free.
        limits : {joint: (lower, upper)}, rad and m, or (lower, upper), (nq,) each. Joints that are not named
            have the model's own limits; an angle makes whole turns if these are a turn or more apart.

        Raises
        ------
        ModelError : loops, a helical joint, a ball joint or a free one that another joint carries; reversed
            limits. The message names the joint. TypeError, ShapeError, NonFiniteError : of the arguments.
        """
        require_type("robot", robot, Model)
        _require_tree(robot)
        lower, upper = _limits(robot, limits)
        single = [e for e in robot.kinematics.elements if e.joint.quaternion is None]
        places = np.array([e.q.start for e in single], dtype=np.intp)
        slides = np.array([not e.joint.is_angle for e in single], dtype=bool)
        lower, upper = lower[places], upper[places]
        for element, low, high in zip(single, lower, upper, strict=True):
            if low > high or low == np.inf or high == -np.inf:
                ends = f"lower is above upper ({low:g} > {high:g})" if low > high else f"both are {low:g}"
                raise ModelError(f"limits: joint {shown(repr(element.name))}: {ends}")
        whole = ~slides & ~(np.isfinite(lower) & np.isfinite(upper) & (upper - lower < 2.0 * np.pi))
        box = np.where(whole, -TURN, lower), np.where(whole, TURN, upper)
        components = np.array([e.v.start for e in single], dtype=np.intp)
        return cls(robot, places, components, slides, *box, (lower, upper))

    @property
    def kinematics(self) -> Kinematics:
        """The kinematics of the tree."""
        kinematics = self.robot.kinematics
        assert isinstance(kinematics, Kinematics)  # `of` refuses loops
        return kinematics

    def held(self, moving: np.ndarray) -> Postures:
        """The box in which some coordinates, (m,), move; the others are in the middle, at an end, or 0."""
        low, high = (np.where(np.isfinite(end), end, 0.0) for end in (self.lower, self.upper))
        middle = np.where(np.isfinite(self.upper - self.lower), (low + high) / 2.0, low + high)
        ends = [np.where(moving, end, middle) for end in (self.lower, self.upper)]
        return replace(self, lower=ends[0], upper=ends[1])

    @property
    def whole(self) -> np.ndarray:
        """(m,) whether a coordinate makes whole turns."""
        return np.asarray(~self.slides & (self.lower == -TURN) & (self.upper == TURN))

    def configurations(self, points: np.ndarray) -> np.ndarray:
        """q (P, nq) of points (P, m) of the box; a base that floats is neutral."""
        q = np.repeat(self.robot.neutral()[None], len(points), axis=0)
        q[:, self.places] = points
        return q

    def within_limits(self, point: np.ndarray) -> np.ndarray:
        """q (nq,) of a point (m,) of the box, its angles moved by whole turns into the limits given."""
        low, high = self.limits
        up, down = (np.ceil(np.maximum(far, 0.0) / (2.0 * np.pi)) for far in (low - point, point - high))
        moved = np.clip(point + 2.0 * np.pi * (up - down), low, high)  # round-off only
        return np.asarray(self.configurations(moved[None])[0])

    def turned(self, q: np.ndarray, root: int, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """q (nq,) with the ball or free joint of a root turned, by a rotation that carries one into other.

        Parameters
        ----------
        q : neutral in this joint.
        root : the body that it moves.
        one, other : (3,) directions in the world, of any length; q stays as it is where one has none.
        """
        one, other = (self.kinematics.placements[root][:3, :3].T @ way for way in (one, other))
        sizes = np.linalg.norm(one), np.linalg.norm(other)
        if not min(sizes) > 0.0:
            return q
        one, other = one / sizes[0], other / sizes[1]
        turn = Rotation.identity()
        if one @ other < 0.0:  # half a turn first, about a normal of one: the rest is less than a right angle
            normal = np.cross(one, np.eye(3)[np.argmin(np.abs(one))])
            one, turn = -one, Rotation.from_quat([*normal, 0.0])
        turn = Rotation.from_quat([*np.cross(one, other), 1.0 + one @ other]) * turn
        first, q = self.kinematics.chains[root][0], q.copy()
        at = first.q.start + first.joint.quaternion
        q[at : at + 4] = turn.as_quat()
        return q


def _require_tree(robot: Model) -> None:
    if robot.closed:
        raise ModelError(
            "a robot with loops or coupled joints has no certified constants: its matrices are no "
            "polynomials in sines and cosines of independent angles"
        )
    starts = {element.v.start for element in robot.kinematics.elements}
    parents, firsts = robot.kinematics.tree.parents, robot.kinematics.v_starts
    for element in robot.kinematics.elements:
        name = f"joint {shown(repr(element.name))}"
        if element.joint.quaternion is not None:
            body = int(np.searchsorted(firsts, element.v.start, side="right")) - 1
            if parents[body] >= 0 or element.v.start != firsts[body] or not starts:
                raise ModelError(f"{name} is no first joint: bounds over its rotations are not known")
        elif element.joint.pitch_of_link:
            raise ModelError(f"{name} is helical: what it moves is no polynomial of one angle")


def _limits(robot: Model, limits: Any) -> tuple[np.ndarray, np.ndarray]:
    """(nq,) and (nq,) the ends of all coordinates."""
    own = robot.limits
    lower, upper = np.array(own.lower, dtype=float), np.array(own.upper, dtype=float)
    if limits is None:
        return lower, upper
    if isinstance(limits, Mapping):
        for name, pair in limits.items():
            at = robot.configuration_slice(name)
            lower[at], upper[at] = _pair(f"limits[{shown(repr(name))}]", pair, at.stop - at.start)
        return lower, upper
    return _pair("limits", limits, robot.nq)


def _pair(name: str, pair: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends (count,); infinite ones are accepted, NaN is not."""
    ends = []
    if isinstance(pair, str) or not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
        raise TypeError(f"{name}: expected a pair (lower, upper)")
    for what, end in zip(("lower", "upper"), pair, strict=True):
        array = np.asarray(as_array(f"{name}: {what}", end, ()))
        if array.shape not in ((), (count,)):
            as_array(f"{name}: {what}", end, (count,))
        if np.isnan(array).any():
            raise ModelError(f"{name}: {what} is NaN")
        ends.append(np.broadcast_to(array, (count,)).astype(float))
    return ends[0], ends[1]
