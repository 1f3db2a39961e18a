"""The page docs/closed_chains.md is executed."""

from pages import run_page


def test_the_page_runs() -> None:
    run_page("closed_chains.md", blocks=6, assertions=11)
