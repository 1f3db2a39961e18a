"""Checks of [W] V: metrics, connections and Coriolis matrices induced on a submanifold; Remarks 7 and 8.

The submanifold is random and curved, and contains the subject's first sample. It has a frame of its own in
which xidot != v; its inclusion A is the derivative of its embedding.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine import AffineConnection, ContorsionConnection, InducedConnection
from connections.coriolis import MechanicalSystem, induced_coriolis_matrix
from connections.coriolis.matrix import coriolis_matrix_at, task_space_coriolis_matrix_at
from connections.geometry import CoordinateFrame, FrameField, MatrixFrame, Metric
from connections.verify.families import contorsion
from connections.verify.measurement import Proposition, Sample, stated
from connections.verify.numerics import Array, Batch, Numerics, koszul_by_differences, largest
from connections.verify.subjects import Subject, shared

PROPOSITIONS: list[Proposition] = []
proposition = partial(stated, PROPOSITIONS)

LARGEST_SUBMANIFOLD = 4


class Immersion:
    """The immersions xi -> retract(base, B xi + Q(xi, xi)); base, B and Q are arguments: compiled once.

    Parameters
    ----------
    metric : of the ambient system.
    frame : frame of the m coordinates xi.
    """

    def __init__(self, metric: Metric, frame: FrameField) -> None:
        self.ambient, self.frame, self.numerics = metric, frame, Numerics(frame)
        self.A, self.point = (Batch(f, self.numerics.chunk) for f in (self.inclusion_at, self.embedding_at))

    def embedding_at(self, xi: jax.Array, base: Any, B: Any, Q: Any) -> jax.Array:
        """The point, (nq,)."""
        return self.ambient.frame.retract_at(base, B @ xi + jnp.einsum("iab,a,b->i", Q, xi, xi))

    def inclusion_at(self, xi: jax.Array, *numbers: Any) -> jax.Array:
        """A, (n, m): the derivative of the embedding in the frames."""
        J: jax.Array = jax.jacfwd(self.embedding_at)(xi, *numbers) @ self.frame.matrix_at(xi)
        return self.ambient.frame.dual_at(self.embedding_at(xi, *numbers)) @ J

    def induced(self, ambient: AffineConnection, *numbers: Any) -> InducedConnection:
        """The library's induced connection."""
        inclusion = lambda xi: self.inclusion_at(xi, *numbers)  # noqa: E731
        embedding = lambda xi: self.embedding_at(xi, *numbers)  # noqa: E731
        return InducedConnection(ambient, self.ambient, self.frame, inclusion, embedding)


def _immersion_of(system: MechanicalSystem) -> Immersion:
    """Immersions of at most `LARGEST_SUBMANIFOLD` dimensions, in a frame of their own."""
    m = max(1, min(system.metric.frame.dim - 1, LARGEST_SUBMANIFOLD))
    K = 0.3 * np.random.default_rng([m, *b"subframe"]).normal(size=(m, m, m))
    return Immersion(system.metric, MatrixFrame(_subframe, m, m, parameters=K))


def _subframe(xi: jax.Array, K: jax.Array) -> jax.Array:
    return jnp.eye(len(xi)) + jnp.einsum("iab,b->ia", K, jnp.sin(xi))


def _new_chart_of(system: MechanicalSystem) -> Immersion:
    """Immersions of n dimensions, in their coordinate frame."""
    return Immersion(system.metric, CoordinateFrame(system.metric.frame.dim))


