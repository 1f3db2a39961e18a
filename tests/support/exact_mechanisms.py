"""Random mechanisms with rational coordinates, and their ranks and motions in exact arithmetic.

A rotation is written by its Rodrigues vector r = tan(angle / 2) axis, R = 1 + 2 ([r] + [r]^2) / (1 + |r|^2),
which is rational if r is. So every pose is, and so is K, the derivative of the conditions. The numbers are
computed in the field of 2^61 - 1 elements, into which rationals are mapped: what vanishes remains zero, and
what does not becomes zero by chance once in 10^18.

A reference is regular if all velocities that K leaves are motions. A velocity x_1 is one if x_1 s + x_2 s^2 +
... exists, along which the loops remain closed: every order asks for K x_k = a known side, solvable or not.
One random x_1 decides for all of them: those that can be continued form an algebraic set.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from connections import multibody as mb
from connections.multibody.graph import cluster_bodies

P = 2**61 - 1
ORDER = 6  # of the series; of 2,000 mechanisms, those that cannot move are found at order 2 or 3, one at 5


# --- rationals --------------------------------------------------------------------------------------------


def fractions(values):
    """An array of `Fraction`."""
    return np.vectorize(Fraction, otypes=[object])(np.asarray(values, dtype=object))


def skew(r):
    """[r] (..., 3, 3)."""
    zero = r[..., 0] * 0
    rows = [[zero, -r[..., 2], r[..., 1]], [r[..., 2], zero, -r[..., 0]], [-r[..., 1], r[..., 0], zero]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


EYE = fractions(np.eye(4, dtype=int))


def pose(position=(0, 0, 0), rodrigues=(0, 0, 0)):
    """(4, 4) of a position and a Rodrigues vector."""
    r, T = fractions(rodrigues), EYE.copy()
    T[:3, :3] += 2 * (skew(r) + skew(r) @ skew(r)) / (1 + r @ r)
    T[:3, 3] = fractions(position)
    return T


def inverse(T):
    """Of a rigid transform (4, 4)."""
    result = T.copy()
    result[:3, :3] = T[:3, :3].T
    result[:3, 3] = -(result[:3, :3] @ T[:3, 3])
    return result


def decimal(T):
    """In float64."""
    return np.array(T, dtype=float)


# --- the field, and series in it --------------------------------------------------------------------------


def embedded(values):
    """Rationals in the field."""
    return np.vectorize(lambda x: x.numerator * pow(x.denominator, -1, P) % P, otypes=[object])(values)


def times(a, b):
    """The product of two matrix series (order + 1, n, n)."""
    return np.array([sum(a[i] @ b[k - i] for i in range(k + 1)) % P for k in range(len(a))], dtype=object)


def inverse_series(T):
    """The inverse of a series (order + 1, 4, 4) of rigid transforms: R^T after the way back."""
    back, turned = constant(EYE, len(T) - 1), np.zeros(T.shape, dtype=object)
    back[:, :3, 3] = -T[:, :3, 3]
    turned[:, :3, :3] = np.swapaxes(T[:, :3, :3], 1, 2)
    turned[0, 3, 3] = 1
    return times(turned, back)


def constant(T, order):
    """A matrix as a series."""
    series = np.zeros((order + 1, 4, 4), dtype=object)
    series[0] = embedded(T)
    return series


def reciprocal(a):
    """1 / a of a series (order + 1,) that begins with 1."""
    result = np.zeros(len(a), dtype=object)
    result[0] = 1
    for k in range(1, len(a)):
        result[k] = -sum(a[i] * result[k - i] for i in range(1, k + 1)) % P
    return result


def small_motion(turn, slide):
    """The pose (order + 1, 4, 4) of a Rodrigues vector and a position (order + 1, 3), both zero at first."""
    order = len(turn) - 1
    cross = np.zeros((order + 1, 4, 4), dtype=object)
    cross[:, :3, :3] = skew(turn)
    square = np.zeros(order + 1, dtype=object)
    for k in range(order + 1):
        square[k] = sum(turn[i] @ turn[k - i] for i in range(k + 1)) % P
    square[0] += 1
    scale = np.zeros((order + 1, 4, 4), dtype=object)
    scale[:] = reciprocal(square)[:, None, None] * np.eye(4, dtype=int).astype(object)
    T = times(scale, 2 * (cross + times(cross, cross)))
    T[0] += np.eye(4, dtype=int).astype(object)
    T[:, :3, 3] = slide
    return T % P


def reduced(K):
    """The reduced row echelon form of K (p, n), and the columns of its pivots."""
    K, pivots = K.copy() % P, []
    for column in range(K.shape[1]):
        rows = np.flatnonzero(K[len(pivots) :, column])
        if len(rows):
            top, row = len(pivots), len(pivots) + rows[0]
            K[[top, row]] = K[[row, top]]
            K[top] = K[top] * pow(int(K[top, column]), -1, P) % P
            others = np.arange(len(K)) != top
            K[others] = (K[others] - np.outer(K[others, column], K[top])) % P
            pivots.append(column)
            if len(pivots) == len(K):
                break
    return K, pivots


def rank(K):
    """Of K (p, n)."""
    return len(reduced(K)[1]) if K.size else 0


# --- mechanisms -------------------------------------------------------------------------------------------

ZERO = (0, 0, 0)


@dataclass
class ExactJoint:
    """A joint with rational geometry, at rest at its reference."""

    name: str
    parent: int  #: number of a body, -1 the world
    joint: mb.joints.Joint
    placement: np.ndarray
    start: np.ndarray  #: (nq,) the float configuration in the reference
    steps: list  #: (pose (4, 4) before, turning axes (3, k), sliding axes (3, k)) of each element

    @property
    def nv(self):
        return sum(turns.shape[1] for _, turns, _ in self.steps)


def turn(name, parent, axis, placement, tangent=0):
    """A hinge at the angle 2 atan(tangent |axis|)."""
    axis = fractions(axis)
    angle = 2.0 * np.arctan(float(tangent) * np.linalg.norm(decimal(axis)))
    steps = [(pose(rodrigues=axis * tangent), axis[:, None], fractions(np.zeros((3, 1), int)))]
    return ExactJoint(name, parent, mb.Revolute(decimal(axis)), placement, np.array([angle]), steps)


def slide(name, parent, axis, placement, reach=0):
    """A slide at `reach` times its axis."""
    axis = fractions(axis)
    start = float(reach) * np.linalg.norm(decimal(axis))
    steps = [(pose(axis * reach), fractions(np.zeros((3, 1), int)), axis[:, None])]
    return ExactJoint(name, parent, mb.Prismatic(decimal(axis)), placement, np.array([start]), steps)


def cross(name, parent, first, second, placement, tangents=(0, 0)):
    """A universal joint."""
    hinges = [turn(name, parent, axis, EYE, t) for axis, t in zip((first, second), tangents, strict=True)]
    joint = mb.Universal(*(decimal(fractions(axis)) for axis in (first, second)))
    start = np.concatenate([hinge.start for hinge in hinges])
    return ExactJoint(name, parent, joint, placement, start, [hinge.steps[0] for hinge in hinges])


def ball(name, parent, placement, rodrigues=ZERO, position=None):
    """A ball joint; with a position, a free joint."""
    r = decimal(fractions(rodrigues))
    quaternion = np.append(r, 1.0) / np.sqrt(1.0 + r @ r)
    eye, none = fractions(np.eye(3, dtype=int)), fractions(np.zeros((3, 3), int))
    if position is None:
        steps = [(pose(rodrigues=rodrigues), eye, none)]
        return ExactJoint(name, parent, mb.Spherical(), placement, quaternion, steps)
    both = np.hstack([eye, none]), np.hstack([none, eye])
    start = np.concatenate([decimal(fractions(position)), quaternion])
    return ExactJoint(name, parent, mb.Free(), placement, start, [(pose(position, rodrigues), *both)])


@dataclass
class ExactMechanism:
    """A mechanism whose loops close exactly where its joints are drawn."""

    joints: list = field(default_factory=list)
    loops: list = field(default_factory=list)  #: (closure, body_a, body_b, placement_a, placement_b)
    kind: str = ""

    def add(self, joint):
        """Add a joint and the body that it moves; its number."""
        self.joints.append(joint)
        return len(self.joints) - 1

    def worlds(self):
        """The poses of the bodies where they are drawn, and of the world, the last one."""
        T = []
        for joint in self.joints:
            at = (T[joint.parent] if joint.parent >= 0 else EYE) @ joint.placement
            for before, _, _ in joint.steps:
                at = at @ before
            T.append(at)
        return [*T, EYE]

    def close(self, closure, a, b, where, relative=None):
        """A loop whose frame a is at the pose `where` in the world, and frame b at `relative` in frame a."""
        T = self.worlds()
        at_b = where if relative is None else where @ relative
        self.loops.append((closure, a, b, inverse(T[a]) @ where, inverse(T[b]) @ at_b))

    def built(self, reference=None):
        """The package's model of it, assembled where it is drawn, or at another reference."""
        made, rng = mb.Mechanism(), np.random.default_rng(0)
        for joint in self.joints:
            made.add_body(f"{joint.name}.", 1.0, rng.uniform(-0.1, 0.1, 3), np.eye(3) / 50)
        names = [f"{joint.name}." for joint in self.joints] + ["world"]
        for joint in self.joints:
            place = decimal(joint.placement)
            made.add_joint(joint.name, names[joint.parent], f"{joint.name}.", joint.joint, place)
        for number, (closure, a, b, at_a, at_b) in enumerate(self.loops):
            made.add_loop(f"loop {number}", names[a], names[b], closure, decimal(at_a), decimal(at_b))
        return made.build(reference=reference or {joint.name: joint.start for joint in self.joints})

    # --- exact ---------------------------------------------------------------------------------------------

    @property
    def columns(self):
        """The number of the joint of each velocity."""
        return np.repeat(np.arange(len(self.joints)), [joint.nv for joint in self.joints])

    def residuals(self, x):
        """The conditions of each loop, (order + 1, k), along the velocities x (order + 1, n)."""
        order, start, T = len(x) - 1, 0, []
        for joint in self.joints:
            at = constant(joint.placement, order)
            if joint.parent >= 0:
                at = times(T[joint.parent], at)
            for before, turns, slides in joint.steps:
                own = x[:, start : start + turns.shape[1]]
                start += turns.shape[1]
                motion = small_motion(own @ embedded(turns).T % P, own @ embedded(slides).T % P)
                at = times(times(at, constant(before, order)), motion)
            T.append(at)
        T.append(constant(EYE, order))
        return [
            conditions(closure, times(inverse_series(times(T[a], constant(at_a, order))),
                                      times(T[b], constant(at_b, order))))
            for closure, a, b, at_a, at_b in self.loops
        ]  # fmt: skip

    def derivative(self):
        """K (k, n) of each loop."""
        n = len(self.columns)
        columns = []
        for j in range(n):
            x = np.zeros((2, n), dtype=object)
            x[1, j] = 1
            columns.append([phi[1] for phi in self.residuals(x)])
        return [np.stack(rows, axis=1) for rows in zip(*columns, strict=True)]

    def clusters(self):
        """For each cluster that has loops: its joints and its loops."""
        parents = np.array([joint.parent for joint in self.joints])
        supports = [set() for _ in range(len(parents) + 1)]
        for body, parent in enumerate(parents):
            supports[body] = {body} | (supports[parent] if parent >= 0 else set())
        ties = [sorted(supports[a] ^ supports[b]) for _, a, b, _, _ in self.loops]
        of_body = cluster_bodies(parents, ties)[0]
        found = {}
        for number, tie in enumerate(ties):
            found.setdefault(of_body[tie[0]], []).append(number)
        return [(np.flatnonzero(of_body == cluster), loops) for cluster, loops in found.items()]

    def truth(self, rng):
        """For each cluster: its joints, K (p, n), mobility, and whether all velocities are motions."""
        K, columns, found = self.derivative(), self.columns, []
        for members, loops in self.clusters():
            own = np.flatnonzero(np.isin(columns, members))
            block = np.concatenate([K[loop] for loop in loops])[:, own]
            mobility = len(own) - rank(block)
            found.append(Truth(members, columns[own], block, mobility, self._moves(own, loops, block, rng)))
        return found

    def _moves(self, own, loops, K, rng):
        """Whether a random velocity of the kernel of K is one of a motion."""
        x = np.zeros((ORDER + 1, len(self.columns)), dtype=object)
        R, pivots = reduced(K)
        free = np.setdiff1d(np.arange(K.shape[1]), pivots)
        if not len(free):
            return True
        first = np.zeros(K.shape[1], dtype=object)
        first[free] = [int(number) for number in rng.integers(1, P, len(free))]
        first[pivots] = -(R[: len(pivots), free] @ first[free]) % P
        x[1, own] = first
        for k in range(2, ORDER + 1):
            phi = self.residuals(x[: k + 1])
            right = -np.concatenate([phi[loop][k] for loop in loops]) % P
            R, pivots = reduced(np.column_stack([K, right]))
            if K.shape[1] in pivots:
                return False
            x[k, own[pivots]] = R[: len(pivots), -1]
        return True


