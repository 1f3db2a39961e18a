"""Families of probability densities as spaces: Fisher's metric, the Amari-Chentsov tensor, alpha-connections.

With the scores l_i = d log p / d q^i and the mean E under p, H_ij = E[l_i l_j] and C_ijk = E[l_i l_j l_k].
Means are sums over nodes x_a with the probabilities P_a = w_a p(x_a) / sum, w_a the weights of a quadrature,
or 1 / p(x_a) where the nodes are a sample that was drawn. All that is computed is exact for the family P on
the nodes, so that an exponential family is dually flat to round-off. Source: [AN] chapters 2, 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.nonmetric import CubicForm, StatisticalConnection
from connections.checks import (
    MetricError,
    NonFiniteError,
    ShapeError,
    as_array,
    is_whole,
    raise_at,
    require_finite,
    require_function,
    require_shape,
)
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.describing import Described
from connections.evaluation.parameters import Parametrized, with_parameters
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.metrics import Metric
from connections.geometry.numerics.definite import inverse_factor, solve_definite

NORMALIZED = 1e-6  # the largest difference of a density's integral from 1, and of its derivative from 0
LEAST_SHARE = 0.1  # of a sample: the least effective size, (sum P)^2 / sum P^2, at a point
_TAIL = 1e-2  # tails count as cut if the density there is so much of the error
_WANTED, _LARGEST = 0.1, 0.1  # of what is allowed: the error of as many nodes as would do; the largest one
SPANNED = 1e-8  # the largest part of a function that is not in a span
LOG_DENSITY = "(x, q) -> log p(x; q)"  # in an error


@dataclass(frozen=True, eq=False, repr=False)
class FisherMetric(Metric):
    """Fisher's metric of a family of densities, H_ij = E[l_i l_j]; made by `statistical_model`.

    Parameters
    ----------
    frame : the family's parameters as coordinates.
    log_density : (x, q) -> log p(x; q), of one node; JAX-traceable.
    nodes : (N, ...) outcomes.
    log_weights : (N,), of a quadrature, or -log p(x_a) where the sample was drawn.
    sampled : whether the nodes are a sample, whose probabilities add up to one by division only.

    Examples
    --------
    A coin, in the logarithm of its odds: the variance.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> log_density = lambda x, q: x * q[0] - jnp.logaddexp(0.0, q[0])
    >>> coin = cn.statistical_model(log_density, 1, quadrature=([0.0, 1.0], [1.0, 1.0]))
    >>> type(coin.metric).__name__, float(coin.metric.matrix([0.0])[0, 0])
    ('FisherMetric', 0.25)
    """

    frame: CoordinateFrame
    log_density: Callable[..., Any]
    nodes: np.ndarray
    log_weights: np.ndarray
    sampled: bool

    def logarithms_at(self, q: jax.Array) -> jax.Array:
        """log (w_a p(x_a; q)), (N,)."""

        def one(x: jax.Array) -> jax.Array:
            return require_shape("log_density(x, q)", self.log_density(x, q), ())

        return jnp.asarray(self.log_weights) + jax.vmap(one)(jnp.asarray(self.nodes))

    def probabilities_at(self, q: jax.Array) -> jax.Array:
        """P (N,), which add up to one."""
        return jax.nn.softmax(self.logarithms_at(q))

    def scores_at(self, q: jax.Array) -> jax.Array:
        """d log P_a / d q^i, (N, n), whose means are zero."""
        scores: jax.Array = jax.jacfwd(self.logarithms_at)(q)
        return scores - (self.probabilities_at(q) @ scores)[None]

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """E[l_i l_j], (n, n); NaN where the nodes do not serve."""
        H, flaw = self._judged_at(q)
        return jnp.where(jax.lax.stop_gradient(flaw) <= 1.0, H, jnp.nan)

    def symbols_along_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """Gamma*_ijk v^j w^k, (n,), by derivatives along v and w only."""
        return AmariChentsovTensor(self).symbols_along_at(q, v, w, 0.0)

    def quadrature_error(self, q: ArrayLike) -> Array:
        """Errors of the quadrature (...,): derivatives of the sum S of the density over the nodes.

        S = 1 for all parameters, so that its derivatives are zero. Returned is the largest entry of the first
        three, in a basis in which H is the unit matrix, where there is a metric. Curvatures are off by about
        a half of it or less, and H by a tenth. The first derivatives alone, which are far smaller, are what
        is checked everywhere.

        Parameters
        ----------
        q : (..., n) parameters.

        Raises
        ------
        TypeError : the nodes are a sample, whose errors are those of chance. MetricError : S or its first
        derivatives are off by more than 1e-6. ShapeError, NonFiniteError.
        """
        if self.sampled:
            raise TypeError("quadrature_error: the nodes are a sample; compare with another sample")
        return evaluate(self, self.quadrature_error_at, Argument("q", q, (self.frame.dim,)))

    def quadrature_error_at(self, q: jax.Array) -> jax.Array:
        """The largest entry of dS, ddS, dddS by the components of orthonormal bases, a scalar."""
        basis = inverse_factor(self._judged_at(q)[0]).T

        def total(s: jax.Array) -> jax.Array:
            return self._total_at(q + basis @ s)

        slope, nothing = jax.jacfwd(total), jnp.zeros(self.frame.dim)
        bent = jax.jacfwd(slope)
        sizes = [jnp.max(jnp.abs(each(nothing))) for each in (slope, bent, jax.jacfwd(bent))]
        return jnp.max(jnp.stack(sizes))

    def explain(self, q: ArrayLike) -> None:
        """`MetricError` that says what the nodes leave out, or what is wrong with H.

        `NonFiniteError` names the first node at which log_density, or its derivative, is NaN or too large.
        """
        judged = self._judged_at(jnp.asarray(q))
        H, flaw = np.asarray(judged[0]), float(judged[1])
        if not flaw <= 1.0 and self.sampled:
            share = f"{LEAST_SHARE / flaw:.1e} of the sample counts"
            raise_at(MetricError, f"the sample was drawn too far away ({share}): give drawn_at= nearer", q)
        logarithms = np.asarray(self.logarithms_at(jnp.asarray(q)))
        self._require_finite("log_density(x, q)", np.where(np.isneginf(logarithms), 0.0, logarithms), q)
        total = float(self._total_at(jnp.asarray(q)))
        if not self.sampled and abs(total - 1.0) > NORMALIZED:
            mass = f"{total:.9g}" if np.isfinite(total) else f"exp({_log_of_sum(logarithms):.6g})"
            what = f"the density adds up to {mass} over the nodes, not to 1: normalize log_density, or give"
            raise_at(MetricError, f"{what} nodes that cover it", q)
        slopes = np.asarray(jax.jacfwd(self.logarithms_at)(jnp.asarray(q)))
        self._require_finite("the derivative of log_density(x, q) by q", slopes.sum(axis=1), q)
        if not flaw <= 1.0 and np.isfinite(flaw):
            what = f"derivatives of the density add up to {flaw * NORMALIZED:.1e} over the nodes, not to 0"
            raise_at(MetricError, f"{what}: {self._remedy(jnp.asarray(q), flaw * NORMALIZED)}", q)
        if np.isnan(flaw) and np.isfinite(H).all():
            least = f"smallest eigenvalue {np.linalg.eigvalsh(H)[0]:.2e}"
            what = f"Fisher's metric is not positive definite ({least}): some change of q leaves the density"
            raise_at(MetricError, f"{what} as it is, at first order,", q)
        super().explain(q)

    def _require_finite(self, what: str, values: np.ndarray, q: ArrayLike) -> None:
        """`NonFiniteError` that names the first of the nodes whose value (N,) is not finite."""
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            node = np.array2string(np.asarray(self.nodes)[bad[0]], precision=6, threshold=12)
            raise_at(NonFiniteError, f"{what} is not finite at the node x = {node},", q)

    def _remedy(self, q: jax.Array, size: float) -> str:
        """Words: which nodes would do, where derivatives of the total are off by `size`.

        The density at the outermost nodes tells cut tails from wide gaps, whose errors fall geometrically
        with the number of nodes of a rule, or faster.
        """
        flat = np.asarray(self.nodes).reshape(len(self.nodes), -1)
        if flat.shape[1] == 1:
            ends = [int(np.argmin(flat)), int(np.argmax(flat))]
            density = np.exp(np.asarray(self.logarithms_at(q) - self.log_weights))[ends]
            if density.max() * np.ptp(flat) > _TAIL * size:
                return f"give nodes that reach farther than [{flat.min():.6g}, {flat.max():.6g}]"
        more = math.log(_WANTED * NORMALIZED) / math.log(min(size, _LARGEST))
        count = math.ceil(len(flat) * more ** flat.shape[1])
        return f"give more nodes of the rule; {count} would do for {len(flat)}"

    def _judged_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """H of the family on the nodes, and the nodes' flaw, relative to what is allowed."""
        P, slopes = self.probabilities_at(q), jax.jacfwd(self.logarithms_at)(q)
        mean = P @ slopes
        scores = slopes - mean[None]
        H = scores.T @ (P[:, None] * scores)
        if self.sampled:
            return H, LEAST_SHARE * len(P) * jnp.sum(P**2)
        total = self._total_at(q)
        size = total * jnp.sqrt(mean @ solve_definite(H, mean))  # of the derivative of the total
        return H, jnp.maximum(jnp.abs(total - 1.0), size) / NORMALIZED

    def _total_at(self, q: jax.Array) -> jax.Array:
        """The sum of the density over the nodes."""
        return jnp.sum(jnp.exp(self.logarithms_at(q)))


