"""Weyl's connections and those of statistics: what they do to lengths, their duals, families of densities."""

import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from pages import run_page

import connections as cn
from connections.checks import IntegrationError, MetricError, NonFiniteError, ShapeError, SymmetryError

Q = np.array([0.2, -0.3, 0.4])
PLANE = cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2))


def low_curvature(nabla):
    """R_lkij, (3, 3, 3, 3)."""
    return np.einsum("ml,lkij->mkij", systems.METRIC.matrix(Q), nabla.curvature(Q))


def test_weyls_nonmetricity_is_the_form_times_the_metric():
    H, form = np.asarray(systems.METRIC.matrix(Q)), np.asarray(systems.form(Q))
    Q_ijk = np.asarray(systems.WEYL.nonmetricity(Q))
    np.testing.assert_allclose(Q_ijk, np.einsum("i,jk->ijk", form, H), atol=1e-12)
    assert np.abs(Q_ijk).max() > 0.1


def test_weyls_connection_is_that_of_every_metric_with_the_same_angles():
    """(e^f g, form + df) is the same connection as (g, form); form = -df gives e^f g's own."""

    def f(q):
        return 0.3 * q[0] * q[1] + jnp.sin(q[2])

    conformal = cn.MatrixMetric(systems.FRAME, lambda q: jnp.exp(f(q)) * systems.METRIC.matrix_at(q))
    df = lambda q: systems.FRAME.lie_derivative_at(f, q)  # noqa: E731
    other = cn.WeylConnection(conformal, lambda q: systems.form(q) + df(q))
    right = np.asarray(systems.WEYL.coefficients(Q))
    np.testing.assert_allclose(other.coefficients(Q), right, atol=1e-12)
    exact = cn.WeylConnection(systems.METRIC, lambda q: -df(q))
    levi_civita = np.asarray(cn.LeviCivita(conformal).coefficients(Q))
    np.testing.assert_allclose(exact.coefficients(Q), levi_civita, atol=1e-12)
    assert np.abs(right - levi_civita).max() > 0.1  # control


@pytest.mark.further
def test_weyls_curvature_sees_the_derivative_of_the_form():
    """R_lkij + R_klij = -(d form)_ij H_lk."""
    R, H = low_curvature(systems.WEYL), np.asarray(systems.METRIC.matrix(Q))
    slope = np.asarray(systems.FRAME.lie_derivative(systems.form, Q))
    d_form = slope - slope.T - np.einsum("kij,k->ij", systems.FRAME.structure_functions(Q), systems.form(Q))
    np.testing.assert_allclose(R + np.swapaxes(R, 0, 1), -np.einsum("ij,lk->lkij", d_form, H), atol=1e-11)
    assert np.abs(d_form).max() > 0.1


def test_a_statistical_connection_and_its_dual():
    """nabla g = alpha C; L_X <Y, Z> = <nabla_X Y, Z> + <Y, nabla*_X Z>; R* = -R^T; their mean."""
    nabla, dual, H = systems.STATISTICAL, systems.STATISTICAL.dual, np.asarray(systems.METRIC.matrix(Q))
    np.testing.assert_allclose(nabla.nonmetricity(Q), 0.7 * systems.cubic(Q), atol=1e-12)
    first, second = (np.einsum("il,ljk->ijk", H, each.coefficients(Q)) for each in (nabla, dual))
    slope = np.asarray(systems.METRIC.derivative_at(jnp.asarray(Q)))  # L_i <X_j, X_k>
    terms = np.einsum("kij->ijk", first), np.einsum("jik->ijk", second)
    np.testing.assert_allclose(slope, sum(terms), atol=1e-12)
    same = np.einsum("kij->ijk", first) + np.einsum("jik->ijk", first)
    assert np.abs(slope - same).max() > 0.1  # control: not with itself
    middle = np.asarray(systems.LEVI_CIVITA.first_kind(Q))
    np.testing.assert_allclose(0.5 * (first + second), middle, atol=1e-12)
    R, R_dual = low_curvature(nabla), low_curvature(dual)
    np.testing.assert_allclose(R_dual, -np.swapaxes(R, 0, 1), atol=1e-11)
    assert np.abs(R + np.swapaxes(R, 0, 1)).max() > 0.1  # control


