"""A sweep of a million configurations of a quadruped: how much of a core goes into its own work.

    python tests/benchmarks/sweeps.py [ROWS] [--quantity NAME] [--chunk ROWS] [--disk FOLDER]

The bare batch is the sweep's own function, chunk after chunk, without Dask and without Zarr: it draws
configurations and computes, and drops the results; in as many processes at a time as the sweep has workers,
by turns with the sweep. Against it, the sweep: processor's time of the workers by row, for computing
and for checking and writing, all threads counted; medians over the chunks. The bare batch over their sum is
the throughput of a core. A run whose first worker is killed is among them; all stores are compared bit by
bit. `tofile` is the processor's time of writing the same bytes to new files with NumPy. Prints a Markdown
table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import zarr

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from robots import robot_path

from connections import multibody as mb
from connections.sweeps import Done, Sweep, local_cluster, run_sweep, table_sweep

ROBOT = "solo12"
HEAD = ("table", "rows per chunk", "workers", "bare [us]", "computing [us]", "checking, writing [us]")
HEAD = (*HEAD, "throughput of a core", "tofile [us]", "wall [s]")


def bare(sweep: Sweep, first: int, every: int) -> list[float]:
    """Processor's time of the function on some chunks, s each."""
    mb.set_num_threads(1)
    sweep.compute(0)  # compiled
    times = []
    for number in range(first, sweep.chunks - 1, every):  # the last one may be shorter
        start = time.process_time()
        sweep.compute(number)
        times.append(time.process_time() - start)
    return times


def bare_by(sweep: Sweep, processes: int) -> list[float]:
    """Processor's times of the chunks in so many processes at once, s."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(bare, sweep, first, processes) for first in range(processes)]
        return [time for part in parts for time in part.result()]


def written_plainly(sweep: Sweep, folder: Path) -> float:
    """Processor's time of writing a chunk's arrays to new files, s for all rows."""
    arrays, times = sweep.compute(0), []
    for number in range(5):
        start = time.process_time()
        for name, array in arrays.items():
            array.tofile(folder / f"{name}{number}")
        times.append(time.process_time() - start)
    return float(np.median(times)) * sweep.rows / len(next(iter(arrays.values())))


def measured(sweep: Sweep, path: Path, workers: int, kill: bool = False) -> tuple[list[Done], float]:
    """The chunks of a run on a warm cluster, and its wall time, s; with `kill`, a worker ends early."""
    from distributed import Client

    done: list[Done] = []

    def progress(each: Done, chunks: int) -> None:
        if kill and not done:
            os.kill(each.process, signal.SIGKILL)
        done.append(each)

    table = sweep.function
    with local_cluster(workers) as cluster, Client(cluster, set_as_default=False) as client:
        warm = table_sweep(table.model, table.names, 100 * workers, chunk=20)  # type: ignore[attr-defined]
        run_sweep(warm, path.with_suffix(".warm"), scheduler=client)
        start = time.perf_counter()
        run_sweep(sweep, path, scheduler=client, progress=progress)
        return done, time.perf_counter() - start


def pieces(path: Path, sweep: Sweep) -> Iterator[bytes]:
    """The arrays of a store, chunk by chunk."""
    group = zarr.open_group(path, mode="r")
    for number in range(sweep.chunks):
        for name in sweep.outputs:
            yield group[name][slice(*sweep.bounds(number))].tobytes()


def table(sweep: Sweep, folder: Path, rounds: int) -> None:
    """Measure one sweep and print its rows; the bare batch and the sweep by turns."""
    each, stores = 1e6 / sweep.chunk, []
    plain = written_plainly(sweep, folder) * 1e6 / sweep.rows
    for workers, kill in ((1, False), (2, False), (2, True)):
        bares, done, walls = bare_by(sweep, workers), [], []
        for _ in range(rounds):
            stores.append(folder / f"{len(stores)}.zarr")
            chunks, wall = measured(sweep, stores[-1], workers, kill)
            done += chunks
            walls.append(wall)
            bares += bare_by(sweep, workers)
        times = np.array([one.seconds for one in done if one.number < sweep.chunks - 1])
        without, computing = np.median(bares) * each, np.median(times[:, 1]) * each
        rest = np.median(times[:, 0] + times[:, 2]) * each
        name = " and ".join(sweep.function.names)  # type: ignore[attr-defined]
        cells = [
            name,
            f"{sweep.chunk:,}",
            f"{workers}, one killed" if kill else f"{workers}",
            f"{without:.2f}",
        ]
        cells += [
            f"{computing:.2f}",
            f"{rest:.2f}",
            f"{100 * without / (computing + rest):.0f} %",
            f"{plain:.2f}",
        ]
        print("| " + " | ".join([*cells, f"{np.median(walls):.1f}"]) + " |", flush=True)
    same = all(len(set(parts)) == 1 for parts in zip(*(pieces(p, sweep) for p in stores), strict=True))
    print(f"the {len(stores)} stores are {'bitwise equal' if same else 'DIFFERENT'}", file=sys.stderr)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--disk", type=Path, help="where the stores go (default: a temporary folder)")
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--quantity", action="append", help="default christoffel_bounds")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is run")
    options = parser.parse_args()
    robot = mb.from_urdf(robot_path(ROBOT), floating_base=True)
    print(f"{ROBOT} on a floating base, {robot.nv} velocities, {options.rows:,} random configurations\n")
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD), flush=True)
    for name in options.quantity or ("christoffel_bounds",):
        with tempfile.TemporaryDirectory(dir=options.disk) as folder:
            table(table_sweep(robot, [name], options.rows, chunk=options.chunk), Path(folder), options.rounds)


if __name__ == "__main__":
    main()
