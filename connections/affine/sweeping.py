"""Motions of all members of a family from one start: `host_sweep` for flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from connections.affine.flow import Flow, OneMotion, Trajectories
from connections.affine.host_sweep import by_rows, integrate_many
from connections.affine.integrate import MAX_STEPS
from connections.checks import IntegrationError
from connections.geometry.compilation import compiled
from connections.geometry.evaluation import kept, require_admissible


def sweep_motions(
    owner: Any,
    member: Callable[[jax.Array], tuple[Any, Flow]],
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
        return functions(beta).start(*given)

    def step(instants: jax.Array, state: jax.Array, beta: jax.Array, *given: jax.Array) -> jax.Array:
        axes = (0, 0, 0, *(None for _ in given))
        return jax.vmap(lambda i, y, b, *g: functions(b).step(i, y, *g), axes)(instants, state, beta, *given)

    def record(t: jax.Array, y: jax.Array, beta: jax.Array, *given: jax.Array) -> Any:
        axes = (0, 0, 0, *(None for _ in given))
        return jax.vmap(lambda s, x, b, *g: functions(b).record(s, x, *g), axes)(t, y, beta, *given)

    calls = kept(owner, sweep_motions, lambda: tuple(compiled(f) for f in (begin, step, record)))
    given, y0, origin, near = calls[0](numbers[0], *start)
    if not near:
        require_admissible(owner, "q0", start[0])
    given = tuple(map(np.asarray, given))
    states, last = integrate_many(
        lambda i, y, b: calls[1](i, y, b, *given),
        np.asarray(y0),
        numbers,
        times,
        np.asarray(origin),
        *tolerances,
        MAX_STEPS,
    )
    m, count, k = states.shape
    rows = np.tile(times, m), states.reshape(-1, k), np.repeat(numbers, count, axis=0)
    one = (array[:1] for array in rows)
    tree = jax.tree_util.tree_structure(jax.eval_shape(lambda *row: record(*row, *given), *one))
    found = by_rows(lambda *row: jax.tree_util.tree_leaves(calls[2](*row, *given)), *rows)
    values, _, good = jax.tree_util.tree_unflatten(tree, found)
    good = good.reshape(m, count)
    if not good.all():
        row, at = np.argwhere(~good)[0]
        if at == 0:
            require_admissible(owner, "q0", start[0])
        raise IntegrationError(
            f"sweep: the motion of member {row}, {np.array2string(numbers[row], precision=4, threshold=12)}, "
            f"leaves the domain, blows up or takes more than {MAX_STEPS:,} steps by t = {times[at]:.6g}; "
            f"last seen at t = {last[row]:.6g}"
        )
    return jax.tree_util.tree_map(lambda leaf: leaf.reshape(m, count, *leaf.shape[1:]), values)
