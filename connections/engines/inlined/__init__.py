"""Functions that Numba compiles into every kernel; after any edit here, kernels are compiled again."""

from connections.engines.internals import numba_import  # noqa: F401  # isort: skip
