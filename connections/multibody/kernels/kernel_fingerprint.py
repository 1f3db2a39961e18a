"""The fingerprint of the kernels, which every entry carries; `engines/source_fingerprint.py` says why."""

from pathlib import Path

from connections.engines.source_fingerprint import INLINED, fingerprint
from connections.geometry.numerics.scales import POINT_TOLERANCE
from connections.multibody import tolerances
from connections.multibody.clusters import DIRECTION, DISTANCE, LINEAR, POSITION, TWIST

_HERE = Path(__file__).parent
_RENDERING = [_HERE.parent / "program" / name for name in ("table.py", "entries.py")]

#: Of this folder, of what is compiled into it, of the table and templates of the entries, of all tolerances,
#: of the numbers that kernels import from elsewhere.
STAMP = fingerprint(
    _HERE,
    INLINED,
    *_RENDERING,
    Path(tolerances.__file__),
    *(POINT_TOLERANCE, POSITION, DIRECTION, DISTANCE, LINEAR, TWIST),
)
