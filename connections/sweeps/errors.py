"""Errors of sweeps, except those of a sweep's own function."""

from __future__ import annotations

from connections._shown import Shown
from connections.checks import SubjectError


class SweepError(Shown, ValueError):
    """The description of a sweep is wrong, or its function does not return what was described.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> from connections import sweeps
    >>> sweeps.table_sweep(mb.example("arm"), ["mass"], rows=10)
    Traceback (most recent call last):
        ...
    connections.sweeps.errors.SweepError: quantities: expected some of mass_matrix, inverse_mass_matrix, ...
    """


class UnknownSystemError(SweepError, SubjectError):
    """There is no system of this name; the message lists all systems.

    Examples
    --------
    >>> from connections import sweeps
    >>> sweeps.proposition_sweep("spere", rows=10)
    Traceback (most recent call last):
        ...
    connections.sweeps.errors.UnknownSystemError: there is no system 'spere'; did you mean sphere?
    The systems are point-mass, sphere, ...
    """


class StoreError(Shown, ValueError):
    """A folder is not the store of this sweep, or cannot be read.

    Examples
    --------
    >>> from connections import sweeps
    >>> sweeps.Store("nowhere.zarr")
    Traceback (most recent call last):
        ...
    connections.sweeps.errors.StoreError: nowhere.zarr is not the store of a sweep: it is not a folder
    """


class SchedulerError(ConnectionError):
    """A scheduler does not answer, has no workers, or its workers keep ending.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import sweeps
    >>> outputs = {"one": sweeps.Output()}
    >>> sweep = sweeps.Sweep("ones", lambda chunk: {"one": np.ones(2)}, rows=2, outputs=outputs)
    >>> sweeps.run_sweep(sweep, "ones.zarr", scheduler="tcp://127.0.0.1:1", timeout=0.5)
    Traceback (most recent call last):
        ...
    connections.sweeps.errors.SchedulerError: the scheduler tcp://127.0.0.1:1 does not answer within...
    """
