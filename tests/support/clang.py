"""Clang, also for other processors: from PyPI's wheel ziglang (100 MB, in no extra), or the system's."""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
import sys

import pytest

#: A Cortex-M7 with single precision, as `cortex_m7.py` of the benchmarks compiles for.
CORTEX_M7 = ["-target", "thumb-linux-musleabihf", "-mcpu=cortex_m7+fp_armv8d16sp"]
#: All warnings but those about C before 1999, padding, and indices, which C++ would have in classes.
STRICTEST = ["-Weverything", "-Werror", "-Wno-declaration-after-statement", "-Wno-padded"]
_OTHERS = ["-Wno-unsafe-buffer-usage", "-Wno-unknown-warning-option"]


def zig_clang() -> list[str]:
    """The command of ziglang's clang, which has the headers of other processors, too."""
    if importlib.util.find_spec("ziglang") is None:
        reason = "ziglang, a clang for all processors, is not installed: pip install ziglang, as .ci/run does"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return [sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=all", *_OTHERS]


def any_clang() -> list[str]:
    """The command of a clang: the system's, or ziglang's; in CI always the latter."""
    found = None if os.environ.get("CI") else shutil.which("clang")
    return [found, *_OTHERS] if found else zig_clang()


def machine_code(elf: bytes) -> int:
    """Bytes of machine code in an object file of 32 bits."""
    (sections,) = struct.unpack_from("<I", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 46)
    headers = (struct.unpack_from("<10I", elf, sections + k * size) for k in range(count))
    return sum(header[5] for header in headers if header[2] & 4)  # executable
