"""What the commands print has at most 80 columns: in a terminal of 80 columns, and through a pipe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from robots import robot_path

ARM = str(robot_path("ur5"))
NAMES = (
    "verify",
    "audit",
    "audit-filter",
    "certify",
    "explore",
    "figures",
    "sweep",
    "generate",
    "warm-up",
    "demo",
)
SWEEPS = ("sweep table", "sweep contorsion", "sweep propositions")
#: Commands, and the exit status of what `printed_columns` has them find.
COMMANDS: dict[tuple[str, ...], int] = {
    ("demo", "DIR", "--robot", ARM): 1,
    ("verify",): 1,
    ("verify", "--by-system", "--controls"): 1,
    ("verify", "--controls", "--system", "heisenberg-particle", "--system", "chaplygin-sleigh"): 0,
    ("verify", ARM, "--json", "DIR/r.json"): 1,
    ("audit", ARM): 1,
    ("audit", "--joints", "spherical-zyx", "universal", "--json", "DIR/a.json"): 1,
    ("certify", ARM, "--seconds", "3", "--json", "DIR/c.json"): 0,
    ("explore", "--output", "DIR"): 0,
    ("figures", "DIR"): 0,
    ("generate", ARM, "--functions", "coriolis_matrix", "--out", "DIR/c"): 0,
    ("sweep", "table", ARM, "--rows", "5", "--output", "DIR/s"): 0,
    ("sweep", "contorsion", "--starts", "2", "--output", "DIR/s"): 0,
    ("sweep", "propositions", "--system", "sphere", "--points", "2", "--output", "DIR/s"): 1,
    **{
        (*command.split(), "--help"): 0
        for command in ("", *NAMES, *SWEEPS)
    },
}  # fmt: skip
pytestmark = pytest.mark.further  # all commands run, in a process of their own
Printed = dict[tuple[int, tuple[str, ...]], tuple[int, str, str]]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    """(columns, words) -> exit status, output, errors; for pipes, and for terminals of 80 and 132 columns."""
    folder = tmp_path_factory.mktemp("c")
    cases = [(columns, words) for columns in (0, 80, 132) for words in COMMANDS]
    short = [(columns, [word.replace("DIR", ".") for word in words]) for columns, words in cases]
    program = Path(__file__).parents[1] / "support" / "printed_columns.py"
    unset = {"COLUMNS", "NO_COLOR", "FORCE_COLOR", "CONNECTIONS_QUIET", "TTY_COMPATIBLE"}
    here = {name: value for name, value in os.environ.items() if name not in unset} | {"TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, str(program), json.dumps(short)],
        cwd=folder,
        env=here,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(cases, json.loads(done.stdout), strict=True))


def longest(text: str) -> str:
    """The longest line as a person sees it: what a bar draws over itself counts as lines of its own."""
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text))
    return max(lines, key=len)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: Path(" ".join(words)).name)
@pytest.mark.parametrize("columns", [0, 80], ids=["pipe", "terminal"])
def test_no_line_has_more_than_80_columns(printed: Printed, columns: int, words: tuple[str, ...]) -> None:
    status, output, errors = printed[columns, words]
    assert status == COMMANDS[words], output + errors
    assert "Traceback" not in output + errors and len(output) > 20
    for text in (output, errors):
        assert len(longest(text)) <= 80, longest(text)
    assert "…" not in output  # nothing is cut


@pytest.mark.parametrize("command", ["verify", "audit", "sweep contorsion"])
def test_a_wider_terminal_shows_more(printed: Printed, command: str) -> None:
    """And the longest line of these is found."""
    words = next(words for words in COMMANDS if " ".join(words).startswith(command) and "--help" not in words)
    more = {"verify": "what is compared", "audit": "noise", "sweep contorsion": "high_frequency"}[command]
    _, output, _ = printed[132, words]
    assert 80 < len(longest(output)) <= 132 and more in output
    for columns in (0, 80):
        assert more not in printed[columns, words][1]


def test_what_the_narrow_tables_lack_is_in_the_file(
    printed: Printed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = next(tmp_path_factory.getbasetemp().glob("c*"))
    rows = json.loads((folder / "r.json").read_text())["rows"]
    assert all({"residual", "scale"} <= set(row["check"]) and row["statement"] for row in rows)
    (check,) = json.loads((folder / "a.json").read_text())[0]["checks"].values()
    assert {"residual", "scale", "noise", "meaning"} <= set(check)
    table = (folder / "propositions.txt").read_text()
    for row in rows:
        assert row["proposition"] in table


def test_errors_are_not_mixed_with_the_output(printed: Printed) -> None:
    """Progress is on stderr; on a terminal a bar, through a pipe lines."""
    _, output, errors = printed[0, ("verify",)]
    counted = re.search(r"^connections: .*: \d+ of (\d+) checks, \d+ s$", errors, re.MULTILINE)
    assert counted and f"of {counted[1]} checks, " not in output and "\x1b" not in output + errors
    _, both, _ = printed[80, ("verify",)]
    assert "━" in both and f"of {counted[1]} checks, " in both
