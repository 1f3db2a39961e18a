"""LaTeX of symbolic results: equations of the entries that do not vanish, of matrices and of rates."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import sympy

from connections.symbolic.expressions import nonzero


def entries_latex(symbol: str, array: np.ndarray, upper: int = 1) -> str:
    r"""The nonvanishing entries as an aligned block, ``\\Gamma^{1}_{32} &= ...``; indices count from one.

    Parameters
    ----------
    symbol : LaTeX of the letter.
    array : simplified expressions: an entry counts as vanishing if it is the number zero.
    upper : number of upper indices, which come first.
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


def rates_latex(symbols: Iterable[sympy.Symbol], rates: np.ndarray) -> str:
    """The rates of symbols as an aligned block, the symbols with dots on the left."""
    pairs = zip(symbols, rates, strict=True)
    return _aligned([rf"\dot{{{sympy.latex(x)}}} &= {sympy.latex(rate)}" for x, rate in pairs])


def _aligned(lines: list[str]) -> str:
    body = " \\\\\n".join(lines)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"
