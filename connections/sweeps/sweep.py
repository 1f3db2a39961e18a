"""`Sweep`: a function of a chunk of rows, the arrays that it returns, and the number of rows.

A chunk has an index, its rows, its inputs, and a random generator of its own,

    SeedSequence(seed, spawn_key=(chunk,)),

so its results depend neither on the worker that computes it nor on the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from connections._words import words_of
from connections.checks import (
    ShapeError,
    as_array,
    is_masked,
    is_whole,
    require_indices,
    require_mapping,
    require_names,
    require_path,
    require_text,
    require_type,
)
from connections.sweeps.errors import SweepError

_FORBIDDEN = ("checksums",)  # the store has an array of this name


@dataclass(frozen=True)
class Output:
    """An output of a sweep, one value per row.

    Parameters
    ----------
    shape : of one row's value; () for a number.
    dtype : NumPy's name of the type: of numbers, bool, or times.
    dims : a name for every axis of `shape`; numbered if empty.

    Raises
    ------
    SweepError : `dims` has another length, or `dtype` is of texts or objects.

    Examples
    --------
    >>> from connections import sweeps
    >>> sweeps.Output((2, 3), dims=("row", "column"))
    Output(shape=(2, 3), dtype='float64', dims=('row', 'column'))
    >>> sweeps.Output((2, 3), dims=("row",))
    Traceback (most recent call last):
        ...
    connections.sweeps.errors.SweepError: dims: expected 2 names for the shape (2, 3), got ('row',)
    """

    shape: tuple[int, ...] = ()
    dtype: str = "float64"
    dims: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = require_indices("shape", self.shape)
        dims = require_names("dims", self.dims) or tuple(f"axis_{number}" for number in range(len(shape)))
        if len(dims) != len(shape):
            raise SweepError(f"dims: expected {len(shape)} names for the shape {shape}, got {dims}")
        dtype = _dtype_of(self.dtype)
        if dtype is None or dtype.kind not in "biufcmM":
            raise SweepError(f"dtype: expected a type of numbers, bool or times, got {words_of(self.dtype)}")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dims", dims)
        object.__setattr__(self, "dtype", dtype.name)

    @property
    def row_bytes(self) -> int:
        """Size of one row's value."""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=np.int64))


