"""Variational steps of closed chains: the discrete action at closed configurations, momenta, order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closed_chains import four_bar, legged_robot
from discrete_action import action, inertias, slopes
from mechanisms import armed
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import ClosureError, IntegrationError
from connections.multibody.definition.host_kinematics import body_motions
from connections.multibody.program.loop_stepping import stepping_of

H = 0.02
STEPS = {"method": "variational"}


@pytest.fixture(scope="module")
def legged():
    """A floating robot whose knee is driven through a four-bar; all joints have armature."""
    return armed(legged_robot(1).build(), np.random.default_rng(5))


@pytest.fixture(scope="module")
def linkage():
    """The crank makes full turns."""
    return four_bar().build()


def tree_of(model):
    """The spanning tree as a robot of its own."""
    return mb.Model.of(model.kinematics.spanning, model.gravity)


def test_a_step_is_stationary_for_the_action_at_closed_configurations(legged, rng):
    """P_k = -D_1 L_d - (h/2) tau and P_{k+1} = D_2 L_d + (h/2) tau; backwards it returns."""
    tree, q0 = tree_of(legged), legged.random(rng)
    v, tau = rng.normal(size=legged.nv), rng.normal(size=legged.nv)
    v[7] = 5.0  # of the crank

    def closed(_, a, b, h):
        return action(tree, *(mb.close_loops(legged, q).spanning for q in (a, b)), h)

    P0 = mb.discrete_momentum(legged, q0, mb.displace(legged, q0, H * v), H)
    q1, P1 = mb.variational_step(legged, q0, P0, H, tau)
    before, after = slopes(legged, q0, q1, H, action=closed)
    scale = np.abs(P0).max()
    np.testing.assert_allclose(before - 0.5 * H * tau, P0, atol=1e-8 * scale)
    np.testing.assert_allclose(after + 0.5 * H * tau, P1, atol=1e-8 * scale)
    assert np.abs(after - before).max() > 1e-2 * scale and np.abs(tau).max() * H > 1e-3

    def straight(_, a, b, h):  # control: dependent joints that follow the independent ones along G(q_0)
        G = legged.program.solution(q0).G
        home = mb.close_loops(legged, q0).spanning
        ends = (mb.displace(tree, home, G @ mb.difference(legged, q0, q)) for q in (a, b))
        return action(tree, *ends, h)

    wrong, _ = slopes(legged, q0, q1, H, action=straight)
    assert np.abs(wrong - before).max() > 1e-5 * scale
    q, P = mb.variational_step(legged, q1, P1, -H, tau)
    np.testing.assert_allclose(mb.difference(legged, q0, q), 0.0, atol=1e-13)
    np.testing.assert_allclose(P, P0, rtol=0.0, atol=1e-12 * scale)


def spatial_momentum(model, q, v):
    """(R n + p x R f, R f) of the base's rows (n, f) of H v, by Jacobians in NumPy; no armature."""
    q_s, G, _ = model.program.solution(q)
    A = body_motions(model.kinematics.spanning, q_s, G)[0]
    P = np.einsum("bij,bik,bkl,l->j", A, inertias(tree_of(model)), A, v)
    R = Rotation.from_quat(q[3:7]).as_matrix()
    return np.concatenate([R @ P[:3] + np.cross(q[:3], R @ P[3:6]), R @ P[3:6]])


def test_the_spatial_momentum_of_a_floating_loop_is_round_off(rng):
    plan = legged_robot(1)
    plan.gravity = (0.0, 0.0, 0.0)
    model = plan.build()
    q0, v0 = model.random(rng), 0.5 * rng.normal(size=model.nv)
    v0[6:] = 0.3, -0.2, 2.0
    motion = model.system().simulate(q0, v0, np.linspace(0.0, 10.0, 6), step=H, **STEPS)
    found = np.array([spatial_momentum(model, q, v) for q, v in zip(motion.q, motion.v, strict=True)])
    lengths = np.maximum(np.linalg.norm(motion.q[:, :3], axis=1), 1.0)[:, None]
    np.testing.assert_array_less(np.abs(found - found[0]) / lengths, 1e-12 * np.abs(found[0]).max())
    assert np.ptp(motion.v[:, :6], axis=0).min() > 1e-2  # control: the base's own velocities are not constant
    assert 1e-6 < motion.drift.max() < 1e-2


def test_orders_and_energy_of_a_linkage(linkage):
    """Differences between steps of h, h/2, h/4 fall by 4 and by 16; the energy has a band and no trend."""
    q0, v0 = np.array([0.8]), np.array([3.0])
    for order, expected in ((2, 2.0), (4, 4.0)):
        ends = [
            linkage.system().simulate(q0, v0, [0.0, 0.2], step=h, order=order, **STEPS)
            for h in (0.02, 0.01, 0.005)
        ]
        gaps = [
            np.abs(np.append(a.q[-1] - b.q[-1], a.v[-1] - b.v[-1])).max()
            for a, b in zip(ends[:-1], ends[1:], strict=True)
        ]
        assert np.log2(gaps[0] / gaps[1]) == pytest.approx(expected, abs=0.1)
    motion = linkage.system().simulate(q0, [0.0], np.arange(0.0, 40.0, 0.02), step=H, **STEPS)
    assert np.abs(motion.q).max() < 2.0 * np.pi and np.count_nonzero(np.diff(np.sign(motion.v[:, 0]))) > 20
    band = np.array([part.max() for part in np.array_split(motion.drift, 5)])
    assert 1e-6 < band.max() < 1e-2
    np.testing.assert_allclose(band, band[0], rtol=0.05)


