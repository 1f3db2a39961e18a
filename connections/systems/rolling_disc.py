"""The upright rolling disc.

A disc of radius R stands upright on a plane and rolls without slipping; it can turn about the vertical. It is
the textbook's first nonholonomic system: rolling and turning speeds are constant, the paths are circles.
Source: [Bl] (there theta is the angle of rolling and phi the heading).
"""

from __future__ import annotations

import sympy

from connections.symbolic import SymbolicSystem
from connections.systems.planar import planar_coordinates


def rolling_disc() -> SymbolicSystem:
    """The disc in q = (x, y, theta, phi): contact point [m], heading and angle of rolling [rad].

    Forms dx - R cos(theta) dphi and dy - R sin(theta) dphi. Basis: X_1 = R cos(theta) d/dx + R sin(theta)
    d/dy + d/dphi rolls, X_2 = d/dtheta turns; it is orthogonal, and all its Christoffel symbols vanish.
    Inputs: a torque about the axis of the disc, and one about the vertical [N m]. Symmetry: motions of the
    plane, and turns of phi.

    Parameters of the system: mass m [kg], radius R [m], moments of inertia I about the axis and J about a
    diameter [kg m^2]; the defaults are those of a uniform disc.

    Examples
    --------
    >>> from connections import symbolic, systems
    >>> disc = systems.rolling_disc()
    >>> symbolic.nonzero(disc.constrained_coefficients())
    {}
    >>> motion = disc.numeric().simulate([0.0, 0.0, 0.0, 0.0], [2.0, 0.0], [0.0, 3.0])
    >>> motion.q[-1].round(6)  # 6 rad on a radius of 0.5 m
    array([3., 0., 0., 6.])
    """
    x, y, theta, phi = planar_coordinates("phi")
    m, R, inertia, J = sympy.symbols("m R I J", positive=True)
    c, s = R * sympy.cos(theta), R * sympy.sin(theta)
    return SymbolicSystem(
        (x, y, theta, phi),
        metric=sympy.diag(m, m, J, inertia),
        basis=sympy.Matrix([[c, 0], [s, 0], [0, 1], [1, 0]]),
        forms=sympy.Matrix([[1, 0, 0, -c], [0, 1, 0, -s]]),
        inputs=sympy.Matrix([[0, 0, 0, 1], [0, 0, 1, 0]]),
        parameters={m: 2.0, R: 0.5, inertia: 0.25, J: 0.125},
        name="rolling disc",
    )
