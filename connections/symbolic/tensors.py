"""Tensors of a frame and a metric given as matrices of expressions.

The fields are the columns of an (nq, n) matrix X in ambient coordinates. Index order as in the numeric
classes: ``df[i, ...] = L_{X_i} f``, ``s[k, i, j]``, ``Gamma[i, j, k]`` (middle index: the direction),
``R[l, k, i, j]``. All functions are exact; `inverse` alone simplifies. Source: [W] III; docs/conventions.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy

from connections.symbolic.expressions import simplified, tidy

HALF = sympy.Rational(1, 2)


def lie_derivative(f: np.ndarray, fields: np.ndarray, coordinates: Sequence[sympy.Symbol]) -> np.ndarray:
    """df[i, ...] = L_{X_i} f, (n, *shape of f): the derivative index first.

    Parameters
    ----------
    f : expressions of any shape.
    fields : (nq, n), the columns X_i in ambient coordinates.
    coordinates : the nq coordinates.
    """
    entries = np.asarray(f, dtype=object)
    partial = [[sympy.diff(entry, x) for entry in entries.flat] for x in coordinates]
    df: np.ndarray = fields.T @ np.array(partial, dtype=object).reshape(len(coordinates), -1)
    return df.reshape((fields.shape[1], *entries.shape))


def bracket(X: np.ndarray, Y: np.ndarray, coordinates: Sequence[sympy.Symbol]) -> np.ndarray:
    """The Lie bracket [X, Y]^a = X^b d_b Y^a - Y^b d_b X^a in ambient coordinates, (nq,).

    Parameters
    ----------
    X, Y : (nq,) fields in ambient coordinates.
    coordinates : the nq coordinates.
    """
    along_X, along_Y = lie_derivative(Y, X[:, None], coordinates), lie_derivative(X, Y[:, None], coordinates)
    commutator: np.ndarray = along_X[0] - along_Y[0]
    return commutator


def brackets(fields: np.ndarray, coordinates: Sequence[sympy.Symbol]) -> np.ndarray:
    """[X_i, X_j] of all pairs in ambient coordinates, (nq, n, n).

    Parameters
    ----------
    fields : (nq, n).
    coordinates : the nq coordinates.
    """
    dX = lie_derivative(fields, fields, coordinates)  # dX[i, a, j]
    pairs: np.ndarray = np.transpose(dX, (1, 0, 2)) - np.transpose(dX, (1, 2, 0))
    return pairs


def inverse(matrix: np.ndarray) -> np.ndarray:
    """The inverse of a square matrix of expressions, (n, n); entries are simplified before and after."""
    entries = sympy.Matrix(simplified(matrix, tidy))
    nodes = sorted(entries.atoms(sympy.Function), key=sympy.default_sort_key)
    there = {node: sympy.Dummy(f"f{k}") for k, node in enumerate(nodes)}  # rational functions invert quickly
    found = entries.xreplace(there).inv().xreplace({symbol: node for node, symbol in there.items()})
    return simplified(np.array(found.tolist(), dtype=object), tidy)


def left_inverse(fields: np.ndarray) -> np.ndarray:
    """X^+, (n, nq): maps ambient components of a vector in the span to components in the frame."""
    if fields.shape[0] == fields.shape[1]:
        return inverse(fields)
    X_plus: np.ndarray = inverse(fields.T @ fields) @ fields.T
    return X_plus


def structure_functions(fields: np.ndarray, coordinates: Sequence[sympy.Symbol]) -> np.ndarray:
    """s[k, i, j] of [X_i, X_j] = s^k_ij X_k, (n, n, n).

    Parameters
    ----------
    fields : (nq, n); the brackets of its columns must stay in their span.
    coordinates : the nq coordinates.
    """
    s: np.ndarray = np.einsum("ka,aij->kij", left_inverse(fields), brackets(fields, coordinates))
    return s


def christoffel_first_kind(H: np.ndarray, dH: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Gamma*_ijk of the Koszul formula in any frame, (n, n, n).

    2 Gamma*_ijk = L_k H_ij + L_j H_ik - L_i H_jk + s_kij + s_jik + s_ijk, s_kij = H_kl s^l_ij.

    Parameters
    ----------
    H : (n, n), the metric.
    dH : dH[k, i, j] = L_{X_k} H_ij.
    s : s[k, i, j].

    Source: [W] eq. (8).
    """
    s_low = np.einsum("kl,lij->kij", H, s)
    first, last = (1, 2, 0), (1, 0, 2)  # t[k, i, j] -> out[i, j, k];  t[j, i, k] -> out[i, j, k]
    metric_part = np.transpose(dH, first) + np.transpose(dH, last) - dH
    bracket_part = np.transpose(s_low, first) + np.transpose(s_low, last) + s_low
    symbols: np.ndarray = HALF * (metric_part + bracket_part)
    return symbols


def torsion(Gamma: np.ndarray, s: np.ndarray) -> np.ndarray:
    """T[i, j, k] = Gamma^i_jk - Gamma^i_kj - s^i_jk.

    Parameters
    ----------
    Gamma, s : (n, n, n), second kind.

    Source: [W] III-C.
    """
    T: np.ndarray = Gamma - np.swapaxes(Gamma, 1, 2) - s
    return T


def curvature(
    Gamma: np.ndarray, s: np.ndarray, fields: np.ndarray, coordinates: Sequence[sympy.Symbol]
) -> np.ndarray:
    """R[l, k, i, j] of R(X_i, X_j) X_k = R^l_kij X_l, (n, n, n, n).

    X_i Gamma^l_jk - X_j Gamma^l_ik + Gamma^l_im Gamma^m_jk - Gamma^l_jm Gamma^m_ik - s^m_ij Gamma^l_mk.

    Parameters
    ----------
    Gamma, s : (n, n, n), second kind.
    fields : (nq, n).
    coordinates : the nq coordinates.
    """
    dGamma = lie_derivative(Gamma, fields, coordinates)  # dGamma[i, l, j, k]
    half = np.transpose(dGamma, (1, 3, 0, 2)) + np.einsum("lim,mjk->lkij", Gamma, Gamma)
    R: np.ndarray = half - np.swapaxes(half, 2, 3) - np.einsum("mij,lmk->lkij", s, Gamma)
    return R


def covariant_derivative(Gamma: np.ndarray, dY: np.ndarray, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """(nabla_X Y)^i = X^j L_j Y^i + Gamma^i_jk X^j Y^k, (n,).

    Parameters
    ----------
    Gamma : (n, n, n), second kind.
    dY : dY[j, i] = L_{X_j} Y^i.
    X, Y : (n,) components; X is the direction.
    """
    derivative: np.ndarray = X @ dY + np.einsum("ijk,j,k->i", Gamma, X, Y)
    return derivative
