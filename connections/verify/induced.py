"""Checks of [W] V: metrics, connections and Coriolis matrices induced on a submanifold; Remarks 7 and 8.

The submanifold is a random curved one through the subject's first sample, with a frame of its own in which
xidot != v; its inclusion A is the derivative of its embedding.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine import ContorsionConnection, InducedConnection
from connections.coriolis import coriolis_matrix, task_space_coriolis_matrix
from connections.geometry import CoordinateFrame, FrameField, InducedMetric, MatrixFrame
from connections.verify.families import contorsion
from connections.verify.numerics import Array, Batch, Numerics, koszul_by_differences
from connections.verify.propositions import Sample, proposition
from connections.verify.subjects import Subject

LARGEST_SUBMANIFOLD = 4


class Submanifold:
    """A random submanifold of a subject's configuration manifold, of dimension m <= n.

    Parameters
    ----------
    subject : the ambient system.
    m : dimension.
    frame : frame of the submanifold's m coordinates.
    """

    def __init__(self, subject: Subject, m: int, frame: FrameField) -> None:
        rng, ambient, base = subject.rng("submanifold"), subject.metric.frame, jnp.asarray(subject.q[0])
        B = np.linalg.qr(rng.normal(size=(subject.n, subject.n)))[0][:, :m]
        Q = 0.3 * rng.normal(size=(subject.n, m, m))

        def embedding(xi: jax.Array) -> jax.Array:
            return ambient.retract_at(base, jnp.asarray(B) @ xi + jnp.einsum("iab,a,b->i", Q, xi, xi))

        def inclusion(xi: jax.Array) -> jax.Array:
            return ambient.dual_at(embedding(xi)) @ jax.jacfwd(embedding)(xi) @ frame.matrix_at(xi)

        self.subject, self.frame = subject, frame
        self.inclusion, self.embedding = inclusion, embedding
        self.metric = InducedMetric(subject.metric, frame, inclusion, embedding)
        self.numerics = Numerics(frame)
        self.A, self.point = (Batch(function, self.numerics.chunk) for function in (inclusion, embedding))

    @classmethod
    def of(cls, subject: Subject) -> Submanifold:
        """The subject's submanifold, in a frame of its own."""
        if "submanifold" not in subject._memory:
            m = max(1, min(subject.n - 1, LARGEST_SUBMANIFOLD))
            K = 0.3 * subject.rng("subframe").normal(size=(m, m, m))
            frame = MatrixFrame(lambda xi: jnp.eye(m) + jnp.einsum("iab,b->ia", K, jnp.sin(xi)), m, m)
            subject._memory["submanifold"] = cls(subject, m, frame)
        return subject._memory["submanifold"]

    @classmethod
    def chart(cls, subject: Subject) -> Submanifold:
        """New coordinates of the whole manifold, in their coordinate frame."""
        if "coordinates" not in subject._memory:
            subject._memory["coordinates"] = cls(subject, subject.n, CoordinateFrame(subject.n))
        return subject._memory["coordinates"]

    def sample(self, salt: str) -> tuple[Array, Array]:
        """A point xi and a velocity."""
        rng, size = self.subject.rng(salt), min(0.3, self.subject.room / 6.0)
        return size * rng.normal(size=self.frame.dim), rng.normal(size=self.frame.dim)

    def mass_matrix(self, points: Array) -> Array:
        """A^T H A at (k, m) points, without the induced metric's own code."""
        A = self.A(points)
        return np.swapaxes(A, 1, 2) @ self.subject.masses(self.point(points)) @ A

    def coriolis(self, xi: Array, v: Array, D: Array | None) -> tuple[Array, float]:
        """A^T C A + A^T H A_dot, A_dot by differences, C that of the subject less D; and its scale."""
        low = self.subject.first_kind(self.point(xi[None])[0])
        return self.law(xi, v, low if D is None else low - D)

    def law(self, xi: Array, v: Array, Gamma_low: Array) -> tuple[Array, float]:
        """[W] (17) for the C of given symbols, A_dot by differences; and its scale."""
        A, q = self.A(xi[None])[0], self.point(xi[None])[0]
        A_dot = self.numerics.derivative_along(self.A, xi, v)
        C, H = np.einsum("ijk,j->ik", Gamma_low, A @ v), self.subject.H(q)
        scale = self.subject.scale(q) * max(1.0, float(np.max(np.abs(A_dot))))
        return A.T @ C @ A + A.T @ H @ A_dot, scale

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
    key = "induced connection"
    if key not in subject._memory:
        ambient = ContorsionConnection(subject.metric, lambda q: jnp.asarray(D))
        subject._memory[key] = InducedConnection(
            ambient, subject.metric, sub.frame, sub.inclusion, sub.embedding
        )
    nabla = subject._memory[key]
    library = np.asarray(coriolis_matrix(nabla, nabla.metric, xi, v))
    q = sub.point(xi[None])[0]
    law, scale = sub.law(xi, v, subject.koszul(q) - (0.0 if wrong else D))
    return float(np.max(np.abs(library - law))), scale


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


