"""Where an MJCF file, and those that it includes, say what: elements, looked up in ``formats/mjcf.toml``.

MuJoCo refuses what it does not know, and applies defaults and classes, so that what a file means is read from
its compiled model; of the text only the lines are used, and what a newer MuJoCo knows and the table does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.etree.ElementTree import Element

from connections.multibody.description.files import Text
from connections.multibody.description.format_table import table_of
from connections.multibody.description.left_out import LeftOut
from connections.multibody.description.xml import line_of

NOT_KNOWN = "not known to this version, nothing is made of it"


def path_below(above: str, tag: str) -> str:
    """The path of an element in the table.

    Parameters
    ----------
    above : the path of its parent, empty for the sections of a file.
    tag : its name.
    """
    if tag in ("worldbody", "body") and above in ("", "body"):
        return "body"
    if tag == "default" and above in ("", "default"):
        return "default"
    return f"{above}/{tag}" if above else tag


class Places:
    """The lines of elements and attributes of a description, and what is in no row of the table."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], list[int | str]] = {}
        self.unknown: list[LeftOut] = []

    def see(self, source: Path | Text, main: Path | Text, element: Element, above: str) -> str:
        """Record an element; the path below which its own elements are.

        Parameters
        ----------
        source : the file that has the element.
        main : the file that is read.
        above : what this function returned for its parent.
        """
        table, tag = table_of("mjcf"), element.tag
        path = path_below(above, tag)
        line: int | str = line_of(element)
        if source is not main and isinstance(source, Path):
            line = f"{line} of {source.name}"
        key = {"include": "include", "frame": "body/frame", "replicate": "body/replicate"}.get(tag, path)
        entry = table.entry(key)
        if entry is None:
            if not above or table.entry(above) is not None or above == "default":
                self.unknown.append(LeftOut(f"<{tag}>", NOT_KNOWN, (line,)))
            return path
        for name in ("", *element.keys()):
            self._lines.setdefault((entry.path, name), []).append(line)
            if name and name not in entry.attributes:
                self.unknown.append(LeftOut(f"<{tag} {name}=...>", NOT_KNOWN, (line,)))
        return above if tag in ("include", "frame", "replicate") else path

    def of(self, path: str, attributes: Iterable[str] = ("",)) -> tuple[int | str, ...]:
        """The lines that have one of the attributes of an element, or the element itself."""
        return tuple(line for name in attributes for line in self._lines.get((path, name), ()))

    def within(self, section: str, attribute: str) -> tuple[int | str, ...]:
        """The lines in which some element of a section has an attribute."""
        paths = [path for path in table_of("mjcf").entries if path.startswith(f"{section}/")]
        return tuple(line for path in paths for line in self.of(path, (attribute,)))
