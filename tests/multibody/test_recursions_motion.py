"""The recursions along motions, and far from the world origin.

Energy and momentum along free motions are conserved to the order of the integrator; what a mechanism's
mass matrix and forces are does not depend on where it stands.
"""

import jax
import numpy as np
import pytest
from cases import further
from closed_chains import add_four_bar
from closed_plan import Plan
from mechanisms import (
    MOVING,
    assemble,
    configuration_rate,
    extend,
    multiply,
    normalized,
    random_body,
    random_mechanism,
    random_placement,
    rotate,
    sample,
)
from recursion_functions import configurations
from robots import robot_path

from connections import multibody as mb
from connections.multibody.definition.recursions import DEFINITIONS

STEPS = (8, 16, 32, 64)

pytestmark = pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")


def free_fall(model, q, v):
    """(qdot, vdot) without joint forces."""
    return configuration_rate(model, q, v), mb.forward_dynamics(model, q, v, np.zeros(model.nv))


def without_coriolis(model, q, v):
    """Wrong on purpose: the Coriolis terms are compensated."""
    tau = mb.coriolis_product(model, q, v, v)
    return configuration_rate(model, q, v), mb.forward_dynamics(model, q, v, tau)


def world_rates(model, q, v):
    """Wrong on purpose: the angular velocity of the floating base taken in world axes."""
    q_dot, v_dot = free_fall(model, q, v)
    q_dot[3:7] = 0.5 * multiply(np.append(v[:3], 0.0), q[3:7])
    return q_dot, v_dot


def integrate(model, rates, q, v, time, steps):
    """(q, v) after `time` by the classical Runge-Kutta method; quaternions scaled at every stage."""
    h = time / steps
    for _ in range(steps):
        slopes, weights = [], (1.0, 2.0, 2.0, 1.0)
        for ahead in (0.0, 0.5, 0.5, 1.0):
            dq, dv = slopes[-1] if slopes else (0.0, 0.0)
            slopes.append(rates(model, normalized(model, q + ahead * h * dq), v + ahead * h * dv))
        q = normalized(model, q + h / 6.0 * sum(w * dq for w, (dq, _) in zip(weights, slopes, strict=True)))
        v = v + h / 6.0 * sum(w * dv for w, (_, dv) in zip(weights, slopes, strict=True))
    return q, v


def observed_order(errors):
    """Order between the two finest steps."""
    return np.log2(errors[-2] / errors[-1])


def drifts(model, rates, invariant, q, v, time):
    """Largest change of `invariant`(q, v), relative to its largest entry, for every number of steps."""
    start = invariant(q, v)
    ends = [invariant(*integrate(model, rates, q, v, time, steps)) for steps in STEPS]
    return np.array([np.max(np.abs(end - start)) for end in ends]) / np.max(np.abs(start))


def anymal(gravity=(0.0, 0.0, -9.81)):
    return mb.from_urdf(robot_path("anymal"), floating_base=True).with_gravity(gravity)


def test_energy_is_conserved(rng):
    """A mechanism of all joint types under gravity: the drift falls with the fourth power of the step."""
    model = random_mechanism(rng, 10, MOVING, massless=0.3)
    potential = jax.jit(model.potential_at)

    def energy(q, v):
        return 0.5 * v @ mb.mass_matrix(model, q) @ v + float(potential(q))

    q, v = sample(model, rng)
    errors = drifts(model, free_fall, energy, q, 0.5 * v, 0.1)
    assert errors[-1] < 1e-8 and observed_order(errors) > 3.7, errors
    wrong = drifts(model, without_coriolis, energy, q, 0.5 * v, 0.1)  # negative control
    assert wrong[-1] > 1e-4 and observed_order(wrong) < 1.0, wrong


def world_momentum(model, q, v):
    """Spatial momentum of the whole in world axes about the world origin, from the root's row of H v."""
    n, f = np.split((mb.mass_matrix(model, q) @ v)[:6], 2)
    f = rotate(q[3:7], f)
    return np.concatenate([rotate(q[3:7], n) + np.cross(q[:3], f), f])


