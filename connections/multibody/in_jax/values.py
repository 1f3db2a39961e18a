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
from connections.multibody.program.data_packing import (
    DATA,
    OF_DATA,
    OF_EACH,
    places_of_data,
    with_data_in_mind,
    write_data,
)
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
    data : whether functions take three more vectors, `DATA`, in place of the robot's numbers.
    """

    def __init__(
        self,
        kinematics: Kinematics | ClosedKinematics,
        program: Program,
        gravity: tuple[float, float, float],
        data: bool = False,
    ) -> None:
        self._kinematics, self._program, self._gravity, self._data = kinematics, program, gravity, data

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
            return PlatformFunction(name, core, processor, definition, change, transposed, self._shared)
        choice = RECURSIONS[recursion].choice
        constants = [_constant(choice, each) for each in self._program.choice(recursion, chosen)]
        processor = partial(self._at_rest if name in AT_REST else self._value, recursion, constants)
        return PlatformFunction(name, core, processor, definition, change, transposed, self._shared)

    @property
    def _shared(self) -> int:
        """How many of the vectors are data, which may be the same for all rows."""
        return len(DATA) if self._data else 0

    def _at_rest(self, name: str, choice: list[xla.Constant], *vectors: jax.Array) -> jax.Array:
        """A recursion of q, v and x at v = 0, for vectors without v."""
        end = len(vectors) - self._shared
        *others, x = vectors[:end]
        return self._value(name, choice, *others, jnp.zeros_like(x), x, *vectors[end:])

    def _value(self, name: str, choice: list[xla.Constant], *given: jax.Array) -> jax.Array:
        """The result at vectors (..., k)."""
        program, loops, rows = self._program, self._program.loops, given[0].ndim > 1
        arrays = program.arrays_of(name)
        tree = self._tree if arrays is program.arrays else self._tree_with_one_origin
        before: list[xla.Constant] = [xla.WorkCopy(tree, len(arrays[0]))]
        data: tuple[jax.Array, ...] = ()
        each, suffix = False, ""
        if self._data:
            parameters, gravity, armature = given[-len(DATA) :]
            given, data = given[: -len(DATA)], (jnp.concatenate([parameters, gravity, armature], axis=-1),)
            before = [xla.FilledCopy(tree, len(arrays[0]), self._places, write_data)]
            each = data[0].ndim > 1  # rows of a vector register have the numbers of one robot
            rows, suffix = rows and not each, OF_EACH if each else OF_DATA
        entry = f"{name}_rows" if rows else f"{name}_at"
        if loops is not None:
            entry = f"closed_{entry}"
            _, closure, clusters = arrays
            before += [
                xla.WorkCopy(self._closure, len(closure)),
                xla.ReadArray(clusters),
                xla.Flag(not loops.linear),
            ]
            given = given if loops.linear else given[1:]  # the solution in place of q
            if RECURSIONS[name].bias_rates:
                given = *given, loops.bias_rates_at(*given[:2])
        if rows:
            layouts = [program.batch_layout(name, lanes) for lanes in xla.WIDTHS]
            blocks, slots = zip(*layouts, strict=True)
            before += [xla.LaneScratch(max(slots)), xla.NumbersByLanes(blocks)]
        core, function = program.cores[name], compiled.require(entry)
        vectors = *given, *data
        return xla.operation(entry + suffix, function, core, before, vectors, choice, rows=rows, each=each)

    @cached_property
    def _places(self) -> np.ndarray:
        return places_of_data(self._spanning, self._tree)

    @property
    def _spanning(self) -> Kinematics:
        kinematics = self._kinematics
        return kinematics.spanning if isinstance(kinematics, ClosedKinematics) else kinematics

    @cached_property
    def _tree(self) -> np.ndarray:
        kinematics = self._kinematics
        tied = tied_bodies(kinematics) if isinstance(kinematics, ClosedKinematics) else None
        return self._packed(pack(self._spanning, self._gravity, tied))

    @cached_property
    def _tree_with_one_origin(self) -> np.ndarray:
        return self._packed(pack_with_one_origin(self._spanning, self._gravity))

    def _packed(self, tree: np.ndarray) -> np.ndarray:
        return with_data_in_mind(tree) if self._data else tree

    @cached_property
    def _closure(self) -> np.ndarray:
        return self._program.arrays[1].copy()


def _on_rows(definition: Callable[..., jax.Array], *vectors: jax.Array) -> jax.Array:
    """The definition at vectors (..., k); data may be (k,), the same for all rows."""
    batch = vectors[0].ndim - 1
    for _ in range(batch):
        definition = jax.vmap(definition, tuple(0 if x.ndim > batch else None for x in vectors))
    return definition(*vectors)


def _constant(choice: Any, value: Any) -> xla.Constant:
    """The caller's choice, such as a frame, as a constant of the operation."""
    return xla.Whole(value) if choice is BODY_FACTOR else xla.ReadArray(value)
