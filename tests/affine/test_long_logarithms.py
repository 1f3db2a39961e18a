"""Logarithms to points so far away that the end of a geodesic is very sensitive to its velocity.

In hyperbolic space an error of the initial velocity grows by sinh(L) / L: 1e7 for L = 20 and 3e15 for 40.
The velocity itself is well conditioned. Claims: in coordinates that have the digits, the velocity is right to
1e-11, at both distances and in all directions; where the round-off of the end, or of H there, is a large
distance, the error says so. Oracle: U = d (Y - cosh(d) X) / sinh(d) on the hyperboloid, for the end as it is
rounded, with 60 digits.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from cases import always
from distances import sphere, sphere_distance
from hyperbolic import closed_form, connection, mp, start

import connections as cn
from connections.affine.logarithms import broken
from connections.affine.logarithms.broken import SENSITIVE, by_pieces
from connections.affine.logarithms.chord_guesses import Chords
from connections.affine.logarithms.misses import position_blur
from connections.affine.logarithms.search import _Search
from connections.affine.logarithms.shooting import Shooting
from connections.checks import ConvergenceError

LENGTHS = np.array([20.0, 40.0])


def chords_of(nabla, q0, q1):
    shooting = Shooting.of(nabla)
    return Chords(shooting, shooting.ground(np.atleast_2d(q0)), shooting.ground(np.atleast_2d(q1)))


def half_plane_logarithm(q1):
    """From (0, 1) to a point of floats."""
    x, y = map(mp.mpf, map(float, q1))
    c = 1 + (x**2 + (y - 1) ** 2) / (2 * y)
    d = mp.acosh(c)
    # In coordinates of the hyperboloid in which the half plane is (x, y) = (Y2, 1) / (Y0 - Y1).
    ambient = [(1 + x**2 + y**2) / (2 * y), (x**2 + y**2 - 1) / (2 * y), x / y]
    return np.array([float(d * ambient[2] / mp.sinh(d)), float(d * ambient[1] / mp.sinh(d))])


def test_the_oracle():
    for v in ([3.0, 4.0], [-1.0, 0.2], [0.0, 2.0]):
        q1 = cn.exponential(systems.HALF_PLANE_NABLA, [0.0, 1.0], v)
        np.testing.assert_allclose(half_plane_logarithm(q1), v, rtol=1e-9)


def ends(length):
    """On the horizontal line, which is exp(length / 2) long; up; down; and one in a direction of its own."""
    aside = closed_form("half plane", 2.5, [length])[0][0]
    return np.array(
        [[2.0 * np.sinh(length / 2.0), 1.0], [0.0, np.exp(length)], [0.0, np.exp(-length)], aside]
    )


@pytest.mark.further
@pytest.mark.parametrize("length", always(LENGTHS.tolist(), 40.0))
def test_the_half_plane(length):
    """Down and aside at 40, one unit in the last place of x is a distance of 50 at the end."""
    q0, q1 = np.array([0.0, 1.0]), ends(length)
    v = cn.logarithm(systems.HALF_PLANE_NABLA, q0, q1)
    np.testing.assert_allclose(v, list(map(half_plane_logarithm, q1)), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), length, rtol=1e-11)


@pytest.mark.further
def test_derivatives():
    """Of the length by the end, a unit covector there; NaN at 40, where no velocity in floats leads to q1."""
    nabla, q0 = systems.HALF_PLANE_NABLA, jnp.array([0.0, 1.0])

    def length(q1):
        return jnp.linalg.norm(cn.logarithm(nabla, q0, q1))

    aside = closed_form("half plane", 2.5, [12.0, 40.0])[0]
    slope, far = (np.asarray(jax.grad(length)(jnp.array(q1))) for q1 in aside)
    h = 1e-4 * aside[0, 1] * np.eye(2)
    sizes = [[np.linalg.norm(half_plane_logarithm(aside[0] + sign * row)) for row in h] for sign in (1, -1)]
    np.testing.assert_allclose(slope * aside[0, 1], np.subtract(*sizes) / 2e-4, atol=1e-6)
    assert np.isnan(far).all()


@pytest.mark.further
def test_random_ends(rng):
    """With hyperbolic distances from 5 to 45, from a point that is small, too."""
    for q0 in ([0.0, 1.0], [0.0, 1e-5]):
        angle, length = rng.uniform(0.0, 2.0 * np.pi, 20), rng.uniform(5.0, 45.0, 20)
        unit = np.array([closed_form("half plane", a, [L])[0][0] for a, L in zip(angle, length, strict=True)])
        q1 = np.array(q0) * [1.0, 0.0] + q0[1] * unit
        exact = np.array(list(map(half_plane_logarithm, (q1 - [q0[0], 0.0]) / q0[1])))
        v = cn.logarithm(systems.HALF_PLANE_NABLA, q0, q1)
        np.testing.assert_allclose(v, q0[1] * exact, rtol=1e-10, atol=1e-10 * q0[1])


@pytest.mark.further
@pytest.mark.parametrize("angle", [0.7, -1.2])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", ["half space", "horocyclic", "polar", "fermi"])
def test_other_coordinates(name, length, angle):
    """In two and three dimensions, with H whose entries are up to exp(80)."""
    (q0, v0), (q1, _) = start(name, angle), closed_form(name, angle, [length])
    found = cn.logarithm(connection(name), q0, q1[0])
    np.testing.assert_allclose(found, length * v0, rtol=1e-10, atol=1e-10 * length)


@pytest.mark.further
@pytest.mark.parametrize(("name", "length"), [("poincare", 20.0), ("klein", 10.0)])
def test_discs(name, length):
    """One unit in the last place of q1 is a distance of 5e-8 there."""
    (q0, v0), (q1, _) = start(name, 0.7), closed_form(name, 0.7, [length])
    found = cn.logarithm(connection(name), q0, q1[0])
    np.testing.assert_allclose(found, length * v0, rtol=1e-7, atol=1e-7 * length)


@pytest.mark.further
def test_coordinates_without_digits_are_named():
    """On the hyperboloid, entries of H cancel; the half plane, which the error suggests, has the digits."""
    q0, q1 = start("hyperboloid", 0.7)[0], closed_form("hyperboloid", 0.7, [16.0])[0]
    with pytest.raises(ConvergenceError, match="coordinates"):
        cn.logarithm(connection("hyperboloid"), q0, q1[0])
    aside = closed_form("half plane", 0.7, [20.0])[0][0]
    found = cn.logarithm(systems.HALF_PLANE_NABLA, [0.0, 1.0], aside)
    np.testing.assert_allclose(np.linalg.norm(found), 20.0, rtol=1e-11)


def test_how_much_points_are_blurred():
    """By the round-off of coordinates, and by that of entries of H that cancel."""
    small = Shooting.of(systems.HALF_PLANE_NABLA).ground(np.array([[1.0, 1.0], [1.0, 1e-17], [0.0, 1e-17]]))
    assert position_blur(small)[0] < 1e-14 < 1.0 < position_blur(small)[1] and position_blur(small)[2] < 1e-14
    q = closed_form("hyperboloid", 0.7, [5.0, 20.0])[0]
    skew = position_blur(Shooting.of(connection("hyperboloid")).ground(q))
    assert skew[0] < 1e-10 and skew[1] > 1e-2


def test_the_straight_line_has_its_length():
    """Up and down, over 18 orders of magnitude; even pieces would give 7."""
    line = chords_of(
        systems.HALF_PLANE_NABLA, np.array([[0.0, 1.0]] * 2), [[0.0, np.exp(20.0)], [0.0, np.exp(-20.0)]]
    )
    np.testing.assert_allclose(line.length, 20.0, rtol=3e-3)


# --- pieces ------------------------------------------------------------------------------------------------

S3 = sphere(3)


def great_circle(turn):
    """From (1/2, 0, 0), as 65 points of the chart in which S^3 has 4 / (1 + x^2)^2 as its metric."""
    q0 = np.array([[0.5, 0.0, 0.0]])
    v = turn * 1.25 / 2.0 * np.array([0.6, 0.0, 0.8])
    times = np.linspace(0.0, 1.0, 65)
    return q0, v, np.asarray(cn.geodesic(S3.nabla, q0[0], v, times).q)


def test_pieces_are_one_geodesic_up_to_the_conjugate_point():
    """On S^3 at pi; their velocity is that of the geodesic, and d exp does not grow."""
    for turn in (0.9 * np.pi, 1.2 * np.pi):
        _, v, points = great_circle(turn)
        bent = points + 0.01 * np.sin(np.arange(65) / 64.0 * np.pi)[:, None]
        found = broken._broken_geodesic(Shooting.of(S3.nabla), bent, 0.0)
        assert found.free == (turn < np.pi) and found.inside and found.growth < 1.1 < SENSITIVE
        np.testing.assert_allclose(found.w * 1.25 / 2.0, v, atol=1e-10)
        assert found.gaps.max() < 1e-11 and np.abs(found.error).max() < 1e-10


@pytest.mark.parametrize("fault", ["gaps", "error", "inside", "free"])
def test_what_does_not_join_is_refused(fault):
    chords = chords_of(S3.nabla, [[0.5, 0.0, 0.0]], [[-0.3, 0.4, 0.1]])
    search = _Search(chords.shooting, chords.start.q, chords.end.q)
    found = by_pieces(chords, 0)
    assert search._joins(found)
    np.testing.assert_allclose(
        np.linalg.norm(found.w), sphere_distance(chords.start.q[0], chords.end.q[0]), rtol=1e-11
    )
    wrong = {"gaps": found.gaps + 1e-8, "error": found.error + 1e-8, "inside": False, "free": False}
    assert not search._joins(found._replace(**{fault: wrong[fault]}))


@pytest.mark.further
@pytest.mark.parametrize(
    "name", always(["TOP_NABLA", "GENERAL", "SPHERE_EMBEDDED_NABLA"], "SPHERE_EMBEDDED_NABLA")
)
def test_pieces_of_other_connections(name, rng):
    """Quaternions, torsion, an embedding: exp leads to q1."""
    nabla = getattr(systems, name)
    n = nabla.frame.dim
    q0 = {
        "TOP_NABLA": [0.0, 0.0, 0.0, 1.0],
        "GENERAL": [0.1, -0.2, 0.3],
        "SPHERE_EMBEDDED_NABLA": [0.0, 0.6, 0.8],
    }[name]
    v = 0.3 * rng.standard_normal(n)
    q1 = np.asarray(cn.exponential(nabla, q0, v))
    chords = chords_of(nabla, q0, q1)
    found = by_pieces(chords, 0)
    np.testing.assert_allclose(chords.start.basis[0] @ found.w, v, atol=1e-9)


def test_growth_in_hyperbolic_space():
    """sinh(L) / L across the geodesic."""
    found = by_pieces(
        chords_of(systems.HALF_PLANE_NABLA, [[0.0, 1.0]], [[np.tanh(20.0), 1.0 / np.cosh(20.0)]]), 0
    )
    np.testing.assert_allclose(found.growth, np.sinh(20.0) / 20.0, rtol=1e-6)
    assert found.free and jnp.isfinite(found.growth)
