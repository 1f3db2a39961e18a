"""Symbolic systems in general: tensors, frames, the constrained connection by all routes, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from sympy import Matrix, Rational, cos, eye, sin, symbols

import connections as cn
from connections.checks import MetricError
from connections.symbolic import SymbolicSystem, entries_latex, nonzero, vanishes

X, Y, Z = symbols("x y z", real=True)
A, B, J = symbols("a b J", positive=True)


def equal(found, expected):
    return all(vanishes(a - b) for a, b in zip(np.ravel(found), np.ravel(expected), strict=True))


# --- Riemannian geometry ----------------------------------------------------------------------------------


def test_sphere():
    theta, phi = symbols("theta phi", real=True)
    sphere = SymbolicSystem((theta, phi), sympy.diag(1, sin(theta) ** 2))
    Gamma = sphere.coefficients()
    cot = cos(theta) / sin(theta)
    assert nonzero(Gamma).keys() == {(0, 1, 1), (1, 0, 1), (1, 1, 0)}
    assert equal(Gamma, [[[0, 0], [0, -sin(theta) * cos(theta)]], [[0, cot], [cot, 0]]])
    R = sphere.curvature_of(Gamma)
    assert equal(R, sphere.curvature())  # without constraints the distribution is everything
    assert vanishes(R[0, 1, 0, 1] - sin(theta) ** 2) and vanishes(R[1, 0, 0, 1] + 1)
    assert not nonzero(sphere.torsion(Gamma)) and not nonzero(sphere.contorsion(Gamma))
    flat = np.zeros((2, 2, 2), dtype=int)
    assert equal(sphere.contorsion(flat), sphere.christoffel_symbols())


def body_frame(theta):
    return Matrix([[cos(theta), -sin(theta), 0], [sin(theta), cos(theta), 0], [0, 0, 1]])


def test_a_body_in_an_ideal_fluid_obeys_euler_and_poincare():
    """a udot = b w omega, b wdot = -a u omega, J omegadot = (a - b) u w, in the frame of the body's axes."""
    theta = symbols("theta", real=True)
    body = SymbolicSystem(
        (X, Y, theta), sympy.diag(A, B, J), frame=body_frame(theta), parameters={A: 1, B: 2, J: 3}
    )
    s = body.structure_functions()
    assert nonzero(s) == {(0, 1, 2): 1, (0, 2, 1): -1, (1, 0, 2): -1, (1, 2, 0): 1}
    u, w, omega = v = symbols("u w omega")
    q_dot, v_dot = body.equations_of_motion(v)
    assert equal(q_dot, body_frame(theta) * Matrix(v))
    assert equal(v_dot, [B * w * omega / A, -A * u * omega / B, (A - B) * u * w / J])
    assert not nonzero(body.torsion(body.coefficients()))
    # The connection that makes the frame parallel has the torsion -s and no curvature.
    parallel = np.zeros((3, 3, 3), dtype=int)
    assert equal(body.torsion(parallel), -s) and not nonzero(body.curvature_of(parallel))
    numeric, q = body.numeric(), np.array([0.1, 0.2, 0.3])
    assert isinstance(numeric, cn.MechanicalSystem)
    assert isinstance(numeric.metric, cn.ConstantMetric)
    found = jax.jit(numeric.metric.frame.matrix_at)(q)
    np.testing.assert_allclose(found, np.array(body_frame(0.3), dtype=float))
    assert found.dtype == np.float64


def test_more_coordinates_than_velocities():
    x, y, z, w = q = symbols("x y z w", real=True)
    frame = Matrix([[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]]) / 2  # body angular velocity
    body = SymbolicSystem(q, sympy.diag(A, B, J), frame=frame)
    assert equal(
        body.structure_functions(),
        [[[sympy.LeviCivita(i, j, k) for j in range(3)] for i in range(3)] for k in range(3)],
    )
    omega = Matrix(body.velocities())
    _, rate = body.equations_of_motion(omega)
    inertia = sympy.diag(A, B, J)
    assert equal(inertia * Matrix(rate), -omega.cross(inertia * omega))  # Euler's equations


