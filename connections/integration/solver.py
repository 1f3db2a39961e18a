"""The options of every motion, in SciPy's words, and the numbers that the loops over steps read.

`Options` are the keywords that all public functions with a motion take; their table is in docs/motions.md.
`Solver.of` checks them. `Settings` are the numbers among them; JAX traces these, so that another tolerance
compiles nothing.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from connections.checks import (
    ShapeError,
    as_array,
    is_traced,
    require_choice,
    require_finite,
    require_function,
)
from connections.integration.tolerances import ATOL, DRIFT, MAX_STEPS, RTOL

EVENT = "(t, q, v) -> a number"
METHODS = ("DOP853", "Radau")


class StepOptions(TypedDict, total=False):
    """Keywords of both methods; those of `scipy.integrate.solve_ivp` have its meaning, except for `atol`.

    Parameters
    ----------
    rtol, atol : a step's error in component i stays below atol reach_i + rtol |y_i|, with reach_i the largest
        size of the component so far; so `atol` has no unit.
    first_step : length of the first step; by default a tenth of the interval.
    max_step : bound on the length of a step. By default there is none if the equation has only functions of
        the state, and 1/32 of the interval if it has a function of time.
    max_steps : steps, accepted or not, after which a motion ends.
    breakpoints : times at which a function of time jumps or begins; steps end there.
    events : functions (t, q, v) -> number, or one, with SciPy's attributes ``terminal`` and ``direction``.
    allow_partial : a motion that fails is NaN from there on, instead of an error.
    estimate : solve once more with a hundredth of the tolerances, and return the difference too.
    """

    rtol: float
    atol: float
    first_step: float
    max_step: float | None
    max_steps: int
    breakpoints: Any
    events: Any
    allow_partial: bool
    estimate: bool


class Options(StepOptions, total=False):
    """Keywords of geodesics, transports and simulations.

    Parameters
    ----------
    method : "DOP853", explicit and of order 8, or "Radau", implicit and of order 5, for what is stiff.
    """

    method: str


class Settings(NamedTuple):
    """The numbers of step control.

    Parameters
    ----------
    rtol, atol : tolerances of a step (`integration/tolerances.py`).
    first_step : length of the first step; infinite for the default.
    max_step, share : bounds on a step: its length, and its share of the whole time; infinite for no bound.
    max_steps : steps, accepted or not, after which a motion ends.
    gap : an interval between two times that is no longer than this has a breakpoint inside, at which the rate
        may jump.
    """

    rtol: Any = RTOL
    atol: Any = ATOL
    first_step: Any = np.inf
    max_step: Any = np.inf
    share: Any = np.inf
    max_steps: Any = float(MAX_STEPS)
    gap: Any = 0.0

    @property
    def drift(self) -> Any:
        """The tolerance of the relative change of a conserved quantity along a motion."""
        more: Any = self.max_steps / MAX_STEPS
        return DRIFT * (self.rtol + self.atol) * (more * (more > 1.0) + (more <= 1.0))

    def lengths(self, whole: Any, first: float, numpy: Any = np) -> tuple[Any, Any]:
        """The length of the first step of a motion, and the largest length of any step.

        Parameters
        ----------
        whole : the whole time.
        first : share of the whole time that a first step takes by default.
        numpy : NumPy, or a module with the same functions.
        """
        longest = numpy.minimum(whole, numpy.minimum(self.max_step, self.share * whole))
        begin = numpy.where(numpy.isfinite(self.first_step), self.first_step, first * whole)
        return numpy.minimum(begin, longest), longest

    def no_longer_than(self, step: Any) -> Settings:
        """Settings with no step longer than `step`; None for no further bound."""
        if step is None:
            return self
        by: Any = np.minimum if isinstance(step, float) else _jax_minimum
        return self._replace(max_step=by(self.max_step, step))


class EventRequest(NamedTuple):
    """A function whose zeros along a motion are reported, and may end it.

    Parameters
    ----------
    function : (t, q, v) -> number.
    most : number of zeros at which the motion ends; infinite if the event does not end it.
    direction : positive if only zeros reached from below count, negative if only those from above, 0 if all.
    """

    function: Callable[..., Any]
    most: float
    direction: float

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> EventRequest:
        """The event of a function with SciPy's attributes ``terminal`` and ``direction``, both optional.

        Raises
        ------
        TypeError, ValueError : an attribute that is no number, or cannot be used; named after `name`.
        """
        terminal, direction = getattr(function, "terminal", None), getattr(function, "direction", None)
        direction = as_array(f"{name}.direction", 0.0 if direction is None else direction, ())
        if direction.ndim or not np.isfinite(direction):
            raise ValueError(
                f"{name}.direction: expected a positive or negative number or 0, got {direction}"
            )
        if terminal is None or isinstance(terminal, bool | np.bool_):
            return cls(function, 1.0 if terminal else math.inf, float(direction))
        count = as_array(f"{name}.terminal", terminal, ())
        if count.ndim or not (count >= 0.0 and count == np.floor(count) and np.isfinite(count)):
            raise ValueError(f"{name}.terminal: expected True, False or a positive integer, got {terminal!r}")
        return cls(function, float(count) or math.inf, float(direction))


@dataclass(frozen=True)
class Solver:
    """The options of a motion, checked.

    Parameters
    ----------
    settings : the numbers.
    breakpoints : (b,) times at which steps end.
    events : the events; None if the keyword was not given.
    allow_partial : whether a motion that fails is NaN from there on.
    estimate : whether the difference to a more accurate solution is wanted.
    stiff : whether the method is Radau's.
    """

    settings: Settings = field(default_factory=Settings)
    breakpoints: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    events: tuple[EventRequest, ...] | None = None
    allow_partial: bool = False
    estimate: bool = False
    stiff: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        options: Mapping[str, Any],
        tolerance: float = RTOL,
        without: Iterable[str] = ("estimate",),
    ) -> Solver:
        """The solver with the options of a call.

        Parameters
        ----------
        name : the function that is called, for errors.
        options : its keywords.
        tolerance : `rtol` and `atol` by default.
        without : options that the function does not take.

        Raises
        ------
        TypeError : an unknown option, or one that the function does not take; an event is no function, or has
            an attribute that is no number.
        ValueError : a tolerance, step or number of steps that is not positive, an event's ``terminal``, or
            there is no such method.
        ShapeError, NonFiniteError : breakpoints are not one row of finite numbers.
        """
        known = [option for option in Options.__annotations__ if option not in set(without)]
        for option in options:
            if option not in known:
                near = difflib.get_close_matches(option, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"its options are {', '.join(known)}"
                raise TypeError(f"{name}: there is no option {option!r}; {hint}")
        settings = Settings(
            rtol=_positive("rtol", options.get("rtol"), tolerance),
            atol=_positive("atol", options.get("atol"), tolerance, zero=True),
            first_step=_positive("first_step", options.get("first_step"), np.inf),
            max_step=_longest(options.get("max_step")),
            max_steps=_count("max_steps", options.get("max_steps")),
        )
        partial, estimate = _flag("allow_partial", options), _flag("estimate", options)
        events, method = _events(options.get("events")), options.get("method", METHODS[0])
        require_choice("method", method, METHODS)
        times = _times(options.get("breakpoints"))
        return cls(settings, times, events, partial, estimate, method == METHODS[1])

    def closer(self) -> Solver:
        """The solver with a hundredth of the tolerances and without events, for an estimate of the error."""
        rtol, atol = self.settings.rtol / 100.0, self.settings.atol / 100.0
        return replace(
            self, settings=self.settings._replace(rtol=rtol, atol=atol), events=None, estimate=False
        )

    def require_within(self, times: NDArray[np.float64]) -> None:
        """Raise `ValueError` for a step or a breakpoint that does not fit between the first and last time."""
        ends = sorted((float(times[0]), float(times[-1])))
        first = self.settings.first_step
        if np.isfinite(first) and len(times) > 1 and first > ends[1] - ends[0]:
            length = f"{ends[1] - ends[0]:.12g}"
            raise ValueError(f"first_step: {first:.12g} is longer than the interval, {length}")
        if is_traced(self.breakpoints):  # those of a curve, inside `jit`
            return
        outside = self.breakpoints[(self.breakpoints < ends[0]) | (self.breakpoints > ends[1])]
        if len(outside):
            raise ValueError(f"breakpoints: {outside[0]:.12g} is outside of [{ends[0]:.12g}, {ends[1]:.12g}]")


def _jax_minimum(a: Any, b: Any) -> Any:
    import jax.numpy as jnp

    return jnp.minimum(a, b)


def _positive(name: str, value: Any, default: float, zero: bool = False) -> float:
    if value is None:
        return default
    array = as_array(name, value, ())
    require_finite(name, array)
    if array.ndim or not (array > 0.0 or (zero and array == 0.0)):
        expected = "a number that is not negative" if zero else "a positive number"
        raise ValueError(f"{name}: expected {expected}, got {value}")
    return float(array)


def _longest(step: Any) -> float:
    """The longest step; infinite for no bound, as SciPy's is by default."""
    return np.inf if isinstance(step, float) and step == np.inf else _positive("max_step", step, np.inf)


