"""Centroidal coordinates of a floating robot: with the centre of mass among the velocities, H and C decouple.

    vbar = (cdot, omega, joint rates),   v = A(q) vbar,   Hbar = A^T H A,   Cbar = A^T C A + A^T H Adot,
    Hbar = [[M 1, 0], [0, H22]],         Cbar = [[0, 0], [0, C22]],

cdot being the velocity of the centre of mass in world axes and omega that of the floating body in its own.
But for the floating body's linear velocity, u = R^T (cdot - J_omega omega - J_s sdot), A is a permutation.
The body-level factor (v x*) I does not give this C: its block C11 is sum_b m_b (w_b x), w_b in world axes.
Source: [E] Remark 5, eq. (42); [W] eq. (17).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.checks import ModelError
from connections.coriolis import induced_coriolis_matrix
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import WithCache
from connections.geometry import FrameField
from connections.multibody import Free, Model, coriolis_matrix, mass_matrix
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.model import require_model


@dataclass(frozen=True, eq=False)
class CentroidalCoordinates(WithCache):
    """Velocities vbar = (cdot, omega, joint rates) of a robot with one floating body under all others.

    Parameters
    ----------
    model : the robot; its first joint is free and has no armature, carries every body, and no loop ties it to
        other joints.

    Raises
    ------
    ModelError : the first joint is not free or has armature, with which H does not decouple, something does
        not move with it, or a loop ties it to others.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("quadruped")
    >>> coordinates = control.CentroidalCoordinates(robot)
    >>> H = coordinates.mass_matrix(robot.neutral())
    >>> np.allclose(H[:3, :3], mb.total_mass(robot) * np.eye(3)) and np.allclose(H[:3, 3:], 0.0)
    True
    >>> control.CentroidalCoordinates(mb.example("arm"))
    Traceback (most recent call last):
        ...
    connections.checks.ModelError: joint 'turn': the first joint must be free and carry all bodies

    Source: [E] Remark 5.
    """

    model: Model

    def __post_init__(self) -> None:
        require_model("CentroidalCoordinates", self.model)
        kinematics = self.model.kinematics
        tree = kinematics.tree
        name = f"joint '{tree.joint_names[0]}'"
        if not isinstance(tree.joints[0], Free) or not tree.supports[:, 0].all():
            raise ModelError(f"{name}: the first joint must be free and carry all bodies")
        if tree.armature[:6].any():
            raise ModelError(f"{name}: it has armature, with which the centre of mass does not decouple")
        if isinstance(kinematics, ClosedKinematics):
            clusters = kinematics.clusters.of_body
            if np.count_nonzero(clusters == clusters[0]) > 1:  # then it does not move all bodies alike
                raise ModelError(f"{name}: a loop ties the floating body to the world or to other joints")

    @property
    def mass(self) -> float:
        """The total mass M, kg."""
        return self.model.kinematics.tree.mass

    def jacobian_at(self, q: jax.Array) -> jax.Array:
        """J (3, nv), cdot = J v in world axes, at q (nq,): sum_b m_b R_b (u_b + w_b x c_b) / M."""
        kinematics = self.model.kinematics
        inertias = jnp.asarray(kinematics.tree.inertias)
        rotations = kinematics.world_transforms_at(q)[:, :3, :3]
        momenta = jnp.einsum("nab,nbj->naj", inertias[:, 3:], kinematics.body_jacobians_at(q))
        return jnp.einsum("nab,nbj->aj", rotations, momenta) / self.mass

    def inclusion_at(self, q: jax.Array) -> jax.Array:
        """A (nv, nv), v = A vbar, at q (nq,)."""
        J = self.jacobian_at(q)
        R, n = J[:, 3:6], self.model.nv  # the floating body's linear velocity moves all bodies alike
        rows = jnp.concatenate([R.T, -R.T @ J[:, :3], -R.T @ J[:, 6:]], axis=1)
        return jnp.eye(n)[np.r_[3:6, 0:3, 6:n]].at[3:6].set(rows)

    def inclusion(self, q: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        """(A, Adot), (..., nv, nv) each; Adot is the derivative along the motion, exact.

        Parameters
        ----------
        q : (..., nq) configurations.
        v : (..., nv) velocities in the model's frame.

        Raises
        ------
        ShapeError, NonFiniteError, PointError.
        """

        def pair(p: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jax.jvp(self.inclusion_at, (p,), (self.model.frame.matrix_at(p) @ w,))

        arguments = Argument("q", q, (self.model.nq,)), Argument("v", v, (self.model.nv,))
        return evaluate(self, pair, *arguments)

    def mass_matrix(self, q: ArrayLike) -> np.ndarray:
        """Hbar = A^T H A, (..., nv, nv).

        Parameters
        ----------
        q : (..., nq) configurations.

        Source: [E] eq. (42).
        """
        A = np.asarray(evaluate(self, self.inclusion_at, Argument("q", q, (self.model.nq,))))
        H: np.ndarray = np.swapaxes(A, -1, -2) @ mass_matrix(self.model, q) @ A
        return H

    def coriolis_matrix(self, q: ArrayLike, v: ArrayLike, *, body_factor: str = "christoffel") -> np.ndarray:
        """Cbar = A^T C A + A^T H Adot, (..., nv, nv).

        Parameters
        ----------
        q : (..., nq) configurations.
        v : (..., nv) velocities in the model's frame (not vbar).
        body_factor : as in `multibody.coriolis_matrix`; ``"christoffel"`` gives Levi-Civita's. That of
            ``"least"`` is induced from the least C of the model's frame, not the least in vbar.

        Source: [W] eq. (17); [E] eq. (42).
        """
        A, A_dot = self.inclusion(q, v)
        C = coriolis_matrix(self.model, q, v, body_factor=body_factor)
        return np.asarray(induced_coriolis_matrix(C, mass_matrix(self.model, q), A, A_dot))

    @property
    def frame(self) -> FrameField:
        """The model's, in which v are components; vbar are not."""
        return self.model.frame

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is a configuration (unit quaternions); one boolean."""
        return self.model.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise the error that says why `q` (nq,) is not a configuration."""
        self.model.explain(q)
