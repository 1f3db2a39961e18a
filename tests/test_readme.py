"""The README's code runs in an empty folder, in a new process each, and prints what the README shows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pages import NUMBER, agrees, dead_links, python_blocks

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")
EXAMPLES = [(code, shown) for _, code, shown in python_blocks(README)]


def printed(code: str, folder: Path) -> str:
    """What the code prints in a process whose folder is empty, compiled as a user compiles it."""
    assert not list(folder.iterdir())
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("code", "shown"), EXAMPLES, ids=["metric", "robot"])
def test_code_prints_what_the_page_shows(code: str, shown: str, tmp_path: Path) -> None:
    assert shown.strip()
    found = printed(code, tmp_path)
    assert agrees(found, shown), f"printed:\n{found}\nshown:\n{shown}"


def test_every_block_of_code_is_followed_by_what_it_prints() -> None:
    assert len(EXAMPLES) == 2 and all(shown for _, shown in EXAMPLES)


def test_another_number_another_word_and_a_missing_line_are_noticed() -> None:
    _, shown = EXAMPLES[0]
    number = next(match for match in NUMBER.finditer(shown) if "." in match[0])
    digit = str((int(number[0][-1]) + 1) % 10)
    assert agrees(shown, shown)
    assert not agrees(shown[: number.end() - 1] + digit + shown[number.end() :], shown)
    assert not agrees(shown.replace("C v", "C w", 1), shown)
    assert not agrees("\n".join(shown.splitlines()[:-1]), shown)
    assert agrees("-0.0 [ 1.5 -2.] 1e-17 3e15", "0.0 [1.5  -2.] 0.0 2e16")
    assert (
        agrees("1.24e-3 0.1", "1.2e-03 0.1")
        and not agrees("1.3e-3", "1.2e-03")
        and not agrees("2e-9", "1e-9")
    )


def test_pictures_and_links_exist() -> None:
    assert TEXT.count("](docs/") > 5
    assert dead_links(README) == []


def test_two_commands() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("python3 -m venv")]
    assert len(lines) == 2
    assert lines[0].endswith("&& .venv/bin/connections demo")
    assert lines[1].endswith("&& .venv/bin/python -m pytest -q")
