"""Natural adaptation against its matrices, its Lyapunov function, and steps that leave the cone."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from closed_chains import four_bar
from numpy.polynomial.legendre import leggauss
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError, PointError, ShapeError
from connections.control import (
    AdaptiveController,
    AdaptiveLoop,
    LinearlyParametrizedSystem,
    UnknownInertia,
    trajectory_reference,
    with_payload,
)
from connections.control.errors import GainError
from connections.control.laws.inertia_cone import InertiaCone
from connections.multibody.inertia import inertia_of

METRIC = mb.inertia_metric()
GAMMA, BOUND = 10.0, 4.0
START = np.array([0.2, *[0.0] * 3, 8e-4, 0.0, 8e-4, 0.0, 0.0, 8e-4])  # a ball of 0.2 kg and 0.1 m, added
PACE = np.array([1.1, 1.7, 2.3, 1.3, 2.9, 1.9])
GAIN = np.array([8.0, 8.0, 6.0, 2.0, 2.0, 0.5])


@pytest.fixture(scope="module")
def arm():
    return mb.example("arm")


@pytest.fixture(scope="module")
def loaded(arm):
    return with_payload(arm, "tool", 2.0, (0.05, 0.0, 0.1))


@pytest.fixture(scope="module")
def truth(arm, loaded):
    return (mb.inertial_parameters(loaded) - mb.inertial_parameters(arm))[-1]


@pytest.fixture(scope="module")
def family(arm):
    return UnknownInertia(arm.system(), ["tool"])


@pytest.fixture(scope="module")
def natural(family):
    return AdaptiveController(family, GAIN, "natural", rate=GAMMA, mass_bound=BOUND)


def states(rng, *batch):
    return rng.standard_normal((4, *batch, 6))


def reference(t, q, v):
    """v_r = qdot_d - 4 (q - q_d) and its rate, q_d = 0.8 sin(pace t)."""
    phase = np.multiply.outer(t, PACE)
    error, slope = q - 0.8 * np.sin(phase), v - 0.8 * PACE * np.cos(phase)
    return 0.8 * PACE * np.cos(phase) - 4.0 * error, -0.8 * PACE**2 * np.sin(phase) - 4.0 * slope


def motion(plant, law, start, horizon, count=9):
    """q, v, estimates at `count` times, and the integral of s^T K_D s, with the law's own torque and rate."""
    n, p = plant.nv, len(start)

    def rates(t, y):
        q, v, estimate = y[:n], y[n : 2 * n], y[2 * n : 2 * n + p]
        v_r, a_r = reference(t, q, v)
        tau, s = law.torque(q, v, v_r, a_r, estimate), v - v_r
        learned = law.parameters_rate(q, v, v_r, a_r, estimate)
        return np.concatenate([v, mb.forward_dynamics(plant, q, v, tau), learned, [s @ law.gain @ s]])

    times = np.linspace(0.0, horizon, count)
    y0 = np.concatenate([np.zeros(2 * n), start, [0.0]])
    found = solve_ivp(rates, (0.0, horizon), y0, t_eval=times, method="DOP853", rtol=1e-13, atol=1e-13)
    assert found.success
    q, v, estimates, work = np.split(found.y.T, [n, 2 * n, 2 * n + p], axis=1)
    return q, v, v - reference(times, q, v)[0], estimates, work[:, 0]


def total(family, estimates):
    return family.cone.known + estimates


# --- the law ------------------------------------------------------------------------------------------------


def test_the_rate_is_minus_gamma_P_S_P(family, natural, rng):
    """In matrices; by the metric G^-1 a, of the slice that is everything. Control: START's constant gain."""
    rows, estimates = states(rng, 3), START * np.array([1.0, 1.5, 0.7])[:, None]
    rate = natural.parameters_rate(*rows, estimates)
    pulled = np.einsum("bnp,bn->bp", family.regressor(*rows), rows[1] - rows[2])
    P, S = METRIC.matrices(total(family, estimates)), METRIC.dual(pulled)
    np.testing.assert_allclose(METRIC.matrices(rate), -GAMMA * P @ S @ P, atol=1e-11 * np.abs(rate).max())
    everything = UnknownInertia(family.system, ["tool"], basis=np.eye(10))
    by_metric = AdaptiveController(everything, GAIN, "natural", rate=GAMMA, mass_bound=np.inf)
    np.testing.assert_allclose(
        by_metric.parameters_rate(*rows, estimates), rate, atol=1e-9 * np.abs(rate).max()
    )
    constant = AdaptiveController(family, GAIN, GAMMA * np.linalg.inv(METRIC.matrix(total(family, START))))
    at_start = constant.parameters_rate(*rows)
    np.testing.assert_allclose(at_start[0], rate[0], rtol=1e-8)
    assert np.abs(at_start[1] - rate[1]).max() > 0.1 * np.abs(rate[1]).max()


