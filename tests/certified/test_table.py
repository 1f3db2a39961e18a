"""The page of twenty robots is that of its rows, and no row says what cannot be."""

import importlib.util
import json
import shutil
from copy import deepcopy

import pytest
from pages import ROOT

_spec = importlib.util.spec_from_file_location("certified_table", ROOT / "docs" / "certified_table.py")
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)
ROWS = json.loads(table.ROWS.read_text())


def contradictions(rows):
    """(robot, constant) whose samples, or the textbook's bound, or another member, are where none can be."""
    found = []
    for robot, row in rows.items():
        for name, sampled in row["samples"].items():
            constant = table.found(row, name)
            if constant is None:
                continue
            lower, upper = constant["lower"], constant["upper"]
            outside = sampled < lower if name == "lambda_min" else upper is not None and sampled > upper
            low = row["textbook"].get(name, float("inf")) < lower
            if outside or low or (upper is not None and lower > upper):
                found.append((robot, name))
        below = (table.found(row, "k_C:smallest") or {}).get("below", 0.0)
        for name in ("k_C:christoffel", "k_C:force_cross", "k_C:least"):
            constant = table.found(row, name)  # no member is below the least of all
            if constant is not None and constant["upper"] < below:
                found.append((robot, name))
        ratio = table.ratio_of(row)
        if not row["floating"] and ratio is not None and ratio[1] < 1.0:
            found.append((robot, "ratio"))
    return found


def test_the_page_is_rendered_from_the_rows(tmp_path, monkeypatch):
    page = table.PAGE.read_text()
    assert table.rendered(page, ROWS) == page
    assert len(ROWS) == 20
    other = deepcopy(ROWS)
    other["UR5"]["constants"]["lambda_max"]["upper"] *= 1.01
    assert table.rendered(page, other) != page


def test_nothing_is_outside_the_ends():
    assert contradictions(ROWS) == []


@pytest.mark.parametrize(
    ("name", "end", "factor"),
    [("lambda_max", "upper", 0.95), ("lambda_min", "lower", 50.0), ("k_C:christoffel", "upper", 0.5)],
)
def test_a_wrong_end_is_found(name, end, factor):
    wrong = deepcopy(ROWS)
    wrong["UR10"]["constants"][name][end] *= factor
    assert ("UR10", name) in contradictions(wrong)


def test_the_figure_is_drawn_from_the_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "FIGURE", tmp_path / "figure.png")
    monkeypatch.setattr(table, "PAGE", shutil.copy(table.PAGE, tmp_path / "page.md"))
    table.main(None)
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_ends_are_rounded_outward():
    assert table.rounded(0.81516, 0.83001) == "0.8151 to 0.8301"
    assert table.rounded(2.8271, 187.31) == "2.82 to 188"
    assert table.rounded(6.0432e-4, 7.7951e-4) == "6.04e-4 to 7.80e-4"
    assert table.outward(1562.3, 3, True) == "1,570"
