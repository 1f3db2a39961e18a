"""Every public callable, and a call of it with arguments that are right.

Such calls stand in the examples of docstrings, in `public_calls` and, of methods that these do not call, in
`method_calls`. All are programs; `recorded` runs one and notes its calls, each of which a `Recorder` makes.
"""

from __future__ import annotations

import ast
import copy
import doctest
import inspect
import re
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax
import public_calls
from method_calls import PROGRAMS
from names import called

from connections import multibody as mb

HERE = Path(__file__).parent
RECORDER = "__recorder__"
OF_ARRAYS = "public_calls."  # begins the names of programs that are calls of this file


@cache
def public_callables() -> dict[str, Any]:
    """Functions, classes and methods by their full names; a method has that of the class that defines it.

    Left out are exceptions, which the library raises, and definitions at one point, ``matrix_at``, which are
    called inside JAX with what the public function has judged.
    """
    found = {}
    for name, thing in called().items():
        if not inspect.isclass(thing):
            found[name] = thing
        elif not issubclass(thing, BaseException):
            found[name] = thing
            found |= methods_of(thing)
    return found


def methods_of(kind: type) -> dict[str, Any]:
    """The public methods of a class, also inherited ones."""
    found = {}
    for name in dir(kind):
        static = inspect.getattr_static(kind, name)
        method = getattr(static, "__func__", static)
        public = (not name.startswith("_") or name == "__call__") and not name.endswith("_at")
        if public and inspect.isfunction(method) and method.__module__.startswith("connections"):
            found[f"{method.__module__}.{method.__qualname__}"] = method
    return found


@dataclass
class GoodCall:
    """A call that was made: of `called`, which is bound to its object if it is a method."""

    name: str
    called: Callable[..., Any]
    arguments: dict[str, Any]
    program: str
    number: int  # of the call in its program

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Those of the signature; those of ``**options`` one by one, as their type lists them."""
        for parameter in inspect.signature(self.called).parameters.values():
            if parameter.kind is not parameter.VAR_KEYWORD:
                yield parameter
                continue
            listed = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
            if listed:
                options = vars(sys.modules[inspect.unwrap(self.called).__module__])[listed[1]]
                for name, kind in options.__annotations__.items():
                    words = getattr(kind, "__forward_arg__", str(kind))
                    yield inspect.Parameter(name, parameter.KEYWORD_ONLY, default=None, annotation=words)

    def __call__(self, **others: Any) -> Any:
        """The call, with other values in place of some arguments; a mechanism is built from where it was."""
        owner = getattr(self.called, "__self__", None)
        function = self.called
        if isinstance(owner, mb.Mechanism):
            function = getattr(copy.deepcopy(owner), self.called.__name__)
        return called_with(function, self.arguments | others)


def called_with(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """The function of arguments by name, of which those of ``*args`` and ``**kwargs`` are one each."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            known = inspect.signature(function).parameters
            named |= {key: value for key, value in arguments.items() if key not in known}
        if name not in arguments:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += arguments[name]
        elif parameter.kind is parameter.POSITIONAL_ONLY or (
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not named and _before_all(function, name)
        ):
            given.append(arguments[name])
        else:
            named[name] = arguments[name]
    return function(*given, **named)


def _before_all(function: Callable[..., Any], name: str) -> bool:
    """Whether a parameter has to be positional, because those of ``*args`` follow."""
    kinds = [each.kind for each in inspect.signature(function).parameters.values()]
    return inspect.Parameter.VAR_POSITIONAL in kinds


