"""How errors move an estimate: exp of a connection, its derivative, its inverse, and transport along it.

x = exp_q(e) with e in frame components at q. D exp_q(e) maps a change of e to frame components at x. On a
group, with the connections of Cartan and Schouten, these are closed forms. Otherwise the geodesic is followed
by Runge and Kutta's method in a fixed number of steps, with its neighbours, n Jacobi fields that vanish at q:

    etadot = dv + s(eta, v),    dvdot = -d(Gamma(v, v))(eta, dv),    D exp_q(e) = eta of dv(0) = 1.

Torsion enters neither exp nor D exp; it enters transport. Source: docs/linearization.md; docs/filters.md.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import solve
from connections.affine import (
    AffineConnection,
    CartanSchoutenConnection,
    ConstrainedConnection,
    LeviCivita,
    ProductConnection,
)
from connections.checks import is_traced
from connections.evaluation.parameters import Parametrized
from connections.geometry import ConstantMetric, CoordinateFrame, FrameField
from connections.geometry.group_maps import (
    adjoint_of_exponential_at,
    exponential_with_slope_at,
    logarithm_at,
)
from connections.geometry.products import block_diagonal
from connections.geometry.sphere import (
    RoundMetric,
    SphereFrame,
    exponential_on_sphere,
    logarithm_on_sphere,
    transport_on_sphere,
)
from connections.multibody.as_geometry.recursive_connection import RecursiveConnection

#: The point, D exp, and how far the point may be off in the frame; None in closed form.
Moved = tuple[jax.Array, jax.Array, jax.Array | None]
_NEWTON_STEPS = 8
_SETTLED = 1e-7  # the last step of Newton's method, relative to the whole


class Displacements(Parametrized, abc.ABC):
    """exp of a connection, with its derivative and its inverse, at one point; JAX-traceable."""

    frame: FrameField

    @property
    def has_pole(self) -> bool:
        """Whether the frame turns fast near some points, so that neighbours are followed in R^nq instead."""
        return False

    @abc.abstractmethod
    def moved_at(self, q: jax.Array, e: jax.Array) -> Moved:
        """exp_q(e) (nq,), D exp_q(e) (n, n), and how far the first may be off (n,); None in closed form."""

    @abc.abstractmethod
    def difference_at(self, q: jax.Array, p: jax.Array) -> jax.Array:
        """e (n,) with exp_q(e) = p; NaN if it is not found."""

    @abc.abstractmethod
    def transport_at(self, nabla: AffineConnection, q: jax.Array, e: jax.Array) -> jax.Array:
        """Parallel transport of `nabla` along s -> exp_q(s e) to s = 1, (n, n)."""


class GroupDisplacements(Displacements):
    """q exp(e) on a Lie group."""

    def __init__(self, group: FrameField) -> None:
        self.frame = group

    def moved_at(self, q: jax.Array, e: jax.Array) -> Moved:
        """In closed form."""
        return *exponential_with_slope_at(self.frame, q, e), None

    def difference_at(self, q: jax.Array, p: jax.Array) -> jax.Array:
        """In closed form, of matrices by Newton's method."""
        return logarithm_at(self.frame, q, p)

    def transport_at(self, nabla: AffineConnection, q: jax.Array, e: jax.Array) -> jax.Array:
        """exp(-(1/2 + beta) ad_e) for one of Cartan's and Schouten's, others along the curve."""
        if isinstance(nabla, CartanSchoutenConnection):
            return adjoint_of_exponential_at(self.frame, -(0.5 + nabla.beta) * e)
        return transport_along_at(CartanSchoutenConnection(self.frame), nabla, q, e, _GROUP_STEPS)


_GROUP_STEPS = 16  # of the transport of another connection