@dataclass
class Truth:
    """What is true of a cluster."""

    members: np.ndarray  #: its joints
    joints: np.ndarray  #: (n,) the joint of each column
    K: np.ndarray
    mobility: int
    moves: bool  #: whether all velocities that K leaves are motions

    def determined(self, independent):
        """Whether these joints determine the others."""
        dependent = ~np.isin(self.joints, independent)
        count = int(dependent.sum())
        return count == len(self.joints) - self.mobility == rank(self.K[:, dependent])

    def choices(self):
        """All sets of whole joints that determine the others."""
        sets = (
            free
            for size in range(1, len(self.members) + 1)
            for free in itertools.combinations(self.members, size)
        )
        return (free for free in sets if self.determined(free))

    @property
    def verdict(self):
        """In a word."""
        if not self.moves:
            return "singular"
        if self.mobility == 0:
            return "over-constrained"
        return "built" if next(self.choices(), None) is not None else "whole joints"


def conditions(closure, D):
    """Conditions (order + 1, k) of the pose D of frame b in frame a; more of them than needed."""
    R, r = D[:, :3, :3], D[:, :3, 3]
    turned = np.stack([R[:, 2, 1] - R[:, 1, 2], R[:, 0, 2] - R[:, 2, 0], R[:, 1, 0] - R[:, 0, 1]], axis=1)
    match closure:
        case mb.Coincident() | mb.Spherical():
            parts = [r]
        case mb.Fixed():
            parts = [r, turned]
        case mb.Revolute():  # about z
            parts = [r, R[:, :2, 2]]
        case mb.Prismatic():
            parts = [r[:, :2], turned]
        case mb.Cylindrical():
            parts = [r[:, :2], R[:, :2, 2]]
        case mb.Universal():  # about x and y
            parts = [r, R[:, 0, 1:2]]
        case mb.Planar():
            parts = [r[:, 2:], R[:, :2, 2]]
        case mb.Distance():
            square = [sum(r[i] @ r[k - i] for i in range(k + 1)) % P for k in range(len(r))]
            parts = [np.array(square, dtype=object)[:, None]]
            parts[0][0] = 0
    return np.concatenate(parts, axis=1) % P


