"""Vehicles for the tests: a snakeboard in JAX, and all the named systems with Lagrange multipliers in NumPy.

The second part shares nothing with the package: bodies in coordinates in which their mass matrix is constant
(two bodies and a hinge for the trailer), constraints as forms, SciPy for the integration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import connections as cn

# --- a snakeboard in JAX, q = (x, y, theta, psi, phi) -------------------------------------------------------

MASS, LENGTH, ROTOR, WHEELS = 1.3, 0.7, 0.2, 0.1
INERTIA = np.diag([MASS, MASS, MASS * LENGTH**2, ROTOR, WHEELS])
INERTIA[2, 3] = INERTIA[3, 2] = ROTOR
METRIC = cn.ConstantMetric(cn.CoordinateFrame(5), INERTIA)


def forms(q):
    """No slip at the front and at the back wheels."""
    rows = []
    for sign in (1.0, -1.0):
        turned = sign * q[4] - q[2]
        rows += [[jnp.sin(turned), jnp.cos(turned), sign * LENGTH * jnp.cos(q[4]), 0.0, 0.0]]
    return jnp.array(rows)


def basis(q):
    """The body about the wheels' common centre, the rotor, the wheels: oblique, and invariant."""
    along, turn = LENGTH * jnp.cos(q[4]), -jnp.sin(q[4])
    first = jnp.stack([along * jnp.cos(q[2]), along * jnp.sin(q[2]), turn])
    return jnp.eye(5)[:, 2:].at[:3, 0].set(first).at[2, 1:].set(0.0)


def inputs(q):
    """Torques on rotor and wheels."""
    return jnp.eye(5)[3:]


def multiply(g, h):
    """SE(2) times a circle: (a, b, alpha, beta)."""
    c, s = jnp.cos(g[2]), jnp.sin(g[2])
    return (g + h).at[:2].set(g[:2] + jnp.stack([c * h[0] - s * h[1], s * h[0] + c * h[1]]))


def act(q, g):
    """A planar motion, and a turn of the rotor; the wheels' angle stays."""
    return jnp.append(multiply(g, q[:4]), q[4])


GROUP = cn.GroupAction(act, multiply, np.zeros(4))
NABLA = cn.ConstrainedConnection(METRIC, basis, forms=forms)
POINTS = 2.0 * np.random.default_rng(4).normal(size=(3, 4, 5))  # points, and elements of the group

# --- with multipliers, in NumPy ---------------------------------------------------------------------


def rate(function: Callable, q: np.ndarray, q_dot: np.ndarray) -> np.ndarray:
    """d/dt function(q(t)), exact to round-off: a step into the complex plane."""
    return np.imag(function(q + 1e-30j * q_dot)) / 1e-30


@dataclass(frozen=True)
class Bodies:
    """Bodies in coordinates p with a constant mass matrix M: M pddot = F + W^T lambda, W pdot = 0.

    mass (N, N) or its diagonal; forms: p -> W (k, N); inputs: p -> (a, N); place: q of the library -> p;
    read: p -> q. All functions take complex arrays.
    """

    mass: np.ndarray
    forms: Callable
    inputs: Callable
    place: Callable = np.array
    read: Callable = np.array

    def acceleration(self, p, p_dot, covector, driven=(), wanted=()):
        """pddot (N,); coordinates `driven` (indices) have the accelerations `wanted`, whatever it takes."""
        M = np.diag(self.mass) if np.ndim(self.mass) == 1 else self.mass
        W = np.real(self.forms(p)).reshape(-1, len(p))
        right = -rate(self.forms, p, p_dot).reshape(W.shape) @ p_dot
        W, right = np.concatenate([W, np.eye(len(p))[list(driven)]]), np.concatenate([right, wanted])
        matrix = np.block([[M, -W.T], [W, np.zeros((len(W), len(W)))]])
        return np.linalg.solve(matrix, np.concatenate([covector, right]))[: len(p)]

    def motion(self, q0, q_dot0, times, covector=None, driven=(), wanted=lambda t: ()):
        """The library's q and qdot, (T, nq); covector: (t, p, pdot) -> (N,), wanted: t -> (driven,)."""
        q0, q_dot0 = np.asarray(q0), np.asarray(q_dot0)
        start = np.concatenate([self.place(q0), rate(self.place, q0, q_dot0)])
        N = len(start) // 2

        def rates(t, state):
            p, p_dot = state[:N], state[N:]
            given = np.zeros(N) if covector is None else covector(t, p, p_dot)
            return np.concatenate([p_dot, self.acceleration(p, p_dot, given, driven, wanted(t))])

        found = solve_ivp(rates, (times[0], times[-1]), start, "DOP853", times, rtol=1e-11, atol=1e-11)
        assert found.success, found.message
        p, p_dot = found.y[:N].T, found.y[N:].T
        q_dot = np.array([rate(self.read, x, v) for x, v in zip(p, p_dot, strict=True)])
        return np.array([self.read(x) for x in p]), q_dot


