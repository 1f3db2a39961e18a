"""N free rigid bodies: the ambient manifold SE(3)^N in which a mechanism moves.

The metric is block diagonal, <<v, w>> = sum_b v_b^T I_b w_b, constant in the body frames; its Levi-Civita
connection applies body by body,

    I_b Gamma_b(v, w) = C_b(v) w = 1/2 [I_b (v x w) + v x* (I_b w) + w x* (I_b v)],

so no (6N)^3 tensor is formed. Source: [W] VI-A, eq. (18).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.affine.connection import ConnectionOfMetric
from connections.checks import ShapeError, as_array, is_traced, require_finite
from connections.evaluation.parameters import is_same
from connections.geometry import Metric, ProductFrame, SE3Frame
from connections.geometry.rigid.twists import force_cross, motion_cross

# Eigenvalues of an inertia, scaled to unit diagonal, below this times the largest are round-off.
_SINGULAR = 1e-13


@dataclass(frozen=True, eq=False, repr=False)
class RigidBodySystemMetric(Metric):
    """The kinetic energy of N rigid bodies: diag(I_1, ..., I_N).

    A link without mass is allowed, so the matrix may be semidefinite. The metric that it induces on a
    mechanism must be definite, which is checked for the mechanism.

    Parameters
    ----------
    inertias : (N, 6, 6) spatial inertias in body frames, symmetric. JAX may trace them.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> bodies = np.array([np.eye(6), 2.0 * np.eye(6)])
    >>> metric = mb.RigidBodySystemMetric(bodies)
    >>> metric.matrix([0.0, 0, 0, 0, 0, 0, 1] * 2).diagonal()
    array([1., 1., 1., 1., 1., 1., 2., 2., 2., 2., 2., 2.])

    Source: [W] VI-A (printed there with a factor 1/2 that belongs to the energy).
    """

    inertias: Any

    def __post_init__(self) -> None:
        traced = is_traced(self.inertias)
        inertias = as_array("inertias", self.inertias, (6, 6))
        inertias = inertias if traced else np.array(inertias)
        if inertias.ndim != 3 or inertias.shape[1:] != (6, 6) or not len(inertias):
            raise ShapeError("inertias", ("N", 6, 6), inertias.shape)
        require_finite("inertias", inertias)
        if not traced:
            inertias.flags.writeable = False
        object.__setattr__(self, "inertias", inertias)
        object.__setattr__(self, "frame", ProductFrame(*[SE3Frame()] * len(inertias)))

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """diag(I_1, ..., I_N), (6N, 6N)."""
        count = len(self.inertias)
        body = np.arange(count)
        blocks = jnp.zeros((count, 6, count, 6)).at[body, :, body].set(self.inertias)
        return blocks.reshape(6 * count, 6 * count)

    def inner_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """sum_b v_b^T I_b w_b."""
        return jnp.einsum("na,nab,nb->", v.reshape(-1, 6), self.inertias, w.reshape(-1, 6))

    def derivative_at(self, q: jax.Array) -> jax.Array:
        """Zero, (6N, 6N, 6N)."""
        return jnp.zeros((self.frame.dim,) * 3)


@dataclass(frozen=True, eq=False, repr=False)
class RigidBodySystemConnection(ConnectionOfMetric):
    """The Levi-Civita connection of N rigid bodies, body by body.

    Parameters
    ----------
    inertias : (N, 6, 6) spatial inertias in body frames, symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> top = np.diag([1.0, 1.0, 2.0, 3.0, 3.0, 3.0])[None]
    >>> nabla = mb.RigidBodySystemConnection(top)
    >>> nabla.coefficients(np.array([0.0, 0, 0, 0, 0, 0, 1])).shape
    (6, 6, 6)

    Source: [W] eq. (18).
    """

    inertias: Any
    metric: RigidBodySystemMetric = field(init=False, repr=False)
    _inverses: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        metric = RigidBodySystemMetric(self.inertias)
        object.__setattr__(self, "inertias", metric.inertias)
        object.__setattr__(self, "metric", metric)
        object.__setattr__(self, "frame", metric.frame)
        object.__setattr__(self, "_inverses", _inverses(metric.inertias))

    @property
    def riemannian(self) -> RigidBodySystemConnection:
        """Itself."""
        return self

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """Gamma[i, j, k], (6N, 6N, 6N), block diagonal in all three indices; for small N."""
        return self._blocks(self._inverses, self._forces_of)

    def scale_at(self, q: jax.Array) -> jax.Array:
        """`coefficients_at` with |I_b^-1| and the absolute values of the three terms of (18)."""
        return self._blocks(jnp.abs(self._inverses), lambda v, w: sum(map(jnp.abs, self._terms_of(v, w))))

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """I_b^-1 C_b(v_b) w_b for every body, (6N,); zero for a body without inertia."""
        forces = self._forces_of(v.reshape(-1, 6), w.reshape(-1, 6))
        return jnp.einsum("nab,nb->na", self._inverses, forces).reshape(-1)

    def lowered_at(self, metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """C_b(v_b) w_b for every body, (6N,), if `metric` is the bodies' own; exact also for singular I_b."""
        if not is_same(metric, self.metric):
            return super().lowered_at(metric, q, v, w)
        return self._forces_of(v.reshape(-1, 6), w.reshape(-1, 6)).reshape(-1)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether every orientation is a unit quaternion."""
        return self.frame.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise the frame's error."""
        self.frame.explain(q)

    def _blocks(self, inverses: np.ndarray | jax.Array, forces: Callable[..., Any]) -> jax.Array:
        """I_b^-1 forces(X_j, X_k), (6N, 6N, 6N), for every body."""
        count, basis = len(self.inertias), jnp.eye(6)
        pairs = jax.vmap(jax.vmap(forces, (None, 0), -1), (0, None), -2)  # [n, a, j, k]
        each = jnp.einsum("nab,nbjk->najk", inverses, pairs(basis, basis))
        body = np.arange(count)
        result = jnp.zeros((count, 6, count, 6, count, 6))
        return result.at[body, :, body, :, body, :].set(each).reshape((6 * count,) * 3)

    def _forces_of(self, v: jax.Array, w: jax.Array) -> jax.Array:
        """C_b(v_b) w_b, (N, 6), of twists v, w (N, 6) or (6,): eq. (18) applied to w."""
        moved, turned_w, turned_v = self._terms_of(v, w)
        return moved + turned_w + turned_v

    def _terms_of(self, v: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        """The terms of (18), (N, 6) each."""
        inertias = jnp.asarray(self.inertias)
        v, w = jnp.broadcast_to(v, (len(inertias), 6)), jnp.broadcast_to(w, (len(inertias), 6))
        momentum_v, momentum_w = (jnp.einsum("nab,nb->na", inertias, twist) for twist in (v, w))
        moved = jnp.einsum("nab,nb->na", inertias, motion_cross(v, w))
        return moved / 2, force_cross(v, momentum_w) / 2, force_cross(w, momentum_v) / 2


def _inverses(inertias: Any) -> Any:
    """I_b^-1 (N, 6, 6), or a generalized inverse if I_b is singular; I_b is scaled to unit diagonal for it.

    A body without mass has no inverse; the forces C_b(v) w of a distribution of mass are in the range of I_b.
    What JAX traces has an inverse, or NaN; a robot's definition does not ask for it.
    """
    if is_traced(inertias):
        return jnp.linalg.inv(inertias)
    diagonal = np.diagonal(inertias, axis1=1, axis2=2)
    units = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    outer = units[:, :, None] * units[:, None, :]
    return np.asarray(outer * np.linalg.pinv(outer * inertias, rcond=_SINGULAR, hermitian=True))
