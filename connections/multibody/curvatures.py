"""Curvatures of a robot: the tensor, its contractions, and their extremes."""

from connections.multibody.curvature_contractions import (
    curvature_with_torsion,
    ricci,
    scalar_curvature,
    sectional_curvature,
)
from connections.multibody.curvature_extremes import CurvatureExtremes, extreme_sectional_curvatures
from connections.multibody.functions import curvature, curvature_operator

__all__ = [
    "CurvatureExtremes",
    "curvature",
    "curvature_operator",
    "curvature_with_torsion",
    "extreme_sectional_curvatures",
    "ricci",
    "scalar_curvature",
    "sectional_curvature",
]
