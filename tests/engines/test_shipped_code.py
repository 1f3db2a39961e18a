"""Machine code that comes with the package: found by its sources and processor, refused if damaged."""

import importlib
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import numba
import pytest

import connections
from connections.control.whole_body import shipping
from connections.control.whole_body.shipping import ship
from connections.engines import disk_cache, shipped_code
from connections.engines.inlined.simd import compiled_entry
from connections.engines.internals import processor
from connections.engines.internals.numba_names import c_function, set_cache

TEXT = "def double(x):\n    return x + x\n"


class Shipped:
    """A function, an archive of its machine code, and an empty folder of the user's."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.file = folder, folder / "functions.py"
        self.file.write_text(TEXT)
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder / "built"))
        assert self.found() == (0, 1)
        (built,) = (folder / "built").rglob("*.1.nbc")
        self.archive = folder / "level.zip"
        shipped_code.write_archive(self.archive, {built.name.removesuffix(".1.nbc"): built.read_bytes()})
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder / "user"))
        monkeypatch.setattr(shipped_code, "_archive", lambda: self.archive)

    def found(self) -> tuple[int, int]:
        """How often a new process finds the function, and how many files it keeps for the user."""
        spec = importlib.util.spec_from_file_location("functions", self.file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        function = compiled_entry(module.double)
        set_cache(function, disk_cache.cache_of(function))
        assert function(2.0) == (4.0 if "x + x" in self.file.read_text() else 5.0)
        kept = len(list(Path(numba.config.CACHE_DIR).rglob("*.nbc")))
        return sum(function.stats.cache_hits.values()), kept


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shipped:
    return Shipped(tmp_path, monkeypatch)


def test_what_is_shipped_is_neither_compiled_nor_kept(shipped: Shipped) -> None:
    assert shipped.found() == (1, 0)


def test_it_needs_no_folder_and_warns_of_none(shipped: Shipped, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a function that is not there still says that it will be compiled in each process."""
    monkeypatch.setattr(disk_cache, "machine_code_folder", lambda: None)
    disk_cache._warn_once.cache_clear()
    assert shipped.found() == (1, 0)
    shipped.file.write_text(TEXT.replace("x + x", "x + 3.0"))
    with pytest.warns(RuntimeWarning, match="cannot be kept on disk"):
        assert shipped.found() == (0, 0)