@dataclass(frozen=True, eq=False)
class AmariChentsovTensor(CubicForm):
    """C_ijk = E[l_i l_j l_k] as a function, q (n,) -> (n, n, n).

    Parameters
    ----------
    metric : of the family.
    """

    metric: FisherMetric

    def __call__(self, q: jax.Array) -> jax.Array:
        """C(q); entries of the same indices are one number, also where all of C is round-off."""
        scores = self.metric.scores_at(q)
        C = jnp.einsum("a,ai,aj,ak->ijk", self.metric.probabilities_at(q), scores, scores, scores)
        return C[tuple(np.sort(np.indices(C.shape), axis=0))]

    def symbols_along_at(self, q: jax.Array, v: jax.Array, w: jax.Array, alpha: Any) -> jax.Array:
        """E[l_i (d_v d_w log P + (1 - alpha) l_v l_w / 2)], (n,): derivatives along v and w at each node.

        Source: [AN] (2.33).
        """
        logarithms_at = self.metric.logarithms_at

        def along(p: jax.Array) -> tuple[jax.Array, jax.Array]:
            value, slope = jax.jvp(logarithms_at, (p,), (v,))
            return value, slope

        (logarithms, by_v), (by_w, bent) = jax.jvp(along, (q,), (w,))
        P, slopes = jax.nn.softmax(logarithms), jax.jacfwd(logarithms_at)(q)
        scores = slopes - (P @ slopes)[None]
        product = (by_v - P @ by_v) * (by_w - P @ by_w)
        symbols: jax.Array = scores.T @ (P * (bent + 0.5 * (1.0 - alpha) * product))
        return symbols

    def chord_at(self, q0: jax.Array, q1: jax.Array, alpha: Any) -> jax.Array:
        """H^-1 E[l_i log(P(q1) / P)] for alpha = 1, H^-1 sum_a P_a(q1) l_i(x_a) for -1; H, l, E, P at q0.

        These are differences of the affine coordinates of an exponential family, log P = q' F - log Z, and of
        a mixture, P = q' F, in other parameters q'. NaN unless P is one of these, as far as both points, and
        second derivatives there, tell. Source: [AN] section 3.3.
        """
        (P, scores, bent), (_, _, bent_there) = map(self._jet_at, (q0, q1))
        first, last = map(jax.nn.log_softmax, map(self.metric.logarithms_at, (q0, q1)))
        H = scores.T @ (P[:, None] * scores)
        ratio = jnp.exp(last - first) - 1.0
        products = [jnp.einsum("ai,aj->aij", s, s) for s in (scores, self.metric.scores_at(q1))]
        exponential = self._spanned(q0, last - first, bent) & self._spanned(q1, last - first, bent_there)
        mixed = self._spanned(q0, ratio, bent + products[0]) & self._spanned(
            q1, jnp.exp(first - last) - 1.0, bent_there + products[1]
        )
        along = jnp.where(alpha > 0.0, scores.T @ (P * (last - first)), scores.T @ jnp.exp(last))
        return jnp.where(exponential | mixed, solve_definite(H, along), jnp.nan)

    def _jet_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """P (N,), the scores (N, n), and second derivatives (N, n, n) of log P, less a constant."""
        bent = jax.jacfwd(jax.jacfwd(self.metric.logarithms_at))(q)
        return self.metric.probabilities_at(q), self.metric.scores_at(q), bent

    def _spanned(self, q: jax.Array, *functions: jax.Array) -> jax.Array:
        """Whether functions (N, ...) are combinations of the scores at q and constants."""
        P, scores = self.metric.probabilities_at(q), self.metric.scores_at(q)
        H, ok = scores.T @ (P[:, None] * scores), jnp.array(True)
        for function in functions:
            columns = function.reshape(len(P), -1)
            columns = columns - (P @ columns)[None]
            rest = columns - scores @ solve_definite(H, scores.T @ (P[:, None] * columns))
            sizes, rests = P @ columns**2, P @ rest**2
            ok &= jnp.all(rests <= SPANNED**2 * jnp.max(sizes))
        return ok


