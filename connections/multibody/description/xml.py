"""The elements of a robot description, read once and strictly, with limits before any of them is built.

Text between elements has no meaning in a robot description, and is not kept, but in elements of `_WITH_TEXT`.
Elements know their lines, for messages.
A document type (``<!DOCTYPE>``) is refused, because it can define what attributes and entities mean, which
other readers ignore.

Files are read that readers of robots read, though they are not XML to the letter: with names whose prefix is
not declared, and with blank lines before ``<?xml ...?>``.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.parsers import expat

from connections.checks import ModelError
from connections.multibody.description.files import MOST_BYTES, Text, content_of

MOST_ELEMENTS = 10**5
MOST_DEPTH = 100  # elements inside of each other
MOST_NAME = 1000  # characters of the name of an element or attribute
MOST_VALUE = 10**4  # characters of an attribute that is not a list of numbers
_MEGABYTES = f"{MOST_BYTES // 10**6} MB"
MOST_TEXT = 1000  # characters between elements that are kept
_WITH_TEXT = frozenset(
    "mechanicalReduction parent child pose xyz use_parent_model_frame turnGravityOff gravity kinematic "
    "static springStiffness springReference dampingFactor velocity_decay enable_wind".split()
)  # ROS's, and those of Gazebo and SDF
_DECLARED = re.compile(rb"""<\?xml\b[^>]*?\bencoding\s*=\s*["']([A-Za-z0-9._-]+)""")
_NUMBERS = re.compile(r"[0-9eE+.\s-]*")


def read_root(path: Path | Text, tag: str, form: str) -> Element:
    """The root element of an XML file or text; names without a prefix are plain, whatever ``xmlns`` says.

    Parameters
    ----------
    path : the file, whose existence `file_of` checks, or the text.
    tag : the name that the root element must have.
    form : the name of the format, for the message.

    Raises
    ------
    ModelError : as `parse_file`; another root element.
    """
    root, _ = parse_file(path)
    if root.tag != tag:
        raise ModelError(f"not {form}: the root element is <{root.tag}>, not <{tag}>")
    return root


def parse_file(path: Path | Text, most: int = MOST_BYTES, depth: int = MOST_DEPTH) -> tuple[Element, bytes]:
    """The root element of an XML file, and its content.

    Parameters
    ----------
    path : the file or text.
    most : bytes that are left of `MOST_BYTES`.
    depth : the most elements inside of each other.

    Raises
    ------
    ModelError : not a regular file, or larger; malformed XML, an encoding that cannot be read; more or longer
        elements than the limits of this module.
    """
    content = content_of(path, most)
    if content is None:
        raise ModelError(f"larger than {_MEGABYTES}, the most that is read of a robot description")
    return parse(content, depth, None if isinstance(path, Path) else path.encoding), content


def in_utf8(content: bytes) -> bytes:
    """A text that `parse` reads, in UTF-8 in place of the encoding that it declares.

    Raises
    ------
    ModelError : it is not in that encoding.
    """
    start = content.lstrip()
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encoding = "utf-16"
    elif b"\0" in start[:2]:
        encoding = "utf-16-be" if start.startswith(b"\0") else "utf-16-le"
    else:
        declared = _DECLARED.match(start)
        encoding = declared[1].decode() if declared else "utf-8"
    try:
        return content.decode(encoding).encode()
    except UnicodeError as error:
        raise ModelError(f"malformed XML: {error}") from error


def parse(content: bytes, depth: int = MOST_DEPTH, encoding: str | None = None) -> Element:
    """The root element of a text in XML.

    Parameters
    ----------
    content : the text.
    depth : the most elements inside of each other.
    encoding : in place of the one that the text declares.

    Raises
    ------
    ModelError : as `parse_file`; the message has the line.
    """
    blank = content[: len(content) - len(content.lstrip())]
    builder = _Builder(depth, blank.count(b"\n"), encoding)
    try:
        # Parsed at once, because in blocks the time for a long name or comment grows with its square.
        builder.parser.Parse(content[len(blank) :], True)
    except ModelError:  # a ValueError, of the builder
        raise
    except expat.ExpatError as error:
        where = f"line {builder.line}, column {error.offset}"
        raise ModelError(f"malformed XML: {expat.ErrorString(error.code)}: {where}") from error
    except (LookupError, ValueError) as error:
        raise ModelError(f"malformed XML: {error}") from error
    return builder.root


class Located(ElementTree.Element):
    """An element with the line of the file at which it begins."""

    line = 0


def line_of(element: Element) -> int:
    """The line of the file at which an element begins; 0 if it was not read from one."""
    return element.line if isinstance(element, Located) else 0


class _Builder:
    """The tree, from what expat reports while it reads; an element beyond the limits ends the reading."""

    root: Element

    def __init__(self, depth: int, above: int, encoding: str | None = None) -> None:
        self.parser = expat.ParserCreate(encoding)
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype
        self._open: list[Element] = []
        self._depth, self._above, self._count = depth, above, 0
        self._namespaces: dict[str, str] = {}

    @property
    def line(self) -> int:
        """The line of the file that is being read."""
        return self.parser.CurrentLineNumber + self._above

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > MOST_ELEMENTS:
            raise self._error(f"more than {MOST_ELEMENTS:,} elements")
        if len(self._open) >= self._depth:
            raise self._error(f"elements are more than {self._depth} deep inside of each other")
        for name in (tag, *attributes):
            if len(name) > MOST_NAME:
                raise self._error(f"a name of more than {MOST_NAME:,} characters: {name[:40]}...")
        for name, value in attributes.items():
            if len(value) > MOST_VALUE and _NUMBERS.fullmatch(value) is None:
                raise self._error(f"<{tag} {name}=...> has more than {MOST_VALUE:,} characters")
        for name in [name for name in attributes if name == "xmlns" or name.startswith("xmlns:")]:
            self._namespaces[name[6:]] = attributes.pop(name)
        element = Located(self._name(tag), {self._name(name): value for name, value in attributes.items()})
        element.line = self.line
        if self._open:
            self._open[-1].append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, tag: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        element = self._open[-1]
        if element.tag.rpartition("}")[2] in _WITH_TEXT:
            element.text = (element.text or "") + text
            if len(element.text) > MOST_TEXT:
                raise self._error(f"<{element.tag}> has more than {MOST_TEXT:,} characters")

    def _doctype(self, name: str, system: str | None, public: str | None, inside: int) -> None:
        raise self._error(f"<!DOCTYPE {name[:40]}>: a robot description is read without a document type")

    def _error(self, reason: str) -> ModelError:
        return ModelError(f"line {self.line}: {reason}")

    def _name(self, name: str) -> str:
        """A name as ElementTree writes it, ``{namespace}name``; a prefix that is not declared is its own."""
        prefix, _, local = name.rpartition(":")
        return f"{{{self._namespaces.get(prefix, prefix)}}}{local}" if prefix else name
