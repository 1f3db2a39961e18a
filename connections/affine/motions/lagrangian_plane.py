"""Conjugate points are counted: the Jacobi fields that vanish at the start, as a Lagrangian plane that turns.

In a parallel orthonormal frame E, with eta = E y and K = E^T H R(E ., v) v, the matrix Y of these fields and
its derivative Z satisfy Ydot = Z, Zdot = -K Y, Y = 0 and Z = 1 at the start. For a rate omega > 0,

    U = (Z + i omega Y) (Z - i omega Y)^-1    is unitary and symmetric, and
    Udot = i omega (U + 1)^2 / 2 - i (U - 1) K (U - 1) / (2 omega).

The point at time t is conjugate to the start, with multiplicity m, if and only if m eigenvalues
exp(i theta_j) of U are one. There, theta_j grows at the rate 2 omega, whatever the curvature is: eigenvalues
pass one in this direction only. So the sum of the continuous angles, which begin at zero,

    Theta = sum_j theta_j,    Thetadot = omega tr(1 + Re U) + tr(K (1 - Re U)) / omega,

exceeds the sum of the principal angles phi_j in [0, 2 pi) by 2 pi for every conjugate point in (0, t],
counted with its multiplicity:

    count = (Theta - sum_j phi_j) / (2 pi).

Theta is integrated with U, so the count at a time needs no other times. It is an integer, which tests the
integration. U is bounded, also where the fields grow exponentially.
Source: [A] for the eigenvalues of U; [MT] section 15 for the index theorem.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import in_jax
from connections.affine.connection import AffineConnection
from connections.affine.motions.flow import Flow, Record, Trajectories
from connections.affine.motions.units import motion_units
from connections.checks import IntegrationError
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import PytreePartial
from connections.geometry.numerics.definite import orthonormal_basis
from connections.geometry.numerics.scales import inverse_lengths_of

_WHOLE = 1e-6  # how far a count may be from an integer


class Turns(NamedTuple):
    """The plane at T times.

    Parameters
    ----------
    full : (T,) integers, conjugate points in (0, t], with their multiplicities.
    angles : (T, n) principal angles of U in [0, 2 pi), increasing.
    """

    full: np.ndarray
    angles: np.ndarray


def turning_rate(nabla: AffineConnection, q: Any, v: Any, duration: float) -> float:
    """omega, 1/s: the root of the largest curvature at the start, at least 1 / duration.

    Parameters
    ----------
    nabla : a Levi-Civita connection.
    q, v : (nq,) and (n,) the initial state of the geodesic.
    duration : of the geodesic, s.
    """
    arguments = Argument("q", q, (nabla.frame.ambient_dim,)), Argument("v", v, (nabla.frame.dim,))
    K = evaluate(nabla, PytreePartial(_initial_curvature, nabla), *arguments)
    return max(1.0 / duration, float(np.sqrt(np.max(np.abs(np.linalg.eigvalsh(K)), initial=0.0))))


def turns(nabla: AffineConnection, q: Any, v: Any, omega: float, times: np.ndarray) -> Turns:
    """The plane along the geodesic through (q, v) at times[0].

    Parameters
    ----------
    nabla : a Levi-Civita connection.
    q, v : (nq,) and (n,).
    omega : the rate of U, 1/s.
    times : (T,) increasing.

    Raises
    ------
    As `geodesic`; IntegrationError also if a count is not within 1e-6 of an integer.
    """
    arguments = (
        Argument("q", q, (nabla.frame.ambient_dim,)),
        Argument("v", v, (nabla.frame.dim,)),
        Argument("omega", omega, ()),
    )
    found = Trajectories.of(nabla).run(
        "conjugate_times", PytreePartial(_turning_flow, nabla), arguments, times
    )
    real, imaginary, total = map(np.asarray, found)
    angles = np.sort(np.angle(np.linalg.eigvals(real + 1j * imaginary)) % (2.0 * np.pi), axis=-1)
    angles[angles == 2.0 * np.pi] = 0.0  # of a remainder that is rounded
    count = (total - angles.sum(axis=-1)) / (2.0 * np.pi)
    whole = np.round(count)
    if not np.all(np.abs(count - whole) < _WHOLE):
        at = int(np.argmax(np.abs(count - whole)))
        what = f"the number of conjugate points before t = {times[at]:.6g} is computed as {count[at]:.9g}"
        raise IntegrationError(f"conjugate_times: {what}, no integer")
    return Turns(whole.astype(int), angles)


# --- private ---------------------------------------------------------------------------------------------


def _initial_curvature(nabla: AffineConnection, q: jax.Array, v: jax.Array) -> jax.Array:
    return _curvature(nabla, q, v, orthonormal_basis(nabla.gram_at(q))[1])


def _curvature(nabla: AffineConnection, q: jax.Array, v: jax.Array, E: jax.Array) -> jax.Array:
    """E^T H R(E ., v) v, (n, n); symmetric but for round-off, which is taken away."""
    K = E.T @ nabla.gram_at(q) @ nabla.curvature_along_at(q, v) @ E
    return (K + K.T) / 2.0


def _turning_flow(nabla: AffineConnection) -> Flow[Any]:
    frame, one = nabla.frame, in_jax(np.eye(nabla.frame.dim))

    def start(q: jax.Array, v: jax.Array, omega: jax.Array) -> Any:
        return q, v, orthonormal_basis(nabla.gram_at(q))[1], one, jnp.zeros_like(one), jnp.zeros(())

    def rate(t: jax.Array, state: Any, q0: jax.Array, v0: jax.Array, omega: jax.Array) -> Any:
        q, v, E, real, imaginary, _ = state
        U, K = real + 1j * imaginary, _curvature(nabla, q, v, E)
        U_dot = 0.5j * (omega * (U + one) @ (U + one) - (U - one) @ K @ (U - one) / omega)
        total = omega * jnp.trace(one + real) + jnp.trace(K @ (one - real)) / omega
        carried = -jax.vmap(lambda z: nabla.apply_at(q, v, z), 1, 1)(E)
        return frame.matrix_at(q) @ v, -nabla.apply_at(q, v, v), carried, U_dot.real, U_dot.imag, total

    def project(state: Any) -> Any:
        q, v, E, real, imaginary, total = state
        U = real + 1j * imaginary
        U = (U + U.T) / 2.0
        U = 1.5 * U - 0.5 * U @ U.conj().T @ U  # one step of Newton's method to the nearest unitary matrix
        return frame.project_at(q), v, E, U.real, U.imag, total

    def units(t0: jax.Array, s: jax.Array, state: Any, *given: jax.Array) -> Any:
        q, v, E, real, imaginary, total = state
        basis = jnp.outer(inverse_lengths_of(nabla.gram_at(q)), jnp.ones(len(E)))
        ones = jnp.ones_like(real)
        return *motion_units(frame, nabla.known_metric, q, v), basis, ones, ones, ones[0, 0]

    def record(t: jax.Array, state: Any, *given: jax.Array) -> Record[Any]:
        return state[3:], state[0], jnp.asarray(True)

    return Flow(start, rate, record, units, project=project)
