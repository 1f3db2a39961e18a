"""Contacts of a robot with its surroundings that do not slip: Jacobians, friction, constrained dynamics.

A contact has the velocity J v and meets the force f, both in its own axes. The robot obeys

    H vdot + C v + g = tau + J^T f,      J vdot + Jdot v = a,

with a = 0 as long as the contacts rest. The forces do no work. Eliminating vdot gives the forces,

    (J H^-1 J^T) f = a - Jdot v - J H^-1 (tau - C v - g).

Friction bounds the forces: a point can push, but neither pull nor slip, which is a cone; a patch of a surface
can also bear moments, as long as the centre of pressure stays inside.
Source: Featherstone, Rigid Body Dynamics Algorithms, chapters 3 and 11.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from connections._jax import ArrayLike
from connections._words import no_such
from connections.checks import (
    ModelError,
    as_array,
    as_number,
    finite_result,
    require_finite,
    require_items,
    require_text,
    require_untraced,
)
from connections.evaluation.boundary import returns_input_kind
from connections.geometry.rigid.placements import rigid_transform, turn_to, unit_axis
from connections.multibody import frame_jacobian, frame_jacobian_rate, mass_matrix, nonlinear_effects
from connections.multibody.model import Model, require_model, solved
from connections.multibody.program.closed import SolvedLoops, coordinates_of

_INDEPENDENT = 1e-9  # the least part of a row of unit length, in the metric, outside the span of those before


class ContactError(ValueError):
    """A contact cannot be one, such as one without friction, or contacts repeat each other at q.

    Examples
    --------
    >>> from connections import control
    >>> control.PointContact("foot", friction=-0.5)
    Traceback (most recent call last):
        ...
    connections.control.contacts.ContactError: PointContact on 'foot': friction must be positive, got
    -0.5; without it no force is
    """


class BodyContact(abc.ABC):
    """A part of a body that touches its surroundings."""

    frame: str
    friction: float

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """The number of components of velocity and force."""

    @property
    @abc.abstractmethod
    def placement(self) -> np.ndarray:
        """Origin and axes (4, 4) of the contact in its frame, m."""

    @property
    @abc.abstractmethod
    def per_length(self) -> np.ndarray:
        """Factors (rows,) from components to forces: 1, and for moments 1/m, over the contact's size."""

    @property
    @abc.abstractmethod
    def cone(self) -> np.ndarray:
        """G (k, rows), read-only: the force f is possible if G f >= 0; every row in N."""

    @abc.abstractmethod
    def margin(self, force: Any) -> Any:
        """How far forces (..., rows) are from slipping, lifting and tilting, N, (...,); negative beyond."""

    @abc.abstractmethod
    def restrict(self, model: Model, name: str, q: ArrayLike, v: ArrayLike | None = None) -> np.ndarray:
        """J (..., rows, nv) at `q` of the frame `name` of the contact, or its rate along `v`."""


