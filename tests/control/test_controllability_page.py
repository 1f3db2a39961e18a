"""The page docs/controllability.md is executed."""

import pytest
from pages import ROOT, run_page


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    run_page("controllability.md", blocks=5, assertions=7)
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    lines = (ROOT / "docs" / "controllability.md").read_text().splitlines()
    shown = [line.removeprefix("    ") for line in lines if line.startswith("    conf")]
    assert shown and all(line in printed for line in shown)
