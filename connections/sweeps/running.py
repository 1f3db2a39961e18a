"""`run_sweep`: the chunks of a sweep on a Dask cluster, each written by the worker that computed it.

A chunk that is in the store, complete and with its checksum, is not computed again. So the same call resumes
a sweep that was interrupted by an error, or by the end of the client or of the machine. A worker that ends is
replaced, and other workers compute its chunks.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from connections._children import kept_from_the_current_folder
from connections._distribution import how_to_install
from connections.checks import require_bool, require_duration, require_function, require_path, require_type
from connections.sweeps.errors import SchedulerError, SweepError
from connections.sweeps.fingerprint import require_installed
from connections.sweeps.store import Store, description, open_inputs, require_place
from connections.sweeps.sweep import Sweep, whole
from connections.sweeps.worker import Done, Job, hand_over, pack, work

if TYPE_CHECKING:
    from distributed import Client

_WAITING = 4  # chunks under way for each thread of the cluster
_QUIET = "--xla_cpu_multi_thread_eigen=false"  # JAX uses one thread too

_TLS = "Name it in Dask's configuration (distributed.comm.tls), or give a distributed.Client that has it"

# Without Dask's MALLOC_TRIM_THRESHOLD_, so that memory of one chunk is used again for the next one.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": 1,
    "MKL_NUM_THREADS": 1,
    "OPENBLAS_NUM_THREADS": 1,
}
_WORKER_SETTINGS: dict[str, Any] = {
    "distributed.worker.profile.enabled": False,  # it samples a hundred times a second
    "distributed.nanny.pre-spawn-environ": _ENVIRONMENT,
    # Pages in HTTP, which would be open to every user of this machine, and can end workers.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


@dataclass(frozen=True)
class Summary:
    """The summary of a run.

    Parameters
    ----------
    path : of the store.
    chunks : number of chunks of the sweep.
    computed : indices of the chunks that this run computed; without those that a worker had written when it
        was killed, before it could report them, and which its successor found.
    repaired : {index: flaw} of those among them that were in the store, but damaged.
    removed : files that interrupted writes had left behind, before or in this run.
    processes : number of processes that computed chunks.
    seconds : CPU time of the workers, (checking the store, computing, writing).

    Examples
    --------
    What is in the store already is not computed again.

    >>> import numpy as np
    >>> from connections import sweeps
    >>> def squares(chunk):
    ...     return {"square": np.arange(chunk.start, chunk.stop) ** 2.0}
    >>> sweep = sweeps.Sweep("squares", squares, rows=5, outputs={"square": sweeps.Output()}, chunk=2)
    >>> sweeps.run_sweep(sweep, "squares.zarr", workers=0).computed
    (0, 1, 2)
    >>> sweeps.run_sweep(sweep, "squares.zarr", workers=0).computed
    ()
    """

    path: Path
    chunks: int
    computed: tuple[int, ...]
    repaired: dict[int, str]
    removed: int
    processes: int
    seconds: tuple[float, float, float]

    @property
    def kept(self) -> int:
        """Number of chunks that were in the store already."""
        return self.chunks - len(self.computed)

    def __str__(self) -> str:
        text = f"{self.path}: {self.chunks} chunks, {len(self.computed)} computed, {self.kept} already there"
        for number, flaw in self.repaired.items():
            text += f"\n  chunk {number} computed again: {flaw}"
        if self.removed:
            text += f"\n  removed {self.removed} file(s) that an interrupted write had left"
        return text


def run_sweep(
    sweep: Sweep,
    path: Any,
    *,
    workers: int | None = None,
    scheduler: Any = None,
    progress: Callable[[Done, int], None] | None = None,
    compress: bool = False,
    other_versions: bool = False,
    other_sources: bool = False,
    timeout: float = 10.0,
) -> Summary:
    """Compute all chunks of a sweep that are not in its store yet.

    A script has to call it below ``if __name__ == "__main__":``, because workers are new processes that
    import the script.

    Parameters
    ----------
    sweep : what to compute.
    path : of the store; a folder that does not exist, or the store of the same sweep, to be completed. All
        workers must see it under this path.
    workers : processes of a local cluster, one thread each; as many as processors if None. 0: compute in this
        process, without a cluster.
    scheduler : address of a running scheduler such as ``"tls://10.0.0.1:8786"``, whose certificate Dask's
        configuration names, or a `distributed.Client`; instead of a local cluster.
    progress : called with every chunk's `Done` and the number of chunks.
    compress : whether a new store compresses its chunks.
    other_versions : whether to continue a store that was created with other versions of the packages.
    other_sources : whether to continue although a module of yours was edited. A change of the function
        itself, or of functions and values that its code names, is refused in any case.
    timeout : s, for a scheduler and its first worker to answer.

    Raises
    ------
    SweepError, StoreError : the sweep or the store is not valid.
    SchedulerError : the scheduler does not answer, refuses the certificate, has no workers, or a chunk keeps
        ending its worker.
    ModuleNotFoundError : Dask, Zarr or, for a local cluster, cryptography is not installed.
    Exception : any error of the sweep's function; finished chunks stay in the store.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import sweeps
    >>> def squares(chunk):
    ...     return {"square": np.arange(chunk.start, chunk.stop) ** 2.0}
    >>> sweep = sweeps.Sweep("squares", squares, rows=5, outputs={"square": sweeps.Output()}, chunk=2)
    >>> summary = sweeps.run_sweep(sweep, "squares.zarr", workers=0)
    >>> summary.chunks, summary.computed
    (3, (0, 1, 2))
    >>> sweeps.Store("squares.zarr").group["square"][:]
    array([ 0.,  1.,  4.,  9., 16.])
    """
    require_installed()
    require_type("sweep", sweep, Sweep)
    timeout = require_duration("timeout", timeout)
    if progress is not None:
        require_function("progress", progress, "(done, chunks)")
    require_bool("compress", compress)
    require_bool("other_versions", other_versions)
    require_bool("other_sources", other_sources)
    if scheduler is not None and workers is not None:
        raise SweepError("give workers, for a local cluster, or a scheduler, not both")
    if workers is not None:
        workers = whole("workers", workers, 0)
    place = require_path("path", path).absolute()
    described = description(sweep, open_inputs(sweep.inputs, sweep.rows))
    packed = pack(sweep, str(place), described["versions"])
    if place.exists():
        Store(place).require(described, other_versions, other_sources)
    else:
        require_place(place)
    done: dict[int, Done] = {}

    def note(each: Done) -> None:
        done[each.number] = each
        if progress is not None:
            progress(each, sweep.chunks)

    with _cluster(workers, scheduler, timeout) as client:  # before anything is written
        store = Store(place) if place.exists() else Store.create(place, sweep, described, compress)
        chunks = _here(sweep, place) if client is None else _on_cluster(client, packed, sweep.chunks)
        for each in chunks:
            note(each)
    remnants = store.remnants()  # also of workers that were killed in this run; the others have ended
    for remnant in remnants:
        remnant.unlink(missing_ok=True)
    return _summary(store, done, len(remnants))


def _summary(store: Store, done: dict[int, Done], removed: int) -> Summary:
    ordered = [done[number] for number in sorted(done)]
    checking, computing, writing = (sum(each.seconds[kind] for each in ordered) for kind in range(3))
    return Summary(
        path=store.path,
        chunks=len(ordered),
        computed=tuple(each.number for each in ordered if each.computed),
        repaired={each.number: each.flaw for each in ordered if each.flaw},
        removed=removed,
        processes=len({each.process for each in ordered if each.computed}),
        seconds=(checking, computing, writing),
    )


def _here(sweep: Sweep, place: Path) -> Iterator[Done]:
    """The chunks one after the other, in this process."""
    job = Job(sweep, str(place))
    return map(job.do, range(sweep.chunks))


def _on_cluster(client: Client, packed: bytes, chunks: int) -> Iterator[Done]:
    """The chunks as they are finished; a bounded number is computed at one time."""
    from distributed import KilledWorker, as_completed
    from distributed.client import FutureCancelledError

    token = uuid.uuid4().hex
    shared = client.submit(hand_over, packed, key=f"sweep-{token}")
    waiting = iter(range(chunks))

    def submit(number: int) -> Any:
        key = f"chunk-{number}-{token}"
        return client.submit(work, shared, token, number, key=key, priority=-number)

    ahead = _WAITING * max(1, sum(client.nthreads().values()))
    first = [submit(number) for _, number in zip(range(ahead), waiting, strict=False)]
    under_way = as_completed(first, loop=client.loop)
    try:
        for future in under_way:
            try:
                each = future.result()
            except KilledWorker as error:
                raise SchedulerError(
                    f"chunk {str(future.key).split('-')[1]} ended its worker several times: is there memory "
                    "enough? take smaller chunks; finished chunks are kept"
                ) from error
            except FutureCancelledError as error:
                raise SchedulerError("the scheduler is gone; finished chunks are kept") from error
            yield each
            future.release()
            for number in waiting:
                under_way.add(submit(number))
                break
    finally:
        shared.release()


@contextmanager
def _cluster(workers: int | None, scheduler: Any, timeout: float) -> Iterator[Client | None]:
    """A client of a new local cluster, stopped at the end, or of a running scheduler; None for 0 workers."""
    from distributed import Client

    if workers == 0:
        yield None
        return
    if isinstance(scheduler, Client):
        _require_workers(scheduler, timeout)
        yield scheduler
        return
    if scheduler is None:
        with (
            local_cluster(workers or _processors()) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    client = _connected(str(scheduler), timeout)
    try:
        _require_workers(client, timeout)
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=timeout)


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """A Dask cluster in processes of this machine, one thread each, as `run_sweep` starts it.

    Who reaches a worker can let it compute anything. So the processes answer only to each other, and to a
    client made from this cluster: they are encrypted, with a certificate that is made for this cluster, and
    whose key is nowhere but in their memory.

    Parameters
    ----------
    workers : number of processes.

    Raises
    ------
    ModuleNotFoundError : `cryptography`, which makes the certificate, is not installed.

    Examples
    --------
    In a script, this stands below ``if __name__ == "__main__":``, as of `run_sweep`.

    >>> from distributed import Client
    >>> from connections import sweeps
    >>> with sweeps.local_cluster(workers=1) as cluster, Client(cluster) as client:
    ...     print(client.submit(sum, [1, 2, 3]).result())
    6
    """
    import logging

    import dask
    from distributed import LocalCluster

    flags = f"{os.environ.get('XLA_FLAGS', '')} {_QUIET}".strip()
    with (
        _environment_restored(),
        kept_from_the_current_folder(),  # Python searches it in a child of `multiprocessing`
        TemporaryDirectory(prefix="connections_sweep_") as scratch,  # Dask's own may be another user's
        dask.config.set(_WORKER_SETTINGS),
    ):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            security=_certificate(),
            local_directory=scratch,
            silence_logs=logging.CRITICAL,  # this module's own errors say what happened to a worker
            env={"XLA_FLAGS": flags},
        )
        with cluster:
            yield cluster


def _certificate() -> Any:
    from distributed.security import Security

    try:
        return Security.temporary()
    except ImportError as error:
        raise ModuleNotFoundError(
            "a local cluster needs cryptography, for the certificate by which its processes know each other: "
            f"{how_to_install('sweeps')}; or compute in this process, workers=0"
        ) from error


@contextmanager
def _environment_restored() -> Iterator[None]:
    """Undo Dask's changes of this process's environment, which are for its workers."""
    before = {name: os.environ.get(name) for name in (*_ENVIRONMENT, "PYTHONHASHSEED")}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _connected(address: str, timeout: float) -> Client:
    from distributed import Client
    from distributed.comm.core import FatalCommClosedError

    try:
        with ThreadPoolExecutor(1) as thread:  # this thread may run an event loop, for example in a notebook
            thread.submit(asyncio.run, _shake_hands(address, timeout)).result()
        return Client(address, timeout=timeout, set_as_default=False)
    except SchedulerError:
        raise
    except FatalCommClosedError as error:
        raise SchedulerError(f"the scheduler {address} refuses this client's certificate. {_TLS}") from error
    except (OSError, TimeoutError) as error:
        raise SchedulerError(
            f"the scheduler {address} does not answer within {timeout:g} s: is it running, and is the "
            "address right? `dask scheduler` prints it"
        ) from error
    except (ValueError, TypeError) as error:
        raise SweepError(
            f"scheduler: expected an address such as tls://10.0.0.1:8786, got {address!r}"
        ) from error


async def _shake_hands(address: str, timeout: float) -> None:
    """Connect and disconnect, because `Client` waits forever for a port that accepts and does not answer."""
    from distributed.comm.core import connect
    from distributed.security import Security

    given = Security().get_connection_args("client")  # of Dask's configuration
    if address.startswith("tls://") and given["ssl_context"] is None:
        raise SchedulerError(f"the scheduler {address} wants a certificate. {_TLS}")
    comm = await asyncio.wait_for(connect(address, timeout=timeout, **given), timeout)
    comm.abort()


def _require_workers(client: Client, timeout: float) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout)
    except (OSError, TimeoutError) as error:
        address = client.scheduler.address if client.scheduler is not None else "the scheduler"
        raise SchedulerError(
            f"the scheduler {address} has no workers after {timeout:g} s: start some, `dask worker {address}`"
        ) from error


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
