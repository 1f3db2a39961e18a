"""How fast generated C is, against Pinocchio: `python tests/benchmarks/generated.py`.

C functions are compiled by gcc with the options of the generated CMake project, and called 10^5 times by a
loop in C; the processor time of the fastest of five loops counts, because the machine may be busy. Python
calls of this library and of Pinocchio are medians of warm calls in the same run, on values that were compared
to 1e-9. A missed target is printed as MISSED; the exit status is 0 all the same. --markdown PATH writes the
page docs/benchmarks_generated.md.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core import commit, processor  # first: it pins the process before NumPy is imported  # isort: skip

import cortex_m7
import cuda_registers
import cuda_speed
import numpy as np
import pinocchio as pin
from competitors import Pair, medians
from cuda_speed import FUNCTIONS
from recursions import one_joint, robots

from connections import multibody as mb
from connections.multibody.generation.c_test import computed, states
from connections.multibody.generation.function_text import LARGEST, PIECE, WHOLE
from connections.multibody.generation.project_files import FLAGS
from connections.multibody.generation.recording import exported_function

CALLS, LOOPS = 100_000, 5
OPTIONS = ["-O3", *FLAGS.split(), "-march=native"]
POSTURES = 10_000  # in float
GOALS = {  # us
    ("C", "UR5"): 0.25,
    ("C", "xArm7"): 0.35,
    ("C", "ANYmal"): 0.8,
    ("C", "G1"): 2.0,
    ("Gamma", "UR5"): 0.3,
    ("Gamma", "ANYmal"): 1.5,
    ("forward dynamics", "ANYmal"): 1.2,
}
RATIO = {"arm": 4.0}  # to Pinocchio without its entrance; 3 for the others
TIMED = ("UR5", "xArm7", "ANYmal", "G1")

_LOOP = """
#include <time.h>
#include "{name}.h"
double loop(int count, {given}double *out);
double loop(int count, {given}double *out)
{{
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (int i = 0; i < count; ++i) {{
        if ({name}_{function}({each}out) != 0) return -1.0;
    }}
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    return ((double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec)) / count;
}}
"""
_INTRODUCTION = """# Benchmarks of generated C

What [`mb.codegen.generate_c`](generated_c.md) writes, compiled by gcc ({options})
and called {calls} times by a loop in C: microseconds of processor time, on one core. *Python* is our own
call with the same arguments, and *Pinocchio* its Python call, both validated and warm, in the same run;
*without entrance* is Pinocchio's call less its call for a model of one joint, an estimate of its time in C++.
The number in brackets is that estimate over the time of C. Targets are times, and 4 times faster than the
estimate on arms, 3 times on the others; **missed** stands beside what was missed.

For Gamma, Pinocchio's time is that of one `computeCoriolisMatrix` for each unit velocity; for *C w* and
*C^T w* it is one of these, without a product. *Operations* are sums, products and quotients of one call;
*instructions* and *code* are what gcc makes of them; *stack* is what it reports with `-fstack-usage`.
*Generated* and *compiled* are seconds of processor time.

The page is written by

```bash
python tests/benchmarks/generated.py --markdown docs/benchmarks_generated.md  # this page; minutes
python tests/benchmarks/generated.py --robots UR5                             # one robot; seconds
```

"""


@dataclass(frozen=True)
class Row:
    """A function of a robot."""

    robot: str
    kind: str
    what: str
    time: float
    python: float
    theirs: float
    estimate: float
    operations: int
    text: int
    instructions: int
    code: int
    stack: int
    generated: float
    compiled: float

    @property
    def verdict(self) -> str:
        """Which target was missed."""
        goal = GOALS.get((self.what, self.robot))
        missed = []
        if goal is not None and self.time > 1e-6 * goal:
            missed.append(f"**missed** {goal} us")
        if self.what in ("C", "forward dynamics") and self.ratio < RATIO.get(self.kind, 3.0):
            missed.append(f"**missed** {RATIO.get(self.kind, 3.0):g} times")
        return " ".join(missed)

    @property
    def ratio(self) -> float:
        """Pinocchio's estimated time in C++ over ours in C."""
        return self.estimate / self.time

    def __str__(self) -> str:
        code = f"{self.instructions} | {self.code // 1000} | {self.stack}"
        us = [f"{1e6 * x:.3g}" for x in (self.time, self.python, self.theirs, self.estimate)]
        return (
            f"| {self.robot} | {self.what} | {us[0]} ({self.ratio:.1f}) {self.verdict} | {us[1]} | {us[2]} "
            f"| {us[3]} | {self.operations} | {self.text // 1000} | {code} | {self.generated:.2f} "
            f"| {self.compiled:.1f} |"
        )


