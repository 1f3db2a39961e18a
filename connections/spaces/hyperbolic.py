"""Hyperbolic space of curvature -1 in three models, each with its geodesics in closed form.

Formulas are for one point, from which the isometries of the model carry them to all others: shifts and
stretchings of the half space, Moebius' additions of the ball, boosts of the hyperboloid. With h =
sinh^2(d / 2) of the distance d,

    h = |q - p|^2 / (4 p_n q_n)                           half space, p_n > 0 the last coordinate
      = |q - p|^2 / ((1 - |p|^2) (1 - |q|^2))             ball
      = -(<p, q> + 1) / 2                                 hyperboloid, <p, p> = -p_0^2 + p_1^2 + ... = -1

so that points close together lose no digits. In the half space, with the differences x across and y of
the heights, g = |(x, y)| and G = |(x, p_n + q_n)|,

    tanh(d / 2) = g / G,      log_p q = d p_n / (g G) (2 p_n x, |x|^2 + y (p_n + q_n)),

d by the logarithm of sinh(d / 2) = g / (2 (p_n q_n)^(1/2)) where points are far apart, so that no height
overflows. Source: J. G. Ratcliffe, Foundations of Hyperbolic Manifolds (2019), chapters 3 and 4; Moebius'
addition as in A. A. Ungar, Analytic Hyperbolic Geometry (2005), chapter 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.checks import PointError, as_array, raise_at, require_choice, require_positive_int
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import PytreePartial
from connections.geometry.closed_forms import ClosedFormMetric, norm_of
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.frames import FrameField
from connections.spaces.even_functions import asinhc, cosh, sinhc, tanhc
from connections.spaces.hyperboloid_frame import HyperboloidFrame


def hyperbolic(n: int, model: str = "half_space") -> ClosedFormMetric:
    """The metric of hyperbolic space of n dimensions, of curvature -1.

    Parameters
    ----------
    n : the dimension.
    model : "half_space", delta_ij / q_n^2 where the last coordinate is positive; "ball", 4 delta_ij /
        (1 - |q|^2)^2 where |q| < 1; "hyperboloid", the points of R^(n+1) with -q_0^2 + q_1^2 + ... = -1 and
        q_0 > 0, in the orthonormal frame that boosts carry from (1, 0). `hyperbolic_map` leads from one to
        another.

    Raises
    ------
    ValueError : there is no such model, or no such dimension.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import spaces
    >>> plane = spaces.hyperbolic(2)
    >>> float(cn.distance(plane, [0.0, 1.0], [3.0, 1.0]).round(6))
    2.389526
    >>> float(cn.mean(plane, [[-3.0, 1.0], [3.0, 1.0]]).q[1].round(6))  # the square root of ten
    3.162278

    Source: the text of the module.
    """
    require_positive_int("n", n)
    require_choice("model", model, _MODELS)
    metric: ClosedFormMetric = _MODELS[model](n)
    return metric


def hyperbolic_map(q: ArrayLike, source: str, target: str) -> Array:
    """The point of one model that another model has at q: an isometry.

    Parameters
    ----------
    q : (..., nq) points of the model `source`.
    source, target : "half_space", "ball" or "hyperboloid", as for `hyperbolic`.

    Raises
    ------
    ValueError : there is no such model. PointError : q is no point of the model. ShapeError, NonFiniteError.

    Examples
    --------
    >>> from connections import spaces
    >>> spaces.hyperbolic_map([0.0, 1.0], "half_space", "ball").round(9) + 0.0
    array([0., 0.])
    >>> spaces.hyperbolic_map([0.0, 0.5], "ball", "half_space").round(9) + 0.0
    array([0., 3.])

    Source: Ratcliffe, sections 4.2 and 4.5.
    """
    require_choice("source", source, _MODELS)
    require_choice("target", target, _MODELS)
    size = as_array("q", q, (None,)).shape[-1]
    metric = _MODELS[source](max(size - (source == "hyperboloid"), 1))
    at = PytreePartial(_mapped_at, metric, target)
    found: Array = evaluate(metric, at, Argument("q", q, (metric.frame.ambient_dim,)))
    return found


# --- the models -------------------------------------------------------------------------------------------


class _Hyperbolic(ClosedFormMetric):
    """The curvature of all models. Each also has `to_hyperboloid_at` and `from_hyperboloid_at`."""

    n: int

    @property
    def curvatures(self) -> tuple[float, float]:
        """-1; of a line 0."""
        return (-1.0, -1.0) if self.n > 1 else (0.0, 0.0)

    @property
    def injectivity_radius(self) -> float:
        """Infinite: there is one geodesic between two points."""
        return float(np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class HalfSpaceMetric(_Hyperbolic):
    """delta_ij / q_n^2 where q_n > 0."""

    n: int
    frame: FrameField = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", CoordinateFrame(self.n))

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """H(q), (n, n)."""
        return jnp.eye(self.n) / q[-1] ** 2

    def inner_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """(v / q_n) . (w / q_n), a scalar, also where 1 / q_n^2 is no float."""
        return (v / q[-1]) @ (w / q[-1])

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the last coordinate is positive."""
        return q[-1] > 0.0

    def explain(self, q: ArrayLike) -> None:
        """Raise `PointError` where the last coordinate is not positive."""
        self.frame.explain(q)
        if not np.asarray(q)[-1] > 0.0:
            raise_at(PointError, "the last coordinate is not positive, as in the half space", q)

    def exponential_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """(w_i S, 1) / D from (0, 1), w = v / q_n, D = cosh |w| - w_n S, S = sinh |w| / |w|."""
        w = v / q[-1]
        square = w @ w
        far = square > 1.0
        near = jnp.where(far, 0.0, square)
        S = sinhc(near)
        D = cosh(near) - jnp.where(far, 0.0, w[-1]) * S
        close = jnp.concatenate([q[:-1] + q[-1] * S / D * w[:-1], q[-1:] / D])
        return jnp.where(far, self._far_at(q, jnp.where(far, w, jnp.eye(self.n)[-1])), close)

    def logarithm_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """The last formula of the text of the module, with d / g by its series where points are close."""
        x, y, low, high, near, distance = self._way_at(p, q)
        square, total = x @ x, low + high
        gap = jnp.sqrt(jnp.where(near, 1.0, square + y**2))
        root = jnp.sqrt(jnp.where(near, low * high, 1.0))
        h = jnp.where(near, (square + y**2) / (2.0 * root) ** 2, 0.0)
        by_gap = jnp.where(near, asinhc(h) / root, distance / gap)
        way = jnp.concatenate([2.0 * low * x, (square + y * total)[None]])
        v: jax.Array = p[-1] * (by_gap / jnp.sqrt(square + total**2) * way)
        return jnp.where(q[-1] > 0.0, v, jnp.nan)

    def distance_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """2 asinh(g / (2 (p_n q_n)^(1/2))), a scalar."""
        x, y, low, high, near, distance = self._way_at(p, q)
        half = norm_of(jnp.append(x, y)) / (2.0 * jnp.sqrt(jnp.where(near, low * high, 1.0)))
        close = 2.0 * jnp.arcsinh(jnp.where(near, half, 0.0))
        return jnp.where(q[-1] > 0.0, jnp.where(near, close, distance), jnp.nan)

    @staticmethod
    def _far_at(q: jax.Array, w: jax.Array) -> jax.Array:
        """The end of a long way, in factors none of which overflows unless the end does.

        With t_i = w_i / (|w| + |w_n|), tangents of half the angle to the vertical, and d = |w|,

            shift_i / q_n = t_i s^2 (1 - e^-2d) / (1 + k^2),   height / q_n = (1 + t^2) s^2 e^-d / (1 + k^2),

        s = 1 and k = t e^-d down; on a way up s = e^d and k = t e^d while this is below 1, and s = 1 / t,
        k = e^-d / t where the way has bent down again.
        """
        length = norm_of(w)
        t = w[:-1] / (length + jnp.abs(w[-1]))
        down = w[-1] < 0.0
        slope = jax.lax.stop_gradient(norm_of(t))
        rising = ~down & (jnp.log(slope) < -length)
        bent = ~down & ~rising
        turned = -jnp.log(norm_of(jnp.where(bent, t, 1.0))) if len(t) else jnp.zeros_like(length)
        half = 0.5 * jnp.where(down, 0.0, jnp.where(rising, length, turned))  # of log s
        root, ahead = jnp.exp(half), t * jnp.exp(half) * jnp.exp(half)
        of_bent = jnp.exp(2.0 * jnp.where(bent, turned - length, 0.0))
        k = jnp.where(bent, of_bent, jnp.sum((ahead * jnp.exp(-jnp.where(down, length, 0.0))) ** 2))
        shift = q[-1] * ahead * root * root * (-jnp.expm1(-2.0 * length) / (1.0 + k))
        grown = jnp.exp(2.0 * half - 0.5 * length)
        height = q[-1] * grown * grown * ((1.0 + t @ t) / (1.0 + k))
        return jnp.concatenate([q[:-1] + shift, height[None]])

    def _way_at(self, p: jax.Array, q: jax.Array) -> tuple[jax.Array, ...]:
        """x, y, p_n and q_n over the largest of them; whether h <= 1; and d if not."""
        way = q - p
        scale = jax.lax.stop_gradient(jnp.maximum(jnp.max(jnp.abs(way)), jnp.maximum(p[-1], q[-1])))
        x, y, low, high = way[:-1] / scale, way[-1] / scale, p[-1] / scale, q[-1] / scale
        square = x @ x + y**2
        far = square > 4.0 * low * high
        gap = jnp.sqrt(jnp.where(far, square, 1.0))
        # log sinh(d / 2), to which log(1 + coth(d / 2)) is added; of roots, because quotients may vanish.
        roots = [jnp.sqrt(jnp.where(far, r, 1.0)) / jnp.sqrt(scale) for r in (p[-1], q[-1])]
        sinh = jnp.log(gap / 2.0) - jnp.log(roots[0]) - jnp.log(roots[1])
        inverse = 2.0 * roots[0] * roots[1] / gap
        return x, y, low, high, ~far, 2.0 * (sinh + jnp.log1p(jnp.sqrt(1.0 + inverse**2)))

    def to_hyperboloid_at(self, q: jax.Array) -> jax.Array:
        """(|q|^2 + 1, 2 q_i, |q|^2 - 1) / (2 q_n), (n + 1,)."""
        square = q @ q
        ends = jnp.stack([square + 1.0, square - 1.0])
        return jnp.concatenate([ends[:1], 2.0 * q[:-1], ends[1:]]) / (2.0 * q[-1])

    @staticmethod
    def from_hyperboloid_at(x: jax.Array) -> jax.Array:
        """(x_i, 1) / (x_0 - x_n), (n,)."""
        across = x[1:-1] @ x[1:-1]
        # x_0 - x_n = (1 + |x_i|^2) / (x_0 + x_n), whichever is no difference
        inverse = jnp.where(
            x[-1] > 0.0, (x[0] + x[-1]) / (1.0 + across), 1.0 / (x[0] - jnp.minimum(x[-1], 0.0))
        )
        return jnp.concatenate([x[1:-1], jnp.ones(1)]) * inverse


