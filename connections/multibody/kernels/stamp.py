"""A fingerprint of the kernels' sources and constants, compiled into every entry.

Numba keeps machine code on disk and looks only at the file of the entry itself, not at those of the kernels
that are compiled into it. So every entry carries the fingerprint of the sources that it was compiled from;
`compiled` asks for it, and compiles again where it is not today's.
"""

import hashlib
from pathlib import Path

from connections.geometry.scales import POINT_TOLERANCE
from connections.multibody import tolerances

_HERE = Path(__file__).parent


def _fingerprint() -> int:
    """Of this folder, of the table and the templates from which entries are rendered, of all tolerances."""
    digest = hashlib.sha256(repr(POINT_TOLERANCE).encode())
    rendering = [_HERE.parent / "dynamics" / name for name in ("table.py", "entries.py")]
    for path in (*sorted(_HERE.glob("*.py")), *rendering, Path(tolerances.__file__)):
        digest.update(path.name.encode() + path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")


STAMP = _fingerprint()
