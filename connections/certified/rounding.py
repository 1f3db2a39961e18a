"""Round-off of what a bound is computed from, as stated bounds: ends are moved outward by them.

Recursions compute an entry of H, g or dg/dq by sums of products whose sizes are at most m (reach)^2 and the
moments, with a number of operations that grows with the number of joints. Eigenvalues of symmetric matrices
have errors of at most 4 n^2 eps times the norm, which is far above what is measured, and so have roots of
traces of powers. A test compares both with sixty digits.
"""

from __future__ import annotations

import numpy as np

from connections.certified.lengths import Lengths

EPS = float(np.finfo(float).eps)
_OPERATIONS = 32  # of a joint, for one entry: a rotation of a composite inertia


def of_mass_matrix(lengths: Lengths, armature: np.ndarray) -> float:
    """The error of an eigenvalue of the computed H, kg m^2."""
    n = len(lengths.turns)
    size = float(lengths.masses @ (lengths.reach + 1.0) ** 2 + lengths.moments.sum())
    entry = _OPERATIONS * (n + 1) * EPS * size
    norm = n * float(lengths.mass_matrix().max(initial=0.0)) + float(np.abs(armature).max(initial=0.0))
    return n * entry + 4.0 * n**2 * EPS * norm


def of_gravity(lengths: Lengths, size: float) -> float:
    """The error of |g| and of eigenvalues of dg/dq, N m, for gravity of a size, m/s^2."""
    n = len(lengths.turns)
    moment = size * float(lengths.masses @ (lengths.reach + 1.0))
    return n * _OPERATIONS * (n + 1) * EPS * moment + 4.0 * n**2 * EPS * n * moment


def of_point(reach: float) -> float:
    """The error of the distance of a point, m, that is at most `reach` from the first joint."""
    return 1024 * EPS * reach
