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


#: Prints the fingerprint of the sources, again after each line that it reads.
FINGERPRINTS = """
import importlib, sys
from connections.multibody.kernels import stamp
print(stamp.STAMP, flush=True)
for line in sys.stdin:
    print(importlib.reload(stamp).STAMP, flush=True)
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


def test_an_edited_public_function_compiles_nothing_again(tmp_path):
    shutil.copytree(Path(connections.__file__).parent, tmp_path / "connections")
    multibody = tmp_path / "connections" / "multibody"
    stamps = Stamps(tmp_path)
    edit(multibody / "functions.py")
    for path in (multibody / "dynamics").glob("*.py"):
        if path.name not in ("table.py", "entries.py"):  # what kernels call is under the decorators of `simd`
            assert not any(kind in path.read_text() for kind in ("@inlined", "@routine", "@one", "@rows"))
            edit(path)
    assert stamps.now() == stamps.first
    seen = {stamps.first}
    for path in ("dynamics/table.py", "dynamics/entries.py", "kernels/algebra.py", "tolerances.py"):
        edit(multibody / path)
        seen.add(stamps.now())
    assert len(seen) == 5
    stamps.end()


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
