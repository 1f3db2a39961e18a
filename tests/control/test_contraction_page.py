"""The page docs/contraction.md is executed."""

import pytest
from pages import run_page


@pytest.mark.further
def test_the_page_runs() -> None:
    run_page("contraction.md", blocks=5, assertions=1)
