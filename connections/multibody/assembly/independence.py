"""Which joints of a cluster are independent, by a QR factorization of K, joint by joint, in NumPy.

The dependent joints are taken one after the other, the last joints first: a joint is taken if the QR
factorization of all columns taken so far has no pivot below some sine (`least_sine`). So the independent
joints are the earliest ones that determine the others well. If all joints have one velocity, this is the
greedy algorithm on a matroid, which finds the earliest set without trying any other. Joints of several
velocities are taken whole; how many of them are independent is tried, few joints first.

Columns are compared by angles, but a column that is round-off of the largest one has no direction; columns
are in units of velocities, and rows are scaled by the cluster's size (`lengths`). Source: Golub and Van
Loan, Matrix Computations, 4th ed., section 5.4 (QR with pivoting); Edmonds, Matroids and the greedy
algorithm, Mathematical Programming 1, 1971.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from connections.geometry.numerics.least_squares import least_sine
from connections.multibody.tolerances import SINGULAR

_SINE = 0.1  # the least sine that is asked for first; if no choice has it, half of it, and so on
MOST = 2000  # most choices among joints of several velocities that are tried for one sine


@dataclass(frozen=True, eq=False)
class Choice:
    """The choice of the independent joints of a cluster of m joints.

    Parameters
    ----------
    K : (p, n), the derivative of the cluster's conditions, columns in their units.
    joints : (n,) the number of the joint that each column belongs to; increasing.
    declared : (m,) 1 for a joint that is to be independent, 0 for a dependent one, -1 if the choice is free.
    rank : of K, the number of dependent velocities.
    """

    K: np.ndarray
    joints: np.ndarray
    declared: np.ndarray
    rank: int

    def independent(self) -> np.ndarray | None:
        """(m,) booleans, or None if no choice of whole joints determines the others."""
        if self._first(SINGULAR) is None:
            return None
        sine = _SINE
        while (dependent := self._first(max(sine, SINGULAR))) is None:
            sine *= 0.5
        return ~np.isin(np.arange(len(self.declared)), dependent)

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

    @property
    def widths(self) -> np.ndarray:
        """(m,) the number of velocities of each joint."""
        return np.bincount(self.joints, minlength=len(self.declared))

    def _wide_sets(self) -> Iterator[tuple[int, ...]]:
        """Sets of joints of several velocities to be dependent, such that the total can be the rank.

        Sets that leave few independent joints come first; among them, those that take the last joints.
        """
        widths = self.widths
        wide = np.flatnonzero((self.declared < 0) & (widths > 1))[::-1]
        single = int(((self.declared < 0) & (widths == 1)).sum())
        left = self.rank - int(widths[self.declared == 0].sum())  # of velocities to be taken
        groups = [wide[widths[wide] == width] for width in np.unique(widths[wide])[::-1]]
        counts = itertools.product(*(range(len(group) + 1) for group in groups))
        fitting = []
        for count in counts:
            singles = left - sum(
                number * int(widths[group[0]]) for number, group in zip(count, groups, strict=True)
            )
            if 0 <= singles <= single:
                fitting.append((-sum(count) - singles, count))
        for _, count in sorted(fitting):
            parts = (
                itertools.combinations(map(int, group), number)
                for group, number in zip(groups, count, strict=True)
            )
            yield from (tuple(itertools.chain(*part)) for part in itertools.product(*parts))

    def _dependent(self, wide: Sequence[int], sine: float) -> list[int] | None:
        """The dependent joints: the declared ones, `wide`, and the last joints of one velocity that fit."""
        widths = self.widths
        required = [*map(int, np.flatnonzero(self.declared == 0)), *wide]
        count = int(widths[required].sum())
        if count > self.rank or not self._least_sine(required) >= sine:
            return None
        taken = required
        for joint in np.flatnonzero((self.declared < 0) & (widths == 1))[::-1]:
            if count == self.rank:
                break
            if self._least_sine([*taken, int(joint)]) >= sine:
                taken, count = [*taken, int(joint)], count + 1
        return taken if count == self.rank else None
