"""Compiled functions as operations of JAX's compiled functions on the processor, with no Python in between.

XLA calls a foreign function with one pointer to a call frame, whose layout is in `internals.call_frame`. Here
the foreign functions are compiled by Numba. If one refuses its input, that row of the result is NaN.

The functions here call compiled ones through the name of a symbol and do not contain their code. So they stay
in Numba's cache if the compiled ones change, and take only a second to compile.

A frame that is not as expected would be read as garbage. So before the first operation, jaxlib's header is
compared with what is assumed, and XLA calls a function whose result is known. If one of them disagrees, or if
JAX computes in float32, operations are callbacks into Python: the same results, slower.
"""

# mypy: disable-error-code="call-arg, var-annotated", warn-unreachable=False
# (compiled functions call Numba's intrinsics without their first argument)

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import llvmlite.binding as llvm
import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from connections.engines.disk_cache import cache_of
from connections.engines.internals import call_frame, numba_names
from connections.engines.notices import announce_callbacks
from connections.engines.registry import is_good
from connections.engines.rendered import execute

_ready: set[str] = set()
_lock = threading.Lock()


@dataclass(frozen=True)
class Work:
    """An argument of which every call gets a copy of its own, followed by zeros, to work in.

    Parameters
    ----------
    array : (k,) float64.
    size : the number of slots in all.
    """

    array: np.ndarray
    size: int


@dataclass(frozen=True)
class Read:
    """An argument that all calls read, (k,) float64."""

    array: np.ndarray


@dataclass(frozen=True)
class Flag:
    """A boolean argument."""

    value: bool


Constant = Work | Read | Flag


def operation(
    name: str,
    function: Any,
    shape: tuple[int, ...],
    before: Sequence[Constant],
    vectors: Sequence[Any],
    after: Sequence[Constant] = (),
) -> jax.Array:
    """A compiled function of vectors as a part of a traced function; NaN if it refuses its input.

    Parameters
    ----------
    name : unique for the function and the kinds of its arguments.
    function : compiled for one type of each argument, (*before, *vectors, *after, out) -> whether the input
        was good, or an integer that is zero if it was.
    shape : shape of the result for one vector each.
    before, after : the arguments before and behind the vectors; constants of the operation.
    vectors : the arguments (k,) of this call.
    """
    result = jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(np.float64))
    with _lock:
        doubles = {result.dtype, *(vector.dtype for vector in vectors)} == {np.dtype(np.float64)}
        direct = doubles and not _objection()
        if direct:
            _register(name, function, before, after, len(vectors), len(shape))
    if direct:
        return _direct_call(name, result, before, vectors, after)
    return _callback(function, result, before, vectors, after)


def _register(
    name: str,
    function: Any,
    before: Sequence[Constant],
    after: Sequence[Constant],
    vectors: int,
    axes: int,
) -> None:
    """Compile what XLA calls for an operation, and give it to XLA, if that was not done yet."""
    if name in _ready:
        return
    symbol = f"connections_{name}"
    llvm.add_symbol(symbol, numba_names.address(function))
    handler = _handler(symbol, function, _kinds(before), _kinds(after), vectors, axes)
    compiled = numba_names.c_function(handler, types.int64, [types.CPointer(types.int64)], cache_of(handler))
    jax.ffi.register_ffi_target(symbol, jax.ffi.pycapsule(compiled.ctypes), platform="cpu")
    _ready.add(name)


def _direct_call(
    name: str,
    result: jax.ShapeDtypeStruct,
    before: Sequence[Constant],
    vectors: Sequence[Any],
    after: Sequence[Constant],
) -> jax.Array:
    """The operation by XLA's call of a registered function."""
    call = jax.ffi.ffi_call(f"connections_{name}", result, vmap_method="broadcast_all")
    attributes = [attribute for constant in (*before, *after) for attribute in _attributes_of(constant)]
    found: jax.Array = call(*vectors, **{f"a{number:02}": part for number, part in enumerate(attributes)})
    return found


def _callback(
    function: Any,
    result: jax.ShapeDtypeStruct,
    before: Sequence[Constant],
    vectors: Sequence[Any],
    after: Sequence[Constant],
) -> jax.Array:
    """The operation by a call of Python for each row, which calls the compiled function."""

    def row(*vectors: Any) -> np.ndarray:
        given = [np.array(vector, dtype=np.float64) for vector in vectors]
        first, last = [_argument_of(constant) for constant in before], [_argument_of(c) for c in after]
        out = np.empty(result.shape)
        if not is_good(function(*first, *given, *last, out)):
            out[:] = np.nan
        return out.astype(result.dtype)

    # Not all rows at once: JAX lets the threads that may be waiting for callbacks copy long arguments.
    found: jax.Array = jax.pure_callback(row, result, *vectors, vmap_method="sequential")
    return found


def _argument_of(constant: Constant) -> Any:
    """The compiled function's argument, for one call of the operation."""
    match constant:
        case Work(array, size):
            return np.concatenate([array, np.zeros(size - len(array))])
        case Read(array):
            return array
        case Flag(value):
            return bool(value)


def _kinds(constants: Sequence[Constant]) -> list[type[Constant]]:
    return [type(constant) for constant in constants]


