"""Errors of the functions of a robot for what is no robot, and for numbers that JAX is tracing.

They are raised after a call failed, so that calls with the right arguments do not pay for them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from connections.checks import require_type
from connections.multibody.model import Model


def require_model(name: str, model: Any) -> None:
    """Raise `TypeError` unless the first argument of the function `name` is a robot."""
    require_type("model", model, Model, f"the robot comes first: {name}(model, ...)")


def raise_no_model(name: str, model: Any, error: AttributeError) -> NoReturn:
    """Raise the `TypeError` that says what was given to the function `name` in place of a robot.

    Parameters
    ----------
    name : of the function, whose first argument is the robot.
    model : what was given.
    error : what it raised; raised again if it is a robot.
    """
    require_model(name, model)
    raise error
