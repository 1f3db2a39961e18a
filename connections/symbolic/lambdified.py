"""JAX functions of expressions: functions of q, a metric of such functions, values of parameters.

An array of expressions is translated to source code once, with common subexpressions shared. Parameters are
arguments of this code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sympy

from connections._words import words_of
from connections.checks import as_number
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.frames import FrameField, PointFunction
from connections.geometry.matrix_frame import MatrixFrame
from connections.geometry.metrics import ConstantMetric, MatrixMetric, Metric

Values = Mapping[sympy.Symbol, float]


@dataclass(frozen=True, eq=False)
class LambdifiedCode:
    """Source code of one system's arrays of expressions; each array is translated once.

    Parameters
    ----------
    coordinates : the nq coordinates, in the order of q.
    parameters : all other symbols.
    """

    coordinates: tuple[sympy.Symbol, ...]
    parameters: tuple[sympy.Symbol, ...]
    cache: dict[Any, Callable[..., jax.Array]] = field(default_factory=dict, init=False, repr=False)

    def function(self, array: np.ndarray, values: Values) -> PointFunction:
        """A JAX-traceable function q (nq,) -> floats of the shape of `array`.

        Parameters
        ----------
        array : expressions.
        values : of all parameters.

        Raises
        ------
        ValueError : a symbol is neither a coordinate nor a parameter.
        """
        strange = {symbol for entry in array.flat for symbol in entry.free_symbols}
        strange -= {*self.coordinates, *self.parameters}
        if strange:
            raise ValueError(f"{min(map(str, strange))} is neither a coordinate nor a parameter")
        fixed = tuple(np.float64(values[symbol]) for symbol in self.parameters)
        return _TranslatedArray(self, array, fixed).expressions

    def translated(self, array: np.ndarray) -> Callable[..., jax.Array]:
        """A JAX-traceable function (q, values of parameters) -> floats of the shape of `array`."""
        key = (array.shape, tuple(array.flat))
        if key not in self.cache:
            self.cache[key] = point_code(array, self.coordinates, self.parameters)
        return self.cache[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return LambdifiedCode, (self.coordinates, self.parameters)  # translated again


class _TranslatedArray:
    """An array of expressions, whose code is not pickled."""

    def __init__(self, code: LambdifiedCode, array: np.ndarray, fixed: tuple[np.float64, ...]) -> None:
        self._given, self._fixed, self._at = (code, array, fixed), fixed, code.translated(array)

    def expressions(self, q: jax.Array) -> jax.Array:
        """The values at q (nq,)."""
        return self._at(q, self._fixed)

    def __reduce__(self) -> tuple[Any, ...]:
        return _TranslatedArray, self._given


def numeric_metric(
    code: LambdifiedCode,
    values: Values,
    frame: np.ndarray,
    metric: np.ndarray,
    signature: tuple[int, int] | None = None,
) -> Metric:
    """The numeric metric; a `ConstantMetric` if its expressions are constant.

    Parameters
    ----------
    code : of the system.
    values : of all parameters.
    frame : X (nq, n), expressions; the identity stands for the coordinate fields.
    metric : H (n, n), expressions.
    signature : of an H that is not positive definite.
    """
    nq, n = frame.shape
    fields: FrameField = CoordinateFrame(n)
    if nq != n or (frame != np.eye(n, dtype=int)).any():
        fields = MatrixFrame(code.function(frame, values), n, nq)
    H = code.function(metric, values)
    if any(set(code.coordinates) & entry.free_symbols for entry in metric.flat):
        return MatrixMetric(fields, H, signature=signature)
    return ConstantMetric(fields, np.asarray(H(jnp.zeros(nq))), signature)


def point_code(
    array: np.ndarray, coordinates: Sequence[sympy.Symbol], parameters: Sequence[sympy.Symbol]
) -> Callable[[jax.Array, Sequence[float]], jax.Array]:
    """A JAX-traceable function (q, parameter values) -> array of floats, of the shape of `array`.

    Parameters
    ----------
    array : expressions of any shape.
    coordinates : the nq coordinates, in the order of q.
    parameters : all other symbols of the array, in the order of their values.
    """
    flat, shape = list(array.ravel()), array.shape
    moving = list(dict.fromkeys(entry for entry in flat if entry.free_symbols))
    arguments = [*coordinates, *parameters]
    code = sympy.lambdify(arguments, moving, modules="jax", cse=True) if moving else None
    constants = np.array([0.0 if entry.free_symbols else float(entry) for entry in flat])
    places = [moving.index(entry) if entry.free_symbols else None for entry in flat]

    def at(q: jax.Array, values: Sequence[float]) -> jax.Array:
        if code is None:
            return jnp.asarray(constants).reshape(shape)
        with np.errstate(all="ignore"):  # a zero parameter in a denominator gives infinity, not an exception
            found = [jnp.asarray(value, dtype=jnp.float64) for value in code(*q, *values)]
        entries = [constants[k] if place is None else found[place] for k, place in enumerate(places)]
        return jnp.stack(entries).reshape(shape)

    return at


def parameter_values(
    defaults: Mapping[sympy.Symbol, float | None], given: Mapping[Any, float] | None
) -> dict[sympy.Symbol, float]:
    """A value for every parameter: the given ones, otherwise the defaults.

    Parameters
    ----------
    defaults : {symbol: value, or None}.
    given : {symbol or its name: value}.

    Raises
    ------
    ValueError : a name that is no parameter, or a parameter without a value.
    NonFiniteError : a value is NaN or infinite.
    """
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"parameters: expected {{symbol or name: value}}, got {words_of(given)}")
    by_name = {symbol.name: symbol for symbol in defaults}
    values = dict(defaults)
    for key, value in (given or {}).items():
        name = key.name if isinstance(key, sympy.Symbol) else key
        if name not in by_name:
            raise ValueError(
                f"parameters: {name!r} is not a parameter: they are {', '.join(by_name) or 'none'}"
            )
        values[by_name[name]] = value
    missing = [symbol.name for symbol, value in values.items() if value is None]
    if missing:
        raise ValueError(f"parameters: no value for {', '.join(missing)}")
    return {symbol: as_number(f"parameters[{symbol.name}]", value) for symbol, value in values.items()}