def test_momentum_of_a_floating_robot_is_conserved(rng):
    model = anymal((0.0, 0.0, 0.0))
    q, v = sample(model, rng)

    def momentum(q, v):
        return world_momentum(model, q, v)

    errors = drifts(model, free_fall, momentum, q, v, 0.1)
    assert errors[-1] < 1e-8 and observed_order(errors) > 3.7, errors
    for wrong in (without_coriolis, world_rates):  # negative controls
        assert drifts(model, wrong, momentum, q, v, 0.1)[-1] > 1e-3


def test_momentum_grows_with_the_weight(rng):
    """d/dt of the linear momentum in world axes is m times the acceleration of free fall."""
    model, time = anymal((0.3, -0.4, -9.81)), 0.1
    q, v = sample(model, rng)
    end = world_momentum(model, *integrate(model, free_fall, q, v, time, 64))[3:]
    mass = model.kinematics.tree.inertias[:, 5, 5].sum()
    gained = mass * time * np.array(model.gravity)
    np.testing.assert_allclose(end - world_momentum(model, q, v)[3:], gained, atol=1e-6 * mass)


def test_gravity_is_an_acceleration_of_the_base(rng):
    """g = H a with the base accelerated against gravity."""
    model = anymal((0.3, -0.4, -9.81))
    q, _ = sample(model, rng)
    a = np.zeros(model.nv)
    a[3:6] = -rotate(q[3:7] * [-1, -1, -1, 1], np.array(model.gravity))
    g = mb.gravity(model, q)
    np.testing.assert_allclose(mb.mass_matrix(model, q) @ a, g, atol=1e-11 * np.max(np.abs(g)))
    a[3:6] *= -1.0  # negative control
    assert np.max(np.abs(mb.mass_matrix(model, q) @ a - g)) > 1e-2 * np.max(np.abs(g))


# --- far from the world origin ----------------------------------------------------------------------------

FAR = 1e5  # m


def arm_on(base, seed, shift=0.0):
    """A random arm of all joint types on a base of these joints; the same for every shift (m) of its root."""
    rng, mechanism, root = np.random.default_rng(seed), mb.Mechanism(), "world"
    for number, joint in enumerate(base):
        mechanism.add_body(f"base {number}", **random_body(rng))
        mechanism.add_joint(f"to base {number}", root, f"base {number}", joint)
        root = f"base {number}"
    extend(mechanism, rng, MOVING, range(-1, len(MOVING) - 1), name="arm", root=root, shift=shift)
    return mechanism.build()


BASES = {
    "free": ((mb.Free(),), slice(0, 3)),
    "prismatic x, y, revolute z": (
        (mb.Prismatic((1, 0, 0)), mb.Prismatic((0, 1, 0)), mb.Revolute((0, 0, 1))),
        slice(0, 2),
    ),
    "planar": ((mb.Planar(),), slice(0, 2)),
    "cylindrical": ((mb.Cylindrical((0, 0, 1)),), slice(1, 2)),
    "fixed": ((), slice(0, 0)),
}


def evaluate_all(model, q, v, a):
    """Every recursion at one state, by name."""
    return {
        "H": mb.mass_matrix(model, q),
        "C": mb.coriolis_matrix(model, q, v),
        "C with torsion": mb.coriolis_matrix(model, q, v, body_factor="force_cross"),
        "H_dot": mb.mass_matrix_rate(model, q, v),
        "Gamma": mb.christoffel_symbols(model, q),
        "Gamma with torsion": mb.christoffel_symbols(model, q, body_factor="force_cross"),
        "C a": mb.coriolis_product(model, q, v, a),
        "C^T a": mb.coriolis_transpose_product(model, q, v, a),
        "tau": mb.inverse_dynamics(model, q, v, a),
        "g": mb.gravity(model, q),
        "H^-1": mb.inverse_mass_matrix(model, q),
        "a": mb.forward_dynamics(model, q, v, a),
        "Y": mb.regressor(model, q, v, a, v),
    }


def gaps(here, there):
    """Relative differences, by name."""
    return {key: np.max(np.abs(there[key] - here[key])) / np.max(np.abs(here[key])) for key in here}


