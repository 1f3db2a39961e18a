"""`audit_coriolis` tells Coriolis matrices apart, and says what it can and cannot tell."""

import html
import json
import pickle
from functools import partial
from itertools import combinations

import jax
import numpy as np
import oracles
import pytest
import systems

import connections as cn
from connections.checks import MetricError, NonFiniteError, PointError, ShapeError
from connections.coriolis.audit.audit import audit_coriolis
from connections.geometry import CoordinateFrame, MatrixFrame, ProductFrame, SE3Frame, SO3Frame

ALL = ("linear", "bias", "skew", "metric_compatible", "same_geodesics", "torsion_free")


def verdicts(report):
    return tuple(report.verdicts[name] == "holds" for name in ALL)


def rng():
    return np.random.default_rng(20)


# --- a quadruped by Pinocchio ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quadruped():
    robot = oracles.pinocchio_quadruped()
    q, v = robot.random_state(rng(), 2)
    return robot, ProductFrame(SE3Frame(), CoordinateFrame(12)), q, v


@pytest.mark.further
def test_pinocchio_is_riemannian(quadruped):
    robot, frame, q, v = quadruped
    report = audit_coriolis(robot.coriolis, robot.mass_matrix, frame, q, v)
    assert verdicts(report) == (True,) * 6, str(report)
    assert report.kind == "riemannian" and report.admissible
    assert "Christoffel-consistent" in report.summary
    assert report.contorsion.shape == (2, 18, 18, 18)
    assert np.abs(report.contorsion).max() < 1e-8
    assert np.abs(report.beta).max() < 1e-8
    assert report.derivative_noise < 1e-9


def test_family_member_is_recognized_and_beta_recovered(quadruped):
    robot, frame, q, v = quadruped
    i, j, k = 1, 7, 13
    triples = [(a, b, c) for a in range(18) for b in range(a + 1, 18) for c in range(b + 1, 18)]
    S = np.eye(18)[[i, j, k]]

    def beta_at(q):
        return 0.3 + 0.1 * q[9]

    def coriolis(q, v):
        return robot.coriolis(q, v) + beta_at(q) * S.T @ oracles.hat(S @ v) @ S

    report = audit_coriolis(coriolis, robot.mass_matrix, frame, q, v)
    assert verdicts(report) == (True, True, True, True, True, False), str(report)
    assert report.kind == "torsion" and report.admissible
    expected = np.zeros((2, len(triples)))
    expected[:, triples.index((i, j, k))] = [beta_at(x) for x in q]
    np.testing.assert_allclose(report.beta, expected, atol=1e-6)
    assert "beta_1_7_13" in report.summary
    np.testing.assert_allclose(report.contorsion[:, i, j, k], [-beta_at(x) for x in q], atol=1e-6)


def test_force_cross_factor_has_totally_antisymmetric_contorsion(quadruped):
    robot, frame, q, v = quadruped
    report = audit_coriolis(robot.coriolis_force_cross, robot.mass_matrix, frame, q, v)
    assert verdicts(report) == (True, True, True, True, True, False), str(report)
    D = report.contorsion
    assert np.abs(D).max() > 1e-3
    for axes in ((1, 2), (1, 3), (2, 3)):
        np.testing.assert_allclose(D, -np.swapaxes(D, *axes), atol=1e-9)
    # (v x*) I is not torsion-free: T_low = -2 D, of which the component that is off most is reported.
    assert np.isclose(2 * np.abs(D), report.checks["torsion_free"].residual, rtol=1e-6).any()


def test_wrong_coriolis_is_not_admissible(quadruped):
    robot, frame, q, v = quadruped
    report = audit_coriolis(lambda q, v: 1.01 * robot.coriolis(q, v), robot.mass_matrix, frame, q, v)
    assert verdicts(report) == (True, False, False, False, False, False), str(report)
    assert report.kind == "inadmissible" and not report.admissible
    assert report.beta is None and report.contorsion is not None


