"""Mechanisms that people build, against their closed forms, and against elimination of their constraints.

`known_mechanisms` has the plans with the closed forms; `closed_oracles.Assembly` assembles every plan again,
differences it and applies Koszul's formula.
"""

import numpy as np
import pytest
from cases import always
from closed_chains import CLOSURES, closed_by, stewart_platform
from closed_oracles import Assembly
from closed_plan import at
from known_mechanisms import (
    BEND,
    DOWN,
    MECHANISMS,
    cardan,
    cardan_angle,
    delta_jacobian,
    delta_point,
    delta_robot,
    homokinetic,
    parallel_ankle,
    parallel_leg,
    three_rps,
    three_rps_legs,
    three_rps_pose,
)
from mechanisms import derivative_along, move
from scipy.spatial.transform import Rotation
from units import lengths

from connections import multibody as mb

LEFT_OUT = 1e-2  # a negative control leaves at least this


@pytest.fixture(scope="module")
def models():
    cache = {}

    def get(name):
        if name not in cache:
            cache[name] = PLANS[name]().build()
        return cache[name]

    return get


def near(model, rng, spread=0.15):
    """A configuration about the reference; lengths move by a fifth of that, in m."""
    step = np.where(lengths(model)[1], 0.2, 1.0) * spread
    return move(model, model.neutral(), step * rng.uniform(-1.0, 1.0, model.nv))


def by_name(model, q):
    """{joint: number, or coordinates (nq,)} of the independent joints."""
    parts = {name: q[model.configuration_slice(name)] for name in model.joint_names}
    return {name: part if len(part) > 1 else float(part[0]) for name, part in parts.items()}


def same(found, expected):
    """Coordinates agree; quaternions of both signs are one orientation."""
    found, expected = np.atleast_1d(found), np.atleast_1d(expected)
    if len(found) in (4, 7) and found[-4:] @ expected[-4:] < 0.0:
        expected = np.concatenate([expected[:-4], -expected[-4:]])
    return np.abs(found - expected).max() < 1e-10


@pytest.mark.parametrize("name", MECHANISMS)
def test_dependent_joints_in_closed_form(name, models, rng):
    model, closed_form = models(name), MECHANISMS[name][1]
    assert model.nv == MECHANISMS[name][0]().nv
    for _ in range(4):
        q = near(model, rng)
        found = model.spanning_configuration(q)
        expected = closed_form(by_name(model, q))
        for joint, value in expected.items():
            assert same(found[joint], value), joint
    elsewhere = closed_form(by_name(model, move(model, q, np.full(model.nv, 0.05))))  # negative control
    assert not any(same(found[joint], value) for joint, value in elsewhere.items())


PLANS = {name: plan for name, (plan, _) in MECHANISMS.items()} | {"3-RPS": three_rps}
#: Without a closed form of other joints at q, or one of those that differ in kind.
ALWAYS = "3-RPS", "Cardan shafts", "double wishbone", "parallel ankle"


@pytest.mark.parametrize("name", always(PLANS, *ALWAYS))
def test_against_elimination(name, models, rng):
    """H, Gamma and gravity, and of C what the passport asks."""
    model = models(name)
    q, v = near(model, rng, 0.1), near(model, rng, 1.0) - model.neutral()
    oracle = Assembly(PLANS[name](), model)
    H, Gamma = oracle.koszul(q, h=8e-4)  # rad or m
    size = np.max(np.abs(H))
    np.testing.assert_allclose(mb.mass_matrix(model, q), H, atol=1e-8 * size)
    scale = max(size, np.max(np.abs(Gamma)))
    np.testing.assert_allclose(mb.christoffel_symbols(model, q), Gamma, atol=1e-6 * scale)
    C = mb.coriolis_matrix(model, q, v)
    np.testing.assert_allclose(C, np.einsum("ijk,j->ik", Gamma, v), atol=3e-6 * scale)
    bias = mb.inverse_dynamics(model, q, v, 0.0 * v) - mb.gravity(model, q)
    np.testing.assert_allclose(C @ v, bias, atol=1e-10 * scale)
    along = derivative_along(model, lambda p: mb.mass_matrix(model, p), q, v)
    np.testing.assert_allclose(C + C.T, along, atol=1e-7 * scale)
    steps = move(model, q, 1e-3 * np.multiply.outer([-2.0, -1.0, 1.0, 2.0], np.eye(model.nv)))
    x = oracle.follow(q)
    heights = oracle.potential(oracle.close(oracle.with_independent(x, steps), 12, oracle.slope(x)))
    g = np.tensordot(np.array([1.0, -8.0, 8.0, -1.0]) / 12e-3, heights, axes=1)
    np.testing.assert_allclose(mb.gravity(model, q), g, atol=1e-7 * max(1.0, size))
    other = PLANS[name]()  # a negative control: one body is heavier by a twentieth
    other.bodies[list(other.bodies)[-1]]["mass"] *= 1.05
    changed = Assembly(other, model).mass_matrix(q, x, oracle.slope(x))
    if "shafts" not in name:
        assert np.max(np.abs(changed - H)) > 1e-4 * size


