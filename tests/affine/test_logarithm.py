"""The logarithm: right or an error, where distances are known, in all units, through geomstats too."""

import re

import distances
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import systems
from cases import always, further
from scipy.spatial.transform import Rotation

import connections as cn
from connections.affine.logarithms.chord_guesses import Chords
from connections.affine.logarithms.conjugate import MARGIN, free_of_conjugate_points
from connections.affine.logarithms.misses import distance
from connections.affine.logarithms.ray_guesses import by_fan, directions
from connections.affine.logarithms.search import _where_the_chart_ends, shortest_geodesics
from connections.affine.logarithms.shooting import _SPREAD_LOOSER, LOOSE, MIDDLE, TIGHT, Shooting
from connections.checks import ConvergenceError, MetricError, PointError, ShapeError
from connections.interop import to_geomstats
from connections.spaces.hyperboloid_frame import HyperboloidFrame

S3 = distances.sphere(3)
TWO_SPHERES = distances.two_spheres()


def length(nabla, q0, v):
    return np.linalg.norm(np.einsum("...ij,...j->...i", Shooting.of(nabla).ground(np.atleast_2d(q0)).root, v))


# --- no wrong answer ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", always(distances.SPACES, "ellipsoid"))
def test_random_pairs(name, rng):
    """`tests/benchmarks/logarithms.py` does this a thousand times for each space."""
    space = distances.SPACES[name]() if name != "S^3" else S3
    count = 4 if name == "ellipsoid" else 8
    q0, q1 = space.pairs(rng, count)
    v, reason, _ = shortest_geodesics(space.nabla, q0, q1)
    assert np.count_nonzero(reason) <= count // 8
    found = np.flatnonzero(reason == 0)
    lengths = Shooting.of(space.nabla).ground(q0[found]).norm(v[found])
    tolerance = 1e-8 if name == "ellipsoid" else 1e-10
    np.testing.assert_allclose(lengths, space.distance(q0[found], q1[found]), rtol=tolerance)
    ends = cn.exponential(space.nabla, q0[found], v[found])
    aligned = jax.vmap(space.nabla.frame.align_at)(ends, q1[found])
    np.testing.assert_allclose(aligned, q1[found], rtol=1e-7, atol=1e-8)


@pytest.mark.further
@pytest.mark.parametrize("end", [(-3.0, 0.05, 0.0), further((-2.5, 0.3, 0.0))])
def test_the_short_way_round_the_three_sphere(end):
    """The straight line in the coordinates is the long way, past two conjugate points at once."""
    q0, q1 = np.array([0.5, 0.0, 0.0]), np.array(end)
    expected = distances.sphere_distance(q0, q1)
    assert 2.8 < expected < np.pi
    np.testing.assert_allclose(length(S3.nabla, q0, cn.logarithm(S3.nabla, q0, q1)), expected, rtol=1e-11)
    np.testing.assert_allclose(to_geomstats(S3.nabla).metric.dist(q0, q1), expected, rtol=1e-11)


@pytest.mark.further
def test_two_conjugate_points_between_two_samples():
    """On S^2 x S^2 those of both factors lie close together: no sign of a determinant changes."""
    nabla, q0 = TWO_SPHERES.nabla, np.array([0.3, 0.0, 0.0, 0.4])
    size = (1.0 + 0.3**2) / 2.0, (1.0 + 0.4**2) / 2.0 / distances.RADII[1]  # of a unit velocity
    v = np.pi * np.array([0.0, 1.02 * size[0], 1.025 * size[1], 0.0])  # past both
    q1 = np.asarray(cn.exponential(nabla, q0, v))
    found = np.asarray(cn.logarithm(nabla, q0, q1))
    np.testing.assert_allclose(length(nabla, q0, found), TWO_SPHERES.distance(q0, q1), rtol=1e-10)
    assert length(nabla, q0, found) < length(nabla, q0, v) - 0.1