@dataclass(frozen=True, eq=False, repr=False)
class StatisticalModel(Described, Parametrized):
    """A family of probability densities as a space; made by `statistical_model`.

    Parameters
    ----------
    metric : Fisher's metric, in the family's parameters as coordinates.

    Source: [AN] chapters 2, 3.

    Examples
    --------
    A coin is an exponential family in the logarithm of its odds: the connection of alpha = 1 vanishes.

    >>> import connections as cn
    >>> from jax import numpy as jnp
    >>> log_density = lambda x, q: x * q[0] - jnp.logaddexp(0.0, q[0])
    >>> coin = cn.statistical_model(log_density, 1, quadrature=([0.0, 1.0], [1.0, 1.0]))
    >>> float(coin.metric.matrix([0.0])[0, 0]), float(coin.connection(1.0).coefficients([0.0])[0, 0, 0])
    (0.25, 0.0)
    """

    metric: FisherMetric

    @property
    def frame(self) -> CoordinateFrame:
        """The family's parameters as coordinates."""
        return self.metric.frame

    def connection(self, alpha: Any = 1.0) -> StatisticalConnection:
        """The alpha-connection, Gamma_ijk = Gamma*_ijk - alpha C_ijk / 2; all alpha share compiled functions.

        Parameters
        ----------
        alpha : a number; 1 is the exponential connection, -1 the mixture connection, 0 Levi-Civita's.

        Raises
        ------
        NonFiniteError, ShapeError : alpha is not finite, or no number.

        Source: [AN] section 2.3.
        """
        return StatisticalConnection(self.metric, AmariChentsovTensor(self.metric), alpha)

    def cubic(self, q: ArrayLike) -> Array:
        """The Amari-Chentsov tensor C_ijk = E[l_i l_j l_k], (..., n, n, n).

        Parameters
        ----------
        q : (..., n) parameters.
        """
        point = Argument("q", q, (self.frame.dim,))
        return evaluate(self.metric, AmariChentsovTensor(self.metric), point)

    def divergence(self, p: ArrayLike, q: ArrayLike) -> Array:
        """Kullback and Leibler's divergence D(p || q) = E_p[log p - log q], (...,); on the nodes.

        Of an exponential family it is Bregman's divergence of log Z from q to p, and obeys the generalized
        theorem of Pythagoras: D(p || q) + D(q || r) = D(p || r) where the mixture geodesic from q to p is
        orthogonal to the exponential geodesic from q to r.

        Parameters
        ----------
        p, q : (..., n) parameters.

        Source: [AN] section 3.4.
        """
        n = (self.frame.dim,)
        return evaluate(self.metric, self.divergence_at, Argument("p", p, n), Argument("q", q, n))

    def divergence_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """sum_a P_a(p) (log p(x_a; p) - log p(x_a; q)), a scalar.

        The density of q is taken as it is: nodes for p may miss most of it.
        """
        ratios = self.metric.logarithms_at(p) - self.metric.logarithms_at(q)
        return jnp.sum(self.metric.probabilities_at(p) * ratios)


