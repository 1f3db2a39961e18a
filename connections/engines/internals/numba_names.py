"""Names of Numba that are private: modules of `numba.core`, and attributes of its compiled functions.

`numba`, `numba.extending` and LLVM's instructions by `llvmlite` are public, and used where kernels are.

`FunctionCache`, `CompileResultCacheImpl`, `NullCache`, `dumps` (numba.core.caching, .serialize): the files of
machine code. A subclass with its `_impl_class` writes what `reduce` returns and reads what `rebuild` accepts,
and `set_cache` gives it to a function. `njit(cache=True)` would replace it, without a seal.

`CFunc` (numba.core.ccallback): `numba.cfunc` with a cache of ours, which `cfunc` has no argument for.

`AbstractTemplate`, `ConcreteTemplate`, `infer_global` (numba.core.typing.templates): types of operators on
types of our own. `numba.extending.type_callable` would replace them.

`get_or_insert_function`, `unpack_tuple` (numba.core.cgutils): LLVM's declaration of a function, the parts of
a tuple.

`_locator_classes`, `from_function`, `get_cache_path`, `ensure_cache_path`, `get_source_stamp`,
`get_disambiguator`: in which folder Numba keeps a function, in place of those where it looks by itself.
`IndexDataCacheFile` (numba.core.caching), `_cache_file`, `_open_for_write`, `_impl`, `filename_base`: the
names of the files, by what Numba tells whether they are current, and how it writes them. That is the content
of the function's file and the number of its line, in whose place `stamp` puts a hash of all that is compiled
into the function; so that files are of the user alone, and of each version of the sources.

`_reduce` of its results, by `reduce`: the library's name, the kind "object", machine code, LLVM's text, and
what else describes the function (`without_bodies`). `_shared_module`: the text that is linked into others.

`rtsys` (numba.core.runtime), `_load_overload`: what machine code from a file needs, and how it is read.

`FunctionIdentity`, `_unique_ids` (numba.core.bytecode): the number in the names of compiled functions. Numba
counts from one in each process. So two functions of one name, such as two that are defined in a function,
which two processes compile, may have one name in machine code, and a process that loads both from disk calls
one of them in place of the other. Counting from a random number keeps them apart.

`CPUDispatcher`, `_Intrinsic` (numba.core.registry, .extending), `targetoptions`, `_defn`, `_prefer_literal`,
`_ctor_kwargs`: what Numba makes of functions, and what it is told about them (`compiled_from`).

Attributes: `overloads`, `library`, `fndesc` and `call_conv` give a compiled function's address and how
compiled code calls it by that address; `numba.cfunc` of the function would replace them, and compile it a
second time. `compile` and `disable_compile` make a function refuse other types than its first ones. What
Numba's dispatcher calls then, `_search_new_conversions` and `_explain_matching_error`, is replaced, because
it takes forty times as long as the call.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from connections.engines.internals import numba_import  # noqa: F401  # isort: skip

import itertools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import llvmlite.binding as llvm
from llvmlite import ir
from numba import __version__ as VERSION
from numba.core import cgutils, config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, NullCache
from numba.core.ccallback import CFunc
from numba.core.extending import _Intrinsic
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps
from numba.core.typing.templates import AbstractTemplate, ConcreteTemplate, infer_global

from connections.engines.arguments import OtherTypes

__all__ = [
    "VERSION",
    "AbstractTemplate",
    "CompileResultCacheImpl",
    "ConcreteTemplate",
    "FunctionCache",
    "NullCache",
    "address",
    "begin_runtime",
    "c_function",
    "cache_folder_by_variable",
    "call_symbol",
    "compile_for",
    "compiled_from",
    "dumps",
    "file_name",
    "get_or_insert_function",
    "index_key",
    "infer_global",
    "load_by",
    "locator",
    "refuse_other_types",
    "set_cache",
    "stamp",
    "types_of",
    "unpack_tuple",
    "unfit_for_linking",
    "without_bodies",
    "write_by",
]


def _number_anew() -> None:
    """Let names of compiled functions have numbers that no other process uses."""
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6), "big"))


_number_anew()
if hasattr(os, "register_at_fork"):  # a fork goes on counting
    os.register_at_fork(after_in_child=_number_anew)

get_or_insert_function: Any = cgutils.get_or_insert_function
unpack_tuple: Any = cgutils.unpack_tuple


def set_cache(function: Any, cache: Any) -> None:
    """Let a function of `njit` that is not compiled yet look for its machine code in `cache`."""
    function._cache = cache


def write_by(cache: Any, writing: Any) -> None:
    """Let a cache write its files by `writing`: the path of a file -> a context with a stream of bytes."""
    cache._cache_file._open_for_write = writing


def stamp(cache: Any, text: str) -> None:
    """Let a cache have files of its own for this text, which stands in them and in their names.

    Its `_impl`, which writes and reads what is in the file, gets the text, too.
    """
    cache._impl.stamp = text
    name = file_name(cache._impl.filename_base, text)
    cache._cache_file = IndexDataCacheFile(cache.cache_path, name, text)


def file_name(function: str, text: str) -> str:
    """The name of a function's files, without an ending, for a `stamp`."""
    return f"{function}-{text[:32]}"


def index_key(signature: Any, codegen: Any) -> Any:
    """The types and the processor that machine code is for; its file's `stamp` says whether it is current.

    Numba adds a hash of the function's closure, which differs between processes.
    """
    return signature, codegen.magic_tuple()


def compiled_from(value: Any) -> dict[str, Any] | None:
    """The Python function and the options of a function of `njit`, or an `intrinsic`; None for all else."""
    if isinstance(value, CPUDispatcher):
        return {"function": value.py_func, "locals": value.locals, **value.targetoptions}
    if isinstance(value, _Intrinsic):
        return {"function": value._defn, "prefer_literal": value._prefer_literal, **value._ctor_kwargs}
    return None


