"""Descriptions of robots as they are given: files, texts, open files, names of ROS's packages.

Of files, regular ones alone are read, and no more of them than a limit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from connections._words import words_of
from connections.checks import ModelError

MOST_VELOCITIES = 1000  # of one robot's joints: a model's time grows with their third power
MOST_OF_ALL = 5000  # velocities of a scene of robots, which no loop or coupling ties together
MOST_BYTES = 10**7  # of a description and the files that it includes; meshes are in files of their own
MOST_ASSETS = 250 * 10**6  # bytes of all meshes and pictures of a robot

#: Without waiting for a writer at the other end of a pipe, and not as the terminal of this process.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_RDONLY", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))


@dataclass(frozen=True)
class Text:
    """A description that is given as text; files that it names are relative to the current folder."""

    content: bytes
    encoding: str | None = None  #: of the content, whatever it says about itself; None if it says so
    name: str = "the text"  #: for messages

    def __str__(self) -> str:
        return self.name


def description_of(given: Any, package_dirs: Any = ()) -> Path | Text:
    """The description of a robot that a user gives.

    Parameters
    ----------
    given : the path of a file, ``package://package/path``, a text in XML (str or bytes), or an open file.
    package_dirs : folders in which packages are, or which are packages.

    Raises
    ------
    TypeError : it is nothing of these.
    ModelError : as `file_of`; no package has the file; an open file cannot be read.
    """
    folders = _folders(package_dirs)
    if isinstance(given, str) and given.lstrip("\ufeff \t\r\n").startswith("<"):
        return Text(given.lstrip("\ufeff").encode("utf-8", "surrogatepass"), "utf-8")
    if isinstance(given, bytes):
        return Text(given)
    read = getattr(given, "read", None)
    if callable(read):
        return _opened(given, read)
    if isinstance(given, str) and given.startswith("package://"):
        found = package_file(given.removeprefix("package://"), folders)
        if found is None:
            raise ModelError(
                f"{given}: no package has this file; name the folder that its package is in, "
                'package_dirs=["..."]'
            )
        return file_of(found)
    return file_of(given)


def _opened(file: Any, read: Any) -> Text:
    """The rest of an open file."""
    name = getattr(file, "name", None)
    name = name if isinstance(name, str) else "the open file"
    try:
        content = read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # it is closed, or its text cannot be decoded
        raise ModelError(f"{name}: cannot be read: {error}") from error
    if isinstance(content, str):
        return Text(content.encode("utf-8", "surrogatepass"), "utf-8", name)
    if isinstance(content, bytes):
        return Text(content, None, name)
    raise TypeError(f"path: its read() returned {words_of(content)}, expected text or bytes")


def package_file(name: str, folders: Sequence[Path], above: Iterable[Path] = ()) -> Path | None:
    """The file ``package/path`` of a ROS package; None if there is none.

    Parameters
    ----------
    name : the package and a path in it, as behind ``package://``.
    folders : in which packages are, or which are packages, as a user names them.
    above : folders above the file that names it.

    After these, packages are looked for in the folders of ROS_PACKAGE_PATH and AMENT_PREFIX_PATH.
    """
    package, _, inner = name.partition("/")
    above = list(above)
    places = [Path(each) for each in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if each]
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    places += [Path(each, "share") for each in prefixes if each]
    candidates = [folder / name for folder in folders]
    candidates += [folder / inner for folder in folders if folder.name == package]
    candidates += [folder / name for folder in (*above, *places)] + [folder / inner for folder in above]
    return next((each for each in candidates if inner and each.is_file()), None)


def _folders(package_dirs: Any) -> list[Path]:
    one = isinstance(package_dirs, str | os.PathLike)
    if not one and not isinstance(package_dirs, list | tuple):
        raise TypeError(f"package_dirs: expected paths of folders, got {words_of(package_dirs)}")
    found = [package_dirs] if one else list(package_dirs)
    for folder in found:
        if not isinstance(folder, str | os.PathLike):
            raise TypeError(f"package_dirs: expected paths of folders, got {words_of(folder)}")
        if not os.path.isdir(folder):
            raise ModelError(f"package_dirs: {folder} is no folder")
    return [Path(folder) for folder in found]


def file_of(path: Any) -> Path:
    """The path of an existing file.

    Raises
    ------
    TypeError : `path` is not a path. ModelError : the file does not exist, or is not a regular file.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"path: expected the path of a file, a text in XML or an open file, got {words_of(path)}"
        )
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


def content_of(source: Path | Text, most: int) -> bytes | None:
    """`read_regular` of a file, or a text."""
    if isinstance(source, Path):
        return read_regular(source, most)
    return source.content if len(source.content) <= most else None


def read_regular(path: Path, most: int) -> bytes | None:
    """The content of a regular file; None if it is larger than `most` bytes, of which no more are read.

    Raises
    ------
    ModelError : as `open_regular`.
    """
    with open_regular(path) as file:
        content = file.read(most + 1)
    return content if len(content) <= most else None
