"""The command line runs no file of the current folder, which may be a stranger's.

Python searches that folder for modules first if it was started with ``-m``, and also for an empty entry of
``PYTHONPATH``, such as the one that ``export PYTHONPATH=$PYTHONPATH:/opt/lib`` leaves behind. So this module
is the first that `connections` imports, and imports only what is built into Python itself.
"""

import os
import sys

if os.name != "posix":
    raise ImportError(
        "connections runs on Linux and macOS (on Windows in WSL): its caches ask who owns a folder, which no "
        "other system says in the same way"
    )


def _is_searched_by_accident() -> bool:
    """Whether this process is a command whose user has not named the current folder to be searched."""
    as_module = sys.argv[:1] == ["-m"] and "connections.cli" in sys.orig_argv  # until the module is found
    named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if as_module and not sys.flags.safe_path:
        return True
    is_command = as_module or os.path.basename("".join(sys.argv[:1])) in ("connections", "connections.exe")
    return is_command and os.getcwd() not in map(os.path.abspath, named)


def _leave_out() -> None:
    """Remove the first entry of the search path that is the current folder, unless this package is there."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        return
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if here in sys.path and (here != own or sys.path.count(here) > 1) and _is_searched_by_accident():
        sys.path.remove(here)


_leave_out()
