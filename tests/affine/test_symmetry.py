"""Group actions, invariance and Lemma 3.3 on a snakeboard; what is not invariant, or no action, is named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from cases import further
from vehicles import GROUP, METRIC, NABLA, POINTS, basis, forms, inputs

import connections as cn
from connections import multibody as mb
from connections.geometry.rigid.rotations import quaternion_product


def add(g, h):
    return g + h


def turning_basis(q):
    """The same span, its second field changed by what is not invariant."""
    return basis(q) @ jnp.eye(3).at[0, 1].set(jnp.sin(q[0]))


Q, G, H = POINTS[0], POINTS[1, :, :4], POINTS[2, :, :4]


def test_a_snakeboard_has_the_symmetry_of_the_plane_and_lemma_3_3_holds():
    GROUP.check_action(Q, G, H).require()
    for check in (
        GROUP.check_invariant_forms(forms, METRIC.frame, Q, G),
        GROUP.check_invariant_distribution(NABLA, Q, G),
        GROUP.check_invariant_coefficients(NABLA, Q, G),
        GROUP.check_invariant_input_coefficients(NABLA, inputs, Q, G),
    ):
        check.require()
        assert check.residual > 0.0  # of moved points
        assert check.scale > 0.99e-4  # the least that an entry counts as: FLOOR of what lengths allow


@pytest.mark.further
def test_a_basis_that_turns_in_the_distribution_loses_invariance_and_keeps_the_span():
    other = cn.ConstrainedConnection(METRIC, turning_basis)
    GROUP.check_invariant_distribution(other, Q, G).require()
    assert GROUP.check_invariant_frame(other.frame, Q, G).relative > 0.1


def test_coefficients_that_are_not_invariant():
    shifts = cn.GroupAction(add, add, np.zeros(2))
    nabla = cn.CoefficientConnection(cn.CoordinateFrame(2), lambda q: jnp.ones((2, 2, 2)) * q[0])
    assert shifts.check_invariant_coefficients(nabla, Q[:, :2], G[:, :2]).relative > 0.1


def test_generators_are_planar_motions_and_span_the_symmetric_field():
    """At the origin of SE(2): d/dx, d/dy, the turn about the origin, and the rotor's."""
    X = np.asarray(GROUP.generators(Q[0]))
    x, y = Q[0, :2]
    expected = np.array([[1, 0, -y, 0], [0, 1, x, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0.0]])
    np.testing.assert_allclose(X, expected, atol=1e-15)
    steps = 1e-5 * np.eye(4)
    moved = [np.asarray(GROUP.act(Q[0], g) - GROUP.act(Q[0], -g)) / 2e-5 for g in steps]
    np.testing.assert_allclose(np.stack(moved, axis=1), expected, atol=1e-9)
    first = np.asarray(NABLA.basis(Q[0]))[:, 0]
    assert np.linalg.lstsq(X, first, rcond=None)[1] < 1e-25
    assert np.linalg.lstsq(X, np.eye(5)[4], rcond=None)[1] > 0.9  # control: nothing turns the wheels


def shear(q, g):
    """Keeps the contact form dz - y dx, not the Euclidean metric."""
    return q + jnp.stack([g[0], g[1], g[2] + g[1] * q[0]])


def test_the_heisenberg_group_keeps_its_form_and_not_the_euclidean_metric():
    group = cn.GroupAction(shear, lambda g, h: shear(h, g), np.zeros(3))
    space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    group.check_invariant_forms(
        lambda q: jnp.stack([-q[1], 0.0, 1.0])[None], space.frame, Q[:, :3], G[:, :3]
    ).require()
    assert group.check_invariant_metric(space, Q[:, :3], G[:, :3]).relative > 0.1


def test_rotations_keep_the_left_invariant_frame_in_quaternion_coordinates():
    """nq = 4 > n = 3; the top's metric is constant in that frame, and invariant with it."""
    turns = cn.GroupAction(lambda q, g: quaternion_product(g, q), quaternion_product, np.eye(4)[3])
    q, g = (x[:, :4] / np.linalg.norm(x[:, :4], axis=1, keepdims=True) for x in (Q, G))
    turns.check_invariant_frame(systems.TOP.frame, q, g).require()
    assert turns.check_action(q, g, 1.1 * g[::-1]).ok  # quaternions of any norm are a group
    with pytest.raises(cn.checks.PointError, match="quaternion"):
        turns.check_invariant_frame(systems.TOP.frame, q, 1.1 * g)


