"""Where the URDF files of the package example-robot-data lie, without importing Pinocchio."""

from __future__ import annotations

from functools import cache
from importlib.metadata import files
from pathlib import Path

NAMES = {
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "panda": "panda_description/urdf/panda.urdf",
    "anymal": "anymal_b_simple_description/robots/anymal.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "a1": "a1_description/urdf/a1.urdf",
}


@cache
def _all_paths() -> dict[str, Path]:
    found = {}
    for file in files("example-robot-data") or ():
        if file.suffix == ".urdf":
            path = Path(str(file.locate())).resolve()
            found[path.as_posix().split("/robots/", 1)[1]] = path
    return found


def robot_path(name: str) -> Path:
    """The URDF file of a robot, by a name of `NAMES` or by its path below ``robots/``.

    Raises
    ------
    FileNotFoundError : example-robot-data has no such robot.
    """
    try:
        return _all_paths()[NAMES.get(name, name)]
    except KeyError:
        raise FileNotFoundError(f"example-robot-data has no robot '{name}'") from None


def all_robots() -> list[str]:
    """Paths below ``robots/`` of all URDF files, sorted."""
    return sorted(_all_paths())
