r"""LaTeX of symbolic results: equations of the entries that do not vanish, of matrices and of rates.

Entries that the symmetry of an array makes equal, or opposite, share a line: those that differ by the order
of the last two indices, as $\Gamma^k_{ij} = \Gamma^k_{ji}$ without torsion in coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import sympy

from connections._words import words_of
from connections.checks import ShapeError, is_whole, require_text
from connections.symbolic.expressions import Simplifier, as_expressions, nonzero, simplified, tidy


def entries_latex(
    symbol: str, array: np.ndarray, upper: int, *, simplify: Simplifier | None = tidy, first: int = 0
) -> str:
    r"""The nonvanishing entries as an aligned block, ``\Gamma^{0}_{12} = \Gamma^{0}_{21} &= ...``.

    Entries that differ by the order of the last two indices, both lower, have one line if they are equal or
    opposite.

    Parameters
    ----------
    symbol : LaTeX of the letter.
    array : expressions.
    upper : number of upper indices, which come first in the array: 1 for coefficients, which are of the
        second kind, 0 for Christoffel symbols of the first kind and for D.
    simplify : applied to every entry: `tidy`, any function of one expression, or None; an entry counts as
        vanishing if the result is the number zero.
    first : what the first index is called: 0, as in the array, or 1, as papers count.

    Raises
    ------
    ValueError : the array has fewer axes than upper indices, or `first` is neither 0 nor 1.

    Examples
    --------
    >>> import sympy
    >>> from connections.symbolic import SymbolicSystem, entries_latex
    >>> r, phi = sympy.symbols("r phi", positive=True)
    >>> plane = SymbolicSystem((r, phi), sympy.diag(1, r**2))  # polar coordinates
    >>> print(entries_latex("\\Gamma", plane.coefficients(), 1))
    \begin{aligned}
    \Gamma^{0}_{11} &= - r \\
    \Gamma^{1}_{01} = \Gamma^{1}_{10} &= \frac{1}{r}
    \end{aligned}
    """
    require_text("symbol", symbol)
    array = as_expressions("array", array, None)
    if not is_whole(upper):
        raise TypeError(f"upper: expected an integer, got {words_of(upper)}")
    if not 0 <= upper <= np.ndim(array):
        raise ValueError(f"upper: expected 0 to {np.ndim(array)}, the number of indices; got {upper!r}")
    if not is_whole(first) or first not in (0, 1):
        raise ValueError(f"first: expected 0, as in arrays, or 1, as in papers; got {first!r}")
    entries = nonzero(simplified(array, simplify))
    lines, named = [], set()
    for index, entry in entries.items():
        if index in named:
            continue
        left = _named(symbol, index, upper, first)
        twin = (*index[:-2], *reversed(index[-2:]))
        if len(index) - upper >= 2 and twin != index and entries.get(twin) in (entry, -entry):
            named.add(twin)
            left += f" = {'-' * (entries[twin] != entry)}{_named(symbol, twin, upper, first)}"
        lines.append(f"{left} &= {sympy.latex(entry)}")
    return _aligned(lines or [f"{symbol} &= 0"])


def matrix_latex(symbol: str, array: np.ndarray) -> str:
    r"""A matrix (2-d array) or a column (1-d) as an aligned block of one equation.

    Examples
    --------
    >>> import sympy
    >>> from connections import symbolic
    >>> r = sympy.Symbol("r")
    >>> H = symbolic.as_expressions("H", [[1, 0], [0, r**2]], None)
    >>> print(symbolic.matrix_latex("H", H))
    \begin{aligned}
    H &= \left[\begin{matrix}1 & 0\\0 & r^{2}\end{matrix}\right]
    \end{aligned}
    """
    require_text("symbol", symbol)
    array = as_expressions("array", array, None)
    if array.ndim not in (1, 2):
        raise ShapeError("array", "(n,) or (n, m)", array.shape)
    return _aligned([f"{symbol} &= {sympy.latex(sympy.Matrix(array))}"])


def rates_latex(symbols: Iterable[sympy.Symbol], rates: np.ndarray) -> str:
    """The rates of symbols as an aligned block, the symbols with dots on the left."""
    pairs = zip(symbols, rates, strict=True)
    return _aligned([rf"\dot{{{sympy.latex(x)}}} &= {sympy.latex(rate)}" for x, rate in pairs])


def _named(symbol: str, index: tuple[int, ...], upper: int, first: int) -> str:
    """The letter with its indices; a comma keeps indices of two digits apart."""
    comma = "," if any(i + first > 9 for i in index) else ""
    above, below = (comma.join(str(i + first) for i in part) for part in (index[:upper], index[upper:]))
    return symbol + (f"^{{{above}}}" if above else "") + (f"_{{{below}}}" if below else "")


def _aligned(lines: list[str]) -> str:
    body = " \\\\\n".join(lines)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"
