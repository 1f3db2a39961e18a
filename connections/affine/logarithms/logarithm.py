"""The logarithm of any connection, for NumPy and for JAX, with its implicit derivative.

`affine/logarithms/search.py` finds a root v of exp(q0, v) = q1. By the implicit function theorem its
derivative in q0, q1 and the connection's parameters p is the solution of

    (d exp / dv) dv = dq1 - (d exp / dq0) dq0 - (d exp / dp) dp.

Under tracing, the search is a callback to NumPy. Derivatives of any order are derivatives of this equation:
JAX differentiates the exponential at the root. Source: implicit function theorem.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array
from connections.affine.connection import AffineConnection
from connections.affine.logarithms.closed import velocities_in_closed_form
from connections.affine.logarithms.search import logarithms, shortest_geodesics
from connections.affine.logarithms.shooting import Shooting
from connections.affine.motions.geodesics import exponential
from connections.checks import as_array, is_traced, require_type
from connections.engines.internals.jax_names import trace_state_clean
from connections.evaluation.boundary import Argument, admit_at, as_given, batch_of, evaluate, projected_point
from connections.evaluation.compilation import TreeKey, compiled, flattened

_MISSED = 1e-5  # of its length: a geodesic that ends farther from q1 has no derivative


def logarithm(nabla: AffineConnection, q0: Any, q1: Any) -> Array:
    """The initial velocity of the geodesic of `nabla` that leads from q0 to q1 in unit time.

    It is searched, unless the metric of a `LeviCivita` has it in closed form (`geometry.ClosedFormMetric`).

    JAX can differentiate it, any number of times, by q0, q1 and the parameters of `nabla`.

    Parameters
    ----------
    nabla : the connection.
    q0, q1 : (..., nq) points; unit quaternions q1 and -q1 are one point, and those that differ by whole
        periods of the frame.

    Returns
    -------
    (..., n) frame components at q0. The geodesic ends at q1 within 1e-10 of its length (and the round-off of
    q1); a long one consists of pieces that join as well. It has no conjugate point before q1 or within 1e-6
    of its length behind it, and is the shortest that was found; for a connection without a metric, the one
    with the smallest initial rate qdot, in the units of q.
    If another one as short is found on the way, a `CutPointWarning` says so (not where JAX traces); nothing
    is searched for it, as by `logarithms`, which finds longer ones, too.
    Under tracing, the search is a callback to NumPy, and v is NaN where there would be an error. Derivatives
    are NaN if the geodesic is so long that v in floats does not lead to q1.

    Raises
    ------
    ConvergenceError : no such geodesic was found, or the coordinates of q1 have too few digits for it; says
        whether it would leave the domain, pass a conjugate point, or end at one.
    ShapeError, NonFiniteError, PointError, FrameError, MetricError.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> v = cn.logarithm(nabla, [0.0, 1.0], [2.0, 1.0])
    >>> v.round(4)
    array([1.2465, 1.2465])
    >>> cn.exponential(nabla, [0.0, 1.0], v).round(6)
    array([2., 1.])
    """
    require_type("nabla", nabla, AffineConnection)
    if nabla.closed_form is not None:
        return velocities_in_closed_form(nabla, nabla.closed_form, q0, q1)
    size = (nabla.frame.ambient_dim,)
    if not trace_state_clean() or is_traced(q0, q1, nabla):
        q0, q1 = as_array("q0", q0, size), as_array("q1", q1, size)
        batch = batch_of((Argument("q0", q0, size), Argument("q1", q1, size)), (q0, q1))
        rows = [jnp.broadcast_to(q, batch + size).reshape(-1, *size) for q in (q0, q1)]
        admitted = compiled(_admitted_at, nabla)(*rows)
        return jax.vmap(partial(_logarithm, *flattened(nabla)))(*admitted).reshape(batch + (nabla.frame.dim,))
    return velocities_between(nabla, q0, q1)


def velocities_between(nabla: AffineConnection, q0: Any, q1: Any, name: str | None = None) -> Array:
    """`logarithm` of points that JAX does not trace.

    Parameters
    ----------
    name : the function, in errors, for which lengths matter only: one of several velocities is good, also if
        q1 is conjugate to q0, and there is no warning. None for `logarithm`.
    """
    if nabla.closed_form is not None:
        return velocities_in_closed_form(nabla, nabla.closed_form, q0, q1, name)
    size = (nabla.frame.ambient_dim,)
    q0, q1 = as_array("q0", q0, size), as_array("q1", q1, size)
    arguments = Argument("q0", q0, size), Argument("q1", q1, size)
    batch = batch_of(arguments, (q0, q1))
    points = [evaluate(nabla, projected_point, argument) for argument in arguments]
    start, end = (np.broadcast_to(np.asarray(q), batch + size).reshape(-1, *size) for q in points)
    v: np.ndarray = logarithms(nabla, start, end, name).reshape(batch + (nabla.frame.dim,))
    return as_given(v, q0, q1)


# --- where JAX traces --------------------------------------------------------------------------------------


def _admitted_at(nabla: AffineConnection, *points: jax.Array) -> tuple[jax.Array, ...]:
    """Rows of points (m, nq) on the manifold; NaN where the connection is not valid."""

    def admitted(q: jax.Array) -> jax.Array:
        p, ok = admit_at(nabla, q)
        return jnp.where(ok, p, jnp.nan)

    return tuple(map(jax.vmap(admitted), points))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _logarithm(structure: TreeKey, numbers: list[jax.Array], q0: jax.Array, q1: jax.Array) -> jax.Array:
    """v (n,) of valid points (nq,), for the connection with this structure and these parameters; or NaN."""
    n = structure.made_of(numbers).frame.dim
    shape = jax.ShapeDtypeStruct((n,), np.float64)
    search = partial(_on_host, structure, n)
    v: jax.Array = jax.pure_callback(search, shape, numbers, q0, q1, vmap_method="expand_dims")
    return v


@_logarithm.defjvp
def _logarithm_jvp(structure: TreeKey, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    v = _logarithm(structure, *primals)
    # Without callbacks, so that JAX's cache on disk can keep the compiled function.
    slope: jax.Array = compiled(_slope_at, structure)(primals, v, tangents)
    return v, slope


def _slope_at(structure: TreeKey, primals: Any, v: jax.Array, tangents: Any) -> jax.Array:
    """The derivative of the root v (n,), for `tangents` of the parameters and of both points."""
    missed, along = jax.linearize(partial(_miss, structure), *primals, v)
    moved, still = along(*tangents, jnp.zeros_like(v)), jax.tree_util.tree_map(jnp.zeros_like, primals)
    by_v = jax.vmap(lambda w: along(*still, w), 0, 1)(jnp.eye(len(v)))
    # Solved in orthonormal bases of both ends, which are constants here, so that units do not matter.
    numbers, q0, q1 = jax.lax.stop_gradient(primals)
    shooting = Shooting(structure.made_of(numbers))
    (*_, first, basis, _, _), (*_, root, _, round_off, _) = map(shooting.ground_at, (q0, q1))
    slope: jax.Array = -basis @ jnp.linalg.solve(root @ by_v @ basis, root @ moved)
    missed, length = jnp.linalg.norm(root @ missed), jnp.linalg.norm(first @ v)
    near = jax.lax.stop_gradient(missed <= _MISSED * length + round_off)
    return slope * jnp.where(near, 1.0, jnp.nan)


def _miss(
    structure: TreeKey, numbers: list[jax.Array], q0: jax.Array, q1: jax.Array, v: jax.Array
) -> jax.Array:
    """The gap between the geodesic's end and q1, frame components there, (n,)."""
    nabla = structure.made_of(numbers)
    frame = nabla.frame
    miss: jax.Array = frame.dual_at(q1) @ (frame.align_at(exponential(nabla, q0, v), q1) - q1)
    return miss


