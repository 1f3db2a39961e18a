"""How errors move an estimate: exp of a connection, its derivative, its inverse, and transport along it.

x = exp_q(e) with e in frame components at q. D exp_q(e) maps a change of e to frame components at x. On a
group, with the connections of Cartan and Schouten, these are closed forms. Otherwise the geodesic is followed
by Runge and Kutta's method, with its neighbours, n Jacobi fields that vanish at q:

    etadot = dv + s(eta, v),    dvdot = -d(Gamma(v, v))(eta, dv),    D exp_q(e) = eta of dv(0) = 1.

The number of steps is the same for all that one update does, because its iteration needs a smooth exp. If it
is not given, `with_enough_steps` does all of it again with more steps while exp is not right.

Torsion enters neither exp nor D exp; it enters transport. Source: docs/linearization.md; docs/filters.md.
"""

from __future__ import annotations

import abc
import functools
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
from connections.estimation.spread import Tree, where
from connections.evaluation.parameters import Parametrized
from connections.geometry import ConstantMetric, CoordinateFrame, FrameField
from connections.geometry.group_maps import (
    adjoint_of_exponential_at,
    exponential_with_slope_at,
    logarithm_at,
)
from connections.geometry.numerics.definite import inverse_factor
from connections.geometry.numerics.products import small_product as product
from connections.geometry.products import block_diagonal
from connections.geometry.sphere import (
    RoundMetric,
    SphereFrame,
    exponential_on_sphere,
    logarithm_on_sphere,
    transport_on_sphere,
)
from connections.integration.traced import anywhere_in_batch
from connections.multibody.as_geometry.recursive_connection import RecursiveConnection

#: How far the point and D exp may be off in the frame, as columns (n, 1 + n); None in closed form.
Gap = jax.Array | None
#: The point, D exp, and their gap.
Moved = tuple[jax.Array, jax.Array, Gap]
FEW = 4  # steps of a geodesic that are tried first
MORE = (16, 64, 256)  # and then
NEGLIGIBLE = 1e-3  # standard deviations: larger errors of integration are errors
_NEWTON_STEPS = 40
_TINY = 1e-14
_SETTLED = 1e-7  # the last step of Newton's method, relative to the whole


class Displacements(Parametrized, abc.ABC):
    """exp of a connection, with its derivative and its inverse, at one point; JAX-traceable."""

    frame: FrameField

    @property
    def has_pole(self) -> bool:
        """Whether the frame turns fast near some points, so that neighbours are followed in R^nq instead."""
        return False

    @abc.abstractmethod
    def with_steps(self, steps: Any) -> Displacements:
        """The displacements with another even number of steps, perhaps traced, where no form is closed."""

    def difference_at(self, q: jax.Array, p: jax.Array) -> jax.Array:
        """The difference alone."""
        return self.difference_with_gap_at(q, p)[0]

    def transport_at(self, nabla: AffineConnection, q: jax.Array, e: jax.Array) -> jax.Array:
        """The transport alone."""
        return self.transport_with_gap_at(nabla, q, e)[0]

    @abc.abstractmethod
    def moved_at(self, q: jax.Array, e: jax.Array) -> Moved:
        """exp_q(e) (nq,), D exp_q(e) (n, n), and how far both may be off (n, 1 + n); None in closed form."""

    @abc.abstractmethod
    def difference_with_gap_at(self, q: jax.Array, p: jax.Array) -> tuple[jax.Array, Gap]:
        """e (n,) with exp_q(e) = p, NaN if it is not found; and how far it may be off (n,)."""

    @abc.abstractmethod
    def transport_with_gap_at(
        self, nabla: AffineConnection, q: jax.Array, e: jax.Array
    ) -> tuple[jax.Array, Gap]:
        """Parallel transport of `nabla` along s -> exp_q(s e) to s = 1, and how far it may be off, (n, n)."""


class GroupDisplacements(Displacements):
    """q exp(e) on a Lie group."""

    def __init__(self, group: FrameField, steps: Any = FEW) -> None:
        self.frame, self.steps = group, steps

    def with_steps(self, steps: Any) -> GroupDisplacements:
        """The displacements with another even number of steps for the transport by other connections."""
        return GroupDisplacements(self.frame, steps)

    def moved_at(self, q: jax.Array, e: jax.Array) -> Moved:
        """q exp(e) and D exp, in closed form."""
        return *exponential_with_slope_at(self.frame, q, e), None

    def difference_with_gap_at(self, q: jax.Array, p: jax.Array) -> tuple[jax.Array, Gap]:
        """The group's logarithm in closed form, of matrices by Newton's method."""
        return logarithm_at(self.frame, q, p), None

    def transport_with_gap_at(
        self, nabla: AffineConnection, q: jax.Array, e: jax.Array
    ) -> tuple[jax.Array, Gap]:
        """exp(-(1/2 + beta) ad_e) for one of Cartan's and Schouten's, others along the curve."""
        if isinstance(nabla, CartanSchoutenConnection):
            return adjoint_of_exponential_at(self.frame, -(0.5 + nabla.beta) * e), None
        return transport_along_at(CartanSchoutenConnection(self.frame), nabla, q, e, self.steps)


