"""Results of control: what its functions return, and nobody constructs."""

from connections.control.contraction import ContractionRates
from connections.control.identification.estimate import Identification
from connections.control.identification.exciting import ExcitingMotion
from connections.control.laws.results import AdaptiveMotion, ClosedLoopMotion, ObservedMotion
from connections.control.plants.mujoco import PlantMotion
from connections.control.splines.effort_curve import EffortCurve, EffortMotion
from connections.control.whole_body.controller import WholeBodyCommand
from connections.control.whole_body.task import TaskState

__all__ = [
    "AdaptiveMotion",
    "ClosedLoopMotion",
    "ContractionRates",
    "EffortCurve",
    "EffortMotion",
    "ExcitingMotion",
    "Identification",
    "ObservedMotion",
    "PlantMotion",
    "TaskState",
    "WholeBodyCommand",
]
