"""The page docs/controllability.md is executed."""

import pytest
from pages import run_page


@pytest.mark.further
def test_the_page_runs() -> None:
    run_page("controllability.md", blocks=5, assertions=7)
