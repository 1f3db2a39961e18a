"""The roller racer: two links on wheels, a seat and a handlebar, moved by turning the one against the other.

Coordinates: x, y of the centre of mass, theta of the main body, psi of the front link relative to it. The
joint is l_1 ahead of the centre, the front wheels l_2 ahead of the joint. Source: [Z] section 5.
"""

from __future__ import annotations

from sympy import Matrix, cos, sin, symbols

from connections.symbolic.system import SymbolicSystem


def roller_racer() -> SymbolicSystem:
    """The roller racer with [Z]'s orthogonal basis X_1, X_2, the wheels' forms, and a torque on psi.

    Returns
    -------
    System with parameters m total mass 1 kg; l_1 0.4 m and l_2 0.15 m, the distances of body centre and front
    wheels from the joint; I_1 inertia of the main body 0.05 kg m^2 and I_2 of the front link 0.004 kg m^2.

    The forms have rank two everywhere. X_1 is singular where l_2 + l_1 cos psi = 0: there use
    ``numeric(basis="orthonormal")``, whose basis is computed from the forms alone, or another basis.

    Examples
    --------
    >>> from connections import systems
    >>> racer = systems.roller_racer()
    >>> racer.coordinates
    (x, y, theta, psi)
    >>> racer.reduced_metric()[0, 1]  # the basis is orthogonal
    0
    >>> motion = racer.numeric().simulate([0.0, 0.0, 0.0, 0.0], [1.0, 0.0], [0.0, 2.0])
    >>> motion.q[-1].round(6)  # it glides straight ahead
    array([2., 0., 0., 0.])

    Source: [Z] sections 5, 5.1; X_1 and X_2 as printed.
    """
    x, y, theta, psi = symbols("x y theta psi", real=True)
    m, l_1, l_2, I_1, I_2 = symbols("m l_1 l_2 I_1 I_2", positive=True)
    M = Matrix([[m, 0, 0, 0], [0, m, 0, 0], [0, 0, I_1 + I_2, I_2], [0, 0, I_2, I_2]])
    arm = l_2 + l_1 * cos(psi)
    forms = Matrix([[sin(theta), -cos(theta), 0, 0], [sin(theta + psi), -cos(theta + psi), -arm, -l_2]])
    f_1 = m * arm**2 + (I_1 + I_2) * sin(psi) ** 2
    forward, turn, steer = Matrix([cos(theta), sin(theta), 0, 0]), Matrix([0, 0, 1, 0]), Matrix([0, 0, 0, 1])
    X_1 = forward + sin(psi) / arm * turn
    along = (l_2 * I_1 - l_1 * I_2 * cos(psi)) * sin(psi) / f_1
    X_2 = along * forward - (m * l_2 * arm + I_2 * sin(psi) ** 2) / f_1 * turn + steer
    return SymbolicSystem(
        (x, y, theta, psi),
        M,
        basis=Matrix.hstack(X_1, X_2),
        forms=forms,
        inputs=steer.T,
        parameters={m: 1.0, l_1: 0.4, l_2: 0.15, I_1: 0.05, I_2: 0.004},
        name="roller racer",
    )
