"""Robots inside JAX, beside their definitions and, where it is installed, frax, in one run.

    python tests/benchmarks/in_jax.py

Prints microseconds. "empty" is the same without a robot: what JAX's call, batch or loop takes by itself.
Functions get arrays that are on the device, and are waited for. Rows of batches are per configuration, of
loops per step. All numbers of a row are measured by turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

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


def frax_of(path: Path) -> dict[str, Callable[..., Any]]:
    """The functions of the robot in frax; empty if that is not installed."""
    if find_spec("frax") is None:
        return {}
    from frax.core.robot import Robot

    robot, fall = Robot(str(path)), jnp.array([0.0, 0.0, 9.81, 0.0, 0.0, 0.0])
    return {
        "inverse_dynamics": lambda q, v, a: robot.rnea(q, v, a, fall, None),
        "forward_dynamics": lambda q, v, tau: robot.forward_dynamics(q, v, tau, None),
    }


class Row(NamedTuple):
    """A row: what is made of the functions of each library, and the NumPy call beside it."""

    name: str
    quantity: str
    made: Callable[..., Any] = lambda function: function
    batch: bool = False
    size: int = 1  # configurations or steps
    plain: str = ""  # the function of `mb` that is called with NumPy arrays


ROWS = [
    Row("C", "coriolis_matrix", plain="coriolis_matrix"),
    Row("inverse dynamics", "inverse_dynamics", plain="inverse_dynamics"),
    Row("forward dynamics", "forward_dynamics", plain="forward_dynamics"),
    Row(f"vmap of {BATCH} inverse dynamics", "inverse_dynamics", jax.vmap, True, BATCH, "inverse_dynamics"),
    Row(f"vmap of {BATCH} forward dynamics", "forward_dynamics", jax.vmap, True, BATCH, "forward_dynamics"),
    Row(f"scan of {STEPS} steps", "forward_dynamics", rollout, False, STEPS),
    Row("its gradient", "forward_dynamics", lambda f: jax.grad(rollout(f), (0, 1, 2)), False, STEPS),
    Row("jacfwd by q", "forward_dynamics", jax.jacfwd, plain="forward_dynamics_derivatives"),
]


def arm() -> None:
    """A fixed arm, beside its definition and frax."""
    path = robot_path(ARM)
    robot = mb.from_urdf(path)
    q, (v, a) = robot.random(0), np.random.default_rng(0).standard_normal((2, robot.nv))
    many = [np.stack([robot.random(seed) for seed in range(BATCH)])]
    many += list(np.random.default_rng(1).standard_normal((2, BATCH, robot.nv)))
    theirs = frax_of(path)
    print(f"{path.name}, {robot.nv} velocities; us")
    print(
        f"{'':32}{'recursion':>10}{'first, s':>10}{'empty':>8}{'definition':>12}{'frax':>8}{'from NumPy':>12}"
    )
    for row in ROWS:
        chosen = ("christoffel",) if row.quantity == "coriolis_matrix" else ()
        count = 2 if chosen else 3
        given = [*(many if row.batch else (q, v, a))][:count]
        definition = partial(DEFINITIONS[row.quantity], robot)
        functions: dict[str, Callable[..., Any]] = {
            "recursion": partial(getattr(mb, row.quantity), robot),
            "empty": lambda *x: x[-1],
            "definition": lambda *x, f=definition, chosen=chosen: f(*x, *chosen),
        }
        if row.quantity in theirs:
            functions["frax"] = theirs[row.quantity]
            found, right = (np.asarray(functions[key](q, v, a)) for key in ("frax", "recursion"))
            assert np.allclose(found, right, rtol=1e-6, atol=1e-8), "frax has another robot, or order"
        calls, firsts = zip(*(waiting(row.made(f), *given) for f in functions.values()), strict=True)
        plain = [partial(getattr(mb, row.plain), robot, *given)] if row.plain else []
        times = dict(zip([*functions, "plain"], least([*calls, *plain]), strict=False))
        cells = [f"{times['recursion'] / row.size:10.2f}{firsts[0]:10.2f}"]
        cells.append(f"{times['empty'] / row.size:8.2f}")
        cells.append(f"{times['definition'] / row.size:12.1f}")
        cells.append(f"{times['frax'] / row.size:8.1f}" if "frax" in times else " " * 8)
        cells.append(f"{times['plain'] / row.size:12.2f}" if plain else "")
        print(f"{row.name:32}{''.join(cells)}")


def quadruped() -> None:
    """A floating base, beside an empty function."""
    robot = mb.from_urdf(robot_path("solo12"), floating_base=True)
    q, (v, a) = robot.random(0), np.random.default_rng(0).standard_normal((2, robot.nv))
    print(f"\nsolo12 with a floating base, {robot.nv} velocities; us beyond an empty function")
    empty, _ = waiting(lambda q: q, q)
    for name in ("coriolis_matrix", "inverse_dynamics", "forward_dynamics"):
        given = (q, v) if name == "coriolis_matrix" else (q, v, a)
        function = partial(getattr(mb, name), robot)
        call, first = waiting(function, *given)
        inside, nothing, plain = least([call, empty, partial(function, *given)])
        print(f"{name:32}{inside - nothing:10.2f}{first:10.2f}{'':20}{plain:12.2f}")


def inertias_as_data() -> None:
    """The arm with its inertias as data, beside the same with its own, by turns."""
    robot = mb.from_urdf(robot_path(ARM))
    pi = mb.inertial_parameters(robot)
    q, (v, a) = robot.random(0), np.random.default_rng(0).standard_normal((2, robot.nv))
    many = [np.stack([x] * BATCH) for x in (pi, q, v, a)]
    fixed = (None, 0, 0, 0)

    def of(name: str) -> Callable[..., Any]:
        return lambda pi, *x: getattr(mb, name)(robot.with_inertial_parameters(pi), *x)

    def own(name: str) -> Callable[..., Any]:
        return lambda pi, *x: getattr(mb, name)(robot, *x)

    def rolled(dynamics: Callable[..., Any]) -> Callable[..., Any]:
        return lambda pi, *x: rollout(partial(dynamics, pi))(*x)

    def loss(forces: Callable[..., Any]) -> Callable[..., Any]:
        return lambda pi, q, v, a: jnp.sum(jax.vmap(forces, fixed)(pi, q, v, a) ** 2)

    inverse, forward = "inverse_dynamics", "forward_dynamics"
    rows: list[tuple[str, Callable[..., Any], Callable[..., Any], list[Any], int]] = [
        ("inverse dynamics", of(inverse), own(inverse), [pi, q, v, a], 1),
        ("forward dynamics", of(forward), own(forward), [pi, q, v, a], 1),
        (
            f"one robot, {BATCH} states",
            jax.vmap(of(inverse), fixed),
            jax.vmap(own(inverse), fixed),
            [pi, *many[1:]],
            BATCH,
        ),
        (f"{BATCH} robots, inverse", jax.vmap(of(inverse)), jax.vmap(own(inverse)), many, BATCH),
        (f"{BATCH} robots, forward", jax.vmap(of(forward)), jax.vmap(own(forward)), many, BATCH),
        (
            f"gradient by pi of {BATCH} forces",
            jax.grad(loss(of(inverse))),
            loss(own(inverse)),
            [pi, *many[1:]],
            BATCH,
        ),
        (f"scan of {STEPS} steps", rolled(of(forward)), rolled(own(forward)), [pi, q, v, a], STEPS),
        (
            "its gradient by pi; by tau",
            jax.grad(rolled(of(forward))),
            jax.grad(rolled(own(forward)), 3),
            [pi, q, v, a],
            STEPS,
        ),
    ]
    print("\ninertias as data, and as constants; us")
    for name, data, constant, given, size in rows:
        calls = [waiting(function, *given)[0] for function in (data, constant)]
        print(f"{name:40}" + "".join(f"{time / size:10.2f}" for time in least(calls)))


if __name__ == "__main__":
    arm()
    quadruped()
    inertias_as_data()
