"""Variational steps of closed chains: the discrete action at closed configurations, momenta, order."""

import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closed_chains import four_bar, legged_robot, stewart_platform
from discrete_action import action, inertias, slopes
from mechanisms import armed
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import ClosureError, IntegrationError, PointError
from connections.coriolis.variational import OPEN
from connections.engines import thread_chunks
from connections.engines.workspaces import Workspaces
from connections.multibody.definition.host_kinematics import body_motions
from connections.multibody.kernels.layout import CLOSURE
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.loop_stepping import LoopSteps, stepping_of
from connections.multibody.program.stepping import history_size, stepped

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


def closed_action(model):
    """The discrete action of the spanning tree, at configurations at which the loops close."""
    tree = tree_of(model)
    return lambda _, a, b, h: action(tree, *(mb.close_loops(model, q).spanning for q in (a, b)), h)


def test_a_step_is_stationary_for_the_action_at_closed_configurations(legged, rng):
    """P_k = -D_1 L_d - (h/2) tau and P_{k+1} = D_2 L_d + (h/2) tau; backwards it returns."""
    tree, q0, closed = tree_of(legged), legged.random(rng), closed_action(legged)
    v, tau = rng.normal(size=legged.nv), rng.normal(size=legged.nv)
    v[7] = 5.0  # of the crank

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
    tree, q0 = tree_of(legged), legged.random(rng)
    here, there = (
        mb.close_loops(legged, q) for q in (q0, mb.displace(legged, q0, 0.1 * rng.normal(size=legged.nv)))
    )
    G, y = legged.program.solution(there).G, np.append(here.spanning, np.zeros(tree.nv))[None]
    for g in G.T:
        along, ahead = np.append(g, np.zeros(tree.nv))[None], np.zeros((1, history_size(tree.nv)))
        ahead[0, : tree.nq] = there.spanning
        found = stepped(tree, y, along, np.ones(1), H, -1, ahead).guess[0, : tree.nv]
        ends = (mb.displace(tree, there.spanning, x * g) for x in (1e-5, -1e-5))
        plus, minus = (mb.discrete_momentum(tree, here.spanning, end, H) for end in ends)
        np.testing.assert_allclose((plus - minus) / 2e-5, found, atol=2e-3 * np.abs(found).max())


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


def test_the_discrete_momentum_of_half_a_turn_of_a_crank(linkage):
    """Just under half a turn it is by the sums of the bodies; beyond, an error, and NaN inside of JAX."""
    q0, h = np.array([0.8]), 0.5
    inside = jax.jit(jax.vmap(lambda q1: mb.discrete_momentum(linkage, q0, q1, h)))
    ways = np.array([[1.0], [3.2], [7.0], [13.0]])
    found = inside(q0 + ways)
    outside = mb.discrete_momentum(linkage, q0, q0 + 1.0, h)
    before = slopes(linkage, q0, q0 + 1.0, h, action=closed_action(linkage))[0] - 0.5 * h * mb.gravity(
        linkage, q0
    )
    np.testing.assert_allclose(outside, before, rtol=1e-6)
    np.testing.assert_allclose(found[0], outside, rtol=1e-12)
    assert np.isnan(found[1:]).all()
    for way in ways[1:]:
        with pytest.raises(
            PointError, match="q1: a body or the angle of a joint turns by half a turn or more"
        ):
            mb.discrete_momentum(linkage, q0, q0 + way, h)


def test_a_crank_that_is_driven_fast_is_followed_or_refused(linkage):
    """Twelve motions of steps of 0.1 s, to 20 rad/s, beside DOP853."""
    system, h, refused, steps = linkage.system(), 0.1, 0, 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        q, v = rng.uniform(-3.0, 3.0, 1), rng.normal(size=1) * (10.0 if seed % 2 else 20.0)
        try:
            motion = system.simulate(q, v, np.arange(21) * h, step=h, **STEPS)
        except IntegrationError as error:
            motion, refused = error.motion, refused + 1
        if motion is not None and len(motion.times) > 1:
            ends = system.simulate(motion.q[:-1], motion.v[:-1], [0.0, h]).q[:, 1]
            assert np.abs(ends - motion.q[1:]).max() < 0.5, seed
            steps += len(ends)
    assert steps > 50 and refused > 3


def test_a_free_body_that_loops_hold_has_no_momentum_of_its_own(rng):
    """The legs of a platform push it. P_{k+1} is that of the way back, and of tau."""
    plan = stewart_platform()
    plan.gravity = (0.0, 0.0, 0.0)
    model = plan.build()
    q0, tau = model.neutral(), 0.1 * rng.normal(size=model.nv)
    P0 = mb.discrete_momentum(model, q0, mb.displace(model, q0, H * 0.3 * rng.normal(size=6)), H)
    q1, P1 = mb.variational_step(model, q0, P0, H, tau)
    back = mb.discrete_momentum(model, q1, q0, -H)
    np.testing.assert_allclose(back + 0.5 * H * tau, P1, rtol=0.0, atol=1e-11 * np.abs(P1).max())
    turned = Rotation.from_quat(q1[3:]).inv() * Rotation.from_quat(q0[3:])
    free = turned.apply(P0[3:]) + H * tau[3:]  # control
    assert np.abs(free - P1[3:]).max() > 1e-3 * np.abs(P1).max()


