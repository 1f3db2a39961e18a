"""Contacts: rates by differences, friction by forces at corners, dynamics by the KKT system and Pinocchio."""

import numpy as np
import pinocchio as pin
import pytest
from differences import derivative_along
from pinocchio_oracle import PinocchioRobot
from robots import robot_path
from scipy.optimize import linprog

from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError, ShapeError
from connections.control import Contacts, PointContact, SurfaceContact
from connections.control.errors import ContactError
from connections.geometry.rigid.placements import turn_to

FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
MIXED = (
    PointContact("RF_FOOT", 0.6, point=(0.01, -0.02, 0.03), normal=(0.2, 0.1, 1.0), facets=6),
    SurfaceContact("LF_SHANK", 0.8, (0.1, 0.05), np.array(turn_to((1.0, 0.2, 0.1)))),
    PointContact("RH_FOOT", 0.5),
)


@pytest.fixture(scope="module")
def anymal():
    return mb.from_urdf(robot_path("anymal"), floating_base=True)


def state(model, rng):
    return model.random(rng), *rng.standard_normal((2, model.nv))


def test_rate_is_the_derivative_of_the_jacobian(limbs, rng):
    contacts = Contacts(
        limbs,
        [
            PointContact("shank", 0.5, (0.1, 0.2, -0.3), (0.3, 0.0, 1.0)),
            SurfaceContact("thigh", 0.5, (0.1, 0.2), turn_to((0.0, 1.0, 0.5))),
        ],
    )
    q, v, _ = state(limbs, rng)
    expected = derivative_along(contacts.jacobian, limbs.frame, q, v)
    rate = contacts.jacobian_rate(q, v)
    np.testing.assert_allclose(rate, expected, atol=1e-9)
    assert np.abs(rate).max() > 0.1
    rows = contacts.jacobian(np.stack([q, q])), contacts.jacobian_rate(np.stack([q, q]), v)
    for stacked, one in zip(rows, (contacts.jacobian(q), rate), strict=True):
        np.testing.assert_allclose(stacked, np.stack([one, one]), atol=1e-13)


def test_a_point_moves_as_its_position(anymal, rng):
    """J v against differences of the position, in the surface's axes."""
    contact, (q, v, _) = MIXED[0], state(anymal, rng)
    pose = anymal.with_frames({"tip": (contact.frame, contact.placement)})
    velocity = derivative_along(lambda p: mb.frame_pose(pose, p, "tip")[:3, 3], anymal.frame, q, v)
    found = Contacts(anymal, [contact]).jacobian(q) @ v
    np.testing.assert_allclose(contact.axes @ found, velocity, atol=1e-8)
    np.testing.assert_allclose(contact.axes[:, 2], contact.normal, atol=1e-15)


def kkt(model, J, J_dot, q, v, tau):
    """vdot and f of the KKT system, all at once."""
    H, k = mb.mass_matrix(model, q), len(J)
    matrix = np.block([[H, -J.T], [J, np.zeros((k, k))]])
    solution = np.linalg.solve(matrix, [*(tau - mb.nonlinear_effects(model, q, v)), *(-J_dot @ v)])
    return solution[: model.nv], solution[model.nv :]


@pytest.mark.parametrize("chosen", [[PointContact(foot, 0.7) for foot in FEET], MIXED], ids=["feet", "mixed"])
def test_dynamics_are_those_of_the_kkt_system(anymal, rng, chosen):
    contacts, (q, v, tau) = Contacts(anymal, chosen), state(anymal, rng)
    J, J_dot = contacts.jacobian(q), contacts.jacobian_rate(q, v)
    a, f = contacts.forward_dynamics(q, v, tau)
    expected = kkt(anymal, J, J_dot, q, v, tau)
    np.testing.assert_allclose(a, expected[0], atol=1e-8 * np.abs(expected[0]).max())
    np.testing.assert_allclose(f, expected[1], atol=1e-8 * np.abs(expected[1]).max())
    assert np.abs(mb.forward_dynamics(anymal, q, v, tau) - a).max() > 1.0  # negative control: they do act
    damped, _ = contacts.forward_dynamics(np.stack([q, q]), v, tau, damping=3.0)
    np.testing.assert_allclose(J @ damped[1] + (J_dot + 3.0 * J) @ v, 0.0, atol=1e-9)


def test_dynamics_are_pinocchios(anymal, rng):
    """Two points and a surface, from frames of Pinocchio's own: accelerations and forces."""
    q, v, tau = state(anymal, rng)
    theirs = PinocchioRobot(robot_path("anymal"), floating_base=True)
    contacts = Contacts(
        anymal,
        [
            PointContact("LF_FOOT", 0.7),
            SurfaceContact("RF_SHANK", 0.7, (0.1, 0.1)),
            PointContact("RH_FOOT", 1.0),
        ],
    )
    kinds = [
        (pin.ContactType.CONTACT_3D, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED),
        (pin.ContactType.CONTACT_6D, pin.ReferenceFrame.LOCAL),
        (pin.ContactType.CONTACT_3D, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED),
    ]
    model = theirs.model
    constraints, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for contact, (kind, axes) in zip(contacts.contacts, kinds, strict=True):
        frame = model.frames[model.getFrameId(contact.frame, pin.FrameType.BODY)]
        constraints.append(pin.RigidConstraintModel(kind, model, frame.parentJoint, frame.placement, axes))
    datas.extend([constraint.createData() for constraint in constraints])
    data = model.createData()
    pin.initConstraintDynamics(model, data, constraints, datas)
    given = theirs._configuration(q), theirs._theirs(v), theirs._theirs(tau)
    expected = pin.constraintDynamics(model, data, *given, constraints, datas)[theirs.order]
    a, f = contacts.forward_dynamics(q, v, tau)
    np.testing.assert_allclose(a, expected, atol=1e-8 * np.abs(expected).max())
    forces = [datas[0].contact_force.linear, datas[1].contact_force.angular]
    forces += [datas[1].contact_force.linear, datas[2].contact_force.linear]
    np.testing.assert_allclose(f, np.concatenate(forces), atol=1e-8 * np.abs(f).max())


