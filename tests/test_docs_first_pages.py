"""The first pages that a newcomer reads are executed; each lists its pages, and every page is in one list."""

import re

import pytest
from pages import ROOT, run_page

DOCS = ROOT / "docs"
CODE = {
    "index.md": 4,
    "tutorial_metric.md": 7,
    "tutorial_robot.md": 7,
    "tutorial_vehicle.md": 8,
    "choose.md": 2,
    "clarifications.md": 7,
    "coming_from.md": 2,
}


@pytest.mark.further
@pytest.mark.parametrize("name", CODE)
def test_page_runs(name: str) -> None:
    run_page(name, blocks=CODE[name])


def test_every_page_is_in_the_list_of_one_section() -> None:
    sections = ("tutorials", "how_to", "explanation", "reference")
    listed = [
        name
        for section in sections
        for name in re.findall(r"^- \[.*\]\((\w+)\.md\)", (DOCS / f"{section}.md").read_text(), re.MULTILINE)
    ]
    assert len(listed) == len(set(listed))
    assert set(listed) == {path.stem for path in DOCS.glob("*.md")} - {"index", *sections}
