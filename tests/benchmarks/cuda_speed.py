"""How fast generated CUDA is on a GPU, with CuPy: `python tests/benchmarks/cuda_speed.py`.

Kernels are compiled by `mb.codegen.load_cuda`, and their results are compared with this library's before
anything is timed. The time of a kernel is that between two events of CUDA, by the number of launches between
them; arrays are on the GPU. Processor times are those of batches of this library on the same machine, with
arrays for the results. --markdown PATH writes the section of docs/benchmarks_generated.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"  # JAX would take most of the GPU's memory for itself

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import numpy as np  # noqa: E402
from robots import robot_path  # noqa: E402

from connections import multibody as mb  # noqa: E402
from connections.multibody.generation.cuda_text import BLOCK  # noqa: E402

ROBOTS = {
    "UR5": ("ur5", False),
    "ANYmal": ("anymal", True),
    "G1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", True),
}
FUNCTIONS = {
    "C": "coriolis_matrix",
    "Gamma": "christoffel_symbols",
    "forward dynamics": "forward_dynamics",
    "C w": "coriolis_product",
    "C^T w": "coriolis_transpose_product",
}
COUNTS = (10**3, 10**4, 10**5, 10**6)
MEMORY = 36e9  # bytes of a result, at most
AGREEMENT = {"double": 1e-12, "float": 1e-3}
CHECKED = 200  # configurations
LAUNCHES, ROUNDS = 5, 7
HEAD = (
    "| robot | function | numbers | bytes | 10^3 | 10^4 | 10^5 | 10^6 | bandwidth, % | blocks of 64, 256 "
    "| error | 1 thread | {cores} threads |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
)
CALLS = """

A call of `load_cuda`'s function waits for the GPU and looks at the statuses. In ms: a call whose arguments
have a column for each configuration, and one whose arguments have a row, which are copied first; and how long
it takes to copy the arguments to the GPU, and the result from it (memory that is not pinned).

| robot | function | numbers | configurations | columns | rows | to the GPU | from it |
|---|---|---|---|---|---|---|---|
"""
TITLE = "\n## On a GPU\n"
TEXT = (
    TITLE
    + """
Millions of configurations in a second, by the number of configurations of a launch, on an
{gpu}. The time is that between two events
of CUDA; arguments and results stay in the GPU's memory. A block has {block} threads; behind the bandwidth are
the speeds with 64 and with 256, relative to that. *Bytes* is what a configuration reads and writes at least,
with its status, and *bandwidth* is this, for the largest count, over the speed of a copy inside the GPU's
memory. *Error* is the largest difference from this library, relative to the largest entry, at {checked} of
the states that are timed; to other states the difference is above 0.01. Times of the GPU are medians. The
last columns are batches of this library (`double`) on the processor of that machine, with one thread and with
{cores}, by their least times.

```bash
python tests/benchmarks/cuda_speed.py --markdown docs/benchmarks_generated.md  # this section; minutes
```

Gamma, and C of UR5, are bound by their results, which the memory takes no faster. The functions of ANYmal and
G1 are bound by memory, too: the numbers that a thread needs later do not fit into its registers. By Nsight
Compute, forward dynamics of ANYmal moves 6.9 kB for a configuration, and of G1 29 kB, where 0.6 and 1.1 are
needed, while the units for `double` are busy for 9 % and 6 % of the time (C of UR5: 42 %). So `float` is up
to 11 times as fast.

What made these functions faster, in millions of configurations in a second, on the same GPU (`double`):

| | C of ANYmal | C w of ANYmal | forward dynamics of ANYmal | C of G1 |
|---|---|---|---|---|
| pieces that are called, as in C | 278 | 474 | 147 | 66 |
| the compiler gets the pieces as one function | 354 | 1707 | 220 | 90 |
| zeros are written once, not overwritten | 507 | | | 105 |
| the order of operations in which fewer numbers are kept | | | 360 | |

Gamma mostly writes: in one function it is slower (ANYmal: 52 for 60), so its pieces are called. Results in
`float` were read again to test them; now they are tested while they are written (C of ANYmal: 1780 for 1150).
Fewer registers for each thread are slower (C of ANYmal with 168: 212 for 354).