# --- what is no action --------------------------------------------------------------------------------------


def screw(q, g):
    """Turns by the element's own angle, and shifts: no action under addition."""
    c, s = jnp.cos(g[0]), jnp.sin(g[0])
    return jnp.stack([c * q[0] - s * q[1] + g[1], s * q[0] + c * q[1]])


@pytest.mark.parametrize(
    ("action", "product", "message"),
    [
        (
            screw,
            add,
            r"Phi_g Phi_h is not Phi_gh \(off by .*, g = \[0.3 0.5\], h = \[0.3 0.5\]\) at q = \[1. 2.\]",
        ),
        (lambda q, g: q + g + 1.0, add, r"the unit element moves points: Phi_e\(q\) is not q"),
        (lambda q, g: q, lambda g, h: 2.0 * g, "the product has no unit element"),
        (lambda q, g: q, lambda g, h: g + h + g * h**2 * (g - h), "the product is not associative"),
    ],
    ids=["composition", "unit", "unit of the product", "associative"],
)
def test_what_is_no_action_is_refused(action, product, message):
    group = cn.GroupAction(action, product, np.zeros(2))
    with pytest.raises(cn.checks.SymmetryError, match=f"not a left action of a group: .*{message}"):
        group.check_invariant_function(lambda q: q[0] ** 2, [1.0, 2.0], [0.3, 0.5])


def test_a_right_action_is_recognized():
    """Affine maps of the line with the product of their reversed order."""
    group = cn.GroupAction(
        lambda q, g: jnp.stack([q[0] * g[0], q[1] * g[0] + g[1]]),
        lambda g, h: jnp.stack([g[0] * h[0], h[0] * g[1] + h[1]]),
        np.array([1.0, 0.0]),
    )
    with pytest.raises(cn.checks.SymmetryError, match="but Phi_hg: a right action, of which the product"):
        group.require_action([0.4, 1.0], [[2.0, 1.0], [0.5, 3.0]])
    assert not group.check_action([0.4, 1.0], [2.0, 1.0], [0.5, 3.0]).ok


def test_bad_shapes():
    with pytest.raises(cn.checks.ShapeError, match=r"product of the group: expected shape \(2,\)"):
        cn.GroupAction(screw, lambda g, h: g[:1], np.zeros(2))
    with pytest.raises(cn.checks.ShapeError, match="identity"):
        cn.GroupAction(screw, add, np.zeros((2, 2)))
    with pytest.raises(cn.checks.ShapeError, match=r"action of the group: expected shape \(3,\), got \(2,\)"):
        cn.GroupAction(screw, add, np.zeros(2)).act(np.zeros(3), np.zeros(2))
    with pytest.raises(cn.checks.ShapeError, match="q: expected"):
        GROUP.check_invariant_metric(METRIC, np.zeros(4), np.zeros(4))


# --- momenta -----------------------------------------------------------------------------------------------

HALF_PLANE = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2))
#: q -> e^a q + (b, 0), isometries of the half plane.
AFFINE = cn.GroupAction(
    lambda q, g: jnp.exp(g[0]) * q + g[1] * jnp.eye(2)[0],
    lambda g, h: jnp.stack([g[0] + h[0], g[1] + jnp.exp(g[0]) * h[1]]),
    np.zeros(2),
)
#: q -> q + g, which moves up, too.
SHIFTS = cn.GroupAction(lambda q, g: q + g, lambda g, h: g + h, np.zeros(2))
START, UNTIL = (np.array([0.3, 1.0]), np.array([0.8, 0.5])), np.linspace(0.0, 3.0, 5)


def test_momenta():
    """<v, xi> of a dilation and a shift, by hand; in a batch."""
    AFFINE.check_action(START[0], [0.3, 0.2], [-0.4, 0.7]).require()
    q, v = np.array([[0.3, 1.0], [-2.0, 0.5]]), np.array([[0.8, 0.5], [0.1, -1.0]])
    expected = np.stack([(q * v).sum(1), v[:, 0]], 1) / q[:, 1:] ** 2
    np.testing.assert_allclose(AFFINE.momenta(HALF_PLANE.metric, q, v), expected, rtol=1e-14)


