"""What a function depends on besides its arguments: so that nothing compiled is used after that has changed.

Python looks up global names when a function runs, JAX when it traces it. Two functions of the same code may
share what is compiled only if these names have the same values, the functions among them included, and so on.
`dependence` is a key of all of them; it is equal if they are.

Numbers, texts and arrays are compared by value, functions of users by their code and by what they depend on,
their objects, lists and dictionaries by identity and by what is in them. Modules, classes, and the functions
and objects of libraries are compared by identity. A class of this library or of a user may be changed, too:
`of_class` is a key of its functions and of what these refer to, for objects that are put together anew.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Iterator
from itertools import chain
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import numpy as np

_LIBRARY = __name__.partition(".")[0]
_VALUES = (int, float, complex, str, bytes, type(None))
_MOST = 10_000  # values that are compared; a function that refers to more is like no other
DERIVED = "_derived"  # the attribute in which objects keep what was derived from the others


class Same:
    """Objects that are compared one by one, by identity."""

    __slots__ = ("objects",)

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same) or len(self.objects) != len(other.objects):
            return False
        return all(mine is theirs for mine, theirs in zip(self.objects, other.objects, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.objects)))


def dependence(function: FunctionType) -> Any:
    """The key of what `function` finds under global names; what it closes over is not included."""
    return _Walk().of_names(function)


def of_class(cls: type) -> Any:
    """The key of the functions of a class and its bases, and of what their code refers to."""
    members = Same(*_members(cls))
    return members, _present(members)


def _members(*classes: type) -> Iterator[Any]:
    """What classes and their bases define, as far as they are of this library or of users."""
    bases = dict.fromkeys(base for cls in classes for base in _bases(cls))
    return chain.from_iterable(vars(base).values() for base in bases)


@functools.lru_cache(maxsize=4096)
def _bases(cls: type) -> tuple[type, ...]:
    return tuple(base for base in cls.__mro__ if may_change(base.__module__))


def _present(roots: Same) -> Same:
    """What the library's functions among `roots` find under global names now, and the functions there, ..."""
    values = [names.get(name) for names, name in _references(roots)]
    return Same(*values, *_members(*(value for value in values if isinstance(value, type))))


