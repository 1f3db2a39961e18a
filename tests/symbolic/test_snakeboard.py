"""The snakeboard of [Z] sections 4 and 6: every printed formula, its slips, and numbers by four routes."""

import by_multipliers
import jax
import numpy as np
import pytest
from sympy import Matrix, Symbol, cos, diff, sin, symbols

import connections as cn
from connections import symbolic, systems
from connections.symbolic import nonzero, vanishes

SYSTEM = systems.snakeboard()
X, Y, THETA, PSI, PHI = SYSTEM.coordinates
M, L, J_R, J_W = SYSTEM.parameters
V_X, V_Y = Matrix([cos(THETA), sin(THETA), 0, 0, 0]), Matrix([-sin(THETA), cos(THETA), 0, 0, 0])
D_THETA, D_PSI, D_PHI = (Matrix(5, 1, lambda i, _, k=k: int(i == k)) for k in (2, 3, 4))
X_1, X_2, X_3 = (Matrix(column) for column in SYSTEM.fields.T)
RIGHT = M * L**2 - J_R * sin(PHI) ** 2
PRINTED = M * L**2 + J_R * sin(PHI) ** 2  # [Z]'s denominators


def equal(found, expected):
    return all(vanishes(a - b) for a, b in zip(np.ravel(found), np.ravel(expected), strict=True))


# --- the model, from wheels and energies ------------------------------------------------------------------

VALUES = {symbol.name: value for symbol, value in SYSTEM.parameter_values().items()}
MASS = np.diag([VALUES["m"], VALUES["m"], VALUES["m"] * VALUES["l"] ** 2, VALUES["J_r"], VALUES["J_w"]])
MASS[2, 3] = MASS[3, 2] = VALUES["J_r"]


def wheels(q):
    """Sideways velocity of the front and of the back wheels, per unit coordinate velocity."""
    theta, phi = q[2], q[4]
    rows = []
    for place, heading in ((VALUES["l"], theta - phi), (-VALUES["l"], theta + phi)):
        normal = np.array([-np.sin(heading), np.cos(heading)])
        lever = place * np.array([-np.sin(theta), np.cos(theta)]) @ normal
        rows.append([*normal, lever, 0.0 * theta, 0.0 * theta])
    return np.array(rows)


def fields(q):
    """X_1, X_2, X_3 as in the closed form."""
    (theta, phi), (m, l, J) = (q[2], q[4]), (VALUES["m"], VALUES["l"], VALUES["J_r"])  # noqa: E741
    s, c, zero = np.sin(phi), np.cos(phi), 0.0 * phi
    first = np.array([l * c * np.cos(theta), l * c * np.sin(theta), -s, zero, zero])
    second = J * s / (m * l**2) * first + np.array([zero, zero, zero, 1.0 + zero, zero])
    return np.stack([first, second, np.array([zero, zero, zero, zero, 1.0 + zero])], axis=1)


def oblique(q):
    """X_1 and the coordinate fields of psi and phi, from which [Z] starts."""
    return np.stack([fields(q)[:, 0], np.eye(5)[3] + 0.0 * q, np.eye(5)[4] + 0.0 * q], axis=1)


def test_metric_and_forms_are_those_of_rotor_board_and_wheels(rng):
    v = symbols("v1:6")
    board = M * L**2 - J_R - J_W  # so that all inertia about the centre is m l^2
    rates = (v[2], v[2] + v[3], v[2] - v[4], v[2] + v[4])
    inertias = (board, J_R, J_W / 2, J_W / 2)
    energy = M * (v[0] ** 2 + v[1] ** 2) / 2 + sum(J * w**2 / 2 for J, w in zip(inertias, rates, strict=True))
    assert equal(SYSTEM.metric, [[diff(energy, a, b) for a in v] for b in v])
    q = rng.normal(size=(4, 5))
    W = by_multipliers.closed_form(SYSTEM, SYSTEM.forms, q)
    np.testing.assert_allclose(W, [wheels(p) for p in q], atol=1e-14)


# --- section 4.1: the basis -------------------------------------------------------------------------------


def test_the_orthogonal_basis_is_the_one_of_equation_9():
    start = SYSTEM.with_basis(Matrix.hstack(L * cos(PHI) * V_X - sin(PHI) * D_THETA, D_PSI, D_PHI))
    assert equal(start.orthogonal_basis(), SYSTEM.basis)
    assert equal(start.orthogonal_basis(unit={1: 3}), SYSTEM.basis)  # rescaling changes nothing here
    assert not vanishes(start.reduced_metric()[0, 1])


def test_norms():
    """|X_2|^2 = J_r - J_r^2 sin^2 phi / (m l^2): an orthogonal part is never longer than the vector."""
    G = SYSTEM.reduced_metric()
    assert equal(G, np.diag([M * L**2, J_R * RIGHT / (M * L**2), J_W]))
    assert not vanishes(G[1, 1] - J_R * PRINTED / (M * L**2))  # print: J_r + ...


