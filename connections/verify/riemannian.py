"""Checks of [W] III-A to III-C1: the axioms, the Riemannian connection, Koszul's formula, the symbols."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.coriolis import MechanicalSystem
from connections.evaluation.parameters import PytreePartial
from connections.geometry import Metric
from connections.verify.measurement import Proposition, Sample, stated
from connections.verify.numerics import (
    Array,
    Batch,
    constrained_tensor,
    differences,
    largest,
    random_contorsion,
    stencil,
)
from connections.verify.subjects import Subject, shared

PROPOSITIONS: list[Proposition] = []
proposition = partial(stated, PROPOSITIONS)


class Fields:
    """Smooth random vector fields X, Y, Z and a function f, in frame components.

    Their random numbers are arguments of the functions that the library differentiates: compiled once for
    all.
    """

    def __init__(self, subject: Subject) -> None:
        rng = subject.rng("fields")
        nq, n = subject.metric.frame.ambient_dim, subject.n
        W, w = 0.5 * rng.normal(size=(3, n, nq)) / np.sqrt(nq), 0.5 * rng.normal(size=(3, n))
        if n == 1:  # a single component must neither vanish nor be constant
            W, w = np.copysign(0.35, W), np.copysign(0.5 + np.abs(w), w)
        self.numbers: dict[str, Any] = dict(zip("XYZ", zip(W, w, strict=True), strict=True))
        self.numbers["f"] = (rng.normal(size=nq) / np.sqrt(nq),)
        self.subject, self._alone = subject, n == 1

    @classmethod
    def of(cls, subject: Subject) -> Fields:
        """The subject's fields, cached."""
        fields: Fields = subject._memory.setdefault("fields", cls(subject))
        return fields

    def on_batch(self, name: str) -> Callable[[Array], Array]:
        """X, Y, Z, f, or f times one of them, as a function of (k, nq) points."""
        if name == "f":
            return lambda points: _function(np, points, *self.numbers["f"])
        if name[0] == "f":
            return lambda points: self.on_batch("f")(points)[:, None] * self.on_batch(name[1])(points)
        return lambda points: _field(np, self._alone, points, *self.numbers[name])

    def at(self, name: str, q: Array) -> Array:
        """The named field at one point."""
        value: Array = self.on_batch(name)(q[None])[0]
        return value

    def covariant_derivative(self, X: str, Y: str, q: Array) -> Array:
        """nabla_X Y by the library, for X, Y, Z or f times one of them."""
        compiled = self.subject.compiled(_covariant_derivative_at, X, Y)
        return np.asarray(compiled(q, *(self.numbers[name[-1]] for name in ("f", X, Y))))


def _covariant_derivative_at(
    system: MechanicalSystem, X: str, Y: str, q: jax.Array, f: Any, x: Any, y: Any
) -> jax.Array:
    """nabla_X Y, (n,); f, x, y : the parameters of the function and of the fields."""
    assert system.connection is not None
    alone = system.metric.frame.dim == 1

    def field(name: str, numbers: Any) -> Callable[[jax.Array], jax.Array]:
        if name[0] == "f":
            return lambda p: _function(jnp, p, *f) * _field(jnp, alone, p, *numbers)
        return lambda p: _field(jnp, alone, p, *numbers)

    return system.connection.covariant_derivative_at(field(X, x), field(Y, y), q)


def _field(xp: Any, alone: bool, q: Any, W: Any, w: Any) -> Any:
    """A field at points (..., nq): w + sin(W q + w), or w exp(W q) if it has one component."""
    return w * xp.exp(q @ W.T) if alone else w + xp.sin(q @ W.T + w)


def _function(xp: Any, q: Any, b: Any) -> Any:
    """2.7 + sin(b q): never close to one, so that a control that leaves out this factor fails."""
    return 2.7 + xp.sin(q @ b)


def _transported(subject: Subject, q: Array, name: str, wrong_connection: Array | None = None) -> Array:
    fields = Fields.of(subject)
    Gamma = subject.second_kind(wrong_connection)
    return subject.numerics.transported_derivative(Gamma, q, fields.at("X", q), fields.on_batch(name))


