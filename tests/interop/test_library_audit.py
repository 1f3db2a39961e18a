"""The audit of other libraries, against what is known of them; planted mistakes are found where they are."""

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pytest
from cases import further
from robots import robot_path

import connections as cn
from connections import multibody as mb
from connections.checks import MetricError, ModelError, NonFiniteError
from connections.interop import library_audit, library_faults
from connections.interop.libraries import (
    KINDS,
    LIBRARIES,
    Description,
    LibraryError,
    LibraryRobot,
    idyntree,
    joint_example,
    pinocchio,
)
from connections.interop.libraries.free_bodies import FreeBody, hat
from connections.interop.library_audit import audit_library

DATA = Path(__file__).parent.parent / "data"
TRUE = "holds"


def faulty_kinds(audit):
    return {fault.kinds for fault in audit.faults}


# --- what is known of the libraries -------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "floating_base"), [("ur5", False), further("solo12", True)])
def test_pinocchio_is_riemannian_on_an_arm_and_a_quadruped(name, floating_base):
    audit = audit_library(robot_path(name), "pinocchio", floating_base=floating_base, samples=1)
    assert audit.kind == "riemannian" and audit.admissible and not audit.faults
    assert audit.same_robot.ok and audit.recursion.ok


@pytest.mark.further
def test_pinocchio_is_riemannian_on_a_humanoid():
    path = robot_path("talos_data/robots/talos_reduced.urdf")
    audit = audit_library(path, "pinocchio", floating_base=True, samples=1)
    assert audit.kind == "riemannian" and audit.same_robot.ok and audit.recursion.ok
    assert audit.dofs == 38


@pytest.mark.parametrize("kind", [further("planar"), "spherical", further("cylindrical")])
def test_pinocchio_is_riemannian_on_joints_whose_columns_are_constant(kind):
    audit = audit_library(joint_example(kind), "pinocchio", samples=1)
    assert audit.kind == "riemannian" and audit.same_robot.ok and audit.recursion.ok


@pytest.mark.parametrize("kind", ["universal", "composite", "spherical-zyx"])
def test_pinocchio_fails_on_joints_whose_columns_move(kind):
    audit = audit_library(joint_example(kind), "pinocchio", samples=1)
    assert audit.kind == "inadmissible" and not audit.admissible
    assert audit.same_robot.ok and not audit.recursion.ok  # H is right, C v is not
    assert audit.verdicts["bias"] == audit.verdicts["skew"] == "fails"
    assert faulty_kinds(audit) == {(kind,)}


@pytest.mark.further
def test_pinocchio_fails_where_joints_mimic_and_not_where_they_do_not():
    tied = audit_library(joint_example("mimic"), "pinocchio", samples=1)
    assert tied.kind == "inadmissible" and tied.same_robot.ok
    assert all("mimicked revolute" in fault.kinds for fault in tied.faults)
    panda = audit_library(robot_path("panda"), "pinocchio", samples=1)
    assert panda.kind == "inadmissible" and panda.same_robot.ok and panda.dofs == 8
    assert all("mimicked prismatic" in fault.kinds for fault in panda.faults)
    untied = audit_library(robot_path("panda"), "pinocchio:untied", samples=1)
    assert untied.kind == "riemannian" and untied.same_robot.ok and untied.dofs == 9
    assert any("mimic" in note for note in untied.notes)


@pytest.mark.parametrize("kind", ["universal", "composite", "spherical-zyx", "mimic", "planar"])
def test_pinocchio_s_rnea_is_right_where_its_matrix_is_not(kind, rng):
    theirs = pinocchio.build(joint_example(kind, floating_base=True), "mimic")
    q, v = theirs.model.random(rng), rng.standard_normal(theirs.model.nv)
    ours = mb.coriolis_matrix(theirs.model, q, v) @ v
    np.testing.assert_allclose(theirs.bias(q, v), ours, atol=1e-12)
    assert (np.abs(theirs.coriolis(q, v) @ v - ours).max() > 1e-3) == (kind != "planar")


