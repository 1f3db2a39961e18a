"""NEES and time of filters of attitude by this library, by GTSAM, and of vectors by dynamax: docs/filters.md.

    python -m venv PEER && PEER/bin/pip install gtsam==4.3.0 dynamax==1.0.3
    python tests/benchmarks/filters_peer.py PEER/bin/python

The peers are no dependences of this library, so they run in an environment of their own: PEER/bin/python
executes this file, too, and receives the runs as a file of NumPy: the same truths, rates and measurements.
All have the case of the first table of the page: a gyroscope known to 0.01 rad/sqrt s, a prior of 0.3 rad,
two directions in turn known to 0.01. Errors are R = R_hat exp(e) in all of them; dynamax has the rotation
vector as its state, on the chart exp at the prior's rotation. Times are of a step, the least of the runs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

STARS = np.array([[0.0, 0.0, 1.0], [0.8, 0.0, 0.6]])
STEP, GYRO, SIGMA, R, RUNS, TIMES = 0.1, 0.01, 0.3, 0.01, 2000, 4


def log_of(rotations: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(rotations.reshape(-1, 3, 3)).as_rotvec().reshape(rotations.shape[:-1])


def nees_of(e: np.ndarray, P: np.ndarray) -> np.ndarray:
    return np.einsum("...i,...i->...", e, np.linalg.solve(P, e[..., None])[..., 0]) / 3


def batch_time(function: Any) -> float:
    """Seconds of a run, of all runs at once."""
    import jax

    def once() -> float:
        begin = time.perf_counter()
        jax.block_until_ready(function())
        return time.perf_counter() - begin

    return min(once() for _ in range(20)) / RUNS


def row(name: str, nees: np.ndarray, seconds: float, batch: float = np.nan) -> None:
    bad = ~np.isfinite(nees).all(axis=1)
    means, medians = np.nanmean(nees, axis=0), np.nanmedian(nees, axis=0) / 0.789
    figures = " ".join(f"{x:.3g}" for x in means[[0, -1]]), " ".join(f"{x:.3g}" for x in medians[[0, -1]])
    print(
        f"| {name} | {figures[0]} | {figures[1]} | {1e6 * seconds / TIMES:.1f} "
        f"| {1e6 * batch / TIMES:.2f} | {bad.sum()} |",
        flush=True,
    )


# --- this library ------------------------------------------------------------------------------------------


def ours(folder: str) -> None:
    """Draw the runs, write them for the peers, and print this library's rows."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
    import filter_runs
    import jax

    import connections as cn
    from connections import affine, estimation
    from connections.geometry.rigid.rotations import rotation_matrix

    assert filter_runs.STEP == STEP
    keys = jax.random.split(jax.random.PRNGKey(3), RUNS)
    print("| filter | mean NEES | median, of chi^2's | us a step | in a batch | failed |", flush=True)
    for name, iterations, reset in (
        ("here, iterated, exact", 30, "exact"),
        ("here, one step, exact", 1, "exact"),
        ("here, one step, none", 1, None),
        ("here, one step, +1/2", 1, affine.CartanSchoutenConnection(cn.SO3Frame(), 0.5)),
    ):
        filter = estimation.Filter(
            cn.SO3Frame(), noise=GYRO**2 * np.eye(3), reset=reset, iterations=iterations
        )

        def run(key: Any, filter: Any = filter) -> Any:
            return filter_runs.attitude_run(key, filter, SIGMA, R, GYRO, TIMES, given=True)

        history, q, (q0, u, y) = jax.jit(jax.vmap(run))(keys)
        nees = jax.vmap(lambda a, b, filter=filter: filter_runs.nees(filter, a, b))(history.estimate, q)
        start = estimation.Estimate(np.asarray(q0[0]), SIGMA**2 * np.eye(3))
        again = jax.jit(
            lambda P, u, y, filter=filter, start=start: (
                filter.run(
                    estimation.Estimate(start.q, P),
                    STEP * (np.arange(TIMES) + 1.0),
                    u,
                    y,
                    filter_runs.attitude_sensor(R),
                ).estimate
            )
        )
        jax.block_until_ready(again(start.P, u[0], y[0]))
        least = np.inf
        for number in range(200):
            begin = time.perf_counter()
            jax.block_until_ready(again(start.P, u[number], y[number]))
            least = min(least, time.perf_counter() - begin)
        together = jax.jit(jax.vmap(again, (None, 0, 0)))
        row(name, np.asarray(nees), least, batch_time(lambda a=(start.P, u, y), run=together: run(*a)))
    matrices = {name: np.asarray(rotation_matrix(a)) for name, a in (("q0", q0), ("q", q))}
    np.savez(f"{folder}/runs.npz", u=u, y=y, **matrices)


# --- GTSAM -------------------------------------------------------------------------------------------------


