"""Where a function of time does something brief, found by looking at it before the first step.

A step sees a function at thirteen instants, and what lies between them is missed. So the function's rate is
looked at 1025 times. Its eighth difference over 70 is the error with which a rate would be interpolated from
its eight neighbours. Where this is large, the function changes within a few of these times. Steps end where
such a run begins and where it ends, so that steps inside meet it with all their instants. If there are more
runs than there is room for, all steps are short instead.
"""

from __future__ import annotations

from functools import reduce
from math import comb
from typing import Any

import numpy as np

LOOKS = 1025  # times: a pulse of 0.3 % of the interval contains three of them
_ROOM = 8  # runs whose ends become breakpoints
_SHORT = 1.0 / 256.0  # of the whole time: the longest step if there are more runs
#: Of a component's largest rate. Interpolated as well as this, a rate is smooth, such as one of 45 periods.
_SMOOTH = 1e-6
_SLOW = 1e-7  # of a component's size per whole time: slower components count as this fast, against round-off
_HALF = 4  # neighbours on each side
_DIFFERENCE = np.array([(-1.0) ** k * comb(2 * _HALF, k) for k in range(2 * _HALF + 1)])
_DIFFERENCE /= _DIFFERENCE[_HALF]


def pulse_breakpoints(values: Any, rates: Any, numpy: Any = np) -> tuple[Any, Any, Any]:
    """Breakpoints for a function of time, and the longest step.

    Parameters
    ----------
    values, rates : (LOOKS, k) of the function, and of its derivative in the whole time, at equal distances.
    numpy : NumPy, or a module with the same functions.

    Returns
    -------
    (16,) breakpoints as parts of the whole time; (16,) whether each is one: the others are multiples of 1/32
    of the whole time, where steps of the default length end; and the longest step, infinite for any.
    """
    runs = numpy.pad(_is_rough(values, rates, numpy), 1)
    begins, ends = runs[1:] & ~runs[:-1], runs[:-1] & ~runs[1:]
    order, which = numpy.cumsum(begins), numpy.arange(1, _ROOM + 1)[:, None]
    count = order[-1]
    # Entry i of `begins` belongs to look i + _HALF. A run is wider by 2 _HALF looks on both sides than what
    # makes it, because of the neighbours; less if that is weak. Breakpoints are two looks outside.
    wider = 2 * _HALF - 2
    first = numpy.argmax(order >= which, axis=1) + _HALF + wider
    last = numpy.argmax(numpy.cumsum(ends) >= which, axis=1) - 1 + _HALF - wider
    at = numpy.clip(numpy.stack([first, numpy.maximum(first, last)]), 0, LOOKS - 1) / (LOOKS - 1.0)
    found = numpy.broadcast_to((which[:, 0] <= count) & (count <= _ROOM), (2, _ROOM))
    regular = (numpy.arange(2 * _ROOM).reshape(2, _ROOM) + 0.5) / (2.0 * _ROOM)
    longest = numpy.where(count > _ROOM, _SHORT, np.inf)
    return numpy.where(found, at, regular).ravel(), found.ravel(), longest


def _is_rough(values: Any, rates: Any, numpy: Any) -> Any:
    """Whether anything brief happens within `_HALF` looks of each look but the first and last `_HALF`."""
    count, shifts = LOOKS - 2 * _HALF, range(2 * _HALF + 1)
    rough = numpy.abs(sum(_DIFFERENCE[k] * rates[k : k + count] for k in shifts))
    scale = numpy.maximum(numpy.max(numpy.abs(rates), axis=0), _SLOW * numpy.max(numpy.abs(values), axis=0))
    flags = numpy.pad(numpy.any(rough > _SMOOTH * scale, axis=-1), _HALF)  # False for NaN
    return reduce(numpy.logical_or, (flags[k : k + count] for k in shifts))
