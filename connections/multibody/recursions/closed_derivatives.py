"""Derivatives of the dynamics of closed chains: those of the spanning tree, lifted and projected.

With v_s = G v, a_s = G a + (L_v G) v and D_q, D_v, H_s the derivatives of the tree's tau_s at them,

    dtau/dq_j = G^T (D_q G_j + D_v (L_j G) v + H_s ((L_j G) a + L_j (L_v G) v)) + (L_j G)^T tau_s,
    dtau/dv_j = G^T (D_v G_j + H_s ((L_j G) v + (L_v G)_j)),    H = G^T H_s G,

and da = -H^-1 dtau at the acceleration of the forward dynamics. The same text serves one configuration and
rows of them. Source: differentiation of tau = G^T tau_s, [W] VI-C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from connections.multibody.recursions.closed_definition import Refused

if TYPE_CHECKING:
    from connections.multibody.recursions.composition import Steps


def inverse_dynamics_derivatives(
    do: Steps, q: np.ndarray, v: np.ndarray, a: np.ndarray, out: np.ndarray
) -> None:
    """dtau/dq, dtau/dv and H, (3, n, n), or rows (m, 3 n n) of them."""
    _differentiate(do, do.solve(q), v, a, out)


def forward_dynamics_derivatives(
    do: Steps, q: np.ndarray, v: np.ndarray, tau: np.ndarray, out: np.ndarray
) -> None:
    """da/dq, da/dv and H^-1, (3, n, n), or rows (m, 3 n n) of them."""
    solution = do.solve(q)
    v_s, a_s = do.lift(solution, v), do.drift(solution, v, v)
    if tau.shape != v.shape:  # NumPy, below, would broadcast it
        raise Refused
    bias, n = np.empty(v.shape), v.shape[-1]
    do.project(solution, do.tree("inverse_dynamics", solution, v_s, a_s), bias)
    inverse = np.empty((n, n) if v.ndim == 1 else (len(v), n * n))
    do.clusters("inverse_mass_matrix", solution, out=inverse)
    square = inverse.reshape(*v.shape, n)
    a = (square @ (tau - bias)[..., None])[..., 0]
    _differentiate(do, solution, v, a, out)
    parts = out.reshape(*v.shape[:-1], 3, n, n)
    parts[..., :2, :, :] = -square[..., None, :, :] @ parts[..., :2, :, :]
    parts[..., 2, :, :] = square


def _differentiate(do: Steps, solution: np.ndarray, v: np.ndarray, a: np.ndarray, out: np.ndarray) -> None:
    """Those of the inverse dynamics, at a solution."""
    v_s, a_s = do.lift(solution, v), do.rate(solution, v, v, a)
    tau_s = do.tree("inverse_dynamics", solution, v_s, a_s)
    derivatives = do.tree("inverse_dynamics_derivatives", solution, v_s, a_s)
    motion = v, a, do.turning(solution, v)
    do.project_derivatives(solution, motion, (tau_s, derivatives), out)