def skew(w: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def gtsam_rows(runs: Any) -> None:
    """Its extended filters on Rot3, one step of Gauss and Newton each, with and without their reset."""
    import gtsam

    noise, Q = R**2 * np.eye(3), GYRO**2 * STEP * np.eye(3)
    for name, kind, reset in (
        ("ManifoldEKF, reset", "ManifoldEKFRot3", True),
        ("ManifoldEKF, no reset", "ManifoldEKFRot3", False),
        ("InvariantEKF, reset", "InvariantEKFRot3", True),
        ("InvariantEKF, no reset", "InvariantEKFRot3", False),
    ):
        states, P, least = np.zeros((RUNS, TIMES, 3, 3)), np.zeros((RUNS, TIMES, 3, 3)), np.inf
        for number in range(RUNS):
            begin = time.perf_counter()
            own = getattr(gtsam, kind)(gtsam.Rot3(runs["q0"][number]), SIGMA**2 * np.eye(3))
            for k in range(TIMES):
                turn = gtsam.Rot3.Expmap(STEP * runs["u"][number, k])
                if kind == "InvariantEKFRot3":
                    own.predict(turn, Q)
                else:
                    own.predict(own.state().compose(turn), turn.matrix().T, Q)
                which = slice(3 * (k % 2), 3 * (k % 2) + 3)
                seen = own.state().matrix().T @ STARS[k % 2]
                own.updateWithVector(seen, skew(seen), runs["y"][number, k, which], noise, reset)
                states[number, k], P[number, k] = own.state().matrix(), own.covariance()
            least = min(least, time.perf_counter() - begin)
        row(f"GTSAM, {name}", nees_of(log_of(np.swapaxes(states, 2, 3) @ runs["q"]), P), least)


# --- dynamax -----------------------------------------------------------------------------------------------


def dynamax_rows(runs: Any) -> None:
    """Its extended filter of vectors, once and with repeated updates; the first prediction is its prior."""
    import jax
    import jax.numpy as jnp
    from dynamax.nonlinear_gaussian_ssm import ParamsNLGSSM, extended_kalman_filter

    jax.config.update("jax_enable_x64", True)

    def exp_of(x: Any) -> Any:
        t2 = x @ x + 1e-18
        t = jnp.sqrt(t2)
        K = jnp.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])
        return jnp.eye(3) + jnp.sin(t) / t * K + (1.0 - jnp.cos(t)) / t2 * K @ K

    def log_at(M: Any) -> Any:
        cosine = jnp.clip(0.5 * (jnp.trace(M) - 1.0), -1.0, 1.0)
        axis = 0.5 * jnp.stack([M[2, 1] - M[1, 2], M[0, 2] - M[2, 0], M[1, 0] - M[0, 1]])
        sine = jnp.sqrt(axis @ axis + 1e-30)
        return jnp.arctan2(sine, cosine) / sine * axis

    def run(count: int, q0: Any, u: Any, y: Any) -> Any:
        def given(k: Any) -> tuple[Any, Any]:
            return u[k], jnp.asarray(STARS)[k % 2]

        ks = jnp.arange(TIMES)
        params = ParamsNLGSSM(
            initial_mean=log_at(exp_of(STEP * u[0])),
            initial_covariance=(SIGMA**2 + GYRO**2 * STEP) * jnp.eye(3),
            dynamics_function=lambda x, k: log_at(exp_of(x) @ exp_of(STEP * given(k[0].astype(int))[0])),
            dynamics_covariance=GYRO**2 * STEP * jnp.eye(3),
            emission_function=lambda x, k: (q0 @ exp_of(x)).T @ given(k[0].astype(int))[1],
            emission_covariance=R**2 * jnp.eye(3),
        )
        seen = jnp.stack([y[k, 3 * (k % 2) : 3 * (k % 2) + 3] for k in range(TIMES)])
        found = extended_kalman_filter(params, seen, ks[:, None].astype(float), num_iter=count)
        return found.filtered_means, found.filtered_covariances

    for count in (1, 5):
        several = jax.jit(jax.vmap(lambda *a, count=count: run(count, *a)))
        x, P = (np.asarray(a) for a in several(runs["q0"], runs["u"], runs["y"]))
        truth = log_of(np.swapaxes(runs["q0"], 1, 2)[:, None] @ runs["q"])
        one = jax.jit(lambda *a, count=count: run(count, *a))
        jax.block_until_ready(one(runs["q0"][0], runs["u"][0], runs["y"][0]))
        least = np.inf
        for number in range(200):
            begin = time.perf_counter()
            jax.block_until_ready(one(runs["q0"][number], runs["u"][number], runs["y"][number]))
            least = min(least, time.perf_counter() - begin)
        batch = batch_time(lambda run=several: run(runs["q0"], runs["u"], runs["y"]))
        row(f"dynamax, vectors, num_iter={count}", nees_of(truth - x, P), least, batch)


if __name__ == "__main__":
    if sys.argv[1] == "--peer":
        data = np.load(sys.argv[2])
        gtsam_rows(data)
        dynamax_rows(data)
    else:
        with tempfile.TemporaryDirectory() as place:
            ours(place)
            subprocess.run([sys.argv[1], __file__, "--peer", f"{place}/runs.npz"], check=True)
