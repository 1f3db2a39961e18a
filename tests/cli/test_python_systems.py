"""``connections verify my_system.py:top``: a system that a Python file defines, and what can be wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import connections as cn
from connections import cli, multibody, systems, verify
from connections.checks import Check, SubjectError
from connections.verify import NonholonomicSubject, Subject, as_subject, subject_from_file

DATA = Path(__file__).parents[1] / "data"
Command = Callable[..., tuple[int, str, str]]

HEAD = """\
import jax.numpy as jnp
import numpy as np
import connections as cn
from connections.verify import subject

plane = cn.CoordinateFrame(2)
"""
CURVED = "cn.MatrixMetric(plane, lambda q: jnp.diag(jnp.stack([1.0 + q[1] ** 2, 2.0])))"
BODY = "cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 1.5, 2.0]))"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a file, in the working directory; what it imports is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def file(code: str, name: str = "my_system.py", head: str = HEAD) -> Path:
        (tmp_path / name).write_text(head + code + "\n")
        return tmp_path / name

    return file


@pytest.fixture
def command(write: object, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs ``connections verify``: exit status, output, errors."""

    def run(*words: str) -> tuple[int, str, str]:
        status = cli.main(["verify", *words])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


# --- the report ------------------------------------------------------------------------------------------


@pytest.mark.further
def test_a_metric_is_verified(write: Callable[..., Path], command: Command, tmp_path: Path) -> None:
    write(f"curved = {CURVED}")
    status, out, err = command("my_system.py:curved", "--samples", "1", "--rates", "--json", "report.json")
    assert (status, err.strip()) == (0, "")
    assert "46 of 46 checks hold on 1 system(s) at 1 point(s) each" in out
    assert "Left out, as they say nothing about curved: Cor III.1" in out
    assert "curved: contraction along a motion" in out and "as close as the bound says" in out
    report = json.loads((tmp_path / "report.json").read_text())
    assert {row["subject"] for row in report["rows"]} == {"curved"} and report["samples"] == 1
    (rates,) = report["rates"]
    assert (rates["subject"], rates["verdict"]) == ("curved", "holds")
    assert f"{rates['bound'][0]:.2f}" in out and f"{rates['neighbours'][-1]:.2f}" in out
    assert all(a < b + 1e-3 for a, b in zip(rates["neighbours"], rates["allowed"], strict=True))
    assert len(rates["times"]) == len(rates["bound"]) == len(rates["indicator"]) > 10


def test_a_connection_that_is_not_riemannian_does_not_hold(
    write: Callable[..., Path], command: Command
) -> None:
    """The negative control of the command: with other coefficients the same metric fails."""
    write(
        f"class Wrong(cn.AffineConnection):\n    frame = plane\n    known_metric = {CURVED}\n"
        "    def coefficients_at(self, q):\n        return jnp.ones((2, 2, 2)) * q[0]\nwrong = Wrong()"
    )
    status, out, _ = command("my_system.py:wrong", "--samples", "1")
    assert status == 1
    assert "DOES NOT HOLD on wrong: (8)" in out


def test_a_subject_keeps_its_points(
    write: Callable[..., Path], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds = verify.Row("own", "(8)", "this", Check("(8)", 0, 1, 1e-9), Check("(8)", 1, 1, 1e-9), 0.1)
    monkeypatch.setattr(verify, "verify_subject", lambda *_: [holds])
    write(f"rng = np.random.default_rng(0)\ntop = subject('own', {CURVED}, np.ones((3, 2)), rng, seed=7)")
    status, out, err = command("my_system.py:top")
    assert (status, err.strip()) == (0, "") and "at 3 point(s) each" in out
    _, _, err = command("my_system.py:top", "--samples", "2", "--seed", "1")
    assert err.strip().splitlines() == [
        f"connections: note: own has samples and a seed of its own, {option} has no effect"
        for option in ("--samples", "--seed")
    ]


def test_the_summary_fits_into_a_terminal_of_80_columns(
    write: Callable[..., Path], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = verify.Row(
        "curved",
        "(8)",
        "this is that, " * 9,
        Check("(8)", 1, 1, 1e-9),
        Check("(8)", 1, 1, 1e-9),
        0.1,
    )
    monkeypatch.setattr(verify, "verify_subject", lambda *_: [fails])
    for name, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    write(f"curved = {CURVED}")
    status, out, _ = command("my_system.py:curved")
    summary = out.split("--json")[1].splitlines()
    assert status == 1 and max(map(len, summary)) <= 80
    assert "0 of 1 checks hold (does not hold: 1)" in " ".join(line.strip() for line in summary)


# --- what the name may stand for -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (f"top = {BODY}", Subject),
        (f"top = cn.LeviCivita({CURVED})", Subject),
        (f"top = cn.MechanicalSystem({CURVED}, lambda q: q[0] ** 2)", Subject),
        (f"def top():\n    return {BODY}", Subject),
        (f"def top(m=1.0):\n    return subject('own', {CURVED}, np.ones((2, 2)), np.random.default_rng(0))",
         Subject),
        (f"top = cn.ConstrainedConnection({CURVED}, lambda q: jnp.ones((2, 1)))", NonholonomicSubject),
        (f"top = cn.NonholonomicSystem(cn.ConstrainedConnection({CURVED}, forms=lambda q: jnp.ones((1, 2))))",
         NonholonomicSubject),
    ],
)  # fmt: skip
def test_what_is_accepted(code: str, kind: type, write: Callable[..., Path]) -> None:
    subject = subject_from_file(write(code), "top", samples=2)
    assert type(subject) is kind and len(subject.q) == 2
    assert subject.name in ("top", "own")