def test_the_cross_turns_unevenly_and_the_homokinetic_joint_does_not():
    """H = J_1 + J_2 s^2, s the rate of the driven shaft: cos b / (1 - sin^2 b sin^2 x), or 1."""
    for make, uneven in ((cardan, True), (homokinetic, False)):
        plan, model = make(), make().build()
        moments = [
            body["inertia"][2, 2] + body["mass"] * np.sum(body["center_of_mass"][:2] ** 2)
            for body in plan.bodies.values()
        ]
        for x in (0.1, 0.9, 2.0, 4.0):
            s = np.cos(BEND) / (1.0 - np.sin(BEND) ** 2 * np.sin(x) ** 2) if uneven else 1.0
            np.testing.assert_allclose(
                mb.mass_matrix(model, [x]), [[moments[0] + moments[1] * s**2]], rtol=1e-12
            )
    turns = homokinetic().build().spanning_configuration([40.0])["driven"]
    np.testing.assert_allclose(turns, [40.0], rtol=1e-13)  # six turns
    assert abs(cardan_angle(0.9) - 0.9) > LEFT_OUT  # negative control


def test_delta_robot_in_closed_form(models, rng):
    """H = diag(I_arm) + m J^T J and tau = J^T m g + arms: the rods have no mass, and the hand stays level."""
    model, plan = models("Delta robot"), delta_robot()
    bodies = list(plan.bodies.values())
    q = near(model, rng)
    J = delta_jacobian(q)
    step = 1e-6
    by_differences = np.stack(
        [delta_point(q + step * e) - delta_point(q - step * e) for e in np.eye(3)], axis=1
    )
    np.testing.assert_allclose(J, by_differences / (2 * step), atol=1e-8)
    arms = [
        body["inertia"][1, 1] + body["mass"] * np.sum(body["center_of_mass"][[0, 2]] ** 2)
        for body in bodies[:3]
    ]
    H = np.diag(arms) + bodies[3]["mass"] * J.T @ J
    np.testing.assert_allclose(mb.mass_matrix(model, q), H, rtol=1e-10, atol=1e-12)
    weight = -np.array(DOWN)
    levers = [
        -body["mass"] * (body["center_of_mass"][0] * np.cos(x) + body["center_of_mass"][2] * np.sin(x)) * 9.81
        for body, x in zip(bodies[:3], q, strict=True)
    ]
    g = np.array(levers) + bodies[3]["mass"] * J.T @ weight
    np.testing.assert_allclose(mb.gravity(model, q), g, rtol=1e-10)
    hand = mb.frame_pose(model, q, "hand")
    np.testing.assert_allclose(hand[:3, :3], np.eye(3), atol=1e-11)


@pytest.mark.parametrize("pose", [(0.6, 0.4, 0.25), (0.5, 0.3, 2.2), (0.65, 0.1, -1.0)])
def test_three_rps_in_closed_form(pose, models):
    """The platform's pose at the lengths of the legs; it moves aside as it tilts."""
    plan = three_rps(pose)
    model = plan.build()
    legs, _ = three_rps_legs(*pose)
    assert model.joint_names == ("leg 0", "leg 1", "leg 2")
    found = mb.frame_pose(model, legs, "platform")
    np.testing.assert_allclose(found, three_rps_pose(*pose), atol=1e-12)
    nearby = pose[0] + 0.01, pose[1] - 0.02, pose[2] + 0.1
    legs, leans = three_rps_legs(*nearby)
    np.testing.assert_allclose(mb.frame_pose(model, legs, "platform"), three_rps_pose(*nearby), atol=1e-11)
    angles = model.spanning_configuration(legs)
    np.testing.assert_allclose([angles[f"foot {leg}"][0] for leg in range(3)], leans, atol=1e-11)
    assert np.linalg.norm(three_rps_pose(*pose)[:2, 3]) > 1e-4  # negative control: it is not centred


