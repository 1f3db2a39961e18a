"""Tables 4 and 9 of [B] line by line, twists angular part first; Tables 5 to 8 as complex steps of Table 4.

The robot has a moving base and joints of one freedom, numbered as in the paper. Each table is compared with
the recursions, and each slip that docs/errata.md lists with what it gives.
"""

import numpy as np
import pytest
from mechanisms import assemble, sample
from scipy.linalg import expm

from connections import multibody as mb

STEP = 1e-30  # of the complex step: exact to rounding
KINDS = (mb.Free, mb.Revolute, mb.Prismatic, mb.Helical, mb.Helical, mb.Revolute)
PARENTS = (-1, 0, 1, 2, 0, 1)


def skew(x):
    return np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])


def hat(twist):
    """(4, 4) of se(3)."""
    X = np.zeros((4, 4), dtype=np.asarray(twist).dtype)
    X[:3, :3], X[:3, 3] = skew(twist[:3]), twist[3:]
    return X


def adjoint(T):
    """Twists in the frame below T, expressed in the frame above, (6, 6)."""
    R, none = T[:3, :3], np.zeros((3, 3))
    return np.block([[R, none], [skew(T[:3, 3]) @ R, R]])


def cross(v):
    """(v x), (6, 6); (v x*) is minus its transpose."""
    none = np.zeros((3, 3))
    return np.block([[skew(v[:3]), none], [skew(v[3:]), skew(v[:3])]])


class Robot:
    """What the tables call the model: lambda(i), Gamma_i, M_i, and i_X_lambda(i) at s."""

    def __init__(self, model):
        tree = model.kinematics.tree
        self.parents, self.M, self.placements = tree.parents, tree.inertias, model.kinematics.placements
        self.Gamma = [None, *(np.asarray(joint.Phi_at(np.zeros(1)))[:, 0] for joint in tree.joints[1:])]
        self.nB = len(tree.joints) - 1
        self.gravity = np.array([0.0, 0.0, 0.0, *model.gravity])

    def X(self, i, s):
        below = self.placements[i] @ expm(hat(self.Gamma[i]) * s[i - 1])
        return adjoint(np.linalg.inv(below))


def table_4(robot, s, r, r_dot, H, v_A, a_0, a_grav):
    """EIDAmb: [tau; tau_b]; the base's twist v_A is in the inertial frame."""
    n, X_0 = robot.nB, adjoint(np.linalg.inv(H))
    v, a_r, a_vp, Mc, b_c, b_vp, X = ([None] * (n + 1) for _ in range(7))
    v[0], a_r[0] = X_0 @ v_A, X_0 @ a_grav  # 5, 6
    a_vp[0], Mc[0] = a_r[0], robot.M[0].astype(complex)  # 7, 8
    b_c[0] = robot.M[0] @ a_r[0] - cross(v[0]).T @ (robot.M[0] @ v[0])  # 9, 10
    b_vp[0] = b_c[0]  # 11
    for i in range(1, n + 1):
        at, Gamma, M = robot.parents[i], robot.Gamma[i], robot.M[i]
        X[i], v_J = robot.X(i, s), Gamma * r[i - 1]  # 13 to 15
        v[i] = X[i] @ v[at] + v_J  # 16
        turning = cross(v[i]) @ v_J
        a_r[i] = X[i] @ a_r[at] + Gamma * r_dot[i - 1] + turning  # 17
        a_vp[i] = X[i] @ a_vp[at] + turning  # 18
        Mc[i] = M.astype(complex)  # 19
        bias = -cross(v[i]).T @ (M @ v[i])
        b_c[i], b_vp[i] = M @ a_r[i] + bias, M @ a_vp[i] + bias  # 20 to 22
    for i in range(n, 0, -1):
        at = robot.parents[i]
        Mc[at] = Mc[at] + X[i].T @ Mc[i] @ X[i]  # 25
        b_c[at], b_vp[at] = b_c[at] + X[i].T @ b_c[i], b_vp[at] + X[i].T @ b_vp[i]  # 26, 27
    tau, F_r, a = np.zeros(n, complex), np.zeros(6, complex), [a_0]
    for i in range(1, n + 1):
        a.append(X[i] @ a[robot.parents[i]])  # 30
        tau[i - 1] = robot.Gamma[i] @ (Mc[i] @ a[i] + b_c[i])  # 31
        F, j = Mc[i] @ robot.Gamma[i], i  # 32, 33
        while j > 0:  # 34 to 38
            F, j = X[j].T @ F, robot.parents[j]
        F_r = F_r + F * r_dot[i - 1]
    return np.concatenate([tau, Mc[0] @ a_0 + F_r + b_vp[0]])  # 40