def _attributes_of(constant: Constant) -> tuple[np.ndarray, ...]:
    match constant:
        case Work(array, size):
            return array, np.array([float(size)])
        case Read(array):
            return (array,)
        case Flag(value):
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
    """What is wrong with XLA's calls of a function whose result is known; empty if nothing is."""
    try:
        (processor, *_) = jax.devices("cpu")
    except RuntimeError:
        return ""  # JAX runs on other devices only, and calls nothing
    read = np.array([1.0, 2.0, 4.0])
    before, after = (Work(np.array([0.5, 0.25]), 3), Read(read)), (Flag(True),)
    x, y = np.array([[1.0, 2.0], [-1.0, 2.0], [3.0, 5.0]]), np.arange(9.0).reshape(3, 3)
    expected = x[:, :, None] * read - y[:, None] + 0.75
    expected[1] = np.nan  # refused
    try:
        function = _trial()
        result = jax.ShapeDtypeStruct((2, 3), np.float64)
        _register("trial", function, before, after, 2, 2)
        call = jax.vmap(lambda x, y: _direct_call("trial", result, before, [x, y], after))
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
    numba_names.set_cache(function, cache_of(trial))
    arguments = vector, vector, vector, vector, types.boolean, types.float64[:, ::1]
    numba_names.compile_for(function, arguments)
    return function


# --- compiled functions, by name ----------------------------------------------------------------------------


def _entry(symbol: str, function: Any) -> Any:
    """A compiled function for use in the functions below; takes its arguments as one tuple."""
    kinds, result = numba_names.types_of(function)

    @intrinsic
    def call(typing_context: Any, arguments: Any) -> Any:
        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            given = zip(numba_names.unpack_tuple(builder, args[0]), sig.args[0], kinds, strict=True)
            values = [context.cast(builder, value, old, new) for value, old, new in given]
            return numba_names.call_symbol(context, builder, symbol, kinds, result, values)

        return result(arguments), emit

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


@njit
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


@njit
def _rows(buffer):
    """An argument or result as (m, k), k its last axis."""
    size, rank, dimensions = 1, buffer[call_frame.BUFFER_RANK], _words(buffer[call_frame.BUFFER_DIMENSIONS])
    for axis in range(rank):
        size *= dimensions[axis]
    width = dimensions[rank - 1]
    return carray(_numbers(buffer[call_frame.BUFFER_DATA]), (size // width, width))


@njit
def _argument(frame, number):
    """Argument `number` as (m, k)."""
    return _rows(_words(_words(frame[call_frame.FRAME_ARGUMENTS])[number]))


@njit
def _attribute(frame, number):
    """Attribute `number`, an array of float64."""
    array = _words(_words(frame[call_frame.FRAME_ATTRIBUTES])[number])
    return carray(_numbers(array[call_frame.ARRAY_DATA]), (array[call_frame.ARRAY_SIZE],))


@njit
def _result_buffer(frame):
    """The buffer of the only result."""
    return _words(_words(frame[call_frame.FRAME_RESULTS])[0])


# --- the operations -----------------------------------------------------------------------------------------


@njit
def _work(frame, number):
    """A copy of the array in attribute `number`, as long as the next attribute says."""
    array = _attribute(frame, number)
    work = np.zeros(int(_attribute(frame, number + 1)[0]))
    work[: len(array)] = array
    return work


@njit
def _flag(frame, number):
    """The boolean in attribute `number`."""
    return _attribute(frame, number)[0] != 0.0


@njit
def _result(frame, axes):
    """The result as (m, k), k the product of its last `axes` axes."""
    buffer, rows = _result_buffer(frame), len(_argument(frame, 0))
    size, rank = 1, buffer[call_frame.BUFFER_RANK]
    for axis in range(rank - axes, rank):
        size *= _words(buffer[call_frame.BUFFER_DIMENSIONS])[axis]
    return carray(_numbers(buffer[call_frame.BUFFER_DATA]), (rows, size))


@njit
def _size(frame, axis):
    """The size of the result along its axis `axis`, counted from the last, which is 1."""
    buffer = _result_buffer(frame)
    return _words(buffer[call_frame.BUFFER_DIMENSIONS])[buffer[call_frame.BUFFER_RANK] - axis]


@njit
def _mark(good, out):
    """Fill `out` with NaN if a recursion refused its input."""
    if not good:
        out[:] = np.nan


_HANDLER = """
def handler_{digest}(frame):
    if _asked_for_version(frame):
        return 0
    out, shape = _result(frame, {axes}), {shape}
    {constants}
    {vectors}
    for row in range(len(out)):
        result = out[row].reshape(shape)
        _mark(entry(({given}, result)) == {good}, out[row])
    return 0
"""
_READERS = {Work: ("_work", 2), Read: ("_attribute", 1), Flag: ("_flag", 1)}  # and their attributes


def _handler(
    symbol: str,
    function: Any,
    before: Sequence[type[Constant]],
    after: Sequence[type[Constant]],
    vectors: int,
    axes: int,
) -> Any:
    """The function behind an operation, its source rendered from the kinds of its arguments."""
    constants, number = [], 0
    for place, kind in enumerate((*before, *after)):
        reader, count = _READERS[kind]
        constants.append(f"c{place} = {reader}(frame, {number})")
        number += count
    names = [f"c{place}" for place in range(len(constants))]
    given = [*names[: len(before)], *(f"x{i}[row]" for i in range(vectors)), *names[len(before) :]]
    fields = {
        "axes": axes,
        "shape": "(" + "".join(f"_size(frame, {axis}), " for axis in range(axes, 0, -1)) + ")",
        "constants": "; ".join(constants),
        "vectors": "; ".join(f"x{i} = _argument(frame, {i})" for i in range(vectors)),
        "given": ", ".join(given),
        "good": isinstance(numba_names.types_of(function)[1], types.Boolean),  # True, or zero
    }
    # Numba finds machine code by a function's name and bytecode, which does not contain constants. So the
    # name contains a hash of them.
    digest = hashlib.sha256(repr((symbol, fields, call_frame.WORDS)).encode()).hexdigest()[:16]
    scope = globals() | {"entry": _entry(symbol, function)}
    execute(_HANDLER.format(digest=digest, **fields), __file__, scope)
    return scope[f"handler_{digest}"]
