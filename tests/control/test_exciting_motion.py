"""Exciting motions: within limits at all times, and better conditioned than random ones; what is refused."""

from functools import cache

import numpy as np
import pytest

from connections import control
from connections import multibody as mb
from connections.checks import ModelError, ShapeError

ACCELERATION = 10.0  # rad/s^2


@cache
def found():
    """For the arm, of which 36 parameters can be identified."""
    return control.exciting_motion(mb.example("arm"), acceleration=ACCELERATION)


@cache
def hinge():
    robot = mb.Mechanism()
    robot.add_body("rod", 2.0, (0.3, 0.0, 0.1), 0.1 * np.diag([1.0, 2.0, 2.5]))
    robot.add_joint("hinge", "world", "rod", mb.Revolute((0.0, 1.0, 0.0)))
    return robot.build()


def test_limits_hold_at_all_times_and_are_reached():
    limits, motion = mb.example("arm").limits, found()
    t = np.random.default_rng(0).uniform(0.0, 3.0 * motion.duration, 20_000)  # between the samples, too
    q, v, a = motion.at(t)
    middle, half = (limits.lower + limits.upper) / 2.0, (limits.upper - limits.lower) / 2.0
    shares = [np.abs(q - middle) / half, np.abs(v) / limits.velocity, np.abs(a) / ACCELERATION]
    largest = np.max(shares, axis=(1,))
    assert (largest <= 1.0).all()
    assert (largest.max(axis=0) > 0.98).all()  # every joint reaches one of its limits


def test_it_is_periodic_begins_at_rest_and_its_rates_are_derivatives():
    motion, h = found(), 1e-5
    q, v, a = motion.at([0.0, motion.duration, 2.0 * motion.duration])
    np.testing.assert_allclose(q, q[:1].repeat(3, axis=0), atol=1e-12)
    assert np.abs(v).max() < 1e-12 and np.abs(a).max() < 1e-12
    t = np.linspace(0.1, 9.0, 7)
    (q, v, _), (after, v_after, _), (_, v_mid, a_mid) = (motion.at(t + s) for s in (0.0, h, h / 2.0))
    np.testing.assert_allclose((after - q) / h, v_mid, atol=1e-8)
    np.testing.assert_allclose((v_after - v) / h, a_mid, atol=1e-8)
    assert np.abs(v).max() > 0.5


def test_the_condition_is_that_of_the_regressor_and_less_than_that_of_random_motions():
    """By NumPy from the columns, at other times than those of the search; `identify` reports the same."""
    arm, motion = mb.example("arm"), found()
    t = np.linspace(0.0, motion.duration, 998, endpoint=False)
    q, v, a = motion.at(t)
    Y = mb.regressor(arm, q, v, v, a)
    kind = np.tile([0, 1, 1, 1, 2, 2, 2, 2, 2, 2], 6)
    norms = np.linalg.norm(Y, axis=(0, 1))
    Y = Y / np.array([norms[kind == k].max() for k in kind])
    Y = Y / np.sqrt(np.mean(Y**2, axis=(0, 2)))[:, None]
    singular = np.linalg.svd(Y.reshape(-1, 60), compute_uv=False)
    assert motion.rank == 36 and singular[36] < 1e-10 * singular[0]
    assert motion.condition == pytest.approx(singular[0] / singular[35], rel=1e-3)
    assert 1.4 * motion.condition < motion.random[0] and 4.0 * motion.condition < np.median(motion.random)
    assert (np.diff(motion.random) >= 0.0).all()
    recorded = control.identify(arm, q, v, mb.inverse_dynamics(arm, q, v, a), t, cutoff=5.0)
    assert recorded.condition == pytest.approx(motion.condition, rel=0.1)
    assert f"condition {motion.condition:.3g}" in repr(motion) and f"{motion.random[0]:.3g}" in repr(motion)


