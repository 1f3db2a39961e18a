"""A fingerprint of the kernels' sources and constants, compiled into every entry.

Numba keeps machine code on disk and looks only at the file of the entry itself, not at those of the kernels
that are compiled into it. So every entry carries the fingerprint of the sources that it was compiled from;
`compiled` asks for it, and compiles again where it is not today's.
"""

import hashlib
from pathlib import Path

from connections.geometry.scales import POINT_TOLERANCE
from connections.multibody import tolerances

# Files of this folder of which nothing is compiled into entries: an edit of them compiles nothing again.
IN_PYTHON = {
    "__init__.py",
    "arguments.py",
    "blockwise.py",
    "functions.py",
    "closed_definition.py",
    "compiled.py",
    "loop_solutions.py",
    "pieces.py",
    "program.py",
    "threads.py",
    "xla.py",
}


def _fingerprint() -> int:
    digest = hashlib.sha256(repr(POINT_TOLERANCE).encode() + Path(tolerances.__file__).read_bytes())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name not in IN_PYTHON:
            digest.update(path.name.encode() + path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")


STAMP = _fingerprint()
