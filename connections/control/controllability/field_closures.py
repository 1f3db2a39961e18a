"""Symmetric and involutive closure of input fields at a point, with numerical ranks.

Sym(Y) is the smallest distribution that contains the inputs and with X, Z also <X : Z>; Lie(Sym(Y)) the
smallest involutive one that contains Sym(Y). Products are added degree by degree until the rank is full, or
until the span is closed near the point, which is tested there and at neighbouring points; at a point where
products degenerate, higher ones may restore the rank, so that there a rank that does not grow settles
nothing. Source: [LM]; [Z] section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement
from math import comb
from typing import Any

import jax
import numpy as np

from connections._jax import ArrayLike
from connections._moved import keep_old_names
from connections.affine.connection import AffineConnection
from connections.affine.distributions import DistributionFrame
from connections.checks import (
    FrameError,
    NonFiniteError,
    ShapeError,
    as_array,
    as_covectors,
    raise_at,
    require_bool,
    require_duration,
    require_finite,
    require_function,
    require_names,
    require_positive_int,
    require_type,
    require_untraced,
)
from connections.control.controllability.ranks import TOLERANCE, NumericalRank, independent, numerical_rank
from connections.control.controllability.symmetric_products import (
    ControlSystem,
    Jet,
    Word,
    bracket,
    input_words,
    symmetric,
    symmetric_words,
)
from connections.evaluation.compilation import shape_of
from connections.evaluation.parameters import cache_of
from connections.geometry.frames import PointFunction
from connections.geometry.numerics.definite import solve_definite

Array = np.ndarray[Any, Any]
_WORDS = 120  # products generated if no order is given
_BRACKETS = 400
_LONGEST = 8  # brackets, if no order is given
_PAIRS = 400_000  # of monomials: limits the order of the polynomials
_STEP = 0.05  # to neighbouring points, in units of the distance in which the system changes
_NEAREST = 1e-6


@dataclass(frozen=True, eq=False)
class LieClosure:
    """The products of a closure at a point and the rank that they span.

    Parameters
    ----------
    q : (nq,) the point.
    names : the products, as <Y0:Y1> and [Y0, <Y0:Y1>].
    values : (m, N) components in the connection's frame of symmetric products; (nq, N) ambient coordinates
        where there are brackets.
    scaled : the same, and the sizes of their terms, in units in which the system is of size one at q: what
        the rank is made of.
    rank : with its singular values and the gap.
    order : the largest degree or length of a product.
    settled : whether nothing can be added: the rank is full, or the span closed near the point.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> H = lambda q: jnp.diag(jnp.array([1.0, q[0] ** 2]))  # of a mass in the plane, in (r, phi)
    >>> nabla = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), H))
    >>> closure = controllability.symmetric_closure(nabla, lambda q: jnp.array([[0.0], [1.0]]), [2.0, 0.0])
    >>> closure.values.round(4) + 0.0
    array([[ 0., -4.],
           [ 1.,  0.]])
    >>> closure.order, closure.settled
    (2, True)
    """

    q: Array
    words: tuple[Word, ...]
    names: tuple[str, ...]
    values: Array
    scaled: tuple[Array, Array] = field(repr=False)
    rank: NumericalRank
    order: int
    settled: bool
    system: ControlSystem = field(repr=False)

    @property
    def fields(self) -> tuple[PointFunction, ...]:
        """The products as functions of q, JAX-traceable, in the components of `values`."""
        ambient = any(word.kind == "bracket" for word in self.words)
        return tuple(word_field(self.system, word, ambient) for word in self.words)

    def __str__(self) -> str:
        end = "closed" if self.settled else f"not closed at order {self.order}"
        return f"rank {self.rank}, {len(self.names)} products, {end}"


def symmetric_closure(
    nabla: AffineConnection,
    inputs: PointFunction,
    q: ArrayLike,
    order: int | None = None,
    *,
    tol: float = TOLERANCE,
    names: Sequence[str] | None = None,
) -> LieClosure:
    """Sym(Y) at q: iterated symmetric products of the inputs, up to `order` inputs in a product.

    Parameters
    ----------
    nabla : the connection; of a constrained system, the one on its distribution.
    inputs : q -> (m, a), the input fields as columns in the connection's frame; JAX-traceable.
    q : (nq,) one point.
    order : largest degree; None: as many as are needed, up to about a hundred products.
    tol : of ranks, on singular values of normalized columns.
    names : of the inputs; Y0, Y1 and so on if None.

    Raises
    ------
    ShapeError, NonFiniteError; FrameError if the inputs are dependent; the errors of `nabla` at q.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> H = lambda q: jnp.diag(jnp.array([1.0, q[0] ** 2]))  # of a mass in the plane, in (r, phi)
    >>> nabla = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), H))
    >>> closure = controllability.symmetric_closure(nabla, lambda q: jnp.array([[0.0], [1.0]]), [2.0, 0.0])
    >>> closure.names, closure.rank.value
    (('Y0', '<Y0:Y0>'), 2)

    Source: [LM]; [Z] section 6.
    """
    tol = require_duration("tol", tol)
    system, q = control_system(nabla, inputs, q, order)
    return symmetric_closure_of(system, jets_near(system, q), order, tol, input_names(system, names))


def involutive_closure(
    nabla: AffineConnection,
    inputs: PointFunction,
    q: ArrayLike,
    order: int | None = None,
    *,
    symmetric: bool = True,
    tol: float = TOLERANCE,
    names: Sequence[str] | None = None,
) -> LieClosure:
    """Lie(Sym(Y)) at q, or Lie(Y): iterated Lie brackets, in the tangent space of the whole manifold.

    Parameters
    ----------
    nabla, inputs, q, tol, names : as in `symmetric_closure`.
    order : largest number of fields of Sym(Y) in a bracket; None: as many as are needed.
    symmetric : whether the brackets are those of Sym(Y), not of the inputs alone.

    Raises
    ------
    As `symmetric_closure`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(3), jnp.eye(3)))
    >>> def wheel(q):  # rolling and turning, in (x, y, theta)
    ...     return jnp.stack([jnp.stack([jnp.cos(q[2]), jnp.sin(q[2]), 0.0 * q[2]]), jnp.eye(3)[2]], axis=1)
    ...
    >>> closure = controllability.involutive_closure(nabla, wheel, [0.0, 0.0, 0.0], symmetric=False)
    >>> closure.names, closure.rank.value
    (('Y0', 'Y1', '[Y0, Y1]'), 3)

    Source: [LM].
    """
    require_bool("symmetric", symmetric)
    tol = require_duration("tol", tol)
    system, q = control_system(nabla, inputs, q, order)
    jets, named = jets_near(system, q), input_names(system, names)
    if not symmetric:
        return involutive_closure_of(system, jets, input_words(system.count), order, tol, named)
    products = symmetric_closure_of(system, jets, None, tol, named)
    return involutive_closure_of(system, jets, generators(products, tol), order, tol, named)


def input_fields(nabla: Any, forms: PointFunction) -> PointFunction:
    """q -> Y (m, a), the accelerations H^-1 F^T that covectors cause; of a constrained system, those in D.

    Parameters
    ----------
    nabla : a connection with a metric.
    forms : q -> (a, n), covectors in the frame of the (ambient) metric; JAX-traceable.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), jnp.diag(jnp.array([2.0, 4.0]))))
    >>> motor = controllability.input_fields(nabla, lambda q: jnp.array([[1.0, 1.0]]))
    >>> np.asarray(motor(jnp.zeros(2)))  # H^-1 F^T
    array([[0.5 ],
           [0.25]])

    Source: [Z] section 3, Theorem 3.2.
    """
    require_type("nabla", nabla, AffineConnection)
    require_function("forms", forms, "q -> covectors (a, n)")

    def fields(q: jax.Array) -> jax.Array:
        constrained = isinstance(nabla.frame, DistributionFrame)
        F = as_covectors("forms(q)", forms(q), (nabla.ambient.frame if constrained else nabla.frame).dim)
        F = F @ nabla.basis_at(q) if constrained else F
        return solve_definite(nabla.metric.matrix_at(q), F.T)

    return fields


# --- for the other modules of this package --------------------------------------------------------------


def control_system(
    nabla: AffineConnection, inputs: PointFunction, q: Any, order: int | None = None
) -> tuple[ControlSystem, Array]:
    """The system, validated, and the point as an array."""
    require_type("nabla", nabla, AffineConnection)
    if order is not None:
        require_positive_int("order", order)
    frame = nabla.frame
    require_untraced(nabla=nabla, q=q)
    q = np.asarray(as_array("q", q, (frame.ambient_dim,)))
    if q.ndim != 1:
        raise ShapeError("q (one point)", (frame.ambient_dim,), q.shape)
    require_finite("q", q)
    q = frame.require_near("q", q)
    require_function("inputs", inputs, "q -> Y (n, m)")
    shape = shape_of("inputs(q)", inputs, (frame.ambient_dim,))
    if len(shape) != 2 or shape[0] != frame.dim or not 1 <= shape[1] <= frame.dim:
        raise ShapeError("inputs", (frame.dim, f"1 to {frame.dim}"), shape)
    systems = cache_of(nabla).setdefault("_control_systems", {})
    system = systems.get(inputs)
    if system is None:
        system = systems[inputs] = ControlSystem(nabla, inputs, shape[1])
    if not system.surroundings.valid(q):
        nabla.explain(q)
        raise_at(NonFiniteError, f"{type(nabla).__name__} is not valid", q)
    if not np.isfinite(system.input_values(q)).all():
        raise_at(NonFiniteError, "the inputs are not finite", q)
    if not system.finite(q):
        raise_at(NonFiniteError, "derivatives of the connection or of the inputs are not finite", q)
    values, sizes = system.jet(q).scaled(input_words(system.count), ambient=False)
    rank = numerical_rank(values, sizes, system.count, TOLERANCE).value
    if rank < system.count:
        raise_at(FrameError, f"the inputs are dependent ({rank} of {system.count} are independent)", q)
    return system, q


def input_names(system: ControlSystem, names: Sequence[str] | None) -> tuple[str, ...]:
    """The names given, one for each input, or Y0, Y1 and so on."""
    if names is None:
        return tuple(f"Y{a}" for a in range(system.count))
    listed = require_names("names", names)
    if len(listed) != system.count:
        raise ShapeError("names of the inputs", (system.count,), (len(listed),))
    return listed


def jets_near(system: ControlSystem, q: Array, reach: float = _STEP) -> list[Jet]:
    """The system at q and at two neighbouring points, always the same ones, about `reach` away."""
    rng, jets = np.random.default_rng(0), [system.jet(q)]
    for _ in range(2):
        direction = rng.standard_normal(system.dim)
        step = reach
        while True:
            near = system.surroundings.moved(q, step * direction, jets[0].units)
            defined = system.surroundings.valid(near) and np.isfinite(system.input_values(near)).all()
            if step < _NEAREST or defined:
                break
            step /= 8.0
        jets.append(system.jet(near))
    return jets


def symmetric_closure_of(
    system: ControlSystem, jets: list[Jet], order: int | None, tol: float, names: Sequence[str]
) -> LieClosure:
    """Products degree by degree, until the rank is full, the span closed, or `order` reached."""
    m, deepest = system.frame.dim, _deepest(system)
    words: list[Word] = []
    rank: NumericalRank | None = None
    settled, degree = False, 0
    for degree, new in enumerate(symmetric_words(system.count), start=1):
        words += new
        scaled = jets[0].scaled(words, ambient=False)
        before, rank = rank, numerical_rank(*scaled, m, tol)
        settled = rank.full
        if before is not None and rank.value == before.value and not settled:
            settled = _closed(jets, words, symmetric, combinations_with_replacement, m, False, tol)
        if settled or degree >= deepest or degree == order:
            break
        if order is None and len(words) * (1 + system.count) > _WORDS:
            break
    assert rank is not None
    q = jets[0].q
    text, values = tuple(word.name(names) for word in words), jets[0].given(words, scaled[0], False)
    return LieClosure(q, tuple(words), text, values, scaled, rank, degree, settled, system)


def involutive_closure_of(
    system: ControlSystem,
    jets: list[Jet],
    start: Sequence[Word],
    order: int | None,
    tol: float,
    names: Sequence[str],
) -> LieClosure:
    """Brackets of the words in `start`, longer and longer, until the rank is full or the span closed."""
    n, deepest = system.dim, _deepest(system)
    words, level, length = list(start), list(start), 1
    scaled = jets[0].scaled(words, ambient=True)
    rank = numerical_rank(*scaled, n, tol)
    settled = rank.full
    while not settled and length < (order or _LONGEST):
        if length == 1:
            level = [bracket(a, b) for a, b in combinations(start, 2)]
        else:
            level = [bracket(a, b) for a in start for b in level]
        level = [word for word in level if word.depth <= deepest]
        if not level:
            settled = len(start) == 1
            break
        if len(words) + len(level) > _BRACKETS:
            break
        length, before = length + 1, rank
        words += level
        scaled = jets[0].scaled(words, ambient=True)
        rank = numerical_rank(*scaled, n, tol)
        settled = rank.full
        if rank.value == before.value and not settled:
            settled = _closed(jets, words, bracket, combinations, n, True, tol)
    text, values = tuple(word.name(names) for word in words), jets[0].given(words, scaled[0], True)
    return LieClosure(jets[0].q, tuple(words), text, values, scaled, rank, length, settled, system)


def generators(closure: LieClosure, tol: float) -> list[Word]:
    """Words that generate the distribution: independent ones if it is regular, otherwise all."""
    if closure.settled:
        return [closure.words[k] for k in independent(*closure.scaled, tol)]
    return list(closure.words)


def word_field(system: ControlSystem, word: Word, ambient: bool) -> PointFunction:
    """A product as a JAX function: frame components (m,), or ambient coordinates (nq,)."""
    nabla, frame = system.nabla, system.frame

    def components(w: Word) -> PointFunction:
        if w.left is None or w.right is None:
            return lambda q: system.inputs(q)[:, w.number]
        X, Y = components(w.left), components(w.right)
        return lambda q: nabla.covariant_derivative_at(X, Y, q) + nabla.covariant_derivative_at(Y, X, q)

    def outer(w: Word) -> PointFunction:
        if w.kind != "bracket" or w.left is None or w.right is None:
            inside = components(w)
            return lambda q: frame.matrix_at(q) @ inside(q)
        X, Y = outer(w.left), outer(w.right)
        return lambda q: jax.jvp(Y, (q,), (X(q),))[1] - jax.jvp(X, (q,), (Y(q),))[1]

    return outer(word) if ambient else components(word)


def _closed(
    jets: list[Jet],
    words: Sequence[Word],
    product: Callable[[Word, Word], Word],
    pairs: Callable[[Sequence[Word], int], Any],
    dimension: int,
    ambient: bool,
    tol: float,
) -> bool:
    """Whether the span of the words is closed under a product near the point: the same rank at all jets."""
    chosen = independent(*jets[0].scaled(words, ambient), tol)
    basis = [words[k] for k in chosen]
    more = [product(a, b) for a, b in pairs(basis, 2)]
    for jet in jets:
        rank = numerical_rank(*jet.scaled([*words, *more], ambient), dimension, tol)
        if rank.value != len(basis) or not rank.clear:
            return False
    return True


def _deepest(system: ControlSystem) -> int:
    """The largest order of derivatives whose polynomials are of a reasonable size."""
    variables = system.frame.ambient_dim
    order = 1
    while order < 12 and comb(2 * variables + order + 1, order + 1) <= _PAIRS:
        order += 1
    return max(order - 1, 2)


keep_old_names(__name__)
