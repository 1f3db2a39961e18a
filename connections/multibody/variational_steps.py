"""Variational steps of a robot, for loops of one's own: `variational_step` and `discrete_momentum`.

    J(q_k)^T p = P_k + (h/2) (tau - g_k),      P_{k+1} = J(q_{k+1})^T Ad_g^T p + (h/2) (tau - g_{k+1}),

with g_b the motion of body b in a step, V_b = log(g_b) / h and p_b = (dlog_{h V_b})^T I_b V_b. The state is q
and the momentum P, at the beginning H v. The recursions are in `kernels/variational.py`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.checks import (
    IntegrationError,
    PointError,
    ShapeError,
    as_array,
    as_number,
    batch_axes,
    is_traced,
    require_finite,
    text_of_point,
)
from connections.coriolis.variational import OPEN, TURNED
from connections.evaluation.boundary import float_of, returns_input_kind
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.model import Model, require_model
from connections.multibody.program.loop_stepping import stepping_of
from connections.multibody.program.stepping import history_size, one_step

_REASONS = {
    TURNED: "a body or the angle of a joint turns by half a turn or more",
    OPEN: "loops do not close where it leads",
}


def variational_step(
    model: Model, q: Any, P: Any, h: float, tau: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """One step (q, P) -> (q, P) of the length h of Hamilton's principle for a discrete Lagrangian, in O(N).

    The step is symplectic, of order two, and its own adjoint: a step of -h leads back. Spatial momenta of a
    free base are kept to round-off. Velocities are H^-1 P. Inside JAX, derivatives are those of the root of
    the equations, exact and of all orders.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    P : (..., nv) momenta; H v at the beginning of a motion.
    h : length of the step, s, of either sign.
    tau : (..., nv) generalized forces, the same at both ends; none by default.

    Returns
    -------
    q (..., nq) and P (..., nv) after the step.

    Raises
    ------
    IntegrationError : h is too long: Newton's method does not converge near to where it begins, or a body or
        the angle of a joint turns by half a turn or more; names the row and q. ValueError : h is
        zero. ClosureError : loops do not close at q.
    ShapeError, NonFiniteError, PointError, TypeError. Where JAX traces an argument, the result is NaN instead
    of an error about numbers.

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
    require_model("variational_step", model)
    if tau is None:
        tau = np.zeros(model.nv)
    if (
        not model.closed
        and h.__class__ is float
        and q.__class__ is P.__class__ is tau.__class__ is np.ndarray
    ):
        made = one_step(model, q, P, tau, h)
        if made is not None:
            return made
    return _any_step(model, q, P, h, tau)


