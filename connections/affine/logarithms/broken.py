"""Long geodesics in pieces, which Newton's method joins: multiple shooting.

The end of a long geodesic may be a very sensitive function of its initial velocity: in hyperbolic space an
error grows by exp(length). The pieces of a broken geodesic are short, so that each is accurate. With x_i and
u_i the point and the velocity at which piece i begins, the equations

    end of piece i = x_(i + 1),   velocity there = u_(i + 1),   end of the last piece = q1

are solved for all x_i and u_i at once, and are as well conditioned as the question is. The first guess is a
curve of points of small energy, sum_i |x_(i + 1) - x_i|^2, with each difference measured at both of its ends:
a curve does not become short by passing over places where lengths are large.

That there are no conjugate points is proven for each piece. The derivative of a point of piece i in the
initial velocity is its derivative in (x_i, u_i) times a matrix M_i (2 n, n). Columns of this matrix may be
combined, so that they are made orthonormal where pieces meet: they stay independent although some grow by
orders of magnitude more than others.
Source: J. Stoer, R. Bulirsch, Introduction to Numerical Analysis (2002), 7.3.5.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.logarithms.chord_guesses import Chords
from connections.affine.logarithms.conjugate import free_of_conjugate_points
from connections.affine.logarithms.misses import gap_at, position_blur
from connections.affine.logarithms.shooting import MIDDLE, TIGHT, Ground, Shooting, Shots, on

PIECES = 64
#: The first pieces of a straight line over even ones: a long line in hyperbolic space is left at once.
_GRADINGS = (1.0, 1e-2, 1e-4, 1e-6, 1e-8)
_RELAXATIONS, _RELAXED = 100, 1e-3  # steps, and the relative change of the energy at which they end
_DAMPING, _RAISES = (1e-6, 1e-3), 20  # least and first damping; how often it is raised for one step
_STRETCH = 2.0  # by so much lengths may change on the way of a point in one step
_AIMS, _NEWTON_STEPS = 6, 15
#: The largest tolerance of a piece whose points have much round-off, if smaller ones need too many steps.
_COARSEST = 1e-6
_SHORTER = 1.0 / 64.0  # the least part of a step of Newton's method
_CLOSE = 1e-3  # gaps over the length of a piece, from which on pieces are integrated accurately
SENSITIVE = 1e3  # growth of d exp, at which rays of a fan pass too far from each other


class Broken(NamedTuple):
    """A geodesic in pieces.

    Parameters
    ----------
    w : (n,) its initial velocity for unit time, in the orthonormal basis at q0.
    error : (n,) an estimate of the error of w: the correction of the next step of Newton's method.
    gaps, position_blur : (64,) lengths of the gaps at the ends of pieces, and of round-off there.
    inside, free : whether the connection is valid on the way, and proven free of conjugate points.
    growth : the largest singular value of d exp at w, in orthonormal bases.
    """

    w: np.ndarray
    error: np.ndarray
    gaps: np.ndarray
    position_blur: np.ndarray
    inside: bool
    free: bool
    growth: float


def by_pieces(chords: Chords, pair: int) -> Broken | None:
    """A geodesic that leads from q0 to q1, joined as well as floats can, or None."""
    try:
        with np.errstate(all="ignore"):  # what is not finite only makes the next step shorter
            curves = [_least_energy_points(chords, pair, grading) for grading in _GRADINGS]
            x = min(curves, key=lambda curve: curve[0])[1]
            return _broken_geodesic(chords.shooting, x, 0.0) or _broken_geodesic(
                chords.shooting, x, _COARSEST
            )
    except np.linalg.LinAlgError:
        return None


# --- curves of small energy --------------------------------------------------------------------------------


def _least_energy_points(chords: Chords, pair: int, grading: float) -> tuple[float, np.ndarray]:
    """The energy of a curve, and its points (65, nq), by steps of Levenberg and Marquardt."""
    shooting, count = chords.shooting, PIECES - 1
    x = chords.nodes(pair, _graded_parts(grading)).q.copy()
    x[0], x[-1] = chords.start.q[pair], chords.aim[pair]
    damping, energy = _DAMPING[1], np.inf
    for _ in range(_RELAXATIONS):
        differences, slopes = shooting.mapped(_difference_at, x[:-1], x[1:])
        energy = min(energy, float(np.sum(differences**2)))
        H, pull = _normal_equations(differences, slopes)
        moved = np.zeros((PIECES + 1, shooting.n))
        for _ in range(_RAISES):
            lifted = H + damping * np.diag(np.diagonal(H))
            moved[1:-1] = np.linalg.solve(lifted, -pull).reshape(count, -1)
            new = _displaced_points(shooting, x, moved)
            value = float(np.sum(shooting.mapped(_difference_at, new[:-1], new[1:])[0] ** 2))
            if value < energy:
                break
            damping *= 4.0
        else:
            break
        gain, energy, x = 1.0 - value / energy, value, new
        damping = max(damping / 4.0, _DAMPING[0])
        if gain < _RELAXED:
            break
    return (energy if np.isfinite(energy) else np.inf), x


def _graded_parts(grading: float) -> np.ndarray:
    """Parts (65,) of a line: pieces grow from both ends inwards; the first is `grading` of an even one."""
    t = np.linspace(-1.0, 1.0, PIECES + 1)
    if grading == 1.0:
        return (t + 1.0) / 2.0
    rate = 10.0
    for _ in range(60):  # of the pieces sinh(rate (1 - |t|)): rate / sinh(rate) is the grading
        rate = np.arcsinh(rate / grading)
    inner = np.sinh(rate * (1.0 - np.abs(t))) / np.sinh(rate)
    parts: np.ndarray = (1.0 + np.sign(t) * (1.0 - inner)) / 2.0
    return parts


def _normal_equations(differences: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normal equations of the inner points' displacements: a matrix (63 n, 63 n) and a vector (63 n,)."""
    n = slopes.shape[2] // 2
    H, pull = np.zeros((PIECES + 1, n, PIECES + 1, n)), np.zeros((PIECES + 1, n))
    for i, (difference, slope) in enumerate(zip(differences, slopes, strict=True)):
        H[i : i + 2, :, i : i + 2] += (slope.T @ slope).reshape(2, n, 2, n)
        pull[i : i + 2] += (slope.T @ difference).reshape(2, n)
    size = (PIECES - 1) * n
    return H[1:-1, :, 1:-1].reshape(size, size), pull[1:-1].ravel()


