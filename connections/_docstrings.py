"""Docstrings that are more than documentation: texts in results are taken from them.

`python -OO` strips docstrings; they are read from the source then.
"""

from __future__ import annotations

import ast
import inspect
import sys
from typing import Any


def docstring_of(thing: Any) -> str:
    """The docstring of a module, a class or a function of the package, or nothing if it has none.

    Raises
    ------
    RuntimeError : Python has stripped it, and its source is not installed.
    """
    if sys.flags.optimize < 2:
        return thing.__doc__ or ""
    module = thing if inspect.ismodule(thing) else sys.modules[thing.__module__]
    try:
        node: Any = ast.parse(inspect.getsource(module))
    except OSError as error:
        what = f"python -OO strips docstrings, and the source of {module.__name__} is not installed"
        raise RuntimeError(f"{what}: run Python without -OO") from error
    for name in [] if thing is module else thing.__qualname__.split("."):
        own = [part for part in node.body if isinstance(part, ast.ClassDef | ast.FunctionDef)]
        node = next((part for part in reversed(own) if part.name == name), None)
        if node is None:
            return ""
    return ast.get_docstring(node) or ""
