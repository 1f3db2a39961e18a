"""Loops that bind a part of a joint: the error has the lines to write instead, and these lines are run.

A free body that is pinned to the world by a point turns as on a spherical joint there; what the lines make is
compared with that joint, and with the mechanism's other forms.
"""

import numpy as np
import pytest
from closed_oracles import residual
from closed_plan import at
from mechanisms import random_body

from connections import multibody as mb
from connections.checks import ModelError

ANCHOR, PIN = at(0.3, -0.2, 0.5, (0.3, 0.2, -0.4)), at(0.1, 0.2, -0.15, (0.1, -0.3, 0.2))
GRAVITY = (0.3, -9.0, 1.0)


def body(seed=1):
    return random_body(np.random.default_rng(seed))


def drawn(joint, closure, swapped=False, placement=None):
    """A body on a joint, whose frame PIN a closure ties to ANCHOR of the world."""
    made = mb.Mechanism()
    made.add_body("buoy", **body())
    made.add_joint("base", "world", "buoy", joint, placement)
    ends = ("buoy", "world", closure, PIN, ANCHOR) if swapped else ("world", "buoy", closure, ANCHOR, PIN)
    made.add_loop("pin", *ends)
    return made


def lines_of(mechanism):
    """The lines of the error, after its first."""
    with pytest.raises(ModelError, match="'pin'.*whole joints") as error:
        mechanism.build()
    return str(error.value).splitlines()[1:]


def written(lines, **placements):
    """The mechanism that the lines make."""
    made = mb.Mechanism()
    made.add_body("buoy", **body())
    names = {"add_body": made.add_body, "add_joint": made.add_joint, "mb": mb, "np": np, **placements}
    for line in lines:
        exec(line, names)
    return made


