"""Control laws of a robot by the recursions: C v_r, C^T v and the regressor in O(N), on NumPy arrays.

    tau = H a_r + C_gamma(q, v) v_r + g - K_D s,    C_gamma = C* + gamma (C_x - C*) + sum beta S^T (S v x) S,
    tau = tau_nominal + Y pihat,  pihat_dot = -P Y^T s;      r = K (H v - z),  zdot = tau + C^T v - g + r.

These are the laws of `passivity`, `adaptive` and `observer` for a `Model`, without tracing: one call costs
microseconds. C* is Levi-Civita's, C_x that of the body-level factor (v x*) I. The difference of any two
admissible connections is totally antisymmetric, so C_gamma is admissible for every gamma and beta, and the
Lyapunov function of the adaptive law falls by s^T K_D s for each of them: what torsion adds vanishes at
v_r = v and is skew, whatever inertias it is computed with.
Source: [W] IV-A, II and eq. (12); [E] eq. (11); Slotine and Li (1987).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from connections._words import no_such
from connections.affine import ContorsionFamily
from connections.checks import (
    ModelError,
    ShapeError,
    as_array,
    as_number,
    require_finite,
    require_type,
)
from connections.control.laws.gains import gain_matrix
from connections.evaluation.boundary import kind_kept
from connections.multibody import (
    Model,
    coriolis_product,
    coriolis_transpose_product,
    gravity,
    inverse_dynamics,
    mass_matrix,
    regressor,
)
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.inertia import InertiaWarning, body_inertia, inertia_flaw
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.model import require_model

PARAMETERS = 10  # m, h (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz of a body


@dataclass(frozen=True, eq=False)
class RobotController:
    """tau = H a_r + C_gamma(q, v) v_r + g - K_D (v - v_r) of a robot.

    Parameters
    ----------
    model : what the controller knows of the robot.
    gain : K_D, scalar, (nv,) or (nv, nv), positive definite.
    gamma : the share of C_x - C*; 0 is Levi-Civita's C, 1 the one of (v x*) I.
    beta : (C(nv, 3),) constant members of [W] (12) to add, i < j < k lexicographic; None for none.

    Raises
    ------
    ShapeError, NonFiniteError, GainError.

    Source: [W] eq. (13), with C of eq. (12) or [E] eq. (11).
    """

    model: Model
    gain: Any
    gamma: float = 0.0
    beta: Any = None

    def __post_init__(self) -> None:
        require_model("RobotController", self.model)
        object.__setattr__(self, "gamma", as_number("gamma", self.gamma))
        object.__setattr__(self, "gain", np.asarray(gain_matrix("gain K_D", self.gain, self.model.nv)))
        if self.beta is not None:
            family = ContorsionFamily(self.model.metric)
            beta = np.asarray(as_array("beta", self.beta, (family.dimension,)))
            if beta.ndim != 1:
                raise ShapeError("beta", (family.dimension,), beta.shape)
            require_finite("beta", beta)
            object.__setattr__(self, "beta", beta)
            object.__setattr__(self, "_contorsion", np.asarray(family.contorsion_of(beta)))

    @kind_kept
    def coriolis_product(self, q: Any, v: Any, w: Any) -> np.ndarray:
        """C_gamma(q, v) w, (..., nv).

        Parameters
        ----------
        q : (..., nq) configurations.
        v : (..., nv) velocities.
        w : (..., nv) vectors in the frame.

        Source: [W] eq. (12); [E] eq. (11).
        """
        force = coriolis_product(self.model, q, v, w)
        if self.gamma != 0.0:
            other = coriolis_product(self.model, q, v, w, body_factor="force_cross")
            force = force + self.gamma * (other - force)
        if self.beta is not None:
            D = self._contorsion  # type: ignore[attr-defined]
            force = force - np.einsum("ijk,...j,...k->...i", D, np.asarray(v), np.asarray(w))
        return force

    @kind_kept
    def torque(self, q: Any, v: Any, v_r: Any, a_r: Any) -> np.ndarray:
        """The forces tau, (..., nv), N m and N.

        Parameters
        ----------
        q : (..., nq) configurations.
        v : (..., nv) velocities.
        v_r, a_r : (..., nv) reference velocity and its rate.

        Raises
        ------
        ShapeError, NonFiniteError, PointError.

        Source: [W] eq. (13).
        """
        v, v_r, a_r = self._vectors(v=v, v_r=v_r, a_r=a_r)
        static = inverse_dynamics(self.model, q, np.zeros(self.model.nv), a_r)
        tau: np.ndarray = static + self.coriolis_product(q, v, v_r) - (v - v_r) @ self.gain.T
        return tau

    def _vectors(self, **given: Any) -> list[np.ndarray]:
        """The given vectors (..., nv), by the names that the caller knows."""
        return [_vector(name, value, self.model.nv) for name, value in given.items()]


@dataclass(frozen=True, eq=False)
class AdaptiveRobotController:
    """tau = tau_nominal + Y pihat, pihat_dot = -P Y^T s: some bodies carry what the controller does not know.

    Parameters
    ----------
    nominal : the law for the robot as it is known, torsion included.
    bodies : the bodies with unknown additional inertia, in the order in which pi stacks them.
    adaptation : P, scalar, (10 B,) or (10 B, 10 B), symmetric positive definite, for B bodies.

    pi has for every body the ten parameters of `multibody.regressor`; they are additions to the model's.

    Raises
    ------
    ModelError : the robot has no such body, or none is given. ShapeError, NonFiniteError, GainError.

    Source: Slotine and Li (1987); [W] IV-A.
    """

    nominal: RobotController
    bodies: Sequence[str]
    adaptation: Any
    _columns: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_type("nominal", self.nominal, RobotController)
        names = isinstance(self.bodies, Sequence) and all(isinstance(name, str) for name in self.bodies)
        if isinstance(self.bodies, str) or not names or not len(self.bodies):
            raise ModelError(f"bodies: expected a list of names of bodies, got {self.bodies!r}")
        for name in self.bodies:
            if list(self.bodies).count(name) > 1:
                raise ModelError(f"bodies: '{name}' stands there twice")
        numbers = [_body_number(self.nominal.model, name) for name in self.bodies]
        columns = np.concatenate([PARAMETERS * n + np.arange(PARAMETERS) for n in numbers])
        P = gain_matrix("adaptation P", self.adaptation, columns.size, symmetric=True)
        object.__setattr__(self, "bodies", tuple(self.bodies))
        object.__setattr__(self, "adaptation", np.asarray(P))
        object.__setattr__(self, "_columns", columns)

    def regressor(self, q: Any, v: Any, v_r: Any, a_r: Any) -> np.ndarray:
        """Y, (..., nv, 10 B): what the additional inertia pi adds to H a_r + C* v_r + g is Y pi.

        Parameters
        ----------
        q : (..., nq) configurations.
        v, v_r, a_r : (..., nv) velocity, reference velocity and its rate.
        """
        Y: np.ndarray = regressor(self.nominal.model, q, v, v_r, a_r)[..., self._columns]
        return Y

    @kind_kept
    def torque(self, q: Any, v: Any, v_r: Any, a_r: Any, parameters: Any) -> np.ndarray:
        """The forces tau = tau_nominal + Y pihat, (..., nv), N m and N.

        Parameters
        ----------
        q : (..., nq) configurations.
        v, v_r, a_r : (..., nv) velocity, reference velocity and its rate.
        parameters : (..., 10 B) estimates pihat.

        Raises
        ------
        ShapeError, NonFiniteError, PointError.

        Source: Slotine and Li (1987); [W] IV-A.
        """
        parameters = _vector("parameters", parameters, len(self.adaptation))
        added = np.einsum("...ip,...p->...i", self.regressor(q, v, v_r, a_r), parameters)
        tau: np.ndarray = self.nominal.torque(q, v, v_r, a_r) + added
        return tau

    @kind_kept
    def parameters_rate(self, q: Any, v: Any, v_r: Any, a_r: Any) -> np.ndarray:
        """pihat_dot = -P Y^T s, (..., 10 B): how the estimates change.

        Parameters
        ----------
        q : (..., nq) configurations.
        v, v_r, a_r : (..., nv) velocity, reference velocity and its rate.

        Raises
        ------
        ShapeError, NonFiniteError, PointError.

        Source: Slotine and Li (1987).
        """
        Y, s = self.regressor(q, v, v_r, a_r), np.subtract(v, v_r)
        rate: np.ndarray = -np.einsum("...ip,...i->...p", Y, s) @ self.adaptation
        return rate

    def lyapunov(self, plant: Model, q: Any, s: Any, error: Any) -> np.ndarray:
        """V = (1/2) s^T H s + (1/2) pi~^T P^-1 pi~, (...,), J; its rate is -s^T K_D s.

        Parameters
        ----------
        plant : the robot as it is; H is its mass matrix.
        q : (..., nq) configurations.
        s : (..., nv) v - v_r.
        error : (..., 10 B) pi~ = pihat - pi.
        """
        s, error = np.asarray(s), np.asarray(error)
        kinetic = np.einsum("...i,...ij,...j->...", s, mass_matrix(plant, q), s)
        rest = np.einsum("...p,...p->...", error, error @ np.linalg.inv(self.adaptation))
        V: np.ndarray = 0.5 * (kinetic + rest)
        return V


@dataclass(frozen=True, eq=False)
class RobotMomentumObserver:
    """r = K (p - z), zdot = tau + C^T v - g + r: r follows the forces that nobody measured.

    Parameters
    ----------
    model : what the observer knows of the robot.
    gain : K, scalar, (nv,) or (nv, nv), positive definite, 1/s.

    Every admissible C has the same C^T v; p = H v is computed without forming H.

    Raises
    ------
    ShapeError, NonFiniteError, GainError.

    Source: [W] II; De Luca, Albu-Schaeffer, Haddadin and Hirzinger (2006).
    """

    model: Model
    gain: Any

    def __post_init__(self) -> None:
        require_model("RobotMomentumObserver", self.model)
        object.__setattr__(self, "gain", np.asarray(gain_matrix("gain K", self.gain, self.model.nv)))
        object.__setattr__(self, "_weightless", self.model.with_gravity((0.0, 0.0, 0.0)))

    def momentum(self, q: Any, v: Any) -> np.ndarray:
        """The momentum p = H v, (..., nv); the observer's first state.

        Parameters
        ----------
        q : (..., nq) configurations.
        v : (..., nv) velocities.
        """
        return inverse_dynamics(self._weightless, q, np.zeros(self.model.nv), v)  # type: ignore[attr-defined]

    def residual(self, q: Any, v: Any, z: Any) -> np.ndarray:
        """The estimate r = K (H v - z), (..., nv).

        Parameters
        ----------
        q, v : (..., nq), (..., nv) measured state.
        z : (..., nv) state of the observer.
        """
        r: np.ndarray = (self.momentum(q, v) - _vector("z", z, self.model.nv)) @ self.gain.T
        return r

    def state_rate(self, q: Any, v: Any, tau: Any, z: Any) -> np.ndarray:
        """Rate of z: tau + C^T v - g + r, (..., nv).

        Parameters
        ----------
        q, v : (..., nq), (..., nv) measured state.
        tau : (..., nv) forces that the observer knows of.
        z : (..., nv) state of the observer.

        Source: [W] II.
        """
        known = coriolis_transpose_product(self.model, q, v, v) - gravity(self.model, q)
        rate: np.ndarray = _vector("tau", tau, self.model.nv) + known + self.residual(q, v, z)
        return rate


def with_payload(model: Model, body: str, mass: float, center_of_mass: Any, inertia: Any = None) -> Model:
    """The robot with something rigidly attached to one of its bodies; loops and couplings remain.

    Parameters
    ----------
    model : the robot.
    body : the body that carries it.
    mass : kg.
    center_of_mass : (3,) m, in the axes of the body from its origin.
    inertia : (3, 3) kg m^2 about the payload's centre of mass, in body axes; zero if None.

    Raises
    ------
    ModelError : there is no such body; the mass is negative, or a number is not finite.

    Warns
    -----
    InertiaWarning : no distribution of mass has this inertia.
    """
    require_model("with_payload", model)
    number, kinematics = _body_number(model, body), model.kinematics
    tree = kinematics.tree
    inertia = np.zeros((3, 3)) if inertia is None else inertia
    payload = body_inertia(body, mass, center_of_mass, inertia).matrix
    flaw = inertia_flaw(np.asarray(inertia, dtype=np.float64), mass, center_of_mass)
    if flaw:
        warnings.warn(f"payload of body '{body}': inertia {flaw}", InertiaWarning, stacklevel=2)
    inertias = tree.inertias.copy()
    inertias[number] += payload
    loaded = Kinematics(replace(tree, inertias=inertias))
    if isinstance(kinematics, ClosedKinematics):  # its loops, couplings and reference configuration remain
        return Model.of(replace(kinematics, spanning=loaded), model.gravity)
    return Model.of(loaded, model.gravity)


def _vector(name: str, value: Any, size: int) -> np.ndarray:
    """`value` (..., size) as a finite array."""
    vector = np.asarray(as_array(name, value, (size,)))
    require_finite(name, vector)
    return vector


def _body_number(model: Model, body: str) -> int:
    if body not in model.body_names:
        raise ModelError(no_such("body", body, model.body_names))
    return model.body_names.index(body)
