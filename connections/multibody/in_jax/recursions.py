"""A robot's recursions inside JAX: with `jit`, `vmap` over any argument, and derivatives of all orders.

Values come from compiled code, first derivatives from other recursions (`tangents`), and everything else from
the definition, which is traced only if it is needed. On other devices than the processor, everything is
computed by the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
from connections.multibody.in_jax.tangents import OF_TREES, RULES, Recursions, by_definition
from connections.multibody.in_jax.values import Values
from connections.multibody.loops.closed_kinematics import ClosedKinematics
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

    def __call__(
        self, name: str, *vectors: jax.Array, chosen: tuple[Any, ...] = (), guess: jax.Array | None = None
    ) -> jax.Array:
        """The recursion `name` at one configuration.

        Parameters
        ----------
        name : a key of `RECURSIONS`; without gravity, also one of `values.AT_REST`.
        vectors : q (nq,) and then vectors (nv,).
        chosen : what the caller chooses; by default, the body-level factor is ``"christoffel"``.
        guess : (nq_s,) of robots with loops: where loops are followed from, if not from the reference.
        """
        if not chosen and name in RECURSIONS and RECURSIONS[name].choice is not None:
            chosen = ("christoffel",)
        return self._function(name, chosen, guess is not None)(*_with_guess(vectors, guess))

    def evaluate(self, name: str, given: Sequence[Any], chosen: tuple[Any, ...], guess: Any) -> jax.Array:
        """The recursion `name` of arrays with any batch axes, some of which JAX traces.

        Parameters
        ----------
        name : a key of `RECURSIONS`.
        given : q (..., nq) and then vectors (..., nv).
        chosen : what the caller chooses.
        guess : (..., nq_s), or None.

        Returns
        -------
        The result, float32 if all arguments are.

        Raises
        ------
        ShapeError, TypeError, and the errors of a wrong choice. Numbers that are not finite, and points that
        are no configurations, give NaN.
        """
        names = _with_guess(("q", *RECURSIONS[name].vectors), None if guess is None else "guess")
        sizes = _with_guess(self._program.sizes, None if guess is None else (self._spanning_nq,))
        arrays = [as_array(*item) for item in zip(names, _with_guess(given, guess), sizes, strict=False)]
        batch = batch_axes(names, arrays)
        function: Callable[..., jax.Array] = self._function(name, chosen, guess is not None)
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

    def close_loops(self, q: Any, guess: Any) -> jax.Array:
        """q_s (..., nq_s) at q (..., nq) of a robot with loops, followed from `guess` (..., nq_s)."""
        kinematics, names = self.robot.kinematics, ("q", "guess")
        sizes = (self._program.sizes[0], (self._spanning_nq,))
        arrays = [as_array(*item) for item in zip(names, (q, guess), sizes, strict=True)]
        batch = batch_axes(names, arrays)

        def at(q: jax.Array, guess: jax.Array) -> jax.Array:
            frame, whole = kinematics.joint_frame, kinematics.spanning.frame
            q_s = kinematics.near(whole.project_at(guess)).spanning_at(frame.project_at(q))
            return jnp.where(frame.near_at(q) & whole.near_at(guess), q_s, jnp.nan)

        for _ in batch:
            at = jax.vmap(at)
        rows = [jnp.broadcast_to(array, (*batch, array.shape[-1])) for array in arrays]
        return at(*rows).astype(float_of(q, guess))

    @property
    def _spanning_nq(self) -> int:
        kinematics = self.robot.kinematics
        nq: int = kinematics.spanning.nq if isinstance(kinematics, ClosedKinematics) else kinematics.nq
        return nq

    def _function(self, name: str, chosen: tuple[Any, ...], guessed: bool) -> PlatformFunction:
        try:
            return self._functions[name, chosen, guessed]
        except KeyError:
            self._functions[name, chosen, guessed] = self._made(name, chosen, guessed)
        except TypeError:  # what is chosen is not hashable
            self._program.choice(name, chosen)
            raise
        return self._functions[name, chosen, guessed]

    def _made(self, name: str, chosen: tuple[Any, ...], guessed: bool) -> PlatformFunction:
        """The recursion with its first derivatives, of q, a guess if there is one, and its vectors."""
        frame = self.robot.frame
        rule = RULES.get(name)
        if rule is None or (name in OF_TREES and self._program.loops is not None):
            rule = partial(by_definition, name)

        def near(vectors: Sequence[Any]) -> tuple[Recursions, list[Any]]:
            """The recursions from the guess, and the other vectors."""
            if not guessed:
                return self, list(vectors)
            q, guess, *others = vectors
            return _Near(self, guess), [q, *others]

        def definition(*vectors: jax.Array) -> jax.Array:
            of, own = near(vectors)
            good = frame.near_at(vectors[0])
            for vector in vectors:
                good &= jnp.isfinite(vector).all()
            return jnp.where(good, DEFINITIONS[name](of.robot, *own, *chosen), jnp.nan)

        def change(at: Sequence[jax.Array], along: Sequence[jax.Array | None]) -> jax.Array:
            of, own = near(at)
            q_dot, *others = (along[0], *along[2:]) if guessed else along
            if q_dot is None and all(other is None for other in others):  # another guess changes nothing
                return jnp.zeros(self._program.cores[name])
            xi = None if q_dot is None else frame.velocity_at(at[0], q_dot)
            return rule(of, tuple(own), (xi, *others), chosen)

        def transposed() -> PlatformFunction:
            return self._function(TRANSPOSED[name], chosen, guessed)

        return self._values.function(
            name, chosen, definition, change, transposed if name in TRANSPOSED else None, guessed
        )


class _Near:
    """The recursions of a robot whose loops are followed from a guess (nq_s,)."""

    def __init__(self, recursions: TracedRecursions, guess: jax.Array) -> None:
        self._recursions, self._guess = recursions, guess
        self.brackets = recursions.brackets

    def __call__(self, name: str, *vectors: jax.Array, chosen: tuple[Any, ...] = ()) -> jax.Array:
        return self._recursions(name, *vectors, chosen=chosen, guess=self._guess)

    @property
    def robot(self) -> Any:
        """The robot, its definitions from the guess."""
        robot: Any = self._recursions.robot
        return replace(robot, kinematics=robot.kinematics.near(self._guess))

    @property
    def weightless(self) -> _Near:
        """The same without gravity."""
        return _Near(self._recursions.weightless, self._guess)


def _with_guess(values: Sequence[Any], guess: Any) -> tuple[Any, ...]:
    """The values with the guess in the second place, so that the last one stays the last."""
    first, *others = values
    return (first, *others) if guess is None else (first, guess, *others)
