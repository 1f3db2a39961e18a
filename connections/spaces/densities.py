"""Fisher's metric of families of probability densities, E[dl_i dl_j], by its formula.

Normal densities are the half plane of curvature -1/2, and the distributions of n + 1 outcomes a part of the
sphere of radius two; so both have geodesics in closed form. Gamma's and Dirichlet's densities have the metric
by trigamma functions. `cn.statistical_model` computes it for any family, by quadrature. Source: [AN] chapter
2; C. Atkinson and A. F. S. Mitchell, Rao's distance measure (1981); A. Le Brigant, S. C. Preston and S.
Puechmorel, Fisher-Rao geometry of Dirichlet distributions (2021).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import polygamma

from connections._jax import ArrayLike
from connections.checks import PointError, raise_at, require_positive_int
from connections.geometry.closed_forms import ClosedFormMetric, norm_of
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.metrics import MatrixMetric
from connections.geometry.rigid.rotations import turn_coefficients
from connections.spaces.even_functions import arcsinc
from connections.spaces.hyperbolic import HalfSpaceMetric


def normal() -> ClosedFormMetric:
    """Fisher's metric of normal densities, q = (mean, standard deviation): diag(1, 2) / q_1^2.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import spaces
    >>> metric = spaces.normal()
    >>> float(cn.LeviCivita(metric).sectional([0.0, 1.0], [1.0, 0.0], [0.0, 1.0]).round(9))
    -0.5
    >>> cn.mean(metric, [[-1.0, 1.0], [1.0, 1.0]]).q.round(6) + 0.0
    array([0.      , 1.224745])

    Source: Atkinson and Mitchell.
    """
    return NormalMetric()


def categorical(n: int) -> ClosedFormMetric:
    """Fisher's metric of the distributions on n + 1 outcomes: ds^2 = sum of dp_i^2 / p_i.

    Parameters
    ----------
    n : the dimension. A point q (n,) has the probabilities of the outcomes 1 to n; that of outcome 0 is the
        rest. All are positive.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import spaces
    >>> coins = spaces.categorical(1)
    >>> float(cn.distance(coins, [0.25], [0.75]).round(9))  # 2 arccos of the sum of (p_i q_i)^(1/2)
    1.047197551

    Source: [AN] section 2.2.
    """
    require_positive_int("n", n)
    return CategoricalMetric(n)


def gamma() -> MatrixMetric:
    """Fisher's metric of the gamma densities, q = (shape k, rate b), both positive: curvature -1/2 to -1/4.

    H = [[trigamma(k), -1 / b], [-1 / b, k / b^2]].

    Examples
    --------
    Of exponential densities, k = 1:

    >>> from connections import spaces
    >>> spaces.gamma().matrix([1.0, 2.0]).round(6)
    array([[ 1.644934, -0.5     ],
           [-0.5     ,  0.25    ]])

    Source: E[dl_i dl_j] of l = k log b - log Gamma(k) + (k - 1) log x - b x.
    """
    return MatrixMetric(CoordinateFrame(2), _gamma_at)


def dirichlet(n: int) -> MatrixMetric:
    """Fisher's metric of Dirichlet's densities on n outcomes, q (n,) positive; n = 2: beta densities.

    H_ij = trigamma(q_i) delta_ij - trigamma(sum of q). No sectional curvature is positive, so that
    two points have one geodesic, and points one mean.

    Parameters
    ----------
    n : the number of outcomes, at least two.

    Raises
    ------
    ValueError : n is one.

    Examples
    --------
    >>> from connections import spaces
    >>> spaces.dirichlet(2).matrix([1.0, 1.0]).round(6)
    array([[ 1.      , -0.644934],
           [-0.644934,  1.      ]])

    Source: Le Brigant, Preston and Puechmorel, section 2.
    """
    require_positive_int("n", n)
    if n < 2:
        raise ValueError(f"n: expected at least two outcomes, got {n}")
    return MatrixMetric(CoordinateFrame(n), _dirichlet_at)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)  # between -1 and 1


# --- private -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class NormalMetric(ClosedFormMetric):
    """Twice the metric of the half plane (q_0 / 2^(1/2), q_1)."""

    frame: CoordinateFrame = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", CoordinateFrame(2))

    @property
    def curvatures(self) -> tuple[float, float]:
        """-1/2."""
        return -0.5, -0.5

    @property
    def injectivity_radius(self) -> float:
        """Infinite: there is one geodesic between two points."""
        return float(np.inf)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """diag(1, 2) / q_1^2."""
        return jnp.diag(2.0 / _STRETCH**2) / q[1] ** 2

    def inner_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """Twice the half plane's, a scalar."""
        product: jax.Array = 2.0 * HALF_PLANE.inner_at(q, v / _STRETCH, w / _STRETCH)
        return product

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the standard deviation is positive."""
        return q[1] > 0.0

    def explain(self, q: ArrayLike) -> None:
        """Raise `PointError` where the standard deviation is not positive."""
        self.frame.explain(q)
        if not np.asarray(q)[1] > 0.0:
            raise_at(PointError, "the standard deviation is not positive", q)

    def exponential_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """The half plane's point, stretched, (2,)."""
        return HALF_PLANE.exponential_at(q / _STRETCH, v / _STRETCH) * _STRETCH

    def logarithm_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """The half plane's velocity, stretched, (2,)."""
        return HALF_PLANE.logarithm_at(p / _STRETCH, q / _STRETCH) * _STRETCH

    def distance_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """The square root of two times the half plane's, a scalar."""
        length: jax.Array = 2.0**0.5 * HALF_PLANE.distance_at(p / _STRETCH, q / _STRETCH)
        return length


