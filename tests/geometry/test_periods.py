"""Coordinates that are one point after a period: a flat torus, a cylinder, a torus and a sphere in angles."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further

import connections as cn
from connections import control
from connections.checks import FrameError, MetricError, NonFiniteError, PointError, ShapeError
from connections.geometry.group_maps import logarithm_at
from connections.geometry.lattices import nearby

TURN = 2.0 * np.pi
FLAT, SKEW = cn.CoordinateFrame(2, periods=(1.0, 2.0)), np.array([[1.0, 0.3], [0.3, 2.0]])
CYLINDER = cn.CoordinateFrame(2, periods=(None, TURN))


def torus(frame):
    """Of revolution: q = (angle round the tube, azimuth), radii 2 and 1."""
    return cn.MatrixMetric(frame, lambda q: jnp.diag(jnp.array([1.0, (2.0 + jnp.cos(q[0])) ** 2])))


def sphere(frame):
    """q = (colatitude, longitude)."""
    return cn.MatrixMetric(frame, lambda q: jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2])))


def turned(q):
    """A frame with qdot != v, with the period 1 of q[0]."""
    c, s = jnp.cos(TURN * q[0]), jnp.sin(TURN * q[0])
    return jnp.array([[c, -s], [s, c]])


def test_what_a_frame_says_of_its_periods():
    assert (
        FLAT
        == cn.CoordinateFrame(2, [1, 2.0])
        != cn.CoordinateFrame(2)
        == cn.CoordinateFrame(2, (None, None))
    )
    assert repr(CYLINDER) == "CoordinateFrame(dim=2, periods=(None, 6.28319))"
    assert CYLINDER.periods == (None, TURN) and CYLINDER.angles == (1,) and FLAT.angles == ()
    product = cn.ProductFrame(cn.SO3Frame(), CYLINDER, cn.SO2Frame()).change(lambda q: jnp.eye(6))
    assert product.periods == (*[None] * 5, TURN, TURN) and product.angles == (5, 6)


def test_the_nearest_representative(rng):
    """By whole periods, to the bit where there is none between them; other coordinates stay."""
    q, reference = 30.0 * rng.standard_normal((2, 2))
    near = np.asarray(CYLINDER.align_at(jnp.asarray(q), jnp.asarray(reference)))
    assert near[0] == q[0] and abs(near[1] - reference[1]) <= np.pi * (1.0 + 1e-12)
    np.testing.assert_allclose(np.exp(1j * near[1]), np.exp(1j * q[1]), atol=1e-13)
    q, reference = jnp.array([0.1, 0.3]), jnp.array([0.7, 0.1])
    np.testing.assert_array_equal(CYLINDER.align_at(q, reference), q)
    e = logarithm_at(CYLINDER, jnp.array([5.0, 3.0]), jnp.array([-5.0, -3.0]))
    np.testing.assert_allclose(e, [-10.0, TURN - 6.0], atol=1e-14)


@pytest.mark.parametrize("frame", [further(FLAT), FLAT.change(turned)], ids=["coordinates", "turned"])
def test_logarithms_of_a_flat_torus_are_a_lattice(frame, rng):
    """v to q1 plus each lattice vector, in closed form; in the turned frame H is not constant."""
    metric = cn.ConstantMetric(FLAT, SKEW)
    if frame != FLAT:
        metric = cn.MatrixMetric(frame, lambda q: turned(q).T @ SKEW @ turned(q))
    nabla, p, q = cn.LeviCivita(metric), np.array([0.2, 0.1]), np.array([0.7, 0.6])
    found = cn.logarithms(nabla, p, q, 2.5, rays=32)
    turns = np.stack(np.meshgrid(*[np.arange(-9, 10)] * 2), axis=-1).reshape(-1, 2)
    lines = q - p + turns * [1.0, 2.0]
    lengths = np.sqrt(np.einsum("ki,ij,kj->k", lines, SKEW, lines))
    order = np.argsort(lengths)[: np.count_nonzero(lengths <= 2.5)]
    assert len(order) == 8 == len(found)
    np.testing.assert_allclose(found.lengths, lengths[order], rtol=1e-9)
    np.testing.assert_array_equal(found.shifts, turns[order])
    np.testing.assert_allclose(np.asarray(frame.matrix(p)) @ found.v[0], lines[order[0]], atol=1e-9)
    v = cn.logarithm(nabla, p, q + [3.0, -8.0])
    np.testing.assert_allclose(v, found.v[0], atol=1e-9)
    np.testing.assert_allclose(jax.jit(lambda x: cn.logarithm(nabla, p, x))(q), v, atol=1e-9)


def test_a_closed_geodesic_of_a_torus_of_revolution():
    """Round the outer equator either way, and by Clairaut's integral to a point beyond half of it."""
    nabla, start = cn.LeviCivita(torus(cn.CoordinateFrame(2, periods=(TURN, TURN)))), np.zeros(2)
    ends = np.array([[0.0, TURN - 1.0], [0.9, TURN - 0.4]])
    v = cn.logarithm(nabla, start, ends)
    np.testing.assert_allclose(v[0], [0.0, -1.0], atol=1e-9)
    np.testing.assert_allclose(cn.exponential(nabla, start, v) - ends, [[0.0, -TURN]] * 2, atol=1e-9)
    angle = np.linspace(0.0, 0.9, 20_001)
    radius = 2.0 + np.cos((angle[1:] + angle[:-1]) / 2.0)
    clairaut = 9.0 * v[1, 1] / np.hypot(v[1, 0], 3.0 * v[1, 1])  # r^2 dphi/ds
    rates = clairaut / (radius * np.sqrt(radius**2 - clairaut**2))
    assert rates.sum() * angle[1] == pytest.approx(-0.4, rel=1e-7)


