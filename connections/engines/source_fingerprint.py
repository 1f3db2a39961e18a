"""A hash of all that Numba compiles into a function: its machine code is that of the present sources.

Numba caches machine code on disk. To find out whether the code is current, it looks only at the file of the
function itself, not at those of the functions that it calls. `fingerprint` goes to all of them instead, from
one to the next as Numba does: by the names in a function's bytecode. What it finds counts as follows.

- Functions that are compiled, intrinsics, and functions that run while Numba compiles: their bytecode and
  constants, without docstrings and numbers of lines, their options, closures and defaults.
- Numbers, tuples, arrays and the fields of named tuples: their values.
- Modules that define types or operators (`simd`, `twofold`), which no function names: the whole module.
  Such a module keeps its own code, `THIS_MODULE = running_code()`.
- What Numba, NumPy and Python define: its name. Numba's own index has its version and the processor.

So an edit of a kernel changes the fingerprints of the functions that it is compiled into and of no others,
and an edit of a comment or a docstring changes none. A value that is none of these is an error, so that
nothing is overlooked.

All of it is what Python runs, in memory. So it does not matter from where a module was imported, and whether
its loader (a zip archive's, pytest's) could give its text or its code a second time.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import importlib
import inspect
import sys
from collections.abc import Iterator
from functools import cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from connections.engines.internals.numba_names import compiled_from

_KNOWN_BY_NAME = {"numba", "llvmlite", "numpy", *sys.stdlib_module_names}
_VALUES = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic)


def fingerprint(function: Any) -> str:
    """A hash of what a function is compiled from, hexadecimal.

    Parameters
    ----------
    function : of `numba.njit`, or a Python function that Numba is to compile.

    Raises
    ------
    TypeError : the function refers to something that may differ without a difference to be seen.
    """
    return _digest(_Walk(function).lines)


def functions_within(function: Any) -> set[FunctionType]:
    """The Python functions whose texts count in the `fingerprint` of a function."""
    return {item for item in _Walk(function).found if isinstance(item, FunctionType)}


def text_fingerprint(*modules: str) -> str:
    """A hash of the texts of modules, without comments and docstrings, on every machine the same.

    `fingerprint` differs between versions of Python, and between widths of registers. Of a program that was
    installed without its texts, it is a hash of bytecode, which differs between versions of Python, too.

    Parameters
    ----------
    modules : their names.
    """
    return _digest([_code_of(name) for name in sorted(set(modules))])


@cache
def _code_of(module: str) -> str:
    """The text of a module without comments and docstrings; without a text, a hash of its bytecode."""
    imported = importlib.import_module(module)
    try:
        tree = ast.parse(inspect.getsource(imported))
    except OSError:
        return _bytecode(imported.__loader__.get_code(module))[0]  # type: ignore[union-attr]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_text(line)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def running_code() -> CodeType:
    """The code that calls this function: that of a module which is being imported."""
    return sys._getframe(1).f_code


@cache
def _of_module(code: CodeType) -> str:
    """A hash of a module that keeps its code, and of those among its imports that do."""
    text, names = _bytecode(code)
    # Of the names in the code, those of modules; one that is none may be that of a module of somebody else.
    imported = [_kept_code(sys.modules[each]) for each in names if each in sys.modules]
    return _digest([text, *(_of_module(each) for each in imported if each is not None)])


def _kept_code(module: ModuleType) -> CodeType | None:
    code = vars(module).get("THIS_MODULE")
    return code if isinstance(code, CodeType) else None


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


class _Walk:
    """A walk from a function to everything that it refers to, in the order of the names in its bytecode.

    Attributes
    ----------
    lines : a line for each thing that counts. A thing that was found before has its number there, so that
        functions have different lines if they refer to different things by the same names.
    found : the things that were found, by these numbers.
    """

    def __init__(self, function: Any) -> None:
        self.lines: list[str] = []
        self.found: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._attributes: set[tuple[int, str]] = set()  # of modules
        self._visit(function)

    def _visit(self, value: Any, names: tuple[str, ...] = ()) -> None:
        """Write a value to which code refers that has these names, perhaps as the value's attributes."""
        if isinstance(value, _VALUES):
            self.lines.append(f"{type(value).__name__} {value!r}")
            return
        seen = id(value) in self._numbers
        number = self._numbers.setdefault(id(value), len(self.found))
        if not seen:
            self.found.append(value)
            self.lines.append(f"{type(value).__module__}.{type(value).__qualname__}")
            self.lines.extend(self._parts(value))
        else:
            self.lines.append(f"number {number}")
        if isinstance(value, ModuleType) and not _is_known(value.__name__):
            for name in names:
                if name in vars(value) and (number, name) not in self._attributes:
                    self._attributes.add((number, name))
                    self.lines.append(name)
                    self._visit(vars(value)[name], names)

    def _parts(self, value: Any) -> Iterator[str]:
        """The lines of a value; what is part of it is visited between them."""
        if isinstance(value, FunctionType):
            yield from self._function(value)
        elif (compiled := compiled_from(value)) is not None:
            yield from self._named(compiled)
        elif isinstance(value, ModuleType):
            yield value.__name__
        elif isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, partial):
            yield from self._named({"function": value.func, "arguments": value.args, **value.keywords})
        elif isinstance(value, tuple | list):
            if type(value) not in (tuple, list):
                self._visit(type(value))
            yield from self._named(dict(enumerate(value)))
        elif isinstance(value, set | frozenset):
            yield " ".join(sorted(map(repr, value)))
        elif isinstance(value, dict):
            yield from self._named(value)
        elif isinstance(value, np.ndarray):
            yield f"{value.dtype.str} {value.shape} {value.tobytes().hex()}"
        elif not _is_known(type(value).__module__):
            self._visit(type(value))
            # Numba numbers types in the order in which they are made.
            yield from self._named({name: part for name, part in vars(value).items() if name != "_code"})
        else:
            yield _of_others(value)

    def _function(self, function: FunctionType) -> Iterator[str]:
        if _is_known(function.__module__):
            yield _of_others(function)
            return
        text, names = _bytecode_of(function)
        known = function.__globals__
        yield text
        whole = known.get("THIS_MODULE")
        yield _of_module(whole) if isinstance(whole, CodeType) else ""
        for name in names:
            if name in known:
                yield name
                self._visit(known[name], names)
        for cell in function.__closure__ or ():
            self._visit(cell.cell_contents, names)
        yield "defaults"
        self._visit(function.__defaults__)
        self._visit(function.__kwdefaults__)

    def _class(self, kind: type) -> Iterator[str]:
        yield f"{kind.__module__}.{kind.__qualname__}"
        if _is_known(kind.__module__):
            return
        if issubclass(kind, tuple) and "_fields" in vars(kind):
            yield " ".join(vars(kind)["_fields"])
            return
        whole = _kept_code(sys.modules[kind.__module__])
        if whole is None:
            raise TypeError(f"{kind.__module__}, which defines {kind.__qualname__}, needs THIS_MODULE")
        yield _of_module(whole)

    def _named(self, values: dict[Any, Any]) -> Iterator[str]:
        for name, value in values.items():
            yield str(name)
            self._visit(value)
        yield "end"


