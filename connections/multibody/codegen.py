"""A robot's functions for other programs: generated C and CUDA, and functions that JAX exports."""

from connections.multibody.generation.cuda_loading import load_cuda
from connections.multibody.generation.folder import generate_c
from connections.multibody.generation.loading import load_c
from connections.multibody.in_jax.export import export_checks

__all__ = ["export_checks", "generate_c", "load_c", "load_cuda"]