def _dtype_of(name: Any) -> np.dtype[Any] | None:
    try:
        return np.dtype(name) if isinstance(name, str | type | np.dtype) else None
    except TypeError:
        return None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive rows of a sweep.

    Parameters
    ----------
    number : of the chunk, from 0.
    start, stop : its rows.
    seed : of the sweep.
    inputs : the rows of the sweep's inputs, (stop - start, ...) each.

    Examples
    --------
    A sweep's function can be tried on a chunk of one's own.

    >>> import numpy as np
    >>> from connections import sweeps
    >>> def squares(chunk):
    ...     return {"square": np.arange(chunk.start, chunk.stop) ** 2}
    >>> squares(sweeps.Chunk(number=1, start=2, stop=4, seed=0))
    {'square': array([4, 9])}
    """

    number: int
    start: int
    stop: int
    seed: int
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    def rng(self) -> np.random.Generator:
        """A new random generator of the chunk, with the same numbers at every call."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.number,)))

    def rng_of(self, *key: int) -> np.random.Generator:
        """The random generator of an object that several chunks share, given its indices."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(0, *key)))


@dataclass(frozen=True, eq=False)
class Sweep:
    """Rows that a function computes chunk by chunk.

    Parameters
    ----------
    name : the name of the sweep.
    function : `Chunk` -> {name: (rows of the chunk, ...)}, an array for every output. It travels to the
        workers by pickle, functions of a script or a notebook included.
    rows : number of rows.
    outputs : {name: `Output`}.
    chunk : rows per chunk; the last one may have fewer.
    seed : of all random numbers.
    inputs : {name: path of a Zarr array (rows, ...)}, which workers read chunk by chunk.
    about : further information for readers of the store, as JSON.

    Raises
    ------
    SweepError : a number is not a positive integer, there is no output, or a name cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import sweeps
    >>> def squares(chunk):
    ...     return {"square": np.arange(chunk.start, chunk.stop) ** 2.0}
    >>> sweep = sweeps.Sweep("squares", squares, rows=5, outputs={"square": sweeps.Output()}, chunk=2)
    >>> sweep.rows, sweep.outputs
    (5, {'square': Output(shape=(), dtype='float64', dims=())})
    """

    name: str
    function: Callable[[Chunk], Mapping[str, Any]]
    rows: int
    outputs: Mapping[str, Output]
    chunk: int = 1000
    seed: int = 0
    inputs: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require_mapping("outputs", self.outputs, "{name: Output}")
        require_mapping("inputs", self.inputs, "{name: path}")
        require_mapping("about", self.about, "a mapping")
        for name, least in (("rows", 1), ("chunk", 1), ("seed", 0)):
            object.__setattr__(self, name, whole(name, getattr(self, name), least))
        object.__setattr__(self, "chunk", min(self.chunk, self.rows))
        if not callable(self.function) or isinstance(self.function, type):
            raise SweepError(f"function: expected a function of a chunk, got {words_of(self.function)}")
        if not self.outputs:
            raise SweepError("outputs: a sweep gives at least one array")
        for name, output in self.outputs.items():
            require_type(f"outputs[{name!r}]", output, Output)
            if not isinstance(name, str) or not name.isidentifier() or name in _FORBIDDEN:
                raise SweepError(f"outputs: {name!r} cannot be the name of an array")
        for name, path in self.inputs.items():
            if isinstance(path, np.ndarray | list | tuple):
                raise SweepError(
                    f"inputs: '{name}' is an array; write it first, zarr.save_array(PATH, array), "
                    "and give the path, so that workers read their rows themselves"
                )
            require_path(f"inputs[{name!r}]", path)

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.rows // self.chunk)

    def bounds(self, number: int) -> tuple[int, int]:
        """First row of a chunk, and the row after its last."""
        return number * self.chunk, min((number + 1) * self.chunk, self.rows)

    def compute(self, number: int, inputs: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """The arrays of one chunk, checked against `outputs`, C-contiguous.

        Parameters
        ----------
        number : of the chunk.
        inputs : its rows of the inputs.

        Raises
        ------
        SweepError : the function did not return the described arrays. ShapeError : one has another shape.
        TypeError, ValueError : one has other numbers than its output's type.
        """
        start, stop = self.bounds(number)
        given = self.function(Chunk(number, start, stop, self.seed, dict(inputs or {})))
        if not isinstance(given, Mapping) or set(given) != set(self.outputs):
            got = ", ".join(map(str, given)) if isinstance(given, Mapping) else type(given).__name__
            raise SweepError(f"the function should return {', '.join(self.outputs)}; it returned {got}")
        arrays = {}
        for name, output in self.outputs.items():
            arrays[name] = _as_output(f"'{name}' of a chunk", given[name], np.dtype(output.dtype))
            if arrays[name].shape != (stop - start, *output.shape):
                raise ShapeError(f"'{name}' of a chunk", (stop - start, *output.shape), arrays[name].shape)
        return arrays


def _as_output(name: str, value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """The value that a sweep's function returned, as a C-contiguous array of the output's type."""
    if dtype.kind in "biuf":
        as_array(name, value, ())
    elif is_masked(value) or not np.can_cast(np.asarray(value).dtype, dtype, "same_kind"):
        raise TypeError(f"{name}: expected an array of {dtype}, got {words_of(value)}")
    given = np.asarray(value)
    try:
        with np.errstate(invalid="ignore"):
            array = given.astype(dtype, order="C", copy=False)
    except OverflowError:
        array = None
    if array is None or (dtype.kind in "biu" and given.dtype != dtype and not (array == given).all()):
        raise ValueError(f"{name}: {dtype} does not have all of its numbers")
    return array


def whole(name: str, value: Any, least: int) -> int:
    """`value` as an integer of at least `least`.

    Raises
    ------
    SweepError : `value` is something else.
    """
    if not is_whole(value) or value < least:
        raise SweepError(f"{name}: expected a whole number of at least {least}, got {words_of(value)}")
    return int(value)


def rows_within(limit: int, outputs: Mapping[str, Output], bytes_per_chunk: int = 2**25) -> int:
    """Rows per chunk, at most `limit`, such that the arrays of a chunk have at most `bytes_per_chunk`."""
    return max(1, min(limit, bytes_per_chunk // max(1, sum(output.row_bytes for output in outputs.values()))))
