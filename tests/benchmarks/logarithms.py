"""Random logarithms on spaces whose distances are known: how many are wrong, how many are refused, how long.

    python tests/benchmarks/logarithms.py [SPACE ...] [--pairs 1000] [--robot-pairs 200]

Through `affine/logarithms/search.py` and through geomstats' `metric.dist` of the same pairs. A length is
wrong if it is off by more than 1e-8 of the distance (`support/distances.py`); the largest error is printed.
Of the UR5 no distance is known. There an answer is wrong if its geodesic, integrated by SciPy with the
recursions' C, misses q1 by more than 1e-8; and the energies of curves, minimized from random bends with the
gradient C^T v, tell for how many pairs there is a path shorter by more than 1 %. Prints a Markdown table:
processor time of the first pair, of one more, and of each where all are asked together.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import distances
from robots import robot_path

from connections import multibody as mb
from connections.affine.logarithms.search import shortest_geodesics
from connections.affine.logarithms.shooting import Shooting
from connections.checks import ConvergenceError
from connections.interop import to_geomstats

HEAD = "space", "pairs", "refused", "wrong", "error", "first [s]", "next [ms]", "each [ms]"
ROBOT, FLOATING = "UR5", "ANYmal"
BENDS, SEGMENTS = 6, 48
ONE = np.array([False])  # one pair, which may raise


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Processor's seconds and the value."""
    start = time.process_time()
    value = function(*arguments)
    return time.process_time() - start, value


