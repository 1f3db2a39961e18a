"""Functions of NumPy arrays on Dask arrays: block by block, lazily.

Batch axes may be cut into blocks, and broadcast as in NumPy; the axis of coordinates or components is one
block. The function is called once for each block, so dtype, shapes and errors are those of the call on NumPy
arrays. Errors about values are raised when the result is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from connections.checks import ShapeError, as_array, batch_axes

if TYPE_CHECKING:
    import dask.array as da


def lazy(
    function: Callable[..., np.ndarray],
    names: Sequence[str],
    given: Sequence[Any],
    sizes: Sequence[tuple[int, ...]],
    core: tuple[int, ...],
) -> da.Array:
    """The result (..., *core) of a function for arguments of which at least one is a Dask array.

    Parameters
    ----------
    function : arrays (..., k) -> (..., *core); it is pickled and sent to the workers once.
    names, given : the names and values of the arguments, (..., k).
    sizes : the size k of each argument; further entries are ignored.
    core : shape of the result of one row of each argument.

    Raises
    ------
    ShapeError : the last axis of an argument, or the batch axes, do not fit. TypeError : no real numbers.
    """
    import dask.array as da
    from dask.delayed import delayed

    arrays = [_array(*item) for item in zip(names, given, sizes, strict=False)]
    axes = len(batch_axes(names, arrays))
    arguments: list[Any] = []
    for number, array in enumerate(arrays):
        batch = range(axes - (array.ndim - 1), axes)  # aligned at the end, as NumPy broadcasts
        arguments += [array, (*batch, axes + len(core) + number)]
    result = (*range(axes), *range(axes, axes + len(core)))
    found: da.Array = da.blockwise(
        _block,
        result,
        *arguments,
        function=delayed(function, pure=False, traverse=False),
        new_axes={axes + number: size for number, size in enumerate(core)},
        concatenate=True,
        dtype=np.float64,
        meta=np.empty((0,) * len(result)),
    )
    return found


def _block(*arrays: np.ndarray, function: Callable[..., np.ndarray]) -> np.ndarray:
    """One block's result, by the function on NumPy arrays."""
    return function(*arrays)


def _array(name: str, value: Any, size: tuple[int, ...]) -> da.Array:
    """`value` as a Dask array (..., size) of real numbers whose last axis is one block."""
    import dask.array as da

    held = (
        value if isinstance(value, da.Array) else getattr(value, "data", None)
    )  # that of an array of xarray
    if isinstance(held, da.Array):
        array = held
    else:
        array = da.from_array(np.asarray(as_array(name, value, size)), chunks=-1)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name}: expected an array of real numbers, got {array.dtype}")
    if array.shape[-1:] != size:
        raise ShapeError(name, ("...", *size), array.shape)
    whole: da.Array = array.rechunk({array.ndim - 1: -1})
    return whole
