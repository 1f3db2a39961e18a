"""Units of the components of a motion, by which tolerances follow the chart, and what motions conserve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from connections.affine.connection import AffineConnection
from connections.affine.symmetry import GroupAction
from connections.checks import require_type
from connections.evaluation.parameters import is_same
from connections.geometry.frames import FrameField
from connections.geometry.metrics import Metric
from connections.geometry.numerics.scales import inverse_lengths_of

Conserved = tuple[str, Callable[..., tuple[Any, Any]]]  # its name, and (t0, s, y, *given) -> value, scale
Momenta = Callable[[Any], tuple[Any, Any]]  # state -> momenta and lengths of their generators, (p,) each


def motion_units(
    frame: FrameField, metric: Metric | None, q: jax.Array, v: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Units of the components of a motion: of q, (nq,), those of its rate; and of v, (n,).

    The unit of v^i is 1 / |X_i|, that of qdot is what velocities of one unit make of it. They change with the
    user's units as v and qdot do, and with q where the chart stretches lengths. Without a metric, all
    components of v count as having one unit: one, or the largest of them.

    Parameters
    ----------
    frame : the frame of v.
    metric : gives the lengths |X_i|; None if there is none.
    q : (nq,) the point.
    v : (n,) the velocity of a motion on which nothing but its connection acts; None for any other.
    """
    if metric is not None:
        velocity = inverse_lengths_of(metric.positive_at(q))
    elif v is None:
        velocity = jnp.ones(frame.dim)
    else:  # a geodesic at half the speed takes twice the time: nothing else has a unit of speed
        largest = jnp.max(jnp.abs(v), initial=0.0)
        velocity = jnp.where(largest > 0.0, largest, 1.0) * jnp.ones(frame.dim)
    return jnp.abs(frame.matrix_at(q)) @ velocity, velocity


def speed_of(nabla: AffineConnection) -> Conserved | None:
    """(name, function) of <v, v>, which geodesics conserve, for `Flow.conserved`; None if it may change.

    It is conserved if, by construction, the connection is compatible with its metric or has the geodesics of
    a connection that is. The first two arrays of the flow's state are q and v. Its scale is <v, v> itself or,
    if the metric is not definite, the sum of the sizes of its terms, because <v, v> may be zero.

    Parameters
    ----------
    nabla : the connection.
    """
    metric = nabla.known_metric
    if metric is None or not (nabla.compatible or nabla.riemannian is not None):
        return None

    def square(t0: Any, s: Any, state: Any, *given: Any) -> tuple[Any, Any]:
        q, v = state[:2]
        H = metric.matrix_at(q)
        value = v @ H @ v
        return value, value if metric.signature is None else jnp.abs(v) @ jnp.abs(H) @ jnp.abs(v)

    return "<v, v>", square


def energy_of(
    nabla: AffineConnection, metric: Metric, potential: Callable[[jax.Array], jax.Array]
) -> Conserved | None:
    """(name, function) of the energy of motions of vdot = -Gamma(v, v) - H^-1 dV; None if it may change.

    Ideal constraints that are linear in v do no work, so that their motions conserve it, too.

    Parameters
    ----------
    nabla : the connection, without constraints.
    metric : H.
    potential : q -> V.
    """
    if nabla.riemannian is None or not is_same(nabla.known_metric, metric):
        return None

    def energy(t0: Any, s: Any, state: Any, *given: Any) -> tuple[Any, Any]:
        q, v = state[:2]
        return energy_and_scale(0.5 * v @ metric.matrix_at(q) @ v, potential(q))

    return "the energy", energy


def energy_and_scale(kinetic: Any, potential: Any) -> tuple[Any, Any]:
    """The energy, and its scale: the kinetic one and, for round-off, a millionth of the potential one."""
    return kinetic + potential, kinetic + 1e-6 * abs(potential)


def momenta_of(nabla: AffineConnection, metric: Metric, action: GroupAction) -> Momenta:
    """The momenta of a symmetry, for `Flow.momenta`; the first two arrays of the state are q and v.

    Parameters
    ----------
    nabla : the connection.
    metric : H.
    action : the group.

    Raises
    ------
    ValueError : the geodesics of the connection need not be those of the metric.
    """
    require_type("symmetry", action, GroupAction)
    if nabla.riemannian is None or not is_same(nabla.known_metric, metric):
        raise ValueError("symmetry: momenta are conserved if the geodesics are those of the metric, only")
    return lambda state: action.momenta_at(metric, state[0], state[1])