# --- section 4.2: Christoffel symbols, inputs, equations --------------------------------------------------


def test_christoffel_symbols():
    expected = {
        (0, 2, 1): J_R * cos(PHI) / (M * L**2),
        (1, 2, 0): -M * L**2 * cos(PHI) / RIGHT,
        (1, 2, 1): -J_R * sin(PHI) * cos(PHI) / RIGHT,  # print: plus
    }
    Gamma = SYSTEM.constrained_coefficients()
    assert nonzero(Gamma).keys() == expected.keys()
    assert all(vanishes(Gamma[index] - value) for index, value in expected.items())
    assert equal(SYSTEM.constrained_coefficients(route="orthogonal"), Gamma)
    assert not vanishes(Gamma[1, 2, 0] + M * L**2 * cos(PHI) / PRINTED)
    assert not vanishes(Gamma[1, 2, 1] + J_R * sin(PHI) * cos(PHI) / PRINTED)
    assert not vanishes(Gamma[1, 2, 1] - J_R * sin(PHI) * cos(PHI) / RIGHT)


def test_input_coefficients_of_covectors_and_of_functions():
    Y = SYSTEM.input_coefficients()
    assert equal(Y, [[0, 0], [M * L**2 / (J_R * RIGHT), 0], [0, 1 / J_W]])
    assert equal(SYSTEM.input_coefficients_of_functions([PSI, PHI]), Y)


def test_equations_of_motion():
    v, psi_dot, phi_dot, u_psi, u_phi = symbols("v psi_dot phi_dot u_psi u_phi")
    q_dot, v_dot = SYSTEM.equations_of_motion([v, psi_dot, phi_dot], [u_psi, u_phi])
    assert equal(q_dot, X_1 * v + X_2 * psi_dot + X_3 * phi_dot)
    forward = L * cos(PHI) * v + J_R / (M * L) * cos(PHI) * sin(PHI) * psi_dot
    turning = -sin(PHI) * v - J_R / (M * L**2) * sin(PHI) ** 2 * psi_dot
    assert equal(q_dot, forward * V_X + turning * D_THETA + psi_dot * D_PSI + phi_dot * D_PHI)
    rate = M * L**2 * cos(PHI) * v * phi_dot + J_R * sin(PHI) * cos(PHI) * psi_dot * phi_dot
    rate += M * L**2 / J_R * u_psi
    assert equal(v_dot, [-J_R / (M * L**2) * cos(PHI) * phi_dot * psi_dot, rate / RIGHT, u_phi / J_W])


def test_coriolis_matrix_is_skew_up_to_the_rate_of_the_metric():
    v = SYSTEM.velocities()
    G, C = Matrix(SYSTEM.reduced_metric()), Matrix(SYSTEM.coriolis_matrix())
    q_dot, v_dot = SYSTEM.equations_of_motion(u=[0, 0])
    rate = sum((diff(G, x) * x_dot for x, x_dot in zip(SYSTEM.coordinates, q_dot, strict=True)), 0 * G)
    assert equal(rate, C + C.T)
    assert equal(C @ v, -G @ Matrix(v_dot))


# --- section 6.1 ------------------------------------------------------------------------------------------


def test_symmetric_products():
    e = np.eye(3, dtype=int)
    assert not nonzero(SYSTEM.symmetric_product(e[1], e[1]))
    assert not nonzero(SYSTEM.symmetric_product(e[2], e[2]))
    mixed = SYSTEM.symmetric_product(e[1], e[2])  # one Gamma each way, no factor of two
    assert equal(mixed, [J_R * cos(PHI) / (M * L**2), -J_R * cos(PHI) * sin(PHI) / RIGHT, 0])
    span = Matrix([e[1].tolist(), e[2].tolist(), mixed.tolist()])
    assert vanishes(span.det() - J_R * cos(PHI) / (M * L**2))  # span D where cos phi != 0


def test_brackets_and_determinant():
    first = SYSTEM.bracket(X_1.flat(), X_3.flat())
    second = SYSTEM.bracket(X_1.flat(), first)
    assert equal(first, L * sin(PHI) * V_X + cos(PHI) * D_THETA)
    assert equal(second, -L * V_Y)  # print: -l sin(phi) V_y
    columns = Matrix.hstack(X_1, X_2, X_3, Matrix(first), Matrix(second))
    assert vanishes(columns.det() - L**2)  # as printed; the printed bracket would give l^2 sin(phi)
    columns[:, 4] = -L * sin(PHI) * V_Y
    assert vanishes(columns.det() - L**2 * sin(PHI))


# --- section 3.3: symmetry --------------------------------------------------------------------------------


