"""Named spaces shared by the tests, built once: tests that import them reuse their compiled functions."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import connections as cn

# --- the unit sphere, three ways ----------------------------------------------------------------------


def sphere_point(q):
    """(theta, phi) -> R^3, theta from the north pole."""
    theta, phi = q[0], q[1]
    return jnp.stack([jnp.sin(theta) * jnp.cos(phi), jnp.sin(theta) * jnp.sin(phi), jnp.cos(theta)])


def _orthonormal_change(q):
    return jnp.diag(jnp.stack([jnp.ones(()), 1.0 / jnp.sin(q[0])]))


def _tangent_frame(x):
    """e_theta, e_phi at x in R^3: defined away from the poles."""
    rho = jnp.sqrt(x[0] ** 2 + x[1] ** 2)
    e_phi = jnp.stack([-x[1], x[0], 0.0 * x[0]]) / rho
    e_theta = jnp.stack([x[0] * x[2], x[1] * x[2], -(rho**2)]) / rho
    return jnp.stack([e_theta, e_phi], axis=1)


CHART = cn.CoordinateFrame(2)
SPHERE = cn.MatrixMetric(CHART, lambda q: jnp.diag(jnp.stack([jnp.ones(()), jnp.sin(q[0]) ** 2])))
SPHERE_NABLA = cn.LeviCivita(SPHERE)
SPHERE_PULLBACK = cn.PullbackMetric(CHART, sphere_point)
SPHERE_ORTHONORMAL = cn.ConstantMetric(CHART.change(_orthonormal_change), np.eye(2))
SPHERE_ORTHONORMAL_NABLA = cn.LeviCivita(SPHERE_ORTHONORMAL)
SPHERE_EMBEDDED_FRAME = cn.MatrixFrame(_tangent_frame, 2, 3, project=lambda x: x / jnp.linalg.norm(x))
SPHERE_EMBEDDED = cn.ConstantMetric(SPHERE_EMBEDDED_FRAME, np.eye(2))
SPHERE_EMBEDDED_NABLA = cn.LeviCivita(SPHERE_EMBEDDED)

# --- other closed forms ---------------------------------------------------------------------------------

HALF_PLANE = cn.MatrixMetric(CHART, lambda q: jnp.eye(2) / q[1] ** 2)
HALF_PLANE_NABLA = cn.LeviCivita(HALF_PLANE)

#: The flat plane in (log r, phi), phi not identified: points with |phi| >= pi apart have no geodesic.
UNROLLED_PLANE_NABLA = cn.LeviCivita(cn.MatrixMetric(CHART, lambda q: jnp.exp(2 * q[0]) * jnp.eye(2)))

SO3 = cn.SO3Frame()
BI_INVARIANT = cn.ConstantMetric(SO3, np.eye(3))
BI_INVARIANT_NABLA = cn.LeviCivita(BI_INVARIANT)
CARTAN_PLUS = cn.ContorsionFamily(BI_INVARIANT).connection([0.5])
CARTAN_MINUS = cn.ContorsionFamily(BI_INVARIANT).connection([-0.5])

TOP_INERTIA = np.array([[1.0, 0.2, -0.1], [0.2, 2.0, 0.3], [-0.1, 0.3, 2.5]])
TOP = cn.ConstantMetric(SO3, TOP_INERTIA)
TOP_NABLA = cn.LeviCivita(TOP)

# --- a random metric in a random frame with qdot != v -----------------------------------------------------

_random = np.random.default_rng(7)
_F = _random.standard_normal((3, 3, 3))
_G = _random.standard_normal((3, 3, 3))
_K = _random.standard_normal((3, 3, 3, 3))
_B = _random.standard_normal((3, 3, 3))


def _wave(coefficients, q):
    """A smooth random function of q: sum over a of coefficients[a] sin(q_a + a)."""
    return jnp.tensordot(jnp.sin(q + jnp.arange(3.0)), coefficients, axes=1)


def change_of_frame(q):
    """A(q), (3, 3), invertible near the unit cube, not a coordinate change."""
    return jnp.eye(3) + 0.2 * _wave(_B, q)


FRAME = cn.MatrixFrame(lambda q: jnp.eye(3) + 0.25 * _wave(_F, q), 3, 3)


def _random_metric(q):
    root = jnp.eye(3) + 0.25 * _wave(_G, q)
    return root @ root.T + 0.3 * jnp.eye(3)


METRIC = cn.MatrixMetric(FRAME, _random_metric)
LEVI_CIVITA = cn.LeviCivita(METRIC)
#: No symmetry at all: torsion and non-metricity.
GENERAL = cn.CoefficientConnection(FRAME, lambda q: 0.4 * _wave(_K, q))
#: Metric compatible and with the metric's geodesics; beta depends on q.
ADMISSIBLE = cn.ContorsionFamily(METRIC).connection(lambda q: jnp.stack([0.8 + 0.5 * jnp.sin(q[0] + q[2])]))
#: Metric compatible only: D antisymmetric in (1, 3).
METRIC_ONLY = cn.ContorsionConnection(
    METRIC, lambda q: 0.4 * (_wave(_K, q) - jnp.swapaxes(_wave(_K, q), 0, 2)), "metric_compatible"
)
#: Riemannian geodesics only: D antisymmetric in (2, 3).
GEODESICS_ONLY = cn.ContorsionConnection(
    METRIC, lambda q: 0.4 * (_wave(_K, q) - jnp.swapaxes(_wave(_K, q), 1, 2)), "same_geodesics"
)
SCALED = cn.MatrixMetric(FRAME, lambda q: _random_metric(q) * (2.0 + jnp.sin(q[0])))


def form(q):
    """A one-form that is not closed, (3,), and not small."""
    return 0.8 * jnp.stack([jnp.cos(q[1]), q[0] - 1.0, jnp.sin(q[0] * q[2]) + 0.5])


def cubic(q):
    """A totally symmetric tensor, (3, 3, 3)."""
    C = 0.3 * _wave(_K, q)
    orders = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0), (1, 0, 2))
    return sum(jnp.transpose(C, order) for order in orders)


WEYL = cn.WeylConnection(METRIC, form)
STATISTICAL = cn.StatisticalConnection(METRIC, cubic, 0.7)


def points(rng, *batch):
    """Points of the unit cube [-1/2, 1/2]^3, where FRAME and METRIC are regular."""
    return rng.uniform(-0.5, 0.5, (*batch, 3))


def arm_with_finger(mass, length):
    """A planar arm of 40 kg, two joints, and a finger (kg, m) at its end: closed form, relative angles."""
    lengths, masses = (1.0, 0.8, length), (25.0, 15.0, mass)

    def matrix(q):
        angles, H = jnp.cumsum(q), jnp.zeros((3, 3))
        for body in range(3):  # thin rods: Jacobian of the centre, and the inertia about it
            J = jnp.zeros((2, 3))
            for joint in range(body + 1):
                for link in range(joint, body + 1):
                    arm = lengths[link] * (0.5 if link == body else 1.0)
                    J = J.at[:, joint].add(arm * jnp.stack([-jnp.sin(angles[link]), jnp.cos(angles[link])]))
            turning = jnp.arange(3) <= body
            H += masses[body] * (J.T @ J + lengths[body] ** 2 / 12.0 * jnp.outer(turning, turning))
        return H

    return cn.MatrixMetric(cn.CoordinateFrame(3), matrix)