def test_the_torque_contains_what_is_learned(family, natural, loaded, truth, rng):
    rows = states(rng)
    expected = loaded.system().reference_force(*rows) - GAIN * (rows[1] - rows[2])
    np.testing.assert_allclose(natural.torque(*rows, truth), expected, rtol=1e-10)
    assert np.abs(natural.torque(*rows, START) - expected).max() > 1.0


def test_neither_frame_nor_unit_changes_the_law(family, truth, rng):
    """Parameters pi' = M pi of another frame or unit, covectors M^-T a: rates, steps and divergences follow.

    Control: the law with a scalar gain does not.
    """
    turn, shift = Rotation.from_rotvec([0.3, -0.8, 0.5]).as_matrix(), np.array([0.4, -0.3, 0.2])
    columns = [inertia_of(row).seen_from(turn, shift) for row in np.eye(10)]
    entries = np.tril_indices(3)
    of_frame = np.stack([[b.mass, *b.first_moment, *b.rotational[entries]] for b in columns], axis=1)
    of_unit = np.diag([1.0, *[1e2] * 3, *[1e4] * 6])  # centimetres
    a, cone = rng.standard_normal(10), family.cone
    a[4:] *= 20.0
    for M in (of_frame, of_unit):
        there, dual = InertiaCone(("tool",), (), M @ cone.known, None), np.linalg.solve(M.T, a)
        for here_value, there_value in (
            (M @ cone.direction(START, a), there.direction(M @ START, dual)),
            (
                M @ cone.geodesic_step(START, 0.1 * a, 1.0, np.array([0.7])),
                there.geodesic_step(M @ START, 0.1 * dual, 1.0, np.array([0.7])),
            ),
        ):
            np.testing.assert_allclose(there_value, here_value, atol=1e-9 * np.abs(here_value).max())
        np.testing.assert_allclose(
            there.divergence(M @ truth, M @ START), cone.divergence(truth, START), rtol=1e-9
        )
        assert np.abs(M @ a - dual).max() > 0.1 * np.abs(M @ a).max()


def test_lyapunov_function_falls_by_the_work_of_the_gain(arm, loaded, natural, truth):
    """V + int s^T K_D s is constant, with torsion in C, too. Controls: the estimate's rate twice, other d."""
    family = UnknownInertia(arm.system(gamma=3.0), ["tool"])
    law = AdaptiveController(family, GAIN, "natural", rate=GAMMA, mass_bound=np.inf)
    q, _, s, estimates, work = motion(loaded, law, START, 0.6)
    V = law.lyapunov(loaded.system(), q, s, estimates - truth, estimates)
    np.testing.assert_allclose(V + work, V[0], rtol=1e-12)
    assert work[-1] > 0.1 * V[0] and (np.diff(V) < 0.0).all()
    P, Phat = total(family, truth), total(family, estimates)
    np.testing.assert_allclose(
        V - law.lyapunov(loaded.system(), q, s, 0.0 * estimates, estimates),
        METRIC.divergence(P, Phat) / GAMMA,
        rtol=1e-9,
    )
    exchanged = V + (METRIC.divergence(Phat, P) - METRIC.divergence(P, Phat)) / GAMMA
    assert np.abs(exchanged + work - exchanged[0]).max() > 1e-2 * exchanged[0]
    assert (np.linalg.eigvalsh(METRIC.matrices(Phat))[:, 0] > 0.0).all()


# --- steps of a loop of fixed period ------------------------------------------------------------------------


