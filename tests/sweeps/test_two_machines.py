"""Two workers as on two machines: started by hand, each in a folder of its own, one killed at a random time.

By hand, as often as ``KILLS`` says, on a file system that other processes mount too::

    KILLS=50 python -m pytest tests/sweeps/test_two_machines.py --basetemp=/mnt/shared/tests
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from sweep_functions import sweep

from connections.sweeps import Store, run_sweep

SUPPORT = Path(__file__).parents[1] / "support"
KILLS = int(os.environ.get("KILLS", "2"))
PATIENCE = 60.0  # s
ROWS, CHUNK, SECONDS = 150, 3, 0.02  # of a sweep; one worker needs a second for it, two half of it


class Machines:
    """A scheduler, and workers that ``dask worker`` starts, as a person does on each machine."""

    def __init__(self, folder: Path) -> None:
        from distributed import Client, LocalCluster

        self._folder, self._started = folder, 0
        self._scheduler = LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=None)
        self.client = Client(self._scheduler, set_as_default=False)
        self.workers = [self._worker(), self._worker()]
        self.client.wait_for_workers(2, timeout=PATIENCE)

    def replace(self, number: int) -> None:
        """Start another worker in the place of one that was killed."""
        assert self.workers[number].wait(PATIENCE) == -signal.SIGKILL
        self.workers[number] = self._worker()
        self.client.wait_for_workers(2, timeout=PATIENCE)

    def close(self) -> None:
        self.client.close()
        for worker in self.workers:
            worker.terminate()
            worker.wait(PATIENCE)
        self._scheduler.close()

    def _worker(self) -> subprocess.Popen[bytes]:
        self._started += 1
        home = self._folder / f"machine_{self._started}"
        home.mkdir()
        program = [sys.executable, "-m", "distributed.cli.dask_worker", self._scheduler.scheduler_address]
        options = ["--nthreads=1", "--no-nanny", "--no-dashboard", f"--local-directory={home}"]
        environment = os.environ | {"PYTHONPATH": f"{Path.cwd()}:{SUPPORT}"}
        return subprocess.Popen([*program, *options], cwd=home, env=environment, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    started = Machines(tmp_path_factory.mktemp("machines"))
    yield started
    started.close()


def content(path: Path) -> list[bytes]:
    group = zarr.open_group(path, mode="r")
    return [group[name][:].tobytes() for name in sorted(Store(path).names)]


@pytest.mark.further
@pytest.mark.timeout(30 + 30 * KILLS)
def test_a_worker_that_is_killed_at_any_time_changes_no_bit(tmp_path: Path, machines: Machines) -> None:
    rng = np.random.default_rng(8)
    given = sweep(rows=ROWS, chunk=CHUNK, seconds=SECONDS)
    run_sweep(sweep(rows=ROWS, chunk=CHUNK), tmp_path / "whole", workers=0)
    under_way = 0
    for number in range(KILLS):
        victim, path = int(rng.integers(2)), tmp_path / str(number)
        worker = machines.workers[victim]
        killing = threading.Timer(rng.uniform(0.0, 0.5 * SECONDS * ROWS / CHUNK), worker.kill)
        killing.start()
        summary = run_sweep(given, path, scheduler=machines.client)
        under_way += not killing.is_alive()
        killing.join()
        assert content(path) == content(tmp_path / "whole")
        # A chunk whose worker was killed between writing and reporting counts as kept.
        assert len(summary.computed) + summary.kept == ROWS // CHUNK
        again = run_sweep(given, path, scheduler=machines.client)  # what is in the store is whole
        assert not again.computed and not again.repaired and not again.removed
        machines.replace(victim)
    assert under_way > 0.5 * KILLS  # most were killed while they worked
