"""`Model` against Pinocchio, against its own Koszul connection, and against its own layout."""

import copy
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from pinocchio_oracle import PinocchioRobot
from robots import robot_path
from scipy.spatial.transform import Rotation
from urdf_parts import joint, link

import connections as cn
from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError, PointError, ShapeError
from connections.evaluation.compilation import flattened
from connections.multibody.definition.spatial import body_coriolis

pytestmark = pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")
TOL = 1e-11
# Every function is compiled once per robot: all tests use batches of four.
ROBOTS = ["ur5", "anymal", "branched_floating", "panda"]


class Robot:
    """A model, the same robot in Pinocchio, and its Koszul connection, compiled once for all tests."""

    def __init__(self, path, floating_base=False):
        self.model = mb.from_urdf(path, floating_base=floating_base)
        self.oracle = PinocchioRobot(path, floating_base)
        self.system = self.model.system()
        self.koszul = cn.LeviCivita(self.model.definition.metric)

    def samples(self, rng, count=4):
        q = np.stack([self.model.random(rng) for _ in range(count)])
        return q, rng.standard_normal((count, self.model.nv))


@pytest.fixture(scope="module")
def robots(tmp_path_factory):
    """A robot by name, built once. The panda's second finger mimics the first; here it does not."""
    cache = {}
    here = __file__.rsplit("/", 2)[0]

    def get(name):
        if name not in cache:
            if name.startswith("branched"):
                cache[name] = Robot(f"{here}/data/branched.urdf", name.endswith("floating"))
            elif name == "panda":
                path = tmp_path_factory.mktemp("panda") / "panda.urdf"
                path.write_text(re.sub(r"<mimic[^>]*/>", "", robot_path("panda").read_text("utf8")), "utf8")
                cache[name] = Robot(path)
            else:
                cache[name] = Robot(robot_path(name), name in ("anymal", "solo12", "a1"))
        return cache[name]

    return get


def close(ours, theirs, tol=TOL):
    return np.max(np.abs(np.asarray(ours) - np.asarray(theirs))) <= tol * np.max(np.abs(theirs))


# --- against Pinocchio -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", always(ROBOTS, "branched_floating"))
def test_mass_matrix(name, robots, rng):
    robot = robots(name)
    q, _ = robot.samples(rng)
    theirs = np.stack([robot.oracle.mass_matrix(p) for p in q])
    assert close(robot.model.definition.metric.matrix(q), theirs)
    assert not close(robot.model.definition.metric.matrix(q[::-1]), theirs, 1e-2)  # negative control


@pytest.mark.parametrize("name", ROBOTS)
def test_coriolis_matrix(name, robots, rng):
    robot = robots(name)
    q, v = robot.samples(rng)
    theirs = np.stack([robot.oracle.coriolis_matrix(*sample) for sample in zip(q, v, strict=True)])
    ours = robot.system.coriolis_matrix(q, v)
    assert close(ours, theirs)
    assert not close(np.swapaxes(ours, -1, -2), theirs, 1e-2)  # negative control: transposed


@pytest.mark.parametrize("name", ROBOTS[:3])
def test_gravity_and_inverse_dynamics(name, robots, rng):
    robot = robots(name)
    q, v = robot.samples(rng)
    a = rng.standard_normal(v.shape)
    gravity = np.stack([robot.oracle.gravity(p) for p in q])
    assert close(robot.system.gravity(q), gravity)
    theirs = np.stack([robot.oracle.inverse_dynamics(*sample) for sample in zip(q, v, a, strict=True)])
    assert close(robot.system.inverse_dynamics(q, v, a), theirs)
    potential = np.array([robot.oracle.potential(p) for p in q])
    upside_down = robot.model.with_gravity((0, 0, 9.81))
    both = jax.vmap(lambda p: (robot.model.potential(p), upside_down.potential(p)))
    ours, other = jax.jit(both)(q)
    assert close(ours - ours[0], potential - potential[0])
    assert not close(other, ours, 1e-2)  # negative control


@pytest.mark.parametrize("name", [*ROBOTS, "branched"])
def test_body_jacobians_and_poses(name, robots, rng):
    robot = robots(name)
    q, _ = robot.samples(rng)
    A = mb.body_jacobians(robot.model, q)
    assert A.shape == (4, 6 * len(robot.model.body_names), robot.model.nv)
    theirs = np.stack([robot.oracle.body_jacobians(p) for p in q])
    assert close(A, theirs)
    assert not close(np.roll(A.reshape(4, -1, 6, robot.model.nv), 3, axis=2).reshape(A.shape), theirs, 1e-2)
    poses = np.asarray(jax.jit(robot.model.embed_at)(q[0])).reshape(-1, 7)
    expected = robot.oracle.world_poses(q[0])
    assert close(poses[:, :3], expected[:, :3, 3])
    assert close(Rotation.from_quat(poses[:, 3:]).as_matrix(), expected[:, :3, :3])


