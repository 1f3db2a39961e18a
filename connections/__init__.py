"""Affine connections, Coriolis matrices and the geometry of mechanical systems."""

from connections import _interrupt  # noqa: F401, I001  (first: what is next takes a second)
from connections import _jax  # noqa: F401  (then float64)
from connections.affine import *  # noqa: F403
from connections.checks import *  # noqa: F403
from connections.coriolis import *  # noqa: F403
from connections.geometry import *  # noqa: F403
