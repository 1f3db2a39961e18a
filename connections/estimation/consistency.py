"""Whether covariances are what errors are: NEES and NIS, with the bounds of chi^2.

    NEES = e^T P^-1 e / k,  e = log_q_hat(q_true);    NIS = r^T S^-1 r / m.

Both have the mean one if the filter is consistent; N runs have a standard error of (2 / (k N))^(1/2).
Source: Y. Bar-Shalom, X. R. Li, T. Kirubarajan, Estimation with Applications to Tracking and Navigation
(2001), section 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from connections._jax import ArrayLike
from connections.checks import ConvergenceError, ShapeError, as_array, as_number, require_type
from connections.estimation.describing import words_of_failures
from connections.estimation.estimate import Estimate, History
from connections.estimation.filter import Filter
from connections.estimation.status import Status
from connections.evaluation.describing import cut_to_width


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
    """Bounds of each entry of `nees`."""
    nis_bounds: np.ndarray
    """(T, 2)."""
    errors: np.ndarray
    """(..., T, k) the errors e; NaN in runs that failed."""
    runs: int
    """How many there were, without those that failed."""
    failed: int
    """How many runs are left out, because an estimate is NaN."""
    reasons: dict[Status, int]
    """The counts of these by the status with which they failed first."""

    @property
    def nees_share(self) -> float:
        """The share of the times at which NEES is within its bounds."""
        low, high = self.nees_bounds
        return float(np.mean((self.nees >= low) & (self.nees <= high)))

    def __repr__(self) -> str:
        runs, times = f"{self.runs} run{'s' * (self.runs != 1)}", f"{len(self.nees)} times"
        nis = self.nis[~np.isnan(self.nis)]
        said = f"NIS {nis.mean():.3g}" if nis.size else "no NIS"
        failed = f", {self.failed} failed ({words_of_failures(self.reasons)})" * (self.failed > 0)
        return cut_to_width(
            f"Consistency of {runs} at {times}{failed}: NEES {self.nees.mean():.3g}, "
            f"{self.nees_share:.0%} within bounds, {said}"
        )


def consistency(
    filter: Filter,
    history: History | Estimate,
    q: ArrayLike,
    v: ArrayLike | None = None,
    probability: float = 0.95,
) -> Consistency:
    """NEES and NIS of a history, or of many under `jax.vmap`, beside the truth.

    A run in which an estimate is NaN, because an update or a prediction failed inside JAX's transformations,
    is left out and counted. An update that failed and was kept has no NIS.

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
    ConvergenceError : a true point is not found from its estimate, or all runs failed.

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
    estimate = jax.tree_util.tree_map(np.asarray, estimate)
    n, nq, k = filter.frame.dim, filter.frame.ambient_dim, filter.space.dim
    q = as_array("q", q, (nq,))
    own = np.shape(estimate.q)[:-1]
    if not own:
        raise ShapeError("history.q", ("...", "T", nq), np.shape(estimate.q))
    batch = _with_times("q", q, own)
    if v is not None and estimate.v is not None:
        v = as_array("v", v, (n,))
        batch = _with_times("v", v, batch)
    entries = [estimate.P.reshape(*own, -1), *estimate.state]
    finite = np.isfinite(np.concatenate(entries, axis=-1)).all(axis=-1)
    runs_of = [np.broadcast_to(finite, shape).reshape(-1, own[-1]) for shape in (own, batch)]
    whole, good = (np.asarray(a.all(axis=-1)) for a in runs_of)
    codes: np.ndarray = np.broadcast_to(estimate.status, batch).reshape(-1, batch[-1])[~good]
    first = codes[np.arange(len(codes)), (codes >= Status.NOT_SETTLED).argmax(axis=-1)]
    reasons = {status: int(np.sum(first == status)) for status in Status if (first == status).any()}
    if not good.any():
        raise ConvergenceError(f"consistency: all of {len(good)} runs failed: {words_of_failures(reasons)}")

    def chosen(a: Any, *shape: int) -> Any:
        return np.broadcast_to(np.asarray(a), (*batch, *shape)).reshape(-1, batch[-1], *shape)[good]

    P = chosen(estimate.P, k, k)
    of = Estimate(chosen(estimate.q, nq), P, None if estimate.v is None else chosen(estimate.v, n))
    truth = chosen(q, nq), v if v is None or estimate.v is None else chosen(v, n)
    e = np.asarray(filter.difference(of, *truth))
    each = np.einsum("...i,...i->...", e, np.linalg.solve(P, e[..., None])[..., 0]) / k
    errors = np.full((len(good), batch[-1], k), np.nan)
    errors[good] = e
    runs, tails = len(each), (0.5 * (1.0 - probability), 0.5 * (1.0 + probability))
    low, high = (float(chi2.ppf(tail, k * runs)) / (k * runs) for tail in tails)
    nis, bounds = np.full(batch[-1], np.nan), np.full((batch[-1], 2), np.nan)
    if isinstance(history, History):
        said = history.innovation
        of_runs = [np.asarray(a).reshape(-1, own[-1])[whole] for a in (said.nis, said.dimension, said.status)]
        total, count = (np.where(of_runs[2] < Status.NOT_SETTLED, a, 0).sum(axis=0) for a in of_runs[:2])
        some = count > 0
        nis[some] = total[some] / count[some]
        bounds[some] = np.stack([chi2.ppf(tail, count[some]) / count[some] for tail in tails], axis=-1)
    means, errors = each.mean(axis=0), errors.reshape(*batch, k)
    return Consistency(means, nis, (low, high), bounds, errors, runs, len(good) - runs, reasons)


def _with_times(name: str, truth: Any, own: tuple[int, ...]) -> tuple[int, ...]:
    """The batch axes and the times of both, or the `ShapeError` that says that they are not of one kind."""
    shape = np.shape(truth)
    try:
        batch = np.broadcast_shapes(shape[:-1], own)
    except ValueError:
        batch = ()
    if not batch or shape[-2:-1] != own[-1:]:
        raise ShapeError(name, ("...", *own, shape[-1]), shape)
    return batch