@pytest.mark.further
def test_the_shortest_of_several_geodesics_without_conjugate_points(rng):
    """A flat cylinder in R^3: two geodesics lead half way round, none has a conjugate point."""
    frame = cn.MatrixFrame(
        lambda x: jnp.array([[-x[1], 0.0], [x[0], 0.0], [0.0, 1.0]]),
        2,
        3,
        project=lambda x: jnp.concatenate([x[:2] / jnp.linalg.norm(x[:2]), x[2:]]),
    )
    nabla = cn.LeviCivita(cn.ConstantMetric(frame, np.eye(2)))
    for turn in (0.3, 3.0, 3.5, 6.0):
        v = np.asarray(cn.logarithm(nabla, [1.0, 0.0, 0.0], [np.cos(turn), np.sin(turn), 0.5]))
        np.testing.assert_allclose(v, [(turn + np.pi) % (2.0 * np.pi) - np.pi, 0.5], atol=1e-9)


def test_both_quaternions_of_a_rotation(rng):
    """A flat top's shortest turn may be the one of more than half a turn about its slow axis."""
    q0, w = oracles.random_quaternion(rng), rng.standard_normal(3)
    w *= 0.9 * np.pi / np.linalg.norm(w)
    q1 = (Rotation.from_quat(q0) * Rotation.from_rotvec(w)).as_quat()
    for end in (q1, -q1):
        np.testing.assert_allclose(cn.logarithm(systems.BI_INVARIANT_NABLA, q0, end), w, atol=1e-8)


@pytest.mark.further
def test_what_is_conjugate_is_refused():
    """On every sphere all geodesics of length pi meet."""
    beyond = "no minimizing geodesic .* was found"
    with pytest.raises(ConvergenceError, match=beyond):
        cn.logarithm(S3.nabla, [0.5, 0.0, 0.0], [-2.0, 0.0, 0.0])
    with pytest.raises(ConvergenceError, match=beyond):
        cn.logarithm(TWO_SPHERES.nabla, [0.5, 0.0, 0.1, 0.0], [-2.0, 0.0, 0.3, 0.0])
    with pytest.raises(ConvergenceError, match=beyond):
        cn.logarithm(systems.SPHERE_NABLA, [1.2, 0.3], [np.pi - 1.2, 0.3 + np.pi])


def test_where_no_geodesic_leads():
    """The punctured plane, unrolled: straight lines turn by less than pi about the origin."""
    nabla = systems.UNROLLED_PLANE_NABLA
    v = np.asarray(cn.logarithm(nabla, [0.0, 0.0], [0.0, 2.0]))
    np.testing.assert_allclose(v, [np.cos(2.0) - 1, np.sin(2.0)], atol=1e-8)
    with pytest.raises(ConvergenceError):
        cn.logarithm(nabla, [0.0, 0.0], [0.0, 3.5])


# --- the proof ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [TIGHT, MIDDLE, LOOSE])
def test_the_proof_ends_where_the_conjugate_point_is(tol, rng):
    """On S^3 at pi, of multiplicity two, which no determinant sees; for steps of all sizes."""
    past = np.array([0.1, 0.9, 1.0 - 3.0 * MARGIN, 1.0 - 0.3 * MARGIN, 1.0 + MARGIN, 1.05, 2.05])
    v = rng.standard_normal((len(past), 3))
    q0 = np.tile([0.5, 0.0, 0.0], (len(past), 1))
    v *= (past * np.pi / np.linalg.norm(v, axis=1) * (1.25 / 2.0))[:, None]
    shooting = Shooting.of(S3.nabla)
    shots = shooting.spread(shooting.ground(q0), v, tol, keep=True)
    assert shots.ok.all()
    proven = free_of_conjugate_points(shots.pieces, len(past))
    exact = slice(None) if tol == TIGHT else [0, 1, 5, 6]
    np.testing.assert_array_equal(proven[exact], (past < 1.0 - MARGIN)[exact])


def test_a_geodesic_that_is_not_finite_is_not_proven():
    shooting = Shooting.of(S3.nabla)
    start, v = shooting.ground(np.zeros((1, 3))), np.array([[0.3, 0.1, 0.2]])
    shots = shooting.spread(start, v, MIDDLE, keep=True)
    assert free_of_conjugate_points(shots.pieces, 1).all()
    broken = shots.pieces.spread.copy()
    broken[0, 3, 0, 0] = np.nan
    assert not free_of_conjugate_points(shots.pieces._replace(spread=broken), 1).any()


