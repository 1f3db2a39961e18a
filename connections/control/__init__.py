"""Passivity-based control, adaptation, the momentum observer, controllability, and LQR."""

from connections.control.adaptive import AdaptiveLoop, AdaptiveMotion, LinearlyParametrizedSystem
from connections.control.attractors import (
    configuration_error_at,
    submanifold_reference,
    task_reference,
    trajectory_reference,
)
from connections.control.centroidal import CentroidalCoordinates
from connections.control.closed_loop import ClosedLoop, Motion
from connections.control.controllability import (
    Closure,
    ControllabilityReport,
    DecouplingField,
    DecouplingFields,
    KinematicReport,
    Rank,
    configuration_controllability,
    decoupling_fields,
    input_fields,
    involutive_closure,
    is_decoupling,
    kinematic_controllability,
    symmetric_closure,
)
from connections.control.gains import GainError, gain_matrix
from connections.control.lqr import lqr, time_varying_lqr
from connections.control.observer import MomentumObserver, ObservedMotion
from connections.control.passivity import PassivityController, reference_force_at
from connections.control.reachability import StabilizabilityError, reachable_directions
from connections.control.references import AccelerationReference, FieldReference, Reference
from connections.control.regulator import Regulator, state_names
from connections.control.robots import (
    AdaptiveRobotController,
    RobotController,
    RobotMomentumObserver,
    with_payload,
)
from connections.control.stabilizability import require_stabilizable

__all__ = [
    "AccelerationReference",
    "AdaptiveLoop",
    "AdaptiveMotion",
    "AdaptiveRobotController",
    "CentroidalCoordinates",
    "ClosedLoop",
    "Closure",
    "ControllabilityReport",
    "DecouplingField",
    "DecouplingFields",
    "FieldReference",
    "GainError",
    "KinematicReport",
    "LinearlyParametrizedSystem",
    "MomentumObserver",
    "Motion",
    "ObservedMotion",
    "PassivityController",
    "Rank",
    "Reference",
    "Regulator",
    "RobotController",
    "RobotMomentumObserver",
    "StabilizabilityError",
    "configuration_controllability",
    "configuration_error_at",
    "decoupling_fields",
    "gain_matrix",
    "input_fields",
    "involutive_closure",
    "is_decoupling",
    "kinematic_controllability",
    "lqr",
    "reachable_directions",
    "reference_force_at",
    "require_stabilizable",
    "state_names",
    "submanifold_reference",
    "symmetric_closure",
    "task_reference",
    "time_varying_lqr",
    "trajectory_reference",
    "with_payload",
]
