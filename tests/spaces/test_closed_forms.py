"""Spaces by name: closed forms against what is integrated and searched, and against other formulas."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from closed_spaces import CLOSED
from pages import run_page
from scipy.linalg import subspace_angles
from scipy.special import digamma, gammaln

import connections as cn
from connections import interop, spaces
from connections.checks import ConvergenceError, IntegrationError, PointError

MODELS = ("half_space", "ball", "hyperboloid")


class Plain(cn.Metric):
    """The metric of a space without its closed forms."""

    def __init__(self, metric):
        self.metric, self.frame = metric, metric.frame

    def matrix_at(self, q):
        return self.metric.matrix_at(q)


@pytest.mark.parametrize("name", always(CLOSED, "ball", "grassmann", "categorical"))
def test_closed_forms_are_what_is_integrated(name, rng):
    """And nothing else: a geodesic of another length, or of another metric, ends elsewhere."""
    metric, (p, q) = CLOSED[name]
    nabla, plain = cn.LeviCivita(metric), cn.LeviCivita(Plain(metric))
    v = cn.logarithm(nabla, p, q)
    np.testing.assert_allclose(cn.exponential(nabla, p, v), q, atol=1e-12)
    np.testing.assert_allclose(cn.exponential(plain, p, v), q, atol=1e-9)
    assert np.abs(cn.exponential(plain, p, 0.9 * v) - q).max() > 1e-3
    far = 0.4 * np.linalg.solve(np.linalg.cholesky(metric.matrix(p)).T, rng.standard_normal(metric.frame.dim))
    ends = [cn.exponential(each, p, far) for each in (nabla, plain)]
    np.testing.assert_allclose(*ends, atol=1e-9)
    np.testing.assert_allclose(cn.exponential(nabla, p, 0.0 * v), p, atol=1e-15)
    np.testing.assert_allclose(cn.logarithm(nabla, p, p), 0.0, atol=1e-15)


def test_with_options_a_geodesic_is_integrated():
    """To the bit, as coarsely as it is asked for, and with an error where the steps do not suffice."""
    metric, p, v = spaces.hyperbolic(2), [0.0, 1.0], [1.0, 3.0]
    nabla = cn.LeviCivita(metric)
    closed, coarse = cn.exponential(nabla, p, v), cn.exponential(nabla, p, v, rtol=1e-3)
    np.testing.assert_array_equal(coarse, cn.geodesic(nabla, p, v, [0.0, 1.0], rtol=1e-3).q[-1])
    assert 1e-9 < np.abs(coarse / closed - 1.0).max() < 1e-2
    with pytest.raises(IntegrationError, match="steps"):
        cn.exponential(nabla, p, v, max_steps=2)


@pytest.mark.parametrize("name", always(CLOSED, "normal"))
def test_curvatures_are_within_their_bounds(name, rng):
    metric, (p, _) = CLOSED[name]
    u, w = rng.standard_normal((2, 40, metric.frame.dim))
    K = cn.LeviCivita(metric).sectional(p, u, w)
    least, most = metric.curvatures
    assert least - 1e-9 < K.min() <= K.max() < most + 1e-9
    assert K.max() - K.min() > 0.1 or most == least


@pytest.mark.parametrize("name", always(CLOSED, "half_space", "categorical"))
def test_derivatives_of_logarithms(name):
    """By both points, of a pair and where both are equal; in batches, and inside jit."""
    metric, (p, q) = CLOSED[name]
    nabla, frame = cn.LeviCivita(metric), metric.frame
    log = jax.jit(lambda p, q: cn.logarithm(nabla, p, q))
    np.testing.assert_allclose(log(p, q), cn.logarithm(nabla, p, q), rtol=1e-12)
    rows = cn.logarithm(nabla, np.stack([p, q]), np.stack([q, q]))
    np.testing.assert_allclose(rows, [log(p, q), 0.0 * rows[0]], rtol=1e-12, atol=1e-15)
    X = np.asarray(frame.matrix(q))
    D = jax.jacfwd(log, argnums=1)(jnp.asarray(p), jnp.asarray(q)) @ X
    back = jax.jacfwd(lambda v: cn.exponential(nabla, jnp.asarray(p), v))(log(p, q))
    np.testing.assert_allclose(frame.dual_at(jnp.asarray(q)) @ back @ D, np.eye(frame.dim), atol=1e-11)
    same = jax.jacfwd(log, argnums=1)(jnp.asarray(p), jnp.asarray(p)) @ np.asarray(frame.matrix(p))
    np.testing.assert_allclose(same, np.eye(frame.dim), atol=1e-12)


# --- hyperbolic space -------------------------------------------------------------------------------------


def test_models_of_hyperbolic_space_are_isometric(rng):
    """Distances and metrics are carried along; the models are not the same charts."""
    points = {"half_space": np.array([[0.2, -0.3, 0.7], [1.2, 0.4, 1e-3]])}
    for model in ("ball", "hyperboloid"):
        points[model] = spaces.hyperbolic_map(points["half_space"], "half_space", model)
    lengths = [cn.distance(spaces.hyperbolic(3, model), *points[model]) for model in MODELS]
    gap = ((points["half_space"][1] - points["half_space"][0]) ** 2).sum()
    np.testing.assert_allclose(lengths, np.arccosh(1.0 + gap / (2.0 * 0.7e-3)), rtol=1e-10)
    X = points["hyperboloid"]
    np.testing.assert_allclose(X[:, 0] ** 2 - (X[:, 1:] ** 2).sum(1), 1.0, rtol=1e-8)
    for source in MODELS:
        for target in MODELS:
            found = spaces.hyperbolic_map(points[source], source, target)
            np.testing.assert_allclose(found, points[target], rtol=1e-9, atol=1e-12)
        q = jnp.asarray(points[source][0])
        metric, other = spaces.hyperbolic(3, source), spaces.hyperbolic(3, "ball")
        mapped = spaces.hyperbolic_map(q, source, "ball")
        J = jax.jacfwd(lambda q, m=source: spaces.hyperbolic_map(q, m, "ball"))(q) @ metric.frame.matrix(q)
        np.testing.assert_allclose(J.T @ other.matrix(mapped) @ J, metric.matrix(q), rtol=1e-10, atol=1e-12)
    assert abs(points["ball"] - points["half_space"]).max() > 0.1


def test_far_and_near_points_of_the_half_space():
    """exp and log of lengths from 1e-12 to 60, in all directions; the closed form of the vertical way."""
    plane, p = cn.LeviCivita(spaces.hyperbolic(2)), np.array([3.0, 2.0])
    angle, length = np.meshgrid(np.linspace(0.0, 2.0 * np.pi, 13), [1e-12, 1e-3, 0.3, 1.0, 8.0, 60.0])
    v = 2.0 * length[..., None] * np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    q = cn.exponential(plane, p, v)
    np.testing.assert_allclose(q[:, 0, 1], 2.0 * np.exp(length[:, 0]), rtol=1e-13)
    np.testing.assert_allclose(q[:, 6, 1], 2.0 * np.exp(-length[:, 0]), rtol=1e-13)
    found = cn.logarithm(plane, p, q)
    # Points of the plane have the digits that their coordinates have: 1e-16 beside a height of exp(-d).
    lost = 4e-16 * 3.0 / q[..., 1] + 4e-16 * 3.0
    assert (np.linalg.norm(found - v, axis=-1) / 2.0 <= 1e-13 * length + 2.0 * lost).all()


def test_points_outside_of_a_model_are_refused():
    for model, q in (("half_space", [0.0, 0.0]), ("ball", [0.6, 0.8]), ("hyperboloid", [1.0, 1.0, 0.0])):
        with pytest.raises(PointError, match="q = |point"):
            spaces.hyperbolic(2, model).matrix(q)
        with pytest.raises(PointError):
            spaces.hyperbolic_map(q, model, "ball")
    with pytest.raises(ValueError, match="half_space"):
        spaces.hyperbolic(2, "halfspace")


@pytest.mark.parametrize(
    ("space", "sizes"),
    [
        (spaces.sphere, (0,)),
        (spaces.hyperbolic, (-1,)),
        (spaces.categorical, (0,)),
        (spaces.positive_definite, (0,)),
        (spaces.dirichlet, (0,)),
        (spaces.grassmann, (0, 1)),
        (cn.CoordinateFrame, (0,)),
    ],
)
def test_dimensions_that_are_none(space, sizes):
    """A dimension is a number, and no shape of an array."""
    with pytest.raises(ValueError, match=f"^(n|dim): expected a positive integer, got {sizes[0]}$"):
        space(*sizes)
    with pytest.raises(TypeError, match=r"^(n|dim): expected a positive integer, got the number 1.5"):
        space(1.5, *sizes[1:])
    with pytest.raises(ValueError, match="p: expected less than n = 2, got 2"):
        spaces.grassmann(2, 2)


# --- subspaces --------------------------------------------------------------------------------------------


def test_distances_of_subspaces_are_their_principal_angles(rng):
    """By SciPy; of lines by cosines; a turn of the whole space changes none."""
    metric, (p, q) = CLOSED["grassmann"]

    def basis(Z):
        return np.concatenate([np.eye(2), Z.reshape(2, 2)])

    expected = np.linalg.norm(subspace_angles(basis(p), basis(q)))
    np.testing.assert_allclose(cn.distance(metric, p, q), expected, rtol=1e-12)
    assert abs(expected - np.linalg.norm(p - q)) > 0.1
    Q, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    turned = [Q @ basis(Z) for Z in (p, q)]
    turned = [(Y[2:] @ np.linalg.inv(Y[:2])).ravel() for Y in turned]
    np.testing.assert_allclose(cn.distance(metric, *turned), expected, rtol=1e-10)
    x, y = rng.standard_normal((2, 3))
    lines = spaces.grassmann(3, 1)
    angle = np.arccos(abs(x @ y) / np.linalg.norm(x) / np.linalg.norm(y))
    np.testing.assert_allclose(cn.distance(lines, x[1:] / x[0], y[1:] / y[0]), angle, rtol=1e-10)
    np.testing.assert_allclose(cn.LeviCivita(lines).sectional(x[1:], [1.0, 0.0], [0.3, 1.0]), 1.0, rtol=1e-10)
    # (dX, dY) in the plane of one angle each is a product: flat; the extreme 2 is of U(2) / (U(1) x U(1)).
    K = cn.LeviCivita(metric).sectional(np.zeros(4), [1.0, 0.0, 0.0, 1.0], [0.0, 1.0, -1.0, 0.0])
    np.testing.assert_allclose(K, 2.0, rtol=1e-12)
    K = cn.LeviCivita(metric).sectional(np.zeros(4), [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(K, 0.0, atol=1e-12)


def test_matrices_and_spheres_by_name(rng):
    """log of eigenvalues; angles; the logarithm of a pair by `cn` is that of the metric itself."""
    metric = spaces.positive_definite(2)
    one, other = [1.0, 0.0, 1.0], [2.0, 0.0, 3.0]
    np.testing.assert_allclose(
        cn.distance(metric, one, other), np.hypot(np.log(2.0), np.log(3.0)), rtol=1e-12
    )
    np.testing.assert_allclose(metric.matrices([1.0, 0.2, 3.0]), [[1.0, 0.2], [0.2, 3.0]])
    assert abs(cn.distance(metric, one, [1.0, 0.5, 1.0]) - np.hypot(np.log(1.5), np.log(0.5))) < 1e-12
    x, y = rng.standard_normal((2, 5))
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    np.testing.assert_allclose(cn.distance(spaces.sphere(4), x, y), np.arccos(x @ y), rtol=1e-10)


@pytest.mark.parametrize(
    ("space", "q"),
    [
        (spaces.sphere(2), [0.0, 0.0, 1.0]),
        (spaces.hyperbolic(2, "hyperboloid"), [1.0, 0.0, 0.0]),
        (spaces.grassmann(3, 1), [0.0, 0.0]),
    ],
    ids=["sphere", "hyperboloid", "grassmann"],
)
def test_the_derivative_of_a_logarithm_where_points_agree(space, q):
    """It is the identity."""
    slope = jax.jacobian(partial(space.logarithm_at, jnp.array(q)))(jnp.array(q))
    np.testing.assert_allclose(slope @ space.frame.matrix_at(jnp.array(q)), np.eye(2), atol=1e-14)


def test_orthogonal_points_have_no_logarithm():
    """Opposite points of the sphere; planes that are orthogonal have no angle's tangent."""
    sphere = cn.LeviCivita(spaces.sphere(2))
    with pytest.raises(ConvergenceError, match="cut point"):
        cn.logarithm(sphere, [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0])
    lines = cn.LeviCivita(spaces.grassmann(2, 1))
    np.testing.assert_allclose(cn.exponential(lines, [0.3], [0.0]), [0.3])
    with pytest.raises(IntegrationError):
        cn.exponential(cn.LeviCivita(spaces.categorical(1)), [0.5], [2.0])


