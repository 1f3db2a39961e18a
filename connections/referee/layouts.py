"""How a library writes a configuration and a velocity: its layout, and the frame that it means.

Ours is [p, quaternion (x, y, z, w), joints] with the twist [omega; v] in body axes for a floating base, and
[x, y, theta, joints] with [omega, v_x, v_y] in body axes for one that moves in a plane. Another library has
velocities ``nu = T(q) v``. Its frame is ``X' = X T^-1``, whose brackets follow from those of ours:

    s'^k_ij = A^b_i A^c_j (T^k_a s^a_bc - X_b T^k_c + X_c T^k_b),        A = T^-1.

The derivatives of T along our fields are closed forms, so nothing here is differentiated or compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connections._jax import ArrayLike
from connections._words import no_such
from connections.checks import (
    FrameError,
    PointError,
    ShapeError,
    as_array,
    batch_axes,
    require_choice,
    require_finite,
    require_names,
    require_positive_int,
)
from connections.geometry.groups import SE2_STRUCTURE, SE3_STRUCTURE
from connections.geometry.numerics.scales import POINT_TOLERANCE
from connections.geometry.rigid.host_groups import displaced_pose, rotation_matrix, skew

Array = NDArray[np.float64]

AXES = ("body", "mixed", "world", "linear-world", "angular-world")
_IN_WORLD = {  # angular part, linear part
    "body": (False, False),
    "mixed": (True, True),
    "linear-world": (False, True),
    "angular-world": (True, False),
}
_BASE_SIZES = {"fixed": (0, 0), "planar": (3, 3), "floating": (7, 6), "euler": (6, 6)}


@dataclass(frozen=True)
class Layout:
    """The order, axes and point of a velocity, and the form of an orientation; `floating` and others make it.

    Parameters
    ----------
    base : "fixed", "planar", "floating" or "euler".
    order : "vw" if the linear part comes first, "wv" if the angular part does.
    axes : one of "body", "mixed", "world", "linear-world", "angular-world", or "rates".
    point : whose velocity the linear part is: "frame", the base frame's origin; "com", the centre of mass of
        the base's body; or its coordinates in the base frame, m.
    orientation : "xyzw" or "wxyz" of a quaternion, "rpy" or "ypr" of angles.
    joints : names of the joints in the library's order; None for the robot's own order.

    Examples
    --------
    >>> from connections import referee
    >>> layout = referee.floating("vw", "linear-world", quaternion="wxyz")  # MuJoCo's
    >>> layout.v_from([0, 0, 0, 0, 0, 1, 0], [0, 0, 3, 1, 0, 0]).tolist()  # turned by half a turn about z
    [-1.0, 0.0, 0.0, 0.0, 0.0, 3.0]
    >>> layout.q_from([0, 0, 0, 0, 0, 1, 0]).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    """

    base: str
    order: str = "wv"
    axes: str = "body"
    point: str | tuple[float, ...] = "frame"
    orientation: str = ""
    joints: tuple[str, ...] | None = field(default=None)

    @property
    def name(self) -> str:
        """The call that makes this layout, abbreviated."""
        if self.base == "fixed":
            words = []
        else:
            point = self.point if isinstance(self.point, str) else ", ".join(f"{x:g}" for x in self.point)
            words = [self.order, self.axes, point, self.orientation]
        if self.joints is not None:
            words.append("joints " + " ".join(self.joints))
        return f"{self.base}({', '.join(word for word in words if word)})"

    def at(self, nq: int, joints: Sequence[str] | None = None, com: Any = None) -> LayoutFrame:
        """The frame for a robot with `nq` coordinates in this layout.

        Parameters
        ----------
        joints : names of the robot's joints in its own order; needed if the layout names joints.
        com : (3,) or (2,) centre of mass of the base's body, m; needed for the point "com".

        Raises
        ------
        ShapeError : nq is too small. FrameError : the centre of mass, or a joint's name, is unknown.
        """
        require_positive_int("nq", nq)
        if joints is not None:
            require_names("joints", joints)
        if com is not None:
            com = as_array("com", com, (None,))
            require_finite("com", com)
        size, rates = _BASE_SIZES[self.base]
        count = nq - size
        if count < 0 or (joints is not None and count != len(joints)):
            expected = f"{size + len(joints)} for this robot" if joints is not None else f"at least {size}"
            raise ShapeError(f"q of the layout {self.name}", f"({expected},)", (nq,))
        point = self.point
        if point == "com":
            if com is None:
                raise FrameError(
                    f"layout {self.name}: the centre of mass is unknown here: give point=(x, y, z) in m"
                )
            point = tuple(float(x) for x in com)
        offset = np.zeros(3)
        if not isinstance(point, str):
            offset[: len(point)] = point
        return LayoutFrame(self, count, offset, self._order(joints, count), rates)

    def _order(self, joints: Sequence[str] | None, count: int) -> tuple[int, ...]:
        """Indices among the robot's joints, in the order of the library's joints."""
        if self.joints is None:
            return tuple(range(count))
        if joints is None:
            raise FrameError(
                f"layout {self.name}: whose joints have these names? The robot is not of the corpus"
            )
        for name in self.joints:
            if name not in joints:
                raise FrameError(f"layout {self.name}: " + no_such("joint", name, list(joints)))
        if len(set(self.joints)) != count or len(self.joints) != count:
            raise FrameError(f"layout {self.name}: the robot has the joints {', '.join(joints)}, each once")
        return tuple(list(joints).index(name) for name in self.joints)

    def q_from(self, q: ArrayLike) -> Array:
        """Configurations of the library from ours, (..., nq)."""
        return self._each(lambda frame, q: frame.from_ours(q), q=q)

    def q_to(self, q: ArrayLike) -> Array:
        """Our configurations from the library's, (..., nq)."""
        q = np.asarray(as_array("q", q, (None,)))
        require_finite("q", q)
        frame = self._plain.at(q.shape[-1])
        return np.stack([frame.to_ours(x) for x in q.reshape(-1, q.shape[-1])]).reshape(*q.shape[:-1], -1)

    def v_from(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Velocities of the library from ours, (..., n), at our configurations q."""
        return self._each(lambda frame, q, v: frame.coframe(q) @ v, q=q, v=v)

    def v_to(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Our velocities from the library's, (..., n), at our configurations q."""
        return self._each(lambda frame, q, v: np.linalg.solve(frame.coframe(q), v), q=q, v=v)

    @property
    def _plain(self) -> Layout:
        if self.joints is not None:
            raise FrameError(f"layout {self.name}: whose joints have these names? Use robot_frame(robot)")
        return self

    def _each(self, function: Any, **arrays: Any) -> Array:
        """Values of `function(frame, q, ...)` over the leading axes of q and other arrays in our layout."""
        values = [np.asarray(as_array(name, array, (None,))) for name, array in arrays.items()]
        for name, array in zip(arrays, values, strict=True):
            require_finite(name, array)
        ours = 7 if self.base == "euler" else _BASE_SIZES[self.base][0]
        if values[0].shape[-1] < max(ours, 1):
            raise ShapeError("q", ("...", f"at least {max(ours, 1)}"), values[0].shape)
        frame = self._plain.at(values[0].shape[-1] - ours + _BASE_SIZES[self.base][0])
        if len(values) == 2 and values[1].shape[-1] != frame.dim:
            raise ShapeError("v", ("...", frame.dim), values[1].shape)
        batch_axes(tuple(arrays), values)
        batch = np.broadcast_shapes(*(array.shape[:-1] for array in values))
        flat = [np.broadcast_to(a, (*batch, a.shape[-1])).reshape(-1, a.shape[-1]) for a in values]
        results = np.stack([function(frame, *row) for row in zip(*flat, strict=True)])
        return results.reshape(*batch, -1)


@dataclass(frozen=True, eq=False)
class LayoutFrame:
    """The frame that a layout means, for a number of joints.

    Parameters
    ----------
    layout : Layout.
    count : number of joints.
    offset : (3,) the point whose velocity is meant, in the base frame, m.
    joint_order : for each joint of the library, its place among the robot's.
    rates : number of velocity components of the base.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import referee
    >>> frame = referee.planar("body").at(3)  # of [v_x, v_y, omega] in the base's axes
    >>> s = frame.structure(np.array([0.1, 0.2, 0.3]))
    >>> (s[:, 0, 2] + 0.0).tolist()  # [X_0, X_2] = -X_1
    [0.0, -1.0, 0.0]
    """

    layout: Layout
    count: int
    offset: Array
    joint_order: tuple[int, ...]
    rates: int

    @property
    def dim(self) -> int:
        """Number of velocity components, n."""
        return self.rates + self.count

    @property
    def ambient_dim(self) -> int:
        """Number of coordinates nq in the library's layout."""
        return _BASE_SIZES[self.layout.base][0] + self.count

    @property
    def our_dim(self) -> int:
        """Number of coordinates in our layout."""
        return self.ambient_dim + (self.layout.base == "euler")

    # --- configurations ---------------------------------------------------------------------------

    def to_ours(self, q: Array) -> Array:
        """The configuration in our layout, (our_dim,), of the library's q (nq,)."""
        size = _BASE_SIZES[self.layout.base][0]
        base, joints = q[:size], np.empty(self.count)
        joints[list(self.joint_order)] = q[size:]
        if self.layout.base == "floating":
            turn = base[3:] if self.layout.orientation == "xyzw" else np.roll(base[3:], -1)
            norm = float(np.linalg.norm(turn))
            if not abs(norm - 1.0) <= POINT_TOLERANCE:
                raise PointError(f"q = {q}: the quaternion of the base has norm {norm:.8g}, expected 1")
            base = np.concatenate([base[:3], turn / norm])
        elif self.layout.base == "euler":
            roll, pitch, yaw = base[3:] if self.layout.orientation == "rpy" else base[:2:-1]
            base = np.concatenate([base[:3], _quaternion_of_angles(roll, pitch, yaw)])
        return np.concatenate([base, joints])

    def from_ours(self, q: Array) -> Array:
        """The configuration in the library's layout, (nq,), of our q (our_dim,)."""
        size = self.our_dim - self.count
        base, joints = q[:size], q[size:][list(self.joint_order)]
        if self.layout.base == "floating" and self.layout.orientation == "wxyz":
            base = np.concatenate([base[:3], np.roll(base[3:], 1)])
        elif self.layout.base == "euler":
            angles = _angles(rotation_matrix(base[3:]))
            base = np.concatenate([base[:3], angles if self.layout.orientation == "rpy" else angles[::-1]])
        return np.concatenate([base, joints])

    def points(self, q: Array, steps: Array) -> Array:
        """The library's points (a, nq) at steps (a, n), in its velocity components, from its q (nq,)."""
        ours = self.to_ours(q)
        moves = np.asarray(np.linalg.solve(self.coframe(ours), steps.T).T, dtype=np.float64)
        return np.stack([self.from_ours(point) for point in self._displaced(ours, moves)])

    def _displaced(self, q: Array, xi: Array) -> Array:
        """Our points (a, our_dim) at displacements xi (a, n), in our velocity components, from our q."""
        size = self.our_dim - self.count
        base, joints = np.broadcast_to(q[:size], (len(xi), size)), q[size:] + xi[:, self.rates :]
        if size == 7:
            base = displaced_pose(q[:7], xi[:, :6])
        elif size == 3:
            c, s = np.cos(q[2] + 0.5 * xi[:, 0]), np.sin(q[2] + 0.5 * xi[:, 0])
            chord = np.sinc(xi[:, 0] / (2.0 * np.pi))
            x, y = xi[:, 1], xi[:, 2]
            base = q[:3] + np.stack([chord * (c * x - s * y), chord * (s * x + c * y), xi[:, 0]], axis=1)
        return np.concatenate([base, joints], axis=1)

    # --- velocities -------------------------------------------------------------------------------

    def coframe(self, q: Array) -> Array:
        """T (n, n) at our configuration: the library's velocity is T v."""
        T = np.zeros((self.dim, self.dim))
        T[: self.rates, : self.rates] = self._base(q)[0] if self.rates else 0.0
        T[self.rates + np.arange(self.count), self.rates + np.array(self.joint_order, dtype=int)] = 1.0
        return T

    def coframe_slopes(self, q: Array) -> Array:
        """Derivatives X_a T along our fields at our configuration, [a, :, :], (n, n, n)."""
        slopes = np.zeros((self.dim,) * 3)
        if self.rates:
            slopes[: self.rates, : self.rates, : self.rates] = self._base(q)[1]
        return slopes

    def structure(self, q: Array) -> Array:
        """s'[k, i, j] of the library's frame at the library's configuration, (n, n, n)."""
        ours = self.to_ours(q)
        T, slopes = self.coframe(ours), self.coframe_slopes(ours)
        A = np.linalg.inv(T)
        lower = np.einsum("ka,abc->kbc", T, self._our_structure)
        lower += -np.einsum("bkc->kbc", slopes) + np.einsum("ckb->kbc", slopes)
        brackets: Array = np.einsum("kbc,bi,cj->kij", lower, A, A)
        return brackets

    @cached_property
    def _our_structure(self) -> Array:
        s = np.zeros((self.dim,) * 3)
        if self.rates:
            s[: self.rates, : self.rates, : self.rates] = SE2_STRUCTURE if self.rates == 3 else SE3_STRUCTURE
        return s

    def translation(self, q: Array, u: Array) -> Array:
        """Our velocity v (n,) of the whole robot's translation at u, m/s in world axes."""
        v = np.zeros(self.dim)
        if self.rates == 3:
            v[1:3] = _turn(q[2]).T @ u
        else:
            v[3:6] = rotation_matrix(q[3:7]).T @ u
        return v

    def translation_rate(self, q: Array, v: Array, u: Array) -> Array:
        """The derivative of `translation`, for constant u, along our velocity v, (n,)."""
        flow, rate = self.translation(q, u), np.zeros(self.dim)
        if self.rates == 3:
            rate[1:3] = v[0] * np.array([flow[2], -flow[1]])
        else:
            rate[3:6] = -np.cross(v[:3], flow[3:6])
        return rate

    def _base(self, q: Array) -> tuple[Array, Array]:
        """T of the base, and its derivatives [a, :, :] along our fields of the base."""
        if self.rates == 3:
            return self._planar(q)
        R, axes = rotation_matrix(q[3:7]), self.layout.axes
        turns = [R @ skew(e) for e in np.eye(3)]  # dR along omega
        T, slopes = np.zeros((6, 6)), np.zeros((6, 6, 6))
        if axes == "world":
            p = skew(q[:3])
            T[:3, :3], T[3:, 3:], T[3:, :3] = R, R, p @ R
            for a, turn in enumerate(turns):
                slopes[a, :3, :3], slopes[a, 3:, 3:], slopes[a, 3:, :3] = turn, turn, p @ turn
                slopes[3 + a, 3:, :3] = skew(R[:, a]) @ R
        elif axes == "rates":
            T[:3, :3], T[3:, 3:] = _angle_rates(R)[0], R
            for a, (turn, rate) in enumerate(zip(turns, _angle_rates(R)[1], strict=True)):
                slopes[a, :3, :3], slopes[a, 3:, 3:] = rate, turn
        else:
            moved = -skew(self.offset)
            for block, in_world in enumerate(_IN_WORLD[axes]):
                at = slice(3 * block, 3 * block + 3)
                T[at, at] = R if in_world else np.eye(3)
                if in_world:
                    slopes[:3, at, at] = turns
            shift = np.eye(6)
            shift[3:, :3] = moved
            T, slopes = T @ shift, slopes @ shift
        order = [3, 4, 5, 0, 1, 2] if self.layout.order == "vw" else [0, 1, 2, 3, 4, 5]
        if axes == "rates" and self.layout.orientation == "ypr":
            order = [3, 4, 5, 2, 1, 0]
        return T[order], slopes[:, order]

    def _planar(self, q: Array) -> tuple[Array, Array]:
        R = _turn(q[2])
        shift, T, slopes = np.eye(3), np.eye(3), np.zeros((3, 3, 3))
        shift[1:, 0] = -self.offset[1], self.offset[0]
        if self.layout.axes == "world":
            T[1:, 1:] = R
            slopes[0, 1:, 1:] = R @ np.array([[0.0, -1.0], [1.0, 0.0]])
        T, slopes = T @ shift, slopes @ shift
        order = [1, 2, 0] if self.layout.order == "vw" else [0, 1, 2]
        return T[order], slopes[:, order]


def fixed(joints: Sequence[str] | None = None) -> Layout:
    """The layout of a robot on a fixed base: q has the joints, v = qdot.

    Parameters
    ----------
    joints : their names in the library's order; None for the robot's own order.

    Examples
    --------
    >>> from connections import referee
    >>> referee.fixed().name
    'fixed()'
    """
    return Layout("fixed", joints=_names(joints))


def planar(
    axes: str = "world",
    order: str = "vw",
    point: str | Sequence[float] = "frame",
    joints: Sequence[str] | None = None,
) -> Layout:
    """The layout of a base that moves in a plane: q = [x, y, theta, joints].

    Parameters
    ----------
    axes : "world" if the linear part is in the axes of the plane, "body" if it is in the base's axes.
    order : "vw" for [v_x, v_y, omega], "wv" for [omega, v_x, v_y].
    point : as for `floating`, with two coordinates.
    joints : as for `fixed`.

    Examples
    --------
    >>> from connections import referee
    >>> referee.planar("body").v_from([0.0, 0.0, 0.5], [3.0, 1.0, 2.0]).tolist()
    [1.0, 2.0, 3.0]
    """
    require_choice("axes", axes, ("world", "body"))
    require_choice("order", order, ("vw", "wv"))
    return Layout("planar", order, axes, _point(point, 2), joints=_names(joints))


def floating(
    order: str = "vw",
    axes: str = "mixed",
    point: str | Sequence[float] = "frame",
    quaternion: str = "xyzw",
    joints: Sequence[str] | None = None,
) -> Layout:
    """The layout of a floating base: q = [p, quaternion, joints], with p the origin of the base frame.

    Parameters
    ----------
    order : "vw" for [linear, angular], "wv" for [angular, linear].
    axes : "body", both parts in the base's axes; "mixed", both in the world's; "linear-world" and
        "angular-world", this part in the world's axes and the other in the base's; "world", both in the
        world's axes, with the velocity of the base's point at the world's origin (also called spatial).
    point : whose velocity the linear part is: "frame", "com" of the base's body, or (x, y, z) in the base
        frame, m. "world" needs none.
    quaternion : "xyzw" or "wxyz".
    joints : as for `fixed`.

    Examples
    --------
    >>> from connections import referee
    >>> referee.floating("wv", "body").name
    'floating(wv, body, frame, xyzw)'
    """
    require_choice("order", order, ("vw", "wv"))
    require_choice("axes", axes, AXES)
    require_choice("quaternion", quaternion, ("xyzw", "wxyz"))
    return Layout("floating", order, axes, _point(point, 3), quaternion, _names(joints))


def euler(
    order: str = "vw",
    axes: str = "body",
    point: str | Sequence[float] = "frame",
    angles: str = "rpy",
    joints: Sequence[str] | None = None,
) -> Layout:
    """The layout of a floating base with angles: q = [p, angles, joints], R = Rz(yaw) Ry(pitch) Rx(roll).

    Parameters
    ----------
    order, axes, point, joints : as for `floating`; or axes "rates", for which the velocity is qdot.
    angles : "rpy" for roll, pitch, yaw, "ypr" for the reverse.

    Examples
    --------
    >>> from connections import referee
    >>> layout = referee.euler()  # of a vessel: [x, y, z, roll, pitch, yaw] and [u, v, w, p, q, r]
    >>> layout.q_to([1.0, 2.0, 3.0, 0.0, 0.0, 0.0]).tolist()
    [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]
    """
    require_choice("order", order, ("vw", "wv"))
    require_choice("axes", axes, (*AXES, "rates"))
    require_choice("angles", angles, ("rpy", "ypr"))
    if axes == "rates":
        order = "vw"
    return Layout("euler", order, axes, _point(point, 3), angles, _names(joints))


# --- small things ---------------------------------------------------------------------------------


def _names(joints: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if joints is None else require_names("joints", joints)


def _point(point: str | Sequence[float], size: int) -> str | tuple[float, ...]:
    if isinstance(point, str):
        require_choice("point", point, ("frame", "com"))
        return point
    numbers = np.asarray(as_array("point", point, ()))
    if numbers.shape != (size,) or not np.isfinite(numbers).all():
        raise ShapeError("point", (size,), numbers.shape)
    return tuple(map(float, numbers))


def _turn(angle: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


def _quaternion_of_angles(roll: float, pitch: float, yaw: float) -> Array:
    """(x, y, z, w) of Rz(yaw) Ry(pitch) Rx(roll)."""
    (sr, sp, sy), (cr, cp, cy) = (f(0.5 * np.array([roll, pitch, yaw])) for f in (np.sin, np.cos))
    return np.array(
        [
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
            cr * cp * cy + sr * sp * sy,
        ]
    )


def _angles(R: Array) -> Array:
    """Roll, pitch, yaw of a rotation, the pitch within a quarter turn."""
    return np.array(
        [np.arctan2(R[2, 1], R[2, 2]), np.arcsin(np.clip(-R[2, 0], -1.0, 1.0)), np.arctan2(R[1, 0], R[0, 0])]
    )


def _angle_rates(R: Array) -> tuple[Array, Array]:
    """E with (roll, pitch, yaw)' = E omega (body axes), and its derivatives along omega, (3, 3, 3)."""
    roll, pitch, _ = _angles(R)
    (sr, sp), (cr, cp) = np.sin([roll, pitch]), np.cos([roll, pitch])
    if abs(cp) < 1e-8:
        raise PointError(
            f"the pitch is a quarter turn ({pitch:.6f} rad), where the rates of angles are infinite"
        )
    t = sp / cp
    E = np.array([[1.0, sr * t, cr * t], [0.0, cr, -sr], [0.0, sr / cp, cr / cp]])
    by_roll = np.array([[0.0, cr * t, -sr * t], [0.0, -sr, -cr], [0.0, cr / cp, -sr / cp]])
    by_pitch = np.array([[0.0, sr, cr], [0.0, 0.0, 0.0], [0.0, sr * sp, cr * sp]]) / cp**2
    return E, np.einsum("a,ij->aij", E[0], by_roll) + np.einsum("a,ij->aij", E[1], by_pitch)
