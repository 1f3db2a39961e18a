"""Rolling contacts and conserved momenta of a robot as one-forms, for `ConstrainedConnection`.

The point r of body b, in its axes, moves with the velocity R_b (u_b + omega_b x r) in the world, where
[omega_b; u_b] = A_b v. A contact requires that the component of this velocity along a direction e vanishes. A
momentum is the inner product with the generator xi = [omega; u] of a rigid motion of the whole robot in the
world:

    w(v) = (R_b^T e) . (u_b + omega_b x r),      <<xi_Q, v>> = sum_b (X_b xi)^T I_b A_b v.

Source: [Z] section 3; [W] VI-B for A = X Phi.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.checks import (
    ModelError,
    ShapeError,
    as_array,
    as_number,
    require_finite,
    require_items,
    require_names,
    require_text,
)
from connections.evaluation.compilation import compiled
from connections.geometry.frames import PointFunction
from connections.multibody.definition.frames import body_of
from connections.multibody.model import Model, require_model

_SYMMETRY = 1e-9  # largest deviation of the bodies' motions from a common one, by the roots of their energies


class Contact(abc.ABC):
    """A contact of a body with a fixed environment that does not slip in some directions.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> issubclass(mb.Wheel, mb.Contact), issubclass(mb.Ball, mb.Contact)
    (True, True)
    >>> mb.rolling_forms(mb.example("arm"), [mb.Wheel("tyre", radius=0.3)])
    Traceback (most recent call last):
        ...
    connections.checks.ModelError: Wheel on body 'tyre': there is no body 'tyre'. The bodies are
    shoulder, upper_arm, forearm, wrist, hand, tool
    """

    body: str

    @property
    def rows(self) -> int:
        """Number of one-forms of the contact."""
        return len(self.forms_at(jnp.eye(3), jnp.zeros((6, 1))))

    @abc.abstractmethod
    def forms_at(self, rotation: jax.Array, jacobian: jax.Array) -> jax.Array:
        """The one-forms (rows, nv).

        Parameters
        ----------
        rotation : (3, 3) orientation of the body in the world.
        jacobian : (6, nv), the body's twist [omega; u] = jacobian v in its own axes.
        """


@dataclass(frozen=True)
class Wheel(Contact):
    """A wheel that is thin at its rim, on a plane.

    "rolling" is the direction axis x normal in which the wheel rolls: no slip; it couples turning and
    advance. "lateral" is perpendicular to it in the plane: no skid. "normal" keeps the distance from the
    plane, if nothing else does. For a wheel that lies flat the directions are not defined, and the connection
    raises an error that names the configuration.

    Parameters
    ----------
    body : the body that turns.
    radius : m.
    axis : (3,) in body axes, of any length; a positive turn rolls along axis x normal.
    center : (3,) m, in body axes.
    normal : (3,) of the plane, upwards, in world axes.
    directions : any of "rolling", "lateral", "normal".

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> rolling = mb.Mechanism()
    >>> rolling.add_body("coin", mass=0.01, inertia=1e-6 * np.diag([1.0, 2.0, 1.0]))
    >>> rolling.add_joint("table", "world", "coin", mb.Free())
    >>> robot = rolling.build()
    >>> forms = mb.rolling_forms(robot, [mb.Wheel("coin", radius=0.02)])
    >>> np.round(np.asarray(forms(robot.neutral())), 2) + 0.0
    array([[ 0.  , -0.02,  0.  ,  1.  ,  0.  ,  0.  ],
           [ 0.02,  0.  ,  0.  ,  0.  ,  1.  ,  0.  ]])
    """

    body: str
    radius: float
    axis: Sequence[float] = (0.0, 1.0, 0.0)
    center: Sequence[float] = (0.0, 0.0, 0.0)
    normal: Sequence[float] = (0.0, 0.0, 1.0)
    directions: Sequence[str] = ("rolling", "lateral")

    def __post_init__(self) -> None:
        _require_vectors(self, directions=("axis", "normal"), points=("center",))
        _require_radius(self)
        _require_directions(self, ("rolling", "lateral", "normal"))

    def forms_at(self, rotation: jax.Array, jacobian: jax.Array) -> jax.Array:
        """The velocity of the material point at the contact, along the directions, (rows, nv)."""
        axis, normal = rotation @ jnp.asarray(self.axis), jnp.asarray(self.normal)
        ahead = jnp.cross(axis, normal)
        ahead = ahead / jnp.linalg.norm(ahead)
        along = {"rolling": ahead, "lateral": jnp.cross(normal, ahead), "normal": normal}
        spoke = self.radius * jnp.cross(axis, ahead)  # down, in the plane of the wheel
        point = jnp.asarray(self.center) + rotation.T @ spoke
        return _velocity(jnp.stack([along[name] for name in self.directions]) @ rotation, point, jacobian)


@dataclass(frozen=True)
class Ball(Contact):
    """A ball on a plane: "rolling" gives two forms, in the plane; "normal" keeps its height.

    Parameters
    ----------
    body : the body that rolls.
    radius : m.
    center : (3,) m, in body axes.
    normal : (3,) of the plane, upwards, in world axes.
    directions : "rolling", "normal" or both.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> bowling = mb.Mechanism()
    >>> bowling.add_body("ball", mass=6.0, inertia=0.03 * np.eye(3))
    >>> bowling.add_joint("lane", "world", "ball", mb.Free())
    >>> robot = bowling.build()
    >>> forms = mb.rolling_forms(robot, [mb.Ball("ball", radius=0.11)])
    >>> np.round(np.asarray(forms(robot.neutral())), 2) + 0.0
    array([[ 0.11,  0.  ,  0.  ,  0.  ,  1.  ,  0.  ],
           [ 0.  ,  0.11,  0.  , -1.  ,  0.  ,  0.  ]])
    """

    body: str
    radius: float
    center: Sequence[float] = (0.0, 0.0, 0.0)
    normal: Sequence[float] = (0.0, 0.0, 1.0)
    directions: Sequence[str] = ("rolling",)

    def __post_init__(self) -> None:
        _require_vectors(self, directions=("normal",), points=("center",))
        _require_radius(self)
        _require_directions(self, ("rolling", "normal"))

    def forms_at(self, rotation: jax.Array, jacobian: jax.Array) -> jax.Array:
        """The velocity of the material point at the contact, along the directions, (rows, nv)."""
        normal = np.asarray(self.normal)
        first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
        first = first / np.linalg.norm(first)
        along = {"rolling": [first, np.cross(normal, first)], "normal": [normal]}
        directions = np.stack([e for name in self.directions for e in along[name]])
        point = jnp.asarray(self.center) - rotation.T @ (self.radius * normal)
        return _velocity(jnp.asarray(directions) @ rotation, point, jacobian)


@dataclass(frozen=True)
class Blade(Contact):
    """A knife edge, a skate, or a wheel without a body of its own: a point that cannot move in one direction.

    Parameters
    ----------
    body : the body that carries it.
    direction : (3,) in body axes, perpendicular to the edge.
    point : (3,) m, in body axes.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> skating = mb.Mechanism()
    >>> skating.add_body("skate", mass=2.0, inertia=np.eye(3))
    >>> skating.add_joint("ice", "world", "skate", mb.Planar())
    >>> robot = skating.build()
    >>> forms = mb.rolling_forms(robot, [mb.Blade("skate", point=(0.2, 0.0, 0.0))])
    >>> np.round(np.asarray(forms(robot.neutral())), 2) + 0.0
    array([[0. , 1. , 0.2]])
    """

    body: str
    direction: Sequence[float] = (0.0, 1.0, 0.0)
    point: Sequence[float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        _require_vectors(self, directions=("direction",), points=("point",))

    def forms_at(self, rotation: jax.Array, jacobian: jax.Array) -> jax.Array:
        """The velocity of the point along the direction, (1, nv)."""
        return _velocity(jnp.asarray(self.direction)[None], jnp.asarray(self.point), jacobian)


def rolling_forms(model: Model, contacts: Sequence[Contact]) -> PointFunction:
    """The constraints of contacts as one-forms, q (nq,) -> W (p, nv), for ``forms=``; JAX-traceable.

    Parameters
    ----------
    model : the robot.
    contacts : `Wheel`, `Ball`, `Blade`; W has their rows in this order. For two wheels on one axle the
        "lateral" rows are dependent: leave it out of one of them, or use `independent_forms`.

    Raises
    ------
    ModelError : there is no such body, or no contact.
    TypeError : an argument of another kind.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> skating = mb.Mechanism()
    >>> skating.add_body("skate", mass=2.0, inertia=np.eye(3))
    >>> skating.add_joint("ice", "world", "skate", mb.Planar())
    >>> robot = skating.build()
    >>> forms = mb.rolling_forms(robot, [mb.Blade("skate")])
    >>> np.round(np.asarray(forms(np.array([0.0, 0.0, np.pi / 2]))), 6) + 0.0
    array([[-1.,  0.,  0.]])

    Source: [Z] section 3, the forms w_a.
    """
    require_model("rolling_forms", model)
    contacts = require_items("contacts", contacts, Contact, "contacts (Wheel, Ball, Blade)")
    if not contacts:
        raise ModelError("rolling_forms: no contacts are given")
    bodies = []
    for contact in contacts:
        try:
            bodies.append(body_of(model.kinematics.tree, contact.body))
        except ModelError as error:
            raise ModelError(f"{_title(contact)}: {error}") from None

    def forms(q: jax.Array) -> jax.Array:
        _require_size(model, q)
        rotations = model.kinematics.world_transforms_at(q)[:, :3, :3]
        jacobians = model.kinematics.body_jacobians_at(q)
        rows = [c.forms_at(rotations[b], jacobians[b]) for b, c in zip(bodies, contacts, strict=True)]
        return jnp.concatenate(rows)

    return forms


def momentum_forms(model: Model, directions: ArrayLike | None = None) -> PointFunction:
    """Momenta of the whole robot as one-forms, q (nq,) -> (k, nv): <<xi_Q, v>>; JAX-traceable.

    If the momenta are zero at first and no external forces act, they stay zero without constraint forces. So
    the geodesics of the connection that these forms define are free motions, in fewer velocities.

    Parameters
    ----------
    model : a robot that is free to move along all directions.
    directions : (k, 6) world twists xi = [omega; u], in world axes at the world's origin: unit twists
        give the components of [angular momentum about the world's origin; linear momentum]. All six if None.

    Raises
    ------
    ShapeError, NonFiniteError : of `directions`.
    ModelError : the robot cannot move along a direction as one rigid body, or a joint with armature moves if
        it does.
    TypeError : an argument of another kind.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from connections import multibody as mb
    >>> robot = mb.example("quadruped")
    >>> forms = mb.momentum_forms(robot, [[0, 0, 0, 1, 0, 0]])  # along the world's x axis
    >>> momentum = forms(jnp.asarray(robot.neutral())) @ jnp.eye(18)[3]  # of 1 m/s
    >>> bool(abs(momentum[0] - mb.total_mass(robot)) < 1e-12)
    True

    Source: [Z] section 3.3, the action of a group; the momentum is that of Noether's theorem.
    """
    require_model("momentum_forms", model)
    twists = np.eye(6) if directions is None else np.asarray(as_array("directions", directions, (None, 6)))
    require_finite("directions", twists)
    kinematics, inertias = model.kinematics, jnp.asarray(model.kinematics.tree.inertias)

    def generators(q: jax.Array) -> jax.Array:
        """The twists of all bodies, in their axes, if all move along the directions, (N, 6, k)."""
        transforms = kinematics.world_transforms_at(q)
        back = jnp.swapaxes(transforms[:, :3, :3], 1, 2)
        omega, u = jnp.asarray(twists[:, :3]), jnp.asarray(twists[:, 3:])
        moved = u[None] + jnp.cross(omega[None], transforms[:, None, :3, 3])  # (N, k, 3)
        linear = jnp.einsum("nab,nkb->nak", back, moved)
        return jnp.concatenate([jnp.einsum("nab,kb->nak", back, omega), linear], axis=1)

    def forms(q: jax.Array) -> jax.Array:
        _require_size(model, q)
        momenta = jnp.einsum("nab,nbj->naj", inertias, kinematics.body_jacobians_at(q))
        return jnp.einsum("nak,naj->kj", generators(q), momenta)

    _require_symmetry(model, generators)
    return forms


# --- private -----------------------------------------------------------------------------------------------


def _require_size(model: Model, q: Any) -> None:
    """Raise `ShapeError` unless q is (nq,): in traced code, JAX clips indices beyond the end of an array."""
    if jnp.shape(q) != (model.nq,):
        raise ShapeError("q", (model.nq,), jnp.shape(q))


def _velocity(directions: jax.Array, point: jax.Array, jacobian: jax.Array) -> jax.Array:
    """Velocity of a point of a body along directions (k, 3), all in body axes, (k, nv)."""
    return directions @ jacobian[3:] + jnp.cross(point, directions) @ jacobian[:3]


def _require_symmetry(model: Model, generators: PointFunction) -> None:
    """Raise `ModelError` for a direction along which no velocity moves all bodies that have mass.

    It must not move a joint with armature, either, whose rotor is as if fixed to the ground.
    """
    points = np.stack([model.neutral(), model.random(np.random.default_rng(0))])
    both = compiled(jax.vmap(lambda q: (generators(q), model.definition.jacobians_at(q))))(points)
    weights = _roots(model.definition.inertias)
    for moved, jacobians in zip(*(np.asarray(each) for each in both), strict=True):
        still = np.zeros((len(weights) - len(moved), *moved.shape[1:]))
        twists = np.concatenate([moved, still]), jacobians.reshape(-1, 6, model.nv)
        wanted, A = (np.concatenate(weights @ each) for each in twists)
        A = A / np.linalg.norm(A, axis=0)
        gaps = np.abs(wanted - A @ np.linalg.lstsq(A, wanted, rcond=None)[0]).max(axis=0)
        if not (gaps <= _SYMMETRY * np.abs(wanted).max(axis=0)).all():
            raise ModelError(
                f"direction {int(np.argmax(gaps))} of the momentum: no velocity of the robot moves all its "
                "bodies along it, and no joint that has armature, so that this momentum is not conserved"
            )


def _roots(inertias: np.ndarray) -> np.ndarray:
    """(N, 6, 6): [sqrt(|I_c|) omega; sqrt(m) u_c] of the twists of bodies, c the centre of mass."""
    roots = np.zeros_like(inertias)
    for root, inertia in zip(roots, inertias, strict=True):
        m, hx = inertia[5, 5], inertia[:3, 3:]
        about_center = inertia[:3, :3] + (hx @ hx / m if m > 0.0 else 0.0)
        root[:3, :3] = np.sqrt(np.linalg.norm(about_center)) * np.eye(3)
        if m > 0.0:
            root[3:] = np.concatenate([-hx, m * np.eye(3)], axis=1) / np.sqrt(m)
    return roots


def _title(contact: Any) -> str:
    return f"{type(contact).__name__} on body '{contact.body}'"


def _require_vectors(contact: Contact, directions: Sequence[str], points: Sequence[str]) -> None:
    """Replace fields by tuples of three finite numbers, directions scaled to unit length."""
    require_text("body", contact.body)
    for name in (*directions, *points):
        try:
            vector = np.asarray(as_array(name, getattr(contact, name), (None,)))
        except (TypeError, ValueError) as error:
            raise ModelError(f"{_title(contact)}: {name} must be three numbers") from error
        if vector.shape != (3,) or not np.isfinite(vector).all():
            raise ModelError(f"{_title(contact)}: {name} must be three finite numbers, got {vector}")
        if name in directions:
            if not np.linalg.norm(vector) > 0.0:
                raise ModelError(f"{_title(contact)}: {name} is a direction and must not be zero")
            vector = vector / np.linalg.norm(vector)
        object.__setattr__(contact, name, tuple(vector.tolist()))


def _require_radius(contact: Wheel | Ball) -> None:
    try:
        radius = as_number("radius", contact.radius)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{_title(contact)}: {error}") from error
    if not radius > 0.0:
        raise ModelError(f"{_title(contact)}: the radius must be positive, got {radius:g}")


def _require_directions(contact: Wheel | Ball, known: tuple[str, ...]) -> None:
    given = contact.directions
    names = (given,) if isinstance(given, str) else require_names("directions", given)
    if not names or len(set(names)) < len(names) or not set(names) <= set(known):
        raise ModelError(f"{_title(contact)}: directions must be some of {', '.join(known)}, got {given!r}")
    object.__setattr__(contact, "directions", names)
