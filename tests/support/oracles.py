"""Independent references: closed forms and integrations that share no function with the package.

NumPy and SciPy only, written from the textbooks named in each docstring; Pinocchio for robots.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import files

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

EPSILON = np.zeros((3, 3, 3))
for _i, _j, _k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    EPSILON[_i, _j, _k], EPSILON[_i, _k, _j] = 1.0, -1.0


def hat(w):
    """The matrix of w x."""
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]], dtype=float)


def rotation(quaternion):
    """R of a unit quaternion (x, y, z, w), by SciPy; batches."""
    quaternion = np.asarray(quaternion)
    flat = Rotation.from_quat(quaternion.reshape(-1, 4)).as_matrix()
    return flat.reshape(*quaternion.shape[:-1], 3, 3)


def random_quaternion(rng, *batch):
    """Uniform unit quaternions (x, y, z, w)."""
    q = rng.standard_normal((*batch, 4))
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def random_pose(rng, *batch):
    """[p, quaternion], (..., 7)."""
    return np.concatenate([rng.standard_normal((*batch, 3)), random_quaternion(rng, *batch)], axis=-1)


def random_spd(rng, n):
    """A well-conditioned symmetric positive definite matrix."""
    A = rng.standard_normal((n, n))
    return A @ A.T / n + np.eye(n)


def rigid_body_inertia(mass, center, inertia_about_center):
    """Spatial inertia [[Ibar, h x], [(h x)^T, m 1]] about the body origin (Featherstone 2008, (2.63))."""
    h = mass * hat(center)
    Ibar = inertia_about_center - mass * hat(center) @ hat(center)
    return np.block([[Ibar, h], [h.T, mass * np.eye(3)]])


def motion_cross_matrix(v):
    """(v x) of a twist [omega; v] (Featherstone 2008, (2.31))."""
    return np.block([[hat(v[:3]), np.zeros((3, 3))], [hat(v[3:]), hat(v[:3])]])


def force_cross_matrix(v):
    """(v x*) = -(v x)^T."""
    return -motion_cross_matrix(v).T


def rigid_body_coriolis(inertia, v):
    """The Christoffel-consistent C of one free body, [W] (19) in blocks."""
    Ibar, mass = inertia[:3, :3], inertia[5, 5]
    h = np.array([inertia[2, 4], inertia[0, 5], inertia[1, 3]])
    w = v[:3]
    Sigma = 0.5 * np.trace(Ibar) * np.eye(3) - Ibar
    return np.block(
        [[hat(Sigma @ w), hat(h) @ hat(w)], [-hat(w) @ hat(h), mass * hat(w)]],
    )


def left_invariant_coefficients(H, s):
    """Gamma^i_jk of a left-invariant metric: 2 <nabla_X Y, Z> = ([X,Y],Z) - ([Y,Z],X) + ([Z,X],Y)."""
    n = len(H)
    basis, Gamma = np.eye(n), np.zeros((n, n, n))

    def bracket(x, y):
        return np.einsum("kij,i,j->k", s, x, y)

    for j, x in enumerate(basis):
        for k, y in enumerate(basis):
            covector = [
                0.5 * (z @ H @ bracket(x, y) - x @ H @ bracket(y, z) + y @ H @ bracket(z, x)) for z in basis
            ]
            Gamma[:, j, k] = np.linalg.solve(H, covector)
    return Gamma


def milnor_ricci(l1, l2, l3):
    """Ric(X_i, X_i) for <X_i, X_j> = l_i delta_ij, [X_1, X_2] = X_3 and cyclic.

    With e_i = X_i / sqrt(l_i): [e_2, e_3] = lambda_1 e_1, lambda_i = l_i / sqrt(l_1 l_2 l_3),
    mu_i = (lambda_1 + lambda_2 + lambda_3) / 2 - lambda_i, Ric(e_1, e_1) = 2 mu_2 mu_3 (Milnor 1976, 4.3).
    """
    lengths = np.array([l1, l2, l3])
    lam = lengths / np.sqrt(np.prod(lengths))
    mu = lam.sum() / 2 - lam
    return np.diag(lengths * 2 * np.array([mu[1] * mu[2], mu[2] * mu[0], mu[0] * mu[1]]))


def milnor_sectional(l1, l2, l3):
    """K(X_1, X_2) = (r_1 + r_2 - r_3) / 2, r_i = Ric(e_i, e_i): for n = 3, r_1 = K_12 + K_13 and cyclic."""
    r = np.diag(milnor_ricci(l1, l2, l3)) / np.array([l1, l2, l3])
    return (r[0] + r[1] - r[2]) / 2


def euler_top(H, quaternion, omega, times):
    """Free rigid body: H omegadot = (H omega) x omega, qdot = q (omega, 0) / 2; SciPy DOP853 at 1e-13."""

    def rhs(_, y):
        (x, yy, z, w), o = y[:4], y[4:]
        qdot = 0.5 * np.array(
            [
                w * o[0] + yy * o[2] - z * o[1],
                w * o[1] + z * o[0] - x * o[2],
                w * o[2] + x * o[1] - yy * o[0],
                -x * o[0] - yy * o[1] - z * o[2],
            ]
        )
        return np.concatenate([qdot, np.linalg.solve(H, np.cross(H @ o, o))])

    y0 = np.concatenate([quaternion, omega])
    y = solve_ivp(rhs, (0.0, times[-1]), y0, "DOP853", times, rtol=1e-13, atol=1e-13).y.T
    return y[:, :4], y[:, 4:]


def half_plane_distance(a, b):
    """Distance of the hyperbolic half plane (Lee, Riemannian Manifolds)."""
    gap = (a[..., 0] - b[..., 0]) ** 2 + (a[..., 1] - b[..., 1]) ** 2
    return np.arccosh(1 + gap / (2 * a[..., 1] * b[..., 1]))


# --- Pinocchio ------------------------------------------------------------------------

#: Pinocchio's free flyer moves with [v; omega]; ours with [omega; v].
TWIST_ORDER = np.array([3, 4, 5, 0, 1, 2])


@lru_cache(maxsize=4)
def pinocchio_quadruped(name="solo12"):
    """A floating-base quadruped of example-robot-data as black boxes in our velocity order."""
    return PinocchioRobot(name)


class PinocchioRobot:
    """H, C and friends of a floating-base robot by Pinocchio, velocities reordered to [omega; v; joints]."""

    def __init__(self, name):
        import pinocchio

        self.pin = pinocchio
        urdf = next(f for f in files("example-robot-data") if f.name == f"{name}.urdf")
        self.model = pinocchio.buildModelFromUrdf(str(urdf.locate()), pinocchio.JointModelFreeFlyer())
        self.data = self.model.createData()
        self.order = np.concatenate([TWIST_ORDER, np.arange(6, self.model.nv)])

    def _pin_velocity(self, v):
        out = np.empty_like(v)
        out[self.order] = v
        return out

    def _reorder(self, M):
        return M[np.ix_(self.order, self.order)].copy()

    def mass_matrix(self, q):
        """H by crba, symmetrized."""
        H = self.pin.crba(self.model, self.data, q)
        return self._reorder(np.triu(H) + np.triu(H, 1).T)

    def coriolis(self, q, v):
        """Pinocchio's computeCoriolisMatrix."""
        return self._reorder(self.pin.computeCoriolisMatrix(self.model, self.data, q, self._pin_velocity(v)))

    def coriolis_force_cross(self, q, v):
        """C = sum J^T (B J + I Jdot), B = (v x*) I, in world axes: [E] (11) as body factor."""
        pin, model, data = self.pin, self.model, self.data
        v_pin = self._pin_velocity(v)
        pin.forwardKinematics(model, data, q, v_pin)
        pin.computeJointJacobiansTimeVariation(model, data, q, v_pin)
        C = np.zeros((model.nv, model.nv))
        for joint in range(1, model.njoints):
            J = pin.getJointJacobian(model, data, joint, pin.WORLD)
            J_dot = pin.getJointJacobianTimeVariation(model, data, joint, pin.WORLD)
            inertia = data.oMi[joint].act(model.inertias[joint]).matrix()
            twist = pin.Motion(J @ v_pin)
            C += J.T @ (-twist.action.T @ inertia @ J + inertia @ J_dot)
        return self._reorder(C)

    def random_state(self, rng, count):
        """(count, nq), (count, nv)."""
        q = [
            self.pin.integrate(self.model, self.pin.neutral(self.model), x)
            for x in rng.uniform(-1, 1, (count, self.model.nv))
        ]
        return np.array(q), rng.standard_normal((count, self.model.nv))


