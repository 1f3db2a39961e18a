"""`Interval`: a constant of a robot between an end that is attained and one that is proved."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Interval:
    """A constant of a robot, between a lower and an upper end.

    Of a supremum, the lower end is attained and the upper one proved; of an infimum, vice versa.

    Parameters
    ----------
    lower, upper : the ends; rounding is included, so that the constant lies between them.
    unit : of both.
    posture : (nq,) the configuration at which the attained end is taken; None without one.
    boxes : number of boxes of postures that were bounded.
    reached : why the search stopped: "gap", "time", "interrupted", "floor" (of rounding), "parts" or "limbs"
        (bounded one by one, which do not come closer) or "unbounded".

    Examples
    --------
    >>> from connections.certified import Interval
    >>> reach = Interval(0.98, 1.0, "m")
    >>> round(reach.gap, 3), 0.99 in reach
    (0.02, True)
    """

    lower: float
    upper: float
    unit: str = ""
    posture: np.ndarray | None = None
    boxes: int = 0
    reached: str = "gap"

    @property
    def gap(self) -> float:
        """The distance of the ends relative to the larger size of both; 0 if they are equal."""
        if self.lower == self.upper:
            return 0.0
        largest = max(abs(self.lower), abs(self.upper))
        return 1.0 if math.isinf(largest) else (self.upper - self.lower) / largest

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def to_dict(self) -> dict[str, Any]:
        """A dictionary for JSON; an end that is infinite is None."""
        ends = {name: end if math.isfinite(end) else None for name, end in self._ends()}
        posture = None if self.posture is None else self.posture.tolist()
        rest = {"gap": self.gap, "unit": self.unit, "boxes": self.boxes, "reached": self.reached}
        return {**ends, **rest, "posture": posture}

    def _ends(self) -> tuple[tuple[str, float], ...]:
        return ("lower", self.lower), ("upper", self.upper)


def judged(found: Interval, rtol: float) -> Interval:
    """The interval, stopped by the "floor" of rounding where the gap that was reached is not `rtol`."""
    missed = found.reached == "gap" and found.gap > rtol * (1.0 + 1e-9)
    return replace(found, reached="floor") if missed else found
