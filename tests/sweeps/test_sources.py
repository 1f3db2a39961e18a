"""What a store knows of its function: an edited helper refuses it, wherever the helper is."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connections.sweeps import Output, StoreError, Sweep, run_sweep
from connections.sweeps.fingerprint import fingerprint, versions
from connections.sweeps.sources import is_users, sources

OWN = """
import functools
import numpy as np
import own_package.second
from own_package.third import third_of

SCALE = 2.0

def helper(x):
    return SCALE * x

class Law:
    offset = 1.0

    @functools.cached_property
    def slope(self):
        return 0.5

    def __call__(self, x):
        return helper(self.slope * x) + self.offset

def values(chunk):
    from own_package import fourth  # when it is called
    x = np.arange(chunk.start, chunk.stop, dtype=float)
    return {"y": sum(f(x) for f in (Law(), own_package.second.second_of, third_of, fourth.fourth_of))}
"""
FILES = {
    "own_sweep.py": OWN,
    "own_package/__init__.py": "",
    "own_package/second.py": "from . import fifth\n\ndef second_of(x):\n    return x + fifth.SHIFT\n",
    "own_package/third.py": "SHIFT = 3.0\n\ndef third_of(x):\n    return x + SHIFT\n",
    "own_package/fourth.py": "def fourth_of(x):\n    return 4.0 * x\n",
    "own_package/fifth.py": "SHIFT = 5.0\n",
    "own_package/other.py": "SHIFT = 6.0\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The modules of a user, to be imported and edited."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    forget()
    return tmp_path


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def resume(folder: Path, function: Callable | None = None, **options: Any) -> tuple[int, ...]:
    """The chunks that are computed, with the modules as they are now."""
    forget()
    function = function or importlib.import_module("own_sweep").values
    sweep = Sweep("own", function, 4, {"y": Output()}, chunk=2)
    return run_sweep(sweep, folder / "store", workers=0, **options).computed


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert text.count(old) == 1
    (folder / name).write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("own_sweep.py", "return SCALE * x", "return SCALE * x * x", "function"),
        ("own_sweep.py", "SCALE = 2.0", "SCALE = 2.5", "function"),
        ("own_sweep.py", "offset = 1.0", "offset = 1.5", "function"),
        ("own_sweep.py", "return 0.5", "return 0.75", "function"),
        ("own_package/second.py", "x + fifth", "x - fifth", "own_package.second"),
        ("own_package/third.py", "return x +", "return x -", "function"),
        ("own_package/third.py", "SHIFT = 3.0", "SHIFT = 3.5", "function"),
        ("own_package/fourth.py", "4.0", "4.5", "own_package.fourth"),
        ("own_package/fifth.py", "5.0", "5.5", "own_package.fifth"),
    ],
)
def test_what_was_edited_refuses_the_store(folder: Path, name: str, old: str, new: str, said: str) -> None:
    assert resume(folder) == (0, 1)
    assert resume(folder) == ()
    edit(folder, name, old, new)
    with pytest.raises(StoreError, match=said):
        resume(folder)
    edit(folder, name, new, old)
    assert resume(folder) == ()


def test_a_comment_is_refused_unless_it_is_allowed_and_another_file_is_not_noticed(folder: Path) -> None:
    resume(folder)
    edit(folder, "own_package/other.py", "6.0", "6.5")
    assert resume(folder) == ()
    (folder / "own_sweep.py").write_text(OWN + "# a comment\n")
    with pytest.raises(StoreError, match="own_sweep"):
        resume(folder)
    assert resume(folder, other_sources=True) == ()
    edit(folder, "own_sweep.py", "SCALE = 2.0", "SCALE = 2.5")
    with pytest.raises(StoreError, match="function"):
        resume(folder, other_sources=True)


def test_a_package_that_a_module_imports_has_another_version(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "own_package/fifth.py").write_text("import rich\n\nSHIFT = 5.0\n")
    resume(folder)
    real = importlib.metadata.version
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0" if name == "rich" else real(name))
    with pytest.raises(StoreError, match="rich"):
        resume(folder)
    assert resume(folder, other_versions=True) == ()
    assert versions(["yaml"])["yaml"] == real("PyYAML")  # a package of another name than its distribution


@pytest.mark.parametrize(
    ("old", "new"), [("x: SCALE * x", "x: SCALE * x * x"), ("SCALE = 2.0", "SCALE = 2.5"), ("1.0", "1.5")]
)
def test_a_helper_and_a_number_of_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    """A module without a file: what its functions name is read."""
    text = """
SCALE = 2.0
helpers = {"f": lambda x: SCALE * x}

class Law:
    def __call__(self, x):
        return helpers["f"](x) + 1.0

def values(chunk):
    return {"y": Law()(np.arange(chunk.start, chunk.stop, dtype=float))}
"""
    made = []
    for cells in (text, text, text.replace(old, new)):
        notebook = types.ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", notebook)
        exec(f"import numpy as np\n{cells}", notebook.__dict__)
        made.append(notebook.__dict__["values"])
    assert resume(tmp_path, made[0]) == (0, 1)
    assert resume(tmp_path, made[1]) == ()
    with pytest.raises(StoreError, match="function"):
        resume(tmp_path, made[2])


@pytest.mark.further
def test_a_number_that_a_script_reads_from_its_command_line(folder: Path) -> None:
    """In a new process, the same text computes something else."""
    script = folder / "script.py"
    script.write_text(
        "import sys\n"
        + OWN.replace("SCALE = 2.0", "SCALE = float(sys.argv[1])").replace("functools.cached_", "")
        + "from connections.sweeps import Output, StoreError, Sweep, run_sweep\n"
        + "sweep = Sweep('own', values, 4, {'y': Output()}, chunk=2)\n"
        + "print(run_sweep(sweep, 'store', workers=0).computed)\n"
    )

    def run(scale: str) -> subprocess.CompletedProcess:
        command = [sys.executable, str(script), scale]
        found = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert scale != "2.0" or not found.returncode, found.stderr
        return found

    assert [run("2.0").stdout.strip() for _ in range(2)] == ["(0, 1)", "()"]
    assert "StoreError" in run("2.5").stderr


def test_which_modules_are_the_users(folder: Path) -> None:
    assert is_users("__main__") or sys.modules["__main__"].__file__
    assert [is_users(name) for name in ("own_sweep", "own_package.fourth", __name__)] == [True] * 3
    assert not any(map(is_users, ("numpy", "zarr.storage", "json", "builtins", "connections.sweeps")))
    texts, packages = sources(["own_sweep"])
    assert set(texts) == {"own_sweep", "own_package"} | {
        f"own_package.{name}" for name in ("second", "third", "fourth", "fifth")
    }
    assert packages == {"numpy"} and "own_sweep" not in sys.modules


def test_objects_count_by_what_they_say_of_themselves() -> None:
    """Functions inside of objects by their content, whatever pickle would say of them."""

    class Holder:
        def __init__(self, function: Callable) -> None:
            self.function = function

    def holding(scale: float) -> Holder:
        return Holder(lambda x: scale * x)

    assert fingerprint(holding(2.0)) == fingerprint(holding(2.0)) != fingerprint(holding(3.0))
    first, second, other = (np.random.default_rng(seed) for seed in (1, 1, 2))
    assert fingerprint(first) == fingerprint(second) != fingerprint(other)
    mixed = {holding, "text", 2.0}
    assert fingerprint(mixed) == fingerprint({"text", 2.0, holding})
    assert fingerprint(open) == fingerprint(open)
