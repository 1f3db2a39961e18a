"""Identification of what joints add: friction and armature, which have a sign, and offsets of torques."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from mechanisms import assemble
from scipy.optimize import lsq_linear, minimize
from scipy.signal import lfilter

from connections import control
from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError, ShapeError
from connections.control.identification.base_parameters import base_of, dependence, determined, units_of

CUTOFF = 4.0  # Hz
TIMES = np.linspace(0.0, 6.0, 601)
ALL = {"friction": True, "armature": True, "offsets": True}


# --- recordings in closed form ------------------------------------------------------------------------------


def turned(angles):
    """Quaternion (x, y, z, w) and matrix of Rz(a) Ry(b) Rx(c)."""
    a, b, c = angles
    (ca, sa), (cb, sb), (cc, sc) = ((jnp.cos(x), jnp.sin(x)) for x in (a, b, c))
    R = jnp.array(
        [
            [ca * cb, ca * sb * sc - sa * cc, ca * sb * cc + sa * sc],
            [sa * cb, sa * sb * sc + ca * cc, sa * sb * cc - ca * sc],
            [-sb, cb * sc, cb * cc],
        ]
    )
    (ca, sa), (cb, sb), (cc, sc) = ((jnp.cos(x / 2.0), jnp.sin(x / 2.0)) for x in (a, b, c))
    q = [
        ca * cb * sc - sa * sb * cc,
        ca * sb * cc + sa * cb * sc,
        sa * cb * cc - ca * sb * sc,
        ca * cb * cc + sa * sb * sc,
    ]
    return jnp.array(q), R


def recorded(robot, seed, times=TIMES, size=0.5):
    """q, v and a of sums of two sines in each coordinate, angles in place of quaternions."""
    rng, kinds = np.random.default_rng(seed), [type(joint) for joint in robot.kinematics.tree.joints]
    w, phase = rng.uniform(0.5, 4.0, (robot.nv, 2)), rng.uniform(0.0, 6.0, (robot.nv, 2))
    amplitude = size * rng.uniform(0.5, 1.0, (robot.nv, 2)) / w

    def waves(t):
        return jnp.sum(amplitude * jnp.sin(w * t + phase), axis=1)

    def state(t):
        q, v, k, x = [], [], 0, waves(t)
        rate = jax.jvp(waves, (t,), (1.0,))[1]
        for kind in kinds:
            if kind not in (mb.Spherical, mb.Free):
                q.append(x[k : k + 1])
                v.append(rate[k : k + 1])
                k += 1
                continue
            (b, c), (da, db, dc) = x[k + 1 : k + 3], rate[k : k + 3]
            quaternion, R = turned(x[k : k + 3])
            omega = jnp.array(
                [
                    dc - da * jnp.sin(b),
                    db * jnp.cos(c) + da * jnp.cos(b) * jnp.sin(c),
                    da * jnp.cos(b) * jnp.cos(c) - db * jnp.sin(c),
                ]
            )
            if kind is mb.Free:
                q.append(x[k + 3 : k + 6])
                v += [omega, R.T @ rate[k + 3 : k + 6]]
            else:
                v.append(omega)
            q.append(quaternion)
            k += 6 if kind is mb.Free else 3
        return jnp.concatenate(q), jnp.concatenate(v)

    q, v = (np.array(x) for x in jax.vmap(state)(times))
    a = np.array(jax.vmap(lambda t: jax.jvp(lambda s: state(s)[1], (t,), (1.0,))[1])(times))
    return q, v, a


def with_velocity(x, k, q, v, a):
    """The recording in which the coordinate k is the polynomial x of time; joints are hinges and slides."""
    q, v, a = q.copy(), v.copy(), a.copy()
    x = np.polynomial.Polynomial(x) if np.ndim(x) else x
    q[:, k], v[:, k], a[:, k] = x(TIMES), x.deriv(1)(TIMES), x.deriv(2)(TIMES)
    return q, v, a


@cache
def chain():
    """Two hinges and a slide."""
    kinds = mb.Revolute, mb.Revolute, mb.Prismatic
    return assemble(np.random.default_rng(3), kinds, (-1, 0, 1))


def rubbing(robot):
    """Numbers of the velocities of joints that are not free."""
    joints = dict(zip(robot.kinematics.tree.joint_names, robot.kinematics.tree.joints, strict=True))
    found = []
    for name in robot.joint_names:
        own = robot.velocity_slice(name)
        found += [] if isinstance(joints[name], mb.Free) else range(own.start, own.stop)
    return np.array(found)


def loaded(robot, rng):
    """The robot with armature, dependent joints included, and viscous, Coulomb, offset (nv,) each."""
    armature = {name: rng.uniform(0.1, 0.4) for name, value in robot.armature.items() if len(value)}
    own = np.zeros((3, robot.nv))
    own[:, rubbing(robot)] = rng.uniform(0.1, 0.5, (3, len(rubbing(robot))))
    return robot.with_armature(armature), *own


def theta_of(robot, viscous=None, coulomb=None, armature=False, offsets=None):
    """Inertial parameters and what is given, in the order of the columns of `combinations`."""
    parts = [mb.inertial_parameters(robot).ravel()]
    parts += [x for x in (viscous, coulomb) if x is not None]
    if armature:
        joints = robot.kinematics.tree.joints
        for joint, value in zip(joints, robot.armature.values(), strict=True):
            groups = {mb.Spherical: [0], mb.Free: [0, 3]}.get(type(joint), range(len(value)))
            parts.append(value[list(groups)])
    return np.concatenate([*parts, *([] if offsets is None else [offsets])])


ROBOTS = {
    "a chain": ((mb.Revolute, mb.Prismatic), (-1, 0)),
    "a ball joint": ((mb.Spherical, mb.Revolute), (-1, 0)),
    "a floating base": ((mb.Free, mb.Revolute), (-1, 0)),
    "a tree": ((mb.Revolute, mb.Spherical, mb.Prismatic), (-1, 0, 0)),
    "a floating base with a ball": ((mb.Free, mb.Spherical), (-1, 0)),
}
SOME = [name if k < 3 else further(name) for k, name in enumerate(ROBOTS)]


@pytest.mark.parametrize("consistent", [True, further(False)])
@pytest.mark.parametrize("name", [*SOME, "a closed chain"])
def test_exact_recordings_give_friction_armature_and_offsets_back(name, consistent, rng):
    """All base parameters; the values of those that data determine by themselves; the right robot's."""
    robot = mb.example("four_bar") if name == "a closed chain" else assemble(rng, *ROBOTS[name])
    true, viscous, _, offsets = loaded(robot, rng)
    q, v, a = recorded(robot, 5, size=0.1 if name == "a closed chain" else 0.5)
    if name == "a closed chain":
        q = robot.neutral() + q
    tau = mb.inverse_dynamics(true, q, v, a) + viscous * v + offsets
    found = control.identify(robot, q, v, tau, TIMES, cutoff=CUTOFF, **ALL, consistent=consistent)
    theta = theta_of(true, viscous, np.zeros(robot.nv), True, offsets)
    base = found.combinations @ theta
    np.testing.assert_allclose(found.base, base, rtol=0.0, atol=1e-4 * np.abs(base).max())
    np.testing.assert_allclose(found.viscous, viscous, atol=1e-3)
    np.testing.assert_allclose(found.coulomb, 0.0, atol=1e-3)
    values = theta_of(found.model if consistent else robot, found.viscous, found.coulomb, True, found.offsets)
    alone = np.sum(found.combinations != 0.0, axis=1) == 1
    if consistent:
        np.testing.assert_allclose(found.combinations[alone] @ values, base[alone], atol=1e-3)
        for joint, value in true.armature.items():
            if not any(f"joint '{joint}'" in each for each in found.undetermined):
                np.testing.assert_allclose(found.armature[joint], value, atol=1e-3)
    # negative controls: what is left out is attributed to something else
    for left in ("armature", "offsets"):
        without = control.identify(
            robot, q, v, tau, TIMES, cutoff=CUTOFF, **ALL | {left: False}, consistent=False
        )
        options = {"viscous": viscous, "coulomb": 0.0 * viscous, "armature": True, "offsets": offsets}
        rest = theta_of(true, **options | {left: False if left == "armature" else None})
        gap = np.abs(without.base - without.combinations @ rest).max()
        assert gap > 1e-2 * np.abs(base).max()