def test_the_step_is_a_geodesic(family, truth, rng):
    """P^1/2 exp(-k P^1/2 S P^1/2) P^1/2 by SciPy, shortened to 1; a batch against its rows; first order."""
    cone, free = family.cone, np.array([np.inf])
    a = np.linalg.norm(METRIC.matrix(total(family, START)) @ truth) * rng.standard_normal((3, 10)) * 1e-4
    a[1] *= 1e3
    P, S = METRIC.matrices(total(family, START)), METRIC.dual(a)
    L = np.linalg.cholesky(P)
    X = L.T @ S @ L
    lengths = np.linalg.norm(X, axis=(1, 2))
    assert lengths[0] < 0.9 and lengths[1] > 1.1
    ends = np.stack([L @ expm(-one / max(1.0, size)) @ L.T for one, size in zip(X, lengths, strict=True)])
    batch = cone.geodesic_step(np.tile(START, (3, 1)), a, 1.0, free)
    np.testing.assert_allclose(METRIC.matrices(total(family, batch)), ends, atol=1e-12 * np.abs(ends).max())
    rows = [cone.geodesic_step(START, one, 1.0, free) for one in a]
    np.testing.assert_allclose(rows, batch, atol=1e-13)
    np.testing.assert_allclose(cone.geodesic_step(jnp.asarray(START), a[1], 1.0, free), batch[1], atol=1e-12)
    np.testing.assert_allclose(METRIC.distance(total(family, START), total(family, batch[1])), 1.0, rtol=1e-9)
    straight, error = cone.direction(START, a[0]), {}
    for k in (1e-2, 1e-3):
        mirror = (
            METRIC.coordinates(np.linalg.inv(np.linalg.inv(P) + k * METRIC.dual(a[0]))) - family.cone.known
        )
        step = cone.geodesic_step(START, k * a[0], 1.0, free)
        error[k] = np.linalg.norm(step - mirror) / np.linalg.norm(step - START)
        np.testing.assert_allclose((START - step) / k, straight, atol=k * 3.0 * np.abs(straight).max())
    np.testing.assert_allclose(error[1e-2] / error[1e-3], 10.0, rtol=0.05)


def test_one_estimate_serves_many_states(natural, rng):
    """Batches of states, of none too, and arrays of JAX, against single calls."""
    rows = states(rng, 3)
    many = natural.next_parameters(*rows, START, 1e-3)
    for k in range(3):
        one = natural.next_parameters(*(row[k] for row in rows), START, 1e-3)
        np.testing.assert_allclose(many[k], one, atol=1e-13)
        in_jax = natural.next_parameters(*(jnp.asarray(row[k]) for row in rows), START, 1e-3)
        np.testing.assert_allclose(in_jax, one, atol=1e-12)
    assert natural.next_parameters(*states(rng, 0), START, 1e-3).shape == (0, 10)
    assert np.abs(many[0] - many[1]).max() > 1e-3 * np.abs(START).max()


def test_only_the_geodesic_step_stays_a_body(arm, loaded, natural):
    """At 200 Hz the estimates of Euler's and of the mirror step are those of no body; the geodesic's are."""
    family, period = natural.family, 0.005
    law = AdaptiveController(family, GAIN, "natural", rate=100.0, mass_bound=np.inf)
    left = {}
    for name in ("geodesic", "mirror", "euler"):
        q, v, estimate, outside = np.zeros(6), np.zeros(6), START, 0
        for k in range(120):
            v_r, a_r = reference(k * period, q, v)
            Y, s = family.regressor(q, v, v_r, a_r), v - v_r
            tau, P = law.torque(q, v, v_r, a_r, estimate), METRIC.matrices(total(family, estimate))
            S = METRIC.dual(100.0 * period * (Y.T @ s))
            if name == "geodesic":
                estimate = law.next_parameters(q, v, v_r, a_r, estimate, period)
            else:
                after = P - P @ S @ P if name == "euler" else np.linalg.inv(np.linalg.inv(P) + S)
                estimate = METRIC.coordinates(after) - family.cone.known
            outside += np.linalg.eigvalsh(METRIC.matrices(total(family, estimate)))[0] <= 0.0
            for _ in range(5):
                v = v + period / 5 * mb.forward_dynamics(loaded, q, v, tau)
                q = q + period / 5 * v
            if not np.abs(v).max() < 1e3:
                outside += 1
                break
        left[name] = outside
    assert left["geodesic"] == 0 and left["euler"] > 0 and left["mirror"] > 0, left


