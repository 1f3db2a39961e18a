"""Taylor coefficients f^(k)(x) / k! of the elementary functions of one variable, as arrays (N + 1, *shape).

Those of the exponential and of sine and cosine are known; powers follow from J. C. P. Miller's recurrence;
tangents and the logistic function from y' = p(y); inverse functions from the integral of a power.
Source: [GW] section 13.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def convolve(a: Array, b: Array, count: int) -> Array:
    """The first `count` coefficients of a product of two polynomials of one variable."""
    out = np.zeros((count, *np.broadcast_shapes(a.shape[1:], b.shape[1:])), np.result_type(a, b))
    for k in range(count):
        for j in range(max(0, k - len(b) + 1), min(k, len(a) - 1) + 1):
            out[k] += a[j] * b[k - j]
    return out


def power_series(g: Array, p: float, order: int) -> Array:
    """Coefficients of g^p, g a polynomial of one variable with g[0] != 0: Miller's recurrence."""
    out = np.zeros((order + 1, *g.shape[1:]), g.dtype)
    out[0] = g[0] ** p
    for k in range(1, order + 1):
        for j in range(1, min(k, len(g) - 1) + 1):
            out[k] += (p * j - (k - j)) * g[j] * out[k - j]
        out[k] /= k * g[0]
    return out


def _of_power(p: float) -> Callable[[Array, int], Array]:
    return lambda x, order: power_series(np.stack([x, np.ones_like(x)]), p, order)


def _factorials(x: Array, order: int) -> Array:
    return np.cumprod([1.0, *range(1, order + 1)]).reshape(-1, *(1,) * x.ndim)


def _exponential(x: Array, order: int) -> Array:
    return np.exp(x)[None] / _factorials(x, order)


def _cycle(*derivatives: Array) -> Callable[[int], Array]:
    def coefficients(order: int) -> Array:
        rows = np.stack([derivatives[k % len(derivatives)] for k in range(order + 1)])
        return rows / _factorials(derivatives[0], order)

    return coefficients


def _sine(x: Array, order: int) -> Array:
    s, c = np.sin(x), np.cos(x)
    return _cycle(s, c, -s, -c)(order)


def _cosine(x: Array, order: int) -> Array:
    s, c = np.sin(x), np.cos(x)
    return _cycle(c, -s, -c, s)(order)


def _hyperbolic_sine(x: Array, order: int) -> Array:
    return _cycle(np.sinh(x), np.cosh(x))(order)


def _hyperbolic_cosine(x: Array, order: int) -> Array:
    return _cycle(np.cosh(x), np.sinh(x))(order)


def _solution(start: Callable[[Array], Array], p0: float, p1: float, p2: float) -> Any:
    """Coefficients of y with y' = p0 + p1 y + p2 y^2."""

    def coefficients(x: Array, order: int) -> Array:
        y = np.zeros((order + 1, *x.shape), x.dtype)
        y[0] = start(x)
        for k in range(order):
            square = np.einsum("j...,j...->...", y[: k + 1], y[k::-1])
            y[k + 1] = ((p0 if k == 0 else 0.0) + p1 * y[k] + p2 * square) / (k + 1)
        return y

    return coefficients


def _integral(start: Callable[[Array], Array], c0: float, c2: float, p: float, sign: float = 1.0) -> Any:
    """Coefficients of y with y' = sign (c0 + c2 x^2)^p."""

    def coefficients(x: Array, order: int) -> Array:
        slope = power_series(np.stack([c0 + c2 * x**2, 2 * c2 * x, np.full_like(x, c2)]), p, order)
        counts = np.arange(1.0, order + 1).reshape(-1, *(1,) * x.ndim)
        return np.concatenate([start(x)[None], sign * slope[:order] / counts])

    return coefficients


def _logarithm(x: Array, order: int) -> Array:
    k = np.arange(1.0, order + 1).reshape(-1, *(1,) * x.ndim)
    return np.concatenate([np.log(x)[None], -((-1.0 / x) ** k) / k])


def _shifted(rule: Callable[[Array, int], Array], inner: float, outer: float) -> Any:
    """Coefficients of x -> f(x + inner) + outer."""

    def coefficients(x: Array, order: int) -> Array:
        out = rule(x + inner, order)
        out[0] += outer
        return out

    return coefficients


def _base_two(x: Array, order: int) -> Array:
    scale = np.log(2.0) ** np.arange(order + 1).reshape(-1, *(1,) * x.ndim)
    coefficients: Array = _exponential(x * np.log(2.0), order) * scale
    return coefficients


ELEMENTARY: dict[str, Callable[[Array, int], Array]] = {
    "exp": _exponential,
    "exp2": _base_two,
    "expm1": _shifted(_exponential, 0.0, -1.0),
    "log": _logarithm,
    "log1p": _shifted(_logarithm, 1.0, 0.0),
    "sqrt": _of_power(0.5),
    "rsqrt": _of_power(-0.5),
    "cbrt": lambda x, order: np.sign(x) * power_series(np.stack([np.abs(x), np.sign(x)]), 1 / 3, order),
    "reciprocal": _of_power(-1.0),
    "sin": _sine,
    "cos": _cosine,
    "tan": _solution(np.tan, 1.0, 0.0, 1.0),
    "sinh": _hyperbolic_sine,
    "cosh": _hyperbolic_cosine,
    "tanh": _solution(np.tanh, 1.0, 0.0, -1.0),
    "logistic": _solution(lambda x: 1.0 / (1.0 + np.exp(-x)), 0.0, 1.0, -1.0),
    "asin": _integral(np.arcsin, 1.0, -1.0, -0.5),
    "acos": _integral(np.arccos, 1.0, -1.0, -0.5, -1.0),
    "atan": _integral(np.arctan, 1.0, 1.0, -1.0),
    "asinh": _integral(np.arcsinh, 1.0, 1.0, -0.5),
    "acosh": _integral(np.arccosh, -1.0, 1.0, -0.5),
    "atanh": _integral(np.arctanh, 1.0, -1.0, -1.0),
}
"""Names of JAX primitives -> (x (*shape), N) -> coefficients (N + 1, *shape)."""
