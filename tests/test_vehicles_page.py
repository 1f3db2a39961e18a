"""The page docs/nonholonomic.md is executed."""

import pytest
from pages import ROOT, execute, python_blocks


@pytest.mark.further
def test_the_page_runs() -> None:
    page = ROOT / "docs" / "nonholonomic.md"
    execute(page)
    assert len(python_blocks(page)) == 6
    assert page.read_text().count("assert ") + page.read_text().count(".require()") >= 5
