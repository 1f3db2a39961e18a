"""Compiled functions by name: entries of recursions, solvers of loops and of motions (`engines.registry`).

Every one returns whether the input was good, or an integer that is zero if it was.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from connections.engines.notices import announce_compilation
from connections.engines.registry import Registry
from connections.engines.workspaces import with_workspace
from connections.multibody.program.table import RECURSIONS

# The solvers of loops and of motions: what each is, about how many seconds compiling takes, the module, and
# the kinds of its arguments. 1, 2, 3 is a float64 array of so many axes, i1 an int64 array, f a float, i an
# integer, b a boolean; m, l and c are the arrays of the tree, the loops and the clusters, and w is a
# workspace for several configurations.
SOLVERS = {
    "closure_at": ("the solver of loops", 9, "loop_entries", "l 1 1 1"),
    "closure_rows": ("the solver of loops (batch)", 11, "loop_entries", "l 2 2 2"),
    "closure_rest": ("loops whose branches cross", 20, "loop_entries", "l 2 2 2 2"),
    "closure_fine": ("loops nearly singular", 6, "loop_entries", "l 2 2"),
    "bias_rates_at": ("derivatives of loops", 6, "loop_entries", "l 1 1 1"),
    "bias_rates_rows": ("derivatives of loops (batch)", 6, "loop_entries", "l 2 2 2"),
    "conditions_at": ("the conditions of loops", 2, "loop_entries", "l 1 1 2 2 2"),
    "motion_at": ("free motion", 5, "motion_steps", "m 2 f 1 1 2"),
    "motion_rows": ("free motion (batch)", 6, "motion_steps", "m w 2 1 2 2 3"),
    "variational_rows": ("variational steps", 10, "variational", "m 2 2 2 2 1 2"),
    "loop_steps_rows": ("variational steps of loops", 18, "loop_variational", "m l c 2 2 2 2 2 1 2 2 2"),
    "momentum_derivatives_rows": ("derivatives of discrete momenta", 6, "step_derivatives", "m 2 2 2 2"),
    "geodesic_at": ("geodesics with their derivatives", 12, "geodesic_shots", "m 1 2 1 2 1 2 3 1"),
    "judge": ("step control", 1, "motion_steps", "3 3 3 2 1 3"),
    "linear_at": ("transport along motions", 1, "motion_steps", "2 f 3 1 1 2"),
}
# The same time for recursions, which differ little: for one configuration (at) and for batches (rows), of
# trees and of closed chains. `tests/benchmarks/compilation.py` measures processor time on one machine; it may
# be half or twice that on another.
SECONDS = {"at": 4, "rows": 5, "closed_at": 7, "closed_rows": 8}


def _find(name: str) -> tuple[Any, list[Any]]:
    """A compiled function, and arguments of the types that it is compiled for."""
    if name in SOLVERS:
        _, _, module, arguments = SOLVERS[name]
        home = importlib.import_module(f"connections.multibody.kernels.{module}")  # imports Numba
        return getattr(home, name), _empty(arguments)
    recursion, kind = _parts(name)
    row, closed = RECURSIONS[recursion], name.startswith("closed_")
    choice = f" {row.choice.kind}" if row.choice else ""
    vectors, core = 1 + len(row.vectors) + (closed and row.bias_rates), row.core(0, 0)
    if kind == "at":
        arguments = ("m l c b" if closed else "m") + " 1" * vectors + choice
        return _entry(name), [*_empty(arguments), np.zeros(core)]
    return _entry(name), _empty(("m l c b w i1" if closed else "m w i1") + " 2" * vectors + choice + " 2")


@functools.cache
def _entry(name: str) -> Any:
    """The entry of a recursion, with its kernel."""
    from connections.multibody.program.entries import entry  # imports Numba

    recursion, _ = _parts(name)
    row = RECURSIONS[recursion]
    file = row.closed if name.startswith("closed_") else row.kernel
    kernel = getattr(importlib.import_module(f"connections.multibody.kernels.{file}"), recursion)
    return entry(name, row, kernel)


def _parts(name: str) -> tuple[str, str]:
    """The recursion of an entry, and its kind."""
    recursion, kind = name.removeprefix("closed_").rsplit("_", 1)
    return recursion, kind


def _empty(arguments: str) -> list[Any]:
    from connections.engines.inlined.simd import LANES
    from connections.multibody.kernels.layout import CLOSURE, CLUSTERS, FRAME, PARAMETERS, TREE

    tree = TREE.empty(PARAMETERS.size)
    nothing: dict[str, Any] = {
        "1": np.zeros(0),
        "2": np.zeros((0, 0)),
        "3": np.zeros((3, 0, 0)),
        "m": with_workspace(tree, TREE.read(tree, "result")),
        "l": CLOSURE.empty(),
        "c": CLUSTERS.empty(),
        "w": np.zeros((1, LANES)),
        "i1": np.zeros(0, np.int64),
        "frame": np.zeros(FRAME.size),  # of the ground
        "f": 0.0,
        "b": False,
        "i": 0,
    }
    return [nothing[argument] for argument in arguments.split()]


def description(name: str) -> str:
    """The words for the compiled function `name`, for messages."""
    if name in SOLVERS:
        return SOLVERS[name][0]
    recursion, kind = _parts(name)
    tags = ["loops"] * name.startswith("closed_") + ["batch"] * (kind == "rows")
    return f"{recursion} ({', '.join(tags)})" if tags else recursion


def seconds(name: str) -> int:
    """The time, about so many seconds, that the function `name` takes to compile."""
    if name in SOLVERS:
        return SOLVERS[name][1]
    return SECONDS["closed_" * name.startswith("closed_") + name.rsplit("_", 1)[1]]


def _announce(name: str) -> None:
    announce_compilation(description(name), seconds(name))


_ENTRIES = [
    f"{closed}{name}_{kind}"
    for closed in ("", "closed_")
    for name, row in RECURSIONS.items()
    for kind in ("at", "rows")
    if not closed or row.closed is not None
]
compiled = Registry([*SOLVERS, *_ENTRIES], _find, _announce)
