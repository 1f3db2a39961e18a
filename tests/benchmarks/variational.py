"""Numbers of docs/integrators.md: `python tests/benchmarks/variational.py`, by hand, in a few minutes.

Long motions by DOP853, by variational steps, and by the classical methods of one step length, in NumPy.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import connections as cn
from connections import multibody as mb

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from closed_chains import legged_robot
from robots import robot_path

MOTION: dict[str, Any] = {"method": "variational"}


def double_pendulum() -> mb.Model:
    """Two rods of 1 m and 1 kg."""
    mechanism, below = mb.Mechanism(), np.eye(4)
    below[2, 3] = -1.0
    for name, above, place in (("a", "world", np.eye(4)), ("b", "a", below)):
        mechanism.add_body(name, 1.0, (0.0, 0.0, -0.5), np.diag([0.08, 0.08, 0.001]))
        mechanism.add_joint(f"to {name}", above, name, mb.Revolute((0.0, 1.0, 0.0)), place)
    return mechanism.build()


def floating_arm() -> mb.Model:
    """A free body that carries an arm of a hinge and a ball, without gravity."""
    mechanism, ahead = mb.Mechanism(), np.eye(4)
    ahead[:3, 3] = 0.1, 0.2, 0.3
    mechanism.add_body("base", 3.0, (0.05, -0.02, 0.1), np.diag([0.1, 0.09, 0.07]))
    mechanism.add_body("upper", 1.0, (0.0, 0.03, 0.25), np.diag([0.023, 0.022, 0.003]))
    mechanism.add_body("lower", 0.8, (0.1, 0.0, 0.2), np.diag([0.013, 0.011, 0.003]))
    mechanism.add_joint("free", "world", "base", mb.Free())
    mechanism.add_joint("hinge", "base", "upper", mb.Revolute((0.0, 0.6, 0.8)), ahead)
    mechanism.add_joint("ball", "upper", "lower", mb.Spherical(), ahead)
    return mechanism.build(gravity=(0.0, 0.0, 0.0))


def described(name: str, floating: bool) -> mb.Model:
    """A robot of example-robot-data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mb.InertiaWarning)  # a link of ANYmal has round-off for inertia
        return mb.from_urdf(robot_path(name), floating_base=floating)


def timed(function: Callable[[], Any], repeat: int = 1) -> tuple[Any, float]:
    """The value, and the least time of a call, s."""
    best, value = np.inf, None
    for _ in range(repeat):
        begin = time.perf_counter()
        value = function()
        best = min(best, time.perf_counter() - begin)
    return value, best


def orders() -> None:
    """Errors of h, h/2, h/4 at 0.2 s, and their orders, beside DOP853."""
    rng = np.random.default_rng(0)
    for name, robot in (
        ("double pendulum", double_pendulum()),
        ("floating arm", floating_arm()),
        ("quadruped", mb.example("quadruped")),
        ("four-bar", mb.example("four_bar")),
    ):
        q0, v0 = robot.random(np.random.default_rng(1)), rng.normal(size=robot.nv)
        exact = robot.system().simulate(q0, v0, [0.0, 0.2])
        for order in (2, 4):
            errors = []
            for h in (0.02, 0.01, 0.005):
                found = robot.system().simulate(q0, v0, [0.0, 0.2], step=h, order=order, **MOTION)
                gap = mb.difference(robot, exact.q[-1], found.q[-1]), exact.v[-1] - found.v[-1]
                errors.append(np.abs(np.append(*gap)).max())
            rate = np.log2(np.array(errors[:-1]) / errors[1:])
            print(
                f"{name}, order {order}: errors {errors[0]:.1e} to {errors[-1]:.1e}, orders {rate.round(2)}"
            )


