"""Files and folders that this library writes: of this user alone, and never through a symbolic link.

Whatever the umask, a new folder has the mode 0700 and a new file 0600, so that other users of a machine
neither read results nor put machine code into a cache. A folder of a stranger may contain links to the user's
own files. So a link in the place of the file or the folder is refused; and a file is written under another
name and renamed, which would replace a link that is made in the meantime, and leave what it names as it is.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


class RefusedError(OSError):
    """A place where nothing is written, because it is another user's, or leads elsewhere."""


def write_file(path: Path, content: str | bytes) -> Path:
    """Write a file, or replace it; text is UTF-8, with line feeds. Returns its path.

    Raises
    ------
    OSError : it cannot be written, or is a symbolic link; the former file is then as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    require_no_link(path)
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
