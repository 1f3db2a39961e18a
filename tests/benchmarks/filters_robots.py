"""NEES and NIS of filters of a UR5 and of a four-bar linkage: two tables' rows of docs/filters.md.

Run `python tests/benchmarks/filters_robots.py ur5`, or four_bar. The truth has torques drawn at random, and
goes by the midpoint rule in two steps a sample; a column is a reading.
"""

import runpy
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from robots import robot_path

from connections import estimation
from connections import multibody as mb


def table(name, model, start, tau, deviations, torque, sensor, step, readings, runs, connection=None):
    """Print the means of NEES / k and NIS / m after each reading.

    Parameters
    ----------
    start : (q, v). deviations : (2n,) of the prior. torque : its noise. sensor : of (q, v).
    """
    n, noise = model.nv, torque**2 * np.eye(model.nv)
    filter = estimation.Filter(model, noise=noise, connection=connection)
    root = np.linalg.cholesky(sensor.N)

    def nees(estimate, *truth):
        e = filter.space.difference_at(estimate.state, truth)
        return e @ jnp.linalg.solve(estimate.P, e) / len(e)

    def run(key):
        drawn, shaken, read = jax.random.split(key, 3)
        given = tuple(jnp.asarray(a) for a in start)
        x, *_ = filter.space.moved_at(given, deviations * jax.random.normal(drawn, (2 * n,)))
        pushes = torque / np.sqrt(step) * jax.random.normal(shaken, (readings, n))
        errors = jax.random.normal(read, (readings, len(root))) @ root.T

        def move(carried, given):
            (q, v), estimate = carried
            push, error, t = given
            for _ in range(2):
                half = v + step / 4 * mb.forward_dynamics(model, q, v, tau + push)
                a = mb.forward_dynamics(model, q + step / 4 * v, half, tau + push)
                q, v = q + step / 2 * half, v + step / 2 * a
            estimate = filter.predict(estimate, tau, t)
            estimate, said = filter.update(estimate, sensor.h(q, v) + error, sensor)
            return ((q, v), estimate), (nees(estimate, q, v), said.nis / len(root))

        estimate = estimation.Estimate(start[0], np.diag(deviations**2), v=start[1])
        begin = x, jax.tree_util.tree_map(jnp.asarray, estimate)
        return jax.lax.scan(move, begin, (pushes, errors, step * jnp.arange(1, readings + 1)))[1]

    keys = jax.random.split(jax.random.PRNGKey(8), runs)
    found = [np.asarray(a) for a in jax.jit(lambda keys: jax.lax.map(run, keys))(keys)]
    means = (" ".join(f"{x:.2f}" for x in np.nanmean(a, axis=0)) for a in found)
    print(name, *means, f"failed {np.isnan(found[0]).any(axis=1).sum()}", sep=" | ", flush=True)
    print(f"standard error of NEES {np.sqrt(2 / (2 * n * runs)):.3f}", flush=True)


def ur5():
    model = mb.from_urdf(robot_path("ur5"))
    start = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]), np.array([0.4, -0.5, 0.3, 0.6, -0.4, 0.5])
    sensor = estimation.Sensor(lambda q, v: q, 0.005**2 * np.eye(6))
    common = start, mb.gravity(model, start[0]), np.repeat([0.05, 0.5], 6), 0.05, sensor, 0.01, 4, 200
    table("UR5", model, *common)
    table("UR5, its joints' groups", model, *common, connection=model.frame)


def four_bar():
    path = Path(__file__).parents[2] / "examples" / "four_bar.py"
    sys.argv[1:] = [sys.argv[2] if len(sys.argv) > 2 else "/tmp"]  # the example draws there
    model = runpy.run_path(str(path))["four_bar"]()

    def rocker(q, v):
        R = mb.frame_pose(model, q, "rocker")
        return jnp.arctan2(R[1, 0], R[0, 0])[None]

    sensor, start = estimation.Sensor(rocker, 0.01**2 * np.eye(1)), (np.array([1.0]), np.array([2.0]))
    table("four-bar", model, start, np.array([0.5]), np.array([0.1, 1.0]), 0.2, sensor, 0.02, 3, 400)


if __name__ == "__main__":
    {"ur5": ur5, "four_bar": four_bar}[sys.argv[1]]()
