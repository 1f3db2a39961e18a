"""The store of a sweep: a Zarr group with an array per output, and the checksums of finished chunks.

Every chunk of rows is one file per array. Zarr writes a file under another name and then renames it; when all
files of a chunk are there, its row of ``checksums`` is written, with the CRC-32C of the bytes of every array
plus 2^32. A zero there means that the chunk is not finished. A checksum that differs from that of the bytes
read means that the chunk is damaged. Any program that reads Zarr 3 can read the arrays.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from connections._labelled import xarray
from connections._written import make_folder, require_files
from connections.checks import require_path, require_writable
from connections.sweeps.errors import StoreError, SweepError
from connections.sweeps.fingerprint import identity, versions
from connections.sweeps.sources import sources
from connections.sweeps.store_layout import CHECKSUMS, columns_of, create_arrays, require_layout
from connections.sweeps.sweep import Sweep

FORMAT = 1
_FINISHED = 1 << 32
_WAYS_OUT = "name another folder, or remove this one"


def checksum(array: np.ndarray) -> int:
    """CRC-32C of the bytes of a C-contiguous array, plus 2^32."""
    import google_crc32c  # Zarr's own

    return _FINISHED + int(google_crc32c.value(array.reshape(-1).view(np.uint8)))


def description(sweep: Sweep, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a sweep that its store keeps, a dict of JSON values.

    Parameters
    ----------
    sweep : the sweep.
    inputs : its opened inputs.
    """
    function, modules = identity(sweep.function)
    texts, packages = sources(modules)
    return {
        "format": FORMAT,
        "name": sweep.name,
        "rows": sweep.rows,
        "chunk": sweep.chunk,
        "seed": sweep.seed,
        "outputs": {name: [list(output.shape), output.dtype] for name, output in sweep.outputs.items()},
        "inputs": {name: [list(array.shape), str(array.dtype)] for name, array in inputs.items()},
        "function": function,
        "sources": texts,
        "versions": versions(packages),
        "about": dict(sweep.about),
    }


