"""Constrained connections: the dynamics of a nonholonomic system as a connection on its distribution.

In a basis of the distribution D, Gamma~^k_ij = <<X_k, nabla_{X_i} X_j>> / |X_k|^2 where the basis is
orthogonal (Theorem 3.2). In other bases, a system with the Gram matrix A^T H A is solved. The independent
route is Lemma 3.1, a connection on the whole tangent bundle, nabla_X Y + (nabla_X P_perp)(Y): `full`.
Source: [Z] section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp

from connections._jax import Array, ArrayLike
from connections.affine.connection import AffineConnection, ConnectionOfMetric
from connections.affine.distributions import (
    AnnihilatedDistribution,
    Distribution,
    DistributionFrame,
    SpannedDistribution,
    orthonormal,
)
from connections.affine.induced import InducedConnection
from connections.affine.levi_civita import LeviCivita
from connections.checks import as_covectors, as_result, require_function, require_type
from connections.evaluation.boundary import evaluate
from connections.evaluation.parameters import PytreePartial
from connections.geometry.frames import PointFunction
from connections.geometry.metrics import InducedMetric, Metric, require_definite
from connections.geometry.numerics.definite import solve_definite


@dataclass(frozen=True, eq=False, repr=False)
class ConstrainedConnection(ConnectionOfMetric):
    """nabla~_X Y = P nabla_X Y for X, Y in a distribution D, P the orthogonal projection onto D.

    Its geodesics are the free motions of the constrained system. It is metric compatible, and torsion free
    for the projected bracket P [X, Y], whose structure functions are those of `frame`.

    Parameters
    ----------
    metric : the kinetic energy of the system without constraints.
    distribution : q (nq,) -> A (n, m), a basis of the feasible velocities in the metric's frame;
        JAX-traceable. Without it a basis is computed from the forms, orthonormal in the metric. Or a
        `Distribution` of the same metric, which has basis and forms.
    forms : q -> W (p, n), the constraints as one-forms w_a(X_i); JAX-traceable. With both, they are checked
        against each other at every point.

    Attributes
    ----------
    frame : `DistributionFrame`, of dimension m.
    metric : A^T H A, in that frame.
    ambient_metric : the metric given.

    Raises
    ------
    ShapeError : basis or forms have the wrong shape.
    FrameError : metric and ambient connection are in different frames.
    TypeError : neither is given, or a `Distribution` and forms.
    ConstraintError, at a point : the constraints lost rank, or the basis does not satisfy them.
    FrameError, at a point : the basis lost rank; the message says whether the constraints did not.

    Examples
    --------
    A blade on ice: dy cos theta = dx sin theta.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> body = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))  # x, y, theta
    >>> blade = lambda q: jnp.array([[jnp.sin(q[2]), -jnp.cos(q[2]), 0.0]])
    >>> nabla = cn.ConstrainedConnection(body, forms=blade)
    >>> nabla.frame.dim, bool(nabla.nonintegrability([0.0, 0.0, 0.3]).any())
    (2, True)

    Source: [Z] Theorem 3.2, eq. (7).
    """

    distribution: Distribution
    frame: DistributionFrame
    metric: InducedMetric
    ambient: AffineConnection
    ambient_metric: Metric
    induced: InducedConnection

    def __init__(
        self,
        metric: Metric,
        distribution: PointFunction | Distribution | None = None,
        *,
        forms: PointFunction | None = None,
        ambient: AffineConnection | None = None,
    ) -> None:
        require_definite("metric", metric, "write ConstrainedConnection(metric, basis)")
        if ambient is not None:
            require_type("ambient", ambient, AffineConnection)
        feasible: Distribution
        if isinstance(distribution, Distribution):
            if forms is not None or distribution.metric is not metric:
                raise TypeError(
                    "ConstrainedConnection: a Distribution has its own forms, and the same metric"
                )
            feasible = distribution
        elif distribution is not None:
            require_function("distribution", distribution, "q -> basis A (n, m)", "write lambda q: A")
            feasible = SpannedDistribution(metric, distribution, forms)
        elif forms is not None:
            feasible = AnnihilatedDistribution(metric, forms)
        else:
            raise TypeError("ConstrainedConnection: give a basis of the distribution, forms=, or both")
        frame = DistributionFrame(feasible)
        ambient = LeviCivita(metric) if ambient is None else ambient
        induced = InducedConnection(ambient, metric, frame, feasible.basis_at)
        object.__setattr__(self, "distribution", feasible)
        object.__setattr__(self, "frame", frame)
        object.__setattr__(self, "ambient", ambient)
        object.__setattr__(self, "ambient_metric", metric)
        object.__setattr__(self, "induced", induced)
        object.__setattr__(self, "metric", induced.metric)

    @cached_property
    def full(self) -> FullConnection:
        """The connection of Lemma 3.1 on the whole tangent bundle, in the frame of the ambient metric."""
        return FullConnection(self.distribution, self.ambient)

    def orthonormalized(self) -> ConstrainedConnection:
        """The connection in a basis of the distribution that is orthonormal in the metric.

        Gram-Schmidt: field j of the new basis is a combination of the fields up to j of this one.

        Source: [Z] eq. (9).
        """

        def basis(q: jax.Array) -> jax.Array:
            return orthonormal(self.basis_at(q), self.ambient_metric.matrix_at(q))

        return ConstrainedConnection(self.ambient_metric, basis, forms=self.forms_at, ambient=self.ambient)

    # --- the definition at one point ---------------------------------------------------------------------

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """(A^T H A)^-1 A^T H (L_{X_j} A_k + Gamma(A_j, A_k)), (m, m, m)."""
        return self.induced.coefficients_at(q)

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """Gamma~^i_jk v^j w^k, (m,)."""
        return self.induced.apply_at(q, v, w)

    def scale_at(self, q: jax.Array) -> jax.Array:
        """The scale of the induced connection."""
        return self.induced.scale_at(q)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Metric, constraints and basis are regular."""
        return self.distribution.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """The distribution's error."""
        self.distribution.explain(q)

    def basis_at(self, q: jax.Array) -> jax.Array:
        """A(q), (n, m)."""
        return self.distribution.basis_at(q)

    def forms_at(self, q: jax.Array) -> jax.Array:
        """W(q), (n - m, n)."""
        return self.distribution.forms_at(q)

    def projection_at(self, q: jax.Array) -> jax.Array:
        """P, (n, n)."""
        return jnp.eye(self.ambient.frame.dim) - self.distribution.complement_at(q)

    def curvature_at(self, q: jax.Array) -> jax.Array:
        """R[l, k, i, j] of R(X_i, X_j) X_k = R^l_kij X_l, R the curvature of `full`, (m, m, m, m)."""
        A, dual = self.basis_at(q), self.frame.components_at(q)
        return jnp.einsum("lL,LKIJ,Kk,Ii,Jj->lkij", dual, self.full.curvature_at(q), A, A, A)

    def apply_curvature_at(self, q: jax.Array, u: jax.Array, w: jax.Array, z: jax.Array) -> jax.Array:
        """R(u, w) z, R the curvature of `full`, (m,)."""
        A = self.basis_at(q)
        return self.frame.components_at(q) @ self.full.apply_curvature_at(q, A @ u, A @ w, A @ z)

    def schouten_curvature_at(self, q: jax.Array) -> jax.Array:
        """K[l, k, i, j], (m, m, m, m); `schouten_curvature` gives the equation."""
        turned = super().curvature_at(q)  # with the projected brackets
        base, A = self.ambient.frame, self.basis_at(q)
        B = self.nonintegrability_at(q)
        dB = self.frame.lie_derivative_at(self.nonintegrability_at, q)  # dB[k, a, i, j] = L_{X_k} B^a_ij
        dA = base.lie_derivative_at(self.basis_at, q)  # dA[b, a, k] = L_b A^a_k
        brackets = jnp.einsum("bij,bak->akij", B, dA) - jnp.transpose(dB, (1, 0, 2, 3))
        brackets += jnp.einsum("abc,bij,ck->akij", base.structure_functions_at(q), B, A)
        return turned - jnp.einsum("la,akij->lkij", self.frame.components_at(q), brackets)

    def nonintegrability_at(self, q: jax.Array) -> jax.Array:
        """(1 - P) [X_i, X_j], (n, m, m)."""
        base, A = self.ambient.frame, self.basis_at(q)
        dA = jnp.transpose(
            self.frame.lie_derivative_at(self.basis_at, q), (1, 0, 2)
        )  # [a, i, j] = L_{X_i} A^a_j
        brackets = dA - jnp.swapaxes(dA, 1, 2)
        brackets += jnp.einsum("abc,bi,cj->aij", base.structure_functions_at(q), A, A)
        return jnp.einsum("ab,bij->aij", self.distribution.complement_at(q), brackets)

    def feasible_rate_at(
        self, q: jax.Array, V: jax.Array, free: jax.Array, along: jax.Array | None = None
    ) -> jax.Array:
        """dV/dt (n,) of a feasible vector V (n,) along the velocity `along`, V if None.

        P (free) - (L_along P_perp) V, `free` dV/dt without constraints. If these are given as forms, no basis
        is needed.
        """
        direction = self.ambient.frame.matrix_at(q) @ (V if along is None else along)
        P_perp, turning = jax.jvp(self.distribution.complement_at, (q,), (direction,))
        rate: jax.Array = free - P_perp @ free - turning @ V
        return rate

    def feasible_at(self, q: jax.Array, V: jax.Array) -> jax.Array:
        """P V of vectors (n, ...): the nearest feasible vectors."""
        return V - self.distribution.complement_at(q) @ V

    def input_coefficients_at(self, forms: PointFunction, q: jax.Array) -> jax.Array:
        """(A^T H A)^-1 A^T F_a, (m, a), of covectors F (a, n) in the ambient metric's frame."""
        covectors = as_covectors("forms(q)", forms(q), self.ambient.frame.dim)
        return solve_definite(self.metric.matrix_at(q), (covectors @ self.basis_at(q)).T)

    def input_coefficients_of_functions_at(self, functions: PointFunction, q: jax.Array) -> jax.Array:
        """(A^T H A)^-1 L_{X_k} phi_a, (m, a)."""

        def read(p: jax.Array) -> jax.Array:
            return as_result("functions(q)", functions(p))

        return solve_definite(self.metric.matrix_at(q), self.frame.lie_derivative_at(read, q))

    # --- public functions ----------------------------------------------------------------------------------

    def basis(self, q: ArrayLike) -> Array:
        """A(q), (..., n, m): basis of the distribution in the frame of the ambient metric.

        Parameters
        ----------
        q : (..., nq) points.
        """
        return evaluate(self, self.basis_at, self._point(q))

    def forms(self, q: ArrayLike) -> Array:
        """W(q), (..., n - m, n): one-forms that vanish on the distribution, given or computed.

        Parameters
        ----------
        q : (..., nq) points.
        """
        return evaluate(self, self.forms_at, self._point(q))

    def projection(self, q: ArrayLike) -> Array:
        """P(q), (..., n, n): the orthogonal projection onto the distribution, in the ambient metric's frame.

        Parameters
        ----------
        q : (..., nq) points.

        Source: [Z] section 3.1.
        """
        return evaluate(self, self.projection_at, self._point(q))

    def schouten_curvature(self, q: ArrayLike) -> Array:
        """K[..., l, k, i, j] of Schouten's curvature on the distribution, K(X_i, X_j) X_k = K^l_kij X_l.

        K(X, Y) Z = nabla~_X nabla~_Y Z - nabla~_Y nabla~_X Z - nabla~_{P[X, Y]} Z - P [(1 - P)[X, Y], Z].
        Without the last term it is no tensor. It differs from `curvature` by P nabla_Z (1 - P)[X, Y].

        Parameters
        ----------
        q : (..., nq) points.
        """
        return evaluate(self, self.schouten_curvature_at, self._point(q))

    def nonintegrability(self, q: ArrayLike) -> Array:
        """(1 - P) [X_i, X_j], (..., n, m, m), in the ambient metric's frame; zero where integrable.

        Parameters
        ----------
        q : (..., nq) points.
        """
        return evaluate(self, self.nonintegrability_at, self._point(q))

    def input_coefficients(self, forms: PointFunction, q: ArrayLike) -> Array:
        """Y[..., k, a], (..., m, a): the accelerations in the distribution that covectors F_a cause.

        (A^T H A)^-1 A^T F_a; <F_a, X_k> / |X_k|^2 where the basis is orthogonal.

        Parameters
        ----------
        forms : q -> (a, n), components F_a(X_i) in the ambient metric's frame; JAX-traceable.
        q : (..., nq) points.

        Source: [Z] Theorem 3.2.
        """
        require_function("forms", forms, "q -> components (a, n)")
        return evaluate(self, PytreePartial(self.input_coefficients_at, forms), self._point(q))

    def input_coefficients_of_functions(self, functions: PointFunction, q: ArrayLike) -> Array:
        """Y[..., k, a], (..., m, a), of the differentials F_a = d phi_a: (A^T H A)^-1 L_{X_k} phi_a.

        Parameters
        ----------
        functions : q -> (a,), the functions phi_a; JAX-traceable.
        q : (..., nq) points.

        Source: [Z] Theorem 3.2.
        """
        require_function("functions", functions, "q -> (a,)")
        at = PytreePartial(self.input_coefficients_of_functions_at, functions)
        return evaluate(self, at, self._point(q))


