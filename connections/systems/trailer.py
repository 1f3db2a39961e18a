"""A wheeled robot with a trailer.

A robot with two driven wheels pulls a trailer that is hitched to the middle of its axle; neither axle slips
sideways. Kinematics as in [MS]; here with masses.
"""

from __future__ import annotations

import sympy

from connections.symbolic import SymbolicSystem
from connections.systems.planar import body_frame, planar_coordinates


def trailer() -> SymbolicSystem:
    """The robot in q = (x, y, theta, delta): middle of its axle [m], heading, hitch angle [rad].

    delta is the heading less the trailer's. The frame is that of the robot's body axes, v = (u, w, omega,
    deltadot). With the trailer's angular velocity omega - deltadot, its axle moves sideways at u sin(delta) +
    w cos(delta) - d (omega - deltadot). Forms: w, and this. Basis: X_1 = V_x - sin(delta) / d d/ddelta drives
    straight, X_2 = d/dtheta + d/ddelta turns the robot on the spot while the trailer stays; orthogonal.
    Inputs: a force along the robot [N] and a torque on it [N m], which its wheels give. Symmetry: the motions
    of the plane.

    Parameters of the system: masses M of the robot (centre on its axle) and m of the trailer [kg], moments of
    inertia J and I about their centres of mass [kg m^2], distances behind the hitch of the trailer's axle, d,
    and of its centre of mass, c [m].

    Examples
    --------
    >>> from connections import systems
    >>> robot = systems.trailer().numeric()
    >>> motion = robot.simulate([0.0, 0.0, 0.0, 0.5], [1.0, 0.0], [0.0, 0.5, 1.0, 5.0])
    >>> motion.q[:, 3].round(3)  # the hitch angle: driving ahead straightens it
    array([0.5  , 0.224, 0.1  , 0.   ])

    Source: [MS] (kinematics).
    """
    x, y, theta, delta = planar_coordinates("delta")
    M, J, m, inertia, d, c = sympy.symbols("M J m I d c", positive=True)
    cos, sin = sympy.cos(delta), sympy.sin(delta)
    along = sympy.Matrix([[cos, -sin, 0, 0]])  # velocity of the trailer's centre of mass along its own axis
    sideways = sympy.Matrix([[sin, cos, -c, c]])
    turning = sympy.Matrix([[0, 0, 1, -1]])
    pulled = m * (along.T * along + sideways.T * sideways) + inertia * turning.T * turning
    return SymbolicSystem(
        (x, y, theta, delta),
        metric=(sympy.diag(M, M, J, 0) + pulled).applyfunc(sympy.trigsimp),
        frame=body_frame(theta, 4),
        basis=sympy.Matrix([[1, 0], [0, 0], [0, 1], [-sin / d, 1]]),
        forms=sympy.Matrix([[0, 1, 0, 0], [sin, cos, -d, d]]),
        inputs=sympy.Matrix([[1, 0, 0, 0], [0, 0, 1, 0]]),
        parameters={M: 10.0, J: 0.4, m: 5.0, inertia: 0.3, d: 0.6, c: 0.5},
        name="wheeled robot with a trailer",
    )
