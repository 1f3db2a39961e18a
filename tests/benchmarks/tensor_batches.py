"""Batches of tensors beside single calls, in one run on one thread.

    python tests/benchmarks/tensor_batches.py

Prints a table of docs/curvature.md: microseconds of each configuration. Single calls fill the places of the
array that the batch fills. *One place*: all single calls fill the same place, which stays in the cache.
*Zeros*: `out.fill(0.0)`; no function that writes as much to memory is faster. *Ratio*: singles over batch.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np
from kinematics import least

from connections import multibody as mb
from connections.multibody import functions

BATCH = 64
FUNCTIONS = {  # and the number of their vectors
    "christoffel_derivatives": 0,
    "curvature": 0,
    "inverse_dynamics_second_derivatives": 2,
    "forward_dynamics_second_derivatives": 2,
}


def row(robot: mb.Model, name: str) -> str:
    """The times of one function, and single calls over the batch."""
    n, rng, function = (
        robot.nv,
        np.random.default_rng(0),
        partial(getattr(functions, name), robot),
    )
    q = np.stack([robot.random(rng) for _ in range(BATCH)])
    vectors = rng.standard_normal((FUNCTIONS[name], BATCH, n))
    out = np.empty((BATCH, *((n,) * 4 if not FUNCTIONS[name] else (4, n, n, n))))

    def singles() -> None:
        for number in range(BATCH):
            function(q[number], *vectors[:, number], out=out[number])

    def one_place() -> None:
        for number in range(BATCH):
            function(q[number], *vectors[:, number], out=out[0])

    calls = [partial(function, q, *vectors, out=out), singles, one_place, partial(out.fill, 0.0)]
    calls.append(partial(function, q, *vectors))
    for call in calls:
        call()
    batch, apart, together, zeros, new = (1e6 * s / BATCH for s in least(calls, rounds=12, number=3))
    cells = [f"{x:.3g}" for x in (batch, apart, together, zeros, new)]
    return f"`{name}` | {n} | {out.nbytes / 2**20:.2g} MB | {' | '.join(cells)} | {apart / batch:.1f} |"


def main() -> None:
    """Measure, and print."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    mb.set_num_threads(1)
    heads = "function", "nv", "result", "batch", "singles", "one place", "zeros", "batch, new array", "ratio"
    print(f"| {' | '.join(heads)} |")
    print("|---" * 9 + "|")
    for robot in map(mb.example, ("arm", "quadruped")):
        for name in FUNCTIONS:
            print(f"| {row(robot, name)}", flush=True)


if __name__ == "__main__":
    main()