def test_potential_and_inputs_without_constraints():
    angle = symbols("alpha", real=True)
    m, l, g = symbols("m l g", positive=True)  # noqa: E741
    pendulum = SymbolicSystem(
        (angle,),
        [[m * l**2]],
        inputs=[[1]],
        potential=-m * g * l * cos(angle),
        parameters={m: 2, l: 0.5, g: 9.81},
    )
    _, rate = pendulum.equations_of_motion([0], [1])
    assert equal(rate, [1 / (m * l**2) - g / l * sin(angle)])
    numeric = pendulum.numeric()
    assert isinstance(numeric, cn.MechanicalSystem)
    np.testing.assert_allclose(numeric.potential_at(np.array([0.3])), -9.81 * np.cos(0.3))


# --- the constrained connection ---------------------------------------------------------------------------


CURVED = SymbolicSystem(
    (X, Y, Z),
    Matrix([[2, 0, X], [0, 1, 0], [X, 0, 3]]),
    frame=Matrix([[1, 0, 0], [Z, 1, 0], [Y, 0, 1]]),
    forms=Matrix([[-Y, A * X, 1]]),
    parameters={A: Rational(1, 2)},
)


def at(array):
    """The numbers of an array of expressions at one point."""
    point = {X: sympy.Float(0.3), Y: sympy.Float(-0.4), Z: sympy.Float(0.5), A: sympy.Float(0.5)}
    return np.array([float(sympy.sympify(entry).xreplace(point)) for entry in array.flat]).reshape(
        array.shape
    )


def test_a_constrained_system_is_what_the_numeric_classes_compute():
    """A metric, a frame and a form without any symmetry; the basis is computed from the form."""
    system, q = CURVED, np.array([0.3, -0.4, 0.5])
    nabla = system.with_basis(system.distribution).numeric().connection

    def numeric(p):
        s = nabla.frame.structure_functions_at(p)
        return nabla.coefficients_at(p), nabla.full.coefficients_at(p), nabla.nonintegrability_at(p), s

    symbolic = (
        system.constrained_coefficients(None),
        system.full_coefficients(None),
        system.nonintegrability(None),
        system.projected_structure_functions(None),
    )
    for array, values in zip(symbolic, jax.jit(numeric)(q), strict=True):
        assert np.abs(values).max() > 1e-2
        np.testing.assert_allclose(at(array), values, atol=1e-12)


def test_curvatures():
    """That of Lemma 3.1's connection, contracted; Schouten's changes with the basis as a tensor does."""
    frame = Matrix([[1, 0, 0], [0, 1, 0], [X, 0, 1]])
    system = SymbolicSystem((X, Y, Z), sympy.diag(2, 1, 3), frame=frame, forms=[[-Y, 0, 1]])
    V, R = at(system.distribution), at(system.curvature_of(system.full_coefficients(None), None))
    contracted = np.einsum("LKIJ,Kk,Ii,Jj->Lkij", R, V, V, V)
    np.testing.assert_allclose(
        np.einsum("al,lkij->akij", V, at(system.curvature(None))), contracted, atol=1e-12
    )
    change = np.array([[1, 0], [0, Y]], dtype=object)
    changed, M = system.with_basis(system.distribution @ change), at(change)
    K, K_changed = at(system.schouten_curvature(None)), at(changed.schouten_curvature(None))
    expected = np.einsum("lmno,mk,ni,oj->lkij", K, M, M, M)
    np.testing.assert_allclose(np.einsum("lp,pkij->lkij", M, K_changed), expected, atol=1e-12)
    assert np.abs(K).max() > 0.1 and np.abs(K - at(system.curvature(None))).max() > 0.1  # two, not one
    numbers = system.with_basis(system.distribution).numeric().connection
    np.testing.assert_allclose(K, numbers.schouten_curvature(np.array([0.3, -0.4, 0.5])), atol=1e-12)