def ellipsoid_distance(axes, x, y):
    """Length of the shortest geodesic of x^2/a^2 + y^2/b^2 + z^2/c^2 = 1 between two points, in R^3.

    Unit-speed geodesics x'' = -N (x' . G x') / |N|^2, N = G x, in 180 directions; where they come near y the
    direction and the length are corrected by least squares (do Carmo 1976, 4-4: geodesic curvature zero).
    """
    G, (u, w) = 1.0 / np.asarray(axes) ** 2, np.linalg.svd((x / np.square(axes))[None])[2][1:]

    def rates(_, state):
        p, v = state.reshape(2, 3, -1)
        normal = G[:, None] * p
        return np.stack([v, -normal * ((G[:, None] * v * v).sum(0) / (normal**2).sum(0))]).ravel()

    def ends(angles, length, times):
        v = np.outer(u, np.cos(angles)) + np.outer(w, np.sin(angles))
        start = np.stack([np.tile(x[:, None], len(angles)), v]).ravel()
        path = solve_ivp(rates, (0.0, length), start, "DOP853", t_eval=times, rtol=1e-11, atol=1e-12)
        return path.y.reshape(2, 3, len(angles), -1)[0]

    angles, longest = np.arange(180) * np.pi / 90, 1.1 * np.pi * np.max(axes)
    times = np.linspace(0.0, longest, 400)
    gap = np.linalg.norm(ends(angles, longest, times) - y[:, None, None], axis=0)
    around = np.pad(np.pad(gap, ((1, 1), (0, 0)), mode="wrap"), ((0, 0), (1, 1)), constant_values=np.inf)
    moved = [around[1 + i : 181 + i, 1 + j : 401 + j] for i in (-1, 0, 1) for j in (-1, 0, 1)]
    best = np.inf
    for i, j in sorted(
        zip(*np.nonzero((gap <= np.min(moved, axis=0)) & (gap < 0.3)), strict=True), key=lambda at: at[1]
    ):
        if times[j] > best + 0.1:
            break
        found = least_squares(
            lambda z: ends(z[:1], z[1], [z[1]])[:, 0, -1] - y,
            [angles[i], max(times[j], 1e-3)],
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
        )
        if np.linalg.norm(found.fun) < 1e-10 * found.x[1]:
            best = min(best, found.x[1])
    return best
