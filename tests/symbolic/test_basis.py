"""One basis for closed forms and numbers: the same components are the same motion."""

from functools import cache

import by_multipliers
import jax
import numpy as np
import pytest
import sympy
from cases import always, further
from scipy.integrate import solve_ivp
from sympy import Matrix, cos, sin, symbols

import connections as cn
from connections import symbolic, systems
from connections.symbolic import SymbolicSystem

X, Y, Z = symbols("x y z", real=True)
A = symbols("a", positive=True)

ONE_FORM = SymbolicSystem(
    (X, Y, Z),
    sympy.diag(1, 2, 3),
    forms=[[cos(X), Y, 1]],
    inputs=[[1, 0, 0], [0, X, 1]],
    potential=X * Y + sin(Z),
)
CURVED = SymbolicSystem(
    (X, Y, Z),
    Matrix([[2, 0, X], [0, 1, 0], [X, 0, 3]]),
    frame=Matrix([[1, 0, 0], [Z, 1, 0], [Y, 0, 1]]),
    forms=[[Y, A * X, 1]],
    inputs=[[1, Z, 0]],
    potential=A * Y**2,
    parameters={A: sympy.Rational(1, 2)},
)
ONE_FIELD = SymbolicSystem(
    (X, Y, Z), sympy.diag(1, 2, 3), forms=[[cos(X), Y, 1], [Z, 2, X]], inputs=[[1, 0, 0]]
)
SPANNED = SymbolicSystem(  # a basis and no forms
    (X, Y, Z), sympy.diag(1, 2, 3), basis=[[1, Y], [X, 1], [0, 1]], inputs=[[0, 0, 1]]
)
OWN = {"one form": ONE_FORM, "curved": CURVED, "one field": ONE_FIELD, "spanned": SPANNED}
PRINTED = ", printed"  # with the basis of the paper
PUBLISHED = [name for name in systems.NAMES if name != "planar_body"]
SYSTEMS = [*OWN, *PUBLISHED, *(name + PRINTED for name in PUBLISHED)]
SOME = ("one form", "snakeboard")


@cache
def system_of(name):
    if name in OWN:
        return OWN[name]
    made = systems.NAMES[name.removesuffix(PRINTED)]()
    return made if name.endswith(PRINTED) else made.with_basis(None)


def closed(system, array, q):
    """The numbers of an array of expressions at a point, by NumPy."""
    return by_multipliers.closed_form(system, array, q)


@pytest.mark.parametrize("name", always(SYSTEMS, *SOME))
def test_closed_forms_and_numbers_have_one_basis(name, rng):
    """Velocity, coefficients, input coefficients and accelerations of the same components."""
    system = system_of(name)
    numeric = system.numeric()
    u = rng.normal(size=len(system.inputs))
    symbols_v = system.velocities()
    motion = system.equations_of_motion(symbols_v, [sympy.Float(value, 17) for value in u], simplify=None)
    q_dot, v_dot = (
        sympy.lambdify([*system.coordinates, *system.parameters, *symbols_v], list(rate)) for rate in motion
    )
    Gamma, Y_inputs = system.constrained_coefficients(None), system.input_coefficients(None, None)

    def at(q, v):
        nabla = numeric.connection
        G = nabla.metric.matrix_at(q)
        push = jax.numpy.linalg.solve(G, (numeric.inputs_at(q) @ nabla.basis_at(q)).T)
        return (
            numeric.velocity_at(q, v),
            numeric.frame.matrix_at(q) @ v,
            nabla.coefficients_at(q),
            push,
            numeric.forward_dynamics_at(q, v, u),
        )

    compiled, values = jax.jit(at), system.parameter_values().values()
    for _ in range(4):
        q, v = rng.uniform(0.3, 1.2, size=len(system.coordinates)), rng.normal(size=system.dim)
        assert numeric.valid_at(q)
        expected = [
            closed(system, system.distribution, q) @ v,
            q_dot(*q, *values, *v),
            closed(system, Gamma, q),
            closed(system, Y_inputs, q),
            v_dot(*q, *values, *v),
        ]
        for found, wanted in zip(compiled(q, v), expected, strict=True):
            np.testing.assert_allclose(
                found, wanted, rtol=1e-12, atol=1e-12 * np.max(np.abs(wanted), initial=0.0)
            )
        np.testing.assert_allclose(numeric.velocity(q, v), expected[0], rtol=1e-12)


