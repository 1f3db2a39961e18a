"""The connections of a Lie group for which its one-parameter subgroups are the geodesics.

    Gamma^i_jk = (1/2 + beta) s^i_jk,    T = 2 beta s,    R = (beta^2 - 1/4) s s.

For beta = -1/2 the fields of the frame are parallel, for beta = +1/2 the invariant fields of the other side;
both are flat. For beta = 0 there is no torsion. Source: [CS]; docs/references.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from connections.affine.connection import AffineConnection
from connections.checks import as_number, is_traced
from connections.geometry.frames import FrameField
from connections.geometry.group_maps import require_group


@dataclass(frozen=True, eq=False, repr=False)
class CartanSchoutenConnection(AffineConnection):
    """Gamma^i_jk = (1/2 + beta) s^i_jk on a Lie group, whose geodesics are q exp(t e) for every beta.

    Parameters
    ----------
    group : an invariant frame: `SO2Frame`, `SO3Frame`, `SE2Frame`, `SE3Frame`, `MatrixLieGroup`,
        `CoordinateFrame` for R^n under addition, or a `ProductFrame` of such.
    beta : 0 for the connection without torsion; -1/2 if the fields of the frame are to be parallel, +1/2 for
        the invariant fields of the other side.

    Raises
    ------
    TypeError : the frame is no group's, or beta is not a number. NonFiniteError.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import affine
    >>> nabla = affine.CartanSchoutenConnection(cn.SO3Frame(), beta=0.5)
    >>> q = [0.0, 0.0, 0.0, 1.0]
    >>> float(nabla.torsion(q)[2, 0, 1]), bool(np.any(nabla.curvature(q)))
    (1.0, False)

    Source: [CS].
    """

    group: FrameField
    beta: Any = 0.0

    def __post_init__(self) -> None:
        require_group("group", self.group)
        if not is_traced(self.beta):
            object.__setattr__(self, "beta", as_number("beta", self.beta))

    @property
    def frame(self) -> FrameField:  # type: ignore[override]
        """The group's."""
        return self.group

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """(1/2 + beta) s, (n, n, n)."""
        Gamma: jax.Array = (0.5 + self.beta) * self.group.structure_functions_at(q)
        return Gamma

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """(1/2 + beta) [v, w], (n,)."""
        return jnp.einsum("ijk,j,k->i", self.coefficients_at(q), v, w)