#: Functions with much text, of which gcc does not compile the first in 200 s if it is one piece.
LONG = {
    "G1": ("forward_dynamics_derivatives", "forward_dynamics_hessian_product", "christoffel_derivatives"),
    "ANYmal": ("curvature", "forward_dynamics_second_derivatives"),
}


HEAD = (
    "| robot | function | C, us | Python | Pinocchio | without entrance | operations | text, kB "
    "| instructions | code, kB | stack, bytes | generated, s | compiled, s |\n|" + "---|" * 13
)


def processor_time() -> float:
    """Of this process and of those that it waited for, seconds."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def rows(pair: Pair, repeats: int) -> Iterator[Row]:
    """The functions of a robot."""
    model, n = pair.model, pair.model.nv
    entrance = medians([one_joint()], repeats)[0]
    for what, function in FUNCTIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            start = processor_time()
            try:
                made = mb.codegen.generate_c(model, [function], folder, name="robot").functions[function]
            except ValueError as error:
                print(f"{pair.name}, {what}: {error}", flush=True)
                continue
            generated = processor_time() - start
            row = exported_function(function).row
            vectors = [pair.v, pair.a if what == "forward dynamics" else pair.w][: len(row.vectors)]
            out = np.empty(model.program.cores[function])
            start = processor_time()
            time_of = built(Path(folder), function, row.vectors)
            compiled = processor_time() - start
            once = min(time_of(pair.q, *vectors, out) for _ in range(LOOPS))
            size = size_of(Path(folder), function)
        expected = computed(model, exported_function(function), [pair.q, *vectors])
        gap = np.abs(out - expected).max() / np.abs(expected).max()
        if not gap <= 1e-12:
            raise SystemExit(f"{pair.name}: {what} differs by {gap:.1e}: nothing is timed")
        theirs = pair.theirs(pin.computeCoriolisMatrix, pair.v_other)
        if what == "forward dynamics":
            theirs = pair.theirs(pin.aba, pair.v_other, pair.a_other)
        ours = partial(
            getattr(mb.curvatures if function == "curvature" else mb, function), model, pair.q, *vectors
        )
        python, other = medians([ours, theirs], repeats)
        count = n if what == "Gamma" else 1
        yield Row(
            pair.name,
            pair.kind,
            what,
            once,
            python,
            count * other,
            count * (other - entrance),
            made["operations"],
            made["text"],
            *size,
            generated,
            compiled,
        )


def long_functions() -> Iterator[str]:
    """Rows about functions with much text."""
    for robot, names in LONG.items():
        pair = robots()[robot]()
        for function in names:
            exported = exported_function(function)
            given = states(pair.model, exported, 1, 3)[0]
            with tempfile.TemporaryDirectory() as folder:
                start = processor_time()
                made = mb.codegen.generate_c(pair.model, [function], folder, name="robot").functions[function]
                middle = processor_time()
                time_of = built(Path(folder), function, exported.row.vectors, 300)
                end = processor_time()
            out = np.empty(pair.model.program.cores[function])
            once = min(time_of(*given, out) for _ in range(2))
            expected = computed(pair.model, exported, given)
            gap = np.abs(out - expected).max() / np.abs(expected).max()
            if not gap <= 1e-10:
                raise SystemExit(f"{robot}: {function} differs by {gap:.1e}: nothing is timed")
            (python,) = medians(
                [
                    partial(
                        getattr(mb.curvatures if function == "curvature" else mb, function),
                        pair.model,
                        *given,
                    )
                ],
                5,
            )
            text, stack = made["text"] / 1e6, made["stack"] / 1000
            cells = [robot, function, made["operations"], f"{text:.1f}", made["pieces"], f"{stack:.0f}"]
            cells += [
                f"{middle - start:.1f}",
                f"{end - middle:.1f}",
                f"{1e6 * once:.3g}",
                f"{1e6 * python:.3g}",
            ]
            yield "| " + " | ".join(map(str, cells)) + " |"


def built(folder: Path, function: str, vectors: tuple[str, ...], calls: int = 0):
    """Compile a function with a loop of so many calls; what returns the time of one, seconds."""
    names = ("q", *vectors)
    source = _LOOP.format(
        name="robot",
        function=function,
        given="".join(f"const double *{x}, " for x in names),
        each="".join(f"{x}, " for x in names),
    )
    (folder / "loop.c").write_text(source)
    library = folder / "loop.so"
    sources = [str(folder / "loop.c"), str(folder / f"robot_{function}.c")]
    subprocess.run(["gcc", *OPTIONS, "-fPIC", "-shared", *sources, "-o", str(library), "-lm"], check=True)
    loop = ctypes.CDLL(str(library)).loop
    loop.restype = ctypes.c_double

    def call(*arrays: np.ndarray) -> float:
        pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in arrays]
        return float(loop(calls or CALLS // (1 if len(arrays[-1].shape) < 3 else 10), *pointers))

    return call


def size_of(folder: Path, function: str) -> tuple[int, int, int]:
    """Instructions, bytes of machine code, and bytes of the stack of a function."""
    command = ["gcc", *OPTIONS, "-fstack-usage", "-c", f"robot_{function}.c", "-o", "robot.o"]
    subprocess.run(command, cwd=folder, check=True)
    command = ["objdump", "-d", "robot.o"]
    listed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^ *([0-9a-f]+):\t[^\t\n]+\t", listed, re.MULTILINE)
    used = [line.split("\t")[1] for line in next(folder.glob("*.su")).read_text().splitlines()]
    return len(lines), int(lines[-1], 16), max(map(int, used))


def float_errors(pair: Pair) -> Iterator[str]:
    """Rows about float against double."""
    for what in ("C", "C w", "forward dynamics"):
        function = exported_function(FUNCTIONS[what])
        with tempfile.TemporaryDirectory() as folder:
            mb.codegen.generate_c(pair.model, [function.name], folder, name="robot", dtype="float")
            single = getattr(mb.codegen.load_c(folder, flags=("-O1",)), function.name)
        with tempfile.TemporaryDirectory() as folder:
            mb.codegen.generate_c(pair.model, [function.name], folder, name="robot")
            double = getattr(mb.codegen.load_c(folder, flags=("-O1",)), function.name)
        given = [np.stack(x) for x in zip(*states(pair.model, function, POSTURES, 5), strict=True)]
        exact, found = double(*given), single(*given)
        axes = tuple(range(1, exact.ndim))
        errors = np.abs(found - exact).max(axis=axes) / np.abs(exact).max(axis=axes)
        yield f"| {pair.name} | {what} | {np.median(errors):.1e} | {np.max(errors):.1e} |"


def agreement(repeats: int) -> Iterator[str]:
    """Rows about robots of example-robot-data: the largest relative errors."""
    import warnings

    from robots import robot_path

    files = (
        "ur_description/urdf/ur5_robot.urdf panda_description/urdf/panda.urdf "
        "xarm_description/urdf/xarm7.urdf kinova_description/robots/kinova.urdf "
        "z1_description/urdf/z1.urdf double_pendulum_description/urdf/double_pendulum.urdf "
        "asr_twodof_description/urdf/TwoDofs.urdf so_arm_description/urdf/so101.urdf "
        "allegro_hand_description/urdf/allegro_left_hand.urdf "
        "*anymal_b_simple_description/robots/anymal.urdf "
        "*anymal_c_simple_description/urdf/anymal.urdf *solo_description/robots/solo12.urdf "
        "*a1_description/urdf/a1.urdf *b1_description/urdf/b1.urdf *go1_description/urdf/go1.urdf "
        "*go2_description/urdf/go2.urdf *hyq_description/robots/hyq_no_sensors.urdf "
        "*laikago_description/urdf/laikago.urdf *bolt_description/robots/bolt.urdf "
        "*borinot_description/urdf/borinot_flying_arm_2.urdf *hector_description/robots/quadrotor_base.urdf "
        "*iris_description/robots/iris_simple.urdf *talos_data/robots/talos_reduced.urdf"
    ).split()
    for file in files:
        floating, file = file.startswith("*"), file.removeprefix("*")
        try:
            path = robot_path(file)
        except FileNotFoundError:
            print(f"there is no {file}", flush=True)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mb.InertiaWarning)
            model = mb.from_urdf(path, floating_base=floating)
        worst = []
        for name in ("mass_matrix", "coriolis_matrix", "coriolis_transpose_product", "forward_dynamics"):
            function = exported_function(name)
            with tempfile.TemporaryDirectory() as folder:
                mb.codegen.generate_c(model, [name], folder, name="robot")
                call = getattr(mb.codegen.load_c(folder, flags=("-O1",)), name)
            errors = []
            for state in states(model, function, repeats, 7):
                expected = computed(model, function, state)
                errors.append(np.abs(call(*state) - expected).max() / np.abs(expected).max())
            worst.append(max(errors))
        shown = " | ".join(f"{x:.1e}" for x in worst)
        yield f"| {Path(file).parts[0].removesuffix('_description')}, {path.stem} | {model.nv} | {shown} |"


LONG_HEAD = """

