"""Taylor polynomials of a JAX function at a point: its jet, by Taylor arithmetic on the traced function.

The function is traced once, and each equation of the trace is applied to truncated polynomials in NumPy.
Every coefficient is exact, whatever its order; nothing is compiled, and nothing is nested, so that the cost
grows with the number of coefficients and not exponentially with the order of differentiation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.control.controllability.taylor import TaylorAlgebra, taylor_algebra
from connections.control.controllability.taylor_primitives import (
    COMPLEX,
    OF_CONSTANTS,
    RULES,
    VALUES,
    bind,
    nested,
)
from connections.engines.internals.jax_names import Literal, scan_counts

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


#: Calls, whose own operations are changed, and operations that do not round.
_WITHOUT_ROUND_OFF = {
    *_CALLS,
    *("cond", "scan", "while", "neg", "abs", "real", "imag", "conj", "complex", "max", "min", "reduce_max"),
    *("reduce_min", "reshape", "transpose", "squeeze", "broadcast_in_dim", "slice", "concatenate", "stack"),
    *("split", "unstack", "select_n", "convert_element_type", "copy", "copy_p", "optimization_barrier"),
    *("gather", "scatter", "dynamic_slice", "dynamic_update_slice", "pad", "rev", "iota", "stop_gradient"),
    *("sign", "floor", "ceil", "round", "sort", "clamp"),
}
DISTURBANCE = 1e-8
_DISTURBED = 2  # disturbed evaluations


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
        self._nested: dict[Any, Any] = {}

    def at(self, q: Array, order: int) -> Any:
        """Coefficients (K, *shape) of every array that the function returns, to degree `order`.

        Parameters
        ----------
        q : (nq,) the point.
        order : degree of the polynomials, 0 or more.
        """
        return self._unflatten(self._leaves(q, order, None))

    def disturbed(self, q: Array, order: int) -> list[Any]:
        """Coefficients as of `at`, once exact and twice with disturbances like round-off, but larger.

        The point, the constants and the result of every operation that rounds change by 0.5e-8 to 1e-8 of
        themselves (`DISTURBANCE`), at random. So the round-off of a number is relative to its change over
        1e-8. If that is too small by chance, it is in doubt whether a number is zero; none becomes zero.

        Parameters
        ----------
        q, order : as in `at`.
        """
        runs = [None, *(np.random.default_rng(seed) for seed in range(_DISTURBED))]
        return [self._unflatten(self._leaves(q, order, rng)) for rng in runs]

    def value(self, q: Array) -> Any:
        """The function's value at q, as NumPy arrays."""
        return jax.tree_util.tree_map(lambda leaf: leaf[0], self.at(q, 0))

    def _leaves(self, q: Array, order: int, rng: np.random.Generator | None) -> list[Array]:
        run = _TraceRun(taylor_algebra(self.variables, order), self._nested, rng)
        point = run.algebra.point(run.rounded(np.asarray(q, dtype=float)))
        constants = [run.rounded(value) for value in self._traced.consts]
        with np.errstate(all="ignore"):
            results = _evaluate(run, self._traced.jaxpr, constants, [TaylorSeries(point)])
        return [run.algebra.full(np.asarray(_coefficients(value))) for value in results]

    def _unflatten(self, leaves: list[Array]) -> Any:
        return jax.tree_util.tree_unflatten(self._tree, leaves)


class TaylorSeries:
    """A value that depends on the point: its coefficients (K, *shape). Other values are plain arrays."""

    __slots__ = ("coefficients",)

    def __init__(self, coefficients: Array) -> None:
        self.coefficients = coefficients


def _coefficients(value: Any) -> Array:
    return value.coefficients if isinstance(value, TaylorSeries) else np.asarray(value)[None]


def _value(value: Any) -> Any:
    return value.coefficients[0] if isinstance(value, TaylorSeries) else value


