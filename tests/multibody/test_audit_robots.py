"""`multibody.audit_coriolis`: ours, the factor with torsion, Pinocchio's, and wrong ones."""

from functools import partial

import numpy as np
import pinocchio as pin
import pytest
from pinocchio_oracle import PinocchioRobot
from robots import robot_path

import connections as cn
from connections import multibody as mb
from connections.checks import ShapeError

pytestmark = pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")


@pytest.fixture(scope="module")
def quadruped():
    rng = np.random.default_rng(8)
    path = robot_path("solo12")
    model = mb.from_urdf(path, floating_base=True)
    q = np.stack([model.random(rng) for _ in range(2)])
    return model, PinocchioRobot(path, floating_base=True), q, rng.standard_normal((2, model.nv))


def test_ours_is_riemannian(quadruped):
    model, _, q, v = quadruped
    report = mb.audit_coriolis(model, lambda p, w: mb.coriolis_matrix(model, p, w), q, v)
    assert report.kind == "riemannian", str(report)
    assert report.admissible
    assert report.contorsion.shape == (2, 18, 18, 18)
    assert np.abs(report.contorsion).max() < 1e-8


def test_force_cross_has_torsion(quadruped):
    model, _, q, v = quadruped
    report = mb.audit_coriolis(
        model, lambda p, w: mb.coriolis_matrix(model, p, w, body_factor="force_cross"), q, v
    )
    assert report.kind == "torsion", str(report)
    assert report.admissible and np.abs(report.beta).max() > 1e-2
    exact = mb.christoffel_symbols(model, q) - mb.christoffel_symbols(model, q, body_factor="force_cross")
    np.testing.assert_allclose(report.contorsion, exact, atol=1e-8)


def test_the_least_is_named(quadruped):
    """By Alt Gamma = 0; controls: half of the correction, Levi-Civita's own, and the factor with torsion."""
    model, _, q, v = quadruped

    def mixed(share, factor="least"):
        def C(p, w):
            star = mb.coriolis_matrix(model, p, w)
            return star + share * (mb.coriolis_matrix(model, p, w, body_factor=factor) - star)

        return mb.audit_coriolis(model, C, q, v)

    report = mixed(1.0)
    assert report.least and report.kind == "torsion" and report.to_dict()["least"]
    assert str(report).endswith("In this frame it is the least C: Gamma has no alternating part.")
    for other in (mixed(0.0), mixed(0.5), mixed(1.0 + 1e-6), mixed(1.0, "force_cross")):
        assert other.admissible and not other.least and "least" not in other.summary
    arm = mb.example("arm")
    report = mb.audit_coriolis(
        arm, lambda p, w: mb.coriolis_matrix(arm, p, w), arm.neutral() + 0.1, np.ones(6)
    )
    assert report.least and report.kind == "riemannian"


def test_pinocchio_s_in_our_order_is_riemannian(quadruped):
    model, oracle, q, v = quadruped
    report = mb.audit_coriolis(model, oracle.coriolis_matrix, q, v)
    assert report.kind == "riemannian", str(report)


def test_pinocchio_s_in_its_own_order_is_not(quadruped):
    model, oracle, q, v = quadruped

    def unpermuted(p, w):
        return pin.computeCoriolisMatrix(oracle.model, oracle.data, p, w)

    report = mb.audit_coriolis(model, unpermuted, q[0], v[0])
    assert report.verdicts["bias"] == "fails"
    assert "in the frame given" in report.summary


def test_last_index_contracted_is_right_dynamics_only(quadruped):
    model, _, q, v = quadruped

    def last_index(p, w):
        return np.einsum("ikj,j->ik", mb.christoffel_symbols(model, p), w)

    report = mb.audit_coriolis(model, last_index, q[0], v[0])
    assert report.kind == "dynamics only" and not report.admissible


