"""The quantities of a motion over time: arrays with the names, the titles and the units that show them.

What draws a motion and what hands it to other libraries read the same `Series`. Everything counts from 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from connections._words import did_you_mean
from connections.checks import require_names, require_text, require_untraced

Names = Sequence[str] | Mapping[str, Sequence[str]] | None
Units = Mapping[str, str | Sequence[str]] | None
Panels = Sequence[str] | Mapping[str, Sequence[int] | Sequence[Sequence[int]] | None] | None

_UNIT = re.compile(r"\s*\[(.*)\]\s*$")


@dataclass(frozen=True, eq=False)
class Series:
    """A quantity of a motion over time.

    Parameters
    ----------
    name : the attribute, as "q".
    values : (..., T) or (..., T, k); batch axes first.
    title : words for it, without the unit.
    unit : text, empty if it has none or is not known; or k texts, one for each component.
    components : k names, or None if none were given or there are no components.
    """

    name: str
    values: np.ndarray
    title: str
    unit: str | tuple[str, ...]
    components: tuple[str, ...] | None

    def unit_of(self, k: int) -> str:
        """The unit of component k."""
        return self.unit if isinstance(self.unit, str) else self.unit[k]


def series_of(
    arrays: Mapping[str, Any],
    titles: Mapping[str, str],
    time: tuple[int, ...],
    names: Names = None,
    units: Units = None,
) -> dict[str, Series]:
    """The quantities over time, by name: those with a title first.

    Parameters
    ----------
    arrays : by name; what does not have the axes `time` is left out.
    titles : of some of them, with the unit in brackets at the end.
    time : the batch axes and the number of times.
    names : of components: a list for every quantity that has as many, or lists by quantity.
    units : by quantity, in place of those of the titles; one for all components, or a list.

    Raises
    ------
    ValueError : a name or unit is of no quantity, or there are not as many as components. TypeError : JAX
        traces the motion.
    """
    ordered = [*(name for name in titles if name in arrays), *(name for name in arrays if name not in titles)]
    over_time = {name: arrays[name] for name in ordered if _follows(arrays[name], time)}
    require_untraced(**over_time)
    found = {name: np.asarray(array) for name, array in over_time.items()}
    for what, given in (("names", names), ("units", units)):
        if isinstance(given, Mapping):
            require_known(what, given, (*found, "times"))
        elif given is not None and (what == "units" or isinstance(given, str)):
            raise ValueError(f'{what}: expected {{"q": ...}}, by quantity; got {given!r}')
        elif given is not None:
            require_names(what, given)
    for name, unit in (units or {}).items():
        if isinstance(unit, str) or name == "times" or not isinstance(unit, list | tuple):
            require_text(f"units[{name!r}]", unit)
        elif len(require_names(f"units[{name!r}]", unit)) != (count := _count(found[name], time)):
            raise ValueError(f"units: got {len(unit)} for {name}, which has {count or 'no'} components")
    if isinstance(names, Sequence) and not any(_count(a, time) == len(names) for a in found.values()):
        counts = sorted({count for a in found.values() if (count := _count(a, time)) is not None})
        raise ValueError(f"names: got {len(names)}; the motion has quantities of {counts} components")
    shown = {}
    for name, values in found.items():
        known = _UNIT.search(titles.get(name, ""))
        unit = (units or {}).get(name, known[1] if known else "")
        own = unit if isinstance(unit, str) else tuple(unit)
        count = _count(values, time)
        given = names.get(name) if isinstance(names, Mapping) else names
        chosen = None if given is None else require_names("names", given)
        chosen = None if chosen is not None and given is names and len(chosen) != count else chosen
        if chosen is not None and len(chosen) != count:
            raise ValueError(f"names: got {len(chosen)} for {name}, which has {count or 'no'} components")
        shown[name] = Series(name, values, _UNIT.sub("", titles.get(name, name)), own, chosen)
    return shown


def require_known(what: str, given: Any, known: Sequence[str]) -> None:
    """Raise `ValueError` for a quantity that the motion does not have.

    Parameters
    ----------
    what : the argument.
    given : names of quantities.
    known : those of the motion.
    """
    for name in given:
        if name not in known:
            there = ", ".join(known)
            raise ValueError(
                f"{what}: the motion has no {name!r}{did_you_mean(str(name), known)}; it has {there}"
            )


# --- private -----------------------------------------------------------------------------------------------


def _follows(array: Any, time: tuple[int, ...]) -> bool:
    """Whether an array is a quantity over time, with components or without."""
    if array is None or isinstance(array, tuple | list):
        return False
    shape = np.shape(array)
    return shape[: len(time)] == time and len(shape) <= len(time) + 1


def _count(array: np.ndarray, time: tuple[int, ...]) -> int | None:
    """The number of components; None for a quantity without."""
    return array.shape[-1] if array.ndim > len(time) else None
