"""geomstats' spaces shared by the tests, which import this file before they import parts of geomstats."""

from __future__ import annotations

import logging
from typing import Any

from connections.interop import import_geomstats

logging.getLogger().setLevel(logging.WARNING)  # geomstats announces its backend
import_geomstats()


def sphere() -> Any:
    """S^2 in R^3."""
    from geomstats.geometry.hypersphere import Hypersphere

    return Hypersphere(2)


def half_plane() -> Any:
    """The half-space model, n = 2."""
    from geomstats.geometry.poincare_half_space import PoincareHalfSpace

    return PoincareHalfSpace(2)


def ball() -> Any:
    """The ball model, n = 3."""
    from geomstats.geometry.poincare_ball import PoincareBall

    return PoincareBall(3)


def hyperboloid() -> Any:
    """H^2 in Minkowski's R^3."""
    from geomstats.geometry.hyperboloid import Hyperboloid

    return Hyperboloid(2)


def spd(name: str = "SPDAffineMetric") -> Any:
    """Positive definite 2x2 matrices with a metric of geomstats.geometry.spd_matrices."""
    from geomstats.geometry import spd_matrices

    space = spd_matrices.SPDMatrices(2, equip=False)
    return space.equip_with_metric(getattr(spd_matrices, name))


def rotations(inertia: Any = ((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 2.5)), left: bool = True) -> Any:
    """SO(3) with an invariant metric, geomstats' integrators at tight tolerances."""
    import geomstats.backend as gs
    from geomstats.geometry.invariant_metric import InvariantMetric
    from geomstats.geometry.special_orthogonal import SpecialOrthogonal
    from geomstats.numerics.ivp import ScipySolveIVP

    space = SpecialOrthogonal(3, equip=False)
    space.equip_with_metric(InvariantMetric, metric_mat_at_identity=gs.array(inertia), left=left)
    space.metric.exp_solver.integrator = ScipySolveIVP("DOP853", point_ndim=2, rtol=1e-12, atol=1e-12)
    space.metric.log_solver.integrator.tol = 1e-10
    return space


def motions() -> Any:
    """SE(3) with geomstats' canonical left-invariant metric."""
    from geomstats.geometry.special_euclidean import SpecialEuclidean

    return SpecialEuclidean(3)


def chart_with(matrix: Any, dim: int = 2) -> Any:
    """R^dim with a metric given by its matrix: one point -> (dim, dim)."""
    import geomstats.backend as gs
    from geomstats.geometry.euclidean import Euclidean
    from geomstats.geometry.riemannian_metric import RiemannianMetric

    class ByMatrix(RiemannianMetric):
        def metric_matrix(self, base_point: Any = None) -> Any:
            if base_point.ndim == 1:
                return matrix(base_point)
            return gs.stack([matrix(point) for point in base_point])

    space = Euclidean(dim, equip=False)
    return space.equip_with_metric(ByMatrix)
