"""Identification: exact data give the parameters back; the classical regressor and SciPy agree with it."""

import re
from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from cases import always
from robots import robot_path
from scipy.optimize import minimize

from connections import control
from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError, PointError, ShapeError
from connections.control.identification.low_pass import low_pass
from connections.control.identification.standard_errors import BLOCK, standard_errors
from connections.multibody.inertia import pseudo_inertias

CUTOFF = 5.0  # Hz
FRICTION = 0.4, 0.25  # N m s/rad, N m


@cache
def arm():
    return mb.example("arm")


@cache
def hinge():
    robot = mb.Mechanism()
    robot.add_body("rod", 2.0, (0.3, 0.0, 0.1), 0.1 * np.diag([1.0, 2.0, 2.5]))
    robot.add_joint("hinge", "world", "rod", mb.Revolute((0.0, 1.0, 0.0)))
    return robot.build()


@cache
def motion(samples=1601, seconds=8.0):
    """times, q, v, a of sums of sines."""
    rng, n = np.random.default_rng(5), arm().nv
    t, frequency = np.linspace(0.0, seconds, samples), 2.0 * np.pi * np.array([0.2, 0.35, 0.55])
    amplitude, phase = rng.normal(scale=0.4, size=(n, 3)), rng.uniform(0.0, 6.0, (n, 3))
    angle = t[:, None, None] * frequency + phase
    q = np.sum(amplitude * np.sin(angle), axis=-1)
    v = np.sum(amplitude * frequency * np.cos(angle), axis=-1)
    return t, q, v, np.sum(-amplitude * frequency**2 * np.sin(angle), axis=-1)


def torques(robot, friction=(0.0, 0.0)):
    _, q, v, a = motion()
    return mb.inverse_dynamics(robot, q, v, a) + friction[0] * v + friction[1] * np.sign(v)


@cache
def prior():
    """Inertias of the right shape and a wrong mass."""
    rng = np.random.default_rng(6)
    pi = mb.inertial_parameters(arm())
    return pi * rng.uniform(0.4, 2.0, (len(pi), 1))


def identified(tau, **options):
    t, q, v, _ = motion()
    return control.identify(arm(), q, v, tau, t, cutoff=CUTOFF, **{"prior": prior(), **options})


def parameters_of(P):
    """The ten parameters of a pseudo-inertia."""
    inertia = np.trace(P[:3, :3]) * np.eye(3) - P[:3, :3]
    return np.array([P[3, 3], *P[:3, 3], *inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])


def relative(ours, theirs):
    return np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)


def test_the_filter_is_the_exact_solution_between_samples():
    """Of a line and of a step, at times that are not equidistant, in closed form."""
    t = np.array([0.0, 0.1, 0.15, 0.4, 1.0, 1.1])
    rate = 3.0
    line = low_pass(t, 2.0 * t + 1.0, rate)
    expected = 2.0 * t + 1.0 - 2.0 / rate + (2.0 / rate - 1.0) * np.exp(-rate * t)
    np.testing.assert_allclose(line, expected, atol=1e-14)
    np.testing.assert_allclose(low_pass(t, 0.0 * t + 5.0, rate, 5.0), 5.0, atol=1e-14)


def test_the_filter_of_a_cubic_is_exact_over_long_steps_too():
    """y is the sum of (-1 / rate)^k times the k-th derivative, less what that is at first, decaying."""
    t, rate = np.array([0.0, 0.1, 0.3, 2.3, 2.6, 6.6, 7.4]), 5.0  # steps times rate: 0.5 to 20
    p = np.polynomial.Polynomial([1.0, -2.0, 0.5, 0.3])
    expected = p - p.deriv(1) / rate + p.deriv(2) / rate**2 - p.deriv(3) / rate**3
    y = low_pass(t, p(t), rate)
    np.testing.assert_allclose(y, expected(t) - expected(0.0) * np.exp(-rate * t), rtol=0.0, atol=1e-11)
    assert np.abs(low_pass(t, p(t), rate, smooth=False) - y).max() > 0.1  # negative control


