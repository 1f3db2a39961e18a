"""The table of the recursions, one row each. Every place that handles recursions reads this table.

From a row come the compiled functions (`entries`), the public call and its errors (`program`), the version
for Dask arrays, block by block (`dask_arrays`), and the operation inside JAX (`in_jax.values`). A new
recursion is a kernel, a row here, a definition (`definition.recursions`), a public function and its tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Axes of a result: velocities; inertial parameters; bodies; twists of bodies.
N, PARAMETERS, BODIES, TWISTS = "n", "10 N", "N", "6 N"


@dataclass(frozen=True)
class Choice:
    """A choice of a recursion's caller besides arrays, such as a frame."""

    arguments: tuple[str, ...]  #: names of the public arguments
    kind: str  #: of the argument of compiled code that stands for them, as in `compiled_functions`


BODY_FACTOR = Choice(("body_factor",), "i")
FRAME = Choice(("frame",), "frame")
FRAME_AND_AXES = Choice(("frame", "axes"), "frame")


@dataclass(frozen=True)
class Recursion:
    """A recursion."""

    #: the file of the kernel for trees, a function of the recursion's name that is called as ``kernel(tree,
    #: work, result)``. With `choice` a further argument is what the caller chose; with `mirrored` one more
    #: says whether to write all entries
    kernel: str
    #: the file of the kernel for closed chains, called as ``kernel(tree, clusters, work, result)``, followed
    #: by what the caller chose
    #: None for a recursion of trees, which closed chains compute by `polarization`, or by its definition in
    #: JAX
    closed: str | None
    vectors: tuple[str, ...] = ()  #: names of the vectors (..., nv) that follow q
    shape: tuple[int | str, ...] = (N,)  #: axes of the result for one configuration
    choice: Choice | None = None  #: what the caller chooses
    inverse: bool = False  #: the mass matrix has to be regular
    #: entries of columns, or of a column and a body, on different branches are zero, and the kernel does not
    #: write them
    sparse: bool = False
    #: the result is Gamma_ijk (n, n, n), and the kernel can leave out the entries with j > k that equal
    #: Gamma_ikj; what is chosen, if anything, says whether all entries are to be written
    mirrored: bool = False
    #: for closed chains, L_j (L_v G) v, laid out as G in a solution, is a further vector; v comes first
    bias_rates: bool = False
    #: the kernels do not lead from one origin to another, so that each subtree has only one
    one_origin: bool = False

    def __post_init__(self) -> None:
        if self.mirrored and not (self.sparse and self.shape == (N, N, N)):
            raise ValueError("only symbols are mirrored")
        if self.mirrored and self.choice not in (None, BODY_FACTOR):
            raise ValueError("the choice says whether mirrored symbols have torsion")
        if self.bias_rates and self.vectors[:1] != ("v",):
            raise ValueError("bias rates are those at a velocity")
        if self.sparse and not (N in self.shape[:-1] and self.shape[-1] in (N, PARAMETERS)):
            raise ValueError(f"a result of shape {self.shape} is not sparse")

    def chosen(self, choice: Any) -> tuple[Any, ...]:
        """The caller's choices, one by one, by a call's argument `choice`: that, if it is one."""
        return (choice,) if self.choice is not None and len(self.choice.arguments) == 1 else choice

    def core(self, n: int, bodies: int) -> tuple[int, ...]:
        """The shape of the result for one configuration."""
        sizes = {N: n, PARAMETERS: 10 * bodies, BODIES: bodies, TWISTS: 6 * bodies}
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
            return np.broadcast_to(np.repeat(moves.T, 10, axis=1), self.core(len(body_of), len(moves)))
        related = moves.T.astype(float) @ moves > 0.0
        if self.shape[-3:] == (N, N, N):
            pairs = (moves[:, :, None] & moves[:, None, :]).reshape(len(moves), related.size)
            others = pairs if self.shape == (N, N, N, N) else moves
            common: np.ndarray = pairs.T.astype(float) @ others > 0.0
            symbols = common.reshape((len(body_of),) * (4 if others is pairs else 3))
            return np.broadcast_to(symbols, self.core(len(body_of), len(moves)))
        return np.broadcast_to(related, self.core(len(body_of), len(moves)))


