"""The library geomstats, imported at its first use, and conversion of arrays to and from its backend."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np


def backend() -> ModuleType:
    """``geomstats.backend``: NumPy, autograd or PyTorch, by GEOMSTATS_BACKEND at its first import.

    Raises
    ------
    ImportError : geomstats is not installed, or not compatible with this NumPy; says what to install.
    """
    try:
        import geomstats.backend as gs
    except Exception as error:  # with numpy 2.4, geomstats 2.8.0 fails with an AttributeError
        raise ImportError(
            f"geomstats could not be imported ({type(error).__name__}: {error}): "
            'pip install "geomstats>=2.8" "numpy>=2,<2.4"'
        ) from error
    module: ModuleType = gs
    return module


def as_numpy(value: Any) -> np.ndarray:
    """`value`, an array of any backend or a list of them, as a float64 array.

    Raises
    ------
    TypeError : not real numbers, or an array that autograd or PyTorch traces for a gradient.
    """
    if getattr(value, "requires_grad", False) or type(value).__name__ == "ArrayBox":
        raise TypeError(
            "geomstats' automatic differentiation cannot pass through this metric: use a method that needs "
            "no gradient of it, such as GeodesicRegression(method='extrinsic')"
        )
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, (list, tuple)):
        parts = [as_numpy(item) for item in value]
        if len({part.shape for part in parts}) > 1:
            raise TypeError("expected an array of real numbers, got lists of different lengths")
        value = np.array(parts)
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"expected an array of real numbers, got {array.dtype}")
    return array.astype(np.float64)


def as_backend(value: Any) -> Any:
    """`value`, of NumPy or JAX, as a float64 array of the backend."""
    array = np.array(value, dtype=np.float64)  # a copy: JAX's are read-only, which PyTorch does not accept
    return backend().from_numpy(array)