@pytest.mark.parametrize("consistent", [True, False])
def test_exact_data_give_what_the_robot_does_on_another_motion(consistent):
    found = identified(torques(arm(), FRICTION), friction=True, consistent=consistent)
    assert found.rank == 36 + 12  # of Gautier's 36 for six revolute joints, and two for each joint
    rng = np.random.default_rng(7)
    q, v, a = rng.standard_normal((3, 50, arm().nv))
    tau = mb.inverse_dynamics(arm(), q, v, a)
    Y = mb.regressor(arm(), q, v, v, a)
    assert relative(Y @ found.parameters.ravel(), tau) < 2e-3
    assert relative(Y @ prior().ravel(), tau) > 0.1  # negative control
    np.testing.assert_allclose(found.viscous, FRICTION[0], atol=5e-3)
    np.testing.assert_allclose(found.coulomb, FRICTION[1], atol=5e-3)
    if consistent:
        assert relative(mb.inverse_dynamics(found.model, q, v, a), tau) < 2e-3
        assert (np.linalg.eigvalsh(pseudo_inertias(found.parameters)) > 0.0).all()


@pytest.mark.parametrize("consistent", [True, False])
def test_a_closed_chain(consistent):
    """One velocity, three bodies, eight combinations: torques of another motion."""
    robot = mb.example("four_bar")
    true = mb.inertial_parameters(robot)
    wrong = true * np.array([[0.5], [1.5], [2.0]])
    Y, tau, found = [], [], None
    for phase in ([0.0, 1.0, 2.0], [1.0, 3.0, 0.5]):
        t = np.linspace(0.0, 8.0, 1601)
        angle, w = np.multiply.outer(t, [2.0, 3.0, 5.0]) + phase, np.array([2.0, 3.0, 5.0])
        q = robot.neutral() + 0.2 * np.sum(np.sin(angle), axis=1, keepdims=True)
        v = 0.2 * np.sum(w * np.cos(angle), axis=1, keepdims=True)
        a = -0.2 * np.sum(w**2 * np.sin(angle), axis=1, keepdims=True)
        Y.append(mb.regressor(robot, q, v, v, a))
        tau.append(Y[-1] @ true.ravel())
        if found is None:
            found = control.identify(
                robot, q, v, tau[0], t, cutoff=CUTOFF, prior=wrong, consistent=consistent
            )
    assert found.rank == 8
    assert relative(Y[1] @ found.parameters.ravel(), tau[1]) < 1e-3
    assert relative(Y[1] @ wrong.ravel(), tau[1]) > 0.1  # negative control


def test_the_error_of_exact_data_is_of_the_fourth_order_in_the_step():
    t, q, v, _ = motion()
    tau, true = torques(arm()), mb.inertial_parameters(arm()).ravel()
    errors = []
    for every in (16, 8):
        found = control.identify(
            arm(), q[::every], v[::every], tau[::every], t[::every], cutoff=2.0, consistent=False
        )
        errors.append(np.linalg.norm(found.base - found.combinations @ true))
    assert 10.0 < errors[0] / errors[1] < 30.0  # joined by lines: 4
    assert errors[1] < 1e-4


def test_friction_that_is_not_asked_for_spoils_the_estimate():
    tau, true = torques(arm(), FRICTION), mb.inertial_parameters(arm()).ravel()
    without, found = identified(tau), identified(tau, friction=True)
    gap = np.linalg.norm(without.base - without.combinations @ true)
    theta = np.concatenate([true, np.repeat(FRICTION, arm().nv)])
    assert gap > 20.0 * np.linalg.norm(found.base - found.combinations @ theta)
    assert (without.viscous == 0.0).all() and (without.coulomb == 0.0).all()