HALF_PLANE, _STRETCH = HalfSpaceMetric(2), np.array([2.0**0.5, 1.0])


@dataclass(frozen=True, eq=False, repr=False)
class CategoricalMetric(ClosedFormMetric):
    """Four times the metric of the unit sphere of the points x_i = p_i^(1/2)."""

    n: int
    frame: CoordinateFrame = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", CoordinateFrame(self.n))

    @property
    def curvatures(self) -> tuple[float, float]:
        """1/4; of two outcomes 0."""
        return (0.25, 0.25) if self.n > 1 else (0.0, 0.0)

    @property
    def injectivity_radius(self) -> float:
        """Infinite: there is one geodesic between two points, whose distance is less than pi."""
        return float(np.inf)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """delta_ij / p_i + 1 / p_0, (n, n)."""
        p = _all_of(q)
        return jnp.diag(1.0 / p[1:]) + 1.0 / p[0]

    def inner_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """The sum of v_i w_i / p_i over all outcomes, a scalar."""
        return jnp.sum(_changes_of(v) * _changes_of(w) / _all_of(q))

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether all probabilities are positive."""
        return jnp.all(_all_of(q) > 0.0)

    def explain(self, q: ArrayLike) -> None:
        """Raise `PointError` where a probability is not positive."""
        self.frame.explain(q)
        p = np.asarray(_all_of(jnp.asarray(q)))
        if not (p > 0.0).all():
            raise_at(PointError, f"the probability of outcome {int(np.argmin(p))} is not positive", q)

    def exponential_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """Squares of x cos t + x' sin t; NaN behind the border, where an x_i vanishes.

        Of y = x + z it is p + z (x + y) where this is near p, and the largest is what the others leave of 1.
        """
        p = _all_of(q)
        x = jnp.sqrt(p)
        u = _changes_of(v) / (2.0 * x)
        square = u @ u
        sinc, turn, _ = turn_coefficients(square)
        z = sinc * u - turn * square * x
        y, change = x + z, z * (2.0 * x + z)
        ends = _balanced(jnp.where(jnp.abs(change) < 0.5 * p, p + change, y**2), y, 1.0)
        # A great circle is positive up to its first zero, and the next one is half a turn away.
        return jnp.where(jnp.all(y > 0.0) & (square < np.pi**2), ends[1:], jnp.nan)

    def logarithm_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """2 x_i t / sin t (y - x + (1 - cos t) x)_i, with sin^2(t / 2) = |y - x|^2 / 4."""
        x, gap, _ = self._way_at(p, q)
        s = gap @ gap / 4.0
        u = arcsinc(s) / jnp.sqrt(1.0 - s) * (gap + 2.0 * s * x)
        return _balanced(2.0 * x * u, x, 0.0)[1:]

    def distance_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """Twice the angle 2 atan(|y - x| / |y + x|), a scalar."""
        _, gap, total = self._way_at(p, q)
        return 4.0 * jnp.arctan2(norm_of(gap), norm_of(total))

    @staticmethod
    def _way_at(p: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """x, y - x by the differences of probabilities, and x + y, each (n + 1,)."""
        x, y = jnp.sqrt(_all_of(p)), jnp.sqrt(_all_of(q))
        rest = _exact_sum(jnp.concatenate([p, -q]))
        return x, jnp.concatenate([rest[None], q - p]) / (x + y), x + y


def _all_of(q: jax.Array) -> jax.Array:
    """The probabilities of the outcomes 0 to n, (n + 1,)."""
    return jnp.concatenate([_exact_sum(jnp.append(-q, 1.0))[None], q])


def _changes_of(v: jax.Array) -> jax.Array:
    """The rates of all probabilities, whose sum is zero, (n + 1,)."""
    return jnp.concatenate([_exact_sum(-v)[None], v])


def _balanced(terms: jax.Array, sizes: jax.Array, total: float) -> jax.Array:
    """Numbers (m,) whose sum is `total`, in which that of the largest size has the digits of the others."""
    last = jnp.arange(len(terms)) == jnp.argmax(sizes)
    others = jnp.where(last, 0.0, terms)
    return jnp.where(last, _exact_sum(jnp.append(-others, total)), others)


def _exact_sum(terms: jax.Array) -> jax.Array:
    """The sum of numbers (m,), a scalar, to the round-off of the result and eps^2 of the largest term.

    Of a + b the part that rounding took is (a - (s - t)) + (b - t) with s = a + b, t = s - a (Knuth).
    """
    lost = jnp.zeros(())
    while len(terms) > 1:
        half = len(terms) // 2
        a, b = terms[:half], terms[half : 2 * half]
        s = a + b
        t = s - a
        lost = lost + jnp.sum((a - (s - t)) + (b - t))
        terms = jnp.concatenate([s, terms[2 * half :]])
    return terms[0] + lost


def _gamma_at(q: jax.Array) -> jax.Array:
    k, b = jnp.where(q > 0.0, q, jnp.nan)
    return jnp.array([[polygamma(1, k), -1.0 / b], [-1.0 / b, k / b**2]])


def _dirichlet_at(q: jax.Array) -> jax.Array:
    q = jnp.where(q > 0.0, q, jnp.nan)
    others = (1.0 - jnp.eye(len(q))) @ q
    H = jnp.full((len(q),) * 2, -polygamma(1, jnp.sum(q)))
    return jnp.where(jnp.eye(len(q)) > 0.0, _drop_of_trigamma(q, others), H)


def _drop_of_trigamma(a: jax.Array, b: jax.Array) -> jax.Array:
    """trigamma(a) - trigamma(a + b), (n,): while b < a by Gauss's rule, whose terms have one sign.

    The pole of tetragamma at zero is twice as far from the middle as the ends for b = a, and farther for
    smaller b: `_NODES` nodes err by 5.8^(-2 `_NODES`).
    """
    slopes = polygamma(2, a[:, None] + b[:, None] * (_NODES[None] + 1.0) / 2.0)
    return jnp.where(b < a, -b * (slopes @ _WEIGHTS) / 2.0, polygamma(1, a) - polygamma(1, a + b))
