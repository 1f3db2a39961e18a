"""One motion from requested time to requested time; the steps between are one compiled call.

A call of a compiled function takes as long as ten steps of a small motion. So the loop over steps in Python
(`driver`) is left to batches, to events, and to rates that are not JAX's. Each call (`traced.after_steps`)
rests after some hundred steps, so that Ctrl-C ends a long motion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connections.integration.driver import (
    TOO_SHORT,
    Followed,
    LookAhead,
    Stopped,
    Tick,
    drift_in_words,
    kept_on_interrupt,
    too_many,
)
from connections.integration.solver import Settings
from connections.integration.tolerances import LOOK_AGAIN, relative_drift
from connections.integration.traced import ASKS, DRIFTED, MotionInProgress

Array = NDArray[np.float64]
#: (where the motion is, the next requested times (GOALS,), how many of them are real, the count of steps at
#: which to rest) -> where it is then.
Advance = Callable[[MotionInProgress, Array, int, int], MotionInProgress]
GOALS = 33  # requested times in one call, and the one before them
STEPS = 256  # in one call


def follow_one(
    advance: Advance,
    begin: MotionInProgress,
    clock: Array,
    settings: Settings,
    look_ahead: LookAhead | None = None,
    conserved: str = "",
    tick: Tick | None = None,
) -> Followed:
    """The states of one motion at the requested times, as of `driver.follow`.

    Parameters
    ----------
    advance : the steps of the motion.
    begin : before its first step.
    clock, settings, look_ahead, conserved, tick : as of `driver.follow`.

    Raises
    ------
    KeyboardInterrupt : with the states found until then, a `Followed` (`checks.keep_motion`).
    """
    found = Followed.at_beginning(np.asarray(begin.states[:1]), len(clock))
    with kept_on_interrupt(found):
        _follow(advance, begin, clock, settings, look_ahead, conserved, tick, found)
    return found


def _follow(
    advance: Advance,
    at: MotionInProgress,
    clock: Array,
    settings: Settings,
    look_ahead: LookAhead | None,
    conserved: str,
    tick: Tick | None,
    found: Followed,
) -> None:
    after = 0  # from which count of steps on it may ask
    whole, reached, tried, none = float(clock[-1]), 0, int(at.tried), at
    longest = np.copysign(settings.lengths(abs(whole), 1.0)[1], whole)
    while reached < len(clock) - 1:
        ahead = clock[reached : reached + GOALS]
        goals = np.concatenate([ahead, np.full(GOALS - len(ahead), whole)])
        asks: Any = np.array(look_ahead is not None and tried >= after)
        at = advance(at._replace(target=none.target, asks=asks), goals, len(ahead), tried + STEPS)
        target, ended, tried = int(at.target), int(at.ended), int(at.tried)
        new = slice(reached + 1, reached + target)
        found.states[0, new] = np.asarray(at.states)[1:target]
        found.drift[0, new] = np.asarray(at.drift)[1:target]
        found.conserved[1, 0, new] = float(at.scale)
        reached += target - 1
        found.last[0], found.steps[0] = clock[reached], tried
        if tick is not None:
            tick(float(at.s) / whole)
        if not ended or reached == len(clock) - 1:
            continue
        state = np.asarray(at.state)
        if ended == DRIFTED:
            first = float(at.first)
            with np.errstate(invalid="ignore"):
                drift = float(relative_drift(state[5, 0], float(at.scale), first))
            why = drift_in_words(conserved, first, state[5, 0], drift, settings.drift)
        elif tried > settings.max_steps:
            why = too_many(settings.max_steps)
        elif look_ahead is not None and tried:  # without a step, the first rate is not finite
            changed = look_ahead(0, float(at.s), state, ended == ASKS)
            at, after = at._replace(ended=none.ended, h=longest if changed else at.h), tried + LOOK_AGAIN
            look_ahead = look_ahead if ended == ASKS else None
            continue
        else:
            why = TOO_SHORT
        found.stopped[0] = Stopped.at(float(at.s), state, why, whole)
        return
