"""Metrics: the kinetic energy as an inner product, H_ij = <<X_i, X_j>> in a frame.

Kinetic energy is (1/2) v^T H(q) v. A metric is not a connection: `LeviCivita(metric)` has one.
Source: [W] III-B.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike, SameArray, in_jax, solve
from connections.checks import (
    FrameError,
    MetricError,
    NonFiniteError,
    ShapeError,
    as_array,
    as_result,
    raise_at,
    require_finite,
    require_function,
    require_shape,
    require_type,
)
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.compilation import compiled_for
from connections.evaluation.describing import Described
from connections.evaluation.parameters import Parametrized, with_parameters
from connections.geometry.frames import ChangedFrame, FrameField, PointFunction
from connections.geometry.numerics.definite import is_definite, solve_definite
from connections.geometry.numerics.scales import FLOOR, inverse_lengths_of, lengths_of
from connections.geometry.numerics.signatures import is_of_signature, signature_counts, unsigned_lengths

SYMMETRY_TOLERANCE = 1e-9  # the largest |H_ij - H_ji|, relative to the lengths of X_i and X_j
_EPS = float(np.finfo(float).eps)
_INCLUSION = 1e-8  # the largest difference of an inclusion and the embedding's derivative, per entry's size


class Metric(Described, Parametrized, abc.ABC):
    """A symmetric matrix H(q) in a frame: positive definite, unless `signature` says otherwise.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> isinstance(half_plane, cn.Metric)
    True
    >>> half_plane.inner([0.0, 2.0], [1.0, 0.0], [1.0, 0.0])
    array(0.25)
    """

    frame: FrameField

    @abc.abstractmethod
    def matrix_at(self, q: jax.Array) -> jax.Array:
        """H(q), (n, n)."""

    @property
    def signature(self) -> tuple[int, int] | None:
        """The numbers (p, q) of positive and of negative eigenvalues; None if H is positive definite."""
        return None

    def sample_at(self, x: jax.Array) -> jax.Array:
        """A point (nq,) made of numbers x (nq,) between -1 and 1, for points at random."""
        return self.frame.sample_at(x)

    def raised_at(self, q: jax.Array, covectors: jax.Array) -> jax.Array:
        """H^-1 applied to the first index of `covectors` (n, ...)."""
        H = self.matrix_at(q)
        if self.signature is None:
            return solve_definite(H, covectors)
        return solve(H, covectors.reshape(len(H), -1)).reshape(covectors.shape)

    def positive_at(self, q: jax.Array) -> jax.Array:
        """A positive definite matrix (n, n) that gives vectors their sizes, in the units of H.

        It is H; if H has another signature, the diagonal of the squared lengths that `unsigned_lengths` has.
        """
        H = self.matrix_at(q)
        return H if self.signature is None else jnp.diag(unsigned_lengths(H) ** 2)

    def inner_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """<<v, w>> = v^T H w, a scalar."""
        return v @ self.matrix_at(q) @ w

    def derivative_at(self, q: jax.Array) -> jax.Array:
        """dH[k, i, j] = L_{X_k} H_ij, (n, n, n)."""
        return self.frame.lie_derivative_at(self.matrix_at, q)

    def symbols_along_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array | None:
        """Christoffel symbols Gamma*_ijk v^j w^k, (n,), where they are less than all of them; else None."""
        return None

    def rate_terms_at(self, q: jax.Array, w: jax.Array) -> jax.Array:
        """Sum of the absolute values of the terms of w^k L_{X_k} H, (n, n), for w^k >= 0.

        Round-off of the derivative is relative to this sum.
        """
        slopes = jnp.abs(jax.jacfwd(self.matrix_at)(q))
        return slopes @ (jnp.abs(self.frame.matrix_at(q)) @ w)

    def derivative_terms_at(self, q: jax.Array) -> jax.Array:
        """Sums of the absolute values of the terms of `derivative_at`, [k, i, j], (n, n, n)."""
        return jax.vmap(lambda w: self.rate_terms_at(q, w))(jnp.eye(self.frame.dim))

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the frame is valid, H symmetric, and its signature as declared; one boolean."""
        _, symmetric, as_declared = self._matrix_judged_at(q)
        return self.frame.valid_at(q) & symmetric & as_declared

    def explain(self, q: ArrayLike) -> None:
        """Raise the error that says why `q` (nq,) is not valid; do nothing if it is valid."""
        self.frame.explain(q)
        H, symmetric, as_declared = map(np.asarray, compiled_for(self, Metric._matrix_judged_at)(q))
        if not np.isfinite(H).all():
            raise_at(NonFiniteError, "the metric is not finite", q)
        if not symmetric:
            gap = float(np.max(np.abs(H - H.T)))
            raise_at(MetricError, f"the metric is not symmetric (H - H^T has an entry of {gap:.2e})", q)
        if not as_declared:
            if self.signature is None:
                raise_at(MetricError, f"the metric is {_not_definite(H)}", q)
            raise_at(MetricError, f"the metric has {_signature_in_words(H)}, not {self.signature}", q)

    def _matrix_judged_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """H (n, n), whether it is symmetric, and whether its signature is as declared."""
        H = self.matrix_at(q)
        if self.signature is None:
            return H, asymmetry(H) <= SYMMETRY_TOLERANCE, is_definite(H)
        near = asymmetry(H, unsigned_lengths(H)) <= SYMMETRY_TOLERANCE
        return H, near, is_of_signature(H, self.signature)

    def matrix(self, q: ArrayLike) -> Array:
        """H(q), (..., n, n); of a mechanical system, v^T H v / 2 is in joules.

        Parameters
        ----------
        q : (..., nq) points.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, FrameError; MetricError where H is not symmetric, or not
        positive definite, or of another signature than declared.

        Source: [W] III-B.
        """
        return evaluate(self, self.matrix_at, Argument("q", q, (self.frame.ambient_dim,)))

    def inner(self, q: ArrayLike, v: ArrayLike, w: ArrayLike) -> Array:
        """<<v, w>> = v^T H(q) w, (...,).

        Parameters
        ----------
        q : (..., nq) points.
        v, w : (..., n) frame components.
        """
        n = (self.frame.dim,)
        point = Argument("q", q, (self.frame.ambient_dim,))
        return evaluate(self, self.inner_at, point, Argument("v", v, n), Argument("w", w, n))

    def change(self, matrix: PointFunction) -> ChangedMetric:
        """The metric in the frame X' = X A: A^T H A.

        Parameters
        ----------
        matrix : q -> A (n, n), invertible; JAX-traceable.
        """
        return ChangedMetric(self, matrix)


