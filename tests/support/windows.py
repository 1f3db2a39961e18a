"""Functions of time that rest, act in a window of the interval, and rest again.

`onsets` rise from 0 to 1 over [0, 1] and are constant outside; as a curve's parameter they make a loop that
rests at first. What a transport around a loop does cannot depend on when, or how fast, the loop is run, so
that `carried` along the loop at its own speed, by SciPy, is right for all windows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def four_times_smooth(u):
    """The polynomial of degree 9 with four continuous derivatives."""
    u = jnp.clip(u, 0.0, 1.0)
    return u**5 * (126.0 - 420.0 * u + 540.0 * u**2 - 315.0 * u**3 + 70.0 * u**4)


def smooth(u):
    """All derivatives are continuous: 1 / (1 + exp(1 / u - 1 / (1 - u)))."""
    inside = (u > 0.0) & (u < 1.0)
    safe = jnp.where(inside, u, 0.5)  # so that derivatives outside are no NaN
    return jnp.where(inside, jax.nn.sigmoid(1.0 / (1.0 - safe) - 1.0 / safe), jnp.where(u > 0.5, 1.0, 0.0))


onsets = {"four times": four_times_smooth, "smooth": smooth}


def random_windows(rng, count, whole, least=0.02, most=0.2):
    """Begins and lengths of windows in [0, whole], (count, 2); lengths from `least` to `most` of it."""
    length = whole * np.exp(rng.uniform(np.log(least), np.log(most), count))
    return np.stack([rng.uniform(0.0, whole - length), length], axis=1)


def carried(coefficients, curve, velocities, pieces=24, stages=8):
    """The transport operator along curve(u), u from 0 to 1, by Gauss's collocation of order 2 `stages`.

    Pdot = A(u) P is linear, so the stages of a step are the solution of linear equations.

    Parameters
    ----------
    coefficients : q (m, nq) -> Gamma[i, j, k] (m, n, n, n).
    curve : u -> q (nq,), in JAX.
    velocities : (q, dq/du), (m, nq) each -> components (m, n).
    pieces : steps of even length; for smooth loops, 12 of them give the same to 1e-11.
    """
    nodes = 0.5 * (1.0 + np.polynomial.legendre.leggauss(stages)[0])
    powers = np.arange(stages)
    weights = nodes[:, None] ** (powers + 1) / (powers + 1) @ np.linalg.inv(nodes[:, None] ** powers)
    whole = 1.0 / (powers + 1) @ np.linalg.inv(nodes[:, None] ** powers)
    u = ((np.arange(pieces)[:, None] + nodes) / pieces).ravel()
    q, q_dot = jax.jit(jax.vmap(lambda u: jax.jvp(curve, (u,), (jnp.ones_like(u),))))(u)
    q, q_dot = np.asarray(q), np.asarray(q_dot)
    A = -np.einsum("mijk,mj->mik", coefficients(q), velocities(q, q_dot)) / pieces
    n = A.shape[-1]
    P = np.eye(n)
    for piece in A.reshape(pieces, stages, n, n):
        matrix = np.einsum("st,sik->sitk", weights, piece).reshape(stages * n, stages * n)
        slopes = np.linalg.solve(np.eye(stages * n) - matrix, (piece @ P).reshape(stages * n, n))
        P = P + np.einsum("s,sij->ij", whole, slopes.reshape(stages, n, n))
    return P


# --- forces ------------------------------------------------------------------------------------------------


def _sin4(u):
    return jnp.sin(jnp.pi * u) ** 4


def _sin4_once(u):
    p = np.pi
    return 3 * u / 8 - np.sin(2 * p * u) / (4 * p) + np.sin(4 * p * u) / (32 * p)


def _sin4_twice(u):
    p = np.pi
    return 3 * u**2 / 16 - (1 - np.cos(2 * p * u)) / (8 * p**2) + (1 - np.cos(4 * p * u)) / (128 * p**2)


def _tent_once(u):
    return np.where(u < 0.5, u**2, 0.5 - (1 - u) ** 2)


def _tent_twice(u):
    return np.where(u < 0.5, u**3 / 3, 0.5 * (u - 0.5) + (1 - u) ** 3 / 3)


#: Of u in [0, 1]: a pulse in JAX, its integral, and the integral of that, both in NumPy.
PULSES = {
    "sin^4": (_sin4, _sin4_once, _sin4_twice),
    "jumps": (lambda u: jnp.ones_like(u), lambda u: u, lambda u: 0.5 * u**2),
    "tent": (lambda u: 1.0 - jnp.abs(2.0 * u - 1.0), _tent_once, _tent_twice),
}


def pulse(name, t, window):
    """The pulse in a window (begin, length), zero outside; JAX."""
    u = (t - window[0]) / window[1]
    return jnp.where((u >= 0.0) & (u <= 1.0), PULSES[name][0](jnp.clip(u, 0.0, 1.0)), 0.0)


def pushed(name, times, window):
    """Position and speed at times (T,), of a unit mass that rests until the pulse pushes it."""
    u = np.clip((np.asarray(times) - window[0]) / window[1], 0.0, 1.0)
    _, once, twice = PULSES[name]
    after = np.maximum(times - (window[0] + window[1]), 0.0)
    return window[1] ** 2 * twice(u) + after * window[1] * once(u), window[1] * once(u)
