"""Machine code in the wheel, if ``CONNECTIONS_MACHINE_CODE`` names levels (docs/releasing.md)."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MachineCode(BuildHookInterface):
    """A hook of the wheel. Without the variable, and in an editable install, it does nothing."""

    def initialize(self, version, build_data):
        """Compile for each level, and add the archives to the wheel, which is then for one platform."""
        levels = os.environ.get("CONNECTIONS_MACHINE_CODE", "").split()
        if not levels or version == "editable":
            return
        self.folder = tempfile.TemporaryDirectory()
        command = [sys.executable, "-m", "connections.control.whole_body.shipping", self.folder.name, *levels]
        subprocess.run(command, cwd=self.root, check=True)
        for path in Path(self.folder.name).iterdir():
            build_data["force_include"][str(path)] = f"connections/engines/machine_code/{path.name}"
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version, build_data, artifact_path):
        """Remove the archives."""
        if hasattr(self, "folder"):
            self.folder.cleanup()