@pytest.mark.parametrize("name", ["arm", "arm in one plane", "quadruped", "four_bar"])
def test_the_rank_is_that_of_the_classical_regressor(name):
    """By NumPy, from positions, velocities and accelerations; noise of the recording changes nothing."""
    robot = mb.example(name.split()[0])
    rng, t = np.random.default_rng(8), np.linspace(0.0, 8.0, 161)
    frequency, phase = rng.uniform(1.0, 4.0, (3, robot.nv)), rng.uniform(0.0, 6.0, (3, robot.nv))
    v = 0.2 * np.sum(np.sin(frequency * t[:, None, None] + phase), axis=1)  # of one sine, all depends on q
    if "plane" in name:
        v[:, 0] = 0.0  # does not move: fewer parameters
    steps = np.diff(t)[:, None] * (v[1:] + v[:-1]) / 2.0
    q = [robot.neutral()]
    for step in steps:
        q.append(mb.displace(robot, q[-1], step))
    q, tau = np.array(q), rng.standard_normal(v.shape)
    classical = mb.regressor(robot, q, v, v, np.gradient(v, t, axis=0)).reshape(v.size, -1)
    found = control.identify(robot, q, v, tau, t, cutoff=1.0)
    assert found.rank == np.linalg.matrix_rank(classical, rtol=1e-8)
    assert found.combinations.shape == (found.rank, classical.shape[1])
    independent = 0  # the unit columns, in the order of the parameters
    for column in found.combinations.T:
        independent += independent < found.rank and np.array_equal(column, np.eye(found.rank)[independent])
    assert independent == found.rank
    # what the data cannot see is orthogonal to all combinations
    unseen = np.linalg.svd(found.combinations)[2][found.rank :]
    assert np.abs(classical @ unseen.T).max(initial=0.0) < 1e-6 * np.abs(classical).max()


#: Payload on the last body, and noise of q, v and tau. Newton's method found no minimum for most of them.
RECORDINGS = [
    ("arm", 2.0, (1e-5, 1e-3, 0.05)),
    ("arm", 2.0, (0.0, 0.0, 0.0)),
    ("panda", 0.5, (1e-5, 1e-3, 0.05)),
]


@pytest.mark.parametrize(
    ("name", "mass", "noise"),
    [*RECORDINGS[:2], *(pytest.param(*each, marks=pytest.mark.further) for each in RECORDINGS[2:])],
)
@pytest.mark.parametrize("seed", always(range(6), 0))
def test_clean_and_noisy_recordings_of_a_payload(name, mass, noise, seed):
    """A minimum is found (whether it is the minimum, SciPy says below), of bodies, and near the truth."""
    robot = mb.example("arm") if name == "arm" else mb.from_urdf(robot_path(name))
    true = control.with_payload(robot, robot.body_names[-1], mass, (0.05, 0.0, 0.1))
    rng, t = np.random.default_rng(seed), np.linspace(0.0, 8.0, 1601)
    frequency, phase = 2.0 * np.pi * np.arange(1, 6) / 8.0, rng.uniform(0.0, 6.0, (robot.nv, 5))
    amplitude = rng.normal(scale=0.3, size=(robot.nv, 5))
    angle = t[:, None, None] * frequency + phase
    q = np.sum(amplitude * np.sin(angle), axis=-1)
    v = np.sum(amplitude * frequency * np.cos(angle), axis=-1)
    a = -np.sum(amplitude * frequency**2 * np.sin(angle), axis=-1)
    tau = mb.inverse_dynamics(true, q, v, a)
    noisy = [x + size * rng.standard_normal(x.shape) for x, size in zip((q, v, tau), noise, strict=True)]
    found = control.identify(robot, *noisy, t, cutoff=8.0)
    assert (np.linalg.eigvalsh(pseudo_inertias(found.parameters)) > 0.0).all()
    predicted = (mb.regressor(robot, q, v, v, a) @ found.parameters.ravel()).ravel()
    assert relative(predicted, tau.ravel()) < (3e-3 if any(noise) else 3e-5)
    assert relative(mb.inverse_dynamics(robot, q, v, a).ravel(), tau.ravel()) > 0.05  # negative control


def expected_squares(A, noise, t, rate):
    """The mean squares of reported errors and of the estimate, of noise with the covariance noise noise^T."""
    inverse = np.linalg.pinv(A[:, 0])
    residuals = noise - A[:, 0] @ (inverse @ noise)
    reported = [standard_errors(A, column[:, None], t, rate) ** 2 for column in residuals.T]
    return np.sum(reported, axis=0), np.sum((inverse @ noise) ** 2, axis=1)