# --- random ones ------------------------------------------------------------------------------------------

X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
TANGENTS = [Fraction(*pair) for pair in ((0, 1), (1, 2), (-1, 2), (1, 3), (-1, 3), (1, 1), (-2, 1), (1, 5))]
CLOSURES = [
    mb.Coincident(),
    mb.Fixed(),
    mb.Revolute(Z),
    mb.Prismatic(Z),
    mb.Cylindrical(Z),
    mb.Universal(X, Y),
]
STYLES = ("general", "planar", "flat", "straight", "concurrent")
RODS = ("distance", "ball", "spin", "cross")


def pick(rng, values):
    """One of them."""
    return values[int(rng.integers(len(values)))]


def tangents(rng):
    """Three of `TANGENTS`."""
    return [pick(rng, TANGENTS) for _ in range(3)]


def quarters(rng, least=-4, most=4, size=3):
    """Multiples of a quarter."""
    return [Fraction(int(number), 4) for number in rng.integers(least, most + 1, size)]


def direction(rng):
    """A vector of small integers."""
    while not any(vector := [int(number) for number in rng.integers(-1, 2, 3)]):
        pass
    return vector


def any_pose(rng):
    """A rational pose of no particular kind."""
    return pose(quarters(rng), [Fraction(int(number), 3) for number in rng.integers(-3, 4, 3)])