class SphereDisplacements(Displacements):
    """Great circles of the unit sphere; the frame enters at their ends only, so they may cross its pole."""

    def __init__(self, nabla: AffineConnection, steps: int) -> None:
        self.nabla, self.steps = nabla, steps

    @property
    def frame(self) -> SphereFrame:  # type: ignore[override]
        """The connection's."""
        frame = self.nabla.frame
        assert isinstance(frame, SphereFrame)
        return frame

    @property
    def has_pole(self) -> bool:
        """True."""
        return True

    def moved_at(self, q: jax.Array, e: jax.Array) -> Moved:
        """In closed form."""
        return *exponential_on_sphere(self.frame, q, e), None

    def difference_at(self, q: jax.Array, p: jax.Array) -> jax.Array:
        """In closed form; NaN for opposite points."""
        return logarithm_on_sphere(self.frame, q, p)

    def transport_at(self, nabla: AffineConnection, q: jax.Array, e: jax.Array) -> jax.Array:
        """In closed form by the sphere's own connection, by others along the great circle."""
        if is_round(nabla):
            return transport_on_sphere(self.frame, q, e)
        return transport_along_at(self.nabla, nabla, q, e, self.steps)


class ProductDisplacements(Displacements):
    """Factor by factor."""

    def __init__(self, nabla: ProductConnection, steps: int) -> None:
        self.frame = nabla.frame
        self.factors = tuple(displacements_of(factor, steps) for factor in nabla.connections)

    @property
    def has_pole(self) -> bool:
        """Of any factor."""
        return any(factor.has_pole for factor in self.factors)

    def moved_at(self, q: jax.Array, e: jax.Array) -> Moved:
        """Block diagonal."""
        points, slopes, errors = zip(
            *(f.moved_at(p, x) for f, p, x in self._parts(q, e, self._product.split_vector)), strict=True
        )
        gaps = [jnp.zeros(len(J)) if gap is None else gap for J, gap in zip(slopes, errors, strict=True)]
        return jnp.concatenate(points), block_diagonal(list(slopes)), jnp.concatenate(gaps)

    def difference_at(self, q: jax.Array, p: jax.Array) -> jax.Array:
        """One after the other."""
        return jnp.concatenate(
            [f.difference_at(a, b) for f, a, b in self._parts(q, p, self._product.split_point)]
        )

    def transport_at(self, nabla: AffineConnection, q: jax.Array, e: jax.Array) -> jax.Array:
        """Block diagonal for a product of connections, whose factors are transported along the factors."""
        if not isinstance(nabla, ProductConnection):
            raise TypeError(
                f"reset: expected a ProductConnection, as the filter's is, got {type(nabla).__name__}"
            )
        parts = zip(nabla.connections, self._parts(q, e, self._product.split_vector), strict=True)
        return block_diagonal([f.transport_at(own, p, x) for own, (f, p, x) in parts])

    @property
    def _product(self) -> Any:
        return self.frame

    def _parts(self, q: jax.Array, e: jax.Array, split: Callable[[jax.Array], Any]) -> Any:
        return zip(self.factors, self._product.split_point(q), split(e), strict=True)


