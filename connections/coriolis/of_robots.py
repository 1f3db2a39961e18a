"""Functions of robots, a room above, to which `coriolis_matrix` and `audit_coriolis` hand a robot over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_FUNCTIONS: dict[type, dict[str, Callable[..., Any]]] = {}


def register(robot: type, **functions: Callable[..., Any]) -> None:
    """Have functions of the given names called for robots of a class, with the robot first."""
    _FUNCTIONS[robot] = functions


def function_of(name: str, robot: Any) -> Callable[..., Any] | None:
    """The function of that name for a robot; None for what is no robot."""
    return _FUNCTIONS.get(type(robot), {}).get(name)
