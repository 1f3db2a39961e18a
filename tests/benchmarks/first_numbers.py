"""What a newcomer waits for: `python tests/benchmarks/first_numbers.py [OLD]`.

Each row is a new process, after its imports, with warm caches on disk: processor time and compilations of the
first call and of a later call with other numbers, the memory that both took, and the same of the checkout OLD
(another folder of the project), by turns. Targets in seconds stand beside; a missed one is marked, and the
exit status is 0 all the same, for a busy machine is not an error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
import json, sys, time
import jax, jax.numpy as jnp, numpy as np
from jax import monitoring
import connections as cn
compiled = [0]
def count(event, duration, **more):
    compiled[0] += event.endswith("backend_compile_duration")
monitoring.register_event_duration_secs_listener(count)
rng = np.random.default_rng(0)
chart = cn.CoordinateFrame(3)
def metric_of(m):
    return cn.MatrixMetric(chart, lambda q: jnp.diag(jnp.array([m, 2.0 + jnp.sin(q[0]), 3.0 + q[1] ** 2])))
q, v = np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.5, -0.3])
times = np.linspace(0.0, 1.0, 11)
"""
ROBOT = """
sys.path[:0] = ["tests/support", "tests"]  # the second of older checkouts
import connections.multibody as mb
from robots import robot_path
import warnings
warnings.simplefilter("ignore")
model = mb.from_urdf(robot_path("{name}"){options})
q, v = model.random(rng), 0.3 * rng.normal(size=model.nv)
"""
FIVE_BAR = """
import connections.multibody as mb
def along(x):
    pose = np.eye(4)
    pose[0, 3] = x
    return pose
plan, hinge = mb.Mechanism(), mb.Revolute((0, 0, 1))
for bar, length in {"a": 0.3, "b": 0.4, "c": 0.45, "d": 0.35}.items():
    plan.add_body(bar, 2.0 * length, (length / 2.0, 0, 0), np.diag([0, 1, 1]) * length**3 / 6.0)
plan.add_joint("left", "world", "a", hinge)
plan.add_joint("left knee", "a", "b", hinge, along(0.3))
plan.add_joint("right", "world", "d", hinge, along(0.25))
plan.add_joint("right knee", "d", "c", hinge, along(0.35))
ends = mb.Coincident(), along(0.4), along(0.45)
plan.add_loop("loop", "b", "c", *ends, independent=["left", "right"])
model = plan.build(gravity=(0, -9.81, 0), reference={"left": 2.1, "right": 0.9})
q, v, times = np.array([2.1, 0.9]), np.zeros(2), np.linspace(0.0, 0.2, 11)
"""
LOOP = """
frame = cn.CoordinateFrame(4)
mass = cn.MatrixMetric(frame, lambda q: jnp.diag(2.0 + jnp.sin(q)) + 0.1)
from connections.control import AccelerationReference, ClosedLoop, PassivityController, trajectory_reference
family, plant = cn.ContorsionFamily(mass), cn.MechanicalSystem(mass)
reference = trajectory_reference(frame, lambda t: jnp.sin(t + jnp.arange(4.0)), 2.0)
def member(beta):
    return ClosedLoop(plant, PassivityController(plant, 5.0, family.connection(beta)), reference)
"""
TAIL = """
import resource
result, used = [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for number in (1.0, 1.5):
    before, start = compiled[0], time.process_time()
    run(number)
    result += [time.process_time() - start, compiled[0] - before]
result.append((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) / 1024)
print(json.dumps(result))
"""


class Row(NamedTuple):
    """A question: what it is, the program, and how many seconds its first and later answers may take."""

    what: str
    program: str
    first: float
    later: float | None = None


def robot(name: str, options: str = "") -> str:
    """The start of a program about a robot."""
    return ROBOT.format(name=name, options=options)


