"""The figure of an object that knows no room that draws: a function that `connections` registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DRAWN_BY: list[Callable[..., Any]] = []


def register(function: Callable[..., Any]) -> None:
    """Have motions drawn by `function`: motion and options -> a matplotlib Figure."""
    _DRAWN_BY[:] = [function]


def figure_of(motion: Any, **options: Any) -> Any:
    """The figure of a motion or history, with the options of `plots.figure_motion` or `figure_history`."""
    return _DRAWN_BY[0](motion, **options)
