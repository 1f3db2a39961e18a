"""The search for a logarithm: the geodesic of any connection that leads from one point to another.

A fan of geodesics leaves q0 in all directions. Those that come near q1 are the initial guesses of Newton's
method with the exact derivative of the exponential. If none of them converges, the target moves from q0 to q1
in stages, and long geodesics are sought in pieces (`broken.py`). A geodesic that arrives is refused unless it
is proven free of conjugate points (`conjugate.py`). The result is the shortest of the others. Vectors are
measured by the connection's own metric, in an orthonormal basis at each end, so that the result does not
depend on coordinates and units.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import jax
import numpy as np

from connections._shown import Shown
from connections.affine.connection import AffineConnection
from connections.affine.logarithms.broken import SENSITIVE, Broken, by_pieces
from connections.affine.logarithms.chord_guesses import Chords
from connections.affine.logarithms.conjugate import free_of_conjugate_points
from connections.affine.logarithms.misses import gap_at, position_blur
from connections.affine.logarithms.ray_guesses import by_fan, in_cells
from connections.affine.logarithms.relaxation import Curves, by_relaxation
from connections.affine.logarithms.shooting import LOOSE, MIDDLE, ROUGH, TIGHT, Ground, Shooting, Shots, on
from connections.affine.periods import require_periodic
from connections.checks import ConvergenceError

LOG_TOLERANCE = 1e-10  # miss at q1, relative to the geodesic's length
BLURRED = 1e-6  # the largest round-off of a point that is allowed beside it, the same
_NEAR = 1e-3  # the same, at which the search with loose tolerances ends
_ONE, _ONE_OF_ALL = (
    0.01,
    1e-3,
)  # velocities that differ by less, relative to their size, belong to one geodesic
_NEWTON_STEPS, _TIGHT_STEPS = 12, 12
_LONG = 10.0  # times the miss: longer steps of Newton's method are next to a conjugate point
_LAST = 1e-6  # relative to the velocity: the effect of a shorter last step need not be looked at
_PARTS = (0.25, 0.5, 0.75, 1.0)  # of a curve of least energy: the stages of the target
_MOST = (6, 12)  # guesses of a fan for one pair
_SAME = 1e-6  # the same, once they are exact
IMAGES, _BEYOND = 1_000, 1.5  # of q1 by whole periods; lines to them that are longer than asked for, too
TIED = 1e-8  # relative: lengths that differ by less are equal
_RADII = 5  # of fans, each half as long as the last one
_TRIED = 3  # of the geodesics found for one pair, so many of the shortest are tested for conjugate points
_TOGETHER = 64  # logarithms that are searched together
_REASONS = (
    "",
    "shooting does not converge",
    "what was found passes a conjugate point",
    "the round-off of q1 and of H there is a large distance: take coordinates with more digits there",
    "q1 is conjugate to q0 along the shortest one, or all but conjugate: the condition number of q1 as a "
    "function of its velocity is {:.0e}; see logarithms",
    "the one that leads there leaves the domain",
    "shooting comes near to q1 and does not converge: q1 as a function of the velocity has the condition "
    "number {:.0e} there",
)
_PASSES, _CONJUGATE_END, _LEAVES, _ILL_CONDITIONED = 2, 4, 5, 6
_WHOLE = 1.0 - 1e-12  # of the time of a geodesic, which ends there
_POLE = 100.0  # times longer or shorter coordinates than at both ends are named in an error
_EARLIER = 1e-7  # of its length: a geodesic without conjugate points up to there may have q1 as its first one


class CutPointWarning(Shown, UserWarning):
    """`logarithm` found a second geodesic that is as short: q1 is a cut point, and one of them is returned.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import connections as cn
    >>> circle = cn.LeviCivita(cn.ConstantMetric(cn.SO2Frame(), [[1.0]]))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", cn.CutPointWarning)
    ...     try:
    ...         cn.logarithm(circle, [0.0], [np.pi])
    ...     except cn.CutPointWarning:
    ...         print("either way round")
    either way round
    """


def logarithms(
    nabla: AffineConnection, q0: np.ndarray, q1: np.ndarray, name: str | None = None
) -> np.ndarray:
    """`logarithm` of rows of valid points, (m, nq) and (m, nq) -> (m, n).

    Parameters
    ----------
    name : None, or the function that needs lengths only: q1 may be conjugate to q0.

    Raises
    ------
    ConvergenceError : names the first pair for which no geodesic was found.
    """
    require_periodic(nabla, q0)
    v, reason, tied = shortest_geodesics(nabla, q0, q1)
    for row in np.flatnonzero(reason if name is None else (reason > 0) & (reason != _CONJUGATE_END)):
        pair = _text_of_pair(q0[row], q1[row])
        what = f"no minimizing geodesic from {pair} was found"
        why = _REASONS[reason[row]]
        if reason[row] == 1:
            why += _where_it_leaves(nabla, q0[row], q1[row])
        elif reason[row] in (_CONJUGATE_END, _ILL_CONDITIONED):
            why = why.format(_Search(Shooting.of(nabla), q0[[row]], q1[[row]]).condition(v[[row]]))
        if reason[row] in (1, _PASSES, _ILL_CONDITIONED):
            why += _where_the_chart_ends(nabla, q0[row], q1[row])
        raise ConvergenceError(f"{name or 'logarithm'}: {what} ({why})")
    if name is None and tied.any():
        first = int(np.argmax(tied))
        pair = _text_of_pair(q0[first], q1[first])
        text = f"logarithm: from {pair} another geodesic is as short; see logarithms"
        warnings.warn(text, CutPointWarning, stacklevel=4)
    return v


def _where_it_leaves(nabla: AffineConnection, q0: np.ndarray, q1: np.ndarray) -> str:
    """Words about the place at which a geodesic in the direction of the straight line ends, or none."""
    search = _Search(Shooting.of(nabla), q0[None], q1[None])
    v = on(search.start.basis, search.chords.velocity)
    shots = search.shooting.geodesics(search.start, v, ROUGH)
    if shots.ok[0] and search.shooting.ground(shots.q).ok[0]:
        return ""
    return (
        f"; the one that leaves along the straight line leaves the domain near {_text_of_point(shots.q[0])}"
    )


def _where_the_chart_ends(nabla: AffineConnection, q0: np.ndarray, q1: np.ndarray) -> str:
    """Words about a place, if any, at which H is all but singular on the way of what comes near q1."""
    q, factor = _Search(Shooting.of(nabla), q0[None], q1[None]).most_singular_point()
    if factor < _POLE:
        return ""
    return (
        f"; what comes near to q1 passes {_text_of_point(q)}, where coordinates are {factor:.0e} times as "
        "long or short as at both ends: if the chart ends there, as polar coordinates do at the pole, the "
        "geodesic through this point is in another chart, for spheres in that of spaces.sphere(n, pole=)"
    )


def _text_of_point(q: np.ndarray) -> str:
    return np.array2string(q, precision=4, threshold=8)


def _text_of_pair(q0: np.ndarray, q1: np.ndarray) -> str:
    return " to ".join(map(_text_of_point, (q0, q1)))


def shortest_geodesics(
    nabla: AffineConnection, q0: np.ndarray, q1: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """v (m, n), for each pair 0 or the index of the reason in `_REASONS` why there is none, and ties (m,).

    If q1 is conjugate to q0, v is one of the velocities that lead there; if the search ends near q1, one of
    those. A tie is known if a second geodesic that is as short was found on the way.
    """
    v, reason = np.zeros((len(q0), nabla.frame.dim)), np.zeros(len(q0), dtype=int)
    tied = np.zeros(len(q0), dtype=bool)
    order = np.lexsort(q0.T)  # equal starts beside each other share a fan
    for begin in range(0, len(q0), _TOGETHER):
        rows = order[begin : begin + _TOGETHER]
        search = _Search(Shooting.of(nabla), q0[rows], q1[rows])
        v[rows], reason[rows] = search.run()
        tied[rows] = search.tied
    return v, reason, tied


def geodesics_between(
    nabla: AffineConnection, q0: np.ndarray, q1: np.ndarray, length: float, rays: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Velocities v (k, n) of all geodesics that are found between two points (nq,), sorted by length.

    They may pass conjugate points. Also their lengths (k,), how many periods their ends are beyond q1,
    (k, nq), and which are proven free of conjugate points, (k,).

    Parameters
    ----------
    length : no geodesic is longer. rays : directions in which is searched.
    """
    require_periodic(nabla, q0[None])
    search = _Search(Shooting.of(nabla), q0[None], q1[None])
    return search.every(length, rays)


