"""Derivatives of a robot's dynamics along its frame fields, and its linearization about any state.

``dq`` is a left-trivialized derivative: along the frame field X_j, so that a quaternion has three directions
and no singularity. With eta the perturbation of q in frame components and dv that of v,

    etadot^i = dv^i + s^i_jk eta^j v^k,    dvdot = (da/dq) eta + (da/dv) dv + H^-1 dtau.

Arguments and errors are those of the recursions (`connections.multibody.functions`).
Source: [B] Tables 4 to 9; [W] for the brackets.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm

from connections._jax import ArrayLike
from connections.checks import as_array, batch_axes, finite_result, is_traced, require_finite
from connections.evaluation.boundary import Argument, evaluate, returns_input_kind
from connections.evaluation.parameters import PytreePartial
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.frames import FrameField
from connections.multibody.displacements import positive_step
from connections.multibody.functions import documented, joined, matrices_of, plus, with_forces
from connections.multibody.model import Model, require_model
from connections.multibody.program.closed import SolvedLoops, coordinates_of


@documented
def inverse_dynamics_derivatives(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    a: ArrayLike,
    *,
    passive: bool = False,
    out: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """dtau/dq, dtau/dv and H = dtau/da, (..., nv, nv) each, of tau = H a + C v + g.

    They are views of one array (..., 3, nv, nv), which is `out` if that is given.

    Returns
    -------
    dtau_dq : entry [i, j] is the derivative of tau_i along the frame field X_j, v and a held fixed.
    dtau_dv : v enters as 2 Gamma_i(jk) v^j.
    H : the mass matrix.

    Source: [B] Tables 5 to 8.
    """
    try:
        if passive is not False:
            q, _ = with_forces(model, q, v, passive)
        stacked = model.program.functions["inverse_dynamics_derivatives"](q, v, a, (), out)
    except AttributeError:
        require_model("inverse_dynamics_derivatives", model)
        raise
    matrices: tuple[np.ndarray, np.ndarray, np.ndarray] = matrices_of(stacked)
    return _less_passive(matrices, model, q, v) if passive else matrices


@documented
def forward_dynamics_derivatives(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    passive: bool = False,
    out: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """da/dq, da/dv and H^-1 = da/dtau, (..., nv, nv) each, of a = H^-1 (tau - C v - g).

    da = -H^-1 dtau, with the derivatives dtau of the inverse dynamics at this a. The results are
    views of one array (..., 3, nv, nv), which is `out` if that is given.

    Source: [B] section on forward dynamics, Tables 5 to 9.
    """
    try:
        if passive is not False:
            q, force = with_forces(model, q, v, passive)
            tau = joined("tau", as_array("tau", tau, (model.nv,)), "forces", force)
        stacked = model.program.functions["forward_dynamics_derivatives"](q, v, tau, (), out)
    except AttributeError:
        require_model("forward_dynamics_derivatives", model)
        raise
    matrices: tuple[np.ndarray, np.ndarray, np.ndarray] = matrices_of(stacked)
    return _with_passive(matrices, model, q, v) if passive else matrices


def _less_passive(matrices: tuple[Any, Any, Any], model: Any, q: Any, v: Any) -> tuple[Any, Any, Any]:
    """Derivatives of tau less passive forces, by those of tau."""
    slopes = model.passive_slopes(q, v)
    in_q, in_v = (plus(matrix, -slope) for matrix, slope in zip(matrices[:2], slopes, strict=True))
    return in_q, in_v, matrices[2]


def _with_passive(matrices: tuple[Any, Any, Any], model: Any, q: Any, v: Any) -> tuple[Any, Any, Any]:
    """Derivatives of accelerations to which passive forces add, by those under constant forces."""
    slopes, inverse = model.passive_slopes(q, v), matrices[2]
    in_q, in_v = (plus(matrix, inverse @ slope) for matrix, slope in zip(matrices[:2], slopes, strict=True))
    return in_q, in_v, inverse


@returns_input_kind
def linearize(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    step: float | None = None,
    passive: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """A (..., 2 nv, 2 nv) and B (..., 2 nv, nv) of d/dt (eta, dv) = A (eta, dv) + B dtau, about any state.

    A = [[s(., v), 1], [da/dq, da/dv]], s(., v)^i_j = s^i_jk v^k; B = [[0], [H^-1]]. The equation of eta
    covers all joints: it is etadot = dv - ad_v eta for a free joint, and etadot = dv for joints with v =
    qdot. If a step is given, A and B are those of x_{k+1} = A x_k + B dtau_k.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations, or `SolvedLoops`.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.
    tau : (..., nv) generalized forces, N m and N.
    step : s; if given, the result is `zero_order_hold` over this step.
    passive : whether `Model.passive_forces` act, too: springs, dampers, friction, lift.

    Raises
    ------
    As `forward_dynamics_derivatives`; ValueError : the step is not a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot, q = mb.example("arm"), [0.3, -0.8, 1.2, 0.1, 0.5, 0.0]
    >>> A, B = mb.linearize(robot, q, np.zeros(6), mb.gravity(robot, q))
    >>> A.shape, B.shape
    ((12, 12), (12, 6))
    >>> np.allclose(B[6:] @ mb.mass_matrix(robot, q), np.eye(6))
    True

    Source: [B]; etadot by equality of mixed derivatives, docs/linearization.md.
    """
    if step is not None:
        step = positive_step(step, "s")
    da_dq, da_dv, inverse = forward_dynamics_derivatives(model, q, v, tau, passive=passive)
    numbers = jnp if is_traced(da_dq) else np
    one, zero = (numbers.broadcast_to(x, da_dq.shape) for x in (np.eye(model.nv), np.zeros((model.nv,) * 2)))
    of_eta = numbers.concatenate([_transport_of_velocity(model, q, v) + zero, one], axis=-1)
    of_v = numbers.concatenate([da_dq, da_dv], axis=-1)
    A = numbers.concatenate([of_eta, of_v], axis=-2)
    B = numbers.concatenate([zero, inverse], axis=-2)
    return (A, B) if step is None else zero_order_hold(A, B, step)


@returns_input_kind
def zero_order_hold(A: Any, B: Any, step: float) -> tuple[np.ndarray, np.ndarray]:
    """The pair (..., n, n), (..., n, m) over one step: exp(A h) and its integral over the step times B.

    A, B and dtau are held constant over the step. The result is exact if A and B are constant; along a
    motion, on which they change, the error of one step is of the second order in h.

    Parameters
    ----------
    A : (..., n, n) of xdot = A x + B u, 1/s.
    B : (..., n, m).
    step : h, s.

    Raises
    ------
    ShapeError, NonFiniteError; ValueError : the step is not a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> A, B = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [1.0]])  # a mass on a line
    >>> A_d, B_d = mb.zero_order_hold(A, B, 0.1)
    >>> A_d
    array([[1. , 0.1],
           [0. , 1. ]])
    >>> B_d.T.round(4)
    array([[0.005, 0.1  ]])
    """
    h = positive_step(step, "s")
    traced = is_traced(A, B)
    numbers, exponential = (jnp, jax.scipy.linalg.expm) if traced else (np, expm)
    A = numbers.asarray(as_array("A", A, (None, None)))
    n = A.shape[-1]
    A = numbers.asarray(as_array("A", A, (n, n)))
    B = numbers.asarray(as_array("B", B, (n, None)))
    require_finite("A", A)
    require_finite("B", B)
    batch, m = batch_axes(("A", "B"), [A, B], 2), B.shape[-1]
    upper = [numbers.broadcast_to(h * x, (*batch, *x.shape[-2:])) for x in (A, B)]
    block = numbers.concatenate(
        [numbers.concatenate(upper, axis=-1), numbers.zeros((*batch, m, n + m))], axis=-2
    )
    with np.errstate(all="ignore"):
        held = exponential(block)
    if traced:
        return held[..., :n, :n], held[..., :n, n:]
    finite_result("the exponential of A h", held)
    return np.ascontiguousarray(held[..., :n, :n]), np.ascontiguousarray(held[..., :n, n:])


def _transported_at(frame: FrameField, q: jax.Array, v: jax.Array) -> jax.Array:
    return frame.structure_functions_at(q) @ v


def _transport_of_velocity(model: Model, q: Any, v: Any) -> Any:
    """s^i_jk v^k, (..., n, n), [i, j]; 0.0 if the coordinates are independent."""
    frame, q = model.kinematics.joint_frame, coordinates_of(q, model.kinematics)
    if isinstance(frame, CoordinateFrame):
        return 0.0
    return evaluate(
        frame,
        PytreePartial(_transported_at, frame),
        Argument("q", q, (model.nq,)),
        Argument("v", v, (model.nv,)),
    )