def test_standard_errors_have_the_right_mean_without_drawing_noise():
    """Squares of errors are quadratic in the noise: columns of a root of its covariance give their mean."""
    t, rate = np.arange(160) * 0.025, 20.0  # eight blocks of ten time constants
    rng = np.random.default_rng(13)
    A = np.stack([np.cos(t), np.sin(2.0 * t), np.cos(3.0 * t + 1.0)], axis=-1)[:, None]
    A[rng.random(len(t)) < 0.1] *= 3.0
    mean, true = expected_squares(A, np.eye(len(t)), t, rate)
    np.testing.assert_allclose(mean, true * BLOCK / (BLOCK - 1.0), rtol=1e-10)  # white
    filtered = np.linalg.cholesky(np.exp(-rate * np.abs(t - t[:, None])))
    mean, true = expected_squares(A, filtered, t, rate)
    np.testing.assert_allclose(mean, true, rtol=0.08)
    without, _ = expected_squares(A, filtered, t, 1e4 * rate)  # negative control: a block for each sample
    assert (without < 0.5 * true).all()


def test_a_combination_that_one_block_determines_has_no_standard_error():
    t = np.linspace(0.0, 4.0, 81)
    A = np.stack([np.ones(81), t < 0.2], axis=-1)[:, None].astype(float)
    assert np.isinf(standard_errors(A, np.sin(t)[:, None], t, 20.0)).all()


@pytest.mark.parametrize("rate", always([100.0, 1000.0], 100.0))
def test_standard_errors_are_the_spread_of_repeated_recordings(rate):
    """Of a hinge, with noise of torques and velocities; `tests/benchmarks/standard_errors.py` has arms."""
    robot, t = hinge(), np.arange(0.0, 6.0, 1.0 / rate)
    angle, w = np.multiply.outer(t, [1.0, 2.3, 3.1]) + [0.0, 1.0, 2.0], np.array([1.0, 2.3, 3.1])
    q, v, a = (
        np.sum(x, axis=1, keepdims=True) for x in (np.sin(angle), w * np.cos(angle), -(w**2) * np.sin(angle))
    )
    tau, rng = mb.inverse_dynamics(robot, q, v, a), np.random.default_rng(9)
    noise = 2e-4 * np.sqrt(rate), 0.05 * np.sqrt(rate)  # rad/s and N m
    runs = [
        control.identify(
            robot,
            q,
            v + noise[0] * rng.standard_normal(v.shape),
            tau + noise[1] * rng.standard_normal(v.shape),
            t,
            cutoff=5.0,
            consistent=False,
        )
        for _ in range(80)
    ]
    true = mb.inertial_parameters(robot).ravel()
    spread = np.std([run.base - run.combinations @ true for run in runs], axis=0)
    claimed = np.sqrt(np.mean([run.standard_errors**2 for run in runs], axis=0))
    assert len(spread) == 3 and (np.abs(claimed / spread - 1.0) < 0.2).all()


def test_the_minimum_is_that_of_scipy():
    """Parameters by the logarithms of Cholesky factors (Rucker and Wensing 2022), without derivatives."""
    robot, (t, q, v, a) = hinge(), motion()
    q, v, a = (x[:, :1] for x in (q, v, a))
    rng = np.random.default_rng(10)
    tau = mb.inverse_dynamics(robot, q, v, a) + 0.5 * rng.standard_normal(q.shape)
    start = mb.inertial_parameters(robot) * 0.5
    options = {"cutoff": CUTOFF, "prior": start, "prior_weight": 40.0}
    found = control.identify(robot, q, v, tau, t, **options)
    free = control.identify(robot, q, v, tau, t, **options, consistent=False)

    rate = 2.0 * np.pi * CUTOFF
    Y_p, Y_e = mb.momentum_regressor(robot, q, v)
    W = rate * (Y_p - low_pass(t, Y_p, rate, Y_p[0])) - low_pass(t, Y_e, rate)
    W, y = W[:, 0], low_pass(t, tau, rate)[:, 0]
    noise = np.sqrt(np.mean((y - W @ free.parameters[0]) ** 2))
    L_0 = np.linalg.cholesky(pseudo_inertias(start[0]))

    def parameters(x):
        factor = np.zeros((4, 4))
        factor[np.tril_indices(4)] = x
        factor[np.diag_indices(4)] = np.exp(np.diag(factor))
        return parameters_of((L_0 @ factor) @ (L_0 @ factor).T)

    def cost(x):
        pi = parameters(x)
        M = np.linalg.solve(pseudo_inertias(start[0]), pseudo_inertias(pi))
        divergence = np.trace(M) - np.log(np.linalg.det(M)) - 4.0
        return np.sum(((W @ pi - y) / noise) ** 2) / 2.0 + 40.0 * divergence

    theirs = minimize(cost, np.zeros(10), method="BFGS", options={"gtol": 1e-6})
    assert relative(found.parameters[0], parameters(theirs.x)) < 1e-4
    assert relative(found.parameters[0], free.parameters[0]) > 1e-3  # the prior counts


