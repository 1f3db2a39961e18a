"""Affine connections, Coriolis matrices and the geometry of mechanical systems."""

from typing import Any as _Any

from connections import (
    _figures,
    _interrupt,  # noqa: F401, I001  (imported first, so that Ctrl-C works while the rest is imported)
    _jax,  # noqa: F401  (then float64)
)
from connections.affine import *  # noqa: F403
from connections.checks import *  # noqa: F403
from connections.coriolis import *  # noqa: F403
from connections.geometry import *  # noqa: F403


def _figure_of(motion: _Any) -> _Any:
    from connections.plots import figure_motion

    return figure_motion(motion)


_figures.register(_figure_of)
