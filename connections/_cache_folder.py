"""Folders of compiled functions, which are the user's: in ``$XDG_CACHE_HOME``, or ``~/.cache``.

As the XDG Base Directory Specification asks, a relative path in the variable is ignored. A relative or empty
``HOME`` is, too: then home is what the system's database of users has.
"""

import os
import pwd
import warnings
from pathlib import Path

from connections._written import RefusedError, own_cache

#: Bytes in a folder of compiled functions, above which the least recently used ones are removed.
MOST_BYTES = 512 * 2**20


def cache_folder(name: str, base: str = "") -> Path | None:
    """A folder of this user's cache; None if there is none that can be written.

    If it is another user's, a warning says so.

    Parameters
    ----------
    name : of the folder, which says all that compiled functions depend on and do not hold themselves.
    base : the absolute path of another folder than that of the user's caches.
    """
    base = base or _absolute("XDG_CACHE_HOME") or _cache_at_home()
    if not base:
        return None
    folder = Path(base, "connections", name)
    try:
        return own_cache(own_cache(folder.parent) / folder.name)
    except RefusedError as error:
        warnings.warn(f"compiled functions are not kept: {error}", RuntimeWarning, stacklevel=2)
    except OSError:
        pass
    return None


def _absolute(variable: str) -> str:
    """The absolute path in a variable of the environment, or nothing."""
    path = os.environ.get(variable, "")
    return path if os.path.isabs(path) else ""


def _cache_at_home() -> str:
    """``~/.cache``, or nothing for a user without a home."""
    home = _absolute("HOME")
    if not home:
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return ""
    return os.path.join(home, ".cache") if os.path.isabs(home) else ""


def remove_oldest(folder: Path) -> None:
    """Remove the least recently used files, until half of `MOST_BYTES` is left, if there are more."""
    try:
        files = [(entry.stat().st_atime, entry.stat().st_size, entry.path) for entry in os.scandir(folder)]
        left = sum(size for _, size, _ in files)
        if left <= MOST_BYTES:
            return
        for _, size, path in sorted(files):
            if left <= MOST_BYTES // 2:
                return
            os.unlink(path)
            left -= size
    except OSError:
        return  # another process is doing the same
