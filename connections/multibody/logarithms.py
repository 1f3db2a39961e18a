"""The geodesic of a robot's kinetic energy between two configurations, by recursions.

    exp_q0(v) = q1:    Newton's method on log(q(1)^-1 q1) = 0,    q(t) = exp_q0(t v),

joint by joint as in `displacements`. One call makes the end and its derivative in the initial velocity
(`kernels/geodesic_shots.py`). The search begins with the straight line q0 exp(s xi), s from 0 to 1. Where
Newton's method does not lead to its end, the target moves along the line, and then along the line from q1 to
q0. A geodesic counts only if it is proven free of conjugate points (`affine/logarithms/conjugate.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from connections._jax import ArrayLike
from connections.affine.logarithms.conjugate import free_of_conjugate_points
from connections.affine.logarithms.search import LOG_TOLERANCE
from connections.affine.logarithms.shooting import LOOSE, ROUND_OFF, TIGHT, AcceptedSteps
from connections.checks import (
    ConvergenceError,
    ModelError,
    batch_axes,
    text_of_point,
)
from connections.integration.dop853 import A_DENSE, DENSE, E
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.model import Model, require_model
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.stepping import room_of_geodesic

_NEAR = 1e-3  # miss, relative to the length, at which the search with loose tolerances ends
_STEPS, _CORRECTIONS = 12, 6
_LARGEST_TURN = 0.5  # a step of Newton's method, relative to the length
_FIRST, _LEAST = (1.0, 1 / 8), 1 / 64  # of the line, by which the target moves: two tries
_MOST, _FEW = 512, 64  # steps of a geodesic that leads to q1, and of one that is tried
_LEAST_PART = 0.2  # of a step of Newton's method
_KNOWN = 1e-3  # accuracy of the length of the straight line
_LOST = "shooting does not converge"
_CONJUGATE = "what leads there passes a conjugate point"
_LONGER = "what leads there is longer than the straight line"


@dataclass(frozen=True, eq=False)
class Logarithm:
    """Geodesics between configurations, each with what it was judged by.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> found = mb.logarithm(robot, robot.neutral(), robot.neutral() + 0.5)
    >>> found.v.shape, bool(found.missed <= 1e-10 * found.length)
    ((6,), True)
    """

    v: np.ndarray
    """(..., nv) initial velocities in the model's frame, which lead from q0 to q1 in unit time."""
    length: np.ndarray
    """(...,) sqrt(v^T H(q0) v), the length of the geodesic, m sqrt(kg)."""
    missed: np.ndarray
    """(...,) the distance of the geodesic's end from q1, in the metric there, as it was integrated."""


def logarithm(model: Model, q0: ArrayLike, q1: ArrayLike) -> Logarithm:
    """The geodesic from q0 to q1 to which the straight line between them leads, by recursions.

    A robot without forces and gravity moves along geodesics: it gets from q0 to q1 in unit time if it begins
    with the velocity v. `connections.logarithm(model.connection, q0, q1)` searches in many directions, and so
    may find a shorter one; it takes fifty times as long and more.

    Parameters
    ----------
    model : the robot; without closed loops.
    q0, q1 : (..., nq) configurations; leading axes broadcast. Angles are counted as they are, with whole
        turns; q and -q of a quaternion are one rotation.

    Returns
    -------
    Logarithm. Each geodesic ends at q1 within 1e-10 of its length (and the round-off of q1), by integration
    with an error of 1e-12 per step. No point on it is conjugate to q0, nor within 1e-6 of its length behind
    q1, so that no curve near it is shorter: this is proven of the polynomials that interpolate the derivative
    in each step, so between steps, too, and for any multiplicity. It is not longer than the straight line
    q0 exp(s xi) of `difference`, by more than 1e-3, to which that line's length is known.

    Raises
    ------
    ConvergenceError : no such geodesic was found; names the row. ModelError : loops or couplings.
    MetricError : H is singular at q0 or q1. TypeError : also where JAX traces.
    ShapeError, NonFiniteError, PointError (a quaternion of norm other than one).

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import multibody as mb
    >>> robot = mb.example("quadruped")
    >>> q0 = robot.random(0)
    >>> q1 = mb.displace(robot, q0, np.full(18, 0.5))
    >>> v = mb.logarithm(robot, q0, q1).v
    >>> there = cn.exponential(robot.connection, q0, v)
    >>> float(abs(mb.difference(robot, there, q1)).max().round(8))
    0.0

    Source: [B] Tables 4 to 8, for the derivative of the geodesic equation.
    """
    require_model("logarithm", model)
    if model.closed:
        raise ModelError(
            "logarithm: the model has closed loops or couplings, of whose geodesics there is no recursion "
            "here; connections.logarithm(model.connection, q0, q1) finds them"
        )
    points = [configuration(model.kinematics, name, q) for name, q in (("q0", q0), ("q1", q1))]
    batch = batch_axes(("q0", "q1"), points)
    starts, ends = (np.broadcast_to(q, (*batch, model.nq)).reshape(-1, model.nq) for q in points)
    v, length, missed = np.zeros((len(starts), model.nv)), *np.zeros((2, len(starts)))
    for row, pair in enumerate(zip(starts, ends, strict=True)):
        search = _Shots(model, *pair)
        reason = search.run()
        if reason:
            where = f" [{row}]" if batch else ""
            raise ConvergenceError(
                f"logarithm{where}: no geodesic was found from q0 = {text_of_point(pair[0])} to "
                f"q1 = {text_of_point(pair[1])}: {reason}; connections.logarithm(model.connection, q0, q1) "
                "searches in other directions, too"
            )
        v[row], length[row], missed[row] = search.basis @ search.w, np.linalg.norm(search.w), search.missed
    return Logarithm(v.reshape(*batch, model.nv), length.reshape(batch), missed.reshape(batch))