def table_9(robot, s):
    """IMMAmb as printed, the line 18's column range read as [:, i + 6 :]."""
    n = robot.nB
    X, MA = [None, *(robot.X(i, s).real for i in range(1, n + 1))], [M.copy() for M in robot.M]
    U, D = [None] * (n + 1), np.zeros(n + 1)
    inverse, F, P = np.zeros((n + 6, n + 6)), np.zeros((n + 1, 6, n + 6)), np.zeros((n + 1, 6, n + 6))
    subtree = [[i] for i in range(n + 1)]
    for i in range(n, 0, -1):
        subtree[robot.parents[i]] += subtree[i]
        at, columns, Gamma = robot.parents[i], np.array(subtree[i]) + 5, robot.Gamma[i]
        U[i] = MA[i] @ Gamma  # 7
        D[i] = Gamma @ U[i]  # 8
        inverse[i + 5, i + 5] = 1.0 / D[i]  # 9
        inverse[i + 5, columns] -= Gamma @ F[i][:, columns] / D[i]  # 10
        F[at][:, columns] += X[i].T @ (F[i][:, columns] + np.outer(U[i], inverse[i + 5, columns]))  # 11
        MA[at] += X[i].T @ (MA[i] - np.outer(U[i], U[i]) / D[i]) @ X[i]  # 12, 13
    base = np.linalg.inv(MA[0])
    P[0][:, 6:] = -base @ F[0][:, 6:]  # 15
    for i in range(1, n + 1):
        right, above = slice(i + 5, None), X[i] @ P[robot.parents[i]]
        inverse[i + 5, right] -= U[i] @ above[:, right] / D[i]  # 17
        P[i][:, right] = np.outer(robot.Gamma[i], inverse[i + 5, right]) + above[:, right]  # 18
    inverse[:6, 6:] = P[0][:, 6:]  # 20
    for i in range(n):  # 21 to 25
        inverse[6 + i :, 6 + i] = inverse[6 + i, 6 + i :]
    inverse[:6, :6] = base  # 26
    return inverse


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(6)
    model = assemble(rng, KINDS, PARENTS, gravity=(1.0, -2.0, -9.0), coincident=0.0)
    q, v = sample(model, rng)
    return model, Robot(model), q, v, rng.normal(size=model.nv)


def base_first(extended):
    """[tau; tau_b] to [tau_b; tau]."""
    return np.concatenate([extended[-6:], extended[:-6]])


def extended(case, xi=None, dv=None, inertial=False, sign=-1.0):
    """Table 4 at q exp(xi), v + dv; `inertial` holds the base's inertial twist in the place of its own."""
    model, robot, q, v, a = case
    xi = np.zeros(model.nv) if xi is None else xi
    w = v if dv is None else v + dv
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation(q[3:7]), q[:3]
    H = robot.placements[0] @ pose
    moved = H @ expm(hat(xi[:6]))
    v_A = adjoint(H if inertial else moved) @ w[:6]
    return base_first(table_4(robot, q[7:] + xi[6:], w[6:], a[6:], moved, v_A, a[:6], sign * robot.gravity))


def rotation(x):
    """R of the unit quaternion (x, y, z, w)."""
    r = x[:3]
    return (x[3] ** 2 - r @ r) * np.eye(3) + 2.0 * np.outer(r, r) + 2.0 * x[3] * skew(r)


def by_complex_steps(f, n):
    return np.stack([f(1j * STEP * e).imag / STEP for e in np.eye(n)], axis=1)


def close(value, expected, tol=1e-12):
    np.testing.assert_allclose(value, expected, atol=tol * np.abs(expected).max(), rtol=0)


def test_table_4(case):
    """With a_grav upward: as printed, gravity is added to the acceleration, not subtracted."""
    model, _, q, v, a = case
    close(extended(case).real, mb.inverse_dynamics(model, q, v, a))
    assert np.abs(extended(case, sign=1.0) - mb.inverse_dynamics(model, q, v, a)).max() > 10.0


def test_tables_6_to_8_and_the_derivative_along_the_base(case):
    model, _, q, v, a = case
    dtau_dq, dtau_dv, _ = mb.inverse_dynamics_derivatives(model, q, v, a)
    close(by_complex_steps(lambda xi: extended(case, xi), model.nv), dtau_dq)
    close(by_complex_steps(lambda dv: extended(case, dv=dv), model.nv), dtau_dv)


def test_table_5_holds_the_inertial_twist(case):
    """Its line 1 is (v_0 x): with the body twist for a state it is zero."""
    model, _, q, v, a = case
    dtau_dq, dtau_dv, _ = mb.inverse_dynamics_derivatives(model, q, v, a)
    printed = by_complex_steps(lambda xi: extended(case, np.append(xi, np.zeros(5)), inertial=True), 6)
    close(printed, dtau_dq[:, :6] + dtau_dv[:, :6] @ cross(v[:6]))
    assert np.abs(printed - dtau_dq[:, :6]).max() > 0.1 * np.abs(dtau_dq).max()


def test_table_9(case):
    """One block of the printed result stays empty; it is the transpose of the other."""
    model, robot, q, _, _ = case
    printed, inverse = table_9(robot, q[7:]), mb.inverse_mass_matrix(model, q)
    assert np.abs(printed[6:, :6]).max() == 0.0 and np.abs(inverse[6:, :6]).max() > 0.1
    printed[6:, :6] = printed[:6, 6:].T
    close(printed, inverse)
