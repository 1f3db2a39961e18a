"""Symmetric products, closures and verdicts: published ones, closed forms, other routes, bad input."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import underactuated as U
from cases import always, further

import connections as cn
from connections.checks import CheckError, FrameError, NonFiniteError, ShapeError
from connections.control import controllability
from connections.control.controllability.expansion import Expansion
from connections.control.controllability.symmetric_products import ControlSystem, symmetric_words
from connections.control.controllability.taylor import taylor_algebra
from connections.control.controllability.taylor_functions import convolve
from connections.control.controllability.taylor_indexing import cumulative_sum
from connections.control.controllability.taylor_primitives import _extreme

#: Say again of more coordinates what an arm with its third joint passive and a cart say.
LARGE = {"arm PPR, last joint passive", "arm 3R, second joint passive", "cart with its wheels' angles"}
each_case = pytest.mark.parametrize(
    "case", [further(case) if case.name in LARGE else case for case in U.CASES], ids=lambda case: case.name
)
RACER_INPUT = U.covectors(U.RACER_FORMS, U.RACER_INPUTS)
BOARD_INPUTS = U.covectors(U.SNAKEBOARD, *U.SNAKEBOARD_INPUTS)


# --- verdicts -----------------------------------------------------------------------------------------------


@each_case
def test_verdicts_from_the_literature(case):
    report = controllability.configuration_controllability(case.nabla, case.inputs, case.q)
    kinematic = controllability.kinematic_controllability(case.nabla, case.inputs, case.q)
    assert (report.accessible, report.controllable) == (case.accessible, case.controllable), f"{report}"
    assert kinematic.controllable is case.kinematic, f"{kinematic}"
    assert report.clear
    assert report.symmetric.rank.gap > 1e10 and report.involutive.rank.gap > 1e10
    # Kinematic controllability implies local configuration controllability (Bullo, Lewis and Lynch).
    assert report.controllable or not kinematic.controllable


def test_there_are_verdicts_of_both_kinds():
    assert len({case.source for case in U.CASES}) >= 8
    verdicts = [(case.accessible, case.controllable) for case in U.CASES]
    assert min(verdicts.count(kind) for kind in [(True, True), (True, False), (False, False)]) >= 5


@pytest.mark.further
def test_snakeboard():
    """[Z] section 6.1: rank of Sym(Y) 3, of its involutive closure 5, controllable where cos(phi) != 0."""
    report = controllability.configuration_controllability(
        U.SNAKEBOARD, BOARD_INPUTS, U.SNAKEBOARD_POINT, names=("psi", "phi")
    )
    assert report.accessible and report.controllable
    assert (report.symmetric.rank.value, report.involutive.rank.value) == (3, 5)
    assert report.symmetric.names == ("psi", "phi", "<psi:psi>", "<psi:phi>", "<phi:phi>")
    np.testing.assert_allclose(report.symmetric.values[:, [2, 4]], 0, atol=1e-13)
    assert "controllable: yes" in str(report) and "rank 5 of 5" in str(report)
    kinematic = controllability.kinematic_controllability(U.SNAKEBOARD, BOARD_INPUTS, U.SNAKEBOARD_POINT)
    assert kinematic.controllable and kinematic.decoupling.complete and not kinematic.decoupling.every
    assert [each.name for each in kinematic.decoupling.fields] == ["Y0", "Y1"]
    assert "kinematically controllable: yes" in str(kinematic)


@pytest.mark.further
def test_roller_racer():
    """[Z] section 6.2: accessible everywhere, also where the printed basis is singular; not controllable."""
    for psi in (0.7, 0.0, -1.9, np.arccos(-U.RACER["l_2"] / U.RACER["l_1"])):
        report = controllability.configuration_controllability(U.RACER_FORMS, RACER_INPUT, U.racer_point(psi))
        assert (report.accessible, report.controllable, report.obstruction) == (True, False, "<Y0:Y0>")
        assert report.symmetric.order == 2 and report.clear
    assert not controllability.kinematic_controllability(
        U.RACER_FORMS, RACER_INPUT, U.racer_point(0.7)
    ).controllable


@pytest.mark.further
@pytest.mark.parametrize(
    ("nabla", "cosine"),
    [
        (U.RACER_FORMS, U.RACER["l_2"] * U.RACER["I_1"] / (U.RACER["l_1"] * U.RACER["I_2"])),
        (U.SHORT_RACER, -0.3 / 0.5),
    ],
    ids=["l_2 I_1 = l_1 I_2 cos(psi)", "l_1 + l_2 cos(psi) = 0"],
)
def test_roller_racer_where_the_first_product_degenerates(nabla, cosine):
    """The third product restores the rank; the bad second one is parallel to the input, and harmless."""
    inputs, q = U.covectors(nabla, U.RACER_INPUTS), U.racer_point(np.arccos(cosine))
    second = controllability.symmetric_closure(nabla, inputs, q, 2)
    assert second.rank.value == 1 and not second.settled
    report = controllability.configuration_controllability(nabla, inputs, q)
    assert report.symmetric.names[-1] == "<Y0:<Y0:Y0>>" and report.symmetric.rank.full
    assert report.accessible and report.controllable
    early = controllability.configuration_controllability(nabla, inputs, q, 2)
    assert early.accessible is None and early.controllable is None
    near = controllability.configuration_controllability(
        nabla, inputs, U.racer_point(np.arccos(cosine) + 1e-7)
    )
    assert not near.clear and "not clear" in str(near)


@pytest.mark.further
def test_round_off_of_a_computed_basis_moves_no_coordinate():
    """Heading along x: y stands still, but for 1e-17, which must not become the unit of y."""
    q = np.asarray(
        U.racer_point(np.arccos(U.RACER["l_2"] * U.RACER["I_1"] / (U.RACER["l_1"] * U.RACER["I_2"])))
    )
    q = np.array([0.0, 0.0, 0.0, q[3]])
    inputs = controllability.input_fields(U.RACER_FORMS, lambda p: jnp.eye(4)[3:])
    report = controllability.configuration_controllability(U.RACER_FORMS, inputs, q)
    assert report.symmetric.rank.full and report.controllable


def test_input_fields_are_the_accelerations_by_covectors(rng):
    """H^-1 F^T; of a constrained system its projection, by least squares in the metric."""
    F, q = rng.normal(size=(2, 4)), np.array([0.2, -0.1, 0.4, 0.7])
    H = np.asarray(U.RACER_FORMS.distribution.metric.matrix(q))
    free = np.linalg.solve(H, F.T)
    nabla, covectors = cn.LeviCivita(U.RACER_FORMS.distribution.metric), lambda p: jnp.asarray(F)
    np.testing.assert_allclose(controllability.input_fields(nabla, covectors)(q), free, atol=1e-12)
    np.testing.assert_allclose(nabla.input_coefficients(covectors, q), free, atol=1e-12)
    W = np.asarray(U.RACER_FORMS.forms(q))
    lost = np.linalg.solve(H, W.T)  # H^-1 W^T lambda, by which W v = 0
    expected = free - lost @ np.linalg.solve(W @ lost, W @ free)
    found = controllability.input_fields(U.RACER_FORMS, covectors)(q)
    np.testing.assert_allclose(U.RACER_FORMS.basis(q) @ found, expected, atol=1e-12)
    assert np.abs(expected - free).max() > 1e-2  # control: without constraint forces


def test_roller_racer_leaves_a_degenerate_angle_both_ways():
    """From rest, psi out and back: dv/dt = -(Gamma^1_12 + Gamma^1_21) v psi' - Gamma^1_22 psi'^2."""
    centre = np.arccos(U.RACER["l_2"] * U.RACER["I_1"] / (U.RACER["l_1"] * U.RACER["I_2"]))
    swing = 0.1 * np.sin(np.pi * np.linspace(0, 1, 1001)) ** 2
    only_psi = np.flatnonzero(taylor_algebra(4, 6).exponents[:, :3].sum(axis=1) == 0)
    expansion, reached = Expansion(U.RACER_BASIS.coefficients_at, 4), {}
    for psi in (centre, 0.9):
        series = expansion.at(U.racer_point(psi), 6)[only_psi]
        for side in (1, -1):
            middle, step, v = side * (swing[1:] + swing[:-1]) / 2, side * np.diff(swing), 0.0
            Gamma = np.tensordot(middle[:, None] ** np.arange(7), series, axes=1)
            for G, w in zip(Gamma, step, strict=True):
                v -= (G[0, 0, 1] + G[0, 1, 0]) * v * w + G[0, 1, 1] * w * w * 1000
            reached[psi, side] = v
    assert reached[centre, 1] * reached[centre, -1] < 0
    assert reached[0.9, 1] * reached[0.9, -1] > 0
    assert min(abs(v) for v in reached.values()) > 1e-5


def test_one_input_may_control_two_dimensions():
    """q_2'' = q_1 q_1'^2: <Y:Y> vanishes at q_1 = 0 alone, and there the third product is good."""

    def coefficients(q):
        return jnp.zeros((2, 2, 2)).at[1, 0, 0].set(-q[0])

    nabla = cn.CoefficientConnection(cn.CoordinateFrame(2), coefficients)
    inputs = lambda q: jnp.array([[1.0], [0.0]])  # noqa: E731
    assert controllability.configuration_controllability(nabla, inputs, [0.0, 0.3]).controllable
    beside = controllability.configuration_controllability(nabla, inputs, [0.2, 0.3])
    assert beside.accessible and beside.controllable is False
    at = controllability.symmetric_closure(nabla, inputs, [0.0, 0.3], 3)
    np.testing.assert_allclose(at.values, [[1, 0, 0], [0, 0, -2]], atol=1e-14)


