"""Other libraries, both ways: spaces of geomstats; Coriolis matrices of libraries of robot dynamics."""

from connections.interop.libraries import LibraryError, joint_example
from connections.interop.library_audit import LibraryAudit, audit_library

__all__ = ["LibraryAudit", "LibraryError", "audit_library", "joint_example"]