CLOSURES = {
    "point": mb.Coincident(),
    "ball": mb.Spherical(),
    "hinge": mb.Revolute((0.2, 1.0, -0.3)),
    "slide": mb.Prismatic((0.2, 1.0, -0.3)),
    "cross": mb.Universal((1.0, 0.2, 0.0), (0.1, 1.0, 0.3)),
    "plane": mb.Planar(),
    "cylinder": mb.Cylindrical((0.3, 0.1, 1.0)),
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("name", CLOSURES)
def test_a_free_body_pinned_to_the_world(name, swapped, rng):
    """Its poses obey the closure, and have as many velocities as it leaves."""
    closure = CLOSURES[name]
    lines = lines_of(drawn(mb.Free(), closure, swapped))
    ends = (
        {"placement_a": PIN, "placement_b": ANCHOR}
        if swapped
        else {"placement_a": ANCHOR, "placement_b": PIN}
    )
    model = written(lines, **ends).build(gravity=GRAVITY)
    expected = mb.Spherical() if name == "point" else closure
    assert model.nv == expected.nv
    q = model.random(rng)
    T = mb.frame_pose(model, q, "buoy")
    relative = np.linalg.inv(ANCHOR) @ T @ PIN
    if swapped:
        relative = np.linalg.inv(relative)
    assert np.abs(residual(closure, relative)).max() < 1e-12
    open_pin = np.linalg.inv(ANCHOR) @ T  # a negative control: another point of the body
    assert np.abs(residual(closure, open_pin)).max() > 1e-3


def test_a_pinned_body_is_that_on_a_ball(rng):
    """H and C of the lines are those of a spherical joint whose body is measured from the pin."""
    lines = lines_of(drawn(mb.Free(), mb.Coincident()))
    model = written(lines, placement_a=ANCHOR, placement_b=PIN).build(gravity=GRAVITY)
    other, inertia = mb.Mechanism(), body()
    R, r = PIN[:3, :3], PIN[:3, 3]
    other.add_body(
        "buoy", inertia["mass"], R.T @ (inertia["center_of_mass"] - r), R.T @ inertia["inertia"] @ R
    )
    other.add_joint("base", "world", "buoy", mb.Spherical(), ANCHOR)
    by_hand = other.build(gravity=GRAVITY)
    q, v = by_hand.random(rng), rng.standard_normal(3)
    for function in (mb.mass_matrix, mb.gravity):
        np.testing.assert_allclose(function(model, q), function(by_hand, q), atol=1e-13)
    np.testing.assert_allclose(mb.coriolis_matrix(model, q, v), mb.coriolis_matrix(by_hand, q, v), atol=1e-13)


def test_a_ball_of_which_two_directions_are_bound(rng):
    """A hinge about the axis that is free is a part of what the lines write in its place."""
    axis, place = (0.0, 0.0, 1.0), at(0.1, 0.4, 0.2, (0.2, -0.1, 0.5))
    made = mb.Mechanism()
    made.add_body("buoy", **body())
    made.add_joint("base", "world", "buoy", mb.Spherical(), place)
    made.add_loop("pin", "world", "buoy", mb.Revolute(axis), place)
    lines = lines_of(made)
    three = written(lines, placement=place)
    three.add_loop("pin", "world", "buoy", mb.Revolute(axis), place, independent=["base 2"])
    hinge = written(
        ['add_joint("base", "world", "buoy", mb.Revolute((0, 0, 1)), placement)'], placement=place
    )
    q, model, expected = np.array([0.7]), three.build(gravity=GRAVITY), hinge.build(gravity=GRAVITY)
    for function in (mb.mass_matrix, mb.gravity):
        np.testing.assert_allclose(function(model, q), function(expected, q), atol=1e-13)
    assert np.abs(mb.gravity(model, q) - mb.gravity(model, -q)).max() > 1e-2


@pytest.mark.filterwarnings("ignore::connections.multibody.AssemblyWarning")
@pytest.mark.parametrize(
    "joint", [mb.Free(), mb.Planar(), mb.Cylindrical((0, 1, 0)), mb.Universal((1, 0, 0), (0, 1, 0))]
)
def test_joints_of_several_velocities_as_chains(joint, rng):
    """A rod to the world leaves one velocity less than the joint has; the lines are a chain that moves so."""
    made = mb.Mechanism()
    made.add_body("buoy", **body())
    made.add_joint("base", "world", "buoy", joint, ANCHOR)
    made.add_loop("pin", "world", "buoy", mb.Distance(0.9), at(0.9, 0.5, 0.4), PIN)
    lines = lines_of(made)
    chain = written(lines, placement=ANCHOR)
    free = chain.build(gravity=GRAVITY)
    assert free.nv == joint.nv and free.joint_names[0] == "base 1"
    chain.add_loop("pin", "world", "buoy", mb.Distance(0.9), at(0.9, 0.5, 0.4), PIN)
    model = chain.build(gravity=GRAVITY)
    assert model.nv == joint.nv - 1
    T = mb.forward_kinematics(model, model.neutral())[model.body_names.index("buoy")]
    assert abs(np.linalg.norm((T @ PIN)[:3, 3] - [0.9, 0.5, 0.4]) - 0.9) < 1e-12


def test_armature_goes_with_its_velocities(rng):
    """That of a universal joint to the two hinges; the error says that that of a ball has no place."""
    for joint, armature in ((mb.Universal((1, 0, 0), (0, 1, 0)), (0.3, 0.7)), (mb.Spherical(), 0.4)):
        made = mb.Mechanism()
        made.add_body("buoy", **body())
        made.add_joint("base", "world", "buoy", joint, ANCHOR, armature=armature)
        free = made.build(gravity=GRAVITY)
        made.add_loop("pin", "world", "buoy", mb.Distance(0.9), at(0.9, 0.5, 0.4), PIN)
        lines = lines_of(made)
        chain = written(lines, placement=ANCHOR).build(gravity=GRAVITY)
        assert ("armature" in lines[-1] and lines[-1].startswith("#")) == isinstance(joint, mb.Spherical)
        if isinstance(joint, mb.Universal):
            q = free.random(rng)
            np.testing.assert_allclose(mb.mass_matrix(chain, q), mb.mass_matrix(free, q), atol=1e-14)
            plain = written([line.split(", armature")[0] + ")" * ("armature" in line) for line in lines],
                            placement=ANCHOR).build(gravity=GRAVITY)  # fmt: skip
            assert np.abs(mb.mass_matrix(plain, q) - mb.mass_matrix(free, q)).max() > 0.1


@pytest.mark.parametrize("on_buoy", [False, True])
def test_a_pin_on_a_link_that_is_fixed_to_a_body(on_buoy, rng):
    """The line names the link of the loop; a link on the free body leaves the chain of six joints."""
    made = mb.Mechanism()
    made.add_body("buoy", **body())
    made.add_body("plate", 0.3)
    made.add_joint("base", "world", "buoy", mb.Free())
    made.add_joint("weld", "buoy" if on_buoy else "world", "plate", mb.Fixed(), PIN)
    ends = ("world", "plate") if on_buoy else ("plate", "buoy")
    made.add_loop("pin", *ends, mb.Coincident(), ANCHOR, PIN)
    lines = lines_of(made)
    if on_buoy:
        assert len(lines) == 11 and "mb.Prismatic" in lines[5]
        return
    assert '"plate"' in lines[1]
    other = mb.Mechanism()
    other.add_body("buoy", **body())
    other.add_body("plate", 0.3)
    other.add_joint("weld", "world", "plate", mb.Fixed(), PIN)
    names = {"add_body": other.add_body, "add_joint": other.add_joint, "mb": mb, "np": np}
    for line in lines:
        exec(line, names | {"placement_a": ANCHOR, "placement_b": PIN})
    model = other.build(gravity=GRAVITY)
    T = mb.frame_pose(model, model.random(rng), "buoy")
    np.testing.assert_allclose((T @ PIN)[:3, 3], (PIN @ ANCHOR)[:3, 3], atol=1e-14)
