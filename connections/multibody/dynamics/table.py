"""The table of the recursions, one row each. Every place that handles recursions reads this table.

From a row come the compiled entries (`entries`), the public call and its errors (`program`), the version for
Dask arrays, block by block (`dask_arrays`), and the operation in JAX's compiled functions (`jax_ffi`). A new
recursion is a kernel, a row here, a public function and its tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

N, PARAMETERS = "n", "10 N"  # axes of a result: velocities; inertial parameters of all bodies


@dataclass(frozen=True)
class Recursion:
    """A recursion.

    Parameters
    ----------
    kernel : ``file.function`` for trees, called as ``kernel(tree, work, result)``. With `body_factor` a
        further argument says whether the factor is ``"force_cross"``, with `mirrored` one more whether to
        write all entries.
    vectors : names of the vectors (..., nv) that follow q.
    shape : axes of the result for one configuration.
    sparse : entries of columns, or of a column and a body, on different branches are zero, and the kernel
        does not write them.
    body_factor : whether the caller chooses the body-level factor.
    mirrored : the kernel can leave out the entries [i, j, k] with j > k that equal [i, k, j].
    inverse : the mass matrix has to be regular.
    closed : ``file.function`` for closed chains, called as ``kernel(tree, clusters, work, result)``, followed
        by the choice of the body-level factor.
    bias_rates : for closed chains, L_j (L_v G) v, laid out as G in a solution, is a further vector.
    """

    kernel: str
    vectors: tuple[str, ...] = ()
    shape: tuple[int | str, ...] = (N,)
    sparse: bool = False
    body_factor: bool = False
    mirrored: bool = False
    inverse: bool = False
    closed: str = ""
    bias_rates: bool = False

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
        if self.shape == (N, N, N):
            pairs = (moves[:, :, None] & moves[:, None, :]).reshape(len(moves), related.size)
            common: np.ndarray = pairs.T.astype(float) @ moves > 0.0
            return common.reshape(self.core(len(body_of), len(moves)))
        return np.broadcast_to(related, self.core(len(body_of), len(moves)))


RECURSIONS = {
    "mass_matrix": Recursion(
        "coriolis.mass_matrix", shape=(N, N), sparse=True, closed="cluster_coriolis.mass_matrix"
    ),
    "coriolis_matrix": Recursion(
        "coriolis.coriolis_matrix",
        ("v",),
        shape=(N, N),
        sparse=True,
        body_factor=True,
        closed="cluster_coriolis.coriolis_matrix",
    ),
    "mass_matrix_rate": Recursion(
        "coriolis.mass_matrix_rate",
        ("v",),
        shape=(N, N),
        sparse=True,
        closed="cluster_coriolis.mass_matrix_rate",
    ),
    "christoffel_symbols": Recursion(
        "christoffel.christoffel_symbols",
        shape=(N, N, N),
        sparse=True,
        body_factor=True,
        mirrored=True,
        closed="cluster_christoffel.christoffel_symbols",
    ),
    "coriolis_product": Recursion(
        "newton_euler.coriolis_product",
        ("v", "w"),
        body_factor=True,
        closed="cluster_dynamics.coriolis_product",
    ),
    "coriolis_transpose_product": Recursion(
        "newton_euler.coriolis_transpose_product",
        ("v", "w"),
        body_factor=True,
        closed="cluster_dynamics.coriolis_transpose_product",
    ),
    "inverse_dynamics": Recursion(
        "newton_euler.inverse_dynamics", ("v", "a"), closed="cluster_dynamics.inverse_dynamics"
    ),
    "gravity": Recursion("newton_euler.gravity", closed="cluster_dynamics.gravity"),
    "forward_dynamics": Recursion(
        "articulated.forward_dynamics", ("v", "tau"), inverse=True, closed="cluster_dynamics.forward_dynamics"
    ),
    "inverse_mass_matrix": Recursion(
        "articulated.inverse_mass_matrix",
        shape=(N, N),
        inverse=True,
        closed="cluster_coriolis.inverse_mass_matrix",
    ),
    "regressor": Recursion(
        "regressor.regressor",
        ("v", "v_r", "a_r"),
        shape=(N, PARAMETERS),
        sparse=True,
        closed="cluster_dynamics.regressor",
    ),
    "inverse_dynamics_derivatives": Recursion(
        "derivatives.inverse_dynamics_derivatives",
        ("v", "a"),
        shape=(3, N, N),
        sparse=True,
        closed="cluster_dynamics.inverse_dynamics_derivatives",
        bias_rates=True,
    ),
    "forward_dynamics_derivatives": Recursion(
        "derivatives.forward_dynamics_derivatives",
        ("v", "tau"),
        shape=(3, N, N),
        inverse=True,
        closed="cluster_dynamics.forward_dynamics_derivatives",
        bias_rates=True,
    ),
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