@pytest.mark.further
def test_without_periods_a_geodesic_goes_the_other_way():
    chart = cn.LeviCivita(torus(cn.CoordinateFrame(2)))
    assert cn.logarithm(chart, [0.0, 0.0], [0.9, TURN - 0.4])[1] > 0.0


def test_distances_and_means_of_a_sphere_in_angles():
    """A longitude of 3 and one of -3 rad are near; in a chart without periods they are not."""
    metric, points = sphere(CYLINDER), np.array([[1.4, 3.0], [1.6, -3.0], [1.5, 3.1]])

    def unit(q):
        return np.stack(
            [np.sin(q[..., 0]) * np.cos(q[..., 1]), np.sin(q[..., 0]) * np.sin(q[..., 1]), np.cos(q[..., 0])],
            -1,
        )

    far = np.arccos(unit(points[0]) @ unit(points[1]))
    assert cn.distance(metric, points[0], points[1]) == pytest.approx(far, rel=1e-9)
    found = cn.mean(metric, points)
    gradient = np.asarray(cn.logarithm(cn.LeviCivita(metric), found.q, points)).sum(axis=0)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-9)
    assert found.distances.max() < 0.3


def test_a_parallel_closes_after_a_period():
    """Transport round a parallel turns by 2 pi (1 - cos theta), along a function and wrapped samples."""
    theta, t = 0.7, np.linspace(0.0, TURN, 129)
    nabla = cn.LeviCivita(sphere(CYLINDER))
    P = cn.holonomy(nabla, lambda t: jnp.array([theta, t]), 0.0, TURN)
    angle = TURN * np.cos(theta)
    np.testing.assert_allclose(P[0], [np.cos(angle), np.sin(angle) * np.sin(theta)], atol=1e-9)
    wrapped = np.stack([np.full_like(t, theta), (t + np.pi) % TURN - np.pi], axis=1)
    np.testing.assert_allclose(cn.holonomy(nabla, (t, wrapped)), P, atol=1e-7)
    with pytest.raises(PointError, match="not closed"):  # control
        cn.holonomy(cn.LeviCivita(sphere(cn.CoordinateFrame(2))), lambda t: jnp.array([theta, t]), 0.0, TURN)


def test_motions_are_not_wrapped():
    q, _ = cn.geodesic(
        cn.LeviCivita(sphere(CYLINDER)), [np.pi / 2, 3.0], [0.0, 1.0], np.linspace(0.0, 9.0, 4)
    )
    np.testing.assert_allclose(q[:, 1], [3.0, 6.0, 9.0, 12.0], atol=1e-9)


def test_references_attract_the_short_way():
    goal = lambda t: jnp.array([0.0, 3.0])  # noqa: E731
    field = control.trajectory_reference(CYLINDER, goal, gain=1.0).field
    np.testing.assert_allclose(field(0.0, jnp.array([0.0, -3.0])), [0.0, 6.0 - TURN], atol=1e-12)
    e = control.configuration_error_at(CYLINDER, jnp.array([0.0, -3.0]), jnp.array([0.0, 3.0]))
    np.testing.assert_allclose(e, [0.0, TURN - 6.0], atol=1e-12)


@pytest.mark.parametrize(
    ("periods", "error", "words"),
    [
        ((0.0, 1.0), ValueError, r"periods\[0\]: a period is a positive number"),
        ((1.0, -1.0), ValueError, r"periods\[1\]"),
        ((None, 1e-300), ValueError, r"periods\[1\]: .* between 1e-150 and 1e\+150, .* got 1e-300"),
        ((1e160, None), ValueError, r"periods\[0\]: .* got 1e\+160: take another unit"),
        ((None, np.nan), NonFiniteError, r"periods\[1\]"),
        ((1.0, np.inf), NonFiniteError, r"periods\[1\]"),
        ((1.0,), ShapeError, "periods"),
        (TURN, TypeError, "periods"),
        (("a", None), TypeError, r"periods\[0\]"),
    ],
)
def test_periods_that_are_none_are_named(periods, error, words):
    with pytest.raises(error, match=words):
        cn.CoordinateFrame(2, periods)


