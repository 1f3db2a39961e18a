"""The derivatives of the spanning tree's inverse dynamics projected to those of a closed chain.

With D_q, D_v, H_s those of the tree at (q_s, v_s, a_s), tau_s its forces, T_j = L_j (L_v G) v,

    dtau/dq_j = G^T (D_q G_j + D_v (L_j G) v + H_s ((L_j G) a + T_j)) + (L_j G)^T tau_s,
    dtau/dv_j = G^T (D_v G_j + H_s ((L_j G) v + (L_v G)_j)),    H = G^T H_s G.

Solutions and `spans` are as in `lift`; T is laid out as G is in a solution. Of each spanning velocity only
the columns of its cluster are touched. Source: differentiation of tau = G^T tau_s, [W] VI-C.
"""

import numpy as np

from connections.multibody.recursions.lanes import inlined, one, rows
from connections.multibody.recursions.layout import is_current


@inlined
def _differentiate(spans, solution, v, a, T, moved):
    """For each entry of G: G, (L_j G) v, (L_j G) a + T_j, and (L_j G) v + (L_v G)_j, moved[:, entry]."""
    entry = 0
    for s in range(spans.shape[0]):
        first, count, G, LG = spans[s, 0], spans[s, 1], spans[s, 2], spans[s, 3]
        for j in range(count):
            along, across, rate = 0.0, 0.0, T[entry]
            for k in range(count):
                along += solution[LG + j * count + k] * v[first + k]
                across += solution[LG + k * count + j] * v[first + k]
                rate += solution[LG + j * count + k] * a[first + k]
            moved[0, entry], moved[1, entry], moved[2, entry] = solution[G + j], along, rate
            moved[3, entry] = along + across
            entry += 1


@inlined
def _project_derivatives(spans, n, solution, moved, tau_s, D, sums, out):
    """The three derivatives (3 n n,) from D (3 m m,), m the number of spanning velocities."""
    m, out[:] = spans.shape[0], 0.0
    for s in range(m):
        sums[:] = 0.0
        entry = 0
        for r in range(m):
            first, count, at = spans[r, 0], spans[r, 1], s * m + r
            D_q, D_v, H = D[at], D[m * m + at], D[2 * m * m + at]
            if D_q != 0.0 or D_v != 0.0 or H != 0.0:
                for j in range(count):
                    i = entry + j
                    sums[0, first + j] += D_q * moved[0, i] + D_v * moved[1, i] + H * moved[2, i]
                    sums[1, first + j] += D_v * moved[0, i] + H * moved[3, i]
                    sums[2, first + j] += H * moved[0, i]
            entry += count
        first, count, G, LG = spans[s, 0], spans[s, 1], spans[s, 2], spans[s, 3]
        for k in range(count):
            factor, row = solution[G + k], (first + k) * n
            if factor != 0.0:
                for part in range(3):
                    for j in range(n):
                        out[part * n * n + row + j] += factor * sums[part, j]
            for j in range(count):
                out[row + first + j] += solution[LG + j * count + k] * tau_s[s]


@one
def project_derivatives_at(memory, spans, n, solution, v, a, T, tau_s, D, out):
    """(3, n, n) of one configuration; whether all is well."""
    if not (is_current(memory) and out.shape == (3, n, n)):
        return False
    moved, sums = np.empty((4, T.shape[0])), np.empty((3, n))
    _differentiate(spans, solution, v, a, T, moved)
    _project_derivatives(spans, n, solution, moved, tau_s, D.reshape(D.size), sums, out.reshape(out.size))
    return True


@rows
def project_derivatives_rows(memory, spans, n, solution, v, a, T, tau_s, D, out):
    """Rows (m, 3 n n)."""
    moved, sums = np.empty((4, T.shape[1])), np.empty((3, n))
    for row in range(out.shape[0]):
        _differentiate(spans, solution[row], v[row], a[row], T[row], moved)
        _project_derivatives(spans, n, solution[row], moved, tau_s[row], D[row], sums, out[row])
    return is_current(memory)
