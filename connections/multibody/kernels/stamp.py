"""A fingerprint of the kernels' sources and constants, compiled into every entry.

Numba keeps machine code on disk. To find out whether the code is current, it looks only at the file of the
entry itself, not at the files of the kernels that are compiled into it. So every entry carries the
fingerprint of the sources from which it was compiled, and `dynamics/compiled.py` compiles it again if they
have changed.
"""

import hashlib
from pathlib import Path

from connections.geometry.scales import POINT_TOLERANCE
from connections.multibody import tolerances

_HERE = Path(__file__).parent


def _fingerprint() -> int:
    """A hash of this folder, the table and templates from which entries are rendered, and all tolerances."""
    digest = hashlib.sha256(repr(POINT_TOLERANCE).encode())
    rendering = [_HERE.parent / "dynamics" / name for name in ("table.py", "entries.py")]
    for path in (*sorted(_HERE.glob("*.py")), *rendering, Path(tolerances.__file__)):
        digest.update(path.name.encode() + path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")


STAMP = _fingerprint()
