"""Motions of all members of a family from one initial state, integrated together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.motions.flow import Flow, Trajectories, motions_with_progress
from connections.affine.motions.jax_motions import JaxMotions, OneMotion, no_values
from connections.checks import IntegrationError, keep_motion
from connections.evaluation.boundary import require_admissible
from connections.evaluation.parameters import PytreePartial
from connections.integration.driver import follow
from connections.integration.solver import Solver


def sweep_motions(
    owner: Any,
    member: Callable[[jax.Array], tuple[Any, Flow[Any]]],
    numbers: np.ndarray,
    start: tuple[np.ndarray, ...],
    times: np.ndarray,
    solver: Solver,
) -> Any:
    """The recorded values of the motions of all members, with leading axes (m, T).

    Parameters
    ----------
    owner : validates the first point.
    member : parameters of one member (p,) -> the owner of its motion, and the flow; JAX-traceable; an object
        of the library, or a function.
    numbers : (m, p) parameters of the members.
    start : public arguments of the flows, the same for all; the first is a point.
    times : (T,) strictly monotone.
    solver : the options; events and breakpoints are not among them.

    Raises
    ------
    IntegrationError names the member and the time; the errors of ``owner.explain`` at the first point. It,
    and Ctrl-C, have the values of all members until then, and NaN after (`checks.kept_motion`).
    """
    flow = member(jnp.asarray(numbers[0] if len(numbers) else np.zeros(numbers.shape[1])))[1]
    make = PytreePartial(_motion_of_member, member)
    rows = (numbers, *(np.broadcast_to(array, (len(numbers), *array.shape)) for array in start))
    if not len(numbers):
        return no_values(make, rows, times)
    motions = JaxMotions(make, flow.layout(*start))
    started = motions.start(rows, len(numbers))
    settings = flow.settings(solver.settings)
    scales = np.stack([started.origin, np.zeros_like(started.origin)])
    attempts = motions.attempts(times[0], started, scales, (settings.rtol, settings.atol))
    equation = attempts, started.y, started.origin, times - times[0], settings
    found, interrupt = motions_with_progress("sweep", partial(follow, *equation))
    values, _, good = motions.record(times, found.states, started.given)
    if interrupt is not None:
        keep_motion(interrupt, values)
        raise interrupt
    if not (started.near.all() and good[:, 0].all()):
        require_admissible(owner, "q0", start[0])
    if not good.all():
        row, at = np.argwhere(~good)[0]
        error = IntegrationError(
            f"sweep: the motion of member {row}, {np.array2string(numbers[row], precision=4, threshold=12)}, "
            f"leaves the domain, blows up or takes more than {settings.max_steps:,.0f} steps "
            f"by t = {times[at]:.6g}; last seen at t = {times[0] + found.last[row]:.6g}"
        )
        error.failed = tuple((int(row),) for row in np.flatnonzero(~good.all(axis=1)))
        keep_motion(error, values)
        raise error
    return values


def _motion_of_member(member: Callable[[jax.Array], tuple[Any, Flow[Any]]]) -> OneMotion:
    """The motion of a member; the first of the motion's arguments are the member's parameters."""

    def functions(beta: jax.Array) -> OneMotion:
        owner, flow = member(beta)
        return OneMotion.of(Trajectories(owner), flow)

    def begin(beta: jax.Array, *given: jax.Array) -> Any:
        own, y, origin, near = functions(beta).start(*given)
        return (beta, *own), y, origin, near

    def rate(t0: jax.Array, s: jax.Array, y: jax.Array, beta: jax.Array, *given: jax.Array) -> jax.Array:
        return functions(beta).rate(t0, s, y, *given)

    def scales(t0: jax.Array, s: jax.Array, y: jax.Array, beta: jax.Array, *given: jax.Array) -> jax.Array:
        return functions(beta).scales(t0, s, y, *given)

    def terms(t0: jax.Array, s: jax.Array, y: jax.Array, beta: jax.Array, *given: jax.Array) -> jax.Array:
        return functions(beta).terms(t0, s, y, *given)

    def record(t: jax.Array, y: jax.Array, beta: jax.Array, *given: jax.Array) -> Any:
        return functions(beta).record(t, y, *given)

    return OneMotion(begin, rate, scales, terms, record)
