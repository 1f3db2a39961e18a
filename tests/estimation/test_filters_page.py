"""The pages docs/filters.md and docs/tutorial_attitude.md are executed."""

import pytest
from pages import run_page


def test_page() -> None:
    run_page("filters.md", blocks=2)


@pytest.mark.further
def test_tutorial() -> None:
    run_page("tutorial_attitude.md", blocks=2)
