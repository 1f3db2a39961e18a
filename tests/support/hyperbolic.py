"""Hyperbolic space in eight models, with the closed form of geodesics.

On the hyperboloid X0^2 - X1^2 - ... = 1, a geodesic of unit speed is X cosh(s) + U sinh(s); every model has
its coordinates as functions of X, which mpmath evaluates with 60 digits.
Source: J. W. Cannon, W. J. Floyd, R. Kenyon, W. R. Parry, Hyperbolic Geometry (1997), sections 7 and 9.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax.numpy as jnp
import mpmath
import numpy as np
import systems

import connections as cn

mp = mpmath.mp.clone()
mp.dps = 60


@dataclass(frozen=True)
class Model:
    """Coordinates of hyperbolic space.

    Parameters
    ----------
    matrix : q (n,) -> H (n, n), in JAX.
    coordinates : X -> q, in mpmath.
    q0 : the first point.
    X, U : ambient point there, and the ambient tangent vectors of the columns of `E`.
    E : (n, n) coordinates' rates of an orthonormal basis.
    small : the coordinates that are asked for relative to themselves.
    """

    matrix: Callable[[Any], Any]
    coordinates: Callable[[Any], Any]
    q0: np.ndarray
    E: np.ndarray
    X: tuple[float, ...] = (1, 0, 0)
    U: tuple[tuple[float, ...], ...] = ((0, 1, 0), (0, 0, 1))
    small: tuple[int, ...] = ()


def half_space(X):
    """(x, ..., y)."""
    y = 1 / (X[0] - X[1])
    return [*(y * x for x in X[2:]), y]


def horocyclic(X):
    x, y = half_space(X)
    return [x, mp.log(y)]


EYE, ZERO = np.eye(2), np.zeros(2)
COSH, SINH = mp.cosh(1), mp.sinh(1)
MODELS = {
    "half plane": Model(
        lambda q: jnp.eye(2) / q[1] ** 2, half_space, np.array([0.0, 1.0]), EYE,
        U=((0, 0, 1), (0, 1, 0)), small=(1,),
    ),
    "half space": Model(
        lambda q: jnp.eye(3) / q[2] ** 2, half_space, np.array([0.0, 0.0, 1.0]),
        np.array([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]]), (1, 0, 0, 0),
        ((0, 0, 0.6, 0.8), (0, 0, -0.8, 0.6), (0, 1, 0, 0)), (2,),
    ),
    "horocyclic": Model(
        lambda q: jnp.diag(jnp.stack([jnp.exp(-2.0 * q[1]), 1.0])), horocyclic, ZERO, EYE,
        U=((0, 0, 1), (0, 1, 0)),
    ),
    "polar": Model(
        lambda q: jnp.diag(jnp.stack([1.0, jnp.sinh(q[0]) ** 2])),
        lambda X: [mp.acosh(X[0]), mp.atan2(X[2], X[1])],
        np.array([1.0, 0.0]), np.diag([1.0, 1.0 / np.sinh(1.0)])[:, ::-1],
        (COSH, SINH, 0), ((0, 0, 1), (SINH, COSH, 0)),
    ),
    "fermi": Model(
        lambda q: jnp.diag(jnp.stack([jnp.cosh(q[1]) ** 2, 1.0])),
        lambda X: [mp.atanh(X[1] / X[0]), mp.asinh(X[2])], ZERO, EYE,
    ),
    "hyperboloid": Model(
        lambda q: (jnp.eye(2) + jnp.outer(q[::-1], q[::-1]) * jnp.array([[1.0, -1.0], [-1.0, 1.0]]))
        / (1.0 + q @ q),
        lambda X: X[1:], ZERO, EYE,
    ),
    "poincare": Model(
        lambda q: 4.0 * jnp.eye(2) / (1.0 - q @ q) ** 2,
        lambda X: [x / (1 + X[0]) for x in X[1:]], ZERO, 0.5 * EYE,
    ),
    "klein": Model(
        lambda q: (jnp.eye(2) * (1.0 - q @ q) + jnp.outer(q, q)) / (1.0 - q @ q) ** 2,
        lambda X: [x / X[0] for x in X[1:]], ZERO, EYE,
    ),
}  # fmt: skip


@cache
def connection(name):
    if name == "half plane":
        return systems.HALF_PLANE_NABLA
    model = MODELS[name]
    return cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(len(model.q0)), model.matrix))


def start(name, angle):
    """The first point, and a unit velocity at this angle from the first direction, toward the second one."""
    model = MODELS[name]
    weights = np.zeros(len(model.q0))
    weights[0], weights[-1] = np.cos(angle), np.sin(angle)
    return model.q0, model.E @ weights


def closed_form(name, angle, lengths):
    """The coordinates q (T, n) and their rates by length (T, n)."""
    model = MODELS[name]
    weights = [mp.cos(angle), *[0] * (len(model.q0) - 2), mp.sin(angle)]
    U = [mp.fsum(w * u[i] for w, u in zip(weights, model.U, strict=True)) for i in range(len(model.X))]

    def at(s, part):
        c, d = mp.cosh(s), mp.sinh(s)
        return model.coordinates([c * x + d * u for x, u in zip(model.X, U, strict=True)])[part]

    q, v = [], []
    for length in lengths:
        s, parts = mp.mpf(float(length)), range(len(model.q0))
        h = mp.mpf(10) ** -20  # central differences of 60 digits: 40 of the rate
        q.append([float(at(s, k)) for k in parts])
        v.append([float((at(s + h, k) - at(s - h, k)) / (2 * h)) for k in parts])
    return np.array(q), np.array(v)
