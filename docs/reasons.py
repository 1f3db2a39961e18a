"""Errors of docstrings in the reference: a line for each, with a reason."""

import inspect
import re

from connections import checks
from connections.control import errors

#: Reasons of Python's own errors.
BUILT_IN = {
    "TypeError": "An argument has another type, or JAX traces what it cannot trace.",
    "ValueError": "An argument has a value that is refused.",
}
_ERROR = r"[A-Z]\w*(?:Error|Warning)\b"
_NAMES = rf"{_ERROR}(?:, {_ERROR})*"


def split_errors(lines):
    """Give each error of `ShapeError, NonFiniteError. TypeError : why.` a line of its own, and a reason.

    An error that a docstring only names has that of its class, the first line of its docstring.
    """
    for line in lines:
        if not re.match(rf"{_ERROR}(?=[ ,;.]|$)", line):
            yield line
            continue
        for part in re.split(rf"(?<=\.) (?={_ERROR})|(?<=;) (?={_NAMES} : )", line):
            if re.match(rf"{_NAMES} : ", part):
                yield part
            else:
                yield from map(_with_reason, re.split(rf"[,;.] (?={_ERROR})", part))


def _with_reason(text):
    name, said = re.match(rf"({_ERROR})[ ,;.]*(.*)", text).groups()
    kind = getattr(checks, name, None) or getattr(errors, name, None)
    own = (inspect.getdoc(kind) if kind else BUILT_IN.get(name, "")).partition("\n")[0]
    reason = re.sub(r"^\((.*)\)[.;]?$", r"\1", said) or f"{own[:1].lower()}{own[1:]}"
    return f"{name} : {reason}" if reason else name