class Store:
    """An existing store.

    Parameters
    ----------
    path : its folder.

    Raises
    ------
    StoreError : there is no store of a sweep, or its arrays do not have the described layout.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import sweeps
    >>> def squares(chunk):
    ...     return {"square": np.arange(chunk.start, chunk.stop) ** 2.0}
    >>> sweep = sweeps.Sweep("squares", squares, rows=5, outputs={"square": sweeps.Output()}, chunk=2)
    >>> summary = sweeps.run_sweep(sweep, "squares.zarr", workers=0)
    >>> store = sweeps.Store("squares.zarr")
    >>> store.chunks, store.group["square"][:]
    (3, array([ 0.,  1.,  4.,  9., 16.]))
    """

    def __init__(self, path: Any) -> None:
        import zarr

        self.path = require_path("path", path)
        _require_files(self.path)
        if not self.path.is_dir():
            raise StoreError(f"{self.path} is not the store of a sweep: it is not a folder")
        zarr.config.set({"array.write_empty_chunks": True})  # so that a missing file means a lost chunk
        try:
            self.group = zarr.open_group(self.path, mode="r+")
            self.described: dict[str, Any] = dict(self.group.attrs["sweep"])  # type: ignore[arg-type]
            require_layout(self.group, self.described)
        except StoreError as error:
            raise StoreError(f"{self.path} is damaged: {error}; {_WAYS_OUT}") from None
        except Exception as error:  # any error of Zarr about damaged metadata
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise StoreError(f"{self.path} is not the store of a sweep ({reason}); {_WAYS_OUT}") from error
        self.names: tuple[str, ...] = tuple(self.described["outputs"])
        self.arrays: dict[str, Any] = {name: self.group[name] for name in self.names}
        self._checksums: Any = self.group[CHECKSUMS]
        self._columns = columns_of(self.described)

    @classmethod
    def create(cls, path: Any, sweep: Sweep, described: Mapping[str, Any], compress: bool = False) -> Store:
        """A store without results; the folder is created under another name and renamed to `path` at the end.

        Parameters
        ----------
        path : a folder that does not exist yet.
        sweep : the sweep.
        described : its `description`.
        compress : whether to compress chunks (Zstandard).

        Raises
        ------
        StoreError : the folder cannot be written.
        """
        import zarr

        path = Path(path)
        require_place(path)
        make_folder(path.parent)
        place = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
        try:
            make_folder(place)  # of this user alone
            group = zarr.create_group(place)
            dims = {name: output.dims for name, output in sweep.outputs.items()}
            create_arrays(group, described, dims, compress)
            group.attrs["sweep"] = dict(described)
            place.rename(path)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return cls(path)

    def to_xarray(self) -> Any:
        """An `xarray.Dataset` of the outputs, whose first axis is ``row``; values are read when used.

        The coordinate ``finished`` says which rows have been computed; the others are zeros. Needs the extra
        xarray.

        Raises
        ------
        ImportError : xarray is not installed; the message has the command.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from connections.sweeps import Output, Store, Sweep, run_sweep
        >>> folder = tempfile.mkdtemp() + "/squares.zarr"
        >>> def square(chunk):
        ...     return {"square": np.arange(chunk.start, chunk.stop) ** 2.0}
        >>> summary = run_sweep(Sweep("squares", square, 6, {"square": Output(())}, 3), folder, workers=0)
        >>> float(Store(folder).to_xarray().square.sel(row=5))
        25.0
        """
        data = xarray().open_zarr(self.path, consolidated=False, chunks={})
        done = np.repeat(self.finished, self.described["chunk"])[: self.described["rows"]]
        return data[list(self.names)].assign_coords(finished=("row", done))

    # --- chunks ------------------------------------------------------------------------------------------

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return int(self._checksums.shape[0])

    @property
    def finished(self) -> np.ndarray:
        """Whether each chunk is marked as finished, (chunks,) booleans."""
        return np.array([self._marks(number).all() for number in range(self.chunks)])

    def bounds(self, number: int) -> tuple[int, int]:
        """First row of a chunk, and the row after its last."""
        size, rows = self.described["chunk"], self.described["rows"]
        return number * size, min((number + 1) * size, rows)

    def write(self, number: int, arrays: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]) -> None:
        """Write a chunk, and then its checksums, which mark it as finished.

        Parameters
        ----------
        number : the chunk's index.
        arrays : the chunk's rows of each output.
        inputs : the chunk's rows of each input.

        Raises
        ------
        StoreError : a file of the chunk cannot be written.
        """
        start, stop = self.bounds(number)
        for name in self.names:
            with self._writing(number, name):
                self.arrays[name][start:stop] = arrays[name]
        with self._writing(number, CHECKSUMS):
            self._checksums[number] = self._sums(arrays, inputs)

    def flaw(self, number: int, inputs: Mapping[str, np.ndarray]) -> str | None:
        """The reason to compute a chunk again, "" if it was never computed, None if it is valid.

        Parameters
        ----------
        number : the chunk's index.
        inputs : the chunk's rows of each input, read now.
        """
        try:
            expected = np.asarray(self._checksums[number])
        except Exception as error:  # any error of a codec about a damaged file
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
        sums = self._sums(arrays, inputs)
        wrong = [name for name, a, b in zip(self._columns, expected, sums, strict=True) if a != b]
        return f"'{wrong[0]}' does not have its checksum" if wrong else None

    def _sums(self, arrays: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        columns = {**arrays, **{f"input {name}": array for name, array in inputs.items()}}
        return np.array([checksum(columns[column]) for column in self._columns], dtype=np.uint64)

    def _marks(self, number: int) -> np.ndarray:
        """Whether each checksum of a chunk is written, (arrays,) booleans; False if they cannot be read."""
        try:
            marks: np.ndarray = np.asarray(self._checksums[number]) != 0
            return marks
        except Exception:  # any error of a codec about a damaged file
            return np.zeros(len(self._columns), bool)

    @contextmanager
    def _writing(self, number: int, name: str) -> Iterator[None]:
        _require_files(self.path / name / "c" / str(number))
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"{self.path}: chunk {number} of '{name}' cannot be written ({error})"
            ) from error

    # --- comparison with a sweep ----------------------------------------------------------------------------

    def require(
        self, described: Mapping[str, Any], other_versions: bool = False, other_sources: bool = False
    ) -> None:
        """Raise `StoreError` unless this is the store of the described sweep.

        Parameters
        ----------
        described : its `description`.
        other_versions : whether the store may have been created with other versions of the packages.
        other_sources : whether the user's modules may have been edited since.
        """
        for name in ("format", "name", "rows", "chunk", "seed", "outputs", "inputs"):
            if self.described.get(name) != described[name]:
                there, here = self.described.get(name), described[name]
                raise StoreError(
                    f"{self.path} is the store of another sweep: its {name} is {there}, not {here}; "
                    f"{_WAYS_OUT}"
                )
        if self.described.get("function") != described["function"]:
            raise StoreError(
                f"{self.path} is the store of another sweep '{self.described['name']}': its robot, its "
                f"parameters or its function are not the same; {_WAYS_OUT}"
            )
        before, now = self._before("sources"), described["sources"]
        edited = sorted(name for name in before | now if before.get(name) != now.get(name))
        if edited and not other_sources:
            raise StoreError(
                f"{self.path} was begun with another text of {', '.join(edited)}: undo what was edited, "
                "allow it (other_sources=True, --other-sources) if no number depends on it, or name another "
                "folder"
            )
        before, now = self._before("versions"), described["versions"]
        other = [
            f"{name} {before.get(name)}, now {now[name]}" for name in now if before.get(name) != now[name]
        ]
        if other and not other_versions:
            raise StoreError(
                f"{self.path} was begun with {'; '.join(other)}: last digits may differ from chunk to chunk. "
                "Allow it (other_versions=True, --other-versions), or name another folder"
            )

    def _before(self, name: str) -> dict[str, Any]:
        """The value of `name` in the stored description; empty if it is damaged."""
        said = self.described.get(name)
        return said if isinstance(said, dict) else {}

    def remnants(self) -> list[Path]:
        """Files that an interrupted write has left behind."""
        return sorted(self.path.rglob("*.partial"))


def _require_files(path: Path) -> None:
    """Raise `StoreError` if a folder has a link, which leads elsewhere, or a pipe, which may have no end."""
    try:
        require_files(path)
    except OSError as error:
        raise StoreError(str(error)) from None


def require_place(path: Path) -> None:
    """Raise `StoreError` unless a store can be created at a path."""
    try:
        require_writable(path.parent)
    except OSError as error:
        raise StoreError(f"the store {path} cannot be made: {error}") from error


def open_inputs(paths: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """The opened Zarr arrays of a sweep's inputs.

    Parameters
    ----------
    paths : {name: path}.
    rows : the number of rows of each.

    Raises
    ------
    SweepError : there is no array at a path, or it has another number of rows.
    """
    import zarr

    arrays = {}
    for name, path in paths.items():
        try:
            arrays[name] = zarr.open_array(Path(path), mode="r")
        except Exception as error:  # any error of Zarr about something that is not an array
            raise SweepError(
                f"inputs: there is no Zarr array '{name}' at {path} ({type(error).__name__})"
            ) from error
        if arrays[name].ndim == 0 or arrays[name].shape[0] != rows:
            raise SweepError(f"inputs: '{name}' has the shape {arrays[name].shape}; expected {rows} rows")
    return arrays
