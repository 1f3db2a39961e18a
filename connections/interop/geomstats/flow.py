"""Geodesics of many points at once, as one system of equations, for the many short calls of statistics.

Only the right-hand side qdot = X v, vdot = -Gamma(v, v) is compiled; SciPy's Dormand-Prince 8(5,3) integrates
all trajectories together. The logarithm is Newton's method: first on loose trajectories, with the derivative
of the exponential by differences of trajectories that share their steps, then on tight ones with the last
derivative. Whatever does not converge, or comes near a conjugate point, goes to `connections.logarithm`,
which is globalized and exact in its derivatives, and whose errors are the ones raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from connections.affine.connection import AffineConnection
from connections.affine.geodesics import exponential, logarithm
from connections.affine.integrate import Trajectories

TIGHT, LOOSE = 1e-11, 1e-6  # rtol = atol
LOG_TOLERANCE = 1e-10
NEWTON_STEPS = 10
MOST_EVALUATIONS = 20_000
_NEAR = 1e-4  # gap at which the tight trajectories take over
_DIFFERENCE = 1e-4  # of the size of v, one-sided
_REGULAR = 1e-2  # of det d exp(t v) / t^n, which is one at t = 0: far above the error of the differences
_TIMES = np.linspace(0.0, 1.0, 33)
_SMALLEST_BLOCK = 16

Rates = Callable[..., Any]


class _TooLong(Exception):
    """A trajectory that needs more than `MOST_EVALUATIONS`."""


def exponentials(nabla: AffineConnection, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """exp_q(v) of rows: q (m, nq), v (m, n) -> (m, nq).

    Raises
    ------
    IntegrationError : a geodesic does not reach unit time; the error of `connections.exponential`.
    """
    flow = _flow(nabla, (q, v))
    good = np.zeros(len(q), dtype=bool) if flow is None else _valid(nabla, flow[0][-1])
    ends = np.zeros_like(q) if flow is None else flow[0][-1]
    for row in np.flatnonzero(~good):
        ends[row] = np.asarray(exponential(nabla, q[row], v[row]))
    return ends


def logarithms(nabla: AffineConnection, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """v with exp_q0(v) = q1 of rows: (m, nq), (m, nq) -> (m, n), and no conjugate point before q1.

    Raises
    ------
    ConvergenceError : the error of `connections.logarithm`.
    """
    frame = nabla.frame
    q1 = _mapped(nabla, "align", lambda q, to: frame.align_at(frame.project_at(q), to), q1, q0)
    v = _mapped(nabla, "straight", lambda a, b: frame.velocity_at(a, b - a), q0, q1)
    near, inverse = _loose_newton(nabla, q0, q1, v)
    done = _tight_newton(nabla, q0, q1, v, np.flatnonzero(near), inverse)
    for row in np.flatnonzero(~done):
        v[row] = np.asarray(logarithm(nabla, q0[row], q1[row]))
    return v


def transported(
    nabla: AffineConnection, q: np.ndarray, v: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """End points and transported components of z (m, n) along geodesics; None where one fails."""
    flow = _flow(nabla, (q, v, z))
    if flow is None or not _valid(nabla, flow[0][-1]).all():
        return None
    return flow[0][-1], flow[2][-1]


def symbols(nabla: AffineConnection, q: np.ndarray) -> np.ndarray | None:
    """Gamma (..., n, n, n), compiled for blocks of rows: a solver changes its mesh; None if not valid."""
    rows = q.reshape(-1, q.shape[-1])
    if not len(rows) or not _valid(nabla, rows).all():
        return None
    gamma = _mapped(nabla, "symbols", nabla.coefficients_at, rows)
    return gamma.reshape(*q.shape[:-1], *gamma.shape[1:]) if np.isfinite(gamma).all() else None


# --- private -----------------------------------------------------------------------------------------------


def _loose_newton(
    nabla: AffineConnection, q0: np.ndarray, q1: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows came near without a conjugate point, and the inverse of d exp there; `v` is moved."""
    todo, near = np.arange(len(v)), np.zeros(len(v), dtype=bool)
    inverse, gaps = np.zeros((len(v), v.shape[1], q0.shape[1])), np.full(len(v), np.inf)
    for _ in range(NEWTON_STEPS):
        shot = _shoot(nabla, q0[todo], q1[todo], v[todo])
        if shot is None:
            break
        inverse[todo], miss, regular = shot
        gap = np.max(np.abs(miss), axis=1)
        near[todo] = (gap <= _NEAR) & regular
        step = np.einsum("mij,mj->mi", inverse[todo], miss)
        onward = (gap > _NEAR) & (gap < 0.75 * gaps[todo]) & np.isfinite(step).all(axis=1)
        gaps[todo] = gap
        todo, step = todo[onward], step[onward]
        v[todo] -= step
        if not len(todo):
            break
    return near, inverse


