"""Postures that are reported: within the limits that were given, and there the attained end is attained."""

import numpy as np
import pytest

from connections import certified
from connections import multibody as mb
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
