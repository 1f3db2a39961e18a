"""Joints: Phi against the derivative of the placement, chains, closed forms, bad arguments."""

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import connections as cn
from connections import multibody as mb
from connections.checks import ModelError
from connections.geometry.rigid.rotations import quaternion_product, rotation_matrix
from connections.multibody.joints import ElementaryJoint, Joint
from connections.multibody.kernels import elementary_joints
from connections.multibody.kernels.elementary_joints import KINDS

JOINTS = [
    mb.Revolute((1.0, -2.0, 0.5)),
    mb.Prismatic((0.0, 3.0, 4.0)),
    mb.Helical((1.0, 0.2, -0.4), pitch=-0.3),
    mb.Cylindrical((-0.5, 1.0, 2.0)),
    mb.Universal((1, 0, 0), (0, 1, 0)),
    mb.Universal((1.0, 0.3, -0.2), (0.4, 1.0, 0.9)),
    mb.Planar(),
    mb.Spherical(),
    mb.Free(),
]
every_joint = pytest.mark.parametrize("joint", JOINTS, ids=lambda joint: type(joint).__name__)


def pose(joint, q):
    quaternion, position = joint.transform_at(q)
    return jnp.concatenate([position, quaternion])


@every_joint
def test_phi_is_the_derivative_of_the_placement(joint, rng):
    for _ in range(5):
        q, v = jnp.asarray(joint.random(rng)), rng.standard_normal(joint.nv)
        placed, rate = jax.jvp(lambda p: pose(joint, p), (q,), (joint.frame.matrix_at(q) @ v,))
        twist = cn.SE3Frame().velocity_at(placed, rate)
        np.testing.assert_allclose(twist, joint.Phi_at(q) @ v, atol=1e-13)
        assert np.max(np.abs(twist + joint.Phi_at(q) @ v)) > 1e-2  # negative control: the other sign


@every_joint
def test_phi_against_differences_of_the_homogeneous_transform(joint, rng):
    """(T^-1 dT/dt) holds the body twist; no quaternion rates, no automatic differentiation."""

    def transform(p):
        quaternion, position = joint.transform_at(jnp.asarray(p))
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = Rotation.from_quat(quaternion).as_matrix(), position
        return T

    q, v, h = joint.random(rng), rng.standard_normal(joint.nv), 1e-6
    q_dot = np.asarray(joint.frame.matrix(q)) @ v
    body = np.linalg.solve(transform(q), (transform(q + h * q_dot) - transform(q - h * q_dot)) / (2 * h))
    twist = np.array([body[2, 1], body[0, 2], body[1, 0], *body[:3, 3]])
    np.testing.assert_allclose(twist, joint.Phi_at(jnp.asarray(q)) @ v, atol=1e-8)


@every_joint
def test_the_chain_moves_the_child_in_the_same_way(joint, rng):
    q, v = joint.random(rng), rng.standard_normal(joint.nv)
    assert sum(link.nq for link in joint.chain) == joint.nq
    assert sum(link.nv for link in joint.chain) == joint.nv
    quaternion, position, twist = jnp.array([0.0, 0.0, 0.0, 1.0]), jnp.zeros(3), np.zeros(6)
    q_left, v_left = jnp.asarray(q), v
    for link in joint.chain:
        assert link.chain == (link,)
        here, q_left = q_left[: link.nq], q_left[link.nq :]
        rate, v_left = v_left[: link.nv], v_left[link.nv :]
        turned, moved = link.transform_at(here)
        R = np.asarray(rotation_matrix(turned))
        carried = [R.T @ twist[:3], R.T @ (twist[3:] + np.cross(twist[:3], moved))]
        twist = np.concatenate(carried) + link.Phi_at(here) @ rate
        position = position + rotation_matrix(quaternion) @ moved
        quaternion = quaternion_product(quaternion, turned)
    np.testing.assert_allclose(jnp.concatenate([position, quaternion]), pose(joint, q), atol=1e-14)
    np.testing.assert_allclose(twist, joint.Phi_at(q) @ v, atol=1e-14)
    for link in joint.chain:  # elementary: Phi does not depend on the configuration
        np.testing.assert_array_equal(link.Phi_at(link.neutral()), link.Phi_at(link.random(rng)))


def final_classes(above):
    """The joint classes of the package that are made, not derived from."""
    below = [each for each in above.__subclasses__() if each.__module__.startswith("connections.")]
    return {each for part in below for each in final_classes(part)} if below else {above}


def test_every_class_is_tested_and_every_kind_is_one_class():
    assert {type(joint) for joint in JOINTS} | {mb.Fixed} == final_classes(Joint)
    kinds = [each.kind for each in final_classes(ElementaryJoint)]
    assert sorted(kinds) == sorted(KINDS)
    assert {type(link) for joint in JOINTS for link in joint.chain} == final_classes(ElementaryJoint)