def _on_host(structure: TreeKey, n: int, numbers: Any, q0: Any, q1: Any) -> np.ndarray:
    """v (..., n); `jax.vmap` puts its axes in front of all arguments, with size one for unbatched ones."""
    numbers, q0, q1 = [np.asarray(number) for number in numbers], np.asarray(q0), np.asarray(q1)
    axes = q0.ndim - 1
    members = np.broadcast_shapes(*(number.shape[:axes] for number in numbers), (1,) * axes)
    batch = np.broadcast_shapes(members, q0.shape[:-1], q1.shape[:-1])
    starts, ends = (np.broadcast_to(q, batch + q.shape[-1:]) for q in (q0, q1))
    v = np.full((*batch, n), np.nan)
    for member in np.ndindex(members):
        own = [number[_place(member, number.shape)] for number in numbers]
        sizes = zip(member, members, strict=True)
        rows = tuple(slice(i, i + 1) if size > 1 else slice(None) for i, size in sizes)
        v[rows] = _of_member(structure.made_of(own), starts[rows], ends[rows])
    return v


def _place(member: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(min(i, size - 1) for i, size in zip(member, shape, strict=False))


def _of_member(nabla: AffineConnection, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """v (..., n) of points (..., nq), NaN where there is none."""
    starts, ends = (q.reshape(-1, q.shape[-1]) for q in (q0, q1))
    v = np.full((len(starts), nabla.frame.dim), np.nan)
    valid = np.flatnonzero(np.isfinite(starts).all(axis=1) & np.isfinite(ends).all(axis=1))
    found, reason, _ = shortest_geodesics(nabla, starts[valid], ends[valid])
    v[valid] = np.where(reason[:, None] == 0, found, np.nan)
    return v.reshape(*q0.shape[:-1], -1)
