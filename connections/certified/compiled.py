"""Compiled functions of boxes, each compiled or read from the cache at its first call."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.engines.notices import announce_compilation
from connections.engines.registry import Registry

_SECONDS = {"local_bends_rows": 8, "largest_rows": 2, "directions_rows": 2, "smallest_rows": 3}
# The kinds of arguments: 1 to 4 are float64 arrays of so many axes; i and j int64 arrays of one axis and of
# two, b and c boolean ones; f is a float, t a boolean.
_ARGUMENTS = {
    "local_bends_rows": "j 2 2 2 i b c c 3 3 3 1 3 i 2 2 3 4",
    "largest_rows": "4 2 t f f 1 2 1 b",
    "directions_rows": "4 3 t 2 2",
    "smallest_rows": "4 3 b f f 1 2 2",
}


def _find(name: str) -> tuple[Any, list[Any]]:
    from connections.certified import kernels  # imports Numba

    nothing: dict[str, Any] = {str(axes): np.zeros((0,) * axes) for axes in range(1, 5)}
    nothing |= {"i": np.zeros(0, np.int64), "j": np.zeros((0, 0), np.int64)}
    nothing |= {"b": np.zeros(0, np.bool_), "c": np.zeros((0, 0), np.bool_), "f": 1.0, "t": False}
    return getattr(kernels, name), [nothing[kind] for kind in _ARGUMENTS[name].split()]


compiled = Registry(
    _ARGUMENTS,
    _find,
    lambda name: announce_compilation(f"certified constants ({name})", _SECONDS[name]),
)