class SphereDisplacements(Displacements):
    """Great circles of the unit sphere; the frame enters at their ends only, so they may cross its pole."""

    def __init__(self, nabla: AffineConnection, steps: Any) -> None:
        self.nabla, self.steps = nabla, steps

    def with_steps(self, steps: Any) -> SphereDisplacements:
        """The displacements with another even number of steps for the transport by other connections."""
        return SphereDisplacements(self.nabla, steps)

    @property
    def frame(self) -> SphereFrame:  # type: ignore[override]
        """The connection's."""
        frame = self.nabla.frame
        assert isinstance(frame, SphereFrame)
        return frame

    @property
    def has_pole(self) -> bool:
        """Whether the frame turns fast near some points: true, at the pole."""
        return True

    def moved_at(self, q: jax.Array, e: jax.Array) -> Moved:
        """The point and D exp on the great circle, in closed form."""
        return *exponential_on_sphere(self.frame, q, e), None

    def difference_with_gap_at(self, q: jax.Array, p: jax.Array) -> tuple[jax.Array, Gap]:
        """The logarithm on the sphere in closed form; NaN for opposite points."""
        return logarithm_on_sphere(self.frame, q, p), None

    def transport_with_gap_at(
        self, nabla: AffineConnection, q: jax.Array, e: jax.Array
    ) -> tuple[jax.Array, Gap]:
        """Transport in closed form by the sphere's own connection, by others along the great circle."""
        if is_round(nabla):
            return transport_on_sphere(self.frame, q, e), None
        return transport_along_at(self.nabla, nabla, q, e, self.steps)


class ProductDisplacements(Displacements):
    """Displacements of a product, factor by factor."""

    def __init__(self, frame: FrameField, factors: tuple[Displacements, ...]) -> None:
        self.frame, self.factors = frame, factors

    def with_steps(self, steps: Any) -> ProductDisplacements:
        """The displacements with another even number of steps in every factor."""
        return ProductDisplacements(self.frame, tuple(factor.with_steps(steps) for factor in self.factors))

    @property
    def has_pole(self) -> bool:
        """Whether the frame of any factor turns fast near some points."""
        return any(factor.has_pole for factor in self.factors)

    def moved_at(self, q: jax.Array, e: jax.Array) -> Moved:
        """The factors' points, joined, with a block diagonal D exp."""
        points, slopes, errors = zip(
            *(f.moved_at(p, x) for f, p, x in self._parts(q, e, self._product.split_vector)), strict=True
        )
        slope, gap = block_diagonal(list(slopes)), None
        if any(error is not None for error in errors):
            errors = tuple(_gap_of(error, J) for error, J in zip(errors, slopes, strict=True))
            of_slope = block_diagonal([error[:, 1:] for error in errors])
            gap = jnp.concatenate([jnp.concatenate([e[:, :1] for e in errors]), of_slope], axis=1)
        return jnp.concatenate(points), slope, gap

    def difference_with_gap_at(self, q: jax.Array, p: jax.Array) -> tuple[jax.Array, Gap]:
        """One after the other."""
        found = [f.difference_with_gap_at(a, b) for f, a, b in self._parts(q, p, self._product.split_point)]
        e = jnp.concatenate([own for own, _ in found])
        if all(gap is None for _, gap in found):
            return e, None
        return e, jnp.concatenate([jnp.zeros_like(own) if gap is None else gap for own, gap in found])

    def transport_with_gap_at(
        self, nabla: AffineConnection, q: jax.Array, e: jax.Array
    ) -> tuple[jax.Array, Gap]:
        """Transport of a product of connections, block diagonal: each factor along its own."""
        if not isinstance(nabla, ProductConnection):
            raise TypeError(
                f"reset: expected a ProductConnection, as the filter's is, got {type(nabla).__name__}"
            )
        parts = zip(nabla.connections, self._parts(q, e, self._product.split_vector), strict=True)
        found = [f.transport_with_gap_at(own, p, x) for own, (f, p, x) in parts]
        turned = block_diagonal([Pi for Pi, _ in found])
        if all(gap is None for _, gap in found):
            return turned, None
        return turned, block_diagonal([jnp.zeros_like(Pi) if gap is None else gap for Pi, gap in found])

    @property
    def _product(self) -> Any:
        return self.frame

    def _parts(self, q: jax.Array, e: jax.Array, split: Callable[[jax.Array], Any]) -> Any:
        return zip(self.factors, self._product.split_point(q), split(e), strict=True)