@pytest.fixture(scope="module")
def floating(tmp_path_factory):
    """A body that floats and carries two hinges, as iDynTree's robot in each representation."""
    path = tmp_path_factory.mktemp("example") / "robot.urdf"
    path.write_text(joint_example("revolute", floating_base=True).urdf("iDynTree"))
    description = Description.read(path, True, path.parent)
    return {variant: idyntree.read(description, variant) for variant in idyntree.VARIANTS}


def test_idyntree_is_riemannian_on_a_fixed_base():
    audit = audit_library(robot_path("ur5"), "idyntree", samples=1)
    assert audit.kind == "riemannian" and audit.same_robot.ok and audit.recursion.ok


def test_idyntree_has_torsion_on_a_floating_base_and_is_not_skew(capfd):
    audit = audit_library(robot_path("solo12"), "idyntree", floating_base=True, samples=1)
    assert audit.kind == "dynamics only" and audit.recursion.ok and audit.same_robot.ok
    fails = {name for name, verdict in audit.verdicts.items() if verdict == "fails"}
    assert fails == {"skew", "metric_compatible", "torsion_free"}
    assert faulty_kinds(audit) == {("free",)}
    assert capfd.readouterr() == ("", "")  # iDynTree prints errors while it reads this file


def test_idyntree_s_rate_of_the_mass_matrix_is_not_that_of_its_mass_matrix():
    """The same without the audit: one rigid body, whose H is constant in its own axes."""
    import idyntree.bindings as idt

    loader, computations = idt.ModelLoader(), idt.KinDynComputations()
    link = (
        '<link name="a"><inertial><origin xyz="0.1 0.2 0.3"/><mass value="2"/>'
        '<inertia ixx="1" iyy="2" izz="2.5" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )
    assert loader.loadModelFromString(f'<robot name="one body">{link}</robot>', "urdf")
    computations.loadRobotModel(loader.model())
    computations.setFrameVelocityRepresentation(idt.BODY_FIXED_REPRESENTATION)
    matrices, H = [idt.MatrixDynSize(6, 6) for _ in range(3)], []
    for twist in ([0.0] * 6, [0.3, -0.2, 0.5, 0.7, 0.1, -0.4]):
        computations.setRobotState(np.eye(4), np.zeros(0), np.array(twist), np.zeros(0), np.zeros(3))
        computations.getCoriolisAndMassMatrices(*matrices)
        C, H_now, H_dot = (matrix.toNumPy().copy() for matrix in matrices)
        H.append(H_now)
    np.testing.assert_allclose(H[0], H[1], atol=1e-14)
    np.testing.assert_allclose(C + C.T, H_dot, atol=1e-14)
    assert np.abs(H_dot).max() > 0.5


def test_idyntree_becomes_riemannian_by_one_term(floating):
    """C + H ad(v) of the base, which docs/which_coriolis.md recommends, is ours."""
    rng = np.random.default_rng(5)
    for theirs in floating.values():
        q, v = theirs.model.random(rng), rng.standard_normal(theirs.model.nv)
        ad = np.zeros((theirs.model.nv,) * 2)
        ad[:6, :6] = np.block([[hat(v[:3]), np.zeros((3, 3))], [hat(v[3:6]), hat(v[:3])]])
        C, H = theirs.coriolis(q, v), theirs.mass_matrix(q)
        ours = mb.coriolis_matrix(theirs.model, q, v)
        np.testing.assert_allclose(C + H @ ad, ours, atol=1e-12)
        assert np.abs(C - ours).max() > 0.1


def test_idyntree_s_representations_are_one_connection(floating):
    rng = np.random.default_rng(6)
    model = floating["body"].model
    q, v = model.random(rng), rng.standard_normal(model.nv)
    C = {variant: theirs.coriolis(q, v) for variant, theirs in floating.items()}
    np.testing.assert_allclose(C["mixed"], C["body"], atol=1e-12)
    np.testing.assert_allclose(C["inertial"], C["body"], atol=1e-12)


@pytest.mark.further
def test_jaxsim_is_admissible_with_torsion():
    audit = audit_library(joint_example("revolute", floating_base=True), "jaxsim", samples=1)
    assert audit.kind == "torsion" and audit.admissible
    assert audit.same_robot.ok and audit.recursion.ok
    assert {fault.name for fault in audit.faults} == {"torsion_free"}
    assert np.abs(audit.report.beta).max() > 0.1


@pytest.mark.parametrize(
    ("robot", "floating_base"),
    [
        further(DATA / "wheeled_arm.urdf", False),
        (DATA / "branched.urdf", True),
    ],  # planar; a base without inertia
)
def test_mujoco_s_vector_is_right(robot, floating_base):
    audit = audit_library(robot, "mujoco", floating_base=floating_base, samples=1)
    assert audit.kind == "vector only" and audit.admissible
    assert audit.same_robot.ok and audit.recursion.ok and audit.verdicts == {"bias": TRUE}


@pytest.mark.further
def test_mujoco_s_vector_of_joints_in_series_is_right():
    audit = audit_library(joint_example("composite", floating_base=True), "mujoco", samples=1)
    assert audit.kind == "vector only" and audit.recursion.ok and audit.same_robot.ok


# --- planted mistakes ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ours():
    """Our own library: three hinges and two slides."""
    model = mb.from_urdf(DATA / "branched.urdf")
    return LibraryRobot(
        model,
        "coriolis_matrix",
        lambda q: mb.mass_matrix(model, q),
        lambda q, v: mb.coriolis_matrix(model, q, v),
    )


def audited(robot, samples=1):
    return library_audit._audited(robot, LIBRARIES["pinocchio"], "", "planted", samples, 3)


def indices(model, *names):
    return [model.velocity_slice(name).start for name in names]


def test_our_own_library_passes(ours):
    audit = audited(ours, samples=2)
    assert audit.kind == "riemannian" and not audit.faults and audit.recursion.residual == 0.0


def planted(ours, i, j, k):
    """Ours with a wrong Gamma_low[i, j, k]."""
    model = ours.model

    def coriolis(q, v):
        C = mb.coriolis_matrix(model, q, v)
        C[i, k] += 0.1 * v[j]
        return C

    return dataclasses.replace(ours, coriolis=coriolis)


@pytest.mark.parametrize(
    ("joints", "kinds"),
    [
        (("slide", "slide", "slide"), ("prismatic",)),
        (("turn_a", "bend", "turn_b"), ("revolute",)),
        (("slide", "bend", "extend"), ("prismatic", "revolute")),
    ],
)
def test_the_joint_types_of_a_planted_mistake_are_found(ours, joints, kinds):
    audit = audited(planted(ours, *indices(ours.model, *joints)))
    assert {tuple(sorted(found)) for found in faulty_kinds(audit)} == {kinds}
    assert audit.verdicts["bias"] == "fails"


def test_a_mistake_among_three_types_is_found(ours):
    named = dict(zip(ours.model.joint_names, ("a", "b", "c", "c", "a"), strict=True))
    i, j, k = range(3)
    audit = audited(dataclasses.replace(planted(ours, i, j, k), kinds=named))
    assert faulty_kinds(audit) == {("a", "b", "c")}


def test_locking_joints_is_the_audit_of_a_robot_without_them(ours, monkeypatch, tmp_path):
    """The part of C is the C of the model whose other joints are fixed where they are."""
    model, q = ours.model, np.zeros(ours.model.nq)
    text = (DATA / "branched.urdf").read_text()
    for name in ("slide", "extend"):
        for kind in ("prismatic",):
            text = text.replace(f'<joint name="{name}" type="{kind}">', f'<joint name="{name}" type="fixed">')
    (tmp_path / "hinges.urdf").write_text(text)
    hinges = mb.from_urdf(tmp_path / "hinges.urdf")
    at = indices(model, *hinges.joint_names)
    rng = np.random.default_rng(1)
    for _ in range(3):
        x, w, v = rng.standard_normal(3), rng.standard_normal(3), np.zeros(5)
        q[at], v[at] = x, w
        part = mb.coriolis_matrix(model, q, v)[np.ix_(at, at)]
        np.testing.assert_allclose(part, mb.coriolis_matrix(hinges, x, w), atol=1e-12)


def test_a_wrong_vector_is_found(ours):
    def bias(q, v):
        return 1.001 * mb.coriolis_matrix(ours.model, q, v) @ v

    wrong = audited(dataclasses.replace(ours, coriolis=None, bias=bias))
    assert wrong.kind == "wrong vector" and not wrong.admissible and not wrong.recursion.ok
    assert {fault.name for fault in wrong.faults} == {"bias"}
    right = audited(
        dataclasses.replace(ours, coriolis=None, bias=lambda q, v: mb.coriolis_matrix(ours.model, q, v) @ v)
    )
    assert right.kind == "vector only" and not right.faults


def test_another_robot_is_said_first(ours):
    audit = audited(dataclasses.replace(ours, mass_matrix=lambda q: 1.01 * mb.mass_matrix(ours.model, q)))
    assert not audit.same_robot.ok and audit.recursion.ok
    assert audit.verdicts["bias"] == "fails"  # it is C of another H


@pytest.mark.parametrize("what", ["coriolis", "mass_matrix"])
def test_a_nan_is_an_error_that_says_where(ours, what):
    nan = {"coriolis": lambda q, v: np.full((5, 5), np.nan), "mass_matrix": lambda q: np.full((5, 5), np.nan)}
    with pytest.raises((NonFiniteError, MetricError), match=r"not finite at q = "):
        audited(dataclasses.replace(ours, **{what: nan[what]}))


def test_kinds_are_the_library_s_names_or_ours(ours):
    assert library_faults.joint_kinds(ours.model, {"slide": "rail"})["slide"] == "rail"
    assert library_faults.joint_kinds(ours.model, {})["extend"] == "prismatic"


# --- frames and examples ------------------------------------------------------------------------------------


@pytest.mark.parametrize("representation", ["body", "mixed", "inertial", "linear in world"])
def test_the_change_of_a_free_body_s_velocity(representation):
    """T_dot is the derivative of T along the motion; T gives the velocity of the library's frame."""
    rng = np.random.default_rng(7)
    frame = cn.SE3Frame()
    body = FreeBody(FreeBody().pose(np.array([0.3, -0.2, 0.5, 0.5, 0.1, -0.1, np.sqrt(0.73)])))
    p, x = rng.standard_normal(3), rng.standard_normal(4)
    q, v, h = np.concatenate([p, x / np.linalg.norm(x)]), rng.standard_normal(6), 1e-5
    ahead, behind = (np.asarray(frame.retract_at(q, sign * h * v)) for sign in (1.0, -1.0))
    change = body.change(representation, q, v)
    T_dot = (body.change(representation, ahead, v).T - body.change(representation, behind, v).T) / (2.0 * h)
    np.testing.assert_allclose(change.T_dot, T_dot, atol=1e-8)
    pose, rate = body.pose(q), (body.pose(ahead) - body.pose(behind)) / (2.0 * h)
    R, omega_hat = pose[:3, :3], rate[:3, :3] @ pose[:3, :3].T
    linear = {
        "body": R.T @ rate[:3, 3],
        "mixed": rate[:3, 3],
        "linear in world": rate[:3, 3],
        "inertial": rate[:3, 3] - omega_hat @ pose[:3, 3],
    }[representation]
    omega = omega_hat[[2, 0, 1], [1, 2, 0]]
    angular = R.T @ omega if representation in ("body", "linear in world") else omega
    np.testing.assert_allclose(change.T @ v, np.concatenate([linear, angular]), atol=1e-8)


@pytest.mark.parametrize("kind", ["universal"])
def test_our_c_of_the_examples_passes_the_audit(kind):
    model = joint_example(kind, floating_base=True).model
    rng = np.random.default_rng(2)
    report = mb.audit_coriolis(
        model,
        lambda q, v: mb.coriolis_matrix(model, q, v),
        model.random(rng),
        rng.standard_normal(model.nv),
    )
    assert report.kind == "riemannian", str(report)


def test_an_example_as_a_urdf_is_the_same_mechanism(tmp_path):
    for kind in ("revolute", "prismatic", "continuous", "planar", "free", "mimic"):
        example = joint_example(kind)
        path = tmp_path / f"{kind}.urdf"
        path.write_text(example.urdf("a library"))
        ours, read = example.model, mb.from_urdf(path)
        assert sorted(read.joint_names) == sorted(ours.joint_names)
        q, order = ours.random(np.random.default_rng(4)), []
        x = np.zeros(read.nq)
        for name in read.joint_names:
            x[read.configuration_slice(name)] = q[ours.configuration_slice(name)]
            order.extend(np.r_[ours.velocity_slice(name)])
        H = mb.mass_matrix(ours, q)[np.ix_(order, order)]
        np.testing.assert_allclose(mb.mass_matrix(read, x), H, atol=1e-12)


# --- bad input ----------------------------------------------------------------------------------------------


def test_an_unknown_library():
    with pytest.raises(LibraryError, match="unknown library 'bullet'; there are adaptors for pinocchio, "):
        audit_library(robot_path("ur5"), "bullet")


def test_an_unknown_variant():
    with pytest.raises(LibraryError, match=r"idyntree has no variant 'hybrid'; there are idyntree:body, "):
        audit_library(robot_path("ur5"), "idyntree:hybrid")


def test_a_library_that_is_not_installed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LibraryError, match=r"drake is not installed: pip install drake \(or all of them: "):
        audit_library(robot_path("ur5"), "drake")


