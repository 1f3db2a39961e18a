"""The page docs/geomstats.md is executed."""

import pytest
from pages import ROOT, run_page


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run_page("geomstats.md", blocks=6, assertions=8)
