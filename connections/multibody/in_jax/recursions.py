"""A robot's recursions inside JAX: with `jit`, `vmap` over any argument, and derivatives of all orders.

Values come from compiled code, first derivatives from other recursions (`tangents`), and everything else from
the definition, which is traced only if it is needed. On other devices than the processor, everything is
computed by the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import as_array, batch_axes
from connections.engines.platforms import PlatformFunction
from connections.evaluation.boundary import float_of
from connections.geometry.rigid.host_groups import cross
from connections.multibody.definition.recursions import DEFINITIONS, Robot
from connections.multibody.in_jax.tangents import RULES
from connections.multibody.in_jax.values import Values
from connections.multibody.program.program import Program
from connections.multibody.program.table import RECURSIONS

#: What is linear in its last vector, and its transpose.
TRANSPOSED = {
    "coriolis_product": "coriolis_transpose_product",
    "coriolis_transpose_product": "coriolis_product",
    "mass_product": "mass_product",
    "inverse_mass_product": "inverse_mass_product",
}


class TracedRecursions:
    """The recursions of a robot as functions of JAX.

    Parameters
    ----------
    robot : the robot.
    program : its recursions, or those of the same robot under another gravity.
    """

    def __init__(self, robot: Any, program: Program) -> None:
        self.robot: Robot = robot
        self._program = program
        self._values = Values(robot.kinematics, program, robot.gravity)
        self._functions: dict[Any, PlatformFunction] = {}

    def __call__(self, name: str, *vectors: jax.Array, chosen: tuple[Any, ...] = ()) -> jax.Array:
        """The recursion `name` at one configuration.

        Parameters
        ----------
        name : a key of `RECURSIONS`; without gravity, also one of `values.AT_REST`.
        vectors : q (nq,) and then vectors (nv,).
        chosen : what the caller chooses; by default, the body-level factor is ``"christoffel"``.
        """
        if not chosen and name in RECURSIONS and RECURSIONS[name].choice is not None:
            chosen = ("christoffel",)
        return self._function(name, chosen)(*vectors)

    def evaluate(self, name: str, given: Sequence[Any], chosen: tuple[Any, ...]) -> jax.Array:
        """The recursion `name` of arrays with any batch axes, some of which JAX traces.

        Parameters
        ----------
        name : a key of `RECURSIONS`.
        given : q (..., nq) and then vectors (..., nv).
        chosen : what the caller chooses.

        Returns
        -------
        The result, float32 if all arguments are.

        Raises
        ------
        ShapeError, TypeError, and the errors of a wrong choice. Numbers that are not finite, and points that
        are no configurations, give NaN.
        """
        names = "q", *RECURSIONS[name].vectors
        arrays = [as_array(*item) for item in zip(names, given, self._program.sizes, strict=False)]
        batch = batch_axes(names, arrays)
        function: Callable[..., jax.Array] = self._function(name, chosen)
        rows = [jnp.broadcast_to(array, (*batch, array.shape[-1])) for array in arrays]
        for _ in batch:
            function = jax.vmap(function)
        return function(*rows).astype(float_of(*given))

    @cached_property
    def weightless(self) -> TracedRecursions:
        """The same robot without gravity."""
        if not any(self.robot.gravity):
            return self
        return TracedRecursions(self.robot.weightless, self._program)  # type: ignore[attr-defined]

    @cached_property
    def brackets(self) -> list[tuple[slice, np.ndarray]]:
        """The columns of each joint whose fields have brackets, and s[k, i, j] of [X_i, X_j] = s^k_ij X_k.

        They are Phi_i x Phi_j, constant; the columns of spherical and of free joints are orthonormal.
        """
        found = []
        for joint, _, _, own in self.robot.kinematics.elements:
            if joint.brackets.any():
                w, u = joint.motion[:3].T, joint.motion[3:].T
                turned = cross(w[:, None], w), cross(w[:, None], u) + cross(u[:, None], w)
                found.append((own, np.einsum("ak,ija->kij", joint.motion, np.concatenate(turned, axis=-1))))
        return found

    def _function(self, name: str, chosen: tuple[Any, ...]) -> PlatformFunction:
        try:
            return self._functions[name, chosen]
        except KeyError:
            self._functions[name, chosen] = self._made(name, chosen)
        except TypeError:  # what is chosen is not hashable
            self._program.choice(name, chosen)
            raise
        return self._functions[name, chosen]

    def _made(self, name: str, chosen: tuple[Any, ...]) -> PlatformFunction:
        """The recursion with its first derivatives."""

        def definition(*vectors: jax.Array) -> jax.Array:
            return DEFINITIONS[name](self.robot, *vectors, *chosen)

        rule = RULES.get(name, partial(_by_definition, definition))
        frame = self.robot.frame

        def change(at: Sequence[jax.Array], along: Sequence[jax.Array | None]) -> jax.Array:
            q_dot, *others = along
            xi = None if q_dot is None else frame.velocity_at(at[0], q_dot)
            return rule(self, tuple(at), (xi, *others), chosen)

        def transposed() -> PlatformFunction:
            return self._function(TRANSPOSED[name], chosen)

        return self._values.function(
            name, chosen, definition, change, transposed if name in TRANSPOSED else None
        )


def _by_definition(
    definition: Callable[..., jax.Array], of: TracedRecursions, at: Any, along: Any, chosen: Any
) -> jax.Array:
    """The derivative of the definition."""
    (q, *vectors), (xi, *others) = at, along
    q_dot = jnp.zeros_like(q) if xi is None else of.robot.frame.matrix_at(q) @ xi
    tangents = [
        jnp.zeros_like(x) if x_dot is None else x_dot for x, x_dot in zip(vectors, others, strict=True)
    ]
    change: jax.Array
    _, change = jax.jvp(definition, tuple(at), (q_dot, *tangents))
    return change
