"""How long a step may be: SciPy's tolerances, in units that scale with the user's.

The error of component i of a step has to stay below

    atol reach_i + rtol min(reach_i, max(|y_i| before, |y_i| after)).

The second term is SciPy's. In the first, `atol` has no unit, because it multiplies the largest size that the
component has had so far, reach_i, seen in today's unit u_i of the component (for a velocity v^i, u_i is
1 / |X_i|, from the metric):

    reach_i = min(largest |y_i| so far, u_i max over the past of |y_i| / u_i).

The unit follows the chart: in the half plane 1 / |X_i| is the height y, so that a small y is as accurate as
a large one. The coordinates of a point are measured from the first point, y_i - y_i(0), so that charts may
begin far from zero, and their second size is u_i times the elapsed time times the largest |ydot_i| / u_i.
Both sides scale alike with the unit of each component and of time.

A component that is round-off of larger ones cannot be as accurate as they are. So an error of 1e-15 of |y_i|,
or of u_i times the largest |y_j| / u_j in its group, is always allowed (the group of a motion is q and v).

No step is shorter than 1e-13 of the whole time; a motion that would need a shorter one ends there. The
exception is a component at rest: it has not moved farther than this one step moves it, or it has moved only
by the round-off of terms that cancel, so that its rate at least doubles in this one step. If its rate jumps,
or begins to grow, no step over that instant has a small relative error. The shortest step is then taken with
its error, if this error is within the tolerance of what follows: it is at most the step's length h times the
change of the rate in it, |f1 - f0|, and at the rate f1 the component moves as far in the time h |f1 - f0| /
|f1|, which has to be less than 1e-10 of the whole time. So the jump is shifted in time by no more than this.
A force that is large for an instant only, such as a constant power at the speed 1e-15, leaves a much smaller
rate behind, and the motion ends there. The steps that follow are taken in the same way. Until the component
has moved, its error may also be its change in 1e-15 of the whole time, because no clock is more accurate.
Source: E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, II.4, II.10 (DOP853).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

RTOL = 5e-11  # with ATOL, 1e-10 of the largest value so far
ATOL = 5e-11
CHANGED = 100.0  # times `ROUND_OFF`, of what the terms of a rate change in a step without each other
ROUND_OFF = 1e-15  # at least the round-off of the larger components, because smaller ones contain it
MAX_STEPS = 100_000
FIRST_STEP = 0.1  # of the whole time; the error estimate makes it shorter where it has to
#: Of the whole time: the longest step where a function of time enters. The stages of a step are at most 0.27
#: of it apart, 0.8 % of the whole time, so that what acts for 2 % of it is met by two stages at least.
LONGEST = 1.0 / 32.0
SHORTEST = 1e-13  # of the whole time
#: Of the whole time: where a step of this length has a large error, terms of the rate may cancel to their
#: round-off. This is looked at again after so many steps.
SUSPECT, LOOK_AGAIN = 1e-6, 1024
CLOCK = 1e-15  # of the whole time
NO_LONGER = 1.0 - 1e-12  # a step this near to a requested time ends there
GROWTH, CUT, SAFETY = 10.0, 0.2, 0.9
EXPONENT, LEAST = -1.0 / 8.0, 1e-12  # steps change by this power of the error; smaller errors count as LEAST
_SHIFTED = (RTOL + ATOL) / SHORTEST  # the change of the rate in a step that is taken, over the rate after it
_DOUBLED = 0.5  # the rate before the shortest step over the rate after it; towards a blow-up the ratio is 0.9
# Floors of two divisors, against 0 / 0. XLA divides by the product of both, so that must not underflow
# either.
LEAST_TOLERANCE, LEAST_ERROR = 1e-270, 1e-30

#: Rows of the state that a motion carries from step to step, (STATE, k), in this order: y, dy/ds, |y| and the
#: largest |y| so far, both measured from the origin, the largest size in units so far, and what is conserved.
#: A step adds a row with its errors over their tolerances.
STATE = 6
#: Largest drift of what a motion conserves, over the tolerance of a step: 1e-6 by default. The errors of 1e5
#: steps may be that; for a larger `max_steps` it is more in proportion.
DRIFT = 1e4
ERRORS = 10.0  # tolerances of a step: so large a motion of components is not told from errors
LOOK = 64  # steps between two looks at what is conserved, besides requested times


class StateLayout(NamedTuple):
    """Kinds and groups of the components of a state.

    Parameters
    ----------
    points : (k,) which are coordinates of a point.
    groups : slices that together are all components. Within a group, such as a point and its velocity, the
        round-off of one component enters the others.
    """

    points: NDArray[np.bool_]
    groups: tuple[slice, ...]


class LayoutKey(NamedTuple):
    """A `StateLayout` that can be hashed, for functions that are compiled for it."""

    points: tuple[bool, ...]
    groups: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, layout: StateLayout) -> LayoutKey:
        """The key of a layout."""
        return cls(tuple(layout.points.tolist()), tuple((g.start, g.stop) for g in layout.groups))

    @property
    def layout(self) -> StateLayout:
        """The layout."""
        return StateLayout(np.array(self.points, dtype=bool), tuple(slice(*ends) for ends in self.groups))


class Tolerances(NamedTuple):
    """The tolerances of a step.

    Parameters
    ----------
    rtol, atol : relative, and of the largest size so far.
    """

    rtol: Any = RTOL
    atol: Any = ATOL


def with_error_ratios(
    found: Any,
    state: Any,
    scales: Any,
    layout: StateLayout,
    elapsed: Any,
    step: Any,
    clock_error: Any,
    tolerances: Any,
    numpy: Any = np,
) -> Any:
    """The state after a step, and its errors over their tolerances, (STATE + 1, ..., k).

    Errors are NaN where an estimate is. A step of length zero has no errors: its last row are the units of
    the components.

    Parameters
    ----------
    found : (6, ..., k) as of `steps.Attempt`; the error combines both estimates.
    state : (STATE, ..., k) before the step.
    scales : (2, ..., k) from where components are measured, and `expected_rates` in units, or zero.
    layout : of the components.
    elapsed, step : from the beginning to the end of the step, and how long it is, (..., 1) or numbers.
    clock_error : (..., 1) or a number, the time by which the clock may be wrong; zero but for a motion from
        rest.
    tolerances : (rtol, atol) of a step.
    numpy : NumPy, or a module with the same functions.
    """
    new, rates, fifth, third, units, conserved = found
    _, f, before, farthest, largest, _ = state
    (origin, expected), (rtol, atol) = scales, tolerances
    here = numpy.abs(new - origin)
    farthest = numpy.fmax(farthest, here)
    duration = numpy.where(layout.points, elapsed, 1.0)
    in_units = numpy.abs(numpy.where(layout.points, rates, new)) / units
    largest = numpy.fmax(largest, numpy.where(units > 0.0, in_units, 0.0))
    changed = expected * step * numpy.where(layout.points, step, 1.0) * units
    units = duration * units
    reach = numpy.fmin(farthest, largest * units)
    tolerance = atol * reach + rtol * numpy.fmin(reach, numpy.fmax(before, here))
    grown = _largest_of_groups(largest, layout.groups, numpy)
    noise = numpy.fmax(numpy.fmax(grown * units, changed), numpy.abs(new))
    tolerance = numpy.fmax(tolerance, ROUND_OFF * noise)
    tolerance = (
        numpy.fmax(tolerance, clock_error * numpy.fmin(numpy.abs(f), numpy.abs(rates))) + LEAST_TOLERANCE
    )
    # Divide by the tolerance before squaring: squares of errors may overflow or underflow in some units.
    fifth, third = fifth / tolerance, third / tolerance
    errors = step * fifth * (fifth / numpy.fmax(numpy.hypot(fifth, 0.1 * third), LEAST_ERROR))
    errors = numpy.where(step == 0.0, found[4], errors)
    return numpy.stack([new, rates, here, farthest, largest, conserved, errors])


def _largest_of_groups(sizes: Any, groups: tuple[slice, ...], numpy: Any) -> Any:
    """The largest size of each component's group, (..., k), or (..., 1) if there is one group."""
    if len(groups) == 1:
        return numpy.max(sizes, axis=-1, keepdims=True)
    parts = [sizes[..., group] for group in groups]
    same = [numpy.zeros_like(part) + numpy.max(part, axis=-1, keepdims=True, initial=0.0) for part in parts]
    return numpy.concatenate(same, axis=-1) if same else sizes