@dataclass(frozen=True, eq=False, repr=False)
class MatrixMetric(Metric):
    """A metric given by its matrix in a frame.

    Parameters
    ----------
    frame : the frame.
    matrix : q (nq,) -> H (n, n), symmetric positive definite; JAX-traceable.
    parameters : optional, the last argument of `matrix` (`ParametricFunction`).
    signature : optional, the numbers (p, q) of positive and of negative eigenvalues of an H that is not
        positive definite, such as (3, 1) for a spacetime; H must have it at every point.

    Raises
    ------
    TypeError, ValueError : the signature is no pair of counts that add up to n.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> half_plane.matrix([0.0, 2.0])
    array([[0.25, 0.  ],
           [0.  , 0.25]])

    De Sitter's plane, t and x, has the constant curvature 1.

    >>> de_sitter = lambda q: jnp.diag(jnp.array([-1.0, jnp.cosh(q[0]) ** 2]))
    >>> spacetime = cn.MatrixMetric(plane, de_sitter, signature=(1, 1))
    >>> cn.LeviCivita(spacetime).sectional([0.3, 0.0], [1.0, 0.0], [0.0, 1.0]).round(9)
    np.float64(1.0)

    Source: [ON] chapters 2 and 3.
    """

    frame: FrameField
    matrix_function: PointFunction
    signature: tuple[int, int] | None = None

    def __init__(
        self,
        frame: FrameField,
        matrix: Callable[..., Any],
        parameters: Any = None,
        signature: tuple[int, int] | None = None,
    ) -> None:
        require_type("frame", frame, FrameField, "write MatrixMetric(frame, function)")
        require_function("matrix", matrix, "q -> H (n, n)", "write ConstantMetric(frame, H)", parameters)
        object.__setattr__(self, "frame", frame)
        object.__setattr__(self, "matrix_function", with_parameters(matrix, parameters))
        object.__setattr__(self, "signature", checked_signature(signature, frame.dim))

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """The user's H(q), (n, n)."""
        return require_shape("metric matrix", self.matrix_function(q), (self.frame.dim, self.frame.dim))


