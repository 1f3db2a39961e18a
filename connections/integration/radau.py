"""A step of Radau's implicit method of order 5, for stiff motions, judged as any other; JAX-traceable.

The stages y + z_i at the times s + c_i h solve

    z = h (A x 1) f(y + z),   y(s + h) = y + z_3,

by Newton's method with the Jacobian J of f at the beginning. The method is stiffly accurate and L-stable:
what decays fast is damped, whatever the step. Its error is, with mu the real eigenvalue of A^-1,

    e = (mu/h - J)^-1 (f(s, y + e') + sum_i E_i z_i / h),

e' the same of f(s, y), which is of the order h^4, and small where J is large. What Newton's method still
changes in its last iteration is added. Small is it also where J lets the motion grow, and the equations of a
step have solutions beyond a pole. So no step is taken in which the motion may grow by more than a part,
h Re(lambda) > 1/4 for an eigenvalue of J. Steps change by the power of an error of order 8 (`tolerances`), so
that the error over its tolerance is returned squared.
Source: E. Hairer, G. Wanner, Solving Ordinary Differential Equations II (1996), IV.5 and IV.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import solve
from connections.integration.tolerances import StateLayout, with_error_ratios

_ROOT = np.sqrt(6.0)
C = np.array([(4.0 - _ROOT) / 10.0, (4.0 + _ROOT) / 10.0, 1.0])
#: Of the polynomials through the nodes, integrated to each: sum_j A_ij c_j^(k-1) = c_i^k / k, k = 1, 2, 3.
A = (C[:, None] ** np.arange(1, 4) / np.arange(1, 4)) @ np.linalg.inv(C[:, None] ** np.arange(3))
MU = 3.0 + 3.0 ** (2.0 / 3.0) - 3.0 ** (1.0 / 3.0)  # the real eigenvalue of A^-1
E = np.array([-13.0 - 7.0 * _ROOT, -13.0 + 7.0 * _ROOT, -1.0]) / 3.0

_ITERATIONS = 12
_EPS = float(np.finfo(float).eps)
_GROWS = 0.25  # h Re(lambda): the error of a step with more growth is not known
_CONTRACTS = 0.5  # an iteration that changes more than this part of the last change is the last one


def stiff_step_at(
    rate: Callable[[jax.Array, jax.Array], jax.Array],
    scales: Callable[[jax.Array, jax.Array], jax.Array],
    s: jax.Array,
    h: jax.Array,
    y: jax.Array,
    f: jax.Array,
) -> jax.Array:
    """A step as of `steps.Attempt`, (6, k), without a second estimate; arguments as of `steps.step_at`."""
    k = len(y)
    f = jnp.where(h == 0.0, rate(s, y), f)
    J = jax.jacfwd(lambda y: rate(s, y))(y)
    matrix = jnp.eye(3 * k) - jnp.kron(h * jnp.asarray(A), J)
    inverse = solve(matrix, jnp.eye(3 * k))
    times = s + jnp.asarray(C) * h

    def goes_on(carried: Any) -> Any:
        _, _, size, before, count = carried
        contracts = (count < 2) | (size <= _CONTRACTS * before)
        return (size > _EPS) & contracts & (count < _ITERATIONS)

    def iteration(carried: Any) -> Any:
        z, _, size, _, count = carried
        rates = jax.vmap(rate)(times, y + z)
        change = (inverse @ (h * (jnp.asarray(A) @ rates) - z).ravel()).reshape(3, k)
        z = z + change
        whole = jnp.abs(y) + jnp.max(jnp.abs(z), axis=0)
        share = jnp.max(jnp.abs(change) / jnp.where(whole > 0.0, whole, 1.0))
        return z, change, share, size, count + 1

    nothing, far = jnp.zeros((3, k)), jnp.asarray(jnp.inf)
    z, change, *_ = jax.lax.while_loop(goes_on, iteration, (nothing, nothing, far, far, jnp.asarray(0)))
    new = y + z[2]
    step = jnp.where(h == 0.0, 1.0, h)
    filtered, late = (MU / step) * jnp.eye(k) - J, jnp.asarray(E) @ z / step
    error = solve(filtered, f + late)
    error = solve(filtered, rate(s, y + error) + late)
    error = jnp.abs(error) + jnp.abs(change[2])
    grows = jnp.max(jnp.real(h * jnp.linalg.eigvals(J)), initial=0.0) > _GROWS
    error = jnp.where(grows, jnp.inf, error)
    estimates = jnp.stack([error / step, jnp.zeros(k)])
    return jnp.concatenate([jnp.stack([new, rate(s + h, new)]), estimates, scales(s + h, new)])


def judged_stiff_step_at(
    rate: Callable[[jax.Array, jax.Array], jax.Array],
    scales_at: Callable[[jax.Array, jax.Array], jax.Array],
    layout: StateLayout,
    instants: jax.Array,
    state: jax.Array,
    scales: jax.Array,
) -> jax.Array:
    """A step (STATE + 1, k), judged (`tolerances.with_error_ratios`).

    Parameters
    ----------
    rate, scales_at : as of `stiff_step_at`. layout, scales : of the components.
    instants : (5,) s, h, by how much the clock may be wrong, and the tolerances.
    state : (STATE, k).
    """
    s, h, clock_error, rtol, atol = instants
    found = stiff_step_at(rate, scales_at, s, h, state[0], state[1])
    lengths = jnp.abs(s + h), jnp.abs(h), clock_error
    step: jax.Array = with_error_ratios(found, state, scales, layout, *lengths, (rtol, atol), jnp)
    return step.at[-1].set(jnp.where(h == 0.0, step[-1], step[-1] ** 2))
