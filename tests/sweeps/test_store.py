"""Chunks in a store: kept when whole, computed again when not, refused when of another sweep. One process."""

import dataclasses
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from robots import robot_path
from sweep_functions import OUTPUTS, FailsWhile, Noise, sweep, twice_the_input
from sweep_stores import chunk_file, contents, same, truncate

from connections import multibody as mb
from connections.checks import ShapeError
from connections.sweeps import (
    Chunk,
    Output,
    SchedulerError,
    Store,
    StoreError,
    Sweep,
    SweepError,
    run_sweep,
)
from connections.sweeps.fingerprint import fingerprint

# --- what is computed ----------------------------------------------------------------------------


def test_the_store_has_what_the_function_gives(tmp_path: Path) -> None:
    seen = []
    summary = run_sweep(
        sweep(), tmp_path / "s", workers=0, progress=lambda done, total: seen.append((done.number, total))
    )
    assert summary.computed == (0, 1, 2) and summary.kept == 0 and seen == [(0, 3), (1, 3), (2, 3)]
    x = contents(tmp_path / "s")["x"]
    for number, rows in enumerate((10, 10, 5)):  # the last chunk is shorter
        generator = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(number,)))
        np.testing.assert_array_equal(x[10 * number :][:10], generator.normal(size=(rows, 3)))
    assert not np.array_equal(x[:5], x[10:15])
    np.testing.assert_array_equal(contents(tmp_path / "s")["row"], np.arange(25))


def test_the_store_says_what_it_is(tmp_path: Path) -> None:
    run_sweep(sweep(seed=4, about={"why": "a test"}), tmp_path / "s", workers=0)
    store = Store(tmp_path / "s")
    assert store.described["seed"] == 4 and store.described["about"] == {"why": "a test"}
    assert store.described["versions"]["numpy"] == np.__version__
    assert store.finished.all() and store.chunks == 3
    assert zarr.open_group(tmp_path / "s")["x"].metadata.dimension_names == ("row", "x_component")
    np.testing.assert_array_equal(contents(tmp_path / "s")["x"][:10], sweep(seed=4).compute(0)["x"])
    assert not np.array_equal(sweep(seed=4).compute(0)["x"], sweep(seed=5).compute(0)["x"])


def test_generators_shared_by_chunks_are_not_those_of_chunks() -> None:
    chunks = [Chunk(number, 0, 1, 3) for number in range(3)]
    shared = [chunk.rng_of(0, 7).normal() for chunk in chunks]
    assert len(set(shared)) == 1
    own = [chunk.rng().normal() for chunk in chunks]
    assert len({*own, *shared, chunks[0].rng_of(7).normal()}) == 5
    assert own[0] == chunks[0].rng().normal()  # from its beginning at every call


def test_a_compressed_store_holds_the_same(tmp_path: Path) -> None:
    run_sweep(sweep(), tmp_path / "plain", workers=0)
    run_sweep(sweep(), tmp_path / "small", workers=0, compress=True)
    assert same(tmp_path / "plain", tmp_path / "small")
    assert (
        chunk_file(tmp_path / "small", "row", 0).stat().st_size
        < chunk_file(tmp_path / "plain", "row", 0).stat().st_size
    )


# --- resuming ------------------------------------------------------------------------------------


