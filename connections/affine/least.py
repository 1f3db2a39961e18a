"""The member of the contorsion family with the least symbols, D = Alt(Gamma*).

Members are Gamma* - D with a 3-form D. Permutations of indices are isometries of three-index arrays in the
norm of any inner product, so Alt is an orthogonal projection onto the 3-forms, and for every D
|Gamma* - D|^2 = |Gamma* - Alt Gamma*|^2 + |Alt Gamma* - D|^2. Proofs: docs/least_coriolis.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.contorsion import ContorsionConnection
from connections.checks import require_type
from connections.evaluation.parameters import Parametrized
from connections.geometry.metrics import Metric


def least_connection(metric: Metric) -> ContorsionConnection:
    """The member of `ContorsionFamily` with the least |Gamma_ijk| in the metric's frame: D = Alt(Gamma*).

    D_ijk = (s_ijk + s_jki + s_kij) / 6 with s_ijk = <<X_i, [X_j, X_k]>>. It is the least at every point, in
    the norm that any inner product of velocities gives three-index arrays, and every other member exceeds it
    by Pythagoras: |Gamma_other|^2 = |Gamma_least|^2 + |D_other - D|^2. In a coordinate frame D = 0, and it is
    the Levi-Civita connection. In other frames it may have torsion, and it **depends on the frame**, as Gamma
    does: a metric in two frames has two of these connections, unless the frames differ by constants.

    Parameters
    ----------
    metric : the metric; its frame may be any.

    Raises
    ------
    TypeError : it is no metric, such as a frame, whose fields have no lengths.

    Examples
    --------
    A round rigid body in body axes: all symbols vanish, and C = 0.

    >>> import numpy as np
    >>> import connections as cn
    >>> ball = cn.ConstantMetric(cn.SO3Frame(), 2.0 * np.eye(3))
    >>> least, q = cn.least_connection(ball), [0.0, 0.0, 0.0, 1.0]
    >>> float(np.abs(least.coefficients(q)).max())
    0.0
    >>> float(cn.LeviCivita(ball).coefficients(q)[0, 1, 2].round(3))
    0.5

    Its place in the family.

    >>> top = cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0]))
    >>> np.round(cn.ContorsionFamily(top).beta_of(cn.least_connection(top).contorsion(q)), 6)
    array([-1.])

    Source: derived here; the family is [W] eq. (12).
    """
    require_type("metric", metric, Metric)
    return ContorsionConnection(metric, LeastContorsion(metric), "admissible")


@dataclass(frozen=True, eq=False)
class LeastContorsion(Parametrized):
    """The contorsion of the least member as a function, q (nq,) -> Alt(Gamma*) (n, n, n).

    Parameters
    ----------
    metric : the metric.
    """

    metric: Metric

    def __call__(self, q: jax.Array) -> jax.Array:
        """D(q)."""
        s = self.metric.frame.structure_functions_at(q)
        return half_alternated(jnp.einsum("il,ljk->ijk", self.metric.matrix_at(q), s))


def half_alternated(s_low: jax.Array) -> jax.Array:
    """(s_ijk + s_jki + s_kij) / 6, (n, n, n), of brackets s_low (n, n, n); antisymmetric to the last bit.

    Of the terms of the Koszul formula, Alt keeps half of s_ijk alone: L_i H_jk is symmetric, and in s_kij +
    s_jik one order is even and the other odd.
    """
    cyclic = (s_low + jnp.transpose(s_low, (2, 0, 1)) + jnp.transpose(s_low, (1, 2, 0))) / 6.0
    i, j, k = np.indices(s_low.shape)
    one_order = jnp.where((i < j) & (j < k), cyclic, 0.0)
    turned = one_order + jnp.transpose(one_order, (2, 0, 1)) + jnp.transpose(one_order, (1, 2, 0))
    return turned - jnp.swapaxes(turned, 1, 2)
