"""The joints at fault if a library's Coriolis matrix lacks a property.

Lock all joints except a set S. The inclusion of the motions of S is a constant selection of columns, so by
[W] (17) the mass matrix, the Coriolis matrix and the contorsion D of the moving joints are the entries of H,
C and D with all indices in S. Hence a robot with locked joints is audited exactly and without another model.
A set of joint types is at fault for a property if the property fails when all joints of these types move, and
no others, and holds for every smaller set of types. D has three indices, so if C is linear in v, a failing
entry involves at most three joints, and sets of three types find all of them. If C is not linear, and no set
is found, all types are named.

Source: [W] Thm V.1, eq. (17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from connections import multibody as mb
from connections.checks import Check
from connections.coriolis import AuditReport, audit_coriolis
from connections.interop.libraries import LibraryRobot
from connections.interop.libraries.library import Array, JointSlices, slots
from connections.multibody.definition.kinematics import product_of_frames

#: Properties of a library that has only the vector C v.
VECTOR = ("bias",)
_LARGEST_SET = 3


@dataclass(frozen=True)
class Fault:
    """A property that fails if only joints of some types move, and holds for fewer types.

    Parameters
    ----------
    name : of the property.
    kinds : the joint types.
    check : the measurement with all other joints locked.
    joints : the joints of these types.
    """

    name: str
    kinds: tuple[str, ...]
    check: Check
    joints: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """A dictionary for JSON."""
        return {"property": self.name, "kinds": list(self.kinds), "joints": list(self.joints)} | {
            "residual": self.check.residual,
            "scale": self.check.scale,
            "relative": self.check.relative,
        }


def faults_of(
    theirs: LibraryRobot,
    coriolis: Callable[[Array, Array], Array],
    report: AuditReport,
    q: Array,
    v: Array,
) -> Iterator[Fault]:
    """The smallest sets of joint types with which a property fails, for each that fails on the robot."""
    names = report.checks if theirs.coriolis is not None else VECTOR
    failing = [name for name in names if report.verdicts[name] == "fails"]
    if not failing:
        return
    kinds = joint_kinds(theirs.model, theirs.kinds)
    by_kind: dict[str, list[JointSlices]] = {}
    for slot in slots(theirs.model):
        by_kind.setdefault(kinds[slot.name], []).append(slot)
    found: dict[str, list[tuple[str, ...]]] = {name: [] for name in failing}
    for size in range(1, min(len(by_kind), _LARGEST_SET) + 1):
        for chosen in combinations(by_kind, size):
            open_names = [
                name for name in failing if not any(set(smaller) <= set(chosen) for smaller in found[name])
            ]
            if not open_names:
                continue
            moving = [slot for kind in chosen for slot in by_kind[kind]]
            part = _locked(theirs, coriolis, moving, q, v) if size < len(by_kind) else report
            for name in open_names:
                if part.verdicts[name] == "fails":
                    found[name].append(chosen)
                    joints = tuple(slot.name for slot in moving)
                    yield Fault(name, chosen, part.checks[name], joints)
    for name in failing:
        if not found[name]:
            yield Fault(name, tuple(by_kind), report.checks[name], theirs.model.joint_names)


def _locked(
    theirs: LibraryRobot,
    coriolis: Callable[[Array, Array], Array],
    moving: Sequence[JointSlices],
    q: Array,
    v: Array,
) -> AuditReport:
    """The audit with all joints except some locked, at each of the sampled configurations."""
    at_q, at_v = (np.concatenate([np.r_[slot[index]] for slot in moving]) for index in (2, 3))
    named = dict(zip(theirs.model.joint_names, theirs.model.kinematics.joints, strict=True))
    frame = product_of_frames([named[slot.name] for slot in moving], [slot.name for slot in moving])
    reports = []
    for point, velocity in zip(q, v, strict=True):

        def whole(x: Array, point: Array = point) -> Array:
            out = point.copy()
            out[at_q] = x
            return out

        def part(x: Array, w: Array, whole: Callable[[Array], Array] = whole) -> Array:
            wide = np.zeros(theirs.model.nv)
            wide[at_v] = w
            return np.asarray(coriolis(whole(x), wide)[np.ix_(at_v, at_v)])

        def part_of_H(x: Array, whole: Callable[[Array], Array] = whole) -> Array:
            return np.asarray(theirs.mass_matrix(whole(x))[np.ix_(at_v, at_v)])

        reports.append(audit_coriolis(part, part_of_H, frame, point[at_q], velocity[at_v]))
    return _worst(reports)


def _worst(reports: list[AuditReport]) -> AuditReport:
    """The report in which most properties fail."""
    return max(reports, key=lambda report: list(report.verdicts.values()).count("fails"))


def joint_kinds(model: mb.Model, named: Mapping[str, str]) -> dict[str, str]:
    """{joint: its type in words}: the library's name if there is one, or our class."""
    return {slot.name: named.get(slot.name, slot.kind.lower()) for slot in slots(model)}
