"""Checks of [Z] section 3: the constrained connection, its equations of motion, its tensors.

One side of every row is the library's; the other is a `StencilValues`: differences on the manifold, the block
system with multipliers, and SciPy's integrator. Round-off of a difference is relative to the values of a
field, not to its derivative, so the scales contain fields and their derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine import ConstrainedConnection
from connections.coriolis import NonholonomicSystem
from connections.verify.measurement import Proposition, Sample, stated
from connections.verify.nonholonomic_subjects import NonholonomicSubject, StencilValues
from connections.verify.numerics import (
    Array,
    differences,
    koszul_by_differences,
    largest,
    spray_of,
    stencil,
)

FLOW_TIME = 0.4
_INSTANTS = 1e-3 * np.array([-2.0, -1.0, 1.0, 2.0])  # about the time zero, and a rate there by differences
_IN_TIME = np.array([1.0, -8.0, 8.0, -1.0]) / 12e-3

PROPOSITIONS: list[Proposition] = []
_row = partial(stated, PROPOSITIONS, kind=NonholonomicSubject)


def _wide(subject: NonholonomicSubject) -> bool:
    """Whether there are at least two feasible fields; with one, torsion and curvature vanish."""
    return subject.m >= 2


def _disturbed(subject: NonholonomicSubject, tensor: Array, wrong: bool, salt: str) -> Array:
    """The tensor; for a control, the tensor plus a random one of its size, at least one half."""
    size = max(0.5, largest(tensor))
    return tensor + size * subject.rng(salt).normal(size=tensor.shape) if wrong else tensor


def _coefficients(subject: NonholonomicSubject, q: Array, wrong: bool = False, salt: str = "") -> Array:
    """Gamma~^k_ij of the connection under test, (m, m, m); disturbed for a control."""
    return _disturbed(subject, np.asarray(subject.nabla.coefficients(q)), wrong, salt)


def _unit_covector(subject: NonholonomicSubject, q: Array, salt: str) -> Array:
    """A random covector (n,), of components of order one in an orthonormal frame."""
    return np.linalg.solve(subject.jet(q).orthonormal.T, subject.rng(salt).normal(size=subject.n))


def _unit_velocity(subject: NonholonomicSubject, sample: Sample) -> Array:
    """A velocity of length one, with components in an orthonormal basis that are equal up to signs."""
    signs = np.sign(subject.rng("flow" + str(sample.q)).normal(size=subject.m))
    Hbar = subject.jet(sample.q)["Hbar"]
    return np.linalg.solve(np.linalg.cholesky(Hbar).T, signs / np.sqrt(subject.m))


def _raised(jet: StencilValues) -> Array:
    """The terms of H^-1 H over a unit of length, (n, n), the scale of round-off of its differences."""
    terms: Array = np.abs(np.linalg.inv(jet["H"])) @ np.abs(jet["H"])
    return terms


# --- the equations of motion ----------------------------------------------------------------------------


@_row("Z (4)", "constraint force and W^T lambda of the library against the block system with multipliers")
def multipliers(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: another covector acts."""
    q, jet, system = sample.q, subject.jet(sample.q), subject.pushed
    F, V = _unit_covector(subject, q, "(4)"), jet["A"] @ sample.v
    acting = _unit_covector(subject, q, "(4) control") if wrong else F
    a, solved = jet.acceleration(V, acting)
    expected = jet["W"].T @ solved
    force = np.asarray(system.constraint_force(q, sample.v, F))
    built = np.asarray(subject.nabla.forms(q)).T @ np.asarray(system.multipliers(q, sample.v, F))
    gaps = np.stack([force - expected, built - expected])
    terms = np.stack([F, jet["H"] @ a, jet.bias(V), jet.slope("V"), expected])
    return largest(gaps @ jet.orthonormal), largest(terms @ jet.orthonormal)


