"""How long a step may be: an error that is judged per component, against sizes that the motion itself has.

Units do not decide. The error of component i of a step has to stay below

    max(rtol * moved_i, atol * size_i),

moved_i the farthest that the component has been from its origin so far, size_i what it can be expected to be
(for a motion the speed in the unit of the frame field, from the metric). With atol far below rtol the second
term counts only where a component is round-off beside the others: it would otherwise have to be as accurate
as they are, which nothing can make it. Both sides change alike with the units of every single component, and
of time.

No step is shorter than 1e-13 of the whole time: a motion that would need one ends there. The exception is a
component at rest, which has not moved farther than this one step moves it, or only by the round-off of terms
that cancel, so that its rate at least doubles in this one step. If its rate jumps, or begins to grow, no step
over that instant has a small relative error. The shortest step is then taken with the error that it has: at
most its length times the change of the rate in it, as if that had happened so much earlier or later. So are
those that follow, and until the component has moved, its error may also be what it changes by in 1e-15 of the
whole time, for no clock is more accurate than that.
Source: E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, II.4, II.10 (DOP853).
"""

from __future__ import annotations

from typing import Any

import numpy as np

RTOL = 1e-10
ATOL = 1e-15  # no less than round-off of the larger components, which smaller ones cannot get rid of
MAX_STEPS = 100_000
FIRST_STEP = 0.1  # of the whole time; the error estimate makes it shorter where it has to
SHORTEST = 1e-13  # of the whole time
CLOCK = 1e-15  # of the whole time
NO_LONGER = 1.0 - 1e-12  # a step this near to a requested time ends there
GROWTH, CUT, SAFETY = 10.0, 0.2, 0.9
EXPONENT, LEAST = -1.0 / 8.0, 1e-12  # by which power of the error a step is changed, and from where on
_DOUBLED = 0.5  # a rate before the shortest step, relative to that behind it; towards a blow-up it is 0.9
# In place of zero, where it would divide zero. XLA divides by products of both, which have to be numbers too.
_LEAST_TOLERANCE, _LEAST_ERROR = 1e-270, 1e-30


def errors_of(
    step: Any,
    found: Any,
    farther: Any,
    least: Any,
    rtol: Any,
    atol: Any,
    numpy: Any = np,
) -> Any:
    """The errors of components over their tolerances, (..., k); NaN where they are not numbers.

    Parameters
    ----------
    step : how long the step is, (..., 1) or a number; not negative.
    found : (5, ..., k) as of `steps.Attempt`; the error is made of both estimates.
    farther : (..., k) the farthest that components have been from their origin, after the step.
    least : (..., k) errors that are allowed in any case (`clock_errors`), or zero.
    rtol, atol : of a step.
    numpy : NumPy, or what has its functions.
    """
    tolerance = numpy.fmax(rtol * farther, atol * numpy.fmax(found[4], numpy.abs(found[0])))
    tolerance = numpy.fmax(tolerance, least + _LEAST_TOLERANCE)
    # Over the tolerance first: in other units, squares of errors are infinite, or nothing.
    fifth, third = found[2:4] / tolerance
    return step * fifth * (fifth / numpy.fmax(numpy.hypot(fifth, 0.1 * third), _LEAST_ERROR))


def clock_errors(f: Any, rates: Any, whole: Any, numpy: Any = np) -> Any:
    """What components change by in 1e-15 of the whole time by the lesser rate of a step's ends, (..., k)."""
    return (CLOCK * whole) * numpy.fmin(numpy.abs(f), numpy.abs(rates))


def is_taken(step: Any, errors: Any, found: Any, moved: Any, f: Any, leaving: Any, numpy: Any = np) -> Any:
    """Whether the shortest step is taken with its errors: all components with large ones are at rest.

    Parameters
    ----------
    step, errors, found : as in `errors_of`.
    moved : (..., k) the farthest that components had been from their origin, before the step.
    f : (..., k) dy/dt at its beginning.
    leaving : (..., 1) or a boolean, whether such a step has been taken just before.
    """
    before, after = numpy.abs(f), numpy.abs(found[1])
    at_rest = (moved <= step * numpy.fmax(before, after)) | (before <= _DOUBLED * after)
    sound = numpy.isfinite(found[0]) & numpy.isfinite(found[1])
    return numpy.all(sound & (at_rest | leaving | (errors < 1.0)), axis=-1)


def next_length(
    length: Any, planned: Any, ends: Any, error: Any, taken: Any, bounds: tuple[Any, Any], numpy: Any = np
) -> tuple[Any, Any]:
    """Whether a step is kept, and how long the next one is.

    Parameters
    ----------
    length : of the step, positive.
    planned : how long it would have been if it did not end at a requested time.
    ends : whether it does.
    error : its largest error over what is allowed.
    taken : whether it is kept whatever its error.
    bounds : the shortest and the longest step.
    numpy : NumPy, or what has its functions.
    """
    kept = (error < 1.0) | taken
    factor = numpy.minimum(numpy.maximum(SAFETY * numpy.maximum(error, LEAST) ** EXPONENT, CUT), GROWTH)
    longer = length * factor
    longer = numpy.where(kept & ends, numpy.maximum(longer, planned), longer)
    return kept, numpy.minimum(numpy.maximum(longer, bounds[0]), bounds[1])
