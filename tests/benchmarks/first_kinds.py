"""The table of first calls in README.md: `python tests/benchmarks/first_kinds.py`.

Each line is a call in a new process, imports not included: with empty caches on disk, and again with what
the first process left there. Medians of `--repeats` such pairs, of processor time, because other work on the
machine adds to every other clock. The import has a line of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]

METRIC = """
import jax.numpy as jnp, numpy as np
import connections as cn
metric = cn.MatrixMetric(cn.CoordinateFrame(3), lambda q: jnp.eye(3) / q[2] ** 2)
q, v = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.5])
times = np.linspace(0.0, 1.0, 11)
def curve(t):
    return jnp.stack([jnp.cos(t), jnp.sin(t), jnp.ones_like(t)])
"""
ROBOT = """
import numpy as np
from connections import multibody as mb
robot = mb.example("{name}")
q, v = robot.neutral(), np.ones(robot.nv)
"""
LOOP = """
import numpy as np
from connections.control.tracking_example import tracking_loop
loop = tracking_loop(-5.0)
q, v, times = np.zeros(3), np.array([0.0, 1.0, 0.0]), np.linspace(0.0, 10.0, 101)
"""
GRADIENT = """
import jax, numpy as np
from connections import multibody as mb
jax.config.update("jax_enable_compilation_cache", False)  # XLA has never seen the program
robot = mb.example("arm")
q, v, tau = robot.neutral(), *np.ones((2, robot.nv))
def rollout(q, v, tau):
    def step(state, _):
        q, v = state
        v = v + 1e-3 * mb.forward_dynamics(robot, q, v, tau)
        return (q + 1e-3 * v, v), None
    (_, v), _ = jax.lax.scan(step, (q, v), length=1000)
    return v @ v
gradient = jax.jit(jax.grad(rollout, (0, 1, 2)))
"""
#: What is printed, what runs before the clock, what is timed.
KINDS = (
    ("import connections", "", "import connections"),
    ("C of an arm", ROBOT.format(name="arm"), "mb.coriolis_matrix(robot, q, v)"),
    ("C of a quadruped", ROBOT.format(name="quadruped"), "mb.coriolis_matrix(robot, q, v)"),
    ("C of a four-bar linkage", ROBOT.format(name="four_bar"), "mb.coriolis_matrix(robot, q, v)"),
    ("the gradient of a thousand steps of an arm", GRADIENT, "jax.block_until_ready(gradient(q, v, tau))"),
    ("Christoffel symbols of a metric", METRIC, "cn.LeviCivita(metric).coefficients(q)"),
    ("a geodesic", METRIC, "cn.geodesic(cn.LeviCivita(metric), q, v, times)"),
    ("transport along a curve", METRIC, "cn.parallel_transport(cn.LeviCivita(metric), curve, v, times)"),
    ("a closed loop with a controller", LOOP, "loop.simulate(q, v, times)"),
)
PROGRAM = "import time\n{before}\nstart = time.process_time()\n{call}\nprint(time.process_time() - start)"


def seconds(before: str, call: str, caches: str) -> float:
    """Processor time of the call in a new process that keeps what it compiles below `caches`."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": f"{caches}/jax",
        "NUMBA_CACHE_DIR": f"{caches}/numba",
    }
    words = [sys.executable, "-c", PROGRAM.format(before=before, call=call)]
    done = subprocess.run(words, check=True, env=environment, cwd=caches, capture_output=True, text=True)
    return float(done.stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="pairs of processes")
    options = parser.parse_args()
    print("| first call in a process | on a new machine [s] | compiled before [s] |\n|---|---:|---:|")
    for name, before, call in KINDS:
        pairs = []
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as caches:
                pairs.append([seconds(before, call, caches) for _ in range(2)])
        new, later = (median(column) for column in zip(*pairs, strict=True))
        print(f"| {name} | {new:.1f} | {later:.1f} |", flush=True)


if __name__ == "__main__":
    main()