ROWS = [
    Row(
        "Christoffel symbols, new metric", "run = lambda m: cn.LeviCivita(metric_of(m)).coefficients(q)", 0.5
    ),
    Row("torsion, new metric", "run = lambda m: cn.LeviCivita(metric_of(m)).torsion(q)", 0.5),
    Row("curvature, new metric", "run = lambda m: cn.LeviCivita(metric_of(m)).curvature(q)", 0.5),
    Row(
        "a member of (12)",
        "family = cn.ContorsionFamily(metric_of(1.0))\n"
        "run = lambda b: family.connection(np.array([b])).coefficients(q)",
        0.5,
    ),
    Row(
        "geodesic, chart", "run = lambda m: cn.geodesic(cn.LeviCivita(metric_of(m)), q, v, times)", 0.6, 0.01
    ),
    Row("exponential, chart", "run = lambda m: cn.exponential(cn.LeviCivita(metric_of(m)), q, v)", 0.6, 0.01),
    Row(
        "transport, chart",
        "curve = lambda t: jnp.array([t, t**2, jnp.sin(t)])\n"
        "run = lambda m: cn.parallel_transport(cn.LeviCivita(metric_of(m)), curve, np.eye(3), times)",
        0.6,
        0.01,
    ),
    Row(
        "other times",
        "nabla = cn.LeviCivita(metric_of(1.0))\n"
        "run = lambda m: cn.geodesic(nabla, q, v, np.linspace(0.0, 0.1, int(20 * m)))",
        0.6,
        0.01,
    ),
    Row(
        "20 geodesics together, chart",
        "many = np.tile(q, (20, 1))\n"
        "run = lambda m: cn.geodesic(cn.LeviCivita(metric_of(m)), many, v, times)",
        2.0,
        0.05,
    ),
    Row(
        "closed loop, one member, 10 s",
        LOOP + "run = lambda b: member(b * np.ones(4)).simulate("
        "np.zeros(4), np.zeros(4), np.linspace(0.0, 10.0, 101))",
        2.0,
        0.1,
    ),
    Row(
        "closed loop, 20 members, 10 s",
        LOOP + "given = np.zeros(4), np.zeros(4), np.linspace(0.0, 10.0, 101)\n"
        "betas = 0.1 * np.arange(20.0)[:, None] * np.ones(4)\n"
        "run = lambda b: member(np.zeros(4)).sweep(b * betas, *given)\n"
        "if not hasattr(ClosedLoop, 'sweep'):\n"
        "    run = lambda b: [member(b * beta).simulate(*given) for beta in betas]",
        3.0,
        0.5,
    ),
    Row(
        "geodesic, UR5",
        robot("ur5") + "run = lambda s: cn.geodesic(model.connection, q, s * v, times)",
        0.5,
        0.005,
    ),
    Row(
        "simulate, UR5", robot("ur5") + "run = lambda s: model.system().simulate(q, s * v, times)", 0.5, 0.005
    ),
    Row(
        "transport, UR5",
        robot("ur5") + "curve = lambda t: q + jnp.sin(t)\n"
        "run = lambda s: cn.parallel_transport(model.connection, curve, np.eye(6), times)",
        0.5,
        0.005,
    ),
    Row(
        "simulate, ANYmal",
        robot("anymal", ", floating_base=True") + "run = lambda s: model.system().simulate(q, s * v, times)",
        0.5,
        0.02,
    ),
    Row(
        "simulate, five-bar", FIVE_BAR + "run = lambda s: model.system().simulate(q, s * v, times)", 0.5, 0.02
    ),
    Row(
        "logarithm, chart",
        "run = lambda m: cn.logarithm(cn.LeviCivita(metric_of(m)), q, q + 0.3 * v)",
        2.0,
        0.05,
    ),
    Row(
        "logarithm, UR5",
        robot("ur5") + "run = lambda s: cn.logarithm(model.connection, q, q + 0.1 * s * v)",
        2.0,
        0.05,
    ),
    Row(
        "sectional curvature, Talos",
        robot("talos_data/robots/talos_full_v2.urdf", ", floating_base=True")
        + "u = rng.normal(size=model.nv)\n"
        "nabla = model.connection\n"
        "run = lambda s: nabla.sectional(q, u, s * v, nabla.metric)",
        2.0,
        0.05,
    ),
]


def measured(checkout: Path, row: Row) -> list[Any] | None:
    """Seconds and compilations of the first and of a later call; None if the checkout cannot answer."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is one of the caches on disk
    words = [sys.executable, "-c", HEAD + row.program + TAIL]
    done = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr.splitlines()[-1] if done.stderr else "no answer", file=sys.stderr)
        return None
    numbers: list[Any] = json.loads(done.stdout)
    return numbers


def line(row: Row, numbers: list[Any] | None) -> str:
    """A row of the table."""
    if numbers is None:
        return f"{row.what:<32}{'no answer':>12}"
    first, compiled, later, again, memory = numbers
    marks = " first MISSED" * (first > row.first)
    marks += " later MISSED" * (row.later is not None and later > row.later)
    bound = f"{row.first:g} s" + (f", {1e3 * row.later:g} ms" if row.later else "")
    cost = f"{first:7.2f} s ({compiled:2d}){1e3 * later:9.1f} ms ({again}){memory:6.0f}"
    return f"{row.what:<32}{cost} {bound:>14}{marks}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", nargs="?", type=Path, help="another checkout of the project")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    arguments = parser.parse_args()
    print(f"{'':<32}{'first':>9} (c){'later':>12} (c)    MB {'targets':>14}    c: compilations")
    for row in ROWS:
        if arguments.only not in row.what:
            continue
        measured(ROOT, row)  # warms the caches on disk
        print(line(row, measured(ROOT, row)), flush=True)
        if arguments.old:
            measured(arguments.old.resolve(), row)
            print(line(row._replace(what="  before"), measured(arguments.old.resolve(), row)), flush=True)


if __name__ == "__main__":
    main()
