"""What objects show of themselves: three lines of 80 columns at most, with what tells them apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections.control import ClosedLoop, PassivityController, trajectory_reference

FRAME = cn.CoordinateFrame(3)


def stretched(q, parameters):
    return parameters["m"] * jnp.diag(2.0 + jnp.sin(q))


METRIC = cn.MatrixMetric(FRAME, stretched, {"m": 2.0})
FAMILY = cn.ContorsionFamily(METRIC)
SYSTEM = cn.MechanicalSystem(METRIC, potential=lambda q: q[0], connection=FAMILY.connection([1.0]))
REFERENCE = trajectory_reference(FRAME, lambda t: jnp.sin(t + jnp.arange(3.0)), 2.0)
LOOP = ClosedLoop(SYSTEM, PassivityController(SYSTEM, 5.0), REFERENCE)
MOTION = LOOP.simulate(np.zeros(3), np.zeros(3), np.linspace(0.0, 0.1, 3))


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (METRIC, ["MatrixMetric, n = 3", "CoordinateFrame(dim=3)", "matrix: stretched with parameters"]),
        (cn.ConstantMetric(FRAME, np.eye(3)), ["H: array (3, 3)"]),
        (cn.LeviCivita(METRIC), ["LeviCivita", "metric: MatrixMetric"]),
        (FAMILY, ["ContorsionFamily", "MatrixMetric"]),
        (FAMILY.connection([1.0]), ["ContorsionConnection", "symmetry: admissible"]),
        (SYSTEM, ["MechanicalSystem", "potential: a lambda", "connection: ContorsionConnection"]),
        (LOOP, ["ClosedLoop", "controller: PassivityController"]),
        (cn.ConstantMetric(cn.SO3Frame(), np.eye(3)), ["in 4 coordinates", "SO3Frame"]),
        (MOTION, ["Motion, n = 3, 3 times from 0 s to 0.1 s", "|tau|", "lyapunov"]),
    ],
    ids=lambda part: type(part).__name__ if not isinstance(part, list) else "",
)
def test_three_lines(thing, words):
    lines = repr(thing).splitlines()
    assert len(lines) <= 3 and all(len(line) <= 80 for line in lines)
    assert all(word in repr(thing) for word in words)


def test_traced():
    """What JAX traces can be printed, too."""
    shown = []
    jax.jit(lambda metric: shown.append(repr(metric)))(cn.ConstantMetric(FRAME, 2.0 * np.eye(3)))
    assert shown == ["ConstantMetric, n = 3\n  frame: CoordinateFrame(dim=3)\n  H: traced (3, 3)"]
