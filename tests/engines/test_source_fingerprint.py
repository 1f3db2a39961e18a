"""What counts in the hash of a function that Numba compiles, and what does not."""

import importlib.abc
import importlib.util
import py_compile
import sys
import types
from pathlib import Path

import pytest
from numba import njit

from connections.engines import source_fingerprint
from connections.engines.source_fingerprint import fingerprint

SOURCE = '''"""A module."""

from collections import namedtuple
from functools import partial

import numpy as np
from numba import njit
from numba.extending import intrinsic

from connections.engines.inlined.simd import inlined, slots_of
from connections.engines.source_fingerprint import running_code

SCALE, SIZES, TABLE = 2.0, (1, 2), np.array([1.0, 2.0])
Part = namedtuple("Part", "first second")
PART = Part(0, 4)
NEITHER = frozenset({"left", "right"})


def emitted(builder, x):
    """Run while Numba compiles."""
    return builder.fadd(x, x)


@intrinsic
def twice(typing_context, x):
    """Twice a number."""

    def emit(context, builder, sig, args):
        return emitted(builder, args[0])

    return x(x), emit


@inlined
def inner(x):
    """A function that others call."""
    return twice(x) + SCALE * SIZES[0] + PART.second  # a comment


@njit
def other(x):
    return x + 7.0


def _made(number):
    @njit
    def added(x):
        return x + number

    return added


add = _made(3.0)


def outer(x, flag=True):
    """What is compiled."""
    total = inner(x) + add(x)
    for name in ("a", "b"):
        total += TABLE[1] if name in {"a", "c"} else 0.0
    return total - other(x) * inner(x)


def unused(x):
    return x + SCALE * 11.0
'''


def fingerprint_of(source: str, folder: Path, name: str = "outer") -> str:
    path = folder / "functions_to_be_hashed.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        return fingerprint(getattr(module, name))
    finally:
        del sys.modules[path.stem]


@pytest.fixture(autouse=True)
def without_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two texts of one second and size have the same time, by which Python knows its own files."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def edited(old: str, new: str) -> str:
    assert SOURCE.count(old) == 1, old
    return SOURCE.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# a comment", "# another comment"),
        ('"""A module."""', '"""The same module,\nin two lines.\n"""\n\n'),
        ('"""What is compiled."""', '"""What Numba compiles."""'),
        ('"""A function that others call."""', '"""Called by others."""'),
        ('"""Twice a number."""', '"""A number, twice."""'),
        ('"""Run while Numba compiles."""', '"""Run once."""'),
        ("x + SCALE * 11.0", "x + SCALE * 12.0"),
        ('frozenset({"left", "right"})', 'frozenset({"left", "middle"})'),
        ("@njit\ndef other", "\n\n@njit\ndef other"),
    ],
)
def test_these_edits_change_nothing(old: str, new: str, tmp_path: Path) -> None:
    assert fingerprint_of(edited(old, new), tmp_path) == fingerprint_of(SOURCE, tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x + 7.0", "x + 8.0"),
        ("x + 7.0", "x - 7.0"),
        ("TABLE = 2.0, (1, 2), np", "TABLE = 3.0, (1, 2), np"),
        ("(1, 2)", "(1.0, 2)"),
        ("np.array([1.0, 2.0])", "np.array([1.0, 3.0])"),
        ("PART = Part(0, 4)", "PART = Part(0, 5)"),
        ('"first second"', '"second first"'),
        ("_made(3.0)", "_made(4.0)"),
        ("flag=True", "flag=False"),
        ("@njit\ndef other", "@njit(fastmath=True)\ndef other"),
        ("@intrinsic\n", "@intrinsic(prefer_literal=True)\n"),
        ("builder.fadd", "builder.fsub"),
        ("return x(x), emit", "return x(x, x), emit"),
        ("def unused", "inner, other = other, inner\n\n\ndef unused"),
        ('{"a", "c"}', '{"a", "d"}'),
        ('("a", "b")', '("a", "c")'),
        ("inner(x) + add(x)", "add(x) + inner(x)"),
        ("other(x) * inner(x)", "inner(x) * other(x)"),
        ("SCALE * SIZES[0]", "SCALE * SIZES[1]"),
    ],
)
def test_these_edits_count(old: str, new: str, tmp_path: Path) -> None:
    assert fingerprint_of(edited(old, new), tmp_path) != fingerprint_of(SOURCE, tmp_path)


def test_an_edit_of_another_function_of_a_module_that_defines_types_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing names the functions that a module gives to Numba's operators, so that its whole text counts."""
    whole = edited("SCALE, SIZES", "THIS_MODULE = running_code()\nSCALE, SIZES")
    path = tmp_path / "functions_to_be_hashed.py"
    path.write_text("")
    sys.path.insert(0, str(tmp_path))
    try:
        first = fingerprint_of(whole, tmp_path)
        assert fingerprint_of(whole.replace("# a comment", "# another"), tmp_path) == first
        assert fingerprint_of(whole.replace('"""A module."""', '"""The module."""'), tmp_path) == first
        monkeypatch.setitem(sys.modules, "emitted", types.ModuleType("emitted"))  # a name in the code
        assert fingerprint_of(whole, tmp_path) == first
        assert fingerprint_of(whole.replace("x + SCALE * 11.0", "x + SCALE * 12.0"), tmp_path) != first
    finally:
        sys.path.remove(str(tmp_path))


class OfItsOwn(importlib.abc.Loader):
    """Executes a module, and can give neither its text nor its code again, like pytest's loader."""

    def __init__(self, text: str) -> None:
        self._text = text

    def exec_module(self, module: types.ModuleType) -> None:
        exec(compile(self._text, module.__name__, "exec"), vars(module))


def test_no_loader_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that defines types, from a file and from a loader of its own: the same hash."""
    whole = edited("SCALE, SIZES", "THIS_MODULE = running_code()\nSCALE, SIZES")
    spec = importlib.util.spec_from_loader("functions_to_be_hashed", OfItsOwn(whole))
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert fingerprint(module.outer) == fingerprint_of(whole, tmp_path)


def test_texts_that_are_not_installed_are_hashed_by_their_bytecode(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    hashes = []
    for number in (1, 1, 2):
        path = tmp_path / "without_text.py"
        path.write_text(f"def one():\n    return {number}\n")
        py_compile.compile(str(path), cfile=str(tmp_path / "without_text.pyc"))
        path.unlink()
        importlib.invalidate_caches()
        sys.modules.pop("without_text", None)
        source_fingerprint._code_of.cache_clear()
        hashes.append(source_fingerprint.text_fingerprint("without_text"))
    sys.modules.pop("without_text", None)
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SCALE * SIZES[0]", "SCALE * THING"),
        ("SCALE * SIZES[0]", "SCALE * len(Thing)"),
    ],
)
def test_what_cannot_be_told_from_something_else_is_an_error(old: str, new: str, tmp_path: Path) -> None:
    """An object of which only the address is known; a class of a module that does not keep its hash."""
    thing = "import threading\n\nTHING = threading.Lock()\n\n\nclass Thing:\n    size = 1\n"
    with pytest.raises(TypeError, match="cannot be told|THIS_MODULE"):
        fingerprint_of(edited(old, new) + thing, tmp_path)


def test_a_function_and_what_numba_makes_of_it_differ_by_its_options() -> None:
    def doubled(x):
        return x + x

    assert len({fingerprint(each) for each in (doubled, njit(doubled), njit(nogil=True)(doubled))}) == 3
