"""The page docs/symbolic.md is executed."""

import pytest
from pages import run_page


@pytest.mark.further
def test_the_page_runs() -> None:
    run_page("symbolic.md", blocks=8, assertions=12)
