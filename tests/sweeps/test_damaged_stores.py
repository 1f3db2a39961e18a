"""Stores of sweeps whose metadata are damaged are refused by name; what is in the way is named."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from sweep_functions import OUTPUTS, sweep, twice_the_input
from sweep_stores import chunk_file, same, truncate

from connections.sweeps import Store, StoreError, SweepError, run_sweep


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of which all chunks are there."""
    path = tmp_path_factory.mktemp("finished") / "s"
    run_sweep(sweep(), path, workers=0)
    return path


# --- metadata of an array ------------------------------------------------------------------------


def other_dtype(metadata: dict) -> None:
    """Of the same size: the same bytes have the same checksums."""
    metadata["data_type"] = "int64" if metadata["data_type"] != "int64" else "uint64"


def other_order_of_bytes(metadata: dict) -> None:
    metadata["codecs"][0]["configuration"]["endian"] = "big"


def other_shape(metadata: dict) -> None:
    metadata["shape"][0] += 10


def other_chunks(metadata: dict) -> None:
    metadata["chunk_grid"]["configuration"]["chunk_shape"][0] = 5


def no_chunks(metadata: dict) -> None:
    metadata["chunk_grid"]["configuration"]["chunk_shape"][0] = 0


def other_names_of_files(metadata: dict) -> None:
    metadata["chunk_key_encoding"]["configuration"]["separator"] = "."


def another_codec(metadata: dict) -> None:
    metadata["codecs"].append({"name": "crc32c"})


def other_fill_value(metadata: dict) -> None:
    metadata["fill_value"] = 1


def other_axes(metadata: dict) -> None:
    metadata["dimension_names"] = metadata["dimension_names"][::-1] if len(metadata["shape"]) > 1 else ["x"]


def a_group(metadata: dict) -> None:
    metadata |= {"node_type": "group"}


def no_metadata(metadata: dict) -> None:
    metadata.clear()


def swapped_columns(metadata: dict) -> None:
    metadata["attributes"]["columns"] = metadata["attributes"]["columns"][::-1]


def one_column_less(metadata: dict) -> None:
    metadata["attributes"]["columns"] = metadata["attributes"]["columns"][:1]


def no_columns(metadata: dict) -> None:
    metadata["attributes"].clear()


EVERY_ARRAY = (
    *(other_dtype, other_order_of_bytes, other_shape, other_chunks, no_chunks, other_names_of_files),
    *(another_codec, other_fill_value, other_axes, a_group, no_metadata),
)
OF_CHECKSUMS = (swapped_columns, one_column_less, no_columns)


@pytest.mark.parametrize(
    ("name", "damage"),
    [(name, damage) for name in (*OUTPUTS, "checksums") for damage in EVERY_ARRAY]
    + [("checksums", damage) for damage in OF_CHECKSUMS],
)
def test_damaged_metadata_is_refused_and_stays(
    finished: Path, tmp_path: Path, name: str, damage: Callable[[dict], None]
) -> None:
    """Never "repaired", and nothing is computed or written: the numbers can still be saved."""
    shutil.copytree(finished, tmp_path / "s")
    file = tmp_path / "s" / name / "zarr.json"
    metadata = json.loads(file.read_text())
    damage(metadata)
    file.write_text(json.dumps(metadata))
    before = {path: path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file()}
    with pytest.raises(StoreError, match=f"s is damaged: .* '{name}' "):
        run_sweep(sweep(), tmp_path / "s", workers=0)
    assert before == {path: path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("rows", 26, "the shape of 'x'"),
        ("rows", "many", "is not the store of a sweep"),
        ("chunk", 0, "is not the store of a sweep"),
        ("outputs", {"x": [[3], "float64"]}, "the shape of 'checksums'"),
        ("outputs", None, "is not the store of a sweep"),
        ("inputs", {"q": [[25], "float64"]}, "the shape of 'checksums'"),
        ("function", None, "its function are not the same"),
        ("versions", None, "was begun with"),
    ],
)
def test_a_damaged_description_is_refused(
    finished: Path, tmp_path: Path, key: str, value: object, complaint: str
) -> None:
    shutil.copytree(finished, tmp_path / "s")
    file = tmp_path / "s" / "zarr.json"
    described = json.loads(file.read_text())
    described["attributes"]["sweep"][key] = value
    file.write_text(json.dumps(described))
    with pytest.raises(StoreError, match=complaint):
        run_sweep(sweep(), tmp_path / "s", workers=0)


