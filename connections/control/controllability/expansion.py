"""Taylor polynomials of a JAX function at a point: its jet, by Taylor arithmetic on the traced function.

The function is traced once, and each equation of the trace is applied to truncated polynomials in NumPy.
Every coefficient is exact, whatever its order; nothing is compiled, and nothing is nested, so that the cost
grows with the number of coefficients and not exponentially with the order of differentiation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from connections.control.controllability.primitives import (
    OF_CONSTANTS,
    RULES,
    VALUES,
    bind,
    nested,
)
from connections.control.controllability.taylor import TaylorAlgebra, taylor_algebra

Array = np.ndarray[Any, Any]

_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "eval_jaxpr": "jaxpr",
}


class Expansion:
    """The Taylor polynomials of a function of a point.

    Parameters
    ----------
    function : q (nq,) -> arrays, in any nesting of tuples and dictionaries; JAX-traceable.
    variables : nq.
    """

    def __init__(self, function: Callable[[jax.Array], Any], variables: int) -> None:
        point = jax.ShapeDtypeStruct((variables,), jnp.float64)
        self.variables = variables
        self._traced, shapes = jax.make_jaxpr(function, return_shape=True)(point)
        self._tree = jax.tree_util.tree_structure(shapes)

    def at(self, q: Array, order: int) -> Any:
        """Coefficients (K, *shape) of every array that the function returns, to degree `order`.

        Parameters
        ----------
        q : (nq,) the point.
        order : degree of the polynomials, 0 or more.
        """
        algebra = taylor_algebra(self.variables, order)
        with np.errstate(all="ignore"):
            point = Series(algebra.point(np.asarray(q, dtype=float)))
            results = _evaluate(algebra, self._traced.jaxpr, self._traced.consts, [point])
        leaves = [algebra.full(np.asarray(_coefficients(value))) for value in results]
        return jax.tree_util.tree_unflatten(self._tree, leaves)

    def value(self, q: Array) -> Any:
        """What the function returns at q, as NumPy arrays."""
        return jax.tree_util.tree_map(lambda leaf: leaf[0], self.at(q, 0))


class Series:
    """A value that depends on the point: its coefficients (K, *shape). Other values are plain arrays."""

    __slots__ = ("coefficients",)

    def __init__(self, coefficients: Array) -> None:
        self.coefficients = coefficients


def _coefficients(value: Any) -> Array:
    return value.coefficients if isinstance(value, Series) else np.asarray(value)[None]


def _value(value: Any) -> Any:
    return value.coefficients[0] if isinstance(value, Series) else value


def _evaluate(
    algebra: TaylorAlgebra, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]
) -> list[Any]:
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for equation in jaxpr.eqns:
        results = _apply(algebra, equation, [read(variable) for variable in equation.invars])
        known.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _apply(algebra: TaylorAlgebra, equation: Any, values: list[Any]) -> list[Any]:
    """The results of one equation of the trace."""
    name, params = equation.primitive.name, equation.params
    if name in _CALLS:
        return _call(algebra, params[_CALLS[name]], values)
    if name in _CONTROL:
        return _CONTROL[name](algebra, params, values)
    floating = any(variable.aval.dtype.kind == "f" for variable in equation.outvars)
    if not floating:  # truths and integers do not change near the point
        values = [_value(value) for value in values]
    varying = [isinstance(value, Series) for value in values]
    points = [_value(value) for value in values]
    if name in VALUES:
        return [VALUES[name](params, *points)]
    if name in OF_CONSTANTS and not any(varying):
        return OF_CONSTANTS[name](params, *points)
    operands = [_coefficients(value) for value in values]
    if name in RULES:
        results = RULES[name](algebra, params, *operands)
        results = results if isinstance(results, list) else [results]
        return [Series(a) if any(varying) else a[0] for a in results]
    if not any(varying):
        return [np.asarray(out) for out in bind(equation, points)]
    return [Series(a) for a in nested(algebra, equation, operands, varying)]


def _call(algebra: TaylorAlgebra, closed: Any, values: Sequence[Any]) -> list[Any]:
    return _evaluate(algebra, closed.jaxpr, closed.consts, values)


def _cond(algebra: TaylorAlgebra, params: dict[str, Any], values: list[Any]) -> list[Any]:
    """The branch taken at the point."""
    return _call(algebra, params["branches"][int(_value(values[0]))], values[1:])


def _scan(algebra: TaylorAlgebra, params: dict[str, Any], values: list[Any]) -> list[Any]:
    consts, carried = params["num_consts"], params["num_carry"]
    fixed, carry, lists = values[:consts], values[consts : consts + carried], values[consts + carried :]
    steps = range(params["length"])
    rows: list[list[Any]] = []
    for step in reversed(steps) if params["reverse"] else steps:
        items = [
            Series(item.coefficients[:, step]) if isinstance(item, Series) else item[step] for item in lists
        ]
        out = _call(algebra, params["jaxpr"], [*fixed, *carry, *items])
        carry = out[:carried]
        rows.append(out[carried:])
    rows = rows[::-1] if params["reverse"] else rows
    return [*carry, *(_stacked(algebra, column) for column in zip(*rows, strict=True))]


def _stacked(algebra: TaylorAlgebra, column: Sequence[Any]) -> Any:
    if not any(isinstance(item, Series) for item in column):
        return np.stack(column)
    return Series(np.stack([algebra.full(_coefficients(item)) for item in column], axis=1))


def _while(algebra: TaylorAlgebra, params: dict[str, Any], values: list[Any]) -> list[Any]:
    """The steps taken at the point, as JAX's forward mode does."""
    tests, steps = params["cond_nconsts"], params["body_nconsts"]
    known, fixed, carry = values[:tests], values[tests : tests + steps], values[tests + steps :]
    while _value(_call(algebra, params["cond_jaxpr"], [*known, *carry])[0]):
        carry = _call(algebra, params["body_jaxpr"], [*fixed, *carry])
    return carry


