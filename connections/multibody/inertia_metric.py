"""The manifold of the bodies that exist: ten inertial parameters, and the metric of their pseudo-inertias.

    P = [[Sigma, h], [h^T, m]],  Sigma = tr(Ibar) 1 / 2 - Ibar,        <A, B> = tr(P^-1 A P^-1 B)

A body in other axes, about another origin or in another unit of length has T P T^T, T = [[R, p], [0, 1]], and
that is an isometry: distances, geodesics, means and divergences depend on none of these.
Source: [WK] for P; [LP] for the metric.
"""

from __future__ import annotations

from functools import lru_cache

from connections.geometry import AffineInvariantMetric
from connections.multibody.inertia import pseudo_inertia_basis


@lru_cache
def inertia_metric() -> AffineInvariantMetric:
    """The affine-invariant metric of pseudo-inertias; points are the parameters of `inertial_parameters`.

    Its coordinates are m, h (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz of one body, kg, kg m, kg m^2, and its
    ``matrices`` are P (4, 4). A covector, such as Y^T s of the regressor of one body, has the ``dual`` S with
    tr(S dP) = a . dpi. The bodies of a robot are rows of a batch; the squared distance between two robots is
    the sum over bodies. Point masses, thin rods and bodies without mass have a singular P and are no points.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> arm, metric = mb.example("arm"), mb.inertia_metric()
    >>> loaded = control.with_payload(arm, "tool", 2.0, (0.05, 0.0, 0.1))
    >>> metric.distance(mb.inertial_parameters(arm), mb.inertial_parameters(loaded)).round(2)
    array([0.  , 0.  , 0.  , 0.  , 0.  , 4.11])

    Source: [WK] for P; [LP] for the metric.
    """
    return AffineInvariantMetric(pseudo_inertia_basis())
