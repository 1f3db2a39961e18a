"""Payloads of robots: bodies that a robot carries, and inertia that a law does not know.

    H a_r + C_gamma(q, v) v_r + g = known force + Y pi,    pi: ten parameters for each body that carries some.

The regressor Y is one recursion in O(N), and belongs to C*; each unknown armature adds a column by another.
Torsion adds a skew matrix to C that vanishes on v, whatever inertias it is computed with. So it is computed
with the known inertias only, and the Lyapunov function of the adaptive law still falls by s^T K_D s.
Source: Slotine and Li (1987); [W] IV-A.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections._words import no_such
from connections.checks import (
    ModelError,
    ShapeError,
    as_array,
    is_traced,
    require_finite,
    require_text,
    require_type,
)
from connections.control.laws.inertia_cone import InertiaCone
from connections.control.laws.parametrization import ParametrizedPlant
from connections.evaluation.boundary import returns_input_kind
from connections.evaluation.parameters import Parametrized
from connections.geometry import FrameField
from connections.multibody import Model, TracedModel, inertial_parameters, regressor
from connections.multibody.as_geometry.robot_system import RobotSystem
from connections.multibody.definition.frames import body_of, frame_of
from connections.multibody.inertia import InertiaWarning, body_inertia, inertia_flaw
from connections.multibody.joints.armature import rotor_axes
from connections.multibody.model import require_model, with_inertias

PARAMETERS = 10  # m, h (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz of a body


@dataclass(frozen=True, eq=False)
class UnknownInertia(ParametrizedPlant, Parametrized):
    """Some bodies of a robot carry additional inertia that a controller does not know.

    Parameters
    ----------
    system : ``model.system()``, the robot as it is known, torsion included.
    bodies : names of the bodies with unknown additional inertia, in the order in which pi stacks them.
    armature : names of joints with unknown additional armature, kg m^2 or kg: one number for each velocity
        component of the joint, but one for all three angular components of a spherical or free joint, and one
        for the linear ones. They follow the bodies.
    basis : (10 B + A, p), for what is known of the unknown: pi = basis @ theta, and theta (p,) are the
        parameters. Columns of the unit matrix leave known entries out; a symmetric body, or bodies that are
        alike, have columns of several entries. None for theta = pi.

    For each body, pi has the ten parameters of `multibody.regressor`; they are additions to the model's.

    Raises
    ------
    ModelError : the robot has no such body or joint, or none is given.
    ShapeError, NonFiniteError : of `basis`; ValueError : its columns depend on each other.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> family = control.UnknownInertia(robot.system(), ["tool"])
    >>> q, zero = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]), np.zeros(6)
    >>> family.regressor(q, zero, zero, zero).shape
    (6, 10)
    >>> np.allclose(family.known_force(q, zero, zero, zero), mb.gravity(robot, q))
    True

    Source: Slotine and Li (1987); [W] IV-A.
    """

    system: RobotSystem
    bodies: Sequence[str]
    armature: Sequence[str] = field(default=(), kw_only=True)
    basis: Any = field(default=None, kw_only=True)
    cone: InertiaCone = field(init=False, repr=False)
    _columns: np.ndarray = field(init=False, repr=False)
    _rotors: tuple[RobotSystem, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_type("system", self.system, RobotSystem, "write UnknownInertia(model.system(), bodies)")
        model: Any = self.system.model
        bodies = _names("bodies", self.bodies)
        if not bodies:
            raise ModelError(f"bodies: expected a list of names of bodies, got {self.bodies!r}")
        joints = _names("armature", self.armature)
        for name in joints:
            if name not in model.armature:
                raise ModelError("armature: " + no_such("joint", name, tuple(model.armature)))
        columns: Any = np.concatenate(
            [PARAMETERS * body_of(model.kinematics.tree, name) + np.arange(PARAMETERS) for name in bodies]
        )
        components = [(name, axes) for name in joints for axes in _rotor_axes(model, name)]
        rotors = tuple(_rotor(model, *component) for component in components)
        known = np.append(
            inertial_parameters(model).ravel()[columns],
            [model.armature[name][axes[0]] for name, axes in components],
        )
        basis = None if self.basis is None else _checked_basis(self.basis, len(known))
        for name, value in (
            ("bodies", bodies),
            ("armature", joints),
            ("basis", basis),
            ("cone", InertiaCone(bodies, tuple(name for name, _ in components), known, basis)),
            ("_columns", columns),
            ("_rotors", rotors),
        ):
            object.__setattr__(self, name, value)

    @property
    def frame(self) -> FrameField:
        """The robot's frame."""
        return self.system.frame

    @property
    def size(self) -> int:
        """The number p of parameters, 10 for each body and 1 for each armature, or the columns of `basis`."""
        return len(self._columns) + len(self._rotors) if self.basis is None else int(self.basis.shape[1])

    def known_force(self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike) -> Any:
        """H a_r + C_gamma v_r + g of the robot as it is known, (..., nv)."""
        return self.system.reference_force(q, v, v_r, a_r)

    @returns_input_kind
    def regressor(self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike) -> np.ndarray:
        """Y, (..., nv, p): what the unknown inertia adds to H a_r + C* v_r + g is Y times the parameters.

        Parameters
        ----------
        q : (..., nq) configurations.
        v, v_r, a_r : (..., nv) velocity, reference velocity and its rate.
        """
        model: Any = self.system.model
        Y = regressor(model, q, v, v_r, a_r)[..., self._columns]
        if self._rotors:
            more = [rotor.reference_force(q, v, v_r, a_r) for rotor in self._rotors]
            Y = np.concatenate([Y, np.stack(more, axis=-1)], axis=-1)
        return Y if self.basis is None else Y @ self.basis

    def regressor_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """Y (nv, p) at one point."""
        model: Any = self.system.model
        Y: jax.Array = model.traced("regressor", q, v, v_r, a_r)[:, self._columns]
        if self._rotors:
            more = [rotor.reference_force_at(q, v, v_r, a_r) for rotor in self._rotors]
            Y = jnp.concatenate([Y, jnp.stack(more, axis=-1)], axis=-1)
        return Y if self.basis is None else Y @ self.basis

    def known_force_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """H a_r + C_gamma v_r + g of the robot as it is known, (nv,)."""
        return self.system.reference_force_at(q, v, v_r, a_r)

    def plant(self, parameters: Any) -> RobotSystem:
        """The robot with what the parameters (p,) add."""
        model: Any = self.system.model
        given = np.asarray(as_array("parameters", parameters, (self.size,)))
        require_finite("parameters", given)
        if given.ndim != 1:
            raise ShapeError("parameters", (self.size,), given.shape)
        added = given if self.basis is None else self.basis @ given
        inertias = inertial_parameters(model).copy()
        inertias.reshape(-1)[self._columns] += added[: len(self._columns)]
        loaded = model.with_inertial_parameters(inertias)
        if self.armature:
            armature = {name: model.armature[name].copy() for name in self.armature}
            components = [(name, axes) for name in self.armature for axes in _rotor_axes(model, name)]
            for (name, axes), more in zip(components, added[len(self._columns) :], strict=True):
                armature[name][axes] += more
            loaded = loaded.with_armature(armature)
        return cast("RobotSystem", loaded.system())


