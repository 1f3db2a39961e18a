"""The store of a sweep: a Zarr group with an array per output, and the checksums of finished chunks.

Every chunk of rows is one file per array. Zarr writes a file under another name and then renames it; when all
files of a chunk are there, its row of ``checksums`` is written, with the CRC-32C of the bytes of every array
plus 2^32. A zero there says that the chunk is not finished; another number than that of the bytes which are
read says that it is damaged. Any program that reads Zarr 3 reads the arrays.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from connections.sweeps.errors import StoreError, SweepError
from connections.sweeps.fingerprint import fingerprint, versions

if TYPE_CHECKING:
    from connections.sweeps.sweep import Sweep

FORMAT = 1
CHECKSUMS = "checksums"
_FINISHED = 1 << 32


def checksum(array: np.ndarray) -> int:
    """CRC-32C of the bytes of a C-contiguous array, plus 2^32."""
    import google_crc32c  # Zarr's own

    return _FINISHED + int(google_crc32c.value(array.reshape(-1).view(np.uint8)))


def description(sweep: Sweep, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What a store says about its sweep, as JSON.

    Parameters
    ----------
    sweep : the sweep.
    inputs : its opened inputs.
    """
    return {
        "format": FORMAT,
        "name": sweep.name,
        "rows": sweep.rows,
        "chunk": sweep.chunk,
        "seed": sweep.seed,
        "outputs": {name: [list(output.shape), output.dtype] for name, output in sweep.outputs.items()},
        "inputs": {name: [list(array.shape), str(array.dtype)] for name, array in inputs.items()},
        "function": fingerprint(sweep.function),
        "versions": versions(),
        "about": dict(sweep.about),
    }