def blade(angle, p, x=0, y=1, theta=None, behind=0.0):
    """No motion across `angle` of the point `behind` the body (x, y, theta) along its axis, (N,)."""
    row = np.zeros(len(p), dtype=complex)
    row[[x, y]] = -np.sin(angle), np.cos(angle)
    if theta is not None:
        row[theta] = -behind * np.cos(angle - p[theta])
    return row


def snakeboard(m, J_r, J_w, l):  # noqa: E741
    M = np.diag([m, m, m * l**2, J_r, J_w])
    M[2, 3] = M[3, 2] = J_r

    def wheels(p):
        x, y, theta, psi, phi = p
        front, back = theta - phi, theta + phi
        return np.array([blade(front, p, theta=2, behind=-l), blade(back, p, theta=2, behind=l)])

    return Bodies(M, wheels, lambda p: np.eye(5)[3:])


def roller_racer(m, I_1, I_2, l_1, l_2):
    """The hinge is l_1 ahead of the body's centre, the front wheels l_2 ahead of it; no mass in front."""
    M = np.diag([m, m, I_1 + I_2, I_2])
    M[2, 3] = M[3, 2] = I_2

    def wheels(p):
        x, y, theta, psi = p
        row = np.array([np.sin(theta + psi), -np.cos(theta + psi), -(l_2 + l_1 * np.cos(psi)), -l_2])
        return np.array([blade(theta, p), row])

    return Bodies(M, wheels, lambda p: np.eye(4)[3:])


def rolling_disc(m, R, I, J):  # noqa: E741
    def rolls(p):
        along = R * np.cos(p[2]), R * np.sin(p[2])
        return np.array([[1, 0, 0, -along[0]], [0, 1, 0, -along[1]]])

    return Bodies(np.array([m, m, J, I]), rolls, lambda p: np.array([[0, 0, 0, 1.0], [0, 0, 1, 0]]))


def heisenberg_particle(m):
    return Bodies(np.full(3, m), lambda p: np.array([[-p[1], 0, 1]]), lambda p: np.eye(3)[:2])


def chaplygin_sleigh(m, I, a):  # noqa: E741
    """In coordinates of the centre of mass; a force along the blade, and a couple."""

    def along(p):
        return np.array([np.cos(p[2]), np.sin(p[2]), 0.0 * p[2]])

    return Bodies(
        np.array([m, m, I]),
        lambda p: blade(p[2], p, theta=2, behind=a)[None],
        lambda p: np.array([along(p), [0, 0, 1]]),
        lambda q: q + a * along(q),
        lambda p: p - a * along(p),
    )


def trailer(M, J, m, I, d, c):  # noqa: E741
    """Robot (x, y, theta) and trailer (x, y, theta): a hinge, and two axles."""

    def conditions(p):
        c1, s1 = np.cos(p[5]), np.sin(p[5])
        hinge = np.array([[1, 0, 0, -1, 0, c * s1], [0, 1, 0, 0, -1, -c * c1]])
        return np.concatenate([hinge, [blade(p[2], p)], [blade(p[5], p, x=3, y=4, theta=5, behind=d - c)]])

    def place(q):
        x, y, theta, delta = q
        turned = theta - delta
        return np.array([x, y, theta, x - c * np.cos(turned), y - c * np.sin(turned), turned])

    def drive(p):
        return np.array([[np.cos(p[2]), np.sin(p[2]), 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]])

    return Bodies(
        np.array([M, M, J, m, m, I]), conditions, drive, place, lambda p: np.append(p[:3], p[2] - p[5])
    )


def planar_body(m, J, h):
    def thrust(p):
        c, s = np.cos(p[2]), np.sin(p[2])
        return np.array([[c, s, 0], [-s, c, -h]])

    return Bodies(np.array([m, m, J]), lambda p: np.zeros((0, 3)), thrust)


BODIES = {
    "snakeboard": snakeboard,
    "roller_racer": roller_racer,
    "rolling_disc": rolling_disc,
    "heisenberg_particle": heisenberg_particle,
    "chaplygin_sleigh": chaplygin_sleigh,
    "trailer": trailer,
    "planar_body": planar_body,
}
