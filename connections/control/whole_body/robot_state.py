"""A robot at one configuration and velocity: its matrices, each computed once, when it is asked for.

The mass matrix H = L L^T whitens velocities: |L^T v|^2 is twice the kinetic energy. The rows of a Jacobian J,
as covectors, have the inner products W^T W = J H^-1 J^T, with W = L^-1 J^T.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from connections.checks import MetricError, ShapeError, as_array
from connections.geometry.rigid.host_groups import skew
from connections.multibody import (
    center_of_mass,
    coriolis_matrix,
    frame_pose,
    mass_matrix,
    mass_matrix_rate,
    nonlinear_effects,
)
from connections.multibody.model import Model

Coriolis = str | Callable[[Any, Any], Any]


class RobotState:
    """A robot at q with velocity v.

    Parameters
    ----------
    model : the robot.
    q : (nq,) configuration.
    v : (nv,) velocity in the model's frame.
    coriolis : whose Coriolis matrix tasks use: a body-level factor of `multibody.coriolis_matrix`, or a
        function (q, v) -> C (nv, nv), such as ``model.system(gamma, beta).coriolis_matrix``.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, MetricError.
    """

    def __init__(self, model: Model, q: Any, v: Any, coriolis: Coriolis = "christoffel") -> None:
        self.model, self.q, self.v = model, as_array("q", q, (model.nq,)), as_array("v", v, (model.nv,))
        self.coriolis = coriolis
        if self.q.ndim != 1 or self.v.ndim != 1:
            name, size, value = ("v", model.nv, self.v) if self.q.ndim == 1 else ("q", model.nq, self.q)
            raise ShapeError(name, (size,), value.shape)
        self.bias = nonlinear_effects(model, self.q, self.v)  #: C v + g (nv,); it validates q and v

    @cached_property
    def H(self) -> np.ndarray:
        """The mass matrix (nv, nv)."""
        return mass_matrix(self.model, self.q)

    @cached_property
    def H_dot(self) -> np.ndarray:
        """Its rate along v, (nv, nv)."""
        return mass_matrix_rate(self.model, self.q, self.v)

    @cached_property
    def C(self) -> np.ndarray:
        """The Coriolis matrix (nv, nv), of the connection that was chosen."""
        if isinstance(self.coriolis, str):
            return coriolis_matrix(self.model, self.q, self.v, body_factor=self.coriolis)
        C = np.asarray(as_array("coriolis(q, v)", self.coriolis(self.q, self.v), (self.model.nv,) * 2))
        return C

    @cached_property
    def L(self) -> np.ndarray:
        """The Cholesky factor of H, lower triangular (nv, nv)."""
        L, info = dpotrf(self.H, lower=1, clean=1)
        if info:
            raise MetricError("the mass matrix is singular at this configuration")
        return np.asarray(L)

    def whitened(self, covectors: np.ndarray) -> np.ndarray:
        """L^-1 times covectors (nv, ...), as columns."""
        return np.asarray(dtrtrs(self.L, covectors, lower=1)[0])

    def velocities(self, y: np.ndarray) -> np.ndarray:
        """L^-T y: the velocities or accelerations whose whitened components are y (nv, ...)."""
        return np.asarray(dtrtrs(self.L, y, lower=1, trans=1)[0])

    @cached_property
    def momentum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The centre of mass c (3,), and h (6, nv) with its rate, h v = [k; p]; for a floating base.

        k is the angular momentum about c, p the linear one, in world axes. Rows of H of the base, whose axes
        are R and whose origin is r, are the momenta per unit velocity about r in these axes, so that

            p = R H_u,      k = R H_w + (r - c) x p.
        """
        base = self.model.body_names[0]
        pose, c = frame_pose(self.model, self.q, base), center_of_mass(self.model, self.q)
        R, spin, n = pose[:3, :3], skew(self.v[:3]), self.model.nv
        turned = R @ np.concatenate([self.H[:3], self.H[3:6]], axis=1)
        rates = self.H_dot[:6] + np.concatenate([spin @ self.H[:3], spin @ self.H[3:6]])
        turned_rates = R @ np.concatenate([rates[:3], rates[3:]], axis=1)
        p, p_dot, lever = turned[:, n:], turned_rates[:, n:], skew(pose[:3, 3] - c)
        c_dot = p @ self.v / self.H[5, 5]  # over the mass
        k = turned[:, :n] + lever @ p
        k_dot = turned_rates[:, :n] + lever @ p_dot + skew(R @ self.v[3:6] - c_dot) @ p
        return c, np.concatenate([k, p]), np.concatenate([k_dot, p_dot])