def test_derivatives_of_the_exponential_are_its_derivatives(rng):
    """The top's, in a frame with nq > n, against central differences of the exponential."""
    shooting = Shooting.of(systems.TOP_NABLA)
    q, v = oracles.random_quaternion(rng)[None], np.array([[0.3, -0.5, 0.4]])
    start = shooting.ground(q)
    spread = shooting.spread(start, v, TIGHT).linear[0, :4]
    step = 1e-4 * start.basis[0].T
    six = start.take(np.zeros(6, dtype=int))
    ends = shooting.geodesics(six, v + np.concatenate([step, -step]), TIGHT).q
    np.testing.assert_allclose(spread.T, (ends[:3] - ends[3:]) / 2e-4, atol=1e-7)


@pytest.mark.further
def test_transport_of_the_engine_is_parallel_transport():
    z, q0, v0 = np.array([[0.2, 0.7, -0.4]]), np.array([[0.1, -0.2, 0.3]]), np.array([[0.5, -0.4, 0.3]])
    shooting = Shooting.of(systems.GENERAL)
    shots = shooting.carry(shooting.ground(q0), v0, 1e-9 * z, TIGHT)
    times = np.array([0.0, 1.0])
    points, carried, _ = cn.transport_flow(systems.GENERAL, q0[0], v0[0], z[0], times)
    np.testing.assert_allclose(shots.q[0], points[-1], atol=1e-9)
    np.testing.assert_allclose(1e9 * shots.linear[0, 3:, 0], carried[-1], atol=1e-9)


# --- units -------------------------------------------------------------------------------------------------

SCALES = [1e-300, 1e-10, 1e-6, 1.0, 1e9]


def disc(scale):
    """The Poincare disc in units of its radius: distances do not depend on them."""

    def matrix(q):
        x = q / scale
        return 4.0 * jnp.eye(2) / (1.0 - x @ x) ** 2 / scale**2

    return cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), matrix))


@pytest.mark.parametrize("scale", [further(1e-100), further(1e-10), further(1e-6), 1e9])
def test_units_of_the_coordinates(scale):
    nabla, q0, q1 = disc(scale), scale * np.array([0.1, 0.2]), scale * np.array([-0.5, 0.6])
    gap = np.linalg.norm((q1 - q0) / scale) ** 2
    rest = (1.0 - np.linalg.norm(q0 / scale) ** 2) * (1.0 - np.linalg.norm(q1 / scale) ** 2)
    expected = np.arccosh(1.0 + 2.0 * gap / rest)
    np.testing.assert_allclose(length(nabla, q0, cn.logarithm(nabla, q0, q1)), expected, rtol=1e-11)
    np.testing.assert_allclose(to_geomstats(nabla).metric.dist(q0, q1), expected, rtol=1e-11)


@pytest.mark.further
def test_points_close_together_far_from_the_origin():
    """As far as the coordinates can tell."""
    flat = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.diag(1.0 + 0.0 * q)))
    q0, step = np.array([1000.0, -3.0]), np.array([2.0**-30, 2.0**-33])
    np.testing.assert_allclose(cn.logarithm(flat, q0, q0 + step), step, atol=np.spacing(1000.0))


@pytest.mark.further
def test_coordinates_of_different_units():
    """Colatitude in radians, longitude in units of 1e-9."""
    nabla = systems.SPHERE_NABLA.change(lambda q: jnp.diag(jnp.array([1.0, 1.0])))
    mixed = cn.LeviCivita(
        cn.MatrixMetric(
            cn.CoordinateFrame(2), lambda q: jnp.diag(jnp.array([1.0, 1e-18 * jnp.sin(q[0]) ** 2]))
        )
    )
    q0, q1 = np.array([1.2, 0.3]), np.array([0.9, 1.4])
    v = np.asarray(cn.logarithm(nabla, q0, q1))
    w = np.asarray(cn.logarithm(mixed, q0 * [1.0, 1e9], q1 * [1.0, 1e9]))
    np.testing.assert_allclose(w, v * [1.0, 1e9], rtol=1e-9)


