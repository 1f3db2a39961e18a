"""Calls of recursions: as fast as Python can be if all is as compiled code takes it, complete otherwise.

A call takes ``(q, vectors..., choice, out)``; without a choice, that is (). One configuration and vectors in
NumPy's arrays go straight to compiled code, which raises `OtherTypes` for arrays of other types and returns
whether the input was good. If that fails, `fallback` takes over: it tries copies that compiled code accepts,
and then `Program.evaluate`, which converts, broadcasts, and raises the error that says what is wrong. An
error of anything but the arguments comes through: nothing else is in a ``try``.

A call takes about a microsecond, in which Python has no time to loop over arguments, which takes a fifth of
one. So there is a function for each number of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import empty, ndarray

from connections.checks import NonFiniteError, is_masked, require_finite
from connections.engines.arguments import OtherTypes, copied_if_overlapping
from connections.multibody.program.closed import SolvedLoops

Call = Callable[..., ndarray]
#: Errors of arguments, after which `fallback` looks at them: of a function that is compiled already, Numba
#: raises ValueError if `out` is an empty list; a choice that is not hashable is a TypeError.
NOT_AS_THEY_ARE = (TypeError, ValueError)


_REAL = "dfbhilqBHILQ"  # codes of the types of numbers that are converted to float64


class Direct(NamedTuple):
    """The data of a call of compiled code."""

    at: Callable[..., bool]  #: the compiled function for one configuration
    memory: ndarray  #: its first argument
    core: tuple[int, ...]  #: the shape of the result
    choices: Any  #: what the caller can choose -> what compiled code takes; None if there is no choice
    inverse: bool  #: whether the arguments are needed again after `out` is overwritten, if H is singular
    #: ((q, vectors...), choice, out, refused) -> what is returned if compiled code does not take the
    #: arguments as they are, or has refused them and perhaps overwritten `out`
    fallback: Callable[..., Any]
    names: tuple[str, ...]  #: of q and the vectors


def direct_call(vectors: int, direct: Direct) -> Call:
    """The call of a recursion of a tree with so many vectors behind q."""
    return (_no_vector, _one_vector, _two_vectors, _three_vectors)[vectors](direct)


# --- trees --------------------------------------------------------------------------------------------------


def _no_vector(direct: Direct) -> Call:
    at, memory, core, choices, inverse, fallback, _ = direct

    def call(q: Any, choice: Any, out: Any) -> Any:
        refused = False
        if q.__class__ is ndarray and q.ndim == 1:
            if out is None:
                result = empty(core)
            else:
                result = out
                if inverse:
                    (q,) = copied_if_overlapping((q,), out)
            try:
                if at(memory, q, result) if choices is None else at(memory, q, choices[choice], result):
                    return result
                refused = out is not None
            except NOT_AS_THEY_ARE:
                pass
        return fallback((q,), choice, out, refused)

    return call


def _one_vector(direct: Direct) -> Call:
    at, memory, core, choices, inverse, fallback, _ = direct

    def call(q: Any, x: Any, choice: Any, out: Any) -> Any:
        refused = False
        if q.__class__ is x.__class__ is ndarray and q.ndim == 1:
            if out is None:
                result = empty(core)
            else:
                result = out
                if inverse:
                    q, x = copied_if_overlapping((q, x), out)
            try:
                if at(memory, q, x, result) if choices is None else at(memory, q, x, choices[choice], result):
                    return result
                refused = out is not None
            except NOT_AS_THEY_ARE:
                pass
        return fallback((q, x), choice, out, refused)

    return call


def _two_vectors(direct: Direct) -> Call:
    at, memory, core, choices, inverse, fallback, _ = direct

    def call(q: Any, x: Any, y: Any, choice: Any, out: Any) -> Any:
        refused = False
        if q.__class__ is x.__class__ is y.__class__ is ndarray and q.ndim == 1:
            if out is None:
                result = empty(core)
            else:
                result = out
                if inverse:
                    q, x, y = copied_if_overlapping((q, x, y), out)
            try:
                if (
                    at(memory, q, x, y, result)
                    if choices is None
                    else at(memory, q, x, y, choices[choice], result)
                ):
                    return result
                refused = out is not None
            except NOT_AS_THEY_ARE:
                pass
        return fallback((q, x, y), choice, out, refused)

    return call


def _three_vectors(direct: Direct) -> Call:
    at, memory, core, choices, inverse, fallback, _ = direct

    def call(q: Any, x: Any, y: Any, z: Any, choice: Any, out: Any) -> Any:
        refused = False
        if q.__class__ is x.__class__ is y.__class__ is z.__class__ is ndarray and q.ndim == 1:
            if out is None:
                result = empty(core)
            else:
                result = out
                if inverse:
                    q, x, y, z = copied_if_overlapping((q, x, y, z), out)
            try:
                if (
                    at(memory, q, x, y, z, result)
                    if choices is None
                    else at(memory, q, x, y, z, choices[choice], result)
                ):
                    return result
                refused = out is not None
            except NOT_AS_THEY_ARE:
                pass
        return fallback((q, x, y, z), choice, out, refused)

    return call


# --- what is not as compiled code takes it ------------------------------------------------------------------


def plain_copies(given: tuple[Any, ...]) -> list[Any] | None:
    """Vectors as new float64 arrays, which compiled code accepts; `SolvedLoops` as it is.

    None unless all are NumPy's arrays or lists of one axis, and of numbers that float64 may hold.
    """
    found = []
    for value in given:
        if value.__class__ is list:
            if is_masked(value):
                return None
            try:
                value = np.array(value)
            except (TypeError, ValueError, RuntimeError):
                return None
        if value.__class__ is np.ndarray:
            if value.ndim != 1 or value.dtype.char not in _REAL:
                return None
            value = np.array(value, np.float64)
        elif value.__class__ is not SolvedLoops:
            return None
        found.append(value)
    return found


def array_of(out: Any) -> ndarray:
    """`out` if it is an array.

    Raises
    ------
    OtherTypes : it is none.
    """
    if not isinstance(out, ndarray):
        raise OtherTypes
    return out


def require_kept(name: str, names: Sequence[str], given: Sequence[Any], out: np.ndarray) -> None:
    """Raise `NonFiniteError` if a result that is not finite has replaced an argument, in whose memory it is.

    Otherwise the recursion would be called again, to say why it refused its input, with other numbers.
    """
    for argument, value in zip(names, given, strict=True):
        if isinstance(value, np.ndarray) and np.may_share_memory(value, out) and not np.isfinite(out).all():
            raise NonFiniteError(
                f"{name} is not finite: the arguments, or the model's numbers, are too large for it; `out` "
                f"shares memory with {argument}, which it has replaced"
            )


def require_finite_each(names: Sequence[str], arrays: Sequence[Any]) -> None:
    """Raise `NonFiniteError` for the first of some arrays that has a number that is not finite."""
    for name, array in zip(names, arrays, strict=True):
        require_finite(name, array)
