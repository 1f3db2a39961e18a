"""Batches that are cut over several devices: each computes its own rows, inside a plain `jax.jit`."""

import os
import re
import subprocess
import sys
from functools import partial

import jax
import pytest

from connections import multibody as mb

RULE = r"sdy\.sharding_rule = #sdy\.op_sharding_rule<(.*?), custom>"


def test_the_rule_of_an_operation_cuts_rows_and_nothing_else(rng):
    robot = mb.example("arm")
    q, v = rng.standard_normal((2, 2, 3, robot.nv))
    function = partial(mb.coriolis_matrix, robot)

    def rules(batch):
        mapped = function
        for _ in range(batch):
            mapped = jax.vmap(mapped)
        given = q[(0,) * (2 - batch)], v[(0,) * (2 - batch)]
        return re.findall(RULE, jax.jit(mapped).lower(*given).as_text())

    assert rules(0) == []  # of one configuration
    assert rules(1) == [
        "([i, j], [i, k])->([i, l, m]) {i=3, j=6, k=6, l=6, m=6} need_replication={j, k, l, m}"
    ]
    assert rules(2)[0].startswith("([i, j, k], [i, j, l])->([i, j, m, n]) {i=2, j=3, ")


CUT = """
import re, sys
import jax, jax.numpy as jnp, numpy as np
from functools import partial
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from connections import multibody as mb

robot = mb.example(sys.argv[1])
rows, rng = 64, np.random.default_rng(0)
q = np.stack([robot.random(rng) for _ in range(rows)])
v, tau = rng.standard_normal((2, rows, robot.nv))
C, forward = partial(mb.coriolis_matrix, robot), partial(mb.forward_dynamics, robot)

def step(state, tau):
    q, v = state
    v = v + 0.01 * forward(q, v, tau)
    return (mb.displace(robot, q, 0.01 * v), v)

FUNCTIONS = {
    "C": lambda q, v, tau: jax.vmap(C)(q, v),
    "of rows": lambda q, v, tau: C(q, v),
    "one velocity": lambda q, v, tau: jax.vmap(C, (0, None))(q, jnp.ones(robot.nv)),
    "two axes": lambda q, v, tau: jax.vmap(lambda q: jax.vmap(lambda s: C(q, s * v[0]))(jnp.arange(3.0)))(q),
    "data": lambda q, v, tau: jax.vmap(
        lambda pi, *x: mb.inverse_dynamics(robot.with_inertial_parameters(pi), *x), (None, 0, 0, 0)
    )(1.1 * mb.inertial_parameters(robot), q, v, tau),
    "data of each": lambda q, v, tau: jax.vmap(
        lambda q, *x: mb.inverse_dynamics(
            robot.with_inertial_parameters((2.0 + q[0]) * mb.inertial_parameters(robot)), q, *x
        )
    )(q, v, tau),
    "derivatives": lambda q, v, tau: jax.vmap(jax.jacrev(forward, (1, 2)))(q, v, tau),
    "gradient": jax.grad(lambda q, v, tau: jnp.sum(jax.vmap(forward)(q, v, tau) ** 2)),
    "steps": lambda q, v, tau: jax.lax.fori_loop(0, 3, lambda _, s: jax.vmap(step)(s, tau), (q, v)),
}
if sys.argv[1] != "arm":
    FUNCTIONS = {name: FUNCTIONS[name] for name in ("C", "steps")}
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((4,), ("b",), axis_types=(kind,))
    given = [jax.device_put(x, NamedSharding(mesh, P("b"))) for x in (q, v, tau)]
    for name, function in FUNCTIONS.items():
        if kind is AxisType.Explicit and name in ("two axes", "steps"):
            continue  # there, JAX refuses v[0] of rows that are cut, and the scatters of `displace`
        alone = jax.jit(function)(q, v, tau)
        compiled = jax.jit(function).lower(*given).compile()
        text, found = compiled.as_text(), compiled(*given)
        for part, whole in zip(jax.tree.leaves(found), jax.tree.leaves(alone), strict=True):
            assert part.sharding.spec[0] == "b" and not any(part.sharding.spec[1:]), (kind, name)
            assert len(part.sharding.device_set) == 4
            round_off = 0.0 if name in ("C", "of rows") else 1e-13 * np.abs(whole).max()
            np.testing.assert_allclose(part, whole, rtol=0.0, atol=round_off, err_msg=name)
        assert "all-gather" not in text, (kind, name)
        calls = re.findall(r"f64\\[(\\d+),[^ ]* custom-call[^\\n]*connections_", text)
        assert calls and set(calls) == {"16"}, (kind, name, calls)
    outside = jax.vmap(C)(*given[:2])  # not in `jit`
    assert outside.sharding.spec[0] == "b"
    np.testing.assert_array_equal(outside, jax.vmap(C)(q, v))
"""


@pytest.mark.further
@pytest.mark.parametrize("robot", ["arm", "quadruped", "four_bar"])
def test_rows_stay_on_their_devices(robot):
    """In values, derivatives and loops: equal, nothing gathered, a quarter of the rows in each call."""
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    command = [sys.executable, "-c", CUT, robot]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
