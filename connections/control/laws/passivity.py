"""The passivity-based control law, for any mechanical system in any frame.

    tau = Hhat vdot_r + Chat(q, v) v_r + ghat - K_D s,      s = v - v_r,

Hhat, Chat, ghat those of a model, C that of the model's connection. The law follows a reference of
`references.py` or `attractors.py`; `closed_loop.py` joins it to a plant.
Source: [W] (13).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from connections._jax import Array
from connections.affine import AffineConnection
from connections.checks import require_type
from connections.control.laws.gains import gain_matrix
from connections.coriolis import MechanicalSystem
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.describing import Described
from connections.evaluation.parameters import Parametrized
from connections.geometry import FrameField


@dataclass(frozen=True, eq=False, repr=False)
class PassivityController(Described, Parametrized):
    """tau = Hhat vdot_r + Chat v_r + ghat - K_D (v - v_r).

    Parameters
    ----------
    model : the estimate of the plant. Its `forces` are not compensated: the law has no term for them.
    gain : K_D, scalar, (n,) or (n, n), positive definite; units of a generalized force over a velocity.
    connection : the connection whose Coriolis matrix is used; None takes the model's. The Lyapunov argument
        needs one that is compatible with the plant's metric up to the parameter error.

    Raises
    ------
    ShapeError, NonFiniteError, GainError; FrameError where model and connection are in different frames.

    Source: [W] (13).
    """

    model: MechanicalSystem
    gain: Any
    connection: AffineConnection | None = None

    def __post_init__(self) -> None:
        require_type("model", self.model, MechanicalSystem, "write PassivityController(system, gain)")
        if self.connection is not None:
            require_type("connection", self.connection, AffineConnection)
        object.__setattr__(self, "gain", gain_matrix("gain K_D", self.gain, self.model.metric.frame.dim))
        model = self.model
        if self.connection is not None:
            model = MechanicalSystem(model.metric, model.potential, model.forces, self.connection)
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "connection", model.connection)

    def torque_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """The force tau (n,) at one point: the law itself."""
        damping: jax.Array = self.gain @ (v - v_r)
        return reference_force_at(self.model, q, v, v_r, a_r) - damping

    def torque(self, q: Any, v: Any, v_r: Any, a_r: Any) -> Array:
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
        n = self.model.metric.frame.dim
        arguments = [Argument(name, x, (n,)) for name, x in (("v", v), ("v_r", v_r), ("a_r", a_r))]
        point = Argument("q", q, (self.model.metric.frame.ambient_dim,))
        return evaluate(self, self.torque_at, point, *arguments)

    @property
    def frame(self) -> FrameField:
        """The frame of the model."""
        return self.model.frame

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether frame and metric are valid at q; one boolean."""
        return self.model.valid_at(q)

    def explain(self, q: Any) -> None:
        """Raise the error of the frame or the metric for a point that is not valid."""
        self.model.explain(q)


def reference_force_at(
    system: MechanicalSystem, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array
) -> jax.Array:
    """H a_r + C(q, v) v_r + g, (n,): the force of `system` along a reference; linear in its parameters.

    C is that of the system's connection, applied to v_r without forming it.
    """
    bias = connection_of(system).lowered_at(system.metric, q, v, v_r)
    return system.metric.matrix_at(q) @ a_r + bias + system.gravity_at(q)


def connection_of(system: MechanicalSystem) -> AffineConnection:
    """The connection of a system, which every constructed system has."""
    assert system.connection is not None
    return system.connection
