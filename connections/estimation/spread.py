"""How a covariance spreads over a step: Pdot = A P + P A^T + Q.

    P_1 = Phi P Phi^T + S,    Phidot = A Phi,    S the integral of Phi Q Phi^T.

`by_nodes` is Runge and Kutta's method for Phi and Simpson's rule for S, as `by_halves`. `of_generator` is
exact for A and Q that do not change: with (a, q) = h (A, Q) / 2^s both are power series, and then s times

    Phi <- Phi Phi,    S <- S + Phi S Phi^T,    B <- (B + Phi B) / 2  (the mean of Phi),

which adds positive semidefinite matrices only, so that nothing overflows that decays. If they change,
(a, q) is the exponent of Magnus of the block matrix M = [[A, Q], [0, -A^T]],

    h/6 (M_0 + 4 M_m + M_1) - h^2/12 [M_0, M_1],

with an error of order five. Two halves have a sixteenth of it. The whole step knows M at every other place
only: another method of the same places would not see what happens between them.

Source: Van Loan, Computing integrals involving the matrix exponential (1978); Blanes, Casas, Oteo and Ros,
The Magnus expansion and some of its applications (2009), section 5.4; docs/filters.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from connections.geometry.numerics.products import small_product as product
from connections.integration.traced import anywhere_in_batch

_SMALL = 1.0 / 16.0  # a generator whose series of `_ORDER` is exact to round-off
_ORDER = 8
_DOUBLINGS = 60  # at most, so that a generator is smaller than 2^56
_BALANCED = 12  # rounds


class Spread(NamedTuple):
    """Phi and S over a step, (k, k) each."""

    Phi: jax.Array
    S: jax.Array

    def after(self, P: jax.Array) -> jax.Array:
        """Phi P Phi^T + S, symmetric."""
        return symmetric(carried(self.Phi, P) + self.S)

    def then(self, later: Spread) -> Spread:
        """The two steps, one after the other, as one."""
        return Spread(product(later.Phi, self.Phi), later.after(self.S))


class Generated(NamedTuple):
    """A step of a generator (a, q)."""

    spread: Spread
    B: jax.Array
    """(k, k) the mean of Phi over the step: xdot = A x + b goes from x to x + h B (A x + b)."""


def by_nodes(A: Any, Q: Any, h: Any) -> tuple[Spread, jax.Array]:
    """Phi and S of a step of length h, and the last term of Phi; A, Q at its beginning, middle and end.

    The last term is (h A)^4 / 24 if A does not change, and of second order in its change. Phi over the second
    half has an error of order four, or three if A changes; only S contains it, which is of first order.
    """
    (first, middle, last), one = A, jnp.eye(len(A[0]))
    k2 = product(middle, one + 0.5 * h * first)
    k3 = product(middle, one + 0.5 * h * k2)
    k4 = product(last, one + h * k3)
    Phi = one + h / 6.0 * (first + 2.0 * k2 + 2.0 * k3 + k4)
    half = one + 0.25 * h * (middle + product(last, one + 0.5 * h * middle)) + h / 12.0 * (k3 - k2)
    S = h / 6.0 * (carried(Phi, Q[0]) + 4.0 * carried(half, Q[1]) + Q[2])
    return Spread(Phi, S), h / 6.0 * (first - 2.0 * k3 + k4)


def by_halves(P: jax.Array, half: jax.Array, q: jax.Array) -> jax.Array:
    """P_1 of A and Q that do not change, S by Simpson's rule.

    Parameters
    ----------
    P : (k, k). half : Phi of half of the step. q : h Q (k, k).
    """
    found = carried(half, P + q / 6.0) + 2.0 / 3.0 * q
    return symmetric(carried(half, found) + q / 6.0)


def of_generator(a: jax.Array, q: jax.Array) -> Generated:
    """Phi, S and the mean of Phi for constant a = h A and q = h Q, (k, k); exact. NaN if a is too large.

    Phi is found by s squares, and also as 1 + E, E <- 2 E + E E. The error of the first is 2^s times its own
    round-off, that of the second the round-off of one. The second is taken unless Phi is below 1 / 2^s.
    """
    size, scales = _balanced(jax.lax.stop_gradient(a))
    count = jnp.ceil(jnp.log2(jnp.maximum(size / _SMALL, 1.0)))
    scale = jnp.exp2(-count)
    a, q = scale * a, scale * q
    one = jnp.eye(len(a))
    B, S, term = one, q, q
    for power in range(_ORDER, 0, -1):
        B = one + product(a, B) / (power + 1.0)
    for power in range(1, _ORDER + 1):
        along = product(a, term)
        term = (along + along.T) / (power + 1.0)
        S = S + term
    begin = one + product(a, B), product(a, B), S, scale * B

    def doubled(found: Any, number: jax.Array) -> tuple[Any, None]:
        own = number < count

        def twice(found: Any) -> Any:
            Phi, E, S, B = found
            ahead = S + product(E, S)
            S = symmetric(S + ahead + product(ahead, E.T))
            return where(own, (product(Phi, Phi), 2.0 * E + product(E, E), S, 2.0 * B + product(E, B)), found)

        return jax.lax.cond(anywhere_in_batch(own), twice, lambda same: same, found), None

    (Phi, E, S, B), _ = jax.lax.scan(doubled, begin, jnp.arange(_DOUBLINGS))
    vanishes = scale > jnp.sqrt(jnp.sum(jnp.square(Phi * scales / scales[:, None])))
    ok = jnp.where(count <= _DOUBLINGS, 1.0, jnp.nan)
    return Generated(Spread(ok * jnp.where(vanishes, Phi, one + E), S), B)


def _balanced(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The norm of D^-1 a D with rows and columns of about the same size, which no unit changes; and D."""
    squares = jnp.square(a)

    def balanced(_: Any, scales: jax.Array) -> jax.Array:
        own = squares * scales / scales[:, None]  # scales are squares, too
        rows, columns = jnp.sum(own, axis=1), jnp.sum(own, axis=0)
        both = (rows > 0.0) & (columns > 0.0)
        ratio = jnp.where(both, rows, 1.0) / jnp.where(both, columns, 1.0)
        return scales * ratio**0.25

    scales = jax.lax.fori_loop(0, _BALANCED, balanced, jnp.ones(len(a)))
    return jnp.sqrt(jnp.sum(squares * scales / scales[:, None])), jnp.sqrt(scales)


