"""The page docs/robots.md is executed."""

import pytest
from pages import ROOT, run_page


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run_page("robots.md", blocks=9, assertions=15)