@dataclass(frozen=True)
class PointContact(BodyContact):
    """A point of a body on a surface: it bears a force, no moment.

    The components are along two tangents and the normal of the surface, in world axes: those of the smallest
    rotation that takes z to the normal. Velocities are those of the point, m/s; the force is the one on the
    robot, N.

    Parameters
    ----------
    frame : the name of a frame of the robot, such as a body's.
    friction : mu > 0, |f_t| <= mu f_n.
    point : (3,) m, in the frame's axes.
    normal : (3,) of the surface, towards the robot, in world axes, of any length.
    facets : the sides of the pyramid inside the cone, by which linear programs bound the force; at least 3.

    Raises
    ------
    ContactError, ModelError.

    Examples
    --------
    >>> from connections import control
    >>> foot = control.PointContact("front_left_shank", friction=0.6, point=(0.0, 0.0, -0.2))
    >>> foot.rows
    3
    >>> bool(foot.margin([10.0, 0.0, 1.0]) >= 0.0)
    False
    """

    frame: str
    friction: float
    point: Sequence[float] = (0.0, 0.0, 0.0)
    normal: Sequence[float] = (0.0, 0.0, 1.0)
    facets: int = 4

    def __post_init__(self) -> None:
        _require_friction(self)
        place = np.eye(4)
        place[:3, 3] = _vector(self, "point", self.point, 3)
        object.__setattr__(self, "point", tuple(place[:3, 3].tolist()))
        object.__setattr__(self, "normal", unit_axis(self.normal, "normal"))
        if isinstance(self.facets, bool) or not isinstance(self.facets, int) or self.facets < 3:
            raise ContactError(
                f"{_title(self)}: facets must be an integer of at least 3, got {self.facets!r}"
            )

    @property
    def rows(self) -> int:
        """Three."""
        return 3

    @property
    def placement(self) -> np.ndarray:
        """The point, with the axes of the frame, (4, 4)."""
        place = np.eye(4)
        place[:3, 3] = self.point
        return place

    @property
    def per_length(self) -> np.ndarray:
        """Ones, (3,)."""
        return np.ones(3)

    @cached_property
    def axes(self) -> np.ndarray:
        """R (3, 3): its columns are the tangents and the normal in world axes."""
        return np.ascontiguousarray(turn_to(self.normal)[:3, :3])

    @cached_property
    def _level(self) -> bool:
        """Whether the axes are the world's."""
        return bool((self.axes == np.eye(3)).all())

    @cached_property
    def cone(self) -> np.ndarray:
        """The pyramid in the friction cone, with its normals between the corners, (facets + 1, 3)."""
        angle = 2.0 * np.pi * np.arange(self.facets) / self.facets
        inside = np.full(self.facets, self.friction * np.cos(np.pi / self.facets))
        sides = np.stack([-np.cos(angle), -np.sin(angle), inside], axis=1)
        return _read_only(np.vstack([sides, [0.0, 0.0, 1.0]]))

    def margin(self, force: Any) -> Any:
        """min(mu f_n - |f_t|, f_n), N, (...,): the distance from the cone itself, not from the pyramid."""
        force = np.asarray(as_array("force", force, (3,)))
        require_finite("force", force)
        slip = self.friction * force[..., 2] - np.hypot(force[..., 0], force[..., 1])
        return np.minimum(slip, force[..., 2])

    def restrict(self, model: Model, name: str, q: ArrayLike, v: ArrayLike | None = None) -> np.ndarray:
        """R^T times the lower half of the frame's Jacobian in world axes, or of its rate."""
        if v is None:
            J = frame_jacobian(model, q, name, axes="world")[..., 3:, :]
        else:
            J = frame_jacobian_rate(model, q, v, name, axes="world")[..., 3:, :]
        return J if self._level else np.asarray(self.axes.T @ J)


