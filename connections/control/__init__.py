"""What a Coriolis matrix is for: passivity-based control, adaptation, and the momentum observer."""

from connections.control.adaptive import AdaptiveLoop, AdaptiveMotion, LinearlyParametrizedSystem
from connections.control.centroidal import CentroidalCoordinates
from connections.control.closed_loop import ClosedLoop, Motion
from connections.control.gains import GainError, gain_matrix
from connections.control.observer import MomentumObserver, ObservedMotion
from connections.control.passivity import PassivityController, reference_force_at
from connections.control.references import (
    AccelerationReference,
    FieldReference,
    Reference,
    configuration_error_at,
    submanifold_reference,
    task_reference,
    trajectory_reference,
)
from connections.control.robots import (
    AdaptiveRobotController,
    RobotController,
    RobotMomentumObserver,
    with_payload,
)

__all__ = [
    "AccelerationReference",
    "AdaptiveLoop",
    "AdaptiveMotion",
    "AdaptiveRobotController",
    "CentroidalCoordinates",
    "ClosedLoop",
    "FieldReference",
    "GainError",
    "LinearlyParametrizedSystem",
    "MomentumObserver",
    "Motion",
    "ObservedMotion",
    "PassivityController",
    "Reference",
    "RobotController",
    "RobotMomentumObserver",
    "configuration_error_at",
    "gain_matrix",
    "reference_force_at",
    "submanifold_reference",
    "task_reference",
    "trajectory_reference",
    "with_payload",
]