@dataclass(frozen=True, eq=False, repr=False)
class BallMetric(_Hyperbolic):
    """4 delta_ij / (1 - |q|^2)^2 where |q| < 1."""

    n: int
    frame: FrameField = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", CoordinateFrame(self.n))

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """H(q), (n, n)."""
        return 4.0 * jnp.eye(self.n) / (1.0 - q @ q) ** 2

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether |q| < 1."""
        return q @ q < 1.0

    def explain(self, q: ArrayLike) -> None:
        """Raise `PointError` where |q| is not below one."""
        self.frame.explain(q)
        if not np.linalg.norm(np.asarray(q)) < 1.0:
            raise_at(PointError, "the point is not in the ball: |q| is not below one", q)

    def exponential_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """Moebius' sum of q and z = tanh(|v| / (1 - |q|^2)) v / |v|; NaN where 1 - |q| is lost."""
        rest = 1.0 - q @ q
        z = tanhc(v @ v / rest**2) * v / rest
        square, along = z @ z, 2.0 * (q @ z)
        divisor = 1.0 + along + (1.0 - rest) * square
        total = ((1.0 + along + square) * q + rest * z) / divisor
        left = rest / cosh(v @ v / rest**2) ** 2 / divisor  # 1 - |total|^2, which rounding may have changed
        return jnp.where(jnp.abs(1.0 - total @ total - left) < 0.5 * left, total, jnp.nan)

    def logarithm_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """d / 2 / tanh(d / 2) (1 - |p|^2) times Moebius' sum of -p and q, written in q - p."""
        way, rest, left = q - p, 1.0 - p @ p, 1.0 - q @ q
        square = way @ way
        h = square / (rest * left)
        v: jax.Array = asinhc(h) / jnp.sqrt(1.0 + h) * (rest * way - square * p) / left
        return jnp.where(left > 0.0, v, jnp.nan)

    def to_hyperboloid_at(self, q: jax.Array) -> jax.Array:
        """(1 + |q|^2, 2 q) / (1 - |q|^2), (n + 1,)."""
        square = q @ q
        return jnp.concatenate([(1.0 + square)[None], 2.0 * q]) / (1.0 - square)

    @staticmethod
    def from_hyperboloid_at(x: jax.Array) -> jax.Array:
        """x_i / (1 + x_0), (n,)."""
        return x[1:] / (1.0 + x[0])


