"""What takes seconds, or longer than it should, says so: one line, a warning of the logger ``connections``.

Without any configuration of `logging`, Python writes warnings to standard error. A program that configures
`logging` decides itself; with the variable ``CONNECTIONS_QUIET=1`` nothing is said.
"""

from __future__ import annotations

import logging
import os

NOTICEABLE = 2.0  # seconds; what takes less is not announced
_logger = logging.getLogger("connections")


def announce_compilation(what: str, seconds: float) -> None:
    """Say that `what` is compiled, once on this machine, and for about how long."""
    if seconds >= NOTICEABLE and _is_wanted():
        _logger.warning("connections: compiling %s, once, ~%.0f s", what, seconds)


def announce_callbacks(reason: str) -> None:
    """Say that robots are slower than usual inside of functions of JAX, and why."""
    if _is_wanted():
        text = "connections: XLA calls recursions through Python, which is slower (results are the same): %s"
        _logger.warning(text, reason)


def _is_wanted() -> bool:
    return os.environ.get("CONNECTIONS_QUIET", "0") in ("", "0")
