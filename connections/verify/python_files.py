"""Objects that a Python file defines, ``FILE.py:NAME``, and errors about files and names.

Errors in the file are reported with their type, their message, and the line of the file.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax

from connections._words import alternatives, did_you_mean, nearest, with_article
from connections.checks import SubjectError

_LONGEST = 300  # characters of a message that are shown
_BY_VALUE = "<dynamic-code>"  # what cloudpickle calls the file of functions that other processes were sent
_TRACED = (
    "JAX traces this function: use jax.numpy instead of numpy and math, and jnp.where instead of "
    "conditions on q."
)


class Wanted(NamedTuple):
    """The kind of object that a name in a file should stand for."""

    accepts: Callable[[Any], bool]  #: whether an object is one
    purpose: str  #: a verb, such as "verify"
    expected: str  #: the sentence that says what is accepted
    options: tuple[str, ...] = ()  #: arguments that functions may have without a default


class NamedObject(NamedTuple):
    """An object that a name in a file stands for."""

    thing: Any
    name: str  #: what errors call it
    module: ModuleType  #: of the file


def object_from_file(
    path: Path, attribute: str, wanted: Wanted, given: Mapping[str, Any] | None = None
) -> NamedObject:
    """The object that a Python file defines, or that its function returns.

    The file is run as a module with a private name. Its folder is put first in ``sys.path``, as
    ``python FILE`` does, and stays there, because functions may import when they are called.

    Parameters
    ----------
    path : the file, which ends in ``.py``.
    attribute : the name of the object or function.
    wanted : what it should be.
    given : arguments of the function, some of ``wanted.options``.

    Raises
    ------
    SubjectError : there is no such file or attribute, the attribute is something else, or the file's code
        raises an error, which is the cause.
    """
    module = _module(path)
    thing, name = _attribute(module, path, attribute, wanted), f"{path.name}:{attribute}"
    if not wanted.accepts(thing) and callable(thing):
        _require_arguments(thing, name, wanted, given or {})
        with explained(path, f"{name} raises an error"):
            thing = thing(**(given or {}))
        name += "()"
    elif given:
        names = ", ".join(f"--{option}" for option in given)
        raise SubjectError(f"{name} is no function that {names} could be given to\n{wanted.expected}")
    if not wanted.accepts(thing):
        raise SubjectError(f"{name} is {with_article(type(thing).__name__)}\n{wanted.expected}")
    return NamedObject(thing, name, module)


@contextmanager
def explained(path: Path, what: str, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn every error into a `SubjectError` with a sentence, the error, and the line of the file.

    Parameters
    ----------
    path : the file with the user's code.
    what : the sentence.
    but : errors that stay what they are.
    """
    try:
        yield
    except but:
        raise
    except (Exception, SystemExit) as error:
        lines = [what, f"{_kind(error)}{_message(error)}", *_places(_origin(error), path)]
        if isinstance(error, jax.errors.JAXTypeError):
            lines.append(_TRACED)
        raise SubjectError("\n".join(lines)) from error


