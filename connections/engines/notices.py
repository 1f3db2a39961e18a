"""What takes seconds says so before it begins: one line, a warning of the logger ``connections``.

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
    if seconds >= NOTICEABLE and os.environ.get("CONNECTIONS_QUIET", "0") in ("", "0"):
        _logger.warning("connections: compiling %s, once, ~%.0f s", what, seconds)