@pytest.mark.parametrize("name", BASES)
def test_numbers_stay_accurate_far_from_the_origin(name, rng):
    joints, moved = BASES[name]
    seed = int(rng.integers(1 << 30))
    near, far = arm_on(joints, seed), arm_on(joints, seed, FAR if name == "fixed" else 0.0)
    q, v = sample(near, rng)
    a, q_far = rng.standard_normal(near.nv), q.copy()
    q_far[moved] += FAR
    here = evaluate_all(near, q, v, a)
    residuals = gaps(here, evaluate_all(far, q_far, v, a))
    assert max(residuals.values()) < 1e-9, residuals
    elsewhere = q.copy()  # negative control: the position of the free joint moved, too
    elsewhere[near.configuration_slice(f"to arm {MOVING.index(mb.Free)}")][:3] += 0.3
    changed = gaps(here, evaluate_all(near, elsewhere, v, a))
    assert min(changed[key] for key in ("H", "C", "Gamma")) > 1e-2


def carriages(rng, rail):
    """Two carriages on a rail, each with an arm of all joint types."""
    mechanism, along = mb.Mechanism(), mb.Prismatic((1, 0, 0))
    mechanism.add_body("rail", **random_body(rng))
    mechanism.add_joint("rail", "world", "rail", rail)
    for name in ("left", "right"):
        mechanism.add_body(name, **random_body(rng))
        mechanism.add_joint(name, "rail", name, along, random_placement(rng))
        extend(mechanism, rng, MOVING, range(-1, len(MOVING) - 1), name=f"{name} arm", root=name)
    return mechanism.build()


@pytest.mark.parametrize("apart", [1e5, 1e7])
def test_carriages_far_apart_on_one_rail(apart, rng):
    """Where the rail only slides, no number depends on where the carriages are; each has its own origin."""
    model = carriages(rng, mb.Prismatic((0.3, 1, 0)))
    q, v = sample(model, rng)
    a, q_far = rng.standard_normal(model.nv), q.copy()
    q_far[model.configuration_slice("left")] -= apart / 2.0
    q_far[model.configuration_slice("right")] += apart / 2.0
    here, there = evaluate_all(model, q, v, a), evaluate_all(model, q_far, v, a)
    residuals = gaps(here, there)
    assert max(residuals.values()) < 1e-11, residuals
    scale = np.sqrt(np.diag(here["H"]))  # entry by entry, so that no carriage hides behind another
    assert np.max(np.abs(there["H"] - here["H"]) / np.outer(scale, scale)) < 1e-11


def test_carriages_far_apart_on_a_rail_that_turns(rng):
    """What belongs to one arm is the same wherever its carriage is; the rail feels their distance."""
    model = carriages(rng, mb.Free())
    q, v = sample(model, rng)
    q_far = q.copy()
    q_far[model.configuration_slice("left")] -= 5e4
    q_far[model.configuration_slice("right")] += 5e4
    starts = [model.velocity_slice(name).start for name in ("left", "right")]
    near, far = mb.mass_matrix(model, q), mb.mass_matrix(model, q_far)
    Gamma, there = mb.christoffel_symbols(model, q), mb.christoffel_symbols(model, q_far)
    for own in (slice(starts[0], starts[1]), slice(starts[1], model.nv)):
        assert np.max(np.abs(near - far)[own, own]) < 1e-11 * np.max(np.abs(near[own, own]))
        change = np.abs(Gamma - there)[own, own, own]
        assert np.max(change) < 1e-11 * np.max(np.abs(Gamma[own, own, own]))
    assert not np.any(far[starts[0] : starts[1], starts[1] :])
    turning = np.linalg.eigvalsh(far[:3, :3])
    assert turning[1] > 1e9 and turning[2] > 1e9  # mass times the square of the distance


