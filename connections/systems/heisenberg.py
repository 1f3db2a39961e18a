"""The nonholonomic (Heisenberg) particle.

A free particle in space whose velocity obeys zdot = y xdot: the contact distribution of the Heisenberg group
with the Euclidean metric. Its paths project to catenaries in the (x, z) plane.
Source: [Bl]; [BS] (the particle of R. M. Rosenberg, Analytical Dynamics, 1977).
"""

from __future__ import annotations

import sympy

from connections.symbolic import SymbolicSystem


def heisenberg_particle() -> SymbolicSystem:
    """The particle in q = (x, y, z) [m].

    Form dz - y dx. Basis: X_1 = d/dx + y d/dz and X_2 = d/dy, orthogonal; <<X_1, X_1>> = m (1 + y^2) with y
    in metres. Inputs: forces along x and along y [N]. Symmetry: translations along x and z. The Heisenberg
    group itself preserves the form, but not the metric.

    Motion: ydot is constant, and so is sqrt(1 + y^2) xdot. With ydot = b and sqrt(1 + y^2) xdot = c the path
    is x - x_0 = (c / b) (asinh y - asinh y_0), z - z_0 = (c / b) (sqrt(1 + y^2) - sqrt(1 + y_0^2)), and z -
    z_1 = (c / b) cosh(b (x - x_1) / c).

    Parameter of the system: mass m [kg].

    Examples
    --------
    >>> from connections import symbolic, systems
    >>> particle = systems.heisenberg_particle()
    >>> symbolic.nonzero(particle.constrained_coefficients())
    {(0, 1, 0): y/(y**2 + 1)}
    >>> motion = particle.numeric().simulate([0.0, 0.0, 0.0], [1.0, 1.0], [0.0, 1.0])
    >>> motion.q[-1].round(4)  # (asinh 1, 1, sqrt 2 - 1)
    array([0.8814, 1.    , 0.4142])
    """
    x, y, z = sympy.symbols("x y z", real=True)
    m = sympy.Symbol("m", positive=True)
    return SymbolicSystem(
        (x, y, z),
        metric=m * sympy.eye(3),
        basis=sympy.Matrix([[1, 0], [0, 1], [y, 0]]),
        forms=sympy.Matrix([[-y, 0, 1]]),
        inputs=sympy.Matrix([[1, 0, 0], [0, 1, 0]]),
        parameters={m: 1.0},
        name="Heisenberg particle",
    )
