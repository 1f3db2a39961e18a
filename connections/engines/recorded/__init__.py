"""Kernels executed on numbers that record what is computed with them, and C code from such records."""
