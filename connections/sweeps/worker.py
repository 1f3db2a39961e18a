"""The task of a worker: compute a chunk and write it, or find that it is in the store already.

Workers read inputs and write results themselves. Only indices of chunks and one line about each go through
the scheduler. A worker unpickles a sweep once.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from connections.multibody import set_num_threads
from connections.sweeps.errors import SweepError
from connections.sweeps.fingerprint import versions
from connections.sweeps.store import Store, open_inputs
from connections.sweeps.sweep import Sweep


@dataclass(frozen=True)
class Done:
    """The report about a chunk.

    Parameters
    ----------
    number : of the chunk.
    computed : whether it was computed; otherwise it was in the store already.
    flaw : the flaw of the chunk in the store; empty if there was none.
    process : of the worker.
    seconds : CPU time of that process for this chunk: (checking, computing, writing).

    Examples
    --------
    >>> import numpy as np
    >>> from connections import sweeps
    >>> def ones(chunk):
    ...     return {"one": np.ones(chunk.stop - chunk.start)}
    >>> sweep = sweeps.Sweep("ones", ones, rows=4, outputs={"one": sweeps.Output()}, chunk=2)
    >>> def show(done, chunks):
    ...     print(f"chunk {done.number} of {chunks}, computed: {done.computed}")
    >>> summary = sweeps.run_sweep(sweep, "ones.zarr", workers=0, progress=show)
    chunk 0 of 2, computed: True
    chunk 1 of 2, computed: True
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
        """Compute and write one chunk, unless the store has a valid one."""
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
        except Exception as error:  # any error of a codec about a damaged file
            reason = f"cannot be read ({type(error).__name__}: {error})"
            raise SweepError(f"inputs: rows {start} to {stop - 1} of '{name}' {reason}") from error


_jobs: dict[str, Job] = {}  # the last job of this worker, by token
_opening = threading.Lock()


def pack(sweep: Sweep, path: str, wanted: dict[str, str]) -> bytes:
    """A sweep as bytes for the workers, with the versions of packages that they need.

    Raises
    ------
    SweepError : it cannot be pickled.
    """
    import cloudpickle  # of distributed

    try:
        packed: bytes = cloudpickle.dumps((sweep, path, wanted))
        return packed
    except Exception as error:  # any error of an object that cannot be pickled
        raise SweepError(f"the sweep's function cannot be sent to workers: {error}") from error


def work(packed: bytes, token: str, number: int) -> Done:
    """One chunk of a packed sweep, in a worker; one thread computes batches.

    Parameters
    ----------
    packed : the result of `pack`.
    token : its name.
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
    """The packed sweep itself, as a task, which the scheduler repeats if the worker that had it is gone."""
    return packed
