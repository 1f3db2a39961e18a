"""Angles of many turns: results are those of the angle within half a turn of the same sine and cosine."""

import numpy as np
import pytest
from closed_chains import four_bar
from recursion_functions import agree, call, model, on_trees, states

from connections import multibody as mb

# Below and beyond 1e5, from where on angles are reduced; beyond 1e6, which `sine_cosine` takes.
ANGLES = (7.5, -99_999.75, 100_000.5, 1_234_567.25, -3e7, 1e9 + 0.5, 1e15)


def within_half_a_turn(angle):
    """Of the same sine and cosine, which the C library computes from the angle's exact value."""
    return np.arctan2(np.sin(angle), np.cos(angle))


def angles_of_a_tree():
    """Columns of q: the angles of joints that may turn without end and move nothing else."""
    robot = model()
    columns = []
    for name, joint in zip(robot.joint_names, robot.kinematics.tree.joints, strict=True):
        where = robot.configuration_slice(name)
        if type(joint) in (mb.Revolute, mb.Cylindrical, mb.Universal):
            columns.append(where.start)
        elif type(joint) is mb.Planar:
            columns.append(where.stop - 1)
    return columns


@on_trees()
def test_an_angle_of_many_turns(name, rng):
    q, *rest = states(name, rng, len(ANGLES))
    far, near = q.copy(), q.copy()
    for column in angles_of_a_tree():
        angles = rng.permutation(ANGLES)
        far[:, column], near[:, column] = angles, within_half_a_turn(angles)
    expected = call(name, near, *rest)
    assert agree(call(name, far, *rest), expected, 1e-13)
    for row in range(len(ANGLES)):
        assert agree(call(name, far[row], *(x[row] for x in rest)), expected[row], 1e-13)


@pytest.mark.parametrize("size", [3e6, 1e20])
def test_a_crank_of_many_turns(size, rng):
    """The reference is as many turns away; the other angles of the loop are within one."""
    near, plan = four_bar().build(), four_bar()
    (crank,), home = near.joint_names, near.neutral()
    many = size * rng.uniform(0.5, 1.0, 1_000)
    q = many[np.abs(within_half_a_turn(many) - home) < 0.2][:1]
    assert q.size == 1
    plan.reference[crank] = q
    far, v = plan.build(), np.ones(1)
    for function, vectors in ((mb.mass_matrix, []), (mb.gravity, []), (mb.coriolis_matrix, [v])):
        expected = function(near, within_half_a_turn(q), *vectors)
        np.testing.assert_allclose(function(far, q, *vectors), expected, rtol=1e-11)