@pytest.mark.parametrize(("twist", "verdict"), [(0.0, False), (1.0, None)])
def test_a_definite_form_obstructs_involutive_inputs_only(twist, verdict):
    """w' = -(y_1^2 + y_2^2): with z' = w + twist x_1 y_2 loops of the inputs move z too, so None."""
    frame = cn.MatrixFrame(lambda q: jnp.eye(3).at[2, 1].set(twist * q[0]), 3, 3)
    Gamma = np.zeros((3, 3, 3))
    Gamma[2, 0, 0] = Gamma[2, 1, 1] = 1.0
    nabla = cn.CoefficientConnection(frame, lambda q: jnp.asarray(Gamma))
    report = controllability.configuration_controllability(
        nabla, lambda q: jnp.eye(3)[:, :2], [0.1, 0.2, 0.3]
    )
    assert report.accessible and report.controllable is verdict and report.obstruction == "<Y0:Y0>"


def test_basis_of_decoupling_directions():
    """The test depends on the inputs' basis: for this arm it fails in the one given and holds in another."""
    case = U.BY_NAME["arm PPR, last joint passive"]
    report = controllability.configuration_controllability(case.nabla, case.inputs, case.q)
    assert report.obstruction == "<Y0:Y0>" and report.controllable
    fixed = jnp.asarray(report.input_basis)
    again = controllability.configuration_controllability(
        case.nabla, lambda q: case.inputs(q) @ fixed, case.q
    )
    assert again.obstruction is None and again.controllable
    np.testing.assert_allclose(again.input_basis, np.eye(2))