def with_payload(
    model: Model | TracedModel, body: str, mass: float, center_of_mass: Any, inertia: Any = None
) -> Model:
    """The robot with something rigidly attached to one of its frames; loops and couplings remain.

    Parameters
    ----------
    model : the robot.
    body : the body that carries it, or another frame of the robot, such as a link that a fixed joint ties to
        a body.
    mass : kg.
    center_of_mass : (3,) m, in the axes of the body or frame from its origin.
    inertia : (3, 3) kg m^2 about the payload's centre of mass, in the same axes; zero if None.

    Where JAX traces one of these, the robot is a `multibody.TracedModel`, and only shapes are checked.

    Raises
    ------
    ModelError : there is no such body or frame, or it is fixed to the ground; the mass is negative, or a
        number is not finite.
    TypeError, ValueError : `body` is not the name of a body.

    Warns
    -----
    InertiaWarning : no distribution of mass has this inertia.

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> loaded = control.with_payload(robot, "tool", 2.0, (0.0, 0.0, 0.05))
    >>> round(mb.total_mass(loaded) - mb.total_mass(robot), 9)
    2.0
    >>> control.with_payload(robot, "gripper", 2.0, (0.0, 0.0, 0.05))
    Traceback (most recent call last):
        ...
    connections.checks.ModelError: there is no body 'gripper'. The bodies are shoulder, upper_arm,
    forearm, wrist, hand, tool
    """
    if not isinstance(model, TracedModel):
        require_model("with_payload", model)
    if isinstance(model, TracedModel) or is_traced(mass, center_of_mass, inertia):
        return cast("Model", _with_traced_payload(model, body, mass, center_of_mass, inertia))
    number, placement = _carrier(model, body)
    inertia = np.zeros((3, 3)) if inertia is None else inertia
    payload = body_inertia(body, mass, center_of_mass, inertia)
    if body not in model.body_names:
        payload = payload.seen_from(placement[:3, :3], placement[:3, 3])
    flaw = inertia_flaw(np.asarray(inertia, dtype=np.float64), mass, center_of_mass)
    if flaw:
        warnings.warn(f"payload of body '{body}': inertia {flaw}", InertiaWarning, stacklevel=2)
    inertias = model.kinematics.tree.inertias.copy()
    inertias[number] += payload.matrix
    return with_inertias(model, inertias)


