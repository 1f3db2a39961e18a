"""Functions whose source is rendered from a template.

Numba compiles some of them, and its cache on disk depends on the file of a function. So the source is
executed as if it were in a file of the package. It has to stand behind the last line of that file, because
Numba also asks Python for the lines of a function, and Python would read other code of the file there. Since
Python 3.13, lines that begin within a docstring and contain an apostrophe raise `tokenize.TokenError`.
"""

from __future__ import annotations

import linecache
from functools import cache
from types import CodeType
from typing import Any


def execute(source: str, file: str, scope: dict[str, Any]) -> None:
    """Execute a source in a scope, as if it stood behind the last line of a file.

    Parameters
    ----------
    source : definitions of functions.
    file : ``__file__`` of the module that renders the source.
    scope : the names that the source uses, and then those that it defines.
    """
    exec(_code(source, file), scope)


@cache
def _code(source: str, file: str) -> CodeType:
    return compile("\n" * len(linecache.getlines(file)) + source, file, "exec")