The code has no branches, so that each instruction is executed once: {speeds} in a nanosecond, for C.
So their number is what the time follows; why those of G1, 111 kB, are slower was not measured (the
processor's nearest cache for instructions has 32 kB). With pieces of 3 to 40 kB, `-O2`, or the order of the
kernel it took 2.04 to 2.19 us, in two runs.

## Long functions

A function with more than {whole} kB of statements is written in pieces of about {piece} kB, one function
each, which keep in an array what a later one reads. In one piece, gcc took 15 s for the derivatives of
ANYmal's forward dynamics (0.4 MB), and did not finish those of G1 (1.8 MB) in 200 s; of pieces the times add
up. They leave fewer numbers in memory, too: in one run, C of G1 took 2.53 us whole and 2.11 us in pieces, C
of ANYmal 0.68 and 0.59. A table of operations for a loop is no alternative: by estimate it has as much text,
16 bytes for an operation. Functions of more than {largest} MB are refused. *Python* is the call of this
library, in us.

| robot | function | operations | text, MB | pieces | stack, kB | made, s | compiled, s | C, us | Python |
|---|---|---|---|---|---|---|---|---|---|
"""
BOUND = """

## Agreement

The largest differences from this library at 20 random states, relative to the largest entry of each result.

| robot | nv | H | C | C^T w | forward dynamics |
|---|---|---|---|---|---|
"""
FLOAT = """

## Float

Errors of `float` against `double` at {postures} random states, relative to the largest entry of each result.

| robot | function | median | largest |
|---|---|---|---|
"""

CORTEX = (
    """

## Cortex-M7

Sizes of `float` functions, compiled by `arm-none-eabi-gcc` for a Cortex-M7 with single precision
(`tests/benchmarks/cortex_m7.py`). The generated test passes on QEMU's board mps2-an500, which does not tell
how long a call takes. Code is without libm; the angles' sines are `sinf` and `cosf` of newlib.

"""
    + cortex_m7.HEAD
)
CUDA = (
    """

## CUDA

What one thread needs, as NVRTC's assembler says for compute capability 9.0 (H100): its registers, of which
there are at most 255, and how many bytes of its memory it writes and reads because these do not suffice
(`tests/benchmarks/cuda_registers.py`).

"""
    + cuda_registers.HEAD
)


def main() -> int:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--robots", nargs="+", choices=TIMED, default=TIMED)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--all-cores", action="store_true", help="do not pin the process to one core")
    options = parser.parse_args()
    found, floats = list[Row](), list[str]()
    load = os.getloadavg()[0]
    for name in options.robots:
        pair = robots()[name]()
        for row in rows(pair, options.repeats):
            print(row, flush=True)
            found.append(row)
        if name in ("UR5", "ANYmal"):
            for line in float_errors(pair):
                print(line, flush=True)
                floats.append(line)
    longs = []
    for line in long_functions() if options.markdown else ():
        print(line, flush=True)
        longs.append(line)
    agreements = []
    for line in agreement(20) if options.markdown else ():
        print(line, flush=True)
        agreements.append(line)
    if options.markdown:
        gcc = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout
        where = f"{time.strftime('%Y-%m-%d')}, {processor()}, load {load:.1f}, {gcc.splitlines()[0]}, "
        where += f"Pinocchio {pin.__version__}, library at commit {commit()}."
        text = _INTRODUCTION.format(options=" ".join(f"`{x}`" for x in OPTIONS), calls=CALLS)
        text += f"## Times\n\n{where}\n\n{HEAD}\n" + "\n".join(map(str, found))
        speeds = [f"{r.instructions / r.time / 1e9:.1f} of {r.robot}" for r in found if r.what == "C"]
        sizes: dict[str, object] = {"speeds": ", ".join(speeds)}
        sizes |= {"whole": WHOLE // 1000, "piece": PIECE // 1000, "largest": LARGEST // 10**6}
        text += LONG_HEAD.format(**sizes) + "\n".join(longs) + BOUND
        text += "\n".join(agreements) + FLOAT.format(postures=POSTURES) + "\n".join(floats)
        text += CORTEX + "\n".join(cortex_m7.rows()) + CUDA + "\n".join(cuda_registers.rows()) + "\n"
        measured = options.markdown.read_text().partition(cuda_speed.TITLE)  # on a machine that has a GPU
        options.markdown.write_text(text + measured[1] + measured[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