def test_all_alpha_share_a_compiled_function_and_have_derivatives():
    def entry(alpha):
        return systems.STATISTICAL.with_alpha(alpha).coefficients_at(Q)[0, 1, 2]

    slope = float(jax.jit(jax.grad(entry))(0.3))
    expected = -0.5 * np.linalg.solve(systems.METRIC.matrix(Q), np.asarray(systems.cubic(Q))[:, 1, 2])[0]
    assert slope == pytest.approx(expected, rel=1e-10) and abs(expected) > 1e-3
    other = systems.STATISTICAL.with_alpha(0.2)
    assert jax.tree_util.tree_structure(other) == jax.tree_util.tree_structure(systems.STATISTICAL)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: cn.WeylConnection(systems.METRIC, np.ones(3)),
            TypeError,
            "form: expected a function q",
        ),
        (lambda: cn.WeylConnection(systems.FRAME, systems.form), TypeError, "metric: expected"),
        (
            lambda: cn.WeylConnection(systems.METRIC, lambda q: q[:2]).coefficients(Q),
            ShapeError,
            r"form\(q\): expected shape \(3,\), got \(2,\)",
        ),
        (
            lambda: cn.StatisticalConnection(systems.METRIC, lambda q: jnp.eye(3)).coefficients(Q),
            ShapeError,
            r"cubic: expected shape \(3, 3, 3\)",
        ),
        (
            lambda: cn.StatisticalConnection(PLANE, lambda q: jnp.arange(8.0).reshape(2, 2, 2)).coefficients(
                [0.0, 0.0]
            ),
            SymmetryError,
            "the cubic form is not totally symmetric",
        ),
        (lambda: systems.STATISTICAL.with_alpha([1.0, 2.0]), ShapeError, "alpha: expected"),
        (lambda: systems.STATISTICAL.with_alpha(np.nan), NonFiniteError, "alpha is nan"),
    ],
)
def test_bad_input_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


# --- families of densities ---------------------------------------------------------------------------------


def log_normal(x, q):
    """Of the mean q[0] and the standard deviation q[1]."""
    return -0.5 * ((x - q[0]) / q[1]) ** 2 - jnp.log(q[1]) - 0.5 * np.log(2.0 * np.pi)


X, DX = np.linspace(-12.0, 12.0, 300, retstep=True)
NORMAL = cn.statistical_model(log_normal, 2, quadrature=(X, np.full(300, DX)))
FACES = np.eye(3)


def log_die(x, q):
    """Three faces, in natural parameters: an exponential family."""
    logits = jnp.append(q, 0.0)
    return x @ logits - jax.nn.logsumexp(logits)


DIE = cn.statistical_model(log_die, 2, quadrature=(FACES, np.ones(3)))


def test_normal_densities_have_fishers_metric_and_chentsovs_tensor():
    """diag(1, 2) / s^2; C_mms = 2 / s^3, C_sss = 8 / s^3; the plane of alpha has K = -(1 - alpha^2) / 2."""
    q, s = np.array([0.4, 1.3]), 1.3
    np.testing.assert_allclose(NORMAL.metric.matrix(q), np.diag([1.0, 2.0]) / s**2, atol=1e-11)
    C = np.zeros((2, 2, 2))
    C[0, 0, 1] = C[0, 1, 0] = C[1, 0, 0] = 2.0
    C[1, 1, 1] = 8.0
    np.testing.assert_allclose(NORMAL.cubic(q), C / s**3, atol=1e-10)
    np.testing.assert_allclose(NORMAL.cubic([q, q])[1], C / s**3, atol=1e-10)
    for alpha in (0.0, 0.6, 1.0, -1.0):
        curved = NORMAL.connection(alpha).sectional(q, [1.0, 0.0], [0.0, 1.0])
        assert curved == pytest.approx(-0.5 * (1.0 - alpha**2), abs=1e-9)