@pytest.mark.parametrize("units", [further((1e9, 1e-6, 1e-6)), further((1e-6, 1.0, 1e9))])
def test_three_coordinates_of_different_units(units):
    """Of S^3, from the origin and to it, where round-off of a large coordinate exceeds a small one."""
    units = np.array(units)

    def matrix(q):
        x = q / units
        return 4.0 / (1.0 + x @ x) ** 2 * jnp.diag(1.0 / units**2)

    nabla = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(3), matrix))
    q0 = np.array([[0.1, 0.2, -0.1], [0.0, 0.0, 0.0], [0.4, -0.3, 0.2]])
    q1 = np.array([[0.4, -0.3, 0.2], [0.1, 0.2, -0.1], [0.0, 0.0, 0.0]])
    found = cn.logarithm(nabla, q0 * units, q1 * units)
    lengths = Shooting.of(nabla).ground(q0 * units).norm(found)
    np.testing.assert_allclose(lengths, distances.sphere_distance(q0, q1), rtol=1e-11)
    np.testing.assert_allclose(found, units * np.asarray(cn.logarithm(S3.nabla, q0, q1)), rtol=1e-9)
    ends = cn.exponential(nabla, q0 * units, 0.9 * found)
    assert (np.abs(ends / units - q1).max(axis=1) > 1e-3).all()  # 0.9 of it does not lead there


@pytest.mark.further
def test_units_of_a_product_with_rotations(rng):
    """Quaternions have a normal direction, whose length depends on no unit of the chart."""
    q0, w = oracles.random_quaternion(rng), np.array([0.9, -0.7, 1.1])
    q1 = (Rotation.from_quat(q0) * Rotation.from_rotvec(w)).as_quat()
    ends = np.array([0.1, 0.2]), np.array([-0.5, 0.6])
    product = cn.ProductConnection(systems.BI_INVARIANT_NABLA, disc(1e-6))
    v = cn.logarithm(product, *(np.append(q, 1e-6 * x) for q, x in zip((q0, q1), ends, strict=True)))
    np.testing.assert_allclose(v[:3], w, atol=1e-9)
    np.testing.assert_allclose(1e6 * v[3:], cn.logarithm(disc(1.0), *ends), rtol=1e-8)


# --- other connections -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [further("ADMISSIBLE"), further("METRIC_ONLY"), "GENERAL"])
def test_connections_with_other_geodesics(name):
    nabla, v = getattr(systems, name), np.array([0.25, -0.2, 0.15])
    q0 = np.array([0.1, -0.2, 0.3])
    np.testing.assert_allclose(cn.logarithm(nabla, q0, cn.exponential(nabla, q0, v)), v, atol=1e-9)


@pytest.mark.further
def test_products_frames_and_torsion_free_parts():
    """Each measures vectors as what it is made of."""
    q0, q1 = np.array([1.2, 0.3]), np.array([0.9, 1.4])
    expected = np.asarray(cn.logarithm(systems.SPHERE_NABLA, q0, q1))
    product = cn.ProductConnection(systems.SPHERE_NABLA, systems.HALF_PLANE_NABLA)
    far = np.array([0.0, 1.0]), np.array([4.0, 0.7])
    v = np.asarray(cn.logarithm(product, np.concatenate([q0, far[0]]), np.concatenate([q1, far[1]])))
    np.testing.assert_allclose(v[:2], expected, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(v[2:]), oracles.half_plane_distance(*far), rtol=1e-10)
    changed = systems.SPHERE_NABLA.change(lambda q: jnp.diag(jnp.stack([2.0, 1.0 / jnp.sin(q[0])])))
    half = cn.logarithm(cn.torsion_free_part(changed), q0, q1)
    np.testing.assert_allclose(half, expected / [2.0, 1.0 / np.sin(1.2)], atol=1e-9)


# --- calls -------------------------------------------------------------------------------------------------


