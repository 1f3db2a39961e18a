"""Truncated Taylor polynomials of several variables, in NumPy: the arithmetic of jets at a point.

A polynomial of degree N in d variables whose values have shape ``shape`` is an array ``(K, *shape)``: one
coefficient per monomial, K = C(d + N, N), monomials ordered by degree, the constant first. An array
``(1, *shape)`` is a constant. Products and compositions drop what is of higher degree than N, so every
coefficient is exact: derivatives of any order come out of one evaluation, without compilation.
Source: [GW] chapter 13.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_CHUNK = 2_000_000  # numbers in one block of a product


class TaylorAlgebra:
    """Polynomials in `variables` variables, truncated above degree `order`; shared by `taylor_algebra`."""

    def __init__(self, variables: int, order: int) -> None:
        self.variables, self.order = variables, order
        rows = []
        for degree in range(order + 1):
            for chosen in combinations_with_replacement(range(variables), degree):
                rows.append(np.bincount(np.asarray(chosen, dtype=int), minlength=variables))
        self.exponents: Array = np.stack(rows)
        """(K, d) powers of each variable in each monomial."""
        self.degrees: Array = self.exponents.sum(axis=1)
        """(K,) total degrees, increasing."""

    @property
    def size(self) -> int:
        """K, the number of monomials."""
        return len(self.exponents)

    def lower(self, order: int) -> TaylorAlgebra:
        """The algebra of degree `order`: its monomials are the first of these."""
        return taylor_algebra(self.variables, order)

    def point(self, q: Array) -> Array:
        """The polynomial q + x, (K, d): the coordinates as functions near q (d,)."""
        out = np.zeros((self.size, self.variables))
        out[0] = q
        if self.order:
            out[1 : self.variables + 1] = np.eye(self.variables)
        return out

    def full(self, a: Array) -> Array:
        """`a`, a constant or of a lower degree, with all K coefficients."""
        if len(a) == self.size:
            return a
        return np.concatenate([a, np.zeros((self.size - len(a), *a.shape[1:]), a.dtype)])

    def add(self, a: Array, b: Array) -> Array:
        """a + b; either may be a constant."""
        a, b = aligned(a, b)
        if len(a) == len(b):
            return a + b
        return self.full(a) + self.full(b)

    def multiply(self, a: Array, b: Array, times: Callable[[Array, Array], Array] = np.multiply) -> Array:
        """The product of a and b, entry by entry or by another bilinear map `times` of stacks of values."""
        if len(a) == 1 or len(b) == 1:
            return times(a, b)
        first, second, starts = self._pairs
        block = max(1, int(_CHUNK * len(starts) / (len(first) * max(a[0].size, b[0].size))))
        parts = []
        for begin in range(0, len(starts), block):
            low = starts[begin]
            high = starts[begin + block] if begin + block < len(starts) else len(first)
            terms = times(a[first[low:high]], b[second[low:high]])
            parts.append(np.add.reduceat(terms, starts[begin : begin + block] - low, axis=0))
        return np.concatenate(parts)

    def compose(self, outer: Array, a: Array) -> Array:
        """Sum over k of outer[k] (a - a_0)^k: a function of one variable from its Taylor coefficients at a_0.

        Parameters
        ----------
        outer : (N + 1, *shape) coefficients f^(k)(a_0) / k!.
        a : (K, *shape).
        """
        rest = a.copy()
        rest[0] = 0.0
        out = outer[-1:]
        for coefficient in outer[-2::-1]:
            out = self.add(self.multiply(out, rest), coefficient[None])
        return out

    def partials(self, a: Array) -> Array:
        """d a / d x_v, (K', d, *shape), of degree N - 1: the variable comes behind the monomial."""
        if len(a) == 1:
            return np.zeros((1, self.variables, *a.shape[1:]))
        source, factor = self._partial_tables
        shape = (*factor.shape, *(1,) * (a.ndim - 1))
        return a[source] * factor.reshape(shape)

    def solve(self, A: Array, b: Array) -> Array:
        """x of A x = b, degree by degree: x_d = A_0^-1 (b - A x)_d; A (K, ..., n, n), b (K, ..., n, m)."""
        if len(A) == 1:
            return np.linalg.solve(np.broadcast_to(A, (len(b), *A.shape[1:])), b)
        shape = np.broadcast_shapes(A.shape[1:-1] + (b.shape[-1],), b.shape[1:])
        x = np.zeros((1, *shape), np.result_type(A, b))
        for degree in range(self.order + 1):
            x = self.refine(degree, x, A, b)
        return x

    def refine(self, degree: int, x: Array, A: Array, b: Array) -> Array:
        """x of A x = b to one degree more than the `x` given."""
        low, new = self.lower(degree), self.first(degree)
        x = low.full(x)
        residual = low.cut(b) - low.multiply(low.cut(A), x, np.matmul) if degree else low.cut(b)
        x[new:] = np.linalg.solve(np.broadcast_to(A[:1], (len(x) - new, *A.shape[1:])), residual[new:])
        return x

    def first(self, degree: int) -> int:
        """The place of the first monomial of a degree."""
        return int(np.searchsorted(self.degrees, degree))

    def cut(self, a: Array) -> Array:
        """`a`, of this degree or more, with the coefficients of this algebra; a constant is padded."""
        return a[: self.size] if len(a) > 1 or self.size == 1 else self.full(a)

    # --- tables ------------------------------------------------------------------------------------------

    @cached_property
    def _codes(self) -> Array:
        """One integer per monomial, such that codes of products are sums of codes."""
        return self.exponents @ (self.order + 1) ** np.arange(self.variables, dtype=np.int64)

    def _places(self, codes: Array) -> Array:
        ranks = np.argsort(self._codes)
        return ranks[np.searchsorted(self._codes, codes, sorter=ranks)]

    @cached_property
    def _pairs(self) -> tuple[Array, Array, Array]:
        """Pairs of monomials whose product is kept, sorted by the product, and where each product starts."""
        ends = np.searchsorted(self.degrees, self.order - self.degrees, side="right")
        first = np.repeat(np.arange(self.size), ends)
        second = np.concatenate([np.arange(end) for end in ends])
        place = self._places(self._codes[first] + self._codes[second])
        order = np.argsort(place, kind="stable")
        starts = np.searchsorted(place[order], np.arange(self.size))
        return first[order], second[order], starts

    @cached_property
    def _partial_tables(self) -> tuple[Array, Array]:
        """source[k, v] and factor[k, v]: (d a / d x_v)_k = factor a[source], k of degree N - 1 or less."""
        count = self.first(self.order)
        steps = (self.order + 1) ** np.arange(self.variables, dtype=np.int64)
        source = self._places(self._codes[:count, None] + steps)
        return source, self.exponents[:count] + 1.0


@lru_cache(maxsize=64)
def taylor_algebra(variables: int, order: int) -> TaylorAlgebra:
    """The algebra of polynomials of degree `order` in `variables` variables; its tables are made once."""
    return TaylorAlgebra(variables, order)


def aligned(a: Array, b: Array) -> tuple[Array, Array]:
    """The two arrays with as many axes: a scalar's coefficients beside an array's."""
    missing = b.ndim - a.ndim
    if missing > 0:
        a = a.reshape(a.shape[0], *(1,) * missing, *a.shape[1:])
    elif missing < 0:
        b = b.reshape(b.shape[0], *(1,) * -missing, *b.shape[1:])
    return a, b
