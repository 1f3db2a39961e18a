"""The controlled point mass of the tracking example as arrays to draw: its path, its error, its effort.

Source: [W] IV-A2, Figs 4 to 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from connections.control.tracking_example import TrackingResult, explore


@dataclass(frozen=True, eq=False)
class Tracked:
    """One motion of the tracking example.

    Parameters
    ----------
    times : (T,) s.
    points, desired : (T, 3) m.
    error : (T,) |q - q_d|, m.
    force : (T, 3) the controller's tau, N.
    sideways : (T,) vertical velocity v_z, m/s; zero where beta = 0.
    result : the measures of the motion.
    """

    times: np.ndarray
    points: np.ndarray
    desired: np.ndarray
    error: np.ndarray
    force: np.ndarray
    sideways: np.ndarray
    result: TrackingResult


def track(beta: float) -> Tracked:
    """The motion under C = beta (v x).

    Parameters
    ----------
    beta : factor of (v x), kg/m.

    Raises
    ------
    NonFiniteError : beta is not finite.
    """
    (result,) = explore([beta])
    motion = result.motion
    assert motion.q_d is not None and motion.error is not None  # the loop follows a trajectory
    times, points, desired, v, tau = (
        np.asarray(x) for x in (motion.times, motion.q, motion.q_d, motion.v, motion.tau)
    )
    return Tracked(times, points, desired, np.linalg.norm(motion.error, axis=1), tau, v[:, 2], result)


@cache
def without_torsion() -> Tracked:
    """The motion under C = 0, the Riemannian choice."""
    return track(0.0)
