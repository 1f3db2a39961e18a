"""The library geomstats, imported at its first use, and conversion of arrays to and from its backend."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from connections.checks import as_array


def import_geomstats() -> ModuleType:
    """The module ``geomstats``, imported as NumPy 2.4 and later do not let it be imported by itself.

    geomstats 2.8.0 takes the name ``trapz`` from NumPy, or from ``autograd.numpy`` if that is its backend.
    NumPy 2.4 has it no more: it is ``trapezoid``. While geomstats is imported, and no longer, ``trapz`` is
    there as another name of ``trapezoid``. Afterwards ``from geomstats.geometry... import ...`` works.
    `from_geomstats` and `to_geomstats` call this function themselves.

    Returns
    -------
    The module, with ``geomstats.backend``: NumPy, autograd or PyTorch, by GEOMSTATS_BACKEND then.

    Raises
    ------
    ImportError : geomstats is not installed, or cannot be imported; says what to install.

    Examples
    --------
    >>> from connections import interop
    >>> geomstats = interop.import_geomstats()
    >>> from geomstats.geometry.hypersphere import Hypersphere
    >>> interop.from_geomstats(Hypersphere(dim=2)).frame.dim
    2
    """
    try:
        with _trapz_while_imported():
            importlib.import_module("geomstats.backend")
    except Exception as error:  # it is no ImportError if an older geomstats asks NumPy for another name
        raise ImportError(
            f'geomstats could not be imported ({type(error).__name__}: {error}): pip install "geomstats>=2.8"'
        ) from error
    return importlib.import_module("geomstats")


@contextmanager
def _trapz_while_imported() -> Iterator[None]:
    """`trapz` as a name of `trapezoid` in the modules where geomstats's backend looks for it."""
    modules: list[ModuleType] = [np]
    if os.environ.get("GEOMSTATS_BACKEND") == "autograd":  # it copies NumPy's names when it is imported
        modules.append(importlib.import_module("autograd.numpy"))
    lacking = [module for module in modules if "trapz" not in vars(module)]
    for module in lacking:
        vars(module)["trapz"] = vars(module)["trapezoid"]
    try:
        yield
    finally:
        for module in lacking:
            del vars(module)["trapz"]


def backend() -> Any:
    """The module ``geomstats.backend``; raises what `import_geomstats` raises."""
    imported = sys.modules.get("geomstats.backend")
    return import_geomstats().backend if imported is None else imported


def as_numpy(value: Any, name: str = "geomstats' array") -> np.ndarray:
    """`value`, an array of any backend or a list of them, as a float64 array of its own.

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
        parts = [as_numpy(item, name) for item in value]
        if len({part.shape for part in parts}) > 1:
            raise TypeError(f"{name}: expected an array of real numbers, got lists of different lengths")
        value = np.array(parts)
    return np.array(as_array(name, value, ()))


def as_backend(value: Any) -> Any:
    """`value`, of NumPy or JAX, as a float64 array of the backend."""
    array = np.array(value, dtype=np.float64)  # a copy: JAX's are read-only, which PyTorch does not accept
    return backend().from_numpy(array)
