"""Other libraries, both ways: spaces of geomstats; Coriolis matrices of libraries of robot dynamics."""

from connections.interop.geomstats import GeomstatsMetric, from_geomstats, import_geomstats, to_geomstats
from connections.interop.libraries import LibraryError, joint_example
from connections.interop.library_audit import LibraryAudit, audit_library

__all__ = [
    "GeomstatsMetric",
    "LibraryAudit",
    "LibraryError",
    "audit_library",
    "from_geomstats",
    "import_geomstats",
    "joint_example",
    "to_geomstats",
]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "adaptors": "QUANTITIES",
    "libraries": "KINDS LIBRARIES installed_libraries library_named",
    "library_runs": "Request audits_apart require_readable",
    "other_python": "NotGivenError OtherPython OtherRobot TIMEOUT",
}