def test_the_bound_of_a_mass(family, natural, rng):
    """Pythagoras' inequality of the projection, an equality on the face; the rate at the face does not rise.

    Control: to cut the mass alone leaves the cone.
    """
    cone, high = family.cone, total(family, START) * 4.0 - family.cone.known
    m = cone.masses(high)[0]
    bound = np.array([0.4 * m])
    X = cone.geodesic_step(high, np.zeros(10), 1.0, bound)
    np.testing.assert_allclose(cone.masses(X), bound, rtol=1e-12)
    gap = np.linalg.inv(METRIC.matrices(total(family, X))) - np.linalg.inv(
        METRIC.matrices(total(family, high))
    )
    assert gap[3, 3] > 0.0 and np.abs(gap.ravel()[:15]).max() < 1e-9 * gap[3, 3]  # lambda e_4 e_4^T
    below = [total(family, START) * share * 0.4 * m / cone.masses(START)[0] for share in (1.0, 0.5)]
    rest = [cone.divergence(P - cone.known, high) - cone.divergence(X, high) for P in below]
    there = [cone.divergence(P - cone.known, X) for P in below]
    np.testing.assert_allclose(there[0], rest[0], rtol=1e-10)  # on the face
    assert there[1] < rest[1] - 1e-3
    cut = total(family, high) * np.where(np.arange(10) == 0, 0.05, 1.0)
    assert np.linalg.eigvalsh(METRIC.matrices(cut))[0] < 0.0
    law = AdaptiveController(family, GAIN, "natural", rate=GAMMA, mass_bound=cone.masses(START)[0])
    rows = states(rng, 8)
    free, held = (one.parameters_rate(*rows, np.tile(START, (8, 1))) for one in (natural, law))
    rises = free[:, 0] > 0.0
    assert 0 < rises.sum() < 8
    np.testing.assert_allclose(held[rises, 0], 0.0, atol=1e-12 * np.abs(free).max())
    np.testing.assert_allclose(held[~rises], free[~rises])
    G, difference = METRIC.matrix(total(family, START)), (held - free)[rises]
    np.testing.assert_allclose(np.einsum("bi,ij,bj->b", difference, G, held[rises]), 0.0, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"leakage": 0.4, "prior": 0.5 * START}, {"dead_zone": 2.0}])
def test_what_options_and_bounds_add_to_the_rate_of_V(family, truth, options, rng):
    """A mass at its bound: s^T Y pi~ + d/dt of d / gamma, by differences. Control: where the mass falls."""
    bound = family.cone.masses(START)[0]
    law = AdaptiveController(family, GAIN, "natural", rate=GAMMA, mass_bound=bound, **options)
    inside = truth * 0.08
    rates = {True: 0, False: 0}
    for _ in range(4):
        rows = states(rng)
        Y, s = family.regressor(*rows), rows[1] - rows[2]
        change = law.parameters_rate(*rows, START)
        h = 1e-4 / np.abs(change / family.cone.units(START)).max()
        points = START + h * np.array([-2.0, -1.0, 1.0, 2.0])[:, None] * change
        energies = family.cone.divergence(np.tile(inside, (4, 1)), points) / GAMMA
        slope = energies @ [1.0, -8.0, 8.0, -1.0] / (12.0 * h)
        expected = s @ Y @ (START - inside) + slope
        found = law._rule.added_power(Y, s, inside, START)
        scale = np.abs(s @ Y * (START - inside)).sum()
        np.testing.assert_allclose(found, expected, atol=1e-7 * scale)
        if not options:
            assert found <= 1e-12 * scale
            rates[bool(found < -1e-4 * scale)] += 1
    assert options or (rates[True] and rates[False])


# --- slices, armature, closed loops -------------------------------------------------------------------------


