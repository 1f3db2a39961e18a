"""The one place where JAX is configured: float64, and a folder that keeps what was compiled.

Importing ``connections`` switches ``jax_enable_x64`` on for the whole process. Curvature needs second
derivatives and the propositions are checked to 1e-9, neither of which single precision can hold. With
``JAX_ENABLE_X64=0`` in the environment it is left off, and a warning says what that means.

JAX's persistent cache is switched on in the user's cache folder (``$XDG_CACHE_HOME`` or ``~/.cache``), so
that the second process does not compile what the first one has compiled. It is left as it is if a folder is
configured, as by ``JAX_COMPILATION_CACHE_DIR``; ``JAX_ENABLE_COMPILATION_CACHE=false`` switches it off. There
is none without a folder that can be written. Machine code depends on the processor, so the folder does, too.

Nothing is set if the fixture of `pytest_affine_connections` imports the package, for a project whose tests
are about another library.

What was set is a line of the logger ``connections``, level INFO. What all rooms need for the types of arrays
is here, too.
"""

import atexit
import hashlib
import logging
import os
import platform
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike as ArrayLike

from connections._cache_folder import cache_folder, remove_oldest

#: Options of XLA with which functions compile in half the time; those of one point are as fast. JAX 0.11 has
#: no fusion emitters that could be switched off, and refuses the option.
_EMITTERS = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else {}
QUICK_OPTIONS: dict[str, Any] = {**_EMITTERS, "xla_cpu_parallel_codegen_split_count": 1}

_OFF = ("0", "false", "no", "off", "n", "f")  # what JAX reads as False

#: What public functions return: NumPy's for NumPy's and for lists, JAX's if an argument is JAX's.
Array = np.ndarray | jax.Array
SameArray = TypeVar("SameArray", jax.Array, np.ndarray)  # what goes in comes out
Value = TypeVar("Value")  # an array, or several

#: `jax.numpy.linalg.solve`, which has no types in JAX.
solve: Callable[[Array, Array], jax.Array] = jnp.linalg.solve


def in_jax(value: ArrayLike) -> jax.Array:
    """The array of JAX with these numbers; a tracer stays one. Nothing is compiled.

    Outside of `jit`, `jnp.asarray` compiles a function for each shape of NumPy's arrays, in 10 ms.
    """
    return value if isinstance(value, jax.Array) else jax.device_put(np.asarray(value))


def unoptimized() -> str:
    """``XLA_FLAGS`` with which functions compile in the least time, for functions that run a few times."""
    options = {
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
        **QUICK_OPTIONS,
    }
    return " ".join(f"--{name}={str(value).lower()}" for name, value in options.items())


def compiled_folder() -> Path | None:
    """The folder for this version of JAX and this processor; None if there is none that can be written."""
    return cache_folder(f"jax-{jax.__version__}-{_processor()}")


def _processor() -> str:
    """A name of the processor's instruction set."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
        flags = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = platform.processor()
    return hashlib.sha256(f"{platform.machine()} {flags}".encode()).hexdigest()[:12]


def _use_float64() -> None:
    if os.environ.get("JAX_ENABLE_X64", "1").lower() not in _OFF:
        jax.config.update("jax_enable_x64", True)
        return
    warnings.warn(
        "JAX_ENABLE_X64 is off in the environment, so connections computes in float32: motions, checks and "
        "logarithms, which ask for 1e-9 and more, are refused or fail",
        stacklevel=_level_of_user(),
    )


def _level_of_user() -> int:
    """The `stacklevel` of a warning, by the caller, about the line that imports this package."""
    package, level, frame = str(Path(__file__).parent), 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((package, "<frozen importlib")):
        level += frame.f_code.co_filename.startswith(package)  # Python does not count its own
        frame = frame.f_back
    return level


def _keep_compiled_functions() -> None:
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None or not config.jax_enable_compilation_cache:
        return
    folder = compiled_folder()
    if folder is None:
        return
    config.update("jax_compilation_cache_dir", str(folder))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    if "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES" not in os.environ:
        config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    atexit.register(remove_oldest, folder)


_plugin = sys.modules.get("pytest_affine_connections")
if _plugin is None or not _plugin.AS_GUEST.get():
    _use_float64()
    _keep_compiled_functions()
logging.getLogger("connections").info(
    "connections: JAX computes in %s; compiled functions are kept in %s",
    "float64" if getattr(jax.config, "jax_enable_x64", False) else "float32",
    getattr(jax.config, "jax_compilation_cache_dir", None) or "memory only",
)