def test_an_error_keeps_what_is_finished(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    unlucky = sweep(function=FailsWhile(1, flag))
    with pytest.raises(FloatingPointError, match="no luck"):
        run_sweep(unlucky, tmp_path / "s", workers=0)
    assert Store(tmp_path / "s").finished.tolist() == [True, False, False]
    data = Store(tmp_path / "s").to_xarray()
    assert data.finished.values.tolist() == [True] * 10 + [False] * (data.sizes["row"] - 10)
    np.testing.assert_array_equal(data.x[:10], sweep().compute(0)["x"])
    flag.unlink()
    summary = run_sweep(unlucky, tmp_path / "s", workers=0)
    assert summary.computed == (1, 2) and summary.kept == 1 and not summary.repaired
    run_sweep(sweep(), tmp_path / "whole", workers=0)
    assert same(tmp_path / "s", tmp_path / "whole")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
@pytest.mark.parametrize("compress", [False, True])
def test_a_damaged_chunk_is_computed_again(
    tmp_path: Path, damage: Callable[[Path], object], name: str, compress: bool
) -> None:
    run_sweep(sweep(), tmp_path / "whole", workers=0)
    run_sweep(sweep(), tmp_path / "s", workers=0, compress=compress)
    assert run_sweep(sweep(), tmp_path / "s", workers=0).computed == ()
    damage(chunk_file(tmp_path / "s", name, 1))
    summary = run_sweep(sweep(), tmp_path / "s", workers=0)
    assert summary.computed == (1,) and f"'{name}'" in summary.repaired[1]
    assert f"chunk 1 computed again: '{name}'" in str(summary)
    assert same(tmp_path / "s", tmp_path / "whole")
    assert run_sweep(sweep(), tmp_path / "s", workers=0).computed == ()


def test_a_chunk_that_was_never_marked_is_not_called_damaged(tmp_path: Path) -> None:
    run_sweep(sweep(), tmp_path / "s", workers=0)
    zarr.open_group(tmp_path / "s")["checksums"][2] = 0  # as if the worker ended before the mark
    summary = run_sweep(sweep(), tmp_path / "s", workers=0)
    assert summary.computed == (2,) and summary.repaired == {}


def test_remnants_of_interrupted_writes_are_removed(tmp_path: Path) -> None:
    run_sweep(sweep(), tmp_path / "s", workers=0)
    remnant = tmp_path / "s" / "x" / "c" / "0" / "0.0123.partial"
    remnant.write_bytes(b"half")
    summary = run_sweep(sweep(), tmp_path / "s", workers=0)
    assert summary.removed == 1 and not remnant.exists() and "1 file(s)" in str(summary)


def test_a_finished_store_has_no_remnants_of_this_run(tmp_path: Path) -> None:
    """As a worker leaves one that is killed while it writes a chunk, which another one then computes."""
    remnant = tmp_path / "s" / "x" / "c" / "0" / "0.0123.partial"

    def killed(done: object, chunks: int) -> None:
        remnant.parent.mkdir(parents=True, exist_ok=True)
        remnant.write_bytes(b"half")

    summary = run_sweep(sweep(), tmp_path / "s", workers=0, progress=killed)
    assert summary.removed == 1 and not list((tmp_path / "s").rglob("*.partial"))
    assert run_sweep(sweep(), tmp_path / "s", workers=0).computed == ()


def test_a_store_that_could_not_be_made_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):  # the description is no JSON
        run_sweep(sweep(about={"why": object()}), tmp_path / "s", workers=0)
    assert list(tmp_path.iterdir()) == []


# --- inputs --------------------------------------------------------------------------------------


def test_inputs_are_read_by_chunks_and_watched(tmp_path: Path) -> None:
    q = np.arange(75.0).reshape(25, 3)
    zarr.create_array(tmp_path / "q", data=q, chunks=(4, 2))  # cut in another way
    given = sweep(function=twice_the_input, inputs={"q": tmp_path / "q"})
    run_sweep(given, tmp_path / "s", workers=0)
    np.testing.assert_array_equal(contents(tmp_path / "s")["x"], 2.0 * q)
    assert run_sweep(given, tmp_path / "s", workers=0).computed == ()
    zarr.open_array(tmp_path / "q")[12, 1] = -1.0
    summary = run_sweep(given, tmp_path / "s", workers=0)
    assert summary.computed == (1,) and "'input q'" in summary.repaired[1]
    assert contents(tmp_path / "s")["x"][12, 1] == -2.0


def test_wrong_inputs(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "q", data=np.zeros((24, 3)))
    for path, complaint in (
        (tmp_path / "none", "there is no Zarr array 'q' at"),
        (tmp_path / "q", r"shape \(24, 3\); expected 25 rows"),
    ):
        with pytest.raises(SweepError, match=complaint):
            run_sweep(sweep(function=twice_the_input, inputs={"q": path}), tmp_path / "s", workers=0)
    with pytest.raises(SweepError, match="write it first, zarr.save_array"):
        sweep(function=twice_the_input, inputs={"q": np.zeros((25, 3))})


