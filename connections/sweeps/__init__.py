"""Sweeps that outgrow a machine: chunks computed on Dask, kept in Zarr, resumed where they stopped."""

from connections.sweeps.errors import SchedulerError, StoreError, SweepError
from connections.sweeps.running import Summary, run_sweep
from connections.sweeps.store import Store
from connections.sweeps.sweep import Chunk, Output, Sweep
from connections.sweeps.work import Done

__all__ = [
    "Chunk",
    "Done",
    "Output",
    "SchedulerError",
    "Store",
    "StoreError",
    "Summary",
    "Sweep",
    "SweepError",
    "run_sweep",
]
