"""Robots by name: `load`, from the files of installed packages, and through `robot_descriptions`."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from importlib import metadata
from pathlib import Path
from typing import Any

from connections._words import no_such, words_of
from connections.checks import ModelError
from connections.multibody.description.mjcf import from_mjcf
from connections.multibody.description.urdf import from_urdf
from connections.multibody.model import Model

_NAMED = 5  # files that a message names
_ROBOTS = "robot_descriptions"


def load(name: str, **options: Any) -> Model:
    """The model of a robot that another package describes.

    Parameters
    ----------
    name : ``"PACKAGE:PATH"``, a URDF or MJCF file of an installed package, by its name for pip and the end of
        its path, such as ``"example-robot-data:ur5_robot.urdf"``; no network is needed. Or a name of
        `robot_descriptions`, if that is installed, such as ``"ur5_description"``: it downloads what it has
        not downloaded before.
    options : those of `from_urdf` or `from_mjcf`, such as ``floating_base=True``.

    Raises
    ------
    ModelError : the package is not installed, or has no such file, or several; the file is one for xacro; as
        `from_urdf` and `from_mjcf`.
    TypeError : `name` is not text, or there is no such option.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.load("example-robot-data:ur5_robot.urdf")
    >>> robot
    Model(6 bodies, nq=6, nv=6)
    >>> mb.load("example-robot-data:no_such_robot.urdf")
    Traceback (most recent call last):
        ...
    connections.checks.ModelError: package 'example-robot-data': none of its 70 files of robots ends
    with 'no_such_robot.urdf'; the most alike are ur5_robot.urdf, ur3_robot.urdf, ur10_robot.urdf,
    solo.urdf, bolt.urdf
    """
    if not isinstance(name, str):
        raise TypeError(f"name: expected text, got {words_of(name)}")
    package, separator, path = name.partition(":")
    file = _file_of_package(package, path) if separator else _file_of_module(name)
    if file.suffix == ".xacro":
        raise ModelError(f"{file}: expand it first, by xacro FILE > robot.urdf")
    return (from_mjcf if file.suffix == ".xml" else from_urdf)(file, **options)


def _file_of_package(package: str, path: str) -> Path:
    """The file of an installed package whose path ends with `path`."""
    try:
        files = metadata.distribution(package).files or ()
    except (metadata.PackageNotFoundError, ValueError) as error:
        raise ModelError(f"there is no installed package {package!r}: pip install {package}") from error
    robots = [file for file in files if file.suffix in (".urdf", ".xml")]
    found = [file for file in robots if f"/{file.as_posix()}".endswith(f"/{path}")]
    if not found:
        alike = difflib.get_close_matches(path, {file.name for file in robots}, _NAMED, 0.0)
        raise ModelError(
            f"package {package!r}: none of its {len(robots)} files of robots ends with {path!r}; "
            f"the most alike are {', '.join(alike)}"
        )
    if len(found) > 1:
        raise ModelError(
            f"package {package!r} has {len(found)} files {path!r}; write more of the path, such as "
            f"'{package}:{'/'.join(found[0].parts[-2:])}'"
        )
    return Path(str(found[0].locate()))


def _file_of_module(name: str) -> Path:
    """The file of a robot of `robot_descriptions`."""
    try:
        package = importlib.import_module(_ROBOTS)
    except ImportError as error:
        raise ModelError(
            f"load({name!r}) needs robot_descriptions: pip install robot_descriptions; or name a file of an "
            'installed package, load("PACKAGE:PATH")'
        ) from error
    modules = (module.name for module in pkgutil.iter_modules(package.__path__))
    names = [module for module in modules if module.endswith("_description")]
    if name not in names:
        raise ModelError(f"robot_descriptions: {no_such('robot', name, names)}")
    try:
        module: Any = importlib.import_module(f"{_ROBOTS}.{name}")
    except Exception as error:  # of git, where it downloads
        raise ModelError(f"robot_descriptions cannot give '{name}': {error}") from error
    paths = (getattr(module, each, None) for each in ("URDF_PATH", "MJCF_PATH", "XACRO_PATH"))
    path = next((path for path in paths if path is not None), None)
    if path is None:
        raise ModelError(f"robot_descriptions: '{name}' has neither a URDF nor an MJCF file")
    return Path(path)
