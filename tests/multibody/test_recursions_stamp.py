"""Machine code on disk is never older than the sources of the kernels in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import connections
from connections.multibody.recursions.stamp import IN_PYTHON

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
    program = "from connections.multibody.recursions.stamp import STAMP; print(STAMP)"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def test_an_edited_public_function_compiles_nothing_again(tmp_path):
    shutil.copytree(Path(connections.__file__).parent, tmp_path / "connections")
    recursions = tmp_path / "connections" / "multibody" / "recursions"
    before = stamp(tmp_path)
    for name in IN_PYTHON:
        (recursions / name).write_text((recursions / name).read_text() + "\n# edited\n")
    assert stamp(tmp_path) == before
    for path in recursions.glob("*.py"):  # what kernels call is under the decorators of `simd`
        decorated = (
            "@inlined" in path.read_text() or "@routine" in path.read_text() or "@one" in path.read_text()
        )
        assert not (decorated and path.name in IN_PYTHON)
    (recursions / "table.py").write_text((recursions / "table.py").read_text() + "\n# edited\n")
    assert stamp(tmp_path) != before


def test_an_edited_kernel_is_compiled_again(tmp_path):
    shutil.copytree(Path(connections.__file__).parent, tmp_path / "connections")
    first = run(tmp_path)
    assert run(tmp_path) == first  # read from the cache
    kernel = tmp_path / "connections" / "multibody" / "recursions" / "newton_euler.py"
    source = kernel.read_text()
    edited = source.replace("hx * gz - hz * gx, ", "2.0 * (hx * gz - hz * gx), ")
    assert edited != source
    kernel.write_text(edited)
    assert run(tmp_path) == 2.0 * first