# --- private -----------------------------------------------------------------------------------------------


class _Shot(NamedTuple):
    """A geodesic at time 1: whether it arrived, q (nq,), v (nv,), d q / d w (nv, nv), and its steps."""

    ok: bool
    q: np.ndarray
    v: np.ndarray
    J: np.ndarray
    pieces: AcceptedSteps


class _Shots:
    """The geodesic between two configurations (nq,); w = R v has the norm of v, H(q0) = R^T R."""

    def __init__(self, model: Model, q0: np.ndarray, q1: np.ndarray) -> None:
        self._model, self._q0, self._q1 = model, q0, q1
        self._memory = model.weightless.program.memory
        self._function = compiled.require("geodesic_at")
        self._root = self._root_at(q0)
        self.basis = np.ascontiguousarray(np.linalg.inv(self._root))
        self._line = self._difference(q0, q1)
        self.w, self.missed = self._root @ self._line, 0.0
        nq, nv = model.nq, model.nv
        self._room = np.empty(room_of_geodesic(nq, nv))

    def run(self, back: bool = False) -> str:
        """Find w. Returns why there is none, or an empty text.

        Where the search fails, the geodesic is sought from q1 to q0, which `back` is, and then turned round.
        """
        if not self.w.any():
            return ""
        reason, root = _LOST, self._root_at(self._q1)
        round_off = self._round_off(root)
        longest = (1.0 + _KNOWN) * self._length_of_line()
        for first in (*_FIRST, *(() if back else (0.0,))):
            found = self._in_stages(first, root, round_off) if first else self._turned(root)
            if found is None:
                continue
            w, J = found
            for _ in range(_CORRECTIONS):
                shot = self._shot(w, TIGHT)
                gap = root @ self._difference(shot.q, self._q1)
                self.missed = float(np.linalg.norm(gap)) if shot.ok else np.inf
                if not self.missed > LOG_TOLERANCE * np.linalg.norm(w) + round_off:
                    break
                w = w + np.linalg.solve(J, gap)
            else:
                continue
            whole = self._shot(w, TIGHT, True, True)
            if np.linalg.norm(w) > longest:
                reason = _LONGER
            elif not (whole.ok and free_of_conjugate_points(whole.pieces, 1)[0]):
                reason = _CONJUGATE
            else:
                self.w = w
                return ""
        return reason

    def _turned(self, root: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """w of the geodesic that is found from q1 to q0, backwards, and the derivative of its end."""
        other = _Shots(self._model, self._q1, self._q0)
        if other.run(back=True):
            return None
        w = -self._root @ other._shot(other.w, TIGHT).v
        shot = self._shot(w, LOOSE, True)
        return (w, root @ shot.J) if shot.ok else None

    def _in_stages(
        self, first: float, root: np.ndarray, round_off: float
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """w of a geodesic that almost leads to q1, and the derivative of its end; the line in parts at first.

        With goals at s, w / s changes little, and at s = 0 is the velocity of the line.
        """
        s, part, rate, slope = 0.0, first, self.w, np.zeros_like(self.w)
        while part >= _LEAST:
            to = min(s + part, 1.0)
            last = to == 1.0
            goal = self._q1 if last else self._displaced(to)
            guess = to * (rate + (to - s) * slope)
            found = self._newton(goal, root if last else self._root_at(goal), guess, round_off)
            if found is None:
                part *= 0.5
            elif last:
                return found
            else:
                slope = (found[0] / to - rate) / (to - s)
                s, rate = to, found[0] / to
        return None

    def _newton(
        self, goal: np.ndarray, root: np.ndarray, w: np.ndarray, round_off: float
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """w of a geodesic that misses the goal by `_NEAR`, corrected once more; the derivative of its end."""
        trial, step, miss, part = w, np.zeros_like(w), float(np.inf), 1.0
        for _ in range(_STEPS):
            shot = self._shot(trial, LOOSE, True)
            gap = root @ self._difference(shot.q, goal)
            size = float(np.linalg.norm(gap))
            if shot.ok and size < (1.0 - 0.25 * part) * miss:
                J = root @ shot.J
                try:
                    step = np.linalg.solve(J, gap)
                except np.linalg.LinAlgError:
                    return None
                w, miss, part, length = trial, size, 1.0, np.linalg.norm(trial)
                if miss <= _NEAR * length + round_off:
                    return w + step, J
                step *= min(1.0, _LARGEST_TURN * length / np.linalg.norm(step))
            else:
                part /= 3.0
                if part < _LEAST_PART or miss == np.inf:
                    return None
            trial = w + part * step
        return None

    def _shot(self, w: np.ndarray, tol: float, spread: bool = False, keep: bool = False) -> _Shot:
        """The geodesic that begins with w; with derivatives if `spread`, and with its steps if `keep`."""
        nq, nv = self._model.nq, self._model.nv
        columns = self.basis if spread else self.basis[:, :0].copy()
        size, most = columns.size, _MOST if keep else 0
        out, times, kept = np.zeros(nq + nv + 2 * size + 1), np.empty((most, 2)), np.empty((most, 8, size))
        y, length = np.concatenate([self._q0, self.basis @ w]), np.linalg.norm(w)
        plan = np.array([tol, ROUND_OFF, length, _FEW if tol == LOOSE else _MOST])
        ok = self._function(self._memory, self._room, _TABLES, y, columns, plan, times, kept, out)
        q, J = out[:nq], out[nq + nv : nq + nv + size].reshape(nv, columns.shape[1])
        steps = int(out[-1]) if keep and ok else 0
        spread_of_steps, nothing = kept[:steps].reshape(steps, 8, *columns.shape), np.zeros((steps, 2, 0))
        rows = np.zeros(steps, dtype=int)
        t, h = times[:steps].T
        return _Shot(
            ok, q, out[nq : nq + nv], J, AcceptedSteps(rows, t, h, nothing, nothing, spread_of_steps)
        )

    def _difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """`difference` without checks, (nv,)."""
        xi = np.empty(self._model.nv)
        for joint, _, at_q, at_v in self._model.kinematics.elements:
            xi[at_v] = joint.difference(q0[at_q], q1[at_q])
        return xi

    def _displaced(self, s: Any) -> np.ndarray:
        """The configurations (..., nq) on the straight line at s (..., 1) or a number."""
        moves = s * self._line
        q = np.empty((*moves.shape[:-1], self._model.nq))
        for joint, _, at_q, at_v in self._model.kinematics.elements:
            q[..., at_q] = joint.displaced(self._q0[at_q], moves[..., at_v])
        return q

    def _root_at(self, q: np.ndarray) -> np.ndarray:
        """R (nv, nv) with H(q) = R^T R.

        Raises
        ------
        MetricError : H is singular.
        """
        program = self._model.program
        H = program.functions["mass_matrix"](q, (), None)
        try:
            return np.linalg.cholesky(H).T
        except np.linalg.LinAlgError:
            program.require_regular(program.close(q))
            raise

    def _length_of_line(self) -> float:
        """The length of the straight line, along which the velocity is the same in the model's frame."""
        mass_matrix, xi = self._model.program.functions["mass_matrix"], self._line
        squares = [xi @ mass_matrix(q, (), None) @ xi for q in self._displaced(_NODES[0][:, None])]
        return float(np.sqrt(np.maximum(squares, 0.0)) @ _NODES[1])

    def _round_off(self, root: np.ndarray) -> float:
        """The length of the round-off of q1."""
        X = self._model.connection.host.frame_matrix(self._q1)
        moved = np.abs(X).T @ np.abs(self._q1) / np.sum(X**2, axis=0)
        return float(ROUND_OFF * (np.linalg.norm(root, axis=0) @ moved))


def _tables() -> np.ndarray:
    tables = np.zeros((len(A_DENSE) + len(E) + len(DENSE), len(A_DENSE)))
    tables[: len(A_DENSE)] = A_DENSE
    tables[len(A_DENSE) : -len(DENSE), : E.shape[1]] = E
    tables[-len(DENSE) :] = DENSE
    return tables


_TABLES = _tables()
_x, _weights = np.polynomial.legendre.leggauss(12)
_NODES = (0.5 + 0.5 * _x, 0.5 * _weights)
