"""A mutant: one text of the package replaced by another, and the tests that should notice."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


class MutantError(Exception):
    """A mutant that does not fit the sources, or tests that say nothing about it."""


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Parameters
    ----------
    name : what it is called in the table and on the command line.
    file : below ``connections/``.
    text : what stands there exactly once.
    replacement : what is put there.
    tests : files or node ids below ``tests/`` that run by default, the likeliest first.
    breaks : what is wrong then.
    survives : why no test by default can notice it: it is equivalent, or within a tolerance.
    """

    name: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]
    breaks: str
    survives: str = ""

    @property
    def room(self) -> str:
        """The room of the file."""
        return self.file.partition("/")[0].removesuffix(".py")

    def source(self, root: Path) -> str:
        """The file of a checkout with the fault in it; `MutantError` if the text is not there just once."""
        path = root / "connections" / self.file
        if not path.is_file():
            raise MutantError(f"{self.name}: there is no connections/{self.file}")
        source = path.read_text(encoding="utf-8")
        count = source.count(self.text) if self.text else 0
        if count != 1:
            raise MutantError(
                f"{self.name}: its text stands {count} times in connections/{self.file}, not once: "
                f"{self.text!r}. If the line was edited, edit the mutant"
            )
        mutated = source.replace(self.text, self.replacement)
        if mutated == source:
            raise MutantError(f"{self.name}: the replacement is the text itself")
        try:
            ast.parse(mutated)
        except SyntaxError as error:
            raise MutantError(f"{self.name}: the mutant is no Python: {error}") from error
        return mutated