# --- against itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", always(ROBOTS[:3], "branched_floating"))
def test_induced_connection_is_the_koszul_connection(name, robots, rng):
    robot = robots(name)
    q, v = robot.samples(rng)
    induced = robot.model.definition.connection.coefficients(q)
    assert close(induced, robot.koszul.coefficients(q), 1e-10)
    w = rng.standard_normal(v.shape)
    assert close(
        robot.model.definition.connection.apply(q, v, w), np.einsum("...ijk,...j,...k", induced, v, w), 1e-10
    )
    swapped = np.swapaxes(induced, -1, -2)
    if robot.model.frame != cn.CoordinateFrame(robot.model.nv):  # negative control: s is not zero
        assert not close(swapped, induced, 1e-2)


@pytest.mark.further
def test_the_connection_is_riemannian(robots, rng):
    robot = robots("branched_floating")
    model = robot.model
    q, v = robot.samples(rng)
    H, Gamma = (
        np.asarray(model.definition.metric.matrix(q)),
        np.asarray(model.definition.connection.coefficients(q)),
    )
    twice = Gamma - np.swapaxes(Gamma, -1, -2)
    s = np.asarray(model.frame.structure_functions(q))
    assert np.max(np.abs(twice - s)) <= 1e-11 * np.max(np.abs(Gamma))
    assert np.max(np.abs(twice + s)) > 1e-2 * np.max(np.abs(Gamma))  # negative control
    dH = np.asarray(jax.jit(jax.vmap(model.definition.metric.derivative_at))(q))
    low = np.einsum("...il,...ljk->...ijk", H, Gamma)  # Q[i, j, k] = L_i H_jk - Gamma_kij - Gamma_jik
    Q = dH - np.moveaxis(low, -3, -1) - np.swapaxes(low, -3, -2)
    assert np.max(np.abs(Q)) <= 1e-11 * np.max(np.abs(dH))
    other_index = dH - np.moveaxis(low, -1, -3) - np.swapaxes(np.moveaxis(low, -1, -3), -1, -2)
    assert np.max(np.abs(other_index)) > 1e-2 * np.max(np.abs(dH))  # negative control
    a = rng.standard_normal(v.shape)
    assert close(robot.system.hamel(q, v, a), robot.system.inverse_dynamics(q, v, a), 1e-10)


def test_jacobians_are_the_derivative_of_the_embedding(robots, rng):
    model = robots("branched_floating").model
    q = jnp.asarray(model.random(rng))
    ambient = model.definition.connection.ambient.frame
    pushed = jax.jit(lambda p: model.frame.lie_derivative_at(model.embed_at, p).T)(q)
    X = jax.jit(lambda p: ambient.matrix_at(model.embed_at(p)))(q)
    A = mb.body_jacobians(model, q)
    np.testing.assert_allclose(X @ A, pushed, atol=1e-13)
    assert np.max(np.abs(X @ A[:, ::-1] - pushed)) > 1e-2  # negative control


@pytest.mark.further
def test_jacobian_method_gives_the_same_coriolis_matrix(robots, rng):
    """C = sum_b J_b^T (C_b J_b + I_b Jdot_b), [W] (20), body by body."""
    model = robots("branched_floating").model
    q, v = jnp.asarray(model.random(rng)), jnp.asarray(rng.standard_normal(model.nv))
    jacobians = model.kinematics.body_jacobians_at
    J, J_dot = jax.jit(lambda p, w: jax.jvp(jacobians, (p,), (w,)))(q, model.frame.matrix_at(q) @ v)
    inertias = model.kinematics.tree.inertias
    C = sum(
        J[b].T @ (body_coriolis(jnp.asarray(inertias[b]), J[b] @ v) @ J[b] + inertias[b] @ J_dot[b])
        for b in range(len(inertias))
    )
    assert close(jax.jit(robots("branched_floating").system.coriolis_matrix_at)(q, v), C)
    without = sum(J[b].T @ inertias[b] @ J_dot[b] for b in range(len(inertias)))
    assert not close(without, C, 1e-2)  # negative control


