"""Child processes, which run nothing that lies in the current folder.

That folder may be a stranger's, beside the robot file that is read there. So a child of Python does not
search it for modules (``-P``) and gets this package from the file from which its parent has it. No list of
folders in its environment has an empty or relative entry, which would stand for the current folder. Other
programs are found in absolute folders only.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

_PACKAGE = Path(__file__).parent
# The package is loaded by its path: in the search path, its folder would come before Python's own.
_PROGRAM = """\
import sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location({package!r}, {file!r})
sys.modules[spec.name] = module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
from {module} import {function}
{function}()
"""
_END, _LINE = 1 << 16, 200  # bytes of a standard error that are read, characters of a line that are shown
#: Variables that list folders in which programs, modules, libraries or headers are searched.
_LISTS = (
    "PATH",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "COMPILER_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
)
#: Variables that name a folder or a file, perhaps from the current folder, which a child leaves.
_PLACES = ("NUMBA_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "MPLCONFIGDIR", "MATPLOTLIBRC")


def python_command(function: Callable[[], None], *words: str) -> list[str]:
    """The command of a child that calls a function of this package without arguments.

    Parameters
    ----------
    function : at the top of a module, by whose name the child imports it.
    words : arguments of the process, ``sys.argv[1:]``.
    """
    module, name = function.__module__, function.__name__
    file = str(_PACKAGE / "__init__.py")
    program = _PROGRAM.format(package=_PACKAGE.name, file=file, module=module, function=name)
    return [sys.executable, "-I" if sys.flags.isolated else "-P", "-c", program, *words]


def environment(**more: str) -> dict[str, str]:
    """The environment of a child: that of this process, whose lists of folders keep absolute entries only.

    Relative entries of ``PYTHONPATH``, by which the user names modules, and of caches become absolute.

    Parameters
    ----------
    more : further variables.
    """
    found = {**os.environ, "PYTHONSAFEPATH": "1"}  # for the children of children, too
    for name in _LISTS:
        entries = [entry for entry in found.pop(name, "").split(os.pathsep) if entry]
        if name == "PYTHONPATH":
            entries = [os.path.abspath(entry) for entry in entries]
        absolute = os.pathsep.join(filter(os.path.isabs, entries))
        if absolute:
            found[name] = absolute
    return found | {name: os.path.abspath(found[name]) for name in _PLACES if found.get(name)} | more


def end_of(status: int, errors: BinaryIO, most: int = 0) -> str:
    """How a child ended: by which signal, and the last line that it wrote.

    Parameters
    ----------
    status : its return code.
    errors : a file with its standard error; the end of it is read.
    most : if not 0, so many characters in place of the last line.
    """
    errors.seek(max(errors.seek(0, os.SEEK_END) - _END, 0))
    said = errors.read().decode(errors="replace").strip()
    last = said[-most:] if most else (said.splitlines() or [""])[-1][:_LINE]
    how = "failed" if status else "ended"
    if status < 0:
        signals = {each.value: each.name for each in signal.Signals}
        how = f"crashed ({signals.get(-status, f'signal {-status}')})"
    return f"{how}: {last or 'no message'}"


@contextmanager
def kept_from_the_current_folder() -> Iterator[None]:
    """While the block runs, children that other libraries start do not search the current folder, either."""
    names = ("PYTHONSAFEPATH", *_LISTS)
    before = {name: os.environ.get(name) for name in names}
    _set({name: environment().get(name) for name in names})
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    """Set variables of this process's environment, or remove them."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def program(name: str) -> str | None:
    """The absolute path of a program, or None; a name is searched in the absolute folders of ``PATH``.

    Parameters
    ----------
    name : of the program, or its path, which may be relative.
    """
    if os.path.dirname(name):
        return os.path.abspath(name) if shutil.which(name) else None
    return shutil.which(name, path=environment().get("PATH", os.defpath))


def held_by_forks(lock: Any) -> Any:
    """The lock, for which a fork waits: the child would wait for ever for the thread that holds it.

    Locks that are taken inside of others are made first, because forks take the last one first.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