def enlarged(T, size):
    """The pose (4, 4) with its position times a number."""
    result = T.copy()
    result[:3, 3] *= size
    return result


def drawn_joint(rng, style, name, parent, place):
    """A joint of a chain of this style, and the pose of the next one."""
    sliding, tangent = rng.random() < 0.15, pick(rng, TANGENTS)
    if style == "planar":
        kind, axis = (slide, pick(rng, (X, Y, (1, 1, 0), (1, -1, 0)))) if sliding else (turn, Z)
        return kind(name, parent, axis, place, tangent), pose([*quarters(rng, size=2), 0])
    if style == "flat":  # all hinges on one line, across them
        joint = slide(name, parent, X, place) if sliding else turn(name, parent, Z, place)
        return joint, pose([*quarters(rng, 1, size=1), 0, 0])
    if style == "straight":  # all hinges on one line, some along it
        return turn(name, parent, pick(rng, (X, Y, Z)), place), pose([0, 0, *quarters(rng, 1, size=1)])
    if style == "concurrent":  # all axes through one point
        return turn(name, parent, direction(rng), place, tangent), pose(ZERO, tangents(rng))
    step, kind = any_pose(rng) if rng.random() < 0.6 else pose(quarters(rng)), rng.random()
    if sliding:
        return slide(name, parent, direction(rng), place, tangent), step
    if kind < 0.15:
        return cross(name, parent, X, Y, place, (tangent, pick(rng, TANGENTS))), step
    if kind < 0.25:
        return ball(name, parent, place, tangents(rng)), step
    return turn(name, parent, direction(rng), place, tangent), step


