"""Ordinary differential equations on a manifold, accurate at every requested time.

Dormand-Prince 8(7) by diffrax. Steps end exactly at the requested times, because a solver's dense output is
less accurate than its steps; the right-hand side sees the projected state, so no quaternion's norm drifts.
Tolerances are relative for every component (`steps`): a motion in other units is the same motion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from connections.geometry.frames import FrameField
from connections.geometry.metrics import Metric
from connections.geometry.scales import sizes_of_array, velocity_sizes

RTOL = 1e-10
ATOL = 1e-15  # no less than round-off of the larger components, which smaller ones cannot get rid of
MAX_STEPS = 100_000

Sizes = Callable[[jax.Array, Any], Any]


def integrate(
    rhs: Callable[[jax.Array, Any, Any], Any],
    y0: Any,
    times: jax.Array,
    project: Callable[[Any], Any] | None = None,
    args: Any = None,
    rtol: float = RTOL,
    atol: float = ATOL,
    max_steps: int = MAX_STEPS,
    sizes: Sizes | None = None,
    origin: Any = None,
) -> Any:
    """Solution of dy/dt = rhs(t, y, args) with y(times[0]) = y0, at every requested time.

    JAX-traceable; one trajectory (``vmap`` for more). A failed integration gives NaN from
    the first time that it did not reach.

    Parameters
    ----------
    rhs : (t, y, args) -> dy/dt, a pytree like y.
    y0 : pytree of arrays.
    times : (T,), strictly monotone; a decreasing list integrates backwards.
    project : y -> the nearest valid state; applied before every evaluation and to the results.
    args : passed to `rhs`.
    rtol : tolerance of a step, for every component relative to the farthest it has been from `origin` so far.
    atol : tolerance of a step relative to `sizes` and to the component itself, where that is larger.
    max_steps : steps after which the integration counts as failed.
    sizes : optional, (elapsed time, y) -> a pytree like y: what the components can be expected to be, in
        their own units. Without it all components of an array count as of one unit (`sizes_of_array`).
    origin : optional, a pytree like y: from where components are measured; zero if None. Points of a
        manifold are measured from the first one.

    Returns
    -------
    A pytree like y0 with a leading axis T.
    """
    import diffrax

    from connections.affine.steps import RelativeSteps

    if project is None:
        project = _identity
    times = jnp.asarray(times, dtype=jnp.float64)
    if times.shape[0] == 1:
        return jax.tree_util.tree_map(lambda leaf: jnp.asarray(leaf)[None], project(y0))
    start, sign = times[0], jnp.sign(times[-1] - times[0])
    forward = sign * (times - start)

    def field(elapsed: Any, y: Any, arguments: Any) -> Any:
        rate = rhs(start + sign * elapsed, project(y), arguments)
        return jax.tree_util.tree_map(lambda leaf: sign * leaf, rate)

    y0 = jax.tree_util.tree_map(lambda leaf: jnp.asarray(leaf, dtype=jnp.float64), project(y0))
    origin = jax.tree_util.tree_map(jnp.zeros_like, y0) if origin is None else origin
    steps = RelativeSteps(
        rtol, atol, jax.lax.stop_gradient(origin), _sizes_of_arrays if sizes is None else sizes
    )
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Dopri8(),
        t0=forward[0],
        t1=forward[-1],
        dt0=None,
        y0=y0,
        args=args,
        saveat=diffrax.SaveAt(ts=forward),
        stepsize_controller=diffrax.ClipStepSizeController(steps, step_ts=forward),
        max_steps=max_steps,
        throw=False,
    )
    ok = solution.result == diffrax.RESULTS.successful

    def reached(leaf: jax.Array) -> jax.Array:
        leaf = jnp.where(jnp.isfinite(leaf), leaf, jnp.nan)  # diffrax leaves inf at times it did not reach
        return leaf.at[-1].set(jnp.where(ok, leaf[-1], jnp.nan))

    return jax.tree_util.tree_map(reached, jax.vmap(project)(solution.ys))


def motion_sizes(
    frame: FrameField, metric: Metric | None, elapsed: jax.Array, q: jax.Array, v: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """What the components of a motion can be expected to be, in their own units: (nq,) and (n,).

    Of v^i the speed over |X_i|, and of q what such velocities lead to in the time elapsed. They change with
    the units as q and v do. Where no metric is known, the components of v count as of one unit.

    Parameters
    ----------
    frame : the frame of v.
    metric : tells the lengths |X_i|; None where none is known.
    elapsed : time since the motion began.
    q, v : (nq,) and (n,) the state.
    """
    if metric is None:
        velocity = sizes_of_array(v)
    else:
        velocity = velocity_sizes(metric.matrix_at(q), v)
    return elapsed * (jnp.abs(frame.matrix_at(q)) @ velocity), velocity


def _identity(y: Any) -> Any:
    return y


def _sizes_of_arrays(elapsed: jax.Array, y: Any) -> Any:
    return jax.tree_util.tree_map(sizes_of_array, y)
