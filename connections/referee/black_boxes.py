"""Functions of strangers: called with copies, their results copied, each mistake named with its sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from connections._shown import Shown
from connections._words import words_of
from connections.checks import NonFiniteError, ShapeError, as_array, text_of_point

Array = NDArray[np.float64]


class BlackBoxError(Shown, RuntimeError):
    """A function that is judged raised an error; the message says which, at which sample, and its words.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import referee
    >>> def H(q):
    ...     raise ZeroDivisionError("no inertia")
    >>> referee.audit_functions(H, frame=referee.fixed(), q=[0.3], v=[0.5])
    Traceback (most recent call last):
        ...
    connections.referee.black_boxes.BlackBoxError: mass_matrix raised ZeroDivisionError...
    """


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called with JAX's float64 off, as by a program that has not switched it on."""

    def called(*arguments: Any) -> Any:
        with jax.enable_x64(False):
            return function(*arguments)

    return called


class BlackBoxes:
    """The functions given, for one sample: `mass_matrix`, `coriolis` and the like as arrays of float64.

    Parameters
    ----------
    functions : name -> function; missing ones are None.
    dim : n.
    sample, q : which sample errors name.
    """

    def __init__(self, functions: Mapping[str, Any], dim: int, sample: int, q: Array) -> None:
        self.functions, self.dim, self.sample, self.q = functions, dim, sample, q
        self.single = True  # whether all results so far were float32 or narrower
        self.nearby_calls = self.nearby_failures = 0  # at steps of differences
        self.nearby_error = ""  # the last one

    def has(self, name: str) -> bool:
        """Whether a function was given."""
        return self.functions.get(name) is not None

    def raw_mass_matrix(self, q: Array) -> Array:
        """H(q) as given, (n, n)."""
        return self.call("mass_matrix", (self.dim, self.dim), q)

    def mass_matrix(self, q: Array) -> Array:
        """The symmetric part of H(q)."""
        H = self.raw_mass_matrix(q)
        return 0.5 * (H + H.T)

    def mass_matrix_nearby(self, q: Array) -> Array:
        """H(q), (n, n), at a point of a finite difference, which may be outside the domain; then NaN."""
        self.nearby_calls += 1
        try:
            value: Array = np.array(as_array("mass_matrix", self.functions["mass_matrix"](q.copy()), ()))
        except Exception as error:
            self.nearby_failures += 1
            self.nearby_error = _words_of(error)
            return np.full((self.dim, self.dim), np.nan)
        if value.shape != (self.dim, self.dim):
            raise ShapeError(f"mass_matrix near sample {self.sample}", (self.dim, self.dim), value.shape)
        return 0.5 * (value + value.T)

    def coriolis(self, q: Array, v: Array) -> Array:
        """C(q, v), (n, n); zero if it was not given."""
        if not self.has("coriolis"):
            return np.zeros((self.dim, self.dim))
        return self.call("coriolis", (self.dim, self.dim), q, v)

    def bias(self, q: Array, v: Array) -> Array:
        """bias(q, v), (n,)."""
        return self.call("bias", (self.dim,), q, v)

    def gravity(self, q: Array) -> Array:
        """gravity(q), (n,)."""
        return self.call("gravity", (self.dim,), q)

    def current(self, q: Array, v: Array, u: Array) -> Array:
        """current(q, v, u), (n,)."""
        return self.call("current", (self.dim,), q, v, u)

    def derivatives(self, q: Array, v: Array, known: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
        """The derivatives given, by name."""
        found = self._called("derivatives", q, v)
        if not isinstance(found, Mapping):
            raise TypeError(f"derivatives at sample {self.sample}: expected a dict, got {words_of(found)}")
        for name in found:
            if name not in known:
                raise ValueError(f"derivatives: there is no {name!r}; known are {', '.join(known)}")
        return {
            name: self._array(f"derivatives[{name!r}]", value, known[name], q)
            for name, value in found.items()
            if value is not None
        }

    def call(self, name: str, shape: tuple[int, ...], *arguments: Array) -> Array:
        """The result of a function, finite and of a shape."""
        return self._array(name, self._called(name, *arguments), shape, arguments[0])

    def _called(self, name: str, *arguments: Array) -> Any:
        function: Callable[..., Any] = self.functions[name]
        try:
            return function(*(argument.copy() for argument in arguments))
        except Exception as error:
            where = self._where(arguments[0])
            raise BlackBoxError(f"{name} raised {_words_of(error)}; {where}") from error

    def _array(self, name: str, value: Any, shape: tuple[int, ...], q: Array) -> Array:
        try:
            raw, array = np.asarray(value), np.array(as_array(name, value, ()))
        except (TypeError, ValueError) as error:
            real = str(error) if str(error).startswith(name) else f"{name}: expected an array of real numbers"
            raise TypeError(f"{real}; {self._where(q)}") from error
        if array.shape != shape:
            raise ShapeError(f"{name} at {self._where(q)}", shape, array.shape)
        if not np.isfinite(array).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            at = ", ".join(map(str, place))
            raise NonFiniteError(f"{name}: entry [{at}] is {array[place]}; {self._where(q)}")
        self.single = self.single and raw.dtype.kind == "f" and raw.dtype.itemsize <= 4
        return array

    def _where(self, q: Array) -> str:
        return f"sample {self.sample}, q = {text_of_point(q)}"


def _words_of(error: Exception) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}{': ' + text if text else ''}"
