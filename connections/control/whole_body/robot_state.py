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

from connections._moved import warn_moved
from connections.checks import (
    MetricError,
    ShapeError,
    as_array,
    require_choice,
    require_finite,
    require_function,
    require_untraced,
)
from connections.geometry.rigid.host_groups import skew
from connections.multibody import (
    center_of_mass,
    coriolis_matrix,
    frame_pose,
    mass_matrix,
    mass_matrix_rate,
    nonlinear_effects,
)
from connections.multibody.model import Model, solved
from connections.multibody.program.closed import coordinates_of
from connections.multibody.program.table import BODY_FACTORS

Coriolis = str | Callable[[Any, Any], Any]


def require_coriolis(coriolis: Any) -> None:
    """Raise `TypeError` or `ValueError` unless it says whose C is used."""
    if isinstance(coriolis, str):
        require_choice("coriolis", coriolis, BODY_FACTORS)
    else:
        require_function("coriolis", coriolis, "(q, v) -> C (nv, nv)")


class RobotState:
    """A robot at q with velocity v.

    Parameters
    ----------
    model : the robot.
    q : (nq,) configuration, or `SolvedLoops`.
    v : (nv,) velocity in the model's frame.
    coriolis : whose Coriolis matrix tasks use: a body-level factor of `multibody.coriolis_matrix`, or a
        function (q, v) -> C (nv, nv), such as ``model.system(gamma, beta).coriolis_matrix``.
    passive : whether `Model.passive_forces` act, too.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, MetricError.
    """

    def __init__(
        self, model: Model, q: Any, v: Any, coriolis: Coriolis = "christoffel", passive: bool = False
    ) -> None:
        require_untraced(q=q, v=v)
        self.model, self.coriolis = model, coriolis
        self.q = copied("q", coordinates_of(q, model.kinematics), (model.nq,))
        self.v = copied("v", v, (model.nv,))
        #: what recursions take: q, whose loops, if there are any, are solved once for all of them
        self.at = solved(model, q) if model.closed else self.q
        #: C v + g (nv,), less passive forces if they act; it validates q and v
        self.nonlinear_effects = nonlinear_effects(model, self.at, self.v)
        if passive:
            self.nonlinear_effects -= model.passive_forces(self.at, self.v)

    @property
    def bias(self) -> np.ndarray:
        """The old name of `nonlinear_effects`; elsewhere a bias is C v, without gravity."""
        warn_moved(f"{__name__}.RobotState.bias", f"{__name__}.RobotState.nonlinear_effects")
        return self.nonlinear_effects

    @cached_property
    def H(self) -> np.ndarray:
        """The mass matrix (nv, nv)."""
        return mass_matrix(self.model, self.at)

    @cached_property
    def H_dot(self) -> np.ndarray:
        """The rate of H along v, (nv, nv)."""
        return mass_matrix_rate(self.model, self.at, self.v)

    @cached_property
    def C(self) -> np.ndarray:
        """The Coriolis matrix (nv, nv), of the connection that was chosen."""
        if isinstance(self.coriolis, str):
            return coriolis_matrix(self.model, self.at, self.v, body_factor=self.coriolis)
        C = copied("coriolis(q, v)", self.coriolis(self.q, self.v), (self.model.nv, self.model.nv))
        require_finite("coriolis(q, v)", C)
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

    # Rows of H of a floating base, whose axes are R and whose origin is r, are the momenta per unit velocity
    # about r in these axes.

    @cached_property
    def _base(self) -> np.ndarray:
        return frame_pose(self.model, self.at, self.model.body_names[0])

    @cached_property
    def center_of_mass(self) -> np.ndarray:
        """c (3,), m, in the world."""
        return center_of_mass(self.model, self.at)

    @cached_property
    def linear_momentum(self) -> tuple[np.ndarray, np.ndarray]:
        """P (3, nv) and its rate, for a floating base: P v is the linear momentum in world axes; R H_u."""
        R, H, H_dot = self._base[:3, :3], self.H, self.H_dot
        return R @ H[3:6], R @ (skew(self.v[:3]) @ H[3:6] + H_dot[3:6])

    @cached_property
    def angular_momentum(self) -> tuple[np.ndarray, np.ndarray]:
        """K (3, nv) and its rate, for a floating base: K v is the angular momentum about c, in world axes.

        K = R H_w + (r - c) x P.
        """
        R, r, H, H_dot, (P, P_dot) = (
            self._base[:3, :3],
            self._base[:3, 3],
            self.H,
            self.H_dot,
            self.linear_momentum,
        )
        lever, moving = skew(r - self.center_of_mass), skew(R @ self.v[3:6] - P @ self.v / H[5, 5])
        turned = R @ (skew(self.v[:3]) @ H[:3] + H_dot[:3])
        return R @ H[:3] + lever @ P, turned + lever @ P_dot + moving @ P


def copied(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A copy of an array without batch axes: compiled code takes none that is read-only or not contiguous.

    Raises
    ------
    ShapeError, TypeError : naming the argument `name`.
    """
    array = np.array(as_array(name, value, shape), order="C")
    if array.shape != shape:
        raise ShapeError(name, shape, array.shape)
    return array
