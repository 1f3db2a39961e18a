"""The pages about the referee are executed; the table is that of the rows that are committed."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from pages import ROOT, execute, python_blocks

from connections.interop.adaptors import ADAPTORS
from connections.referee import INFORMATIVE, robots

DOCS = ROOT / "docs"
PAGES = {"which_vessel.md": 5, "referee.md": 2}
_spec = importlib.util.spec_from_file_location("referee_table", DOCS / "referee_table.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)


@pytest.mark.parametrize("name", PAGES)
def test_the_page_runs(name: str) -> None:
    page = DOCS / name
    execute(page)
    assert len(python_blocks(page)) == PAGES[name]


# --- the table -------------------------------------------------------------------------------------


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page and its rows where a test may write them."""
    for name in ("ROWS", "PAGE"):
        shutil.copy(getattr(table, name), tmp_path)
        monkeypatch.setattr(table, name, tmp_path / getattr(table, name).name)
    return tmp_path


def result(library: str, robot: str, **verdicts: str) -> dict:
    """One result of the command line."""
    rows = [{"name": name, "residual": 1.23e-16} for name in verdicts]
    head = {"library": library, "version": "9.9", "python": "3.11", "date": "2026-11-30", "robot": robot}
    return head | {"verdicts": verdicts, "rows": rows, "kind": "vector only", "precision": "float64"}


def test_the_page_is_rendered_from_the_rows(copies: Path) -> None:
    before = table.PAGE.read_text()
    rows = json.loads(table.ROWS.read_text())
    assert table.main(None) == 0 and table.PAGE.read_text() == before
    assert set(rows) == set(ADAPTORS) and table.INFORMATIVE == INFORMATIVE
    assert all(set(row["robots"]) <= set(robots()) for row in rows.values())
    assert table.END in before and "**Robots**" in before.split(table.END)[1]


def test_a_changed_verdict_fails_and_a_changed_residual_does_not(copies: Path) -> None:
    rows = copies / "rows"
    rows.mkdir()
    right = {"same_mass_matrix": "holds", "same_bias": "holds", "torsion_free": "fails"}
    (rows / "a.json").write_text(json.dumps([result("newlib", "branches", **right)]))
    assert table.main(rows) == 0  # a new library is no change
    assert (
        "| newlib | 9.9 | 2026-11-30 | float64 | 1 of 1 | 1e-16, 1e-16 | vector only |"
        in table.PAGE.read_text()
    )
    again = result("newlib", "branches", **right)
    again["rows"][0]["residual"] = 3e-14
    (rows / "a.json").write_text(json.dumps([again]))
    assert table.main(rows) == 0
    (rows / "a.json").write_text(json.dumps([again | {"kind": "unknown"}]))
    assert table.main(rows) == 0  # too noisy for one night
    (rows / "a.json").write_text(json.dumps([again]))
    assert table.main(rows) == 0
    (rows / "a.json").write_text(json.dumps([again | {"kind": "riemannian"}]))
    assert table.main(rows) == 1
    wrong = result("newlib", "branches", **right | {"same_bias": "fails"})
    (rows / "a.json").write_text(json.dumps([wrong]))
    assert table.main(rows) == 1
    assert json.loads(table.ROWS.read_text())["newlib"]["robots"]["branches"]["fails"] == ["same_bias"]
    gone = {"library": "newlib", "version": "10", "python": "3.11", "date": "2026-12-01", "robot": "branches"}
    (rows / "a.json").write_text(json.dumps([gone | {"refused": "an error | of its own"}]))
    assert table.main(rows) == 1


def test_what_the_page_says_of_faults_is_in_the_rows() -> None:
    """Each library that the page calls right has no fault there, and each fault has a row that shows it."""
    rows = json.loads(table.ROWS.read_text())

    def of(library: str, robot: str) -> dict:
        return rows[library]["robots"][robot]

    for library in ("newton", "mjx", "mujoco_warp", "mujoco", "drake", "dynibo", "placo"):
        assert all(robot["verdict"] != "fails" for robot in rows[library]["robots"].values()), library
    assert "same_mass_matrix" in of("brax", "slide_behind_hinge")["fails"]
    for library in ("adam", "urdf2casadi"):
        assert "same_mass_matrix" in of(library, "unnormalized_axes")["fails"]
    assert "same_mass_matrix" in of("urdf2casadi", "turned_inertias")["fails"]
    assert of("adam", "slide_behind_hinge")["verdict"] == of("frax", "massless_root")["verdict"] == "refused"
    assert of("dartpy", "floating_massless_root")["fails"] == [
        "same_mass_matrix",
        "same_gravity",
    ]
    assert "same_mass_matrix" in of("roboticstoolbox", "oblique_axes")["fails"]
    assert of("pinocchio", "mimic")["fails"] == ["product", "skew"]
    assert of("idyntree", "floating_body")["fails"] == ["skew"]
