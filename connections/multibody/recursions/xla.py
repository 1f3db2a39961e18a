"""Recursions as operations of JAX's compiled functions on the processor, with no Python in between.

XLA calls a foreign function with one pointer to a call frame, whose layout its C header fixes
(xla/ffi/api/c_api.h, shipped with jaxlib; within a major version fields are only added behind the others).
Behind such pointers are here the recursions, compiled by Numba. The tree travels as a constant of the
operation, and every call has its own workspace, so calls may run at the same time. Where a recursion refuses
its input, that row of the result is NaN.

    call frame, in words of 64 bits:  1 extension, 2 interface, 9 arguments, 14 results, 20 attributes
    argument or result:               3 data, 4 rank, 5 dimensions
    attribute, an array:              1 size, 2 data; attributes are in the order of their names

The functions here call compiled entries by name, not by value: so they stay in Numba's cache whatever changes
in the recursions, and take a second to compile.
"""

# mypy: disable-error-code="call-arg, var-annotated", warn-unreachable=False
# (compiled functions call Numba's intrinsics without their first argument)

from __future__ import annotations

import threading
from typing import Any

import jax
import llvmlite.binding as llvm
import numpy as np
from numba import carray, cfunc, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from connections.multibody.recursions.compiled import compiled

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
    """A recursion on the processor as part of a traced function; NaN where q is no configuration.

    Parameters
    ----------
    name : a key of `_HANDLERS`.
    shape : of the result at one configuration.
    vectors : q (nq,) and then vectors (nv,).
    tree : as `layout.pack` writes it; the loops for ``closure``.
    size : of tree and workspace together.
    loops : for ``closed_`` names, as `closure_layout` and `cluster_layout` write them.
    solved : for ``closed_`` names, whether a solution stands for q.
    """
    target = f"connections_{name}"
    with _lock:
        if name not in _ready:
            _give_name(f"{name}_at")
            handler = cfunc(types.int64(types.CPointer(types.int64)), cache=True)(_HANDLERS[name])
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler.ctypes), platform="cpu")
            _ready.add(name)
    result = jax.ShapeDtypeStruct(shape, np.float64)
    call = jax.ffi.ffi_call(target, result, vmap_method="broadcast_all")
    attributes = {"a_tree": tree, "b_size": np.array([float(size)])}
    if loops:
        closure, clusters = loops
        attributes |= {"c_closure": closure, "d_clusters": clusters, "e_solved": np.array([float(solved)])}
    return call(*vectors, **attributes)


# --- compiled entries, by name ------------------------------------------------------------------------------


def _give_name(name: str) -> None:
    """Make the compiled function `name` known to the linker."""
    (compilation,) = compiled.require(name).overloads.values()
    address = compilation.library.get_pointer_to_function(compilation.fndesc.llvm_func_name)
    llvm.add_symbol(f"connections_{name}", address)


def _entry(name: str, result: Any = types.boolean) -> Any:
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