def energy() -> None:
    """The chaotic double pendulum: energy over 1e6 steps of 10 ms; classical methods over 1e5."""
    robot, h = double_pendulum(), 0.01
    system, q0, v0 = robot.system(), np.array([2.0, 2.5]), np.zeros(2)
    for order, count in ((2, 1_000_000), (4, 200_000)):
        times = np.arange(0, count + 1, 50) * h
        motion, took = timed(lambda t=times, o=order: system.simulate(q0, v0, t, step=h, order=o, **MOTION))
        E = np.asarray(system.energy(motion.q, motion.v))
        band, slope = np.ptp(E), np.polyfit(times, E, 1)[0] * times[-1]
        tenths = [np.ptp(part) for part in np.array_split(E, 10)]
        print(
            f"variational {order}, {count:,} steps: band {band:.3g} J, fitted change {slope:.2g} J, "
            f"{abs(slope) / band:.1e} of the band; bands of tenths {min(tenths):.3g} to {max(tenths):.3g}; "
            f"{took / count * 1e6:.1f} us a step"
        )
    times = np.linspace(0.0, 1000.0, 201)
    motion, took = timed(lambda: system.simulate(q0, v0, times))
    E = np.asarray(system.energy(motion.q, motion.v))
    print(f"DOP853, 1,000 s: energy {E[-1] - E[0]:.2g} J, {took:.2f} s")

    def rate(y: np.ndarray) -> np.ndarray:
        return np.append(y[2:], mb.forward_dynamics(robot, y[:2], y[2:], np.zeros(2)))

    def rk4(y: np.ndarray) -> np.ndarray:
        a = rate(y)
        b = rate(y + 0.5 * h * a)
        c = rate(y + 0.5 * h * b)
        return y + h / 6.0 * (a + 2.0 * b + 2.0 * c + rate(y + h * c))

    def euler(y: np.ndarray) -> np.ndarray:
        return y + h * rate(y)

    for name, step in (("RK4", rk4), ("explicit Euler", euler)):
        y, found = np.append(q0, v0), {}
        for k in range(1, 100_001 if name == "RK4" else 1001):
            y = step(y)
            if k in (1000, 10_000, 100_000):
                found[k] = float(system.energy(y[:2], y[2:]) - E[0])
        print(f"{name}, 10 ms: energy after steps { {k: round(x, 3) for k, x in found.items()} } J")


def momentum() -> None:
    """Spatial momentum of the floating arm over 2,000 s."""
    robot = floating_arm()
    system, rng = robot.system(), np.random.default_rng(2)
    q0, v0, times = robot.random(rng), rng.normal(size=robot.nv), np.linspace(0.0, 2000.0, 41)
    v0[3:6] = 0.0

    def drift(motion: Any) -> tuple[float, float]:
        found = []
        for q, v in zip(motion.q, motion.v, strict=True):
            P = mb.mass_matrix(robot, q)[:6] @ v
            R = np.asarray(cn.geometry.rigid.rotations.rotation_matrix(q[3:7]))
            found.append(np.append(R @ P[:3] + np.cross(q[:3], R @ P[3:]), R @ P[3:]))
        change = np.abs(np.array(found) - found[0])
        sizes = np.linalg.norm(found[0][:3]), np.linalg.norm(found[0][3:])
        return change[:, :3].max() / sizes[0], change[:, 3:].max() / sizes[1]

    motion, took = timed(lambda: system.simulate(q0, v0, times, step=0.02, **MOTION))
    print(
        "variational, 1e5 steps of 20 ms: momentum "
        f"angular {drift(motion)[0]:.1e}, linear {drift(motion)[1]:.1e}; {took:.2f} s"
    )
    motion, took = timed(lambda: system.simulate(q0, v0, times))
    print(f"DOP853: angular {drift(motion)[0]:.1e}, linear {drift(motion)[1]:.1e}; {took:.2f} s")


