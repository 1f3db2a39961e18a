"""The page docs/filters.md is executed."""

from pages import run_page


def test_page() -> None:
    run_page("filters.md", blocks=2)