"""
)


@dataclass(frozen=True)
class Case:
    """A function of a robot, and random states.

    Attributes
    ----------
    robot, what, dtype : as they are printed.
    model : the robot.
    states : (size, largest count) for each argument: a column for each configuration.
    size : how many numbers a result has.
    """

    robot: str
    what: str
    dtype: str
    model: mb.Model
    states: tuple[np.ndarray, ...]
    size: int

    @property
    def function(self) -> Callable[..., Any]:
        """The function of the library."""
        return getattr(mb, FUNCTIONS[self.what])

    @property
    def bytes(self) -> int:
        """What a configuration reads and writes at least: arguments, result, status."""
        return self.states[0].itemsize * (sum(map(len, self.states)) + self.size) + 4

    def most(self) -> int:
        """The largest count."""
        return max(count for count in COUNTS if count * self.states[0].itemsize * self.size <= MEMORY)

    def columns(self, cupy: Any, count: int) -> list[Any]:
        """The first states, on the GPU."""
        return [cupy.asarray(np.ascontiguousarray(x[:, :count])) for x in self.states]


def model_of(robot: str) -> mb.Model:
    """A robot of example-robot-data."""
    file, floating = ROBOTS[robot]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mb.InertiaWarning)
        return mb.from_urdf(robot_path(file), floating_base=floating)


def cases(robots: list[str], functions: list[str], most: int) -> Iterator[Case]:
    """All cases, with `most` random states."""
    rng = np.random.default_rng(0)
    for robot in robots:
        model = model_of(robot)
        q = rng.uniform(-np.pi, np.pi, (model.nq, most))
        if model.nq > model.nv:
            q[3:7] /= np.linalg.norm(q[3:7], axis=0)
        vectors = rng.standard_normal((2, model.nv, most))
        for what in functions:
            function = getattr(mb, FUNCTIONS[what])
            given = (q, *vectors)[: 1 + {"Gamma": 0, "C": 1}.get(what, 2)]
            size = function(model, *(x[:, 0] for x in given)).size
            for dtype in ("double", "float"):
                real = np.float64 if dtype == "double" else np.float32
                yield Case(robot, what, dtype, model, tuple(x.astype(real) for x in given), size)


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest entry."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def checked(cupy: Any, case: Case, loaded: Any) -> float:
    """The error of `load_cuda`'s function, on the states that are timed; other states must not agree."""
    rows = [np.ascontiguousarray(x[:, :CHECKED].T) for x in case.states]
    found = cupy.asnumpy(getattr(loaded, FUNCTIONS[case.what])(*map(cupy.asarray, rows)))
    expected = case.function(case.model, *(x.astype(np.float64) for x in rows))
    error, control = difference(found, expected), difference(found[::-1], expected)
    if not (error < AGREEMENT[case.dtype] and control > 1e-2):
        raise SystemExit(f"{case.robot} {case.what} {case.dtype}: error {error:.1e}, control {control:.1e}")
    return error


def between_events(cupy: Any, launch: Callable[[], Any]) -> float:
    """The median time of a launch, seconds."""
    times = []
    for _ in range(1 + ROUNDS):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        for _ in range(LAUNCHES):
            launch()
        end.record()
        end.synchronize()
        times.append(1e-3 * cupy.cuda.get_elapsed_time(start, end) / LAUNCHES)
    return median(times[1:])


def copied(cupy: Any) -> float:
    """Bytes read and written in a second by a copy of 4 GB inside the GPU's memory."""
    given = cupy.zeros(2**29)
    out = cupy.empty_like(given)
    return 2 * given.nbytes / between_events(cupy, lambda: cupy.copyto(out, given))


def kernel_of(cupy: Any, case: Case, folder: Path) -> Any:
    """The kernel of a function, which runs without what `load_cuda` does about it."""
    options = ("-std=c++17", f"-I{folder.resolve()}")  # those of load_cuda, so that it is compiled once
    module = cupy.RawModule(code=(folder / "robot.cuh").read_text(), options=options)
    return module.get_function(f"robot_{FUNCTIONS[case.what]}_kernel")


def generated(case: Case, place: Path) -> Path:
    """The folder with a function."""
    folder = place / f"{case.robot}_{FUNCTIONS[case.what]}_{case.dtype}"
    mb.codegen.generate_c(
        case.model, [FUNCTIONS[case.what]], folder, name="robot", dtype=case.dtype, cuda=True
    )
    return folder


