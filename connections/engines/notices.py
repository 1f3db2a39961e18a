"""Announcements of slow compilations and slow calls: one line each, warnings of the logger ``connections``.

Without any configuration of `logging`, Python writes warnings to standard error. A program can configure
`logging`; the variable ``CONNECTIONS_QUIET=1`` suppresses the announcements.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from connections._progress import is_quiet

NOTICEABLE = 2.0  # seconds; shorter compilations are not announced
_logger = logging.getLogger("connections")


_listeners: list[Callable[[str, float], None]] = []


@contextmanager
def heard_by(listener: Callable[[str, float], None]) -> Iterator[None]:
    """Tell `listener` what is compiled while the block runs, in any thread, also what is not announced.

    Parameters
    ----------
    listener : called with what is compiled, and for about how many seconds, before it is.
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def announce_compilation(what: str, seconds: float) -> None:
    """Announce that `what` is compiled, once on this machine, and for about how long."""
    for listener in tuple(_listeners):
        listener(what, seconds)
    if seconds >= NOTICEABLE and not is_quiet():
        _logger.warning("connections: compiling %s, once, ~%.0f s", what, seconds)


def announce_callbacks(reason: str) -> None:
    """Announce that robots are slower than usual inside of JAX's functions, and why."""
    if not is_quiet():
        text = "connections: XLA calls recursions through Python, which is slower (results are the same): %s"
        _logger.warning(text, reason)


@cache
def announce_device() -> None:
    """Announce, once, that a device has no recursions, so that robots are computed by definitions."""
    if not is_quiet():
        text = "connections: recursions run on the processor; on this device, definitions are computed"
        _logger.warning(text)
