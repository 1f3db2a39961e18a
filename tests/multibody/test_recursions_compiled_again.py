"""Machine code on disk is of the present sources: which edits compile which recursions again.

What counts is tested on small functions in `tests/engines/test_source_fingerprint.py`; here it is that
nothing is overlooked in the recursions, and that an edit of one compiles no others.
"""

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jax
import pytest

import connections
from connections import multibody as mb
from connections.engines import source_fingerprint
from connections.engines.source_fingerprint import fingerprint, functions_within
from connections.multibody.kernels import coriolis, newton_euler
from connections.multibody.program import compiled_functions
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.table import RECURSIONS

KERNELS, ENTRIES = "connections.multibody.kernels", "connections.multibody.program.entries"


def function(name: str):
    return compiled_functions._find(name)[0]


# --- nothing is overlooked ----------------------------------------------------------------------------------


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(Path(importlib.import_module(module).__file__).read_text())


@cache
def places(module: str) -> dict[str, tuple[str, str]]:
    """Name in a module -> the module and the name that it has where it is defined; by the text of imports."""
    found = {}
    for node in tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("connections"):
            for alias in node.names:
                found[alias.asname or alias.name] = node.module, alias.name
    return found


@cache
def definitions(module: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree(module).body if isinstance(node, ast.FunctionDef)}


def reached(name: str) -> set[tuple[str, str]]:
    """The functions of modules that an entry reaches, by the names in their texts, not in their bytecode."""
    if name in compiled_functions.SOLVERS:
        waiting = [(f"{KERNELS}.{compiled_functions.SOLVERS[name][2]}", name)]
    else:
        recursion, kind = compiled_functions._parts(name)
        row, closed = RECURSIONS[recursion], name.startswith("closed_")
        waiting = [(f"{KERNELS}.{row.closed if closed else row.kernel}", recursion)]
        text = next(
            node
            for node in ast.walk(tree(ENTRIES))
            if isinstance(node, ast.FunctionDef) and node.name == f"{'loops' if closed else 'tree'}_{kind}"
        )
        waiting += [(ENTRIES, node.id) for node in ast.walk(text) if isinstance(node, ast.Name)]
    found: set[tuple[str, str]] = set()
    while waiting:
        module, called = waiting.pop()
        module, called = places(module).get(called, (module, called))
        if (module, called) in found or called not in definitions(module):
            continue
        found.add((module, called))
        definition = definitions(module)[called]
        nodes = [node for statement in definition.body for node in ast.walk(statement)]
        own = {argument.arg for argument in definition.args.args}
        own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for node in nodes:
            if isinstance(node, ast.Name) and node.id not in own:
                waiting.append((module, node.id))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):  # of a module
                folder, _, name = ".".join(places(module).get(node.value.id, ("", ""))).rpartition(".")
                if folder == KERNELS:
                    waiting.append((f"{folder}.{name}", node.attr))
    return found


@pytest.mark.parametrize("name", sorted(compiled.names))
def test_every_function_that_an_entry_reaches_counts(name):
    expected = {place for place in reached(name) if "multibody" in place[0] or "inlined" in place[0]}
    counted = {(each.__module__, each.__qualname__) for each in functions_within(function(name))}
    assert expected <= counted, expected - counted
    assert len(expected) > 10 or name in ("judge", "linear_at")


#: Prints how many functions Numba compiles for a recursion in a process that has compiled none, and which of
#: them do not count.
COMPILED = """
import json, sys
import numba
from numba.core import event
from connections.engines.source_fingerprint import functions_within
from connections.multibody.program.compiled_functions import _find

seen = set()

class Seen(event.Listener):
    def on_start(self, event):
        seen.add(event.data["dispatcher"].py_func)

    def on_end(self, event):
        pass

entry, arguments = _find(sys.argv[1])
options = {name: option for name, option in entry.targetoptions.items() if name != "nopython"}
with event.install_listener("numba:compile", Seen()):
    numba.njit(**options)(entry.py_func).compile(tuple(map(numba.typeof, arguments)))
ours = {each for each in seen if each.__module__.startswith("connections")}
ours = {each for each in ours if "THIS_MODULE" not in each.__globals__}  # of the others, all lines count
print(json.dumps([len(ours), [each.__qualname__ for each in ours - functions_within(entry)]]))
"""


@pytest.mark.further
@pytest.mark.parametrize("name", ["mass_matrix_rate_rows", "closed_gravity_at", "closure_fine", "motion_at"])
def test_every_function_that_numba_compiles_for_an_entry_counts(name, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(connections.__file__).parents[1])}
    words = [sys.executable, "-c", COMPILED, name]
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    count, overlooked = json.loads(done.stdout)
    assert count > 3 and not overlooked


# --- one edit -----------------------------------------------------------------------------------------------


