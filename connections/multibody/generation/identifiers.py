"""Names of a model as identifiers of C."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from connections._words import words_of
from connections.checks import ModelError

_KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int
    long register restrict return short signed sizeof static struct switch typedef union unsigned void
    volatile while asm bool true false class new delete this template typename namespace using try catch throw
    public private protected virtual operator friend mutable explicit export main""".split()
)


def identifier(text: str) -> str:
    """A text in letters, digits and underscores: without accents, each run of other signs an underscore."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"\W+", "_", plain).strip("_")


def identifiers(kind: str, names: Iterable[str]) -> dict[str, str]:
    """Names -> identifiers in capitals.

    Raises
    ------
    ModelError : two names become the same identifier, or a name has no letter and no digit.
    """
    found: dict[str, str] = {}
    for name in names:
        own = identifier(name).upper()
        if not own:
            raise ModelError(
                f"{kind} '{name}' cannot be written in C: it has no letter and no digit of ASCII"
            )
        if own in found:
            raise ModelError(
                f"{kind}s '{found[own]}' and '{name}' have the same name in C, {own}; rename one"
            )
        found[own] = name
    return {name: own for own, name in found.items()}


def robot_name(name: Any, folder: Path) -> str:
    """The name with which all names in C begin, by default that of the folder.

    Raises
    ------
    TypeError, ValueError : it is no text, or no identifier of C.
    """
    if name is None:
        found = identifier(folder.resolve().name).lower()
        if not _is_identifier(found):
            raise ValueError(f"name: the folder's name, {folder.name!r}, is no identifier of C; give a name")
        return found
    if not isinstance(name, str):
        raise TypeError(f"name: expected a text, got {words_of(name)}")
    if not _is_identifier(name):
        raise ValueError(f"name: expected an identifier of C, such as ur5_arm, got {name!r}")
    return name


def _is_identifier(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", text, re.ASCII)) and text not in _KEYWORDS