def test_the_remedy_of_a_connection_that_is_not_admissible(quadruped):
    """C_ik + D_ijk v^j, with the D that an audit measured, is the Riemannian C; C_ik + D_ikj v^j is not."""
    robot, frame, q, v = quadruped
    q, v = q[0], v[0]

    def coriolis(q, v):
        return 1.01 * robot.coriolis(q, v)

    report = audit_coriolis(coriolis, robot.mass_matrix, frame, q, v)
    assert "Remedy" in report.summary
    D, right = report.contorsion[0], robot.coriolis(q, v)
    scale = np.abs(right).max()
    np.testing.assert_allclose(coriolis(q, v) + np.einsum("ijk,j->ik", D, v), right, atol=1e-7 * scale)
    assert np.abs(coriolis(q, v) + np.einsum("ikj,j->ik", D, v) - right).max() > 1e-3 * scale
    admissible = audit_coriolis(robot.coriolis, robot.mass_matrix, frame, q, v)
    assert "Remedy" not in admissible.summary


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda r, f, q, v: audit_coriolis("C", r.mass_matrix, f, q, v), "coriolis"),
        (lambda r, f, q, v: audit_coriolis(lambda q: np.eye(18), r.mass_matrix, f, q, v), "coriolis"),
        (lambda r, f, q, v: audit_coriolis(r.coriolis, np.eye(18), f, q, v), "mass_matrix"),
        (lambda r, f, q, v: audit_coriolis(r.coriolis, r.mass_matrix, r, q, v), "frame"),
    ],
)
def test_arguments_of_the_wrong_type(quadruped, call, name):
    with pytest.raises(TypeError, match=name):
        call(*quadruped)


def test_wrong_velocity_order_is_found(quadruped):
    robot, frame, q, v = quadruped
    swap = np.concatenate([oracles.TWIST_ORDER, np.arange(6, 18)])
    H = lambda q: robot.mass_matrix(q)[np.ix_(swap, swap)]  # noqa: E731
    C = lambda q, v: robot.coriolis(q, v[swap])[np.ix_(swap, swap)]  # noqa: E731
    report = audit_coriolis(C, H, frame, q, v)
    assert not report.admissible and report.verdicts["bias"] == "fails"
    assert "components in its order" in report.summary


def test_transposed_or_last_index_pairing_is_not_skew(quadruped):
    """C_ij = Gamma_ijk v^k is right in a coordinate frame only ([W] (4) against (10))."""
    robot, frame, q, v = quadruped

    def coriolis(q, v):
        columns = [robot.coriolis(q, e) @ v for e in np.eye(18)]
        return np.stack(columns, axis=1)

    report = audit_coriolis(coriolis, robot.mass_matrix, frame, q, v)
    assert report.verdicts["bias"] == "holds"
    assert report.verdicts["metric_compatible"] == "fails"
    assert report.kind == "dynamics only"


# --- small systems ------------------------------------------------------------------------


def intro_mass_matrix(q):
    """A kinetic energy whose c(q, v) is (v1 v2, 0), the example of [W] I."""
    return np.array([[q[1], q[0] / 2], [q[0] / 2, 1.0]])


INTRO_Q = np.array([[0.3, 1.5], [-0.5, 2.0], [0.1, 0.9]])
INTRO_V = np.array([[0.7, -0.4], [1.2, 0.8], [-0.3, 0.5]])


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 1.0])
def test_introduction_pair(alpha):
    """alpha C_a + (1 - alpha) C_b always gives c; only alpha = 1/2 is skew: unique for n = 2 ([W] A2)."""

    def coriolis(q, v):
        return np.array([[alpha * v[1], (1 - alpha) * v[0]], [0.0, 0.0]])

    report = audit_coriolis(coriolis, intro_mass_matrix, CoordinateFrame(2), INTRO_Q, INTRO_V)
    riemannian = alpha == 0.5
    assert verdicts(report) == (True, True, riemannian, riemannian, True, riemannian)
    assert report.kind == ("riemannian" if riemannian else "dynamics only")
    # Gamma_112 = alpha of the other pairing: D_112 = 1/2 - Gamma_112, Gamma_112 = 1 - alpha.
    np.testing.assert_allclose(report.contorsion[:, 0, 0, 1], 0.5 - (1 - alpha), atol=1e-11)
    if riemannian:
        assert report.beta.shape == (3, 0)


def point_mass(q):
    return np.eye(3)


@pytest.mark.parametrize("beta", [-5.0, 1e-6, 0.0, 2.5])
def test_point_mass_family(beta):
    generator = rng()
    q, v = generator.standard_normal((2, 4, 3))
    report = audit_coriolis(lambda q, v: beta * oracles.hat(v), point_mass, CoordinateFrame(3), q, v)
    assert report.kind == ("torsion" if beta else "riemannian")
    np.testing.assert_allclose(report.beta, np.full((4, 1), beta), atol=1e-12)


