"""Audits of a library in another interpreter, on the robots of the corpus.

The library's adaptor (`interop/adaptors/`) says in which layout it writes q and v. What it does not give, or
does not model, is "not given"; a robot that it refuses has its reason. Neither is a failure of the audit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from connections._shown import shown
from connections.interop import LibraryError
from connections.interop.adaptors import QUANTITIES
from connections.interop.other_python import TIMEOUT, NotGivenError, OtherPython, OtherRobot
from connections.referee.audit import audit_robot
from connections.referee.black_boxes import BlackBoxError
from connections.referee.corpus_robots import CorpusRobot, robot, robots
from connections.referee.layouts import Layout, fixed, floating, planar

_PLANE = ("ice_x", "ice_y", "ice_angle")  # joints of an MJCF file that move the base in a plane


def audits_of(
    library: str,
    python: str | os.PathLike[str] | None = None,
    names: Iterable[str] | None = None,
    timeout: float = TIMEOUT,
) -> Iterator[dict[str, Any]]:
    """Audits of a library on robots of the corpus, one after another, as plain objects for JSON.

    Each has "library", "version", "robot", "feature", and either what `RefereeReport.to_dict` has, "layout"
    and "functions", or a reason as "not given" or "refused".

    Parameters
    ----------
    library : a name of `interop.adaptors.ADAPTORS`, or the path of an adaptor.
    python : the interpreter that has it; this one by default.
    names : of robots; all of the corpus that have a file, by default.
    timeout : seconds for a call.

    Raises
    ------
    LibraryError : the library is not there. ValueError : there is no such robot.
    """
    chosen = [robot(name) for name in robots() if names is None] if names is None else [*map(robot, names)]
    first = OtherPython(library, python, timeout)
    process: OtherPython | None = first
    about = first.about
    head = {
        "library": first.name,
        "version": about["version"],
        "python": about["python"],
        "date": datetime.now(UTC).date().isoformat(),
    }
    try:
        for each in chosen:
            if names is None and each.urdf is None and each.mjcf is None:
                continue
            if process is None:
                process = OtherPython(library, python, timeout)
            try:
                found = _audited(process, each)
            except NotGivenError as error:
                found = {"not given": shown(error, 400)}
            except (LibraryError, BlackBoxError, ValueError, TypeError, ArithmeticError) as error:
                found = {"refused": shown(" ".join(str(error).split()), 400)}
            if not process.alive:  # the next robot gets another one
                process.close()
                process = None
            yield head | {"robot": each.name, "feature": each.feature} | found
    finally:
        if process is not None:
            process.close()


def _audited(process: OtherPython, known: CorpusRobot) -> dict[str, Any]:
    """The audit of a robot, or why there is none."""
    files = {"urdf": None if known.base == "planar" else known.urdf, "mjcf": known.mjcf}
    path = next((files[form] for form in process.about["formats"] if files[form]), None)
    if path is None:
        return {"not given": f"{process.name} reads {' and '.join(process.about['formats']).upper()} files"}
    theirs = process.load(path, known.base == "floating" and path == known.urdf)
    layout = _layout(theirs, known)
    if isinstance(layout, str):
        return {"not given": layout}
    report = audit_robot(
        known,
        **{name: theirs.function(name) for name in QUANTITIES},  # type: ignore[arg-type]
        layout=layout,
        precision=theirs.precision,
    )
    found = report.to_dict()
    return found | {
        "layout": layout.name,
        "functions": theirs.functions,
        "notes": [*theirs.notes, *found["notes"]],
    }


def _layout(theirs: OtherRobot, known: CorpusRobot) -> Layout | str:
    """The layout of a library's robot, or why it is another robot."""
    joints = theirs.joints
    if known.base == "planar" and joints[:3] == _PLANE:
        joints = joints[3:]
    more, fewer = set(joints) - set(known.joints), set(known.joints) - set(joints)
    if fewer or len(joints) > len(set(joints)):
        return f"joints there: {', '.join(joints) or 'none'}"
    if more:
        return f"moves on its own there: {', '.join(sorted(more))}"
    if known.base == "floating":
        if not theirs.floating:
            return "no floating bases"
        return floating(**theirs.floating, joints=joints)
    return planar("world", "vw", joints=joints) if known.base == "planar" else fixed(joints)
