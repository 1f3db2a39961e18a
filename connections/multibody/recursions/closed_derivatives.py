"""Derivatives of the dynamics of closed chains: those of the spanning tree, lifted and projected.

With v_s = G v, a_s = G a + (L_v G) v and D_q, D_v, H_s the derivatives of the tree's tau_s at them,

    dtau/dq_j = G^T (D_q G_j + D_v (L_j G) v + H_s ((L_j G) a + L_j (L_v G) v)) + (L_j G)^T tau_s,
    dtau/dv_j = G^T (D_v G_j + H_s ((L_j G) v + (L_v G)_j)),    H = G^T H_s G.

Batches go row by row. Source: differentiation of tau = G^T tau_s, [W] VI-C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from connections.multibody.recursions.composition import Single, Steps

    Step = Callable[[Single, np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]


def inverse_dynamics_derivatives(
    do: Steps, q: np.ndarray, v: np.ndarray, a: np.ndarray, out: np.ndarray
) -> None:
    """dtau/dq, dtau/dv and H, (3, n, n), or rows of them."""
    _row_by_row(_inverse, do, q, v, a, out)


def forward_dynamics_derivatives(
    do: Steps, q: np.ndarray, v: np.ndarray, tau: np.ndarray, out: np.ndarray
) -> None:
    """da/dq, da/dv and H^-1, (3, n, n), or rows of them."""
    _row_by_row(_forward, do, q, v, tau, out)


def _inverse(do: Single, q: np.ndarray, v: np.ndarray, a: np.ndarray, out: np.ndarray) -> None:
    solution = do.solve(q)
    G, LG = do.dense(solution)
    v_s, a_s = do.lift(solution, v), do.rate(solution, v, v, a)
    D_q, D_v, H_s = do.tree("inverse_dynamics_derivatives", solution, v_s, a_s)
    tau_s = do.tree("inverse_dynamics", solution, v_s, a_s)
    turned, rate = LG @ v, LG @ a + do.turning(solution, v)  # [s, j]
    out[0] = G.T @ (D_q @ G + D_v @ turned + H_s @ rate) + np.einsum("sjk,s->kj", LG, tau_s)
    out[1] = G.T @ (D_v @ G + H_s @ (turned + np.einsum("sjk,j->sk", LG, v)))
    out[2] = G.T @ H_s @ G


def _forward(do: Single, q: np.ndarray, v: np.ndarray, tau: np.ndarray, out: np.ndarray) -> None:
    solution, bias, inverse = do.solve(q), np.empty(len(v)), np.empty((len(v),) * 2)
    v_s, a_s = do.lift(solution, v), do.rate(solution, v, v, None)
    do.project(solution, do.tree("inverse_dynamics", solution, v_s, a_s), bias)
    do.clusters("inverse_mass_matrix", do.argument(q), out=inverse)
    _inverse(do, solution, v, inverse @ (tau - bias), out)
    out[:2] = -inverse @ out[:2]
    out[2] = inverse


def _row_by_row(step: Step, do: Steps, q: np.ndarray, v: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    if v.ndim == 1:
        step(do.single, q, v, w, out)
        return
    n = v.shape[1]
    for row in range(len(q)):
        step(do.single, q[row], v[row], w[row], out[row].reshape(3, n, n))