def test_known_entries_stay_and_the_damped_step_stays_a_body(arm, loaded, truth, rng):
    """A payload of known mass and unknown place and inertia: V falls by the work; steps of any length."""
    held = with_payload(arm, "tool", 2.0, (0.0, 0.0, 0.0), 8e-3 * np.eye(3))  # known: 2 kg, as a ball
    family = UnknownInertia(held.system(), ["tool"], basis=np.eye(10)[:, 1:])
    law = AdaptiveController(family, GAIN, "natural", rate=GAMMA, mass_bound=BOUND)
    apart = (mb.inertial_parameters(loaded) - mb.inertial_parameters(held))[-1]
    assert abs(apart[0]) < 1e-12
    q, _, s, estimates, work = motion(loaded, law, np.zeros(9), 0.3)
    V = law.lyapunov(loaded.system(), q, s, estimates - apart[1:], estimates)
    np.testing.assert_allclose(V + work, V[0], rtol=1e-11)
    rows = states(rng)
    short = law.next_parameters(*rows, np.zeros(9), 1e-7) / 1e-7
    np.testing.assert_allclose(short, law.parameters_rate(*rows, np.zeros(9)), rtol=1e-2)
    far = law.next_parameters(*rows, np.zeros(9), 100.0)
    assert np.linalg.eigvalsh(family.cone.matrices(far)[0])[0, 0] > 0.0
    euler = 100.0 * law.parameters_rate(*rows, np.zeros(9))
    assert np.linalg.eigvalsh(family.cone.matrices(euler)[0])[0, 0] < 0.0  # negative control


def test_the_bound_of_a_mass_that_is_among_the_unknowns_of_a_slice(arm, rng):
    """The nearest change, in the metric of the slice, that leaves the mass below its bound: by KKT.

    Controls: without a bound the mass goes beyond, and a cut of the mass alone is another change.
    """
    basis = np.eye(10)[:, [0, 1, 3]]
    basis[[4, 6, 9], 0] = 0.01  # a heavier ball has more inertia
    family = UnknownInertia(arm.system(), ["tool"], basis=basis)
    theta, row = np.array([0.2, 0.01, -0.005]), np.array([1.0, 0.0, 0.0])
    bound = family.cone.masses(theta)[0] + 0.02
    free, law = (
        AdaptiveController(family, GAIN, "natural", rate=GAMMA, mass_bound=b) for b in (np.inf, bound)
    )
    G = basis.T @ METRIC.matrix(family.cone.known + basis @ theta) @ basis
    raised, cut = np.linalg.solve(G, row), 0
    for one in np.moveaxis(states(rng, 6), 1, 0):
        change, held = (x.next_parameters(*one, theta, 10.0) - theta for x in (free, law))
        beyond = max(change[0] - 0.02, 0.0)
        np.testing.assert_allclose(held, change - raised * beyond / raised[0], atol=1e-12)
        cut += beyond > 1e-3 and abs((held - change)[1:]).max() > 1e-5
        assert family.cone.masses(theta + held)[0] <= bound * (1.0 + 1e-12)
    assert 0 < cut < 6
    at = np.array([0.22, 0.01, -0.005])  # on the face, a rate does not rise
    law = AdaptiveController(family, GAIN, "natural", rate=GAMMA, mass_bound=family.cone.masses(at)[0])
    G = basis.T @ METRIC.matrix(family.cone.known + basis @ at) @ basis
    raised = np.linalg.solve(G, row)
    for one in np.moveaxis(states(rng, 6), 1, 0):
        rate, held = (x.parameters_rate(*one, at) for x in (free, law))
        np.testing.assert_allclose(held, rate - raised * max(rate[0], 0.0) / raised[0], atol=1e-9)


