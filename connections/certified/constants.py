"""`constants`: what controllers assume of a robot, at every posture within limits, proved; `Constants`.

Source: docs/certified.md; the constants' uses in control are named by R. Kelly, V. Santibanez and A. Loria,
Control of Robot Manipulators in Joint Space (2005), chapter 4.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from connections._shown import shown
from connections._words import no_such
from connections.certified.boxes import Quantity, supremum
from connections.certified.coriolis import coriolis_bound
from connections.certified.interval import Interval, judged
from connections.certified.parts import plans_of, quantities_of_part
from connections.certified.postures import Postures
from connections.certified.quantities import Quantities
from connections.checks import (
    ModelError,
    as_number,
    html_table,
    require_choice,
    require_duration,
    require_names,
    require_text,
)
from connections.multibody import Model

_ASCENTS = 2.0  # seconds at most of a search that is divided, for a good attained end
_LEAST = 0.2  # seconds that each part gets; most of them need less
_FEW = 3  # coordinates of H, for which all of its boxes are looked at together
FAMILIES = ("christoffel", "force_cross", "least")  #: those whose k_C is bounded
_COLUMNS = ("constant", "lower end", "upper end", "unit", "gap", "boxes", "stopped by")


@dataclass(frozen=True, eq=False)
class Constants:
    """Constants of a robot: `print` them, or read their `Interval` by name.

    Parameters
    ----------
    intervals : {name: interval}. "lambda_max" and "lambda_min" bound the eigenvalues of H, "condition" their
        ratio at one posture, "energy" v^T H v / 2 per |v|^2, "gravity" |g|, "k_g" |dg/dq|, "lipschitz" the
        Frobenius norm of H(q) - H(p) per |q - p|, "reach" the distance of a frame from the world's origin,
        "torque:JOINT" the size of a joint's force, "k_C:FAMILY" |C(q, v) y| / (|v| |y|).
    reasons : {name: why there is no such constant of this robot}.
    lower, upper : {joint: ends of its coordinates}, rad and m; infinite for whole turns.
    unaffected : names of joints on which H does not depend.
    seconds : that it took.

    Examples
    --------
    >>> from connections import certified, multibody as mb
    >>> found = certified.constants(mb.example("arm"), only=["lambda_max"], rtol=0.2)
    >>> found["lambda_max"].reached, 4.0 < found["lambda_max"].lower < 4.1
    ('gap', True)
    """

    intervals: dict[str, Interval]
    reasons: dict[str, str] = field(default_factory=dict)
    lower: dict[str, Any] = field(default_factory=dict)
    upper: dict[str, Any] = field(default_factory=dict)
    unaffected: tuple[str, ...] = ()
    seconds: float = 0.0

    def __getitem__(self, name: str) -> Interval:
        if name in self.intervals:
            return self.intervals[name]
        if name in self.reasons:
            raise KeyError(f"{shown(name)}: {self.reasons[name]}")
        raise KeyError(no_such("constant", name, list(self.intervals)))

    def __contains__(self, name: object) -> bool:
        return name in self.intervals

    def __iter__(self) -> Iterator[str]:
        return iter(self.intervals)

    def to_dict(self) -> dict[str, Any]:
        """A dictionary for JSON; what is infinite is None."""
        return {
            "constants": {name: interval.to_dict() for name, interval in self.intervals.items()},
            "reasons": dict(self.reasons),
            "lower": {name: _finite(ends) for name, ends in self.lower.items()},
            "upper": {name: _finite(ends) for name, ends in self.upper.items()},
            "unaffected": list(self.unaffected),
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        rows = [_COLUMNS, *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        ]
        return "\n".join([*(line.rstrip() for line in lines), *self._notes()])

    def _repr_html_(self) -> str:
        return html_table("certified constants", self._rows(), _COLUMNS, self._notes())

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                shown(name, 16),
                f"{interval.lower:.5g}",
                f"{interval.upper:.5g}",
                interval.unit,
                f"{100.0 * interval.gap:.1f} %",
                str(interval.boxes),
                interval.reached,
            )
            for name, interval in self.intervals.items()
        ]

    def _notes(self) -> list[str]:
        notes = [f"{name}: {reason}" for name, reason in self.reasons.items()]
        if self.unaffected:
            notes.append(f"H does not depend on {', '.join(map(shown, self.unaffected))}")
        return notes


def constants(
    robot: Model,
    limits: Any = None,
    *,
    families: Sequence[str] = FAMILIES,
    frame: str | None = None,
    speed: float | None = None,
    acceleration: float | None = None,
    only: Sequence[str] | None = None,
    rtol: float = 0.02,
    seconds: float = 60.0,
) -> Constants:
    """The constants of a robot at every posture within limits, each between an attained and a proved end.

    Parameters
    ----------
    robot : a tree without loops or couplings; a ball joint or a free one may only be the first. Fixed joints,
        armature and bodies without mass are included as H includes them.
    limits : {joint: (lower, upper)}, rad and m, or (lower, upper), (nq,) each; the model's own where none is
        given. An angle whose limits are a turn or more apart makes whole turns.
    families : whose C has its k_C bounded, as of `coriolis_bound`; that of an unknown one is an error.
    frame : whose reach is bounded; the last of `frame_names` if None.
    speed, acceleration : of |v| and |vdot|, SI: the largest force of each joint, |(H vdot + C v + g)_i|, is
        bounded for them; 0 for one of the two that is None.
    only : names of constants that are asked for; all if None.
    rtol : the gap at which a search stops, relative to the upper end.
    seconds : the time for all of them, s; a search that runs out of its share says so, and its ends hold.

    Raises
    ------
    ModelError : loops, a helical joint, a ball joint elsewhere, limits that are reversed.
    TypeError, ShapeError; ValueError : also if there is no such frame, constant or family.
    KeyboardInterrupt : Ctrl-C; its attribute ``constants`` has those that are known.

    Examples
    --------
    >>> from connections import certified, multibody as mb
    >>> arm = certified.constants(mb.example("arm"), only=["k_g"], rtol=0.2)
    >>> arm["k_g"].lower < 58.9 < arm["k_g"].upper
    True

    Source: docs/certified.md.
    """
    start = time.monotonic()
    postures = Postures.of(robot, limits)
    rtol, seconds = require_duration("rtol", rtol), require_duration("seconds", seconds)
    if rtol >= 1.0:
        raise ValueError(f"rtol: a gap of {rtol:g} bounds nothing: expected less than 1")
    moving = (
        None if speed is None and acceleration is None else _sizes(speed=speed, acceleration=acceleration)
    )
    quantities = Quantities(postures)
    searches, reasons = _searches(quantities, frame, moving)
    for family in require_names("families", families):
        require_choice("families", family, FAMILIES)
        searches[f"k_C:{family}"] = _of_coriolis(robot, limits, family)
    if not robot.kinematics.quaternions and {"k_C:christoffel", "k_C:least"} <= set(searches):
        del searches["k_C:least"]  # where v = qdot the two are one
    if only is not None:
        same = {"energy": "lambda_max"}
        if "k_C:christoffel" in searches and not robot.kinematics.quaternions:
            same["k_C:least"] = "k_C:christoffel"
        if "torque" in reasons:  # of all joints
            same |= {name: "torque" for name in require_names("only", only) if name.startswith("torque:")}
        wanted = tuple(same.get(name, name) for name in require_names("only", only))
        for name in wanted:
            if name not in searches and name not in reasons:
                raise ValueError(f"only: {no_such('constant', name, [*searches, *same, *reasons])}")
        searches = {name: search for name, search in searches.items() if name in wanted}
        reasons = {name: reason for name, reason in reasons.items() if name in wanted}
    found: dict[str, Interval] = {}

    def result() -> Constants:
        ends: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for name, at in ((name, robot.configuration_slice(name)) for name in robot.joint_names):
            for side, values in zip(ends, (postures.lower, postures.upper), strict=True):
                own = (postures.places >= at.start) & (postures.places < at.stop)
                if own.any():
                    side[name] = np.where(postures.whole, np.copysign(np.inf, values), values)[own]
        unaffected = _unaffected(quantities)
        return Constants(found, reasons, *ends, unaffected, time.monotonic() - start)

    try:
        for number, (name, search) in enumerate(searches.items()):
            left = max(seconds - (time.monotonic() - start), 0.05) / (len(searches) - number)
            try:
                found[name] = search(rtol, left)
            except ModelError as error:  # what k_C needs besides
                reasons[name] = str(error)
                continue
            except np.linalg.LinAlgError:
                reasons[name] = "H is singular at a posture"
                continue
            if name == "condition" and {"lambda_max", "lambda_min"} <= set(found):
                found[name] = _of_ends(found[name], found["lambda_max"], found["lambda_min"])
            if name == "lambda_max":
                found["energy"] = _times(0.5, found[name])
            if name == "k_C:christoffel" and "least" in families and not robot.kinematics.quaternions:
                found["k_C:least"] = found[name]
    except KeyboardInterrupt as error:
        if (interval := vars(error).get("interval")) is not None:
            found[name] = interval
        vars(error)["constants"] = result()
        raise
    return result()


Search = Callable[[float, float], Interval]


def _sizes(**given: float | None) -> tuple[float, ...]:
    """Numbers that are not negative; 0 for None."""
    found = [0.0 if value is None else as_number(name, value) for name, value in given.items()]
    for name, value in zip(given, found, strict=True):
        if value < 0.0:
            raise ValueError(f"{name}: expected a number that is not negative, got {value:g}")
    return tuple(found)


def _searches(
    quantities: Quantities, frame: str | None, moving: tuple[float, ...] | None
) -> tuple[dict[str, Search], dict[str, str]]:
    """Searches by the names of constants, and the reasons why some have none."""
    robot = quantities.postures.robot
    inertia, force = _units(robot)

    def of(quantity: Quantity, unit: str, name: str) -> Search:
        return lambda rtol, seconds: supremum(
            quantity, quantities.postures, rtol=rtol, seconds=seconds, unit=unit, name=name
        )

    frames = robot.frame_names
    frame = frames[-1] if frame is None else require_text("frame", frame)
    if frame not in frames:
        raise ValueError(f"frame: {no_such('frame', frame, list(frames))}")
    reach, (_, beyond) = of(quantities.reach(frame), "m", "reach"), quantities.centre_of(frame)
    searches = {
        "lambda_max": of(quantities.largest(), inertia, "lambda_max"),
        "lambda_min": _of_smallest(quantities, inertia),
        "condition": of(quantities.condition(), "1", "condition"),
        "gravity": lambda *given: of(quantities.gravity(), force, "gravity")(*given),  # or there is none
        "reach": lambda rtol, seconds: _farther(reach, beyond, rtol, seconds),
    }
    reasons = {}
    if robot.kinematics.quaternions:
        reasons["k_g"] = "the frame's velocities are no rates of coordinates, so that g has no matrix dg/dq"
    else:
        searches["k_g"] = of(quantities.gravity_slope(), f"{force}/rad" if force == "N m" else "SI", "k_g")
    searches["lipschitz"] = of(quantities.slope(), inertia, "lipschitz")
    if not quantities.largest().depends.any():  # H is constant
        still = quantities.postures.held(np.zeros(len(quantities.postures.lower), dtype=bool))
        at = still.within_limits(still.lower)
        searches["lipschitz"] = lambda rtol, seconds: Interval(0.0, 0.0, inertia, at)
    if moving is not None and robot.kinematics.quaternions:
        reasons["torque"] = "the frame's velocities are no rates of coordinates"
    elif moving is not None:
        for element in robot.kinematics.elements:
            own = robot.velocity_slice(element.name)
            several = f":{element.v.start - own.start}" * (own.stop - own.start > 1)
            name = f"torque:{element.name}{several}"
            searches[name] = of(quantities.torque(element.v.start, *moving), force, name)
    return searches, reasons


def _farther(search: Search, distance: float, *given: float) -> Interval:
    def beyond(found: Interval) -> Interval:
        return replace(found, lower=found.lower + distance, upper=found.upper + distance)

    try:
        return beyond(search(*given))
    except KeyboardInterrupt as error:
        if (known := vars(error).get("interval")) is not None:
            vars(error)["interval"] = beyond(known)
        raise


def _of_coriolis(robot: Model, limits: Any, family: str) -> Search:
    def bound(rtol: float, seconds: float) -> Interval:
        return coriolis_bound(robot, limits, body_factor=family, rtol=rtol, seconds=seconds).interval

    return bound


def _of_smallest(quantities: Quantities, unit: str) -> Search:
    """lambda_min(H), an infimum: the inverse of the supremum of |H^-1|; H is at least the armature.

    Of more than three coordinates it is bounded by parts of the tree, after a short search of the whole.
    """

    def smallest(rtol: float, seconds: float) -> Interval:
        start, postures = time.monotonic(), quantities.postures
        floor = max(0.0, float(postures.kinematics.tree.armature.min(initial=math.inf)))
        divided = np.count_nonzero(quantities.largest().depends) > _FEW

        def inverted(inverse: Interval) -> Interval:
            lower = max(1.0 / inverse.upper if inverse.upper else math.inf, floor) * (1.0 - 1e-14)
            largest = 1.0 / inverse.lower if inverse.lower else math.inf
            return replace(inverse, lower=min(lower, largest), upper=largest, unit=unit)

        try:
            left = min(seconds / 4.0, _ASCENTS) if divided else seconds
            whole = supremum(quantities.inverse(), postures, rtol=rtol, seconds=left, name="lambda_min")
            if divided and whole.posture is not None and whole.lower < math.inf:
                whole = _by_parts(postures, whole, whole.posture, rtol, start + seconds)
        except KeyboardInterrupt as error:
            if (known := vars(error).get("interval")) is not None:
                vars(error)["interval"] = inverted(known)
            raise
        return judged(inverted(whole), rtol)

    return smallest


def _by_parts(
    postures: Postures, whole: Interval, best: np.ndarray, rtol: float, deadline: float
) -> Interval:
    """The interval of |H^-1| with the end that parts of the tree prove, if it is lower."""
    enough = whole.lower / (1.0 - rtol)
    for least, parts in plans_of(postures, best):
        if whole.upper <= enough or least * whole.upper <= 1.0:
            continue
        tops = []
        for number, part in enumerate(parts):
            quantities, rows = quantities_of_part(postures, part)
            left = max(_LEAST, (deadline - time.monotonic()) / (len(parts) - number))
            try:
                found = supremum(
                    quantities.inverse(rows),
                    quantities.postures,
                    rtol=rtol / 4.0,
                    seconds=left,
                    name="lambda_min",
                    known=whole.lower,
                    enough=enough,
                )
            except KeyboardInterrupt as error:
                vars(error)["interval"] = replace(whole, reached="interrupted")
                raise
            except np.linalg.LinAlgError:  # bodies without mass, which are no part without the others
                break
            tops.append(found.upper)
            if found.upper >= whole.upper:
                break
        if len(tops) == len(parts) and max(tops) < whole.upper:
            whole = replace(whole, upper=max(tops), reached="parts")
    return whole


def _of_ends(found: Interval, largest: Interval, smallest: Interval) -> Interval:
    """A condition number, which is at most the ratio of the ends of both eigenvalues."""
    ratio = largest.upper / smallest.lower * (1.0 + 1e-15) if smallest.lower > 0.0 else math.inf
    return found if found.upper <= ratio else replace(found, upper=ratio, reached="parts")


def _times(factor: float, interval: Interval) -> Interval:
    return replace(interval, lower=factor * interval.lower, upper=factor * interval.upper)


def _units(robot: Model) -> tuple[str, str]:
    """The units of H and of g, if all joints turn; "SI" if they are mixed."""
    turns = all(element.joint.turns.all() for element in robot.kinematics.elements)
    return ("kg m^2", "N m") if turns else ("SI", "SI")


def _unaffected(quantities: Quantities) -> tuple[str, ...]:
    """Joints on which H does not depend, by the structure of the tree."""
    postures = quantities.postures
    depends = quantities.largest().depends
    moving = {name for element, name in ((e, e.name) for e in postures.robot.kinematics.elements)}
    single = [e for e in postures.robot.kinematics.elements if e.joint.quaternion is None]
    affecting = {e.name for e, yes in zip(single, depends, strict=True) if yes}
    return tuple(name for name in postures.robot.joint_names if name in moving - affecting)


def _finite(ends: Any) -> list[float | None]:
    return [float(end) if np.isfinite(end) else None for end in np.atleast_1d(ends)]
