"""What the command line says of rows that hold, are inconclusive, or do not hold; no system is measured."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from connections import cli, verify
from connections.checks import Check
from connections.verify import Row

NAN = float("nan")
HOLDS, INCONCLUSIVE, FAILS = (1e-12, 0.5), (1e-12, 3e-4), (1e-3, 0.5)


def row(key, residual, control):
    """A row about the sphere."""
    return Row(
        "sphere",
        key,
        "one thing is another",
        Check(key, residual, 1.0, 1e-9),
        Check(key, control, 1.0, 1e-9),
        0.1,
        25,
    )


@pytest.fixture
def report(monkeypatch, tmp_path, capsys):
    """Runs the command on given rows: exit status, what is printed, the JSON."""

    def run(rows, *words):
        monkeypatch.setattr(verify, "verify_subject", lambda *_: rows)
        file = tmp_path / "report.json"
        status = cli.main(["verify", "--system", "planar-body", "--json", str(file), *words])
        return status, capsys.readouterr().out, json.loads(file.read_text())["rows"]

    return run


def paragraph(printed):
    """What was printed, wherever its lines are broken."""
    return " ".join(printed.split())


@pytest.mark.parametrize(
    ("measured", "status"),
    [
        ([HOLDS, HOLDS], 0),
        ([HOLDS, INCONCLUSIVE], 3),
        ([HOLDS, FAILS], 1),
        ([INCONCLUSIVE, FAILS], 1),
        ([HOLDS, (NAN, 0.5)], 1),
        ([HOLDS, (1e-12, NAN)], 3),
        ([HOLDS, (float("inf"), 0.5)], 1),
    ],
)
def test_exit_status(report, measured, status):
    """A weak control denies nothing, and is no success; infinities and NaN can be written."""
    found, printed, rows = report([row(f"({k})", *numbers) for k, numbers in enumerate(measured)])
    assert found == status
    residuals, controls = zip(*measured, strict=True)
    printed = paragraph(printed)
    assert f"largest relative residual {np.max(residuals):.1e}" in printed
    assert f"smallest negative control {np.min(controls):.1e}" in printed
    assert [part["ok"] for part in rows] == [numbers == HOLDS for numbers in measured]


def test_a_weak_control_is_inconclusive_and_says_why(report):
    status, printed, rows = report([row("(8)", *INCONCLUSIVE), row("(9)", *HOLDS)])
    printed = paragraph(printed)
    assert status == 3 and "does not hold" not in printed.lower()
    assert (
        "INCONCLUSIVE on sphere: (8), one thing is another. The residual is within the tolerance" in printed
    )
    assert "strongest of 25 negative controls is 3.0e-04" in printed and "could not have failed" in printed
    assert "1 of 2 checks hold (inconclusive: 1)" in printed
    assert [part["verdict"] for part in rows] == ["inconclusive", "holds"]
    assert rows[0]["reason"].startswith("The residual is within") and rows[1]["reason"] == ""
    assert rows[0]["control"] == {"relative": 3e-4, "fails_as_it_should": False, "draws": 25}


def test_what_does_not_hold_is_said_first(report):
    status, printed, _ = report([row("(8)", *INCONCLUSIVE), row("(9)", *FAILS)])
    printed = paragraph(printed)
    assert status == 1 and printed.index("DOES NOT HOLD on sphere: (9)") < printed.index(
        "INCONCLUSIVE on sphere"
    )
    assert "residual 1.00e-03" in printed and "(does not hold: 1) (inconclusive: 1)" in printed


def test_the_table_of_a_narrow_terminal(report, monkeypatch):
    """In 80 columns keys, systems, relative residuals, verdicts and controls are all there, uncut."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    keys = ["Prop III.1 only if", "Z Thm 3.2 functions", "(8)"]
    rows = [row(key, *numbers) for key, numbers in zip(keys, (HOLDS, INCONCLUSIVE, FAILS), strict=True)]
    rows = [replace(each, subject="heisenberg-particle") for each in rows]
    _, printed, _ = report(rows, "--controls", "--system", "planar-body")
    table = re.sub(r"\x1b\[[0-9;]*m", "", printed).split("What is compared")[0].splitlines()
    assert all(len(line) <= 80 for line in table) and "…" not in "".join(table)
    for key, words in zip(
        keys,
        ("1.0e-12 holds 5.0e-01", "1.0e-12 inconclusive 3.0e-04", "1.0e-03 does not hold 5.0e-01"),
        strict=True,
    ):
        (line,) = [line for line in table if line.split("  ")[0].strip() == key]
        assert " ".join(line.split()).endswith(words)