def test_armature_is_an_inertia_of_one_row(arm, rng):
    """Its column against the difference of two robots; rho' = -gamma rho^2 a; its step."""
    robot = arm.with_armature({"bend": 0.3, "tilt": 0.1})
    family = UnknownInertia(robot.system(), ["tool"], armature=["tilt", "bend"])
    more = robot.with_armature({"bend": 0.7})
    rows = states(rng)
    Y = family.regressor(*rows)
    expected = more.system().reference_force(*rows) - robot.system().reference_force(*rows)
    np.testing.assert_allclose(0.4 * Y[:, 11], expected, atol=1e-12 * np.abs(Y).max())
    plant = family.plant(np.array([*START, 0.0, 0.4]))
    np.testing.assert_allclose(
        plant.mass_matrix(rows[0]) - more.system().mass_matrix(rows[0]),
        with_payload(more, "tool", 0.2, np.zeros(3), 8e-4 * np.eye(3)).system().mass_matrix(rows[0])
        - more.system().mass_matrix(rows[0]),
        atol=1e-12,
    )
    law = AdaptiveController(family, GAIN, "natural", rate=GAMMA, mass_bound=BOUND)
    estimates = np.array([*START, 0.2, -0.1])
    a, rho = (Y.T @ (rows[1] - rows[2]))[10:], np.array([0.3, 0.2])
    np.testing.assert_allclose(law.parameters_rate(*rows, estimates)[10:], -GAMMA * rho**2 * a, rtol=1e-11)
    after = law.next_parameters(*rows, estimates, 1e-3)[10:] + [0.1, 0.3]
    np.testing.assert_allclose(after, rho * np.exp(-1e-3 * GAMMA * rho * a), rtol=1e-11)
    np.testing.assert_allclose(
        law.next_parameters(*(np.stack([row, row]) for row in rows), np.stack([estimates] * 2), 1e-3)[1],
        law.next_parameters(*rows, estimates, 1e-3),
        rtol=1e-10,
    )
    with pytest.raises(PointError, match="joint 'bend'"):
        law.next_parameters(*rows, np.array([*START, 0.0, -0.31]), 1e-3)


# --- the closed loop ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_links():
    """Two joints, the second body with a payload."""
    robot = mb.Mechanism()
    for name, axis, parent in (("one", (0, 0, 1), "world"), ("two", (0, 1, 0), "one")):
        robot.add_body(name, mass=1.0, center_of_mass=(0.0, 0.0, 0.1), inertia=0.01 * np.eye(3))
        place = np.eye(4)
        place[2, 3] = 0.2
        robot.add_joint(f"joint_{name}", parent, name, mb.Revolute(axis), place)
    return robot.build()


def nodes(intervals, horizon, order=4):
    """Times and weights of Gauss and Legendre's rule, with the ends."""
    x, w = leggauss(order)
    edges = np.linspace(0.0, horizon, intervals + 1)
    half = np.diff(edges)[:, None] / 2.0
    times = (edges[:-1, None] + half * (1.0 + x)).ravel()
    return np.concatenate([[0.0], times, [horizon]]), np.concatenate([[0.0], (half * w).ravel(), [0.0]])


def test_a_closed_loop_with_leakage_and_a_dead_zone(two_links):
    """V(t) - V(0) = int Vdot, and Vdot by three divergences. Control: without what the options add."""
    system, sigma, zone = two_links.system(), 0.5, np.array([0.02, 0.05])
    family = UnknownInertia(system, ["two"])
    apart = with_payload(two_links, "two", 0.8, (0.05, 0.02, 0.1), 2e-3 * np.eye(3))
    truth = (mb.inertial_parameters(apart) - mb.inertial_parameters(two_links))[-1]
    options = {"rate": 5.0, "mass_bound": 9.0, "leakage": sigma, "prior": START, "dead_zone": zone}
    law = AdaptiveController(family, [0.5, 0.5], "natural", **options)
    goal = trajectory_reference(family.frame, lambda t: jnp.stack([jnp.sin(2 * t), jnp.sin(3 * t)]), 3.0)
    times, weights = nodes(160, 0.4)
    found = AdaptiveLoop(law, truth, goal).simulate([0.0, 0.0], [2.0, 3.0], START, times, rtol=1e-11)
    change = found.lyapunov[-1] - found.lyapunov[0]
    np.testing.assert_allclose(weights @ found.lyapunov_rate, change, rtol=1e-5)  # w has kinks
    s, P, Phat = found.s, total(family, truth), total(family, found.parameters)
    np.testing.assert_allclose(
        found.lyapunov,
        0.5 * np.einsum("ti,tij,tj->t", s, mb.mass_matrix(apart, found.q), s)
        + METRIC.divergence(P, Phat) / 5.0,
        rtol=1e-9,
    )
    w = np.maximum(0.0, 1.0 - 1.0 / np.maximum(1.0, np.linalg.norm(s / zone, axis=1)))
    assert w.min() == 0.0 and w.max() > 0.5
    pulled = np.einsum("tnp,tn->tp", family.regressor(found.q, found.v, found.v_r, found.a_r), s)
    prior, work = total(family, START), 0.5 * (s**2).sum(axis=1)
    d = METRIC.divergence
    expected = (
        -work
        + (1.0 - w) * (pulled * (found.parameters - truth)).sum(axis=1)
        + sigma / 5.0 * (d(P, prior) - d(P, Phat) - d(Phat, prior))
    )
    np.testing.assert_allclose(found.lyapunov_rate, expected, atol=1e-9 * np.abs(expected).max())
    assert abs(weights @ work + change) > 1e-2 * abs(change)


