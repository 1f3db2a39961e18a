"""What can go wrong with a sweep, apart from its own function."""

from __future__ import annotations

from connections.checks import SubjectError


class SweepError(ValueError):
    """A sweep is not described as it should be, or its function returns something else."""


class UnknownSystemError(SweepError, SubjectError):
    """A sweep is to be about a system that there is not; the message has the names of all systems."""


class StoreError(ValueError):
    """A folder is not the store of this sweep, or cannot be read as one."""


class SchedulerError(ConnectionError):
    """A scheduler does not answer, has no workers, or its workers keep ending."""
