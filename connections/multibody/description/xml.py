"""The root element of a robot description; errors for a missing file, malformed XML, or another format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from connections._words import words_of
from connections.checks import ModelError

MOST_BYTES = 10**7  # meshes are in files of their own


def read_root(path: Path, tag: str, form: str) -> ElementTree.Element:
    """The root element of the XML file `path`.

    Parameters
    ----------
    path : the file; `file_of` checks that it exists.
    tag : the name that the root element must have.
    form : the name of the format, for the message.

    Raises
    ------
    ModelError : a file of more than `MOST_BYTES`, malformed XML, an encoding that cannot be read, or another
        root element.
    """
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ModelError(
            f"larger than {MOST_BYTES // 10**6} MB, the most that is read of a robot description"
        )
    try:
        # Parsed at once, because in blocks the time for a long name or comment grows with its square.
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise ModelError(f"malformed XML: {error}") from error
    if root.tag != tag:
        raise ModelError(f"not {form}: the root element is <{root.tag}>, not <{tag}>")
    return root


def file_of(path: Any) -> Path:
    """The path of an existing file.

    Raises
    ------
    TypeError : `path` is not a path. ModelError : the file does not exist.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: expected the path of a file, got {words_of(path)}")
    file = Path(path)
    if file.is_dir():
        raise ModelError(f"{file}: this is a folder, not a file")
    if not file.is_file():
        raise ModelError(f"{file}: there is no such file")
    return file
