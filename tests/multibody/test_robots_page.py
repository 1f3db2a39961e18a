"""The page docs/robots.md is executed."""

from pages import run_page


def test_the_page_runs() -> None:
    run_page("robots.md", blocks=12, assertions=23)
