"""Values that no argument takes, made from the value that it has, and what a call says of them."""

from __future__ import annotations

import inspect
import re
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import connections

PACKAGE = str(Path(connections.__file__).parent)
SECONDS = 20  # after which a call has no end


class Nothing:
    """An object that is nothing that any argument takes."""

    def __repr__(self) -> str:
        return "Nothing()"


#: What is no value of any argument: no number, no text, no function, no object of the library.
NOTHING: dict[str, Any] = {
    "an object": Nothing(),
    "objects": [Nothing(), Nothing()],
    "complex": 1.0 + 2.0j,
    "complex numbers": np.array([1.0, 2.0j]),
    "a date": date(2020, 1, 1),
    "dates": np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
    "a time span": np.timedelta64(3, "s"),
    "a hidden number": np.ma.masked_array([1.0, 2.0], mask=[False, True]),
    "nothing but None": np.array([None, None]),
    "a record": np.zeros(2, dtype=[("a", float)]),
    "a class": Nothing,
}
TEXTS: dict[str, Any] = {"text": "no such text", "bytes": b"abc", "texts": np.array(["1.0", "2.0"])}
OF_NO_TEXT: dict[str, Any] = {"a number": 3.5, "numbers": np.zeros(2)}
#: In place of one number.
NUMBERS: dict[str, Any] = {
    "NaN": np.nan,
    "infinite": np.inf,
    "rows of two lengths": [[1.0, 2.0], [3.0]],
    "two numbers": np.ones(2),
    "no number": np.zeros(0),
    "a dictionary": {},
    "a function": lambda *given: 1.0,
}


def _with(value: Any, x: np.ndarray) -> np.ndarray:
    x = np.array(x, dtype=float)
    x.flat[-1] = value
    return x


#: In place of an array of numbers, made from it.
ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "complex of its shape": lambda x: x.astype(complex),
    "complex of its shape by JAX": lambda x: jnp.asarray(x.astype(complex)),
    "texts of its shape": lambda x: x.astype(str),
    "texts among objects": lambda x: x.astype(str).astype(object),
    "dates of its shape": lambda x: np.full(x.shape, "2020-01-01", dtype="datetime64[D]"),
    "time spans of its shape": lambda x: np.full(x.shape, 1, dtype="timedelta64[s]"),
    "None among objects": lambda x: np.full(x.shape, None),
    "a hidden number of its shape": lambda x: np.ma.masked_array(x, np.arange(x.size).reshape(x.shape) == 0),
    "hidden numbers in a list": lambda x: [np.ma.masked_array(x, np.ones(x.shape, bool))],
    "one NaN": partial(_with, np.nan),
    "one infinite": partial(_with, np.inf),
    "an integer beyond float64": lambda x: np.full(x.shape, 10**400).tolist(),
    "one too many": lambda x: np.concatenate([x, x[..., -1:]], axis=-1),
    "one too few": lambda x: x[..., :-1],
    "rows of two lengths": lambda x: [[1.0, 2.0], [3.0]],
    "a number": lambda x: 1.5,
    "nothing": lambda x: np.zeros(0),
    "an empty list": lambda x: [],
    "a dictionary": lambda x: {},
    "a function": lambda x: lambda *given: x,
}


#: In place of what a function returns, made from that.
RESULTS: dict[str, Callable[[Any], Any]] = {
    "complex": lambda x: x * (1.0 + 1.0j),
    "text": lambda x: "no number",
    "None": lambda x: None,
    "an object": lambda x: Nothing(),
    "a dictionary": lambda x: {"value": x},
    "rows of two lengths": lambda x: [[1.0, 2.0], [3.0]],
    "one too many": lambda x: jnp.concatenate([jnp.atleast_1d(x)] * 2, axis=-1),
    "NaN": lambda x: x * np.nan,
    "dates": lambda x: np.full(np.shape(x), "2020-01-01", dtype="datetime64[D]"),
    "a hidden number": lambda x: np.ma.masked_array(np.zeros(np.shape(x)), np.ones(np.shape(x), bool)),
}


PLAIN = (TypeError, ValueError, OSError, FileNotFoundError, IndexError)  # which the library raises, too


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def as_numbers(value: Any) -> np.ndarray | None:
    """The value as an array of numbers of one axis or more, or None if it is none."""
    if isinstance(value, np.ndarray | jax.Array | list | tuple) and not hasattr(value, "_fields"):
        try:
            array = np.asarray(value)
        except ValueError:
            return None
        if array.dtype.kind in "iuf" and array.ndim and array.size:
            return array.astype(float)
    return None