def _displaced_points(shooting: Shooting, x: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Points (65, nq) moved by (65, n), by less if there may be a singularity on the way."""
    new = shooting.mapped(_moved_at, x, moved)
    way = shooting.mapped(_way_at, x, new)
    before = np.linalg.norm(moved, axis=1)[:, None]
    after = way[:, -1:]
    far = (way.max(axis=1) > 1.2 * np.maximum(before, after)[:, 0]) | (after > 4.0 * before)[:, 0]
    good = np.cumprod(way <= _STRETCH * before, axis=1).sum(axis=1)  # of eight equal parts of the way
    part = np.where(far, np.maximum(good, 0.5) / way.shape[1], 1.0)
    new = np.array(shooting.mapped(_moved_at, x, part[:, None] * moved))
    new[[0, -1]] = x[[0, -1]]
    return new


# --- pieces of geodesics -----------------------------------------------------------------------------------


def _broken_geodesic(shooting: Shooting, x: np.ndarray, coarsest: float) -> Broken | None:
    """The broken geodesic near points (65, nq); round-off up to `coarsest` makes a piece less accurate."""
    n, end = shooting.n, shooting.ground(x[-1:])
    floor = np.minimum(position_blur(shooting.ground(x[1:])), coarsest)
    start, u = shooting.ground(x[:-1]), _aiming_velocities(shooting, x, np.maximum(MIDDLE, floor))
    tol, best, part, step, found = MIDDLE, np.inf, 1.0, None, None
    trial = start, u
    for _ in range(_NEWTON_STEPS):
        ends = Ground(*(np.concatenate([a[1:], b]) for a, b in zip(trial[0], end, strict=True)))
        shots = shooting.spread_of_states(*trial, np.maximum(tol, floor), keep=tol == TIGHT)
        gaps, spread, misses = _gaps(shooting, shots, ends, trial[1])
        size = float(np.linalg.norm(gaps)) if shots.ok.all() else np.inf
        if size < best:
            (start, u), best = trial, size
            step = _corrections(gaps, spread)
            lengths = start.norm(u)
            part = min(1.0, lengths.mean() / max(float(np.abs(step[:, :n]).max()), 1e-300))
            if tol == TIGHT:
                found = (
                    Broken(
                        w=PIECES * on(start.root[:1], u[:1])[0],
                        error=PIECES * step[0, n:],
                        gaps=np.maximum(np.linalg.norm(gaps, axis=1), misses),
                        position_blur=position_blur(ends),
                        inside=bool(shooting.ground(shots.pieces.q[:-1, 1]).ok.all()),
                        free=False,
                        growth=np.inf,
                    ),
                    shots,
                    spread,
                )
            elif best < _CLOSE * lengths.min():
                tol, best = TIGHT, np.inf
        else:
            part /= 2.0
            if step is None or part < _SHORTER or (tol == TIGHT and found is not None):
                break
        points = np.array(shooting.mapped(_moved_at, start.q, part * step[:, :n]))
        points[0] = start.q[0]
        trial = shooting.ground(points), u + on(start.basis, part * step[:, n:])
    if found is None:
        return None
    broken, shots, spread = found
    free, growth = _free(shots, spread)
    return broken._replace(free=free, growth=growth)


def _aiming_velocities(shooting: Shooting, x: np.ndarray, tol: np.ndarray) -> np.ndarray:
    """Velocities (64, n) at points (65, nq), with which each piece ends near the next point."""
    n, start, ends = shooting.n, shooting.ground(x[:-1]), shooting.ground(x[1:])
    u: np.ndarray = on(start.dual, x[1:] - x[:-1])
    for _ in range(_AIMS):
        shots = shooting.spread_of_states(start, u, tol)
        gaps, spread, _ = _gaps(shooting, shots, ends, u)
        step = np.linalg.solve(spread[:, :n, n:], -gaps[:, :n, None])[..., 0]
        size = np.maximum(np.linalg.norm(step, axis=1), 1e-300)
        u = u + on(start.basis, step * np.minimum(1.0, 0.5 * start.norm(u) / size)[:, None])
    return u


def _gaps(
    shooting: Shooting, shots: Shots, ends: Ground, u: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaps (64, 2 n) of points and velocities where pieces end, and their derivatives (64, 2 n, 2 n).

    Also how far the points are from each other, (64,), normal parts included.

    They are in orthonormal bases there, and the derivatives are by where the pieces begin. There is no gap of
    velocities behind the last piece.
    """
    nq = shooting.nq
    gap, spread, misses = shooting.mapped(gap_at, shots.q, shots.linear[:, :nq], *ends[:4])
    turn = shots.v - np.concatenate([u[1:], shots.v[-1:]])
    spread = np.concatenate([spread, ends.root @ shots.linear[:, nq:]], axis=1)
    return np.concatenate([gap, on(ends.root, turn)], axis=1), spread, misses


def _corrections(gaps: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Newton's corrections (64, 2 n) of points and velocities where pieces begin; q0 and q1 stay."""
    count, size = gaps.shape
    n = size // 2
    A = np.zeros((count, size, count + 1, size))
    for i in range(count):
        A[i, :, i], A[i, :, i + 1] = spread[i], -np.eye(size)
    square = A.reshape(count * size, -1)[: count * size - n, n : count * size]
    steps = np.linalg.solve(square, -gaps.ravel()[: count * size - n])
    return np.concatenate([np.zeros(n), steps]).reshape(count, size)


def _free(shots: Shots, spread: np.ndarray) -> tuple[bool, float]:
    """Whether the whole geodesic is proven free of conjugate points, and the growth of d exp."""
    count, n = len(spread), spread.shape[1] // 2
    columns, growth = np.concatenate([np.zeros((n, n)), np.eye(n)]), np.eye(n) / count
    M = np.zeros((count, 2 * n, n))
    for i in range(count):
        M[i] = columns
        columns = spread[i] @ columns
        triangle = np.linalg.qr(columns[:n])[1]
        columns, growth = columns @ np.linalg.inv(triangle), triangle @ growth
    of_velocity = shots.pieces.spread @ M[shots.pieces.row][:, None]
    # In the whole geodesic's time: only its first step begins where the derivative is zero.
    t, h = (shots.pieces.row + shots.pieces.t) / count, shots.pieces.h / count
    pieces = shots.pieces._replace(t=t, h=h, spread=of_velocity)
    return bool(free_of_conjugate_points(pieces, count).all()), float(np.linalg.norm(growth, 2))


# --- compiled for many points ------------------------------------------------------------------------------


def _difference_at(shooting: Shooting, a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """b - a in orthonormal bases at a and b (2 n,), and its derivative in moves of both (2 n, 2 n)."""
    n = shooting.n

    def of_ends(moved: jax.Array) -> jax.Array:
        one, two = _moved_at(shooting, a, moved[:n]), _moved_at(shooting, b, moved[n:])
        return jnp.concatenate([_measured_at(shooting, q, two - one) for q in (one, two)])

    nothing = jnp.zeros(2 * n)
    return of_ends(nothing), jax.jacfwd(of_ends)(nothing)


def _moved_at(shooting: Shooting, q: jax.Array, moved: jax.Array) -> jax.Array:
    """q displaced by components (n,) in the orthonormal basis there."""
    p, matrix, _, _, basis, _, _ = jax.lax.stop_gradient(shooting.ground_at(q))
    moved_q: jax.Array = shooting.nabla.frame.project_at(p + matrix @ (basis @ moved))
    return moved_q


def _measured_at(shooting: Shooting, q: jax.Array, difference: jax.Array) -> jax.Array:
    """A difference of coordinates (nq,) in an orthonormal basis at q, (n,)."""
    _, _, dual, root, _, _, _ = shooting.ground_at(q)
    measured: jax.Array = root @ (dual @ difference)
    return measured


def _way_at(shooting: Shooting, a: jax.Array, b: jax.Array) -> jax.Array:
    """The length of b - a, measured at eight points between them, of which b is the last."""

    def length(s: jax.Array) -> jax.Array:
        size: jax.Array = jnp.linalg.norm(_measured_at(shooting, a + s * (b - a), b - a))
        return size

    return jax.vmap(length)(jnp.arange(1.0, 9.0) / 8.0)
