"""Ctrl-C while the command line is still imported, which takes a second: one line instead of a traceback.

Python imports this package before `connections.cli`, and so before anything of the command line could run.
`handled_by_python` ends it when the command line takes over.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn


def _end(*_: Any) -> NoReturn:
    os.write(2, b"connections: interrupted\n")
    os._exit(130)


def _is_command() -> bool:
    """Whether this process was started as ``connections`` or as ``python -m connections.cli``."""
    name = "".join(sys.argv[:1])  # there is none in a program that embeds Python
    if name == "-m":  # until the module is found
        return "connections.cli" in sys.orig_argv
    return Path(name).name in ("connections", "connections.exe")


def handled_by_python() -> None:
    """Raise `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