@pytest.fixture
def edited(monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """Give a kernel the bytecode of itself with another constant."""

    def edit(kernel) -> None:
        code = kernel.py_func.__code__
        monkeypatch.setattr(kernel.py_func, "__code__", code.replace(co_consts=(*code.co_consts, 2.5)))
        source_fingerprint._bytecode_of.cache_clear()

    yield edit
    monkeypatch.undo()
    source_fingerprint._bytecode_of.cache_clear()


def test_an_edited_kernel_changes_the_recursions_that_contain_it_and_no_others(edited):
    kernels = {coriolis.mass_matrix_rate: 2, coriolis.coriolis_matrix: 6, newton_euler.gravity: 4}
    functions = {name: function(name) for name in compiled.names}
    before = {name: fingerprint(each) for name, each in functions.items()}
    assert len({*before.values()}) == len(before)
    for kernel, count in kernels.items():
        within = {name for name, each in functions.items() if kernel.py_func in functions_within(each)}
        edited(kernel)
        after = {name: fingerprint(each) for name, each in functions.items()}
        assert {name for name in before if before[name] != after[name]} == within
        assert len(within) == count
        before = after


#: Prints the hash of every recursion of the package in the current folder.
HASHES = """
import json
from connections.engines.source_fingerprint import fingerprint
from connections.multibody.program.compiled_functions import _find, compiled
print(json.dumps({name: fingerprint(_find(name)[0]) for name in compiled.names}))
"""


def hashes(folder: Path) -> dict[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    words = [sys.executable, "-c", HASHES]
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def copy(folder: Path) -> Path:
    package = folder / "connections"
    shutil.copytree(Path(connections.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new))


@pytest.mark.further
def test_hashes_are_the_same_in_every_process_and_know_no_comments(tmp_path):
    expected = {name: fingerprint(function(name)) for name in compiled.names}
    package = copy(tmp_path)
    assert hashes(tmp_path) == expected
    for path in package.rglob("*.py"):  # every line of code moves, and every file ends with another one
        path.write_text(f"# edited\n{path.read_text()}\n# edited\n")
    replace(package / "engines/inlined/simd.py", '"""The vector with', '"""One vector with')
    replace(package / "engines/inlined/simd.py", '"""The Numba type of LANES', '"""A type of LANES')
    replace(package / "multibody/kernels/coriolis.py", '"""Hdot = C', '"""The rate, Hdot = C')
    assert hashes(tmp_path) == expected


@pytest.mark.further
@pytest.mark.parametrize(
    ("file", "old", "new", "least", "most"),
    [
        ("engines/inlined/simd.py", '(operator.add, "fadd")', '(operator.add, "fsub")', 110, 125),
        ("engines/inlined/twofold.py", "(operator.add, _sum)", "(operator.add, _difference)", 2, 2),
        (
            "multibody/clusters.py",
            "POSITION, DIRECTION, DISTANCE, LINEAR, TWIST =",
            "DIRECTION, POSITION, DISTANCE, LINEAR, TWIST =",
            5,
            9,
        ),
        ("geometry/numerics/scales.py", "POINT_TOLERANCE = ", "POINT_TOLERANCE = 2.0 * ", 100, 120),
        ("multibody/program/entries.py", "reduced.vectors, reduced.result", "reduced.vectors, 0", 24, 24),
    ],
)
def test_an_edit_of_what_is_no_kernel(file, old, new, least, most, tmp_path):
    package = copy(tmp_path)
    replace(package / file, old, new)
    after = hashes(tmp_path)
    changed = [name for name in compiled.names if after[name] != fingerprint(function(name))]
    assert least <= len(changed) <= most


# --- machine code -------------------------------------------------------------------------------------------

SCRIPT = """
import numpy as np
from connections import multibody as mb
mechanism = mb.Mechanism()
mechanism.add_body("bob", mass=2.0, center_of_mass=(0, 0, -0.5), inertia=np.eye(3) / 100)
mechanism.add_joint("pivot", "world", "bob", mb.Revolute((0, 1, 0)))
model = mechanism.build()
print(mb.gravity(model, np.array([0.3]))[0])
"""


def run(folder: Path) -> tuple[float, bool]:
    """What a new process computes, and whether it compiled something."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(folder)}
    environment.pop("CONNECTIONS_QUIET", None)
    words = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return float(done.stdout), "compil" in done.stderr


@pytest.mark.further
def test_an_edited_kernel_is_compiled_again_and_a_comment_compiles_nothing(tmp_path):
    package = copy(tmp_path)
    (first, _), again = run(tmp_path), run(tmp_path)
    assert again == (first, False)  # read from the cache
    for path in (package / "multibody/kernels").glob("*.py"):
        path.write_text(f"# edited\n{path.read_text()}")
    assert run(tmp_path) == (first, False)
    moment = "hx * gz - hz * gx, "
    replace(package / "multibody/kernels/newton_euler.py", moment, f"2.0 * ({moment[:-2]}), ")
    assert run(tmp_path) == (2.0 * first, True)


def test_a_saved_function_of_jax_reaches_no_code_of_other_sources():
    """It contains arrays that were packed for these; the name of what XLA calls holds the hash."""
    robot = mb.example("arm")
    lowered = jax.jit(lambda q: mb.gravity(robot, q)).lower(robot.neutral())
    assert f"@connections_gravity_at_{fingerprint(function('gravity_at'))[:16]}(" in lowered.as_text()
