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
from connections.multibody.program.closed import Closed, coordinates_of, solution_of
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
        self, name: str, q: jax.Array | Closed, *vectors: jax.Array, chosen: tuple[Any, ...] = ()
    ) -> jax.Array:
        """The recursion `name` at one configuration.

        Parameters
        ----------
        name : a key of `RECURSIONS`; without gravity, also one of `values.AT_REST`.
        q : (nq,) or a `Closed`.
        vectors : (nv,).
        chosen : what the caller chooses; by default, the body-level factor is ``"christoffel"``.
        """
        if not chosen and name in RECURSIONS and RECURSIONS[name].choice is not None:
            chosen = ("christoffel",)
        return self._function(name, chosen)(*self._solved(q), *vectors)

    def evaluate(self, name: str, given: Sequence[Any], chosen: tuple[Any, ...]) -> jax.Array:
        """The recursion `name` of arrays with any batch axes, some of which JAX traces.

        Parameters
        ----------
        name : a key of `RECURSIONS`.
        given : q (..., nq), or a `Closed`, and then vectors (..., nv).
        chosen : what the caller chooses.

        Returns
        -------
        The result, float32 if all arguments are.

        Raises
        ------
        ShapeError, TypeError, and the errors of a wrong choice. Numbers that are not finite, and points that
        are no configurations, give NaN.
        """
        point, *vectors = given
        q = coordinates_of(point, self.robot.kinematics)
        items = zip(("q", *RECURSIONS[name].vectors), (q, *vectors), self._program.sizes, strict=False)
        arrays = [as_array(*item) for item in items]
        batch = batch_axes(("q", *RECURSIONS[name].vectors), arrays)
        function: Callable[..., jax.Array] = self._function(name, chosen)
        for _ in batch:
            function = jax.vmap(function)
        all_of_them = *self._solved(point if isinstance(point, Closed) else arrays[0]), *arrays[1:]
        rows = [jnp.broadcast_to(array, (*batch, array.shape[-1])) for array in all_of_them]
        return function(*rows).astype(float_of(q, *vectors))

    def close(self, q: Any, guess: Any = None) -> Closed:
        """The loops solved at q (..., nq), followed from `guess`, or from the reference.

        Parameters
        ----------
        q : (..., nq).
        guess : a `Closed`, or (..., nq_s); of closed chains only.

        Raises
        ------
        ShapeError, TypeError. Where the loops do not close, the solution is NaN.
        """
        kinematics, loops = self.robot.kinematics, self._program.loops
        at, dtype = as_array("q", q, self._program.sizes[0]), float_of(q)
        if loops is None:
            return Closed(kinematics, jnp.asarray(at, dtype), None)
        coordinates_of(guess, kinematics, "guess")
        start = solution_of(guess, kinematics)[..., : loops.layout.nq] if isinstance(guess, Closed) else guess
        start = as_array("guess", kinematics.reference if guess is None else start, (loops.layout.nq,))
        batch = batch_axes(("q", "guess"), (at, start))
        solving: Callable[..., jax.Array] = loops.solving
        for _ in batch:
            solving = jax.vmap(solving)
        rows = [jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (at, start)]
        solution = solving(*map(jax.lax.stop_gradient, rows))
        if guess is not None and not isinstance(guess, Closed) and kinematics.sides:
            turned: Callable[[jax.Array], jax.Array] = kinematics.turned_at
            for _ in batch:
                turned = jax.vmap(turned)
            solution = jnp.where(turned(solution[..., : loops.layout.nq])[..., None], jnp.nan, solution)
        return Closed(kinematics, rows[0].astype(dtype), solution)

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

    @property
    def _with_solutions(self) -> bool:
        """Whether the second vector of every function is the solution of the loops."""
        return self._program.loops is not None and not self._program.loops.linear

    def _solved(self, q: Any) -> tuple[jax.Array, ...]:
        """The first vectors of a function at q (..., nq), or at a `Closed`."""
        kinematics = self.robot.kinematics
        if not self._with_solutions:
            return (coordinates_of(q, kinematics),)
        closed = q if isinstance(q, Closed) else self.close(q)
        return coordinates_of(closed, kinematics), solution_of(closed, kinematics)

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
        """The recursion with its first derivatives, of q, the solution of loops, and its vectors."""
        frame = self.robot.frame
        rule = RULES.get(name)
        if rule is None or (name in OF_TREES and self._program.loops is not None):
            rule = partial(by_definition, name)

        def parted(vectors: Sequence[Any]) -> tuple[Recursions, list[Any]]:
            """The recursions where the loops are solved, and the other vectors."""
            if not self._with_solutions:
                return self, list(vectors)
            q, solution, *others = vectors
            return _Solved(self, solution), [q, *others]

        def definition(*vectors: jax.Array) -> jax.Array:
            of, own = parted(vectors)
            good = frame.near_at(vectors[0])
            for vector in vectors:
                good &= jnp.isfinite(vector).all()
            return jnp.where(good, DEFINITIONS[name](of.robot, *own, *chosen), jnp.nan)

        def change(at: Sequence[jax.Array], along: Sequence[jax.Array | None]) -> jax.Array:
            of, own = parted(at)
            q_dot, *others = parted(along)[1]  # the solution is a function of q
            if q_dot is None and all(other is None for other in others):
                return jnp.zeros(self._program.cores[name])
            xi = None if q_dot is None else frame.velocity_at(at[0], q_dot)
            return rule(of, tuple(own), (xi, *others), chosen)

        def transposed() -> PlatformFunction:
            return self._function(TRANSPOSED[name], chosen)

        return self._values.function(
            name, chosen, definition, change, transposed if name in TRANSPOSED else None
        )


class _Solved:
    """The recursions of a robot where its loops are solved, by the solution (k,)."""

    def __init__(self, recursions: TracedRecursions, solution: jax.Array) -> None:
        self._recursions, self._solution = recursions, solution
        self.brackets = recursions.brackets

    def __call__(
        self, name: str, q: jax.Array, *vectors: jax.Array, chosen: tuple[Any, ...] = ()
    ) -> jax.Array:
        closed = Closed(self._recursions.robot.kinematics, q, self._solution)
        return self._recursions(name, closed, *vectors, chosen=chosen)

    @property
    def robot(self) -> Any:
        """The robot, its definitions from the solution."""
        robot: Any = self._recursions.robot
        q_s = self._solution[: robot.kinematics.spanning.nq]
        return replace(robot, kinematics=robot.kinematics.near(q_s))

    @property
    def weightless(self) -> _Solved:
        """The same without gravity."""
        return _Solved(self._recursions.weightless, self._solution)