def test_on_the_rotation_group_beta_one_half_is_flat_and_found():
    generator = rng()
    q, v = oracles.random_quaternion(generator, 3), generator.standard_normal((3, 3))
    report = audit_coriolis(lambda q, v: 1.0 * oracles.hat(v), point_mass, SO3Frame(), q, v)
    np.testing.assert_allclose(report.beta, 0.5, atol=1e-12)
    zero = audit_coriolis(lambda q, v: 0.0 * oracles.hat(v), point_mass, SO3Frame(), q, v)
    np.testing.assert_allclose(zero.beta, -0.5, atol=1e-12)
    half = audit_coriolis(lambda q, v: 0.5 * oracles.hat(v), point_mass, SO3Frame(), q, v)
    assert half.kind == "riemannian"


def test_four_kinds_of_figure_3():
    """Antisymmetric in (1,2,3), in (2,3) only, in (1,3) only, in neither."""
    generator = rng()
    q, v = generator.standard_normal((2, 3, 3))
    X = generator.standard_normal((3, 3, 3))
    total = 0.7 * oracles.EPSILON
    cases = {
        (True, True): total,
        (False, True): X - np.swapaxes(X, 1, 2),
        (True, False): X - np.swapaxes(X, 0, 2),
        (False, False): X,
    }
    kinds = {}
    for (compatible, geodesics), D in cases.items():
        report = audit_coriolis(
            lambda q, v, D=D: np.einsum("ijk,j->ik", -D, v), point_mass, CoordinateFrame(3), q, v
        )
        assert report.checks["metric_compatible"].ok is compatible
        assert report.checks["same_geodesics"].ok is geodesics
        assert (report.verdicts["skew"] == "holds") is compatible
        assert (report.verdicts["bias"] == "holds") is geodesics
        assert (report.beta is not None) is (compatible and geodesics)
        np.testing.assert_allclose(report.contorsion, np.broadcast_to(D, (3, 3, 3, 3)), atol=1e-12)
        kinds[compatible, geodesics] = report.kind
    assert list(kinds.values()) == ["torsion", "dynamics only", "skew only", "inadmissible"]


def test_nonlinear_coriolis_is_no_connection():
    """|v| (v x) kills v and is skew, so it is admissible, yet it is not linear in v."""
    generator = rng()
    q, v = generator.standard_normal((2, 3, 3))
    report = audit_coriolis(
        lambda q, v: np.linalg.norm(v) * oracles.hat(v), point_mass, CoordinateFrame(3), q, v
    )
    assert report.kind == "nonlinear" and report.admissible
    assert report.verdicts["linear"] == "fails"
    assert report.verdicts["bias"] == report.verdicts["skew"] == "holds"
    for name in ("metric_compatible", "same_geodesics", "torsion_free"):
        assert report.verdicts[name] == "not applicable" and not report.checks[name].ok
    assert report.contorsion is None and report.beta is None
    assert "no connection" in str(report)


def test_nonlinear_coriolis_that_only_gets_the_dynamics():
    """v v^T - |v|^2 kills v but is symmetric."""
    generator = rng()
    q, v = generator.standard_normal((2, 3, 3))
    report = audit_coriolis(
        lambda q, v: np.outer(v, v) - v @ v * np.eye(3), point_mass, CoordinateFrame(3), q, v
    )
    assert report.kind == "dynamics only" and not report.admissible
    assert report.verdicts["linear"] == "fails"


def test_constant_coriolis_is_not_linear():
    generator = rng()
    q, v = generator.standard_normal((2, 3, 3))
    report = audit_coriolis(lambda q, v: oracles.hat([1, 2, 3]), point_mass, CoordinateFrame(3), q, v)
    assert report.verdicts["linear"] == "fails" and report.verdicts["bias"] == "fails"


