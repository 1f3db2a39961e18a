"""LaTeX of symbolic results: equations of the entries that do not vanish, and of a whole system."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import sympy

from connections.symbolic.expressions import Simplifier, nonzero

if TYPE_CHECKING:
    from connections.symbolic.system import SymbolicSystem


def entries_latex(symbol: str, array: np.ndarray, upper: int = 1) -> str:
    r"""The nonvanishing entries as an aligned block, ``\\Gamma^{1}_{32} &= ...``; indices count from one.

    Parameters
    ----------
    symbol : LaTeX of the letter.
    array : expressions, simplified ones: an entry counts as vanishing when it is the number zero.
    upper : how many of the indices, the first ones, are written above.
    """
    lines = []
    for index, entry in nonzero(array).items():
        above, below = ("".join(str(i + 1) for i in part) for part in (index[:upper], index[upper:]))
        scripts = (f"^{{{above}}}" if above else "") + (f"_{{{below}}}" if below else "")
        lines.append(f"{symbol}{scripts} &= {sympy.latex(entry)}")
    return _aligned(lines or [f"{symbol} &= 0"])


def matrix_latex(symbol: str, array: np.ndarray) -> str:
    """A matrix (2-d array) or a column (1-d) as an aligned block of one equation."""
    return _aligned([f"{symbol} &= {sympy.latex(sympy.Matrix(array))}"])


def system_latex(system: SymbolicSystem, simplify: Simplifier | None) -> str:
    """Metric, frame, basis, forms, coefficients, inputs and equations of motion, one block below the other.

    Parameters
    ----------
    system : with or without constraints.
    simplify : as for every method of the system.
    """
    blocks = [matrix_latex("H", system.metric)]
    nq, n = system.frame.shape
    if nq != n or (system.frame != np.eye(n, dtype=int)).any():
        blocks.append(matrix_latex("X", system.frame))
    if system.constrained:
        blocks.append(matrix_latex("A", system.distribution))
    if system.forms is not None:
        blocks.append(matrix_latex("W", system.forms))
    letter = r"\tilde\Gamma" if system.constrained else r"\Gamma"
    blocks.append(entries_latex(letter, system.constrained_coefficients(simplify)))
    if system.inputs is not None:
        blocks.append(entries_latex("Y", system.input_coefficients(None, simplify)))
    q_dot, v_dot = system.equations_of_motion(simplify=simplify)
    blocks += [_rates_latex(system.coordinates, q_dot), _rates_latex(system.velocities(), v_dot)]
    return "\n\n".join(blocks)


def _rates_latex(symbols: Iterable[sympy.Symbol], rates: np.ndarray) -> str:
    pairs = zip(symbols, rates, strict=True)
    return _aligned([rf"\dot{{{sympy.latex(x)}}} &= {sympy.latex(rate)}" for x, rate in pairs])


def _aligned(lines: list[str]) -> str:
    body = " \\\\\n".join(lines)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"
