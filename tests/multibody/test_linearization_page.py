"""The pages docs/linearization.md and docs/second_derivatives.md are executed."""

import pytest
from pages import run_page


@pytest.mark.further
def test_the_page_runs() -> None:
    run_page("linearization.md", blocks=4, assertions=7)


@pytest.mark.further
def test_the_page_of_second_derivatives_runs() -> None:
    run_page("second_derivatives.md", blocks=4, assertions=7)