def _with_traced_payload(model: Any, body: str, mass: Any, center_of_mass: Any, inertia: Any) -> Any:
    number, placement = _carrier(model, body)
    given = [
        as_array(name, value, shape)
        for name, value, shape in (
            ("mass", mass, ()),
            ("center_of_mass", center_of_mass, (3,)),
            ("inertia", np.zeros((3, 3)) if inertia is None else inertia, (3, 3)),
        )
    ]
    m, c, about_center = map(jnp.asarray, given)
    if body not in model.body_names:
        R, p = placement[:3, :3], placement[:3, 3]
        c, about_center = R @ c + p, R @ about_center @ R.T
    rotational = about_center + m * ((c @ c) * jnp.eye(3) - jnp.outer(c, c))
    row = jnp.concatenate([m[None], m * c, rotational[np.tril_indices(3)]])
    parameters = jnp.asarray(inertial_parameters(model)).at[number].add(row)
    return model.with_inertial_parameters(parameters)


def _names(argument: str, given: Any) -> tuple[str, ...]:
    """The names as a tuple; `ModelError` if they are no list of different names."""
    if (
        isinstance(given, str)
        or not isinstance(given, Sequence)
        or not all(isinstance(x, str) for x in given)
    ):
        what = "bodies" if argument == "bodies" else "joints"
        raise ModelError(f"{argument}: expected a list of names of {what}, got {given!r}")
    for name in given:
        if list(given).count(name) > 1:
            raise ModelError(f"{argument}: '{name}' is given twice")
    return tuple(given)


def _rotor_axes(model: Any, joint: str) -> list[list[int]]:
    """The velocity components of a joint of the robot, in groups that have one armature each."""
    tree = model.kinematics.tree
    return rotor_axes(tree.joints[tree.joint_names.index(joint)])


def _rotor(model: Any, joint: str, axes: list[int]) -> RobotSystem:
    """The robot without weight and inertia, but with a unit of armature at these components of a joint."""
    armature = {name: np.zeros_like(value) for name, value in model.armature.items()}
    armature[joint][axes] = 1.0
    alone = with_inertias(model, np.zeros_like(model.kinematics.tree.inertias)).with_armature(armature)
    return cast("RobotSystem", alone.with_gravity((0.0, 0.0, 0.0)).system())


def _checked_basis(basis: Any, size: int) -> np.ndarray:
    matrix = np.array(as_array("basis", basis, (size, None)))
    if matrix.ndim != 2 or not matrix.size:
        raise ShapeError("basis", (size, "p"), matrix.shape)
    require_finite("basis", matrix)
    columns = matrix / np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    if not np.linalg.matrix_rank(columns) == matrix.shape[1]:
        raise ValueError("basis: its columns are not linearly independent")
    return matrix


def _carrier(model: Model | TracedModel, frame: str) -> tuple[int, np.ndarray]:
    """The number of the body that carries a frame, and the frame's placement in it, (4, 4), m."""
    require_text("body", frame)
    if isinstance(model, TracedModel) and frame in model.further_frames:
        number, placement = model.fixed(frame)
    elif frame in model.kinematics.tree.placements:
        number, placement = frame_of(model.kinematics.tree, frame)
    else:
        raise ModelError(no_such("body", frame, model.body_names))
    if number < 0:
        raise ModelError(f"body: '{frame}' is fixed to the ground, which no payload moves")
    return number, placement
