"""The page docs/nonholonomic.md is executed."""

from test_docs import ROOT, execute, python_blocks


def test_the_page_runs(capsys) -> None:
    page = ROOT / "docs" / "nonholonomic.md"
    execute(page)
    assert len(python_blocks(page)) >= 5
    assert page.read_text().count("assert ") + page.read_text().count(".require()") >= 5
    assert "the basis is singular, not the system" in capsys.readouterr().out
