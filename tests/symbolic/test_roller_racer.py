"""The roller racer of [Z] sections 5 and 6: every printed formula, its slips, and numbers by four routes."""

import by_multipliers
import jax
import numpy as np
import pytest
from sympy import Matrix, cos, diff, sin, symbols, tan

import connections as cn
from connections import symbolic, systems
from connections.symbolic import nonzero, vanishes

SYSTEM = systems.roller_racer()
X, Y, THETA, PSI = SYSTEM.coordinates
M, L_1, L_2, I_1, I_2 = SYSTEM.parameters
C, S = cos(PSI), sin(PSI)
V_X, V_Y = Matrix([cos(THETA), sin(THETA), 0, 0]), Matrix([-sin(THETA), cos(THETA), 0, 0])
D_THETA, D_PSI = Matrix([0, 0, 1, 0]), Matrix([0, 0, 0, 1])
X_1, X_2 = (Matrix(column) for column in SYSTEM.fields.T)
ARM = L_2 + L_1 * C
F_1 = M * ARM**2 + (I_1 + I_2) * S**2
F_2 = M * L_2**2 * I_1 + M * L_1**2 * I_2 * C**2 + I_1 * I_2 * S**2
F_3 = (L_1 * I_2 - L_2 * I_1 * C) + M * L_1 * L_2 * ARM
CHRISTOFFEL = {
    (0, 1, 0): (L_1 + L_2 * C) / ARM * (I_1 + I_2) * S / F_1,
    (0, 1, 1): -M * (L_1 + L_2 * C) * ARM * (L_1 * I_2 * C - L_2 * I_1) / F_1**2,
    (1, 1, 0): (L_1 + L_2 * C) / ARM * M * (L_1 * I_2 * C - L_2 * I_1) / F_2,
    (1, 1, 1): -M * (L_1 * I_2 * C - L_2 * I_1) * S * F_3 / (F_1 * F_2),
}


def equal(found, expected):
    return all(vanishes(a - b) for a, b in zip(np.ravel(found), np.ravel(expected), strict=True))


# --- the model, from wheels and energies ------------------------------------------------------------------

VALUES = {symbol.name: value for symbol, value in SYSTEM.parameter_values().items()}
MASS = np.diag([VALUES["m"], VALUES["m"], VALUES["I_1"] + VALUES["I_2"], VALUES["I_2"]])
MASS[2, 3] = MASS[3, 2] = VALUES["I_2"]
SINGULAR = float(np.arccos(-VALUES["l_2"] / VALUES["l_1"]))  # l_2 + l_1 cos psi = 0


def wheels(q):
    """Sideways velocity at the centre and at the front wheels, per unit coordinate velocity."""
    theta, front = q[2], q[2] + q[3]
    normal = np.array([np.sin(front), -np.cos(front)])
    joint = VALUES["l_1"] * np.array([-np.sin(theta), np.cos(theta)]) @ normal
    ahead = VALUES["l_2"] * np.array([-np.sin(front), np.cos(front)]) @ normal
    zero = 0.0 * theta
    return np.array([[np.sin(theta), -np.cos(theta), zero, zero], [*normal, joint + ahead, ahead]])


def fields(q):
    """X_1 and X_2 as in the closed form."""
    theta, s, c = q[2], np.sin(q[3]), np.cos(q[3])
    m, l_1, l_2, I_1, I_2 = VALUES.values()
    arm, zero, one = l_2 + l_1 * c, 0.0 * theta, 1.0 + 0.0 * theta
    f_1 = m * arm**2 + (I_1 + I_2) * s**2
    along = (l_2 * I_1 - l_1 * I_2 * c) * s / f_1
    first = [np.cos(theta), np.sin(theta), s / arm, zero]
    second = [along * np.cos(theta), along * np.sin(theta), -(m * l_2 * arm + I_2 * s**2) / f_1, one]
    return np.stack([np.array(first), np.array(second)], axis=1)


def oblique(q):
    """The two fields from which [Z] starts."""
    arm, zero = VALUES["l_2"] + VALUES["l_1"] * np.cos(q[3]), 0.0 * q[3]
    second = np.array([zero, zero, -VALUES["l_2"] / arm, 1.0 + zero])
    return np.stack([fields(q)[:, 0], second], axis=1)


def regular_fields(q):
    """As `fields`, the first one multiplied by l_2 + l_1 cos psi."""
    theta, s, arm = q[2], np.sin(q[3]), VALUES["l_2"] + VALUES["l_1"] * np.cos(q[3])
    first = np.array([arm * np.cos(theta), arm * np.sin(theta), s, 0.0 * s])
    return np.stack([first, fields(q)[:, 1]], axis=1)


def test_metric_and_forms_are_those_of_two_links_on_wheels(rng):
    v = symbols("v1:5")
    energy = M * (v[0] ** 2 + v[1] ** 2) / 2 + I_1 * v[2] ** 2 / 2 + I_2 * (v[2] + v[3]) ** 2 / 2
    assert equal(SYSTEM.metric, [[diff(energy, a, b) for a in v] for b in v])
    q = rng.normal(size=(4, 4))
    W = by_multipliers.closed_form(SYSTEM, SYSTEM.forms, q)
    np.testing.assert_allclose(W, [wheels(p) for p in q], atol=1e-14)


