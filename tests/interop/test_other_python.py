"""A library in another interpreter: numbers arrive as they are; what goes wrong is said in a line."""

import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from connections.interop import other_python
from connections.interop.adaptors import ADAPTORS, RUNNER
from connections.interop.libraries import LibraryError
from connections.interop.other_python import NotGivenError, OtherPython

PENDULUM = """
import os, time
import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "numpy", "numpy", ("urdf",)
print("what a library prints while it is imported")


def load(path, floating):
    print("and while it reads")
    if "fish" in path:
        raise NotImplementedError("no fins")
    if "stone" in path:
        raise ValueError("a stone\\nhas no joints")
    os.write(1, b"and from compiled code")

    def bias(q, v):
        match q[0]:
            case 1.0:
                raise ZeroDivisionError
            case 2.0:
                os.abort()
            case 3.0:
                time.sleep(60)
            case 4.0:
                os._exit(3)
        return (np.array([v[0] * v[1], q[0]]) * np.pi).astype(np.float32)

    return {
        "joints": ["shoulder", "elbow"],
        "floating": {"order": "vw"} if floating else {},
        "precision": "float32",
        "mass_matrix": lambda q: np.array([None, 1]) if q[0] == 5.0 else np.outer(q, q).T,
        "bias": bias,
        "notes": ["it is a pendulum"],
    }
"""


@pytest.fixture
def adaptor(tmp_path: Path) -> str:
    path = tmp_path / "pendulum.py"
    path.write_text(PENDULUM)
    return str(path)


def test_numbers_arrive_as_they_are(adaptor: str) -> None:
    q, v = np.array([0.1, 1 / 3]), np.array([-2.5, 1e-300])
    with OtherPython(adaptor, sys.executable) as python:
        assert python.name == "pendulum" and python.about["version"] == np.__version__
        robot = python.load("arm.urdf")
        assert robot.joints == ("shoulder", "elbow") and robot.floating == {}
        assert robot.precision == "float32" and robot.notes == ("it is a pendulum",)
        assert robot.given == ("mass_matrix", "bias") and robot.function("coriolis") is None
        H, c = robot.function("mass_matrix"), robot.function("bias")
        assert np.array_equal(H(q), np.outer(q, q)) and H(q).dtype == np.float64
        expected = (np.array([v[0] * v[1], q[0]]) * np.pi).astype(np.float32)
        assert np.array_equal(c(q, v), expected) and c(q, v).dtype == np.float32
        assert np.array_equal(c(q[::-1], v), (np.array([v[0] * v[1], q[1]]) * np.pi).astype(np.float32))
        assert python.load("arm.urdf", floating=True).floating == {"order": "vw"}


def test_what_it_refuses_is_said_and_the_next_call_works(adaptor: str) -> None:
    with OtherPython(adaptor) as python:
        with pytest.raises(LibraryError, match="^pendulum refuses: ValueError: a stone has no joints$"):
            python.load("stone.urdf")
        with pytest.raises(NotGivenError, match="^no fins$"):
            python.load("fish.urdf")
        c = python.load("arm.urdf").function("bias")
        with pytest.raises(LibraryError, match="^pendulum refuses: ZeroDivisionError$"):
            c(np.ones(2), np.ones(2))
        assert np.isfinite(c(np.zeros(2), np.ones(2))).all()


@pytest.mark.parametrize(
    ("q", "how"),
    [
        (2.0, r"^pendulum crashed \(SIGABRT\): "),
        (3.0, "^pendulum took more than 2 s$"),
        (4.0, "^pendulum failed: and"),
    ],
)
def test_how_it_ends_is_said(adaptor: str, q: float, how: str) -> None:
    began = time.monotonic()
    with OtherPython(adaptor, timeout=2.0) as python:
        c = python.load("arm.urdf").function("bias")
        with pytest.raises(LibraryError, match=how):
            c(np.full(2, q), np.ones(2))
        with pytest.raises(LibraryError, match="^pendulum (crashed|ended|failed)"):
            c(np.zeros(2), np.ones(2))
    assert time.monotonic() - began < 20.0