def statistical_model(
    log_density: Callable[..., Any],
    dim: int,
    *,
    quadrature: tuple[Any, Any] | None = None,
    sample: ArrayLike | None = None,
    drawn_at: ArrayLike | None = None,
    parameters: Any = None,
) -> StatisticalModel:
    """The space of a family of densities: Fisher's metric, Amari-Chentsov's tensor, alpha-connections.

    Parameters
    ----------
    log_density : (x, q) -> log p(x; q), a number, of one outcome x and parameters q (n,); JAX-traceable,
        with derivatives in q at all nodes: |x - q| has a kink, of which no node tells.
    dim : n, the number of parameters.
    quadrature : (nodes (N, ...), weights (N,)): all outcomes with weights one, or points and weights of a
        rule. The density has to add up to 1 to 1e-6, and its derivatives by q to 0 (`quadrature_error`).
    sample : (N, ...), outcomes that were drawn at `drawn_at`, instead of a quadrature. At other parameters
        they are weighted; where less than a tenth of them counts, q is refused. Errors fall as 1 / sqrt(N).
    drawn_at : (n,) the parameters at which the sample was drawn.
    parameters : optional, the last argument of `log_density` (`ParametricFunction`).

    Raises
    ------
    TypeError : neither a quadrature nor a sample is given, or both; an argument is of another kind.
    ShapeError, NonFiniteError : nodes and weights do not fit, log_density returns no number, or a number is
        not finite. ValueError : dim is not positive, or a weight negative.
    MetricError, at a point : the density does not add up to 1, or its derivatives not to 0, or the sample
        was drawn too far away.

    Source: [AN] section 2.2.

    Examples
    --------
    Normal densities are a half plane of curvature -1/2:

    >>> import connections as cn, numpy as np
    >>> from jax import numpy as jnp
    >>> log_normal = lambda x, q: -0.5 * ((x - q[0]) / q[1]) ** 2 - jnp.log(q[1]) - 0.5 * np.log(2 * np.pi)
    >>> x, dx = np.linspace(-12.0, 12.0, 400, retstep=True)
    >>> normal = cn.statistical_model(log_normal, 2, quadrature=(x, np.full(400, dx)))
    >>> plane = cn.LeviCivita(normal.metric)
    >>> float(plane.sectional([0.3, 1.1], [1.0, 0.0], [0.0, 1.0]).round(9))
    -0.5
    """
    require_function("log_density", log_density, LOG_DENSITY, parameters=parameters)
    if not is_whole(dim):
        raise TypeError(f"dim: expected an integer, got {type(dim).__name__}")
    if dim < 1:
        raise ValueError(f"dim: expected a positive number of parameters, got {dim}")
    density = with_parameters(log_density, parameters)
    frame, n = CoordinateFrame(int(dim)), (int(dim),)
    if (quadrature is None) == (sample is None) or (sample is None) != (drawn_at is None):
        raise TypeError("statistical_model: give quadrature=(nodes, weights), or sample= and drawn_at=")
    if quadrature is not None:
        nodes, weights = _rule(quadrature)
        metric = FisherMetric(frame, density, nodes, np.log(weights), sampled=False)
    else:
        nodes, start = _nodes("sample", sample), as_array("drawn_at", drawn_at, n)
        if start.ndim != 1:
            raise ShapeError("drawn_at", n, start.shape)
        require_finite("drawn_at", start)
        bare = FisherMetric(frame, density, nodes, np.zeros(len(nodes)), sampled=True)
        drawn = np.asarray(jax.jit(bare.logarithms_at)(start))
        require_finite("log_density(sample, drawn_at)", drawn)
        metric = FisherMetric(frame, density, nodes, -drawn, sampled=True)
    return StatisticalModel(metric)


def _log_of_sum(logarithms: np.ndarray) -> float:
    """log sum exp, also where exp is beyond float64."""
    largest = float(np.max(logarithms))
    return largest + math.log(float(np.sum(np.exp(logarithms - largest))))


def _rule(quadrature: Any) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (N, ...) and positive weights (N,)."""
    if not isinstance(quadrature, tuple | list) or len(quadrature) != 2:
        raise TypeError("quadrature: expected (nodes, weights)")
    nodes, weights = _nodes("nodes", quadrature[0]), np.asarray(as_array("weights", quadrature[1], ()))
    if weights.shape != (len(nodes),):
        raise ShapeError("weights", (len(nodes),), weights.shape)
    require_finite("weights", weights)
    if not (weights > 0.0).all():
        raise ValueError(f"weights: expected positive numbers, got {weights.min():.6g}")
    return nodes, weights


def _nodes(name: str, value: Any) -> np.ndarray:
    """Outcomes (N, ...), at least one."""
    nodes = np.asarray(as_array(name, value, ()))
    if nodes.ndim == 0 or not len(nodes):
        raise ShapeError(name, ("N", "..."), nodes.shape)
    require_finite(name, nodes)
    return nodes
