"""Symmetric products and Lie brackets of vector fields, iterated to any order, at a point.

    <X : Y> = nabla_X Y + nabla_Y X = X^j L_j Y + Y^j L_j X + (Gamma_jk + Gamma_kj) X^j Y^k

Products of input fields are words of the free algebra in which <X : Y> = <Y : X> and nothing else holds: each
word stands once. A word is *bad* if it is a symmetric product that contains every input an even number of
times, and otherwise good. Source: [LM].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.connection import AffineConnection
from connections.affine.distributions import DistributionFrame
from connections.control.controllability.expansion import Expansion
from connections.control.controllability.taylor import TaylorAlgebra, taylor_algebra
from connections.control.controllability.units import Units, steps_of, units_near
from connections.geometry.frames import ChangedFrame, FrameField, PointFunction
from connections.geometry.metrics import Metric
from connections.geometry.parameters import derived

Array = np.ndarray[Any, Any]
Sized = list[tuple[Array, Array]]
_KEPT = 12  # expansions of a connection kept, each for a point and an order
_FLOOR = 1e-2  # what is taken as the size of an entry, relative to the largest of its array, in `units`


@dataclass(frozen=True)
class Word:
    """An input field, one of the frame, a symmetric product <left : right> or a Lie bracket [left, right].

    Parameters
    ----------
    kind : "input", "frame", "symmetric" or "bracket".
    number : the place among the inputs, or in the frame.
    left, right : the factors of a product.
    counts : how often each input occurs.
    depth : how many derivatives of the system the word takes.
    """

    kind: str
    counts: tuple[int, ...]
    number: int = -1
    left: Word | None = None
    right: Word | None = None
    depth: int = field(default=0, compare=False)

    @property
    def degree(self) -> int:
        """The number of inputs in the word."""
        return sum(self.counts)

    @property
    def bad(self) -> bool:
        """Whether a symmetric product contains every input an even number of times."""
        return self.kind == "symmetric" and all(count % 2 == 0 for count in self.counts)

    def name(self, inputs: Sequence[str]) -> str:
        """The word in the names of the inputs, as <Y1:<Y1:Y2>>."""
        if self.left is None or self.right is None:
            return inputs[self.number]
        left, right = self.left.name(inputs), self.right.name(inputs)
        return f"<{left}:{right}>" if self.kind == "symmetric" else f"[{left}, {right}]"


def input_words(count: int) -> list[Word]:
    """The inputs themselves."""
    return [Word("input", tuple(int(i == a) for i in range(count)), a) for a in range(count)]


def frame_words(count: int, dim: int) -> list[Word]:
    """The fields X_k of the connection's frame, beside `count` inputs."""
    return [Word("frame", (0,) * count, k) for k in range(dim)]


def symmetric(left: Word, right: Word) -> Word:
    """The word <left : right>."""
    return _product("symmetric", left, right)


def bracket(left: Word, right: Word) -> Word:
    """The word [left, right]."""
    return _product("bracket", left, right)


def _product(kind: str, left: Word, right: Word) -> Word:
    counts = tuple(a + b for a, b in zip(left.counts, right.counts, strict=True))
    return Word(kind, counts, -1, left, right, max(left.depth, right.depth) + 1)