def kinds_of_joints_in(source):
    """Where a source names a kind of joints, or compares the kind of one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.alias | ast.Name | ast.Attribute):
            name = getattr(node, {ast.alias: "name", ast.Name: "id", ast.Attribute: "attr"}[type(node)])
            if name.lower() in KINDS and name.isupper():
                yield name
        elif isinstance(node, ast.Compare) and ".kind" in ast.unparse(node):
            yield ast.unparse(node)


def test_one_file_of_the_kernels_knows_the_kinds():
    files = Path(elementary_joints.__file__).parent.glob("*.py")
    found = {path.name: list(kinds_of_joints_in(path.read_text(encoding="utf-8"))) for path in files}
    assert {name.lower() for name in found.pop("elementary_joints.py")} == set(KINDS)
    assert not any(found.values()), found
    for wrong in ("tree.kind[i] >= 3", "from joints import FREE", "joints.FREE == number"):
        assert list(kinds_of_joints_in(wrong))


@pytest.mark.parametrize(
    "joint", [joint for joint in JOINTS if joint.chain == (joint,)], ids=lambda joint: type(joint).__name__
)
def test_the_row_of_an_elementary_joint_is_that_of_its_definition(joint, rng):
    """NumPy's side against transform, Phi and frame in JAX; brackets against the structure functions."""
    q, v = joint.random(rng), rng.standard_normal(joint.nv)
    quaternion, position = joint.transform_at(jnp.asarray(q))
    np.testing.assert_allclose(joint.pose(q)[:3, :3], Rotation.from_quat(quaternion).as_matrix(), atol=1e-15)
    np.testing.assert_allclose(joint.pose(q)[:3, 3], position, atol=1e-15)
    Phi, X = np.asarray(joint.Phi_at(jnp.asarray(q))), np.asarray(joint.frame.matrix(q))
    np.testing.assert_array_equal(joint.motion, Phi)
    np.testing.assert_array_equal(joint.turns, np.linalg.norm(Phi[:3], axis=0) > 0.0)
    s = np.asarray(joint.frame.structure_functions(q))
    np.testing.assert_array_equal(joint.brackets, np.abs(s).max(axis=0) > 1e-9)
    assert joint.brackets.any() == (joint.quaternion is not None)

    assert len(joint.lengths) == joint.nq
    longer = np.asarray(joint.transform_at(jnp.asarray(np.where(joint.lengths, 2.0 * q, q)))[1])
    np.testing.assert_allclose(longer, position * (2.0 if any(joint.lengths) else 1.0), atol=1e-15)
    if joint.quaternion is None:
        np.testing.assert_array_equal(X, np.eye(joint.nq))
    else:
        part = q[joint.quaternion :][:4]
        np.testing.assert_array_equal(part, quaternion)
    np.testing.assert_allclose(joint.frame_matrix(q), X, atol=1e-15)
    np.testing.assert_allclose(joint.velocity(q[None], (X @ v)[None]), [v], atol=1e-14)
    assert np.max(np.abs(joint.frame_matrix(q) @ v + X @ v)) > 1e-2  # negative control: the other sign

    E = joint.axes
    np.testing.assert_allclose(E.T @ E, np.eye(3), atol=1e-15)
    assert np.linalg.det(E) > 0.0
    if joint.nv == 1:  # the column in the axes of the kernels' link
        turn, slide = E.T @ Phi[:3, 0], E.T @ Phi[3:, 0]
        np.testing.assert_allclose(turn[:2], 0.0, atol=1e-15)
        advance = joint.pitch_of_link * turn if joint.turns.any() else np.array([0.0, 0.0, 1.0])
        np.testing.assert_allclose(slide, advance, atol=1e-15)


@pytest.mark.parametrize(
    "joint", [joint for joint in JOINTS if joint.chain == (joint,)], ids=lambda joint: type(joint).__name__
)
def test_displacements_of_an_elementary_joint(joint, rng):
    """exp is the flow of the frame; the retraction agrees with it to first order, and only to that."""
    q, xi = joint.random(rng), 0.3 * rng.standard_normal(joint.nv)
    there = joint.displaced(q, xi)
    x, steps = jnp.asarray(q), 200
    for _ in range(steps):  # the midpoint rule
        half = x + 0.5 / steps * joint.frame.matrix_at(x) @ xi
        x = x + joint.frame.matrix_at(half) @ xi / steps
    np.testing.assert_allclose(there, x, atol=1e-6)
    np.testing.assert_allclose(joint.difference(q, there), xi, atol=1e-14)
    errors = [np.max(np.abs(joint.retracted(q, h * xi) - joint.displaced(q, h * xi))) for h in (1e-2, 1e-3)]
    assert errors[0] < 1e-3
    assert errors[1] <= max(errors[0] / 50.0, 1e-15)
    assert np.max(np.abs(joint.displaced(q, -xi) - there)) > 0.3 * np.max(np.abs(xi))  # negative control


def test_the_chain_is_in_order():
    x, z = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
    assert mb.Universal(x, z).chain == (mb.Revolute(x), mb.Revolute(z))
    assert mb.Cylindrical(z).chain == (mb.Revolute(z), mb.Prismatic(z))
    assert mb.Planar().chain == (mb.Prismatic(x), mb.Prismatic((0, 1, 0)), mb.Revolute(z))


