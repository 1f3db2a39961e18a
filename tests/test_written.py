"""What is written is of this user alone, whatever the umask, and nothing is written through a link."""

import ast
import contextlib
import os
import re
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numba
import numpy as np
import pytest
from numba import njit

from connections import _jax, _written, cli
from connections import multibody as mb
from connections.cli import options as arguments
from connections.cli import printing
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
    "generate_c": (
        lambda path: mb.codegen.generate_c(mb.example("arm"), ["gravity"], path, name="arm"),
        "arm.h",
    ),
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
    assert arguments.output(tmp_path / "another").is_file
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


# --- devices and pipes ----------------------------------------------------------------------------


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    """One of our own, which takes everything."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        os.close(os.open(path, os.O_WRONLY))
    except PermissionError:
        pytest.skip("only root makes devices, and not in every container")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


MAKERS = {"pipe": make_pipe, "device": make_device, "socket": make_socket, "folder": Path.mkdir}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", ["generate_c", "tables", "write_file"])
def test_no_file_is_put_in_the_place_of_anything_else(name: str, kind: str, tmp_path: Path) -> None:
    write, file = {**FOLDERS, "write_file": (lambda path: _written.write_file(path / "a", "1"), "a")}[name]
    MAKERS[kind](tmp_path / file)
    before = (tmp_path / file).lstat()
    with pytest.raises(OSError, match=f"{file} is a {kind}"):
        write(tmp_path)
    after = (tmp_path / file).lstat()
    assert (before.st_ino, before.st_mode, before.st_rdev) == (after.st_ino, after.st_mode, after.st_rdev)


def test_files_of_an_earlier_call_are_no_pipes(tmp_path: Path) -> None:
    """They are read, which would take for ever."""
    make_pipe(tmp_path / "arm_old.c")
    FOLDERS["generate_c"][0](tmp_path)
    assert (tmp_path / "arm_old.c").is_fifo() and (tmp_path / "arm.h").is_file()


@pytest.mark.parametrize("place", ["zarr.json", "x/zarr.json", "x/c/0/0", "checksums/c/0/0"])
def test_a_store_has_no_pipes(place: str, tmp_path: Path) -> None:
    """To read one takes for ever; and Zarr would rename a file over it."""
    store = tmp_path / "store"
    make_sweep(store)
    (store / place).unlink()
    make_pipe(store / place)
    with pytest.raises(StoreError, match=f"{place} is a pipe"):
        make_sweep(store)
    assert (store / place).is_fifo()


REPORTS = {
    "verify": "verify --json",
    "audit": "audit --joints revolute --library pinocchio --json",
    "audit of a corpus": "audit --corpus --library pinocchio --json",
    "its table": "audit --corpus --library pinocchio --markdown",
    "audit of a filter": "audit-filter no_such_file.py:thing --json",
}


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder"])
@pytest.mark.parametrize("command", REPORTS)
def test_a_report_into_a_place_without_a_reader_is_refused_before_any_work(
    command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    MAKERS[kind](tmp_path / "report")
    before = (tmp_path / "report").stat()
    assert cli.main([*REPORTS[command].split(), str(tmp_path / "report")]) == 2
    assert f"report is a {kind}" in capsys.readouterr().err
    assert (tmp_path / "report").stat().st_ino == before.st_ino


def test_an_output_is_written_into_a_device(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    make_device(tmp_path / "null")
    printing.write_output(arguments.output(tmp_path / "null"), "text")
    assert (tmp_path / "null").is_char_device() and "null" in capsys.readouterr().out


def test_a_pipe_waits_for_the_output_and_has_all_of_it(tmp_path: Path) -> None:
    path, text = tmp_path / "pipe", "x" * 1_000_000  # more than a pipe holds
    make_pipe(path)
    with subprocess.Popen(["wc", "-c"], stdin=os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as nobody:
        output = arguments.output(path)
        nobody.kill()
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
        threading.Timer(0.1, output.write, [text]).start()
        assert reader.stdout.read().decode() == text
    assert path.is_fifo()


def test_an_output_whose_reader_has_ended_is_an_error_with_its_name(tmp_path: Path) -> None:
    make_pipe(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    output = arguments.output(tmp_path / "pipe")
    os.close(reader)
    with pytest.raises(BrokenPipeError, match="pipe"):
        output.write("text")


def test_a_pipe_that_is_replaced_before_it_is_opened_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").write_text("mine")
    monkeypatch.setattr(_written, "_kind", lambda path: stat.S_IFIFO)
    with pytest.raises(OSError, match="replaced"):
        arguments.output(tmp_path / "precious")
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd", "../../../../../../../../dev/fd"])
def test_an_output_into_what_the_shell_has_opened(folder: str, tmp_path: Path) -> None:
    """Such as `>(program)`, which is the name of a link to a pipe."""
    if not os.path.exists(folder):
        pytest.skip("this system has no such folder")
    reader, writer = os.pipe()
    arguments.output(Path(folder) / str(writer)).write("text")
    assert os.read(reader, 10) == b"text"
    for number, refused in ((reader, "for writing"), (99_999_999, "for writing")):
        with pytest.raises(OSError, match=refused):
            arguments.output(Path(folder) / str(number))
    (tmp_path / "link").symlink_to(f"/dev/fd/{writer}")  # a stranger's
    with pytest.raises(OSError, match="symbolic link"):
        arguments.output(tmp_path / "link")
    os.close(reader)
    os.close(writer)


def test_an_output_into_standard_output_comes_in_order(capfd: pytest.CaptureFixture) -> None:
    """Also where it is a file, as here, which keeps what it has."""
    with open(1, "w", closefd=False) as buffered, contextlib.redirect_stdout(buffered):
        print("before")
        printing.write_output(arguments.output(Path("/dev/stdout")), "text\n")
    assert capfd.readouterr().out == "before\ntext\nwritten: /dev/stdout\n"


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
    mb.codegen.generate_c(mb.example("arm"), ["gravity"], folder, name="g")
    seen: list[list[str]] = []

    def run(words: list[str], stderr: IO[bytes], **_: object) -> subprocess.CompletedProcess[bytes]:
        seen.append(words)
        stderr.write(b"refused")
        return subprocess.CompletedProcess(words, 1)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(RuntimeError, match="refused"):
        mb.codegen.load_c(folder)
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
