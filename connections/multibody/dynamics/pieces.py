"""A batch cut into pieces for threads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from connections.multibody.dynamics.threads import get_num_threads, pool
from connections.multibody.kernels.simd import LANES

# Seconds of work. To wake a thread and to wait for it takes 0.05 ms on an idle machine; on a busy one it
# waits for a processor that another process has.
WORTH_A_THREAD = 1e-3
_FIRST = 8 * LANES  # rows that are timed


def in_pieces(count: int, fill: Callable[[slice], bool]) -> bool:
    """Whether `fill` succeeds on every piece of `count` rows; by as many threads as are worth it.

    The first rows are computed by the caller's thread, and timed: what is left is divided among threads only
    if each gets `WORTH_A_THREAD` of work. `fill` is called from several threads at a time.
    """
    threads = get_num_threads()
    if threads == 1 or count <= 2 * _FIRST:
        return fill(slice(0, count))
    start = time.perf_counter()
    good = fill(slice(0, _FIRST))
    work = (time.perf_counter() - start) * (count / _FIRST - 1.0)
    threads = int(min(threads, work / WORTH_A_THREAD if WORTH_A_THREAD else math.inf))
    if threads < 2:
        return fill(slice(_FIRST, count)) and good
    size = LANES * -(-(count - _FIRST) // (4 * threads * LANES))
    pieces = iter([slice(first, min(first + size, count)) for first in range(_FIRST, count, size)])

    def work_off() -> bool:
        """Piece after piece, as long as there are any; `next` of a list's iterator is atomic."""
        good = True
        for piece in pieces:
            good &= fill(piece)
        return good

    others = [pool().submit(work_off) for _ in range(threads - 1)]
    good &= work_off()  # this thread takes part
    return all([good, *(other.result() for other in others if not other.cancel())])
