"""Machine code on disk is never older than the sources of the kernels in it."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import connections
from connections.engines.source_fingerprint import INLINED
from connections.multibody.kernels import kernel_fingerprint

STAMP_FILE = Path(kernel_fingerprint.__file__)
SCRIPT = """
import numpy as np
from connections import multibody as mb
mechanism = mb.Mechanism()
mechanism.add_body("bob", mass=2.0, center_of_mass=(0, 0, -0.5), inertia=np.eye(3) / 100)
mechanism.add_joint("pivot", "world", "bob", mb.Revolute((0, 1, 0)))
model = mechanism.build()
print(mb.gravity(model, np.array([0.3]))[0])
"""


def run(folder: Path) -> float:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


#: Prints the fingerprint of the sources, again after each line that it reads.
FINGERPRINTS = """
import importlib, sys
from connections.multibody.kernels import kernel_fingerprint
print(kernel_fingerprint.STAMP, flush=True)
for line in sys.stdin:
    print(importlib.reload(kernel_fingerprint).STAMP, flush=True)
"""


class Stamps:
    """The fingerprints of the sources in a folder, by one process."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        self._child = subprocess.Popen(
            [sys.executable, "-c", FINGERPRINTS],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first = self._read()

    def now(self) -> int:
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        return self._read()

    def end(self) -> None:
        self._child.stdin.close()
        assert self._child.wait(60) == 0

    def _read(self) -> int:
        return int(self._child.stdout.readline())


def edit(path: Path) -> None:
    path.write_text(path.read_text() + "\n# edited\n")


@pytest.mark.further
def test_an_edited_public_function_compiles_nothing_again(tmp_path):
    shutil.copytree(Path(connections.__file__).parent, tmp_path / "connections")
    multibody = tmp_path / "connections" / "multibody"
    stamps = Stamps(tmp_path)
    edit(multibody / "functions.py")
    for path in [*multibody.glob("program/*.py"), *multibody.glob("as_geometry/*.py")]:
        if path.name not in ("table.py", "entries.py"):  # what kernels call is under the decorators of `simd`
            assert not any(kind in path.read_text() for kind in ("@inlined", "@routine", "@one", "@rows"))
            edit(path)
    assert stamps.now() == stamps.first
    seen = {stamps.first}
    for path in ("program/table.py", "program/entries.py", "kernels/algebra.py", "tolerances.py"):
        edit(multibody / path)
        seen.add(stamps.now())
    assert len(seen) == 5
    stamps.end()


@pytest.mark.further
def test_an_edited_kernel_is_compiled_again(tmp_path):
    shutil.copytree(Path(connections.__file__).parent, tmp_path / "connections")
    first = run(tmp_path)
    assert run(tmp_path) == first  # read from the cache
    kernel = tmp_path / "connections" / "multibody" / "kernels" / "newton_euler.py"
    source = kernel.read_text()
    edited = source.replace("hx * gz - hz * gx, ", "2.0 * (hx * gz - hz * gx), ")
    assert edited != source
    kernel.write_text(edited)
    assert run(tmp_path) == 2.0 * first


def _imported(module: str) -> dict[str, set[str]]:
    """Module of the package -> the names that a source imports from it."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(Path(importlib.import_module(module).__file__).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("connections"):
            found.setdefault(node.module, set()).update(alias.name for alias in node.names)
    return found


def test_all_that_kernels_import_is_in_the_fingerprint():
    """Files of the kernels and of the engine are; from other modules, tolerances, and numbers by value."""
    folders = {"connections.multibody.kernels": STAMP_FILE.parent, "connections.engines.inlined": INLINED}
    whole = {
        *folders,
        "connections.multibody.tolerances",
        "connections.engines.disk_cache",
        "connections.engines.internals.numba_names",
    }  # the last two: no code
    source = STAMP_FILE.read_text()
    call = next(
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "fingerprint"
    )
    listed = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    assert {"_HERE", "INLINED", "_RENDERING", "tolerances"} <= listed
    kinds = set()
    for package, folder in folders.items():
        for path in folder.glob("*.py"):
            if path.name in ("__init__.py", "kernel_fingerprint.py"):
                continue
            for module, names in _imported(f"{package}.{path.stem}").items():
                inside = module in whole or module.rpartition(".")[0] in folders
                if module == "connections.multibody":  # the folder of kernels itself
                    inside = names <= {"kernels"}
                if not inside:
                    assert names <= listed, f"{path.name} imports {names - listed} of {module}"
                    home = importlib.import_module(module)
                    assert all(isinstance(getattr(home, name), int | float) for name in names)
                    kinds |= names
    assert kinds == {"POINT_TOLERANCE", "POSITION", "DISTANCE", "LINEAR", "TWIST"}


@pytest.mark.further
def test_permuted_kinds_are_another_fingerprint(tmp_path):
    shutil.copytree(Path(connections.__file__).parent, tmp_path / "connections")
    clusters = tmp_path / "connections" / "multibody" / "clusters.py"
    before, kinds = clusters.read_text(), "POSITION, DIRECTION, DISTANCE, LINEAR, TWIST = "
    assert kinds in before
    stamps = []
    permuted = before.replace(kinds, "DIRECTION, POSITION, DISTANCE, LINEAR, TWIST = ")
    for text in (before, permuted, before + "\n# edited\n"):
        clusters.write_text(text)
        child = Stamps(tmp_path)
        stamps.append(child.first)
        child.end()
    assert stamps[0] != stamps[1] and stamps[0] == stamps[2]
