"""All public names, with what they name."""

import importlib
import inspect
import sys
from functools import cache
from pathlib import Path
from typing import Any


@cache
def public_names() -> set[str]:
    """Every public name with the room that exports it first, as in docs/api.md."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
    try:
        api_build = importlib.import_module("api_build")
    finally:
        sys.path.pop(0)
    return {f"{room}.{name}" for room, names in api_build.public_names().items() for name in names}


def named(name: str) -> Any:
    """What a full name stands for."""
    room, _, own = name.rpartition(".")
    return getattr(importlib.import_module(room), own)


@cache
def called() -> dict[str, Any]:
    """Public classes and functions by their full names; constants are left out."""
    things = {name: named(name) for name in sorted(public_names())}
    return {
        name: thing for name, thing in things.items() if inspect.isclass(thing) or inspect.isroutine(thing)
    }
