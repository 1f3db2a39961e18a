"""Even functions of a length, as functions of its square: cosh x, sinh x / x, asinh x / x, ...

Below `_SMALL` the series are summed, so that derivatives by the square exist at zero, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

_SMALL, _TERMS = 1e-2, 10  # of x^2: the first term that is left out is below 1e-20


def cosh(square: jax.Array) -> jax.Array:
    """cosh x of x^2."""
    return _even(jnp.cosh, [1.0 / math.factorial(2 * k) for k in range(_TERMS)], square)


def sinhc(square: jax.Array) -> jax.Array:
    """sinh x / x of x^2."""
    series = [1.0 / math.factorial(2 * k + 1) for k in range(_TERMS)]
    return _even(lambda x: jnp.sinh(x) / x, series, square)


def tanhc(square: jax.Array) -> jax.Array:
    """tanh x / x of x^2."""
    small = square < _SMALL
    root = jnp.sqrt(jnp.where(small, 1.0, square))
    return jnp.where(small, sinhc(square) / cosh(square), jnp.tanh(root) / root)


def asinhc(square: jax.Array) -> jax.Array:
    """asinh x / x of x^2."""
    series = [(-0.25) ** k * math.comb(2 * k, k) / (2 * k + 1) for k in range(_TERMS)]
    return _even(lambda x: jnp.arcsinh(x) / x, series, square)


def arcsinc(square: jax.Array) -> jax.Array:
    """arcsin x / x of x^2."""
    series = [0.25**k * math.comb(2 * k, k) / (2 * k + 1) for k in range(_TERMS)]
    return _even(lambda x: jnp.arcsin(x) / x, series, square)


def _even(function: Callable[[jax.Array], jax.Array], series: list[float], square: jax.Array) -> jax.Array:
    small = square < _SMALL
    root = jnp.sqrt(jnp.where(small, 1.0, square))  # no derivative of a root at zero
    near = jnp.polyval(jnp.array(series[::-1]), jnp.where(small, square, 0.0))
    return jnp.where(small, near, function(root))