class GeodesicDisplacements(Displacements):
    """The geodesics of any connection in `steps` steps of Runge and Kutta's method."""

    def __init__(self, nabla: AffineConnection, steps: int) -> None:
        self.nabla, self.steps = nabla, steps

    @property
    def frame(self) -> FrameField:  # type: ignore[override]
        """The connection's."""
        return self.nabla.frame

    def moved_at(self, q: jax.Array, e: jax.Array) -> Moved:
        """The geodesic with its neighbours; how far it may be off is measured by another quadrature."""
        n, frame, nabla = len(e), self.frame, self.nabla

        def rate_of_robot(state: Any, _: Any) -> Any:
            p, (v, eta, dv) = frame.project_at(state[0]), state[1:]
            of_q, of_v = nabla.geodesic_slopes_at(p, v)
            return (
                frame.matrix_at(p) @ v,
                0.5 * of_v @ v,
                dv - brackets_at(nabla, p, v) @ eta,
                of_q @ eta + of_v @ dv,
            )

        def rate(state: Any, _: Any) -> Any:
            p, (v, eta, dv) = frame.project_at(state[0]), state[1:]
            X = frame.matrix_at(p)

            def along(a: jax.Array, b: jax.Array) -> Any:
                v_dot, slope = jax.jvp(lambda r, w: -nabla.apply_at(r, w, w), (p, v), (X @ a, b))
                return v_dot, b + frame.bracket_of_constants_at(p, a, v), slope

            return X @ v, *jax.vmap(along, 1, (None, 1, 1))(eta, dv)

        start = q, e, jnp.zeros((n, n)), jnp.eye(n)
        _, end, gap = followed(rate_of_robot if is_tree(nabla) else rate, start, self.steps)
        p = frame.project_at(end[0])
        return p, end[2], frame.velocity_at(p, gap[0])

    def difference_at(self, q: jax.Array, p: jax.Array) -> jax.Array:
        """Newton's method from the difference of the coordinates."""

        def step(_: Any, carried: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            e, _ = carried
            end, slope, _ = self.moved_at(q, e)
            gap = self.frame.velocity_at(end, self.frame.align_at(p, end) - end)
            change = solve(slope, gap)
            return e + change, jnp.max(jnp.abs(change))

        first = self.frame.velocity_at(q, self.frame.align_at(p, q) - q)
        e, last = jax.lax.fori_loop(0, _NEWTON_STEPS, step, (first, jnp.asarray(jnp.inf)))
        return jnp.where(last <= _SETTLED * jnp.max(jnp.abs(e)) + 1e-14, e, jnp.nan)

    def transport_at(self, nabla: AffineConnection, q: jax.Array, e: jax.Array) -> jax.Array:
        """Along the geodesic of the filter's connection."""
        return transport_along_at(self.nabla, nabla, q, e, self.steps)


def displacements_of(nabla: AffineConnection, steps: int) -> Displacements:
    """The displacements of a connection, in closed form where there is one.

    Parameters
    ----------
    nabla : any connection that is not constrained.
    steps : of a geodesic.

    Raises
    ------
    TypeError : the connection is constrained.
    """
    if isinstance(nabla, ConstrainedConnection):
        raise TypeError(
            "nabla: errors of a ConstrainedConnection leave the directions that it allows; give its .full "
            "connection"
        )
    if isinstance(nabla, CartanSchoutenConnection):
        return GroupDisplacements(nabla.group)
    if isinstance(nabla, ProductConnection):
        product = ProductDisplacements(nabla, steps)
        groups = all(isinstance(factor, GroupDisplacements) for factor in product.factors)
        return GroupDisplacements(nabla.frame) if groups else product
    if is_round(nabla):
        return SphereDisplacements(nabla, steps)
    flat = isinstance(nabla.frame, CoordinateFrame) and isinstance(nabla.known_metric, ConstantMetric)
    if flat and isinstance(nabla, LeviCivita):
        return GroupDisplacements(nabla.frame)
    return GeodesicDisplacements(nabla, steps)


def transport_along_at(
    nabla: AffineConnection, carrier: AffineConnection, q: jax.Array, e: jax.Array, steps: int
) -> jax.Array:
    """Transport (n, n) of `carrier` along the geodesic of `nabla` from q (nq,) with velocity e (n,)."""

    def rate(state: Any, _: Any) -> Any:
        p, (v, Z) = nabla.frame.project_at(state[0]), state[1:]
        turned = jax.vmap(lambda z: carrier.apply_at(p, v, z), 1, 1)(Z)
        return nabla.frame.matrix_at(p) @ v, -nabla.apply_at(p, v, v), -turned

    _, end, _ = followed(rate, (q, e, jnp.eye(len(e))), steps)
    transported: jax.Array = end[2]
    return transported


def is_round(nabla: AffineConnection) -> bool:
    """Whether it is that of the unit sphere's own metric, or of a multiple of it."""
    if not isinstance(nabla, LeviCivita) or not isinstance(nabla.frame, SphereFrame):
        return False
    metric = nabla.known_metric
    if not isinstance(metric, ConstantMetric) or is_traced(metric.H):
        return isinstance(metric, RoundMetric)
    H = np.asarray(metric.H)
    return bool((H == H[0, 0] * np.eye(len(H))).all())


def is_tree(nabla: AffineConnection) -> bool:
    """Whether it is that of a robot, a tree, of which recursions have the derivatives of geodesics."""
    return isinstance(nabla, RecursiveConnection) and not nabla.model.closed


def brackets_at(nabla: AffineConnection, q: jax.Array, v: jax.Array) -> jax.Array:
    """s^i_jk v^j of a tree, (n, n)."""
    if isinstance(nabla, RecursiveConnection) and not nabla.model.traced.brackets:
        return jnp.zeros((len(v), len(v)))
    return jnp.einsum("ijk,j->ik", nabla.frame.structure_functions_at(q), v)


def product_slopes_of_tree_at(
    nabla: AffineConnection, q: jax.Array, v: jax.Array, z: jax.Array
) -> tuple[jax.Array, ...]:
    """All of f = -Gamma(v, v) and h = -Gamma(v, z), by derivatives of geodesics alone, (n, n) each.

    With the derivatives of f along the frame, Q(v), and by v, V(v), for a connection without torsion and
    constant brackets,

        Gamma(v, z) - Gamma(z, v) = s(v, z),    -Gamma(v, z) - Gamma(z, v) = f(v + z) - f(v) - f(z).

    Returns
    -------
    Q(v), V(v) : of f. of_q, of_v, of_z : the derivatives of h. s^i_jk v^j.

    Source: [W] for the brackets; polarization, docs/linearization.md.
    """
    of_q, of_v = jax.vmap(nabla.geodesic_slopes_at, (None, 0))(q, jnp.stack([v, z, v + z]))
    turn, turn_z = brackets_at(nabla, q, v), brackets_at(nabla, q, z)
    mixed = 0.5 * (of_q[2] - of_q[0] - of_q[1])
    return of_q[0], of_v[0], mixed, 0.5 * (of_v[1] + turn_z), 0.5 * (of_v[0] - turn), turn


def followed(
    rate: Callable[[Any, Any], Any], y: Any, steps: int, t: Any = 0.0, h: Any = 1.0
) -> tuple[Any, Any, Any]:
    """y' = rate(y, t): the states at t + h/2 and t + h, and how far the last may be off.

    By Runge and Kutta's method, whose stages are one loop, so that `rate` is compiled once. The error is the
    difference to the integral of the rates at the nodes by Simpson's rule, which is of the method's order and
    shares no stage with it.

    Parameters
    ----------
    rate : (state, time) -> a rate like the state.
    y : a tuple of arrays. steps : an even number. t, h : begin and length of the whole.
    """
    step = h / steps
    ahead = np.append(np.tile([0.0, 0.5, 0.5, 1.0], steps), 0.0)
    weights = np.append(np.tile([1.0, 2.0, 2.0, 1.0], steps) / 6.0, 0.0)
    simpson = np.zeros(4 * steps + 1)
    simpson[::4] = np.concatenate([[1.0], np.tile([4.0, 2.0], steps // 2)[:-1], [1.0]]) / 3.0
    number = np.append(np.repeat(np.arange(steps), 4), steps)
    ends = np.append(np.tile([False, False, False, True], steps), False)

    def stage(carried: Any, row: Any) -> tuple[Any, None]:
        base, total, middle, quadrature, k = carried
        ahead, weight, node, number, ends = row
        k = rate(plus(base, k, ahead * step), t + (number + ahead) * step)
        total, quadrature = plus(total, k, weight * step), plus(quadrature, k, node * step)
        base = jax.tree_util.tree_map(lambda a, b: jnp.where(ends, a, b), total, base)
        half = ends & (number == steps // 2 - 1)
        middle = jax.tree_util.tree_map(lambda a, b: jnp.where(half, a, b), total, middle)
        return (base, total, middle, quadrature, k), None

    y = jax.tree_util.tree_map(jnp.asarray, y)
    begin = y, y, y, y, jax.tree_util.tree_map(jnp.zeros_like, y)
    (_, end, middle, quadrature, _), _ = jax.lax.scan(stage, begin, (ahead, weights, simpson, number, ends))
    return middle, end, plus(end, quadrature, -1.0)


def plus(y: Any, k: Any, factor: Any) -> Any:
    """y + factor k, of trees."""
    return jax.tree_util.tree_map(lambda a, b: a + factor * b, y, k)
