"""Compiled functions of the law and of tasks, each compiled or read from the cache at its first call."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.engines.notices import announce_compilation
from connections.engines.registry import Registry

_SECONDS = {
    "best": 9,
    "task_rows": 2,
    "outward": 1,
    "bounded": 1,
    "program": 1,
    "narrowed": 1,
    "group_error": 1,
}
# The kinds of arguments: 1, 2 are float64 arrays of so many axes, i an int64 array, f a float, b a boolean.
_ARGUMENTS = {
    "best": "2 1 1 2 2 2 2 2 2 2 1 i i 1 b 2 2 f b 1 i f 2 i i i 2 f 1 1 1 1 1 2 2 1 2 2 2 1 2 1 1 1 i",
    "task_rows": "2 1 2 2 2 2 2 2 2 1 i 2 2 1",
    "outward": "1 1 2 i f 2 1 1 1",
    "bounded": "1 2 2 2 f 2 i i 1 1 1 1 1 2 2",
    "program": "2 1 1 2 2 1 2 2 f f b 2 2 1 2 2",
    "narrowed": "2 2 2",
    "group_error": "2 2 1 1 1 2 1 2 1 1 1 1",
}


def _find(name: str) -> tuple[Any, list[Any]]:
    from connections.control.whole_body import compiled_law, group_errors  # import Numba

    nothing: dict[str, Any] = {
        "1": np.zeros(0),
        "2": np.zeros((0, 0)),
        "i": np.zeros(0, np.int64),
        "f": 1.0,
        "b": False,
    }
    module = group_errors if name == "group_error" else compiled_law
    return getattr(module, name), [nothing[kind] for kind in _ARGUMENTS[name].split()]


compiled = Registry(
    _ARGUMENTS,
    _find,
    lambda name: announce_compilation(f"the whole-body law ({name})", _SECONDS[name]),
)
