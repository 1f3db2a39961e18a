"""Ctrl-C ends what takes long, and what is made of the same structure compiles nothing: in new processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import further

START = """
import os, signal, threading, time
import jax, jax.numpy as jnp, numpy as np, connections as cn
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell starts in the background
frame = cn.CoordinateFrame(3)
def matrix(q, m):
    return jnp.diag(jnp.array([m, 2.0 + jnp.sin(q[0]), 3.0 + q[1] ** 2]))
def metric_of(m):
    return cn.MatrixMetric(frame, matrix, m)
nabla = cn.LeviCivita(metric_of(1.0))
q, v, long = np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.5, -0.3]), np.linspace(0.0, 1e6, 11)
"""
INTERRUPTED = """
run(1e-6 * long)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.perf_counter()
try:
    run(long)
except KeyboardInterrupt:
    print(time.perf_counter() - begin)
os._exit(0)
"""
ROBOT = """
import connections.multibody as mb
arm = mb.Mechanism()
for body in range(2):
    arm.add_body(f"link {body}", 1.0, (0.5, 0, 0), np.eye(3))
    pose = np.eye(4)
    pose[0, 3] = float(body)
    parent = f"link {body - 1}" if body else "world"
    arm.add_joint(f"joint {body}", parent, f"link {body}", mb.Revolute((0, 0, 1)), pose)
system = arm.build(gravity=(0, -9.81, 0)).system()
"""
COUNTED = """
compiled = [0]
def count(event, duration, **more):
    compiled[0] += event.endswith("backend_compile_duration")
jax.monitoring.register_event_duration_secs_listener(count)
def everything(m, beta, count):
    metric = metric_of(m)
    family = cn.ContorsionFamily(metric)
    nabla = family.connection(np.array([beta]))
    times = np.linspace(0.0, m, count)
    for tensor in (nabla.coefficients, nabla.torsion, nabla.curvature, metric.matrix):
        tensor(q)
    system = cn.MechanicalSystem(metric, potential=cn.ParametricFunction(height, m), connection=nabla)
    system.simulate(q, v, times, control=cn.ParametricFunction(damping, beta))
    cn.geodesic(nabla, q, v, times)
    cn.geodesic(nabla, q[None], v[None], times)
    cn.parallel_transport(nabla, cn.ParametricFunction(swinging, {"q": q, "m": m}), np.eye(3), times)
    points = q + m * np.linspace(0.0, 1.0, 9)[:, None]
    cn.parallel_transport(nabla, (np.linspace(0.0, 3.0, 9), points), v, times)
    cn.exponential(nabla, q, m * v)
    loop = ClosedLoop(system, PassivityController(system, m, nabla), reference_of(m))
    loop.simulate(q, v, times, rtol=1e-8 * m)
from connections.control import ClosedLoop, PassivityController, trajectory_reference
def reference_of(m):
    return trajectory_reference(frame, cn.ParametricFunction(waves, m), m)
def height(q, m):
    return m * q[0]
def damping(t, q, v, beta):
    return -beta * v
def swinging(t, p):
    return p["q"] + p["m"] * jnp.sin(t)
def waves(t, m):
    return m * jnp.sin(t + jnp.arange(3.0))
everything(1.0, 0.5, 9)
first = compiled[0]
everything(1.5, 0.7, 12)
print(first, compiled[0] - first)
"""


def printed(*parts):
    """The numbers that a new process prints."""
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    program = [sys.executable, "-c", "".join(parts)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


@pytest.mark.parametrize(
    "run",
    [
        "run = lambda times: cn.geodesic(nabla, q, v, times)",
        "run = lambda times: cn.geodesic(nabla, np.stack([q, q]), np.stack([v, v]), times)",
        further(ROBOT + "run = lambda times: system.simulate(np.zeros(2), np.zeros(2), times)"),
    ],
    ids=["chart", "batch", "robot"],
)
def test_interrupts(run):
    """Half a second passes before the interrupt, and at most one after it."""
    (passed,) = printed(START, run, INTERRUPTED)
    assert 0.4 < passed < 1.5


@pytest.mark.further
def test_other_numbers_compile_nothing():
    """Another member of the family, mass, gain, tolerance, parameters of functions, and number of times."""
    first, later = printed(START, COUNTED)
    assert first > 10 and later == 0