def cost() -> None:
    """A step in a long motion, beside one call of forward dynamics; Newton's iterations."""
    from connections.multibody.program.loop_stepping import stepping_of

    for name, robot in (
        ("arm", mb.example("arm")),
        ("quadruped", mb.example("quadruped")),
        ("floating arm", floating_arm()),
        ("UR5", described("ur5", floating=False)),
        ("ANYmal", described("anymal", floating=True)),
        ("four-bar", mb.example("four_bar")),
        ("two legs with four-bars, floating", legged_robot().build()),
    ):
        rng = np.random.default_rng(3)
        q, v = robot.random(rng), rng.normal(size=robot.nv)
        P, none = mb.mass_matrix(robot, q) @ v, np.zeros((1, 2 * robot.nv))
        y, one = np.append(q, P)[None], np.ones(1)

        def steps(count: int, y: Any = y, none: Any = none, robot: Any = robot, one: Any = one) -> Any:
            return stepping_of(robot)(y, none, one, 0.005, count)

        few, short = timed(lambda steps=steps: steps(100), 20)
        many, long = timed(lambda steps=steps: steps(300), 20)
        tau = np.zeros(robot.nv)
        call = lambda r=robot, q=q, v=v, tau=tau: [mb.forward_dynamics(r, q, v, tau) for _ in range(1000)]  # noqa: E731
        _, dynamics = timed(call, 20)
        each = (long - short) / 200
        single = (
            timed(lambda r=robot, q=q, P=P: [mb.variational_step(r, q, P, 0.005) for _ in range(300)], 10)[1]
            / 300
        )
        print(
            f"{name}: {each * 1e6:.1f} us a step in a motion, {single * 1e6:.0f} us by mb.variational_step, "
            f"forward dynamics {dynamics * 1e3:.1f} us: {each / dynamics * 1e3:.1f} of it; "
            f"{(many.last[0] - few.last[0]) / 200:.2f} Newton steps"
        )


def elsewhere() -> None:
    """A step of UR5 in C, and inside JAX with its gradient, in scans of 1,000 steps."""
    robot, h = described("ur5", floating=False), 0.005
    rng = np.random.default_rng(3)
    q, v = robot.random(rng), rng.normal(size=robot.nv)
    P, none = mb.mass_matrix(robot, q) @ v, np.zeros(robot.nv)
    with tempfile.TemporaryDirectory() as folder:
        mb.codegen.generate_c(robot, ["variational_step", "forward_dynamics"], folder, name="ur5")
        loaded = mb.codegen.load_c(folder, flags=("-O3", "-march=native"))
    rows = [np.repeat(x[None], 10_000, axis=0) for x in (q, P, none)]
    length = np.full((10_000, 1), h)
    _, step = timed(lambda: loaded.variational_step(*rows, length), 10)
    _, dynamics = timed(lambda: loaded.forward_dynamics(rows[0], rows[1], rows[2]), 10)
    print(f"UR5 in C: {step * 100:.2f} us a step from rest, forward dynamics {dynamics * 100:.2f} us")

    def end(P: Any) -> Any:
        step = lambda state, _: (mb.variational_step(robot, *state, h), None)  # noqa: E731
        (q1, _), _ = jax.lax.scan(step, (jnp.asarray(q), P), None, length=1000)
        return jnp.sum(q1)

    value, slope = jax.jit(end), jax.jit(jax.grad(end))
    for name, function in (("a step", value), ("a step of the gradient", slope)):
        function(P).block_until_ready()
        _, took = timed(lambda f=function: f(P).block_until_ready(), 10)
        print(f"UR5 inside JAX: {took * 1e3:.1f} us {name}")


def gradient() -> None:
    """The gradient through 1e4 steps of a pendulum."""
    pendulum = cn.MechanicalSystem(
        cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1)), lambda q: 9.81 * (1.0 - jnp.cos(q[0]))
    )

    def end(q: Any) -> Any:
        return pendulum.simulate(q, [0.0], [0.0, 100.0], step=0.01, **MOTION).q[-1, 0]

    gradient_of = jax.jit(jax.grad(end))
    start = jnp.array([1.0])
    slope = float(gradient_of(start)[0])
    _, took = timed(lambda: gradient_of(start).block_until_ready(), 3)
    e = 1e-6
    by_differences = (end([1.0 + e]) - end([1.0 - e])) / (2.0 * e)
    print(f"1e4 steps: gradient {slope:.9f}, by differences {by_differences:.6f}, {took * 1e3:.0f} ms")


if __name__ == "__main__":
    for part in (orders, energy, momentum, cost, elsewhere, gradient):
        part()