def test_what_was_read_is_not_linked_into_others(shipped: Shipped) -> None:
    """Its file has names in place of LLVM's text; Numba says so, and would otherwise run nothing."""
    assert shipped.archive.stat().st_size < 10_000
    spec = importlib.util.spec_from_file_location("functions", shipped.file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    double = compiled_entry(module.double)
    set_cache(double, disk_cache.cache_of(double))
    assert double(2.0) == 4.0
    with pytest.raises(RuntimeError, match="unfit for linking"):
        numba.njit(lambda x: double(x))(2.0)


def test_other_sources_are_compiled(shipped: Shipped) -> None:
    shipped.file.write_text(TEXT.replace("x + x", "x + 3.0"))
    assert shipped.found() == (0, 1)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("sealed", [True, False], ids=["in the archive", "in a member"])
def test_a_flipped_bit_is_refused(shipped: Shipped, sealed: bool, place: float) -> None:
    """By the archive's checksum, and by that of the file, which a forger of archives would not meet."""
    with zipfile.ZipFile(shipped.archive) as held:
        ((name, content),) = ((name, held.read(name)) for name in held.namelist())
    data = bytearray(shipped.archive.read_bytes() if sealed else content)
    at = int(place * len(data)) if not sealed else 60 + int(place * (len(data) - 400))
    data[at] ^= 1
    if sealed:
        shipped.archive.write_bytes(bytes(data))
    else:
        shipped_code.write_archive(shipped.archive, {name: bytes(data)})
    assert shipped.found() == (0, 1)


@pytest.mark.parametrize(("place", "bit"), [(6, 64), (8, 1), (10, 64)], ids=["version", "password", "method"])
def test_a_bit_that_asks_for_what_zipfile_does_not_know(shipped: Shipped, place: int, bit: int) -> None:
    with zipfile.ZipFile(shipped.archive) as held:
        directory = held.start_dir
    data = bytearray(shipped.archive.read_bytes())
    data[directory + place] ^= bit
    shipped.archive.write_bytes(bytes(data))
    assert shipped.found() == (0, 1)


def test_a_file_that_is_no_archive_is_none(shipped: Shipped) -> None:
    shipped.archive.write_text("nothing")
    assert shipped.found() == (0, 1)
    shipped.archive.unlink()
    assert shipped.found() == (1, 1)  # in the user's folder, of the line above


@pytest.mark.parametrize(
    ("name", "features", "level"),
    [
        (None, None, "x86-64-v4"),
        (None, "+avx512f", None),
        ("generic", "", None),
        ("x86-64-v3", "", "x86-64-v3"),
        ("x86-64-v3", "+avx512f", None),
        ("znver4", None, None),
    ],
)
def test_the_level_is_the_highest_that_the_processor_has(
    monkeypatch: pytest.MonkeyPatch, name: str | None, features: str | None, level: str | None
) -> None:
    every = ",".join(f"+{each}" for each in processor.LEVELS["x86-64-v4"])
    monkeypatch.setattr(processor, "get_host_cpu_features", lambda: every)
    monkeypatch.setattr(numba.config, "CPU_NAME", name)
    monkeypatch.setattr(numba.config, "CPU_FEATURES", features)
    assert processor.level() == level


@pytest.mark.parametrize("level", processor.LEVELS)
def test_a_level_needs_all_of_its_features(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    for missing in processor.LEVELS[level]:
        left = ",".join(f"+{each}" for each in processor.LEVELS[level] - {missing})
        monkeypatch.setattr(processor, "get_host_cpu_features", lambda left=left: left)
        assert processor.level() != level


def test_an_archive_of_other_versions_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / shipped_code.FOLDER).mkdir()
    monkeypatch.setattr(shipped_code, "files", lambda package: tmp_path)
    monkeypatch.setattr(shipped_code, "level", lambda: "x86-64-v3")
    path = tmp_path / shipped_code.FOLDER / "x86-64-v3.zip"
    shipped_code.write_archive(path, {"a": b"content"})
    for comment, content in [(None, b"content"), (b"cpython-310 numba-0.1", None), (b"\xff\xfe", None)]:
        if comment is not None:
            with zipfile.ZipFile(path, "a") as archive:
                archive.comment = comment
        shipped_code._archive.cache_clear()
        assert shipped_code.read_shipped("a") == content
        assert shipped_code.read_shipped("b") is None
    shipped_code._archive.cache_clear()


@pytest.mark.parametrize("levels", [[], ["x86-64-v9"]])
def test_a_level_that_is_none_is_refused(tmp_path: Path, levels: list[str]) -> None:
    with pytest.raises(ValueError, match="levels: expected some of x86-64-v4, x86-64-v3, got"):
        ship(tmp_path, levels)


def test_the_level_of_a_process_decides_the_width_of_registers() -> None:
    code = "from connections.engines.inlined.simd import LANES; print(LANES)"
    for level, lanes in [("x86-64-v4", "8"), ("x86-64-v3", "4")]:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": "", "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == lanes


def test_all_registries_are_shipped() -> None:
    """Functions of a registry that `ship` and the command do not know would be compiled at first calls."""
    package = Path(connections.__file__).parent
    having = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if made_in(path)}
    rooms = {"certified/compiled.py", "control/whole_body/compiled.py"}
    assert having == {"multibody/program/compiled_functions.py", *rooms}
    for module in (shipping, importlib.import_module("connections.cli.warm_up")):
        text = Path(module.__file__).read_text()
        assert "connections.control.whole_body.compiled" in text and "warm_up" in text
        assert "connections.certified.compiled" in text


def made_in(path: Path) -> bool:
    return "= Registry(" in path.read_text()


def test_what_c_calls_is_found_too(shipped: Shipped, monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's handlers are functions for C, whose types Numba gives its cache in another form."""
    monkeypatch.setattr(shipped_code, "_archive", lambda: None)

    def process() -> int:
        spec = importlib.util.spec_from_file_location("functions", shipped.file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        cache = disk_cache.cache_of(module.double)
        made = c_function(module.double, numba.float64, [numba.float64], cache)
        assert made.ctypes(2.0) == 4.0
        return made.cache_hits

    assert process() == 0
    (built,) = Path(numba.config.CACHE_DIR).rglob("*.1.nbc")
    shipped_code.write_archive(shipped.archive, {built.name.removesuffix(".1.nbc"): built.read_bytes()})
    monkeypatch.setattr(shipped_code, "_archive", lambda: shipped.archive)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(shipped.folder / "another"))
    process()
    assert not list((shipped.folder / "another").rglob("*.nbc"))


def test_the_child_that_compiles_everything_prints_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(sys, "argv", ["-c", "2"])
    monkeypatch.setattr(shipping.warm_up, "warm_up", lambda *count: asked.extend(count) or tmp_path)
    monkeypatch.setattr(shipping, "_compile_handlers", lambda: asked.append("handlers"))
    for room in (shipping.law, shipping.bounds):
        monkeypatch.setattr(type(room), "require", lambda self, name: asked.append(name))
    shipping._compile()
    assert asked == [2, *shipping.law.names, *shipping.bounds.names, "handlers"]
    assert capsys.readouterr().out == f"{tmp_path}\n"