@pytest.mark.further
def test_carriages_with_loops_far_apart(rng):
    """On each carriage a four-bar, and on its coupler a wrist with a slide: groups above and below loops."""
    plan = Plan(3)
    plan.add("rail", "world", "rail", mb.Prismatic((0.3, 1, 0)))
    for side in ("left", "right"):
        plan.add(side, "rail", side, mb.Prismatic((1, 0, 0)))
        add_four_bar(plan, side, side, np.eye(4))
        plan.add(f"{side} wrist", f"{side} coupler", f"{side} wrist", mb.Spherical())
        plan.add(f"{side} reach", f"{side} wrist", f"{side} reach", mb.Prismatic((0, 1, 1)))
        plan.add(f"{side} hand", f"{side} reach", f"{side} hand", mb.Revolute((1, 0, 0)))
    model = plan.build()
    q, v = configurations(model, rng)
    a, q_far = rng.standard_normal(model.nv), q.copy()
    q_far[model.configuration_slice("left")] -= 5e4
    q_far[model.configuration_slice("right")] += 5e4
    here, there = evaluate_all(model, q, v, a), evaluate_all(model, q_far, v, a)
    residuals = gaps(here, there)
    assert max(residuals.values()) < 1e-11, residuals
    q_far[model.configuration_slice("left reach")] += 1e5  # a group below a loop: by its definition
    H, definition = mb.mass_matrix(model, q_far), np.asarray(model.definition.metric.matrix(q_far))
    scale = np.sqrt(np.diag(definition))
    assert np.max(np.abs(H - definition) / np.outer(scale, scale)) < 1e-11
    for factor in ("christoffel", "force_cross"):
        C = mb.coriolis_matrix(model, q_far, v, body_factor=factor)
        Gamma = mb.christoffel_symbols(model, q_far, body_factor=factor)
        theirs = np.asarray(DEFINITIONS["coriolis_matrix"](model, q_far, v, factor))
        assert np.max(np.abs(C - theirs)) < 1e-11 * np.max(np.abs(theirs))
        assert np.max(np.abs(C - np.einsum("ijk,j->ik", Gamma, v))) < 1e-11 * np.max(np.abs(C))
    assert np.max(np.abs(H - here["H"])) > 1e5  # negative control: the arm's length is in H


@pytest.mark.further
@pytest.mark.parametrize("far", [further(1e5), 1e8])
def test_the_definition_is_accurate_far_from_the_origin(far, rng):
    """A free base, and a carriage on it: the same numbers as near the origin, and as by recursion."""
    model = assemble(rng, (mb.Free, mb.Revolute, mb.Prismatic, mb.Spherical), (-1, 0, 0, 2))
    q, v = sample(model, rng)
    q_far = q.copy()
    q_far[:3] += far
    definition = model.definition
    definition.connection.explain(q_far)
    for function in (
        lambda q: definition.metric.matrix(q),
        lambda q: definition.connection.first_kind(q),
        lambda q: definition.system.bias(q, v),
        lambda q: definition.system.gravity(q),
    ):
        here, there = np.asarray(function(q)), np.asarray(function(q_far))
        assert np.max(np.abs(there - here)) < 1e-13 * np.max(np.abs(here))
    H = np.asarray(definition.metric.matrix(q_far))
    assert np.max(np.abs(mb.mass_matrix(model, q_far) - H)) < 1e-13 * np.max(np.abs(H))
    q_far[model.configuration_slice(model.joint_names[2])] += far  # the carriage
    H, recursion = np.asarray(definition.metric.matrix(q_far)), mb.mass_matrix(model, q_far)
    scale = np.sqrt(np.diag(H))
    assert np.max(np.abs(recursion - H) / np.outer(scale, scale)) < 1e-11
    assert np.max(np.abs(H[:3, :3])) > far**2 / 100.0  # negative control: the rail feels it


def test_trees_far_apart_do_not_disturb_each_other(rng):
    """Two copies at opposite ends of the world in one model keep the accuracy that each has alone."""
    seed = int(rng.integers(1 << 30))
    alone = arm_on((), seed)
    mechanism = mb.Mechanism()
    for name, shift in (("left", -FAR), ("right", FAR)):
        extend(
            mechanism, np.random.default_rng(seed), MOVING, range(-1, len(MOVING) - 1), name=name, shift=shift
        )
    both = mechanism.build()
    q, v = sample(alone, rng)
    n = alone.nv
    for function in (
        lambda model, k: mb.mass_matrix(model, np.tile(q, k)),
        lambda model, k: mb.coriolis_matrix(model, np.tile(q, k), np.tile(v, k)),
    ):
        one, two = function(alone, 1), function(both, 2)
        np.testing.assert_allclose(two[:n, :n], one, atol=1e-9 * np.max(np.abs(one)))
        np.testing.assert_allclose(two[n:, n:], one, atol=1e-9 * np.max(np.abs(one)))
        assert not two[:n, n:].any() and not two[n:, :n].any()
