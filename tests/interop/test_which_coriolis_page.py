"""The page docs/which_coriolis.md is executed, and its summary is what the measured table says."""

import re

import pytest
from pages import ROOT, execute, python_blocks

PAGE = ROOT / "docs" / "which_coriolis.md"
TABLE = ROOT / "docs" / "which_coriolis_table.md"


@pytest.mark.further
def test_the_page_runs() -> None:
    execute(PAGE)
    assert len(python_blocks(PAGE)) == 5
    assert PAGE.read_text().count("assert ") == 7


def rows(title: str) -> dict[str, dict[str, str]]:
    """A table of the measured page: {row: {column: word}}."""
    text = TABLE.read_text().split(f"**{title}**")[1].split("\n**")[0]
    lines = [re.split(r" ?\| ?", line.strip())[1:-1] for line in text.splitlines() if line.startswith("|")]
    head = lines[0][1:]
    return {line[0]: dict(zip(head, line[1:], strict=True)) for line in lines[2:]}


def test_the_summary_is_the_measured_table() -> None:
    robots, joints = rows("Robots"), rows("Types of joints")
    assert len(robots) == 4 and len(joints) == 13
    assert {name for name, row in joints.items() if row["pinocchio"] != "riemannian"} == {
        "universal",
        "spherical-zyx",
        "composite",
        "mimic",
    }
    for robot, row in robots.items():
        floating = "quadruped" in robot or "humanoid" in robot
        assert row["pinocchio"] == ("inadmissible" if "mimic" in robot else "riemannian")
        assert row["idyntree"].startswith("dynamics only" if floating else "riemannian")
        assert row["jaxsim"].startswith("torsion")
        assert row["mujoco"].startswith("vector only") and row["drake"].startswith("vector only")
        if floating:
            assert row["roboticstoolbox"] == "-"
    assert robots["UR5, an arm"]["roboticstoolbox"] == "riemannian"
    assert "of another robot" in robots["Panda, an arm whose fingers mimic"]["roboticstoolbox"]
    assert "of another robot" in joints["revolute"]["roboticstoolbox"]
    for row in rows("Variants").values():
        assert row["pinocchio:untied"].startswith("riemannian")
        assert row["idyntree:mixed"] == row["idyntree:inertial"]
        assert row["jaxsim:mixed"].startswith("torsion") and row["jaxsim:inertial"].startswith("torsion")