# --- densities --------------------------------------------------------------------------------------------


def test_fishers_metrics_are_those_of_quadrature():
    """And of nothing else: other parameters have other matrices. Gamma's curvature lies in (-1/2, -1/4)."""
    x = np.linspace(-12.0, 16.0, 400)

    def log_normal(x, q):
        return -0.5 * ((x - q[0]) / q[1]) ** 2 - jnp.log(q[1]) - 0.5 * np.log(2.0 * np.pi)

    model = cn.statistical_model(log_normal, 2, quadrature=(x, np.full(400, x[1] - x[0])))
    q = [0.4, 1.3]
    np.testing.assert_allclose(spaces.normal().matrix(q), model.metric.matrix(q), atol=1e-10)
    t = np.linspace(-30.0, 4.0, 800)  # x = exp(t)

    def log_gamma(x, q):
        return q[0] * jnp.log(q[1]) - jax.scipy.special.gammaln(q[0]) + (q[0] - 1.0) * jnp.log(x) - q[1] * x

    model = cn.statistical_model(log_gamma, 2, quadrature=(np.exp(t), np.exp(t) * (t[1] - t[0])))
    metric, q = spaces.gamma(), [2.5, 1.2]
    np.testing.assert_allclose(metric.matrix(q), model.metric.matrix(q), atol=1e-9)
    assert np.abs(metric.matrix([2.5, 1.3]) - model.metric.matrix(q)).max() > 0.01
    K = cn.LeviCivita(metric).sectional([[0.1, 1.0], [2.5, 3.0], [40.0, 1.0]], [1.0, 0.0], [0.0, 1.0])
    assert (K > -0.5).all() and (K < -0.25).all() and (np.diff(K) < 0.0).any() != (np.diff(K) > 0.0).any()


