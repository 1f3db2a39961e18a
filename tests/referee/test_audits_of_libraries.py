"""Libraries in other interpreters on the corpus: what is right, what is wrong, what is not given."""

import json
from pathlib import Path

import pytest
from cases import further

from connections.cli import main
from connections.interop.libraries import LibraryError
from connections.referee.other_python import audits_of

# A hinge about z, and a slide of 2 kg along y behind it, in closed form; `TURNS` is 0 for a slide whose axis
# keeps its direction in the world.
BY_HAND = """
import os
import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "numpy", "numpy", ("urdf",)
TURNS = 1.0
PRECISION = "float64"


def load(path, floating):
    if "branches" in path:
        raise NotImplementedError("no branches")
    if "armature" in path or "mimic" in path:
        os._exit(1)
    if "continuous" in path or "negative" in path:
        return {"joints": ["joint1", "joint2", "joint3", "ghost"] if "continuous" in path else ["joint1"]}
    if "hinge" not in path:
        raise RuntimeError("it knows one robot")

    def mass_matrix(q):
        angle, y = (1.0 - TURNS) * q[0], 0.2 + q[1]
        across = 0.6 * np.cos(angle) - 2.0 * y * np.sin(angle)
        return np.array([[0.03 + 2.0 * (0.09 + y**2), across], [across, 2.0]])

    def bias(q, v):
        y = 0.2 + q[1]
        return 2.0 * y * v[0] * np.array([2.0 * v[1], -v[0]])

    return {
        "joints": ["hinge", "slide"],
        "precision": PRECISION,
        "mass_matrix": mass_matrix,
        "bias": bias,
        "functions": {"mass_matrix": "H", "bias": "c"},
    }
"""


@pytest.fixture
def by_hand(tmp_path: Path) -> str:
    path = tmp_path / "by_hand.py"
    path.write_text(BY_HAND)
    return str(path)


def test_numbers_by_hand_are_right_and_other_robots_have_their_reasons(by_hand: str) -> None:
    names = ["slide_behind_hinge", "branches", "mimic", "slide_behind_hinge", "turned_inertias"]
    right, none, crash, again, refused = audits_of(by_hand, None, names)
    assert right["kind"] == "vector only" and right["layout"].startswith("fixed(")
    assert right["verdicts"]["same_mass_matrix"] == right["verdicts"]["same_bias"] == "holds"
    assert right["verdicts"]["skew"] == right["verdicts"]["gravity"] == "not given"
    assert none["not given"] == "no branches" and "verdicts" not in none
    assert crash["refused"].startswith("by_hand failed")
    assert again == right  # by another process
    assert refused["refused"] == "by_hand refuses: RuntimeError: it knows one robot"


def test_a_slide_that_does_not_turn_with_its_hinge_is_found(by_hand: str) -> None:
    path = Path(by_hand)
    path.write_text(path.read_text().replace("TURNS = 1.0", "TURNS = 0.0"))
    (found,) = audits_of(by_hand, None, ["slide_behind_hinge"])
    verdicts = found["verdicts"]
    assert verdicts["same_mass_matrix"] == verdicts["bias"] == "fails"
    assert verdicts["symmetric"] == verdicts["same_bias"] == "holds"


def test_joints_that_the_robot_does_not_have_or_the_library_leaves_out(by_hand: str) -> None:
    more, fewer, plane = audits_of(by_hand, None, ["continuous", "negative_axes", "planar_base"])
    assert more["not given"] == "moves on its own there: ghost"
    assert fewer["not given"] == "joints there: joint1"
    assert plane["not given"] == "by_hand reads URDF files"  # no joints of type planar


def test_single_precision_is_judged_as_such(by_hand: str) -> None:
    path = Path(by_hand)
    path.write_text(path.read_text().replace("0.03 + ", "0.0300003 + "))
    (double,) = audits_of(by_hand, None, ["slide_behind_hinge"])
    path.write_text(path.read_text().replace('"float64"', '"float32"'))
    (single,) = audits_of(by_hand, None, ["slide_behind_hinge"])
    verdicts = [found["verdicts"]["same_mass_matrix"] for found in (double, single)]
    assert verdicts == ["fails", "holds"] and single["precision"] == "float32"


@pytest.mark.parametrize(
    ("library", "name", "kind"),
    [
        ("pinocchio", "hard_floating", "riemannian"),
        ("mujoco", "floating_offset", "vector only"),
        ("idyntree", "floating_body", "dynamics only"),
        further("pinocchio", "mimic", "inadmissible"),
        further("mujoco", "armature", "vector only"),
        further("mujoco", "planar_base", "vector only"),
        further("idyntree", "hard_floating", "dynamics only"),
        further("idyntree", "branches", "riemannian"),
    ],
)
def test_libraries_that_are_installed_here(library: str, name: str, kind: str) -> None:
    (found,) = audits_of(library, None, [name])
    assert found["kind"] == kind, found
    assert found["verdicts"]["same_mass_matrix"] == found["verdicts"]["same_bias"] == "holds"


def test_the_command_line(by_hand: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    written, table = tmp_path / "found.json", tmp_path / "found.md"
    words = ["audit", "--library", by_hand, "--json", str(written), "--markdown", str(table), "--corpus"]
    assert main([*words, "slide_behind_hinge", "branches"]) == 0
    printed = capfd.readouterr().out
    assert "slide_behind_hinge" in printed and "no branches" in printed and "right" in printed
    results = json.loads(written.read_text())
    assert [result["robot"] for result in results] == ["slide_behind_hinge", "branches"]
    lines = table.read_text().splitlines()
    assert lines[0].startswith("**by_hand ") and lines[4].startswith("| slide_behind_hinge | right | ")
    assert lines[5] == "| branches | not given |  |  | no branches |"
    assert main([*words, "slide_behind_hinge", "turned_inertias"]) == 2  # one that was named is refused
    assert main([*words, "branches"]) == 2
    path = Path(by_hand)
    path.write_text(path.read_text().replace("TURNS = 1.0", "TURNS = 0.0"))
    assert main([*words, "slide_behind_hinge"]) == 1
    assert "same_mass_matrix" in capfd.readouterr().out


def test_what_is_wrong_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LibraryError, match="unknown library 'spreadsheet'"):
        list(audits_of("spreadsheet"))
    with pytest.raises(ValueError, match="no_such_robot"):
        list(audits_of("mujoco", None, ["no_such_robot"]))
    assert main(["audit", "--corpus"]) == 2
    assert "--corpus takes a library" in capfd.readouterr().err