def test_noise_makes_the_free_estimate_impossible_and_not_the_constrained_one():
    rng, tau = np.random.default_rng(11), torques(arm())
    tau = tau + 0.3 * np.abs(tau).max(axis=0) * rng.standard_normal(tau.shape)
    free, found = identified(tau, consistent=False), identified(tau)
    assert (np.linalg.eigvalsh(pseudo_inertias(free.parameters)) < 0.0).any()
    assert (np.linalg.eigvalsh(pseudo_inertias(found.parameters)) > 0.0).all()
    assert np.linalg.eigvalsh(mb.mass_matrix(found.model, arm().neutral()))[0] > 0.0
    assert relative(found.residual, free.residual) < 0.1


def test_bodies_that_end_at_the_boundary_of_the_cone_are_named():
    """The last body is a point mass, whose pseudo-inertia is singular: it shrinks with the weight."""
    t, q, v, a = (x[::8] for x in motion())
    bodies, place = mb.inertial_parameters(arm()), np.array([0.02, 0.0, 0.05, 1.0])
    bodies[-1] = parameters_of(0.5 * np.outer(place, place))
    Y, least = mb.regressor(arm(), q, v, v, a), []
    tau = Y @ bodies.ravel()
    for weight in (1.0, 1e-2):
        found = control.identify(arm(), q, v, tau, t, cutoff=2.0, prior_weight=weight)
        assert found.boundary == ("tool",) and "at the boundary: tool" in repr(found)
        least.append(np.linalg.eigvalsh(pseudo_inertias(found.parameters[-1]))[0])
    assert 5.0 < least[0] / least[1] < 200.0  # the root of g on the boundary, g beyond it; within: 1
    # negative controls: a body almost as thin, and no constraint
    L = np.linalg.cholesky(pseudo_inertias(mb.inertial_parameters(arm())[-1]))
    bodies[-1] = parameters_of(L @ np.diag([0.02, 1.0, 1.0, 1.0]) @ L.T)
    assert control.identify(arm(), q, v, Y @ bodies.ravel(), t, cutoff=2.0).boundary == ()
    assert control.identify(arm(), q, v, tau, t, cutoff=2.0, consistent=False).boundary == ()


def test_a_strong_prior_is_kept_and_a_weak_one_matters_only_where_data_are_silent():
    tau = torques(arm())
    strong = identified(tau, prior_weight=1e18)
    weak = identified(tau, prior_weight=1e-6)
    assert relative(strong.parameters, prior()) < 1e-3
    true = mb.inertial_parameters(arm()).ravel()
    assert relative(weak.combinations @ weak.parameters.ravel(), weak.combinations @ true) < 5e-3