def disturbances(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Random numbers of both signs, between a half and one `DISTURBANCE`."""
    signs = rng.choice((-DISTURBANCE, DISTURBANCE), shape)
    return np.asarray(rng.uniform(0.5, 1.0, shape) * signs)


@dataclass(frozen=True, eq=False)
class _TraceRun:
    """One evaluation of a trace.

    Parameters
    ----------
    algebra : of the polynomials.
    nested : compiled derivatives of primitives without a rule, filled by `nested`.
    rng : if given, every result is changed by a little at random, which shows the effect of round-off.
    """

    algebra: TaylorAlgebra
    nested: dict[Any, Any]
    rng: np.random.Generator | None = None

    def rounded(self, value: Any) -> Any:
        """`value`, each number changed by 0.5e-8 to 1e-8 of itself, if there is an `rng`."""
        if self.rng is None:
            return value
        if isinstance(value, TaylorSeries):
            return TaylorSeries(self.rounded(value.coefficients))
        if not jnp.issubdtype(value.dtype, jnp.inexact):
            return value
        a = np.asarray(value)
        return a * (1.0 + disturbances(self.rng, a.shape))

    def lower(self, degree: int) -> _TraceRun:
        """An exact run of a lower degree."""
        return _TraceRun(self.algebra.lower(degree), self.nested)


def _evaluate(run: _TraceRun, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for equation in jaxpr.eqns:
        results = _apply(run, equation, [read(variable) for variable in equation.invars])
        if run.rng is not None and equation.primitive.name not in _WITHOUT_ROUND_OFF:
            results = [run.rounded(value) for value in results]
        known.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _apply(run: _TraceRun, equation: Any, values: list[Any]) -> list[Any]:
    """The results of one equation of the trace."""
    name, params, algebra = equation.primitive.name, equation.params, run.algebra
    if name in _CALLS:
        return _call(run, params[_CALLS[name]], values)
    if name in _CONTROL:
        return _CONTROL[name](run, equation, values)
    kinds = [variable.aval.dtype for variable in (*equation.invars, *equation.outvars)]
    results = kinds[len(equation.invars) :]
    if not any(jnp.issubdtype(kind, jnp.inexact) for kind in results):
        values = [_value(value) for value in values]  # truths and integers do not change near the point
    varying = [isinstance(value, TaylorSeries) for value in values]
    points = [_value(value) for value in values]
    if any(jnp.issubdtype(kind, jnp.complexfloating) for kind in kinds):
        rule = COMPLEX.get(name)
    else:
        rule = RULES.get(name)
        if name in VALUES:
            return [VALUES[name](params, *points)]
    if name in OF_CONSTANTS and not any(varying):
        return OF_CONSTANTS[name](params, *points)
    operands = [_coefficients(value) for value in values]
    if rule is not None:
        found = rule(algebra, params, *operands)
        found = found if isinstance(found, list) else [found]
        return [TaylorSeries(a) if any(varying) else a[0] for a in found]
    if not any(varying):
        return [np.asarray(out) for out in bind(equation, points)]
    return [TaylorSeries(a) for a in nested(algebra, equation, operands, varying, run.nested)]


def _call(run: _TraceRun, closed: Any, values: Sequence[Any]) -> list[Any]:
    return _evaluate(run, closed.jaxpr, [run.rounded(value) for value in closed.consts], values)


def _cond(run: _TraceRun, equation: Any, values: list[Any]) -> list[Any]:
    """The branch taken at the point."""
    return _call(run, equation.params["branches"][int(_value(values[0]))], values[1:])


def _scan(run: _TraceRun, equation: Any, values: list[Any]) -> list[Any]:
    params, (consts, carried) = equation.params, scan_counts(equation)
    fixed, carry, lists = values[:consts], values[consts : consts + carried], values[consts + carried :]
    steps = range(params["length"])
    rows: list[list[Any]] = []
    for step in reversed(steps) if params["reverse"] else steps:
        items = [
            TaylorSeries(item.coefficients[:, step]) if isinstance(item, TaylorSeries) else item[step]
            for item in lists
        ]
        out = _call(run, params["jaxpr"], [*fixed, *carry, *items])
        carry = out[:carried]
        rows.append(out[carried:])
    rows = rows[::-1] if params["reverse"] else rows
    return [*carry, *(_stacked(run.algebra, column) for column in zip(*rows, strict=True))]


def _stacked(algebra: TaylorAlgebra, column: Sequence[Any]) -> Any:
    if not any(isinstance(item, TaylorSeries) for item in column):
        return np.stack(column)
    return TaylorSeries(np.stack([algebra.full(_coefficients(item)) for item in column], axis=1))


def _while(run: _TraceRun, equation: Any, values: list[Any]) -> list[Any]:
    """The steps taken at the point, as JAX's forward mode does."""
    params = equation.params
    tests, steps = params["cond_nconsts"], params["body_nconsts"]
    known, fixed, carry = values[:tests], values[tests : tests + steps], values[tests + steps :]
    while _value(_call(run, params["cond_jaxpr"], [*known, *carry])[0]):
        carry = _call(run, params["body_jaxpr"], [*fixed, *carry])
    return carry


def _linear_solve(run: _TraceRun, equation: Any, values: list[Any]) -> list[Any]:
    """x of a linear equation M x = b, degree by degree: x_d = M_0^-1 (b - M x)_d; M_0 is formed."""
    params, algebra = equation.params, run.algebra
    lengths, jaxprs = params["const_lengths"], params["jaxprs"]
    count = len(jaxprs.matvec.out_avals)
    operator, right = values[: lengths.matvec], values[len(values) - count :]
    shapes = [_value(value).shape for value in right]
    matrix = _matrix(jaxprs.matvec, [_value(value) for value in operator], shapes, run.nested)
    moving = any(isinstance(value, TaylorSeries) for value in operator)
    if not moving:
        b = _flat([_coefficients(value) for value in right], algebra)
        return [TaylorSeries(x) for x in _unflat(_solved(matrix, b), shapes)]
    x = np.zeros((1, len(matrix)), matrix.dtype)
    for degree in range(algebra.order + 1):
        low, new = algebra.lower(degree), algebra.first(degree)
        rest = _flat([low.cut(_coefficients(value)) for value in right], low)
        if degree:
            x = low.full(x)
            lowered = [_cut(low, value) for value in operator]
            product = _call(
                run.lower(degree),
                jaxprs.matvec,
                [*lowered, *(TaylorSeries(part) for part in _unflat(x, shapes))],
            )
            rest = rest - _flat([_coefficients(value) for value in product], low)
        x[new:] = _solved(matrix, rest[new:])
    return [TaylorSeries(part) for part in _unflat(x, shapes)]


def _matrix(
    matvec: Any, operator: list[Any], shapes: list[tuple[int, ...]], compiled: dict[Any, Any]
) -> Array:
    """The matrix of a linear function of arrays, (s, s): its values on all unit vectors at once."""
    size = sum(int(np.prod(shape, dtype=int)) for shape in shapes)
    algebra = taylor_algebra(size - 1, 1)  # as many coefficients as unit vectors; constants multiply each
    units = [TaylorSeries(part) for part in _unflat(np.eye(size), shapes)]
    images = _call(_TraceRun(algebra, compiled), matvec, [*operator, *units])
    return _flat([_coefficients(value) for value in images], algebra).T


def _solved(matrix: Array, rows: Array) -> Array:
    """matrix^-1 applied to every row; NaN if the matrix is singular."""
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
    return TaylorSeries(low.cut(value.coefficients)) if isinstance(value, TaylorSeries) else value


_CONTROL: dict[str, Callable[..., list[Any]]] = {
    "cond": _cond,
    "scan": _scan,
    "while": _while,
    "custom_linear_solve": _linear_solve,
}