@functools.lru_cache(maxsize=4096)
def _references(roots: Same) -> tuple[tuple[dict[str, Any], str], ...]:
    """All global names to which functions lead within the library, with the dictionaries of their modules."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    left, seen = list(roots.objects), set()
    while left:
        member = left.pop()
        for function in _functions_of(member):
            if id(function) in seen:
                continue
            seen.add(id(function))
            for name in global_names(function.__code__):
                value = function.__globals__.get(name)
                if (id(function.__globals__), name) in found or not _is_own(value):
                    continue
                found[id(function.__globals__), name] = function.__globals__
                left.extend(_members(value) if isinstance(value, type) else [value])
    return tuple((names, name) for (_, name), names in found.items())


def _is_own(value: Any) -> bool:
    """Whether a value is a function or a class of this library."""
    if isinstance(value, type):
        return module_of_class(value) == _LIBRARY
    return any(module_of(function).partition(".")[0] == _LIBRARY for function in _functions_of(value))


def _functions_of(member: Any) -> Iterator[FunctionType]:
    """The functions in an entry of a class or module: a function, a property, a class method, ..."""
    parts = ("__func__", "func", "fget", "__wrapped__")
    for candidate in (member, *(getattr(member, part, None) for part in parts)):
        if isinstance(candidate, FunctionType):
            yield candidate


@functools.lru_cache(maxsize=4096)
def global_names(code: CodeType) -> tuple[str, ...]:
    """The names in code that may be global, those of functions within it included."""
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in global_names(part)]
    return tuple(dict.fromkeys((*code.co_names, *inner)))


def of_value(value: Any) -> Any:
    """The key of any value."""
    return _Walk().of(value)


class _Walk:
    """One pass over what a function refers to."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, Any]] = {}
        self._left = _MOST

    def of_names(self, function: FunctionType) -> Any:
        names = function.__globals__
        return tuple((n, self.of(names[n])) for n in global_names(function.__code__) if n in names)

    def of(self, value: Any) -> Any:
        self._left -= 1
        if isinstance(value, _VALUES):
            return type(value), repr(value)
        if isinstance(value, np.ndarray | np.generic | jax.Array) and not isinstance(value, jax.core.Tracer):
            array = np.asarray(value)
            return array.dtype.str, array.shape, array.tobytes() if array.dtype != object else Same(value)
        if isinstance(value, tuple):
            return type(value), tuple(map(self.of, value))
        if isinstance(value, functools.partial):
            return functools.partial, self.of((value.func, value.args, value.keywords))
        if isinstance(value, MethodType):
            return MethodType, self.of((value.__func__, value.__self__))
        wrapped = getattr(value, "__wrapped__", None)  # as `jax.jit` leaves it
        if isinstance(wrapped, FunctionType) and not isinstance(value, FunctionType):
            return Same(value), self.of(wrapped)
        if self._left < 0:
            return Same(object())
        if isinstance(value, type) and module_of_class(value) == _LIBRARY:
            return Same(value), of_class(value)
        module = value.__module__ if isinstance(value, type) else module_of(value)
        if isinstance(value, ModuleType) or is_installed(str(module)):
            return Same(value), _present(Same(value))
        if id(value) in self._seen:
            return "again", self._seen[id(value)][0]
        self._seen[id(value)] = len(self._seen), value
        return self._of_users(value)

    def _of_users(self, value: Any) -> Any:
        """The key of a list or dictionary, or of a function or an object of a user."""
        if isinstance(value, FunctionType):
            cells = tuple(map(self.of, contents(value)))
            defaults = self.of((value.__defaults__, value.__kwdefaults__))
            itself = Same(value) if keeps_state(value.__code__) else None
            return value.__code__, cells, defaults, self.of_names(value), itself
        if isinstance(value, list | set):
            return Same(value), tuple(map(self.of, value))
        if isinstance(value, type):
            inside = {name: part for base in reversed(_bases(value)) for name, part in vars(base).items()}
            inside = {name: part for name, part in inside.items() if not name.startswith("__")}
            return Same(value), *((name, self.of(part)) for name, part in inside.items())
        inside = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        parts = tuple((repr(name), self.of(part)) for name, part in inside.items() if name != DERIVED)
        return Same(value), parts, None if isinstance(value, dict) else self.of(type(value))


def contents(function: FunctionType) -> Iterator[Any]:
    """What a function closes over; None for what is not set yet."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield None


@functools.lru_cache(maxsize=4096)
def keeps_state(code: CodeType) -> bool:
    """Whether a function assigns to what it closes over."""
    if not code.co_freevars and not code.co_cellvars:
        return False
    stores = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_DEREF", "DELETE_DEREF")}
    inner = any(keeps_state(part) for part in code.co_consts if isinstance(part, CodeType))
    return inner or not stores.isdisjoint(code.co_freevars)


def module_of(value: Any) -> str:
    """The module in which a function, or the class of an object, was written."""
    if isinstance(value, FunctionType):
        return str(value.__globals__.get("__name__"))
    return str(type(value).__module__)


def module_of_class(cls: type) -> str:
    """The package in which a class was written."""
    return cls.__module__.partition(".")[0]


def may_change(module: str) -> bool:
    """Whether a module is of this library or of a user: its functions can be made anew, and be replaced."""
    return module.partition(".")[0] == _LIBRARY or not is_installed(module)


@functools.lru_cache(maxsize=4096)
def is_installed(module: str) -> bool:
    """Whether a module belongs to a library, this one included, and not to a user's program."""
    root = module.partition(".")[0]
    if root in ("__main__", "builtins"):
        return False
    if root in sys.stdlib_module_names:
        return True
    file = str(getattr(sys.modules.get(root), "__file__", None) or "")
    return root == _LIBRARY or "site-packages" in file or "dist-packages" in file
