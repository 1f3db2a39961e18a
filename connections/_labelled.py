"""Arrays with names, of the library xarray, which is an extra: one place says how to install it."""

from __future__ import annotations

from typing import Any

from connections._distribution import how_to_install


def xarray() -> Any:
    """The module.

    Raises
    ------
    ImportError : it is not installed; the message has the command.
    """
    try:
        import xarray as module
    except ImportError as error:
        raise ImportError(f"to_xarray needs xarray: {how_to_install('xarray')}") from error
    return module
