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
from connections.control.controllability.expansion import DISTURBANCE, Expansion, disturbances
from connections.control.controllability.taylor import TaylorAlgebra, taylor_algebra
from connections.control.controllability.units import (
    Units,
    balanced_units,
    steps_of,
    units_near,
    without_round_off,
)
from connections.evaluation.parameters import cache_of
from connections.geometry.frames import ChangedFrame, FrameField, PointFunction
from connections.geometry.metrics import Metric

Array = np.ndarray[Any, Any]
Arrays = tuple[Array, Array, Array]
Parts = tuple[Array | None, Array]
_KEPT = 12  # expansions of a connection kept, each for a point and an order
_FLOOR = 1e-2  # the least size of an entry, relative to the largest of its array, in the units of a metric


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
        """The word in the names of the inputs, as <Y0:<Y0:Y1>>."""
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
        self._valid = Expansion(nabla.valid_at, nq)
        base = self.base
        self._moved = Expansion(lambda p: base.retract_at(p[:nq], p[nq:]), nq + base.dim)
        self._base = Expansion(base.matrix_at, nq)
        self._lengths = [Expansion(metric.matrix_at, nq) if metric else None for metric in self._metrics]
        self._known: dict[tuple[bytes, int], list[tuple[Array, Array]]] = {}

    @classmethod
    def of(cls, nabla: AffineConnection) -> Surroundings:
        """The surroundings of a connection, made once."""
        known: Surroundings = cache_of(nabla).get(cls) or cache_of(nabla).setdefault(cls, cls(nabla))
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

    def units(self, q: Array, inputs: list[Array]) -> Units:
        """The units near q of the system with inputs (1 + nq, m, a), exact and disturbed, to degree one."""
        near = self.expand(q, 1)
        if not self.floor:
            arrays = (*zip(*near, strict=True), inputs)
            return balanced_units(*(without_round_off(each) for each in arrays))
        (X, S), Y = near[0], inputs[0]
        found = [None if H is None else np.sqrt(np.diagonal(H.value(q))) for H in self._lengths]
        return units_near(X, S, Y, found[0], self._base.value(q), found[1])

    @property
    def floor(self) -> float:
        """The least size of an entry beside the largest of its array.

        A metric makes components comparable. Without one they are not, and a component has only its own
        terms to be compared with.
        """
        return 0.0 if all(metric is None for metric in self._metrics) else _FLOOR

    def expand(self, q: Array, order: int) -> list[tuple[Array, Array]]:
        """Frame (K, nq, m) and symmetrized coefficients (K, m, m, m), then the same disturbed, twice."""
        key = (q.tobytes(), order)
        if key not in self._known:
            while len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[key] = self._geometry.disturbed(q, order)
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
        self.inputs: PointFunction = jax.jit(lambda q: _real(inputs(q)))
        self.frame, self.surroundings = nabla.frame, Surroundings.of(nabla)
        self._inputs = Expansion(self.inputs, self.frame.ambient_dim)
        self._units: dict[bytes, Units] = {}
        self._made_of = nabla, inputs, count

    def __reduce__(self) -> tuple[Any, ...]:
        return ControlSystem, self._made_of  # without compiled functions

    @property
    def dim(self) -> int:
        """n, the dimension of the configuration manifold."""
        return self.surroundings.base.dim

    def jet(self, q: Array, units: Units | None = None) -> Jet:
        """The system's fields near q, in units of its own, or in those given with its own for the inputs."""
        return Jet(self, q, units)

    def units(self, q: Array) -> Units:
        """The units in which the system is of size one near q."""
        key = q.tobytes()
        if key not in self._units:
            while len(self._units) >= _KEPT:
                self._units.pop(next(iter(self._units)))
            self._units[key] = self.surroundings.units(q, self._inputs.disturbed(q, 1))
        return self._units[key]

    def finite(self, q: Array) -> bool:
        """Whether first and second derivatives of the system are finite."""
        arrays = (*self.surroundings.expand(q, 2)[0], self._inputs.at(q, 2))
        return all(bool(np.isfinite(a).all()) for a in arrays)

    def input_values(self, q: Array) -> Array:
        """Y (m, a) at q, in the user's units."""
        Y: Array = self._inputs.value(q)
        return Y

    def expand(self, q: Array, order: int, units: Units) -> tuple[list[Arrays], Arrays]:
        """Frame, symmetrized coefficients, inputs (K, m, a) in the units: exact, disturbed; their sizes."""
        algebra, floor = taylor_algebra(len(q), order), self.surroundings.floor
        pairs = zip(self.surroundings.expand(q, order), self._inputs.disturbed(q, order), strict=True)
        exact, *disturbed = (units.scaled(X, S, Y, algebra.exponents) for (X, S), Y in pairs)
        x, s, y = (_raised(np.abs(a), algebra.degrees, floor) for a in exact)
        return [exact, *disturbed], (x, s, y)


@dataclass(frozen=True, eq=False)
class LocalField:
    """A vector field near a point, as Taylor polynomials.

    Parameters
    ----------
    algebra : where the polynomials are; its order is what is still known of the field.
    parts : components in the connection's frame (K, m), or None for a bracket, and in ambient coordinates
        (K, nq); first the field itself, then disturbed ones.
    terms : of the field itself, the absolute values of the terms that its last operation has added.
    """

    algebra: TaylorAlgebra
    parts: list[Parts]
    terms: Parts

    @cached_property
    def slopes(self) -> list[Parts]:
        """Partial derivatives of the parts."""
        return [(_partials(self.algebra, a), self.algebra.partials(b)) for a, b in self.parts]

    def sized(self, part: int) -> tuple[Array, Array]:
        """A part at the point, and what its round-off is relative to: its terms, or what disturbs it."""
        value, *others = (np.asarray(each[part])[0] for each in self.parts)
        terms = np.asarray(self.terms[part])[0]
        return value, np.maximum(terms, np.max([np.abs(a - value) for a in others], axis=0) / DISTURBANCE)


