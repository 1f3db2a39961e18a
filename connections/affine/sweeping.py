"""Motions of all members of a family from one start: `host_batch` for flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from connections.affine.flow import Flow, Trajectories
from connections.affine.host_batch import Batch
from connections.affine.integrate import MAX_STEPS
from connections.affine.one_motion import OneMotion
from connections.checks import IntegrationError
from connections.geometry.evaluation import kept, require_admissible


def sweep_motions(
    owner: Any,
    member: Callable[[jax.Array], tuple[Any, Flow[Any]]],
    numbers: np.ndarray,
    start: tuple[np.ndarray, ...],
    times: np.ndarray,
    tolerances: tuple[float, float],
) -> Any:
    """What the flows of all members record, with leading axes (m, T).

    Parameters
    ----------
    owner : keeps what is compiled, and is judged at the first point.
    member : numbers of one member (p,) -> the owner of its motion, and the flow; JAX-traceable.
    numbers : (m, p).
    start : public arguments of the flows, the first a point; the same for all.
    times : (T,) strictly monotone.
    tolerances : relative and absolute, of a step.

    Raises
    ------
    IntegrationError names the member and the time; the errors of ``owner.explain`` at the first point.
    """

    def functions(beta: jax.Array) -> OneMotion:
        its_owner, flow = member(beta)
        return OneMotion.traceable(Trajectories(its_owner), flow)

    def begin(beta: jax.Array, *given: jax.Array) -> Any:
        own, y, origin, near = functions(beta).start(*given)
        return (beta, *own), y, origin, near

    def step(instants: jax.Array, state: jax.Array, beta: jax.Array, *given: jax.Array) -> jax.Array:
        return functions(beta).step(instants, state, *given)

    def record(t: jax.Array, y: jax.Array, beta: jax.Array, *given: jax.Array) -> Any:
        return functions(beta).record(t, y, *given)

    batch = kept(owner, sweep_motions, lambda: Batch(begin, step, record))
    rows = (numbers, *(np.broadcast_to(array, (len(numbers), *array.shape)) for array in start))
    found = batch.run(rows, times, tolerances, MAX_STEPS)
    if not (found.near.all() and found.good[:, 0].all()):
        require_admissible(owner, "q0", start[0])
    if not found.good.all():
        row, at = np.argwhere(~found.good)[0]
        raise IntegrationError(
            f"sweep: the motion of member {row}, {np.array2string(numbers[row], precision=4, threshold=12)}, "
            f"leaves the domain, blows up or takes more than {MAX_STEPS:,} steps by t = {times[at]:.6g}; "
            f"last seen at t = {found.last[row]:.6g}"
        )
    return found.values
