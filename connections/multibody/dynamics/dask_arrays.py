"""The recursions on Dask arrays: block by block, lazily.

Batch axes may be cut into blocks, and broadcast as in NumPy; the axis of coordinates or components is one
block. The recursion is called once for each block, so dtype, shapes and errors are those of the call on NumPy
arrays. Errors about numbers appear when the result is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from connections.checks import ShapeError, batch_axes
from connections.multibody.dynamics.table import RECURSIONS

if TYPE_CHECKING:
    import dask.array as da


def lazy(program: Any, name: str, given: tuple[Any, ...], body_factor: Any) -> da.Array:
    """The result (..., *core) of the recursion `name` for arguments of which at least one is a Dask array.

    Parameters
    ----------
    program : the `Program`; it is pickled and sent to the workers once.
    name : name of the recursion.
    given : arguments of the recursion, (..., nq) and then (..., nv).
    body_factor : name of the body-level factor, if the recursion has a choice.

    Raises
    ------
    ShapeError : the last axis of an argument, or the batch axes, do not fit. TypeError : complex numbers.
    """
    import dask.array as da
    from dask.delayed import delayed

    names = ("q", *RECURSIONS[name].vectors)
    core = program.cores[name]
    arrays = [_array(*item) for item in zip(names, given, program.sizes, strict=False)]
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
        program=delayed(program, pure=False, traverse=False),
        recursion=name,
        body_factor=body_factor,
        new_axes={axes + number: size for number, size in enumerate(core)},
        concatenate=True,
        dtype=np.float64,
        meta=np.empty((0,) * len(result)),
    )
    return found


def _block(*arrays: np.ndarray, program: Any, recursion: str, body_factor: Any) -> np.ndarray:
    """One block's result, by the recursion on NumPy arrays."""
    result: np.ndarray = program.evaluate(recursion, arrays, None, body_factor)
    return result


def _array(name: str, value: Any, size: tuple[int, ...]) -> da.Array:
    """`value` as a Dask array (..., size) of real numbers whose last axis is one block."""
    import dask.array as da

    array = value if isinstance(value, da.Array) else da.from_array(np.asarray(value), chunks=-1)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name}: expected an array of real numbers, got {array.dtype}")
    if array.shape[-1:] != size:
        raise ShapeError(name, ("...", *size), array.shape)
    whole: da.Array = array.rechunk({array.ndim - 1: -1})
    return whole
