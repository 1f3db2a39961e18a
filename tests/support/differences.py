"""Derivatives by central differences on the manifold: what the tests differentiate with."""

from __future__ import annotations

from functools import cache

import jax
import numpy as np

OFFSETS = np.array([-2.0, -1.0, 1.0, 2.0])
WEIGHTS = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0
STEP = 1e-3


@cache
def _retraction(frame):
    return jax.jit(jax.vmap(frame.retract_at, in_axes=(None, 0)))


def derivative_along(f, frame, q, v, h=STEP):
    """d/dt f at t = 0 along a curve of the manifold that leaves q with velocity X v; fourth order."""
    curve = _retraction(frame)(q, h * np.multiply.outer(OFFSETS, v))
    values = np.stack([np.asarray(f(point)) for point in curve])
    return np.tensordot(WEIGHTS, values, axes=1) / h


def lie_derivatives(f, frame, q, h=STEP):
    """L_{X_i} f, (n, ...), the derivative index first."""
    return np.stack([derivative_along(f, frame, q, e, h) for e in np.eye(frame.dim)])


def structure_functions(frame, q):
    """s[k, i, j] from differences of the frame's matrix: X_k s^k_ij = L_{X_i} X_j - L_{X_j} X_i."""
    dX = lie_derivatives(frame.matrix, frame, q)  # [i, a, j]
    brackets = np.transpose(dX, (1, 0, 2)) - np.transpose(dX, (1, 2, 0))
    return np.tensordot(np.linalg.pinv(np.asarray(frame.matrix(q))), brackets, axes=1)


def relative(a, b):
    """Largest difference relative to the largest entry."""
    a, b = np.asarray(a), np.asarray(b)
    return float(np.max(np.abs(a - b)) / max(np.max(np.abs(a)), np.max(np.abs(b)), 1e-300))