class GeodesicDisplacements(Displacements):
    """The geodesics of any connection in `steps` steps of Runge and Kutta's method."""

    def __init__(self, nabla: AffineConnection, steps: Any) -> None:
        self.nabla, self.steps = nabla, steps

    def with_steps(self, steps: Any) -> GeodesicDisplacements:
        """The displacements with another even number of steps of each geodesic."""
        return GeodesicDisplacements(self.nabla, steps)

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
        end, gap = followed_to_end(rate_of_robot if is_tree(nabla) else rate, start, self.steps)
        p = frame.project_at(end[0])
        off = frame.velocity_at(p, gap[0])
        return p, end[2], jnp.concatenate([off[:, None], gap[2]], axis=1)

    def difference_with_gap_at(self, q: jax.Array, p: jax.Array) -> tuple[jax.Array, Gap]:
        """Newton's method from e = 0.

        A step is made if the next one, by the same derivative, would be shorter by a quarter of what has been
        made of it (Deuflhard's natural monotonicity test); it is halved if not, or if nothing is there.

        Source: P. Deuflhard, Newton Methods for Nonlinear Problems (2004), section 3.3.
        """
        frame, n = self.frame, self.frame.dim

        def change_at(end: jax.Array, slope: jax.Array, other: jax.Array) -> jax.Array:
            """The change (n,) of e that removes what `other` misses p by, with the slope at `end`."""
            return solve(slope, frame.velocity_at(end, frame.align_at(p, other) - other))

        def root(_: Any, start: jax.Array) -> Any:
            def is_near(at: Any) -> Any:
                e, change, _, (length, _) = at
                return (length == 1.0) & (jnp.max(jnp.abs(change)) <= _SETTLED * jnp.max(jnp.abs(e)) + _TINY)

            def step(at: Any) -> Any:
                e, change, (end, slope, gap), (length, count) = at
                ahead = e + length * change
                moved = self.moved_at(q, ahead)
                rest = change_at(end, slope, moved[0])
                good = jnp.linalg.norm(rest) <= (1.0 - 0.25 * length) * jnp.linalg.norm(change)
                made = ahead, change_at(*moved[:2], moved[0]), moved, jnp.minimum(2.0 * length, 1.0)
                *found, length = where(good, made, (*at[:3], 0.5 * length))
                return *found, jnp.stack([length, count + 1.0])

            here = q, jnp.eye(n), jnp.zeros((n, 1 + n))
            begin = start, change_at(*here[:2], q), here, jnp.array([1.0, 0.0])
            at = e, change, (_, slope, gap), _ = jax.lax.while_loop(
                lambda at: ~is_near(at) & (at[-1][1] < _NEWTON_STEPS), step, begin
            )
            return e + change, jnp.where(is_near(at), solve(slope, gap[:, 0]), jnp.nan)

        def missed(e: jax.Array) -> jax.Array:
            end = self.moved_at(q, e)[0]
            return frame.velocity_at(jax.lax.stop_gradient(end), frame.align_at(p, end) - end)

        def tangent(along: Any, b: jax.Array) -> jax.Array:
            return solve(jax.vmap(along, 0, 1)(jnp.eye(n)), b)

        e, gap = jax.lax.custom_root(missed, jnp.zeros(n), root, tangent, has_aux=True)
        return jnp.where(jnp.isnan(gap[0]), jnp.nan, e), jax.lax.stop_gradient(gap)

    def transport_with_gap_at(
        self, nabla: AffineConnection, q: jax.Array, e: jax.Array
    ) -> tuple[jax.Array, Gap]:
        """Along the geodesic of the filter's connection."""
        return transport_along_at(self.nabla, nabla, q, e, self.steps)


def displacements_of(nabla: AffineConnection, steps: Any) -> Displacements:
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
        return GroupDisplacements(nabla.group, steps)
    if isinstance(nabla, ProductConnection):
        factors = tuple(displacements_of(factor, steps) for factor in nabla.connections)
        if all(isinstance(factor, GroupDisplacements) for factor in factors):
            return GroupDisplacements(nabla.frame, steps)
        return ProductDisplacements(nabla.frame, factors)
    if is_round(nabla):
        return SphereDisplacements(nabla, steps)
    flat = isinstance(nabla.frame, CoordinateFrame) and isinstance(nabla.known_metric, ConstantMetric)
    if flat and isinstance(nabla, LeviCivita):
        return GroupDisplacements(nabla.frame, steps)
    return GeodesicDisplacements(nabla, steps)


