"""Results of public calls, and copies of them by pickle and by `copy`.

The calls are those of `good_calls`. Functions that a program defines are its user's, and those that Python
does not pickle, such as lambda functions, stay themselves here.
"""

from __future__ import annotations

import copy
import io
import pickle
import re
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from good_calls import Recorder, run


@dataclass
class Kept(Recorder):
    """Notes also the first result of each type of the library."""

    results: dict[type, Any] = field(default_factory=dict)

    def __call__(self, function: Any, /, *args: Any, **named: Any) -> Any:
        result = super().__call__(function, *args, **named)
        for each in (result, *result) if isinstance(result, tuple | list) else (result,):
            if type(each).__module__.startswith("connections"):
                self.results.setdefault(type(each), each)
        return result


def results_of(program: str) -> dict[type, Any]:
    """What the calls of a program return, by type."""
    kept = Kept(program)
    sys.modules.setdefault(program, types.ModuleType(program))  # where data classes look for their names
    run(program, kept)
    return kept.results


def faults(result: Any) -> Iterator[str]:
    """Why a result is not the same in another process, or as a copy; one line each.

    Nothing if it says itself why it cannot be: it raises `TypeError` with its name. A copy that cannot be
    compared with the result is a fault, too.
    """
    for name, way in WAYS.items():
        try:
            again = way(result)
            bool(result == again), bool(result != again)
        except Exception as error:
            if not (isinstance(error, TypeError) and str(error).startswith(type(result).__name__)):
                yield f"{type(result).__name__} is not {name}: {type(error).__name__}: {error}"
        else:
            if type(again) is not type(result) or _text(again) != _text(result):
                yield f"{type(result).__name__}, {name}, is another: {again!r}"


def _text(thing: Any) -> str:
    """The text of an object without the addresses of its functions."""
    return re.sub(r" at 0x\w+", "", repr(thing))


def pickled(thing: Any) -> Any:
    """A copy by pickle, with users' functions themselves."""
    stream, users = io.BytesIO(), {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, each: Any) -> int | None:
            return _number(users, each)

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, number: int) -> Any:
            return users[number]

    Pickler(stream).dump(thing)
    stream.seek(0)
    return Unpickler(stream).load()


def _number(users: dict[int, Any], thing: Any) -> int | None:
    if not is_of_a_program(thing):
        return None
    users[id(thing)] = thing
    return id(thing)


def is_of_a_program(thing: Any) -> bool:
    """Whether a program defines a function or a class."""
    if isinstance(thing, types.FunctionType):
        return thing.__code__.co_filename.startswith("<")
    return isinstance(thing, type) and "<" not in thing.__qualname__ and _is_program(thing.__module__)


def _is_program(module: str) -> bool:
    return getattr(sys.modules.get(module), "__spec__", 1) is None


WAYS: dict[str, Callable[[Any], Any]] = {
    "pickled": pickled,
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
}
