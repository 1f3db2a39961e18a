"""A batch cut into chunks for threads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from connections.engines.inlined.simd import LANES
from connections.engines.threads import get_num_threads, pool

# Seconds of work. Waking a thread and waiting for it takes 0.05 ms on an idle machine, and longer on a busy
# one, because the thread has to wait for a processor.
WORTH_A_THREAD = 1e-3
_FIRST = 8 * LANES  # rows that are timed
ONE_PIECE = 2 * _FIRST  # so many rows are not divided


def fill_chunks(count: int, fill: Callable[[slice], bool]) -> bool:
    """Call `fill` on chunks of `count` rows, in several threads if that pays; whether all calls succeeded.

    The caller's thread computes the first rows and measures the time. The other rows are divided among so
    many threads that each gets `WORTH_A_THREAD` of work. `fill` is called from several threads at the same
    time.
    """
    if count <= ONE_PIECE or get_num_threads() == 1:
        return fill(slice(0, count))
    start = time.perf_counter()
    good = fill(slice(0, _FIRST))
    work = (time.perf_counter() - start) * (count / _FIRST - 1.0)
    threads = int(min(get_num_threads(), work / WORTH_A_THREAD if WORTH_A_THREAD else math.inf))
    if threads < 2:
        return fill(slice(_FIRST, count)) and good
    size = LANES * -(-(count - _FIRST) // (4 * threads * LANES))
    pieces = iter([slice(first, min(first + size, count)) for first in range(_FIRST, count, size)])

    def work_off() -> bool:
        """Fill chunks until none is left. The threads share a list's iterator, whose `next` is atomic."""
        good = True
        for piece in pieces:
            good &= fill(piece)
        return good

    others = [pool().submit(work_off) for _ in range(threads - 1)]
    good &= work_off()  # the caller's thread works too
    return all([good, *(other.result() for other in others if not other.cancel())])
