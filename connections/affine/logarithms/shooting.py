"""Many geodesics at once, each with steps of its own, and their derivatives in the initial velocity.

The step is that of all motions (`integration.steps.stages_at`), compiled for blocks of rows, so that
geodesics of any number and length share it, and so is the length of the next one (`tolerances.next_length`).
Errors are their own: lengths of vectors in the known metric (`AffineConnection.gram_at`), relative to the
geodesic's speed, so that a logarithm does not depend on coordinates; derivatives in the initial velocity,
which only guide Newton's method, may be ten times as wrong. Time runs from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.connection import AffineConnection
from connections.affine.levi_civita import LeviCivita
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import Parametrized, cache_of
from connections.geometry.grid_metric import continued
from connections.geometry.numerics.definite import orthonormal_basis
from connections.integration.dop853 import DENSE, A, E
from connections.integration.steps import stages_at
from connections.integration.tolerances import next_length

TIGHT, MIDDLE, LOOSE, ROUGH = 1e-12, 1e-8, 1e-5, 1e-3  # error of a step, relative to the geodesic's length
DEGREE = 7  # of the polynomial that interpolates a step
MAX_STEPS, MAX_STEPS_OF_PIECES = 5_000, 200
SMALLEST_STEP = 1e-9
_FIRST_STEP = 1 / 16
ROUND_OFF = 8 * np.finfo(float).eps  # of each coordinate: no step has to be more accurate
# Rows of a compiled call. For functions compiled by XLA, eight rows cost little more than one; a recursion
# computes them one by one.
_BLOCKS, _BLOCKS_ON_HOST = (8, 64, 512), (1, 64, 512)
_SPREAD_LOOSER = 10.0  # times the allowed error: derivatives only guide Newton's method


class AcceptedSteps(NamedTuple):
    """Accepted steps of several geodesics, in the order of time for each of them.

    Parameters
    ----------
    row : (s,) which geodesic.
    t, h : (s,) where the step begins, and how long it is.
    q, q_dot : (s, 2, nq) points, not projected, and their derivatives at both ends.
    spread : (s, 8, nq, n) the derivatives of the point in the initial velocity: values at the beginning, and
        seven coefficients of their polynomial (`connections.affine.logarithms.conjugate`); or (s, 0, nq, n).
        2 n columns in place of n if they are by the initial point and velocity.
    """

    row: np.ndarray
    t: np.ndarray
    h: np.ndarray
    q: np.ndarray
    q_dot: np.ndarray
    spread: np.ndarray


class Shots(NamedTuple):
    """Geodesics at time 1.

    Parameters
    ----------
    ok : (m,) whether the geodesic arrived; the other fields are undefined for those that did not.
    q, v : (m, nq) points, not projected, and (m, n) velocities.
    linear : (m, nq + n, k) columns integrated along the geodesic: derivatives of (q, v) in the components of
        the initial velocity in the basis of `Ground`, or, in its last n rows, transported vectors; k may be
        0.
    pieces : the steps; none if they were not asked for.
    """

    ok: np.ndarray
    q: np.ndarray
    v: np.ndarray
    linear: np.ndarray
    pieces: AcceptedSteps


class Ground(NamedTuple):
    """Frame and metric at the points q (m, nq), which are projected onto the manifold.

    Parameters
    ----------
    frame, dual : (m, nq, n), (m, n, nq) the frame field and its left inverse.
    root : (m, n, n) with |v| = ||root v||, the transposed Cholesky factor of the Gram matrix.
    basis : (m, n, n) its inverse: the columns are an orthonormal basis.
    round_off : (m,) the length of the round-off of q.
    ok : (m,) whether the connection is valid.
    """

    q: np.ndarray
    frame: np.ndarray
    dual: np.ndarray
    root: np.ndarray
    basis: np.ndarray
    round_off: np.ndarray
    ok: np.ndarray

    def norm(self, v: np.ndarray) -> np.ndarray:
        """|v| of velocities (m, n), (m,)."""
        lengths: np.ndarray = np.linalg.norm(on(self.root, v), axis=1)
        return lengths

    def take(self, which: np.ndarray) -> Ground:
        """The arrays at some of the points: indices, or a mask (m,)."""
        return Ground(*(array[which] for array in self))


@dataclass(frozen=True)
class _OfRows:
    """(shooting, *rows) -> function(shooting, *row) of all rows."""

    function: Callable[..., Any]

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(self, shooting: Shooting, *rows: jax.Array) -> Any:
        return jax.vmap(partial(self.function, shooting))(*rows)


@dataclass(frozen=True)
class _Step:
    """A step of a geodesic and of the columns along it, by kind: "geodesics", "spread" or "carry"."""

    mode: str

    @property
    def __name__(self) -> str:
        return f"step_of_{self.mode}"

    def __call__(self, shooting: Shooting, *row: jax.Array) -> Any:
        return shooting._step_at(self.mode, *row)


class Shooting(Parametrized):
    """The geodesics of a connection.

    Parameters
    ----------
    nabla : the connection.
    """

    def __init__(self, nabla: AffineConnection) -> None:
        self.nabla, self.n, self.nq = nabla, nabla.frame.dim, nabla.frame.ambient_dim

    @classmethod
    def of(cls, nabla: AffineConnection) -> Shooting:
        """The geodesics of a connection, cached with it; its metric goes on beside a border, if it can."""
        known: Shooting | None = cache_of(nabla).get(cls)
        if known is None:
            goes_on = nabla
            if isinstance(nabla, LeviCivita) and continued(nabla.metric) is not nabla.metric:
                goes_on = LeviCivita(continued(nabla.metric))
            known = cache_of(nabla)[cls] = cls(goes_on)
        return known

    def geodesics(self, start: Ground, v: np.ndarray, tol: float, keep: bool = False) -> Shots:
        """Geodesics from points (m, nq) with velocities v (m, n)."""
        return self._run("geodesics", start, v, np.zeros((len(v), self.nq + self.n, 0)), tol, keep)

    def spread(self, start: Ground, v: np.ndarray, tol: float, keep: bool = False) -> Shots:
        """Geodesics, with the derivatives of q and v in the initial velocity."""
        linear = np.zeros((len(v), self.nq + self.n, self.n))
        linear[:, self.nq :] = start.basis
        return self._run("spread", start, v, linear, tol, keep)

    def spread_of_states(self, start: Ground, v: np.ndarray, tol: np.ndarray, keep: bool = False) -> Shots:
        """Short geodesics with 2 n columns: derivatives in the initial point, then in the initial velocity.

        The first n columns move the point along the vectors of the orthonormal basis, at constant components
        of v; the others change v along them. `tol` is (m,).
        """
        n, nq = self.n, self.nq
        linear = np.zeros((len(v), nq + n, 2 * n))
        linear[:, :nq, :n], linear[:, nq:, n:] = start.frame @ start.basis, start.basis
        return self._run("spread", start, v, linear, tol, keep, MAX_STEPS_OF_PIECES)

    def carry(self, start: Ground, v: np.ndarray, z: np.ndarray, tol: float) -> Shots:
        """Geodesics, with vectors z (m, n) transported parallelly: ``linear[:, nq:, 0]`` at the end."""
        size = start.norm(z)
        linear = np.zeros((len(v), self.nq + self.n, 1))
        linear[:, self.nq :, 0] = z / np.where(size > 0.0, size, 1.0)[:, None]
        shots = self._run("carry", start, v, linear, tol, False)
        return shots._replace(linear=shots.linear * size[:, None, None])

    def ground(self, q: np.ndarray) -> Ground:
        """Frame and metric at points (m, nq)."""
        return Ground(*self.mapped(Shooting.ground_at, q))

    def ground_at(self, q: jax.Array) -> tuple[jax.Array, ...]:
        """The fields of `Ground` at one point (nq,); JAX-traceable."""
        frame = self.nabla.frame
        p = frame.project_at(q)
        H, dual = self.nabla.gram_at(p), frame.dual_at(p)
        root, basis = orthonormal_basis(H)
        round_off = ROUND_OFF * jnp.sqrt(jnp.diagonal(H)) @ (jnp.abs(dual) @ jnp.abs(q))
        return p, frame.matrix_at(p), dual, root, basis, round_off, self.nabla.valid_at(p)

    def mapped(self, function: Callable[..., Any], *rows: np.ndarray) -> Any:
        """`function` of every row, compiled for blocks of rows; NumPy in and out.

        Parameters
        ----------
        function : (shooting, *row), JAX-traceable; of a module or a class.
        """
        of_rows = self.compiled(_OfRows(function))
        parts = []
        sizes = _BLOCKS if self.nabla.host is None else _BLOCKS_ON_HOST
        for begin, length, block in _blocks(len(rows[0]), sizes):
            part = [array[begin : begin + length] for array in rows]
            if length < block:
                part = [np.resize(array, (block, *array.shape[1:])) for array in part]
            parts.append(jax.tree_util.tree_map(lambda a, k=length: np.asarray(a)[:k], of_rows(*part)))
        if len(parts) == 1:
            return parts[0]
        return jax.tree_util.tree_map(lambda *leaves: np.concatenate(leaves), *parts)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """*arguments -> function(shooting, *arguments), compiled once; `function` as for `mapped`."""
        known: dict[Any, Callable[..., Any]] = cache_of(self)
        if function not in known:
            known[function] = compiled(function, self)
        return known[function]

    # --- private -----------------------------------------------------------------------------------------

    def _run(
        self,
        mode: str,
        start: Ground,
        v: np.ndarray,
        linear: np.ndarray,
        tol: float | np.ndarray,
        keep: bool,
        most: int = MAX_STEPS,
    ) -> Shots:
        """Steps until each geodesic has arrived at time 1 or failed."""
        m, nq, split = len(v), self.nq, self.nq + self.n
        y = np.concatenate([start.q, v, linear.reshape(m, split * linear.shape[2])], axis=1)
        speed, t, h = start.norm(v), np.zeros(m), np.full(m, _FIRST_STEP)
        tolerance = np.broadcast_to(tol, m)
        ok, kept = np.isfinite(speed), [self._no_step(mode, linear.shape[2])]
        speed[speed == 0.0] = 1.0  # a point at rest has no scale; its error is zero too
        step = partial(self.mapped, _Step(mode))
        for _ in range(most):
            todo = np.flatnonzero(ok & (t < 1.0))
            if not len(todo):
                break
            length = np.minimum(h[todo], 1.0 - t[todo])
            new, error, rates, dense = step(y[todo], length, speed[todo], tolerance[todo])
            known = np.nan_to_num(error, nan=np.inf)
            good, h[todo] = next_length(length, length, False, known, False, (0.0, np.inf))
            todo, length, new = todo[good], length[good], new[good]
            if keep:
                ends = np.stack([y[todo, :nq], new[:, :nq]], axis=1)
                kept.append((todo, t[todo], length, ends, rates[good], dense[good]))
            y[todo], t[todo] = new, np.where(length < 1.0 - t[todo], t[todo] + length, 1.0)
            ok &= (h > SMALLEST_STEP) | (t >= 1.0)
        return Shots(
            ok & (t >= 1.0), y[:, :nq], y[:, nq:split], y[:, split:].reshape(linear.shape), _in_order(kept)
        )

    def _rates_at(self, mode: str, y: jax.Array) -> jax.Array:
        nabla, frame, split = self.nabla, self.nabla.frame, self.nq + self.n

        def rates(state: jax.Array) -> jax.Array:
            p, v = frame.project_at(state[: self.nq]), state[self.nq :]
            return jnp.concatenate([frame.matrix_at(p) @ v, -nabla.apply_at(p, v, v)])

        state, linear = y[:split], y[split:].reshape(split, -1)
        if mode == "spread":
            value, along = jax.linearize(rates, state)
            return jnp.concatenate([value, jax.vmap(along, 1, 1)(linear).reshape(-1)])
        if mode == "carry":
            p, v = frame.project_at(state[: self.nq]), state[self.nq :]
            moved = -nabla.apply_at(p, v, linear[self.nq :, 0])
            return jnp.concatenate([rates(state), jnp.zeros(self.nq), moved])
        return rates(state)

    def _step_at(
        self, mode: str, y: jax.Array, h: jax.Array, speed: jax.Array, tol: jax.Array
    ) -> tuple[jax.Array, ...]:
        """The state after a step, its error over the tolerance, qdot at both ends, and the interpolant."""
        spread, columns = mode == "spread", len(y) // (self.nq + self.n) - 1
        K = stages_at(lambda _, state: self._rates_at(mode, state), jnp.zeros(()), h, y, None, dense=spread)
        change = h * A[-1] @ K[: len(A)]
        fifth, third = (h * weights @ K[: len(A)] for weights in E)
        error = self._error_at(mode, y + change, fifth, third, speed, tol)
        rates = jnp.stack([K[0, : self.nq], K[_END, : self.nq]])
        if not spread:
            return y + change, error, rates, jnp.zeros((0, self.nq, columns))
        first = (y, change, h * K[0] - change, 2.0 * change - h * (K[0] + K[_END]))
        dense = jnp.concatenate([jnp.stack(first), h * DENSE @ K])[:, self.nq + self.n :]
        return y + change, error, rates, dense.reshape(1 + DEGREE, -1, columns)[:, : self.nq]

    def _error_at(
        self, mode: str, y: jax.Array, fifth: jax.Array, third: jax.Array, speed: jax.Array, tol: jax.Array
    ) -> jax.Array:
        """The largest error of q, v and the columns, over its tolerance.

        The tolerance is `tol` times the speed, or times each column's own size, plus the coordinates'
        round-off.
        """
        nq, split = self.nq, self.nq + self.n
        _, _, dual, root, _, round_off, _ = self.ground_at(y[:nq])

        def sizes(row: jax.Array) -> jax.Array:
            columns = jnp.concatenate([row[:split, None], row[split:].reshape(split, -1)], axis=1)
            parts = root @ dual @ columns[:nq], root @ columns[nq:]
            return jnp.stack([jnp.sqrt(jnp.sum(part**2, axis=0)) for part in parts])  # (2, 1 + k)

        size = sizes(y).at[0, 0].set(0.0)  # not of q itself
        looser = _SPREAD_LOOSER if mode == "spread" else 1.0
        allowed = looser * tol * jnp.maximum(jnp.max(size, axis=0), 1.0)[None] * jnp.ones((2, 1))
        allowed = allowed.at[:, 0].set(tol * jnp.maximum(speed, size[1, 0])).at[0, 0].add(round_off)
        five, three = sizes(fifth) / allowed, sizes(third) / allowed
        return jnp.max(five**2 / jnp.maximum(jnp.sqrt(five**2 + 0.01 * three**2), 1e-300))

    def _no_step(self, mode: str, columns: int) -> tuple[np.ndarray, ...]:
        count = 1 + DEGREE if mode == "spread" else 0
        shapes = (), (), (), (2, self.nq), (2, self.nq), (count, self.nq, columns)
        return tuple(np.zeros((0, *shape), dtype=float if k else int) for k, shape in enumerate(shapes))


def _blocks(count: int, sizes: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """First row, number of rows and size of each block; at least one block."""
    begin = 0
    while begin < max(count, 1):
        left = count - begin
        place = next((i for i, size in enumerate(sizes) if size >= left), len(sizes) - 1)
        block = sizes[max(place - (4 * left <= sizes[place]), 0)]  # the smaller one, if this is mostly empty
        yield begin, min(left, block), block
        begin += block


def on(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Products of matrices (m, a, b) with vectors (m, b), row by row."""
    turned: np.ndarray = np.einsum("mij,mj->mi", matrices, vectors)
    return turned


_END = len(A) - 1  # the stage after the step


def _in_order(kept: list[tuple[np.ndarray, ...]]) -> AcceptedSteps:
    """All accepted steps, ordered by geodesic and then by time."""
    arrays = [np.concatenate(parts) for parts in zip(*kept, strict=True)]
    order = np.argsort(arrays[0], kind="stable")
    return AcceptedSteps(*(array[order] for array in arrays))
