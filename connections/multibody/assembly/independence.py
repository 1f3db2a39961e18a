"""Which joints of a cluster are independent, by a QR factorization of K, joint by joint, in NumPy.

The dependent joints are taken one after the other, the last joints first, those with motors behind the
others: a joint is taken if the QR factorization of all columns taken so far has no pivot below some sine
(`least_sine`). So the independent joints are the motors and the earliest ones that determine the others well.
If all joints have one velocity, this is the greedy algorithm on a matroid, which finds the earliest set
without trying any other. Joints of several velocities are taken whole; how many of them are independent is
tried, few joints first.

Where a motor would be dependent, smaller sines are tried, too.

This choice stays if the others move by at most `GOOD` units where the independent ones move by one, or by
`MOST_GAIN` if there are motors: the largest entry of G = -K_d^+ K_i, at the reference and at closed
configurations about 0.1 rad from it. Otherwise, dependent joints change places with independent ones as long
as that entry falls, and other sets of joints of several velocities are tried. If no joint had more than one
velocity, a choice whose K_d has the largest volume would have no entry above one at the reference.

K is in the scales of `ranks`. Source: Golub and Van Loan, Matrix Computations, 4th ed., section 5.4 (QR with
pivoting); Edmonds, Matroids and the greedy algorithm, Mathematical Programming 1, 1971; Gu and Eisenstat,
Efficient algorithms for computing a strong rank-revealing QR factorization, SIAM J. Sci. Comput. 17, 1996.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from connections.geometry.numerics.least_squares import least_sine
from connections.multibody.tolerances import SINGULAR

_SINE = 0.1  # the least sine that is asked for first; if no choice has it, half of it, and so on
_LOWER = 0.2  # the next sine, if joints with motors are dependent
MOST = 2000  # most choices among joints of several velocities that are tried for one sine
GOOD = 10.0  # choices with a gain up to this are equally good, and the earliest is taken
MOST_GAIN = 20.0  # the same with motors; above it, the best choice is warned of
_BETTER = 0.9  # a choice takes the place of another if its gain is less than this of the other's
_SWAPS, _EACH = 40, 6  # most exchanges of two joints, and most pairs that are tried for one of them
_COMPARED = 100  # most sets of joints of several velocities whose gains are compared


@dataclass(frozen=True, eq=False)
class IndependentChoice:
    """The choice of the independent joints of a cluster of m joints.

    Parameters
    ----------
    K : (p, n), the derivative of the cluster's conditions, in the scales of `ranks`.
    joints : (n,) the number of the joint that each column belongs to; increasing.
    declared : (m,) 1 for a joint that is to be independent, 0 for a dependent one, -1 if the choice is free.
    rank : of K, the number of dependent velocities.
    near : K at closed configurations near the reference.
    widths : (n,) the sizes of the columns, by which they were divided.
    geared : (n,) whether a velocity is bound by linear couplings only, and its gain is a ratio of gears.
    actuated : (m,) whether a joint has a motor.
    """

    K: np.ndarray
    joints: np.ndarray
    declared: np.ndarray
    rank: int
    near: Sequence[np.ndarray]
    widths: np.ndarray
    geared: np.ndarray
    actuated: np.ndarray

    def independent(self) -> np.ndarray | None:
        """(m,) booleans, or None if no choice of whole joints determines the others."""
        last = self._first(SINGULAR)
        if last is None:
            return None
        sine, earliest = _SINE, self._first(_SINE)
        while earliest is None:
            sine *= 0.5
            earliest = self._first(max(sine, SINGULAR))
        dependent, gain = earliest, self.gain(earliest)
        while self.actuated[dependent].any() and (sine := sine * _LOWER) > SINGULAR:
            other = self._first(sine) or last
            fewer = self.actuated[other].sum() < self.actuated[dependent].sum()
            if fewer and self.gain(other) <= MOST_GAIN:
                dependent, gain = other, self.gain(other)
        if gain > self._good and (self.declared < 0).any():
            dependent, gain = self._exchanged(dependent, gain)
            for wide in itertools.islice(self._wide_sets(), _COMPARED):
                if gain <= self._good:
                    break
                found = self._dependent(wide, _SINE) or self._dependent(wide, SINGULAR)
                if found is not None:
                    other, its = self._exchanged(found, self.gain(found))
                    if its < _BETTER * gain:
                        dependent, gain = other, its
        return ~np.isin(np.arange(len(self.declared)), dependent)

    @property
    def _good(self) -> float:
        """The gain up to which a choice stays."""
        return MOST_GAIN if self.actuated.any() else GOOD

    def gain(self, dependent: Sequence[int] | np.ndarray) -> float:
        """The largest velocity of a dependent joint, in units, where independent ones have one unit."""
        return self.fastest(dependent)[0]

    def fastest(self, dependent: Sequence[int] | np.ndarray) -> tuple[float, int, int]:
        """`gain`, and the independent joint and the dependent one between which it is."""
        G, taken = np.max(self.gains(dependent), axis=0), np.isin(self.joints, dependent)
        if not G.size:
            return 0.0, -1, -1
        row, column = np.unravel_index(int(np.argmax(G)), G.shape)
        return float(G[row, column]), int(self.joints[~taken][column]), int(self.joints[taken][row])

    def gains(self, dependent: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """|G| (rank, n - rank), in units, at the reference and near it; infinite where it is singular.

        It is singular if the compiled solver says so, whose pivots are relative to columns longer than one.
        """
        taken, found = np.isin(self.joints, dependent), []
        for K in (self.K * self.widths, *(near * self.widths for near in self.near)):
            Q, R = np.linalg.qr(K[:, taken])
            lengths = np.maximum(np.linalg.norm(R, axis=0), 1.0)
            if len(R) < len(R.T) or (np.abs(np.diagonal(R)) / lengths).min(initial=1.0) < SINGULAR:
                found.append(np.full((int(taken.sum()), int((~taken).sum())), np.inf))
                continue
            G = np.abs(np.linalg.solve(R, Q.T @ K[:, ~taken]))
            G[self.geared[taken]] = 0.0
            found.append(G)
        return found

    def _exchanged(self, dependent: list[int], gain: float) -> tuple[list[int], float]:
        """Dependent joints with a lower gain, by exchanges of joints of one velocity, and that gain."""
        for _ in range(_SWAPS):
            if gain <= self._good:
                break
            taken, G = np.isin(self.joints, dependent), np.max(self.gains(dependent), axis=0)
            single = ((self.declared < 0) & (self.sizes == 1))[self.joints]
            G = np.where(np.outer(single[taken], single[~taken]), G, 0.0)
            rows, columns = np.unravel_index(np.argsort(-G, axis=None)[:_EACH], G.shape)
            swaps = [
                [*(joint for joint in dependent if joint != out), int(into)]
                for out, into, size in zip(
                    self.joints[taken][rows], self.joints[~taken][columns], G[rows, columns], strict=True
                )
                if size > 1.0  # the volume of K_d grows by this factor
            ]
            least, best = min(((self.gain(swap), swap) for swap in swaps), default=(gain, dependent))
            if not least < _BETTER * gain:
                break
            dependent, gain = best, least
        return dependent, gain

    def _first(self, sine: float) -> list[int] | None:
        """The dependent joints of the first choice with these sines."""
        for wide in itertools.islice(self._wide_sets(), MOST):
            dependent = self._dependent(wide, sine)
            if dependent is not None:
                return dependent
        return None

    @property
    def limited(self) -> bool:
        """Whether there are more choices among joints of several velocities than are tried."""
        return next(itertools.islice(self._wide_sets(), MOST, None), None) is not None

    def _least_sine(self, joints: Sequence[int]) -> float:
        """`least_sine` of the columns (p, k) of K of these joints, in the order of the cluster."""
        return least_sine(self.K[:, np.isin(self.joints, joints)], 1.0)

    @cached_property
    def sizes(self) -> np.ndarray:
        """(m,) the number of velocities of each joint."""
        return np.bincount(self.joints, minlength=len(self.declared))

    @cached_property
    def order(self) -> np.ndarray:
        """The joints in the order in which they are to be independent: those with motors first."""
        return np.argsort(~self.actuated, kind="stable")

    def _wide_sets(self) -> Iterator[tuple[int, ...]]:
        """Sets of joints of several velocities to be dependent, such that the total can be the rank.

        Sets that leave motors independent come first, then those that leave few independent joints; among
        them, those that take the last joints.
        """
        sizes = self.sizes
        free = [int(joint) for joint in self.order[::-1] if self.declared[joint] < 0]
        wide = [joint for joint in free if sizes[joint] > 1]
        single = [joint for joint in free if sizes[joint] == 1]
        idle = int((~self.actuated[single]).sum())
        left = self.rank - int(sizes[self.declared == 0].sum())  # of velocities to be taken
        groups = [[joint for joint in wide if sizes[joint] == size] for size in sorted({*sizes[wide]})[::-1]]
        counts = itertools.product(*(range(len(group) + 1) for group in groups))
        fitting = []
        for count in counts:
            singles = left - sum(
                number * int(sizes[group[0]]) for number, group in zip(count, groups, strict=True)
            )
            if 0 <= singles <= len(single):
                fitting.append((max(0, singles - idle), -sum(count) - singles, count))
        for *_, count in sorted(fitting):
            parts = (
                itertools.combinations(group, number) for group, number in zip(groups, count, strict=True)
            )
            yield from (tuple(itertools.chain(*part)) for part in itertools.product(*parts))

    def _dependent(self, wide: Sequence[int], sine: float) -> list[int] | None:
        """The dependent joints: the declared ones, `wide`, and the last joints of one velocity that fit."""
        sizes = self.sizes
        required = [*map(int, np.flatnonzero(self.declared == 0)), *wide]
        count = int(sizes[required].sum())
        if count > self.rank or not self._least_sine(required) >= sine:
            return None
        taken = required
        for joint in self.order[::-1]:
            if count == self.rank:
                break
            if self.declared[joint] < 0 and sizes[joint] == 1:
                if self._least_sine([*taken, int(joint)]) >= sine:
                    taken, count = [*taken, int(joint)], count + 1
        return taken if count == self.rank else None