def test_a_frame_in_which_velocity_is_not_the_coordinate_rate():
    """Half plane in its orthonormal frame y d/dx, y d/dy: H = 1, all of C comes from the brackets."""
    frame = MatrixFrame(lambda q: q[1] * np.eye(2), 2, 2)
    q = np.array([[0.2, 0.7], [1.0, 2.0]])
    v = np.array([[0.3, -0.9], [1.0, 0.4]])

    def coriolis(q, v):  # nabla_1 e_1 = e_2, nabla_1 e_2 = -e_1
        return np.array([[0.0, -v[0]], [v[0], 0.0]])

    assert audit_coriolis(coriolis, lambda q: np.eye(2), frame, q, v).kind == "riemannian"
    wrong = audit_coriolis(lambda q, v: 0.0 * coriolis(q, v), lambda q: np.eye(2), frame, q, v)
    assert wrong.kind == "skew only"  # flat and metric, but not the dynamics
    assert not audit_coriolis(coriolis, lambda q: np.eye(2), CoordinateFrame(2), q, v).admissible


# --- noise ------------------------------------------------------------------------


def noisy(size, seed=3):
    generator = np.random.default_rng(seed)

    def mass_matrix(q):
        E = generator.standard_normal((2, 2))
        return intro_mass_matrix(q) + size * (E + E.T)

    return mass_matrix


def half_and_half(q, v):
    return np.array([[v[1], v[0]], [0.0, 0.0]]) / 2


@pytest.mark.parametrize(("mass", "length", "kind"), [(1e-5, 1e-2, "riemannian"), (1e-8, 1e-3, "unknown")])
def test_a_light_finger_on_a_heavy_arm_is_judged_by_itself(mass, length, kind):
    """C v of the lighter one is smaller than the error of differences on the arm: it is unknown."""
    metric = systems.arm_with_finger(mass, length)
    H, C = jax.jit(metric.matrix_at), jax.jit(cn.MechanicalSystem(metric).coriolis_matrix_at)
    q, v = rng().standard_normal((2, 3))
    right = audit_coriolis(C, H, metric.frame, q, v)
    assert right.kind == kind and "fails" not in right.verdicts.values(), str(right)
    for row in range(3):
        kept = (np.arange(3) != row)[:, None]
        wrong = audit_coriolis(lambda p, w, kept=kept: kept * C(p, w), H, metric.frame, q, v)
        assert wrong.kind == "inadmissible", f"row {row}: {wrong}"


def test_noise_widens_the_tolerance_and_keeps_the_verdict():
    clean = audit_coriolis(half_and_half, intro_mass_matrix, CoordinateFrame(2), INTRO_Q, INTRO_V)
    rough = audit_coriolis(half_and_half, noisy(1e-10), CoordinateFrame(2), INTRO_Q, INTRO_V)
    assert rough.kind == clean.kind == "riemannian"
    assert rough.noise["metric_compatible"] > 100 * clean.noise["metric_compatible"]
    assert 1e-10 < rough.derivative_noise < 1e-7


def test_too_much_noise_forbids_a_verdict():
    report = audit_coriolis(half_and_half, noisy(1e-3), CoordinateFrame(2), INTRO_Q, INTRO_V)
    assert report.kind == "unknown" and not report.admissible
    assert report.verdicts["metric_compatible"] == "unknown"
    assert not report.checks["metric_compatible"].ok
    assert "about bias, skew, metric_compatible, same_geodesics: the black boxes" in report.summary
    assert "too noisy" in report.summary
    assert report.verdicts["torsion_free"] == "holds"  # needs no derivative of H


def test_gross_failure_is_seen_through_noise():
    """A violation larger than the noise is a failure, however noisy H is."""
    report = audit_coriolis(
        lambda q, v: 100 * half_and_half(q, v), noisy(1e-3), CoordinateFrame(2), INTRO_Q, INTRO_V
    )
    assert report.verdicts["metric_compatible"] == "fails"
    assert report.kind == "inadmissible"


@pytest.mark.parametrize("speed", [1e-3, 1.0, 1e3])
def test_single_precision_black_box(speed):
    def coriolis(q, v):
        return half_and_half(q, v).astype(np.float32)

    report = audit_coriolis(coriolis, intro_mass_matrix, CoordinateFrame(2), INTRO_Q, speed * INTRO_V)
    assert report.verdicts["linear"] == "holds" and report.kind == "riemannian"


def test_noise_of_a_coriolis_matrix_is_allowed_for_at_rest_too():
    generator = rng()

    def coriolis(q, v):
        return half_and_half(q, v) + 1e-11 * generator.standard_normal((2, 2))

    report = audit_coriolis(coriolis, intro_mass_matrix, CoordinateFrame(2), INTRO_Q, INTRO_V)
    assert report.kind == "riemannian", str(report)


