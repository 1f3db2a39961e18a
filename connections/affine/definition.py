"""What a connection is at one point: nabla_{X_j} X_k = Gamma^i_jk X_i, and the tensors that follow from it.

The definitions of `AffineConnection`, on JAX arrays, without validation and batch axes. Indices and sources
are those of its methods of the same names.
"""

from __future__ import annotations

import abc
from typing import Any

import jax
import jax.numpy as jnp

from connections.affine.host_motion import HostMechanics
from connections.affine.koszul import allowed_by_lengths, christoffel_first_kind, christoffel_terms
from connections.geometry.definite import solve_definite
from connections.geometry.describing import Described
from connections.geometry.frames import FrameField, PointFunction
from connections.geometry.metrics import Metric
from connections.geometry.parameters import Parametrized, derived
from connections.geometry.scales import FLOOR, lengths_of


class PointwiseConnection(Described, Parametrized, abc.ABC):
    """A connection at one point of a frame, given by its coefficients of the second kind."""

    frame: FrameField

    @abc.abstractmethod
    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """Gamma[i, j, k], (n, n, n)."""

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """Gamma^i_jk v^j w^k, (n,): v is the direction, w the vector differentiated."""
        return jnp.einsum("ijk,j,k->i", self.coefficients_at(q), v, w)

    def lowered_at(self, metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """H_il Gamma^l_jk v^j w^k, (n,); overridden where H may be singular and this is not."""
        return metric.matrix_at(q) @ self.apply_at(q, v, w)

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

    def apply_ricci_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """Ric_jk v^j w^k, one number: the trace of Z -> R(Z, v) w, one Z after the other."""

        def diagonal(index: jax.Array) -> jax.Array:
            Z = jnp.zeros_like(v).at[index].set(1.0)
            return self.apply_curvature_at(q, Z, v, w)[index]

        return jnp.sum(jax.lax.map(diagonal, jnp.arange(self.frame.dim)))

    def covariant_derivative_at(self, X: PointFunction, Y: PointFunction, q: jax.Array) -> jax.Array:
        """(nabla_X Y)^i = X^j L_j Y^i + Gamma^i_jk X^j Y^k."""
        x = X(q)
        return x @ self.frame.lie_derivative_at(Y, q) + self.apply_at(q, x, Y(q))

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the connection is defined at q; one boolean."""
        return self.frame.valid_at(q)

    def explain(self, q: Any) -> None:
        """Raise the error that says why `q` (nq,) is not valid; return quietly where it is."""
        self.frame.explain(q)

    def scale_at(self, q: jax.Array) -> jax.Array:
        """What enters Gamma^i_jk before cancellation, entry by entry, (n, n, n): what checks are relative to.

        For an entry whose terms all vanish, subclasses that know a metric return the largest value that the
        lengths of the fields allow (`allowed_by_lengths`), because zero would make a relative check infinite.
        """
        return jnp.abs(self.coefficients_at(q))

    @property
    def known_metric(self) -> Metric | None:
        """A metric that the connection was made with, which tells the units of its components; or None."""
        return None

    @property
    def host(self) -> HostMechanics | None:
        """The connection in NumPy, if there is such a way: one motion at a time is integrated by it."""
        return None

    def gram_at(self, q: jax.Array) -> jax.Array:
        """(n, n), positive definite: how long vectors count where nothing but a length is asked for.

        The metric that is known, else X^T X.
        """
        if self.known_metric is not None:
            return self.known_metric.matrix_at(q)
        X = self.frame.matrix_at(q)
        return X.T @ X

    # --- private -------------------------------------------------------------------------------------------

    def _numbers(self, indices: int) -> int:
        """N n^(indices - 1), N the largest dimension of a frame from which the connection is made.

        That many numbers has the largest array from which a tensor of so many indices is computed.
        """
        known = derived(self)
        if "widest" not in known:
            known["widest"] = _widest(self)
        numbers: int = known["widest"] * self.frame.dim ** (indices - 1)
        return numbers

    def _sectional_at(self, metric: Metric, q: jax.Array, u: jax.Array, w: jax.Array) -> jax.Array:
        H = metric.matrix_at(q)
        products = u @ H @ u, u @ H @ w, w @ H @ w
        area = products[0] * products[2] - products[1] ** 2
        bent = self.apply_curvature_at(q, u, w, w)
        return (u @ H @ bent) / jnp.where(spans_a_plane(*products), area, jnp.nan)

    def _scalar_at(self, metric: Metric, q: jax.Array) -> jax.Array:
        return jnp.trace(solve_definite(metric.matrix_at(q), self._ricci_at(q)))

    def _ricci_at(self, q: jax.Array) -> jax.Array:
        return jnp.einsum("ikij->jk", self.curvature_at(q))

    def _first_kind_at(self, metric: Metric, q: jax.Array) -> jax.Array:
        return jnp.einsum("il,ljk->ijk", metric.matrix_at(q), self.coefficients_at(q))

    def _contorsion_at(self, metric: Metric, q: jax.Array) -> jax.Array:
        return christoffel_first_kind(metric, q) - self._first_kind_at(metric, q)

    def _nonmetricity_at(self, metric: Metric, q: jax.Array) -> jax.Array:
        return metric.derivative_at(q) - carried(self._first_kind_at(metric, q))

    def _low_terms_at(self, metric: Metric, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """|H| times the connection's terms, with what the lengths allow, and the terms of Gamma*_low."""
        H = metric.matrix_at(q)
        terms, known = jnp.einsum("il,ljk->ijk", jnp.abs(H), self.scale_at(q)), christoffel_terms(metric, q)
        return terms + FLOOR * allowed_by_lengths(terms + known, lengths_of(H)), known


def carried(low: jax.Array) -> jax.Array:
    """low[k, i, j] + low[j, i, k] at [i, j, k]."""
    return jnp.transpose(low, (1, 2, 0)) + jnp.transpose(low, (1, 0, 2))


def spans_a_plane(uu: Any, uw: Any, ww: Any) -> Any:
    """Whether two vectors with these products are independent, beyond round-off of the products."""
    return uu * ww - uw**2 > 1e-14 * uu * ww


def _widest(thing: Any) -> int:
    """The largest dimension of the frames from which `thing` is made."""
    if isinstance(thing, FrameField):
        return thing.dim
    if isinstance(thing, (tuple, list)):
        return max(map(_widest, thing), default=0)
    return max(map(_widest, vars(thing).values()), default=0) if isinstance(thing, Parametrized) else 0
