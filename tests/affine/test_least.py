"""The least member of the contorsion family, D = Alt(Gamma*), against Alt by its definition and others."""

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import systems
from cases import always
from closed_chains import legged_robot

import connections as cn
from connections import multibody as mb

_random = np.random.default_rng(3)
_F, _G = 0.15 * _random.standard_normal((2, 4, 4, 4))
#: Four dimensions: several triples, so that an exchange of indices is more than a sign.
FRAME = cn.MatrixFrame(lambda q: jnp.eye(4) + jnp.tensordot(jnp.sin(q), _F, axes=1), 4, 4)


def _mass_matrix(q, mass):
    root = jnp.eye(4) + jnp.tensordot(jnp.cos(q), _G, axes=1)
    return mass * (root @ root.T) + jnp.eye(4)


METRIC = cn.MatrixMetric(FRAME, _mass_matrix, 1.5)
LEAST = cn.least_connection(METRIC)
Q = np.array([0.3, -0.2, 0.4, 0.1])


def alternated(T):
    """Alt(T) by its definition: the signed mean over all orders of the last three indices."""
    even = {(0, 1, 2), (1, 2, 0), (2, 0, 1)}
    before = tuple(range(T.ndim - 3))
    orders = list(permutations(range(3)))
    terms = [
        (1.0 if order in even else -1.0) * np.transpose(T, (*before, *(T.ndim - 3 + np.array(order))))
        for order in orders
    ]
    return sum(terms) / 6.0


def squared(T, inner=None):
    """|T|^2 of lower components (n, n, n) in the norm of an inner product of velocities (n, n)."""
    inverse = np.eye(len(T)) if inner is None else np.linalg.inv(inner)
    return np.einsum("ijk,abc,ia,jb,kc->", T, T, inverse, inverse, inverse, optimize=True)


def random_inner(rng, n):
    root = rng.standard_normal((n, n))
    return root @ root.T + 0.1 * np.eye(n)


METRICS = {
    "a frame of functions": (METRIC, Q),
    "an orthonormal frame": (systems.SPHERE_ORTHONORMAL, np.array([0.7, 0.3])),
    "a top": (systems.TOP, np.array([0.5, -0.1, 0.7, 0.5])),
    "a product": (
        cn.ProductMetric(systems.TOP, systems.METRIC),
        np.array([0.5, -0.1, 0.7, 0.5, 0.1, 0.2, -0.1]),
    ),
}


@pytest.mark.parametrize("name", always(METRICS, "a frame of functions", "a top"))
def test_contorsion_is_alt_of_koszuls_symbols(name):
    """Not with another factor or sign; of fewer than three velocities nothing is left."""
    metric, q = METRICS[name]
    least = cn.least_connection(metric)
    symbols = np.asarray(cn.LeviCivita(metric).christoffel_symbols(q))
    D = np.asarray(least.contorsion_at(jnp.asarray(q)))
    np.testing.assert_allclose(D, alternated(symbols), atol=1e-13)
    np.testing.assert_allclose(least.contorsion(q), D, atol=1e-13)
    np.testing.assert_array_equal(D, -np.swapaxes(D, 0, 1))
    np.testing.assert_array_equal(D, -np.swapaxes(D, 1, 2))
    np.testing.assert_allclose(alternated(np.asarray(least.first_kind(q, metric))), 0.0, atol=1e-13)
    if metric.frame.dim > 2:
        assert np.abs(2.0 * D - alternated(symbols)).max() > 0.01
        assert np.abs(D + alternated(symbols)).max() > 0.01
        assert np.abs(D - symbols).max() > 0.01


def test_robots_have_it_by_their_metric(rng):
    """A floating base, whose symbols are recursions; and an arm of hinges, where it is Levi-Civita's."""
    for robot, torsion in ((mb.example("quadruped"), True), (mb.example("arm"), False)):
        q = robot.random(rng)
        D = np.asarray(cn.least_connection(robot.metric).contorsion(q))
        symbols = mb.christoffel_symbols(robot, q)
        np.testing.assert_allclose(D, alternated(symbols), atol=1e-11 * np.abs(symbols).max())
        assert (np.abs(D).max() > 0.1) == torsion


