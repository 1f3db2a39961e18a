"""What free motions of robots conserve is compared on the way: the energy under gravity, <v, v> of geodesics.

The oracle is the energy by the definition in JAX, which shares no code with the recursions. Loops, batches,
torsion that does no work, bodies without mass, and `jit`; and motions that do not conserve it.
"""

import jax
import numpy as np
import pytest
from cases import always, further

from connections import geodesic
from connections import multibody as mb
from connections.checks import IntegrationError
from connections.multibody.as_geometry.host_robot import HostRobot
from connections.multibody.as_geometry.robot_system import RobotSystem

TIMES = np.linspace(0.0, 1.0, 6)
LOOSE = {"rtol": 1e-6, "atol": 1e-6}  # so that there is a drift to see
ROBOTS = ("arm", "quadruped", "four_bar")


def start(name, rng, *batch):
    model = mb.example(name)
    q = np.broadcast_to(model.neutral(), (*batch, model.nq))
    return model, q, 2.0 * rng.standard_normal((*batch, model.nv))


def drift_of(model, motion, potential=True):
    """By the definition; its scale is the largest kinetic energy at requested times, or more between them."""
    system = model.definition.system
    total, height = system.energy(motion.q, motion.v), system.energy(motion.q, 0.0 * motion.v)
    kinetic = total - height
    E = kinetic + potential * height
    largest = np.maximum.accumulate(kinetic + potential * 1e-6 * np.abs(height), axis=-1)
    return np.abs(E - E[..., :1]) / largest


@pytest.mark.parametrize("batch", [further(()), (3,)])
@pytest.mark.parametrize("name", always(ROBOTS, "arm"))
def test_the_energy_under_gravity(name, batch, rng):
    model, q, v = start(name, rng, *batch)
    motion = model.system().simulate(q, v, TIMES, **LOOSE)
    assert motion.drift.shape == (*batch, 6) and (motion.drift[..., 0] == 0.0).all()
    expected = drift_of(model, motion)
    assert 1e-11 < expected.max() < 1e-3
    assert (motion.drift <= expected * (1.0 + 1e-6) + 1e-12).all()  # the scale may be larger between them
    assert (motion.drift >= 0.2 * expected - 1e-12).all()


@pytest.mark.further
@pytest.mark.parametrize("name", always(ROBOTS, "four_bar"))
def test_the_square_of_the_velocity_along_geodesics(name, rng):
    model, q, v = start(name, rng)
    motion = geodesic(model.connection, q, v, TIMES, **LOOSE)
    expected = drift_of(model, motion, potential=False)
    assert expected.max() > 1e-12
    np.testing.assert_allclose(motion.drift, expected, rtol=0.2, atol=1e-13)


@pytest.mark.further
def test_inside_jit(rng):
    model, q, v = start("arm", rng)
    system = model.system()
    motion = jax.jit(lambda q, v: system.simulate(q, v, TIMES, **LOOSE))(q, v)
    expected = drift_of(model, motion)
    assert expected.max() > 1e-11
    np.testing.assert_allclose(motion.drift, expected, rtol=0.2, atol=1e-12)


def test_torsion_does_no_work(rng):
    model, q, v = start("arm", rng)
    beta = rng.standard_normal(model.nv * (model.nv - 1) * (model.nv - 2) // 6)
    for system in (model.system(gamma=1.0), model.system(beta=beta)):
        assert system.simulate(q, v, TIMES).drift.max() < 1e-8


def test_bodies_without_mass():
    """A flywheel that has an inertia only: there is no centre of mass, and nothing falls."""
    mechanism = mb.Mechanism()
    mechanism.add_body("wheel", mass=0.0, inertia=np.diag([1.0, 2.0, 3.0]))
    mechanism.add_joint("axle", "world", "wheel", mb.Spherical())
    system = mechanism.build().system()
    motion = system.simulate([0.0, 0.0, 0.0, 1.0], [1.0, 0.3, 0.2], TIMES)
    assert motion.drift.max() < 1e-9
    inside = jax.jit(lambda v: system.simulate([0.0, 0.0, 0.0, 1.0], v, TIMES).drift)
    assert inside(np.array([1.0, 0.3, 0.2])).max() < 1e-9


def test_from_rest_to_rest():
    """Five periods of a pendulum, far from the world's origin: at both ends it has no kinetic energy."""
    mechanism = mb.Mechanism()
    mechanism.add_body("bob", 1.0, (0.0, 0.0, -0.5), np.diag([0.1, 0.1, 0.1]))
    place = np.eye(4)
    place[:3, 3] = 300.0, -200.0, 1000.0
    mechanism.add_joint("swing", "world", "bob", mb.Revolute((0, 1, 0)), place)
    system, rate = mechanism.build().system(), np.sqrt(9.81 * 0.5 / (0.1 + 0.25))
    end = 10.0 * np.pi / rate * (1.0 + 0.02**2 / 16.0)
    motion = system.simulate([0.02], [0.0], [0.0, end])
    np.testing.assert_allclose(motion.q[-1], [0.02], rtol=1e-6)
    assert motion.drift[-1] < 1e-8


@pytest.mark.parametrize("batch", [(), (2,)])
def test_an_energy_that_drifts_is_refused(batch, rng, monkeypatch):
    """A fault: gravity in the energy is not that of the motion."""
    model, q, v = start("arm", rng, *batch)
    own = HostRobot.potential
    monkeypatch.setattr(HostRobot, "potential", lambda self, q: 0.9 * own(self, q))
    with pytest.raises(IntegrationError, match=r"the energy is conserved, and has changed") as caught:
        model.system().simulate(q, v, TIMES)
    kept = caught.value.motion
    first = kept.q if batch else kept.q[None]
    assert np.isfinite(first[:, 0]).all() and np.isnan(first[:, 1:]).all()
    partial = model.system().simulate(q, v, TIMES, allow_partial=True)
    assert np.isfinite(partial.q[..., 0, :]).all() and np.isnan(partial.q[..., 1:, :]).all()
    assert np.isnan(partial.drift[..., 1:]).all()


def test_inside_jit_it_is_nan(rng, monkeypatch):
    model, q, v = start("arm", rng)
    model = model.with_gravity((0.4, 0.0, -9.0))  # systems of equal robots share what JAX has traced
    own = RobotSystem._height_at
    monkeypatch.setattr(RobotSystem, "_height_at", lambda self, q: 0.9 * own(self, q))
    system = model.system()
    found = jax.jit(lambda q: system.simulate(q, v, TIMES).q)(q)
    assert np.isfinite(found[0]).all() and np.isnan(found[1:]).all()


@pytest.mark.further
def test_no_check_where_it_is_not_conserved(rng):
    """Damping, a control of time, in a tree and in loops."""
    for name in ("arm", "four_bar"):
        model, q, v = start(name, rng)
        for control in (
            lambda t, q, v: -0.5 * v,
            lambda t, q, v, n=model.nv: np.sin(3.0 * t) * np.ones(n),
        ):
            motion = model.system().simulate(q, v, TIMES, control)
            assert motion.drift is None and drift_of(model, motion).max() > 1e-3
