"""Functions that Numba compiles into every kernel; after any edit here, kernels are compiled again."""