def test_it_reads_no_settings_of_the_current_folder(
    adaptor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started in an empty folder of its own, which is removed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pendulum.py").write_text(
        PENDULUM.replace('"it is a pendulum"', "os.getcwd(), *os.listdir()")
    )
    with OtherPython("pendulum.py") as python:
        (folder,) = python.load("arm.urdf").notes
        assert Path(folder).is_dir() and Path(folder) != tmp_path
    assert not Path(folder).exists()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="unknown library 'spreadsheet'; there are adaptors for adam, "):
        OtherPython("spreadsheet")
    with pytest.raises(LibraryError, match="there is no interpreter '/nowhere/python'"):
        OtherPython("dartpy", "/nowhere/python")
    with pytest.raises(LibraryError, match="there is no adaptor /nowhere/mine.py"):
        OtherPython("/nowhere/mine.py")
    missing = tmp_path / "missing.py"
    missing.write_text('PACKAGE, DISTRIBUTION, FORMATS = "no_such_module.part", "no-such", ("urdf",)\n')
    with pytest.raises(LibraryError, match=r"missing is not installed in .*: pip install no-such$"):
        OtherPython(str(missing))


ANSWERS = {
    "no JSON": ("echo y; sleep 9", "is it a Python"),
    "no line": ("head -c 2000000 /dev/zero; sleep 9", "is it a Python"),
    "nothing": ("true", "program ended: no message"),
    "an error": ("echo no luck >&2; exit 3", "program failed: no luck"),
    "its end": ("kill -KILL $$", r"program crashed \(SIGKILL\)"),
    "a closed output": ("exec 1>&-; exec sleep 9", "closed its output"),
    "much on its errors": ("head -c 3000 /dev/zero >&2; sleep 9", "to its errors"),
    "another kind": ("echo 1; sleep 9", "is it a Python"),
    "an empty object": ("echo '{}'; sleep 9", "is it a Python"),
    "wrong entries": ("""echo '{"installed": 1}'; sleep 9""", "is it a Python"),
    "too deep": ("head -c 100000 /dev/zero | tr '\\0' '['; echo; sleep 9", "is it a Python"),
    "another encoding": (r"printf '\377\n'; sleep 9", "is it a Python"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_program_that_is_no_python_is_named(
    name: str, adaptor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_python, "_TO_END", 0.2)
    monkeypatch.setattr(other_python, "_MOST_ERRORS", 2000)
    program, (text, why) = tmp_path / "program", ANSWERS[name]
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    with pytest.raises(LibraryError, match=f"(?s){re.escape(str(tmp_path))}.*{why}"):
        OtherPython(adaptor, program, timeout=8.0)


def test_an_array_that_is_none_ends_the_process(adaptor: str) -> None:
    """Its bytes would be taken for the next answer."""
    with OtherPython(adaptor) as python:
        H = python.load("arm.urdf").function("mass_matrix")
        with pytest.raises(LibraryError, match="pendulum answers .*O"):
            H(np.full(2, 5.0))
        assert not python.alive


@pytest.mark.parametrize("python", ["", "a\0b", 2.5, b"python"])
def test_what_names_no_program(adaptor: str, python: object) -> None:
    with pytest.raises((TypeError, ValueError), match="^python: expected a path"):
        OtherPython(adaptor, python)


def test_adaptors_need_numpy_and_their_library_only() -> None:
    """No adaptor imports this package, or another one than NumPy before `load`."""
    assert len(ADAPTORS) >= 16 and RUNNER.is_file()
    for path in ADAPTORS.values():
        text = path.read_text()
        before = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
        assert set(before) <= {"import numpy as np", "from xml.etree import ElementTree"}, path.name
        assert "connections" not in text and all(
            f"{name} =" in text or f"{name}," in text for name in ("PACKAGE", "DISTRIBUTION", "FORMATS")
        )
