"""Checks of [W] VI: one rigid body, (18), (19) and (21); systems of bodies, (20); joints, (32).

The formulas are written a second time here, in NumPy, because they are the independent route.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine import InducedConnection, LeviCivita
from connections.coriolis import MechanicalSystem
from connections.geometry import ConstantMetric, SE3Frame
from connections.multibody.definition import spatial
from connections.verify.coriolis import _half_derivative, _worst
from connections.verify.measurement import Proposition, Sample, stated
from connections.verify.numerics import Array, Batch, random_contorsion
from connections.verify.subjects import Subject, shared

PROPOSITIONS: list[Proposition] = []
proposition = partial(stated, PROPOSITIONS)

SAME = 1e-9  # two Coriolis matrices count as equal if they differ by less, relative to their scale


def has_bodies(subject: Subject) -> bool:
    """Whether the subject consists of rigid bodies."""
    return subject.bodies is not None


def is_induced(subject: Subject) -> bool:
    """Whether the connection under test is induced by bodies, so that Koszul's formula is another route."""
    return has_bodies(subject) and isinstance(subject.nabla, InducedConnection)


def cross(a: Array) -> Array:
    """(a x), (3, 3)."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def motion_cross_matrix(twist: Array) -> Array:
    """(v x) of a twist [omega; v], (6, 6)."""
    w, v = cross(twist[:3]), cross(twist[3:])
    return np.block([[w, np.zeros((3, 3))], [v, w]])


def bar_cross(wrench: Array) -> Array:
    """(f xbar*), (6, 6): (f xbar*) v = (v x*) f."""
    n, f = cross(wrench[:3]), cross(wrench[3:])
    return -np.block([[n, f], [f, np.zeros((3, 3))]])


def body_coriolis_18(inertia: Array, twist: Array) -> Array:
    """(1/2) [I (v x) + (v x*) I + (I v) xbar*], (6, 6)."""
    vx = motion_cross_matrix(twist)
    B: Array = 0.5 * (inertia @ vx - vx.T @ inertia + bar_cross(inertia @ twist))
    return B


def body_coriolis_19(inertia: Array, twist: Array) -> Array:
    """[[(Sigma w) x, (h x)(w x)], [-(w x)(h x), m (w x)]], (6, 6)."""
    rotational, hx, m = inertia[:3, :3], inertia[:3, 3:], inertia[5, 5]
    Sigma, wx = 0.5 * np.trace(rotational) * np.eye(3) - rotational, cross(twist[:3])
    return np.block([[cross(Sigma @ twist[:3]), hx @ wx], [-wx @ hx, m * wx]])


def _twists(subject: Subject, sample: Sample) -> list[tuple[Any, Any]]:
    """(inertia, body twist) of every body."""
    assert subject.bodies is not None
    A = _jacobians(subject)(sample.q[None])[0]
    return list(zip(subject.bodies.inertias, (A @ sample.v).reshape(-1, 6), strict=True))


def _jacobians(subject: Subject) -> Batch:
    assert subject.bodies is not None
    return subject.batch(_jacobians_at, subject.bodies.jacobians)


def _jacobians_at(
    system: MechanicalSystem, jacobians: Callable[[jax.Array], jax.Array], q: jax.Array
) -> jax.Array:
    return jacobians(q)


def has_solid_bodies(subject: Subject) -> bool:
    """Whether v^T I v is a metric for at least one body; it is singular for a rod or a planar link."""
    return subject.bodies is not None and any(_is_solid(inertia) for inertia in subject.bodies.inertias)


def _is_solid(inertia: Array) -> bool:
    return bool(np.linalg.eigvalsh(inertia)[0] > 1e-12 * np.trace(inertia))


def _of_bodies(gap: Any, inertia: Array, twist: Array) -> tuple[float, float]:
    """The largest entry of a difference of 6 x 6 matrices, and its scale, |I| |v|."""
    return float(np.max(np.abs(gap))), float(np.max(np.abs(inertia)) * np.sum(np.abs(twist))) + 1e-300


@proposition(
    "(18)", "Koszul's connection of the metric v^T I v on SE(3) is (18), body by body", has_solid_bodies
)
def rigid_body_connection(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the factor (v x*) I, which has torsion."""
    pairs = []
    koszul = subject.compiled(_koszul_of_body)
    for inertia, twist in _twists(subject, sample):
        if not _is_solid(inertia):
            continue
        C = np.einsum("ijk,j->ik", np.asarray(koszul(inertia)), twist)
        formula = -motion_cross_matrix(twist).T @ inertia if wrong else body_coriolis_18(inertia, twist)
        library = np.asarray(spatial.body_coriolis(inertia, twist))
        pairs += [_of_bodies(C - formula, inertia, twist), _of_bodies(C - library, inertia, twist)]
    return _worst(pairs)


