"""The page docs/geomstats.md is executed."""

import pytest
from pages import run_page


@pytest.mark.further
def test_the_page_runs() -> None:
    run_page("geomstats.md", blocks=6, assertions=8)