def test_dirichlets_metric_is_the_hessian_of_its_potential():
    """H is the Hessian of sum log Gamma(q_i) - log Gamma(sum q), by differences; no curvature is positive."""
    metric, q, h = spaces.dirichlet(3), np.array([0.7, 1.5, 3.0]), 1e-5

    def slope(q):
        return digamma(q) - digamma(q.sum())

    differences = np.stack([(slope(q + h * e) - slope(q - h * e)) / (2.0 * h) for e in np.eye(3)])
    np.testing.assert_allclose(metric.matrix(q), differences, atol=1e-8)
    assert gammaln(q).sum() - gammaln(q.sum()) < 0.0  # of the potential itself
    K = cn.LeviCivita(metric).sectional(q, np.eye(3), np.roll(np.eye(3), 1, axis=0))
    assert (K < 0.0).all()
    with pytest.raises(ValueError, match="two outcomes"):
        spaces.dirichlet(1)
    with pytest.raises(ValueError, match="not finite"):
        metric.matrix([1.0, -0.5, 1.0])


def test_distributions_on_a_sphere():
    """2 arccos of sum (p_i q_i)^(1/2), also of three outcomes; means of coins; the border is refused."""
    metric, (p, q) = CLOSED["categorical"]
    whole = [np.append(1.0 - x.sum(), x) for x in (p, q)]
    angle = 2.0 * np.arccos(np.sqrt(whole[0] * whole[1]).sum())
    np.testing.assert_allclose(cn.distance(metric, p, q), angle, rtol=1e-12)
    hellinger = np.linalg.norm(np.sqrt(whole[0]) - np.sqrt(whole[1]))
    assert angle > 2.0 * hellinger + 1e-3
    with pytest.raises(PointError, match="outcome 0"):
        metric.matrix([0.5, 0.3, 0.2])
    coins = spaces.categorical(1)
    np.testing.assert_allclose(cn.mean(coins, [[0.2], [0.8]]).q, [0.5], rtol=1e-9)
    found = cn.mean(metric, [p, q])
    assert found.is_unique and found.radius == np.pi  # a ball of half a turn of the sphere of radius two
    np.testing.assert_allclose(found.distances, angle / 2.0, rtol=1e-9)