@pytest.mark.further
def test_closed_chains_have_it_in_the_frame_of_their_independent_velocities():
    """A free base whose leg is driven through a four-bar."""
    robot = legged_robot(1).build()
    q = np.asarray(robot.neutral())
    D = np.asarray(cn.least_connection(robot.metric).contorsion(q))
    np.testing.assert_allclose(D, alternated(mb.christoffel_symbols(robot, q)), atol=1e-11)
    assert np.abs(D).max() > 0.1


def test_a_ball_has_no_symbols_in_body_axes():
    """The least is the connection for which the fields that turn with the body are parallel."""
    ball, q = cn.ConstantMetric(cn.SO3Frame(), 2.0 * np.eye(3)), np.array([0.0, 0.6, 0.0, 0.8])
    least = cn.least_connection(ball)
    np.testing.assert_array_equal(least.coefficients(q), np.zeros((3, 3, 3)))
    np.testing.assert_array_equal(cn.coriolis_matrix(least, q, [1.0, 2.0, 3.0]), np.zeros((3, 3)))
    assert np.abs(cn.LeviCivita(ball).coefficients(q)).max() > 0.4
    unequal = cn.least_connection(systems.TOP)
    assert np.abs(unequal.coefficients(q)).max() > 0.1


def test_in_coordinates_it_is_levi_civitas():
    metric = cn.MatrixMetric(cn.CoordinateFrame(4), _mass_matrix, 1.5)
    least = cn.least_connection(metric)
    np.testing.assert_array_equal(least.contorsion_at(jnp.asarray(Q)), np.zeros((4, 4, 4)))
    np.testing.assert_allclose(least.first_kind(Q), cn.LeviCivita(metric).first_kind(Q), atol=1e-15)


def test_it_is_a_member_of_the_family():
    """The dynamics and the mass rate are kept, there is torsion, and beta says where the member is."""
    family = cn.ContorsionFamily(METRIC)
    assert LEAST.check_metric_compatible(Q).ok and LEAST.check_same_geodesics(Q).ok
    assert not LEAST.check_torsion_free(Q).ok
    beta = family.beta_of(LEAST.contorsion(Q), Q)
    together = family.sweep(np.stack([beta, 0.0 * beta]), lambda nabla: nabla.first_kind(Q, METRIC))
    np.testing.assert_allclose(together[0], LEAST.first_kind(Q), atol=1e-13)
    assert squared(together[0]) < squared(together[1])


@pytest.mark.parametrize("inner", ["of the array", "any", "the metric's"])
def test_every_other_member_is_larger_by_pythagoras(inner, rng):
    """|Gamma* - E|^2 = |Gamma_least|^2 + |E - D|^2 for 3-forms E, in the norm of any inner product."""
    G = {"of the array": np.eye(4), "any": random_inner(rng, 4), "the metric's": METRIC.matrix(Q)}[inner]
    symbols, D = (np.asarray(x) for x in (cn.LeviCivita(METRIC).christoffel_symbols(Q), LEAST.contorsion(Q)))
    least = np.asarray(LEAST.first_kind(Q))
    for size in (1e-3, 1.0, 1e3):
        E = D + size * alternated(rng.standard_normal((4, 4, 4)))
        other = squared(symbols - E, G)
        np.testing.assert_allclose(other, squared(least, G) + squared(E - D, G), rtol=1e-12)
        assert other > squared(least, G)
    assert (
        squared(symbols, G) > squared(least, G) < squared(symbols - 0.5 * D, G)
    )  # Levi-Civita's; a wrong factor
    general = rng.standard_normal((4, 4, 4))  # no 3-form, so that Pythagoras does not hold
    assert abs(squared(symbols - D - general, G) / (squared(least, G) + squared(general, G)) - 1.0) > 1e-3


