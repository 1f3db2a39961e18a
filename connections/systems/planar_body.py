"""A planar rigid body with a thruster.

A body that glides without friction on a plane, or a hovercraft: a thruster at a distance behind the centre of
mass, whose direction can be set. There are no constraints; the frame is the body's and does not commute.
Source: [LM] (the planar rigid body); [BL].
"""

from __future__ import annotations

import sympy

from connections.symbolic import SymbolicSystem
from connections.systems.planar import body_frame, planar_coordinates


def planar_body() -> SymbolicSystem:
    """The body in q = (x, y, theta): its centre of mass [m] and the angle of its axis [rad].

    The frame is that of the body axes, v = (u, w, omega), H = diag(m, m, J). Inputs: the components of the
    thrust along and across the axis [N], the thruster at (-h, 0), so that the second also turns the body.
    Symmetry: the motions of the plane.

    Parameters of the system: mass m [kg], moment of inertia J about the centre of mass [kg m^2], distance h
    of the thruster [m].

    Examples
    --------
    >>> from connections import systems
    >>> body = systems.planar_body().numeric()
    >>> def thrust(t, q, v):
    ...     return [3.0, 0.0, 0.0]  # 3 N along the axis of a body of 1.5 kg
    >>> motion = body.simulate([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0], thrust)
    >>> motion.q[-1].round(6)
    array([2., 0., 0.])
    """
    x, y, theta = planar_coordinates()
    m, J, h = sympy.symbols("m J h", positive=True)
    return SymbolicSystem(
        (x, y, theta),
        metric=sympy.diag(m, m, J),
        frame=body_frame(theta, 3),
        inputs=sympy.Matrix([[1, 0, 0], [0, 1, -h]]),
        parameters={m: 1.5, J: 0.2, h: 0.4},
        name="planar rigid body with a thruster",
    )
