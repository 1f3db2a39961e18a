"""Calls of the kernel of variational steps, `kernels/variational.py`, for rows of states."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.engines.thread_chunks import fill_chunks
from connections.multibody.kernels.layout import KEPT
from connections.multibody.program.compiled_functions import compiled


def history_size(nv: int) -> int:
    """How many numbers are remembered of steps, as `variational_rows` says."""
    return (KEPT + 2) * nv + KEPT + 1


def room_of_geodesic(nq: int, nv: int) -> int:
    """How many numbers `geodesic_at` works in: states and their rates, derivatives, units."""
    return 20 * (nq + nv + 2 * nv * nv) + 3 * nv * nv + nq + nv + 13


class Stepped:
    """The result of `variational_rows`: q, P, the guess of the next step, steps, why, and the last column.

    Parameters
    ----------
    model : the robot.
    out : what it has written.
    good : whether all quaternions are units.
    """

    def __init__(self, model: Any, out: np.ndarray, good: bool) -> None:
        self.good = good
        ends = np.cumsum([model.nq, model.nv, history_size(model.nv), 1, 1])
        self.q, self.P, self.guess, steps, why, last = np.split(out, ends, axis=1)
        self.steps, self.why, self.last = steps[:, 0].astype(int), why[:, 0].astype(int), last[:, 0]


def stepped(
    model: Any,
    y: np.ndarray,
    forces: np.ndarray,
    shares: np.ndarray,
    h: float,
    count: int,
    guess: np.ndarray | None = None,
) -> Stepped:
    """Steps of rows, as the kernel `variational_rows` says, in several threads if that pays.

    Parameters
    ----------
    model : the robot, without loops.
    y, forces : (m, nq + nv) and (m, 2 nv).
    shares, h, count : of a step, its length, and how many are made.
    guess : (m, history_size(nv)), as `before` there.
    """
    y, forces = np.ascontiguousarray(y), np.ascontiguousarray(forces)
    before = np.zeros((len(y), history_size(model.nv))) if guess is None else np.ascontiguousarray(guess)
    lengths, plan = np.full((len(y), 1), float(h)), np.append(float(count), shares)
    out = np.empty((len(y), y.shape[1] + before.shape[1] + 3))
    memories, function = model.program.memories, compiled.variational_rows

    def fill(at: slice) -> bool:
        memory = memories.take()
        good: bool = function(memory, y[at], forces[at], before[at], lengths[at], plan, out[at])
        memories.give_back(memory)
        return good

    return Stepped(model, out, fill_chunks(len(y), fill))


_FLOAT64 = np.dtype(np.float64)
_ONE_STEP = np.ones(2)  # the argument `plan`


def one_step(
    model: Any, q: np.ndarray, P: np.ndarray, tau: np.ndarray, h: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """One step from one state in NumPy's arrays, which is found in a few microseconds; None if it is not.

    Other types of numbers are judged elsewhere: to write them into an array of float64 would convert text and
    complex numbers, too.
    """
    if not q.dtype is P.dtype is tau.dtype is _FLOAT64:
        return None
    nq, nv, memories = model.nq, model.nv, model.program.memories
    if not (q.shape == (nq,) and P.shape == tau.shape == (nv,) and h != 0.0):
        return None
    y, forces = np.empty((1, nq + nv)), np.empty((1, 2 * nv))
    y[0, :nq], y[0, nq:], forces[0, :nv], forces[0, nv:] = q, P, tau, tau
    out = np.empty((1, nq + nv + history_size(nv) + 3))
    memory = memories.take()
    before, lengths = np.zeros((1, history_size(nv))), np.empty((1, 1))
    lengths[0, 0] = h
    good = compiled.variational_rows(memory, y, forces, before, lengths, _ONE_STEP, out)
    memories.give_back(memory)
    if not good or out[0, -2] != 0.0:
        return None
    return out[0, :nq].copy(), out[0, nq : nq + nv].copy()
