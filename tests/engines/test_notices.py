"""What takes seconds says so, once, in a line; not from the cache, and not if the caller does not want it."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from connections.engines.notices import NOTICEABLE, announce_callbacks, announce_compilation
from connections.multibody.program import compiled_functions as functions

COLUMNS = 80
PENDULUMS = """
import numpy as np
from connections import multibody as mb
for length in (0.5, 1.0):
    mechanism = mb.Mechanism()
    mechanism.add_body("bob", mass=2.0, center_of_mass=(0, 0, -length), inertia=np.eye(3) / 100)
    mechanism.add_joint("pivot", "world", "bob", mb.Revolute((0, 1, 0)))
    model = mechanism.build()
    assert abs(mb.gravity(model, np.array([0.3]))[0] - 2 * 9.81 * length * np.sin(0.3)) < 1e-12
"""


def said(cache: Path, program: str = PENDULUMS, **variables: str) -> list[str]:
    """The lines on standard error of a new process with this cache."""
    environment = {k: v for k, v in os.environ.items() if k != "CONNECTIONS_QUIET"} | variables
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment | {"NUMBA_CACHE_DIR": str(cache)},
        cwd=cache.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()


@pytest.mark.further
def test_a_first_call_says_once_that_it_compiles_and_a_second_process_says_nothing(tmp_path: Path) -> None:
    (line,) = said(tmp_path / "cache")
    assert "gravity" in line and f"{functions.seconds('gravity_at')} s" in line and len(line) <= COLUMNS
    assert said(tmp_path / "cache") == []


@pytest.mark.further
def test_silence_by_the_variable(tmp_path: Path) -> None:
    assert said(tmp_path / "cache", CONNECTIONS_QUIET="1") == []
    assert list((tmp_path / "cache").rglob("*gravity_at*.nbc"))  # the control: it has compiled


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    monkeypatch.delenv("CONNECTIONS_QUIET", raising=False)
    return caplog


def test_silence_by_the_logger(heard: pytest.LogCaptureFixture) -> None:
    for level, count in ((logging.WARNING, 1), (logging.ERROR, 0)):
        heard.clear()
        with heard.at_level(level, "connections"):
            announce_compilation("it", 7.0)
        assert len(heard.messages) == count


def test_what_takes_less_is_not_said(heard: pytest.LogCaptureFixture) -> None:
    announce_compilation("it", 0.9 * NOTICEABLE)
    assert heard.messages == []
    announce_compilation("it", NOTICEABLE)
    assert len(heard.messages) == 1


def test_every_function_has_a_line_of_its_own(heard: pytest.LogCaptureFixture) -> None:
    names = functions.compiled.names
    for name in names:
        announce_compilation(functions.description(name), max(functions.seconds(name), NOTICEABLE))
    assert len(set(heard.messages)) == len(names)
    assert max(map(len, heard.messages)) <= COLUMNS


def test_callbacks_are_said_with_their_reason_or_not_at_all(
    heard: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce_callbacks("another header")
    assert len(heard.messages) == 1 and "another header" in heard.messages[0]
    monkeypatch.setenv("CONNECTIONS_QUIET", "1")
    announce_callbacks("another header")
    assert len(heard.messages) == 1
