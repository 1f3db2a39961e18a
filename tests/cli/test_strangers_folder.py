"""Commands in a stranger's folder: no file of it runs, in no process that a command starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from strangers_folder import ENTRY, StrangersFolder

from connections import _children
from connections._children import python_command
from connections.multibody.program.warm_up import compile_and_report

DATA = Path(__file__).parents[1] / "data"
FIRST = ("connections", "sitecustomize", "usercustomize", "_winapi", "nt")
MODULE = [sys.executable, "-m", "connections.cli"]

#: A command of each kind, as short as it gets; FILE is a robot, and OUT a folder outside of the stranger's.
COMMANDS = {
    "help": "--version",
    "verify": "verify r.urdf --samples 1",
    "audit": "audit r.urdf --library pinocchio --samples 1",
    "audit of joints": "audit --joints revolute --library pinocchio --samples 1",
    "certify": "certify r.urdf --seconds 1",
    "generate": "generate r.urdf --functions gravity --out OUT/c",
    "sweep": "sweep table r.urdf --rows 4 --workers 1 --quantity gravity --output OUT/s.zarr",
    "figures": "figures OUT/figures",
    "explore": "explore --output OUT/figures",
    "demo": "demo OUT/demo --robot r.urdf --samples 1",
    "warm-up": "warm-up --processes 2",
}


@pytest.fixture
def strangers(tmp_path: Path) -> StrangersFolder:
    found = StrangersFolder(tmp_path)
    shutil.copy(DATA / "branched.urdf", found.path / "r.urdf")
    return found


def test_the_folder_is_dangerous(strangers: StrangersFolder) -> None:
    """The control: Python itself runs its files."""
    strangers.run(sys.executable, "-c", "import json")
    assert strangers.ran


def start(strangers: StrangersFolder, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program there, without the modules that Python itself imports before anything of ours.

    With ``-m`` these are some of its own, and for ``.pth`` files of other packages further ones.
    """
    first = "import runpy, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    started = subprocess.run([sys.executable, "-P", "-c", first], capture_output=True, text=True, check=True)
    for name in [*FIRST, *started.stdout.split()]:
        (strangers.path / f"{name}.py").unlink(missing_ok=True)
    assert (strangers.path / "typing.py").exists() and (strangers.path / "numpy.py").exists()
    return strangers.run(*words, **environment)


@pytest.mark.parametrize("how", ["its name", "as a module", "an empty entry of PYTHONPATH"])
def test_the_command_line_starts(how: str, strangers: StrangersFolder) -> None:
    words = MODULE if how == "as a module" else [str(ENTRY)]
    path = {"PYTHONPATH": f"{strangers.path.parent}:"} if how.startswith("an empty") else {}
    done = start(strangers, *words, "--version", **path)
    assert done.returncode == 0 and done.stdout.startswith("connections ")
    assert strangers.ran == []


def test_the_current_folder_is_searched_if_the_user_says_so(strangers: StrangersFolder) -> None:
    start(strangers, str(ENTRY), "--version", PYTHONPATH=str(strangers.path))
    assert "typing" in strangers.ran


@pytest.mark.further
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_anything(command: str, strangers: StrangersFolder, tmp_path: Path) -> None:
    words = [word.replace("OUT", str(tmp_path / "out")) for word in COMMANDS[command].split()]
    folder = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")} if command == "warm-up" else {}
    if command == "warm-up":  # the processes start; not all is compiled
        words = [sys.executable, "-c", _FEW]
        folder["PYTHONSAFEPATH"] = "1"  # of this process; those that it starts are asked
    else:
        words = [str(ENTRY), *words]
    done = strangers.run(*words, **folder)
    assert done.returncode in (0, 1), done.stderr
    assert strangers.ran == []


_OF_A_USER = "import numba; print(numba.config.CACHE_DIR, 'was read'); top = 1"


@pytest.mark.parametrize("words", [[str(ENTRY), "verify", "my.py:top"], python_command(compile_and_report)])
def test_numba_reads_no_settings_of_the_current_folder(words: list[str], tmp_path: Path) -> None:
    """Neither where a file that the user names imports it first, nor in a process that a command starts."""
    (tmp_path / "my.py").write_text(_OF_A_USER)
    (tmp_path / ".numba_config.yaml").write_text("nothing that Numba can read: [")
    run = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "yaml" in run([sys.executable, "-c", _OF_A_USER]).stderr  # the control
    done = run(words)
    assert "yaml" not in done.stderr and (done.returncode == 0 or "was read" in done.stdout), done.stderr


_COLOR = "import matplotlib; print(matplotlib.rcParams['axes.facecolor'])"
_LEFT_OUT = f"from connections import _figures; _figures.leave_out_the_current_folder(); {_COLOR}"


def test_figures_have_no_settings_of_the_current_folder(strangers: StrangersFolder) -> None:
    def color(program: str, **environment: str) -> str:
        done = strangers.run(sys.executable, "-P", "-c", program, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert (color(_COLOR), color(_LEFT_OUT)) == ("red", "white")
    settings = strangers.path / "matplotlibrc"
    settings.rename(strangers.path / "named")  # what the user names is used
    assert color(_LEFT_OUT, MATPLOTLIBRC="named") == "red"
    os.mkfifo(settings)  # which nobody writes to
    assert color(_LEFT_OUT) == "white"


def test_children_search_absolute_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    for name in ("PATH", "LD_LIBRARY_PATH", "CPATH"):
        monkeypatch.setenv(name, ":.:/usr/bin:")
    monkeypatch.setenv("PYTHONPATH", ":here:/there")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "code")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    found = _children.environment(EXTRA="1")
    assert [found[name] for name in ("PATH", "LD_LIBRARY_PATH", "CPATH", "EXTRA")] == [*["/usr/bin"] * 3, "1"]
    assert found["NUMBA_CACHE_DIR"] == f"{tmp_path}/code"
    assert found["PYTHONPATH"] == f"{tmp_path}/here:/there" and found["PYTHONSAFEPATH"] == "1"
    assert shutil.which("tool") and _children.program("tool") is None
    assert _children.program("./tool") == str(tool)  # which the user has named
    with _children.kept_from_the_current_folder():  # for browsers, and workers of Dask
        assert shutil.which("tool") is None and os.environ["PYTHONSAFEPATH"] == "1"
    assert os.environ["PATH"] == ":.:/usr/bin:" and "PYTHONSAFEPATH" not in os.environ
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _children.program("tool") == str(tool)


_FEW = """
import os
del os.environ["PYTHONSAFEPATH"]
from connections.multibody.program import warm_up
print(list(warm_up.compile_together(["gravity_at"], 1)))
"""
