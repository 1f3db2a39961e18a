"""The passivity-based control law, for any mechanical system in any frame, robots included.

    tau = Hhat vdot_r + Chat(q, v) v_r + ghat - K_D s,      s = v - v_r,

with Hhat, Chat, ghat of a model; C belongs to the model's connection. The law follows a reference of
`references.py` or `attractors.py`; `closed_loop.py` joins it to a plant.

Laws ask their model for three functions of `MechanicalSystem`: `reference_force` here and in `payload.py`,
`momentum` and `momentum_rate` in `observer.py`. The system of a robot, ``model.system()``, computes them by
recursion: for NumPy arrays in microseconds, without a call of JAX.
Source: [W] (13).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from connections._jax import Array, ArrayLike
from connections.affine import AffineConnection
from connections.checks import require_type
from connections.control.laws.gains import Certifiable, gain_matrix, sliding
from connections.control.laws.law import ControlLaw
from connections.coriolis import MechanicalSystem
from connections.geometry import FrameField


@dataclass(frozen=True, eq=False, repr=False)
class PassivityController(Certifiable, ControlLaw):
    """tau = Hhat vdot_r + Chat v_r + ghat - K_D (v - v_r).

    Parameters
    ----------
    model : the estimate of the plant, such as ``robot.system()``. Its `forces` are not compensated, because
        the law has no term for them.
    gain : K_D, scalar, (n,) or (n, n), positive definite; units of a generalized force over a velocity.
        One of `gains_from` is printed with what it is proved for.
    connection : the connection whose Coriolis matrix is used; None takes the model's. The Lyapunov argument
        needs one that is compatible with the plant's metric up to the parameter error.

    Raises
    ------
    ShapeError, NonFiniteError, GainError; FrameError if model and connection are in different frames.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> law = control.PassivityController(robot.system(), gain=5.0)
    >>> q, zero = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]), np.zeros(6)
    >>> np.allclose(law.torque(q, zero, zero, zero), mb.gravity(robot, q))
    True

    Source: [W] (13).
    """

    model: MechanicalSystem
    gain: Any
    connection: AffineConnection | None = None

    def __post_init__(self) -> None:
        require_type("model", self.model, MechanicalSystem, "write PassivityController(system, gain)")
        if self.connection is not None:
            object.__setattr__(self, "model", self.model.with_connection(self.connection))
        self._keep_certificates(gain="K_D")
        object.__setattr__(self, "gain", gain_matrix("gain K_D", self.gain, self.model.frame.dim))
        object.__setattr__(self, "connection", self.model.connection)

    def torque_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """The force tau (n,) at one point."""
        pull: jax.Array = self.gain @ (v - v_r)
        return self.model.reference_force_at(q, v, v_r, a_r) - pull

    def torque(self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike) -> Array:
        """The force tau, (..., n), covector components in the frame.

        Parameters
        ----------
        q : (..., nq) configurations.
        v : (..., n) velocities, frame components.
        v_r, a_r : (..., n) reference velocity and the rate of its components along the motion.

        Raises
        ------
        ShapeError, NonFiniteError, and the errors of the frame and the metric at q.

        Source: [W] (13).
        """
        tau: Array = self.model.reference_force(q, v, v_r, a_r) - sliding(v, v_r) @ self.gain.T
        return tau

    @property
    def frame(self) -> FrameField:
        """The frame of the model."""
        return self.model.frame