@pytest.mark.further
def test_batches_broadcast_and_equal_starts_share_a_fan(rng):
    q0 = np.array([0.5, 0.0, 0.0])
    ends = S3.pairs(rng, 6)[0].reshape(2, 3, 3)
    v = np.asarray(cn.logarithm(S3.nabla, q0, ends))
    assert v.shape == (2, 3, 3)
    np.testing.assert_allclose(v[1, 2], cn.logarithm(S3.nabla, q0, ends[1, 2]), rtol=1e-10)
    assert cn.logarithm(S3.nabla, q0, np.zeros((0, 3))).shape == (0, 3)


def test_later_calls_compile_nothing(rng):
    q0, q1 = S3.pairs(rng, 2)
    cn.logarithm(S3.nabla, q0[0], q1[0])
    counted = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: counted.append(name))
    cn.logarithm(S3.nabla, q0[1], q1[1])
    assert not [name for name in counted if "compil" in name]


def test_bad_points_are_named():
    with pytest.raises(ShapeError, match="q1"):
        cn.logarithm(S3.nabla, [0.5, 0.0, 0.0], [0.5, 0.0])
    with pytest.raises(PointError):
        cn.logarithm(systems.TOP_NABLA, [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.5, 1.0])
    with pytest.raises(MetricError):
        cn.logarithm(systems.SPHERE_NABLA, [1.0, 0.0], [0.0, 0.0])


def test_the_straight_line_bounds_the_fan():
    """Its length in the half plane, horizontally and vertically; directions come in opposite pairs."""
    shooting = Shooting.of(systems.HALF_PLANE_NABLA)
    start, end = (shooting.ground(np.array(q)) for q in ([[0.0, 2.0], [1.0, 0.5]], [[3.0, 2.0], [1.0, 4.0]]))
    chords = Chords(shooting, start, end)
    np.testing.assert_allclose(chords.length, [1.5, np.log(8.0)], rtol=1e-3)
    middle = chords.nodes(1, np.linspace(0.0, 1.0, 3)).q[1]
    np.testing.assert_allclose(middle, [1.0, np.sqrt(2.0)], rtol=1e-2)
    for n, count in ((1, 2), (2, 32), (3, 62), (6, 62)):
        unit = directions(n, count)
        assert unit.shape == (count, n)
        np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1.0)
        np.testing.assert_allclose(unit.sum(axis=0), 0.0, atol=1e-12)


def test_a_small_difference_along_the_normal_has_its_length():
    """On a sphere in space, and of three along it and four across it, five."""
    frame, q = jnp.eye(3)[:, :2], jnp.array([0.0, 0.0, 1.0])
    for gap, size in (([0.0, 0.0, 4.0], 4.0), ([3.0, 0.0, 4.0], 5.0)):
        np.testing.assert_allclose(distance(jnp.array(gap), q, frame, frame.T, jnp.eye(2)), size)


def test_no_direction_is_far_from_a_ray(rng):
    """Of 62 rays; every second one leaves larger gaps. Halton's points leave 28, 45, 52 and 56 degrees."""
    for n, degrees in ((3, 28.0), (4, 45.0), (5, 52.0), (6, 59.0)):
        some = rng.standard_normal((20_000, n))
        some /= np.linalg.norm(some, axis=1)[:, None]
        rays = directions(n, 62)
        gaps = [np.degrees(np.arccos((some @ few.T).max(axis=1).min())) for few in (rays, rays[::2])]
        assert gaps[0] < degrees < gaps[1]


def test_the_straight_line_is_a_ray_of_each_pair():
    """In the plane it is the answer, which no ray of a fan of four is."""
    shooting = Shooting.of(cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2))))
    q0, q1 = np.array([[0.0, 0.0], [5.0, 1.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [4.0, 1.8], [-1.0, 2.0]])
    pair, w = by_fan(Chords(shooting, shooting.ground(q0), shooting.ground(q1)), np.arange(3), 4, 1)
    np.testing.assert_array_equal(pair, np.arange(3))
    np.testing.assert_allclose(w, q1 - q0, rtol=1e-2)


@pytest.mark.further
def test_the_error_of_a_column_is_judged_by_its_own_size():
    """Of length 3, off by 6 tol: twice what is allowed, where it is carried along."""
    shooting = Shooting.of(cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2))))
    y, error = np.zeros(8), np.zeros(8)  # q, v, and the column of both
    y[2], y[7], error[7] = 1.0, 3.0, 6e-9
    for mode, allowed in (("carry", 1.0), ("spread", _SPREAD_LOOSER)):
        found = shooting._error_at(mode, y, error, 0.0 * error, 1.0, 1e-9)
        np.testing.assert_allclose(found, 2.0 / allowed)