def uncertainties(state: Any, units: Any, points: Any, elapsed: float, tolerances: Any) -> Any:
    """Uncertainties (k,) of a state by errors of a step: `ERRORS` times the tolerances.

    Parameters
    ----------
    state, units : (STATE, k) and (k,), the state and the units of its components.
    points : (k,) which of them are coordinates of a point.
    elapsed : the time since the beginning.
    tolerances : (rtol, atol) of a step.
    """
    with np.errstate(invalid="ignore"):  # 0 inf, which does not count
        reach = np.fmin(state[3], state[4] * units * np.where(points, elapsed, 1.0))
    return ERRORS * sum(tolerances) * reach


def at_beginning(y0: Any, origin: Any, numpy: Any = np) -> Any:
    """The state (STATE, ..., k) before the first step, whose rate is not yet known."""
    nothing, here = numpy.zeros_like(y0), numpy.abs(y0 - origin)
    return numpy.stack([y0, nothing, here, here, nothing, nothing])


def expected_rates(terms: Any, units: Any, layout: StateLayout, numpy: Any = np) -> Any:
    """`CHANGED` times the rates in units that the terms of a state at rest have without each other, (k,).

    A motion at rest has no size of which its errors could be a part. What makes it move is a sum of terms,
    such as a torque and the weight that it holds, which may cancel to their round-off, or a force that begins
    later, near zero with a large relative error. Round-off of the terms changes a component in a step by a
    part of what they change without each other; so a part of 1e-13 of this is always allowed.

    Allowed is a part of the change in the same step, and not of all that a term could change in the whole
    time: a force that is over as soon as anything moves gives no such speed.

    Parameters
    ----------
    terms : (samples, k) sums of the sizes of the terms of rates of the state at rest, at times of the motion.
    units : (k,) of its components.
    layout : of the components.
    numpy : NumPy, or a module with the same functions.
    """
    whole = numpy.where(layout.points | ~(units > 0.0), np.inf, units)
    sizes = numpy.max(numpy.where(numpy.isnan(terms), 0.0, terms), axis=0) / whole  # none at breakpoints
    sizes = numpy.where(numpy.isfinite(sizes), CHANGED * sizes, 0.0)
    return numpy.zeros_like(units) + _largest_of_groups(sizes, layout.groups, numpy)


