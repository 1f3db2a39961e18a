"""The page docs/geomstats.md is executed."""

from pages import run_page


def test_the_page_runs() -> None:
    run_page("geomstats.md", blocks=6, assertions=8)
