"""Constants of a robot that hold at every posture, proved: ends that no posture exceeds.

>>> from connections import certified
>>> certified.constants(robot)  # doctest: +SKIP
"""

from connections.certified.constants import Constants, constants
from connections.certified.coriolis import CoriolisBound, coriolis_bound
from connections.certified.interval import Interval
from connections.certified.member import SmallestCoriolis, smallest_coriolis
from connections.certified.trilinear import TrilinearNorm, trilinear_norm

__all__ = [
    "Constants",
    "CoriolisBound",
    "Interval",
    "SmallestCoriolis",
    "TrilinearNorm",
    "constants",
    "coriolis_bound",
    "smallest_coriolis",
    "trilinear_norm",
]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {"compiled": "compiled", "postures": "Postures"}
