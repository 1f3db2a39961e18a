"""JAX primitives on Taylor polynomials: what `expansion` applies to each equation of a traced function.

A rule takes the algebra, the equation's parameters and its operands as coefficients ``(K, *shape)`` or, for a
constant, ``(1, *shape)``, and returns such an array, or a list of them. Linear and structural primitives act
on every coefficient, products multiply polynomials, elementary functions compose, and linear equations are
solved degree by degree. A primitive without a rule is differentiated by JAX itself: see `nested`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from connections.control.controllability.taylor import TaylorAlgebra, aligned
from connections.control.controllability.taylor_functions import ELEMENTARY
from connections.control.controllability.taylor_indexing import INDEXING, padded

Array = np.ndarray[Any, Any]
Rule = Callable[..., Any]

# --- linear and structural --------------------------------------------------------------------------------


def _axes(axes: Any) -> tuple[int, ...]:
    return tuple(int(axis) + 1 for axis in axes)


def _broadcast(algebra: TaylorAlgebra, params: dict[str, Any], a: Array, *_: Array) -> Array:
    shape, places = params["shape"], params["broadcast_dimensions"]
    wide = [1] * len(shape)
    for axis, place in enumerate(places):
        wide[place] = a.shape[axis + 1]
    return np.broadcast_to(a.reshape(len(a), *wide), (len(a), *shape))


def _slice(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
    strides = params["strides"] or (1,) * (a.ndim - 1)
    limits = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return a[(slice(None), *(slice(*each) for each in limits))]


def _split(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> list[Array]:
    return np.split(a, np.cumsum(params["sizes"])[:-1], axis=params["axis"] + 1)


def _unstack(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> list[Array]:
    return list(np.moveaxis(a, params["axis"] + 1, 0))


def _concatenate(algebra: TaylorAlgebra, params: dict[str, Any], *parts: Array) -> Array:
    return np.concatenate(padded(algebra, parts), axis=params["dimension"] + 1)


def _stack(algebra: TaylorAlgebra, params: dict[str, Any], *parts: Array) -> Array:
    return np.stack(padded(algebra, parts), axis=params["axis"] + 1)


def _convert(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
    return a.astype(params["new_dtype"])


def _subtract(algebra: TaylorAlgebra, params: dict[str, Any], a: Array, b: Array) -> Array:
    return algebra.add(a, -b)


def _select(algebra: TaylorAlgebra, params: dict[str, Any], which: Array, *cases: Array) -> Array:
    """`which` is a constant; only the chosen case is read, so the others may be infinite."""
    out, *others = padded(algebra, cases)
    for number, case in enumerate(others, start=1):
        mask = which[0].astype(int) == number
        out = np.where(mask.reshape(1, *mask.shape) if mask.ndim else mask, case, out)
    return out


# --- products and functions ---------------------------------------------------------------------------------


def _multiply(algebra: TaylorAlgebra, params: dict[str, Any], a: Array, b: Array) -> Array:
    return algebra.multiply(*aligned(a, b))


def _divide(algebra: TaylorAlgebra, params: dict[str, Any], a: Array, b: Array) -> Array:
    a, b = aligned(a, b)
    if len(b) == 1:
        return np.asarray(a / b)
    return algebra.multiply(a, _elementary("reciprocal")(algebra, params, b))


def _elementary(name: str) -> Callable[..., Array]:
    coefficients = ELEMENTARY[name]

    def rule(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
        if len(a) == 1:
            return coefficients(a[0], 0)
        return algebra.compose(coefficients(a[0], algebra.order), a)

    return rule


def _whole_power(algebra: TaylorAlgebra, a: Array, power: int) -> Array:
    if power < 0:
        return _elementary("reciprocal")(algebra, {}, _whole_power(algebra, a, -power))
    if power == 0:
        return np.ones((1, *a.shape[1:]), a.dtype)
    half = _whole_power(algebra, a, power // 2)
    square = algebra.multiply(half, half)
    return algebra.multiply(square, a) if power % 2 else square


def _integer_power(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
    return _whole_power(algebra, a, params["y"])


def _power(algebra: TaylorAlgebra, params: dict[str, Any], a: Array, b: Array) -> Array:
    b = b if np.iscomplexobj(b) else np.asarray(b, dtype=float)
    a, b = aligned(a, b)
    if len(b) == 1 and not np.iscomplexobj(b) and np.all(b == b.flat[0]) and b.flat[0] == int(b.flat[0]):
        a = np.broadcast_to(a, (len(a), *np.broadcast_shapes(a.shape[1:], b.shape[1:])))
        return _whole_power(algebra, a, int(b.flat[0]))
    logarithm = _elementary("log")(algebra, params, a)
    return _elementary("exp")(algebra, params, algebra.multiply(logarithm, b))


def _angle(algebra: TaylorAlgebra, params: dict[str, Any], y: Array, x: Array) -> Array:
    """atan2: the angle at the point plus the arc tangent of what turns from it."""
    x, y = aligned(x, y)
    across = algebra.add(y * x[:1], -(x * y[:1]))
    along = algebra.add(x * x[:1], y * y[:1])
    turn = _elementary("atan")(algebra, params, _divide(algebra, params, across, along))
    return algebra.add(turn, np.arctan2(y[:1], x[:1]))


def _absolute(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
    return np.where(a[:1] < 0, -a, a)


def _extreme(larger: bool) -> Rule:
    def rule(algebra: TaylorAlgebra, params: dict[str, Any], a: Array, b: Array) -> Array:
        a, b = aligned(a, b)
        first = a[:1] >= b[:1] if larger else a[:1] <= b[:1]
        one, other = padded(algebra, (a, b))
        return np.where(first, one, other)

    return rule


def _reduced_extreme(choose: Callable[..., Array]) -> Rule:
    """The largest or smallest entry along axes: the entry that is so at the point."""

    def rule(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
        axes = _axes(params["axes"])
        kept = [axis for axis in range(a.ndim) if axis not in axes]
        rows = np.transpose(a, (*kept, *axes)).reshape(*(a.shape[axis] for axis in kept), -1)
        places = np.asarray(choose(rows[:1], axis=-1, keepdims=True))
        return np.take_along_axis(rows, places, axis=-1)[..., 0]

    return rule


def _dot_general(algebra: TaylorAlgebra, params: dict[str, Any], a: Array, b: Array) -> Array:
    (sum_a, sum_b), (batch_a, batch_b) = params["dimension_numbers"]
    free_a = [i for i in range(a.ndim - 1) if i not in (*sum_a, *batch_a)]
    free_b = [i for i in range(b.ndim - 1) if i not in (*sum_b, *batch_b)]
    left = np.transpose(a, (0, *_axes(batch_a), *_axes(free_a), *_axes(sum_a)))
    right = np.transpose(b, (0, *_axes(batch_b), *_axes(sum_b), *_axes(free_b)))
    batch = [a.shape[i + 1] for i in batch_a]
    rows, columns = [a.shape[i + 1] for i in free_a], [b.shape[i + 1] for i in free_b]
    inner = int(np.prod([a.shape[i + 1] for i in sum_a], dtype=int))
    left = left.reshape(len(a), *batch, int(np.prod(rows, dtype=int)), inner)
    right = right.reshape(len(b), *batch, inner, int(np.prod(columns, dtype=int)))
    out = algebra.multiply(left, right, np.matmul)
    return out.reshape(len(out), *batch, *rows, *columns)


# --- linear equations ---------------------------------------------------------------------------------------


def _triangular_solve(algebra: TaylorAlgebra, params: dict[str, Any], a: Array, b: Array) -> Array:
    T = np.tril(a) if params["lower"] else np.triu(a)
    if params["unit_diagonal"]:
        places = np.arange(T.shape[-1])
        T[..., places, places] = 0.0
        T[0][..., places, places] = 1.0
    T = np.swapaxes(T, -1, -2) if params["transpose_a"] else T
    if params["left_side"]:
        return algebra.solve(T, b)
    return np.swapaxes(algebra.solve(np.swapaxes(T, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def _cholesky(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
    """L of L L^T = A, degree by degree: L_d = L_0 Phi(L_0^-1 (A - L L^T)_d L_0^-T), Phi the lower half."""
    try:
        L = np.linalg.cholesky(a[:1])
    except np.linalg.LinAlgError:
        return np.full_like(a, np.nan)
    if len(a) == 1:
        return L
    inverse = np.linalg.inv(L[0])
    transposed = np.swapaxes(inverse, -1, -2)
    half = np.tril(np.ones(a.shape[-2:])) - 0.5 * np.eye(a.shape[-1])
    for degree in range(1, algebra.order + 1):
        low, new = algebra.lower(degree), algebra.first(degree)
        L = low.full(L)
        residual = (low.cut(a) - low.multiply(L, np.swapaxes(L, -1, -2), np.matmul))[new:]
        L[new:] = L[0] @ (half * (inverse @ residual @ transposed))
    return L


RULES: dict[str, Rule] = {
    "neg": lambda algebra, params, a: -a,
    "add": lambda algebra, params, a, b: algebra.add(a, b),
    "add_any": lambda algebra, params, a, b: algebra.add(a, b),
    "sub": _subtract,
    "mul": _multiply,
    "div": _divide,
    "square": lambda algebra, params, a: algebra.multiply(a, a),
    "integer_pow": _integer_power,
    "pow": _power,
    "atan2": _angle,
    "abs": _absolute,
    "max": _extreme(True),
    "min": _extreme(False),
    "reduce_max": _reduced_extreme(np.argmax),
    "reduce_min": _reduced_extreme(np.argmin),
    "dot_general": _dot_general,
    "reduce_sum": lambda algebra, params, a: np.sum(a, axis=_axes(params["axes"])),
    "reshape": lambda algebra, params, a, *_: a.reshape(len(a), *params["new_sizes"]),
    "transpose": lambda algebra, params, a: np.transpose(a, (0, *_axes(params["permutation"]))),
    "squeeze": lambda algebra, params, a: np.squeeze(a, axis=_axes(params["dimensions"])),
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "concatenate": _concatenate,
    "stack": _stack,
    "split": _split,
    "unstack": _unstack,
    "select_n": _select,
    "convert_element_type": _convert,
    "copy": lambda algebra, params, a: a,
    "copy_p": lambda algebra, params, a: a,
    "optimization_barrier": lambda algebra, params, *a: list(a),
    "triangular_solve": _triangular_solve,
    "cholesky": _cholesky,
    **INDEXING,
    **{name: _elementary(name) for name in ELEMENTARY if name != "reciprocal"},
}


# --- complex numbers: functions of a real point whose intermediate values are complex -----------------------


def _convert_complex(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
    kind = params["new_dtype"]
    return (a if np.issubdtype(kind, np.complexfloating) else a.real).astype(kind)


def _squared_length(algebra: TaylorAlgebra, a: Array) -> Array:
    """|a|^2, real."""
    parts: Array = algebra.add(algebra.multiply(a.real, a.real), algebra.multiply(a.imag, a.imag))
    return parts


def _length(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
    """|a|; NaN slopes at a zero, where it is not smooth, if `a` is not zero near the point, too."""
    square = _squared_length(algebra, a)
    return np.where(np.any(a != 0, axis=0), _elementary("sqrt")(algebra, params, square), 0.0)


def _direction(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
    """a / |a|."""
    return algebra.multiply(a, _elementary("rsqrt")(algebra, params, _squared_length(algebra, a)))


def _fourier(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
    """A discrete Fourier transform along the last axes, of every coefficient."""
    return np.asarray(jax.lax.fft_p.bind(jnp.asarray(a), **params))


#: Rules that hold for complex coefficients: linear, a product, or a function of a complex variable.
_HOLOMORPHIC = (
    "neg add add_any sub mul div square integer_pow pow dot_general reduce_sum cumsum "
    "reshape transpose squeeze broadcast_in_dim slice concatenate stack split unstack select_n copy copy_p "
    "optimization_barrier gather scatter scatter-add dynamic_slice dynamic_update_slice pad rev "
    "exp exp2 expm1 log log1p sqrt rsqrt sin cos tan sinh cosh tanh logistic"
)

COMPLEX: dict[str, Rule] = {
    **{name: RULES[name] for name in _HOLOMORPHIC.split()},
    "real": lambda algebra, params, a: a.real,
    "imag": lambda algebra, params, a: a.imag,
    "complex": lambda algebra, params, a, b: algebra.add(a, 1j * b),
    "conj": lambda algebra, params, a: np.conj(a),
    "abs": _length,
    "sign": _direction,
    "fft": _fourier,
    "convert_element_type": _convert_complex,
}
"""The rules for equations with a complex operand or result; others are differentiated by JAX, as `nested`."""


# --- values: what does not change near a point where it is smooth ------------------------------------------


def _iota(params: dict[str, Any]) -> Array:
    shape, axis = params["shape"], params["dimension"]
    along = np.arange(shape[axis], dtype=params["dtype"])
    return np.broadcast_to(along.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def _lu(params: dict[str, Any], a: Array) -> list[Array]:
    """Factors, pivots and permutation of a stack of matrices (..., n, n)."""
    n = a.shape[-1]
    factors, pivots, orders = [], [], []
    for matrix in a.reshape(-1, n, n):
        factor, swaps = scipy.linalg.lu_factor(matrix, check_finite=False)
        order = np.arange(n)
        for k, swap in enumerate(swaps):
            order[[k, swap]] = order[[swap, k]]
        factors.append(factor)
        pivots.append(swaps)
        orders.append(order)
    batch = a.shape[:-2]
    return [
        np.stack(factors).reshape(a.shape),
        np.stack(pivots).reshape(*batch, n).astype(np.int32),
        np.stack(orders).reshape(*batch, n).astype(np.int32),
    ]


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda params, *values: function(*values)


VALUES: dict[str, Callable[..., Any]] = {
    "stop_gradient": _plain(np.asarray),
    "iota": _iota,
    **{name: _plain(getattr(np, name)) for name in ("sign", "floor", "ceil")},
    "is_finite": _plain(np.isfinite),
    **{
        name: _plain(function)
        for name, function in {
            "eq": np.equal,
            "ne": np.not_equal,
            "lt": np.less,
            "le": np.less_equal,
            "gt": np.greater,
            "ge": np.greater_equal,
        }.items()
    },
    **{name: _plain(getattr(np, f"logical_{name}")) for name in ("and", "or", "not", "xor")},
}
"""Names of primitives of which only the value at the point counts -> the value."""

#: The same for operands that are constants.
OF_CONSTANTS = {"lu": _lu}


# --- by JAX's own derivatives -----------------------------------------------------------------------------


def bind(equation: Any, values: list[Any]) -> list[Array]:
    """The equation's primitive on arrays, by JAX."""
    results = equation.primitive.bind(*values, **equation.primitive.get_bind_params(equation.params))
    return list(results) if equation.primitive.multiple_results else [results]