def test_a_broken_urdf(tmp_path):
    (tmp_path / "broken.urdf").write_text("<robot name='x'><link name='a'>")
    with pytest.raises(ModelError, match="malformed XML"):
        audit_library(tmp_path / "broken.urdf", "pinocchio")
    with pytest.raises(ModelError, match="there is no such file"):
        audit_library(tmp_path / "absent.urdf", "pinocchio")


@pytest.mark.parametrize(
    ("robot", "library", "reason"),
    [
        (DATA / "wheeled_arm.urdf", "idyntree", r"iDynTree has no planar joints \(joint 'plane'\)"),
        (joint_example("helical"), "mujoco", "MuJoCo has no helical joints"),
        (joint_example("universal"), "idyntree", "which has no universal joints"),
    ],
)
def test_a_robot_that_the_library_lacks_joints_for(robot, library, reason):
    with pytest.raises(LibraryError, match=reason):
        audit_library(robot, library)


def test_a_library_s_own_error_becomes_one_line(monkeypatch):
    def read(*_):
        raise RuntimeError("deep\n  inside\n a library")

    monkeypatch.setattr(pinocchio, "read", read)
    with pytest.raises(LibraryError, match="^pinocchio refuses it: deep inside a library$"):
        audit_library(robot_path("ur5"), "pinocchio")


def test_an_unknown_type_of_joint():
    with pytest.raises(LibraryError, match=f"no joint type 'saddle'. The joint types are {', '.join(KINDS)}"):
        joint_example("saddle")


@pytest.mark.further
def test_warnings_and_streams_are_as_before_after_an_audit(capfd):
    import sys

    audit_library(joint_example("revolute"), "mujoco", samples=1)
    with pytest.warns(UserWarning, match="still here"):
        warnings.warn("still here", UserWarning, stacklevel=1)
    print("out")
    print("err", file=sys.stderr)
    assert capfd.readouterr() == ("out\n", "err\n")
