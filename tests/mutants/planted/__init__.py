"""Faults planted by hand, where formulas are, by room; chosen as a nasty reviewer would.

Signs, transposes, factors, dropped terms, swapped indices, wrong thresholds, time that is ignored.
"""

from tests.mutants.mutant import Mutant
from tests.mutants.planted import (
    affine,
    certified,
    control,
    coriolis,
    estimation,
    further_rooms,
    geometry,
    kernels,
    multibody,
    referee,
)

_FILES = (
    geometry,
    affine,
    coriolis,
    multibody,
    kernels,
    certified,
    control,
    estimation,
    further_rooms,
    referee,
)
MUTANTS: tuple[Mutant, ...] = tuple(mutant for file in _FILES for mutant in file.MUTANTS)
