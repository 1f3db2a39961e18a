"""The processor that Numba compiles for, and the levels of processors for which code is compiled in advance.

`CPU_NAME`, `CPU_FEATURES` (numba.core.config): what the environment says in place of the processor that the
process runs on. `get_host_cpu_features` (numba.core.codegen): what Numba takes of that one.

Levels are those of the System V ABI of x86-64, "Low Level System Information", table 3.1: each name is one
that LLVM knows as a processor, so that ``NUMBA_CPU_NAME=x86-64-v3`` compiles for it.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from connections.engines.internals import numba_import  # noqa: F401  # isort: skip

from numba.core import config
from numba.core.codegen import get_host_cpu_features

_V2 = {"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
#: The features that a processor of each level has; the highest level is first.
LEVELS = {"x86-64-v4": frozenset(_V4), "x86-64-v3": frozenset(_V3)}


def compiled_features() -> frozenset[str]:
    """LLVM's names of what the processor can do for which Numba compiles in this process."""
    chosen = vars(config)["CPU_FEATURES"]
    text = get_host_cpu_features() if chosen is None else chosen
    listed = {word[1:] for word in text.split(",") if word.startswith("+")}
    return LEVELS.get(str(vars(config)["CPU_NAME"]), frozenset()) | listed


def level() -> str | None:
    """The highest of `LEVELS` whose code this process may run; None if another processor is asked for."""
    name, chosen = vars(config)["CPU_NAME"], vars(config)["CPU_FEATURES"]
    if name is not None or chosen is not None:  # compiled for that one alone
        return name if name in LEVELS and not chosen else None
    features = compiled_features()
    return next((each for each, needs in LEVELS.items() if needs <= features), None)
