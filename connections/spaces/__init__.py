"""Spaces by name, with their geodesics in closed form where there are any."""

from connections.spaces.densities import categorical, dirichlet, gamma, normal
from connections.spaces.grassmann import grassmann
from connections.spaces.hyperbolic import hyperbolic, hyperbolic_map
from connections.spaces.quotients import positive_definite, sphere

__all__ = [
    "categorical",
    "dirichlet",
    "gamma",
    "grassmann",
    "hyperbolic",
    "hyperbolic_map",
    "normal",
    "positive_definite",
    "sphere",
]