def _tight_newton(
    nabla: AffineConnection,
    q0: np.ndarray,
    q1: np.ndarray,
    v: np.ndarray,
    todo: np.ndarray,
    inverse: np.ndarray,
) -> np.ndarray:
    """Which of the rows `todo` reached q1 within `LOG_TOLERANCE`; `v` is moved."""
    done = np.zeros(len(v), dtype=bool)
    for _ in range(NEWTON_STEPS):
        flow = _flow(nabla, (q0[todo], v[todo])) if len(todo) else None
        if flow is None:
            break
        miss = flow[0][-1] - q1[todo]
        reached = np.max(np.abs(miss), axis=1) <= LOG_TOLERANCE
        done[todo[reached]] = True
        todo, miss = todo[~reached], miss[~reached]
        v[todo] -= np.einsum("mij,mj->mi", inverse[todo], miss)
    return done


def _shoot(nabla: AffineConnection, q0: np.ndarray, q1: np.ndarray, v: np.ndarray) -> Any:
    """Inverse of d exp (m, n, nq), the miss (m, nq), whether no conjugate point was passed; None if lost."""
    (count, n), nq = v.shape, q0.shape[1]
    size = _DIFFERENCE * (np.linalg.norm(v, axis=1) + 1e-3)
    fan = v[:, None, :] + size[:, None, None] * np.concatenate([np.zeros((1, n)), np.eye(n)])
    state = (np.repeat(q0, n + 1, axis=0), fan.reshape(-1, n))
    flow = _flow(nabla, state, _TIMES, LOOSE)
    if flow is None:
        return None
    paths = flow[0][1:].reshape(len(_TIMES) - 1, count, n + 1, nq)
    points = paths[:, :, 0]
    columns = np.moveaxis(paths[:, :, 1:] - points[:, :, None], -1, -2) / size[:, None, None]
    duals = _mapped(nabla, "dual", nabla.frame.dual_at, points.reshape(-1, nq)).reshape(-1, count, n, nq)
    jacobians = duals @ columns
    scaled = np.linalg.det(jacobians / _TIMES[1:, None, None, None])
    regular = (scaled > _REGULAR).all(axis=0)  # False for NaN
    end = np.where(regular[:, None, None], jacobians[-1], np.eye(n))
    target = _mapped(nabla, "dual", nabla.frame.dual_at, q1)
    inverse = np.linalg.solve(end, target)
    return inverse, points[-1] - q1, regular


def _flow(
    nabla: AffineConnection,
    state: tuple[np.ndarray, ...],
    times: np.ndarray | None = None,
    tol: float = TIGHT,
) -> Any:
    """Rows of (q, v) or (q, v, z) at the times, each (T, m, .), or at 0 and 1; None if one fails."""
    from scipy.integrate import solve_ivp

    ends = np.cumsum([array.shape[1] for array in state])
    count, calls = len(state[0]), 0

    def rhs(t: float, y: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls > MOST_EVALUATIONS:
            raise _TooLong
        pieces = np.split(y.reshape(count, -1), ends[:-1], axis=1)
        return np.concatenate(
            _mapped(nabla, f"rates of {len(state)}", _rates(nabla), *pieces), axis=1
        ).reshape(-1)

    y0 = np.concatenate(state, axis=1).reshape(-1)
    try:
        with np.errstate(all="ignore"):
            solution = solve_ivp(rhs, (0.0, 1.0), y0, "DOP853", t_eval=times, rtol=tol, atol=tol)
    except _TooLong:
        return None
    if not solution.success or not np.isfinite(solution.y).all():
        return None
    values = np.split(solution.y.T.reshape(-1, count, ends[-1]), ends[:-1], axis=2)
    points = values[0].reshape(-1, values[0].shape[-1])
    values[0] = _mapped(nabla, "project", nabla.frame.project_at, points).reshape(values[0].shape)
    return values


def _rates(nabla: AffineConnection) -> Rates:
    frame = nabla.frame

    def at(q: jax.Array, v: jax.Array, *carried: jax.Array) -> tuple[jax.Array, ...]:
        p = frame.project_at(q)
        return (frame.matrix_at(p) @ v, *(-nabla.apply_at(p, v, z) for z in (v, *carried)))

    return at


def _valid(nabla: AffineConnection, q: np.ndarray) -> np.ndarray:
    return np.asarray(_mapped(nabla, "valid", nabla.valid_at, q))


def _mapped(nabla: AffineConnection, name: str, function: Rates, *rows: np.ndarray) -> Any:
    """`function` of every row, compiled for blocks of 16, 64, 256 .. rows and kept on the connection."""
    kept = Trajectories.of(nabla).__dict__.setdefault("_rows", {})
    if name not in kept:
        kept[name] = jax.jit(jax.vmap(function))
    count, block = len(rows[0]), _SMALLEST_BLOCK
    while block < count:
        block *= 4
    if block > count:
        rows = tuple(np.concatenate([a, np.broadcast_to(a[-1:], (block - count, a.shape[1]))]) for a in rows)
    values = kept[name](*rows)
    if isinstance(values, tuple):
        return tuple(np.asarray(leaf)[:count] for leaf in values)
    return np.array(values[:count])