def test_invariance_under_motions_of_the_plane_and_turns_of_the_rotor():
    a, b, alpha, beta = symbols("a b alpha beta", real=True)
    turned = [X * cos(alpha) - Y * sin(alpha) + a, X * sin(alpha) + Y * cos(alpha) + b, THETA + alpha]
    residuals = symbolic.invariance(SYSTEM, [*turned, PSI + beta, PHI])
    assert set(residuals) == {"metric", "basis", "forms", "inputs", "coefficients", "input_coefficients"}
    assert not any(nonzero(array) for array in residuals.values())
    steered = symbolic.invariance(SYSTEM, [X, Y, THETA, PSI, PHI + beta])  # the wheels' angle matters
    assert nonzero(steered["basis"]) and nonzero(steered["forms"]) and nonzero(steered["coefficients"])


# --- numbers ----------------------------------------------------------------------------------------------


def hand_derived(q):
    """The symbols by hand, (3, 3, 3)."""
    m, l, J = VALUES["m"], VALUES["l"], VALUES["J_r"]  # noqa: E741
    s, c = np.sin(q[4]), np.cos(q[4])
    Gamma = np.zeros((3, 3, 3))
    Gamma[0, 2, 1] = J * c / (m * l**2)
    Gamma[1, 2, 0] = -m * l**2 * c / (m * l**2 - J * s**2)
    Gamma[1, 2, 1] = -J * s * c / (m * l**2 - J * s**2)
    return Gamma


def test_symbolic_numeric_hand_derived_and_multipliers_agree(rng):
    q = rng.uniform(-3.0, 3.0, size=(6, 5))
    Gamma, covectors = np.asarray(SYSTEM.numeric().connection.coefficients(q)), np.eye(5)[3:]
    closed = by_multipliers.closed_form(SYSTEM, SYSTEM.constrained_coefficients(), q)
    Y = by_multipliers.closed_form(SYSTEM, SYSTEM.input_coefficients(), q)
    np.testing.assert_allclose(closed, Gamma, atol=1e-10)
    for p, found, push in zip(q, Gamma, Y, strict=True):
        np.testing.assert_allclose(hand_derived(p), found, atol=1e-10)
        np.testing.assert_allclose(by_multipliers.coefficients(MASS, wheels, fields, p), found, atol=1e-10)
        np.testing.assert_allclose(
            by_multipliers.input_coefficients(MASS, wheels, fields, p, covectors), push, rtol=1e-10, atol=1e-9
        )
    wrong = np.array([hand_derived(p * [1, 1, 1, 1, -1]) for p in q])  # control
    assert np.abs(wrong - Gamma).max() > 0.1


def test_the_forms_alone_give_the_same_connection(rng):
    """Lemma 3.1 of the forms, differentiated along the closed-form fields."""
    q = rng.uniform(-1.2, 1.2, size=(4, 5))
    full = jax.jit(SYSTEM.with_basis(None).numeric().connection.full.coefficients_at)
    for p, Gamma in zip(q, map(np.asarray, map(full, q)), strict=True):
        expected = np.einsum("ak,kij->aij", fields(p), hand_derived(p))
        np.testing.assert_allclose(
            by_multipliers.derivatives_of_fields(Gamma, fields, p), expected, atol=1e-10
        )


def test_the_oblique_basis_of_section_4_1(rng):
    system = SYSTEM.with_basis(Matrix.hstack(X_1, D_PSI, D_PHI))
    q = rng.uniform(-3.0, 3.0, size=(4, 5))
    found = list(map(jax.jit(system.numeric().connection.coefficients_at), q))
    closed = by_multipliers.closed_form(system, system.constrained_coefficients(), q)
    np.testing.assert_allclose(closed, found, atol=1e-10)
    for p, Gamma in zip(q, found, strict=True):
        np.testing.assert_allclose(by_multipliers.coefficients(MASS, wheels, oblique, p), Gamma, atol=1e-10)
    with pytest.raises(cn.checks.FrameError, match="X_0 and X_1 are not orthogonal: .*sin"):
        system.constrained_coefficients(route="orthogonal")


def test_the_constraints_lose_rank_where_the_wheels_stand_across():
    """[Z]'s fields stay regular at cos(phi) = 0, where both forms say the same."""
    q = np.array([0.1, 0.2, 0.3, 0.4, np.pi / 2])
    assert np.linalg.matrix_rank(wheels(q)) == 1 and np.linalg.matrix_rank(fields(q)) == 3
    with pytest.raises(cn.checks.ConstraintError, match=r"lost rank \(1 of 2 are independent\) at q = \[0.1"):
        SYSTEM.numeric().connection.explain(q)


def test_parameters_are_replaced_by_name_or_symbol():
    light = SYSTEM.numeric({"J_r": 0.01})
    assert light is SYSTEM.numeric({J_R: 0.01}) and light is not SYSTEM.numeric()
    assert light.connection.ambient_metric.H[2, 3] == 0.01
    with pytest.raises(ValueError, match="^parameters: 'J' .* m, l, J_r, J_w"):
        SYSTEM.numeric({"J": 1.0})
    with pytest.raises(cn.checks.NonFiniteError, match=r"^parameters\[m\]"):
        SYSTEM.numeric({"m": np.inf})
    assert Symbol("J_r", positive=True) in SYSTEM.parameters
