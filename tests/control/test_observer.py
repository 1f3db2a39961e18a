"""The momentum observer: first-order convergence, the same for every admissible C, biased by others."""

import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections.checks import FrameError, NonFiniteError, ShapeError
from connections.control import MomentumObserver
from connections.control.errors import GainError

PUSH, RATES = np.array([0.7, -0.4, 1.1]), np.array([2.0, 3.0, 5.0])
TIMES = np.linspace(0.0, 3.0, 31)
START, START_VELOCITY = np.array([0.4, -0.3, 0.2]), np.array([0.5, -1.0, 0.8])


def control(t, q, v):
    return jnp.stack([jnp.sin(t), -v[1], 0.3 * q[0]])


def pushed(system):
    return cn.MechanicalSystem(system.metric, system.potential, lambda t, q, v: jnp.asarray(PUSH))


@pytest.mark.parametrize("name", ["curved", "body"])
def test_residual_follows_a_constant_force_with_its_time_constant(name, request):
    system = request.getfixturevalue(name)
    q0 = START if name == "curved" else np.array([0.0, 0.6, 0.0, 0.8])
    motion = MomentumObserver(system, RATES).simulate(pushed(system), q0, START_VELOCITY, TIMES, control)
    expected = PUSH * (1.0 - np.exp(-np.outer(TIMES, RATES)))
    np.testing.assert_allclose(motion.residual, expected, atol=1e-7)


def wind(t, q, v):
    """A force that is known, and depends on time."""
    return -0.5 * v + jnp.stack([jnp.sin(2.0 * t), 0.0 * t, jnp.cos(t)])


def test_known_forces_are_taken_off_at_their_time(curved):
    """Control: without them, what is left of the residual is not the unknown force."""
    plant = cn.MechanicalSystem(curved.metric, curved.potential, lambda t, q, v: wind(t, q, v) + PUSH)
    expected = PUSH * (1.0 - np.exp(-4.0 * TIMES[-1]))
    for forces, known in ((wind, True), (None, False)):
        model = cn.MechanicalSystem(curved.metric, curved.potential, forces)
        r = MomentumObserver(model, 4.0).simulate(plant, START, START_VELOCITY, TIMES).residual
        assert (float(np.abs(r[-1] - expected).max()) < 1e-7) is known


def transposed(system, q, v):
    """C^T v by the rate of the momentum."""
    return system.momentum_rate(q, v) + system.gravity(q)


def test_every_admissible_connection_gives_the_same_product(
    curved, curved_with_torsion, curved_inadmissible, rng
):
    q, v = rng.normal(size=(2, 8, 3))
    product = transposed(curved, q, v)
    matrix = np.swapaxes(np.asarray(curved.coriolis_matrix(q, v)), 1, 2)
    np.testing.assert_allclose(product, np.einsum("bij,bj->bi", matrix, v), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(transposed(curved_with_torsion, q, v), product, rtol=1e-10, atol=1e-10)
    assert np.linalg.norm(transposed(curved_inadmissible, q, v) - product) > 1e-2


def test_an_inadmissible_connection_biases_the_residual(curved, curved_with_torsion, curved_inadmissible):
    settled = {}
    for name, system in (("torsion", curved_with_torsion), ("bad", curved_inadmissible)):
        observer = MomentumObserver(curved, 8.0, system.connection)
        motion = observer.simulate(pushed(curved), START, START_VELOCITY, TIMES, control)
        settled[name] = np.linalg.norm(motion.residual[-1] - PUSH)
    assert settled["torsion"] < 1e-6 < 1e-2 < settled["bad"]


def test_residual_of_a_batch_and_its_definition(curved, rng):
    q, v, z = rng.normal(size=(3, 4, 3))
    observer = MomentumObserver(pushed(curved), RATES)
    r, rate = observer.residual(q, v, z), observer.state_rate(q, v, 0.5 * v, z)
    H = np.asarray(curved.mass_matrix(q))
    np.testing.assert_allclose(r, RATES * (np.einsum("bij,bj->bi", H, v) - z), rtol=1e-12)
    expected = 0.5 * v + transposed(curved, q, v) - curved.gravity(q) + PUSH + r  # the model's force is known
    np.testing.assert_allclose(rate, expected, rtol=1e-11, atol=1e-11)
    windy = MomentumObserver(cn.MechanicalSystem(curved.metric, curved.potential, wind), RATES)
    late, early = (windy.state_rate(q, v, 0.5 * v, z, t) for t in (1.3, 0.4))
    change = wind(1.3, q[0], 0.0 * q[0]) - wind(0.4, q[0], 0.0 * q[0])
    np.testing.assert_allclose(late - early, np.tile(change, (4, 1)), rtol=1e-9)


def test_bad_input_is_named(curved, body):
    observer = MomentumObserver(curved, 1.0)
    with pytest.raises(GainError, match="gain K"):
        MomentumObserver(curved, [1.0, 0.0, 1.0])
    with pytest.raises(NonFiniteError, match="gain K"):
        MomentumObserver(curved, np.nan)
    with pytest.raises(FrameError, match="plant"):
        observer.simulate(body, START, START, TIMES)
    with pytest.raises(ShapeError, match="control"):
        observer.simulate(curved, START, START, TIMES, lambda t, q, v: v[:2])
    with pytest.raises(ShapeError, match="q0"):
        observer.simulate(curved, np.zeros(4), START, TIMES)
    with pytest.raises(ShapeError, match="z"):
        observer.residual(START, START, np.zeros(2))
