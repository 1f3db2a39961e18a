"""Which kind of Coriolis matrix is this? From the pair of the introduction of [W] to a spinning body.

Any C(q, v) that is linear in v is an affine connection. `audit_coriolis` reads it off, compares it with the
Riemannian one, and says in words what separates the two. Run: python examples/audit.py
"""

import numpy as np

import connections as cn

rng = np.random.default_rng(0)


def cross(w):
    """The matrix of w x."""
    return np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def section(title):
    """A heading."""
    print(f"\n{title}\n{'-' * len(title)}")


# 1. The pair of the introduction: c(q, v) = (v1 v2, 0), factored in two ways and by their mean.
#    This kinetic energy has exactly that c:
def mass_matrix(q):
    """H(q) with c = (v1 v2, 0); positive definite where 4 q2 > q1^2."""
    return np.array([[q[1], q[0] / 2], [q[0] / 2, 1.0]])


C_a = lambda q, v: np.array([[v[1], 0.0], [0.0, 0.0]])  # noqa: E731
C_b = lambda q, v: np.array([[0.0, v[0]], [0.0, 0.0]])  # noqa: E731
C_mean = lambda q, v: 0.5 * (C_a(q, v) + C_b(q, v))  # noqa: E731

q = rng.uniform([-1.0, 1.0], [1.0, 2.0], (4, 2))
v = rng.standard_normal((4, 2))
chart = cn.CoordinateFrame(2)
for name, C in (("C_a", C_a), ("C_b", C_b), ("(C_a + C_b) / 2", C_mean)):
    section(name)
    print(cn.audit_coriolis(C, mass_matrix, chart, q, v))
pair = [cn.audit_coriolis(C, mass_matrix, chart, q, v).kind for C in (C_a, C_b, C_mean)]
assert pair == ["dynamics only", "dynamics only", "riemannian"]  # for n = 2 the admissible C is unique

# 2. A spinning body: body angular velocity is not the rate of any coordinate, and C v = w x (I w).
#    C = -(I w) x is admissible, but not Riemannian: it has torsion.
inertia = np.diag([1.0, 2.0, 2.5])
body = cn.SO3Frame()
orientations = rng.standard_normal((4, 4))
orientations /= np.linalg.norm(orientations, axis=1, keepdims=True)
w = rng.standard_normal((4, 3))

section("A spinning body with C = -(I w) x")
report = cn.audit_coriolis(lambda q, w: -cross(inertia @ w), lambda q: inertia, body, orientations, w)
print(report)
assert report.kind == "torsion"

section("The same body with the factor of [W] (18)")
Sigma = np.trace(inertia) / 2 * np.eye(3) - inertia
report = cn.audit_coriolis(lambda q, w: cross(Sigma @ w), lambda q: inertia, body, orientations, w)
print(report)
assert report.kind == "riemannian"

section("The same body with C = (w x) I: right dynamics, no passivity")
report = cn.audit_coriolis(lambda q, w: cross(w) @ inertia, lambda q: inertia, body, orientations, w)
print(report)
assert report.kind == "dynamics only"
