"""Compiled functions as operations of JAX's compiled functions on the processor, with no Python in between.

XLA calls a foreign function with one pointer to a call frame, whose layout is in `internals.call_frame`. Here
the foreign functions are compiled by Numba. If one refuses its input, that row of the result is NaN. There
are functions of one configuration, and functions of rows, which XLA's threads compute piece by piece.

The functions here call compiled ones through the name of a symbol and do not contain their code. So they stay
in Numba's cache if the compiled ones change, and take only a second to compile.

A frame that is not as expected would be read as garbage. So before the first operation, jaxlib's header is
compared with what is assumed, and XLA calls a function whose result is known. If one of them disagrees, or if
JAX computes in float32, operations are callbacks into Python: the same results, slower.
"""

# mypy: disable-error-code="call-arg, var-annotated", warn-unreachable=False
# (compiled functions call Numba's intrinsics without their first argument)

from __future__ import annotations

from connections.engines.internals import numba_import  # noqa: F401  # isort: skip

import functools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic

from connections._children import held_by_forks
from connections.engines.disk_cache import cache_of
from connections.engines.exported import exported_call
from connections.engines.inlined.simd import INTERNAL, LANES
from connections.engines.internals import call_frame, numba_names
from connections.engines.internals.jax_names import ForeignCall, foreign_call
from connections.engines.notices import announce_callbacks
from connections.engines.registry import is_good
from connections.engines.source_fingerprint import fingerprint

_handlers: dict[tuple[str, Form], Any] = {}  # name and form of an operation -> what XLA calls for it
_ready: dict[str, str] = {}  # the same -> its name in XLA, where that is registered
_lock = held_by_forks(threading.RLock())
#: Values of LANES that machines have. What differs between them is in an operation for each of them, because
#: an operation that is exported from one machine runs on others.
WIDTHS = (4, 8)
# For functions that no handler but compiled code calls.
_internal = njit(**INTERNAL)


Write = Callable[[Any, Any, Any], None]


@dataclass(frozen=True)
class WorkCopy:
    """An argument of which every call gets a copy of its own, followed by zeros, to work in.

    Parameters
    ----------
    array : (k,) float64.
    size : the number of slots in all.
    """

    array: np.ndarray
    size: int


@dataclass(frozen=True)
class FilledCopy:
    """Like `WorkCopy`, but some entries of the copy are made of the last vector of the call.

    Parameters
    ----------
    array : (k,) float64.
    size : the number of slots in all.
    constants : (m,) float64.
    write : (work, constants, the last vector) -> None; writes to `work`. It is compiled with the operation.
    """

    array: np.ndarray
    size: int
    constants: np.ndarray
    write: Write


@dataclass(frozen=True)
class ReadArray:
    """An argument that all calls read, (k,) float64."""

    array: np.ndarray


@dataclass(frozen=True)
class Flag:
    """A boolean argument."""

    value: bool


@dataclass(frozen=True)
class Whole:
    """An argument that is a whole number."""

    value: int


@dataclass(frozen=True)
class Numbers:
    """Whole numbers that all calls read, (k,) int64."""

    array: np.ndarray


@dataclass(frozen=True)
class NumbersByLanes:
    """`Numbers` that depend on the width of registers, for each of `WIDTHS`."""

    arrays: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class LaneScratch:
    """Zeros of which every piece of rows gets its own, (slots, LANES) float64, to work in."""

    slots: int


Constant = WorkCopy | FilledCopy | ReadArray | Flag | Whole | Numbers | NumbersByLanes | LaneScratch

_PIECE = 128  # at least so many rows are a piece of work for a thread
# At most so many numbers are an argument of a callback: JAX lets the threads that may be waiting for
# callbacks copy longer ones.
_SHORT = 8192