def _absolute(parts: Parts) -> Parts:
    inside, outside = parts
    return None if inside is None else np.abs(inside), np.abs(outside)


def _partials(algebra: TaylorAlgebra, a: Array | None) -> Array | None:
    return None if a is None else algebra.partials(a)


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
        self._data: list[Arrays] = []
        self._rngs = [np.random.default_rng(seed) for seed in (10, 11)]

    def values(self, words: Sequence[Word], ambient: bool) -> tuple[Array, Array]:
        """The words at the point and their sizes, (nq or m, number of words): columns."""
        values, sizes = (self.given(words, a, ambient) for a in self.scaled(words, ambient))
        return values, sizes

    def scaled(self, words: Sequence[Word], ambient: bool) -> tuple[Array, Array]:
        """The words at the point and their sizes, as of `values`, but in `units`."""
        if not words:
            rows = self.system.frame.ambient_dim if ambient else self.system.frame.dim
            return np.zeros((rows, 0)), np.zeros((rows, 0))
        self._reach(max(word.depth for word in words))
        fields = [self.field(word) for word in words]
        part = 1 if ambient else 0
        values, sizes = zip(*(f.sized(part) for f in fields), strict=True)
        return np.stack(values, axis=1), np.stack(sizes, axis=1)

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
            self._data, self._sizes = self.system.expand(self.q, self.order, self.units)
            self._fields.clear()

    def _make(self, word: Word) -> LocalField:
        if word.left is None or word.right is None:
            return self._single(word)
        F, G = self.field(word.left), self.field(word.right)
        order = min(F.algebra.order, G.algebra.order)
        low = taylor_algebra(F.algebra.variables, order - 1)
        if word.kind == "bracket":
            return self._bracket(low, F, G)
        return self._symmetric(low, F, G)

    def _single(self, word: Word) -> LocalField:
        algebra, number = taylor_algebra(self.system.frame.ambient_dim, self.order), word.number
        found: list[Parts] = []
        for X, _, Y in (*self._data, self._sizes):
            if word.kind == "frame":
                Y = np.eye(X.shape[2])[None] * (algebra.degrees == 0)[:, None, None]
            found.append((Y[..., number], _apply(algebra, X, Y[..., number])))
        return self._field(algebra, found[:-1], found[-1])

    def _symmetric(self, low: TaylorAlgebra, F: LocalField, G: LocalField) -> LocalField:
        values = zip(self._data, F.parts, G.parts, F.slopes, G.slopes, strict=True)
        f, g, df, dg = (_absolute(a[0]) for a in (F.parts, G.parts, F.slopes, G.slopes))
        found: list[Parts] = []
        for (X, S, _), (f_in, f_out), (g_in, g_out), (df_in, _), (dg_in, _) in (
            *values,
            (self._sizes, f, g, df, dg),
        ):
            if f_in is None or g_in is None or df_in is None or dg_in is None:
                raise TypeError("a symmetric product of Lie brackets has no meaning here")
            turned = _apply(low, _contract(low, S, f_in), g_in)
            components = _along(low, f_out, dg_in) + _along(low, g_out, df_in) + turned
            found.append((components, _apply(low, X, components)))
        return self._field(low, found[:-1], found[-1])

    def _bracket(self, low: TaylorAlgebra, F: LocalField, G: LocalField) -> LocalField:
        """[F, G] = F^a d_a G - G^a d_a F in ambient coordinates."""
        parts: list[Parts] = []
        for (_, f), (_, g), (_, df), (_, dg) in zip(F.parts, G.parts, F.slopes, G.slopes, strict=True):
            parts.append((None, _along(low, f, dg) - _along(low, g, df)))
        f, g, df, dg = (np.abs(a[0][1]) for a in (F.parts, G.parts, F.slopes, G.slopes))
        return self._field(low, parts, (None, _along(low, f, dg) + _along(low, g, df)))

    def _field(self, algebra: TaylorAlgebra, parts: Sequence[Parts], terms: Parts) -> LocalField:
        """The field; disturbed ones are disturbed once more, by the round-off of the last operation."""
        exact, *others = parts
        disturbed = []
        for (inside, outside), rng in zip(others, self._rngs, strict=True):
            if inside is not None and terms[0] is not None:
                inside = inside + disturbances(rng, inside.shape) * terms[0]
            disturbed.append((inside, outside + disturbances(rng, outside.shape) * terms[1]))
        return LocalField(algebra, [exact, *disturbed], terms)


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


def _real(inputs: Any) -> jax.Array:
    """The inputs as float64; complex ones are a `TypeError`."""
    array = jnp.asarray(inputs)
    if jnp.iscomplexobj(array):
        raise TypeError(f"inputs: real numbers are needed, the function returns {array.dtype}")
    return array.astype(float)


def _raised(sizes: Array, degrees: Array, floor: float) -> Array:
    """Sizes, none less than `floor` times the largest of the same degree."""
    out = sizes.copy()
    for degree in range(int(degrees[-1]) + 1):
        here = degrees == degree
        out[here] = np.maximum(out[here], floor * float(np.max(out[here], initial=0.0)))
    return out