def test_distances_of_normal_densities():
    """Rao's closed form by arccosh, and of equal means the square root of two times a logarithm."""
    metric = spaces.normal()
    (a, s), (b, t) = (0.1, 0.5), (1.0, 2.0)
    rao = np.sqrt(2.0) * np.arccosh(1.0 + ((a - b) ** 2 / 2.0 + (s - t) ** 2) / (2.0 * s * t))
    np.testing.assert_allclose(cn.distance(metric, [a, s], [b, t]), rao, rtol=1e-12)
    np.testing.assert_allclose(cn.distance(metric, [a, s], [a, t]), np.sqrt(2.0) * np.log(t / s), rtol=1e-12)
    with pytest.raises(PointError, match="standard deviation"):
        metric.matrix([0.0, 0.0])


@pytest.mark.parametrize("name", always(list(CLOSED)[:6], "hyperboloid", "grassmann"))
def test_against_geomstats(name):
    interop.import_geomstats()
    from geomstats.geometry.grassmannian import Grassmannian
    from geomstats.geometry.hyperboloid import Hyperboloid
    from geomstats.geometry.hypersphere import Hypersphere
    from geomstats.geometry.poincare_ball import PoincareBall
    from geomstats.geometry.poincare_half_space import PoincareHalfSpace
    from geomstats.geometry.spd_matrices import SPDMatrices

    metric, points = CLOSED[name]
    theirs = {
        "half_space": lambda: PoincareHalfSpace(3),
        "ball": lambda: PoincareBall(3),
        "hyperboloid": lambda: Hyperboloid(2),
        "sphere": lambda: Hypersphere(3),
        "positive_definite": lambda: SPDMatrices(2),
        "grassmann": lambda: Grassmannian(4, 2),
    }[name]()
    if name == "positive_definite":
        points = metric.matrices(points)
    if name == "grassmann":
        spans = [np.linalg.qr(np.concatenate([np.eye(2), Z.reshape(2, 2)]))[0] for Z in points]
        points = np.stack([Y @ Y.T for Y in spans])
    unit = np.sqrt(2.0) if name == "grassmann" else 1.0  # theirs is that of projectors, tr(dP^2)
    ours = unit * cn.distance(metric, *CLOSED[name][1])
    np.testing.assert_allclose(ours, theirs.metric.dist(*points), rtol=1e-9)


@pytest.mark.further
def test_the_page():
    run_page("spaces.md", blocks=2)