@dataclass(frozen=True, eq=False, repr=False)
class FullConnection(AffineConnection):
    """The constrained connection on the whole tangent bundle: nabla_X Y + (nabla_X P_perp)(Y).

    It preserves the distribution D: nabla_X Y is in D for every Y in D. On D its torsion is -P_perp [X, Y],
    and it is metric compatible for sections of D only. If D is given by forms, no basis is needed, and the
    connection is regular wherever the forms have full rank.

    Parameters
    ----------
    distribution : D with its metric; the metric's frame is the connection's.
    ambient : the connection nabla.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import affine
    >>> space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    >>> form = lambda q: jnp.array([[-q[1], 0.0, 1.0]])  # dz = y dx
    >>> contact = affine.AnnihilatedDistribution(space, form)
    >>> full = affine.FullConnection(contact, cn.LeviCivita(space))
    >>> full.check_torsion_free([0.0, 0.5, 0.0]).ok
    False

    Source: [Z] Lemma 3.1, eq. (6).
    """

    distribution: Distribution
    ambient: AffineConnection

    def __post_init__(self) -> None:
        require_type("distribution", self.distribution, Distribution)
        require_type("ambient", self.ambient, AffineConnection)
        object.__setattr__(self, "frame", self.distribution.metric.frame)

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """Gamma^i_jk + L_j P_perp^i_k + Gamma^i_jl P_perp^l_k - P_perp^i_l Gamma^l_jk, (n, n, n)."""
        Gamma = self.ambient.coefficients_at(q)
        P_perp, dP = self.frame.value_and_lie_derivative_at(self.distribution.complement_at, q)
        turned = jnp.einsum("ijl,lk->ijk", Gamma, P_perp) - jnp.einsum("il,ljk->ijk", P_perp, Gamma)
        return Gamma + jnp.swapaxes(dP, 0, 1) + turned

    def scale_at(self, q: jax.Array) -> jax.Array:
        """The sum of the absolute values of the terms, (n, n, n)."""
        scale = self.ambient.scale_at(q)
        P_perp, dP = self.frame.value_and_lie_derivative_at(self.distribution.complement_at, q)
        turned = jnp.einsum("ijl,lk->ijk", scale, jnp.abs(P_perp))
        turned += jnp.einsum("il,ljk->ijk", jnp.abs(P_perp), scale)
        return scale + jnp.swapaxes(jnp.abs(dP), 0, 1) + turned

    @property
    def known_metric(self) -> Metric:
        """The metric of the orthogonal projection onto the distribution."""
        return self.distribution.metric

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The distribution is regular; its basis may be singular."""
        return self.distribution.regular_at(q)

    def explain(self, q: ArrayLike) -> None:
        """The distribution's error."""
        self.distribution.explain(q)
