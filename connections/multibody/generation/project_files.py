"""The texts around the functions of a folder in C: CMake project, example, README."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import Any

from connections._distribution import NAME as PACKAGE
from connections._distribution import version
from connections._docstrings import docstring_of
from connections._shown import as_c_comment, as_markdown
from connections.engines.recorded.c_code import Real
from connections.multibody.generation.function_text import CFunction, statuses
from connections.multibody.generation.layout import JointLayout
from connections.multibody.generation.recording import Exported
from connections.multibody.model import Model

_DECLARED_IN = ("functions", "linearization", "second_derivatives", "variational_steps")

_CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project({name} C)

set(CMAKE_C_STANDARD 99)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
option({up}_NATIVE "use all instructions of this processor" ON)

add_library({name}
{sources})
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options({name} PRIVATE -Wall -Wextra -O3 {flags})
  if({up}_NATIVE)
    target_compile_options({name} PRIVATE -march=native)
  endif()
endif()
find_library({up}_LIBM m)
if({up}_LIBM)
  target_link_libraries({name} PUBLIC m)
endif()

{casadi}
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  add_executable({name}_example example.c)
  target_link_libraries({name}_example {name})
  add_executable(test_{name} test_{name}.c)
  target_link_libraries(test_{name} {name})
  enable_testing()
  add_test(NAME test_{name} COMMAND test_{name})
endif()
"""

# Products may be fused with sums, as in this library. Vector instructions for neighbours in straight code
# cost more moves than they save, and make compilation slower.
FLAGS = "-ffp-contract=fast -fno-tree-slp-vectorize"


_CMAKE_CASADI = """\
# For casadi.external("casadi_{name}_...", "lib{name}_casadi.so")
add_library({name}_casadi SHARED EXCLUDE_FROM_ALL
  {name}_casadi.c
{sources})
target_include_directories({name}_casadi PRIVATE ${{CMAKE_CURRENT_SOURCE_DIR}})
target_link_libraries({name}_casadi PRIVATE m)
"""


def cmake_text(name: str, functions: list[str], casadi: bool) -> str:
    """The CMake project: a library, the example and the test, and a library for CasADi."""
    sources = "\n".join(f"  {name}_{function}.c" for function in functions)
    for_casadi = _CMAKE_CASADI.format(name=name, sources=sources) if casadi else ""
    return _CMAKE.format(name=name, up=name.upper(), sources=sources, flags=FLAGS, casadi=for_casadi)


def summary(function: Exported) -> str:
    """The first line of the documentation of the function in Python, in ASCII as all files."""
    usual = function.chosen in ((), ("christoffel",))
    chosen = "" if usual else f" ({', '.join(function.chosen)})"
    chosen += "; passive forces act" if function.passive else ""
    text = docstring_of(declared(function)).splitlines()[0].rstrip(".") + chosen
    return as_c_comment(text)


def is_stacked(function: Exported) -> bool:
    """Whether the function in Python returns several arrays, which C writes one after the other."""
    return not function.is_step and "tuple" in str(signature(declared(function)).return_annotation)


def declared(function: Exported) -> Any:
    """The function in Python."""
    for file in _DECLARED_IN:
        found = getattr(import_module(f"connections.multibody.{file}"), function.recursion, None)
        if found is not None:
            return found
    raise AssertionError(f"{function.recursion} is declared nowhere")


def numbers_text(values: Any, real: Real, indent: str = "    ") -> str:
    """Numbers as the lines of an initializer."""
    texts = [("-" if x < 0.0 else "") + real.literal(abs(float(x))) for x in values]
    lines, line = [], indent
    for text in texts:
        if len(line) + len(text) > 100:
            lines.append(line.rstrip())
            line = indent
        line += text + ", "
    return "\n".join([*lines, line.rstrip().rstrip(",")])


def example_text(model: Model, made: list[CFunction], name: str, real: Real, loops: bool) -> str:
    """A program that calls each function once."""
    up, r = name.upper(), real.name
    lines = ["#include <stdio.h>", "", f'#include "{name}.h"', "", "int main(void)", "{"]
    lines += [f"    const {r} q[{up}_NQ] = {{", numbers_text(model.neutral(), real, "        "), "    };"]
    vectors = sorted({argument for c in made for argument, _ in c.recorded.sizes[1:]})
    for vector in vectors:
        if vector == "q1":
            lines += [f"    const {r} q1[{up}_NQ] = {{", numbers_text(model.neutral(), real, "        ")]
            lines += ["    };"]
            continue
        if vector == "h":
            lines += [f"    const {r} h[1] = {{{real.literal(0.001)}}};"]
            continue
        lines += [f"    const {r} {vector}[{up}_NV] = {{{real.literal(0.1)}}}; /* the others are 0 */"]
    size = max(c.recorded.size for c in made)
    lines += [f"    static {r} out[{size}]; /* large enough for every result */"]
    if loops:
        lines += [f"    double loops[{up}_LOOPS];", "", f"    {name}_start(loops);"]
        lines += [f"    if ({name}_close(q, loops) != {up}_OK) {{"]
        lines += ['        printf("the loops do not close\\n");', "        return 1;", "    }"]
    lines += [""]
    for c in made:
        arguments = ", ".join([argument for argument, _ in c.recorded.sizes] + ["out"])
        function = c.recorded.function.name
        lines += [f"    if ({name}_{function}({arguments}) != {up}_OK) {{"]
        lines += [f'        printf("{function}: refused\\n");', "        return 1;", "    }"]
        shown = min(3, c.recorded.size)
        formats, values = " ".join(["%.6g"] * shown), ", ".join(f"(double)out[{k}]" for k in range(shown))
        lines += [f'    printf("{function}: {formats} ...\\n", {values});']
    return "\n".join([*lines, "    return 0;", "}", ""])


