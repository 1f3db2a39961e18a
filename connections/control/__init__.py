"""Control laws, observers, whole-body control, LQR, controllability, minimum effort, MuJoCo as a plant.

`control.controllability`, `control.errors` and `control.results` are parts with names of their own; results
are what functions return, and nobody constructs.
"""

from connections._moved import keep_old_names
from connections.control import controllability as controllability
from connections.control import errors as errors
from connections.control import results as results
from connections.control.centroidal import CentroidalCoordinates
from connections.control.contacts import Contacts, PointContact, SurfaceContact
from connections.control.contraction import contraction_rates, stiffness_and_damping
from connections.control.identification.estimate import identify
from connections.control.identification.exciting import exciting_motion
from connections.control.laws.adaptive import AdaptiveController, AdaptiveLoop
from connections.control.laws.attractors import (
    configuration_error_at,
    submanifold_reference,
    task_reference,
    trajectory_reference,
)
from connections.control.laws.certified_gains import CertifiedGains, gains_from
from connections.control.laws.closed_loop import ClosedLoop
from connections.control.laws.gains import CertifiedGain, gain_matrix
from connections.control.laws.law import ControlLaw, FunctionLaw
from connections.control.laws.observer import MomentumObserver
from connections.control.laws.parametrization import LinearlyParametrizedSystem
from connections.control.laws.passivity import PassivityController
from connections.control.laws.payload import UnknownInertia, with_payload
from connections.control.laws.references import AccelerationReference, FieldReference, Reference
from connections.control.linear.lqr import lqr, time_varying_lqr
from connections.control.linear.reachability import reachable_directions
from connections.control.linear.regulator import Regulator, state_names
from connections.control.linear.stabilizability import require_stabilizable
from connections.control.plants.mujoco import MuJoCoPlant, Push
from connections.control.plants.mujoco_robots import MuJoCoRobot, SeriesElastic
from connections.control.plants.shapes import BoxShape, SphereShape
from connections.control.preparing import prepare
from connections.control.splines.minimum_effort import minimum_effort_curve
from connections.control.whole_body.controller import WholeBodyController
from connections.control.whole_body.task import RobotTask, Target
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
    "AngularMomentumTask",
    "BoxShape",
    "CenterOfMassTask",
    "CentroidalCoordinates",
    "CertifiedGain",
    "CertifiedGains",
    "ClosedLoop",
    "Contacts",
    "ControlLaw",
    "FieldReference",
    "FunctionLaw",
    "LinearlyParametrizedSystem",
    "MomentumObserver",
    "MuJoCoPlant",
    "MuJoCoRobot",
    "OrientationTask",
    "PassivityController",
    "PointContact",
    "PointTask",
    "PoseTask",
    "PostureTask",
    "Push",
    "Reference",
    "Regulator",
    "RobotTask",
    "SeriesElastic",
    "SphereShape",
    "SurfaceContact",
    "Target",
    "UnknownInertia",
    "WholeBodyController",
    "configuration_error_at",
    "contraction_rates",
    "exciting_motion",
    "gain_matrix",
    "gains_from",
    "identify",
    "lqr",
    "minimum_effort_curve",
    "prepare",
    "reachable_directions",
    "require_stabilizable",
    "state_names",
    "stiffness_and_damping",
    "submanifold_reference",
    "task_reference",
    "time_varying_lqr",
    "trajectory_reference",
    "with_payload",
]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "laws.inertia_cone": "InertiaCone",
    "whole_body.compiled": "compiled",
}

keep_old_names(__name__)
