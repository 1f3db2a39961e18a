"""Compilation of all recursions in advance, in several processes, so that later calls need not compile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from connections._children import environment, python_command
from connections.checks import require_whole
from connections.engines.notices import announce_compilation
from connections.engines.threads import get_num_threads
from connections.multibody.program.compiled_functions import compiled, seconds


def warm_up(processes: int | None = None) -> Path:
    """Compile all recursions, of trees and of closed chains, that are not in the cache on disk yet.

    It takes minutes once on a machine, and then no first call of `multibody` has to compile; if all is in the
    cache, a few seconds. On the command line, ``connections warm-up`` does the same and shows progress.

    Parameters
    ----------
    processes : how many compile beside each other; by default `get_num_threads`.

    Returns
    -------
    The folder of the cache; the package's own, if all came with it.

    Raises
    ------
    TypeError, ValueError : `processes` is not a positive whole number.
    OSError : something has to be compiled, and no folder can be written.
    ChildProcessError : a process ended before it had compiled everything.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> mb.warm_up(processes=2)  # doctest: +SKIP
    >>> mb.warm_up(processes=0)
    Traceback (most recent call last):
        ...
    ValueError: processes: expected a whole number of at least 1, got the number 0
    """
    count = processes_given(processes)
    names = not_compiled()
    folder = cache_folder(names)
    announce_compilation(f"{len(names)} functions", seconds_to_compile(names, count))
    for _ in compile_together(names, count):
        pass
    return folder


def processes_given(processes: int | None) -> int:
    """The number of processes. Raises `TypeError`, `ValueError`."""
    if processes is None:
        return get_num_threads()
    return require_whole("processes", processes, least=1)


def cache_folder(missing: Sequence[str]) -> Path:
    """The folder in which machine code is cached; the package's, if nothing is missing and that one is empty.

    Raises
    ------
    OSError : something is missing, and no folder can be written.
    """
    from connections.engines import shipped_code
    from connections.engines.disk_cache import machine_code_folder  # imports Numba

    folder = machine_code_folder()
    if not missing and (folder is None or not any(folder.iterdir())):
        return Path(shipped_code.__file__).with_name(shipped_code.FOLDER)
    if folder is None:
        raise OSError(
            "no folder can be written in which compiled functions could be cached: let the variable "
            "NUMBA_CACHE_DIR name one"
        )
    return folder


def not_compiled() -> list[str]:
    """The functions that are not in the cache; such that neighbours have much of their code in common."""
    missing = [name for name in compiled.names if not compiled.is_kept(name)]
    return sorted(missing, key=lambda name: (name.endswith("_rows"), name))


def seconds_to_compile(names: Sequence[str], processes: int) -> float:
    """The time, about so many seconds, that so many processes take to compile these functions."""
    shares = _names_for_each(names, processes)
    return max((sum(map(seconds, share)) for share in shares), default=0.0)


def compile_together(names: Sequence[str], processes: int) -> Iterator[str]:
    """Compile the functions by so many processes, and yield the name of each when it is done.

    Raises
    ------
    ChildProcessError : a process ended before it had compiled everything.
    """
    quiet = environment(CONNECTIONS_QUIET="1")
    reader, writer = os.pipe()  # of all processes; a line is written at once, so lines do not mix
    workers = [
        subprocess.Popen(python_command(compile_and_report, *share), stdout=writer, env=quiet)
        for share in _names_for_each(names, processes)
    ]
    os.close(writer)
    try:
        with open(reader, encoding="utf-8") as lines:
            for line in lines:
                yield line.strip()
        if any(worker.wait() for worker in workers):
            raise ChildProcessError(
                "a process that compiled functions ended before it had compiled all of them"
            )
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _names_for_each(names: Sequence[str], processes: int) -> list[list[str]]:
    """The names, divided into lists that take about the same time, one for each process."""
    ends = list(accumulate(map(seconds, names)))
    shares: list[list[str]] = [[] for _ in range(processes)]
    for name, end in zip(names, ends, strict=True):
        middle = end - 0.5 * seconds(name)
        shares[int(processes * middle / ends[-1])].append(name)
    return [share for share in shares if share]


def compile_and_report() -> None:
    """A child: compile the functions named in its arguments, and write each name when it is done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    for name in sys.argv[1:]:
        compiled.require(name)
        os.write(1, f"{name}\n".encode())