# --- input --------------------------------------------------------------------------------------------------


def test_bad_input_is_named(arm, family, natural, truth, rng):
    rows, make = states(rng), AdaptiveController
    for error, match, options in (
        (TypeError, "rate", {"mass_bound": 4.0}),
        (TypeError, "mass_bound", {"rate": 1.0}),
        (GainError, "rate must be positive: -1", {"rate": -1.0, "mass_bound": 4.0}),
        (GainError, "mass_bound must be positive", {"rate": 1.0, "mass_bound": 0.0}),
        (ShapeError, "mass_bound", {"rate": 1.0, "mass_bound": [4.0, 5.0]}),
        (TypeError, "prior", {"rate": 1.0, "mass_bound": 4.0, "leakage": 0.1}),
        (GainError, "leakage", {"rate": 1.0, "mass_bound": 4.0, "leakage": 0.0, "prior": START}),
        (PointError, "prior: body 'tool'", {"rate": 1.0, "mass_bound": 4.0, "leakage": 0.1, "prior": -START}),
        (
            PointError,
            "prior: body 'tool' has 0.8 kg",
            {"rate": 1.0, "mass_bound": 0.45, "leakage": 0.1, "prior": START},
        ),
        (GainError, "dead_zone", {"rate": 1.0, "mass_bound": 4.0, "dead_zone": -0.1}),
    ):
        with pytest.raises(error, match=match):
            make(family, GAIN, "natural", **options)
    with pytest.raises(TypeError, match="expected a gain or the word 'natural'"):
        make(family, GAIN, "natrual", rate=1.0, mass_bound=4.0)
    with pytest.raises(TypeError, match="rate: only adaptation"):
        make(family, GAIN, 1.0, rate=1.0)
    other = LinearlyParametrizedSystem(lambda pi: arm.system(), [1.0])
    with pytest.raises(TypeError, match="family"):
        make(other, GAIN, "natural", rate=1.0, mass_bound=4.0)
    outside = START - 2.0 * np.eye(10)[9] * total(family, START)[9]
    with pytest.raises(PointError, match="parameters: body 'tool', the estimate included"):
        natural.parameters_rate(*rows, outside)
    with pytest.raises(PointError, match="parameters: body 'tool'"):
        natural.next_parameters(*rows, outside, 1e-3)
    with pytest.raises(TypeError, match="depends on the estimates"):
        natural.parameters_rate(*rows)
    with pytest.raises(NonFiniteError, match="parameters"):
        natural.next_parameters(*rows, START * np.nan, 1e-3)
    with pytest.raises(GainError, match="period"):
        natural.next_parameters(*rows, START, 0.0)
    with pytest.raises(ModelError, match="'joint9'"):
        UnknownInertia(arm.system(), ["tool"], armature=["joint9"])
    with pytest.raises(ShapeError, match="basis"):
        UnknownInertia(arm.system(), ["tool"], basis=np.eye(9))
    with pytest.raises(ValueError, match="not linearly independent"):
        UnknownInertia(arm.system(), ["tool"], basis=np.ones((10, 2)))
    shared = UnknownInertia(arm.system(), ["tool", "hand"], basis=np.vstack([np.eye(10)] * 2))
    with pytest.raises(GainError, match="moves several bodies"):
        make(shared, GAIN, "natural", rate=1.0, mass_bound=4.0)


