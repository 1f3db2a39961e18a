"""Parts that vehicles in the plane share: their coordinates and the frame of their body axes."""

from __future__ import annotations

import sympy


def planar_coordinates(*more: str) -> tuple[sympy.Symbol, ...]:
    """Symbols x, y, theta and those named, all real."""
    return tuple(sympy.Symbol(name, real=True) for name in ("x", "y", "theta", *more))


def body_frame(theta: sympy.Symbol, dim: int) -> sympy.Matrix:
    """(dim, dim): V_x = cos d/dx + sin d/dy, V_y = -sin d/dx + cos d/dy, then the coordinate fields.

    Parameters
    ----------
    theta : angle of the body's x axis from the x axis.
    dim : number of coordinates, x and y first.

    Source: [Z] eq. (8).
    """
    c, s = sympy.cos(theta), sympy.sin(theta)
    return sympy.diag(sympy.Matrix([[c, -s], [s, c]]), sympy.eye(dim - 2))