@pytest.mark.parametrize("seed", [0, 1, *(further(seed) for seed in range(2, 8))])
def test_random_robots_with_coulomb_friction(seed):
    """Torques of another motion, and friction, from a recording with all of it."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice([mb.Revolute, mb.Prismatic, mb.Spherical], 2 + seed % 2)
    robot = assemble(rng, tuple(kinds), tuple(range(-1, len(kinds) - 1)))
    true, viscous, coulomb, offsets = loaded(robot, rng)
    q, v, a = recorded(robot, seed)
    tau = mb.inverse_dynamics(true, q, v, a) + viscous * v + coulomb * np.sign(v) + offsets
    found = control.identify(robot, q, v, tau, TIMES, cutoff=CUTOFF, **ALL)
    np.testing.assert_allclose(found.viscous, viscous, atol=0.03)
    np.testing.assert_allclose(found.coulomb, coulomb, atol=0.03)
    q, v, a = recorded(robot, seed + 100, size=0.3)
    ours, theirs, before = (mb.inverse_dynamics(each, q, v, a) for each in (found.model, true, robot))
    gap = ours + found.offsets - theirs - offsets  # weight may be told apart from offsets, or not
    assert np.abs(gap).max() < 0.02 * np.abs(theirs).max()
    assert np.linalg.norm(gap) < 0.2 * np.linalg.norm(before - theirs)  # negative control


# --- the sign, and priors -----------------------------------------------------------------------------------


def test_signed_unknowns_are_those_of_bounded_least_squares():
    """Without the cones of bodies, whose weight is small; a filter of SciPy's, accelerations as they are.

    Friction of some joints is zero: half of the estimates of noisy data are negative without the sign.
    """
    robot, rng = chain(), np.random.default_rng(4)
    q, v, a = recorded(robot, 2)
    viscous, coulomb, offsets = (
        np.array([0.0, 0.3, 0.0]),
        np.array([0.2, 0.0, 0.0]),
        np.array([0.1, 0.0, -0.2]),
    )
    true = robot.with_armature(dict(zip(robot.joint_names, [0.2, 0.0, 0.5], strict=True)))
    exact = mb.inverse_dynamics(true, q, v, a) + viscous * v + coulomb * np.sign(v) + offsets
    tau = exact + 0.2 * rng.standard_normal(exact.shape)
    given = {"cutoff": CUTOFF, **ALL, "prior_weight": 1e-3}
    found = control.identify(robot, q, v, tau, TIMES, **given)
    free = control.identify(robot, q, v, tau, TIMES, **given, consistent=False)

    decay = np.exp(-2.0 * np.pi * CUTOFF * TIMES[1])
    low = [[(1.0 - decay) / 2.0] * 2, [1.0, -decay]]
    n, bodies = robot.nv, mb.regressor(robot, q, v, v, a)
    further_ones = np.zeros((len(TIMES), n, 4 * n))
    for k in range(n):
        further_ones[:, k, k::n] = np.stack(
            [v[:, k], np.sign(v[:, k]), a[:, k], np.ones(len(TIMES))], axis=-1
        )
    W = lfilter(*low, np.concatenate([bodies, further_ones], axis=-1), axis=0)
    y = lfilter(*low, tau, axis=0)
    fit = np.linalg.lstsq(W.reshape(y.size, -1), y.ravel(), rcond=1e-9)[0]
    noise = np.sqrt(np.mean((y - W @ fit) ** 2, axis=0))
    A = (W / noise[:, None]).reshape(y.size, -1)
    signed = np.zeros(W.shape[-1], dtype=bool)
    signed[bodies.shape[-1] : bodies.shape[-1] + 3 * n] = True
    theirs = lsq_linear(A, (y / noise).ravel(), (np.where(signed, 0.0, -np.inf), np.inf), tol=1e-12).x
    ours = np.concatenate([found.viscous, found.coulomb])
    np.testing.assert_allclose(ours, theirs[signed][: 2 * n], atol=1e-3)
    assert (ours >= 0.0).all()
    least = np.concatenate([free.viscous, free.coulomb])
    assert (least < -1e-2).any() and np.abs(least - ours).max() > 1e-2  # negative control
    zero = [each for each in found.boundary if "friction" in each]
    assert len(zero) == np.sum(ours < 1e-4) == 3


def hinge():
    return assemble(np.random.default_rng(7), (mb.Revolute,), (-1,))


def noisy_hinge():
    """Its recording, with friction and noise."""
    q, v, a = recorded(hinge(), 3)
    noise = 0.3 * np.random.default_rng(8).standard_normal(v.shape)
    return q, v, mb.inverse_dynamics(hinge(), q, v, a) + 0.3 * v + 0.2 * np.sign(v) + noise


def test_the_minimum_with_a_prior_of_friction_is_that_of_scipy():
    """Friction by its logarithm, bodies as far as data see them: their prior is the truth, and is strong."""
    q, v, tau = noisy_hinge()
    prior, weight = np.array([0.05, 0.8]), 50.0
    options = {"cutoff": CUTOFF, "friction": True, "prior_weight": weight}
    found = control.identify(hinge(), q, v, tau, TIMES, **options, friction_prior=prior)
    free = control.identify(hinge(), q, v, tau, TIMES, **options, consistent=False)
    pi = found.parameters.ravel()  # given these, friction minimizes the cost

    rate = 2.0 * np.pi * CUTOFF
    decay, h = np.exp(-rate * TIMES[1]), TIMES[1]

    def low(x):  # exact for lines
        y, gain = np.zeros(len(x)), 1.0 - (1.0 - decay) / (rate * h)
        for k in range(1, len(x)):
            y[k] = decay * y[k - 1] + (1.0 - decay - gain) * x[k - 1] + gain * x[k]
        return y

    a = recorded(hinge(), 3)[2]
    rest = low(tau[:, 0] - (mb.regressor(hinge(), q, v, v, a) @ pi)[:, 0])
    both = np.stack([low(v[:, 0]), low(np.sign(v[:, 0]))], axis=1)
    noise = free.residual[0]

    def cost(x):
        ratio = np.exp(x) / prior
        chi = np.sum(((rest - both @ np.exp(x)) / noise) ** 2)
        return chi / 2.0 + weight * np.sum(ratio - np.log(ratio) - 1.0)

    theirs = np.exp(minimize(cost, np.log(prior), method="BFGS", options={"gtol": 1e-8}).x)
    ours = np.array([found.viscous[0], found.coulomb[0]])
    np.testing.assert_allclose(ours, theirs, rtol=5e-3)
    assert np.abs(ours / [free.viscous[0], free.coulomb[0]] - 1.0).max() > 0.03  # the prior counts


def test_friction_that_data_alone_would_make_negative_is_zero():
    """Within a hundredth of its standard error, with a prior of the bodies of the usual weight."""
    q, v, tau = noisy_hinge()
    given = {"cutoff": CUTOFF, "friction": True}
    free = control.identify(hinge(), q, v, tau, TIMES, **given, consistent=False)
    row = int(np.flatnonzero(free.combinations[:, 10])[0])
    estimate, error = free.viscous[0], free.standard_errors[row]
    for deviations in (0.0, 3.0):  # of least squares, below zero
        less = tau - (estimate + deviations * error) * v
        found = control.identify(hinge(), q, v, less, TIMES, **given)
        assert 0.0 < found.viscous[0] < 0.02 * error
    assert found.boundary == (f"viscous friction of joint '{hinge().joint_names[0]}'",)
    positive = control.identify(hinge(), q, v, tau, TIMES, **given)
    assert positive.boundary == () and abs(positive.viscous[0] - estimate) < 0.5 * error


def test_only_a_prior_that_is_given_draws_friction():
    """The damping of a file does not, nor does the weight of the bodies' prior, which is right."""
    q, v, tau = noisy_hinge()
    name = hinge().joint_names[0]
    file = hinge().with_passive(mb.joints.Passive(damping={name: 50.0}, friction={name: 1e-3}))
    given = {"cutoff": CUTOFF, "friction": True}
    plain = control.identify(hinge(), q, v, tau, TIMES, **given)
    of_file = control.identify(file, q, v, tau, TIMES, **given)
    np.testing.assert_allclose(of_file.viscous, plain.viscous, rtol=1e-4)
    np.testing.assert_allclose(of_file.coulomb, plain.coulomb, rtol=1e-4)
    strong = {**given, "prior_weight": 1e6}
    heavy = control.identify(hinge(), q, v, tau, TIMES, **strong)
    kept = control.identify(hinge(), q, v, tau, TIMES, **strong, friction_prior=(50.0, 1e-3))
    assert abs(heavy.viscous[0] - 0.3) < 0.1 and abs(heavy.coulomb[0] - 0.2) < 0.1
    assert kept.viscous[0] > 3.0 and kept.coulomb[0] < 2e-3  # negative control
    one = control.identify(hinge(), q, v, tau, TIMES, **strong, friction_prior=(0.0, 1e-3))
    assert one.coulomb[0] < 2e-3 and 0.3 < one.viscous[0] < 0.8  # an entry that is zero has no prior


