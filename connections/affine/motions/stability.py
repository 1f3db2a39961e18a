"""Geodesic stability: the curvature of the planes that contain the velocity, and how far neighbours separate.

Neighbours obey D_t^2 eta = -R(eta, v) v. The eigenvalues of R(., v) v across v, divided by |v|^2, are
sectional curvatures of planes that contain v, the extreme ones the extremes over all these planes. Under a
constant curvature k, neighbours oscillate with the frequency |v| sqrt(k) if it is positive, and separate with
the rate |v| sqrt(-k) if it is negative. What has become of them at time t is the stretch, |eta(t)| / (t |D_t
eta(0)|) over the Jacobi fields with eta(0) = 0: one in a flat space, and its smallest value is zero at a
conjugate point.
Source: [L] chapters 10, 11.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.connection import AffineConnection
from connections.affine.motions.deviation import geodesic_flow, require_unconstrained
from connections.affine.motions.flow import as_times
from connections.affine.motions.motion import Motion, largest, motion_class
from connections.checks import PointError, as_array, is_traced, require_finite
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import PytreePartial
from connections.geometry.metrics import require_definite
from connections.geometry.numerics.definite import orthonormal_basis


@motion_class
class GeodesicStability(Motion):
    """A geodesic, the extreme curvatures of planes that contain v, and the stretch of its neighbours.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> found = cn.geodesic_stability(nabla, [0.0, 1.0], [0.0, 1.0], [0.0, 1.0])
    >>> found.q.shape, found.stretch.round(4)
    ((2, 2), array([[1.    , 1.    ],
           [1.    , 1.1752]]))
    """

    least: Array
    """(..., T) the most negative sectional curvature, 1/(kg m^2) for a kinetic energy metric."""
    greatest: Array
    """(..., T) the most positive one."""
    stretch: Array
    """(..., T, 2) smallest and largest |eta(t)| / (t |D_t eta(0)|), over all eta with eta(0) = 0."""

    PANELS: ClassVar[tuple[tuple[str, str], ...]] = (
        *Motion.PANELS,
        ("curvature", "curvature of planes that contain v [1/(kg m^2)]"),
        ("stretch", "stretch of neighbours, smallest and largest"),
    )

    @property
    def curvature(self) -> Array:
        """(..., T, 2) `least` and `greatest`."""
        numbers = jnp if isinstance(self.least, jax.Array) else np
        both: Array = numbers.stack([self.least, self.greatest], axis=-1)
        return both

    def _summary(self) -> str:
        least, greatest = float(np.min(self.least)), float(np.max(self.greatest))
        return f"curvature from {least:.3g} to {greatest:.3g}, largest stretch {largest(self.stretch)}"


def geodesic_stability(nabla: AffineConnection, q: ArrayLike, v: ArrayLike, times: Any) -> GeodesicStability:
    """Curvature along the geodesic through (q, v), and how far its neighbours separate.

    Parameters
    ----------
    nabla : a connection whose geodesics are those of a metric by construction: LeviCivita, a robot's, a
        member of a ContorsionFamily. The curvature is that of the metric.
    q : (..., nq) initial points, at times[0].
    v : (..., n) initial velocities, frame components, not zero.
    times : (T,) strictly monotone.

    Returns
    -------
    GeodesicStability : q, v, least, greatest (..., T) and stretch (..., T, 2), one at times[0]. ``plot()`` is
        the picture.

    Raises
    ------
    IntegrationError : the geodesic leaves the chart; names the time and the point.
    PointError : v is zero, so that no plane contains it. Where JAX traces, the curvatures are NaN.
    ValueError : there is one dimension, and a plane needs two.
    TypeError : the geodesics are not known to be those of a metric.
    ShapeError, NonFiniteError, FrameError, MetricError.

    Examples
    --------
    In the half plane of curvature -1, neighbours part like sinh.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> found = cn.geodesic_stability(nabla, [0.0, 1.0], [0.0, 1.0], [0.0, 1.0])
    >>> found.least.round(6)
    array([-1., -1.])

    Source: [L] chapters 10, 11.
    """
    require_unconstrained("geodesic_stability", nabla)
    metrical, n = nabla.riemannian, nabla.frame.dim
    if metrical is None:
        kind = type(nabla).__name__
        raise TypeError(
            f"geodesic_stability: the geodesics of a {kind} are not known to be those of a metric"
        )
    require_definite("geodesic_stability", metrical.known_metric)
    if n < 2:
        raise ValueError("geodesic_stability: a plane needs two dimensions, and the space has one")
    times = as_times(times)
    q, v = as_array("q", q, (nabla.frame.ambient_dim,)), as_array("v", v, (n,))
    for name, array in (("q", q), ("v", v)):
        require_finite(name, array)
    if not is_traced(v) and not np.asarray(v).any(axis=-1).all():
        raise PointError("geodesic_stability: v is zero, so that no plane contains it")
    points, velocities, Phi = geodesic_flow(metrical, q, v, times)
    arguments = (
        Argument("q", points, (metrical.frame.ambient_dim,)),
        Argument("v", velocities, (n,)),
        Argument("q0", points[..., :1, :], (metrical.frame.ambient_dim,)),
        Argument("Y", Phi[..., :n, n:], (n, n)),
        Argument("elapsed", times - times[0], ()),
    )
    found = evaluate(metrical, PytreePartial(_stability_at, metrical), *arguments)
    return GeodesicStability(
        jnp.asarray(times) if isinstance(points, jax.Array) else times, points, velocities, *found
    )


def _stability_at(
    nabla: AffineConnection, q: jax.Array, v: jax.Array, q0: jax.Array, Y: jax.Array, elapsed: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    root, basis = orthonormal_basis(nabla.gram_at(q))
    x = root @ v
    speed = jnp.linalg.norm(x)
    x, unit = x / speed, v / speed
    # A reflection whose first column is x or -x: the other columns are an orthonormal basis across v.
    mirror = x.at[0].add(jnp.where(x[0] < 0.0, -1.0, 1.0))
    across = (jnp.eye(len(x)) - 2.0 * jnp.outer(mirror, mirror) / (mirror @ mirror))[:, 1:]
    K = across.T @ root @ nabla.curvature_along_at(q, unit) @ basis @ across
    curvatures = jnp.linalg.eigvalsh((K + K.T) / 2.0)
    moved = elapsed != 0.0
    spread = root @ Y @ orthonormal_basis(nabla.gram_at(q0))[1] / jnp.where(moved, elapsed, 1.0)
    sizes = jnp.linalg.svd(jnp.where(moved, spread, jnp.eye(len(x))), compute_uv=False)
    return curvatures[0], curvatures[-1], jnp.stack([sizes[-1], sizes[0]])
