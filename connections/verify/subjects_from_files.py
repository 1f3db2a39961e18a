"""Subjects that a Python file defines: ``connections verify my_system.py:top``.

Errors in the file are reported with their type, their message, and the line of the file.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

from connections._words import alternatives, did_you_mean, nearest, with_article
from connections.checks import SubjectError
from connections.verify.nonholonomic_subjects import NonholonomicSubject
from connections.verify.subjects import Subject
from connections.verify.subjects_from_objects import ACCEPTED, as_subject, is_acceptable

_EXPECTED = f"Expected {ACCEPTED}, or a function without arguments that returns one."
_LONGEST = 300  # characters of a message that are shown
_TRACED = (
    "JAX traces this function: use jax.numpy instead of numpy and math, and jnp.where instead of "
    "conditions on q."
)


def subject_from_file(
    path: str | Path, attribute: str, samples: int = 2, seed: int = 0
) -> Subject | NonholonomicSubject:
    """The subject that a Python file defines.

    The file is run as a module with a private name. Its folder is put first in ``sys.path``, as
    ``python FILE`` does, and stays there, because functions may import when they are called.

    Parameters
    ----------
    path : the file, which ends in ``.py``.
    attribute : an object that `as_subject` accepts, or a function without arguments that returns one.
    samples, seed : as for `as_subject`; a subject has its own samples and seed.

    Raises
    ------
    SubjectError : there is no such file or attribute, the attribute is of another type, or the file's code
        raises an error, which is the cause.
    """
    path = Path(path)
    module = _module(path)
    thing, name = _attribute(module, path, attribute), f"{path.name}:{attribute}"
    if not is_acceptable(thing) and callable(thing):
        _require_no_arguments(thing, name)
        with explained(path, f"{name} raises an error"):
            thing = thing()
        name += "()"
    if not is_acceptable(thing):
        raise SubjectError(f"{name} is {with_article(type(thing).__name__)}\n{_EXPECTED}")
    with explained(path, f"{name} cannot be verified"):
        return as_subject(thing, attribute, samples, seed)


@contextmanager
def explained(path: Path, what: str) -> Iterator[None]:
    """Turn every error into a `SubjectError` with a sentence, the error, and the line of the file.

    Parameters
    ----------
    path : the file with the user's code.
    what : the sentence.
    """
    try:
        yield
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
    name = f"_connections_verify_{path.stem}"
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


def _attribute(module: ModuleType, path: Path, attribute: str) -> Any:
    """The object with this name in the file."""
    found = module.__dict__
    if attribute in found:
        return found[attribute]
    candidates = [name for name, thing in found.items() if _may_be_meant(name, thing, module.__name__)]
    if not attribute:
        what = f"say what to verify: {path}:NAME"
    else:
        public = [name for name in found if not name.startswith("_")]
        what = f"{path} has no {attribute!r}{did_you_mean(attribute, public)}"
    there = ", ".join(candidates) if candidates else "nothing that can be verified"
    raise SubjectError(f"{what}\nIt defines {there}.")


def _may_be_meant(name: str, thing: Any, module: str) -> bool:
    """Whether an attribute is a subject, or a function of the file that might return one."""
    if name.startswith("_"):
        return False
    if is_acceptable(thing):
        return True
    own = inspect.isfunction(thing) and thing.__module__ == module
    return own and _required(thing) == []


def _required(function: Callable[..., Any]) -> list[str]:
    """The arguments without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # functions in C have no signature
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in optional]


def _require_no_arguments(function: Callable[..., Any], name: str) -> None:
    required = _required(function)
    if required:
        raise SubjectError(f"{name} takes arguments: {', '.join(required)}\n{_EXPECTED}")


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
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent == folder]
    own = [frame for frame in frames if Path(frame.filename).name == path.name]
    last = {frame.filename: frame for frame in [*own[-1:], *frames[-1:]]}
    return [_place(frame) for frame in last.values()]


def _place(frame: traceback.FrameSummary) -> str:
    within = "" if frame.name.startswith("<") else f", in {frame.name}"
    return f"{Path(frame.filename).name}, line {frame.lineno}{within}: {frame.line or ''}"
