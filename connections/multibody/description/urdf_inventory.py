"""Elements and attributes of a URDF file that are not read; ``formats/urdf.toml`` lists all.

A warning gives the name and line of each that the table does not have. It is an error, which says where it
belongs, if its name has a meaning in another place: an attribute ``axis`` of a joint would turn its motion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from connections._shown import shown
from connections.checks import ModelError
from connections.multibody.description.format_table import (
    NONE,
    PASSIVE,
    READ,
    REFUSED,
    WARNED,
    Entry,
    FormatRow,
    table_of,
)
from connections.multibody.description.left_out import LeftOut
from connections.multibody.description.xml import line_of

NOT_KNOWN = "not known, nothing is made of it"
_ANYWHERE = ("name", "type", "value", "link", "joint", "reference")  # attributes that say nothing of a place
_TOPS = ("link", "joint")
_OF_SEVERAL = "limit of a planar or floating joint"
_NO_TURN = ("axis", "rpy", "0 0 0")  # as some exporters write it


def left_out_of(root: Element) -> list[LeftOut]:
    """The things that are in a file and not in the model, in the order of the file.

    Parameters
    ----------
    root : the ``<robot>``, whose links and joints are complete.

    Raises
    ------
    ModelError : an element or attribute is refused, or stands where it has no meaning; the message names it,
        its line, and what to write.
    """
    return [found for element in root for found in _visit(element, "", "")] + list(
        _attributes(root, "", "<robot>")
    )


def name_of(tag: str) -> str:
    """The name of an element or attribute, with the prefix under which Drake or Gazebo document it."""
    namespace, _, local = tag.rpartition("}")
    if not namespace:
        return local
    return f"{'drake' if 'drake' in namespace else re.split('[{#/]', namespace)[-1]}:{local}"


def _visit(element: Element, above: str, owner: str) -> Iterator[LeftOut]:
    """The things that are left out of an element, and of the elements inside of it."""
    name, lines = name_of(element.tag), (line_of(element),)
    path = f"{above}/{name}" if above else name
    own = element.get("name") or element.get("reference")
    if not above:
        owner = f"{name} '{shown(own)}'" if own else f"<{name}>"
    entry = table_of("urdf").entry(path)
    if entry is None:
        what = f"{owner}, line {lines[0]}: <{name}>" if above else f"line {lines[0]}: <{name}>"
        _require_no_other_place(what, above, name, list(element.attrib.values()), False)
        yield LeftOut(owner, NOT_KNOWN, lines, f"<{name}>" if above or own else "")
        return
    value = " ".join([element.text or "", element.get("value") or ""]).strip()
    if entry.row.fate == REFUSED and not (value and _is_neutral(entry, value)):
        raise ModelError(f"{owner}, line {lines[0]}: <{name}> is not read: {entry.row.words}")
    if entry.row.fate in (WARNED, PASSIVE) and not (value and _is_neutral(entry, value)):
        where = f"<{name}>" if above or own else ""
        yield LeftOut(owner, entry.row.words, lines, where, entry.row.fate == PASSIVE)
    if entry.below:
        return
    yield from _attributes(element, path, owner)
    still = path == "joint" and element.get("type") == "fixed"
    several = path == "joint" and element.get("type") in ("planar", "floating")
    for part in element:
        if several and part.tag == "limit" and any(_number(each) != 0.0 for each in part.attrib.values()):
            words = table_of("urdf").row("joint/limit", _OF_SEVERAL).words
            yield LeftOut(owner, words, (line_of(part),), "<limit>")
        if not (still and part.tag == "dynamics"):  # what does not move has no friction
            yield from _visit(part, path, owner)


def _attributes(element: Element, path: str, owner: str) -> Iterator[LeftOut]:
    entry, tag, lines = table_of("urdf").entry(path or "robot"), name_of(element.tag), (line_of(element),)
    assert entry is not None  # `_visit` has found it
    for key, value in element.items():
        name = name_of(key)
        if name == "value" and entry.row.fate in (WARNED, PASSIVE):
            continue  # `_visit` has read it
        row = entry.attributes.get(name)
        where = f"<{tag} {shown(name, 80)}=...>"
        if row is None:
            if (tag, name, value) == _NO_TURN:
                continue
            what = f'{owner}, line {lines[0]}: <{tag} {shown(name, 80)}="{shown(value, 80)}">'
            if entry.strict:
                known = ", ".join(entry.attributes)
                raise ModelError(f"{owner}, line {lines[0]}: {where} is not known; <{tag}> has {known}")
            _require_no_other_place(what, path, name, [value], True)
            yield LeftOut(owner, NOT_KNOWN, lines, where)
        elif row.fate == REFUSED:
            raise ModelError(f"{owner}, line {lines[0]}: {where} is not read: {row.words}")
        elif row.fate in (WARNED, PASSIVE) and not _is_neutral(entry, value):
            yield LeftOut(owner, row.words, lines, where, row.fate == PASSIVE)


def _is_neutral(entry: Entry, value: str) -> bool:
    """Whether a warned element or attribute does nothing with this value."""
    words = value.lower().split()
    return bool(words) and all(
        word in entry.neutral or _number(word) in map(_number, entry.neutral) for word in words
    )


def _number(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word


def _require_no_other_place(what: str, path: str, name: str, values: list[str], is_attribute: bool) -> None:
    """Raise `ModelError` for a name that means nothing where it stands, and something in another place."""
    if any(_fate(each) != READ for each in _above(path)):
        return
    if values and all(_number(word) == 0.0 for value in values for word in value.split()):
        return  # whatever it is, it is zero
    places = list(dict.fromkeys(_places(path.partition("/")[0], name, is_attribute)))
    if places:
        raise ModelError(f"{what} has no meaning there; write {' or '.join(places)}")


def _places(top: str, name: str, is_attribute: bool) -> Iterator[str]:
    """Where an element or attribute of this name is read, in words, within the same link or joint."""
    for path, entry in table_of("urdf").entries.items():
        above, _, tag = path.rpartition("/")
        first = path.partition("/")[0]
        if first not in _TOPS or entry.row.fate != READ:
            continue
        if tag == name and (not is_attribute or first == top or top not in _TOPS):
            yield f"<{name} ...> in <{above.rpartition('/')[2] or 'robot'}>"
        known = entry.attributes.get(name, FormatRow("")).fate == READ
        if known and name not in _ANYWHERE and (first == top or top not in _TOPS):
            yield f'<{tag} {name}="...">'


def _above(path: str) -> list[str]:
    """The paths of an element and of those around it."""
    parts = path.split("/") if path else []
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _fate(path: str) -> str:
    entry = table_of("urdf").entry(path)
    return NONE if entry is None else entry.row.fate
