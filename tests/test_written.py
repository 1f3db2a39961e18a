"""What is written is of this user alone, whatever the umask, and nothing is written through a link."""

import ast
import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import njit

from connections import _jax, _written, cli
from connections import multibody as mb
from connections.cli import printing
from connections.cli.options import require_writable_file
from connections.engines import disk_cache
from connections.engines.internals import numba_names
from connections.multibody.description.mjcf import mujoco_for
from connections.plots import paper
from connections.sweeps import Output, StoreError, Sweep, run_sweep


@pytest.fixture(params=[0o000, 0o077, 0o277], ids=["000", "077", "277"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


def values(chunk):
    return {"x": np.zeros((chunk.rows, 3))}


def make_sweep(path: Path) -> None:
    run_sweep(Sweep("zeros", values, 2, {"x": Output((3,))}), path, workers=0)


def figure(path: Path) -> None:
    paper._write_tables(_written.make_folder(path), [])


#: Everything that writes a folder that the user names, and a file in it.
FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "generate_c": (lambda path: mb.generate_c(mb.example("arm"), ["gravity"], path, name="arm"), "arm.h"),
    "tables": (figure, "exploration.csv"),
    "sweep": (make_sweep, ""),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_modes_of_folders(name: str, umask: None, tmp_path: Path) -> None:
    write, file = FOLDERS[name]
    write(tmp_path / "new" / "folder")
    assert mode(tmp_path / "new") == mode(tmp_path / "new" / "folder") == "700"
    if file:
        assert {mode(path) for path in (tmp_path / "new" / "folder").iterdir()} == {"600"}


def test_modes_of_files(umask: None, tmp_path: Path) -> None:
    path = _written.write_file(tmp_path / "a", "\u00fc\n")
    assert mode(path) == "600" and path.read_bytes() == b"\xc3\xbc\n"
    path.chmod(0o644)
    assert mode(_written.write_file(path, b"2")) == "600" and path.read_bytes() == b"2"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    assert mode(printing.write_rows(tmp_path / "rows", [])) == "600"


@pytest.mark.parametrize("name", FOLDERS)
def test_a_link_in_place_of_a_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "precious")
    with pytest.raises((OSError, StoreError), match="symbolic link.*precious"):
        FOLDERS[name][0](tmp_path / "out")
    assert list((tmp_path / "precious").iterdir()) == []


@pytest.mark.parametrize("name", ["generate_c", "tables"])
@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_place_of_a_file_is_refused(name: str, there: bool, tmp_path: Path) -> None:
    write, file = FOLDERS[name]
    (tmp_path / "out").mkdir()
    precious = tmp_path / "precious"
    if there:
        precious.write_text("mine")
    (tmp_path / "out" / file).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"):
        write(tmp_path / "out")
    assert precious.exists() == there and (not there or precious.read_text() == "mine")


def test_a_report_is_not_written_through_a_link(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "report").symlink_to(tmp_path / "precious")
    for words in (["verify", "--json"], ["audit", "--joints", "--json"]):
        assert cli.main([*words, str(tmp_path / "report")]) == 2
        assert "symbolic link" in capsys.readouterr().err
    for folder in (["figures"], ["demo"], ["explore", "--output"]):
        (tmp_path / "folder").symlink_to(tmp_path)
        assert cli.main([*folder, str(tmp_path / "folder")]) == 2
        assert "symbolic link" in capsys.readouterr().err
        (tmp_path / "folder").unlink()
    require_writable_file(tmp_path / "another")
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize("place", ["x", "x/c", "x/c/0", "checksums/c"])
def test_a_store_is_not_written_through_a_link(place: str, tmp_path: Path) -> None:
    store, away = tmp_path / "store", tmp_path / "precious"
    make_sweep(store)
    (store / "checksums" / "c" / "0" / "0").unlink()  # so that the chunk is computed again
    link = store / place
    link.rename(away)
    link.symlink_to(away)
    before = {path: path.stat().st_mtime_ns for path in (away, *away.rglob("*"))}
    with pytest.raises(StoreError, match="symbolic link"):
        make_sweep(store)
    assert {path: path.stat().st_mtime_ns for path in (away, *away.rglob("*"))} == before


def belongs_to_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder another user's, in fact where the tests run as root."""
    folder.mkdir(parents=True)
    if os.getuid() == 0:
        os.chown(folder, 54321, 54321)
    else:
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)