# --- products against closed forms ------------------------------------------------------------------------


def test_products_of_the_snakeboard():
    """[Z] section 6.1 with the sign of THEORY.md 8.5: <X_2:X_3> in the printed basis."""
    m, J_r, length = U.BOARD["m"], U.BOARD["J_r"], U.BOARD["l"]
    phi, theta = U.SNAKEBOARD_POINT[4], U.SNAKEBOARD_POINT[2]
    inputs = lambda q: jnp.eye(3)[:, 1:]  # noqa: E731
    found = controllability.symmetric_closure(U.SNAKEBOARD_BASIS, inputs, U.SNAKEBOARD_POINT)
    expected = np.zeros((3, 5))
    expected[[1, 2], [0, 1]] = 1
    expected[0, 3] = J_r * np.cos(phi) / (m * length**2)
    expected[1, 3] = -J_r * np.cos(phi) * np.sin(phi) / (m * length**2 - J_r * np.sin(phi) ** 2)
    np.testing.assert_allclose(found.values, expected, atol=1e-13)
    # [X_1, X_3] = l sin(phi) V_x + cos(phi) d_theta; from the products, as X_1 is one of them and X_2.
    brackets = controllability.involutive_closure(
        U.SNAKEBOARD_BASIS, lambda q: jnp.eye(3)[:, ::2], U.SNAKEBOARD_POINT, symmetric=False
    )
    V_x = np.array([np.cos(theta), np.sin(theta), 0, 0, 0])
    V_y = np.array([-np.sin(theta), np.cos(theta), 0, 0, 0])
    named = dict(zip(brackets.names, brackets.values.T, strict=True))
    np.testing.assert_allclose(
        named["[Y0, Y1]"], length * np.sin(phi) * V_x + np.cos(phi) * np.eye(5)[2], atol=1e-13
    )
    np.testing.assert_allclose(named["[Y0, [Y0, Y1]]"], -length * V_y, atol=1e-13)


def test_products_of_the_leg():
    """Y = (0, 1 / m r^2, -1 / J), <Y:Y> = Z = -2 / (m^2 r^3) d_r, <Y:Z> = 0, <Z:Z> = -24 / (m^4 r^7) d_r."""
    m, r, inputs = U.LEG_MASS, U.LEG_POINT[0], U.BY_NAME["leg, torque"].inputs
    words = [word for degree in itertools.islice(symmetric_words(1), 4) for word in degree]
    values = ControlSystem(U.LEG, inputs, 1).jet(U.LEG_POINT).values(words, ambient=False)[0]
    named = dict(zip([word.name(["Y0"]) for word in words], values.T, strict=True))
    np.testing.assert_allclose(named["Y0"], [0, 1 / (m * r**2), -1 / U.LEG_INERTIA], rtol=1e-13)
    np.testing.assert_allclose(named["<Y0:Y0>"], [-2 / (m**2 * r**3), 0, 0], atol=1e-12)
    np.testing.assert_allclose(named["<Y0:<Y0:Y0>>"], 0, atol=1e-12)
    np.testing.assert_allclose(
        named["<<Y0:Y0>:<Y0:Y0>>"], [-24 / (m**4 * r**7), 0, 0], rtol=1e-12, atol=1e-11
    )
    found = controllability.symmetric_closure(U.LEG, inputs, U.LEG_POINT, 6)
    assert found.settled and found.rank.value == 2 and found.order < 6