def test_gough_platform_in_closed_form(rng):
    """Legs' rates are [R t x n; n] on the platform's twist, from any pose near the reference."""
    plan = stewart_platform("legs")
    model = plan.build()
    turn, place = Rotation.from_euler("xyz", [0.08, -0.1, 0.15]), np.array([0.06, -0.02, 0.82])
    feet = [plan.joints[f"foot {leg}"][3][:3, 3] for leg in range(6)]
    tops = [turn.apply(plan.loops[f"ball {leg}"][4][:3, 3]) for leg in range(6)]
    rods = np.array([top + place - foot for top, foot in zip(tops, feet, strict=True)])
    legs = np.linalg.norm(rods, axis=1)
    pose = mb.frame_pose(model, legs, "platform")
    np.testing.assert_allclose(pose[:3, :3], turn.as_matrix(), atol=1e-10)
    np.testing.assert_allclose(pose[:3, 3], place, atol=1e-10)
    n = rods / legs[:, None]
    rates = np.hstack([np.cross(tops, n), n])  # legs of the twist [omega; v], world axes, at the platform
    J = mb.frame_jacobian(model, legs, "platform")  # body axes
    world = np.kron(np.eye(2), turn.as_matrix()) @ J
    np.testing.assert_allclose(rates @ world, np.eye(6), atol=1e-9)
    swapped = np.hstack([n, np.cross(tops, n)])  # negative control
    assert np.abs(swapped @ world - np.eye(6)).max() > LEFT_OUT


@pytest.mark.parametrize("name", ["parallel ankle", "knee and ankle"])
def test_torques_of_joints_and_of_actuators(name, rng):
    """tau_joint = J^T tau_motor and H_joint = J^T H_motor J, with J of the closed form by differences."""
    make = {"parallel ankle": parallel_ankle, "knee and ankle": parallel_leg}[name]
    if name == "parallel ankle":
        joints, motors = make().build(), make(("left motor", "right motor")).build()
        q = np.array([0.2, -0.15])
        motor_angles = lambda q: np.array([*MECHANISMS[name][1]({"ankle": q}).values()])  # noqa: E731
        q_m = motor_angles(q)
    else:
        motors = make().build()
        plan = make()
        plan.loops = {loop: (*ends, ["knee", "ankle"]) for loop, (*ends, _) in plan.loops.items()}
        joints, q_m = plan.build(), np.array([1.5, 1.35])
        angles = MECHANISMS[name][1]({"knee motor": q_m[0], "ankle motor": q_m[1]})
        q = np.array([angles["knee"], angles["ankle"]])
    G = np.array([_rates(joints, q, joint) for joint in motors.joint_names])
    tau, tau_m = mb.gravity(joints, q), mb.gravity(motors, q_m)
    H, H_m = mb.mass_matrix(joints, q), mb.mass_matrix(motors, q_m)
    np.testing.assert_allclose(G.T @ tau_m, tau, atol=1e-7 * np.abs(tau).max())
    np.testing.assert_allclose(G.T @ H_m @ G, H, atol=1e-7 * np.abs(H).max())
    assert np.abs(G @ tau_m - tau).max() > LEFT_OUT * np.abs(tau).max()  # negative control
    if name == "parallel ankle":  # the same map, of the closed form
        steps = [motor_angles(q + 1e-5 * e) - motor_angles(q - 1e-5 * e) for e in np.eye(2)]
        np.testing.assert_allclose(G, np.stack(steps, axis=1) / 2e-5, atol=1e-8)


def _rates(model, q, joint, step=1e-5):
    """Derivatives (n,) of the angle of a dependent joint by q."""
    ends = [
        [model.spanning_configuration(q + s * e)[joint][0] for s in (step, -step)] for e in np.eye(len(q))
    ]
    return (np.array(ends) @ [1.0, -1.0]) / (2.0 * step)


@pytest.mark.parametrize(
    "name", always([name for name in CLOSURES if name != "function"], "helical", "universal", "fixed")
)
def test_a_loop_closed_from_either_side(name, rng):
    """Frame a of the ground and b of the last body, or the other way round: one mechanism."""
    plan, other = closed_by(name), closed_by(name)
    a, b, closure, at_a, at_b, _ = plan.loops["loop"]
    if isinstance(closure, mb.Universal):
        closure = mb.Universal(closure.axis_2, closure.axis_1)
    model = plan.build()
    other.loops["loop"] = (b, a, closure, at_b, at_a, list(model.joint_names))
    swapped = other.build()
    q, v = near(model, rng, 0.1), rng.standard_normal(model.nv)
    for function in (mb.mass_matrix, mb.gravity):
        np.testing.assert_allclose(function(swapped, q), function(model, q), rtol=1e-9, atol=1e-11)
    C = mb.coriolis_matrix(model, q, v)
    np.testing.assert_allclose(mb.coriolis_matrix(swapped, q, v), C, atol=1e-9 * np.abs(C).max())
    shifted = closed_by(name)  # negative control: another place on the ground
    shifted.loops["loop"] = (
        a,
        b,
        *plan.loops["loop"][2:3],
        at(0.02, 0.01, 0.03) @ at_a,
        at_b,
        other.loops["loop"][5],
    )
    assert np.abs(mb.mass_matrix(shifted.build(), q) - mb.mass_matrix(model, q)).max() > 1e-6
