"""The header NAME.cuh: the functions of a folder for many configurations, each in one thread of a GPU.

The body of a function is that of the C file, letter by letter. Only the type of its arguments differs: the
arrays have a column for each configuration, so that neighbouring threads read neighbouring numbers, and
``q[3]`` is number 3 of a column. This type is no parameter of a template, because nvcc needs minutes for
templates with deep parentheses.

A GPU is busy with its memory here, so each number of a result is written once and never read again: zeros are
set where nothing else is written, and numbers are tested while they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from connections.engines.recorded.c_code import Real
from connections.multibody.generation.function_text import CFunction, Piece, definition, support_functions

BLOCK = 128  # threads of a block, as the host launches them
MOST_BLOCKS = 2**20  # the threads of a grid share more configurations than that
# Bytes of a function's pieces that are compiled as one, so that registers hold what one keeps for another. Of
# more it does not fit there, and compilers need minutes.
WHOLE = 350_000

_HEAD = """\
#ifndef {up}_CUH
#define {up}_CUH

#include "{name}.h"

/* NVRTC compiles kernels that are found by their names; nvcc may compile several files with this header. */
#ifdef __CUDACC_RTC__
#define {up}_KERNEL extern "C" __global__
#else
#include <float.h>
#include <math.h>
#define {up}_KERNEL static __global__
#endif
#ifndef {largest}
#define {largest} {value}
#endif

/* The numbers of one configuration, a column of an array. `columns` is 1 for an array of a thread's own. */
struct {name}_given {{
    const {real} *first;
    size_t columns;
    __device__ const {real} &operator[](size_t k) const {{ return first[columns * k]; }}
}};
struct {name}_written {{
    {real} *first;
    size_t columns;
    __device__ {real} &operator[](size_t k) const {{ return first[columns * k]; }}
}};

{support}"""
_RESULT = """
/* A result whose numbers are tested while they are written. */
struct {name}_result {{
    {real} *first;
    size_t columns;
    int *good;
    struct entry {{
        {real} *place;
        int *good;
        __device__ void operator=({real} x) const
        {{
            *place = x;
            *good &= {fabs}(x) <= {largest};
        }}
    }};
    __device__ entry operator[](size_t k) const {{ return {{first + columns * k, good}}; }}
}};
static __device__ inline int {name}_are_within(const {name}_result x, int, {real})
{{
    return *x.good;
}}
"""
_CLEAR = """
static __device__ const unsigned {name}_zeros[{count}][2] = {{ /* first, end */
{runs}
}};
static __device__ void {name}_clear(const {type} out)
{{
    for (int run = 0; run < {count}; ++run) {{
        for (unsigned k = {name}_zeros[run][0]; k < {name}_zeros[run][1]; ++k) {{
            out[k] = {zero};
        }}
    }}
}}
"""
_THREAD = """
/* Inside a thread: one configuration. */
static __device__ int {name}_{function}_thread({given})
{{
{body}}}
"""
_LEVELS = """
/* On the device: the threads of the grid share `count` configurations. Number k of configuration i is entry
   count * k + i of an array. */
static __device__ void {name}_{function}_device(size_t count, {arrays}, int *__restrict__ status)
{{
    const size_t threads = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {{
        status[i] = {name}_{function}_thread({columns});
    }}
}}

{up}_KERNEL void {name}_{function}_kernel(size_t count, {arrays}, int *__restrict__ status)
{{
    {name}_{function}_device(count, {names}, status);
}}