@_row("Z power", "the constraint force does no work on the null space of the forms, by SVD")
def no_work(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: velocities that are not feasible."""
    q, jet = sample.q, subject.jet(sample.q)
    F, E = _unit_covector(subject, q, "power"), jet.orthonormal
    force = np.asarray(subject.pushed.constraint_force(q, sample.v, F)) @ E
    right, p = np.linalg.svd(jet["W"] @ E)[2], len(jet["W"])
    velocities = right[:p] if wrong else right[p:]
    return largest(velocities @ force), largest(force, F @ E)


@_row("Z (5)", "forward dynamics in the basis against the block system with multipliers")
def forward_dynamics(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: without the constraints."""
    q, v, jet = sample.q, sample.v, subject.jet(sample.q)
    V, (u, F) = jet["A"] @ v, _acting(subject, sample)
    raised = np.linalg.solve(jet["H"], np.stack([F, jet.bias(V), jet.slope("V")], axis=1))
    a = raised @ [1.0, -1.0, -1.0] if wrong else jet.acceleration(V, F)[0]
    turning = np.tensordot(V, jet.slope("A"), axes=1) @ v
    pushed = jet["A"] @ np.asarray(subject.system.forward_dynamics(q, v, u))
    terms = np.column_stack([pushed, turning, a, raised])
    return largest(jet.in_units(pushed + turning - a)), largest(jet.in_units(terms))


@_row("Z energy", "power balance of the library's motion: rates of energy by differences, along v")
def power_balance(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the accelerations of another connection."""
    v, jet = sample.v, subject.jet(sample.q)
    V, (u, F) = jet["A"] @ v, _acting(subject, sample)
    v_dot = np.asarray(subject.system.forward_dynamics(sample.q, v, u))
    v_dot = _disturbed(subject, v_dot, wrong, "energy")
    H_dot = np.tensordot(V, jet.slope("Hbar"), axes=1)
    terms = np.array([v @ jet["Hbar"] @ v_dot, 0.5 * v @ H_dot @ v, jet.slope("V") @ V, -F @ V])
    return abs(float(np.sum(terms))), largest(terms, np.abs(v) @ np.abs(jet["Hbar"]) @ np.abs(v_dot))


@_row("Z moving", "forward dynamics on constraints that move, against the block system with multipliers")
def moving_constraints(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the constraints of a system without a drift."""
    jet, (_, F), moved = subject.jet(sample.q), _acting(subject, sample), _DriftingMotion(subject, sample)
    V, W_dot = moved.V, np.tensordot(moved.V, jet.slope("W"), axes=1)
    moved_by = np.zeros(len(W_dot)) if wrong else W_dot @ moved.drift + jet["W"] @ moved.drift_rate
    bottom = moved_by - W_dot @ V
    a = jet.block_solve(F - jet.bias(V) - jet.slope("V"), bottom)[0]
    raised = np.linalg.solve(jet["H"], np.stack([F, jet.bias(V), jet.slope("V")], axis=1))
    terms = np.column_stack([moved.acceleration, moved.drift_rate, a, raised])
    return largest(jet.in_units(moved.acceleration - a)), largest(jet.in_units(terms))


@_row("Z moving power", "the rate of the energy is <R, v_0> and the power of forces, rates by differences")
def moving_power(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: without the power of the constraint force."""
    jet, (_, F), moved = subject.jet(sample.q), _acting(subject, sample), _DriftingMotion(subject, sample)
    V, a, H = moved.V, moved.acceleration, jet["H"]
    H_dot = np.tensordot(V, jet.slope("H"), axes=1)
    worked = -float(moved.power) * (not wrong)
    terms = np.array([V @ H @ a, 0.5 * V @ H_dot @ V, jet.slope("V") @ V, -F @ V, worked])
    return abs(float(np.sum(terms))), largest(terms, np.abs(V) @ np.abs(H) @ np.abs(a))


class _DriftingMotion:
    """The library's motion with a drift: the subject's own, or a random one.

    The rates of basis and drift are by differences: acceleration = A vbardot + Adot vbar + v_0dot.
    """

    def __init__(self, subject: NonholonomicSubject, sample: Sample) -> None:
        jet, (u, _), n = subject.jet(sample.q), _acting(subject, sample), subject.n
        b = subject.rng("drift").normal(size=(3, n))
        b[:2] = b[:2] @ jet.orthonormal.T
        points = np.concatenate([sample.q[None], subject.numerics.retract(sample.q, stencil(n))])
        v_dot, self.power, values, later = map(
            np.asarray, subject.compiled(_moved_at, subject.drift)(points, sample.v, u, b)
        )
        self.drift = values[0]
        self.V = jet["A"] @ sample.v + self.drift
        self.drift_rate = self.V @ differences(values[1:], n) + _IN_TIME @ later
        turning = np.tensordot(self.V, jet.slope("A"), axes=1) @ sample.v
        self.acceleration = jet["A"] @ v_dot + turning + self.drift_rate


def _moved_at(
    system: NonholonomicSystem,
    own: Callable[..., Any] | None,
    q: jax.Array,
    v: jax.Array,
    u: jax.Array,
    b: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """vbardot and the power of the constraint at q[0], the drifts at points q (k, nq), and at q[0] later."""
    drift = own or (lambda t, p: b[0] + b[1] * jnp.sin(b[2] + jnp.sum(p) + t))
    feasible, forces, inputs = system.connection.distribution, system.forces, system.inputs
    nabla = ConstrainedConnection(
        feasible.metric, feasible, ambient=system.connection.ambient
    )  # of one frame
    moving = NonholonomicSystem(nabla, system.potential, forces, inputs, drift=drift)
    acting = moving.forward_dynamics_at(q[0], v, u), moving.constraint_power_at(q[0], v, u)
    return *acting, jax.vmap(moving.drift_at)(q), jax.vmap(lambda t: moving.drift_at(q[0], t))(_INSTANTS)


def _acting(subject: NonholonomicSubject, sample: Sample) -> tuple[Array, Array]:
    """Random controls u that accelerate by about one, and the covector (n,) of them and of the forces."""
    system, jet = subject.system, subject.jet(sample.q)
    u = subject.rng("controls").normal(size=system.controls)
    u = u / (largest(u @ jet["inputs"] @ jet.orthonormal) or 1.0)
    F = jet["inputs"].T @ u
    if system.forces is not None:
        F = F + np.asarray(system.forces_at(0.0, jnp.asarray(sample.q), jnp.asarray(sample.v)))
    return u, F


# --- the connection -------------------------------------------------------------------------------------


@_row("Z (6)", "nabla_X Y + (nabla_X P_perp)(Y) for any fields, P_perp from the forms and by differences")
def lemma_formula(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the derivative of the projection forgotten."""
    jet, full = subject.jet(sample.q), np.asarray(subject.nabla.full.coefficients(sample.q))
    expected = jet.symbols if wrong else jet.lemma_3_1
    return largest(full - expected), largest(full, jet.symbols, jet.slope("P_perp"), _raised(jet))


@_row("Z (7)", "A Gamma~ = P nabla_{X_i} X_j, P by the block system with multipliers")
def projected(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: not projected."""
    jet = subject.jet(sample.q)
    turned = jet.derivative(jet["A"], "A")
    library = np.tensordot(jet["A"], _coefficients(subject, sample.q), axes=1)
    expected = turned if wrong else jet.feasible(turned)
    return largest(library - expected), largest(library, turned, jet.slope("A"), jet["A"])


@_row("Z Lemma 3.1", "geodesics of the full connection from D: motions with multipliers, and they stay in D")
def motions(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: geodesics of the ambient connection."""
    jet, nabla = subject.jet(sample.q), subject.nabla
    start = (sample.q, jet["A"] @ _unit_velocity(subject, sample), FLOW_TIME)

    def with_multipliers(q: Array, V: Array) -> Array:
        here = subject.fresh_jet(q)
        return -here.acceleration(V, here.slope("V"))[0]  # the force cancels the potential's

    def symbols(q: Array) -> Array:
        return subject.fresh_jet(q).symbols if wrong else np.asarray(nabla.full.coefficients(q))

    q, V = subject.numerics.geodesic(spray_of(symbols), *start)
    p, U = subject.numerics.geodesic(with_multipliers, *start)
    leaving = subject.fresh_jet(q)["P_perp"] @ V
    way, speed = largest(q - sample.q, p - sample.q), largest(V, U)
    return largest(largest(q - p) / way, largest(V - U, leaving) / speed), 1.0


# --- Theorem 3.2 ----------------------------------------------------------------------------------------


class _OrthogonalBasis:
    """A basis E = A B of the distribution, orthogonal in the metric; its lengths change and are not one."""

    def __init__(self, subject: NonholonomicSubject, q: Array) -> None:
        rng, m = subject.rng("orthogonal"), subject.m
        base = subject.jet(q)
        lengths, slope = rng.uniform(1.5, 2.5, m), 0.3 * rng.normal(size=(m, subject.n))
        sizes = lengths * np.exp(base.shifts @ slope.T)
        K = np.swapaxes(np.linalg.inv(np.linalg.cholesky(base.values("Hbar"))), 1, 2)
        B = K * sizes[:, None, :]
        values = {name: base.values(name) for name in ("H", "X")}
        self.jet = StencilValues(subject.n, values | {"E": base.values("A") @ B, "B": B})
        self.E, self.B = self.jet["E"], self.jet["B"]
        self.norms = np.einsum("ak,ab,bk->k", self.E, self.jet["H"], self.E)

    def divided(self, products: Array, wrong: bool) -> Array:
        """Products with E_k (m, ...) divided by |E_k|^2; for a control, not divided."""
        return products if wrong else products / self.norms.reshape((-1,) + (1,) * (products.ndim - 1))


@_row(
    "Z Thm 3.2", "<<E_k, nabla_{E_i} E_j>> / |E_k|^2 in an orthogonal basis, against the library's, carried"
)
def theorem(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: not divided by the squares of the lengths."""
    basis = _OrthogonalBasis(subject, sample.q)
    jet, E, B = basis.jet, basis.E, basis.B
    products = np.einsum("ak,ab,bij->kij", E, jet["H"], jet.derivative(E, "E"))
    expected = basis.divided(products, wrong)
    own = np.einsum("lab,ai,bj->lij", _coefficients(subject, sample.q), B, B)
    dB = np.transpose(jet.along(E, "B"), (1, 0, 2))  # [l, i, j] = L_{E_i} B^l_j
    carried = np.linalg.solve(B, (own + dB).reshape(len(B), -1)).reshape(own.shape)
    return largest(carried - expected), largest(carried, own, dB, products)


@_row("Z Thm 3.2 forms", "input coefficients <F_a, E_k> / |E_k|^2 of covectors, orthogonal basis, carried")
def inputs(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: not divided by the squares of the lengths."""
    basis = _OrthogonalBasis(subject, sample.q)
    F = subject.rng("inputs").normal(size=(2, subject.n))
    library = np.asarray(subject.compiled(_input_coefficients_at)(sample.q, F))
    carried = np.linalg.solve(basis.B, library)
    products = basis.E.T @ F.T
    return largest(carried - basis.divided(products, wrong)), largest(carried, library, products)


@_row("Z Thm 3.2 functions", "input coefficients L_{E_k} phi_a / |E_k|^2 of differentials, by differences")
def inputs_of_functions(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: not divided by the squares of the lengths."""
    q, basis, nq = sample.q, _OrthogonalBasis(subject, sample.q), sample.q.size
    b = subject.rng("functions").normal(size=(2, nq)) / np.sqrt(nq)
    library = np.asarray(subject.compiled(_coefficients_of_functions_at)(q, b))
    slopes = subject.numerics.derivative(lambda points: np.sinh(points @ b.T), q)
    products, carried = basis.E.T @ slopes, np.linalg.solve(basis.B, library)
    return largest(carried - basis.divided(products, wrong)), largest(carried, library, products, slopes)


def _input_coefficients_at(system: NonholonomicSystem, q: jax.Array, F: jax.Array) -> jax.Array:
    return system.connection.input_coefficients_at(lambda p: F, q)


def _coefficients_of_functions_at(system: NonholonomicSystem, q: jax.Array, b: jax.Array) -> jax.Array:
    return system.connection.input_coefficients_of_functions_at(lambda p: jnp.sinh(b @ p), q)


@_row(
    "Z Lemma 3.3",
    "coefficients are invariant: the library's at q, differences at Phi_g(q)",
    lambda subject: subject.action is not None,
)
def invariance(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: other coefficients."""
    action = subject.action
    assert action is not None
    g = np.asarray(action.identity) + 0.5 * subject.rng("group").normal(size=np.shape(action.identity))
    moved = np.asarray(action.act(sample.q, g))
    library = _coefficients(subject, sample.q, wrong, "Lemma 3.3")
    jet = subject.jet(moved)
    return largest(library - jet.coefficients), largest(library, jet.slope("A"), jet.slope("Hbar"), 1.0)


# --- what is compatible with what -----------------------------------------------------------------------


@_row("Z metric", "metric compatible on D: L_{X_i} Hbar_jk = Gamma~_kij + Gamma~_jik, Hbar by differences")
def compatible(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: other coefficients."""
    jet = subject.jet(sample.q)
    low = np.tensordot(jet["Hbar"], _coefficients(subject, sample.q, wrong, "metric"), axes=1)
    slopes = jet.along(jet["A"], "Hbar")
    gap = slopes - np.transpose(low, (1, 2, 0)) - np.transpose(low, (1, 0, 2))
    return largest(gap), largest(slopes, low, jet["Hbar"])


@_row("Z transport", "parallel transport along D keeps inner products, SciPy's flow")
def transport(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: other coefficients."""
    jet, m = subject.jet(sample.q), subject.m
    L = np.linalg.cholesky(jet["Hbar"])
    Z = np.linalg.solve(L.T, np.eye(m))  # orthonormal
    shift = np.zeros((m, m, m))
    if wrong:
        size = subject.rng("transport").normal(size=(m, m, m))
        shift = np.einsum("la,abc,bj,ck->ljk", Z, size, L.T, L.T)
    xi = _unit_velocity(subject, sample)
    end, carried = subject.on_distribution.flow(
        lambda q: _coefficients(subject, q) + shift, sample.q, xi, Z, FLOW_TIME
    )
    products = carried.T @ subject.fresh_jet(end)["Hbar"] @ carried
    return largest(products - np.eye(m)), 1.0


@_row("Z torsion", "Gamma~^k_ij - Gamma~^k_ji = P [X_i, X_j], brackets by differences", _wide)
def torsion(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: other coefficients."""
    jet, Gamma = subject.jet(sample.q), _coefficients(subject, sample.q, wrong, "torsion")
    brackets = jet.components(jet.feasible(jet.brackets))
    gap = Gamma - np.swapaxes(Gamma, 1, 2) - brackets
    return largest(gap), largest(Gamma, brackets, jet.brackets, jet.slope("A"), jet["A"])


@_row("Z Koszul", "Gamma~_kij by Koszul's formula with the brackets P [X_i, X_j], all by differences")
def koszul(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: other coefficients."""
    jet = subject.jet(sample.q)
    low = np.tensordot(jet["Hbar"], _coefficients(subject, sample.q, wrong, "Koszul"), axes=1)
    slopes = jet.along(jet["A"], "Hbar")
    s_low = np.einsum("ak,ab,bij->kij", jet["A"], jet["H"], jet.brackets)  # <<X_k, P [X_i, X_j]>>
    return largest(koszul_by_differences(slopes, s_low) - low), largest(slopes, s_low, low, jet["Hbar"])


@_row("Z full torsion", "on D the torsion of the full connection is -(1 - P) [X_i, X_j]", _wide)
def full_torsion(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: other brackets."""
    jet, Gamma = subject.jet(sample.q), np.asarray(subject.nabla.full.coefficients(sample.q))
    T = np.einsum("abc,bi,cj->aij", Gamma - np.swapaxes(Gamma, 1, 2) - jet.s, jet["A"], jet["A"])
    leak = _disturbed(subject, jet.leak, wrong, "full torsion")
    return largest(T + leak), largest(T, leak, jet.brackets, Gamma, jet.s, jet["A"], _raised(jet))


@_row("Z full metric", "the full connection is metric compatible for sections of D; off D it is not")
def full_metric(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: one of the sections is not in D."""
    jet, Gamma = subject.jet(sample.q), np.asarray(subject.nabla.full.coefficients(sample.q))
    E, low = jet.orthonormal, np.tensordot(jet["H"], Gamma, axes=1)
    both = np.stack([jet.slope("H"), -np.transpose(low, (1, 2, 0)), -np.transpose(low, (1, 0, 2))])
    both = np.einsum("tabc,ai,bj,ck->tijk", both, E, E, E, optimize=True)
    feasible = np.linalg.qr(jet.in_units(jet["A"]))[0]
    other = np.linalg.qr((jet["W"] @ E).T)[0] if wrong else feasible
    Q = np.einsum("tijk,jb,kc->tibc", both, feasible, other, optimize=True)
    return largest(np.sum(Q, axis=0)), largest(both, 0.1)


# --- curvature ------------------------------------------------------------------------------------------


@_row("Z curvature", "R of the full connection on D, from eq. (6) and its derivatives by differences", _wide)
def curvature(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a random tensor added."""
    q, jet = sample.q, subject.jet(sample.q)
    Gamma = jet.lemma_3_1
    dGamma = subject.derivative_near(lambda here: here.lemma_3_1, q)  # [i, l, j, k]
    half = np.transpose(dGamma, (1, 3, 0, 2)) + np.einsum("lim,mjk->lkij", Gamma, Gamma)
    R = half - np.swapaxes(half, 2, 3) - np.einsum("mij,lmk->lkij", jet.s, Gamma)
    A = jet["A"]
    on_D = np.einsum("lKIJ,Kk,Ii,Jj->lkij", R, A, A, A, optimize=True)
    library = _disturbed(subject, np.asarray(subject.nabla.curvature(q)), wrong, "curvature")
    return largest(np.tensordot(A, library, axes=1) - on_D), largest(on_D, dGamma, Gamma**2, A)


@_row("Z Schouten", "Schouten's curvature less R is P nabla_Z (1 - P) [X, Y], by differences", _wide)
def schouten(subject: NonholonomicSubject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a random tensor added."""
    q, jet, nabla = sample.q, subject.jet(sample.q), subject.nabla
    K, R = np.asarray(nabla.schouten_curvature(q)), np.asarray(nabla.curvature(q))
    slopes = subject.derivative_near(lambda here: here.leak, q)  # [b, a, i, j]
    turned = np.tensordot(jet["A"].T, slopes, axes=1)
    turned = turned + np.einsum("abc,bk,cij->kaij", jet.symbols, jet["A"], jet.leak)
    expected = jet.components(jet.feasible(np.swapaxes(turned, 0, 1)))
    gap = _disturbed(subject, K - R, wrong, "Schouten") - expected
    return largest(gap), largest(K, R, expected, slopes, jet.leak)