def _linear_solve(algebra: TaylorAlgebra, params: dict[str, Any], values: list[Any]) -> list[Any]:
    """x of a linear equation M x = b, degree by degree: x_d = M_0^-1 (b - M x)_d; M_0 is formed."""
    lengths, jaxprs = params["const_lengths"], params["jaxprs"]
    count = len(jaxprs.matvec.out_avals)
    operator, right = values[: lengths.matvec], values[len(values) - count :]
    shapes = [_value(value).shape for value in right]
    matrix = _matrix(jaxprs.matvec, [_value(value) for value in operator], shapes)
    moving = any(isinstance(value, Series) for value in operator)
    if not moving:
        b = _flat([_coefficients(value) for value in right], algebra)
        return [Series(x) for x in _unflat(_solved(matrix, b), shapes)]
    x = np.zeros((1, len(matrix)))
    for degree in range(algebra.order + 1):
        low, new = algebra.lower(degree), algebra.first(degree)
        rest = _flat([low.cut(_coefficients(value)) for value in right], low)
        if degree:
            x = low.full(x)
            lowered = [_cut(low, value) for value in operator]
            product = _call(low, jaxprs.matvec, [*lowered, *(Series(part) for part in _unflat(x, shapes))])
            rest = rest - _flat([_coefficients(value) for value in product], low)
        x[new:] = _solved(matrix, rest[new:])
    return [Series(part) for part in _unflat(x, shapes)]


def _matrix(matvec: Any, operator: list[Any], shapes: list[tuple[int, ...]]) -> Array:
    """The matrix of a linear function of arrays, (s, s): its values on all unit vectors at once."""
    size = sum(int(np.prod(shape, dtype=int)) for shape in shapes)
    algebra = taylor_algebra(size - 1, 1)  # as many coefficients as unit vectors; constants multiply each
    units = [Series(part) for part in _unflat(np.eye(size), shapes)]
    return _flat([_coefficients(value) for value in _call(algebra, matvec, [*operator, *units])], algebra).T


def _solved(matrix: Array, rows: Array) -> Array:
    """matrix^-1 applied to every row; NaN where the matrix is singular."""
    try:
        return np.linalg.solve(matrix, rows.T).T
    except np.linalg.LinAlgError:
        return np.full_like(rows, np.nan)


def _flat(parts: list[Array], algebra: TaylorAlgebra) -> Array:
    """Arrays (K, *shape) side by side, (K, s)."""
    return np.concatenate([algebra.full(part).reshape(algebra.size, -1) for part in parts], axis=1)


def _unflat(rows: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
    sizes = [int(np.prod(shape, dtype=int)) for shape in shapes]
    parts = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    return [part.reshape(len(rows), *shape) for part, shape in zip(parts, shapes, strict=True)]


def _cut(low: TaylorAlgebra, value: Any) -> Any:
    return Series(low.cut(value.coefficients)) if isinstance(value, Series) else value


_CONTROL: dict[str, Callable[..., list[Any]]] = {
    "cond": _cond,
    "scan": _scan,
    "while": _while,
    "custom_linear_solve": _linear_solve,
}