@dataclass
class Recorder:
    """Makes the calls of a program, and notes those of public callables, the first of each.

    Parameters
    ----------
    program : its name.
    replaced : the number of a call, and what its arguments are replaced by.
    """

    program: str
    replaced: tuple[int, dict[str, Any]] | None = None
    found: dict[str, GoodCall] = field(default_factory=dict)
    count: int = 0

    def __call__(self, function: Any, /, *args: Any, **named: Any) -> Any:
        if not inspect.isroutine(function) and not isinstance(function, type):  # an object that is called
            function = getattr(function, "__call__", function)  # noqa: B004
        name = _names().get(id(getattr(function, "__func__", function)))
        if name is None or any(
            isinstance(x, jax.core.Tracer) for x in jax.tree_util.tree_leaves((args, named))
        ):
            return function(*args, **named)
        self.count += 1
        number = self.count
        try:
            given = dict(inspect.signature(function).bind(*args, **named).arguments)
            given |= given.pop("options", {})
        except TypeError:  # an example of a wrong call
            return function(*args, **named)
        if self.replaced and number == self.replaced[0]:
            return called_with(function, given | self.replaced[1])
        made = GoodCall(name, function, given, self.program, number)
        owner = getattr(function, "__self__", None)
        if isinstance(owner, mb.Mechanism):
            made.called = getattr(copy.deepcopy(owner), function.__name__)
        result = function(*args, **named)
        self.found.setdefault(name, made)
        return result


@cache
def _names() -> dict[int, str]:
    return {id(thing): name for name, thing in public_callables().items()}


class _Through(ast.NodeTransformer):
    """Each call ``f(x)`` becomes ``__recorder__(f, x)``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("super", "locals"):
            return node
        return ast.copy_location(
            ast.Call(ast.Name(RECORDER, ast.Load()), [node.func, *node.args], node.keywords), node
        )


def compiled(source: str, name: str) -> Any:
    tree = ast.fix_missing_locations(_Through().visit(ast.parse(source)))
    return compile(tree, f"<{name}>", "exec")


def statements(program: str) -> list[tuple[str, bool]]:
    """The pieces of a program, and whether each raises an error, as examples of errors do."""
    if program in PROGRAMS:
        return [(PROGRAMS[program], False)]
    if program.startswith(OF_ARRAYS):
        return [(f"CALLS[{program.removeprefix(OF_ARRAYS)!r}]()", False)]
    text = inspect.getdoc(public_callables()[program]) or ""
    return [
        (each.source, each.exc_msg is not None)
        for each in doctest.DocTestParser().get_examples(text, program)
    ]


@cache
def programs() -> tuple[str, ...]:
    """The names of all programs: docstrings with examples, and those of `method_calls`."""
    texts = {name: inspect.getdoc(thing) or "" for name, thing in public_callables().items()}
    calls = (f"{OF_ARRAYS}{name}" for name in public_calls.CALLS)
    return (*(name for name, text in texts.items() if ">>> " in text), *calls, *PROGRAMS)


@cache
def _of_arrays() -> dict[str, Any]:
    """What `public_calls` defines, with its calls through a recorder."""
    space = _module(OF_ARRAYS)
    space[RECORDER] = lambda function, *args, **named: function(*args, **named)
    exec(compiled(Path(public_calls.__file__).read_text(), OF_ARRAYS), space)
    return space


def _module(name: str) -> dict[str, Any]:
    """What a new module holds, in which data classes and pickle find what is defined."""
    sys.modules[name] = types.ModuleType(name)
    return vars(sys.modules[name])


def run(program: str, recorder: Recorder) -> None:
    """Run a program in an empty folder; errors that its text does not announce come through."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _run(program, recorder)


def _run(program: str, recorder: Recorder) -> None:
    space = _of_arrays() if program.startswith(OF_ARRAYS) else _module(f"example of {program}")
    space[RECORDER] = recorder
    for source, fails in statements(program):
        try:
            exec(compiled(source, program), space)
        except Exception:
            if not fails:
                raise


@cache
def folder_of(program: str) -> tempfile.TemporaryDirectory[str]:
    """Where the calls of a program were made, with the files that it wrote."""
    return tempfile.TemporaryDirectory()


@cache
def recorded(program: str) -> dict[str, GoodCall]:
    recorder = Recorder(program)
    with chdir(folder_of(program).name):
        _run(program, recorder)
    return recorder.found
