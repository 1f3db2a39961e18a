"""Calls of the kernel of variational steps, `kernels/variational.py`, for rows of states."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.multibody.program.compiled_functions import compiled


class Stepped:
    """What `variational_rows` found: q, P, the guess of the next step, steps, why, and the last column."""

    def __init__(self, model: Any, out: np.ndarray) -> None:
        ends = np.cumsum([model.nq, model.nv, 4 * model.nv + 1, 1, 1])
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
    """Steps of rows, as the kernel `variational_rows` says.

    Parameters
    ----------
    model : the robot, without loops.
    y, forces : (m, nq + nv) and (m, 2 nv).
    shares, h, count : of a step, its length, and how many are made.
    guess : (m, 4 nv + 1), as `before` there.
    """
    before = np.zeros((len(y), 4 * model.nv + 1)) if guess is None else np.ascontiguousarray(guess)
    out = np.empty((len(y), model.nq + model.nv + before.shape[1] + 3))
    arrays = np.ascontiguousarray(y), np.ascontiguousarray(forces), before, shares
    compiled.variational_rows(model.program.memory, *arrays, float(h), int(count), out)
    return Stepped(model, out)


def require_tree(name: str, model: Any) -> None:
    """Raise `ValueError` for a robot with loops."""
    if model.closed:
        raise ValueError(f"{name}: variational steps are for robots without loops")
