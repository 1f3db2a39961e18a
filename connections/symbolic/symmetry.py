"""Invariance of a symbolic system under a group action, and of its coefficients: Lemma 3.3 on expressions.

An action is given by the image Phi_g(q), whose entries are expressions of the coordinates and of further
symbols that parametrize the group. Source: [Z] section 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy

from connections._jax import ArrayLike
from connections.checks import ShapeError, require_type
from connections.symbolic.expressions import Simplifier, as_expressions, require_simplifier, simplified, tidy
from connections.symbolic.system import SymbolicSystem
from connections.symbolic.tensors import left_inverse


def invariance(
    system: SymbolicSystem, image: ArrayLike, simplify: Simplifier | None = tidy
) -> dict[str, np.ndarray]:
    """The residual of each object's invariance condition; all entries are zero if it is invariant.

    Parameters
    ----------
    system : coordinates and frame of equal number, nq = n.
    image : (nq,), Phi_g(q).
    simplify : applied to the residuals.

    Returns
    -------
    "metric", J^T G(Phi) J - G with J the derivative of Phi and G the metric in coordinates, (nq, nq);
    "basis", X_k(Phi) - J X_k, (nq, m), of the given or computed basis; if they exist, "forms" and "inputs",
    w(Phi) J - w, (p, nq); "coefficients", Gamma~(Phi) - Gamma~, (m, m, m), and "input_coefficients", (m, a):
    by Lemma 3.3 these two vanish if all others do.

    Raises
    ------
    ShapeError : the image has the wrong length, or the frame is not square.

    Examples
    --------
    >>> import sympy
    >>> from connections import symbolic
    >>> r, phi, a = sympy.symbols("r phi a")
    >>> plane = symbolic.SymbolicSystem((r, phi), sympy.diag(1, r**2))
    >>> turned = symbolic.invariance(plane, (r, phi + a))
    >>> bool(turned["metric"].any())
    False

    Source: [Z] section 3.3, Lemma 3.3.
    """
    require_type("system", system, SymbolicSystem)
    require_simplifier(simplify)
    nq, n = system.frame.shape
    if nq != n:
        raise ShapeError("frame of a system whose invariance is tested", (nq, nq), (nq, n))
    target = as_expressions("image", image, (nq,))
    J = np.array([[sympy.diff(entry, x) for x in system.coordinates] for entry in target], dtype=object)
    dual = left_inverse(system.frame)

    def moved(array: np.ndarray) -> np.ndarray:
        return _substituted(array, system.coordinates, target)

    G = dual.T @ system.metric @ dual
    residuals = {
        "metric": J.T @ moved(G) @ J - G,
        "basis": moved(system.fields) - J @ system.fields,
    }
    for name, forms in (("forms", system.forms), ("inputs", system.inputs)):
        if forms is not None:
            residuals[name] = moved(forms @ dual) @ J - forms @ dual
    coefficients = system.constrained_coefficients()
    residuals["coefficients"] = moved(coefficients) - coefficients
    if system.inputs is not None:
        Y = system.input_coefficients()
        residuals["input_coefficients"] = moved(Y) - Y
    return {name: simplified(array, simplify) for name, array in residuals.items()}


def _substituted(array: np.ndarray, coordinates: Sequence[sympy.Symbol], target: np.ndarray) -> np.ndarray:
    there = dict(zip(coordinates, target, strict=True))
    moved = [sympy.sympify(entry).xreplace(there) for entry in array.flat]
    return np.array(moved, dtype=object).reshape(array.shape)
