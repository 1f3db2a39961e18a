"""How long a step may be: an error that is judged per component, against sizes that the motion itself has.

Units do not decide. The error of component i of a step has to stay below

    max(rtol * moved_i, atol * size_i),

moved_i the farthest that the component has been from its origin so far, size_i what it can be expected to be
(`motion_sizes`: the speed in the unit of the frame field, from the metric). With atol far below rtol the
second term counts only where a component is round-off beside the others: it would otherwise have to be as
accurate as they are, which nothing can make it. Both sides of the inequality change alike with the units of
every single component, and of time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

FIRST_STEP = 0.1  # of the whole time; the error estimate makes it shorter where it has to


class RelativeSteps(diffrax.AbstractAdaptiveStepSizeController[Any, Any]):
    """Step sizes for which the largest error of a component is one tolerance.

    Parameters
    ----------
    rtol : relative to the farthest that a component has been from its origin.
    atol : relative to the sizes.
    origin : pytree like the state.
    sizes : (elapsed time, state) -> pytree like the state.
    """

    rtol: float
    atol: float
    norm: Callable[[Any], Any] = eqx.field(static=True)
    origin: Any
    sizes: Callable[[jax.Array, Any], Any] = eqx.field(static=True)

    def __init__(self, rtol: float, atol: float, origin: Any, sizes: Callable[[jax.Array, Any], Any]) -> None:
        self.rtol, self.atol, self.norm, self.origin, self.sizes = rtol, atol, _largest, origin, sizes

    @property
    def _inner(self) -> diffrax.PIDController:
        return diffrax.PIDController(rtol=0.0, atol=1.0, norm=self.norm)

    def wrap(self, direction: Any) -> RelativeSteps:
        """Nothing to add."""
        return self

    def init(
        self, terms: Any, t0: Any, t1: Any, y0: Any, dt0: Any, args: Any, func: Any, error_order: Any
    ) -> tuple[Any, Any]:
        """The end of the first step, and (the state of the inner controller, moved, the start)."""
        dt0 = jax.lax.stop_gradient(FIRST_STEP * (t1 - t0))
        end, inner = self._inner.init(terms, t0, t1, y0, dt0, args, func, error_order)
        return end, (inner, jax.tree.map(jnp.zeros_like, y0), t0)

    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: Any,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: Any,
    ) -> Any:
        """As the inner controller does, on the error over its tolerance."""
        inner, before, start = controller_state
        y, error = jax.lax.stop_gradient((y1_candidate, y_error))
        moved = jax.tree.map(lambda m, a, b: jnp.fmax(m, jnp.abs(a - b)), before, y, self.origin)
        sizes = self.sizes(jax.lax.stop_gradient(t1) - start, y)
        scaled = jax.tree.map(self._scaled, error, moved, sizes, y)
        nothing = jax.tree.map(jnp.zeros_like, error)
        keep, *rest, inner, result = self._inner.adapt_step_size(
            t0, t1, nothing, nothing, args, scaled, error_order, inner
        )
        moved = jax.tree.map(lambda old, new: jnp.where(keep, new, old), before, moved)
        return keep, *rest, (inner, moved, start), result

    def _scaled(self, error: jax.Array, moved: jax.Array, size: jax.Array, y: jax.Array) -> jax.Array:
        tolerance = jnp.fmax(self.rtol * moved, self.atol * jnp.fmax(size, jnp.abs(y)))
        share = jnp.where(jnp.isfinite(error), jnp.abs(error) / tolerance, jnp.inf)
        return jnp.where(error == 0.0, 0.0, share)


def _largest(tree: Any) -> jax.Array:
    leaves = [jnp.max(leaf, initial=0.0) for leaf in jax.tree.leaves(tree)]
    return jnp.max(jnp.stack(leaves)) if leaves else jnp.zeros(())
