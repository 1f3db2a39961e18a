"""Steps of a tree's free motion and of transport in compiled code, against steps by their rates in NumPy."""

import jax
import numpy as np
import pytest
from mechanisms import MOVING, mechanism_of_all_pairs, pairs_of, random_mechanism, sample

import connections as cn
from connections import multibody as mb
from connections.affine.motions.host_motions import HostMotion
from connections.affine.motions.jax_motions import HostMotions
from connections.engines.arguments import InputRefused
from connections.engines.inlined.simd import LANES
from connections.integration.dop853 import C
from connections.integration.driver import follow
from connections.integration.solver import Settings
from connections.integration.steps import numpy_attempt
from connections.integration.tolerances import StateLayout, with_error_ratios
from connections.multibody.as_geometry import host_robot
from connections.multibody.as_geometry.host_robot import HostRobot

T0, T, H = 0.2, -0.5, -0.005  # backwards
GRAVITIES = [(1.0, 2.0, -9.81), (0.0, 0.0, 0.0)]

pytestmark = pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")


def rows(motion, q, v):
    """The rows of a step from 1.01 (q, v), where the quaternions are not of norm one."""
    given, y, _, _ = motion.start(q, v)
    attempt, y = motion.attempt(T0, y, given), 1.01 * y
    return attempt(T, H, y, attempt(T, 0.0, y, np.zeros_like(y))[1])


def largest_difference(ours, others, nq):
    """Of two steps, by rows, and q and v each by itself; an error's terms are as large as the rates."""
    ours, others = ours[:5], others[:5]  # what is conserved is known to compiled steps only
    scales = others[[0, 1, 1, 1, 4]]
    return max(
        np.max(np.max(np.abs(ours - others)[:, part], axis=1) / np.max(np.abs(scales[:, part]), axis=1))
        for part in (slice(nq), slice(nq, None))
    )


@pytest.mark.parametrize("gravity", GRAVITIES)
def test_it_is_the_step_by_its_rates(rng, gravity, monkeypatch):
    model = mechanism_of_all_pairs(rng, gravity=gravity)
    assert len(pairs_of(model)) == len(MOVING) ** 2
    host = HostRobot(model.kinematics, model.program)
    by_rates = HostMotion(host, lambda t, q, v, out: host.free_acceleration(q, v, out))
    q, v = sample(model, rng)
    expected = rows(by_rates, q, v)
    assert largest_difference(rows(host.free_motion(), q, v), expected, model.nq) < 1e-11

    for place, size in (((7, 3), 1e-6), ((-1, 5), 1e-9)):  # a weight of a stage, and of an error
        wrong = host_robot._WEIGHTS.copy()
        wrong[place] += size
        with monkeypatch.context() as context:
            context.setattr(host_robot, "_WEIGHTS", wrong)
            assert largest_difference(rows(host.free_motion(), q, v), expected, model.nq) > 1e-10


@pytest.mark.parametrize("gravity", GRAVITIES)
def test_steps_of_rows_are_those_of_each(rng, gravity, monkeypatch):
    """Of all rows in one call, each with its own length and time; the last registers are not full."""
    model = mechanism_of_all_pairs(rng, gravity=gravity)
    motion = HostRobot(model.kinematics, model.program).free_motion()
    q, v = sample(model, rng, 2 * LANES + 3)
    given, y, _, _ = motion.start_rows(q, v)
    y, s, h = 1.01 * y, rng.uniform(-1.0, 1.0, len(y)), rng.uniform(-0.01, 0.01, len(y))

    def each():
        attempts = [motion.attempt(T0, *row) for row in zip(y, zip(*given, strict=True), strict=True)]
        first = [at(*row, np.zeros_like(row[2]))[1] for at, *row in zip(attempts, s, 0 * h, y, strict=True)]
        return [at(*row) for at, *row in zip(attempts, s, h, y, first, strict=True)], np.stack(first)

    expected, first = each()
    found = motion.steps(h, y, first)
    assert all(largest_difference(found[:, row], one, model.nq) < 1e-11 for row, one in enumerate(expected))
    for wrong in ({"h": h + 1e-8}, {"rate": first + 1e-8}):
        given = {"h": h, "rate": first} | wrong
        others = motion.steps(given["h"], y, given["rate"])
        assert largest_difference(others[:, -1], expected[-1], model.nq) > 1e-11
    for place, value in ((0, np.nan), (-1, np.inf)):
        bad = y.copy()
        bad[3, place] = value
        others = motion.steps(h, bad, first)
        assert np.isnan(others[:, 3]).all()
        np.testing.assert_array_equal(np.delete(others, 3, axis=1), np.delete(found, 3, axis=1))


