"""Machine code on disk is never older than the sources of the kernels in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import connections

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


def stamp(folder: Path) -> str:
    """The fingerprint of the sources in `folder`."""
    program = "from connections.multibody.kernels.stamp import STAMP; print(STAMP)"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def edit(path: Path) -> None:
    path.write_text(path.read_text() + "\n# edited\n")


def test_an_edited_public_function_compiles_nothing_again(tmp_path):
    shutil.copytree(Path(connections.__file__).parent, tmp_path / "connections")
    multibody = tmp_path / "connections" / "multibody"
    before = stamp(tmp_path)
    edit(multibody / "functions.py")
    for path in (multibody / "dynamics").glob("*.py"):
        if path.name not in ("table.py", "entries.py"):  # what kernels call is under the decorators of `simd`
            assert not any(kind in path.read_text() for kind in ("@inlined", "@routine", "@one", "@rows"))
            edit(path)
    assert stamp(tmp_path) == before
    for path in ("dynamics/table.py", "dynamics/entries.py", "kernels/algebra.py", "tolerances.py"):
        edit(multibody / path)
        assert stamp(tmp_path) != before
        before = stamp(tmp_path)


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
