"""The root element of a robot description; errors for a missing file, malformed XML, or another format."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from connections.checks import ModelError


def read_root(path: Path, tag: str, form: str) -> ElementTree.Element:
    """The root element of the XML file `path`.

    Parameters
    ----------
    path : the file; `require_file` checks that it exists.
    tag : the name that the root element must have.
    form : the name of the format, for the message.

    Raises
    ------
    ModelError : malformed XML, or another root element.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, UnicodeDecodeError, LookupError) as error:
        raise ModelError(f"malformed XML: {error}") from error
    if root.tag != tag:
        raise ModelError(f"not {form}: the root element is <{root.tag}>, not <{tag}>")
    return root


def require_file(path: Path) -> None:
    """Raise `ModelError` unless `path` is a file."""
    if not path.is_file():
        raise ModelError(f"{path}: there is no such file")