def test_products_of_a_satellite():
    """<xi : eta> = J^-1 (xi x J eta + eta x J xi) of left-invariant fields; brackets are cross products."""
    J = U.SATELLITE_INERTIA
    xi, eta = np.array([[0.3, -1.0], [0.8, 0.2], [-0.4, 0.5]]).T
    inputs = lambda q: jnp.stack([jnp.asarray(xi), jnp.asarray(eta)], axis=1)  # noqa: E731

    def product(a, b):
        return np.linalg.solve(J, np.cross(a, J @ b) + np.cross(b, J @ a))

    found = controllability.symmetric_closure(U.SATELLITE, inputs, U.ATTITUDE, 3)
    named = dict(zip(found.names, found.values.T, strict=True))
    np.testing.assert_allclose(named["<Y0:Y1>"], product(xi, eta), atol=1e-13)
    brackets = controllability.involutive_closure(U.SATELLITE, inputs, U.ATTITUDE, symmetric=False)
    frame = np.asarray(cn.SO3Frame().matrix(U.ATTITUDE))
    np.testing.assert_allclose(brackets.values[:, -1], frame @ np.cross(xi, eta), atol=1e-13)
    assert np.abs(brackets.values[:, -1] - frame @ np.cross(eta, xi)).max() > 0.1  # control: the other sign


def test_products_of_the_roller_racer():
    """<X_2:X_2> = 2 Gamma^i_22 X_i; <X_2:<X_2:X_2>> = 2 (d Gamma_22 / d psi + 2 Gamma_2(k) Gamma^k_22)."""
    q, inputs = U.racer_point(0.7), lambda p: jnp.eye(2)[:, 1:]
    words = [word for degree in itertools.islice(symmetric_words(1), 3) for word in degree]
    values = ControlSystem(U.RACER_BASIS, inputs, 1).jet(q).values(words, ambient=False)[0]
    Gamma, *slopes = Expansion(U.RACER_BASIS.coefficients_at, 4).at(q, 1)
    second = 2 * Gamma[:, 1, 1]
    np.testing.assert_allclose(values[:, 1], second, atol=1e-12)
    third = 2 * slopes[3][:, 1, 1] + (Gamma[:, 1, :] + Gamma[:, :, 1]) @ second
    np.testing.assert_allclose(values[:, 2], third, atol=1e-12)
    assert np.abs(third).max() > 1e-2


# --- products by another route, other frames --------------------------------------------------------------


def test_products_by_nested_derivatives():
    """The same words as JAX functions, by `covariant_derivative_at` of each other."""
    case = U.BY_NAME["cart and pendulum, force"]
    found = controllability.symmetric_closure(case.nabla, case.inputs, case.q, 3)
    assert found.names[-1] == "<Y0:Y0>"  # full already
    inputs = lambda q: jnp.stack([jnp.sin(q[1]), 1.0 + q[0] ** 2])[:, None] * jnp.ones((2, 1))  # noqa: E731
    chart = cn.CoordinateFrame(2)
    flat = cn.CoefficientConnection(chart, lambda q: jnp.zeros((2, 2, 2)).at[0, 0, 0].set(jnp.cos(q[0])))
    found = controllability.involutive_closure(flat, inputs, case.q, symmetric=False)
    assert found.rank.value == 1 and found.settled
    products = controllability.symmetric_closure(case.nabla, inputs, case.q, 2)
    brackets = controllability.involutive_closure(case.nabla, inputs, case.q)
    for closure in (products, brackets):
        together = jax.jit(lambda q, f=closure.fields: jnp.stack([each(q) for each in f], axis=1))
        np.testing.assert_allclose(together(case.q), closure.values, atol=1e-12)


def test_what_is_known_of_a_system_at_many_points_is_kept_of_few(monkeypatch):
    monkeypatch.setattr("connections.control.controllability.symmetric_products._KEPT", 3)
    nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2)))
    system = ControlSystem(nabla, lambda q: jnp.stack([1.0 + q[1] ** 2, q[0]])[:, None], 1)
    points = 0.1 + np.arange(14.0).reshape(7, 2)
    first = [system.units(q).coordinates for q in points]
    assert len(system._units) == len(system.surroundings._known) == 3
    for q, coordinates in zip(points, first, strict=True):
        np.testing.assert_array_equal(system.units(q).coordinates, coordinates)


