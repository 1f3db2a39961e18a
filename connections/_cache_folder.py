"""Folders of compiled functions, which are the user's: in ``$XDG_CACHE_HOME``, or ``~/.cache``."""

import os
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
    base = base or os.environ.get("XDG_CACHE_HOME") or (str(Path.home() / ".cache") if _has_home() else "")
    if not os.path.isabs(base):
        return None
    folder = Path(base, "connections", name)
    try:
        return own_cache(own_cache(folder.parent) / folder.name)
    except RefusedError as error:
        warnings.warn(f"compiled functions are not kept: {error}", RuntimeWarning, stacklevel=2)
    except OSError:
        pass
    return None


def _has_home() -> bool:
    try:
        Path.home()
    except RuntimeError:
        return False
    return True


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
