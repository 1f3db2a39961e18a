"""How many compilations of JAX the first calls take, in a process of its own: one for each kind of step.

Single operations that are compiled one by one, or functions that are compiled again for other numbers, are
not seen in a result, and cost a newcomer seconds.
"""

import json
import subprocess
import sys
from functools import cache

import pytest

PROGRAM = """
import json
from jax import monitoring

compiled = []
monitoring.register_event_duration_secs_listener(
    lambda name, *rest, **more: compiled.append(name) if name.endswith("backend_compile_duration") else None
)
import jax.numpy as jnp, numpy as np
import connections as cn
from connections import estimation

q, v, times = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.5]), np.linspace(0.0, 1.0, 11)
metric = cn.MatrixMetric(cn.CoordinateFrame(3), lambda q, p: p * jnp.eye(3) / q[2] ** 2, 1.0)
nabla, system = cn.LeviCivita(metric), cn.MechanicalSystem(metric, potential=lambda q: q @ q)
chart = estimation.Filter(cn.CoordinateFrame(3), lambda q, u, t: -q, 0.1 * np.eye(3))
turning = estimation.Filter(cn.SO3Frame(), noise=0.1 * np.eye(3))
sensor = estimation.Sensor(lambda q: q[:2], 0.1 * np.eye(2))
point, attitude = (
    estimation.Estimate(q, 0.1 * np.eye(3)),
    estimation.Estimate([0.0, 0.0, 0.0, 1.0], 0.1 * np.eye(3)),
)


def curve(t):
    return jnp.stack([jnp.cos(t), jnp.sin(t), jnp.ones_like(t)])


CALLS = {
    "symbols": lambda: nabla.coefficients(q),
    "curvature": lambda: nabla.curvature(q),
    "coriolis": lambda: cn.coriolis_matrix(nabla, q, v),
    "geodesic": lambda: cn.geodesic(nabla, q, v, times),
    "another geodesic": lambda: cn.geodesic(nabla, q + 0.1, 2.0 * v, np.linspace(0.0, 2.0, 5)),
    "transport": lambda: cn.parallel_transport(nabla, curve, v, times),
    "logarithm": lambda: cn.logarithm(nabla, q, q + 0.1),
    "another logarithm": lambda: cn.logarithm(nabla, q, q - 0.1),
    "motion": lambda: system.simulate(q, v, times),
    "prediction": lambda: chart.predict(point, np.zeros(3), 0.1),
    "update": lambda: chart.update(point, q[:2], sensor),
    "update of an attitude": lambda: turning.update(attitude, np.zeros(2), sensor),
}
found = {}
for name, call in CALLS.items():
    before = len(compiled)
    call()
    found[name] = len(compiled) - before
print(json.dumps(found))
"""

#: At most; other arguments of a kind that was there compile nothing.
MOST = {
    "symbols": 1,
    "curvature": 1,
    "coriolis": 1,
    "geodesic": 3,
    "another geodesic": 0,
    "transport": 4,
    "logarithm": 9,
    "another logarithm": 0,
    "motion": 3,
    "prediction": 1,
    "update": 1,
    "update of an attitude": 1,
}


@cache
def found():
    """The compilations by kind, all of one process."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", MOST)
def test_a_first_call_compiles_a_few_functions(kind):
    assert found()[kind] <= MOST[kind]


def test_compilations_are_counted():
    assert found().keys() == MOST.keys() and sum(found().values()) >= len(MOST) - 2