def _count(name: str, value: Any) -> float:
    number = _positive(name, value, float(MAX_STEPS))
    if number != int(number):
        raise ValueError(f"{name}: expected a positive integer, got {value}")
    return number


def _flag(name: str, options: Mapping[str, Any]) -> bool:
    value = options.get(name, False)
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}: expected True or False, got {value!r}")
    return bool(value)


def _times(breakpoints: Any) -> NDArray[np.float64]:
    if breakpoints is None:
        return np.zeros(0)
    times = np.atleast_1d(as_array("breakpoints", breakpoints, ()))
    if times.ndim != 1:
        raise ShapeError("breakpoints", ("b",), times.shape)
    require_finite("breakpoints", times)
    return np.unique(times)


def _events(events: Any) -> tuple[EventRequest, ...] | None:
    if events is None:
        return None
    if isinstance(events, Iterable) and not isinstance(events, list | tuple) and not callable(events):
        kind = type(events).__name__
        raise TypeError(f"events: expected a function {EVENT}, or a list or tuple of them, got {kind}")
    functions = tuple(events) if isinstance(events, list | tuple) else (events,)
    for i, function in enumerate(functions):
        require_function(f"events[{i}]", function, EVENT)
    return tuple(EventRequest.of(f"events[{i}]", function) for i, function in enumerate(functions))
