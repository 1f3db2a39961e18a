"""The page docs/gains.md is executed."""

from pages import run_page


def test_page():
    run_page("gains.md", blocks=1)
