"""Controllability of mechanical systems by symmetric products and Lie brackets, at a point."""

from connections.control.controllability.configuration import (
    ControllabilityReport,
    configuration_controllability,
)
from connections.control.controllability.field_closures import (
    Closure,
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
from connections.control.controllability.ranks import Rank

__all__ = [
    "Closure",
    "ControllabilityReport",
    "DecouplingField",
    "DecouplingFields",
    "KinematicReport",
    "Rank",
    "configuration_controllability",
    "decoupling_fields",
    "input_fields",
    "involutive_closure",
    "is_decoupling",
    "kinematic_controllability",
    "symmetric_closure",
]
