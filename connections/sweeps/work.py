"""What a worker does: compute a chunk and write it, or find that it is there already.

Workers read inputs and write results themselves; through the scheduler go numbers of chunks and one line
about each. A worker unpickles a sweep once.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from connections.engines.threads import set_num_threads
from connections.sweeps.errors import SweepError
from connections.sweeps.fingerprint import versions
from connections.sweeps.store import Store, open_inputs
from connections.sweeps.sweep import Sweep


@dataclass(frozen=True)
class Done:
    """What happened to a chunk.

    Parameters
    ----------
    number : of the chunk.
    computed : whether it was computed; else it was there already.
    flaw : what was wrong with what was there; empty if nothing was there.
    process : of the worker.
    seconds : the processor's time of that process for this chunk: (checking, computing, writing).
    """

    number: int
    computed: bool
    flaw: str
    process: int
    seconds: tuple[float, float, float]


class Job:
    """A sweep and its store, opened in this process.

    Parameters
    ----------
    sweep : the sweep.
    path : of its store.
    """

    def __init__(self, sweep: Sweep, path: str) -> None:
        self.sweep, self.store = sweep, Store(path)
        self._inputs = open_inputs(sweep.inputs, sweep.rows)

    def do(self, number: int) -> Done:
        """Compute and write one chunk, unless it is there and as it should be."""
        times = [time.process_time()]
        start, stop = self.sweep.bounds(number)
        inputs = {name: self._rows(name, start, stop) for name in self._inputs}
        flaw = self.store.flaw(number, inputs)
        times.append(time.process_time())
        if flaw is not None:
            arrays = self.sweep.compute(number, inputs)
            times.append(time.process_time())
            self.store.write(number, arrays, inputs)
        while len(times) < 4:
            times.append(time.process_time())
        checking, computing, writing = np.diff(times).tolist()
        return Done(number, flaw is not None, flaw or "", os.getpid(), (checking, computing, writing))

    def _rows(self, name: str, start: int, stop: int) -> np.ndarray:
        try:
            return np.ascontiguousarray(self._inputs[name][start:stop])
        except Exception as error:  # whatever a codec says of a damaged file
            reason = f"cannot be read ({type(error).__name__}: {error})"
            raise SweepError(f"inputs: rows {start} to {stop - 1} of '{name}' {reason}") from error


_jobs: dict[str, Job] = {}  # of this worker, by token; the last one only
_opening = threading.Lock()


def pack(sweep: Sweep, path: str, wanted: dict[str, str]) -> bytes:
    """A sweep as bytes for the workers, with the versions that they should have.

    Raises
    ------
    SweepError : it cannot be pickled.
    """
    import cloudpickle  # of distributed

    try:
        packed: bytes = cloudpickle.dumps((sweep, path, wanted))
        return packed
    except Exception as error:  # whatever an object says that cannot be pickled
        raise SweepError(f"the sweep's function cannot be sent to workers: {error}") from error


def work(packed: bytes, token: str, number: int) -> Done:
    """One chunk of a packed sweep, in a worker; one thread computes batches.

    Parameters
    ----------
    packed : what `pack` gave.
    token : a name for it.
    number : of the chunk.

    Raises
    ------
    SweepError : this worker has other versions of the packages than the client.
    """
    with _opening:
        job = _jobs.get(token)
        if job is None:
            sweep, path, wanted = pickle.loads(packed)
            here = versions(wanted)
            other = [
                f"{name} {here[name] or 'missing'} instead of {wanted[name]}"
                for name in wanted
                if here[name] != wanted[name]
            ]
            if other:
                raise SweepError(f"a worker has {', '.join(other)}: install the same versions everywhere")
            set_num_threads(1)
            job = Job(sweep, path)
            _jobs.clear()
            _jobs[token] = job
    return job.do(number)


def hand_over(packed: Any) -> Any:
    """The packed sweep itself: a task that the scheduler repeats where the worker that had it is gone."""
    return packed
