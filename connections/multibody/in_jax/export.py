"""Functions of robots in what `jax.export` writes to a file, for another process or machine.

XLA knows the package's compiled functions from the import of `connections.multibody` on, and they are
compiled when a program that calls them is loaded (`engines.exported`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from jax.export import DisabledSafetyCheck

from connections.engines.exported import TARGET, Functions, register
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.data_packing import OF_DATA, OF_EACH, write_data

#: Constants that functions refer to: what kinds are called in arrays, where numbers are, what counts as zero.
_LAYOUT = (
    "connections.multibody.clusters",
    "connections.multibody.kernels.elementary_joints",
    "connections.multibody.kernels.layout",
    "connections.multibody.program.data_packing",
    "connections.multibody.tolerances",
)


def export_checks() -> list[DisabledSafetyCheck]:
    """The argument `disabled_checks` of `jax.export.export` for functions that call recursions.

    JAX refuses to export calls whose targets it does not know. Those of recursions can be loaded in any
    process that has imported `connections.multibody`, if it has the same sources of the recursions; of other
    sources, loading is an error that says so. The robot's numbers are in the exported program.

    Examples
    --------
    >>> import jax
    >>> from jax import export
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> inertia = jax.jit(lambda q: mb.mass_matrix(robot, q))
    >>> exported = export.export(inertia, disabled_checks=mb.codegen.export_checks())(robot.neutral())
    >>> export.deserialize(exported.serialize()).call(robot.neutral()).shape
    (6, 6)
    """
    from jax.export import DisabledSafetyCheck

    return [DisabledSafetyCheck.custom_call(TARGET)]


def _entry(operation: str) -> str:
    """The compiled function of an operation."""
    return operation.removesuffix(OF_DATA).removesuffix(OF_EACH)


@cache
def _version(name: str) -> str:
    from connections.engines.source_fingerprint import functions_within, text_fingerprint

    if _entry(name) not in compiled.names:
        raise KeyError(name)
    within = {function.__module__ for function in functions_within(compiled.function(_entry(name)))}
    return text_fingerprint(*_LAYOUT, *(name for name in within if name.startswith("connections.")))[:16]


def _handler(name: str, form: str) -> Callable[[int], int]:
    from connections.engines import xla  # imports Numba

    return xla.checked_handler(name, compiled.require(_entry(name)), form, write_data)


register(Functions(_version, _handler))
