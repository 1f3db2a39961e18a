"""`python -O` and `python -OO` compute what Python does: assertions and docstrings hold nothing of it."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import optimized
import pytest
from cases import further

import connections as cn
from connections import _docstrings
from connections import multibody as mb


@pytest.fixture(scope="module")
def plain():
    return json.loads(json.dumps(optimized.results()))


@pytest.mark.parametrize("mode", ["-OO", further("-O")])
def test_results_are_those_of_plain_python(plain, mode):
    """Modules, C byte for byte, citations, help, numbers of a robot and of a connection, rows, errors."""
    command = [sys.executable, mode, str(Path(optimized.__file__))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() == plain.keys()
    for name in found:
        if mode == "-O" or name not in ("fingerprint", "more C"):
            assert found[name] == plain[name], name


def test_a_text_that_was_stripped_is_read_from_the_source(monkeypatch):
    things = [cn, mb, cn.AffineConnection, cn.AffineConnection.torsion, mb.Mechanism.add_joint]
    expected = [_docstrings.inspect.cleandoc(thing.__doc__) for thing in things]
    monkeypatch.setattr(
        _docstrings, "sys", SimpleNamespace(flags=SimpleNamespace(optimize=2), modules=sys.modules)
    )
    assert [_docstrings.docstring_of(thing) for thing in things] == expected
    monkeypatch.setattr(_docstrings.inspect, "getsource", lambda module: (_ for _ in ()).throw(OSError()))
    with pytest.raises(RuntimeError, match="-OO"):
        cn.citation(cn.AffineConnection)