@pytest.mark.further
def test_a_bracket_of_symmetric_products_by_nested_derivatives():
    """Y0 = d_x + y d_z and <Y0:Y0> = d_y, whose bracket is -d_z."""
    Gamma = jnp.zeros((3, 3, 3)).at[1, 0, 0].set(0.5).at[2, 0, 1].set(-0.5).at[2, 1, 0].set(-0.5)
    nabla = cn.CoefficientConnection(cn.CoordinateFrame(3), lambda q: Gamma)
    inputs, q = lambda q: jnp.stack([1.0 + 0.0 * q[0], 0.0 * q[0], q[1]])[:, None], np.array([0.4, -0.3, 0.2])
    found = controllability.involutive_closure(nabla, inputs, q)
    assert found.names == ("Y0", "<Y0:Y0>", "[Y0, <Y0:Y0>]")
    expected = np.array([[1.0, 0.0, q[1]], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]]).T
    np.testing.assert_allclose(found.values, expected, atol=1e-14)
    np.testing.assert_allclose(np.stack([field(q) for field in found.fields], axis=1), expected, atol=1e-14)


def change(q):
    """A change of frame, (3, 3)."""
    return jnp.eye(3) + 0.2 * jnp.outer(jnp.sin(q[:3]), jnp.cos(2 * q[:3] + 1))


@pytest.mark.parametrize(
    "name",
    always(
        ["arm 3R, third joint passive", "leg, torque", "bead on a rod, two torques"],
        "leg, torque",
        "bead on a rod, two torques",
    ),
)
def test_change_of_frame(name):
    """Verdicts and products do not depend on the frame."""
    case = U.BY_NAME[name]
    changed = case.nabla.change(change)
    inputs = lambda q: jnp.linalg.solve(change(q), case.inputs(q))  # noqa: E731
    before = controllability.configuration_controllability(case.nabla, case.inputs, case.q)
    after = controllability.configuration_controllability(changed, inputs, case.q)
    assert (after.accessible, after.controllable) == (before.accessible, before.controllable)
    A = Expansion(change, 3).value(case.q)
    np.testing.assert_allclose(A @ after.symmetric.values, before.symmetric.values, atol=1e-10)
    # negative control: inputs that keep their components are other inputs
    other = controllability.symmetric_closure(changed, case.inputs, case.q)
    count = min(len(other.names), len(before.symmetric.names))
    assert np.abs(A @ other.values[:, :count] - before.symmetric.values[:, :count]).max() > 1e-2


@pytest.mark.further
def test_change_of_basis_of_the_distribution():
    """Printed basis, an oblique one, and the one computed from the forms: the same vectors."""
    printed = U.covectors(U.SNAKEBOARD_BASIS, *U.SNAKEBOARD_INPUTS)
    routes = [
        (U.SNAKEBOARD, BOARD_INPUTS),
        (U.SNAKEBOARD_BASIS, printed),
        (U.SNAKEBOARD_BASIS.change(change), lambda q: jnp.linalg.solve(change(q), printed(q))),
    ]
    reports = [controllability.configuration_controllability(*route, U.SNAKEBOARD_POINT) for route in routes]
    for report in reports:
        assert report.controllable and report.involutive.rank.value == 5
        assert report.involutive.names == reports[0].involutive.names
        np.testing.assert_allclose(report.involutive.values, reports[0].involutive.values, atol=1e-9)


# --- decoupling fields ------------------------------------------------------------------------------------


def translation(q):
    """Of the gantry's link along itself."""
    return jnp.stack([jnp.cos(q[2]), jnp.sin(q[2]), 0.0 * q[2]])


def percussion(q):
    """Of the gantry's link about its centre of percussion, 0.3 / 0.35 from the pivot."""
    return jnp.stack([0.3 / 0.35 * jnp.sin(q[2]), -0.3 / 0.35 * jnp.cos(q[2]), 1.0 + 0.0 * q[2]])