def test_constant_changes_of_frame_keep_it_and_others_do_not(rng):
    """Under X -> X A with a constant A the contorsion is a tensor; A(q) has brackets of its own."""
    q, A = systems.points(rng), np.eye(3) + 0.3 * rng.standard_normal((3, 3))
    D = np.asarray(cn.least_connection(systems.METRIC).contorsion(q))
    carried = np.asarray(cn.least_connection(systems.METRIC.change(lambda p: jnp.asarray(A))).contorsion(q))
    np.testing.assert_allclose(carried, np.einsum("abc,ai,bj,ck->ijk", D, A, A, A), atol=1e-13)
    change = np.asarray(systems.change_of_frame(q))
    turned = np.asarray(cn.least_connection(systems.METRIC.change(systems.change_of_frame)).contorsion(q))
    assert np.abs(turned - np.einsum("abc,ai,bj,ck->ijk", D, change, change, change)).max() > 0.01


def test_inside_of_jax(rng):
    """`jit` with the connection as an argument, `vmap`, batches, and a derivative by a mass."""

    def cost(mass, q):
        return jnp.sum(
            cn.least_connection(cn.MatrixMetric(FRAME, _mass_matrix, mass)).coefficients_at(q) ** 2
        )

    h = 1e-5
    slope = float(jax.jit(jax.grad(cost))(1.5, Q))
    differences = (cost(1.5 + h, Q) - cost(1.5 - h, Q)) / (2.0 * h)
    assert slope == pytest.approx(float(differences), rel=1e-7) and abs(slope) > 1e-3
    points = Q + 0.1 * rng.standard_normal((3, 4))
    inside = jax.jit(lambda nabla, q: jax.vmap(nabla.coefficients_at)(q))(LEAST, points)
    np.testing.assert_allclose(LEAST.coefficients(points), inside, atol=1e-14)
    assert LEAST.coefficients(points).shape == (3, 4, 4, 4)


def test_what_has_no_metric():
    for given, words in (
        (FRAME, r"got a frame \(MatrixFrame\); write ConstantMetric\(frame, H\)"),
        (cn.LeviCivita(METRIC), "give the metric with which the connection was made"),
        (mb.example("arm"), "write model.metric"),
        (np.eye(3), r"write ConstantMetric\(frame, H\)"),
    ):
        with pytest.raises(TypeError, match=f"metric: expected a Metric, got .*{words}|{words}"):
            cn.least_connection(given)


# --- one rigid body, the proposition of docs/least_coriolis.md ---------------------------------------------


def largest(T, starts=24, rounds=200):
    """The largest |T(z, v, w)| over unit vectors, by turns the best z, v and w, from several starts."""
    z, v, w = np.random.default_rng(0).standard_normal((3, starts, len(T)))
    for _ in range(rounds):
        w = w / np.linalg.norm(w, axis=1, keepdims=True)
        z = np.einsum("ijk,sj,sk->si", T, v / np.linalg.norm(v, axis=1, keepdims=True), w)
        z = z / np.linalg.norm(z, axis=1, keepdims=True)
        v = np.einsum("ijk,si,sk->sj", T, z, w)
        v = v / np.linalg.norm(v, axis=1, keepdims=True)
        w = np.einsum("ijk,si,sj->sk", T, z, v)
    return np.linalg.norm(w, axis=1).max()


POSE = np.array([0.2, -0.1, 0.3, 0.5, -0.1, 0.7, 0.5])
DET = oracles.EPSILON


def body_of(moments, mass=1.0):
    """A body with these second moments about its centre of mass, where its frame has the origin."""
    moments = np.asarray(moments, float)
    return cn.ConstantMetric(cn.SE3Frame(), np.diag([*(moments.sum() - moments), *3 * [mass]]))


