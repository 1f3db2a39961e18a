"""The page docs/curvature.md is executed."""

from pages import run_page


def test_the_page_runs() -> None:
    run_page("curvature.md", blocks=4, assertions=8)
