"""Conditions and poses on the host, by the loops' kernel, against the definition in JAX and differences."""

import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from closed_chains import PLANS

from connections.multibody.definition.host_kinematics import moved
from connections.multibody.program.closure_conditions import HostConditions


@pytest.fixture(scope="module")
def models():
    built = {}

    def model(name):
        if name not in built:
            built[name] = PLANS[name]().build()
        return built[name]

    return model


def near(closed, rng):
    """A spanning configuration near the reference, in which the loops are open."""
    return moved(closed.spanning, closed.reference, rng.uniform(-0.2, 0.2, closed.spanning.nv))


@pytest.mark.parametrize("name", always(PLANS, *list(PLANS)[::4]))
def test_conditions_are_those_of_the_definition(name, models, rng):
    closed = models(name).kinematics
    if not closed.implicit_clusters.any():
        return
    q = near(closed, rng)
    phi, K = HostConditions(closed.spanning, closed.loops.rows, closed.functions).at(q)
    expected, of_columns = closed.loops.conditions_at(jnp.asarray(q))
    columns = np.concatenate([closed.loops.dependent, closed.loops.independent])
    np.testing.assert_allclose(phi, expected, atol=1e-13)
    np.testing.assert_allclose(K[:, columns], of_columns, atol=1e-13)
    assert np.abs(phi).max() > 1e-4


@pytest.mark.parametrize("name", PLANS)
def test_derivatives_are_those_of_differences(name, models, rng):
    """Of all conditions, linear ones included; velocities of other clusters do not change them."""
    closed, step = models(name).kinematics, 1e-6
    conditions, q = HostConditions(closed.spanning, closed.rows, closed.functions), near(closed, rng)
    K = conditions.at(q)[1]
    for s, direction in enumerate(np.eye(closed.spanning.nv)):
        ahead, behind = (
            conditions.at(moved(closed.spanning, q, sign * step * direction))[0] for sign in (1, -1)
        )
        np.testing.assert_allclose((ahead - behind) / (2.0 * step), K[:, s], atol=1e-8)


@pytest.mark.further
@pytest.mark.parametrize("name", PLANS)
def test_poses_are_those_of_forward_kinematics(name, models, rng):
    closed = models(name).kinematics
    q = near(closed, rng)
    placed = HostConditions(closed.spanning, closed.rows).placed(q)
    expected = closed.spanning.world_transforms_at(jnp.asarray(q))
    np.testing.assert_allclose(placed.transforms[:-1], expected, atol=1e-14)
    np.testing.assert_array_equal(placed.transforms[-1], np.eye(4))
