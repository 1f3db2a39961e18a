"""The built-in systems by name, as all commands and functions look them up: `_system_names` lists them."""

from __future__ import annotations

from functools import cache

import numpy as np

from connections._system_names import SYSTEM_NAMES, hyphened, no_system
from connections.affine import GroupAction
from connections.checks import SubjectError, require_draws, require_text
from connections.coriolis import MechanicalSystem, NonholonomicSystem
from connections.verify.built_in import BUILT_IN, built_in_subject
from connections.verify.nonholonomic_subjects import NonholonomicSubject
from connections.verify.subjects import Subject
from connections.verify.subjects_from_objects import random_subject


def system_names() -> tuple[str, ...]:
    """The names of all built-in systems, words joined by hyphens, in the order of the list.

    Examples
    --------
    >>> from connections import verify
    >>> verify.system_names()[:4]
    ('point-mass', 'sphere', 'spinning-body', 'rigid-body')
    """
    return SYSTEM_NAMES


def system_subject(name: str, samples: int = 2, seed: int = 0) -> Subject | NonholonomicSubject:
    """The subject of a built-in system.

    Parameters
    ----------
    name : one of `system_names`; words may also be joined by underscores or spaces, in any case.
    samples : number of points.
    seed : of all random numbers.

    Raises
    ------
    SubjectError : there is no such system; the message has the nearest names, and all names.

    Examples
    --------
    >>> from connections import verify
    >>> subject = verify.system_subject("Planar arm", samples=5)
    >>> subject.name, subject.q.shape
    ('planar arm', (5, 3))
    """
    require_text("name", name)
    require_draws(samples, seed)
    if fault := no_system(name):
        raise SubjectError(fault)
    key = hyphened(name)
    built_in = {hyphened(words): words for words in BUILT_IN}
    if key in built_in:
        return built_in_subject(built_in[key], samples, seed)
    underscored = key.replace("-", "_")
    system, action = _defined(underscored)
    rng = np.random.default_rng([seed, *underscored.encode()])
    return random_subject(key, system, rng, samples, seed, action)


@cache
def _defined(key: str) -> tuple[MechanicalSystem | NonholonomicSystem, GroupAction | None]:
    """A system of `connections.systems` and its group, cached so that all seeds share compiled functions."""
    from connections import systems  # imports SymPy

    return systems.NAMES[key]().numeric(), systems.ACTIONS[key]() if key in systems.ACTIONS else None
