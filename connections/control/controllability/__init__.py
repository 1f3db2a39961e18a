"""Controllability of mechanical systems by symmetric products and Lie brackets, at a point."""

from connections._moved import keep_old_names
from connections.control.controllability.configuration import (
    ControllabilityReport,
    configuration_controllability,
)
from connections.control.controllability.field_closures import (
    LieClosure,
    input_fields,
    involutive_closure,
    symmetric_closure,
)
from connections.control.controllability.kinematic import (
    DecouplingField,
    DecouplingFields,
    KinematicReport,
    decoupling_fields,
    is_decoupling,
    kinematic_controllability,
)
from connections.control.controllability.ranks import NumericalRank

__all__ = [
    "LieClosure",
    "ControllabilityReport",
    "DecouplingField",
    "DecouplingFields",
    "KinematicReport",
    "NumericalRank",
    "configuration_controllability",
    "decoupling_fields",
    "input_fields",
    "involutive_closure",
    "is_decoupling",
    "kinematic_controllability",
    "symmetric_closure",
]


keep_old_names(__name__)
