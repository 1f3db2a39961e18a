"""The second route: finite differences, transports and linear systems, independent of the library.

Derivatives are central differences of eighth order along retractions (on the manifold, never off the unit
sphere); differential equations go to SciPy's DOP853; tensors with prescribed symmetries come from a linear
system in the n^3 unknowns, solved block by block.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement, permutations
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import PytreePartial
from connections.geometry import FrameField

Array = NDArray[Any]
BatchFunction = Callable[[Array], Array]

STEP = 5e-3
TRANSPORT_STEP = 5e-3
_OFFSETS = np.array([1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0])
_WEIGHTS = np.array([672.0, -672.0, -168.0, 168.0, 32.0, -32.0, -3.0, 3.0]) / 840.0
LOOP_SIDE = 1e-2  # of the smallest square; second derivatives amplify round-off more than first ones
_SECOND_WEIGHTS = np.array([8064.0, 8064.0, -1008.0, -1008.0, 128.0, 128.0, -9.0, -9.0]) / 5040.0


class Batch:
    """A JAX function of one point on batches of any length, compiled for two lengths only.

    Parameters
    ----------
    function : (point, *parameters) -> value; JAX-traceable, of a module or a class, or bound to objects
        (`PytreePartial`). Random numbers are parameters, so that new ones compile nothing.
    chunk : length to which longer batches are padded.
    """

    def __init__(self, function: Callable[..., jax.Array], chunk: int) -> None:
        self._one, self._many, self._chunk = compiled(function), compiled(_of_many, function), chunk

    def __call__(self, points: Array, *parameters: Array) -> Array:
        """Values (k, ...) at points (k, ...)."""
        if len(points) == 1:
            return np.asarray(self._one(points[0], *parameters))[None]
        padding = -len(points) % self._chunk
        padded = np.concatenate([points, np.repeat(points[-1:], padding, axis=0)])
        parts = np.split(padded, len(padded) // self._chunk)
        values: Array = np.concatenate([np.asarray(self._many(part, *parameters)) for part in parts])
        return values[: len(points)]


def _of_many(function: Callable[..., jax.Array], points: jax.Array, *parameters: Any) -> jax.Array:
    return jax.vmap(lambda point: function(point, *parameters))(points)


class Numerics:
    """Finite differences and flows along a frame.

    Parameters
    ----------
    frame : the frame; only its matrix, its dual and its retraction are used.
    """

    def __init__(self, frame: FrameField) -> None:
        self.frame, self.n = frame, frame.dim
        self.chunk = len(_OFFSETS) * self.n
        self._retract = Batch(PytreePartial(_retracted, frame), self.chunk)
        self.matrix = Batch(frame.matrix_at, self.chunk)
        self._dual = compiled(frame.dual_at)
        self._projected = compiled(_projected, frame)
        self._edge = compiled(_edge, frame)

    def retract(self, q: Array, shifts: Array) -> Array:
        """Points (k, nq), the retractions of the shifts (k, n) from q."""
        return self._retract(np.concatenate([np.broadcast_to(q, (len(shifts), q.size)), shifts], axis=1))

    def derivative(self, f: BatchFunction, q: Array) -> Array:
        """L_{X_i} f at q, (n, ...), from values of f at (k, nq) points."""
        return differences(np.asarray(f(self.retract(q, stencil(self.n)))), self.n)

    def derivative_along(self, f: BatchFunction, q: Array, v: Array) -> Array:
        """d/dt f along a curve that leaves q with velocity X v, (...)."""
        values = np.asarray(f(self.retract(q, STEP * _OFFSETS[:, None] * v)))
        return np.tensordot(_WEIGHTS, values, axes=1) / STEP

    def structure_functions(self, q: Array) -> Array:
        """s[k, i, j] from differences of the frame's matrix."""
        dX = self.derivative(self.matrix, q)  # [i, a, j]
        brackets = np.transpose(dX, (1, 0, 2)) - np.transpose(dX, (1, 2, 0))
        return np.tensordot(np.asarray(self._dual(q)), brackets, axes=1)

    def flow(
        self, Gamma: Callable[[Array], Array], q: Array, xi: Array, Z: Array, t: float
    ) -> tuple[Array, Array]:
        """Follow qdot = X xi (xi constant) for time t and transport the columns of Z (n, p) along it."""

        def rhs(_: float, state: Array) -> Array:
            (p, X), z = self._point(state), state[q.size :].reshape(Z.shape)
            turning = np.tensordot(np.tensordot(Gamma(p), xi, axes=(1, 0)), z, axes=1)
            return np.concatenate([X @ xi, -turning.ravel()])

        state = _solve(rhs, np.concatenate([q, Z.ravel()]), t)
        return self._point(state)[0], state[q.size :].reshape(Z.shape)

    def geodesic(
        self, spray: Callable[[Array, Array], Array], q: Array, v: Array, t: float
    ) -> tuple[Array, Array]:
        """Point and velocity after time t of qdot = X v, vdot = -spray(q, v)."""

        def rhs(_: float, state: Array) -> Array:
            (p, X), w = self._point(state), state[q.size :]
            return np.concatenate([X @ w, -spray(p, w)])

        state = _solve(rhs, np.concatenate([q, v]), t)
        return self._point(state)[0], state[q.size :]

    def transported_derivative(
        self, Gamma: Callable[[Array], Array], q: Array, x: Array, Y: BatchFunction
    ) -> Array:
        """nabla_x Y at q as the derivative of Y(c(t)) carried back to q by parallel transport."""
        pulled = []
        for t in TRANSPORT_STEP * _OFFSETS:
            p, operator = self.flow(Gamma, q, x, np.eye(self.n), float(t))
            pulled.append(np.linalg.solve(operator, np.asarray(Y(p[None]))[0]))
        return np.tensordot(_WEIGHTS, np.stack(pulled), axes=1) / TRANSPORT_STEP

    def curvature_of_loops(
        self, Gamma: Callable[[Array], Array], q: Array, u: Array, w: Array, z: Array
    ) -> Array:
        """R(u, w) z: minus half the second derivative of z carried round squares, by their side.

        A square's corners are q and the retractions of side u, side (u + w) and side w, in this order.
        """

        def carried(side: float) -> Array:
            vector = z
            for start, along in ((0.0 * u, u), (u, w), (u + w, -u), (w, -w)):

                def rhs(t: float, vector: Array, start: Array = start, along: Array = along) -> Array:
                    p, velocity = map(np.asarray, self._edge(q, side * start + t * along, along))
                    rate: Array = -np.tensordot(Gamma(p), velocity, axes=(1, 0)) @ vector
                    return rate

                vector = _solve(rhs, vector, side, first_step=abs(side))
            return vector

        gaps = np.stack([carried(float(side)) - z for side in LOOP_SIDE * _OFFSETS])
        return -0.5 * np.tensordot(_SECOND_WEIGHTS, gaps, axes=1) / LOOP_SIDE**2

    def neighbours(
        self, spray: Callable[[Array, Array], Array], q: Array, v: Array, eta: Array, dv: Array, t: float
    ) -> tuple[Array, Array, Array, Array]:
        """A geodesic's point and velocity after time t, and the derivatives of both by the start.

        The start is changed by eta and dv; the change of a point is in components of the frame.
        """
        shifts = STEP * _OFFSETS[:, None]
        starts = zip(self.retract(q, shifts * eta), v + shifts * dv, strict=True)
        ends = [self.geodesic(spray, *start, t) for start in starts]
        points, velocities = (
            np.tensordot(_WEIGHTS, np.stack(end), axes=1) / STEP for end in zip(*ends, strict=True)
        )
        p, velocity = self.geodesic(spray, q, v, t)
        return p, velocity, np.asarray(self._dual(p)) @ points, velocities

    def jacobi_field(
        self,
        Gamma: Callable[[Array], Array],
        bending: Callable[[Array, Array], Array],
        q: Array,
        v: Array,
        eta: Array,
        w: Array,
        t: float,
    ) -> tuple[Array, Array]:
        """eta and w after time t of D_t eta = w, D_t w = -bending(q, v) eta along a geodesic."""
        n, nq = self.n, q.size

        def rhs(_: float, state: Array) -> Array:
            (p, X), (v, eta, w) = self._point(state), state[nq:].reshape(3, n)
            turning = np.tensordot(Gamma(p), v, axes=(1, 0))
            rates = -turning @ v, w - turning @ eta, -bending(p, v) @ eta - turning @ w
            return np.concatenate([X @ v, *rates])

        end = _solve(rhs, np.concatenate([q, v, eta, w]), t)
        return end[nq + n : nq + 2 * n], end[nq + 2 * n :]

    def _point(self, state: Array) -> tuple[Array, Array]:
        """The point of a state, on the manifold, and the frame's matrix there."""
        p, X = self._projected(state[: self.frame.ambient_dim])
        return np.asarray(p), np.asarray(X)


