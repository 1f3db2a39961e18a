"""The norm of a trilinear form, sup |T_ijk z_i x_j y_k| over unit vectors, between two proved numbers.

The lower end is taken at explicit vectors, found by alternating maximization. For the upper end let N be in
Lambda^2 x Lambda^2: antisymmetric in (j, j') and in (k, k'). It does not change the form of a product,

    sum N_(jk)(j'k') x_j y_k x_j' y_k' = 0,    so that P = 1 - N has (x y)^T P (x y) = 1 for all unit x, y,

    |T(., x, y)| = |T P^-1/2  P^1/2 (x y)| <= |T P^-1/2|    with T as a matrix (n_1, n_2 n_3), P definite.

One `Gauge` N, found for one tensor, so bounds each tensor, and a bound is an eigenvalue of an (n_1, n_1)
matrix. N = 0 is the unfolding's bound. The best N is a convex problem, min lambda_max(T^T T + N). It closed
the gap to the lower end on all tensors that were tried (robots', random ones), where unfoldings are 1.01 to
1.8 times too large.

Source: derived here; sums of squares modulo such N are the partial transposes of A. C. Doherty, P. A. Parrilo
and F. M. Spedalieri, Phys. Rev. A 69, 022308 (2004).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from connections.checks import MetricError, ShapeError, as_array, as_number, require_finite

UNIT = float(np.finfo(float).eps) / 2.0
_STARTS, _ROUNDS = 12, 60  # of alternating maximization
_TEMPERATURES = 0.1 * 0.3 ** np.arange(12)  # of the smoothed largest eigenvalue, relative to it
_SLACK = 1e-6  # of the squares: a definite P where no larger end is enough


@dataclass(frozen=True, eq=False)
class TrilinearNorm:
    """The norm of a trilinear form, sup |T_ijk z_i x_j y_k| over unit vectors, between two ends.

    Parameters
    ----------
    lower : attained at `directions`, up to rounding, which is subtracted.
    upper : proved, with rounding added.
    directions : z (n_1,), x (n_2,), y (n_3,), unit vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import certified
    >>> norm = certified.trilinear_norm(np.ones((2, 2, 2)))
    >>> bool(norm.lower <= 8**0.5 <= norm.upper), len(norm.directions)
    (True, 3)
    """

    lower: float
    upper: float
    directions: tuple[np.ndarray, np.ndarray, np.ndarray]


def trilinear_norm(T: Any, *, metric: Any = None, rtol: float = 1e-3) -> TrilinearNorm:
    """Ends of sup |T_ijk z_i x_j y_k| over unit vectors z, x, y: one that is attained, and a proved one.

    Parameters
    ----------
    T : (n_1, n_2, n_3).
    metric : (n, n) the inner product H in which they are unit vectors; that of components if None. With the
        mass matrix and Gamma it is k_C in the robot's own norm, |C(v) y|_(H^-1) <= k_C |v|_H |y|_H, which
        depends on neither units nor coordinates.
    rtol : the search for a better upper end stops where (upper - lower) / lower is at most this. That it gets
        there is not promised, but the ends hold in any case.

    Raises
    ------
    ShapeError, NonFiniteError : T is no array of three indices; it is not finite. ValueError : rtol <= 0.
    MetricError : the metric is not positive definite.

    Examples
    --------
    The cross product, |x x y| <= |x| |y|; the spectral norm of its matrix (3, 9) is 1.414.

    >>> import numpy as np
    >>> from connections import certified
    >>> eps = np.cross(np.eye(3)[:, None], np.eye(3)[None]).transpose(2, 0, 1)
    >>> norm = certified.trilinear_norm(eps)
    >>> round(norm.lower, 3), round(norm.upper, 3)
    (1.0, 1.0)

    Source: derived here.
    """
    form = np.array(as_array("T", T, (None, None, None)), dtype=float)
    if form.ndim != 3 or not form.size:
        raise ShapeError("T", "(n_1, n_2, n_3)", form.shape)
    require_finite("T", form)
    if as_number("rtol", rtol) <= 0.0:
        raise ValueError(f"rtol must be positive, got {rtol}")
    basis, error, stretch = np.eye(len(form)), 0.0, 0.0
    if metric is not None:
        form, basis, error, stretch = _in_orthonormal_basis(form, metric)
    scale = float(np.abs(form).max())
    if scale == 0.0:
        return TrilinearNorm(0.0, error, _first_axes(form.shape))
    sizes, vectors = attained(form[None] / scale)
    _, upper = best_gauge(form / scale, float(sizes[0]) * (1.0 + rtol))
    lower = float(sizes[0]) - form.size * 4.0 * UNIT * float(np.linalg.norm(form / scale))
    z, x, y = (vector[0] if metric is None else basis @ vector[0] for vector in vectors)
    low = max(0.0, lower * scale - error) / (1.0 + stretch) ** 1.5
    high = (upper * scale + error) / (1.0 - stretch) ** 1.5
    return TrilinearNorm(low * (1.0 - 8.0 * UNIT), high * (1.0 + 8.0 * UNIT), (z, x, y))


def attained(
    T: np.ndarray, starts: int = _STARTS, rounds: int = _ROUNDS, given: Sequence[np.ndarray] | None = None
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Values (N,) of |T_ijk z_i x_j y_k| of tensors (N, n_1, n_2, n_3), and their unit vectors z, x, y.

    In turns the best z for x and y, the best x for z and y, the best y for z and x; the best of the starts.

    Parameters
    ----------
    T : the tensors.
    starts, rounds : number of random starts, which are the same in each call, and of turns.
    given : x (N, n_2) and y (N, n_3) of a start in addition.
    """
    count, _, n_2, n_3 = T.shape
    rng = np.random.default_rng(0)
    pairs = [(rng.standard_normal((1, n_2)), rng.standard_normal((1, n_3))) for _ in range(starts)]
    if given is not None:
        pairs.append((given[0], given[1]))
    best = np.full(count, -1.0)
    found = tuple(np.zeros((count, n)) for n in T.shape[1:])
    for x, y in pairs:
        x, y = _unit(np.broadcast_to(x, (count, n_2))), _unit(np.broadcast_to(y, (count, n_3)))
        for _ in range(rounds):
            of_y = (T @ y[:, None, :, None])[..., 0]
            z = _unit((of_y @ x[:, :, None])[..., 0])
            x = _unit((z[:, None] @ of_y)[:, 0])
            of_z = np.einsum("pi,pijk->pjk", z, T)
            y = _unit((x[:, None] @ of_z)[:, 0])
        size = np.einsum("pjk,pj,pk->p", of_z, x, y, optimize=True)
        better = size > best
        best[better] = size[better]
        for kept, new in zip(found, (z, x, y), strict=True):
            kept[better] = new[better]
    return best, (found[0], found[1], found[2])


