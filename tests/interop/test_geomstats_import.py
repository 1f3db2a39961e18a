"""What geomstats' import needs of NumPy: one name, for the time of the import."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from cases import further

# A NumPy of today's names, whatever its version: without `trapz`, which NumPy 2.4 took away.
IMPORT = """
import logging; logging.disable(logging.INFO)
import sys, warnings
import numpy as np, numpy.testing, numpy.typing, numpy.polynomial  # which geomstats imports, and names stay
warnings.simplefilter("ignore")
if vars(np).pop("trapz", None):
    np.__all__.remove("trapz")
modules = [np]
if BACKEND == "autograd":
    import autograd.numpy
    vars(autograd.numpy).pop("trapz", None)
    modules.append(autograd.numpy)
try:
    import geomstats.backend
except ImportError as error:
    assert "trapz" in str(error), error  # nothing else is missing
else:
    raise AssertionError("geomstats needs no name of NumPy: import_geomstats has nothing to do")
from connections import interop
before = [{name: id(value) for name, value in vars(module).items()} for module in modules]
if BREAK:
    import builtins
    builtins_import, names = builtins.__import__, []
    def refuse(name, *rest):
        if name.startswith("geomstats.geometry"):
            names.append(hasattr(np, "trapz"))
            raise RuntimeError("an import that fails")
        return builtins_import(name, *rest)
    builtins.__import__ = refuse
    try:
        interop.import_geomstats()
    except ImportError as error:
        assert "RuntimeError: an import that fails" in str(error) and names == [True], (error, names)
    else:
        raise AssertionError("no error")
else:
    geomstats = interop.import_geomstats()
    assert geomstats.backend.__name__ == "geomstats." + BACKEND, geomstats.backend
    gs = geomstats.backend
    assert float(gs.trapz(gs.array([0.0, 1.0, 2.0]), dx=0.5)) == 1.0
for module, names in zip(modules, before, strict=True):
    now = {name: id(value) for name, value in vars(module).items()}
    added = {name for name in now if name not in names and type(vars(module)[name]) is not type(sys)}
    assert not added and all(now.get(name) == value for name, value in names.items()), added
    assert not hasattr(module, "trapz")
"""


@pytest.mark.parametrize(
    ("backend", "broken"), [("numpy", False), further("autograd", False), further("numpy", True)]
)
def test_numpy_lends_one_name_for_the_import(backend: str, broken: bool) -> None:
    """In a process where geomstats is not imported yet. Its import without the name must fail."""
    program = f"BACKEND, BREAK = {backend!r}, {broken}\n{IMPORT}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "GEOMSTATS_BACKEND": backend},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
