"""Screws and racks: helical closures, whose turns are counted, and couplings of an angle and a length.

The jack is an arm that a screw between barrel and rod swings; the law of cosines gives how far the screw is
out, and its angle is this length over the pitch.
"""

import numpy as np
import pytest
from closed_plan import Plan, at
from known_mechanisms import ARM, GROUND, PITCH, START, jack, lean, span

from connections import multibody as mb
from connections.checks import ModelError

X, Z = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
REVOLUTE = mb.Revolute(Z)


def coupled_jack(zero):
    """The same jack: the rod slides in the barrel, and the rotor turns back from the angle `zero`."""
    plan, drawn = Plan(21), jack()
    for joint in ("arm", "barrel", "rotor"):
        parent, body, kind, placement = drawn.joints[joint]
        plan.add(joint, parent, body, kind, placement, drawn.reference[joint], **drawn.bodies[body])
    plan.add("slide", "barrel", "rod", mb.Prismatic(X), None, span(START), **drawn.bodies["rod"])
    plan.loop("pin", "arm", "rod", REVOLUTE, at(ARM), independent=["arm"])
    plan.reference["rotor"][0] = zero - span(START) / PITCH
    plan.couple("screw", {"slide": 1.0, "rotor": PITCH}, PITCH * zero)
    return plan


@pytest.mark.parametrize("swapped", [False, True])
def test_a_jack_against_the_law_of_cosines(swapped):
    """The rotor turns a hundred times; a closure and a coupling are the same mechanism."""
    model = jack(swapped=swapped).build()
    zero = model.spanning_configuration([START])["rotor"][0] + span(START) / PITCH
    coupled = coupled_jack(zero).build()
    assert model.joint_names == coupled.joint_names == ("arm",)
    assert abs(zero - 2.0 * np.pi * np.round(zero / (2.0 * np.pi))) < 1e-8  # the rod does not turn with it
    for arm in (START, 2.8, 0.3, -0.4):
        angles, turn = model.spanning_configuration([arm]), span(arm) / PITCH
        np.testing.assert_allclose(angles["rotor"], zero - turn, atol=1e-8)
        np.testing.assert_allclose(angles["screw"], -turn if swapped else turn, atol=1e-8)
        np.testing.assert_allclose(angles["barrel"] - lean(START), lean(arm) - lean(START), atol=1e-10)
        for function in (mb.mass_matrix, mb.christoffel_symbols):
            expected = function(coupled, [arm])
            np.testing.assert_allclose(function(model, [arm]), expected, rtol=1e-9)
    other = jack(-PITCH, swapped).build()  # negative control: a left-handed screw
    turns = [other.spanning_configuration([arm])["rotor"] for arm in (START, 2.8)]
    np.testing.assert_allclose(turns[1] - turns[0], (span(2.8) - span(START)) / PITCH, atol=1e-8)


def test_the_motor_of_a_jack_is_its_screw():
    """With the screw's angle as q, dq = dspan / pitch: H and tau of the arm over (dspan / darm / pitch)^2."""
    by_screw, by_arm = jack(independent=["screw"]).build(), jack().build()
    assert by_screw.joint_names == ("screw",)
    arm = 1.7
    slope = ARM * GROUND * np.sin(arm) / span(arm) / PITCH
    q = np.array([span(arm) / PITCH])
    np.testing.assert_allclose(by_screw.spanning_configuration(q)["arm"], [arm], atol=1e-10)
    H = mb.mass_matrix(by_arm, [arm])
    np.testing.assert_allclose(mb.mass_matrix(by_screw, q), H / slope**2, rtol=1e-9)
    torque = mb.gravity(by_arm, [arm]) / slope
    np.testing.assert_allclose(mb.gravity(by_screw, q), torque, rtol=1e-8)
    assert abs(mb.gravity(by_screw, q + np.pi) - torque) > 1e-5 * abs(torque)  # negative control: half a turn