def of_course(A: Any, Q: Any, h: Any) -> tuple[Spread, Spread, Spread]:
    """Over a step and over both its halves, with order four, exact for A and Q that do not change.

    Parameters
    ----------
    A, Q : five (k, k) each, after no, one, two, three and four quarters of a step of length h.
    """
    parts = (A[::2], Q[::2], h), (A[:3], Q[:3], 0.5 * h), (A[2:], Q[2:], 0.5 * h)
    exponents = zip(*(_exponent(*part) for part in parts), strict=True)
    found = jax.vmap(of_generator)(*map(jnp.stack, exponents)).spread
    whole, first, second = (jax.tree_util.tree_map(lambda x, i=i: x[i], found) for i in range(3))
    return whole, first, second


def _exponent(A: Any, Q: Any, h: Any) -> tuple[jax.Array, jax.Array]:
    """Exponent (a, q) of Magnus, (k, k) each, by A and Q at beginning, middle and end of a step."""
    (A0, Am, A1), (Q0, Qm, Q1) = A, Q
    turn = product(A0, A1) - product(A1, A0)
    bent = product(A0, Q1) - product(A1, Q0)
    return (
        h / 6.0 * (A0 + 4.0 * Am + A1) - h**2 / 12.0 * turn,
        h / 6.0 * (Q0 + 4.0 * Qm + Q1) - h**2 / 12.0 * (bent + bent.T),
    )


def carried(Phi: jax.Array, P: jax.Array) -> jax.Array:
    """Phi P Phi^T."""
    return product(product(Phi, P), Phi.T)


def symmetric(P: jax.Array) -> jax.Array:
    """The symmetric part."""
    return 0.5 * (P + P.T)


Tree = TypeVar("Tree")


def where(condition: jax.Array, these: Tree, those: Tree) -> Tree:
    """The one or the other of two trees of arrays, by a condition."""
    found: Tree = jax.tree_util.tree_map(lambda a, b: jnp.where(condition, a, b), these, those)
    return found
