"""The figure of a motion, from the room below that draws."""

from __future__ import annotations

import importlib
from typing import Any


def figure_of(motion: Any) -> Any:
    """`connections.plots.figure_motion` of a motion, a matplotlib Figure.

    The module is loaded by its name when somebody wants a figure, because plots stands below control in the
    line of rooms and imports it.
    """
    return importlib.import_module("connections.plots").figure_motion(motion)
