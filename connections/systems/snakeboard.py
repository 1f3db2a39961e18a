"""The snakeboard: a board with two steerable wheel pairs and a rotor, moved only by rotor and wheels.

Coordinates: x, y of the centre of mass, theta of the board, psi of the rotor relative to the board, phi of
the back wheels relative to it, minus phi that of the front wheels. Source: [Z] section 4.
"""

from __future__ import annotations

from sympy import Matrix, cos, sin, symbols

from connections.symbolic.system import SymbolicSystem


def snakeboard() -> SymbolicSystem:
    """The snakeboard with [Z]'s orthogonal basis X_1, X_2, X_3, its wheels' forms, torques on psi and phi.

    Returns
    -------
    System with parameters m total mass 6 kg; l half the distance of the wheel pairs 0.2 m; J_r inertia of the
    rotor 0.072 kg m^2, less than m l^2, the inertia of everything about the centre; J_w inertia of both wheel
    pairs 0.0012 kg m^2.

    The basis is regular everywhere. The constraints are not: at cos phi = 0 both wheel pairs stand across the
    board and the two forms are dependent.

    Examples
    --------
    >>> from connections import systems
    >>> board = systems.snakeboard()
    >>> board.constrained_coefficients()[0, 2, 1]  # how rotor and wheels, turned together, drive it
    J_r*cos(phi)/(l**2*m)
    >>> board.numeric(parameters={"m": 5.0}).frame.dim
    3

    Source: [Z] sections 4, 4.1; the printed inertia matrix, with m l^2 in the place of theta.
    """
    x, y, theta, psi, phi = symbols("x y theta psi phi", real=True)
    m, l, J_r, J_w = symbols("m l J_r J_w", positive=True)  # noqa: E741
    M = Matrix(
        [
            [m, 0, 0, 0, 0],
            [0, m, 0, 0, 0],
            [0, 0, m * l**2, J_r, 0],
            [0, 0, J_r, J_r, 0],
            [0, 0, 0, 0, J_w],
        ]
    )
    forms = Matrix(
        [
            [sin(phi - theta), cos(phi - theta), l * cos(phi), 0, 0],
            [-sin(phi + theta), cos(phi + theta), -l * cos(phi), 0, 0],
        ]
    )
    forward = Matrix([cos(theta), sin(theta), 0, 0, 0])  # V_x
    turn, rotor, steer = (Matrix(5, 1, lambda i, _, k=k: int(i == k)) for k in (2, 3, 4))
    X_1 = l * cos(phi) * forward - sin(phi) * turn
    X_2 = J_r / (m * l) * cos(phi) * sin(phi) * forward - J_r / (m * l**2) * sin(phi) ** 2 * turn + rotor
    return SymbolicSystem(
        (x, y, theta, psi, phi),
        M,
        basis=Matrix.hstack(X_1, X_2, steer),
        forms=forms,
        inputs=Matrix.hstack(rotor, steer).T,
        parameters={m: 6.0, l: 0.2, J_r: 0.072, J_w: 0.0012},
        name="snakeboard",
    )
