"""Preparation of controllers: what they call is compiled or loaded before a loop begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from connections._words import words_of
from connections.control.laws.adaptive import AdaptiveController
from connections.control.laws.law import ControlLaw
from connections.control.laws.observer import MomentumObserver
from connections.control.linear.regulator import Regulator
from connections.control.whole_body.controller import WholeBodyController

_LAWS = ControlLaw, AdaptiveController, Regulator, WholeBodyController
_PERIOD = 1e-3  # s


def prepare(law: Any, *state: Any) -> dict[str, float]:
    """Seconds that a law's functions take to be compiled or loaded, so that no call in its loop waits for it.

    Each is called once, with all that it calls: recursions of a robot, functions of JAX, and those of users.
    Their results are dropped.

    Parameters
    ----------
    law : a control law, an adaptive or a whole-body controller, a regulator, a `MomentumObserver`; or a
        function, such as a whole period of the loop.
    state : as in the loop, at its start: what `torque` takes; (q, v, tau, z) of an observer; what a function
        takes.

    Returns
    -------
    By name of a method, in the order of the calls: "torque"; for an adaptive controller "parameters_rate" and
    "next_parameters", too; "momentum", "residual" and "state_rate" of an observer; of a function its name.

    Raises
    ------
    TypeError : `law` is none, or does not take the state. The law's errors at the state.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> law = control.PassivityController(robot.system(), gain=5.0)
    >>> q, zero = robot.neutral(), np.zeros(6)
    >>> seconds = control.prepare(law, q, zero, zero, zero)
    >>> list(seconds), max(seconds.values()) < 60.0
    (['torque'], True)
    """
    seconds: dict[str, float] = {}
    for name, call in _calls(law, state).items():
        start = time.perf_counter()
        call()
        seconds[name] = time.perf_counter() - start
    return seconds


def _calls(law: Any, state: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    """The calls of a loop, by name."""
    if isinstance(law, MomentumObserver):
        if len(state) != 4:
            raise TypeError(
                f"state: expected (q, v, tau, z) of a MomentumObserver, got {len(state)} arguments"
            )
        q, v, _, z = state
        return {
            "momentum": lambda: law.momentum(q, v),
            "residual": lambda: law.residual(q, v, z),
            "state_rate": lambda: law.state_rate(*state),
        }
    if not isinstance(law, _LAWS):
        if not callable(law) or isinstance(law, type):
            raise TypeError(f"law: expected a control law, or a function of the state, got {words_of(law)}")
        return {getattr(law, "__name__", type(law).__name__): lambda: law(*state)}
    calls: dict[str, Callable[[], Any]] = {"torque": lambda: law.torque(*state)}
    if isinstance(law, AdaptiveController):
        calls["parameters_rate"] = lambda: law.parameters_rate(*state)
        after: Any = law.next_parameters
        calls["next_parameters"] = lambda: after(*state, _PERIOD)
    return calls