@pytest.mark.parametrize("exponent", [0, 30, 40, 47, 48.99])
def test_how_far_off_a_representative_is(exponent, rng):
    """By exact arithmetic: within 2 eps m, the part of the bound that is not rounding of what is given."""
    frame = cn.CoordinateFrame(1, periods=(TURN,))
    for q, p in rng.uniform(-1.0, 1.0, (50, 2)) * 2.0**exponent * TURN:
        near = float(frame.align_at(jnp.array([q]), jnp.array([p]))[0])
        shift = Fraction(near) - Fraction(q)
        gap = abs(shift - round(shift / Fraction(TURN)) * Fraction(TURN))
        far = abs(Fraction(near) - Fraction(p))
        largest = max(abs(q), abs(p), TURN)
        assert gap <= 2.0**-51 * largest and far <= TURN / 2.0 + 2.0**-50 * largest


BEYOND = 1.001 * 2.0**49  # periods: 4 eps of them is half a period


@pytest.mark.parametrize("at", [0, 1])
def test_a_point_without_digits_is_refused(at):
    """The opposite point is as near as itself; a little nearer there still are digits."""
    metric = cn.ConstantMetric(cn.ProductFrame(cn.CoordinateFrame(1), cn.SO2Frame()), np.eye(2))
    nabla, near, pair = cn.LeviCivita(metric), np.array([1e300, 1.0]), np.ones((2, 2))
    for value in (1e17, -1e17, BEYOND * TURN):
        pair[at, 1] = value
        for call in (
            lambda: cn.distance(metric, *pair),
            lambda: cn.logarithm(nabla, *pair),
            lambda: cn.logarithms(nabla, *pair, 1.0),
            lambda: cn.mean(metric, pair),
            lambda: metric.matrix(pair),
        ):
            with pytest.raises(PointError, match=r"has no digits of a point: .* a period of 6\.28319"):
                call()
        assert np.isnan(jax.jit(lambda p, q: cn.logarithm(nabla, p, q))(*map(jnp.asarray, pair))).all()
    pair[at, 1] = 0.99 / 1.001 * BEYOND * TURN
    assert cn.distance(metric, *pair) <= np.pi * 2.0
    assert metric.matrix(near).shape == (2, 2)  # control: a coordinate without a period may be that large


def test_a_metric_or_frame_without_the_periods_is_refused():
    growing = cn.MatrixMetric(FLAT, lambda q: jnp.diag(jnp.array([1.0, 1.0 + q[1] ** 2])))
    with pytest.raises(MetricError, match=r"period 2 of q\[1\]"):
        cn.logarithm(cn.LeviCivita(growing), [0.0, 0.1], [0.1, 0.2])
    other = cn.CoordinateFrame(2, periods=(1.5, None)).change(turned)
    with pytest.raises(FrameError, match=r"period 1.5 of q\[0\]"):
        cn.holonomy(
            cn.LeviCivita(cn.ConstantMetric(other, np.eye(2))), lambda t: jnp.array([t, 0.0]), 0.0, 1.5
        )


@pytest.mark.parametrize("shear", [0.0, 4.0, 40.0])
def test_distances_on_a_torus_in_oblique_coordinates(shear):
    """The square torus, whose nearest images are many turns away in these coordinates."""
    oblique = np.array([[1.0, shear], [0.0, 1.0]])
    torus = cn.ConstantMetric(cn.CoordinateFrame(2, periods=(1.0, 1.0)), oblique.T @ oblique)
    p, q = np.random.default_rng(3).random((2, 40, 2))
    ahead = (q - p) @ oblique.T
    exact = np.linalg.norm(ahead - np.round(ahead), axis=1)
    np.testing.assert_allclose(cn.distance(torus, p, q), exact, rtol=1e-11)
    by_coordinates = np.linalg.norm((q - p - np.round(q - p)) @ oblique.T, axis=1)
    assert (np.abs(by_coordinates - exact).max() > 0.1) == (shear > 0.0)  # control


def test_images_that_are_near():
    """All of them, and no others, of a lattice whose basis is long."""
    basis, offset = np.array([[1.0, 7.0], [0.0, 1.0]]), np.array([0.3, -0.2])
    found = nearby(basis, offset, 2.0)
    turns = np.stack(np.meshgrid(*[np.arange(-40.0, 41.0)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    expected = turns[np.linalg.norm(turns @ basis.T + offset, axis=1) <= 2.0]
    assert {tuple(row) for row in found} == {tuple(row) for row in expected} and len(expected) > 10
    assert nearby(basis, offset, 1e6) is None