def _koszul_of_body(system: MechanicalSystem, inertia: Any) -> jax.Array:
    """Gamma_ijk of the metric v^T I v on SE(3) by Koszul's formula, (6, 6, 6): the same everywhere."""
    metric = ConstantMetric(SE3Frame(), inertia)
    identity = jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    return jnp.einsum("il,ljk->ijk", inertia, LeviCivita(metric).coefficients_at(identity))


@proposition("(19)", "(18) = (19): the closed form, without the linear velocity", has_bodies)
def closed_form(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the rotational inertia in place of Sigma."""
    pairs = []
    for inertia, twist in _twists(subject, sample):
        C, library = body_coriolis_18(inertia, twist), spatial.body_coriolis_blocks(inertia, twist)
        closed = body_coriolis_19(inertia, twist)
        if wrong:
            closed[:3, :3] = cross(inertia[:3, :3] @ twist[:3] + twist[:3])
        pairs += [_of_bodies(C - form, inertia, twist) for form in (closed, np.asarray(library))]
    return _worst(pairs)


@proposition("(21)", "B = C - I (v x) in closed form", has_bodies)
def body_factor(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the lower left block left out."""
    pairs = []
    for inertia, twist in _twists(subject, sample):
        B = np.array(spatial.body_factor(inertia, twist))
        if wrong:
            B[3:, :3] = 0.0
        expected = body_coriolis_18(inertia, twist) - inertia @ motion_cross_matrix(twist)
        pairs.append(_of_bodies(B - expected, inertia, twist))
    return _worst(pairs)


@proposition(
    "(20)", "C* = sum_b J_b^T (C_b J_b + I_b J_b_dot), J_b_dot by differences", has_bodies, riemannian=True
)
def sum_over_bodies(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the factor (v x*) I for every body; where that is the same C, as for n <= 2, a contorsion."""
    C, factors = _sums(subject, sample)
    scale = subject.scale(sample.q)
    size = scale * float(np.sum(np.abs(sample.v)))
    if wrong and float(np.max(np.abs(factors - C))) > SAME * size:
        C = factors
    elif wrong:
        C = C + np.einsum("ijk,j->ik", random_contorsion(subject.rng("(20)"), subject.n, scale), sample.v)
    library = np.einsum("ijk,j->ik", subject.first_kind(sample.q), sample.v)
    return float(np.max(np.abs(C - library))), size


def _sums(subject: Subject, sample: Sample) -> tuple[Array, Array]:
    """sum_b J_b^T (C_b J_b + I_b J_b_dot) with C_b of (19), and with (v x*) I in its place."""
    assert subject.bodies is not None
    jacobians = _jacobians(subject)
    A = jacobians(sample.q[None])[0].reshape(-1, 6, subject.n)
    A_dot = subject.numerics.derivative_along(jacobians, sample.q, sample.v).reshape(A.shape)
    C, factors = np.zeros((2, subject.n, subject.n))
    for inertia, J, J_dot in zip(subject.bodies.inertias, A, A_dot, strict=True):
        twist = J @ sample.v
        C += J.T @ (body_coriolis_19(inertia, twist) @ J + inertia @ J_dot)
        factors += J.T @ (inertia @ J_dot - motion_cross_matrix(twist).T @ inertia @ J)
    return C, factors


@proposition(
    "model",
    "the connection induced by the bodies is Koszul's of the mass matrix",
    is_induced,
    riemannian=True,
)
def induced_is_koszul(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the same as for (20)."""
    koszul = shared(_levi_civita, subject.system)
    low = np.asarray(koszul.first_kind(sample.q, subject.metric))
    if not wrong:
        return float(np.max(np.abs(low - subject.first_kind(sample.q)))), subject.scale(sample.q)
    residual, scale = sum_over_bodies(subject, sample, True)
    return residual, scale


def _levi_civita(system: MechanicalSystem) -> LeviCivita:
    return LeviCivita(system.metric)


@proposition("(32)", "C* = (1/2) [d(Cv)/dv + H K], K from the joints' axes", has_bodies, riemannian=True)
def differentiation_32(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: C of a generic contorsion."""
    K = brackets_of_axes(subject, sample)
    return _half_derivative(subject, sample, 0.5 * subject.H(sample.q) @ K, wrong, "(32)")


def brackets_of_axes(subject: Subject, sample: Sample) -> Array:
    """K^i_k = s^i_jk v^j, (n, n), joint by joint: Phi K = (Phi v) x Phi + (D[:, j, k] - D[:, k, j]) v^j.

    In closed chains the joints are the independent ones. Each velocity is the rate of its own joint and does
    not depend on the others, so that its bracket with those of other joints is zero.
    """
    assert subject.bodies is not None
    K = np.zeros((subject.n, subject.n))
    for block, Phi, slopes in subject.bodies.axes(sample.q):
        v = sample.v[block]
        turning = np.einsum("ajk,j->ak", slopes - np.swapaxes(slopes, 1, 2), v)
        K[block, block] = np.linalg.pinv(Phi) @ (motion_cross_matrix(Phi @ v) @ Phi + turning)
    return K
