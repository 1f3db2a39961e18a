"""Whether covariances are what errors are: NEES and NIS, with the bounds of chi^2.

    NEES = e^T P^-1 e / k,  e = log_q_hat(q_true);    NIS = r^T S^-1 r / m.

Both have the mean one if the filter is consistent; N runs have a standard error of (2 / (k N))^(1/2).
Source: Y. Bar-Shalom, X. R. Li, T. Kirubarajan, Estimation with Applications to Tracking and Navigation
(2001), section 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from connections.checks import as_number, require_type
from connections.estimation.estimate import Estimate, History
from connections.estimation.filter import Filter


@dataclass(frozen=True, eq=False, repr=False)
class Consistency:
    """NEES and NIS by time, means over the runs, and the bounds within which they should be.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import estimation
    >>> line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
    >>> start, sensor = estimation.Estimate([0.0], [[3.0]]), estimation.Sensor(lambda q: q, [[1.0]])
    >>> history = line.run(start, [1.0], np.zeros((1, 1)), [[2.0]], sensor)
    >>> found = estimation.consistency(line, history, [[1.6]])
    >>> found.runs, found.nees.round(6)  # the estimate is 1.6
    (1, array([0.]))
    """

    nees: np.ndarray
    """(T,) mean over the runs of e^T P^-1 e / k."""
    nis: np.ndarray
    """(T,) sum over the runs of r^T S^-1 r, over that of the measured components; NaN if there are none."""
    nees_bounds: tuple[float, float]
    """Of each entry of `nees`."""
    nis_bounds: np.ndarray
    """(T, 2)."""
    errors: np.ndarray
    """(..., T, k) the errors e."""
    runs: int
    """How many there were."""

    @property
    def nees_share(self) -> float:
        """The share of the times at which NEES is within its bounds."""
        low, high = self.nees_bounds
        return float(np.mean((self.nees >= low) & (self.nees <= high)))

    def __repr__(self) -> str:
        runs, times = f"{self.runs} run{'s' * (self.runs != 1)}", f"{len(self.nees)} times"
        nis = self.nis[~np.isnan(self.nis)]
        said = f"NIS {nis.mean():.3g}" if nis.size else "no NIS"
        return (
            f"Consistency of {runs} at {times}: NEES {self.nees.mean():.3g}, "
            f"{self.nees_share:.0%} within bounds, {said}"
        )


def consistency(
    filter: Filter, history: History | Estimate, q: Any, v: Any = None, probability: float = 0.95
) -> Consistency:
    """NEES and NIS of a history, or of many under `jax.vmap`, beside the truth.

    Parameters
    ----------
    filter : of the history.
    history : of `Filter.run`, with any batch axes before the times; or estimates, such as smoothed ones, of
        which there is no NIS.
    q : (..., T, nq) true points. v : (..., T, n) true velocities of a mechanical system.
    probability : of the bounds.

    Raises
    ------
    ShapeError, TypeError; ValueError : the probability is none.
    ConvergenceError : a true point is not found from its estimate.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import estimation
    >>> line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
    >>> start, sensor = estimation.Estimate([0.0], [[3.0]]), estimation.Sensor(lambda q: q, [[1.0]])
    >>> history = line.run(start, [1.0], np.zeros((1, 1)), [[2.0]], sensor)
    >>> estimation.consistency(line, history, [[0.7]]).nees.round(4)  # 0.9^2 / 0.8
    array([1.0125])

    Source: the text of the module.
    """
    from scipy.stats import chi2

    require_type("filter", filter, Filter)
    estimate = history.estimate if isinstance(history, History) else history
    require_type("history", estimate, Estimate)
    probability = as_number("probability", probability)
    if not 0.0 < probability < 1.0:
        raise ValueError(f"probability: expected a number between 0 and 1, got {probability:g}")
    e = np.asarray(filter.difference(estimate, q, v))
    P, k = np.asarray(estimate.P), e.shape[-1]
    each = np.einsum("...i,...i->...", e, np.linalg.solve(P, e[..., None])[..., 0]) / k
    each = each.reshape(-1, each.shape[-1])
    runs, tails = len(each), (0.5 * (1.0 - probability), 0.5 * (1.0 + probability))
    low, high = (float(chi2.ppf(tail, k * runs)) / (k * runs) for tail in tails)
    nis, bounds = np.full(each.shape[-1], np.nan), np.full((each.shape[-1], 2), np.nan)
    if isinstance(history, History):
        said = history.innovation
        total, count = (
            np.asarray(a).reshape(-1, each.shape[-1]).sum(axis=0) for a in (said.nis, said.dimension)
        )
        some = count > 0
        nis[some] = total[some] / count[some]
        bounds[some] = np.stack([chi2.ppf(tail, count[some]) / count[some] for tail in tails], axis=-1)
    return Consistency(each.mean(axis=0), nis, (low, high), bounds, e, runs)