def test_what_nodes_leave_out_is_seen_where_moments_are_lost():
    """Tails that are cut, and nodes too far apart, lose less of the density than of curvature."""
    wide, weights = np.polynomial.legendre.leggauss(300)
    cut = cn.statistical_model(log_normal, 2, quadrature=(10.0 * wide, 10.0 * weights))
    x, dx = np.linspace(-12.0, 12.0, 60, retstep=True)
    few = cn.statistical_model(log_normal, 2, quadrature=(x, np.full(60, dx)))
    for model, sizes in ((cut, (1.0, 1.8, 1.9, 2.0)), (few, (0.6, 0.5, 0.35))):
        refused = 0
        for s in sizes:
            try:
                K = model.connection(0.0).sectional([0.0, s], [1.0, 0.0], [0.0, 1.0])
                size = float(model.metric.quadrature_error([0.0, s]))
            except MetricError as error:
                refused += 1
                assert "derivatives of the density add up to" in str(error)
            else:
                assert abs(K + 0.5) < max(0.5 * size, 1e-12) < 5e-4
        assert refused == (2 if model is cut else 1)
    with pytest.raises(IntegrationError, match="derivatives of the density add up to"):
        cn.geodesic(few.connection(0.0), [0.0, 1.0], [0.0, -1.0], [0.0, 1.1])  # s = exp(-t)
    assert np.isnan(jax.jit(few.metric.matrix_at)(np.array([0.0, 0.35]))).all()
    with pytest.raises(MetricError, match=r"reach farther than \[-9\.999"):
        cut.metric.matrix([0.0, 2.0])
    with pytest.raises(MetricError, match="would do for 60") as caught:
        few.metric.matrix([0.0, 0.35])
    enough = int(re.search(r"(\d+) would do", str(caught.value))[1])
    x, dx = np.linspace(-12.0, 12.0, enough, retstep=True)
    right = cn.statistical_model(log_normal, 2, quadrature=(x, np.full(enough, dx)))
    assert enough < 240 and float(right.metric.quadrature_error([0.0, 0.35])) < 1e-3
    with pytest.raises(TypeError, match="the nodes are a sample"):
        cn.statistical_model(log_normal, 2, sample=X, drawn_at=[0.0, 1.0]).metric.quadrature_error([0.0, 1.0])


def test_a_divergence_is_that_of_densities_which_the_nodes_cut():
    """D = log(s' / s) + (s^2 + (m - m')^2) / (2 s'^2) - 1/2, on nodes that cover p."""
    for m, s in ((1.0, 2.0), (30.0, 2.0), (0.0, 100.0)):
        expected = np.log(s) + (1.0 + m**2) / (2.0 * s**2) - 0.5
        assert NORMAL.divergence([0.0, 1.0], [m, s]) == pytest.approx(expected, rel=1e-10)
    x = np.random.default_rng(5).normal(size=20_000)
    drawn = cn.statistical_model(log_normal, 2, sample=x, drawn_at=[0.0, 1.0])
    assert drawn.divergence([0.0, 1.0], [5.0, 1.0]) == pytest.approx(12.5, abs=0.1)


def test_an_exponential_family_is_dually_flat_and_obeys_pythagoras():
    """Gamma of alpha = 1 vanishes; mixture geodesics are straight in probabilities; D is Bregman's."""
    q = np.array([0.3, -0.4])
    assert np.abs(DIE.connection(1.0).coefficients(q)).max() < 1e-13
    mixture = DIE.connection(-1.0)
    assert np.abs(mixture.coefficients(q)).max() > 0.1  # control
    H = np.asarray(DIE.metric.matrix(q))
    u = np.array([0.8, 0.5])
    w = 5.0 * np.array([-(H @ u)[1], (H @ u)[0]])  # orthogonal to u
    assert abs(u @ H @ w) < 1e-12
    first = cn.exponential(mixture, q, u)
    last = q + w  # the exponential geodesic is straight
    pair, rest, whole = DIE.divergence(first, q), DIE.divergence(q, last), DIE.divergence(first, last)
    assert pair + rest == pytest.approx(whole, abs=1e-9) and min(pair, rest) > 0.01
    aslant = q + w + 0.3 * u  # control: not orthogonal
    assert abs(pair + DIE.divergence(q, aslant) - DIE.divergence(first, aslant)) > 0.01

    def potential(p):
        return jax.nn.logsumexp(jnp.append(p, 0.0))

    bregman = potential(last) - potential(q) - jax.grad(potential)(jnp.asarray(q)) @ (last - q)
    assert rest == pytest.approx(float(bregman), abs=1e-12)