def test_damaged_checksums_are_written_again(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "s")
    truncate(tmp_path / "s" / "checksums" / "c" / "1" / "0")
    assert Store(tmp_path / "s").finished.tolist() == [True, False, True]
    summary = run_sweep(sweep(), tmp_path / "s", workers=0)
    assert summary.computed == (1,) and "its checksums cannot be read" in summary.repaired[1]
    assert same(tmp_path / "s", finished) and Store(tmp_path / "s").finished.all()


@pytest.mark.parametrize("name", [*OUTPUTS, "checksums"])
def test_a_folder_in_place_of_a_chunk_is_named(finished: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(finished, tmp_path / "s")
    file = tmp_path / "s" / "checksums" / "c" / "1" / "0" if name == "checksums" else None
    file = file or chunk_file(tmp_path / "s", name, 1)
    file.unlink()
    file.mkdir()
    (file / "in the way").touch()
    with pytest.raises(StoreError, match=f"chunk 1 of '{name}' cannot be written"):
        run_sweep(sweep(), tmp_path / "s", workers=0)


def test_a_folder_in_place_of_metadata_is_named(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "s")
    for file in (tmp_path / "s" / "x" / "zarr.json", tmp_path / "s" / "zarr.json"):
        file.unlink()
        file.mkdir()
        with pytest.raises(StoreError, match="s is damaged|s is not the store of a sweep"):
            run_sweep(sweep(), tmp_path / "s", workers=0)


def test_a_store_where_nothing_can_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "s", Path("/proc/s")):
        with pytest.raises(StoreError, match=f"the store {path} cannot be made: cannot write"):
            run_sweep(sweep(), path, workers=2)


def test_inputs_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "q", data=np.zeros((25, 3)), chunks=(25, 3))
    given = sweep(function=twice_the_input, inputs={"q": tmp_path / "q"})
    (file,) = (tmp_path / "q" / "c").rglob("0/0")
    truncate(file)
    with pytest.raises(SweepError, match="rows 0 to 9 of 'q' cannot be read"):
        run_sweep(given, tmp_path / "s", workers=0)
    (tmp_path / "q" / "zarr.json").unlink()
    (tmp_path / "q" / "zarr.json").mkdir()
    with pytest.raises(SweepError, match="there is no Zarr array 'q'"):
        run_sweep(given, tmp_path / "other", workers=0)


class Hostile:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return Path.touch, (self.mark,)


def version_2(**more: object) -> dict:
    """The metadata of an array (25, 3) in Zarr's older format."""
    plain = {"dtype": "<f8", "compressor": None, "filters": None, "fill_value": 0, "order": "C"}
    return plain | {"zarr_format": 2, "shape": [25, 3], "chunks": [25, 3]} | more


def version_3(*codecs: object) -> dict:
    grid = {"name": "regular", "configuration": {"chunk_shape": [25, 3]}}
    keys = {"name": "v2", "configuration": {"separator": "."}}
    plain = {"zarr_format": 3, "node_type": "array", "shape": [25, 3], "data_type": "float64"}
    more = {"chunk_grid": grid, "chunk_key_encoding": keys, "fill_value": 0.0, "attributes": {}}
    return plain | more | {"codecs": list(codecs)}


BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
PICKLES = {
    "objects": version_2(dtype="|O", filters=[{"id": "pickle"}]),
    "a filter": version_2(filters=[{"id": "pickle"}]),
    "a compressor": version_2(compressor={"id": "pickle"}),
    "a codec": version_3({"name": "pickle", "configuration": {}}),
    "a codec before the bytes": version_3({"name": "numcodecs.pickle", "configuration": {}}, BYTES),
    "a codec behind the bytes": version_3(BYTES, {"name": "numcodecs.pickle", "configuration": {}}),
}


@pytest.mark.parametrize("metadata", PICKLES.values(), ids=list(PICKLES))
def test_nothing_is_unpickled(finished: Path, tmp_path: Path, metadata: dict) -> None:
    """Neither an input nor an array of a store; unpickling runs what the file says."""
    mark = tmp_path / "mark"
    store = tmp_path / "s"
    shutil.copytree(finished, store)
    for array in (tmp_path / "q", store / "x"):
        shutil.rmtree(array, ignore_errors=True)
        array.mkdir()
        name = ".zarray" if metadata["zarr_format"] == 2 else "zarr.json"
        (array / name).write_text(json.dumps(metadata))
        (array / "0.0").write_bytes(pickle.dumps(Hostile(mark)))
    with pytest.raises(SweepError, match="there is no Zarr array 'q' at"):
        run_sweep(sweep(function=twice_the_input, inputs={"q": tmp_path / "q"}), tmp_path / "t", workers=0)
    with pytest.raises(StoreError):
        run_sweep(sweep(), store, workers=0)
    assert not mark.exists()
    pickle.loads((tmp_path / "q" / "0.0").read_bytes())
    assert mark.exists()  # the control