def test_decoupling_fields_of_a_passive_link():
    """Translation along the link and rotation about its centre of percussion, at other points too."""
    case = U.BY_NAME["arm PPR, last joint passive"]
    found = controllability.decoupling_fields(case.nabla, case.inputs, case.q)
    assert len(found.fields) == 2 and found.complete and not found.isolated
    for q in (case.q, case.q + 0.02):
        X = np.stack([Expansion(each.field, 3).value(q) for each in found.fields], axis=1)
        for known in (translation(q), percussion(q)):
            sines = np.linalg.norm(np.cross(X.T, known), axis=1) / np.linalg.norm(X, axis=0)
            assert sines.min() < 1e-12 * np.linalg.norm(known) + 1e-13
    q = np.stack([case.q, case.q + 0.3, -case.q])
    for X in (translation, percussion):
        assert controllability.is_decoupling(case.nabla, X, case.inputs, q).ok
    first = lambda p: case.inputs(p)[:, 0]  # noqa: E731
    assert not controllability.is_decoupling(case.nabla, first, case.inputs, q).ok
    assert not controllability.is_decoupling(case.nabla, lambda p: jnp.eye(3)[2], case.inputs, q).ok
    assert not controllability.is_decoupling(case.nabla, lambda p: jnp.nan * jnp.eye(3)[0], case.inputs, q).ok
    given = controllability.kinematic_controllability(
        case.nabla, case.inputs, case.q, [translation, percussion]
    )
    assert given.controllable and given.decoupling is None
    alone = controllability.kinematic_controllability(case.nabla, case.inputs, case.q, [translation])
    assert alone.controllable is None and alone.involutive.rank.value == 1
    with pytest.raises(CheckError, match="decoupling"):
        controllability.kinematic_controllability(case.nabla, case.inputs, case.q, [translation, first])


def test_double_root():
    """Forms that are squares, (u_1 + s u_2)^2 with s a function of q: one field, by the kernel."""

    def coefficients(q):
        row = jnp.stack([1.0 + 0 * q[0], 0.3 + jnp.sin(q[0] + q[2]), 0 * q[0]])
        return jnp.zeros((3, 3, 3)).at[2].set(jnp.outer(row, row))

    nabla = cn.CoefficientConnection(cn.CoordinateFrame(3), coefficients)
    inputs = lambda q: jnp.eye(3)[:, :2]  # noqa: E731
    found = controllability.decoupling_fields(nabla, inputs, [0.2, 0.1, -0.5])
    assert len(found.fields) == 1 and not found.fields[0].constant
    s = 0.3 + np.sin(-0.2)
    X = Expansion(found.fields[0].field, 3).value(np.array([0.4, 0.1, -0.6]))
    np.testing.assert_allclose(X[0] + s * X[1], 0, atol=1e-12)
    # the form is semidefinite only: neither test decides by it
    assert controllability.configuration_controllability(nabla, inputs, [0.2, 0.1, -0.5]).accessible


# --- the free algebra and Taylor arithmetic ---------------------------------------------------------------


def test_free_symmetric_algebra():
    """One generator: the Wedderburn-Etherington numbers; every product once, bad ones counted."""
    one, two = (list(itertools.islice(symmetric_words(a), 7 if a == 1 else 4)) for a in (1, 2))
    assert [len(words) for words in one] == [1, 1, 1, 2, 3, 6, 11]
    assert [len(words) for words in two] == [2, 3, 6, 18]
    names = [word.name(["a", "b"]) for words in two for word in words]
    assert len(set(names)) == len(names)
    assert [word.name("ab") for word in two[1] if word.bad] == ["<a:a>", "<b:b>"]
    assert not any(word.bad for words in (two[0], two[2]) for word in words)
    assert all(word.bad for word in one[1] + one[3]) and not any(word.bad for word in one[2])


def everything(q):
    """Most primitives that a definition may use."""
    A = 3 * jnp.eye(3) + jnp.outer(jnp.sin(q), jnp.cos(q[::-1]))
    H = A @ A.T
    L = jnp.linalg.cholesky(H)
    x = jnp.linalg.solve(H, jnp.stack([q, q**2, jnp.exp(q)]))
    turned = jax.lax.fori_loop(0, 3, lambda i, y: jnp.tanh(y + q[i]), q)
    chosen = jax.lax.cond(q[0] > 0, lambda p: jnp.log(3 + p), lambda p: p**2, q)
    pieces = {
        "linear": jax.scipy.linalg.solve_triangular(L, x, lower=True) + jnp.linalg.inv(A),
        "placed": jnp.zeros((2, 3)).at[0].set(turned).at[1, 1:].set(jnp.arctan2(q[0] + 1, q[1:] - 0.5)),
        "added": jnp.zeros(3).at[jnp.array([0, 2, 2])].add(chosen) + jnp.cumsum(q),
        "norm": jnp.linalg.norm(q) * jnp.arcsin(q / 4) / (1 + q[0] ** 2) + jnp.abs(q) ** 1.5,
        "pieces": jnp.where(q > 0, jnp.sqrt(jnp.where(q > 0, q, 1.0)), jnp.cosh(q)) + jnp.max(q) * jnp.min(q),
        "sigmoid": jax.nn.sigmoid(q)
        + jnp.arctan(q)
        + jnp.arctanh(q / 3)
        + jnp.log1p(q**2)
        + jnp.maximum(q, 0.1),
    }
    rows = jax.vmap(lambda k, row: jax.lax.dynamic_slice(row, (k,), (2,)))(jnp.array([1, 0]), A[:2])
    window = jax.lax.dynamic_update_slice(A, rows, (1, 0))
    pieces["taken"] = jnp.concatenate(
        [q[jnp.array([2, 0, 7])][:2], window[::-1, 1], jnp.diagonal(A), A[0, ::2]]
    )
    pieces["wide"] = jnp.pad(q**2, (2, 1), constant_values=q[1]) + jax.lax.pad(q, 0.0, [(1, -1, 1)])[0]
    pieces["many"] = jax.vmap(lambda k, row: row.at[k].add(q[0]))(jnp.array([2, 1, 0]), A)
    (slope,) = jax.jvp(lambda p: jnp.linalg.solve(H, p), (q,), (jnp.sin(q),))[1:]
    return pieces | {"slope": slope}