_mass_matrix_at = _entry("mass_matrix_at")
_christoffel_at = _entry("christoffel_symbols_at")
_product_at = _entry("coriolis_product_at")
_forward_at = _entry("forward_dynamics_at")
_forward_derivatives_at = _entry("forward_dynamics_derivatives_at")
_closed_mass_matrix_at = _entry("closed_mass_matrix_at", types.int64)
_closed_christoffel_at = _entry("closed_christoffel_symbols_at", types.int64)
_closed_coriolis_at = _entry("closed_coriolis_matrix_at", types.int64)
_closure_at = _entry("closure_at", types.int64)

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
    """Whether XLA only asks, at registration, which version of the interface is in use here; answers it."""
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
def _prepare(frame):
    """Tree and workspace in one array, the result as (m, k), and its last axis n."""
    out, tree, rows = _rows(_words(_words(frame[14])[0])), _attribute(frame, 0), len(_argument(frame, 0))
    memory = np.zeros(int(_attribute(frame, 1)[0]))
    memory[: len(tree)] = tree
    return memory, out.reshape((rows, out.size // max(rows, 1))), out.shape[1]


@njit
def _mark(good, out):
    """NaN instead of what a recursion left behind when it refused its input."""
    if not good:
        out[:] = np.nan


def _mass_matrix(frame):
    if _asked_for_version(frame):
        return 0
    (memory, out, n), q = _prepare(frame), _argument(frame, 0)
    for row in range(len(q)):
        _mark(_mass_matrix_at((memory, q[row], out[row].reshape((n, n)))), out[row])
    return 0


def _christoffel_symbols(frame):
    if _asked_for_version(frame):
        return 0
    (memory, out, n), q = _prepare(frame), _argument(frame, 0)
    for row in range(len(q)):
        _mark(_christoffel_at((memory, q[row], False, out[row].reshape((n, n, n)))), out[row])
    return 0


def _coriolis_product(frame):
    if _asked_for_version(frame):
        return 0
    (memory, out, _), q, v, w = _prepare(frame), _argument(frame, 0), _argument(frame, 1), _argument(frame, 2)
    for row in range(len(q)):
        _mark(_product_at((memory, q[row], v[row], w[row], False, out[row])), out[row])
    return 0


def _forward_dynamics(frame):
    if _asked_for_version(frame):
        return 0
    (memory, out, _), q, v, tau = (
        _prepare(frame),
        _argument(frame, 0),
        _argument(frame, 1),
        _argument(frame, 2),
    )
    for row in range(len(q)):
        _mark(_forward_at((memory, q[row], v[row], tau[row], out[row])), out[row])
    return 0


def _forward_dynamics_derivatives(frame):
    """At zero forces."""
    if _asked_for_version(frame):
        return 0
    (memory, out, _), q, v = _prepare(frame), _argument(frame, 0), _argument(frame, 1)
    n = v.shape[1]
    for row in range(len(q)):
        parts = out[row].reshape((3, n, n))
        _mark(_forward_derivatives_at((memory, q[row], v[row], np.zeros(n), parts)), out[row])
    return 0


@njit
def _loops(frame):
    """The closed loops with a workspace of this call's own, the clusters, and whether q is a solution."""
    return _attribute(frame, 2).copy(), _attribute(frame, 3), _attribute(frame, 4)[0] != 0.0


def _closed_mass_matrix(frame):
    if _asked_for_version(frame):
        return 0
    (memory, out, n), loops, q = _prepare(frame), _loops(frame), _argument(frame, 0)
    for row in range(len(q)):
        H = out[row].reshape((n, n))
        _mark(_closed_mass_matrix_at((memory,) + loops + (q[row], H)) == 0, out[row])
    return 0


def _closed_christoffel_symbols(frame):
    if _asked_for_version(frame):
        return 0
    (memory, out, n), loops, q = _prepare(frame), _loops(frame), _argument(frame, 0)
    for row in range(len(q)):
        Gamma = out[row].reshape((n, n, n))
        _mark(_closed_christoffel_at((memory,) + loops + (q[row], Gamma)) == 0, out[row])
    return 0


def _closed_coriolis_matrix(frame):
    if _asked_for_version(frame):
        return 0
    (memory, out, n), loops = _prepare(frame), _loops(frame)
    q, v = _argument(frame, 0), _argument(frame, 1)
    for row in range(len(q)):
        C = out[row].reshape((n, n))
        _mark(_closed_coriolis_at((memory,) + loops + (q[row], v[row], C)) == 0, out[row])
    return 0


def _closure(frame):
    if _asked_for_version(frame):
        return 0
    (closure, out, _), q, guess = _prepare(frame), _argument(frame, 0), _argument(frame, 1)
    for row in range(len(q)):
        _mark(_closure_at((closure, q[row], guess[row], out[row])) == 0, out[row])
    return 0


_HANDLERS = {
    "mass_matrix": _mass_matrix,
    "christoffel_symbols": _christoffel_symbols,
    "coriolis_product": _coriolis_product,
    "forward_dynamics": _forward_dynamics,
    "forward_dynamics_derivatives": _forward_dynamics_derivatives,
    "closed_mass_matrix": _closed_mass_matrix,
    "closed_christoffel_symbols": _closed_christoffel_symbols,
    "closed_coriolis_matrix": _closed_coriolis_matrix,
    "closure": _closure,
}
