"""What an object shows of itself: three lines that fit 80 columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from connections.geometry.parameters import ParametricFunction

WIDTH = 80
_FEW = 6  # numbers that are shown; of more, the shape is


class Described:
    """An object in a frame that shows its kind and size, its frame, and its parts.

    A subclass that is a dataclass says ``repr=False``.
    """

    frame: Any

    def __repr__(self) -> str:
        frame = self.frame
        head = f"{type(self).__name__}, n = {frame.dim}"
        head += f" in {frame.ambient_dim} coordinates" * (frame.ambient_dim != frame.dim)
        names = [name for name in self.__dict__ if not name.startswith("_") and name != "frame"]
        parts = ((name, short(getattr(self, name))) for name in names)
        text = "; ".join(f"{name.removesuffix('_function')}: {part}" for name, part in parts if part)
        lines = [head, f"  frame: {short(frame)}", f"  {text}"]
        return "\n".join(
            line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..." for line in lines if line.strip()
        )


def fitting(line: str) -> str:
    """The line, cut where it would be longer than a terminal's."""
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..."


def short(value: Any) -> str:
    """A few words for a part of an object; empty for what is not there."""
    if value is None:
        return ""
    if isinstance(value, jax.core.Tracer):
        return f"traced {value.shape}"
    if isinstance(value, float | int | str | np.floating):
        return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
    if isinstance(value, np.ndarray | jax.Array):
        few = np.array2string(np.asarray(value), precision=4, separator=", ") if value.size <= _FEW else ""
        return few if few and "\n" not in few else f"array {value.shape}"
    if isinstance(value, ParametricFunction):
        return f"{short(value.function)} with parameters"
    if callable(value) and not hasattr(value, "frame"):
        return _name_of(value)
    return repr(value) if not isinstance(value, Described) and len(repr(value)) < 40 else type(value).__name__


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None) or type(function).__name__
    return "a lambda" if name == "<lambda>" else str(name)
