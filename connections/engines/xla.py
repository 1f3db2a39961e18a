"""Compiled functions as operations of JAX's compiled functions on the processor, with no Python in between.

XLA calls a foreign function with one pointer to a call frame. The C header xla/ffi/api/c_api.h, shipped with
jaxlib, defines the layout of the frame; within a major version, fields are only added behind the others. Here
the foreign functions are compiled by Numba. If one refuses its input, that row of the result is NaN.

    call frame, in words of 64 bits:  1 extension, 2 interface, 9 arguments, 14 results, 20 attributes
    argument or result:               3 data, 4 rank, 5 dimensions
    attribute, an array:              1 size, 2 data; attributes are in the order of their names

The functions here call compiled ones through the name of a symbol and do not contain their code. So they stay
in Numba's cache if the compiled ones change, and take only a second to compile.
"""

# mypy: disable-error-code="call-arg, var-annotated", warn-unreachable=False
# (compiled functions call Numba's intrinsics without their first argument)

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import llvmlite.binding as llvm
import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.core.ccallback import CFunc
from numba.extending import intrinsic

from connections.engines.disk_cache import cache_of
from connections.engines.rendered import execute

_METADATA = 1  # type of the extension by which XLA asks for the version of the interface
_MAJOR_VERSION = 0  # of the layout above
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
    with _lock:
        if name not in _ready:
            symbol = _give_name(name, function)
            source = _handler(symbol, function, _kinds(before), _kinds(after), len(vectors), len(shape))
            handler = _callback(source)
            jax.ffi.register_ffi_target(symbol, jax.ffi.pycapsule(handler.ctypes), platform="cpu")
            _ready.add(name)
    result = jax.ShapeDtypeStruct(shape, np.float64)
    call = jax.ffi.ffi_call(f"connections_{name}", result, vmap_method="broadcast_all")
    attributes = [attribute for constant in (*before, *after) for attribute in _attributes_of(constant)]
    return call(*vectors, **{f"a{number:02}": attribute for number, attribute in enumerate(attributes)})


def _callback(function: Any) -> Any:
    """The C function of a handler, as by Numba's `cfunc`, but with our cache."""
    callback = CFunc(function, ((types.CPointer(types.int64),), types.int64), {}, {})
    callback._cache = cache_of(function)
    callback.compile()
    return callback


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


# --- compiled functions, by name ----------------------------------------------------------------------------


def _give_name(name: str, function: Any) -> str:
    """Make a compiled function known to LLVM's linker. Returns the name of the symbol."""
    (compilation,) = function.overloads.values()
    address = compilation.library.get_pointer_to_function(compilation.fndesc.llvm_func_name)
    llvm.add_symbol(f"connections_{name}", address)
    return f"connections_{name}"


def _entry(symbol: str, function: Any) -> Any:
    """A compiled function for use in the functions below; takes its arguments as one tuple."""
    ((kinds, compilation),) = function.overloads.items()
    result = compilation.signature.return_type

    @intrinsic
    def call(typing_context: Any, arguments: Any) -> Any:
        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            given = zip(cgutils.unpack_tuple(builder, args[0]), sig.args[0], kinds, strict=True)
            values = [context.cast(builder, value, old, new) for value, old, new in given]
            function_type = context.call_conv.get_function_type(result, kinds)
            function = cgutils.get_or_insert_function(builder.module, function_type, symbol)
            return context.call_conv.call_function(builder, function, result, kinds, values)[1]

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
    if frame[1] == 0 or _words(frame[1])[1] & 0xFFFFFFFF != _METADATA:
        return False
    theirs = _words(frame[2])[4]  # major version in the lower 32 bits, minor in the upper
    _words(_words(frame[1])[3])[3] = (theirs >> 32 << 32) | _MAJOR_VERSION
    return True


@njit
def _rows(buffer):
    """An argument or result as (m, k), k its last axis."""
    size, rank = 1, buffer[4]
    for axis in range(rank):
        size *= _words(buffer[5])[axis]
    width = _words(buffer[5])[rank - 1]
    return carray(_numbers(buffer[3]), (size // width, width))


@njit
def _argument(frame, number):
    """Argument `number` as (m, k)."""
    return _rows(_words(_words(frame[9])[number]))


@njit
def _attribute(frame, number):
    """Attribute `number`, an array of float64."""
    array = _words(_words(frame[20])[number])
    return carray(_numbers(array[2]), (array[1],))


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
    buffer, rows = _words(_words(frame[14])[0]), len(_argument(frame, 0))
    size = 1
    for axis in range(buffer[4] - axes, buffer[4]):
        size *= _words(buffer[5])[axis]
    return carray(_numbers(buffer[3]), (rows, size))


@njit
def _size(frame, axis):
    """The size of the result along its axis `axis`, counted from the last, which is 1."""
    buffer = _words(_words(frame[14])[0])
    return _words(buffer[5])[buffer[4] - axis]


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
    (compilation,) = function.overloads.values()
    fields = {
        "axes": axes,
        "shape": "(" + "".join(f"_size(frame, {axis}), " for axis in range(axes, 0, -1)) + ")",
        "constants": "; ".join(constants),
        "vectors": "; ".join(f"x{i} = _argument(frame, {i})" for i in range(vectors)),
        "given": ", ".join(given),
        "good": compilation.signature.return_type == types.boolean,
    }
    # Numba finds machine code by a function's name and bytecode, which does not contain constants. So the
    # name contains a hash of them.
    digest = hashlib.sha256(repr((symbol, fields)).encode()).hexdigest()[:16]
    scope = globals() | {"entry": _entry(symbol, function)}
    execute(_HANDLER.format(digest=digest, **fields), __file__, scope)
    return scope[f"handler_{digest}"]