def launcher(kernel: Any, arrays: list[Any], threads: int) -> Callable[[], Any]:
    """A call that starts a kernel for all columns of arrays, the last of which is the status."""
    count = arrays[-1].size
    given = (np.uint64(count), *arrays)
    return lambda: kernel((-(-count // threads),), (threads,), given)


def digits(x: float) -> str:
    """A number with three digits, without an exponent."""
    return f"{x:.3g}" if x < 999.5 else f"{float(f'{x:.3g}'):.0f}"


def on_gpu(cupy: Any, case: Case, kernel: Any, bandwidth: float) -> str:
    """Configurations in a second, in millions, for each count; which part of the bandwidth that is."""
    millions, fraction, blocks = [], 0.0, []
    for count in COUNTS:
        if count > case.most():
            millions.append("-")
            continue
        arrays = case.columns(cupy, count)
        real = arrays[0].dtype
        arrays += [cupy.empty((case.size, count), dtype=real), cupy.full(count, -1, dtype=np.int32)]
        seconds = between_events(cupy, launcher(kernel, arrays, BLOCK))
        assert not arrays[-1].any()
        millions.append(digits(1e-6 * count / seconds))
        fraction = case.bytes * count / seconds / bandwidth
        if count == case.most():
            others = [between_events(cupy, launcher(kernel, arrays, threads)) for threads in (64, 256)]
            blocks = [f"{seconds / other:.2f}" for other in others]
        del arrays
        cupy.get_default_memory_pool().free_all_blocks()
    return f"{' | '.join(millions)} | {100 * fraction:.0f} | {', '.join(blocks)}"


def whole_call(cupy: Any, case: Case, loaded: Any) -> str:
    """Times of a call of `load_cuda`'s function, and of copies from and to the processor's memory, ms."""
    count = max(count for count in COUNTS if count * case.bytes <= 1e9)
    columns = case.columns(cupy, count)
    rows = [cupy.ascontiguousarray(x.T) for x in columns]
    call = getattr(loaded, FUNCTIONS[case.what])
    found = []
    for given in ([x.T for x in columns], rows):
        found.append(waited(cupy, lambda given=given: call(*given)))
    out, host = call(*rows), [cupy.asnumpy(x) for x in rows]
    found.append(waited(cupy, lambda: [cupy.asarray(x) for x in host]))
    found.append(waited(cupy, lambda: cupy.asnumpy(out)))
    return f"{count} | " + " | ".join(f"{1e3 * x:.3g}" for x in found)


def waited(cupy: Any, call: Callable[[], Any]) -> float:
    """The median time until the GPU is ready, seconds, by the clock."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        call()
        cupy.cuda.runtime.deviceSynchronize()
        times.append(time.perf_counter() - start)
    return median(times[1:])


def on_processor(case: Case) -> list[str]:
    """Configurations in a second, in millions: with one thread, and with all."""
    count = min(200_000, len(case.states[0].T), int(4e8 / (8 * case.size)))
    rows = [np.ascontiguousarray(x[:, :count].T) for x in case.states]
    out, found = np.empty((count, *case.function(case.model, *(x[0] for x in rows)).shape)), []
    for threads in (1, os.cpu_count() or 1):
        mb.set_num_threads(threads)
        times = []
        for _ in range(4):
            start = time.perf_counter()
            case.function(case.model, *rows, out=out)
            times.append(time.perf_counter() - start)
        found.append(f"{1e-6 * count / min(times[1:]):.3g}")
    return found


def section(gpu: str, speeds: list[str], calls: list[str], cores: int) -> str:
    """The section of docs/benchmarks_generated.md."""
    return (
        TEXT.format(gpu=gpu, cores=cores, checked=CHECKED, block=BLOCK)
        + HEAD.format(cores=cores)
        + "\n".join(speeds)
        + CALLS
        + "\n".join(calls)
        + "\n"
    )


def main() -> int:
    """Measure, print, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=[*ROBOTS])
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=[*FUNCTIONS])
    parser.add_argument("--folder", type=Path, help="where generated files are kept")
    parser.add_argument("--markdown", type=Path, help="a page, whose section is replaced")
    options = parser.parse_args()
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    bandwidth, cores = copied(cupy), os.cpu_count() or 1
    gpu = f"{name}, which copies {bandwidth / 1e12:.2f} TB/s; CuPy {cupy.__version__}"
    print(gpu, HEAD.format(cores=cores), sep="\n", end="")
    processors: dict[tuple[str, str], list[str]] = {}
    speeds, calls = list[str](), list[str]()
    with tempfile.TemporaryDirectory() as place:
        for case in cases(options.robots, options.functions, max(COUNTS)):
            folder = generated(case, options.folder or Path(place))
            loaded = mb.codegen.load_cuda(folder)
            error = checked(cupy, case, loaded)
            head = f"| {case.robot} | {case.what} | {case.dtype} |"
            millions = on_gpu(cupy, case, kernel_of(cupy, case, folder), bandwidth)
            if case.dtype == "double":
                processors[case.robot, case.what] = on_processor(case)
            cpu = " | ".join(processors[case.robot, case.what])
            speeds.append(f"{head} {case.bytes} | {millions} | {error:.1e} | {cpu} |")
            calls.append(f"{head} {whole_call(cupy, case, loaded)} |")
            print(speeds[-1], calls[-1], flush=True)
    if options.markdown:
        page = options.markdown.read_text() if options.markdown.exists() else ""
        before, _, after = page.partition(TITLE)
        _, loops, after = after.partition("\n### ")  # of cuda_loops.py
        options.markdown.write_text(before + section(gpu, speeds, calls, cores) + loops + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