def bad_values(parameter: inspect.Parameter, value: Any) -> Iterator[tuple[str, Any]]:
    """Names and values for a parameter whose value is right.

    Parameters
    ----------
    value : that of a good call; `inspect.Parameter.empty` if the call does not say it.
    """
    words = str(parameter.annotation)
    value = parameter.default if value is parameter.empty else value
    if parameter.kind is parameter.VAR_POSITIONAL:
        value = value if isinstance(value, tuple) else (None,)
        found = _of_kind(value[0], words)
        yield from ((name, (bad, *value[1:])) for name, bad in found.items() if bad is not None)
        return
    for name, bad in _of_kind(value, words).items():
        if bad is None and ("None" in words or parameter.default is None):
            continue
        yield name, bad


def _of_kind(value: Any, words: str) -> dict[str, Any]:
    """Bad values for a kind of value; `words` are the annotation's."""
    text = {} if "str" in words else TEXTS
    if isinstance(value, bool | np.bool_):
        return NOTHING | TEXTS | OF_NO_TEXT | {"None": None, "two": 2}
    if is_number(value):
        whole = {"a fraction": 1.5} if isinstance(value, int) and "float" not in words else {}
        return NOTHING | text | NUMBERS | whole | {"None": None}
    array = as_numbers(value)
    if array is not None:
        return NOTHING | text | {name: make(array) for name, make in ARRAYS.items()} | {"None": None}
    if isinstance(value, str):
        return (
            NOTHING
            | OF_NO_TEXT
            | {"None": None, "no number": [], "bytes": b"abc", "another text": "no such text"}
        )
    if value is None:
        return NOTHING | text | _of_words(words)
    if isinstance(value, Mapping) and value:
        return NOTHING | text | OF_NO_TEXT | {"None": None} | _inside_mapping(value, words)
    if isinstance(value, list | tuple) and value and not hasattr(value, "_fields"):
        return NOTHING | text | {"a number": 3.5, "None": None} | _inside_list(value, words)
    numbers = {} if "Array" in words or "float" in words else OF_NO_TEXT
    return NOTHING | text | numbers | {"None": None}


def _of_words(words: str) -> dict[str, Any]:
    """Bad values for what is None if it is not said, by its annotation."""
    kinds = set(re.findall(r"\w+", words)) - {"None"}
    if kinds == {"float"} or kinds == {"int"}:
        return NUMBERS
    if kinds == {"bool"}:
        return OF_NO_TEXT | {"two": 2}
    if kinds and kinds <= {"str", "Path"}:
        return OF_NO_TEXT
    return {}


def _inside_mapping(value: Mapping[Any, Any], words: str) -> dict[str, Any]:
    key, inner = next(iter(value.items()))
    found = {f"{name} at {key!r}": {**value, key: bad} for name, bad in _of_kind(inner, words).items()}
    return found | {"another key": {"no such key": inner}, "a key that is no text": {3.5: inner}}


def _inside_list(value: Any, words: str) -> dict[str, Any]:
    inner = value[0]
    return {f"{name} at 0": type(value)([bad, *value[1:]]) for name, bad in _of_kind(inner, words).items()}


class Endless(BaseException):
    """A call takes too long."""


@contextmanager
def limited(seconds: int = SECONDS) -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def verdict(name: str, call: Callable[[], Any]) -> str | None:
    """What is wrong with what a call does with a bad value of its argument `name`; None if it is refused.

    Without a name, any error of the library will do.
    """
    try:
        with limited(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            call()
    except Endless:
        return f"no end within {SECONDS} s"
    except Exception as error:  # the point of it
        if is_ours(error) and name == "":
            return None
        return unclear(name, error)
    return "accepted"


def is_ours(error: Exception) -> bool:
    return type(error).__module__.startswith("connections")


def unclear(name: str, error: Exception) -> str | None:
    """Why an error is none of a user's words: not raised by the library, or not about the argument."""
    text = f"{type(error).__name__}: {error}"
    if not is_ours(error) and type(error) not in (
        TypeError,
        ValueError,
        OSError,
        FileNotFoundError,
        IndexError,
    ):
        return f"not clear: {text}"
    if not _innermost(error.__traceback__).startswith(PACKAGE):
        return f"raised elsewhere: {text}"
    if not re.search(rf"\b({name})\b", text):
        return f"unnamed: {text}"
    return None


def _innermost(trace: TracebackType | None) -> str:
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename


class WrongResult:
    """A function that returns something else than it should, and counts its calls."""

    def __init__(self, function: Callable[..., Any], change: Callable[[Any], Any]) -> None:
        self.calls = 0

        @wraps(function)
        def wrong(*args: Any, **named: Any) -> Any:
            self.calls += 1
            return _changed(change, function(*args, **named))

        self.function = wrong


def _changed(change: Callable[[Any], Any], result: Any) -> Any:
    """A result with another array in its first place; an object becomes what a number would."""
    leaves, tree = jax.tree_util.tree_flatten(result)
    arrays = isinstance(result, tuple | list | dict | jax.Array | np.ndarray | float | int)
    if not arrays or not leaves:
        return change(1.0)
    return jax.tree_util.tree_unflatten(tree, [change(leaves[0]), *leaves[1:]])