@dataclass(frozen=True, eq=False, repr=False)
class HyperboloidMetric(_Hyperbolic):
    """The identity in the orthonormal frame of the hyperboloid."""

    n: int
    frame: HyperboloidFrame = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", HyperboloidFrame(self.n))

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """1, (n, n)."""
        return jnp.eye(self.n)

    def exponential_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """cosh |v| q + sinh |v| / |v| X v."""
        square = v @ v
        return self.frame.project_at(cosh(square) * q + sinhc(square) * (self.frame.matrix_at(q) @ v))

    def logarithm_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """d / sinh d times the components of q in the frame at p."""
        across = self.frame.dual_at(p) @ (q - p)
        return asinhc(across @ across) * across

    def to_hyperboloid_at(self, q: jax.Array) -> jax.Array:
        """q itself."""
        return q

    @staticmethod
    def from_hyperboloid_at(x: jax.Array) -> jax.Array:
        """x itself."""
        return x


_MODELS: dict[str, Any] = {
    "half_space": HalfSpaceMetric,
    "ball": BallMetric,
    "hyperboloid": HyperboloidMetric,
}


def _mapped_at(metric: Any, target: str, q: jax.Array) -> jax.Array:
    mapped: jax.Array = _MODELS[target].from_hyperboloid_at(metric.to_hyperboloid_at(q))
    return mapped
