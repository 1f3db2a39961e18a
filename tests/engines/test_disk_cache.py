"""Machine code on disk: damaged files are compiled again; without a folder to write to, functions work."""

import ast
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core.compiler import CompileResult
from numba.core.lowering import Environment

import connections
from connections.engines import disk_cache
from connections.engines.inlined.simd import compiled_entry
from connections.engines.internals.numba_names import set_cache
from connections.engines.registry import Registry

SOURCE = """
def double(x):
    return x + x


def treble(x):
    return x + x + x
"""
PENDULUM = """
import numpy as np
from connections import multibody as mb
from connections.multibody.kernels import loop_entries
mechanism = mb.Mechanism()
mechanism.add_body("bob", mass=2.0, center_of_mass=(0, 0, -0.5), inertia=np.eye(3) / 100)
mechanism.add_joint("pivot", "world", "bob", mb.Revolute((0, 1, 0)))
model = mechanism.build()
assert abs(mb.gravity(model, np.array([0.3]))[0] - 9.81 * np.sin(0.3)) < 1e-12
"""


def kept(function):
    """As `registry.Registry` does."""
    compiled = compiled_entry(function)
    set_cache(compiled, disk_cache.cache_of(compiled))
    return compiled


class Functions:
    """Two functions in a file of their own, and the folder of their machine code."""

    def __init__(self, folder: Path) -> None:
        (folder / "functions.py").write_text(SOURCE)
        spec = importlib.util.spec_from_file_location("functions", folder / "functions.py")
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.folder = folder / "cache"

    def run(self, name: str = "double", decorator=kept) -> int:
        """Call a function as a new process would; how often its machine code was found on disk."""
        function = decorator(getattr(self.module, name))
        assert function(2.0) == (4.0 if name == "double" else 6.0)
        return sum(function.stats.cache_hits.values())

    def file(self, kind: str, name: str = "double") -> Path:
        (found,) = self.folder.rglob(f"functions.{name}-*.{kind}")
        return found


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Functions:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    disk_cache._warn_once.cache_clear()
    return Functions(tmp_path)


def cut_off(functions: Functions, kind: str) -> None:
    path = functions.file(kind)
    path.write_bytes(path.read_bytes()[:-20])


def another_program(functions: Functions, kind: str) -> None:
    functions.file(kind).write_bytes(b"#!/bin/sh\necho no\n")


def empty(functions: Functions, kind: str) -> None:
    functions.file(kind).write_bytes(b"")


def another_function(functions: Functions, kind: str) -> None:
    functions.run("treble")
    shutil.copyfile(functions.file("nbc", "treble"), functions.file("nbc"))


def of_other_sources(functions: Functions, kind: str) -> None:
    """As when somebody gives a file the name of another one, in which the hash of the sources is."""
    present = functions.file("nbc")
    functions.module.double.__defaults__ = (1.0,)
    functions.run()
    functions.module.double.__defaults__ = None
    (other,) = set(functions.folder.rglob("functions.double-*.nbc")) - {present}
    shutil.copyfile(other, present)


def without_a_seal(functions: Functions, kind: str) -> None:
    shutil.rmtree(functions.folder)
    functions.run(decorator=numba.njit(cache=True, error_model="numpy"))


def other_machine_code(functions: Functions, kind: str) -> None:
    """One bit of an instruction; Numba alone would run it."""
    path = functions.file(kind)
    content = bytearray(path.read_bytes())
    content[content.index(b"\x7fELF") + 0x41] ^= 1
    path.write_bytes(content)


def test_environments_of_functions_that_no_module_has_are_not_kept(functions, monkeypatch) -> None:
    """Numba keeps those that nothing has removed yet, and cannot read them in another process."""
    alive = Environment({"__name__": "<dynamic>"})
    alive.env_name = "_ZN08NumbaEnvNone"
    monkeypatch.setattr(CompileResult, "_find_referenced_environments", lambda self: [alive])
    assert functions.run() == 0
    Environment._memo.pop(alive.env_name, None)
    assert functions.run() == 1


@pytest.mark.parametrize(
    ("damage", "kind"),
    [(damage, kind) for damage in (cut_off, empty, another_program) for kind in ("nbi", "nbc")]
    + [(damage, "nbc") for damage in (another_function, of_other_sources, without_a_seal)]
    + [(other_machine_code, "nbc")],
)
def test_a_damaged_file_is_compiled_again(functions: Functions, damage, kind: str) -> None:
    assert functions.run() == 0
    assert functions.run() == 1
    damage(functions, kind)
    assert functions.run() == 0
    assert functions.run() == 1


def test_versions_of_the_sources_share_a_folder(functions: Functions) -> None:
    """Two checkouts, or Python with and without -O, by turns: neither replaces what the other compiled."""
    hits = []
    for defaults in (None, (1.0,), None, (1.0,)):
        functions.module.double.__defaults__ = defaults
        hits.append(functions.run())
    assert hits == [0, 0, 1, 1]