# --- other stores, other sweeps ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        ({"seed": 1}, "its seed is 0, not 1"),
        ({"rows": 26}, "its rows is 25, not 26"),
        ({"chunk": 5}, "its chunk is 10, not 5"),
        ({"name": "other"}, "its name is noise, not other"),
        ({"outputs": OUTPUTS | {"row": Output(dtype="int32")}}, "its outputs is"),
        ({"function": Noise(1e-6)}, "its parameters or its function are not the same"),
    ],
)
def test_the_store_of_another_sweep_is_refused(tmp_path: Path, other: dict, complaint: str) -> None:
    run_sweep(sweep(), tmp_path / "s", workers=0)
    before = contents(tmp_path / "s")["x"]
    with pytest.raises(StoreError, match=complaint):
        run_sweep(sweep(**other), tmp_path / "s", workers=0)
    np.testing.assert_array_equal(contents(tmp_path / "s")["x"], before)


def test_a_store_of_other_versions_is_refused_unless_allowed(tmp_path: Path) -> None:
    run_sweep(sweep(), tmp_path / "s", workers=0)
    file = tmp_path / "s" / "zarr.json"
    described = json.loads(file.read_text())
    described["attributes"]["sweep"]["versions"]["numba"] = "0.1"
    file.write_text(json.dumps(described))
    with pytest.raises(StoreError, match=r"begun with numba 0\.1, now .* --other-versions"):
        run_sweep(sweep(), tmp_path / "s", workers=0)
    assert run_sweep(sweep(), tmp_path / "s", workers=0, other_versions=True).computed == ()


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("no")
    zarr.create_group(tmp_path / "group")
    zarr.create_array(tmp_path / "array", data=np.zeros(3))
    for name in ("folder", "file", "group", "array"):
        with pytest.raises(StoreError, match=f"{name} is not the store of a sweep"):
            run_sweep(sweep(), tmp_path / name, workers=0)
    with pytest.raises(StoreError, match="is not the store of a sweep"):
        Store(tmp_path / "nothing")


# --- sweeps that are not right -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"rows": 0}, "rows: expected a whole number of at least 1"),
        ({"chunk": 2.5}, "chunk: expected a whole number"),
        ({"seed": -1}, "seed: expected a whole number of at least 0"),
        ({"outputs": {}}, "at least one array"),
        ({"outputs": {"checksums": Output()}}, "cannot be the name of an array"),
        ({"function": 3}, "expected a function of a chunk"),
    ],
)
def test_a_sweep_that_is_not_right_says_so(wrong: dict, complaint: str) -> None:
    with pytest.raises(SweepError, match=complaint):
        sweep(**wrong)


def test_a_function_that_returns_something_else(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="should return x, row; it returned x$"):
        run_sweep(sweep(function=lambda chunk: {"x": 0}), tmp_path / "a", workers=0)
    with pytest.raises(ShapeError, match=r"'x' of a chunk: expected shape \(10, 3\), got \(10,\)"):
        run_sweep(
            sweep(function=lambda c: {"x": np.zeros(10), "row": np.zeros(10)}), tmp_path / "b", workers=0
        )
    for dtype, wrong in (
        ("float64", 1j),
        ("float64", "1.5"),
        ("float64", None),
        ("float64", np.datetime64(1, "s")),
        ("float64", np.ma.masked),
        ("int64", 1.5),
        ("int64", np.nan),
        ("int64", 2**70),
        ("uint8", 300),
        ("bool", 2),
        ("complex128", "1"),
        ("datetime64[s]", 3.0),
    ):
        with pytest.raises((TypeError, ValueError), match="'x' of a chunk"):
            one = {"x": Output(dtype=dtype)}
            Sweep("wrong", lambda chunk, x=wrong: {"x": [x]}, rows=1, outputs=one).compute(0)
    with pytest.raises(SweepError, match="cannot be sent to workers"):
        with socket.socket() as unpicklable:
            run_sweep(sweep(function=lambda c: unpicklable), tmp_path / "c", workers=0)
    with pytest.raises(SweepError, match="dims: expected 1 names"):
        Output((3,), dims=("a", "b"))
    for dtype in ("U8", "S8", "object"):
        with pytest.raises(SweepError, match="dtype"):
            Output(dtype=dtype)


