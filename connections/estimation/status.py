"""The outcome of a prediction or an update, as a number that JAX carries along."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """The outcome of a prediction or an update; from `NOT_SETTLED` on it failed.

    Examples
    --------
    >>> from connections import estimation
    >>> estimation.Status(1.0), estimation.Status.STEP_TOO_LONG.failed
    (<Status.REFUSED: 1>, True)
    """

    SETTLED = 0
    """The prediction is right to its tolerance; the update took place."""
    REFUSED = 1
    """The gate refused the measurement; the estimate is as it was."""
    NOTHING_MEASURED = 2
    """All of y is missing; the estimate is as it was."""
    NOT_SETTLED = 3
    """The iteration of the update does not end, or no geodesic is found by the smoother."""
    STEP_TOO_LONG = 4
    """A step of a prediction is too long: its integration errs too much."""
    TIME_BACK = 5
    """The time of a prediction is before the estimate's."""
    GEODESIC_TOO_COARSE = 6
    """The geodesic of an update errs too much, with as many steps as it may have."""
    NOT_FINITE = 7
    """NaN is given: by the estimate, or a user's function; or P or N is not symmetric positive definite."""

    ROUND_OFF = 8
    """P after an update, or a step of the smoother, is not right to a thousandth of itself, because its
    variances, or those of prior and sensor, are too far apart."""

    @property
    def failed(self) -> bool:
        """Whether there is no result."""
        return self >= Status.NOT_SETTLED