def test_a_singular_truth_is_refused(two_links):
    """The payload alone is a point mass, on a body without mass; on one with mass its total is regular."""
    bare = two_links.with_inertial_parameters(mb.inertial_parameters(two_links) * [[1.0], [0.0]])
    point = np.array([0.5, 0.05, 0.0, 0.05, 0.005, 0.0, 0.01, -0.005, 0.0, 0.005])
    still = trajectory_reference(bare.system().frame, lambda t: jnp.zeros(2), 1.0)
    loops = {}
    for name, robot in (("bare", bare), ("body", two_links)):
        law = AdaptiveController(
            UnknownInertia(robot.system(), ["two"]), 1.0, "natural", rate=1.0, mass_bound=2.0
        )
        loops[name] = law
    AdaptiveLoop(loops["body"], point, still)
    with pytest.raises(PointError, match="parameters: body 'two', what is added included"):
        AdaptiveLoop(loops["bare"], point, still)
    with pytest.raises(PointError, match="initial: body 'two', the estimate included"):
        AdaptiveLoop(loops["body"], point, still).simulate([0.0, 0.0], [0.0, 0.0], -2.0 * point, [0.0, 0.1])


# --- other robots -------------------------------------------------------------------------------------------


def balance_of(robot, family, truth, start, horizon, gain=5.0):
    """(V + int s^T K_D s) / V(0) - 1 at the end, and the share of V(0) that was dissipated.

    v_r is any function of time; a floating base moves along X(q) v.
    """
    law = AdaptiveController(family, gain, "natural", rate=GAMMA, mass_bound=np.inf)
    plant, frame, n = family.plant(truth), robot.connection.frame, robot.nv
    pace, q0 = np.linspace(1.0, 3.0, n), robot.neutral()
    nq = len(q0)

    def rates(t, y):
        q, v, estimate = y[:nq], y[nq : nq + n], y[nq + n : -1]
        v_r, a_r = 0.3 * np.sin(pace * t), 0.3 * pace * np.cos(pace * t)
        tau = law.torque(q, v, v_r, a_r, estimate)
        learned, s = law.parameters_rate(q, v, v_r, a_r, estimate), v - v_r
        a = plant.forward_dynamics(q, v, tau)
        return np.concatenate([frame.matrix(q) @ v, a, learned, [gain * s @ s]])

    y0 = np.concatenate([q0, np.full(n, 0.2), start, [0.0]])
    y = solve_ivp(rates, (0.0, horizon), y0, method="DOP853", rtol=1e-11, atol=1e-11).y[:, [0, -1]].T
    v_r = 0.3 * np.sin(np.outer([0.0, horizon], pace))
    estimates = y[:, nq + n : -1]
    V = law.lyapunov(plant, y[:, :nq], y[:, nq : nq + n] - v_r, estimates - truth, estimates)
    assert (np.linalg.eigvalsh(family.cone.matrices(estimates[1])[0])[:, 0] > 0.0).all()
    return (V[1] + y[1, -1]) / V[0] - 1.0, y[1, -1] / V[0]


def payloads(robot, bodies):
    """What loads of 0.5 kg add to each of these bodies."""
    loaded = robot
    for body in bodies:
        loaded = with_payload(loaded, body, 0.5, (0.05, 0.02, 0.03), 1e-3 * np.eye(3))
    rows = [robot.body_names.index(body) for body in bodies]
    return (mb.inertial_parameters(loaded) - mb.inertial_parameters(robot))[rows].ravel()


@pytest.mark.further
@pytest.mark.parametrize("name", ["quadruped", "four-bar", "whole arm", "armature in a loop"])
def test_the_balance_on_other_robots(name, arm):
    """A floating base, a loop, every body of an arm, and an unknown rotor in a loop."""
    armature = ()
    if name == "quadruped":
        robot = mb.example("quadruped")
        bodies = robot.body_names[:2]
    elif name == "whole arm":
        robot, bodies = arm, arm.body_names
    else:
        robot = four_bar().build()
        bodies = robot.body_names[-1:]
        if name != "four-bar":
            armature = robot.joint_names[:1]
            robot = robot.with_armature({armature[0]: 0.1})
    family = UnknownInertia(robot.system(), bodies, armature=armature)
    truth = np.append(payloads(robot, bodies), [0.05] * len(armature))
    error, dissipated = balance_of(robot, family, truth, 0.3 * truth, 0.1)
    assert abs(error) < 1e-9 and dissipated > 1e-3
