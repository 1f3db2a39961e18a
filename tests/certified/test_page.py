"""The page docs/certified.md is executed."""

from pages import run_page


def test_the_page_runs() -> None:
    run_page("certified.md", blocks=1)