@proposition("Prop V.3", "being Riemannian is inherited: Cbar against Koszul of the induced metric")
def inherits_riemannian(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: an ambient contorsion without symmetry."""
    sub = Submanifold.of(subject)
    xi, v = sub.sample("V.3" + str(sample.q[0]))
    C, scale = sub.coriolis(xi, v, _contorsion(subject, True, None, "V.3") if wrong else None)
    dH, s_low, _ = sub.symbols(xi)
    low = koszul_by_differences(dH, s_low)
    return float(np.max(np.abs(C - np.einsum("ijk,j->ik", low, v)))), scale


@proposition("Remark 7", "change of coordinates: A^T C A + A^T H A_dot against the classical symbols (5)")
def change_of_coordinates(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: an ambient contorsion without symmetry."""
    sub = Submanifold.chart(subject)
    xi, v = sub.sample("Remark 7" + str(sample.q[0]))
    C, scale = sub.coriolis(0.3 * xi, v, _contorsion(subject, True, None, "Remark 7") if wrong else None)
    dG = sub.numerics.derivative(sub.mass_matrix, 0.3 * xi)
    classical = 0.5 * (
        np.einsum("jik,j->ik", dG, v) + np.einsum("kij,j->ik", dG, v) - np.einsum("ijk,j->ik", dG, v)
    )
    return float(np.max(np.abs(C - classical))), max(scale, float(np.max(np.abs(dG))))


@proposition("Remark 8", "task space: Lambda_dot - 2 C_task is skew, Lambda_dot by differences along v")
def task_space(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a contorsion without symmetry added to C."""
    frame, metric, numerics = subject.metric.frame, subject.metric, subject.numerics
    if "task" not in subject._memory:
        m = max(1, min(subject.n - 1, 3))
        B = subject.rng("task").normal(size=(m, frame.ambient_dim)) / np.sqrt(frame.ambient_dim)
        W = subject.rng("bend").normal(size=B.shape) / np.sqrt(frame.ambient_dim)
        D = contorsion(subject, subject.q[0], "metric_compatible", "Remark 8")
        nabla = ContorsionConnection(metric, lambda q: jnp.asarray(D))
        subject._memory["task"] = (nabla, lambda q: B @ q + 0.5 * jnp.sin(W @ q), B, W)
    nabla, task, B, W = subject._memory["task"]

    def jacobians(points: Array) -> Array:
        return (B + 0.5 * np.cos(points @ W.T)[:, :, None] * W) @ numerics.matrix(points)

    def inertias(points: Array) -> Array:
        J = jacobians(points)
        return np.linalg.inv(J @ np.linalg.solve(subject.masses(points), np.swapaxes(J, 1, 2)))

    q, v = sample.q, sample.v
    C = np.asarray(task_space_coriolis_matrix(nabla, metric, task, q, v))
    if wrong:
        J, Lambda = jacobians(q[None])[0], inertias(q[None])[0]
        A = np.linalg.solve(subject.H(q), J.T) @ Lambda
        C = C - A.T @ np.einsum("ijk,j->ik", contorsion(subject, q, None, "Remark 8 control"), v) @ A
    rate = numerics.derivative_along(inertias, q, v)
    return float(np.max(np.abs(rate - C - C.T))), max(float(np.max(np.abs(C))), float(np.max(np.abs(rate))))
