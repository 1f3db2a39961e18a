"""Joints: Phi against the derivative of the placement, neutral and random configurations, bad axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections import multibody as mb
from connections.checks import ModelError

JOINTS = [mb.Revolute((1.0, -2.0, 0.5)), mb.Prismatic((0.0, 3.0, 4.0)), mb.Free()]


def pose(joint, q):
    quaternion, position = joint.transform_at(q)
    return jnp.concatenate([position, quaternion])


@pytest.mark.parametrize("joint", JOINTS, ids=lambda joint: type(joint).__name__)
def test_phi_is_the_derivative_of_the_placement(joint, rng):
    q, v = jnp.asarray(joint.random(rng)), rng.standard_normal(joint.nv)
    placed, rate = jax.jvp(lambda p: pose(joint, p), (q,), (joint.frame.matrix_at(q) @ v,))
    twist = cn.SE3Frame().velocity_at(placed, rate)
    np.testing.assert_allclose(twist, joint.Phi_at(q) @ v, atol=1e-13)
    assert np.max(np.abs(twist + joint.Phi_at(q) @ v)) > 1e-2  # negative control: the other sign


@pytest.mark.parametrize("joint", [*JOINTS, mb.Fixed()], ids=lambda joint: type(joint).__name__)
def test_configurations(joint, rng):
    np.testing.assert_array_equal(pose(joint, jnp.asarray(joint.neutral())), [0, 0, 0, 0, 0, 0, 1])
    q = joint.random(rng)
    assert q.shape == joint.neutral().shape == (joint.nq,)
    assert joint.Phi_at(jnp.asarray(q)).shape == (6, joint.nv)
    np.testing.assert_allclose(np.linalg.norm(pose(joint, jnp.asarray(q))[3:]), 1.0, atol=1e-15)
    if joint.nv:
        assert (joint.frame.dim, joint.frame.ambient_dim) == (joint.nv, joint.nq)


def test_joints_compare_by_value():
    assert mb.Revolute((0, 0, 2)) == mb.Revolute(np.array([0.0, 0.0, 1.0]))
    assert mb.Revolute((0, 0, 1)) != mb.Revolute((0, 0, -1))
    assert mb.Revolute((0, 0, 1)) != mb.Prismatic((0, 0, 1))
    assert len({mb.Free(), mb.Free()}) == 1


@pytest.mark.parametrize("kind", [mb.Revolute, mb.Prismatic])
@pytest.mark.parametrize(
    ("axis", "message"),
    [((0, 0, 0), "is zero"), ((0, np.nan, 1), "not finite"), ((0, 1), "three numbers")],
)
def test_bad_axes(kind, axis, message):
    with pytest.raises(ModelError, match=message):
        kind(axis)


def test_a_fixed_joint_has_no_frame():
    with pytest.raises(ModelError, match="no frame"):
        _ = mb.Fixed().frame