def test_newtons_matrix_of_loops_is_exact(linkage):
    """At 5 ms two Newton steps on average at most; without the slope of G they would be many."""
    y = np.array([[0.8, float(mb.mass_matrix(linkage, [0.8])[0, 0] * 3.0)]])
    found = stepping_of(linkage)(y, np.zeros((1, 2)), np.ones(1), 0.005, 100)
    assert found.why[0] == 0 and found.steps[0] == 100
    assert found.last[0] <= 2.0 * 100


def test_newtons_matrix_is_the_slope_of_the_momenta(legged, rng):
    """Of the spanning tree, along G at the end of a step, by differences."""
    steps, tree = stepping_of(legged), tree_of(legged)
    q0 = legged.random(rng)
    here = steps._place(q0)
    there = steps._place(mb.displace(legged, q0, 0.1 * rng.normal(size=legged.nv)))
    found, e = steps._tree(here, there, H, there.G).change, 1e-5
    for column, g in zip(found.T, there.G.T, strict=True):
        ends = [there._replace(spanning=mb.displace(tree, there.spanning, x * g)) for x in (e, -e)]
        plus, minus = (steps._tree(here, end, H).momentum for end in ends)
        np.testing.assert_allclose((plus - minus) / (2.0 * e), column, atol=2e-3 * np.abs(found).max())


def test_a_geared_rotor_is_armature():
    """A linear coupling: a rotor of inertia I that turns k times as fast, and I k^2 at the joint; damped."""

    def pendulum(geared):
        mechanism, hinge = mb.Mechanism(), mb.Revolute((0.0, 1.0, 0.0))
        mechanism.add_body("rod", 1.0, (0.1, 0.0, -0.5), np.diag([0.1, 0.1, 0.01]))
        mechanism.add_joint("joint", "world", "rod", hinge, armature=0.0 if geared else 36.0 * 0.01)
        if geared:
            mechanism.add_body("rotor", 0.2, inertia=0.01 * np.eye(3))
            mechanism.add_joint("motor", "world", "rotor", hinge)
            mechanism.add_coupling("gear", {"joint": 6.0, "motor": -1.0}, independent=["joint"])
        return mechanism.build().system()

    def damping(t, q, v):
        return np.sin(3.0 * t) - 0.2 * v

    motions = [
        pendulum(geared).simulate([0.3], [2.0], [0.0, 0.2, 1.0], damping, step=0.05, **STEPS)
        for geared in (True, False)
    ]
    np.testing.assert_allclose(motions[0].q, motions[1].q, rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(motions[0].v, motions[1].v, rtol=0.0, atol=1e-12)


def test_where_loops_end_is_named(linkage):
    """The rocker swings between two ends, beyond which no configuration closes the loop."""
    by_rocker = linkage.with_independent(["bar rocker"])
    q0 = by_rocker.neutral()
    with pytest.raises(ClosureError, match="loop 'bar' cannot close at q"):
        mb.variational_step(by_rocker, q0 + 3.0, [0.0], 0.01)
    with pytest.raises(IntegrationError, match=r"variational_step: loops do not close where it leads in a"):
        mb.variational_step(by_rocker, q0, mb.mass_matrix(by_rocker, q0)[0] * 20.0, 0.05)


@pytest.mark.further
def test_motions_are_those_of_dop853(legged, rng):
    """All of it beside the other method, under a control; order two."""
    q0, v0 = legged.random(rng), 0.5 * rng.normal(size=legged.nv)

    def control(t, q, v):
        return -0.3 * v + np.sin(3.0 * t)

    exact, errors = legged.system().simulate(q0, v0, [0.0, 0.1], control), []
    for h in (0.01, 0.005):
        found = legged.system().simulate(q0, v0, [0.0, 0.1], control, step=h, **STEPS)
        gap = mb.difference(legged, exact.q[-1], found.q[-1]), exact.v[-1] - found.v[-1]
        errors.append(np.abs(np.append(*gap)).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.2)


@pytest.mark.further
def test_inside_jit_steps_are_those_of_the_definition(linkage):
    """The action's derivatives in JAX, by the loops' implicit ones; gradients through a motion."""
    system, times = linkage.system(), [0.0, 0.1, 0.2]

    def motion(v):
        return system.simulate(np.array([0.8]), v, times, step=0.05, **STEPS)

    here, inside = motion(np.array([3.0])), jax.jit(motion)(jnp.array([3.0]))
    np.testing.assert_allclose(inside.q, here.q, atol=1e-12)
    np.testing.assert_allclose(inside.v, here.v, atol=1e-11)
    np.testing.assert_allclose(inside.drift, here.drift, atol=1e-11)
    slope = jax.jit(jax.jacfwd(lambda v: motion(v).v[-1]))(jnp.array([3.0]))
    e = 1e-5
    by_differences = (motion(np.array([3.0 + e])).v[-1] - motion(np.array([3.0 - e])).v[-1]) / (2.0 * e)
    np.testing.assert_allclose(slope[:, 0], by_differences, atol=1e-7)
