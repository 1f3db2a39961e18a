"""The user's modules that define a function: their text, and the packages that they import.

A module is the user's if its file lies neither in the standard library, nor where packages are installed, nor
in this library. The whole text of such a module counts, and the text of all user's modules that it imports,
also inside of functions.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

_INSTALLED = ("site-packages", "dist-packages")
_NOT_THE_USERS = {*sys.stdlib_module_names, __name__.partition(".")[0]} - {"__main__"}


def is_users(module: str | None) -> bool:
    """Whether a module is the user's, imported yet or not; a module without a file may be."""
    if not module or module.partition(".")[0] in _NOT_THE_USERS:
        return False
    file = file_of(module)
    return file is None or not any(part in _INSTALLED for part in file.parts)


def file_of(module: str) -> Path | None:
    """The file of a module, found without importing it; None if it has none, as in a notebook."""
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if loaded or module in sys.modules:
        return Path(loaded) if loaded and Path(loaded).is_file() else None
    places, name, file = None, "", None
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, places)
        if spec is None:
            return None
        file = Path(spec.origin) if spec.has_location and spec.origin else None
        places = list(spec.submodule_search_locations or ())
    return file


def sources(modules: Iterable[str]) -> tuple[dict[str, str], set[str]]:
    """Hashes of modules of the user, and of the modules that they import.

    Returns
    -------
    The SHA-256 of each file, by the name of the module; and the names of the installed packages that are
    imported.
    """
    texts: dict[str, str] = {}
    packages: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in texts:
            continue
        if not is_users(module):
            packages.add(module.partition(".")[0])
            continue
        file = file_of(module)
        if file is None:  # a name that is imported from a module, not a module
            continue
        text = file.read_bytes()
        texts[module] = hashlib.sha256(text).hexdigest()
        if file.suffix == ".py":
            waiting += _imported(text, module, file.name == "__init__.py")
    return dict(sorted(texts.items())), packages - _NOT_THE_USERS


def _imported(text: bytes, module: str, is_package: bool) -> Iterator[str]:
    """The modules that a text imports, with their parents; for ``from m import x``, m and m.x."""
    parents = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names] if base else []
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def version_of(package: str) -> str:
    """The version of the distribution that installed a package; empty if there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        pass
    installed = metadata.packages_distributions().get(package)  # 0.3 s, so only if the names differ
    return metadata.version(installed[0]) if installed else ""