# --- what a recording does not say --------------------------------------------------------------------------


def chains_recording(k=None, x=None, noise=0.0, offset=0.1):
    """q, v and tau of a chain with friction, whose coordinate k is the polynomial x."""
    recording = recorded(chain(), 6)
    q, v, a = recording if k is None else with_velocity(x, k, *recording)
    tau = mb.inverse_dynamics(chain(), q, v, a) + 0.3 * v + 0.2 * np.sign(v) + offset
    rng = np.random.default_rng(9)
    return q, v + noise * rng.standard_normal(v.shape), tau


def identified(recording, **options):
    return control.identify(chain(), *recording, TIMES, cutoff=CUTOFF, friction=True, **options)


@pytest.mark.parametrize("noise", [0.0, 1e-5])
@pytest.mark.parametrize("consistent", [True, further(False)])
@pytest.mark.parametrize("still", [0, further(1), further(2)])
def test_friction_of_a_joint_that_stands_still(still, consistent, noise):
    """Exactly, or as far as the noise of its velocity shows; others are found, and it is named."""
    recording = chains_recording(still, [0.3], noise, 0.0)
    found = identified(recording, consistent=consistent)
    moving = [k for k in range(3) if k != still]
    np.testing.assert_allclose(found.viscous[moving], 0.3, atol=0.01)
    np.testing.assert_allclose(found.coulomb[moving], 0.2, atol=0.01)
    assert found.viscous[still] == found.coulomb[still] == 0.0
    (said,) = found.undetermined
    assert f"joint '{chain().joint_names[still]}'" in said and "its friction is not" in said
    assert ("stands still" in said) == (noise == 0.0) and said in repr(found)
    name = chain().joint_names[still]
    believed = chain().with_passive(mb.joints.Passive(damping={name: 0.7}))
    kept = control.identify(believed, *recording, TIMES, cutoff=CUTOFF, friction=True, consistent=consistent)
    given = identified(
        recording, consistent=consistent, friction_prior=([0.4] * 3, [0.6] * 3), prior_weight=1e-4
    )
    assert kept.viscous[still] == 0.7 and kept.coulomb[still] == 0.0  # the model's
    assert given.viscous[still] == 0.4 and given.coulomb[still] == 0.6
    np.testing.assert_allclose(given.viscous[moving], 0.3, atol=0.01)
    assert identified(chains_recording(offset=0.0)).undetermined == ()  # negative control