def test_workers_or_a_scheduler(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="not both"):
        run_sweep(sweep(), tmp_path / "s", workers=1, scheduler="tcp://127.0.0.1:9")
    with pytest.raises(SweepError, match="workers: expected a whole number"):
        run_sweep(sweep(), tmp_path / "s", workers=-1)


def test_a_library_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(
        ModuleNotFoundError, match=r'zarr cannot be imported: pip install "affine-connections\[sweeps\]"'
    ):
        run_sweep(sweep(), tmp_path / "s", workers=0)


# --- schedulers that do not answer ---------------------------------------------------------------


def test_a_scheduler_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(SchedulerError, match=f"the scheduler {address} does not answer within 0.5 s"):
        run_sweep(sweep(), tmp_path / "s", scheduler=address, timeout=0.5)
    assert not (tmp_path / "s").exists()


def test_a_port_that_is_silent(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SchedulerError, match="does not answer within 0.5 s"):
            run_sweep(sweep(), tmp_path / "s", scheduler=address, timeout=0.5)


def test_an_address_that_is_none(tmp_path: Path) -> None:
    for address in ("nonsense://there", "127.0.0.1"):
        with pytest.raises((SweepError, SchedulerError), match=address):
            run_sweep(sweep(), tmp_path / "s", scheduler=address, timeout=0.5)


# --- fingerprints --------------------------------------------------------------------------------


def test_equal_things_have_one_fingerprint_and_others_another() -> None:
    robot, again = (mb.from_urdf(robot_path("ur5")) for _ in range(2))
    robot.program  # noqa: B018  what is derived does not count
    assert fingerprint(robot) == fingerprint(again)
    heavier = np.array(robot.kinematics.tree.inertias)
    heavier[2, 5, 5] *= 1.0 + 1e-15
    tree = dataclasses.replace(robot.kinematics.tree, inertias=heavier)
    different = [
        robot,
        robot.with_gravity((0, 0, -9.8)),
        mb.Model.of(tree),
        mb.from_urdf(robot_path("ur5"), floating_base=True),
        lambda x: x + 1,
        lambda x: x + 2,
        1,
        1.0,
        "1",
        (1, 2),
        ((1,), 2),
        np.zeros(4),
        np.zeros((2, 2)),
        np.zeros(4, dtype=np.float32),
        Noise(),
        Noise(0.5),
    ]
    assert len({fingerprint(item) for item in different}) == len(different)
    assert fingerprint({"a": 1, "b": {2, 3}}) == fingerprint({"b": {3, 2}, "a": 1})


def test_a_function_counts_by_its_code_its_defaults_and_what_it_holds() -> None:
    def made(scale: float) -> Callable:
        def inner(x: float, shift: float = scale + 1.0) -> float:
            return inner(x - 1.0) if x > 0.0 else scale * x + shift  # it holds itself

        return inner

    assert fingerprint(made(2.0)) == fingerprint(made(2.0)) != fingerprint(made(3.0))


def test_functions_that_differ_in_one_part_have_other_fingerprints() -> None:
    """In a number that they hold, deep inside it too; in a default; in a default of a keyword."""

    def holds(scale: Any) -> Callable:
        return lambda x: scale * x

    def called(inner: Callable) -> Callable:
        return lambda x: inner(x)

    def default(scale: float) -> Callable:
        def function(x: float, by: float = scale) -> float:
            return by * x

        return function

    def keyword(scale: float) -> Callable:
        def function(x: float, *, by: float = scale) -> float:
            return by * x

        return function

    for made in (holds, lambda scale: holds(np.array([1.0, scale])), default, keyword):
        for outer in (lambda function: function, called):
            first, same, other = (outer(made(scale)) for scale in (2.0, 2.0, 3.0))
            assert first.__code__ is other.__code__
            assert fingerprint(first) == fingerprint(same) != fingerprint(other)


def test_the_class_is_what_a_user_needs() -> None:
    own = Sweep("squares", lambda chunk: {"y": np.arange(chunk.start, chunk.stop) ** 2.0}, 7, {"y": Output()})
    assert own.chunks == 1
    np.testing.assert_array_equal(own.compute(0)["y"], np.arange(7.0) ** 2)