# --- section 5.1: the basis -------------------------------------------------------------------------------


def test_the_orthogonal_basis_is_the_one_of_equation_9():
    start = SYSTEM.with_basis(Matrix.hstack(X_1, D_PSI - L_2 / ARM * D_THETA))
    assert equal(start.orthogonal_basis(), SYSTEM.basis)
    assert not vanishes(start.reduced_metric()[0, 1])


def test_norms():
    """1 / |X_2|^2 = f_1 / f_2 with the readings of f_1 and f_2; |X_1|^2 = f_1 / (l_2 + l_1 cos psi)^2."""
    assert equal(SYSTEM.reduced_metric(), [[F_1 / ARM**2, 0], [0, F_2 / F_1]])


# --- section 5.2: Christoffel symbols, inputs, equations --------------------------------------------------


def test_christoffel_symbols():
    Gamma = SYSTEM.constrained_coefficients()
    assert nonzero(Gamma).keys() == CHRISTOFFEL.keys()
    assert all(vanishes(Gamma[index] - value) for index, value in CHRISTOFFEL.items())
    assert equal(SYSTEM.constrained_coefficients(route="orthogonal"), Gamma)
    # A garbled f_1 or f_3, or a changed sign, is noticed.
    assert not vanishes(Gamma[0, 1, 1] + CHRISTOFFEL[0, 1, 1])
    assert not vanishes(Gamma[1, 1, 1] - CHRISTOFFEL[1, 1, 1].subs(I_1, I_1 + I_2))


def test_input_coefficients_of_covectors_and_of_functions():
    assert equal(SYSTEM.input_coefficients(), [[0], [F_1 / F_2]])
    assert equal(SYSTEM.input_coefficients_of_functions([PSI]), [[0], [F_1 / F_2]])


def test_equations_of_motion():
    v, psi_dot, u = symbols("v psi_dot u")
    q_dot, v_dot = SYSTEM.equations_of_motion([v, psi_dot], [u], simplify=None)
    along = v + (L_2 * I_1 - L_1 * I_2 * C) * S / F_1 * psi_dot
    turning = S / ARM * v - (M * L_2 * ARM + I_2 * S**2) / F_1 * psi_dot
    assert equal(q_dot, along * V_X + turning * D_THETA + psi_dot * D_PSI)
    expected = [-CHRISTOFFEL[k, 1, 0] * psi_dot * v - CHRISTOFFEL[k, 1, 1] * psi_dot**2 for k in (0, 1)]
    assert equal(v_dot, [expected[0], expected[1] + F_1 / F_2 * u])


# --- section 6.2 ------------------------------------------------------------------------------------------


def test_brackets_and_determinant():
    first = SYSTEM.bracket(X_1.flat(), X_2.flat())
    second = SYSTEM.bracket(X_1.flat(), first)
    assert equal(first, L_2 / ARM * V_Y - (L_1 + L_2 * C) / ARM**2 * D_THETA)
    assert equal(second, -L_2 * S / ARM**2 * V_X + (L_1 + L_2 * C) / ARM**2 * V_Y)
    columns = Matrix.hstack(X_1, X_2, Matrix(first), Matrix(second))
    assert vanishes(columns.det() - (L_1**2 + L_2**2 + 2 * L_1 * L_2 * C) / ARM**4)


def test_symmetric_products_and_where_they_lose_rank():
    """<X_2 : X_2> || X_2 where l_1 I_2 cos psi = l_2 I_1, as printed, and where l_1 + l_2 cos psi = 0."""
    e = np.eye(2, dtype=int)
    square = SYSTEM.symmetric_product(e[1], e[1])
    assert equal(square, [2 * CHRISTOFFEL[0, 1, 1], 2 * CHRISTOFFEL[1, 1, 1]])
    cubic = SYSTEM.symmetric_product(e[1], square, None)
    short = {"m": 1.0, "l_1": 0.5, "l_2": 1.0, "I_1": 0.05, "I_2": 0.04}
    long = short | {"l_1": 2.0}
    for lengths, cosine in ((short, -0.5), (long, 0.05 / 0.08)):
        q = np.array([0.0, 0.0, 0.0, np.arccos(cosine)])
        first, second = by_multipliers.closed_form(SYSTEM, np.array([square[0], cubic[0]]), q, lengths)
        assert abs(first) < 1e-13  # the two fields are dependent
        assert abs(second) > 1e-2  # and the next product restores the rank
    degenerate = (L_1 + L_2 * C) * ARM * (L_1 * I_2 * C - L_2 * I_1)
    assert vanishes(square[0] * F_1**2 + 2 * M * degenerate)  # nowhere else, but at the singularity of X_1


# --- the singularity at l_2 + l_1 cos psi = 0 belongs to the printed basis --------------------------------


