"""Spaces: frame fields, metrics, charts, Lie groups, embeddings and products."""

from connections.evaluation.parameters import ParametricFunction
from connections.geometry.affine_invariant import AffineInvariantMetric
from connections.geometry.closed_forms import ClosedFormMetric
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.curves import SampledCurve
from connections.geometry.frames import ChangedFrame, FrameField
from connections.geometry.grid_metric import GridMetric
from connections.geometry.groups import SE2Frame, SE3Frame, SO2Frame, SO3Frame
from connections.geometry.invariant_metrics import LeftInvariantMetric
from connections.geometry.matrix_frame import MatrixFrame
from connections.geometry.matrix_group import MatrixLieGroup
from connections.geometry.metrics import (
    ChangedMetric,
    ConstantMetric,
    InducedMetric,
    MatrixMetric,
    Metric,
    PullbackMetric,
)
from connections.geometry.products import ProductFrame, ProductMetric
from connections.geometry.sphere import SphereFrame

__all__ = [
    "AffineInvariantMetric",
    "ChangedFrame",
    "ChangedMetric",
    "ClosedFormMetric",
    "ConstantMetric",
    "CoordinateFrame",
    "FrameField",
    "GridMetric",
    "InducedMetric",
    "LeftInvariantMetric",
    "MatrixFrame",
    "MatrixLieGroup",
    "MatrixMetric",
    "Metric",
    "ParametricFunction",
    "ProductFrame",
    "ProductMetric",
    "PullbackMetric",
    "SE2Frame",
    "SE3Frame",
    "SO2Frame",
    "SO3Frame",
    "SampledCurve",
    "SphereFrame",
]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "frames": "PointFunction",
    "group_maps": "adjoint_of_exponential_at logarithm_at require_group",
    "groups": "SE2_STRUCTURE SE3_STRUCTURE",
    "numerics.scales": "POINT_TOLERANCE worst worst_check",
    "rigid.host_groups": "displaced_pose random_quaternion rotation_matrix skew",
    "rigid.rotations": "rotation_matrix",
}