def _module(path: Path) -> ModuleType:
    """The file as a module with a private name."""
    if path.suffix != ".py":
        raise SubjectError(f"{path} is not a Python file: its name has to end in .py")
    if not path.is_file():
        folder = path.parent
        others = sorted(file.stem for file in folder.glob("*.py")) if folder.is_dir() else []
        near = [str(folder / f"{stem}.py") for stem in nearest(path.stem, others)]
        meant = f"; did you mean {alternatives(near)}?" if near else ""
        raise SubjectError(f"there is no file {path}{meant}")
    name = f"file {path.stem}"  # which no import finds; errors of stores show it
    spec = spec_from_file_location(name, path.resolve())
    assert spec is not None
    module = module_from_spec(spec)
    beside = str(path.resolve().parent)
    if beside not in sys.path:
        sys.path.insert(0, beside)
    sys.modules[name] = module  # dataclasses and pickle look up modules there
    try:
        with explained(path, f"{path} cannot be imported"):
            # Compiled here, so that no __pycache__ appears beside the file.
            exec(compile(path.read_bytes(), str(path.resolve()), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _attribute(module: ModuleType, path: Path, attribute: str, wanted: Wanted) -> Any:
    """The object with this name in the file."""
    found = module.__dict__
    if attribute in found:
        return found[attribute]
    candidates = [
        name for name, thing in found.items() if _may_be_meant(name, thing, module.__name__, wanted)
    ]
    if not attribute:
        what = f"say what to {wanted.purpose}: {path}:NAME"
    else:
        public = [name for name in found if not name.startswith("_")]
        what = f"{path} has no {attribute!r}{did_you_mean(attribute, public)}"
    there = ", ".join(candidates) if candidates else f"nothing to {wanted.purpose}"
    raise SubjectError(f"{what}\nIt defines {there}.")


def _may_be_meant(name: str, thing: Any, module: str, wanted: Wanted) -> bool:
    """Whether an attribute is wanted, or a function of the file that might return it."""
    if name.startswith("_"):
        return False
    if wanted.accepts(thing):
        return True
    own = inspect.isfunction(thing) and thing.__module__ == module
    return own and set(_required(thing)) <= set(wanted.options)


def _named(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments of a function that have names."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # functions in C have no signature
        return {}
    others = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: parameter for name, parameter in parameters.items() if parameter.kind not in others}


def _required(function: Callable[..., Any]) -> list[str]:
    """The names of a function's arguments that have no default."""
    return [name for name, parameter in _named(function).items() if parameter.default is parameter.empty]


def _require_arguments(
    function: Callable[..., Any], name: str, wanted: Wanted, given: Mapping[str, Any]
) -> None:
    """Raise an error unless a function has the given arguments, and needs no other."""
    unknown = [f"--{option}" for option in given if option not in _named(function)]
    if unknown:
        raise SubjectError(f"{name} has no argument for {', '.join(unknown)}\n{wanted.expected}")
    missing = [argument for argument in _required(function) if argument not in given]
    if missing:
        raise SubjectError(f"{name} takes arguments: {', '.join(missing)}\n{wanted.expected}")


# --- errors of the user's code ---------------------------------------------------------------------------


def _kind(error: BaseException) -> str:
    """The type of an error, as the beginning of a line; empty for errors of this library."""
    return "" if isinstance(error, SubjectError) else f"{type(error).__name__}: "


def _message(error: BaseException) -> str:
    """The message; of a long message, the first paragraph, cut."""
    if isinstance(error, SubjectError):
        return str(error)
    if isinstance(error, SyntaxError):
        return str(error.msg)
    text = str(error).strip() or "(no message)"
    first = text.split("\n")[0] if isinstance(error, jax.errors.JAXTypeError) else text.split("\n\n")[0]
    short = " ".join(first.split())
    return short if len(short) <= _LONGEST else short[:_LONGEST].rsplit(" ", 1)[0] + " ..."


def _origin(error: BaseException) -> BaseException:
    """The error raised in the user's code, if `error` is the `TypeError` that this library made of it."""
    return error.__context__ or error if isinstance(error, TypeError) else error


def _places(error: BaseException, path: Path) -> list[str]:
    """The place of the error: the last line in the file, and in a file beside it that it called."""
    folder = path.resolve().parent
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).parent == folder:
        name = Path(error.filename).name
        return [f"{name}, line {error.lineno}: {(error.text or '').strip()}".rstrip(": ")]
    every = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in every if Path(frame.filename).parent == folder]
    own = [frame for frame in frames if Path(frame.filename).name == path.name]
    last = {frame.filename: frame for frame in [*own[-1:], *frames[-1:]]}
    sent = [f"line {frame.lineno}, in {frame.name}" for frame in every if frame.filename == _BY_VALUE]
    return [_place(frame) for frame in last.values()] or sent[-1:]


def _place(frame: traceback.FrameSummary) -> str:
    within = "" if frame.name.startswith("<") else f", in {frame.name}"
    return f"{Path(frame.filename).name}, line {frame.lineno}{within}: {frame.line or ''}"