def test_code_of_an_edited_function_is_not_run_and_numba_alone_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function that is called from another file is edited."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "calling_one.py").write_text(
        "from called_one import size\n\n\ndef sized(x):\n    return x * size()\n"
    )

    def results(size: float) -> list[float]:
        (tmp_path / "called_one.py").write_text(
            f"from numba import njit\n\n\n@njit\ndef size():\n    return {size}\n"
        )
        for name in ("called_one", "calling_one"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sized = importlib.import_module("calling_one").sized
        return [decorator(sized)(2.0) for decorator in (kept, numba.njit(cache=True))]

    assert results(3.0) == [6.0, 6.0]
    assert results(5.0) == [10.0, 6.0]


def test_numba_alone_takes_another_functions_file(functions: Functions) -> None:
    """A negative control: why the seal holds the name."""
    plain = numba.njit(cache=True)
    functions.run(decorator=plain)
    functions.run("treble", plain)
    shutil.copyfile(functions.file("nbc", "treble"), functions.file("nbc"))
    assert plain(functions.module.double)(2.0) == 6.0


def test_a_disk_that_cannot_be_written_is_warned_of_once(functions: Functions) -> None:
    functions.run()
    ours = [kept(getattr(functions.module, name)) for name in ("double", "treble")]
    shutil.rmtree(functions.folder)
    functions.folder.write_text("a file where the folder was")
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR") as warned:
        assert [function(2.0) for function in ours] == [4.0, 6.0]
    assert len(warned) == 1


@pytest.mark.further
def test_without_any_folder_to_write_robots_work(tmp_path: Path) -> None:
    """Another user than the one who installed the package, without a home.

    The superuser, as in a container's CI, writes everywhere; so its process gives up that power.
    """
    package = tmp_path / "site-packages"
    sources = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(connections.__file__).parent, package / "connections", ignore=sources)
    (package / "home").mkdir()
    for folder in (*package.rglob("*/"), package):
        folder.chmod(0o555)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XDG_", "NUMBA_", "PYTHON"))}
    powerless = ["setpriv", "--bounding-set=-all"] if os.geteuid() == 0 else []
    try:
        done = subprocess.run(
            [*powerless, sys.executable, "-c", PENDULUM],
            env=kept | {"PYTHONPATH": str(package), "HOME": str(package / "home")},
            cwd=package,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("compiled functions cannot be kept on disk") == 1
        assert not list(package.rglob("__pycache__"))
    finally:
        for folder in (package, *package.rglob("*/")):
            folder.chmod(0o755)


ONE_NAME = """
import sys
from numba import njit
from connections.engines.disk_cache import cache_of
from connections.engines.internals.numba_names import set_cache
from connections.engines.registry import Registry
if "counts from one" in sys.argv:  # as Numba does
    import itertools
    from numba.core.bytecode import FunctionIdentity
    FunctionIdentity._unique_ids = itertools.count(1)
def inner(number):
    @njit(no_cpython_wrapper=True)
    def value(x):
        total = 0.0
        for k in range(int(x) + 3):
            total += number * k ** 0.5
        return total if total >= 0.0 else value(x - 1.0)
    return value
one, two = inner(1.0), inner(2.0)
@njit
def first(x):
    return one(x)
@njit
def second(x):
    return two(x)
for function in (first, second):
    set_cache(function, cache_of(function))
print([globals()[name](5.0) / (1.0 if name == "first" else 2.0) for name in sys.argv[1].split(",")])
"""


@pytest.mark.parametrize("numbers", ["", "counts from one"])
def test_functions_of_one_name_that_two_processes_compiled_are_told_apart(
    numbers: str, tmp_path: Path
) -> None:
    """Negative control: with Numba's own numbers, from one on in each process, one is called for both."""
    program = tmp_path / "program.py"
    program.write_text(ONE_NAME)

    def run(names: str) -> list[float]:
        given = [sys.executable, str(program), names, *([numbers] if numbers else [])]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(given, env=environment, capture_output=True, text=True, check=True, timeout=120)
        return ast.literal_eval(done.stdout)

    (alone,), (other,) = run("first"), run("second")
    assert alone == other
    together = run("first,second") == [alone, alone] == run("second,first")
    assert together == (not numbers)


def test_a_function_that_was_compiled_into_another_one_first_is_kept(functions: Functions) -> None:
    """Numba compiles what a function calls without a look at its cache, so that later nothing was kept."""

    def process() -> Registry:
        inner = compiled_entry(functions.module.double)
        outer = compiled_entry(lambda x: inner(x) + x)
        found = {"inner": inner, "outer": outer}
        return Registry(found, lambda name: (found[name], [1.0]), lambda name: None)

    first = process()
    assert first.outer(2.0) == 6.0 and first.inner(2.0) == 4.0
    assert process().is_kept("inner")
    functions.file("1.nbc").unlink()
    assert not process().is_kept("inner")
