"""A program that runs commands on pseudo-terminals and with pipes, and prints what they print, as JSON.

Its argument is a JSON list of [columns, words]: a terminal of so many columns, or pipes where that is 0. What
takes long is replaced: measurements by rows of all propositions, audits and sweeps by results with long
words.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from connections import cli, plots, sweeps, verify
from connections.checks import Check
from connections.cli import progress
from connections.control.tracking_example import explore
from connections.interop import libraries, library_runs

LONG = "a_name_that_is_much_longer_than_any_column_that_it_may_get"
MEASURES = (
    "rms_error", "final_error", "effort", "peak_force", "zero_crossings", "rms_frequency", "high_frequency",
)  # fmt: skip


def rows(subject: verify.AnySubject, tol: float, advance: Callable[[verify.Row], None]) -> list[verify.Row]:
    """A row for each proposition; one does not hold, and one has no control that fails."""
    found = []
    for item in verify.applicable(subject):
        residual, control = {"(9)": (2.5e-3, 0.3), "(8)": (1e-13, 1e-4)}.get(item.key, (1e-13, 0.25))
        checks = [Check(item.key, number, 1.0, tol) for number in (residual, control)]
        found.append(verify.Row(subject.name, item.key, item.statement, *checks, 0.1))
        advance(found[-1])
        time.sleep(0.002)
    return found


def audits(request: library_runs.Request) -> Iterator[dict[str, Any]]:
    for robot in request.robots:
        same = {"ok": False, "relative": 1e-3}
        fault = {"kinds": ["revolute", "universal"], "joints": [LONG, "elbow"], "relative": 0.5}
        numbers = {"residual": 1e-3, "scale": 1.0, "noise": None}
        yield {
            "library": request.library,
            "version": "1.2.3",
            "variant": "mimic",
            "function": "computeCoriolisMatrix",
            "dofs": 7,
            "subject": Path(robot).stem,
            "notes": [f"{LONG} is a mimic joint"],
            "same_robot": same,
            "recursion": same,
            "kind": "inadmissible",
            "admissible": False,
            "summary": "This matrix is not admissible. " * 5,
            "checks": {
                "metric_compatible": {"verdict": "not applicable", "meaning": "skew for every v " * 6}
                | numbers
            },
            "faults": [fault | {"property": name} for name in ("skew", "torsion_free", "metric_compatible")],
        }


class Store:
    """A store of two arrays with one number for each row."""

    path = "a/folder"

    def __init__(self, path: Any) -> None:
        values = np.linspace(-123456.789, 98765.4321, 90)
        self.arrays = {LONG: values, "christoffel_largest": values}


def run_sweep(sweep: sweeps.Sweep, path: Any, progress: Callable[..., None], **_: Any) -> sweeps.Summary:
    flaw = "'q' cannot be read, and why is said at some length, as is the way of errors of others"
    progress(SimpleNamespace(number=0, flaw=flaw), sweep.chunks)
    return sweeps.Summary(Path("a/folder"), sweep.chunks, (0,), {0: flaw}, 3, 1, (0.0, 0.0, 0.0))


def replace() -> None:
    """Put the quick ones in the place of what takes long."""
    results = explore([0.0, -5.0], horizon=0.2)
    summary: dict[str, Any] = {"robot": LONG, "torsion": -10.0, "motions": 100, "lost": 3}
    summary |= dict.fromkeys(MEASURES, -1.2345e-10)
    proposition = sweeps.PropositionSummary(
        "Prop III.1 only if", "a statement", 1000, 12, 1e-3, 123456, 1e-12, 1e-3, 34
    )
    written = [Path("figure.png")]
    for place, name, value in (
        (verify, "verify_subject", rows),
        (library_runs, "audits_apart", audits),
        (libraries, "installed_libraries", lambda: ["pinocchio", "idyntree:inertial"]),
        (sweeps, "Store", Store),
        (sweeps, "run_sweep", run_sweep),
        (sweeps, "contorsion_summary", lambda store: [summary]),
        (sweeps, "proposition_summary", lambda store: [proposition]),
        (plots, "write_all", lambda folder: (written, results)),
        (plots, "write_exploration", lambda folder, betas: (written, results)),
        (plots, "write_figures", lambda folder: written),
        (progress, "EVERY", 0.01),
    ):
        assert hasattr(place, name), name
        setattr(place, name, value)


def printed(columns: int, words: list[str]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error; a terminal has one for both."""
    pairs = [pty.openpty()] if columns else [os.pipe(), os.pipe()]
    writers = [pairs[0][1], pairs[0][1]] if columns else [writer for _, writer in pairs]
    if columns:
        fcntl.ioctl(writers[0], termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    texts = [""] * 2
    threads = [
        threading.Thread(target=lambda number=number, pair=pair: texts.__setitem__(number, read(pair[0])))
        for number, pair in enumerate(pairs)
    ]
    own = [os.dup(number) for number in (0, 1, 2)]
    for number, writer in zip(
        (0, 1, 2), ([writers[0]] if columns else [os.open(os.devnull, 0)]) + writers, strict=True
    ):
        os.dup2(writer, number)
    for writer in {*writers}:
        os.close(writer)
    for thread in threads:
        thread.start()
    try:
        status: Any = cli.main(words)
    except SystemExit as exit:
        status = exit.code
    finally:
        sys.stdout.flush()
        for number, descriptor in enumerate(own):
            os.dup2(descriptor, number)
            os.close(descriptor)
    for thread in threads:
        thread.join()
    return status, *texts  # type: ignore[return-value]


def read(descriptor: int) -> str:
    """All that is written; a terminal that nobody has open any more is an error."""
    parts = []
    while True:
        try:
            parts.append(os.read(descriptor, 65536))
        except OSError:
            parts.append(b"")
        if not parts[-1]:
            os.close(descriptor)
            return b"".join(parts).decode()


if __name__ == "__main__":
    replace()
    print(json.dumps([printed(*case) for case in json.loads(sys.argv[1])]))