def _is_known(module: str) -> bool:
    return module.partition(".")[0] in _KNOWN_BY_NAME


def _of_others(value: Any) -> str:
    """The name of an object that Numba, NumPy or Python defines.

    Raises
    ------
    TypeError : it has none but its address.
    """
    if isinstance(value, FunctionType | BuiltinFunctionType | type):
        return f"{value.__module__}.{value.__qualname__}"
    name = str(value)
    if " at 0x" in name:
        raise TypeError(f"what {name} is cannot be told in another process")
    return name


# --- bytecode -----------------------------------------------------------------------------------------------

_STORE, _LOAD = dis.opmap["STORE_NAME"], dis.opmap["LOAD_CONST"]
_LOAD_SMALL = dis.opmap.get("LOAD_SMALL_INT")  # since Python 3.14
_TAKE_CONSTANTS = frozenset(dis.hasconst)
_DOCSTRING = getattr(inspect, "CO_HAS_DOCSTRING", 0)  # since Python 3.14
_NOT_COMPILED = {"__doc__", "__firstlineno__"}  # what the bodies of modules and classes store, too


@cache
def _bytecode_of(function: FunctionType) -> tuple[str, tuple[str, ...]]:
    return _bytecode(function.__code__)


def _bytecode(code: CodeType) -> tuple[str, tuple[str, ...]]:
    """A hash of code, and the names in it, both with those of the functions and classes within it."""
    instructions, constants = _without_docstrings(code)
    names, texts = dict.fromkeys(code.co_names), []
    for constant in constants:
        if isinstance(constant, CodeType):
            text, within = _bytecode(constant)
            names |= dict.fromkeys(within)
        elif isinstance(constant, frozenset):
            text = f"frozenset {sorted(map(repr, constant))}"  # which Python orders by hashes of the process
        else:
            text = repr(constant)
        texts.append(text)
    shape = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_DOCSTRING
    variables = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    bytes_ = instructions.hex(), code.co_exceptiontable.hex()
    return _digest([*bytes_, repr(shape), repr(variables), *texts]), tuple(names)


def _without_docstrings(code: CodeType) -> tuple[bytearray, list[Any]]:
    """The instructions and constants of code, but for docstrings and the numbers of lines of classes."""
    instructions, constants = bytearray(code.co_code), [*code.co_consts]
    taken = [
        instructions[at + 1] for at in range(0, len(instructions), 2) if instructions[at] in _TAKE_CONSTANTS
    ]
    if code.co_flags & inspect.CO_OPTIMIZED:
        # The first constant is the docstring, or before Python 3.14 None without one, but of a comprehension.
        with_docstring = code.co_flags & _DOCSTRING if _DOCSTRING else not code.co_name.startswith("<")
        if with_docstring and constants and isinstance(constants[0], str) and 0 not in taken:
            constants[0] = None
        return instructions, constants
    for at in range(2, len(instructions), 2):
        if instructions[at] == _STORE and code.co_names[instructions[at + 1]] in _NOT_COMPILED:
            kind, number = instructions[at - 2 : at]
            if kind == _LOAD and taken.count(number) == 1:  # the constant stands for nothing else
                constants[number] = None
            elif kind == _LOAD_SMALL:
                instructions[at - 1] = 0
    return instructions, constants