def nested(
    algebra: TaylorAlgebra,
    equation: Any,
    operands: list[Array],
    varying: list[bool],
    compiled: dict[Any, Any],
) -> list[Array]:
    """A primitive without a rule: N derivatives along enough directions, nested, and interpolated.

    Along the direction d the operands are polynomials of one variable t, and the k-th derivative in t of the
    result is a form of degree k in d: the points of a lattice determine its coefficients. `compiled` holds
    these derivatives by equation and order; equations must live as long as it does.

    Source: [GUW].
    """
    order = algebra.order
    directions = algebra.exponents[algebra.first(order) :] / max(order, 1)
    powers = np.prod(directions[:, None, :] ** algebra.exponents, axis=-1)  # (M, K)
    whole = [algebra.full(a) if moves else a for a, moves in zip(operands, varying, strict=True)]
    degrees = np.arange(order + 1)[:, None] == algebra.degrees  # (N + 1, K)

    def along(row: jax.Array, given: list[jax.Array], t: jax.Array) -> list[jax.Array]:
        values = [
            _polynomial(jnp.tensordot(row * degrees, a, axes=1), t) if moves else a[0]
            for a, moves in zip(given, varying, strict=True)
        ]
        return [_inexact(out) for out in bind(equation, values)]

    def derivatives(row: jax.Array, given: list[jax.Array]) -> list[list[jax.Array]]:
        function: Callable[[Any], Any] = lambda t: along(row, given, t)  # noqa: E731
        found = []
        for degree in range(order + 1):
            found.append([value / factorial(degree) for value in function(0.0)])
            function = _slope(function)
        return found

    key = id(equation), algebra.variables, order, tuple(varying)
    if key not in compiled:
        compiled[key] = jax.jit(jax.vmap(derivatives, (0, None)))
    rates = compiled[key](jnp.asarray(powers), [jnp.asarray(a) for a in whole])
    results = []
    for number in range(len(rates[0])):
        parts = []
        for degree in range(order + 1):
            here = algebra.degrees == degree
            flat = np.asarray(rates[degree][number]).reshape(len(directions), -1)
            fitted = np.linalg.lstsq(powers[:, here], flat, rcond=None)[0]
            parts.append(fitted.reshape(-1, *rates[degree][number].shape[1:]))
        results.append(np.concatenate(parts))
    return results


def _inexact(value: Any) -> jax.Array:
    """Real or complex numbers; integers become real, and do not change near the point."""
    array = jnp.asarray(value)
    return array if jnp.issubdtype(array.dtype, jnp.inexact) else array.astype(float)


def _polynomial(coefficients: jax.Array, t: jax.Array) -> jax.Array:
    value = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        value = value * t + coefficient
    return value


def _slope(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda t: jax.jvp(function, (t,), (1.0,))[1]
