"""Torsion and non-metricity, the difference of a connection from Levi-Civita's, in parts that are orthogonal.

A connection is determined by its metric, torsion and non-metricity. Under rotations of an orthonormal frame,
T has three parts that do not mix, and Q four; their squared lengths add up to those of T and Q. In an
orthonormal frame,

    T_ijk = (d_ij t_k - d_ik t_j) / (n - 1) + T_[ijk] + rest,    t_k = T_iik,
    Q_ijk = w_i d_jk + a (p_j d_ik + p_k d_ij - 2/n p_i d_jk) + (totally symmetric, without traces) + rest,

n w_i = Q_ijj, p_k the trace in the first two indices of Q less its first part, a = n / ((n - 1) (n + 2)).
Source: [Mc].
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from connections._jax import Array, ArrayLike
from connections.affine.connection import AffineConnection, metric_of
from connections.affine.distributions import orthonormal
from connections.checks import as_array, require_type
from connections.evaluation.boundary import Argument, InCommonFrame, evaluate
from connections.evaluation.content import by_identity
from connections.evaluation.parameters import PytreePartial
from connections.geometry.metrics import Metric, require_definite


@by_identity
class Decomposition(NamedTuple):
    """The parts of torsion and non-metricity, in the frame of the connection.

    Parameters
    ----------
    torsion_trace, torsion_axial, torsion_tensor : (..., n, n, n), parts of `AffineConnection.torsion`: of its
        trace, totally antisymmetric (that of the family of [W] (12)), and the rest.
    nonmetricity_weyl, nonmetricity_trace, nonmetricity_symmetric, nonmetricity_tensor : (..., n, n, n), parts
        of `AffineConnection.nonmetricity`: w_i H_jk, of the other trace, totally symmetric without traces,
        and the rest.
    torsion_covector : (..., n), t_k = T^i_ik.
    weyl_covector : (..., n), w_i = Q_ijk H^jk / n, the form of a `WeylConnection`.
    squared_norms : name of a part -> (...,), |part|^2 in the metric; they add up to |T|^2, |Q|^2.

    Examples
    --------
    Torsion of the cross product is axial.

    >>> import numpy as np
    >>> import connections as cn
    >>> space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    >>> nabla = cn.ContorsionFamily(space).connection(0.5)
    >>> parts = cn.decompose(nabla, space, [0.0, 0.0, 0.0])
    >>> [name for name, square in parts.squared_norms.items() if square > 1e-12]
    ['torsion_axial']
    """

    torsion_trace: Array
    torsion_axial: Array
    torsion_tensor: Array
    nonmetricity_weyl: Array
    nonmetricity_trace: Array
    nonmetricity_symmetric: Array
    nonmetricity_tensor: Array
    torsion_covector: Array
    weyl_covector: Array
    squared_norms: dict[str, Array]


def decompose(nabla: AffineConnection, metric: Metric | None, q: ArrayLike) -> Decomposition:
    """Torsion and non-metricity of a connection in parts that are orthogonal in the metric, in any frame.

    Parameters
    ----------
    nabla : the connection.
    metric : a metric in the connection's frame; None for the connection's own.
    q : (..., nq) points.

    Raises
    ------
    FrameError : the metric is in another frame.
    TypeError : there is no metric, neither given nor the connection's own.
    ShapeError, NonFiniteError, PointError, MetricError : as `AffineConnection.nonmetricity`.

    Source: [Mc].

    Examples
    --------
    A member of the family of [W] (12) has axial torsion, and no other part:

    >>> import connections as cn
    >>> from jax import numpy as jnp
    >>> space = cn.ConstantMetric(cn.CoordinateFrame(3), jnp.eye(3))
    >>> nabla = cn.ContorsionFamily(space).connection([0.5])
    >>> parts = cn.decompose(nabla, space, [0.0, 0.0, 0.0])
    >>> {name: float(size) for name, size in parts.squared_norms.items() if size > 1e-9}
    {'torsion_axial': 6.0}
    """
    require_type("nabla", nabla, AffineConnection)
    metric = metric_of(nabla, metric)
    require_definite("metric", metric)
    q = as_array("q", q, (nabla.frame.ambient_dim,))
    point = Argument("q", q, (nabla.frame.ambient_dim,))
    at = PytreePartial(decompose_at, nabla, metric)
    return evaluate(InCommonFrame.of(nabla, metric), at, point)


def decompose_at(nabla: AffineConnection, metric: Metric, q: jax.Array) -> Decomposition:
    """The parts at one point."""
    H = metric.matrix_at(q)
    E = orthonormal(jnp.eye(len(H)), H)  # columns: an orthonormal frame
    inverse = E.T @ H
    T = jnp.einsum("ai,ijk,jb,kc->abc", inverse, nabla.torsion_at(q), E, E)
    Q = jnp.einsum("ijk,ia,jb,kc->abc", nabla._nonmetricity_at(metric, q), E, E, E)
    of_torsion, t = _parts_of_torsion(T)
    of_nonmetricity, w = _parts_of_nonmetricity(Q)
    squares: dict[str, Array] = {
        name: jnp.sum(part**2) for name, part in (of_torsion | of_nonmetricity).items()
    }
    high = {n: jnp.einsum("ia,abc,bj,ck->ijk", E, T, inverse, inverse) for n, T in of_torsion.items()}
    low = {
        n: jnp.einsum("abc,ai,bj,ck->ijk", Q, inverse, inverse, inverse) for n, Q in of_nonmetricity.items()
    }
    return Decomposition(
        **high,
        **low,
        torsion_covector=t @ inverse,
        weyl_covector=w @ inverse,
        squared_norms=squares,
    )


def _parts_of_torsion(T: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    """The three parts of T (n, n, n) in an orthonormal frame, and t (n,)."""
    n, one = len(T), jnp.eye(len(T))
    t = jnp.einsum("iik->k", T)
    spread = jnp.einsum("ij,k->ijk", one, t) / max(n - 1, 1)  # without a trace where n = 1
    trace = spread - jnp.swapaxes(spread, 1, 2)
    axial = _cyclic(T) / 3.0
    parts = {"torsion_trace": trace, "torsion_axial": axial, "torsion_tensor": T - trace - axial}
    return parts, t


def _parts_of_nonmetricity(Q: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    """The four parts of Q (n, n, n) in an orthonormal frame, and w (n,)."""
    n, one = len(Q), jnp.eye(len(Q))
    w = jnp.einsum("ijj->i", Q) / n
    weyl = jnp.einsum("i,jk->ijk", w, one)
    p = jnp.einsum("iik->k", Q - weyl)
    spread = jnp.einsum("j,ik->ijk", p, one)
    trace = spread + jnp.swapaxes(spread, 1, 2) - 2.0 / n * jnp.swapaxes(spread, 0, 1)
    trace = trace * n / (max(n - 1, 1) * (n + 2))  # zero where n = 1
    rest = Q - weyl - trace
    symmetric = _cyclic(rest) / 3.0
    parts = {
        "nonmetricity_weyl": weyl,
        "nonmetricity_trace": trace,
        "nonmetricity_symmetric": symmetric,
        "nonmetricity_tensor": rest - symmetric,
    }
    return parts, w


def _cyclic(tensor: jax.Array) -> jax.Array:
    """The sum over cyclic permutations of the indices, (n, n, n)."""
    return tensor + jnp.transpose(tensor, (1, 2, 0)) + jnp.transpose(tensor, (2, 0, 1))
