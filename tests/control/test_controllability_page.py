"""The page docs/controllability.md is executed."""

import pytest
from test_docs import ROOT, execute, python_blocks


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    page = ROOT / "docs" / "controllability.md"
    execute(page)
    assert len(python_blocks(page)) >= 5
    assert page.read_text().count("assert ") >= 7
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    shown = [
        line.removeprefix("    ") for line in page.read_text().splitlines() if line.startswith("    conf")
    ]
    assert shown and all(line in printed for line in shown)
