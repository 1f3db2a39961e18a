"""State estimation on manifolds: Kalman filters and smoothers with any connection."""

from connections.estimation.consistency import Consistency, consistency
from connections.estimation.estimate import Estimate, History, Innovation
from connections.estimation.filter import Filter
from connections.estimation.sensor import Sensor
from connections.estimation.status import Status

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

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "displacements": "GeodesicDisplacements GroupDisplacements",
    "predictions": "predicted_at",
    "spaces": "Phase Points linearized_at",
    "updates": "UpdateSettings updated_at",
}