def test_the_components_of_a_velocity():
    """By hand: x' = -(y v1 + v2) / cos x, y' = v1, z' = v2."""
    q, v = np.array([0.3, -0.4, 0.5]), np.array([0.7, -0.3])
    x_dot = -(-0.4 * 0.7 - 0.3) / np.cos(0.3)
    np.testing.assert_allclose(ONE_FORM.numeric().velocity(q, v), [x_dot, 0.7, -0.3], rtol=1e-14)
    other = np.asarray(ONE_FORM.numeric(basis="orthonormal").velocity(q, v))
    np.testing.assert_allclose(other @ np.diag([1.0, 2.0, 3.0]) @ other, v @ v, rtol=1e-12)
    assert np.max(np.abs(other - [x_dot, 0.7, -0.3])) > 0.5


def test_accelerations_are_those_of_the_multiplier_equations(rng):
    """d/dt (A v) of the numeric system against M qddot = F + W^T lambda."""
    numeric, M = ONE_FORM.numeric(), np.diag([1.0, 2.0, 3.0])

    def forms(q):
        return np.array([[np.cos(q[0]), q[1], 1.0 + 0.0 * q[0]]])

    def basis(q):
        return np.array([[-q[1] / np.cos(q[0]), -1.0 / np.cos(q[0])], [1.0, 0.0], [0.0, 1.0]])

    for _ in range(3):
        q, v, u = rng.uniform(-1.2, 1.2, size=3), rng.normal(size=2), rng.normal(size=2)
        q_dot, v_dot = np.asarray(numeric.velocity(q, v)), np.asarray(numeric.forward_dynamics(q, v, u))
        found = basis(q) @ v_dot + by_multipliers.slope(basis, q, q_dot) @ v
        force = np.array([u[0] - q[1], u[1] * q[0] - q[0], u[1] - np.cos(q[2])])
        expected, _ = by_multipliers.acceleration(M, forms, q, q_dot, force)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.further
def test_a_motion_of_the_equations_is_the_motion_of_the_numbers():
    """What was designed on the closed forms moves the numeric system: initial velocity and feedback."""
    gain = np.array([[1.3, -0.2], [0.4, 0.8]])
    v1, v2 = v = ONE_FORM.velocities()
    q_dot, v_dot = ONE_FORM.equations_of_motion(v, list(-gain @ np.array([v1, v2])), simplify=None)
    rates = sympy.lambdify([(X, Y, Z, v1, v2)], [*q_dot, *v_dot])
    start, times = np.array([0.3, -0.4, 0.5, 0.7, -0.3]), np.linspace(0.0, 0.4, 3)
    wanted = solve_ivp(
        lambda t, state: rates(state), (0.0, 0.4), start, "DOP853", times, rtol=1e-12, atol=1e-12
    ).y.T
    feedback = lambda t, q, speed: -gain @ speed  # noqa: E731
    q, speed = ONE_FORM.numeric().simulate(start[:3], start[3:], times, feedback)
    np.testing.assert_allclose(np.hstack([q, speed]), wanted, atol=1e-8)
    other, _ = ONE_FORM.numeric(basis="orthonormal").simulate(start[:3], start[3:], times, feedback)
    assert np.max(np.abs(other - wanted[:, :3])) > 0.1  # control: the same components are another motion


