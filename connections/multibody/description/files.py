"""Files that a robot description consists of: regular files alone, and no more of them than a limit."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from connections._words import words_of
from connections.checks import ModelError

MOST_VELOCITIES = 1000  # of one robot's joints: a model's time grows with their third power
MOST_OF_ALL = 5000  # velocities of a scene of robots, which no loop or coupling ties together
MOST_ASSETS = 250 * 10**6  # bytes of all meshes and pictures of a robot

#: Without waiting for a writer at the other end of a pipe, and not as the terminal of this process.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_RDONLY", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))


def file_of(path: Any) -> Path:
    """The path of an existing file.

    Raises
    ------
    TypeError : `path` is not a path. ModelError : the file does not exist, or is not a regular file.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: expected the path of a file, got {words_of(path)}")
    file = Path(path)
    if os.path.isdir(file):
        raise ModelError(f"{file}: this is a folder, not a file")
    if not os.path.exists(file):  # also a name that is too long, for which pathlib has an error
        raise ModelError(f"{file}: there is no such file")
    if not os.path.isfile(file):
        raise ModelError(f"{file}: not a regular file, but a pipe, a socket or a device")
    return file


def require_few_velocities(*counts: int) -> None:
    """Raise `ModelError` if one of the robots, of so many velocities each, has more than `MOST_VELOCITIES`.

    All together may have `MOST_OF_ALL`. What loops or couplings may tie together is one robot here.
    """
    for whose, count, most in (
        ("a robot", max(counts, default=0), MOST_VELOCITIES),
        ("a file", sum(counts), MOST_OF_ALL),
    ):
        if count > most:
            raise ModelError(
                f"its joints have {count:,} velocities, and {whose} may have {most:,} "
                "(`Mechanism` has no such limit)"
            )


def open_regular(path: Path) -> BinaryIO:
    """The file, open for reading; what is opened is what is checked, so that nothing can take its place.

    Raises
    ------
    ModelError : it cannot be opened, or is a folder, a pipe, a socket or a device.
    """
    try:
        number = os.open(path, _FLAGS)
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise ModelError("not a regular file, but a folder, a pipe, a socket or a device")
    return os.fdopen(number, "rb")


def read_regular(path: Path, most: int) -> bytes | None:
    """The content of a regular file; None if it is larger than `most` bytes, of which no more are read.

    Raises
    ------
    ModelError : as `open_regular`.
    """
    with open_regular(path) as file:
        content = file.read(most + 1)
    return content if len(content) <= most else None
