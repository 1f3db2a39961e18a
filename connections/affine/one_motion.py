"""One motion of a flow as functions of one flat state: what is compiled for motions followed on the host.

A step is one of Dormand and Prince's method 8(5,3), as in `host_integration`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from connections.affine import dop853
from connections.affine.host_integration import Attempt
from connections.geometry.compilation import Compiler
from connections.geometry.evaluation import admit_at


class OneMotion(NamedTuple):
    """What the host needs of a flow, as functions of one flat state y (k,).

    Parameters
    ----------
    start : *given -> (given, with its point on the manifold; y (k,); origin (k,); whether the point is near).
    step : ((t0, t, h), (y, dy/dt), *given) -> a step of the method, as `Attempt`.
    record : (t, y, *given) -> (values, q, whether all is admissible and finite).
    """

    start: Callable[..., Any]
    step: Callable[..., jax.Array]
    record: Callable[..., Any]

    def attempt(self, t0: Any, y0: Any, given: tuple[Any, ...]) -> Attempt:
        """The steps of one motion."""
        return lambda t, h, y, f: np.asarray(self.step(np.array([t0, t, h]), np.array([y, f]), *given))

    @classmethod
    def of(cls, owner: Any, flow: Any) -> OneMotion:
        """The functions of a flow, compiled; the parameters are those of `traceable`."""
        functions = Compiler(cls.traceable(owner, flow))
        return cls(*(functions.compiled(at) for at in (_started, _stepped, _recorded)))

    @classmethod
    def traceable(cls, owner: Any, flow: Any) -> OneMotion:
        """The functions of a flow, for use in others that are compiled.

        Parameters
        ----------
        owner : the `Trajectories` of the flow.
        flow : the `Flow`.
        """

        def state(y: jax.Array, given: tuple[Any, ...]) -> Any:
            shapes = jax.eval_shape(flow.start, *given)
            _, unravel = ravel_pytree(jax.tree_util.tree_map(lambda s: jnp.zeros(s.shape), shapes))
            y = unravel(y)
            return y if flow.project is None else flow.project(y)

        def start(*given: jax.Array) -> tuple[Any, jax.Array, jax.Array, jax.Array]:
            near = jnp.asarray(True)
            if owner.begin_at_a_point:
                frame, q, rest = owner.frame, given[0], given[1:]
                given, near = (frame.project_at(q), *rest), frame.near_at(q)
            y = flow.start(*given)
            return given, ravel_pytree(y)[0], ravel_pytree(flow.origin(y))[0], near

        def step(instants: jax.Array, state_and_rate: jax.Array, *given: jax.Array) -> jax.Array:
            (t0, t, h), (y, f) = instants, state_and_rate
            A, C, E = map(jnp.asarray, (dop853.A, dop853.C, dop853.E))

            def rate(time: jax.Array, now: jax.Array) -> jax.Array:
                return ravel_pytree(flow.rate(time, state(now, given), *given))[0]

            def stage(i: jax.Array, K: jax.Array) -> jax.Array:
                return K.at[i].set(rate(t + C[i] * h, y + h * (A[i] @ K)))

            K = jax.lax.fori_loop(1, len(C), stage, jnp.zeros((len(C), len(y))).at[0].set(f))
            new = y + h * (A[-1] @ K)
            sizes = ravel_pytree(flow.sizes(t0, t + h, state(new, given), *given))[0]
            return jnp.concatenate([jnp.stack([new, K[-1]]), E @ K, sizes[None]])

        def record(t: jax.Array, y: jax.Array, *given: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
            values, q, ok = flow.record(t, state(y, given), *given)
            ok = ok & admit_at(owner.owner, q)[1]
            for leaf in (q, *jax.tree_util.tree_leaves(values)):
                ok = ok & jnp.all(jnp.isfinite(leaf))
            return values, q, ok

        return cls(start, step, record)


def _started(motion: OneMotion, *arguments: jax.Array) -> Any:
    return motion.start(*arguments)


def _stepped(motion: OneMotion, *arguments: jax.Array) -> Any:
    return motion.step(*arguments)


def _recorded(motion: OneMotion, *arguments: jax.Array) -> Any:
    return motion.record(*arguments)