class Asking:
    """The solver of a robot's loops; its copies for the kernel say that users' functions close them."""

    def __init__(self, loops):
        self._loops, numbers = loops, loops.closure.copy()
        numbers.view(np.int64)[CLOSURE.sizes.index("functions")] = 1
        self.copies, self.layout, self.size, self.asked = (
            Workspaces(numbers.copy),
            loops.layout,
            loops.size,
            0,
        )

    def solve(self, q, *start):
        self.asked += len(start)
        return self._loops.solve(q, *start)


def test_solutions_that_are_asked_for_make_the_same_steps(linkage):
    """As of users' functions, of loops nearly singular, and across crossing branches; also where one ends."""
    y, none, shares = np.array([[0.8, 0.5], [1.9, -0.4]]), np.zeros((2, 2)), np.array([0.4, 0.6])
    expected, steps = stepping_of(linkage)(y, none, shares, H, 4), stepping_of(linkage)
    steps._loops = Asking(steps._loops)
    found = steps(y, none, shares, H, 4)
    assert steps._loops.asked > 2 * 2 * 4
    assert found.steps.tolist() == [4, 4] and found.last.tolist() == expected.last.tolist()
    for name in ("q", "P", "guess", "why"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0.0, atol=1e-12)
    by_rocker = linkage.with_independent(["bar rocker"])
    steps, q0 = stepping_of(by_rocker), by_rocker.neutral()
    steps._loops = Asking(steps._loops)
    fast = np.append(q0, 20.0 * mb.mass_matrix(by_rocker, q0)[0])[None]
    assert steps(fast, none[:1], np.ones(1), 0.05, 1).why[0] == OPEN


@pytest.mark.parametrize("loop", [True, False])
def test_each_thread_has_workspaces_of_its_own(linkage, loop, monkeypatch):
    """While a thread steps through rows, no other one works in its memory; rows are those of one thread."""
    model = linkage if loop else tree_of(linkage)
    q, P = np.linspace(0.5, 1.0, 300)[:, None] * np.ones(model.nq), np.full((300, model.nv), 0.3)
    alone = stepping_of(model)(np.hstack([q, P])[::50], np.zeros((6, 2 * model.nv)), np.ones(1), H, 1)
    name, lock = "loop_steps_rows" if loop else "variational_rows", threading.Lock()
    function, busy, shared, most = compiled.require(name), [], [], []

    def watched(*arguments):
        own = [memory.ctypes.data for memory in arguments[: 2 if loop else 1]]
        with lock:
            shared.extend(set(own) & set(busy))
            busy.extend(own)
            most.append(len(busy) // len(own))
        time.sleep(2e-3)
        good = function(*arguments)
        with lock:
            for address in own:
                busy.remove(address)
        return good

    monkeypatch.setitem(vars(compiled), name, watched)
    monkeypatch.setattr(thread_chunks, "WORTH_A_THREAD", 0.0)
    monkeypatch.setattr(thread_chunks, "get_num_threads", lambda: 2)
    many = stepping_of(model)(np.hstack([q, P]), np.zeros((300, 2 * model.nv)), np.ones(1), H, 1)
    assert not shared and max(most) == 2
    np.testing.assert_array_equal(many.q[::50], alone.q)
    np.testing.assert_array_equal(many.P[::50], alone.P)


def test_only_revolute_joints_may_differ_by_turns():
    """A sliding joint that is 2 pi m off is at another place, and so is a screw after a turn."""
    turn, z = 2.0 * np.pi, (0.0, 0.0, 1.0)
    for joint, same in ((mb.Revolute(z), True), (mb.Helical(z, 0.1), False), (mb.Prismatic(z), False)):
        mechanism = mb.Mechanism()
        for name in ("one", "other"):
            mechanism.add_body(name, 1.0)
            mechanism.add_joint(f"to {name}", "world", name, joint)
        mechanism.add_coupling("equal", {"to one": 1.0, "to other": -1.0}, independent=["to one"])
        steps = LoopSteps(mechanism.build())
        q_s = np.array([0.3, 0.3])
        assert steps._are_same(q_s, q_s + 1e-9)
        assert not steps._are_same(q_s, q_s + np.array([0.0, 1e-3]))
        assert steps._are_same(q_s, q_s + np.array([0.0, turn])) == same


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
