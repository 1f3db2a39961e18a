"""k_C = sup |C(q, v) y| / (|v| |y|) over all postures, for each member of the contorsion family, proved.

It is the supremum of the norm of the trilinear form Gamma_ijk(q), and Gamma (first kind) is a polynomial of
degree 2 in the sine and cosine of each angle, and in each length. So at every posture of a box Gamma is a
convex combination of control values K (`trigonometric.py`), and with a gauge N (`trilinear.py`)

    |Gamma(q)| <= max_K |K| <= max_K |K P^-1/2|,    P = 1 - N.

Each K may have a gauge of its own; one that was found for the worst K serves most of the others, and of the
next boxes. An axis along which control values differ by less than a tenth of the gap that is asked for is
replaced by its middle or by its two ends, and the distance is added: what matters little costs nothing.
Before the first cut, with means <.> of samples along some axes, Lambda = 2 above Lebesgue's constant,

    |Gamma - <Gamma>_i| <= Lambda^m max over samples,    of m axes that are left, i the one that varies least.

Boxes are halved best first. The lower end is taken at a posture that ascent from many found.

Limbs that meet at the first joint only add: Gamma = Gamma_0 + sum_l Delta_l(q_l), and with L limbs

    |Gamma| <= (1 / L) sum_l sup |Gamma_0 + L Delta_l(q_l)|.

The norm is that of joint rates, |v|^2 = sum v_i^2, in rad/s and m/s.

Source: derived here; the members are [W] eq. (12).
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from connections import multibody as mb
from connections._progress import Ticks
from connections.affine.contorsion import SYMMETRY_TOLERANCE
from connections.certified.interval import Interval
from connections.certified.lengths import Lengths
from connections.certified.postures import Postures
from connections.certified.trigonometric import (
    AMPLIFICATION,
    LEBESGUE,
    along,
    cells,
    halves,
    nodes,
    to_control,
)
from connections.certified.trilinear import UNIT, Gauge, attained, best_gauge, frobenius
from connections.checks import ModelError, SymmetryError, as_array, as_number, require_choice, require_finite

LARGEST = 3 * 10**7  # numbers of an array of control values
_TRIED, _KEPT = 1500, 10  # postures of which the best are climbed from
_REMEMBERED = 2**19  # numbers of an array that a box keeps
_GAUGES = 6  # most recent ones that a box tries before it asks for a new one
_NEW_GAUGES = 10  # of a box
_OPERATIONS = 96  # of a joint, for one symbol: three rotations of a composite inertia

Directions = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class CoriolisBound:
    """k_C of a member of the contorsion family: |C(q, v) y| <= k_C |v| |y| at all postures.

    Parameters
    ----------
    interval : k_C; its lower end is attained at `interval.posture` and `directions`. Where limbs meet,
        the gap may stay wider, and `interval.reached` is "limbs".
    directions : z, v, y (n,) unit vectors with z^T C(q, v) y = lower.

    Examples
    --------
    >>> from connections import certified, multibody as mb
    >>> arm = mb.example("arm")
    >>> bound = certified.coriolis_bound(arm, ([-0.05] * 6, [0.05] * 6))
    >>> z, v, y = bound.directions
    >>> C = mb.coriolis_matrix(arm, bound.interval.posture, v)
    >>> round(float(z @ C @ y) / bound.interval.lower, 6)
    1.0
    """

    interval: Interval
    directions: Directions


def coriolis_bound(
    robot: mb.Model,
    limits: Any = None,
    *,
    body_factor: str = "christoffel",
    contorsion: Any = None,
    rtol: float = 0.05,
    seconds: float = 60.0,
) -> CoriolisBound:
    """k_C with |C(q, v) y| <= k_C |v| |y| at every posture, between an attained end and a proved one.

    Parameters
    ----------
    robot : a tree whose joints are hinges and slides; the first may be a ball joint or free.
    limits : of the postures, as in `Postures.of`; the robot's own without.
    body_factor : whose C: "christoffel", "force_cross" or "least" (`multibody.coriolis_matrix`).
    contorsion : D (n, n, n), a 3-form that is subtracted at all postures: C is that of Gamma - D.
    rtol : the gap, relative to the upper end, at which the search stops.
    seconds : the time after which it stops, s. The interval holds in any case.

    Raises
    ------
    ModelError : loops, helical joints and others that `Postures.of` names; slides without limits on which C
        depends; too many coordinates in one limb. SymmetryError : D is not antisymmetric. TypeError : D is a
        function, of which nothing is known between samples. ValueError : rtol or seconds is not positive.

    Examples
    --------
    Two links of 1 m with masses of 1 kg at their ends: k_C = 1.644 at a right angle.

    >>> import numpy as np
    >>> from connections import certified, multibody as mb
    >>> arm, elbow = mb.Mechanism(), np.eye(4)
    >>> elbow[0, 3] = 1.0
    >>> arm.add_body("upper", 1.0, (1.0, 0.0, 0.0))
    >>> arm.add_body("fore", 1.0, (1.0, 0.0, 0.0))
    >>> arm.add_joint("shoulder", "world", "upper", mb.Revolute((0, 0, 1)))
    >>> arm.add_joint("elbow", "upper", "fore", mb.Revolute((0, 0, 1)), elbow)
    >>> k_C = certified.coriolis_bound(arm.build(), rtol=1e-3).interval
    >>> round(k_C.lower, 3), k_C.upper < 1.647
    (1.644, True)

    Source: derived here.
    """
    start = time.monotonic()
    postures = Postures.of(robot, limits)
    require_choice("body_factor", body_factor, ("christoffel", "force_cross", "least"))
    require_positive(rtol=rtol, seconds=seconds)
    symbols = Symbols.of(postures, body_factor, contorsion)
    deadline = start + seconds
    best = symbols.climbed(deadline=start + seconds / 3.0)
    limbs = symbols.limbs()
    tops, boxes, reached = [], 0, "gap"
    with Ticks("k_C") as ticks:
        for number, limb in enumerate(limbs):
            # Each limb has its share of the time that is left.
            end = time.monotonic() + (deadline - time.monotonic()) / (len(limbs) - number)
            alone = len(limbs) == 1
            search = _SymbolSearch(limb, best.value if alone else 0.0, rtol if alone else 0.8 * rtol)
            try:
                done = search.run(end, ticks)
            except KeyboardInterrupt as error:
                if alone:
                    vars(error)["interval"] = symbols.interval(best, search.top, search.boxes, "interrupted")
                raise
            tops.append(search.top)
            boxes += search.boxes
            reached = reached if done == "gap" else done
    top = float(np.mean(tops))
    if reached == "gap" and top * (1.0 - rtol) > best.value:
        reached = "limbs"
    z, v, y = (vector[0] for vector in best.directions)
    return CoriolisBound(symbols.interval(best, top, boxes, reached), (z, v, y))


def require_positive(**numbers: Any) -> None:
    """Raise ValueError where a number is not positive."""
    for name, value in numbers.items():
        if not as_number(name, value) > 0.0:
            raise ValueError(f"{name} must be positive, got {value}")


@dataclass(frozen=True, eq=False)
class Peaks:
    """Values (P,) of |Gamma_ijk z_i v_j y_k|, largest first, at points (P, m) of a box and z, v, y (P, n)."""

    values: np.ndarray
    points: np.ndarray
    directions: Directions

    @property
    def value(self) -> float:
        """The largest value."""
        return float(self.values[0])


@dataclass(frozen=True, eq=False)
class Symbols:
    """Gamma - D of a robot as a function of the coordinates of a box.

    Parameters
    ----------
    postures : the box.
    body_factor : of which member.
    contorsion : (n, n, n) what is subtracted.
    symmetric : whether the mean of both orders of v and y is meant, which all members share.
    """

    postures: Postures
    body_factor: str
    contorsion: np.ndarray
    symmetric: bool = False

    @classmethod
    def of(cls, postures: Postures, body_factor: str, contorsion: Any = None) -> Symbols:
        """The symbols, after D is checked."""
        n = postures.robot.nv
        if callable(contorsion):
            raise TypeError(
                "contorsion: expected an array (n, n, n), got a function: nothing bounds it between samples"
            )
        D = (
            np.zeros((n, n, n))
            if contorsion is None
            else np.array(as_array("contorsion", contorsion, (n, n, n)))
        )
        require_finite("contorsion", D)
        even = max(float(np.abs(D + np.swapaxes(D, a, a + 1)).max(initial=0.0)) for a in (0, 1))
        if even > SYMMETRY_TOLERANCE * np.abs(D).max(initial=0.0):
            raise SymmetryError("contorsion: D is not totally antisymmetric, so Hdot is not C + C^T")
        return cls(postures, body_factor, D)

    def at(self, points: np.ndarray) -> np.ndarray:
        """Gamma - D (P, n, n, n) at points (P, m)."""
        q = self.postures.configurations(points)
        symbols = mb.christoffel_symbols(self.postures.robot, q, body_factor=self.body_factor)
        members: np.ndarray = np.asarray(symbols) - self.contorsion
        return 0.5 * (members + np.swapaxes(members, 2, 3)) if self.symmetric else members

    @property
    def depends(self) -> np.ndarray:
        """(m,) whether a coordinate is none of a first joint, which moves all that follows as one body."""
        kinematics = self.postures.robot.kinematics
        roots = [at for at, up in zip(kinematics.v_starts, kinematics.tree.parents, strict=False) if up < 0]
        return ~np.isin(self.postures.components, roots)

    def limbs(self) -> list[_Limb]:
        """The parts of Gamma by the branches that the first joint carries."""
        kinematics = self.postures.robot.kinematics
        parents, starts = np.asarray(kinematics.tree.parents), np.asarray(kinematics.v_starts)
        branch = []
        for component in self.postures.components:
            body = int(np.searchsorted(starts, component, side="right")) - 1
            while parents[body] >= 0 and parents[parents[body]] >= 0:
                body = int(parents[body])
            branch.append(body)
        depends, groups = self.depends, np.array(branch, dtype=int)
        found = [np.flatnonzero((groups == g) & depends) for g in dict.fromkeys(groups[depends].tolist())]
        middle = self.middle()
        found = found or [np.zeros(0, dtype=int)]  # a constant tensor
        return [_Limb(self, axes, middle, len(found)) for axes in found]

    @property
    def error(self) -> float:
        """The round-off of the norm of a computed Gamma; entries are sums of terms of at most m (reach)^2."""
        finite = np.isfinite(self.postures.upper - self.postures.lower)
        ends = [np.where(finite, end, 0.0) for end in (self.postures.lower, self.postures.upper)]
        lengths = Lengths.of(replace(self.postures, lower=ends[0], upper=ends[1]))
        size = float(lengths.masses @ (lengths.reach + 1.0) ** 2 + lengths.moments.sum())
        n = self.postures.robot.nv
        entry = _OPERATIONS * (n + 1) * 2.0 * UNIT * size + UNIT * float(
            np.abs(self.contorsion).max(initial=0.0)
        )
        return float(n**1.5 * entry)

    def middle(self) -> np.ndarray:
        """(m,) the middle of the box; slides without limits have none, and raise an error."""
        low, high = self.postures.lower, self.postures.upper
        for i in np.flatnonzero(~np.isfinite(high - low)):
            if self.depends[i]:
                raise ModelError(
                    f"component {self.postures.components[i]} of v is a slide without limits: C has no bound"
                )
        return self.postures.held(np.zeros(len(low), dtype=bool)).lower

    def interval(self, best: Peaks, top: float, boxes: int, reached: str) -> Interval:
        """The interval of k_C, with the round-off of the samples."""
        q = self.postures.within_limits(best.points[0])
        error = self.error
        upper = max(top, best.value) * (1.0 + 1e-12) + error
        return Interval(max(0.0, best.value - error), upper, "", q, boxes, reached)

    def climbed(
        self, tried: int = _TRIED, kept: int = _KEPT, seed: int = 1, deadline: float = np.inf
    ) -> Peaks:
        """Values that ascent from random postures attains by a deadline: in turns z, v, y and coordinates."""
        axes = np.flatnonzero(self.depends)
        low, high = self.postures.lower, self.postures.upper
        rng = np.random.default_rng(seed)
        points = np.repeat(self.middle()[None], tried if len(axes) else 1, axis=0)
        points[:, axes] = rng.uniform(low[axes], high[axes], (len(points), len(axes)))
        tensors = self.at(points)
        order = np.argsort(-frobenius(tensors))[: 30 * kept]
        sizes, _ = attained(tensors[order], 2, 15)
        order = order[np.argsort(-sizes)[:kept]]
        return self.climbed_from(points[order], *attained(tensors[order]), deadline)

    def climbed_from(
        self, points: np.ndarray, sizes: np.ndarray, vectors: Directions, deadline: float = np.inf
    ) -> Peaks:
        """The values that ascent from points (P, m) and unit vectors attains."""
        low, high = self.postures.lower, self.postures.upper
        grid = np.linspace(-0.5, 0.5, 17)
        for turn in range(24):
            before = sizes.max()
            for i in np.flatnonzero(self.depends):
                if time.monotonic() > deadline:
                    break
                at = np.repeat(points[:, None], len(grid), axis=1)
                moved = at[:, :, i] + grid * (high[i] - low[i]) * 0.6**turn
                at[:, :, i] = np.clip(moved, low[i], high[i])
                tensors = self.at(at.reshape(-1, len(low))).reshape(*at.shape[:2], *self.contorsion.shape)
                values = np.einsum("pgijk,pi,pj,pk->pg", tensors, *vectors, optimize=True)
                points = at[np.arange(len(at)), np.abs(values).argmax(axis=1)]
            sizes, vectors = attained(self.at(points), 0, 6, given=vectors[1:])
            still = turn > 12 and sizes.max() <= before * (1.0 + 1e-12)
            if still or time.monotonic() > deadline:
                break
        order = np.argsort(-sizes)
        z, v, y = (vector[order] for vector in vectors)
        return Peaks(sizes[order], points[order], (z, v, y))


@dataclass(frozen=True, eq=False)
class _Limb:
    """Gamma_0 + L (Gamma(q_l) - Gamma_0) as a function of the coordinates of a limb, (m_l,) of L limbs."""

    symbols: Symbols
    axes: np.ndarray
    middle: np.ndarray
    count: int

    def at(self, points: np.ndarray) -> np.ndarray:
        """(P, n, n, n) at points (P, m_l)."""
        whole = np.repeat(self.middle[None], len(points), axis=0)
        whole[:, self.axes] = points
        tensors = self.symbols.at(whole)
        if self.count == 1:
            return tensors
        rest = self.symbols.at(self.middle[None])
        term: np.ndarray = rest + self.count * (tensors - rest)
        return term


@dataclass(frozen=True, eq=False)
class _Box:
    """Intervals (m,), and control values (k_1, ..., k_m, n, n, n) whose hull, with `pad` around it, has f."""

    low: np.ndarray
    high: np.ndarray
    values: np.ndarray  # empty: too large to be kept, and computed again
    pad: float
    worst: tuple[int, ...] | None = None  # of the control values
    tried: bool = False  # whether gauges were sought for its control values
    means: tuple[int, ...] = ()  # axes of whole turns that were replaced by their means
    of_means: float = 0.0  # what this has added to `pad`


@dataclass(eq=False)
class _SymbolSearch:
    """Branch and bound of sup |f| over a limb's coordinates, above `lower`, which is attained."""

    limb: _Limb
    lower: float
    rtol: float
    heap: list[tuple[float, int, _Box]] = field(default_factory=list)
    gauges: list[Gauge] = field(default_factory=list)
    boxes: int = 0
    pushed: int = 0
    deadline: float = np.inf
    closed: float = 0.0  # the largest bound of boxes that need no cut
    taken: float = np.inf  # a bound of boxes that are not in the heap yet, at first of all
    known: float = np.inf  # a bound of all boxes

    def __post_init__(self) -> None:
        postures, axes = self.limb.symbols.postures, self.limb.axes
        self.slides, self.low, self.high = postures.slides[axes], postures.lower[axes], postures.upper[axes]
        self.n = postures.robot.nv

    @property
    def top(self) -> float:
        """The proved end."""
        return min(self.known, max(self.closed, self.taken, -self.heap[0][0] if self.heap else 0.0))

    @property
    def enough(self) -> float:
        """An end that a bound need not fall below."""
        return self.lower / (1.0 - min(self.rtol, 0.99))

    def run(self, deadline: float, ticks: Callable[[float], Any]) -> str:
        """Cut boxes until none is left that matters, or the time is over; the reason why it stopped."""
        self.deadline = deadline
        self.begin()
        while self.heap and self.top > self.enough:
            if time.monotonic() > deadline:
                return "time"
            self.taken = -self.heap[0][0]
            _, _, box = heapq.heappop(self.heap)
            box = self.remembered(box)
            if not box.tried:
                self.push(replace(box, tried=True))
                self.taken = 0.0
                continue
            axis = self.steepest(box)
            if axis is None:
                self.closed = max(self.closed, self.bound(box)[0])
                self.taken = 0.0
                return "floor"
            self.look((box.low + box.high) / 2.0)
            for half in self.halved(box, axis):
                self.push(half)
            self.taken = 0.0
            ticks(min(1.0, self.lower * self.rtol / max(self.top - self.lower, 1e-300)))
        return "time" if self.top > self.enough else "gap"

    def begin(self) -> None:
        """Sample f, and cut the first boxes, axes that matter most first, until the rest is small."""
        places = [nodes(*ends) for ends in zip(self.slides, self.low, self.high, strict=True)]
        counts = [len(p) for p in places]
        if np.prod(counts, dtype=float) * self.n**3 > LARGEST:
            raise ModelError(
                f"one limb has {len(counts)} coordinates: {np.prod(counts, dtype=float):.3g} control "
                f"values of {self.n}^3 numbers are too many"
            )
        points = np.array(list(itertools.product(*places))).reshape(int(np.prod(counts)), len(places))
        values = self.limb.at(points).reshape(*counts, self.n, self.n, self.n)
        if self.limb.count > 1 or self.lower == 0.0:
            sample = values.reshape(-1, self.n, self.n, self.n)
            sample = sample[np.argsort(-frobenius(sample))[:20]]
            self.lower = max(self.lower, float(attained(sample, 4, 30)[0].max()) * (1.0 - 1e-12))
        self.places, self.samples = places, values
        # Of control values: of samples, which a matrix along each axis makes larger, and of its products.
        largest = float(frobenius(_rows(values, self.n)).max())
        self.error = AMPLIFICATION ** len(counts) * (
            2.0 * self.limb.count * self.limb.symbols.error + 60.0 * len(counts) * UNIT * largest
        )
        spread = [
            frobenius(_rows(np.ptp(values, axis=i, keepdims=True), self.n)).max() for i in range(len(counts))
        ]
        order = [int(axis) for axis in np.argsort(spread)[::-1]]
        self.uncut(values, order)
        if time.monotonic() > self.deadline:
            return
        # A gauge of the largest sample bounds the first boxes, even if it is not the best one.
        rows, now = _rows(values, self.n), time.monotonic()
        worst = rows[np.argmax(frobenius(rows))]
        gauge, _ = best_gauge(worst, self.enough, None, now + 0.2 * (self.deadline - now))
        self.gauges = self.gauges if gauge is None else [gauge]
        if self.spread_out(_Box(self.low, self.high, values, 0.0), order):
            self.taken = 0.0

    def uncut(self, values: np.ndarray, order: list[int]) -> None:
        """Bound f at all postures by samples of whole turns: along the last axes, of means and distances."""
        pad, end = 0.0, np.inf
        for left in range(len(order), -1, -1):
            end = min(end, pad + float(frobenius(_rows(values, self.n)).max()) * LEBESGUE**left)
            if left:
                mean = values.mean(axis=order[left - 1], keepdims=True)
                pad += float(frobenius(_rows(values - mean, self.n)).max()) * LEBESGUE**left
                values = mean
        self.known = end + self.error

    def spread_out(self, box: _Box, left: list[int]) -> bool:
        """Cut the axes `left`, whose values are still samples of whole turns, unless they are negligible.

        False if the time is over before all are cut.
        """
        means = box.values
        pad = 0.0
        for axis in left:
            mean = means.mean(axis=axis, keepdims=True)
            far = frobenius(_rows(means - mean, self.n)).max() * LEBESGUE ** len(left)
            pad, means = pad + float(far), mean
            if self.slides[axis] or pad > self.budget * len(left):
                break
        else:
            self.push(_Box(box.low, box.high, means, pad, means=tuple(left), of_means=pad))
            return True
        axis = left[0]
        for a, b in cells(bool(self.slides[axis]), self.low[axis], self.high[axis]):
            if time.monotonic() > self.deadline:
                return False
            values = along(to_control(bool(self.slides[axis]), a, b), box.values, axis)
            cell = _Box(_with(box.low, axis, a), _with(box.high, axis, b), values, box.pad)
            if not self.spread_out(cell, left[1:]):
                return False
        return True

    @property
    def budget(self) -> float:
        """An amount that may be added for an axis that is not cut."""
        return 0.15 * self.rtol * self.lower / max(1, len(self.low))

    def push(self, box: _Box) -> None:
        """Bound a box, by known gauges or, if it is `tried`, by new ones; keep it if it has to be cut."""
        thinned = self.thinned(box)
        bound, worst = self.bound(thinned)
        self.boxes += not box.tried
        if bound > self.enough:
            kept = thinned if thinned.values.size <= _REMEMBERED else replace(box, values=np.zeros(0))
            self.pushed += 1
            heapq.heappush(self.heap, (-bound, self.pushed, replace(kept, worst=worst)))
        else:
            self.closed = max(self.closed, bound)

    def remembered(self, box: _Box) -> _Box:
        """The box with its control values."""
        if box.values.size:
            return box
        values = self.samples
        for axis in box.means:
            values = values.mean(axis=axis, keepdims=True)
        for axis in set(range(len(self.low))) - set(box.means):
            ends = box.low[axis], box.high[axis]
            values = along(to_control(bool(self.slides[axis]), *ends, self.places[axis]), values, axis)
        return self.thinned(replace(box, values=values, pad=box.of_means))

    def thinned(self, box: _Box) -> _Box:
        """The box with fewer control values along axes where all are close to the middle one, or a line."""
        values, pad = box.values, box.pad
        for axis in range(len(self.low)):
            k = values.shape[axis]
            if k < 3:
                continue
            line = _line(values, axis)
            for kept in ([k // 2], [0, k - 1]):
                weights = np.full((k, 1), 1.0) if len(kept) == 1 else np.linspace([1.0, 0.0], [0.0, 1.0], k)
                if frobenius(line - np.tensordot(weights, line[kept], axes=1)).max() > self.budget:
                    continue
                ends = np.take(values, kept, axis=axis)
                far = float(frobenius(_rows(values - along(weights, ends, axis), self.n)).max())
                if far <= self.budget:
                    values, pad = ends, pad + far
                    break
        return replace(box, values=values, pad=pad)

    def bound(self, box: _Box) -> tuple[float, tuple[int, ...]]:
        """A proved upper end of |f| over the box, not sharp below `enough`; the index of the worst value."""
        rows = _rows(box.values, self.n)
        above, enough = frobenius(rows), self.enough - box.pad
        live = np.flatnonzero(above > enough)
        known = self.gauges[: -_GAUGES - 1 : -1] or [Gauge(np.zeros((self.n**2,) * 2), (self.n, self.n))]
        for tried in range(len(known) + _NEW_GAUGES * box.tried):
            if not len(live):
                break
            if tried >= len(known) or (tried == 1 and box.tried):
                worst = rows[live[np.argmax(above[live])]]
                if attained(worst[None], 2, 12)[0][0] > enough:
                    break  # no gauge helps: the box has to be cut
            gauge = known[tried] if tried < len(known) else self.new_gauge(worst, enough)
            if gauge is None or (tried and time.monotonic() > self.deadline):
                break
            above[live] = np.minimum(above[live], gauge.bounds(rows[live], enough))
            live = live[above[live] > enough]
        at = np.unravel_index(int(np.argmax(above)), box.values.shape[:-3])
        bound = float(above.max()) + box.pad * (1.0 + 1e-9) + self.error
        return bound, tuple(int(i) for i in at)

    def new_gauge(self, tensor: np.ndarray, enough: float) -> Gauge | None:
        """A gauge that bounds a tensor (n, n, n) by `enough`; None if none was found."""
        known = self.gauges[-1].N if self.gauges else None
        gauge, size = best_gauge(tensor, enough, known, self.deadline)
        if gauge is None or size > enough:
            return None
        self.gauges = [*self.gauges[1 - 4 * _GAUGES :], gauge]
        return gauge

    def steepest(self, box: _Box) -> int | None:
        """The axis along which control values bend most; None if none can be halved."""
        best, found = 0.0, None
        for axis, k in enumerate(box.values.shape[:-3]):
            if k < 3 or not box.low[axis] < (box.low[axis] + box.high[axis]) / 2.0 < box.high[axis]:
                continue
            bend = 0.0
            for at in (None, box.worst):
                line = _line(box.values, axis, at)
                one, two = np.diff(line, axis=0), np.diff(line, 2, axis=0)
                bend += float(np.linalg.norm(two) + 0.3 * np.linalg.norm(one))
            if bend > best:
                best, found = bend, axis
        return found

    def halved(self, box: _Box, axis: int) -> list[_Box]:
        """The two halves of a box along an axis."""
        a, b = box.low[axis], box.high[axis]
        middle = (a + b) / 2.0
        first, second = halves(bool(self.slides[axis]), b - a)
        return [
            replace(
                box, tried=False, high=_with(box.high, axis, middle), values=along(first, box.values, axis)
            ),
            replace(
                box, tried=False, low=_with(box.low, axis, middle), values=along(second, box.values, axis)
            ),
        ]

    def look(self, point: np.ndarray) -> None:
        """Raise the lower end of one limb's term by its value at a point, where there are several."""
        if self.limb.count > 1:
            self.lower = max(
                self.lower, float(attained(self.limb.at(point[None]), 2, 20)[0][0]) * (1.0 - 1e-12)
            )


def _rows(values: np.ndarray, n: int) -> np.ndarray:
    """Arrays (..., n, n, n) as (N, n, n, n)."""
    return values.reshape(-1, n, n, n)


def _line(values: np.ndarray, axis: int, through: tuple[int, ...] | None = None) -> np.ndarray:
    """(k, n, n, n) the values along an axis through an index, or through the middle of the others."""
    at: list[Any] = [k // 2 for k in values.shape[:-3]]
    if through is not None:  # of an array whose axes may have been longer
        at = [min(i, k - 1) for i, k in zip(through, values.shape[:-3], strict=True)]
    at[axis] = slice(None)
    line: np.ndarray = values[tuple(at)]
    return line


def _with(ends: np.ndarray, axis: int, value: float) -> np.ndarray:
    changed = ends.copy()
    changed[axis] = value
    return changed
