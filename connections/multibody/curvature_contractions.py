"""Curvatures of a robot by its recursions: sectional, Ricci and scalar ones of its metric H, R with torsion.

With K(w) of `curvature_operator`, a^T K(w) b = <<R(a, w) w, b>>, and |u|^2 = u^T H u,

    sectional curvature = u^T K(w) u / (|u|^2 |w|^2 - <<u, w>>^2),    Ric(w, w) = tr(H^-1 K(w)).

Arguments and errors are those of the recursions (`connections.multibody.functions`).
Source: [W] (8) for the connection; the contractions of the curvature tensor are the usual ones.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.checks import (
    PointError,
    as_array,
    batch_axes,
    finite_result,
    is_traced,
    raise_at,
    require_finite,
)
from connections.evaluation.boundary import returns_input_kind
from connections.evaluation.memory_chunks import piece_size
from connections.multibody.functions import (
    christoffel_derivatives,
    christoffel_symbols,
    curvature,
    curvature_operator,
    inverse_mass_matrix,
    mass_matrix,
)
from connections.multibody.model import Model, require_model, solved
from connections.multibody.program.closed import SolvedLoops, rows_of

_LEAST_SINE = 1e-7  # round-off of a plane whose vectors are closer is above 1e-9 of the result
_LARGEST = 32  # velocities, above which Ric is found without the nv^4 numbers of R


@returns_input_kind
def curvature_with_torsion(model: Model, q: ArrayLike | SolvedLoops) -> np.ndarray:
    """R[i, j, k, l] = <<R(X_k, X_l) X_j, X_i>> of the connection with torsion, (..., nv, nv, nv, nv).

    Its C is that of the body-level factor (v x*) I, ``coriolis_matrix(..., body_factor="force_cross")``;
    `curvature` is the tensor without torsion. R is antisymmetric in i, j, because the connection keeps the
    metric, and in k, l. It has no other symmetry: pairs cannot be exchanged, and the first Bianchi identity
    has terms of torsion.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations, or `SolvedLoops`.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, MetricError (H is singular), ClosureError, TypeError,
    MemoryError : as the recursions.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> mb.curvatures.curvature_with_torsion(robot, robot.neutral()).shape
    (6, 6, 6, 6)

    Source: [W] (8); the formula is derived in docs/curvature.md.
    """
    require_model("curvature_with_torsion", model)
    q = solved(model, q)
    n = model.nv
    inverse = inverse_mass_matrix(model, q)
    change = christoffel_derivatives(model, q, body_factor="force_cross")
    Gamma = christoffel_symbols(model, q, body_factor="force_cross")
    numbers = jnp if is_traced(Gamma) else np
    batch = Gamma.shape[:-3]
    flat = Gamma.reshape(*batch, n, n * n)  # Gamma_p(ki)
    products = numbers.swapaxes(flat, -1, -2) @ (inverse @ flat)
    # R_ijkl = half_ijkl - half_ijlk, half_ijkl = L_k Gamma_ilj - Gamma_pki H^pq Gamma_qlj - Gamma*_pkl H^pq
    # Gamma_iqj: the last term is that of the brackets, s_pkl = Gamma*_pkl - Gamma*_plk, without torsion.
    star = christoffel_symbols(model, q).reshape(flat.shape)
    brackets = numbers.swapaxes(Gamma, -1, -2).reshape(*batch, n * n, n) @ (inverse @ star)
    half = numbers.einsum("...iljk->...ijkl", change)
    half = half - numbers.einsum("...kilj->...ijkl", products.reshape(change.shape))
    half = half - brackets.reshape(change.shape)
    R: np.ndarray = half - numbers.swapaxes(half, -1, -2)
    return R


@returns_input_kind
def sectional_curvature(model: Model, q: ArrayLike | SolvedLoops, u: ArrayLike, w: ArrayLike) -> np.ndarray:
    """<<R(u, w) w, u>> / (|u|^2 |w|^2 - <<u, w>>^2), (...,), in 1 / (kg m^2): the curvature of a plane.

    Two free motions that leave q with the velocities u and w come together if it is positive.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations, or `SolvedLoops`.
    u, w : (..., nv) two independent vectors in the model's frame, rad/s and m/s; leading axes broadcast.

    Raises
    ------
    ShapeError, NonFiniteError, MetricError (H is singular), ClosureError, TypeError : as the recursions.
    PointError : u and w are parallel, or one of them is zero, so that they span no plane; also a quaternion
        of norm other than one. Where JAX traces, the result is NaN.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> u, w = [1.0, 0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0, 0]
    >>> mb.curvatures.sectional_curvature(robot, robot.neutral(), u, w).shape
    ()

    Source: [W] (8); the usual definition.
    """
    require_model("sectional_curvature", model)
    u, w = as_array("u", u, (model.nv,)), as_array("w", w, (model.nv,))
    for name, vector in (("u", u), ("w", w)):
        require_finite(name, vector)
    q = solved(model, q)
    H = mass_matrix(model, q)
    batch_axes(("q", "u", "w"), (H[..., 0] if model.nv else H.sum(-1), u, w))
    numbers = jnp if is_traced(H, u, w) else np
    # Vectors of unit length, and u without its part along w, with which K(w) vanishes.
    u, w = _unit(numbers, H, u), _unit(numbers, H, w)
    across = u - numbers.einsum("...i,...ij,...j->...", w, H, u)[..., None] * w
    square = numbers.einsum("...i,...ij,...j->...", across, H, across)
    flat = ~(square > _LEAST_SINE**2)  # also NaN, of a zero vector
    if numbers is np and flat.any():
        place = tuple(np.argwhere(flat)[0])
        angle = np.arcsin(min(1.0, np.sqrt(np.nan_to_num(square)[place])))
        point = np.broadcast_to(q.q, (*square.shape, model.nq))[place]
        what = "sectional_curvature: u and w span no plane, because one is zero, or they are parallel: "
        raise_at(PointError, f"{what}the angle between them is {angle:.3g} rad", point)
    K = curvature_operator(model, q, w)
    value = numbers.einsum("...i,...ij,...j->...", across, K, across)
    found: np.ndarray = value / numbers.where(flat, numbers.nan, square)
    return found


@returns_input_kind
def ricci(model: Model, q: ArrayLike | SolvedLoops) -> np.ndarray:
    """Ric[j, k], (..., nv, nv), symmetric: the trace of R(., X_j) X_k; dimensionless for angles.

    Ric(w, w) / |w|^2 is the sum of the sectional curvatures of nv - 1 orthogonal planes that contain w.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations, or `SolvedLoops`.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, MetricError (H is singular), ClosureError, TypeError : as the
        recursions.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> mb.curvatures.ricci(robot, robot.neutral()).shape
    (6, 6)

    Source: [W] (8); the usual definition.
    """
    require_model("ricci", model)
    q = solved(model, q)
    H = mass_matrix(model, q)
    if model.nv > _LARGEST and not is_traced(H):
        return _ricci_of_operators(model, q, H)
    if is_traced(H):
        R = curvature(model, q)
        Ric: np.ndarray = jnp.einsum("...ik,...ijkl->...jl", jnp.linalg.inv(H), R)  # type: ignore[assignment]
        return Ric
    return _ricci_of_tensors(model, q, H)


@returns_input_kind
def scalar_curvature(model: Model, q: ArrayLike | SolvedLoops) -> np.ndarray:
    """H^jk Ric_jk, (...,), in 1 / (kg m^2): twice the sum of the sectional curvatures of orthogonal planes.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations, or `SolvedLoops`.

    Raises
    ------
    As `ricci`.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> mb.curvatures.scalar_curvature(robot, robot.neutral()).shape
    ()

    Source: [W] (8); the usual definition.
    """
    require_model("scalar_curvature", model)
    q = solved(model, q)
    Ric, H = ricci(model, q), mass_matrix(model, q)
    numbers = jnp if is_traced(Ric) else np
    scalar: np.ndarray = numbers.einsum("...jk,...jk->...", numbers.linalg.inv(H), Ric)
    return scalar


def _ricci_of_tensors(model: Model, q: SolvedLoops, H: np.ndarray) -> np.ndarray:
    """Ric as traces of R, of which as many are formed at once as `memory_chunks` allows."""
    points, n = rows_of(q), model.nv
    Ric = np.empty((len(points), n, n))
    inverse = np.linalg.inv(H).reshape(Ric.shape)
    size = piece_size(len(Ric), n**4) or max(len(Ric), 1)
    for first in range(0, len(Ric), size):
        rows = slice(first, first + size)
        R = curvature(model, points[rows])
        Ric[rows] = np.einsum("...ik,...ijkl->...jl", inverse[rows], R)
    return Ric.reshape(H.shape)


def _ricci_of_operators(model: Model, q: SolvedLoops, H: np.ndarray) -> np.ndarray:
    """Ric by polarization of tr(H^-1 K(w)), a column at a time.

    The vectors w have unit kinetic energy, so that no component is lost in another's round-off.
    """
    inverse, n = np.linalg.inv(H), model.nv
    sizes = 1.0 / np.sqrt(np.einsum("...ii->...i", H))
    unit = np.eye(n) * sizes[..., None, :]

    def traces(w: np.ndarray) -> np.ndarray:
        """Ric(w, w) of rows (..., m, n)."""
        K = curvature_operator(model, q[..., None], w)
        found: np.ndarray = np.einsum("...ik,...mik->...m", inverse, K)
        return found

    squares, Ric = traces(unit), np.empty(H.shape)
    for j in range(n):
        mixed = traces(unit[..., j:, :] + unit[..., j : j + 1, :])
        column = (mixed - squares[..., j:] - squares[..., j : j + 1]) / 2.0
        column = column / (sizes[..., j:] * sizes[..., j : j + 1])
        Ric[..., j:, j] = Ric[..., j, j:] = column
    finite_result("ricci", Ric)
    return Ric


def _unit(numbers: Any, H: Any, x: Any) -> Any:
    """x divided by its length in the metric H; NaN if it is zero."""
    largest = numbers.max(numbers.abs(x), axis=-1, keepdims=True, initial=0.0)
    x = x / numbers.where(largest > 0.0, largest, numbers.nan)
    length = numbers.sqrt(numbers.einsum("...i,...ij,...j->...", x, H, x))
    unit: jax.Array | np.ndarray = x / length[..., None]
    return unit
