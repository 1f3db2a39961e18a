"""Programs in a process with limits of memory and time, for what a library may make of a stranger's file."""

from __future__ import annotations

import subprocess
import sys

from connections._children import environment
from connections.checks import ModelError

MEMORY, SECONDS = 4 * 2**30, 60  # bytes of address space, s of processor time
_WAITING = 60  # s by the clock, in which a program may get no processor

_LIMITS = """
import sys
try:
    import resource
    for kind, most in zip((resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_CORE), sys.argv[1:4]):
        hard = resource.getrlimit(kind)[1]
        most = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
        resource.setrlimit(kind, (most, hard))
except ImportError:  # not on every system
    pass
del sys.argv[1:4]
"""
#: What Python and its libraries need to be found and to start, of this process's environment.
_ENVIRONMENT = (
    "PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSAFEPATH",
    "LD_LIBRARY_PATH",
    "SYSTEMROOT",
    "TMPDIR",
    "HOME",
    "LANG",
)
#: One thread, because each would reserve memory.
_THREADS = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


def run_limited(
    program: str, arguments: list[str], given: bytes = b""
) -> subprocess.CompletedProcess[bytes] | None:
    """A program that has ended, or None if it took too long; beyond the limits its return code is negative.

    Parameters
    ----------
    program : Python's source text; its ``sys.argv`` has the arguments behind its first entry.
    arguments : texts.
    given : its standard input.

    Raises
    ------
    ModelError : it failed with an error of Python's; the message is its last line.
    """
    python = [sys.executable, "-I" if sys.flags.isolated else "-P", "-c", _LIMITS + program]
    limits = [str(limit) for limit in (MEMORY, SECONDS, 0)]
    try:
        done = subprocess.run(
            [*python, *limits, *arguments],
            env={name: value for name, value in environment().items() if name in _ENVIRONMENT} | _THREADS,
            input=given,
            capture_output=True,
            timeout=2 * SECONDS + _WAITING,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode == 1:
        reason = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1][:200]
        raise ModelError(f"it is read in another process, which failed: {reason}")
    return done