def test_routes_agree():
    """Gram matrix, Lemma 3.1, and norms in an orthogonal basis; projections of forms and of the basis."""
    system = CURVED
    orthogonal = system.with_basis(system.orthogonal_basis())
    pairs = [
        (system.constrained_coefficients(None), system.constrained_coefficients(None, route="projection")),
        (
            orthogonal.constrained_coefficients(None),
            orthogonal.constrained_coefficients(None, route="orthogonal"),
        ),
        (system.projection(None, of_forms=True), system.projection(None, of_forms=False)),
    ]
    for first, second in pairs:
        np.testing.assert_allclose(at(first), at(second), atol=1e-12)
        assert np.abs(at(first)).max() > 1e-2
    with pytest.raises(ValueError, match="^route: .*best"):
        system.constrained_coefficients(route="best")


def test_lie_brackets_and_sections(rng):
    system = SymbolicSystem((X, Y, Z), eye(3), forms=[[-Y, 0, 1]], basis=[[1, 0], [0, 1], [Y, 0]])
    E = system.fields
    assert equal(system.bracket(E[:, 0], E[:, 1]), [0, 0, -1])
    # <f X : g Y> follows from Leibniz' rule.
    f, g = X**2 + Z, sin(Y)
    plain = system.symmetric_product([1, 0], [0, 1])
    along = [Matrix([h]).jacobian([X, Y, Z]) for h in (f, g)]
    expected = f * g * plain + np.array(
        [g * (along[0] * Matrix(E[:, 1]))[0], f * (along[1] * Matrix(E[:, 0]))[0]]
    )
    assert equal(system.symmetric_product([f, 0], [0, g]), expected)
    assert equal(
        system.covariant_derivative([f, 0], [0, g]) + system.covariant_derivative([0, g], [f, 0]), expected
    )


# --- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"metric": eye(2)}, cn.checks.ShapeError, r"metric: expected shape \(3, 3\), got \(2, 2\)"),
        (
            {"metric": [[1, 0, 0], [0, 1], [0, 0, 1]]},
            cn.checks.ShapeError,
            r"metric: expected shape \(3, 3\), got \(3,\)",
        ),
        (
            {"metric": Matrix([[1, X, 0], [0, 1, 0], [0, 0, 1]])},
            cn.checks.MetricError,
            r"H\[0, 1\] = x, H\[1, 0\] = 0",
        ),
        ({"metric": [["x", 0, 0], [0, 1, 0], [0, 0, 1]]}, TypeError, "metric: 'x' is not an expression"),
        ({"frame": eye(2)}, cn.checks.ShapeError, r"frame: expected shape \(3, k\)"),
        (
            {"frame": Matrix([[1, X, 2 * X], [0, 1, 2], [0, Y, 2 * Y]])},
            cn.checks.FrameError,
            "frame has rank 2 of 3",
        ),
        ({"basis": [[1], [0]]}, cn.checks.ShapeError, r"basis: expected shape \(3, k\), got \(2, 1\)"),
        ({"basis": [[1, X], [0, 0], [0, 0]]}, cn.checks.FrameError, "basis has rank 1 of 2"),
        ({"forms": [[1, 0]]}, cn.checks.ShapeError, r"forms: expected shape \(k, 3\)"),
        ({"forms": [[1, Y, 0], [X, X * Y, 0]]}, cn.checks.ConstraintError, "constraints have rank 1 of 2"),
        ({"forms": eye(3)}, cn.checks.ConstraintError, "3 constraints leave no motion"),
        (
            {"forms": [[-Y, 0, 1]], "basis": [[1, 0], [0, 1], [X, 0]]},
            cn.checks.ConstraintError,
            r"form 0 of field 0 is x - y",
        ),
        (
            {"forms": [[-Y, 0, 1]], "basis": [[1], [0], [Y]]},
            cn.checks.ConstraintError,
            "the basis has 1 fields",
        ),
        ({"inputs": [[1, 0]]}, cn.checks.ShapeError, r"inputs: expected shape \(k, 3\)"),
        ({"parameters": {"a": 1.0}}, TypeError, "parameters: expected SymPy symbols as keys, got 'a'"),
        ({"parameters": {X: 1.0}}, ValueError, "parameters: x is a coordinate"),
        ({"parameters": {sympy.Symbol("x"): 1.0}}, ValueError, "same name"),
        ({"coordinates": ("x", "y", "z")}, TypeError, "coordinates: expected SymPy symbols"),
        ({"coordinates": (X, Y, X)}, ValueError, "not all different"),
    ],
)
def test_bad_definitions_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        SymbolicSystem(**({"coordinates": (X, Y, Z), "metric": eye(3)} | arguments))


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_units_decide_no_rank(unit):
    """A form and a frame with small or large numbers; dependent ones are still refused."""
    system = SymbolicSystem((X, Y, Z), eye(3), frame=sympy.diag(1, unit, 1), forms=[[unit * Y, 0, unit]])
    assert equal(system.distribution, [[0, -1 / Y], [1, 0], [0, 1]])
    with pytest.raises(cn.checks.ConstraintError, match="constraints have rank 1 of 2"):
        SymbolicSystem((X, Y, Z), eye(3), forms=[[unit * Y, 0, unit], [Y, 0, 1]])