def test_noise_of_a_coriolis_matrix_in_its_configuration_is_allowed_for():
    """Of a C in polar coordinates that reads r in single precision, and is linear in v to the last digit."""

    def coriolis(q, v, digits=float):
        r = float(digits(q[0]))
        return r * np.array([[0.0, -v[1]], [v[1], v[0]]])

    def audited(digits):
        q, v = rng().uniform(0.5, 1.5, (2, 3, 2))
        C, H = partial(coriolis, digits=digits), lambda q: np.diag([1.0, q[0] ** 2])
        return audit_coriolis(C, H, CoordinateFrame(2), q, v)

    found, exact = audited(np.float32), audited(float)
    assert found.kind == exact.kind == "riemannian", str(found)
    assert found.noise["torsion_free"] > 1e3 * exact.noise["torsion_free"]


def test_noise_floor_bounds_the_error_of_the_derivative():
    """Against a known derivative, over scales of variation from 0.1 to 30 per unit."""
    from connections.coriolis.audit.differences import FrameDifferences

    differences = FrameDifferences(CoordinateFrame(1))
    for rate in (0.1, 1.0, 3.0, 10.0, 30.0):
        for q in np.linspace(-1, 1, 7):
            found = differences.derivatives(lambda x, r=rate: np.sin(r * x), np.array([q]), np.eye(1))[0]
            error = abs(found.value[0] - rate * np.cos(rate * q))
            assert error <= 3 * found.noise
            assert found.noise < 1e-9 * rate + 1e-12


def test_aliasing_cannot_hide():
    """A ripple whose period divides the coarse steps: they agree with each other on a wrong derivative."""
    from connections.coriolis.audit.differences import OFFSETS, FrameDifferences

    differences = FrameDifferences(CoordinateFrame(1))
    rate = 2 * np.pi / OFFSETS[-3]
    found = differences.derivatives(lambda x: x + np.sin(rate * x) / rate, np.zeros(1), np.eye(1))[0]
    assert abs(found.value[0] - 2.0) <= 3 * found.noise


def test_samples_stay_within_a_quarter_of_the_distance_in_which_a_function_varies():
    from connections.coriolis.audit.differences import FrameDifferences

    seen = []

    def f(x):
        seen.append(x[0])
        return np.sin(x)

    differences = FrameDifferences(CoordinateFrame(1))
    differences.derivatives(f, np.zeros(1), np.eye(1), reaches=np.array([2.0]))
    assert max(seen) == -min(seen) == 0.5


def test_round_off_of_every_component_is_allowed_for():
    """Without C the torsion is that of the brackets: nothing, up to 8 n eps of what else is in a row."""
    report = audit_coriolis(
        lambda q, v: np.zeros((2, 2)), intro_mass_matrix, CoordinateFrame(2), INTRO_Q, INTRO_V
    )
    floor, scale = report.noise["torsion_free"], report.checks["torsion_free"].scale
    assert scale > 0.0 and floor / (16.0 * np.finfo(float).eps * scale) == pytest.approx(1.0)


def test_observed_order_is_four():
    """The formula itself, at two fixed steps."""
    f, x = np.exp, 0.3

    def error(h):
        return abs((8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h) - f(x))

    assert np.log2(error(0.1) / error(0.05)) == pytest.approx(4, abs=0.1)


def test_differences_stay_on_the_unit_sphere():
    seen = []

    def mass_matrix(q):
        seen.append(q)
        return np.eye(3)

    q = oracles.random_quaternion(rng(), 1)
    audit_coriolis(lambda q, v: oracles.hat(v) / 2, mass_matrix, SO3Frame(), q, np.ones((1, 3)))
    assert len(seen) > 50
    np.testing.assert_allclose(np.linalg.norm(seen, axis=1), 1.0, atol=1e-14)


# --- the report ------------------------------------------------------------------------


