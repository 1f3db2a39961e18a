"""Recursions as operations of JAX's compiled functions on the processor.

The tree is a constant of the operation, and every call has its own workspace, so calls may run at the same
time. If a recursion refuses its input, that row of the result is NaN (`engines.xla`).
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from connections.engines import xla
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.table import BODY_FACTOR, BODY_FACTORS, RECURSIONS


def operation(
    name: str,
    shape: tuple[int, ...],
    vectors: tuple[Any, ...],
    tree: np.ndarray,
    size: int,
    loops: tuple[np.ndarray, ...] = (),
    solved: bool = False,
) -> jax.Array:
    """A recursion on the processor as part of a traced function; NaN if q is not a configuration.

    Parameters
    ----------
    name : name of a recursion, with ``closed_`` before it for closed chains.
    shape : shape of the result at one configuration.
    vectors : q (nq,) and then vectors (nv,).
    tree : the tree's array from `tree_packing.pack`.
    size : number of slots of `tree` and its workspace together.
    loops : for ``closed_`` names, the arrays of `loop_packing` and `cluster_packing`.
    solved : for ``closed_`` names, whether the first vector is a solution of the loops instead of q.
    """
    before: list[xla.Constant] = [xla.Work(tree, size)]
    if loops:
        closure, clusters = loops
        before += [xla.Work(closure, len(closure)), xla.Read(clusters), xla.Flag(solved)]
    row = RECURSIONS[name.removeprefix("closed_")]
    choice = [xla.Flag(BODY_FACTORS["christoffel"])] if row.choice is BODY_FACTOR else []
    return xla.operation(name, compiled.require(f"{name}_at"), shape, before, vectors, choice)
