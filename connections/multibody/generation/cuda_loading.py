"""`load_cuda`: the kernels of a folder's CUDA header, compiled by NVRTC and called on CuPy arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from connections.checks import ShapeError, batch_axes, require_path
from connections.multibody.generation.cuda_text import BLOCK, MOST_BLOCKS
from connections.multibody.generation.loading import CFunctions, description_of, require_count, status_error

_NO_CUPY = (
    "load_cuda needs CuPy for the GPU's version of CUDA, such as `pip install cupy-cuda12x` or "
    "`pip install cupy-cuda13x`"
)


def load_cuda(folder: Any) -> CFunctions:
    """Load the functions that `generate_c` wrote to a folder with ``cuda=True``, for CuPy arrays on a GPU.

    CuPy compiles the kernels with NVRTC for the current GPU, at the first call of a function, and caches
    them. A call waits for the GPU, because it raises an error for bad input.

    Parameters
    ----------
    folder : the argument of `generate_c`.

    Returns
    -------
    An object whose attributes are the functions: ``load_cuda(folder).coriolis_matrix(q, v)``, for rows of
    configurations (..., nq) and of vectors (..., nv). In memory, a result's batch axes are the last ones, as
    the kernels write it; arguments whose memory is ordered in this way, as other results' is, are not copied.

    Raises
    ------
    FileNotFoundError : the folder was not written by `generate_c`, or has no CUDA header.
    ImportError : CuPy is not installed.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> mb.codegen.load_cuda("no_such_folder")
    Traceback (most recent call last):
        ...
    FileNotFoundError: no_such_folder: expected a folder that generate_c wrote
    """
    path, about = require_path("folder", folder), description_of(folder)
    header = path / f"{about['name']}.cuh"
    if not header.exists():
        raise FileNotFoundError(f"{path}: there is no {header.name}; generate it with cuda=True")
    try:
        import cupy
    except ImportError as error:
        raise ImportError(_NO_CUPY) from error
    text, options = header.read_text(encoding="utf-8"), ("-std=c++17", f"-I{path.resolve()}")
    module = cupy.RawModule(code=text, options=options)
    return CFunctions(about, {name: _Kernel(cupy, module, about, name) for name in about["functions"]})


class _Kernel:
    """The kernel of one function."""

    def __init__(self, cupy: Any, module: Any, about: Mapping[str, Any], function: str) -> None:
        self.__name__, self._cupy, self._module, self._name = function, cupy, module, about["name"]
        row = about["functions"][function]
        self._arguments, self._sizes = row["arguments"], row["sizes"]
        self._shape, self._stacked = tuple(row["shape"]), bool(row["stacked"])
        self._loops = about["loops"]
        self._dtype = np.float32 if about["dtype"] == "float" else np.float64

    def __call__(self, *given: Any) -> Any:
        require_count(self.__name__, self._arguments, given)
        arrays = [self._real(name, x) for name, x in zip(self._arguments, given, strict=True)]
        for name, array, size in zip(self._arguments, arrays, self._sizes, strict=True):
            if array.shape[-1:] != (size,):
                raise ShapeError(name, f"(..., {size})", array.shape)
        batch = batch_axes(self._arguments, arrays)
        count = math.prod(batch)
        columns = [self._columns(array, batch, count) for array in arrays]
        if self._loops:
            loops = self._cupy.empty((self._loops, count), dtype=self._dtype)
            self._run("start", count, loops)
            self._run("close", count, columns[0], loops)
            columns[0] = loops
        out = self._cupy.empty((math.prod(self._shape), count), dtype=self._dtype)
        self._run(self.__name__, count, *columns, out)
        own = tuple(range(len(self._shape)))
        result = self._cupy.moveaxis(out.reshape(*self._shape, *batch), own, tuple(k - len(own) for k in own))
        return tuple(self._cupy.moveaxis(result, len(batch), 0)) if self._stacked else result

    def _real(self, name: str, x: Any) -> Any:
        array = self._cupy.asarray(x)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{name}: expected an array of real numbers, got {array.dtype}")
        return array.astype(self._dtype, copy=False)

    def _columns(self, array: Any, batch: tuple[int, ...], count: int) -> Any:
        """An array (..., k) as (k, count), in which each configuration is a column."""
        size = array.shape[-1]
        rows = self._cupy.broadcast_to(array, (*batch, size))
        return self._cupy.ascontiguousarray(self._cupy.moveaxis(rows, -1, 0).reshape(size, count))

    def _run(self, function: str, count: int, *arrays: Any) -> None:
        """Run a kernel.

        Raises
        ------
        The error that the largest status means.
        """
        if not count:
            return
        status = self._cupy.empty(count, dtype=np.int32)
        kernel = self._module.get_function(f"{self._name}_{function}_kernel")
        blocks = min((count + BLOCK - 1) // BLOCK, MOST_BLOCKS)
        kernel((blocks,), (BLOCK,), (np.uint64(count), *arrays, status))
        worst = int(status.max())
        if worst:
            raise status_error(self.__name__, worst)