def transport_along_at(
    nabla: AffineConnection, carrier: AffineConnection, q: jax.Array, e: jax.Array, steps: Any
) -> tuple[jax.Array, jax.Array]:
    """Transport of `carrier` along the geodesic of `nabla` from q (nq,) with velocity e (n,), and its gap."""

    def rate(state: Any, _: Any) -> Any:
        p, (v, Z) = nabla.frame.project_at(state[0]), state[1:]
        turned = jax.vmap(lambda z: carrier.apply_at(p, v, z), 1, 1)(Z)
        return nabla.frame.matrix_at(p) @ v, -nabla.apply_at(p, v, v), -turned

    end, gap = followed_to_end(rate, (q, e, jnp.eye(len(e))), steps)
    return end[2], gap[2]


def with_enough_steps(
    made: Callable[[Any], tuple[Tree, jax.Array | None]], steps: int | None, goes_on: bool = True
) -> tuple[Tree, jax.Array | None]:
    """A result computed with a number of steps of geodesics, and whether it needs more steps.

    Parameters
    ----------
    made : steps -> a result, and whether it needs more steps, None if no geodesic is integrated.
    steps : the number of steps, or None for as many of `FEW` and `MORE` as are enough.
    goes_on : if steps is None, whether more follow `FEW`.
    """
    found = made(FEW if steps is None else steps)
    if steps is not None or not goes_on or found[1] is None:
        return found

    def finer(found: Any, steps: Any) -> tuple[Any, None]:
        again = jax.lax.cond(
            anywhere_in_batch(found[1]),
            lambda found: where(found[1], made(steps), found),
            lambda same: same,
            found,
        )
        return again, None

    found = jax.tree_util.tree_map(jnp.asarray, found)
    finest: tuple[Tree, jax.Array] = jax.lax.cond(
        anywhere_in_batch(found[1]),
        lambda found: jax.lax.scan(finer, found, jnp.array(MORE))[0],
        lambda same: same,
        found,
    )
    return finest


def too_coarse(gap: Gap, P: jax.Array, turned: jax.Array | None = None) -> jax.Array | None:
    """How far a point and P may be off: in standard deviations, and relative to P. None in closed form.

    Parameters
    ----------
    gap : of a point and of J, (k, 1 + k), or of a point alone, (k,).
    P : (k, k) at the point. turned : P_e J^T (k, k), if J moved the covariance P_e to P = J P_e J^T.
    """
    if gap is None:
        return None
    scale = inverse_factor(P)
    if turned is None:
        point = scale @ gap
        return jnp.sqrt(point @ point)
    point, spread = scale @ gap[:, 0], product(product(scale, product(gap[:, 1:], turned)), scale.T)
    return jnp.maximum(jnp.sqrt(point @ point), 2.0 * jnp.sqrt(jnp.sum(spread**2)))


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


def followed_to_end(rate: Callable[[Any, Any], Any], y: Any, steps: Any) -> tuple[Any, Any]:
    """The state at the time one, and how far it may be off, as `followed`.

    Parameters
    ----------
    steps : an even number, or a traced one of `MORE`.
    """
    if isinstance(steps, int):
        return followed(rate, y, steps)[1:]
    length = FEW / steps

    @jax.checkpoint
    def block(carried: Any, number: Any) -> tuple[Any, None]:
        own = number * FEW < steps

        def further(carried: Any) -> Any:
            begin, off = carried
            _, end, gap = followed(rate, begin, FEW, number * length, length)
            return where(own, (end, plus(off, gap, 1.0)), carried)

        return jax.lax.cond(anywhere_in_batch(own), further, lambda same: same, carried), None

    y = jax.tree_util.tree_map(jnp.asarray, y)
    begin = y, jax.tree_util.tree_map(jnp.zeros_like, y)
    found: tuple[Any, Any] = jax.lax.scan(block, begin, np.arange(MORE[-1] // FEW))[0]
    return found


def larger(*offs: jax.Array | None) -> jax.Array | None:
    """The largest of what may be off; None if all is in closed form."""
    known = [off for off in offs if off is not None]
    return functools.reduce(jnp.maximum, known) if known else None


def _gap_of(gap: Gap, slope: jax.Array) -> jax.Array:
    return jnp.zeros((len(slope), 1 + len(slope))) if gap is None else gap


def plus(y: Any, k: Any, factor: Any) -> Any:
    """y + factor k, of trees."""
    return jax.tree_util.tree_map(lambda a, b: a + factor * b, y, k)
