"""What a command says on stderr while it works: on a pipe, on a terminal, and not at all."""

from __future__ import annotations

import io
import sys
import threading
import time

import pytest

from connections.cli import progress
from connections.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def work(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, steps: int = 3) -> str:
    """What is written to `stream` during steps that take longer than two lines are apart."""
    monkeypatch.setattr(progress, "EVERY", 0.02)
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.progress(steps, "checks", "sphere") as shown:
        for number in range(steps):
            shown.now(f"sphere: step {number}")
            time.sleep(0.3)
            shown.advance()
    return stream.getvalue()


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECTIONS_QUIET", "FORCE_COLOR", "COLUMNS", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_on_a_pipe_lines_say_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also during a step: each takes longer than two lines are apart."""
    lines = work(monkeypatch, io.StringIO()).splitlines()
    for number in range(3):
        assert any(
            line.startswith(f"connections: sphere: step {number}: {number} of 3 checks, ") for line in lines
        )
    assert len(lines) > 6 and all(line.endswith(" s") for line in lines)


def test_nothing_is_written_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    before = threading.active_count()
    written = work(monkeypatch, stream)
    assert threading.active_count() == before
    time.sleep(0.1)
    assert stream.getvalue() == written


def test_a_terminal_has_a_bar_that_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    written = work(monkeypatch, Terminal())
    assert "━" in written and "step 1: 1 of 3 checks" in written and "connections:" not in written
    assert written.rstrip("\r").endswith("\x1b[2K")  # the line is erased


def test_a_dumb_terminal_has_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    written = work(monkeypatch, Terminal())
    assert "connections: sphere: step 1: 1 of 3 checks" in written and "\x1b" not in written


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_quiet(monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO]) -> None:
    monkeypatch.setenv("CONNECTIONS_QUIET", "1")
    assert work(monkeypatch, stream()) == ""
    monkeypatch.setenv("CONNECTIONS_QUIET", "0")  # the control
    assert work(monkeypatch, stream()) != ""


def test_an_output_that_nobody_reads_stops_no_work(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    work(monkeypatch, Broken())
    assert not recwarn.list  # no exception in a thread


def test_an_error_in_the_work_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error), progress.progress(1, "steps", "work"):
            raise error


def test_a_long_text_is_cut_before_the_numbers() -> None:
    steps = Progress(200, "checks")
    steps.now("a system with quite a long name, " * 5)
    line = steps.line(60)
    assert len(line) == 60 and line.endswith(": 0 of 200 checks, 0 s")