def test_a_joint_that_moves_slowly_moves():
    """Hardly more than the noise is not noise; nor is a motion that few samples resolve."""
    t, k = TIMES, 0
    q, v, a = (x.copy() for x in recorded(chain(), 6))
    q[:, k], v[:, k], a[:, k] = 0.02 * np.sin(2.0 * t), 0.04 * np.cos(2.0 * t), -0.08 * np.sin(2.0 * t)
    tau = mb.inverse_dynamics(chain(), q, v, a) + 0.3 * v + 0.2 * np.sign(v)
    noise = 0.005 * np.random.default_rng(1).standard_normal(v.shape)
    found = identified((q, v + noise, tau))
    assert found.undetermined == () and abs(found.coulomb[k] - 0.2) < 0.03
    coarse = slice(None, None, 10)  # 10 Hz, a cutoff of 4 Hz, motions up to 0.6 Hz
    few = control.identify(chain(), q[coarse], v[coarse], tau[coarse], t[coarse], cutoff=4.0, friction=True)
    assert few.undetermined == ()


ONE_WAY, ONE_SPEED = [0.0, 0.9, -0.15, 0.05 / 3.0], [0.0, 0.5]  # of velocities above 0.45, and of 0.5


@pytest.mark.parametrize(
    ("x", "offsets", "words", "values"),
    [
        (ONE_WAY, False, None, (0.3, 0.2, 0.0)),
        (ONE_WAY, True, ("one direction", "Coulomb", "offset"), (0.3, 0.0, 0.3)),
        (ONE_SPEED, False, ("one velocity", "Coulomb", "viscous"), (0.3 + 0.2 / 0.5, 0.0, 0.0)),
        (ONE_SPEED, True, ("one velocity", "friction", "offset"), (0.0, 0.0, 0.1 + 0.2 + 0.15)),
    ],
)
@pytest.mark.parametrize("k", [0, further(1)])
def test_a_joint_that_never_turns_back(x, offsets, words, values, k):
    """Friction that is like a constant torque: the sum is found, and words say of what."""
    found = identified(chains_recording(k, x, offset=0.1 * offsets), offsets=offsets)
    ours = found.viscous[k], found.coulomb[k], found.offsets[k]
    np.testing.assert_allclose(ours, values, atol=0.02)
    name = chain().joint_names[k]
    said = [each for each in found.undetermined if name in each]
    assert len(said) == (words is not None)
    assert all(word in said[0] for word in words or ())
    others = [j for j in range(3) if j != k]
    np.testing.assert_allclose(found.coulomb[others], 0.2, atol=0.01)
    # what data determine is in the base parameters: the sum only, if words say so
    theta = theta_of(chain(), np.full(3, 0.3), np.full(3, 0.2), False, np.full(3, 0.1) if offsets else None)
    np.testing.assert_allclose(found.base, found.combinations @ theta, atol=0.02)
    alone = np.zeros(found.combinations.shape[1])
    alone[len(chain().body_names) * 10 + 3 + k] = 1.0  # Coulomb
    rest = alone - found.combinations.T @ np.linalg.lstsq(found.combinations.T, alone)[0]
    assert (np.linalg.norm(rest) < 1e-6) == (words is None)