_README = """\
# {name}

Standalone C99 for one robot, written by {package} {version} from its model. The numbers are `{real}`.
The functions do not allocate memory, have no state, may be called by several threads, and need nothing but
libm. The files belong to whoever generated them, under any licence they choose.

SHA-256 of model, options and version: `{digest}`

## Build

```bash
cmake -S . -B build && cmake --build build && ctest --test-dir build
./build/{name}_example
```

`test_{name}` compares all functions with numbers that {package} computed. Without CMake, compile the
files `{name}_*.c` with `{flags}` and link libm. Add
`-march=native` for the processor that compiles, as CMake does unless `-D{up}_NATIVE=OFF` is given.

## Call

```c
#include "{name}.h"

{real} q[{up}_NQ], out[...];
int status = {call};
```

Every function returns a status. Unless it is `{up}_OK`, what `out` contains is undefined.

| status | value | meaning |
|---|---|---|
{statuses}
{loops}
Matrices and tensors are written row by row: `out[{up}_NV * i + j]` is entry (i, j). `out` must not overlap
the arguments. The bytes of stack are those of a function's variables, if a compiler keeps all of them in
memory; with optimization it needs less.

| function | out | operations | stack, bytes |
|---|---|---|---|
{functions}
{cuda}
## q and v

`q` has {nq} numbers and `v` has {nv}; forces, accelerations and other vectors are ordered as `v`. A
quaternion (x, y, z, w) must have norm one up to {tolerance}; it turns the link's axes into those of the link
before.

| in C | in the model | begins in q | are in q | begins in v | are in v |
|---|---|---|---|---|---|
{joints}
"""


_README_LOOPS = """
The mechanism has loops that have to be solved. Keep `double loops[{up}_LOOPS]`, one array for each robot.
Call `{name}_start(loops)` once: it is the reference configuration. Then call `{name}_close(q, loops)` for
each new configuration; it follows the loops from the last one to q, and the functions take `loops` instead of
q. If the status is not `{up}_OK`, `loops` still has the last configuration. It needs at most {closing} bytes
of stack.
"""

_README_CUDA = """
## On a GPU

`{name}.cuh` has these functions for `count` configurations, one in each thread. Number k of configuration i
is entry `count * k + i` of an array, and `status` has an entry for each configuration.

| name | called |
|---|---|
| `{name}_{function}_thread` | inside a thread, for one column of arrays, or for its own |
| `{name}_{function}_device` | by all threads of a grid, in a kernel of your own |
| `{name}_{function}_kernel` | as a kernel, by any launcher |
| `{name}_{function}_launch` | from the host; it starts the kernel in a stream |
"""


def readme_text(
    model: Model,
    made: list[CFunction],
    name: str,
    real: Real,
    joints: tuple[JointLayout, ...],
    closing: int,
    digest: str,
    cuda: bool,
) -> str:
    """The README: how to build and call, and the layout of q and v.

    `closing` is the stack of the function that closes loops, in bytes; 0 if there is none.
    """
    loops = closing > 0
    up, first = name.upper(), made[0].recorded
    status_rows = [
        f"| `{up}_{status}` | {value} | {meaning} |"
        for value, (status, meaning) in enumerate(statuses(loops))
    ]
    functions = [
        f"| `{name}_{c.recorded.function.name}` | ({', '.join(map(str, c.recorded.shape))}) "
        f"| {sum(c.operations.values())} | {c.stack} |"
        for c in made
    ]
    rows = [
        f"| `{up}_Q_{j.identifier}`, `{up}_V_{j.identifier}` | {as_markdown(j.name)} | {j.first_q} "
        f"| {'; '.join(j.in_q)} | {j.first_v} | {'; '.join(j.in_v)} |"
        for j in joints
    ]
    arguments = ", ".join([argument for argument, _ in first.sizes] + ["out"])
    return _README.format(
        name=name,
        up=up,
        package=PACKAGE,
        version=version(),
        real=real.name,
        digest=digest,
        flags="-O3 " + FLAGS,
        call=f"{name}_{first.function.name}({arguments})",
        statuses="\n".join(status_rows),
        loops=_README_LOOPS.format(up=up, name=name, closing=closing) if loops else "",
        functions="\n".join(functions),
        cuda=_README_CUDA.format(up=up, name=name, function=first.function.name) if cuda else "",
        nq=model.nq,
        nv=model.nv,
        tolerance="1e-5" if real.suffix else "1e-6",
        joints="\n".join(rows),
    )
