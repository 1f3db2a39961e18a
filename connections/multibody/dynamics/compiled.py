"""The compiled functions by name, each compiled (or read from Numba's cache) at its first use.

If the arguments are not exactly float64 arrays of the right dimensions, a call raises `TypeError`;
`Program.evaluate` then converts them, or raises the error that says what is wrong.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from functools import partial
from typing import Any

import numpy as np

from connections.multibody.dynamics.table import RECURSIONS

# The solvers of loops and of motions: the module of each, and the types of its arguments. 1, 2, 3 is a
# float64 array of so many axes, i1 an int64 array, f a float, b a boolean; m, l and c are the arrays of the
# tree, the loops and the clusters, and w is a workspace for several configurations. Every compiled function
# returns whether the input was good, or an integer that is zero if it was.
SOLVERS: dict[str, tuple[str, str]] = {
    "closure_at": ("loop_entries", "l 1 1 1"),
    "closure_rows": ("loop_entries", "l 2 2 2"),
    "bias_rates_at": ("loop_entries", "l 1 1 1"),
    "bias_rates_rows": ("loop_entries", "l 2 2 2"),
    "conditions_at": ("loop_entries", "l 1 1 2 2 2"),
    "motion_at": ("motion", "m 2 f f 1 1 2"),
    "linear_at": ("motion", "m 2 f 3 1 1 2"),
}
_lock = threading.Lock()


class Compiled:
    """Functions as attributes, for one configuration (``_at``) and for rows of them (``_rows``).

    The first call of each compiles it, or reads it from Numba's cache.
    """

    def __init__(self) -> None:
        self._ready: set[str] = set()
        recursions = [f"{name}_{kind}" for name in RECURSIONS for kind in ("at", "rows")]
        for name in (*recursions, *SOLVERS):
            setattr(self, name, partial(self._first_call, name))

    def __getattr__(self, name: str) -> Any:  # for type checkers: the functions are set by name
        raise AttributeError(name)

    def _first_call(self, name: str, *arguments: Any) -> Any:
        return self.require(name)(*arguments)

    def require(self, name: str) -> Any:
        """The compiled function `name`: one of `SOLVERS`, or a recursion's, as `entries.entry` names it."""
        if name in self._ready:
            return getattr(self, name)
        with _lock:
            if name not in self._ready:
                function, arguments, trial = _solver(name) if name in SOLVERS else _recursion(name)
                function.compile(_signature(arguments))
                if not _is_good(function(*trial)):
                    function.recompile()  # the machine code that Numba found on disk is of other sources
                function.disable_compile()  # other types raise TypeError instead of compiling again
                _show_foreign_arrays(function, len(trial))
                setattr(self, name, function)
                self._ready.add(name)
        return getattr(self, name)


def _solver(name: str) -> tuple[Any, str, list[Any]]:
    """A solver, the types of its arguments, and arguments for a trial call."""
    module, arguments = SOLVERS[name]
    home = importlib.import_module(f"connections.multibody.kernels.{module}")  # imports Numba
    return getattr(home, name), arguments, _trial(arguments)


def _recursion(name: str) -> tuple[Any, str, list[Any]]:
    """A recursion's entry, the types of its arguments, and arguments for a trial call."""
    from connections.multibody.dynamics.entries import entry  # imports Numba

    recursion, kind = name.removeprefix("closed_").rsplit("_", 1)
    row = RECURSIONS[recursion]
    closed, choice = name.startswith("closed_"), " b" * row.body_factor
    vectors = 1 + len(row.vectors) + (closed and row.bias_rates)
    core = row.core(0, 0)
    if kind == "at":
        arguments = ("m l c b" if closed else "m") + " 1" * vectors + choice + f" {len(core)}"
        return entry(name), arguments, [*_trial(arguments)[:-1], np.zeros(core)]
    arguments = ("m l c b w i1" if closed else "m w i1") + " 2" * vectors + choice + " 2"
    return entry(name), arguments, _trial(arguments)


def _signature(arguments: str) -> Any:
    from numba import boolean, float64, int64

    arrays = {"m": float64[::1], "1": float64[::1], "2": float64[:, ::1], "3": float64[:, :, ::1]}
    arrays |= {"l": arrays["1"], "c": arrays["1"], "w": arrays["2"]}
    kinds = arrays | {"i1": int64[::1], "f": float64, "b": boolean}
    return tuple(kinds[argument] for argument in arguments.split())


def _is_good(result: bool | int) -> bool:
    return result if isinstance(result, bool) else result == 0


def _show_foreign_arrays(function: Any, count: int) -> None:
    """Call a compiled function once with arrays of the other byte order, which Numba refuses.

    Numba looks up the type of an unusual array by a fingerprint that contains neither byte order nor
    alignment, so the first array with a fingerprint decides for all later ones. After this call they are all
    refused.
    """
    swapped = np.dtype(np.float64).newbyteorder()
    for dimensions in (1, 2, 3):
        foreign = np.zeros((1,) * dimensions, swapped)
        with contextlib.suppress(TypeError):
            function(*[foreign] * count)


def _trial(arguments: str) -> list[Any]:
    """Empty arguments for a trial call; only a function with the current fingerprint accepts them."""
    from connections.multibody.dynamics.cluster_packing import no_clusters
    from connections.multibody.dynamics.loop_packing import no_closure
    from connections.multibody.dynamics.tree_packing import no_tree
    from connections.multibody.kernels.simd import LANES

    nothing: dict[str, Any] = {"1": np.zeros(0), "2": np.zeros((0, 0)), "3": np.zeros((3, 0, 0))}
    nothing |= {
        "m": no_tree(),
        "l": no_closure(),
        "c": no_clusters(),
        "w": np.zeros((1, LANES)),
        "i1": np.zeros(0, np.int64),
        "f": 0.0,
        "b": False,
    }
    return [nothing[argument] for argument in arguments.split()]


compiled = Compiled()