@dataclass(frozen=True)
class SurfaceContact(BodyContact):
    """A rectangle of a body on a plane surface: it bears a force and moments, as a foot's sole does.

    The components are those of a twist [omega; v] and of a wrench [n; f] about the rectangle's centre, in
    its own axes: x and y along its sides, z towards the robot. The bounds are those of forces at the four
    corners, each in the pyramid |f_x|, |f_y| <= mu f_z / sqrt(2): f_z >= 0, the centre of pressure in the
    rectangle, and a moment about z that friction holds.

    Parameters
    ----------
    frame : the name of a frame of the robot, such as a body's.
    friction : mu > 0.
    half_lengths : (2,) m > 0, half the sides along x and y.
    center : (4, 4) placement of the rectangle in the frame; None puts it at the frame's origin.

    Raises
    ------
    ContactError, ModelError.

    Examples
    --------
    >>> from connections import control
    >>> sole = control.SurfaceContact("hand", friction=0.5, half_lengths=(0.1, 0.05))
    >>> sole.rows
    6
    >>> sole.center_of_pressure([0.0, -2.0, 0.0, 0.0, 0.0, 100.0])
    array([0.02, 0.  ])

    Source: [CP], Proposition 2 and its closed form for rectangles.
    """

    frame: str
    friction: float
    half_lengths: Sequence[float]
    center: Any = None

    def __post_init__(self) -> None:
        _require_friction(self)
        X, Y = _vector(self, "half_lengths", self.half_lengths, 2).tolist()
        if not (X > 0.0 and Y > 0.0):
            raise ContactError(f"{_title(self)}: half_lengths must be positive, got {(X, Y)}")
        object.__setattr__(self, "half_lengths", (X, Y))
        object.__setattr__(
            self, "center", tuple(map(tuple, rigid_transform(_title(self), self.center).tolist()))
        )

    @property
    def rows(self) -> int:
        """Six."""
        return 6

    @property
    def placement(self) -> np.ndarray:
        """The rectangle's centre and axes in the frame, (4, 4)."""
        return np.array(self.center)

    @property
    def per_length(self) -> np.ndarray:
        """1 / Y, 1 / X, 1 / (X + Y), 1, 1, 1: as in the bounds of moments."""
        X, Y = self.half_lengths
        return np.array([1.0 / Y, 1.0 / X, 1.0 / (X + Y), 1.0, 1.0, 1.0])

    @cached_property
    def cone(self) -> np.ndarray:
        """G (16, 6): friction, centre of pressure, and the moment about z, each divided by its length."""
        mu, (X, Y) = self.friction / np.sqrt(2.0), self.half_lengths
        slip = [[0.0, 0.0, 0.0, -s, 0.0, mu] for s in (1.0, -1.0)]
        slip += [[0.0, 0.0, 0.0, 0.0, -s, mu] for s in (1.0, -1.0)]
        tilt = [[-s / Y, 0.0, 0.0, 0.0, 0.0, 1.0] for s in (1.0, -1.0)]
        tilt += [[0.0, -s / X, 0.0, 0.0, 0.0, 1.0] for s in (1.0, -1.0)]
        signs = [(a, b, s) for a in (1.0, -1.0) for b in (1.0, -1.0) for s in (1.0, -1.0)]
        # s n_z + |Y f_x + s mu n_x| + |X f_y + s mu n_y| <= mu (X + Y) f_z, without the absolute values
        turn = [[-s * a * mu, -s * b * mu, -s, -a * Y, -b * X, mu * (X + Y)] for a, b, s in signs]
        return _read_only(np.vstack([slip, tilt, np.array(turn) / (X + Y)]))

    def margin(self, force: Any) -> Any:
        """The least of G f, N, (...,), of wrenches (..., 6)."""
        force = np.asarray(as_array("force", force, (6,)))
        require_finite("force", force)
        return np.min(force @ self.cone.T, axis=-1)

    def center_of_pressure(self, force: Any) -> Any:
        """(-n_y, n_x) / f_z, m, (..., 2), of wrenches (..., 6), in the rectangle's axes; NaN without f_z."""
        force = np.asarray(as_array("force", force, (6,)))
        require_finite("force", force)
        normal = np.where(force[..., 5] == 0.0, np.nan, force[..., 5])
        return np.stack([-force[..., 1], force[..., 0]], axis=-1) / normal[..., None]

    def restrict(self, model: Model, name: str, q: ArrayLike, v: ArrayLike | None = None) -> np.ndarray:
        """The Jacobian of the rectangle in its axes, or its rate."""
        if v is None:
            return frame_jacobian(model, q, name)
        return frame_jacobian_rate(model, q, v, name)