def test_taylor_polynomials():
    """Values are JAX's, and the polynomial of degree 5 is right at a distance of 1e-2 to 1e-12."""
    q, step = np.array([0.3, -0.2, 0.7]), 1e-2 * np.array([0.6, -0.7, 0.4])
    expansion = Expansion(everything, 3)
    powers = np.prod(step ** taylor_algebra(3, 5).exponents, axis=1)
    polynomials, there = expansion.at(q, 5), expansion.value(q + step)
    expected = jax.jit(everything)(q)
    for name, value in expected.items():
        np.testing.assert_allclose(polynomials[name][0], value, atol=1e-13, err_msg=name)
        found = np.tensordot(powers, polynomials[name], axes=1)
        np.testing.assert_allclose(found, there[name], atol=3e-12, err_msg=name)
        short = np.tensordot(powers[:4], polynomials[name][:4], axes=1)
        assert np.abs(short - there[name]).max() > 1e-7  # a linear polynomial is not


def complex_between(q):
    """Primitives whose intermediate values are complex."""
    z = jnp.exp(1j * q[0]) * (2.0 + q[1]) + 1j * q[2]
    A = 3 * jnp.eye(3) + (1 + 1j) * jnp.outer(jnp.sin(q), jnp.cos(q[::-1]) * jnp.exp(1j * q))
    H, b = A @ A.conj().T, jnp.stack([z, z**2, 1 / z])
    functions = [jnp.log, jnp.sqrt, jnp.sin, jnp.tanh, jnp.cosh, jnp.arccosh, jnp.arctan, jnp.log1p]
    return {
        "parts": jnp.stack([z.real, z.imag, jnp.abs(z), jnp.angle(z), (jnp.conj(z) * z).real]),
        "functions": jnp.stack([f(z / 3).imag for f in functions]),
        "powers": jnp.stack([z**1.5, z**-2, jnp.power(z, 2j)]).imag,
        "direction": (z / jnp.abs(z)).imag,
        "linear": jnp.linalg.solve(A, b).real + jnp.linalg.inv(H)[0].imag,
        "factors": jnp.abs(jnp.linalg.cholesky(H)) + jnp.linalg.det(A).real,
        "triangles": jax.scipy.linalg.solve_triangular(A, b, lower=True, trans=2).imag
        + jax.scipy.linalg.solve_triangular(A, b, lower=False, trans=1).imag,
        "eigenvalues": jnp.linalg.eigh(H)[0],
        "transforms": jnp.fft.ifft(jnp.fft.fft(q**2) * jnp.exp(1j * jnp.arange(3.0))).real,
        "real transforms": jnp.abs(jnp.fft.rfft(q)) + jnp.fft.irfft(jnp.stack([q[0] + 0j, z]), n=3)[0],
        "loop": jax.lax.fori_loop(0, 3, lambda i, y: y * jnp.exp(1j * q[i]) + 0.1, z).real,
        "placed": jnp.zeros(3, complex).at[1].set(z).at[jnp.array([0, 0])].add(b[:2]).real,
        "chosen": jnp.where(q > 0, jnp.exp(1j * q), 2j * q).imag + jnp.cumsum(b).real,
        "reduced": jnp.stack([jnp.prod(b).imag, jnp.linalg.norm(b)]),
    }


@pytest.mark.further
def test_taylor_polynomials_with_complex_values_between():
    """Every operation keeps its derivatives: of degree 4, against JAX's values at a distance of 1e-2."""
    q, step = np.array([0.3, -0.2, 0.7]), 1e-2 * np.array([0.6, -0.7, 0.4])
    powers = np.prod(step ** taylor_algebra(3, 4).exponents, axis=1)
    polynomials = Expansion(complex_between, 3).at(q, 4)
    here, there = jax.jit(complex_between)(q), jax.jit(complex_between)(q + step)
    for name, value in here.items():
        assert polynomials[name].dtype == float
        np.testing.assert_allclose(polynomials[name][0], value, atol=1e-13, err_msg=name)
        found = np.tensordot(powers, polynomials[name], axes=1)
        np.testing.assert_allclose(found, there[name], atol=1e-9, err_msg=name)
        short = np.tensordot(powers[:4], polynomials[name][:4], axes=1)
        assert np.abs(short - there[name]).max() > 1e-6  # a linear polynomial is not


