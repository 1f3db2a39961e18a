"""What users install is what works: under their pytest, and where nothing but the package is written."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from installed import install

PROJECT = """
import sys
from connections import multibody as mb

def test_arm():
    robot = mb.example("arm")
    assert robot.nv == 6 and mb.mass_matrix(robot, robot.neutral()).shape == (6, 6)

def test_their_assertions_are_explained_and_ours_are_python_s():
    assert sys.modules["connections.multibody"].__loader__.__class__.__name__ == "SourceFileLoader"
    number = 6
    assert number == 7
"""
ZIPPED = """
import sys
from connections.multibody.program.compiled_functions import compiled
from connections.engines.source_fingerprint import fingerprint, text_fingerprint
assert ".zip" in sys.modules["connections.engines.inlined.simd"].__file__
from connections import referee
from connections import multibody as mb
print(mb.example("four_bar"), len(referee.robots()), mb.example_path("arm").read_text()[:30])
print(fingerprint(compiled.function("mass_matrix_at")), text_fingerprint("connections.engines.inlined.simd"))
"""


def run(words: list[str], package: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """A new process in a folder of its own, which has the package from another one, and caches of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "PYTEST_", "PYTHON"))}
    environment = kept | {"PYTHONPATH": str(package), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-B", *words], env=environment, cwd=folder, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("installed") / "site-packages")


def test_a_strangers_pytest(package: Path, tmp_path: Path) -> None:
    """pytest would rewrite the whole package, because it has a plugin. And `pip uninstall` leaves nothing."""
    (tmp_path / "test_arm.py").write_text(PROJECT)
    before = set(package.rglob("*"))
    done = run(["-m", "pytest", "-q", "-p", "no:cacheprovider"], package, tmp_path)
    assert "1 failed, 1 passed" in done.stdout and "assert 6 == 7" in done.stdout, done.stdout + done.stderr
    assert set(package.rglob("*")) == before
    assert list((tmp_path / "cache" / "connections").glob("numba-*/entries.mass_matrix_at-*.nbc"))


@pytest.mark.further
def test_a_strangers_pytest_that_rewrites_all(package: Path, tmp_path: Path) -> None:
    """As where something imports the package before the plugin is there."""
    (tmp_path / "test_arm.py").write_text(PROJECT)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:affine-connections", "-k", "test_arm"]
    done = run(words, package, tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.further
def test_from_an_archive_the_sources_are_the_same(package: Path, tmp_path: Path) -> None:
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as written:
        for path in package.rglob("*"):
            written.write(path, path.relative_to(package))
    zipped = run(["-c", ZIPPED], archive, tmp_path)
    assert zipped.returncode == 0, zipped.stderr
    plain = run(["-c", ZIPPED.replace('".zip" in', "")], package, tmp_path)
    assert zipped.stdout == plain.stdout != ""