def grow(rng, made, count, style, place, size):
    """A chain from the world, whose first joint is at `place`, and its last body.

    Distances between joints are multiples of a quarter of `size`. Some hinges are doubled, on one axis.
    """
    parent = -1
    for _ in range(count):
        joint, step = drawn_joint(rng, style, f"j{len(made.joints)}", parent, place)
        parent = made.add(joint)
        if rng.random() < 0.12 and isinstance(joint.joint, mb.Revolute):
            axis = joint.steps[0][1][:, 0]
            parent = made.add(turn(f"j{len(made.joints)}", parent, axis, EYE, pick(rng, TANGENTS)))
        place = enlarged(step, size)
    return parent


def add_rod(rng, made, a, b, start, end, kind):
    """A rod from a point of body a to one of body b, (3,) in the world.

    It is a distance, or a body on a ball, a universal joint ("cross"), or one with a hinge along the rod
    behind it ("spin"), whose end is pinned to b.
    """
    name, along = f"rod{len(made.joints)}", end - start
    if kind == "distance":
        made.close(mb.Distance(np.sqrt(float(along @ along))), a, b, pose(start), pose(along))
        return
    place = inverse(made.worlds()[a]) @ pose(start, tangents(rng))
    if kind == "ball":
        rod = made.add(ball(name, a, place, tangents(rng)))
    else:
        axes = pick(rng, ((X, Y), (Y, Z)))
        rod = made.add(cross(name, a, *axes, place, tangents(rng)[:2]))
    if kind == "spin":
        axis = inverse(made.worlds()[rod])[:3, :3] @ along
        rod = made.add(turn(f"{name}s", rod, axis, EYE, pick(rng, TANGENTS)))
    made.close(pick(rng, (mb.Coincident(), mb.Spherical())), rod, b, pose(end))