def test_the_kinetic_energy_of_a_step(rng):
    """v^T H v at the end of a step, of one and of rows; it is not that of another velocity."""
    model = mechanism_of_all_pairs(rng, gravity=(0.0, 0.0, 0.0))
    host = HostRobot(model.kinematics, model.program)
    motion, (q, v) = host.free_motion(), sample(model, rng, 3)
    given, y, _, _ = motion.start_rows(q, v)
    found = motion.steps(np.full(3, 1e-3), y, np.zeros_like(y))
    one = motion.attempt(0.0, y[1], tuple(part[1] for part in given))(0.0, 1e-3, y[1], np.zeros_like(y[1]))
    np.testing.assert_allclose(one[5], found[5, 1], rtol=1e-12)
    for row in range(3):
        end, w = host.normalized(found[0, row, : model.nq]), found[0, row, model.nq :]
        expected = w @ mb.mass_matrix(model, end) @ w
        np.testing.assert_allclose(found[5, row, [0, -1]], expected, rtol=1e-11)
        assert abs(expected - v[row] @ mb.mass_matrix(model, end) @ v[row]) > 1e-9 * expected


def test_steps_are_judged_alike_by_compiled_code_and_by_numpy(rng):
    """At random states, those of zero length and those that leave rest included; a wrong unit is noticed."""
    host, k, w, points = mb.example("arm").connection.host, 7, 5, 3
    found, state = rng.normal(size=(6, w, k)), np.abs(rng.normal(size=(6, w, k)))
    found[2:4] *= 1e-9
    found[4] = np.abs(found[4])
    found[4, 0, 0], found[2, 3, 5] = 0.0, np.nan
    scales, lengths = np.abs(rng.normal(size=(2, w, k))), np.abs(rng.normal(size=(w, 3)))
    lengths[1, 1] = 0.0
    lengths[:, 2] *= [0.0, 0.0, 1e-9, 0.0, 1e-9]
    layout, tolerances = StateLayout(np.arange(k) < points, (slice(0, k),)), (1e-9, 2e-10)
    columns = (column[:, None] for column in lengths.T)
    with np.errstate(all="ignore"):
        expected = with_error_ratios(found, state, scales, layout, *columns, tolerances)
    ours = host.judged(found, state, scales, points, lengths, tolerances)
    good = np.arange(w) != 3  # with a NaN, the errors are NaN, and so the step is not taken
    np.testing.assert_allclose(ours[:, good], expected[:, good], rtol=1e-12)
    assert np.isnan(ours[-1, 3]).any() and np.isnan(expected[-1, 3]).any()
    found[4, 2] *= 1.1
    others = host.judged(found, state, scales, points, lengths, tolerances)
    assert np.abs(others - expected)[-1, 2].max() > 1e-3 * np.abs(expected[-1, 2]).max()


def test_motions_are_those_with_a_force_that_vanishes(rng):
    model = random_mechanism(rng, 8, MOVING)
    q, v = sample(model, rng)
    times, nabla, system = np.linspace(0.0, 0.2, 4), model.connection, model.system()

    def constant(size):
        return lambda t, q, v: np.full(model.nv, size)

    for ours, by_rates in (
        (cn.geodesic(nabla, q, v, times), lambda f: cn.geodesic(nabla, q, v, times, f)),
        (system.simulate(q, v, times), lambda f: system.simulate(q, v, times, f)),
    ):
        np.testing.assert_allclose(np.hstack(ours), np.hstack(by_rates(constant(0.0))), rtol=0, atol=1e-11)
        assert np.max(np.abs(np.hstack(ours) - np.hstack(by_rates(constant(1e-6))))) > 1e-9


@pytest.fixture
def point_on_an_arm():
    """Its mass matrix is singular where the point is on the axis."""
    mechanism = mb.Mechanism()
    for name, mass in (("arm", 0.0), ("point", 1.0)):
        mechanism.add_body(name, mass, np.zeros(3), np.zeros((3, 3)))
    mechanism.add_joint("turn", "world", "arm", mb.Revolute((0, 0, 1)))
    mechanism.add_joint("slide", "arm", "point", mb.Prismatic((1, 0, 0)))
    return mechanism.build(gravity=(0, 0, 0)).system()


