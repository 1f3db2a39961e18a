"""Decoupling directions at a point: the zeros of u -> <Y_u : Y_u> modulo the inputs, Y_u = u^a Y_a.

With N an orthonormal basis of the complement of the inputs, sought are the common zeros of the forms
B^l_ab = N_l . <Y_a : Y_b>, l = 1 .. m - a. Two inputs give binary quadratics, solved in closed form; for
more, the inputs, the roots of every pair of inputs and zeros by Newton's method from random starts are taken.

Components are in units in which those of inputs and products are of size one, and inputs in units in which
the forms are, so that forms in other units are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from connections.control.controllability.ranks import ROUND_OFF, scaled
from connections.control.controllability.symmetric_products import Jet, input_words, symmetric

Array = np.ndarray[Any, Any]
_CERTAIN = 1e6  # times round-off: entries of a form that are certainly not zero
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
    units : (a,) of the inputs, beside the jet's, in which independence is tested.
    """

    columns: Array
    every: bool
    complete: bool
    units: Array

    @property
    def spanning(self) -> Array | None:
        """(a, a) independent columns, or None if there are fewer."""
        a = len(self.columns)
        chosen: list[int] = []
        balanced = self.columns / self.units[:, None]
        balanced = balanced / np.linalg.norm(balanced, axis=0)
        for k in range(self.columns.shape[1]):
            trial = balanced[:, [*chosen, k]]
            if np.linalg.svd(trial, compute_uv=False)[-1] > 1e-6:
                chosen.append(k)
        return self.columns[:, chosen] if len(chosen) == a else None


def of_inputs(jet: Jet, columns: Array) -> Array:
    """Directions (a, k) as combinations of the inputs themselves, of unit length."""
    given = jet.units.inputs[:, None] * columns
    return np.asarray(given / np.linalg.norm(given, axis=0))


@dataclass(frozen=True, eq=False)
class Forms:
    """The quadratic forms u -> N_l . <Y_u : Y_u>, in units of the inputs in which they are of size one.

    Parameters
    ----------
    values : (l, a, a) symmetric; entries that are round-off of their own terms are zero.
    noise : what round-off may be, in the Frobenius norm of all.
    units : (a,) of the inputs, beside the jet's: components u of the jet are `units` times those here.
    certain : whether every entry is either round-off or far from it.
    """

    values: Array
    noise: float
    units: Array
    certain: bool


def forms_of(jet: Jet, tol: float) -> Forms:
    """B[l, a, b] = N_l . <Y_a : Y_b> at the point, l = 1 .. m - a."""
    inputs = input_words(jet.system.count)
    count = len(inputs)
    pairs = [symmetric(inputs[min(a, b)], inputs[max(a, b)]) for a in range(count) for b in range(count)]
    values, sizes = jet.scaled([*inputs, *pairs], ambient=False)
    rows = scaled(values, sizes, ROUND_OFF).rows[:, None]
    Y, products = np.split(rows * values, [count], axis=1)
    Y_noise, noise = np.split(ROUND_OFF * rows * sizes, [count], axis=1)
    N = np.linalg.svd(Y / np.linalg.norm(Y, axis=0))[0][:, count:]
    along = np.linalg.lstsq(Y / np.linalg.norm(Y, axis=0), products, rcond=None)[0]
    noise = np.abs(N.T) @ (noise + Y_noise / np.linalg.norm(Y, axis=0) @ np.abs(along))
    forms = N.T @ products
    certain = not ((np.abs(forms) > noise) & (np.abs(forms) < _CERTAIN * noise)).any()
    forms = np.where(np.abs(forms) > noise, forms, 0.0).reshape(-1, count, count)
    units = _units_of(np.linalg.norm(forms, axis=0))
    square = np.outer(units, units)
    total = float(np.linalg.norm(noise.reshape(forms.shape) * square))
    return Forms(forms * square, total, units, certain)


def _units_of(form: Array) -> Array:
    """d (a,) of the scaling d_a d_b form_ab that is nearest to one in logarithms, zeros left out."""
    kept = form > 0.0
    normal = kept + np.diag(kept.sum(axis=1))
    right = np.log(np.where(kept, form, 1.0)).sum(axis=1)
    return np.asarray(np.exp(-np.linalg.lstsq(normal.astype(float), right, rcond=1e-10)[0]))


def decoupling_directions(jet: Jet, tol: float) -> Directions:
    """The decoupling directions at the jet's point."""
    found, count = forms_of(jet, tol), jet.system.count
    forms, units = found.values, found.units
    if not forms.any():
        return Directions(np.eye(count), True, True, units)
    if count == 1:
        return Directions(np.zeros((1, 0)), False, True, units)
    scale = np.max(np.abs(forms))
    zeros: list[Array] = []
    for unit in np.eye(count):
        _add(zeros, unit, forms, scale, tol)
    for a, b in combinations(range(count), 2):
        for root in _pair(forms[:, [[a, a], [b, b]], [[a, b], [a, b]]] / scale, tol):
            u = np.zeros(count)
            u[[a, b]] = root
            _add(zeros, u, forms, scale, tol)
    if count > 2:
        rng = np.random.default_rng(0)
        for start in rng.standard_normal((_STARTS * count, count)):
            _add(zeros, _newton(forms / scale, start), forms, scale, tol)
    columns = units[:, None] * np.stack(zeros, axis=1) if zeros else np.zeros((count, 0))
    return Directions(columns / np.linalg.norm(columns, axis=0), False, count == 2, units)


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