@pytest.mark.parametrize("place", ["", "connections", "jax"])
def test_the_cache_of_another_user_is_refused(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folders = {"": tmp_path / "cache", "connections": tmp_path / "cache" / "connections"}
    if place == "jax":
        found = _jax.compiled_folder()
        assert found is not None and mode(found) == "700"
        found.rmdir()
        folders["jax"] = found
    belongs_to_another(folders[place], monkeypatch)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert _jax.compiled_folder() is None


def test_a_cache_that_others_could_write_is_closed_and_theirs_removed(
    umask: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = _jax.compiled_folder()
    assert [mode(path) for path in (found, found.parent, found.parent.parent)] == ["700"] * 3
    (found / "link").symlink_to(tmp_path / "elsewhere")
    (found / "mine").write_text("")
    found.chmod(0o777)
    assert _jax.compiled_folder() == found and mode(found) == "700"
    assert [path.name for path in found.iterdir()] == ["mine"]


def function():
    return 2


def test_machine_code_is_of_this_user_alone(
    umask: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    compiled = njit(function)
    numba_names.set_cache(compiled, disk_cache.cache_of(function))
    assert compiled() == 2
    (folder,) = (tmp_path / "cache" / "connections").iterdir()
    assert mode(folder) == mode(folder.parent) == "700"
    assert {mode(path) for path in folder.iterdir()} == {"600"}
    assert len(list(folder.iterdir())) == 2


def test_machine_code_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    belongs_to_another(tmp_path / "cache", monkeypatch)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        cache = disk_cache.cache_of(function)
    assert str(tmp_path) not in str(cache.cache_path)


def test_a_folder_that_looks_like_an_option_reaches_no_compiler_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("-fplugin=x.so")
    mb.generate_c(mb.example("arm"), ["gravity"], folder, name="g")
    seen: list[list[str]] = []

    def run(words: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        seen.append(words)
        return subprocess.CompletedProcess(words, 1, "", "refused")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(RuntimeError, match="refused"):
        mb.load_c(folder)
    assert all(word.startswith(("/", "-f", "-O", "-s", "-I/", "-o", "-lm")) for word in seen[0])
    assert not any(word.startswith("-fplugin") for word in seen[0])


LINK = """<mujoco><worldbody><body><freejoint/><geom size="0.1"/></body></worldbody></mujoco>"""


def test_mujoco_writes_no_log_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mujoco = pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "MUJOCO_LOG.TXT").symlink_to(tmp_path / "precious")
    mujoco_for("this test")
    compiled = mujoco.MjModel.from_xml_string(LINK)
    handler = mujoco.get_mju_user_warning()
    for ours in (True, False):  # the control is MuJoCo's own
        mujoco.set_mju_user_warning(handler if ours else None)
        data = mujoco.MjData(compiled)
        data.qvel[:] = 1e200
        mujoco.mj_step(compiled, data)
        assert (tmp_path / "precious").exists() == (not ours)
    mujoco.set_mju_user_warning(handler)


SOURCES = sorted(Path(_written.__file__).parent.rglob("*.py"))
TEMPORARY = {
    "library_audit.py",
    "library_runs.py",
    "library.py",
    "loading.py",
}  # files in folders of their own


def code_of(path: Path) -> str:
    """A file without comments and texts that stand alone, such as the examples of docstrings."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return ast.unparse(tree)


def test_files_are_written_and_processes_started_in_one_place() -> None:
    """A new writer or process has to use `_written` or `_children`; text is executed nowhere else."""
    writes = re.compile(
        r"write_text|write_bytes|open\([^)]*'[wax]b?'|\.mkdir\(|makedirs|savefig\((?!stream|self)"
    )
    starts = re.compile(r"subprocess\.(run|Popen|call|check)|os\.(system|popen|exec|spawn)")
    codes = {path: code_of(path).replace("open(os.devnull", "") for path in SOURCES}
    found = {path.name for path, code in codes.items() if writes.search(code)}
    assert found - {"_written.py"} == TEMPORARY | {"canvas.py"}  # a figure whose `savefig` the user calls
    executing = {path.name for path, code in codes.items() if re.search(r"\b(exec|eval)\(", code)}
    assert executing == {"python_files.py", "runner.py"}  # files that a user names
    starting = [path for path, code in codes.items() if starts.search(code)]
    assert len(starting) >= 4
    assert all("connections._children import" in path.read_text() for path in starting)