def load_by(cache: Any, signature: Any, target_context: Any) -> Any:
    """The compiled function of a signature, read without all that compiling needs; errors of files, too.

    Numba would first register the types and functions that it can compile, which takes 0.15 s.
    """
    begin_runtime(target_context)
    return cache._load_overload(signature, target_context)


def begin_runtime(target_context: Any) -> None:
    """Give machine code that was read from a file the functions of Numba's runtime, which it calls."""
    rtsys.initialize(target_context)


def without_bodies(reduced: Any) -> Any:
    """The content of a compiled function's file, with the names only of what LLVM's text defines.

    The text, three quarters of a file and of the time to read it, is for functions that others are linked
    into. Those that are written here are called by their addresses; `unfit_for_linking` says so to Numba.
    Environments of functions that no module has, which Numba writes if nothing has removed them yet, could
    not be read.
    """
    (name, kind, data), *others, environments = reduced
    environments = tuple(each for each in environments if each.globals.get("__name__") in sys.modules)
    if kind != "object":
        return ((name, kind, data), *others, environments)
    defined, names = llvm.parse_bitcode(data[1]), ir.Module()
    for function in defined.functions:
        if not function.is_declaration:
            body = ir.Function(names, ir.FunctionType(ir.VoidType(), ()), function.name)
            ir.IRBuilder(body.append_basic_block()).unreachable()
    for variable in defined.global_variables:
        if not variable.is_declaration:
            ir.GlobalVariable(names, ir.IntType(8), variable.name).initializer = ir.IntType(8)(0)
    return (name, kind, (data[0], llvm.parse_assembly(str(names)).as_bitcode())), *others, environments


def unfit_for_linking(compiled: Any) -> Any:
    """The compiled function, for which Numba raises RuntimeError if it is to be linked into another one."""
    compiled.library._shared_module = None
    return compiled


def locator(folder: Callable[[], str | None]) -> Any:
    """The class by which Numba finds the one folder of all functions, made by `folder` if it is not there.

    If `folder` gives None, none can be written. The names of files are those of `stamp`.
    """

    class Locator:
        def __init__(self, path: str) -> None:
            self._path = path

        @classmethod
        def from_function(cls, function: Any, file: str) -> Any:
            path = folder()
            return None if path is None else cls(path)

        def get_cache_path(self) -> str:
            return self._path

        def ensure_cache_path(self) -> None:
            folder()

        def get_source_stamp(self) -> str:
            return ""

        def get_disambiguator(self) -> str:
            return "all"

    return Locator


def cache_folder_by_variable() -> str:
    """The folder that ``NUMBA_CACHE_DIR`` names, or nothing."""
    found: str = vars(config)["CACHE_DIR"]
    return found


def compile_for(function: Any, types: Sequence[Any]) -> None:
    """Compile a function of `njit` for arguments of these types, or read it from its cache.

    It is so already if another function that calls it was compiled before, without a look at the cache, which
    then keeps it; or if what follows failed, or was interrupted. Another attempt would be an error.
    """
    _require_compiler()
    wanted = tuple(types)
    if wanted not in function.signatures:
        function.compile(wanted)
    elif not function.stats.cache_hits[wanted]:
        function._cache.save_overload(wanted, function.overloads[wanted])


def _require_compiler() -> None:
    if vars(config)["DISABLE_JIT"]:
        needs = "functions of robots are compiled by Numba, and run in no other way"
        raise OSError(f"NUMBA_DISABLE_JIT is set in the environment: {needs}; unset it")


def refuse_other_types(function: Any) -> None:
    """Make a call with arguments of other types raise `OtherTypes` from now on, at once.

    Numba would first look for conversions of the types, and then for an error's words, which takes 40 us.
    """
    function.disable_compile()
    function._search_new_conversions = _no_conversions
    function._explain_matching_error = _refuse_types


def _no_conversions(*arguments: Any) -> bool:
    return False


def _refuse_types(*arguments: Any) -> NoReturn:
    raise OtherTypes("other types than the function was compiled for")


def c_function(function: Any, result: Any, arguments: Sequence[Any], cache: Any) -> Any:
    """`numba.cfunc` of a Python function, with a cache of ours; its `ctypes` is what C can call."""
    _require_compiler()
    callback: Any = CFunc(function, (result(*arguments).args, result), {}, {})
    callback._cache = cache
    callback.compile()
    return callback


def types_of(function: Any) -> tuple[tuple[Any, ...], Any]:
    """The argument types and the result's type of a function compiled for one type of each argument."""
    ((arguments, compilation),) = function.overloads.items()
    return arguments, compilation.signature.return_type


def address(function: Any) -> int:
    """The address of the machine code of a function that is compiled for one type of each argument."""
    (compilation,) = function.overloads.values()
    found: int = compilation.library.get_pointer_to_function(compilation.fndesc.llvm_func_name)
    return found


def call_symbol(
    context: Any, builder: Any, symbol: str, kinds: Any, result: Any, values: Sequence[Any]
) -> Any:
    """LLVM's instructions for a call of a compiled function by the name of a symbol; its result.

    Parameters
    ----------
    context, builder : of Numba's intrinsic.
    symbol : the name of the function's address (`address`), known to LLVM's linker.
    kinds, result : the function's types (`types_of`).
    values : LLVM's values of the arguments.
    """
    function_type = context.call_conv.get_function_type(result, kinds)
    function = get_or_insert_function(builder.module, function_type, symbol)
    return context.call_conv.call_function(builder, function, result, kinds, values)[1]
