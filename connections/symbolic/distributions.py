"""Constrained connections on expressions: Theorem 3.2, Lemma 3.1, projections, bases, curvature.

A distribution is given by the columns of A (n, m) in the frame X, its basis fields are E = X A (nq, m); the
one-forms that vanish on it are the rows of W (p, n). H is the metric, Gamma its Levi-Civita coefficients in
the frame X, both as object arrays. Nothing here simplifies except where a zero must be found. Source: [Z]
section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sympy

from connections.checks import FrameError
from connections.symbolic.expressions import tidy, vanishes
from connections.symbolic.tensors import inverse, lie_derivative


def gram(H: np.ndarray, A: np.ndarray) -> np.ndarray:
    """A^T H A, (m, m): inner products of the basis fields."""
    G: np.ndarray = A.T @ H @ A
    return G


def components(H: np.ndarray, A: np.ndarray) -> np.ndarray:
    """(A^T H A)^-1 A^T H, (m, n): maps a vector to the components of its orthogonal projection."""
    found: np.ndarray = inverse(gram(H, A)) @ A.T @ H
    return found


def null_basis(W: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """A (n, n - p) with W A = 0, and the p velocities for which the forms are solved.

    These are the first velocities with columns of W that are independent at a generic point. A is singular
    where these columns are dependent. Each of the other velocities is one in one field and zero in the
    others, in their order.
    """
    reduced, solved = sympy.Matrix(W).rref(simplify=tidy, iszerofunc=vanishes)
    free = [k for k in range(W.shape[1]) if k not in solved]
    A = np.full((W.shape[1], len(free)), sympy.S.Zero, dtype=object)
    A[free] = identity(len(free))
    for row, k in enumerate(solved):
        A[k] = [-reduced[row, column] for column in free]
    return A, solved


def orthogonalized(H: np.ndarray, A: np.ndarray, unit: Mapping[int, int] | None = None) -> np.ndarray:
    """The basis made orthogonal in the metric, (n, m): X_k - sum_l <<X_k, X_l>> X_l / |X_l|^2, l < k.

    Parameters
    ----------
    H : (n, n).
    A : (n, m).
    unit : {k: component}: field k is rescaled so that this component is one.

    Source: [Z] eq. (9).
    """
    fields: list[np.ndarray] = []
    for column in A.T:
        field = column
        for other in fields:
            field = field - (column @ H @ other) / (other @ H @ other) * other
        fields.append(np.array([tidy(entry) for entry in field], dtype=object))
    for k, component in (unit or {}).items():
        fields[k] = fields[k] / fields[k][component]
    return np.stack(fields, axis=1)


def projection_of_basis(H: np.ndarray, A: np.ndarray) -> np.ndarray:
    """P = A (A^T H A)^-1 A^T H, (n, n)."""
    P: np.ndarray = A @ components(H, A)
    return P


def projection_of_forms(H: np.ndarray, W: np.ndarray) -> np.ndarray:
    """P = 1 - H^-1 W^T (W H^-1 W^T)^-1 W, (n, n), without a basis."""
    raised = inverse(H) @ W.T
    P: np.ndarray = identity(len(H)) - raised @ inverse(W @ raised) @ W
    return P


def first_kind(
    H: np.ndarray, Gamma: np.ndarray, A: np.ndarray, E: np.ndarray, coordinates: Sequence[sympy.Symbol]
) -> np.ndarray:
    """<<X_i, nabla_{X_j} X_k>>, (m, m, m), X_i the basis fields, nabla the metric's connection.

    Parameters
    ----------
    H : (n, n).
    Gamma : (n, n, n), second kind.
    A, E : (n, m) and (nq, m).
    coordinates : the nq coordinates.
    """
    turning = np.einsum("abc,bj,ck->ajk", Gamma, A, A)
    moving = np.transpose(lie_derivative(A, E, coordinates), (1, 0, 2))  # [a, j, k] = L_{X_j} A^a_k
    low: np.ndarray = np.einsum("ia,ajk->ijk", A.T @ H, turning + moving)
    return low


def raised_by_norms(G: np.ndarray, low: np.ndarray) -> np.ndarray:
    """low_k / |X_k|^2, for an orthogonal basis.

    Parameters
    ----------
    G : (m, m), the Gram matrix.
    low : (m, ...).

    Raises
    ------
    FrameError : two fields are not orthogonal.

    Source: [Z] Theorem 3.2.
    """
    for (i, j), product in np.ndenumerate(G):
        if i < j and not vanishes(product):
            what = f"X_{i} and X_{j} are not orthogonal: <<X_{i}, X_{j}>> = {tidy(product)}"
            raise FrameError(f"Theorem 3.2 divides by norms and needs an orthogonal basis; {what}")
    norms = np.array([G[k, k] for k in range(len(G))], dtype=object)
    high: np.ndarray = low / norms.reshape((-1,) + (1,) * (low.ndim - 1))
    return high


def raised(G: np.ndarray, low: np.ndarray) -> np.ndarray:
    """G^-1 applied to the first index of `low` (m, ...)."""
    return np.tensordot(inverse(G), low, 1)


def full_coefficients(Gamma: np.ndarray, P_perp: np.ndarray, dP_perp: np.ndarray) -> np.ndarray:
    """Coefficients on TQ of nabla_X Y + (nabla_X P_perp)(Y), (n, n, n).

    Gamma^i_jk + L_j P_perp^i_k + Gamma^i_jl P_perp^l_k - P_perp^i_l Gamma^l_jk.

    Parameters
    ----------
    Gamma : (n, n, n), second kind, Levi-Civita.
    P_perp : (n, n), the orthogonal projection onto the complement.
    dP_perp : dP_perp[j, i, k] = L_{X_j} P_perp^i_k.

    Source: [Z] Lemma 3.1, eq. (6).
    """
    turned = np.einsum("ijl,lk->ijk", Gamma, P_perp) - np.einsum("il,ljk->ijk", P_perp, Gamma)
    full: np.ndarray = Gamma + np.transpose(dP_perp, (1, 0, 2)) + turned
    return full


def brackets_in_frame(s: np.ndarray, A: np.ndarray, dA: np.ndarray) -> np.ndarray:
    """[X_i, X_j] of the basis fields, components in the frame, (n, m, m).

    Parameters
    ----------
    s : (n, n, n), structure functions of the frame.
    A : (n, m).
    dA : dA[i, a, j] = L_{X_i} A^a_j along the basis fields.
    """
    along = np.transpose(dA, (1, 0, 2))
    brackets: np.ndarray = along - np.swapaxes(along, 1, 2) + np.einsum("abc,bi,cj->aij", s, A, A)
    return brackets


def curvature_terms(
    Gamma: np.ndarray, A: np.ndarray, dA: np.ndarray, s: np.ndarray, N: np.ndarray, dN: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """nabla_{N_ij} X_k and [N_ij, X_k], N_ij = (1 - P)[X_i, X_j]; each (n, m, m, m) as [a, k, i, j].

    From the curvature with the projected bracket, subtracting P nabla_{N_ij} X_k gives the curvature of the
    full connection; subtracting P [N_ij, X_k] gives Schouten's.

    Parameters
    ----------
    Gamma : (n, n, n), second kind, of the metric's connection in the frame.
    A : (n, m).
    dA : dA[b, a, k] = L_b A^a_k along the frame fields.
    s : (n, n, n), structure functions of the frame.
    N : N[a, i, j], (n, m, m).
    dN : dN[k, a, i, j] = L_{X_k} N^a_ij along the basis fields.
    """
    moving = np.einsum("bij,bak->akij", N, dA)
    derivative = moving + np.einsum("abc,bij,ck->akij", Gamma, N, A)
    lie = moving - np.transpose(dN, (1, 0, 2, 3)) + np.einsum("abc,bij,ck->akij", s, N, A)
    return derivative, lie


def identity(n: int) -> np.ndarray:
    """The identity as an object array of exact integers, (n, n)."""
    return np.array(sympy.eye(n).tolist(), dtype=object)