def test_armature_is_told_apart_from_bodies_or_said_not_to_be(rng):
    """That of a first joint is not: bodies stay at their prior, and it is the rest."""
    true = chain().with_armature(dict(zip(chain().joint_names, [0.3, 0.2, 0.5], strict=True)))
    q, v, a = recorded(chain(), 6)
    tau = mb.inverse_dynamics(true, q, v, a)
    found = control.identify(chain(), q, v, tau, TIMES, cutoff=CUTOFF, armature=True)
    first, second, third = chain().joint_names
    (said,) = found.undetermined
    assert first in said and "armature" in said and "bodies" in said
    np.testing.assert_allclose(found.armature[second], 0.2, atol=1e-4)
    np.testing.assert_allclose(found.armature[first], 0.3, atol=0.02)
    wrong = mb.inertial_parameters(chain()) * [[3.0], [1.0], [1.0]]
    other = control.identify(
        chain(), q, v, tau, TIMES, cutoff=CUTOFF, armature=True, prior=wrong, prior_weight=100.0
    )
    assert abs(other.armature[first][0] - 0.3) > 0.05  # the bodies' prior decides, as said
    np.testing.assert_allclose(other.armature[second], 0.2, atol=1e-4)
    np.testing.assert_allclose(other.armature[third], 0.5, atol=1e-4)
    known = control.identify(true, q, v, tau, TIMES, cutoff=CUTOFF)
    assert known.undetermined == () and (known.armature[first] == 0.3).all()