def _retracted(frame: FrameField, pair: jax.Array) -> jax.Array:
    """The retraction of xi from q, given [q, xi]."""
    return frame.retract_at(pair[: frame.ambient_dim], pair[frame.ambient_dim :])


def _projected(frame: FrameField, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The point next to q, and the frame's matrix there."""
    p = frame.project_at(q)
    return p, frame.matrix_at(p)


def _edge(frame: FrameField, q: jax.Array, shift: jax.Array, along: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The retraction of a shift from q, and its rate in the frame if the shift changes."""
    p, rate = jax.jvp(lambda xi: frame.retract_at(q, xi), (shift,), (along,))
    return p, frame.dual_at(p) @ rate


def stencil(n: int) -> Array:
    """The shifts (8 n, n); `differences` computes a derivative from the values there."""
    return STEP * (_OFFSETS[:, None, None] * np.eye(n)).reshape(-1, n)


def differences(values: Array, n: int) -> Array:
    """Eighth-order derivative (n, ...) from values (8 n, ...) at the shifts of `stencil`."""
    return np.tensordot(_WEIGHTS, values.reshape((len(_OFFSETS), n) + values.shape[1:]), axes=1) / STEP


def koszul_by_differences(dH: Array, s_low: Array) -> Array:
    """Gamma*_ijk of [W] (8), component by component, from dH[k, i, j] and s_low[k, i, j]."""
    n = len(dH)
    Gamma = np.empty((n, n, n))
    for i, j, k in np.ndindex(n, n, n):
        metric_part = dH[k, i, j] + dH[j, i, k] - dH[i, j, k]
        Gamma[i, j, k] = 0.5 * (metric_part + s_low[k, i, j] + s_low[j, i, k] + s_low[i, j, k])
    return Gamma


def hamel_bias(H: Array, dH: Array, s: Array, v: Array) -> Array:
    """d/dt dL/dv^i + s^k_ij dL/dv^k v^j - L_{X_i} L of L = (1/2) v^T H v at vdot = 0, (n,).

    Parameters
    ----------
    H, dH, s : H_ij, dH[k, i, j] = L_{X_k} H_ij, s[k, i, j].
    v : (n,).

    Source: [W] eq. (6).
    """
    rate, slope = np.einsum("kij,k,j->i", dH, v, v), np.einsum("ijk,j,k->i", dH, v, v)
    bias: Array = rate + np.einsum("kij,k,j->i", s, H @ v, v) - 0.5 * slope
    return bias


def largest(*arrays: Array | float) -> float:
    """The largest absolute value in all arrays; NaN if one has a NaN, which Python's `max` could ignore."""
    return float(np.max([np.max(np.abs(array), initial=0.0) for array in arrays]))


def spray_of(Gamma: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """(q, v) -> Gamma^i_jk v^j v^k."""
    return lambda q, v: np.einsum("ijk,j,k->i", Gamma(q), v, v)


def symmetrized(tensor: Array) -> Array:
    """Symmetric part in the last two indices."""
    symmetric: Array = 0.5 * (tensor + np.swapaxes(tensor, -1, -2))
    return symmetric


def random_contorsion(rng: np.random.Generator, n: int, size: float, symmetry: str | None = None) -> Array:
    """A random D (n, n, n), antisymmetric in (1, 3), in (2, 3), or of no symmetry.

    For n = 1 it is one number, drawn so that it is not close to zero.
    """
    D = rng.normal(size=(n, n, n))
    D = size * (np.copysign(np.abs(D) + 0.5, D) if n == 1 else D)
    if symmetry == "metric_compatible":
        D = D - np.transpose(D, (2, 1, 0))
    elif symmetry == "same_geodesics":
        D = D - np.transpose(D, (0, 2, 1))
    return D


def constrained_tensor(
    n: int, metric_part: Array | None, torsion_part: Array | None, geodesic_part: Array | None
) -> tuple[Array, int, Array]:
    """Solve for Gamma_ijk from any of three families of linear equations.

    Gamma_kij + Gamma_jik = metric_part[i, j, k]; Gamma_ijk - Gamma_ikj = torsion_part[i, j, k];
    (Gamma_ijk + Gamma_ikj) / 2 = geodesic_part[i, j, k]. Equations couple only coefficients whose indices are
    permutations of one another, so the system is solved block by block.

    Returns
    -------
    The least-squares solution of least norm (n, n, n), the rank, and a basis of the null space (p, n, n, n).
    """
    solution, rank, null = np.zeros((n, n, n)), 0, []
    for triple in combinations_with_replacement(range(n), 3):
        unknowns = sorted(set(permutations(triple)))
        rows, right = _block(unknowns, metric_part, torsion_part, geodesic_part)
        U, sigma, Vt = np.linalg.svd(rows)
        keep = int(np.sum(sigma > 1e-10))
        values = Vt[:keep].T @ ((U.T @ right)[:keep] / sigma[:keep])
        for unknown, value in zip(unknowns, values, strict=True):
            solution[unknown] = value
        rank += keep
        for vector in Vt[keep:]:
            tensor = np.zeros((n, n, n))
            for unknown, value in zip(unknowns, vector, strict=True):
                tensor[unknown] = value
            null.append(tensor)
    return solution, rank, np.array(null).reshape(-1, n, n, n)


def _block(
    unknowns: list[tuple[int, ...]],
    metric_part: Array | None,
    torsion_part: Array | None,
    geodesic_part: Array | None,
) -> tuple[Array, Array]:
    column = {unknown: index for index, unknown in enumerate(unknowns)}
    rows, right = [], []

    def equation(value: float, *terms: tuple[tuple[int, ...], float]) -> None:
        row = np.zeros(len(unknowns))
        for unknown, factor in terms:
            row[column[unknown]] += factor
        rows.append(row)
        right.append(value)

    for i, j, k in unknowns:
        if metric_part is not None:
            equation(metric_part[i, j, k], ((k, i, j), 1.0), ((j, i, k), 1.0))
        if torsion_part is not None:
            equation(torsion_part[i, j, k], ((i, j, k), 1.0), ((i, k, j), -1.0))
        if geodesic_part is not None:
            equation(geodesic_part[i, j, k], ((i, j, k), 0.5), ((i, k, j), 0.5))
    return np.array(rows), np.array(right)


def _solve(
    rhs: Callable[[float, Array], Array], state: Array, t: float, first_step: float | None = None
) -> Array:
    given: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-13, "first_step": first_step}
    y: Array = solve_ivp(rhs, (0.0, t), state, method="DOP853", **given).y
    return y[:, -1]
