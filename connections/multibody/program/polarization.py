"""Tensors of closed chains from their quadratic forms, which recursions compute.

K_ik(v) = R_ijkl v^j v^l (`curvature_operator`), and M_ik(v) = v^j v^l L_l Gamma_ijk (`coriolis_matrix_rate`
without acceleration). With the symmetric bilinear forms K(u, w), M(u, w), by the first Bianchi identity

    R_ijkl = 2/3 (K_ki(X_l, X_j) - K_li(X_k, X_j)),

and with A_ijkl = L_k Gamma_ilj - Gamma_pki H^pq Gamma_qlj and R_ijkl = A_ijkl - A_ijlk - s^p_kl Gamma_ipj

    L_l Gamma_ijk = M_ik(X_j, X_l) + (L_l Gamma_ijk - L_j Gamma_ilk) / 2,

whose last term is known from R. This takes n (n + 1) / 2 calls of both recursions for each configuration. The
vectors have the lengths of unit kinetic energy, so that no component is lost in another's round-off.
The contorsion of the body-level factor (v x*) I is no quadratic form. It is that of the spanning tree, whose
velocities are G v. That of the least Gamma is Alt Gamma*, whose derivatives are those of Alt.
Source: [W] (8); polarization.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from connections.multibody.program.closed import SolvedLoops
from connections.multibody.program.solution_layout import Solution

POLARIZED = ("curvature", "christoffel_derivatives")


class PolarizedProgram(Protocol):
    """The part of a `Program` that is used here."""

    def evaluate(
        self, name: str, given: tuple[Any, ...], out: Any, chosen: tuple[Any, ...] = ()
    ) -> np.ndarray:
        """The recursion `name`."""

    @property
    def of_spanning_tree(self) -> PolarizedProgram:
        """The recursions of the spanning tree."""

    def solution(self, q: Any) -> Solution:
        """The solution of the loops."""


def polarized(
    program: PolarizedProgram, name: str, q: SolvedLoops, factor: str = "christoffel"
) -> np.ndarray:
    """``curvature`` or ``christoffel_derivatives``, (..., n, n, n, n).

    Parameters
    ----------
    program : the recursions of a closed chain.
    name : which of the two.
    q : configurations (...,).
    factor : the body-level factor of ``christoffel_derivatives``.

    Raises
    ------
    The errors of `Program.evaluate`.
    """
    H = program.evaluate("mass_matrix", (q,), None)
    # H_ii <= 0 is refused by the recursions, because H is singular then.
    sizes = 1.0 / np.sqrt(np.maximum(np.einsum("...ii->...i", H), np.finfo(float).tiny))
    K = _bilinear(program, "curvature_operator", q, sizes)
    R: np.ndarray = (2.0 / 3.0) * (np.einsum("...ljki->...ijkl", K) - np.einsum("...kjli->...ijkl", K))
    if name == "curvature":
        return R
    M = _bilinear(program, "coriolis_matrix_rate", q, sizes)
    Gamma = program.evaluate("christoffel_symbols", (q,), None, ("christoffel",))
    s = _solved(H, Gamma - np.swapaxes(Gamma, -1, -2))
    products = np.einsum("...pki,...plj->...kilj", Gamma, _solved(H, Gamma))
    # L_k Gamma_ilj - L_l Gamma_ikj
    change = R + np.einsum("...kilj->...ijkl", products) - np.einsum("...likj->...ijkl", products)
    change += np.einsum("...pkl,...ipj->...ijkl", s, Gamma)
    result: np.ndarray = np.einsum("...jlik->...ijkl", M) + np.einsum("...iklj->...ijkl", change) / 2.0
    if factor == "least":
        result = result - _alternating(result)
    elif factor != "christoffel":
        result = result - _contorsion_change(program, q)
    return result


def _alternating(low: np.ndarray) -> np.ndarray:
    """Alt of a tensor (..., n, n, n, n) in its first three indices."""
    s = low - np.swapaxes(low, -2, -3)
    found: np.ndarray = (s + np.einsum("...jkil->...ijkl", s) + np.einsum("...kijl->...ijkl", s)) / 6.0
    return found


def _contorsion_change(program: PolarizedProgram, q: SolvedLoops) -> np.ndarray:
    """L_l D_ijk (..., n, n, n, n), D_ijk = D_abc G_ai G_bj G_ck of the spanning tree."""
    tree, solution = program.of_spanning_tree, program.solution(q)
    n = solution.G.shape[-1]
    result = np.empty((*solution.q.shape[:-1], n, n, n, n))
    for place in np.ndindex(solution.q.shape[:-1]):  # the spanning tree may have many more velocities
        q_s, G, LG = (part[place] for part in solution)
        D, change = (
            tree.evaluate(each, (q_s,), None, ("christoffel",))
            - tree.evaluate(each, (q_s,), None, ("force_cross",))
            for each in ("christoffel_symbols", "christoffel_derivatives")
        )
        for _ in range(4):  # the first axis is replaced, and becomes the last one
            change = np.tensordot(change, G, (0, 0))
        moved = np.einsum("abc,ali,bj,ck->ijkl", D, LG, G, G, optimize=True)
        result[place] = change + moved + np.einsum("jkil->ijkl", moved) + np.einsum("kijl->ijkl", moved)
    return result


def _bilinear(program: PolarizedProgram, name: str, q: SolvedLoops, sizes: np.ndarray) -> np.ndarray:
    """[a, b, i, k] of the form (i, k) that is bilinear in the frame fields a and b, (..., n, n, n, n)."""
    n = sizes.shape[-1]
    rows, columns = np.triu_indices(n)
    unit = np.eye(n)
    v = np.where(rows == columns, 0.5, 1.0)[:, None] * (unit[rows] + unit[columns]) * sizes[..., None, :]
    if name == "curvature_operator":
        values = program.evaluate(name, (q[..., None], v), None)
    else:
        values = program.evaluate(name, (q[..., None], v, np.zeros(n)), None, ("christoffel",))
    form = np.empty((*values.shape[:-3], n, n, n, n))
    form[..., rows, columns, :, :] = form[..., columns, rows, :, :] = values
    squares = np.einsum("...aaik->...aik", form).copy()
    form = (form - squares[..., :, None, :, :] - squares[..., None, :, :, :]) / 2.0
    np.einsum("...aaik->...aik", form)[...] = squares
    scale: np.ndarray = sizes[..., :, None] * sizes[..., None, :]
    result: np.ndarray = form / scale[..., None, None]
    return result


def _solved(H: np.ndarray, low: np.ndarray) -> np.ndarray:
    """H^-1 times a tensor (..., n, n, n) of lower indices, in its first index."""
    flat = low.reshape(*low.shape[:-2], -1)
    return np.linalg.solve(H, flat).reshape(low.shape)