class Store:
    """A store that exists.

    Parameters
    ----------
    path : of its folder.

    Raises
    ------
    StoreError : there is no store of a sweep.
    """

    def __init__(self, path: Any) -> None:
        import zarr

        self.path = Path(path)
        if not self.path.is_dir():
            raise StoreError(f"{self.path} is not the store of a sweep: it is not a folder")
        zarr.config.set({"array.write_empty_chunks": True})  # a missing file is a chunk that is lost
        try:
            self.group = zarr.open_group(self.path, mode="r+")
            self.described: dict[str, Any] = dict(self.group.attrs["sweep"])  # type: ignore[arg-type]
            self.names: tuple[str, ...] = tuple(self.described["outputs"])
            self.arrays: dict[str, Any] = {name: self.group[name] for name in self.names}
            self._checksums: Any = self.group[CHECKSUMS]
            columns: Any = self._checksums.attrs["columns"]
            self._columns: tuple[str, ...] = tuple(columns)
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise StoreError(
                f"{self.path} is not the store of a sweep ({type(error).__name__}: {error}); "
                "name another folder, or remove this one"
            ) from error

    @classmethod
    def create(cls, path: Any, sweep: Sweep, described: Mapping[str, Any], compress: bool = False) -> Store:
        """A store without results; it appears at `path` when it is complete.

        Parameters
        ----------
        path : of a folder that does not exist.
        sweep : the sweep.
        described : its `description`.
        compress : whether to compress chunks (Zstandard).
        """
        import zarr

        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        place = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
        try:
            group = zarr.create_group(place)
            for name, output in sweep.outputs.items():
                group.create_array(
                    name,
                    shape=(sweep.rows, *output.shape),
                    chunks=(sweep.chunk, *(max(1, size) for size in output.shape)),
                    dtype=output.dtype,
                    dimension_names=("row", *(f"{name}_{dim}" for dim in output.dims)),
                    compressors="auto" if compress else None,
                )
            columns = [*sweep.outputs, *(f"input {name}" for name in sweep.inputs)]
            checksums = group.create_array(
                CHECKSUMS,
                shape=(sweep.chunks, len(columns)),
                chunks=(1, len(columns)),
                dtype="uint64",
                fill_value=0,
                dimension_names=("chunk", "array"),
                compressors=None,
            )
            checksums.attrs["columns"] = columns
            group.attrs["sweep"] = dict(described)
            place.rename(path)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return cls(path)

    # --- chunks ------------------------------------------------------------------------------------------

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return int(self._checksums.shape[0])

    @property
    def finished(self) -> np.ndarray:
        """Which chunks say that they are finished, (chunks,)."""
        finished: np.ndarray = (np.asarray(self._checksums[:]) != 0).all(axis=1)
        return finished

    def bounds(self, number: int) -> tuple[int, int]:
        """First row of a chunk, and the one behind its last."""
        size, rows = self.described["chunk"], self.described["rows"]
        return number * size, min((number + 1) * size, rows)

    def write(self, number: int, arrays: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]) -> None:
        """Write a chunk, and then that it is finished.

        Parameters
        ----------
        number : of the chunk.
        arrays : its outputs.
        inputs : its rows of the inputs.
        """
        start, stop = self.bounds(number)
        for name in self.names:
            self.arrays[name][start:stop] = arrays[name]
        self._checksums[number] = self._sums(arrays, inputs)

    def flaw(self, number: int, inputs: Mapping[str, np.ndarray]) -> str | None:
        """Why a chunk has to be computed: "" where it never was, None where it is as it should be.

        Parameters
        ----------
        number : of the chunk.
        inputs : its rows of the inputs as they are today.
        """
        try:
            expected = np.asarray(self._checksums[number])
        except Exception as error:  # whatever a codec says of a damaged file
            return f"its checksums cannot be read ({type(error).__name__})"
        if not expected.any():
            return ""
        start, stop = self.bounds(number)
        arrays = {}
        for name in self.names:
            try:
                arrays[name] = np.ascontiguousarray(self.arrays[name][start:stop])
            except Exception as error:
                return f"'{name}' cannot be read ({type(error).__name__})"
        found = self._sums(arrays, inputs)
        wrong = [name for name, a, b in zip(self._columns, expected, found, strict=True) if a != b]
        return f"'{wrong[0]}' does not have its checksum" if wrong else None

    def _sums(self, arrays: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        given = [arrays[name] for name in self.names] + [inputs[name] for name in inputs]
        return np.array([checksum(array) for array in given], dtype=np.uint64)

    # --- what it is of -----------------------------------------------------------------------------------

    def require(self, described: Mapping[str, Any], other_versions: bool = False) -> None:
        """Raise `StoreError` unless this is the store of the sweep that is described.

        Parameters
        ----------
        described : its `description`.
        other_versions : whether it may have been begun with other versions of the packages.
        """
        for name in ("format", "name", "rows", "chunk", "seed", "outputs", "inputs"):
            if self.described.get(name) != described[name]:
                there, here = self.described.get(name), described[name]
                raise StoreError(
                    f"{self.path} is the store of another sweep: its {name} is {there}, not {here}; "
                    "name another folder, or remove this one"
                )
        if self.described["function"] != described["function"]:
            raise StoreError(
                f"{self.path} is the store of another sweep '{self.described['name']}': its robot, its "
                "parameters or its function are not the same; name another folder, or remove this one"
            )
        before, now = self.described["versions"], described["versions"]
        other = [
            f"{name} {before.get(name)}, now {now[name]}" for name in now if before.get(name) != now[name]
        ]
        if other and not other_versions:
            raise StoreError(
                f"{self.path} was begun with {'; '.join(other)}: last digits may differ from chunk to chunk. "
                "Allow it (other_versions=True, --other-versions), or name another folder"
            )

    def remnants(self) -> list[Path]:
        """Files that a write left behind which was cut off."""
        return sorted(self.path.rglob("*.partial"))


def open_inputs(paths: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """The opened Zarr arrays of a sweep's inputs.

    Parameters
    ----------
    paths : {name: path}.
    rows : how many rows each should have at least.

    Raises
    ------
    SweepError : there is no such array, or it has other rows.
    """
    import zarr

    arrays = {}
    for name, path in paths.items():
        try:
            arrays[name] = zarr.open_array(Path(path), mode="r")
        except (FileNotFoundError, KeyError, ValueError, NotADirectoryError) as error:
            raise SweepError(f"inputs: there is no Zarr array '{name}' at {path}") from error
        if arrays[name].ndim == 0 or arrays[name].shape[0] != rows:
            raise SweepError(f"inputs: '{name}' has the shape {arrays[name].shape}; expected {rows} rows")
    return arrays
