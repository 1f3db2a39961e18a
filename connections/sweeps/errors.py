"""Errors of sweeps, except those of a sweep's own function."""

from __future__ import annotations

from connections._shown import Shown
from connections.checks import SubjectError


class SweepError(Shown, ValueError):
    """The description of a sweep is wrong, or its function does not return what was described."""


class UnknownSystemError(SweepError, SubjectError):
    """There is no system of this name; the message lists all systems."""


class StoreError(Shown, ValueError):
    """A folder is not the store of this sweep, or cannot be read."""


class SchedulerError(ConnectionError):
    """A scheduler does not answer, has no workers, or its workers keep ending."""