@dataclass(frozen=True, eq=False, repr=False)
class ConstantMetric(Metric):
    """A metric with a constant matrix in its frame; it is left-invariant if the frame is.

    Parameters
    ----------
    frame : the frame.
    H : (n, n), symmetric positive definite; checked at construction.
    signature : optional, of an H that is not positive definite, as for `MatrixMetric`.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> top = cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0]))
    >>> top.inner([0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.0])
    array(3.)
    """

    frame: FrameField
    H: np.ndarray
    signature: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        require_type("frame", self.frame, FrameField, "write ConstantMetric(frame, H)")
        if callable(self.H):
            raise TypeError("H: expected a matrix, got a function; write MatrixMetric(frame, function)")
        H = as_array("H", self.H, (self.frame.dim, self.frame.dim))
        object.__setattr__(self, "H", H)
        object.__setattr__(self, "signature", checked_signature(self.signature, self.frame.dim))
        if H.ndim != 2:
            raise ShapeError("H", (self.frame.dim, self.frame.dim), H.shape)
        if isinstance(H, jax.core.Tracer):
            return
        require_finite("H", H)
        H = np.asarray(H)
        lengths = None if self.signature is None else np.asarray(unsigned_lengths(jnp.asarray(H)))
        if not asymmetry(H, lengths) <= SYMMETRY_TOLERANCE:
            gap = float(np.max(np.abs(H - H.T)))
            raise MetricError(f"H is not symmetric (H - H^T has an entry of {gap:.2e})")
        if self.signature is not None:
            if not is_of_signature(jnp.asarray(H), self.signature):
                raise MetricError(f"H has {_signature_in_words(H)}, not {self.signature}")
            return
        try:
            np.linalg.cholesky(H)
        except np.linalg.LinAlgError:
            raise MetricError(f"H is {_not_definite(H)}") from None

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """H, (n, n)."""
        return in_jax(self.H)

    def derivative_at(self, q: jax.Array) -> jax.Array:
        """Zero, (n, n, n)."""
        return jnp.zeros((self.frame.dim,) * 3)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the frame is valid; H was checked at construction."""
        return self.frame.valid_at(q)


@dataclass(frozen=True, eq=False, repr=False)
class PullbackMetric(Metric):
    """The metric that an embedding into Euclidean space induces: H_ij = L_{X_i} f . L_{X_j} f.

    Parameters
    ----------
    frame : the frame.
    embedding : f, q (nq,) -> R^N; JAX-traceable, an immersion.
    parameters : optional, the last argument of `embedding` (`ParametricFunction`).

    Examples
    --------
    A sphere of radius 2, in colatitude and longitude.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> def sphere(q):
    ...     s, c = jnp.sin(q), jnp.cos(q)
    ...     return 2 * jnp.array([s[0] * c[1], s[0] * s[1], c[0]])
    >>> H = cn.PullbackMetric(cn.CoordinateFrame(2), sphere).matrix([jnp.pi / 6, 0.0])
    >>> H.diagonal().round(4)
    array([4., 1.])
    """

    frame: FrameField
    embedding: Callable[..., Any]
    parameters: InitVar[Any] = None

    def __post_init__(self, parameters: Any) -> None:
        require_type("frame", self.frame, FrameField, "write PullbackMetric(frame, embedding)")
        require_function("embedding", self.embedding, "q -> point of R^N", parameters=parameters)
        object.__setattr__(self, "embedding", with_parameters(self.embedding, parameters))

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """J^T J with J the derivative of the embedding along the frame, (n, n)."""
        df = self._derivative_at(q)
        return df @ df.T

    def rate_terms_at(self, q: jax.Array, w: jax.Array) -> jax.Array:
        """Sum of |w^k L_k J|^T |J| and its transpose, (n, n), J = L_X f the derivative of the embedding."""
        slopes = jnp.abs(jax.jacfwd(self._derivative_at)(q)) @ (jnp.abs(self.frame.matrix_at(q)) @ w)
        half = slopes @ jnp.abs(self._derivative_at(q)).T
        return half + half.T

    def _derivative_at(self, q: jax.Array) -> jax.Array:
        return self.frame.lie_derivative_at(lambda q: as_result("embedding(q)", self.embedding(q)), q)


@dataclass(frozen=True, eq=False, repr=False)
class InducedMetric(Metric):
    """The metric induced on a submanifold: Hbar = A^T H A.

    Parameters
    ----------
    metric : the metric H of the ambient manifold.
    frame : frame of the submanifold, Xbar.
    inclusion : qbar -> A (n, m), v = A vbar; JAX-traceable.
    embedding : qbar -> q; the identity if None.

    Examples
    --------
    A circle of radius 2 in the plane.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> plane, line = cn.CoordinateFrame(2), cn.CoordinateFrame(1)
    >>> flat = cn.ConstantMetric(plane, np.eye(2))
    >>> circle = lambda a: 2 * jnp.array([jnp.cos(a[0]), jnp.sin(a[0])])
    >>> tangent = lambda a: 2 * jnp.array([[-jnp.sin(a[0])], [jnp.cos(a[0])]])
    >>> cn.InducedMetric(flat, line, tangent, circle).matrix([0.3]).round(6)
    array([[4.]])

    Source: [W] V-A, below eq. (15).
    """

    ambient_metric: Metric
    frame: FrameField
    inclusion: PointFunction
    embedding: PointFunction | None = None

    def __init__(
        self,
        metric: Metric,
        frame: FrameField,
        inclusion: PointFunction,
        embedding: PointFunction | None = None,
    ) -> None:
        require_type("metric", metric, Metric)
        require_type("frame", frame, FrameField)
        require_function("inclusion", inclusion, "q -> A (n, m)")
        if embedding is not None:
            require_function("embedding", embedding, "q of the submanifold -> q")
        if embedding is None and metric.frame.ambient_dim != frame.ambient_dim:
            raise ShapeError(
                "q of the submanifold (no embedding given)", metric.frame.ambient_dim, frame.ambient_dim
            )
        object.__setattr__(self, "ambient_metric", metric)
        object.__setattr__(self, "frame", frame)
        object.__setattr__(self, "inclusion", inclusion)
        object.__setattr__(self, "embedding", embedding)

    def embed_at(self, q: jax.Array) -> jax.Array:
        """Ambient coordinates of the submanifold's point q, (nq,)."""
        if self.embedding is None:
            return q
        return require_shape("embedding(q)", self.embedding(q), (self.ambient_metric.frame.ambient_dim,))

    def inclusion_at(self, q: jax.Array) -> jax.Array:
        """A(q), (n, m)."""
        return require_shape(
            "inclusion A", self.inclusion(q), (self.ambient_metric.frame.dim, self.frame.dim)
        )

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """A^T H A, (m, m)."""
        A = self.inclusion_at(q)
        return A.T @ self.ambient_metric.matrix_at(self.embed_at(q)) @ A

    def rate_terms_at(self, q: jax.Array, w: jax.Array) -> jax.Array:
        """Sum of |Adot|^T |H| |A|, its transpose, and |A|^T |Hdot| |A|, (m, m), at the velocity w."""
        metric, p, A = self.ambient_metric, self.embed_at(q), jnp.abs(self.inclusion_at(q))
        slopes = jnp.abs(jax.jacfwd(self.inclusion_at)(q)) @ (jnp.abs(self.frame.matrix_at(q)) @ w)
        half = slopes.T @ (jnp.abs(metric.matrix_at(p)) @ A)
        return half + half.T + A.T @ metric.rate_terms_at(p, A @ w) @ A

    def inclusion_residual_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The deviations of the embedding's derivative from A, and their scales, (n + nq, m) each.

        Rows 0 .. n - 1 are the derivative in the ambient frame, minus A; entry (i, j) has a scale of at least
        FLOOR |Xbar_j| / |X_i|. The other rows are the part of the derivative that is normal to the ambient
        manifold, in ambient coordinates; their scale is the derivative's largest entry in the column.
        """
        p, A = self.embed_at(q), self.inclusion_at(q)
        frame, H = self.ambient_metric.frame, self.ambient_metric.matrix_at(p)
        X, dual = frame.matrix_at(p), frame.dual_at(p)
        pushed = self.frame.lie_derivative_at(self.embed_at, q).T
        along = jnp.outer(inverse_lengths_of(self.ambient_metric.positive_at(p)), lengths_of(A.T @ H @ A))
        sizes = jnp.abs(A) + jnp.abs(dual) @ jnp.abs(pushed) + FLOOR * along
        largest = jnp.broadcast_to(jnp.max(jnp.abs(pushed), axis=0), pushed.shape)
        residual = jnp.concatenate([dual @ pushed - A, pushed - X @ (dual @ pushed)])
        return residual, jnp.concatenate([sizes, largest])

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the frame and the metric are valid, and A is the derivative of the embedding."""
        residual, sizes = self.inclusion_residual_at(q)
        return super().valid_at(q) & jnp.all(jnp.abs(residual) <= _INCLUSION * sizes)

    def explain(self, q: ArrayLike) -> None:
        """Raise the error of an invalid point, such as `FrameError` where A does not fit the embedding."""
        super().explain(q)
        residual, sizes = map(np.asarray, compiled_for(self, InducedMetric.inclusion_residual_at)(q))
        if not np.all(np.abs(residual) <= _INCLUSION * sizes):
            gap = float(np.max(np.abs(residual)))
            what = f"the inclusion A is not the derivative of the embedding (they differ by {gap:.2e})"
            raise_at(FrameError, what, q)