def operation(
    name: str,
    function: Any,
    shape: tuple[int, ...],
    before: Sequence[Constant],
    vectors: Sequence[Any],
    after: Sequence[Constant] = (),
    *,
    rows: bool = False,
    each: bool = False,
) -> jax.Array:
    """A compiled function of vectors as a part of a traced function; NaN if it refuses its input.

    Parameters
    ----------
    name : unique for the function and the kinds of its arguments.
    function : compiled for one type of each argument, (*before, *vectors, *after, out) -> whether the input
        was good, or an integer that is zero if it was. A function of rows takes vectors (m, k) and fills
        out (m, size); its rows must not depend on each other.
    shape : shape of the result for one vector each.
    before, after : the arguments before and behind the vectors; constants of the operation.
    vectors : the arguments (k,) of this call; (..., k) with the same leading axes for a function of rows, but
        one vector (m,) for all rows if `before` has a `FilledCopy`.
    rows : whether it is a function of rows, which runs in several threads if there are many.
    each : whether a function of one configuration is called for each row of vectors (..., k), each with its
        own numbers of a `FilledCopy`; in several threads, too.
    """
    batch = vectors[0].shape[:-1] if rows or each else ()
    result = _result_type((*batch, *shape))
    if _are_direct(result, vectors):
        calls = "rows" if rows else "each" if each else "one"
        form = Form(_letters(before), len(vectors), _letters(after), len(shape), calls)
        with _lock:
            _register(name, function, form, _writer(before))
        return _direct_call(name, shape, form, before, vectors, after)

    call = _callback(function, shape, before, after, rows)
    found: jax.Array
    if not (rows or each):
        found = jax.pure_callback(call, result, *vectors, vmap_method="sequential")
        return found
    shared = vectors[-1:] if rows and _writer(before) else []
    flat = [vector.reshape(-1, vector.shape[-1]) for vector in vectors[: len(vectors) - len(shared)]]

    def row(vectors: Sequence[Any]) -> Any:
        return jax.pure_callback(call, _result_type(shape), *vectors, *shared, vmap_method="expand_dims")

    piece = max(1, _SHORT // max(vector.shape[-1] for vector in flat))
    if len(flat[0]) <= piece:
        found = jax.vmap(row)(flat)
    else:
        found = jax.lax.map(row, flat, batch_size=piece)
    return found.reshape(result.shape)


def _result_type(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(np.float64))


def _are_direct(result: jax.ShapeDtypeStruct, vectors: Sequence[Any]) -> bool:
    """Whether XLA calls the compiled function itself."""
    with _lock:
        doubles = {result.dtype, *(vector.dtype for vector in vectors)} == {np.dtype(np.float64)}
        return doubles and not _objection()


@dataclass(frozen=True)
class Form:
    """The kinds of an operation's arguments, as a text and back.

    Parameters
    ----------
    before, after : a letter of `_LETTERS` for each constant.
    vectors : how many there are.
    axes : of the result for one vector each.
    calls : ``"rows"`` of a function of rows; of one configuration ``"each"``, for each row, or ``"one"``.
    """

    before: str
    vectors: int
    after: str
    axes: int
    calls: str

    @property
    def fills(self) -> bool:
        """Whether the last vector of a call is for a `FilledCopy`."""
        return any(_LETTERS[letter] is FilledCopy for letter in self.before)

    def __str__(self) -> str:
        return f"{self.before},{self.vectors},{self.after},{self.axes},{self.calls}"

    @classmethod
    def of(cls, text: str) -> Form:
        """The form with this text."""
        before, vectors, after, axes, calls = text.split(",")
        return cls(before, int(vectors), after, int(axes), calls)


_LETTERS = {
    "W": WorkCopy,
    "D": FilledCopy,
    "R": ReadArray,
    "F": Flag,
    "I": Whole,
    "N": Numbers,
    "B": NumbersByLanes,
    "L": LaneScratch,
}


def _letters(constants: Sequence[Constant]) -> str:
    letters = {kind: letter for letter, kind in _LETTERS.items()}
    return "".join(letters[type(constant)] for constant in constants)


def _register(name: str, function: Any, form: Form, write: Write | None = None) -> None:
    """Give XLA what it calls for an operation, if that was not done yet.

    Its name in XLA contains the hash of what the function is compiled from: arrays that were packed for it,
    and saved within a function of JAX, reach no machine code of other sources.
    """
    if name in _ready:
        return
    sources = [fingerprint(each)[:16] for each in (function, write) if each is not None]
    handler, target = _handler(name, function, form, write), "_".join(["connections", name, *sources])
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler.ctypes), platform="cpu")
    jax.ffi.register_ffi_target_as_batch_partitionable(target)
    _ready[name] = target