def test_a_sample_serves_near_where_it_was_drawn():
    start = np.array([0.4, 1.3])
    x = np.random.default_rng(5).normal(*start, size=20_000)
    drawn = cn.statistical_model(log_normal, 2, sample=x, drawn_at=start)
    near = start + [0.1, 0.05]
    np.testing.assert_allclose(drawn.metric.matrix(near), NORMAL.metric.matrix(near), atol=0.05)
    assert np.abs(drawn.metric.matrix(near) - NORMAL.metric.matrix(start)).max() > 0.06  # control
    P, scores = jax.jit(lambda q: (drawn.metric.probabilities_at(q), drawn.metric.scores_at(q)))(near)
    np.testing.assert_allclose(P @ scores, 0.0, atol=1e-12)  # exact on the nodes
    with pytest.raises(MetricError, match="drawn too far away"):
        drawn.metric.matrix([6.0, 1.3])


def log_mixture(face, p):
    """Three faces by their probabilities: the same family as the die, in other parameters."""
    return jnp.log(face @ jnp.append(p, 1.0 - p[0] - p[1]))


def log_cauchy(x, q):
    """Neither an exponential family nor a mixture."""
    return -jnp.log(jnp.pi * q[1] * (1.0 + ((x - q[0]) / q[1]) ** 2))


def test_geodesics_of_exponential_families_and_mixtures_are_lines(monkeypatch):
    """In natural parameters and in expectations, v without a search; of other densities, and alpha, none."""
    p, q = np.array([0.0, 1.0]), np.array([1.0, 1.5])
    start, end = np.array([0.2, 0.3]), np.array([0.5, 0.1])
    mixture = cn.statistical_model(log_mixture, 2, quadrature=(FACES, np.ones(3)))
    logits = lambda p: jnp.log(p / (1.0 - p[0] - p[1]))  # noqa: E731
    into = np.asarray(jax.jacfwd(logits)(start))
    chords = {
        (NORMAL, 1.0): (p, q, [4.0 / 9.0, 5.0 / 18.0]),  # of m / s^2 and -1 / (2 s^2)
        (NORMAL, -1.0): (p, q, [1.0, 1.125]),  # of m and m^2 + s^2
        (DIE, 1.0): (start, end, end - start),
        (mixture, -1.0): (start, end, end - start),
        (mixture, 1.0): (start, end, np.linalg.solve(into, logits(end) - logits(start))),
    }
    chord = jax.jit(lambda nabla, p, q: nabla.chord_at(p, q))
    for (model, alpha), (first, last, expected) in chords.items():
        found = chord(model.connection(alpha), first, last)
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    heavy = cn.statistical_model(log_cauchy, 2, quadrature=(X, np.full(300, DX)))
    assert np.isnan(chord(heavy.connection(1.0), p, q)).all()
    assert not DIE.connection(0.5).has_chords and not systems.STATISTICAL.with_alpha(1.0).has_chords
    monkeypatch.setattr(sys.modules["connections.affine.logarithms.search"], "by_fan", None)
    v = cn.logarithm(DIE.connection(-1.0), start, end)
    np.testing.assert_allclose(cn.exponential(DIE.connection(-1.0), start, v), end, atol=1e-9)
    with pytest.raises(TypeError):  # control: another alpha is searched
        cn.logarithm(DIE.connection(-0.9), start, end)


def test_a_connection_along_vectors_is_that_of_its_symbols():
    """Gamma(v, w) by derivatives at the nodes along v and w, of three alpha, and Levi-Civita's."""
    q, v, w = np.array([0.3, 1.2]), np.array([0.4, -0.7]), np.array([1.1, 0.2])
    for nabla in (*(NORMAL.connection(alpha) for alpha in (0.6, -1.0)), cn.LeviCivita(NORMAL.metric)):
        expected = np.einsum("ijk,j,k->i", nabla.coefficients(q), v, w)
        np.testing.assert_allclose(nabla.apply(q, v, w), expected, atol=1e-10)
        assert np.abs(expected).max() > 0.1


def test_a_family_without_a_third_moment_has_one_connection():
    """E[l_i l_j l_k] of Cauchy's densities vanishes, and is round-off over nodes of equal probability."""
    nodes = np.tan(np.pi * (np.arange(40) + 0.5) / 40 - 0.5 * np.pi)
    family = cn.statistical_model(log_cauchy, 2, quadrature=(nodes, np.pi * (1.0 + nodes**2) / 40))
    q, C = [0.1, 1.2], np.asarray(family.cubic([0.1, 1.2]))
    assert np.abs(C).max() < 1e-14
    assert all(np.array_equal(C, np.transpose(C, order)) for order in ((1, 0, 2), (0, 2, 1)))
    expected = cn.LeviCivita(family.metric).coefficients(q)
    np.testing.assert_allclose(family.connection(1.0).coefficients(q), expected, atol=1e-13)
    np.testing.assert_allclose(expected[1], np.diag([1.0, -1.0]) / 1.2, atol=1e-9)
    assert np.abs(NORMAL.connection(1.0).coefficients(q) - NORMAL.connection(0.0).coefficients(q)).max() > 0.5