@dataclass(frozen=True, eq=False)
class Contacts:
    """Contacts of a robot that hold at the same time; their components are stacked in this order.

    Parameters
    ----------
    model : the robot.
    contacts : `PointContact` and `SurfaceContact`.

    Raises
    ------
    ModelError : there is no such frame.
    TypeError : not a model, or not contacts.

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("quadruped")
    >>> feet = [control.PointContact(f"{leg}_shank", 0.6) for leg in ("front_left", "hind_right")]
    >>> contacts = control.Contacts(robot, feet)
    >>> contacts.jacobian(robot.neutral()).shape
    (6, 18)
    """

    model: Model
    contacts: Sequence[BodyContact]
    _placed: Model = field(init=False, repr=False)  #: the robot with a frame for each contact
    _names: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_model("Contacts", self.model)
        contacts = require_items(
            "contacts", self.contacts, BodyContact, "contacts (PointContact, SurfaceContact)"
        )
        for contact in contacts:
            if contact.frame not in self.model.frame_names:
                raise ModelError(
                    f"{_title(contact)}: {no_such('frame', contact.frame, self.model.frame_names)}"
                )
        names = tuple(f"contact {k} of {contact.frame}" for k, contact in enumerate(contacts))
        placed = {name: (c.frame, c.placement) for name, c in zip(names, contacts, strict=True)}
        object.__setattr__(self, "contacts", contacts)
        object.__setattr__(self, "_placed", self.model.with_frames(placed))
        object.__setattr__(self, "_names", names)

    @property
    def rows(self) -> int:
        """The number of components of all contacts."""
        return sum(contact.rows for contact in self.contacts)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where the components of each contact lie."""
        ends = np.cumsum([0, *(contact.rows for contact in self.contacts)]).tolist()
        return tuple(slice(start, end) for start, end in zip(ends[:-1], ends[1:], strict=True))

    @cached_property
    def cone(self) -> np.ndarray:
        """G (k, rows), read-only: friction allows the forces f if G f >= 0."""
        cones = [contact.cone for contact in self.contacts]
        G = np.zeros((sum(len(cone) for cone in cones), self.rows))
        start = 0
        for cone, at in zip(cones, self.slices, strict=True):
            G[start : start + len(cone), at] = cone
            start += len(cone)
        return _read_only(G)

    def margin(self, forces: Any) -> Any:
        """The least margin of all contacts, N, (...,), of forces (..., rows); infinite without contacts."""
        forces = np.asarray(as_array("forces", forces, (self.rows,)))
        require_finite("forces", forces)
        least = np.full(forces.shape[:-1], np.inf)
        for contact, at in zip(self.contacts, self.slices, strict=True):
            least = np.minimum(least, contact.margin(forces[..., at]))
        return least

    @returns_input_kind
    def jacobian(self, q: ArrayLike) -> np.ndarray:
        """J (..., rows, nv) at q (..., nq), or `SolvedLoops`: contacts' velocities are J v, m/s and rad/s.

        Raises
        ------
        ShapeError, NonFiniteError, PointError.
        """
        require_untraced(q=q)
        return self.stacked(q)

    @returns_input_kind
    def jacobian_rate(self, q: ArrayLike, v: ArrayLike) -> np.ndarray:
        """Jdot (..., rows, nv) at q, or `SolvedLoops`, along v (..., nv): accelerations are J vdot + Jdot v.

        Raises
        ------
        ShapeError, NonFiniteError, PointError.
        """
        require_untraced(q=q, v=v)
        return self.stacked(q, as_array("v", v, (self.model.nv,)))

    def stacked(self, *state: Any) -> np.ndarray:
        """`jacobian` at q, or `jacobian_rate` at q and v; their arrays are NumPy's, which is not checked."""
        parts = [
            contact.restrict(self._placed, name, *state)
            for contact, name in zip(self.contacts, self._names, strict=True)
        ]
        if not parts:
            arrays = (coordinates_of(x, self.model.kinematics) for x in state)
            batch = np.broadcast_shapes(*(np.shape(x)[:-1] for x in arrays))
            return np.zeros((*batch, 0, self.model.nv))
        return np.concatenate(parts, axis=-2)

    @returns_input_kind
    def forward_dynamics(
        self, q: ArrayLike | SolvedLoops, v: ArrayLike, tau: ArrayLike, damping: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """(vdot, f), (..., nv) and (..., rows): motion and forces of the robot, whose contacts hold.

        The contacts hold whatever the force: f may pull or slip, which `margin` tells.

        Parameters
        ----------
        q : (..., nq) configurations, or `SolvedLoops`.
        v : (..., nv) velocities in the model's frame.
        tau : (..., nv) generalized forces, N m and N.
        damping : 1/s, at which the contacts' own velocities fall, J vdot + Jdot v = -damping J v.

        Raises
        ------
        ShapeError, NonFiniteError, PointError.
        ContactError : contacts repeat each other at q, so that their forces are not determined.

        Source: Featherstone, Rigid Body Dynamics Algorithms, section 3.2.
        """
        require_untraced(q=q, v=v, tau=tau)
        tau, speed = np.asarray(as_array("tau", tau, (self.model.nv,))), as_number("damping", damping)
        require_finite("tau", tau)
        q = solved(self.model, q) if self.model.closed else q
        J, J_dot = self.jacobian(q), self.jacobian_rate(q, v)
        v, H = np.asarray(as_array("v", v, (self.model.nv,))), mass_matrix(self.model, q)
        L = np.linalg.cholesky(H)
        W = np.linalg.solve(L, np.swapaxes(J, -1, -2))  # the rows of J, of their lengths in the metric
        self._require_independent(W)
        free = np.linalg.solve(L, (tau - nonlinear_effects(self.model, q, v))[..., None])
        wanted = -(J_dot + speed * J) @ v[..., None]
        transposed = np.swapaxes(W, -1, -2)
        f = np.linalg.solve(transposed @ W, wanted - transposed @ free)
        a = np.linalg.solve(np.swapaxes(L, -1, -2), free + W @ f)
        return finite_result("vdot", a[..., 0]), finite_result("f", f[..., 0])

    def _require_independent(self, W: np.ndarray) -> None:
        row = dependent_row(W)
        if row is not None:
            at = next(k for k, part in enumerate(self.slices) if part.start <= row < part.stop)
            raise ContactError(
                f"{_title(self.contacts[at])}: those before it hold a part of its motion already, at this "
                "configuration, so that their forces are not determined: leave one of them out"
            )


def dependent_row(W: np.ndarray) -> int | None:
    """The first column of W (..., n, k) that depends on those before it, None if they are independent.

    The columns are rows of a Jacobian, whitened by the metric, and are compared at unit length.
    """
    if W.shape[-1] == 0:
        return None
    length = np.linalg.norm(W, axis=-2, keepdims=True)
    R = np.linalg.qr(W / np.where(length > 0.0, length, 1.0), mode="r")
    found = np.abs(np.diagonal(R, axis1=-2, axis2=-1)) <= _INDEPENDENT
    alone = found.reshape(-1, found.shape[-1]).any(axis=0)
    if alone.any():
        return int(np.argmax(alone))
    return None if W.shape[-1] <= W.shape[-2] else W.shape[-2]


# --- private -----------------------------------------------------------------------------------------------


def _title(contact: BodyContact) -> str:
    return f"{type(contact).__name__} on '{contact.frame}'"


def _require_friction(contact: BodyContact) -> None:
    require_text("frame", contact.frame)
    try:
        friction = as_number("friction", contact.friction)
    except (TypeError, ValueError) as error:
        raise ContactError(f"{_title(contact)}: {error}") from error
    if not 0.0 < friction < np.inf:
        raise ContactError(
            f"{_title(contact)}: friction must be positive, got {friction:g}; without it no force is"
        )
    object.__setattr__(contact, "friction", friction)


def _vector(contact: BodyContact, name: str, value: Any, size: int) -> np.ndarray:
    try:
        vector = np.asarray(as_array(name, value, (size,)))
    except (TypeError, ValueError) as error:
        raise ContactError(f"{_title(contact)}: {error}") from error
    if vector.shape != (size,) or not np.isfinite(vector).all():
        raise ContactError(f"{_title(contact)}: {name} must be {size} finite numbers, got {value!r}")
    return vector


def _read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
