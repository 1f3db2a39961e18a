"""Kinetic energy, centroidal momentum and wrenches from outside, against Pinocchio's and differences."""

import jax
import numpy as np
import pytest
from cases import further

from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError, ShapeError


@pytest.fixture(scope="module", params=["quadruped", "arm", "four_bar"])
def robot(request):
    return mb.example(request.param)


def of_bodies(model, q, v):
    """[k; l] by the velocities of all bodies' parts: each body as its pseudo-inertia's sum of points."""
    poses, twists = mb.forward_kinematics(model, q), (mb.body_jacobians(model, q) @ v).reshape(-1, 6)
    c, h = mb.center_of_mass(model, q), np.zeros(6)
    for pose, twist, row in zip(poses, twists, mb.inertial_parameters(model), strict=True):
        m, first = row[0], row[1:4]
        xx, xy, yy, xz, yz, zz = row[4:]
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        R, p = pose[:3, :3], pose[:3, 3]
        along = R @ (m * twist[3:] + np.cross(twist[:3], first))
        about = R @ (inertia @ twist[:3] + np.cross(first, twist[3:]))
        h += np.r_[about + np.cross(p - c, along), along]
    return h


def test_centroidal_momentum_is_the_sum_over_bodies(robot, rng):
    q, v = np.stack([robot.random(rng) for _ in range(3)]), rng.standard_normal((3, robot.nv))
    h = mb.centroidal_momentum(robot, q, v)
    for k in range(3):
        want = of_bodies(robot, q[k], v[k])
        np.testing.assert_allclose(h[k], want, atol=1e-11 * np.abs(want).max())
    A = mb.centroidal_momentum_matrix(robot, q)
    np.testing.assert_allclose(np.einsum("kij,kj->ki", A, v), h, atol=1e-12)
    inside = jax.jit(lambda q, v: mb.centroidal_momentum(robot, q, v))(q[0], v[0])
    np.testing.assert_allclose(inside, h[0], atol=1e-11)
    energy = mb.kinetic_energy(robot, q, v)
    H = mb.mass_matrix(robot, q)
    np.testing.assert_allclose(energy, np.einsum("ki,kij,kj->k", v, H, v) / 2, rtol=1e-12)


def test_its_rate_is_a_difference(robot, rng):
    q, v, h = robot.random(rng), rng.standard_normal(robot.nv), 1e-5
    rate = mb.centroidal_momentum_matrix_rate(robot, q, v)
    ahead, behind = (mb.centroidal_momentum_matrix(robot, mb.displace(robot, q, s * h * v)) for s in (1, -1))
    scale = np.abs(mb.centroidal_momentum_matrix(robot, q)).max()
    np.testing.assert_allclose(rate, (ahead - behind) / (2 * h), atol=1e-7 * scale)
    assert np.abs(rate).max() > 1e-3 * scale  # negative control
    inside = jax.jit(lambda q, v: mb.centroidal_momentum_matrix_rate(robot, q, v))(q, v)
    np.testing.assert_allclose(inside, rate, atol=1e-10 * scale)


@pytest.mark.parametrize("name", ["arm", further("four_bar")])
def test_of_robots_whose_numbers_are_data(name, rng):
    """Values, batches and derivatives by a mass; placements that are data move the bodies."""
    robot = mb.example(name)
    q, v = np.stack([robot.random(rng) for _ in range(2)]), rng.standard_normal(robot.nv)
    heavy, h = mb.inertial_parameters(robot), 1e-3

    def momenta(model):
        rate = mb.centroidal_momentum_matrix_rate(model, q, v)
        return mb.kinetic_energy(model, q, v), mb.centroidal_momentum(model, q, v), rate

    def of_data(m):
        return momenta(robot.with_inertial_parameters(heavy + m * np.eye(10)[0]))

    values, slopes = jax.jit(lambda m: jax.jvp(of_data, (m,), (1.0,)))(0.5)
    ahead, behind = of_data(0.5 + h), of_data(0.5 - h)
    for value, slope, one, other, near in zip(values, slopes, ahead, behind, momenta(robot), strict=True):
        np.testing.assert_allclose(value, (one + other) / 2, atol=1e-5)
        np.testing.assert_allclose(slope, (one - other) / (2 * h), atol=1e-5)
        assert np.abs(value - near).max() > 1e-3  # negative control
    if name == "arm":
        joint = robot.joint_names[0]
        placement = robot.placements[joint] @ np.diag([-1.0, -1.0, 1.0, 1.0])
        moved = jax.jit(lambda T: momenta(robot.with_placements({joint: T})))(placement)
        for value, other in zip(moved, momenta(robot.with_placements({joint: placement})), strict=True):
            np.testing.assert_allclose(value, other, atol=1e-12)


