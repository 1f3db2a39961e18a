"""``connections sweep python my_sweep.py:motions``: what can be wrong before anything is computed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from connections import cli

CODE = """\
from connections.sweeps import Output, Sweep

def values(chunk):
    return {"x": [0.0] * chunk.rows}

def motions(rows=10):
    return Sweep("motions", values, rows, {"x": Output()})

def many(rows):
    return motions(rows)

def always():
    return motions()

own = motions()

def of_cases(cases, rows=10):
    return motions(rows)

def nothing():
    pass

def raises():
    return Sweep("raises", values, 10, {})

RATE = 2.0
"""
WRONG = {
    "my_sweep.py:motoins": "has no 'motoins'; did you mean motions? It defines motions, many, always, own, "
    "nothing, raises.",
    "my_sweep.py": "say what to compute: my_sweep.py:NAME It defines motions",
    "my_sweep.py:RATE": "my_sweep.py:RATE is a float Expected a Sweep, or a function that returns one",
    "my_sweep.py:Sweep": "Sweep takes arguments: name, function, rows, outputs",
    "my_sweep.py:values": "my_sweep.py:values takes arguments: chunk Expected a Sweep",
    "my_sweep.py:many": "my_sweep.py:many takes arguments: rows",
    "my_sweep.py:of_cases --rows 5": "my_sweep.py:of_cases takes arguments: cases",
    "my_sweep.py:own --rows 5": "my_sweep.py:own is no function that --rows could be given to",
    "my_sweep.py:always --rows 5": "my_sweep.py:always has no argument for --rows",
    "my_sweep.py:nothing": "my_sweep.py:nothing() is a NoneType",
    "my_sweep.py:raises": "my_sweep.py:raises raises an error SweepError: outputs: a sweep gives",
    "broken.py:own": "broken.py cannot be imported SyntaxError: '(' was never closed broken.py, line 1",
    "my_sweeps.py:own": "there is no file my_sweeps.py; did you mean my_sweep.py?",
    "my_sweep.txt:own": "my_sweep.txt is not a Python file",
}


@pytest.mark.parametrize("words", WRONG)
def test_errors_in_words(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, lines of at most 80 columns, no store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_sweep.py").write_text(CODE)
    (tmp_path / "broken.py").write_text("x = (1,\n")
    status = cli.main(["sweep", "python", *words.split(), "--output", "s"])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "") and err.startswith("connections: error: ")
    assert max(map(len, err.splitlines())) <= 80 and "Traceback" not in err
    assert WRONG[words] in " ".join(err.split())
    assert not (tmp_path / "s").exists()


def test_the_help_fits_into_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main(["sweep", "python", "--help"])
    out = capsys.readouterr().out
    assert "FILE.py:NAME" in out and max(map(len, out.splitlines())) <= 80