class Submanifold:
    """A random submanifold of a subject's configuration manifold.

    Parameters
    ----------
    subject : the ambient system.
    immersion : its compiled functions, with its frame of dimension m <= n.
    """

    def __init__(self, subject: Subject, immersion: Immersion) -> None:
        rng, m = subject.rng("submanifold"), immersion.frame.dim
        B = np.linalg.qr(rng.normal(size=(subject.n, subject.n)))[0][:, :m]
        self.numbers = (subject.q[0], B, 0.3 * rng.normal(size=(subject.n, m, m)))
        self.subject, self.immersion, self.frame = subject, immersion, immersion.frame
        self.numerics = immersion.numerics

    @classmethod
    def of(cls, subject: Subject) -> Submanifold:
        """The subject's submanifold, in a frame of its own."""
        return cls(subject, shared(_immersion_of, subject.system))

    @classmethod
    def chart(cls, subject: Subject) -> Submanifold:
        """New coordinates of the whole manifold, in their coordinate frame."""
        return cls(subject, shared(_new_chart_of, subject.system))

    def A(self, points: Array) -> Array:
        """The inclusion at (k, m) points, (k, n, m)."""
        return self.immersion.A(points, *self.numbers)

    def point(self, points: Array) -> Array:
        """The embedding at (k, m) points, (k, nq)."""
        return self.immersion.point(points, *self.numbers)

    def sample(self, salt: str) -> tuple[Array, Array]:
        """A point xi and a velocity of length one, so that no residual is small only by a slow motion."""
        rng, size = self.subject.rng(salt), min(0.3, self.subject.room / 6.0)
        xi, v = size * rng.normal(size=self.frame.dim), rng.normal(size=self.frame.dim)
        return xi, v / np.sqrt(v @ self.mass_matrix(xi[None])[0] @ v)

    def mass_matrix(self, points: Array) -> Array:
        """A^T H A at (k, m) points, without the induced metric's own code."""
        A = self.A(points)
        return np.swapaxes(A, 1, 2) @ self.subject.masses(self.point(points)) @ A

    def coriolis(self, xi: Array, v: Array, D: Array | None) -> tuple[Array, float]:
        """Cbar of the library's (17), A_dot by differences, C of the subject minus D; and its scale."""
        low = self.subject.first_kind(self.point(xi[None])[0])
        C, H, A, A_dot, scale = self._pieces(xi, v, low if D is None else low - D)
        return np.asarray(induced_coriolis_matrix(C, H, A, A_dot)), scale

    def law(self, xi: Array, v: Array, Gamma_low: Array) -> tuple[Array, float]:
        """[W] (17) written out, for the C of given symbols, A_dot by differences; and its scale."""
        C, H, A, A_dot, scale = self._pieces(xi, v, Gamma_low)
        return A.T @ C @ A + A.T @ H @ A_dot, scale

    def _pieces(self, xi: Array, v: Array, Gamma_low: Array) -> tuple[Array, Array, Array, Array, float]:
        """C, H, A, A_dot and the scale of (17)."""
        A, q = self.A(xi[None])[0], self.point(xi[None])[0]
        A_dot = self.numerics.derivative_along(self.A, xi, v)
        C, H = np.einsum("ijk,j->ik", Gamma_low, A @ v), self.subject.H(q)
        sizes = np.abs(A).T @ np.abs(H) @ np.abs(A)  # at least |Hbar|, so that flat spaces have a scale
        terms = (np.abs(A).T @ np.abs(C) @ np.abs(A), np.abs(A).T @ np.abs(H) @ np.abs(A_dot), sizes)
        return C, H, A, A_dot, largest(*terms)

    def symbols(self, xi: Array) -> tuple[Array, Array, Array]:
        """dHbar[k, i, j], s_low[k, i, j] and Hbar of the induced metric, by differences."""
        H_bar = self.mass_matrix(xi[None])[0]
        s_low = np.tensordot(H_bar, self.numerics.structure_functions(xi), axes=1)
        return self.numerics.derivative(self.mass_matrix, xi), s_low, H_bar


def _contorsion(subject: Subject, wrong: bool, symmetry: str | None, salt: str) -> Array:
    return contorsion(subject, subject.q[0], None if wrong else symmetry, salt)


