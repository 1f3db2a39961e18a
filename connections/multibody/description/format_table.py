"""Elements and attributes of a format, and how each is read: tables of data, one for each format.

A table, ``formats/urdf.toml`` or ``formats/mjcf.toml``, has an entry for each element, by its path:

    ["joint/dynamics"]
    words = "`model.passive`"
    read = "damping friction"
    warned.spring_stiffness = "a spring, which is not read; write ..."

``fate`` is that of the element itself, "read" if it is not given, and ``words`` what becomes of it.
Attributes are listed by their fate. The fates:

- read: it is in the model.
- warned: it is not in the model, whose motions differ without it; a `LeftOutWarning` says so.
- passive: as warned, for a passive force, which is also in ``model.passive.left_out``.
- refused: an error says what to write instead.
- none: it has no meaning here, as a colour has none.

``neutral`` are the values with which a warned element or attribute does nothing; zero if it is not given.
``below = "none"`` says that nothing inside of the element has a meaning here. Of elements with ``strict =
true``, an unknown attribute is an error. The readers consult these tables, and
`docs/format_tables.py` writes the page of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

FATES = READ, WARNED, PASSIVE, REFUSED, NONE = ("read", "warned", "passive", "refused", "none")
_FOLDER = files(__package__) / "formats"  # in an archive, too


@dataclass(frozen=True)
class FormatRow:
    """The entry of an element or attribute: its fate, and words about it."""

    fate: str
    words: str = ""


@dataclass(frozen=True)
class Entry:
    """An element of a format and its attributes."""

    path: str
    row: FormatRow
    attributes: Mapping[str, FormatRow]
    neutral: frozenset[str] = frozenset({"0"})
    below: str = ""
    strict: bool = False


@dataclass(frozen=True)
class FormatTable:
    """All elements of a format."""

    name: str
    entries: Mapping[str, Entry]
    title: str = ""
    #: paths that are other names of entries
    aliases: Mapping[str, str] = field(default_factory=dict)

    def entry(self, path: str) -> Entry | None:
        """The entry of an element; of a prefix of names, such as ``gazebo/controller:*``, too."""
        path = self.aliases.get(path, path)
        found = self.entries.get(path)
        if found is None and ":" in path.rpartition("/")[2]:
            found = self.entries.get(path.rpartition(":")[0] + ":*")
        return found

    def inside(self, path: str) -> tuple[str, ...]:
        """The names of the elements that are inside of one."""
        start = f"{path}/" if path else ""
        names = (each[len(start) :] for each in self.entries if each.startswith(start))
        return tuple(dict.fromkeys(name.partition("/")[0] for name in names))

    def row(self, path: str, attribute: str = "") -> FormatRow:
        """The row of an element, or of its attribute; `KeyError` if there is none."""
        entry = self.entries[path]
        return entry.attributes[attribute] if attribute else entry.row


@cache
def table_of(name: str) -> FormatTable:
    """The table of a format, "urdf" or "mjcf"."""
    data = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf8"))
    aliases, title = data.pop("aliases", {}), data.pop("title", "")
    entries: dict[str, Entry] = {}
    for path, given in data.items():
        entries[path] = _entry(path, given)
    return FormatTable(name, entries, title, aliases)


def _entry(path: str, given: Mapping[str, Any]) -> Entry:
    attributes: dict[str, FormatRow] = {}
    for fate in FATES:
        named = given.get(fate, {})
        words = dict.fromkeys(named.split(), "") if isinstance(named, str) else named
        attributes |= {name: FormatRow(fate, said) for name, said in words.items()}
    return Entry(
        path,
        FormatRow(given.get("fate", "read"), given.get("words", "")),
        attributes,
        frozenset(given.get("neutral", "0").split()),
        given.get("below", ""),
        given.get("strict", False),
    )