def checked_handler(name: str, function: Any, form: str, write: Write) -> Callable[[int], int]:
    """The handler of an exported program: frame -> 0, or not 0 if its arrays are not as large as it says.

    Parameters
    ----------
    name, function : as in `operation`.
    form : the text of its `Form`.
    write : of a `FilledCopy`, if there is one.
    """
    with _lock:
        read = Form.of(form)
        address = _handler(name, function, read, write if read.fills else None).address
        return functools.partial(_checked().ctypes, address)


@functools.cache
def _checked() -> Any:
    return _c_function(_checked_call, "checked_call", types.int64, [types.int64, types.int64])


def _handler(name: str, function: Any, form: Form, write: Write | None) -> Any:
    """The handler that XLA calls for an operation, compiled at the first time."""
    if (name, form) in _handlers:
        return _handlers[name, form]
    symbol = f"connections_{name}"
    llvm.add_symbol(symbol, numba_names.address(function))
    piece_of = _piece_of_rows if form.calls == "rows" else _piece_of_each
    piece = piece_of(_entry(symbol, function), form, write)
    if form.calls == "one":
        handler = _in_one_piece(njit(piece, inline="always", **INTERNAL), form.axes)
    else:
        arguments = [_POINTER, types.int64, types.int64]
        llvm.add_symbol(f"{symbol}_piece", _c_function(piece, f"{name}_piece", types.void, arguments).address)
        _add_pieces()
        handler = _in_many_pieces(_address(f"{symbol}_piece"), form.axes)
    _handlers[name, form] = _c_function(handler, name, types.int64, [_POINTER])
    return _handlers[name, form]


def _c_function(function: Any, name: str, result: Any, arguments: Sequence[Any]) -> Any:
    """A function of this file as a function of C, whose machine code is kept by a name of its own."""
    function.__name__ = function.__qualname__ = f"{name}_{fingerprint(function)[:16]}"
    return numba_names.c_function(function, result, arguments, cache_of(function))


def _direct_call(
    name: str,
    shape: tuple[int, ...],
    form: Form,
    before: Sequence[Constant],
    vectors: Sequence[Any],
    after: Sequence[Constant],
) -> jax.Array:
    """The operation by XLA's call of a registered function."""
    parts = [attribute for constant in (*before, *after) for attribute in _attributes_of(constant)]
    attributes = {f"a{number:02}": part for number, part in enumerate(parts)}
    for_all = form.calls == "rows" and form.fills
    lengths = [vector.shape[-1] for vector in vectors]

    def exported() -> tuple[str, Mapping[str, Any]]:
        bounds = np.array([len(vectors), for_all, *lengths, *shape], np.int64)
        return exported_call(name, str(form), attributes, bounds)

    found: jax.Array = foreign_call(ForeignCall(_ready[name], shape, attributes, exported), *vectors)
    return found


def _callback(
    function: Any,
    shape: tuple[int, ...],
    before: Sequence[Constant],
    after: Sequence[Constant],
    rows: bool,
) -> Callable[..., np.ndarray]:
    """The operation as a function of NumPy: of vectors (k,), or of (m, k) and, for all rows, (1, k)."""
    dtype = _result_type(shape).dtype

    def call(*vectors: Any) -> np.ndarray:
        given = [np.array(vector, dtype=np.float64, ndmin=2) for vector in vectors]
        out = np.empty((len(given[0]), *shape))
        first, last = [_argument_of(constant) for constant in before], [_argument_of(c) for c in after]
        constants = zip(first, before, strict=True)
        filled = [(work, constant) for work, constant in constants if isinstance(constant, FilledCopy)]
        numbers = given.pop() if filled else np.empty((1, 0))

        def compute(at: Any) -> bool:
            for work, constant in filled:
                constant.write(work, constant.constants, numbers[0 if len(numbers) == 1 else at])
            result = out[at].reshape(-1, math.prod(shape)) if rows else out[at]
            return is_good(function(*first, *(vector[at] for vector in given), *last, result))

        if not (rows and compute(slice(None))):  # rows that are refused are found one by one
            for row in range(len(out)):
                if not compute(slice(row, row + 1) if rows else row):
                    out[row] = np.nan
        return out.reshape(*vectors[0].shape[:-1], *shape).astype(dtype)

    return call


