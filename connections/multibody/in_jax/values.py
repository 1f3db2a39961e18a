"""Recursions as operations of JAX's compiled functions on the processor.

The tree is a constant of an operation, and every call has its own workspace, so calls may run at the same
time. A batch is one call of the function for rows. If a recursion refuses its input, that row of the result
is NaN (`engines.xla`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.engines import xla
from connections.engines.platforms import Change, PlatformFunction
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.program.cluster_packing import tied_bodies
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.program import Program
from connections.multibody.program.table import BODY_FACTOR, RECURSIONS
from connections.multibody.program.tree_packing import pack, pack_with_one_origin

#: Products with H and with its inverse, which are recursions at rest and without gravity, in O(N).
AT_REST = {"mass_product": "inverse_dynamics", "inverse_mass_product": "forward_dynamics"}


class Values:
    """The values of a robot's recursions under a gravity of their own.

    Parameters
    ----------
    kinematics : of the robot.
    program : its recursions.
    gravity : (3,) m/s^2.
    """

    def __init__(
        self, kinematics: Kinematics | ClosedKinematics, program: Program, gravity: tuple[float, float, float]
    ) -> None:
        self._kinematics, self._program, self._gravity = kinematics, program, gravity

    def function(
        self,
        name: str,
        chosen: tuple[Any, ...],
        definition: Callable[..., jax.Array],
        change: Change,
        transposed: Callable[[], PlatformFunction] | None,
    ) -> PlatformFunction:
        """The recursion `name` of q, the solution of loops (if there are any), and vectors, at one point.

        Parameters
        ----------
        name : a key of `RECURSIONS`, or of `AT_REST`.
        chosen : what the caller chooses.
        definition : the same function in JAX, for other devices.
        change : its derivative.
        transposed : as in `PlatformFunction`.

        Raises
        ------
        The errors of a wrong choice.
        """
        recursion = AT_REST.get(name, name)
        core = self._program.cores[recursion]
        if self._program.loops is not None and name in RECURSIONS and RECURSIONS[name].closed is None:
            processor = partial(_on_rows, definition)
            return PlatformFunction(name, core, processor, definition, change, transposed)
        choice = RECURSIONS[recursion].choice
        constants = [_constant(choice, each) for each in self._program.choice(recursion, chosen)]
        processor = partial(self._at_rest if name in AT_REST else self._value, recursion, constants)
        return PlatformFunction(name, core, processor, definition, change, transposed)

    def _at_rest(self, name: str, choice: list[xla.Constant], *vectors: jax.Array) -> jax.Array:
        """A recursion of q, v and x at v = 0, for vectors without v."""
        *others, x = vectors
        return self._value(name, choice, *others, jnp.zeros_like(x), x)

    def _value(self, name: str, choice: list[xla.Constant], *given: jax.Array) -> jax.Array:
        """The result at vectors (..., k)."""
        program, loops, rows = self._program, self._program.loops, given[0].ndim > 1
        arrays = program.arrays_of(name)
        tree = self._tree if arrays is program.arrays else self._tree_with_one_origin
        before: list[xla.Constant] = [xla.Work(tree, len(arrays[0]))]
        entry = f"{name}_rows" if rows else f"{name}_at"
        if loops is not None:
            entry = f"closed_{entry}"
            _, closure, clusters = arrays
            before += [xla.Work(self._closure, len(closure)), xla.Read(clusters), xla.Flag(not loops.linear)]
            given = given if loops.linear else given[1:]  # the solution in place of q
            if RECURSIONS[name].bias_rates:
                given = *given, loops.bias_rates_at(*given[:2])
        if rows:
            blocks, slots = program.batch_layout(name)
            before += [xla.Lanes(slots), xla.Numbers(blocks)]
        core = program.cores[name]
        return xla.operation(entry, compiled.require(entry), core, before, given, choice, rows=rows)

    @cached_property
    def _tree(self) -> np.ndarray:
        kinematics = self._kinematics
        if isinstance(kinematics, ClosedKinematics):
            return pack(kinematics.spanning, self._gravity, tied_bodies(kinematics))
        return pack(kinematics, self._gravity)

    @cached_property
    def _tree_with_one_origin(self) -> np.ndarray:
        kinematics = self._kinematics
        spanning = kinematics.spanning if isinstance(kinematics, ClosedKinematics) else kinematics
        return pack_with_one_origin(spanning, self._gravity)

    @cached_property
    def _closure(self) -> np.ndarray:
        return self._program.arrays[1].copy()


def _on_rows(definition: Callable[..., jax.Array], *vectors: jax.Array) -> jax.Array:
    """The definition at vectors (..., k)."""
    for _ in vectors[0].shape[:-1]:
        definition = jax.vmap(definition)
    return definition(*vectors)


def _constant(choice: Any, value: Any) -> xla.Constant:
    """What the caller chose, as a constant of the operation."""
    return xla.Flag(value) if choice is BODY_FACTOR else xla.Read(value)
