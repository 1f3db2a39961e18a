"""The snakeboard in closed form: every formula of [Z] sections 4 and 6, then the same system in numbers.

The wheels' constraints and [Z]'s start X_1, d/dpsi, d/dphi give an orthogonal basis, the Christoffel symbols,
how the torques act, the equations of motion, symmetric products and brackets. Then one run in numbers, which
keeps the energy. The formulas are written as LaTeX to snakeboard.tex.
Run: python examples/snakeboard_symbolic.py [directory]
"""

import sys
from pathlib import Path

import numpy as np
from sympy import Matrix, cos, eye, sin, symbols

from connections import systems
from connections.symbolic import nonzero, tidy, vanishes


def print_entries(title, letter, array):
    print(title)
    for index, entry in nonzero(array).items():
        print(f"  {letter}[{', '.join(str(i + 1) for i in index)}] = {entry}")


def main():
    board = systems.snakeboard()
    x, y, theta, psi, phi = board.coordinates
    m, l, J_r, J_w = board.parameters  # noqa: E741
    turn, rotor, steer = (eye(5)[:, k] for k in (2, 3, 4))
    forward = Matrix([cos(theta), sin(theta), 0, 0, 0])
    start = board.with_basis(Matrix.hstack(l * cos(phi) * forward - sin(phi) * turn, rotor, steer))
    print_entries("inner products of the start, not orthogonal", "G", start.reduced_metric())

    orthogonal = board.with_basis(start.orthogonal_basis())
    assert all(vanishes(entry) for entry in (orthogonal.basis - board.basis).flat)  # [Z]'s X_1, X_2, X_3
    print_entries("inner products of the orthogonal basis", "G", board.reduced_metric())
    print_entries(
        "Christoffel symbols: k, then direction, then field", "Gamma", board.constrained_coefficients()
    )
    print_entries("torques", "Y", board.input_coefficients())
    _, rates = board.equations_of_motion(symbols("v psidot phidot"), symbols("u_psi u_phi"))
    print("equations of motion")
    for name, rate in zip(("vdot", "psiddot", "phiddot"), rates, strict=True):
        print(f"  {name} = {rate}")

    e, E = np.eye(3, dtype=int), board.fields
    mixed = board.symmetric_product(e[1], e[2])
    first = board.bracket(E[:, 0], E[:, 2])
    second = board.bracket(E[:, 0], first)
    determinant = tidy(Matrix(np.column_stack([E, first, second])).det())
    print(f"controllability: <X_2 : X_3> = {list(mixed)} in the basis;")
    print(f"  det(X_1, X_2, X_3, [X_1, X_3], [X_1, [X_1, X_3]]) = {determinant}")
    assert determinant == l**2

    numeric = board.numeric()
    times = np.linspace(0.0, 10.0, 101)
    q, v = numeric.simulate([0, 0, 0, 0, 0.2], [5.0, 1.0, 0.1], times)
    energy = np.asarray(numeric.energy(q, v))
    drift = np.abs(energy / energy[0] - 1).max()
    distance = np.hypot(*(q[-1, :2] - q[0, :2]))
    print(f"numbers: {distance:.2f} m in 10 s without torques, energy changes by {drift:.0e} of it")
    assert drift < 1e-8

    path = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "snakeboard.tex"
    body = "\n\n".join(f"\\[{block}\\]" for block in board.latex().split("\n\n"))
    path.write_text(
        f"\\documentclass{{article}}\n\\usepackage{{amsmath}}\n\\begin{{document}}\n{body}\n\\end{{document}}\n"
    )
    print(path)


if __name__ == "__main__":
    main()