def _argument_of(constant: Constant) -> Any:
    """The compiled function's argument, for one call of the operation."""
    match constant:
        case WorkCopy(array, size) | FilledCopy(array, size):
            return np.concatenate([array, np.zeros(size - len(array))])
        case ReadArray(array) | Numbers(array):
            return array
        case NumbersByLanes(arrays):
            return arrays[WIDTHS.index(LANES)]
        case Flag(value):
            return bool(value)
        case Whole(value):
            return value
        case LaneScratch(slots):
            return np.zeros((slots, LANES))


def _writer(before: Sequence[Constant]) -> Write | None:
    """The function that fills the last vector of a call, if that is no argument of the compiled function."""
    return next((constant.write for constant in before if isinstance(constant, FilledCopy)), None)


def _attributes_of(constant: Constant) -> tuple[np.ndarray, ...]:
    match constant:
        case WorkCopy(array, size):
            return array, np.array([float(size)])
        case FilledCopy(array, size, constants):
            return array, np.array([float(size)]), constants
        case ReadArray(array) | Numbers(array):
            return (array,)
        case NumbersByLanes(arrays):
            return arrays
        case Flag(value) | Whole(value) | LaneScratch(value):
            return (np.array([float(value)]),)


# --- whether XLA's calls are as expected --------------------------------------------------------------------


@functools.cache
def _objection() -> str:
    """Why XLA is not to call compiled functions itself; empty if it can. A reason is said once."""
    found = call_frame.objection(call_frame.header())
    if not found:
        with ThreadPoolExecutor(1) as other:  # in this thread, JAX is tracing the caller's function
            found = other.submit(_objection_of_trial).result()
    if found:
        announce_callbacks(found)
    return found


def _objection_of_trial() -> str:
    """An error's words if XLA's calls of a function with a known result are wrong; empty if all is right."""
    try:
        (processor, *_) = jax.devices("cpu")
    except RuntimeError:
        return ""  # JAX runs on other devices only, and calls nothing
    read = np.array([1.0, 2.0, 4.0])
    before, after = (WorkCopy(np.array([0.5, 0.25]), 3), ReadArray(read)), (Flag(True),)
    x, y = np.array([[1.0, 2.0], [-1.0, 2.0], [3.0, 5.0]]), np.arange(9.0).reshape(3, 3)
    expected = x[:, :, None] * read - y[:, None] + 0.75
    expected[1] = np.nan  # refused
    try:
        function = _trial()
        form = Form(_letters(before), 2, _letters(after), 2, "one")
        _register("trial", function, form)
        call = jax.vmap(lambda x, y: _direct_call("trial", (2, 3), form, before, [x, y], after))
        with jax.default_device(processor), jax.enable_x64(True):
            found = np.asarray(jax.jit(call)(x, y))
    except Exception as error:  # of JAX or Numba, whatever it may be: the callback works without both
        return f"{type(error).__name__}: {error}"
    return "" if np.array_equal(found, expected, equal_nan=True) else f"a trial call gave {found.tolist()}"


def _trial() -> Any:
    """The function that is called to try, with every kind of argument; it refuses x[0] <= 0."""

    def trial(work, read, x, y, flag, out):
        for i in range(len(x)):
            for j in range(len(y)):
                out[i, j] = x[i] * read[j] - y[j] + (work[0] + work[1] + work[2])
        return flag and len(work) == 3 and x[0] > 0.0

    function, vector = njit(trial), types.float64[::1]
    numba_names.set_cache(function, cache_of(function))
    arguments = vector, vector, vector, vector, types.boolean, types.float64[:, ::1]
    numba_names.compile_for(function, arguments)
    return function


# --- compiled functions, by name ----------------------------------------------------------------------------


def _entry(symbol: str, function: Any) -> Any:
    """A compiled function for use in the functions below, which returns whether the input was good.

    It takes three tuples, the arguments before the vectors, these, and those behind them, and the result.
    """
    kinds, result = numba_names.types_of(function)
    is_boolean = isinstance(result, types.Boolean)

    @intrinsic
    def call(typing_context: Any, before: Any, vectors: Any, after: Any, out: Any) -> Any:
        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            given = [value for each in args[:3] for value in numba_names.unpack_tuple(builder, each)]
            present = [kind for each in sig.args[:3] for kind in each]
            pairs = zip([*given, args[3]], [*present, sig.args[3]], kinds, strict=True)
            values = [context.cast(builder, value, old, new) for value, old, new in pairs]
            found = numba_names.call_symbol(context, builder, symbol, kinds, result, values)
            return found if is_boolean else builder.icmp_signed("==", found, found.type(0))

        return types.boolean(before, vectors, after, out), emit

    return call


