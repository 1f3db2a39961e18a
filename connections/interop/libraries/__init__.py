"""Other libraries of robot dynamics, with one adaptor each; a library is imported at its first use.

An adaptor is a module with `VARIANTS` ({name: what it is}, the first is the default), `read` (of a URDF) and,
where the library builds mechanisms, `build` (of a mechanism about one type of joint).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from types import MappingProxyType, ModuleType

from connections._distribution import how_to_install
from connections.interop.libraries.joint_examples import KINDS, JointExample, joint_example
from connections.interop.libraries.library import Description, LibraryError, LibraryRobot

__all__ = [
    "KINDS",
    "LIBRARIES",
    "Description",
    "JointExample",
    "Library",
    "LibraryError",
    "LibraryRobot",
    "installed_libraries",
    "joint_example",
    "library_named",
]


@dataclass(frozen=True)
class Library:
    """A library that can be audited.

    Parameters
    ----------
    name : on the command line, and of the adaptor's module.
    package : the name for import.
    distribution : the name for pip.
    gives : "C" for a Coriolis matrix, "C v" for the vector only.
    """

    name: str
    package: str
    distribution: str
    gives: str

    @property
    def installed(self) -> bool:
        """Whether its package can be found; it is not imported."""
        return importlib.util.find_spec(self.package) is not None

    @property
    def how_to_get(self) -> str:
        """The command that installs it."""
        return f"pip install {self.distribution} (or all of them: {how_to_install('audit')})"

    @property
    def version(self) -> str:
        """The installed version."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return "of unknown version"

    def adaptor(self) -> ModuleType:
        """The module that reads robots with it.

        Raises
        ------
        LibraryError : the library is not installed.
        """
        if not self.installed:
            raise LibraryError(f"{self.name} is not installed: {self.how_to_get}")
        return importlib.import_module(f"connections.interop.libraries.{self.name}")

    def require_variant(self, variant: str) -> str:
        """The name of a variant, the default for an empty one.

        Raises
        ------
        LibraryError : the library is not installed, or has no such variant.
        """
        names = list(self.adaptor().VARIANTS)
        if variant and variant not in names:
            choices = ", ".join(f"{self.name}:{name}" for name in names if name) or self.name
            raise LibraryError(f"{self.name} has no variant '{variant}'; there are {choices}")
        return variant or names[0]


LIBRARIES: Mapping[str, Library] = MappingProxyType(
    {
        library.name: library
        for library in (
            Library("pinocchio", "pinocchio", "pin", "C"),
            Library("idyntree", "idyntree", "idyntree", "C"),
            Library("jaxsim", "jaxsim", "jaxsim", "C"),
            Library("roboticstoolbox", "roboticstoolbox", "roboticstoolbox-python", "C"),
            Library("mujoco", "mujoco", "mujoco", "C v"),
            Library("drake", "pydrake", "drake", "C v"),
        )
    }
)


def library_named(specification: str) -> tuple[Library, str]:
    """A library and the name of a variant from "name" or "name:variant"; the variant is empty if not given.

    Raises
    ------
    LibraryError : there is no adaptor of that name.
    """
    name, _, variant = specification.partition(":")
    if name not in LIBRARIES:
        raise LibraryError(f"unknown library '{name}'; there are adaptors for {', '.join(LIBRARIES)}")
    return LIBRARIES[name], variant


def installed_libraries() -> list[str]:
    """Names of the libraries that can be imported here."""
    return [name for name, library in LIBRARIES.items() if library.installed]