def test_nothing_moves():
    """Weight and offsets are all that there is."""
    q = np.tile([0.3, -0.4, 0.1], (len(TIMES), 1))
    v = np.zeros_like(q)
    found = identified((q, v, mb.gravity(chain(), q) + 0.1), armature=True, offsets=True)
    assert not found.viscous.any() and not found.coulomb.any()
    for name in chain().joint_names:
        assert any(name in each and "friction and its armature" in each for each in found.undetermined)
    np.testing.assert_allclose(
        mb.gravity(found.model, q) + found.offsets, mb.gravity(chain(), q) + 0.1, atol=1e-4
    )


def test_what_linear_equations_determine_by_themselves(rng):
    """Of random columns, two of which depend on others: those whose unit vectors are sums of rows."""
    W = rng.standard_normal((40, 2, 14))  # a body, and four unknowns of two kinds
    W[..., 12] = 0.5 * W[..., 11] - 3.0 * W[..., 2]
    W[..., 13] = 2.0 * W[..., 10]
    units = units_of(W, np.array([0, 0, 1, 1]))
    R = np.linalg.qr((W * units).reshape(80, 14), mode="r")
    B, own, _ = base_of(R, units)
    rows = np.linalg.svd(W.reshape(80, 14))[2][:12]  # span what is determined
    expected = np.linalg.norm(rows, axis=0) > 1.0 - 1e-9
    assert (determined(B, own, units) == expected).all() and expected.sum() == 9
    dependent, coefficients = dependence(W[..., 10:].reshape(80, 4))
    assert dependent.tolist() == [False, False, False, True]
    np.testing.assert_allclose(coefficients[3], [2.0, 0.0, 0.0, 0.0], atol=1e-12)
    assert not coefficients[:3].any()


