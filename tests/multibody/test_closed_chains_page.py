"""The page docs/closed_chains.md is executed."""

import pytest
from test_docs import ROOT, execute, python_blocks


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    page = ROOT / "docs" / "closed_chains.md"
    execute(page)
    assert len(python_blocks(page)) >= 7
    assert page.read_text().count("assert ") >= 12
    assert "loop 'loop' cannot close" in capsys.readouterr().out