def test_a_singular_inertia_that_no_body_has(tmp_path, rng):
    """A rotor with one moment of inertia and no mass, turned in space: H Gamma leaves the range of I_b."""
    rotor = """<inertial><mass value="0"/>
      <inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0.4"/></inertial>"""
    across = '<origin xyz="0.1 0 0.2" rpy="0.3 0.4 0"/><axis xyz="0 1 0.2"/>'
    path = tmp_path / "rotor.urdf"
    path.write_text(
        '<robot name="r">'
        + link("base") + link("arm") + link("fork") + link("rotor", rotor)
        + joint("j1", "base", "arm") + joint("j2", "arm", "fork", more=across) + joint("j3", "fork", "rotor")
        + "</robot>"
    )  # fmt: skip
    robot = Robot(path)
    q, v = robot.samples(rng, 2)
    theirs = np.stack([robot.oracle.coriolis_matrix(*sample) for sample in zip(q, v, strict=True)])
    assert close(robot.system.coriolis_matrix(q, v), theirs)
    assert close(robot.model.definition.connection.coefficients(q), robot.koszul.coefficients(q), 1e-10)
    ambient, A = (
        robot.model.definition.connection.ambient,
        mb.body_jacobians(robot.model, q[0]),
    )  # negative control
    exact = ambient.lowered_at(ambient.metric, None, A @ v[0], A[:, 0])
    projected = ambient.metric.matrix_at(None) @ ambient.apply_at(None, A @ v[0], A[:, 0])
    assert np.max(np.abs(exact - projected)) > 1e-2


def test_numbers_stay_accurate_far_from_the_origin(robots, rng):
    """H depends on differences of positions only."""
    model = robots("branched_floating").model
    q = np.stack([model.random(rng) for _ in range(4)])
    far = q.copy()
    far[:, :3] += 1e5
    assert close(model.definition.metric.matrix(far), model.definition.metric.matrix(q), 1e-9)
    far[:, 7] += 2.0  # negative control: the slide moved, too
    assert not close(model.definition.metric.matrix(far), model.definition.metric.matrix(q), 1e-2)


def test_free_fall_of_the_centre_of_mass(robots, rng):
    robot = robots("branched_floating")
    q = robot.model.random(rng)
    v = np.zeros(robot.model.nv)
    a = robot.system.forward_dynamics(q, v, v)
    R = Rotation.from_quat(q[3:7]).as_matrix()
    np.testing.assert_allclose(R @ a[3:6], [0, 0, -9.81], atol=1e-9)
    np.testing.assert_allclose(np.delete(a, [3, 4, 5]), 0, atol=1e-9)


# --- layout and arguments --------------------------------------------------------------------------------


def test_layout_and_frame(robots):
    model = robots("anymal").model
    assert (model.nq, model.nv, len(model.body_names)) == (19, 18, 13)
    assert model.frame == cn.ProductFrame(cn.SE3Frame(), cn.CoordinateFrame(12))
    assert robots("ur5").model.frame == cn.CoordinateFrame(6)
    assert model.joint_names[0] == "root_joint"
    assert model.configuration_slice("root_joint") == slice(0, 7)
    assert model.velocity_slice(model.joint_names[1]) == slice(6, 7)
    np.testing.assert_array_equal(model.neutral()[:7], [0, 0, 0, 0, 0, 0, 1])
    assert model.gravity == (0.0, 0.0, -9.81)
    assert model.definition.metric is model.definition.metric and model.metric is model.metric
    assert model.connection is model.connection and model.connection is not model.definition.connection
    with pytest.raises(ModelError, match="no joint 'elbow'"):
        model.configuration_slice("elbow")


def test_spanning_configuration(robots, rng):
    model = robots("branched_floating").model
    q = np.stack([model.random(rng) for _ in range(3)])
    spanning = model.spanning_configuration(q)
    assert tuple(spanning) == model.joint_names
    np.testing.assert_array_equal(np.concatenate(list(spanning.values()), axis=-1), q)


