"""Named mechanical systems, each defined once by expressions, for closed forms and for computations.

Every function returns a `SymbolicSystem`, whose ``numeric()`` is the system for computations; `NAMES` lists
them.
"""

from connections.systems.actions import ACTIONS, heisenberg_group, planar_motions, translations
from connections.systems.chaplygin_sleigh import chaplygin_sleigh
from connections.systems.gaits import Gait, Locomotion, displacement, roller_racer_gait, snakeboard_gaits
from connections.systems.heisenberg import heisenberg_particle
from connections.systems.planar_body import planar_body
from connections.systems.roller_racer import roller_racer
from connections.systems.rolling_disc import rolling_disc
from connections.systems.snakeboard import snakeboard
from connections.systems.trailer import trailer

NAMES = {
    "snakeboard": snakeboard,
    "roller_racer": roller_racer,
    "rolling_disc": rolling_disc,
    "heisenberg_particle": heisenberg_particle,
    "chaplygin_sleigh": chaplygin_sleigh,
    "trailer": trailer,
    "planar_body": planar_body,
}

__all__ = [
    "ACTIONS",
    "Gait",
    "Locomotion",
    "NAMES",
    "chaplygin_sleigh",
    "displacement",
    "heisenberg_group",
    "heisenberg_particle",
    "planar_body",
    "planar_motions",
    "roller_racer",
    "roller_racer_gait",
    "rolling_disc",
    "snakeboard",
    "snakeboard_gaits",
    "trailer",
    "translations",
]
