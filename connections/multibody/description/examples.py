"""Robots that come with the package, small ones of our own: `example`, and their URDF files.

>>> from connections import multibody as mb
>>> mb.example("arm")
Model(6 bodies, nq=6, nv=6)
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from connections._words import no_such
from connections._written import data_folder
from connections.checks import ModelError
from connections.multibody.description.urdf import from_urdf
from connections.multibody.model import Model

FOLDER = data_folder("connections.multibody.description", "robots")


class _Example(NamedTuple):
    summary: str
    floating_base: bool = False


#: one for each file of `FOLDER`
_EXAMPLES = {
    "arm": _Example("an arm with six revolute joints on a fixed base, 1 m long"),
    "quadruped": _Example("four legs of three joints each on a floating base, 18 kg", floating_base=True),
    "four_bar": _Example("a four-bar linkage in a vertical plane: one closed loop, driven by a crank"),
}


def examples() -> dict[str, str]:
    """The names that `example` takes, each with a sentence about the robot.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> sorted(mb.examples())
    ['arm', 'four_bar', 'quadruped']
    """
    return {name: robot.summary for name, robot in _EXAMPLES.items()}


def example(name: str) -> Model:
    """A small robot with plausible inertias; it is not singular at q = neutral().

    Parameters
    ----------
    name : "arm", "quadruped" (which has a floating base) or "four_bar"; `examples` lists them.

    Raises
    ------
    ModelError : there is no such example; the message lists the names.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> mb.example("arm")
    Model(6 bodies, nq=6, nv=6)
    >>> mb.example("arn")
    Traceback (most recent call last):
        ...
    connections.checks.ModelError: name: there is no example 'arn'; did you mean arm? The examples are
    arm, quadruped, four_bar
    """
    path = example_path(name)
    return from_urdf(path, floating_base=_EXAMPLES[name].floating_base)


def example_path(name: str) -> Path:
    """The URDF file of an example, for other programs; that of "four_bar" has a loop of URDF+.

    Parameters
    ----------
    name : one of `examples`.

    Raises
    ------
    ModelError : there is no such example; the message lists the names.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> path = mb.example_path("arm")
    >>> path.name
    'arm.urdf'
    >>> mb.from_urdf(path) == mb.example("arm")
    True
    """
    if not isinstance(name, str) or name not in _EXAMPLES:
        raise ModelError("name: " + no_such("example", name, list(_EXAMPLES)))
    return FOLDER / f"{name}.urdf"
