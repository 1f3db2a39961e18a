"""Coriolis matrices: from a connection, back to a connection, and the audit of a given C(q, v)."""

from connections.coriolis.audit.audit import AuditReport, audit_coriolis
from connections.coriolis.matrix import (
    CoriolisConnection,
    connection_from_coriolis,
    coriolis_matrix,
    induced_coriolis_matrix,
    task_space_coriolis_matrix,
    task_space_inclusion,
)
from connections.coriolis.nonholonomic import NonholonomicSystem
from connections.coriolis.reduction import ReducedSystem
from connections.coriolis.system import MechanicalSystem

__all__ = [
    "AuditReport",
    "CoriolisConnection",
    "MechanicalSystem",
    "NonholonomicSystem",
    "ReducedSystem",
    "audit_coriolis",
    "connection_from_coriolis",
    "coriolis_matrix",
    "induced_coriolis_matrix",
    "task_space_coriolis_matrix",
    "task_space_inclusion",
]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "audit.differences": "Differences EPS FrameDifferences NOISE_POINTS NOISE_SPACING REACHES function_noise",
    "audit.measurements": "MARGIN nonlinearity residuals terms_of",
    "matrix": "coriolis_matrix_at task_space_coriolis_matrix_at",
}
