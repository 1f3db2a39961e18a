"""The names of the built-in systems, for help and errors that import none of them.

First come the systems of `verify.built_in`, then those of `connections.systems`. A test compares the names
with these two tables.
"""

import re

from connections._words import did_you_mean

SYSTEM_NAMES = (
    "point-mass",
    "sphere",
    "spinning-body",
    "rigid-body",
    "random-frame",
    "planar-arm",
    "snakeboard",
    "roller-racer",
    "rolling-disc",
    "heisenberg-particle",
    "chaplygin-sleigh",
    "trailer",
    "planar-body",
)


def hyphened(name: str) -> str:
    """The name in lower case, its words joined by hyphens."""
    return re.sub(r"[\s_-]+", "-", name.strip().lower())


def no_system(name: str) -> str:
    """An error's words, in two lines, if there is no system of this name; an empty text if there is one."""
    key = hyphened(name)
    if key in SYSTEM_NAMES:
        return ""
    nearest = did_you_mean(key, SYSTEM_NAMES)
    return f"there is no system {name!r}{nearest}\nThe systems are {', '.join(SYSTEM_NAMES)}."
