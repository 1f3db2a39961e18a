"""Audits in child processes, so that a library that crashes, hangs or prints does not disturb the others.

The child is this module: it reads a request as JSON from its standard input, and writes a line of JSON per
audit to a file, so that finished audits survive a crash. Some compiled libraries also conflict with each
other in one process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from connections._children import end_of, environment, python_command
from connections.interop.libraries import LibraryError, joint_example

#: Seconds after which a child is stopped.
TIMEOUT = 1800.0


@dataclass(frozen=True)
class Request:
    """The request to a child.

    Parameters
    ----------
    library : "name" or "name:variant".
    robots : URDF files, or types of joints (`joint_example`) if `joints` is true; one audit each.
    floating_base, samples, seed : as for `audit_library`.
    """

    library: str
    robots: tuple[str, ...]
    joints: bool
    floating_base: bool
    samples: int
    seed: int


def audits_apart(request: Request, timeout: float = TIMEOUT) -> Iterator[dict[str, Any]]:
    """`LibraryAudit.to_dict()` of every robot of the request, computed in child processes.

    A robot without an audit has ``{"library", "subject", "error"}``, the error in one line: the library
    cannot read the robot, or it crashed. After a crash, another child audits the next robots.

    Parameters
    ----------
    request : the library and the robots.
    timeout : seconds for a child.
    """
    left = list(request.robots)
    while left:
        with tempfile.TemporaryDirectory(prefix="connections_audit_") as folder:
            results = Path(folder) / "results"
            robots = left if request.joints else [*map(os.path.abspath, left)]
            reason = _child(asdict(request) | {"robots": robots}, results, timeout)
            text = results.read_text() if results.exists() else ""
            lines = text[: text.rfind("\n") + 1].splitlines()  # it may have been stopped within one
        for line in lines:
            yield json.loads(line)
        left = left[len(lines) :]
        if left and reason:
            yield _failure(request.library, left.pop(0), request.joints, reason)


def _child(request: dict[str, Any], results: Path, timeout: float) -> str:
    """Run a child; returns why it did not finish, or an empty text."""
    with tempfile.TemporaryFile() as errors:  # what libraries print is not held in memory
        try:
            done = subprocess.run(
                python_command(serve, str(results)),
                input=json.dumps(request).encode(),
                cwd=results.parent,  # the libraries read settings, and write logs, in their current folder
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            return f"took more than {timeout:g} s"
        return end_of(done.returncode, errors) if done.returncode else ""


def _failure(library: str, robot: str, joints: bool, reason: str) -> dict[str, Any]:
    subject = robot if joints else Path(robot).stem
    return {"library": library, "subject": subject, "error": reason}


def serve() -> None:
    """The child: run the request from standard input; its argument is the file of results."""
    _serve(Path(sys.argv[1]))


def _serve(results: Path) -> None:
    from connections.interop.library_audit import audit_aloud

    warnings.simplefilter("ignore")
    request = Request(**json.load(sys.stdin))
    with results.open("w") as file:
        for robot in request.robots:
            try:
                subject = joint_example(robot, request.floating_base) if request.joints else robot
                audit = audit_aloud(
                    subject,
                    request.library,
                    floating_base=request.floating_base,
                    samples=request.samples,
                    seed=request.seed,
                )
                result = audit.to_dict()
            except (ValueError, ArithmeticError) as error:
                reason = " ".join(str(error).split())
                result = _failure(request.library, robot, request.joints, reason)
            file.write(json.dumps(result, allow_nan=False) + "\n")
            file.flush()


def require_readable(robots: Sequence[str], floating_base: bool) -> None:
    """Raise the error of a URDF file that is not valid, before any library reads it.

    Raises
    ------
    ModelError : see `multibody.from_urdf`; LibraryError : loops, which no other library reads from a URDF.
    """
    from connections import multibody as mb
    from connections.multibody.description.xml import read_root

    for robot in robots:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mb.from_urdf(robot, floating_base)
        root = read_root(Path(robot), "robot", "a URDF")
        if root.find("loop") is not None or root.find("coupling") is not None:
            raise LibraryError(f"{robot}: URDF+ loops and couplings are read by this library only")
