"""Symmetry: actions of a group, and invariant fields, metrics and forms.

A left action has Phi_e = id and Phi_g Phi_h = Phi_gh. T is the derivative of Phi_g at q, and in a frame X
column i of B = X(Phi_g q)^+ T X(q) holds the components of X_i, pushed to Phi_g q. A field is invariant where
X(Phi_g q) = T X(q), a metric where B^T H(Phi_g q) B = H(q), forms where W(Phi_g q) B = W(q). Invariant basis,
metric and forms make Christoffel symbols and input coefficients invariant functions (Lemma 3.3).
Source: [Z] 3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.connection import AffineConnection, ConnectionOfMetric
from connections.affine.constrained import ConstrainedConnection
from connections.checks import (
    Check,
    ShapeError,
    SymmetryError,
    as_array,
    as_covectors,
    as_number,
    as_result,
    raise_at,
    require_finite,
    require_function,
    require_shape,
    require_text,
    require_type,
    require_untraced,
)
from connections.evaluation.boundary import Argument, evaluate, projected_point
from connections.evaluation.compilation import compiled, shape_of
from connections.evaluation.parameters import Parametrized, PytreePartial
from connections.geometry.frames import FrameField, PointFunction
from connections.geometry.metrics import Metric
from connections.geometry.numerics.scales import (
    FLOOR,
    inverse_lengths_of,
    lengths_of,
    sizes_of_columns,
    worst,
    worst_check,
)

Binary = Callable[[jax.Array, jax.Array], jax.Array]

AXIOMS = (
    "the unit element moves points: Phi_e(q) is not q",
    "Phi_g Phi_h is not Phi_gh",
    "the product has no unit element: e g or g e is not g",
    "the product is not associative: (g h) g is not g (h g)",
)
TOL = 1e-9
SHORTEST = 1e-6  # of a generator's length, relative to the point: a momentum of less is round-off


@dataclass(frozen=True, eq=False)
class GroupAction(Parametrized):
    """A left action Phi of a Lie group on the points of a manifold.

    Parameters
    ----------
    action : (q, g) -> Phi_g(q), (nq,) and (k,) to (nq,); JAX-traceable. Angles are not wrapped.
    product : (g, h) -> g h, (k,); JAX-traceable.
    identity : (k,) the unit element.

    Raises
    ------
    ShapeError : the unit element is no vector, or the product has another length.
    SymmetryError : by every check, at points where this is no left action; names the axiom and the point.

    Examples
    --------
    Turns of the plane about the origin.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> def turn(q, g):
    ...     c, s = jnp.cos(g[0]), jnp.sin(g[0])
    ...     return jnp.array([c * q[0] - s * q[1], s * q[0] + c * q[1]])
    >>> turns = cn.GroupAction(turn, lambda g, h: g + h, [0.0])
    >>> plane = cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2))
    >>> turns.momenta(plane, [2.0, 0.0], [0.0, 3.0])  # the angular momentum
    array([6.])
    >>> turns.check_invariant_metric(plane, [2.0, 0.0], [0.7]).ok
    True

    Source: [Z] 3.3.
    """

    action: Binary
    product: Binary
    identity: Any

    def __post_init__(self) -> None:
        require_function("action", self.action, "(q, g) -> Phi_g(q) (nq,)")
        require_function("product", self.product, "(g, h) -> g h (k,)")
        identity = np.asarray(as_array("identity", self.identity, (None,)))
        if identity.ndim != 1:
            raise ShapeError("identity", ("k",), identity.shape)
        require_finite("identity", identity)
        object.__setattr__(self, "identity", identity)
        shape = shape_of("product of the group", self.product_at, identity.shape, identity.shape)
        if shape != identity.shape:
            raise ShapeError("product of the group", identity.shape, shape)

    # --- the definition at one point ---------------------------------------------------------------------

    def act_at(self, q: jax.Array, g: jax.Array) -> jax.Array:
        """Phi_g(q), (nq,)."""
        return require_shape("action of the group", self.action(q, g), q.shape)

    def product_at(self, g: jax.Array, h: jax.Array) -> jax.Array:
        """g h, (k,)."""
        return as_result("product of the group", self.product(g, h))

    def tangent_at(self, q: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Phi_g(q) and its derivative T, (nq,) and (nq, nq)."""
        return self.act_at(q, g), jax.jacfwd(self.act_at)(q, g)

    def push_at(self, frame: FrameField, q: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Phi_g(q) and B (n, n): components at Phi_g(q) of the frame's fields, pushed there."""
        moved, T = self.tangent_at(q, g)
        return moved, frame.dual_at(moved) @ T @ frame.matrix_at(q)

    def generators_at(self, q: jax.Array) -> jax.Array:
        """d Phi_g(q) / dg at g = e, (nq, k)."""
        generators: jax.Array = jax.jacfwd(self.act_at, argnums=1)(q, jnp.asarray(self.identity))
        return generators

    def momenta_at(self, metric: Metric, q: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        """J_a = <v, xi_a> of the generators xi_a, and their lengths |xi_a|, (k,) each.

        A generator may vanish, as a turn does on its axis, and then is round-off of the point's coordinates:
        to its length is added the share `SHORTEST` of what these coordinates are as a tangent vector.
        """
        dual, H = metric.frame.dual_at(q), metric.matrix_at(q)
        xi, point = dual @ self.generators_at(q), jnp.abs(dual) @ jnp.abs(q)
        least = SHORTEST * jnp.sqrt(point @ jnp.abs(H) @ point)
        G = metric.positive_at(q)
        return xi.T @ H @ v, lengths_of(xi.T @ G @ xi) + least

    # --- public functions ----------------------------------------------------------------------------------

    def act(self, q: ArrayLike, g: ArrayLike) -> Array:
        """Phi_g(q), (..., nq).

        Parameters
        ----------
        q : (..., nq) points.
        g : (..., k) elements of the group.
        """
        return evaluate(self, self.act_at, *self._arguments(q, g), checked=False)

    def generators(self, q: ArrayLike) -> Array:
        """The fields that generate the action, (..., nq, k): d Phi_g(q) / dg^a at the unit element.

        Parameters
        ----------
        q : (..., nq) points.
        """
        point = Argument("q", q, (None,))
        return evaluate(self, self.generators_at, point, checked=False)

    def momenta(self, metric: Metric, q: ArrayLike, v: ArrayLike) -> Array:
        """The momentum map J_a = <v, xi_a>, (..., k), with the fields xi_a that generate the action.

        Geodesics conserve it if the metric is invariant, and so does the motion of a system without forces,
        if its potential is invariant, too (Noether).

        Parameters
        ----------
        metric : in any frame.
        q, v : (..., nq) points and (..., n) velocities, components in the metric's frame.
        """
        require_type("metric", metric, Metric)
        point = Argument("q", q, (metric.frame.ambient_dim,))
        velocity = Argument("v", v, (metric.frame.dim,))
        return evaluate(metric, PytreePartial(_momenta_at, self, metric), point, velocity)

    # --- checks --------------------------------------------------------------------------------------------

    def check_action(self, q: ArrayLike, g: ArrayLike, h: ArrayLike, tol: float = TOL) -> Check:
        """Whether Phi_e = id, Phi_g Phi_h = Phi_gh, e g = g = g e and (g h) g = g (h g).

        The check is named after the axiom with the largest relative residual.

        Parameters
        ----------
        q : (..., nq) points.
        g, h : (..., k) elements of the group.
        tol : of every coordinate, relative to the contributions of the coordinates of points and elements.
        """
        residual, scale, _ = self._axioms(q, g, h)
        axiom = int(np.argmax(_relative(residual, scale).max(axis=0)))
        return worst_check(f"group action, {AXIOMS[axiom]}", (residual[:, axiom], scale[:, axiom]), tol)

    def require_action(self, q: ArrayLike, g: Any, h: Any = None, tol: float = TOL) -> Array:
        """Phi_g(q), (..., nq), or `SymmetryError`, naming axiom and point, where this is no left action.

        Parameters
        ----------
        q : (..., nq) points.
        g, h : (..., k) elements of the group; without h every g is composed with the next.
        tol : as for `check_action`.
        """
        require_untraced(q=q, g=g, h=h)
        tol = as_number("tol", tol)
        if h is None:
            g = as_array("g", g, self.identity.shape)
            h = np.roll(np.reshape(g, (-1, *self.identity.shape)), -1, axis=0).reshape(g.shape)
        residual, scale, moved = self._axioms(q, g, h)
        failing = ~(_relative(residual, scale) <= tol)
        if not failing.any():
            return moved
        row, axiom = (int(index) for index in np.argwhere(failing)[0])
        q, g, h = _broadcast(q, g, h)
        what = f"not a left action of a group: {AXIOMS[axiom]}"
        reversed_residual, reversed_scale = compiled(self._right_action_at)(q[row], g[row], h[row])
        if axiom == 1 and reversed_residual <= tol * reversed_scale:
            what += " but Phi_hg: a right action, of which the product has to be reversed"
        where = ", ".join(f"{k} = {np.array2string(x[row], precision=4)}" for k, x in (("g", g), ("h", h)))
        raise_at(SymmetryError, f"{what} (off by {residual[row, axiom]:.2e}, {where})", q[row])

    def check_invariant_function(
        self, function: PointFunction, q: ArrayLike, g: ArrayLike, name: str = "function", tol: float = TOL
    ) -> Check:
        """Whether f(Phi_g q) = f(q).

        Parameters
        ----------
        function : q (nq,) -> f of any shape; JAX-traceable.
        q, g : (..., nq) points and (..., k) elements of the group.
        name : the name of the check.
        tol : of every entry of f, relative to |f| plus the contributions of the coordinates to it.
        """
        require_function("function", function, "q -> array")
        require_text("name", name)
        return self._measure(
            f"invariant {name}", self, PytreePartial(self._function_change_at, function), q, g, tol
        )

    def check_invariant_metric(self, metric: Metric, q: ArrayLike, g: ArrayLike, tol: float = TOL) -> Check:
        """Whether <<T u, T w>> at Phi_g q is <<u, w>> at q: B^T H(Phi_g q) B = H(q).

        Parameters
        ----------
        metric : a metric in any frame, invariant or not.
        q, g : (..., nq) points and (..., k) elements of the group.
        tol : of every component, relative to its terms, or to 1e-4 of the product of the fields' lengths.
        """
        require_type("metric", metric, Metric)
        return self._measure(
            "invariant metric", metric, PytreePartial(self._metric_change_at, metric), q, g, tol
        )

    def check_invariant_frame(self, frame: FrameField, q: ArrayLike, g: ArrayLike, tol: float = TOL) -> Check:
        """Whether every field of a frame is invariant, X(Phi_g q) = T X(q), in ambient coordinates.

        Parameters
        ----------
        frame : a frame; ``nabla.frame`` is the basis of a constrained connection.
        q, g : (..., nq) points and (..., k) elements of the group.
        tol : of every component, relative to its terms.
        """
        require_type("frame", frame, FrameField)
        return self._measure("invariant basis", frame, PytreePartial(self._frame_change_at, frame), q, g, tol)

    def check_invariant_forms(
        self,
        forms: PointFunction,
        frame: FrameField,
        q: ArrayLike,
        g: ArrayLike,
        name: str = "forms",
        tol: float = TOL,
    ) -> Check:
        """Whether each one-form is invariant: the pull-back W(Phi_g q) B is W(q).

        Parameters
        ----------
        forms : q -> W (p, n), components w_a(X_i); JAX-traceable. Constraints or inputs.
        frame : the frame of the components.
        q, g : (..., nq) points and (..., k) elements of the group.
        name : the name of the check.
        tol : of every component, relative to its terms.
        """
        require_type("frame", frame, FrameField)
        require_function("forms", forms, "q -> W (p, n)")
        require_text("name", name)
        return self._measure(
            f"invariant {name}", frame, PytreePartial(self._forms_change_at, frame, forms), q, g, tol
        )

    def check_invariant_distribution(
        self, nabla: ConstrainedConnection, q: ArrayLike, g: ArrayLike, tol: float = TOL
    ) -> Check:
        """Whether T D(q) = D(Phi_g q): only the span is compared, not the basis.

        Parameters
        ----------
        nabla : the constrained connection that has the distribution.
        q, g : (..., nq) points and (..., k) elements of the group.
        tol : of every component, relative to its terms, or to 1e-4 of its bound by the pushed field's length.
        """
        require_type("nabla", nabla, ConstrainedConnection)
        return self._measure(
            "invariant distribution", nabla, PytreePartial(self._distribution_change_at, nabla), q, g, tol
        )

    def check_invariant_coefficients(
        self, nabla: AffineConnection, q: ArrayLike, g: ArrayLike, tol: float = TOL
    ) -> Check:
        """Whether the Christoffel symbols are invariant functions, the first half of Lemma 3.3.

        Parameters
        ----------
        nabla : any connection; its coefficients in its own frame.
        q, g : (..., nq) points and (..., k) elements of the group.
        tol : of every coefficient, relative to the connection's terms before cancellation (`scale_at`).

        Source: [Z] Lemma 3.3.
        """
        require_type("nabla", nabla, AffineConnection)
        return self._measure(
            "invariant Christoffel symbols",
            nabla,
            PytreePartial(self._coefficients_change_at, nabla),
            q,
            g,
            tol,
        )

    def check_invariant_input_coefficients(
        self, nabla: ConnectionOfMetric, forms: PointFunction, q: ArrayLike, g: ArrayLike, tol: float = TOL
    ) -> Check:
        """Whether the input coefficients Y^k_a are invariant functions, the second half of Lemma 3.3.

        Parameters
        ----------
        nabla : a constrained or Levi-Civita connection.
        forms : q -> (a, n), covectors in the frame of the metric without constraints; JAX-traceable.
        q, g : (..., nq) points and (..., k) elements of the group.
        tol : of every coefficient, relative to the terms of H^-1 F, or to 1e-4 of its bound by lengths.

        Source: [Z] Lemma 3.3.
        """
        require_type("nabla", nabla, ConnectionOfMetric)
        require_function("forms", forms, "q -> covectors (a, n)")
        return self._measure(
            "invariant input coefficients",
            nabla,
            PytreePartial(self._input_coefficients_change_at, nabla, forms),
            q,
            g,
            tol,
        )

    # --- private -------------------------------------------------------------------------------------------

    def _function_change_at(
        self, function: PointFunction, p: jax.Array, element: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        def read(p: jax.Array) -> jax.Array:
            return as_result("function(q)", function(p))

        return compared(lambda p, g: read(self.act_at(p, g)), lambda p, g: read(p), p, element)

    def _metric_change_at(
        self, metric: Metric, p: jax.Array, element: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        moved, B, terms = self._pushed_at(metric.frame, p, element)
        H, there = metric.matrix_at(p), metric.matrix_at(moved)
        scale = terms.T @ jnp.abs(there) @ terms + jnp.abs(H)
        lengths = lengths_of(metric.positive_at(p))
        return worst(B.T @ there @ B - H, scale + FLOOR * jnp.outer(lengths, lengths))

    def _frame_change_at(
        self, frame: FrameField, p: jax.Array, element: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        moved, T = self.tangent_at(p, element)
        X = frame.matrix_at(p)
        there = frame.matrix_at(moved)
        return worst(there - T @ X, sizes_of_columns(jnp.abs(there) + jnp.abs(T) @ jnp.abs(X)))

    def _forms_change_at(
        self, frame: FrameField, forms: PointFunction, p: jax.Array, element: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        moved, B, terms = self._pushed_at(frame, p, element)
        here, there = (as_covectors("forms(q)", forms(point), frame.dim) for point in (p, moved))
        return worst(there @ B - here, sizes_of_columns((jnp.abs(there) @ terms + jnp.abs(here)).T).T)

    def _distribution_change_at(
        self, nabla: ConstrainedConnection, p: jax.Array, element: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        moved, B, terms = self._pushed_at(nabla.ambient.frame, p, element)
        A, complement = nabla.basis_at(p), nabla.distribution.complement_at(moved)
        H = nabla.ambient_metric.matrix_at(moved)
        pushed = B @ A
        allowed = jnp.outer(inverse_lengths_of(H), lengths_of(pushed.T @ H @ pushed))
        return worst(complement @ pushed, jnp.abs(complement) @ terms @ jnp.abs(A) + FLOOR * allowed)

    def _coefficients_change_at(
        self, nabla: AffineConnection, p: jax.Array, element: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        moved = self.act_at(p, element)
        change = nabla.coefficients_at(moved) - nabla.coefficients_at(p)
        return worst(change, nabla.scale_at(p) + nabla.scale_at(moved))

    def _input_coefficients_change_at(
        self, nabla: ConnectionOfMetric, forms: PointFunction, p: jax.Array, element: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        def raised(p: jax.Array) -> tuple[jax.Array, jax.Array]:
            ambient = nabla.ambient if isinstance(nabla, ConstrainedConnection) else nabla
            covectors = as_covectors("forms(q)", forms(p), ambient.frame.dim)
            if isinstance(nabla, ConstrainedConnection):
                covectors = covectors @ nabla.basis_at(p)
            metric = nabla.metric
            inverse = metric.raised_at(p, jnp.eye(metric.frame.dim))
            unit = inverse_lengths_of(metric.positive_at(p))
            allowed = jnp.outer(unit, jnp.max(unit[None] * jnp.abs(covectors), axis=1))
            return inverse @ covectors.T, jnp.abs(inverse) @ jnp.abs(covectors.T) + FLOOR * allowed

        here, there = raised(p), raised(self.act_at(p, element))
        return worst(here[0] - there[0], here[1] + there[1])

    def _arguments(self, q: Any, g: Any) -> tuple[Argument, Argument]:
        return Argument("q", q, (None,)), Argument("g", g, self.identity.shape)

    def _measure(self, name: str, owner: Any, at: PytreePartial[Any], q: Any, g: Any, tol: float) -> Check:
        """The check of one property; the function is compiled once for its owner, which validates q."""
        if owner is not self:
            as_array("q", q, (owner.frame.ambient_dim,))
        moved = self.require_action(q, g)
        if owner is not self:
            for points in (q, moved):
                evaluate(owner, projected_point, Argument("q", points, (None,)))
        arguments, checked = self._arguments(q, g), owner is not self
        return worst_check(name, evaluate(owner, at, *arguments, checked=checked), tol)

    def _axioms(self, q: Any, g: Any, h: Any) -> tuple[np.ndarray, np.ndarray, jax.Array]:
        """Residuals and scales of the axioms, (points, 4) each, and the points Phi_g(q)."""
        require_untraced(q=q, g=g, h=h)
        point, element = self._arguments(q, g)
        other = Argument("h", h, self.identity.shape)
        values = evaluate(self, self._axioms_at, point, element, other, checked=False)
        residual, scale = (np.asarray(value).reshape(-1, len(AXIOMS)) for value in values[:2])
        return residual, scale, values[2]

    def _axioms_at(self, q: jax.Array, g: jax.Array, h: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        e, act, product = jnp.asarray(self.identity), self.act_at, self.product_at
        found = (
            compared(lambda q: act(q, e), lambda q: q, q),
            compared(lambda q, g, h: act(act(q, h), g), lambda q, g, h: act(q, product(g, h)), q, g, h),
            compared(lambda g: jnp.stack([product(e, g), product(g, e)]), lambda g: jnp.stack([g, g]), g),
            compared(lambda g, h: product(product(g, h), g), lambda g, h: product(g, product(h, g)), g, h),
        )
        residual, scale = zip(*found, strict=True)
        return jnp.stack(residual), jnp.stack(scale), self.act_at(q, g)

    def _right_action_at(self, q: jax.Array, g: jax.Array, h: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Residual and scale of Phi_g Phi_h = Phi_hg."""
        act, product = self.act_at, self.product_at
        return compared(lambda q, g, h: act(act(q, h), g), lambda q, g, h: act(q, product(h, g)), q, g, h)

    def _pushed_at(
        self, frame: FrameField, q: jax.Array, g: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Phi_g(q), B as `push_at` gives it, and the absolute values of B's terms, added."""
        moved, T = self.tangent_at(q, g)
        dual, X = frame.dual_at(moved), frame.matrix_at(q)
        return moved, dual @ T @ X, jnp.abs(dual) @ jnp.abs(T) @ jnp.abs(X)


def _momenta_at(action: GroupAction, metric: Metric, q: jax.Array, v: jax.Array) -> jax.Array:
    return action.momenta_at(metric, q, v)[0]


def compared(
    first: Callable[..., jax.Array], second: Callable[..., jax.Array], *arguments: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The entry where two functions that should agree differ most, relative to its terms; and these terms.

    The terms of f(x) are |f| and |df/dx| |x|, the contributions of the coordinates. They do not depend on
    units.
    """
    terms: Any = 0.0
    for function in (first, second):
        terms = terms + jnp.abs(function(*arguments))
        slopes = jax.jacfwd(function, argnums=tuple(range(len(arguments))))(*arguments)
        for slope, x in zip(slopes, arguments, strict=True):
            terms = terms + jnp.abs(slope) @ jnp.abs(x)
    return worst(first(*arguments) - second(*arguments), terms)


def _relative(residual: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Residual over scale; zero where both are zero."""
    with np.errstate(divide="ignore"):
        relative: np.ndarray = residual / np.where(residual == 0.0, 1.0, scale)
    return relative


def _broadcast(*arrays: Any) -> list[np.ndarray]:
    """Points and elements of one batch, (points, length) each."""
    given = [np.asarray(array, dtype=np.float64) for array in arrays]
    batch = np.broadcast_shapes(*(array.shape[:-1] for array in given))
    return [np.broadcast_to(array, (*batch, array.shape[-1])).reshape(-1, array.shape[-1]) for array in given]
