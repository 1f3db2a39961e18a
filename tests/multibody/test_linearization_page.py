"""The page docs/linearization.md is executed."""

from test_docs import ROOT, execute, python_blocks


def test_the_page_runs() -> None:
    page = ROOT / "docs" / "linearization.md"
    execute(page)
    assert len(python_blocks(page)) >= 4
    assert page.read_text().count("assert ") >= 7