@pytest.mark.further
@pytest.mark.parametrize("start", [further(0.0), 0.3])
def test_far_out_on_the_hyperboloid(start):
    """There are no conjugate points; round-off of coordinates of 1e4 is no distance from the point."""
    frame = HyperboloidFrame(2)
    nabla = cn.LeviCivita(cn.ConstantMetric(frame, np.eye(2)))
    q0 = np.array([np.cosh(start), 0.6 * np.sinh(start), 0.8 * np.sinh(start)])
    direction = np.array([0.8, -0.6])
    for length in (1.0, 6.0, 9.8):
        there = np.cosh(length) * q0 + np.sinh(length) * np.asarray(frame.matrix(q0)) @ direction
        q1 = np.append(np.sqrt(1.0 + there[1:] @ there[1:]), there[1:])
        v = cn.logarithm(nabla, q0, q1)
        np.testing.assert_allclose(v, length * direction, atol=1e-13 * np.exp(2.0 * length) + 1e-9)
        end = np.asarray(cn.exponential(nabla, q0, v))
        np.testing.assert_allclose(end, q1, rtol=1e-15 * np.exp(2.0 * length) + 1e-9)


# --- next to conjugate points ------------------------------------------------------------------------------

ANGLES = cn.MatrixMetric(
    cn.CoordinateFrame(2, periods=(None, 2.0 * np.pi)),
    lambda q: jnp.diag(jnp.stack([jnp.ones(()), jnp.sin(q[0]) ** 2])),
)


def near_the_antipode(away, bearing):
    """A point (theta, phi), one that is `away` from its antipode, and the velocity that leads there."""
    q0 = np.array([1.1, 0.3])
    q1 = np.array([np.pi - q0[0], q0[1] + np.pi]) + away * np.array(
        [np.cos(bearing), np.sin(bearing) / np.sin(q0[0])]
    )

    def point(q):
        return np.array([np.sin(q[0]) * np.cos(q[1]), np.sin(q[0]) * np.sin(q[1]), np.cos(q[0])])

    x, y = point(q0), point(q1)
    across = y - (x @ y) * x
    length = np.arctan2(np.linalg.norm(across), x @ y)
    south = np.array([np.cos(q0[0]) * np.cos(q0[1]), np.cos(q0[0]) * np.sin(q0[1]), -np.sin(q0[0])])
    east = np.array([-np.sin(q0[1]), np.cos(q0[1]), 0.0])
    v = length / np.linalg.norm(across) * np.array([across @ south, across @ east / np.sin(q0[0])])
    return q0, q1, v, length


@pytest.mark.parametrize("away", [further(1e-2), further(1e-3), 1e-4, further(1e-5)])
@pytest.mark.parametrize("bearing", [0.7, further(2.5), further(4.0)])
def test_points_next_to_the_antipode_have_logarithms(away, bearing):
    """The condition grows by 1 / away, and digits are lost by it; the length loses none."""
    q0, q1, v, length = near_the_antipode(away, bearing)
    nabla = cn.LeviCivita(ANGLES)
    np.testing.assert_allclose(cn.logarithm(nabla, q0, q1), v, rtol=0.0, atol=1e-12 / away)
    assert cn.distance(ANGLES, q0, q1) == pytest.approx(length, abs=1e-12)
    found = cn.logarithms(nabla, q0, q1, 4.0)
    np.testing.assert_allclose(found.lengths, [length, 2.0 * np.pi - length], rtol=1e-10)
    assert found.indices.tolist() == [0, 1] and not found.nullities.any() and not found.is_cut
    assert found.lengths[1] - found.lengths[0] > 1.5 * away  # control: lengths tell them apart


