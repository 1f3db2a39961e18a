"""How fast generated CUDA closes loops on a GPU, with CuPy: `python tests/benchmarks/cuda_loops.py`.

The loops of every configuration are solved from the reference, and from the solution of a configuration
nearby, as in a simulation; then C, of solved loops. Solutions and C are compared with the library's before
anything is timed. Times are those of `cuda_speed`. --markdown PATH writes the section of
docs/benchmarks_generated.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda_speed import between_events, difference, digits, launcher  # first: it keeps JAX off the GPU  # isort: skip

import closed_chains as plans  # of tests/support, which cuda_speed adds to the path
import numpy as np

from connections import multibody as mb
from connections.multibody.generation.cuda_text import BLOCK
from connections.multibody.generation.loading import description_of

ROBOTS: dict[str, Callable[[], Any]] = {
    "four-bar": plans.four_bar,
    "six-bar": plans.six_bar,
    "four-bar legs": lambda: plans.legged_robot(4),
    "Stewart platform, its legs": lambda: plans.stewart_platform("legs"),
}
COUNTS = (10**3, 10**4, 10**5)
DIFFERENT = 1000  # configurations, repeated until there are as many as are asked for
NEARBY = 0.005  # rad or m, of the coordinate that moves most
AGREEMENT = 1e-9
TITLE = "\n### Closed chains on a GPU\n"
TEXT = (
    TITLE
    + """
Millions of configurations in a second on an {gpu}, as above. The loops of {different} random
configurations, repeated, are solved from the reference ("far") and from the solution of a configuration that
lies {nearby} rad or m away, towards the reference ("near"), a copy of where they start
included; C is that of solved loops. All numbers are `double`. *Error* is the largest difference from this
library, relative to the largest entry, in all of them. The last columns are batches of this library on the
processor of that machine; those of C solve the loops, too, from a guess.

```bash
python tests/benchmarks/cuda_loops.py --markdown docs/benchmarks_generated.md  # this section; minutes
```

| robot | what | 10^3 | 10^4 | 10^5 | error | 1 thread | {cores} threads |
|---|---|---|---|---|---|---|---|
"""
)


class Case:
    """A closed chain, random configurations, others nearby, and the solutions of both.

    Attributes
    ----------
    near, q : (DIFFERENT, nq), configurations, and those whose loops are solved.
    guess : `near` with its loops solved.
    """

    def __init__(self, model: mb.Model) -> None:
        rng = np.random.default_rng(0)
        self.model = model
        self.q = np.stack([model.random(rng) for _ in range(DIFFERENT)])
        back = mb.difference(model, self.q, model.neutral())  # on this way the loops close
        self.near = mb.displace(model, self.q, NEARBY * back / np.abs(back).max(axis=1, keepdims=True))
        self.guess = mb.close_loops(model, self.near)
        self.v = rng.standard_normal((DIFFERENT, model.nv))
        closed = mb.close_loops(model, self.q)
        self.loops, self.C = closed.spanning, mb.coriolis_matrix(model, closed, self.v)

    def on_processor(self, threads: int) -> list[str]:
        """Configurations in a second, in millions: loops from the reference and nearby, and C."""
        mb.set_num_threads(threads)
        q, v, guess = (np.tile(x, (10, 1)) for x in (self.q, self.v, self.guess.spanning))
        calls = (
            lambda: mb.close_loops(self.model, q),
            lambda: mb.close_loops(self.model, q, guess),
            lambda: mb.coriolis_matrix(self.model, mb.close_loops(self.model, q, guess), v),
        )
        return [f"{1e-6 * len(q) / least(call):.3g}" for call in calls]


def least(call: Callable[[], Any]) -> float:
    """The least time of a few calls, seconds."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def columns(cupy: Any, rows: np.ndarray, count: int) -> Any:
    """Rows, repeated, as columns on the GPU."""
    repeated = rows.reshape(len(rows), -1).T[:, np.arange(count) % len(rows)]
    return cupy.asarray(np.ascontiguousarray(repeated))


def on_gpu(cupy: Any, case: Case, place: Path) -> list[list[str]]:
    """For loops from the reference, loops from nearby, and C: millions in a second, and the error."""
    mb.codegen.generate_c(case.model, ["coriolis_matrix"], place, name="robot", cuda=True)
    options = ("-std=c++17", f"-I{place.resolve()}")
    module = cupy.RawModule(code=(place / "robot.cuh").read_text(), options=options)
    start, close, C = (
        module.get_function(f"robot_{name}_kernel") for name in ("start", "close", "coriolis_matrix")
    )
    rows: list[list[str]] = [[], [], []]
    for count in COUNTS:
        q, v = (columns(cupy, x, count) for x in (case.q, case.v))
        near, size = columns(cupy, case.near, count), description_of(place)["loops"]
        reference, solved = (cupy.empty((size, count), dtype=np.float64) for _ in range(2))
        status, out = (
            cupy.full(count, -1, dtype=np.int32),
            cupy.empty((case.model.nv**2, count), dtype=np.float64),
        )

        def run(kernel: Any, *arrays: Any, status: Any = status) -> None:
            status[...] = -1
            launcher(kernel, [*arrays, status], BLOCK)()
            if status.any():
                raise SystemExit(f"statuses {np.unique(status.tolist())}")

        run(start, reference)
        guess = reference.copy()
        run(close, near, guess)
        found = []
        for k, first in enumerate((reference, guess)):
            solved[...] = first
            run(close, q, solved)
            found.append((solved.T[:DIFFERENT, : case.loops.shape[1]].copy(), case.loops))

            def again(first: Any = first, solved: Any = solved, q: Any = q, status: Any = status) -> None:
                solved[...] = first
                launcher(close, [q, solved, status], BLOCK)()

            rows[k].append(digits(1e-6 * count / between_events(cupy, again)))
        run(C, solved, v, out)
        found.append((out.T[:DIFFERENT], case.C.reshape(DIFFERENT, -1)))
        seconds = between_events(cupy, launcher(C, [solved, v, out, status], BLOCK))
        rows[2].append(digits(1e-6 * count / seconds))
    for row, (one, other) in zip(rows, found, strict=True):
        one = cupy.asnumpy(one)
        error, control = difference(one, other), difference(one[::-1], other)
        if not (error < AGREEMENT and control > 1e-2):
            raise SystemExit(f"error {error:.1e}, control {control:.1e}")
        row.append(f"{error:.1e}")
    return rows


def main() -> int:
    """Measure, print, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--robots", nargs="+", choices=[*ROBOTS], default=[*ROBOTS])
    parser.add_argument("--markdown", type=Path, help="a page, to which the section is appended or replaced")
    options = parser.parse_args()
    import cupy

    name, cores = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(), os.cpu_count() or 1
    text = TEXT.format(gpu=name, different=DIFFERENT, nearby=NEARBY, cores=cores)
    print(text, end="")
    for robot in options.robots:
        case = Case(ROBOTS[robot]().build())
        processor = list(zip(case.on_processor(1), case.on_processor(cores), strict=True))
        with tempfile.TemporaryDirectory() as place:
            rows = on_gpu(cupy, case, Path(place))
        for what, row, cpu in zip(("loops, far", "loops, near", "C"), rows, processor, strict=True):
            text += (line := f"| {robot} | {what} | {' | '.join([*row, *cpu])} |\n")
            print(line, end="", flush=True)
    if options.markdown:
        page = options.markdown.read_text() if options.markdown.exists() else ""
        options.markdown.write_text(page.split(TITLE)[0] + text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