def frobenius(T: np.ndarray) -> np.ndarray:
    """Bounds (N,) of the norms of tensors (N, n_1, n_2, n_3): the roots of the sums of squares."""
    rows = T.reshape(len(T), -1)
    sizes: np.ndarray = np.sqrt(np.einsum("pa,pa->p", rows, rows)) * (1.0 + (rows.shape[1] + 2) * UNIT)
    return sizes


class Gauge:
    """A definite P = 1 - N, N in Lambda^2 x Lambda^2, by which |T| <= |T P^-1/2| for each T.

    Parameters
    ----------
    N : (n_2 n_3, n_2 n_3), of any kind: its part in Lambda^2 x Lambda^2 is used, exactly antisymmetric.
    shape : (n_2, n_3).

    Raises
    ------
    numpy.linalg.LinAlgError : P is not definite.
    """

    def __init__(self, N: np.ndarray, shape: tuple[int, int]) -> None:
        self.N = _exactly_in_gauge(N, *shape)
        P = np.eye(len(N)) - self.N
        self.root = np.linalg.inv(np.linalg.cholesky(P))  # R with R P R^T close to 1
        self.size = float(np.linalg.norm(self.root))
        # |T P^-1/2|^2 <= |T R^T|^2 / lambda_min(R P R^T)
        size = np.abs(self.root)
        rounding = 2.0 * (len(N) + 2) * UNIT * size @ np.abs(P) @ size.T
        far = np.abs(self.root @ P @ self.root.T - np.eye(len(N))) + rounding
        off = float(far.sum(axis=1).max()) * (1.0 + len(N) * UNIT)
        if not off < 0.5:
            raise np.linalg.LinAlgError("P is not definite")
        self.factor = 1.0 / np.sqrt(1.0 - off) * (1.0 + 4.0 * UNIT)

    def bounds(self, T: np.ndarray, enough: float = 0.0) -> np.ndarray:
        """(N,) proved upper ends of the norms of tensors T (N, n_1, n_2, n_3); not sharp below `enough`."""
        count, n_1 = T.shape[:2]
        rows = (T.reshape(count * n_1, -1) @ self.root.T).reshape(count, n_1, -1)
        gram = rows @ np.swapaxes(rows, 1, 2)
        # Round-off of the two products and of what follows, relative to sums of sizes.
        sizes = frobenius(T) * self.size
        rounding = 4.0 * UNIT * (rows.shape[2] + n_1**2) * (sizes**2 + np.trace(gram, axis1=1, axis2=2))
        largest = np.sqrt(np.linalg.norm(gram @ gram, axis=(1, 2)))  # the largest eigenvalue is at most this
        sharp = np.flatnonzero(np.sqrt(largest + rounding) * self.factor > enough)
        if len(sharp):
            largest[sharp] = np.linalg.eigvalsh(gram[sharp])[:, -1]
        ends: np.ndarray = np.sqrt(np.maximum(largest, 0.0) + rounding) * self.factor
        return ends


