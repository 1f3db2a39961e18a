"""Recursions compiled, or loaded, before a control loop begins."""

from __future__ import annotations

import time

import numpy as np

from connections._words import no_such
from connections.checks import require_bool
from connections.multibody import functions as recursions
from connections.multibody.model import Model, require_model
from connections.multibody.program.table import RECURSIONS


def prepare(model: Model, *functions: str, batch: bool = False) -> dict[str, float]:
    """Seconds that functions take to be compiled or loaded, so that no call in a control loop waits for it.

    Each is called once, at rest at ``model.random(0)``.

    Parameters
    ----------
    model : the robot.
    functions : names of functions of `connections.multibody` that are recursions, such as "inverse_dynamics".
    batch : whether batches are prepared, in place of single configurations.

    Returns
    -------
    By name, in the order of the names.

    Raises
    ------
    TypeError : `batch` is no truth value. ValueError : a name is none of a recursion.
    The errors of the functions, such as that of a mass matrix that is singular.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> sorted(mb.prepare(robot, "inverse_dynamics", "gravity"))
    ['gravity', 'inverse_dynamics']
    """
    require_model("prepare", model)
    require_bool("batch", batch)
    offered = [name for name in RECURSIONS if hasattr(recursions, name)]
    for name in functions:
        if not isinstance(name, str) or name not in offered:
            raise ValueError("functions: " + no_such("recursion", name, offered))
    q, rows = model.random(0), (1,) * batch
    seconds: dict[str, float] = {}
    for name in functions:
        start = time.perf_counter()
        row = RECURSIONS[name]
        vectors = [np.zeros((*rows, model.nv)) for _ in row.vectors]
        frame = {"frame": model.body_names[-1]} if row.choice and "frame" in row.choice.arguments else {}
        getattr(recursions, name)(model, np.broadcast_to(q, (*rows, model.nq)), *vectors, **frame)
        seconds[name] = time.perf_counter() - start
    return seconds