@returns_input_kind
def discrete_momentum(model: Model, q0: ArrayLike, q1: ArrayLike, h: float) -> np.ndarray:
    """J(q0)^T p, (..., nv): the momentum at q0 of the motion that leads to q1 in the time h, in O(N).

    It is the discrete Legendre transform of the kinetic energy, -D_1 of (h/2) sum V . I V; as h becomes
    short, H v. With potential and forces, P = J(q0)^T p - (h/2) (tau - g(q0)) is the momentum from which
    `variational_step` reaches q1.

    Parameters
    ----------
    model : the robot.
    q0, q1 : (..., nq) configurations. Bodies, and the angles of joints, turn by less than half a turn between
        them; angles are counted as they are, with whole turns.
    h : time, s, of either sign.

    Raises
    ------
    PointError : a body, or the angle of a joint, turns by half a turn or more; names the row and q0.
    ValueError : h is zero. ClosureError : loops do not close.
    ShapeError, NonFiniteError, PointError, TypeError. Where JAX traces an argument, the result is NaN instead
    of an error about numbers.

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
    require_model("discrete_momentum", model)
    if is_traced(q0, q1, h):
        arrays = as_array("q0", q0, (model.nq,)), as_array("q1", q1, (model.nq,))
        return _traced_momentum(model, arrays, h, float_of(q0, q1))
    q0, rows, batch = _rows_of(model, q0, "q0", q1=q1)
    length = _length("h", h, "a time")
    y, none = np.hstack([q0, np.zeros((len(q0), model.nv))]), np.zeros((len(q0), 2 * model.nv))
    way = np.zeros((len(q0), history_size(model.nv)))
    way[:, : model.nq] = rows["q1"]
    found = stepping_of(model)(y, none, np.ones(1), length, -1, way)
    if not found.good:
        configuration(model.kinematics, "q0", q0)  # raises the error
    for row in np.flatnonzero(found.why):
        where = f" [{row}]" if batch else ""
        raise PointError(
            f"q1{where}: {_REASONS[TURNED]} on the way to it from q0 = {text_of_point(q0[row])}, so that the "
            "way is not known; give configurations that are nearer to each other"
        )
    return found.P.reshape(*batch, model.nv)


@returns_input_kind
def _any_step(model: Model, q: Any, P: Any, h: Any, tau: Any) -> tuple[np.ndarray, np.ndarray]:
    """`variational_step` of any arguments."""
    if is_traced(q, P, h, tau):
        return _traced_step(model, q, P, h, tau)
    q, rows, batch = _rows_of(model, q, P=P, tau=tau)
    length = _length("h", h, "the length of a step")
    P, tau = rows["P"], rows["tau"]
    found = stepping_of(model)(np.hstack([q, P]), np.hstack([tau, tau]), np.ones(1), length, 1)
    if not found.good:
        configuration(model.kinematics, "q", q)  # raises the error
    for row in np.flatnonzero(found.why):
        why = _REASONS.get(int(found.why[row]), "Newton's method does not converge near to where it begins")
        where = f" [{row}]" if batch else ""
        raise IntegrationError(
            f"variational_step{where}: {why} in a step of h = {length:g} from q = {text_of_point(q[row])}; "
            "make shorter steps"
        )
    return found.q.reshape(*batch, model.nq), found.P.reshape(*batch, model.nv)


def _length(name: str, value: Any, what: str) -> float:
    """A time, s, that is not zero."""
    number = as_number(name, value)
    if number == 0.0:
        raise ValueError(f"{name}: expected {what}, s, got 0")
    return number


def _traced_momentum(model: Model, arrays: tuple[Any, ...], h: Any, dtype: Any) -> np.ndarray:
    """`discrete_momentum` where JAX traces an argument."""
    momentum: np.ndarray = _traced(model.traced.steps.momentum_at, ("q0", "q1"), arrays, h, dtype)
    return momentum


def _traced_step(model: Model, q: Any, P: Any, h: Any, tau: Any) -> tuple[np.ndarray, np.ndarray]:
    """`variational_step` where JAX traces an argument."""
    given = ("q", q, model.nq), ("P", P, model.nv), ("tau", tau, model.nv)
    arrays = tuple(as_array(name, value, (size,)) for name, value, size in given)

    def step(q: jax.Array, P: jax.Array, tau: jax.Array, h: Any) -> tuple[jax.Array, jax.Array]:
        return model.traced.steps.step_at(q, P, tau, h)[:2]

    made: tuple[np.ndarray, np.ndarray] = _traced(step, ("q", "P", "tau"), arrays, h, float_of(q, P))
    return made


def _traced(function: Any, names: tuple[str, ...], arrays: tuple[Any, ...], h: Any, dtype: Any) -> Any:
    """A function of JAX, of vectors and a time, at arrays with batch axes."""
    length = as_array("h", h, ())
    if length.ndim:
        raise ShapeError("h", (), length.shape)
    if not is_traced(length):
        _length("h", h, "a time")
    batch = batch_axes(names, arrays)
    rows = [jnp.broadcast_to(jnp.asarray(x), (*batch, x.shape[-1])) for x in arrays]
    for _ in batch:
        function = jax.vmap(function, (*(0 for _ in rows), None))
    found = function(*rows, length)
    return jax.tree_util.tree_map(lambda leaf: leaf.astype(dtype), found)


def _rows_of(
    model: Model, q: Any, called: str = "q", **given: Any
) -> tuple[np.ndarray, dict[str, np.ndarray], tuple[int, ...]]:
    """Configurations (m, nq) and further arrays (m, ...) with one batch, and its shape; all are finite."""
    arrays = {}
    for key, value in {called: q, **given}.items():
        arrays[key] = np.asarray(as_array(key, value, (model.nq if key.startswith("q") else model.nv,)))
        require_finite(key, arrays[key])
    if "q1" in arrays:  # q is judged by compiled code
        arrays["q1"] = configuration(model.kinematics, "q1", arrays["q1"])
    batch = batch_axes(tuple(arrays), list(arrays.values()))
    rows = {
        key: np.ascontiguousarray(np.broadcast_to(array, (*batch, array.shape[-1]))).reshape(
            -1, array.shape[-1]
        )
        for key, array in arrays.items()
    }
    return rows.pop(called), rows, batch
