"""BibTeX of the papers behind what was used, by the keys of docstrings and of `docs/references.md`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from connections._distribution import NAME, version
from connections._docstrings import docstring_of


class Paper(NamedTuple):
    """An entry of BibTeX.

    Parameters
    ----------
    kind : article, inproceedings, book or misc.
    fields : of BibTeX.
    words : a regular expression of another way in which docstrings name it, beside its key in brackets.
    """

    kind: str
    fields: dict[str, str]
    words: str = ""

    def bibtex(self, key: str) -> str:
        """The entry."""
        lines = [f"  {name} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.kind}{{{key},", *lines, "}"])


@cache
def papers() -> dict[str, Paper]:
    """The entries of `papers.bib` by their keys; one field stands on a line."""
    text = (files(__package__) / "papers.bib").read_text(encoding="utf8")
    found = {}
    for kind, key, lines in re.findall(r"^@(\w+)\{(\w+),\n(.*?)^\}$", text, re.MULTILINE | re.DOTALL):
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", lines, re.MULTILINE))
        words = fields.pop("words", "")
        found[key] = Paper(kind, fields, words)
    return found


_FOLLOWED = ("W", "W2", "E", "B", "Z")  # the papers that the whole library follows


def citation(*used: Any) -> None:
    """Print BibTeX of this software and of the papers behind what was used.

    Parameters
    ----------
    used : functions, classes, modules or objects of the library, such as ``mb.coriolis_matrix``, a connection
        or a controller; without any, the four papers that the whole library follows are printed, the first in
        both versions.

    Raises
    ------
    TypeError : something is not of this library.

    Examples
    --------
    >>> import connections as cn
    >>> cn.citation(cn.logarithm)
    @software{connections,
      title = {connections (affine-connections), version ...},
      author = {{The connections developers}},
    }

    Source: the lines "Source:" of their docstrings.
    """
    keys = dict.fromkeys(key for thing in used for key in _keys(thing)) if used else dict.fromkeys(_FOLLOWED)
    fields = {"title": f"connections ({NAME}), version {version()}", "author": "{The connections developers}"}
    print("\n\n".join([Paper("software", fields).bibtex("connections"), *map(_entry, keys)]))


def _entry(key: str) -> str:
    return papers()[key].bibtex(f"connections-{key}")


def _keys(thing: Any) -> Iterator[str]:
    """Keys of the papers that the docstrings of a thing, of its classes and of its module name."""
    named = isinstance(thing, type) or inspect.isroutine(thing) or inspect.ismodule(thing)
    own = thing if named else type(thing)
    classes = own.__mro__ if isinstance(own, type) else (own,)
    sources = [each for each in (*classes, inspect.getmodule(own)) if each is not None and _is_ours(each)]
    if not sources:
        raise TypeError(f"used: {own!r} is not of connections: give its functions, classes or objects")
    for text in (" ".join(docstring_of(each).split()) for each in sources):
        keys = set(re.findall(r"\[([A-Z][A-Za-z]*2?)\]", text))
        yield from (
            key
            for key, paper in papers().items()
            if key in keys or (paper.words and re.search(paper.words, text))
        )


def _is_ours(thing: Any) -> bool:
    name = thing.__name__ if inspect.ismodule(thing) else thing.__module__
    return bool(name) and name.split(".")[0] == "connections"
