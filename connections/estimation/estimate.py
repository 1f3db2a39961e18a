"""Results of filters: estimates, innovations, and series of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from connections._figures import figure_of
from connections._jax import Array
from connections.checks import ShapeError, as_array, is_traced, require_finite
from connections.estimation.describing import (
    line_of_estimate,
    line_of_history,
    line_of_innovation,
    table_of_history,
)
from connections.estimation.status import Status
from connections.evaluation.parameters import Parametrized

ASYMMETRY = 1e-9  # of P, in units of the standard deviations


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Parametrized):
    """A state that is known up to a normal error: x = exp_q(eta), eta ~ N(0, P), in the frame at q.

    Of a mechanical system, errors are (eta, w): v = Pi^-1 of the velocity at x, less w, with Pi the parallel
    transport along the geodesic.

    Parameters
    ----------
    q : (..., nq) points.
    P : (..., n, n) covariances in frame components at q; (..., 2n, 2n) of (eta, w) with a velocity.
    v : (..., n) velocities of a mechanical system, frame components; None for points alone.
    t : (...,) time, s.
    status : (...,) of `Status`, of the prediction or the update of which it is the result. A failure stays
        with an estimate that is NaN.

    Raises
    ------
    ValueError : P is not symmetric positive definite; a status is none of `Status`. ShapeError,
        NonFiniteError, TypeError.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import estimation
    >>> estimate = estimation.Estimate([0.0, 0.0, 0.0, 1.0], 0.1**2 * np.eye(3))
    >>> estimate.deviations.round(3)
    array([0.1, 0.1, 0.1])

    Source: docs/filters.md.
    """

    q: Any
    P: Any
    v: Any = None
    t: Any = 0.0
    status: Any = 0.0

    def __post_init__(self) -> None:
        given = {"q": as_array("q", self.q, (None,)), "P": as_array("P", self.P, (None, None))}
        if self.v is not None:
            given["v"] = as_array("v", self.v, (None,))
        given["t"], given["status"] = as_array("t", self.t, ()), as_array("status", self.status, ())
        for name, value in given.items():
            require_finite(name, value)
            object.__setattr__(self, name, value)
        if not is_traced(given["status"]) and not np.isin(given["status"], list(Status)).all():
            raise ValueError(f"status: expected codes of Status, 0 to {len(Status) - 1}, got {self.status}")
        P, batch = given["P"], given["q"].shape[:-1]
        if given["status"].shape not in ((), batch):
            raise ShapeError("status", batch, given["status"].shape)
        if P.shape[-1] != P.shape[-2]:
            raise ShapeError("P", ("...", "k", "k"), P.shape)
        if self.v is not None and P.shape[-1] != 2 * given["v"].shape[-1]:
            size = 2 * given["v"].shape[-1]
            raise ShapeError("P, of an estimate with a velocity,", ("...", size, size), P.shape)
        if not is_traced(P):
            require_covariance("P", np.asarray(P))

    @property
    def state(self) -> tuple[Any, ...]:
        """(q,) or (q, v)."""
        return (self.q,) if self.v is None else (self.q, self.v)

    @property
    def deviations(self) -> np.ndarray:
        """The square roots of the diagonal of P, (..., k), in the units of the error's components."""
        deviations: np.ndarray = np.sqrt(np.diagonal(np.asarray(self.P), axis1=-2, axis2=-1))
        return deviations

    def __repr__(self) -> str:
        return line_of_estimate(self)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Innovation:
    """The innovation of a measurement y: r = y - h, or log_h(y) on a manifold, with h of the prediction.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import estimation
    >>> line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
    >>> estimate = estimation.Estimate([0.0], [[3.0]])
    >>> _, innovation = line.update(estimate, [2.0], estimation.Sensor(lambda q: q, [[1.0]]))
    >>> round(float(innovation.nis), 12), int(innovation.dimension), bool(innovation.accepted)
    (1.0, 1, True)
    """

    r: Array
    """(..., m) residuals, zero where y is missing."""
    S: Array
    """(..., m, m) their covariances H P H^T + N; one on the diagonal where y is missing."""
    nis: Array
    """The least value of e^T P^-1 e + r^T N^-1 r, about chi^2 of `dimension`; r^T S^-1 r where h is linear,
    or without iterations."""
    dimension: Array
    """The number of components that were measured."""
    log_likelihood: Array
    """-(1/2) (NIS + ln det 2 pi S), S at the root of the iteration; zero if all is missing."""
    accepted: Array
    """Whether the update took place: something was measured, passed the gate, and nothing failed."""
    converged: Array
    """Whether the last step of the iteration was below 1e-6 standard deviations, or what round-off of the
    coordinates makes of it; true without iterations."""
    steps: Array
    """Steps of Gauss and Newton's method, with those that were tried and shortened."""
    reset_size: Array
    """How much the mean NEES grows by the reset that was left out or approximated; zero for the exact one."""
    status: Array
    """The outcome, one of `Status`. If it failed, NIS and the likelihood are NaN."""

    def __repr__(self) -> str:
        return line_of_innovation(self)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class History:
    """Estimates at the times of measurements, as `Filter.run` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import estimation
    >>> line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
    >>> start, sensor = estimation.Estimate([0.0], [[3.0]]), estimation.Sensor(lambda q: q, [[1.0]])
    >>> history = line.run(start, [1.0, 2.0], np.zeros((2, 1)), [[2.0], [np.nan]], sensor)
    >>> history
    History of 2 estimates, 1 to 2 s: NIS 0.8, 1 of 1 accepted
    >>> history.estimate.P[:, 0, 0]  # 4 / (4 + 1), and one more after another second
    array([0.8, 1.8])
    """

    estimate: Estimate
    """(..., T) after the measurements."""
    predicted: Estimate
    """(..., T) before them."""
    transition: Array
    """(..., T, k, k) Phi of errors from the estimate before to the prediction."""
    innovation: Innovation
    """(..., T)."""

    def summary(self) -> str:
        """A table: deviations of each error at the beginning, the least, the largest, at the end; NIS.

        Those of several runs are root mean squares.
        """
        return table_of_history(self)

    def plot(
        self, errors: Any = None, components: Sequence[int] | None = None, names: Sequence[str] | None = None
    ) -> Any:
        """A matplotlib Figure: +-3 deviations of each error before and after each measurement; NIS.

        NIS is beside the bounds of chi^2 within which 95 of 100 are; what was refused is red.

        Parameters
        ----------
        errors : optional, (T, k) true errors, as of `Filter.difference` or of `Consistency.errors`.
        components : of the errors that are drawn; None for all.
        names : of these components, for their titles.

        Raises
        ------
        ValueError : a batch of histories, or not as many names as components. ShapeError, TypeError.

        Examples
        --------
        >>> import numpy as np
        >>> import connections as cn
        >>> from connections import estimation
        >>> line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
        >>> start, sensor = estimation.Estimate([0.0], [[3.0]]), estimation.Sensor(lambda q: q, [[1.0]])
        >>> history = line.run(start, [1.0, 2.0], np.zeros((2, 1)), [[2.0], [np.nan]], sensor)
        >>> [axes.get_title() for axes in history.plot(names=["x"]).axes]
        ['x', 'NIS of 1 component']
        """
        return figure_of(self, errors=errors, components=components, names=names)

    def __repr__(self) -> str:
        return line_of_history(self)


def require_covariance(name: str, P: np.ndarray, definite: bool = True) -> None:
    """Raise `ValueError` unless P (..., k, k) is symmetric and positive definite, or has no negative part."""
    diagonal = np.diagonal(P, axis1=-2, axis2=-1)
    if (diagonal < 0.0).any() or (definite and (diagonal <= 0.0).any()):
        place = int(np.argmin(diagonal) % diagonal.shape[-1])
        raise ValueError(f"{name}[{place}, {place}] is {diagonal.min():.3g}: a variance is positive")
    sizes = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    correlation = P / sizes[..., :, None] / sizes[..., None, :]
    gap = np.abs(correlation - np.swapaxes(correlation, -1, -2)).max(initial=0.0)
    if gap > ASYMMETRY:
        raise ValueError(f"{name} is not symmetric: correlations [i, j] and [j, i] differ by {gap:.2g}")
    least = float(np.linalg.eigvalsh(correlation).min(initial=np.inf))
    if least < -ASYMMETRY or (definite and least <= 0.0):
        what = "positive definite" if definite else "positive semidefinite"
        raise ValueError(f"{name} is not {what}: the smallest eigenvalue of its correlations is {least:.2g}")