@proposition("A1", "nabla_fX Y = f nabla_X Y: formula against the derivative of transported vectors")
def axiom_1(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the factor f forgotten."""
    fields, q = Fields.of(subject), sample.q
    formula = fields.covariant_derivative("fX", "Y", q)
    transported = _transported(subject, q, "Y")
    expected = transported if wrong else fields.at("f", q) * transported
    return largest(formula - expected), largest(formula, fields.at("Y", q))


@proposition("A2", "nabla_X fY = f nabla_X Y + (L_X f) Y: derivative of transported vectors against formula")
def axiom_2(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the Leibniz term forgotten."""
    fields, q = Fields.of(subject), sample.q
    slope = subject.numerics.derivative_along(fields.on_batch("f"), q, fields.at("X", q))
    plain = fields.covariant_derivative("X", "Y", q)
    expected = fields.at("f", q) * plain + (0.0 if wrong else slope) * fields.at("Y", q)
    return largest(_transported(subject, q, "fY") - expected), largest(plain, fields.at("Y", q), slope)


@proposition(
    "Thm III.1", "Gamma* solves: metric compatible, torsion free (n^3 linear equations)", riemannian=True
)
def riemannian_connection(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a torsion prescribed; a non-metricity where n = 1, which leaves no room for torsion."""
    torsion, metric_part = subject.s_low(sample.q), subject.dH(sample.q)
    if wrong and subject.n == 1:
        metric_part = metric_part + subject.scale(sample.q)
    elif wrong:
        extra = random_contorsion(subject.rng("III.1"), subject.n, subject.scale(sample.q), "same_geodesics")
        torsion = torsion + extra
    solved, _, _ = constrained_tensor(subject.n, metric_part, torsion, None)
    return largest(solved - subject.first_kind(sample.q)), subject.scale(sample.q)


@proposition("Thm III.1 unique", "those equations have rank n^3")
def riemannian_connection_unique(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: without the torsion-free equations; where n = 1, which has none, without the metric's."""
    n, zero = subject.n, np.zeros((subject.n,) * 3)
    metric_part, torsion = (None if wrong and n == 1 else zero), (None if wrong and n > 1 else zero)
    _, rank, _ = constrained_tensor(n, metric_part, torsion, None)
    return float(n**3 - rank), float(n**3)


@proposition(
    "Koszul",
    "2 <<Z, nabla_X Y>> by Koszul's formula on vector fields, differences of inner products",
    riemannian=True,
)
def koszul_on_fields(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the connection less a contorsion."""
    fields, q, numerics = Fields.of(subject), sample.q, subject.numerics
    H, names = subject.H(q), ("X", "Y", "Z")
    at = {name: fields.at(name, q) for name in names}

    def slope(direction: str, first: str, second: str) -> float:
        def product(points: Array) -> Array:
            pair = [fields.on_batch(name)(points) for name in (first, second)]
            products: Array = np.einsum("ki,kij,kj->k", pair[0], subject.masses(points), pair[1])
            return products

        return float(numerics.derivative_along(product, q, at[direction]))

    def ambient(name: str) -> Callable[[Array], Array]:
        return lambda points: np.einsum("kai,ki->ka", numerics.matrix(points), fields.on_batch(name)(points))

    def bracket(first: str, second: str) -> Array:
        there = numerics.derivative_along(ambient(second), q, at[first])
        back = numerics.derivative_along(ambient(first), q, at[second])
        components: Array = np.linalg.lstsq(numerics.matrix(q[None])[0], there - back, rcond=None)[0]
        return components

    terms = [slope("Y", "Z", "X"), slope("X", "Z", "Y"), -slope("Z", "X", "Y")]
    pairs = (("Y", "Z", "X"), ("X", "Z", "Y"), ("Z", "X", "Y"))
    terms += [float(at[a] @ H @ bracket(b, c)) for a, b, c in pairs]
    formula = float(at["Z"] @ H @ fields.covariant_derivative("X", "Y", q))
    if wrong:
        D = random_contorsion(subject.rng("Koszul"), subject.n, subject.scale(q))
        formula -= float(np.einsum("ijk,i,j,k", D, at["Z"], at["X"], at["Y"]))
    return abs(2.0 * formula - sum(terms)), largest(np.array(terms), H)


@proposition(
    "(5)", "classical Christoffel symbols of a chart, carried into the frame, are Gamma*", riemannian=True
)
def coordinate_symbols(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the connection less a contorsion."""
    chart = Chart.of(subject)
    q = sample.q
    G, W = chart.metric_and_fields(subject, q)
    dG, dW = G[1], W[1]
    symbols = 0.5 * (np.transpose(dG, (1, 2, 0)) + np.transpose(dG, (1, 0, 2)) - dG)
    second = np.linalg.solve(G[0], symbols.reshape(subject.n, -1)).reshape(symbols.shape)
    nabla = np.einsum("aj,abk->bjk", W[0], dW) + np.einsum("bac,aj,ck->bjk", second, W[0], W[0])
    carried = np.einsum("ia,ab,bjk->ijk", W[0].T, G[0], nabla)
    return largest(carried - _low(subject, q, wrong, "(5)")), largest(subject.scale(q), dW, symbols)


@proposition(
    "(8)", "2 Gamma*_ijk from L_X H and brackets by differences, component by component", riemannian=True
)
def generalized_symbols(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the connection less a contorsion."""
    return largest(subject.koszul(sample.q) - _low(subject, sample.q, wrong, "(8)")), subject.scale(sample.q)


@proposition(
    "(9)", "Gamma*_ijk = Gamma*_i(jk) + s_ijk / 2, symmetric part from Hamel's equations", riemannian=True
)
def symmetric_part(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the connection less a contorsion."""
    built = subject.hamel_symbols(sample.q) + 0.5 * subject.s_low(sample.q)
    return largest(built - _low(subject, sample.q, wrong, "(9)")), subject.scale(sample.q)


def _low(subject: Subject, q: Array, wrong: bool, salt: str) -> Array:
    Gamma = subject.first_kind(q)
    return Gamma - random_contorsion(subject.rng(salt), subject.n, subject.scale(q)) if wrong else Gamma


class Chart:
    """Coordinates xi -> retract(q, xi) around a point: where the classical formula (5) applies."""

    def __init__(self, system: MechanicalSystem) -> None:
        metric = system.metric
        self._pieces = Batch(PytreePartial(_pieces_at, metric), 1 + len(stencil(metric.frame.dim)))

    @classmethod
    def of(cls, subject: Subject) -> Chart:
        """The subject's charts, compiled once."""
        return shared(cls, subject.system)

    def metric_and_fields(
        self, subject: Subject, q: Array
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """(G, dG[a, b, c]) and (W, dW[a, b, k]) at xi = 0: metric and frame fields in the chart."""
        shifts = np.vstack([np.zeros((1, subject.n)), stencil(subject.n)])
        pairs = np.concatenate([np.broadcast_to(q, (len(shifts), q.size)), shifts], axis=1)
        metric, fields = np.moveaxis(self._pieces(pairs), 1, 0)
        return (metric[0], differences(metric[1:], subject.n)), (
            fields[0],
            differences(fields[1:], subject.n),
        )


def _pieces_at(metric: Metric, pair: jax.Array) -> jax.Array:
    """The metric in the chart around q, and the frame's fields there, (2, n, n), at xi, of [q, xi]."""
    frame = metric.frame
    q, xi = pair[: frame.ambient_dim], pair[frame.ambient_dim :]
    point, J = frame.retract_at(q, xi), jax.jacfwd(frame.retract_at, argnums=1)(q, xi)
    A = frame.dual_at(point) @ J
    return jnp.stack([A.T @ metric.matrix_at(point) @ A, jnp.linalg.inv(A)])