@pytest.mark.further
def test_objects_are_subjects() -> None:
    arm = as_subject(multibody.from_urdf(DATA / "branched.urdf"), "arm", 1)
    body = as_subject(systems.planar_body(), "body", 2)
    sleigh = as_subject(systems.chaplygin_sleigh(), "sleigh", 1)
    assert (arm.name, len(arm.q), body.name, len(body.q)) == ("arm", 1, "body", 2)
    assert isinstance(sleigh, NonholonomicSubject) and as_subject(sleigh, "other") is sleigh


def test_seeds_determine_the_points() -> None:
    metric = cn.ConstantMetric(cn.SO3Frame(), np.eye(3))
    first, again, other = (as_subject(metric, "top", 2, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.q, again.q) and not np.allclose(first.q, other.q)
    assert np.allclose(np.linalg.norm(first.q, axis=1), 1.0)


def test_a_file_may_import_its_neighbours(write: Callable[..., Path], tmp_path: Path) -> None:
    """At once or when a function is called; no bytecode appears beside the file itself."""
    write("MASS = 2.0", "neighbour_of_my_system.py", head="")
    path = write(
        "def top():\n    from neighbour_of_my_system import MASS\n"
        "    return cn.ConstantMetric(plane, MASS * np.eye(2))"
    )
    subject = subject_from_file(path, "top", 1)
    assert np.allclose(subject.metric.matrix(subject.q[0]), 2.0 * np.eye(2))  # type: ignore[union-attr]
    assert not list(tmp_path.glob("__pycache__/my_system*"))


# --- what can be wrong -----------------------------------------------------------------------------------

WRONG = {
    "no such name": (
        f"top = 1\ncurved = {CURVED}",
        "tpo",
        ["has no 'tpo'; did you mean top?", "It defines curved."],
    ),
    "a number": ("top = 9.81", "top", ["my_system.py:top is a float", "Expected a Subject, Nonholonomic"]),
    "a frame": ("", "plane", ["my_system.py:plane is a CoordinateFrame"]),
    "arguments": ("def top(m, length):\n    pass", "top", ["my_system.py:top takes arguments: m, length"]),
    "returns nothing": ("def top():\n    pass", "top", ["my_system.py:top() is a NoneType"]),
    "function raises": (
        "def top():\n    return {}['mass']",
        "top",
        ["my_system.py:top raises an error KeyError: 'mass'", "line 8, in top: return {}['mass']"],
    ),
    "import raises": (
        "H = jnq.eye(3)",
        "top",
        ["my_system.py cannot be imported", "NameError: name 'jnq'", "my_system.py, line 7: H = jnq.eye(3)"],
    ),
    "syntax": ("x = (1,", "top", ["my_system.py cannot be imported", "SyntaxError: '('", "line 7: x = (1,"]),
    "exit": ("raise SystemExit(3)", "top", ["SystemExit: 3", "line 7"]),
    "long message": ("raise ValueError('word ' * 200)", "top", ["ValueError: word word", "word ..."]),
    "no metric": (
        "top = cn.CoefficientConnection(plane, lambda q: jnp.zeros((2, 2, 2)))",
        "top",
        ["has no metric: give MechanicalSystem(metric, connection=...)"],
    ),
    "metric NaN": (
        "top = cn.MatrixMetric(plane, lambda q: jnp.eye(2) * jnp.sqrt(q[0] - 5.0))",
        "top",
        ["fewer than 2 regular points", "the metric is not finite at q = ["],
    ),
    "metric of a subject NaN": (
        "metric = cn.MatrixMetric(plane, lambda q: jnp.eye(2) * jnp.sqrt(q[0]))\n"
        "top = subject('top', metric, -np.ones((2, 2)), np.random.default_rng(0))",
        "top",
        ["NonFiniteError: the metric is not finite at q = [-1. -1.]"],
    ),
    "potential NaN": (
        f"top = cn.MechanicalSystem({CURVED}, lambda q: jnp.log(q[0] - 5.0))",
        "top",
        ["NonFiniteError: the potential is not finite at q = ["],
    ),
    "gravity NaN": (
        f"top = cn.MechanicalSystem({CURVED}, lambda q: jnp.sqrt(jnp.maximum(q[0] - 5.0, 0.0)))",
        "top",
        ["NonFiniteError: gravity of MechanicalSystem is not finite"],
    ),
    "not positive": ("top = cn.MatrixMetric(plane, lambda q: -jnp.eye(2))", "top", ["not positive definite"]),
    "shape of the metric": (
        "top = cn.MatrixMetric(plane, lambda q: jnp.eye(3))",
        "top",
        ["ShapeError", "expected shape (2, 2), got (3, 3)"],
    ),
    "shape of q": (
        f"top = subject('top', {CURVED}, np.ones(2), np.random.default_rng(0))",
        "top",
        ["ShapeError: q: expected shape (samples, 2), got (2,)"],
    ),
    "NumPy in a function": (
        "def H(q):\n    return np.diag([1.0, 2.0 + float(q[0])])\ntop = cn.MatrixMetric(plane, H)",
        "top",
        ["my_system.py, line 8, in H: return np.diag", "use jax.numpy instead of numpy"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_errors_in_words(case: str, write: Callable[..., Path], command: Command) -> None:
    """Exit status 2, each line in 80 columns, no traceback."""
    code, name, expected = WRONG[case]
    write(code)
    status, out, err = command(f"my_system.py:{name}")
    assert (status, out) == (2, "") and err.startswith("connections: error: ")
    assert max(map(len, err.splitlines())) <= 80 and "Traceback" not in err
    flat = " ".join(err.split())
    for text in expected:
        assert text in flat


def test_an_error_while_rows_are_measured(
    write: Callable[..., Path], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def singular(*_: object) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(verify, "verify_subject", singular)
    write(f"top = {CURVED}")
    status, _, err = command("my_system.py:top")
    assert status == 2 and "top cannot be verified\n  LinAlgError: Singular matrix" in err


def test_an_error_in_a_neighbour_names_both_lines(write: Callable[..., Path], command: Command) -> None:
    write("x = 1 / 0", "broken_neighbour.py", head="")
    write("import broken_neighbour")
    _, _, err = command("my_system.py:top")
    assert err.splitlines()[1:] == [
        "  ZeroDivisionError: division by zero",
        "  my_system.py, line 7: import broken_neighbour",
        "  broken_neighbour.py, line 1: x = 1 / 0",
    ]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("none.py:top", "there is no file none.py"),
        ("my_sytem.py:top", "there is no file my_sytem.py; did you mean my_system.py?"),
        ("notes.txt:top", "notes.txt is not a Python file"),
        (":top", "is not a Python file"),
        ("my_system.py", "say what to verify: my_system.py:NAME It defines top, make."),
        ("my_system.py:", "say what to verify: my_system.py:NAME It defines top, make."),
        ("none.urdf", "none.urdf"),
    ],
)
def test_wrong_words(word: str, expected: str, write: Callable[..., Path], command: Command) -> None:
    write(f"top = {CURVED}\ndef make(mass=1.0):\n    pass\ndef other(mass):\n    pass")
    status, _, err = command(word)
    assert status == 2 and expected in " ".join(err.split())


def test_options_that_need_something_else(write: Callable[..., Path], command: Command) -> None:
    write(f"top = {CURVED}")
    assert "--floating-base needs a robot" in command("my_system.py:top", "--floating-base")[2]
    assert "not both" in command("my_system.py:top", "--system", "sphere")[2]


def test_the_error_has_its_cause_in_python(write: Callable[..., Path]) -> None:
    with pytest.raises(SubjectError, match="cannot be imported") as raised:
        subject_from_file(write("x = 1 / 0"), "x")
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert not [name for name in sys.modules if name == "file my_system"]