def test_models_on_other_nodes_share_what_is_compiled():
    def kinds(x):
        model = cn.statistical_model(log_normal, 2, quadrature=(x, np.ones(len(x))))
        leaves, tree = jax.tree_util.tree_flatten(model.connection(0.0))
        return tree, [np.shape(leaf) for leaf in leaves]

    assert kinds(np.arange(5)) == kinds(np.linspace(0.0, 1.0, 5)) != kinds(np.linspace(0.0, 1.0, 6))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: cn.statistical_model(log_normal, 2), TypeError, "give quadrature="),
        (lambda: cn.statistical_model(log_normal, 2, sample=X), TypeError, "drawn_at="),
        (lambda: cn.statistical_model(log_normal, 0, quadrature=(X, X)), ValueError, "dim: expected"),
        (lambda: cn.statistical_model(log_normal, 2.0, quadrature=(X, X)), TypeError, "dim: expected"),
        (lambda: cn.statistical_model(log_normal, 2, quadrature=(X, X)), ValueError, "weights: expected pos"),
        (lambda: cn.statistical_model(log_normal, 2, quadrature=(X, X[1:])), ShapeError, "weights: expected"),
        (
            lambda: cn.statistical_model(log_normal, 2, quadrature=X),
            TypeError,
            r"expected \(nodes, weights\)",
        ),
        (
            lambda: cn.statistical_model(X, 2, quadrature=(X, X)),
            TypeError,
            "log_density: expected a function",
        ),
        (
            lambda: cn.statistical_model(log_normal, 2, quadrature=(X, np.ones(300))).metric.matrix(
                [0.0, 1.0]
            ),
            MetricError,
            "the density adds up to 12.4",
        ),
        (
            lambda: cn.statistical_model(lambda x, q: q, 2, quadrature=(X, np.ones(300))).metric.matrix(
                [0.0, 1]
            ),
            ShapeError,
            r"log_density\(x, q\): expected shape \(\)",
        ),
        (
            lambda: NORMAL.metric.matrix([0.0, -1.0]),
            NonFiniteError,
            r"log_density\(x, q\) is not finite at the node x = -",
        ),
    ],
)
def test_a_family_that_is_none_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("log_density", "error", "words"),
    [
        (lambda x, q: log_normal(x, q) + jnp.log(3.0), MetricError, "adds up to 3 over the nodes"),
        (lambda x, q: log_normal(x, [q[0], 1.0]) + jnp.log(3.0), MetricError, "adds up to 3 over the nodes"),
        (lambda x, q: log_normal(x - 1e3, q), MetricError, "adds up to 0 over the nodes"),
        (lambda x, q: jnp.where(x > q[0] + 1e3, 0.0, -jnp.inf), MetricError, "adds up to 0 over the nodes"),
        (lambda x, q: log_normal(x, q) + 800.0, MetricError, r"adds up to exp\(800\) over the nodes"),
        (
            lambda x, q: log_normal(x, [q[0], 1.0]),
            MetricError,
            "not positive definite .* leaves the density",
        ),
        (
            lambda x, q: log_normal(x, q) + 0.0 * jnp.sqrt(jnp.abs(q[0])),
            NonFiniteError,
            r"the derivative of log_density\(x, q\) by q is not finite at the node",
        ),
    ],
)
def test_what_is_wrong_with_a_density_is_said_before_its_metric(log_density, error, words):
    """Also where there is no metric: nothing adds up to 0, and a parameter may change nothing."""
    model = cn.statistical_model(log_density, 2, quadrature=(X, np.full(len(X), X[1] - X[0])))
    for call in (model.metric.matrix, model.cubic):
        with pytest.raises(error, match=words):
            call([0.0, 1.0])


@pytest.mark.further
def test_the_page_runs():
    run_page("linear_connections.md", blocks=4)
