"""One list of built-in systems: what takes a system's name takes exactly these, and says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from connections import cli, systems, verify
from connections._system_names import hyphened
from connections._words import nearest
from connections.checks import SubjectError
from connections.sweeps import proposition_sweep
from connections.verify import built_in_subjects, system_names, system_subject
from connections.verify.built_in import BUILT_IN


def text_of_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_list_has_the_names_of_both_tables() -> None:
    """A system that is added to a table is added to `_system_names`, too."""
    names = system_names()
    assert names == tuple(hyphened(key) for key in (*BUILT_IN, *systems.NAMES))
    assert len(set(names)) == len(names) == len(BUILT_IN) + len(systems.NAMES)
    assert all(name == name.lower() and not set(name) & set("_ ") for name in names)
    assert [name.replace("-", " ") for name in names[: len(BUILT_IN)]] == [
        subject.name for subject in built_in_subjects(1)
    ]


IMPORTS = """
import sys
from connections import cli
for words in ["verify --help", "sweep propositions --help", "verify --tol x", "verify --system sphree"]:
    try:
        cli.main(words.split())
    except SystemExit:
        pass
heavy = "connections.verify", "connections.sweeps", "connections.multibody", "sympy", "networkx"
print([name for name in heavy if name in sys.modules])
"""


@pytest.mark.further
def test_help_and_errors_of_names_import_no_room_that_computes() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert done.stdout.count("the systems that NAME may be:") == 2
    assert "a number between 0 and 1" in done.stderr and "did you mean sphere?" in done.stderr
    assert done.stdout.endswith("\n[]\n")


@pytest.mark.parametrize("name", ["sphere", "Rigid Body", "planar_arm", "planar-body", " snakeboard "])
def test_verify_and_sweep_know_the_same_names(name: str) -> None:
    """Words may be joined by hyphens, underscores or spaces."""
    subject = system_subject(name, 3)
    same = name.strip().lower().replace("_", "-").replace(" ", "-")
    assert subject.name.replace(" ", "-") == same
    assert len(subject.q) == 3
    key = verify.applicable(subject)[0].key
    assert proposition_sweep(name, 2, propositions=[key]).about["subject"] == subject.name


def test_by_name_a_system_has_the_points_of_the_six() -> None:
    for subject in built_in_subjects(2, 5):
        alone = system_subject(subject.name, 2, 5)
        assert (alone.q == subject.q).all() and (alone.v == subject.v).all()


def test_the_page_has_all_names() -> None:
    page = (Path(__file__).parents[2] / "docs" / "verify.md").read_text()
    assert [name for name in system_names() if f"`{name}`" not in page] == []


@pytest.mark.parametrize("words", [["verify"], ["sweep", "propositions"]])
def test_the_help_shows_the_names_in_80_columns(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = text_of_help(words, capsys)
    assert all(len(line) <= 80 for line in text.splitlines())
    listed = text.split("the systems that NAME may be:")[1]
    assert listed.replace(",", " ").split() == list(system_names())


@pytest.mark.parametrize(
    "words", [["verify"], ["sweep", "propositions", "--output", "s"]], ids=["verify", "sweep"]
)
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("skateboard", "; did you mean snakeboard?"),
        ("sphree", "; did you mean sphere?"),
        ("racer", "; did you mean roller-racer?"),
        ("x", ""),
    ],
)
def test_an_unknown_name(
    words: list[str], name: str, meant: str, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    """The nearest names, and all names uncut, in 80 columns."""
    assert cli.main([*words, "--system", name]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"connections: error: there is no system '{name}'{meant}"
    assert all(len(line) <= 80 for line in lines)
    listed = " ".join(lines[1:]).removeprefix("  The systems are ").rstrip(".")
    assert listed.replace(",", " ").split() == list(system_names())


def test_a_system_in_the_place_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "Roller_racer"]) == 2
    assert "connections verify --system roller-racer" in capsys.readouterr().err


def test_nearest_names() -> None:
    names = ["point-mass", "planar-arm", "planar-body", "sphere"]
    assert nearest("Planar-Arn", names)[0] == "planar-arm"
    assert set(nearest("planar", names)) == {"planar-arm", "planar-body"}
    assert nearest("gyroscope", names) == []
    with pytest.raises(SubjectError, match=r"did you mean planar-arm or planar-body"):
        system_subject("planar")