def test_of_a_floating_base_it_changes_by_what_acts_from_outside(rng):
    """Newton and Euler: kdot = n + (p - c) x f, ldot = f + m g, whatever the joints do."""
    robot = mb.example("quadruped")
    frame = robot.frame_names[-1]
    q, v, tau = robot.random(rng), rng.standard_normal(18), np.r_[np.zeros(6), rng.standard_normal(12)]
    wrench = rng.standard_normal(6)
    for axes in ("body", "world"):
        a = mb.forward_dynamics(robot, q, v, tau, wrenches={frame: wrench}, axes=axes)
        rate = mb.centroidal_momentum_matrix(robot, q) @ a
        rate += mb.centroidal_momentum_matrix_rate(robot, q, v) @ v
        pose = mb.frame_pose(robot, q, frame)
        R = pose[:3, :3] if axes == "body" else np.eye(3)
        n, f = R @ wrench[:3], R @ wrench[3:]
        arm = pose[:3, 3] - mb.center_of_mass(robot, q)
        weight = mb.total_mass(robot) * np.array(robot.gravity)
        np.testing.assert_allclose(rate, np.r_[n + np.cross(arm, f), f + weight], atol=1e-9)
        again = mb.inverse_dynamics(robot, q, v, a, wrenches={frame: wrench}, axes=axes)
        np.testing.assert_allclose(again, tau, atol=1e-10)

        def pushed(w, axes=axes):
            return mb.forward_dynamics(robot, q, v, tau, wrenches={frame: w}, axes=axes)

        np.testing.assert_allclose(jax.jit(pushed)(wrench), a, atol=1e-9)
    rows = mb.forward_dynamics(robot, q, v, tau, wrenches={frame: np.stack([wrench, 0 * wrench])}, axes=axes)
    np.testing.assert_allclose(rows, [a, mb.forward_dynamics(robot, q, v, tau)], atol=1e-10)


def test_rows_of_wrenches_with_springs_and_a_result_to_fill(rng):
    """All options together: rows of wrenches at one state, one wrench at rows of states."""
    robot = mb.example("arm").with_passive(mb.joints.Passive(damping={"lift": 0.5}))
    q, v, a = np.stack([robot.random(rng) for _ in range(3)]), *rng.standard_normal((2, 6))
    W = rng.standard_normal((3, 6))
    for points, wrenches in ((q[0], W), (q, W[0]), (q, W), (q[0], W[0])):
        given, out = {"tool": wrenches}, np.empty((3, 6)) if points.ndim + wrenches.ndim > 2 else np.empty(6)
        tau = mb.inverse_dynamics(robot, points, v, a, passive=True, wrenches=given, axes="world", out=out)
        assert tau is out
        rows = [np.broadcast_to(x, (3, 6)) for x in (points, wrenches)]
        for k, row in enumerate(np.atleast_2d(tau)):
            point, wrench = rows[0][k], rows[1][k]
            J = mb.frame_jacobian(robot, point, "tool", axes="world")
            more = robot.passive_forces(point, v) + J.T @ wrench
            np.testing.assert_allclose(row, mb.inverse_dynamics(robot, point, v, a) - more, atol=1e-12)
        again = mb.forward_dynamics(robot, points, v, tau, passive=True, wrenches=given, axes="world")
        np.testing.assert_allclose(again, np.broadcast_to(a, tau.shape), atol=1e-9)
    for dynamics in (mb.inverse_dynamics, mb.forward_dynamics):
        with pytest.raises(ShapeError, match="frame 'tool'"):
            dynamics(robot, q, v, a, wrenches={"tool": W[:2]})
        with pytest.raises(ShapeError, match="out"):
            dynamics(robot, q[0], v, a, wrenches={"tool": W}, out=np.empty(6))


def test_of_loops_wrenches_do_the_same_work(rng):
    robot = mb.example("four_bar")
    frame, q, v = robot.frame_names[-1], robot.random(rng), np.ones(1)
    wrench = rng.standard_normal(6)
    tau = mb.inverse_dynamics(robot, q, v, v, wrenches={frame: wrench}, passive=False)
    power = wrench @ mb.frame_jacobian(robot, q, frame) @ v
    np.testing.assert_allclose(mb.inverse_dynamics(robot, q, v, v) @ v - tau @ v, power, atol=1e-12)
    assert abs(power) > 1e-3


def test_wrong_wrenches_are_refused_by_name():
    robot = mb.example("arm")
    q = robot.neutral()
    for wrenches, error, named in (
        ({"tol": np.zeros(6)}, ModelError, "no frame 'tol'; did you mean tool"),
        ({"tool": np.zeros(3)}, ShapeError, "frame 'tool'"),
        ({"tool": np.full(6, np.nan)}, NonFiniteError, "frame 'tool'"),
        ([np.zeros(6)], TypeError, "wrenches"),
    ):
        with pytest.raises(error, match=named):
            mb.forward_dynamics(robot, q, q, q, wrenches=wrenches)
    with pytest.raises(ValueError, match="axes"):
        mb.inverse_dynamics(robot, q, q, q, wrenches={"tool": np.zeros(6)}, axes="base")


def test_pinocchios_are_the_same(rng):
    """Ag, dAg and the kinetic energy of Pinocchio, linear part first there."""
    pin = pytest.importorskip("pinocchio")
    from robots import robot_path

    path = robot_path("ur5")
    theirs, ours = pin.buildModelFromUrdf(str(path)), mb.from_urdf(path)
    data = theirs.createData()
    q, v = ours.random(rng), rng.standard_normal(ours.nv)
    pin.dccrba(theirs, data, q, v)
    swap = np.r_[3:6, 0:3]
    np.testing.assert_allclose(mb.centroidal_momentum_matrix(ours, q), data.Ag[swap], atol=1e-12)
    np.testing.assert_allclose(
        mb.centroidal_momentum_matrix_rate(ours, q, v) @ v, (data.dAg @ v)[swap], atol=1e-11
    )
    energy = pin.computeKineticEnergy(theirs, data, q, v)
    np.testing.assert_allclose(mb.kinetic_energy(ours, q, v), energy, rtol=1e-12)
