"""Control laws, observers, whole-body control, LQR, controllability, minimum effort, MuJoCo as a plant."""

from connections.control.centroidal import CentroidalCoordinates
from connections.control.contacts import ContactError, Contacts, PointContact, SurfaceContact
from connections.control.contraction import ContractionRates, contraction_rates, stiffness_and_damping
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
from connections.control.identification.estimate import Identification, identify
from connections.control.identification.exciting import ExcitingMotion, exciting_motion
from connections.control.laws.adaptive import AdaptiveController, AdaptiveLoop
from connections.control.laws.attractors import (
    configuration_error_at,
    submanifold_reference,
    task_reference,
    trajectory_reference,
)
from connections.control.laws.closed_loop import ClosedLoop
from connections.control.laws.gains import GainError, gain_matrix
from connections.control.laws.law import ControlLaw, FunctionLaw
from connections.control.laws.observer import MomentumObserver
from connections.control.laws.parametrization import LinearlyParametrizedSystem
from connections.control.laws.passivity import PassivityController
from connections.control.laws.payload import UnknownInertia, with_payload
from connections.control.laws.references import AccelerationReference, FieldReference, Reference
from connections.control.laws.results import AdaptiveMotion, ClosedLoopMotion, ObservedMotion
from connections.control.linear.lqr import lqr, time_varying_lqr
from connections.control.linear.reachability import StabilizabilityError, reachable_directions
from connections.control.linear.regulator import Regulator, state_names
from connections.control.linear.stabilizability import require_stabilizable
from connections.control.plants.mujoco import FallenError, MuJoCoPlant, PlantMotion, Push
from connections.control.plants.mujoco_robots import MuJoCoRobot, SeriesElastic
from connections.control.plants.shapes import Box, Sphere
from connections.control.splines.effort_curve import EffortCurve, EffortMotion
from connections.control.splines.minimum_effort import minimum_effort_curve
from connections.control.whole_body.controller import WholeBodyCommand, WholeBodyController
from connections.control.whole_body.hierarchy import InfeasibleError
from connections.control.whole_body.task import RobotTask, Target, TaskError, TaskState
from connections.control.whole_body.tasks import (
    AngularMomentumTask,
    CenterOfMassTask,
    OrientationTask,
    PointTask,
    PoseTask,
    PostureTask,
)

__all__ = [
    "AccelerationReference",
    "AdaptiveController",
    "AdaptiveLoop",
    "AdaptiveMotion",
    "AngularMomentumTask",
    "Box",
    "CenterOfMassTask",
    "CentroidalCoordinates",
    "ClosedLoop",
    "ClosedLoopMotion",
    "Closure",
    "ContactError",
    "Contacts",
    "ContractionRates",
    "ControlLaw",
    "ControllabilityReport",
    "DecouplingField",
    "DecouplingFields",
    "EffortCurve",
    "EffortMotion",
    "ExcitingMotion",
    "FallenError",
    "FieldReference",
    "FunctionLaw",
    "GainError",
    "Identification",
    "InfeasibleError",
    "KinematicReport",
    "LinearlyParametrizedSystem",
    "MomentumObserver",
    "MuJoCoPlant",
    "MuJoCoRobot",
    "ObservedMotion",
    "OrientationTask",
    "PassivityController",
    "PlantMotion",
    "PointContact",
    "PointTask",
    "PoseTask",
    "PostureTask",
    "Push",
    "Rank",
    "Reference",
    "Regulator",
    "RobotTask",
    "SeriesElastic",
    "Sphere",
    "StabilizabilityError",
    "SurfaceContact",
    "Target",
    "TaskError",
    "TaskState",
    "UnknownInertia",
    "WholeBodyCommand",
    "WholeBodyController",
    "configuration_controllability",
    "configuration_error_at",
    "contraction_rates",
    "decoupling_fields",
    "exciting_motion",
    "gain_matrix",
    "identify",
    "input_fields",
    "involutive_closure",
    "is_decoupling",
    "kinematic_controllability",
    "lqr",
    "minimum_effort_curve",
    "reachable_directions",
    "require_stabilizable",
    "state_names",
    "stiffness_and_damping",
    "submanifold_reference",
    "symmetric_closure",
    "task_reference",
    "time_varying_lqr",
    "trajectory_reference",
    "with_payload",
]
