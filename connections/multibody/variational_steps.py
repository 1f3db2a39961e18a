"""Variational steps of a robot, for loops of one's own: `variational_step` and `discrete_momentum`.

    J(q_k)^T p = P_k + (h/2) (tau - g_k),      P_{k+1} = J(q_{k+1})^T Ad_g^T p + (h/2) (tau - g_{k+1}),

with g_b the motion of body b in a step, V_b = log(g_b) / h and p_b = (dlog_{h V_b})^T I_b V_b. The state is q
and the momentum P, at the beginning H v. The recursions are in `kernels/variational.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.checks import (
    IntegrationError,
    as_array,
    as_number,
    batch_axes,
    require_finite,
    require_untraced,
    text_of_point,
)
from connections.coriolis.variational import TURNED
from connections.evaluation.boundary import returns_input_kind
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.model import Model, require_model
from connections.multibody.program.stepping import require_tree, stepped


@returns_input_kind
def variational_step(
    model: Model, q: Any, P: Any, h: float, tau: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """One step (q, P) -> (q, P) of the length h of Hamilton's principle for a discrete Lagrangian, in O(N).

    The step is symplectic, of order two, and its own adjoint: a step of -h leads back. Spatial momenta of a
    free base are kept to round-off. Velocities are H^-1 P.

    Parameters
    ----------
    model : the robot, without loops.
    q : (..., nq) configurations.
    P : (..., nv) momenta; H v at the beginning of a motion.
    h : length of the step, s, of either sign.
    tau : (..., nv) generalized forces, the same at both ends; none by default.

    Returns
    -------
    q (..., nq) and P (..., nv) after the step.

    Raises
    ------
    IntegrationError : Newton's method does not converge, or a body turns by half a turn or more: h is too
        long; names the row and q. ValueError : the robot has loops, or h is zero.
    ShapeError, NonFiniteError, PointError, TypeError.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> q, P = robot.neutral(), np.zeros(6)
    >>> after = mb.variational_step(robot, q, P, 0.01)
    >>> before, _ = mb.variational_step(robot, *after, -0.01)
    >>> float(abs(before - q).max().round(12))
    0.0

    Source: [LLPS]; [MW] sections 1 and 3.
    """
    q, rows, batch = _rows_of(
        "variational_step", model, q, P=P, tau=np.zeros(model.nv) if tau is None else tau
    )
    length = as_number("h", h)
    if length == 0.0:
        raise ValueError("h: expected the length of a step, s, got 0")
    P, tau = rows["P"], rows["tau"]
    found = stepped(model, np.hstack([q, P]), np.hstack([tau, tau]), np.ones(1), length, 1)
    for row in np.flatnonzero(found.why):
        why = "a body turns by half a turn or more" if found.why[row] == TURNED else "it is not found"
        where = f" [{row}]" if batch else ""
        raise IntegrationError(
            f"variational_step{where}: {why} in a step of h = {length:g} from q = {text_of_point(q[row])}; "
            "make shorter steps"
        )
    return found.q.reshape(*batch, model.nq), found.P.reshape(*batch, model.nv)


@returns_input_kind
def discrete_momentum(model: Model, q0: Any, q1: Any, h: float) -> np.ndarray:
    """J(q0)^T p, (..., nv): the momentum at q0 of the motion that leads to q1 in the time h, in O(N).

    It is the discrete Legendre transform of the kinetic energy, -D_1 of (h/2) sum V . I V; as h becomes
    short, H v. With potential and forces, P = J(q0)^T p - (h/2) (tau - g(q0)) is the momentum from which
    `variational_step` reaches q1.

    Parameters
    ----------
    model : the robot, without loops.
    q0, q1 : (..., nq) configurations; bodies turn by less than half a turn between them.
    h : time, s, of either sign.

    Raises
    ------
    ValueError : the robot has loops, or h is zero.
    ShapeError, NonFiniteError, PointError, TypeError.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> q0, v, h = robot.neutral(), np.ones(6), 1e-6
    >>> p = mb.discrete_momentum(robot, q0, mb.displace(robot, q0, h * v), h)
    >>> bool(np.allclose(p, mb.mass_matrix(robot, q0) @ v, rtol=1e-4))
    True

    Source: [MW] section 1.5; [LLPS].
    """
    q0, rows, batch = _rows_of("discrete_momentum", model, q0, "q0", q1=q1)
    length = as_number("h", h)
    if length == 0.0:
        raise ValueError("h: expected a time, s, got 0")
    y, none = np.hstack([q0, np.zeros((len(q0), model.nv))]), np.zeros((len(q0), 2 * model.nv))
    way = np.zeros((len(q0), 4 * model.nv + 1))
    way[:, : model.nq] = rows["q1"]
    found = stepped(model, y, none, np.ones(1), length, -1, way)
    return found.P.reshape(*batch, model.nv)


def _rows_of(
    name: str, model: Any, q: Any, called: str = "q", **given: Any
) -> tuple[np.ndarray, dict[str, np.ndarray], tuple[int, ...]]:
    """Configurations (m, nq) and further arrays (m, ...) with one batch, and its shape."""
    require_model(name, model)
    require_tree(name, model)
    require_untraced(**{called: q, **given})
    arrays = {called: configuration(model.kinematics, called, q)}
    for key, value in given.items():
        if key.startswith("q"):
            arrays[key] = configuration(model.kinematics, key, value)
        else:
            arrays[key] = np.asarray(as_array(key, value, (model.nv,)))
            require_finite(key, arrays[key])
    batch = batch_axes(tuple(arrays), list(arrays.values()))
    rows = {
        key: np.ascontiguousarray(np.broadcast_to(array, (*batch, array.shape[-1]))).reshape(
            -1, array.shape[-1]
        )
        for key, array in arrays.items()
    }
    return rows.pop(called), rows, batch
