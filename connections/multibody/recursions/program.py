"""A model made ready for the recursions: its flat array, its workspaces, its batches and its errors.

A call with float64 arrays of the right shapes goes straight to compiled code. Everything else (lists, other
dtypes, batches, bad input) comes to `Program.general`, which converts, broadcasts, and says what is wrong.
Batches are cut into pieces for threads.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from connections.checks import MetricError, PointError, batch_axes, raise_at, require_finite
from connections.multibody.joints import Free, Spherical
from connections.multibody.posture import body_motions
from connections.multibody.recursions.arguments import (
    as_rows,
    in_pieces,
    lazily,
    numbers,
    plain,
    require_output,
)
from connections.multibody.recursions.compiled import compiled
from connections.multibody.recursions.lanes import LANES
from connections.multibody.recursions.layout import aligned, nonzero_blocks, pack, workspace_slots
from connections.multibody.recursions.table import RECURSIONS, is_force_cross
from connections.multibody.regularity import first_irregular

if TYPE_CHECKING:
    from connections.multibody.kinematics import Kinematics
    from connections.multibody.model import Model


class Program:
    """The recursions' view of a model.

    Parameters
    ----------
    model : the robot.

    Single calls share the workspace in `memory`; the interpreter's lock, which they do not release, keeps
    them apart. `single` holds the functions of one configuration. Pieces of batches have workspaces of their
    own, kept for later batches.
    """

    def __init__(self, model: Model) -> None:
        kinematics = cast("Kinematics", model.kinematics)  # `ClosedProgram` has the other
        packed = pack(kinematics, model.gravity)
        self._model, self.single = model, compiled
        self._slots = workspace_slots(kinematics, int(packed.view(np.int64)[1]))
        self.memory = aligned(len(packed) + self._slots)
        self.memory[: len(packed)] = packed
        n, bodies = model.nv, len(model.body_names)
        self.cores = {name: row.core(n, bodies) for name, row in RECURSIONS.items()}
        self.vector, self.matrix, self.cube = (n,), (n, n), (n, n, n)
        self.wide, self.three = self.cores["regressor"], (3, n, n)
        self._sizes = ((model.nq,), *[(n,)] * 3)
        self._names = {name: ("q", *row.vectors) for name, row in RECURSIONS.items()}
        self._workspaces: dict[str, deque[np.ndarray]] = {name: deque() for name in RECURSIONS}
        self._blocks: dict[str, np.ndarray] = {}

    def general(self, name: str, given: tuple[Any, ...], out: Any, body_factor: Any = None) -> np.ndarray:
        """What the recursion `name` gives for any input that can be read as arrays of numbers.

        Parameters
        ----------
        name : a key of `RECURSIONS`.
        given : q (..., nq) and then vectors (..., nv).
        out : the array to fill, or None.
        body_factor : where the recursion has a choice.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, MetricError, TypeError, ValueError : see the public functions.
        """
        choice = (is_force_cross(body_factor),) if RECURSIONS[name].body_factor else ()
        names = self._names[name]
        if (lazy := lazily(self._model, name, given, out, body_factor)) is not None:
            return lazy
        vectors = [numbers(*item) for item in zip(names, given, self._sizes, strict=False)]
        batch = batch_axes(names, vectors)
        core = self.cores[name]
        if out is not None:
            require_output(out, (*batch, *core))
        if not batch:
            result = np.empty(core) if out is None else out
            good = compiled.require(f"{name}_at")(self.memory, *map(plain, vectors), *choice, result)
        else:
            rows = [as_rows(vector, batch, out) for vector in vectors]
            result = np.empty((*batch, *core)) if out is None else out
            flat = result.reshape(len(rows[0]), math.prod(core))
            good = in_pieces(
                len(flat), lambda piece: self.rows(name, [row[piece] for row in rows], choice, flat[piece])
            )
        if not good:
            self._explain(name, names, vectors)
        return result

    def rows(self, name: str, vectors: list[np.ndarray], choice: tuple[bool, ...], out: np.ndarray) -> bool:
        """Fill out (m, k) from vectors (m, ...) in this thread; whether the input was good.

        Of q (m, ...), only the first nq columns are read.
        """
        function = compiled.require(f"{name}_rows")
        if name not in self._blocks:
            mirrored = RECURSIONS[name].mirrored
            self._blocks[name] = self._slab_blocks(name) if mirrored else self._nonzero_blocks(name)
        work = self._borrow(name)
        good = function(self.memory, work, self._blocks[name], *vectors, *choice, out)
        self._workspaces[name].append(work)
        return bool(good)

    def _borrow(self, name: str) -> np.ndarray:
        """A workspace that no other thread has, zero where this recursion's result is."""
        try:
            return self._workspaces[name].pop()
        except IndexError:
            return aligned(self._slots + math.prod(self.cores[name]) + LANES, LANES)

    def _nonzero_blocks(self, name: str) -> np.ndarray:
        """Where the blocks of LANES entries of the flat result begin that the tree makes nonzero."""
        return nonzero_blocks(self._nonzero(name))

    def _nonzero(self, name: str) -> np.ndarray:
        kinematics = self._model.kinematics
        return RECURSIONS[name].nonzero(kinematics.moves, kinematics.body_of)

    def _slab_blocks(self, name: str) -> np.ndarray:
        """Where the entries of a slab of Christoffel symbols stand, and which blocks of it are not zero.

        As `boundary.write_slabs` reads them.
        """
        n = self._model.nv
        own = np.arange(n * n).reshape(n, n)
        mirrored = np.tril(np.ones((n, n), dtype=bool), -1) & ~self._brackets()
        places = np.where(mirrored, own.T, own)
        firsts = np.maximum(np.minimum(np.arange(0, n * n, LANES), n * n - LANES), 0)
        flat = self._nonzero(name).reshape(n, n * n)
        flags = np.stack([flat[:, first : first + LANES].any(axis=1) for first in firsts], axis=1)
        flags[:, -1] = True  # it may overlap the block before
        return np.concatenate([own.ravel(), places.ravel(), flags.ravel()])

    def _brackets(self) -> np.ndarray:
        """Which columns have a bracket, (n, n): those of a spherical or free joint, about different axes."""
        kinematics = self._model.kinematics
        pairs = np.zeros((self._model.nv,) * 2, dtype=bool)
        angular, none = ~np.eye(3, dtype=bool), np.zeros((3, 3), dtype=bool)
        blocks = {Spherical: angular, Free: np.block([[angular, angular], [angular, none]])}
        for joint, start in zip(kinematics.tree.joints, kinematics.v_starts[:-1], strict=True):
            if type(joint) in blocks:
                pairs[start : start + joint.nv, start : start + joint.nv] = blocks[type(joint)]
        return pairs

    def _explain(self, name: str, names: tuple[str, ...], vectors: list[np.ndarray]) -> NoReturn:
        """Raise the error that says what is wrong with the input of the recursion `name`."""
        for vector_name, vector in zip(names, vectors, strict=True):
            require_finite(vector_name, vector)
        configurations = vectors[0].reshape(-1, self._model.nq)
        for q in configurations:
            self._model.explain(q)
        if RECURSIONS[name].inverse:
            for q in configurations:
                self._require_regular(q)
            raise MetricError("the mass matrix is singular, or nearly so")
        raise PointError("q is not a configuration of the model")

    def _require_regular(self, q: np.ndarray) -> None:
        """Raise `MetricError` naming the joint along which the articulated inertia vanishes at q (nq,)."""
        kinematics = cast("Kinematics", self._model.kinematics)
        found = first_irregular(kinematics.tree.inertias, *body_motions(kinematics, q))
        if found is not None:
            joint = self._model.joint_names[kinematics.body_of[found[0]]]
            raise_at(MetricError, f"the mass matrix is singular along joint '{joint}'", q)
