"""Names of what an MJCF file has. What has none gets one that no other thing of its kind has."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

#: By kind: MuJoCo's type of object, and what a thing without a name is called, with its number.
_KINDS = {
    "joint": ("mjOBJ_JOINT", "joint"),
    "body": ("mjOBJ_BODY", "body"),
    "site": ("mjOBJ_SITE", "site"),
    "equality": ("mjOBJ_EQUALITY", "number"),
    "tendon": ("mjOBJ_TENDON", "number"),
    "actuator": ("mjOBJ_ACTUATOR", "number"),
    "flex": ("mjOBJ_FLEX", "number"),
    "keyframe": ("mjOBJ_KEY", "key"),
}
_MARK = " (unnamed)"


def name_of(compiled: Any, kind: str, number: int) -> str:
    """The name of a thing of ``mujoco.MjModel``; if the file gives none, its kind and number.

    Parameters
    ----------
    kind : "joint", "body", "site", "equality", "tendon", "actuator", "flex" or "keyframe".
    """
    import mujoco

    name: str | None = mujoco.mj_id2name(compiled, _type(kind), number)
    if name:
        return name
    made = f"{_KINDS[kind][1]} {number}"
    while mujoco.mj_name2id(compiled, _type(kind), made) >= 0:
        made += _MARK
    return made


def unused(name: str, taken: Collection[str]) -> str:
    """The name, marked if it is taken."""
    while name in taken:
        name += _MARK
    return name


@cache
def _type(kind: str) -> Any:
    import mujoco

    return getattr(mujoco.mjtObj, _KINDS[kind][0])
