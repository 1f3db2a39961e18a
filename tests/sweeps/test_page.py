"""The page docs/sweeps.md is executed."""

from pathlib import Path

import pytest
from pages import run_page


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("sweeps.md", blocks=5, assertions=10)