# --- friction ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("facets", [3, 4, 7])
def test_the_pyramid_lies_in_the_cone_and_touches_it(facets, rng):
    contact = PointContact("foot", 0.7, facets=facets)
    forces = rng.standard_normal((4000, 3)) + [0.0, 0.0, 1.0]
    inside = (forces @ contact.cone.T >= 0.0).all(axis=1)
    margin = contact.margin(forces)
    assert (margin[inside] >= 0.0).all()
    assert inside.any() and (margin[~inside] > 0.0).any()  # the cone is larger
    corner = 2.0 * np.pi * (np.arange(facets) + 0.5) / facets
    edges = np.stack([0.7 * np.cos(corner), 0.7 * np.sin(corner), np.ones(facets)], axis=1)
    np.testing.assert_allclose((edges @ contact.cone.T).min(axis=1), 0.0, atol=1e-14)
    np.testing.assert_allclose(contact.margin(edges), 0.0, atol=1e-14)


def corner_wrenches(contact):
    """The wrenches of the edges of the pyramids at the corners, (16, 6)."""
    mu, (X, Y) = contact.friction / np.sqrt(2.0), contact.half_lengths
    forces = [np.array([a * mu, b * mu, 1.0]) for a in (1, -1) for b in (1, -1)]
    corners = [np.array([a * X, b * Y, 0.0]) for a in (1, -1) for b in (1, -1)]
    return np.array([[*np.cross(r, f), *f] for r in corners for f in forces])


def test_a_surface_bears_what_its_corners_bear(rng):
    """The inequalities hold exactly where forces at the corners give the wrench, by a linear program."""
    contact = SurfaceContact("foot", 0.6, (0.11, 0.05))
    generators = corner_wrenches(contact)
    assert (generators @ contact.cone.T >= -1e-15).all()
    mixed = rng.dirichlet(np.full(16, 0.15), 40) @ generators  # near the boundary
    wrenches = mixed + rng.standard_normal((40, 6)) * [2e-3, 4e-3, 2e-3, 0.03, 0.03, 0.0]
    held = [
        linprog(np.zeros(16), A_eq=generators.T, b_eq=wrench, bounds=(0.0, None)).status == 0
        for wrench in wrenches
    ]
    np.testing.assert_array_equal(contact.margin(wrenches) >= 0.0, held)
    assert 5 < sum(held) < 35


def test_center_of_pressure():
    contact = SurfaceContact("foot", 0.6, (0.1, 0.05))
    at, force = np.array([0.07, -0.02, 0.0]), np.array([3.0, -2.0, 50.0])
    wrench = np.concatenate([np.cross(at, force), force])
    np.testing.assert_allclose(contact.center_of_pressure(wrench), at[:2], atol=1e-15)
    beyond = np.concatenate([np.cross([0.11, 0.0, 0.0], force), force])
    assert contact.margin(wrench) > 0.0 > contact.margin(beyond)
    assert np.isnan(contact.center_of_pressure(np.zeros(6))).all()


def test_margin_of_several_is_the_least(anymal):
    contacts = Contacts(anymal, MIXED)
    forces = np.array([0.1, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.4, 1.0])
    assert contacts.cone.shape == (7 + 16 + 5, 12) and contacts.rows == 12
    np.testing.assert_allclose(contacts.margin(forces), 0.5 * 1.0 - 0.4)
    assert np.isinf(Contacts(anymal, []).margin(np.zeros(0)))


# --- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("friction", [0.0, -0.1, np.nan, np.inf, "much"])
def test_friction_is_positive(friction):
    for make in (
        lambda: PointContact("foot", friction),
        lambda: SurfaceContact("foot", friction, (0.1, 0.1)),
    ):
        with pytest.raises(ContactError, match="'foot'"):
            make()


def test_bad_contacts(anymal, rng):
    with pytest.raises(ContactError, match="facets"):
        PointContact("foot", 0.5, facets=2)
    with pytest.raises(ContactError, match="half_lengths"):
        SurfaceContact("foot", 0.5, (0.1, 0.0))
    with pytest.raises(ContactError, match="point"):
        PointContact("foot", 0.5, point=(0.0, np.nan, 0.0))
    with pytest.raises(ModelError, match="normal"):
        PointContact("foot", 0.5, normal=(0.0, 0.0, 0.0))
    with pytest.raises(ModelError, match="LF_FOOT"):
        Contacts(anymal, [PointContact("LF_FOT", 0.5)])
    with pytest.raises(TypeError, match="PointContact"):
        Contacts(anymal, ["LF_FOOT"])
    q, v, tau = state(anymal, rng)
    twice = Contacts(
        anymal, [PointContact("LF_FOOT", 0.5), PointContact("RF_FOOT", 0.5), PointContact("LF_FOOT", 0.4)]
    )
    with pytest.raises(ContactError, match="'LF_FOOT'.*before"):
        twice.forward_dynamics(q, v, tau)
    contacts = Contacts(anymal, MIXED)
    with pytest.raises(NonFiniteError):
        contacts.forward_dynamics(q, v * np.nan, tau)
    with pytest.raises(NonFiniteError):
        contacts.forward_dynamics(q, v, tau * np.inf)
    with pytest.raises(ShapeError, match="tau"):
        contacts.forward_dynamics(q, v, tau[:-1])