@pytest.mark.parametrize("away", [further(1e-6), 1e-7, further(1e-9)])
def test_points_that_are_all_but_conjugate_are_refused_with_the_condition_number(away):
    """No digit of the velocity is sure; the distance is right, and no other reason is given."""
    q0, q1, _, length = near_the_antipode(away, 0.7)
    with pytest.raises(ConvergenceError, match="all but conjugate") as refused:
        cn.logarithm(cn.LeviCivita(ANGLES), q0, q1)
    number = float(str(refused.value).split("velocity is ")[1].split(";")[0])
    assert 0.5 < number * away / np.pi < 2.0
    assert cn.distance(ANGLES, q0, q1) == pytest.approx(length, abs=max(1e-12, 2.0 * min(away, 2e-10)))


def test_the_three_sphere_next_to_the_antipode():
    """All guesses lead beyond the conjugate point; opposite to what they find, the shortest one leaves."""
    away, ahead = 1e-3, np.array([0.2, -0.9, 0.4])
    metric = cn.MatrixMetric(cn.CoordinateFrame(3), lambda x: 4.0 / (1.0 + x @ x) ** 2 * jnp.eye(3))
    nabla, q0 = cn.LeviCivita(metric), np.array([0.2918, 1.0445, -0.1455])
    antipode = -q0 / (q0 @ q0)
    q1 = antipode + away * ahead * (1.0 + antipode @ antipode) / 2.0

    def point(x):
        return np.append(2.0 * x, 1.0 - x @ x) / (1.0 + x @ x)

    length = np.pi - 2.0 * np.arcsin(np.linalg.norm(point(q0) + point(q1)) / 2.0)
    v = cn.logarithm(nabla, q0, q1)
    assert np.sqrt(metric.inner(q0, v, v)) == pytest.approx(length, abs=1e-11)
    # Control: the long one leads there, too, and is none.
    np.testing.assert_allclose(
        cn.exponential(nabla, q0, -v * (2.0 * np.pi - length) / length), q1, atol=1e-10
    )


def test_a_pole_of_the_chart_on_the_way_is_named():
    """What comes near q1 passes the pole; away from it nothing of the kind is said."""
    nabla, q0 = cn.LeviCivita(ANGLES), np.array([1.1, 0.3])
    found = _where_the_chart_ends(nabla, q0, np.array([0.4, 0.3 + np.pi]))
    theta = float(re.search(r"passes \[ *([^ ]+) .*spaces.sphere\(n, pole=\)", found)[1])
    assert abs(theta) < 0.01
    assert not _where_the_chart_ends(nabla, q0, np.array([0.4, 1.3]))  # control


@pytest.mark.further
def test_a_shortest_geodesic_through_a_pole_is_refused_by_name():
    with pytest.raises(ConvergenceError, match="as polar coordinates do at the pole"):
        cn.logarithm(cn.LeviCivita(ANGLES), [1.1, 0.3], [0.4, 0.3 + np.pi])


def test_conjugate_points_behind_a_pole_of_the_chart():
    """A great circle that passes the pole at 1e-6 has one after half a turn; its round-off there is named."""
    nabla, q0, away = cn.LeviCivita(ANGLES), np.array([1.1, 0.3]), 1e-6
    v = np.array([np.cos(away), np.sin(away) / np.sin(q0[0])])
    found = cn.conjugate_times(nabla, q0, v, 4.0)
    assert found.index == 1 and abs(found.times[0] - np.pi) < found.errors[0] < 1e-2
    assert cn.conjugate_times(nabla, q0, v, 3.0).index == 0  # control: the pole itself is none
    found = cn.logarithms(nabla, q0, [1.2, q0[1] + np.pi + away], 4.5, rays=32)
    np.testing.assert_allclose(found.lengths, [2.3, 2.0 * np.pi - 2.3], atol=1e-9)
    assert found.indices.tolist() == [0, 1] and not found.nullities.any()