@dataclass(frozen=True, eq=False, repr=False)
class ChangedMetric(Metric):
    """A metric in the frame X' = X A(q).

    Parameters
    ----------
    base : the metric in the frame X.
    change_matrix : q -> A (n, n), invertible.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections import geometry
    >>> H = lambda q: jnp.diag(jnp.array([1.0, q[0] ** 2]))  # polar coordinates
    >>> A = lambda q: jnp.diag(jnp.array([1.0, 1 / q[0]]))
    >>> plane = cn.MatrixMetric(cn.CoordinateFrame(2), H)
    >>> geometry.ChangedMetric(plane, A).matrix([2.0, 0.3])
    array([[1., 0.],
           [0., 1.]])
    """

    base: Metric
    change_matrix: PointFunction
    frame: ChangedFrame = field(init=False)

    def __post_init__(self) -> None:
        require_type("base", self.base, Metric)
        object.__setattr__(self, "frame", self.base.frame.change(self.change_matrix))

    @property
    def signature(self) -> tuple[int, int] | None:
        """The base's: a change of frame keeps it (Sylvester)."""
        return self.base.signature

    def sample_at(self, x: jax.Array) -> jax.Array:
        """The point (nq,) that `base` makes of numbers x (nq,) between -1 and 1."""
        return self.base.sample_at(x)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """A^T H A, (n, n)."""
        A = self.frame.change_at(q)
        return A.T @ self.base.matrix_at(q) @ A

    def rate_terms_at(self, q: jax.Array, w: jax.Array) -> jax.Array:
        """Sum of |Adot|^T |H| |A|, its transpose, and |A|^T |Hdot| |A|, (n, n), at the velocity w."""
        A = jnp.abs(self.frame.change_at(q))
        slopes = jnp.abs(jax.jacfwd(self.frame.change_at)(q)) @ (
            jnp.abs(self.base.frame.matrix_at(q)) @ (A @ w)
        )
        half = slopes.T @ (jnp.abs(self.base.matrix_at(q)) @ A)
        return half + half.T + A.T @ self.base.rate_terms_at(q, A @ w) @ A


