"""The words of errors about an argument: what was given, what to write instead, which names are near."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import jax
import numpy as np

from connections._shown import shown

# What instances of our classes are called; by name, because no room is imported here.
_KINDS = {
    "FrameField": "a frame",
    "Metric": "a metric",
    "AffineConnection": "a connection",
    "MechanicalSystem": "a system",
    "NonholonomicSystem": "a nonholonomic system",
    "ControlLaw": "a controller",
    "Reference": "a reference",
    "Model": "a robot",
    "TracedModel": "a robot whose numbers are data of JAX",
    "Mechanism": "a mechanism",
}

_MOST = 3  # nearest names
_LONG = 256  # bits of whole numbers that are written out; Python refuses to write some
_FOR_A_CONSTANT = "for a constant, write a function that returns it"
# (what is expected, what was given) -> what to write; other kinds are matrix, array, number, function, str.
INSTEAD = {
    ("Metric", "FrameField"): "write ConstantMetric(frame, H) or MatrixMetric(frame, function of q)",
    ("Metric", "AffineConnection"): "give the metric with which the connection was made",
    ("Metric", "MechanicalSystem"): "write system.metric",
    ("Metric", "NonholonomicSystem"): "write system.metric",
    ("Metric", "Model"): "write model.metric",
    ("Metric", "matrix"): "write ConstantMetric(frame, H)",
    ("Metric", "function"): "write MatrixMetric(frame, function)",
    ("FrameField", "Metric"): "write metric.frame",
    ("FrameField", "AffineConnection"): "write connection.frame",
    ("FrameField", "MechanicalSystem"): "write system.frame",
    ("FrameField", "NonholonomicSystem"): "write system.frame",
    ("FrameField", "Model"): "write model.frame",
    ("FrameField", "number"): "write CoordinateFrame(n)",
    ("FrameField", "function"): "write MatrixFrame(function, n, nq)",
    ("AffineConnection", "Metric"): "write LeviCivita(metric)",
    ("AffineConnection", "MechanicalSystem"): "write system.connection",
    ("AffineConnection", "NonholonomicSystem"): "write system.connection",
    ("AffineConnection", "Model"): "write model.connection",
    ("AffineConnection", "function"): "write CoefficientConnection(frame, function)",
    ("MechanicalSystem", "Metric"): "write MechanicalSystem(metric)",
    ("MechanicalSystem", "AffineConnection"): "write MechanicalSystem(metric, connection=connection)",
    ("MechanicalSystem", "Model"): "write model.system()",
    ("Model", "Mechanism"): "write mechanism.build()",
    ("Model", "str"): "write from_urdf(path), from_mjcf(path), load(name) or example(name)",
    ("Model", "TracedModel"): "its numbers are data of JAX, which the recursions take; give its structure",
    ("Model", "MechanicalSystem"): "give the robot from which the system was made",
    ("Reference", "function"): "write FieldReference(frame, function)",
    ("ControlLaw", "function"): "write FunctionLaw(frame, function)",
    ("function", "AffineConnection"): "give a connection as connection=",
    **dict.fromkeys((("function", kind) for kind in ("matrix", "array", "number")), _FOR_A_CONSTANT),
}


def kind_of(value: Any) -> str:
    """A key of `_KINDS`, or one of the words in `INSTEAD`, or the name of the type."""
    for base in type(value).__mro__:
        if base.__name__ in _KINDS and base.__module__.startswith("connections."):
            return base.__name__
    if callable(value):
        return "function"
    if isinstance(value, np.ndarray | jax.Array):
        return "matrix" if value.ndim == 2 else "array"
    if isinstance(value, list) and value and all(isinstance(row, list) for row in value):
        return "matrix"
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return "number" if number else type(value).__name__


def words_of(value: Any) -> str:
    """A value's kind in words, for errors: such as "an array of shape (2, 3)" or "the number 1"."""
    kind = kind_of(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if kind in _KINDS:
        return f"{_KINDS[kind]} ({type(value).__name__})"
    if isinstance(value, np.ndarray | jax.Array):
        return f"an array of shape {shape_text(value.shape)}"
    if kind == "number":
        long = isinstance(value, int) and value.bit_length() > _LONG
        return f"a whole number of {value.bit_length()} bits" if long else f"the number {value}"
    if value is None:
        return "None"
    return "a function" if kind == "function" else with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """The noun after "a" or "an", by its first letter."""
    return f"an {noun}" if noun[0] in "aeiouAEIOU" else f"a {noun}"


def shape_text(shape: object) -> str:
    """A shape as it is printed; a text for a shape stays as it is."""
    if isinstance(shape, tuple):
        return "(" + ", ".join(map(str, shape)) + (",)" if len(shape) == 1 else ")")
    return str(shape)


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """The names that contain `name`, or else those most like it; at most three, and often none.

    Parameters
    ----------
    name : as it was typed; case does not matter.
    names : those there are.
    """
    by_key = {known.lower(): known for known in names}
    within = [key for key in by_key if len(name) > 2 and name.lower() in key]
    like = get_close_matches(name.lower(), by_key, n=_MOST, cutoff=0.6)
    return [by_key[key] for key in (within or like)[:_MOST]]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``; did you mean A or B?`` to follow a sentence, or nothing if no name is near."""
    found = nearest(name, names)
    return f"; did you mean {alternatives([*map(shown, found)])}?" if found else ""


def alternatives(names: Sequence[str]) -> str:
    """``A, B or C``."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def no_such(kind: str, name: object, names: Sequence[str]) -> str:
    """``there is no body 'hand'; did you mean left_hand? The bodies are left_hand, foot``.

    Parameters
    ----------
    kind : what is named, in the singular.
    name : as it was given.
    names : those there are.
    """
    meant = did_you_mean(str(name), names) or "."
    kinds = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    return f"there is no {kind} {shown(repr(name))}{meant} The {kinds} are {', '.join(map(shown, names))}"
