"""Parts of a file that a model does not have, in the words of one warning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connections._shown import Shown, shown

MOST_NAMED = 5  # of one kind, in a warning


class LeftOutWarning(Shown, UserWarning):
    """A file has something that is not in the model: the robot that moves here may be another one.

    There is one for a file, which names each kind of thing, its lines, and what the model is without it. What
    acts on the robot as a passive force is in ``model.passive.left_out``, too.

    Examples
    --------
    >>> import warnings
    >>> from connections import multibody as mb
    >>> text = '''<mujoco><worldbody><site name="hook" pos="1 0 0"/><body><joint name="hinge"/>
    ...   <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.4"/><site name="eye"/></body></worldbody>
    ...   <tendon><spatial name="wire"><site site="hook"/><site site="eye"/></spatial></tendon></mujoco>'''
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", mb.LeftOutWarning)
    ...     mb.from_mjcf(text)
    ...
    Traceback (most recent call last):
        ...
    connections.multibody.description.left_out.LeftOutWarning: the text: not in the model as the file has it:
    the spatial tendon 'wire' (<spatial>, line 3): without it no cable runs over the bodies: no spring,
    friction, range or motor of it acts
    """


@dataclass(frozen=True)
class LeftOut:
    """One thing that a file has and the model has not.

    Parameters
    ----------
    what : a phrase, such as "the gravity compensation of body 'hand'", or the element as it is written.
    words : what the model is without it; of all things of one kind the same, or empty.
    lines : where the file says it; none if it is not known.
    where : the element and attribute, as it is written; empty if `what` says it.
    passive : whether it is a passive force.
    """

    what: str
    words: str = ""
    lines: tuple[int | str, ...] = ()
    where: str = ""
    passive: bool = False

    @property
    def name(self) -> str:
        """The name of the thing and where it is, one entry of `Passive.left_out`."""
        return f"{self.what}: {self.where}" if self.where else self.what


def sentence(found: Iterable[LeftOut]) -> str:
    """A warning's text about the things that are left out, a line for each kind; empty if nothing is."""
    kinds: dict[tuple[str, str], list[LeftOut]] = {}
    for each in found:
        kinds.setdefault((each.words, each.where or each.what), []).append(each)
    if not kinds:
        return ""
    return "not in the model as the file has it:\n" + "\n".join(_line(kind) for kind in kinds.values())


def _line(kind: Sequence[LeftOut]) -> str:
    named = list(dict.fromkeys(shown(each.what) for each in kind))
    text = ", ".join(named[:MOST_NAMED])
    text += f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    lines = list(dict.fromkeys(line for each in kind for line in each.lines if line))
    places = [kind[0].where] if kind[0].where else []
    if lines:
        places.append(f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines[:MOST_NAMED]))}")
        places[-1] += " and others" if len(lines) > MOST_NAMED else ""
    text += f" ({', '.join(places)})" if places else ""
    return f"{text}: {kind[0].words}" if kind[0].words else text
