"""CUDA on a processor: the names that a header of `generate_c` uses, one thread after the other.

`Cupy` stands for the module `cupy`, with what `load_cuda` uses of it: arrays are NumPy's, and a `RawModule`
is compiled by the C++ compiler.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

NAMES = """\
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#define __device__
#define __global__
#define __noinline__
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
extern "C" {
dim3 gridDim, blockDim, blockIdx, threadIdx;
}
enum cudaError_t { cudaSuccess };
typedef void *cudaStream_t;
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
};
template <class... Given, class... Arguments>
cudaError_t cudaLaunchKernelEx(
    const cudaLaunchConfig_t *how, void (*kernel)(Given...), Arguments... arguments)
{
    gridDim = how->gridDim;
    blockDim = how->blockDim;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) {
            kernel(arguments...);
        }
    }
    return cudaSuccess;
}
"""
COMPILER = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-O0"]


class RawModule:
    """Kernels by their names."""

    def __init__(self, *, code: str, options: tuple[str, ...]) -> None:
        with tempfile.TemporaryDirectory() as place:
            source, library = Path(place) / "kernels.cpp", Path(place) / "kernels.so"
            source.write_text(NAMES + "#define __CUDACC_RTC__\n" + code)
            command = [*COMPILER, *options, "-fPIC", "-shared", str(source), "-o", str(library)]
            subprocess.run(command, check=True)
            self.library = ctypes.CDLL(str(library))

    def get_function(self, name: str) -> Any:
        """A kernel, called with numbers of blocks and threads, and arguments."""
        function, size = getattr(self.library, name), ctypes.c_uint * 3
        grid, blocks, block, thread = (
            size.in_dll(self.library, name) for name in ("gridDim", "blockDim", "blockIdx", "threadIdx")
        )

        def call(blocks_: tuple[int], threads: tuple[int], given: tuple[Any, ...]) -> None:
            (grid[0],), (blocks[0],) = blocks_, threads
            count, *arrays = given
            assert all(array.flags.c_contiguous and array.flags.aligned for array in arrays)
            pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
            for block[0] in range(grid[0]):
                for thread[0] in range(blocks[0]):
                    function(ctypes.c_size_t(int(count)), *pointers)

        return call


def empty(shape: Any, dtype: Any) -> np.ndarray:
    """An array of NaN, or of -1, so that an entry that no kernel writes is seen."""
    return np.full(shape, -1 if np.issubdtype(dtype, np.integer) else np.nan, dtype)


Cupy = SimpleNamespace(
    asarray=np.asarray,
    ascontiguousarray=np.ascontiguousarray,
    broadcast_to=np.broadcast_to,
    empty=empty,
    moveaxis=np.moveaxis,
    RawModule=RawModule,
)
