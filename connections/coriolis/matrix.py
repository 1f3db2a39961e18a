"""Coriolis matrices and connections: C_ik = Gamma_ijk v^j.

The velocity contracts the middle index, the direction of differentiation; only then is Hdot - 2C skew exactly
when the connection is metric compatible. Sources: [W] eqs. (10), (17), Remark 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from connections._jax import Array, ArrayLike, solve
from connections.affine.connection import AffineConnection, ConnectionOfMetric, metric_of
from connections.affine.koszul import raise_first_index
from connections.checks import (
    FrameError,
    SymmetryError,
    as_array,
    as_result,
    finite_result,
    raise_at,
    require_finite,
    require_function,
    require_shape,
    require_type,
)
from connections.coriolis.of_robots import function_of
from connections.evaluation.boundary import Argument, as_given, evaluate
from connections.evaluation.parameters import PytreePartial
from connections.geometry.metrics import Metric, require_definite
from connections.geometry.numerics.scales import FLOOR, inverse_lengths_of, lengths_of

CoriolisFunction = Callable[[jax.Array, jax.Array], jax.Array]
_PROBE = (0.61803398875, -0.41421356237, 0.73205080757, -0.23606797750)
_INDEPENDENT = 1e-9  # the least singular value of rows of unit length, relative to the largest
_LINEAR = 1e-9  # the largest error of Gamma_ijk v^j against C(q, v), per component, relative to its terms


def coriolis_matrix(
    nabla: AffineConnection | Any, q: ArrayLike, v: ArrayLike, metric: Metric | None = None
) -> Array:
    """C[..., i, k] = Gamma_ijk v^j, the Coriolis matrix of the connection `nabla`.

    Parameters
    ----------
    nabla : the connection whose C this is; `LeviCivita(metric)` gives the Christoffel-consistent one. Or a
        robot, whose C is that one, by the recursion `multibody.coriolis_matrix`.
    q : (..., nq) points.
    v : (..., n) velocities, frame components.
    metric : the kinetic-energy metric, in the connection's frame; the connection's own if None.

    Returns
    -------
    (..., n, n), in H vdot + C v + g = tau.

    Raises
    ------
    FrameError : the metric is in another frame.
    TypeError : there is no metric, neither given nor the connection's own; or one is given for a robot.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> C = cn.coriolis_matrix(nabla, [0.0, 1.0], [3.0, 4.0])
    >>> C
    array([[-4., -3.],
           [ 3., -4.]])

    Source: [W] eq. (10).
    """
    of_robot = function_of("coriolis_matrix", nabla)
    if of_robot is not None:
        if metric is not None:
            raise TypeError("metric: a robot has its own; give none")
        found: Array = of_robot(nabla, q, v)
        return found
    require_type("nabla", nabla, AffineConnection, "write coriolis_matrix(connection, q, v)")
    metric = metric_of(nabla, metric)
    point, velocity = Argument("q", q, (nabla.frame.ambient_dim,)), Argument("v", v, (nabla.frame.dim,))
    return evaluate(nabla, PytreePartial(coriolis_matrix_at, nabla, metric), point, velocity)


def coriolis_matrix_at(nabla: AffineConnection, metric: Metric, q: jax.Array, v: jax.Array) -> jax.Array:
    """C_ik = Gamma_ijk v^j at one point, (n, n); column k is H Gamma(v, e_k), no (n, n, n) tensor formed."""
    columns = jax.vmap(lambda e: nabla.apply_at(q, v, e), out_axes=1)(jnp.eye(nabla.frame.dim))
    return metric.matrix_at(q) @ columns


def induced_coriolis_matrix(C: ArrayLike, H: ArrayLike, A: Any, A_dot: ArrayLike) -> Array:
    """Cbar = A^T C A + A^T H A_dot, (..., m, m): the Coriolis matrix of the induced connection.

    If Hdot - 2C is skew, C v is right, or C is Riemannian, the same holds for Cbar.

    Parameters
    ----------
    C, H : (..., n, n) Coriolis and mass matrix in the frame of v, at v = A vbar.
    A : (..., n, m), v = A vbar.
    A_dot : (..., n, m), derivative of A along the actual motion: vbar^k L_{Xbar_k} A.

    Raises
    ------
    ShapeError, NonFiniteError.

    Examples
    --------
    A particle of 2 kg on a circle of radius 3 m: the speed along it is constant.

    >>> import numpy as np
    >>> from connections import coriolis
    >>> A, A_dot = np.array([[0.0], [3.0]]), np.array([[-3.0], [0.0]])
    >>> coriolis.induced_coriolis_matrix(np.zeros((2, 2)), 2 * np.eye(2), A, A_dot)
    array([[0.]])

    Source: [W] Thm V.1, eq. (17); Props V.1 to V.3.
    """
    A = as_array("A", A, (None, None))
    n, m = A.shape[-2:]
    C, H, A_dot = as_array("C", C, (n, n)), as_array("H", H, (n, n)), as_array("A_dot", A_dot, (n, m))
    given = {"C": C, "H": H, "A": A, "A_dot": A_dot}
    for name, value in given.items():
        require_finite(name, value)
    result = _induced_at(*map(jnp.asarray, given.values()))
    finite: jax.Array = finite_result("A^T C A + A^T H A_dot", result)
    return as_given(finite, *given.values())


def _induced_at(C: jax.Array, H: jax.Array, A: jax.Array, A_dot: jax.Array) -> jax.Array:
    """A^T (C A + H A_dot)."""
    return jnp.swapaxes(A, -1, -2) @ (C @ A + H @ A_dot)


def task_space_inclusion(H: Any, J: Any) -> tuple[Array, Array]:
    """(A, Lambda) of a task with xdot = J v: A = H^-1 J^T Lambda, Lambda = (J H^-1 J^T)^-1 = A^T H A.

    Parameters
    ----------
    H : (..., n, n) mass matrix.
    J : (..., m, n) task Jacobian of full row rank, v -> xdot.

    Returns
    -------
    A (..., n, m), with J A = 1, and Lambda (..., m, m), the task-space inertia.

    Raises
    ------
    ShapeError; FrameError : J lost rank (inside a traced function: NaN).

    Examples
    --------
    >>> import numpy as np
    >>> from connections import coriolis
    >>> A, Lambda = coriolis.task_space_inclusion(np.diag([1.0, 4.0]), [[1.0, 2.0]])
    >>> A.T, Lambda
    (array([[0.5 , 0.25]]), array([[0.5]]))

    Source: [W] Remark 8.
    """
    J = as_array("J", J, (None, None))
    H = as_array("H", H, (J.shape[-1],) * 2)
    require_finite("J", J)
    require_finite("H", H)
    regular = _independent_rows(*jax.lax.stop_gradient((H, J)))
    if J.shape[-2] > J.shape[-1] or not (isinstance(regular, jax.core.Tracer) or jnp.all(regular)):
        raise FrameError(f"the task Jacobian J {J.shape} lost rank: its rows are dependent")
    weighted = solve(H, jnp.swapaxes(J, -1, -2))
    Lambda = jnp.where(regular[..., None, None], jnp.linalg.inv(J @ weighted), jnp.nan)
    return as_given((weighted @ Lambda, Lambda), H, J)


def _independent_rows(H: jax.Array, J: jax.Array) -> jax.Array:
    """Whether the rows of J, as covectors of unit length in the metric, are independent, (...,)."""
    length = jnp.sqrt(jnp.diagonal(H, axis1=-2, axis2=-1))
    unit, rows = H / (length[..., :, None] * length[..., None, :]), J / length[..., None, :]
    whitened = jnp.swapaxes(solve(jnp.linalg.cholesky(unit), jnp.swapaxes(rows, -1, -2)), -1, -2)
    sigma = jnp.linalg.svd(whitened / jnp.linalg.norm(whitened, axis=-1, keepdims=True), compute_uv=False)
    return sigma[..., -1] > _INDEPENDENT * sigma[..., 0]


def task_space_coriolis_matrix(
    nabla: AffineConnection,
    task: Callable[[jax.Array], jax.Array],
    q: ArrayLike,
    v: ArrayLike,
    metric: Metric | None = None,
) -> Array:
    """C_task = A^T C A + A^T H A_dot, (..., m, m), with A = H^-1 J^T Lambda and J = L_X task.

    C (of the connection `nabla`) and A_dot are taken along the actual v, not along A xdot; then
    Lambda_dot - 2 C_task is skew if Hdot - 2C is.

    Parameters
    ----------
    nabla : the connection of C.
    task : q (nq,) -> x (m,); JAX-traceable.
    q : (..., nq) points.
    v : (..., n) velocities.
    metric : the kinetic-energy metric; the connection's own if None.

    Examples
    --------
    The task of a particle is its distance from the origin.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import coriolis
    >>> flat = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2)))
    >>> distance = lambda q: jnp.array([jnp.hypot(q[0], q[1])])
    >>> coriolis.task_space_coriolis_matrix(flat, distance, [3.0, 4.0], [1.0, 1.0]).shape
    (1, 1)

    Source: [W] Remark 8, eq. (17).
    """
    require_type("nabla", nabla, AffineConnection, "write task_space_coriolis_matrix(connection, task, q, v)")
    require_function("task", task, "q (nq,) -> x (m,)")
    metric = metric_of(nabla, metric)
    point, velocity = Argument("q", q, (nabla.frame.ambient_dim,)), Argument("v", v, (nabla.frame.dim,))
    return evaluate(nabla, PytreePartial(task_space_coriolis_matrix_at, nabla, metric, task), point, velocity)


def task_space_coriolis_matrix_at(
    nabla: AffineConnection,
    metric: Metric,
    task: Callable[[jax.Array], jax.Array],
    q: jax.Array,
    v: jax.Array,
) -> jax.Array:
    """C_task at one point, (m, m)."""

    def inclusion(p: jax.Array) -> jax.Array:
        J = metric.frame.lie_derivative_at(lambda x: as_result("task(q)", task(x)), p).T
        return jnp.asarray(task_space_inclusion(metric.matrix_at(p), J)[0])

    A, A_dot = jax.jvp(inclusion, (q,), (metric.frame.matrix_at(q) @ v,))
    return _induced_at(coriolis_matrix_at(nabla, metric, q, v), metric.matrix_at(q), A, A_dot)


@dataclass(frozen=True, eq=False, repr=False)
class CoriolisConnection(ConnectionOfMetric):
    """The connection of a given Coriolis matrix: Gamma_ijk = C_ik(q, e_j).

    Parameters
    ----------
    metric : the kinetic-energy metric, in the frame of v.
    coriolis : (q, v) -> C (n, n), linear in v (checked at every point); JAX-traceable.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections import coriolis
    >>> line = cn.CoordinateFrame(1)
    >>> metric = cn.MatrixMetric(line, lambda q: jnp.exp(2 * q[0]) * jnp.eye(1))
    >>> C = lambda q, v: jnp.exp(2 * q[0]) * v[0] * jnp.eye(1)
    >>> coriolis.CoriolisConnection(metric, C).coefficients([0.3]).round(6)
    array([[[1.]]])

    Source: [W] eq. (10) read backwards.
    """

    metric: Metric
    coriolis: CoriolisFunction

    def __post_init__(self) -> None:
        require_definite("metric", self.metric)
        require_function("coriolis", self.coriolis, "(q, v) -> C (n, n)")
        object.__setattr__(self, "frame", self.metric.frame)

    def first_kind_at(self, q: jax.Array) -> jax.Array:
        """Gamma_ijk = C_ik(q, e_j), (n, n, n)."""
        n = self.frame.dim

        def read(v: jax.Array) -> jax.Array:
            return require_shape("coriolis(q, v)", self.coriolis(q, v), (n, n))

        return jax.vmap(read, out_axes=1)(jnp.eye(n))

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """H^-1 Gamma_low, (n, n, n)."""
        return raise_first_index(self.metric.matrix_at(q), self.first_kind_at(q))

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid and C is linear in v."""
        return self.metric.valid_at(q) & (self._nonlinearity_at(q) <= _LINEAR)

    def explain(self, q: ArrayLike) -> None:
        """The metric's error, or `SymmetryError` where C is not linear in v."""
        self.metric.explain(q)
        gap = float(self._nonlinearity_at(jnp.asarray(q)))
        if not gap <= _LINEAR:
            raise_at(
                SymmetryError,
                f"C(q, v) is not linear in v (relative residual {gap:.2e}): it has no connection",
                q,
            )

    def _nonlinearity_at(self, q: jax.Array) -> jax.Array:
        n, H = self.frame.dim, self.metric.matrix_at(q)
        unit, area = inverse_lengths_of(H), jnp.outer(lengths_of(H), lengths_of(H))
        v = jnp.resize(jnp.asarray(_PROBE), (n,)) * (1.0 + jnp.arange(n) / n) * unit  # at unit speeds
        terms = jnp.einsum("ijk,j->ijk", self.first_kind_at(q), v)
        sizes = jnp.sum(jnp.abs(terms), axis=1)
        allowed = FLOOR * area * jnp.max(jnp.where(area > 0.0, sizes / area, 0.0))
        gap = jnp.abs(self.coriolis(q, v) - terms.sum(axis=1))
        return jnp.max(jnp.where(gap == 0.0, 0.0, gap / (sizes + allowed)))


def connection_from_coriolis(metric: Metric, coriolis: CoriolisFunction) -> CoriolisConnection:
    """The connection that a Coriolis matrix belongs to: Gamma_ijk = C_ik(q, e_j).

    Parameters
    ----------
    metric : the kinetic-energy metric, in the frame of v.
    coriolis : (q, v) -> C (n, n), linear in v; JAX-traceable.

    Raises
    ------
    SymmetryError : at a point where C is not linear in v.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> frame = cn.CoordinateFrame(1)
    >>> metric = cn.MatrixMetric(frame, lambda q: jnp.exp(2 * q[0]) * jnp.eye(1))
    >>> C = lambda q, v: jnp.exp(2 * q[0]) * v[0] * jnp.eye(1)
    >>> nabla = cn.connection_from_coriolis(metric, C)
    >>> nabla.check_metric_compatible([0.3]).ok
    True

    Source: [W] eq. (10).
    """
    return CoriolisConnection(metric, coriolis)
