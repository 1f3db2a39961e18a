"""Connections, their tensors, geodesics and parallel transport."""

from connections._moved import keep_old_names
from connections.affine.cartan_schouten import CartanSchoutenConnection
from connections.affine.combinations import (
    CoefficientConnection,
    ProductConnection,
    torsion_free_part,
)
from connections.affine.conjugate_times import ConjugateTimes, conjugate_times
from connections.affine.connection import AffineConnection, ChangedConnection, ConnectionOfMetric
from connections.affine.constrained import ConstrainedConnection, FullConnection
from connections.affine.contorsion import (
    ConnectionWithContorsion,
    ContorsionConnection,
    ContorsionFamily,
)
from connections.affine.decomposition import Decomposition, decompose
from connections.affine.distributions import (
    AnnihilatedDistribution,
    Distribution,
    DistributionFrame,
    SpannedDistribution,
)
from connections.affine.induced import InducedConnection
from connections.affine.least import least_connection
from connections.affine.levi_civita import LeviCivita
from connections.affine.logarithms.logarithm import logarithm
from connections.affine.logarithms.search import CutPointWarning
from connections.affine.many_geodesics import Logarithms, distance, logarithms
from connections.affine.means import Mean, mean
from connections.affine.motions.deviation import (
    GeodesicFlow,
    TransportFlow,
    covariant_linearization,
    deviation_map,
    geodesic_flow,
    linearize,
    transport_flow,
)
from connections.affine.motions.geodesics import exponential, geodesic
from connections.affine.motions.jacobi import JacobiField, jacobi_field
from connections.affine.motions.motion import Motion
from connections.affine.motions.stability import GeodesicStability, geodesic_stability
from connections.affine.motions.transport import (
    Estimated,
    covariant_derivative_along,
    holonomy,
    parallel_transport,
)
from connections.affine.nonmetric import StatisticalConnection, WeylConnection
from connections.affine.statistical_models import FisherMetric, StatisticalModel, statistical_model
from connections.affine.symmetry import GroupAction

__all__ = [
    "AffineConnection",
    "AnnihilatedDistribution",
    "CartanSchoutenConnection",
    "ChangedConnection",
    "CoefficientConnection",
    "ConjugateTimes",
    "ConnectionOfMetric",
    "ConnectionWithContorsion",
    "ConstrainedConnection",
    "ContorsionConnection",
    "ContorsionFamily",
    "CutPointWarning",
    "Decomposition",
    "Distribution",
    "DistributionFrame",
    "FisherMetric",
    "FullConnection",
    "GeodesicFlow",
    "GeodesicStability",
    "GroupAction",
    "InducedConnection",
    "JacobiField",
    "LeviCivita",
    "Motion",
    "ProductConnection",
    "SpannedDistribution",
    "StatisticalConnection",
    "StatisticalModel",
    "TransportFlow",
    "WeylConnection",
    "conjugate_times",
    "covariant_derivative_along",
    "covariant_linearization",
    "decompose",
    "deviation_map",
    "exponential",
    "geodesic",
    "geodesic_flow",
    "geodesic_stability",
    "holonomy",
    "jacobi_field",
    "least_connection",
    "linearize",
    "Logarithms",
    "Mean",
    "distance",
    "logarithm",
    "logarithms",
    "mean",
    "Estimated",
    "parallel_transport",
    "statistical_model",
    "torsion_free_part",
    "transport_flow",
]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "decomposition": "decompose_at",
    "logarithms.search": "logarithms",
    "logarithms.shooting": "Shooting TIGHT",
    "motions.flow": "as_times",
    "motions.jax_motions": "HostMotions",
    "motions.series": "Names Series Units require_known",
}

keep_old_names(__name__)
