"""The number of threads that compute a batch."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from connections.checks import require_whole

_MOST = 4096  # threads; systems do not start many more in a process

_thread_count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_pool: ThreadPoolExecutor | None = None


def set_num_threads(count: int) -> None:
    """Let batches be computed by `count` threads; one thread computes a single configuration in any case.

    Parameters
    ----------
    count : 1 to 4096; by default the number of processors that this process may use.

    Raises
    ------
    TypeError, ValueError : `count` is not a whole number from 1 to 4096.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> before = mb.get_num_threads()
    >>> mb.set_num_threads(1)
    >>> mb.get_num_threads()
    1
    >>> mb.set_num_threads(before)
    >>> mb.set_num_threads(0)
    Traceback (most recent call last):
        ...
    ValueError: count: expected a whole number from 1 to 4096, got the number 0
    """
    global _thread_count, _pool
    number = require_whole("count", count, least=1, most=_MOST)
    _thread_count, _pool = number, None  # a batch that is being computed keeps its threads


def get_num_threads() -> int:
    """The number of threads that compute a batch.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> mb.get_num_threads() >= 1
    True
    """
    return _thread_count


def pool() -> ThreadPoolExecutor:
    """The threads that compute batches together with the caller's thread; started at the first use."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max(1, _thread_count - 1), thread_name_prefix="connections")
    return _pool


def _forget_threads() -> None:
    """Make a forked process start a new pool, because it inherits the old one without its threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
