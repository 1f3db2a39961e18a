"""Linear equations for inertial parameters: units, base parameters, least squares.

The unknowns are x in theta = start + units x; the first are the ten parameters of each body, others may
follow (`further_unknowns`). Source: Gautier 1991 for base parameters.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, solve_triangular

RANK = 1e-8  # singular values of W below this share of the largest count as zero; columns in units of a kind


def units_of(W: np.ndarray, further: np.ndarray | None = None) -> np.ndarray:
    """(..., p) a unit for every unknown: for masses, moments, inertias, and each kind of further unknowns.

    Columns of one kind have one unit, in which the largest has norm one. Each column in a unit of its own
    would make the round-off in columns that vanish as large as the others. W is (..., T, nv, p); `further`
    has the kinds of the last columns, counted from 0.
    """
    norms = np.sqrt(np.sum(W**2, axis=(-3, -2)))
    further = np.zeros(0, dtype=int) if further is None else further
    bodies = (norms.shape[-1] - len(further)) // 10
    kinds = np.concatenate([np.tile([0, 1, 1, 1, 2, 2, 2, 2, 2, 2], bodies), 3 + further])
    largest = np.stack(
        [np.max(norms[..., kinds == kind], axis=-1, initial=0.0) for kind in range(np.max(kinds) + 1)], -1
    )
    if not largest.any():
        raise ValueError("q, v: the recording has neither motion nor weight: it determines no parameter")
    units: np.ndarray = (1.0 / np.where(largest > 0.0, largest, 1.0))[..., kinds]
    return units


def sizes_of(W: np.ndarray, units: np.ndarray) -> np.ndarray:
    """(..., nv) rms of the coefficients of each velocity's equations, in these units; one if all are zero."""
    sizes: np.ndarray = np.sqrt(np.mean((W * units[..., None, None, :]) ** 2, axis=(-3, -1)))
    return np.where(sizes > 0.0, sizes, 1.0)


def triangle_of(
    W: np.ndarray, y: np.ndarray, start: np.ndarray, units: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """R (p, p) and c (p,): |W theta - y|^2 is |R x - c|^2 and a constant."""
    equations = np.concatenate([W * units, (y - W @ start)[..., None]], axis=-1)
    p = len(start)
    triangle = np.asarray(np.linalg.qr(equations.reshape(-1, p + 1), mode="r"))
    return triangle[:p, :p], triangle[:p, p]


def nearest(R: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The least squares solution x of the smallest norm."""
    x: np.ndarray = np.linalg.lstsq(R, c, rcond=RANK)[0]
    return x


def base_of(R: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """B (rank, p), the numbers of its independent parameters, and the condition of R."""
    singular = np.linalg.svd(R, compute_uv=False)
    rank = int(np.sum(singular > RANK * singular[0]))
    pivoted, order = qr(R, mode="r", pivoting=True)
    own, others = order[:rank], order[rank:]
    B = np.zeros((rank, len(R)))
    B[:, own] = np.eye(rank)
    B[:, others] = solve_triangular(pivoted[:rank, :rank], pivoted[:rank, rank:])
    B[np.abs(B) < RANK] = 0.0
    rows = np.argsort(own)
    B, own = (B * units[own, None] / units)[rows], own[rows]
    return B, own, float(singular[0] / singular[rank - 1])


def dependence(E: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which columns of E (m, n) are combinations of those before them, (n,) booleans, and of which, (n, n).

    Row k of the second array has the coefficients of column k; it is zero if column k is independent. A
    column of norm 1e-8 or less counts as zero.
    """
    triangle = np.asarray(np.linalg.qr(E, mode="r"))
    kept: list[int] = []
    dependent, coefficients = np.zeros(E.shape[1], dtype=bool), np.zeros((E.shape[1], E.shape[1]))
    for k, column in enumerate(triangle.T):
        x = np.linalg.lstsq(triangle[:, kept], column)[0] if kept else np.zeros(0)
        if np.linalg.norm(column - triangle[:, kept] @ x) <= RANK:
            dependent[k], coefficients[k, kept] = True, x
        else:
            kept.append(k)
    return dependent, coefficients


def determined(B: np.ndarray, own: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Which unknowns the base parameters B theta determine each by itself, (p,) booleans."""
    rows = B * units
    rows = np.abs(rows) / units[own, None]
    alone = np.sum(rows > np.sqrt(RANK), axis=1) == 1
    found = np.zeros(B.shape[1], dtype=bool)
    found[own[alone]] = True
    return found
