"""Sweeps that a Python file defines: ``connections sweep python my_sweep.py:motions``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from connections.sweeps.fingerprint import require_installed
from connections.sweeps.sweep import Sweep
from connections.verify.python_files import Wanted, object_from_file

_SWEEP = Wanted(
    lambda thing: isinstance(thing, Sweep),
    "compute",
    "Expected a Sweep, or a function that returns one; only its argument rows, --rows, may have no default.",
    ("rows",),
)


def sweep_from_file(
    path: Path, attribute: str, rows: int | None = None, chunk: int | None = None, seed: int | None = None
) -> Sweep:
    """The sweep that a Python file defines.

    What the file defines is pickled by value, as of a script, so that workers need not find the file; they
    import the modules that it imports.

    Parameters
    ----------
    path : the file, which ends in ``.py``.
    attribute : a `Sweep`, or a function that returns one, without arguments or with ``rows``.
    rows : given to that function.
    chunk, seed : in place of the sweep's own.

    Raises
    ------
    SubjectError : there is no such file or attribute, the attribute is of another type, or the file's code
        raises an error, which is the cause.
    """
    require_installed()
    import cloudpickle  # of distributed

    found = object_from_file(path, attribute, _SWEEP, {} if rows is None else {"rows": rows})
    cloudpickle.register_pickle_by_value(found.module)
    own: dict[str, Any] = {"chunk": chunk, "seed": seed}
    given = {name: value for name, value in own.items() if value is not None}
    sweep: Sweep = dataclasses.replace(found.thing, **given)
    return sweep