def test_symbols_of_a_body_in_body_axes_and_in_world_axes():
    """det(z_w, S x_w, y_w) + m det(z_v, x_w, y_v) in body axes; in world axes the mass is in none of them."""
    moments, m = np.array([0.2, 0.3, 0.5]), 1.7
    metric, J = body_of(moments, m), np.diag(moments.sum() - moments)
    expected = np.zeros((6, 6, 6))
    expected[:3, :3, :3], expected[3:, :3, 3:] = DET * moments[None, :, None], m * DET
    np.testing.assert_allclose(cn.LeviCivita(metric).first_kind(POSE), expected, atol=1e-13)
    x, y, z, w = POSE[3:]
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    R = np.eye(3) + 2.0 * w * cross + 2.0 * cross @ cross

    def to_body_axes(q):
        r, w = q[3:6], q[6]
        cross = jnp.cross(jnp.eye(3), r)  # the rows e x r: (r x)
        back = jnp.eye(3) - 2.0 * w * cross + 2.0 * cross @ cross  # R^T
        return jnp.block([[back, jnp.zeros((3, 3))], [jnp.zeros((3, 3)), back]])

    np.testing.assert_allclose(to_body_axes(jnp.asarray(POSE))[:3, :3], R.T, atol=1e-14)
    turned = metric.change(to_body_axes)
    in_world = np.zeros((6, 6, 6))
    for_axes = DET * moments[None, :, None] - np.einsum("ai,ibc->abc", J, DET)
    in_world[:3, :3, :3] = np.einsum("ijk,ai,bj,ck->abc", for_axes, R, R, R)
    np.testing.assert_allclose(cn.LeviCivita(turned).first_kind(POSE), in_world, atol=1e-13)
    D, D_world = (np.asarray(cn.least_connection(g).contorsion(POSE)) for g in (metric, turned))
    trace = np.trace(J) / 6.0
    np.testing.assert_allclose(D[:3, :3, :3], trace * DET, atol=1e-13)
    np.testing.assert_allclose(D_world[:3, :3, :3], -trace * DET, atol=1e-13)


@pytest.mark.parametrize(
    ("moments", "christoffel", "least"),
    [
        ([0.5, 0.5, 0.5], 1.0, 2 / 3),  # a ball: 3/2 up to J = 2 m
        ([0.5, 1e-6, 1e-6], 1.0, 2 / 3),  # a rod, on the boundary
        ([0.2, 0.3, 0.5], 1.0, 2 / 3),
        ([2.5, 2.5, 2.5], 2.5, 2 / 3),  # 3.75
        ([5.95, 4.95, 0.05], 5.95, 3.6),  # J = (5, 6, 10.9): 1.65
        ([1.0, 1e-6, 1e-6], 1.0, 5**0.5 / 3),  # a rod of unit moment: 3 / sqrt(5) < 3/2
    ],
)
def test_bound_of_one_body(moments, christoffel, least):
    """k_C = max(S_0, m) of Levi-Civita, and 2 m / 3 of the least where |S - tr S / 3| <= m / 3."""
    metric = body_of(moments)
    found = [
        largest(np.asarray(nabla.first_kind(POSE)))
        for nabla in (cn.LeviCivita(metric), cn.least_connection(metric))
    ]
    np.testing.assert_allclose(found, [christoffel, least], rtol=1e-5)


def test_the_least_symbols_do_not_have_the_least_bound():
    """A rod of unit moment: with the 3-form of half the moment, k_C is smaller, though |Gamma| is larger."""
    metric = body_of([1.0, 1e-6, 1e-6])
    least = cn.least_connection(metric)
    D = np.array(least.contorsion(POSE))
    D[:3, :3, :3] *= 1.5
    other = np.asarray(cn.LeviCivita(metric).first_kind(POSE)) - D
    best = np.asarray(least.first_kind(POSE))
    assert squared(other) > squared(best) and largest(other) < 0.69 < 0.74 < largest(best)
