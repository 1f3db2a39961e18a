"""The page docs/linearization.md is executed."""

from pages import run_page


def test_the_page_runs() -> None:
    run_page("linearization.md", blocks=4, assertions=7)
