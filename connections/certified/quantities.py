"""Quantities of a robot whose suprema are certified: H, g, dg/dq and the position of a frame."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from connections import multibody as mb
from connections.certified import rounding
from connections.certified.boxes import Quantity
from connections.certified.lengths import Lengths, levers_of
from connections.certified.local import LocalBends
from connections.certified.norms import Euclidean, Inverse, Norm, Radius, Ratio, Spectral, Symmetric, Torque
from connections.certified.postures import Postures
from connections.checks import ModelError

_CURVED = 4  # coordinates at most, of boxes that have parabolas: of m they have 3^m control values


@dataclasses.dataclass(frozen=True, eq=False)
class Quantities:
    """The quantities of one robot over its postures.

    Parameters
    ----------
    postures : the box.
    """

    postures: Postures

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", Lengths.of(self.postures))

    lengths: Lengths = dataclasses.field(init=False)

    def largest(self) -> Quantity:
        """lambda_max(H)."""
        return self._of_mass_matrix(Symmetric(False))

    def inverse(self, block: np.ndarray | None = None) -> Quantity:
        """1 / lambda_min(H), or the largest eigenvalue of a diagonal block of H^-1."""
        quantity = self._of_mass_matrix(Inverse(block))
        count = int(np.count_nonzero(quantity.depends))
        curved = count <= _CURVED
        error = quantity.error * (3.0**count if curved else 1.0)
        norm = Inverse(block, error)  # also of rows that are not in the block
        return dataclasses.replace(quantity, norm=norm, shift=2.0 * error, error=0.0, curved=curved)

    def condition(self) -> Quantity:
        """lambda_max(H) / lambda_min(H)."""
        quantity = self._of_mass_matrix(Ratio())
        middle = self.postures.held(np.zeros(len(quantity.depends), dtype=bool)).lower
        H = quantity.function(self.postures.configurations(middle[None]))
        # Of a leaf, at least, the diagonal entry is constant: lambda_max is never below it.
        still = ~np.diagonal(quantity.bends.any(axis=0))
        least = float(H[0].diagonal()[still].max())
        return dataclasses.replace(quantity, shift=2.0 * quantity.error / least, error=0.0)

    def _of_mass_matrix(self, norm: Norm) -> Quantity:
        robot = self.postures.robot
        bends = self.lengths.bends_of_mass_matrix(self.postures.components)
        depends = np.asarray(bends.any(axis=(1, 2)))
        quantity = Quantity(lambda q: mb.mass_matrix(robot, q), bends, norm, depends, self._rounding)
        return self._summed(dataclasses.replace(quantity, local=lambda low, high: self.local(low, high)[0]))

    @functools.cached_property
    def local(self) -> LocalBends:
        """Bounds within boxes."""
        return LocalBends(self.postures, self.lengths)

    def gravity(self) -> Quantity:
        """|g|; of a base that floats or is on a ball joint, for every direction of gravity in it.

        Raises
        ------
        ModelError : several bodies on first joints, one of which is a ball or free joint.
        """
        robot, size = self.postures.robot, self._size_of_gravity
        components = self.postures.components
        bends = size * self.lengths.bends_of_gravity(components)
        outer = self.lengths.outermost(components, 1)
        depends, error = self.lengths.gravity_depends(components), rounding.of_gravity(self.lengths, size)
        if not robot.kinematics.quaternions:
            quantity = Quantity(lambda q: mb.gravity(robot, q), bends, Euclidean(), depends, error)
            return self._summed(dataclasses.replace(quantity, local=self._within(outer)))
        roots = [body for body, up in enumerate(robot.kinematics.tree.parents) if up < 0]
        if len(roots) > 1:
            raise ModelError("gravity has another direction in each of several bodies on first joints")
        along = [dataclasses.replace(robot, gravity=tuple(size * axis)) for axis in np.eye(3)]

        def directions(q: np.ndarray) -> np.ndarray:
            return np.stack([mb.gravity(one, q) for one in along], axis=1)

        def turned(q: np.ndarray) -> np.ndarray:
            worst = np.linalg.svd(directions(q[None])[0])[0][:, 0]  # the direction that is attained
            return self.postures.turned(q, roots[0], worst, np.array(robot.gravity))

        bends = np.repeat(bends[:, None], 3, axis=1)
        quantity = Quantity(directions, bends, Spectral(), depends, 2.0 * error, turned=turned)
        return self._summed(quantity)

    def gravity_slope(self) -> Quantity:
        """|dg/dq|, of robots with v = qdot."""
        robot, n = self.postures.robot, self.postures.robot.nv
        components, size = self.postures.components, self._size_of_gravity

        def slope(q: np.ndarray) -> np.ndarray:
            rest = np.zeros((len(q), n))
            return np.asarray(mb.inverse_dynamics_derivatives(robot, q, rest, rest)[0])

        outer = self.lengths.outermost(components, 2)
        bends = size * self.lengths.bends_of_gravity_slope(components)
        slides = ~self.lengths.turns[components] & self.lengths.gravity_depends(components)
        depends = slides | bends.any(axis=(1, 2))
        error = rounding.of_gravity(self.lengths, size)
        quantity = Quantity(slope, bends, Symmetric(True), depends, error)
        return self._summed(dataclasses.replace(quantity, local=self._within(outer)))

    def _within(self, outermost: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Bends of gravity within boxes, by the levers there."""

        def within(low: np.ndarray, high: np.ndarray) -> np.ndarray:
            return self._size_of_gravity * self.lengths.by_outermost(outermost, self.local(low, high)[1])

        return within

    def slope(self) -> Quantity:
        """The Frobenius norm of dH/dq along a unit vector, a Lipschitz constant of H over the box."""
        robot, components, n = self.postures.robot, self.postures.components, self.postures.robot.nv

        def slope(q: np.ndarray) -> np.ndarray:
            gamma = mb.christoffel_symbols(robot, q)[:, :, components]  # [i, j, k], j the direction
            along = np.moveaxis(gamma + np.swapaxes(gamma, 1, 3), 2, 1)
            return np.asarray(along.reshape(len(q), len(components), n * n))

        bends = self.lengths.bends_of_slope(components)
        depends = self.largest().depends
        error = 8.0 * n * self._rounding
        bends = bends.reshape(len(bends), len(bends), n * n)
        return self._summed(Quantity(slope, bends, Spectral(), depends, error))

    def torque(self, component: int, speed: float, acceleration: float) -> Quantity:
        """|tau_i| of inverse dynamics for |v| <= speed, |vdot| <= acceleration; of robots with v = qdot."""
        robot, components, n = self.postures.robot, self.postures.components, self.postures.robot.nv

        def parts(q: np.ndarray) -> np.ndarray:
            gamma = mb.christoffel_symbols(robot, q)[:, component]
            product = (gamma + np.swapaxes(gamma, 1, 2)) / 2.0
            row = mb.mass_matrix(robot, q)[:, component]
            weight = mb.gravity(robot, q)[:, component, None]
            return np.concatenate([weight, row, product.reshape(len(q), n * n)], axis=1)

        i = int(np.flatnonzero(components == component)[0])
        slopes = self.lengths.bends_of_slope(components)  # [s, j, k, l]
        product = (slopes[:, :, component] + np.swapaxes(slopes[:, :, component], 1, 2) + slopes[:, i]) / 2.0
        weight = self._size_of_gravity * self.lengths.bends_of_gravity(components)[:, component, None]
        row = self.lengths.bends_of_mass_matrix(components)[:, component]
        bends = np.concatenate([weight, row, product.reshape(len(components), n * n)], axis=1)
        error = rounding.of_gravity(self.lengths, self._size_of_gravity)
        error += self._rounding * (acceleration + 8.0 * n * speed**2)
        depends = self.largest().depends | self.gravity().depends
        return self._summed(Quantity(parts, bends, Torque(n, speed, acceleration), depends, error))

    def reach(self, frame: str) -> Quantity:
        """The distance of a frame's origin from that of the world, or of its base's ball or free joint."""
        robot, components = self.postures.robot, self.postures.components
        body, placement = robot.kinematics.tree.placements[frame]
        centre, beyond = self.centre_of(frame)
        levers, far = levers_of(self.postures, body, placement[:3, 3])
        carried = levers[components] > 0.0
        bends = np.where(self.lengths.turns[components], levers[components], 0.0)[:, None]

        def point(q: np.ndarray) -> np.ndarray:
            return np.asarray(mb.frame_pose(robot, q, frame)[:, :3, 3] - centre)

        def turned(q: np.ndarray) -> np.ndarray:
            return self.postures.turned(q, self._root_of(frame), point(q[None])[0], centre)

        depends = carried & (bends.any(axis=1) | ~self.lengths.turns[components])
        error = rounding.of_point(far + float(np.abs(self.postures.kinematics.placements[:, :3, 3]).sum()))
        return Quantity(point, bends, Radius(), depends, error, turned=turned if beyond else None)

    def centre_of(self, frame: str) -> tuple[np.ndarray, float]:
        """The point (3,) from which `reach` measures, in the world, and what that leaves out.

        Turned by a ball joint at p, a point with |x - p| = r comes as far as |p| + r from the world's origin.
        Of a base that floats it is the base's own origin, and nothing is left out.
        """
        kinematics, root = self.postures.kinematics, self._root_of(frame)
        first = kinematics.chains[root][0].joint if root >= 0 and kinematics.chains[root] else None
        if first is None or first.quaternion is None:
            return np.zeros(3), 0.0
        p = np.array(kinematics.placements[root][:3, 3])
        floats = bool(first.motion[3:].any())
        return p, 0.0 if floats else float(np.linalg.norm(p)) * (1.0 + 1e-15)

    def _root_of(self, frame: str) -> int:
        """The body on a first joint that carries a frame; -1 on the ground."""
        tree = self.postures.kinematics.tree
        root = int(tree.placements[frame][0])
        while root >= 0 and (parent := int(tree.parents[root])) >= 0:
            root = parent
        return root

    def _summed(self, quantity: Quantity) -> Quantity:
        """The quantity, a sum over bodies, with its limbs; each has L times the round-off."""
        limbs = self.lengths.limbs(self.postures.components, quantity.depends)
        error = quantity.error * (2.0 * len(limbs) if len(limbs) > 1 else 1.0)
        blocks = self._blocks if isinstance(quantity.norm, Symmetric) else ()
        return dataclasses.replace(quantity, limbs=limbs, error=error, blocks=blocks)

    @functools.cached_property
    def _blocks(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Rows and coordinates of trees that stand apart."""
        every = np.arange(self.postures.robot.nv)
        trees = self.lengths.limbs(every, np.ones(len(every), dtype=bool))
        return tuple((np.array(t), np.flatnonzero(np.isin(self.postures.components, t))) for t in trees)

    @property
    def _rounding(self) -> float:
        """The round-off of an eigenvalue of H."""
        return rounding.of_mass_matrix(self.lengths, self.postures.kinematics.tree.armature)

    @property
    def _size_of_gravity(self) -> float:
        return float(np.linalg.norm(self.postures.robot.gravity)) * (1.0 + 1e-15)
