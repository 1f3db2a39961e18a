"""Pipes that end, an output that is closed or full, Ctrl-C, and folders that cannot be written."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from connections import certified, cli
from connections.plots import paper

PROGRAM = """
import json, os, sys
import rich.table
from connections.cli import COMMANDS, figures, main, printing

def table(options):
    printing._print_table("a table by rich", [], True, True)
    return 0

def long(options):
    for number in range(100_000):
        print(number)
    return 0

def elsewhere(options):
    print("text")
    raise BrokenPipeError(32, "of a connection to another machine")

def child(output, run, errors):
    "What the command does in a process whose output is a pipe without a reader, a full disk, or closed."
    if output == "closed":
        sys.stdout = None
    else:
        reader, writer = os.pipe() if output == "pipe" else (None, os.open(output, os.O_WRONLY))
        if reader is not None:
            os.close(reader)
        os.dup2(writer, 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
    figures.run = run
    sys.exit(main(["figures", "."] if run else ["--help"]))

found = {}
runs = {"pipe": (None, long, table, elsewhere), "/dev/full": (None, long), "closed": (None, table)}
for output, commands in (runs | {"/dev/null": (elsewhere,)}).items():
    for run in commands:
        errors = f"{output.strip('/').replace('/', '-')}-{run.__name__ if run else 'help'}"
        process = os.fork()
        if process == 0:
            child(output, run, errors)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        found[errors] = status, open(errors).read()
print(json.dumps(found))
"""


def environment(**more: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"} | more


@pytest.mark.further
def test_an_output_that_nobody_reads_ends_quietly(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    assert len(found) == 9
    quiet = {"pipe": (141, ""), "closed": (0, ""), "dev-null": (0, "")}
    for name, (status, errors) in found.items():
        output, _, command = name.rpartition("-")
        if output == "dev-full":
            assert status == 2 and "No space left" in errors and "Traceback" not in errors, name
        elif command == "elsewhere" and output != "pipe":  # the control: it is not about the output
            other = "connections: error: [Errno 32] of a connection to another machine\n"
            assert (status, errors) == (2, other), name
        else:
            assert (status, errors) == quiet[output], name


def test_a_closed_output_is_no_error() -> None:
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "connections.cli", "--version"],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize("started", ["by its name", "as a module", "by another program"])
def test_ctrl_c_during_the_import_is_one_line(tmp_path: Path, started: str) -> None:
    """JAX is replaced by something that takes long. The control is a program that imports the library."""
    (tmp_path / "libraries").mkdir()
    slow = "import time\nprint('importing', flush=True)\ntime.sleep(60)\n"
    (tmp_path / "libraries" / "jax.py").write_text(slow)
    script = tmp_path / ("connections" if started == "by its name" else "another")
    script.write_text("from connections.cli import main\nmain()\n")
    words = ["-m", "connections.cli"] if started == "as a module" else [str(script)]
    path = os.pathsep.join([str(tmp_path / "libraries"), str(Path(cli.__file__).parents[2])])
    with subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, *words, "--version"],
        env=environment(PYTHONPATH=path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout.readline() == "importing\n"
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=30)
    if started == "by another program":
        assert "Traceback" in errors and "KeyboardInterrupt" in errors
    else:
        assert (running.returncode, errors) == (130, "connections: interrupted\n")


@pytest.mark.parametrize(
    "words", [["figures"], ["demo"], ["explore", "--output"], ["sweep", "table", "--output"]]
)
def test_a_folder_without_a_name_is_refused(words: list[str], capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([*words, ""])
    assert end.value.code == 2 and "expected the name of a folder, got ''" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["figures"], ["demo"], ["explore", "--output"]])
def test_a_folder_that_cannot_be_written_is_reported_before_any_work(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def work(*_: object) -> None:
        raise AssertionError("it works before it knows where to write")

    monkeypatch.setattr(paper, "explore", work)
    monkeypatch.setattr("connections.verify.built_in_subjects", work)
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/figures")):
        assert cli.main([*words, str(folder)]) == 2
        output = capsys.readouterr()
        assert f"cannot write to {folder}" in output.err and output.err.count("\n") == 1 and not output.out
    with pytest.raises(AssertionError, match="before it knows"):  # the control: a folder that can be made
        cli.main([*words, str(tmp_path / "new" / "folder")])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize("file", ["-", "./-"])
def test_a_result_on_standard_output_is_alone_there(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    """What is printed comes to standard error; the control is a file of that name."""
    monkeypatch.chdir(tmp_path)
    found = certified.Constants({"reach": certified.Interval(1.0, 1.1, "m")})
    monkeypatch.setattr(certified, "constants", lambda *_, **__: found)
    assert cli.main(["certify", "arm", "--json", file]) == 0
    output = capfd.readouterr()
    text, table = (output.out, output.err) if file == "-" else (Path(file).read_text(), output.out)
    assert json.loads(text)["constants"]["reach"]["upper"] == 1.1
    assert "reach" in table and "lower" in table
    assert os.listdir() == ([] if file == "-" else ["-"])


@pytest.mark.parametrize("words", [["verify"], ["audit"], ["audit-filter", "x.py"], ["audit", "--corpus"]])
def test_other_commands_have_it_too(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    places = []

    def run(options: argparse.Namespace) -> int:
        places.append((sys.stdout, options.json))
        return 0

    monkeypatch.setattr(sys.modules[f"connections.cli.{words[0].replace('-', '_')}"], "run", run)
    out, err = sys.stdout, sys.stderr
    for file in ("-", "/dev/stdout"):
        assert cli.main([*words, "--json", file]) == 0
    assert places == [(err, Path("/dev/fd/1")), (out, Path("/dev/stdout"))]
    if words[-1] == "--corpus":
        assert cli.main(["audit", "--markdown", "-"]) == 0 and places[-1][0] is err


def test_a_report_that_cannot_be_written_is_reported_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert cli.main(["verify", "--json", "/proc/report.json"]) == 2
    assert "cannot write to /proc" in capsys.readouterr().err