def require_definite(name: str, metric: Any, hint: str = "") -> None:
    """Raise `TypeError` if an argument is no metric, `MetricError` if it is not positive definite.

    Parameters
    ----------
    name : of the argument. metric : its value. hint : what a wrong type should be instead.
    """
    require_type(name, metric, Metric, hint)
    if metric.signature is not None:
        words = f"got one of the signature {metric.signature}"
        raise MetricError(f"{name}: expected a positive definite metric, {words}")


def checked_signature(signature: Any, n: int) -> tuple[int, int] | None:
    """The signature (p, q), counts that add up to n; None if it is None or (n, 0)."""
    if signature is None:
        return None
    counts = tuple(signature) if isinstance(signature, tuple | list) else ()
    if len(counts) != 2 or not all(isinstance(k, int) and not isinstance(k, bool) for k in counts):
        raise TypeError(f"signature: expected two integers (p, q), got {signature!r}")
    if min(counts) < 0 or sum(counts) != n:
        raise ValueError(
            f"signature: expected the numbers of positive and of negative eigenvalues, {n} together, "
            f"got {signature!r}"
        )
    return counts if counts[1] else None


def _not_definite(H: np.ndarray) -> str:
    """Words for a matrix that is not positive definite, with a way out where it has another signature."""
    values = np.linalg.eigvalsh(H)
    words = f"smallest eigenvalue {values[0]:.2e}"
    if values[0] < 0.0 < values[-1] and np.abs(values).min() > _EPS * len(H) * np.abs(values).max():
        positive = int((values > 0.0).sum())
        words += f"; if it is meant, declare signature=({positive}, {len(H) - positive})"
    return f"not positive definite ({words})"


def _signature_in_words(H: np.ndarray) -> str:
    positive, negative = map(int, signature_counts(jnp.asarray(H)))
    lost = len(H) - positive - negative
    return f"the signature ({positive}, {negative})" + (f" and {lost} eigenvalues of zero" if lost else "")


def asymmetry(H: SameArray, lengths: SameArray | None = None) -> SameArray:
    """The largest |H_ij - H_ji| / (|X_i| |X_j|); infinite where a length is zero.

    Computed by NumPy if H is a NumPy array.

    Parameters
    ----------
    H : (n, n). lengths : |X_i|, (n,); by default those of the diagonal, zero where it is not positive.
    """
    by: Any = np if isinstance(H, np.ndarray) else jnp
    length = lengths_of(H) if lengths is None else lengths
    gap = by.abs(H - H.T)
    with np.errstate(divide="ignore", invalid="ignore"):
        largest: SameArray = by.max(by.where(gap == 0.0, 0.0, gap / by.outer(length, length)))
    return largest
