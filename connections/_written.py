"""Files and folders that this library writes: of this user alone, and never through a symbolic link.

Whatever the umask, a new folder has the mode 0700 and a new file 0600, so that other users of a machine
neither read results nor put machine code into a cache. A folder of a stranger may contain links to the user's
own files. So a link in the place of the file or the folder is refused; and a file is written under another
name and renamed, which would replace a link that is made in the meantime, and leave what it names as it is.
A device or a pipe is not replaced, either: `OutputPath` writes into one that a user names; all else
refuses it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
_INTO = (stat.S_IFCHR, stat.S_IFIFO)  # what programs are expected to write into
_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")


class RefusedError(OSError):
    """A place where nothing is written, because it is another user's, or leads elsewhere."""


def write_file(path: Path, content: str | bytes) -> Path:
    """Write a file, or replace it; text is UTF-8, with line feeds. Returns its path.

    Raises
    ------
    OSError : it cannot be written, or is no regular file; what was there is then as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    require_file(path)
    # Its folder is opened once: what replaces the folder in the meantime is not written to.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    other = f".{path.name[:100]}.{os.urandom(8).hex()}"
    try:
        file = os.open(other, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            with open(file, "wb") as stream:
                os.fchmod(file, 0o600)  # a umask may have taken the user's own rights
                stream.write(data)
            os.replace(other, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(other, dir_fd=folder)
            raise
    finally:
        os.close(folder)
    return path


class OutputPath:
    """The place of a result that a user names: a file, or a device, a pipe or a descriptor to write into.

    Descriptors are ``/dev/stdout``, and ``/dev/fd/63`` for a shell's ``>(program)``. What is written into is
    opened at once, so that a pipe's reader waits for the result.

    Parameters
    ----------
    path : of the place.

    Raises
    ------
    OSError : it is a symbolic link or a folder, or cannot be opened: a pipe from which no program reads.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._stream = path, _opened(path)
        self.is_file = self._stream is None  # or nothing is there

    def write(self, text: str) -> None:
        """Write the result, once."""
        if self._stream is None:
            write_file(self.path, text)
            return
        try:
            with self._stream as stream:
                stream.write(text.encode())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None


def _opened(path: Path) -> IO[bytes] | None:
    """A device, a pipe or a descriptor, opened; None if there is a file, or nothing."""
    name = os.path.abspath(path)
    number = _DESCRIPTOR.fullmatch(name)
    if number is not None or name in _STREAMS:
        return _duplicate(path, _STREAMS[name] if number is None else int(number[1]))
    kind = _kind(path)
    if kind not in _INTO:
        require_file(path)
        return None
    try:
        file = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO and kind == stat.S_IFIFO:
            raise RefusedError(f"{path} is a pipe from which no program reads") from None
        raise
    stream = open(file, "wb")
    if stat.S_IFMT(os.fstat(file).st_mode) not in _INTO:  # it was replaced before it was opened
        stream.close()
        raise RefusedError(f"{path} was replaced by another file")
    os.set_blocking(file, True)
    return stream


def _duplicate(path: Path, number: int) -> IO[bytes]:
    """A stream that writes to an open file descriptor of this process (`/dev/stdout`, `/dev/fd/N`)."""
    try:
        if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
            return open(os.dup(number), "wb")
    except OSError:  # it is closed
        pass
    raise RefusedError(f"{path} is not open for writing")


@cache
def data_folder(package: str, name: str) -> Path:
    """A folder of files beside the modules of a package; if these are in an archive, a copy of it.

    Parameters
    ----------
    package : its full name.
    name : of the folder.
    """
    found = files(package) / name
    if isinstance(found, Path):
        return found
    folder = tempfile.mkdtemp(prefix="connections_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for entry in found.iterdir():
        write_file(Path(folder, entry.name), entry.read_bytes())
    return Path(folder)


def make_folder(path: Path) -> Path:
    """Make a folder, with those above it, unless it exists. Returns its path.

    Raises
    ------
    OSError : it cannot be made, or is a symbolic link.
    """
    require_no_link(path)
    for folder in (*reversed(path.parents), path):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
            os.chmod(folder, 0o700)
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is a file, not a folder")
    return path


def _kind(path: Path) -> int | None:
    """The kind of what is at a path, as `stat.S_IFMT` has it; None if there is nothing."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return None


def require_file(path: Path) -> None:
    """Raise `OSError` unless a path is of a regular file, or of nothing."""
    require_no_link(path)
    kind = _kind(path)
    if kind not in (stat.S_IFREG, None):
        raise RefusedError(f"{path} is {_KINDS.get(kind, 'no file')}: no file is put in its place")


def require_files(path: Path) -> None:
    """Raise `OSError` unless a path is of a regular file, of a folder of such, or of nothing."""
    if _kind(path) != stat.S_IFDIR:
        require_file(path)
        return
    with os.scandir(path) as entries:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                require_files(Path(entry))


def require_no_link(path: Path) -> None:
    """Raise `OSError` if a path is a symbolic link; links above it are followed, as its text says."""
    if path.is_symlink():
        raise RefusedError(
            f"{path} is a symbolic link, through which nothing is written: name {path.resolve()}"
        )


def own_cache(path: Path) -> Path:
    """Make a folder from which machine code is executed, or see that nobody else can write to it.

    An existing folder of this user that others can write to is closed to them, and their files are removed.

    Raises
    ------
    RefusedError : the folder, or the one above it, is another user's. OSError : it cannot be made or written.
    """
    make_folder(path)
    for folder in (path, path.parent):
        owner = folder.stat().st_uid
        if owner not in (os.getuid(), 0):
            raise RefusedError(f"{folder} belongs to another user, who could put machine code into it")
    about = path.stat()
    if about.st_uid == os.getuid() and about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.chmod(path, 0o700)
        for entry in os.scandir(path):
            if entry.is_symlink() or entry.stat().st_uid != os.getuid():
                os.unlink(entry.path)
    if not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(f"{path} cannot be written")
    return path
