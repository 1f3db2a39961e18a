"""`jax.jit` for what runs a few times to a few thousand times: compiled in half the time, as fast afterwards.

XLA's fusion emitters for processors take half of the time of compilation, and its division of a function into
parts that several threads compile another tenth. At one point, what they gain does not show: Christoffel
symbols and curvature of a chart, mass matrices of trees are as fast without. For batches it may be a fourth,
so `evaluate` compiles those with `jax.jit`. Options hold for functions called from outside of `jit`; inside,
the caller's hold.
"""

from __future__ import annotations

import linecache
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from textwrap import shorten
from typing import Any, Generic

import jax
import jax.numpy as jnp
from jax._src.core import trace_state_clean as trace_state_clean  # which JAX has under no public name

from connections._jax import Value
from connections.geometry.dependence import is_installed
from connections.geometry.parameters import Structure, structure_of, take_apart

OPTIONS: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
RECENT = 64  # compiled functions that are kept although nobody uses them, 2.5 MB each; the oldest goes first

#: Errors of a definition that needs a number while it is traced, as `float`, `if` and NumPy do.
NEEDS_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
_IN_ITS_PLACE = "use jax.numpy instead of numpy, math and float, and jnp.where instead of if"
_LONGEST = 80  # characters of a user's line in an error
_INSIDE = ("inside of jit",)


def compiled(function: Callable[..., Any], options: dict[str, Any] | None = OPTIONS) -> Callable[..., Any]:
    """`function` compiled when it is first called for each shape of its arguments.

    Functions of the same structure (`take_apart`) share what is compiled: the numbers in them are an argument
    of it. Only if the function needs them while it is traced, it is compiled for these numbers.

    Parameters
    ----------
    function : JAX-traceable; its arguments are arrays.
    options : of the compiler, if the function is called from outside of `jit`.
    """
    return Compiler(function).compiled(called, options)


class Compiler:
    """Several functions of one thing, compiled as by `compiled`; the thing is taken apart once.

    Parameters
    ----------
    thing : the object or the functions whose numbers are an argument of what is compiled.
    """

    def __init__(self, thing: Any) -> None:
        self._thing, (self._structure, self._numbers) = thing, take_apart(thing)

    def compiled(
        self, function: Callable[..., Any], options: dict[str, Any] | None = OPTIONS
    ) -> Callable[..., Any]:
        """*arguments -> function(thing, *arguments).

        Parameters
        ----------
        function : (thing, *arguments), JAX-traceable, without numbers in it.
        options : of the compiler, if the function is called from outside of `jit`.
        """
        structure, numbers, use = self._structure, self._numbers, structure_of(function)
        choice = None if options is None else tuple(options.items())
        shared: dict[Any, Callable[..., Any]] = {}  # what is in use is not forgotten
        alone: dict[Any, Callable[..., Any]] = {}

        def call(*arguments: Any) -> Any:
            outside = choice if trace_state_clean() else _INSIDE
            try:
                if not structure.opaque:
                    if outside not in shared:
                        shared[outside] = _shared(structure, use, outside)
                    try:
                        return shared[outside](numbers, *arguments)
                    except NEEDS_NUMBERS:
                        if not numbers.size:
                            raise
                if outside not in alone:
                    alone[outside] = _jitted(partial(function, self._thing), outside)
                result = alone[outside](*arguments)
            except (*NEEDS_NUMBERS, ValueError) as error:
                if outside is not _INSIDE:
                    raise_in_words(error)
                raise
            structure.opaque = True
            return result

        return call


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's value: what is compiled of a function."""
    return function(*arguments)


@contextmanager
def tracing() -> Iterator[None]:
    """Around what traces functions of users other than by `compiled`: errors are told in words."""
    try:
        yield
    except (*NEEDS_NUMBERS, ValueError) as error:
        if trace_state_clean():
            raise_in_words(error)
        raise


def shape_of(function: Callable[..., Any], *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what a user's function returns for float64 arrays of these shapes; nothing is computed."""
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float64) for shape in shapes]
    with tracing():
        return tuple(jax.eval_shape(lambda *x: jnp.asarray(function(*x)), *arguments).shape)


def raise_in_words(error: Exception) -> None:
    """Raise `TypeError` with the user's line that needs numbers where JAX traces it, if that is the error."""
    if isinstance(error, ValueError) and not isinstance(error.__cause__ or error.__context__, NEEDS_NUMBERS):
        return
    if isinstance(error, ValueError) and "array element" not in str(error):  # not NumPy's, but a user's
        return
    place = _place_of(error)
    if place is None:
        what = "a function that JAX traces needs the numbers in an array"
        raise TypeError(f"{what}: {_IN_ITS_PLACE}") from error
    what = "needs the numbers in an array while JAX traces it"
    raise TypeError(f"{place} {what}: {_IN_ITS_PLACE}") from None


def _place_of(error: BaseException) -> str | None:
    """The innermost function of a user in the traceback, with file and line."""
    place = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if not is_installed(str(frame.f_globals.get("__name__"))):
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            text = shorten(linecache.getline(file, number), _LONGEST, placeholder=" ...")
            called = "a lambda function" if name == "<lambda>" else f"the function {name!r}"
            place = f"{called} ({Path(file).name}, line {number}{text and ': '}{text})"
    return place


@lru_cache(maxsize=RECENT)
def _shared(structure: Structure, use: Structure, options: tuple[Any, ...] | None) -> Callable[..., Any]:
    """The compiled function of (numbers, *arguments) that uses what has this structure."""
    known = _IN_USE.get((structure, use, options))
    if known is None:

        def function(numbers: Any, *arguments: Any) -> Any:
            return use.made_of(())(structure.made_of(numbers), *arguments)

        known = _IN_USE[structure, use, options] = _jitted(function, options)
    return known


_IN_USE: weakref.WeakValueDictionary[Any, Callable[..., Any]] = weakref.WeakValueDictionary()


def _jitted(function: Callable[..., Any], options: tuple[Any, ...] | None) -> Callable[..., Any]:
    if options == _INSIDE:
        return jax.jit(function)
    return jit(function, None if options is None else dict(options))


def jit(function: Callable[..., Any], options: dict[str, Any] | None) -> Callable[..., Any]:
    """`jax.jit` for calls from outside; the tests put what need not compile in its place."""
    return jax.jit(function, compiler_options=options)


class traced_once(Generic[Value]):  # noqa: N801 - a decorator
    """A method of arrays that is traced once for each object, and not again wherever it is used.

    JAX runs a definition in Python each time that a function containing it is compiled, vectorized or
    differentiated. Of a function under `jax.jit` it keeps what it has traced. The object must not change.
    """

    def __init__(self, method: Callable[..., Value]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Callable[..., Value]:
        if instance is None:
            return self._method
        function = jax.jit(partial(self._method, instance))
        known: Callable[..., Value] = instance.__dict__.setdefault(self._name, function)
        return known
