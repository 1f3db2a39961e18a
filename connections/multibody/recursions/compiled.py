"""The compiled functions by name, each compiled (or read from Numba's cache) when it is first asked for.

Until then, and whenever the arguments are not exactly float64 arrays of the right dimensions, a call raises
`TypeError`; `Program.general` then makes the function ready and the arguments right.
"""

from __future__ import annotations

import contextlib
import importlib
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
    "inverse_dynamics_derivatives": (("v", "a"), False, 3),
    "forward_dynamics_derivatives": (("v", "tau"), False, 3),
}
# Recursions whose results are three matrices, (3, n, n); their entries are in `derivative_entries`.
DERIVATIVES = ("inverse_dynamics_derivatives", "forward_dynamics_derivatives")
# Further entries: the module that holds each, and its arguments: 1, 2, 3 float64 arrays of so many axes, i1,
# i2 int64 arrays, n a whole number, b a boolean, m an array that begins with the fingerprint of the sources,
# c that of the clusters, w a workspace of several configurations.
# They return whether all is well, or a whole number that is zero if it is.
ENTRIES: dict[str, tuple[str, str]] = {
    "lift_at": ("lift", "m i2 n 1 1 1"),
    "lift_rows": ("lift", "m i2 n 2 2 2"),
    "lift_rate_at": ("lift", "m i2 n 1 1 1 1 1"),
    "lift_rate_rows": ("lift", "m i2 n 2 2 2 2 2"),
    "project_at": ("lift", "m i2 n 1 1 1"),
    "project_rows": ("lift", "m i2 n 2 2 2"),
    "project_rate_at": ("lift", "m i2 n 1 1 1 1 1"),
    "project_rate_rows": ("lift", "m i2 n 2 2 2 2 2"),
    "project_wide_at": ("lift", "m i2 n 1 2 2"),
    "project_wide_rows": ("lift", "m i2 n 2 2 2"),
    "closure_at": ("closure_entries", "m 1 1 1"),
    "closure_rows": ("closure_entries", "m 2 2 2"),
    "turning_at": ("closure_entries", "m 1 1 1"),
    "turning_rows": ("closure_entries", "m 2 2 2"),
    "project_derivatives_at": ("derivative_entries", "m i2 n 1 1 1 1 1 3 3"),
    "project_derivatives_rows": ("derivative_entries", "m i2 n 2 2 2 2 2 2 2"),
    "closed_mass_matrix_at": ("closed_entries", "m m c b 1 2"),
    "closed_mass_matrix_rows": ("closed_entries", "m m c b w i1 2 2"),
    "closed_coriolis_matrix_at": ("closed_entries", "m m c b 1 1 2"),
    "closed_coriolis_matrix_rows": ("closed_entries", "m m c b w i1 2 2 2"),
    "closed_mass_matrix_rate_at": ("closed_entries", "m m c b 1 1 2"),
    "closed_mass_matrix_rate_rows": ("closed_entries", "m m c b w i1 2 2 2"),
    "closed_christoffel_symbols_at": ("closed_entries", "m m c b 1 3"),
    "closed_christoffel_symbols_rows": ("closed_entries", "m m c b w i1 2 2"),
    "closed_solve_at": ("closed_entries", "m m c b 1 1 1 1"),
    "closed_solve_rows": ("closed_entries", "m m c b w i1 2 2 2 2"),
    "closed_inverse_mass_matrix_at": ("closed_entries", "m m c b 1 2"),
    "closed_inverse_mass_matrix_rows": ("closed_entries", "m m c b w i1 2 2"),
}
BODY_FACTORS = {"christoffel": False, "force_cross": True}  # name -> whether its connection has torsion
# What a call raises at once for arguments that `Program.general` has to look at: Numba a TypeError, but a
# ValueError for lists without content; an unknown body factor a KeyError, what is no array an AttributeError.
NOT_AT_ONCE = (TypeError, ValueError, KeyError, AttributeError)
_lock = threading.Lock()


