"""Affine connections, Coriolis matrices and the geometry of mechanical systems.

Importing sets two things for the whole process, unless the environment says otherwise: JAX computes in
float64 (``JAX_ENABLE_X64``), and compiled functions are kept in the user's cache folder
(``JAX_COMPILATION_CACHE_DIR``, ``JAX_ENABLE_COMPILATION_CACHE``). The logger ``connections`` says so at its
level INFO. On processors, batches of LAPACK (`jax.numpy.linalg`) wait for no other thread
(`engines/internals/lapack_batches.py`). No module of the package holds tests, so pytest is to leave it as it
is: PYTEST_DONT_REWRITE.
"""

# The first import, so that nothing else is searched in the current folder.
from connections import _current_folder  # noqa: F401  # isort: skip

from typing import Any as _Any

from connections import (
    _figures,
    _interrupt,  # noqa: F401, I001  (imported early, so that Ctrl-C works while the rest is imported)
    _jax,  # noqa: F401  (then float64)
)
from connections._citation import citation
from connections._moved import keep_old_names as _keep_old_names
from connections.affine import (
    AffineConnection,
    CoefficientConnection,
    ConstrainedConnection,
    ContorsionConnection,
    ContorsionFamily,
    CutPointWarning,
    GroupAction,
    InducedConnection,
    LeviCivita,
    Motion,
    ProductConnection,
    StatisticalConnection,
    WeylConnection,
    conjugate_times,
    covariant_derivative_along,
    decompose,
    distance,
    exponential,
    geodesic,
    geodesic_flow,
    geodesic_stability,
    holonomy,
    jacobi_field,
    least_connection,
    linearize,
    logarithm,
    logarithms,
    mean,
    parallel_transport,
    statistical_model,
    torsion_free_part,
    transport_flow,
)
from connections.coriolis import (
    MechanicalSystem,
    NonholonomicSystem,
    ReducedSystem,
    audit_coriolis,
    connection_from_coriolis,
    coriolis_matrix,
)
from connections.engines.internals import lapack_batches  # noqa: F401  (before anything is compiled)
from connections.geometry import (
    ConstantMetric,
    CoordinateFrame,
    FrameField,
    GridMetric,
    InducedMetric,
    LeftInvariantMetric,
    MatrixFrame,
    MatrixLieGroup,
    MatrixMetric,
    Metric,
    ParametricFunction,
    ProductFrame,
    ProductMetric,
    PullbackMetric,
    SampledCurve,
    SE2Frame,
    SE3Frame,
    SO2Frame,
    SO3Frame,
    SphereFrame,
)

__all__ = [
    "AffineConnection",
    "CoefficientConnection",
    "ConstantMetric",
    "ConstrainedConnection",
    "ContorsionConnection",
    "ContorsionFamily",
    "CutPointWarning",
    "CoordinateFrame",
    "FrameField",
    "GridMetric",
    "GroupAction",
    "InducedConnection",
    "InducedMetric",
    "LeftInvariantMetric",
    "LeviCivita",
    "MatrixFrame",
    "MatrixLieGroup",
    "MatrixMetric",
    "MechanicalSystem",
    "Metric",
    "Motion",
    "NonholonomicSystem",
    "ParametricFunction",
    "ProductConnection",
    "ProductFrame",
    "ProductMetric",
    "PullbackMetric",
    "ReducedSystem",
    "SE2Frame",
    "SE3Frame",
    "SO2Frame",
    "SO3Frame",
    "SampledCurve",
    "SphereFrame",
    "StatisticalConnection",
    "WeylConnection",
    "audit_coriolis",
    "citation",
    "conjugate_times",
    "connection_from_coriolis",
    "coriolis_matrix",
    "covariant_derivative_along",
    "decompose",
    "exponential",
    "geodesic",
    "geodesic_flow",
    "geodesic_stability",
    "holonomy",
    "jacobi_field",
    "least_connection",
    "distance",
    "linearize",
    "logarithm",
    "logarithms",
    "mean",
    "parallel_transport",
    "statistical_model",
    "torsion_free_part",
    "transport_flow",
]


def _figure_of(motion: _Any, kind: str = "motion", **options: _Any) -> _Any:
    from connections import plots
    from connections.estimation import History

    name = "history" if isinstance(motion, History) else kind
    return getattr(plots, f"figure_{name}")(motion, **options)


_figures.register(_figure_of)
_keep_old_names(__name__)