def lengths(nabla: Any, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """Lengths of the geodesics; NaN where refused."""
    v, reason, _ = shortest_geodesics(nabla, q0, q1)
    return np.where(reason == 0, Shooting.of(nabla).ground(q0).norm(v), np.nan)


def geomstats_lengths(space: Any, answered: np.ndarray, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """The same by geomstats: what was answered all together, the others, which raise, one by one."""
    found = np.full(len(q0), np.nan)
    found[answered] = space.metric.dist(q0[answered], q1[answered])
    for i in np.flatnonzero(~answered):
        with contextlib.suppress(ConvergenceError):
            found[i] = space.metric.dist(q0[i], q1[i])
    return found


def row(name: str, one: Any, many: Any, pairs: np.ndarray, expected: np.ndarray | None) -> np.ndarray:
    """Measure and print one row of the table; the lengths."""
    first = timed(one, *pairs[:, :1])[0]
    more = np.median([timed(one, *pairs[:, i : i + 1])[0] for i in range(1, 12)])
    each, found = timed(many, *pairs)
    answered = np.isfinite(found)
    cells = [name, f"{len(found):,}", f"{np.count_nonzero(~answered)}"]
    if expected is None:
        cells += ["below", "below"]
    else:
        error = np.abs(found - expected)[answered] / expected[answered]
        cells += [f"{np.count_nonzero(error > 1e-8)}", f"{error.max():.1e}"]
    cells += [f"{first:.1f}", f"{1e3 * more:.0f}", f"{1e3 * each / len(found):.0f}"]
    print("| " + " | ".join(cells) + " |", flush=True)
    return found


# --- the UR5 -----------------------------------------------------------------------------------------------


def robot_report(model: mb.Model, pairs: np.ndarray, found: np.ndarray) -> str:
    """Misses of the geodesics integrated by SciPy, and how many pairs have a shorter path."""
    v, reason, _ = shortest_geodesics(model.connection, *pairs)
    answered = np.flatnonzero(reason == 0)
    misses = np.array([np.linalg.norm(_end(model, pairs[0, i], v[i]) - pairs[1, i]) for i in answered])
    ratios = np.array([_shortest(model, *pairs[:, i]) for i in answered]) / found[answered]
    return (
        f"{ROBOT}: largest miss {misses.max():.1e}, {np.count_nonzero(misses > 1e-8)} wrong; the shortest "
        f"curve is {ratios.min():.4f} to {ratios.max():.4f} times as long, for "
        f"{np.count_nonzero(ratios < 0.99)} of {len(ratios)} pairs shorter by more than 1 %"
    )


def _end(model: mb.Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    def rates(_: float, y: np.ndarray) -> np.ndarray:
        q, v = y[: model.nq], y[model.nq :]
        return np.concatenate(
            [v, -np.linalg.solve(mb.mass_matrix(model, q), mb.coriolis_matrix(model, q, v) @ v)]
        )

    path = solve_ivp(rates, (0.0, 1.0), np.concatenate([q, v]), "DOP853", rtol=1e-12, atol=1e-12)
    return path.y[: model.nq, -1]


def _shortest(model: mb.Model, q0: np.ndarray, q1: np.ndarray) -> float:
    """Length of the shortest curve by midpoint rule that was found; C^T v = (1/2) grad v^T H v."""
    s, n = np.linspace(0.0, 1.0, SEGMENTS + 1)[:, None], model.nq
    line, rng, best = q0 + s * (q1 - q0), np.random.default_rng(0), np.inf

    def energy(inner: np.ndarray) -> tuple[float, np.ndarray]:
        x = np.concatenate([q0[None], inner.reshape(-1, n), q1[None]])
        middle, v = 0.5 * (x[1:] + x[:-1]), SEGMENTS * np.diff(x, axis=0)
        momentum = np.einsum("sij,sj->si", mb.mass_matrix(model, middle), v)
        force = np.einsum("sij,si->sj", mb.coriolis_matrix(model, middle, v), v)
        gradient = 2.0 * (momentum[:-1] - momentum[1:]) + (force[:-1] + force[1:]) / SEGMENTS
        return float(np.sum(v * momentum)) / SEGMENTS, gradient.ravel()

    for bend in range(BENDS):
        waves = rng.standard_normal((4, n)) * (bend > 0) / np.arange(1, 5)[:, None]
        start = line + np.sin(np.pi * s * np.arange(1, 5)) @ waves
        least = minimize(energy, start[1:-1].ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 400})
        best = min(best, least.fun)
    return float(np.sqrt(best))


def by_recursions(model: mb.Model, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """Lengths of the geodesics by `mb.logarithm`; NaN where refused."""
    found = np.full(len(q0), np.nan)
    for i, pair in enumerate(zip(q0, q1, strict=True)):
        with contextlib.suppress(ConvergenceError):
            found[i] = mb.logarithm(model, *pair).length
    return found


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("spaces", nargs="*", default=[*distances.SPACES, ROBOT, FLOATING])
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--robot-pairs", type=int, default=200)
    options = parser.parse_args()
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD), flush=True)
    for name in options.spaces:
        rng = np.random.default_rng(15)
        if name == FLOATING:  # of which the search in JAX takes minutes
            model = mb.from_urdf(robot_path("anymal"), floating_base=True)
            q0 = np.array([model.random(rng) for _ in range(options.robot_pairs)])
            pairs = np.stack([q0, mb.displace(model, q0, rng.uniform(-1.0, 1.0, (len(q0), model.nv)))])
            recursions = partial(by_recursions, model)
            row(f"{name}, recursions", recursions, recursions, pairs, None)
            continue
        if name == ROBOT:
            model = mb.from_urdf(robot_path("ur5"))
            pairs = rng.uniform(-np.pi, np.pi, (2, options.robot_pairs, model.nq))
            nabla, expected = model.connection, None
        else:
            space = distances.SPACES[name]()
            pairs, nabla = space.pairs(rng, options.pairs), space.nabla
            expected = space.distance(*pairs)
        if name == ROBOT:
            recursions = partial(by_recursions, model)
            direct = row(f"{name}, recursions", recursions, recursions, pairs, expected)
        ours = partial(lengths, nabla)
        found = row(name, ours, ours, pairs, expected)
        one, many = (partial(geomstats_lengths, to_geomstats(nabla), a) for a in (ONE, np.isfinite(found)))
        again = row(f"{name}, geomstats", one, many, pairs, expected)
        differ = np.count_nonzero(~np.isclose(found, again, rtol=1e-9, equal_nan=True))
        if differ:
            print(f"{name}: {differ} pairs differ between the two routes")
        if name == ROBOT:
            print(robot_report(model, pairs, found))
            ratios = direct / found
            longer, shorter = np.count_nonzero(ratios > 1.01), np.count_nonzero(ratios < 0.99)
            print(
                f"recursions: {longer} geodesics longer than those of the search, {shorter} shorter, by 1 %"
            )


if __name__ == "__main__":
    main()