# --- the call frame -----------------------------------------------------------------------------------------


@intrinsic
def _words(typing_context: Any, address: Any) -> Any:
    """The 64-bit integers at an address."""
    return _at_address(address, types.int64)


@intrinsic
def _numbers(typing_context: Any, address: Any) -> Any:
    """The float64 numbers at an address."""
    return _at_address(address, types.float64)


def _at_address(address: Any, dtype: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

    return types.CPointer(dtype)(address), emit


@_internal
def _asked_for_version(frame):
    """Whether XLA only asks for the version of the interface, as at registration; if so, answer it."""
    extension = frame[call_frame.FRAME_EXTENSION]
    if extension == 0 or _words(extension)[call_frame.EXTENSION_TYPE] & 0xFFFFFFFF != call_frame.METADATA:
        return False
    # The major version is in the lower 32 bits, the minor version in the upper ones.
    theirs = _words(frame[call_frame.FRAME_API])[call_frame.API_VERSION]
    metadata = _words(_words(extension)[call_frame.EXTENSION_METADATA])
    metadata[call_frame.METADATA_VERSION] = (theirs >> 32 << 32) | call_frame.MAJOR_VERSION
    return True


@_internal
def _size(buffer, first, last):
    """The product of an argument's or a result's axes `first` to `last`, without the last."""
    size, dimensions = 1, _words(buffer[call_frame.BUFFER_DIMENSIONS])
    for axis in range(first, last):
        size *= dimensions[axis]
    return size


@_internal
def _rows_of(buffer, axes, first, stop):
    """Rows of an argument or a result as (m, k), k the product of its last `axes` axes."""
    rank = buffer[call_frame.BUFFER_RANK]
    width = _size(buffer, rank - axes, rank)
    return carray(_numbers(buffer[call_frame.BUFFER_DATA] + 8 * first * width), (stop - first, width))


@_internal
def _argument(frame, number, first, stop):
    """Rows of argument `number` as (m, k)."""
    return _rows_of(_words(_words(frame[call_frame.FRAME_ARGUMENTS])[number]), 1, first, stop)


@_internal
def _attribute(frame, number):
    """Attribute `number`, an array of float64."""
    array = _words(_words(frame[call_frame.FRAME_ATTRIBUTES])[number])
    return carray(_numbers(array[call_frame.ARRAY_DATA]), (array[call_frame.ARRAY_SIZE],))


@_internal
def _result_buffer(frame):
    """The buffer of the only result."""
    return _words(_words(frame[call_frame.FRAME_RESULTS])[0])


# --- the operations -----------------------------------------------------------------------------------------


@_internal
def _work(frame, number):
    """A copy of the array in attribute `number`, as long as the next attribute says."""
    array = _attribute(frame, number)
    work = np.zeros(int(_attribute(frame, number + 1)[0]))
    work[: len(array)] = array
    return work


@_internal
def _flag(frame, number):
    """The boolean in attribute `number`."""
    return _attribute(frame, number)[0] != 0.0


@_internal
def _whole(frame, number):
    """The whole number in attribute `number`."""
    return int(_attribute(frame, number)[0])


@_internal
def _whole_numbers(frame, number):
    """Attribute `number`, an array of int64."""
    array = _words(_words(frame[call_frame.FRAME_ATTRIBUTES])[number])
    return carray(_words(array[call_frame.ARRAY_DATA]), (array[call_frame.ARRAY_SIZE],))


_WIDTH = WIDTHS.index(LANES)


@_internal
def _whole_numbers_by_lanes(frame, number):
    """The array of int64 for this machine's registers, one of the attributes from `number` on."""
    return _whole_numbers(frame, number + _WIDTH)


@_internal
def _lanes(frame, number):
    """Zeros (slots, LANES), slots in attribute `number`, that begin at a multiple of 64 bytes."""
    count = int(_attribute(frame, number)[0]) * LANES
    space = np.zeros(count + 8)
    skip = (-space.ctypes.data // 8) % 8
    return space[skip : skip + count].reshape((count // LANES, LANES))


@_internal
def _count(frame, axes):
    """The number of rows of the result, whose last `axes` axes are those of one row."""
    buffer = _result_buffer(frame)
    return _size(buffer, 0, buffer[call_frame.BUFFER_RANK] - axes)


@_internal
def _result(frame, axes, first, stop):
    """Rows of the result as (m, k), k the product of its last `axes` axes."""
    return _rows_of(_result_buffer(frame), axes, first, stop)


@_internal
def _length(frame, axis):
    """The size of the result along its axis `axis`, counted from the last, which is 1."""
    buffer = _result_buffer(frame)
    return _words(buffer[call_frame.BUFFER_DIMENSIONS])[buffer[call_frame.BUFFER_RANK] - axis]


@_internal
def _fill_with_nan(good, out):
    """Fill `out` with NaN if a recursion refused its input."""
    if not good:
        out[:] = np.nan


# How a constant is read, and its number of attributes.
_READERS = {
    WorkCopy: (_work, 2),
    FilledCopy: (_work, 3),
    ReadArray: (_attribute, 1),
    Flag: (_flag, 1),
    Whole: (_whole, 1),
    Numbers: (_whole_numbers, 1),
    NumbersByLanes: (_whole_numbers_by_lanes, len(WIDTHS)),
    LaneScratch: (_lanes, 1),
}

# Tuples of arrays of several types: compiled functions that read one more than another, which operations of
# the same kinds share.


@_internal
def _none(*arguments):
    """The tuple of no constants, vectors or axes."""
    return ()


@functools.cache
def _constants(letters: str, first: int = 0) -> tuple[Any, int]:
    """A compiled function frame -> the constants of these kinds, and the number of the attribute behind them.

    Parameters
    ----------
    letters : as in `Form`.
    first : the number of their first attribute.
    """
    if not letters:
        return _none, first
    others, number = _constants(letters[:-1], first)
    reader, count = _READERS[_LETTERS[letters[-1]]]

    @_internal
    def constants(frame):
        return others(frame) + (reader(frame, number),)

    return constants, number + count


@functools.cache
def _vectors(count: int) -> tuple[Any, Any]:
    """Compiled functions (frame, first, stop) -> rows of `count` vectors, and (those, row) -> one row."""
    if not count:
        return _none, _none
    (others, other_rows), number = _vectors(count - 1), count - 1

    @_internal
    def vectors(frame, first, stop):
        return others(frame, first, stop) + (_argument(frame, number, first, stop),)

    @_internal
    def rows(vectors, row):
        return other_rows(vectors, row) + (vectors[number][row],)

    return vectors, rows


@functools.cache
def _shape(axes: int) -> Any:
    """A compiled function frame -> the last `axes` axes of the result."""
    if not axes:
        return _none
    others = _shape(axes - 1)

    @_internal
    def shape(frame):
        return (_length(frame, axes),) + others(frame)

    return shape


def _writer_of_filled(form: Form, write: Write | None) -> tuple[Any, int]:
    """A compiled function that writes to a `FilledCopy`, and the number of vectors that are left.

    It takes a frame, the constants before the vectors, of which the `FilledCopy` is the first, and the row of
    the last vector, which is no argument of the operation's function then.
    """
    if write is None:
        return _none, form.vectors
    writing, last = _compiled_once(write), form.vectors - 1

    @_internal
    def fill(frame, constants, row):
        writing(constants[0], _attribute(frame, 2), _argument(frame, last, row, row + 1)[0])

    return fill, last


@functools.cache
def _compiled_once(write: Write) -> Any:
    """The function, compiled for all operations of the process that contain it."""
    return _internal(write)


def _piece_of_each(entry: Any, form: Form, write: Write | None) -> Any:
    """A function (frame, first, stop) that computes rows by a function of one configuration."""
    before, number = _constants(form.before)
    after, _ = _constants(form.after, number)
    fill, count = _writer_of_filled(form, write)
    (vectors, row_of), shape_of, axes = _vectors(count), _shape(form.axes), form.axes

    def piece(frame, first, stop):
        head, tail, shape = before(frame), after(frame), shape_of(frame)
        given, out = vectors(frame, first, stop), _result(frame, axes, first, stop)
        for row in range(stop - first):
            fill(frame, head, first + row)
            _fill_with_nan(entry(head, row_of(given, row), tail, out[row].reshape(shape)), out[row])

    return piece


def _piece_of_rows(entry: Any, form: Form, write: Write | None) -> Any:
    """A function (frame, first, stop) that computes rows by a function of rows."""
    before, number = _constants(form.before)
    after, _ = _constants(form.after, number)
    fill, count = _writer_of_filled(form, write)
    (vectors, _), axes = _vectors(count), form.axes

    def piece(frame, first, stop):
        head, tail, out = before(frame), after(frame), _result(frame, axes, first, stop)
        fill(frame, head, 0)
        if not entry(head, vectors(frame, first, stop), tail, out):
            for row in range(first, stop):  # those that are refused are found one by one
                out = _result(frame, axes, row, row + 1)
                _fill_with_nan(entry(head, vectors(frame, row, row + 1), tail, out), out[0])

    return piece


def _in_one_piece(piece: Any, axes: int) -> Any:
    """A handler that computes all rows of a frame in XLA's own thread."""

    def handler(frame):
        if not _asked_for_version(frame):
            piece(frame, 0, _count(frame, axes))
        return 0

    return handler


def _in_many_pieces(address: Any, axes: int) -> Any:
    """A handler that computes the rows of a frame in XLA's threads, by the function at an address."""

    def handler(frame):
        if not _asked_for_version(frame):
            _in_pieces(frame, _count(frame, axes), address())
        return 0

    return handler


# --- exported programs --------------------------------------------------------------------------------------


def _checked_call(handler, frame):
    """Call a handler by its address if the arrays of a frame fit its `exported.BOUNDS`; -1 if they do not."""
    return _call_api(handler, frame) if _fits(_words(frame)) else -1


@_internal
def _fits(frame):
    """Whether arguments and result have the lengths that the attribute before the last says."""
    bounds = _whole_numbers(frame, frame[call_frame.FRAME_ATTRIBUTE_COUNT] - 2)
    vectors, for_all, lengths = bounds[0], bounds[1], bounds[2:]
    if frame[call_frame.FRAME_ARGUMENT_COUNT] != vectors or frame[call_frame.FRAME_RESULT_COUNT] != 1:
        return False
    rows = _rows_with(_result_buffer(frame), lengths[vectors:])
    for number in range(vectors):
        argument = _words(_words(frame[call_frame.FRAME_ARGUMENTS])[number])
        expected = rows if number < vectors - for_all else 1
        if _rows_with(argument, lengths[number : number + 1]) != expected:
            return False
    return rows >= 0


@_internal
def _rows_with(buffer, shape):
    """The number of rows of float64 that have this shape in an argument or a result; -1 if it is another."""
    axes = buffer[call_frame.BUFFER_RANK] - len(shape)
    if axes < 0 or buffer[call_frame.BUFFER_KIND] & 0xFFFFFFFF != call_frame.FLOAT64:
        return -1
    dimensions = _words(buffer[call_frame.BUFFER_DIMENSIONS])
    for axis in range(len(shape)):
        if dimensions[axes + axis] != shape[axis]:
            return -1
    return _size(buffer, 0, axes)


# --- pieces of rows, in the threads of XLA ------------------------------------------------------------------

# A job is a block of words that its users, the caller and the tasks given to XLA's threads, share. Each user
# takes pieces until there is none. The caller waits for the pieces that have been taken, not for tasks that
# have not begun, which may be never while all threads wait. A task that begins later finds no piece, and does
# not touch the frame; the last user frees the job.
_NEXT, _DONE, _USERS, _FRAME, _ROW_COUNT, _SIZE, _FUNCTION = range(7)
_POINTER = types.CPointer(types.int64)
_malloc: Any = types.ExternalFunction("malloc", types.int64(types.int64))
_free: Any = types.ExternalFunction("free", types.void(types.int64))
_yield: Any = types.ExternalFunction("sched_yield", types.int32())


@intrinsic
def _atomic_add(typing_context: Any, job: Any, word: Any, number: Any) -> Any:
    """Add a number to a word of a job, as one step for all threads; the word before."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", builder.gep(args[0], [args[1]]), args[2], "seq_cst")

    return types.int64(_POINTER, types.int64, types.int64), emit


@intrinsic
def _call_piece(typing_context: Any, function: Any, frame: Any, first: Any, stop: Any) -> Any:
    """Call a function of a frame and two numbers, by its address."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word.as_pointer(), word, word])
        target = builder.inttoptr(args[0], kind.as_pointer())
        builder.call(target, [builder.inttoptr(args[1], word.as_pointer()), *args[2:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), emit


@intrinsic
def _call_api(typing_context: Any, function: Any, arguments: Any) -> Any:
    """Call a function of XLA's interface by its address; its error, zero if there is none."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        word = ir.IntType(64)
        target = builder.inttoptr(args[0], ir.FunctionType(word, [word]).as_pointer())
        return builder.call(target, [args[1]])

    return types.int64(types.int64, types.int64), emit


def _address(symbol: str) -> Any:
    """A function of compiled code without arguments that returns the address of a symbol."""

    @intrinsic
    def address(typing_context: Any) -> Any:
        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            kind = ir.FunctionType(ir.VoidType(), [])
            target = numba_names.get_or_insert_function(builder.module, kind, symbol)
            return builder.ptrtoint(target, ir.IntType(64))

        return types.int64(), emit

    return address


@_internal
def _call_interface(frame, function, words, arguments):
    """Call a function of XLA's interface with a frame's context. Returns whether it succeeded.

    arguments : int64, words 0 and 2 are written: the structure's size, and the context.
    """
    api = _words(frame[call_frame.FRAME_API])
    arguments[0], arguments[2] = 8 * words, frame[call_frame.FRAME_CONTEXT]
    error = _call_api(api[function], arguments.ctypes.data)
    if error != 0:
        arguments[0], arguments[1], arguments[2] = 24, 0, error
        _call_api(api[call_frame.API_ERROR_DESTROY], arguments.ctypes.data)
    return error == 0


@_internal
def _take_pieces(job):
    """Take pieces of a job until there is none."""
    rows, size = job[_ROW_COUNT], job[_SIZE]
    while True:
        first = _atomic_add(job, _NEXT, size)
        if first >= rows:
            return
        _call_piece(job[_FUNCTION], job[_FRAME], first, min(first + size, rows))
        _atomic_add(job, _DONE, min(size, rows - first))


@_internal
def _release_job(job, address):
    """The end of a user of a job; the last one frees it."""
    if _atomic_add(job, _USERS, -1) == 1:
        _free(address)


def _task(job):
    """The task of one of XLA's threads: take pieces of a job until none is left."""
    _take_pieces(job)
    _release_job(job, _address_of(job))


@intrinsic
def _address_of(typing_context: Any, pointer: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ptrtoint(args[0], ir.IntType(64))

    return types.int64(pointer), emit


@functools.cache
def _add_pieces() -> None:
    """Compile `_task`, to which `_in_pieces` refers."""
    compiled = numba_names.c_function(_task, types.void, [_POINTER], cache_of(_task))
    llvm.add_symbol("connections_task", compiled.address)


_task_address = _address("connections_task")


@_internal
def _in_pieces(frame, rows, function):
    """Call a function (frame, first, stop) of the rows of a frame, in several threads if it is worth it."""
    arguments = np.zeros(5, np.int64)
    threads = np.ones(1, np.int64)
    if rows >= 2 * _PIECE:
        arguments[3] = threads.ctypes.data
        if not _call_interface(frame, call_frame.API_NUM_THREADS, 4, arguments):
            threads[0] = 1
    if threads[0] == 1:
        _call_piece(function, _address_of(frame), 0, rows)
        return
    size = max(_PIECE, LANES * ((rows + 4 * threads[0] * LANES - 1) // (4 * threads[0] * LANES)))
    helpers = min(threads[0], (rows + size - 1) // size) - 1
    address = _malloc(8 * 7)
    job = _words(address)
    job[_NEXT], job[_DONE], job[_USERS] = 0, 0, helpers + 1
    job[_FRAME], job[_ROW_COUNT], job[_SIZE], job[_FUNCTION] = _address_of(frame), rows, size, function
    for _ in range(helpers):
        arguments[1], arguments[3], arguments[4] = 0, _task_address(), address
        if not _call_interface(frame, call_frame.API_SCHEDULE, 5, arguments):
            _release_job(job, address)
    _take_pieces(job)
    while _atomic_add(job, _DONE, 0) < rows:
        _yield()
    _release_job(job, address)
