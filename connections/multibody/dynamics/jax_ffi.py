"""Recursions as operations of JAX's compiled functions on the processor, with no Python in between.

XLA calls a foreign function with one pointer to a call frame. The C header xla/ffi/api/c_api.h, shipped with
jaxlib, defines the layout of the frame; within a major version, fields are only added behind the others. Here
the foreign functions are the recursions, compiled by Numba. The tree is a constant of the operation, and
every call has its own workspace, so calls may run at the same time. If a recursion refuses its input, that
row of the result is NaN.

    call frame, in words of 64 bits:  1 extension, 2 interface, 9 arguments, 14 results, 20 attributes
    argument or result:               3 data, 4 rank, 5 dimensions
    attribute, an array:              1 size, 2 data; attributes are in the order of their names

The functions here call compiled entries through the name of a symbol and do not contain their code. So they
stay in Numba's cache if the recursions change, and take only a second to compile.
"""

# mypy: disable-error-code="call-arg, var-annotated", warn-unreachable=False
# (compiled functions call Numba's intrinsics without their first argument)

from __future__ import annotations

import hashlib
import threading
from typing import Any

import jax
import llvmlite.binding as llvm
import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.core.ccallback import CFunc
from numba.extending import intrinsic

from connections.multibody.dynamics.compiled import compiled
from connections.multibody.dynamics.table import RECURSIONS
from connections.multibody.kernels.disk_cache import cache_of

_METADATA = 1  # type of the extension by which XLA asks for the version of the interface
_MAJOR_VERSION = 0  # of the layout above
_ready: set[str] = set()
_lock = threading.Lock()


def operation(
    name: str,
    shape: tuple[int, ...],
    vectors: tuple[Any, ...],
    tree: np.ndarray,
    size: int,
    loops: tuple[np.ndarray, ...] = (),
    solved: bool = False,
) -> jax.Array:
    """A recursion on the processor as part of a traced function; NaN if q is not a configuration.

    Parameters
    ----------
    name : name of a recursion, with ``closed_`` before it for closed chains; or ``closure``, to solve loops.
    shape : shape of the result at one configuration.
    vectors : q (nq,) and then vectors (nv,).
    tree : the tree's array from `tree_packing.pack`; for ``closure``, the array of the loops.
    size : number of slots of `tree` and its workspace together.
    loops : for ``closed_`` names, the arrays of `loop_packing` and `cluster_packing`.
    solved : for ``closed_`` names, whether the first vector is a solution of the loops instead of q.
    """
    target = f"connections_{name}"
    with _lock:
        if name not in _ready:
            _give_name(f"{name}_at")
            handler = _callback(_handler(name))
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler.ctypes), platform="cpu")
            _ready.add(name)
    result = jax.ShapeDtypeStruct(shape, np.float64)
    call = jax.ffi.ffi_call(target, result, vmap_method="broadcast_all")
    attributes = {"a_tree": tree, "b_size": np.array([float(size)])}
    if loops:
        closure, clusters = loops
        attributes |= {"c_closure": closure, "d_clusters": clusters, "e_solved": np.array([float(solved)])}
    return call(*vectors, **attributes)


def _callback(function: Any) -> Any:
    """The C function of a handler, as by Numba's `cfunc`, but with our cache."""
    callback = CFunc(function, ((types.CPointer(types.int64),), types.int64), {}, {})
    callback._cache = cache_of(function)
    callback.compile()
    return callback


# --- compiled entries, by name ------------------------------------------------------------------------------


def _give_name(name: str) -> None:
    """Make the compiled function `name` known to LLVM's linker as a symbol."""
    (compilation,) = compiled.require(name).overloads.values()
    address = compilation.library.get_pointer_to_function(compilation.fndesc.llvm_func_name)
    llvm.add_symbol(f"connections_{name}", address)


def _entry(name: str, result: Any) -> Any:
    """The compiled function `name` for use in the functions below; takes its arguments as one tuple."""

    @intrinsic
    def call(typing_context: Any, arguments: Any) -> Any:
        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            (kinds,) = compiled.require(name).overloads
            given = zip(cgutils.unpack_tuple(builder, args[0]), sig.args[0], kinds, strict=True)
            values = [context.cast(builder, value, old, new) for value, old, new in given]
            function_type = context.call_conv.get_function_type(result, kinds)
            function = cgutils.get_or_insert_function(builder.module, function_type, f"connections_{name}")
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
def _memory(frame):
    """Tree and workspace in one array."""
    tree = _attribute(frame, 0)
    memory = np.zeros(int(_attribute(frame, 1)[0]))
    memory[: len(tree)] = tree
    return memory


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


@njit
def _loops(frame):
    """A copy of the loops' array, with a workspace for this call; the clusters; whether q is a solution."""
    return _attribute(frame, 2).copy(), _attribute(frame, 3), _attribute(frame, 4)[0] != 0.0


_HANDLER = """
def handler_{digest}(frame):
    if _asked_for_version(frame):
        return 0
    memory, out, shape = _memory(frame), _result(frame, {axes}), {shape}
    {loops}
    {arguments}
    for row in range(len(out)):
        result = out[row].reshape(shape)
        _mark(entry((memory, {given}result)) == {good}, out[row])
    return 0
"""


def _handler(name: str) -> Any:
    """The function behind the operation `name`, its source rendered from the recursion's row of the table."""
    closed = name.startswith("closed_")
    if name == "closure":  # the solver of loops, whose vectors are q and the configuration its path begins at
        vectors, axes, choice = 2, 1, ""
    else:
        row = RECURSIONS[name.removeprefix("closed_")]
        vectors, axes = 1 + len(row.vectors) + (closed and row.bias_rates), len(row.shape)
        choice = "False, " * row.body_factor
    given = "closure, clusters, solved, " * closed + "".join(f"x{i}[row], " for i in range(vectors)) + choice
    names = dict(
        axes=axes,
        shape="(" + "".join(f"_size(frame, {axis}), " for axis in range(axes, 0, -1)) + ")",
        loops="closure, clusters, solved = _loops(frame)" * closed,
        arguments="; ".join(f"x{i} = _argument(frame, {i})" for i in range(vectors)),
        given=given,
        good="0" if name == "closure" else "True",
    )
    # Numba finds machine code by a function's name and bytecode, which does not contain constants. So the
    # name contains a hash of them.
    digest = hashlib.sha256(repr((name, names)).encode()).hexdigest()[:16]
    result = types.int64 if name == "closure" else types.boolean
    scope = globals() | {"entry": _entry(f"{name}_at", result)}
    exec(compile(_HANDLER.format(digest=digest, **names), __file__, "exec"), scope)
    return scope[f"handler_{digest}"]
