"""The runner of mutants: what is planted fits the sources; a fault is noticed, or not, in a copy."""

import ast
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.mutants import __main__ as command
from tests.mutants.mutant import Mutant, MutantError
from tests.mutants.operators import changed_lines, drawn, edits
from tests.mutants.planted import MUTANTS
from tests.mutants.trials import NOTHING, Verdict, trials

ROOT = Path(__file__).parents[1]
ROOMS = {
    "engines",
    "evaluation",
    "geometry",
    "integration",
    "affine",
    "coriolis",
    "multibody",
    "control",
    "estimation",
}
ROOMS |= {"symbolic", "systems", "interop", "verify", "sweeps", "plots", "explorer"}


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_planted_faults_fit_the_sources() -> None:
    """The text is there once, the result is Python, and the named tests exist."""
    for mutant in MUTANTS:
        mutant.source(ROOT)
        assert mutant.tests and mutant.breaks
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert not name or name.partition("[")[0] in functions_of(file), (mutant.name, test)


def test_they_are_many_and_everywhere() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) >= 60 and len(set(names)) == len(names)
    assert {mutant.room for mutant in MUTANTS} >= ROOMS
    assert sum(bool(mutant.survives) for mutant in MUTANTS) <= len(names) // 10


def project(folder: Path) -> Path:
    """A package of one file, with a test."""
    for name, text in {
        "connections/__init__.py": "",
        "connections/room/__init__.py": "",
        "connections/room/law.py": "def square(x):\n    return x * x\n\n\ndef twice(x):\n    return x + x\n",
        "tests/test_law.py": "from connections.room.law import square, twice\n\n"
        "def test_square():\n    assert square(3.0) == 9.0\n\n"
        "def test_twice():\n    assert twice(2.0) == 4.0\n",
        "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def planted(name: str, text: str, replacement: str, *tests: str) -> Mutant:
    return Mutant(name, "room/law.py", text, replacement, tests or ("test_law.py",), "numbers")


def test_one_is_killed_and_one_survives(tmp_path: Path) -> None:
    """x + x at 2 is x * x, so that a test at 2 only cannot tell; the checkout itself stays as it is."""
    root = project(tmp_path)
    before = (root / "connections/room/law.py").read_text()
    mutants = [
        planted("cube", "return x * x", "return x * x * x"),
        planted("product", "return x + x", "return x * x"),
    ]
    verdicts = {each.mutant.name: each for each in trials(mutants, root, 2, loaded=()) if each.mutant}
    assert verdicts["cube"].by == "test_law::test_square"
    assert not verdicts["product"].killed
    assert (root / "connections/room/law.py").read_text() == before
    assert not list(root.rglob("__pycache__"))


def test_what_does_not_run_is_an_error(tmp_path: Path) -> None:
    root = project(tmp_path)
    for mutant, word in (
        (planted("gone", "return x - x", "return x"), "0 times in connections/room/law.py"),
        (planted("twice", "return x ", "return y "), "2 times"),
        (planted("same", "return x * x", "return x * x"), "the text itself"),
        (planted("no Python", "return x * x", "return x *"), "no Python"),
        (planted("no test", "return x * x", "return x", "test_law.py::test_cube"), "did not run"),
    ):
        with pytest.raises(MutantError, match=word):
            list(trials([mutant], root, 1, loaded=()))


def test_rows_have_80_columns_and_survivors_need_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    long = Mutant("a" * 60, "room/law.py", "x", "y", ("t.py",), "everything " * 20)
    excused = Mutant("b", "room/law.py", "x", "y", ("t.py",), "nothing", "it is equivalent")
    killed = Verdict(long, f"test_law::test_{'c' * 80}", 12.3, "")
    for verdicts, code in (
        ([killed, Verdict(excused, "", 3.0, "")], 0),
        ([killed, Verdict(long, "", 3.0, "")], 1),
    ):
        monkeypatch.setattr(command, "trials", lambda *_, found=verdicts: iter(found))
        monkeypatch.setattr(command, "compiled", lambda: NOTHING)
        assert command.main([]) == code
        printed = capsys.readouterr().out
        assert max(map(len, printed.splitlines())) <= 80
        assert ("SURVIVED" in printed) == bool(code) and "killed" in printed


def test_twelve_a_day_depend_on_the_commit() -> None:
    first, again, other = (command.choose(daily=True, seed=seed) for seed in ("a", "a", "b"))
    assert first == again != other and len(set(first)) == command.DAILY
    assert {each.room for each in command.choose(["control"])} == {"control"}
    with pytest.raises(MutantError, match="no mutant and no room is called nothing"):
        command.choose(["nothing"])


SOURCE = """\
def law(a, b, q):
    C = np.einsum("ijk,j->ik", a, q) - 0.5 * b @ a.T
    if q[0] < 1.0:
        return -C
    return "text" + str(C), [1] + [2]
"""


def test_operators_on_changed_lines() -> None:
    lines = SOURCE.splitlines()
    found = {SOURCE[a:b] + " -> " + new for a, b, new in edits(SOURCE, {2, 3, 4})}
    for wanted in (
        'np.einsum("ijk,j->ik", a, q) -> np.einsum("ikj,j->ik", a, q)',
        "a.T -> (a)",
        "0.5 -> 0.75",
        "0.5 * b @ a.T -> (a.T) @ (0.5 * b)",
        "q[0] < 1.0 -> (q[0]) > (1.0)",
        "-C -> (C)",
    ):
        assert wanted in found, sorted(found)
    swapped = 'np.einsum("ijk,j->ik", a, q)'
    assert any(each.endswith(f"({swapped}) + (0.5 * b @ a.T)") for each in found)
    for start, end, new in edits(SOURCE, set(range(1, len(lines) + 1))):
        ast.parse(SOURCE[:start] + new + SOURCE[end:])
    assert not list(edits(SOURCE, {5}))  # texts and lists are no numbers


def test_changed_lines_are_those_of_the_branch(tmp_path: Path) -> None:
    root = project(tmp_path)

    def git(*arguments: str) -> None:
        settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", *who, *arguments]
        subprocess.run(command, cwd=root, env=os.environ | settings, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    law = root / "connections/room/law.py"
    law.write_text(law.read_text().replace("x + x", "2.0 * x"))
    (root / "connections/room/new.py").write_text("def square(x):\n    return x / 2.0\n")
    (root / "connections/alone.py").write_text("def third(x):\n    return x / 3.0\n")
    changed = {"room/law.py": {6}, "room/new.py": {1, 2}, "alone.py": {1, 2}}
    assert changed_lines(root, "main") == changed
    mutants = drawn(root, "main", 20, "seed")
    assert mutants == drawn(root, "main", 20, "seed") != drawn(root, "main", 2, "seed")
    assert {each.breaks for each in mutants} >= {"2.0 -> 3.0", "x / 2.0 -> (x) * (2.0)"}
    for each in mutants:  # no test names what stands in the third file
        assert each.tests == (() if each.file == "alone.py" else ("test_law.py",))
    for mutant in mutants:
        assert mutant.source(root)