def symmetric_words(inputs: int) -> Iterator[list[Word]]:
    """The free symmetric algebra, degree by degree: every product once."""
    degrees = [input_words(inputs)]
    while True:
        yield degrees[-1]
        degree, words = len(degrees) + 1, []
        for low in range(1, degree // 2 + 1):
            high = degree - low
            for i, left in enumerate(degrees[low - 1]):
                for j, right in enumerate(degrees[high - 1]):
                    if low < high or i <= j:
                        words.append(symmetric(left, right))
        degrees.append(words)


class Surroundings:
    """A connection near its points, for whatever inputs: traced once, kept on the connection.

    Parameters
    ----------
    nabla : the connection.
    """

    def __init__(self, nabla: AffineConnection) -> None:
        self.nabla, self.frame = nabla, nabla.frame
        self.coefficients_at = jax.jit(nabla.coefficients_at)  # one trace for all who use it
        nq = self.frame.ambient_dim
        self._geometry = Expansion(self._at, nq)
        self._scale = Expansion(nabla.scale_at, nq)
        self._valid = Expansion(nabla.valid_at, nq)
        base = self.base
        self._moved = Expansion(lambda p: base.retract_at(p[:nq], p[nq:]), nq + base.dim)
        self._base = Expansion(base.matrix_at, nq)
        self._lengths = [Expansion(metric.matrix_at, nq) if metric else None for metric in self._metrics]
        self._known: dict[tuple[bytes, int], tuple[Array, Array]] = {}

    @classmethod
    def of(cls, nabla: AffineConnection) -> Surroundings:
        """Those of a connection, made once."""
        known: Surroundings = derived(nabla).get(cls) or derived(nabla).setdefault(cls, cls(nabla))
        return known

    @property
    def base(self) -> FrameField:
        """The frame of the whole tangent space: that of the ambient metric for a constrained system."""
        frame = self._unchanged
        return frame.distribution.metric.frame if isinstance(frame, DistributionFrame) else frame

    @property
    def _unchanged(self) -> FrameField:
        frame = self.frame
        while isinstance(frame, ChangedFrame):
            frame = frame.base
        return frame

    @property
    def _metrics(self) -> tuple[Metric | None, Metric | None]:
        """The metrics that are known of the frame and of the whole tangent space."""
        frame = self._unchanged
        return self.nabla.known_metric, frame.distribution.metric if isinstance(
            frame, DistributionFrame
        ) else None

    def valid(self, q: Array) -> bool:
        """Whether the connection is defined at q."""
        return bool(self._valid.value(q))

    def moved(self, q: Array, xi: Array, units: Units) -> Array:
        """A point of the manifold near q, along the vector xi (n,) of the base frame, in the units given."""
        steps = steps_of(self._base.value(q), units.coordinates)
        point: Array = self._moved.value(np.concatenate([q, xi * steps]))
        return point

    def units(self, q: Array, Y: Array) -> Units:
        """The units near q of the system with inputs Y (1 + nq, m, a), to degree one."""
        X, S = self.expand(q, 1)
        found = [None if H is None else np.sqrt(np.diagonal(H.value(q))) for H in self._lengths]
        return units_near(X, S, Y, found[0], self._base.value(q), found[1])

    def terms(self, q: Array) -> Array:
        """What enters the symmetrized coefficients before cancellation, (m, m, m)."""
        scale: np.ndarray[Any, np.dtype[np.float64]] = self._scale.value(q)
        return scale + np.swapaxes(scale, 1, 2)

    def expand(self, q: Array, order: int) -> tuple[Array, Array]:
        """Frame (K, nq, m) and symmetrized coefficients (K, m, m, m)."""
        key = (q.tobytes(), order)
        if key not in self._known:
            while len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)))
            algebra = taylor_algebra(len(q), order)
            X, S = (algebra.full(a) for a in self._geometry.at(q, order))
            self._known[key] = X, S
        return self._known[key]

    def _at(self, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        Gamma = self.coefficients_at(q)
        return self.frame.matrix_at(q), Gamma + jnp.swapaxes(Gamma, 1, 2)


class ControlSystem:
    """A connection with input fields, as everything in this package takes it.

    Parameters
    ----------
    nabla : the connection.
    inputs : q -> (m, a), columns in the connection's frame; JAX-traceable.
    count : a.
    """

    def __init__(self, nabla: AffineConnection, inputs: PointFunction, count: int) -> None:
        self.nabla, self.count = nabla, count
        self.inputs: PointFunction = jax.jit(lambda q: jnp.asarray(inputs(q), dtype=float))
        self.frame, self.surroundings = nabla.frame, Surroundings.of(nabla)
        self._inputs = Expansion(self.inputs, self.frame.ambient_dim)
        self._units: dict[bytes, Units] = {}

    @property
    def dim(self) -> int:
        """n, the dimension of the configuration manifold."""
        return self.surroundings.base.dim

    def jet(self, q: Array, units: Units | None = None) -> Jet:
        """The system's fields near q, in units of its own, or in those given with its own for the inputs."""
        return Jet(self, q, units)

    def units(self, q: Array) -> Units:
        """Those in which the system is of size one near q."""
        key = q.tobytes()
        if key not in self._units:
            while len(self._units) >= _KEPT:
                self._units.pop(next(iter(self._units)))
            self._units[key] = self.surroundings.units(q, self._inputs.at(q, 1))
        return self._units[key]

    def input_values(self, q: Array) -> Array:
        """Y (m, a) at q, in the user's units."""
        Y: Array = self._inputs.value(q)
        return Y

    def expand(self, q: Array, order: int, units: Units) -> Sized:
        """Frame, symmetrized coefficients and inputs (K, m, a) in the units, each beside its sizes."""
        algebra = taylor_algebra(len(q), order)
        X, S = self.surroundings.expand(q, order)
        X, S, Y = units.scaled(X, S, self._inputs.at(q, order), algebra.exponents)
        terms = units.scaled(X[:1], self.surroundings.terms(q)[None], Y[:1], algebra.exponents)[1]
        degrees = algebra.degrees
        return [
            (X, sizes_of(X, degrees)),
            (S, sizes_of(S, degrees, float(np.max(terms, initial=0.0)))),
            (Y, sizes_of(Y, degrees)),
        ]


@dataclass(frozen=True, eq=False)
class LocalField:
    """A vector field near a point, as Taylor polynomials.

    Parameters
    ----------
    algebra : where the polynomials are; its order is what is still known of the field.
    parts : components in the connection's frame (K, m), or None for a bracket, and in ambient coordinates
        (K, nq).
    sizes : the same with all terms added by their absolute values: what round-off is relative to.
    """

    algebra: TaylorAlgebra
    parts: tuple[Array | None, Array]
    sizes: tuple[Array | None, Array]

    @cached_property
    def slopes(self) -> list[list[Array | None]]:
        """Partial derivatives of the parts, then of the sizes."""
        pairs = (self.parts, self.sizes)
        return [[None if a is None else self.algebra.partials(a) for a in pair] for pair in pairs]


class Jet:
    """Values of words at one point: polynomials are made to the order that the words ask for.

    Parameters
    ----------
    system : the connection and its inputs.
    q : (nq,) the point.
    units : of coordinates and fields; those of the system if None.
    """

    def __init__(self, system: ControlSystem, q: Array, units: Units | None = None) -> None:
        self.system, self.q, self.order = system, np.asarray(q, dtype=float), -1
        own = units is None
        self.units = system.units(self.q) if own else units.with_inputs(system.input_values(self.q))  # type: ignore[union-attr]
        self._fields: dict[Word, LocalField] = {}
        self._data: Sized = []

    def values(self, words: Sequence[Word], ambient: bool) -> tuple[Array, Array]:
        """The words at the point and their sizes, (nq or m, number of words): columns."""
        values, sizes = (self.given(words, a, ambient) for a in self.scaled(words, ambient))
        return values, sizes

    def scaled(self, words: Sequence[Word], ambient: bool) -> tuple[Array, Array]:
        """The same in `units`."""
        if not words:
            rows = self.system.frame.ambient_dim if ambient else self.system.frame.dim
            return np.zeros((rows, 0)), np.zeros((rows, 0))
        self._reach(max(word.depth for word in words))
        fields = [self.field(word) for word in words]
        part = 1 if ambient else 0
        columns = [(f.parts[part], f.sizes[part]) for f in fields]
        return (
            np.stack([a[0] for a, _ in columns], axis=1),  # type: ignore[index]
            np.stack([size[0] for _, size in columns], axis=1),  # type: ignore[index]
        )

    def given(self, words: Sequence[Word], values: Array, ambient: bool) -> Array:
        """`values` of words (nq or m, number of words) in the user's units."""
        rows = self.units.coordinates if ambient else self.units.fields
        columns = [float(np.prod(self.units.inputs ** np.array(word.counts))) for word in words]
        return np.asarray(values * rows[:, None] / np.array(columns).reshape(1, -1))

    def field(self, word: Word) -> LocalField:
        """The word as a field near the point, in `units`."""
        self._reach(word.depth)
        found = self._fields.get(word)
        if found is None:
            found = self._fields[word] = self._make(word)
        return found

    def _reach(self, order: int) -> None:
        if order > self.order:
            self.order = max(order, 2) if self.order < 0 else order + 1
            self._data = self.system.expand(self.q, self.order, self.units)
            self._fields.clear()

    def _make(self, word: Word) -> LocalField:
        if word.left is None or word.right is None:
            return self._single(word)
        F, G = self.field(word.left), self.field(word.right)
        order = min(F.algebra.order, G.algebra.order)
        low = taylor_algebra(F.algebra.variables, order - 1)
        if word.kind == "bracket":
            return _bracket(low, F, G)
        return self._symmetric(low, F, G)

    def _single(self, word: Word) -> LocalField:
        algebra, number = taylor_algebra(self.system.frame.ambient_dim, self.order), word.number
        (X, X_size), _, (Y, Y_size) = self._data
        if word.kind == "frame":
            Y = Y_size = np.eye(X.shape[2])[None] * (algebra.degrees == 0)[:, None, None]
        parts = Y[..., number], _apply(algebra, X, Y[..., number])
        sizes = Y_size[..., number], _apply(algebra, X_size, Y_size[..., number])
        return LocalField(algebra, parts, sizes)

    def _symmetric(self, low: TaylorAlgebra, F: LocalField, G: LocalField) -> LocalField:
        (X, X_size), (S, S_size), _ = self._data
        found = []
        for X_, S_, f, g, df, dg in (
            (X, S, F.parts, G.parts, F.slopes[0], G.slopes[0]),
            (X_size, S_size, F.sizes, G.sizes, F.slopes[1], G.slopes[1]),
        ):
            (f_in, f_out), (g_in, g_out) = f, g
            if f_in is None or g_in is None or df[0] is None or dg[0] is None:
                raise TypeError("a symmetric product of Lie brackets has no meaning here")
            turned = _apply(low, _contract(low, S_, f_in), g_in)
            components = _along(low, f_out, dg[0]) + _along(low, g_out, df[0]) + turned
            found.append((components, _apply(low, X_, components)))
        return LocalField(low, found[0], found[1])


def _bracket(low: TaylorAlgebra, F: LocalField, G: LocalField) -> LocalField:
    """[F, G] = F^a d_a G - G^a d_a F in ambient coordinates."""
    forth = _along(low, F.parts[1], G.slopes[0][1])
    back = _along(low, G.parts[1], F.slopes[0][1])
    size = _along(low, F.sizes[1], G.slopes[1][1]) + _along(low, G.sizes[1], F.slopes[1][1])
    return LocalField(low, (None, forth - back), (None, size))


def _apply(algebra: TaylorAlgebra, matrix: Array, vector: Array) -> Array:
    """matrix (K, r, c) times vector (K, c)."""
    product = algebra.multiply(algebra.cut(matrix), algebra.cut(vector)[..., None], np.matmul)
    return product[..., 0]


def _contract(algebra: TaylorAlgebra, tensor: Array, vector: Array) -> Array:
    """tensor[i, j, k] vector[j], (K, i, k)."""
    times: Callable[[Array, Array], Array] = lambda a, b: np.einsum("pijk,pj->pik", a, b)  # noqa: E731
    return algebra.multiply(algebra.cut(tensor), algebra.cut(vector), times)


def _along(algebra: TaylorAlgebra, direction: Array, slopes: Array | None) -> Array:
    """direction[a] slopes[a, i], (K, i)."""
    assert slopes is not None
    product = algebra.multiply(algebra.cut(direction)[:, None, :], algebra.cut(slopes), np.matmul)
    return product[:, 0]


def sizes_of(a: Array, degrees: Array, least: float = 0.0) -> Array:
    """|a| and, in every entry, a hundredth of the largest of the same degree: what its error scales with."""
    out = np.abs(a)
    for degree in range(int(degrees[-1]) + 1):
        here = degrees == degree
        out[here] += _FLOOR * max(float(np.max(out[here], initial=0.0)), least)
    return out
