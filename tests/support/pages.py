"""Pages of the documentation, whose code is run."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python_blocks(path: Path) -> list[tuple[int, str]]:
    """(line number, source) of the fenced python blocks of a Markdown file."""
    text = path.read_text()
    return [
        (text[: match.start(1)].count("\n"), match.group(1))
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def execute(path: Path) -> dict:
    """Run all python blocks of a page in one namespace; tracebacks carry the page's own line numbers."""
    namespace: dict = {"__name__": path.stem}
    for line, source in python_blocks(path):
        exec(compile("\n" * line + source, str(path), "exec"), namespace)
    return namespace


def run_page(name: str, blocks: int, assertions: int) -> None:
    """Run a page of docs/, which has at least so many blocks and assertions."""
    page = ROOT / "docs" / name
    execute(page)
    assert len(python_blocks(page)) >= blocks
    assert page.read_text().count("assert ") >= assertions


def prose(text: str) -> str:
    """A page without its code: neither blocks nor words between backticks."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(text: str) -> set[str]:
    """Names of the headings of a page, as code hosts and Sphinx derive them."""
    titles = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_links(path: Path) -> list[str]:
    """Links of a page to files or headings that are not there."""
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text())):
        place, _, anchor = target.partition("#")
        file = path.parent / place if place else path
        if not re.match(r"https?://", target) and (
            not file.is_file() or (anchor and anchor not in anchors(file.read_text()))
        ):
            dead.append(target)
    return dead
