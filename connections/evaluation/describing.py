"""The ``repr`` of objects: three lines that fit 80 columns, and a table in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from connections.checks import html_table
from connections.evaluation.parameters import ParametricFunction

WIDTH = 80
_FEW = 6  # largest number of entries of an array that a line shows; of larger arrays it shows the shape
IN_TABLE = 36  # largest number of entries that a table shows


class Described:
    """An object in a frame that shows its kind and size, its frame, and its parts.

    A subclass that is a dataclass says ``repr=False``.
    """

    frame: Any

    def __repr__(self) -> str:
        text = "; ".join(f"{name}: {part}" for name, part in parts_of(self))
        lines = [heading_of(self), f"  frame: {short_text(self.frame)}", f"  {text}"]
        return "\n".join(cut_to_width(line) for line in lines if line.strip())

    def _repr_html_(self) -> str:
        rows = [("frame", short_text(self.frame)), *parts_of(self, IN_TABLE), *self._rows()]
        return html_table(heading_of(self), rows)

    def _rows(self) -> list[tuple[str, str]]:
        """Rows that a subclass adds to the table."""
        return []


def heading_of(thing: Any) -> str:
    """The kind and size of an object in a frame."""
    n, nq = thing.frame.dim, thing.frame.ambient_dim
    return f"{type(thing).__name__}, n = {n}" + (f" in {nq} coordinates" if nq != n else "")


def parts_of(thing: Any, few: int = _FEW) -> list[tuple[str, str]]:
    """(name, short text) of each public attribute but the frame; arrays of at most `few` entries in full."""
    names = [name for name in thing.__dict__ if not name.startswith("_") and name != "frame"]
    parts = ((name.removesuffix("_function"), short_text(getattr(thing, name), few)) for name in names)
    return [(name, part) for name, part in parts if part]


def cut_to_width(line: str) -> str:
    """The line, cut to the width of a terminal."""
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..."


def short_text(value: Any, few: int = _FEW) -> str:
    """Short text of an attribute's value, arrays of at most `few` entries in full; empty for None."""
    if value is None:
        return ""
    if isinstance(value, jax.core.Tracer):
        return f"traced {value.shape}"
    if isinstance(value, float | int | str | np.floating):
        return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
    if isinstance(value, np.ndarray | jax.Array):
        if value.size <= few:
            text = np.array2string(np.asarray(value), precision=4, separator=", ")
            if few > _FEW or "\n" not in text:
                return text
        return f"array {value.shape}"
    if isinstance(value, ParametricFunction):
        return f"{short_text(value.function)} with parameters"
    if callable(value) and not hasattr(value, "frame"):
        return _name_of(value)
    return repr(value) if not isinstance(value, Described) and len(repr(value)) < 40 else type(value).__name__


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None) or type(function).__name__
    return "a lambda" if name == "<lambda>" else str(name)
