"""The Chaplygin sleigh.

A rigid body on a plane with a blade that does not slip sideways, its centre of mass ahead of the blade. It
ends in a straight line, centre of mass in front: a conservative system with an attractor.
Source: [Bl]; S. A. Chaplygin, 1911.
"""

from __future__ import annotations

import sympy

from connections.symbolic import SymbolicSystem
from connections.systems.planar import body_frame, planar_coordinates


def chaplygin_sleigh() -> SymbolicSystem:
    """The sleigh in q = (x, y, theta): the blade's contact point [m] and heading [rad].

    The frame is that of the body axes, v = (u, w, omega): H is constant, the form is w = 0. Basis: X_1 = V_x
    glides, X_2 = d/dtheta turns about the blade; orthogonal. Inputs: a force along the blade [N] and a couple
    [N m]. Symmetry: the motions of the plane.

    Motion: udot = a omega^2, omegadot = -(a / k^2) u omega with k^2 = a^2 + I / m, so that u = C tanh(a C t /
    k^2 + delta), omega = (C / k) sech(a C t / k^2 + delta), C^2 = u^2 + k^2 omega^2. From minus to plus
    infinity it turns by pi k / a.

    Parameters of the system: mass m [kg], moment of inertia I about the centre of mass [kg m^2], distance a
    of the centre of mass ahead of the blade [m].

    Examples
    --------
    It begins by turning about its blade, and ends in a straight line.

    >>> from connections import systems
    >>> sleigh = systems.chaplygin_sleigh().numeric()
    >>> motion = sleigh.simulate([0.0, 0.0, 0.0], [0.0, 2.0], [0.0, 2.0, 4.0, 8.0])
    >>> motion.v.round(2)  # along the blade [m/s], and turning [rad/s]
    array([[0.  , 2.  ],
           [0.73, 0.47],
           [0.75, 0.06],
           [0.75, 0.  ]])
    """
    x, y, theta = planar_coordinates()
    m, inertia, a = sympy.symbols("m I a", positive=True)
    return SymbolicSystem(
        (x, y, theta),
        metric=sympy.Matrix([[m, 0, 0], [0, m, m * a], [0, m * a, inertia + m * a**2]]),
        frame=body_frame(theta, 3),
        basis=sympy.Matrix([[1, 0], [0, 0], [0, 1]]),
        forms=sympy.Matrix([[0, 1, 0]]),
        inputs=sympy.Matrix([[1, 0, 0], [0, 0, 1]]),
        parameters={m: 1.0, inertia: 0.1, a: 0.2},
        name="Chaplygin sleigh",
    )
