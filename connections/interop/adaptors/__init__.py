"""Adaptors of libraries that live in environments of their own: one file each, which needs NumPy only.

No environment holds all libraries. So an adaptor is not imported here: `runner.py` imports it in the
interpreter that has the library, and calls go to and fro as arrays (`interop/other_python.py`). It has

- `PACKAGE`, `DISTRIBUTION`, the names for import and for pip, and `FORMATS`, the files it reads, best first;
- `load(path, floating)`, which returns a dictionary: the functions that the library has, of its own q and v
  (`mass_matrix` of q; `bias`, `coriolis` of q and v, without gravity; `gravity` of q); `joints`, names in the
  library's order; `floating`, how it writes the base's q and v, as arguments of `referee.floating`;
  `precision`, if that is not "float64"; `functions`, the names that its users know them by; `notes`.

What a library does not have is left out; for robots that it does not model, `load` raises
`NotImplementedError`. Any other error is the library's own, and its text is reported.
"""

from __future__ import annotations

from pathlib import Path

#: The functions that an adaptor may have.
QUANTITIES = ("mass_matrix", "bias", "coriolis", "gravity", "derivatives")
_FOLDER = Path(__file__).parent
RUNNER = _FOLDER / "runner.py"
#: {library: its adaptor}
ADAPTORS = {
    path.stem: path for path in sorted(_FOLDER.glob("*.py")) if path.stem not in ("__init__", "runner")
}