def test_random_is_reproducible(robots):
    model = robots("branched_floating").model
    first, again = (model.random(np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert np.any(model.random(np.random.default_rng(8)) != first)
    with pytest.raises(TypeError, match="Generator"):
        model.random(np.random)


def test_batches(robots, rng):
    model = robots("branched_floating").model
    q = np.stack([model.random(rng) for _ in range(4)]).reshape(2, 2, -1)
    A = mb.body_jacobians(model, q)
    assert A.shape == (2, 2, 6 * len(model.body_names), model.nv)
    np.testing.assert_allclose(A[1, 0], mb.body_jacobians(model, q[1, 0]), atol=1e-14)


def test_bad_configurations(robots):
    model = robots("branched_floating").model
    q = model.neutral()
    with pytest.raises(ShapeError, match="q"):
        mb.body_jacobians(model, q[:-1])
    with pytest.raises(NonFiniteError, match=r"q\[1\]"):
        mb.body_jacobians(model, np.where(np.arange(len(q)) == 1, np.nan, q))
    with pytest.raises(PointError, match="norm 2"):
        mb.body_jacobians(model, np.where(np.arange(len(q)) == 6, 2.0, q))
    with pytest.raises(PointError, match="norm 2"):
        model.definition.metric.matrix(np.where(np.arange(len(q)) == 6, 2.0, q))


# --- equality -----------------------------------------------------------------------------------------------


def _others_of(robot):
    """The same robot with one thing changed."""
    joint, body = robot.joint_names[0], robot.body_names[0]
    parameters = np.array(mb.inertial_parameters(robot))
    parameters[0, 0] = np.nextafter(parameters[0, 0], np.inf)
    yield robot.with_gravity((0.0, 0.0, -1.62))
    yield robot.with_armature({joint: 0.1})
    yield robot.with_inertial_parameters(parameters)
    yield robot.with_frames({"eye": (body, np.eye(4))})


@pytest.mark.parametrize("name", ["arm", "four_bar"])
def test_models_of_the_same_content_are_equal(name):
    """Read again, copied or pickled; of those that differ in a last digit none is."""
    robot = mb.example(name)
    alike = [mb.example(name), pickle.loads(pickle.dumps(robot)), copy.deepcopy(robot)]
    assert all(other == robot and hash(other) == hash(robot) for other in alike)
    assert not any(other == robot for other in _others_of(robot)) and robot != name
    traces = []

    def H(robot, q):
        traces.append(robot)
        return mb.mass_matrix(robot, q)

    function = jax.jit(H, static_argnums=0)
    for other in (robot, *alike):
        np.testing.assert_array_equal(function(other, robot.neutral()), function(robot, robot.neutral()))
    assert len(traces) == 1
    for count, other in enumerate(_others_of(robot), start=2):
        function(other, robot.neutral())
        assert len(traces) == count


def test_equal_models_share_what_is_compiled_for_their_geometry():
    """Metrics and connections of equal robots have one structure."""
    first, second = mb.example("arm"), mb.example("arm")
    robots = first, second, first.with_gravity((1.0, 0.0, 0.0))
    structures = [flattened(robot.system().metric)[0] for robot in robots]
    assert structures[0] is structures[1] and structures[2] is not structures[0]


@pytest.mark.parametrize("name", ["arm", "four_bar"])
def test_what_is_made_of_equal_models_is_equal(name):
    """Frames, metrics, connections, definitions and systems; those of a robot that differs are not."""

    def parts(robot):
        system = robot.system(gamma=0.5)
        return robot.frame, robot.metric, robot.connection, robot.definition, robot.system(), system

    robot = mb.example(name)
    for other in (mb.example(name), pickle.loads(pickle.dumps(robot))):
        assert parts(other) == parts(robot) and list(map(hash, parts(other))) == list(map(hash, parts(robot)))
    assert pickle.loads(pickle.dumps(robot.metric)) == robot.metric
    for other in (robot.with_gravity((0.0, 0.0, -1.62)), next(_others_of(robot))):
        assert not any(
            ours == theirs for ours, theirs in zip(parts(other)[1:], parts(robot)[1:], strict=True)
        )
    assert robot.system(gamma=0.5) != robot.system(gamma=0.3) and robot.metric != robot.definition.metric


def test_functions_of_users_are_compared_by_identity():
    def plan(function):
        mechanism = mb.Mechanism()
        for name in ("turn", "lift"):
            mechanism.add_body(name, 1.0, (0.1, 0, 0), np.eye(3))
            mechanism.add_joint(name, "world", name, mb.Revolute((0, 0, 1)))
        mechanism.add_coupling("cam", ["turn", "lift"], function=function, independent=["turn"])
        return mechanism.build()

    cam = lambda turn, lift: lift - jnp.sin(turn)  # noqa: E731
    assert plan(cam) != plan(lambda turn, lift: lift - 2.0 * jnp.sin(turn))
