"""Conversion of a caller's arguments for compiled code: float64 arrays, batches, `out`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from connections._shown import Shown
from connections.checks import ShapeError, as_array


class OtherTypes(TypeError):
    """The arguments are not exactly of the types that a function was compiled for."""


def is_lazy(given: tuple[Any, ...], out: Any) -> bool:
    """Whether an argument is a Dask array.

    Raises
    ------
    TypeError : `out` is given too, which a lazy result cannot fill.
    """
    for value in given:
        if type(value) is not np.ndarray and _holds_dask(value):
            if out is not None:
                raise TypeError(
                    "out: a Dask array is computed later; leave out, and store it when it is there"
                )
            return True
    return False


def _holds_dask(value: Any) -> bool:
    """Whether a value is a collection of Dask, or an array of xarray whose numbers are one."""
    # All arrays of xarray have it; without Dask's numbers it returns None.
    graph = getattr(type(value), "__dask_graph__", None)
    return graph is not None and graph(value) is not None and getattr(value, "chunks", ()) is not None


def as_float64(name: str, value: Any, core: tuple[int, ...]) -> np.ndarray:
    """`value` (..., k) as a float64 array; a float64 array is returned as it is."""
    if type(value) is np.ndarray and value.dtype == np.float64 and value.shape[-1:] == core:
        return value
    return np.asarray(as_array(name, value, core))


def base_ndarray(array: np.ndarray) -> np.ndarray:
    """The array itself if compiled code accepts it, otherwise a copy."""
    flags = array.flags
    return array if flags.c_contiguous and flags.writeable and flags.aligned else array.copy()


def as_rows(vector: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """`vector` (..., k) broadcast to the batch, as a C-contiguous (m, k)."""
    if vector.shape[:-1] != batch:
        vector = np.broadcast_to(vector, (*batch, vector.shape[-1]))
    return base_ndarray(vector.reshape(math.prod(batch), vector.shape[-1]))


def copied_if_overlapping(given: Iterable[Any], out: Any) -> list[Any]:
    """The values; arrays that may overlap `out` are copied, because they are read while `out` is filled."""
    if not isinstance(out, np.ndarray):  # which is refused later
        return [*given]
    return [x.copy() if isinstance(x, np.ndarray) and np.may_share_memory(x, out) else x for x in given]


def require_output(out: Any, shape: tuple[int, ...]) -> None:
    """Raise `TypeError`, `ShapeError` or `ValueError` unless `out` can be filled with this shape."""
    if not isinstance(out, np.ndarray) or out.dtype != np.float64:
        kind = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
        raise TypeError(f"out: expected a float64 NumPy array, got {kind}")
    if out.shape != shape:
        raise ShapeError("out", shape, out.shape)
    if not (out.flags.c_contiguous and out.flags.writeable and out.flags.aligned):
        raise ValueError("out: expected a C-contiguous, writeable array")


class InputRefused(Shown, ValueError):
    """Compiled code refused its input; the reason is computed when the message is read, or pickled.

    Parameters
    ----------
    function, arguments : a call with the same input, which raises the error with the reason.
    """

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        super().__init__()
        self._function, self._given = function, arguments

    def __str__(self) -> str:
        if not self.args:
            self.args = (self._reason(),)
        return super().__str__()

    def _reason(self) -> str:
        try:
            self._function(*self._given)
        except ValueError as error:
            return str(error)
        return "the function refused its input"

    def __reduce__(self) -> tuple[Any, ...]:
        str(self)
        again, what, state = super().__reduce__()
        return (
            again,
            what,
            {name: value for name, value in state.items() if name not in ("_function", "_given")},
        )
