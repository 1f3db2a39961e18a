"""The page docs/closed_chains.md is executed."""

import pytest
from pages import run_page


@pytest.mark.further
def test_the_page_runs() -> None:
    run_page("closed_chains.md", blocks=8, assertions=14)
