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
from connections.multibody.definition.recursions import DEFINITIONS, DefinedRobot
from connections.multibody.in_jax.data_robot import with_data
from connections.multibody.in_jax.data_tangents import AS_FORCES, as_force, by_data
from connections.multibody.in_jax.projected import ProjectedDynamics
from connections.multibody.in_jax.steps import TracedSteps
from connections.multibody.in_jax.tangents import OF_TREES, RULES, Recursions, by_definition
from connections.multibody.in_jax.values import Values
from connections.multibody.program.closed import SolvedLoops, coordinates_of, solution_of
from connections.multibody.program.data_packing import DATA
from connections.multibody.program.program import Program
from connections.multibody.program.table import RECURSIONS

Data = tuple[jax.Array, ...]  # as named in `DATA`, or nothing

#: What depends on the joints alone.
OF_JOINTS = {"forward_kinematics", "body_jacobians", "frame_pose", "frame_jacobian", "frame_jacobian_rate"}
#: Second derivatives of dynamics, which closed chains compute by `ProjectedDynamics`.
SECOND = {
    f"{way}_dynamics_{what}"
    for way in ("inverse", "forward")
    for what in ("hessian_product", "second_derivatives")
}
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
    data : whether the numbers of the robot are given with each call, as `DATA`; then those of `robot` only
        stand in their places.
    """

    def __init__(self, robot: Any, program: Program, data: bool = False) -> None:
        self.robot: DefinedRobot = robot
        self._program, self._data = program, data
        self._values = Values(robot.kinematics, program, robot.gravity, data)
        self._functions: dict[Any, PlatformFunction] = {}

    def __call__(
        self,
        name: str,
        q: jax.Array | SolvedLoops,
        *vectors: jax.Array,
        chosen: tuple[Any, ...] = (),
        data: Data = (),
    ) -> jax.Array:
        """The recursion `name` at one configuration.

        Parameters
        ----------
        name : a key of `RECURSIONS`; without gravity, also one of `values.AT_REST`.
        q : (nq,) or `SolvedLoops`.
        vectors : (nv,).
        chosen : what the caller chooses; by default, the body-level factor is ``"christoffel"``.
        data : the numbers of the robot, if they are data.
        """
        if not chosen and name in RECURSIONS and RECURSIONS[name].choice is not None:
            chosen = ("christoffel",)
        if self._data and name in OF_JOINTS:
            return self._of_joints(name, q, *vectors, chosen=chosen)
        return self._function(name, chosen)(*self._solved(q), *vectors, *data)

    def evaluate(
        self, name: str, given: Sequence[Any], chosen: tuple[Any, ...], data: Data = ()
    ) -> jax.Array:
        """The recursion `name` of arrays with any batch axes, some of which JAX traces.

        Parameters
        ----------
        name : a key of `RECURSIONS`.
        given : q (..., nq), or `SolvedLoops`, and then vectors (..., nv).
        chosen : what the caller chooses.
        data : the numbers of the robot, if they are data.

        Returns
        -------
        The result, float32 if all arguments are.

        Raises
        ------
        ShapeError, TypeError, and the errors of a wrong choice. Numbers that are not finite, and points that
        are no configurations, give NaN.
        """
        if self._data and name in OF_JOINTS:
            return self._of_joints.evaluate(name, given, chosen)
        point, *vectors = given
        q = coordinates_of(point, self.robot.kinematics)
        items = zip(("q", *RECURSIONS[name].vectors), (q, *vectors), self._program.sizes, strict=False)
        arrays = [as_array(*item) for item in items]
        batch = batch_axes(("q", *RECURSIONS[name].vectors), arrays)
        function: Callable[..., jax.Array] = self._function(name, chosen)
        all_of_them = *self._solved(point if isinstance(point, SolvedLoops) else arrays[0]), *arrays[1:]
        for _ in batch:
            function = jax.vmap(function, (0,) * len(all_of_them) + (None,) * len(data))
        rows = [jnp.broadcast_to(array, (*batch, array.shape[-1])) for array in all_of_them]
        return function(*rows, *data).astype(float_of(q, *vectors))

    def close(self, q: Any, guess: Any = None) -> SolvedLoops:
        """The loops solved at q (..., nq), followed from `guess`, or from the reference.

        Parameters
        ----------
        q : (..., nq).
        guess : `SolvedLoops`, or (..., nq_s); of closed chains only.

        Raises
        ------
        ShapeError, TypeError. Where the loops do not close, the solution is NaN.
        """
        kinematics, loops = self.robot.kinematics, self._program.loops
        at, dtype = as_array("q", q, self._program.sizes[0]), float_of(q)
        if loops is None:
            return SolvedLoops(kinematics, jnp.asarray(at, dtype), None)
        coordinates_of(guess, kinematics, "guess")
        start = (
            solution_of(guess, kinematics)[..., : loops.layout.nq]
            if isinstance(guess, SolvedLoops)
            else guess
        )
        start = as_array("guess", kinematics.reference if guess is None else start, (loops.layout.nq,))
        batch = batch_axes(("q", "guess"), (at, start))
        solving: Callable[..., jax.Array] = loops.solving
        for _ in batch:
            solving = jax.vmap(solving)
        rows = [jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (at, start)]
        solution = solving(*map(jax.lax.stop_gradient, rows))
        if guess is not None and not isinstance(guess, SolvedLoops) and kinematics.sides:
            turned: Callable[[jax.Array], jax.Array] = kinematics.turned_at
            for _ in batch:
                turned = jax.vmap(turned)
            solution = jnp.where(turned(solution[..., : loops.layout.nq])[..., None], jnp.nan, solution)
        return SolvedLoops(kinematics, rows[0].astype(dtype), solution)

    @cached_property
    def steps(self) -> TracedSteps:
        """Variational steps, of a tree."""
        return TracedSteps(self)

    @cached_property
    def weightless(self) -> TracedRecursions:
        """The recursions of the robot without gravity."""
        if not any(self.robot.gravity):
            return self
        return TracedRecursions(self.robot.weightless, self._program)  # type: ignore[attr-defined]

    def of_bodies(self, parameters: jax.Array) -> _Given:
        """The robot with other inertial parameters (10 N,), and without armature."""
        joints = self.robot.of_data  # type: ignore[attr-defined]
        return _Given(joints, None, (parameters, jnp.asarray(self.robot.gravity), joints.no_armature))

    @property
    def no_armature(self) -> jax.Array:
        """Zero for all joints of the spanning tree, (nv_s,)."""
        return jnp.zeros_like(self.robot.kinematics.tree.armature)

    @property
    def _of_joints(self) -> TracedRecursions:
        """The recursions of a robot whose numbers are not data, for what depends on its joints only."""
        found: TracedRecursions = self.robot.traced  # type: ignore[attr-defined]
        return found

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
        """The first vectors of a function at q (..., nq), or at `SolvedLoops`."""
        kinematics = self.robot.kinematics
        if not self._with_solutions:
            return (coordinates_of(q, kinematics),)
        closed = q if isinstance(q, SolvedLoops) else self.close(q)
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

        def parted(vectors: Sequence[Any]) -> tuple[Recursions, list[Any], tuple[Any, ...]]:
            """The recursions where the loops are solved and the numbers are given, the vectors, the data."""
            solution, data = None, ()
            if self._data:
                *vectors, data = *vectors[: -len(DATA)], tuple(vectors[-len(DATA) :])
            if self._with_solutions:
                q, solution, *others = vectors
                vectors = q, *others
            of = _Given(self, solution, data) if self._data or self._with_solutions else self
            return of, list(vectors), data

        def definition(*vectors: jax.Array) -> jax.Array:
            of, own, _ = parted(vectors)
            good = frame.near_at(vectors[0])
            for vector in vectors:
                good &= jnp.isfinite(vector).all()
            robot: Any = of.robot
            if isinstance(of, _Given) and not of.data and name in SECOND:
                robot = of.by_tree
            return jnp.where(good, DEFINITIONS[name](robot, *own, *chosen), jnp.nan)

        def change(at: Sequence[jax.Array], along: Sequence[jax.Array | None]) -> jax.Array:
            of, own, _ = parted(at)
            _, (q_dot, *others), numbers = parted(along)  # the solution is a function of q
            if name in AS_FORCES and any(number is not None for number in numbers):
                assert isinstance(of, _Given)
                force = as_force(name, of, tuple(own), numbers)
                others[-1] = force if others[-1] is None else others[-1] + force
                numbers = (None,) * len(numbers)
            changes: list[jax.Array] = []
            if q_dot is not None or any(other is not None for other in others):
                xi = None if q_dot is None else frame.velocity_at(at[0], q_dot)
                changes.append(rule(of, tuple(own), (xi, *others), chosen))
            if any(number is not None for number in numbers):
                assert isinstance(of, _Given)
                changes.append(by_data(name, of, tuple(own), numbers, chosen))
            return sum(changes[1:], changes[0]) if changes else jnp.zeros(self._program.cores[name])

        def transposed() -> PlatformFunction:
            return self._function(TRANSPOSED[name], chosen)

        return self._values.function(
            name, chosen, definition, change, transposed if name in TRANSPOSED else None
        )


class _Given:
    """The recursions of a robot where its loops are solved, by the solution (k,), or its numbers are data.

    Parameters
    ----------
    recursions : of the robot.
    solution : of the loops; None if there are none, or they are linear.
    data : the numbers of the robot, if they are data.
    """

    def __init__(self, recursions: TracedRecursions, solution: jax.Array | None, data: Data = ()) -> None:
        self._recursions, self._solution, self.data = recursions, solution, data
        self.brackets = recursions.brackets

    def __call__(
        self, name: str, q: jax.Array, *vectors: jax.Array, chosen: tuple[Any, ...] = ()
    ) -> jax.Array:
        point: Any = q
        if self._solution is not None:
            point = SolvedLoops(self._recursions.robot.kinematics, q, self._solution)
        return self._recursions(name, point, *vectors, chosen=chosen, data=self.data)

    @cached_property
    def robot(self) -> Any:
        """The robot, its definitions from the solution and from the data."""
        robot: Any = self._recursions.robot
        if self.data:
            robot = with_data(robot, *self.data)
        if self._solution is not None:
            q_s = self._solution[: robot.kinematics.spanning.nq]
            robot = replace(robot, kinematics=robot.kinematics.near(q_s))
        return robot

    @property
    def by_tree(self) -> ProjectedDynamics:
        """The dynamics of the robot by the recursions of its spanning tree."""
        assert self._solution is not None
        robot: Any = self._recursions.robot
        q_s = self._solution[: robot.kinematics.spanning.nq]
        return ProjectedDynamics(robot.kinematics.at_solution(q_s), robot.spanning_tree.traced)

    @property
    def weightless(self) -> _Given:
        """The recursions without gravity."""
        if self.data:
            return self.under(jnp.zeros(3))
        return _Given(self._recursions.weightless, self._solution)

    def of_bodies(self, parameters: jax.Array) -> _Given:
        """The recursions with other inertial parameters (10 N,), and without armature."""
        of = self._recursions.of_bodies(parameters)
        recursions, data = of._recursions, of.data
        if self.data:
            recursions, data = self._recursions, (parameters, self.data[1], self._recursions.no_armature)
        return _Given(recursions, self._solution, data)

    def of_armature(self, armature: jax.Array) -> _Given:
        """The recursions of bodies without inertia and with another armature (nv_s,)."""
        parameters, gravity, _ = self.data
        return _Given(self._recursions, self._solution, (jnp.zeros_like(parameters), gravity, armature))

    def under(self, gravity: jax.Array) -> _Given:
        """The recursions under another gravity (3,)."""
        parameters, _, armature = self.data
        return _Given(self._recursions, self._solution, (parameters, gravity, armature))

    def of_data(self, *data: jax.Array) -> _Given:
        """The recursions with other data, in the order of `data`."""
        return _Given(self._recursions, self._solution, data)
