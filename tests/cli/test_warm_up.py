"""connections warm-up: afterwards nothing is left to compile."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from connections import cli
from connections import multibody as mb
from connections.engines import disk_cache, shipped_code
from connections.multibody.program import warm_up
from connections.multibody.program.compiled_functions import compiled

FEW = ["gravity_at", "mass_matrix_at"]
WARM_UP = """
import json, sys
from connections.multibody.program import warm_up
first = warm_up.not_compiled()
done = list(warm_up.compile_together(json.loads(sys.argv[1]), 2))
print(json.dumps([first, done, warm_up.not_compiled(), str(warm_up.cache_folder(first))]))
"""
GRAVITY = """
import numpy as np
from connections import multibody as mb
print(mb.gravity(mb.example("arm"), np.zeros(6)).shape)
"""


def run(cache: Path, *words: str) -> tuple[str, str]:
    environment = {k: v for k, v in os.environ.items() if k != "CONNECTIONS_QUIET"}
    environment |= {"NUMBA_CACHE_DIR": str(cache)}
    words = (sys.executable, *words)
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    return done.stdout, done.stderr


def kept(cache: Path) -> dict[Path, int]:
    """The files of machine code, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb*")}


@pytest.mark.further
def test_nothing_is_left_to_compile(tmp_path: Path) -> None:
    """Neither for a first call nor for a second warm-up; the control is a function that was not compiled."""
    output, _ = run(tmp_path, "-c", WARM_UP, json.dumps(FEW))
    first, done, left, folder = json.loads(output)
    assert sorted(first) == sorted(compiled.names)
    assert sorted(done) == FEW
    assert set(first) - set(left) == set(FEW)
    files = kept(tmp_path)
    assert len(files) == 2 * len(FEW) and {path.parent for path in files} == {Path(folder)}
    assert run(tmp_path, "-c", GRAVITY) == ("(6,)\n", "")
    assert kept(tmp_path) == files
    _, said = run(
        tmp_path,
        "-c",
        GRAVITY.replace("gravity", "inverse_dynamics").replace("(6)", "(6), *[np.zeros(6)] * 2"),
    )
    assert "inverse_dynamics" in said
    assert len(kept(tmp_path)) == len(files) + 2


@pytest.mark.further
def test_the_command_shows_progress_and_where_the_cache_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # of the processes that compile
    monkeypatch.setattr(warm_up, "not_compiled", lambda: FEW)
    monkeypatch.setattr(warm_up, "cache_folder", lambda missing: tmp_path)
    assert cli.main(["warm-up", "--processes", "2"]) == 0
    output = capsys.readouterr().out
    lines = output.splitlines()
    assert all(any(name[:-3] in line for line in lines) for name in FEW)
    assert max(len(line.replace(str(tmp_path), "")) for line in lines) <= 80
    assert str(tmp_path) in output
    assert len(kept(tmp_path)) == 2 * len(FEW)


def test_where_all_is_compiled_no_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warm_up, "not_compiled", list)
    monkeypatch.setattr(warm_up, "cache_folder", lambda missing: tmp_path)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert cli.main(["warm-up"]) == 0
    assert str(tmp_path) in capsys.readouterr().out
    assert mb.warm_up() == tmp_path


def test_a_folder_is_asked_for_where_something_is_missing_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = Path(shipped_code.__file__).with_name(shipped_code.FOLDER)
    folders = {"none": None, "empty": tmp_path / "empty", "used": tmp_path}
    folders["empty"].mkdir()
    for name, folder in folders.items():
        monkeypatch.setattr(disk_cache, "machine_code_folder", lambda folder=folder: folder)
        assert warm_up.cache_folder([]) == (tmp_path if name == "used" else shipped)
        if folder is not None:
            assert warm_up.cache_folder(FEW) == folder


def test_a_process_that_ends_early_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(ChildProcessError, match="process"):
        list(warm_up.compile_together(FEW, 2))


def test_no_folder_that_can_be_written_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(disk_cache, "machine_code_folder", lambda: None)
    monkeypatch.setattr(warm_up, "not_compiled", lambda: FEW)
    with pytest.raises(OSError, match="NUMBA_CACHE_DIR"):
        mb.warm_up()
    assert cli.main(["warm-up"]) == 2
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", True])
def test_processes_are_a_positive_whole_number(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError), match="processes"):
        mb.warm_up(processes=wrong)


def test_every_function_has_a_place_and_no_process_is_idle() -> None:
    names = sorted(compiled.names)
    for processes in (1, 2, 5):
        shares = warm_up._names_for_each(names, processes)
        assert sum(shares, []) == names and len(shares) == processes
        assert (
            warm_up.seconds_to_compile(names, processes)
            < 1.5 * warm_up.seconds_to_compile(names, 1) / processes
        )
    assert warm_up._names_for_each([], 2) == [] and warm_up.seconds_to_compile([], 2) == 0.0
