"""The number of threads that compute a batch."""

from __future__ import annotations

import operator
import os
from concurrent.futures import ThreadPoolExecutor

_thread_count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_pool: ThreadPoolExecutor | None = None


def set_num_threads(count: int) -> None:
    """Let batches be computed by `count` threads; one thread computes a single configuration in any case.

    Parameters
    ----------
    count : at least 1; by default the number of processors that this process may use.

    Raises
    ------
    ValueError : `count` is not a positive integer.

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
    ValueError: number of threads: expected a positive whole number, got 0
    """
    global _thread_count, _pool
    if isinstance(count, bool) or not hasattr(count, "__index__") or operator.index(count) < 1:
        raise ValueError(f"number of threads: expected a positive whole number, got {count!r}")
    _thread_count, _pool = operator.index(count), None  # a batch that is being computed keeps its threads


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
