"""A sweep of a million configurations of a quadruped: how much of a core goes into its own work.

    python tests/benchmarks/sweeps.py [ROWS] [--disk FOLDER] [--chunk ROWS]

The bare batch is the sweep's own function, chunk after chunk in one process and one thread, without Dask and
without Zarr: it draws configurations and computes; its results are dropped. Against it, the sweep with one
worker and with two: processor's time of the workers for checking, computing and writing, by row, which says
how much of a core is left for the work, and wall time. The stores of both are compared bit by bit, and a run
whose first worker is killed with them. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import zarr

sys.path.insert(0, str(Path(__file__).parents[1]))
from robots import robot_path

from connections import multibody as mb
from connections.sweeps import Done, Summary, Sweep, local_cluster, run_sweep, table_sweep

ROBOT = "solo12"
REPEATS = 3


def bare(sweep: Sweep) -> tuple[float, float]:
    """Processor's and wall time of the function alone, s for all rows; the best of some runs."""
    mb.set_num_threads(1)
    sweep.compute(0)  # compiled
    times = []
    for _ in range(REPEATS):
        start = time.process_time(), time.perf_counter()
        for number in range(sweep.chunks):
            sweep.compute(number)
        times.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    return min(times)


def measured(sweep: Sweep, path: Path, workers: int, kill: bool = False) -> tuple[Summary, float]:
    """A run on a warm cluster and its wall time; with `kill`, its first worker ends after its first chunk."""
    from distributed import Client

    killed: list[int] = []

    def progress(done: Done, chunks: int) -> None:
        if kill and not killed:
            os.kill(done.process, signal.SIGKILL)
            killed.append(done.process)

    shutil.rmtree(path, ignore_errors=True)
    with local_cluster(workers) as cluster:
        with Client(cluster, set_as_default=False) as client:
            warm = table_sweep(sweep.function.model, sweep.function.names, 100 * workers, chunk=20)  # type: ignore[attr-defined]
            with tempfile.TemporaryDirectory() as folder:
                run_sweep(warm, Path(folder) / "warm", scheduler=client)
            start = time.perf_counter()
            summary = run_sweep(sweep, path, scheduler=client, progress=progress)
            wall = time.perf_counter() - start
    return summary, wall


def pieces(path: Path, sweep: Sweep) -> Iterator[np.ndarray]:
    """The arrays of a store, chunk by chunk."""
    group = zarr.open_group(path, mode="r")
    for number in range(sweep.chunks):
        for name in sweep.outputs:
            yield group[name][slice(*sweep.bounds(number))]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--disk", type=Path, help="where the stores go (default: a temporary folder)")
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--quantity", action="append", help="default christoffel_bounds and coriolis_matrix")
    options = parser.parse_args()
    robot = mb.from_urdf(robot_path(ROBOT), floating_base=True)
    print(f"{ROBOT} on a floating base, {robot.nv} velocities, {options.rows:,} random configurations\n")
    print("| table | rows per chunk | bare batch [us] | workers | computing [us] | checking, writing [us] "
          "| of a core for the work | wall [s] |")  # fmt: skip
    print("|---|---:|---:|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(dir=options.disk) as folder:
        for name in options.quantity or ("christoffel_bounds", "coriolis_matrix"):
            sweep = table_sweep(robot, [name], options.rows, chunk=options.chunk)
            processor, wall = bare(sweep)
            each = 1e6 / sweep.rows
            print(f"| {name} | {sweep.chunk:,} | {processor * each:.2f} | none | | | | {wall:.1f} |")
            stores = []
            for workers, kill in ((1, False), (2, False), (2, True)):
                stores.append(Path(folder) / f"{name}-{len(stores)}")
                summary, wall = measured(sweep, stores[-1], workers, kill)
                checking, computing, writing = (seconds * each for seconds in summary.seconds)
                share = processor * each / (checking + computing + writing)
                text = f"{workers}, one killed" if kill else str(workers)
                print(f"| {name} | {sweep.chunk:,} | {processor * each:.2f} | {text} | {computing:.2f} "
                      f"| {checking + writing:.2f} | {100 * share:.0f} % | {wall:.1f} |")  # fmt: skip
            same = all(
                len({part.tobytes() for part in parts}) == 1
                for parts in zip(*(pieces(path, sweep) for path in stores), strict=True)
            )
            print(f"{name}: the three stores are {'bitwise equal' if same else 'DIFFERENT'}", file=sys.stderr)
            for path in stores:
                shutil.rmtree(path)


if __name__ == "__main__":
    main()