def test_bad_requests_are_refused():
    system = SymbolicSystem((X, Y), sympy.diag(A, B), parameters={A: 1.0})
    with pytest.raises(ValueError, match="^parameters: .*b"):
        system.numeric()
    assert isinstance(system.numeric({"b": 2.0}), cn.MechanicalSystem)
    with pytest.raises(ValueError, match="J is neither a coordinate nor a parameter"):
        system.function([J * X], {"b": 2.0})
    with pytest.raises(ValueError, match="has no inputs"):
        system.input_coefficients()
    with pytest.raises(ValueError, match="the system has no forms"):
        system.with_basis(None)
    with pytest.raises(ValueError, match="the system has no forms"):
        system.projection(of_forms=True)
    with pytest.raises(cn.checks.ShapeError, match=r"v: expected shape \(2,\), got \(3,\)"):
        system.coriolis_matrix([1, 2, 3])
    with pytest.raises(cn.checks.ShapeError, match=r"^Gamma: expected shape \(2, 2, 2\)"):
        system.torsion(np.zeros((2, 2), dtype=int))
    with pytest.raises(ValueError, match="read-only"):
        system.metric[0, 0] = 1


def test_latex_lists_what_does_not_vanish():
    theta, phi = symbols("theta phi", real=True)
    text = SymbolicSystem((theta, phi), sympy.diag(A, A * sin(theta) ** 2)).latex()
    assert r"\Gamma^{0}_{11} &= - \sin{\left(\theta \right)}" in text
    assert r"\Gamma^{1}_{01} = \Gamma^{1}_{10} &= \frac{\cos" in text and text.count(r"\Gamma^{") == 3
    assert text.count(r"\begin{aligned}") == text.count(r"\end{aligned}") == 4
    assert r"\dot{v_{0}} &=" in text and "Y^" not in text
    assert r"\Gamma &= 0" in SymbolicSystem((X, Y), eye(2)).latex()


def test_latex_of_the_first_kind_counted_as_papers_do():
    theta, phi = symbols("theta phi", real=True)
    sphere = SymbolicSystem((theta, phi), sympy.diag(A, A * sin(theta) ** 2))
    text = sphere.latex(kind=1, first=1)
    assert r"\Gamma_{122} &= - A" not in text and r"\Gamma_{122} &= - a \sin" in text
    assert r"\Gamma_{212} = \Gamma_{221} &= a \sin" in text and r"\Gamma^" not in text
    assert r"\dot{v_{2}} &=" in text and "v_{0}" not in text
    with pytest.raises(ValueError, match="kind"):
        sphere.latex(kind=0)
    with pytest.raises(ValueError, match="first"):
        sphere.latex(first=2)


