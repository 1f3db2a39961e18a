"""A fingerprint of the sources of machine code, compiled into every entry.

Numba caches machine code on disk. To find out whether the code is current, it looks only at the file of the
entry itself, not at the files of the functions that are compiled into it. So every entry contains the
fingerprint of the sources from which it was compiled, and `registry.Registry` compiles it again if they
have changed.
"""

import hashlib
from pathlib import Path

#: The sources that are compiled into the entries of every engine.
INLINED = Path(__file__).parent / "inlined"


def fingerprint(*sources: Path | float) -> int:
    """A hash of 56 bits of files, of all Python files of folders, and of constants."""
    digest = hashlib.sha256()
    for source in sources:
        if isinstance(source, Path):
            for path in sorted(source.glob("*.py")) if source.is_dir() else [source]:
                digest.update(path.name.encode() + path.read_bytes())
        else:
            digest.update(repr(source).encode())
    return int.from_bytes(digest.digest()[:7], "big")