@proposition("Thm V.1", "the induced connection's C is A^T C A + A^T H A_dot, A_dot by differences")
def transformation_law(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the ambient contorsion forgotten."""
    sub = Submanifold.of(subject)
    xi, v = sub.sample("V.1 thm" + str(sample.q[0]))
    D = _contorsion(subject, False, None, "V.1 thm")
    library = np.asarray(subject.compiled(_induced_coriolis_at, sub.immersion)(xi, v, D, *sub.numbers))
    q = sub.point(xi[None])[0]
    law, scale = sub.law(xi, v, subject.koszul(q) - (0.0 if wrong else D))
    return float(np.max(np.abs(library - law))), scale


def _induced_coriolis_at(
    system: MechanicalSystem, immersion: Immersion, xi: jax.Array, v: jax.Array, D: jax.Array, *numbers: Any
) -> jax.Array:
    nabla = immersion.induced(ContorsionConnection(system.metric, lambda q: D), *numbers)
    return coriolis_matrix_at(nabla, nabla.metric, xi, v)


@proposition("Prop V.1", "skew-symmetry is inherited: Hbar_dot - 2 Cbar, both by differences")
def inherits_skew(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: an ambient contorsion without symmetry."""
    sub = Submanifold.of(subject)
    xi, v = sub.sample("V.1" + str(sample.q[0]))
    C, scale = sub.coriolis(xi, v, _contorsion(subject, wrong, "metric_compatible", "V.1"))
    return float(np.max(np.abs(sub.numerics.derivative_along(sub.mass_matrix, xi, v) - C - C.T))), scale


@proposition("Prop V.2", "right dynamics are inherited: Cbar v against Hamel's equations on the submanifold")
def inherits_dynamics(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: an ambient contorsion without symmetry."""
    sub = Submanifold.of(subject)
    xi, v = sub.sample("V.2" + str(sample.q[0]))
    C, scale = sub.coriolis(xi, v, _contorsion(subject, wrong, "same_geodesics", "V.2"))
    dH, s_low, _ = sub.symbols(xi)
    rate, force = np.einsum("kij,k,j->i", dH, v, v), 0.5 * np.einsum("ikj,k,j->i", dH, v, v)
    bias = rate + np.einsum("kij,k,j->i", s_low, v, v) - force
    return float(np.max(np.abs(C @ v - bias))), scale


@proposition(
    "Prop V.3", "being Riemannian is inherited: Cbar against Koszul of the induced metric", riemannian=True
)
def inherits_riemannian(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: an ambient contorsion without symmetry."""
    sub = Submanifold.of(subject)
    xi, v = sub.sample("V.3" + str(sample.q[0]))
    C, scale = sub.coriolis(xi, v, _contorsion(subject, True, None, "V.3") if wrong else None)
    dH, s_low, _ = sub.symbols(xi)
    low = koszul_by_differences(dH, s_low)
    return float(np.max(np.abs(C - np.einsum("ijk,j->ik", low, v)))), scale


@proposition(
    "Remark 7",
    "change of coordinates: A^T C A + A^T H A_dot against the classical symbols (5)",
    riemannian=True,
)
def change_of_coordinates(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: an ambient contorsion without symmetry."""
    sub = Submanifold.chart(subject)
    xi, v = sub.sample("Remark 7" + str(sample.q[0]))
    C, scale = sub.coriolis(0.3 * xi, v, _contorsion(subject, True, None, "Remark 7") if wrong else None)
    dG = sub.numerics.derivative(sub.mass_matrix, 0.3 * xi)
    classical = 0.5 * (
        np.einsum("jik,j->ik", dG, v) + np.einsum("kij,j->ik", dG, v) - np.einsum("ijk,j->ik", dG, v)
    )
    return float(np.max(np.abs(C - classical))), largest(scale, dG)


@proposition("Remark 8", "task space: Lambda_dot - 2 C_task is skew, Lambda_dot by differences along v")
def task_space(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a contorsion without symmetry added to C."""
    q, v = sample.q, sample.v
    numerics, nq, m = subject.numerics, sample.q.size, max(1, min(subject.n - 1, 3))
    Q = np.linalg.qr(subject.rng("task").normal(size=(subject.n, m)))[0]
    W = 0.5 * subject.rng("bend").normal(size=(m, nq)) / np.sqrt(nq)
    # At the sample Lambda is the identity, because differences of Lambda are inaccurate near a singular J.
    J = Q.T @ np.linalg.cholesky(subject.H(q)).T
    B = J @ np.linalg.pinv(numerics.matrix(q[None])[0]) - 0.5 * np.cos(W @ q)[:, None] * W
    D = contorsion(subject, subject.q[0], "metric_compatible", "Remark 8")

    def jacobians(points: Array) -> Array:
        J: Array = (B + 0.5 * np.cos(points @ W.T)[:, :, None] * W) @ numerics.matrix(points)
        return J

    def inertias(points: Array) -> Array:
        J = jacobians(points)
        return np.linalg.inv(J @ np.linalg.solve(subject.masses(points), np.swapaxes(J, 1, 2)))

    C = np.asarray(subject.compiled(_task_space_at)(q, v, D, B, W))
    if wrong:
        J, Lambda = jacobians(q[None])[0], inertias(q[None])[0]
        A = np.linalg.solve(subject.H(q), J.T) @ Lambda
        C = C - A.T @ np.einsum("ijk,j->ik", contorsion(subject, q, None, "Remark 8 control"), v) @ A
    rate = numerics.derivative_along(inertias, q, v)
    speed = float(np.sqrt(v @ subject.H(q) @ v))  # times Lambda: the scale if C and the rate are small
    return largest(rate - C - C.T), largest(C, rate, speed)


def _task_space_at(
    system: MechanicalSystem, q: jax.Array, v: jax.Array, D: jax.Array, B: jax.Array, W: jax.Array
) -> jax.Array:
    """C of the task B q + sin(W q) / 2."""
    nabla = ContorsionConnection(system.metric, lambda p: D)
    task = lambda p: B @ p + 0.5 * jnp.sin(W @ p)  # noqa: E731
    return task_space_coriolis_matrix_at(nabla, system.metric, task, q, v)
