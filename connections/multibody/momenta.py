"""Kinetic energy, and the momentum of all bodies about their common centre of mass.

With the spatial inertia I_b, the Jacobian A_b and the pose (R_b, p_b) of each body, and the centre of mass c,

    T = v^T H v / 2,    h = sum_b X_b I_b A_b v = A_G v,    X_b [n; f] = [R_b n + (p_b - c) x R_b f; R_b f],

h = [k; l], the angular momentum k about c and the linear momentum l in world axes. Armature is part of T, and
not of h, which is that of the bodies.
Source: Orin, Goswami and Lee 2013; Featherstone, Rigid Body Dynamics Algorithms, chapter 2.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.checks import as_array, is_traced, require_finite
from connections.evaluation.boundary import returns_input_kind
from connections.multibody.definition.recursions import spatial_inertias
from connections.multibody.functions import (
    body_jacobians,
    center_of_mass,
    center_of_mass_jacobian,
    closed_once,
    forward_kinematics,
    frame_jacobian_rate,
    product,
    structure_of,
)
from connections.multibody.model import Model, require_model
from connections.multibody.program.closed import SolvedLoops


@returns_input_kind
def kinetic_energy(model: Model, q: ArrayLike | SolvedLoops, v: ArrayLike) -> np.ndarray:
    """T = v^T H v / 2, (...), J, without forming H.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations, or `SolvedLoops`, whose loops are solved.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ClosureError, TypeError.

    Where JAX traces an argument, the result is NaN instead of an error about numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot = mb.example("quadruped")
    >>> v = np.eye(18)[3]  # 1 m/s forwards
    >>> bool(np.isclose(mb.kinetic_energy(robot, robot.neutral(), v), mb.total_mass(robot) / 2))
    True

    Source: [W] II.
    """
    require_model("kinetic_energy", structure_of(model))
    v = as_array("v", v, (model.nv,))
    require_finite("v", v)
    zero = np.zeros(model.nv)
    weightless = model.weightless if isinstance(model, Model) else model.with_gravity((0.0, 0.0, 0.0))
    p = weightless.program.functions["inverse_dynamics"](q, zero, v, (), None)
    energy: np.ndarray = 0.5 * (p * v).sum(-1)
    return energy


@returns_input_kind
def centroidal_momentum(model: Model, q: ArrayLike | SolvedLoops, v: ArrayLike) -> np.ndarray:
    """h = A_G v, (..., 6), [angular; linear], N m s and N s, about the centre of mass, in world axes.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations, or `SolvedLoops`, whose loops are solved.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ClosureError, TypeError.

    Where JAX traces an argument, the result is NaN instead of an error about numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot = mb.example("quadruped")
    >>> v = np.eye(18)[3]  # 1 m/s forwards
    >>> bool(np.isclose(mb.centroidal_momentum(robot, robot.neutral(), v)[3], mb.total_mass(robot)))
    True

    Source: Orin, Goswami and Lee 2013.
    """
    require_model("centroidal_momentum", structure_of(model))
    v = as_array("v", v, (model.nv,))
    require_finite("v", v)
    h: np.ndarray = product(centroidal_momentum_matrix(model, q), v)
    return h


@returns_input_kind
def centroidal_momentum_matrix(model: Model, q: ArrayLike | SolvedLoops) -> np.ndarray:
    """A_G, (..., 6, nv): the centroidal momentum [angular; linear] is A_G v; world axes.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations, or `SolvedLoops`, whose loops are solved.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ClosureError, TypeError.

    Where JAX traces an argument, the result is NaN instead of an error about numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot = mb.example("quadruped")
    >>> v = np.eye(18)[3]  # 1 m/s forwards
    >>> h = mb.centroidal_momentum_matrix(robot, robot.neutral()) @ v
    >>> np.allclose(h, mb.centroidal_momentum(robot, robot.neutral(), v))
    True

    Source: Orin, Goswami and Lee 2013.
    """
    require_model("centroidal_momentum_matrix", structure_of(model))
    numbers, q = _numbers(model, q)
    (k, p), R, arm = _of_bodies(model, numbers, q)
    matrix: np.ndarray = _about_the_center(numbers, R @ k, R @ p, arm)
    return matrix


@returns_input_kind
def centroidal_momentum_matrix_rate(model: Model, q: ArrayLike | SolvedLoops, v: Any) -> np.ndarray:
    """dA_G/dt along v, (..., 6, nv): the rate of the centroidal momentum is A_G vdot + (dA_G/dt) v.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations, or `SolvedLoops`, whose loops are solved.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ClosureError, TypeError.

    Where JAX traces an argument, the result is NaN instead of an error about numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot = mb.example("quadruped")
    >>> v = np.eye(18)[3]  # 1 m/s forwards
    >>> mb.centroidal_momentum_matrix_rate(robot, robot.neutral(), v).shape
    (6, 18)

    Source: Orin, Goswami and Lee 2013.
    """
    require_model("centroidal_momentum_matrix_rate", structure_of(model))
    numbers, q = _numbers(model, q, v)
    (k, p), R, arm = _of_bodies(model, numbers, q)
    A = body_jacobians(model, q)
    rates = [frame_jacobian_rate(model, q, v, body) for body in model.body_names]
    momenta_rates = _inertias(model) @ numbers.stack(rates, axis=-3)
    v = numbers.asarray(v)
    twists = product(A.reshape(*A.shape[:-2], -1, 6, model.nv), v[..., None, :])
    spin = twists[..., :3, None]  # R' x = R (spin cross x)
    velocities = product(R, twists[..., 3:]) - product(center_of_mass_jacobian(model, q), v)[..., None, :]
    k_rate, p_rate = (
        R @ (numbers.cross(spin, part, axis=-2) + rate)
        for part, rate in ((k, momenta_rates[..., :3, :]), (p, momenta_rates[..., 3:, :]))
    )
    moving = numbers.cross(velocities[..., None], R @ p, axis=-2)
    rate: np.ndarray = _about_the_center(numbers, k_rate + moving, p_rate, arm)
    return rate


def _numbers(model: Model, q: Any, *vectors: Any) -> tuple[ModuleType, Any]:
    """NumPy or JAX, and q, whose loops are solved once."""
    traced = is_traced(q, *vectors)
    numbers = jnp if traced or structure_of(model) is not model else np
    return numbers, closed_once(model, q)


def _inertias(model: Any) -> Any:
    """Spatial inertias (N, 6, 6) of the bodies."""
    if isinstance(model, Model):
        return model.kinematics.tree.inertias
    return spatial_inertias(model.parameters.reshape(-1))


def _of_bodies(model: Model, numbers: ModuleType, q: Any) -> tuple[tuple[Any, Any], Any, Any]:
    """Momenta of bodies per velocity, (..., N, 3, nv) each, in body axes; R; and p - c, (..., N, 3)."""
    A, poses = body_jacobians(model, q), forward_kinematics(model, q)
    momenta = _inertias(model) @ A.reshape(*A.shape[:-2], -1, 6, model.nv)
    arm = poses[..., :3, 3] - center_of_mass(model, q)[..., None, :]
    return (momenta[..., :3, :], momenta[..., 3:, :]), poses[..., :3, :3], arm


def _about_the_center(numbers: ModuleType, k: Any, p: Any, arm: Any) -> Any:
    """The sum over bodies of momenta in world axes about their origins, (..., N, 3, nv) each."""
    angular = k + numbers.cross(arm[..., None], p, axis=-2)
    return numbers.concatenate([angular.sum(-3), p.sum(-3)], axis=-2)