def platform(rng):
    """A free plate on rods, which may be parallel."""
    made = ExactMechanism(kind="platform")
    turned = ZERO if rng.random() < 0.5 else [pick(rng, TANGENTS)] * 3
    plate = made.add(ball("plate", -1, EYE, turned, [*quarters(rng, -1, 1, 2), 1]))
    parallel, kind = rng.random() < 0.5, pick(rng, RODS)
    for _ in range(int(rng.integers(2, 6))):
        corner = (made.worlds()[plate] @ fractions([*quarters(rng), 1]))[:3]
        along = [0, 0, 1] if parallel else [*quarters(rng, -2, 2, 2), 1]
        add_rod(rng, made, -1, plate, corner - fractions(along), corner, kind)
    return made


def random_mechanism(rng):
    """One or two chains that meet, of any of `STYLES`, with rods between their bodies; or a platform.

    Some chains are a thousand metres away, without rods to the world, or a hundred times smaller than others.
    """
    if rng.random() < 0.2:
        return platform(rng)
    style = pick(rng, STYLES)
    made = ExactMechanism(kind=style)
    away, size = pick(rng, (1, 1, 1, 1000)), pick(rng, (1, 1, Fraction(1, 100)))
    base = enlarged(any_pose(rng), away)
    tip, other = grow(rng, made, int(rng.integers(3, 8)), style, base, size), -1
    if rng.random() < 0.4:
        place = made.worlds()[tip] @ pose(quarters(rng)) if style == "general" else base @ pose([1, 0, 0])
        other_style = style if rng.random() < 0.7 else "general"
        other = grow(rng, made, int(rng.integers(1, 4)), other_style, place, pick(rng, (1, 1, size)))
    if rng.random() < 0.8:
        closure, end, relative = pick(rng, CLOSURES), any_pose(rng), None
        if style in ("planar", "flat"):
            closure = pick(rng, [mb.Coincident(), mb.Revolute(Z), mb.Fixed()])
            end = pose([*quarters(rng, 1, size=1), *(quarters(rng, size=1) if style == "planar" else [0]), 0])
            relative = pose(ZERO, [0, 0, pick(rng, TANGENTS)]) if isinstance(closure, mb.Revolute) else None
        elif style == "straight":
            end = pose([0, 0, *quarters(rng, 1, size=1)])
        elif style == "concurrent":
            end = pose(ZERO, tangents(rng))
        made.close(closure, other, tip, made.worlds()[tip] @ end, relative)
    while not made.loops or rng.random() < 0.25:
        a, b = (int(body) for body in rng.choice(len(made.joints) + 1, 2, replace=False) - 1)
        if away > 1 and min(a, b) < 0:
            continue
        ends = [(made.worlds()[body] @ fractions([*quarters(rng), 1]))[:3] for body in (a, b)]
        if (ends[0] != ends[1]).any():
            add_rod(rng, made, a, b, *ends, pick(rng, RODS))
            made.kind += " with a rod"
    return made
