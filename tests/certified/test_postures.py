"""Postures that are reported: within the limits that were given, and there the attained end is attained."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from connections import certified
from connections import multibody as mb
from connections.certified.postures import Postures
from connections.certified.quantities import Quantities
from connections.checks import ModelError


def crane():
    """Three hinges, whose largest eigenvalue, gravity and k_C depend on the second and the third."""
    made, at = mb.Mechanism(), np.eye(4)
    at[0, 3] = 0.8
    above = "world"
    for name, axis in (("turn", (0, 0, 1)), ("luff", (0, 1, 0.2)), ("tip", (0.3, 1, 0))):
        made.add_body(name, 1.0, (0.5, 0.1, 0.2), 0.1 * np.eye(3))
        made.add_joint(f"{name} joint", above, name, mb.Revolute(axis), at)
        above = name
    return made.build()


#: Of a hinge, without 0 or wider than a turn about it.
FAR = [
    (5.0, 20.0),
    (5.0, np.inf),
    (-np.inf, -7.0),
    (-40.0, -20.0),
    (1.0, 1.0 + 2.0 * np.pi),
    (-2.0, 2.0 * np.pi - 1.0),
]


@pytest.mark.parametrize("limits", FAR)
def test_a_whole_turn_is_reported_within_the_limits_that_were_given(limits):
    """And it is the same posture: all are attained there. Slides and other angles stay as they are."""
    robot = crane()
    names = ["lambda_max", "gravity", "k_C:christoffel"]
    found = certified.constants(
        robot, {"luff joint": limits, "tip joint": (0.5, 0.9)}, only=names, rtol=0.5, seconds=5.0
    )
    for name in names:
        q = found[name].posture
        assert limits[0] <= q[1] <= limits[1], name
        assert 0.5 <= q[2] <= 0.9
    values = {
        "lambda_max": np.linalg.eigvalsh(mb.mass_matrix(robot, found["lambda_max"].posture))[-1],
        "gravity": np.linalg.norm(mb.gravity(robot, found["gravity"].posture)),
        "k_C:christoffel": certified.trilinear_norm(
            mb.christoffel_symbols(robot, found["k_C:christoffel"].posture)
        ).lower,
    }
    for name, value in values.items():
        assert value == pytest.approx(found[name].lower, rel=1e-9), name


@pytest.mark.parametrize("limits", [(np.inf, np.inf), (-np.inf, -np.inf)])
def test_limits_without_a_number_between_are_refused(limits):
    with pytest.raises(ModelError, match="turn joint.*both are"):
        certified.constants(crane(), {"turn joint": limits})


def test_a_constant_mass_matrix_has_a_posture_within_the_limits():
    made = mb.Mechanism()
    made.add_body("a", 1.0, (0.2, 0.0, 0.0))
    made.add_joint("j", "world", "a", mb.Revolute((0, 1, 0)))
    found = certified.constants(made.build(), {"j": (5.0, 20.0)}, only=["lipschitz", "lambda_max"])
    assert all(5.0 <= found[name].posture[0] <= 20.0 for name in found.intervals)


def on(joint, placement, gravity=(1.0, -2.0, 3.0), bodies=3):
    """A chain of hinges on a joint whose placement turns and shifts; gravity is along no axis."""
    made, above, at = mb.Mechanism(), "world", placement
    for number in range(bodies):
        made.add_body(f"b{number}", 1.0 + number, (0.4, 0.2 * number, -0.3), 0.1 * np.eye(3))
        kind = mb.Revolute(((0, 0, 1), (0.2, 1, 0))[number % 2]) if number else joint
        made.add_joint(f"j{number}", above, f"b{number}", kind, at)
        above, at = f"b{number}", placement @ placement
    return made.build(gravity=gravity)


def placed(rng):
    """A random rotation and a shift of 2 m."""
    at = np.eye(4)
    at[:3, :3] = Rotation.random(random_state=rng).as_matrix()
    at[:3, 3] = 2.0 * at[:3, 0]
    return at


@pytest.mark.parametrize("joint", [mb.Free(), mb.Spherical()])
@pytest.mark.parametrize("number", range(3))
def test_the_largest_gravity_is_attained_where_the_base_is_turned(joint, number):
    """The control: at most other rotations of the base it is smaller."""
    rng = np.random.default_rng(number)
    robot = on(joint, placed(rng), rng.normal(size=3))
    found = certified.constants(robot, only=["gravity"], rtol=0.3, seconds=5.0)["gravity"]
    size = np.linalg.norm(mb.gravity(robot, found.posture))
    rounding = Quantities(Postures.of(robot)).gravity().error  # which was subtracted
    assert size == pytest.approx(found.lower + rounding, rel=1e-12)
    assert rounding < 1e-11 * size
    others = np.repeat(found.posture[None], 50, axis=0)
    start = joint.quaternion
    others[:, start : start + 4] = Rotation.random(50, random_state=rng).as_quat()
    sizes = np.linalg.norm(mb.gravity(robot, others), axis=1)
    assert sizes.max() <= size * (1.0 + 1e-12) and sizes.min() < 0.9 * size


@pytest.mark.parametrize("joint", [mb.Free(), mb.Spherical()])
@pytest.mark.parametrize("far", [0.0, 1e-9, 1e-3, np.pi / 2.0, np.pi - 1e-9, np.pi])
def test_any_direction_is_turned_into_any_other(joint, far, rng):
    """Opposite ones, too, to round-off."""
    robot = on(joint, placed(rng))
    postures = Postures.of(robot)
    one, axis = rng.normal(size=(2, 3))
    other = Rotation.from_rotvec(far * np.cross(one, axis) / np.linalg.norm(np.cross(one, axis))).apply(one)
    q = postures.configurations(np.zeros((1, len(postures.lower))))[0]
    turned = postures.turned(q, 0, one, other)
    before, after = (mb.frame_pose(robot, at, "b0")[:3, :3] for at in (q, turned))
    np.testing.assert_allclose(after @ before.T @ one, other, atol=1e-14)
    np.testing.assert_array_equal(postures.turned(q, 0, 0.0 * one, other), q)


def test_the_reach_of_a_ball_joint_is_attained_where_it_is_turned(rng):
    robot = on(mb.Spherical(), placed(rng))
    found = certified.constants(robot, only=["reach"], rtol=0.1, seconds=5.0)["reach"]
    frame = robot.frame_names[-1]
    assert np.linalg.norm(mb.frame_pose(robot, found.posture, frame)[:3, 3]) == pytest.approx(
        found.lower, rel=1e-12
    )


def test_gravity_without_direction_turns_nothing(rng):
    robot = on(mb.Free(), placed(rng), (0.0, 0.0, 0.0))
    found = certified.constants(robot, only=["gravity"], seconds=1.0)["gravity"]
    assert found.lower == 0.0 and found.posture is not None and np.isfinite(found.posture).all()


def test_several_first_joints_have_no_common_direction_of_gravity():
    """Bodies whose centres are 1 m along x, y, z: each has its largest |g| across, all at once."""
    made = mb.Mechanism()
    for number, centre in enumerate(np.eye(3)):
        made.add_body(f"b{number}", 1.0, tuple(centre), 0.1 * np.eye(3))
        made.add_joint(f"j{number}", "world", f"b{number}", mb.Free())
    found = certified.constants(made.build(), only=["gravity", "lambda_max"], rtol=0.1)
    assert "lambda_max" in found.intervals and list(found.reasons) == ["gravity"]
    with pytest.raises(KeyError, match="several bodies on first joints"):
        found["gravity"]
