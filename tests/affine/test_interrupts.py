"""Ctrl-C ends what takes long and keeps what there is; a bar shows what takes long.

In new processes: Ctrl-C itself; and what is made of the same structure compiles nothing.
"""

import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest
from cases import further

import connections as cn
from connections import _progress
from connections import multibody as mb
from connections.affine.motions import flow
from connections.cli.progress import progress
from connections.integration import one_motion

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
q, v, long = np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.5, -0.3]), np.linspace(0.0, 1e6, 100_001)
"""
INTERRUPTED = """
run(1e-6 * long[:3])
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.perf_counter()
try:
    run(long)
except KeyboardInterrupt as interrupt:
    passed, found = time.perf_counter() - begin, interrupt.motion.q
    reached = np.isfinite(found).all(axis=-1).sum(axis=-1).min()
    print(passed, reached, abs(run(long[:reached]).q[..., -1, :] - found[..., reached - 1, :]).max())
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


def in_a_child(*parts):
    """A new process that runs a program."""
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    program = [sys.executable, "-c", "".join(parts)]
    return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300)


def printed(*parts):
    """The numbers that a new process prints."""
    done = in_a_child(*parts)
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


@pytest.mark.parametrize(
    "run",
    [
        further("run = lambda times: cn.geodesic(nabla, q, v, times)"),
        "run = lambda times: cn.geodesic(nabla, np.stack([q, q]), np.stack([v, v]), times)",
        further(ROBOT + "run = lambda times: system.simulate(np.zeros(2), np.zeros(2), times)"),
    ],
    ids=["chart", "batch", "robot"],
)
def test_interrupts(run):
    """Half a second passes before the interrupt, and at most one after it; the motion until then is kept."""
    passed, reached, error = printed(START, run, INTERRUPTED)
    assert 0.4 < passed < 1.5
    assert reached > 2 and error < 1e-9  # ten times as many on a machine that does nothing else


@pytest.mark.further
def test_an_interrupt_that_nobody_catches():
    """The process ends by the signal, as every other one: otherwise a shell's loop would go on."""
    run = "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
    done = in_a_child(START, run, "while True: cn.geodesic(nabla, q, v, long)")
    assert done.returncode == -signal.SIGINT and done.stderr.rstrip().endswith("KeyboardInterrupt")


# --- in this process: a function of the user gets the signal ----------------------------------------------


class CtrlC:
    """A function (t, q, v) -> value that Ctrl-C interrupts at its first call after t = 1.2."""

    def __init__(self, value):
        self.value = value

    def __call__(self, t, q, v):
        if t > 1.2:
            raise KeyboardInterrupt
        return self.value


PLANE = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2)))
TIMES = np.linspace(0.0, 3.0, 7)


def test_the_motion_until_ctrl_c():
    """Of one motion the times that it reached, with its drift and events."""
    watched = CtrlC(1.0), lambda t, q, v: q[0] - 0.7
    with pytest.raises(KeyboardInterrupt) as caught:
        cn.geodesic(PLANE, np.zeros(2), np.ones(2), TIMES, events=watched, max_step=0.1)
    assert type(caught.value) is KeyboardInterrupt
    motion = caught.value.motion
    assert isinstance(motion, cn.Motion)
    np.testing.assert_array_equal(motion.times, TIMES[:3])
    np.testing.assert_allclose(motion.q[:, 0], TIMES[:3], atol=1e-12)
    assert motion.v.shape == (3, 2) and motion.drift.shape == (3,)
    np.testing.assert_allclose(motion.event_times[1], [0.7], rtol=1e-10)


def test_a_batch_until_ctrl_c():
    """Of two, one has ended by an event; 40 are more than take their steps together."""
    speeds = np.full((40, 2), 0.5)
    speeds[0] = 3.0, 0.0

    def leaves(t, q, v):
        return q @ q - 1.0

    leaves.terminal = True
    for count in (2, 40):
        with pytest.raises(KeyboardInterrupt) as caught:
            cn.geodesic(PLANE, np.zeros(2), speeds[:count], TIMES, events=(leaves, CtrlC(1.0)), max_step=0.1)
        motion = caught.value.motion
        assert motion.q.shape == (count, 7, 2)
        reached = np.isfinite(motion.q).all(axis=-1).sum(axis=-1)
        np.testing.assert_array_equal(reached[:2], [1, 3])
        np.testing.assert_allclose(motion.event_times[0][:2, 0], [1.0 / 3.0, np.nan], rtol=1e-10)


