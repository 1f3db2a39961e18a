"""Connections made from coefficients and from other connections.

Sources: [W] III-C, Thm III.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from connections._jax import ArrayLike
from connections.affine.connection import AffineConnection
from connections.checks import require_each, require_function, require_shape, require_type
from connections.evaluation.parameters import with_parameters
from connections.geometry.frames import FrameField, PointFunction
from connections.geometry.metrics import Metric
from connections.geometry.products import ProductFrame, ProductMetric


@dataclass(frozen=True, eq=False, repr=False)
class CoefficientConnection(AffineConnection):
    """A connection given by its coefficients.

    Parameters
    ----------
    frame : the frame.
    coefficients : q (nq,) -> Gamma[i, j, k] (n, n, n), second kind; JAX-traceable.
    parameters : optional, the last argument of `coefficients` (`ParametricFunction`).

    Examples
    --------
    A connection on the plane that turns vectors as they move along the first axis.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> turning = jnp.zeros((2, 2, 2)).at[0, 0, 1].set(1.0).at[1, 0, 0].set(-1.0)
    >>> nabla = cn.CoefficientConnection(cn.CoordinateFrame(2), lambda q: turning)
    >>> nabla.torsion([0.0, 0.0])[0]
    array([[ 0.,  1.],
           [-1.,  0.]])
    """

    frame: FrameField
    coefficient_function: PointFunction

    def __init__(self, frame: FrameField, coefficients: Callable[..., Any], parameters: Any = None) -> None:
        require_type("frame", frame, FrameField, "write CoefficientConnection(frame, function)")
        require_function("coefficients", coefficients, "q -> Gamma (n, n, n)", parameters=parameters)
        object.__setattr__(self, "frame", frame)
        object.__setattr__(self, "coefficient_function", with_parameters(coefficients, parameters))

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """The user's Gamma, (n, n, n)."""
        return require_cube("coefficients", self.coefficient_function(q), self.frame.dim)


@dataclass(frozen=True, eq=False, repr=False)
class TorsionFreePart(AffineConnection):
    """The torsion-free connection with the same geodesics: Gamma^i_(jk) + s^i_jk / 2.

    Parameters
    ----------
    base : any connection.

    Source: [W] Thm III.2.
    """

    base: AffineConnection

    def __post_init__(self) -> None:
        require_type("nabla", self.base, AffineConnection)
        object.__setattr__(self, "frame", self.base.frame)

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """Gamma^i_(jk) + s^i_jk / 2, (n, n, n)."""
        Gamma = self.base.coefficients_at(q)
        return 0.5 * (Gamma + jnp.swapaxes(Gamma, 1, 2) + self.frame.structure_functions_at(q))

    def scale_at(self, q: jax.Array) -> jax.Array:
        """The base's scale, in both orders, and the terms of s, (n, n, n)."""
        scale = self.base.scale_at(q)
        return 0.5 * (scale + jnp.swapaxes(scale, 1, 2) + self.frame.structure_terms_at(q))

    @property
    def known_metric(self) -> Metric | None:
        """The base's."""
        return self.base.known_metric

    @property
    def riemannian(self) -> AffineConnection | None:
        """The base's."""
        return self.base.riemannian

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The base is valid."""
        return self.base.valid_at(q)

    def explain(self, q: Any) -> None:
        """The base's error."""
        self.base.explain(q)


def torsion_free_part(nabla: AffineConnection) -> TorsionFreePart:
    """The unique torsion-free connection with the geodesics of `nabla`.

    Parameters
    ----------
    nabla : any connection.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> top = cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0]))
    >>> nabla = cn.ContorsionFamily(top).connection(0.5)
    >>> q = [0.0, 0.0, 0.0, 1.0]
    >>> part = cn.torsion_free_part(nabla)
    >>> nabla.check_torsion_free(q).ok, part.check_torsion_free(q).ok
    (False, True)

    Source: [W] Thm III.2.
    """
    return TorsionFreePart(nabla)


@dataclass(frozen=True, eq=False, repr=False)
class ProductConnection(AffineConnection):
    """The product of connections: every factor differentiates its own vectors; no cross terms.

    Parameters
    ----------
    connections : the factors. `apply` never forms the (sum n)^3 tensor.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> product = cn.ProductConnection(nabla, nabla)
    >>> product.coefficients([0.0, 2.0, 0.0, 4.0])[3, 2, 2], product.frame.dim
    (np.float64(0.25), 4)
    """

    connections: tuple[AffineConnection, ...]
    frame: ProductFrame

    def __init__(self, *connections: AffineConnection) -> None:
        require_each("connections", connections, AffineConnection, "ProductConnection(a, b)")
        object.__setattr__(self, "connections", connections)
        object.__setattr__(self, "frame", ProductFrame(*(nabla.frame for nabla in connections)))

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """Coefficients (n, n, n) that are block diagonal in all three indices."""
        points = self.frame.split_point(q)
        return self._blocks(
            [nabla.coefficients_at(p) for nabla, p in zip(self.connections, points, strict=True)]
        )

    def scale_at(self, q: jax.Array) -> jax.Array:
        """The terms' sizes (n, n, n), block diagonal in all three indices."""
        points = self.frame.split_point(q)
        return self._blocks([nabla.scale_at(p) for nabla, p in zip(self.connections, points, strict=True)])

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """Gamma(v, w) of each factor, joined, (n,)."""
        parts = zip(self.connections, *map(self._split, (v, w)), self.frame.split_point(q), strict=True)
        return jnp.concatenate([nabla.apply_at(p, a, b) for nabla, a, b, p in parts])

    @cached_property
    def known_metric(self) -> Metric | None:
        """The product of the factors' metrics, if all are known."""
        metrics = [nabla.known_metric for nabla in self.connections]
        known = [metric for metric in metrics if metric is not None]
        return ProductMetric(*known) if len(known) == len(metrics) else None

    @property
    def compatible(self) -> bool:
        """Whether all factors are."""
        return all(nabla.compatible for nabla in self.connections)

    @property
    def riemannian(self) -> ProductConnection | None:
        """The product of the factors' Levi-Civita connections, if all have one."""
        factors = [nabla.riemannian for nabla in self.connections]
        known = [nabla for nabla in factors if nabla is not None]
        return ProductConnection(*known) if len(known) == len(factors) else None

    def valid_at(self, q: jax.Array) -> jax.Array:
        """All factors are valid."""
        ok = jnp.asarray(True)
        for nabla, p in zip(self.connections, self.frame.split_point(q), strict=True):
            ok = ok & nabla.valid_at(p)
        return ok

    def explain(self, q: ArrayLike) -> None:
        """The error of the first factor that is not valid."""
        for nabla, p in zip(self.connections, self.frame.split_point(jnp.asarray(q)), strict=True):
            nabla.explain(p)

    def _blocks(self, parts: list[jax.Array]) -> jax.Array:
        whole, start = jnp.zeros((self.frame.dim,) * 3), 0
        for part in parts:
            block = slice(start, start + len(part))
            whole = whole.at[block, block, block].set(part)
            start += len(part)
        return whole

    def _split(self, v: jax.Array) -> list[jax.Array]:
        return self.frame.split_vector(v)


def require_cube(name: str, value: Any, n: int) -> jax.Array:
    """`value` as an array, or `ShapeError` unless it is (n, n, n)."""
    return require_shape(name, value, (n, n, n))
