"""Robots inside JAX, beside their definitions and, where it is installed, frax (pip install frax), in one run.

    python tests/benchmarks/in_jax.py

Prints microseconds. Every function is called with arrays that are on the device, and waited for. The rows of
batches and of loops are per configuration and per step. All numbers of a row are measured by turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections import multibody as mb
from connections.multibody.definition.recursions import DEFINITIONS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from robots import robot_path  # noqa: E402

ARM = "xarm_description/urdf/xarm7.urdf"
BATCH, STEPS, H = 4096, 1000, 1e-3
Call = Callable[[], Any]


def least(calls: list[Call], seconds: float = 0.5) -> list[float]:
    """The least microseconds of each call, measured by turns."""
    found = [np.inf] * len(calls)
    counts = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        counts.append(max(1, int(0.02 / (time.perf_counter() - start))))
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for place, (call, count) in enumerate(zip(calls, counts, strict=True)):
            start = time.perf_counter()
            for _ in range(count):
                call()
            found[place] = min(found[place], (time.perf_counter() - start) / count * 1e6)
    return found


def waiting(function: Callable[..., Any], *arguments: Any) -> tuple[Call, float]:
    """A call of a compiled function that waits for its result, and the seconds of the first one."""
    compiled, given = jax.jit(function), [jnp.asarray(x) for x in arguments]
    start = time.perf_counter()
    jax.block_until_ready(compiled(*given))
    first = time.perf_counter() - start
    return lambda: jax.block_until_ready(compiled(*given)), first


def rollout(acceleration: Callable[..., Any]) -> Callable[..., Any]:
    """A thousand steps, and the square of the last velocity."""

    def run(q: Any, v: Any, tau: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            q, v = state
            v = v + H * acceleration(q, v, tau)
            return (q + H * v, v), None

        (_, v), _ = jax.lax.scan(step, (q, v), length=STEPS)
        return v @ v

    return run


def frax_of(path: Path) -> Any:
    """The robot in frax; None if that is not installed."""
    if find_spec("frax") is None:
        return None
    from frax.core.robot import Robot

    return Robot(str(path))


def arm() -> None:
    path = robot_path(ARM)
    robot = mb.from_urdf(path)
    theirs, n = frax_of(path), robot.nv
    q, v, a = robot.random(0), *np.random.default_rng(0).standard_normal((2, n))
    many = [np.stack([robot.random(seed) for seed in range(BATCH)])]
    many += list(np.random.default_rng(1).standard_normal((2, BATCH, n)))
    ours, defined = partial(mb.inverse_dynamics, robot), partial(DEFINITIONS["inverse_dynamics"], robot)
    falls, fall_defined = partial(mb.forward_dynamics, robot), partial(DEFINITIONS["forward_dynamics"], robot)
    fall = jnp.array([0.0, 0.0, 9.81, 0.0, 0.0, 0.0])
    frax_id = theirs and (lambda q, v, a: theirs.rnea(q, v, a, fall, None))
    frax_fd = theirs and (lambda q, v, tau: theirs.forward_dynamics(q, v, tau, None))
    if theirs:
        check = ours(q, v, a), falls(q, v, a)
        assert np.allclose(jax.jit(frax_id)(q, v, a), check[0], atol=1e-8), "frax has another robot, or order"
        assert np.allclose(jax.jit(frax_fd)(q, v, a), check[1], rtol=1e-6), "frax has another robot, or order"
    coriolis = partial(mb.coriolis_matrix, robot)
    rows: list[tuple[str, list[Any], tuple[Any, ...], Call | None, float]] = [
        ("an empty function", [lambda q: q], (q,), None, 1.0),
        ("C, jit", [coriolis, partial(DEFINITIONS["coriolis_matrix"], robot, body_factor="christoffel")], (q, v), partial(coriolis, q, v), 1.0),
        ("inverse dynamics, jit", [ours, defined, frax_id], (q, v, a), partial(ours, q, v, a), 1.0),
        ("forward dynamics, jit", [falls, fall_defined, frax_fd], (q, v, a), partial(falls, q, v, a), 1.0),
        (f"inverse dynamics, vmap of {BATCH}", [f and jax.vmap(f) for f in (ours, defined, frax_id)], tuple(many), partial(ours, *many), BATCH),
        (f"forward dynamics, vmap of {BATCH}", [f and jax.vmap(f) for f in (falls, fall_defined, frax_fd)], tuple(many), partial(falls, *many), BATCH),
        (f"scan of {STEPS} steps", [f and rollout(f) for f in (falls, fall_defined, frax_fd)], (q, v, a), partial(falls, q, v, a), STEPS),
        ("its gradient", [f and jax.grad(rollout(f), argnums=(0, 1, 2)) for f in (falls, fall_defined, frax_fd)], (q, v, a), None, STEPS),
        ("jacfwd of forward dynamics", [f and jax.jacfwd(f, argnums=(0, 1, 2)) for f in (falls, fall_defined, frax_fd)], (q, v, a), partial(mb.forward_dynamics_derivatives, robot, q, v, a), 1.0),
    ]  # fmt: skip
    print(f"{path.name}, {n} velocities; us")
    print(f"{'':34}{'recursion':>10}{'first, s':>10}{'definition':>12}{'frax':>9}{'from NumPy':>12}")
    for name, functions, arguments, plain, count in rows:
        calls, firsts = zip(*(waiting(f, *arguments) for f in functions if f is not None), strict=True)
        times = least([*calls, *([plain] if plain else [])])
        cells = [f"{times[0] / count:10.2f}", f"{firsts[0]:10.2f}"]
        cells.append(f"{times[1] / count:12.1f}" if len(calls) > 1 else " " * 12)
        cells.append(f"{times[2] / count:9.1f}" if len(calls) > 2 else " " * 9)
        divisor = count if "vmap" in name else 1.0
        cells.append(f"{times[-1] / divisor:12.2f}" if plain else "")
        print(f"{name:34}{''.join(cells)}")


def quadruped() -> None:
    robot = mb.from_urdf(robot_path("solo12"), floating_base=True)
    q, v, a = robot.random(0), *np.random.default_rng(0).standard_normal((2, robot.nv))
    print(f"\nsolo12 with a floating base, {robot.nv} velocities; us")
    for name, arguments in (("coriolis_matrix", (q, v)), ("inverse_dynamics", (q, v, a)), ("forward_dynamics", (q, v, a))):  # fmt: skip
        function = partial(getattr(mb, name), robot)
        call, first = waiting(function, *arguments)
        inside, plain, empty = least([call, partial(function, *arguments), waiting(lambda q: q, q)[0]])
        print(f"{name:34}{inside:10.2f}{first:10.2f}{'':21}{plain:12.2f}   (empty: {empty:.2f})")


if __name__ == "__main__":
    arm()
    quadruped()
