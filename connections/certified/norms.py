"""Sizes of arrays, and bounds of them over a box: of f + E, f between corners, |E| <= R entry by entry.

A symmetric E with |E_kl| <= R_kl obeys E <= diag(R x / x) for every x > 0, because 2 |v_k v_l| <=
v_k^2 x_l / x_k + v_l^2 x_k / x_l. With x near the eigenvector of the largest eigenvalue, only what R does in
its direction counts, to first order in R.
"""

from __future__ import annotations

import abc
import math
from typing import ClassVar

import numpy as np

from connections.certified.compiled import compiled

EPS = float(np.finfo(float).eps)
_SLACK = 0.04  # of what is left out, by which an end need not be sharp


class Norm(abc.ABC):
    """A convex function of arrays: a norm, or the largest eigenvalue.

    Parameters
    ----------
    grows : whether it is unbounded where an entry of a positive matrix, or of an array, is.
    """

    grows: ClassVar[bool] = True

    @abc.abstractmethod
    def attained(self, f: np.ndarray) -> np.ndarray:
        """(P,) values of arrays (P, ...), or lower ends of them."""

    @abc.abstractmethod
    def above(
        self, f: np.ndarray, factors: np.ndarray, bends: np.ndarray, enough: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Upper ends over boxes, (B,), and how much each coordinate's bends add to them, (B, m).

        Parameters
        ----------
        f : (B, C, ...) the corners.
        factors, bends : (B, m) and (B, m, ...), or (1, m, ...) for all boxes; |E| <= R, the sum of products.
        enough : an end that is below it need not be sharp.

        Returns
        -------
        Upper ends of |f + E|; and their derivatives by factors, which choose where to cut and prove nothing.
        """

    def above_mean(
        self, limbs: list[np.ndarray], factors: np.ndarray, bends: np.ndarray, enough: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Upper ends of means of arrays, one of each limb's corners: means of their ends, by convexity."""
        ends, shares = zip(*(self.above(f, factors, bends, enough) for f in limbs), strict=True)
        return np.mean(ends, axis=0), np.mean(shares, axis=0)

    @abc.abstractmethod
    def sizes(self, bends: np.ndarray) -> np.ndarray:
        """(m,) |B_i|."""


class Euclidean(Norm):
    """The Euclidean length of vectors (..., n)."""

    def attained(self, f: np.ndarray) -> np.ndarray:
        """The lengths."""
        return np.asarray(np.linalg.norm(f, axis=-1))

    def above(
        self, f: np.ndarray, factors: np.ndarray, bends: np.ndarray, enough: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The length of |f| + R at the worst corner."""
        moved = np.abs(f) + _left_out(factors, bends)[:, None]
        lengths = np.linalg.norm(moved, axis=-1)
        worst, at = np.argmax(lengths, axis=1), np.arange(len(f))
        ends = lengths[at, worst]
        shares = (bends @ moved[at, worst][:, :, None])[..., 0]
        return ends, shares / np.maximum(ends, 1e-300)[:, None]

    def sizes(self, bends: np.ndarray) -> np.ndarray:
        """The lengths."""
        return self.attained(bends)


class Symmetric(Norm):
    """The largest eigenvalue of symmetric matrices (..., n, n), or the largest size of all eigenvalues.

    Parameters
    ----------
    both : whether the sizes of all eigenvalues count, which is the spectral norm.
    """

    def __init__(self, both: bool) -> None:
        self.both = both

    def attained(self, f: np.ndarray) -> np.ndarray:
        """The eigenvalues."""
        values = np.linalg.eigvalsh(f)
        return np.maximum(values[:, -1], -values[:, 0]) if self.both else values[:, -1]

    def above(
        self, f: np.ndarray, factors: np.ndarray, bends: np.ndarray, enough: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The largest eigenvalue of f + diag(R x / x) at the worst corner."""
        boxes, _, n = f.shape[:3]
        x, vectors = np.empty((boxes, n)), np.empty((boxes, n))
        f, rest = np.ascontiguousarray(f), _left_out(factors, bends)
        compiled.directions_rows(f, rest, self.both, x, vectors)
        pushes = (bends @ x[:, None, :, None])[..., 0] / x[:, None]  # (B, m, n)
        shift = np.einsum("bm,bmk->bk", factors, pushes)
        ends, vectors = _largest(f, shift, vectors, enough, self.both)
        return ends, np.einsum("bmk,bk->bm", pushes, vectors**2)

    def sizes(self, bends: np.ndarray) -> np.ndarray:
        """The spectral norms."""
        return np.linalg.eigvalsh(bends)[:, -1] if len(bends) else np.zeros(0)


class Inverse(Norm):
    """The largest eigenvalue of a diagonal block of the inverse of positive matrices (..., n, n).

    It is a convex function of them. Errors are compared with a matrix L L^T of the box, |L^-1 E L^-T| <=
    |L^-1| R |L^-T|, entry by entry. Where f - L diag(R x / x) L^T is not positive, there is no end.

    Parameters
    ----------
    block : indices of the rows; all if None.
    error : how far matrices may be from those that they stand for, in the spectral norm.
    """

    grows = False

    def __init__(self, block: np.ndarray | None = None, error: float = 0.0) -> None:
        self.block, self.error = block, error

    def attained(self, f: np.ndarray) -> np.ndarray:
        """The eigenvalues; of matrices that are singular but for round-off, what round-off leaves of them."""
        values = np.linalg.eigvalsh(self._of_block(np.linalg.inv(f)))
        least = f.shape[-1] * EPS * np.maximum(np.trace(f, axis1=-2, axis2=-1), 1e-290)
        return np.asarray(np.where(values[..., 0] > 0.0, values[..., -1], 1.0 / least))

    def above(
        self, f: np.ndarray, factors: np.ndarray, bends: np.ndarray, enough: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The eigenvalue of f - L diag(R x / x) L^T at the worst corner (`kernels.py`)."""
        boxes, n = f.shape[0], f.shape[2]
        least, first, second = np.empty(boxes), np.empty((boxes, n)), np.empty((boxes, n))
        rows = np.ones(n, np.bool_) if self.block is None else np.isin(np.arange(n), self.block)
        f, rest = np.ascontiguousarray(f), _left_out(factors, bends)
        wanted = 1.0 / enough if enough > 0.0 else np.inf
        compiled.smallest_rows(f, rest, rows, self.error, wanted, least, first, second)
        with np.errstate(divide="ignore"):
            ends = (1.0 + 1e-15) / least
        return ends, np.einsum(
            "bk,bmkl,bl->bm", first, np.broadcast_to(bends, (boxes, *bends.shape[1:])), second
        )

    def sizes(self, bends: np.ndarray) -> np.ndarray:
        """Infinite ones: along every angle with bends there are corners."""
        return np.where(bends.any(axis=(1, 2)), np.inf, 0.0)

    def _of_block(self, f: np.ndarray) -> np.ndarray:
        return f if self.block is None else f[..., self.block[:, None], self.block]


class Ratio(Norm):
    """The ratio of the largest and the smallest eigenvalue of symmetric positive matrices (..., n, n).

    It is a product of two convex functions, and quasiconvex only.
    """

    grows = False

    def __init__(self) -> None:
        self._largest, self._inverse = Symmetric(False), Inverse()

    def attained(self, f: np.ndarray) -> np.ndarray:
        """The ratios."""
        values = np.linalg.eigvalsh(f)
        return values[:, -1] / np.maximum(values[:, 0], 1e-300)

    def above(
        self, f: np.ndarray, factors: np.ndarray, bends: np.ndarray, enough: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The product of the ends of H and of its inverse."""
        return self.above_mean([f], factors, bends, enough)

    def above_mean(
        self, limbs: list[np.ndarray], factors: np.ndarray, bends: np.ndarray, enough: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The product of the mean ends: a ratio is not convex, and the mean of ratios may be too small."""
        large, shares = self._largest.above_mean(limbs, factors, bends, -np.inf)
        inverse, others = self._inverse.above_mean(limbs, factors, bends, -np.inf)
        known = self._inverse.attained(limbs[0][:, 0])[:, None]
        return large * inverse, shares / large[:, None] + others * known

    def sizes(self, bends: np.ndarray) -> np.ndarray:
        """Infinite ones: along every angle with bends there are corners."""
        return self._inverse.sizes(bends)


class Radius(Norm):
    """The length of vectors (..., k) whose errors are vectors of at most a length: bends are (m, 1)."""

    def attained(self, f: np.ndarray) -> np.ndarray:
        """The lengths."""
        return np.asarray(np.linalg.norm(f, axis=-1))

    def above(
        self, f: np.ndarray, factors: np.ndarray, bends: np.ndarray, enough: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The length at the worst corner, and those of the errors."""
        ends = np.linalg.norm(f, axis=-1).max(axis=1) + (factors * bends[..., 0]).sum(axis=1)
        return ends, np.broadcast_to(bends[..., 0], factors.shape)

    def sizes(self, bends: np.ndarray) -> np.ndarray:
        """The lengths."""
        return bends[..., 0]


class Spectral(Norm):
    """The largest singular value of matrices (..., k, n) with k <= n."""

    def attained(self, f: np.ndarray) -> np.ndarray:
        """The singular values."""
        return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(f @ np.swapaxes(f, -1, -2))[..., -1], 0.0)))

    def above(
        self, f: np.ndarray, factors: np.ndarray, bends: np.ndarray, enough: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The norm at the worst corner, and those of the errors."""
        sizes = self.sizes(bends)
        squares = f @ np.swapaxes(f, -1, -2)
        n = squares.shape[-1]
        ends, _ = _largest(squares, np.zeros((len(f), n)), np.full((len(f), n), n**-0.5), -np.inf)
        return np.sqrt(np.maximum(ends, 0.0)) + (factors * sizes).sum(axis=1), np.broadcast_to(
            sizes, factors.shape
        )

    def sizes(self, bends: np.ndarray) -> np.ndarray:
        """The norms."""
        return self.attained(bends) if len(bends) else np.zeros(0)


class Torque(Norm):
    """The largest |g + h . a + v^T S v| for |a| <= acceleration, |v| <= speed: convex in (g, h, S).

    Arrays are (..., 1 + n + n n), of g, h and S: a component of gravity, a row of H, v^T S v a row of C v.

    Parameters
    ----------
    n : number of velocity components.
    speed, acceleration : bounds of |v| and |vdot|.
    """

    def __init__(self, n: int, speed: float, acceleration: float) -> None:
        self.n, self.speed, self.acceleration = n, speed, acceleration

    def attained(self, f: np.ndarray) -> np.ndarray:
        """a |h| + the larger of g + s^2 max(0, lambda_max(S)) and -g + s^2 max(0, -lambda_min(S))."""
        values, square = np.linalg.eigvalsh(self._squares(f)), self.speed**2
        up = f[..., 0] + square * np.maximum(values[..., -1], 0.0)
        down = -f[..., 0] + square * np.maximum(-values[..., 0], 0.0)
        return np.asarray(self._of_rows(f) + np.maximum(up, down))

    def above(
        self, f: np.ndarray, factors: np.ndarray, bends: np.ndarray, enough: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The force at the worst corner, and those of the errors."""
        sizes = self.sizes(bends)
        ends = self.attained(f).max(axis=1) + (factors * sizes).sum(axis=1)
        return ends, np.broadcast_to(sizes, factors.shape)

    def sizes(self, bends: np.ndarray) -> np.ndarray:
        """|g| + a |h| + s^2 |S|, which no errors with other signs exceed."""
        values = np.linalg.eigvalsh(self._squares(bends))
        spectral = np.maximum(values[..., -1], -values[..., 0])
        return np.asarray(np.abs(bends[..., 0]) + self._of_rows(bends) + self.speed**2 * spectral)

    def _of_rows(self, f: np.ndarray) -> np.ndarray:
        rows: np.ndarray = self.acceleration * np.linalg.norm(f[..., 1 : 1 + self.n], axis=-1)
        return rows

    def _squares(self, f: np.ndarray) -> np.ndarray:
        S = f[..., 1 + self.n :].reshape(*f.shape[:-1], self.n, self.n)
        return np.asarray(S)


def _left_out(factors: np.ndarray, bends: np.ndarray) -> np.ndarray:
    """R (B, ...): sums over coordinates of factors (B, m) and bends (B, m, ...) or (1, m, ...)."""
    boxes, m = factors.shape
    size = math.prod(bends.shape[2:])
    flat = np.broadcast_to(bends.reshape(len(bends), m, size), (boxes, m, size))
    return np.asarray((factors[:, None] @ flat).reshape(boxes, *bends.shape[2:]))


def _largest(
    f: np.ndarray, shift: np.ndarray, vectors: np.ndarray, enough: float, both: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Upper ends (B,) of the largest eigenvalues of f + diag(shift), f (B, C, n, n), and eigenvectors (B, n).

    That a box's corners have none above a guess is a Cholesky factorization for each (`kernels.py`).

    Parameters
    ----------
    vectors : (B, n) unit vectors that are near.
    both : whether of -f + diag(shift), too.
    enough : an end that is below it need not be sharp; nor is one by some hundredths of what shift adds.
    """
    boxes, _, n = f.shape[:3]
    ends, sizes, known = np.empty(boxes), np.empty(boxes), np.empty(boxes, np.bool_)
    f, shift, vectors = np.ascontiguousarray(f), np.ascontiguousarray(shift), np.array(vectors)
    compiled.largest_rows(f, shift, both, enough, _SLACK, ends, vectors, sizes, known)
    for box in np.flatnonzero(~known):
        corners = np.concatenate([f[box], -f[box]]) if both else f[box]
        values, found = np.linalg.eigh(corners + np.diag(shift[box]))
        ends[box], vectors[box] = values[:, -1].max(), found[values[:, -1].argmax(), :, -1]
    return ends + (n + 4) * EPS * sizes, vectors