def test_a_screw_has_the_name_of_its_loop():
    """Its joint and its body, without mass; the names must be free, and nothing is kept if they are not."""
    model = jack().build()
    assert "screw" in model.body_names and "screw" in model.spanning_configuration(model.neutral())
    assert not mb.inertial_parameters(model)[model.body_names.index("screw")].any()
    made = jack().mechanism()
    before = repr(made)
    for name in ("rod", "pin", "world"):
        with pytest.raises(ModelError, match=f"'{name}'.*taken"):
            made.add_loop(name, "world", "rod", mb.Helical(X, PITCH))
    assert repr(made) == before


def test_a_screw_without_pitch_is_a_hinge():
    plan = Plan(22)
    for number, (side, angle) in enumerate(((0.0, 0.9), (1.0, 2.2))):
        plan.add(f"hinge {number}", "world", f"bar {number}", REVOLUTE, at(side), angle)
    plan.add("pin", "bar 0", "coupler", REVOLUTE, at(0.6), -0.5)
    models = []
    for closure in (mb.Helical(Z, 0.0), REVOLUTE):
        plan.loops.clear()
        plan.loop("end", "coupler", "bar 1", closure, at(0.8), at(0.5), independent=["hinge 0"])
        models.append(plan.build())
    H, expected = (mb.mass_matrix(model, [1.0]) for model in models)
    np.testing.assert_allclose(H, expected, rtol=1e-12)


# --- couplings --------------------------------------------------------------------------------------------


def test_a_carriage_on_a_spindle():
    """A spindle of inertia J moves a carriage by pitch per angle: H = J + m pitch^2, tau = -m g pitch."""
    mass, inertia, g = 3.0, 2e-3, 9.81
    made = mb.Mechanism()
    made.add_body("spindle", 1.0, inertia=inertia * np.diag([1.0, 1.0, 1.0]))
    made.add_body("carriage", mass)
    made.add_joint("turn", "world", "spindle", mb.Revolute(Z))
    made.add_joint("lift", "world", "carriage", mb.Prismatic(Z))
    made.add_coupling("thread", {"turn": PITCH, "lift": -1.0}, independent=["turn"])
    model = made.build(gravity=(0.0, 0.0, -g))
    np.testing.assert_allclose(mb.mass_matrix(model, [40.0]), [[inertia + mass * PITCH**2]], rtol=1e-14)
    np.testing.assert_allclose(mb.gravity(model, [40.0]), [mass * g * PITCH], rtol=1e-14)
    np.testing.assert_allclose(model.spanning_configuration([40.0])["lift"], [40.0 * PITCH], rtol=1e-14)


def test_two_racks_on_one_pinion():
    """A gripper's jaws move against each other: H = J + (m_1 + m_2) r^2, and gravity across them cancels."""
    masses, inertia, radius = (0.4, 0.4), 1e-4, 0.02
    made = mb.Mechanism()
    made.add_body("pinion", 0.1, inertia=inertia * np.eye(3))
    made.add_joint("pinion", "world", "pinion", mb.Revolute(Z))
    for jaw, mass, side in zip(("left", "right"), masses, (1.0, -1.0), strict=True):
        made.add_body(jaw, mass)
        made.add_joint(jaw, "world", jaw, mb.Prismatic(X), at(0.0, side * radius))
        made.add_coupling(f"{jaw} rack", {"pinion": side * radius, jaw: 1.0}, independent=["pinion"])
    model = made.build(gravity=(-9.81, 0.0, 0.0))
    np.testing.assert_allclose(
        mb.mass_matrix(model, [0.3]), [[inertia + sum(masses) * radius**2]], rtol=1e-14
    )
    assert abs(mb.gravity(model, [0.3])[0]) < 1e-15
    angles = model.spanning_configuration([0.3])
    np.testing.assert_allclose(
        [angles["left"], angles["right"]], [[-0.3 * radius], [0.3 * radius]], rtol=1e-14
    )