# --- results ------------------------------------------------------------------------------------------------


def test_the_model_has_what_was_found():
    """Its torques are those of the recording: springs stay, and no dependent joint has damping of its own."""
    robot = mb.example("four_bar")
    driven, passive = robot.joint_names[0], [name for name in robot.armature if name not in robot.joint_names]
    spring = mb.joints.Spring("spring", {driven: 1.0}, stiffness=2.0)
    file = mb.joints.Passive(
        (spring,), damping=dict.fromkeys([driven, *passive], 9.0), friction={driven: 8.0}
    )
    robot = robot.with_passive(file)
    true = robot.with_armature(dict.fromkeys(robot.armature, 0.3)).with_passive(
        mb.joints.Passive((spring,), damping={driven: 0.4}, friction={driven: 0.2})
    )
    q, v, a = recorded(robot, 5, size=0.1)
    q = robot.neutral() + q
    tau = mb.inverse_dynamics(true, q, v, a) + 0.4 * v + 0.2 * np.sign(v)
    found = control.identify(robot, q, v, tau, TIMES, cutoff=CUTOFF, friction=True, armature=True)
    np.testing.assert_allclose(found.model.passive.damping[driven], 0.4, atol=0.01)
    np.testing.assert_allclose(found.model.passive.friction[driven], 0.2, atol=0.01)
    ours, theirs = (
        mb.inverse_dynamics(each, q, v, a) - each.passive_forces(q, v) for each in (found.model, true)
    )
    np.testing.assert_allclose(ours, theirs, atol=0.02 * np.abs(theirs).max())
    before = mb.inverse_dynamics(robot, q, v, a) - robot.passive_forces(q, v)
    assert np.abs(before - theirs).max() > 0.1 * np.abs(theirs).max()  # negative control
    without = control.identify(robot, q, v, tau, TIMES, cutoff=CUTOFF)
    assert without.model.passive.damping[driven] == 9.0 and not without.viscous.any()
    assert all((without.armature[name] == robot.armature[name]).all() for name in robot.armature)
    with pytest.raises(ModelError, match="friction is negative"):
        _ = replace(found, coulomb=-found.coulomb).model
    with pytest.raises(ModelError, match="armature is negative"):
        _ = replace(found, armature={name: -value for name, value in found.armature.items()}).model