@pytest.mark.parametrize("batch", [further(False), True])
def test_momenta_along_geodesics(batch):
    """They are kept, and the drift says how well; loose tolerances, to see one."""
    q0, v0 = START
    if batch:
        q0, v0 = np.stack([q0, q0]), np.stack([v0, 0.3 * v0])
    loose = {"rtol": 1e-6, "atol": 1e-6}
    plain = cn.geodesic(HALF_PLANE, q0, v0, UNTIL, **loose)
    motion = cn.geodesic(HALF_PLANE, q0, v0, UNTIL, symmetry=AFFINE, **loose)
    np.testing.assert_array_equal(motion.q, plain.q)
    J = np.asarray(AFFINE.momenta(HALF_PLANE.metric, motion.q, motion.v))
    change = np.abs(J - J[..., :1, :]).max(axis=-1)
    assert (motion.drift >= plain.drift).all() and (motion.drift > plain.drift).any()
    assert 1e-9 < change.max() and (motion.drift <= 10.0 * change + plain.drift).all()


def test_no_symmetry_is_named():
    """Shifts up are none: the second momentum changes."""
    with pytest.raises(
        cn.checks.IntegrationError, match="metric is not invariant under generator 1"
    ) as caught:
        cn.geodesic(HALF_PLANE, *START, UNTIL, symmetry=SHIFTS)
    np.testing.assert_array_equal(caught.value.motion.times, UNTIL[:1])


CARTESIAN = cn.CoordinateFrame(2)
POLAR = cn.MatrixMetric(CARTESIAN, lambda q: jnp.diag(jnp.stack([1.0 + 0.0 * q[0], q[0] ** 2])))
LACKING = {
    "potential": (cn.ConstantMetric(CARTESIAN, np.eye(2)), lambda q: 9.81 * q[1] + 0.5 * q[0], "potential"),
    "potential, at rest where its slope is zero": (
        cn.ConstantMetric(CARTESIAN, np.eye(2)),
        lambda q: 0.5 * q[0] ** 2,
        "potential",
    ),
    "metric": (POLAR, None, "metric"),
}


@pytest.mark.parametrize("case", LACKING)
@pytest.mark.parametrize(
    "method", [{}, {"method": "variational", "step": 0.05}], ids=["DOP853", "variational"]
)
def test_what_lacks_the_symmetry_is_named(case, method):
    """Shifts along x, generator 1 of two; the other one is no concern of the message."""
    metric, potential, what = LACKING[case]
    shifts = cn.GroupAction(lambda q, g: q + jnp.stack([g[1], 0.0 * g[0]]), lambda g, h: g + h, np.zeros(2))
    system = cn.MechanicalSystem(metric, potential)
    q0 = [0.0, 0.0] if "rest" in case else [1.0, 0.3]
    with pytest.raises(cn.checks.IntegrationError) as caught:
        system.simulate(q0, [0.3, 0.4], np.linspace(0.0, 1.0, 11), symmetry=shifts, **method)
    text, other = str(caught.value), {"metric": "potential", "potential": "metric"}[what]
    assert f"the {what} is not invariant under generator 1" in text and other not in text
    assert "chart" not in text and caught.value.motion is not None


def test_a_drift_of_a_right_symmetry_is_no_fault_of_the_system():
    """Shifts in polar coordinates, whose metric and frame change along them, but not what they measure."""
    from connections.affine.motions.broken_symmetry import changes_at

    def shift(q, g):
        x, y = q[0] * jnp.cos(q[1]) + g[0], q[0] * jnp.sin(q[1]) + g[1]
        return jnp.stack([jnp.hypot(x, y), jnp.arctan2(y, x)])

    shifts, q = cn.GroupAction(shift, lambda g, h: g + h, np.zeros(2)), jnp.array([1.3, 0.4])
    height = lambda q: 9.81 * q[0] * jnp.sin(q[1])  # noqa: E731
    of_potential, of_metric = changes_at(POLAR, height, shifts, q)
    np.testing.assert_allclose(of_metric, 0.0, atol=1e-11)
    np.testing.assert_allclose(of_potential, [0.0, 1.0], atol=1e-11)
    # d/dg of g_ab, pushed, by differences, of a metric that is not invariant
    other = cn.MatrixMetric(CARTESIAN, lambda q: jnp.array([[2.0, 0.3], [0.3, 1.0]]) * (1.0 + q[0] ** 2))
    assert (np.asarray(changes_at(other, None, shifts, q)[1]) > 0.1).all()