def test_steps_of_different_lengths():
    t, q, v, _ = motion()
    some = np.sort(np.random.default_rng(12).choice(len(t), len(t) // 2, replace=False))
    found = control.identify(arm(), q[some], v[some], torques(arm())[some], t[some], cutoff=2.0)
    true = mb.inertial_parameters(arm()).ravel()
    assert relative(found.base, found.combinations @ true) < 0.02


BAD = {
    "times of two axes": ({"times": lambda t: t[None]}, ShapeError, "times"),
    "fewer torques": ({"tau": lambda x: x[1:]}, ShapeError, "tau"),
    "a batch": ({"q": lambda x: x[None]}, ShapeError, "q"),
    "velocities of another robot": ({"v": lambda x: x[:, 1:]}, ShapeError, "v"),
    "NaN": (
        {"tau": lambda x: np.where(np.arange(len(x))[:, None] == 7, np.nan, x)},
        NonFiniteError,
        r"tau\[7",
    ),
    "a time twice": (
        {"times": lambda t: np.concatenate([t[:3], t[2:-1]])},
        ValueError,
        "times must increase",
    ),
    "backwards": ({"times": lambda t: t[::-1]}, ValueError, "times must increase"),
    "too short": ({"times": lambda t: 1e-3 * t}, ValueError, "times"),
    "no cutoff": ({"cutoff": lambda x: 0.0}, ValueError, "cutoff"),
    "a cutoff above half the rate": ({"cutoff": lambda x: 150.0}, ValueError, "cutoff"),
    "a cutoff of text": ({"cutoff": lambda x: "5 Hz"}, TypeError, "cutoff"),
    "a weight": ({"prior_weight": lambda x: -1.0}, ValueError, "prior_weight"),
    "friction in words": ({"friction": lambda x: "viscous"}, TypeError, "friction"),
    "a prior of five bodies": ({"prior": lambda x: x[1:]}, ShapeError, "prior"),
    "a flat prior": ({"prior": lambda x: 0.0 * x}, ModelError, "shoulder"),
    "no robot": ({"model": lambda x: "arm"}, TypeError, "model"),
}


def arguments():
    t, q, v, _ = motion()
    given = {"model": arm(), "q": q, "v": v, "tau": torques(arm()), "times": t}
    return given | {"cutoff": CUTOFF, "friction": False, "prior": prior(), "prior_weight": 1.0}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name(name):
    changes, error, text = BAD[name]
    given = arguments()
    with pytest.raises(error, match=text):
        control.identify(**given | {key: change(given[key]) for key, change in changes.items()})


def test_what_cannot_be_identified():
    few = {key: value[::100] for key, value in arguments().items() if key in ("q", "v", "tau", "times")}
    with pytest.raises(ValueError, match="102 equations for 60 unknowns"):
        control.identify(**arguments() | few | {"cutoff": 0.8})
    at_rest = arguments() | {"model": arm().weightless}
    at_rest["v"] = 0.0 * at_rest["v"]
    with pytest.raises(ValueError, match="neither motion nor weight"):
        control.identify(**at_rest)
    with pytest.raises(TypeError, match="JAX traces"):
        jax.jit(lambda tau: control.identify(**arguments() | {"tau": tau}).parameters)(arguments()["tau"])
    floating = mb.example("quadruped")
    t = np.linspace(0.0, 2.0, 201)
    q, v = np.tile(floating.neutral(), (201, 1)), np.zeros((201, floating.nv))
    q[9, 3:7] = 2.0
    with pytest.raises(PointError):
        control.identify(floating, q, v, v, t, cutoff=5.0)


def test_a_free_joint_has_no_friction():
    floating = mb.example("quadruped")
    t = np.linspace(0.0, 4.0, 201)
    v = 0.3 * np.sin(np.arange(1, floating.nv + 1) * t[:, None])
    q = np.tile(floating.neutral(), (201, 1))
    found = control.identify(floating, q, v, v, t, cutoff=2.0, friction=True)
    base = floating.velocity_slice(floating.joint_names[0])
    assert (found.viscous[base] == 0.0).all() and (found.viscous[base.stop :] != 0.0).all()
    assert not found.combinations[:, -floating.nv :][:, base].any()


def test_a_result_says_what_it_is():
    found = identified(torques(arm()))
    assert re.fullmatch(r"Identification\(rank=36 of 60, condition=.*\)", repr(found))
    unreal = replace(found, parameters=-found.parameters)
    with pytest.raises(ModelError, match="mass"):
        _ = unreal.model