def test_robots_until_ctrl_c():
    arm = mb.example("arm")
    with pytest.raises(KeyboardInterrupt) as caught:
        arm.system().simulate(arm.random(0), np.zeros(arm.nv), TIMES, CtrlC(np.zeros(arm.nv)))
    np.testing.assert_array_equal(caught.value.motion.times, TIMES[:3])
    assert np.isfinite(caught.value.motion.q).all()


def test_an_interrupted_estimate():
    """The motion is complete by then."""

    class Later(CtrlC):
        calls = 0

        def __call__(self, t, q, v):
            self.calls += t == 0.0
            return super().__call__(t if self.calls > 1 else 0.0, q, v)

    arm = mb.example("arm")
    q, force = arm.random(0), Later(np.zeros(arm.nv))
    with pytest.raises(KeyboardInterrupt) as caught:
        cn.geodesic(arm.connection, q, np.zeros(arm.nv), TIMES, force, estimate=True)
    motion = caught.value.motion
    np.testing.assert_array_equal(motion.times, TIMES)
    assert np.isfinite(motion.q).all() and motion.estimate is None


@pytest.mark.further
def test_other_numbers_compile_nothing():
    """Another member of the family, mass, gain, tolerance, parameters of functions, and number of times."""
    first, later = printed(START, COUNTED)
    assert first > 10 and later == 0


# --- progress --------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, stream, run, after=0.0):
    """What is written to stderr while `run` works."""
    for name in ("CONNECTIONS_QUIET", "FORCE_COLOR", "COLUMNS", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(_progress, "AFTER", after)
    monkeypatch.setattr(one_motion, "STEPS", 4)  # of a motion in a chart, between two looks at the clock
    monkeypatch.setattr(sys, "stderr", stream)
    run(monkeypatch)
    return stream.getvalue()


def motion(monkeypatch=None):
    cn.geodesic(PLANE, np.zeros(2), np.ones(2), TIMES, max_step=0.1)


def test_a_bar_on_a_terminal(monkeypatch):
    """Of a motion that takes long; it vanishes, also when the motion fails."""
    written = shown(monkeypatch, Terminal(), motion)
    assert "━" in written and "geodesic: " in written and " %" in written
    assert written.rstrip("\r").endswith("\x1b[2K")

    def fails(monkeypatch):
        with pytest.raises(cn.checks.IntegrationError):
            cn.geodesic(PLANE, np.zeros(2), np.ones(2), TIMES, max_step=0.1, max_steps=9)

    written = shown(monkeypatch, Terminal(), fails)
    assert "geodesic: " in written and written.rstrip("\r").endswith("\x1b[2K")
    assert "geodesic: " in shown(monkeypatch, Terminal(), motion)  # the next one has a bar again


@pytest.mark.parametrize(
    "case", ["short", "no terminal", "quiet", "in a thread", "inside jit", "below another bar"]
)
def test_no_bar(monkeypatch, case):
    stream, run, after = Terminal(), motion, 0.0
    if case == "short":
        after = 2.0
    elif case == "no terminal":
        stream = io.StringIO()
    elif case == "quiet":

        def run(monkeypatch):
            monkeypatch.setenv("CONNECTIONS_QUIET", "1")
            motion()

    elif case == "in a thread":

        def run(monkeypatch):
            thread = threading.Thread(target=motion)
            thread.start()
            thread.join()

    elif case == "inside jit":

        def run(monkeypatch):
            jax.block_until_ready(jax.jit(lambda q: cn.geodesic(PLANE, q, q, TIMES).q)(np.ones(2)))

    else:

        def run(monkeypatch):
            with progress(2, "checks", "sphere"):
                motion()

    written = shown(monkeypatch, stream, run, after)
    assert "geodesic" not in written
    assert ("sphere" in written) == (case == "below another bar")


def test_the_share_of_the_work_that_is_done(monkeypatch):
    """It grows to one; of one motion, and of more than take their steps together."""

    class Listening(_progress.Ticks):
        def __call__(self, fraction):
            found.append(fraction)

    monkeypatch.setattr(flow, "Ticks", Listening)
    monkeypatch.setattr(one_motion, "STEPS", 1)
    for count in ((), (1,), (40,)):
        found = []
        cn.geodesic(PLANE, np.zeros(2), np.ones((*count, 2)), -TIMES, max_step=0.1)
        assert found == sorted(found) and 0.0 <= found[0] < 0.1 and found[-1] == pytest.approx(1.0)
