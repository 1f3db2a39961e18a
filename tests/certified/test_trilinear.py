"""Norms of trilinear forms: known ones, values at random vectors, gauges that change nothing."""

import numpy as np
import pytest
from cases import always
from coriolis_oracles import largest_of_planar_arm

from connections import certified
from connections.certified.trilinear import Gauge, attained, best_gauge
from connections.checks import MetricError, NonFiniteError, ShapeError

EPSILON = np.cross(np.eye(3)[:, None], np.eye(3)[None]).transpose(2, 0, 1)


def orthogonal(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def decomposable(rng, weights):
    """sum_r w_r a_r b_r c_r with orthonormal a, b, c: its norm is the largest weight."""
    n = len(weights)
    return np.einsum("r,ir,jr,kr->ijk", weights, *(orthogonal(rng, n) for _ in range(3)))


def planar_arm(rng):
    """C v = (-2 v_1 v_2 - v_2^2, v_1^2) of a planar arm at a right angle, turned."""
    form = np.zeros((2, 2, 2))
    form[0, 0, 1] = form[0, 1, 0] = form[0, 1, 1] = -1.0
    form[1, 0, 0] = 1.0
    turn = orthogonal(rng, 2)
    return np.einsum("ijk,ia,jb,kc->abc", form, turn, turn, turn)


KNOWN = {
    "cross product": (lambda rng: EPSILON, 1.0),
    "turned cross product": (lambda rng: np.einsum("ijk,ia->ajk", EPSILON, orthogonal(rng, 3)), 1.0),
    "decomposable": (lambda rng: decomposable(rng, np.array([1.0, -3.0, 2.9, 0.1])), 3.0),
    "product": (lambda rng: np.einsum("i,j,k->ijk", *np.eye(4)[[0, 2, 1]] * 2.0), 8.0),
    "planar arm": (planar_arm, largest_of_planar_arm()),
    "one entry": (lambda rng: np.full((1, 1, 1), -2.5), 2.5),
    "zero": (lambda rng: np.zeros((2, 3, 4)), 0.0),
    "matrix": (lambda rng: np.diag([1.0, 5.0, 2.0])[:, :, None], 5.0),
}


@pytest.mark.parametrize("name", always(KNOWN, *KNOWN))
def test_forms_whose_norm_is_known(name, rng):
    """The norm lies in an interval of 1e-5 of it, also for tiny and huge numbers."""
    form, norm = KNOWN[name]
    for scale in (1.0, 1e-200, 1e150):
        found = certified.trilinear_norm(scale * form(rng), rtol=1e-6)
        assert found.lower <= scale * norm * (1.0 + 1e-12) and scale * norm * (1.0 - 1e-12) <= found.upper
        assert found.upper - found.lower <= 1e-5 * scale * norm


def test_unfoldings_do_not_reach_it():
    """The control: without a gauge, |x x y| <= 1.414 |x| |y| is all that is proved."""
    assert Gauge(np.zeros((9, 9)), (3, 3)).bounds(EPSILON[None])[0] == pytest.approx(2**0.5)


@pytest.mark.parametrize("shape", always([(5, 5, 5), (2, 4, 3), (7, 3, 1)], (5, 5, 5), (2, 4, 3), (7, 3, 1)))
def test_random_forms(shape, rng):
    """The lower end is the value at the directions; no vectors exceed the upper one; the gap is closed."""
    T = rng.standard_normal(shape)
    found = certified.trilinear_norm(T, rtol=1e-3)
    z, x, y = found.directions
    for vector in found.directions:
        assert np.linalg.norm(vector) == pytest.approx(1.0)
    assert np.einsum("ijk,i,j,k->", T, z, x, y) == pytest.approx(found.lower, rel=1e-9)
    assert found.lower <= found.upper <= 1.002 * found.lower
    x, y = (rng.standard_normal((20_000, n)) for n in shape[1:])
    values = np.linalg.norm(np.einsum("ijk,pj,pk->pi", T, x, y, optimize=True), axis=1)
    assert (values <= found.upper * np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)).all()


def test_a_gauge_bounds_every_tensor(rng):
    """Of any N only the part in Lambda^2 x Lambda^2 is used; all tensors are bounded, others less sharply."""
    T, others = rng.standard_normal((4, 4, 4)), rng.standard_normal((50, 4, 4, 4))
    found, size = best_gauge(T, 0.0)
    assert found.bounds(T[None])[0] == pytest.approx(size, rel=2e-3)
    N = 0.05 * rng.standard_normal((16, 16))
    for gauge in (found, Gauge(N + N.T, (4, 4)), Gauge(N + N.T + 3.0 * np.eye(16), (4, 4))):
        lower, _ = attained(others)
        above = gauge.bounds(others)
        assert (lower <= above).all() and above.max() > 1.05 * lower.max()
        rough = gauge.bounds(others, enough=float(above.mean()))
        assert (rough >= above * (1 - 1e-9)).all()
        sharp = above > above.mean()
        np.testing.assert_allclose(rough[sharp], above[sharp], rtol=1e-12)


def test_a_matrix_that_is_no_gauge_would_prove_too_little(rng):
    """The control: with a symmetric part in P, the "bound" is below values that are attained."""
    T = rng.standard_normal((4, 4, 4))
    wrong = np.linalg.inv(np.linalg.cholesky(2.0 * np.eye(16)))
    assert np.linalg.norm(T.reshape(4, 16) @ wrong.T, 2) < attained(T[None])[0][0]


def test_in_another_inner_product(rng):
    """Neither units nor coordinates matter; without the metric they do: the control."""
    T, root, A = rng.standard_normal((4, 4, 4)), rng.standard_normal((4, 4)), rng.standard_normal((4, 4))
    A = A @ np.diag([1.0, 10.0, 100.0, 0.1])
    H = root @ root.T + 0.1 * np.eye(4)
    one = certified.trilinear_norm(T, metric=H)
    turned = np.einsum("ijk,ia,jb,kc->abc", T, A, A, A)
    other = certified.trilinear_norm(turned, metric=A.T @ H @ A)
    assert one.lower == pytest.approx(other.lower, rel=1e-8) and one.upper <= 1.002 * one.lower
    for vector in one.directions:
        assert vector @ H @ vector == pytest.approx(1.0)
    assert np.einsum("ijk,i,j,k->", T, *one.directions) == pytest.approx(one.lower)
    assert abs(certified.trilinear_norm(turned).lower / certified.trilinear_norm(T).lower - 1.0) > 0.1
    assert certified.trilinear_norm(T, metric=np.eye(4)).lower == pytest.approx(
        certified.trilinear_norm(T).lower
    )
    x = rng.standard_normal((3, 5000, 4))
    lengths = np.sqrt(np.einsum("spi,ij,spj->sp", x, H, x)).prod(axis=0)
    assert (np.abs(np.einsum("ijk,pi,pj,pk->p", T, *x, optimize=True)) <= one.upper * lengths).all()


def test_bad_arguments():
    with pytest.raises(MetricError, match="metric"):
        certified.trilinear_norm(EPSILON, metric=-np.eye(3))
    with pytest.raises(ShapeError, match="T"):
        certified.trilinear_norm(np.eye(3))
    with pytest.raises(NonFiniteError, match="T"):
        certified.trilinear_norm(np.full((2, 2, 2), np.nan))
    with pytest.raises(ValueError, match="rtol"):
        certified.trilinear_norm(EPSILON, rtol=0.0)