@pytest.mark.further
def test_momenta_from_rest_to_rest():
    """Half a period of an oscillator in the plane, which has no speed at either time."""

    def turned(q, g):
        c, s = jnp.cos(g[0]), jnp.sin(g[0])
        return jnp.stack([c * q[0] - s * q[1], s * q[0] + c * q[1]])

    turns = cn.GroupAction(turned, add, np.zeros(1))
    plane = cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2))
    system = cn.MechanicalSystem(plane, lambda q: 0.5 * q @ q)
    for q0 in (np.array([1.0, 0.4]), np.array([[1.0, 0.4], [-0.3, 0.7]])):
        motion = system.simulate(q0, np.zeros(2), [0.0, np.pi], symmetry=turns)
        np.testing.assert_allclose(motion.q[..., -1, :], -q0, atol=1e-9)
        assert motion.drift.max() < 1e-8


@pytest.mark.further
def test_momenta_of_systems():
    """A potential of the height keeps the momentum along x; a robot in free fall its horizontal ones."""
    plane = cn.ConstantMetric(cn.CoordinateFrame(2), np.diag([1.0, 2.0]))
    along = cn.GroupAction(lambda q, g: q.at[0].add(g[0]), lambda g, h: g + h, np.zeros(1))
    falls = cn.MechanicalSystem(plane, lambda q: 9.81 * q[1])
    assert falls.simulate(*START, UNTIL, symmetry=along).drift.max() < 1e-9
    slope = cn.MechanicalSystem(plane, lambda q: 9.81 * q[1] + 0.5 * q[0])
    with pytest.raises(cn.checks.IntegrationError, match="potential is not invariant under generator 0"):
        slope.simulate(*START, UNTIL, symmetry=along)
    robot = mb.example("quadruped")
    sideways = cn.GroupAction(lambda q, g: q.at[:2].add(g), lambda g, h: g + h, np.zeros(2))
    anywhere = cn.GroupAction(lambda q, g: q.at[:3].add(g), lambda g, h: g + h, np.zeros(3))
    given = robot.neutral(), np.random.default_rng(1).standard_normal(robot.nv), UNTIL
    assert robot.system().simulate(*given, symmetry=sideways).drift.max() < 1e-8
    assert cn.geodesic(robot.connection, *given, symmetry=anywhere).drift.max() < 1e-8
    with pytest.raises(cn.checks.IntegrationError, match="potential is not invariant under generator 2"):
        robot.system().simulate(*given, symmetry=anywhere)


def test_where_no_momenta_are_conserved():
    forced = cn.MechanicalSystem(HALF_PLANE.metric, forces=lambda t, q, v: -v)
    free = cn.MechanicalSystem(HALF_PLANE.metric)
    flat = cn.CoefficientConnection(cn.CoordinateFrame(2), lambda q: jnp.zeros((2, 2, 2)))
    torsion = cn.ContorsionConnection(HALF_PLANE.metric, lambda q: 0.1 * jnp.ones((2, 2, 2)))
    for call in (
        lambda: cn.geodesic(HALF_PLANE, *START, UNTIL, lambda t, q, v: -v, symmetry=AFFINE),
        lambda: cn.geodesic(torsion, *START, UNTIL, symmetry=AFFINE),
        lambda: cn.geodesic(flat, *START, UNTIL, symmetry=AFFINE),
        lambda: forced.simulate(*START, UNTIL, symmetry=AFFINE),
        lambda: free.simulate(*START, UNTIL, lambda t, q, v: -v, symmetry=AFFINE),
        lambda: jax.jit(lambda q: cn.geodesic(HALF_PLANE, q, q, UNTIL, symmetry=AFFINE))(START[0]),
        lambda: jax.jit(lambda q: free.simulate(q, q, UNTIL, symmetry=AFFINE))(START[0]),
    ):
        with pytest.raises(ValueError, match="symmetry"):
            call()
    with pytest.raises(TypeError, match="symmetry"):
        cn.geodesic(HALF_PLANE, *START, UNTIL, symmetry=HALF_PLANE)
