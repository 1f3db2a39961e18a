"""Rendered functions stand behind the lines of their file, where Python finds no lines of another's."""

import inspect
from pathlib import Path

import pytest

from connections.engines.rendered import execute

SOURCE = "\ndef double(x):\n    return x + x\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "module.py"
    path.write_text('"""What begins\n\nin a docstring is no module\'s code.\n"""\n')
    return str(path)


def test_python_finds_no_lines(file: str) -> None:
    scope: dict = {}
    execute(SOURCE, file, scope)
    assert scope["double"](2) == 4
    assert scope["double"].__code__.co_filename == file
    with pytest.raises(OSError):
        inspect.getsourcelines(scope["double"])


def test_within_the_file_python_reads_the_docstring(file: str) -> None:
    scope: dict = {}
    exec(compile(SOURCE, file, "exec"), scope)
    try:
        lines, _ = inspect.getsourcelines(scope["double"])
    except Exception as error:  # since Python 3.13
        assert not isinstance(error, OSError)
    else:
        assert "double" not in "".join(lines)
