"""The tables of elements.md, and those of coming_from.md, from the tables that the readers consult.

elements.md has every element and attribute of URDF and MJCF, coming_from.md those that others read and this
library does not.

Run: python docs/format_tables.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from connections.multibody.description.format_table import (  # noqa: E402
    FATES,
    Entry,
    FormatTable,
    table_of,
)

PAGE = Path(__file__).parent / "elements.md"
OTHERS = Path(__file__).parent / "coming_from.md"
MARK = "<!-- What follows is written by docs/format_tables.py. -->"
END = "<!-- So far docs/format_tables.py. -->"
FORMATS = ("urdf", "mjcf")
NAMES = {
    "read": "read",
    "warned": "warned about",
    "passive": "warned about, a passive force",
    "refused": "an error",
    "none": "none here",
}


def tables() -> str:
    """A section for each format, with a row for each element and fate of its attributes."""
    return "\n\n".join(_section(table_of(name)) for name in FORMATS) + "\n"


def _section(table: FormatTable) -> str:
    lines = [
        f"## {table.title}",
        "",
        "| element | fate | attributes | what becomes of it |",
        "|---|---|---|---|",
    ]
    for entry in table.entries.values():
        lines += _rows(entry)
    if table.aliases:
        lines += ["", "In `<default>`, elements are those of the same name above."]
    return "\n".join(lines)


def _rows(entry: Entry) -> Iterator[str]:
    """The element and the attributes of its own fate, then the others."""
    said: dict[tuple[str, str], list[str]] = {}
    for name, row in entry.attributes.items():
        said.setdefault((row.fate, row.words), []).append(name)
    own = said.pop((entry.row.fate, ""), [])
    below = "nothing inside has a meaning" if entry.below == "none" else ""
    words = "; ".join(filter(None, (entry.row.words, below)))
    yield _row(entry.path, entry.row.fate, own, words)
    for fate, group in groupby(
        sorted(said, key=lambda key: FATES.index(key[0])), lambda key: key[0]
    ):
        for key in group:
            yield _row("", fate, said[key], key[1])


def _row(path: str, fate: str, attributes: list[str], words: str) -> str:
    element = f"`{path}`" if path else ""
    names = ", ".join(f"`{name}`" for name in attributes)
    return f"| {element} | {NAMES[fate]} | {names} | {words.replace('<', '&lt;')} |"


def elements(page: str) -> str:
    """The text of elements.md with its tables."""
    return f"{page.partition(MARK)[0]}{MARK}\n\n{tables()}"


def coming_from(page: str) -> str:
    """The text of coming_from.md with its tables, of which each is between two marks."""
    head, *parts = page.split(MARK)
    urdf = list(_unread("urdf"))
    of_drake = [row for row in urdf if "drake:" in row]
    lists = [[row for row in urdf if row not in of_drake], [*_unread("mjcf")], of_drake]
    made = [
        f"{MARK}\n\n"
        + "\n".join(["| element or attribute | here |", "|---|---|", *rows])
        + f"\n\n{END}{part.partition(END)[2]}"
        for rows, part in zip(lists, parts, strict=True)
    ]
    return head + "".join(made)


def _unread(name: str) -> Iterator[str]:
    """A row for each element, or each kind of its attributes, that is not read but has a meaning."""
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for path, entry in table_of(name).entries.items():
        for attribute, row in {"": entry.row, **entry.attributes}.items():
            if row.fate not in ("read", "none"):
                of_words = rows.setdefault((NAMES[row.fate], row.words), {})
                of_words.setdefault(attribute, []).append(path)
    for (fate, words), named in rows.items():
        what = [
            f"`{place}`{', ' * bool(attribute)}{_code(attribute)}"
            for attribute, paths in named.items()
            for place in _together(paths)
        ]
        yield f"| {'; '.join(what)} | {fate}: {words.replace('<', '&lt;')} |"
    yield from _meaningless(table_of(name))


def _meaningless(table: FormatTable) -> Iterator[str]:
    """A row for each section of a format, or Drake's in it: things that are no part of a model."""
    rows: dict[tuple[str, bool], dict[str, set[str]]] = {}
    for path, entry in table.entries.items():
        above, _, tag = path.rpartition("/")
        around = table.entries.get(above)
        if around is not None and around.row.fate != "read":
            continue  # it is said of the element around it
        alone = [tag] if entry.row.fate == "none" else []
        own = [name for name, row in entry.attributes.items() if row.fate == "none"]
        for name in alone or (own if entry.row.fate == "read" else []):
            place = above if alone else path
            key = place.partition("/")[0], "drake:" in name
            rows.setdefault(key, {}).setdefault(place, set()).add(name)
    for (section, _), named in rows.items():
        if len(named) > 4:  # as of actuators, which share most
            named = {f"{section}/*": set().union(*named.values())}
        what = [
            f"{f'`{place}`' if place else 'a file'}: {', '.join(map(_code, sorted(names)))}"
            for place, names in named.items()
        ]
        yield f"| {'; '.join(what)} | nothing: no part of a model |"


def _together(paths: list[str]) -> list[str]:
    """Paths of elements; those of many elements in one section by the section."""
    sections = dict.fromkeys(path.partition("/")[0] for path in paths)
    if len(paths) > 4:
        return [f"{section}/*" for section in sections]
    return paths


def _code(attribute: str) -> str:
    """An attribute, or a case of one in words."""
    return attribute if " " in attribute or not attribute else f"`{attribute}`"


if __name__ == "__main__":
    for file, make in ((PAGE, elements), (OTHERS, coming_from)):
        file.write_text(make(file.read_text(encoding="utf8")), encoding="utf8")
