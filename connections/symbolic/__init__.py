"""Symbolic: metric, frame and constraints as matrices of SymPy expressions, results as closed forms.

The definitions are those of the numeric rooms, on expressions; `SymbolicSystem.numeric` makes the numeric
system. Only this room and `connections.systems` import SymPy.
"""

from connections.symbolic.expressions import as_expressions, nonzero, simplified, tidy, vanishes
from connections.symbolic.latex import entries_latex, matrix_latex
from connections.symbolic.symmetry import invariance
from connections.symbolic.system import SymbolicSystem
from connections.symbolic.trees import PlanarLink, PlanarTree, planar_binary_tree, planar_chain

__all__ = [
    "PlanarLink",
    "PlanarTree",
    "SymbolicSystem",
    "as_expressions",
    "entries_latex",
    "invariance",
    "matrix_latex",
    "nonzero",
    "planar_binary_tree",
    "planar_chain",
    "simplified",
    "tidy",
    "vanishes",
]
