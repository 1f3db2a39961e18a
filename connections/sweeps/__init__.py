"""Sweeps that outgrow a machine: chunks computed on Dask, stored in Zarr, resumed where they stopped."""

from connections.sweeps.contorsion import contorsion_summary, contorsion_sweep
from connections.sweeps.errors import SchedulerError, StoreError, SweepError, UnknownSystemError
from connections.sweeps.propositions import PropositionSummary, proposition_summary, proposition_sweep
from connections.sweeps.running import Summary, local_cluster, run_sweep
from connections.sweeps.store import Store
from connections.sweeps.sweep import Chunk, Output, Sweep
from connections.sweeps.tables import QUANTITIES, christoffel_bounds, random_configurations, table_sweep
from connections.sweeps.tracking import Tracking
from connections.sweeps.worker import Done

__all__ = [
    "Chunk",
    "Done",
    "Output",
    "PropositionSummary",
    "QUANTITIES",
    "SchedulerError",
    "Store",
    "StoreError",
    "Summary",
    "Sweep",
    "SweepError",
    "UnknownSystemError",
    "Tracking",
    "christoffel_bounds",
    "contorsion_summary",
    "contorsion_sweep",
    "local_cluster",
    "proposition_summary",
    "proposition_sweep",
    "random_configurations",
    "run_sweep",
    "table_sweep",
]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "sweeps_from_files": "sweep_from_file",
}
