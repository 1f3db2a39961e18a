"""The page docs/geomstats.md is executed."""

import pytest
from test_docs import ROOT, execute, python_blocks


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = ROOT / "docs" / "geomstats.md"
    execute(page)
    assert len(python_blocks(page)) >= 6
    assert page.read_text().count("assert ") >= 8
