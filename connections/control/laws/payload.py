"""What a robot carries: a payload on one of its bodies, and inertia that a law does not know.

    H a_r + C_gamma(q, v) v_r + g = known force + Y pi,    pi: ten parameters for each body that carries some.

The regressor Y is one recursion in O(N), and belongs to C*. What torsion adds to C vanishes on v and is skew,
whatever inertias it is computed with; so it is computed with the known inertias only, and the Lyapunov
function of the adaptive law falls by s^T K_D s all the same.
Source: Slotine and Li (1987); [W] IV-A.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from connections._words import no_such
from connections.checks import ModelError, as_array, is_traced, require_type
from connections.control.laws.adaptive import Parametrization
from connections.evaluation.boundary import returns_input_kind
from connections.geometry import FrameField
from connections.multibody import Model, TracedModel, inertial_parameters, regressor
from connections.multibody.as_geometry.robot_system import RobotSystem
from connections.multibody.inertia import InertiaWarning, body_inertia, inertia_flaw
from connections.multibody.model import require_model, with_inertias

PARAMETERS = 10  # m, h (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz of a body


@dataclass(frozen=True, eq=False)
class UnknownInertia(Parametrization):
    """Some bodies of a robot carry additional inertia that a controller does not know.

    Parameters
    ----------
    system : ``model.system()``, the robot as it is known, torsion included.
    bodies : names of the bodies with unknown additional inertia, in the order in which pi stacks them.

    For each body, pi has the ten parameters of `multibody.regressor`; they are additions to the model's.

    Raises
    ------
    ModelError : the robot has no such body, or none is given.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> family = control.UnknownInertia(robot.system(), ["tool"])
    >>> q, zero = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]), np.zeros(6)
    >>> family.regressor(q, zero, zero, zero).shape
    (6, 10)
    >>> np.allclose(family.known_force(q, zero, zero, zero), mb.gravity(robot, q))
    True

    Source: Slotine and Li (1987); [W] IV-A.
    """

    system: RobotSystem
    bodies: Sequence[str]
    _columns: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_type("system", self.system, RobotSystem, "write UnknownInertia(model.system(), bodies)")
        names = isinstance(self.bodies, Sequence) and all(isinstance(name, str) for name in self.bodies)
        if isinstance(self.bodies, str) or not names or not len(self.bodies):
            raise ModelError(f"bodies: expected a list of names of bodies, got {self.bodies!r}")
        for name in self.bodies:
            if list(self.bodies).count(name) > 1:
                raise ModelError(f"bodies: '{name}' is given twice")
        model: Any = self.system.model
        numbers = [_body_number(model, name) for name in self.bodies]
        columns = np.concatenate([PARAMETERS * n + np.arange(PARAMETERS) for n in numbers])
        object.__setattr__(self, "bodies", tuple(self.bodies))
        object.__setattr__(self, "_columns", columns)

    @property
    def frame(self) -> FrameField:
        """The robot's frame."""
        return self.system.frame

    @property
    def size(self) -> int:
        """The number of parameters, 10 for each body."""
        return len(self._columns)

    def known_force(self, q: Any, v: Any, v_r: Any, a_r: Any) -> Any:
        """H a_r + C_gamma v_r + g of the robot as it is known, (..., nv)."""
        return self.system.reference_force(q, v, v_r, a_r)

    @returns_input_kind
    def regressor(self, q: Any, v: Any, v_r: Any, a_r: Any) -> np.ndarray:
        """Y, (..., nv, 10 B): what the additional inertia pi of B bodies adds to H a_r + C* v_r + g is Y pi.

        Parameters
        ----------
        q : (..., nq) configurations.
        v, v_r, a_r : (..., nv) velocity, reference velocity and its rate.
        """
        model: Any = self.system.model
        return regressor(model, q, v, v_r, a_r)[..., self._columns]


def with_payload(
    model: Model | TracedModel, body: str, mass: float, center_of_mass: Any, inertia: Any = None
) -> Model:
    """The robot with something rigidly attached to one of its bodies; loops and couplings remain.

    Parameters
    ----------
    model : the robot.
    body : the body that carries it.
    mass : kg.
    center_of_mass : (3,) m, in the axes of the body from its origin.
    inertia : (3, 3) kg m^2 about the payload's centre of mass, in body axes; zero if None.

    Where JAX traces one of these, the robot is a `multibody.TracedModel`, and only shapes are checked.

    Raises
    ------
    ModelError : there is no such body; the mass is negative, or a number is not finite.

    Warns
    -----
    InertiaWarning : no distribution of mass has this inertia.

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> loaded = control.with_payload(robot, "tool", 2.0, (0.0, 0.0, 0.05))
    >>> round(mb.total_mass(loaded) - mb.total_mass(robot), 9)
    2.0
    >>> control.with_payload(robot, "gripper", 2.0, (0.0, 0.0, 0.05))
    Traceback (most recent call last):
        ...
    connections.checks.ModelError: there is no body 'gripper'. The bodies are shoulder, upper_arm,
    forearm, wrist, hand, tool
    """
    if not isinstance(model, TracedModel):
        require_model("with_payload", model)
    if isinstance(model, TracedModel) or is_traced(mass, center_of_mass, inertia):
        return cast("Model", _with_traced_payload(model, body, mass, center_of_mass, inertia))
    number = _body_number(model, body)
    inertia = np.zeros((3, 3)) if inertia is None else inertia
    payload = body_inertia(body, mass, center_of_mass, inertia).matrix
    flaw = inertia_flaw(np.asarray(inertia, dtype=np.float64), mass, center_of_mass)
    if flaw:
        warnings.warn(f"payload of body '{body}': inertia {flaw}", InertiaWarning, stacklevel=2)
    inertias = model.kinematics.tree.inertias.copy()
    inertias[number] += payload
    return with_inertias(model, inertias)


def _with_traced_payload(model: Any, body: str, mass: Any, center_of_mass: Any, inertia: Any) -> Any:
    number = _body_number(model, body)
    given = [
        as_array(name, value, shape)
        for name, value, shape in (
            ("mass", mass, ()),
            ("center_of_mass", center_of_mass, (3,)),
            ("inertia", np.zeros((3, 3)) if inertia is None else inertia, (3, 3)),
        )
    ]
    m, c, about_center = map(jnp.asarray, given)
    rotational = about_center + m * ((c @ c) * jnp.eye(3) - jnp.outer(c, c))
    row = jnp.concatenate([m[None], m * c, rotational[np.tril_indices(3)]])
    parameters = jnp.asarray(inertial_parameters(model)).at[number].add(row)
    return model.with_inertial_parameters(parameters)


def _body_number(model: Model, body: str) -> int:
    if body not in model.body_names:
        raise ModelError(no_such("body", body, model.body_names))
    return model.body_names.index(body)
