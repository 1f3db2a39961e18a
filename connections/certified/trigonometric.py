"""Array-valued polynomials of degree 2 in each coordinate of a box, as convex combinations of control values.

Let x = sin((b - q) / 2), y = sin((q - a) / 2), s = sin(w / 2), c = cos(w / 2), w = b - a < pi. Then

    x^2 + 2 c x y + y^2 = s^2,    1 = sum_k w_k x^(4-k) y^k / s^4,    w = (1, 4 c, 2 + 4 c^2, 4 c, 1),

and the five terms, none negative, span the trigonometric polynomials of degree 2. So over [a, b] such a
polynomial is a convex combination of five control values F_k, of which F_0 and F_4 are f(a) and f(b); over a
box, of the products'. Along a slide the terms are Bernstein's, of degree 2. What is convex in f is at most
its largest value at control values. Halving an interval makes convex combinations of control values, and what
the hull has in excess four times smaller.

f is sampled once, at five points of the turn along each angle and three along each slide. Control values of
each box follow by a (5, 5) matrix along each axis.

Source: derived here; of half angles it is the basis of P. Alfeld, M. Neamtu and L. L. Schumaker,
Circular Bernstein-Bezier polynomials (1995).
"""

from __future__ import annotations

import numpy as np

LEBESGUE = 2.0  # at least the largest sum of |Lagrange's polynomials| of five equidistant points: 1.989
WIDEST = 2.2  # rad, of a box along an angle: the basis is well conditioned there
AMPLIFICATION = 4.0  # at least the largest sum of sizes in a row of `to_control`, of all such boxes

_ANGLES = 2.0 * np.pi * np.arange(5) / 5.0


def nodes(slide: bool, lower: float, upper: float) -> np.ndarray:
    """The points at which a coordinate is sampled: (5,) of the whole turn, or (3,) of a slide's interval."""
    return np.array([lower, (lower + upper) / 2.0, upper]) if slide else _ANGLES - np.pi


def cells(slide: bool, lower: float, upper: float) -> list[tuple[float, float]]:
    """The intervals, (a, b) each, into which the range of a coordinate is cut first."""
    count = 1 if slide else max(1, int(np.ceil((upper - lower) / WIDEST)))
    cuts = np.linspace(lower, upper, count + 1)
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def to_control(slide: bool, a: float, b: float, at: np.ndarray | None = None) -> np.ndarray:
    """(5, 5) or (3, 3): samples at `nodes` -> control values over [a, b]; nodes of a slide are `at`."""
    if slide:
        low, middle, high = nodes(True, a, b) if at is None else at
        q = np.array([a, (a + b) / 2.0, b])
        half = max((high - low) / 2.0, 1e-300)
        x = (q - middle) / half
        ends = np.stack([x * (x - 1.0) / 2.0, 1.0 - x * x, x * (x + 1.0) / 2.0], axis=-1)
        inner = 2.0 * ends[1] - (ends[0] + ends[2]) / 2.0  # Bernstein's middle coefficient
        return np.stack([ends[0], inner, ends[2]])
    if b == a:
        return _lagrange(np.array([a])).repeat(5, axis=0)
    within = (a + b) / 2.0 - (b - a) / 2.0 * np.cos(np.pi * (np.arange(5) + 0.5) / 5.0)
    return np.linalg.solve(_basis(b - a, within - a), _lagrange(within))


def halves(slide: bool, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Control values over [a, b] -> those over the lower and the upper half; rows are convex combinations."""
    if slide or width == 0.0:
        first = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.5, 0.25]]) if slide else np.eye(5)
        return first, first[::-1, ::-1]
    within = width / 4.0 * (1.0 - np.cos(np.pi * (np.arange(5) + 0.5) / 5.0))
    first = np.linalg.solve(_basis(width / 2.0, within), _basis(width, within))
    return first, first[::-1, ::-1]


def along(matrix: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
    """The matrix (m, k) times values (..., k, ...) along an axis."""
    moved = np.moveaxis(values, axis, 0)
    product = (matrix @ moved.reshape(len(moved), -1)).reshape(len(matrix), *moved.shape[1:])
    back: np.ndarray = np.moveaxis(product, 0, axis)
    return back


def _basis(width: float, from_a: np.ndarray) -> np.ndarray:
    """(P, 5) the terms at a + from_a (P,)."""
    c, s = np.cos(width / 2.0), np.sin(width / 2.0)
    x, y = np.sin((width - from_a) / 2.0) / s, np.sin(from_a / 2.0) / s
    weights = np.array([1.0, 4.0 * c, 2.0 + 4.0 * c * c, 4.0 * c, 1.0])
    return np.stack([w * x ** (4 - k) * y**k for k, w in enumerate(weights)], axis=-1)


def _lagrange(q: np.ndarray) -> np.ndarray:
    """(P, 5) Lagrange's trigonometric polynomials of the five nodes at q (P,)."""
    away = q[:, None] - (_ANGLES - np.pi)
    values: np.ndarray = (1.0 + 2.0 * np.cos(away) + 2.0 * np.cos(2.0 * away)) / 5.0
    return values
