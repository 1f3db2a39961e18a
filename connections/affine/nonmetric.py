"""Connections without torsion that change lengths: Weyl's, and those of statistics with their duals.

Both are Gamma* less a contorsion that is symmetric in its last two indices. Weyl's scale all inner products
by one factor, nabla g = form * g. Those of statistics have a totally symmetric nabla g = alpha C; with alpha
and -alpha they are dual, L_X <Y, Z> = <nabla_X Y, Z> + <Y, nabla*_X Z>. Sources: [Fo]; [AN] chapters 2, 3.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from connections._jax import ArrayLike
from connections.affine.combinations import require_cube
from connections.affine.contorsion import (
    SYMMETRY_TOLERANCE,
    ConnectionWithContorsion,
    contorsion_sizes,
)
from connections.checks import (
    ShapeError,
    SymmetryError,
    as_array,
    raise_at,
    require_finite,
    require_function,
    require_shape,
    require_type,
)
from connections.evaluation.parameters import Parametrized, is_same, with_parameters
from connections.geometry.frames import PointFunction
from connections.geometry.metrics import Metric
from connections.geometry.numerics.scales import lengths_of


@dataclass(frozen=True, eq=False, repr=False)
class WeylConnection(ConnectionWithContorsion):
    """The connection without torsion and with nabla g = form * g, (nabla_i g)_jk = form_i H_jk.

    Gamma_ijk = Gamma*_ijk - (form_j H_ik + form_k H_ij - form_i H_jk) / 2. The metric e^f g with form + df
    has the same one. If the form is -df, it is the Levi-Civita connection of e^f g, as that of the Jacobi
    metric 2 (E - V) g, whose geodesics are the motions of the energy E.

    Parameters
    ----------
    metric : the metric.
    form : q (nq,) -> (n,), components form(X_i) of a one-form in the metric's frame; JAX-traceable.
    parameters : optional, the last argument of `form` (`ParametricFunction`).

    Raises
    ------
    TypeError : an argument is of another kind. ShapeError, at a point : the form is not (n,).

    Source: [Fo]; the sign of the form is that of the trace of nabla g.

    Examples
    --------
    Lengths of vectors that are carried along x grow by e^(x / 2), and angles stay:

    >>> import connections as cn
    >>> from jax import numpy as jnp
    >>> plane = cn.ConstantMetric(cn.CoordinateFrame(2), jnp.eye(2))
    >>> nabla = cn.WeylConnection(plane, lambda q: jnp.array([1.0, 0.0]))
    >>> line = lambda t: jnp.stack([t, 0.0 * t])
    >>> cn.parallel_transport(nabla, line, [0.0, 1.0], [0.0, 2.0])[-1].round(6)
    array([0.      , 2.718282])
    """

    metric: Metric
    form_function: PointFunction

    def __init__(self, metric: Metric, form: Callable[..., Any], parameters: Any = None) -> None:
        require_type("metric", metric, Metric)
        require_function("form", form, "q -> form (n,)", parameters=parameters)
        object.__setattr__(self, "metric", metric)
        object.__setattr__(self, "form_function", with_parameters(form, parameters))
        object.__setattr__(self, "frame", metric.frame)

    def form_at(self, q: jax.Array) -> jax.Array:
        """The form at q, (n,)."""
        return require_shape("form(q)", self.form_function(q), (self.frame.dim,))

    def contorsion_at(self, q: jax.Array) -> jax.Array:
        """(form_j H_ik + form_k H_ij - form_i H_jk) / 2, (n, n, n)."""
        part = jnp.einsum("j,ik->ijk", self.form_at(q), self.metric.matrix_at(q))
        return 0.5 * (part + jnp.swapaxes(part, 1, 2) - jnp.swapaxes(part, 0, 1))


class CubicForm(Parametrized, abc.ABC):
    """A totally symmetric C whose connections along two vectors are less than all of their symbols."""

    @abc.abstractmethod
    def __call__(self, q: jax.Array) -> jax.Array:
        """C(q), (n, n, n)."""

    @abc.abstractmethod
    def symbols_along_at(self, q: jax.Array, v: jax.Array, w: jax.Array, alpha: Any) -> jax.Array:
        """Gamma*_ijk v^j w^k - alpha C_ijk v^j w^k / 2, (n,)."""

    @abc.abstractmethod
    def chord_at(self, q0: jax.Array, q1: jax.Array, alpha: Any) -> jax.Array:
        """`AffineConnection.chord_at` of the connection of alpha = 1 or -1."""


@dataclass(frozen=True, eq=False, repr=False)
class StatisticalConnection(ConnectionWithContorsion):
    """The connection without torsion and with nabla g = alpha C: Gamma_ijk = Gamma*_ijk - alpha C_ijk / 2.

    C is totally symmetric. The connections of alpha and -alpha are dual with respect to the metric, their
    mean is Levi-Civita's, and their curvatures are R*_lkij = -R_klij, first index low. All alpha share
    compiled functions. If C is the Amari-Chentsov tensor of a `StatisticalModel`, 1 is the exponential
    connection and -1 the mixture connection.

    Parameters
    ----------
    metric : the metric.
    cubic : q (nq,) -> C[i, j, k] (n, n, n), totally symmetric, all indices low; JAX-traceable.
    alpha : a number; JAX can differentiate by it.
    parameters : optional, the last argument of `cubic` (`ParametricFunction`).

    Raises
    ------
    TypeError : an argument is of another kind. NonFiniteError : alpha is not finite.
    ShapeError, SymmetryError, at a point : C is not (n, n, n), or not totally symmetric.

    Source: [AN] sections 2.3, 3.1; their Gamma_ij,k is Gamma_low[k, i, j] here.

    Examples
    --------
    Poisson's densities, q the logarithm of the rate:

    >>> import connections as cn
    >>> from jax import numpy as jnp
    >>> metric = cn.MatrixMetric(cn.CoordinateFrame(1), lambda q: jnp.exp(q)[None])
    >>> nabla = cn.StatisticalConnection(metric, lambda q: jnp.exp(q)[None, None])
    >>> three = nabla, nabla.with_alpha(0.0), nabla.dual
    >>> [float(each.coefficients([0.3])[0, 0, 0].round(9)) for each in three]
    [0.0, 0.5, 1.0]
    """

    metric: Metric
    cubic_function: PointFunction
    alpha: Any

    def __init__(
        self, metric: Metric, cubic: Callable[..., Any], alpha: Any = 1.0, parameters: Any = None
    ) -> None:
        require_type("metric", metric, Metric)
        require_function("cubic", cubic, "q -> C (n, n, n)", parameters=parameters)
        object.__setattr__(self, "metric", metric)
        object.__setattr__(self, "cubic_function", with_parameters(cubic, parameters))
        object.__setattr__(self, "alpha", _number("alpha", alpha))
        object.__setattr__(self, "frame", metric.frame)

    def cubic_at(self, q: jax.Array) -> jax.Array:
        """C(q), (n, n, n)."""
        return require_cube("cubic", self.cubic_function(q), self.frame.dim)

    def contorsion_at(self, q: jax.Array) -> jax.Array:
        """alpha C / 2, (n, n, n)."""
        contorsion: jax.Array = 0.5 * self.alpha * self.cubic_at(q)
        return contorsion

    def lowered_at(self, metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """(Gamma*_ijk - alpha C_ijk / 2) v^j w^k, (n,), without H^-1 if `metric` is the connection's own."""
        if isinstance(self.cubic_function, CubicForm) and is_same(metric, self.metric):
            return self.cubic_function.symbols_along_at(q, v, w, self.alpha)
        return super().lowered_at(metric, q, v, w)

    @property
    def has_chords(self) -> bool:
        """Whether C is that of densities, and alpha is 1 or -1."""
        return isinstance(self.cubic_function, CubicForm) and abs(float(self.alpha)) == 1.0

    def chord_at(self, q0: jax.Array, q1: jax.Array) -> jax.Array:
        """Initial velocity (n,) of the only geodesic from q0 to q1, if densities are dually flat; or NaN."""
        if not isinstance(self.cubic_function, CubicForm):
            return super().chord_at(q0, q1)
        return self.cubic_function.chord_at(q0, q1, self.alpha)

    @property
    def dual(self) -> StatisticalConnection:
        """The connection of -alpha: L_X <Y, Z> = <nabla_X Y, Z> + <Y, dual_X Z>."""
        return self.with_alpha(-self.alpha)

    def with_alpha(self, alpha: Any) -> StatisticalConnection:
        """The connection of the same metric and C with another alpha.

        Parameters
        ----------
        alpha : a number.
        """
        return StatisticalConnection(self.metric, self.cubic_function, alpha)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid and C totally symmetric."""
        return self.metric.valid_at(q) & (self._symmetry_gap_at(q) <= SYMMETRY_TOLERANCE)

    def explain(self, q: ArrayLike) -> None:
        """The metric's error, or `SymmetryError`."""
        self.metric.explain(q)
        if not self._symmetry_gap_at(jnp.asarray(q)) <= SYMMETRY_TOLERANCE:
            raise_at(SymmetryError, "the cubic form is not totally symmetric", q)

    def _symmetry_gap_at(self, q: jax.Array) -> jax.Array:
        C = self.cubic_at(q)
        sizes = contorsion_sizes(C, lengths_of(self.metric.positive_at(q)))
        gaps = jnp.stack([C - jnp.swapaxes(C, *axes) for axes in ((0, 1), (1, 2))])
        return jnp.max(jnp.where(gaps == 0.0, 0.0, jnp.abs(gaps) / sizes[None]))


def _number(name: str, value: Any) -> Any:
    """A finite number, as an array without axes, or a tracer."""
    number = as_array(name, value, ())
    if number.ndim:
        raise ShapeError(name, (), number.shape)
    require_finite(name, number)
    return number
