"""Frames that meet a loop's conditions although they are turned away from each other.

Conditions of directions also hold where axes point in opposite directions, and those of a weld where three
axes have changed places. `closures` says which pairs (u, w) of a closure tell this: the sum of u . R w over k
pairs exceeds k - 1 unless a frame is turned away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from connections.multibody.graph import Tree
from connections.multibody.loops.closures import Loop, conditions_of
from connections.multibody.loops.condition_rows import ends_of


class Sides(NamedTuple):
    """The pairs of one loop."""

    owner: int  #: the number of the loop
    body_a: int  #: -1 is the ground
    body_b: int
    u: np.ndarray  #: (k, 3) in axes of body a
    w: np.ndarray  #: (k, 3) in axes of body b


def sides_of(tree: Tree, loops: Sequence[Loop]) -> tuple[Sides, ...]:
    """The pairs of all loops that have some, of which users' functions have none."""
    found = []
    for owner, loop in enumerate(loops):
        pairs = () if callable(loop.closure) else conditions_of(loop.closure).sides
        if pairs:
            (a, frame_a), (b, frame_b) = ends_of(tree, loop)
            u, w = (np.stack(vectors) for vectors in zip(*pairs, strict=True))
            found.append(Sides(owner, a, b, u @ frame_a[:3, :3].T, w @ frame_b[:3, :3].T))
    return tuple(found)


def are_turned_away(sides: Sequence[Sides], transforms: Any, numpy: Any = np) -> Any:
    """Whether each loop of `sides` has a frame that is turned away, (..., S).

    Parameters
    ----------
    transforms : (..., N + 1, 4, 4) of the bodies, the ground last.
    numpy : NumPy, or a module with the same functions.
    """
    found = []
    for pairs in sides:
        R_a, R_b = (transforms[..., body, :3, :3] for body in (pairs.body_a, pairs.body_b))
        cosines = numpy.einsum("...ij,kj,...il,kl->...k", R_a, pairs.u, R_b, pairs.w)
        found.append(~(cosines.sum(axis=-1) > len(pairs.u) - 1.0))
    return numpy.stack(found, axis=-1)