def best_gauge(
    T: np.ndarray, enough: float, starting: np.ndarray | None = None, deadline: float = np.inf
) -> tuple[Gauge | None, float]:
    """A gauge for the tensor T (n_1, n_2, n_3) and a proved upper end of its norm.

    min lambda_max(T^T T + N), smoothed by t log tr exp(. / t) with ever smaller t, until the root is at most
    `enough`. `starting` is the N of another gauge, of a tensor nearby. The gauge has P = 1 - N / c^2, c the
    larger of `enough` and a little more than the end; None if rounding leaves no definite P. The search ends
    at the deadline, a time of `time.monotonic`.
    """
    _, n_2, n_3 = T.shape
    flat = T.reshape(len(T), -1)
    M = flat.T @ flat
    scale = float(np.linalg.eigvalsh(M)[-1])
    N, upper, first = np.zeros_like(M), float(np.sqrt(_largest(M, flat))), 0
    if starting is not None and upper > enough:
        other = _exactly_in_gauge(starting * enough**2, n_2, n_3)
        now = float(np.sqrt(_largest(M + other, flat)))
        if now < upper:
            N, upper, first = other, now, 1
    least, last = N, [np.inf]
    for temperature in _TEMPERATURES[first:]:
        if upper <= enough or time.monotonic() > deadline:
            break
        t = temperature * scale

        def smoothed(entries: np.ndarray, t: float = t) -> tuple[float, np.ndarray]:
            values, vectors = np.linalg.eigh(M + _in_gauge(entries.reshape(M.shape), n_2, n_3))
            last[0] = values[-1]
            weights = np.exp((values - values[-1]) / t)
            slope = (vectors * (weights / weights.sum())) @ vectors.T
            return values[-1] + t * np.log(weights.sum()), _in_gauge(slope, n_2, n_3).ravel()

        def until_enough(_: np.ndarray) -> None:
            if last[0] < enough**2 * (1.0 - _SLACK) or time.monotonic() > deadline:
                raise StopIteration

        options = {"maxiter": 60, "maxcor": 15}
        result = minimize(
            smoothed, N.ravel(), jac=True, method="L-BFGS-B", callback=until_enough, options=options
        )
        N = _exactly_in_gauge(result.x.reshape(M.shape), n_2, n_3)
        now = float(np.sqrt(_largest(M + N, flat)))
        if now < upper:
            least, upper = N, now
    squared = max(upper**2 * (1.0 + _SLACK), enough**2)
    try:
        return Gauge(least / squared if squared > 0.0 else np.zeros_like(M), (n_2, n_3)), upper
    except np.linalg.LinAlgError:
        return None, upper