def test_placements_in_closed_form():
    screw, angle = mb.Helical((0, 0, 2), pitch=0.25), 0.8
    np.testing.assert_allclose(pose(screw, jnp.array([angle]))[:3], [0, 0, 0.2], atol=1e-15)
    np.testing.assert_allclose(
        pose(screw, jnp.array([angle]))[3:], [0, 0, np.sin(angle / 2), np.cos(angle / 2)], atol=1e-15
    )
    q = np.array([0.3, -1.1])
    cross = mb.Universal((1, 0, 0), (0, 1, 0)).transform_at(jnp.asarray(q))[0]
    ours = Rotation.from_quat(cross).as_matrix()
    np.testing.assert_allclose(ours, Rotation.from_euler("XY", q).as_matrix(), atol=1e-15)
    assert np.max(np.abs(ours - Rotation.from_euler("xy", q).as_matrix())) > 1e-2  # about fixed axes
    placed = pose(mb.Planar(), jnp.array([2.0, 3.0, angle]))
    np.testing.assert_allclose(placed, [2, 3, 0, 0, 0, np.sin(angle / 2), np.cos(angle / 2)], atol=1e-15)


def test_phi_of_a_universal_joint_is_that_of_the_paper():
    """R = Rx(q1) Ry(q2): Phi_1 = (cos q2, 0, sin q2; 0), Phi_2 = (0, 1, 0; 0). [W] VI-B."""
    Phi = mb.Universal((1, 0, 0), (0, 1, 0)).Phi_at(jnp.array([0.7, 0.4]))
    np.testing.assert_allclose(Phi[:, 0], [np.cos(0.4), 0, np.sin(0.4), 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(Phi[:, 1], [0, 1, 0, 0, 0, 0], atol=1e-15)


@pytest.mark.parametrize("joint", [*JOINTS, mb.Fixed()], ids=lambda joint: type(joint).__name__)
def test_configurations(joint, rng):
    np.testing.assert_array_equal(pose(joint, jnp.asarray(joint.neutral())), [0, 0, 0, 0, 0, 0, 1])
    q = joint.random(rng)
    assert q.shape == joint.neutral().shape == (joint.nq,)
    assert joint.Phi_at(jnp.asarray(q)).shape == (6, joint.nv)
    np.testing.assert_allclose(np.linalg.norm(pose(joint, jnp.asarray(q))[3:]), 1.0, atol=1e-15)
    if joint.nv:
        assert (joint.frame.dim, joint.frame.ambient_dim) == (joint.nv, joint.nq)
        assert bool(joint.frame.valid_at(jnp.asarray(q)))


def test_joints_compare_by_value():
    assert mb.Revolute((0, 0, 2)) == mb.Revolute(np.array([0.0, 0.0, 1.0]))
    assert mb.Revolute((0, 0, 1)) != mb.Revolute((0, 0, -1))
    assert mb.Revolute((0, 0, 1)) != mb.Prismatic((0, 0, 1))
    assert mb.Helical((0, 0, 1), 1) == mb.Helical((0, 0, 2), 1.0) != mb.Helical((0, 0, 1), 2.0)
    assert mb.Universal((0, 0, 1), (1, 0, 0)) != mb.Universal((1, 0, 0), (0, 0, 1))
    assert len({mb.Free(), mb.Free()}) == len({mb.Planar(), mb.Planar()}) == 1


@pytest.mark.parametrize(
    "kind",
    [
        mb.Revolute,
        mb.Prismatic,
        mb.Cylindrical,
        lambda axis: mb.Helical(axis, 0.1),
        lambda axis: mb.Universal(axis, (1, 0, 0)),
        lambda axis: mb.Universal((1, 0, 0), axis),
    ],
)
def test_bad_axes(kind):
    for axis, message in (
        ((0, 0, 0), "is zero"),
        ((0, np.nan, 1), "not finite"),
        ((0, 1), "three numbers"),
        ("z", "three numbers"),
        (((0, 1), (2,)), "three numbers"),
    ):
        with pytest.raises(ModelError, match=message):
            kind(axis)


@pytest.mark.parametrize("length", [1e-300, 2.0**-50, 1.0, 2.0**50, 1e300])
def test_the_length_of_an_axis_says_nothing(length):
    unit = np.array([2.0, -3.0, 6.0]) / 7.0
    np.testing.assert_allclose(mb.Revolute(length * unit).axis, unit, rtol=1e-15)


def test_bad_pitches_and_parallel_axes():
    for pitch, message in (
        (np.inf, "pitch is inf"),
        ("coarse", "pitch: expected a real number, got a str"),
    ):
        with pytest.raises(ModelError, match=message):
            mb.Helical((0, 0, 1), pitch)
    for axis in ((0, 0, 3), (0, 0, -1)):
        with pytest.raises(ModelError, match="parallel"):
            mb.Universal((0, 0, 1), axis)
    mb.Universal((0, 0, 1), (0, 0.01, 1))  # nearly parallel is legal


def test_a_fixed_joint_has_no_frame():
    with pytest.raises(ModelError, match="no frame"):
        _ = mb.Fixed().frame
    assert mb.Fixed().chain == ()
