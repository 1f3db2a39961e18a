"""The page docs/sweeps.md is executed."""

from pathlib import Path

import pytest
from test_docs import ROOT, execute, python_blocks


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "sweeps.md"
    execute(page)
    assert len(python_blocks(page)) >= 5
    assert page.read_text().count("assert ") >= 10
