"""Pages of the documentation, whose code is run.

`python tests/support/pages.py docs/control.md docs/figures` writes the pictures that a page saves.
"""

import re
import shutil
import sys
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

ROOT = Path(__file__).parents[2]


BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```$)?", re.MULTILINE | re.DOTALL
)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")
AS_IN_A_NEW_PROCESS = {"precision": 8, "suppress": False, "threshold": 1000, "edgeitems": 3, "linewidth": 75}


def python_blocks(path: Path) -> list[tuple[int, str, str]]:
    """(line number, source, what it prints as shown) of the fenced python blocks of a Markdown file."""
    text = path.read_text()
    return [
        (text[: match.start("code")].count("\n"), match["code"], match["shown"] or "")
        for match in BLOCK.finditer(text)
    ]


def execute(path: Path, pictures: Path | None = None) -> dict:
    """Run all python blocks of a page in one namespace, in an empty folder; they print what the page shows.

    Tracebacks carry the page's own line numbers. Pictures that the code saves go to the folder `pictures`.
    Arrays are printed as for a reader: a library that other tests import sets five digits for all.
    """
    namespace: dict = {"__name__": path.stem}
    with TemporaryDirectory() as folder, chdir(folder), np.printoptions(**AS_IN_A_NEW_PROCESS):
        for line, source, shown in python_blocks(path):
            with redirect_stdout(StringIO()) as printed:
                exec(compile("\n" * line + source, str(path), "exec"), namespace)
            found = printed.getvalue()
            assert agrees(found, shown), f"{path.name}, line {line}, printed:\n{found}\nshown:\n{shown}"
        for picture in Path().glob("*.png") if pictures else ():
            shutil.copy(picture, pictures)
    return namespace


def agrees(printed: str, shown: str) -> bool:
    """Whether the words are equal, and the numbers to the digits shown; spaces are free.

    Numbers below 1e-9 are rounding errors, and numbers above 1e9 are ratios to rounding errors.
    """

    def words(text: str) -> list[str]:
        return NUMBER.sub("#", text).replace("[ ", "[").split()

    def close(a: float, b: str) -> bool:
        digits, _, power = b.partition("e")
        unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        return abs(a - float(b)) <= 0.5 * unit or max(abs(a), abs(float(b))) < 1e-9 or min(a, float(b)) > 1e9

    here, there = NUMBER.findall(printed), NUMBER.findall(shown)
    return words(printed) == words(shown) and all(
        close(float(a), b) for a, b in zip(here, there, strict=True)
    )


def run_page(name: str, blocks: int, assertions: int = 0) -> None:
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


if __name__ == "__main__":
    execute(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