RECURSIONS = {
    "mass_matrix": Recursion("coriolis", "cluster_coriolis", (), (N, N), sparse=True),
    "coriolis_matrix": Recursion(
        "coriolis",
        "cluster_coriolis",
        ("v",),
        (N, N),
        BODY_FACTOR,
        sparse=True,
    ),
    "mass_matrix_rate": Recursion(
        "coriolis",
        "cluster_coriolis",
        ("v",),
        (N, N),
        sparse=True,
    ),
    "christoffel_symbols": Recursion(
        "christoffel",
        "cluster_christoffel",
        (),
        (N, N, N),
        BODY_FACTOR,
        sparse=True,
        mirrored=True,
    ),
    "coriolis_product": Recursion(
        "newton_euler",
        "cluster_dynamics",
        ("v", "w"),
        choice=BODY_FACTOR,
    ),
    "coriolis_transpose_product": Recursion(
        "newton_euler",
        "cluster_dynamics",
        ("v", "w"),
        choice=BODY_FACTOR,
    ),
    "inverse_dynamics": Recursion(
        "newton_euler",
        "cluster_dynamics",
        ("v", "a"),
    ),
    "nonlinear_effects": Recursion(
        "newton_euler",
        "cluster_dynamics",
        ("v",),
    ),
    "gravity": Recursion("newton_euler", "cluster_dynamics"),
    "forward_dynamics": Recursion(
        "articulated",
        "cluster_dynamics",
        ("v", "tau"),
        inverse=True,
    ),
    "inverse_mass_matrix": Recursion(
        "articulated",
        "cluster_coriolis",
        (),
        (N, N),
        inverse=True,
    ),
    "regressor": Recursion(
        "regressor", "cluster_dynamics", ("v", "v_r", "a_r"), (N, PARAMETERS), sparse=True
    ),
    "momentum_regressor": Recursion("regressor", "cluster_dynamics", ("v",), (2, N, PARAMETERS), sparse=True),
    "inverse_dynamics_derivatives": Recursion(
        "derivatives",
        "cluster_dynamics",
        ("v", "a"),
        (3, N, N),
        sparse=True,
        bias_rates=True,
    ),
    "forward_dynamics_derivatives": Recursion(
        "derivatives",
        "cluster_dynamics",
        ("v", "tau"),
        (3, N, N),
        inverse=True,
        bias_rates=True,
    ),
    "inverse_dynamics_hessian_product": Recursion(
        "hessian_products", None, ("v", "a", "w"), (4, N, N), sparse=True, one_origin=True
    ),
    "forward_dynamics_hessian_product": Recursion(
        "hessian_products", None, ("v", "tau", "w"), (4, N, N), inverse=True, one_origin=True
    ),
    "inverse_dynamics_second_derivatives": Recursion(
        "second_derivatives", None, ("v", "a"), (4, N, N, N), sparse=True, one_origin=True
    ),
    "forward_dynamics_second_derivatives": Recursion(
        "second_derivatives", None, ("v", "tau"), (4, N, N, N), inverse=True, one_origin=True
    ),
    "coriolis_matrix_rate": Recursion(
        "coriolis_rate",
        "cluster_curvature",
        ("v", "a"),
        (N, N),
        BODY_FACTOR,
        sparse=True,
        bias_rates=True,
        one_origin=True,
    ),
    "curvature_operator": Recursion(
        "curvature",
        "cluster_curvature",
        ("v",),
        (N, N),
        inverse=True,
        one_origin=True,
    ),
    "christoffel_derivatives": Recursion(
        "christoffel_derivatives", None, (), (N, N, N, N), BODY_FACTOR, sparse=True, one_origin=True
    ),
    "curvature": Recursion("curvature", None, (), (N, N, N, N), inverse=True, one_origin=True),
    "forward_kinematics": Recursion(
        "kinematics",
        "cluster_kinematics",
        (),
        (BODIES, 4, 4),
    ),
    "body_jacobians": Recursion("kinematics", "cluster_kinematics", (), (TWISTS, N)),
    "frame_pose": Recursion("kinematics", "cluster_kinematics", (), (4, 4), FRAME),
    "frame_jacobian": Recursion(
        "kinematics",
        "cluster_kinematics",
        (),
        (6, N),
        FRAME_AND_AXES,
    ),
    "frame_jacobian_rate": Recursion(
        "kinematics",
        "cluster_kinematics",
        ("v",),
        (6, N),
        FRAME_AND_AXES,
    ),
    "center_of_mass": Recursion("kinematics", "cluster_kinematics", (), (3,)),
    "center_of_mass_jacobian": Recursion(
        "kinematics",
        "cluster_kinematics",
        (),
        (3, N),
    ),
}


class _BodyFactors(dict[str, int]):
    """Name of what C and Gamma are made with -> `factor` of the kernels (`kernels.layout`)."""

    def __missing__(self, name: Any) -> bool:
        raise ValueError(f"body_factor: expected one of {', '.join(self)}, got {name!r}")


BODY_FACTORS = _BodyFactors(christoffel=0, force_cross=1, least=2)
