"""From expressions to the numeric classes: JAX functions of q, and the systems built of them.

An array of expressions is turned into source code once, with common subexpressions shared; parameters are
arguments of that code, so that new values cost nothing but a compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import sympy

from connections.affine.constrained import ConstrainedConnection
from connections.affine.distributions import Distribution, SpannedDistribution
from connections.checks import NonFiniteError
from connections.coriolis.nonholonomic import NonholonomicSystem
from connections.coriolis.system import MechanicalSystem
from connections.geometry.frames import CoordinateFrame, FrameField, PointFunction
from connections.geometry.matrix_frame import MatrixFrame
from connections.geometry.metrics import ConstantMetric, MatrixMetric, Metric
from connections.symbolic.elimination import REMEDY, EliminatedDistribution
from connections.symbolic.expressions import tidy

if TYPE_CHECKING:
    from connections.symbolic.system import SymbolicSystem

Values = Mapping[sympy.Symbol, float]


@dataclass(frozen=True, eq=False)
class Code:
    """Source code of one system's arrays of expressions; each array is translated once.

    Parameters
    ----------
    coordinates : the nq coordinates, in the order of q.
    parameters : all other symbols.
    """

    coordinates: tuple[sympy.Symbol, ...]
    parameters: tuple[sympy.Symbol, ...]
    known: dict[Any, Callable[..., jax.Array]] = field(default_factory=dict, init=False, repr=False)

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
        key = (array.shape, tuple(array.flat))
        if key not in self.known:
            self.known[key] = point_code(array, self.coordinates, self.parameters)
        code, fixed = self.known[key], tuple(np.float64(values[symbol]) for symbol in self.parameters)
        return lambda q: code(q, fixed)


def numeric_system(
    system: SymbolicSystem, code: Code, values: Values, basis: str
) -> NonholonomicSystem | MechanicalSystem:
    """The system in numbers, in the basis of its closed forms or in an orthonormal one.

    Parameters
    ----------
    system : with or without constraints.
    code : of the system.
    values : of all parameters.
    basis : "symbolic" or "orthonormal".

    Raises
    ------
    ValueError : another basis, or "orthonormal" and there are no constraints.
    """
    if basis not in ("symbolic", "orthonormal"):
        raise ValueError(f"basis: expected symbolic or orthonormal, got {basis!r}")

    def function(array: np.ndarray | None) -> PointFunction | None:
        return None if array is None else code.function(array, values)

    potential = None if system.potential is None else np.array(system.potential, dtype=object)
    metric = _numeric_metric(system, code, values)
    if not system.constrained:
        if basis != "symbolic":
            raise ValueError(f"the system {system.name} has no constraints: its velocities are the frame's")
        return MechanicalSystem(metric, function(potential))
    A, W = code.function(system.distribution, values), function(system.forms)
    if basis == "orthonormal":
        nabla = (
            ConstrainedConnection(metric, A).orthonormalized()
            if W is None
            else ConstrainedConnection(metric, forms=W)
        )
    else:
        nabla = ConstrainedConnection(metric, _numeric_distribution(system, metric, A, W))
    return NonholonomicSystem(nabla, function(potential), inputs=function(system.inputs))


def _numeric_distribution(
    system: SymbolicSystem, metric: Metric, A: PointFunction, W: PointFunction | None
) -> Distribution:
    if system.basis is not None or W is None:
        return SpannedDistribution(metric, A, W, REMEDY)
    solved = system.solved
    divisor = tidy(sympy.Matrix(system.forms[:, solved]).det())
    return EliminatedDistribution(metric, A, W, solved, str(divisor))


def _numeric_metric(system: SymbolicSystem, code: Code, values: Values) -> Metric:
    nq, n = system.frame.shape
    frame: FrameField = CoordinateFrame(n)
    if nq != n or (system.frame != np.eye(n, dtype=int)).any():
        frame = MatrixFrame(code.function(system.frame, values), n, nq)
    H = code.function(system.metric, values)
    if any(set(system.coordinates) & entry.free_symbols for entry in system.metric.flat):
        return MatrixMetric(frame, H)
    return ConstantMetric(frame, np.asarray(H(jnp.zeros(nq))))


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
        with np.errstate(all="ignore"):  # a parameter that is zero in a denominator: infinite, no exception
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
    defaults : {symbol: value, or None where it has none}.
    given : {symbol or its name: value}.

    Raises
    ------
    ValueError : a name that is no parameter, or a parameter without a value.
    NonFiniteError : a value is NaN or infinite.
    """
    by_name = {symbol.name: symbol for symbol in defaults}
    values = dict(defaults)
    for key, value in (given or {}).items():
        name = key.name if isinstance(key, sympy.Symbol) else key
        if name not in by_name:
            raise ValueError(f"{name!r} is not a parameter: they are {', '.join(by_name) or 'none'}")
        values[by_name[name]] = value
    missing = [symbol.name for symbol, value in values.items() if value is None]
    if missing:
        raise ValueError(f"no value for the parameter{'s' * (len(missing) > 1)} {', '.join(missing)}")
    return {symbol: _number(symbol.name, value) for symbol, value in values.items()}


def _number(name: str, value: Any) -> float:
    number = float(value)
    if not np.isfinite(number):
        raise NonFiniteError(f"parameter {name} is {number}: every number must be finite")
    return number
