"""Machine code that comes with the package: archives of compiled functions, one for each level of processors.

A wheel may have them (docs/releasing.md); the sources have none. An archive is ``machine_code/LEVEL.zip``
beside this file. Its members are what the cache on disk would hold (`disk_cache`): each is named by its
function and the hash of all that is compiled into it, and has a checksum. So code of other sources is not
found, and code that was changed is not run; the function is compiled then, as if there were no archive.

The code is for one version of Python and of Numba, which the archive's comment names.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from connections.engines.internals.numba_names import VERSION
from connections.engines.internals.processor import LEVELS, level

#: The folder of archives, beside this file.
FOLDER = "machine_code"


def read_shipped(name: str) -> bytes | None:
    """The content of the archive for this processor under a name; None if it has nothing that fits."""
    archive = _archive()
    if archive is None:
        return None
    try:
        # Opened for each function, because a fork that reads a file goes on where its parent is.
        with archive.open("rb") as stream, zipfile.ZipFile(stream) as held:
            return held.read(name)
    except Exception:  # whatever a flipped bit asks of zipfile: passwords, other methods and versions
        return None


@cache
def _archive() -> Traversable | None:
    """The archive of the level that this processor has, made for this Python and this Numba."""
    chosen = level()
    if chosen is None:
        return None
    archive = files(__package__) / FOLDER / f"{chosen}.zip"
    try:
        with archive.open("rb") as stream, zipfile.ZipFile(stream) as held:
            return archive if held.comment.decode() == made_by() else None
    except Exception:
        return None


def made_by() -> str:
    """The versions for which this process makes and reads machine code."""
    return f"{sys.implementation.cache_tag} numba-{VERSION}"


def write_archive(path: Path, members: Mapping[str, bytes]) -> None:
    """Write an archive; the same members give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.comment = made_by().encode()
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name), members[name], zipfile.ZIP_DEFLATED)


__all__ = ["FOLDER", "LEVELS", "made_by", "read_shipped", "write_archive"]
