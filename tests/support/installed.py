"""The package as a wheel installs it: in a folder of its own, with metadata by which pytest finds the plugin.

The tests' own environment is editable, in which pytest, pip and Python treat the package as a checkout.
"""

import shutil
from pathlib import Path

import connections

METADATA = {
    "METADATA": "Metadata-Version: 2.1\nName: affine-connections\nVersion: 0.2.0\n",
    "entry_points.txt": "[pytest11]\naffine-connections = pytest_affine_connections\n",
    "RECORD": "connections/__init__.py,,\npytest_affine_connections.py,,\n",
}


def install(folder: Path) -> Path:
    """Lay the package into a new folder, as a wheel does; returns the folder, for ``PYTHONPATH``."""
    package = Path(connections.__file__).parent
    shutil.copytree(package, folder / "connections", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(package.parent / "pytest_affine_connections.py", folder)
    about = folder / "affine_connections-0.2.0.dist-info"
    about.mkdir()
    for name, text in METADATA.items():
        (about / name).write_text(text)
    return folder
