"""How long a step may be: the error of each component is compared with the size of that component's motion.

The choice of units has no influence. The error of component i of a step has to stay below

    max(rtol * moved_i, atol * size_i),

moved_i the largest distance of the component from its origin so far, size_i its expected size (for a motion
the speed in the unit of the frame field, from the metric). With atol far below rtol, the second term matters
only for a component that is round-off of the others. Such a component cannot be as accurate as they are, so
the first term alone could not be satisfied. Both sides scale alike with the unit of each component and of
time.

No step is shorter than 1e-13 of the whole time; a motion that would need a shorter one ends there. The
exception is a component at rest: it has not moved farther than this one step moves it, or it has moved only
by the round-off of terms that cancel, so that its rate at least doubles in this one step. If its rate jumps,
or begins to grow, no step over that instant has a small relative error. The shortest step is then taken with
its error, which is at most its length times the change of the rate in it: the jump is shifted in time by less
than this step. The steps that follow are taken in the same way. Until the component has moved, its error may
also be its change in 1e-15 of the whole time, because no clock is more accurate. Source: E. Hairer, S. P.
Norsett, G. Wanner, Solving Ordinary Differential Equations I, II.4, II.10 (DOP853).
"""

from __future__ import annotations

from typing import Any

import numpy as np

RTOL = 1e-10
ATOL = 1e-15  # at least the round-off of the larger components, because smaller ones contain it
MAX_STEPS = 100_000
FIRST_STEP = 0.1  # of the whole time; the error estimate makes it shorter where it has to
SHORTEST = 1e-13  # of the whole time
CLOCK = 1e-15  # of the whole time
NO_LONGER = 1.0 - 1e-12  # a step this near to a requested time ends there
GROWTH, CUT, SAFETY = 10.0, 0.2, 0.9
EXPONENT, LEAST = -1.0 / 8.0, 1e-12  # steps change by this power of the error; smaller errors count as LEAST
_DOUBLED = 0.5  # the rate before the shortest step over the rate after it; towards a blow-up the ratio is 0.9
# Floors of two divisors, against 0 / 0. XLA divides by the product of both, so that must not underflow
# either.
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
    """The errors of components over their tolerances, (..., k); NaN where an error is NaN.

    Parameters
    ----------
    step : how long the step is, (..., 1) or a number; not negative.
    found : (5, ..., k) as of `steps.Attempt`; the error combines both estimates.
    farther : (..., k) the largest distance of components from their origin, this step included.
    least : (..., k) errors that are always allowed (`clock_errors`), or zero.
    rtol, atol : of a step.
    numpy : NumPy, or a module with the same functions.
    """
    tolerance = numpy.fmax(rtol * farther, atol * numpy.fmax(found[4], numpy.abs(found[0])))
    tolerance = numpy.fmax(tolerance, least + _LEAST_TOLERANCE)
    # Divide by the tolerance before squaring: squares of errors may overflow or underflow in some units.
    fifth, third = found[2:4] / tolerance
    return step * fifth * (fifth / numpy.fmax(numpy.hypot(fifth, 0.1 * third), _LEAST_ERROR))


def clock_errors(f: Any, rates: Any, whole: Any, numpy: Any = np) -> Any:
    """Change of components in 1e-15 of the whole time, at the lesser of a step's two end rates, (..., k)."""
    return (CLOCK * whole) * numpy.fmin(numpy.abs(f), numpy.abs(rates))


def is_taken(step: Any, errors: Any, found: Any, moved: Any, f: Any, leaving: Any, numpy: Any = np) -> Any:
    """Whether the shortest step is taken with its errors: all components with large ones are at rest.

    Parameters
    ----------
    step, errors, found : as in `errors_of`.
    moved : (..., k) the largest distance of components from their origin before the step.
    f : (..., k) dy/dt at its beginning.
    leaving : (..., k) or a boolean, whether a component leaves rest since such a step, and has hardly moved.
    """
    before, after = numpy.abs(f), numpy.abs(found[1])
    at_rest = (moved <= step * numpy.fmax(before, after)) | (before <= _DOUBLED * after)
    sound = numpy.isfinite(found[0]) & numpy.isfinite(found[1])
    return numpy.all(sound & (at_rest | leaving | (errors < 1.0)), axis=-1)


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
