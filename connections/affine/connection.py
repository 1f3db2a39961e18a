"""Affine connections in a frame: nabla_{X_j} X_k = Gamma^i_jk X_i.

``Gamma[i, j, k]``: the middle index is the direction of differentiation, the last the field differentiated.
From the coefficients follow torsion, curvature, covariant derivatives and, with a metric, the coefficients of
the first kind, contorsion and non-metricity. Source: [W] III; docs/conventions.md.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike, Value, solve
from connections.affine.host_mechanics import HostMechanics
from connections.affine.koszul import (
    bound_by_lengths,
    christoffel_first_kind,
    christoffel_terms,
)
from connections.checks import (
    Check,
    NonFiniteError,
    as_array,
    as_covectors,
    raise_at,
    require_finite,
    require_function,
    require_same_frame,
    require_shape,
    require_type,
)
from connections.evaluation.boundary import Argument, InCommonFrame, evaluate
from connections.evaluation.describing import Described
from connections.evaluation.parameters import Parametrized, PytreePartial, cache_of
from connections.geometry.closed_forms import ClosedFormMetric
from connections.geometry.frames import FIELD, ChangedFrame, FrameField, PointFunction
from connections.geometry.metrics import Metric
from connections.geometry.numerics.scales import FLOOR, lengths_of, worst, worst_check


class PointwiseConnection(Described, Parametrized, abc.ABC):
    """A connection at one point of a frame, given by its coefficients of the second kind.

    The definitions of `AffineConnection`, on JAX arrays, without validation and batch axes. Indices and
    sources are those of its methods of the same names.
    """

    frame: FrameField

    @abc.abstractmethod
    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """Gamma[i, j, k], (n, n, n)."""

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """Gamma^i_jk v^j w^k, (n,): v is the direction, w the vector differentiated."""
        return jnp.einsum("ijk,j,k->i", self.coefficients_at(q), v, w)

    def lowered_at(self, metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """H_il Gamma^l_jk v^j w^k, (n,); subclasses compute it without H^-1 where H may be singular."""
        return metric.matrix_at(q) @ self.apply_at(q, v, w)

    def geodesic_slopes_at(self, q: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Derivatives of vdot = -Gamma(v, v) along X_j and by v^j, [i, j], (n, n) each."""

        def total(p: jax.Array, w: jax.Array) -> jax.Array:
            return -self.apply_at(p, w, w)

        along = self.frame.lie_derivative_at(lambda p: total(p, v), q).T
        return along, jax.jacfwd(total, argnums=1)(q, v)

    def torsion_at(self, q: jax.Array) -> jax.Array:
        """T[i, j, k] = Gamma^i_jk - Gamma^i_kj - s^i_jk."""
        Gamma = self.coefficients_at(q)
        return Gamma - jnp.swapaxes(Gamma, 1, 2) - self.frame.structure_functions_at(q)

    def curvature_at(self, q: jax.Array) -> jax.Array:
        """R[l, k, i, j] of R(X_i, X_j) X_k = R^l_kij X_l."""
        Gamma, dGamma = self.frame.value_and_lie_derivative_at(self.coefficients_at, q)  # dGamma[i, l, j, k]
        half = jnp.transpose(dGamma, (1, 3, 0, 2)) + jnp.einsum("lim,mjk->lkij", Gamma, Gamma)
        s = self.frame.structure_functions_at(q)
        return half - jnp.swapaxes(half, 2, 3) - jnp.einsum("mij,lmk->lkij", s, Gamma)

    def apply_curvature_at(self, q: jax.Array, u: jax.Array, w: jax.Array, z: jax.Array) -> jax.Array:
        """R(u, w) z, (n,), by derivatives along u and w alone; the sum is in `AffineConnection`."""
        X = self.frame.matrix_at(q)

        def along(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
            value, rate = jax.jvp(lambda p: self.apply_at(p, b, z), (q,), (X @ a,))
            return value, rate

        values, rates = jax.vmap(along)(jnp.stack([u, w]), jnp.stack([w, u]))  # Gamma(w, z), Gamma(u, z)
        bracket = self.frame.bracket_of_constants_at(q, u, w)
        directions = jnp.stack([u, -w, -bracket])
        turned = jax.vmap(self.apply_at, (None, 0, 0))(q, directions, jnp.concatenate([values, z[None]]))
        return rates[0] - rates[1] + jnp.sum(turned, axis=0)

    def curvature_along_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """R(., v) v, (n, n): [l, i] is component l of R(X_i, v) v, by which neighbouring geodesics part."""
        return jnp.einsum("lkij,k,j->li", self.curvature_at(q), v, v)

    def apply_ricci_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """Ric_jk v^j w^k, one number: the trace of Z -> R(Z, v) w, one Z after the other."""

        def diagonal(index: jax.Array) -> jax.Array:
            Z = jnp.zeros_like(v).at[index].set(1.0)
            return self.apply_curvature_at(q, Z, v, w)[index]

        return jnp.sum(jax.lax.map(diagonal, jnp.arange(self.frame.dim)))

    def covariant_derivative_at(self, X: PointFunction, Y: PointFunction, q: jax.Array) -> jax.Array:
        """(nabla_X Y)^i = X^j L_j Y^i + Gamma^i_jk X^j Y^k."""
        n = self.frame.dim
        x, y = (require_shape(name, field(q), (n,)) for name, field in (("X(q)", X), ("Y(q)", Y)))
        return x @ self.frame.lie_derivative_at(Y, q) + self.apply_at(q, x, y)

    @property
    def has_chords(self) -> bool:
        """Whether `chord_at` may know a geodesic."""
        return False

    def chord_at(self, q0: jax.Array, q1: jax.Array) -> jax.Array:
        """Initial velocity (n,) of the only geodesic from q0 to q1, a line in affine coordinates; or NaN."""
        return jnp.full(self.frame.dim, jnp.nan)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the connection is defined at q; one boolean."""
        return self.frame.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise the error that says why `q` (nq,) is not valid; do nothing if it is valid."""
        self.frame.explain(q)

    def scale_at(self, q: jax.Array) -> jax.Array:
        """The sum of the absolute values of the terms of Gamma^i_jk, (n, n, n); checks are relative to it.

        For an entry whose terms all vanish, subclasses that know a metric return the largest value that the
        lengths of the fields allow (`bound_by_lengths`), because zero would make a relative check infinite.
        """
        return jnp.abs(self.coefficients_at(q))

    @property
    def known_metric(self) -> Metric | None:
        """The metric with which the connection was made, or None; it gives the units of components."""
        return None

    @property
    def riemannian(self) -> AffineConnection | None:
        """The Levi-Civita connection with the same geodesics, if there is one by construction; else None."""
        return None

    @property
    def closed_form(self) -> ClosedFormMetric | None:
        """The metric that has the connection's exponential and logarithm in closed form; None if none has."""
        return None

    @property
    def compatible(self) -> bool:
        """Whether the connection is compatible with its known metric, by construction."""
        return self.riemannian is self

    @property
    def host(self) -> HostMechanics | None:
        """The connection in NumPy, by which its motions are integrated; None if there is none."""
        return None

    def gram_at(self, q: jax.Array) -> jax.Array:
        """(n, n), positive definite: the matrix that measures lengths of vectors where any metric will do.

        That of the known metric (`Metric.positive_at`); X^T X if there is none.
        """
        if self.known_metric is not None:
            return self.known_metric.positive_at(q)
        X = self.frame.matrix_at(q)
        return X.T @ X

    # --- private -------------------------------------------------------------------------------------------

    def _numbers(self, indices: int) -> int:
        """N n^(indices - 1), N the largest dimension of a frame from which the connection is made.

        This is the size of the largest array from which a tensor with so many indices is computed.
        """
        cache = cache_of(self)
        if "widest" not in cache:
            cache["widest"] = _widest(self)
        size: int = cache["widest"] * self.frame.dim ** (indices - 1)
        return size

    def _sectional_at(self, metric: Metric, q: jax.Array, u: jax.Array, w: jax.Array) -> jax.Array:
        H = metric.matrix_at(q)
        products = u @ H @ u, u @ H @ w, w @ H @ w
        area = products[0] * products[2] - products[1] ** 2
        bent = self.apply_curvature_at(q, u, w, w)
        return (u @ H @ bent) / jnp.where(spans_a_plane(*products), area, jnp.nan)

    def _scalar_at(self, metric: Metric, q: jax.Array) -> jax.Array:
        return jnp.trace(metric.raised_at(q, self._ricci_at(q)))

    def _ricci_at(self, q: jax.Array) -> jax.Array:
        return jnp.einsum("ikij->jk", self.curvature_at(q))

    def _first_kind_at(self, metric: Metric, q: jax.Array) -> jax.Array:
        return jnp.einsum("il,ljk->ijk", metric.matrix_at(q), self.coefficients_at(q))

    def _contorsion_at(self, metric: Metric, q: jax.Array) -> jax.Array:
        return christoffel_first_kind(metric, q) - self._first_kind_at(metric, q)

    def _nonmetricity_at(self, metric: Metric, q: jax.Array) -> jax.Array:
        return metric.derivative_at(q) - outer_symmetrized(self._first_kind_at(metric, q))

    def _low_terms_at(self, metric: Metric, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """|H| times the connection's terms, with `bound_by_lengths`, and the terms of Gamma*_low."""
        H = metric.matrix_at(q)
        terms, known = jnp.einsum("il,ljk->ijk", jnp.abs(H), self.scale_at(q)), christoffel_terms(metric, q)
        return terms + FLOOR * bound_by_lengths(terms + known, lengths_of(metric.positive_at(q))), known


class AffineConnection(PointwiseConnection):
    """An affine connection, given in a frame by its coefficients of the second kind.

    A subclass gives `frame` and `coefficients_at`; `PointwiseConnection` has the definitions at one point.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> isinstance(nabla, cn.AffineConnection)
    True
    >>> nabla.coefficients([0.0, 2.0])[1]  # Gamma^1_jk, at the height 2
    array([[ 0.5,  0. ],
           [ 0. , -0.5]])
    >>> nabla.check_torsion_free([0.0, 2.0]).ok
    True
    """

    # --- coefficients and tensors -------------------------------------------------------------------------

    def coefficients(self, q: ArrayLike) -> Array:
        """Gamma[..., i, j, k] of nabla_{X_j} X_k = Gamma^i_jk X_i.

        Parameters
        ----------
        q : (..., nq) points.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, FrameError, MetricError.

        Source: [W] III-C.
        """
        return evaluate(self, self.coefficients_at, self._point(q), largest_array_size=self._numbers(3))

    def apply(self, q: ArrayLike, v: ArrayLike, w: ArrayLike) -> Array:
        """Gamma^i_jk v^j w^k, (..., n): v is the direction, w the vector differentiated.

        Parameters
        ----------
        q : (..., nq) points.
        v, w : (..., n) frame components.
        """
        return evaluate(self, self.apply_at, self._point(q), self._vector("v", v), self._vector("w", w))

    def torsion(self, q: ArrayLike) -> Array:
        """T[..., i, j, k] = Gamma^i_jk - Gamma^i_kj - s^i_jk.

        Parameters
        ----------
        q : (..., nq) points.

        Source: [W] III-C, the torsion-free condition.
        """
        return evaluate(self, self.torsion_at, self._point(q))

    def curvature(self, q: ArrayLike) -> Array:
        """R[..., l, k, i, j] of R(X_i, X_j) X_k = R^l_kij X_l.

        X_i Gamma^l_jk - X_j Gamma^l_ik + Gamma^l_im Gamma^m_jk - Gamma^l_jm Gamma^m_ik - s^m_ij Gamma^l_mk.

        Parameters
        ----------
        q : (..., nq) points.
        """
        return evaluate(self, self.curvature_at, self._point(q), largest_array_size=self._numbers(4))

    def apply_curvature(self, q: ArrayLike, u: ArrayLike, w: ArrayLike, z: ArrayLike) -> Array:
        """R(u, w) z, (..., n), without the tensor: by derivatives along u and w only.

        L_u Gamma(w, z) - L_w Gamma(u, z) + Gamma(u, Gamma(w, z)) - Gamma(w, Gamma(u, z)) - Gamma(s(u, w), z),
        where Gamma(u, z) is `apply`, differentiated with constant components, and s(u, w) is the bracket of
        the fields with these components.

        Parameters
        ----------
        q : (..., nq) points.
        u, w : (..., n) the two directions, in order; frame components.
        z : (..., n) the vector that R turns; frame components.

        Source: the definition of R with constant components; [L] chapter 7.
        """
        vectors = (self._vector("u", u), self._vector("w", w), self._vector("z", z))
        return evaluate(
            self,
            self.apply_curvature_at,
            self._point(q),
            *vectors,
            largest_array_size=self._numbers(3),
        )

    def ricci(self, q: ArrayLike) -> Array:
        """Ric[..., j, k] = R^i_kij, the trace of Z -> R(Z, X_j) X_k; not symmetric in general.

        Parameters
        ----------
        q : (..., nq) points.
        """
        return evaluate(self, self._ricci_at, self._point(q), largest_array_size=self._numbers(4))

    def apply_ricci(self, q: ArrayLike, v: ArrayLike, w: ArrayLike) -> Array:
        """Ric(v, w) = Ric_jk v^j w^k, (...,), without a tensor: the trace of Z -> R(Z, v) w.

        Component i of R(X_i, v) w for one i after the other, in n times the time of `apply_curvature`.

        Parameters
        ----------
        q : (..., nq) points.
        v, w : (..., n) frame components, in the order of the indices of `ricci`.
        """
        vectors = (self._vector("v", v), self._vector("w", w))
        return evaluate(
            self, self.apply_ricci_at, self._point(q), *vectors, largest_array_size=self._numbers(3)
        )

    def scalar_curvature(self, q: ArrayLike, metric: Metric | None = None) -> Array:
        """Scalar curvature H^jk Ric_jk, (...,).

        Parameters
        ----------
        q : (..., nq) points.
        metric : a metric in the connection's frame; the connection's own if None.

        Raises
        ------
        FrameError : the metric is in another frame.
        TypeError : there is no metric, neither given nor the connection's own.
        """
        return self._with_metric(self._scalar_at, q, metric, largest_array_size=self._numbers(4))

    def sectional(self, q: ArrayLike, u: ArrayLike, w: ArrayLike, metric: Metric | None = None) -> Array:
        """Sectional curvature <<R(u, w) w, u>> / (|u|^2 |w|^2 - <<u, w>>^2), (...,), by `apply_curvature`.

        Parameters
        ----------
        q : (..., nq) points.
        u, w : (..., n) components of two independent vectors.
        metric : a metric in the connection's frame; the connection's own if None.

        Raises
        ------
        ValueError : u and w are linearly dependent, so they span no plane; or, of a metric that is not
            definite, one on which it is degenerate.
        """
        n = (self.frame.dim,)
        u, w = as_array("u", u, n), as_array("w", w, n)
        vectors = (self._vector("u", u), self._vector("w", w))
        try:
            return self._with_metric(
                self._sectional_at, q, metric, *vectors, largest_array_size=self._numbers(3)
            )
        except NonFiniteError:
            _require_planes(metric_of(self, metric), q, u, w)
            raise

    def first_kind(self, q: ArrayLike, metric: Metric | None = None) -> Array:
        """Gamma_low[..., i, j, k] = <<X_i, nabla_{X_j} X_k>> = H_il Gamma^l_jk.

        Parameters
        ----------
        q : (..., nq) points.
        metric : a metric in the connection's frame; the connection's own if None.

        Raises
        ------
        FrameError : the metric is in another frame.
        TypeError : there is no metric, neither given nor the connection's own.
        """
        return self._with_metric(self._first_kind_at, q, metric)

    def contorsion(self, q: ArrayLike, metric: Metric | None = None) -> Array:
        """D[..., i, j, k] = Gamma*_ijk - Gamma_ijk, all indices low; star is the metric's Levi-Civita.

        The sign is [W]'s; a D without the (1, 3) antisymmetry also contains the non-metricity.

        Parameters
        ----------
        q : (..., nq) points.
        metric : a metric in the connection's frame; the connection's own if None.

        Source: [W] III-C1.
        """
        return self._with_metric(self._contorsion_at, q, metric)

    def nonmetricity(self, q: ArrayLike, metric: Metric | None = None) -> Array:
        """Q[..., i, j, k] = (nabla_i g)(X_j, X_k) = L_i H_jk - Gamma_kij - Gamma_jik.

        Parameters
        ----------
        q : (..., nq) points.
        metric : a metric in the connection's frame; the connection's own if None.
        """
        return self._with_metric(self._nonmetricity_at, q, metric)

    # --- derivatives of fields ----------------------------------------------------------------------------

    def covariant_derivative(self, X: PointFunction, Y: PointFunction, q: ArrayLike) -> Array:
        """Components of nabla_X Y, (..., n): X^j L_j Y^i + Gamma^i_jk X^j Y^k.

        Parameters
        ----------
        X, Y : vector fields, q -> (n,) frame components; JAX-traceable. X is the direction.
        q : (..., nq) points.
        """
        require_function("X", X, FIELD)
        require_function("Y", Y, FIELD)
        return evaluate(self, PytreePartial(self.covariant_derivative_at, X, Y), self._point(q))

    def symmetric_product(self, X: PointFunction, Y: PointFunction, q: ArrayLike) -> Array:
        """Components of <X : Y> = nabla_X Y + nabla_Y X, (..., n).

        Parameters
        ----------
        X, Y : vector fields, q -> (n,) frame components; JAX-traceable.
        q : (..., nq) points.

        Source: [Z] section 6.
        """
        require_function("X", X, FIELD)
        require_function("Y", Y, FIELD)

        return evaluate(self, PytreePartial(self._symmetric_product_at, X, Y), self._point(q))

    def change(self, matrix: PointFunction) -> ChangedConnection:
        """The connection in the frame X' = X A.

        Parameters
        ----------
        matrix : q -> A (n, n), invertible; JAX-traceable.
        """
        return ChangedConnection(self, matrix)

    # --- checks --------------------------------------------------------------------------------------------

    def check_torsion_free(self, q: ArrayLike, tol: float = 1e-9) -> Check:
        """Whether T = 0 at all points.

        Parameters
        ----------
        q : (..., nq) points.
        tol : of every component, relative to the sum of its terms before cancellation.
        """
        return worst_check("torsion_free", evaluate(self, self._worst_torsion_at, self._point(q)), tol)

    def check_metric_compatible(self, q: ArrayLike, metric: Metric | None = None, tol: float = 1e-9) -> Check:
        """Whether Q = nabla g = 0 at all points, that is D_ijk = -D_kji.

        Parameters
        ----------
        q : (..., nq) points.
        metric : a metric in the connection's frame; the connection's own if None.
        tol : of every component, relative to the sum of its terms before cancellation.

        Source: [W] Prop. III.1.
        """
        return worst_check(
            "metric_compatible", self._with_metric(self._worst_nonmetricity_at, q, metric), tol
        )

    def check_same_geodesics(self, q: ArrayLike, metric: Metric | None = None, tol: float = 1e-9) -> Check:
        """Whether the geodesics are the metric's, D_ijk = -D_ikj, at all points.

        Parameters
        ----------
        q : (..., nq) points.
        metric : a metric in the connection's frame; the connection's own if None.
        tol : of every component, relative to the sum of its terms before cancellation.

        Source: [W] Prop. III.2.
        """
        return worst_check("same_geodesics", self._with_metric(self._worst_acceleration_at, q, metric), tol)

    # --- private -------------------------------------------------------------------------------------------

    def _point(self, q: Any) -> Argument:
        return Argument("q", q, (self.frame.ambient_dim,))

    def _vector(self, name: str, value: Any) -> Argument:
        return Argument(name, value, (self.frame.dim,))

    def _symmetric_product_at(self, X: PointFunction, Y: PointFunction, q: jax.Array) -> jax.Array:
        return self.covariant_derivative_at(X, Y, q) + self.covariant_derivative_at(Y, X, q)

    def _worst_torsion_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        scale = self.scale_at(q)
        return worst(self.torsion_at(q), scale + jnp.swapaxes(scale, 1, 2) + self.frame.structure_terms_at(q))

    def _worst_nonmetricity_at(self, metric: Metric, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        terms, _ = self._low_terms_at(metric, q)
        return worst(
            self._nonmetricity_at(metric, q), outer_symmetrized(terms) + metric.derivative_terms_at(q)
        )

    def _worst_acceleration_at(self, metric: Metric, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        D = self._contorsion_at(metric, q)
        terms = sum(self._low_terms_at(metric, q))
        return worst(D + jnp.swapaxes(D, 1, 2), terms + jnp.swapaxes(terms, 1, 2))

    def _with_metric(
        self,
        at: Callable[..., Value],
        q: Any,
        metric: Metric | None,
        *more: Argument,
        largest_array_size: int = 0,
    ) -> Value:
        """The definition at(metric, q, ...)."""
        metric = metric_of(self, metric)
        as_array("q", q, (self.frame.ambient_dim,))
        owner = InCommonFrame.of(self, metric)
        return evaluate(
            owner, PytreePartial(at, metric), self._point(q), *more, largest_array_size=largest_array_size
        )


class ConnectionOfMetric(AffineConnection):
    """A connection that was built with a metric of its own frame, `metric`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> from connections import affine
    >>> isinstance(nabla, affine.ConnectionOfMetric), nabla.metric is half_plane
    (True, True)
    """

    metric: Metric

    @property
    def known_metric(self) -> Metric:
        """The metric."""
        return self.metric

    def scale_at(self, q: jax.Array) -> jax.Array:
        """|H^-1| times the terms of Gamma*_low and |Gamma_low|, (n, n, n)."""
        low = christoffel_terms(self.metric, q) + jnp.abs(self._first_kind_at(self.metric, q))
        inverse = self.metric.raised_at(q, jnp.eye(self.frame.dim))
        return jnp.einsum("il,l...->i...", jnp.abs(inverse), low)

    def input_coefficients(self, forms: PointFunction, q: ArrayLike) -> Array:
        """Y[..., k, a] = (H^-1 F_a)^k: the accelerations that the covectors F_a cause.

        Parameters
        ----------
        forms : q -> (p, n), components F_a(X_i); JAX-traceable.
        q : (..., nq) points.

        Source: [Z] section 3.
        """
        require_function("forms", forms, "q -> components (p, n)")

        return evaluate(self, PytreePartial(self.input_coefficients_at, forms), self._point(q))

    def input_coefficients_at(self, forms: PointFunction, q: jax.Array) -> jax.Array:
        """H^-1 F^T, (n, p)."""
        return self.metric.raised_at(q, as_covectors("forms(q)", forms(q), self.frame.dim).T)


@dataclass(frozen=True, eq=False, repr=False)
class ChangedConnection(AffineConnection):
    """A connection in the frame X' = X A: Gamma'^i_jk = (A^-1)^i_l (L_{X'_j} A^l_k + Gamma^l(A_j, A_k)).

    Parameters
    ----------
    base : the connection in the frame X.
    change_matrix : q -> A (n, n), invertible.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> from connections import affine
    >>> orthonormal = affine.ChangedConnection(nabla, lambda q: q[1] * jnp.eye(2))
    >>> orthonormal.coefficients([0.0, 2.0])[1, 0, 0].round(6)
    np.float64(1.0)
    >>> orthonormal.frame.matrix([0.0, 2.0])
    array([[2., 0.],
           [0., 2.]])
    """

    base: AffineConnection
    change_matrix: PointFunction
    frame: ChangedFrame = field(init=False)

    def __post_init__(self) -> None:
        require_type("base", self.base, AffineConnection)
        object.__setattr__(self, "frame", self.base.frame.change(self.change_matrix))

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """The transformed coefficients, (n, n, n)."""
        A = self.frame.change_at(q)
        dA = jnp.einsum("mj,mlk->ljk", A, self.base.frame.lie_derivative_at(self.frame.change_at, q))
        pulled = dA + jnp.einsum("lab,aj,bk->ljk", self.base.coefficients_at(q), A, A)
        return solve(A, pulled.reshape(len(A), -1)).reshape(pulled.shape)

    def scale_at(self, q: jax.Array) -> jax.Array:
        """The sum of the absolute values of the terms, (n, n, n)."""
        A = jnp.abs(self.frame.change_at(q))
        dA = jnp.abs(self.base.frame.lie_derivative_at(self.frame.change_at, q))
        terms = jnp.einsum("mj,mlk->ljk", A, dA)
        terms += jnp.einsum("lab,aj,bk->ljk", self.base.scale_at(q), A, A)
        inverse = jnp.linalg.inv(self.frame.change_at(q))
        return jnp.einsum("il,l...->i...", jnp.abs(inverse), terms)

    @cached_property
    def known_metric(self) -> Metric | None:
        """The base's, in the frame X'."""
        metric = self.base.known_metric
        return None if metric is None else metric.change(self.change_matrix)

    @property
    def compatible(self) -> bool:
        """Whether the base is compatible with its metric, which does not depend on the frame."""
        return self.base.compatible

    @property
    def riemannian(self) -> AffineConnection | None:
        """The base's, in the frame X'."""
        base = self.base.riemannian
        return self if base is self.base else None if base is None else base.change(self.change_matrix)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The base is valid and A invertible."""
        return self.base.valid_at(q) & self.frame.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """The base's error, or the frame's."""
        self.base.explain(q)
        self.frame.explain(q)


def _require_planes(metric: Metric, q: Any, u: Any, w: Any) -> None:
    """Raise `ValueError` at the first point at which the vectors u and w span no plane."""
    H, u, w = (np.asarray(each) for each in (metric.matrix(q), u, w))
    require_finite("u", u)
    require_finite("w", w)
    uu, uw, ww = (np.einsum("...i,...ij,...j->...", a, H, b) for a, b in ((u, u), (u, w), (w, w)))
    flat = np.argwhere(~spans_a_plane(uu, uw, ww))
    if len(flat):
        points = np.broadcast_to(q, (*np.shape(uu), np.shape(q)[-1]))
        what = "sectional: u and w are linearly dependent, so they span no plane,"
        if metric.signature is not None:
            what = "sectional: u and w span no plane, or one on which the metric is degenerate,"
        raise_at(ValueError, what, points[tuple(flat[0])])


def metric_of(nabla: AffineConnection, metric: Metric | None) -> Metric:
    """The given metric, or the connection's own if it is None.

    Raises
    ------
    FrameError : the given metric is in another frame.
    TypeError : it is no metric, or there is none.
    """
    if metric is None:
        if nabla.known_metric is None:
            raise TypeError(f"{type(nabla).__name__} has no metric of its own: give metric=")
        return nabla.known_metric
    require_type("metric", metric, Metric)
    require_same_frame(nabla.frame, "the connection", metric.frame, "the metric")
    return metric


def outer_symmetrized(low: jax.Array) -> jax.Array:
    """low[k, i, j] + low[j, i, k] at [i, j, k]."""
    return jnp.transpose(low, (1, 2, 0)) + jnp.transpose(low, (1, 0, 2))


def spans_a_plane(uu: Any, uw: Any, ww: Any) -> Any:
    """Whether vectors with these inner products span a plane with area, beyond round-off of the products."""
    return abs(uu * ww - uw**2) > 1e-14 * (abs(uu * ww) + uw**2)


def _widest(thing: Any) -> int:
    """The largest dimension of the frames from which `thing` is made."""
    if isinstance(thing, FrameField):
        return thing.dim
    if isinstance(thing, (tuple, list)):
        return max(map(_widest, thing), default=0)
    return max(map(_widest, vars(thing).values()), default=0) if isinstance(thing, Parametrized) else 0