def test_regular_at_the_printed_singularity():
    q = np.array([0.3, -0.2, 0.7, SINGULAR])
    assert np.linalg.matrix_rank(wheels(q)) == 2
    equal_lengths = SYSTEM.numeric({"l_1": 0.4, "l_2": 0.4}).connection  # X_1 is infinite at psi = pi
    with pytest.raises(
        cn.checks.FrameError, match="constraints keep rank 2: the basis is singular, not the system"
    ):
        equal_lengths.explain(np.array([0.3, -0.2, 0.7, np.pi]))
    # V_x (l_2 + l_1 cos psi) + sin(psi) d/dtheta is regular in the place of X_1.
    regular = SYSTEM.with_basis(Matrix.hstack(ARM * V_X + S * D_THETA, X_2))
    closed = by_multipliers.closed_form(regular, regular.constrained_coefficients(None), q)
    np.testing.assert_allclose(
        by_multipliers.coefficients(MASS, wheels, regular_fields, q), closed, atol=1e-10
    )
    # The forms alone give the same connection there.
    full = np.asarray(jax.jit(SYSTEM.with_basis(None).numeric().connection.full.coefficients_at)(q))
    found = by_multipliers.derivatives_of_fields(full, regular_fields, q)
    np.testing.assert_allclose(found, np.einsum("ak,kij->aij", regular_fields(q), closed), atol=1e-10)


def test_what_is_feasible_at_the_printed_singularity():
    """Turning about the centre, as [Z] says; but also l_2 V_x + sin(psi) d/dpsi, which moves x, y and psi."""
    forms = SYSTEM.forms
    second = forms @ np.array((L_2 * V_X + S * D_PSI).flat())
    assert equal(forms @ np.array(D_THETA.flat()), [0, -ARM])
    assert equal(second, [0, 0])  # everywhere, in fact


# --- section 3.3: symmetry --------------------------------------------------------------------------------


def test_invariance_under_motions_of_the_plane():
    a, b, alpha = symbols("a b alpha", real=True)
    turned = [X * cos(alpha) - Y * sin(alpha) + a, X * sin(alpha) + Y * cos(alpha) + b, THETA + alpha, PSI]
    assert not any(nonzero(array) for array in symbolic.invariance(SYSTEM, turned).values())
    sheared = symbolic.invariance(SYSTEM, [X + a * Y, Y, THETA, PSI])
    assert nonzero(sheared["metric"]) and nonzero(sheared["forms"])


# --- numbers ----------------------------------------------------------------------------------------------


def hand_derived(q):
    """The symbols by hand, (2, 2, 2)."""
    m, l_1, l_2, I_1, I_2 = VALUES.values()
    s, c = np.sin(q[3]), np.cos(q[3])
    arm, other, twist = l_2 + l_1 * c, l_1 + l_2 * c, l_1 * I_2 * c - l_2 * I_1
    f_1 = m * arm**2 + (I_1 + I_2) * s**2
    f_2 = m * l_2**2 * I_1 + m * l_1**2 * I_2 * c**2 + I_1 * I_2 * s**2
    f_3 = l_1 * I_2 - l_2 * I_1 * c + m * l_1 * l_2 * arm
    Gamma = np.zeros((2, 2, 2))
    Gamma[0, 1] = other / arm * (I_1 + I_2) * s / f_1, -m * other * arm * twist / f_1**2
    Gamma[1, 1] = other / arm * m * twist / f_2, -m * twist * s * f_3 / (f_1 * f_2)
    return Gamma


def test_symbolic_numeric_hand_derived_and_multipliers_agree(rng):
    q = rng.uniform(-1.5, 1.5, size=(6, 4))
    Gamma = np.array(list(map(jax.jit(SYSTEM.numeric().connection.coefficients_at), q)))
    closed = by_multipliers.closed_form(SYSTEM, SYSTEM.constrained_coefficients(), q)
    Y = by_multipliers.closed_form(SYSTEM, SYSTEM.input_coefficients(), q)
    np.testing.assert_allclose(closed, Gamma, atol=1e-10)
    for p, found, push in zip(q, Gamma, Y, strict=True):
        np.testing.assert_allclose(hand_derived(p), found, atol=1e-10)
        np.testing.assert_allclose(by_multipliers.coefficients(MASS, wheels, fields, p), found, atol=1e-10)
        by_hand = by_multipliers.input_coefficients(MASS, wheels, fields, p, np.eye(4)[3:])
        np.testing.assert_allclose(by_hand, push, rtol=1e-10, atol=1e-10)
    assert (
        np.abs(np.swapaxes(Gamma, 2, 3) - closed).max() > 0.01
    )  # control: the middle index is the direction


def test_the_oblique_basis_of_section_5_1(rng):
    system = SYSTEM.with_basis(Matrix.hstack(X_1, D_PSI - L_2 / ARM * D_THETA))
    q = rng.uniform(-1.5, 1.5, size=(4, 4))
    closed = by_multipliers.closed_form(system, system.constrained_coefficients(None), q)
    for p, Gamma in zip(q, closed, strict=True):
        np.testing.assert_allclose(by_multipliers.coefficients(MASS, wheels, oblique, p), Gamma, atol=1e-10)


def test_tangents_are_turned_into_sines_and_cosines():
    assert vanishes(tan(PSI) * C - S)
