"""Differences of configurations in frame components, and the configurations at given differences.

    q1 = q0 exp(xi),    joint by joint:

| joint | xi | exp |
|---|---|---|
| v = qdot | q1 - q0; angles are not wrapped | q0 + xi |
| spherical | rotation vector of R0^T R1 by the shortest way, rad | q0 * exp(xi) |
| free | logarithm in SE(3) of T0^-1 T1, [omega; v] | T0 exp(xi): the constant twist xi for a unit of time |

To first order xi is the eta of `linearize`, the perturbation along the frame fields. Rotations repeat after a
full turn; xi is the shortest way, which is unique for less than half a turn, and jumps at half a turn. With
NumPy arrays nothing is compiled; where JAX traces, `difference` and `displace` are functions of JAX.
Source: [B], left-trivialized differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.checks import (
    ShapeError,
    as_array,
    as_number,
    batch_axes,
    finite_result,
    is_traced,
    require_bool,
    require_finite,
    require_function,
    require_untraced,
)
from connections.evaluation.boundary import float_of, returns_input_kind
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.model import Model, require_model
from connections.multibody.program.closed import SolvedLoops, coordinates_of


@returns_input_kind
def difference(model: Model, q0: ArrayLike | SolvedLoops, q1: ArrayLike | SolvedLoops) -> np.ndarray:
    """xi (..., nv) with q1 = q0 exp(xi), joint by joint; rad and m.

    Parameters
    ----------
    model : the robot; for closed chains, the differences are those of the independent joints.
    q0, q1 : (..., nq) configurations, or `SolvedLoops`; leading axes broadcast. q and -q of a quaternion are
        one rotation.

    Raises
    ------
    ShapeError, NonFiniteError, PointError (a quaternion of norm other than one), TypeError.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot = mb.example("quadruped")
    >>> q0, q1 = robot.random(0), robot.random(1)
    >>> xi = mb.difference(robot, q0, q1)
    >>> xi.shape
    (18,)
    >>> float(abs(mb.difference(robot, q1, mb.displace(robot, q0, xi))).max().round(9))
    0.0

    Source: [B]; the left-trivialized difference.
    """
    require_model("difference", model)
    q0, q1 = (coordinates_of(q, model.kinematics, name) for q, name in ((q0, "q0"), (q1, "q1")))
    if is_traced(q0, q1):
        return _traced(model, "difference_at", {"q0": q0, "q1": q1})
    start, end = configuration(model.kinematics, "q0", q0), configuration(model.kinematics, "q1", q1)
    batch = batch_axes(("q0", "q1"), (start, end))
    xi = np.empty((*batch, model.nv))
    for joint, _, at_q, at_v in model.kinematics.elements:
        xi[..., at_v] = joint.difference(start[..., at_q], end[..., at_q])
    return xi


@returns_input_kind
def displace(model: Model, q: ArrayLike | SolvedLoops, xi: ArrayLike) -> np.ndarray:
    """q exp(xi), (..., nq), joint by joint: the inverse of `difference` up to half a turn.

    Parameters
    ----------
    model : the robot; for closed chains, the independent joints are displaced, and loops are not checked.
    q : (..., nq) configurations, or `SolvedLoops`.
    xi : (..., nv) displacements in the model's frame, rad and m; leading axes broadcast.

    Raises
    ------
    ShapeError, NonFiniteError, PointError (a quaternion of norm other than one), TypeError.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot = mb.example("quadruped")
    >>> quarter_turn = np.eye(18)[2] * np.pi / 2  # of the trunk, about z
    >>> mb.displace(robot, robot.neutral(), quarter_turn)[:7].round(4)
    array([0.    , 0.    , 0.    , 0.    , 0.    , 0.7071, 0.7071])

    Source: [B].
    """
    require_model("displace", model)
    q = coordinates_of(q, model.kinematics)
    if is_traced(q, xi):
        return _traced(model, "displaced_at", {"q": q, "xi": xi})
    start, step = configuration(model.kinematics, "q", q), np.asarray(as_array("xi", xi, (model.nv,)))
    require_finite("xi", step)
    batch = batch_axes(("q", "xi"), (start, step))
    moved = np.empty((*batch, model.nq))
    for joint, _, at_q, at_v in model.kinematics.elements:
        moved[..., at_q] = joint.displaced(start[..., at_q], step[..., at_v])
    finite_result("q exp(xi)", moved)
    return moved


def finite_differences(
    model: Model,
    function: Callable[[np.ndarray], Any],
    q: ArrayLike | SolvedLoops,
    step: float,
    *,
    central: bool = True,
) -> np.ndarray:
    """Geometric finite differences of `function` along the frame fields, (..., nv), the direction last.

    (f(q exp(h e_j)) - f(q exp(-h e_j))) / 2h, or (f(q exp(h e_j)) - f(q)) / h: errors of the order h^2 and h.

    Parameters
    ----------
    model : the robot.
    function : (k, nq) configurations -> (k, ...).
    q : (nq,) a configuration, or `SolvedLoops`.
    step : h, rad and m.
    central : whether to step both ways.

    Raises
    ------
    ShapeError, NonFiniteError, PointError; ValueError : the step is not a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> q = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0])
    >>> def height(q):
    ...     return mb.frame_pose(robot, q, "tool")[..., 2, 3]
    ...
    >>> slope = mb.finite_differences(robot, height, q, 1e-4)
    >>> np.allclose(slope, mb.frame_jacobian(robot, q, "tool", axes="world")[5], atol=1e-7)
    True

    Source: [B], numerical validation.
    """
    require_model("finite_differences", model)
    require_function("function", function, "q (k, nq) -> (k, ...)")
    require_untraced(q=q)
    require_bool("central", central)
    h = positive_step(step, "rad and m")
    q = np.asarray(as_array("q", coordinates_of(q, model.kinematics), (model.nq,)))
    if q.ndim != 1:
        raise ShapeError("q", (model.nq,), q.shape)
    forward = h * np.eye(model.nv)
    points = [displace(model, q, forward), displace(model, q, -forward if central else 0.0 * forward[:1])]
    ahead, behind = (np.asarray(as_array("function(q)", function(point), ())) for point in points)
    for value, point in ((ahead, points[0]), (behind, points[1])):
        if value.shape[:1] != (len(point),) or value.shape[1:] != ahead.shape[1:]:
            raise ShapeError("function(q)", (len(point), "..."), value.shape)
    return np.moveaxis((ahead - behind) / (2.0 * h if central else h), 0, -1)


def _traced(model: Model, method: str, given: dict[str, Any]) -> np.ndarray:
    """The results of a method of all joints, where JAX traces; NaN if a point is no configuration.

    The method is `difference_at` of q0 and q1, with a result like v, or `displaced_at` of q and xi, with one
    like q. Only `xi` is a vector of the frame; all other names are those of points.
    """
    elements, frame = model.kinematics.elements, model.kinematics.joint_frame
    are_points = [name != "xi" for name in given]
    arrays = [
        as_array(name, x, (model.nq if is_point else model.nv,))
        for (name, x), is_point in zip(given.items(), are_points, strict=True)
    ]
    batch = batch_axes(tuple(given), arrays)

    def at(*vectors: jax.Array) -> jax.Array:
        pairs = [*zip(vectors, are_points, strict=True)]
        near = jnp.all(jnp.stack([frame.near_at(x) for x, is_point in pairs if is_point]))
        there = [(frame.project_at(x) if is_point else x, is_point) for x, is_point in pairs]
        result = jnp.zeros(model.nv if all(are_points) else model.nq)
        for joint, _, at_q, at_v in elements:
            own = (x[at_q if is_point else at_v] for x, is_point in there)
            result = result.at[at_v if all(are_points) else at_q].set(getattr(joint, method)(*own))
        return jnp.where(near, result, jnp.nan)

    for _ in batch:
        at = jax.vmap(at)
    rows = [jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in arrays]
    return cast("np.ndarray", at(*rows).astype(float_of(*given.values())))


def positive_step(step: Any, unit: str) -> float:
    """`step` as a positive finite number.

    Raises
    ------
    ValueError : it is not a positive finite number; the message says in which unit it is expected.
    """
    try:
        h = as_number("step", step)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{error}; {unit}") from error
    if not h > 0.0:
        raise ValueError(f"step: expected a positive number, {unit}, got {h:g}")
    return h
