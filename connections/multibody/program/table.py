"""The table of the recursions, one row each. Every place that handles recursions reads this table.

From a row come the compiled entries (`entries`), the public call and its errors (`program`), the version for
Dask arrays, block by block (`dask_arrays`), and the operation in JAX's compiled functions (`jax_ffi`). A new
recursion is a kernel, a row here, a public function and its tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

N, PARAMETERS = "n", "10 N"  # axes of a result: velocities; inertial parameters of all bodies


@dataclass(frozen=True)
class Recursion:
    """A recursion."""

    #: the file of the kernel for trees, a function of the recursion's name that is called as ``kernel(tree,
    #: work, result)``. With `body_factor` a further argument says whether the factor is ``"force_cross"``,
    #: with `mirrored` one more whether to write all entries
    kernel: str
    #: the file of the kernel for closed chains, called as ``kernel(tree, clusters, work, result)``, followed
    #: by the choice of the body-level factor
    closed: str
    vectors: tuple[str, ...] = ()  #: names of the vectors (..., nv) that follow q
    shape: tuple[int | str, ...] = (N,)  #: axes of the result for one configuration
    body_factor: bool = False  #: whether the caller chooses the body-level factor
    inverse: bool = False  #: the mass matrix has to be regular

    @cached_property
    def sparse(self) -> bool:
        """Whether entries of columns, or of a column and a body, on different branches are zero.

        The kernel does not write them. Of matrices, only those that contain H^-1 have no such entries.
        """
        return len(self.shape) > 1 and not self.inverse

    @cached_property
    def mirrored(self) -> bool:
        """Whether the kernel can leave out the entries [i, j, k] with j > k that equal [i, k, j]."""
        return self.shape == (N, N, N)

    @cached_property
    def bias_rates(self) -> bool:
        """Whether, for closed chains, L_j (L_v G) v, laid out as G in a solution, is a further vector."""
        return self.shape == (3, N, N)

    def core(self, n: int, bodies: int) -> tuple[int, ...]:
        """The shape of the result for one configuration."""
        sizes = {N: n, PARAMETERS: 10 * bodies}
        return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in self.shape)

    def nonzero(self, moves: np.ndarray, body_of: np.ndarray) -> np.ndarray:
        """Which entries of the result are not identically zero, (*core) booleans.

        Parameters
        ----------
        moves : (N, n) whether a column moves a body.
        body_of : (n,) the body to which a column belongs.

        An entry is not zero if its columns move a common body. In closed chains this is more than that one
        column moves the body of the other, because bodies of one cluster may have different supports.
        """
        if not self.sparse:
            return np.ones(self.core(len(body_of), len(moves)), dtype=bool)
        if PARAMETERS in self.shape:
            return np.repeat(moves.T, 10, axis=1)
        related = moves.T.astype(float) @ moves > 0.0
        if self.mirrored:
            pairs = (moves[:, :, None] & moves[:, None, :]).reshape(len(moves), related.size)
            common: np.ndarray = pairs.T.astype(float) @ moves > 0.0
            return common.reshape(self.core(len(body_of), len(moves)))
        return np.broadcast_to(related, self.core(len(body_of), len(moves)))


RECURSIONS = {
    "mass_matrix": Recursion("coriolis", "cluster_coriolis", (), (N, N)),
    "coriolis_matrix": Recursion("coriolis", "cluster_coriolis", ("v",), (N, N), body_factor=True),
    "mass_matrix_rate": Recursion("coriolis", "cluster_coriolis", ("v",), (N, N)),
    "christoffel_symbols": Recursion("christoffel", "cluster_christoffel", (), (N, N, N), body_factor=True),
    "coriolis_product": Recursion("newton_euler", "cluster_dynamics", ("v", "w"), body_factor=True),
    "coriolis_transpose_product": Recursion("newton_euler", "cluster_dynamics", ("v", "w"), body_factor=True),
    "inverse_dynamics": Recursion("newton_euler", "cluster_dynamics", ("v", "a")),
    "gravity": Recursion("newton_euler", "cluster_dynamics"),
    "forward_dynamics": Recursion("articulated", "cluster_dynamics", ("v", "tau"), inverse=True),
    "inverse_mass_matrix": Recursion("articulated", "cluster_coriolis", (), (N, N), inverse=True),
    "regressor": Recursion("regressor", "cluster_dynamics", ("v", "v_r", "a_r"), (N, PARAMETERS)),
    "inverse_dynamics_derivatives": Recursion("derivatives", "cluster_dynamics", ("v", "a"), (3, N, N)),
    "forward_dynamics_derivatives": Recursion(
        "derivatives", "cluster_dynamics", ("v", "tau"), (3, N, N), inverse=True
    ),
}
#: Name of a recursion -> what computes the same where JAX traces; nothing else does for the others.
IN_JAX = {
    "mass_matrix": "model.metric.matrix_at(q)",
    "coriolis_matrix": "model.system().coriolis_matrix_at(q, v)",
    "mass_matrix_rate": "C + C.T with C = model.system().coriolis_matrix_at(q, v)",
    "christoffel_symbols": "model.recursive_connection.first_kind(q, model.metric)",
    "coriolis_product": "model.recursive_connection.lowered_at(model.metric, q, v, w)",
    "coriolis_transpose_product": "model.system().coriolis_matrix_at(q, v).T @ w",
    "inverse_dynamics": "model.system().inverse_dynamics_at(q, v, a)",
    "gravity": "model.system().gravity_at(q)",
    "forward_dynamics": "model.system().forward_dynamics_at(q, v, tau)",
    "inverse_mass_matrix": "jnp.linalg.inv(model.metric.matrix_at(q))",
    "inverse_dynamics_derivatives": "jax.jvp of model.system().inverse_dynamics_at",
    "forward_dynamics_derivatives": "jax.jvp of model.system().forward_dynamics_at",
}
BODY_FACTORS = {"christoffel": False, "force_cross": True}  # name -> whether its connection has torsion


def is_force_cross(body_factor: str) -> bool:
    """Whether the body-level factor `body_factor` is (v x*) I, whose connection has torsion.

    Raises
    ------
    ValueError : there is no such factor.
    """
    if not isinstance(body_factor, str) or body_factor not in BODY_FACTORS:
        raise ValueError(f"body_factor: expected one of {', '.join(BODY_FACTORS)}, got {body_factor!r}")
    return BODY_FACTORS[body_factor]