def test_a_small_type_of_floating_point_keeps_its_slopes():
    """bfloat16 is no NumPy kind "f"."""
    q, narrow = np.array([0.5]), lambda q: (q.astype(jnp.bfloat16) * 2).astype(float)
    np.testing.assert_array_equal(Expansion(narrow, 1).at(q, 1), [[1.0], [2.0]])


def test_rules_of_sums_along_an_axis_of_the_larger_and_of_products():
    """Against NumPy: the larger of two at the point is so whatever the slopes are."""
    a = np.arange(24.0).reshape(2, 3, 4) ** 2
    for axis in (0, 1):
        found = cumulative_sum(taylor_algebra(1, 1), {"axis": axis, "reverse": False}, a)
        np.testing.assert_array_equal(found, np.cumsum(a, axis + 1))
    larger = _extreme(True)(taylor_algebra(1, 1), {}, np.array([[2.0], [0.5]]), np.array([[1.0], [9.0]]))
    np.testing.assert_array_equal(larger, [[2.0], [0.5]])
    p, q = np.array([1.0, 2.0, 5.0]), np.array([3.0, 7.0])
    np.testing.assert_array_equal(convolve(p, q, 4), np.convolve(p, q))


def test_primitive_without_a_rule():
    """By nested derivatives along directions: the logarithm of the gamma function."""
    expansion, q = Expansion(lambda q: jax.lax.lgamma(q[0] * q[1] + 2.0), 2), np.array([0.7, 0.4])
    algebra, step = taylor_algebra(2, 2), np.array([3e-4, -2e-4])
    found = np.prod(step**algebra.exponents, axis=1) @ expansion.at(q, 2)
    np.testing.assert_allclose(found, math.lgamma(np.prod(q + step) + 2.0), atol=1e-11)
    assert abs(expansion.at(q, 2)[0] - found) > 1e-6


# --- bad input --------------------------------------------------------------------------------------------


def dependent(q):
    return jnp.stack([jnp.ones(3), 2 * jnp.ones(3)], axis=1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f: f(U.LEG, lambda q: jnp.ones((2, 1)), U.LEG_POINT), ShapeError, r"inputs: .*\(3, 1 to 3\)"),
        (lambda f: f(U.LEG, lambda q: jnp.ones(3), U.LEG_POINT), ShapeError, "inputs: expected"),
        (lambda f: f(U.LEG, dependent, U.LEG_POINT), FrameError, "dependent .1 of 2 .* at q"),
        (lambda f: f(U.LEG, lambda q: jnp.ones((3, 1)), U.LEG_POINT[:2]), ShapeError, "q: expected"),
        (lambda f: f(U.LEG, lambda q: jnp.ones((3, 1)), np.ones((2, 3))), ShapeError, "one point"),
        (lambda f: f(U.LEG, lambda q: jnp.ones((3, 1)), [np.nan, 0, 0]), NonFiniteError, "q"),
        (
            lambda f: f(U.LEG, lambda q: jnp.log(q[1] - 1) * jnp.ones((3, 1)), U.LEG_POINT),
            NonFiniteError,
            "inputs",
        ),
        (lambda f: f(U.SATELLITE, lambda q: jnp.eye(3), [0, 0, 0, 1.1]), cn.checks.PointError, "quaternion"),
        (lambda f: f(U.LEG.metric, lambda q: jnp.ones((3, 1)), U.LEG_POINT), TypeError, "AffineConnection"),
        (
            lambda f: f(U.LEG, lambda q: jnp.ones((3, 1)), U.LEG_POINT, names=("a", "b")),
            ShapeError,
            "names of the inputs",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call(controllability.configuration_controllability)


def test_bad_input_of_the_search():
    for function in (
        controllability.decoupling_fields,
        controllability.kinematic_controllability,
    ):
        with pytest.raises(FrameError, match="dependent .1 of 2"):
            function(U.LEG, dependent, U.LEG_POINT)


@pytest.mark.parametrize("order", [0, -1, 1.5, True])
def test_orders_below_one(order):
    for function in (controllability.symmetric_closure, controllability.involutive_closure):
        with pytest.raises(ValueError if type(order) is int else TypeError, match="order"):
            function(U.LEG, U.BY_NAME["leg, torque"].inputs, U.LEG_POINT, order)


def test_a_field_of_the_wrong_shape():
    case = U.BY_NAME["leg, torque"]
    with pytest.raises(ShapeError, match="decoupling field"):
        controllability.is_decoupling(case.nabla, lambda q: jnp.ones(2), case.inputs, case.q)