def test_wrong_sign_is_inadmissible(quadruped):
    model, _, q, v = quadruped
    report = mb.audit_coriolis(model, lambda p, w: -mb.coriolis_matrix(model, p, w), q[0], v[0])
    assert report.kind == "inadmissible"


def test_it_is_the_audit_of_black_boxes(quadruped):
    model, _, q, v = quadruped

    def coriolis(p, w):
        return mb.coriolis_matrix(model, p, w)

    ours = mb.audit_coriolis(model, coriolis, q[0], v[0])
    general = cn.audit_coriolis(coriolis, lambda p: mb.mass_matrix(model, p), model.frame, q[0], v[0])
    assert ours.to_dict() == general.to_dict()


def test_sizes(quadruped):
    model, _, q, v = quadruped
    with pytest.raises(ShapeError, match="q"):
        mb.audit_coriolis(model, lambda p, w: np.zeros((18, 18)), q[:, 1:], v)
    with pytest.raises(ShapeError, match="C"):
        mb.audit_coriolis(model, lambda p, w: np.zeros((17, 17)), q, v)


def universal_pair():
    """A universal joint that carries another one: in Pinocchio, and here."""
    axes, inertia = np.eye(3)[:2], np.diag([0.2, 0.3, 0.4])
    theirs, mechanism = pin.Model(), mb.Mechanism()
    parent, above = 0, "world"
    for name in ("upper", "lower"):
        place = pin.SE3(np.eye(3), np.array([0.3, 0.1, 0.5]))
        parent = theirs.addJoint(parent, pin.JointModelUniversal(*axes), place, name)
        center = np.array([0.1, -0.2, 0.3])
        theirs.appendBodyToJoint(parent, pin.Inertia(2.0, center, inertia), pin.SE3.Identity())
        mechanism.add_body(name, mass=2.0, center_of_mass=center, inertia=inertia)
        mechanism.add_joint(name, above, name, mb.Universal(*axes), place.homogeneous)
        above = name
    return mechanism.build(), PinocchioRobot.of(theirs)


def test_pinocchio_s_universal_joint_is_found_out(rng):
    model, oracle = universal_pair()
    q, v = rng.standard_normal((2, 3, 4))
    np.testing.assert_allclose(oracle.mass_matrix(q[0]), mb.mass_matrix(model, q[0]), atol=1e-12)
    assert not mb.audit_coriolis(model, oracle.coriolis_matrix, q, v).admissible
    ours = mb.audit_coriolis(model, lambda p, w: mb.coriolis_matrix(model, p, w), q, v)
    assert ours.kind == "riemannian"


def test_the_functions_for_connections_take_robots(rng: np.random.Generator) -> None:
    """One name, one meaning: `cn.coriolis_matrix` and `cn.audit_coriolis` call a robot's own functions."""
    robot = mb.example("arm")
    q, v = robot.random(rng), rng.standard_normal(robot.nv)
    np.testing.assert_array_equal(cn.coriolis_matrix(robot, q, v), mb.coriolis_matrix(robot, q, v))
    by_connection = cn.coriolis_matrix(robot.connection, q, v)
    np.testing.assert_allclose(cn.coriolis_matrix(robot, q, v), by_connection, atol=1e-12)
    other = partial(mb.coriolis_matrix, robot, body_factor="force_cross")
    reports = [
        cn.audit_coriolis(robot, other, q, v),
        cn.audit_coriolis(robot, other, q=q, v=v),
        mb.audit_coriolis(robot, other, q, v),
        cn.audit_coriolis(other, partial(mb.mass_matrix, robot), robot.frame, q, v),
    ]
    assert len({str(report) for report in reports}) == 1
    christoffel = cn.audit_coriolis(robot, partial(mb.coriolis_matrix, robot), q, v)
    assert christoffel.kind != reports[0].kind  # negative control
    with pytest.raises(TypeError, match="metric: a robot has its own"):
        cn.coriolis_matrix(robot, q, v, robot.metric)
