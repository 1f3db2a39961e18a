"""Calls of recursions of closed chains, which take `SolvedLoops` in place of q, or solve the loops first.

They are as those of trees (`calls`). Compiled code takes bias rates behind the vectors, if it takes them;
recursions that do have two vectors. Solving the loops may compile, and may call functions of users, so only
the two errors of arguments that nothing else raises are caught.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numpy import empty, ndarray

from connections.checks import ClosureError
from connections.engines.arguments import OtherTypes, copied_if_overlapping
from connections.multibody.program.calls import Call, Direct, array_of, require_finite_each
from connections.multibody.program.closed import SolvedLoops
from connections.multibody.program.closed_definition import ClosedInputRefused


class OfLoops(NamedTuple):
    """The data of the loops for a call of compiled code."""

    closure: ndarray
    clusters: ndarray
    solved: bool  #: whether it takes solutions of the loops in place of q
    solve: Callable[[Any], Any]  #: q -> the solution, if it takes that
    of_closed: Callable[..., Any]  #: `SolvedLoops` -> what the call takes in place of q
    bias_rates: Callable[..., Any] | None  #: of a solution and v, if compiled code takes them
    kinematics: Any


def closed_call(vectors: int, direct: Direct, loops: OfLoops) -> Call:
    """The call of a recursion with so many vectors behind q."""
    return (_no_vector, _one_vector, _two_vectors, _three_vectors)[vectors](direct, loops)


def _no_vector(direct: Direct, loops: OfLoops) -> Call:
    at, memory, core, choices, inverse, fallback, names = direct
    closure, clusters, solved, solve, of_closed, _, kinematics = loops

    def call(q: Any, choice: Any, out: Any) -> Any:
        if choices is not None:
            try:
                chosen = choices[choice]
            except TypeError:  # not hashable, or no text
                return fallback((q,), choice, out, False)
        refused = False
        try:
            if q.__class__ is SolvedLoops or (q.__class__ is ndarray and q.ndim == 1):
                if out is None:
                    result = empty(core)
                else:
                    result = array_of(out)
                    if inverse:
                        (q,) = copied_if_overlapping((q,), out)
                point = of_closed(q, kinematics) if q.__class__ is SolvedLoops else solve(q) if solved else q
                if choices is None:
                    good = at(memory, closure, clusters, solved, point, result)
                else:
                    good = at(memory, closure, clusters, solved, point, chosen, result)
                if good:
                    return result
                refused = out is not None
        except ClosureError:  # also where a closure is a function of a number that is not finite
            require_finite_each(names, (q,))
            raise
        except (OtherTypes, ClosedInputRefused):
            pass
        return fallback((q,), choice, out, refused)

    return call


def _one_vector(direct: Direct, loops: OfLoops) -> Call:
    at, memory, core, choices, inverse, fallback, names = direct
    closure, clusters, solved, solve, of_closed, _, kinematics = loops

    def call(q: Any, x: Any, choice: Any, out: Any) -> Any:
        if choices is not None:
            try:
                chosen = choices[choice]
            except TypeError:  # not hashable, or no text
                return fallback((q, x), choice, out, False)
        refused = False
        try:
            if x.__class__ is ndarray and (
                q.__class__ is SolvedLoops or (q.__class__ is ndarray and q.ndim == 1)
            ):
                if out is None:
                    result = empty(core)
                else:
                    result = array_of(out)
                    if inverse:
                        q, x = copied_if_overlapping((q, x), out)
                point = of_closed(q, kinematics) if q.__class__ is SolvedLoops else solve(q) if solved else q
                if choices is None:
                    good = at(memory, closure, clusters, solved, point, x, result)
                else:
                    good = at(memory, closure, clusters, solved, point, x, chosen, result)
                if good:
                    return result
                refused = out is not None
        except ClosureError:  # also where a closure is a function of a number that is not finite
            require_finite_each(names, (q, x))
            raise
        except (OtherTypes, ClosedInputRefused):
            pass
        return fallback((q, x), choice, out, refused)

    return call


def _two_vectors(direct: Direct, loops: OfLoops) -> Call:
    at, memory, core, choices, inverse, fallback, names = direct
    closure, clusters, solved, solve, of_closed, bias_rates, kinematics = loops

    def call(q: Any, x: Any, y: Any, choice: Any, out: Any) -> Any:
        if choices is not None:
            try:
                chosen = choices[choice]
            except TypeError:  # not hashable, or no text
                return fallback((q, x, y), choice, out, False)
        refused = False
        try:
            if x.__class__ is y.__class__ is ndarray and (
                q.__class__ is SolvedLoops or (q.__class__ is ndarray and q.ndim == 1)
            ):
                if out is None:
                    result = empty(core)
                else:
                    result = array_of(out)
                    if inverse:
                        q, x, y = copied_if_overlapping((q, x, y), out)
                point = of_closed(q, kinematics) if q.__class__ is SolvedLoops else solve(q) if solved else q
                if bias_rates is not None:
                    rates = bias_rates(point, x)
                    if choices is None:
                        good = at(memory, closure, clusters, solved, point, x, y, rates, result)
                    else:
                        good = at(memory, closure, clusters, solved, point, x, y, rates, chosen, result)
                elif choices is None:
                    good = at(memory, closure, clusters, solved, point, x, y, result)
                else:
                    good = at(memory, closure, clusters, solved, point, x, y, chosen, result)
                if good:
                    return result
                refused = out is not None
        except ClosureError:  # also where a closure is a function of a number that is not finite
            require_finite_each(names, (q, x, y))
            raise
        except (OtherTypes, ClosedInputRefused):
            pass
        return fallback((q, x, y), choice, out, refused)

    return call


def _three_vectors(direct: Direct, loops: OfLoops) -> Call:
    at, memory, core, choices, inverse, fallback, names = direct
    closure, clusters, solved, solve, of_closed, _, kinematics = loops

    def call(q: Any, x: Any, y: Any, z: Any, choice: Any, out: Any) -> Any:
        if choices is not None:
            try:
                chosen = choices[choice]
            except TypeError:  # not hashable, or no text
                return fallback((q, x, y, z), choice, out, False)
        refused = False
        try:
            if x.__class__ is y.__class__ is z.__class__ is ndarray and (
                q.__class__ is SolvedLoops or (q.__class__ is ndarray and q.ndim == 1)
            ):
                if out is None:
                    result = empty(core)
                else:
                    result = array_of(out)
                    if inverse:
                        q, x, y, z = copied_if_overlapping((q, x, y, z), out)
                point = of_closed(q, kinematics) if q.__class__ is SolvedLoops else solve(q) if solved else q
                if choices is None:
                    good = at(memory, closure, clusters, solved, point, x, y, z, result)
                else:
                    good = at(memory, closure, clusters, solved, point, x, y, z, chosen, result)
                if good:
                    return result
                refused = out is not None
        except ClosureError:  # also where a closure is a function of a number that is not finite
            require_finite_each(names, (q, x, y, z))
            raise
        except (OtherTypes, ClosedInputRefused):
            pass
        return fallback((q, x, y, z), choice, out, refused)

    return call
