"""When a motion from rest can move a function of the configuration to one side only: a proof of no control.

Y_a are the inputs, Y_u = u^a Y_a, and D is the distribution of the connection (TQ, if nothing constrains it).

**Lemma.** Let phi be a function near q with d phi(Y_a) = 0 and d phi /= 0 on D, and let

    Hess(v, v) = v(v phi) - d phi(nabla_v v) >= 0   for all v of D with d phi(v) = 0, at all points near q.

Then phi never decreases along a motion from rest that stays near q, whatever the controls; so q is no inner
point of what can be reached. Proof: phi' = d phi(v), and phi'' = Hess(v, v) because d phi(Y_u) = 0. With a
field e of D with d phi(e) = 1, v = v_0 + phi' e and d phi(v_0) = 0; so phi'' >= -C |v| |phi'|. Where
phi' < 0, that is phi'' >= C |v| phi'; but phi' starts at zero, so it never is, by Gronwall's inequality.

For an input and a field W of D,

    Hess(Y_u, Y_u) = -d phi(<Y_u : Y_u>) / 2,    Hess(Y_u, W) + Hess(W, Y_u) = -d phi(<Y_u : W> - [Y_u, W]);

modulo the inputs, no derivative of u or W enters.

**Theorem.** Let the inputs be involutive near q, and let N, the directions u for which <Y_u : Y_b> is in the
span of the inputs for every b, have one dimension near q. Let a covector lambda annihilate the inputs at q,
and let the form u -> lambda(<Y_u : Y_u>) be definite beside N. If also

- N = 0 (the form is definite), or
- D has only one dimension more than the inputs, or
- <Y_u : W> - [Y_u, W] is in the span of the inputs for every u of N and W of D, near q,

then the system is not locally configuration controllable at q.

Proof: straighten the inputs; the other coordinates are z, zero at q. Choose the sign of lambda such that
-lambda(<Y_u : Y_u>) >= 0, and phi = lambda z + k |z|^2 / 2. Let v = Y_n + Y_m + W be of D with d phi(v) = 0,
n in N, m beside it, and W beside the inputs, so that d phi(W) = 0. Then Hess(Y_m, Y_m) >= c |m|^2, because it
is so at q, and d phi is near lambda where k |z| is small. The terms of n with n and with m vanish by the
definition of N, for every covector. The terms of m with W are at least -C |m| |W|. Those of n with W vanish
in the first and the third case; in the second, W = 0. And Hess(W, W) >= (k b - C) |W|^2, b > 0. Here b, c and
C do not depend on k if the neighbourhood shrinks as k grows; with a large k the sum is not negative.

A form that is definite at q is so nearby. A semidefinite one says nothing by itself: with

    w_1' = y_1^2 + y_3 w_2,  w_2' = y_2 w_1        (w = z', y = x')

small loops of x_2 and x_3 turn a positive w_1 into a negative one; and with z'' = (x_1')^2 + x_1 (x_2')^2 the
form is semidefinite at x_1 = 0, but moves z down where x_1 < 0. Nor is the theorem all that is true: with
z_1'' = (x_1')^2, z_2'' = x_1' x_2', z_1 never decreases, but N = 0, and no form is definite.

An entry of a form is taken as zero only where it is round-off of its own terms, and forms are judged in units
of the inputs in which they are of size one; what is in doubt says nothing.

What must hold near q is tested at q and at points in general position, as for closures: if an analytic system
has the same rank there, it has it near q. For N some are far away, where what is flat at q shows.
Source: the theorem is this project's; [AL] has one input; [HL] use such forms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from connections.control.controllability.directions import Forms, forms_of
from connections.control.controllability.field_closures import jets_near
from connections.control.controllability.ranks import numerical_rank, outside
from connections.control.controllability.symmetric_products import (
    Jet,
    Word,
    bracket,
    frame_words,
    input_words,
    symmetric,
)

Array = np.ndarray[Any, Any]
_DEFINITE = 1e-4  # of the largest entry of the forms: an eigenvalue below it is not counted as positive
_UNCLEAR = 1e2  # times the tolerance: a singular value above it is certainly not zero
_FAR = 0.5, 2.0  # in units of the distance in which the system changes


def one_sided(jets: list[Jet], tol: float) -> str | None:
    """The reason why a function moves to one side only, or None if the theorem says nothing.

    Parameters
    ----------
    jets : the system at the point and at its neighbours.
    tol : of ranks.

    Source: the theorem above.
    """
    system = jets[0].system
    forms = forms_of(jets[0], tol)
    if not forms.values.any() or not forms.certain or not _involutive(jets, tol):
        return None
    if system.count == 1:
        return "the single input Y is not parallel to <Y:Y>: one side is out of reach"
    if _definite(forms.values, forms.noise):
        return "the inputs are involutive and <Y_u:Y_u> is definite beside them: one side is out of reach"
    split = _kernel(forms, tol)
    if split is None or not _definite(split[1].T @ forms.values @ split[1], forms.noise):
        return None
    rank, beyond = split[1].shape[1], system.frame.dim - system.count
    beside = [jet for reach in _FAR for jet in jets_near(system, jets[0].q, reach)[1:]]
    if not all(_stays(jet, rank, beyond > 1, tol) for jet in [*jets, *beside]):
        return None
    what = f"<Y_u:Y_u> is semidefinite beside them, of rank {rank} around the point"
    return f"the inputs are involutive and {what}: one side is out of reach"


def _definite(forms: Array, noise: float) -> bool:
    """Whether a combination of forms (l, r, r) is definite, beyond round-off."""

    def least(weights: Array) -> float:
        total = np.tensordot(weights / max(np.linalg.norm(weights), 1e-12), forms, axes=1)
        return -float(np.linalg.eigvalsh(total)[0])

    starts = [sign * row for row in np.eye(len(forms)) for sign in (1.0, -1.0)]
    starts += list(np.random.default_rng(0).standard_normal((4, len(forms))))
    best = min((minimize(least, start, method="Nelder-Mead") for start in starts), key=lambda r: r.fun)
    return bool(-best.fun > max(_DEFINITE * float(np.max(np.abs(forms))), _UNCLEAR * noise))


def _kernel(forms: Forms, tol: float) -> tuple[Array, Array] | None:
    """Orthonormal bases (a, a - r) of the common kernel of forms (l, a, a) and (a, r) of the rest.

    None if the kernel is not clear: what belongs to it is zero to round-off.
    """
    _, s, rows = np.linalg.svd(forms.values.reshape(-1, forms.values.shape[-1]))
    s = np.append(s, np.zeros(len(rows) - len(s)))
    zero = s <= min(tol * s[0], forms.noise)
    if not (zero | (s >= _UNCLEAR * max(tol * s[0], forms.noise))).all():
        return None
    rank = int(np.sum(~zero))
    return rows[rank:].T, rows[:rank].T


def _stays(jet: Jet, rank: int, several: bool, tol: float) -> bool:
    """Whether the forms have this rank at a point, and N is apart, beside `several` other dimensions."""
    inputs, sizes = jet.scaled(input_words(jet.system.count), ambient=False)
    if not (np.isfinite(inputs).all() and np.isfinite(sizes).all()):
        return False
    forms = forms_of(jet, tol)
    split = _kernel(forms, tol) if forms.values.any() and forms.certain else None
    if split is None or split[1].shape[1] != rank:
        return False
    return not several or _apart(jet, forms.units[:, None] * split[0], tol)


def _apart(jet: Jet, kernel: Array, tol: float) -> bool:
    """Whether <Y_u : W> - [Y_u, W] is in the span of the inputs, for u of the kernel (a, k) and W of D."""
    inputs, fields = input_words(jet.system.count), frame_words(jet.system.count, jet.system.frame.dim)
    span = jet.scaled(inputs, ambient=True)
    for W in fields:
        products, sizes = jet.scaled([symmetric(a, W) for a in inputs], ambient=True)
        brackets, more = jet.scaled([bracket(a, W) for a in inputs], ambient=True)
        columns, terms = (products - brackets) @ kernel, (sizes + more) @ np.abs(kernel)
        for column, size in zip(columns.T, terms.T, strict=True):
            if outside(column, size, *span, tol) != (False, True):
                return False
    return True


def _involutive(jets: list[Jet], tol: float) -> bool:
    """Whether the inputs span an involutive distribution, as far as q and its neighbours tell."""
    system = jets[0].system
    start = input_words(system.count)
    words: list[Word] = [*start, *(bracket(a, b) for i, a in enumerate(start) for b in start[i + 1 :])]
    ranks = [numerical_rank(*jet.scaled(words, ambient=True), system.dim, tol) for jet in jets]
    return all(rank.value == system.count and rank.clear for rank in ranks)
