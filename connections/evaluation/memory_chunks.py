"""Batches that would need more than `MEMORY` at once are cut in chunks of equal size.

The memory of a function is estimated: each point needs `TERMS` arrays of the size that the caller of
`evaluate` states, 8 bytes per entry. For tensors of r indices this size is N n^(r - 1), N the largest
dimension of a frame from which the connection is made; for the definition of a robot, N is 6 times the number
of links. A batch is cut in the fewest chunks that need at most `MEMORY` each; a chunk has at least one point.
All chunks have the same size, so that one function is compiled; the last chunk repeats its last point to
reach this size. A call is refused if one point, or the result, does not fit in the machine's memory, because
the operating system would kill the process, or page memory for minutes.

Only calls from outside of `jit` are cut: inside, the caller decides (`jax.lax.map` with a ``batch_size``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

MEMORY = 2**30  # bytes of the intermediate results of one chunk
TERMS = 8  # arrays of the stated size at one time; XLA allocates 1 to 7.5 of them if n > 5


def piece_size(count: int, numbers: int) -> int:
    """How many of `count` points one chunk has; 0 if the batch is not cut.

    Parameters
    ----------
    count : points of the batch.
    numbers : size of the largest array that the function makes at one point; 0 if it is small.
    """
    most = max(1, MEMORY // (8 * TERMS * max(numbers, 1)))
    if not numbers or count <= most:
        return 0
    return math.ceil(count / math.ceil(count / most))


def is_small(numbers: int) -> bool:
    """Whether one point fits into a chunk; `numbers` as for `piece_size`."""
    return 8 * TERMS * numbers <= MEMORY


def common_count(batches: Sequence[tuple[int, ...]]) -> int:
    """How many points these batch axes have when broadcast together; 0 if they do not broadcast."""
    try:
        return math.prod(np.broadcast_shapes(*batches))
    except ValueError:
        return 0


def require_room_for_one(numbers: int, what: str) -> None:
    """Raise MemoryError if not even one point fits; `numbers` as for `piece_size`."""
    if numbers:
        require_room(8 * TERMS * numbers, f"{what} at one point")


def over_pieces(
    function: Callable[..., tuple[Any, Any]],
    arrays: Sequence[Any],
    cores: Sequence[int],
    batched: Sequence[bool],
    size: int,
    what: str,
) -> tuple[Any, bool]:
    """(values, ok) of `function`, computed in chunks of `size` points: NumPy arrays, and one boolean.

    Parameters
    ----------
    function : of a list of arrays with one batch axis, to values with this axis in front, and one boolean.
    arrays, cores, batched : arguments, how many axes one item has, and whether batch axes precede them.
    size : points of a chunk.
    what : names the quantity in errors.

    Raises
    ------
    MemoryError : the result is larger than the machine's memory.
    """
    given = [np.asarray(array) for array in arrays]
    shapes = [a.shape[: a.ndim - c] for a, c, b in zip(given, cores, batched, strict=True) if b]
    batch = np.broadcast_shapes(*shapes)
    count = math.prod(batch)
    whole: list[np.ndarray] = []
    structure, good = None, True
    for start in range(0, count, size):
        rows = np.unravel_index(np.minimum(np.arange(start, start + size), count - 1), batch)
        piece = [
            np.broadcast_to(a, batch + a.shape[a.ndim - c :])[rows] if b else a
            for a, c, b in zip(given, cores, batched, strict=True)
        ]
        values, ok = function(piece)
        leaves, structure = jax.tree_util.tree_flatten(values)
        if not whole:
            require_room(sum(leaf.nbytes for leaf in leaves) * (count // size), what)
            whole = [np.empty((count, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
        for target, leaf in zip(whole, leaves, strict=True):
            target[start : start + size] = leaf[: count - start]
        good = good and bool(ok)
    shaped = [leaf.reshape(batch + leaf.shape[1:]) for leaf in whole]
    return jax.tree_util.tree_unflatten(structure, shaped), good


def require_room(need: int, what: str) -> None:
    """Raise MemoryError if `what` needs more than the machine's memory; `need` is in bytes."""
    try:
        have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # some systems do not say
        return
    if need > have:
        raise MemoryError(
            f"{what}: {need / 2**30:.1f} GiB are needed, the machine has {have / 2**30:.1f} GiB"
        )
