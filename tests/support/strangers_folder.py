"""A stranger's folder: a module of every name that Python could search there, and files of settings."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ENTRY = Path(sys.executable).with_name("connections")
_MODULE = """\
import os
with open({marker!r}, "a") as file:
    file.write(__name__ + "\\n")
"""


def names() -> set[str]:
    """All names of Python's own modules, of installed ones, and those that are imported where they exist."""
    installed = set(metadata.packages_distributions())
    return {*sys.stdlib_module_names, *installed, "sitecustomize", "usercustomize", "connections"}


class StrangersFolder:
    """A folder in which nothing may run.

    Parameters
    ----------
    path : of a folder, which is made.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._marker = path / "strangers", path / "marker"
        self.path.mkdir()
        module = _MODULE.format(marker=str(self._marker))
        for name in names():
            if name.isidentifier():
                (self.path / f"{name}.py").write_text(module)
        (self.path / ".numba_config.yaml").write_text("nothing that Numba can read: [")
        (self.path / "matplotlibrc").write_text("axes.facecolor: red\n")

    @property
    def ran(self) -> list[str]:
        """What has run."""
        return self._marker.read_text().split() if self._marker.exists() else []

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the folder; entries of ``PYTHONPATH`` that mean the folder are there, too."""
        variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONSAFEPATH", "CONNECTIONS_QUIET")}
        return subprocess.run(
            words, cwd=self.path, env=variables | environment, capture_output=True, text=True, check=False
        )