def is_held(rates: Any, terms: Any, units: Any, layout: StateLayout) -> bool:
    """Whether terms of the rates cancel to their round-off, so that no step has a small relative error.

    Parameters
    ----------
    rates, terms : (k,) the rates at rest, and the sums of the sizes of their terms.
    units, layout : of the components.
    """
    counts = ~layout.points & (units > 0.0)
    whole = np.where(counts, units, np.inf)
    net, parts = (_largest_of_groups(np.abs(a) / whole, layout.groups, np) for a in (rates, terms))
    return bool(np.any((RTOL + ATOL) * net < ROUND_OFF * parts))


def relative_drift(conserved: Any, largest: Any, first: Any, numpy: Any = np) -> Any:
    """The relative change of what is conserved; zero where nothing is.

    Parameters
    ----------
    conserved : (...,) its values.
    largest : (...,) the largest of its scales so far.
    first : its first value.
    """
    change = numpy.abs(conserved - first)
    return numpy.where(change == 0.0, 0.0, change / numpy.where(largest > 0.0, largest, 1.0))


def clock_counts(found: Any, state: Any, whole: Any, numpy: Any = np) -> Any:
    """Whether the clock's error is a large part of how far components have moved, (..., k).

    It is their change in 1e-15 of the whole time, at the lesser of a step's two end rates.

    Parameters
    ----------
    found, state : after and before the step, as of `with_error_ratios`.
    whole : the whole time.
    numpy : NumPy, or a module with the same functions.
    """
    errors = (CLOCK * whole) * numpy.fmin(numpy.abs(state[1]), numpy.abs(found[1]))
    return errors > (RTOL + ATOL) * found[3]


