"""The rooms of the package form a line, and imports go down it, never up."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import connections

PACKAGE = Path(connections.__file__).parent

# Import order: a module may import from its own room and from the rooms before it.
ROOMS = (
    "_jax",
    "checks",
    "geometry",
    "affine",
    "coriolis",
    "multibody",
    "control",
    "symbolic",
    "systems",
    "interop",
    "__init__",  # the public names; rooms before this one never import `connections` itself
    "verify",
    "sweeps",
    "plots",
    "explorer",
    "cli",
)

# External packages with one place to live: package -> modules that may import it ("room/" admits the room).
CONFINED = {
    "numba": ("multibody/",),
    "networkx": ("multibody/graph.py",),
    "matplotlib": ("plots/",),
    "yourdfpy": ("multibody/",),
    "mujoco": ("multibody/", "interop/"),
    "sympy": ("symbolic/", "systems/"),
    "geomstats": ("interop/",),
    "diffrax": ("affine/",),
    "dask": ("sweeps/", "multibody/recursions/blockwise.py"),
    "distributed": ("sweeps/",),
    "zarr": ("sweeps/",),
    "viser": ("explorer/",),
    "pinocchio": ("interop/",),
    "idyntree": ("interop/",),
    "jaxsim": ("interop/",),
    "roboticstoolbox": ("interop/",),
    "pydrake": ("interop/",),
    "pytest": (),
}

# `import connections` must stay quick: these are imported by the functions that need them.
LAZY = tuple(set(CONFINED) - {"pytest"})


def modules() -> list[str]:
    """Paths of all modules, relative to the package."""
    return sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


def room_of(module: str) -> str:
    """The room of a module path: its first directory, or its own stem."""
    return module.split("/")[0].removesuffix(".py")


def imported_names(source: str, module: str) -> Iterator[str]:
    """Absolute dotted names imported anywhere in the source, inside functions too."""
    package = ["connections", *module.split("/")[:-1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *(node.module or "").split(".")] if node.module else base
            yield from (".".join([*base, alias.name]) for alias in node.names)


def room_imported(name: str) -> str | None:
    """The room that a dotted name belongs to, None for other packages."""
    parts = name.split(".")
    if parts[0] != "connections":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "__init__"


def violations(source: str, module: str) -> list[str]:
    """What is wrong with the imports of one module, in words."""
    room = room_of(module)
    if room not in ROOMS:
        return [f"{module}: the room {room!r} is not in the list"]
    found = []
    for name in imported_names(source, module):
        other = room_imported(name)
        if other is not None:
            allowed = ROOMS.index("interop") if room == "__init__" else ROOMS.index(room)
            if other != room and ROOMS.index(other) > allowed:
                found.append(f"{module}: imports {name}, upward from {room} to {other}")
            continue
        homes = CONFINED.get(name.split(".")[0])
        if homes is not None and not any(
            module == home or (home[-1] == "/" and module.startswith(home)) for home in homes
        ):
            found.append(f"{module}: imports {name}, which belongs in {', '.join(homes) or 'tests'}")
    return found


@pytest.mark.parametrize("module", modules())
def test_imports_go_down(module: str) -> None:
    assert violations((PACKAGE / module).read_text(), module) == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        (
            "geometry/made_up.py",
            "from connections.affine.koszul import koszul",
            "upward from geometry to affine",
        ),
        ("geometry/made_up.py", "from ..affine import LeviCivita", "upward from geometry to affine"),
        ("geometry/made_up.py", "from connections import multibody", "upward from geometry to multibody"),
        ("affine/made_up.py", "def f():\n    import connections.cli", "upward from affine to cli"),
        ("affine/made_up.py", "import connections as cn", "upward from affine to __init__"),
        ("checks.py", "from connections import LeviCivita", "upward from checks to __init__"),
        ("control/made_up.py", "import numba", "belongs in multibody/"),
        ("multibody/model.py", "import networkx as nx", "belongs in multibody/graph.py"),
        ("verify/made_up.py", "import pytest", "belongs in tests"),
        ("attic/made_up.py", "import numpy", "'attic' is not in the list"),
    ],
)
def test_a_wrong_import_is_caught(module: str, source: str, complaint: str) -> None:
    (found,) = violations(source, module)
    assert complaint in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("affine/made_up.py", "from connections.geometry.frames import FrameField"),
        ("affine/made_up.py", "from .koszul import koszul"),
        ("multibody/graph.py", "import networkx as nx"),
        ("verify/made_up.py", "import connections as cn"),
        ("cli/made_up.py", "from connections import plots, verify"),
    ],
)
def test_a_right_import_passes(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_importing_the_package_is_lazy() -> None:
    program = f"import sys, connections; print(*sorted(set({LAZY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], "imported by `import connections`"


def test_double_precision_is_on() -> None:
    import jax.numpy as jnp

    assert jnp.zeros(1).dtype == jnp.float64
