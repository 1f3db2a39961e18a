"""Runs of filters beside simulated truths: attitude with directions in turn, poses with position fixes.

One function per experiment, of a random key and a filter; `jax.vmap` of it makes thousands of runs.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import connections as cn
from connections import affine, estimation
from connections.geometry.group_maps import exponential_at
from connections.geometry.rigid.rotations import rotation_matrix

ROTATIONS, POSES = cn.SO3Frame(), cn.SE3Frame()
DIRECTIONS = np.array([[0.0, 0.0, 1.0], [0.8, 0.0, 0.6]])
STEP = 0.1  # s


def directions_seen(q: Any) -> Any:
    return (DIRECTIONS @ rotation_matrix(q)).reshape(-1)


def position(q: Any) -> Any:
    return q[:3]


def resets(group: Any) -> dict[str, Any]:
    """What `Filter(reset=)` may be: exact, transports by members, none."""
    members = {"transport 0": 0.0, "transport +1/2": 0.5, "transport -1/2": -0.5}
    made = {name: affine.CartanSchoutenConnection(group, beta) for name, beta in members.items()}
    return {"exact": "exact", **made, "none": None}


def attitude_sensor(r: Any) -> estimation.Sensor:
    return estimation.Sensor(directions_seen, r**2 * jnp.eye(6))


def attitude_run(
    key: Any,
    filter: estimation.Filter,
    sigma: Any,
    r: Any,
    gyro: Any,
    times: int,
    late: bool = False,
    given: bool = False,
) -> Any:
    """A history of one run, and the true rotations (T, 4): directions in turn, gyroscope known to `gyro`.

    With `late` only the first direction is seen, and the second one in the last four steps; with `given` the
    prior's rotation, the gyroscope's rates and the measurements come, too.

    Parameters
    ----------
    sigma : (3,) or a number, rad, of the prior. r : of a direction. gyro : rad/sqrt(s).
    """
    turned, drawn, shaken, read = jax.random.split(key, 4)
    q0 = cn.SO3Frame().project_at(jax.random.normal(turned, (4,)))
    sigma = jnp.broadcast_to(sigma, (3,))
    ts = jnp.arange(times)
    u = jnp.stack([0.5 * jnp.sin(0.03 * ts), 0.4 * jnp.cos(0.02 * ts), 0.3 * jnp.ones(times)], 1)
    real = u + gyro / np.sqrt(STEP) * jax.random.normal(shaken, (times, 3))
    noise = r * jax.random.normal(read, (times, 2, 3))

    def move(q: Any, given: Any) -> Any:
        v, own, number = given
        q = exponential_at(ROTATIONS, q, STEP * v)
        which = jnp.where(number >= times - 4, (number + 1) % 2, 0) if late else number % 2
        seen = jnp.arange(2)[:, None] == which
        y = jnp.where(seen, directions_seen(q).reshape(2, 3) + own, jnp.nan)
        return q, (q, y.reshape(-1))

    start = exponential_at(ROTATIONS, q0, sigma * jax.random.normal(drawn, (3,)))
    _, (q, y) = jax.lax.scan(move, start, (real, noise, ts))
    estimate = estimation.Estimate(q0, jnp.diag(sigma**2))
    history = filter.run(estimate, STEP * (ts + 1.0), u, y, attitude_sensor(r))
    return (history, q, (q0, u, y)) if given else (history, q)


def attitude_nees(key: Any, filter: Any, sigma: Any, r: Any, gyro: Any, times: int) -> tuple[Any, ...]:
    """NEES / 3, whether the update converged, and the rotation's error (T,) each."""
    history, q = attitude_run(key, filter, sigma, r, gyro, times)
    return nees(filter, history.estimate, q), history.innovation.converged, history.innovation.nis


def nees(filter: Any, estimate: Any, q: Any) -> Any:
    """e^T P^-1 e / k, (T,)."""
    e = jax.vmap(lambda a, b: filter.space.difference_at((a,), (b,)))(estimate.q, q)
    return jnp.einsum("ti,ti->t", e, jnp.linalg.solve(estimate.P, e[..., None])[..., 0]) / e.shape[-1]


def pose_run(key: Any, filter: Any, case: Any, times: int, every: int) -> tuple[Any, Any]:
    """Odometry for `times` steps, and a position fix every `every` of them; the history and the true poses.

    Parameters
    ----------
    case : (5,) prior of rotation (rad) and position (m), odometry's noise of both per sqrt(s), of the fix.
    """
    drawn, shaken, read = jax.random.split(key, 3)
    deviations = jnp.repeat(case[:2], 3)
    Q = jnp.repeat(case[2:4], 3)
    q0 = jnp.zeros(7).at[6].set(1.0)
    u = jnp.array([0.05, 0.1, 0.3, 1.0, 0.0, 0.0])
    real = u + Q / np.sqrt(STEP) * jax.random.normal(shaken, (times, 6))
    noise, ts = case[4] * jax.random.normal(read, (times, 3)), jnp.arange(times)

    def move(q: Any, given: Any) -> Any:
        v, own, number = given
        q = exponential_at(POSES, q, STEP * v)
        return q, (q, jnp.where((number + 1) % every == 0, q[:3] + own, jnp.nan))

    start = exponential_at(POSES, q0, deviations * jax.random.normal(drawn, (6,)))
    _, (q, y) = jax.lax.scan(move, start, (real, noise, ts))
    estimate = estimation.Estimate(q0, jnp.diag(deviations**2))
    sensor = estimation.Sensor(position, case[4] ** 2 * jnp.eye(3))
    u = jnp.broadcast_to(u, (times, 6))
    return filter.run(estimate, STEP * (ts + 1.0), u, y, sensor), q