# --- where the basis is singular --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "singular", "divisor"),
    [
        ("one form", [np.pi / 2, -0.4, 0.5], r"velocity 1 .* cos\(x\) = 6.1e-17"),
        ("one form", [np.pi / 2, 0.0, 0.5], r"velocity 1 .* cos\(x\) = 6.1e-17"),
        ("one field", [np.pi / 2, 0.0, 0.5], r"velocity 1, 2 .* 2\*cos\(x\) = 1.2e-16"),
        further("roller_racer", [0.1, 0.2, 0.3, 0.0], r"velocity 1, 2 .* sin\(psi\) = 0"),
        further("snakeboard", [0.1, 0.2, 0.3, 0.4, 0.0], r"velocity 1, 2 .* 2\*sin\(phi\)\*cos\(phi\) = 0"),
        further("heisenberg_particle", [0.1, 0.0, 0.3], "velocity 1 .* -y = "),
    ],
)
def test_a_singular_basis_says_so_and_names_another(name, singular, divisor):
    system, q = system_of(name), np.array(singular)
    with pytest.raises(cn.checks.FrameError, match=divisor) as caught:
        system.numeric().connection.coefficients(q)
    message = str(caught.value)
    assert f"the constraints keep rank {len(system.forms)}: the basis is singular, not the system" in message
    assert 'numeric(basis="orthonormal")' in message and "at q = [" in message
    regular = system.numeric(basis="orthonormal")
    v = np.linspace(0.4, 0.9, system.dim)
    velocity = np.asarray(regular.velocity(q, v))
    W = closed(system, system.forms, q)
    np.testing.assert_allclose(W @ velocity, 0.0, atol=1e-12)
    np.testing.assert_allclose(
        2.0 * regular.energy(q, v) - 2.0 * regular.reduced.potential_at(q), v @ v, rtol=1e-12
    )
    assert np.isfinite(regular.connection.coefficients(q)).all()


def test_the_connection_on_everything_needs_no_basis():
    """Lemma 3.1 from the forms: regular where the null basis is not, and the same in both systems."""
    q = np.array([np.pi / 2, -0.4, 0.5])
    full = np.asarray(ONE_FORM.numeric().connection.full.coefficients(q))
    other = np.asarray(ONE_FORM.numeric(basis="orthonormal").connection.full.coefficients(q))
    np.testing.assert_allclose(full, other, rtol=1e-12, atol=1e-12)
    assert np.abs(full).max() > 0.1


@pytest.mark.further
@pytest.mark.parametrize("unit", always([1e-9, 1e-6, 1e3, 1e6, 1e9], 1e-9))
@pytest.mark.parametrize("basis", ["printed", further("symbolic"), further("orthonormal")])
def test_units_of_length_change_nothing_but_numbers(unit, basis):
    """The snakeboard in other units, kg kept: velocities, coefficients and errors scale with them."""
    values = {"m": 6.0, "l": 0.2 * unit, "J_r": 0.072 * unit**2, "J_w": 0.0012 * unit**2}
    system = systems.snakeboard() if basis == "printed" else system_of("snakeboard")
    keyword = {"basis": "orthonormal"} if basis == "orthonormal" else {}
    numeric, plain = system.numeric(values, **keyword), system.numeric(**keyword)
    lengths = np.array([unit, unit, 1.0, 1.0, 1.0])
    fields = {"printed": np.ones(3), "symbolic": np.ones(3), "orthonormal": np.full(3, 1.0 / unit)}[basis]
    q, v = np.array([0.1, 0.2, 0.3, 0.4, 0.5]), np.array([0.7, -0.3, 0.2])
    expected = lengths * np.asarray(plain.velocity(q, v))  # fields of length one get shorter as units grow
    found = np.asarray(numeric.velocity(lengths * q, v / fields))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected[0]))
    W = closed(systems.snakeboard(), systems.snakeboard().forms, q)
    np.testing.assert_allclose(W @ (found / lengths), 0.0, atol=1e-13)
    Gamma = np.asarray(plain.connection.coefficients(q))
    scaled = np.asarray(numeric.connection.coefficients(lengths * q)) / fields[:, None, None]
    np.testing.assert_allclose(scaled, Gamma, rtol=1e-9, atol=1e-9 * np.abs(Gamma).max())
    if basis == "symbolic":
        with pytest.raises(cn.checks.FrameError, match="the basis is singular"):
            numeric.velocity(lengths * q * [1.0, 1.0, 1.0, 1.0, 1e-8], v)
    across = lengths * np.array([0.1, 0.2, 0.3, 0.4, np.pi / 2])
    with pytest.raises(cn.checks.ConstraintError, match="the constraints lost rank"):
        numeric.velocity(across, v)