def test_entries_that_are_opposite_share_a_line():
    """Those of the torsion; equal ones of three lower indices; none of Y, whose lower index is one."""
    theta, phi = symbols("theta phi", real=True)
    sphere = SymbolicSystem((theta, phi), sympy.diag(A, A * sin(theta) ** 2))
    R = entries_latex("R", sphere.curvature_of(sphere.coefficients()), 1)
    assert R.count("=") == 4 and r"R^{0}_{101} = -R^{0}_{110} &= \sin^{2}" in R
    assert entries_latex("Y", np.array([[1, 2], [2, 0]], dtype=object), 1).count("=") == 3
    skew = np.array([[0, X + Y], [-X - Y, 0]], dtype=object)
    assert entries_latex("s", skew, 0).splitlines()[1:-1] == ["s_{01} = -s_{10} &= x + y"]
    assert entries_latex("s", skew + np.array([[0, 1], [0, 0]]), 0).count(r"\\") == 1  # control: two lines
    with pytest.raises(ValueError, match="upper"):
        entries_latex("s", skew, 3)


def test_without_constraints_no_entry_is_projected_and_raised_again():
    """With decimals nothing is simplified, and each detour would show: 1.1 kB became 6.2 kB."""
    metric = sympy.Matrix([[2 + 0.5 * Y**2, 0.3 * X], [0.3 * X, 1 + X**2]])
    system = SymbolicSystem((X, Y), metric)
    assert (system.constrained_coefficients() == system.coefficients()).all()
    entries = entries_latex(r"\Gamma", system.coefficients(), 1)
    assert entries in system.latex() and len(system.latex()) < 4 * len(entries)
    other = system.with_basis(eye(2) * 2)  # control: in another basis the coefficients are others
    assert (other.constrained_coefficients() != system.coefficients()).any()


def test_a_signature_is_handed_on():
    """Schwarzschild's space: its closed form in the numeric class, no matter, and tides 2 M / r^3."""
    t, r, theta, phi, M = sympy.symbols("t r theta phi M")
    f = 1 - 2 * M / r
    H = sympy.diag(-f, 1 / f, r**2, r**2 * sympy.sin(theta) ** 2)
    hole = SymbolicSystem((t, r, theta, phi), H, parameters={M: 1.0}, signature=(3, 1))
    nabla, q, e = hole.numeric_connection(), np.array([0.0, 6.0, 1.2, 0.3]), np.eye(4)
    assert nabla is hole.numeric_connection({"M": 1.0}) is not hole.numeric_connection({"M": 2.0})
    Gamma = hole.function(hole.coefficients())(jnp.asarray(q))
    np.testing.assert_allclose(nabla.coefficients(q), Gamma, atol=1e-14)
    assert np.abs(nabla.ricci(q)).max() < 1e-12
    assert nabla.sectional(q, e[0], e[1]) == pytest.approx(2.0 / 6.0**3, rel=1e-12)
    constant = SymbolicSystem((t, r), sympy.diag(-1, 1), signature=[1, 1])
    np.testing.assert_array_equal(constant.numeric_connection().coefficients([0.0, 1.0]), np.zeros((2, 2, 2)))
    for refused in (
        lambda: hole.numeric(),
        lambda: SymbolicSystem((t, r), sympy.diag(-1, 1), signature=(0, 2)).numeric_connection(),
        lambda: SymbolicSystem((t, r), sympy.diag(-1, 1)).numeric_connection().coefficients([0.0, 1.0]),
        lambda: SymbolicSystem((t, r), sympy.diag(-1, 1), forms=[[1, r]], signature=(1, 1)),
        lambda: SymbolicSystem((t, r), sympy.diag(-1, 1), basis=[[1], [1]], signature=(1, 1)),  # of light
    ):
        with pytest.raises(MetricError):
            refused()
    with pytest.raises(ValueError, match="^signature: "):
        SymbolicSystem((t, r), sympy.diag(-1, 1), signature=(2, 1))
