"""Connections, their tensors, geodesics and parallel transport."""

from connections.affine.combinations import (
    CoefficientConnection,
    ProductConnection,
    torsion_free_part,
)
from connections.affine.connection import AffineConnection, ChangedConnection, ConnectionOfMetric
from connections.affine.constrained import ConstrainedConnection, FullConnection
from connections.affine.contorsion import ContorsionConnection, ContorsionFamily
from connections.affine.distributions import (
    AnnihilatedDistribution,
    Distribution,
    DistributionFrame,
    SpannedDistribution,
)
from connections.affine.induced import InducedConnection
from connections.affine.levi_civita import LeviCivita
from connections.affine.logarithms.logarithm import logarithm
from connections.affine.motions.deviation import (
    covariant_linearization,
    deviation_map,
    geodesic_flow,
    linearization,
    transport_flow,
)
from connections.affine.motions.geodesics import exponential, geodesic
from connections.affine.motions.motion import Motion
from connections.affine.motions.transport import covariant_derivative_along, holonomy, parallel_transport
from connections.affine.symmetry import GroupAction

__all__ = [
    "AffineConnection",
    "AnnihilatedDistribution",
    "ChangedConnection",
    "CoefficientConnection",
    "ConnectionOfMetric",
    "ConstrainedConnection",
    "ContorsionConnection",
    "ContorsionFamily",
    "Distribution",
    "DistributionFrame",
    "FullConnection",
    "GroupAction",
    "InducedConnection",
    "LeviCivita",
    "Motion",
    "ProductConnection",
    "SpannedDistribution",
    "covariant_derivative_along",
    "covariant_linearization",
    "deviation_map",
    "exponential",
    "geodesic",
    "geodesic_flow",
    "holonomy",
    "linearization",
    "logarithm",
    "parallel_transport",
    "torsion_free_part",
    "transport_flow",
]
