"""State estimation on manifolds: Kalman filters and smoothers with any connection."""

from connections.estimation.consistency import Consistency, consistency
from connections.estimation.estimate import Estimate, History, Innovation, Status
from connections.estimation.filter import Filter
from connections.estimation.sensor import Sensor

__all__ = [
    "Consistency",
    "Estimate",
    "Filter",
    "History",
    "Innovation",
    "Sensor",
    "Status",
    "consistency",
]
