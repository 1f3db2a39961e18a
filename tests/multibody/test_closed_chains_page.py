"""The page docs/closed_chains.md is executed."""

import pytest
from pages import ROOT, run_page


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    run_page("closed_chains.md", blocks=6, assertions=11)
    assert "loop 'loop' cannot close" in capsys.readouterr().out