def test_what_is_determined_worst_is_determined_better_than_by_sines():
    """Beside one sine in each joint, as large as the limits allow: singular values in units of one kind."""
    arm, motion, t = mb.example("arm"), found(), np.linspace(0.0, 10.0, 400, endpoint=False)
    w, limits = np.arange(1, 7) * 2.0 * np.pi / 10.0, arm.limits
    size, angle = (
        np.minimum(limits.upper, np.minimum(limits.velocity / w, ACCELERATION / w**2)),
        t[:, None] * w,
    )
    sines = size * np.sin(angle), size * w * np.cos(angle), -size * w**2 * np.sin(angle)
    least = []
    for q, v, a in (motion.at(t), sines):
        Y = mb.regressor(arm, q, v, v, a) / np.array([[100.0], [100.0], [30.0], [3.0], [3.0], [0.3]])  # N m
        least.append(np.linalg.svd(Y.reshape(-1, 60), compute_uv=False)[35])
    assert least[0] > 2.0 * least[1]


def test_torques_are_within_limits_and_seeds_decide():
    """A rod of 2 kg on a horizontal hinge, whose motor can hold it in all postures, and not much more."""
    robot = hinge()
    limits = mb.joints.Limits(-1.5, 1.5, velocity=20.0, effort=7.0)
    motions = [control.exciting_motion(robot, limits, duration=2.0, seed=seed) for seed in (0, 0, 1)]
    q, v, a = motions[0].at(np.linspace(0.0, 2.0, 3001))
    tau = np.abs(mb.inverse_dynamics(robot, q, v, a)).max()
    assert 6.0 < tau <= 7.0
    free = control.exciting_motion(robot, mb.joints.Limits(-1.5, 1.5, velocity=20.0), duration=2.0)
    q, v, a = free.at(np.linspace(0.0, 2.0, 3001))
    assert np.abs(mb.inverse_dynamics(robot, q, v, a)).max() > 7.0  # negative control
    assert np.array_equal(motions[0].sines, motions[1].sines)
    assert not np.array_equal(motions[0].sines, motions[2].sines)


def test_a_closed_loop_moves_its_independent_joint():
    robot = mb.example("four_bar")
    motion = control.exciting_motion(robot, mb.joints.Limits(-0.5, 0.5, velocity=2.0))
    q, v, _ = motion.at(np.linspace(0.0, 10.0, 501))
    assert motion.rank == 8 and motion.condition <= motion.random[0]
    assert np.abs(q).max() <= 0.5 and np.abs(v).max() <= 2.0


BAD = {
    "a floating base": ({"model": lambda: mb.example("quadruped")}, ModelError, "quaternion"),
    "no robot": ({"model": lambda: "arm"}, TypeError, "model"),
    "limits that are numbers": ({"limits": lambda: 2.0}, TypeError, "limits"),
    "no limits": ({"limits": mb.joints.Limits}, ValueError, "joint 'hinge' has neither"),
    "limits of two joints": (
        {"limits": lambda: mb.joints.Limits(velocity=[1.0, 2.0])},
        ShapeError,
        "velocity",
    ),
    "limits in the wrong order": (
        {"limits": lambda: mb.joints.Limits(1.0, -1.0)},
        ValueError,
        "'hinge' .* upper",
    ),
    "an angle without a ball": (
        {"limits": lambda: mb.joints.Limits(-1.0, 1.0, angle=1.0)},
        ValueError,
        "angle",
    ),
    "a joint that stands": (
        {"limits": lambda: mb.joints.Limits(velocity=0.0)},
        ValueError,
        "'hinge' .* velocity",
    ),
    "a motor too weak": (
        {"limits": lambda: mb.joints.Limits(-0.5, 0.5, effort=1.0)},
        ValueError,
        "'hinge' .* weight",
    ),
    "a negative acceleration": ({"acceleration": lambda: -1.0}, ValueError, "acceleration"),
    "not a number": ({"acceleration": lambda: np.nan}, ValueError, "acceleration"),
    "no time": ({"duration": lambda: 0.0}, ValueError, "duration"),
    "one harmonic": ({"harmonics": lambda: 1}, ValueError, "harmonics"),
    "a seed of text": ({"seed": lambda: "one"}, TypeError, "seed"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name(name):
    changes, error, text = BAD[name]
    given = {"model": hinge, "limits": lambda: mb.joints.Limits(-0.5, 0.5, velocity=1.0)} | changes
    with pytest.raises(error, match=text):
        control.exciting_motion(**{key: value() for key, value in given.items()})
