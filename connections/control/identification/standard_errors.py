"""Standard errors of a least squares estimate whose residuals are correlated in time by a filter.

With A = Q R, theta = R^-1 Q^T y, so the spread of R theta is that of sum_t Q_t^T e_t, e the noise. A low pass
of first order correlates e by exp(-rate s); the squares of sums over blocks of time contain all products
within a block. Of B time constants in each, the share 1 / B is lost where blocks meet. Residuals of a block
are less than its noise, because the fit follows them: for white noise of equal size their covariance is
1 - Q_b Q_b^T, which is undone,

    R C R^T = B / (B - 1) sum_b g_b g_b^T,      g_b = (1 - Q_b^T Q_b)^(-1/2) Q_b^T r_b.

Source: Liang and Zeger 1986 for sums over blocks; Bell and McCaffrey 2002 for the root.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

BLOCK = 10.0  # B, time constants of the filter
_ALONE = 1e-8  # what other blocks leave of a direction that one block determines


def standard_errors(A: np.ndarray, residuals: np.ndarray, t: np.ndarray, rate: float) -> np.ndarray:
    """Square roots of the diagonal of C, (p,); infinite if one block alone determines a combination.

    Parameters
    ----------
    A : (T, n, p) of full rank.
    residuals : (T, n).
    t : (T,) increasing, s.
    rate : of the filter, 1/s.
    """
    Q, R = np.linalg.qr(A.reshape(-1, A.shape[-1]))
    starts = np.unique(np.searchsorted(t, np.arange(t[0], t[-1], BLOCK / rate))) * A.shape[1]
    sums = np.add.reduceat(Q * residuals.reshape(-1, 1), starts)
    shares = np.stack([part.T @ part for part in np.split(Q, starts[1:])])
    left, axes = np.linalg.eigh(np.eye(len(R)) - shares)
    if left.min() < _ALONE:
        return np.full(len(R), np.inf)
    scaled = np.einsum("bij,bi->bj", axes, sums) / np.sqrt(left)
    changes = solve_triangular(R, np.einsum("bij,bj->ib", axes, scaled))
    errors: np.ndarray = np.sqrt(BLOCK / (BLOCK - 1.0) * np.sum(changes**2, axis=1))
    return errors
