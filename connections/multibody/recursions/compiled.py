"""The compiled functions by name, each compiled (or read from Numba's cache) when it is first asked for.

Until then, and whenever the arguments are not exactly float64 arrays of the right dimensions, a call raises
`TypeError`; `Program.general` then makes the function ready and the arguments right.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, NoReturn

import numpy as np

# Names of the vectors that follow q, whether there is a choice of body-level factor, axes of the result.
SIGNATURES: dict[str, tuple[tuple[str, ...], bool, int]] = {
    "mass_matrix": ((), False, 2),
    "coriolis_matrix": (("v",), True, 2),
    "mass_matrix_rate": (("v",), False, 2),
    "christoffel_symbols": ((), True, 3),
    "coriolis_product": (("v", "w"), True, 1),
    "coriolis_transpose_product": (("v", "w"), True, 1),
    "inverse_dynamics": (("v", "a"), False, 1),
    "gravity": ((), False, 1),
    "forward_dynamics": (("v", "tau"), False, 1),
    "inverse_mass_matrix": ((), False, 2),
    "regressor": (("v", "v_r", "a_r"), False, 2),
}
BODY_FACTORS = {"christoffel": False, "force_cross": True}  # name -> whether its connection has torsion
_lock = threading.Lock()


class Compiled:
    """Functions as attributes, for one configuration (``_at``) and for rows of them (``_rows``)."""

    def __init__(self) -> None:
        self._ready: set[str] = set()
        for name in SIGNATURES:
            setattr(self, f"{name}_at", _not_ready)
            setattr(self, f"{name}_rows", _not_ready)

    def __getattr__(self, name: str) -> Any:  # for type checkers: the functions are set by name
        raise AttributeError(name)

    def require(self, name: str) -> Any:
        """The compiled function `name`, a recursion's name with ``_at`` or ``_rows``."""
        from connections.multibody.recursions import entries  # imports Numba

        if name in self._ready:
            return getattr(self, name)
        with _lock:
            if name not in self._ready:
                function = getattr(entries, name)
                function.compile(_signature(name))
                if not function(*_trial(name)):
                    function.recompile()  # what Numba found on disk comes from other sources
                function.disable_compile()  # other types raise TypeError instead of compiling again
                _show_foreign_arrays(function, name)
                setattr(self, name, function)
                self._ready.add(name)
        return getattr(self, name)


def _signature(name: str) -> Any:
    from numba import boolean, float64, int64

    arrays = {1: float64[::1], 2: float64[:, ::1], 3: float64[:, :, ::1]}
    recursion, kind = name.rsplit("_", 1)
    vectors, factor, axes = SIGNATURES[recursion]
    choice = (boolean,) if factor else ()
    if kind == "at":
        return (arrays[1], *[arrays[1]] * (1 + len(vectors)), *choice, arrays[axes])
    return (arrays[1], arrays[2], int64[::1], *[arrays[2]] * (1 + len(vectors)), *choice, arrays[2])


def _show_foreign_arrays(function: Any, name: str) -> None:
    """Let Numba refuse arrays of the other byte order once.

    What it knows of a type it looks up by a fingerprint that leaves out byte order and alignment; whichever
    array comes first decides for all.
    """
    swapped = np.dtype(np.float64).newbyteorder()
    for dimensions in (1, 2, 3):
        foreign = np.zeros((1,) * dimensions, swapped)
        with contextlib.suppress(TypeError):
            function(*[foreign] * len(_signature(name)))


def _trial(name: str) -> tuple[Any, ...]:
    """Arguments without content that `name` takes as good, if it was compiled from today's sources."""
    from connections.multibody.recursions.lanes import LANES
    from connections.multibody.recursions.layout import no_tree

    recursion, kind = name.rsplit("_", 1)
    vectors, factor, axes = SIGNATURES[recursion]
    choice = (False,) if factor else ()
    if kind == "at":
        return (no_tree(), *[np.zeros(0)] * (1 + len(vectors)), *choice, np.zeros((0,) * axes))
    work, blocks = np.zeros((1, LANES)), np.zeros(0, dtype=np.int64)
    return (no_tree(), work, blocks, *[np.zeros((0, 0))] * (1 + len(vectors)), *choice, np.zeros((0, 0)))


def torsion(body_factor: str) -> bool:
    """Whether the body-level factor of this name has torsion.

    Raises
    ------
    ValueError : there is no such factor.
    """
    if not isinstance(body_factor, str) or body_factor not in BODY_FACTORS:
        raise ValueError(f"body_factor: expected one of {', '.join(BODY_FACTORS)}, got {body_factor!r}")
    return BODY_FACTORS[body_factor]


def _not_ready(*arguments: Any) -> NoReturn:
    raise TypeError("not compiled yet")


compiled = Compiled()
