"""The fingerprint of the kernels, which every entry carries: `engines.fingerprint` says what for."""

from pathlib import Path

from connections.engines.fingerprint import INLINED, fingerprint
from connections.geometry.scales import POINT_TOLERANCE
from connections.multibody import tolerances
from connections.multibody.clusters import DIRECTION, DISTANCE, LINEAR, POSITION

_HERE = Path(__file__).parent
_RENDERING = [_HERE.parent / "dynamics" / name for name in ("table.py", "entries.py")]

#: Of this folder, of what is compiled into it, of the table and templates of the entries, of all tolerances,
#: of the numbers that kernels import from elsewhere.
STAMP = fingerprint(
    _HERE,
    INLINED,
    *_RENDERING,
    Path(tolerances.__file__),
    *(POINT_TOLERANCE, POSITION, DIRECTION, DISTANCE, LINEAR),
)
