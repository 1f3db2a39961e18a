"""Which file may import which: the contracts of pyproject.toml, no circle of files, a quick start."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import grimp
import networkx as nx
import pytest

import connections

PACKAGE = Path(connections.__file__).parent
SETTINGS = Path(__file__).parents[1] / "pyproject.toml"
CONTRACTS = {
    contract["id"]: contract
    for contract in tomllib.loads(SETTINGS.read_text())["tool"]["importlinter"]["contracts"]
}

# `import connections` must stay quick: these are imported by the functions that need them.
LAZY = sorted(set(CONTRACTS["packages"]["forbidden_modules"]) - {"pytest"})


# --- contracts ---------------------------------------------------------------------------------------

# File: what it imports, and what the report says of it.
WRONG = {
    "geometry/wrong_name.py": (
        "from connections.affine.koszul import koszul",
        "connections.geometry.wrong_name -> connections.affine.koszul",
    ),
    "geometry/wrong_dots.py": (
        "from ..affine import LeviCivita",
        "connections.geometry.wrong_dots -> connections.affine (",
    ),
    "geometry/wrong_room.py": (
        "from connections import multibody",
        "connections.geometry.wrong_room -> connections.multibody (",
    ),
    "affine/wrong_function.py": (
        "def f():\n    import connections.cli",
        "connections.affine.wrong_function -> connections.cli (l.2)",
    ),
    "coriolis/wrong_type.py": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from connections.verify import Row",
        "connections.coriolis.wrong_type -> connections.verify (l.3)",
    ),
    "attic/__init__.py": ("import numpy", "- connections.attic"),
    "systems/wrong_package.py": (
        "import connections as cn",
        "connections.systems.wrong_package -> connections (",
    ),
    "verify/wrong_package.py": (
        "from connections import LeviCivita",
        "connections.verify.wrong_package -> connections (",
    ),
    "multibody/kernels/wrong_library.py": (
        "import numba",
        "connections.multibody.kernels.wrong_library -> numba",
    ),
    "engines/wrong_room.py": (
        "from connections.multibody.definition import spatial",
        "connections.engines.wrong_room -> connections.multibody.definition.spatial",
    ),
    "multibody/wrong_library.py": (
        "def f():\n    import networkx as nx",
        "connections.multibody.wrong_library -> networkx (l.2)",
    ),
    "interop/wrong_library.py": ("import pydrake.all", "connections.interop.wrong_library -> pydrake"),
    "verify/wrong_library.py": ("import pytest", "connections.verify.wrong_library -> pytest"),
    "plots/wrong_circle.py": (
        "from connections.plots import wrong_back",
        "No cycles are allowed in connections.plots.",
    ),
    "plots/wrong_back.py": (
        "def f():\n    from connections.plots import wrong_circle",
        "No cycles are allowed in connections.plots.",
    ),
}
RIGHT = {
    "affine/right_room.py": "from connections.geometry.frames import FrameField",
    "affine/right_sibling.py": "from .koszul import koszul",
    "engines/inlined/right_library.py": "import numba",
    "cli/right_rooms.py": "from connections import plots, verify",
}


def lint(directory: Path) -> subprocess.CompletedProcess[str]:
    """`lint-imports` on the package `connections` in a directory, with the contracts of this repository."""
    program = "from importlinter.cli import lint_imports_command as lint; lint()"
    options = ["--config", str(SETTINGS), "--no-cache", "--no-logo"]
    wide = os.environ | {"COLUMNS": "1000"}  # no line is broken
    return subprocess.run(
        [sys.executable, "-c", program, *options],
        cwd=directory,
        env=wide,
        capture_output=True,
        text=True,
        check=False,
    )


def report_of(directory: Path, files: Iterable[tuple[str, str]]) -> subprocess.CompletedProcess[str]:
    """The same on a copy of the package with more files."""
    copy = directory / "connections"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, source in files:
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(source + "\n")
    return lint(directory)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report on all wrong files at once."""
    files = [(name, source) for name, (source, _) in WRONG.items()]
    done = report_of(tmp_path_factory.mktemp("wrong"), files)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_contracts_are_kept() -> None:
    done = lint(PACKAGE.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in done.stdout


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_import_is_caught(name: str, wrong: str) -> None:
    assert WRONG[name][1] in wrong


def test_right_imports_pass(tmp_path: Path) -> None:
    done = report_of(tmp_path, RIGHT.items())
    assert done.returncode == 0, done.stdout + done.stderr


# --- private names of libraries ----------------------------------------------------------------------

# `lint-imports` knows of other packages only their first names.
PRIVATE = ("jax._src", "jax.core", "jax.extend", "jax.interpreters", "jaxlib", "numba.core")
PUBLIC = {"jax.core.Tracer"}  # JAX documents it
PRIVATE_ATTRIBUTES = {"_cache", "call_conv", "disable_compile", "fndesc", "overloads"}  # of Numba's objects
INTERNALS = PACKAGE / "engines" / "internals"


def is_private(name: str) -> bool:
    """Whether a name with dots is below a private module."""
    return name.startswith(tuple(f"{module}." for module in PRIVATE)) and name not in PUBLIC


def private_names(source: str) -> list[str]:
    """The private names of JAX and Numba in a source: imports, attributes, and modules named by a text."""
    nodes = list(ast.walk(ast.parse(source)))
    found, meant = [], {}  # a name in the source -> what it stands for
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.append(f"{alias.name}.")
                first = alias.name.split(".")[0]
                meant[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                meant[alias.asname or alias.name] = name = f"{node.module}.{alias.name}"
                found += [name, f"{name}."]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    for node in nodes:
        if isinstance(node, ast.Attribute):
            first, *others = ast.unparse(node).split(".")
            found.append(".".join([meant.get(first, ""), *others]))
    attributes = [node.attr for node in nodes if isinstance(node, ast.Attribute)]
    return [*filter(is_private, found), *(name for name in attributes if name in PRIVATE_ATTRIBUTES)]


def test_private_names_of_libraries_are_in_one_place() -> None:
    found = {path: private_names(path.read_text()) for path in PACKAGE.rglob("*.py")}
    assert {path.name for path, names in found.items() if names and path.parent == INTERNALS} == {
        "jax_names.py",
        "lapack_batches.py",
        "numba_import.py",
        "numba_inlining.py",
        "numba_names.py",
        "processor.py",
    }
    assert {path: names for path, names in found.items() if names and path.parent != INTERNALS} == {}


def imported(path: Path) -> list[str]:
    """What a file of the package imports, in order, behind what the `__init__.py` of its folder does."""
    files = [path.with_name("__init__.py"), path]
    nodes = [node for file in files for node in ast.parse(file.read_text()).body]
    names = [
        (node, alias.name)
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    return [name if isinstance(node, ast.Import) else f"{node.module}.{name}" for node, name in names]


def test_numba_is_imported_behind_what_keeps_it_from_settings_of_the_current_folder() -> None:
    """Imports within functions come later than those of their files."""
    found = {path: [name.partition(".")[0] for name in imported(path)] for path in PACKAGE.rglob("*.py")}
    first = {path: names.index("numba") for path, names in found.items() if "numba" in names}
    assert len(first) >= 6
    for path, number in first.items():
        assert "connections.engines.internals.numba_import" in imported(path)[:number], path


@pytest.mark.parametrize(
    "source",
    [
        "from jax._src.core import trace_state_clean",
        "from jax._src import core",
        "from jax import _src",
        "import jax._src.core",
        "import jax\njax._src.core.trace_state_clean()",
        "from jax.interpreters import mlir",
        "def f():\n    from jax.extend.core import Primitive",
        "import jax as j\nj.interpreters.mlir.lower_fun",
        "import jax\njax.core.eval_jaxpr(traced)",
        "from jaxlib import xla_client",
        "from numba.core import cgutils",
        "from numba import core",
        "import numba\nnumba.core.types.float64",
        "import importlib\nimportlib.import_module('numba.core.caching')",
        "function._cache = ours",
        "function.overloads.values()",
    ],
)
def test_a_private_name_is_caught(source: str) -> None:
    assert private_names(source)


def test_public_names_pass() -> None:
    source = "import jax, numba\nfrom numba.extending import intrinsic\nfrom connections import core\n"
    assert private_names(source + "isinstance(x, jax.core.Tracer)\njax.numpy.sin(numba.types.int64)") == []


# --- circles of files --------------------------------------------------------------------------------


def imports_of(package: str) -> nx.DiGraph:
    """All imports between the files of a package, those in functions and under TYPE_CHECKING included."""
    found = grimp.build_graph(package, cache_dir=None)
    return nx.DiGraph(
        (file, other) for file in found.modules for other in found.find_modules_directly_imported_by(file)
    )


def circles(imports: nx.DiGraph) -> list[list[str]]:
    """The sets of files that import each other, directly or not."""
    return [sorted(files) for files in nx.strongly_connected_components(imports) if len(files) > 1]


@pytest.fixture(scope="module")
def imports() -> nx.DiGraph:
    return imports_of("connections")


def test_files_form_no_circle(imports: nx.DiGraph) -> None:
    assert circles(imports) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from made_up.second import g", "def g():\n    from made_up.first import f"),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .second import G",
            "from . import first",
        ),
        ("from made_up import g", "def g(): ..."),  # by way of the package's __init__
    ],
)
def test_a_circle_is_found(first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "made_up"
    package.mkdir()
    start = "from made_up.first import f\nfrom made_up.second import g"
    for name, source in (("__init__", start), ("first", first), ("second", second)):
        (package / f"{name}.py").write_text(source + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = circles(imports_of("made_up"))
    assert "made_up.first" in found


# --- what a room offers to rooms above ------------------------------------------------------------------

TOP_ROOMS = ("cli", "explorer", "plots", "sweeps", "verify", "referee", "interop")
#: A new name of another room needs a reason, and this number; fewer are better.
MOST_OFFERED = 121
#: Rooms, and parts of rooms, whose public names anybody may use.
PUBLIC_ROOMS = set(runpy.run_path(str(SETTINGS.parent / "docs" / "api_build.py"))["ROOMS"])


def reached(source: str, room: str) -> set[tuple[str, str, str]]:
    """The inner names of other rooms that a source of a room imports: room, file in it, name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            parts = [(alias.name.split("."), "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if node.module in PUBLIC_ROOMS:
                continue
            parts = [(node.module.split("."), alias.name) for alias in node.names]
        else:
            continue
        for (first, other, *file), name in (part for part in parts if len(part[0]) > 1):
            if first == "connections" and other != room and (PACKAGE / other).is_dir():
                found.add((other, ".".join(file), name))
    return found


def offered() -> set[tuple[str, str, str]]:
    """The names that rooms list in their `__init__`."""
    rooms = {path.parent.name: ast.parse(path.read_text()) for path in PACKAGE.glob("*/__init__.py")}
    tables = {
        room: ast.literal_eval(node.value)
        for room, tree in rooms.items()
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_OFFERS"
    }
    return {
        (room, file, name) for room, table in tables.items() for file in table for name in table[file].split()
    }


def test_top_rooms_use_of_others_what_these_offer() -> None:
    used = {
        each
        for room in TOP_ROOMS
        for path in (PACKAGE / room).rglob("*.py")
        for each in reached(path.read_text(), room)
    }
    assert used - offered() == set(), "import the public name, or list it in its room's __init__"
    assert offered() - used == set(), "nobody uses it any more"
    assert len(used) <= MOST_OFFERED


def test_a_name_around_the_lists_is_found() -> None:
    source = (
        "from connections.geometry.frames import FrameField\n"
        "from connections.geometry import FrameField\n"
        "from connections.multibody.joints import Limits\n"
        "from connections.plots.canvas import BLUE\n"
        "def f():\n    import connections.control.laws.gains\n"
    )
    assert reached(source, "plots") == {("geometry", "frames", "FrameField"), ("control", "laws.gains", "")}
    assert ("geometry", "frames", "FrameField") not in offered()


# --- names ------------------------------------------------------------------------------------------------

#: Class names that stand in two files, with the reason.
TWICE = {"Row": "of a report of `referee`, and of one of `verify`: both public, each behind its room"}


def names_that_stand_twice(package: Path) -> set[str]:
    """The names of classes that stand in several places of a package."""
    texts = (path.read_text() for path in package.rglob("*.py"))
    names = Counter(name for text in texts for name in re.findall(r"^ *class (\w+)", text, re.MULTILINE))
    return {name for name, count in names.items() if count > 1}


def test_a_name_of_a_class_stands_once() -> None:
    assert names_that_stand_twice(PACKAGE) == set(TWICE)


def test_a_name_that_stands_twice_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Layout:\n    class Part: ...\n")
    (tmp_path / "other.py").write_text("def f():\n    class Layout(Base): ...\n")
    assert names_that_stand_twice(tmp_path) == {"Layout"}


# --- import connections ------------------------------------------------------------------------------


def test_importing_the_package_is_lazy() -> None:
    program = f"import sys, connections; print(*sorted(set({LAZY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], "imported by `import connections`"


def test_double_precision_is_on() -> None:
    import jax.numpy as jnp

    assert jnp.zeros(1).dtype == jnp.float64


# --- assert --------------------------------------------------------------------------------------------


def narrows(test: ast.expr) -> bool:
    """Whether an assertion says only of which type a value is: `x is not None`, `isinstance(x, T)`, both."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(narrows, values))
        case ast.Compare(left=value, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return is_name(value)
        case ast.Call(func=ast.Name(id="isinstance"), args=[value, _], keywords=[]):
            return is_name(value)
    return False


def is_name(value: ast.expr) -> bool:
    """`a` or `a.b.c`."""
    return isinstance(value, ast.Name) or (isinstance(value, ast.Attribute) and is_name(value.value))


def wrong_assertions(source: str) -> list[str]:
    nodes = ast.walk(ast.parse(source))
    return [ast.unparse(node) for node in nodes if isinstance(node, ast.Assert) and not narrows(node.test)]


def test_assertions_only_narrow_types() -> None:
    """`python -O` leaves them out: none does work, none guards a result."""
    found = {path: wrong_assertions(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    "wrong",
    [
        "self.run(x)",
        "(y := f()) is not None",
        "x",
        "len(x) == 3",
        "x.f() is not None",
        "x is not None or g()",
    ],
)
def test_other_assertions_are_found(wrong: str) -> None:
    assert wrong_assertions(f"def f(x):\n    assert {wrong}, 'a message'")
