"""Decoupling directions at a point: the zeros of u -> <Y_u : Y_u> modulo the inputs, Y_u = u^a Y_a.

With N an orthonormal basis of the complement of the inputs, sought are the common zeros of the forms
B^l_ab = N_l . <Y_a : Y_b>, l = 1 .. m - a. Two inputs give binary quadratics, solved in closed form; for
more, the inputs, the roots of every pair of inputs and zeros by Newton's method from random starts are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from connections.control.controllability.products import Jet, input_words, symmetric
from connections.control.controllability.ranks import normalized

Array = np.ndarray[Any, Any]
_ROUGH = 1e-2  # times the tolerance: entries of a form below it, beside their terms, are round-off
_STARTS = 24  # random starts per input


@dataclass(frozen=True, eq=False)
class Directions:
    """Directions u (a,), of unit length, in which <Y_u : Y_u> lies in the span of the inputs at a point.

    Components are those of inputs of unit size, as the jet's are.

    Parameters
    ----------
    columns : (a, k) those found.
    every : whether every direction is one.
    complete : whether all have been found.
    """

    columns: Array
    every: bool
    complete: bool

    @property
    def spanning(self) -> Array | None:
        """(a, a) independent columns, or None where there are fewer."""
        a = len(self.columns)
        chosen: list[int] = []
        for k in range(self.columns.shape[1]):
            trial = self.columns[:, [*chosen, k]]
            if np.linalg.svd(trial, compute_uv=False)[-1] > 1e-6:
                chosen.append(k)
        return self.columns[:, chosen] if len(chosen) == a else None


def of_inputs(jet: Jet, columns: Array) -> Array:
    """Directions (a, k) as combinations of the inputs themselves, of unit length."""
    given = jet.units.inputs[:, None] * columns
    return np.asarray(given / np.linalg.norm(given, axis=0))


def forms_of(jet: Jet, tol: float) -> Array:
    """B[l, a, b] = N_l . <Y_a : Y_b> at the point, (m - a, a, a); round-off is set to zero.

    The rows are turned such that independent forms come first, and zero ones are left out.
    """
    inputs = input_words(jet.system.count)
    count = len(inputs)
    Y, Y_size = jet.scaled(inputs, ambient=False)
    pairs = [symmetric(inputs[min(a, b)], inputs[max(a, b)]) for a in range(count) for b in range(count)]
    values, sizes = jet.scaled(pairs, ambient=False)
    unit = normalized(Y, Y_size, tol)
    N = np.linalg.svd(unit, full_matrices=True)[0][:, count:]
    rows, noise = N.T @ values, np.max(sizes, axis=0)
    rows = np.where(np.abs(rows) > _ROUGH * tol * noise, rows, 0.0)
    if not rows.any():
        return np.zeros((0, count, count))
    _, s, turned = np.linalg.svd(rows, full_matrices=False)
    kept = s > tol * s[0]
    independent: Array = s[kept, None] * turned[kept]
    return independent.reshape(-1, count, count)


def decoupling_directions(jet: Jet, tol: float) -> Directions:
    """The decoupling directions at the jet's point."""
    forms, count = forms_of(jet, tol), jet.system.count
    if not len(forms):
        return Directions(np.eye(count), True, True)
    if count == 1:
        return Directions(np.zeros((1, 0)), False, True)
    scale = np.max(np.abs(forms))
    found: list[Array] = []
    for a in np.eye(count):
        _add(found, a, forms, scale, tol)
    for a, b in combinations(range(count), 2):
        for root in _pair(forms[:, [[a, a], [b, b]], [[a, b], [a, b]]] / scale, tol):
            u = np.zeros(count)
            u[[a, b]] = root
            _add(found, u, forms, scale, tol)
    if count > 2:
        rng = np.random.default_rng(0)
        for start in rng.standard_normal((_STARTS * count, count)):
            _add(found, _newton(forms / scale, start), forms, scale, tol)
    columns = np.stack(found, axis=1) if found else np.zeros((count, 0))
    return Directions(columns, False, count == 2)


def values_of(forms: Array, u: Array) -> Array:
    """B^l_ab u^a u^b, (l,)."""
    values: Array = np.einsum("lab,a,b->l", forms, u, u)
    return values


def _add(found: list[Array], u: Array, forms: Array, scale: float, tol: float) -> None:
    """Keep u, of unit length, if it is a zero and not parallel to one found before."""
    length = np.linalg.norm(u)
    if not np.isfinite(length) or length < 1e-9:
        return
    u = u / length
    u = u if u[np.argmax(np.abs(u))] > 0 else -u
    new = all(np.linalg.norm(u - v) > 1e-5 and np.linalg.norm(u + v) > 1e-5 for v in found)
    if new and np.max(np.abs(values_of(forms, u))) <= tol * scale:
        found.append(u)


def _pair(forms: Array, tol: float) -> list[Array]:
    """Candidates for common zeros of binary quadratics (l, 2, 2): the roots of each, double ones too."""
    sizes = np.max(np.abs(forms), axis=(1, 2))
    if not sizes.any():
        return [np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    roots = []
    for form in forms[sizes > tol]:
        a, b, c = form[0, 0], form[0, 1], form[1, 1]
        discriminant = b * b - a * c
        if discriminant < -tol * max(b * b, abs(a * c)):
            continue
        root = np.sqrt(max(discriminant, 0.0))
        s = -(b + root) if b >= 0 else -(b - root)  # a u + b v = +-root v, without cancellation
        roots += [np.array([s, a]), np.array([c, s])]
        roots += [np.array([-b, a]), np.array([c, -b])]
    return roots


def _newton(forms: Array, u: Array) -> Array:
    """A zero on the unit sphere near u by the Gauss-Newton method."""
    for _ in range(40):
        u = u / np.linalg.norm(u)
        residual = np.append(values_of(forms, u), 0.0)
        slope = np.vstack([2.0 * np.einsum("lab,b->la", forms, u), u])
        step = np.linalg.lstsq(slope, -residual, rcond=1e-10)[0]
        u = u + step
        if np.linalg.norm(step) < 1e-14:
            break
    return u