def test_what_is_no_state_is_refused(point_on_an_arm):
    motion = point_on_an_arm.host_motion(None)
    given, y, _, _ = motion.start(np.array([0.3, 0.5]), np.array([1.0, 0.0]))
    attempt = motion.attempt(0.0, y, given)
    assert np.isfinite(attempt(0.0, 0.1, y, np.zeros(4))).all()
    for state, why in (
        ((0.3, 0.0, 1.0, 0.0), "singular along joint 'turn'"),
        ((0.3, np.nan, 1.0, 0.0), r"q\[1\] is nan"),
        ((0.3, 0.5, 1.0, np.nan), r"v\[1\] is nan"),
    ):
        with pytest.raises(InputRefused, match=why):
            attempt(0.0, 0.0, np.array(state), np.zeros(4))


def test_a_motion_that_fails_leaves_the_others_of_its_register(point_on_an_arm):
    """The sixth of ten goes through the axis: its place is named; the others are the motions without it."""
    q, v = np.tile([0.3, 0.5], (10, 1)), np.column_stack([np.zeros(10), np.linspace(0.2, 0.4, 10)])
    v[5] = 0.0, -1.0
    times = np.linspace(0.0, 0.8, 5)
    expected = q[0] + times[:, None] * v[:, None]
    with pytest.raises(cn.checks.IntegrationError, match=r"simulate \[1, 0\] .*by t = 0.6"):
        point_on_an_arm.simulate(q.reshape(2, 5, 2), v.reshape(2, 5, 2), times)
    motions = HostMotions(point_on_an_arm.host_motion(None))
    begun = motions.start((q, v), 10)
    scales, settings = np.stack([begun.origin, 0.0 * begun.origin]), Settings(max_steps=1000)
    attempts = motions.attempts(0.0, begun, scales, (1e-10, 0.0))
    found = follow(attempts, begun.y, begun.origin, times, settings)
    assert list(found.stopped) == [5] and found.stopped[5].s == pytest.approx(0.5)
    assert np.isnan(found.states[5, 3:]).all() and found.last[5] == times[2]
    for row in {*range(10)} - {5}:
        np.testing.assert_allclose(found.states[row, :, :2], expected[row], rtol=1e-12)


# --- transport ----------------------------------------------------------------------------------------


def test_the_step_of_a_linear_equation_is_that_by_its_rates(rng):
    model = random_mechanism(rng, 3, MOVING)
    A, y = rng.standard_normal((len(C), 4, 4)), rng.standard_normal(12)
    A[-2] = A[-1]  # at the same time
    at = {float(T + c * H): stage for stage, c in enumerate(C)}

    def rate(t, y, out):
        out[:] = (A[at[t]] @ y.reshape(4, 3)).ravel()

    first = np.empty(12)
    rate(T, y, first)
    expected = numpy_attempt(rate, lambda t, y: np.stack([y, y]))(T, H, y, first)[:4]
    linear = model.connection.host.linear_step
    np.testing.assert_allclose(linear(H, A, y, first)[:4], expected, rtol=0, atol=1e-14)
    A[3] += 1e-9
    assert np.max(np.abs(linear(H, A, y, first)[:4] - expected)) > 1e-12


def test_the_velocity_of_a_curve_beside_the_manifold(rng):
    model = mechanism_of_all_pairs(rng, branch=20)
    host, frame = model.connection.host, model.frame
    points, _ = sample(model, rng, 3)
    points, rates = 1.2 * points, rng.standard_normal(points.shape)
    q, v = host.along(points, rates)

    @jax.jit
    @jax.vmap
    def definition(p, p_dot):
        q, q_dot = jax.jvp(frame.project_at, (p,), (p_dot,))
        return q, frame.velocity_at(q, q_dot)

    expected = definition(points, rates)
    np.testing.assert_allclose(q, expected[0], rtol=0, atol=1e-14)
    np.testing.assert_allclose(v, expected[1], rtol=0, atol=1e-13)
    assert np.max(np.abs(host.along(points / 1.2, rates)[1] - expected[1])) > 1e-2