# --- private -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Guesses:
    """Initial velocities that may lead to q1.

    Parameters
    ----------
    pair : (c,) which pair of points.
    w : (c, n) components in the orthonormal basis at q0, so that ||w|| is the geodesic's length.
    """

    pair: np.ndarray
    w: np.ndarray

    def __getitem__(self, which: np.ndarray) -> _Guesses:
        return _Guesses(self.pair[which], self.w[which])

    @property
    def length(self) -> np.ndarray:
        """||w||, (c,)."""
        lengths: np.ndarray = np.linalg.norm(self.w, axis=1)
        return lengths


class _Search:
    """The logarithms of some pairs of points, (m, nq) and (m, nq)."""

    def __init__(self, shooting: Shooting, q0: np.ndarray, q1: np.ndarray) -> None:
        self.shooting = shooting
        self.start, self.end = shooting.ground(q0), shooting.ground(q1)
        self.chords = Chords(shooting, self.start, self.end)
        few = shooting.n <= 3
        self._rays, self._starts = (32 if shooting.n == 2 else 62, 510), (0 if few else 3, 8)
        self.best = np.zeros((len(q0), shooting.n))
        self.reason = np.any(self.chords.aim != self.start.q, axis=1).astype(int)
        self.tied = np.zeros(len(q0), dtype=bool)
        self.touching = np.full(self.best.shape, np.inf)  # the shortest without proof, which may pass q1 only
        self.near = np.zeros(self.best.shape)  # one that ends near q1, from which shooting does not converge

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """v (m, n), and the reasons (m,)."""
        left = np.arange(len(self.reason))
        if self.shooting.nabla.has_chords:
            self._settle(self._straight(left[self.reason > 0]))
        for level in (0, 1):
            left = left[self.reason[left] > 0] if level == 0 else self._by_pieces(left)
            if len(left):
                if self._starts[level]:
                    self._settle(self._followed(by_relaxation(self.chords, left, self._starts[level])))
                guesses = _Guesses(*by_fan(self.chords, left, self._rays[level], _MOST[level]))
                guesses = guesses[guesses.length < self._known[guesses.pair]]
                self._settle(guesses[self._newton(guesses, self.end.take(guesses.pair))])
                self._settle(self._opposite(left))
                self._judge_touching(left)
        w = np.where((self.reason == _CONJUGATE_END)[:, None], self.touching, self.best)
        w = np.where((self.reason == _ILL_CONDITIONED)[:, None], self.near, w)
        return on(self.start.basis, w), self.reason

    def condition(self, v: np.ndarray) -> float:
        """The condition number, in orthonormal bases, of the first pair's q1 as a function of v (1, n)."""
        first = np.zeros(1, dtype=int)
        shots = self.shooting.spread(self.start.take(first), v, TIGHT)
        spread = shots.linear[:, : self.shooting.nq]
        derivative = self.shooting.mapped(gap_at, shots.q, spread, *self.end.take(first)[:4])[1][0]
        return float(np.linalg.cond(derivative)) if np.isfinite(derivative).all() else np.inf

    def most_singular_point(self) -> tuple[np.ndarray, float]:
        """The point (nq,) of geodesics near the first pair's q1 at which H is least like those at both ends.

        And by which factor lengths of coordinates are longer or shorter there.
        """
        guesses = _Guesses(*by_fan(self.chords, np.zeros(1, dtype=int), self._rays[0], _MOST[0]))
        self._newton(guesses, self.end.take(guesses.pair), every=True)
        shots = self._spread(guesses[guesses.length <= self.chords.length[0]], MIDDLE, keep=True)
        ground = self.shooting.ground(shots.pieces.q.reshape(-1, self.shooting.nq))
        roots = np.concatenate([self.start.root[:1], self.end.root[:1], ground.root])
        sizes = np.linalg.svd(np.where(np.isfinite(roots), roots, 0.0), compute_uv=False)
        with np.errstate(divide="ignore"):
            factors = np.maximum(sizes[:2].min() / sizes[:, -1], sizes[:, 0] / sizes[:2].max())
        worst = int(np.argmax(factors))
        return np.concatenate([self.start.q[:1], self.end.q[:1], ground.q])[worst], float(factors[worst])

    def _straight(self, pairs: np.ndarray) -> _Guesses:
        """Geodesics that are lines in affine coordinates, where there are any; no others lead there then."""
        w = on(
            self.start.root[pairs],
            self.shooting.mapped(_chord_at, self.start.q[pairs], self.end.q[pairs]),
        )
        known = np.isfinite(w).all(axis=1)
        return _Guesses(pairs[known], w[known])

    def every(self, length: float, rays: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """v (k, n), lengths (k,), shifts (k, nq) and proofs (k,) of the only pair's geodesics."""
        radii = [length]
        while radii[-1] > 2.0 * self.chords.length[0] and len(radii) < _RADII:
            radii.append(0.5 * radii[-1])  # nearer points of the rays are compared with q1
        parts = [in_cells(self.chords, rays, radius) for radius in radii]
        w = np.concatenate([*parts, self.chords.velocity, self._lines_to_images(length)])
        guesses = _Guesses(np.zeros(len(w), dtype=int), w)
        guesses = guesses[self._newton(guesses, self.end.take(guesses.pair), every=True)]
        exact, blur, arrived, free, inside = self._exact(guesses)
        order = np.flatnonzero(arrived & inside & (exact.length <= length))
        order = order[np.argsort(exact.length[order])]
        w, blur, free = exact.w[order], blur[order], free[order]
        allowed = _SAME * np.linalg.norm(w, axis=1) + blur + blur[:, None]
        same = np.linalg.norm(w[:, None] - w, axis=2) <= allowed
        first = ~np.tril(same, -1).any(axis=1)
        w, free = w[first], free[first]
        v = on(self.start.basis.repeat(len(w), axis=0), w)
        shifts = np.zeros((len(w), self.shooting.nq), dtype=int)
        turning = np.flatnonzero(self._periods)
        if turning.size and len(w):
            ends = self.shooting.geodesics(self.start.take(np.zeros(len(w), dtype=int)), v, MIDDLE).q
            turns = (ends - self.end.q)[:, turning] / self._periods[turning]
            shifts[:, turning] = np.round(turns).astype(int)
        return v, np.linalg.norm(w, axis=1), shifts, free

    @property
    def _periods(self) -> np.ndarray:
        """Periods (nq,) of the coordinates, zero where there is none."""
        return np.array([period or 0.0 for period in self.shooting.nabla.frame.periods])

    def _lines_to_images(self, length: float) -> np.ndarray:
        """Initial velocities (c, n) of straight lines to images of q1, the shortest, in the basis at q0.

        Lengths are measured at q0: such a line is a geodesic of a flat space, and a guess in any other.
        """
        turning, nq = np.flatnonzero(self._periods), self.shooting.nq
        if not turning.size:
            return np.zeros((0, self.shooting.n))
        most = int((IMAGES ** (1.0 / turning.size) - 1.0) / 2.0)
        turns = np.zeros(((2 * most + 1) ** turning.size, nq))
        turns[:, turning] = np.stack(
            np.meshgrid(*[np.arange(-most, most + 1)] * turning.size, indexing="ij"), axis=-1
        ).reshape(-1, turning.size)
        ahead = self.chords.aim[0] - self.start.q[0] + turns * self._periods
        w = ahead @ (self.start.root[0] @ self.start.dual[0]).T
        size = np.linalg.norm(w, axis=1)
        lines: np.ndarray = w[(size > 0.0) & (size <= _BEYOND * length)]
        return lines

    def _by_pieces(self, pairs: np.ndarray) -> np.ndarray:
        """Look for long geodesics to pairs without an answer; the pairs for which more rays may help."""
        more = []
        for pair in pairs[(self.reason[pairs] > 0) & (self.reason[pairs] != _CONJUGATE_END)]:
            found = by_pieces(self.chords, pair)
            if found is None or not self._joins(found):
                if self._unresolved(pair):
                    self.reason[pair] = 3
                else:
                    more.append(pair)
                continue
            self.best[pair], self.reason[pair] = found.w, 0
            if found.growth < SENSITIVE:
                more.append(pair)
        return np.array(more, dtype=int)

    def _joins(self, found: Broken) -> bool:
        """Whether a broken geodesic is one geodesic, inside the domain, without conjugate points."""
        length = np.linalg.norm(found.w)
        allowed = LOG_TOLERANCE * length + np.minimum(found.position_blur, BLURRED * length)
        near = (found.gaps <= allowed).all()
        sharp = np.linalg.norm(found.error) <= allowed[-1]
        return bool(near and sharp and found.inside and found.free)

    def _unresolved(self, pair: int) -> bool:
        """Whether q1 and H there have too few digits."""
        return bool(position_blur(self.end)[pair] > BLURRED * self.chords.length[pair])

    def _settle(self, found: _Guesses) -> None:
        """Prove the shortest geodesics found, and store for each pair the shortest one that is proven."""
        gap = np.linalg.norm(found.w - self.best[found.pair], axis=1)
        found = found[(self.reason[found.pair] > 0) | (gap > _ONE * found.length)]  # not yet proven
        if not len(found.pair):
            return
        found = found[np.lexsort((found.length, found.pair))]
        place = np.arange(len(found.pair)) - np.searchsorted(found.pair, found.pair)
        exact, blur, arrived, free, inside = self._exact(found[place < _TRIED])
        reason, pair = self.reason, exact.pair
        self._end_near(exact[~arrived])
        reason[pair[arrived & ~free & (reason[pair] > 0)]] = _PASSES
        reason[pair[arrived & free & ~inside & (reason[pair] > 0)]] = _LEAVES
        arrived &= inside
        for pair, w in zip(exact.pair[arrived & ~free], exact.w[arrived & ~free], strict=True):
            if np.linalg.norm(w) < np.linalg.norm(self.touching[pair]):
                self.touching[pair] = w
        good, blur = exact[arrived & free], blur[arrived & free]
        known = self._known
        exact = good[good.length < known[good.pair]]
        exact = exact[np.argsort(-exact.length)]  # the shortest is written last
        self.best[exact.pair], self.reason[exact.pair] = exact.w, 0
        self.tied &= self._known >= known * (1.0 - TIED)
        best, size = self.best[good.pair], self._known[good.pair]
        other = np.linalg.norm(good.w - best, axis=1) > _SAME * size + 2.0 * blur
        self.tied[good.pair[other & (good.length <= size * (1.0 + TIED))]] = True

    def _opposite(self, pairs: np.ndarray) -> _Guesses:
        """Geodesics that leave opposite to one that passes a conjugate point, for pairs without an answer.

        If geodesics of all directions meet there, this one leads to the same q1 from the other side.
        """
        pairs = pairs[(self.reason[pairs] == _PASSES) & np.isfinite(self.touching[pairs]).all(axis=1)]
        guesses = _Guesses(pairs, -self.touching[pairs])
        return guesses[self._newton(guesses, self.end.take(guesses.pair))]

    def _judge_touching(self, pairs: np.ndarray) -> None:
        """Find the pairs without an answer for which q1 is the first conjugate point of a geodesic."""
        found = pairs[(self.reason[pairs] > 0) & np.isfinite(self.touching[pairs]).all(axis=1)]
        if len(found):
            shots = self._spread(_Guesses(found, self.touching[found]), TIGHT, keep=True)
            free = free_of_conjugate_points(shots.pieces, len(found), -_EARLIER)
            self.reason[found[free]] = _CONJUGATE_END

    def _end_near(self, guesses: _Guesses) -> None:
        """Note guesses (c,) that end near q1, for pairs of which nothing else is known."""
        ends = guesses[self.reason[guesses.pair] == 1]
        self.near[ends.pair], self.reason[ends.pair] = ends.w, _ILL_CONDITIONED

    @property
    def _known(self) -> np.ndarray:
        """The length of each pair's answer so far, (m,)."""
        return np.where(self.reason > 0, np.inf, np.linalg.norm(self.best, axis=1))

    # --- loose geodesics -----------------------------------------------------------------------------------

    def _newton(self, guesses: _Guesses, end: Ground, every: bool = False) -> np.ndarray:
        """Correct guesses (c,) in place until they miss `end` (c,) by `_NEAR`; which do, each once, (c,).

        Those that are longer than another one for their pair are left, unless `every` is asked for.
        """
        pair, w, step = guesses.pair, guesses.w, np.zeros_like(guesses.w)
        miss, damping, near = np.full(len(w), np.inf), np.ones(len(w)), np.zeros(len(w), dtype=bool)
        todo, one = np.arange(len(w)), _ONE_OF_ALL if every else _ONE
        for _ in range(_NEWTON_STEPS):
            if not len(todo):
                break
            ahead = _displaced(w[todo], -damping[todo, None] * step[todo], damping[todo] * miss[todo])
            trial = _Guesses(pair[todo], ahead)
            correction, size, _ = self._shot(trial, end.take(todo), LOOSE)
            better = size < (1.0 - 0.25 * damping[todo]) * miss[todo]
            up = todo[better]
            w[up], miss[up], damping[up] = trial.w[better], size[better], 1.0
            step[up] = _at_most(correction[better], 0.5 * trial.length[better])
            damping[todo[~better]] /= 3.0
            near = miss <= _NEAR * np.linalg.norm(w, axis=1)
            alive = np.isfinite(miss) & (damping > 0.03) & ~near
            alive &= ~_follow(pair, w, miss, one)
            if not every:
                alive &= ~_is_longer(pair, w, step, near)
            todo = todo[alive[todo]]
        arrived: np.ndarray = near & ~_follow(pair, w, miss, one)
        return arrived

    def _followed(self, curves: Curves) -> _Guesses:
        """Geodesics to q1 by continuation: the target moves along curves that are almost geodesics."""
        guesses, points = _Guesses(curves.pair, curves.w), curves.points
        for s in _PARTS:
            here = points[:, round(s * (points.shape[1] - 1))]
            part = _Guesses(guesses.pair, s * guesses.w)
            near = self._newton(part, self.shooting.ground(here))
            guesses, points = _Guesses(part.pair[near], part.w[near] / s), points[near]
        return guesses

    # --- tight geodesics -----------------------------------------------------------------------------------

    def _exact(self, guesses: _Guesses) -> tuple[_Guesses, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Guesses (c,) made exact, by how much they may still move; whether they lead to q1, free, inside.

        A short last step is taken unseen, because what it does is known; longer ones are looked at, so that
        each velocity leads to q1.
        """
        pair, end = guesses.pair, self.end.take(guesses.pair)
        correction, miss, _ = self._shot(guesses, end, MIDDLE)
        w = _displaced(guesses.w, -correction, miss)
        led, (there, free, inside) = w.copy(), np.zeros((3, len(w)), dtype=bool)
        todo, blur = np.arange(len(w)), np.zeros(len(w))
        for _ in range(_TIGHT_STEPS):
            trial = _Guesses(pair[todo], w[todo])
            correction, miss, shots = self._shot(trial, end.take(todo), TIGHT, keep=True)
            arrived = miss <= LOG_TOLERANCE * trial.length + end.round_off[todo]
            good = todo[arrived]
            led[good], there[good], inside[good] = trial.w[arrived], True, self._inside(shots)[arrived]
            free[good] = free_of_conjugate_points(shots.pieces, len(todo))[arrived]
            w[todo] = _displaced(w[todo], -correction, miss)
            blur[todo] = np.linalg.norm(correction, axis=1)
            last = arrived & (blur[todo] <= np.maximum(_LAST * trial.length, _LONG * miss))
            led[todo[last]], blur[todo[last]] = w[todo[last]], 0.0
            todo = todo[np.isfinite(miss) & ~last]
            if not len(todo):
                break
        return _Guesses(pair, led), blur, there, free, inside

    def _inside(self, shots: Shots) -> np.ndarray:
        """Whether the geodesics stay where the connection is valid, tested at their steps; (c,).

        At the end it is valid, but not beyond a border on which q1 may be.
        """
        valid = self.shooting.ground(shots.pieces.q[:, 1]).ok | (shots.pieces.t + shots.pieces.h >= _WHOLE)
        inside: np.ndarray = shots.ok & (np.bincount(shots.pieces.row[~valid], minlength=len(shots.ok)) == 0)
        return inside

    # --- shots ---------------------------------------------------------------------------------------------

    def _spread(self, guesses: _Guesses, tol: float, keep: bool = False) -> Shots:
        start = self.start.take(guesses.pair)
        return self.shooting.spread(start, on(start.basis, guesses.w), tol, keep)

    def _shot(
        self, guesses: _Guesses, end: Ground, tol: float, keep: bool = False
    ) -> tuple[np.ndarray, np.ndarray, Shots]:
        """Newton's corrections (c, n), the misses (c,), and the shots."""
        shots = self._spread(guesses, tol, keep)
        spread = shots.linear[:, : self.shooting.nq]
        gap, derivative, miss = self.shooting.mapped(gap_at, shots.q, spread, *end[:4])
        return on(_inverse(derivative), gap), np.where(shots.ok & np.isfinite(miss), miss, np.inf), shots


def _chord_at(shooting: Shooting, q0: jax.Array, q1: jax.Array) -> jax.Array:
    return shooting.nabla.chord_at(q0, q1)


def _follow(pair: np.ndarray, w: np.ndarray, miss: np.ndarray, one: float) -> np.ndarray:
    """Which velocities (c, n) are next to one of the same pair with a smaller miss; `one` is relative."""
    gap, size = np.linalg.norm(w[:, None] - w, axis=2), np.linalg.norm(w, axis=1)
    behind: np.ndarray = ((pair[:, None] == pair) & (gap <= one * size) & (miss[:, None] > miss)).any(axis=1)
    return behind


def _is_longer(pair: np.ndarray, w: np.ndarray, step: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Which velocities (c, n) are longer, by more than their step, than a converged one of the same pair."""
    length, shortest = np.linalg.norm(w, axis=1), np.full(pair.max(initial=0) + 1, np.inf)
    np.minimum.at(shortest, pair[near], length[near])
    longer: np.ndarray = length - np.linalg.norm(step, axis=1) > (1.0 + 2.0 * _NEAR) * shortest[pair]
    return longer


def _inverse(A: np.ndarray) -> np.ndarray:
    """Pseudoinverses of matrices (c, n, n), without directions of tiny singular values; zero for NaN."""
    finite = np.isfinite(A).all(axis=(1, 2))[:, None, None]
    return np.linalg.pinv(np.where(finite, A, 0.0), rcond=1e-9)


def _displaced(w: np.ndarray, step: np.ndarray, miss: np.ndarray) -> np.ndarray:
    """w + step, (c, n); where a step is long for its miss (c,), its part across w turns w.

    Next to conjugate points steps across w are long, and change no length, by Gauss's lemma.
    """
    moved, size = w + step, np.linalg.norm(w, axis=1)
    far = np.flatnonzero((np.linalg.norm(step, axis=1) > _LONG * miss) & (size > 0.0))
    if len(far):
        ahead = w[far] / size[far, None]
        along = np.sum(ahead * step[far], axis=1, keepdims=True)
        across = (step[far] - along * ahead) / size[far, None]
        angle = np.linalg.norm(across, axis=1, keepdims=True)
        moved[far] = (size[far, None] + along) * (np.cos(angle) * ahead + np.sinc(angle / np.pi) * across)
    displaced: np.ndarray = moved
    return displaced


def _at_most(step: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Vectors (c, n), those that are longer than `size` (c,) shortened to it."""
    length = np.maximum(np.linalg.norm(step, axis=1), 1e-300)
    shortened: np.ndarray = step * np.minimum(1.0, size / length)[:, None]
    return shortened