def test_standard_errors_of_all_are_the_spread_of_repeated_recordings():
    robot, rng = hinge(), np.random.default_rng(12)
    times = TIMES[::3]
    q, v, a = recorded(robot, 3, times)
    true = robot.with_armature({robot.joint_names[0]: 0.2})
    exact = mb.inverse_dynamics(true, q, v, a) + 0.3 * v + 0.2 * np.sign(v) + 0.1
    theta = theta_of(true, [0.3], [0.2], True, [0.1])
    runs = [
        control.identify(
            robot,
            q,
            v,
            exact + 0.3 * rng.standard_normal(v.shape),
            times,
            cutoff=CUTOFF,
            **ALL,
            consistent=False,
        )
        for _ in range(80)
    ]
    errors = np.array([run.base - run.combinations @ theta for run in runs])
    spread, claimed = (
        np.std(errors, axis=0),
        np.sqrt(np.mean([run.standard_errors**2 for run in runs], axis=0)),
    )
    assert runs[0].rank == 3 + 3 and runs[0].combinations.shape == (6, 14)
    assert (np.abs(claimed / spread - 1.0) < 0.25).all()
    assert (np.abs(np.mean(errors, axis=0)) < 0.5 * spread).all()


BAD = {
    "of another robot": ({"friction_prior": np.ones((2, 4))}, ShapeError, "friction_prior"),
    "of three": ({"friction_prior": [1.0, 1.0, 1.0]}, ShapeError, "friction_prior"),
    "a number": ({"friction_prior": 1.0}, ShapeError, "friction_prior"),
    "negative": ({"friction_prior": (0.1, -0.1)}, ValueError, "friction_prior"),
    "NaN": ({"friction_prior": (np.nan, 0.1)}, NonFiniteError, "friction_prior"),
    "text": ({"friction_prior": "light"}, TypeError, "friction_prior"),
    "no friction": ({"friction_prior": (0.1, 0.1), "friction": False}, ValueError, "friction=True"),
    "armature in words": ({"armature": "all"}, TypeError, "armature"),
    "offsets in numbers": ({"offsets": 1}, TypeError, "offsets"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name(name):
    changes, error, text = BAD[name]
    q, v, tau = chains_recording()
    with pytest.raises(error, match=text):
        control.identify(chain(), q, v, tau, TIMES, **{"cutoff": CUTOFF, "friction": True} | changes)