# --- parts --------------------------------------------------------------------------------------------


def _in_orthonormal_basis(form: np.ndarray, metric: Any) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The form in a basis W^T (n, n) that is orthonormal in H; W^T; round-off of the form; |W H W^T - 1|."""
    n = form.shape[0]
    H = np.array(as_array("metric", metric, (n, n)), dtype=float)
    if form.shape != (n, n, n):
        raise ShapeError("T", "(n, n, n), because a metric is given", form.shape)
    require_finite("metric", H)
    H = 0.5 * (H + H.T)
    try:
        W = np.linalg.inv(np.linalg.cholesky(H))
    except np.linalg.LinAlgError:
        raise MetricError("metric: not positive definite") from None
    size = np.abs(W)
    stretch = float(np.linalg.norm(W @ H @ W.T - np.eye(n)))
    stretch += 2.0 * (n + 2) * UNIT * float(np.linalg.norm(size @ np.abs(H) @ size.T))
    if not stretch < 0.5:
        raise MetricError("metric: too close to one that is not definite")
    error = 4.0 * (n + 2) * UNIT * float(np.linalg.norm(_contracted(np.abs(form), size)))
    return _contracted(form, W), W.T, error, stretch


def _contracted(form: np.ndarray, W: np.ndarray) -> np.ndarray:
    """W_ai W_bj W_ck T_ijk, (n, n, n)."""
    turned: np.ndarray = np.einsum("ijk,ai,bj,ck->abc", form, W, W, W, optimize=True)
    return turned


def _largest(A: np.ndarray, flat: np.ndarray) -> float:
    """Upper end of the largest eigenvalue of a symmetric A (m, m) that was computed from flat^T flat.

    |A V - V L| and |V^T V - 1| of the computed eigenvalues L and vectors V (Rump): the eigenvalues of A are
    within the first, over the smallest singular value of V, of those of L; with their rounding.
    """
    values, V = np.linalg.eigh(A)
    m = len(A)
    step = 2.0 * (m + 2) * UNIT
    residual = float(np.linalg.norm(A @ V - V * values)) + step * float(
        np.linalg.norm(np.abs(A) @ np.abs(V)) + np.linalg.norm(V * np.abs(values))
    )
    turned = float(np.linalg.norm(V.T @ V - np.eye(m))) + step * m
    product = 2.0 * (len(flat) + 2) * UNIT * float(np.linalg.norm(flat)) ** 2 + 2.0 * UNIT * float(
        np.linalg.norm(A)
    )
    return float(values[-1] + np.sqrt(2.0) * residual / np.sqrt(1.0 - turned) + product) * (1.0 + 4.0 * UNIT)


def _in_gauge(N: np.ndarray, n_2: int, n_3: int) -> np.ndarray:
    """The orthogonal projection of N (n_2 n_3, n_2 n_3) on Lambda^2 x Lambda^2."""
    four = N.reshape(n_2, n_3, n_2, n_3)
    four = four - four.transpose(2, 1, 0, 3)
    four = four - four.transpose(0, 3, 2, 1)
    part: np.ndarray = 0.25 * four.reshape(N.shape)
    return part


def _exactly_in_gauge(N: np.ndarray, n_2: int, n_3: int) -> np.ndarray:
    """The projection, from the entries with j < j', k < k': antisymmetric to the last bit."""
    four = _in_gauge(N, n_2, n_3).reshape(n_2, n_3, n_2, n_3)
    upper = np.triu(np.ones((n_2, n_2)), 1)[:, None, :, None] * np.triu(np.ones((n_3, n_3)), 1)[:, None]
    four = four * upper
    four = four - four.transpose(2, 1, 0, 3)
    four = four - four.transpose(0, 3, 2, 1)
    part: np.ndarray = four.reshape(N.shape)
    return part


def _unit(x: np.ndarray) -> np.ndarray:
    """x (N, n) of length 1; a first axis where x vanishes."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    one = np.zeros_like(x)
    one[:, 0] = 1.0
    return np.where(length > 0.0, x / np.where(length > 0.0, length, 1.0), one)


def _first_axes(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    z, x, y = (np.eye(n)[0] for n in shape)
    return z, x, y