def test_a_parameter_can_make_the_basis_singular_everywhere():
    system = SymbolicSystem((X, Y, Z), sympy.eye(3), forms=[[A, Y, 1]], parameters={A: 1.0})
    q, v = np.array([0.3, 0.4, 0.5]), np.array([1.0, 2.0])
    np.testing.assert_allclose(system.numeric({"a": 2.0}).velocity(q, v), [-1.2, 1.0, 2.0], rtol=1e-14)
    with pytest.raises(cn.checks.FrameError, match=r"divides by a = 0.0e\+00"):
        system.numeric({"a": 0.0}).velocity(q, v)


@pytest.mark.further
def test_a_printed_basis_offers_the_orthonormal_one():
    racer, q = systems.roller_racer(), np.array([0.3, -0.2, 0.7, np.pi])
    equal = {"l_1": 0.4, "l_2": 0.4}  # X_1 is infinite at psi = pi
    with pytest.raises(
        cn.checks.FrameError, match=r'not the system, so .*numeric\(basis="orthonormal"\) at q'
    ):
        racer.numeric(equal).velocity(q, [1.0, 1.0])
    assert np.isfinite(racer.numeric(equal, basis="orthonormal").velocity(q, [1.0, 1.0])).all()


@pytest.mark.further
def test_the_orthonormal_basis_is_another_object(rng):
    """Of the forms where there are any, by Gram-Schmidt of the basis where there are none."""
    for name in ("one form", "roller_racer, printed", "spanned"):
        system = system_of(name)
        q = rng.uniform(0.3, 1.2, size=len(system.coordinates))
        plain, other = system.numeric(), system.numeric(basis="orthonormal")
        assert plain is system.numeric(basis="symbolic") and plain is not other
        assert other is system.numeric(basis="orthonormal")
        np.testing.assert_allclose(other.metric.matrix(q), np.eye(system.dim), atol=1e-12)
        assert np.max(np.abs(np.asarray(plain.metric.matrix(q)) - np.eye(system.dim))) > 1e-2
        P, A_q = np.asarray(plain.connection.projection(q)), np.asarray(other.connection.basis(q))
        np.testing.assert_allclose(P @ A_q, A_q, atol=1e-12)  # the same distribution


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="^basis: .*best"):
        ONE_FORM.numeric(basis="best")
    with pytest.raises(ValueError, match="planar rigid body with a thruster has no constraints"):
        systems.planar_body().numeric(basis="orthonormal")
    distribution = ONE_FORM.numeric().connection.distribution
    metric = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    with pytest.raises(TypeError, match="a Distribution has its own forms, and the same metric"):
        cn.ConstrainedConnection(metric, distribution)


@pytest.mark.further
def test_a_computed_basis_is_not_invariant_for_nothing():
    """Lemma 3.3 needs an invariant basis: the one computed from invariant forms is none, and is listed."""
    theta, m, a, b, alpha = symbols("theta m a b alpha", real=True)
    skate = SymbolicSystem((X, Y, theta), sympy.diag(m, m, 1), forms=[[-sin(theta), cos(theta), 0]])
    moved = [X * cos(alpha) - Y * sin(alpha) + a, X * sin(alpha) + Y * cos(alpha) + b, theta + alpha]
    left = {name: symbolic.nonzero(array) for name, array in symbolic.invariance(skate, moved).items()}
    assert not left["metric"] and not left["forms"]
    assert left["basis"] and left["coefficients"]
    straight = skate.with_basis([[cos(theta), 0], [sin(theta), 0], [0, 1]])
    assert not any(symbolic.nonzero(array) for array in symbolic.invariance(straight, moved).values())