#ifndef __CUDACC_RTC__
/* From the host: start the kernel. The arrays are on the device. */
static inline cudaError_t {name}_{function}_launch(
    size_t count, {pointers}, int *status, cudaStream_t stream)
{{
    const size_t blocks = (count + {last}) / {block};
    cudaLaunchConfig_t how = {{}};
    how.gridDim = dim3((unsigned)(blocks < {most} ? blocks : {most}));
    how.blockDim = dim3({block});
    how.stream = stream;
    if (count == 0) {{
        return cudaSuccess;
    }}
    return cudaLaunchKernelEx(&how, {name}_{function}_kernel, count, {names}, status);
}}
#endif
"""
_CLOSE = """\
double given[{nq}], found[{size}];
for (int k = 0; k < {nq}; ++k) {{
    given[k] = q[k];
}}
for (int k = 0; k < {size}; ++k) {{
    found[k] = loops[k];
}}
const int status = {name}_loops::{name}_close(given, found);
for (int k = 0; k < {size}; ++k) {{
    loops[k] = found[k];
}}
return status;"""
_START = """\
double found[{size}];
{name}_loops::{name}_start(found);
for (int k = 0; k < {size}; ++k) {{
    loops[k] = found[k];
}}
return {up}_OK;"""


def cuda_text(name: str, made: Sequence[CFunction], real: Real, closing: str, nq: int, loops: int) -> str:
    """The text of the header.

    Parameters
    ----------
    name : with which names begin.
    made : the functions.
    real : the type of numbers.
    closing : the C code that closes loops; empty if none have to be solved.
    nq : how many numbers q has.
    loops : how many numbers a configuration of closed loops has; 0 if none have to be solved.
    """
    head = _HEAD.format(
        up=name.upper(),
        name=name,
        real=real.name,
        largest=real.largest(),
        value=real.literal(float.fromhex("0x1.fffffep127" if real.suffix else "0x1.fffffffffffffp1023")),
        support=support_functions(name, real, cuda=True),
    )
    texts = [head]
    if any(c.is_always_tested for c in made):
        limits = {"fabs": f"fabs{real.suffix}", "largest": real.largest()}
        texts.append(_RESULT.format(name=name, real=real.name, **limits))
    if closing:
        # Definitions of functions are what begins a line with their type.
        own = re.sub(r"^(?:static )?(?=void |int )", "static __device__ ", closing, flags=re.MULTILINE)
        own = own.replace(" *restrict ", " *__restrict__ ")
        texts.append(f"\nnamespace {name}_loops {{\n\n{own}\n}}\n")
        numbers = {"name": name, "up": name.upper(), "nq": nq, "size": loops}
        texts.append(_levels(name, "start", [], "loops", real, _START.format(**numbers).splitlines()))
        texts.append(_levels(name, "close", ["q"], "loops", real, _CLOSE.format(**numbers).splitlines()))
    for c in made:
        texts.extend(_function(name, c, real))
    return "".join([*texts, "\n#endif\n"])


def _function(name: str, made: CFunction, real: Real) -> Iterator[str]:
    """A function, behind the functions that it calls."""
    given = [argument for argument, _ in made.recorded.sizes]
    types = dict.fromkeys(given, f"{name}_given")
    types["out"] = f"{name}_result" if made.is_always_tested else f"{name}_written"
    if made.zeros:
        runs = ", ".join(f"{{{first}, {end}}}" for first, end in made.zeros)
        lines = wrap(runs, 100, initial_indent="    ", subsequent_indent="    ")
        yield _CLEAR.format(
            name=made.name,
            count=len(made.zeros),
            runs="\n".join(lines),
            type=types["out"],
            zero=real.literal(0.0),
        )
    # Not what mostly writes results, such as Gamma: it is bound by them, and slower as one.
    computes = sum(made.operations.values()) > made.recorded.size
    whole = computes and sum(len(line) for piece in made.pieces for line in piece.lines) <= WHOLE
    yield from (_piece(piece, types, "inline" if whole else "__noinline__") for piece in made.pieces)
    yield _levels(name, made.recorded.function.name, given, "out", real, made.body, made.is_always_tested)


def _piece(piece: Piece, types: Mapping[str, str], how: str) -> str:
    """A piece of a long function; `types` are those of arrays with a column for each configuration."""
    given = []
    for array, is_set in piece.arrays:
        if array in types:
            given.append(f"const {types[array]} {array}")
        else:
            given.append(f"{'' if is_set else 'const '}{piece.real.name} *__restrict__ {array}")
    head = f"\nstatic __device__ {how} void {piece.name}({', '.join(given)})"
    return definition(head, piece.lines)


def _levels(
    name: str,
    function: str,
    given: Sequence[str],
    written: str,
    real: Real,
    body: Sequence[str],
    tested: bool = False,
) -> str:
    """A function inside a thread, on the device, as a kernel, and from the host."""
    names = [*given, written]
    types = [f"{name}_given"] * len(given) + [f"{name}_written"]
    pointers = [f"const {real.name} *{argument}" for argument in given] + [f"{real.name} *{written}"]
    columns = [f"{type_}{{{argument} + i, count}}" for type_, argument in zip(types, names, strict=True)]
    inside, begin = [*given, written], list[str]()
    if tested:
        inside[-1] = "column"
        begin = ["int good = 1;", f"const {name}_result {written} = {{column.first, column.columns, &good}};"]
    thread = _THREAD.format(
        name=name,
        function=function,
        given=", ".join(f"const {type_} {x}" for type_, x in zip(types, inside, strict=True)),
        body="".join(f"    {line}\n" for line in (*begin, *body)),
    )
    return thread + _LEVELS.format(
        name=name,
        up=name.upper(),
        function=function,
        arrays=", ".join(pointer.replace("*", "*__restrict__ ") for pointer in pointers),
        pointers=", ".join(pointers),
        names=", ".join(names),
        columns=", ".join(columns),
        block=BLOCK,
        last=BLOCK - 1,
        most=MOST_BLOCKS,
    )
