"""The page docs/natural_adaptation.md is executed."""

from pages import run_page


def test_the_page_runs() -> None:
    run_page("natural_adaptation.md", blocks=2, assertions=1)