def is_taken(step: Any, found: Any, state: Any, leaving: Any, numpy: Any = np) -> Any:
    """Whether the shortest step is taken with its errors: all components with large ones are at rest.

    Their rate changes by at most 1,000 times the rate after the step, so that the error is no more than a
    clock that is wrong by 1e-10 of the whole time.

    Parameters
    ----------
    step : its length.
    found : (STATE + 1, ..., k) after the step, as of `with_error_ratios`.
    state : (STATE, ..., k) before it.
    leaving : (..., k) or a boolean, whether a component leaves rest since such a step, and has hardly moved.
    """
    before, after = numpy.abs(state[1]), numpy.abs(found[1])
    at_rest = (state[3] <= step * numpy.fmax(before, after)) | (before <= _DOUBLED * after)
    shifted = numpy.abs(found[1] - state[1]) <= _SHIFTED * after
    sound = numpy.isfinite(found[0]) & numpy.isfinite(found[1])
    return numpy.all(sound & ((shifted & (at_rest | leaving)) | (found[-1] < 1.0)), axis=-1)


def other_side(s: Any, gap: Any, whole: Any, numpy: Any = np) -> Any:
    """The time at which a rate is asked for a step from s across a breakpoint; all are counted from zero.

    It is behind the breakpoint. If this is the last time, it is before.

    Parameters
    ----------
    s : two units of the last place before the breakpoint, or the first or the last time.
    gap, whole : `Settings.gap`, and the last time.
    numpy : NumPy, or a module with the same functions.
    """
    return numpy.where(s + gap < whole, s + gap, numpy.maximum(whole - gap, 0.0))


def across(found: Any, state: Any, step: Any, numpy: Any = np) -> Any:
    """A step across a breakpoint, as long as round-off of time: half of it with the rate before.

    Parameters
    ----------
    found : the state before it, with the rate of the time after it, as of `with_error_ratios`, or without
        errors: between both ends no rate is asked, because it may have none.
    state : before the step.
    step : its length, with a sign.
    """
    moved = state[0] + (0.5 * step) * (state[1] + found[1])
    return numpy.concatenate([moved[None], found[1:]])


def next_length(
    length: Any, planned: Any, ends: Any, error: Any, taken: Any, bounds: tuple[Any, Any], numpy: Any = np
) -> tuple[Any, Any]:
    """Whether a step is accepted, and the length of the next one.

    Parameters
    ----------
    length : of the step, positive.
    planned : its length before it was cut to end at a requested time.
    ends : whether it ends at a requested time.
    error : its largest error over the tolerance.
    taken : whether it is accepted with any error (`is_taken`).
    bounds : the shortest and the longest step.
    numpy : NumPy, or a module with the same functions.
    """
    kept = (error < 1.0) | taken
    factor = numpy.minimum(numpy.maximum(SAFETY * numpy.maximum(error, LEAST) ** EXPONENT, CUT), GROWTH)
    longer = length * factor
    # A step that was cut to end at a requested time says nothing against the planned length.
    longer = numpy.where(kept & ends, numpy.maximum(longer, planned), longer)
    return kept, numpy.minimum(numpy.maximum(longer, bounds[0]), bounds[1])