class Compiled:
    """Functions as attributes, for one configuration (``_at``) and for rows of them (``_rows``)."""

    def __init__(self) -> None:
        self._ready: set[str] = set()
        for name in SIGNATURES:
            setattr(self, f"{name}_at", _not_ready)
            setattr(self, f"{name}_rows", _not_ready)
        for name in ENTRIES:
            setattr(self, name, _not_ready)

    def __getattr__(self, name: str) -> Any:  # for type checkers: the functions are set by name
        raise AttributeError(name)

    def require(self, name: str) -> Any:
        """The compiled function `name`: a recursion's name with ``_at`` or ``_rows``, or one of `ENTRIES`."""
        if name in self._ready:
            return getattr(self, name)
        with _lock:
            if name not in self._ready:
                module, arguments = ENTRIES.get(name) or _of_recursion(name)
                home = importlib.import_module(f"connections.multibody.recursions.{module}")  # imports Numba
                function = getattr(home, name)
                function.compile(_signature(arguments))
                if not _is_good(function(*_trial(arguments))):
                    function.recompile()  # what Numba found on disk comes from other sources
                function.disable_compile()  # other types raise TypeError instead of compiling again
                _show_foreign_arrays(function, len(arguments.split()))
                setattr(self, name, function)
                self._ready.add(name)
        return getattr(self, name)


def _of_recursion(name: str) -> tuple[str, str]:
    """The module and the arguments of an entry of `SIGNATURES`, as in `ENTRIES`."""
    recursion, kind = name.rsplit("_", 1)
    vectors, factor, axes = SIGNATURES[recursion]
    home = "derivative_entries" if recursion in DERIVATIVES else "entries"
    choice = ["b"] if factor else []
    if kind == "at":
        return home, " ".join(["m", *["1"] * (1 + len(vectors)), *choice, str(axes)])
    return home, " ".join(["m 2 i1", *["2"] * (1 + len(vectors)), *choice, "2"])


def _signature(arguments: str) -> Any:
    from numba import boolean, float64, int64

    arrays = {"m": float64[::1], "1": float64[::1], "2": float64[:, ::1], "3": float64[:, :, ::1]}
    arrays |= {"c": arrays["1"], "w": arrays["2"]}
    kinds = arrays | {"i1": int64[::1], "i2": int64[:, ::1], "n": int64, "b": boolean}
    return tuple(kinds[argument] for argument in arguments.split())


def shapes_of_results(n: int, bodies: int) -> dict[str, tuple[int, ...]]:
    """Recursion -> the shape of its result for one configuration, n velocities."""
    shapes = {name: (n,) * axes for name, (_, _, axes) in SIGNATURES.items()}
    return shapes | {"regressor": (n, 10 * bodies)} | dict.fromkeys(DERIVATIVES, (3, n, n))


def _is_good(result: bool | int) -> bool:
    return result if isinstance(result, bool) else result == 0


def _show_foreign_arrays(function: Any, count: int) -> None:
    """Let Numba refuse arrays of the other byte order once.

    What it knows of a type it looks up by a fingerprint that leaves out byte order and alignment; whichever
    array comes first decides for all.
    """
    swapped = np.dtype(np.float64).newbyteorder()
    for dimensions in (1, 2, 3):
        foreign = np.zeros((1,) * dimensions, swapped)
        with contextlib.suppress(TypeError):
            function(*[foreign] * count)


def _trial(arguments: str) -> list[Any]:
    """Arguments without content that are taken as good by what was compiled from today's sources."""
    from connections.multibody.recursions.cluster_layout import no_clusters
    from connections.multibody.recursions.lanes import LANES
    from connections.multibody.recursions.layout import no_tree

    nothing: dict[str, Any] = {str(axes): np.zeros((0,) * axes) for axes in (1, 2, 3)}
    nothing |= {
        "m": no_tree(),
        "c": no_clusters(),
        "w": np.zeros((1, LANES)),
        "i1": np.zeros(0, np.int64),
        "i2": np.zeros((0, 0), np.int64),
        "n": 0,
        "b": False,
    }
    values = [nothing[argument] for argument in arguments.split()]
    if arguments.startswith("m 2 i1"):
        values[1] = np.zeros((1, LANES))  # a workspace
    return values


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