def test_report_is_readable_and_serializable():
    report = audit_coriolis(half_and_half, intro_mass_matrix, CoordinateFrame(2), INTRO_Q, INTRO_V)
    text = str(report)
    for word in (*ALL, "residual", "noise", "holds", "D = 0"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 140
    table = report._repr_html_()  # in a notebook: the same words and numbers
    assert all(word in html.unescape(table) for word in text.split())
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["kind"] == "riemannian" and data["checks"]["skew"]["ok"] is True
    nonlinear = audit_coriolis(
        lambda q, v: np.abs(half_and_half(q, v)), intro_mass_matrix, CoordinateFrame(2), INTRO_Q, INTRO_V
    )
    data = json.loads(json.dumps(nonlinear.to_dict(), allow_nan=False))
    assert data["contorsion"] is None and data["checks"]["torsion_free"]["residual"] is None


def test_the_summary_names_the_three_largest_betas():
    generator, Gamma = rng(), np.zeros((4, 4, 4))
    q, v = generator.standard_normal((2, 2, 4))
    for beta, triple in zip((0.1, -3.0, 2.0, -1.0), combinations(range(4), 3), strict=True):
        Gamma[np.ix_(triple, triple, triple)] += beta * oracles.EPSILON
    report = audit_coriolis(
        lambda q, v: np.einsum("ijk,j->ik", Gamma, v), lambda q: np.eye(4), CoordinateFrame(4), q, v
    )
    named = "beta_0_1_3 = -3, beta_0_2_3 = 2, beta_1_2_3 = -1 and 1 more, no larger."
    assert report.summary.endswith(named), report.summary


def test_report_is_frozen():
    report = audit_coriolis(half_and_half, intro_mass_matrix, CoordinateFrame(2), INTRO_Q, INTRO_V)
    with pytest.raises(AttributeError):
        report.kind = "other"
    for each in (report, pickle.loads(pickle.dumps(report))):
        with pytest.raises(TypeError):
            each.checks["linear"] = None


def test_one_sample_without_a_batch_axis():
    report = audit_coriolis(half_and_half, intro_mass_matrix, CoordinateFrame(2), INTRO_Q[0], INTRO_V[0])
    assert report.contorsion.shape == (1, 2, 2, 2)


def test_black_boxes_that_reuse_their_buffer():
    buffer = np.zeros((2, 2))

    def coriolis(q, v):
        buffer[:] = half_and_half(q, v)
        return buffer

    report = audit_coriolis(coriolis, intro_mass_matrix, CoordinateFrame(2), INTRO_Q, INTRO_V)
    assert report.kind == "riemannian"


# --- bad input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": np.zeros((2, 3))}, ShapeError, "q: expected"),
        ({"v": np.zeros((2, 3))}, ShapeError, "v: expected"),
        ({"v": np.ones((4, 2))}, ShapeError, "q: expected"),
        ({"q": np.array([[0.1, np.nan]])}, NonFiniteError, "q"),
        ({"v": np.array([[np.inf, 1.0]])}, NonFiniteError, "v"),
        ({"v": np.zeros((3, 2))}, ValueError, r"v\[0\] is zero"),
        ({"coriolis": lambda q, v: np.zeros((3, 3))}, ShapeError, r"C\(q, v\)"),
        ({"coriolis": lambda q, v: np.full((2, 2), np.nan)}, NonFiniteError, r"C\(q, v\)"),
        ({"mass_matrix": lambda q: np.eye(3)}, ShapeError, r"H\(q\)"),
        ({"mass_matrix": lambda q: np.full((2, 2), np.nan)}, NonFiniteError, r"H\(q\)"),
        ({"mass_matrix": lambda q: np.diag([1.0, -1.0])}, MetricError, "positive definite"),
        ({"mass_matrix": lambda q: np.array([[1.0, 0.5], [0.0, 1.0]])}, MetricError, "upper triangle"),
        ({"mass_matrix": lambda q: np.array([[1.0, 1.5e-8], [0.0, 1.0]])}, MetricError, "upper triangle"),
    ],
)
def test_bad_input(change, error, message):
    given = {
        "coriolis": half_and_half,
        "mass_matrix": intro_mass_matrix,
        "frame": CoordinateFrame(2),
        "q": INTRO_Q,
        "v": INTRO_V,
    }
    with pytest.raises(error, match=message):
        audit_coriolis(**(given | change))


def test_quaternion_off_the_sphere():
    with pytest.raises(PointError, match="quaternion"):
        audit_coriolis(
            lambda q, v: oracles.hat(v), lambda q: np.eye(3), SO3Frame(), np.ones((1, 4)), np.ones((1, 3))
        )
