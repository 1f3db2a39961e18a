"""Sentences of errors about names: the nearest ones, and what a file or a list has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_MOST = 3  # nearest names


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
    return f"; did you mean {alternatives(found)}?" if found else ""


def alternatives(names: Sequence[str]) -> str:
    """``A, B or C``."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
